"""The frontier of jobs that may take turns holds what solve finds for any deadline, and more time costs no more."""

from __future__ import annotations

import datetime
import json
import math
from functools import cache
from typing import Any

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from planner.analysis.frontier_question import frontier_of_jobs
from planner.library.reading import read_library
from planner.library.schema import Library
from planner.loading.scenario_file import parse_scenario
from planner.results.frontier import Frontier
from planner.scenario.scenario import Scenario, SolveOptions
from planner.spot.switching_policy import CURVE_ERROR
from tests.helpers.bare_plans import bare_plan

OPTIONS = SolveOptions(as_of=datetime.date(2026, 11, 21))
MINUTE = 1 / 60
TOLERANCE_USD = 0.011
"""What ties of the passes and points that cost the same may differ by."""


@cache
def library() -> Library:
    return read_library(["gemma-2-2b"])


def scenario_of(
    tokens: list[int], offers: list[dict[str, Any]], limits: dict[str, Any], deadlines: list[str | None] | None = None
) -> Scenario:
    """Small jobs on some offers that they share."""
    jobs = [
        {
            "name": f"job{number}",
            "architecture": "gemma-2-2b",
            "work": {"tokens": count},
            "sequence_length": 512,
            "global_batch": 32,
            "techniques": {"method": "lora", "weight_bits": 4},
            **({"deadline": deadlines[number]} if deadlines and deadlines[number] else {}),
        }
        for number, count in enumerate(tokens)
    ]
    return parse_scenario(
        json.dumps({"name": "drawn", "jobs": jobs, "offers": offers, "limits": limits, "solve": {"ties": 0}})
    )


@st.composite
def offers(draw: st.DrawFn, number: int, with_spot: bool) -> dict[str, Any]:
    """An offer, with a stock or without."""
    gpu, usd = draw(st.sampled_from([("H100-80GB", 2.5), ("A100-80GB", 1.4), ("L40S", 0.9), ("RTX3090", 0.2)]))
    gpus = draw(st.sampled_from([1, 2, 4, 8]))
    price = round(usd * gpus * draw(st.floats(0.6, 1.5)), 3)
    offer: dict[str, Any] = {"provider": f"p{number}", "gpu": gpu, "gpus": gpus, "usd_per_hour": price}
    offer["max_nodes"] = draw(st.integers(1, 2))
    if (stock := draw(st.sampled_from([None, None, 1, 2]))) is not None:
        offer["stock"] = stock
    if with_spot and draw(st.booleans()):
        offer["spot_usd_per_hour"] = round(price * draw(st.floats(0.2, 0.8)), 3)
        offer["spot"] = {
            "availability": round(draw(st.floats(0.4, 0.95)), 2),
            "mean_up_hours": round(draw(st.floats(1.0, 12.0)), 2),
        }
    return offer


@st.composite
def scenarios(draw: st.DrawFn, with_spot: bool) -> Scenario:
    """Two or three jobs that share GPUs, a quota, a budget or a stock; two small ones where there is spot."""
    most = 2 if with_spot else 3
    sold = [draw(offers(number, with_spot)) for number in range(draw(st.integers(1, most)))]
    tokens = [round(draw(st.floats(5e6, 3e7 if with_spot else 1e8))) for _ in range(draw(st.integers(2, most)))]
    limits: dict[str, Any] = {}
    if draw(st.booleans()):
        limits["max_gpus"] = draw(st.sampled_from([4, 8, 16]))
    if draw(st.booleans()):
        limits["quota"] = {"p0": draw(st.sampled_from([1, 4, 8]))}
    if draw(st.sampled_from([False, False, True])):
        limits["budget_usd"] = draw(st.sampled_from([5, 20]))
    if with_spot and draw(st.booleans()):
        limits["spot_share"] = {"min": draw(st.sampled_from([0.3, 0.9]))}
    return scenario_of(tokens, sold, limits)


def cost_of_solving(scenario: Scenario, hours: float) -> float:
    """The cost of the plan for a common deadline; infinite without one."""
    jobs = tuple(
        job.model_copy(update={"deadline_hours": min(hours, job.deadline_hours or math.inf)}) for job in scenario.jobs
    )
    plan = bare_plan(scenario.model_copy(update={"jobs": jobs}), OPTIONS, library())
    return math.inf if plan.cost is None else plan.cost.expected


