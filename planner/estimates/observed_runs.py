"""What one or a few observed runs of a job teach about its other ways: a factor on speed, and how sure it is.

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
"""Factor between observed and predicted speed from which a run says more of itself than of the estimate: a guess.

ln(2) is 2.8 times the spread between sources (difference.other_source), so other settings are the likelier cause.
"""
SCATTER_WARNING_RATIO = 1.5
"""Factor between what two runs say of the estimate from which they contradict each other: a guess."""


def shrinkage_weight(runs: int, half: float) -> float:
    """Share of what `runs` runs say that is believed: k / (k + half); half of it at `half` runs."""
    return runs / (runs + half)


def log_speed_correction(log_ratios: Sequence[float], half: float) -> float:
    """Ln of the factor on predicted speed, from ln(measured / predicted) of each run; 0 without runs.

    The median, because one run in a few is an oddity; shrunk, because one run says something of itself, too.
    """
    return median(log_ratios) * shrinkage_weight(len(log_ratios), half) if log_ratios else 0.0


def memory_half_weight_runs(before: float, probed: float) -> float:
    """Peaks at which half of what they say is believed: the ratio of two variances.

    `before` is the spread of ln(measured / predicted) without a probe, `probed` what remains with any number of them.
    """
    return (probed / before) ** 2


def log_memory_scale(log_scales: Sequence[float], half: float) -> float:
    """Ln of the factor on bytes that grow with the batch, from the factor that explains each observed peak."""
    return median(log_scales) * shrinkage_weight(len(log_scales), half) if log_scales else 0.0


def is_implausible_speed(measured: float, predicted: float) -> bool:
    """Whether an observed speed is so far from its estimate that unit and settings are in doubt."""
    return abs(math.log(measured / predicted)) > math.log(IMPLAUSIBLE_SPEED_RATIO)


def max_speed_ratio(log_ratios: Sequence[float]) -> float:
    """Largest over smallest measured / predicted, from their ln; 1 below two runs."""
    return math.exp(max(log_ratios) - min(log_ratios)) if log_ratios else 1.0


def log_scatter(log_ratios: Sequence[float]) -> float:
    """How far one more run would lie from the middle of these: s * sqrt(1 + 1 / k), s their deviation; 0 below two.

    s is what two configurations of this job do not share, s / sqrt(k) the standard error of their middle; both count.
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
    """Spread of ln(time) after a correction by `runs` runs, elementwise; wider than `before` only where they scatter.

    `difference`: what two configurations of one source do not share (other_source: of two sources); a class of
    wider spread, such as an erratic card, keeps its part. On top comes what shrinking leaves of the old spread.
    `log_ratios`, ln(measured / predicted) of the runs, tell how well they agree; without, they are taken to.
    Runs that scatter more (`log_scatter`) than published ones set the spread themselves; runs whose middle is far off
    narrow nothing, because something is not as it was said.
    Two runs that agree, of one card, from 0.20: hypot(0.11, 0.20 * 0.2) = 0.12; 1400 beside 5600 tokens/s: 1.20.
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
    """Spread of ln(measured / predicted) of memory at a setting whose peak was observed; never wider than `before`."""
    rest = 1.0 - shrinkage_weight(runs, memory_half_weight_runs(before, probed))
    return min(before, math.hypot(probed, before * rest))
