"""Models and batches of an open job, each an ordinary scenario; how dollars rise with tokens, and with serving.

The least dollars of training and serving together give a loss with fewer parameters and more tokens than the least
dollars of training alone (Sardana et al. 2024, arXiv:2401.00448, equation 3).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Self

import numpy as np

from planner.arrays import CandidateTable, Floats, Integers
from planner.candidates.candidate_enumeration import Margins, enumerate_candidates
from planner.candidates.job_candidates import JobCandidates
from planner.candidates.market import Market
from planner.candidates.screening import CandidateObjective, screen
from planner.candidates.spot_candidates import ScreenedCandidates, policy_rows
from planner.candidates.spot_search import SearchScope
from planner.configurations.grid import shape_of
from planner.configurations.recipe import sequence_of
from planner.errors import Fault, ScenarioError
from planner.library.schema import Architecture, Library
from planner.open_choices import loss_laws
from planner.open_choices.loss_laws import law_of, law_parameters
from planner.results.subject_runs import ServingCost
from planner.scenario.inference_job import InferenceJob, InferenceRequest
from planner.scenario.job import Job
from planner.scenario.open_job import OpenJob
from planner.scenario.scenario import Scenario, SolveOptions, architectures_of, decide, decide_scenario
from planner.solving.optimise_choice import optimise, try_solve
from planner.solving.prepare import PreparedScenario, prepare
from planner.units import MEGA

if TYPE_CHECKING:
    from collections.abc import Sequence


REQUESTS = 1_000_000
"""Prompts that are planned for the dollars of a token: enough hours for the start of a machine to count for little."""
GIVEN_PARAMETERS = 1e9
"""Parameters of the model that given dollars of a million tokens are for; others cost in proportion to theirs."""


def serving_cost(
    scenario: Scenario, job: OpenJob, architecture: Architecture, library: Library, market: PreparedScenario | None
) -> ServingCost | None:
    """Return what the tokens that a model serves over its life cost; None where the job names none.

    Dollars of a token are those that are given, or of a million requests of `estimate --inference`'s default lengths
    that the scenario's cheapest machine answers at full use.

    Raises
    ------
    ScenarioError
        No machine of the scenario serves the model.
    """
    tokens = job.serve_tokens
    if tokens is None:
        return None
    if job.serve_usd_per_million_tokens is not None:
        price = given_price(job.serve_usd_per_million_tokens, architecture.parameters)
        source = f"given: ${job.serve_usd_per_million_tokens:g} for 1B parameters, others in proportion"
    else:
        price, source = _estimated(scenario, job, architecture, library, market)
    return ServingCost(tokens=tokens, usd_per_million_tokens=price, usd=tokens * price / MEGA, source=source)


def given_price(usd: float, parameters: int) -> float:
    """Return dollars of a million tokens of a model, given those of one of `GIVEN_PARAMETERS`.

    Reading and writing a token take 2 FLOP per weight (arXiv:2401.00448).
    """
    return usd * parameters / GIVEN_PARAMETERS


def _estimated(
    scenario: Scenario, job: OpenJob, architecture: Architecture, library: Library, market: PreparedScenario | None
) -> tuple[float, str]:
    """Return dollars of a million tokens, and what the estimate assumes."""
    lengths = InferenceRequest()
    work = {"requests": REQUESTS, "input_tokens": lengths.input, "output_tokens": lengths.output}
    served = InferenceJob(name=job.name, kind="inference", architecture=architecture.name, work=work)  # type: ignore[arg-type]
    limits = scenario.limits.model_copy(update={"budget_usd": None, "max_hours": None, "tools": (), "fallbacks": 0})
    asked = scenario.model_copy(update={"jobs": (served,), "objective": "cost", "limits": limits})
    plan = try_solve(prepare(asked, library, market))
    if plan is None:
        wrong = f"no machine of the scenario serves {architecture.name}, so the dollars of its tokens are unknown"
        fix = "give serve_usd_per_million_tokens, for a model of 1 billion parameters"
        raise ScenarioError([Fault(scenario.name, 0, f"jobs.{job.name}.serve_tokens", wrong, fix)])
    of_each = f"{lengths.input:,} tokens read and {lengths.output:,} written a request"
    source = f"estimated: {plan.description}, always full, {of_each}, at today's prices"
    return plan.least_cost_usd / (REQUESTS * (lengths.input + lengths.output) / MEGA), source


# How the least dollars of a model rise with its tokens: a bound from one number of tokens on.


SLOPE_MARGIN = 0.97
"""What the slopes of lines are multiplied by: no policy takes more than about nine times its work, so a longer run has
more time to wait for spot. On the shipped markets dollars rise at most 2.4 % slower for it."""
LINE_MARGIN = 0.999
"""What lines and known dollars are multiplied by: grids of policies, and quantiles of drawn markets, move dollars by
less from one number of tokens to the next."""


def least_late_usd(table: CandidateTable) -> float:
    """Return the least dollars, at the confidence of the budget, of the rows of a table; infinite without any."""
    ends = [table.late_cost_usd(share) for share in (table.share_low, table.share_high)]
    return min((float(end.min()) for end in ends if len(end)), default=math.inf)


@dataclass(frozen=True)
class Rise:
    """The least dollars at a number of tokens, and lines of which the lowest bounds those at more tokens.

    A candidate that is feasible with more tokens is so with fewer. More tokens are more hours of training, each paid
    at the spot price at least; a policy that stops after the first tokens is one for these. So a candidate costs no
    less than its dollars here plus the least price of the hours between. Billing in whole steps may hide up to one
    step of that: such a candidate starts from its dollars before rounding.
    """

    usd: float
    start_usd: Floats  # (lines,), rising
    usd_per_token: Floats  # (lines,), falling

    @classmethod
    def of(cls, candidates: JobCandidates, screened: ScreenedCandidates, tokens: int) -> Self:
        """Return the rise from the screened candidates at a number of tokens."""
        least = least_late_usd(screened.table)
        fixed = np.ones(len(screened.rows), dtype=bool)
        fixed[list(screened.pieces)] = False
        rows, table = screened.rows[fixed], screened.table.rows(fixed)
        slope = _usd_per_token(candidates, rows, tokens)
        uncut = candidates.table.rows(rows)
        ends = [uncut.late_cost_usd(share) for share in (table.share_low, table.share_high)]
        start = np.minimum(*ends)
        # A policy costs no less than what was found; with whole billing steps here, it may be one only further on.
        follows = policy_rows(candidates, rows)
        start = np.where(follows, np.minimum(start, slope * tokens), start)
        start = np.where(screened.rounded[fixed], start, np.maximum(start, least))
        order = np.lexsort((slope, start))
        start, slope = start[order], slope[order]
        lowest = slope < np.concatenate([[np.inf], np.minimum.accumulate(slope)[:-1]])
        return cls(least, start[lowest], slope[lowest])

    def along(self, more_tokens: Floats) -> Floats:
        """Return dollars (n,) below which no run of that many more tokens stays."""
        lines = self.start_usd[:, None] + self.usd_per_token[:, None] * more_tokens
        return np.asarray(LINE_MARGIN * np.maximum(self.usd, lines.min(axis=0, initial=np.inf)), dtype=float)


def _usd_per_token(candidates: JobCandidates, rows: Integers, tokens: int) -> Floats:
    """Return the least dollars (n,) of a further token, of some rows at the confidence of the budget."""
    machines = ~candidates.is_managed_service[rows]
    configuration, offer = np.where(machines, candidates.configuration[rows], 0), candidates.table.offer[rows]
    hours, columns = candidates.hours.rows(rows), candidates.columns
    rent = np.fmin(columns.on_demand_usd[offer], columns.spot_usd[offer]) * candidates.table.instances[rows]
    price = rent + columns.storage_usd_per_hour(offer, hours.stored_gb)
    hours_per_token = candidates.run_hours.training_hours[configuration] / tokens
    return np.asarray(
        np.where(machines, SLOPE_MARGIN * price * hours_per_token * hours.budget_factor, 0.0), dtype=float
    )


# Models and batches of an open job, each an ordinary scenario once its tokens are given.


ONLY_DOLLARS = SearchScope(only_dollars=True, mean_markets=True)
LEAST_LATE = SearchScope(only_dollars=True, least_late=True, mean_markets=True)
"""The policies of which some plan may need the dollars, and the one of least dollars at the confidence alone."""
TOKEN_STEP = 1.002
"""Ratio of neighbouring numbers of tokens that are compared."""
TOKEN_FIGURES = 4
"""Significant figures of a number of tokens."""


def tokens_at(index: int) -> int:
    """Return a number of tokens by its place on the grid: powers of `TOKEN_STEP` with `TOKEN_FIGURES` figures."""
    value = TOKEN_STEP**index
    unit = 10.0 ** max(0, math.floor(math.log10(value)) - TOKEN_FIGURES + 1)
    return int(round(value / unit) * unit)


def index_from(tokens: float) -> int:
    """Return the place of the fewest tokens on the grid that are no fewer."""
    index = math.floor(math.log(max(tokens, 1.0)) / math.log(TOKEN_STEP)) - 10
    while tokens_at(index) < tokens:
        index += 1
    return index


def index_to(tokens: float) -> int:
    """Return the place of the most tokens on the grid that are no more."""
    index = index_from(tokens)
    return index if tokens_at(index) <= tokens else index - 1


@dataclass
class Alternative:
    """One model at one batch; what was prepared and solved of it is kept."""

    scenario: Scenario
    job: OpenJob
    architecture: Architecture
    batch: int  # sequences
    library: Library
    market: list[PreparedScenario] = field(default_factory=list)  # any alternative's candidates, for its market
    jobs: PreparedScenario | None = None  # all jobs of the scenario, where there are others, for their market
    base: PreparedScenario | None = None  # at some number of tokens, without policies on spot
    costs: dict[int, float] = field(default_factory=dict)  # tokens at the reference batch -> least late dollars
    rises: dict[int, Rise] = field(default_factory=dict)  # the same, and how dollars rise from there
    twin: Alternative | None = None  # of another job, with the same candidates and so the same dollars

    @cached_property
    def size(self) -> int:
        """Parameters that the law counts."""
        return law_parameters(self.architecture)

    @property
    def sequence(self) -> int:
        """Tokens of a sequence."""
        return sequence_of(self.job, self.architecture)

    def run_tokens(self, tokens: int) -> tuple[int, float]:
        """Return the tokens of the run that are worth `tokens` at the reference batch, and their uncertainty."""
        if not self.job.opens_batch:
            return tokens, 0.0
        batch, reference = self.batch * self.sequence, self.first_batch
        run = loss_laws.batch_tokens(tokens, batch, reference)
        return round(run), loss_laws.batch_sigma(tokens, batch, reference)

    def loss(self, tokens: int) -> float:
        """Return the loss after `tokens` at the reference batch."""
        return law_of(self.job).loss_at_batch(self.size, tokens, self.job.unique_tokens, self.first_batch)

    @property
    def first_batch(self) -> int:
        """Tokens of a step at the reference batch."""
        return int(self.job.batches[0] * self.sequence)

    def definite(self, tokens: int | None) -> Scenario:
        """Return the scenario with this model and batch; None keeps the work that is given."""
        run, sigma = (None, 0.0) if tokens is None else self.run_tokens(tokens)
        return decide_scenario(self.scenario, decide(self.job, self.architecture.name, self.batch, run, sigma))

    def prepared(self, tokens: int | None, budget_usd: float | None = None) -> PreparedScenario:
        """Return the candidates at a number of tokens, with all that a plan needs of them, within another budget."""
        scenario = self.definite(tokens)
        if budget_usd is not None:
            limits = scenario.limits.model_copy(update={"budget_usd": budget_usd})
            scenario = scenario.model_copy(update={"limits": limits})
        return prepare(scenario, self.library, self.market[0] if self.market else None)

    @cached_property
    def serving(self) -> ServingCost | None:
        """What serving the model over its life costs; None where the job does not ask for it."""
        known = self.market[0] if self.market else None
        return serving_cost(self.scenario, self.job, self.architecture, self.library, known)

    @property
    def serving_usd(self) -> float:
        """Dollars of serving, 0 where the job does not ask for them."""
        return 0.0 if self.serving is None else self.serving.usd

    def share(self, other: Alternative) -> None:
        """Share all dollars with an alternative that has the same candidates."""
        self.twin, self.costs, self.rises = other, other.costs, other.rises

    @property
    def essence(self) -> str:
        """What the candidates depend on: alternatives of one essence cost the same."""
        job = self.definite(1).jobs[0].model_copy(update={"name": ""})
        return f"{self.batch} {job.model_dump_json()}"

    def rise(self, tokens: int) -> Rise:
        """Return the least dollars at a number of tokens, as `least_usd`, and how they rise with more of them."""
        if self.twin is not None:
            return self.twin.rise(tokens)
        if tokens not in self.rises:
            candidates, screened = self._screened(tokens, LEAST_LATE)
            self.rises[tokens] = Rise.of(candidates, screened, tokens)
            self.costs[tokens] = self.rises[tokens].usd
        return self.rises[tokens]

    def least_usd(self, tokens: int) -> float:
        """Return the least dollars, at the confidence of the budget, within deadline and limits; else infinite.

        These are the candidates and limits of `prepare`, without what only a plan needs: memory and steps do not
        depend on the tokens, and of policies on spot nothing but their dollars is computed.
        """
        if tokens not in self.costs:
            if self.twin is not None:
                return self.twin.least_usd(tokens)
            # Many jobs are compared on mean markets, which bound how dollars rise; the plan of one job pays its luck.
            scope = replace(LEAST_LATE, mean_markets=self.jobs is not None)
            self.costs[tokens] = least_late_usd(self.dollar_table(tokens, scope))
        return self.costs[tokens]

    def dollar_table(self, tokens: int, scope: SearchScope = ONLY_DOLLARS) -> CandidateTable:
        """Return the screened candidates at a number of tokens, of which dollars at the confidence are right."""
        return self._screened(tokens, scope)[1].table

    def _screened(self, tokens: int, scope: SearchScope) -> tuple[JobCandidates, ScreenedCandidates]:
        """Return the candidates at a number of tokens, and what the limits leave of them."""
        scenario, candidates = self.definite(tokens), self.candidates_at(tokens)
        waiting_usd = CandidateObjective.of(scenario).waiting_usd
        market = self._market(scenario)
        return candidates, screen(
            candidates, market, scenario.limits, self.library, waiting_usd=waiting_usd, scope=scope
        )

    def candidates_at(self, tokens: int) -> JobCandidates:
        """Return the candidates at a number of tokens, on the market of all jobs."""
        scenario = self.definite(tokens)
        (job,), limits = scenario.jobs, scenario.limits
        names = [scenario_job.name for scenario_job in (scenario if self.jobs is None else self.jobs.scenario).jobs]
        margins = Margins(limits.vram_headroom, limits.budget_confidence)
        return enumerate_candidates(
            *(job, self.architecture, self._market(scenario), names, self.library, margins),
            before=_with_tokens(self._base(scenario).candidates[0], job),
        )

    def _market(self, scenario: Scenario) -> Market:
        """Return the market of all jobs."""
        return self._base(scenario).market if self.jobs is None else self.jobs.market

    def _base(self, scenario: Scenario) -> PreparedScenario:
        """Return candidates that hold for other tokens too, apart from their hours; the market is made once."""
        if self.base is None:
            known = self.market[0] if self.market else None
            self.base = prepare(scenario, self.library, known, with_policies=False)
            self.market[:] = [self.base]
        return self.base

    @property
    def candidates(self) -> JobCandidates | None:
        """Candidates at some number of tokens; None where none were looked at."""
        base = self.base if self.twin is None else self.twin.base
        return None if base is None else base.candidates[0]

    def is_paid(self, tokens: int, budget_usd: float) -> bool:
        """Whether a budget pays for as many tokens; dollars never fall as tokens rise."""
        known = self.costs.items()
        if any(have >= tokens and math.isfinite(usd) and usd <= budget_usd for have, usd in known):
            return True
        if any(have <= tokens and not (math.isfinite(usd) and usd <= budget_usd) for have, usd in known):
            return False
        usd = self.least_usd(tokens)
        return math.isfinite(usd) and usd <= budget_usd

    def objective(self, tokens: int | None, options: SolveOptions) -> float:
        """Return the least objective at a number of tokens with what serving costs; infinite if infeasible."""
        prepared = self.prepared(tokens)
        if not len(prepared.screened[0].table):
            return math.inf
        solved = optimise(prepared, options)
        least = solved.choice.first.objective if solved.rows else None
        return math.inf if least is None else least + self.serving_usd


def _with_tokens(candidates: JobCandidates, job: Job) -> JobCandidates:
    """Return candidates of the same model and batch whose memory and step times hold for other tokens.

    Hours are those of the former tokens: a confidence that no budget has lets them be computed again.
    """
    physics = replace(candidates.physics, shape=shape_of(job, candidates.architecture))
    hours = replace(candidates.run_hours, budget_confidence=math.nan)
    return replace(candidates, job=job, physics=physics, run_hours=hours)


def list_alternatives(
    scenario: Scenario, job: OpenJob, library: Library, jobs: PreparedScenario | None = None
) -> list[Alternative]:
    """Return every model of an open job at every batch, smallest first; `jobs` are all those of the scenario."""
    models = sorted(
        (library.architecture(name) for name in architectures_of(job)), key=lambda architecture: architecture.parameters
    )
    shared: list[PreparedScenario] = []
    alone = scenario.model_copy(update={"jobs": (job,)})
    return [Alternative(alone, job, model, batch, library, shared, jobs) for model in models for batch in job.batches]


# The most tokens of each model within budget and deadline, and by them the model of the least loss.
#
# Dollars never fall as tokens rise, so the most tokens of a model are found between a number that the budget pays and
# one that it does not, by its own curve of costs: every look solves the candidates of the market for that number. A
# model is left out without a search only where the tokens that it would need for the wanted loss were solved and are
# not paid for, or lie beyond what the law has seen.


EQUAL_LOSS = 0.02
"""Nats within which two sizes are as good: less than two fits of one law differ by."""
_NEAR = 1.02
"""Ratio of tokens to which a model that does not win is searched: 0.003 nats."""
MOST_GUESSES = 12
"""Looks by a straight line through the costs, before the bracket is halved each time."""


@dataclass(frozen=True)
class Found:
    """A model with the most tokens that budget and deadline allow."""

    alternative: Alternative
    tokens: int  # at the reference batch
    loss: float
    is_capped: bool  # by what the law has seen

    @property
    def usd(self) -> float:
        """Dollars at the confidence of the budget."""
        return self.alternative.least_usd(self.tokens)


def known_range(alternative: Alternative) -> tuple[int, int]:
    """Return the first and the last number of tokens on the grid that the law has seen; empty if first > last."""
    least, most = loss_laws.known_tokens(alternative.size)
    if alternative.job.batches[1:]:
        least, most = max(least, loss_laws.LEAST_BATCH_TOKENS), min(most, loss_laws.MOST_BATCH_TOKENS)
    return index_from(least), index_to(most)


def most_tokens(alternative: Alternative, budget_usd: float, least_index: int, loss_to_beat: float) -> Found | None:
    """Return the most tokens of a model that budget and deadline allow; None where not `least_index` is paid.

    A model that cannot beat a loss is searched only as closely as `_NEAR` asks.
    """
    _, last = known_range(alternative)
    if least_index > last or not alternative.is_paid(tokens_at(least_index), budget_usd):
        return None
    low, high = _bracket(alternative, least_index, last, budget_usd)
    step, was_paid, looks = 1, None, 0
    while high - low > 1:
        loses = alternative.loss(tokens_at(high)) >= loss_to_beat
        if loses and tokens_at(high) <= _NEAR * tokens_at(low):
            break
        looks += 1
        guess = _guess(alternative, low, high, budget_usd) if looks <= MOST_GUESSES else (low + high) // 2
        # Guesses creep up to the answer from one side: each on the same side goes four times as far as the last.
        guess = max(guess, low + step) if was_paid else min(guess, high - step) if was_paid is False else guess
        guess = min(high - 1, max(low + 1, guess))
        is_paid = alternative.is_paid(tokens_at(guess), budget_usd)
        low, high = (guess, high) if is_paid else (low, guess)
        step, was_paid = (4 * step if is_paid == was_paid else 1), is_paid
    tokens = tokens_at(low)
    return Found(alternative, tokens, alternative.loss(tokens), low == last)


def _bracket(alternative: Alternative, low: int, last: int, budget_usd: float) -> tuple[int, int]:
    """Return the most tokens that are known to be paid, and the fewest that are not or that no law knows."""
    high = last + 1
    for tokens, usd in alternative.costs.items():
        index = index_to(tokens)
        if math.isfinite(usd) and usd <= budget_usd:
            low = max(low, min(index, last))
        else:
            high = min(high, index)
    return low, high


def best_of(alternatives: Sequence[Alternative], budget_usd: float, slack: float = EQUAL_LOSS) -> list[Found]:
    """Return every model whose loss is at most `slack` above the least one, the least first.

    A model of equal loss that costs less comes first.
    """
    known = [alternative for alternative in alternatives if known_range(alternative)[0] <= known_range(alternative)[1]]
    flop = _affordable_flop(known, budget_usd)
    choices: list[Found] = []
    for alternative in sorted(known, key=lambda alternative: _expected_loss(alternative, budget_usd, flop)):
        least = min((choice.loss for choice in choices), default=math.inf)
        index = _index_for(alternative, least + slack)
        most = None if index is None else most_tokens(alternative, budget_usd, index, least)
        if most is not None:
            choices.append(most)
    least = min((choice.loss for choice in choices), default=math.inf)
    near = [choice for choice in choices if choice.loss <= least + slack]
    return sorted(near, key=lambda choice: (choice.loss, choice.alternative.batch, choice.alternative.size))


def tokens_for_loss(alternative: Alternative, loss: float) -> int | None:
    """Return the fewest tokens at which a model reaches a loss; None where the law has not seen such a run."""
    first, last = known_range(alternative)
    if first > last or alternative.loss(tokens_at(first)) < loss:
        return None
    index = _index_for(alternative, loss)
    return None if index is None else tokens_at(index)


def _index_for(alternative: Alternative, loss: float) -> int | None:
    """Return the place of the fewest tokens that reach a loss; None where none that the law has seen do."""
    first, last = known_range(alternative)
    if math.isinf(loss):
        return first if first <= last else None
    if first > last or alternative.loss(tokens_at(last)) > loss:
        return None
    # Losses never rise with the tokens.
    return first + bisect_left(range(first, last), True, key=lambda index: alternative.loss(tokens_at(index)) <= loss)


def _guess(alternative: Alternative, low: int, high: int, budget_usd: float) -> int:
    """Return a place between two where a straight line through the solved costs meets the budget."""
    if not math.isfinite(budget_usd):
        return (low + high) // 2
    costs = sorted((tokens, usd) for tokens, usd in alternative.costs.items() if math.isfinite(usd))
    below = [cost for cost in costs if cost[0] <= tokens_at(low)]
    above = [cost for cost in costs if cost[0] >= tokens_at(high)]
    if not below and not above:
        return (low + high) // 2
    if below and above:
        (left, left_usd), (right, right_usd) = below[-1], above[0]
        share = (budget_usd - left_usd) / max(right_usd - left_usd, 1e-9)
        return index_to(left + min(1.0, max(0.0, share)) * (right - left))
    tokens, usd = below[-1] if below else above[0]
    return index_to(tokens * budget_usd / max(usd, 1e-9))


def _affordable_flop(alternatives: Sequence[Alternative], budget_usd: float) -> float:
    """Return about as much compute as the budget buys: what the model of middle size gets for it."""
    if not math.isfinite(budget_usd) or not alternatives:
        return loss_laws.MOST_FLOP
    middle = alternatives[len(alternatives) // 2]
    tokens = tokens_at(_clipped(middle, 20.0 * middle.size))
    usd = middle.least_usd(tokens)
    flop = loss_laws.FLOP_PER_WEIGHT_AND_TOKEN * middle.size * tokens
    return flop * budget_usd / usd if math.isfinite(usd) and usd > 0 else flop


def _clipped(alternative: Alternative, tokens: float) -> int:
    """Return the place of a number of tokens, or the nearest that the law has seen."""
    first, last = known_range(alternative)
    return min(last, max(first, index_from(tokens)))


def _expected_loss(alternative: Alternative, budget_usd: float, flop: float) -> float:
    """Return the loss that one look at the costs promises: they are nearly proportional to the tokens."""
    index = _clipped(alternative, flop / loss_laws.FLOP_PER_WEIGHT_AND_TOKEN / alternative.size)
    usd = alternative.least_usd(tokens_at(index))
    if not math.isfinite(budget_usd):
        return alternative.loss(tokens_at(index))
    tokens = tokens_at(index) * budget_usd / usd if math.isfinite(usd) and usd > 0 else 0.0
    return alternative.loss(tokens_at(_clipped(alternative, tokens)))
