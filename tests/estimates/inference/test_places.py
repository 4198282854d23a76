"""Waiting for a place: worked examples, laws, Erlang's and Pollaczek's queues, and a queue that is simulated."""

from __future__ import annotations

import heapq
from math import factorial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.estimates.latency import Places, residue_moments, wait_moments, wait_points

ONE = np.ones(1)


def same(places: int, seconds: float = 1.0) -> Places:
    """Return a replica whose requests take as long whatever is in flight."""
    return Places.of(np.array([float(places)]), np.full((1, places), seconds))


def erlang_c(places: int, load: float) -> float:
    """Return Erlang's share of requests that wait, from its sum."""
    last = load**places / factorial(places) / (1.0 - load / places)
    return last / (last + sum(load**k / factorial(k) for k in range(places)))


def late(places: int, rate: float, seconds: list[float], wait: float) -> float:
    """Return the predicted share of requests that wait longer; lengths are equally frequent."""
    mix = np.array([seconds])
    there = same(places, float(np.mean(seconds))).present(np.array([rate]))
    moments = wait_moments(np.array([float(places)]), there.use, mix, np.full(len(seconds), 1.0 / len(seconds)))
    points, shares = wait_points(there, *moments)
    return float(np.sum(shares[points > wait]))


def test_worked_examples_of_the_docstrings() -> None:
    """Each formula at the numbers that its docstring names."""
    there = same(2).present(ONE)
    assert (there.waits[0], there.met[0], there.flight[0]) == pytest.approx((1 / 3, 5 / 3, 1.0))
    assert residue_moments(np.array([3.0]), np.ones((1, 1)), ONE) == (
        pytest.approx(1 / 4), pytest.approx(1 / 10),
    )  # fmt: skip
    mean, variance = wait_moments(ONE, np.array([0.5]), np.ones((1, 1)), ONE)
    assert (mean[0], variance[0]) == pytest.approx((1.0, 2 / 3))


@given(places=st.integers(1, 30), use=st.floats(0.01, 0.97))
def test_equal_seconds_give_erlangs_queue(places: int, use: float) -> None:
    """The share that waits is Erlang C, and as many have a place as rate times seconds (Little)."""
    there = same(places, 2.0).present(np.array([use * places / 2.0]))
    assert there.waits[0] == pytest.approx(erlang_c(places, use * places), rel=1e-9)
    assert there.flight[0] == pytest.approx(use * places, rel=1e-9)


@given(use=st.floats(0.05, 0.95), seconds=st.lists(st.floats(0.1, 10.0), min_size=1, max_size=4))
def test_one_place_has_the_mean_wait_of_pollaczek_and_khinchine(use: float, seconds: list[float]) -> None:
    """The mean of all waits is rate * E[S^2] / (2 (1 - use))."""
    share = np.full(len(seconds), 1.0 / len(seconds))
    mean, _ = wait_moments(ONE, np.array([use]), np.array([seconds]), share)
    rate = use / float(np.mean(seconds))
    expected = rate * float(np.mean(np.square(seconds))) / (2.0 * (1.0 - use))
    assert use * float(mean[0]) == pytest.approx(expected)


@given(places=st.integers(1, 40), use=st.floats(0.05, 0.9), slope=st.floats(0.0, 0.3))
def test_more_places_and_fewer_requests_never_wait_more(places: int, use: float, slope: float) -> None:
    """At the same rate one more place lets fewer wait; a higher rate lets more wait; waits are finite."""
    rate = np.array([use * places / (1.0 + slope * places)])
    some, more = (
        Places.of(np.array([float(m)]), 1.0 + slope * np.arange(1.0, m + 1.0)[None, :]) for m in (places, places + 1)
    )
    assert more.present(rate).waits[0] <= some.present(rate).waits[0] + 1e-12
    assert some.present(rate * 1.05).waits[0] >= some.present(rate).waits[0]
    assert 1.0 <= some.present(rate).met[0] <= places
    assert some.present(rate).variance[0] <= places**2 / 4.0 + 1e-9


def test_very_many_places_are_met_as_without_a_queue() -> None:
    """Of 2,000 places nobody waits, and a request meets a Poisson number of others."""
    there = same(2000).present(np.array([30.0]))
    assert there.waits[0] == 0.0
    assert (there.met[0], there.variance[0]) == pytest.approx((31.0, 30.0))


def simulated_waits(places: int, rate: float, seconds: list[float], count: int = 200_000) -> np.ndarray:
    """Return the waits of requests that take places in their order."""
    random = np.random.default_rng(1)
    arrivals = np.cumsum(random.exponential(1.0 / rate, count))
    takes = random.choice(seconds, count)
    free, found = [0.0] * places, np.zeros(count)
    for one in range(count):
        start = max(arrivals[one], heapq.heappop(free))
        heapq.heappush(free, start + takes[one])
        found[one] = start - arrivals[one]
    return found[count // 20 :]


@pytest.mark.slow
@pytest.mark.parametrize("places", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("seconds", [[1.0], [0.3, 3.0]])
def test_waits_are_those_of_a_simulated_queue(places: int, seconds: list[float]) -> None:
    """At 70 % the shares that wait at all, and longer than the simulated 95 %: within 2.5 points."""
    rate = 0.7 * places / float(np.mean(seconds))
    met = simulated_waits(places, rate, seconds)
    for wait in (0.0, float(np.quantile(met, 0.95))):
        assert late(places, rate, seconds, wait) == pytest.approx(float(np.mean(met > wait)), abs=0.025)
