"""What one or a few observed runs of a job teach about its other ways: a factor on speed, and how sure it is.

Runs of one job share software, kernels, data and habits, so part of the error of an estimate is the same in all.
Numbers: models/calibration/pilot.yaml and the keys `difference.*` of uncertainty.yaml.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median
from typing import Any

import numpy as np

from planner.estimates.setup import Numbers
from planner.estimates.uncertainty import Sigmas


def believed_share(runs: int, half: float) -> float:
    """Share of what `runs` runs say that is believed: k / (k + half); half of it at `half` runs."""
    return runs / (runs + half)


def log_speed_correction(log_ratios: Sequence[float], half: float) -> float:
    """ln of the factor on predicted speed, from ln(measured / predicted) of each run; 0 without runs.

    The median, because one run in a few is an oddity; shrunk, because one run says something of itself, too.
    """
    return median(log_ratios) * believed_share(len(log_ratios), half) if log_ratios else 0.0


def memory_half(before: float, probed: float) -> float:
    """Peaks at which half of what they say is believed: the ratio of two variances.

    `before` is the spread of ln(measured / predicted) without a probe, `probed` what remains with any number of them.
    """
    return (probed / before) ** 2


def log_memory_scale(log_scales: Sequence[float], half: float) -> float:
    """ln of the factor on bytes that grow with the batch, from the factor that explains each observed peak."""
    return median(log_scales) * believed_share(len(log_scales), half) if log_scales else 0.0


def sigmas_after(
    before: Sigmas, difference: Numbers, other_source: float, tail: float, runs: int, half: float
) -> Sigmas:
    """Spread of ln(time) after a correction by `runs` runs, elementwise; never wider than `before`.

    `difference`: what two configurations of one source do not share (other_source: of two sources); a class of
    wider spread, such as an erratic card, keeps its part. On top comes what shrinking leaves of the old spread.
    """
    rest = 1.0 - believed_share(runs, half)
    own = np.asarray(difference) * np.maximum(1.0, np.asarray(before.display) / other_source)

    def after(old: Any, share: float) -> Any:
        return np.minimum(old, np.hypot(own * share, rest * np.asarray(old)))

    return Sigmas(after(before.display, 1.0), after(before.tail, tail))


def fit_sigma_after(before: float, probed: float, runs: int) -> float:
    """Spread of ln(measured / predicted) of memory at a setting whose peak was observed; never wider than `before`."""
    rest = 1.0 - believed_share(runs, memory_half(before, probed))
    return min(before, math.hypot(probed, before * rest))
