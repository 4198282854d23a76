"""The power of all machines at one time, `limits.max_kilowatts`, worked out by hand and against every choice."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from planner.analysis.limit_sensitivity import explain
from planner.evaluation.audit import audit
from planner.loading.scenario_file import change_scenario
from planner.results.plan import Plan
from planner.scenario.scenario import Scenario
from tests.helpers.stage_scenarios import JOB, RENTED, library, read, solved

KILOWATTS = {"A100-80GB": 0.4 * 1.44, "H100-80GB": 0.7 * 1.44}
"""Of a machine with one GPU: its TDP, times 1.8 for the host, of which 80 % are drawn."""
DOLLARS = {"A100-80GB": 20.0, "H100-80GB": 10.0}
FAST = {**RENTED, "provider": "fast", "gpu": "H100-80GB", "usd_per_hour": 2.0}
SLOW = {**RENTED, "provider": "slow", "gpu": "A100-80GB", "usd_per_hour": 2.0}
SEEN = {
    "confidence": 0.5,
    "measured": [{"gpu": "A100-80GB", "gpus": 1, "hours": 10}, {"gpu": "H100-80GB", "gpus": 1, "hours": 5}],
}


def jobs_of(count: int, limits: dict[str, Any], schedule: str = "side_by_side", *offers: dict[str, Any]) -> Scenario:
    """Return jobs of 10 h on one A100 ($20) or 5 h on one H100 ($10)."""
    jobs = [{**JOB, **SEEN, "name": name} for name in "abcd"[:count]]
    return read({
        "name": "s", "offers": list(offers) or [FAST, SLOW], "jobs": jobs, "limits": limits, "schedule": schedule
    })  # fmt: skip


def drawn(plan: Plan) -> float:
    """Return the most kilowatts at one time, summed at every start from GPUs, starts and ends of the plan."""
    begin = [job.start_at_hours for job in plan.jobs]
    end = [job.end_at_hours or job.hours.at_confidence for job in plan.jobs]
    return max(
        sum(
            job.gpus * job.runs_at_once * KILOWATTS[job.gpu]
            for job, first, last in zip(plan.jobs, begin, end, strict=True)
            if first <= at < last - 1e-6
        )
        for at in begin
    )


@pytest.mark.parametrize("limit", [1.1, 1.2, 1.6, 2.1])
def test_jobs_side_by_side_cost_what_the_best_of_all_choices_costs(limit: float) -> None:
    """Every choice of a GPU for two jobs is tried by hand; below what two A100 draw there is none."""
    # worked: two A100 draw 1.152 kW, one of each 1.584, two H100 2.016
    pairs = itertools.product(KILOWATTS, repeat=2)
    fits = [pair for pair in pairs if sum(KILOWATTS[gpu] for gpu in pair) <= limit]
    plan = solved(jobs_of(2, {"max_kilowatts": limit}))
    if not fits:
        assert plan.status == "infeasible" and plan.infeasible is not None
        assert [one.setting for one in plan.infeasible.relax] == ["limits.max_kilowatts=1.16"]
        return
    assert plan.cost is not None
    assert plan.cost.expected == pytest.approx(min(sum(DOLLARS[gpu] for gpu in pair) for pair in fits))
    assert drawn(plan) <= limit


@pytest.mark.parametrize("limit", [0.6, 1.1, 1.6])
def test_jobs_in_turn_never_draw_more_at_any_moment(limit: float) -> None:
    """Three jobs take turns on what the limit allows at one time."""
    plan = solved(jobs_of(3, {"max_kilowatts": limit}, "over_time"))
    assert plan.cost is not None and drawn(plan) <= limit
    # worked: an H100 draws 1.008 kW, so below that all three take A100 of 0.576 kW
    assert plan.cost.expected == pytest.approx(60.0 if limit < 1.008 else 30.0)


def test_the_least_limit_is_named_and_works() -> None:
    """0.5 kW run nothing; 0.58 kW run one A100 after the other, and a hundredth less does not."""
    scenario = jobs_of(2, {"max_kilowatts": 0.5}, "over_time")
    plan = solved(scenario)
    assert plan.infeasible is not None
    assert [one.setting for one in plan.infeasible.relax] == ["limits.max_kilowatts=0.58"]
    assert solved(change_scenario(scenario, ["limits.max_kilowatts=0.58"])).status == "optimal"
    assert solved(change_scenario(scenario, ["limits.max_kilowatts=0.57"])).status == "infeasible"
    assert any(one.unit == "kW" for one in plan.infeasible.nearest)


def test_the_check_catches_a_plan_that_draws_too_much() -> None:
    """Two jobs at one time, in a plan that is checked against half the power that they draw."""
    loose, tight = (jobs_of(2, {"max_kilowatts": limit}) for limit in (2.1, 1.05))
    found = audit(solved(loose), tight, library())
    # worked: two H100 of 1.008 kW draw 2.016
    assert [(one.what, one.found) for one in found if "kilowatts" in one.what] == [
        ("limits.max_kilowatts", pytest.approx(2.016))
    ]


def test_an_own_machine_draws_what_it_states() -> None:
    """$0.3 per kWh and 300 W: the own machine, of which two draw 0.6 kW."""
    own = {
        "provider": "lab",
        "gpu": "A100-80GB",
        "gpus": 1,
        "stock": 2,
        "own": {"power_watts": 300, "usd_per_kwh": 0.3},
    }
    assert solved(jobs_of(2, {"max_kilowatts": 0.6}, "side_by_side", own)).status == "optimal"
    assert solved(jobs_of(2, {"max_kilowatts": 0.59}, "side_by_side", own)).status == "infeasible"


def test_a_gpu_of_unknown_power_is_left_out_and_named() -> None:
    """No TDP of a TPU is published: it wins without a limit on power, and with one it is no candidate, and told so."""
    tpu = {**RENTED, "provider": "tpus", "gpu": "TPU-v6e", "usd_per_hour": 0.01}
    free, limited = (
        read({
            "name": "s", "offers": [SLOW, tpu], "limits": {**power, "unmeasured": True},
            "jobs": [{**JOB, "techniques": {"method": "full"}, "work": {"tokens": 1e8}}],
        })
        for power in ({}, {"max_kilowatts": 5})
    )  # fmt: skip
    assert [job.gpu for job in solved(free).jobs] == ["TPU-v6e"]
    plan = solved(limited)
    assert [job.gpu for job in plan.jobs] == ["A100-80GB"]
    assert plan.warnings[0] == "left out for limits.max_kilowatts: TPU-v6e (the power of its GPU is not published)"
    answer = explain(limited, "gpu=TPU-v6e", library=library()).why_not
    assert answer is not None
    assert answer.reasons == ("the power of its GPU is not published; limits.max_kilowatts=null admits it",)


@pytest.mark.parametrize("schedule", ["side_by_side", "over_time"])
def test_what_draws_the_limit_exactly_keeps_it(schedule: str) -> None:
    """worked: two T4 of 70 W draw 2 * 0.07 * 1.44 = 0.2016 kW."""
    card = {**RENTED, "gpu": "T4", "usd_per_hour": 1.0}
    seen = {"measured": [{"gpu": "T4", "gpus": 1, "hours": 10}], "deadline": "12h", "confidence": 0.5}
    jobs = [{**JOB, "techniques": {"method": "lora"}, **seen, "name": name} for name in "ab"]
    limited = {"name": "s", "offers": [card], "jobs": jobs, "schedule": schedule}
    assert solved(read({**limited, "limits": {"max_kilowatts": 0.2016}})).status == "optimal"
    assert solved(read({**limited, "limits": {"max_kilowatts": 0.2015}})).status == "infeasible"


def test_a_machine_of_its_own_for_a_stage_keeps_the_limit() -> None:
    """An H100 of 1.008 kW is cheaper, and 0.6 kW leave the A100 of 0.576 kW for training and for its evaluation."""
    job = {**JOB, "techniques": {"method": "lora"}, "stages": {"evaluation": {"share": 0.5, "on": "one_gpu"}}}
    cheap = {**FAST, "usd_per_hour": 0.5}
    limited = read({"name": "s", "offers": [cheap, SLOW], "jobs": [job], "limits": {"max_kilowatts": 0.6}})
    assert not any("at fast" in one.item for one in solved(limited).jobs[0].bill)
    loose = change_scenario(limited, ["limits.max_kilowatts=1.1", "limits.gpus={allow: [A100-80GB, H100-80GB]}"])
    plan = solved(loose)
    assert (
        any(beside.offer.startswith("fast") for beside in plan.jobs[0].separate_machines)
        or plan.jobs[0].gpu == "H100-80GB"
    )
    wrong = [one.what for one in audit(plan, limited, library())]
    assert any("kilowatts" in what or "separate_machines" in what for what in wrong)


def test_explain_names_the_limit_that_keeps_dear_machines_out_of_a_timetable() -> None:
    """0.6 kW run two jobs on an A100 in turn for $40; without the limit each runs on an H100 for $10."""
    found = explain(jobs_of(2, {"max_kilowatts": 0.6}, "over_time"), library=library())
    assert [(one.limit, one.current, one.saving_usd) for one in found.binding] == [
        ("limits.max_kilowatts", 0.6, pytest.approx(20.0))
    ]
    answer = explain(jobs_of(2, {"max_kilowatts": 0.6}, "over_time"), "gpu=H100-80GB,job=a", library=library()).why_not
    assert answer is not None and "draw more than limits.max_kilowatts" in answer.reasons[-1]
