"""Solving end to end: the proven optimum is what plain arithmetic finds, and obeys what economics demands."""

from __future__ import annotations

import copy
import datetime
import functools
import json
import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.library.reading import read_library
from planner.library.schema import Library
from planner.loading.scenario_file import parse_scenario, read_scenario
from planner.report.plan_text import render
from planner.results.plan import Plan
from planner.scenario.scenario import Scenario, SolveOptions
from planner.solving.prepare import PreparedScenario, prepare
from planner.solving.solve import solve, solve_prepared

AS_OF = datetime.date(2026, 11, 9)
TINY = "tinyllama-1.1b"
SLACK = 1e-6
"""Relative room for the solver's tolerance."""

few = settings(max_examples=6, derandomize=True, deadline=None, database=None)
Data = dict[str, Any]

SINGLE_JOB_AT_COST = (
    "articles-2024", "llama-2-70b-2t", "llama-2-70b-lora", "no-4-bit", "padded-chat", "quickstart", "rtx3060-only",
    "seven-b-billion-tokens", "spot-heavy", "stable-diffusion-lora", "thirteen-b-tight-deadline", "value-of-time",
)  # fmt: skip


@functools.cache
def library() -> Library:
    """Read once: every scenario of the laws trains the same network."""
    return read_library([TINY])


def solved(data: Data | Scenario, **options: Any) -> Plan:
    """The plan of a scenario, or of plain data."""
    scenario = data if isinstance(data, Scenario) else parse_scenario(json.dumps(data))
    return solve(scenario, SolveOptions(as_of=AS_OF, **options), library())


@functools.lru_cache(maxsize=2)
def prepared(text: str) -> PreparedScenario:
    """The candidates of a scenario, which are the same whichever solver chooses among them."""
    return prepare(parse_scenario(text).on_day(AS_OF), library())


def bare(data: Data, **options: Any) -> Plan:
    """The optimum of plain data, without what is said of it."""
    asked = replace(prepared(json.dumps(data)), is_slim=True)
    return solve_prepared(asked, SolveOptions(as_of=AS_OF, **options), explains=False)


def cost(data: Data) -> float:
    """Dollars of the optimum; infinite where nothing is feasible."""
    plan = bare(data)
    if plan.status == "infeasible":
        return float("inf")
    assert plan.status == "optimal" and plan.objective is not None
    return plan.objective


def at_most(less: float, more: float) -> bool:
    """Whether one cost is at most the other, solver tolerance allowed."""
    return less <= more * (1 + SLACK)


def row(provider: str, gpu: str, gpus: int, price: float | None, spot: float | None, **more: Any) -> Data:
    """An offer as it is written; what is None is left out."""
    prices = {"usd_per_hour": price, "spot_usd_per_hour": spot}
    kept = {key: value for key, value in prices.items() if value is not None}
    return {"provider": provider, "gpu": gpu, "gpus": gpus, **kept, **more}


@st.composite
def offers(draw: st.DrawFn, hourly: bool = True) -> Data:
    """One offer of a mixed market: on demand, spot or both, and with `hourly` now and then whole hours."""
    price = draw(st.floats(0.2, 4.0).map(lambda dollars: round(dollars, 2)))
    sold = draw(st.sampled_from(("on demand", "both", "spot")))
    spot = round(price * draw(st.floats(0.3, 0.95)), 3) if sold != "on demand" else None
    gpu = draw(st.sampled_from(("RTX3090", "RTX4090", "T4", "A100-PCIe-80GB", "H100-80GB", "V100-16GB")))
    billing = {"billing": {"step_seconds": 3600}} if hourly and draw(st.booleans()) else {}
    provider = draw(st.sampled_from("abc"))
    return row(provider, gpu, draw(st.sampled_from((1, 2))), None if sold == "spot" else price, spot, **billing)


