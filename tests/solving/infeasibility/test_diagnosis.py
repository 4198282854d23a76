"""Why there is no plan: what is proposed suffices, a little less does not, and near misses say what would fit."""

from __future__ import annotations

import datetime
import functools
import json
from dataclasses import replace
from itertools import groupby
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.configurations.coefficients import memory_margin
from planner.library.reading import read_library
from planner.library.schema import Library
from planner.loading.scenario_file import change_scenario, parse_scenario
from planner.results.plan import Plan
from planner.results.plan_parts import Relaxation
from planner.scenario.scenario import Scenario, SolveOptions
from planner.solving.diagnosis import asks_no_less
from planner.solving.elastic_program import margin_of
from planner.solving.limit_changes import LimitChange
from planner.solving.solve import solve
from tests.helpers import costs
from tests.helpers.bare_plans import bare_plan
from tests.helpers.spot_scenarios import SPOT

OPTIONS = SolveOptions(as_of=datetime.date(2026, 11, 21))
TINY = "tinyllama-1.1b"
few = settings(max_examples=8, derandomize=True, deadline=None, database=None)

SCENARIO = """
name: t
offers:
  - {provider: a, gpu: RTX4090, gpus: 1, usd_per_hour: 0.5}
  - {provider: b, gpu: H100-80GB, gpus: 1, usd_per_hour: 3.0}
  - {provider: b, gpu: H100-80GB, gpus: 8, usd_per_hour: 24.0, interconnect: nvswitch}
jobs:
  - {name: t, architecture: llama-3.2-1b, work: {tokens: 5e8}, framework: hf}
"""

STEPS = {"deadline": 0.02, "budget_usd": 0.02, "max_gpus": 1.0, "max_hours": 0.02, "a": 1.0, "b": 1.0, "min": 0.02}
"""More than a proposal is rounded by; after it, what is tried is under the limit that suffices."""


@functools.cache
def library(name: str = TINY) -> Library:
    return read_library([name])


def plan_of(*settings: str) -> Plan:
    return solve(parse_scenario(SCENARIO, set_=settings), OPTIONS)


def bare_of(*settings: str) -> Plan:
    """The same without its explanation."""
    return bare_plan(parse_scenario(SCENARIO, set_=settings), OPTIONS)


def ways(plan: Plan) -> list[list[Relaxation]]:
    assert plan.status == "infeasible" and plan.infeasible is not None
    return [list(entries) for _, entries in groupby(plan.infeasible.relax, key=lambda one: one.way)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "limit", "unit", "step"),
    [
        (("jobs.0.deadline=30m",), "jobs.t.deadline", "h", 0.02),
        (("limits.budget_usd=1",), "limits.budget_usd", "", 0.05),
    ],
)
def test_the_proposed_change_suffices_and_a_smaller_one_does_not(
    settings: tuple[str, ...], limit: str, unit: str, step: float
) -> None:
    """The relaxed scenario has a plan; a little tighter it has none: the proposal is the smallest."""
    plan = plan_of(*settings)
    assert plan.status == "infeasible" and plan.infeasible is not None
    found = {one.limit: one for one in plan.infeasible.relax}
    to = found[limit].change_to
    assert isinstance(to, float)
    assert plan_of(*settings, f"{limit}={to:.6f}{unit}").status == "optimal"
    assert plan_of(*settings, f"{limit}={to - step:.6f}{unit}").status == "infeasible"


def test_where_no_single_change_is_enough_they_are_named_together() -> None:
    """Too short and too poor at once: deadline and budget move as one way out, and its settings make a plan."""
    settings = ("jobs.0.deadline=12m", "limits.budget_usd=0.1")
    first = ways(plan_of(*settings))[0]
    assert {one.limit for one in first} == {"jobs.t.deadline", "limits.budget_usd"}
    assert plan_of(*settings, *(one.setting for one in first)).status == "optimal"


