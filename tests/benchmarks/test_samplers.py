"""Samplers of the spot benchmark: their statistics are those they were drawn from."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.spot.samplers import (
    QUANTILES,
    batch_hit_probability,
    lognormal_draw,
    quantile_draw,
    sample_node_group,
    weibull_draw,
)
from planner.arrays import Flags
from planner.spot.states import Draw


def drawn(draw: Draw, n: int = 200_000, seed: int = 1) -> np.ndarray:
    """Durations."""
    return draw(np.random.default_rng(seed), n)


def losses_per_up_hour(up: Flags, tick: float) -> float:
    """Interruptions in an hour of being up."""
    return float((up[:, :-1] & ~up[:, 1:]).sum() / (up[:, :-1].sum() * tick))


@pytest.mark.parametrize("draw", [lognormal_draw, weibull_draw])
def test_renewal_draws_have_the_mean_and_variation_asked_for(draw: object) -> None:
    """Both distributions at a coefficient of variation of 1.5."""
    hours = drawn(draw(3.0, 1.5), 1_000_000)  # type: ignore[operator]
    assert hours.mean() == pytest.approx(3.0, rel=0.02)
    assert hours.std() / hours.mean() == pytest.approx(1.5, rel=0.04)


ROW = (2590.0, (585, 585, 585, 1170, 2535, 5616, 9711, 20132), 29055.0)
"""Up-times of one zone in seconds: mean, quantiles, longest (of skypilot-org/spot-traces, our statistics)."""


def test_a_table_of_quantiles_is_reproduced_with_its_mean() -> None:
    """Each quantile within 1 %, the mean within 1 %, nothing outside."""
    seconds = drawn(quantile_draw(*ROW))
    assert np.quantile(seconds, QUANTILES) == pytest.approx(ROW[1], rel=0.01)
    assert seconds.mean() == pytest.approx(ROW[0], rel=0.01)
    assert seconds.min() >= 585
    assert seconds.max() <= 29055


def test_a_mean_that_its_quantiles_contradict_is_approached() -> None:
    """The curve bends as far as it can, and keeps the quantiles."""
    seconds = drawn(quantile_draw(1.0, *ROW[1:]))
    assert np.quantile(seconds, 0.75) == pytest.approx(2535, rel=0.02)
    assert seconds.mean() < 2590
    with pytest.raises(ValueError, match="rise"):
        quantile_draw(1.0, ROW[1][::-1], 29055.0)


@pytest.mark.slow
@settings(derandomize=True, max_examples=20, deadline=None)
@given(st.integers(1, 12), st.integers(0, 1000))
def test_gangs_are_up_less_the_larger_they_are(size: int, seed: int) -> None:
    """A larger gang is hit more often and by the same outages; ages are never longer than what was looked at."""
    small, large = (
        sample_node_group(
            k, lognormal_draw(0.2, 1.0), lognormal_draw(1.0, 1.0), 60, 400, 0.1, np.random.default_rng(seed)
        )
        for k in (1, 1 + size)
    )
    assert large.up.mean() < small.up.mean() + 0.02
    assert (large.age_hours <= 0.1 * 200 + 1e-9).all()


def test_a_gang_is_interrupted_about_k_to_the_0_8_times_as_often() -> None:
    """Exponents of 0.7 to 0.9 from 1 to 8 instances, in the chances and in the paths drawn with them."""
    gap, outage = lognormal_draw(0.25, 1.0), lognormal_draw(0.3, 1.0)
    rates = {
        k: losses_per_up_hour(sample_node_group(k, gap, outage, 1500, 600, 0.1, np.random.default_rng(k)).up, 0.1)
        for k in (1, 4, 8)
    }
    for k in (4, 8):
        assert 0.7 < math.log(batch_hit_probability(k) / batch_hit_probability(1)) / math.log(k) < 0.9
        assert 0.65 < math.log(rates[k] / rates[1]) / math.log(k) < 0.9
