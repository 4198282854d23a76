"""Rows of a table stacked into arrays, so that all of them are estimated for many calibrations in milliseconds.

Rows of one network become one batch: every field of a setup is a number, an array (n,), or, where it comes from a
calibration, an array (K, n) that is filled anew for each set of K calibrations.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from benchmarks.accuracy.predictions import KNOWN_SHARES, Prediction
from benchmarks.calibration.traced import Traced, key_of, traced_states
from planner.arrays import Floats
from planner.estimates.device import TimeCoefficients
from planner.estimates.inputs import Network, Setup, Stack, TimedSetup
from planner.estimates.memory_fit import MemoryEstimate, estimate_memory
from planner.estimates.memory_terms import MemoryCoefficients
from planner.estimates.step_time import step_seconds, tokens_per_step
from planner.library.schema import Library

T = TypeVar("T")

_KINDS = {"allocated": "allocated", "reserved": "reserved", "device": "device_used"}


@dataclass(frozen=True)
class Column:
    """A field that depends on calibrated numbers: for each distinct expression, the rows that it fills."""

    size: int
    plain: Floats  # (n,), value of the rows that no expression fills
    parts: tuple[tuple[Callable[[Mapping[str, Any]], Any], NDArray[np.intp]], ...]

    def at(self, values: Mapping[str, Floats], sets: int) -> Floats:
        """Return the field for K calibrations, shape (K, n)."""
        filled = np.broadcast_to(self.plain, (sets, self.size)).copy()
        for expression, rows in self.parts:
            filled[:, rows] = expression(values)
        return filled


@dataclass(frozen=True)
class Item:
    """One setup of one row; a row of two settings is two items whose shares sum to 1."""

    row: int
    share: float
    network: Network
    parts: tuple[Any, ...]  # dataclasses of planner/estimates/inputs.py


@dataclass(frozen=True)
class Batch:
    """Items of one network."""

    rows: NDArray[np.intp]
    shares: Floats
    network: Network
    kinds: tuple[type, ...]
    columns: tuple[dict[str, Any], ...]  # per dataclass: field -> number, array or Column

    def setups(self, values: Mapping[str, Floats], sets: int) -> list[Any]:
        """Return the dataclasses of the batch for K calibrations."""
        return [
            kind(**{name: v.at(values, sets) if isinstance(v, Column) else v for name, v in columns.items()})
            for kind, columns in zip(self.kinds, self.columns, strict=True)
        ]


def batches(items: Sequence[Item]) -> list[Batch]:
    """Return the items by network."""
    groups: dict[Network, list[Item]] = defaultdict(list)
    for item in items:
        groups[item.network].append(item)
    found = []
    for network, members in groups.items():
        kinds = tuple(type(part) for part in members[0].parts)
        columns = tuple(
            {
                field.name: _column([getattr(item.parts[index], field.name) for item in members])
                for field in fields(kind)
            }
            for index, kind in enumerate(kinds)
        )
        rows = np.array([item.row for item in members], dtype=np.intp)
        found.append(Batch(rows, np.array([item.share for item in members]), network, kinds, columns))
    return found


def _column(values: Sequence[Any]) -> Any:
    plain = np.array([float(value) for value in values])
    expressions: dict[str, tuple[Callable[[Mapping[str, Any]], Any], list[int]]] = {}
    for index, value in enumerate(values):
        if isinstance(value, Traced):
            expressions.setdefault(value.name, (value.at, []))[1].append(index)
    if not expressions:
        # Integer codes index tables; a value that all rows share needs no array.
        whole = np.array(values)
        return whole.flat[0].item() if np.all(whole == whole.flat[0]) else whole
    parts = tuple((at, np.array(rows, dtype=np.intp)) for at, rows in expressions.values())
    return Column(len(values), plain, parts)


def _named(kind: type[T], calibration: str, values: Mapping[str, Floats]) -> T:
    """Return a dataclass of coefficients for K calibrations, each field (K, 1)."""
    return kind(**{field.name: values[key_of(calibration, field.name)] for field in fields(kind)})  # type: ignore[arg-type]


@dataclass(frozen=True)
class MemoryRows:
    """The memory of rows: measured bytes, and batches that predict them."""

    predictions: tuple[Prediction, ...]
    measured: Floats  # (n,), nan where the row only says whether it ran
    usable: Floats
    chosen: NDArray[np.intp]  # (n,), index into _KINDS
    batches: tuple[Batch, ...]

    @classmethod
    def of(cls, predictions: Sequence[Prediction], library: Library) -> MemoryRows:
        """Return the rows of predictions whose library was traced; each has a configuration."""
        items = []
        for index, prediction in enumerate(predictions):
            found = prediction.configuration
            assert found is not None
            for share, plain, activations in found.settings:
                states = traced_states(plain, found.framework, library)
                parts = (found.layout, states, activations, found.stack)
                items.append(Item(index, share, found.network, parts))
        measured = [p.peak.measured if p.peak is not None else np.nan for p in predictions]
        kinds = [list(_KINDS).index(p.row.peak_kind) for p in predictions]
        usable = [p.usable_bytes for p in predictions]
        return cls(tuple(predictions), np.array(measured), np.array(usable), np.array(kinds), tuple(batches(items)))

    def estimates(self, values: Mapping[str, Floats], sets: int) -> dict[str, Floats]:
        """Return what `judged` takes of each row: (K, n), and the widest margins (K, n, shares).

        `peak`: bytes of the kind that was measured; `known`: states among the live tensors; `need` of the fit rule;
        `widest`: the margin with which it just fits, by known share.
        """
        shape = (sets, len(self.predictions))
        answer = {name: np.zeros(shape) for name in ("peak", "known", "need")}
        answer["widest"] = np.zeros((*shape, len(KNOWN_SHARES)))
        coefficients = _named(MemoryCoefficients, "memory", values)
        for batch in self.batches:
            setup = Setup(batch.network, *batch.setups(values, sets))
            found = estimate_memory(setup, coefficients, self.usable[batch.rows])
            shape = (sets, batch.rows.size)
            each = {
                "peak": self._of_kind(found, batch, shape),
                "known": np.broadcast_to(found.known, shape),
                "need": np.broadcast_to(found.need, shape),
                "widest": np.stack(
                    [np.broadcast_to(found.widest_margin(share), shape) for share in KNOWN_SHARES], axis=-1
                ),
            }
            for name, figures in each.items():
                for index in range(batch.rows.size):  # a row may have two items
                    answer[name][:, batch.rows[index]] += batch.shares[index] * figures[:, index]
        return answer

    def predicted(self, values: Mapping[str, Floats], sets: int) -> Floats:
        """Return the bytes of the kind that was measured, (K, n)."""
        peaks = np.zeros((sets, len(self.predictions)))
        coefficients = _named(MemoryCoefficients, "memory", values)
        for batch in self.batches:
            setup = Setup(batch.network, *batch.setups(values, sets))
            found = estimate_memory(setup, coefficients, self.usable[batch.rows])
            of_kind = self._of_kind(found, batch, (sets, batch.rows.size))
            for index in range(batch.rows.size):
                peaks[:, batch.rows[index]] += batch.shares[index] * of_kind[:, index]
        return peaks

    def _of_kind(self, found: MemoryEstimate, batch: Batch, shape: tuple[int, int]) -> Floats:
        kinds = [np.broadcast_to(getattr(found, name), shape) for name in _KINDS.values()]
        return np.choose(self.chosen[batch.rows], kinds)


@dataclass(frozen=True)
class SpeedRows:
    """The speed of rows whose sequences have the length stated: measured tokens/s over all GPUs, and batches."""

    predictions: tuple[Prediction, ...]
    measured: Floats
    tokens: Floats  # per optimizer step
    batches: tuple[Batch, ...]

    @classmethod
    def of(cls, predictions: Sequence[Prediction]) -> SpeedRows:
        """Return the rows of predictions whose library was traced; each has a host and a measured speed."""
        items, measured, tokens = [], [], []
        for index, prediction in enumerate(predictions):
            found = prediction.configuration
            assert found is not None and found.host is not None and prediction.speed is not None
            measured.append(prediction.speed.measured)
            tokens.append(float(tokens_per_step(found.layout)))
            for share, states, activations in found.settings:
                parts = (found.layout, states, activations, found.kernels, found.host.hardware)
                items.append(Item(index, share, found.network, parts))
        return cls(tuple(predictions), np.array(measured), np.array(tokens), tuple(batches(items)))

    def predicted(self, values: Mapping[str, Floats], sets: int) -> Floats:
        """Return the tokens/s over all GPUs, (K, n)."""
        seconds = np.zeros((sets, len(self.predictions)))
        coefficients = _named(TimeCoefficients, "time", values)
        for batch in self.batches:
            layout, states, activations, kernels, hardware = batch.setups(values, sets)
            setup = TimedSetup(batch.network, layout, states, activations, Stack(), kernels, hardware)
            found = step_seconds(setup, coefficients)
            found = np.broadcast_to(found, (sets, batch.rows.size))
            for index in range(batch.rows.size):
                seconds[:, batch.rows[index]] += batch.shares[index] * found[:, index]
        return self.tokens / seconds
