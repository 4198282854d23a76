"""The power of all machines at one time, `limits.max_kilowatts`, worked out by hand and against every choice."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from planner.audit.audit import audit
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
    assert plan.cost_usd is not None
    assert plan.cost_usd.expected == pytest.approx(min(sum(DOLLARS[gpu] for gpu in pair) for pair in fits))
    assert drawn(plan) <= limit


@pytest.mark.parametrize("limit", [0.6, 1.1, 1.6])
def test_jobs_in_turn_never_draw_more_at_any_moment(limit: float) -> None:
    """Three jobs take turns on what the limit allows at one time."""
    plan = solved(jobs_of(3, {"max_kilowatts": limit}, "over_time"))
    assert plan.cost_usd is not None and drawn(plan) <= limit
    # worked: an H100 draws 1.008 kW, so below that all three take A100 of 0.576 kW
    assert plan.cost_usd.expected == pytest.approx(60.0 if limit < 1.008 else 30.0)


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
    """No TDP of a TPU is published: with a limit on power it is no candidate, and the first note says so."""
    tpu = {**RENTED, "provider": "tpus", "gpu": "TPU-v5e", "usd_per_hour": 0.01}
    plan = solved(jobs_of(1, {"max_kilowatts": 5, "unmeasured": True}, "over_time", SLOW, tpu))
    assert [job.gpu for job in plan.jobs] == ["A100-80GB"]
    assert plan.warnings[0] == "left out for limits.max_kilowatts: TPU-v5e (the power of its GPU is not published)"
