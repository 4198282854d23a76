"""Laws of pretraining: loss by parameters and tokens, repeated data, the critical batch; laws of a user's own runs.

Loss is in nats per token of the text and tokenizer that a law was fitted on; N counts weights without the input
embedding, D tokens. A law knows no machine and no price. A user's own runs give a law its level, where they are few,
and its factors too, where they are many that differ.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from planner.arrays import Floats
from planner.documents.quantities import parse_count
from planner.documents.tables import CsvTable, read_csv
from planner.errors import Fault, InputError, ScenarioError, raise_faults
from planner.library.schema import Architecture
from planner.loading.question import as_scenario
from planner.loading.scenario_file import change_scenario
from planner.results.subject_runs import LossCalibration, ModelSummary
from planner.scenario.open_job import OpenJob, OwnLaw
from planner.scenario.scenario import Scenario, SolveOptions, open_jobs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from planner.results.plan import Plan


FLOP_PER_WEIGHT_AND_TOKEN = 6.0
"""Forward and backward pass of one token through one weight (Kaplan et al. 2020, arXiv:2001.08361)."""

LEAST_FLOP, MOST_FLOP = 1e18, 1e22
"""Compute of the runs that the laws were fitted to, 6 N D (Hoffmann et al. 2022, arXiv:2203.15556)."""

LEAST_RATIO, MOST_RATIO = 1.0, 350.0
"""Tokens per parameter that the laws are used for; the largest of the fitted runs is 341 (arXiv:2404.10102)."""

REPEATED_TOKENS, EXCESS_PARAMETERS = 15.387756, 5.309743
"""R*: repetitions of tokens, and multiples of the parameters that unique tokens can use, after which one more is worth
1/e of the first (Muennighoff et al. 2023, arXiv:2305.16264, appendix A; fitted on C4, R^2 = 0.77)."""

MOST_EPOCHS = 40.0
"""Passes over the same tokens up to which the law of repeated data is trusted: at 44 its authors saw losses rise that
the law does not predict (arXiv:2305.16264, section 6)."""

FEWEST_UNIQUE = 1e8
"""Unique tokens of the smallest data set that the law of repeated data was fitted on (arXiv:2305.16264, section 5)."""

LAW_SPREAD = 0.05
"""Nats by which three published laws differ at their optimum between 1e18 and 1e21 FLOP: how well sizes on one data
set are distinguished."""

LEVEL_SPREAD = 0.8
"""Nats by which data sets and tokenizers move the level of a loss, either way: the widest distance of published runs on
data sets that no law was fitted on, `benchmarks/published_losses.csv`."""

OVERFIT_SPREAD = 0.1
"""A prior: nats by which a loss may be higher for each doubling of passes beyond `MOST_EPOCHS`, and for each halving of
the data set below `FEWEST_UNIQUE`."""


@dataclass(frozen=True)
class LossLaw:
    """L = e + a / N^alpha + b / D^beta."""

    e: float
    a: float
    b: float
    alpha: float
    beta: float

    def loss(self, parameters: float, tokens: float, unique: float | None = None) -> float:
        """Return the loss in nats per token of N parameters trained on D tokens, of which `unique` exist; None: all.

        With U = min(unique, D) tokens used, R_D = D / U - 1 repetitions count as
        D' = U (1 + R_D* (1 - exp(-R_D / R_D*))), and of the parameters those beyond what U tokens can use as
        N' = U_N (1 + R_N* (1 - exp(-R_N / R_N*))), where U_N is the best number for `unique` tokens, at most N, and
        R_N = N / U_N - 1 (arXiv:2305.16264, equations 5 and 6). The paper takes U_N for U tokens, which differs where
        fewer tokens are trained than exist: tokens that no run reaches would then raise the loss of new data.
        """
        parameters, tokens = self.effective(parameters, tokens, unique)
        return float(self.e + self.a / parameters**self.alpha + self.b / tokens**self.beta)

    def effective(self, parameters: float, tokens: float, unique: float | None) -> tuple[float, float]:
        """Return N' and D': the parameters and tokens that count, of which repetition makes fewer."""
        if unique is None:
            return parameters, tokens
        used = min(unique, tokens)
        usable = min(parameters, self.best_parameters(unique))
        return _worth(parameters, usable, EXCESS_PARAMETERS), _worth(tokens, used, REPEATED_TOKENS)

    def loss_at_batch(self, parameters: float, tokens: float, unique: float | None, batch: float) -> float:
        """Return the loss where a step has so many tokens: what a large batch wastes is not learnt.

        Where tokens repeat, the passes are those of the run, and each is worth less by what its batch wastes.
        """
        worth = tokens_at_law_batch(tokens, batch)
        return self.loss(parameters, worth, None if unique is None else unique * worth / tokens)

    def best_parameters(self, tokens: float) -> float:
        """Return the parameters for which a number of new tokens is the best one: G (G D)^(beta/alpha)."""
        return float(self._scale * (self._scale * tokens) ** (self.beta / self.alpha))

    @property
    def _scale(self) -> float:
        """G = (alpha a / (beta b))^(1/(alpha+beta))."""
        return float((self.alpha * self.a / (self.beta * self.b)) ** (1 / (self.alpha + self.beta)))

    def optimum(self, flop: float) -> tuple[float, float]:
        """Return the parameters and tokens of the least loss at 6 N D = `flop`, in closed form.

        N = G (C/6)^(beta/(alpha+beta)) with G = (alpha a / (beta b))^(1/(alpha+beta)), D = C / (6 N).
        """
        share = self.beta / (self.alpha + self.beta)
        parameters = self._scale * (flop / FLOP_PER_WEIGHT_AND_TOKEN) ** share
        return parameters, flop / FLOP_PER_WEIGHT_AND_TOKEN / parameters


LAWS = {
    "besiroglu": LossLaw(1.8172, 482.01, 2085.43, 0.3478, 0.3658),
    "muennighoff": LossLaw(1.87, 521.0, 1488.0, 0.3527, 0.3527),
}
"""Published laws by name: Besiroglu et al. 2024 (arXiv:2404.10102), which fits the runs of Hoffmann et al. again, and
Muennighoff et al. 2023 (arXiv:2305.16264), on C4."""


def _worth(amount: float, first: float, constant: float) -> float:
    """Return what an amount is worth of which each multiple beyond the first one is worth less: exp(-1 / constant)."""
    return first * (1 + constant * -math.expm1(-(amount / first - 1) / constant))


def loss_range(loss: float, tokens: float, unique: float | None, level: float = LEVEL_SPREAD) -> tuple[float, float]:
    """Return the least and the most that a loss may be on other data: laws, level and what repetition may do.

    2.50 after 80 passes over a data set of 50M tokens, level 0.8: 2.50 - 0.802 to 2.50 + 0.802 + 0.1 + 0.1.
    """
    spread = math.hypot(LAW_SPREAD, level)
    return loss - spread, loss + spread + repetition_spread(tokens, unique)


def repetition_spread(tokens: float, unique: float | None) -> float:
    """Return the nats by which a loss may be higher, where data repeat more, or are fewer, than the law has seen."""
    if unique is None or tokens <= unique:
        return 0.0
    doublings = max(math.log2(tokens / unique / MOST_EPOCHS), 0.0) + max(math.log2(FEWEST_UNIQUE / unique), 0.0)
    return OVERFIT_SPREAD * doublings


def known_tokens(parameters: float) -> tuple[float, float]:
    """Return the fewest and most tokens of N parameters that the laws are used for; the first may exceed the second."""
    flop = FLOP_PER_WEIGHT_AND_TOKEN * parameters
    return (max(LEAST_RATIO * parameters, LEAST_FLOP / flop), min(MOST_RATIO * parameters, MOST_FLOP / flop))


LAW_BATCH = 524_288
"""Tokens of a step up to which a loss is that of a law: the smallest batch of the fitted runs (Hoffmann et al. 2022,
arXiv:2203.15556)."""

LEAST_BATCH_TOKENS, MOST_BATCH_TOKENS = 1e9, 1e12
"""Tokens of training between which the law of the critical batch is used."""

BATCH_SIGMA = 0.8
"""Standard deviation of the logarithm of the critical batch: published laws differ by a factor of 2 to 3."""


def critical_batch(tokens: float) -> float:
    """Return the critical batch in tokens: twice the tokens of small batches, and twice the steps of large ones.

    5 x 11,730 x (D / 1e6)^0.47. Zhang et al. 2024 (arXiv:2410.21676) give 22.91 D^0.47 sequences of 512 tokens as the
    batch that costs 20 % more steps than linear scaling promises, with D in millions of tokens: 11,730 tokens. That
    is a fifth of the critical batch B of the hyperbola tokens = D (1 + batch / B) (McCandlish et al. 2018,
    arXiv:1812.06162).
    """
    return float(5 * 11_730 * (tokens / 1e6) ** 0.47)


def batch_tokens(tokens: float, batch: float, reference: float) -> float:
    """Return the tokens at a batch that are worth `tokens` at the reference batch; batches in tokens."""
    critical = critical_batch(tokens)
    return tokens * (1 + batch / critical) / (1 + reference / critical)


def tokens_at_law_batch(tokens: float, batch: float) -> float:
    """Return the tokens at the batch of the laws that are worth `tokens` at a batch of as many tokens.

    A larger batch than `LAW_BATCH` wastes some: 1e10 tokens in steps of 1e8 tokens, whose critical batch is 4.45M, are
    worth 1e10 (1 + 0.524 / 4.45) / (1 + 100 / 4.45) = 4.76e8.
    """
    if batch <= LAW_BATCH:
        return tokens
    critical = critical_batch(min(max(tokens, LEAST_BATCH_TOKENS), MOST_BATCH_TOKENS))
    return tokens * (1 + LAW_BATCH / critical) / (1 + batch / critical)


def batch_sigma(tokens: float, batch: float, reference: float) -> float:
    """Return what the critical batch's uncertainty adds to the standard deviation of the logarithm of hours."""
    critical = critical_batch(tokens)
    return BATCH_SIGMA * abs(batch / (batch + critical) - reference / (reference + critical))


