"""Seconds of one step of reinforcement learning: rollout, log-probabilities, training, new weights for the engines.

A step samples `sequences` answers with engines, passes them through policy and reference for their log-probabilities,
trains on them, and sends the new weights to the engines. In turn the phases add up; apart, and at least one step off
the policy, rollout and training overlap.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from planner.arrays import Floats
from planner.estimates.generation import (
    ServedModel,
    ServingHardware,
    ServingStack,
    activation_bytes,
    decode_step_seconds,
    mean_seen_tokens,
    prompt_seconds,
    seen_tokens,
)
from planner.estimates.inputs import Numbers
from planner.results.subject_runs import RL_PHASE_NAMES
from planner.scenario.rl_job import LENGTH_CV
from planner.units import GB, GIB, HOUR

if TYPE_CHECKING:
    from planner.library.schema import Architecture
    from planner.spot.states import SpotStates

# Lengths of answers: a lognormal distribution, cut at the longest answer that the engine gives.


POINTS = 400
"""Stretches of equal length, up to the longest answer, in which the ages of answers are counted."""
LIKE_FROM_ROUND = 3.0
"""Rounds of waiting answers that are followed by age; by then the ages are those of a steady state."""
LEFT = 0.01
"""Expected answers alive at which a rollout counts as done."""


@dataclass(frozen=True)
class AnswerLengths:
    """Tokens of answers: lognormal before they are cut at `longest`; `mean` is that of the cut ones."""

    mean: float
    longest: float
    cv: float = LENGTH_CV
    """Standard deviation over mean, before the cut."""
    scale: float = field(init=False, default=0.0)  # the logarithm of the median before the cut

    def __post_init__(self) -> None:
        """Find the median whose cut distribution has the stated mean, by bisection."""
        low, high = math.log(self.mean) - 8.0, math.log(self.longest) + 8.0
        for _ in range(80):
            middle = (low + high) / 2.0
            low, high = (middle, high) if self._cut_mean(middle) < self.mean else (low, middle)
        object.__setattr__(self, "scale", (low + high) / 2.0)

    @property
    def sigma(self) -> float:
        """Standard deviation of the logarithm."""
        return math.sqrt(math.log1p(self.cv**2))

    def _cut_mean(self, scale: float) -> float:
        """Return E[min(X, longest)]: the part below the cut, and the cut for the rest."""
        z = (math.log(self.longest) - scale) / self.sigma
        below = math.exp(scale + self.sigma**2 / 2.0) * _normal(z - self.sigma)
        return below + self.longest * (1.0 - _normal(z))

    @cached_property
    def mean_age(self) -> float:
        """Mean tokens of an answer that an engine works on at any moment: long ones are met more often."""
        tokens = (np.arange(POINTS) + 0.5) * self.longest / POINTS
        share = self.longer_than(tokens)
        return float(tokens @ share / share.sum())

    def longest_of(self, answers: Floats) -> Floats:
        """Return the expected tokens (n,) of the longest of so many answers (n,)."""
        share = self.longer_than((np.arange(POINTS) + 0.5) * self.longest / POINTS)
        all_shorter = (1.0 - share[None, :]) ** np.atleast_1d(answers)[:, None]
        return np.asarray((1.0 - all_shorter).sum(axis=1) * self.longest / POINTS)

    def longer_than(self, tokens: Floats) -> Floats:
        """Return the share of answers with more than so many tokens; 0 from `longest` on."""
        z = (np.log(np.maximum(tokens, 1e-9)) - self.scale) / self.sigma
        share = np.array([1.0 - _normal(value) for value in np.atleast_1d(z)])
        return np.where(np.atleast_1d(tokens) < self.longest, share, 0.0)


WIDEST_CV = 5.0
"""Largest spread of lengths that is asked for."""


@cache
def spread_before_cut(mean: float, longest: float, cv: float) -> float:
    """Return the spread before the cut whose cut lengths have the spread `cv`, as those of a log do; by bisection.

    Mean 1,500 cut at 4,096: a log with a spread of 0.66 has one of 0.8 before the cut. `WIDEST_CV` at most.
    """

    def cut_cv(wanted: float) -> float:
        lengths = AnswerLengths(mean, longest, wanted)
        sigma, z = lengths.sigma, (math.log(longest) - lengths.scale) / lengths.sigma
        below = math.exp(2.0 * (lengths.scale + sigma**2)) * _normal(z - 2.0 * sigma)
        square = below + longest**2 * (1.0 - _normal(z))
        return math.sqrt(max(square / mean**2 - 1.0, 0.0))

    low, high = min(cv, WIDEST_CV), WIDEST_CV
    for _ in range(40):
        middle = (low + high) / 2.0
        low, high = (middle, high) if cut_cv(middle) < cv else (low, middle)
    return (low + high) / 2.0


def _normal(z: float) -> float:
    """Return the distribution function of the standard normal."""
    return 0.5 * math.erfc(-z / math.sqrt(2.0))


# Rollout: the slowest answers decide.


@dataclass(frozen=True)
class Rollout:
    """Seconds of the sampling of one step, and what they consist of."""

    seconds: float
    full_seconds: float
    """With every seat taken: answers wait for their turn."""
    tail_seconds: float
    """From the first free seat to the last answer: ever fewer answers share an engine."""
    tail_share: float
    """Mean share of the answers that an engine began with and that have ended in the tail."""


def rollout_seconds(
    engine: tuple[ServedModel, ServingHardware, ServingStack],
    lengths: AnswerLengths,
    prompt: float,
    answers_per_prompt: float,
    sequences: float,
    seats: float,
    engines: int,
) -> Rollout:
    """Return the seconds until the last of `sequences` answers that start together on `engines` replicas.

    Parameters
    ----------
    engine
        One replica in the terms of the formulas of generation.
    prompt
        Tokens of a prompt; its cache is shared by the `answers_per_prompt` answers.
    seats
        Answers that one replica works on at a time, by memory or by the engine's limit.

    Answers are a fluid, by the tokens that they have: in each stretch of `longest / POINTS` steps the share of an age
    that ends is that of its hazard, and waiting answers take the free seats. A step takes as long as the answers that
    are alive need, with their mean context. Some answer of n seats still runs with probability 1 - (1 - alive / n) ** n
    over all engines: the slowest decides. Rounds beyond the third are alike.
    """
    model, hardware, stack = engine
    engines = min(engines, max(int(sequences), 1))
    of_engine = sequences / engines
    seated = min(of_engine, seats)
    waiting = of_engine - seated
    taken_in = float(np.ravel(prompt_seconds(model, hardware, prompt) / answers_per_prompt + stack.request_seconds)[0])
    width = lengths.longest / POINTS
    longer = lengths.longer_than(np.arange(POINTS + 1, dtype=np.float64) * width)
    hazard = 1.0 - longer[1:] / np.maximum(longer[:-1], 1e-300)
    ages = prompt + (np.arange(POINTS) + 0.5) * width
    alike = max(waiting / seated - LIKE_FROM_ROUND, 0.0)
    context = float(np.ravel(mean_seen_tokens(model, prompt, lengths.mean))[0])
    step = float(np.ravel(decode_step_seconds(model, hardware, stack, seated, context))[0])
    full = alike * (lengths.mean * step + seated * taken_in)
    waiting -= alike * seated
    alive = np.zeros(POINTS)
    alive[0] = seated
    counts, contexts, started = [], [], [seated]
    while waiting > 0.0 or alive.sum() * engines > LEFT:
        counts.append(alive.sum())
        contexts.append(float(alive @ ages) / counts[-1])
        ends = alive * hazard
        alive[1:], alive[0] = (alive - ends)[:-1], 0.0
        fresh = min(waiting, seated - alive.sum())
        alive[0], waiting = fresh, waiting - fresh
        started.append(fresh)
    count = np.array(counts)
    steps = decode_step_seconds(model, hardware, stack, np.maximum(count, 1.0), seen_tokens(model, np.array(contexts)))
    ended = np.log1p(-np.minimum(count / seated, 1.0 - 1e-12))
    running = -np.expm1(seated * engines * ended)
    seconds = np.ravel(steps) * width * running + np.array(started[:-1]) * taken_in
    busy = count >= seated * 0.999
    tail = float(seconds[~busy].sum())
    free = float((seconds * (1.0 - count / seated))[~busy].sum()) / max(tail, 1e-12)
    return Rollout(full + float(seconds.sum()), full + float(seconds[busy].sum()), tail, free)


@dataclass(frozen=True)
class StaleRollout:
    """Answers of several steps in flight: what an engine is given before the policy that it samples for exists."""

    prompt: float
    answers_per_prompt: float
    sampled: float
    staleness: int

    def seconds(
        self,
        engine: tuple[ServedModel, ServingHardware, ServingStack],
        lengths: AnswerLengths,
        seats: Numbers,
        engines: Numbers,
    ) -> Any:
        """Return the seconds (n,) from one finished batch of answers to the next.

        Batches of `staleness` steps are in flight: a seat that is free takes an answer of the next batch, and the tail
        of one batch is the work of others. By Little's law the engines answer at the rate of their seats; a batch takes
        as long as its longest answer, `staleness` steps at most, which needs fewer answers in flight where it decides.
        """
        model, hardware, stack = engine
        count = np.minimum(np.asarray(engines, dtype=float), max(int(self.sampled), 1))
        of_engine = self.sampled / count
        context = seen_tokens(model, self.prompt + lengths.mean_age)
        taken_in = prompt_seconds(model, hardware, self.prompt) / self.answers_per_prompt + stack.request_seconds
        longest = float(lengths.longest_of(np.asarray([self.sampled]))[0])

        def step(alive: Any) -> Any:
            return decode_step_seconds(model, hardware, stack, np.maximum(alive, 1.0), context)

        seated = np.minimum(seats, self.staleness * of_engine)
        by_rate = of_engine * (lengths.mean * step(seated) / seated + taken_in)
        alive = np.minimum(seated, self.staleness * of_engine * lengths.mean / longest)
        by_longest = longest * step(alive) / self.staleness + of_engine * taken_in
        return np.maximum(by_rate, by_longest)


MOST_LOST = 0.9
"""Share of the time of engines on spot beyond which a formula of rare losses says nothing."""


class SpotEngines(NamedTuple):
    """Machines with engines on spot, each of which is lost by itself; arrays broadcast."""

    machines: Any
    availability: Any
    mean_up_hours: Any
    start_hours: Any
    luck_hours: Any
    """Of one machine, as `luck_hours` returns it."""


def luck_hours(states: SpotStates, start_hours: float) -> float:
    """Return the variance of the share of a long time that a machine samples, times the hours of that time.

    That of an alternating renewal process: stays less the start of the engine, and outages with it. Cox, Renewal Theory
    (1962), section 7.4.
    """
    up, down, gone = states.up, states.down, 1.0 - states.instant
    mean_up, mean_down = up.mean(), gone * down.mean()
    if math.isinf(mean_up):
        return 0.0
    on = mean_up - min(start_hours, MOST_LOST * mean_up)
    off = mean_up + mean_down - on
    of_on, of_off = up.second_moment() - mean_up**2, gone * down.second_moment() - mean_down**2
    return (of_on * off**2 + of_off * on**2) / (mean_up + mean_down) ** 3


def spot_step(
    rollout: Numbers, trainer: Numbers, rest: Numbers, overlapped: bool, engines: SpotEngines, scored: Numbers = 0.0
) -> Any:
    """Return the mean seconds of a step with engines on spot (n,), and the variance of ln(hours of a run) times hours.

    Parameters
    ----------
    rollout
        Seconds with all machines there.
    trainer, rest
        Seconds of the trainer, and of what both sides wait for.
    scored
        Seconds of a reward model on GPUs of its own, which are always there, after the rollout.

    Outages last longer than a step, so that a number of machines is there for many steps: the rate of the steps is the
    mean over the binomial numbers of machines, not that of a mean number. With all engines on one machine nothing makes
    up for its outages. A machine that comes back starts first, and a lost one has half a rollout to sample anew.
    1 machine that samples 80 % of the time, 100 s of rollout, 60 s of the trainer, 20 s of the rest, overlapped:
    120 / 0.8 = 150 s.
    """
    rollout, trainer, rest, scored, machines, there, up, start, luck = np.broadcast_arrays(
        *(np.atleast_1d(np.asarray(column, dtype=float)) for column in (rollout, trainer, rest, scored, *engines))
    )
    share = there * (1.0 - np.minimum(start / up, MOST_LOST))
    sampling = rollout / (1.0 - np.minimum(rollout / HOUR / 2.0 / up, MOST_LOST))
    weight, rate, moment = share**machines, np.zeros(share.shape), np.zeros(share.shape)
    for gone in range(int(machines.max(initial=0.0))):
        at = np.flatnonzero(machines > gone)
        left = machines[at] - gone
        slower = sampling[at] * machines[at] / left + scored[at]
        both = np.maximum(slower, trainer[at]) if overlapped else slower + trainer[at]
        waited = weight[at] / (both + rest[at])
        rate[at] += waited
        moment[at] += waited * left / machines[at]
        weight[at] *= left / (gone + 1.0) * (1.0 - share[at]) / share[at]
    spread = share * (1.0 - share) / machines
    slope = np.divide(moment - rate * share, spread * rate, out=np.zeros(share.shape), where=spread > 0.0)
    return 1.0 / rate, slope**2 * luck / machines


# The other phases, and the step.


@dataclass(frozen=True)
class RlPhases:
    """Seconds of the phases of one step."""

    rollout: float
    log_probabilities: float
    """Of the policy that sampled, and of the reference where there is one."""
    training: float
    new_weights: float
    """From the trainer to the engines."""
    fixed: float = 0.0
    """Rewards by rule, collection, bookkeeping."""
    reward: float = 0.0
    """Of a reward model on the GPUs that train."""
    own_reward: float = 0.0
    """Of a reward model on GPUs of its own, after the last answer."""

    @property
    def trainer(self) -> float:
        """Seconds that the trainer works on one step."""
        return self.log_probabilities + self.training + self.reward

    @property
    def sampling(self) -> float:
        """Seconds until the answers of a step have what the trainer waits for."""
        return self.rollout + self.own_reward

    @property
    def by_name(self) -> dict[str, float]:
        """Seconds of each phase, in the order of a step; of reward models those that are there."""
        seconds = {item.name: getattr(self, item.name) for item in fields(self)}
        return {name: seconds[name] for name in RL_PHASE_NAMES if seconds[name] or name not in OF_REWARD_MODELS}

    def factor(self, name: str) -> float:
        """Return the factor of a phase; of a reward model that was not measured that of the other passes forward."""
        if name not in OF_REWARD_MODELS:
            return float(getattr(self, name))
        return float(getattr(self, name)) or self.reward or self.log_probabilities

    def step_seconds(self, overlapped: bool) -> float:
        """Return the seconds from one step to the next: in turn their sum, overlapped the longer side.

        The engines stop for new weights in both.
        """
        if overlapped:
            return max(self.sampling, self.trainer) + self.new_weights + self.fixed
        return self.sampling + self.trainer + self.new_weights + self.fixed

    def times(self, factors: RlPhases) -> RlPhases:
        """Return the phases with the seconds of each times its factor."""
        return RlPhases(**{name: value * factors.factor(name) for name, value in self.by_name.items()})

    def idle(self, overlapped: bool, apart: bool) -> tuple[str, float]:
        """Return which side waits more, and for which share of a step; of phases in turn on the same GPUs none does."""
        if not apart:
            return "", 0.0
        side = "trainer" if self.sampling > self.trainer else "rollout"
        waited = abs(self.sampling - self.trainer) if overlapped else max(self.sampling, self.trainer)
        return side, waited / self.step_seconds(overlapped)


OF_REWARD_MODELS = ("reward", "own_reward")
"""Phases that a step without a reward model does not have."""
AS_ESTIMATED = RlPhases(1.0, 1.0, 1.0, 1.0, 1.0)
"""Factors of phases that nothing was measured of."""
LEAST_REST = 0.05
"""Least factor of what is left of a measured step, which may be nothing by the rounding of a log."""


def measured_factors(
    predicted: RlPhases, step_seconds: float | None, measured: dict[str, float], overlapped: bool
) -> RlPhases:
    """Return the factors of all phases: measured over predicted; the phases that a log lacks share the rest of a step.

    A step of 130 s whose rollout took 60 (predicted 50) and training 40 (50): the rest of 30 s, predicted as 20, has
    the factor 1.5. Overlapped, the rest is what the step is longer than its longer side; a side that is not measured
    keeps its factor of 1, but is no longer than the measured one.
    """
    factors = {
        name: measured[name] / value for name, value in predicted.by_name.items() if measured.get(name) and value
    }
    unknown = {name: value for name, value in predicted.by_name.items() if name not in factors and value > 0}
    if overlapped:
        known = RlPhases(**{name: value * factors.get(name, 1.0) for name, value in predicted.by_name.items()})
        if "rollout" in unknown and "training" in factors:
            factors["rollout"] = min(1.0, known.trainer / predicted.rollout)
            known = predicted.times(RlPhases(**{name: factors.get(name, 1.0) for name in predicted.by_name}))
        unknown = {name: value for name, value in unknown.items() if name in ("new_weights", "fixed")}
        left = None if step_seconds is None else step_seconds - max(known.sampling, known.trainer)
        left = None if left is None else left - measured.get("new_weights", 0.0)
    else:
        left = None if step_seconds is None else step_seconds - math.fsum(measured.values())
    if left is not None and unknown:
        rest = max(left / math.fsum(unknown.values()), LEAST_REST)
        factors |= dict.fromkeys(unknown, rest)
    return RlPhases(**{name: factors.get(name, 1.0) for name in predicted.by_name})


def mean_factors(several: list[RlPhases]) -> RlPhases:
    """Return the geometric mean of the factors of several runs."""
    if not several:
        return AS_ESTIMATED
    names = dict.fromkeys(name for factors in several for name in factors.by_name)
    return RlPhases(
        **{
            name: math.exp(math.fsum(math.log(factors.factor(name)) for factors in several) / len(several))
            for name in names
        }
    )


# A reward model: one pass over each answer that is sampled.


REWARD_GPUS = (1, 2, 4, 8)
"""GPUs of its own that a reward model may have."""


def reward_passes(reward: Architecture, policy: Architecture, sampled: float, sequences: float) -> float:
    """Return the passes of a reward model over the answers of a step, in passes of the policy over those trained on.

    By active weights, as the passes of a teacher; all answers that are sampled are scored. A prior: no published step
    has a reward model. A 1.5B (1.54e9) that scores three answers for each that a 7B (7.62e9) trains on: 0.61.
    """
    return sampled / sequences * reward.active_parameters / policy.active_parameters


def reward_gib(reward: Architecture, shards: Numbers) -> Any:
    """Return the GiB of a reward model's 16-bit weights on one of the GPUs that share them."""
    return 2.0 * reward.parameters / GIB / shards


