"""Routing by size, as the benchmark of services compares with it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.serving.melange import routed_usd, useful_kinds


def test_routing_sends_each_size_where_it_is_cheap() -> None:
    """Long requests need the machine for $4, which carries 2/s of them; short ones one for $1."""
    rates = np.array([[4.0, 4.0], [0.0, 2.0]])
    usd, bound = routed_usd(np.array([4.0]), np.array([0.5, 0.5]), rates, np.array([1.0, 4.0]))
    assert usd.tolist() == [5.0] and bound[0] == pytest.approx(5.0)
    assert useful_kinds(np.array([[4.0, 4.0], [2.0, 2.0]]), np.array([1.0, 1.5])).tolist() == [True, False]


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0.3, 4.0), st.floats(0.3, 4.0), st.floats(0.2, 3.0)), min_size=1, max_size=3),
    st.floats(0.2, 6.0),
    st.floats(0.05, 0.95),
)
def test_free_routing_never_costs_more_than_the_same_mix_for_all(
    kinds: list[tuple[float, float, float]], load: float, short: float
) -> None:
    """Machines that all get the same mix carry 1 / sum(share / rate); the best of them by trying all."""
    share = np.array([short, 1.0 - short])
    rates, usd = np.array([one[:2] for one in kinds]).T, np.array([one[2] for one in kinds])
    able = 1.0 / (share @ (1.0 / rates))
    counts = [range(int(np.ceil(load / one)) + 1) for one in able]
    same_mix = min(usd @ one for one in itertools.product(*counts) if able @ one >= load * (1 - 1e-12))
    routed, _ = routed_usd(np.array([load]), share, rates, usd, slices=0)
    assert routed[0] <= same_mix * (1 + 1e-6)