def law_of(job: OpenJob) -> LossLaw:
    """Return the law of an open job."""
    given = job.loss_law
    if isinstance(given, OwnLaw):
        return LossLaw(given.e, given.a, given.b, given.alpha, given.beta)
    return LAWS[given]


def level_spread(job: OpenJob) -> float:
    """Return the nats by which the level of a loss may be off: as stated with an own law, else that of other data."""
    stated = job.loss_law.spread if isinstance(job.loss_law, OwnLaw) else None
    return LEVEL_SPREAD if stated is None else stated


def law_parameters(architecture: Architecture) -> int:
    """Return the parameters that the laws count: without the input embedding, unless it is the output head too."""
    embedding = 0 if architecture.tied_embeddings else architecture.vocab * architecture.hidden
    return architecture.parameters - embedding


# A law of own runs.

RUN_COLUMNS = ("parameters", "tokens", "loss")
"""What a table of runs must have; `unique_tokens` may be there, too."""
FEW_SPREAD = 0.25
"""Nats by which a loss may be off where fewer than `MANY_RUNS` tell only the level: as far as the published runs of
one data set lie from their mean (`benchmarks/published_losses.csv`)."""
MANY_RUNS = 6
"""Runs from which on the factors of parameters and tokens are fitted, too, and spreads are those of left-out runs."""
LEAST_REACH = 4.0
"""Ratio of the largest to the smallest parameters, and tokens, that tells their factors."""
STANDARD_DEVIATIONS = 2.0
"""A stated range is as many of them wide on either side: 95 % of runs."""


