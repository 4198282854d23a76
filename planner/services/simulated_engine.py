"""Replicas with continuous batching, one event per iteration, and runs of many of them at given rates."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from planner import generation
from planner.arrays import Flags, Floats, Integers
from planner.estimates.generation import (
    BLOCK_TOKENS,
    CHUNK_TOKENS,
    decode_step_seconds,
    kv_bytes_per_token,
    prompt_seconds,
    seen_tokens,
)
from planner.estimates.latency import Lengths, columns
from planner.scenario.inference_job import ServeJob

# Replicas with continuous batching as their engine makes it, many side by side: one event of each per iteration.
#
# A step computes one token of every sequence in flight and, of the prompts that wait, as many tokens as its budget has
# room for, first come first served. A request has its first token at the end of the step that completes its prompt, and
# one more with each step after it. A request is admitted while the cache has room for its prompt and the engine a
# place; where the cache runs full the youngest request is evicted and computed again later. Steps without prompts,
# arrivals or ends among them are taken in one event: their seconds grow evenly with the context.
#
# Nothing is taken from the formulas of `planner.estimates.latency`, which this simulation checks.


_CHANGED = ("prompt", "prompt_seconds", "context", "output")  # of a request that is evicted
FREE = int(np.iinfo(np.int64).max)
"""Step at which an empty place ends."""
FIRST_PLACES = 16
"""Places in flight that are kept at first; more are added where they are needed."""
HALF_BLOCK = BLOCK_TOKENS / 2.0
KEPT_FREE = 0.01
"""Share of the cache that no new request may take, so that those in flight can grow: vLLM's watermark."""
TIDY_EVENTS = 256
"""Events after which lanes that are done are left out."""


@dataclass(frozen=True)
class Replicas:
    """Speed and memory of replicas, columns (lanes,)."""

    step_seconds: Floats  # (lanes, n + 1) of a step with 0 to n sequences in flight, without their context
    token_seconds: Floats  # that each token of context adds to a step
    cache_tokens: Floats  # that the cache holds
    places: Integers  # most requests in flight


@dataclass(frozen=True)
class Requests:
    """Requests of each lane in the order of their arrival, columns (lanes, requests)."""

    arrival: Floats  # seconds at which the engine has the request
    prompt: Floats  # tokens that are computed
    prompt_seconds: Floats  # that computing them adds to steps
    context: Floats  # tokens that a layer keeps of the prompt, the shared prefix among them
    growth: Floats  # that each token of the answer adds to it
    output: Integers  # tokens
    done_share: Floats  # of the answer that is there at the start; nan: not in flight then


@dataclass(frozen=True)
class Answered:
    """When each request (lanes, requests) had its first token and its last one, in seconds; nan where it had none."""

    first: Floats
    last: Floats


def serve(replicas: Replicas, requests: Requests, wanted: Integers) -> Answered:
    """Return when the requests were answered; a lane ends when its first `wanted` (lanes,) requests are."""
    lanes, count = requests.arrival.shape
    requests = replace(requests, **{name: getattr(requests, name).copy() for name in _CHANGED})
    answered = Answered(np.full((lanes, count), np.nan), np.full((lanes, count), np.nan))
    batch = _Batch(np.arange(lanes), replicas, requests, wanted)
    batch.start()
    events = 0
    while len(batch.lane):
        batch.admit()
        batch.run(answered)
        events += 1
        if events % TIDY_EVENTS == 0 or not bool(np.any(batch.missing > 0)):
            batch = batch.tidied(batch.missing > 0)
    return answered


