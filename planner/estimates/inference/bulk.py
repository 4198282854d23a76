"""A finite batch of requests of many lengths on one replica: what one of them takes in the mean, and all of them."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from planner.estimates.inference.batching import joined_cycle_seconds
from planner.estimates.inference.inputs import ServedModel, ServingHardware, ServingStack
from planner.estimates.inference.kv_cache import blocks_of, mean_seen_tokens, seen_tokens
from planner.estimates.inference.prefill import prompt_seconds
from planner.records import record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.estimates.inputs import Numbers

_Inputs = TypeVar("_Inputs", ServedModel, ServingHardware, ServingStack, "BatchMeans")


@record(frozen=True)
class Lengths:
    """Requests by length, columns (k,): tokens of prompt and answer, how many; tokens that all prompts share."""

    prompt: Any
    output: Any
    count: Any
    prefix: float = 0.0

    @property
    def requests(self) -> float:
        """Return the number of all requests."""
        return float(np.sum(self.count))

    @property
    def mean_output(self) -> float:
        """Return the mean tokens of an answer."""
        return float(np.average(self.output, weights=self.count))

    @property
    def seat_share(self) -> Any:
        """Return the share (k,) of the places in flight that each length takes: each stays for its answer's tokens."""
        return np.asarray(self.output, dtype=float) * self.count / np.sum(np.multiply(self.output, self.count))


@record(frozen=True)
class BatchMeans:
    """What the requests of a batch need in the mean, columns (n,) of configurations."""

    context: Any  # tokens that a layer reads per sequence in flight and step
    prompt_seconds: Any  # of taking in one request among others
    output: float  # tokens
    cached_tokens: Any  # whole blocks of the cache that one sequence in flight takes
    longest_tokens: Any  # the same at the end of the longest request


def batch_means(model: ServedModel, hardware: ServingHardware, stack: ServingStack, lengths: Lengths) -> BatchMeans:
    """Return the means over the requests; the columns of model, hardware and stack are (n,).

    The time of a step is a straight line in the context, so that the mean context of the places in flight gives the
    mean time of all requests exactly. Example: 100 requests of 900 + 150 tokens and 100 of 100 + 50: three quarters of
    the places belong to the long ones, whose mean context is 975 tokens, so that the mean is 762.5.
    """
    model, hardware, stack = columns(model), columns(hardware), columns(stack)
    prompt, output = np.asarray(lengths.prompt, dtype=float), np.asarray(lengths.output, dtype=float)
    seats, weight = lengths.seat_share, np.asarray(lengths.count, dtype=float) / lengths.requests
    taken_in = prompt_seconds(model, hardware, prompt - lengths.prefix, lengths.prefix) + stack.request_seconds
    ends = blocks_of(seen_tokens(model, prompt + output))
    return BatchMeans(
        context=np.sum(mean_seen_tokens(model, prompt, output) * seats, axis=-1),
        prompt_seconds=np.sum(taken_in * weight, axis=-1),
        output=lengths.mean_output,
        cached_tokens=np.sum(blocks_of(seen_tokens(model, prompt + output * stack.held_share)) * seats, axis=-1),
        longest_tokens=np.max(np.broadcast_to(ends, (*ends.shape[:-1], len(output))), axis=-1),
    )


def mean_cycle_seconds(
    model: ServedModel, hardware: ServingHardware, stack: ServingStack, means: BatchMeans, sequences: Numbers
) -> Any:
    """Return the mean seconds (n, m) of one request with `sequences` (n, m) in flight; the other columns are (n,)."""
    context, taken_in = (np.asarray(one, dtype=float)[:, None] for one in (means.context, means.prompt_seconds))
    model, hardware, stack = columns(model), columns(hardware), columns(stack)
    return joined_cycle_seconds(model, hardware, stack, sequences, context, taken_in, means.output)


def columns(one: _Inputs) -> _Inputs:
    """Return the same inputs with columns (n, 1)."""
    values: dict[str, Any] = {field.name: np.asarray(getattr(one, field.name))[..., None] for field in fields(one)}
    return replace(one, **values)


def rows(one: _Inputs, which: Sequence[int]) -> _Inputs:
    """Return the inputs of some configurations."""
    values = {field.name: np.asarray(getattr(one, field.name)) for field in fields(one)}
    picked: dict[str, Any] = {name: value[which] for name, value in values.items() if value.ndim}
    return replace(one, **picked)
