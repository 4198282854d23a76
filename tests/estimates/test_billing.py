"""When a commitment pays, worked by hand and as a law."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.estimates.billing import break_even_hours, required_use_share


def test_a_month_committed() -> None:
    """1,022 dollars for a month against 2 dollars an hour: 511 of 730 hours, 70 %."""
    assert float(break_even_hours(1022, 2.0)) == pytest.approx(511)
    assert float(required_use_share(1022, 2.0, 730)) == pytest.approx(0.7)


def test_a_commitment_that_never_pays() -> None:
    """Dearer than all of its hours on demand: more than all of them would be due; none for what is paid already."""
    assert float(required_use_share(2000, 2.0, 730)) > 1
    np.testing.assert_array_equal(break_even_hours([5.0, 0.0, 0.0], [0.0, 0.0, 2.0]), [np.inf, 0.0, 0.0])


@settings(max_examples=80, derandomize=True)
@given(st.floats(0.01, 1e6), st.floats(0.01, 1e3))
def test_both_ways_cost_the_same_at_the_break_even(committed: float, hourly: float) -> None:
    """At that many hours on demand costs what the commitment does."""
    assert float(break_even_hours(committed, hourly)) * hourly == pytest.approx(committed)
