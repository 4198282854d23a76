"""Further ways if a machine cannot be had, lead times, stock, and what buying the machine would cost."""

from __future__ import annotations

import datetime
import json
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.analysis.frontier_question import frontier_of_jobs
from planner.analysis.limit_sensitivity import explain
from planner.evaluation.audit import audit
from planner.library.reading import read_library
from planner.library.schema import Library
from planner.loading.scenario_file import change_scenario, parse_scenario
from planner.report.plan_text import render
from planner.results.plan import Plan
from planner.scenario.scenario import Scenario, SolveOptions
from planner.solving.solve import solve

OPTIONS = SolveOptions(as_of=datetime.date(2026, 11, 21))
CARDS = {"RTX3090": 20, "A100-80GB": 8, "A6000": 14}
"""Observed hours of the whole job."""


@cache
def library() -> Library:
    return read_library(["tinyllama-1.1b"])


def job(**more: Any) -> dict[str, Any]:
    """A job whose hours were observed on every card."""
    measured = [{"gpu": name, "gpus": 1, "hours": hours} for name, hours in CARDS.items()]
    kept = {"architecture": "tinyllama-1.1b", "work": {"tokens": "20M"}, "framework": "hf", "measured": measured}
    return {"name": "a", **kept, "techniques": {"method": "lora", "weight_bits": 16}, **more}


def offer(provider: str, gpu: str, usd: float, **more: Any) -> dict[str, Any]:
    return {"provider": provider, "gpu": gpu, "gpus": 1, "usd_per_hour": usd, **more}


FOUR = (
    offer("one", "RTX3090", 0.3),
    offer("two", "RTX3090", 0.4),
    offer("two", "A100-80GB", 1.5),
    offer("three", "RTX3090", 0.9),
)


def asked(*offers: dict[str, Any], jobs: Any = None, **others: Any) -> Scenario:
    """The strict optimum of one job on some offers."""
    data = {"jobs": jobs or [job()], "offers": offers or FOUR, "solve": {"ties": 0}, **others}
    return parse_scenario(json.dumps(data))


@cache
def with_one_way() -> tuple[Scenario, Plan]:
    """A scenario that asks for one further way, and its plan."""
    scenario = asked(limits={"fallbacks": 1})
    return scenario, solved(scenario)


def solved(scenario: Scenario, *set_: str) -> Plan:
    return solve(change_scenario(scenario, set_), OPTIONS, library())


@pytest.mark.slow
def test_further_ways_are_the_next_best_elsewhere() -> None:
    """$6 on an RTX 3090; then $8 at another provider, and $12 on another card, which adds $6; cheapest first."""
    plan = solved(asked(limits={"fallbacks": 2}))
    (only,) = plan.jobs
    assert [(way.provider, way.gpu) for way in only.fallbacks] == [("two", "RTX3090"), ("two", "A100-80GB")]
    assert [way.cost_usd for way in only.fallbacks] == pytest.approx([8, 12])
    assert [way.more_usd for way in only.fallbacks] == pytest.approx([2, 6])
    assert [way.hours for way in only.fallbacks] == pytest.approx([20, 8])
    text = " ".join(render(plan).split())
    assert "if it cannot be had: 1 x RTX3090 at two $8.00" in text and "the most expensive adds $6.00" in text


@pytest.mark.slow
def test_without_the_demand_the_plan_is_the_same_and_names_none() -> None:
    """The demand changes no plan that meets it, and its JSON has no key without it."""
    free, bound = solved(asked()), solved(asked(limits={"fallbacks": 1}))
    assert free.jobs[0].bill == bound.jobs[0].bill and free.objective == bound.objective
    assert "fallbacks" not in free.model_dump(mode="json")["jobs"][0]
    assert Plan.model_validate_json(bound.model_dump_json(by_alias=True)) == bound


prices = st.lists(st.floats(0.2, 2.0), min_size=4, max_size=4)


