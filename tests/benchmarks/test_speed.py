"""`benchmarks.speed`: times of the processor and on the clock, and how often something is tried."""

from __future__ import annotations

import itertools

import pytest

from benchmarks.speed import timing
from benchmarks.speed.timing import Times, best_times


def test_sleep_takes_time_on_the_clock_and_none_of_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine lengthens the former more: here the first try takes longer, which only warms caches."""
    clock, naps = [0.0], iter([0.5, 0.02])

    def sleep() -> None:
        clock[0] += next(naps)

    monkeypatch.setattr(timing, "perf_counter", lambda: clock[0])
    times = best_times(sleep, 1, lambda: 7.0)
    assert times == (0.0, pytest.approx(0.02))


def test_what_takes_long_is_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The benchmark ends within three minutes: a slow first try counts, a quick one only warms caches."""
    tries: list[int] = []
    monkeypatch.setattr(timing, "perf_counter", itertools.count(0.0, 0.1).__next__)
    best_times(lambda: tries.append(1), 3)
    assert len(tries) == 4
    monkeypatch.setattr(timing, "MOST_SECONDS", 0.0)
    tries.clear()
    best_times(lambda: tries.append(1), 3)
    assert len(tries) == 1


def test_seconds_are_told_in_units_of_a_fixed_loop_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine where the loop takes 0.5 s, two seconds are four loops."""
    monkeypatch.setattr(timing, "numpy_loop", lambda: Times(0.5, 0.7))
    assert str(Times(2.0, 3.0)) == "CPU 2.000 s = 4.00 loops, wall 3.000 s"
