"""The typical stock of what nobody states (`limits.typical_stock`): by hand, and against every choice."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest

from planner.analysis.frontier_question import frontier_of_jobs
from planner.evaluation.audit import audit
from planner.loading.scenario_file import change_scenario
from planner.report.plan_text import render
from planner.results.plan import Plan
from planner.results.plan_parts import BEYOND_TYPICAL_STOCK, WAYS_BEYOND_TYPICAL_STOCK
from planner.scenario.scenario import Scenario
from tests.helpers.stage_scenarios import JOB, RENTED, library, read, solved

HOURS = {"A100-80GB": 10.0, "H100-80GB": 5.0}
OFFERS = {
    "one": {**RENTED, "provider": "one", "gpu": "A100-80GB", "usd_per_hour": 1.0},
    "two": {**RENTED, "provider": "two", "gpu": "A100-80GB", "usd_per_hour": 1.5},
    "fast": {**RENTED, "provider": "two", "gpu": "H100-80GB", "usd_per_hour": 3.6},
    "hosts": {**RENTED, "provider": "hosts", "gpu": "A100-80GB", "usd_per_hour": 1.2, "community": True},
}


def jobs_of(
    count: int, limits: dict[str, Any], *offers: dict[str, Any], scales: tuple[float, ...] = (1.0,) * 4, **keys: Any
) -> Scenario:
    """Return jobs of 10 h on one A100 or 5 h on one H100, times their scale, side by side unless `keys` say more."""
    jobs = [
        {
            **{**JOB, "name": name, "confidence": 0.5},
            "measured": [{"gpu": gpu, "gpus": 1, "hours": hours * scale} for gpu, hours in HOURS.items()],
        }
        for name, scale in zip("abcd"[:count], scales, strict=False)
    ]
    return read({"name": "s", "offers": list(offers) or list(OFFERS.values()), "jobs": jobs, "limits": limits, **keys})


def cost(plan: Plan) -> float:
    """Dollars of all jobs together."""
    return plan.cost.expected if plan.cost else math.inf


def rented(plan: Plan) -> list[str]:
    """The provider of each job, in order of names."""
    return sorted(job.provider for job in plan.jobs)


@pytest.mark.parametrize("scales", [(1.0, 1.0, 1.0), (1.0, 2.0, 0.4), (0.3, 0.6, 3.0)])
@pytest.mark.parametrize("limits", [{"cloud": 1, "marketplace": 1}, {"cloud": 2, "marketplace": 1}, {"cloud": 3}])
def test_a_plan_costs_what_the_best_of_all_choices_costs(scales: tuple[float, ...], limits: dict[str, int]) -> None:
    """Every choice of an offer for three jobs is tried by hand; each kind is limited at its provider."""
    most = {"marketplace": 32, "cloud": 64, **limits}
    kinds = {name: (offer["provider"], offer["gpu"]) for name, offer in OFFERS.items()}
    best = min(
        sum(
            OFFERS[name]["usd_per_hour"] * HOURS[OFFERS[name]["gpu"]] * scale
            for name, scale in zip(chosen, scales, strict=True)
        )
        for chosen in itertools.product(OFFERS, repeat=3)
        if all(
            [kinds[other] for other in chosen].count(kinds[name])
            <= most["marketplace" if OFFERS[name].get("community") else "cloud"]
            for name in chosen
        )
    )
    plan = solved(jobs_of(3, {"typical_stock": limits}, scales=scales, solve={"ties": 0}))
    assert plan.keeps_typical_stock
    assert cost(plan) == pytest.approx(best)


def test_the_defaults_are_32_of_hosts_64_of_a_cloud_and_256_of_a_hyperscaler() -> None:
    """Three jobs of 24 GPUs: one at hosts, two in the cloud, all three at a hyperscaler."""
    for provider, community, fit in (("hosts", True, 1), ("cloud", False, 2), ("aws", False, 3)):
        many = {**RENTED, "provider": provider, "community": community, "gpus": 24, "usd_per_hour": 1.0}
        other = {**RENTED, "provider": "other", "gpus": 24, "usd_per_hour": 2.0}
        jobs = [{**JOB, "name": name, "global_batch": 24} for name in "abc"]
        plan = solved(read({"name": "s", "offers": [many, other], "jobs": jobs}))
        assert rented(plan).count(provider) == fit


def test_one_job_alone_is_never_limited() -> None:
    """Its plan is the same with the smallest typical stock as without any."""
    eight = {**RENTED, "provider": "eight", "gpus": 8, "usd_per_hour": 1.0}
    scenario = jobs_of(1, {}, eight, *OFFERS.values())
    plans = [solved(change_scenario(scenario, [f"limits.typical_stock={most}"])) for most in ("1", "null", "64")]
    figures = [plan.model_dump(exclude={"seconds", "inputs"}) for plan in plans]
    assert figures[0] == figures[1] == figures[2]
    assert plans[0].jobs[0].gpus == 8


def test_a_job_that_needs_more_than_is_typical_has_all_of_it() -> None:
    """One of two jobs rents the 8 GPUs, of which 4 are typical; the other does not join it."""
    eight = {**RENTED, "provider": "eight", "gpus": 8, "usd_per_hour": 1.0}
    plan = solved(jobs_of(2, {"typical_stock": 4}, eight, OFFERS["two"]))
    assert rented(plan) == ["eight", "two"]
    assert plan.keeps_typical_stock


def test_stated_stock_and_own_machines_are_not_guessed() -> None:
    """Both jobs are where the stock is stated, or where the machine is one's own."""
    for more in ({"stock": 9}, {"own": {"power_watts": 400, "usd_per_kwh": 0.3}, "usd_per_hour": None}):
        plan = solved(jobs_of(2, {"typical_stock": 1}, {**OFFERS["one"], **more}, OFFERS["two"]))
        assert rented(plan) == ["one", "one"]