@pytest.mark.long
@settings(max_examples=6, derandomize=True, deadline=None)
@given(prices, st.integers(0, 2))
def test_one_more_further_way_is_never_cheaper(usd: list[float], wanted: int) -> None:
    """The most expensive of k + 1 ways costs no less than the most expensive of k, and the first k stay."""
    offers = [{**one, "usd_per_hour": price} for one, price in zip(FOUR, usd, strict=True)]
    fewer, more = (solved(asked(*offers, limits={"fallbacks": count})) for count in (wanted, wanted + 1))
    costs = [[one.cost_usd for one in plan.jobs[0].fallbacks] for plan in (fewer, more)]
    assert costs[1][:wanted] == pytest.approx(costs[0])
    assert max(costs[1]) >= max(costs[0], default=0.0) - 0.005
    assert costs[1] == pytest.approx(sorted(costs[1]), abs=0.005)
    assert costs[1][0] >= more.jobs[0].cost_usd - 0.005


@pytest.mark.long
def test_too_few_further_ways_are_no_plan_and_every_way_out_has_one() -> None:
    """A budget of $16 excludes the fourth at $18; each setting that is offered leads to a plan with enough ways."""
    scenario = asked(limits={"fallbacks": 3, "budget_usd": 16})
    plan = solved(scenario)
    assert plan.status == "infeasible" and not plan.jobs and plan.infeasible is not None
    found = {one.limit: one.setting for one in plan.infeasible.relax}
    assert set(found) == {"limits.fallbacks", "limits.budget_usd"}
    for setting in found.values():
        then = solved(scenario, setting)
        assert then.status == "optimal" and then.jobs[0].fallbacks
    assert plan.infeasible.nearest
    for answer in (frontier_of_jobs(scenario, OPTIONS, library()), explain(scenario, None, OPTIONS, library())):
        assert answer.status == "infeasible"


def test_a_market_of_one_machine_has_no_further_way() -> None:
    """The only way out is to ask for none."""
    plan = solved(asked(offer("one", "RTX3090", 0.3), limits={"fallbacks": 1}))
    assert plan.status == "infeasible" and plan.infeasible is not None
    assert [one.setting for one in plan.infeasible.relax] == ["limits.fallbacks=0"]


@pytest.mark.slow
def test_of_several_jobs_each_has_its_further_ways() -> None:
    """Each job's way is a plan of all jobs, within the limits that they share."""
    scenario = asked(jobs=[job(), job(name="b")], limits={"fallbacks": 1, "budget_usd": 30})
    plan = solved(scenario)
    assert plan.status == "optimal"
    for one in plan.jobs:
        (way,) = one.fallbacks
        assert (way.provider, way.gpu) != (one.provider, one.gpu)
        assert len(way.jobs) == 2 and way.more_usd >= -0.005
    assert "Else" in render(plan)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"cost_usd": 1.0}, "fallbacks[1].cost_usd"),
        ({"hours": 1.0}, "fallbacks[1].hours"),
        ({"more_usd": 0.0}, "fallbacks[1].more_usd"),
        ({"gpu": "A6000"}, "fallbacks[1].gpu"),
        ({"jobs": ()}, "fallbacks[1].jobs"),
        (None, "limits.fallbacks"),
    ],
)
def test_the_audit_finds_a_way_that_was_changed(change: dict[str, Any] | None, what: str) -> None:
    """Summary, jobs and number of the ways are checked against the scenario."""
    scenario, plan = with_one_way()
    (way,) = plan.jobs[0].fallbacks
    ways = () if change is None else (way.model_copy(update=change),)
    tampered = plan.model_copy(update={"jobs": (plan.jobs[0].model_copy(update={"fallbacks": ways}),)})
    assert what in {one.what for one in audit(tampered, scenario, library())}


