"""What is asked of a chain around its plan: cost against time, what binds, why not another way."""

from __future__ import annotations

import math
from time import perf_counter
from typing import TYPE_CHECKING

from planner import timetable
from planner.analysis.frontier_question import NOTICEABLE_USD, ignored_objectives
from planner.analysis.frontier_trace import with_knee
from planner.analysis.joint_frontier import SolverLimitError
from planner.errors import Fault, ScenarioError
from planner.reinforcement.rl_chain import ChainSearch, Pairs, around, pairs_of, solve_chain, start_of
from planner.reinforcement.rl_questions import segment_job
from planner.results.explanation import describe_job_differences, method_name
from planner.results.frontier import Frontier, Point, Segment, SegmentJob, hidden_usd
from planner.results.rl_run import RlRun
from planner.solving.alternatives import SOLVED

if TYPE_CHECKING:
    from planner.analysis.lower_envelope import Breakpoint
    from planner.library.schema import Library
    from planner.results.frontier import GroupBy
    from planner.results.plan import Plan
    from planner.scenario.scenario import Scenario, SolveOptions


# Cost against time: the chain is solved for one deadline after another.


class ChainProgram(timetable.TurnProgram):
    """The plans of a chain for deadlines that all its jobs have in common."""

    def __init__(self, scenario: Scenario, shared: ChainSearch) -> None:
        super().__init__(scenario, shared.library, (), shared.options)
        shared.options = self.options
        self.shared = shared
        if scenario.limits.spot_share.max <= 0:  # no guarantees: what ends earlier is another configuration
            self.on_spot, self.slope_hours = False, 0.0

    def fastest_hours(self) -> float | None:
        """Return the least hours in which all jobs can end; None where no plan keeps the limits.

        The other jobs take no less time around a way of the run that costs more: what they take around the fastest
        and cheapest bounds the hours of all ways.
        """
        _, _, pairs = pairs_of(self.scenario, self.shared)
        if pairs is None:
            return None
        best, rest = math.inf, -math.inf
        every = [
            (float(pairs.hours.min()), float(pairs.late_usd.min())),
            *zip(pairs.hours, pairs.late_usd, strict=True),
        ]
        for number, (hours, late_usd) in enumerate(every):
            if best <= hours + rest:
                break
            found = self._end_around(pairs, hours, late_usd)
            if number == 0:
                if found is None:
                    return None
                rest = found - hours
            elif found is not None:
                best = min(best, found)
        return best * (1 + timetable.SAME_DEADLINE) if math.isfinite(best) else None

    def _end_around(self, pairs: Pairs, hours: float, late_usd: float) -> float | None:
        """Return the least hours in which all jobs end around a run of so much; None without a plan."""
        asked = around(self.scenario, pairs.job, hours, late_usd)
        plan = None if asked is None else self.shared.others(asked.model_copy(update={"objective": "time"}))
        if plan is None or plan.hours is None:
            return None
        return max(plan.hours.at_confidence, start_of(pairs.job, plan) + hours)

    def _solve(self, scenario: Scenario) -> Plan | None:
        """Return the plan of a scenario that differs from the others in deadlines; None without one."""
        plan = solve_chain(scenario, self.shared, perf_counter(), explains=False)
        if plan.status == "no_plan":
            raise SolverLimitError
        return plan if plan.status in SOLVED else None


def frontier_of_chain(
    scenario: Scenario, options: SolveOptions, library: Library, by: GroupBy | None, points: int
) -> Frontier:
    """Return the cost for every deadline of all jobs together; exact where no step between two points is left open."""
    if by is not None:
        what = f"curves by {by} are not modelled for kind rl: a way may have two kinds of GPUs"
        raise ScenarioError([Fault(scenario.name, 0, "--by", what, f"use explain --why-not {by}=NAME")])
    started, shared = perf_counter(), ChainSearch(library, options)
    whole = solve_chain(scenario, shared, started)
    if whole.status not in SOLVED:
        return _frontier(scenario, whole, (), (), started)
    program = ChainProgram(scenario, shared)
    try:
        found, notes = program.fill_points([math.inf], (), (), program.most_deadlines(points))
    except SolverLimitError:
        return _frontier(scenario, whole.model_copy(update={"status": "no_plan"}), (), (), started)
    made = list[Point]()
    for one in found:
        made.append(_point(one, made))
    return _frontier(scenario, whole, tuple(made), notes, started)


def _frontier(
    scenario: Scenario, whole: Plan, points: tuple[Point, ...], notes: tuple[str, ...], started: float
) -> Frontier:
    marked, knee = with_knee(points)
    is_exact = bool(points) and all(not point.gap for point in points) and hidden_usd(points, ()) <= NOTICEABLE_USD
    confidences = {job.confidence for job in scenario.jobs}
    status = whole.status if not points else "optimal" if all(not point.gap for point in points) else "feasible"
    return Frontier(
        scenario=scenario.name, status=status, exact=is_exact,
        confidence=confidences.pop() if len(confidences) == 1 else None,
        points=tuple(point.model_copy(update={"floor_usd": None}) for point in marked) if is_exact else marked,
        segments=tuple(map(_segment, marked)) if is_exact else (), knee=knee, candidates=whole.candidates,
        solver="cp-sat", seconds=perf_counter() - started, as_of=whole.as_of, budget_usd=scenario.limits.budget_usd,
        infeasible=None if points else whole.infeasible, notes=(*ignored_objectives(scenario), *notes),
    )  # fmt: skip


def _point(one: Breakpoint, before: list[Point]) -> Point:
    """Return a breakpoint with its plan; `before` are those that end earlier."""
    plan = one.plan
    assert plan is not None and plan.hours is not None
    last = max(plan.parts_that_end, key=lambda part: part.finish_hours)
    start = max(pool.start_hours for pool in last.pools) if isinstance(last, RlRun) else last.start_hours
    return Point(
        hours=one.hours, expected_hours=plan.hours.expected, cost_usd=one.usd, jobs=plan.jobs,
        reservations=plan.reservations, reinforcement=plan.reinforcement, bound=one.bound, gap=one.gap,
        change=describe_job_differences(before[-1].planned if before else (), plan.parts_that_end),
        floor_usd=one.floor_usd, mostly_start_up=start > 0.5 * last.hours.expected,
    )  # fmt: skip


def _segment(point: Point) -> Segment:
    """Return the segment of a point."""
    ends = {"hours_from": point.hours, "hours_to": point.hours}
    usd = {"cost_from_usd": point.cost_usd, "cost_to_usd": point.cost_usd}
    jobs = tuple(
        SegmentJob(
            name=job.name, provider=job.provider, offer=job.offer, gpu=job.gpu, gpus=job.gpus,
            method=method_name(job.techniques), spot_share_from=job.spot_share, spot_share_to=job.spot_share,
        )
        for job in point.jobs
    )  # fmt: skip
    return Segment(**ends, **usd, jobs=(*jobs, *map(segment_job, point.reinforcement)))