@st.composite
def questions(draw: st.DrawFn, hourly: bool = True) -> Data:
    """One small job on four to six offers of three providers."""
    hours = draw(st.floats(2.0, 40.0).map(lambda value: round(value, 1)))
    job = {"name": "job", "architecture": TINY, "work": {"tokens": draw(st.sampled_from((5e6, 3e7, 1e8)))}}
    market = draw(st.lists(offers(hourly), min_size=4, max_size=6))
    return {"name": "law", "offers": market, "jobs": [{**job, "deadline": f"{hours}h"}]}


def changed(data: Data, *path: Any, value: Any) -> Data:
    """A copy with one value put in place."""
    result = copy.deepcopy(data)
    inner = result
    for key in path[:-1]:
        inner = inner.setdefault(key, {}) if isinstance(inner, dict) else inner[key]
    inner[path[-1]] = value
    return result


@pytest.mark.long
@pytest.mark.parametrize("name", SINGLE_JOB_AT_COST)
def test_one_job_costs_the_cheapest_end_of_any_candidate(name: str) -> None:
    """Without a budget a cost is linear in the spot share, so numpy finds the optimum at an end of a segment."""
    scenario = read_scenario(name)
    assert len(scenario.jobs) == 1 and scenario.limits.budget_usd is None and scenario.objective_kind == "cost"
    prepared = prepare(scenario.on_day(AS_OF))
    table = prepared.screened[0].table
    worth = scenario.value_of_time_usd_per_hour
    ends = [
        table.cost_usd(share) + table.penalty_usd + worth * table.hours(share)
        for share in (table.share_low, table.share_high)
    ]
    plan = solve_prepared(prepared, SolveOptions(as_of=AS_OF))
    assert plan.status == "optimal"
    assert plan.objective == pytest.approx(float(np.min(ends)), rel=SLACK)


@pytest.mark.long
@few
@given(questions(), st.floats(1.0, 30.0))
def test_a_later_deadline_never_costs_more(data: Data, later: float) -> None:
    """Every plan that ends in time also ends in time when there is more of it."""
    hours = float(data["jobs"][0]["deadline"][:-1])
    assert at_most(cost(changed(data, "jobs", 0, "deadline", value=f"{hours + later}h")), cost(data))


@pytest.mark.long
@few
@given(questions(), offers())
def test_one_more_offer_never_costs_more(data: Data, offer: Data) -> None:
    """What could be rented before can still be rented."""
    assert at_most(cost(changed(data, "offers", value=[*data["offers"], offer])), cost(data))


@pytest.mark.long
@few
@given(questions(), st.floats(0.5, 2.0), st.floats(1.0, 3.0))
def test_a_bigger_budget_never_costs_more(data: Data, factor: float, more: float) -> None:
    """Budgets around the free optimum bind, cut spot shares and may leave nothing; a bigger one never hurts."""
    free = cost(data)
    budget = min(free, 1e3) * factor
    tight, wide = (cost(changed(data, "limits", "budget_usd", value=usd)) for usd in (budget, budget * more))
    assert at_most(wide, tight)
    assert at_most(free, wide)


@pytest.mark.long
@few
@given(questions(), st.integers(0, 3), st.floats(0.1, 0.99))
def test_a_lower_price_never_costs_more(data: Data, which: int, factor: float) -> None:
    """Both prices of one offer fall by the same share, so the same hours cost less."""
    offer = data["offers"][which]
    cheaper = {key: value * factor if key.endswith("usd_per_hour") else value for key, value in offer.items()}
    assert at_most(cost(changed(data, "offers", which, value=cheaper)), cost(data))


@pytest.mark.long
@few
@given(questions(hourly=False), st.floats(1.01, 4.0))
def test_more_tokens_never_cost_less(data: Data, factor: float) -> None:
    """Billed by the second, more work takes longer on every machine."""
    tokens = data["jobs"][0]["work"]["tokens"]
    assert at_most(cost(data), cost(changed(data, "jobs", 0, "work", "tokens", value=round(tokens * factor))))


@pytest.mark.long
@few
@given(questions(), st.data())
def test_forbidding_a_provider_never_makes_it_cheaper(data: Data, drawn: st.DataObject) -> None:
    """A shorter list to choose from has no better best. A name that no offer has is a fault, so it is not drawn."""
    provider = drawn.draw(st.sampled_from(sorted({offer["provider"] for offer in data["offers"]})))
    forbidden = changed(data, "limits", "providers", value={"forbid": [provider]})
    assert at_most(cost(data), cost(forbidden))


