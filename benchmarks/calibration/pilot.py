"""One pilot run pays: how much nearer estimates come once one or a few runs of the same source were seen.

    python -m benchmarks.pilot TABLE.csv [--json]

Each row is predicted after k other rows of its source, drawn at random from a fixed seed, have corrected the
estimate as `planner/configurations/compared_runs.py` does; never does a row correct itself.
Two columns: with the framework of the row, whose coefficients were fitted on such rows, and with the
framework forgotten, as for a stack without measurements. Memory likewise, from rows of the same
setting.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.accuracy.measurements import Row, read_measurements
from benchmarks.accuracy.predictions import Prediction, Predictor
from benchmarks.accuracy.splits import family
from planner.errors import InputError
from planner.estimates.inputs import Setup
from planner.estimates.memory_fit import estimate_memory
from planner.estimates.memory_terms import MemoryCoefficients
from planner.estimates.uncertainty import (
    Sigmas,
    corrected_sigmas,
    log_memory_scale,
    log_speed_correction,
    memory_half_weight_runs,
    memory_spread,
)
from planner.library.reading import read_library
from planner.library.schema import Library
from planner.units import GIB

COUNTS = (1, 3, 5)
"""Observed rows per correction."""
DRAWS = 5
"""Random choices of observed rows per predicted row."""
SETTING = ("model", "method", "weight_quant", "act_ckpt", "sharding", "num_gpus", "framework")
"""What is the same in rows of one setting."""
GPUS_PER_NODE = 8
HALVINGS = 16
"""Of the search for a factor between 1/2 and 2: to five digits."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 2 where the table cannot be read."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pilot", description=__doc__.splitlines()[0])
    parser.add_argument("table", help="measured runs, as benchmarks/validation.csv has them")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    asked = parser.parse_args(arguments)
    try:
        rows = [row for row in read_measurements(asked.table) if row.headline]
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    found = {name: pilots(rows, as_unknown) for name, as_unknown in (("profiled", False), ("unknown", True))}
    print(json.dumps(found, indent=2) if asked.json else text(found))
    return 0


def pilots(rows: Sequence[Row], as_unknown: bool = False) -> dict[str, Any]:
    """Return the errors (shares) before and after k observed rows, of speed and of memory."""
    library = read_library([])
    predictions = Predictor(library).predict(rows, as_unknown)
    return {
        "throughput": [_speeds(predictions, k, library) for k in COUNTS],
        "memory": [_memory(predictions, k, library) for k in COUNTS],
    }


def _speeds(predictions: Sequence[Prediction], k: int, library: Library) -> dict[str, Any]:
    half = library.calibrations["pilot"].value("speed_half")
    timed = [one for one in predictions if one.speed is not None]
    before, after, near, rare = [], [], [], []
    for one, seen in _drawn(timed, k, lambda row: (family(row),)):
        assert one.speed is not None
        ratio = one.speed.log_error
        rest = ratio - log_speed_correction([other.speed.log_error for other in seen if other.speed], half)
        sigma, tail = _sigmas(one, seen, library)
        before.append(ratio)
        after.append(rest)
        near.append(abs(rest) < sigma)
        rare.append(abs(rest) < 1.96 * tail)
    return _told(k, before, after) | {"within_68": _share(near), "within_95": _share(rare)}


def _sigmas(one: Prediction, seen: Sequence[Prediction], library: Library) -> tuple[float, float]:
    """Return the spreads that are claimed for a row after others were seen."""
    assert one.speed is not None
    pilot, values = library.calibrations["pilot"], library.calibrations["uncertainty"]
    alike = [other for other in seen if _kin(other.row) == _kin(one.row)]
    same_card = any(other.row.text("gpu") == one.row.text("gpu") for other in alike)
    key = "same_card" if same_card else "other_card" if alike else "other_source"
    after = corrected_sigmas(
        Sigmas(one.speed.sigma, one.speed.sigma_tail),
        values.value(f"difference.{key}"),
        values.value("difference.other_source"),
        pilot.value("tail"),
        len(seen),
        pilot.value("speed_half"),
    )
    return float(after.display), float(after.tail)


def _kin(row: Row) -> tuple[str, bool]:
    return "full" if row.text("method") == "full" else "lora", (row.number("num_gpus") or 1) > GPUS_PER_NODE