@st.composite
def hopeless(draw: st.DrawFn) -> Scenario:
    """One or two small jobs on a small market under limits that are often too tight; billed by the second."""
    market = [
        {"provider": "a", "gpu": "RTX4090", "gpus": 1, "usd_per_hour": 0.4, "spot_usd_per_hour": 0.21},
        {"provider": "a", "gpu": "A100-PCIe-80GB", "gpus": 2, "usd_per_hour": 2.2},
        {"provider": "b", "gpu": "RTX3090", "gpus": 1, "usd_per_hour": 0.25},
        {"provider": "b", "gpu": "H100-80GB", "gpus": 4, "usd_per_hour": 9.0, "spot_usd_per_hour": 5.0},
    ]
    limits: dict[str, Any] = {}
    if draw(st.booleans()):
        limits["budget_usd"] = round(draw(st.floats(0.02, 0.6)), 2)
    if draw(st.booleans()):
        limits["max_gpus"] = draw(st.integers(1, 4))
    if draw(st.booleans()):
        limits["gpus"] = draw(st.sampled_from([{"allow": ["RTX3090"]}, {"forbid": ["H100-80GB", "RTX4090"]}]))
    if draw(st.booleans()):
        limits["quota"] = {draw(st.sampled_from("ab")): draw(st.integers(0, 2))}
    if draw(st.booleans()):
        limits["spot_share"] = {"min": draw(st.sampled_from([0.3, 0.9]))}
    techniques = draw(st.sampled_from([{}, {"method": "full"}, {"weight_bits": 4}]))
    hours = round(draw(st.floats(0.05, 2.0)), 2)
    jobs = [
        {"name": name, "architecture": TINY, "work": {"tokens": 3e7}, "deadline": f"{hours}h", "techniques": techniques}
        for name in ("one", "two")[: draw(st.integers(1, 2))]
    ]
    return parse_scenario(
        json.dumps({"name": "law", "schedule": "side_by_side", "offers": market, "jobs": jobs, "limits": limits})
    )


@pytest.mark.long
@few
@given(hopeless())
def test_every_way_out_makes_a_plan_and_a_little_less_does_not(scenario: Scenario) -> None:
    """The settings of a way, typed together, are solved to the cost that was told; a way always exists here.

    Of a way that moves one numeric limit, a value short of the proposal by more than its rounding leaves no plan. A
    later way moves other limits, or the only one that must move by less.
    """
    plan = solve(scenario, OPTIONS, library())
    if plan.status != "infeasible":
        return
    found = ways(plan)
    assert found
    for way in found:
        after = bare_plan(change_scenario(scenario, [one.setting for one in way]), OPTIONS, library())
        assert after.status == "optimal" and after.cost is not None
        assert way[0].cost_usd == pytest.approx(after.cost.expected, abs=0.02)
        key = way[0].limit.rpartition(".")[2]
        if len(way) > 1 or key not in STEPS or not isinstance(way[0].change_to, float):
            continue
        path, _, _ = way[0].setting.partition("=")
        less = way[0].change_to + STEPS[key] if key == "min" else way[0].change_to - STEPS[key]
        if key == "min" and less >= float(way[0].change_from or 0):
            continue
        value = f"{less:.6f}h" if key == "deadline" else f"{less:.0f}" if STEPS[key] == 1.0 else f"{less:.6f}"
        assert bare_plan(change_scenario(scenario, [f"{path}={value}"]), OPTIONS, library()).status == "infeasible"
    by_limit = [{one.limit: one for one in way} for way in found]
    for index, later in enumerate(by_limit):
        for earlier in by_limit[:index]:
            if earlier.keys() <= later.keys():
                ((limit, before),) = earlier.items()
                moved = [abs(float(one.change_to) - float(one.change_from)) for one in (before, later[limit])]  # type: ignore[arg-type]
                assert moved[1] < moved[0]


def test_a_list_is_opened_for_what_is_needed_and_no_more() -> None:
    """Where only the card is barred, the card is named and the setting adds it to the list."""
    plan = plan_of("limits.gpus.allow=[RTX4090]", "jobs.0.deadline=1h")
    opened = next(way[0] for way in ways(plan) if way[0].limit == "limits.gpus")
    assert opened.change_to == "allow also H100-80GB" and opened.setting == "limits.gpus.allow=[RTX4090,H100-80GB]"


@pytest.mark.long
def test_the_margin_of_memory_gives_no_more_than_it_must() -> None:
    """A margin that leaves no room is lowered to the largest whole percent that does."""
    techniques = "jobs.0.techniques={method: full, optimizer: adamw_8bit}"
    settings = ("limits.vram_headroom=0.95", techniques, "limits.gpus.allow=[RTX4090]")
    plan = plan_of(*settings)
    margin = next(way[0] for way in ways(plan) if way[0].limit == "limits.vram_headroom")
    assert isinstance(margin.change_to, float) and 0 < margin.change_to < 0.95
    assert bare_of(*settings, margin.setting).status == "optimal"
    assert bare_of(*settings, f"limits.vram_headroom={margin.change_to + 0.001:.3f}").status == "infeasible"


@pytest.mark.parametrize(("techniques", "hosted"), [("{}", False), ("{offload: [none, optimizer]}", True)])
def test_the_margin_of_a_job_is_the_widest_of_what_it_may_run(techniques: str, hosted: bool) -> None:
    """States in host memory are less certain: a fit rule with a narrower margin would not be that of the plan."""
    scenario, library = parse_scenario(SCENARIO, set_=[f"jobs.0.techniques={techniques}"]), read_library()
    margin = margin_of(scenario.jobs[0], scenario.limits, library)
    assert margin == memory_margin("hf", scenario.jobs[0].memory_confidence, library, hosted)
    assert (margin > memory_margin("hf", scenario.jobs[0].memory_confidence, library)) == hosted


