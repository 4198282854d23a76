"""Streams of requests: their rate, how much their gaps vary, and their lengths."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from planner.estimates.latency import Lengths
from planner.services.service_simulation import SimulatedFleet, SpotKind, load_of
from planner.services.simulated_engine import STREAMS, drawn_lengths, gaps


@pytest.mark.parametrize("name", ["Poisson", "bursts"])
@pytest.mark.parametrize("routed", [1.0, 0.25])
def test_gaps_have_the_rate_and_the_variation_that_routing_leaves(name: str, routed: float) -> None:
    """A share p of a stream whose gaps have the squared variation v is left with 1 + p (v - 1)."""
    shape = STREAMS[name]  # type: ignore[index]
    found = gaps(np.array([4.0]), np.array([routed]), shape, 200_000, np.random.default_rng(1))[0]
    assert np.mean(found) == pytest.approx(0.25, rel=0.02)
    assert np.var(found) / np.mean(found) ** 2 == pytest.approx(1.0 + routed * (1.0 / shape - 1.0), rel=0.05)


def test_lengths_come_as_often_as_they_should() -> None:
    """Three to one."""
    lengths = Lengths(np.array([10.0, 20.0]), np.array([1.0, 1.0]), np.array([3.0, 1.0]))
    assert np.mean(drawn_lengths(lengths, 100, 1000, np.random.default_rng(1))) == pytest.approx(0.25, abs=0.01)


def test_a_fleet_at_full_use_refuses_nothing_by_rounding() -> None:
    """The shares of 9.78 and 10.96 requests/s add up to a little less than one."""
    rates = np.array([9.78, 10.96])
    fleet = SimpleNamespace(
        replicas=np.ones((24, 2)),
        job=SimpleNamespace(load=SimpleNamespace(hourly=(float(np.sum(rates)),) * 24, concurrent=None)),
        capacities=SimpleNamespace(rate=rates),
        spot=(SpotKind("", 1.0, float("inf"), 0.1),) * 2,
    )
    assert load_of(cast("SimulatedFleet", fleet)).refused == 0.0
