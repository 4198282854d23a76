"""What binds and what comes next: every step is exact, and what it promises is what solving finds."""

from __future__ import annotations

import datetime
import functools
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.analysis.limit_sensitivity import explain
from planner.library.reading import read_library
from planner.library.schema import Library
from planner.loading.scenario_file import change_scenario, parse_scenario, read_scenario
from planner.report.plan_text import render
from planner.results.explanation import Explanation, LimitSensitivity
from planner.results.plan import Plan
from planner.scenario.scenario import Scenario, SolveOptions
from planner.solving.alternatives import describe_difference
from planner.solving.notes import SPOT_ONLY_NOTE
from planner.solving.solve import solve
from tests.helpers.bare_plans import bare_plan

OPTIONS = SolveOptions(as_of=datetime.date(2026, 11, 21))
TINY = "tinyllama-1.1b"
few = settings(max_examples=5, derandomize=True, deadline=None, database=None)
Data = dict[str, Any]

MARKET = [
    {"provider": "a", "gpu": "RTX4090", "gpus": 1, "usd_per_hour": 0.4, "spot_usd_per_hour": 0.2},
    {"provider": "a", "gpu": "A100-PCIe-80GB", "gpus": 2, "usd_per_hour": 2.2},
    {"provider": "b", "gpu": "RTX3090", "gpus": 1, "usd_per_hour": 0.15, "stock": 1},
    {"provider": "b", "gpu": "H100-80GB", "gpus": 4, "usd_per_hour": 9.0, "spot_usd_per_hour": 5.0},
    {"provider": "c", "gpu": "RTX3060", "gpus": 1, "usd_per_hour": 0.05},
]


@functools.cache
def library() -> Library:
    return read_library([TINY])


def scenario_of(jobs: int = 1, job: Data | None = None, objective: Any = "cost", **limits: Any) -> Scenario:
    base = {"architecture": TINY, "work": {"tokens": 3e7}, **(job or {})}
    data = {
        "name": "t",
        "offers": MARKET,
        "jobs": [{"name": f"job{index}", **base} for index in range(jobs)],
        "limits": limits,
        "objective": objective,
    }
    return parse_scenario(json.dumps(data))


def solved(scenario: Scenario, *settings: str) -> Plan:
    return solve(change_scenario(scenario, settings) if settings else scenario, OPTIONS, library())


def bare(scenario: Scenario, *settings: str) -> Plan:
    """The optimum without what is said of it."""
    return bare_plan(change_scenario(scenario, settings) if settings else scenario, OPTIONS, library())


def cost(plan: Plan) -> float:
    """Dollars of the optimum; the plan itself may cost half a cent more for the sake of hours."""
    return float("inf") if plan.objective is None else plan.objective


def step(told: Explanation, limit: str) -> LimitSensitivity:
    return next(one for one in told.next_steps if one.limit == limit)


@pytest.mark.long
@few
@given(st.floats(0.4, 4.0).map(lambda hours: round(hours, 2)))
def test_the_next_hour_is_the_first_that_makes_it_cheaper(hours: float) -> None:
    """At the told deadline the plan costs what was told and saves a cent; a moment earlier it does not save one."""
    scenario = change_scenario(scenario_of(job={"deadline": f"{hours}h"}), ["solve.ties=0"])
    now = bare(scenario)
    told = explain(scenario, library=library())
    if now.status == "infeasible":
        assert told.status == "infeasible" and told.relax
        return
    later = step(told, "jobs.job0.deadline")
    if later.change_to is None:
        assert cost(bare(scenario, "jobs.job0.deadline=700h")) > cost(now) - 0.01 - 0.001 * cost(now)
        return
    assert isinstance(later.change_to, float)
    after = bare(scenario, later.setting)
    assert cost(after) == pytest.approx(later.cost_usd, abs=0.006)
    gain = max(0.01, 0.001 * cost(now))
    assert cost(after) <= cost(now) - gain + 1e-6
    assert cost(bare(scenario, f"jobs.job0.deadline={later.change_to - 0.02:.4f}h")) > cost(now) - gain - 0.001


