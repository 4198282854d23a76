"""Jobs that train the best models for one budget: ladders of token counts, the program over them, refined to a proof.

A rung is a model at a number of tokens with the candidates of the market for it; its loss is a coefficient of these
candidates. Dollars never fall and losses never rise with the tokens. So whatever lies between a rung and the next one
costs at least as much as the rung, and loses at least what one step below the next rung does. The program with these
least losses is a bound of every finer ladder, down to each number of tokens on the grid.

Known are the least dollars of each model at a few numbers of tokens. Three curves on the grid of tokens follow:

    lower   no run of as many tokens costs less: from the last known point on along the least slope of any candidate
    guess   a straight line between known points, and along that slope after the last
    known   the known points alone

The least sum of losses over the lower curves, by Lagrange's bound, is a bound of the answer; that over the known points
is an answer. Points are added where the guess has its answer, then where the lower curves have theirs, until both sums
are close. With a price l of a dollar, no sum of losses within a budget B is below sum_j min(loss + l * usd) - l * B.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np

from planner.arrays import CandidateTable, Floats, Integers, concatenate
from planner.candidates.candidate_enumeration import Margins, enumerate_candidates
from planner.candidates.screening import CandidateObjective, screen
from planner.formulation.constraints import build_program, find_undominated
from planner.formulation.program import SharedLimits, VariableLayout
from planner.formulation.solvers import run
from planner.library.schema import Library
from planner.open_choices.choice_alternatives import (
    EQUAL_LOSS,
    LEAST_LATE,
    ONLY_DOLLARS,
    Alternative,
    best_of,
    known_range,
    least_late_usd,
    list_alternatives,
    tokens_at,
)
from planner.open_choices.decision import MORE_MONEY, Decision, by_model, least_start
from planner.results.subject_runs import ModelOption, MoreMoney
from planner.scenario.scenario import Scenario, SolveOptions, architectures_of, decide, decide_scenario, open_jobs
from planner.solving.optimise_choice import Run
from planner.solving.prepare import PreparedScenario, build_shared_limits, prepare

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

FIRST_STEPS = 347
"""Steps of the grid between the rungs of a first ladder: about twice the tokens."""


@dataclass(frozen=True)
class Rung:
    """A model at a number of tokens; `index` is the place of the tokens on the grid, `table` what is undominated."""

    index: int
    table: CandidateTable
    least_usd: float


@dataclass
class Ladder:
    """The rungs of one model, fewest tokens first; from `end` on nothing is paid for, or known to the law."""

    alternative: Alternative
    shared: SharedLimits
    tables: dict[int, CandidateTable] = field(default_factory=dict)  # place on the grid -> what is undominated there
    rungs: list[Rung] = field(default_factory=list)
    end: int = 0

    def start(self, budget_usd: float) -> None:
        """Make the first rung, if a budget pays for it."""
        first, last = known_range(self.alternative)
        self.end = last + 1
        if first <= last:
            self.split(first, budget_usd)

    def extend(self, budget_usd: float) -> None:
        """Make the rungs above the first one, up to the first that a budget does not pay for."""
        first, last = known_range(self.alternative)
        index = first
        while index < min(last, self.end - 1):
            index = min(index + FIRST_STEPS, last)
            self.split(index, budget_usd)
        for known in sorted(self.tables.keys() - {rung.index for rung in self.rungs}):  # of another budget
            if known < self.end:
                self.split(known, budget_usd)

    def split(self, index: int, budget_usd: float) -> None:
        """Add the rung at a place, or let the ladder end there."""
        if index not in self.tables:
            scope = ONLY_DOLLARS if shares_machines(self.shared) else LEAST_LATE
            self.tables[index] = dollars_alone(self.alternative.dollar_table(tokens_at(index), scope), self.shared)
        least = least_late_usd(self.tables[index])
        if not math.isfinite(least) or least > budget_usd:
            self.end = min(self.end, index)
            self.rungs = [rung for rung in self.rungs if rung.index < self.end]
            return
        self.rungs.append(Rung(index, self.tables[index], least))
        self.rungs.sort(key=lambda rung: rung.index)

    @property
    def least_usd(self) -> float:
        """Least dollars of any rung; infinite without one."""
        return min((rung.least_usd for rung in self.rungs), default=math.inf)

    def next_index(self, place: int) -> int:
        """Return the place on the grid of the rung after one, or where the ladder ends."""
        return self.rungs[place + 1].index if place + 1 < len(self.rungs) else self.end

    def losses(self, place: int) -> tuple[float, float]:
        """Return the loss of a rung, and the least one below the next rung."""
        index = self.rungs[place].index
        most = max(index, self.next_index(place) - 1)
        return self.alternative.loss(tokens_at(index)), self.alternative.loss(tokens_at(most))


def shares_machines(shared: SharedLimits) -> bool:
    """Return whether jobs share anything but dollars: then the cheapest candidate of each may not be enough."""
    return bool(shared.limit_one_time or shared.committed)


def dollars_alone(table: CandidateTable, shared: SharedLimits) -> CandidateTable:
    """Return what is undominated of candidates where nothing but dollars at the confidence and machines counts.

    Dollars are linear in the spot share, so the cheaper end of it is taken. GPUs count where a limit holds them.
    """
    if not len(table):
        return table
    low, high = table.late_cost_usd(table.share_low), table.late_cost_usd(table.share_high)
    usd = np.stack([np.minimum(low, high)] * 2, axis=1)
    zeros = np.zeros(len(table))
    bare = replace(
        table,
        start_h=zeros,
        late_start_h=zeros,
        run_h=0.0 * usd,
        late_h=0.0 * usd,
        fixed_usd=zeros,
        run_usd=usd,
        late_usd=usd,
        penalty_usd=zeros,
        share_low=zeros,
        share_high=zeros,
        lossiness=np.zeros_like(table.lossiness),
        gpus=table.gpus if shared.limit_one_time else np.ones_like(table.gpus),
    )
    return bare.rows(find_undominated(bare, shared))


@dataclass(frozen=True)
class Step:
    """A rung that a program chose; None: a job whose work is given."""

    ladder: Ladder | None
    place: int

    @property
    def tokens(self) -> int | None:
        """Tokens at the reference batch; None where the work is given."""
        return None if self.ladder is None else tokens_at(self.ladder.rungs[self.place].index)

    @property
    def middle(self) -> int | None:
        """Place halfway to the next rung; None where there is none between."""
        if self.ladder is None:
            return None
        low, high = self.ladder.rungs[self.place].index, self.ladder.next_index(self.place)
        return (low + high) // 2 if high - low > 1 else None


@dataclass(frozen=True)
class Sums:
    """What a program over ladders found: a step per job, their sum of losses, and the dollars of each job."""

    steps: tuple[Step, ...]
    loss: float
    usd: tuple[float, ...]


def least_sum(
    ladders: Sequence[Sequence[Ladder]], fixed: Sequence[CandidateTable], shared: SharedLimits, run: Run, bound: bool
) -> Sums | None:
    """Return the rungs of the least sum of losses within all shared limits; None where there are none.

    The rows are those of every plan. In the objective losses stand in place of expected dollars:
    min sum_c loss[c]*choose[c]. With `bound` the loss of a rung is the least one below the next rung. Jobs whose
    work is given lose nothing.
    """
    steps, tables = [], []
    for step, table, loss in _columns(ladders, fixed, bound):
        steps += [step] * len(table)
        tables.append(replace(table, run_usd=np.full_like(table.run_usd, loss)))
    if {int(table.job[0]) for table in tables if len(table)} != set(range(len(tables[0].jobs) if tables else 1)):
        return None
    table = concatenate(tables)
    kept = np.flatnonzero(find_undominated(table, shared))
    columns = VariableLayout(table.rows(kept), shared)
    result = run(build_program(columns))
    if not result.has_solution:
        return None
    rows = kept[columns.chosen(result.values)]
    chosen = table.rows(rows)
    loss = float(chosen.cost_usd(0.0).sum())
    least = loss if result.bound is None else min(loss, result.bound)
    usd = tuple(chosen.late_cost_usd(0.0).tolist())
    return Sums(tuple(steps[row] for row in rows), least if bound else loss, usd)


def _columns(
    ladders: Sequence[Sequence[Ladder]], fixed: Sequence[CandidateTable], bound: bool
) -> Iterator[tuple[Step, CandidateTable, float]]:
    """Yield each rung with its candidates and its loss; then the jobs whose work is given."""
    for several in ladders:
        for ladder in several:
            for place, rung in enumerate(ladder.rungs):
                yield Step(ladder, place), rung.table, ladder.losses(place)[int(bound)]
    for table in fixed:
        yield Step(None, 0), table, 0.0


MOST_PRICES = 60
"""Prices of a dollar that are tried for one bound: each halves what is left of 20 powers of ten."""
MOST_SUMS = 2000
"""Sums of dollars of some jobs that are kept when another is added."""


@dataclass(eq=False)
class Curve:
    """The least dollars of one model over the places of the grid that its law has seen."""

    alternative: Alternative
    first: int
    losses: Floats
    tokens: Floats
    usd: dict[int, float] = field(default_factory=dict)  # place -> least dollars
    end: int = 0  # from this place on nothing is feasible

    @classmethod
    def of(cls, alternative: Alternative) -> Curve:
        """Return the curve of a model, of which nothing is known yet."""
        first, last = known_range(alternative)
        tokens = [tokens_at(index) for index in range(first, last + 1)]
        losses = np.asarray([alternative.loss(token) for token in tokens])
        curve = cls(alternative, first, losses, np.asarray(tokens, dtype=float), end=len(tokens))
        for place, token in enumerate(tokens):  # of another budget
            if token in alternative.rises:
                curve.price(place)
        return curve

    def price(self, place: int) -> None:
        """Compute the dollars at a place."""
        usd = self.alternative.rise(int(self.tokens[place])).usd
        if math.isfinite(usd):
            self.usd[place] = usd
        else:
            self.end = min(self.end, place)

    def lower(self) -> Floats:
        """Return dollars (places,) below which no run stays; infinite from `end` on."""
        dollars = np.full(len(self.tokens), np.inf)
        known = [*sorted(self.usd), self.end]
        for begin, end in itertools.pairwise(known):
            dollars[begin:end] = self._along(begin, end)
        return dollars

    def guess(self) -> Floats:
        """Return about the least dollars (places,); infinite from `end` on."""
        dollars = np.full(len(self.tokens), np.inf)
        known = sorted(self.usd)
        if known:
            dollars[: self.end] = np.interp(
                self.tokens[: self.end], self.tokens[known], [self.usd[place] for place in known]
            )
            dollars[known[-1] : self.end] = self._along(known[-1], self.end)
            dollars[: known[0]] = np.inf
        return dollars

    def _along(self, begin: int, end: int) -> Floats:
        """Return the dollars of the least slope from a known place on."""
        rise = self.alternative.rise(int(self.tokens[begin]))
        return rise.along(self.tokens[begin:end] - self.tokens[begin])

    def between(self, place: int) -> int | None:
        """Return the place halfway from the last known one to one that is not known; None where it is known."""
        if place in self.usd:
            return None
        before = max((known for known in self.usd if known < place), default=place)
        return (before + place + 1) // 2


class Point(NamedTuple):
    """A place on the curve of one model of a job."""

    curve: Curve
    place: int

    @property
    def tokens(self) -> int:
        """Tokens at the reference batch."""
        return int(self.curve.tokens[self.place])

    @property
    def loss(self) -> float:
        """Loss of the model after as many tokens."""
        return float(self.curve.losses[self.place])


class Points(NamedTuple):
    """Points of all models of one job: curve and place, loss and dollars of each."""

    curves: Sequence[Curve]
    curve: Integers
    place: Integers
    loss: Floats
    usd: Floats

    def point(self, row: int) -> Point:
        """Return a point by its row."""
        return Point(self.curves[int(self.curve[row])], int(self.place[row]))


@dataclass(frozen=True)
class LeastSum:
    """One point for each job, their sum of losses, and by how much that may be above the least one."""

    points: tuple[Point, ...]
    loss: float
    above_least: float


def least_sum_of_losses(jobs: Sequence[Sequence[Alternative]], budget_usd: float, tolerance: float) -> LeastSum | None:
    """Return the models and tokens of the least sum of losses within a budget, proven to a tolerance; None if none.

    Where the sum cannot be proven, because the dollars of known points leave gaps, `above_least` says what is left.
    """
    curves = [
        [Curve.of(alternative) for alternative in of_job if known_range(alternative)[0] <= known_range(alternative)[1]]
        for of_job in jobs
    ]
    for of_job in curves:
        for curve in of_job:
            curve.price(0)
    while True:
        bound = _bound([_points(of_job, [curve.lower() for curve in of_job]) for of_job in curves], budget_usd)
        best = _known(curves, budget_usd)
        if bound is None or best is None:
            return None
        above = max(0.0, sum(point.loss for point in best) - bound[0])
        missing = [] if above <= tolerance else list(dict.fromkeys(_missing(curves, bound[1:], budget_usd)))
        if not missing:
            return LeastSum(best, sum(point.loss for point in best), above)
        for curve, place in missing:
            curve.price(place)


def _missing(curves: Sequence[Sequence[Curve]], low: Sequence[Sequence[Point]], budget_usd: float) -> Iterator[Point]:
    """Yield the places to price next: of the answer by the guess, else next to those of the bound."""
    guess = _bound([_points(of_job, [curve.guess() for curve in of_job]) for of_job in curves], budget_usd)
    places = [] if guess is None else [point for point in guess[1] if point.place not in point.curve.usd]
    # Where no run is feasible from some place on, a guess would come down to it step by step.
    wanted = [point for point in places if point.curve.end == len(point.curve.tokens)]
    if wanted:
        yield from wanted
        return
    for curve, place in (*places, *low[0], *low[1]):
        middle = curve.between(place)
        if middle is not None:
            yield Point(curve, middle)


def _points(curves: Sequence[Curve], usd: Sequence[Floats]) -> Points:
    """Return all points of the models of one job that have dollars."""
    which = [np.flatnonzero(np.isfinite(costs)) for costs in usd]
    return Points(
        curves,
        np.repeat(np.arange(len(curves)), [len(places) for places in which]),
        np.concatenate([np.zeros(0, dtype=np.int64), *which]),
        np.concatenate([np.zeros(0), *(curve.losses[at] for curve, at in zip(curves, which, strict=True))]),
        np.concatenate([np.zeros(0), *(costs[at] for costs, at in zip(usd, which, strict=True))]),
    )


def _bound(jobs: Sequence[Points], budget_usd: float) -> tuple[float, list[Point], list[Point]] | None:
    """Return the greatest bound of the sum of losses that a price of dollars gives, and the points at that price.

    Those that the budget pays for, and those that it does not quite. None where not even the cheapest are within it.
    """
    if any(not len(job.usd) for job in jobs) or sum(float(job.usd.min()) for job in jobs) > budget_usd:
        return None
    rows, best = [int(np.argmin(job.usd)) for job in jobs], -math.inf
    beyond = rows
    low, high = -14.0, 6.0  # powers of ten
    for step in range(MOST_PRICES):
        price = 0.0 if step == 0 else 10.0 ** ((low + high) / 2)
        at = [int(np.argmin(job.loss + price * job.usd)) for job in jobs]
        usd = sum(float(job.usd[row]) for job, row in zip(jobs, at, strict=True))
        loss = sum(float(job.loss[row]) for job, row in zip(jobs, at, strict=True))
        best = max(best, loss + price * (usd - budget_usd))
        if usd <= budget_usd:
            rows = at
            if step == 0:
                break
            high = (low + high) / 2
        elif step:
            low, beyond = (low + high) / 2, at
    within, over = ([job.point(row) for job, row in zip(jobs, at, strict=True)] for at in (rows, beyond))
    return best, within, over


def _known(curves: Sequence[Sequence[Curve]], budget_usd: float) -> tuple[Point, ...] | None:
    """Return the known points of the least sum of losses within the budget; None where there are none."""
    sums: list[tuple[float, float, tuple[Point, ...]]] = [(0.0, 0.0, ())]
    for of_job in curves:
        points = [(usd, Point(curve, place)) for curve in of_job for place, usd in curve.usd.items()]
        added = (
            (spent + usd, lost + point.loss, (*chosen, point))
            for spent, lost, chosen in sums
            for usd, point in points
            if spent + usd <= budget_usd
        )
        front: list[tuple[float, float, tuple[Point, ...]]] = []
        for extended in sorted(added, key=lambda extended: extended[:2]):
            if not front or extended[1] < front[-1][1]:
                front.append(extended)
        # The last sums lose least.
        sums = front if len(front) <= MOST_SUMS else front[:: -(-len(front) // MOST_SUMS)] + front[-1:]
    return sums[-1][2] if sums else None


SUM_TOLERANCE = 0.001
"""Nats by which the sum of losses may be above the least one: a fiftieth of what published laws differ by."""
MORE_MONEY_TOLERANCE = 0.005
"""The same of what more money would buy, of which two decimals are of interest."""


@dataclass(frozen=True)
class Together:
    """All jobs of a scenario: the ladders of each open one, and the candidates of those whose work is given."""

    names: tuple[str, ...]  # of the open jobs, in the order of `alternatives`
    alternatives: tuple[tuple[Alternative, ...], ...]
    ladders: tuple[tuple[Ladder, ...], ...]
    fixed: tuple[CandidateTable, ...]
    shared: SharedLimits
    run: Run
    first: PreparedScenario  # with some model of each open job, without policies on spot

    def prepared(self, scenario: Scenario, decisions: Mapping[str, Decision]) -> PreparedScenario:
        """Return the candidates of the scenario with what was decided; what is known of the models is kept."""
        chosen = {name: decision.alternative.candidates for name, decision in decisions.items()}
        known = zip(scenario.jobs, self.first.candidates, strict=True)
        candidates = tuple(chosen.get(job.name) or first for job, first in known)
        return prepare(scenario, self.first.library, replace(self.first, candidates=candidates))

    def at_budget(self, budget_usd: float | None) -> Together:
        """Return the same jobs with another budget and with first ladders for it; what was solved is kept."""
        shared = replace(self.shared, budget_usd=budget_usd)
        ladders = tuple(
            tuple(Ladder(ladder.alternative, shared, ladder.tables) for ladder in of_job) for of_job in self.ladders
        )
        return replace(self, shared=shared, ladders=ladders)

    def first_rungs(self) -> None:
        """Make the first ladders for the budget."""
        budget_usd, ladders = self.shared.budget_usd, self.ladders
        left = (math.inf if budget_usd is None else budget_usd) - sum(map(least_late_usd, self.fixed))
        for ladder in (ladder for of_job in ladders for ladder in of_job):
            ladder.start(left)
        least = [min(ladder.least_usd for ladder in of_job) for of_job in ladders]
        if math.isfinite(sum(least)):
            for of_job, own in zip(ladders, least, strict=True):
                for ladder in of_job:
                    ladder.extend(left - sum(least) + own)

    def in_turns(self) -> Together:
        """Return the same jobs where they need not run at one time: no limit on what runs at one time holds."""
        shared = self.shared.in_turns()
        ladders = tuple(tuple(Ladder(ladder.alternative, shared) for ladder in of_job) for of_job in self.ladders)
        return replace(self, shared=shared, ladders=ladders)

    def budget_of(self, step: Step) -> float:
        """Return the most dollars that the job of a step may cost: what the others need at least is not its own."""
        budget = math.inf if self.shared.budget_usd is None else self.shared.budget_usd
        others = [of_job for of_job in self.ladders if step.ladder not in of_job]
        return (
            budget - sum(map(least_late_usd, self.fixed)) - sum(min(ladder.least_usd for ladder in o) for o in others)
        )

    def search(self, tolerance: float) -> Found | None:
        """Return the models and tokens of the least sum of losses, proven to a tolerance; None where there are none."""
        if shares_machines(self.shared) or self.shared.budget_usd is None:
            return self._search_ladders(tolerance)
        fixed = [least_late_usd(table) for table in self.fixed]
        left = self.shared.budget_usd - sum(fixed)
        least = least_sum_of_losses(self.alternatives, left, tolerance) if left > 0 else None
        if least is None:
            return None
        if least.above_least > tolerance:  # whole billing steps leave gaps in the dollars: a program proves more
            return self._search_ladders(tolerance)
        usd = [point.curve.usd[point.place] for point in least.points]
        points = [Trained(point.curve.alternative, point.tokens) for point in least.points]
        return Found((*points, *(Trained() for _ in fixed)), least.loss, least.above_least, (*usd, *fixed))

    def _search_ladders(self, tolerance: float) -> Found | None:
        """Refine the ladders where a finer one may pay, until the least sum of losses is proven to a tolerance."""
        self.first_rungs()
        while True:
            best = least_sum(self.ladders, self.fixed, self.shared, self.run, bound=False)
            low = least_sum(self.ladders, self.fixed, self.shared, self.run, bound=True)
            if best is None or low is None:
                return None
            middles = [(step, step.middle) for step in low.steps if step.ladder is not None and step.middle is not None]
            if best.loss - low.loss <= tolerance or not middles:
                return Found(tuple(map(Trained.at, best.steps)), best.loss, max(0.0, best.loss - low.loss), best.usd)
            for step, middle in middles:
                if step.ladder is not None and middle is not None:
                    step.ladder.split(middle, self.budget_of(step))


@dataclass(frozen=True)
class Trained:
    """A model and its tokens at the reference batch; None for a job whose work is given."""

    alternative: Alternative | None = None
    tokens: int | None = None

    @classmethod
    def at(cls, step: Step) -> Self:
        """Return what a rung stands for."""
        return cls() if step.ladder is None else cls(step.ladder.alternative, step.tokens)


@dataclass(frozen=True)
class Found:
    """What every job trains, the sum of losses, by how much it may be above the least one, and dollars."""

    steps: tuple[Trained, ...]
    loss: float
    above_least: float
    usd: tuple[float, ...]


def together(scenario: Scenario, library: Library, options: SolveOptions) -> Together:
    """Return the models of all open jobs of a scenario, and the candidates of the others, on one market."""
    jobs = open_jobs(scenario)
    first = [decide(job, architectures_of(job)[0], job.batches[0], 1) for job in jobs]
    prepared = prepare(decide_scenario(scenario, *first), library, with_policies=False)
    shared = build_shared_limits(prepared.scenario, prepared.market)
    alternatives = tuple(tuple(list_alternatives(scenario, job, library, prepared)) for job in jobs)
    known: dict[str, Alternative] = {}
    for alternative in (alternative for of_job in alternatives for alternative in of_job):
        if (first_one := known.setdefault(alternative.essence, alternative)) is not alternative:
            alternative.share(first_one)
    names = tuple(job.name for job in jobs)
    return Together(
        names=names,
        alternatives=alternatives,
        ladders=tuple(tuple(Ladder(alternative, shared) for alternative in of_job) for of_job in alternatives),
        fixed=tuple(
            _fixed(prepared, place, shared) for place, job in enumerate(scenario.jobs) if job.name not in names
        ),
        shared=shared,
        run=partial(run, solver=options.solver, time_limit_seconds=options.time_limit_seconds),
        first=prepared,
    )


def _fixed(prepared: PreparedScenario, place: int, shared: SharedLimits) -> CandidateTable:
    """Return what dollars and machines leave of the candidates of a job whose work is given."""
    scenario, limits = prepared.scenario, prepared.scenario.limits
    job, names = scenario.jobs[place], [job.name for job in scenario.jobs]
    margins = Margins(limits.vram_headroom, limits.budget_confidence)
    architecture = prepared.library.architecture(job.architecture)
    candidates = enumerate_candidates(
        *(job, architecture, prepared.market, names, prepared.library, margins), before=prepared.candidates[place]
    )
    waiting_usd = CandidateObjective.of(scenario).waiting_usd
    table = screen(
        candidates, prepared.market, limits, prepared.library, waiting_usd=waiting_usd, scope=ONLY_DOLLARS
    ).table
    return dollars_alone(table, shared)


def decide_together(jobs: Together, least: float | None = None) -> dict[str, Decision]:
    """Return for each open job what to train, of the least sum of losses that the budget of all jobs pays for.

    `least` is what the sum of losses is known not to be below, where that is more than the search itself proves.
    """
    budget = jobs.shared.budget_usd
    asked = jobs.at_budget(budget)
    chosen = asked.search(SUM_TOLERANCE)
    if chosen is None:
        return least_starts(asked, least)
    if least is not None:
        chosen = replace(chosen, above_least=max(chosen.above_least, chosen.loss - least))
    more = asked.at_budget(budget * MORE_MONEY).search(MORE_MONEY_TOLERANCE) if budget is not None else None
    return dict(_decisions(asked, chosen, more, None if budget is None else budget * MORE_MONEY))


def _decisions(
    asked: Together, chosen: Found, more: Found | None, more_usd: float | None
) -> Iterator[tuple[str, Decision]]:
    """Yield name and decision of each open job."""
    others = [None] * len(chosen.steps) if more is None else more.steps
    for step, better, usd in zip(chosen.steps, others, chosen.usd, strict=True):
        if step.alternative is None or step.tokens is None:
            continue
        alternative, models = step.alternative, _models(asked, step.alternative)
        money = None
        if better is not None and better.alternative is not None and better.tokens is not None and more_usd is not None:
            its = better.alternative
            money = MoreMoney(
                budget_usd=more_usd,
                architecture=its.architecture.name,
                tokens=better.tokens,
                loss=its.loss(better.tokens),
            )
        yield (
            alternative.job.name,
            Decision(
                *(alternative, step.tokens, len(models)),
                options=_as_good(asked, step, usd),
                more_money=money,
                is_capped=step.tokens == tokens_at(known_range(alternative)[1]),
                vocabularies=len({other.architecture.vocab for other in models}),
                above_least=chosen.above_least,
            ),
        )


def _models(asked: Together, alternative: Alternative) -> tuple[Alternative, ...]:
    """Return all models of the job of one."""
    return next(models for models in asked.alternatives if any(other is alternative for other in models))


def _as_good(asked: Together, step: Trained, usd: float) -> tuple[ModelOption, ...]:
    """Return the other models that reach the loss of a step within `EQUAL_LOSS` for its dollars.

    Where jobs share machines too, dollars do not say what a job may rent: none is named.
    """
    alternative = step.alternative
    if alternative is None or step.tokens is None or shares_machines(asked.shared):
        return ()
    loss = alternative.loss(step.tokens)
    near = [
        other for other in best_of(_models(asked, alternative), usd * (1 + 1e-9)) if other.loss <= loss + EQUAL_LOSS
    ]
    return by_model(near, alternative.architecture.name)


def least_starts(asked: Together, least: float | None) -> dict[str, Decision]:
    """Return for each job the run that costs least; if they take turns they may be feasible where no others are."""
    starts = {of_job[0].job.name: least_start(of_job) for of_job in asked.alternatives}
    if least is None:
        return starts
    above = least_sum_of(starts) - least
    return {name: replace(start, above_least=max(0.0, above)) for name, start in starts.items()}


def least_sum_of(decisions: Mapping[str, Decision]) -> float:
    """Return what the sum of losses is proven not to be below."""
    losses = [
        decision.alternative.loss(decision.tokens) for decision in decisions.values() if decision.tokens is not None
    ]
    return sum(losses) - max(decision.above_least or 0.0 for decision in decisions.values())


def least_sum_near(jobs: Together, times: float) -> float:
    """Return what the sum of losses is not below where the search finds nothing, though there is a plan.

    The search counts dollars on mean markets: within so many times the budget it misses no plan. Without that, nothing
    is below the losses of the longest runs that the law has seen.
    """
    budget = jobs.shared.budget_usd
    best = None if budget is None else jobs.at_budget(times * budget).search(MORE_MONEY_TOLERANCE)
    if best is not None:
        return best.loss - best.above_least
    longest = [[(alternative, known_range(alternative)) for alternative in of_job] for of_job in jobs.alternatives]
    return sum(
        min(model.loss(tokens_at(last)) for model, (first, last) in of_job if first <= last) for of_job in longest
    )
