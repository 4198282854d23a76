"""Cost against the last finish of a timetable: solved at several finishes between the fastest and the cheapest."""

from __future__ import annotations

import datetime
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING

from planner.formulation.timetable.problem import UNITS_PER_USD, Timetable, objective_value
from planner.results.differences import method_name
from planner.results.frontier import Frontier, Point, Segment, SegmentJob
from planner.scenario.scenario import SolveSettings
from planner.solvers.cp_sat_timetable import SearchLimits, solve_timetable
from planner.solving.solve import count_candidates, find_cut_samples, solve_built
from planner.solving.timetable.build import BuiltTimetable, build_timetable, ending_by

if TYPE_CHECKING:
    from planner.scenario.scenario import SolveOptions
    from planner.solving.prepare import PreparedScenario

MAX_FINISHES = 9
"""Most finishes that are solved: each takes up to `POINT_SECONDS`."""
POINT_SECONDS = 10.0


def frontier_over_time(prepared: PreparedScenario, options: SolveOptions, points: int) -> Frontier:
    """Return the cost of the timetable for several last finishes; each point is proven or states its gap."""
    started, scenario = perf_counter(), prepared.scenario
    built = build_timetable(prepared)
    problem = _in_dollars(built.problem)
    as_of = options.as_of or datetime.date.today()
    facts = {
        "scenario": scenario.name,
        "exact": False,
        "confidence": None,
        "candidates": count_candidates(prepared, 0),
        "solver": "cp-sat",
        "as_of": as_of.isoformat(),
        "budget_usd": scenario.limits.budget_usd,
        "cut": find_cut_samples(prepared),
    }
    limit = SearchLimits(options.time_limit_seconds or POINT_SECONDS)
    fastest = solve_timetable(replace(problem, objective="last"), limit)
    if fastest.schedule is None or fastest.objective is None:
        plan = solve_built(prepared, built, options, started)
        return Frontier(**facts, status=plan.status, seconds=perf_counter() - started, infeasible=plan.infeasible)
    cheapest = solve_timetable(problem, replace(limit, hint=fastest.schedule))
    known = cheapest.schedule or fastest.schedule
    earliest = solve_timetable(problem, replace(limit, hint=known, most=objective_value(problem, known)))
    last = max((earliest.schedule or known).end(problem, index) for index in range(len(problem.tasks)))
    count = max(2, min(points, MAX_FINISHES))
    finishes = sorted({fastest.objective + (last - fastest.objective) * k // (count - 1) for k in range(count)})
    found = [_point(prepared, built, problem, finish, options) for finish in finishes]
    kept = _undominated([one for one in found if one is not None])
    return Frontier(
        **facts,
        status="optimal" if all(one.gap <= 1e-6 for one in kept) else "feasible",
        points=kept,
        segments=tuple(_segment(one) for one in kept),
        seconds=perf_counter() - started,
        notes=("hours are those of the last job to end, waiting for machines included",),
    )


def _in_dollars(problem: Timetable) -> Timetable:
    """Return the timetable with dollars paid as cost: without lateness and the value of time."""
    tasks = tuple(replace(task, due=None, late=0, wait=0) for task in problem.tasks)
    return replace(problem, tasks=tasks, objective="cost")


def _point(
    prepared: PreparedScenario, built: BuiltTimetable, problem: Timetable, finish: int, options: SolveOptions
) -> Point | None:
    """Return the cheapest timetable that ends by a minute; None if none is found in time."""
    by_then = replace(built, problem=ending_by(problem, finish))
    limited = options.model_copy(update={"time_limit_seconds": options.time_limit_seconds or POINT_SECONDS})
    paid = _paid(prepared)
    plan = solve_built(paid, by_then, limited, perf_counter(), explains=False)
    if plan.cost_usd is None or plan.hours is None:
        return None
    cost = plan.cost_usd.expected
    bound = cost if plan.bound is None else min(cost, plan.bound)
    return Point(
        hours=plan.hours.at_confidence,
        expected_hours=plan.hours.expected,
        cost_usd=cost,
        jobs=plan.jobs,
        reservations=plan.reservations,
        bound=bound,
        gap=(cost - bound) / max(cost, 1 / UNITS_PER_USD),
        budget_probability=plan.budget_probability,
    )


def _paid(prepared: PreparedScenario) -> PreparedScenario:
    """Return the scenario with the least dollars paid as objective, as the frontier and its audit count them."""
    jobs = tuple(job.model_copy(update={"due_hours": None, "late_usd_per_hour": 0.0}) for job in prepared.scenario.jobs)
    strict = {"objective": "cost", "jobs": jobs, "solve": SolveSettings(ties=0.0)}
    return replace(prepared, scenario=prepared.scenario.model_copy(update=strict))


def _undominated(points: list[Point]) -> tuple[Point, ...]:
    """Return the points that cost less than every earlier one, each with the bound of what lies before the next."""
    kept: list[Point] = []
    for one in sorted(points, key=lambda one: (one.hours, one.cost_usd)):
        if not kept or one.cost_usd < kept[-1].cost_usd - 0.005:
            kept.append(one)
    floors = [one.bound for one in kept[1:]]
    return tuple(
        one.model_copy(update={"floor_usd": min(one.cost_usd, floor)})
        for one, floor in zip(kept, [*floors, kept[-1].cost_usd], strict=True)
    )


def _segment(point: Point) -> Segment:
    """Return a point as a segment of no length."""
    jobs = tuple(
        SegmentJob(
            name=job.name,
            provider=job.provider,
            offer=job.offer,
            gpu=job.gpu,
            gpus=job.gpus,
            method=method_name(job.techniques) if job.inference else job.techniques.method,
            spot_share_from=job.spot_share,
            spot_share_to=job.spot_share,
        )
        for job in point.jobs
    )
    ends = {"hours_from": point.hours, "hours_to": point.hours}
    return Segment(**ends, cost_from_usd=point.cost_usd, cost_to_usd=point.cost_usd, jobs=jobs)