def test_a_card_short_of_memory_says_which_sequence_would_fit() -> None:
    """The proposed length fits, the next multiple of 128 does not."""
    scenario = """
name: t
offers: [{provider: a, gpu: RTX3060, gpus: 1, usd_per_hour: 0.1}]
jobs:
  - {name: t, architecture: llama-3.2-1b, work: {tokens: 1e6}, sequence_length: 32768, techniques: {method: lora}}
"""
    plan = solve(parse_scenario(scenario), OPTIONS)
    assert plan.infeasible is not None
    miss = next(one for one in plan.infeasible.nearest if one.unit == "GiB")
    longest = int(miss.fix.split()[1].replace(",", ""))
    assert longest % 128 == 0
    assert solve(parse_scenario(scenario, set_=[f"jobs.0.sequence_length={longest}"]), OPTIONS).status == "optimal"


def test_a_late_way_tells_its_chance() -> None:
    """A deadline that is missed at the confidence may still be met now and then."""
    plan = plan_of("jobs.0.deadline=30m")
    assert plan.infeasible is not None
    miss = next(one for one in plan.infeasible.nearest if one.unit == "h")
    assert miss.shortfall > 0 and "% probability" in miss.fix


@pytest.mark.long
@pytest.mark.parametrize("least_share", [0.0, 0.3])
def test_within_a_budget_a_policy_may_need_more_time_than_a_mix(least_share: float) -> None:
    """A mix of markets would end within 5.9 h; what a policy costs at the confidence fits the budget hours later."""
    scenario = change_scenario(
        parse_scenario(SPOT), ["jobs.bot.deadline=30m", f"limits.spot_share.min={least_share:g}"]
    )
    (way,) = solve(scenario, OPTIONS).infeasible.relax  # type: ignore[union-attr]
    assert way.limit == "jobs.bot.deadline" and isinstance(way.change_to, float) and way.change_to > 7
    assert bare_plan(change_scenario(scenario, [way.setting]), OPTIONS).jobs
    assert not bare_plan(change_scenario(scenario, [f"jobs.bot.deadline={way.change_to - 0.01:.2f}h"]), OPTIONS).jobs


def test_many_limits_at_once_still_leave_a_way_out() -> None:
    """Five limits of two oddly named jobs all bar the only plan: they are moved together, by settings that work."""
    job = {"architecture": TINY, "work": {"tokens": 3e7}, "deadline": "10m"}
    data = {
        "name": "odd",
        "offers": [{"provider": "a.b c", "gpu": "RTX4090", "gpus": 1, "usd_per_hour": 0.4}],
        "jobs": [{"name": "odd.name=x", **job}, {"name": "2", **job}],
        "limits": {"providers": {"forbid": ["a.b c"]}, "max_gpus": 1, "quota": {"a.b c": 0}, "budget_usd": 0.01},
        "schedule": "side_by_side",
    }
    scenario = parse_scenario(json.dumps(data))
    (way,) = ways(solve(scenario, OPTIONS, library()))
    assert len(way) == 6
    assert solve(change_scenario(scenario, [one.setting for one in way]), OPTIONS, library()).status == "optimal"


def test_less_certainty_of_memory_is_a_way_out_and_no_less_than_it_must_be() -> None:
    """The longest sequence that fits at 60 % needs 99 % to be given up, by as much as `solve` confirms."""
    scenario = """
name: t
offers: [{provider: a, gpu: RTX3060, gpus: 1, usd_per_hour: 0.1}]
jobs:
  - {name: t, architecture: llama-3.2-1b, work: {tokens: 1e6}, sequence_length: 32768, techniques: {method: lora},
     framework: hf}
"""

    def solved(length: int, confidence: float) -> Plan:
        wanted = [f"jobs.t.sequence_length={length}", f"jobs.t.confidence.memory={confidence:g}"]
        return solve(parse_scenario(scenario, set_=wanted), OPTIONS)

    unsure = solved(32768, 0.6)
    assert unsure.infeasible is not None
    length = next(int(one.fix.split()[1].replace(",", "")) for one in unsure.infeasible.nearest if one.unit == "GiB")
    assert solved(length, 0.6).status == "optimal"
    (change,) = next(way for way in ways(solved(length, 0.99)) if way[0].limit.endswith("memory"))
    assert change.limit == "jobs.t.confidence.memory" and change.change_from == 0.99
    assert isinstance(change.change_to, float) and 0.6 <= change.change_to < 0.99
    assert change.setting == f"jobs.t.confidence.memory={change.change_to:g}"
    assert solved(length, change.change_to).status == "optimal"
    assert solved(length, round(change.change_to + 0.01, 2)).status == "infeasible"


