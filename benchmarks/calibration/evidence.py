"""How much rows that no fit has seen say of a spread, for new rows of the same sources and for sources yet unseen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.accuracy.predictions import Prediction
from benchmarks.accuracy.splits import organisation
from benchmarks.calibration.fitting import source_weights
from planner.arrays import Floats

MEASURES = (("sigma", 0.68, 1.0), ("sigma_tail", 0.96, 1.96))
"""Name of a spread, share of rows in its range (in the middle of what is asked for), reach of the range in spreads."""
EXTRA_ROWS, EXTRA_SOURCES = 25, 2
"""A class is drawn towards all rows as if so many of their rows, or organisations, belonged to it."""


@dataclass(frozen=True)
class Evidence:
    """Counts rows where new ones come from the same sources, else organisations."""

    of_sources: bool

    def weights(self, predictions: Sequence[Prediction]) -> Floats:
        """Return the weight of each row: all equal, or smaller in large organisations."""
        if self.of_sources:
            return source_weights([organisation(p.row) for p in predictions])
        return np.ones(len(predictions))

    def believed(self, predictions: Sequence[Prediction]) -> float:
        """Return the share, 0 to 1, that the rows of a class have in its spread."""
        if self.of_sources:
            publishers = len({organisation(p.row) for p in predictions})
            return publishers / (publishers + EXTRA_SOURCES)
        return len(predictions) / (len(predictions) + EXTRA_ROWS)


def weighted_quantile(values: Floats, share: float, weights: Floats) -> float:
    """Return the smallest value that at least `share` of the weight does not exceed; 0 where there is none."""
    if not values.size:
        return 0.0
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(reached, share * reached[-1] * (1.0 - 1e-12))])
