"""How much rows that no fit has seen say of a spread, for new rows of the same sources and for sources yet unseen."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.accuracy.predictions import Prediction
from benchmarks.accuracy.splits import organisation
from planner.arrays import Floats

MEASURES = (("sigma", 0.68, 1.0), ("sigma_tail", 0.96, 1.96))
"""Name of a spread, share of rows in its range (in the middle of what is asked for), reach of the range in spreads."""
EXTRA_ROWS, EXTRA_SOURCES = 25, 2
"""A class is drawn towards all rows as if so many of their rows, or organisations, belonged to it."""
SHARED = 0.5
"""Share of the variance of errors that rows of one organisation have in common (the spread of what a stranger's rows
share over that of all its rows). So n rows of it say as much as n / (1 + (n - 1) / 2) rows of as many organisations:
never more than two, and a table of 164 rows does not decide what the next stranger is told."""


def stranger_weights(owners: Sequence[str]) -> Floats:
    """Return the weight of each row for what a new organisation will see: 1 / (1 + (n - 1) * SHARED), n rows of it."""
    counts = Counter(owners)
    return np.array([1.0 / (1.0 + (counts[owner] - 1) * SHARED) for owner in owners])


@dataclass(frozen=True)
class Evidence:
    """Counts rows where new ones come from the same sources, else organisations."""

    of_sources: bool
    blind: frozenset[str] = frozenset()
    """Organisations of which no row was there when forms, priors and coefficients were chosen. Of the others even a fit
    that leaves one out is no stranger's: who chose had looked at all of them."""

    def share_of_another(self, share: float) -> float:
        """Return the share of what was seen below which one more organisation lies with probability `share`.

        Of n organisations (n + 1) / n * share, as in conformal prediction (Vovk, Gammerman and Shafer 2005): of 11,
        0.742 for 0.68. Where that is 1 or more, too few are there to say, and the share stays.
        """
        wider = share * (1.0 + 1.0 / len(self.blind)) if self.blind else share
        return wider if wider < 1.0 else share

    def is_blind(self, predictions: Sequence[Prediction]) -> NDArray[np.bool_]:
        """Return which rows are of organisations that nothing was chosen by; all where none is known to be."""
        each = np.array([organisation(p.row) in self.blind for p in predictions], dtype=bool)
        return each if self.blind else np.ones(len(predictions), dtype=bool)

    def weights(self, predictions: Sequence[Prediction]) -> Floats:
        """Return the weight of each row: all equal, or smaller in large organisations."""
        if self.of_sources:
            return stranger_weights([organisation(p.row) for p in predictions])
        return np.ones(len(predictions))

    def believed(self, predictions: Sequence[Prediction]) -> float:
        """Return the share, 0 to 1, that the rows of a class have in its spread."""
        if not predictions:
            return 0.0
        if self.of_sources:
            publishers = len({organisation(p.row) for p in predictions})
            return publishers / (publishers + EXTRA_SOURCES)
        return len(predictions) / (len(predictions) + EXTRA_ROWS)


BETWEEN, WITHIN = np.geomspace(0.02, 0.5, 15), np.geomspace(0.01, 0.3, 15)
"""Spreads of the part of an error that runs of a group share, and of the part of a run, on a grid."""
ERRORS = np.linspace(-1.5, 1.5, 301)
"""Shared parts, and errors, on a grid."""


def quantile_of_new_group(groups: Sequence[tuple[Floats, Floats]], share: float) -> float:
    """Return the error that a run of a further group stays below with probability `share`.

    `groups`: errors in ln of the runs of each group, and their weights. An error is b + n. Runs of a group share b,
    which is normal around 0. n is of the run, a Student t with 2 degrees of freedom, as errors of speed have it.
    Spreads of both parts are averaged over by their likelihood, spreads of like ratio alike before any run: a few
    groups leave the first one wide, and no group decides it alone. No group, or none with runs, gives 0.
    """
    groups = [(errors, weights) for errors, weights in groups if errors.size]
    if not groups:
        return 0.0
    shared = np.exp(-0.5 * (ERRORS / BETWEEN[:, None]) ** 2)  # (between, b)
    shared /= shared.sum(axis=1, keepdims=True)
    likely = np.zeros((BETWEEN.size, WITHIN.size))
    below = np.zeros((BETWEEN.size, WITHIN.size, ERRORS.size))
    for index, within in enumerate(WITHIN):
        for errors, weights in groups:
            away = (errors[:, None] - ERRORS) / within
            found = weights @ (-1.5 * np.log(2.0 + away**2) - math.log(within))  # (b,), ln of the density of t
            likely[:, index] += found.max() + np.log(shared @ np.exp(found - found.max()))
        away = (ERRORS - ERRORS[:, None]) / within
        below[:, index] = shared @ (0.5 + 0.5 * away / np.sqrt(2.0 + away**2))
    chances = np.exp(likely - likely.max())
    together = np.tensordot(chances / chances.sum(), below, axes=2)
    return float(np.interp(share, together, ERRORS))


ROUNDS = 60
"""Passes over all classes: one more moves no factor by 0.1 %."""
LEAST_SIZE = 1e-9
"""Of an error, so that it has a logarithm."""


def class_factors(
    sizes: Floats,
    classes: Mapping[str, NDArray[np.bool_]],
    believed: Mapping[str, float],
    share: float,
    weights: Floats,
) -> tuple[float, dict[str, float]]:
    """Return an overall size and a factor of each class: their product is the quantile `share` of the size of a row.

    A row of size e belongs to several classes. The factor of each is the quantile of e over all other factors among
    its rows, to the power of `believed` (0 leaves it at 1, 1 takes it whole); all in turn until they settle. Taken
    whole, so many rows of each class are below the product as of all rows: the condition of a quantile regression of
    ln e (Koenker and Bassett 1978), which holds class by class.
    """
    logs = np.log(np.maximum(sizes, LEAST_SIZE))
    found = dict.fromkeys(classes, 0.0)
    overall = weighted_quantile(logs, share, weights)

    def product() -> Floats:
        logs_of = [value * classes[name] for name, value in found.items()]
        return np.asarray(sum(logs_of, np.zeros(logs.shape)))

    for _ in range(ROUNDS):
        for name, members in classes.items():
            rest = logs - overall - product() + found[name]
            found[name] = believed[name] * weighted_quantile(rest[members], share, weights[members])
        overall = weighted_quantile(logs - product(), share, weights)
    return math.exp(overall), {name: math.exp(value) for name, value in found.items()}


def weighted_quantile(values: Floats, share: float, weights: Floats) -> float:
    """Return the smallest value that at least `share` of the weight does not exceed; 0 where there is none."""
    if not values.size:
        return 0.0
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(reached, share * reached[-1] * (1.0 - 1e-12))])