def reward_activations_gib(reward: Architecture, widest: float, tokens: Numbers) -> Any:
    """Return the GiB of activations of a pass over so many tokens at a time; a score in place of logits."""
    return activation_bytes(reward.hidden, widest, tokens, 1.0, 1.0) / GIB


RESHARD_SECONDS = 1.3
"""Of one GB of weights. Prior: verl's published steps take 2 to 9 s for 15 GB, 3 to 13 s for 61 to 65 GB, 25 s for
470 GB: about 1.3 * sqrt(GB), since larger networks lie on more GPUs, whose links work side by side."""


def transfer_seconds(weight_bytes: float, network_bytes_per_second: Numbers | None, crossing: Numbers = 1.0) -> Any:
    """Return the seconds until the engines have new weights: collected from the trainer's shards, cut anew, loaded.

    `crossing`: the share of the weights that a machine with engines gets over the network, whatever the number of
    engines, since a broadcast moves them once through each link: all where engines have machines of their own; on
    those of the trainer what its GPUs of the same machine do not hold, 1 - 1 / n of a copy over n machines.
    65 GB over two machines at 10 Gbit/s: 32.5 GB take 26 s, cut anew in 10.5 s at the same time.
    """
    local = RESHARD_SECONDS * math.sqrt(weight_bytes / GB)
    if network_bytes_per_second is None:
        return local
    return np.maximum(local, weight_bytes * np.asarray(crossing) / network_bytes_per_second)


