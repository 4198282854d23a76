"""Scenarios over time, solved (and so audited): turns, infeasible ones with their remedies, and faults of the input."""

from __future__ import annotations

from typing import Any

import pytest

from planner.errors import ScenarioError
from planner.loading.scenario_file import change_scenario
from planner.results.plan import Plan
from planner.scenario.scenario import Scenario, SolveOptions
from planner.solving.solve import solve
from tests.helpers.stage_scenarios import AS_OF, JOB, RENTED, library, read, solved

OWN = {"provider": "lab", "gpu": "A100-80GB", "gpus": 1, "own": {"power_watts": 500, "usd_per_kwh": 0.3}}
TEN = {**JOB, "measured": [{"gpu": "A100-80GB", "gpus": 1, "hours": 10}], "confidence": 0.5}


def scenario_of(*jobs: dict[str, Any], offers: tuple[dict[str, Any], ...] = (OWN, RENTED), **more: Any) -> Scenario:
    """Jobs of 10 h on one A100, each with its own settings, on an own machine and rented ones."""
    made = [{**TEN, "name": name, **job} for name, job in zip("abcdef", jobs, strict=False)]
    return read({"name": "s", "offers": list(offers), "jobs": made, **more})


def times(plan: Plan) -> list[tuple[str, float]]:
    """Provider and start of each job."""
    return [(job.provider, job.start_at_hours) for job in plan.jobs]


def test_two_jobs_take_turns_on_an_idle_machine() -> None:
    """$3 in turn on the own machine, $21.50 if both must start at once."""
    free = scenario_of({"deadline": "3d"}, {"deadline": "3d"})
    plan, at_once = solved(free), solved(change_scenario(free, ["schedule=side_by_side"]))
    assert times(plan) == [("lab", 0.0), ("lab", 10.0)]
    assert plan.cost_usd is not None and at_once.cost_usd is not None
    assert (plan.cost_usd.expected, at_once.cost_usd.expected) == (pytest.approx(3.0), pytest.approx(21.5))


def test_jobs_that_share_nothing_scarce_have_the_plan_of_today() -> None:
    """A limit that does not bind changes nothing: the same plan, and no timetable."""
    plain = scenario_of({}, {}, offers=(RENTED,))
    loose = scenario_of({}, {}, offers=(RENTED,), limits={"max_gpus": 16})
    one, other = solved(plain), solved(loose)
    assert not other.is_timetable
    assert one.jobs == other.jobs


def test_a_plan_within_the_asked_gap_does_not_claim_to_be_exact() -> None:
    """A gap of half stops at any plan; what it reports is a bound below it, and the audit agrees."""
    scenario = scenario_of(*({"deadline": "35h", "release": f"{k}h"} for k in range(6)), limits={"max_gpus": 2})
    plan = solve(scenario, SolveOptions(as_of=AS_OF, gap=0.5), library())
    best = solved(scenario)
    assert plan.objective is not None and plan.bound is not None and best.objective is not None
    assert plan.bound <= best.objective + 1e-6 <= plan.objective + 2e-6
    assert plan.gap == pytest.approx((plan.objective - plan.bound) / plan.objective, abs=1e-9)


def test_release_precedence_and_lag_move_starts() -> None:
    """The second starts 1 h after the first has ended, which starts at its release."""
    plan = solved(scenario_of({"release": "2h"}, {"after": {"job": "a", "lag": "1h"}}))
    assert times(plan) == [("lab", 2.0), ("lab", 13.0)]


def test_an_impossible_timetable_names_what_would_do() -> None:
    """Two jobs of 10 h by 15 h on one machine: a later deadline, or another machine; each gives a plan."""
    scenario = scenario_of({"deadline": "15h"}, {"deadline": "15h"}, offers=(OWN,))
    plan = solved(scenario)
    assert plan.status == "infeasible" and plan.infeasible is not None
    settings = [one.setting for one in plan.infeasible.relax]
    assert any(one.endswith("deadline=20.0h") for one in settings)
    assert "offers.0.stock=2" in settings
    for one in plan.infeasible.relax:
        again = solved(change_scenario(scenario, [one.setting]))
        assert again.cost_usd is not None
        assert again.cost_usd.expected == pytest.approx(one.cost_usd)


@pytest.mark.parametrize(
    ("jobs", "offers", "more", "said"),
    [
        (({"after": "b"}, {"after": "a"}), (OWN,), {}, "a and b wait for each other"),
        (({"after": "x"}, {}), (OWN,), {}, "'x', which is no other job; one of b"),
        (({"release": "20h", "deadline": "15h"},), (OWN,), {}, "release it before 15 h"),
        (({"due": "9h"},), (OWN,), {}, "add late_usd_per_hour"),
        (({},), ({**OWN, "available": [{"from": "8h", "to": "2h"}]},), {}, "ends before it begins"),
        (({},), ({**OWN, "available": [{"from": "0h", "to": "9h", "every": "6h"}]},), {}, "cannot return every 6 h"),
        (({},), ({**OWN, "available": [{"from": "0h", "to": "5h", "every": "24h"}]},), {}, "no window is longer than"),
        (({},), ({**OWN, "own": None, "block": {"start": "5h", "end": "5h", "usd": 1}},), {}, "no hours"),
        (({"release": "1h"},), (OWN,), {"schedule": "side_by_side"}, "leaves no choice of starts"),
        (({"deadline": "2020-12-10"},), (OWN,), {}, "is over"),
        (({"deadline": "2026-12-10"},), (OWN,), {"now": "2026-12-11"}, "is over"),
        (({"release": "2026-12-10x"},), (OWN,), {"now": "2026-12-01"}, "is not a day and time"),
        (({},), (OWN,), {"limits": {"budgets": [{"usd": 5}]}}, "give per: day, week or month"),
    ],
)
def test_faults_say_what_would_be_right(jobs: Any, offers: Any, more: dict[str, Any], said: str) -> None:
    """One line for each fault."""
    with pytest.raises(ScenarioError) as error:
        solved(scenario_of(*jobs, offers=offers, **more))
    assert any(said in str(fault) for fault in error.value.faults), str(error.value)
