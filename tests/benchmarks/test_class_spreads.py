"""Spreads by class: each number is what the rows of its class ask for, given all others."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import pytest

pytest.importorskip("scipy")

from benchmarks.accuracy.measurements import read_measurements
from benchmarks.accuracy.memory_spread import memory_classes, memory_sigmas
from benchmarks.accuracy.predictions import Predictor
from benchmarks.calibration.evidence import MEASURES, Evidence, class_factors, stranger_weights
from benchmarks.calibration.held_out import Table, counts, parts_judged, spreads
from benchmarks.calibration.intervals import ADDED, Side, Timed, _widen
from benchmarks.calibration.memory_intervals import FACTORS
from planner.documents.files import data_folder
from planner.library.reading import read_library

TABLE = data_folder("models").parent / "benchmarks" / "validation.csv"


@cache
def shipped() -> dict[str, float]:
    """The numbers of uncertainty.yaml."""
    return dict(read_library().calibrations["uncertainty"].values)


def rows_of_speed(errors: list[float], nodes: int, network_unknown: int) -> Timed:
    """Runs of an unknown framework on cards that were measured, with micro-batches of many tokens."""
    n = len(errors)
    numbers: dict[str, Any] = {
        "gpus": 8.0 * nodes, "nodes": nodes, "tokens": 1e5, "mixture": 0, "offload": 0,
        "network_unknown": network_unknown, "shape_unknown": 0,
    }  # fmt: skip
    columns = {name: np.full(n, value, dtype=float) for name, value in numbers.items()}
    words: dict[str, Any] = {"profiles": ("unknown",) * n, "cards": ("A100-SXM-80GB",) * n, "bases": ("measured",) * n}
    return Timed(errors=np.array(errors), **words, **columns)


def test_a_size_is_a_product_of_its_classes() -> None:
    """Off by 2 % in full on one GPU, 6 % on several, 4 % with LoRA, 12 % with both: factors of 3 and 2."""
    sizes = np.array([0.02, 0.02, 0.02, 0.06, 0.04, 0.12])
    several, lora = np.array([0, 0, 0, 1, 0, 1]) > 0, np.array([0, 0, 0, 0, 1, 1]) > 0
    classes, believed = {"several": several, "lora": lora}, {"several": 1.0, "lora": 1.0}
    overall, factors = class_factors(sizes, classes, believed, 0.5, np.ones(6))
    assert factors["several"] == pytest.approx(3.0, rel=1e-3)
    assert factors["lora"] == pytest.approx(2.0, rel=1e-3)
    assert overall == pytest.approx(0.02, rel=1e-3)


@pytest.mark.parametrize(("believed", "factor"), [(0.0, 1.0), (0.5, 2.0), (1.0, 4.0)])
def test_a_factor_is_drawn_towards_one(believed: float, factor: float) -> None:
    """Three runs are off by 1 %, one of a class by 4 %: half believed it is off by twice as much, not by four times."""
    sizes, classes = np.array([0.01, 0.01, 0.01, 0.04]), {"own": np.array([False, False, False, True])}
    overall, factors = class_factors(sizes, classes, {"own": believed}, 0.5, np.ones(4))
    assert (overall, factors["own"]) == pytest.approx((0.01, factor))


def test_a_class_holds_its_share() -> None:
    """Believed whole, as many runs of each class as of all are below the product: that is what a range promises."""
    some = np.random.default_rng(1)
    many, heavy = some.random(4000) < 0.3, some.random(4000) < 0.5
    sizes = np.abs(some.standard_t(2, 4000)) * np.where(many, 3.0, 1.0) * np.where(heavy, 0.5, 1.0)
    overall, factors = class_factors(
        sizes, {"many": many, "heavy": heavy}, {"many": 1, "heavy": 1}, 0.68, np.ones(4000)
    )
    product = overall * factors["many"] ** many * factors["heavy"] ** heavy
    for rows in (many, ~many, heavy, ~heavy):
        assert np.mean(sizes[rows] <= product[rows]) == pytest.approx(0.68, abs=0.02)


@pytest.mark.slow
def test_the_spread_of_memory_is_that_of_its_accounting_times_factors() -> None:
    """0.08 x 0.75 on one GPU x 0.9 for LoRA is 0.054; tails of 0.05 x 1 x 1.2 are 0.06, and never below 0.054."""
    found = next(
        p
        for p in Predictor(read_library()).predict(read_measurements(TABLE))
        if p.configuration is not None and memory_classes(p.row, p.configuration) == ("allocated", "one_gpu", "lora")
    )
    assert found.configuration is not None
    values = {"sigma_allocated": 0.08, "sigma_one_gpu": 0.75, "sigma_lora": 0.9}
    tails = {"sigma_tail_allocated": 0.05, "sigma_tail_lora": 1.2}
    assert memory_sigmas({**values, **tails}, found.row, found.configuration) == pytest.approx((0.054, 0.06))
    tails["sigma_tail_lora"] = 0.2
    assert memory_sigmas({**values, **tails}, found.row, found.configuration) == pytest.approx((0.054, 0.054))


def test_every_factor_of_memory_ships() -> None:
    """A factor that is not listed would count as 1."""
    values = read_library().calibrations["memory"].values
    assert {f"{kind}_{name}" for kind, *_ in MEASURES for name in FACTORS} <= set(values)


@pytest.mark.parametrize(("believed", "number"), [(1.0, 0.3), (1 / 3, 0.2289)])
def test_a_number_of_speed_covers_its_rows(believed: float, number: float) -> None:
    """Errors of 0.1, 0.2 and 0.3: 68 % of three are all of them; drawn a third of the way: 0.2 x 1.5^(1/3) = 0.2289."""
    side = Side(rows_of_speed([0.1, -0.3, 0.2], 1, 0), np.ones(3), {"unknown": np.full(3, True)}, {"unknown": believed})
    values = shipped() | {"one_node.sigma": 0.0}
    side.settle(values, "unknown", 0, 0.2)
    assert values["unknown.sigma"] == pytest.approx(number, rel=0.01)


def test_what_is_added_is_what_the_largest_class_lacks() -> None:
    """0.25 off where classes say 0.15: a network that is not stated adds sqrt(0.25^2 - 0.15^2) = 0.2, 0.4 at most."""
    for error, number in ((0.25, 0.2), (0.9, ADDED["network_unknown"][2])):
        members = {"network_unknown": np.full(2, True)}
        side = Side(rows_of_speed([error, error], 2, 1), np.ones(2), members, {"network_unknown": 1.0})
        values = shipped() | {"unknown.sigma": 0.15, "several_nodes.sigma": 0.1}
        side.settle(values, "network_unknown", 0, ADDED["network_unknown"][0])
        assert values["network_unknown"] == pytest.approx(number, rel=0.01)
        assert math.hypot(0.15, values["network_unknown"]) == pytest.approx(min(error, math.hypot(0.15, 0.4)), rel=0.01)


@pytest.mark.long
@pytest.mark.parametrize("split", ["organisation", "configuration"])
def test_spreads_of_speed_come_from_judged_rows_in_each_split(split: str) -> None:
    """Also where no framework is a stranger to any fit: shipped spreads have seen the rows that they would judge."""
    table = Table(read_measurements(TABLE), read_library(), ("throughput",))
    parts = parts_judged(table, np.ones(len(table.rows), dtype=bool), split)
    values = spreads(table, parts, of_sources=split == "organisation")
    if split == "configuration":  # those that ship are of organisations left out, too
        assert values["uncertainty:unknown.sigma"] != table.fixed["uncertainty:unknown.sigma"]
    rows = Timed.of([p for part in parts for p in part.honest() if counts(p, "throughput")], table.library)
    stated = rows.sigmas({key.partition(":")[2]: v for key, v in values.items() if key.startswith("uncertainty:")})
    chance = math.sqrt(0.68 * 0.32 / len(rows.errors))  # a standard error of the share
    assert 0.6 - chance <= np.mean(np.abs(rows.errors) <= stated.display) <= 0.8


def test_large_tables_do_not_decide_what_strangers_are_told() -> None:
    """One row of an organisation counts 1, three 1 / (1 + 2 x 0.5) = 0.5 each, so that n rows count less than two."""
    assert stranger_weights(["a", "b", "b", "b"]).tolist() == [1.0, 0.5, 0.5, 0.5]
    assert stranger_weights(["c"] * 101).sum() == pytest.approx(101 / 51)


def test_a_range_is_that_of_one_organisation_more() -> None:
    """Of 11 the share 0.68 x 12 / 11 = 0.742; of three 0.96 x 4 / 3 is more than all, so it stays."""
    eleven = Evidence(of_sources=True, blind=frozenset("abcdefghijk"))
    assert eleven.share_of_another(0.68) == pytest.approx(0.7418, abs=1e-4)
    assert Evidence(of_sources=True, blind=frozenset("abc")).share_of_another(0.96) == 0.96
    assert Evidence(of_sources=True).share_of_another(0.68) == 0.68


def test_strangers_widen_the_speed_of_all_classes() -> None:
    """Strangers at twice the stated range: all classes double where they are believed, half as much, in ln, by half."""
    strangers = Side(rows_of_speed([0.3, 0.3, 0.3], 1, 0), np.ones(3), {}, {})
    for believed, factor in ((1.0, 2.0), (0.5, math.sqrt(2.0))):
        values = shipped() | {"unknown.sigma": 0.15, "one_node.sigma": 0.1, "unknown.sigma_tail": 1.0}
        _widen(values, ["unknown", "one_node"], strangers, believed)
        assert values["unknown.sigma"] == pytest.approx(0.15 * factor)
        assert values["one_node.sigma"] == pytest.approx(0.1 * factor)
        assert values["unknown.sigma_tail"] == 1.0  # the wider range holds them
