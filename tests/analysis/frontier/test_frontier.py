"""The frontier of real scenarios: what solve finds at its breakpoints, sound plans, and the sum of several jobs."""

from __future__ import annotations

import datetime
import itertools
from functools import cache
from typing import Any

import pytest

from planner.analysis.frontier_question import frontier, frontier_of_jobs
from planner.errors import NoPlanError
from planner.evaluation.audit import audit
from planner.library.reading import read_library
from planner.library.schema import Library
from planner.loading.scenario_file import parse_scenario, read_scenario
from planner.report import words
from planner.report.frontier_text import PLAN_MARK, format_late, render_frontier
from planner.results.frontier import Frontier, select_points
from planner.results.plan import Plan
from planner.scenario.scenario import Scenario, SolveOptions
from planner.solving.solve import solve
from planner.spot.switching_policy import CURVE_ERROR
from tests.helpers.bare_plans import bare_plan

OPTIONS = SolveOptions(as_of=datetime.date(2026, 11, 21))
ONE_JOB = ("quickstart", "seven-b-billion-tokens", "budget-bound")
DOLLARS = "objective=cost"
"""budget-bound asks for the soonest end; its frontier is the same for either objective."""
NO_SPOT = "limits.spot_share.max=0"
FEW = "limits.providers.allow=[vast, runpod-community]"
"""A fifth of the market, with spot and without: for laws that hold on any."""
THREE_OFFERS = """
name: three-offers
offers:
  - {provider: a, gpu: RTX3090, gpus: 1, usd_per_hour: 0.2}
  - {provider: b, gpu: L40S, gpus: 1, usd_per_hour: 0.9, spot_usd_per_hour: 0.4,
     spot: {availability: 0.8, mean_up_hours: 5}}
  - {provider: c, gpu: H100-80GB, gpus: 1, usd_per_hour: 2.5}
jobs:
  - {name: job, architecture: tinyllama-1.1b, work: {tokens: 1e8}, deadline: 20h}
solve: {ties: 0}
"""
MIXED = "limits.spot_share.max=0.999"
"""Under a cap two markets are mixed: joint frontiers are held where thousands of policies do not slow the proof."""


@cache
def library() -> Library:
    return read_library()


@cache
def scenario_of(name: str, *changes: str) -> Scenario:
    return read_scenario(name, (*changes, "solve.ties=0"))


SIDE_BY_SIDE = "schedule=side_by_side"
"""Jobs that take turns have a frontier of their own: test_timetable_frontier.py."""


@cache
def traced(name: str, *changes: str, by: str | None = None) -> Frontier:
    return frontier_of_jobs(scenario_of(name, *changes), OPTIONS, library(), by=by)  # type: ignore[arg-type]


def solved_by(scenario: Scenario, hours: float) -> Plan:
    """What solve finds where every job must end by so many hours."""
    jobs = tuple(
        job.model_copy(update={"deadline_hours": min(hours, job.deadline_hours or hours) * (1 + 1e-9)})
        for job in scenario.jobs
    )
    return bare_plan(scenario.model_copy(update={"jobs": jobs, "objective": "cost"}), OPTIONS, library())


def some(count: int, of: int) -> list[int]:
    """So many indices, evenly, both ends among them."""
    return sorted({round(i * (of - 1) / max(1, count - 1)) for i in range(count)})


@pytest.mark.long
@pytest.mark.parametrize("name", ONE_JOB)
def test_solve_with_a_breakpoint_as_deadline_costs_what_the_frontier_says(name: str) -> None:
    """Two methods, one figure, and slightly less time costs more; each point could be rented."""
    found, scenario = traced(name), scenario_of(name)
    dollars = scenario_of(name, DOLLARS)
    assert found.exact
    assert len(found.points) > 2
    for index in some(3, len(found.points)):
        point = found.points[index]
        plan = solved_by(scenario, point.hours)
        assert plan.cost is not None
        assert plan.cost.expected == pytest.approx(point.cost_usd, abs=0.006)
        assert audit(found.plan(index), dollars, library()) == []
    for index in some(3, len(found.points))[1:]:
        plan = solved_by(scenario, found.points[index].hours * (1 - 1e-4))
        assert plan.cost is not None
        assert plan.cost.expected > found.points[index].cost_usd - 0.006
        assert plan.cost.expected <= found.points[index - 1].cost_usd + 0.006
    with pytest.raises(NoPlanError, match="none has index 999"):
        found.plan(999)


