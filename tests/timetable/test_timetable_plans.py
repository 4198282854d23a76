"""Scenarios over time, solved (and so audited): turns, infeasible ones with their remedies, and faults of the input."""

from __future__ import annotations

from typing import Any

import pytest

from planner.errors import ScenarioError
from planner.loading.scenario_file import change_scenario
from planner.results.plan import Plan
from planner.scenario.scenario import Scenario, SolveOptions
from planner.solving.prepare import prepare
from planner.solving.solve import solve
from planner.spot.switching_policy import CURVE_ERROR
from tests.helpers.stage_scenarios import AS_OF, JOB, RENTED, library, read, solved

OWN = {"provider": "lab", "gpu": "A100-80GB", "gpus": 1, "own": {"power_watts": 500, "usd_per_kwh": 0.3}}
FIVE_HOURS = {**OWN, "available": [{"from": "0h", "to": "5h", "every": "24h"}]}
WEIGHTS = {"stages": {"checkpoints": {"count": 1, "contents": "weights"}}}
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
    assert plan.cost is not None and at_once.cost is not None
    assert (plan.cost.expected, at_once.cost.expected) == (pytest.approx(3.0), pytest.approx(21.5))


def test_jobs_that_share_nothing_scarce_have_the_plan_of_today() -> None:
    """A limit that does not bind changes nothing: the same plan, and no timetable."""
    plain = scenario_of({}, {}, offers=(RENTED,))
    loose = scenario_of({}, {}, offers=(RENTED,), limits={"max_gpus": 16})
    one, other = solved(plain), solved(loose)
    assert not other.is_timetable
    assert one.jobs == other.jobs


@pytest.mark.long
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
        assert again.cost is not None
        assert again.cost.expected == pytest.approx(one.cost_usd)


