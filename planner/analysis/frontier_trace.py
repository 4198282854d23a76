"""Points and segments of a frontier: the envelopes of the jobs, summed and decoded, or all jobs solved together.

The sum of the separate envelopes bounds the joint frontier from below. Where the separate optima keep the limits that
the jobs share (budget, GPUs, a quota, stock) they are the joint optimum. Elsewhere the jobs are solved together for one
common deadline after another: half of a budget of solves at breakpoints that violate a limit, the other half where the
most dollars may be hidden between two known points. A solve mostly also proves a bound for all earlier deadlines, which
closes steps of the frontier.

`JointProgram` runs all jobs at once, in one mixed-integer program. Jobs that may take turns need a timetable instead
(`planner.timetable.timetable_questions`).
"""

from __future__ import annotations

import datetime
import itertools
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from planner import timetable
from planner.analysis.lower_envelope import (
    TOLERANCE,
    Breakpoint,
    EnvelopePiece,
    LinearPiece,
    RowChoice,
    build_segments,
    clip_to_caps,
    evaluate_envelope,
    find_knee,
    lower_envelope,
    sum_envelopes,
)
from planner.arrays import CandidateTable, Flags, Floats, Integers, concatenate
from planner.candidates.spot_candidates import ScreenedCandidates, SpotChoice
from planner.formulation.constraints import find_undominated
from planner.formulation.program import SharedLimits, TypicalPeaks
from planner.formulation.solvers import DEFAULT_GAP, run
from planner.results.explanation import describe_job_differences
from planner.results.frontier import DOLLARS_PAID, MINIMISES_END, Point, Segment, SegmentJob
from planner.results.plan import Assignment, Status
from planner.results.plan_parts import BEYOND_TYPICAL_STOCK
from planner.scenario.scenario import Scenario, SolveOptions
from planner.solving.chosen import ChosenCandidate
from planner.solving.notes import budget_probability, build_assignment
from planner.solving.optimise_choice import NEGLIGIBLE_SHARE, may_take_turns, solve_lexicographic
from planner.solving.prepare import PreparedScenario, build_shared_limits, typical_stock
from planner.spot.drawn_runs import draw_dollars
from planner.spot.policy_cache import Key

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence


ROUNDING_SHARE = 1e-6
"""Relative: dollars that rounding may add to a plan at its budget."""
NOTICEABLE_USD = 0.005
"""Less is no saving: half a cent, which no table shows."""


@dataclass(frozen=True)
class TracedFrontier:
    """Points and segments of one set of candidates; `status` says why there are none."""

    points: tuple[Point, ...]
    segments: tuple[Segment, ...]
    exact: bool
    knee: int | None
    status: Status
    notes: tuple[str, ...] = ()
    separate: tuple[Segment, ...] = ()
    """Where not exact: the jobs' costs without shared limits, a lower bound."""
    used: int = 0
    """Number of candidates that some segment uses."""
    in_turn: bool = False
    """Whether the separate optima violate a limit and the jobs may take turns: no plan side by side is the least."""
    keeps_typical: bool = True
    """False: no plan keeps the typical stock, a guess."""


