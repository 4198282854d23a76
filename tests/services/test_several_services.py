"""Several services in one scenario: alone where they share nothing finite, else in turn within every shared limit."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.formulation.program import Peak
from planner.scenario.scenario import SolveOptions
from planner.services.fleet_optimise import WANTED_GAP
from planner.services.fleet_problem import FleetProblem, broken_limits, in_least_room, most_machines, with_room
from planner.services.solve_fleet import SharedFleets, optimise_fleets
from tests.helpers.fleet_problems import fleet

OPTIONS = SolveOptions()


def planned(problems: dict[str, FleetProblem], budget_usd: float | None = None) -> SharedFleets:
    """Return the fleets of services that each run one cycle."""
    return optimise_fleets(problems, dict.fromkeys(problems, 1.0), budget_usd, OPTIONS)


def least_together(first: FleetProblem, second: FleetProblem) -> float:
    """Return the least dollars of two services by trying every pair of fleets in every hour."""
    pools = []
    for one in (first, second):
        most = most_machines(one).tolist()
        pools.append(np.asarray(list(itertools.product(*(range(count + 1) for count in most))), dtype=float))
    pairs = [(a, b) for a in range(len(pools[0])) for b in range(len(pools[1]))]
    hours = first.hours
    fits = np.zeros((hours, len(pairs)), dtype=bool)
    carried = [one.fits(pool, np.arange(hours)) for one, pool in zip((first, second), pools, strict=True)]
    for at, (a, b) in enumerate(pairs):
        within = not broken_limits([(one, np.tile(pool[i], (hours, 1))) for one, pool, i in
                                    ((first, pools[0], a), (second, pools[1], b))])  # fmt: skip
        fits[:, at] = carried[0][:, a] & carried[1][:, b] & within
    fleets = np.asarray([[*pools[0][a], *pools[1][b]] for a, b in pairs])
    usd, start = np.append(first.usd, second.usd), np.append(first.start_usd, second.start_usd)
    moves = np.maximum(fleets[None] - fleets[:, None], 0.0) @ start
    hourly = np.where(fits, fleets @ usd, np.inf)
    paid = np.where(np.eye(len(pairs), dtype=bool), hourly[0], np.inf)
    for one in hourly[1:]:
        paid = np.min(paid[:, :, None] + moves[None], axis=1) + one
    return float(np.min(paid + moves.T))


def pair(stock: int | None, loads: tuple[list[float], list[float]]) -> dict[str, FleetProblem]:
    """Return two services on two kinds, of the first of which there may be a stock."""
    held = {} if stock is None else {0: stock}
    return {
        name: fleet(load, [2.0, 1.0], [1.0, 0.9], [0.1, 0.05], stock=held)
        for name, load in zip(("a", "b"), loads, strict=True)
    }


def test_services_that_share_nothing_finite_cost_what_each_costs_alone() -> None:
    """Dollars, fleets and bounds are those of each alone, exactly."""
    problems = pair(None, ([2.0, 1.0, 3.0], [1.0, 2.0, 2.0]))
    both = planned(problems)
    for name, problem in problems.items():
        alone = planned({name: problem})
        here, there = both.solved[name].fleets, alone.solved[name].fleets
        assert here is not None and there is not None and np.array_equal(here, there)
    alone_usd = [planned({name: problem}).usd for name, problem in problems.items()]
    assert both.usd == pytest.approx(sum(alone_usd)) and not both.order and not both.broken


@pytest.mark.long
@given(st.integers(0, 3), st.lists(st.integers(0, 4).map(float), min_size=6, max_size=6))
@settings(max_examples=12)
def test_a_shared_stock_costs_what_brute_force_finds_or_says_the_gap(stock: int, load: list[float]) -> None:
    """Never below the least of all pairs of fleets, never below the sum, and the bound is below the least."""
    loads = ([max(load[0], 1.0), *load[1:3]], [max(load[3], 1.0), *load[4:]])
    problems = pair(stock, loads)
    found, least = planned(problems), least_together(problems["a"], problems["b"])
    alone = sum(planned({name: problem}).usd for name, problem in problems.items())
    assert found.is_feasible == np.isfinite(least)
    assert least <= found.usd + 1e-9 and found.bound_usd <= least + 1e-9
    assert alone * (1.0 - WANTED_GAP) <= found.usd
    takers = [(problems[name], one.fleets) for name, one in found.solved.items() if one.fleets is not None]
    assert len(takers) == 2 and not broken_limits(takers)


def test_services_of_day_and_night_share_one_stock_without_cost() -> None:
    """What one needs by day the other needs by night: the stock of each hour suffices, and nothing is planned again."""
    problems = pair(2, ([4.0, 4.0, 0.0, 0.0], [0.0, 0.0, 4.0, 4.0]))
    problems = {name: replace(one, min_replicas=0) for name, one in problems.items()}
    found = planned(problems)
    assert not found.broken and found.usd == pytest.approx(sum(planned({n: p}).usd for n, p in problems.items()))


def test_the_order_of_services_changes_nothing() -> None:
    """Names are sorted before anything is planned."""
    problems = pair(1, ([4.0, 1.0, 3.0], [2.0, 2.0, 4.0]))
    one, other = planned(problems), planned(dict(reversed(problems.items())))
    assert one.usd == other.usd and one.order == other.order and one.broken


def test_a_day_next_to_a_week_has_the_least_that_any_of_its_days_is_left() -> None:
    """Two of three machines are taken on one day of two: the hour of the day is left one."""
    day = fleet([1.0, 1.0], [1.0], [1.0], [0.0], stock={0: 3})
    days = fleet([1.0, 1.0, 2.0, 1.0], [1.0], [1.0], [0.0], stock={0: 3})
    left = with_room(day, [(days, np.asarray([[1.0], [1.0], [2.0], [1.0]]))])
    assert [left.in_hour(hour).stock[0] for hour in range(2)] == [1, 2]
    assert in_least_room(left).stock == {0: 1}
    assert broken_limits([(days, np.full((4, 1), 2.0)), (day, np.asarray([[2.0], [1.0]]))]) == {"stock 0": 2}


def test_dollars_per_hour_gpus_and_quotas_hold_for_all_together() -> None:
    """Each limit that both keep alone, and break together, is named with its hours, and kept in the plan."""
    free = pair(None, ([2.0, 4.0], [4.0, 2.0]))
    for limit, name in (
        (lambda one: {"peaks": (Peak("max_gpus", 4.0, one.gpus),)}, "max_gpus"),
        (lambda one: {"peaks": (Peak("max_usd_per_hour", 2.9, one.usd),)}, "max_usd_per_hour"),
        (lambda _: {"quota": {0: 2}}, "quota 0"),
    ):
        problems = {key: replace(one, **limit(one)) for key, one in free.items()}
        found = planned(problems)
        takers = [(problems[key], one.fleets) for key, one in found.solved.items() if one.fleets is not None]
        assert found.is_feasible == (len(takers) == 2 and not broken_limits(takers)), name


def test_a_budget_holds_for_the_sum() -> None:
    """Below what all cost there is no plan within it; the dollars that suffice are those that are found."""
    problems = pair(1, ([4.0, 1.0, 3.0], [2.0, 2.0, 4.0]))
    usd = planned(problems).usd
    assert planned(problems, usd * 1.001).usd == pytest.approx(usd)
    assert planned(problems, usd * 0.9).usd > usd * 0.9
