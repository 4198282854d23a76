"""The frontier at any time is what solve finds for that time, whatever the offers."""

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
ERROR = CURVE_ERROR + 1e-4
"""Relative: how far a straight piece may lie from its curve, and a hair."""


@cache
def library() -> Library:
    return read_library(["gemma-2-2b"])


@st.composite
def offers(draw: st.DrawFn, number: int) -> dict[str, Any]:
    """A fast offer, with a spot market or without."""
    usd = draw(st.floats(1.0, 8.0))
    offer: dict[str, Any] = {
        "provider": f"p{number}",
        "gpu": draw(st.sampled_from(["H100-80GB", "A100-80GB", "L40S"])),
        "gpus": draw(st.sampled_from([1, 2, 4])),
        "usd_per_hour": round(usd, 3),
        "max_nodes": draw(st.integers(1, 2)),
    }
    if draw(st.booleans()):
        offer["spot_usd_per_hour"] = round(usd * draw(st.floats(0.2, 0.9)), 3)
        offer["spot"] = {
            "availability": round(draw(st.floats(0.3, 0.97)), 2),
            "mean_up_hours": round(draw(st.floats(0.5, 12.0)), 2),
        }
    if billing := draw(st.sampled_from([{}, {}, {"step_seconds": 3600}, {"minimum_hours": 1}])):
        offer["billing"] = billing
    return offer


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    """One small job, one to three fast offers, and a late and cheap one; no deadline, so the horizon is 720 h."""
    fast = [draw(offers(number)) for number in range(draw(st.integers(1, 3)))]
    late = {
        "provider": "late",
        "gpu": draw(st.sampled_from(["RTX3090", "T4"])),
        "gpus": draw(st.sampled_from([1, 2])),
        "usd_per_hour": round(draw(st.floats(0.05, 0.6)), 3),
    }
    return scenario_of(round(draw(st.floats(5e6, 2e8))), [*fast, late])


def scenario_of(
    tokens: int, offers: list[dict[str, Any]], least_share: float = 0.0, most_share: float = 1.0
) -> Scenario:
    """One small job on some offers, with a least share on spot and a largest."""
    job = {
        "name": "job",
        "architecture": "gemma-2-2b",
        "work": {"tokens": tokens},
        "sequence_length": 512,
        "global_batch": 32,
        "techniques": {"method": "lora", "weight_bits": 4},
    }
    data = {"name": "drawn", "jobs": [job], "offers": offers, "solve": {"ties": 0}}
    bounds = {"min": least_share, "max": most_share}
    limits = {"limits": {"spot_share": bounds}} if least_share or most_share < 1 else {}
    return parse_scenario(json.dumps({**data, **limits}))


def one_on_spot(tokens: int, late: dict[str, Any], **offer: Any) -> Scenario:
    """An offer with a spot market, and a late one."""
    return scenario_of(tokens, [{"provider": "p0", "gpus": 4, **offer}, {"provider": "late", "gpus": 1, **late}])


STEEP = one_on_spot(
    92_004_363,
    {"gpu": "T4", "usd_per_hour": 0.48},
    gpu="L40S",
    usd_per_hour=2.582,
    spot_usd_per_hour=0.516,
    spot={"availability": 0.45, "mean_up_hours": 5.97},
)
"""The curve falls by a third within one percent of its time."""
MOSTLY_STARTS = one_on_spot(
    5_000_000,
    {"gpu": "RTX3090", "usd_per_hour": 0.2},
    gpu="H100-80GB",
    usd_per_hour=4.397,
    spot_usd_per_hour=0.879,
    spot={"availability": 0.67, "mean_up_hours": 0.5},
)
"""A start takes longer than the work: some policies use spot without any lasting work there."""


BILLED_FOR_AN_HOUR = scenario_of(
    34_700_000,
    [
        *(
            {"provider": f"p{k}", "gpu": "H100-80GB", "gpus": 4, "usd_per_hour": usd, "billing": {"minimum_hours": 1}}
            for k, usd in enumerate([17.5, 17.6, 17.7, 17.8])
        ),
        {
            **{"provider": "spot", "gpu": "A100-80GB", "gpus": 1, "usd_per_hour": 21.9, "spot_usd_per_hour": 7},
            "spot": {"availability": 0.5, "mean_up_hours": 1},
        },
    ],
)
"""Four offers whose 0.2 h cost less than spot before the bill is rounded up to an hour, and twice as much after."""


def cost_by(found: Frontier, hours: float) -> float:
    """The cost that the frontier gives for a time: its last point, or the piece that runs through the time."""
    points = [point.cost_usd for point in found.points if point.hours <= hours * (1 + 1e-9)]
    pieces = []
    for one in found.segments:
        if one.hours_from < hours < one.hours_to:
            part = (hours - one.hours_from) / (one.hours_to - one.hours_from)
            pieces.append(one.cost_from_usd + part * (one.cost_to_usd - one.cost_from_usd))
    return min([*points, *pieces], default=math.inf)


def cost_of_solving(scenario: Scenario, hours: float) -> float:
    """The cost of the plan for a deadline; infinite without one."""
    jobs = tuple(job.model_copy(update={"deadline_hours": hours}) for job in scenario.jobs)
    plan = bare_plan(scenario.model_copy(update={"jobs": jobs}), OPTIONS, library())
    return math.inf if plan.cost is None else plan.cost.expected