class FrontierTracer:
    """Traces frontiers of subsets of the candidates of one prepared scenario; plans are decoded once."""

    def __init__(self, prepared: PreparedScenario, options: SolveOptions) -> None:
        self.prepared, self.options = prepared, options
        # A frontier compares dollars with hours: what an hour is worth decides no policy of it.
        self.by_cost = prepared.scenario.model_copy(update={"objective": "cost"})
        self.as_of = options.as_of or datetime.date.today()
        self.limits = build_shared_limits(prepared.scenario, prepared.market)
        self.typical = typical_stock(prepared.scenario, prepared.market)
        self.may_take_turns = may_take_turns(prepared)
        reservations = [offer.committed_usd for offer in prepared.market.offers if offer.is_reservation]
        self.reserved_usd = min(reservations, default=math.inf)
        self._decoded: dict[tuple[int, int, float, bool, SpotChoice | None], Assignment] = {}

    def traced(self, screened: Sequence[ScreenedCandidates], points: int, is_part: bool = False) -> TracedFrontier:
        """Return points, segments and knee of the frontier over the given candidates of each job.

        `is_part`: they are some of the candidates. Where jobs of these take turns there are no points. Where no plan
        keeps the typical stock, a guess, it is left out.
        """
        frontier = self._traced(screened, points, is_part)
        if frontier.status != "infeasible" or self.typical is None:
            return frontier
        self.typical = None
        frontier = self._traced(screened, points, is_part)
        return replace(frontier, keeps_typical=False, notes=(BEYOND_TYPICAL_STOCK, *frontier.notes))

    def _traced(self, screened: Sequence[ScreenedCandidates], points: int, is_part: bool) -> TracedFrontier:
        """Return the frontier within all limits."""
        tables = [candidates.table for candidates in screened]
        envelopes = [lower_envelope(build_segments(table, self.limits.budget_usd)) for table in tables]
        if not all(envelopes):
            return TracedFrontier((), (), True, None, "infeasible")
        breakpoints, pieces = sum_envelopes(envelopes)
        kept, feasible = self._within_limits(tables, breakpoints, pieces)
        exact = len(kept) == len(breakpoints) and len(feasible) == len(pieces)
        in_turn = self.may_take_turns and not exact
        notes: tuple[str, ...] = ()
        if in_turn and is_part:
            return TracedFrontier((), (), False, None, "no_plan", in_turn=True)
        if not exact:
            try:
                program = self._turns(tables, envelopes) if in_turn else self._joint(screened, envelopes)
                most = program.most_deadlines(points)
                kept, notes = program.fill_points([point.hours for point in breakpoints], kept, feasible, most)
            except SolverLimitError:
                return TracedFrontier((), (), False, None, "no_plan", in_turn=in_turn)
            if not kept:
                return TracedFrontier((), (), False, None, "infeasible", in_turn=in_turn)
        self._compute_policies(screened, kept, feasible)
        kept, feasible = self._within_budget(screened, kept, feasible)
        marked, knee = with_knee(self._points(screened, kept))
        used = {
            (index, int(screened[index].rows[choice.row]))
            for piece in feasible
            for index, choice in enumerate(piece.choices_to)
        }
        return TracedFrontier(
            marked,
            tuple(self._segment(screened, piece) for piece in feasible),
            exact,
            knee,
            "optimal" if all(point.gap == 0 for point in marked) else "feasible",
            notes,
            () if exact else tuple(self._segment((), piece) for piece in pieces),
            len(used),
            in_turn,
        )

    def _within_limits(
        self, tables: Sequence[CandidateTable], breakpoints: Sequence[Breakpoint], pieces: Sequence[LinearPiece]
    ) -> tuple[list[Breakpoint], list[LinearPiece]]:
        """Return the breakpoints and pieces at which the separate optima are the joint ones.

        They keep every shared limit if all jobs start at once, and cost no more than a reservation that several jobs
        could share. None where something else decides when jobs start.
        """
        if self.prepared.scenario.needs_timetable:
            return [], []
        most_usd = self.reserved_usd if self.may_take_turns else math.inf
        keeps = partial(satisfies_limits, tables, limits=self.limits, typical=self.typical)
        # What keeps the limits at both ends does so, by linearity, between them.
        return (
            [point for point in breakpoints if point.usd <= most_usd and keeps(point.choices)],
            [
                piece
                for piece in pieces
                if piece.usd_from <= most_usd and keeps(piece.choices_from) and keeps(piece.choices_to)
            ],
        )

    def _joint(
        self, screened: Sequence[ScreenedCandidates], envelopes: Sequence[Sequence[EnvelopePiece]]
    ) -> JointProgram:
        """Return the program of jobs that start at once."""
        tables, curves = [candidates.table for candidates in screened], [candidates.curves() for candidates in screened]
        return JointProgram(tables, envelopes, self.limits, self.options, curves, self.typical)

    def _turns(self, tables: Sequence[CandidateTable], envelopes: Sequence[Sequence[EnvelopePiece]]) -> CommonDeadlines:
        """Return the timetables of jobs that may take turns, and share reservations."""
        prepared = self.prepared
        unreserved = [
            timetable.without_reservations(table, prepared) for table in tables if math.isfinite(self.reserved_usd)
        ]
        free = [lower_envelope(build_segments(table, self.limits.budget_usd)) for table in unreserved]
        limits = prepared.scenario.limits.model_copy(update={} if self.typical else {"typical_stock": None})
        scenario = prepared.scenario.model_copy(update={"limits": limits})
        return timetable.TurnProgram(scenario, prepared.library, envelopes, self.options, self.reserved_usd, free)

    def _within_budget(
        self, screened: Sequence[ScreenedCandidates], points: Sequence[Breakpoint], pieces: Sequence[LinearPiece]
    ) -> tuple[list[Breakpoint], list[LinearPiece]]:
        """Return the points and pieces whose plans keep the budget; a piece whose first plan does not begins after it.

        A piece is cut where its line meets the budget: the policy for exactly these hours may cost a little more.
        """
        budget = self.limits.budget_usd
        if budget is None:
            return list(points), list(pieces)
        most = budget * (1 + ROUNDING_SHARE)

        def keeps(choices: Sequence[RowChoice]) -> bool:
            return math.fsum(job.cost_at_confidence for job in self.plans(screened, choices)) <= most

        kept = [point for point in points if keeps(point.choices)]
        return kept, [piece if keeps(piece.choices_from) else piece._replace(from_included=False) for piece in pieces]

    def _points(self, screened: Sequence[ScreenedCandidates], breakpoints: Sequence[Breakpoint]) -> tuple[Point, ...]:
        made: list[Point] = []
        market = self.prepared.market
        spot_only = {
            label for label, offer in zip(market.labels, market.offers, strict=True) if offer.usd_per_hour is None
        }
        for point in breakpoints:
            jobs = point.plan.jobs if point.plan else self.plans(screened, point.choices)
            before = self.plans(screened, point.before)
            if before == jobs:  # two pieces of one curve meet
                before = ()
            earlier = before or (made[-1].jobs if made else ())
            usd = point.usd if point.plan else math.fsum(job.cost_usd for job in jobs)
            if made and point.floor_usd is None and usd >= made[-1].cost_usd:
                continue  # its line is lower than the plan before by less than its policy lies above the line
            last = max(jobs, key=lambda job: job.hours.at_confidence)
            # Along a piece the policy for exactly these hours costs a little more or less than the line.
            bound, gap = proven_gap(usd, point.bound + usd - point.usd)
            made.append(
                Point(
                    hours=point.hours,
                    expected_hours=max(job.delay_hours + job.hours.expected for job in jobs),
                    cost_usd=usd,
                    jobs=jobs,
                    before=before,
                    change=describe_job_differences(earlier, jobs),
                    bound=bound,
                    gap=gap,
                    reservations=point.plan.reservations if point.plan else (),
                    budget_probability=(
                        point.plan.budget_probability
                        if point.plan
                        else budget_probability(self.prepared.scenario, jobs)
                    ),
                    separate_usd=None if point.separate_usd is None else min(point.separate_usd, usd),
                    floor_usd=usd if point.floor_usd is not None and point.floor_usd >= point.usd else point.floor_usd,
                    mostly_start_up=last.start_hours > 0.5 * last.hours.expected,
                    spot_only=any(job.spot_share > 0 and job.offer in spot_only for job in jobs),
                )
            )
        return tuple(made)

    def _compute_policies(
        self, screened: Sequence[ScreenedCandidates], breakpoints: Sequence[Breakpoint], pieces: Sequence[LinearPiece]
    ) -> None:
        """Compute the policies of all choices on curves of each job together, for `_plan` and `_leg` to look up."""
        planned = [both for point in breakpoints for both in (point.choices, point.before)]
        ends = [both for piece in pieces for both in (piece.choices_from, piece.choices_to)]
        for index, candidates in enumerate(screened):
            policies = self.prepared.candidates[index].policies
            policies.best_points(
                _keys_on_curves(candidates, (choices[index] for choices in (*planned, *ends) if choices))
            )
            keys = _keys_on_curves(candidates, (choices[index] for choices in planned if choices))
            points = policies.best_points(keys)
            policies.rules([(run, states, at.hours) for (run, states, _), at in zip(keys, points, strict=True)])
            chosen = [self._chosen(index, candidates, choices[index]) for choices in planned if choices]
            draw_dollars([candidate.policy_costs(candidate.spot) for candidate in chosen if candidate.spot is not None])

    def plans(self, screened: Sequence[ScreenedCandidates], choices: Sequence[RowChoice]) -> tuple[Assignment, ...]:
        """Return the plan of each job in full, without the alternatives that `solve` adds."""
        return tuple(self._plan(index, screened[index], choice) for index, choice in enumerate(choices))

    def _plan(self, index: int, screened: ScreenedCandidates, choice: RowChoice) -> Assignment:
        prepared, chosen = self.prepared, self._chosen(index, screened, choice)
        key = (index, chosen.row, chosen.share, chosen.rounded, chosen.spot)
        if key not in self._decoded:
            self._decoded[key] = build_assignment(chosen, self.by_cost, prepared.library, self.as_of)
        return self._decoded[key]

    def _chosen(self, index: int, screened: ScreenedCandidates, choice: RowChoice) -> ChosenCandidate:
        prepared = self.prepared
        return ChosenCandidate.of(prepared.candidates[index], screened, prepared.market, choice.row, choice.share)

    def _segment(self, screened: Sequence[ScreenedCandidates], piece: LinearPiece) -> Segment:
        return Segment(
            hours_from=piece.hours_from,
            hours_to=piece.hours_to,
            cost_from_usd=piece.usd_from,
            cost_to_usd=piece.usd_to,
            from_included=piece.from_included,
            to_included=piece.to_included,
            jobs=tuple(
                self._leg(index, table, old, new)
                for index, (table, old, new) in enumerate(
                    zip(screened, piece.choices_from, piece.choices_to, strict=False)
                )
            ),
        )

    def _leg(self, index: int, screened: ScreenedCandidates, old: RowChoice, new: RowChoice) -> SegmentJob:
        table, market, candidates = screened.table, self.prepared.market, self.prepared.candidates[index]
        place = int(table.offer[old.row])
        shares = [
            self._chosen(index, screened, choice).share if screened.pieces else choice.share for choice in (old, new)
        ]
        return SegmentJob(
            name=candidates.job.name,
            provider=market.offers[place].provider,
            offer=market.labels[place],
            gpu=market.gpus[place],
            gpus=int(table.run_gpus[old.row]),
            method=candidates.recipes[int(table.recipe[old.row])].method_label,
            spot_share_from=shares[0],
            spot_share_to=shares[1],
        )


