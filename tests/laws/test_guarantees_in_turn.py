"""Jobs on spot in turn: of the guarantees that share the time, some are tried, and the bound holds for all of them."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from planner.results.plan import Plan
from planner.scenario.scenario import Scenario
from planner.solving.prepare import prepare
from planner.spot.switching_policy import CURVE_ERROR
from planner.timetable.modes import least_objective
from planner.timetable.timetable_problem import UNITS_PER_USD
from planner.timetable.timetable_result import TIMETABLE_NOTE
from tests.helpers.bare_plans import bare_plan
from tests.laws.test_frontier_of_turns_is_solve import OPTIONS, TOLERANCE_USD, library, scenario_of

ONE_MACHINE = {
    "provider": "a",
    "gpu": "A100-80GB",
    "gpus": 1,
    "usd_per_hour": 2.0,
    "stock": 1,
    "max_nodes": 1,
    "spot_usd_per_hour": 0.4,
    "spot": {"availability": 0.9, "mean_up_hours": 6.0},
}
LONG_AND_SHORT = [60_000_000, 15_000_000]


def plan_of(tokens: list[int], deadlines: list[float], limits: dict[str, Any] | None = None, **offer: Any) -> Plan:
    """The plan of two jobs that share one machine."""
    asked = scenario_of(tokens, [{**ONE_MACHINE, **offer}], limits or {}, [f"{hours:.2f}h" for hours in deadlines])
    return bare_plan(asked, OPTIONS, library())


def least_hours(tokens: list[int]) -> list[float]:
    """Hours of each job alone, on demand and as fast as it can, at its confidence."""
    offers = [{key: value for key, value in ONE_MACHINE.items() if not key.startswith("spot")}]
    alone: list[Scenario] = [scenario_of([one], offers, {}) for one in tokens]
    plans = [bare_plan(one.model_copy(update={"objective": "time"}), OPTIONS, library()) for one in alone]
    return [plan.hours.at_confidence for plan in plans if plan.hours is not None]


@pytest.mark.slow
def test_a_long_and_a_short_job_both_run_on_spot() -> None:
    """In 1.5 times the hours on demand they fit one after the other, which halves and quarters do not allow."""
    hours = 1.5 * math.fsum(least_hours(LONG_AND_SHORT))
    plan = plan_of(LONG_AND_SHORT, [hours, hours])
    assert TIMETABLE_NOTE in plan.warnings
    assert all(job.spot_share > 0.8 for job in plan.jobs)
    earlier = plan_of(LONG_AND_SHORT, [0.75 * hours, hours])
    assert plan.cost is not None and earlier.cost is not None
    assert plan.cost.expected <= 1.01 * earlier.cost.expected


def test_a_reservation_counts_in_the_bound() -> None:
    """Jobs cost next to nothing on machines that are paid for 3 years: the bound is what they cost without these."""
    reserved = {**ONE_MACHINE, "provider": "b", "commitment": {"months": 36, "upfront_usd": 40_000.0}, "stock": 8}
    reserved = {key: value for key, value in reserved.items() if not key.startswith("spot")} | {"usd_per_hour": 0.0}
    rented = {**ONE_MACHINE, "stock": 8}
    bounds = [
        least_objective(prepare(scenario_of(LONG_AND_SHORT, offers, {}), library()))
        for offers in ([rented], [rented, reserved])
    ]
    assert bounds[0] == bounds[1] > 0.1 * UNITS_PER_USD


@pytest.mark.slow
def test_what_another_job_must_rent_counts_in_the_bound() -> None:
    """One of two jobs fits on the cheap machine in time: that each alone does is no bound of 2 %."""
    own = {"provider": "home", "gpu": "A100-80GB", "gpus": 1, "usd_per_hour": 0.02, "stock": 1, "max_nodes": 1}
    hours = [1.3 * max(least_hours(LONG_AND_SHORT))] * 2
    tokens = [LONG_AND_SHORT[0]] * 2
    asked = scenario_of(tokens, [ONE_MACHINE, own], {}, [f"{one:.2f}h" for one in hours])
    plan = bare_plan(asked, OPTIONS, library())
    assert {job.provider for job in plan.jobs} == {"a", "home"}
    assert plan.gap is not None and plan.gap < 0.01


@pytest.mark.slow
@pytest.mark.parametrize("hours", [3.3, 3.5])
def test_guarantees_fill_the_time_that_another_job_leaves(hours: float) -> None:
    """A job on spot after one on demand takes all that is left, which no fixed part of its time is."""
    least = least_hours(LONG_AND_SHORT)
    room = hours / 2 * math.fsum(least)
    plan = plan_of(LONG_AND_SHORT, [room, room])
    assert plan.gap is not None and plan.gap < 0.03
    ends = [job.end_at_hours for job in plan.jobs if job.end_at_hours is not None]
    assert max(ends) > room - 0.05


@pytest.mark.long
@settings(max_examples=8, derandomize=True, deadline=None, phases=[Phase.explicit, Phase.generate])
@given(
    st.lists(st.integers(5_000_000, 60_000_000), min_size=2, max_size=2),
    st.floats(1.05, 3.0),
    st.floats(0.3, 0.9),
    st.floats(0.2, 1.6),
    st.sampled_from([None, 3, 10]),
)
def test_no_plan_for_an_earlier_deadline_costs_less_than_the_bound(
    tokens: list[int], room: float, part: float, spot_usd: float, budget: float | None
) -> None:
    """A plan that ends one job earlier keeps the later deadline too; a plan called optimal is as cheap."""
    hours = room * math.fsum(least_hours(tokens))
    limits = {} if budget is None else {"budget_usd": budget}
    plan = plan_of(tokens, [hours, hours], limits, spot_usd_per_hour=spot_usd)
    for deadlines in ([part * hours, hours], [hours, part * hours]):
        earlier = plan_of(tokens, deadlines, limits, spot_usd_per_hour=spot_usd)
        if earlier.cost is None:
            continue
        assert plan.cost is not None and plan.bound is not None
        assert plan.bound <= earlier.cost.expected * (1 + CURVE_ERROR) + TOLERANCE_USD
        # A later deadline costs no more, but for what the plan itself says may be missing.
        assert plan.gap is not None and plan.gap <= 0.05
        assert plan.cost.expected * (1 - plan.gap) <= earlier.cost.expected * (1 + CURVE_ERROR) + TOLERANCE_USD
        if plan.status == "optimal":
            assert plan.cost.expected <= earlier.cost.expected * (1 + CURVE_ERROR) + TOLERANCE_USD
