"""The elastic program: it moves the limits it is given by the least that suffices, and no others."""

from __future__ import annotations

import functools
import itertools
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.formulation.solvers import run
from planner.library.reading import read_library
from planner.library.schema import Library
from planner.loading.scenario_file import parse_scenario
from planner.solving.elastic_program import (
    CandidateFilter,
    ElasticProgram,
    RelaxedCandidates,
    relax_candidates,
    undominated_candidates,
)
from planner.solving.prepare import prepare

TINY = "tinyllama-1.1b"
few = settings(max_examples=6, derandomize=True, deadline=None, database=None)
Data = dict[str, Any]

MARKET = [
    {"provider": "a", "gpu": "RTX4090", "gpus": 1, "usd_per_hour": 0.4, "spot_usd_per_hour": 0.2, "stock": 1},
    {"provider": "a", "gpu": "A100-PCIe-80GB", "gpus": 2, "usd_per_hour": 2.2},
    {"provider": "b", "gpu": "RTX3090", "gpus": 1, "usd_per_hour": 0.3},
    {"provider": "b", "gpu": "H100-80GB", "gpus": 4, "usd_per_hour": 9.0, "spot_usd_per_hour": 5.0},
]


@functools.cache
def library() -> Library:
    return read_library([TINY])


def wide(jobs: int = 1, job: Data | None = None, **limits: Any) -> RelaxedCandidates:
    """The widened candidates of so many small jobs on the market above."""
    base = {"architecture": TINY, "work": {"tokens": 3e7}, "deadline": "10h", **(job or {})}
    data = {
        "name": "t",
        "offers": MARKET,
        "jobs": [{"name": f"job{index}", **base} for index in range(jobs)],
        "limits": limits,
    }
    scenario = parse_scenario(json.dumps(data))
    prepared = prepare(scenario, library())
    return relax_candidates(prepared)


@pytest.mark.slow
def test_what_no_filter_bars_breaks_none() -> None:
    """Without lists only the VRAM margin keeps candidates out, and it is known by its path."""
    found = wide()
    assert found.filters == (CandidateFilter("limits.vram_headroom"),)
    assert found.breaks.any() and not found.breaks.all()


def test_every_broken_filter_is_named_by_value() -> None:
    """A candidate on a card and of a method that are both not let in breaks exactly those two filters."""
    found = wide(job={"techniques": {"method": "full"}}, gpus={"allow": ["RTX3090"]})
    card, method = (
        found.filters.index(one)
        for one in (
            CandidateFilter("limits.gpus", "H100-80GB"),
            CandidateFilter("jobs.job0.techniques.method", "lora", 0),
        )
    )
    both = found.breaks[:, card] & found.breaks[:, method]
    assert both.any()
    offers = {found.market.offers[offer].gpu for offer in found.table.offer[both]}
    recipes = {found.pieces[p].physics.ways.recipes[found.pieces[p].table.recipe[r]].method
               for p, r in zip(found.piece[both], found.row[both], strict=True)}  # fmt: skip
    assert offers == {"H100-80GB"} and recipes == {"lora"}


@pytest.mark.long
@few
@given(st.floats(0.05, 3.0).map(lambda hours: round(hours, 2)), st.booleans())
def test_the_least_deadline_is_that_of_the_fastest_candidate(hours: float, spot: bool) -> None:
    """With only the deadline to give, the excess is the least late hours of any row less the deadline."""
    limits = {"spot_share": {"min": 0.5}} if spot else {}
    found = wide(job={"deadline": f"{hours}h"}, **limits)
    table = found.table.rows(~found.breaks.any(axis=1))
    low = np.maximum(table.share_low, 0.5 if spot else 0.0)
    possible = low <= table.share_high
    ends = [table.late_hours(share)[possible] for share in (low, table.share_high)]
    stocked = np.asarray([np.inf if o.stock is None else o.stock for o in found.market.offers])[table.offer]
    inside = (table.instances <= stocked)[possible]
    least = float(np.min(np.minimum(*ends)[inside]))
    plan = ElasticProgram.of(found).solve(("jobs.job0.deadline",))
    assert plan is not None
    assert plan.excess.get("jobs.job0.deadline", 0.0) == pytest.approx(max(0.0, least - hours), abs=1e-6)


