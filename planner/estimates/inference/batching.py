"""Throughput of continuous batching: many sequences in flight, a finite number of requests, requests that arrive."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from planner.estimates.inference.decode import decode_step_seconds
from planner.estimates.inference.kv_cache import mean_seen_tokens
from planner.estimates.inference.prefill import prompt_seconds

if TYPE_CHECKING:
    from planner.estimates.inference.inputs import ServedModel, ServingHardware, ServingStack
    from planner.estimates.inputs import Numbers

ROUNDS = 40
"""Bisections of whole numbers: enough for any number in flight."""
FALSE_POSITIONS = 8
"""Steps of false position: the line is nearly straight."""


def cycle_seconds(
    model: ServedModel,
    hardware: ServingHardware,
    stack: ServingStack,
    sequences: Numbers,
    prompt: Numbers,
    output: Numbers,
    prefix: Numbers = 0.0,
) -> Any:
    """Return the seconds of one request from its turn to its last token with `sequences` in flight.

    Each request takes `output` steps, and in that time the prompts of as many requests as are in flight pass through
    the same steps: `output * step + sequences * (prompt + taking in)`. `prompt` excludes the cached `prefix`.
    Stages of a pipeline take in prompts side by side.
    """
    start = np.asarray(prompt, dtype=float) + prefix
    taken_in = prompt_seconds(model, hardware, prompt, prefix) + stack.request_seconds
    context = mean_seen_tokens(model, start, output)
    return joined_cycle_seconds(model, hardware, stack, sequences, context, taken_in, output)


def joined_cycle_seconds(
    model: ServedModel,
    hardware: ServingHardware,
    stack: ServingStack,
    sequences: Numbers,
    context: Numbers,
    taken_in: Numbers,
    output: Numbers,
) -> Any:
    """Return the seconds of one request of `output` steps, given its mean context and the seconds of taking it in."""
    step = decode_step_seconds(model, hardware, stack, sequences, context)
    group = np.maximum(1.0, np.asarray(sequences, dtype=float) / hardware.pipeline)
    return np.asarray(output, dtype=float) * step + group * taken_in + stack.arrival_seconds


def requests_per_second(sequences: Numbers, cycle: Numbers) -> Any:
    """Return the requests finished per second in the steady state: Little's law."""
    return np.asarray(sequences, dtype=float) / cycle


def makespan_seconds(requests: Numbers, in_flight: Numbers, cycle: Any) -> Any:
    """Return the seconds of a finite batch: full rounds, then a last one with the requests that remain.

    `cycle(n)` are the seconds of one request with n in flight. Start and tail are what a hundred requests pay and a
    million do not notice.
    """
    full, rest = np.divmod(requests, in_flight)
    return full * cycle(in_flight) + np.where(rest > 0, cycle(np.maximum(rest, 1)), 0.0)


def in_flight_at_rate(rate: Numbers, cycle: Any, limit: Numbers) -> Any:
    """Return the sequences in flight at `rate` requests per second: n = rate * cycle(n), at most `limit`, at least 1.

    n - rate * cycle(n) is almost a straight line in n, so that false position (the Illinois rule) finds its root fast.
    """
    rate = np.asarray(rate, dtype=float)
    low, high = np.ones_like(rate), np.broadcast_to(np.asarray(limit, dtype=float), rate.shape).copy()
    missing, beyond = low - rate * cycle(low), high - rate * cycle(high)
    idle, saturated = missing >= 0, beyond <= 0
    for _ in range(FALSE_POSITIONS):
        slope = np.where(beyond > missing, beyond - missing, 1.0)
        middle = np.where(idle | saturated, low, high - beyond * (high - low) / slope)
        left = middle - rate * cycle(middle)
        above = left > 0
        low, high, missing, beyond = (
            np.where(above, low, middle),
            np.where(above, middle, high),
            np.where(above, missing / 2.0, left),
            np.where(above, left, beyond / 2.0),
        )
    return np.where(idle, 1.0, np.where(saturated, limit, middle))


def in_flight_at_latency(seconds: Numbers, time_per_token: Any, limit: Numbers) -> Any:
    """Return the most sequences whose time per token is at most `seconds`, 0 where one alone is slower."""
    seconds = np.asarray(seconds, dtype=float)
    low, high = np.zeros_like(seconds), np.broadcast_to(np.asarray(limit, dtype=float), seconds.shape).copy()
    for _ in range(ROUNDS):
        middle = np.ceil((low + high) / 2.0)
        kept = time_per_token(np.maximum(middle, 1.0)) <= seconds
        low, high = np.where(kept, middle, low), np.where(kept, high, middle - 1.0)
    return np.maximum(low, 0.0)