@pytest.mark.parametrize(
    ("jobs", "offers", "more", "said"),
    [
        (({"after": "b"}, {"after": "a"}), (OWN,), {}, "a and b wait for each other"),
        (({"after": "x"}, {}), (OWN,), {}, "'x', which is no other job; known: b"),
        (({"after": "x"},), (OWN,), {}, "leave `after` out: there is no other job"),
        (({"release": "20h", "deadline": "15h"},), (OWN,), {}, "release it before 15 h"),
        (({"due": "9h"},), (OWN,), {}, "add late_usd_per_hour"),
        (({},), ({**OWN, "available": [{"from": "8h", "to": "2h"}]},), {}, "ends before it begins"),
        (({},), ({**OWN, "available": [{"from": "0h", "to": "9h", "every": "6h"}]},), {}, "cannot return every 6 h"),
        ((WEIGHTS,), (FIVE_HOURS,), {}, "no window is longer than 5.0 h; with checkpoints of weights alone it cannot"),
        (({},), (FIVE_HOURS,), {"limits": {"budgets": [{"per": "day", "usd": 5}]}}, "with budgets by period it cannot"),
        (({"deadline": "20h"},), (FIVE_HOURS,), {}, "nor do several together hold it by the end"),
        (({},), ({**OWN, "own": None, "block": {"start": "5h", "end": "5h", "usd": 1}},), {}, "no hours"),
        (({"trials": {"count": 4, "split": True, "at_once": 2}},), (OWN,), {}, "how many run at once is decided"),
        (({"trials": {"count": 4, "split": True, "halving": 2}},), (OWN,), {}, "the trials of a round go on together"),
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


def test_trials_that_are_split_are_jobs_whose_machines_and_starts_are_decided() -> None:
    """Three trials by 20 h: two in turn on the own machine, one rents; the job after them waits for all."""
    trials = {"trials": {"count": 3, "split": True}, "deadline": "20h"}
    plan = solved(scenario_of(trials, {"after": "a"}))
    where = {job.name: (job.provider, job.start_at_hours) for job in plan.jobs}
    assert sorted(where[name] for name in ("a-1", "a-2", "a-3")) == [("lab", 0.0), ("lab", 10.0), ("p", 0.0)]
    assert where["b"] == ("lab", 20.0)


@pytest.mark.slow
def test_settings_name_the_job_whose_trials_are_split() -> None:
    """The scenario keeps its job as it is written: one more trial, and a deadline of them all."""
    scenario = scenario_of({"trials": {"count": 2, "split": True}, "deadline": "15h"}, offers=(OWN,))
    assert scenario.written_name("a-2") == "a"
    plan = solved(scenario)
    assert plan.infeasible is not None and "jobs.a.deadline=20.0h" in [one.setting for one in plan.infeasible.relax]
    more = change_scenario(scenario, ["jobs.a.trials.count=3", "jobs.a.deadline=30h"])
    assert [job.name for job in more.jobs] == ["a-1", "a-2", "a-3"]
    assert solved(more).status == "optimal"


def test_jobs_that_differ_only_in_name_and_times_share_their_candidates() -> None:
    """Equal arrays, each job with its own name and deadline."""
    scenario = scenario_of({"deadline": "15h"}, {"deadline": "30h", "release": "1h"}, {"deadline": "15h"})
    prepared = prepare(scenario, library())
    assert prepared.candidates[0].table.run_usd is prepared.candidates[1].table.run_usd
    assert prepared.screened[0].table.run_usd is prepared.screened[2].table.run_usd
    assert [one.job.name for one in prepared.candidates] == ["a", "b", "c"]
    assert [set(one.table.job.tolist()) for one in prepared.screened] == [{0}, {1}, {2}]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("limits", "paths"),
    [
        ({"budget_usd": 10}, ["jobs.a.deadline=20.0h", "offers.0.stock=2", "limits.budget_usd=22.99"]),
        ({"max_usd_per_hour": 1.0}, ["jobs.a.deadline=20.0h", "offers.0.stock=2", "limits.max_usd_per_hour=2.31"]),
        ({"budgets": [{"per": "day", "usd": 10}]}, ["jobs.a.deadline=20.0h", "offers.0.stock=2"]),
    ],
)
def test_each_limit_that_alone_would_do_is_named_and_verified(limits: dict[str, Any], paths: list[str]) -> None:
    """Two jobs of 10 h by 15 h, $1.50 on the own machine and $20 on a rented one, which the limit forbids."""
    scenario = scenario_of({"deadline": "15h"}, {"deadline": "15h"}, limits={"budget_confidence": 0.5, **limits})
    plan = solved(scenario)
    assert plan.infeasible is not None
    found = [one.setting for one in plan.infeasible.relax]
    keys = [one.partition("=")[0] for one in found]
    for path in paths:
        key = path.partition("=")[0]
        assert key in keys, found
        if key.startswith(("jobs", "offers")):
            assert path in found
        else:  # the least value up to a hundredth
            least = {"limits.budget_usd": 21.5, "limits.max_usd_per_hour": 2.15}[key]
            given = float(found[keys.index(key)].partition("=")[2])
            assert least <= given <= 1.02 * least + 0.01, found
    assert all(solved(change_scenario(scenario, [one.setting])).status == "optimal" for one in plan.infeasible.relax)


@pytest.mark.slow
def test_limits_that_suffice_only_together_are_changed_together() -> None:
    """Two jobs of 10 h by 15 h with one GPU, and dollars for the own machine alone, which is for one of them."""
    tight = {"max_gpus": 1, "budget_usd": 4, "budget_confidence": 0.5}
    scenario = scenario_of({"deadline": "15h"}, {"deadline": "15h"}, limits=tight)
    scenario = change_scenario(scenario, ["offers.0.available=[{from: 0h, to: 10h}]"])
    plan = solved(scenario)
    assert plan.infeasible is not None
    settings = [one.setting for one in plan.infeasible.relax]
    assert {one.way for one in plan.infeasible.relax} == {1}
    assert sorted(one.partition("=")[0] for one in settings) == ["limits.budget_usd", "limits.max_gpus"]
    assert solved(change_scenario(scenario, settings)).status == "optimal"


@pytest.mark.slow
def test_what_a_month_cannot_pay_waits_for_another_where_no_deadline_is_given() -> None:
    """Four jobs of $20 with $25 a day: the last ends on the fourth day, though all together take 40 h."""
    budgets = {"budget_confidence": 0.5, "budgets": [{"per": "day", "usd": 25}]}
    plan = solved(scenario_of({}, {}, {}, {}, offers=(RENTED,), limits=budgets))
    assert plan.status == "optimal" and plan.hours is not None
    assert plan.hours.at_confidence == pytest.approx(72 + 2.5, abs=0.1)


@pytest.mark.slow
def test_a_policy_on_spot_waits_less_for_a_little_more_in_turn_too() -> None:
    """The guarantee and so the timetable stay; strictly the policy costs less and waits more."""
    spot = {**RENTED, "spot_usd_per_hour": 0.6}
    scenario = scenario_of({"deadline": "60h"}, {"deadline": "60h", "after": "a"}, offers=(spot,), solve={})
    patient, strict = solved(scenario), solved(change_scenario(scenario, ["solve.ties=0"]))
    assert patient.objective == pytest.approx(strict.objective)
    assert patient.objective is not None and patient.cost is not None
    assert patient.objective <= patient.cost.expected <= 1.015 * patient.objective
    for one, other in zip(patient.jobs, strict.jobs, strict=True):
        assert one.spot is not None and other.spot is not None
        assert one.start_at_hours == other.start_at_hours
        assert one.spot.guaranteed_hours == other.spot.guaranteed_hours
        assert one.spot.waiting_hours < other.spot.waiting_hours


@pytest.mark.slow
def test_half_a_minute_more_leaves_room_for_two_guarantees_on_spot() -> None:
    """Half of 30 h and 30 s is no whole minute: rounded up, two such guarantees in turn would not fit."""
    spot = {**RENTED, "spot_usd_per_hour": 0.6, "stock": 1}
    jobs = ({"deadline": "30h"}, {"deadline": "30h"})
    scenario = scenario_of(*jobs, offers=(spot,), solve={"ties": 0})
    longer = change_scenario(scenario, [f"jobs.{name}.deadline={30 + 0.5 / 60:.6f}h" for name in "ab"])
    one, other = solved(scenario), solved(longer)
    assert one.cost is not None and other.cost is not None
    assert all(job.spot is not None for job in (*one.jobs, *other.jobs))
    assert other.cost.expected <= one.cost.expected * (1 + CURVE_ERROR)


HOURLY = {**RENTED, "billing": {"minimum_hours": 1}}
QUICK = {"measured": [{"gpu": "A100-80GB", "gpus": 1, "hours": 0.2787}]}


def test_a_run_of_a_few_minutes_over_midnight_keeps_the_budgets_of_both_days() -> None:
    """$2 for an hour that takes 16.7 minutes: charged over the 17 minutes that the timetable gives to it."""
    budgets = {"budget_confidence": 0.5, "budgets": [{"per": "day", "usd": 1.8}]}
    plan = solved(scenario_of(QUICK, offers=(HOURLY,), limits=budgets))
    assert plan.status == "optimal" and plan.cost is not None and plan.cost.expected == pytest.approx(2.0)
    assert plan.jobs[0].start_at_hours < 24 < (plan.jobs[0].end_at_hours or 0.0)


def test_dollars_per_hour_are_those_of_the_run_not_of_its_whole_minutes() -> None:
    """$2 in 16.7 minutes are $7.18 per hour: $7.10, which 17 minutes would keep, is too little."""
    limits = {"budget_confidence": 0.5, "max_usd_per_hour": 7.1}
    scenario = scenario_of(QUICK, offers=(HOURLY,), limits=limits)
    assert solved(scenario).status == "infeasible"
    assert solved(change_scenario(scenario, ["limits.max_usd_per_hour=7.18"])).status == "optimal"
