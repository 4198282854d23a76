"""Micro-batches: which batches divide over the GPUs of a machine, and the largest or fastest that fits.

Shapes: recipes and machines form a grid (R, H).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from planner.arrays import Flags, Floats, Integers, first_least
from planner.configurations.recipe import HYBRID_ABOVE_GPUS, Recipe
from planner.estimates.inputs import Layout, TimedSetup
from planner.estimates.memory.memory_fit import MemoryLines


def possible_cells(recipes: Sequence[Recipe], layout: Layout, per_rank: Floats, width: int) -> Flags:
    """Return the cells whose batch divides exactly and whose parallel degrees fit the machine."""
    shape = (len(recipes), width)
    gpus = np.asarray(layout.gpus)
    ranks = np.broadcast_to(np.asarray(layout.data_parallel, dtype=float), shape)
    possible = (ranks >= 1) & (ranks == np.floor(ranks)) & (np.broadcast_to(per_rank, shape) == np.floor(per_rank))
    possible &= np.broadcast_to(per_rank, shape) >= 1
    possible &= np.broadcast_to(np.asarray(layout.tensor) <= np.asarray(layout.gpus_per_node), shape)
    possible &= np.broadcast_to(layout.divides_experts, shape)
    hybrid = np.asarray([[recipe.is_hybrid] for recipe in recipes])
    worthwhile = (gpus > HYBRID_ABOVE_GPUS) & (gpus > np.asarray(layout.gpus_per_node))
    return np.asarray(possible & (~hybrid | worthwhile))


def choose_batches(
    inputs: TimedSetup, lines: Sequence[MemoryLines], per_rank: Floats, possible: Flags
) -> tuple[Floats, Floats]:
    """Return micro-batch and accumulation steps, (R, H); 0 where nothing fits.

    `lines`: memory against the micro-batch without accumulation and with it.

    The whole batch of a rank in one go if that fits; else the largest proper divisor of it that fits while
    gradients are kept between micro-steps, where they are kept at all.
    """
    usable = inputs.hardware.usable_bytes
    local = np.broadcast_to(per_rank, possible.shape)
    whole = np.broadcast_to(lines[0].largest_micro_batch(usable), possible.shape) >= local
    most = np.broadcast_to(lines[1].largest_micro_batch(usable), possible.shape)
    divided, keeps = np.zeros(possible.shape), ~_steps_at_once(inputs, possible)
    for batch in sorted(set(local[possible].tolist())):  # `np.unique` would load masked arrays
        cells = possible & keeps & (local == batch)
        divisors = proper_divisors(int(batch))
        if len(divisors):
            index = np.searchsorted(divisors, most[cells], side="right")
            divided[cells] = np.where(index > 0, divisors[np.maximum(index, 1) - 1], 0)
    micro = np.where(possible, np.where(whole, local, divided), 0.0)
    return micro, np.where(micro > 0, local / np.maximum(micro, 1.0), 0.0)


def _steps_at_once(inputs: TimedSetup, possible: Flags) -> Flags:
    """Return the cells (R, H) whose batch is no sum over micro-steps, because the backward pass uses up gradients."""
    return np.broadcast_to(np.not_equal(inputs.states.steps_in_backward, 0), possible.shape)


def least_need(inputs: TimedSetup, lines: Sequence[MemoryLines], per_rank: Floats, shape: tuple[int, ...]) -> Floats:
    """Return the memory (R, H) at the smallest micro-batch that can be run: of one sequence, or the whole batch."""
    usable = inputs.hardware.usable_bytes
    whole, one = lines[0].need(per_rank, usable), lines[1].need(1.0, usable)
    return np.where(np.not_equal(inputs.states.steps_in_backward, 0), whole, np.broadcast_to(one, shape))


def choose_smallest_batches(
    inputs: TimedSetup, lines: Sequence[MemoryLines], per_rank: Floats, possible: Flags
) -> tuple[Floats, Floats]:
    """Choose one recipe per machine, fitting or not: the least over its memory, at a micro-batch of one."""
    usable = inputs.hardware.usable_bytes
    over = np.where(possible, least_need(inputs, lines, per_rank, possible.shape) - usable, np.inf)
    nearest = np.arange(len(possible))[:, None] == first_least(over, axis=0)
    local = np.broadcast_to(per_rank, possible.shape)
    micro = np.where(possible & nearest, np.where(_steps_at_once(inputs, possible), local, 1.0), 0.0)
    return micro, np.where(micro > 0, local / np.maximum(micro, 1.0), 0.0)


def proper_divisors(number: int) -> Integers:
    """Return the divisors of a positive integer below itself, ascending."""
    return np.asarray([d for d in range(1, number // 2 + 1) if number % d == 0], dtype=np.int64)


SecondsAt = Callable[[Floats | float, Floats], tuple[Floats, Floats]]
"""Seconds per step and tokens per sequence (R, H) at a micro-batch and accumulation steps."""


def choose_fastest_batches(
    inputs: TimedSetup,
    seconds_at: SecondsAt,
    lines: Sequence[MemoryLines],
    micro: Floats,
    accumulation: Floats,
    per_rank: Floats,
) -> tuple[Floats, Floats]:
    """Return the fastest of all divisors up to the largest that fits, and its accumulation steps: (R, H)."""
    local = np.broadcast_to(per_rank, micro.shape)
    usable = inputs.hardware.usable_bytes
    best, best_seconds, best_steps = micro, np.full(micro.shape, np.inf), accumulation
    at_once = _steps_at_once(inputs, micro > 0)
    batches = {int(batch) for batch in local[micro > 0].tolist()}
    for candidate in sorted({size for batch in batches for size in (*map(int, proper_divisors(batch)), batch)}):
        # The whole batch at once may fit where a part of it does not: only accumulating keeps gradients.
        fits = (candidate == micro) | (lines[1].need(float(candidate), usable) <= usable)
        is_candidate = (candidate <= micro) & (local % candidate == 0) & fits & (~at_once | (candidate == local))
        if not is_candidate.any():
            continue
        seconds, _ = seconds_at(float(candidate), np.where(is_candidate, local / candidate, 1.0))
        better = is_candidate & (seconds < best_seconds)
        best = np.where(better, float(candidate), best)
        best_steps = np.where(better, local / candidate, best_steps)
        best_seconds = np.where(better, seconds, best_seconds)
    return best, best_steps