def costs_by(found: Frontier, hours: float) -> tuple[float, float]:
    """The least and the most that the frontier says of the plan for a deadline, to the minute of a timetable."""
    least, most = math.inf, math.inf
    for one in found.points:
        if one.hours <= hours + 1e-9:
            least = one.cost_usd if one.floor_usd is None else one.floor_usd
        if one.hours <= hours - MINUTE:
            most = one.cost_usd
    for piece in found.segments:  # along a slope nothing is open
        if piece.hours_from < hours < piece.hours_to:
            part = (hours - piece.hours_from) / (piece.hours_to - piece.hours_from)
            along = piece.cost_from_usd + part * (piece.cost_to_usd - piece.cost_from_usd)
            least, most = min(least, along), min(most, along)
    return least, most


def cheap(scenario: Scenario, part: float) -> Scenario:
    """The scenario at a part of its prices, and without a budget, which is in dollars."""
    offers = [
        one.model_copy(
            update={
                "usd_per_hour": None if one.usd_per_hour is None else part * one.usd_per_hour,
                "spot_usd_per_hour": None if one.spot_usd_per_hour is None else part * one.spot_usd_per_hour,
            }
        )
        for one in scenario.offers
    ]
    limits = scenario.limits.model_copy(update={"budget_usd": None})
    return scenario.model_copy(update={"offers": tuple(offers), "limits": limits})


def check(scenario: Scenario, part: float, early: bool, error: float) -> None:
    """Compare a frontier with the plans for two deadlines: one drawn, or just before a point, and a little more."""
    found = frontier_of_jobs(scenario, OPTIONS, library())
    if not found.points:
        assert cost_of_solving(scenario, 720) == math.inf
        return
    first, last = found.points[0].hours, found.points[-1].hours
    hours = math.ceil(60 * 0.9 * first * (1.3 * last / first) ** part) * MINUTE
    if early:
        hours = found.points[round(part * (len(found.points) - 1))].hours * (1 - 1e-6)
    least, most = costs_by(found, hours)
    cost, later = cost_of_solving(scenario, hours), cost_of_solving(scenario, hours + 1 / 3600)
    assert cost >= least * (1 - error) - TOLERANCE_USD
    assert cost <= most * (1 + error) + TOLERANCE_USD
    assert later <= cost * (1 + error) + TOLERANCE_USD


SMALL = {"provider": "a", "gpu": "RTX3090", "gpus": 1, "usd_per_hour": 0.2}
BIG = {"provider": "b", "gpu": "A100-80GB", "gpus": 8, "usd_per_hour": 16.0}
IN_TURN = scenario_of([40_000_000, 40_000_000], [SMALL, BIG], {"max_gpus": 8})
"""The cheapest plan fits side by side; the fastest takes turns on the big machine."""
STOCK = scenario_of([40_000_000, 40_000_000], [SMALL, {**BIG, "stock": 1}], {})
DEADLINE = scenario_of([20_000_000, 60_000_000], [SMALL, BIG], {"max_gpus": 8, "budget_usd": 20}, ["3h", None])


@pytest.mark.slow
@pytest.mark.parametrize("scenario", [IN_TURN, STOCK, DEADLINE], ids=["gpus", "stock", "deadline and budget"])
def test_the_fastest_point_is_the_fastest_plan(scenario: Scenario) -> None:
    """Whatever the cheapest plan is: the frontier begins where `objective: time` ends."""
    found = frontier_of_jobs(scenario, OPTIONS, library())
    fastest = bare_plan(scenario.model_copy(update={"objective": "time"}), OPTIONS, library())
    cheapest = bare_plan(scenario, OPTIONS, library())
    assert fastest.hours is not None and cheapest.cost is not None
    assert found.points[0].hours == pytest.approx(fastest.hours.at_confidence, abs=MINUTE)
    assert found.points[-1].cost_usd == pytest.approx(cheapest.cost.expected, abs=TOLERANCE_USD)
    assert any(job.start_at_hours for job in found.points[0].jobs)  # in turn
    assert not found.exact and found.status == "optimal"