@pytest.mark.long
@few
@given(st.floats(0.6, 6.0).map(lambda hours: round(hours, 2)), st.sampled_from(["cost", "time"]), st.booleans())
def test_the_explained_plan_is_the_solved_one(hours: float, objective: str, spot: bool) -> None:
    """Dollars and hours of the head and of the row of the plan are those of `solve`, to the last digit shown."""
    scenario = scenario_of(job={"deadline": f"{hours}h"}, objective=objective, budget_usd=3, spot=spot)
    plan = solved(scenario)
    if plan.cost is None or plan.hours is None:
        return
    told = explain(scenario, library=library())
    assert told.cost_usd is not None and told.hours is not None
    figures = pytest.approx((plan.cost.expected, plan.hours.expected), rel=1e-9)
    assert (told.cost_usd, told.hours) == figures
    rows = [one for one in told.alternatives if one.chosen]
    assert [one.by for one in rows] == ["provider", "gpu", "method"]
    assert all((one.cost_usd, one.hours) == figures for one in rows)


@pytest.mark.slow
def test_where_solve_waits_less_on_spot_it_is_that_plan_which_is_explained() -> None:
    """A near tie of the policies, too: no answer gives the plan other dollars, hours or odds than `solve`."""
    job, only = {"deadline": "40h", "work": {"tokens": 3e9}}, {"allow": ["H100-80GB"]}
    scenario = scenario_of(job=job, gpus=only)
    plan, told = solved(scenario), explain(scenario, library=library())
    asked = explain(scenario, "gpu=H100-80GB", library=library())
    assert plan.cost is not None and plan.hours is not None and plan.objective is not None
    assert plan.cost.expected > plan.objective + 0.01  # it waits less for a little more
    figures = pytest.approx((plan.cost.expected, plan.hours.expected, plan.hours.at_confidence), rel=1e-9)
    assert (told.cost_usd, told.hours, told.hours_at_confidence) == figures
    why = asked.why_not
    assert why is not None and (why.cost_usd, why.hours, why.hours_at_confidence) == figures
    assert why.status == "chosen"


@pytest.mark.slow
def test_a_ban_on_spot_binds_under_its_own_name() -> None:
    """Who writes `spot: false` is told of `limits.spot`, and of its value that has a plan of less cost."""
    scenario = scenario_of(job={"deadline": "40h"}, spot=False, gpus={"allow": ["RTX4090"]})
    told = explain(scenario, library=library())
    assert "limits.spot" in [one.limit for one in told.binding]
    named = [one.limit for one in (*told.binding, *told.next_steps)]
    assert not [limit for limit in named if limit == "limits.spot_share.max"], named


@pytest.mark.long
def test_lifting_a_binding_limit_saves_what_is_told() -> None:
    """Each binding limit, lifted alone, is worth the difference of two solves; what does not bind is not listed."""
    job = {"deadline": "2h", "framework": "hf"}
    scenario = scenario_of(job=job, providers={"forbid": ["b", "c"]}, max_gpus=8)
    told = explain(scenario, library=library())
    saved = {one.limit: one.saving_usd for one in told.binding}
    lifting = {
        "limits.providers": "limits.providers={}",
        "jobs.job0.deadline": "jobs.0.deadline=700h",
        "limits.max_gpus": "limits.max_gpus=1000",
    }
    now = cost(bare(scenario))
    expected = {limit: now - cost(bare(scenario, setting)) for limit, setting in lifting.items()}
    assert saved == pytest.approx({limit: usd for limit, usd in expected.items() if usd >= 0.01}, abs=0.011)
    assert "limits.max_gpus" not in saved and len(saved) == 2


