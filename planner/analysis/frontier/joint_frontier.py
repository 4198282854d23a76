"""Several jobs that share a budget, GPUs, a quota or stock: where separate optima break it, the program is solved."""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from planner.analysis.frontier.envelope_sum import Breakpoint, LinearPiece, RowChoice, evaluate_envelope
from planner.analysis.frontier.lower_envelope import TOLERANCE, EnvelopePiece, clip_to_caps
from planner.candidate_table import CandidateTable, concatenate
from planner.formulation.dominance import find_undominated
from planner.solvers.base import Termination
from planner.solvers.registry import DEFAULT_GAP, run
from planner.solving.lexicographic import solve_lexicographic

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.arrays import Floats, Integers
    from planner.formulation.shared_limits import SharedLimits
    from planner.scenario.scenario import SolveOptions

TIE_USD = 0.005
"""What the passes may give up to break ties: two solved points closer than this cost the same."""

ROUNDING_USD = 1e-3
"""What shares that are moved to their floor or cap may add."""

SHARE_TOLERANCE = 0.01
"""Share of the work below which a second market is not worth a machine."""

JUST_BEFORE = 1e-6
"""Part of the hours by which a deadline just before a point differs from it: nobody rents in such slices."""

SLIDING = 0.01
"""Part of a step's width: a plan that ends so close before the next point lies on a slope, not on a step."""


@dataclass(frozen=True)
class JointPoint:
    """A point of the frontier with its proof; `separate_usd` is the sum of the separate optima, where it differs.

    Nothing that is done before the next point costs less than `floor_usd`; None where that was not looked into.
    """

    hours: float
    usd: float
    job_choices: tuple[RowChoice, ...]
    bound: float
    gap: float
    separate_usd: float | None = None
    before: tuple[RowChoice, ...] = ()
    floor_usd: float | None = None


class SolverLimitError(Exception):
    """The solver met its limit before it found any plan."""


def satisfies_limits(tables: Sequence[CandidateTable], ways: Sequence[RowChoice], question: SharedLimits) -> bool:
    """Whether the ways, one for each job, keep every limit that the jobs share."""
    late, gpus = 0.0, 0
    by_provider: Counter[str] = Counter()
    by_offer: Counter[str] = Counter()
    hours: dict[str, float] = defaultdict(float)
    for table, way in zip(tables, ways, strict=True):
        one = table.rows(np.asarray([way.row]))
        late += float(one.late_cost_usd(way.share)[0])
        gpus += int(one.gpus[0])
        by_provider[table.providers[int(one.provider[0])]] += int(one.gpus[0])
        by_offer[table.offers[int(one.offer[0])]] += int(one.instances[0])
        hours[table.offers[int(one.offer[0])]] += float(one.rented_h[0])
    budget, most = question.budget_usd, question.max_gpus
    return (
        (budget is None or late <= budget + TOLERANCE * max(1.0, budget))
        and (most is None or gpus <= most)
        and all(by_provider[name] <= limit for name, limit in question.quota.items())
        and all(by_offer[name] <= limit for name, limit in question.stock.items())
        and all(hours[name] <= limit * (1 + TOLERANCE) for name, limit in question.committed.items())
    )


def select_optimal_points(
    tables: Sequence[CandidateTable], stops: Sequence[Breakpoint], question: SharedLimits
) -> list[JointPoint]:
    """Stops whose separate optima keep the shared limits: nothing can be cheaper, they are their own bound."""
    return [
        JointPoint(stop.hours, stop.usd, stop.choices, stop.usd, 0.0, None, stop.before)
        for stop in stops
        if satisfies_limits(tables, stop.choices, question)
    ]


def select_feasible_pieces(
    tables: Sequence[CandidateTable], stretches: Sequence[LinearPiece], question: SharedLimits
) -> list[LinearPiece]:
    """Stretches that keep the shared limits at both ends, and so, all being linear, between them."""
    return [
        one
        for one in stretches
        if satisfies_limits(tables, one.choices_from, question) and satisfies_limits(tables, one.choices_to, question)
    ]


