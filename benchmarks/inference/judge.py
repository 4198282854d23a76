"""Errors of predictions: by figure and group, on halves of the configurations, and leaving one organisation out."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

from benchmarks.accuracy import scores
from benchmarks.inference.fitting import fit, prior_of
from benchmarks.inference.predictions import Table
from benchmarks.inference.rows import CONFIGURATION_COLUMNS, FIGURES, Measured, organisation, side


class Judged(NamedTuple):
    """One figure of one row, measured and predicted."""

    row: Measured
    figure: str
    measured: float
    predicted: float

    @property
    def log_error(self) -> float:
        """ln(measured / predicted)."""
        return math.log(self.measured / self.predicted)


GROUPINGS: dict[str, Callable[[Judged], str]] = {
    "organisation": lambda j: organisation(j.row.row),
    "engine": lambda j: j.row.engine,
    "mode": lambda j: j.row.row.text("mode"),
    "gpu": lambda j: j.row.row.cells.get("gpu", "unknown"),
    "weights": lambda j: j.row.row.text("weight_format"),
}


def judged(rows: Sequence[Measured], values: Mapping[str, float]) -> list[Judged]:
    """Return every figure that the rows state, with its prediction."""
    predicted = Table(rows).predict(values)
    return [
        Judged(row, name, row.figures[name], float(predicted[name][index]))
        for index, row in enumerate(rows)
        for name in FIGURES
        if name in row.figures and predicted[name][index] > 0
    ]


def known_for(rows: Sequence[Measured], fitted: Mapping[str, float]) -> dict[str, float]:
    """Return the coefficients of rows: as fitted, and the priors of those that no row of the fit depends on."""
    return {key: prior_of(key).value for key in Table(rows).keys} | dict(fitted)


def by_configuration(rows: Sequence[Measured]) -> list[Judged]:
    """Return each half of the configurations predicted by a fit on the other."""
    halves = [[row for row in rows if side(row.row) == half] for half in (0, 1)]
    return [
        one
        for judge, train in (halves, halves[::-1])
        if judge and train
        for one in judged(judge, known_for(judge, fit(train).values))
    ]


def by_organisation(rows: Sequence[Measured]) -> list[Judged]:
    """Return the rows of each organisation predicted by a fit on all others."""
    found = []
    for name in sorted({organisation(row.row) for row in rows}):
        others = [row for row in rows if organisation(row.row) != name]
        if others:
            own = [row for row in rows if organisation(row.row) == name]
            found += judged(own, known_for(own, fit(others).values))
    return found


def errors(items: Iterable[Judged]) -> dict[str, Any]:
    """Return n, MAPE, median, 90th percentile and bias."""
    return scores.errors([one.predicted / one.measured - 1.0 for one in items])


def figures(items: Sequence[Judged], groups: bool = True) -> dict[str, Any]:
    """Return the errors of each figure, also by group, and the pairs of GPUs in order."""
    found: dict[str, Any] = {}
    for name in FIGURES:
        own = [one for one in items if one.figure == name]
        found[name] = errors(own)
        if groups:
            found[name]["by"] = {
                group: {
                    str(label): errors(members)
                    for label, members in sorted(scores.grouped(own, key).items(), key=lambda item: -len(item[1]))
                }
                for group, key in GROUPINGS.items()
            }
        if name == "throughput":
            found[name]["pairs"] = gpu_pairs(own)
    return found


def gpu_pairs(items: Sequence[Judged]) -> dict[str, Any]:
    """Return the share of pairs that differ in the GPU alone and are predicted in the measured order.

    Pairs closer than 10 % in measured speed say nothing; one organisation at a time.
    """
    groups: dict[tuple[str, ...], list[Judged]] = defaultdict(list)
    for one in items:
        cells = (one.row.row.text(name) for name in CONFIGURATION_COLUMNS if name != "gpu")
        groups[(organisation(one.row.row), *cells)].append(one)
    right = n = 0
    for members in groups.values():
        for one, other in combinations(members, 2):
            measured = math.log(one.measured / other.measured)
            if one.row.row.text("gpu") != other.row.row.text("gpu") and abs(measured) > scores.NOTEWORTHY:
                n += 1
                right += measured * math.log(one.predicted / other.predicted) > 0
    return scores.share(right, n)


LEAST_OF_ENGINE = 15


def spreads(items: Sequence[Judged]) -> dict[str, tuple[float, int]]:
    """Return the spread of ln(measured / predicted) by key, and of how many figures: that which 68 % stay within.

    Of speed by engine where enough figures state it, of all engines together, and of the first token.
    """
    speed = [one for one in items if one.figure != "ttft"]
    groups: dict[str, list[Judged]] = {"spread": speed, "spread.ttft": [one for one in items if one.figure == "ttft"]}
    for engine, members in scores.grouped(speed, GROUPINGS["engine"]).items():
        if len(members) >= LEAST_OF_ENGINE and engine != "other":
            groups[f"spread.{engine}"] = members
    return {
        key: (scores.quantile([abs(one.log_error) for one in members], 0.68), len(members))
        for key, members in groups.items()
        if members
    }