def test_the_audit_finds_a_way_on_the_same_machine() -> None:
    """The plan itself is no further way, however good its figures are."""
    scenario, plan = with_one_way()
    (way,), itself = plan.jobs[0].fallbacks, plan.jobs[0].model_dump(mode="json", by_alias=True)
    same = {"provider": "one", "cost_usd": plan.jobs[0].cost_usd, "more_usd": 0.0, "jobs": (itself,)}
    job_with = plan.jobs[0].model_copy(update={"fallbacks": (way.model_copy(update=same),)})
    found = audit(plan.model_copy(update={"jobs": (job_with,)}), scenario, library())
    assert any(one.what == "fallbacks[1]: offer" for one in found)


@pytest.mark.slow
def test_a_lead_time_delays_the_start_and_counts_against_the_deadline() -> None:
    """20 h after a lead of 10 h: cheaper, and chosen only where the deadline leaves about 31.5 h."""
    offers = offer("ordered", "RTX3090", 0.1, lead_hours=10), offer("there", "RTX3090", 0.4)
    (late,) = solved(asked(*offers, jobs=[job(deadline="36h")])).jobs
    assert (late.provider, late.start_at_hours, late.cost_usd) == ("ordered", 10, pytest.approx(2))
    assert late.hours.expected == pytest.approx(20)
    assert late.end_at_hours == pytest.approx(10 + late.hours.at_confidence)
    (soon,) = solved(asked(*offers, jobs=[job(deadline="31h")])).jobs
    assert (soon.provider, soon.start_at_hours) == ("there", 0)
    (free,) = solved(asked(*offers, limits={"max_hours": 22})).jobs  # the longest run is one of the machine
    assert free.provider == "ordered"
    (fast,) = solved(asked(*offers, objective="time")).jobs
    assert fast.provider == "there"


@pytest.mark.slow
def test_start_slack_is_kept_of_the_deadline() -> None:
    """36 h less 6 h leave 30 h for 21.5 h; less 16 h they leave 20 h, and only a faster card ends by then."""
    kept = solved(asked(jobs=[job(deadline="36h", start_slack="6h")]))
    assert kept.jobs[0].gpu == "RTX3090" and any("6 h of the deadline are kept" in one for one in kept.jobs[0].notes)
    assert solved(asked(jobs=[job(deadline="36h", start_slack="16h")])).jobs[0].gpu == "A100-80GB"
    none = solved(asked(jobs=[job(deadline="36h", start_slack="29h")]))
    assert none.infeasible is not None
    (deadline,) = [one.setting for one in none.infeasible.relax if one.limit == "jobs.a.deadline"]
    scenario = asked(jobs=[job(deadline="36h", start_slack="29h")])
    assert solved(scenario, deadline).status == "optimal"


@pytest.mark.slow
def test_lead_times_hold_in_a_timetable() -> None:
    """Two jobs share one machine that comes after 10 h: the first starts then, and the second after the first."""
    ordered = offer("ordered", "RTX3090", 0.1, lead_hours=10, stock=1)
    plan = solved(asked(ordered, jobs=[job(deadline="3d"), job(name="b", deadline="3d")]))
    assert sorted(one.start_at_hours for one in plan.jobs)[0] == pytest.approx(10)
    assert plan.hours is not None and plan.hours.expected > 50


@pytest.mark.slow
def test_stock_is_a_limit_only_where_it_is_listed() -> None:
    """None in stock is never planned with, low only where nothing asks for more, unknown always."""
    offers = (
        offer("none", "RTX3090", 0.1, stock_status="none"),
        offer("low", "RTX3090", 0.2, stock_status="low"),
        offer("unknown", "RTX3090", 0.3),
        offer("high", "RTX3090", 0.4, stock_status="high"),
    )
    assert solved(asked(*offers)).jobs[0].provider == "low"
    assert solved(asked(*offers, limits={"stock_status": "medium"})).jobs[0].provider == "unknown"
    assert solved(asked(offers[1], offers[3], limits={"stock_status": "high"})).jobs[0].provider == "high"
    assert solved(asked(offers[0])).status == "infeasible"


