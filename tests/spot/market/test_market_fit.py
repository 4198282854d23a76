"""A market from its traces: figures with intervals that hold, pooled fairly, refused where little was seen."""

from __future__ import annotations

import numpy as np
import pytest

from planner.errors import InputError
from planner.spot.market_fit import fit_market, poisson_quantile, pool_runs, with_mean
from planner.spot.states import Ages, Trace

UP, DOWN = 3.0, 1.0


def trace(seed: int, hours: float, name: str = "t", heavy: bool = False, gap_seconds: float = 60) -> Trace:
    """One machine that comes and goes, met long after the market began; mean up 3 h, mean outage 1 h."""
    random = np.random.default_rng(seed)
    n = int(hours) + 200
    ups = random.exponential(UP, n)
    if heavy:  # CV 2.3, as recorded markets have
        ups = np.where(random.random(n) < 0.8, random.exponential(0.75, n), random.exponential(12, n))
    changes = np.cumsum(np.column_stack((ups, random.exponential(DOWN, n))).ravel())
    moments = 150 + np.arange(int(hours * 3600 / gap_seconds)) * gap_seconds / 3600
    return Trace(name, gap_seconds, (np.searchsorted(changes, moments) % 2 == 0).astype(np.int64))


def test_the_means_that_were_put_in_come_out() -> None:
    """A year of one machine gives its up-time, its outage and its share of time."""
    fit = fit_market([trace(1, 8000)])
    assert fit.up.mean_hours.value == pytest.approx(UP, rel=0.07)
    assert fit.down.mean_hours.value == pytest.approx(DOWN, rel=0.07)
    assert fit.availability.value == pytest.approx(0.75, abs=0.02)
    assert fit.states.availability() == pytest.approx(fit.availability.value)
    assert fit.up.cv == pytest.approx(1, abs=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("heavy", [False, True])
def test_intervals_hold_the_truth_as_often_as_they_say(heavy: bool) -> None:
    """Of 30 traces of three weeks, meant are 24 in which the 80 % interval has the true mean."""
    fits = [fit_market([trace(seed, 500, heavy=heavy)]) for seed in range(30)]
    for known, truth in (("up", UP), ("down", DOWN)):
        means = [getattr(fit, known).mean_hours for fit in fits]
        assert sum(mean.low <= truth <= mean.high for mean in means) >= 20
        assert np.mean([mean.value for mean in means]) == pytest.approx(truth, rel=0.12)
    assert sum(fit.availability.low <= 0.75 <= fit.availability.high for fit in fits) >= 20


def test_more_hours_are_surer() -> None:
    """Sixteen times as long a trace leaves about a quarter of the doubt."""
    short, long = (fit_market([trace(2, hours)]).up.mean_hours for hours in (400, 6400))
    assert (long.high / long.low - 1) < 0.4 * (short.high / short.low - 1)


def test_pooled_rates_are_ends_over_hours_of_all_traces() -> None:
    """A long trace weighs more than a short one; the same trace twice changes no rate."""
    traces = [trace(3, 400, "a"), trace(4, 100, "b")]
    both, runs = fit_market(traces), pool_runs(traces, 1)
    assert both.up.hours == pytest.approx(sum(fit_market([one]).up.hours for one in traces))
    assert both.up.ends == sum(fit_market([one]).up.ends for one in traces) == (~runs.up_censored).sum()
    single = fit_market(traces[:1])
    twice = fit_market([traces[0], Trace("again", 60, traces[0].available)])
    for one, other in ((single.up, twice.up), (single.down, twice.down)):
        if one.ages.begins == other.ages.begins:  # twice the ends may pay for a band more
            assert one.ages.rates == pytest.approx(other.ages.rates)
        assert other.mean_hours.value == pytest.approx(one.mean_hours.value, rel=0.1)
        assert other.mean_hours.high < one.mean_hours.high
    assert [one.name for one in both.traces] == ["a", "b"]


def test_the_run_that_a_trace_begins_in_does_not_bias_the_fit() -> None:
    """Many short looks at a heavy-tailed market: long runs are met more often, and still do not count double."""
    looks = [trace(seed, 60, str(seed), heavy=True) for seed in range(120)]
    fit = fit_market(looks)
    first = np.concatenate([one.runs(1).up_hours[:1] for one in looks if one.up(1)[0]])
    assert first.mean() > 1.8 * UP
    assert fit.up.mean_hours.value == pytest.approx(UP, rel=0.2)


def test_ages_that_matter_foretell_the_other_half_and_others_do_not() -> None:
    """Held out, rates by age gain where the tail is heavy, and nothing where the chance is constant."""
    heavy, constant = (fit_market([trace(5, 2000, heavy=tail)]).held_out for tail in (True, False))
    assert heavy is not None and constant is not None
    assert heavy.gain_per_end > 0.1 > 0.02 > constant.gain_per_end
    short = fit_market([trace(5, 60)])
    assert short.held_out is None


def test_each_trace_is_reported_as_it_is() -> None:
    """Its own share of time, means and losses, whatever the fit makes of them."""
    counts = np.repeat(np.tile([3, 1], 8), 60)
    seen = fit_market([Trace("t", 60, counts)], instances=2).traces[0]
    assert (seen.hours, seen.availability, seen.interruptions, seen.most_machines) == (16, 0.5, 8, 3)
    assert (seen.mean_up_hours, seen.mean_outage_hours) == (1.0, pytest.approx(8 / 7))
    assert (seen.machine_losses, seen.machine_hours) == (16, 32)


@pytest.mark.parametrize(
    ("counts", "instances", "message"),
    [
        ([1] * 600, 1, "1 machine was available 10.0 of 10.0 h, with no up-times and no outages observed"),
        ([1] * 600, 1, "about 17 days would show 20 of each"),
        ([0] * 600, 1, "no machine was ever available"),
        ([2] * 600, 4, "4 machines were never available together, at most 2; fit fewer instances"),
        ([1, 0, 0] * 4, 1, "3 up-times and 3 outages observed from beginning to end: too few for a fit"),
        ([4, 3, 3] * 4, 2, "or fit more instances, of which up to 4 were available"),
        ([4, 3, 3] * 300, 1, "or give mean_up_hours: 0.167, the mean of single machines"),
    ],
)
def test_too_little_is_refused_with_what_would_be_enough(counts: list[int], instances: int, message: str) -> None:
    """A fit of nothing would look like knowledge."""
    with pytest.raises(InputError) as raised:
        fit_market([Trace("t", 60, np.array(counts))], instances)
    (fault,) = raised.value.faults
    assert message in str(fault)


@pytest.mark.parametrize(("ends", "low", "high"), [(0, 0.0079, 1.353), (5, 2.789, 8.638), (40, 32.58, 48.99)])
def test_poisson_intervals_are_those_of_tables(ends: int, low: float, high: float) -> None:
    """Half of the chi-square quantiles at 10 and 90 % with 2 n + 1 degrees of freedom."""
    assert poisson_quantile(ends, 0.9) == pytest.approx(high, rel=0.03)
    assert poisson_quantile(ends, 0.1) == pytest.approx(low, rel=0.03, abs=0.03)


@pytest.mark.slow
def test_fits_keep_the_recorded_availability() -> None:
    """Of 12 short records, whose ends lose more of long outages; a prior draws old outages towards it."""
    usual = Ages((0.0, 0.5), (1.2, 0.8))
    for seed in range(12):
        one = trace(seed, 150, heavy=True)
        for prior in (None, usual):
            fit = fit_market([one], prior_outage=prior)
            assert fit.states.availability() == pytest.approx(one.up(1).mean(), abs=1e-9)
            assert fit.availability.low <= fit.availability.value <= fit.availability.high


def test_a_mean_is_kept_by_the_last_band_or_by_all() -> None:
    """4 h in two bands become 5 h by a slower last rate; 100 h by longer durations of the same shape."""
    ages = Ages((0.0, 1.0), (0.5, 0.2))
    longer = with_mean(ages, ages.mean() * 1.2)
    assert longer.mean() == pytest.approx(ages.mean() * 1.2)
    assert (longer.begins, longer.rates[0]) == (ages.begins, 0.5)
    longest = with_mean(ages, 100.0)
    assert longest.mean() == pytest.approx(100.0)
    assert longest.rates[0] / longest.rates[1] == pytest.approx(2.5)