@dataclass(frozen=True)
class PretrainedRun:
    """One run that was trained from scratch: loss in nats per token of held-out text."""

    parameters: float
    tokens: float
    loss: float
    unique: float | None = None


def read_runs(path: str | Path) -> list[PretrainedRun]:
    """Return the runs of a CSV file; InputError with each cell that is no figure."""
    table = read_csv(path)
    missing = [name for name in RUN_COLUMNS if table.position(name) is None]
    if missing:
        wrong = f"no column {', '.join(missing)}"
        raise InputError(
            [Fault(table.file, 1, "header", wrong, f"give {', '.join(RUN_COLUMNS)}, and unique_tokens if known")]
        )
    faults: list[Fault] = []
    runs = list(_runs(table, faults))
    raise_faults(faults, InputError)
    if not runs:
        raise InputError([Fault(table.file, 1, "rows", "no run", "give a row per run")])
    return runs


def _runs(table: CsvTable, faults: list[Fault]) -> Iterator[PretrainedRun]:
    """Yield each row as a run, and collect what is no figure."""
    for line, row in table.rows:
        given: dict[str, float] = {}
        for name in (*RUN_COLUMNS, "unique_tokens"):
            place = table.position(name)
            text = "" if place is None else row[place].strip()
            if not text and name == "unique_tokens":
                continue
            try:
                given[name] = float(text) if name == "loss" else float(parse_count(text))
            except ValueError:
                given[name] = math.nan
            if not (math.isfinite(given[name]) and given[name] > 0):
                example = "2.95" if name == "loss" else "1.3B"
                faults.append(Fault(table.file, line, name, f"{text!r} is no figure above 0", f"write it as {example}"))
        if all(math.isfinite(value) and value > 0 for value in given.values()):
            yield PretrainedRun(given["parameters"], given["tokens"], given["loss"], given.get("unique_tokens"))