def _keys_on_curves(screened: ScreenedCandidates, choices: Iterable[RowChoice]) -> list[Key]:
    """Return the run, its market and the guaranteed hours of each choice that lies on a curve, once."""
    pieces = screened.pieces
    return [pieces[choice.row].key(choice.share) for choice in dict.fromkeys(choices) if choice.row in pieces]


def with_knee(points: tuple[Point, ...]) -> tuple[tuple[Point, ...], int | None]:
    """Return the points with the reason at the knee, and its index."""
    knee = find_knee(np.asarray([point.hours for point in points]), np.asarray([point.cost_usd for point in points]))
    if knee is None:
        return points, None
    # Within an hour of the fastest point, a figure per hour would promise savings that no hour reaches.
    near = points[knee.vertex].hours - points[0].hours < 1
    unit, share = ("minute", 1 / 60) if near else ("hour", 1.0)
    before, later = knee.saved_before * share, knee.saved_after * share
    after = f"at most ${later:,.2f}" if later >= 0.01 else "under a cent"
    reason = f"each {unit} up to here saves ${before:,.2f} on average, those after it {after} on average"
    marked = points[knee.vertex].model_copy(update={"knee": reason})
    return (*points[: knee.vertex], marked, *points[knee.vertex + 1 :]), knee.vertex


