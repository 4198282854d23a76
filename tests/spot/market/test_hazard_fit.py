"""Rates by age from recorded runs: what was put in comes out, and what was not seen to end does not mislead."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.arrays import Flags, Floats
from planner.spot.market_fit import MIN_ENDS, count_ends, fit_ages, log_likelihood, shrink_old
from planner.spot.states import Ages

HEAVY = Ages((0.0, 1.0), (1.5, 0.1))


def drawn(ages: Ages, n: int, seed: int) -> Floats:
    """Durations in hours by inverting the cumulated rate of two bands."""
    young, old = ages.rates
    spent = np.random.default_rng(seed).exponential(size=n)
    border = ages.begins[1]
    return np.where(spent < young * border, spent / young, border + (spent - young * border) / old)


def whole(hours: Floats) -> Flags:
    return np.zeros(hours.size, dtype=bool)


def test_rates_by_age_are_recovered_from_many_runs() -> None:
    """Young and old rates come out within sampling error, whatever border is found near the true one."""
    hours = drawn(HEAVY, 4000, 1)
    fitted = fit_ages(hours, whole(hours), most_bands=2)
    assert fitted.begins[1] == pytest.approx(1.0, rel=0.15)
    assert fitted.rates[0] == pytest.approx(1.5, rel=0.06) and fitted.rates[1] == pytest.approx(0.1, rel=0.12)
    assert fitted.mean() == pytest.approx(HEAVY.mean(), rel=0.1)


def test_runs_that_were_cut_do_not_make_durations_look_shorter() -> None:
    """A quarter of the runs cut at random: the fit stays right where the mean of what ended is far too low."""
    hours = drawn(HEAVY, 6000, 3)
    cuts = np.random.default_rng(4).exponential(4.0, hours.size)
    seen, cut = np.minimum(hours, cuts), cuts < hours
    assert cut.mean() > 0.2
    assert hours[~cut].mean() < 0.6 * HEAVY.mean()
    assert fit_ages(seen, cut).mean() == pytest.approx(HEAVY.mean(), rel=0.08)


def test_a_band_is_several_steps_of_the_trace_wide() -> None:
    """Half of the runs end within the first step of five minutes: no band is as narrow as that."""
    step = 1 / 12
    hours = np.ceil(np.concatenate([np.full(400, 0.5 * step), drawn(HEAVY, 400, 5)]) / step) * step
    assert min(np.diff(fit_ages(hours, whole(hours)).begins)) < 4 * step
    assert min(np.diff(fit_ages(hours, whole(hours), step_hours=step).begins)) >= 4 * step - 1e-9


def test_one_rate_is_ends_over_hours() -> None:
    """With few ends there is one band, and its rate is the textbook estimate."""
    hours, cut = np.array([1.0, 2.0, 3.0, 6.0]), np.array([False, False, True, False])
    assert fit_ages(hours, cut) == Ages((0.0,), (3 / 12,))


def test_what_never_ended_is_not_held_to_last_for_ever() -> None:
    """No end at all counts as half a one; no hour at all cannot be fitted."""
    assert fit_ages(np.array([10.0]), np.array([True])).rates == (0.05,)
    with pytest.raises(ValueError, match="no observed hours"):
        fit_ages(np.zeros(0), np.zeros(0, dtype=bool))


def test_two_bands_are_the_rule_and_more_have_to_pay() -> None:
    """From ten ends on young and old have rates of their own; a third band needs data that show one."""
    constant = np.random.default_rng(5).exponential(2.0, 400)
    assert len(fit_ages(constant[:9], whole(constant[:9])).rates) == 1
    assert len(fit_ages(constant, whole(constant)).rates) == 2
    thrice = np.concatenate([drawn(HEAVY, 300, 6), np.random.default_rng(7).exponential(60.0, 150)])
    assert len(fit_ages(thrice, whole(thrice)).rates) > 2


def test_equal_durations_have_no_border_between_them() -> None:
    """Runs that all last one step are one band, not a division by zero."""
    assert fit_ages(np.full(30, 0.5), np.zeros(30, dtype=bool)) == Ages((0.0,), (2.0,))


durations = st.lists(st.tuples(st.integers(1, 200), st.booleans()), min_size=1, max_size=80)


@settings(derandomize=True, max_examples=60, deadline=None)
@given(runs=durations)
def test_every_band_has_ends_and_all_hours_are_counted(runs: list[tuple[int, bool]]) -> None:
    """Borders never cut off a band of few ends; bands share out every end and hour exactly once."""
    hours, cut = np.array([n / 10 for n, _ in runs]), np.array([flag for _, flag in runs])
    ages = fit_ages(hours, cut)
    ended, spent = count_ends(ages, hours, cut)
    assert ended.sum() == (~cut).sum() and spent.sum() == pytest.approx(hours.sum())
    assert all(rate > 0 for rate in ages.rates)
    if len(ages.rates) > 1:
        assert ended.sum(axis=0).min() >= MIN_ENDS
        assert ages.rates == pytest.approx(ended.sum(axis=0) / spent.sum(axis=0))


@settings(derandomize=True, max_examples=60, deadline=None)
@given(runs=durations, factor=st.floats(0.2, 5), band=st.integers(0, 3))
def test_no_other_rates_are_likelier(runs: list[tuple[int, bool]], factor: float, band: int) -> None:
    """The fitted rates are the maximum: any band's rate changed makes the runs less likely."""
    hours, cut = np.array([n / 10 for n, _ in runs]), np.array([flag for _, flag in runs])
    if cut.all():
        return  # the half an end that stands in is not the likeliest rate, which would be none
    ages = fit_ages(hours, cut)
    band %= len(ages.rates)
    rates = tuple(rate * factor if i == band else rate for i, rate in enumerate(ages.rates))
    best = log_likelihood(ages, hours, cut)
    assert log_likelihood(Ages(ages.begins, rates), hours, cut) <= best + 1e-9
    assert log_likelihood(fit_ages(hours, cut, most_bands=1), hours, cut) <= best + 1e-9


def test_old_bands_are_drawn_towards_others_and_the_first_is_not() -> None:
    """Two ends in 40 h of the old band, 0.4 an hour elsewhere: (2 + 5) / (40 + 12.5)."""
    hours, cut = np.array([0.5] * 5 + [1.0 + 20.0] * 2), np.zeros(7, dtype=bool)
    ages, other = Ages((0.0, 1.0), (0.7, 0.05)), Ages((0.0, 0.8), (2.0, 0.4))
    found = shrink_old(ages, hours, cut, other)
    assert found.begins == ages.begins
    assert found.rates == (0.7, pytest.approx(7 / 52.5))
