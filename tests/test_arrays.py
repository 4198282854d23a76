"""What all packages share about arrays."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.arrays import median


def test_medians_by_hand() -> None:
    """The middle of three, and the mean of the two in the middle of four."""
    assert median([7.0, 1.0, 3.0]) == 3.0
    assert median(np.array([4.0, 1.0, 9.0, 2.0])) == pytest.approx(3.0)


@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=9))
def test_the_median_is_that_of_numpy(values: list[float]) -> None:
    """On numbers without nan there is no difference."""
    assert median(values) == np.median(values)
