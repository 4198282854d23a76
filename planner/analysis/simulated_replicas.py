"""Runs of many replicas at given rates: their speeds as the simulation reads them, and what their requests met."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from planner.analysis.simulated_engine import Replicas, Requests, serve
from planner.configurations.replica_enumeration import lengths_of
from planner.estimates.batching import decode_step_seconds, kv_bytes_per_token, prompt_seconds, seen_tokens
from planner.estimates.prompt_work import columns
from planner.records import record

if TYPE_CHECKING:
    from planner.arrays import Floats, Integers
    from planner.configurations.replica_enumeration import ReplicaSpeeds
    from planner.estimates.prompt_work import Lengths
    from planner.scenario.service_load import ServeJob


# Requests that come to one replica: when they arrive, and how long their prompts and answers are.


STREAMS: dict[Literal["Poisson", "bursts"], float] = {"Poisson": 1.0, "bursts": 0.25}
"""Shape of the gaps between the requests of a service, as load generators count burstiness (vLLM's benchmark: gamma
gaps of shape 1 are a Poisson stream, of less come in bursts): at a quarter their standard deviation is twice their
mean."""


def gaps(rate: Floats, routed: Floats, shape: float, count: int, random: np.random.Generator) -> Floats:
    """Return the seconds (lanes, count) between the requests that reach one replica.

    The requests of the whole service have gamma gaps of a `shape`, and each goes to the replica with probability
    `routed` (lanes,): what reaches it is every K-th, K geometric, and the sum of K gamma gaps is one of shape K times
    theirs. Their mean is 1 / `rate` (lanes,). Poisson streams stay Poisson; bursts of many replicas thin out.
    """
    share = np.clip(routed, 1e-9, 1.0)[:, None]
    steps = random.geometric(np.broadcast_to(share, (len(rate), count)))
    return np.asarray(random.standard_gamma(shape * steps) / shape * share / rate[:, None])


def drawn_lengths(lengths: Lengths, lanes: int, count: int, random: np.random.Generator) -> Integers:
    """Return which of the lengths (lanes, count) each request has."""
    weights = np.cumsum(np.asarray(lengths.count, dtype=float))
    return np.searchsorted(weights / weights[-1], random.random((lanes, count)), side="right").clip(0, len(weights) - 1)


MOST_LANES = 1500
"""Replicas that are simulated side by side at most, of one table of steps."""
LEAST_OF_LANE = 150
"""Requests that a lane measures at least, so that its start weighs little."""
WARM_LIVES = 4.0
"""Requests in flight, in the mean, that pass before a lane measures."""


@record(frozen=True)
class Speeds:
    """What the simulation reads of kinds of replicas, all times lengthened; columns (kinds,) or (kinds, lengths)."""

    step_seconds: Floats  # (kinds, places + 1)
    token_seconds: Floats
    cache_tokens: Floats
    places: Integers
    prompt: Floats  # (lengths,)
    output: Integers  # (lengths,)
    prompt_seconds: Floats
    context: Floats
    growth: Floats
    arrival_seconds: Floats  # from sending a request until the engine has it
    lengths: Lengths


class Run(NamedTuple):
    """One stream of requests to one replica of a kind."""

    kind: int
    rate: float  # requests per second
    routed: float  # share of the requests of the service that it gets
    flight: float  # requests in flight that are about to be expected: where the simulation starts
    requests: int


class Met(NamedTuple):
    """What the requests of one run met, columns (requests,)."""

    first: Floats  # seconds to the first token
    each: Floats  # seconds per token after it; nan for answers of one token
    length: Integers


def speeds_of(job: ServeJob, speeds: ReplicaSpeeds, slow: Floats) -> Speeds:
    """Return the speeds of replicas, all times `slow` (kinds,) times as long as estimated."""
    lengths = lengths_of(job)
    plain_model, plain_hardware, plain_stack = speeds.inputs
    model, hardware, stack = columns(plain_model), columns(plain_hardware), columns(plain_stack)
    most = np.asarray([one.recipe.engine.sequences for one in speeds.which], dtype=np.int64)
    count, kinds = np.arange(int(np.max(most)) + 1, dtype=float)[None, :], len(slow)
    own = np.asarray(lengths.prompt, dtype=float) - lengths.prefix
    taken = prompt_seconds(model, hardware, own[None, :], lengths.prefix) + stack.request_seconds
    prompt, output = np.asarray(lengths.prompt, dtype=float), np.asarray(lengths.output, dtype=float)
    start = np.broadcast_to(seen_tokens(model, prompt[None, :]), (kinds, len(prompt)))
    end = np.broadcast_to(seen_tokens(model, (prompt + output)[None, :]), start.shape)
    context = kv_bytes_per_token(model, stack.kv_bytes, hardware.tensor) / hardware.cache_bandwidth / hardware.pipeline
    pipeline = np.maximum(np.asarray(hardware.pipeline, dtype=float), 1.0)
    factor = slow[:, None]
    return Speeds(
        step_seconds=np.broadcast_to(decode_step_seconds(model, hardware, stack, count, 0.0), (kinds, count.size))
        * factor,
        token_seconds=(np.broadcast_to(context, (kinds, 1)) * factor)[:, 0],
        cache_tokens=np.asarray([one.cache for one in speeds.memory]) / speeds.token_bytes,
        places=_places(speeds, most),
        prompt=own,
        output=np.asarray(lengths.output).astype(np.int64),
        prompt_seconds=np.broadcast_to(taken / pipeline, start.shape) * factor,
        context=np.asarray(start),
        growth=np.asarray((end - start) / output),
        arrival_seconds=np.broadcast_to(np.asarray(speeds.inputs[2].arrival_seconds, dtype=float), slow.shape) * slow,
        lengths=lengths,
    )


def _places(speeds: ReplicaSpeeds, most: Integers) -> Integers:
    """Return the most requests in flight: an engine that reserves their cache has no more than fit to their end."""
    cache = np.asarray([one.cache for one in speeds.memory])
    fit = np.maximum(np.floor(cache / (speeds.means.cached_tokens * speeds.token_bytes)), 1.0)
    reserves = np.asarray([one.recipe.engine.reserves for one in speeds.which])
    return np.asarray(np.where(reserves, np.minimum(most, fit), most)).astype(np.int64)


def simulate_runs(speeds: Speeds, runs: list[Run], shape: float, random: np.random.Generator) -> list[Met]:
    """Return what the requests of each run met; `shape` is that of the gaps between the requests of the service."""
    lanes = [(index, each) for index, run in enumerate(runs) for each in _lanes(run)]
    order = sorted(range(len(lanes)), key=lambda lane: (runs[lanes[lane][0]].flight, lanes[lane][1]))
    found: list[list[Met]] = [[] for _ in runs]
    for at in range(0, len(order), MOST_LANES):
        chunk = [lanes[one] for one in order[at : at + MOST_LANES]]
        for (index, _), met in zip(chunk, _serve_lanes(speeds, runs, chunk, shape, random), strict=True):
            found[index].append(met)
    return [Met(*(np.concatenate(column) for column in zip(*several, strict=True))) for several in found]


def _lanes(run: Run) -> list[int]:
    """Return the requests that are measured on each of the lanes that share a run."""
    each = max(LEAST_OF_LANE, int(2.0 * WARM_LIVES * run.flight))
    count = max(1, run.requests // each)
    return [run.requests // count + (lane < run.requests % count) for lane in range(count)]


def _serve_lanes(
    speeds: Speeds, runs: list[Run], lanes: list[tuple[int, int]], shape: float, random: np.random.Generator
) -> list[Met]:
    """Return what was met on lanes, each a run and the requests that it measures."""
    kind = np.asarray([runs[index].kind for index, _ in lanes])
    rate, routed, flight = (
        np.asarray([getattr(runs[index], name) for index, _ in lanes]) for name in ("rate", "routed", "flight")
    )
    measured = np.asarray([count for _, count in lanes])
    started = np.minimum(random.poisson(flight), speeds.places[kind])
    before = started + np.ceil(WARM_LIVES * flight).astype(np.int64) + 1
    wanted = before + measured
    count = int(np.max(wanted + np.ceil(3.0 * flight).astype(np.int64))) + 1
    length = drawn_lengths(speeds.lengths, len(lanes), count, random)
    number = np.arange(count)
    waits = number >= started[:, None]
    arrival = np.cumsum(np.where(waits, gaps(rate, routed, shape, count, random), 0.0), axis=1)
    row = kind[:, None]
    requests = Requests(
        arrival=arrival,
        prompt=speeds.prompt[length],
        prompt_seconds=speeds.prompt_seconds[row, length],
        context=speeds.context[row, length],
        growth=speeds.growth[row, length],
        output=speeds.output[length],
        done_share=np.where(waits, np.nan, random.random(arrival.shape)),
    )
    replicas = Replicas(
        speeds.step_seconds[kind], speeds.token_seconds[kind], speeds.cache_tokens[kind], speeds.places[kind]
    )
    answered = serve(replicas, requests, wanted)
    output = speeds.output[length]
    with np.errstate(invalid="ignore", divide="ignore"):
        each = np.where(output > 1, (answered.last - answered.first) / (output - 1.0), np.nan)
    first = answered.first - arrival + speeds.arrival_seconds[kind][:, None]
    return [
        Met(first[lane, a:b], each[lane, a:b], length[lane, a:b])
        for lane, (a, b) in enumerate(zip(before.tolist(), wanted.tolist(), strict=True))
    ]
