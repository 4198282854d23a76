"""The tornado: which levers there are, and that its ends are scenarios solved from scratch."""

from __future__ import annotations

from functools import cache

import pytest

from planner.analysis.what_if_question import tornado
from planner.errors import ScenarioError
from planner.loading.scenario_file import change_scenario
from planner.results.what_if import Tornado
from tests.helpers.scenarios_what_if import OPTIONS, SMALL, TWO, bare, library, small, solved


@cache
def moved(text: str = SMALL, by: float = 0.2) -> Tornado:
    return tornado(small(text), OPTIONS, library(), by)


@pytest.mark.long
@pytest.mark.parametrize("text", [SMALL, TWO])
def test_bars_are_bracketed_by_what_two_solves_give(text: str) -> None:
    """Each end is the plan of the scenario with the settings of that end, and the effect the larger change."""
    answer = moved(text)
    base = answer.base.cost.expected if answer.base.cost else 0.0
    assert answer.bars
    for bar in answer.bars if text == SMALL else answer.bars[::3]:
        for end in (bar.down, bar.up):
            plan = bare(*end.settings, text=text)
            assert end.status == plan.status
            assert end.cost_usd == (plan.cost.expected if plan.cost else None)
        changes = [abs(end.cost_usd - base) for end in (bar.down, bar.up) if end.cost_usd is not None]
        assert bar.effect_usd == max(changes, default=0.0)
        took = answer.base.hours.expected if answer.base.hours else 0.0
        waits = [abs(end.hours - took) for end in (bar.down, bar.up) if end.hours is not None]
        assert bar.effect_hours == max(waits, default=0.0)


@pytest.mark.long
def test_tornado_moves_every_limit_that_is_set_and_every_price_that_matters() -> None:
    """Limits that the scenario leaves out have no bar; whole numbers are rounded outwards."""
    bars = {bar.what: bar for bar in moved().bars}
    assert {"deadline", "budget", "max_gpus", "most spot share", "predicted speed", "work (tokens)"} <= set(bars)
    assert {"all on demand prices", "all spot prices", "cheap on demand prices"} <= set(bars)
    assert not {"max_hours", "least spot share", "vram_headroom"} & set(bars)
    assert (bars["max_gpus"].down.value, bars["max_gpus"].up.value) == ("6", "10")
    assert (bars["deadline"].base, bars["deadline"].down.value) == ("40 h", "32 h")
    assert bars["work (tokens)"].effect_usd > 0


@pytest.mark.long
def test_tornado_is_ranked_and_says_what_makes_the_scenario_infeasible() -> None:
    """What can leave no plan comes first, then what changes the cost most."""
    answer = moved()
    effects = [round(bar.effect_usd, 2) for bar in answer.bars if not bar.can_fail]
    assert effects == sorted(effects, reverse=True)
    plan = solved()
    tight = change_scenario(small(), [f"limits.budget_usd={(plan.cost_at_confidence or 0) + 0.001}"])
    only = change_scenario(tight, [f"limits.gpus.allow=[{plan.jobs[0].gpu}]"])
    failing = tornado(only, OPTIONS, library()).bars
    assert failing[0].can_fail
    assert "budget" in {bar.what for bar in failing if bar.down.status == "infeasible"}


@pytest.mark.long
def test_who_asks_for_the_soonest_end_gets_a_ranking_by_hours() -> None:
    """Moving a budget saves dollars in either direction there: it says nothing of what was asked for."""
    answer = moved(SMALL + "objective: time\n")
    assert answer.better == "sooner" and moved().better == "cheaper"
    waits = [round(bar.effect_hours, 2) for bar in answer.bars if not bar.can_fail]
    assert waits == sorted(waits, reverse=True) and waits[0] > 0
    assert waits != [round(bar.effect_hours, 2) for bar in sorted(answer.bars, key=lambda bar: -bar.effect_usd)]


@pytest.mark.long
def test_of_equal_effects_the_wider_span_comes_first() -> None:
    """Cheaper by 0.60 and dearer by 0.51 is more than cheaper by 0.60 and dearer by 0.28."""
    bars = [bar for bar in moved().bars if not bar.can_fail]
    base = moved().base.cost.expected  # type: ignore[union-attr]
    spans = []
    for bar in bars:
        known = [base, *(end.cost_usd for end in (bar.down, bar.up) if end.cost_usd is not None)]
        spans.append((round(bar.effect_usd, 2), round(max(known) - min(known), 2)))
    assert spans == sorted(spans, reverse=True)


@pytest.mark.long
def test_prices_that_do_the_same_are_one_line() -> None:
    """The card's only provider and the card: one line that names both; what differs keeps its own."""
    answer = tornado(change_scenario(small(), ["limits.gpus.allow=[H100-80GB]"]), OPTIONS, library())
    names = [name for name, _ in answer.lines]
    assert "H100-80GB, fast, all on demand prices" in names
    assert len(answer.bars) > len(names) == len(set(names))
    other = {name for name, _ in moved().lines}
    assert {"predicted speed", "budget", "deadline"} <= other


@pytest.mark.long
def test_all_prices_move_the_cost_by_no_more_than_their_share() -> None:
    """A fifth more on every price costs at most a fifth more; a fifth less saves at least a fifth of what is rented."""
    bars = {bar.what: bar for bar in moved().bars}
    base = moved().base.cost.expected  # type: ignore[union-attr]
    bar = bars["all on demand prices"]
    assert bar.down.cost_usd is not None and bar.up.cost_usd is not None
    assert bar.down.cost_usd <= base + 0.005 and base - 0.005 <= bar.up.cost_usd <= base * 1.2 + 0.005


def test_tornado_of_an_infeasible_scenario_has_no_bars_and_a_wrong_share_is_refused() -> None:
    """There is nothing to move away from, and the plan says why; a share is between 0 and 1."""
    answer = tornado(change_scenario(small(), ["jobs.bot.deadline=1m"]), OPTIONS, library())
    assert answer.bars == () and answer.base.infeasible is not None
    for by in (0.0, 1.0, -0.2):
        with pytest.raises(ScenarioError, match="is not a share"):
            tornado(small(), OPTIONS, library(), by)


def test_a_limit_in_dollars_per_hour_has_a_bar() -> None:
    """Every limit that the scenario sets is moved, what all machines cost in an hour too."""
    scenario = change_scenario(small(SMALL), ["limits.max_usd_per_hour=12"])
    (bar,) = [bar for bar in tornado(scenario, OPTIONS, library()).bars if bar.path == "limits.max_usd_per_hour"]
    assert (bar.base, bar.down.value, bar.up.value) == ("12", "9.6", "14.4")
