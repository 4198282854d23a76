"""The fleet of each hour: brute force on small fleets, and what more load, less choice and starts may do."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.formulation.program import Peak
from planner.scenario.scenario import SolveOptions
from planner.services.fleet_optimise import WANTED_GAP, optimise_fleet, simple_fleets
from planner.services.fleet_problem import FleetProblem
from tests.helpers.fleet_problems import brute_force, fleet, small_fleets

OPTIONS = SolveOptions()


def solved_usd(problem: FleetProblem) -> float:
    """Return the dollars of the fleet that is found."""
    found = optimise_fleet(problem, OPTIONS)
    assert found.fleets is not None
    usd = problem.cost(found.fleets)
    assert found.bound <= usd + 1e-6
    return usd


@pytest.mark.slow
@pytest.mark.parametrize(
    ("load", "usd", "start"),
    [
        ([1.0, 3.0, 2.0, 0.5], [1.0, 1.7, 2.4], [0.1, 0.2, 0.2]),
        ([0.0, 2.0, 2.0, 0.0], [1.0, 1.9, 2.2], [0.9, 0.3, 1.5]),
        ([2.0, 1.0, 2.0, 1.0], [1.0, 1.8, 2.9], [0.6, 0.6, 0.1]),
    ],
)
def test_small_fleets_cost_what_brute_force_finds(load: list[float], usd: list[float], start: list[float]) -> None:
    """Three kinds and four hours: within the gap at which the search stops, and never below the least."""
    problem = fleet(load, [1.0, 2.0, 3.0], usd, start)
    least, found = brute_force(problem), solved_usd(problem)
    assert least <= found + 1e-9
    assert found <= least * 1.008 + 1e-9


def test_a_commitment_is_bought_where_it_pays_in_all_hours() -> None:
    """At 60 cents against a dollar the floor of the load is committed, what comes on top is rented."""
    committed = np.array([False, True])
    problem = fleet([2.0, 2.0, 3.0, 2.0], [1.0, 1.0], [1.0, 0.6], [0.0, 0.0], committed=committed)
    found = optimise_fleet(problem, OPTIONS)
    assert found.fleets is not None
    assert found.fleets[:, 1].tolist() == [2, 2, 2, 2] and found.fleets[:, 0].tolist() == [0, 0, 1, 0]
    assert problem.cost(found.fleets) == pytest.approx(brute_force(problem))


def test_others_carry_what_a_lost_group_may_not() -> None:
    """95 % asked of a group that is there 85 % of the time: (0.95 - 0.85) / 0.15, two thirds, stand on demand."""
    problem = fleet(
        [3.0] * 4, [1.0, 1.0], [1.0, 0.3], [0.0, 0.0], group=np.array([-1, 0]), availability=np.array([0.85]),
        served_share=0.95,
    )  # fmt: skip
    found = optimise_fleet(problem, OPTIONS)
    assert found.fleets is not None
    assert found.fleets.tolist() == [[2, 1]] * 4


def test_spot_groups_together_serve_what_is_asked_although_each_may_be_lost() -> None:
    """Three groups that are there 60 % of the time are all lost 6.4 % of it: 93.6 % are served, so 95 % take four."""
    problem = fleet(
        [1.0] * 2, [1.0] * 5, [0.1] * 4 + [1.0], [0.0] * 5, group=np.array([0, 1, 2, 3, -1]),
        availability=np.array([0.6] * 4), served_share=0.95,
    )  # fmt: skip
    four = optimise_fleet(problem, OPTIONS)
    three = optimise_fleet(replace(problem, served_share=0.93), OPTIONS)
    assert four.fleets is not None and three.fleets is not None
    assert four.fleets.tolist() == [[1, 1, 1, 1, 0]] * 2
    assert np.sum(three.fleets, axis=1).tolist() == [3, 3]


def test_starts_keep_a_machine_through_a_short_dip() -> None:
    """An hour's rent of $1 against a start of $5: what is needed again stays."""
    stays = fleet([2.0, 1.0, 2.0, 2.0], [1.0], [1.0], [5.0])
    goes = replace(stays, start_usd=np.array([0.5]))
    for problem, least in ((stays, [2, 2, 2, 2]), (goes, [2, 1, 2, 2])):
        found = optimise_fleet(problem, OPTIONS)
        assert found.fleets is not None and found.fleets[:, 0].tolist() == least


def test_a_budget_and_gpus_that_do_not_suffice_leave_no_fleet() -> None:
    """What is missing is told apart: dollars, or GPUs."""
    problem = fleet([2.0] * 4, [1.0], [1.0], [0.0])
    poor = optimise_fleet(replace(problem, budget_usd=7.0), OPTIONS)
    assert poor.fleets is None and poor.over_budget_usd == pytest.approx(8.0)
    assert optimise_fleet(replace(problem, budget_usd=8.0), OPTIONS).fleets is not None
    assert optimise_fleet(replace(problem, peaks=(Peak("max_gpus", 1.0, problem.gpus),)), OPTIONS).impossible_loads == (
        2.0,
    )


@pytest.mark.slow
@settings(max_examples=6, deadline=None)
@given(small_fleets())
def test_what_is_found_is_between_bound_and_gap_of_brute_force(problem: FleetProblem) -> None:
    """On demand, on spot, committed, with stock: the bound is below the least dollars, the fleet within the gap."""
    least, found = brute_force(problem), optimise_fleet(problem, OPTIONS)
    if not np.isfinite(least):
        assert found.fleets is None and found.impossible_loads
        return
    assert found.fleets is not None
    assert all(problem.carries(one, load)[0] for one, load in zip(found.fleets, problem.load, strict=True))
    assert np.all(found.fleets[:, problem.committed] == found.fleets[0, problem.committed])
    assert found.bound <= least * (1 + 1e-6)
    assert (
        least * (1 - 1e-9) <= problem.cost(found.fleets) <= least * (1.1 if problem.committed.any() else 1 + WANTED_GAP)
    )


