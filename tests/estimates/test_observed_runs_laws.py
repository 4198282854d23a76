"""What observed runs teach: shrunk medians, and spreads that narrow where the runs agree."""

from __future__ import annotations

import math
from statistics import median

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.estimates.uncertainty import (
    Sigmas,
    corrected_fit_sigma,
    corrected_sigmas,
    log_memory_scale,
    log_speed_correction,
    memory_half_weight_runs,
)

LOGS = st.lists(st.floats(-2, 2), min_size=1, max_size=9)
SPREAD = st.floats(0.02, 0.8)


def test_one_run_is_believed_to_two_thirds_and_five_to_ten_elevenths() -> None:
    """k / (k + 0.5) of the median, as published runs had it."""
    assert log_speed_correction([0.3], 0.5) == pytest.approx(0.2)
    assert log_speed_correction([0.1, 0.3, 0.2, 0.9, 0.0], 0.5) == pytest.approx(0.2 * 5 / 5.5)


def test_without_runs_nothing_is_corrected() -> None:
    """The factor is one, on speed and on memory."""
    assert log_speed_correction([], 0.5) == log_memory_scale([], 1.0) == 0.0


@settings(derandomize=True, max_examples=60, deadline=None)
@given(logs=LOGS, half=st.floats(0.05, 4))
def test_a_correction_goes_towards_the_median_and_never_past_it(logs: list[float], half: float) -> None:
    """Estimates are drawn to what was observed, not beyond."""
    middle = median(logs)
    for found in (log_speed_correction(logs, half), log_memory_scale(logs, half)):
        assert abs(found) <= abs(middle) and found * middle >= 0


@settings(derandomize=True, max_examples=60, deadline=None)
@given(display=SPREAD, tail=SPREAD, runs=st.integers(1, 20))
def test_spread_never_widens_and_a_nearer_run_narrows_it_more(display: float, tail: float, runs: int) -> None:
    """Same card before other card before other source, and more runs before fewer."""
    before = Sigmas(display, tail)

    def after(difference: float, count: int = runs) -> Sigmas:
        return corrected_sigmas(before, difference, 0.23, 1.8, count, 0.5)

    same, other, far, more = after(0.10), after(0.14), after(0.23), after(0.10, runs + 1)
    for nearer, wider in ((same, other), (other, far), (far, before), (more, same)):
        assert 0 < float(nearer.display) <= float(wider.display)
        assert 0 < float(nearer.tail) <= float(wider.tail)


def test_the_usual_spread_after_one_run_on_the_same_card() -> None:
    """hf: 0.20 before; 0.10 is not shared, a third of 0.20 is not yet believed: 0.12."""
    found = corrected_sigmas(Sigmas(0.20, 0.20), 0.10, 0.23, 1.8, 1, 0.5)
    assert float(found.display) == pytest.approx(math.hypot(0.10, 0.20 / 3))
    assert float(found.tail) == pytest.approx(math.hypot(0.18, 0.20 / 3))


def test_runs_that_contradict_each_other_set_the_spread() -> None:
    """Half and double the estimate: s = ln(4) / sqrt(2), of one more run sqrt(1.5) of it, whatever it was before."""
    logs = [math.log(0.5), math.log(2.0)]
    found = corrected_sigmas(Sigmas(0.20, 0.20), 0.109, 0.249, 1.8, 2, 0.5, logs)
    scatter = math.log(4) / math.sqrt(2) * math.sqrt(1.5)
    assert float(found.display) == pytest.approx(scatter, rel=1e-9)
    assert float(found.tail) == pytest.approx(1.8 * scatter, rel=1e-9)


@settings(derandomize=True, max_examples=60, deadline=None)
@given(logs=st.lists(st.floats(-0.6, 0.6), min_size=2, max_size=9), more=st.floats(1, 3), display=SPREAD)
def test_the_more_runs_scatter_the_wider_is_the_spread(logs: list[float], more: float, display: float) -> None:
    """Never narrower than for runs that agree, nor for runs that lie nearer to the same middle."""
    before, middle = Sigmas(display, display), median(logs)

    def after(by: float) -> float:
        spread = [middle + (one - middle) * by for one in logs]
        return float(corrected_sigmas(before, 0.109, 0.249, 1.8, len(logs), 0.5, spread).display)

    assert after(0.0) <= after(1.0) * (1 + 1e-12) and after(1.0) <= after(more) * (1 + 1e-12)


@settings(derandomize=True, max_examples=40, deadline=None)
@given(far=st.floats(math.log(2) + 1e-6, 3), sign=st.sampled_from([-1, 1]), display=SPREAD)
def test_a_run_more_than_twofold_off_narrows_nothing(far: float, sign: int, display: float) -> None:
    """It may be of other settings: it moves the estimate and makes it no surer."""
    found = corrected_sigmas(Sigmas(display, display), 0.109, 0.249, 1.8, 1, 0.5, [sign * far])
    assert float(found.display) == float(found.tail) == display


def test_an_erratic_class_keeps_its_part() -> None:
    """What is 0.5 wide, such as mixtures of experts, is not 0.1 wide for one run."""
    assert float(corrected_sigmas(Sigmas(0.5, 0.53), 0.10, 0.23, 1.8, 100, 0.5).display) > 0.2


@settings(derandomize=True, max_examples=40, deadline=None)
@given(before=st.floats(0.05, 0.5), probed=st.floats(0.03, 0.2), runs=st.integers(1, 20))
def test_memory_is_never_less_sure_for_a_probe(before: float, probed: float, runs: int) -> None:
    """Narrower or equal, and with many probes no wider than what remains with any number."""
    found = corrected_fit_sigma(before, probed, runs)
    assert 0 < found <= before
    assert corrected_fit_sigma(before, probed, 10_000) == pytest.approx(min(before, probed), rel=0.01)


def test_a_framework_without_a_memory_profile_learns_more_from_a_probe() -> None:
    """Its estimate is worth less, so the probe is worth more."""
    unknown, profiled = memory_half_weight_runs(0.30, 0.075), memory_half_weight_runs(0.08, 0.075)
    assert log_memory_scale([0.4], unknown) > log_memory_scale([0.4], profiled) > 0
