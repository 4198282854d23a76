"""The error of estimated speed, as log-normal spreads.

ln(measured/predicted) of published runs has heavy tails: about a Student t with 2 degrees of freedom.
So one sigma serves the displayed interval and another, with such tails, the chance of being late.
Numbers: models/calibration/uncertainty.yaml.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, Unpack

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from planner.estimates.inputs import Numbers

_NORMAL_95, _STUDENT_2_95 = 1.645, 2.92
"""One-sided 95 % quantiles of the normal and of Student's t with 2 degrees of freedom."""
_NORMAL_90 = 1.28
"""One-sided 90 % quantile of the normal: both sides leave an interval of 80 %."""


class Sigmas(NamedTuple):
    """Spread of ln(time): `display` for intervals shown, `tail` for deadlines and budgets."""

    display: Any
    tail: Any


class FewTokens(NamedTuple):
    """The class of small micro-batches: in full up to `full` tokens, gone from `none` tokens on."""

    sigmas: Sigmas
    full: float
    none: float


@dataclass(frozen=True)
class UncertaintyClasses:
    """The classes and extras that do not depend on profile or card."""

    one_node: Sigmas  # more than one GPU in one node
    several_nodes: Sigmas
    mixture: Sigmas  # mixtures of experts
    few_tokens: FewTokens
    efficiency_prior: float
    network_unknown: float
    shape_unknown: float

    @classmethod
    def of(cls, values: Mapping[str, float]) -> UncertaintyClasses:
        """Return the classes from the values of `models/calibration/uncertainty.yaml`, which has further keys."""
        return cls(
            one_node=class_sigmas(values, "one_node"),
            several_nodes=class_sigmas(values, "several_nodes"),
            mixture=class_sigmas(values, "mixture"),
            few_tokens=FewTokens(
                class_sigmas(values, "few_tokens"), values["few_tokens.full"], values["few_tokens.none"]
            ),
            efficiency_prior=values["efficiency_prior"],
            network_unknown=values["network_unknown"],
            shape_unknown=values["shape_unknown"],
        )


class UncertaintyFlags(TypedDict, total=False):
    """What makes a configuration less certain, 0 or 1 each; 0 where it is left out."""

    mixture: Numbers
    efficiency_is_prior: Numbers
    network_unknown: Numbers
    shape_unknown: Numbers


def class_sigmas(values: Mapping[str, float], name: str) -> Sigmas:
    """Return the class `name` (a profile, a card, a size); (0, 0) where none is listed, so that it never counts."""
    return Sigmas(values.get(f"{name}.sigma", 0.0), values.get(f"{name}.sigma_tail", 0.0))


def memory_tail(values: Mapping[str, float], framework: str, profiled: bool) -> float:
    """Spread of ln(measured / predicted) of allocated bytes, for the chance of fitting.

    `values` of `models/calibration/memory.yaml` by key: the framework's own where it has one, else that of
    Transformers; unprofiled frameworks share that of an unknown one.
    """
    if not profiled:
        return values["sigma_tail_unknown"]
    return values.get(f"sigma_tail_{framework}", values["sigma_tail_allocated"])


def time_sigmas(
    spreads: UncertaintyClasses,
    profile: Sigmas,
    card: Sigmas,
    gpus: Numbers,
    nodes: Numbers,
    tokens_per_micro_batch: Numbers,
    **flags: Unpack[UncertaintyFlags],
) -> Sigmas:
    """Return the spread of ln(time) of a configuration: the largest class that applies, plus what is not known.

    `profile` and `card` come from `class_sigmas`; all arguments broadcast. An unknown network counts only where there
    are several nodes.
    """
    several = np.greater(nodes, 1)
    alone = np.greater(gpus, 1) & ~several
    widest = largest(
        profile,
        card,
        _apply_where(alone, spreads.one_node),
        _apply_where(several, spreads.several_nodes),
        _apply_where(flags.get("mixture", 0), spreads.mixture),
    )
    widest = widen_for_few_tokens(widest, tokens_per_micro_batch, spreads.few_tokens)
    prior = spreads.efficiency_prior * np.asarray(flags.get("efficiency_is_prior", 0))
    network = spreads.network_unknown * (several * np.asarray(flags.get("network_unknown", 0)))
    shape = spreads.shape_unknown * np.asarray(flags.get("shape_unknown", 0))
    return add_spread(add_in_quadrature(widest, prior, network), shape)


def _apply_where(holds: Any, sigmas: Sigmas) -> Sigmas:
    flag = np.asarray(holds, dtype=float)
    return Sigmas(flag * sigmas.display, flag * sigmas.tail)


def largest(*classes: Sigmas) -> Sigmas:
    """Return the largest spread of all classes, elementwise, display and tail each for itself.

    A class that does not hold for an element is (0, 0) there.
    """
    display, tail = classes[0]
    for one in classes[1:]:
        display, tail = np.maximum(display, one.display), np.maximum(tail, one.tail)
    return Sigmas(display, tail)


def widen_for_few_tokens(sigmas: Sigmas, tokens_per_micro_batch: Numbers, few: FewTokens) -> Sigmas:
    """Raise `sigmas` towards the small-batch class, linearly between its two bounds."""
    weight = np.clip((few.none - np.asarray(tokens_per_micro_batch)) / (few.none - few.full), 0.0, 1.0)

    def raised(base: Any, target: Any) -> Any:
        return base + weight * np.maximum(target - base, 0.0)

    return Sigmas(raised(sigmas.display, few.sigmas.display), raised(sigmas.tail, few.sigmas.tail))


def add_in_quadrature(sigmas: Sigmas, *extras: Numbers) -> Sigmas:
    """Add independent spreads to both sigmas; an extra of 0 changes nothing."""
    squared: Any = sum(np.square(extra) for extra in extras)
    return Sigmas(np.sqrt(np.square(sigmas.display) + squared), np.sqrt(np.square(sigmas.tail) + squared))


def add_spread(sigmas: Sigmas, extra: Numbers) -> Sigmas:
    """Add a spread that is correlated with all others, such as a guessed shape, to both sigmas."""
    return Sigmas(sigmas.display + extra, sigmas.tail + extra)


def confidence_factor(sigma_tail: Numbers, confidence: Numbers) -> Any:
    """Return the factor on the median time that is met with probability `confidence`: exp(tau_c(p)); 1 at p = 0.5.

    tau_c(p) = scale_c * t(p), t the quantile of Student's t with 2 degrees of freedom,
    scale_c such that the 95 % quantiles of this and of a normal with `sigma_tail` agree.
    `confidence` lies in (0, 1); ValueError else.
    """
    scale = np.asarray(sigma_tail) * (_NORMAL_95 / _STUDENT_2_95)
    return np.exp(scale * student_2_quantile(confidence))


def student_2_quantile(probability: Numbers) -> Any:
    """Return the quantile of Student's t with 2 degrees of freedom, which has a closed form; probability in (0, 1)."""
    p = np.asarray(probability, dtype=float)
    if not np.all((p > 0.0) & (p < 1.0)):
        raise ValueError(f"a probability must lie between 0 and 1, not {probability}")
    return (2.0 * p - 1.0) / np.sqrt(2.0 * p * (1.0 - p))


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


def display_factors(sigma: Numbers) -> tuple[Any, Any]:
    """Return the factors of the 80 % interval around a median time: exp(-1.28 sigma), exp(+1.28 sigma)."""
    reach = _NORMAL_90 * np.asarray(sigma)
    return np.exp(-reach), np.exp(reach)