class _Batch:
    """The state of the lanes that are not done."""

    def __init__(self, lane: Integers, replicas: Replicas, requests: Requests, wanted: Integers):
        count = len(lane)
        self.lane, self.replicas, self.requests, self.wanted = lane, replicas, requests, wanted
        self.rows = np.arange(count)
        self.queue = np.broadcast_to(np.arange(requests.arrival.shape[1]), requests.arrival.shape).copy()
        self.time = np.zeros(count)
        self.step = np.zeros(count, np.int64)
        self.head = np.zeros(count, np.int64)  # place in the queue
        self.coming = np.zeros(count)  # arrival of the request there; infinite after the last
        self.next_end = np.full(count, FREE, np.int64)  # least of `ends`
        self.active = np.zeros(count, np.int64)
        self.context = np.zeros(count)  # tokens of all in flight
        self.growth = np.zeros(count)  # of the context with each step
        self.pending = np.zeros(count)  # seconds of the prompts of the next step
        self.budget = np.full(count, float(CHUNK_TOKENS))  # prompt tokens that the next step has room for
        self.partial = np.full(count, -1, np.int64)  # request whose prompt is computed over several steps
        self.left = np.zeros(count)  # prompt tokens of it
        self.missing = wanted.copy()
        self.ends = np.full((count, FIRST_PLACES), FREE, np.int64)  # step of the last token by place
        self.held = np.zeros((count, FIRST_PLACES), np.int64)  # request by place
        self.fresh: list[tuple[Integers, Integers]] = []  # lanes and requests that get their first token next

    def start(self) -> None:
        """Put the requests that are in flight at the start into their places."""
        busy = ~np.isnan(self.requests.done_share)
        for place in range(int(np.max(np.sum(busy, axis=1), initial=0))):
            on = np.flatnonzero(busy[:, place])
            share = self.requests.done_share[on, place]
            self._place(on, np.full(len(on), place), np.floor(share * self.requests.output[on, place]).astype(np.int64))
        self.head = np.sum(busy, axis=1)
        self._look_ahead(self.rows)

    def _place(self, on: Integers, request: Integers, done: Integers) -> None:
        """Give requests a place, with so many tokens of the answer there."""
        if len(on) == 0:
            return
        free = np.argmax(self.ends[on] == FREE, axis=1)
        if bool(np.any(self.ends[on, free] != FREE)):
            more = self.ends.shape[1]
            self.ends = np.concatenate([self.ends, np.full((len(self.lane), more), FREE)], axis=1)
            self.held = np.concatenate([self.held, np.zeros((len(self.lane), more), np.int64)], axis=1)
            free = np.argmax(self.ends[on] == FREE, axis=1)
        read = self.requests
        end = self.step[on] + read.output[on, request] - done
        self.ends[on, free] = end
        self.next_end[on] = np.minimum(self.next_end[on], end)
        self.held[on, free] = request
        self.active[on] += 1
        self.context[on] += read.context[on, request] + done * read.growth[on, request]
        self.growth[on] += read.growth[on, request]

    def _look_ahead(self, on: Integers) -> None:
        """Find when the next request of some lanes arrives."""
        last = self.queue.shape[1] - 1
        head = self.queue[on, np.minimum(self.head[on], last)]
        self.coming[on] = np.where(self.head[on] <= last, self.requests.arrival[on, head], np.inf)

    def _used(self) -> Floats:
        """Return the tokens of the blocks in use: half a block of each request is empty in the mean."""
        return self.context + self.active * HALF_BLOCK

    def admit(self) -> None:
        """Take requests into the next step until budget, cache or places end."""
        going = np.flatnonzero(self.partial >= 0)
        if len(going):
            self._go_on(going)
        on = np.flatnonzero(self.coming <= self.time)
        while len(on):
            on = on[(self.partial[on] < 0) & (self.budget[on] > 0) & (self.active[on] < self.replicas.places[on])]
            request = self.queue[on, self.head[on]]
            used = self.context[on] + self.active[on] * HALF_BLOCK
            room = self.replicas.cache_tokens[on] * (1.0 - KEPT_FREE) - used - BLOCK_TOKENS
            fits = (self.requests.context[on, request] <= room) | (self.active[on] == 0)
            on, request = on[fits], request[fits]
            if len(on) == 0:
                return
            self.head[on] += 1
            self._look_ahead(on)
            tokens = np.maximum(self.requests.prompt[on, request], 1.0)
            whole = tokens <= self.budget[on]
            self._complete(on[whole], request[whole], tokens[whole])
            if not bool(np.all(whole)):
                cut, cut_request = on[~whole], request[~whole]
                self.partial[cut], self.left[cut] = cut_request, tokens[~whole]
                self._go_on(cut)
            on = on[self.coming[on] <= self.time[on]]

    def _complete(self, on: Integers, request: Integers, tokens: Floats) -> None:
        """Compute the last `tokens` of prompts in the next step."""
        share = tokens / np.maximum(self.requests.prompt[on, request], 1.0)
        self.pending[on] += self.requests.prompt_seconds[on, request] * share
        self.budget[on] -= tokens
        self._place(on, request, np.zeros(len(on), np.int64))
        self.fresh.append((on, request))

    def _go_on(self, on: Integers) -> None:
        """Compute more of the prompts that are longer than a step has room for."""
        request, left, room = self.partial[on], self.left[on], self.budget[on]
        ends = left <= room
        self.partial[on[ends]] = -1
        self._complete(on[ends], request[ends], left[ends])
        on, request, room = on[~ends], request[~ends], room[~ends]
        self.left[on] -= room
        self.pending[on] += self.requests.prompt_seconds[on, request] * room / self.requests.prompt[on, request]
        self.budget[on] = 0.0

    def run(self, answered: Answered) -> None:
        """Run steps of every lane until something happens: an end, an arrival, a full cache."""
        self._evict()
        coming = self.coming
        idle = (self.active == 0) & (self.pending == 0.0) & (self.partial < 0)
        step_seconds = self.replicas.step_seconds[
            self.rows, np.minimum(self.active, self.replicas.step_seconds.shape[1] - 1)
        ]
        first = step_seconds + self.context * self.replicas.token_seconds
        bend = self.growth * self.replicas.token_seconds  # seconds that each step is longer than the one before
        until = self.next_end - self.step
        room = np.maximum(self.replicas.cache_tokens - self._used(), 0.0) / np.maximum(self.growth, 1e-9)
        blocked = coming <= self.time  # the next request waits for a place: only an end helps
        gap = np.where(blocked | np.isinf(coming), 1e18, np.maximum(coming - self.time, 0.0))
        flat = first - bend / 2.0
        wanted = 2.0 * gap / (flat + np.sqrt(flat * flat + 2.0 * bend * gap))
        steps = np.minimum(np.minimum(np.maximum(np.ceil(wanted), 1.0), until), np.maximum(np.floor(room), 1.0))
        alone = (self.pending > 0.0) | (self.partial >= 0)
        steps = np.where(idle, 0.0, np.where(alone, 1.0, steps))
        seconds = steps * first + bend * steps * (steps - 1.0) / 2.0 + self.pending
        self.time = np.where(idle, np.maximum(self.time, np.where(np.isinf(coming), self.time, coming)),
                             self.time + seconds)  # fmt: skip
        self.step += steps.astype(np.int64)
        self.context += steps * self.growth
        self.missing[idle & np.isinf(coming)] = 0  # nothing is left to come
        self.pending[:] = 0.0
        for on, request in self.fresh:
            new = np.isnan(answered.first[self.lane[on], request])
            answered.first[self.lane[on[new]], request[new]] = self.time[on[new]]
        self.fresh.clear()
        self._leave(answered)
        self.budget = CHUNK_TOKENS - self.active.astype(float)

    def _leave(self, answered: Answered) -> None:
        """Free the places of the requests that have their last token."""
        some = np.flatnonzero(self.next_end <= self.step)
        if len(some) == 0:
            return
        row, place = np.nonzero(self.ends[some] <= self.step[some, None])
        on = some[row]
        request, read = self.held[on, place], self.requests
        answered.last[self.lane[on], request] = self.time[on]
        self.ends[on, place] = FREE
        self.next_end[some] = np.min(self.ends[some], axis=1)
        ended = read.context[on, request] + read.output[on, request] * read.growth[on, request]
        count = len(self.lane)
        self.active -= np.bincount(on, minlength=count)
        self.context -= np.bincount(on, weights=ended, minlength=count)
        self.growth -= np.bincount(on, weights=read.growth[on, request], minlength=count)
        self.missing -= np.bincount(on[request < self.wanted[on]], minlength=count)
        empty = self.active == 0
        self.context[empty] = self.growth[empty] = 0.0  # rounding

    def _evict(self) -> None:
        """Put the youngest request back to the front of the queue where the cache has no room for the next step."""
        full = (self._used() + self.growth > self.replicas.cache_tokens) & (self.active > 1) & (self.pending == 0.0)
        full &= (self.partial < 0) & (self.head > 0)
        for lane in np.flatnonzero(full).tolist():
            place = int(np.argmax(np.where(self.ends[lane] == FREE, -1, self.held[lane])))
            request = int(self.held[lane, place])
            read, left = self.requests, int(self.ends[lane, place] - self.step[lane])
            done = int(read.output[lane, request]) - left
            self.context[lane] -= read.context[lane, request] + done * read.growth[lane, request]
            self.growth[lane] -= read.growth[lane, request]
            self.active[lane] -= 1
            self.ends[lane, place] = FREE
            self.next_end[lane] = np.min(self.ends[lane])
            more = 1.0 + done / max(float(read.prompt[lane, request]), 1.0)
            read.prompt_seconds[lane, request] *= more
            read.prompt[lane, request] = max(read.prompt[lane, request], 1.0) * more
            read.context[lane, request] += done * read.growth[lane, request]
            read.output[lane, request] = left
            self.head[lane] -= 1
            self.queue[lane, self.head[lane]] = request
            self._look_ahead(np.asarray([lane]))

    def tidied(self, keep: Flags) -> _Batch:
        """Return the lanes that are kept."""
        other = _Batch.__new__(_Batch)
        for name, value in vars(self).items():
            row_wise = isinstance(value, np.ndarray)
            setattr(other, name, value[keep] if row_wise else value)
        other.replicas, other.requests = _rows(self.replicas, keep), _rows(self.requests, keep)
        other.rows, other.fresh = np.arange(int(np.sum(keep))), []
        return other


