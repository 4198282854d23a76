"""Every relaxation that is reported is a solve of its settings: applied, they give its cost and hours."""

from __future__ import annotations

import json
from itertools import groupby
from typing import Any

import pytest

from planner.analysis.limit_sensitivity import explain
from planner.library.reading import read_library
from planner.loading.scenario_file import change_scenario, parse_scenario
from planner.results.explanation import Explanation
from planner.scenario.scenario import Scenario
from planner.solving.optimise_choice import try_solve
from planner.solving.prepare import prepare
from planner.solving.solve import solve

TINY = "tinyllama-1.1b"
LIBRARY = read_library([TINY])
MARKET = [
    {
        **{"provider": "a", "gpu": "RTX4090", "gpus": 1, "usd_per_hour": 0.4, "spot_usd_per_hour": 0.12},
        "spot": {"availability": 0.6, "mean_up_hours": 2},
    },
    {"provider": "b", "gpu": "RTX3090", "gpus": 1, "usd_per_hour": 0.25, "stock": 1},
    {"provider": "b", "gpu": "H100-80GB", "gpus": 4, "usd_per_hour": 9.0, "spot_usd_per_hour": 4.0},
]
INFEASIBLE: dict[str, tuple[list[str], dict[str, Any]]] = {
    "deadline": (["5m"], {}),
    "budget": (["8h"], {"budget_usd": 0.2}),
    "budget of two": (["8h", "20h"], {"budget_usd": 0.4}),
    "deadline of one of two": (["20h", "5m"], {}),
    "GPUs of two": (["8h", "8h"], {"max_gpus": 1}),
    "time and money of two": (["5m", "20h"], {"budget_usd": 1.0}),
    "share": (["12m"], {"spot_share": {"min": 0.95}, "gpus": {"forbid": ["RTX4090"]}}),
}
FEASIBLE: dict[str, tuple[list[str], dict[str, Any]]] = {
    "deadline": (["2h"], {}),
    "list": (["8h"], {"gpus": {"forbid": ["RTX4090"]}}),
    "deadline of one of two": (["20h", "1h"], {}),
    "budget of two": (["6h", "20h"], {"budget_usd": 3.0}),
    "stock of two": (["8h", "8h"], {"providers": {"allow": ["b"]}}),
}


def document_of(deadlines: list[str], limits: dict[str, Any]) -> dict[str, Any]:
    """Return a scenario file with a job for each deadline."""
    jobs = [
        {"name": f"job{index}", "architecture": TINY, "work": {"tokens": 6e7}, "deadline": deadline, "framework": "hf"}
        for index, deadline in enumerate(deadlines)
    ]
    strict = {"solve": {"ties": 0}, "schedule": "side_by_side"}
    return {"name": "t", "offers": MARKET, "jobs": jobs, "limits": limits, **strict}


def scenario_of(deadlines: list[str], limits: dict[str, Any]) -> Scenario:
    """Return a scenario with a job for each deadline."""
    return parse_scenario(json.dumps(document_of(deadlines, limits)))


def reported(told: Explanation) -> list[tuple[list[str], float, float]]:
    """Return settings, dollars and hours of everything that is reported with settings."""
    ways = [list(group) for _, group in groupby(told.relax, key=lambda one: one.way)]
    found = [([one.setting for one in way], way[0].cost_usd, way[0].hours) for way in ways]
    steps = [one for one in told.next_steps if one.setting]
    return found + [([one.setting], one.cost_usd, one.hours) for one in steps]  # type: ignore[list-item, misc]


def check(scenario: Scenario, told: Explanation) -> None:
    """Apply every reported relaxation from scratch."""
    for settings, usd, hours in reported(told):
        plan = try_solve(prepare(change_scenario(scenario, settings), LIBRARY))
        assert plan is not None, settings
        assert (plan.cost_usd, plan.hours) == pytest.approx((usd, hours), rel=1e-6), settings


@pytest.mark.long
@pytest.mark.parametrize("name", INFEASIBLE)
def test_relaxations_of_an_infeasible_scenario_are_solved(name: str) -> None:
    """Also where only one of two jobs is in the way: the other one keeps its policy on spot."""
    scenario = scenario_of(*INFEASIBLE[name])
    told = explain(scenario, library=LIBRARY)
    assert told.status == "infeasible" and told.relax
    check(scenario, told)


@pytest.mark.long
@pytest.mark.parametrize("name", FEASIBLE)
def test_next_steps_of_a_plan_are_solved(name: str) -> None:
    """What a looser limit would give is what it gives."""
    scenario = scenario_of(*FEASIBLE[name])
    told = explain(scenario, library=LIBRARY)
    assert told.status == "optimal" and told.next_steps
    check(scenario, told)


@pytest.mark.long
def test_spot_that_is_forbidden_is_allowed_by_its_plain_word() -> None:
    """No bound of the share undoes `spot: false` in the file that the settings are applied to."""
    for limits in ("spot: false", "spot_share: {max: 0}"):
        text = json.dumps(document_of(["2h"], {})).replace('"limits": {}', f'"limits": {{{limits}}}')
        told = next(
            one for one in explain(parse_scenario(text), library=LIBRARY).next_steps if one.limit == "limits.spot"
        )
        assert told.setting == "limits.spot=true"
        plan = try_solve(prepare(parse_scenario(text, set_=[told.setting]), LIBRARY))
        assert plan is not None
        assert (plan.cost_usd, plan.hours) == pytest.approx((told.cost_usd, told.hours), rel=1e-6)


@pytest.mark.long
def test_a_scarce_offer_is_reported_with_the_plan_that_more_of_it_gives() -> None:
    """No setting adds machines to an offer, so the offer is changed itself."""
    scenario = scenario_of(["8h", "8h"], {"providers": {"allow": ["b"]}})
    told = next(one for one in explain(scenario, library=LIBRARY).next_steps if one.limit.startswith("stock of"))
    offers = tuple(one.model_copy(update={"stock": 2}) if one.stock else one for one in scenario.offers)
    plan = try_solve(prepare(scenario.model_copy(update={"offers": offers}), LIBRARY))
    assert plan is not None and told.change_to == 2
    assert (plan.cost_usd, plan.hours) == pytest.approx((told.cost_usd, told.hours), rel=1e-6)


@pytest.mark.slow
def test_a_next_step_is_what_solve_makes_of_it_where_jobs_then_take_turns() -> None:
    """The one cheap machine is allowed: `solve` uses it for both jobs, one after the other."""
    scenario = scenario_of(["20h", "20h"], {"gpus": {"forbid": ["RTX3090"]}, "spot": False})
    scenario = change_scenario(scenario, ["schedule=over_time", "offers.1.usd_per_hour=0.05"])
    told = next(one for one in explain(scenario, library=LIBRARY).next_steps if one.limit.startswith("limits.gpus"))
    plan = solve(change_scenario(scenario, [told.setting]), library=LIBRARY)
    assert plan.cost is not None and plan.hours is not None
    assert {job.gpu for job in plan.jobs} == {"RTX3090"}
    assert (plan.cost.expected, plan.hours.expected) == pytest.approx((told.cost_usd, told.hours), rel=1e-6)
