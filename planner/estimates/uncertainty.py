"""The error of estimated speed, as log-normal spreads, and its correction by observed runs.

ln(measured/predicted) of published runs has heavy tails: about a Student t with 2 degrees of freedom.
So one sigma serves the lower end of an interval of hours, and another, with such tails, its upper end and the chance
of being late.
Numbers: models/calibration/uncertainty.yaml.
"""

from __future__ import annotations

import math
from statistics import median, stdev
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, Unpack

import numpy as np

from planner.estimates.inputs import Numbers

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


_NORMAL_95, _STUDENT_2_95 = 1.645, 2.92
"""One-sided 95 % quantiles of the normal and of Student's t with 2 degrees of freedom."""
_ABOVE_68 = 0.8413
"""Probability below the upper end of a central interval of 68.3 %."""
_NORMAL_90 = 1.28
"""One-sided 90 % quantile of the normal: both sides leave an interval of 80 %."""


UNKNOWN_FRAMEWORK = "unknown"
"""The profile of runs whose framework is unknown."""


class Sigmas(NamedTuple):
    """Spread of ln(time): `display` for intervals shown, `tail` for deadlines and budgets."""

    display: Any
    tail: Any


class UncertaintyFlags(TypedDict, total=False):
    """What makes a configuration less certain, 0 or 1 each; `efficiency` in log units; 0 where it is left out."""

    mixture: Numbers
    offload: Numbers
    efficiency: Numbers
    network_unknown: Numbers
    shape_unknown: Numbers


def class_sigmas(values: Mapping[str, float], name: str) -> Sigmas:
    """Return the class `name` (a profile, a card, a size); (0, 0) where none is listed, so that it never counts."""
    return Sigmas(values.get(f"{name}.sigma", 0.0), values.get(f"{name}.sigma_tail", 0.0))


def efficiency_sigma(values: Mapping[str, float], basis: str) -> float:
    """Return the spread that a card's efficiency adds, by what it rests on: nothing where training was measured."""
    return 0.0 if basis == "measured" else values["efficiency_kernels" if basis == "kernels" else "efficiency_prior"]


class MemorySpread(NamedTuple):
    """How far memory may exceed its estimate: ln(measured / predicted) once the certain bytes are taken off both.

    Certain are 1 - `known_share` of the states (weights, gradients, optimizer), which follow from the accounting.
    """

    sigma: float  # of the upper side
    known_share: float
    most: float = 1.0  # the highest probability that it can give


UNMEASURED_MOST = 0.98
"""The highest chance of fitting of a framework without measured peaks: that its accounting misses a whole term is in no
spread. Judgement: two of the some ten organisations whose frameworks had none were off by more than a half."""


def memory_spread(values: Mapping[str, float], framework: str, profiled: bool, offload: bool = False) -> MemorySpread:
    """Return the spread of memory, for the chance of fitting.

    `values` of `models/calibration/memory.yaml` by key: the framework's own where it has one, else that of
    Transformers; frameworks whose accounting is documented and was not measured share one, `unknown` has its own.
    With states in host memory (`offload`) it is at least that of such runs.
    """
    least, most = (values["sigma_over_offload"] if offload else 0.0), 1.0 if profiled else UNMEASURED_MOST
    if framework == UNKNOWN_FRAMEWORK:
        own, share = values["sigma_over_unknown"], values["known_share_unknown"]
    else:
        usual = values["sigma_over_usual" if profiled else "sigma_over_documented"]
        own, share = values.get(f"sigma_over_{framework}", usual), values["known_share"]
    return MemorySpread(float(max(own, least)), float(share), most)


def time_sigmas(
    values: Mapping[str, float],
    profile: Sigmas,
    card: Sigmas,
    gpus: Numbers,
    nodes: Numbers,
    tokens_per_micro_batch: Numbers,
    **flags: Unpack[UncertaintyFlags],
) -> Sigmas:
    """Return the spread of ln(time) of a configuration: the largest class that applies, plus what is not known.

    `values` are those of `models/calibration/uncertainty.yaml`; `profile` and `card` come from `class_sigmas`; all
    arguments broadcast. Small micro-batches raise the spread towards a class of their own, linearly between two
    bounds. What is not known adds as squares, a guessed shape, which is correlated with all others, as it is.
    An unknown network counts only where there are several nodes.
    """
    several = np.greater(nodes, 1)
    classes = {
        "one_node": np.greater(gpus, 1) & ~several,
        "several_nodes": several,
        "mixture": np.asarray(flags.get("mixture", 0)),
        "offload": np.asarray(flags.get("offload", 0)),
    }
    full, none = values["few_tokens.full"], values["few_tokens.none"]
    few = np.clip((none - np.asarray(tokens_per_micro_batch)) / (none - full), 0.0, 1.0)
    prior = np.asarray(flags.get("efficiency", 0))
    network = values["network_unknown"] * (several * np.asarray(flags.get("network_unknown", 0)))
    shape = values["shape_unknown"] * np.asarray(flags.get("shape_unknown", 0))

    def spread(side: int) -> Any:
        widest = np.maximum(profile[side], card[side])
        for name, holds in classes.items():
            widest = np.maximum(widest, holds * class_sigmas(values, name)[side])
        widest = widest + few * np.maximum(class_sigmas(values, "few_tokens")[side] - widest, 0.0)
        return np.sqrt(np.square(widest) + (np.square(prior) + np.square(network))) + shape

    return Sigmas(display=spread(0), tail=spread(1))


