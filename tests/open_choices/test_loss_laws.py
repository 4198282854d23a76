"""Laws of pretraining: worked examples, the closed-form optimum, repeated data, the hyperbola of the batch."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.open_choices.loss_laws import (
    BATCH_SIGMA,
    LAWS,
    batch_sigma,
    batch_tokens,
    critical_batch,
    known_tokens,
    loss_range,
    tokens_at_law_batch,
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


def test_a_worked_example_of_repeated_data() -> None:
    """Four epochs of 1e9 tokens, 1e8 parameters of which 5.1e7 are of use, by the law of Muennighoff et al.

    G = (521 / 1488)^(1 / 0.7054) = 0.2259, so 1e9 tokens can use 0.2259^2 * 1e9 = 5.10e7 parameters.
    D' = 1e9 (1 + 15.388 (1 - exp(-3 / 15.388))) = 3.726e9.
    N' = 5.10e7 (1 + 5.310 (1 - exp(-0.96 / 5.310))) = 9.59e7.
    L = 1.87 + 521 / 9.59e7^0.3527 + 1488 / 3.726e9^0.3527 = 1.87 + 0.7976 + 0.6263 = 3.294.
    """
    law = LAWS["muennighoff"]
    assert law.best_parameters(1e9) == pytest.approx(5.10e7, rel=1e-3)
    assert law.loss(1e8, 4e9, 1e9) == pytest.approx(3.294, abs=0.001)


def test_new_data_are_those_of_the_law_of_one_pass() -> None:
    """Where every token is new and the network is no larger than they can use, repetition has no part."""
    law = LAWS["besiroglu"]
    assert law.loss(1e9, 4e10, 1e12) == law.loss(1e9, 4e10)


def test_the_pair_of_the_authors_is_ranked_as_they_measured_it() -> None:
    """25B unique tokens at 9.3e21 FLOP: 6.34B parameters on 242B tokens beat 8.67B on 178B (arXiv:2305.16264, fig. 1).

    Without the value that excess parameters lose, and with new tokens, the larger network would win.
    """
    for law in LAWS.values():
        assert law.loss(6.34e9, 242e9, 25e9) < law.loss(8.67e9, 178e9, 25e9)
        assert law.loss(6.34e9, 242e9) > law.loss(8.67e9, 178e9)


@given(LAW, SIZES, st.floats(1e7, 1e12), st.floats(0.2, 60.0), st.floats(1.0, 4.0))
def test_more_of_anything_never_raises_a_loss(
    name: str, parameters: float, unique: float, epochs: float, more: float
) -> None:
    """More unique tokens, more tokens and more parameters; and no limit on the data is the best of all."""
    law, tokens = LAWS[name], unique * epochs
    loss = law.loss(parameters, tokens, unique)
    for other in (
        law.loss(parameters, tokens, unique * more),
        law.loss(parameters, tokens * more, unique),
        law.loss(parameters * more, tokens, unique),
        law.loss(parameters, tokens),
    ):
        assert other <= loss + 1e-12


def test_a_worked_example_of_the_range() -> None:
    """80 passes over 50M tokens: one doubling and one halving too many, each 0.1 nats on the upper side."""
    low, high = loss_range(2.5, 80 * 50e6, 50e6)
    spread = math.hypot(0.05, 0.8)
    assert (low, high) == (pytest.approx(2.5 - spread), pytest.approx(2.5 + spread + 0.2))


def test_a_worked_example_of_a_batch_above_that_of_the_laws() -> None:
    """1e10 tokens in steps of 1e8: (1 + 0.524 / 4.45) / (1 + 100 / 4.45) = 0.0476 of them are learnt from."""
    assert tokens_at_law_batch(1e10, 1e8) == pytest.approx(4.76e8, rel=2e-3)
    assert tokens_at_law_batch(1e10, 4e5) == 1e10


@given(LAW, SIZES, TOKENS, st.floats(1e4, 1e9), st.floats(1.0, 10.0), st.one_of(st.none(), st.floats(1e7, 1e12)))
def test_a_larger_batch_never_lowers_a_loss(
    name: str, parameters: float, tokens: float, batch: float, times: float, unique: float | None
) -> None:
    """At equal model and tokens, repeated or not; and more tokens at a batch never raise it."""
    law = LAWS[name]
    loss = law.loss_at_batch(parameters, tokens, unique, batch)
    assert law.loss_at_batch(parameters, tokens, unique, batch * times) >= loss - 1e-12
    assert law.loss_at_batch(parameters, tokens * times, unique, batch) <= loss + 1e-12


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