@pytest.mark.long
def test_a_relaxation_asks_for_no_more_budget_than_its_plan_needs() -> None:
    """On spot a policy costs less than the mix of markets that the elastic program knows."""
    plan = costs.plan_of("infeasible")
    budgets = [one for way in ways(plan) for one in way if one.limit == "limits.budget_usd"]
    assert {one.way for one in budgets} == {1, 2}
    for one in budgets:
        needed = float(one.then.rpartition("$")[2].split()[0])
        assert one.then.endswith(" at 90 %") and " expected" not in one.then
        assert f"likely ${one.cost_usd:,.2f}" in one.then
        assert (", spot" in one.then) == (" if little spot capacity appears" in one.then)
        assert isinstance(one.change_to, float) and needed - 1e-9 <= one.change_to <= needed + 0.011


def test_a_relaxation_that_changes_as_much_as_another_and_more_is_not_reported() -> None:
    """Equal or larger amounts of the same limits are no help; a smaller amount of one of them is."""
    budget = LimitChange("limits.budget_usd", 10.0, 39.3, "limits.budget_usd=39.3")
    deadline = LimitChange("jobs.t.deadline", 2.0, 4.3, "jobs.t.deadline=4.3h")
    providers = LimitChange("limits.providers", "allow a", "allow also b", "limits.providers.allow=[a,b]")
    for more, expected in ((40.65, True), (39.3, True), (34.52, False)):
        assert asks_no_less([deadline, replace(budget, new=more)], [budget]) == expected
    assert not asks_no_less([budget], [budget, deadline])
    assert asks_no_less([providers, budget], [providers])
    assert not asks_no_less([replace(providers, new="allow also c"), budget], [providers])


@pytest.mark.slow
def test_trials_at_once_without_enough_machines_of_a_kind_may_be_split() -> None:
    """One of each kind is in stock: each trial may be a job of its own, which is tried before fewer at once."""
    trials = "jobs.0.trials={count: 2, at_once: 2}"
    scarce = [f"offers.{number}.stock={count}" for number, count in ((0, 1), (1, 1), (2, 0))]
    (first, *_) = ways(plan_of(trials, *scarce))
    assert [one.setting for one in first] == ["jobs.t.trials={count: 2, split: true}"]
    assert plan_of(trials, *scarce, first[0].setting).status != "infeasible"


@pytest.mark.slow
def test_trials_at_once_that_fit_in_turn_may_be_split() -> None:
    """One GPU at a time: next to a larger limit, the trials as jobs in turn are named, which move no limit."""
    few = ("jobs.0.trials={count: 2, at_once: 2}", "limits.max_gpus=1", "jobs.0.deadline=1000h", "limits.spot=false")
    found = [[one.setting for one in way] for way in ways(plan_of(*few))]
    assert ["jobs.t.trials={count: 2, split: true}"] in found
    assert plan_of(*few, "jobs.t.trials={count: 2, split: true}").status != "infeasible"


@pytest.mark.slow
def test_a_batch_that_no_eight_gpus_share_may_grow() -> None:
    """Full training of 3 sequences a step needs three GPUs or fewer, and only eight have the memory."""
    few = ("jobs.0.architecture=llama-3.1-8b", "jobs.0.global_batch=3", "jobs.0.techniques={method: full}")
    assert ["jobs.t.global_batch=24"] in [[one.setting for one in way] for way in ways(plan_of(*few))]
    assert plan_of(*few, "jobs.0.global_batch=24").status == "optimal"
    assert plan_of(*few, "jobs.0.global_batch=12").status == "infeasible"


def test_a_near_miss_names_every_limit_that_it_breaks() -> None:
    """The plan that is least late is over the budget too; the one over the budget keeps the deadline."""
    nearest = plan_of("jobs.0.deadline=0.5h", "limits.budget_usd=1").infeasible.nearest
    late = next(miss for miss in nearest if miss.reason.startswith("misses the deadline"))
    assert "also exceeds the budget at 90 % confidence ($" in late.fix
    enough = plan_of("jobs.0.deadline=0.5h", "limits.budget_usd=1000").infeasible.nearest
    assert "budget" not in next(miss for miss in enough if miss.reason.startswith("misses the deadline")).fix


def test_a_candidate_far_over_the_budget_is_no_near_miss_of_the_deadline() -> None:
    """Others keep the deadline and exceed the budget alone; a budget within reach names the late one."""
    late = "misses the deadline"
    far = plan_of("jobs.0.deadline=20h", "limits.budget_usd=0.01").infeasible
    assert far is not None and far.nearest and not [miss for miss in far.nearest if miss.reason.startswith(late)]
