"""Candidates: batches that divide exactly and fill the memory, whole hours billed, and every rejection counted."""

from __future__ import annotations

import functools
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.arrays import ON_DEMAND, SPOT
from planner.candidates import candidate_enumeration as enumeration
from planner.candidates.job_candidates import JobCandidates, undominated_on_machine
from planner.configurations.grid import Configurations, grid_inputs
from planner.configurations.recipe import GpuClass, enumerate_recipes
from planner.estimates.device import TimeCoefficients
from planner.estimates.memory_fit import memory_lines
from planner.estimates.memory_terms import MemoryCoefficients
from planner.estimates.step_time import step_seconds
from planner.estimates.work import processed_length
from planner.library.reading import read_library
from planner.library.schema import Library
from planner.loading.scenario_file import parse_scenario
from planner.solving.prepare import PreparedScenario, prepare
from planner.units import GIB

Data = dict[str, Any]
ARCHITECTURES = ("tinyllama-1.1b", "mistral-7b")

MARKET: list[Data] = [
    {"provider": "a", "gpu": "RTX3090", "gpus": 1, "usd_per_hour": 0.3, "spot_usd_per_hour": 0.15},
    {"provider": "a", "gpu": "RTX4090", "gpus": 2, "usd_per_hour": 1.0},
    {"provider": "b", "gpu": "T4", "gpus": 4, "usd_per_hour": 0.8},
    {"provider": "b", "gpu": "V100-16GB", "gpus": 3, "usd_per_hour": 1.5},
    {"provider": "c", "gpu": "A100-PCIe-80GB", "gpus": 8, "usd_per_hour": 9, "max_nodes": 2, "network_gbps": 100},
]
JOB: Data = {"name": "job", "architecture": "tinyllama-1.1b", "work": {"tokens": 2e7}, "global_batch": 48}
LARGE: Data = {"architecture": "mistral-7b"}
PADDED: Data = {"packing": "padded", "length_cv": 1.0, "work": {"samples": 4000, "tokens_per_sample": 500}}


@functools.cache
def library() -> Library:
    """Read once for all tests."""
    return read_library(ARCHITECTURES)


def prepared(job: Data | None = None, offers: list[Data] | None = None, **limits: Any) -> PreparedScenario:
    """Candidates of one job on a market."""
    data = {"name": "made", "offers": offers or MARKET, "jobs": [{**JOB, **(job or {})}], "limits": limits}
    return prepare(parse_scenario(json.dumps(data)), library())


def divisors(number: int) -> list[int]:
    """All divisors, ascending."""
    return [d for d in range(1, number + 1) if number % d == 0]


def ranks(candidates: JobCandidates, way: int) -> int:
    """GPUs that each see other sequences: all but those of one tensor or pipeline group."""
    ways = candidates.physics.ways
    recipe = ways.recipes[int(ways.recipe[way])]
    gpus = ways.machines[int(ways.machine[way])].gpus
    return gpus // (recipe.tensor_parallel * recipe.pipeline_parallel)