def confidence_factor(sigma_tail: Numbers, confidence: Numbers) -> Any:
    """Return the factor on the median time that is met with probability `confidence`: exp(tau_c(p)); 1 at p = 0.5.

    tau_c(p) = scale_c * t(p), t the quantile of Student's t with 2 degrees of freedom,
    scale_c such that the 95 % quantiles of this and of a normal with `sigma_tail` agree.
    `confidence` lies in (0, 1); ValueError else.
    """
    scale = np.asarray(sigma_tail) * (_NORMAL_95 / _STUDENT_2_95)
    return np.exp(scale * student_2_quantile(confidence))


def equally_likely_factors(sigma_tail: float, ranks: tuple[float, float]) -> Any:
    """Return factors (200,) on the median time that are equally likely, with ranks beyond the two cut to them.

    exp of Student's t with 2 degrees of freedom has no mean without a cut. Sigma 0.40, ranks of 0.025 and 0.975: a mean
    of 1.07.
    """
    return confidence_factor(sigma_tail, np.clip((np.arange(200) + 0.5) / 200, *ranks))


def tail_of_68_percent(sigma: Numbers) -> Any:
    """Return the `sigma_tail` of an error that stays within +- `sigma` with 68 %: the tails are those of Student's t.

    The 84th percentile of t with 2 degrees of freedom is 1.321, so that 0.40 becomes 0.40 * 2.92 / 1.645 / 1.321 =
    0.5375, and `confidence_factor` at 0.9 is 1.77.
    """
    return np.asarray(sigma) * (_STUDENT_2_95 / _NORMAL_95) / float(student_2_quantile(_ABOVE_68))


def student_2_quantile(probability: Numbers) -> Any:
    """Return the quantile of Student's t with 2 degrees of freedom, which has a closed form; probability in (0, 1)."""
    p = np.asarray(probability, dtype=float)
    if not np.all((p > 0.0) & (p < 1.0)):
        raise ValueError(f"a probability must lie between 0 and 1, not {probability}")
    return (2.0 * p - 1.0) / np.sqrt(2.0 * p * (1.0 - p))


def student_2_deviations(sigma: Numbers, deviations: Numbers) -> Any:
    """Return the probability of staying below `deviations`, in ln, of an error with spread `sigma` and heavy tails.

    The distribution of `confidence_factor`: Student's t with 2 degrees of freedom, whose 95 % quantile is that of a
    normal with `sigma`. Its distribution function is 1/2 + t / (2 sqrt(2 + t^2)). -inf gives 0.
    """
    t = np.asarray(deviations, dtype=float) / np.asarray(sigma, dtype=float) * (_STUDENT_2_95 / _NORMAL_95)
    with np.errstate(invalid="ignore"):
        inside = np.where(np.isinf(t), np.sign(t), t / np.sqrt(2.0 + np.square(t)))
    return 0.5 + 0.5 * inside


def interval(
    expected: float, least: float, factors: tuple[float, float], market_sd: float = 0.0
) -> tuple[float, float]:
    """Return the 80 % interval of a figure with error `factors` and, independently, `market_sd` over spot markets.

    Both spreads add as squares; the low end is at least `least`, the figure without interruptions, at the low factor.
    10 with factors 0.8 and 1.25, a spread of 2 and 6 at the least: 10 - hypot(2, 2.56) = 6.75,
    10 + hypot(2.5, 2.56) = 13.58.
    """
    low, high = factors
    below = math.hypot(expected * (1.0 - low), _NORMAL_90 * market_sd)
    above = math.hypot(expected * (high - 1.0), _NORMAL_90 * market_sd)
    return max(least * low, expected - below), expected + above


RANGE_TOP = 0.9
"""Probability of staying below the upper end of an 80 % interval."""


def time_factors(sigmas: Sigmas) -> tuple[Any, Any]:
    """Return the factors of the 80 % interval around a median time.

    The upper end is the time that holds with 90 % (`confidence_factor`), so that a range and a time *by* agree; the
    lower one is exp(-1.28 display). A spread of 0.179 with tails of 0.207: 0.80 and 1.25.
    """
    return np.exp(-_NORMAL_90 * np.asarray(sigmas.display)), confidence_factor(sigmas.tail, RANGE_TOP)


def time_factors_of_68_percent(sigma: Numbers) -> tuple[Any, Any]:
    """Return `time_factors` of an error that stays within +- `sigma` with 68 %. 0.40: 0.60 and 1.77."""
    return time_factors(Sigmas(sigma, tail_of_68_percent(sigma)))


def factors_of_tail(sigma_tail: Numbers) -> tuple[Any, Any]:
    """Return `time_factors` of an error of which the spread in its tails alone is known. 0.5375: 0.60 and 1.77."""
    return time_factors_of_68_percent(np.asarray(sigma_tail) / tail_of_68_percent(1.0))


# Corrections from observed runs of a job to its other configurations: a factor on speed, and its spread.
#
# Runs of one job share software, kernels, data and habits, so part of the error of an estimate is the same in all.
# Numbers: models/calibration/pilot.yaml and the keys `difference.*` of uncertainty.yaml.


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
