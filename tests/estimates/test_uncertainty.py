"""Spreads of the time estimate: which class counts, what widens it, and what a deadline costs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.estimates.uncertainty import (
    Sigmas,
    class_sigmas,
    confidence_factor,
    efficiency_sigma,
    factors_of_tail,
    interval,
    memory_spread,
    student_2_deviations,
    student_2_quantile,
    tail_of_68_percent,
    time_factors,
    time_factors_of_68_percent,
    time_sigmas,
)
from tests.helpers.time_cases import golden_values

VALUES = golden_values("uncertainty")
NONE = Sigmas(0.0, 0.0)
QUIET = settings(derandomize=True, max_examples=60, deadline=None)


def sigmas(profile: str = "tuned", gpus: int = 1, nodes: int = 1, tokens: float = 8192, **flags: object) -> Sigmas:
    """Sigmas of a configuration without a class of its card."""
    return time_sigmas(VALUES, class_sigmas(VALUES, profile), NONE, gpus, nodes, tokens, **flags)


def test_profile_alone_on_one_gpu() -> None:
    """On one GPU with enough tokens only the profile counts."""
    assert sigmas("tuned") == pytest.approx((0.12, 0.16))
    assert sigmas("hf") == pytest.approx((0.20, 0.20))
    assert sigmas("unknown") == pytest.approx((0.25, 0.30))


def test_largest_class_counts_for_each_sigma() -> None:
    """Several nodes do not lower the display sigma of a wide profile, but they raise its tail."""
    assert sigmas("tuned", gpus=8) == pytest.approx((0.13, 0.16))
    assert sigmas("hf", gpus=16, nodes=2) == pytest.approx((0.20, 0.25))
    assert sigmas("hf", mixture=1) == pytest.approx((0.50, 0.53))
    assert sigmas("hf", offload=1) == pytest.approx(class_sigmas(VALUES, "offload"))


def test_cards_with_a_class_of_their_own() -> None:
    """A T4 or V100 is as uncertain as its own class, any other card adds none."""
    profile = class_sigmas(VALUES, "tuned")
    assert time_sigmas(VALUES, profile, class_sigmas(VALUES, "T4"), 1, 1, 8192) == pytest.approx((0.25, 0.20))
    assert class_sigmas(VALUES, "A100-80GB") == NONE


@pytest.mark.parametrize(("tokens", "display"), [(500, 0.30), (1000, 0.30), (2500, 0.21), (4000, 0.12), (9000, 0.12)])
def test_small_micro_batches_ramp(tokens: float, display: float) -> None:
    """Below 1,000 tokens the small-batch class holds, from 4,000 on it does not, between it fades."""
    assert float(sigmas(tokens=tokens).display) == pytest.approx(display)


def test_what_is_not_known_widens() -> None:
    """A prior efficiency and an unknown network add in quadrature, a guessed shape adds plainly."""
    prior, kernels, measured = (efficiency_sigma(VALUES, basis) for basis in ("prior", "kernels", "measured"))
    assert (prior, kernels, measured) == (0.12, 0.05, 0.0)
    assert float(sigmas(efficiency=prior).display) == pytest.approx(math.hypot(0.12, 0.12))
    assert float(sigmas(gpus=16, nodes=2, network_unknown=1).tail) == pytest.approx(math.hypot(0.25, 0.2))
    assert float(sigmas(network_unknown=1).tail) == pytest.approx(0.16)
    assert float(sigmas(shape_unknown=1).display) == pytest.approx(0.22)


def test_arrays_of_configurations() -> None:
    """Counts, nodes and tokens may be arrays, and each element equals its scalar."""
    gpus, nodes, tokens = np.array([1, 8, 16]), np.array([1, 1, 2]), np.array([8192, 512, 2048])
    many = time_sigmas(VALUES, class_sigmas(VALUES, "tuned"), NONE, gpus, nodes, tokens)
    for i in range(3):
        one = sigmas(gpus=int(gpus[i]), nodes=int(nodes[i]), tokens=float(tokens[i]))
        assert (many.display[i], many.tail[i]) == pytest.approx(one)


def test_student_quantile_matches_tables() -> None:
    """Student's t with 2 degrees of freedom: 1.886 at 0.90, 2.920 at 0.95, 4.303 at 0.975."""
    np.testing.assert_allclose(
        student_2_quantile(np.array([0.5, 0.9, 0.95, 0.975])), [0, 1.886, 2.920, 4.303], atol=1e-3
    )


def test_late_factor_at_95_percent_is_the_normal_one() -> None:
    """By construction the 95 % bound is exp(1.645 sigma_tail)."""
    assert float(confidence_factor(0.2, 0.95)) == pytest.approx(math.exp(0.2 * 1.645), rel=1e-4)


