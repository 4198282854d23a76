"""Fits on one part of a table, judged on another: every figure of a split comes from rows that its fit never saw."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.accuracy import compared, headline, lengths_known
from benchmarks.fitting import Fit, Free, fitted, read_free
from benchmarks.measurements import Row
from benchmarks.predictions import Comparison, Prediction, Predictor
from benchmarks.splits import SPLITS, family, side
from benchmarks.stacking import MemoryRows, SpeedRows
from benchmarks.traced import shipped_values, traced_library
from planner.library import Library

Floats = NDArray[np.float64]

MEMORY_FILES = ("memory", "bytes")
TIME_FILES = ("time", "kernels", "gpu_efficiency")
SCALES = {MEMORY_FILES: 0.05, TIME_FILES: 0.2}
"""Log errors at which the loss turns from squares to sizes: chosen by fits within the training sides alone."""


@dataclass(frozen=True)
class Calibrated:
    """All calibrated numbers after a fit, by key, and how far each moved from its prior."""

    values: dict[str, float]
    moved: dict[str, float]


class Table:
    """The rows of a table, made into setups once and for all."""

    def __init__(self, rows: Sequence[Row], library: Library):
        predictor = Predictor(traced_library(library))
        self.library = library
        self.rows = tuple(rows)
        self.known = tuple(predictor.predict(rows))
        self.unknown = tuple(predictor.predict(rows, as_unknown=True))
        self.fixed = shipped_values(library)
        self.free = {files: read_free(files) for files in (MEMORY_FILES, TIME_FILES)}

    def fit(self, chosen: Sequence[bool]) -> Calibrated:
        """Coefficients fitted on the chosen headline rows, by index."""
        train = [p for p, there in zip(self.known, chosen, strict=True) if there]
        values, moved = dict(self.fixed), dict[str, float]()
        for figure, files, kind in (
            ("memory", MEMORY_FILES, MemoryRows),
            ("throughput", TIME_FILES, SpeedRows),
        ):
            counted = [p for p in train if headline(p, figure) and compared(p, figure) is not None]
            found = _fit_rows(kind.of(counted, self.library), self.free[files], self.fixed, SCALES[files])
            values |= {one.key: found.values[one.key] for one in self.free[files]}
            moved |= {one.key: float(x) for one, x in zip(self.free[files], found.x, strict=True)}
        return Calibrated(values, moved)


def _fit_rows(rows: MemoryRows | SpeedRows, free: Sequence[Free], fixed: Mapping[str, float], scale: float) -> Fit:
    return fitted(rows.predicted, rows.measured, [family(p.row) for p in rows.predictions], free, fixed, scale)


def judged(predictions: Sequence[Prediction], values: Mapping[str, float], library: Library) -> list[Prediction]:
    """The predictions made again with these values; rows of derived lengths keep no speed."""
    columns = {key: np.full((1, 1), value) for key, value in values.items()}
    found = list(predictions)
    sized = [i for i, p in enumerate(found) if p.peak is not None or p.need_bytes is not None]
    if sized:
        peaks, needs = MemoryRows.of([found[i] for i in sized], library).estimates(columns, 1)
        for i, peak, need in zip(sized, peaks[0], needs[0], strict=True):
            p = found[i]
            found[i] = replace(
                p,
                peak=None if p.peak is None else replace(p.peak, predicted=float(peak)),
                need_bytes=None if p.need_bytes is None else float(need),
            )
    timed = [i for i, p in enumerate(found) if p.speed is not None and lengths_known(p)]
    if timed:
        speeds = SpeedRows.of([found[i] for i in timed], library).predicted(columns, 1)[0]
        for i, speed in zip(timed, speeds, strict=True):
            found[i] = replace(found[i], speed=_again(found[i].speed, float(speed)))
    return [p if lengths_known(p) else replace(p, speed=None) for p in found]


def _again(comparison: Comparison | None, predicted: float) -> Comparison:
    assert comparison is not None
    return replace(comparison, predicted=predicted)


def split_predictions(table: Table) -> dict[str, list[Prediction]]:
    """Per split the predictions of all rows, each by the fit on the side that it is not on."""
    answer: dict[str, list[Prediction]] = {}
    fits: dict[Any, Calibrated] = {}
    for split in SPLITS:
        sides = np.array([side(row, split) for row in table.rows])
        judges = table.unknown if split == "source_unknown" else table.known
        found: list[Prediction | None] = [None] * len(table.rows)
        for half in (0, 1):
            key = (half, sides.tobytes())
            if key not in fits:
                fits[key] = table.fit((sides == 1 - half).tolist())
            chosen = [i for i in range(len(table.rows)) if sides[i] == half]
            for i, p in zip(chosen, judged([judges[i] for i in chosen], fits[key].values, table.library), strict=True):
                found[i] = p
        answer[split] = [p for p in found if p is not None]
    return answer