@pytest.mark.slow
def test_the_best_value_of_a_list_is_named() -> None:
    """Of two barred providers the one that saves more is let in, and the setting does it."""
    scenario = scenario_of(job={"deadline": "5h", "framework": "hf"}, providers={"allow": ["a"]})
    let_in = step(explain(scenario, library=library()), "limits.providers")
    assert let_in.setting.startswith("limits.providers.allow=[a,")
    ours = cost(bare(scenario, let_in.setting))
    assert ours == pytest.approx(let_in.cost_usd, abs=0.006)
    others = [cost(bare(scenario, f"limits.providers.allow=[a,{name}]")) for name in "bc"]
    assert ours == pytest.approx(min(others), abs=0.006)


@pytest.mark.long
def test_the_next_gpu_of_several_jobs_is_the_fewest_that_helps() -> None:
    """Two jobs under a cap: at the told cap they are faster or cheaper, one GPU fewer does not help."""
    scenario = scenario_of(2, {"deadline": "90m"}, max_gpus=4).model_copy(update={"schedule": "side_by_side"})
    told = explain(scenario, library=library())
    now = cost(bare(scenario))
    more = next((one for one in told.next_steps if one.limit == "limits.max_gpus"), None)
    assert more is not None
    if more.change_to is None:
        assert cost(bare(scenario, "limits.max_gpus=64")) > now - 0.01 - 0.001 * now
    else:
        assert cost(bare(scenario, f"limits.max_gpus={more.change_to:.0f}")) <= now - 0.01
        assert cost(bare(scenario, f"limits.max_gpus={float(more.change_to) - 1:.0f}")) > now - 0.01 - 0.001 * now


@pytest.mark.slow
def test_machines_that_are_not_in_stock_are_told_of() -> None:
    """Two jobs want the one cheap machine: what a second one would save is said, and no setting is proposed."""
    scenario = scenario_of(2, {"deadline": "30h"}, gpus={"allow": ["RTX3090", "A100-PCIe-80GB"]})
    told = explain(scenario.model_copy(update={"schedule": "side_by_side"}), library=library())
    stock = next(one for one in told.next_steps if one.limit.startswith("stock of b/"))
    assert (stock.change_from, stock.change_to, stock.setting) == (1.0, 2.0, "")
    assert stock.delta_usd is not None and stock.delta_usd < 0


@pytest.mark.long
@few
@given(st.sampled_from(["1h", "2h", "20h"]), st.sampled_from(["cost", "time"]), st.booleans())
def test_each_alternative_is_what_solving_for_it_finds(deadline: str, objective: str, spot: bool) -> None:
    """The best of a provider, card or method scores what a solve restricted to it does; the plan leads its tables."""
    scenario = scenario_of(job={"deadline": deadline}, objective=objective, spot=spot)
    scenario = change_scenario(scenario, ["solve.ties=0"])
    if bare(scenario).status == "infeasible":
        return
    told = explain(scenario, library=library())
    for by in ("provider", "gpu", "method"):
        rows = [one for one in told.alternatives if one.by == by]
        assert rows and rows[0].chosen and rows[0].verdict == "the plan"
        for one in rows:
            setting = f"limits.{by}s.allow=[{one.name}]"
            if by == "method":
                bits = {"QLoRA": 4, "LoRA 8-bit": 8}.get(one.name, 16)
                method = "full" if one.name == "full" else "lora"
                setting = f"jobs.0.techniques={{method: {method}, weight_bits: {bits}}}"
            alone = bare(scenario, setting)
            if objective == "cost":
                assert one.cost_usd == pytest.approx(cost(alone), abs=0.006)
            else:
                assert alone.hours is not None and one.hours == pytest.approx(alone.hours.expected, rel=0.02)


@pytest.mark.slow
def test_an_excluded_method_hides_no_alternative_on_spot() -> None:
    """The best of a provider is that of the allowed methods, on spot too, where an excluded one would cost less."""
    scenario = read_scenario("quickstart", ["limits.providers.allow=[azure, nebius, runpod-community]", "solve.ties=0"])
    found = explain(scenario, options=OPTIONS)
    (azure,) = (one for one in found.alternatives if (one.by, one.name) == ("provider", "azure"))
    alone = solve(change_scenario(scenario, ["limits.providers.allow=[azure]"]), OPTIONS)
    assert azure.allowed and alone.cost is not None
    assert azure.cost_usd == pytest.approx(alone.cost.expected, rel=0.01)  # curves are as close


