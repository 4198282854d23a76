"""What is distinct in arrays: equal to numpy's own answer."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from planner.arrays import distinct, distinct_names


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
