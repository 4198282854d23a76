"""What-if, sweeps and the tornado: each figure is that of a scenario solved from scratch, and obeys economics."""

from __future__ import annotations

import datetime
from functools import cache
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.comparisons import Tornado, WhatIf
from planner.errors import NoPlanError, ScenarioError
from planner.library import Library
from planner.loading import change_scenario, parse_scenario, read_library, read_scenario
from planner.plan import Plan
from planner.scenario import Scenario, SolveOptions
from planner.sensitivity import what_if
from planner.solving import solve
from planner.sweeps import sweep
from planner.tornados import tornado

OPTIONS = SolveOptions(as_of=datetime.date(2026, 11, 21))
LAWS = settings(derandomize=True, max_examples=12, deadline=None)

SMALL = """\
name: small
jobs:
  - name: bot
    architecture: tinyllama-1.1b
    work: {tokens: 50e6}
    deadline: 40h
    techniques: {method: lora}
offers:
  - {provider: cheap, gpu: RTX3090, gpus: 1, usd_per_hour: 0.2, spot_usd_per_hour: 0.1}
  - {provider: cheap, gpu: RTX3090, gpus: 4, usd_per_hour: 0.9}
  - {provider: fast, gpu: A100-80GB, gpus: 1, usd_per_hour: 1.6, spot_usd_per_hour: 0.9}
  - {provider: fast, gpu: H100-80GB, gpus: 1, usd_per_hour: 3.1}
  - {provider: fast, gpu: H100-80GB, gpus: 8, usd_per_hour: 26}
limits: {budget_usd: 60, max_gpus: 8, spot_share: {max: 0.5}}
"""

TWO = SMALL.replace(
    "offers:",
    """\
  - name: other
    architecture: tinyllama-1.1b
    work: {tokens: 20e6}
    techniques: {method: lora}
offers:""",
)


@cache
def library() -> Library:
    return read_library(["tinyllama-1.1b"])


@cache
def small(text: str = SMALL) -> Scenario:
    return parse_scenario(text)


def asked(*changes: str, text: str = SMALL) -> WhatIf:
    return what_if(small(text), changes, OPTIONS, library())


def solved(*changes: str, text: str = SMALL) -> Plan:
    return solve(change_scenario(small(text), changes), OPTIONS, library())


def same(one: Plan, other: Plan) -> bool:
    return one.model_copy(update={"seconds": 0.0}) == other.model_copy(update={"seconds": 0.0})


@pytest.mark.parametrize(
    "changes",
    [(), ("jobs.bot.deadline=40h",), ("limits.budget_usd=60", "limits.max_gpus=8"), ("jobs.bot.efficiency=1.0",)],
)
def test_a_change_that_changes_nothing_changes_nothing(changes: tuple[str, ...]) -> None:
    """Same plan, no difference, nothing ruled out, no effect of any setting."""
    answer = asked(*changes)
    assert same(answer.before, answer.after)
    assert answer.unchanged
    assert (answer.delta.cost_usd, answer.delta.hours) == (0, 0)
    (job,) = answer.jobs
    assert job.changes == () and job.bill == ()
    assert (job.ruled_out, job.dearer, job.opened, job.cheaper) == (0, 0, 0, 0)
    assert all(effect.share.cost_usd == 0 for effect in answer.effects)


CHANGES = st.sampled_from(
    [
        "jobs.bot.deadline=2h",
        "jobs.bot.deadline=6h",
        "limits.budget_usd=2",
        "limits.gpus.forbid=[RTX3090]",
        "limits.spot_share.max=0",
        "limits.max_gpus=1",
        "adjust=[{match: {gpu: RTX3090}, usd_per_hour_factor: 3, spot_usd_per_hour_factor: 9}]",
        "jobs.bot.efficiency=0.5",
        "jobs.bot.techniques.weight_bits=[16]",
        "jobs.bot.work.tokens=200e6",
        "objective=time",
    ]
)


