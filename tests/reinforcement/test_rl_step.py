"""Seconds of one step of reinforcement learning: worked by hand, and against a simulation token by token."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner import generation
from planner.estimates.generation import decode_step_seconds, prompt_seconds, seen_tokens
from planner.reinforcement.rl_step import (
    AnswerLengths,
    RlPhases,
    rollout_seconds,
    spot_rollout_seconds,
    transfer_seconds,
)


@pytest.fixture(scope="module")
def engine() -> tuple[Any, Any, Any]:
    """One vLLM replica of a 7B model on an H100."""
    one, _ = generation.resolve_replica("qwen2.5-7b", "H100", input=500, output=600)
    return one.model, one.hardware, one.stack


# Lengths.


@pytest.mark.parametrize(
    ("mean", "longest", "cv"), [(500, 4000, 0.8), (1500, 2000, 0.8), (900, 8192, 1.5), (50, 60, 0.2)]
)
def test_the_mean_of_the_cut_lengths_is_the_stated_one(mean: float, longest: float, cv: float) -> None:
    """The mean of a length that is never negative is the integral of the share of longer ones."""
    grid = (np.arange(200_000) + 0.5) * longest / 200_000
    assert AnswerLengths(mean, longest, cv).longer_than(grid).mean() * longest == pytest.approx(mean, rel=1e-4)


def test_half_of_the_answers_are_longer_than_the_median() -> None:
    """Worked: without a cut the median of a lognormal is mean / sqrt(1 + cv^2) = 1000 / sqrt(1.64) = 781 tokens."""
    lengths = AnswerLengths(1000.0, 1e9, 0.8)
    assert lengths.longer_than(np.array([1000.0 / 1.64**0.5]))[0] == pytest.approx(0.5, abs=1e-6)


# Rollout, against a simulation.


def drawn(lengths: AnswerLengths, count: int) -> list[np.ndarray[Any, Any]]:
    """Return lengths of answers at random, of five fixed seeds."""
    made = (np.random.default_rng(seed).lognormal(lengths.scale, lengths.sigma, count) for seed in range(5))
    return [np.maximum(np.ceil(np.minimum(one, lengths.longest)), 1).astype(int) for one in made]


def simulated_seconds(
    engine: tuple[Any, Any, Any], tokens: np.ndarray[Any, Any], prompt: float, answers: int, seats: int, engines: int
) -> float:
    """Return the seconds of the slowest engine; each takes the next answer when a seat is free, token by token."""
    model, hardware, stack = engine
    taking_in = float(np.ravel(prompt_seconds(model, hardware, prompt) / answers + stack.request_seconds)[0])
    slowest = 0.0
    for engine_number in range(engines):
        waiting = list(tokens[engine_number::engines])
        left: list[int] = []
        ages: list[int] = []
        clock = 0.0
        while waiting or left:
            while waiting and len(left) < seats:
                left.append(waiting.pop())
                ages.append(0)
                clock += taking_in
            ahead = min(left) if not waiting else min(min(left), 50)
            ahead = max(1, min(ahead, 50))
            context = float(np.mean(ages)) + ahead / 2 + prompt
            step = decode_step_seconds(model, hardware, stack, len(left), seen_tokens(model, context))
            clock += ahead * float(np.ravel(step)[0])
            ages = [age + ahead for age, rest in zip(ages, left, strict=True) if rest > ahead]
            left = [rest - ahead for rest in left if rest > ahead]
        slowest = max(slowest, clock)
    return slowest


@pytest.mark.parametrize(
    ("sequences", "seats", "engines", "mean", "longest", "cv"),
    [
        (256, 256, 1, 600, 2048, 0.8),  # all have a seat
        (512, 256, 4, 600, 4096, 0.8),
        (1024, 128, 1, 600, 2048, 0.8),  # eight rounds
        (1024, 128, 4, 600, 4096, 1.2),  # two rounds
        (400, 256, 1, 300, 600, 0.4),  # barely more than the seats
    ],
)
def test_the_rollout_takes_as_long_as_its_simulation(
    engine: tuple[Any, Any, Any], sequences: int, seats: int, engines: int, mean: float, longest: float, cv: float
) -> None:
    """Formula and simulation share the seconds of a step, and nothing of what decides how many answers are alive."""
    lengths = AnswerLengths(mean, longest, cv)
    expected = float(
        np.mean([simulated_seconds(engine, tokens, 500.0, 8, seats, engines) for tokens in drawn(lengths, sequences)])
    )
    found = rollout_seconds(engine, lengths, 500.0, 8, sequences, seats, engines)
    assert found.seconds == pytest.approx(expected, rel=0.10)


@given(
    sequences=st.integers(8, 4000), seats=st.integers(8, 512), engines=st.integers(1, 16), cv=st.floats(0.2, 2.0)
)  # fmt: skip
def test_more_answers_are_never_sampled_faster_and_more_engines_never_slower(
    engine: tuple[Any, Any, Any], sequences: int, seats: int, engines: int, cv: float
) -> None:
    """A law of any step; what is left of a rollout is its tail."""
    lengths = AnswerLengths(600.0, 4096.0, cv)

    def seconds(answers: int, replicas: int) -> float:
        return rollout_seconds(engine, lengths, 500.0, 8, answers, seats, replicas).seconds

    base = seconds(sequences, engines)
    assert seconds(2 * sequences, engines) >= base * 0.999
    assert seconds(sequences, 2 * engines) <= base * 1.001
    found = rollout_seconds(engine, lengths, 500.0, 8, sequences, seats, engines)
    assert found.full_seconds + found.tail_seconds == pytest.approx(found.seconds)
    assert 0.0 <= found.tail_share < 1.0


# The step.


def test_phases_add_up_in_turn_and_the_longer_side_decides_where_they_overlap() -> None:
    """Worked: 60 s of rollout, 10 + 30 s of the trainer, 2 s of new weights and 8 s fixed: 110 s, overlapped 70 s."""
    phases = RlPhases(60.0, 10.0, 30.0, 2.0, 8.0)
    assert phases.step_seconds(False) == 110.0
    assert phases.step_seconds(True) == 70.0
    assert phases.idle(True, apart=True) == ("trainer", pytest.approx(20.0 / 70.0))
    assert phases.idle(False, apart=True) == ("trainer", pytest.approx(60.0 / 110.0))
    assert phases.idle(False, apart=False) == ("", 0.0)


def test_new_weights_of_a_7b_model_take_seconds_and_more_through_a_slow_network() -> None:
    """Worked: 7.6e9 weights are 15.2 GB: 1.3 * sqrt(15.2) = 5.07 s; through 1 GB/s 15.2 s."""
    assert transfer_seconds(7.6e9 * 2, None) == pytest.approx(5.07, abs=0.01)
    assert transfer_seconds(7.6e9 * 2, 100e9) == pytest.approx(5.07, abs=0.01)
    assert transfer_seconds(7.6e9 * 2, 1e9) == pytest.approx(15.2)


def test_engines_on_spot_lose_half_a_rollout_and_a_start_each_time() -> None:
    """Worked: there 90 % of the time in stays of 10 h, 0.1 h of start, 360 s: 360 / (0.9 * 0.985) = 406.1 s."""
    assert float(spot_rollout_seconds(360.0, 0.9, 10.0, 0.1)) == pytest.approx(360 / (0.9 * 0.985))
    assert float(spot_rollout_seconds(360.0, 1.0, 1e12, 0.1)) == pytest.approx(360.0)
