"""Predictions of many rows at once, for coefficients that a fit varies or that ship."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.inference.rows import FIGURES, RESERVED_BYTES, Measured
from planner.arrays import Flags, Floats
from planner.estimates.generation import (
    ServedModel,
    ServingHardware,
    ServingStack,
    cycle_seconds,
    decode_step_seconds,
    in_flight_at_rate,
    kv_bytes_per_token,
    mean_seen_tokens,
    prefill_seconds,
    prompt_seconds,
    requests_that_fit,
)
from planner.estimates.latency import first_token_seconds, seconds_per_token
from planner.generation.engine_recipes import QUANTITIES, ServingColumns


def _rectangle(parts: Sequence[Sequence[int]]) -> NDArray[np.intp]:
    """Return rows of places of one length: what is missing is the place after the last, counted from the end."""
    most = max(map(len, parts), default=0)
    return np.array([[*part, *[-1] * (most - len(part))] for part in parts], dtype=np.intp)


class Table:
    """Rows with the coefficients that each depends on."""

    def __init__(self, rows: Sequence[Measured]):
        self.rows = tuple(rows)
        self._columns = ServingColumns([r.serving for r in rows])
        self.keys = tuple(sorted({key for r in rows for keys in r.keys.values() for key in keys}))
        place = {key: index for index, key in enumerate(self.keys)}
        self._finite = np.array([not np.isnan(r.requests) for r in rows])
        self._index = {name: _rectangle([[place[key] for key in r.keys[name]] for r in rows]) for name in QUANTITIES}
        self.prompt = np.array([r.prompt for r in rows])
        self.output = np.array([r.output for r in rows])
        self.replicas = np.array([float(r.replicas) for r in rows])
        self.batch = np.array([r.batch for r in rows])
        self.rate = np.array([r.rate for r in rows])
        self.requests = np.array([r.requests for r in rows])
        self.most = np.array([r.most for r in rows])
        self.pool = np.array([r.pool for r in rows])
        self.usable = np.array([r.usable for r in rows])
        self.trial = np.array([r.trial for r in rows])
        self.measured = {name: np.array([r.figures.get(name, np.nan) for r in rows]) for name in FIGURES}

    def depends(self, keys: Sequence[str]) -> Flags:
        """Return which row (first axis) depends on which of the coefficients."""
        own = [{key for keys_of in row.keys.values() for key in keys_of} for row in self.rows]
        return np.array([[key in known for key in keys] for known in own])

    def predict(self, values: Mapping[str, float]) -> dict[str, Floats]:
        """Return the figures by name, arrays (n,), for coefficients by key; what is missing counts 1."""
        known = np.array([values.get(key, 1.0) for key in self.keys] + [1.0])  # the last one fills up
        factor: Callable[[str], Any] = lambda name: np.prod(known[self._index[name]], axis=1)  # noqa: E731
        model, hardware, stack = self._columns.inputs(factor)
        cycle = partial(self._cycle, model, hardware, stack)
        flight = self._in_flight(model, hardware, stack, self.most * factor("sequences"), cycle)
        seconds = cycle(flight)
        context = mean_seen_tokens(model, self.prompt, self.output)
        step = decode_step_seconds(model, hardware, stack, flight, context)
        alone_step = decode_step_seconds(model, hardware, stack, 1.0, context)
        alone = prefill_seconds(model, hardware, stack, np.maximum(self.prompt, 1.0))
        added = prompt_seconds(model, hardware, self.prompt)
        at_once = first_token_seconds(stack, alone, step, added, flight - 1.0)
        first = np.where(np.isnan(self.rate), at_once, alone + step / 2.0 + self._queue(flight, seconds, added))
        # Fewer requests than replicas leave replicas idle; no more are finished than arrive.
        used = np.fmin(self.replicas, np.where(np.isnan(self.batch), np.inf, np.maximum(self.batch, 1.0)))
        rounds = np.where(self._finite, self.requests / (used * flight), 1.0)
        last = np.where(self._finite, values.get("tail", 1.0) * self.output * alone_step, 0.0)
        finished = np.fmin(
            used * flight * rounds / (rounds * seconds + last), np.where(np.isnan(self.rate), np.inf, self.rate)
        )
        return {
            "throughput": finished * self.output,
            "tpot": seconds_per_token(seconds, np.minimum(first, 0.9 * seconds), self.output),
            "ttft": first + self._wait_for_place(flight, seconds),
        }

    def _queue(self, flight: Floats, cycle: Floats, prompt: Floats) -> Floats:
        """Return the mean wait for the prompts of others where requests arrive at random.

        Pollaczek and Khinchine, prompts of one length: with b the share of the time that prompts take, b * prompt / 2 /
        (1 - b). No more are taken in than are finished, so that b stays below 1.
        """
        rate = np.minimum(np.nan_to_num(self.rate) / self.replicas, flight / cycle)
        busy: Floats = rate * prompt
        return busy * prompt / 2.0 / (1.0 - busy)

    def _wait_for_place(self, flight: Floats, cycle: Floats) -> Floats:
        """Return the mean wait for a place where a closed loop keeps more requests than are in flight: Little's law.

        Example: 400 clients and 200 places wait one whole request each.
        """
        stated = np.where(np.isnan(self.batch), flight, self.batch / self.replicas)
        return np.asarray(np.maximum(stated / flight - 1.0, 0.0) * cycle)

    def _cycle(self, model: ServedModel, hardware: ServingHardware, stack: ServingStack, sequences: Any) -> Any:
        return cycle_seconds(model, hardware, stack, sequences, self.prompt, self.output)

    def _in_flight(
        self, model: ServedModel, hardware: ServingHardware, stack: ServingStack, most: Floats, cycle: Any
    ) -> Floats:
        """Return the sequences in flight of one replica: stated, by arrivals, or what cap and memory allow."""
        gpus = hardware.tensor * hardware.pipeline
        weights = model.stored_weights * stack.weight_bytes / gpus
        room = np.maximum(self.usable - weights - RESERVED_BYTES - self.trial, 0.02 * self.usable)
        per_token = kv_bytes_per_token(model, stack.kv_bytes, hardware.tensor, hardware.pipeline)
        fit = np.maximum(1.0, requests_that_fit(room, per_token, model, self.prompt + self.output * stack.held_share))
        stated = self.batch / self.replicas
        most = np.fmin(most, self.requests / self.replicas)
        stated_or_most = np.where(
            np.isnan(stated), np.minimum(most, fit), np.where(self.pool, np.minimum(stated, fit), stated)
        )
        closed: Floats = np.maximum(1.0, stated_or_most)
        arriving = ~np.isnan(self.rate)
        if not arriving.any():
            return closed
        each = np.where(arriving, self.rate, 1.0) / self.replicas
        return np.where(arriving, in_flight_at_rate(each, cycle, np.minimum(np.maximum(most, 1.0), fit)), closed)