@LAWS
@given(changes=st.lists(CHANGES, min_size=1, max_size=3, unique_by=lambda one: one.partition("=")[0]))
def test_both_sides_are_what_solving_from_scratch_gives(changes: list[str]) -> None:
    """What is reused between the two changes no figure; of two settings the shares add up to the difference."""
    answer = asked(*changes)
    assert same(answer.before, solved())
    assert same(answer.after, solved(*changes))
    if len(changes) == 2 and all(one.share.cost_usd is not None for one in answer.effects):
        total = sum(one.share.cost_usd or 0.0 for one in answer.effects)
        assert total == pytest.approx(answer.delta.cost_usd, abs=1e-9)
        assert answer.together.cost_usd == pytest.approx(0, abs=1e-9)


@LAWS
@given(changes=st.lists(CHANGES, min_size=2, max_size=3, unique_by=lambda one: one.partition("=")[0]))
def test_effects_are_those_of_solving_with_each_setting_alone_and_with_all_but_it(changes: list[str]) -> None:
    """`alone` and `last` are differences of plans that anybody can solve for."""

    def cost(*kept: str) -> float | None:
        plan = solved(*kept)
        return plan.cost_usd.expected if plan.cost_usd else None

    answer = asked(*changes)
    for index, effect in enumerate(answer.effects):
        first = cost(changes[index])
        rest = cost(*changes[:index], *changes[index + 1 :])
        base, end = cost(), cost(*changes)
        assert effect.alone.cost_usd == (None if None in (first, base) else pytest.approx(first - base))  # type: ignore[operator]
        assert effect.last.cost_usd == (None if None in (rest, end) else pytest.approx(end - rest))  # type: ignore[operator]


def test_a_tighter_deadline_counts_the_cheaper_ways_that_it_rules_out() -> None:
    """The plan before is one of them, and a looser limit opens what a tighter one ruled out."""
    tight = asked("jobs.bot.deadline=2h")
    assert (tight.delta.cost_usd or 0) > 0
    (job,) = tight.jobs
    assert job.ruled_out >= 1
    assert (job.opened, job.dearer, job.cheaper) == (0, 0, 0)
    loose = what_if(change_scenario(small(), ["jobs.bot.deadline=2h"]), ["jobs.bot.deadline=40h"], OPTIONS, library())
    assert loose.jobs[0].opened == job.ruled_out
    assert loose.jobs[0].ruled_out == 0


def test_a_price_makes_ways_dearer_and_rules_none_out() -> None:
    """What is still possible and has only become worse is counted apart."""
    answer = asked("adjust=[{match: {gpu: RTX3090}, usd_per_hour_factor: 9, spot_usd_per_hour_factor: 9}]")
    (job,) = answer.jobs
    assert job.ruled_out == 0
    assert job.dearer >= 1


def test_lines_of_the_bill_that_changed_explain_the_difference() -> None:
    """What they add up to is the difference of cost, but for lines that moved by less than a cent."""
    answer = asked("limits.gpus.forbid=[RTX3090]")
    (job,) = answer.jobs
    moved = sum((line.after_usd or 0) - (line.before_usd or 0) for line in job.bill)
    assert moved == pytest.approx(answer.delta.cost_usd, abs=0.02)
    assert {change.what for change in job.changes} >= {"card"}


def test_infeasible_on_either_side_is_an_answer() -> None:
    """Neither side raises; there is no difference to tell, and the setting that leaves no plan is known."""
    gone = asked("jobs.bot.deadline=1m", "limits.max_gpus=4")
    assert (gone.before.status, gone.after.status) == ("optimal", "infeasible")
    assert gone.delta.cost_usd is None and gone.after.infeasible is not None
    assert [effect.alone_status for effect in gone.effects] == ["infeasible", "optimal"]
    back = what_if(change_scenario(small(), ["jobs.bot.deadline=1m"]), ["jobs.bot.deadline=40h"], OPTIONS, library())
    assert (back.before.status, back.after.status) == ("infeasible", "optimal")
    assert not back.unchanged


