"""A robust fit of the coefficients of generation with priors, on all figures of all rows at once.

Minimised is the sum over figures of a soft L1 of ln(measured / predicted) and the sum over coefficients of
((ln value - ln prior) / sd)^2. A coefficient of one engine, GPU or format is a deviation from what all share.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from benchmarks.inference.predictions import Table
from benchmarks.inference.rows import FIGURES, Measured, organisation
from planner.arrays import Flags, Floats
from planner.documents.files import read_document

SCALE = 0.15
"""In ln: up to it a row counts by its square, beyond by its size."""
SOURCE_ROWS = 20.0
"""An organisation of more rows counts by the square root of their number, as in benchmarks/calibration/fitting.py."""
FIGURE_WEIGHTS = {"throughput": 1.0, "tpot": 1.0, "ttft": 0.3}
"""A first token depends on habits of the client that no column states."""
STEPS = 15
STEP = 1e-4
"""Most steps of the fit, and the difference, in ln, that slopes are taken over."""


@dataclass(frozen=True)
class Prior:
    """What is believed of a coefficient before the rows: value and standard deviation of its logarithm."""

    value: float
    sd: float
    low: float
    high: float
    unit: str
    why: str


@cache
def read_priors() -> tuple[dict[str, Prior], dict[str, Prior]]:
    """Return the priors of shared coefficients by key, and of deviations by the beginning of their key."""
    data = read_document(Path(__file__).with_name("priors.yaml")).data
    return tuple({key: Prior(**entry) for key, entry in data[part].items()} for part in ("shared", "deviations"))  # type: ignore[return-value]


def prior_of(key: str) -> Prior:
    """Return the prior of a coefficient; of a deviation its own, or else that of its kind."""
    shared, deviations = read_priors()
    return shared.get(key) or deviations.get(key) or deviations[key.partition(".")[0]]


@dataclass(frozen=True)
class Fitted:
    """Coefficients by key with what is left of their spread, and how many rows depend on each."""

    values: dict[str, float]
    spread: dict[str, float]
    rows: dict[str, int]


def disjoint(members: Flags) -> list[list[int]]:
    """Return the columns of `members` (rows, keys) in few groups whose keys share no row."""
    groups: list[list[int]] = []
    taken: list[Flags] = []
    for column in range(members.shape[1]):
        own = members[:, column]
        place = next((i for i, rows in enumerate(taken) if not (rows & own).any()), None)
        if place is None:
            groups.append([column])
            taken.append(own.copy())
        else:
            groups[place].append(column)
            taken[place] |= own
    return groups


def row_weights(rows: Sequence[Measured]) -> Floats:
    """Return the weight of each row: that of an organisation grows with the root of its rows beyond `SOURCE_ROWS`."""
    counts = Counter(organisation(r.row) for r in rows)
    return np.array([min(1.0, math.sqrt(SOURCE_ROWS / counts[organisation(r.row)])) for r in rows])


def fit(rows: Sequence[Measured]) -> Fitted:
    """Return the coefficients that explain the rows best, by damped Gauss-Newton steps (Levenberg-Marquardt)."""
    table = Table(rows)
    priors = {key: prior_of(key) for key in table.keys}
    keys = [key for key in table.keys if priors[key].sd > 0]
    fixed = {key: prior.value for key, prior in priors.items()}
    centre = np.log([priors[key].value for key in keys])
    sds = np.array([priors[key].sd for key in keys])
    low, high = (np.log([getattr(priors[key], end) for key in keys]) for end in ("low", "high"))
    weights = row_weights(rows)

    def values(x: Floats) -> dict[str, float]:
        return fixed | dict(zip(keys, np.exp(x), strict=True))

    def errors(x: Floats) -> Floats:
        return log_errors(table, values(x), weights)[0]

    def cost(x: Floats, found: Floats) -> float:
        return float(
            np.sum(2.0 * weight * (np.sqrt(1.0 + (found / SCALE) ** 2) - 1.0)) + np.sum(((x - centre) / sds) ** 2)
        )

    members = table.depends(keys)  # of every figure, stacked like its errors
    stacked = np.concatenate([members[~np.isnan(table.measured[name])] for name in FIGURES])
    groups = disjoint(members)

    def slopes(x: Floats, found: Floats) -> Floats:
        """Return the derivatives (figures, keys): keys that no row shares are moved together."""
        jacobian = np.zeros(stacked.shape)
        for group in groups:
            moved = x.copy()
            moved[group] += STEP
            change = (errors(moved) - found) / STEP
            jacobian[:, group] = stacked[:, group] * change[:, None]
        return jacobian

    weight = log_errors(table, fixed, weights)[1]
    x, damping = np.clip(centre, low, high), 1.0
    found = errors(x)
    best, jacobian = cost(x, found), np.zeros((found.size, len(keys)))
    curvature = np.diag(1.0 / sds**2)
    for _ in range(STEPS):
        jacobian = slopes(x, found)
        robust = weight / SCALE**2 / np.sqrt(1.0 + (found / SCALE) ** 2)
        gradient = jacobian.T @ (robust * found) + (x - centre) / sds**2
        curvature = jacobian.T @ (robust[:, None] * jacobian) + np.diag(1.0 / sds**2)
        before = best
        for _ in range(8):
            step = np.linalg.solve(curvature + damping * np.diag(np.diag(curvature)), -gradient)
            tried = np.clip(x + np.clip(step, -0.7, 0.7), low, high)
            tried_errors = errors(tried)
            if (tried_cost := cost(tried, tried_errors)) < best:
                x, found, best, damping = tried, tried_errors, tried_cost, damping / 3.0
                break
            damping *= 3.0
        if before - best < 1e-3 * max(1.0, abs(best)) ** 0.5:
            break
    left = np.sqrt(np.diag(np.linalg.inv(curvature)))
    depend = (np.abs(jacobian) * sds > 0.005).sum(axis=0)
    return Fitted(
        values(x), dict(zip(keys, left.tolist(), strict=True)), dict(zip(keys, (int(n) for n in depend), strict=True))
    )


def log_errors(table: Table, values: Mapping[str, float], weights: Floats) -> tuple[Floats, Floats]:
    """Return ln(measured / predicted) of every figure that a row states, and the weight of each."""
    predicted = table.predict(values)
    found, counted = [], []
    for name in FIGURES:
        stated = ~np.isnan(table.measured[name])
        found.append(np.log(table.measured[name][stated] / np.maximum(predicted[name][stated], 1e-12)))
        counted.append(weights[stated] * FIGURE_WEIGHTS[name])
    return np.nan_to_num(np.concatenate(found)), np.concatenate(counted)