def test_how_long_it_takes_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a time limit of the user the clock is not read for a decision."""
    problem = fleet([1.0, 3.0, 2.0, 0.5], [1.0, 2.5, 4.0], [1.0, 2.2, 3.1], [0.2, 0.3, 0.4])
    usual = optimise_fleet(problem, OPTIONS)
    monkeypatch.setattr("planner.services.fleet_program.perf_counter", itertools.count(0.0, 1e6).__next__)
    late = optimise_fleet(problem, OPTIONS)
    assert late.fleets is not None and usual.fleets is not None
    assert np.array_equal(late.fleets, usual.fleets) and late.bound == usual.bound


def test_after_the_time_limit_no_step_follows_and_the_fleet_found_so_far_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each look at the clock is an hour later: the limit passes at the first step, and no bound is proven."""
    problem = fleet([1.0, 3.0, 2.0, 0.5], [1.0, 2.5, 4.0], [1.0, 2.2, 3.1], [0.2, 0.3, 0.4])
    usual, hour = optimise_fleet(problem, OPTIONS), itertools.count(0.0, 3600.0)
    monkeypatch.setattr("planner.services.fleet_program.perf_counter", hour.__next__)
    monkeypatch.setattr("planner.services.fleet_program.hour_prices", None)  # what a step would call
    late = optimise_fleet(problem, SolveOptions(time_limit_seconds=1.0))
    assert usual.fleets is not None and late.fleets is not None and late.bound == 0.0
    assert all(problem.carries(one, load)[0] for one, load in zip(late.fleets, problem.load, strict=True))
    assert problem.cost(late.fleets) >= usual.bound


def test_a_time_limit_that_is_over_solves_no_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """The best kind alone stands in; what only a mix can carry is searched for all the same."""
    problem = fleet([1.0, 3.0, 2.0, 0.5], [1.0, 2.5, 4.0], [1.0, 2.2, 3.1], [0.2, 0.3, 0.4])
    mixed = replace(problem, stock={0: 1, 1: 1, 2: 0})
    over = optimise_fleet(mixed, OPTIONS, 0.0)
    assert over.fleets is not None and over.bound == 0.0 and not over.impossible_loads
    assert np.count_nonzero(np.max(over.fleets, axis=0)) == 2
    poor = replace(problem, budget_usd=solved_usd(problem) * 1.01)
    assert optimise_fleet(poor, OPTIONS, 0.0).fleets is not None
    monkeypatch.setattr("planner.services.fleet_program.run", None)  # what solves a program
    late = optimise_fleet(problem, OPTIONS, 0.0)
    assert late.fleets is not None and late.bound == 0.0
    assert all(problem.carries(one, load)[0] for one, load in zip(late.fleets, problem.load, strict=True))


@pytest.mark.slow
def test_a_round_that_the_time_limit_ends_proves_no_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """The best fleets of some hours are kept; a bound needs those of all."""
    problem = fleet([1.0, 3.0, 2.0, 0.5], [1.0, 2.5, 4.0], [1.0, 2.2, 3.1], [0.2, 0.3, 0.4])
    usual = optimise_fleet(problem, OPTIONS)
    for seconds in range(1, 40):
        monkeypatch.setattr("planner.services.fleet_program.perf_counter", itertools.count(0.0, 1.0).__next__)
        late = optimise_fleet(problem, SolveOptions(time_limit_seconds=float(seconds)))
        assert late.fleets is not None and usual.fleets is not None
        assert late.bound <= problem.cost(usual.fleets) * (1 + 1e-9)


loads = st.lists(st.floats(0.0, 6.0).map(lambda one: round(one, 1)), min_size=4, max_size=4).filter(any)


@pytest.mark.long
@settings(max_examples=4, deadline=None)
@given(loads)
def test_more_load_fewer_kinds_and_simpler_fleets_never_cost_less(load: list[float]) -> None:
    """The bound of the better one is never above the dollars of the worse one."""
    problem = fleet(load, [1.0, 2.5, 4.0], [1.0, 2.2, 3.1], [0.2, 0.3, 0.4])
    usd = solved_usd(problem)
    more, fewer = replace(problem, load=problem.load * 1.3), problem.choosing(np.array([0, 2]))
    assert optimise_fleet(problem, OPTIONS).bound <= solved_usd(more) + 1e-6
    assert optimise_fleet(problem, OPTIONS).bound <= solved_usd(fewer) + 1e-6
    for simple in simple_fleets(problem, OPTIONS):
        assert simple.usd is not None and usd <= simple.usd + 1e-6


@settings(max_examples=4, deadline=None)
@given(st.floats(0.1, 9.0))
def test_a_flat_load_has_one_fleet(load: float) -> None:
    """Nothing is started: each hour has the machines of the others."""
    problem = fleet([load] * 6, [1.0, 2.5, 4.0], [1.0, 2.2, 3.1], [0.2, 0.3, 0.4])
    found = optimise_fleet(problem, OPTIONS)
    assert found.fleets is not None and bool(np.all(found.fleets == found.fleets[0]))
    assert found.gap(problem.cost(found.fleets)) <= 1e-6
