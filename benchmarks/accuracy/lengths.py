"""Longest and typical samples of a row: the length that it states is often where samples are cut, and nothing more."""

from __future__ import annotations

from benchmarks.accuracy.measurements import Row

LONGEST_OVER_MEAN = 14.0
"""Longest of 50,000 samples over their mean, lengths log-normal with the coefficient of variation of 0.8 that
predictions.py assumes: exp(4.107 * 0.703 - 0.703^2 / 2)."""

SET_MEANS = {"alpaca": 1304 / LONGEST_OVER_MEAN}
"""Mean tokens of the samples of a data set that rows name in `packed`: the longest of Alpaca has 1,304 Llama-2 tokens
(litgpt's tables of resources)."""

DEFAULT_SETS = {"torchtune": "alpaca", "litgpt": "alpaca"}
"""The set that a framework's recipes train on by default."""


def longest_sample(row: Row, cap: float) -> float:
    """Return the tokens of the longest sample of a run, which sets its peak; `cap` is where samples are cut."""
    if row.lengths is None or row.lengths.full:
        return cap
    mean = _mean(row)
    return cap if mean is None else min(cap, LONGEST_OVER_MEAN * mean)


def typical_share(row: Row, cap: float) -> float:
    """Return the mean length over the longest: 0 where all batches have one length, 1 where no mean is known."""
    if row.lengths is None or not row.lengths.varying:
        return 0.0
    mean, longest = _mean(row), longest_sample(row, cap)
    return 1.0 if mean is None else min(mean, longest) / longest


def _mean(row: Row) -> float | None:
    stated = row.lengths.mean if row.lengths else None
    named = next((name for name in SET_MEANS if name in row.text("packed")), None)
    return stated or SET_MEANS.get(named or DEFAULT_SETS.get(row.text("framework"), ""))
