"""What-if: both sides are those of scenarios solved from scratch, and what is told of the difference holds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.analysis.what_if_question import what_if
from planner.loading.scenario_file import change_scenario
from planner.results.plan import Plan
from planner.results.what_if import WhatIf
from planner.scenario.scenario import Scenario
from planner.solving.prepare import prepare
from tests.helpers.scenarios_what_if import LAWS, OPTIONS, SMALL, TWO, bare, library, small, solved


def asked(*changes: str, text: str = SMALL) -> WhatIf:
    return what_if(small(text), changes, OPTIONS, library())


def same(one: Plan, other: Plan) -> bool:
    return one.model_copy(update={"seconds": 0.0}) == other.model_copy(update={"seconds": 0.0})


@pytest.mark.slow
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


@pytest.mark.long
@LAWS
@given(changes=st.lists(CHANGES, min_size=1, max_size=3, unique_by=lambda one: one.partition("=")[0]))
def test_both_sides_are_what_solving_from_scratch_gives(changes: list[str]) -> None:
    """What is reused between the two changes no figure; of two settings the shares add up to the difference."""
    answer = asked(*changes)
    assert same(answer.before, solved())
    assert same(answer.after, solved(*sorted(changes)))
    if len(changes) == 2 and all(one.share.cost_usd is not None for one in answer.effects):
        total = sum(one.share.cost_usd or 0.0 for one in answer.effects)
        assert total == pytest.approx(answer.delta.cost_usd, abs=1e-9)
        assert answer.together.cost_usd == pytest.approx(0, abs=1e-9)


@pytest.mark.long
@LAWS
@given(changes=st.lists(CHANGES, min_size=2, max_size=3, unique_by=lambda one: one.partition("=")[0]))
def test_effects_are_those_of_solving_with_each_setting_alone_and_with_all_but_it(changes: list[str]) -> None:
    """`alone` and `last` are differences of plans that anybody can solve for."""

    def cost(*kept: str) -> float | None:
        plan = bare(*sorted(kept))
        return plan.cost.expected if plan.cost else None

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


@pytest.mark.long
@LAWS
@given(change=CHANGES)
def test_counts_are_those_of_going_through_all_ways(change: str) -> None:
    """Ways by offer, machines and recipe, with the least that each costs; counted one by one."""

    def ways(scenario: Scenario, by_time: bool) -> dict[tuple[str, int, object], float]:
        prepared = prepare(scenario, library())
        table, recipes = prepared.screened[0].table, prepared.candidates[0].physics.ways.recipes
        budget = scenario.limits.budget_usd
        found: dict[tuple[str, int, object], float] = {}
        for row in range(len(table)):
            one = table.rows(np.asarray([row]))
            ends = (float(one.share_low[0]), float(one.share_high[0]))
            if budget is not None and min(one.late_cost_usd(end)[0] for end in ends) > budget:
                continue
            figure = min((one.late_hours if by_time else one.cost_usd)(end)[0] for end in ends)
            key = (table.offers[table.offer[row]], int(table.instances[row]), recipes[table.recipe[row]])
            found[key] = min(float(figure), found.get(key, np.inf))
        return found

    answer = asked(change)
    if not answer.after.jobs:
        return
    by_time = answer.better == "sooner"
    old, new = ways(small(), by_time), ways(change_scenario(small(), [change]), by_time)
    ends = [
        job.hours.at_confidence if by_time else job.cost_usd for job in (answer.before.jobs[0], answer.after.jobs[0])
    ]
    (job,) = answer.jobs
    better = [key for key, figure in old.items() if figure < ends[1] - 1e-9]
    assert job.ruled_out == sum(key not in new for key in better)
    assert job.dearer == sum(key in new and new[key] >= ends[1] - 1e-9 for key in better)
    better = [key for key, figure in new.items() if figure < ends[0] - 1e-9]
    assert job.opened == sum(key not in old for key in better)
    assert job.cheaper == sum(key in old and old[key] >= ends[0] - 1e-9 for key in better)


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


@pytest.mark.slow
def test_infeasible_on_either_side_is_an_answer() -> None:
    """Neither side raises; there is no difference to tell, and the setting that leaves no plan is known."""
    gone = asked("jobs.bot.deadline=1m", "limits.max_gpus=4")
    assert (gone.before.status, gone.after.status) == ("optimal", "infeasible")
    assert gone.delta.cost_usd is None and gone.after.infeasible is not None
    assert [effect.alone_status for effect in gone.effects] == ["infeasible", "optimal"]
    back = what_if(change_scenario(small(), ["jobs.bot.deadline=1m"]), ["jobs.bot.deadline=40h"], OPTIONS, library())
    assert (back.before.status, back.after.status) == ("infeasible", "optimal")
    assert not back.unchanged


@pytest.mark.long
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
    assert asked(f"limits.budget_usd={dollars}").unchanged


@pytest.mark.slow
def test_only_the_job_that_a_setting_is_about_changes() -> None:
    """Of several jobs the others are told as unchanged; a job that is new is in no difference."""
    answer = asked("jobs.other.efficiency=0.5", text=TWO)
    changed = {job.name: abs(job.delta.hours or 0) > 0.01 for job in answer.jobs}
    assert changed == {"bot": False, "other": True}
    more = asked("jobs.1={name: third, architecture: tinyllama-1.1b, work: {tokens: 1e6}}")
    assert [job.name for job in more.jobs] == ["bot"]
    assert len(more.after.jobs) == 2 and not more.unchanged


@pytest.mark.slow
def test_settings_of_one_price_rule_are_one_change() -> None:
    """Half a rule means something else, so that only the whole has an effect of its own."""
    rule = ("adjust.0.match.gpu=RTX3090", "adjust.0.usd_per_hour_factor=3")
    assert asked(*rule).effects == ()
    assert [one.setting for one in asked(*rule, "limits.max_gpus=4").effects] == [", ".join(rule), "limits.max_gpus=4"]


@pytest.mark.slow
def test_lines_of_the_bill_add_up_and_gpus_stand_first() -> None:
    """What changed and what did not make up the cost of either side, whichever market is left."""
    answer = asked("limits.spot_share.max=0", "jobs.bot.data_gb=40")
    (job,) = answer.jobs
    before, after = answer.before.jobs[0], answer.after.jobs[0]
    rest = [job.bill_unchanged] if job.bill_unchanged else []
    for side, cost in (("before_usd", before.cost_usd), ("after_usd", after.cost_usd)):
        assert sum(getattr(line, side) or 0.0 for line in (*job.bill, *rest)) == pytest.approx(cost, abs=0.005)
    rented = [line.item.startswith("gpu") for line in job.bill]
    assert sum(rented) == 2 and rented == sorted(rented, reverse=True)
    assert asked().jobs[0].bill_unchanged is not None