def _rows(arrays: Any, keep: Flags) -> Any:
    """Return the rows of a dataclass of columns."""
    return replace(arrays, **{field.name: getattr(arrays, field.name)[keep] for field in fields(arrays)})


# Runs of many replicas at given rates: their speeds as the simulation reads them, and what their requests met.


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


@dataclass(frozen=True)
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


def speeds_of(job: ServeJob, speeds: generation.ReplicaSpeeds, slow: Floats) -> Speeds:
    """Return the speeds of replicas, all times `slow` (kinds,) times as long as estimated."""
    lengths = generation.lengths_of(job)
    plain_model, plain_hardware, plain_stack = speeds.inputs
    model, hardware, stack = columns(plain_model), columns(plain_hardware), columns(plain_stack)
    most = speeds.most.astype(np.int64)
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
        cache_tokens=np.asarray([memory.cache for memory in speeds.memory]) / speeds.token_bytes,
        places=_places(speeds, most),
        prompt=own,
        output=np.asarray(lengths.output).astype(np.int64),
        prompt_seconds=np.broadcast_to(taken / pipeline, start.shape) * factor,
        context=np.asarray(start),
        growth=np.asarray((end - start) / output),
        arrival_seconds=np.broadcast_to(np.asarray(speeds.inputs[2].arrival_seconds, dtype=float), slow.shape) * slow,
        lengths=lengths,
    )