@pytest.mark.long
@pytest.mark.parametrize(
    "settings", [*((name,) for name in ONE_JOB), ("three-jobs-one-budget", SIDE_BY_SIDE)], ids="-".join
)
def test_points_are_sorted_and_none_is_dominated(settings: tuple[str, ...]) -> None:
    """More hours always buy less dollars, the bound is never above the cost, and every piece joins what it says."""
    found = traced(*settings)
    for left, right in itertools.pairwise(found.points):
        assert left.hours < right.hours
        assert left.cost_usd > right.cost_usd
    for point in found.points:
        assert point.bound <= point.cost_usd + 1e-9
        assert point.hours == pytest.approx(
            max(job.delay_hours + job.hours.at_confidence for job in point.jobs), rel=1e-9
        )
    for segment in found.segments:
        assert segment.hours_from <= segment.hours_to
        assert segment.cost_from_usd >= segment.cost_to_usd


@pytest.mark.long
def test_the_last_point_is_what_solve_finds() -> None:
    """With all the time that the deadline gives, the cheapest plan of all.

    A frontier may guarantee less time where that costs less: values of a policy lie on grids, which differ by 0.2 %.
    """
    for name in ONE_JOB:
        plan = bare_plan(scenario_of(name, DOLLARS), OPTIONS, library())
        assert plan.least_cost_usd is not None
        last = traced(name).points[-1].cost_usd
        assert last - 0.006 < plan.least_cost_usd < last * 1.002 + 0.006


@pytest.mark.long
def test_jobs_that_share_nothing_cost_the_sum_of_their_frontiers() -> None:
    """Without budget, stock and a limit on GPUs each breakpoint is the sum of what each job costs alone."""
    free = ("limits.budget_usd=null", "limits.max_gpus=null", "limits.typical_stock=null")
    scenario = scenario_of("three-jobs-one-budget", *free, FEW, DOLLARS)
    offers = tuple(offer.model_copy(update={"stock": None}) for offer in scenario.offers)
    scenario = scenario.model_copy(update={"offers": offers, "jobs": scenario.jobs[:2]})
    together = frontier_of_jobs(scenario, OPTIONS, library())
    alone = [
        frontier_of_jobs(scenario.model_copy(update={"jobs": (job,)}), OPTIONS, library()).points
        for job in scenario.jobs
    ]
    assert together.exact
    assert together.points[0].hours == pytest.approx(max(points[0].hours for points in alone))
    for point in together.points:
        # Between the breakpoints of another job its cost may still fall along a slope: never above the last one, but
        # for what the policy for exactly these hours may cost more than the line.
        latest = [min(one.cost_usd for one in points if one.hours <= point.hours + 1e-9) for points in alone]
        assert point.cost_usd <= sum(latest) * (1 + CURVE_ERROR) + 1e-6
        assert point.bound == pytest.approx(point.cost_usd)
    assert together.points[-1].cost_usd == pytest.approx(sum(points[-1].cost_usd for points in alone))
    for points in (together.points, *alone):  # none is dominated, whatever lines and policies differ by
        assert all(left.hours < right.hours for left, right in itertools.pairwise(points))
        assert all(left.cost_usd > right.cost_usd for left, right in itertools.pairwise(points))


@pytest.mark.long
def test_jobs_that_share_a_budget_are_never_below_their_sum_and_as_solve_finds() -> None:
    """Where the budget and the GPUs bind, each point is what solve finds at its hours."""
    found, scenario = traced("three-jobs-one-budget", SIDE_BY_SIDE), scenario_of("three-jobs-one-budget", SIDE_BY_SIDE)
    assert not found.exact
    assert any("compete for shared limits" in note for note in found.notes)
    assert any(point.separate_usd is not None and point.cost_usd > point.separate_usd + 0.01 for point in found.points)
    for point in found.points:
        assert point.separate_usd is None or point.cost_usd >= point.separate_usd - 1e-6
        assert point.gap == 0
        assert sum(job.gpus for job in point.jobs) <= 8
        assert sum(job.cost_at_confidence for job in point.jobs) <= 25 + 1e-6
    for index in some(3, len(found.points))[1:]:
        plan = solved_by(scenario, found.points[index].hours)
        assert plan.cost is not None
        assert plan.cost.expected == pytest.approx(found.points[index].cost_usd, abs=0.012)


@pytest.mark.long
def test_between_two_points_nothing_is_below_the_bound_that_is_shown() -> None:
    """Solving just before each point costs no less than the floor; where the floor is the cost, the step is proven."""
    settings = (SIDE_BY_SIDE, MIXED)
    found, scenario = traced("three-jobs-one-budget", *settings), scenario_of("three-jobs-one-budget", *settings)
    proven = 0
    for left, right in itertools.pairwise(found.points):
        assert left.floor_usd is not None and right.cost_usd - 0.01 <= left.floor_usd <= left.cost_usd
        proven += left.floor_usd == pytest.approx(left.cost_usd, rel=1e-12)
    assert proven > 1
    steps = list(itertools.pairwise(found.points))
    for index in some(3, len(steps)):
        left, right = steps[index]
        plan = solved_by(scenario, right.hours * (1 - 2e-6))
        assert plan.cost is not None and left.floor_usd is not None
        assert left.floor_usd - 0.012 <= plan.cost.expected <= left.cost_usd + 0.012
    assert frontier_of_jobs(scenario, OPTIONS, library(), points=3).hidden_usd > found.hidden_usd


