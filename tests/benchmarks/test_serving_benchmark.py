"""Routing by size and dividing by prompt, as the benchmark of services compares with them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.serving.__main__ import MARKETS, case
from benchmarks.serving.divided import divided_hours, neighbouring_groups
from benchmarks.serving.hours import Hour, Stream, in_time, with_starts
from benchmarks.serving.melange import GAP, routed_hours, useful_kinds
from tests.helpers.fleet_problems import fleet


def test_routing_sends_each_size_where_it_is_cheap() -> None:
    """Long requests need the machine for $4, which carries 2/s of them; short ones one for $1."""
    rates = np.array([[4.0, 4.0], [0.0, 2.0]])
    (hour,) = routed_hours(np.array([4.0]), np.array([0.5, 0.5]), rates, np.array([1.0, 4.0]))
    assert hour.usd == 5.0 and hour.bound == pytest.approx(5.0)
    assert hour.machines.tolist() == [1.0, 1.0]
    assert np.sum([one.machines * one.rate for one in hour.streams], axis=0) == pytest.approx([2.0, 2.0])
    assert useful_kinds(np.array([[4.0, 4.0], [2.0, 2.0]]), np.array([1.0, 1.5])).tolist() == [True, False]


@pytest.mark.slow
@settings(max_examples=8, deadline=None)
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
    (routed,) = routed_hours(np.array([load]), share, rates, usd, slices=0)
    assert routed.usd <= same_mix * (1 + 1e-6)


def test_dividing_by_prompt_gives_each_machine_the_sizes_that_suit_it() -> None:
    """Of 4/s half are short: a machine for $1 carries 4/s of them, one for $4 2/s of the others; one for both is $8."""
    groups = neighbouring_groups(np.array([0.5, 0.5]))
    assert groups.tolist() == [[0.5, 0.5], [0.5, 0.0], [0.0, 0.5]]
    rates = np.array([[0.0, 0.0, 4.0], [4.0, 4.0, 4.0], [0.0, 2.0, 2.0]])
    (hour,) = divided_hours(np.array([4.0]), groups, rates, np.array([1.0, 4.0, 8.0]))
    assert hour.usd == 5.0 and hour.machines.tolist() == [1.0, 1.0, 0.0]
    assert [(one.kind, one.rate.tolist()) for one in hour.streams] == [(0, [2.0, 0.0]), (1, [0.0, 2.0])]


RATES = st.lists(st.floats(0.8, 3.0), min_size=3, max_size=3)


@pytest.mark.slow
@settings(max_examples=8, deadline=None)
@given(
    st.lists(RATES, min_size=3, max_size=3),
    st.lists(st.floats(0.2, 3.0), min_size=3, max_size=3),
    st.lists(st.floats(0.2, 2.0), min_size=4, max_size=4),
    st.floats(0.1, 0.9),
)
def test_dividing_by_prompt_is_exact_and_never_costs_more_than_one_mix_for_all(
    rates: list[list[float]], usd: list[float], loads: list[float], short: float
) -> None:
    """Three kinds, four hours, two classes: machines for all carry A, for short and long ones S and L of them.

    So much is served: A + min(S / share of the short, L / share of the long).
    """
    able, shares = np.array(rates), np.array([1.0, short, 1.0 - short])
    groups = neighbouring_groups(shares[1:])
    counts = [range(int(one) + 1) for one in np.ceil(max(loads) * shares[:, None] / able).ravel()]
    every = np.array(list(itertools.product(*counts)), dtype=np.int8)
    carried = [every[:, 3 * place : 3 * place + 3] @ (able[place] / shares[place]) for place in range(3)]
    most, dollars = carried[0] + np.minimum(carried[1], carried[2]), every @ np.tile(usd, 3)
    same = ~every[:, 3:].any(axis=1)
    for hour in divided_hours(np.array(loads), groups, able, np.array(usd)):
        fits = most >= hour.load * (1 - 1e-9)
        least = np.min(dollars[fits])
        assert hour.bound * (1 - 1e-6) <= least <= hour.usd * (1 + 1e-6)
        assert hour.usd <= least * (1 + 2 * GAP)
        assert hour.usd <= np.min(dollars[fits & same]) * (1 + 2 * GAP)
        sent = np.sum([one.machines * one.rate for one in hour.streams], axis=0)
        assert sent == pytest.approx(hour.load * shares[1:], rel=1e-6)


def test_fleets_of_hours_pay_their_starts_or_stay() -> None:
    """Loads 2, 1, 2 and a start of $0.5: a machine of $1 stopped for an hour is cheaper, at $1.5 it stays."""
    hours = [Hour(float(one), float(one), float(one), np.array([float(one)])) for one in (1, 2)]
    assert with_starts(fleet([2.0, 1.0, 2.0], [1.0], [1.0], [0.5]), hours) == 5.5
    assert with_starts(fleet([2.0, 1.0, 2.0], [1.0], [1.0], [1.5]), hours) == 6.0


@pytest.mark.long
def test_a_mixture_has_the_capacity_of_a_service_and_less_than_its_sizes_alone_where_they_share_a_machine() -> None:
    """The same mixture as the job's gives the job's capacity; at the sum of sizes alone too many answers are late."""
    one = case(1.0, "day", MARKETS["on demand"], sizes=True)
    place = next(
        n for n, kind in enumerate(one.served.kinds) if one.served.speeds.which[kind.which].gpu == "GH200-96GB"
    )
    rates = one.rates(np.vstack([one.share, np.eye(len(one.share))]))
    assert rates[0] == pytest.approx(one.problem.capacity, rel=1e-9)
    alone = 1.0 / float(np.sum(one.share / rates[1:, place]))

    def at(rate: float) -> Hour:
        return Hour(rate, 0.0, 0.0, np.zeros(0), (Stream(place, 1, rate * one.share),))

    below, together = in_time(one.served, [at(0.85 * rates[0, place]), at(alone)])
    assert below > one.served.job.latency.share > together