def ignored_objectives(scenario: Scenario) -> tuple[str, ...]:
    """Return notes on what the scenario's objective counts and the frontier does not."""
    ignored = {
        "penalties are": any(job.techniques.penalty_usd for job in scenario.jobs),
        "the value of time is": scenario.value_of_time_usd_per_hour > 0,
    }
    first = (MINIMISES_END,) if scenario.objective_kind == "time" else ()
    return (*first, *(f"{words} left out: {DOLLARS_PAID}" for words, is_set in ignored.items() if is_set))


# Jobs that share limits: where their separate optima violate one, the program of all jobs is solved.


TIE_USD = 0.005
"""Dollars that the lexicographic passes may lose to break ties: closer points cost the same."""

ROUNDING_USD = 1e-3
"""Dollars that moving shares to their floor or cap may add."""

SAME_PART = 1e-3
"""Relative: of plans that cost less than six dollars, closer ones cost the same. Half a cent is 3 % of 16 cents."""

SAME_SUM = 1e-9
"""Relative: what adding up the same dollars in another order may differ by."""

JUST_BEFORE = 1e-6
"""Relative distance of a deadline just before a point, far below any billing step."""

SLOPE_SHARE = 0.01
"""Share of a step's width: a plan that ends so close to the next point is on a slope, not on a step."""