@pytest.mark.long
def test_the_lower_bound_of_jobs_in_each_others_way_is_the_sum_of_their_frontiers() -> None:
    """It stands beside the points where they are not exact, and nowhere else."""
    found = traced("three-jobs-one-budget", SIDE_BY_SIDE)
    assert found.separate and not traced("quickstart").separate

    def least(hours: float) -> float:
        reached = [one for one in found.separate if one.hours_from <= hours]
        return min(
            one.cost_from_usd - one.saved_per_hour * (min(hours, one.hours_to) - one.hours_from) for one in reached
        )

    assert any(least(point.hours) < point.cost_usd - 0.01 for point in found.points)
    for point in found.points:
        assert least(point.hours) <= point.bound * (1 + CURVE_ERROR)
        if point.separate_usd is not None:
            # It was asked for at the deadline that was solved, which may lie later than the plan's own end.
            assert point.separate_usd <= least(point.hours) + 1e-6


@pytest.mark.long
def test_fewer_points_are_solved_where_fewer_are_asked_for() -> None:
    """The number bounds the work, and the note says so."""
    found = frontier_of_jobs(scenario_of("three-jobs-one-budget", SIDE_BY_SIDE), OPTIONS, library(), points=3)
    assert any("solved together for 3 deadlines" in note for note in found.notes)
    assert 2 <= len(found.points) < len(traced("three-jobs-one-budget", SIDE_BY_SIDE).points)


@pytest.mark.long
def test_one_curve_per_method_shows_what_is_not_allowed_too() -> None:
    """quickstart asks for QLoRA: its curve is the frontier, the others are marked."""
    found = traced("quickstart", NO_SPOT, by="method")
    curves = {one.label: one for one in found.curves}
    assert list(curves) == ["QLoRA", "LoRA 8-bit", "LoRA", "full"]
    assert [one.label for one in found.curves if one.allowed] == ["QLoRA"]
    assert curves["QLoRA"].points == found.points
    assert all(job.techniques.method == "full" for one in curves["full"].points for job in one.jobs)


@pytest.mark.long
@pytest.mark.parametrize("by", ["gpu", "provider"])
def test_curves_lie_on_or_above_the_frontier_and_touch_it(by: Any) -> None:
    """The frontier is the least of its curves: every point of it lies on one, within the error of straight segments."""
    found = frontier_of_jobs(parse_scenario(THREE_OFFERS), OPTIONS, library(), by=by)
    assert len(found.points) > 2 and len(found.curves) > 2 and found.segments
    for curve in found.curves:
        for point in curve.points:
            assert {getattr(job, by) for job in point.jobs} == {curve.label}
    for point in found.points:
        at = [cost_at(curve, point.hours) for curve in found.curves]
        assert min(at) == pytest.approx(point.cost_usd, rel=CURVE_ERROR)


def cost_at(curve: Any, hours: float) -> float:
    """Cost of a curve within so many hours: of its points up to there, or on the segment that holds them."""
    costs = [one.cost_usd for one in curve.points if one.hours <= hours]
    for one in curve.segments:
        if one.hours_from < hours < one.hours_to:
            part = (hours - one.hours_from) / (one.hours_to - one.hours_from)
            costs.append(one.cost_from_usd + part * (one.cost_to_usd - one.cost_from_usd))
    return min(costs, default=float("inf"))


@pytest.mark.long
def test_a_deadline_that_hides_something_cheaper_says_what_and_how_to_see_it() -> None:
    """The setting that is named shows just that."""
    found = traced("seven-b-billion-tokens", "jobs.0.deadline=12h", NO_SPOT)
    (beyond,) = found.beyond
    assert beyond.setting == "jobs.seven-b-billion-tokens.deadline=null"
    wider = traced("seven-b-billion-tokens", beyond.setting, NO_SPOT)
    assert wider.points[-1].cost_usd == pytest.approx(beyond.cost_usd)
    assert wider.points[-1].hours == pytest.approx(beyond.hours)
    assert not any(one.limit.endswith("deadline") for one in wider.beyond)


