"""What rows say of the spread of memory that have no peak: a run that ran took at most its card, one that failed more.

The error e = ln(measured / predicted) of uncertain bytes is taken as b + n: b is shared by what an organisation runs
with one framework, and has a spread `between`; n differs from run to run, and has a spread `within`. A row that ran
says e <= c, one that ran out of memory e >= c, where c is the error at which it would just fit. So many rows that ran
near the edge say that b is not large, and each row counts as the errors that are left to it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from benchmarks.accuracy.predictions import Prediction
from benchmarks.accuracy.splits import organisation
from benchmarks.calibration.fitting import source_weights
from planner.arrays import Floats
from planner.estimates.work import normal_tail

GRID = np.linspace(-2.0, 2.0, 201)
"""Errors, and shared parts of them, that are told apart."""
LEAST_SPREAD = 0.03
"""Of either part: a few rows of one source may agree by chance."""
NORMAL_QUARTERS = 0.6745
"""Median of the absolute value of a standard normal."""
FARTHEST = 3.0
"""Deviations beyond which an error counts no more against a shared part: tails are heavy."""

_TINY = 1e-300
_normal_tails = np.frompyfunc(normal_tail, 1, 1)


class Scatter(NamedTuple):
    """Spreads of the shared and of the single part of errors."""

    between: float
    within: float


class Errors(NamedTuple):
    """Errors with their weights: one entry of a measured row, many of a row that has a verdict alone."""

    values: Floats
    weights: Floats


def has_verdict(prediction: Prediction) -> bool:
    """Return whether a row says by running, or by running out of memory, what its missing peak does not."""
    return prediction.peak is None and prediction.need_bytes is not None


def scatter_of(rows: Sequence[Prediction]) -> Scatter:
    """Return the scatter of measured rows: around zero between groups, around their group's median within.

    Medians of absolute values, as shares of a normal's; the mean square between groups, since they are few.
    """
    groups = [
        np.array([p.peak.spread_error for p in group if p.peak is not None]) for group in groups_of(rows).values()
    ]
    groups = [errors for errors in groups if errors.size]
    if not groups:
        return Scatter(LEAST_SPREAD, LEAST_SPREAD)
    middles = np.array([float(np.median(errors)) for errors in groups])
    rest = np.concatenate([np.abs(errors - middle) for errors, middle in zip(groups, middles, strict=True)])
    between, within = math.sqrt(float(np.mean(middles**2))), float(np.median(rest)) / NORMAL_QUARTERS
    return Scatter(max(between, LEAST_SPREAD), max(within, LEAST_SPREAD))


def errors_of(rows: Sequence[Prediction], weights: Floats, scatter: Scatter) -> Errors:
    """Return the errors of rows, those with a verdict alone as what is left to them; `weights` of each row.

    A verdict counts as far as it was not expected: that a run ran which fills a third of its card is no evidence.
    """
    values, shares = [], []
    weight_of = {id(p): weight for p, weight in zip(rows, weights, strict=True)}
    for group in groups_of(rows).values():
        measured = [p for p in group if p.peak is not None]
        values.append(np.array([p.peak.spread_error for p in measured if p.peak is not None]))
        shares.append(np.array([weight_of[id(p)] for p in measured]))
        judged = [p for p in group if has_verdict(p)]
        if not judged:
            continue
        shared = np.exp(shared_part(group, scatter))
        alone = np.exp(-0.5 * ((GRID[None, :] - GRID[:, None]) / scatter.within) ** 2)
        either = (shared / shared.sum()) @ (alone / alone.sum(axis=1, keepdims=True))
        for p in judged:
            left = either * _allowed(p)
            left = left if left.sum() > 0.0 else _allowed(p)
            values.append(GRID)
            shares.append(weight_of[id(p)] * surprise(p, scatter) * left / left.sum())
    none = np.zeros(0)
    return Errors(np.concatenate([none, *values]), np.concatenate([none, *shares]))


def expected_errors(rows: Sequence[Prediction], scatter: Scatter) -> Errors:
    """Return the errors of further runs of a framework, from all that its rows say, measured or judged."""
    shared = shared_part(rows, scatter)
    chances = np.exp(shared - shared.max())
    alone = np.exp(-0.5 * ((GRID[None, :] - GRID[:, None]) / scatter.within) ** 2)
    return Errors(GRID, (chances / chances.sum()) @ (alone / alone.sum(axis=1, keepdims=True)))


def shared_part(group: Sequence[Prediction], scatter: Scatter) -> Floats:
    """Return ln of how likely each value of GRID is as the shared part of a group's errors, up to a constant.

    Rows beyond twenty of a group count by the square root of their number, as in a fit: they resemble each other.
    """
    likely = -0.5 * (GRID / scatter.between) ** 2
    for p, weight in zip(group, source_weights([organisation(p.row) for p in group]), strict=True):
        if p.peak is not None:
            away = np.minimum(np.abs(p.peak.spread_error - GRID) / scatter.within, FARTHEST)
            likely = likely - weight * 0.5 * away**2
        elif has_verdict(p):
            beyond = (_edge(p) - GRID) / scatter.within
            likely = likely + weight * _log_normal(-beyond if p.row.out_of_memory else beyond)
    return np.asarray(likely - likely.max())


def surprise(prediction: Prediction, scatter: Scatter) -> float:
    """Return how likely the other verdict was before any evidence, 0 to 1."""
    ran = math.exp(float(_log_normal(np.array(_edge(prediction) / math.hypot(*scatter)))))
    return ran if prediction.row.out_of_memory else 1.0 - ran


def _log_normal(deviations: Floats) -> Floats:
    """Return ln of the probability that a standard normal stays below."""
    below = np.asarray(_normal_tails(-np.asarray(deviations)), dtype=float)
    return np.asarray(np.log(np.maximum(below, _TINY)))


def _edge(prediction: Prediction) -> float:
    """Return the error at which a row just fits, by the share of its states that its spread is of."""
    assert prediction.fit_spread is not None
    margin = prediction.widest_margins[prediction.fit_spread.known_share]
    edge = math.log1p(margin) if margin > -1.0 else -math.inf
    return min(max(edge, float(GRID[0])), float(GRID[-1]))


def _allowed(prediction: Prediction) -> Floats:
    """Return 1 for the errors of GRID that a row's verdict leaves, else 0."""
    beyond = _edge(prediction) - GRID
    return np.asarray(beyond <= 0.0 if prediction.row.out_of_memory else beyond >= 0.0, dtype=float)


def groups_of(rows: Sequence[Prediction]) -> dict[tuple[str, str], list[Prediction]]:
    """Return rows by organisation and framework as the row names it."""
    found: dict[tuple[str, str], list[Prediction]] = defaultdict(list)
    for p in rows:
        found[(organisation(p.row), p.row.text("framework"))].append(p)
    return found