def test_where_nothing_changes_the_value_that_would_change_it_does() -> None:
    """Under the deadline and the budget that are told the plan cannot stay; well above them it does."""
    hours = asked("jobs.bot.deadline=30h")
    assert hours.unchanged
    told = float(hours.it_would_take[0].split("under ")[1].split(" h")[0])
    assert not asked(f"jobs.bot.deadline={told - 0.01}h").unchanged
    assert asked(f"jobs.bot.deadline={1.1 * told}h").unchanged
    budget = asked("limits.budget_usd=50")
    dollars = float(budget.it_would_take[0].split("$")[1].split(" would")[0])
    assert not asked(f"limits.budget_usd={dollars - 0.01}").unchanged
    assert asked(f"limits.budget_usd={dollars + 0.011}").unchanged


def test_only_the_job_that_a_setting_is_about_changes() -> None:
    """Of several jobs the others are told as unchanged; a job that is new is in no difference."""
    answer = asked("jobs.other.efficiency=0.5", text=TWO)
    changed = {job.name: abs(job.delta.hours or 0) > 0.01 for job in answer.jobs}
    assert changed == {"bot": False, "other": True}
    more = asked("jobs.1={name: third, architecture: tinyllama-1.1b, work: {tokens: 1e6}}")
    assert [job.name for job in more.jobs] == ["bot"]
    assert len(more.after.jobs) == 2 and not more.unchanged


@LAWS
@given(
    path=st.sampled_from(["jobs.bot.deadline=2h:40h:19h", "limits.budget_usd=1:21:10", "jobs.bot.efficiency=[0.5, 2]"]),
    other=st.sampled_from(["limits.gpus.forbid=[RTX3090, H100-80GB]", "jobs.bot.work.tokens=[1e7, 9e7]"]),
)
def test_a_cell_is_what_solving_the_changed_scenario_gives(path: str, other: str) -> None:
    """Whatever was reused on the way to a cell; the cells come row by row."""
    answer = sweep(small(), [path, other], (), OPTIONS, library())
    assert len(answer.cells) == answer.shape[0] * answer.shape[1]
    for index, cell in enumerate(answer.cells):
        row, column = divmod(index, answer.shape[1])
        values = (answer.axes[0].values[row], answer.axes[1].values[column])
        assert cell.values == values and answer.cell(*values) == cell
        plan = solved(*(f"{axis.path}={value}" for axis, value in zip(answer.axes, values, strict=True)))
        assert cell.status == plan.status
        assert cell.cost_usd == (plan.cost_usd.expected if plan.cost_usd else None)
        assert cell.hours == (plan.hours.expected if plan.hours else None)
        assert [(one.gpu, one.gpus) for one in cell.jobs] == [(one.gpu, one.gpus) for one in plan.jobs]


@pytest.mark.parametrize("vary", ["jobs.bot.deadline=30m:1200m:90m", "limits.budget_usd=0.5:20:0.75"])
@pytest.mark.parametrize("text", [SMALL, TWO])
def test_cost_never_rises_along_a_limit_that_loosens(vary: str, text: str) -> None:
    """All offers are billed by the second; once there is a plan it stays and gets no dearer."""
    costs = [cell.cost_usd for cell in sweep(small(text), [vary], (), OPTIONS, library()).cells]
    found = [cost for cost in costs if cost is not None]
    assert found and costs[: len(costs) - len(found)] == [None] * (len(costs) - len(found))
    # Half a cent is what the second pass may spend on hours.
    assert all(later <= earlier + 0.005 + 1e-9 for earlier, later in pairwise(found))


def test_a_sweep_solves_nothing_before_every_value_is_known_to_be_possible() -> None:
    """A value that cannot be is told under the name of its range, and a sweep knows only its own cells."""
    with pytest.raises(ScenarioError, match=r"--vary limits.spot_share.max=1.5: limits.spot_share.max: 1.5 is out"):
        sweep(small(), ["limits.spot_share.max=0:1.5:0.5"], (), OPTIONS, library())
    with pytest.raises(ScenarioError, match=r"6 has no unit; such as jobs.bot.deadline=6h:48h:STEPh"):
        sweep(small(), ["jobs.bot.deadline=6:48:6"], (), OPTIONS, library())
    with pytest.raises(ScenarioError, match="nothing to vary"):
        sweep(small(), [], (), OPTIONS, library())
    with pytest.raises(NoPlanError):
        sweep(small(), ["limits.max_gpus=[1]"], (), OPTIONS, library()).cell("7")