FIXED_SECONDS = 10.0
"""A step's rewards by rule, collection and bookkeeping. Prior: what verl's published steps are longer than their
phases, 11 s of two runs with 7B and 5 to 22 s of nine with Qwen2.5-14B and 32B."""
FIXED_FROM = 7e9
"""Parameters from which on they are all of that."""
FIXED_FACTOR = 2.0
"""By which those of smaller models may be off, either way: their steps are published as upper bounds alone."""


def fixed_seconds(parameters: float) -> float:
    """Return the seconds of a step that are in no other phase: below 7B less, by the root as those of new weights.

    The shape is a prior that NeMo-RL's upper bounds judged: 25 of its 26 tests of GRPO hold, and 19 with 10 s for
    all models; steps of 1B with 512 answers end within 10 to 15 s. 1.24e9 parameters: 10 * sqrt(1.24 / 7) = 4.2 s.
    """
    return FIXED_SECONDS * min(1.0, math.sqrt(parameters / FIXED_FROM))


def with_fixed_sigma(sigma: Numbers, parameters: float, share: Numbers) -> Any:
    """Return the spread of ln(seconds of a step), of which the fixed seconds are a share, with that of theirs."""
    own = math.log(FIXED_FACTOR) if parameters < FIXED_FROM else 0.0
    return np.hypot(sigma, own * np.asarray(share))