def test_an_alternative_within_the_spread_is_no_real_difference() -> None:
    """Two offers of one card at nearly one price cannot be told apart; a dear one can."""
    offers = [
        {"provider": name, "gpu": "RTX4090", "gpus": 1, "usd_per_hour": price}
        for name, price in (("a", 0.40), ("b", 0.42), ("c", 0.70), ("d", 0.96))
    ]
    data = {"name": "t", "offers": offers, "jobs": [{"name": "t", "architecture": TINY, "work": {"tokens": 3e7}}]}
    told = explain(parse_scenario(json.dumps(data)), library=library())
    verdicts = {one.name: one.verdict for one in told.alternatives if one.by == "provider"}
    assert verdicts["a"] == "the plan" and verdicts["b"] == "within error"
    assert verdicts["c"] == "75 % more expensive" and verdicts["d"] == "2.4x the cost"


@pytest.mark.long
def test_an_infeasible_scenario_says_what_solve_says() -> None:
    """One diagnosis, whichever command asks."""
    scenario = scenario_of(2, {"deadline": "6m"}, budget_usd=0.05)
    told, plan = explain(scenario, library=library()), solved(scenario)
    assert plan.infeasible is not None
    assert told.status == "infeasible" and told.relax == plan.infeasible.relax
    assert told.nearest == plan.infeasible.nearest and not told.next_steps


@pytest.mark.slow
def test_an_explanation_survives_json_and_shows_as_a_table() -> None:
    """The document validates as what it was; a notebook gets one escaped table."""
    told = explain(scenario_of(job={"deadline": "2h"}), library=library())
    assert Explanation.model_validate_json(told.model_dump_json(by_alias=True)) == told
    named = told.model_copy(update={"scenario": "<b>"})
    assert "<table>" in named._repr_html_() and "<b>" not in named._repr_html_()


def test_a_cheaper_method_that_is_penalised_says_so() -> None:
    """LoRA costs less than full training but carries a penalty: the verdict names it instead of calling it cheaper."""
    told = explain(scenario_of(job={"deadline": "20h", "techniques": {"penalty_usd": {"lora": 30}}}), library=library())
    lora = next(one for one in told.alternatives if one.by == "method" and one.name == "LoRA")
    assert lora.verdict.endswith(", penalty $30") and lora.difference is not None and lora.difference > 1
    assert told.cost_usd is not None and lora.cost_usd is not None and lora.cost_usd < told.cost_usd


@pytest.mark.long
def test_the_longest_run_binds_like_any_other_limit() -> None:
    """Where it bars a cheaper plan, given or by default, `solve` and `explain` name it, and what more hours save."""
    slow = {"work": {"tokens": 3e10}}
    for asked in ({}, {"max_hours": 400.0}):
        scenario = change_scenario(scenario_of(job=slow, spot=False, **asked), ["solve.ties=0"])
        told, plan = explain(scenario, library=library()), solved(scenario)
        saved = cost(plan) - cost(bare(scenario, "limits.max_hours=100000"))
        assert saved > 1
        bind = next(one for one in told.binding if one.limit == "limits.max_hours")
        assert bind.saving == pytest.approx(saved, abs=0.02)
        assert bind.current == (asked.get("max_hours") or "default 720 h")
        (limit,) = [one for one in plan.jobs[0].binding if not one.startswith("spot")]
        assert limit.startswith("max_hours (without" if asked else "max_hours (default 720 h; without")
        longer = step(told, "limits.max_hours")
        assert cost(bare(scenario, longer.setting)) == pytest.approx(longer.cost_usd, abs=0.02)


VALUED = {"value_of_time_usd_per_hour": 2.0}


