"""Random markets: their statistics are those they were drawn from, and a seed says everything."""

from __future__ import annotations

import math

import numpy as np
import pytest

from planner.arrays import Flags
from planner.spot.states import Ages, Draw, SpotStates, ages_draw, sample_paths, sample_states

STATES = SpotStates(up=Ages((0.0, 1.0), (1.0, 0.1)), down=Ages((0.0, 0.5), (1.5, 0.4)))


def drawn(draw: Draw, n: int = 200_000, seed: int = 1) -> np.ndarray:
    """Durations."""
    return draw(np.random.default_rng(seed), n)


def losses_per_up_hour(up: Flags, tick: float) -> float:
    """Interruptions in an hour of being up."""
    return float((up[:, :-1] & ~up[:, 1:]).sum() / (up[:, :-1].sum() * tick))


def test_ages_give_durations_whose_rate_is_theirs() -> None:
    """Share older than t follows the cumulated rate; the mean is the integral of that share."""
    hours = drawn(ages_draw(STATES.up))
    assert np.mean(hours > 1) == pytest.approx(math.exp(-1), abs=0.005)
    assert np.mean(hours > 5) == pytest.approx(math.exp(-1.4), abs=0.005)
    assert hours.mean() == pytest.approx(1 - math.exp(-1) + math.exp(-1) / 0.1, rel=0.02)


@pytest.mark.parametrize("tick", [0.05, 0.25])
def test_availability_and_interruptions_are_those_of_the_durations(tick: float) -> None:
    """Up for mean up / (mean up + mean down) of the time, first tick and last; no short outage is missed."""
    up, down = (ages_draw(Ages((0.0,), (1 / mean,))) for mean in (4.0, 2.0))
    sampled = sample_paths(up, down, 4000, 300, tick, np.random.default_rng(3)).up
    for column in (0, 150, 299):
        assert sampled[:, column].mean() == pytest.approx(4 / 6, abs=0.025)
    assert losses_per_up_hour(sampled, tick) == pytest.approx(1 / 4, rel=0.05)


def test_paths_of_states_start_as_if_they_had_always_been() -> None:
    """Share up and mean age at the start do not depend on the length of the paths."""
    paths = sample_states(STATES, 20_000, 40, 0.1, np.random.default_rng(4))
    up, down = drawn(ages_draw(STATES.up)), drawn(ages_draw(STATES.down))
    assert paths.up.mean() == pytest.approx(up.mean() / (up.mean() + down.mean()), abs=0.02)
    met = (up**2).mean() / up.mean() / 2  # mean age of what one meets at a random moment
    assert paths.age_hours[paths.up[:, 0]].mean() == pytest.approx(met, rel=0.05)


def test_a_seed_gives_the_same_paths_again() -> None:
    """And another seed gives others."""
    first, again, other = (sample_states(STATES, 50, 100, 0.1, np.random.default_rng(seed)).up for seed in (7, 7, 8))
    assert (first == again).all()
    assert (first != other).any()
