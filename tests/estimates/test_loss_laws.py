"""Laws of pretraining: worked examples, the closed-form optimum, repeated data, the hyperbola of the batch."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.estimates.loss_laws import (
    BATCH_SIGMA,
    LAWS,
    batch_sigma,
    batch_tokens,
    critical_batch,
    known_tokens,
    new_tokens,
    tokens_worth,
)

SIZES = st.floats(1e7, 1e11)
TOKENS = st.floats(1e8, 1e13)
LAW = st.sampled_from(sorted(LAWS))


def test_a_worked_example_of_the_loss() -> None:
    """1e9 parameters on 2e10 tokens: 1.8172 + 482.01 / 1350.2 + 2085.43 / 5874.5 = 1.8172 + 0.3570 + 0.3550."""
    law = LAWS["besiroglu"]
    assert pytest.approx(1350.2, rel=1e-3) == 1e9**0.3478
    assert pytest.approx(5874.5, rel=2e-3) == 2e10**0.3658
    assert law.loss(1e9, 2e10) == pytest.approx(2.529, abs=0.002)


@pytest.mark.parametrize(("flop", "loss"), [(1e18, 3.49), (1e19, 2.93), (1e20, 2.55), (1e21, 2.31)])
def test_the_closed_form_gives_the_published_losses(flop: float, loss: float) -> None:
    """The optimum of the refit at four budgets of compute."""
    law = LAWS["besiroglu"]
    assert law.loss(*law.optimum(flop)) == pytest.approx(loss, abs=0.01)


def test_about_twenty_tokens_per_parameter_are_best_at_1e21_flop() -> None:
    """Hoffmann's rule of thumb, which the refit recovers."""
    parameters, tokens = LAWS["besiroglu"].optimum(1e21)
    assert 15 < tokens / parameters < 25
    assert 6 * parameters * tokens == pytest.approx(1e21)


@given(LAW, st.floats(1e18, 1e22), st.floats(0.1, 10))
def test_no_other_size_of_equal_compute_is_better_than_the_closed_form(name: str, flop: float, factor: float) -> None:
    """The optimum is the least loss along 6 N D = C."""
    law = LAWS[name]
    parameters, _ = law.optimum(flop)
    other = parameters * factor
    assert law.loss(*law.optimum(flop)) <= law.loss(other, flop / 6 / other) + 1e-12


@given(LAW, SIZES, TOKENS)
def test_tokens_for_a_loss_invert_the_loss(name: str, parameters: float, tokens: float) -> None:
    """The tokens that a loss needs are those that gave it."""
    law = LAWS[name]
    assert law.tokens_for(parameters, law.loss(parameters, tokens)) == pytest.approx(tokens, rel=1e-6)


def test_a_loss_below_what_a_size_can_reach_needs_endless_tokens() -> None:
    """E + A / N^alpha is the loss of a size on endless data."""
    assert LAWS["besiroglu"].tokens_for(1e9, 1.9) == math.inf


def test_a_worked_example_of_repeated_data() -> None:
    """Four epochs of 1e9 tokens: 1e9 * (1 + 15.388 * (1 - exp(-3 / 15.388))) = 3.73e9 tokens' worth."""
    assert new_tokens(4e9, 1e9) == pytest.approx(3.726e9, rel=1e-3)
    assert new_tokens(0.5e9, 1e9) == 0.5e9
    assert new_tokens(1e13, 1e9) == pytest.approx(16.39e9, rel=1e-3)


@given(st.floats(1e6, 1e11), st.floats(1.0, 60.0))
def test_repeated_data_are_worth_less_and_never_negative(unique: float, epochs: float) -> None:
    """Between the unique tokens and all of them; and the inverse gives the tokens back."""
    worth = new_tokens(unique * epochs, unique)
    assert unique * (1 - 1e-12) <= worth <= unique * epochs * (1 + 1e-12)
    assert tokens_worth(worth, unique) == pytest.approx(unique * epochs, rel=1e-4)


def test_no_repetition_is_worth_more_than_sixteen_times_the_data() -> None:
    """1 + R* is the limit."""
    assert tokens_worth(17e9, 1e9) == math.inf


def test_a_worked_example_of_the_critical_batch() -> None:
    """5 x 11,730 x 3,070^0.47 = 2.55M tokens for 3.07B tokens of training: Bergsma et al. give 2.3M there."""
    assert critical_batch(3.07e9) == pytest.approx(2.55e6, rel=0.01)


@given(st.floats(1e9, 1e12))
def test_at_the_critical_batch_tokens_and_steps_are_twice_their_limits(tokens: float) -> None:
    """Tokens are twice those of small batches, steps twice those of large ones."""
    critical = critical_batch(tokens)
    smallest, largest = critical * 1e-9, critical * 1e9
    at_critical = batch_tokens(tokens, critical, smallest)
    assert at_critical == pytest.approx(2 * tokens, rel=1e-6)
    fewest_steps = batch_tokens(tokens, largest, smallest) / largest
    assert at_critical / critical == pytest.approx(2 * fewest_steps, rel=1e-6)


@given(st.floats(1e9, 1e12), st.floats(1e4, 1e7), st.floats(1.0, 100.0))
def test_a_larger_batch_costs_tokens_and_saves_steps(tokens: float, reference: float, factor: float) -> None:
    """And the reference batch costs nothing and adds no uncertainty."""
    larger = batch_tokens(tokens, reference * factor, reference)
    assert larger >= tokens * (1 - 1e-12)
    assert larger / factor <= tokens * (1 + 1e-12)
    assert batch_tokens(tokens, reference, reference) == pytest.approx(tokens)
    assert batch_sigma(tokens, reference, reference) == 0
    assert 0 <= batch_sigma(tokens, reference * factor, reference) < BATCH_SIGMA


@given(SIZES)
def test_the_known_range_keeps_compute_and_ratio(parameters: float) -> None:
    """1e18 to 1e22 FLOP, 1 to 350 tokens per parameter."""
    least, most = known_tokens(parameters)
    assert least >= parameters and 6 * parameters * least >= 1e18 * (1 - 1e-12)
    assert most <= 350 * parameters * (1 + 1e-12) and 6 * parameters * most <= 1e22 * (1 + 1e-12)
