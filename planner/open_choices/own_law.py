"""A law of loss fitted to a user's own runs: its level from few of them, its factors too from many that differ."""

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
from planner.estimates.loss_laws import LAW_SPREAD, LAWS, LossLaw
from planner.loading.question import as_scenario
from planner.loading.scenario_file import change_scenario
from planner.open_choices.choice_alternatives import law_of
from planner.results.subject_runs import LossCalibration, ModelSummary
from planner.scenario.scenario import Scenario, SolveOptions, open_jobs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from planner.results.plan import Plan

RUN_COLUMNS = ("parameters", "tokens", "loss")
"""What a table of runs must have; `unique_tokens` may be there, too."""
FEW_SPREAD = 0.25
"""Nats by which a loss may be off where fewer than `MANY_RUNS` tell the level alone: as far as the published runs of
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
        what = f"no column {', '.join(missing)}"
        raise InputError(
            [Fault(table.file, 1, "header", what, f"give {', '.join(RUN_COLUMNS)}, and unique_tokens if known")]
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
        what = f"losses lie {-float(np.mean(off)):.2f} nats below the law, which leaves no level above 0"
        raise InputError([Fault("runs", 0, "loss", what, "give losses in nats per token, not in bits")])
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
    found: Floats = np.asarray(np.linalg.lstsq(design, values, rcond=None)[0], dtype=float)
    lever = np.sum(design * np.linalg.pinv(design).T, axis=1)
    left_out = (values - design @ found) / np.maximum(1 - lever, 1e-6)
    return found, STANDARD_DEVIATIONS * float(np.sqrt(np.mean(left_out**2)))


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
        what = "no job that a loss decides" if not jobs else f"{len(jobs)} jobs that a loss decides"
        fix = "give one with work: {tokens: best} or work: {loss: L}" if not jobs else "name one with job"
        raise ScenarioError([Fault(scenario.name, 0, "jobs", what, fix)])
    return jobs[0].name, law_of(jobs[0])


def _summary(plan: Plan, job: str) -> ModelSummary:
    """Return the choice of a plan in short."""
    found: Mapping[str, Any] = {"status": plan.status}
    if plan.jobs and (chosen := plan.assignment(job).model) is not None and plan.cost is not None:
        found = {
            "status": plan.status,
            "architecture": chosen.architecture,
            "tokens": chosen.tokens,
            "loss": chosen.loss,
            "cost_usd": plan.cost.expected,
        }
    return ModelSummary(**found)
