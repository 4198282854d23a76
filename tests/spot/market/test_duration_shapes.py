"""The prior shape of durations: its mean is the stated one, its spread that of recorded markets."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.library.reading import read_library
from planner.spot.states import Ages, DurationShape, ages_from_mean, states_from_means


@pytest.fixture(scope="module")
def shape() -> DurationShape:
    """The shape that is shipped."""
    calibration = read_library([]).calibrations["spot"]
    return DurationShape.of({key: entry.value for key, entry in calibration.coefficients.items()})


def variation(ages: Ages) -> float:
    """Coefficient of variation, by quadrature."""
    hours = np.concatenate([[0.0], np.geomspace(1e-4, 200 * ages.mean(), 40_000)])
    square = np.trapezoid(2 * hours * ages.survival(hours), hours)
    return math.sqrt(square - ages.mean() ** 2) / ages.mean()


@given(st.floats(0.01, 1000.0), st.floats(0.1, 3.0), st.floats(0.0, 1.0), st.floats(0.0, 0.95))
@settings(derandomize=True, max_examples=100)
def test_the_mean_is_the_stated_one(mean: float, hours: float, exponent: float, share: float) -> None:
    """Whatever the shape: it spreads durations and leaves their mean alone; the old never go faster than the young."""
    ages = ages_from_mean(mean, DurationShape(hours, exponent, share))
    assert ages.mean() == pytest.approx(mean, rel=1e-9)
    assert ages.rates[-1] <= ages.rates[0] * (1 + 1e-9)


@pytest.mark.parametrize(("mean", "median"), [(0.72, 0.325), (1.67, 0.542), (5.72, 0.867), (10.5, 1.246)])
def test_recorded_zones_have_this_shape(shape: DurationShape, mean: float, median: float) -> None:
    """Median up-times of four recorded zones (V100 on AWS, 2023-02; skypilot-org/spot-traces) within a third."""
    ages = ages_from_mean(mean, shape)
    at = np.linspace(0.0, mean, 10_001)
    found = at[np.argmax(ages.survival(at) < 0.5)]
    assert found == pytest.approx(median, rel=1 / 3)
    assert 1.3 < variation(ages) < 3.0


def test_no_youth_means_no_memory() -> None:
    """Without a share that ends young, durations are exponential."""
    assert ages_from_mean(4.0, DurationShape(1.0, 1.0, 0.0)) == Ages((0.0,), (0.25,))


def test_machines_that_are_never_taken(shape: DurationShape) -> None:
    """An infinite up-time is a market that is always up, even where no outage is given."""
    market = states_from_means(math.inf, 0.0, shape)
    assert market.availability() == 1.0


@pytest.mark.parametrize("mean", [0.0, -1.0, math.nan])
def test_a_mean_that_is_no_duration_is_refused(shape: DurationShape, mean: float) -> None:
    """A mean of nothing says nothing."""
    with pytest.raises(ValueError, match="mean duration must be positive"):
        ages_from_mean(mean, shape)
