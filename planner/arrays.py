"""Types of numpy arrays, and their median."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]


def median(values: Floats | Sequence[float]) -> float:
    """Return the median of at least one number, none of them nan.

    `np.median` loads masked arrays, which takes as long as a tenth of numpy.
    """
    ordered, middle = np.sort(np.asarray(values, dtype=float)), len(values) // 2
    return float(ordered[middle] if len(values) % 2 else (ordered[middle - 1] + ordered[middle]) / 2)