@QUIET
@given(st.floats(0.01, 0.8), st.floats(0.5, 0.975), st.floats(0.5, 0.975))
def test_more_confidence_never_costs_less_time(sigma: float, p: float, q: float) -> None:
    """The late factor is at least one from the median on and grows with confidence and sigma."""
    low, high = sorted((p, q))
    assert (
        1.0 <= confidence_factor(sigma, low) <= confidence_factor(sigma, high) <= confidence_factor(sigma + 0.1, high)
    )


@pytest.mark.parametrize("confidence", [0.0, 1.0, -0.1, 2.0])
def test_impossible_confidence_is_refused(confidence: float) -> None:
    """A confidence outside (0, 1) raises."""
    with pytest.raises(ValueError, match="between 0 and 1"):
        confidence_factor(0.2, confidence)


def test_a_spread_in_the_tails_gives_the_range_of_the_same_error() -> None:
    """Known by its 68 % or by its tails, an error has one range, whose upper end holds with 90 %."""
    tail = float(tail_of_68_percent(0.4))
    low, high = factors_of_tail(tail)
    assert (float(low), float(high)) == pytest.approx(tuple(map(float, time_factors_of_68_percent(0.4))))
    assert float(high) == pytest.approx(float(confidence_factor(tail, 0.9)))


def test_the_range_of_a_time_ends_where_it_holds_with_90_percent() -> None:
    """Range and *by* are read next to each other: both are the 90 % quantile of the distribution with heavy tails."""
    spread = Sigmas(display=0.339, tail=0.287)
    quick, slow = time_factors(spread)
    assert float(slow) == pytest.approx(float(confidence_factor(0.287, 0.9)))
    assert float(quick) == pytest.approx(math.exp(-1.28 * 0.339))


def test_memory_of_a_framework_is_as_sure_as_its_own_runs_say() -> None:
    """A class of its own comes first, then that of Transformers, of documented frameworks, of what nobody knows."""
    values = {"sigma_over_usual": 0.08, "sigma_over_documented": 0.2, "sigma_over_unknown": 0.3}
    values |= {"sigma_over_litgpt": 0.15, "known_share": 0.5, "known_share_unknown": 1.0}
    values["sigma_over_offload"] = 0.25
    assert memory_spread(values, "litgpt", True) == (0.15, 0.5, 1.0)
    assert memory_spread(values, "hf", True) == (0.08, 0.5, 1.0)
    assert memory_spread(values, "unsloth", False) == (0.2, 0.5, 0.98)
    assert memory_spread(values, "unknown", False) == (0.3, 1.0, 0.98)


def test_states_in_host_memory_make_no_estimate_surer() -> None:
    """At least as wide as such runs show, of any framework; of one that is less sure, as wide as that."""
    values = {"sigma_over_usual": 0.08, "sigma_over_documented": 0.2, "known_share": 0.5, "sigma_over_offload": 0.15}
    assert memory_spread(values, "hf", True, offload=True).sigma == 0.15
    assert memory_spread(values, "deepspeed", False, offload=True).sigma == 0.2


@pytest.mark.parametrize(("deviations", "below"), [(0.0, 0.5), (0.1645, 0.95), (0.329, 0.98595), (-0.1645, 0.05)])
def test_memory_has_the_tails_of_speed(deviations: float, below: float) -> None:
    """0.1645 is the 95 % quantile of spread 0.1; twice as far t is 5.84: 0.5 + 5.84 / (2 sqrt(2 + 5.84^2)) = 0.986."""
    assert float(student_2_deviations(0.1, deviations)) == pytest.approx(below, abs=1e-4)


def test_what_cannot_fit_has_no_chance() -> None:
    """Minus and plus infinity are the ends of the distribution."""
    assert student_2_deviations(0.1, np.array([-np.inf, np.inf])).tolist() == [0.0, 1.0]


def test_an_interval_holds_the_error_of_the_speed_and_the_luck_of_the_market() -> None:
    """10 within 0.8 and 1.25 times, spread 2: 10 - hypot(2, 2.56) = 6.751, 10 + hypot(2.5, 2.56) = 13.578."""
    assert interval(10.0, 6.0, (0.8, 1.25), 2.0) == pytest.approx((6.7513, 13.5782), abs=1e-4)
    assert interval(10.0, 10.0, (0.8, 1.25)) == pytest.approx((8.0, 12.5))
    assert interval(3.0, 2.0, (0.8, 1.25), 3.0)[0] == pytest.approx(1.6)  # no luck is better than no interruption