@pytest.mark.slow
@pytest.mark.parametrize("scenario", [IN_TURN, STOCK, DEADLINE], ids=["gpus", "stock", "deadline and budget"])
def test_the_hours_of_each_point_are_a_deadline_that_it_keeps(scenario: Scenario) -> None:
    """To the second: a job of 20.2 minutes after one of 10 keeps a deadline of 30.2, which in whole minutes was 30."""
    points = frontier_of_jobs(scenario, OPTIONS, library()).points
    parts = {round(60 * one.hours % 1, 3) for one in points}
    assert parts - {0.0, 1.0}  # some end within a minute
    for one in points:
        assert cost_of_solving(scenario, one.hours) <= one.cost_usd + TOLERANCE_USD


def check_figures(scenario: Scenario, error: float) -> None:
    """Each gap is that of its bound, and the last point is the plan without a common deadline."""
    found, cheapest = frontier_of_jobs(scenario, OPTIONS, library()), bare_plan(scenario, OPTIONS, library())
    if not found.points:
        assert found.status == cheapest.status == "infeasible"
        return
    for one in found.points:
        assert one.bound <= one.cost_usd
        assert one.gap == pytest.approx((one.cost_usd - one.bound) / one.cost_usd, abs=1e-12)
    assert (found.status == "optimal") == all(one.gap == 0 for one in found.points)
    assert cheapest.cost is not None
    assert found.points[-1].cost_usd == pytest.approx(cheapest.cost.expected, rel=2e-3 + error)


TINY = [{**SMALL, "usd_per_hour": 0.02, "stock": 1}, {"provider": "b", "gpu": "L40S", "gpus": 2, "usd_per_hour": 1.1}]
"""Two jobs in turn on it cost cents, and the other machine a hundred times as much."""


@pytest.mark.slow
def test_the_last_of_plans_of_cents_is_that_of_solve() -> None:
    """In turn on an own machine, next to one that costs dollars."""
    jobs = [
        {"name": f"j{place}", "architecture": "gemma-2-2b", "work": {"tokens": count}, "techniques": {"method": "lora"}}
        for place, count in enumerate([2_000_000, 5_000_000, 5_000_000])
    ]
    scenario = parse_scenario(json.dumps({"name": "cents", "jobs": jobs, "offers": TINY, "solve": {"ties": 0}}))
    found = frontier_of_jobs(scenario, OPTIONS, library())
    assert found.points[-1].cost_usd < 0.3
    check_figures(scenario, 0.0)


@pytest.mark.long
@settings(max_examples=8, derandomize=True, deadline=None, phases=[Phase.explicit, Phase.generate])
@example(IN_TURN, 0.01)
@example(STOCK, 1.0)
@given(scenarios(with_spot=False), st.sampled_from([0.01, 0.05, 1.0]))
def test_gaps_are_those_of_bounds_and_the_last_point_is_the_plan(scenario: Scenario, cheaper: float) -> None:
    """Of plans that cost cents, too."""
    check_figures(cheap(scenario, cheaper), 0.0)


@pytest.mark.long
@settings(max_examples=3, derandomize=True, deadline=None, phases=[Phase.explicit, Phase.generate])
@given(scenarios(with_spot=True), st.sampled_from([0.01, 1.0]))
def test_gaps_on_spot_are_those_of_bounds(scenario: Scenario, cheaper: float) -> None:
    """And the last point is the plan to within the error of a curve."""
    check_figures(cheap(scenario, cheaper), 2 * CURVE_ERROR)


@pytest.mark.long
@settings(max_examples=12, derandomize=True, deadline=None, phases=[Phase.explicit, Phase.generate])
@example(IN_TURN, 0.1, False)
@example(STOCK, 0.5, True)
@example(DEADLINE, 0.3, False)
@given(scenarios(with_spot=False), st.floats(0.0, 1.0), st.booleans())
def test_the_frontier_holds_the_plan_for_a_random_deadline(scenario: Scenario, part: float, early: bool) -> None:
    """Between its bound and its cost lies what solve finds, and a second more costs no more."""
    check(scenario, part, early, 1e-6)


@pytest.mark.long
@settings(max_examples=4, derandomize=True, deadline=None, phases=[Phase.explicit, Phase.generate])
@given(scenarios(with_spot=True), st.floats(0.0, 1.0), st.booleans())
def test_the_same_holds_on_spot_markets(scenario: Scenario, part: float, early: bool) -> None:
    """To within the error of a curve, least shares on spot included."""
    check(scenario, part, early, CURVE_ERROR + 1e-4)
