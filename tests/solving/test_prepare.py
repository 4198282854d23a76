"""A second question takes from the first what did not change, and is answered as if it had been the first."""

from __future__ import annotations

import datetime
from dataclasses import fields
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.arrays import concatenate
from planner.candidates.candidate_enumeration import IGNORED_FIELDS, TIMING_FIELDS, MachineCandidates
from planner.configurations.fitting_cells import enumerate_configurations
from planner.errors import ScenarioError
from planner.formulation.constraints import find_undominated
from planner.formulation.solvers import run
from planner.library.reading import read_library
from planner.library.schema import Library
from planner.loading.scenario_file import change_scenario, read_scenario
from planner.results.plan import Plan
from planner.scenario.scenario import MAX_OFFERS, Scenario, SolveOptions
from planner.solving.optimise_choice import potentially_optimal_rows, solve_lexicographic
from planner.solving.prepare import PreparedScenario, build_shared_limits, prepare
from planner.solving.solve import solve, solve_prepared

OPTIONS = SolveOptions(as_of=datetime.date(2026, 11, 21))

SETTINGS = (
    "jobs.0.deadline=8h",
    "jobs.0.confidence=0.6",
    "jobs.0.efficiency=0.8",
    "jobs.0.data_gb=50",
    "jobs.0.storage_gb_per_second=0.1",
    "jobs.0.techniques.method=[lora]",
    "jobs.0.techniques.weight_bits=[16, 8]",
    "jobs.0.techniques.penalty_usd={four_bit: 2}",
    "jobs.0.sequence_length=1024",
    "jobs.0.name=other",
    "limits.budget_usd=4",
    "limits.max_gpus=2",
    "limits.gpus.forbid=[A5000]",
    "limits.regions.forbid=[CA]",
    "limits.spot_share.max=0.5",
    "limits.vram_headroom=0.2",
    "adjust=[{match: {provider: runpod}, usd_per_hour_factor: 1.5}]",
    "adjust=[{usd_per_hour_factor: 1.3, spot_usd_per_hour_factor: 1.2}]",
    "objective=time",
)
"""One of every kind of change: of limits, prices, hours, memory, names and goal."""


@cache
def _first() -> tuple[Scenario, Library, PreparedScenario]:
    scenario = read_scenario("quickstart-any")
    library = read_library([job.architecture for job in scenario.jobs])
    return scenario, library, prepare(scenario, library)


def _told(plan: Plan) -> dict[str, object]:
    return plan.model_dump(exclude={"seconds"})


@cache
def _two_providers() -> tuple[Scenario, Library, PreparedScenario]:
    scenario, library, _ = _first()
    scenario = change_scenario(scenario, ["limits.providers.allow=[runpod-secure, runpod-community, lambda]"])
    return scenario, library, prepare(scenario, library)


@pytest.mark.slow
@pytest.mark.parametrize("setting", SETTINGS)
def test_each_change_is_answered_as_from_scratch(setting: str) -> None:
    """Whatever one setting changes, what is reused changes no figure of the plan."""
    scenario, library, before = _two_providers()
    changed = change_scenario(scenario, [setting])
    assert _told(solve_prepared(prepare(changed, library, before), OPTIONS)) == _told(solve(changed, OPTIONS, library))


@pytest.mark.long
@settings(derandomize=True, max_examples=5, deadline=None)
@given(st.lists(st.lists(st.sampled_from(SETTINGS), max_size=3), min_size=2, max_size=3))
def test_a_chain_of_changes_is_answered_as_from_scratch(chain: list[list[str]]) -> None:
    """Reuse of reuse is as good: the last of several questions is answered as if it stood alone."""
    scenario, library, before = _first()
    for some in chain:
        changed = change_scenario(scenario, some)
        before = prepare(changed, library, before)
    assert _told(solve_prepared(before, OPTIONS)) == _told(solve(changed, OPTIONS, library))


@pytest.mark.slow
def test_a_limit_recomputes_no_physics_and_no_prices() -> None:
    """A budget or a deadline touches neither estimates nor the join with the offers."""
    scenario, library, before = _first()
    for setting in ("limits.budget_usd=4", "jobs.0.deadline=8h"):
        after = prepare(change_scenario(scenario, [setting]), library, before)
        assert after.market is before.market
        assert after.candidates[0].table is before.candidates[0].table