def test_a_plan_that_a_guess_alone_makes_infeasible_is_given_without_it() -> None:
    """Two jobs and one GPU of the only offer: the plan rents two, and says so in its first lines."""
    scenario = jobs_of(2, {"typical_stock": 1}, OFFERS["one"])
    plan = solved(scenario)
    assert plan.status == "optimal" and not plan.keeps_typical_stock
    assert cost(plan) == pytest.approx(20.0)
    assert BEYOND_TYPICAL_STOCK in plan.warnings
    text = " ".join(render(plan).split())
    assert text.index("at one time: 2 A100-80GB at one") < text.index(BEYOND_TYPICAL_STOCK) < text.index(" a: ")


def test_further_ways_that_no_guess_allows_say_so() -> None:
    """Without its own provider each of two jobs needs two GPUs of the other, of which one is typical."""
    scenario = jobs_of(2, {"typical_stock": 1, "fallbacks": 1}, OFFERS["one"], OFFERS["two"])
    plan = solved(scenario)
    assert plan.status == "optimal" and plan.keeps_typical_stock
    assert not any(way.keeps_typical_stock for job in plan.jobs for way in job.fallbacks)
    assert plan.warnings[-1] == f"further ways of a, b {WAYS_BEYOND_TYPICAL_STOCK}"
    assert not audit(plan, scenario, library())
    kept = solved(jobs_of(2, {"typical_stock": 2, "fallbacks": 1}, OFFERS["one"], OFFERS["two"]))
    assert all(way.keeps_typical_stock for job in kept.jobs for way in job.fallbacks)
    silent = kept.model_copy(update={"warnings": ()})
    assert "limits.typical_stock" in " ".join(broken.what for broken in audit(silent, scenario, library()))


