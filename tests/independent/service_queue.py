"""One replica of a service, written a second time: what requests and their prompts wait for, and where limits break.

Steps and the cache of a token are those of `planner.estimates.generation`; queues, waits and quantiles are not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from planner.arrays import Floats
from planner.estimates import generation
from planner.estimates.generation import CHUNK_TOKENS
from planner.estimates.latency import CHAIN_SQUARES, LATTICE, MOST_OF_STEPS, RANGE_SIGMAS, WAITS
from planner.estimates.uncertainty import class_sigmas, confidence_factor, tail_of_68_percent
from planner.generation.engine_recipes import Serving, ServingColumns, coefficient_factors
from planner.library.engines import read_engines
from planner.library.schema import Library
from planner.scenario.inference_job import ServeJob
from planner.services.evaluated_fleet import NamedKind

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


# Prompts that wait for steps, once more: sums of prompts by convolution, the chain by walking it step by step.
#
# The lattice is that of `planner.estimates.latency`; how shares on it are found is not.


_PROMPT_QUEUE_ROUNDS = 60
_RARE = 1e-13  # tail of a Poisson variable that is left out


class Prompts(NamedTuple):
    """Prompts by length: shares, seconds, steps over which one is spread; and the seconds that fit into a step."""

    shares: list[float]
    seconds: list[float]
    parts: list[int]
    most: float

    @property
    def mean(self) -> float:
        """Mean seconds."""
        return math.fsum(share * second for share, second in zip(self.shares, self.seconds, strict=True))

    @property
    def mean_square(self) -> float:
        """Mean of their squares."""
        return math.fsum(share * second * second for share, second in zip(self.shares, self.seconds, strict=True))


class FirstTokens:
    """When requests that have a place have their first token, arrival left out; prompts of others come at a rate."""

    def __init__(self, prompts: Prompts, rate: float, step: float):
        busy = min(rate * prompts.mean * (1.0 + step / prompts.most), MOST_OF_STEPS)
        work = busy * step / (1.0 - busy)
        deviation = math.sqrt(rate * prompts.mean_square * (step + work) / (1.0 - busy * busy))
        width = (max(prompts.seconds) + work + RANGE_SIGMAS * deviation) / (LATTICE - 1)
        powers = _powers(_sizes(prompts, width), rate * (step + min(width * (LATTICE - 1), prompts.most)))
        seconds, left, arriving = [], [], []
        for point in range(LATTICE):
            done = min(point * width, prompts.most)
            seconds.append(step + done)
            left.append(point * width - done)
            arriving.append(_summed(powers, rate * (step + done)))
        full = min(rate * prompts.mean, MOST_OF_STEPS)
        shares = _summed(powers, rate * step / (1.0 - full))
        chain = np.stack([_moved(arriving[point], left[point] / width) for point in range(LATTICE)])
        for _ in range(2**CHAIN_SQUARES):
            shares = shares @ chain
        seen = shares * seconds / float(shares @ np.asarray(seconds))
        behind = [one * (1.0 + step / prompts.most) for one in left]
        spread = (seconds[-1] + behind[-1] + width * (LATTICE - 1)) / (WAITS - 1)
        points = width * np.arange(LATTICE)

        def passed(waited: float) -> float:
            return math.fsum(
                float(seen[k] * (arriving[k] @ np.clip((waited - behind[k] - points) / seconds[k], 0.0, 1.0)))
                for k in range(LATTICE)
            )

        self.spread = spread
        self.waits = [passed(spread * one) for one in range(WAITS)]
        self.own = [second + step * parts for second, parts in zip(prompts.seconds, prompts.parts, strict=True)]
        self.shares = np.asarray(prompts.shares)

    def within(self, seconds: float, places: Sequence[tuple[float, float]] = ((0.0, 1.0),)) -> float:
        """Return the share of the requests with a first token within so long; `places`: waits for one, and shares."""
        points = self.spread * np.arange(WAITS)
        found = 0.0
        for wait, share in places:
            at = np.interp([seconds - wait - one for one in self.own], points, self.waits, left=0.0)
            found += share * float(at @ self.shares)
        return found

    def quantile(self, share: float, places: Sequence[tuple[float, float]] = ((0.0, 1.0),)) -> float:
        """Return the seconds within which a share of the requests has its first token."""
        low, high = 0.0, self.spread * (WAITS - 1) + max(self.own) + max(wait for wait, _ in places)
        for _ in range(_PROMPT_QUEUE_ROUNDS):
            middle = (low + high) / 2.0
            low, high = (middle, high) if self.within(middle, places) < share else (low, middle)
        return high


def first_token_seconds(share: float, prompts: Prompts, rate: float, step: float) -> float:
    """Return the seconds to the first token that a share of the requests stays below, where none waits for a place."""
    return FirstTokens(prompts, rate, step).quantile(share)


def _sizes(prompts: Prompts, width: float) -> Floats:
    """Return the shares of prompts by point; one between two points goes to both, so that the mean stays."""
    found = np.zeros(LATTICE)
    for share, seconds in zip(prompts.shares, prompts.seconds, strict=True):
        place = min(seconds / width, LATTICE - 1.0)
        point = min(int(place), LATTICE - 2)
        found[point] += share * (1.0 - place + point)
        found[point + 1] += share * (place - point)
    return found


def _powers(sizes: Floats, most: float) -> Floats:
    """Return the shares of the sum of 0, 1, 2... prompts below the last point, for a Poisson number up to `most`."""
    count = int(most + 12.0 * math.sqrt(most) + 30.0)
    found = [np.eye(1, LATTICE)[0]]
    for _ in range(count):
        found.append(np.convolve(found[-1], sizes)[:LATTICE])
    return np.stack(found)


def _summed(powers: Floats, mean: float) -> Floats:
    """Return the shares of the sum of a Poisson number of prompts; the last point takes all beyond."""
    number = np.arange(len(powers))
    logs = number * math.log(max(mean, 1e-300)) - mean - np.asarray([math.lgamma(one + 1.0) for one in number])
    weights = np.where(logs > math.log(_RARE) - 10.0, np.exp(logs), 0.0)
    found = weights @ powers
    found[-1] = max(0.0, 1.0 - float(np.sum(found[:-1])))
    return np.asarray(found)


def _moved(arriving: Floats, left: float) -> Floats:
    """Return the work before the next step: what arrives on top of the points that are left."""
    found, point = np.zeros(LATTICE), int(left)
    for more in range(LATTICE):
        found[min(point + more, LATTICE - 1)] += (1.0 - left + point) * arriving[more]
        found[min(point + more + 1, LATTICE - 1)] += (left - point) * arriving[more]
    return found


# One replica of a service in plain floats: memory, steps, and the latency of requests that arrive one by one.
#
# A second computation of what `planner.services.fleet_kinds` finds for all kinds at once. It shares the
# seconds of a step and of a prompt with it, and the definition of the lattice on which prompts wait.


# Gamma variables once more, by the error function instead of its series.


_GAMMAS_SUREST = 0.999
_GAMMAS_ROUNDS = 60


def gamma_quantile(share: float, mean: float, variance: float) -> float:
    """Return the quantile of a gamma variable: its cube root is nearly normal."""
    low, high = -40.0, 40.0
    share = min(max(share, 1.0 - _GAMMAS_SUREST), _GAMMAS_SUREST)
    for _ in range(_GAMMAS_ROUNDS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if _normal(middle) < share else (low, middle)
    ninth = variance / mean**2 / 9.0
    return float(mean * max(1.0 - ninth + high * math.sqrt(ninth), 0.0) ** 3)


def gamma_below(value: float, mean: float, variance: float) -> float:
    """Return the share of a gamma variable below a value."""
    ninth = max(variance / mean**2 / 9.0, 1e-12)
    return _normal(((value / mean) ** (1.0 / 3.0) - 1.0 + ninth) / math.sqrt(ninth))


def _normal(deviations: float) -> float:
    return 0.5 * math.erfc(-deviations / math.sqrt(2.0))


# Requests that wait for a place, once more: the balance of arrivals and answers by recursion, residues in closed form.
#
# The model is that of `planner.estimates.latency`; how its figures are found is not.


_PARTS = 24  # of the requests that wait
_LEAST, _MOST = 1e-9, 1.0 - 1e-9  # use
_STEPS = 1000  # of sums over residues


class Present(NamedTuple):
    """Requests at a replica: the share that waits, and what one in flight meets."""

    waits: float
    use: float
    flight: float
    met: float
    variance: float


def present(holds: Sequence[float], rate: float) -> Present:
    """Return the requests at a rate, given the seconds of one by the number in flight."""
    places = len(holds)
    use = min(max(rate * holds[-1] / places, _LEAST), _MOST)
    rate = use * places / holds[-1]
    chances = [1.0]
    for count, hold in enumerate(holds, start=1):
        chances.append(chances[-1] * rate * hold / count)
        if chances[-1] > 1e200:
            chances = [chance / 1e200 for chance in chances]
    chances[-1] /= 1.0 - use
    whole = math.fsum(chances)
    mean, square, cube = (
        math.fsum(chance * count**power for count, chance in enumerate(chances)) / whole for power in (1, 2, 3)
    )
    return Present(chances[-1] / whole, use, mean, square / mean, max(cube / mean - (square / mean) ** 2, 0.0))


def waits_for_a_place(
    there: Present, places: float, seconds: Sequence[float], shares: Sequence[float]
) -> list[tuple[float, float]]:
    """Return waits and the share of the requests that wait so long; `seconds` of a request by length."""
    one, two, three = (
        math.fsum(share * each**power for share, each in zip(shares, seconds, strict=True)) for power in (1, 2, 3)
    )
    longest, first, square = max(seconds), 0.0, 0.0
    for step in range(_STEPS):  # midpoints, close together where the first place is free
        low, high = (longest * (at / _STEPS) ** 3 for at in (step, step + 1))
        middle = (low + high) / 2.0
        left = math.fsum(share * max(each - middle, 0.0) for share, each in zip(shares, seconds, strict=True)) / one
        first += left**places * (high - low)
        square += 2.0 * middle * left**places * (high - low)
    residue, more = two / (2.0 * one * places), there.use / (1.0 - there.use)
    mean = first + more * residue
    variance = square - first**2 + more * (three / (3.0 * one * places**2) - residue**2)
    variance += residue**2 * more / (1.0 - there.use)
    ends = [1.0 - (1.0 - part / _PARTS) ** 3 for part in range(_PARTS + 1)]
    found = [(0.0, 1.0 - there.waits)]
    for low, high in pairwise(ends):
        found.append((gamma_quantile((low + high) / 2.0, mean, variance), there.waits * (high - low)))
    return found


_GROUPS = 24  # of lengths that are distinguished
_FULL = 0.85  # of the greatest rate: beyond it no latency is predicted
_SUREST = 0.999
_ROUNDS = 60


class Length(NamedTuple):
    """Requests of one length, and their share."""

    prompt: float
    output: float
    share: float


def lengths_of_job(job: ServeJob) -> list[Length]:
    """Return the requests by length; of many lengths neighbours in total length are joined at their mean."""
    classes, whole = job.work.classes, math.fsum(one.count for one in job.work.classes)
    if len(classes) <= _GROUPS:
        return [Length(one.input_tokens, one.output_tokens, one.count / whole) for one in classes]
    groups: dict[int, list[Any]] = {}
    before = 0.0
    for one in sorted(classes, key=lambda each: (each.input_tokens + each.output_tokens, each.input_tokens)):
        number = min(int((before + one.count / 2.0) / whole * _GROUPS), _GROUPS - 1)
        groups.setdefault(number, []).append(one)
        before += one.count
    found = []
    for members in groups.values():
        count = math.fsum(member.count for member in members)
        prompt = math.fsum(member.count * member.input_tokens for member in members) / count
        output = math.fsum(member.count * member.output_tokens for member in members) / count
        found.append(Length(prompt, output, count / whole))
    return found


@dataclass(frozen=True)
class ServiceReplica:
    """A replica that a plan names, with the requests of its job; all times are seconds at the job's confidence."""

    named: NamedKind
    job: ServeJob
    serving: Serving
    library: Library
    gpu: str
    cache: float  # bytes of the cache on one GPU
    faster: float  # measured over estimated speed

    @cached_property
    def lengths(self) -> list[Length]:
        """Requests by length."""
        return lengths_of_job(self.job)

    @cached_property
    def inputs(self) -> Any:
        """Model, hardware and stack of the formulas."""
        values = self.library.calibrations["inference"].values
        return ServingColumns([self.serving]).inputs(coefficient_factors([self.serving], values))

    @cached_property
    def slow(self) -> float:
        """Factor on all times."""
        known, named = self.library.calibrations["inference"], self.named
        if any(
            (run.engine, run.gpu, run.weight_format, run.kv_bits)
            == (named.engine, self.gpu, named.weight_format, named.kv_bits)
            for run in self.job.measured
        ):
            tail = class_sigmas(self.library.calibrations["uncertainty"].values, "observed").tail
        else:
            fitted = read_engines().fitted_as(named.weight_format)
            keys = (f"spread.{named.engine}", f"memory.{self.gpu}", f"reading.{fitted}")
            entries = [known.coefficients.get(key) for key in keys]
            doubtful = any(entry is None or entry.basis != "measured" for entry in entries)
            doubtful |= self.job.adapter is not None and self.job.adapter.served is not None
            own = known.values.get(keys[0], known.values.get("spread", 0.4))
            tail = tail_of_68_percent(math.hypot(own, known.values.get("spread.prior", 0.2) if doubtful else 0.0))
        return float(confidence_factor(tail, self.job.confidence)) / (self.job.efficiency * self.faster)

    def mean(self, figure: Callable[[Length], float]) -> float:
        """Return the mean of a figure over the requests."""
        return math.fsum(length.share * figure(length) for length in self.lengths)

    def of_places(self, figure: Callable[[Length], float]) -> float:
        """Return the mean of a figure over the places in flight: a request holds one as long as its answer."""
        return self.mean(lambda one: one.output * figure(one)) / self.output

    @cached_property
    def output(self) -> float:
        """Mean tokens of an answer."""
        return self.mean(lambda one: one.output)

    @cached_property
    def context(self) -> float:
        """Tokens that a layer reads of a sequence in flight."""
        model = self.inputs[0]
        return self.of_places(lambda one: float(generation.mean_seen_tokens(model, one.prompt, one.output)[0]))

    def taken_in(self, one: Length) -> float:
        """Return the seconds that a prompt adds to steps."""
        model, hardware, stack = self.inputs
        prefix = float(self.job.work.prefix_tokens)
        found = generation.prompt_seconds(model, hardware, one.prompt - prefix, prefix) + stack.request_seconds
        return float(found[0]) * self.slow

    @cached_property
    def prompts(self) -> Prompts:
        """Prompts by length, and the seconds of them that fit into one step."""
        prefix = self.job.work.prefix_tokens
        own = [max(length.prompt - prefix, 1.0) for length in self.lengths]
        shares, seconds = [length.share for length in self.lengths], [self.taken_in(length) for length in self.lengths]
        mean = math.fsum(share * each for share, each in zip(shares, seconds, strict=True))
        tokens = math.fsum(share * each for share, each in zip(shares, own, strict=True))
        return Prompts(shares, seconds, [math.ceil(one / CHUNK_TOKENS) for one in own], mean / tokens * CHUNK_TOKENS)

    @cached_property
    def arrival(self) -> float:
        """Seconds from sending a request to its turn."""
        return float(self.inputs[2].arrival_seconds[0]) * self.slow

    def step(self, flight: float) -> float:
        """Return the seconds of a step without prompts."""
        model, hardware, stack = self.inputs
        return float(generation.decode_step_seconds(model, hardware, stack, flight, self.context)[0]) * self.slow

    def hold(self, flight: float) -> float:
        """Return the mean seconds for which a request has a place among so many in flight."""
        (model, hardware, stack), taken_in = self.inputs, self.prompts.mean / self.slow
        found = generation.joined_cycle_seconds(model, hardware, stack, flight, self.context, taken_in, self.output)
        return float(found[0]) * self.slow - self.arrival

    @cached_property
    def holds(self) -> list[float]:
        """Seconds of a request by the number in flight, from 1 to all places."""
        return [self.hold(float(count)) for count in range(1, int(self.places) + 1)]

    @property
    def greatest(self) -> float:
        """Requests per second of a saturated replica."""
        return self.places / self.holds[-1]

    def present(self, rate: float) -> Present:
        """Return the requests that are there at a rate."""
        return present(self.holds, rate)

    def rate(self, flight: float) -> float:
        """Return the requests per second with so many in flight in the mean."""
        low, high = 0.0, self.greatest
        for _ in range(_ROUNDS):
            middle = (low + high) / 2.0
            low, high = (middle, high) if self.present(middle).flight <= flight else (low, middle)
        return high

    def blocks(self, one: Length) -> float:
        """Return the tokens of the cache that a request takes in the middle of its answer, or at its reserved end."""
        held = 1.0 if read_engines().engines[self.named.engine].reserves else 0.5
        return float(generation.blocks_of(generation.seen_tokens(self.inputs[0], one.prompt + one.output * held))[0])

    @cached_property
    def token_bytes(self) -> float:
        """Bytes of a token in the cache of one GPU."""
        model, hardware, stack = self.inputs
        return float(generation.kv_bytes_per_token(model, stack.kv_bytes, hardware.tensor, hardware.pipeline)[0])

    @cached_property
    def places(self) -> float:
        """Requests in flight that memory and engine allow in the mean."""
        most = read_engines().engines[self.named.engine].limits_on(self.library.gpu(self.gpu)).sequences
        return min(max(1.0, math.floor(self.cache / (self.of_places(self.blocks) * self.token_bytes))), most)

    def tpot(self, rate: float) -> float:
        """Return the time per token that the asked share stays below; 0 where all answers have one token."""
        answers = [length for length in self.lengths if length.output > 1]
        if not answers:
            return 0.0
        there, mean = self.present(rate), self.prompts.mean
        hold, width = self.hold(there.met), max(0.05 * there.met, 0.05)
        slope = max((self.hold(there.met + width) - hold) / width - mean, 0.0) / self.output
        token, passes = (hold - mean) / self.output, (there.met - 1.0) / hold
        busy = min(min((there.met - 1.0) * slope / token, 1.0 - 1e-9) + passes * mean, 1.0 - 1e-9)
        stay = self.of_places(lambda one: one.output)
        alone = (self.hold(1.0) - mean) / self.output
        more = max(token - alone, 1e-12)
        fast = min(passes * mean, busy)
        gammas = []
        for answer in answers:
            past = max((1.0 - busy) * answer.output / stay, 1e-6)
            kept = 2.0 / past * (1.0 - (1.0 - math.exp(-past)) / past)
            grows = fast + (busy - fast) * min(answer.output / stay, 1.0)
            passing = self.prompts.mean_square * passes * token / answer.output / (1.0 - grows) ** 2
            gammas.append((answer.share, slope * slope * there.variance * kept + passing))
        whole = math.fsum(share for share, _ in gammas)
        low, high = 0.0, max(gamma_quantile(_SUREST, more, variance) for _, variance in gammas)
        for _ in range(_ROUNDS):
            middle = (low + high) / 2.0
            below = math.fsum(share * gamma_below(middle, more, variance) for share, variance in gammas) / whole
            low, high = (middle, high) if below < self.job.latency.share else (low, middle)
        return alone + high

    def first_tokens(self, rate: float) -> FirstTokens:
        """Return when requests that have a place have their first token, arrival left out."""
        there = self.present(rate)
        many = min(gamma_quantile(self.job.latency.share, there.flight, max(there.variance, 1e-12)), self.places)
        return FirstTokens(self.prompts, (there.met - 1.0) / self.hold(there.met), self.step(many))

    def waits(self, rate: float) -> list[tuple[float, float]]:
        """Return the waits for a place, and the share of the requests that wait so long."""
        token = (self.holds[-1] - self.prompts.mean) / self.output
        seconds = [
            each + length.output * token for length, each in zip(self.lengths, self.prompts.seconds, strict=True)
        ]
        return waits_for_a_place(self.present(rate), self.places, seconds, self.prompts.shares)

    def ttft(self, rate: float) -> float:
        """Return the time to the first token that the asked share stays below."""
        return self.first_tokens(rate).quantile(self.job.latency.share, self.waits(rate)) + self.arrival

    def broken(self, rate: float) -> list[str]:
        """Return which of the four limits a rate breaks."""
        limits = self.job.latency
        first = math.inf if limits.ttft_seconds is None else limits.ttft_seconds
        late = first < math.inf and self.ttft(rate) > first
        placed = late and self.first_tokens(rate).within(first - self.arrival) >= limits.share
        found = {
            "TPOT": limits.tpot_seconds is not None and self.tpot(rate) > limits.tpot_seconds,
            "TTFT": late and not placed,
            "KV": late and placed,
            "compute": rate > _FULL * self.greatest,
        }
        return [name for name, wrong in found.items() if wrong]