def _places(speeds: generation.ReplicaSpeeds, most: Integers) -> Integers:
    """Return the most requests in flight: an engine that reserves their cache has no more than fit to their end."""
    cache = np.asarray([memory.cache for memory in speeds.memory])
    fit = np.maximum(np.floor(cache / (speeds.means.cached_tokens * speeds.token_bytes)), 1.0)
    reserves = np.asarray([served.recipe.engine.reserves for served in speeds.which])
    return np.asarray(np.where(reserves, np.minimum(most, fit), most)).astype(np.int64)


def simulate_runs(speeds: Speeds, runs: list[Run], shape: float, random: np.random.Generator) -> list[Met]:
    """Return what the requests of each run met; `shape` is that of the gaps between the requests of the service."""
    lanes = [(index, requests) for index, run in enumerate(runs) for requests in _lanes(run)]
    order = sorted(range(len(lanes)), key=lambda lane: (runs[lanes[lane][0]].flight, lanes[lane][1]))
    met_by_run: list[list[Met]] = [[] for _ in runs]
    for at in range(0, len(order), MOST_LANES):
        chunk = [lanes[lane] for lane in order[at : at + MOST_LANES]]
        for (index, _), met in zip(chunk, _serve_lanes(speeds, runs, chunk, shape, random), strict=True):
            met_by_run[index].append(met)
    return [Met(*(np.concatenate(column) for column in zip(*several, strict=True))) for several in met_by_run]


def _lanes(run: Run) -> list[int]:
    """Return the requests that are measured on each of the lanes that share a run."""
    length = max(LEAST_OF_LANE, int(2.0 * WARM_LIVES * run.flight))
    count = max(1, run.requests // length)
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
        per_token = np.where(output > 1, (answered.last - answered.first) / (output - 1.0), np.nan)
    first = answered.first - arrival + speeds.arrival_seconds[kind][:, None]
    return [
        Met(first[lane, a:b], per_token[lane, a:b], length[lane, a:b])
        for lane, (a, b) in enumerate(zip(before.tolist(), wanted.tolist(), strict=True))
    ]