class JointProgram:
    """The program of all jobs, to be solved for one common deadline after another."""

    def __init__(
        self,
        tables: Sequence[CandidateTable],
        envelopes: Sequence[Sequence[EnvelopePiece]],
        question: SharedLimits,
        options: SolveOptions,
    ) -> None:
        self.tables, self.envelopes = tables, envelopes
        self.question = replace(question, objective="cost", value_of_time_usd_per_hour=0.0)
        joined = concatenate(tables)
        joined = replace(joined, penalty_usd=np.zeros(len(joined)))
        self.owner = np.concatenate([np.arange(len(table)) for table in tables])
        # A way that another one beats at every share is beaten under every deadline too.
        kept = np.flatnonzero(find_undominated(joined, self.question))
        self.table, self.owner = joined.rows(kept), self.owner[kept]
        self.bounds: list[tuple[float, float]] = []
        """Proven of every deadline solved: nothing that is done by it costs less than so many dollars."""
        self.solver = partial(
            run,
            solver=options.solver,
            time_limit_seconds=options.time_limit_seconds,
            relative_gap=max(options.gap, DEFAULT_GAP),
        )

    def fastest_hours(self) -> float | None:
        """The least hours in which all jobs can end; None where no plan keeps the limits at all.

        Raises Stopped where the solver met a limit with nothing in hand.
        """
        found = self._choice(self.table, replace(self.question, objective="time"))
        if found is None:
            return None
        rows, shares, _ = found
        return float(np.max(self.table.rows(rows).late_hours(shares)))

    def fill_points(
        self, stops: Sequence[float], found: Sequence[JointPoint], slopes: Sequence[LinearPiece], most: int
    ) -> tuple[list[JointPoint], tuple[str, ...]]:
        """The points that stand, and those of at most so many deadlines where the others fall; a note tells it.

        Half of the deadlines are the hours of stops that break a shared limit, the fastest and the latest end among
        them. Each of the others lies where most dollars may still be hidden between two points. No points where
        nothing keeps the limits. `slopes` are stretches that stand. Raises Stopped.
        """
        # Where a slope begins at the cost of a way that falls, it is the first to stand.
        found = [
            *found,
            *(JointPoint(one.hours_from, one.usd_from, one.choices_from, one.usd_from, 0.0) for one in slopes),
        ]
        sound = {one.hours for one in found}
        first = stops[0] if stops[0] in sound else self.fastest_hours()
        if first is None:
            return [], ()
        last = stops[-1] if stops[-1] in sound else self.latest_hours()
        broken = sorted({first, last, *(hours for hours in stops if first < hours < last)} - sound)
        chosen = pick_evenly(broken, max(2, most // 2))
        solved = [point for hours in chosen if (point := self.solve_at(hours)) is not None]
        known = remove_dominated([*found, *solved])
        sliding: set[float] = set()
        more = 0
        while more < most - len(chosen) and (step := self._widest(known, slopes)) is not None:
            left, right = step
            point = self.solve_at(self._within(left, right, right.hours in sliding))
            more += 1
            if point is None:
                continue
            if right.hours not in sliding and point.hours > right.hours - SLIDING * (right.hours - left.hours):
                sliding.add(right.hours)
                continue
            known = remove_dominated([*known, point])
        note = f"solved together for {len(chosen) + more} deadlines"
        return self._with_floors(known), (f"the {len(self.tables)} jobs get in each other's way: {note}",)

    def lower_bound_usd(self, hours: float) -> float:
        """What nothing that is done before `hours` costs less than: the separate optima, and all that is proven."""
        earlier = hours * (1 - JUST_BEFORE)
        separate = sum(evaluate_envelope(envelope, earlier) for envelope in self.envelopes)
        return max([separate, *(bound for by, bound in self.bounds if by >= earlier)])

    def _widest(
        self, known: Sequence[JointPoint], slopes: Sequence[LinearPiece]
    ) -> tuple[JointPoint, JointPoint] | None:
        """The neighbours between which most dollars may be hidden; None where there are none, or none to speak of."""
        steps = [
            (left.usd - self.lower_bound_usd(right.hours), -left.hours, left, right)
            for left, right in itertools.pairwise(known)
            if not any(one.hours_from <= left.hours and right.hours <= one.hours_to for one in slopes)
            and right.hours - self._level_until(left, right) > SLIDING * JUST_BEFORE * right.hours
        ]
        widest = max(steps, key=lambda step: step[:2], default=None)
        return widest[2:] if widest and widest[0] > TIE_USD + ROUNDING_USD else None

    def _within(self, left: JointPoint, right: JointPoint, slides: bool) -> float:
        """The next deadline to try: just before the right end, which proves a step; on a slope, its middle."""
        if not slides:
            return right.hours * (1 - JUST_BEFORE)
        return math.sqrt(self._level_until(left, right) * right.hours)

    def _level_until(self, left: JointPoint, right: JointPoint) -> float:
        """The latest deadline before the right end for which the left one is proven to be the cheapest."""
        same = left.usd - TIE_USD - ROUNDING_USD
        return max([left.hours, *(by for by, bound in self.bounds if by < right.hours and bound >= same)])

    def _with_floors(self, known: Sequence[JointPoint]) -> list[JointPoint]:
        told = []
        for left, right in itertools.zip_longest(known, known[1:]):
            floor = left.bound if right is None else self.lower_bound_usd(right.hours)
            # What passes may give up for ties is no step that is left open.
            level = floor > left.usd - TIE_USD - ROUNDING_USD
            told.append(replace(left, floor_usd=left.usd if level else floor))
        return told

    def latest_hours(self) -> float:
        """The latest end of any way: what comes after changes nothing."""
        table = self.table
        return float(np.maximum(table.late_hours(table.share_low), table.late_hours(table.share_high)).max())

    def solve_at(self, hours: float) -> JointPoint | None:
        """The cheapest plan whose jobs all end within `hours`; None where there is none. Raises Stopped."""
        rows, table = clip_to_caps(self.table, hours=hours)
        if len(np.unique(table.job)) < len(self.tables):
            return None
        found = self._choice(table, self.question)
        if found is None:
            return None
        chosen, shares, bound = found
        plan = table.rows(chosen)
        shares = self._whole(plan, shares, hours)
        usd = float(np.sum(plan.cost_usd(shares)))
        separate = sum(evaluate_envelope(envelope, hours) for envelope in self.envelopes)
        bound = separate if bound is None else max(bound, separate)
        ways = tuple(
            RowChoice(int(self.owner[rows[row]]), float(share)) for row, share in zip(chosen, shares, strict=True)
        )
        self.bounds.append((hours, bound))
        bound = min(bound, usd)
        gap = (usd - bound) / usd if usd - bound > TIE_USD + ROUNDING_USD else 0.0
        return JointPoint(float(np.max(plan.late_hours(shares))), usd, ways, bound, gap, separate)

    def _whole(self, plan: CandidateTable, shares: Floats, hours: float) -> Floats:
        """Shares a hair from floor or cap moved there, where that is no dearer, in time and within the budget."""
        budget = np.inf if self.question.budget_usd is None else self.question.budget_usd
        for end in (plan.share_low, plan.share_high):
            better = (plan.cost_usd(end) <= plan.cost_usd(shares)) & (plan.late_hours(end) <= hours)
            moved = np.where((np.abs(end - shares) < SHARE_TOLERANCE) & better, end, shares)
            if float(np.sum(plan.late_cost_usd(moved))) <= budget:
                shares = moved
        return shares

    def _choice(self, table: CandidateTable, question: SharedLimits) -> tuple[Integers, Floats, float | None] | None:
        choice = solve_lexicographic(table, question, self.solver)
        if choice.chosen is None:
            impossible = (Termination.INFEASIBLE, Termination.INFEASIBLE_OR_UNBOUNDED)
            if choice.first.termination in impossible:
                return None
            raise SolverLimitError
        return choice.rows, choice.spot_share, choice.first.bound


def pick_evenly(values: Sequence[float], most: int) -> list[float]:
    """At most so many of the values, evenly by their position; both ends stay."""
    if len(values) <= most:
        return list(values)
    return [values[int(index)] for index in np.unique(np.round(np.linspace(0, len(values) - 1, most)).astype(int))]


def remove_dominated(found: Sequence[JointPoint]) -> list[JointPoint]:
    """The points that no earlier one undercuts or equals, sorted by hours."""
    kept: list[JointPoint] = []
    for one in sorted(found, key=lambda one: (one.hours, one.usd)):
        if not kept or one.usd < kept[-1].usd - TIE_USD:
            kept.append(one)
    return kept