class SolverLimitError(Exception):
    """The solver reached its limit before it found any plan."""


def satisfies_limits(
    tables: Sequence[CandidateTable],
    choices: Sequence[RowChoice],
    limits: SharedLimits,
    typical: TypicalPeaks | None = None,
) -> bool:
    """Return whether the choices, one for each job, keep every limit that the jobs share, and the typical stock."""
    rows = [table.rows(np.asarray([choice.row])) for table, choice in zip(tables, choices, strict=True)]
    plan, budget = concatenate(rows), limits.budget_usd
    late_usd = float(np.sum(plan.late_cost_usd(np.asarray([choice.share for choice in choices]))))
    provider, offer = np.asarray(plan.providers)[plan.provider], np.asarray(plan.offers)[plan.offer]
    return bool(
        (budget is None or late_usd <= budget + TOLERANCE * max(1.0, budget))
        and not (typical and typical.exceeded(plan))
        and all(peak.used(plan).sum() <= peak.most * (1 + TOLERANCE) for peak in limits.peaks)
        and all(plan.gpus[provider == name].sum() <= limit for name, limit in limits.quota.items())
        and all(plan.instances[offer == name].sum() <= limit for name, limit in limits.stock.items())
        and all(
            plan.rented_h[offer == name].sum() <= limit * (1 + TOLERANCE) for name, limit in limits.committed.items()
        )
    )


def tie_usd(usd: float) -> float:
    """Return by how many dollars a plan must be cheaper than `usd` to be another point of the frontier."""
    return min(TIE_USD, SAME_PART * usd)


def negligible_usd(usd: float) -> float:
    """Return how many dollars below `usd` are not worth another solve: what ties and rounding may move."""
    return min(TIE_USD + ROUNDING_USD, SAME_PART * usd)


def proven_gap(usd: float, bound: float) -> tuple[float, float]:
    """Return the bound of a plan of `usd`, which is `usd` where only its last digits differ, and the gap that it is."""
    return (usd, 0.0) if usd - bound <= SAME_SUM * abs(usd) else (bound, (usd - bound) / usd)


