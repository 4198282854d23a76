"""Seconds of one step of reinforcement learning: worked by hand, and against a simulation token by token."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner import generation
from planner.estimates.generation import decode_step_seconds, prompt_seconds, seen_tokens
from planner.estimates.inputs import Layout
from planner.reinforcement.rl_estimate import copy_machines
from planner.reinforcement.rl_step import (
    AnswerLengths,
    RlPhases,
    SpotEngines,
    luck_hours,
    rollout_seconds,
    spot_step,
    transfer_seconds,
)
from planner.spot.states import Ages, SpotStates


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


def test_engines_get_over_the_network_what_their_machine_has_not() -> None:
    """Worked: of 65 GB over two machines half crosses, 32.5 GB at 1.25 GB/s take 26 s; a whole copy crosses nothing.

    Sharded over four machines of eight a copy is on all four; 8 x 2 GPUs of layers and stages are two machines; under
    hybrid sharding, and with layers that 8 GPUs share, each machine has a copy.
    """
    spread = [Layout(1, 1, 1, 1, 32, 8, zero_stage=3), Layout(1, 1, 1, 1, 32, 8, tensor=8, pipeline=2, zero_stage=1)]
    whole = [Layout(1, 1, 1, 1, 32, 8, zero_stage=3, hybrid=1), Layout(1, 1, 1, 1, 32, 8, tensor=8, zero_stage=1)]
    assert [float(copy_machines(layout)) for layout in (*spread, *whole)] == [4, 2, 1, 1]
    assert transfer_seconds(65e9, 1.25e9, 1 - 1 / 2) == pytest.approx(26.0)
    assert transfer_seconds(65e9, 1.25e9, 0.0) == pytest.approx(1.3 * math.sqrt(65))


def _spot(rollout: float, overlapped: bool, machines: int, there: float, **more: float) -> float:
    """Return the seconds of a step with 60 s of the trainer and 20 s of the rest."""
    given = {"mean_up_hours": 1e12, "start_hours": 0.0, "luck_hours": 0.0, **more}
    seconds, _ = spot_step(rollout, 60.0, 20.0, overlapped, SpotEngines(machines, there, **given))
    return float(seconds[0])


def test_outages_of_the_only_machine_stop_both_sides() -> None:
    """Worked: 100 s of rollout, 60 s of the trainer, 20 s: there 80 % of the time 120 / 0.8 s, in turn 180 / 0.8 s."""
    assert _spot(100.0, True, 1, 0.8) == pytest.approx(150.0)
    assert _spot(100.0, False, 1, 0.8) == pytest.approx(225.0)


def test_a_machine_that_is_lost_starts_first_and_samples_half_a_rollout_anew() -> None:
    """Worked: stays of 10 h, started in 0.1 h, 360 s of rollout: it samples 99 % of 90 %, a rollout takes 361.8 s."""
    found = _spot(360.0, False, 1, 0.9, mean_up_hours=10.0, start_hours=0.1)
    assert found == pytest.approx((360.0 / 0.995 + 80.0) / (0.9 * 0.99))


def test_of_two_machines_each_number_has_its_chance() -> None:
    """Worked: both there 64 %, one 32 % of the time: steps of 120 s and of 220 s."""
    assert _spot(100.0, True, 2, 0.8) == pytest.approx(1.0 / (0.64 / 120.0 + 0.32 / 220.0))


@given(
    rollout=st.floats(10.0, 500.0), there=st.floats(0.5, 0.99), machines=st.integers(1, 40), overlapped=st.booleans()
)
def test_more_machines_of_the_same_rollout_are_never_slower(
    rollout: float, there: float, machines: int, overlapped: bool
) -> None:
    """A law: the more machines, the nearer the step is to that of their mean number, which is the fastest there is."""
    found = [_spot(rollout, overlapped, count, there) for count in (machines, machines + 1)]
    both = max(rollout / there, 60.0) if overlapped else rollout / there + 60.0
    assert found[0] >= found[1] * (1.0 - 1e-9)
    assert found[1] >= (both + 20.0) * (1.0 - 1e-9)


def test_the_luck_of_exponential_stays_and_outages_is_that_of_the_telegraph_process() -> None:
    """Two rates a and b have the variance 2 a b / (a + b)^3 of the share of time, times hours; never lost, none."""
    states = SpotStates(Ages((0.0,), (0.5,)), Ages((0.0,), (2.0,)))
    assert luck_hours(states, 0.0) == pytest.approx(2 * 0.5 * 2.0 / 2.5**3)
    assert luck_hours(SpotStates(Ages((0.0,), (0.0,)), Ages((0.0,), (2.0,))), 0.1) == 0.0