def fit_law(runs: Sequence[PretrainedRun], start: LossLaw) -> tuple[LossLaw, float, str]:
    """Return the law of runs, the nats by which a loss may be off, and what of the law was fitted.

    With fewer than `MANY_RUNS`, or alike ones, the level `e` alone moves, by the mean distance from `start`. Else
    `e`, `a` and `b` are those of least squares; exponents stay, since they take hundreds of runs. The spread is
    two standard deviations of runs that are left out of the fit one at a time, and at least that of published laws.

    Three runs that lie 0.5, 0.6 and 0.7 below a law: e is 0.6 less, and the spread 0.25.
    """
    loss = np.asarray([run.loss for run in runs])
    shares = np.asarray([_terms(run, start) for run in runs])
    reach = min(np.ptp(np.log([getattr(run, name) for run in runs])) for name in ("parameters", "tokens"))
    if len(runs) >= MANY_RUNS and reach >= math.log(LEAST_REACH):
        design = np.column_stack([np.ones(len(runs)), shares])
        (e, a, b), spread = _least_squares(design, loss)
        if min(e, a, b) > 0:
            law = LossLaw(float(e), float(a), float(b), start.alpha, start.beta)
            return law, max(spread, LAW_SPREAD), "its level and both factors"
    off = loss - start.e - shares @ np.asarray([start.a, start.b])
    e = start.e + float(np.mean(off))
    if e <= 0:
        wrong = f"losses lie {-float(np.mean(off)):.2f} nats below the law, which leaves no level above 0"
        raise InputError([Fault("runs", 0, "loss", wrong, "give losses in nats per token, not in bits")])
    spread = FEW_SPREAD
    if len(runs) >= MANY_RUNS:
        spread = max(_least_squares(np.ones((len(runs), 1)), off)[1], LAW_SPREAD)
    return LossLaw(e, start.a, start.b, start.alpha, start.beta), spread, "its level alone"


def _terms(run: PretrainedRun, law: LossLaw) -> tuple[float, float]:
    """Return what the factors of parameters and of tokens are multiplied with."""
    parameters, tokens = law.effective(run.parameters, run.tokens, run.unique)
    return parameters**-law.alpha, tokens**-law.beta


