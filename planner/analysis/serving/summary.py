"""Predicted and simulated latencies next to each other: of the kinds in the busiest hour, and over the cycle."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from planner.configurations.replicas.traffic import Traffic
from planner.records import record
from planner.results.serving.simulation import SimulatedKind, SimulatedLatency, SimulatedLimit, SimulatedStream

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.analysis.serving.fleet import FleetLoad, SimulatedFleet, Stretch
    from planner.analysis.serving.replicas import Met
    from planner.arrays import Floats

SHARES = (0.05, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.998)
"""Shares of the requests at which a latency is predicted; between them it is a straight line."""
USE_STEPS = 50
"""Steps of the use of a replica's capacity that a prediction distinguishes."""
MIXED_HALVINGS = 40


@record(frozen=True)
class Predicted:
    """Predictions of each stretch: columns (stretches,), and latencies (SHARES + asked, stretches)."""

    shares: Floats
    flight: Floats
    ttft: Floats
    tpot: Floats


def predicted_latencies(fleet: SimulatedFleet, load: FleetLoad) -> Predicted:
    """Return what the formulas of the plan say of every stretch."""
    stretches, asked = load.stretches, fleet.job.latency.share
    rough = [(one.kind, round(one.use * USE_STEPS)) if not load.is_busiest(one) else (one.kind, one.use)
             for one in stretches]  # fmt: skip
    number = {key: place for place, key in enumerate(dict.fromkeys(rough))}
    which = np.asarray([number[key] for key in rough])
    first = [rough.index(key) for key in number]
    kinds, rates = (
        np.asarray([stretches[one].kind for one in first]),
        np.asarray([stretches[one].rate for one in first]),
    )
    traffic = Traffic.of(fleet.job, fleet.speeds, fleet.slow).choosing(kinds)
    shares = np.unique([*SHARES, asked])
    ttft, tpot = [], []
    for share in shares.tolist():
        latency = fleet.job.latency.model_copy(update={"share": share})
        asking = replace(traffic, job=fleet.job.model_copy(update={"latency": latency}))
        ttft.append(asking.ttft(rates))
        tpot.append(asking.tpot(rates))
    return Predicted(shares, traffic.flight(rates)[which], np.stack(ttft)[:, which], np.stack(tpot)[:, which])


class _Side(NamedTuple):
    """Some stretches with their weights, and one latency of theirs."""

    weight: Floats
    predicted: Floats  # (shares, stretches)
    met: Sequence[Floats]


def summarise(
    fleet: SimulatedFleet,
    load: FleetLoad,
    predicted: Predicted,
    name: Literal["Poisson", "bursts"],
    shape: float,
    met: Sequence[Met],
) -> SimulatedStream:
    """Return the figures of one stream of requests."""
    busiest = [place for place, one in enumerate(load.stretches) if load.is_busiest(one)]
    everything = list(range(len(load.stretches)))
    asked, latency = fleet.job.latency.share, fleet.job.latency

    def side(which: list[int], what: Literal["ttft", "tpot"], weights: list[float]) -> SimulatedLatency:
        limit = latency.ttft_seconds if what == "ttft" else latency.tpot_seconds
        seconds = [met[one].first if what == "ttft" else met[one].each for one in which]
        table = (predicted.ttft if what == "ttft" else predicted.tpot)[:, which]
        return _latency(_Side(np.asarray(weights), table, seconds), predicted.shares, asked, limit)

    def both(what: Literal["ttft", "tpot"]) -> SimulatedLimit:
        return SimulatedLimit(
            name=what,
            limit_seconds=latency.ttft_seconds if what == "ttft" else latency.tpot_seconds,
            asked_share=asked,
            busiest=side(busiest, what, [load.stretches[one].share for one in busiest]),
            cycle=side(everything, what, [one.weight for one in load.stretches]),
        )

    def kind(place: int, one: Stretch) -> SimulatedKind:
        named = fleet.service.fleet.kinds[one.kind]
        first, each = side([place], "ttft", [1.0]), side([place], "tpot", [1.0])
        return SimulatedKind(
            offer=named.offer, provider=named.provider, gpu=named.gpu, use=one.use, requests_per_second=one.rate,
            ttft=first, tpot=each,
        )  # fmt: skip

    kinds = tuple(kind(place, load.stretches[place]) for place in busiest)
    limits = (both("ttft"), both("tpot")) if np.any(predicted.tpot > 0) else (both("ttft"),)
    return SimulatedStream(name=name, shape=shape, limits=limits, kinds=kinds)


def _latency(side: _Side, shares: Floats, asked: float, limit: float | None) -> SimulatedLatency:
    """Return a latency that the asked share stays below, and the share within the limit, both twice."""
    values, weights = _weighted(side)
    order = np.argsort(values)
    reached = np.cumsum(weights[order]) / max(float(np.sum(weights)), 1e-300)
    place = min(int(np.searchsorted(reached, asked)), len(order) - 1)
    inside = 0.0 if limit is None else float(np.sum(weights[values <= limit]))
    return SimulatedLatency(
        predicted_seconds=_mixed_quantile(side, shares, asked),
        simulated_seconds=float(values[order[place]]) if len(order) else 0.0,
        predicted_share=None if limit is None else _share_below(side, shares, limit),
        simulated_share=None if limit is None else inside / max(float(np.sum(weights)), 1e-300),
    )


def _weighted(side: _Side) -> tuple[Floats, Floats]:
    """Return the seconds of all requests and the weight of each; answers of one token have no time per token."""
    values, weights = [], []
    for weight, met in zip(side.weight.tolist(), side.met, strict=True):
        some = met[~np.isnan(met)]
        values.append(some)
        weights.append(np.full(len(some), weight / max(len(met), 1)))
    return np.concatenate(values), np.concatenate(weights)


def _share_below(side: _Side, shares: Floats, seconds: float) -> float:
    """Return the predicted share of the requests below so many seconds."""
    known = np.concatenate([[0.0], shares, [1.0]])
    found = 0.0
    for weight, column in zip(side.weight.tolist(), side.predicted.T, strict=True):
        ends = np.concatenate([[min(column[0], 2.0 * column[0] - column[1])], column, [2.0 * column[-1] - column[-2]]])
        found += weight * float(np.interp(seconds, ends, known))
    return found / max(float(np.sum(side.weight)), 1e-300)


def _mixed_quantile(side: _Side, shares: Floats, asked: float) -> float:
    """Return the predicted seconds that a share of the requests of all stretches stays below."""
    if side.predicted.shape[1] == 1:
        return float(side.predicted[np.searchsorted(shares, asked), 0])
    low, high = 0.0, 2.0 * float(np.max(side.predicted))
    for _ in range(MIXED_HALVINGS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if _share_below(side, shares, middle) < asked else (low, middle)
    return high