@pytest.mark.long
def test_every_comparison_measures_the_objective() -> None:
    """With a value of time and penalties: what binds saves of that sum, in `solve` and `explain` alike."""
    job = {"techniques": {"penalty_usd": {"lora": 0.5}}}
    scenario = scenario_of(job=job, objective=VALUED, gpus={"forbid": ["H100-80GB", "RTX3060"]})
    told, plan = explain(scenario, library=library()), solved(scenario)
    assert told.compared_by == plan.jobs[0].compared_by == "cost + $2.00 per hour + penalties"
    saved = cost(plan) - cost(bare(scenario, "limits.gpus={}"))
    (bind,) = [one for one in told.binding if one.limit == "limits.gpus"]
    assert bind.saving == pytest.approx(saved, abs=0.011) and saved >= 0.01
    assert f"gpus (without it ${saved:,.2f} better)" in plan.jobs[0].binding
    first = plan.jobs[0].next_best[0]
    alone = solved(scenario, f"limits.gpus.allow=[{first.gpu}]", f"limits.providers.allow=[{first.provider}]")
    assert first.cost_usd == pytest.approx(alone.jobs[0].cost_usd, abs=0.006)
    factor = cost(alone) / cost(plan)
    assert first.note in (f"{(factor - 1) * 100:.0f} % worse", "within error")


@pytest.mark.long
def test_a_share_that_may_grow_is_worth_what_all_of_it_is_worth() -> None:
    """A cap on spot is worth what lies at the end of the range, not the first hundredth."""
    job, only = {"work": {"tokens": 3e9}}, {"allow": ["H100-80GB"]}
    told = explain(scenario_of(job=job, gpus=only, spot_share={"max": 0.5}), library=library())
    more = step(told, "limits.spot_share.max")
    assert more.change_to == 1.0
    whole = solved(scenario_of(job=job, gpus=only))
    assert whole.cost is not None and more.cost_usd == pytest.approx(whole.cost.expected, abs=0.006)


def test_a_way_that_costs_the_same_and_takes_twice_as_long_says_so() -> None:
    """The verdict is about dollars within the spread: hours that differ are told beside it."""
    offers = [
        {"provider": "a", "gpu": "RTX4090", "gpus": 1, "usd_per_hour": 0.40},
        {"provider": "b", "gpu": "RTX3090", "gpus": 1, "usd_per_hour": 0.25},
    ]
    data = {"name": "t", "offers": offers, "jobs": [{"name": "t", "architecture": TINY, "work": {"tokens": 3e7}}]}
    told = explain(parse_scenario(json.dumps(data)), library=library())
    rows = [one for one in told.alternatives if one.by == "gpu"]
    other = next(one for one in rows if not one.chosen)
    plan = next(one for one in rows if one.chosen)
    assert other.hours is not None and plan.hours is not None
    later = other.hours - plan.hours
    assert other.verdict == f"within error, {abs(later):.1f} h {'later' if later > 0 else 'earlier'}"


def test_a_multiple_of_the_cost_is_a_factor() -> None:
    """411x says more than 41,043 %."""
    assert describe_difference(411.4, 1.0, 0.1) == "411x the cost"
    assert describe_difference(9.94, 1.0, 0.1) == "9.9x the cost"


@pytest.mark.long
def test_a_plan_on_spot_alone_says_that_nothing_is_certain() -> None:
    """Without a price on demand there is no fallback: the head says so."""
    job, only = {"deadline": "40h", "work": {"tokens": 3e9}}, {"allow": ["H100-80GB"]}
    scenario = scenario_of(job=job, gpus=only)
    assert explain(scenario, library=library()).notes == ()
    unsold = tuple(o.model_copy(update={"usd_per_hour": None}) if o.has_spot else o for o in scenario.offers)
    alone = scenario.model_copy(update={"offers": unsold})
    (note,) = explain(alone, library=library()).notes
    assert note == SPOT_ONLY_NOTE and "expectation" not in note
    plan = solve(alone, OPTIONS, library())
    assert not plan.jobs[0].has_fallback and solved(scenario).jobs[0].has_fallback
    text = " ".join(render(plan).split())
    assert "meets the 40 h deadline with " in text and "probability (no fallback)" in text