@pytest.mark.long
@few
@given(
    questions(),
    st.sampled_from(
        (
            {"method": "full"},
            {"weight_bits": 16},
            {"activation_checkpointing": "none"},
            {"activation_checkpointing": "full"},
            {"optimizer": "adamw"},
            {"sharding": "ddp"},
        )
    ),
)
def test_insisting_on_a_technique_never_makes_it_cheaper(data: Data, techniques: Data) -> None:
    """All other values of one technique are forbidden; the optimum among the rest is no better."""
    assert at_most(cost(data), cost(changed(data, "jobs", 0, "techniques", value=techniques)))


@pytest.mark.long
@few
@given(questions(), st.integers(0, 100))
def test_names_and_order_change_no_cost(data: Data, seed: int) -> None:
    """Another name for the job and another order of the offers are the same question."""
    shuffled = random.Random(seed).sample(data["offers"], len(data["offers"]))
    other = changed(changed(data, "offers", value=shuffled), "jobs", 0, "name", value="zebra")
    plan = bare(other)
    assert (plan.objective or float("inf")) == pytest.approx(cost(data), rel=SLACK)
    assert all(job.name == "zebra" for job in plan.jobs)


@pytest.mark.long
@pytest.mark.parametrize("name", ["quickstart", "infeasible", "three-jobs-one-budget"])
def test_the_order_of_the_price_list_changes_no_word(name: str) -> None:
    """Between equal plans, and equal near misses, names decide."""
    scenario, texts = read_scenario(name, ["limits.spot=true" if name == "quickstart" else "limits.spot=false"]), set()
    for seed in range(2 if name == "infeasible" else 3):
        offers = list(scenario.offers)
        random.Random(seed).shuffle(offers)
        plan = solve(scenario.model_copy(update={"offers": tuple(offers)}), SolveOptions(as_of=AS_OF))
        texts.add(render(plan.model_copy(update={"seconds": 0.0})))
    assert len(texts) == 1


@pytest.mark.long
@few
@given(questions(), st.integers(0, 3))
def test_spot_at_the_price_on_demand_earns_no_discount(data: Data, which: int) -> None:
    """An offer whose two prices are equal costs what it costs without a spot market."""
    offer = {**data["offers"][which], "usd_per_hour": 0.01, "spot_usd_per_hour": 0.01}
    plain = {key: value for key, value in offer.items() if key != "spot_usd_per_hour"}
    equal, without = (changed(data, "offers", which, value=one) for one in (offer, plain))
    assert cost(equal) == pytest.approx(cost(without), rel=SLACK)


def three_jobs(**limits: Any) -> Data:
    """Three jobs that want the same cheap card: two in stock, a quota, a budget and a cap over all of them."""
    market = [
        row("a", "RTX4090", 1, 0.4, 0.2, stock=1),
        row("a", "A100-PCIe-80GB", 1, 1.1, 0.6),
        row("b", "RTX3090", 2, 0.9, None),
        row("b", "H100-80GB", 1, 2.5, 1.4, billing={"step_seconds": 3600}),
    ]
    jobs = [
        {"name": name, "architecture": TINY, "work": {"tokens": tokens}, "deadline": "10h"}
        for name, tokens in (("one", 2e7), ("two", 4e7), ("three", 6e7))
    ]
    return {
        "name": "shared", "schedule": "side_by_side", "offers": market, "jobs": jobs,
        "limits": {"max_gpus": 4, "quota": {"a": 2}, **limits},
    }  # fmt: skip


@pytest.mark.long
def test_limits_over_all_jobs_bind() -> None:
    """Stock, quota and the cap over all jobs are kept, and they cost money: three jobs alone are cheaper."""
    data = three_jobs()
    plan = bare(data)
    assert plan.status == "optimal" and len(plan.jobs) == 3
    alone = [cost({**data, "jobs": [job]}) for job in data["jobs"]]
    assert plan.objective is not None and plan.objective > sum(alone) * 1.001
    assert sum(job.gpus for job in plan.jobs) <= 4
    assert sum(job.gpus for job in plan.jobs if job.provider == "a") <= 2
    assert sum(job.instances for job in plan.jobs if job.gpu == "RTX4090") <= 1