class Cell:
    """One recipe on one machine, asked for its need and its speed at any micro-batch, away from the grid."""

    def __init__(self, candidates: JobCandidates, way: int) -> None:
        physics = candidates.physics
        ways = physics.ways
        recipe, machine = ways.recipes[int(ways.recipe[way])], ways.machines[int(ways.machine[way])]
        self.job, self.shape = candidates.job, physics.shape
        self.inputs = grid_inputs(self.job, self.shape, [recipe], [machine], library())
        self.local = self.job.global_batch // ranks(candidates, way)

    def layout(self, micro_batch: int) -> Any:
        shape = self.shape
        return replace(
            self.inputs.layout,
            micro_batch=float(micro_batch),
            accumulation=float(self.local // micro_batch),
            sequence=processed_length(
                self.job.packing, shape.sequence, shape.mean_length, self.job.length_cv, float(micro_batch)
            ),
        )

    def need_gib(self, micro_batch: int) -> float:
        of = MemoryCoefficients.of(library().calibrations["memory"].values)
        # The longest sequence sets the peak, so the padded length of a step is not read here.
        lines = memory_lines(replace(self.inputs, layout=self.layout(micro_batch)), of)
        return float(np.ravel(lines.need(float(micro_batch), self.usable_gib * GIB))[0]) / GIB

    @property
    def usable_gib(self) -> float:
        return float(np.ravel(self.inputs.hardware.usable_bytes)[0]) / GIB

    def seconds(self, micro_batch: int) -> float:
        of = TimeCoefficients.of(library().calibrations["time"].values)
        found = step_seconds(replace(self.inputs, layout=self.layout(micro_batch)), of)
        return float(np.ravel(found)[0])


@pytest.mark.slow
@pytest.mark.parametrize("job", [{}, LARGE, PADDED, {"global_batch": 35}], ids=["small", "large", "padded", "odd"])
def test_the_batch_is_exact(job: Data) -> None:
    """Micro-batch times accumulation times ranks is the global batch, for every way, whatever the number of GPUs."""
    (candidates,) = prepared(job).candidates
    ways = candidates.physics.ways
    assert len(ways)
    for way in range(len(ways)):
        product = int(ways.micro_batch[way]) * int(ways.accumulation[way]) * ranks(candidates, way)
        assert product == candidates.job.global_batch


@pytest.mark.slow
@pytest.mark.parametrize("job", [{}, LARGE], ids=["small", "large"])
def test_the_micro_batch_fits_and_no_larger_one_does(job: Data) -> None:
    """Every way needs at most what is usable, and every larger divisor of a rank's batch needs more."""
    (candidates,) = prepared(job).candidates
    ways = candidates.physics.ways
    limited = 0
    for way in range(len(ways)):
        cell, chosen = Cell(candidates, way), int(ways.micro_batch[way])
        assert ways.fit_gib[way] <= ways.usable_gib[way] * (1 + 1e-12)
        assert cell.need_gib(chosen) == pytest.approx(float(ways.fit_gib[way]), rel=1e-9)
        for larger in divisors(cell.local):
            if larger > chosen:
                limited += 1
                assert cell.need_gib(larger) > cell.usable_gib
    assert limited > 10


PIPELINED: Data = {
    "framework": "megatron", "global_batch": 64, "work": {"tokens": 1e8},
    "techniques": {"method": "full", "pipeline_parallel": [2, 4]},
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("job", [PADDED, PIPELINED], ids=["padded", "pipelined"])
def test_batches_are_as_large_as_is_fastest(job: Data) -> None:
    """A larger padded micro-batch pads more, and a pipeline of few idles: the fastest that fits, not the largest."""
    (candidates,) = prepared(job).candidates
    ways = candidates.physics.ways
    smaller = 0
    for way in range(0, len(ways), 3):
        cell, chosen = Cell(candidates, way), int(ways.micro_batch[way])
        fitting = [d for d in divisors(cell.local) if cell.need_gib(d) <= cell.usable_gib]
        fastest = min(cell.seconds(d) for d in fitting)
        assert chosen in fitting
        assert float(ways.step_seconds[way]) == pytest.approx(fastest, rel=1e-9)
        smaller += chosen < fitting[-1]
    assert smaller


def test_every_recipe_on_every_machine_is_kept_or_counted() -> None:
    """Ways and rejections together are all pairs of a recipe and a machine; each rejection has a reason."""
    (candidates,) = prepared({"global_batch": 35}).candidates
    physics = candidates.physics
    every = 0
    for offer in MARKET:
        card = GpuClass.of(library().gpu(offer["gpu"]))
        for nodes in range(1, offer.get("max_nodes", 1) + 1):
            every += len(enumerate_recipes(candidates.job, card, offer["gpus"] * nodes > 1, library()))
    assert len(physics.ways) + sum(physics.rejected.values()) == every
    assert physics.rejected["the global batch does not divide over the GPUs"] > 0  # 35 over 2, 3, 4, 8 and 16
    assert all(reason for reason in physics.rejected)


def test_what_does_not_fit_says_by_how_much() -> None:
    """Seven billion weights trained in full miss a 16 GB card by a positive number of GiB."""
    one = {"provider": "a", "gpu": "T4", "gpus": 1, "usd_per_hour": 0.3}
    found = prepared({**LARGE, "techniques": {"method": "full"}}, [one])
    (candidates,) = found.candidates
    misses = candidates.physics.misses
    assert candidates.physics.rejected["it does not fit in memory"] >= len(misses) > 0
    assert all(miss.shortfall_gib > 0 and miss.machine.gpu == "T4" for miss in misses)
    full = [miss.shortfall_gib for miss in misses if miss.recipe.method == "full"]
    # 7.24e9 weights of 2 bytes and gradients of 2 bytes are 27 GiB, on a card of 16: at least 11 are missing.
    assert full and min(full) > 11
    assert not len(found.screened[0].table)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("limits", "job", "reason"),
    [
        ({"max_gpus": 2}, {}, "it needs more GPUs than a limit, quota or stock allows"),
        ({"quota": {"b": 3}}, {}, "it needs more GPUs than a limit, quota or stock allows"),
        ({"providers": {"forbid": ["a"]}}, {}, "its provider, GPU, region or tier is not allowed"),
        ({"spot_share": {"min": 0.5}}, {"trials": {"count": 2}}, "its spot market cannot give the share asked for"),
        ({}, {"deadline": "1h"}, "it ends after the deadline"),
        ({}, {"techniques": {"method": "full"}}, "its method is not allowed"),
    ],
)
def test_screened_rows_are_kept_or_counted_with_their_reason(limits: Data, job: Data, reason: str) -> None:
    """Each limit rejects something here, under its own reason, and nothing is lost."""
    found = prepared(job, **limits)
    (candidates,), (screened,) = found.candidates, found.screened
    assert set(screened.rejected) == {reason}
    assert 0 < screened.rejected[reason] < len(candidates.table)
    assert screened.rejected[reason] + len(set(screened.rows.tolist())) == len(candidates.table)
    assert bool(np.any(screened.lateness > 0)) is (reason == "it ends after the deadline")


HOURLY: Data = {
    "provider": "a", "gpu": "RTX3090", "gpus": 1, "usd_per_hour": 1.0,
    "billing": {"step_seconds": 3600, "minimum_hours": 1},
}  # fmt: skip


def test_whole_hours_are_billed_on_demand() -> None:
    """At 1 $/h and whole hours the bill is the hours rounded up: an hour and a bit costs 2 $."""
    found = prepared({"work": {"tokens": 3e7}}, [HOURLY])
    table, (candidates,) = found.screened[0].table, found.candidates
    assert len(table) and found.screened[0].rounded.all()
    hours = table.start_h + table.run_h[:, ON_DEMAND]
    assert np.all((table.share_low == 0) & (table.share_high == 0))
    np.testing.assert_allclose(table.cost_usd(0.0), np.maximum(np.ceil(hours), 1), rtol=1e-12)
    between = (hours > 1) & (hours < 2)
    assert between.any() and np.all(np.abs(table.cost_usd(0.0)[between] - 2.0) < 1e-12)
    late = table.late_start_h + table.late_h[:, ON_DEMAND]
    np.testing.assert_allclose(table.late_cost_usd(0.0), np.maximum(np.ceil(late), 1), rtol=1e-12)
    # Before rounding, the same rows cost their hours.
    uncut = candidates.table.rows(found.screened[0].rows)
    np.testing.assert_allclose(uncut.cost_usd(0.0), hours, rtol=1e-12)


def test_whole_hours_are_billed_in_each_market() -> None:
    """With spot at 0.5 $/h all on demand, all on spot, which moves nothing, and whole hours between."""
    found = prepared({"work": {"tokens": 2.4e7}, "framework": "hf"}, [{**HOURLY, "spot_usd_per_hour": 0.5}])
    screened, (candidates,) = found.screened[0], found.candidates
    table = screened.table
    uncut = candidates.table.rows(screened.rows)
    spot, demand = table.share_low == 1, table.share_low == 0
    assert np.array_equal(table.share_low, table.share_high)
    assert np.sum(spot) == np.sum(demand) == len(set(screened.rows.tolist()))
    between = ~spot & ~demand
    assert between.any()
    hours = uncut.start_h + (1 - table.share_low) * uncut.run_h[:, ON_DEMAND]
    np.testing.assert_allclose(hours[between], np.round(hours[between]), rtol=1e-9)
    # Uncut spot dollars are 0.5 * (start + paid) + 1.0 * switch, where the switch is one more start: of mixes alone.
    paid = (uncut.run_usd[spot, SPOT] - uncut.start_h[spot]) / 0.5
    by_hand = 0.5 * np.maximum(np.ceil(paid), 1)
    np.testing.assert_allclose(table.cost_usd(table.share_low)[spot], by_hand, rtol=1e-12)


def test_no_share_between_the_points_is_cheaper_and_no_later() -> None:
    """Each share of a fine grid, billed in whole hours by hand, is matched by a point that ends no later on average."""
    found = prepared({"work": {"tokens": 2.4e7}, "framework": "hf"}, [{**HOURLY, "spot_usd_per_hour": 0.5}])
    screened, (candidates,) = found.screened[0], found.candidates
    points = screened.table
    for row in sorted(set(screened.rows.tolist())):
        mine, one = points.rows(screened.rows == row), candidates.table.rows(np.asarray([row]))
        start, run = float(one.start_h[0]), float(one.run_h[0, ON_DEMAND])
        paid = (float(one.run_usd[0, SPOT]) - start) / 0.5
        for share in np.linspace(0.01, 0.99, 50):
            demand, spot = np.ceil(start + (1 - share) * run), max(1.0, np.ceil(share * paid))
            no_later = mine.hours(mine.share_low) <= one.hours(float(share))[0] + 1e-9
            assert np.min(mine.cost_usd(mine.share_low)[no_later]) <= max(1.0, demand) + 0.5 * spot + 1e-9


def test_a_minimum_longer_than_the_run_makes_no_points_between() -> None:
    """Where every share pays the minimum there is nothing to choose, however fine the billing step."""
    billing = {"step_seconds": 1, "minimum_hours": 100}
    found = prepared({"work": {"tokens": 2.4e7}}, [{**HOURLY, "billing": billing, "spot_usd_per_hour": 0.5}])
    assert set(found.screened[0].table.share_low.tolist()) == {0.0, 1.0}


def test_a_long_run_is_rounded_where_it_has_one_market() -> None:
    """At $1 an hour in whole hours; with a spot market a step under a twentieth of the run is left as it is."""
    long = {**LARGE, "work": {"tokens": 1e9}, "deadline": "700h"}
    alone = [{key: value for key, value in HOURLY.items() if key != "spot_usd_per_hour"}]
    screened = prepared(long, alone).screened[0]
    table = screened.table
    run = table.run_h[:, ON_DEMAND]
    assert len(run) and np.all(run > 20) and screened.rounded.all()
    np.testing.assert_allclose(table.cost_usd(0.0), np.ceil(table.start_h + run), rtol=1e-12)
    both = prepared(long, [{**alone[0], "spot_usd_per_hour": 0.9}]).screened[0]
    assert len(both.table) and not both.rounded.any()


@pytest.mark.slow
def test_offers_that_differ_in_region_alone_are_one() -> None:
    """They make one set of candidates that stands for all; of two prices the lower stays; a limit parts regions."""
    here, there = ({**MARKET[0], "region": region} for region in ("here", "there"))
    found = prepared(offers=[here, there], spot_zones="same_zone")
    assert found.market.merged == (2,) and len(found.market.labels) == 1
    assert len(found.candidates[0].table) == len(prepared(offers=[here]).candidates[0].table)
    cheaper = prepared(offers=[here, {**there, "usd_per_hour": MARKET[0]["usd_per_hour"] - 0.01}]).market
    assert cheaper.merged == (1,) and cheaper.offers[0].region == "there"
    both = prepared(offers=[here, there]).market
    assert both.merged == (2, 1) and both.offers[1].regions == ("here", "there")
    limited = prepared(offers=[here, there], regions={"allow": ["there"]})
    assert limited.market.merged == (1, 1)
    table = limited.screened[0].table
    assert len(table) and {table.offers[i] for i in table.offer} == {limited.market.labels[1]}


@pytest.mark.slow
def test_a_price_changes_no_physics() -> None:
    """Twice the price is twice the dollars of the same ways at the same hours and the same memory."""
    twice = [{k: v * 2 if k.endswith("usd_per_hour") else v for k, v in offer.items()} for offer in MARKET]
    (plain,), (dear,) = prepared().candidates, prepared(offers=twice).candidates
    for column in ("recipe", "machine", "micro_batch", "accumulation", "step_seconds", "sequence", "fit_gib"):
        assert np.array_equal(getattr(plain.physics.ways, column), getattr(dear.physics.ways, column)), column
    np.testing.assert_array_equal(plain.table.run_h, dear.table.run_h)
    np.testing.assert_array_equal(plain.table.late_h, dear.table.late_h)
    np.testing.assert_allclose(dear.table.run_usd, 2 * plain.table.run_usd, rtol=1e-12)


def test_the_techniques_in_use_are_those_of_the_recipe() -> None:
    """The 0/1 columns say what the recipe of the row says, and accumulation what the batch arithmetic says."""
    (candidates,) = prepared(LARGE).candidates
    table, ways = candidates.table, candidates.physics.ways
    assert 0 < table.uses[:, 0].sum() < len(table)
    for index in range(len(table)):
        recipe, uses = ways.recipes[int(table.recipe[index])], table.uses[index]
        assert bool(uses[0]) is (recipe.method == "lora") and bool(uses[1]) is (recipe.weight_bits == 4)
        assert bool(uses[4]) is bool(ways.accumulation[candidates.configuration[index]] > 1)


def _every_row(monkeypatch: pytest.MonkeyPatch, *args: Data) -> JobCandidates:
    """Return the candidates of a job with a row for each configuration, the dominated ones included."""
    with monkeypatch.context() as patch:
        patch.setattr(enumeration, "kept_undominated", lambda kept, job, ways, run: np.ones(len(ways), dtype=bool))
        return prepared(*args).candidates[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    "job",
    [
        PADDED,
        {"framework": "hf", "techniques": {"penalty_usd": {"eight_bit_optimizer": 3.0}}},
        {"framework": ["litgpt", "hf"], "techniques": {"method": "lora"}},
    ],
)
def test_configurations_without_rows_are_never_the_best_of_their_method(
    job: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On no offer, in dollars, in hours and late, in either market; and they are many rows."""
    every, made = _every_row(monkeypatch, job), prepared(job).candidates[0]
    assert 0 < len(made.table) < 0.6 * len(every.table)
    for share in (0.0, 1.0):
        best = _best_figures(every, share)
        assert best and _best_figures(made, share) == best


def _best_figures(candidates: JobCandidates, share: float) -> dict[tuple[int, str, str], float]:
    """Return the least dollars and hours at a spot share, expected and late, of each offer and method."""
    table, found = candidates.table, {}
    label = np.asarray([recipe.method_label for recipe in candidates.recipes])[table.recipe]
    usd, late_usd = (one + table.penalty_usd for one in (table.cost_usd(share), table.late_cost_usd(share)))
    figures = {"usd": usd, "late usd": late_usd, "hours": table.hours(share), "late hours": table.late_hours(share)}
    for name, figure in figures.items():
        for offer, method in {*zip(table.offer.tolist(), label.tolist(), strict=True)}:
            here = (table.offer == offer) & (label == method) & ~np.isnan(figure)
            if here.any():
                found[offer, method, name] = float(figure[here].min())
    return found


@pytest.mark.slow
def test_an_excluded_method_has_the_rows_that_it_has_without_the_exclusion() -> None:
    """They are counted as rejected for their method."""
    free, bound = (prepared(job) for job in ({}, {"techniques": {"method": "lora", "weight_bits": 4}}))
    every, left = free.candidates[0], bound.candidates[0]
    label = np.asarray([recipe.method_label for recipe in every.recipes])[every.table.recipe]
    assert bound.screened[0].rejected["its method is not allowed"] == np.sum(label != "QLoRA") > 0
    for name in ("offer", "run_h", "run_usd", "fixed_usd", "gpus"):
        np.testing.assert_array_equal(getattr(left.table, name), getattr(every.table, name))


@pytest.mark.slow
@given(st.data())
def test_undominated_configurations_are_those_of_every_pair_compared(data: st.DataObject) -> None:
    """Of two on one machine, by one method, the one goes that is nowhere better; of equal ones that with less room."""
    ways = _some_ways()
    free = ways.usable_gib - ways.fit_gib
    labels = [ways.recipes[one].method_label for one in ways.recipe.tolist()]
    count = data.draw(st.integers(1, 4))
    drawn = st.lists(st.sampled_from([0.0, 1.0, 2.0, np.inf]), min_size=len(ways), max_size=len(ways))
    burden = np.asarray([data.draw(drawn) for _ in range(count)])
    expected = [
        not any(
            ways.machine[i] == ways.machine[j]
            and labels[i] == labels[j]
            and (burden[:, i] <= burden[:, j]).all()
            and ((burden[:, i] < burden[:, j]).any() or (-free[i], i) < (-free[j], j))
            for i in range(len(ways))
        )
        for j in range(len(ways))
    ]
    np.testing.assert_array_equal(undominated_on_machine(ways, burden), expected)


@functools.cache
def _some_ways() -> Configurations:
    """Return 24 configurations of several machines and methods."""
    ways = prepared().candidates[0].physics.ways
    assert len({*ways.machine.tolist()}) > 1
    return ways.rows(np.linspace(0, len(ways) - 1, 24).astype(int))