@pytest.mark.slow
def test_a_price_recomputes_no_physics() -> None:
    """Memory and time know nothing of prices."""
    scenario, library, before = _first()
    dearer = change_scenario(scenario, ["adjust=[{match: {gpu: A5000}, usd_per_hour_factor: 2}]"])
    after = prepare(dearer, library, before)
    assert after.candidates[0].physics is before.candidates[0].physics
    assert after.candidates[0].table is not before.candidates[0].table


def test_a_factor_on_all_prices_recomputes_no_hours(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows and their hours stay: dollars alone are new."""
    scenario, library, before = _first()
    changed = change_scenario(scenario, ["adjust=[{usd_per_hour_factor: 2, spot_usd_per_hour_factor: 2}]"])
    fresh = prepare(changed, library).candidates[0]
    monkeypatch.delattr(MachineCandidates, "hours")
    after = prepare(changed, library, before).candidates[0]
    for one in fields(after.table):
        mine, its = (np.asarray(getattr(table, one.name)) for table in (after.table, fresh.table))
        assert np.array_equal(mine, its, equal_nan=mine.dtype.kind == "f"), one.name
    assert not np.array_equal(after.table.run_usd, before.candidates[0].table.run_usd, equal_nan=True)


def test_a_forbidden_gpu_makes_no_candidates_again() -> None:
    """Lists of limits filter rows, even where they concern what separate machines may be rented."""
    scenario, library, before = _first()
    after = prepare(change_scenario(scenario, ["limits.gpus.forbid=[B200]"]), library, before)
    assert after.candidates[0] is before.candidates[0]
    assert len(after.screened[0].table) < len(before.screened[0].table)


def test_physics_does_not_read_what_it_is_said_to_be_blind_to() -> None:
    """Every field that reuse ignores is changed at once, and memory and step time stay what they were."""
    scenario, library, before = _first()
    job, candidates = scenario.jobs[0], before.candidates[0]
    assert set(TIMING_FIELDS) - {"confidence"} < set(IGNORED_FIELDS)
    other = job.confidence_given.model_copy(update={"deadline": 0.6})  # that of memory decides what fits
    stand_in = job.model_copy(update={**IGNORED_FIELDS, "confidence_given": other})
    assert all(getattr(stand_in, field) == value for field, value in IGNORED_FIELDS.items())
    again = enumerate_configurations(stand_in, candidates.architecture, candidates.physics.machines, library)
    for column in ("recipe", "machine", "micro_batch", "accumulation", "step_seconds", "fit_gib"):
        assert np.array_equal(getattr(again.ways, column), getattr(candidates.physics.ways, column)), column


@pytest.mark.parametrize("setting", ["objective=cost", "objective=time", "limits.budget_usd=6", "jobs.0.deadline=6h"])
def test_the_bound_of_one_job_keeps_what_the_program_needs(setting: str) -> None:
    """Rows out of reach never change the choice: with and without the bound, the same row and share."""
    scenario, library, before = _first()
    prepared = prepare(change_scenario(scenario, [setting]), library, before)
    table = concatenate([one.table for one in prepared.screened])
    question = build_shared_limits(prepared.scenario, prepared.market)
    near = potentially_optimal_rows(table, question)
    assert 0 < len(near) < len(table)
    every = np.flatnonzero(find_undominated(table, question))
    some = near[find_undominated(table.rows(near), question)]
    wide, narrow = (solve_lexicographic(table.rows(rows), question, run) for rows in (every, some))
    assert every[wide.rows[0]] == some[narrow.rows[0]]
    assert wide.spot_share[0] == pytest.approx(narrow.spot_share[0])


def test_too_many_offers_are_refused_in_one_line() -> None:
    """Hundreds of thousands of offers would take minutes and gigabytes before any answer."""
    scenario = _first()[0]
    offers = scenario.offers[:1] * (MAX_OFFERS + 1)
    with pytest.raises(ScenarioError) as caught:
        prepare(scenario.model_copy(update={"offers": offers}))
    assert [fault.what for fault in caught.value.faults] == ["200,001 offers are too many"]
    assert "at most 200,000" in caught.value.faults[0].fix