@pytest.mark.long
@few
@given(st.integers(1, 3), st.integers(1, 3), st.floats(0.2, 4.0))
def test_the_least_change_of_gpus_is_that_of_brute_force(jobs: int, cap: int, hours: float) -> None:
    """Jobs side by side share a cap: the program finds the fewest GPUs that all combinations of rows need."""
    found = wide(jobs, {"deadline": f"{round(hours, 2)}h"}, max_gpus=cap)
    plan = ElasticProgram.of(found).solve(("limits.max_gpus",))
    table = found.table
    fine = ~found.breaks.any(axis=1)
    in_time = (
        np.minimum(table.late_hours(table.share_low), table.late_hours(table.share_high)) <= round(hours, 2) + 1e-9
    )
    options = [
        sorted(
            {
                (int(o), int(g), int(n))
                for o, g, n in zip(table.offer[m], table.gpus[m], table.instances[m], strict=True)
            }
        )
        for m in (fine & in_time & (table.job == job) for job in range(jobs))
    ]
    stock = {i: o.stock for i, o in enumerate(found.market.offers) if o.stock is not None}
    totals = [
        sum(gpus for _, gpus, _ in chosen)
        for chosen in itertools.product(*options)
        if all(sum(n for o, _, n in chosen if o == offer) <= left for offer, left in stock.items())
    ]
    if not totals:
        assert plan is None
        return
    assert plan is not None
    assert plan.excess.get("limits.max_gpus", 0.0) == max(0, min(totals) - cap)


def test_limits_outside_the_set_do_not_give() -> None:
    """What only a longer deadline can save is not saved by more GPUs, and stock never gives unasked."""
    elastic = ElasticProgram.of(wide(job={"deadline": "2m"}, max_gpus=4, budget_usd=100))
    assert elastic.solve(("limits.max_gpus", "limits.budget_usd")) is None
    assert not any("stock" in path for path in elastic.relaxable_paths)


def test_one_value_lets_one_value_in() -> None:
    """Asked for the cheapest with one value of a list, the plan breaks one filter."""
    elastic = ElasticProgram.of(wide(gpus={"allow": ["H100-80GB"]}))
    found = elastic.solve(("limits.gpus",), one_value=True)
    assert found is not None and len(found.filters) == 1
    assert elastic.relaxed.filters[next(iter(found.filters))].path == "limits.gpus"
    barred = elastic.solve(())
    assert barred is not None and barred.cost > found.cost


@pytest.mark.long
@pytest.mark.parametrize(
    ("jobs", "job", "limits"),
    [
        (1, {"deadline": "2m", "techniques": {"method": "full"}}, {"gpus": {"allow": ["RTX3090"]}, "max_gpus": 1}),
        (2, {"deadline": "30m"}, {"providers": {"forbid": ["b"]}, "budget_usd": 0.2, "spot_share": {"min": 0.4}}),
        (2, {"techniques": {"weight_bits": 16}}, {"quota": {"a": 1}, "max_gpus": 1, "tiers": {"forbid": ["own"]}}),
    ],
)
def test_a_set_of_limits_that_is_not_tried_has_no_plan(jobs: int, job: Data, limits: Data) -> None:
    """Every set of up to three limits: the program says no wherever the single candidates do."""
    elastic = ElasticProgram.of(wide(jobs, job, **limits))
    tried = skipped = 0
    for size in range(4):
        for paths in itertools.combinations(elastic.relaxable_paths, size):
            tried += 1
            if not elastic.may_have_plan(paths):
                skipped += 1
                result = run(elastic._program(paths, {}), time_limit_seconds=10)
                assert not result.has_solution
    assert 0 < skipped < tried


@pytest.mark.long
@few
@given(st.floats(0.05, 3.0), st.sampled_from([{}, {"gpus": {"allow": ["RTX3090"]}}, {"providers": {"forbid": ["b"]}}]))
def test_dropping_what_can_only_do_worse_changes_no_optimum(hours: float, limits: Data) -> None:
    """The program on the few promising rows and on all rows moves the limits equally far at equal cost."""
    found = wide(job={"deadline": f"{round(hours, 2)}h"}, **limits)
    narrow = ElasticProgram.of(found)
    full = _of_all(found)
    levers = narrow.relaxable_paths
    ours, theirs = narrow.solve(levers), full.solve(levers)
    assert ours is not None and theirs is not None
    assert ours.change == pytest.approx(theirs.change, abs=1e-6)
    assert ours.cost == pytest.approx(theirs.cost, rel=1e-4, abs=1e-3)


def _of_all(found: RelaxedCandidates) -> ElasticProgram:
    """The program of every row: dominated ones too."""
    import planner.solving.elastic_program as module

    kept = module.undominated_candidates
    module.undominated_candidates = lambda one, *_: one  # type: ignore[assignment]
    try:
        return ElasticProgram.of(found)
    finally:
        module.undominated_candidates = kept


def test_promising_rows_are_few() -> None:
    """Dominance leaves a small part: the program stays small however many offers there are."""
    from planner.formulation.program import SharedLimits

    found = wide(gpus={"allow": ["RTX3090"]})
    few_rows = undominated_candidates(found, SharedLimits(), 2)
    assert 0 < len(few_rows.table) < len(found.table) / 4
    assert few_rows.breaks.sum(axis=1).max() <= 2
