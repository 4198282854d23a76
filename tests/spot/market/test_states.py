"""States of a spot market: durations by age, their means, and the share of time in each band."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.spot.states import Ages, SpotStates

RATES = st.floats(0.01, 5.0)
AGES = st.builds(lambda width, young, old: Ages((0.0, width), (young, old)), st.floats(0.1, 5.0), RATES, RATES)


@given(AGES)
@settings(derandomize=True, max_examples=50)
def test_mean_is_the_area_under_survival(ages: Ages) -> None:
    """The mean up to an age is the integral of the chance to last, and that of all ages the mean."""
    hours = np.linspace(0.0, 20.0, 20_001)
    area = np.trapezoid(ages.survival(hours), hours)
    assert ages.mean_up_to(20.0) == pytest.approx(area, rel=1e-5)
    beyond = float(ages.survival(20.0)) / ages.rates[-1]
    assert ages.mean() == pytest.approx(ages.mean_up_to(20.0) + beyond, rel=1e-9)


@given(AGES, AGES)
@settings(derandomize=True, max_examples=50)
def test_shares_of_time_fill_the_whole(up: Ages, down: Ages) -> None:
    """Bands of up-time hold the availability, all bands together the whole time."""
    market = SpotStates(up, down)
    in_up, in_down = market.shares()
    assert in_up.sum() == pytest.approx(market.availability())
    assert in_up.sum() + in_down.sum() == pytest.approx(1.0)
    assert (in_up >= 0).all() and (in_down >= 0).all()


def test_machines_that_are_never_taken_are_always_there() -> None:
    """An up-time without end gives an availability of 1, whatever outages would be."""
    market = SpotStates(Ages((0.0,), (0.0,)), Ages((0.0,), (1.0,)))
    assert market.up.mean() == math.inf
    assert market.availability() == 1.0
    assert [share.tolist() for share in market.shares()] == [[1.0], [0.0]]


@pytest.mark.parametrize(
    ("begins", "rates", "message"),
    [
        ((), (), "each age band has one rate"),
        ((0.0, 1.0), (1.0,), "each age band has one rate"),
        ((1.0,), (1.0,), "begin at 0 and rise"),
        ((0.0, 2.0, 2.0), (1.0, 1.0, 1.0), "begin at 0 and rise"),
        ((0.0,), (-1.0,), "not negative"),
        ((0.0,), (math.nan,), "finite"),
    ],
)
def test_bands_that_make_no_sense_are_refused(
    begins: tuple[float, ...], rates: tuple[float, ...], message: str
) -> None:
    """Bands rise from 0, and rates are numbers that can be rates."""
    with pytest.raises(ValueError, match=message):
        Ages(begins, rates)


def test_an_outage_without_end_is_no_market() -> None:
    """A market that may never come back has no availability."""
    with pytest.raises(ValueError, match="outage must end"):
        SpotStates(Ages((0.0,), (1.0,)), Ages((0.0, 1.0), (1.0, 0.0)))
