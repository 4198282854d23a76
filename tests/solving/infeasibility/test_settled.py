"""Relaxations of jobs that may take turns: each is what `solve` makes of its settings, and no wider than it needs."""

from __future__ import annotations

import json
from itertools import groupby
from typing import Any

import pytest

from planner.analysis.limit_sensitivity import explain
from planner.loading.scenario_file import parse_scenario
from planner.results.plan_parts import Relaxation
from planner.scenario.scenario import Scenario
from planner.solving.diagnosis import settle
from planner.solving.limit_changes import LimitChange
from planner.solving.prepare import prepare
from planner.solving.solve import solve

L4 = {"provider": "late0", "gpu": "L4", "gpus": 1, "usd_per_hour": 0.361}
FEW_4090 = {
    **{"provider": "p0", "gpu": "RTX4090", "gpus": 4, "usd_per_hour": 25.192, "spot_usd_per_hour": 2.867},
    **{"spot": {"availability": 0.32, "mean_up_hours": 0.52}, "spot_notice_seconds": 120},
}
DAILY_4090 = {
    **{"provider": "p20", "gpu": "RTX4090", "gpus": 2, "usd_per_hour": 27.917, "max_nodes": 2},
    **{"spot_usd_per_hour": 25.751, "spot": {"availability": 0.19, "mean_up_hours": 7.33}},
    "billing": {"step_seconds": 86400, "minimum_hours": 24},
}
L40S = {
    **{"provider": "p0", "gpu": "L40S", "gpus": 1, "usd_per_hour": 3.655, "max_nodes": 4, "spot_usd_per_hour": 0.527},
    "spot": {"availability": 0.33, "mean_up_hours": 0.43},
}
A100 = {
    **{"provider": "p4", "gpu": "A100-80GB", "gpus": 4, "usd_per_hour": 2.377, "max_nodes": 4},
    **{"spot_usd_per_hour": 1.012, "spot": {"availability": 0.86, "mean_up_hours": 27.6}},
}
RTX3090 = {
    **{"provider": "late0", "gpu": "RTX3090", "gpus": 2, "usd_per_hour": 0.633, "spot_usd_per_hour": 0.142},
    "spot": {"availability": 0.54, "mean_up_hours": 12.98},
}
DEAR_L40S = {
    **{"provider": "p3", "gpu": "L40S", "gpus": 2, "usd_per_hour": 17.499, "max_nodes": 4, "spot_usd_per_hour": 7.499}
}


def job(name: str, tokens: float, length: int, deadline: str, architecture: str, confidence: float) -> dict[str, Any]:
    """Return a job that adapts a 16-bit base."""
    return {
        **{"name": name, "architecture": architecture, "work": {"tokens": tokens}, "sequence_length": length},
        **{"global_batch": 32, "techniques": {"method": "lora", "weight_bits": 16}},
        **{"confidence": confidence, "deadline": deadline},
    }


def scenario_of(jobs: list[dict[str, Any]], offers: list[dict[str, Any]], limits: dict[str, Any]) -> str:
    """Return the text of a scenario whose plan is the strict optimum."""
    return json.dumps({"name": "t", "jobs": jobs, "offers": offers, "limits": limits, "solve": {"ties": 0}})


SMALL = [job("j", 15593044, 2048, "2.003h", "gemma-2-2b", 0.5), job("j2", 96348206, 2048, "2.003h", "gemma-2-2b", 0.5)]
LARGE = [job("j", 77369274, 512, "1.646h", "mistral-7b", 0.97), job("j2", 18729912, 512, "1.646h", "mistral-7b", 0.97)]
LONG = [job("j", 42792366, 2048, "1.746h", "mistral-7b", 0.9), job("j2", 25671700, 2048, "1.746h", "mistral-7b", 0.9)]
SHORT = {"architecture": "tinyllama-1.1b", "work": {"tokens": 2e7}, "deadline": "10h"}
FEW = [
    {"provider": "a", "gpu": "RTX4090", "gpus": 1, "usd_per_hour": 0.4, "stock": 1},
    {"provider": "c", "gpu": "H100-80GB", "gpus": 1, "usd_per_hour": 2.5, "stock": 1},
]
FIVE = [{**SHORT, "name": f"j{number}"} for number in range(5)]
HURRIED = [{**one, "deadline": "0.1h"} for one in FIVE]
INFEASIBLE = {
    "one of five jobs": scenario_of([HURRIED[0], *FIVE[1:]], FEW, {}),
    "a job that its number names": scenario_of([*FIVE[:2], {**HURRIED[2], "name": "3rd"}, *FIVE[3:]], FEW, {}),
    "GPUs": scenario_of(SMALL, [L40S, A100, RTX3090], {"spot_share": {"max": 0.6}, "budget_usd": 6.2, "max_gpus": 1}),
    "deadline and budget": scenario_of(LARGE, [FEW_4090, L4, DAILY_4090], {"max_gpus": 4, "budget_usd": 16.89}),
    "deadline": scenario_of(LONG, [DEAR_L40S], {"budget_usd": 71.73, "max_gpus": 4}),
}