def test_settings_hold_in_every_cell() -> None:
    """A sweep starts from the changed scenario."""
    answer = sweep(small(), ["jobs.bot.deadline=[20h, 40h]"], ["limits.gpus.allow=[A100-80GB]"], OPTIONS, library())
    assert {job.gpu for cell in answer.cells for job in cell.jobs} == {"A100-80GB"}


@cache
def moved(text: str = SMALL, by: float = 0.2) -> Tornado:
    return tornado(small(text), OPTIONS, library(), by)


@pytest.mark.parametrize("text", [SMALL, TWO])
def test_bars_are_bracketed_by_what_two_solves_give(text: str) -> None:
    """Each end is the plan of the scenario with the settings of that end, and the effect the larger change."""
    answer = moved(text)
    base = answer.base.cost_usd.expected if answer.base.cost_usd else 0.0
    assert answer.bars
    for bar in answer.bars:
        for end in (bar.down, bar.up):
            plan = solved(*end.settings, text=text)
            assert end.status == plan.status
            assert end.cost_usd == (plan.cost_usd.expected if plan.cost_usd else None)
        changes = [abs(end.cost_usd - base) for end in (bar.down, bar.up) if end.cost_usd is not None]
        assert bar.effect_usd == max(changes, default=0.0)


def test_tornado_moves_every_limit_that_is_set_and_every_price_that_matters() -> None:
    """Limits that the scenario leaves out have no bar; whole numbers are rounded outwards."""
    bars = {bar.what: bar for bar in moved().bars}
    assert {"deadline", "budget", "max_gpus", "most spot share", "predicted speed", "work (tokens)"} <= set(bars)
    assert {"all on demand prices", "all spot prices", "cheap on demand prices"} <= set(bars)
    assert not {"max_hours", "least spot share", "vram_headroom"} & set(bars)
    assert (bars["max_gpus"].down.value, bars["max_gpus"].up.value) == ("6", "10")
    assert (bars["deadline"].base, bars["deadline"].down.value) == ("40 h", "32 h")
    assert bars["work (tokens)"].effect_usd > 0


def test_tornado_is_ranked_and_says_what_makes_the_scenario_infeasible() -> None:
    """What can leave no plan comes first, then what changes the cost most."""
    answer = moved()
    effects = [bar.effect_usd for bar in answer.bars if not bar.can_fail]
    assert effects == sorted(effects, reverse=True)
    plan = solved()
    tight = change_scenario(small(), [f"limits.budget_usd={(plan.cost_at_confidence or 0) + 0.001}"])
    only = change_scenario(tight, [f"limits.gpus.allow=[{plan.jobs[0].gpu}]"])
    failing = tornado(only, OPTIONS, library()).bars
    assert failing[0].can_fail
    assert "budget" in {bar.what for bar in failing if bar.down.status == "infeasible"}


def test_all_prices_move_the_cost_by_no_more_than_their_share() -> None:
    """A fifth more on every price costs at most a fifth more; a fifth less saves at least a fifth of what is rented."""
    bars = {bar.what: bar for bar in moved().bars}
    base = moved().base.cost_usd.expected  # type: ignore[union-attr]
    bar = bars["all on demand prices"]
    assert bar.down.cost_usd is not None and bar.up.cost_usd is not None
    assert bar.down.cost_usd <= base + 0.005 and base - 0.005 <= bar.up.cost_usd <= base * 1.2 + 0.005


