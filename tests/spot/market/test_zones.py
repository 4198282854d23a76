"""Several zones as one market: where a run goes, what it meets there, and what that teaches."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.errors import InputError
from planner.spot.market_fit import (
    POOL_WEIGHT,
    FallingRate,
    UpTimes,
    doubling_bands,
    fit_ages,
    fit_falling_rate,
    fit_stays,
    fit_zones,
    zone_factor,
)
from planner.spot.states import (
    Ages,
    SpotStates,
    Trace,
    ZoneGroup,
    ages_on,
    expected_rest,
    follow,
    group_zones,
    hops,
    sample_states,
    sticky_trace,
    worth_of,
)

AGES = Ages((0.0, 1.0, 4.0), (0.8, 0.2, 0.05))


def group(*rows: str, usd: tuple[float, ...] | None = None) -> ZoneGroup:
    """Return zones of half-hour steps from rows of 0 and 1."""
    up = np.array([[mark == "1" for mark in row] for row in rows])
    return ZoneGroup(tuple("abcdefgh"[: len(rows)]), 0.5, up, np.array(usd or (1.0,) * len(rows)))


def drawn(seed: int, zones: int = 3, steps: int = 4000) -> ZoneGroup:
    """Return independent zones of known ages."""
    states = SpotStates(AGES, Ages((0.0, 0.5), (1.5, 0.4)))
    up = sample_states(states, zones, steps, 0.1, np.random.default_rng(seed)).up
    return ZoneGroup(tuple("abcdefgh"[:zones]), 0.1, np.asarray(up, dtype=bool), np.ones(zones))


def test_the_expected_rest_is_the_mean_of_what_outlives_an_age() -> None:
    """At age 0 it is the mean duration; later it is the integral of the survival, and it grows with the age."""
    assert expected_rest(AGES, np.array([0.0]), np.inf)[0] == pytest.approx(AGES.mean())
    for age in (0.0, 0.5, 1.0, 2.5, 9.0):
        for within in (2.0, 24.0, 400.0):
            hours = np.linspace(0, within, 400_001)
            alive = AGES.survival(hours + age) / AGES.survival(age)
            rest = expected_rest(AGES, np.array([age]), within)[0]
            assert rest == pytest.approx(np.trapezoid(alive, hours), rel=1e-4)
    assert expected_rest(AGES, np.array([2.5])) == expected_rest(AGES, np.array([2.5]), 24.0)
    assert expected_rest(Ages((0.0,), (0.0,)), np.array([3.0])).tolist() == [24.0]


def test_a_run_stays_until_its_zone_is_lost_then_takes_the_longest_expected_stay_per_dollar() -> None:
    """Of three zones the lasting one is taken; a higher price outweighs it; without any zone the run waits."""
    one = group("1100001", "1111000", "0111100")
    stays = [Ages((0.0,), (rate,)) for rate in (1.0, 0.5, 0.1)]
    assert follow(worth_of(one, stays), [0], 7).tolist() == [[2, 2, 2, 2, 3, 0, 1]]
    assert hops(follow(worth_of(one, stays), [0], 7)).tolist() == [[False, False, False, False, True, False, False]]
    costly = group("1100001", "1111000", "0111100", usd=(1.0, 4.0, 1.0))
    assert follow(worth_of(costly, stays), [0, 1], 6).tolist() == [[1, 1, 3, 3, 3, 0], [3, 3, 3, 3, 0, 1]]


def test_a_hop_is_an_outage_of_one_step_in_the_trace_of_the_group() -> None:
    """Every other step is up wherever any zone is."""
    one = group("1110000", "0011110")
    assert sticky_trace(one, worth_of(one, [Ages((0.0,), (1.0,))] * 2)).available.tolist() == [1, 1, 1, 0, 1, 1, 0]


@given(st.integers(1, 5), st.integers(1, 40), st.floats(0.05, 0.95), st.integers(0, 10**6))
def test_a_run_is_in_a_zone_wherever_one_is_up_and_never_leaves_one_that_is(
    count: int, ticks: int, share: float, seed: int
) -> None:
    """Whatever the zones do."""
    up = np.random.default_rng(seed).random((count, ticks)) < share
    zones = ZoneGroup(tuple("abcdefgh"[: len(up)]), 1.0, up, np.ones(len(up)))
    path = follow(worth_of(zones, [AGES] * len(up)), [0], up.shape[1])[0]
    assert ((path > 0) == up.any(axis=0)).all()
    for tick, zone in enumerate(path):
        assert zone == 0 or up[zone - 1, tick]
        if tick and path[tick - 1] and up[path[tick - 1] - 1, tick]:
            assert zone == path[tick - 1]


@pytest.mark.parametrize("copies", [2, 5])
def test_zones_that_fail_together_are_one_zone(copies: int) -> None:
    """Equal zones have no other to go to: the same states as one of them alone."""
    one = drawn(3, zones=1)
    ups = one.trace(0).runs(1, with_first=False)
    alone = fit_ages(ups.up_hours, ups.up_censored, step_hours=one.gap_hours)
    same = ZoneGroup(tuple("abcdefgh"[:copies]), one.gap_hours, np.repeat(one.up, copies, axis=0), np.ones(copies))
    fit = fit_zones(same)
    assert fit.hops == 0
    assert fit.states.instant == 0
    assert fit.states.up == alone
    runs = one.trace(0).runs(1, with_first=False)
    assert fit.states.down.mean() == pytest.approx(runs.down_hours.mean(), rel=0.1)


def test_a_group_is_available_more_often_than_its_zones_and_the_fit_says_so() -> None:
    """Three independent zones: fitted stays, outages and chance of another zone give the share that was observed."""
    zones = drawn(1, steps=20_000)
    fit = fit_zones(zones)
    share = zones.up.any(axis=0).mean()
    assert share > zones.up.mean(axis=1).max() + 0.05
    assert fit.states.availability() == pytest.approx(share, abs=0.02)
    # Machines are lost more often while few zones are up, so less than at a random moment.
    assert 0.5 < fit.states.instant < zones.up[:2].any(axis=0).mean()
    assert fit.mean_usd_per_hour == pytest.approx(1.0)


def test_rare_outages_of_all_zones_are_weighed_against_those_of_single_zones() -> None:
    """One short outage of all zones does not make all later ones short."""
    zones = drawn(2, zones=2, steps=3000)
    up = zones.up.copy()
    up[0] |= ~up[1]
    up[:, 1500:1502] = False
    fit = fit_zones(ZoneGroup(zones.names, zones.gap_hours, up, zones.usd_per_hour))
    single = zones.trace(1).runs(1, with_first=False).down_hours.mean()
    assert 0.3 * single < fit.states.down.mean() < single
    assert POOL_WEIGHT >= 1


def test_sampled_groups_have_the_availability_and_the_hops_of_their_states() -> None:
    """The chance to move on, and the share of time in which any zone is up."""
    states = SpotStates(Ages((0.0,), (0.5,)), Ages((0.0,), (1.0,)), 0.6)
    paths = sample_states(states, 400, 2000, 0.1, np.random.default_rng(5)).up
    assert (paths > 0).mean() == pytest.approx(states.availability(), abs=0.01)
    moves = hops(np.asarray(paths, dtype=np.int64)).sum()
    outages = ((paths[:, :-1] > 0) & (paths[:, 1:] == 0)).sum()
    assert moves / (moves + outages) == pytest.approx(0.6, abs=0.02)


def test_traces_that_do_not_cover_the_same_time_are_refused() -> None:
    """Other steps, other lengths, or one zone only: each with its reason."""
    one, short = Trace("a", 300.0, np.ones(100, int)), Trace("b", 300.0, np.ones(99, int))
    slow = Trace("c", 600.0, np.ones(100, int))
    with pytest.raises(InputError) as found:
        group_zones([one, short, slow])
    assert [fault.where for fault in found.value.faults] == ["", ""]
    assert "99 steps" in str(found.value)
    assert "step of 600 s" in str(found.value)
    with pytest.raises(InputError, match="is one zone"):
        fit_zones(group_zones([one]))
    with pytest.raises(InputError, match="0 losses"):
        fit_zones(group_zones([one, one]))


def test_the_chance_of_another_zone_is_a_chance() -> None:
    """At 1 no outage would ever come, and below 0 is none."""
    for chance in (-0.1, 1.0):
        with pytest.raises(ValueError, match="chance of another zone"):
            SpotStates(AGES, AGES, chance)


def test_a_zone_is_as_old_as_its_up_time_whenever_a_run_moves_to_it() -> None:
    """Taken at its fourth step, it has been up for three; without a zone, the age is that of the outage of all."""
    up = np.array([[1, 1, 1, 0, 0, 0, 0], [1, 1, 1, 1, 1, 0, 0]], dtype=bool)
    group = ZoneGroup(("a", "b"), 0.5, up, np.ones(2))
    zone = np.array([[1, 1, 1, 2, 2, 0, 0]])
    assert ages_on(zone, group, [0]).tolist() == [[0.0, 0.5, 1.0, 1.5, 2.0, 0.0, 0.5]]
    assert ages_on(zone[:, 2:], group, [2]).tolist() == [[1.0, 1.5, 2.0, 0.0, 0.5]]


def lomax(rng: np.random.Generator, scale: float, factor: float, count: int) -> UpTimes:
    """Draw durations whose rate is factor / (scale + age); those beyond 200 h were not seen to end."""
    hours = scale * (rng.random(count) ** (-1 / factor) - 1)
    return UpTimes(np.minimum(hours, 200.0), hours > 200.0)


def test_a_falling_rate_is_found_again() -> None:
    """Scale and factor of 4,000 up-times; a zone that is twice as good has half of the factor."""
    rng = np.random.default_rng(3)
    runs = [lomax(rng, 0.7, 1.1, 2000), lomax(rng, 0.7, 1.1, 2000)]
    shape = fit_falling_rate(runs, 0.05)
    assert shape.scale_hours == pytest.approx(0.7, rel=0.25)
    assert shape.factor == pytest.approx(1.1, rel=0.15)
    known = FallingRate(0.7, 1.1)
    assert zone_factor(lomax(rng, 0.7, 0.55, 2000), known) == pytest.approx(0.55, rel=0.07)
    # Nothing seen: what all zones are; one loss moves it little.
    nothing = UpTimes(np.zeros(0), np.zeros(0, dtype=bool))
    assert zone_factor(nothing, known) == pytest.approx(1.1)
    assert zone_factor(UpTimes(np.array([0.7]), np.array([False])), known) == pytest.approx(6 / (np.log(2) + 5 / 1.1))


def test_bands_of_a_falling_rate_survive_as_it_does() -> None:
    """Exactly at the edges, where the age plus the scale has doubled."""
    ages = doubling_bands(FallingRate(0.5, 0.8), 60.0)
    assert ages.begins[:4] == (0.0, 0.5, 1.5, 3.5)
    assert 30.0 < ages.begins[-1] < 120.0
    edges = np.array(ages.begins)
    assert ages.survival(edges) == pytest.approx((0.5 / (0.5 + edges)) ** 0.8)


def test_of_two_old_zones_the_older_one_is_taken() -> None:
    """However few ends a zone of its own has shown, what has lasted longer is expected to last longer."""
    zones = drawn(4)
    stays = fit_stays(zones)
    rest = expected_rest(stays[0], np.array([0.0, 1.0, 5.0, 20.0, 60.0]))
    assert (np.diff(rest) > 0).all()
    never = ZoneGroup(("a", "b"), 0.1, np.ones((2, 50), dtype=bool), np.ones(2))
    assert all(np.isfinite(one.mean()) for one in fit_stays(never))