def ways(scenario: Scenario) -> list[list[Relaxation]]:
    """Return the relaxations of a scenario."""
    told = explain(scenario)
    assert told.status == "infeasible" and told.relax
    return [list(group) for _, group in groupby(told.relax, key=lambda one: one.way)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] * name.startswith("deadline")) for name in INFEASIBLE]
)
def test_the_plan_of_a_relaxation_is_what_solve_makes_of_its_settings(name: str) -> None:
    """Whether the jobs then run side by side or take turns; the text names the same dollars."""
    text = INFEASIBLE[name]
    for way in ways(parse_scenario(text)):
        plan = solve(parse_scenario(text, set_=[one.setting for one in way]), explains=False)
        assert plan.cost is not None and plan.hours is not None, way
        assert way[0].cost_usd == pytest.approx(plan.cost.expected, rel=1e-4), way
        assert way[0].hours == pytest.approx(plan.hours.expected, rel=1e-4), way
        is_late = way[0].then.endswith(" at 90 %")
        usd = plan.cost_at_confidence if is_late else plan.cost.expected
        assert f"${usd:,.2f}" in way[0].then


@pytest.mark.slow
def test_a_relaxation_of_many_jobs_is_what_solve_makes_of_it_in_turn() -> None:
    """Side by side four of five jobs would run on the dear card; the cheap one serves them one after the other."""
    dear = {"provider": "b", "gpu": "H100-80GB", "gpus": 1, "usd_per_hour": 9.0, "stock": 5}
    text = scenario_of(HURRIED, [*FEW, dear], {})
    (way,) = ways(parse_scenario(text))
    assert all(one.limit.endswith(".deadline") for one in way)
    plan = solve(parse_scenario(text, set_=[one.setting for one in way]), explains=False)
    assert plan.cost is not None and way[0].cost_usd is not None
    assert way[0].cost_usd == pytest.approx(plan.cost.expected, rel=1e-4)
    assert f"${way[0].cost_usd:,.2f}" in way[0].then


@pytest.mark.long
def test_of_more_than_eight_jobs_the_dollars_side_by_side_are_an_upper_bound() -> None:
    """No timetable of so many is solved, which might cost less; the text says so."""
    dear = {"provider": "b", "gpu": "H100-80GB", "gpus": 1, "usd_per_hour": 9.0, "stock": 20}
    jobs = [{**HURRIED[0], "name": f"j{number}"} for number in range(9)]
    (way,) = ways(parse_scenario(scenario_of(jobs, [*FEW, dear], {})))
    assert f"at most ${way[0].cost_usd:,.2f}" in way[0].then


@pytest.mark.slow
def test_no_fewer_gpus_would_do() -> None:
    """Side by side the jobs need five GPUs, in turn four; with three there is no plan."""
    text = INFEASIBLE["GPUs"]
    alone = next(way for way in ways(parse_scenario(text)) if [one.limit for one in way] == ["limits.max_gpus"])
    assert alone[0].setting == "limits.max_gpus=4"
    assert solve(parse_scenario(text, set_=["limits.max_gpus=3"]), explains=False).status == "infeasible"


@pytest.mark.slow
def test_a_budget_is_no_larger_than_the_plan_in_turn_needs() -> None:
    """Side by side the expensive machine is rented for a day; in turn the cheap ones do, one with 3/4 of the time."""
    text = INFEASIBLE["deadline and budget"]
    way = next(way for way in ways(parse_scenario(text)) if len(way) == 2 and "usd" in way[1].limit)
    assert way[1].change_to == pytest.approx(31.61, abs=0.1)
    plan = solve(parse_scenario(text, set_=tuple(one.setting for one in way)), explains=False)
    assert plan.cost_at_confidence is not None
    assert plan.cost_at_confidence <= way[1].change_to < 1.01 * plan.cost_at_confidence


def test_a_change_that_is_not_needed_is_left_out() -> None:
    """Of GPUs and a budget that suffices already only the GPUs are told."""
    prepared = prepare(parse_scenario(INFEASIBLE["GPUs"]))
    changes = [
        LimitChange("limits.max_gpus", 1.0, 5.0, "limits.max_gpus=5"),
        LimitChange("limits.budget_usd", 6.2, 50.0, "limits.budget_usd=50.00"),
    ]
    settled = settle(prepared, changes)
    assert settled is not None
    assert [one.setting for one in settled[1]] == ["limits.max_gpus=4"]


def test_changes_without_a_plan_are_no_relaxation() -> None:
    """Neither two GPUs nor settings that contradict one another are told."""
    prepared = prepare(parse_scenario(INFEASIBLE["GPUs"]))
    assert settle(prepared, [LimitChange("limits.max_gpus", 1.0, 2.0, "limits.max_gpus=2")]) is None
    assert settle(prepared, [LimitChange("limits.max_gpus", 1.0, 2.0, "limits.max_gpus=none")]) is None
