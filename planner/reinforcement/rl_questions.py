"""What is asked of a job of reinforcement learning around its plan: cost against time, reasons, why not another way."""

from __future__ import annotations

import datetime
import math
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from planner.analysis.frontier_question import NOTICEABLE_USD, ignored_objectives
from planner.analysis.frontier_trace import with_knee
from planner.errors import Fault, ScenarioError
from planner.reinforcement.evaluated_rl import report_rl
from planner.reinforcement.rl_solve import (
    RlSearch,
    check_rl,
    count_ways,
    evaluated_way,
    explain_infeasible,
    keeps_limits,
    run_notes,
    search_rl,
)
from planner.results.explanation import describe_job_differences
from planner.results.frontier import Frontier, HiddenByLimit, Point, Segment, SegmentJob
from planner.scenario.limits import latest_finish_hours
from planner.scenario.scenario import Scenario, SolveOptions, rl_job_of

if TYPE_CHECKING:
    from planner.arrays import Flags
    from planner.library.schema import Library
    from planner.results.frontier import GroupBy
    from planner.results.rl_run import RlRun


def searched(scenario: Scenario, library: Library) -> RlSearch:
    """Return every way to run the job of a scenario; ScenarioError for what is not modelled."""
    job = rl_job_of(scenario)
    assert job is not None
    check_rl(scenario, job, library)
    return search_rl(scenario, job, library)


def within(kept: dict[str, Flags], count: int, *without: str) -> Flags:
    """Return the ways (n,) that keep all limits but those named."""
    flags = [flags for name, flags in kept.items() if name not in without]
    return np.logical_and.reduce(flags) if count and flags else np.ones(count, dtype=bool)


# Cost against time: the ways that no other one beats in both.


def frontier_of_rl(scenario: Scenario, options: SolveOptions, library: Library, by: GroupBy | None) -> Frontier:
    """Return the cost for every deadline: of all ways within the limits those that no other one undercuts.

    The time is that at the confidence of the job, the cost expected dollars. Exact: every way is priced.
    """
    if by is not None:
        what = f"curves by {by} are not modelled for kind rl: a way may have two kinds of GPUs"
        raise ScenarioError([Fault(scenario.name, 0, "--by", what, f"use explain for the best way of each {by}")])
    started, as_of = perf_counter(), options.as_of or datetime.date.today()
    search = searched(scenario, library)
    kept = keeps_limits(search)
    able = within(kept, len(search.ways))
    points = list[Point]()
    for way in undercut_by_none(search, able):
        run = report_rl(made := evaluated_way(search, way), as_of)
        points.append(_point(run.model_copy(update={"notes": run_notes(search, made)}), points))
    marked, knee = with_knee(tuple(points))
    return Frontier(
        scenario=scenario.name,
        status="optimal" if points else "infeasible",
        exact=True,
        confidence=search.job.confidence,
        points=marked,
        segments=tuple(_segment(point) for point in marked),
        knee=knee,
        beyond=_hidden(search, kept) if points else (),
        candidates=count_ways(search),
        solver="envelope",
        seconds=perf_counter() - started,
        as_of=as_of.isoformat(),
        budget_usd=scenario.limits.budget_usd,
        infeasible=None if points else explain_infeasible(search, kept),
        notes=ignored_objectives(scenario),
    )


def undercut_by_none(search: RlSearch, able: Flags) -> list[int]:
    """Return of some ways (n,) those that no other one beats in hours and in dollars, the fastest first."""
    ways = search.ways
    members = np.flatnonzero(able)
    order = members[np.lexsort((ways.usd[members], ways.late_hours[members]))]
    least, found = math.inf, list[int]()
    for way in order.tolist():
        if ways.usd[way] < least - NOTICEABLE_USD:
            found.append(way)
            least = float(ways.usd[way])
    return found


def _point(run: RlRun, before: list[Point]) -> Point:
    """Return a breakpoint; `before` are those that end earlier."""
    earlier = before[-1].reinforcement if before else ()
    return Point(
        hours=run.hours.at_confidence,
        expected_hours=run.hours.expected,
        cost_usd=run.cost_usd,
        jobs=(),
        reinforcement=(run,),
        change=describe_job_differences(earlier, (run,)),
        bound=run.cost_usd,
        gap=0.0,
        mostly_start_up=max(pool.start_hours for pool in run.pools) > 0.5 * run.hours.expected,
    )


def _segment(point: Point) -> Segment:
    """Return the segment of a breakpoint: no share of spot varies along it."""
    (run,) = point.reinforcement
    own = SegmentJob(
        name=run.name, provider=run.pools[0].provider, offer=run.pools[0].offer, gpu=run.gpu, gpus=run.gpus,
        method=run.method_name, spot_share_from=0.0, spot_share_to=0.0,
    )  # fmt: skip
    ends = {"hours_from": point.hours, "hours_to": point.hours}
    return Segment(**ends, cost_from_usd=point.cost_usd, cost_to_usd=point.cost_usd, jobs=(own,))


def _hidden(search: RlSearch, kept: dict[str, Flags]) -> tuple[HiddenByLimit, ...]:
    """Return the cheapest way that ends after the deadline, or the longest run, where it costs less."""
    ways, job, limits = search.ways, search.job, search.scenario.limits
    usd = np.where(within(kept, len(ways), "deadline"), ways.usd, math.inf)
    way, least = int(np.argmin(usd)), float(np.where(within(kept, len(ways)), ways.usd, math.inf).min())
    if usd[way] >= least - NOTICEABLE_USD:
        return ()
    latest, hours = latest_finish_hours(job, limits), float(ways.late_hours[way])
    by_deadline = job.deadline_hours is not None and job.deadline_hours <= latest
    limit = f"jobs.{job.name}.deadline" if by_deadline else "limits.max_hours"
    value: Any = "null" if by_deadline else f"{math.ceil(hours)}"
    return (
        HiddenByLimit(
            limit=limit, limit_hours=latest, cost_usd=float(usd[way]), hours=hours, setting=f"{limit}={value}"
        ),
    )
