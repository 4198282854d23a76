"""Fleets of few kinds of machines: by hand, every pair tried, and what a plan says of the mix that costs less."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from planner.evaluation.audit import audit
from planner.library.reading import read_library
from planner.loading.scenario_file import change_scenario
from planner.report.plan_text import render
from planner.scenario.scenario import SolveOptions
from planner.services import fleet_optimise
from planner.services.fleet_optimise import (
    WANTED_GAP,
    SolvedFleet,
    least_dollars_of_pairs,
    optimise_fleet,
    remembering_fleets,
)
from planner.services.fleet_problem import FleetProblem
from planner.services.fleet_text import render_fleet_answer
from planner.solving.solve import solve
from tests.helpers.fleet_problems import brute_force, fleet, small_fleets
from tests.helpers.services import desk

OPTIONS = SolveOptions()


def least_of_pairs(problem: FleetProblem) -> float:
    """Return the least dollars of one kind or two, every pair tried by brute force."""
    pairs = itertools.combinations_with_replacement(range(problem.kinds), 2)
    return min(brute_force(problem.choosing(np.unique(pair))) for pair in pairs)


def test_a_replica_that_carries_too_little_of_its_even_share_is_none() -> None:
    """Next to a replica of 4 one of 1.5 carries 1.5 of 5.5, 55 % of half of it; one of 1 carries 40 % of half of it."""
    problem = fleet([1.0], [4.0, 1.5, 1.0], [1.0] * 3, [0.0] * 3, min_replicas=2, most_kinds=2)
    fleets = np.array([[1.0, 1.0, 0.0], [1.0, 0.0, 1.0], [1.0, 0.0, 2.0], [0.0, 0.0, 2.0], [1.0, 1.0, 1.0]])
    assert problem.carries(fleets, 1.0).tolist() == [True, False, True, True, False]
    assert replace(problem, most_kinds=None).carries(fleets, 1.0).all()
    equal = fleet([1.0], [1.0] * 3, [1.0] * 3, [0.0] * 3, most_kinds=2)
    three = np.ones((1, 3))
    assert not equal.carries(three, 1.0)[0] and replace(equal, most_kinds=3).carries(three, 1.0)[0]


def test_a_tiny_replica_no_longer_stands_in_for_a_second_one() -> None:
    """Two replicas for a load of 4: a big and a tiny machine at $2.1 without the limit, two of $1.5 with it."""
    problem = fleet([4.0] * 3, [4.0, 2.0, 0.05], [2.0, 1.5, 0.1], [0.0] * 3, min_replicas=2)
    mixed, few = optimise_fleet(problem, OPTIONS), optimise_fleet(replace(problem, most_kinds=2), OPTIONS)
    assert mixed.fleets is not None and few.fleets is not None and few.any_mix is not None
    assert mixed.fleets.tolist() == few.any_mix.tolist() == [[1, 0, 1]] * 3
    assert few.fleets.tolist() == [[0, 2, 0]] * 3
    assert few.bound == pytest.approx(9.0)


def test_each_load_may_have_a_kind_of_its_own_only_while_kinds_are_not_limited() -> None:
    """Loads of 1, 2 and 4 on machines made for them: three kinds cost $7, two $8, and one $12."""
    problem = fleet([1.0, 2.0, 4.0], [1.0, 2.0, 4.0], [1.0, 2.0, 4.0], [0.0] * 3, stock={0: 1, 1: 1})
    usd = {}
    for most in (None, 3, 2, 1):
        found = optimise_fleet(replace(problem, most_kinds=most), OPTIONS).fleets
        assert found is not None
        usd[most] = problem.cost(found)
    assert usd == pytest.approx({None: 7.0, 3: 7.0, 2: 7.0 + 1.0, 1: 12.0})


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(small_fleets())
def test_few_kinds_cost_what_every_pair_tried_finds(problem: FleetProblem) -> None:
    """On demand, on spot, committed, with stock: the bound is below the least dollars, the fleet within the gap."""
    few = replace(problem, most_kinds=2)
    least, found = least_of_pairs(few), optimise_fleet(few, OPTIONS)
    if not np.isfinite(least):
        assert found.fleets is None
        return
    assert found.fleets is not None and few.keeps_kinds(found.fleets)
    assert all(few.carries(hour, load)[0] for hour, load in zip(found.fleets, few.load, strict=True))
    assert found.bound <= least * (1 + 1e-6)
    gap = 1.1 if few.committed.any() else 1 + WANTED_GAP
    assert least * (1 - 1e-9) <= few.cost(found.fleets) <= least * gap


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(small_fleets())
def test_a_fleet_of_few_kinds_needs_no_mix_to_be_found(problem: FleetProblem) -> None:
    """Without a close bound: the same feasibility, and dollars that both bounds hold for, within the gap of a plan."""
    few = replace(problem, most_kinds=2)
    proven, found = optimise_fleet(few, OPTIONS), optimise_fleet(few, OPTIONS, pair_gap=math.inf)
    if proven.fleets is None:
        assert found.fleets is None
        return
    assert found.fleets is not None and few.keeps_kinds(found.fleets)
    assert all(few.carries(hour, load)[0] for hour, load in zip(found.fleets, few.load, strict=True))
    usd, least = few.cost(found.fleets), few.cost(proven.fleets)
    assert max(found.bound, proven.bound) <= min(usd, least) * (1 + 1e-6)
    assert usd <= least * (1.1 if few.committed.any() else 1 + WANTED_GAP)
    poor = optimise_fleet(replace(few, budget_usd=usd / 2), OPTIONS, pair_gap=math.inf)
    assert poor.fleets is None and (usd == 0 or poor.over_budget_usd == pytest.approx(usd))


def test_a_report_finds_equal_fleets_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inside one report a fleet next to its mix answers for a gap, too, and the mix alone; outside nothing is kept."""
    problem = fleet([4.0, 1.0, 4.0], [4.0, 2.0], [2.0, 1.2], [0.0] * 2, most_kinds=2)
    usual, found = fleet_optimise._fleet, list[int | None]()

    def counted(asked: FleetProblem, *others: Any) -> SolvedFleet:
        found.append(asked.most_kinds)
        return usual(asked, *others)

    monkeypatch.setattr(fleet_optimise, "_fleet", counted)
    with remembering_fleets():
        first = optimise_fleet(problem, OPTIONS)
        assert found == [2, None]
        again = optimise_fleet(replace(problem, load=problem.load.copy()), OPTIONS, pair_gap=math.inf)
        with remembering_fleets():
            assert optimise_fleet(replace(problem, most_kinds=None), OPTIONS).fleets is not None
        assert again is first and len(found) == 2
        assert optimise_fleet(replace(problem, load=2 * problem.load), OPTIONS) is not first
    before = len(found)
    assert optimise_fleet(problem, OPTIONS) is not first and len(found) > before


