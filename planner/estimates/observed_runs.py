"""Corrections from observed runs of a job to its other configurations: a factor on speed, and its spread.

Runs of one job share software, kernels, data and habits, so part of the error of an estimate is the same in all.
Numbers: models/calibration/pilot.yaml and the keys `difference.*` of uncertainty.yaml.
"""

from __future__ import annotations

import math
from statistics import median, stdev
from typing import TYPE_CHECKING, Any

import numpy as np

from planner.estimates.uncertainty import Sigmas

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.estimates.inputs import Numbers

IMPLAUSIBLE_SPEED_RATIO = 2.0
"""Factor between observed and predicted speed beyond which the run itself is in doubt: a guess.

ln(2) is 2.8 times the spread between sources (difference.other_source), so other settings are the likelier cause.
"""
SCATTER_WARNING_RATIO = 1.5
"""Ratio of two runs' corrections beyond which they contradict each other: a guess."""


def shrinkage_weight(runs: int, half: float) -> float:
    """Return the weight of the correction from `runs` runs: k / (k + half)."""
    return runs / (runs + half)


def log_speed_correction(log_ratios: Sequence[float], half: float) -> float:
    """Return ln of the factor on predicted speed, from ln(measured / predicted) of each run; 0 without runs.

    The median, because one run in a few is an outlier; shrunk, because a run also has peculiarities of its own.
    """
    return median(log_ratios) * shrinkage_weight(len(log_ratios), half) if log_ratios else 0.0


def log_own_speed_correction(general: float, log_ratios: Sequence[float], difference: float, noise: float) -> float:
    """Return ln of the factor on the predicted speed of a configuration that was itself observed.

    `general` is that of the job's other configurations, and `log_ratios` are ln(measured / predicted) of the runs of
    this one. What they leave of the general factor is the configuration's own error, whose spread is `difference`, and
    the `noise` of a run that is repeated: their squares weigh them.
    One run at twice its estimate, ln 2 = 0.69: general 0.46, own 0.65 with difference 0.109 and noise 0.05.
    """
    if not log_ratios:
        return general
    weight = difference**2 / (difference**2 + noise**2 / len(log_ratios))
    return general + weight * (median(log_ratios) - general)


def memory_half_weight_runs(before: float, probed: float) -> float:
    """Return the number of observed peaks that has weight one half: the ratio of two variances.

    `before` is the spread of ln(measured / predicted) without observed peaks, `probed` what remains with any number.
    """
    return (probed / before) ** 2


def log_memory_scale(log_scales: Sequence[float], half: float) -> float:
    """Return ln of the factor on bytes that grow with the batch, from the factor that explains each peak."""
    return median(log_scales) * shrinkage_weight(len(log_scales), half) if log_scales else 0.0


def is_implausible_speed(measured: float, predicted: float) -> bool:
    """Return whether an observed speed is so far from its estimate that unit and settings are in doubt."""
    return abs(math.log(measured / predicted)) > math.log(IMPLAUSIBLE_SPEED_RATIO)


def max_speed_ratio(log_ratios: Sequence[float]) -> float:
    """Return the largest over the smallest measured / predicted, from their ln; 1 below two runs."""
    return math.exp(max(log_ratios) - min(log_ratios)) if log_ratios else 1.0


def log_scatter(log_ratios: Sequence[float]) -> float:
    """Return how far one more run would lie from the mean of these: s * sqrt(1 + 1 / k); 0 below two runs.

    s, their standard deviation, is what two configurations of this job do not share; s / sqrt(k) is the standard error
    of their mean; both count.
    1400 and 5600 tokens/s where 2800 were predicted: s = ln(4) / sqrt(2) = 0.98, times sqrt(1.5) = 1.20.
    """
    k = len(log_ratios)
    return stdev(log_ratios) * math.sqrt(1.0 + 1.0 / k) if k > 1 else 0.0


def corrected_sigmas(
    before: Sigmas,
    difference: Numbers,
    other_source: float,
    tail: float,
    runs: int,
    half: float,
    log_ratios: Sequence[float] = (),
) -> Sigmas:
    """Return the spread of ln(time) after a correction by `runs` runs, elementwise; wider only where they scatter.

    `difference`: what two configurations of one source do not share (`other_source`: of two sources); a class of
    wider spread, such as an erratic GPU, keeps its part. Added to it is what shrinkage leaves of the old spread.
    `log_ratios`, ln(measured / predicted) of the runs, show how well they agree; without them they are taken to agree.
    Runs that scatter more (`log_scatter`) than published ones set the spread themselves; runs with an implausible
    median narrow nothing, because some setting is not as stated.
    Two runs that agree, of one GPU, from 0.20: hypot(0.11, 0.20 * 0.2) = 0.12; 1400 and 5600 tokens/s: 1.20.
    """
    rest = 1.0 - shrinkage_weight(runs, half)
    own = np.asarray(difference) * np.maximum(1.0, np.asarray(before.display) / other_source)

    scatter = log_scatter(log_ratios)
    doubted = bool(log_ratios) and abs(median(log_ratios)) > math.log(IMPLAUSIBLE_SPEED_RATIO)

    def after(old: Any, share: float) -> Any:
        at_most = np.maximum(old, scatter * share)
        return (
            at_most
            if doubted
            else np.minimum(at_most, np.hypot(np.maximum(own, scatter) * share, rest * np.asarray(old)))
        )

    return Sigmas(after(before.display, 1.0), after(before.tail, tail))


def corrected_fit_sigma(before: float, probed: float, runs: int) -> float:
    """Return the spread of ln(measured / predicted) of memory after an observed peak; at most `before`."""
    rest = 1.0 - shrinkage_weight(runs, memory_half_weight_runs(before, probed))
    return min(before, math.hypot(probed, before * rest))
