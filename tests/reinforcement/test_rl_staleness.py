"""Asynchronous rollouts with staleness, simulated answer by answer, against the formula of a step."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from benchmarks.rl_steps import COLUMNS, bounded_seconds, estimated, keeps_activations
from planner import generation
from planner.estimates.generation import decode_step_seconds, prompt_seconds, seen_tokens
from planner.library.reading import read_library
from planner.reinforcement.rl_step import AnswerLengths, RlPhases, StaleRollout, rollout_seconds

LIBRARY = read_library(["qwen2.5-1.5b"])
PROMPT, ANSWERS, SEQUENCES, TICK = 300.0, 8.0, 256, 8
LENGTHS = AnswerLengths(600.0, 2400.0)


class _Run(NamedTuple):
    """One engine, one trainer: seconds of a training, of new weights, batches in flight, seats."""

    training: float
    weights: float
    staleness: int
    seats: int


SETUP, _ = generation.resolve_replica(
    LIBRARY.architecture("qwen2.5-1.5b"), "L40S", LIBRARY, gpus=1, input=300, output=600, use="offline"
)
ENGINE = (SETUP.model, SETUP.hardware, SETUP.stack)


def formula(run: _Run) -> float:
    """Return the seconds of a step as a plan has them."""
    plain = rollout_seconds(ENGINE, LENGTHS, PROMPT, ANSWERS, SEQUENCES, run.seats, 1).seconds
    if run.staleness > 1:
        stale = StaleRollout(PROMPT, ANSWERS, SEQUENCES, run.staleness).seconds(ENGINE, LENGTHS, float(run.seats), 1)
        plain = min(plain, float(np.ravel(stale)[0]))
    return RlPhases(plain, 0.0, run.training, run.weights).step_seconds(overlapped=True)


def simulated(run: _Run, batches: int = 20, seed: int = 1) -> float:
    """Return the mean seconds of a step: answers drawn, decoded token by token in ticks of eight, trained in order.

    At most `staleness` batches are sampled at a time, and none begins before the policy that is so many steps older
    than its own exists. The engine stops for new weights.
    """
    draw = np.random.default_rng(seed)
    model, hardware, stack = ENGINE
    taken_in = float(np.ravel(prompt_seconds(model, hardware, PROMPT) / ANSWERS + stack.request_seconds)[0])
    left, had, batch = np.zeros(0), np.zeros(0), np.zeros(0, dtype=int)
    queue: list[tuple[float, int]] = []
    now, begun, unfinished = 0.0, 0, dict.fromkeys(range(batches), SEQUENCES)
    trained: list[float] = []  # moment at which each update was done
    stopped = 0  # updates for which the engine has stopped already
    while len(trained) < batches:
        sampling = sum(1 for one in range(begun) if unfinished[one])
        known = sum(1 for moment in trained if moment <= now)
        while begun < batches and sampling < run.staleness and begun - run.staleness <= known:
            sizes = np.minimum(np.exp(draw.normal(LENGTHS.scale, LENGTHS.sigma, SEQUENCES)), LENGTHS.longest)
            queue += [(float(size), begun) for size in sizes]
            begun, sampling = begun + 1, sampling + 1
        fresh = queue[: run.seats - len(left)]
        queue = queue[len(fresh) :]
        left = np.append(left, [size for size, _ in fresh])
        had, batch = np.append(had, np.zeros(len(fresh))), np.append(batch, [one for _, one in fresh]).astype(int)
        now += len(fresh) * taken_in
        if len(left):
            context = seen_tokens(model, PROMPT + float(had.mean()))
            now += TICK * float(np.ravel(decode_step_seconds(model, hardware, stack, len(left), context))[0])
            left, had = left - TICK, had + TICK
            for one in batch[left <= 0]:
                unfinished[int(one)] -= 1
            left, had, batch = left[left > 0], had[left > 0], batch[left > 0]
        else:
            now = min((moment for moment in trained if moment > now), default=now)
        while len(trained) < batches and not unfinished[len(trained)]:
            trained.append(max([now, *trained[-1:]]) + run.training)
        passed = sum(1 for moment in trained if moment <= now)
        now, stopped = now + run.weights * (passed - stopped), passed
    return (trained[15] - trained[7]) / 8.0  # whole waves of up to four batches, before the last ones end alone


@pytest.mark.long
@pytest.mark.parametrize("staleness", [1, 2, 4])
@pytest.mark.parametrize("seats", [64, 256, 1024])
@pytest.mark.parametrize("share", [0.3, 3.0])
def test_a_simulated_step_is_that_of_the_formula(staleness: int, seats: int, share: float) -> None:
    """Within 10 %, whether the engines wait for the trainer or the trainer for them, few seats or many."""
    plain = rollout_seconds(ENGINE, LENGTHS, PROMPT, ANSWERS, SEQUENCES, seats, 1).seconds
    run = _Run(share * plain, 0.02 * plain, staleness, seats)
    assert simulated(run) == pytest.approx(formula(run), rel=0.10)


def test_more_staleness_is_never_slower_and_ends_at_the_rate_of_the_seats() -> None:
    """With one answer in flight for each seat at all times nothing is left of the tail."""
    steps = [formula(_Run(0.0, 0.0, staleness, 64)) for staleness in (1, 2, 4, 8)]
    assert steps == sorted(steps, reverse=True)
    assert steps[-1] == pytest.approx(steps[-2], rel=0.05)


def invented(**given: str) -> dict[str, str]:
    """Return a row of a table of published steps, of numbers that were not measured."""
    more = "mean_response_len mean_total_len max_response_len max_total_len prompts_per_step generations_per_prompt"
    more += (
        " sequences_per_step train_gpus updates_per_step train_parallel rollout_parallel train_global_batch lora_rank"
    )
    usual = {"framework": "NeMo-RL (Megatron-Core + vLLM)", "algorithm": "GRPO", "model": "qwen2.5-1.5b", "gpus": "16"}
    usual |= {"gpu": "H100-SXM", "placement": "async, separate GPUs, 1-step Off", "mean_total_len": "900"}
    usual |= {"max_total_len": "4096", "sequences_per_step": "512", "micro_batch": "1"}
    return dict.fromkeys((*COLUMNS, *more.split()), "") | usual | given


@pytest.mark.slow
def test_the_benchmark_reads_staleness_and_recomputation_of_a_row() -> None:
    """Eight steps behind nothing is left of the tail; verl's Megatron recomputes nothing, and its FSDP all."""
    eight = estimated(invented(placement="async, separate GPUs, 8-step Off"))
    assert eight.planned < estimated(invented()).planned == estimated(invented()).found.step_seconds.expected
    assert keeps_activations(invented(framework="verl (Megatron + vLLM)"))
    assert not keeps_activations(invented(framework="verl (FSDP + vLLM)"))
    assert keeps_activations(invented(train_parallel="FSDP2 TP1 AC False"))


@pytest.mark.slow
def test_the_benchmark_plans_a_bound_for_longer_answers_as_longer() -> None:
    """A bound that holds at the cap holds for all shorter answers, with rollouts or without."""
    without = {"placement": "training only", "algorithm": "DPO", "gpus": "8", "train_global_batch": "64"}
    for row in (invented(mean_total_len=""), invented(**without)):
        assert bounded_seconds(row, 0.25) < bounded_seconds(row, 1.0)
