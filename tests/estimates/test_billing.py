"""Billed hours, commitments and prices of services, worked by hand and as laws."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.estimates.billing import break_even_hours, count_terms, managed_usd, required_use_share, round_up_hours


def test_a_month_committed() -> None:
    """1,022 dollars for a month against 2 dollars an hour: 511 of 730 hours, 70 %."""
    assert float(break_even_hours(1022, 2.0)) == pytest.approx(511)
    assert float(required_use_share(1022, 2.0, 730)) == pytest.approx(0.7)


def test_a_commitment_that_never_pays() -> None:
    """Dearer than all of its hours on demand: more than all of them would be due; none for what is paid already."""
    assert float(required_use_share(2000, 2.0, 730)) > 1
    np.testing.assert_array_equal(break_even_hours([5.0, 0.0, 0.0], [0.0, 0.0, 2.0]), [np.inf, 0.0, 0.0])


@pytest.mark.parametrize(
    ("expected", "late", "after", "terms", "goes_on"),
    [
        (600.0, 650.0, 2.0, 1, False),  # within the term
        (700.0, 754.0, 2.0, 1, True),  # late hours alone follow it
        (800.0, 862.0, 2.0, 1, True),  # 70 h at $2 are less than a month
        (800.0, 862.0, np.nan, 2, False),  # nothing to go on with
        (1400.0, 1508.0, 2.0, 2, True),  # 670 h at $2 are more than a month: the third is not needed
        (730.0, 730.0, 2.0, 1, False),  # a whole term ends in it
    ],
)
def test_terms_follow_each_other_or_are_followed_by_hours_on_demand(
    expected: float, late: float, after: float, terms: int, goes_on: bool
) -> None:
    """Months of 730 h for $1,022; without a commitment there is one term without end."""
    assert tuple(map(float, count_terms(expected, late, 730.0, 1022.0, after))) == (terms, goes_on)
    assert tuple(map(float, count_terms(expected, late, np.inf, 0.0, np.nan))) == (1, False)


@settings(max_examples=80, derandomize=True)
@given(st.floats(0.01, 1e6), st.floats(0.01, 1e3))
def test_both_ways_cost_the_same_at_the_break_even(committed: float, hourly: float) -> None:
    """At that many hours on demand costs what the commitment does."""
    assert float(break_even_hours(committed, hourly)) * hourly == pytest.approx(committed)


@pytest.mark.parametrize(
    ("hours", "step", "minimum", "billed"),
    [
        (1.2, 1.0, 1.0, 2.0),  # a started step is a whole one
        (2.0000000001, 1.0, 1.0, 2.0),  # rounding of the machine is no started step
        (0.1, 1 / 60, 1.0, 1.0),  # the minimum replaces shorter hours
        (1.5, 0.5, 1.0, 1.5),  # and is not added to longer ones
        (0.0, 1.0, 1.0, 0.0),  # a market that is not used costs nothing
    ],
)
def test_hours_are_billed_in_whole_steps_from_the_minimum_on(
    hours: float, step: float, minimum: float, billed: float
) -> None:
    """Each line by hand."""
    assert float(round_up_hours(hours, step, minimum)) == pytest.approx(billed)


def test_a_service_takes_its_minimum_for_every_run() -> None:
    """3 M tokens at $2 a million and $1 a run: $7 in one run; two runs at a minimum of $5 each cost $10, not $8."""
    assert managed_usd(3e6, 1, 2.0, 1.0, 5.0) == pytest.approx(7.0)
    assert managed_usd(3e6, 2, 2.0, 1.0, 5.0) == pytest.approx(10.0)