def _memory(predictions: Sequence[Prediction], k: int, library: Library) -> dict[str, Any]:
    probed = library.calibrations["pilot"].value("sigma_probed")
    coefficients = Predictor(library).memory
    sized = [one for one in predictions if one.peak is not None]
    scales = {id(one): _scale(one, coefficients, library) for one in sized}
    before, after = [], []
    for one, seen in _drawn(sized, k, lambda row: (family(row), *map(row.text, SETTING))):
        assert one.peak is not None
        half = memory_half_weight_runs(_sigma(one, library), probed)
        scale = math.exp(log_memory_scale([math.log(scales[id(other)]) for other in seen], half))
        before.append(one.peak.log_error)
        after.append(math.log(one.peak.measured / _peak(one, scale, coefficients)))
    return _told(k, before, after)


def _sigma(one: Prediction, library: Library) -> float:
    """Spread of the memory estimate as the planner has it, whatever kind of peak the row tells."""
    assert one.configuration is not None
    values = library.calibrations["memory"].values
    return memory_spread(values, one.configuration.framework, one.configuration.profiled).sigma


def _scale(one: Prediction, coefficients: MemoryCoefficients, library: Library) -> float:
    """Return the factor on what grows with the batch that explains a measured peak, between its bounds."""
    pilot = library.calibrations["pilot"]
    low, high = pilot.value("memory_scale_low"), pilot.value("memory_scale_high")
    assert one.peak is not None
    for _ in range(HALVINGS):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if _peak(one, middle, coefficients) < one.peak.measured else (low, middle)
    return high


def _peak(one: Prediction, scale: float, coefficients: MemoryCoefficients) -> float:
    """Return the predicted bytes of the row's kind, what grows with the batch scaled."""
    found = one.configuration
    assert found is not None
    name = {"device": "device_used"}.get(one.row.peak_kind, one.row.peak_kind)
    total = 0.0
    for share, states, activations in found.settings:
        scaled = replace(activations, scale=scale)
        setup = Setup(found.network, found.layout, states, scaled, found.stack)
        told = estimate_memory(setup, coefficients, one.usable_bytes)
        total += share * float(getattr(told, name))
    return max(total, 1.0 / GIB)


def _drawn(
    predictions: Sequence[Prediction], k: int, group: Callable[[Row], tuple[str, ...]]
) -> list[tuple[Prediction, list[Prediction]]]:
    """Return every row with k others of its group, `DRAWS` times; rows without as many others are left out."""
    chance = random.Random(k)
    groups: dict[tuple[str, ...], list[Prediction]] = {}
    for one in predictions:
        groups.setdefault(group(one.row), []).append(one)
    return [
        (one, chance.sample([other for other in members if other is not one], k))
        for members in groups.values()
        if len(members) > k
        for one in members
        for _ in range(DRAWS)
    ]


def _told(k: int, before: Sequence[float], after: Sequence[float]) -> dict[str, Any]:
    return {"k": k, "n": len(before), "before": _errors(before), "after": _errors(after)}


def _errors(log_ratios: Sequence[float]) -> dict[str, float | None]:
    """Return the median and 90th percentile of |predicted / measured - 1|; None without rows."""
    if not log_ratios:
        return {"median": None, "p90": None}
    errors = np.abs(np.exp(-np.asarray(log_ratios)) - 1.0)
    return {"median": float(np.median(errors)), "p90": float(np.quantile(errors, 0.9))}


def _share(flags: Sequence[bool]) -> float | None:
    return sum(flags) / len(flags) if flags else None


def text(found: dict[str, Any]) -> str:
    """Return the figures as a table, in percent."""
    lines = ["One pilot run pays: error in percent before and after k observed rows of the same source", ""]
    lines.append(f"{'framework':<10}{'figure':<12}{'k':>2}{'n':>7}   {'median':<15}{'p90':<15}{'within 68, 95 %'}")
    for name, figures in found.items():
        for figure, counts in figures.items():
            for one in counts:
                covered = _pair(one.get("within_68"), one.get("within_95"), ", ")
                median = _pair(one["before"]["median"], one["after"]["median"])
                p90 = _pair(one["before"]["p90"], one["after"]["p90"])
                line = f"{name:<10}{figure:<12}{one['k']:>2}{one['n']:>7}   {median:<15}{p90:<15}{covered}"
                lines.append(line.rstrip())
    lines += ["", f"n counts {DRAWS} draws per row; memory: rows of the same setting; unknown: framework forgotten"]
    return "\n".join(lines)


def _pair(first: float | None, second: float | None, between: str = " -> ") -> str:
    if first is None or second is None:
        return ""
    return f"{first * 100:.1f}{between}{second * 100:.1f}"