def test_a_gap_that_pairs_do_not_prove_takes_the_mix(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound of pairs serves where it is close enough; else that of any mix is found as well."""
    problem = fleet([4.0, 1.0, 4.0], [4.0, 2.0], [2.0, 1.2], [0.5] * 2, most_kinds=2)
    usual, asked = fleet_optimise._of_any_mix, list[int | None]()

    def counted(problem: FleetProblem, *others: Any) -> SolvedFleet:
        asked.append(problem.most_kinds)
        return usual(problem, *others)

    monkeypatch.setattr(fleet_optimise, "_of_any_mix", counted)
    pairs = optimise_fleet(problem, OPTIONS, pair_gap=math.inf)
    assert not asked
    mixed = optimise_fleet(problem, OPTIONS, pair_gap=-1.0)  # closer than any bound
    assert asked == [None]
    assert pairs.fleets is not None and mixed.fleets is not None
    assert problem.cost(pairs.fleets) == pytest.approx(problem.cost(mixed.fleets))


def test_a_fleet_of_few_kinds_is_found_without_a_program_of_whole_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a looser limit or another GPU costs asks for no close bound, and so for no program of an hour."""
    problem = fleet([4.0] * 3, [4.0, 2.0, 0.05], [2.0, 1.5, 0.1], [0.0] * 3, min_replicas=2, most_kinds=2)
    usual = optimise_fleet(problem, OPTIONS).fleets
    monkeypatch.setattr(fleet_optimise, "fleets_at_prices", None)
    found = optimise_fleet(problem, OPTIONS, pair_gap=math.inf).fleets
    assert usual is not None and found is not None
    assert found.tolist() == usual.tolist() == [[0, 2, 0]] * 3


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(small_fleets())
def test_no_pair_costs_less_than_its_bound(problem: FleetProblem) -> None:
    """Of every pair, starts left out: whole machines, replicas that carry enough, and what a lost group leaves."""
    few = replace(problem, most_kinds=2, start_usd=np.zeros(3), committed=np.zeros(3, dtype=bool))
    bound = least_dollars_of_pairs(few)
    for pair in itertools.combinations_with_replacement(range(3), 2):
        assert bound[pair] <= brute_force(few.choosing(np.unique(pair))) * (1 + 1e-9)


def test_the_bound_of_a_pair_counts_the_replicas_that_must_stand() -> None:
    """A load of 1 on two replicas: $6 on machines of 4 at $3, $2 on machines of 2 at $1, which bound the pair too."""
    problem = fleet([1.0], [4.0, 2.0], [3.0, 1.0], [0.0] * 2, min_replicas=2, most_kinds=2)
    assert least_dollars_of_pairs(problem).tolist() == [[6.0, 2.0], [2.0, 2.0]]


@pytest.mark.slow
def test_a_plan_names_the_mix_that_costs_less_and_the_audit_holds_the_limit() -> None:
    """Of a day of four loads: at most two kinds, the dollars of any mix next to it; a mix is refused by the audit."""
    plan, mixed = solve(desk("jobs.desk.most_kinds=1")), solve(desk("jobs.desk.most_kinds=null"))
    fleet_of_one, any_fleet = plan.services[0].fleet, mixed.services[0].fleet
    assert len(fleet_of_one.kinds) == 1 < len(any_fleet.kinds) and any_fleet.any_mix is None
    assert fleet_of_one.any_mix is not None and fleet_of_one.any_mix.usd_per_month is not None
    assert fleet_of_one.any_mix.usd_per_month == pytest.approx(any_fleet.usd_per_month, rel=1e-6)
    assert any_fleet.usd_per_month < fleet_of_one.usd_per_month
    assert "any mix of kinds" in render(plan)
    assert "any mix: --set jobs.0.most_kinds=null" in render_fleet_answer(plan)
    scenario = desk("jobs.desk.most_kinds=1")
    library = read_library([job.architecture for job in scenario.jobs])
    assert audit(plan, scenario, library) == []
    assert {found.what for found in audit(mixed, scenario, library)} >= {"fleet.kinds: most_kinds"}


@pytest.mark.slow
def test_without_a_fleet_of_few_kinds_the_limit_is_what_gives_way() -> None:
    """One machine of each offer: no one kind carries the peak, and the plan says which key to change."""
    scenario = change_scenario(desk("jobs.desk.most_kinds=1"), [f"offers.{place}.stock=1" for place in range(3)])
    plan = solve(scenario)
    assert plan.status == "infeasible" and plan.infeasible is not None
    assert "jobs.desk.most_kinds" in {change.limit for change in plan.infeasible.relax}