class CommonDeadlines(ABC):
    """The jobs of a scenario, solved together for one common deadline after another."""

    def __init__(self, envelopes: Sequence[Sequence[EnvelopePiece]]) -> None:
        """`envelopes` per job: its least cost by its hours alone, the sum of which no plan of all jobs undercuts."""
        self.envelopes = envelopes
        self.bounds: list[tuple[float, float]] = []
        """(hours, dollars) of every deadline solved: no plan that meets it costs less."""
        self.slope_hours = 0.0
        """A plan that ends so little before the next point is on a slope, too, and so is what lies before it."""

    @abstractmethod
    def fastest_hours(self) -> float | None:
        """Return the least hours in which all jobs can end; None where no plan keeps the limits.

        Raises SolverLimitError where the solver reached its limit without a plan.
        """

    @abstractmethod
    def latest_hours(self) -> float:
        """Return hours after which later deadlines change nothing."""

    @abstractmethod
    def solve_at(self, hours: float) -> Breakpoint | None:
        """Return the cheapest plan whose jobs all end within `hours`; None without one. Raises SolverLimitError."""

    def most_deadlines(self, points: int) -> int:
        """Return how many deadlines are solved where `points` are asked for."""
        return points

    @abstractmethod
    def describe(self, deadlines: int) -> str:
        """Return the note of a frontier that was solved for a number of deadlines."""

    def fill_points(
        self, breakpoints: Sequence[float], feasible: Sequence[Breakpoint], pieces: Sequence[LinearPiece], most: int
    ) -> tuple[list[Breakpoint], tuple[str, ...]]:
        """Return the feasible points, and points of at most `most` deadlines in place of the others, with a note.

        Half of the deadlines are the hours of breakpoints that violate a shared limit, the fastest and the latest end
        among them. Each of the others lies where most dollars may be hidden between two points. No points where no
        plan keeps the limits. `pieces` are the feasible pieces. Raises SolverLimitError.
        """
        # The start of a feasible piece is a point even where the breakpoint at its hours violates a limit.
        feasible = [
            *feasible,
            *(
                Breakpoint(piece.hours_from, piece.usd_from, piece.choices_from, bound=piece.usd_from)
                for piece in pieces
            ),
        ]
        sound = {known_point.hours for known_point in feasible}
        first = breakpoints[0] if breakpoints[0] in sound else self.fastest_hours()
        if first is None:
            return [], ()
        last = breakpoints[-1] if breakpoints[-1] in sound else self.latest_hours()
        broken = sorted({first, last, *(hours for hours in breakpoints if first < hours < last)} - sound)
        chosen = pick_evenly(broken, max(2, most // 2))
        solved = [point for hours in chosen if (point := self.solve_at(hours)) is not None]
        known = remove_dominated([*feasible, *solved])
        sliding, tried = set[float](), set(chosen)
        while len(tried) < max(most, len(chosen)):
            step = self._widest_gap(known, pieces, sliding, tried)
            if step is None:
                break
            left, right, deadline = step
            point = self.solve_at(deadline)
            tried.add(deadline)
            if point is None:
                continue
            near = max(SLOPE_SHARE * (right.hours - left.hours), self.slope_hours)
            if right.hours not in sliding and point.hours > right.hours - near:
                sliding.update((right.hours, point.hours) if self.slope_hours else (right.hours,))
                if point.usd <= right.usd + tie_usd(right.usd):  # a point of the same slope
                    continue
            known = remove_dominated([*known, point])
        return self._with_floors(known), (self.describe(len(tried)),)

    def separate_usd(self, hours: float) -> float:
        """Return the dollars of the jobs within `hours` if each had all limits to itself."""
        return sum(evaluate_envelope(envelope, hours) for envelope in self.envelopes)

    def lower_bound_usd(self, hours: float) -> float:
        """Return the lower bound of all plans that end before `hours`: the separate optima and all proven bounds."""
        earlier = hours * (1 - JUST_BEFORE)
        return max([self.separate_usd(earlier), *(bound for by, bound in self.bounds if by >= earlier)])

    def _widest_gap(
        self,
        known: Sequence[Breakpoint],
        pieces: Sequence[LinearPiece],
        sliding: Collection[float],
        tried: Collection[float],
    ) -> tuple[Breakpoint, Breakpoint, float] | None:
        """Return the neighbours between which most dollars may be hidden, and the deadline that shows most of them.

        None where what may be hidden is negligible, or where that deadline was tried already.
        """
        steps = [
            (hidden, -left.hours, left, right, deadline)
            for left, right in itertools.pairwise(known)
            if not any(piece.hours_from <= left.hours and right.hours <= piece.hours_to for piece in pieces)
            and right.hours - self._proven_until(left, right) > SLOPE_SHARE * JUST_BEFORE * right.hours
            and (hidden := left.usd - self.lower_bound_usd(right.hours)) > negligible_usd(left.usd)
            and (deadline := self._next_deadline(left, right, right.hours in sliding)) not in tried
        ]
        widest = max(steps, key=lambda step: step[:2], default=None)
        return widest[2:] if widest else None

    def _next_deadline(self, left: Breakpoint, right: Breakpoint, slides: bool) -> float:
        """Return the deadline just before the right end, where a solve proves a step; on a slope that in the middle."""
        return math.sqrt(self._proven_until(left, right) * right.hours) if slides else right.hours * (1 - JUST_BEFORE)

    def _proven_until(self, left: Breakpoint, right: Breakpoint) -> float:
        """Return the latest deadline before the right end for which the left point is proven to be optimal."""
        same = left.usd - negligible_usd(left.usd)
        return max([left.hours, *(by for by, bound in self.bounds if by < right.hours and bound >= same)])

    def _with_floors(self, known: Sequence[Breakpoint]) -> list[Breakpoint]:
        points = []
        for left, right in itertools.zip_longest(known, known[1:]):
            floor = left.bound if right is None else self.lower_bound_usd(right.hours)
            # What the passes may lose to break ties is no open step.
            level = floor > left.usd - negligible_usd(left.usd)
            points.append(replace(left, floor_usd=left.usd if level else floor))
        return points


class JointProgram(CommonDeadlines):
    """The program of all jobs at once, solved for one common deadline after another."""

    def __init__(
        self,
        tables: Sequence[CandidateTable],
        envelopes: Sequence[Sequence[EnvelopePiece]],
        limits: SharedLimits,
        options: SolveOptions,
        curves: Sequence[Integers] | None = None,
        typical: TypicalPeaks | None = None,
    ) -> None:
        """`curves` per job: the number (n,) of the curve that a row is a piece of, -1 for none.

        Of the typical stock those limits are held that a plan exceeded.
        """
        super().__init__(envelopes)
        self.tables, self.curves, self.typical = tables, curves, typical
        self.limits = replace(limits, objective="cost", value_of_time_usd_per_hour=0.0)
        self._keep_undominated()
        self.shares_luck = limits.budget_usd is not None and bool((self.table.share_high > 0).any())
        self.solver = partial(
            run,
            solver=options.solver,
            time_limit_seconds=options.time_limit_seconds,
            relative_gap=max(options.gap, DEFAULT_GAP),
        )

    def _keep_undominated(self) -> None:
        """Keep the candidates that the program needs: one dominated at every share is so under every deadline."""
        owner = np.concatenate([np.arange(len(table)) for table in self.tables])
        joined = replace(concatenate(self.tables), penalty_usd=np.zeros(len(owner)))
        kept = np.flatnonzero(find_undominated(joined, self.limits))
        self.table, self.owner = joined.rows(kept), owner[kept]
        self.curve = np.concatenate(self.curves)[kept] if self.curves else np.full(len(kept), -1)

    def _has_more_to_hold(self, chosen: CandidateTable) -> bool:
        """Hold the typical stock that a plan exceeds from now on; return whether there is more of it than before."""
        held = {peak.key for peak in self.limits.peaks}
        exceeded = self.typical.exceeded(chosen) if self.typical else ()
        more = [peak for peak in exceeded if peak.key not in held]
        if more:
            self.limits = self.limits.with_peaks(more)
            self._keep_undominated()
        return bool(more)

    def fastest_hours(self) -> float | None:
        """Return the least hours in which all jobs can end at once; None where no plan keeps the limits."""
        choice = self._choice(self.table, replace(self.limits, objective="time"))
        if choice is None:
            return None
        rows, shares, _ = choice
        if self._has_more_to_hold(self.table.rows(rows)):
            return self.fastest_hours()
        return float(np.max(self.table.rows(rows).late_hours(shares)))

    def latest_hours(self) -> float:
        """Return the latest end of any candidate: later deadlines change nothing."""
        table = self.table
        return float(np.maximum(table.late_hours(table.share_low), table.late_hours(table.share_high)).max())

    def solve_at(self, hours: float) -> Breakpoint | None:
        """Return the cheapest plan whose jobs all end within `hours`; None without one. Raises SolverLimitError."""
        rows, table = clip_to_caps(self.table, hours=hours)
        latest = _latest_pieces(table, self.curve[rows])
        rows, table = rows[latest], table.rows(latest)
        if len(np.unique(table.job)) < len(self.tables):
            return None
        choice = self._choice(table, self.limits)
        if choice is None:
            return None
        chosen, shares, bound = choice
        if self._has_more_to_hold(table.rows(chosen)):
            return self.solve_at(hours)
        if self.shares_luck and (free := self._choice(table, replace(self.limits, budget_usd=None))) is not None:
            bound = free[2]  # a plan whose jobs keep the budget together only is none of this program
        plan = table.rows(chosen)
        shares = self._round_shares(plan, shares, hours)
        usd = float(np.sum(plan.cost_usd(shares)))
        separate = self.separate_usd(hours)
        bound = separate if bound is None else max(bound, separate)
        choices = tuple(
            RowChoice(int(self.owner[rows[row]]), float(share)) for row, share in zip(chosen, shares, strict=True)
        )
        self.bounds.append((hours, bound))
        # What the passes may lose to break ties is no gap.
        bound, gap = proven_gap(usd, usd if bound > usd - negligible_usd(usd) else bound)
        return Breakpoint(float(np.max(plan.late_hours(shares))), usd, choices, bound, gap, separate_usd=separate)

    def describe(self, deadlines: int) -> str:
        """Return the note of a frontier that was solved for a number of deadlines."""
        told = f"the {len(self.tables)} jobs compete for shared limits: solved together for {deadlines} deadlines"
        if not self.shares_luck:
            return told
        return (
            f"{told}; their needs at the confidence are added up: planner solve, which asks how likely all "
            "together keep the budget, may find less"
        )

    def _round_shares(self, plan: CandidateTable, shares: Floats, hours: float) -> Floats:
        """Return shares within tolerance of floor or cap moved there, where that keeps cost, deadline and budget."""
        budget = np.inf if self.limits.budget_usd is None else self.limits.budget_usd
        for end in (plan.share_low, plan.share_high):
            better = (plan.cost_usd(end) <= plan.cost_usd(shares)) & (plan.late_hours(end) <= hours)
            moved = np.where((np.abs(end - shares) < NEGLIGIBLE_SHARE) & better, end, shares)
            if float(np.sum(plan.late_cost_usd(moved))) <= budget:
                shares = moved
        return shares

    def _choice(self, table: CandidateTable, limits: SharedLimits) -> tuple[Integers, Floats, float | None] | None:
        choice = solve_lexicographic(table, limits, self.solver)
        if choice.first.is_infeasible:
            return None
        if not choice.first.has_solution:
            raise SolverLimitError
        return choice.rows, choice.spot_share, choice.first.bound


def _latest_pieces(table: CandidateTable, curve: Integers) -> Flags:
    """Return the rows (n,) of a table cut at a deadline that are no piece of a curve, or its cheapest piece.

    Expected and late dollars of a policy rise and fall together, and all pieces of a curve rent the same machines.
    """
    keep = curve < 0
    order = np.lexsort((table.cost_usd(table.share_high), curve, table.job))
    changes = np.diff(table.job[order], prepend=-1) | np.diff(curve[order], prepend=-1)
    keep[order[changes != 0]] = True
    return keep


def pick_evenly(values: Sequence[float], most: int) -> list[float]:
    """Return at most `most` of the values, evenly by their position, both ends included."""
    places = np.linspace(0, len(values) - 1, min(most, len(values))).round().astype(int)
    return [values[place] for place in places.tolist()]


def remove_dominated(points: Sequence[Breakpoint]) -> list[Breakpoint]:
    """Return the points that no earlier one undercuts or equals, sorted by hours."""
    kept: list[Breakpoint] = []
    for point in sorted(points, key=lambda point: (point.hours, point.usd)):
        if not kept or point.usd < kept[-1].usd - tie_usd(kept[-1].usd):
            kept.append(point)
    return kept