def test_a_plan_that_exceeds_it_in_silence_fails_its_audit() -> None:
    """The audit adds up the GPUs itself, and the needs that a plan states."""
    scenario = jobs_of(3, {}, OFFERS["one"], OFFERS["two"])
    plan = solved(scenario)
    tight = change_scenario(scenario, ["limits.typical_stock=2"])
    assert [broken.what for broken in audit(plan, tight, library())] == ["limits.typical_stock of A100-80GB at one"]
    told = plan.model_copy(update={"keeps_typical_stock": False})
    assert not audit(told, tight, library())
    wrong = plan.model_copy(update={"at_one_time": ()})
    assert [broken.what for broken in audit(wrong, scenario, library())] == ["at_one_time of A100-80GB at one"]


def test_a_guess_alone_makes_no_timetable() -> None:
    """In turn both jobs would cost $20 at the cheapest offer; they start at once, one of them elsewhere."""
    plan = solved(jobs_of(2, {"typical_stock": 1}, OFFERS["one"], OFFERS["two"], schedule="over_time"))
    assert not plan.is_timetable
    assert cost(plan) == pytest.approx(25.0)


def test_jobs_in_turn_keep_it_at_every_time() -> None:
    """Four jobs on two GPUs at a time: a pair has one GPU of each provider, where both were at the cheaper one."""
    scenario = jobs_of(4, {"max_gpus": 2}, OFFERS["one"], OFFERS["two"])
    scenario = change_scenario(scenario, ["schedule=over_time", "jobs.a.deadline=25h", "jobs.b.deadline=25h"])
    scenario = change_scenario(scenario, ["jobs.c.deadline=25h", "jobs.d.deadline=25h"])
    assert cost(solved(scenario)) == pytest.approx(40.0)
    tight = change_scenario(scenario, ["limits.typical_stock=1"])
    plan = solved(tight)
    assert rented(plan) == ["one", "one", "two", "two"]
    assert cost(plan) == pytest.approx(50.0)
    assert not audit(plan, tight, library())
    alone = change_scenario(jobs_of(4, {"max_gpus": 2, "typical_stock": 1}, OFFERS["one"]), ["schedule=over_time"])
    alone = change_scenario(alone, [f"jobs.{name}.deadline=25h" for name in "abcd"])
    plan = solved(alone)
    assert not plan.keeps_typical_stock
    assert cost(plan) == pytest.approx(40.0)


def test_a_frontier_keeps_it() -> None:
    """Its point has one GPU of each provider; where there is one provider, it says that no plan keeps it."""
    scenario = jobs_of(2, {"typical_stock": 1}, OFFERS["one"], OFFERS["two"])
    found = frontier_of_jobs(scenario)
    assert [point.cost_usd for point in found.points] == [pytest.approx(25.0)]
    assert not audit(found.plan(0), scenario, library())
    alone = frontier_of_jobs(jobs_of(2, {"typical_stock": 1}, OFFERS["one"]))
    assert not alone.keeps_typical_stock
    assert BEYOND_TYPICAL_STOCK in alone.notes


def test_many_jobs_say_first_what_they_need_at_one_time() -> None:
    """Below the first line, most GPUs first."""
    jobs = [{**JOB, "name": f"j{number}", "global_batch": 8} for number in range(13)]
    four = {**RENTED, "provider": "four", "gpus": 4, "usd_per_hour": 1.0}
    plan = solved(read({"name": "s", "offers": [four, {**four, "provider": "more", "usd_per_hour": 2}], "jobs": jobs,
                        "limits": {"typical_stock": 40}}))  # fmt: skip
    assert [(one.provider, one.gpus) for one in plan.at_one_time] == [("four", 40), ("more", 12)]
    assert (
        render(plan).splitlines()[1].strip() == f"at one time: 40 {RENTED['gpu']} at four, 12 {RENTED['gpu']} at more"
    )
    assert "stock unknown, so limits.typical_stock (a prior) holds: at most 40" in render(plan).splitlines()[2]