@functools.cache
def cheapest_plan() -> Plan:
    """The plan of the three jobs without a budget."""
    return bare(three_jobs())


@functools.cache
def least_cost() -> float:
    """Dollars of the three jobs, from the solver that all others are compared with."""
    return cost(three_jobs())


@pytest.mark.long
@pytest.mark.parametrize("objective", ["cost", "time"])
def test_the_solvers_agree(objective: str) -> None:
    """Four solvers find the same optimum under budget, cap, stock and quota; all but the grid solver prove it."""
    cheapest = cheapest_plan().cost_at_confidence  # what a budget is compared with
    assert cheapest is not None
    data = {**three_jobs(budget_usd=round(cheapest * 1.1, 4)), "objective": objective}
    ours = bare(data)
    assert ours.status == "optimal" and ours.objective is not None
    for solver in ("cbc", "scip", "cp-sat"):
        theirs = bare(data, solver=solver)
        # CP-SAT counts in whole units of a grid.
        assert theirs.objective == pytest.approx(ours.objective, rel=1e-4 if solver == "cp-sat" else SLACK), solver
        assert theirs.solver == solver
        assert theirs.status in (("optimal", "feasible") if solver == "cp-sat" else ("optimal",))


@pytest.mark.long
def test_a_budget_slows_the_fastest_plan() -> None:
    """Free of a budget the fastest plan is dearer than one and a tenth of the cheapest, so that budget costs hours."""
    cheapest = cheapest_plan().cost_at_confidence
    assert cheapest is not None
    free, bound = (
        solved({**three_jobs(**limits), "objective": "time"})
        for limits in ({}, {"budget_usd": round(cheapest * 1.1, 4)})
    )
    assert free.objective is not None and bound.objective is not None and bound.cost_at_confidence is not None
    assert bound.objective > free.objective * 1.001
    assert bound.cost_at_confidence <= cheapest * 1.1 * (1 + SLACK)


@pytest.mark.long
def test_the_solvers_agree_that_nothing_is_affordable() -> None:
    """A hundredth of the cheapest plan buys nothing, whoever is asked, and the answer says why."""
    data = three_jobs(budget_usd=round(least_cost() / 100, 6))
    for solver in ("highs", "cbc", "scip", "cp-sat"):
        plan = bare(data, solver=solver)
        assert plan.status == "infeasible" and plan.objective is None, solver
    assert solved(data).infeasible is not None


@pytest.mark.long
def test_a_gap_is_reported_as_reached_and_holds() -> None:
    """The bound is below the true optimum, and the plan within the gap that was asked for."""
    best = least_cost()
    for gap in (0.0, 0.3):
        plan = bare(three_jobs(), gap=gap)
        assert plan.objective is not None and plan.bound is not None and plan.gap is not None
        assert plan.gap <= gap + SLACK
        assert at_most(plan.bound, best) and at_most(best, plan.objective)
        assert plan.objective <= best * (1 + gap) / (1 - gap) * (1 + SLACK)
        assert plan.status == "optimal"


@pytest.mark.long
def test_a_tiny_time_limit_never_claims_what_it_did_not_prove() -> None:
    """Stopped at once a solver has a proven optimum, some plan, or none, and names which; never "infeasible"."""
    best = least_cost()
    for solver in ("highs", "cbc", "scip", "cp-sat"):
        plan = solved(three_jobs(), solver=solver, time_limit_seconds=1e-6)
        assert plan.status in ("optimal", "feasible", "no_plan"), solver
        if plan.status == "no_plan":
            assert plan.objective is None and not plan.jobs and plan.infeasible is None
        else:
            assert plan.objective is not None and at_most(best, plan.objective)
        if plan.status == "optimal":
            assert plan.objective == pytest.approx(best, rel=1e-4)