def _least_squares(design: Floats, values: Floats) -> tuple[Floats, float]:
    """Return the coefficients, and two standard deviations of values that are left out one at a time."""
    coefficients: Floats = np.asarray(np.linalg.lstsq(design, values, rcond=None)[0], dtype=float)
    lever = np.sum(design * np.linalg.pinv(design).T, axis=1)
    left_out = (values - design @ coefficients) / np.maximum(1 - lever, 1e-6)
    return coefficients, STANDARD_DEVIATIONS * float(np.sqrt(np.mean(left_out**2)))


def calibrate_losses(
    runs: str | Path | Sequence[PretrainedRun],
    scenario: Any = None,
    job: str | None = None,
    options: SolveOptions | None = None,
) -> LossCalibration:
    r"""Return the law of loss that a user's own runs support, and how it changes the choice of a scenario.

    `runs` is a CSV file with the columns `parameters` (without the input embedding, unless it is the output head, too),
    `tokens`, `loss` (nats per token) and, where data repeat, `unique_tokens`. The law of the scenario's open job is
    where the fit starts, else that of `besiroglu`.
    Raises `InputError` for tables that cannot be read, and `ScenarioError` for a scenario that leaves no model open.

    >>> table = "parameters,tokens,loss\n111M,2.22B,2.566\n256M,5.12B,2.299\n"
    >>> _ = Path("runs.csv").write_text(table)
    >>> planner.calibrate_losses("runs.csv").loss_law["e"]
    1.0719
    """
    given = read_runs(runs) if isinstance(runs, (str, Path)) else list(runs)
    asked = None if scenario is None else as_scenario(scenario)
    name, start = _start(asked, job)
    law, spread, fitted = fit_law(given, start)
    off = [run.loss - start.loss(run.parameters, run.tokens, run.unique) for run in given]
    result: LossCalibration = LossCalibration(
        runs=len(given),
        fitted=fitted,
        off_before=float(np.mean(np.abs(off))),
        off_after=float(np.mean([abs(run.loss - law.loss(run.parameters, run.tokens, run.unique)) for run in given])),
        loss_law={key: float(f"{getattr(law, key):.5g}") for key in ("e", "a", "b", "alpha", "beta")}
        | {"spread": round(spread, 3)},
    )
    if asked is None or name is None:
        return result
    from planner.solving.solve import solve

    place = next(index for index, other in enumerate(asked.jobs) if other.name == name)
    written = ", ".join(f"{key}: {value!r}" for key, value in result.loss_law.items())
    changed = change_scenario(asked, [f"jobs.{place}.loss_law={{{written}}}"])
    before, after = (_summary(solve(side, options), name) for side in (asked, changed))
    return result.model_copy(update={"scenario": asked.name, "job": name, "before": before, "after": after})


def _start(scenario: Scenario | None, job: str | None) -> tuple[str | None, LossLaw]:
    """Return the open job of a scenario and its law; without a scenario the law that open jobs have by default."""
    if scenario is None:
        return None, LAWS["besiroglu"]
    jobs = [other for other in open_jobs(scenario) if other.uses_law and job in (None, other.name)]
    if len(jobs) != 1:
        wrong = "no job that a loss decides" if not jobs else f"{len(jobs)} jobs that a loss decides"
        fix = "give one with work: {tokens: best} or work: {loss: L}" if not jobs else "name one with job"
        raise ScenarioError([Fault(scenario.name, 0, "jobs", wrong, fix)])
    return jobs[0].name, law_of(jobs[0])


def _summary(plan: Plan, job: str) -> ModelSummary:
    """Return the choice of a plan in short."""
    figures: Mapping[str, Any] = {"status": plan.status}
    if plan.jobs and (chosen := plan.assignment(job).model) is not None and plan.cost is not None:
        figures = {
            "status": plan.status,
            "architecture": chosen.architecture,
            "tokens": chosen.tokens,
            "loss": chosen.loss,
            "cost_usd": plan.cost.expected,
        }
    return ModelSummary(**figures)
