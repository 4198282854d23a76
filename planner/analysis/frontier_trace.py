"""Points and segments of a frontier: the envelopes of the jobs, summed and decoded."""

from __future__ import annotations

import datetime
import math
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from planner import timetable
from planner.analysis.joint_frontier import (
    CommonDeadlines,
    JointProgram,
    SolverLimitError,
    proven_gap,
    satisfies_limits,
)
from planner.analysis.lower_envelope import (
    Breakpoint,
    EnvelopePiece,
    LinearPiece,
    RowChoice,
    build_segments,
    find_knee,
    lower_envelope,
    sum_envelopes,
)
from planner.arrays import CandidateTable
from planner.candidates.spot_candidates import ScreenedCandidates, SpotChoice
from planner.results.explanation import describe_job_differences
from planner.results.frontier import DOLLARS_PAID, MINIMISES_END, Point, Segment, SegmentJob
from planner.results.plan import Assignment, Status
from planner.results.plan_parts import BEYOND_TYPICAL_STOCK
from planner.scenario.scenario import Scenario, SolveOptions
from planner.solving.chosen import ChosenCandidate
from planner.solving.notes import budget_probability, build_assignment
from planner.solving.optimise_choice import may_take_turns
from planner.solving.prepare import PreparedScenario, build_shared_limits, typical_stock
from planner.spot.drawn_runs import draw_dollars
from planner.spot.policy_cache import Key

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


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
        found = self._traced(screened, points, is_part)
        if found.status != "infeasible" or self.typical is None:
            return found
        self.typical = None
        found = self._traced(screened, points, is_part)
        return replace(found, keeps_typical=False, notes=(BEYOND_TYPICAL_STOCK, *found.notes))

    def _traced(self, screened: Sequence[ScreenedCandidates], points: int, is_part: bool) -> TracedFrontier:
        """Return the frontier within all limits."""
        tables = [candidates.table for candidates in screened]
        envelopes = [lower_envelope(build_segments(table, self.limits.budget_usd)) for table in tables]
        if not all(envelopes):
            return TracedFrontier((), (), True, None, "infeasible")
        breakpoints, pieces = sum_envelopes(envelopes)
        found, feasible = self._within_limits(tables, breakpoints, pieces)
        exact = len(found) == len(breakpoints) and len(feasible) == len(pieces)
        in_turn = self.may_take_turns and not exact
        notes: tuple[str, ...] = ()
        if in_turn and is_part:
            return TracedFrontier((), (), False, None, "no_plan", in_turn=True)
        if not exact:
            try:
                program = self._turns(tables, envelopes) if in_turn else self._joint(screened, envelopes)
                most = program.most_deadlines(points)
                found, notes = program.fill_points([point.hours for point in breakpoints], found, feasible, most)
            except SolverLimitError:
                return TracedFrontier((), (), False, None, "no_plan", in_turn=in_turn)
            if not found:
                return TracedFrontier((), (), False, None, "infeasible", in_turn=in_turn)
        self._compute_policies(screened, found, feasible)
        found, feasible = self._within_budget(screened, found, feasible)
        marked, knee = with_knee(self._points(screened, found))
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
        one = self.prepared
        unreserved = [
            timetable.without_reservations(table, one) for table in tables if math.isfinite(self.reserved_usd)
        ]
        free = [lower_envelope(build_segments(table, self.limits.budget_usd)) for table in unreserved]
        limits = one.scenario.limits.model_copy(update={} if self.typical else {"typical_stock": None})
        scenario = one.scenario.model_copy(update={"limits": limits})
        return timetable.TurnProgram(scenario, one.library, envelopes, self.options, self.reserved_usd, free)

    def _within_budget(
        self, screened: Sequence[ScreenedCandidates], found: Sequence[Breakpoint], pieces: Sequence[LinearPiece]
    ) -> tuple[list[Breakpoint], list[LinearPiece]]:
        """Return the points and pieces whose plans keep the budget; a piece whose first plan does not begins after it.

        A piece is cut where its line meets the budget: the policy for exactly these hours may cost a little more.
        """
        budget = self.limits.budget_usd
        if budget is None:
            return list(found), list(pieces)
        most = budget * (1 + ROUNDING_SHARE)

        def keeps(choices: Sequence[RowChoice]) -> bool:
            return math.fsum(job.cost_at_confidence for job in self.plans(screened, choices)) <= most

        kept = [point for point in found if keeps(point.choices)]
        return kept, [piece if keeps(piece.choices_from) else piece._replace(from_included=False) for piece in pieces]

    def _points(self, screened: Sequence[ScreenedCandidates], found: Sequence[Breakpoint]) -> tuple[Point, ...]:
        made: list[Point] = []
        market = self.prepared.market
        spot_only = {
            label for label, offer in zip(market.labels, market.offers, strict=True) if offer.usd_per_hour is None
        }
        for point in found:
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
        self, screened: Sequence[ScreenedCandidates], found: Sequence[Breakpoint], pieces: Sequence[LinearPiece]
    ) -> None:
        """Compute the policies of all choices on curves of each job together, for `_plan` and `_leg` to look up."""
        planned = [both for point in found for both in (point.choices, point.before)]
        ends = [both for piece in pieces for both in (piece.choices_from, piece.choices_to)]
        for index, candidates in enumerate(screened):
            policies = self.prepared.candidates[index].policies
            policies.best_points(_keys_on_curves(candidates, (each[index] for each in (*planned, *ends) if each)))
            keys = _keys_on_curves(candidates, (each[index] for each in planned if each))
            points = policies.best_points(keys)
            policies.rules([(run, states, at.hours) for (run, states, _), at in zip(keys, points, strict=True)])
            chosen = [self._chosen(index, candidates, each[index]) for each in planned if each]
            draw_dollars([each.policy_costs(each.spot) for each in chosen if each.spot is not None])

    def plans(self, screened: Sequence[ScreenedCandidates], choices: Sequence[RowChoice]) -> tuple[Assignment, ...]:
        """Return the plan of each job in full, without the alternatives that `solve` adds."""
        return tuple(self._plan(index, screened[index], choice) for index, choice in enumerate(choices))

    def _plan(self, index: int, screened: ScreenedCandidates, choice: RowChoice) -> Assignment:
        one, chosen = self.prepared, self._chosen(index, screened, choice)
        key = (index, chosen.row, chosen.share, chosen.rounded, chosen.spot)
        if key not in self._decoded:
            self._decoded[key] = build_assignment(chosen, self.by_cost, one.library, self.as_of)
        return self._decoded[key]

    def _chosen(self, index: int, screened: ScreenedCandidates, choice: RowChoice) -> ChosenCandidate:
        one = self.prepared
        return ChosenCandidate.of(one.candidates[index], screened, one.market, choice.row, choice.share)

    def _segment(self, screened: Sequence[ScreenedCandidates], one: LinearPiece) -> Segment:
        return Segment(
            hours_from=one.hours_from,
            hours_to=one.hours_to,
            cost_from_usd=one.usd_from,
            cost_to_usd=one.usd_to,
            from_included=one.from_included,
            to_included=one.to_included,
            jobs=tuple(
                self._leg(index, table, old, new)
                for index, (table, old, new) in enumerate(zip(screened, one.choices_from, one.choices_to, strict=False))
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
    return (*first, *(f"{what} left out: {DOLLARS_PAID}" for what, is_set in ignored.items() if is_set))