@pytest.mark.long
@settings(max_examples=12, derandomize=True, deadline=None, phases=[Phase.explicit, Phase.generate])
@example(STEEP, 0.2, True)
@example(MOSTLY_STARTS, 0.67, True)
@example(BILLED_FOR_AN_HOUR, 0.9, False)
@given(scenarios(), st.floats(0.0, 1.0), st.booleans())
def test_the_frontier_at_a_random_time_is_the_plan_for_that_time(scenario: Scenario, part: float, early: bool) -> None:
    """At a time drawn between the first and the last point, or just before a point, both tell one cost.

    A plan for an earlier deadline keeps a later one, too: the frontier may name the plan for its last point instead,
    as the grid of a longer horizon may err more.
    """
    found = frontier_of_jobs(scenario, OPTIONS, library())
    assert found.exact and found.points
    first, last = found.points[0].hours, found.points[-1].hours
    hours = (1 + 1e-6) * first * (1.2 * last / first) ** part
    if early:
        hours = found.points[round(part * (len(found.points) - 1))].hours * (1 - 1e-6)
    told, cost = cost_by(found, hours), cost_of_solving(scenario, hours)
    if told < cost * (1 - ERROR):
        earlier = max((point.hours for point in found.points if point.hours <= hours), default=hours)
        cost = min(cost, cost_of_solving(scenario, earlier * (1 + 1e-9)))
    assert cost == pytest.approx(told, rel=ERROR, abs=0.006)


@st.composite
def bounded_shares(draw: st.DrawFn) -> Scenario:
    """One small job on one or two offers with a spot market, and a least share of the work there, or a largest."""
    sold = [draw(offers(number)) for number in range(draw(st.integers(0, 1)))]
    usd = round(draw(st.floats(1.0, 8.0)), 3)
    market = {
        "availability": round(draw(st.floats(0.3, 0.97)), 2),
        "mean_up_hours": round(draw(st.floats(0.5, 12.0)), 2),
    }
    spot = {"usd_per_hour": usd, "spot_usd_per_hour": round(usd * draw(st.floats(0.2, 0.9)), 3), "spot": market}
    sold.append({"provider": "p9", "gpu": draw(st.sampled_from(["H100-80GB", "L40S"])), "gpus": 2, **spot})
    bounds = draw(st.sampled_from([(0.05, 1.0), (0.3, 1.0), (0.7, 1.0), (0.95, 1.0), (0.0, 0.6), (0.2, 0.9)]))
    return scenario_of(round(draw(st.floats(5e6, 5e7))), sold, *bounds)


MOST_ON_SPOT = scenario_of(
    60_000_000,
    [
        {
            **{"provider": "p0", "gpu": "RTX3090", "gpus": 1, "usd_per_hour": 0.5, "spot_usd_per_hour": 0.2},
            "spot": {"availability": 0.9, "mean_up_hours": 10},
        }
    ],
    0.95,
)
"""Within a time in which no policy does so much on spot, fixed shares of the two markets do."""
AT_MOST_HALF = scenario_of(
    60_000_000,
    [
        {
            **{"provider": "p0", "gpu": "RTX3090", "gpus": 1, "usd_per_hour": 0.5, "spot_usd_per_hour": 0.2},
            "spot": {"availability": 0.7, "mean_up_hours": 4},
        },
        {
            **{"provider": "p1", "gpu": "L40S", "gpus": 1, "usd_per_hour": 0.9, "spot_usd_per_hour": 0.4},
            "spot": {"availability": 0.9, "mean_up_hours": 10},
        },
    ],
    most_share=0.5,
)
"""No policy: fixed shares of the two markets."""


@pytest.mark.long
@settings(max_examples=4, derandomize=True, deadline=None, phases=[Phase.explicit, Phase.generate])
@example(MOST_ON_SPOT, 0.02, False)
@example(AT_MOST_HALF, 0.3, False)
@example(AT_MOST_HALF, 0.6, True)
@given(bounded_shares(), st.floats(0.0, 1.0), st.booleans())
def test_bounds_on_the_share_of_spot_have_one_cost_that_never_rises_with_time(
    scenario: Scenario, part: float, early: bool
) -> None:
    """At a drawn time or just before a point the frontier tells what solve finds, and a second more costs no more."""
    found = frontier_of_jobs(scenario, OPTIONS, library())
    if not found.points:
        assert cost_of_solving(scenario, 720) == math.inf
        return
    first, last = found.points[0].hours, found.points[-1].hours
    hours = (1 + 1e-6) * first * (1.2 * last / first) ** part
    if early:
        hours = found.points[round(part * (len(found.points) - 1))].hours * (1 - 1e-6)
    told, cost = cost_by(found, hours), cost_of_solving(scenario, hours)
    assert cost == pytest.approx(told, rel=ERROR, abs=0.006)
    assert cost_of_solving(scenario, hours + 1 / 3600) <= cost * (1 + ERROR) + 0.006
    fastest = cost_of_solving(scenario, first * (1 - 1e-4))
    assert fastest == math.inf


@pytest.mark.long
@settings(max_examples=8, derandomize=True, deadline=None, phases=[Phase.explicit, Phase.generate])
@example(BILLED_FOR_AN_HOUR, 4.0)
@given(scenarios(), st.floats(0.5, 48.0))
def test_a_plan_costs_no_more_than_the_best_of_each_offer_alone(scenario: Scenario, hours: float) -> None:
    """However offers are billed: none hides another."""
    alone = [cost_of_solving(scenario.model_copy(update={"offers": (one,)}), hours) for one in scenario.offers]
    assert cost_of_solving(scenario, hours) == pytest.approx(min(alone), rel=ERROR, abs=0.006)
