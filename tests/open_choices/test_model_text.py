"""Text of a chosen model and batch."""

from __future__ import annotations

import pytest

from planner.open_choices.decision import LARGEST_NOTE
from planner.open_choices.model_choice_text import batch_lines, model_lines
from planner.report.plan_answer import risks_of
from planner.results.subject_runs import (
    OTHER_DATA,
    REPEATED_DATA,
    WASTED_TOKENS,
    BatchChoice,
    LossRange,
    ModelChoice,
    ModelOption,
    MoreMoney,
)
from planner.units import count_text
from tests.helpers.plans import make_assignment, make_plan

CHOSEN = ModelChoice(
    architecture="llama-16x2048",
    parameters=956_368_896,
    law_parameters=889_260_032,
    tokens=20_000_000_000,
    tokens_at_reference=20_000_000_000,
    loss=LossRange(value=2.5, low=2.342, high=2.658),
    law="besiroglu",
    as_good=(ModelOption(architecture="tinyllama-1.1b", parameters=1_100_048_384, tokens=10**10, loss=2.51, usd=90.0),),
    more_money=MoreMoney(budget_usd=150.0, architecture="llama-18x2304", tokens=2 * 10**10, loss=2.44),
    compared=2,
)
BATCH = BatchChoice(
    sequences=512,
    tokens=1_048_576,
    reference_sequences=128,
    critical_tokens=1e7,
    critical_tokens_low=4.5e6,
    critical_tokens_high=2.2e7,
    token_factor=1.074,
    step_factor=0.2685,
    learning_rate_factor=2.0,
    sigma=0.06,
)


@pytest.mark.parametrize(("value", "text"), [(956_368_896, "956M"), (1.1e9, "1.1B"), (2e12, "2T"), (999_700_000, "1B")])
def test_counts_have_three_figures(value: float, text: str) -> None:
    """And the unit that people use."""
    assert count_text(value) == text


def test_the_model_is_said_with_its_loss_its_equals_and_what_more_money_buys() -> None:
    """One line each; numbers agree with each other."""
    text = " ".join(model_lines(CHOSEN))
    assert "llama-16x2048, 956M parameters, on 20B tokens, 22 per parameter" in text
    assert "loss 2.500 nats per token (2.34 to 2.66 with other data or laws; law of besiroglu)" in text
    assert "as good within 0.02: 956M to 1.1B parameters (tinyllama-1.1b 2.510)" in text
    assert "a budget of $150.00 lowers the loss by 0.06 to 2.440: llama-18x2304 on 20B tokens" in text


def test_the_batch_is_said_with_tokens_steps_and_learning_rate() -> None:
    """1.074 times the tokens in 0.2685 times the steps; the square root of four."""
    text = " ".join(batch_lines(CHOSEN.model_copy(update={"batch": BATCH})))
    assert "512 sequences (1.05M tokens): 7.4 % more tokens than at 128, 3.7x fewer steps" in text
    assert "critical batch 10M tokens (4.5M to 22M), where tokens double" in text
    assert "learning rate: 2x that of a batch of 128 (square root of the batch)" in text


def test_a_plan_that_left_nothing_open_says_nothing() -> None:
    """No section."""
    assert model_lines(None) == batch_lines(None) == batch_lines(CHOSEN) == []


def test_a_choice_beyond_what_the_law_has_seen_is_a_risk_below_the_first_line() -> None:
    """Steps that waste tokens, and data that are repeated too often; with nothing open the notes are none."""
    notes = (
        f"steps of 204,800,000 tokens are larger than those of the law's runs: 60% of the {WASTED_TOKENS}, and so on",
        f"120 {REPEATED_DATA} 100,000,000 tokens: the law was fitted up to 45 passes, and beyond them losses rose",
    )
    notes = (*notes, f"{OTHER_DATA}: with 0.5 nats less 2.5 costs $20, with 0.5 more $200", LARGEST_NOTE)
    kinds = (
        "the size is at the end of its range",
        "large steps waste tokens",
        "data repeated too often",
        "other data have other losses",
    )
    job = make_assignment(model=CHOSEN.model_dump(), notes=notes)
    found = {risk.kind: risk.text for risk in risks_of(make_plan(job), job)}
    assert [found[kind] for kind in kinds] == [notes[3], notes[0], notes[1].partition(", and beyond")[0], notes[2]]
    closed = make_assignment(notes=notes)
    assert not {risk.kind for risk in risks_of(make_plan(closed), closed)} & set(kinds)
