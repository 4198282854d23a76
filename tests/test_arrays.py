"""What all packages share about arrays."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.arrays import distinct, distinct_names, first_least, median, without_last_bits


def test_medians_by_hand() -> None:
    """The middle of three, and the mean of the two in the middle of four."""
    assert median([7.0, 1.0, 3.0]) == 3.0
    assert median(np.array([4.0, 1.0, 9.0, 2.0])) == pytest.approx(3.0)


@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=9))
def test_the_median_is_that_of_numpy(values: list[float]) -> None:
    """On numbers without nan there is no difference."""
    assert median(values) == np.median(values)


@given(st.lists(st.integers(0, 50)))
def test_distinct_codes_are_those_that_sorting_finds(codes: list[int]) -> None:
    """Counted or sorted, the codes and their places are the same; none of an empty array."""
    array = np.asarray(codes, dtype=np.int64)
    expected = np.unique(array, return_inverse=True)
    for one, other in zip(distinct(array), expected, strict=True):
        assert one.tolist() == other.tolist()


@given(st.lists(st.sampled_from(["full", "LoRA", "QLoRA", ""])))
def test_distinct_names_are_in_order_and_lead_back(names: list[str]) -> None:
    """Each name is at the place that it was given."""
    found, place = distinct_names(names)
    assert found == sorted(set(names))
    assert [found[at] for at in place.tolist()] == names


def test_of_values_that_differ_in_their_last_bits_the_first_is_the_least() -> None:
    near = np.array([0.1 * 3, 0.3, np.inf, 0.2999])
    assert first_least(near[:3]) == 0
    assert first_least(near) == 3
    assert first_least(np.array([np.inf, np.inf])) == 0
    assert first_least(np.array([[2.0, -1.0], [np.nextafter(2.0, 0.0), -2.0]]), axis=0).tolist() == [0, 1]


def test_last_bits_are_rounded_off() -> None:
    for value in (0.1, -7.3e9, 2.0**-20, 0.0, np.inf):
        one, other = without_last_bits(np.array([value, np.nextafter(value, 1.0)]))
        assert one == other or value in (0.0, np.inf)
        assert one == value or abs(one / value - 1) < 2.0**-40