def test_tornado_of_an_infeasible_scenario_has_no_bars_and_a_wrong_share_is_refused() -> None:
    """There is nothing to move away from, and the plan says why; a share is between 0 and 1."""
    answer = tornado(change_scenario(small(), ["jobs.bot.deadline=1m"]), OPTIONS, library())
    assert answer.bars == () and answer.base.infeasible is not None
    for by in (0.0, 1.0, -0.2):
        with pytest.raises(ScenarioError, match="no share to move by"):
            tornado(small(), OPTIONS, library(), by)


@cache
def shipped(name: str) -> tuple[dict[tuple[str, ...], tuple[float, float, float, int]], list[list[str]]]:
    """Cost, hours, start and cards of every cell of a shipped sensitivity; the values of its axes."""
    scenario = read_scenario(name)
    answer = sweep(scenario, scenario.vary, (), OPTIONS)
    cells = {}
    for cell in answer.cells:
        (job,) = cell.jobs
        cells[cell.values] = (job.cost_usd, job.hours, job.start_hours, job.gpus)
    return cells, [list(axis.values) for axis in answer.axes]


def test_cost_grows_faster_than_the_size_of_the_network_beyond_one_card() -> None:
    """Article 1: with the A100 as base, cost grows non-linearly with size; steps only add more of the same."""
    cells, (sizes, steps) = shipped("sensitivity-size")
    billions = dict(zip(sizes, (6.738, 13.016, 33.744, 68.977), strict=True))  # the cards' parameters
    for step in steps:
        costs = [cells[size, step][0] for size in sizes]
        assert costs == sorted(costs)
        per_billion = [cost / billions[size] for cost, size in zip(costs, sizes, strict=True)]
        assert per_billion[1] < per_billion[2] < per_billion[3]
        assert per_billion[3] > 1.1 * per_billion[0]
    cards = [cells[size, "1000"][3] for size in sizes]
    assert cards == sorted(cards) and cards[0] == 1 and cards[-1] >= 4
    for size in ("llama-2-7b", "llama-2-13b"):  # one card for any number of steps: cost is a start plus steps
        first, second, third, fourth = (cells[size, step][0] for step in steps)
        assert second - first == pytest.approx(third - second, rel=0.02) == pytest.approx(fourth - third, rel=0.02)


def test_training_hours_are_inverse_to_efficiency() -> None:
    """Article 1: what is not start-up costs half as much at twice the efficiency, for any number of steps."""
    cells, (factors, steps) = shipped("sensitivity-efficiency")
    for step in steps:
        work: dict[int, list[float]] = {}
        for factor in factors:
            _, hours, start, cards = cells[factor, step]
            work.setdefault(cards, []).append((hours - start) * float(factor))
        for same_cards in work.values():
            assert max(same_cards) <= 1.05 * min(same_cards)  # checkpoints and evaluation do not all scale
        costs = [cells[factor, step][0] for factor in factors]
        assert costs == sorted(costs, reverse=True)
        assert costs[0] > 1.8 * costs[2] > 1.2 * costs[4]


def test_loading_time_is_inverse_to_bandwidth_times_load_efficiency() -> None:
    """Article 1: only the product counts, start hours are a constant plus a share inverse to it, and cost follows."""
    cells, (bandwidths, efficiencies) = shipped("sensitivity-loading")
    starts: dict[float, float] = {}
    for bandwidth in bandwidths:
        for efficiency in efficiencies:
            cost, _, start, _ = cells[bandwidth, efficiency]
            product = round(float(bandwidth) * float(efficiency), 6)
            assert starts.setdefault(product, start) == pytest.approx(start, rel=1e-9)
            assert cost > 0
    products = sorted(starts)
    slope = (starts[products[0]] - starts[products[-1]]) / (1 / products[0] - 1 / products[-1])
    assert slope * 3600 == pytest.approx(137.95, rel=0.01)  # GB of weights: the seconds at 1 GB/s
    for product in products:
        assert starts[product] == pytest.approx(
            starts[products[-1]] + slope * (1 / product - 1 / products[-1]), rel=1e-6
        )
    assert cells["0.1", "0.2"][0] > 4 * cells["2", "1"][0]