DESK = {"provider": "desk", "gpu": "RTX3090", "gpus": 1}
BUY = {"purchase_usd": 2500, "residual_share": 0.5, "usd_per_kwh": 0.18}


@pytest.mark.slow
def test_what_buying_would_cost_by_hand() -> None:
    """The rent saved, $0.22 - 0.504 * $0.18 an hour, is what $2,500 have lost by then, by the shipped list: 6,660 h."""
    (rented,) = solved(asked(offer("cloud", "RTX3090", 0.22))).jobs
    found = rented.purchase
    assert found is not None and found.pays_from_hours is not None
    saved, months = (0.22 - 0.504 * 0.18), found.pays_from_hours / 730
    assert saved * found.pays_from_hours == pytest.approx(2500 * (1 - 0.72 * 0.5 ** (months / 68)))
    assert found.price_back_hours == pytest.approx(2500 / saved)
    assert (found.usd, found.date, found.machines) == (2500, "2026-09-01", 1)
    assert found.hours == pytest.approx(20) and found.rent_usd_per_hour == pytest.approx(0.22)
    (cheap,) = solved(asked(offer("cloud", "RTX3090", 0.05))).jobs
    assert cheap.purchase is not None and cheap.purchase.pays_from_hours is None
    plan = solved(asked(offer("cloud", "RTX3090", 0.22)))
    shown = " ".join(render(plan).split())
    assert "Buy 1 x RTX3090 for $2,500 (1,350 to 2,550; 2026-09-01): cheaper than renting from" in shown
    wrong = found.model_copy(update={"pays_from_hours": 10.0})
    tampered = plan.model_copy(update={"jobs": (rented.model_copy(update={"purchase": wrong}),)})
    assert "purchase.pays_from_hours" in {
        one.what for one in audit(tampered, asked(offer("cloud", "RTX3090", 0.22)), library())
    }


@pytest.mark.slow
def test_with_a_horizon_a_machine_is_bought_where_it_is_cheaper() -> None:
    """20 h * (0.504 * 0.18 + 1,250 / 7,200) = $5.29 against $8.80; used a fifth of that it is $19.18, and rented."""
    offers = offer("cloud", "RTX3090", 0.44), {**DESK, "buy": BUY}
    horizon = {"months": 36, "hours_per_month": 200}
    plan = solved(asked(*offers, horizon=horizon))
    (bought,) = plan.jobs
    assert (bought.tier, bought.cost_usd) == ("bought", pytest.approx(20 * (0.504 * 0.18 + 1250 / 7200)))
    assert [line.item for line in bought.bill if line.usd] == ["power", "wear of own machines"]
    assert any("buys 1 machine for $2,500; the job carries 20.0 of 7,200 h" in note for note in bought.notes)
    assert bought.purchase is not None and bought.purchase.pays_from_hours == pytest.approx(
        1250 / (0.44 - 0.504 * 0.18)
    )
    assert bought.purchase.half_use_usd_per_hour == pytest.approx(0.504 * 0.18 + 1250 / 3600)
    assert (plan.outlay_usd, "paid at once: $2,500" in render(plan)) == (2500, True)
    (rented,) = solved(asked(*offers, horizon={"months": 36, "hours_per_month": 40})).jobs
    assert (rented.tier, rented.cost_usd) == ("secure", pytest.approx(8.8))


def test_a_horizon_shorter_than_the_run_buys_nothing() -> None:
    """A machine that is used for 10 h in all cannot run 20 h."""
    offers = offer("cloud", "RTX3090", 9), {**DESK, "buy": {**BUY, "purchase_usd": 5}}
    assert solved(asked(*offers, horizon={"months": 1, "hours_per_month": 10})).jobs[0].tier == "secure"