@pytest.mark.long
def test_a_longest_run_that_hides_something_cheaper_is_named_where_it_cuts_first() -> None:
    """Under `max_hours` the deadline is not what limits the frontier."""
    settings = "jobs.0.deadline=12h", "limits.max_hours=9"
    found = traced("seven-b-billion-tokens", *settings)
    (beyond,) = found.beyond
    assert beyond.limit == "limits.max_hours"
    assert found.points[-1].hours <= 9
    assert traced("seven-b-billion-tokens", *settings, beyond.setting).points[-1].hours > 9


@pytest.mark.long
def test_an_infeasible_scenario_is_explained_as_by_solve() -> None:
    """No points, the same reasons."""
    settings = "jobs.0.deadline=1m", NO_SPOT, FEW
    found = traced("quickstart", *settings)
    plan = solve(scenario_of("quickstart", *settings), OPTIONS, library())
    assert (found.status, found.points) == ("infeasible", ())
    assert found.infeasible == plan.infeasible
    assert found.plan().infeasible == plan.infeasible


@pytest.mark.long
def test_jobs_that_cannot_share_are_infeasible_together() -> None:
    """Each would fit alone, three at a time on two GPUs would not."""
    found = frontier_of_jobs(
        scenario_of("three-jobs-one-budget", SIDE_BY_SIDE, NO_SPOT, "limits.max_gpus=2"), OPTIONS, library()
    )
    assert found.status == "infeasible"
    assert found.infeasible is not None
    assert found.infeasible.relax


@pytest.mark.long
def test_what_the_objective_adds_to_dollars_is_left_out_and_said() -> None:
    """Penalties and the value of time are no dollars paid."""
    found = traced("value-of-time", NO_SPOT)
    assert any("value of time is left out" in note for note in found.notes)
    name = scenario_of("quickstart-any").jobs[0].name
    priced = traced("quickstart-any", NO_SPOT, f"jobs.{name}.techniques.penalty_usd={{lora: 50}}")
    assert [one.cost_usd for one in priced.points] == [one.cost_usd for one in traced("quickstart-any", NO_SPOT).points]
    assert any("penalties are left out" in note for note in priced.notes)


@pytest.mark.long
def test_telling_points_keep_both_ends_and_the_knee() -> None:
    """However few there is room for."""
    points = traced("quickstart-any", NO_SPOT).points
    knee = traced("quickstart-any", NO_SPOT).knee
    for most in (3, 5, 8):
        kept = select_points(points, most)
        assert len(kept) <= most
        assert {0, len(points) - 1, knee} <= set(kept)
        assert kept == sorted(kept)


@pytest.mark.long
def test_a_notebook_shows_a_line_per_breakpoint() -> None:
    """An escaped table, no script."""
    found = traced("quickstart")
    shown = found._repr_html_()
    assert shown.count("<tr>") == len(found.points) + 1
    assert "<script" not in shown


@pytest.mark.long
def test_between_the_points_of_a_joint_curve_nothing_is_further_below_than_is_said() -> None:
    """A curve of jobs that compete for shared limits shows what its few solved deadlines may hide, and has no knee."""
    found = traced("three-jobs-one-budget", SIDE_BY_SIDE, MIXED, FEW, by="provider")
    curve = next(one for one in found.curves if one.label == "vast")
    assert not curve.exact and curve.knee is None and curve.hidden_usd > 0
    alone = read_scenario("three-jobs-one-budget", [MIXED, "limits.providers={allow: [vast]}", "solve.ties=0"])
    for hours in (3.0, 5.0, 8.0):
        at = min(one.cost_usd for one in curve.points if one.hours <= hours)
        plan = solved_by(alone, hours)
        assert plan.cost is not None
        assert at - curve.hidden_usd - 0.01 <= plan.cost.expected <= at + 0.01


MARKED = (
    "quickstart", "near-tie", "spot-zones", "spot-waiting", "budget-confidence", "buy-or-rent", "two-fallbacks",
    "fee-storage", "trials-sequential", "mi300x-lora", "queue-two-own-4090",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", MARKED)
def test_the_marked_row_is_the_plan_of_solve(name: str) -> None:
    """On near ties `solve` takes a plan that is not the cheapest row; its figures are those of the answer."""
    plan = solve(name, OPTIONS, explains=False)
    found = frontier(name, OPTIONS)
    assert isinstance(found, Frontier)
    (row,) = [line for line in render_frontier(found).splitlines() if line.startswith(f"{PLAN_MARK} ")]
    assert plan.hours is not None and plan.cost is not None and found.solved is not None
    cost = words.usd(plan.cost.expected).replace("$", "")
    assert row.split()[1].rstrip("*~") == format_late(plan.hours.at_confidence) and row.split()[3] == cost
    assert [(job.offer, job.gpus, job.techniques) for job in found.solved.jobs] == [
        (job.offer, job.gpus, job.techniques) for job in plan.jobs
    ]
