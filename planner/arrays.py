"""Types of numpy arrays, their median, and what is distinct in them."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]


LAST_BITS = 1e-12
"""Relative: values closer than this are equal. What processors disagree about is some bits, 1e-16 each."""


def first_least(values: Floats, axis: int | None = None) -> Integers:
    """Return the first place of the least value, as `np.argmin` does, where values that differ in their last bits tie.

    The last bit of a logarithm or a power depends on the processor; which of two equal rows is taken must not.
    """
    least = np.min(values, axis=axis, keepdims=True)
    with np.errstate(invalid="ignore"):
        near = values <= least + LAST_BITS * np.abs(least)
    return np.asarray(np.argmax(near | (values == least), axis=axis))


def without_last_bits(values: Floats) -> Floats:
    """Return the values rounded to 2^-40 of themselves: numbers that differ in their last bits become equal."""
    bits = np.ascontiguousarray(values, dtype=float).view(np.int64)
    return ((bits + (1 << 11)) & ~((1 << 12) - 1)).view(np.float64)


def median(values: Floats | Sequence[float]) -> float:
    """Return the median of at least one number, none of them nan.

    `np.median` loads masked arrays, which takes as long as a tenth of numpy.
    """
    ordered, middle = np.sort(np.asarray(values, dtype=float)), len(values) // 2
    return float(ordered[middle] if len(values) % 2 else (ordered[middle - 1] + ordered[middle]) / 2)


def distinct(codes: Integers) -> tuple[Integers, Integers]:
    """Return the distinct codes in rising order, and the place (n,) of each code (n,) among them.

    [7, 2, 7] gives [2, 7] and [1, 0, 1]. Codes are from 0 to not much more than their number: they are counted, which
    takes a tenth of the time of sorting them (`np.unique`).
    """
    found = np.flatnonzero(np.bincount(codes))
    place = np.zeros(found[-1] + 1 if len(found) else 0, dtype=np.int64)
    place[found] = np.arange(len(found))
    return found, place[codes]


def distinct_names(names: Sequence[str]) -> tuple[list[str], Integers]:
    """Return the distinct names in order, and the place (n,) of each among them."""
    found = sorted(set(names))
    place = {name: number for number, name in enumerate(found)}
    return found, np.asarray([place[name] for name in names], dtype=np.int64)
