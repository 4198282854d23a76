"""Solve a scenario with one job of reinforcement learning: every way in arrays, and the least of them.

A way is a trainer on machines of one offer and engines on the same machines in turn, on other GPUs of one machine, or
on machines of a second offer. Of each side only what another one in the same place does not dominate is paired; all
pairs that are left are priced, so that the least of them is the least of all.
"""

from __future__ import annotations

import datetime
import math
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from planner.analysis.frontier_trace import NOTICEABLE_USD
from planner.analysis.lower_envelope import find_knee
from planner.arrays import Flags, Floats, Integers
from planner.candidates.market import (
    Market,
    build_market,
    disk_gb,
    download_rate,
    fee_usd,
    market_of_nodes,
    spot_markets,
)
from planner.configurations.coefficients import DEFAULT_NETWORK_BYTES_PER_SECOND
from planner.decode.chosen import build_inputs
from planner.errors import AuditError, Fault, ScenarioError, raise_faults
from planner.estimates.billing import round_up_hours
from planner.estimates.preemption import NodeGroupCoefficients
from planner.estimates.uncertainty import confidence_factor, equally_likely_factors, tail_of_68_percent
from planner.hazards import SPEED_RANK_BOUNDS
from planner.library.schema import GpuSpec, Library
from planner.reinforcement.evaluated_rl import (
    EvaluatedRl,
    NamedPool,
    NamedRl,
    changes_of,
    evaluate_rl,
    host_room_gb,
    network_rate,
    report_rl,
    start_hours_of,
    states_network,
    trainer_data_gb,
)
from planner.reinforcement.rl_estimate import (
    FP8_CAUTION,
    LONGER,
    REWARD_CAUTION,
    SGLANG_CAUTION,
    STEP_SIGMA,
    reward_model_faults,
    step_sigma,
)
from planner.reinforcement.rl_search import (
    HOSTED,
    NO_REWARD,
    EngineKey,
    Engines,
    RlQuantities,
    Trainers,
    engine_counts,
    find_engines,
    find_trainers,
    machine_of,
    rollout_columns,
    stale_columns,
    step_sigmas,
    undominated_rows,
)
from planner.reinforcement.rl_step import REWARD_GPUS, SpotEngines, luck_hours, spot_step, transfer_seconds
from planner.reinforcement.rl_text import MEGATRON_NOTE, NETWORK_RISK, SPEED_RISK, corrected_words
from planner.results.plan import Plan
from planner.results.plan_parts import CandidateCounts
from planner.results.subject_runs import (
    SECURE,
    Placement,
    RlAlternative,
    RlRun,
    machines_words,
    reward_gpus_words,
    rollout_words,
)
from planner.scenario.limits import PEAK_TOLERANCE, Limits, given_peaks, max_run_hours
from planner.scenario.rl_job import DIVIDING, RL_FRAMEWORK, RL_FRAMEWORKS, TRAINER_DEGREES, Judge, RlJob
from planner.scenario.scenario import Scenario, SolveOptions, ends_before, rl_job_of, setting_path
from planner.solvers.registry import solver_versions
from planner.solving.limit_changes import BUDGET, HOURS_STEP, USD_STEP, LimitChange, round_up
from planner.units import GB, GIB, HOUR, MONTH_HOURS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from planner.analysis.why_not import WhyNotQuery

ASKED_COUNTS = ("gpus", "training_gpus", "rollout_gpus")
"""Keys of a query that count GPUs: of all machines, of each side."""
MOST_POOL_GPUS = 64
"""GPUs of a pool, where `limits.max_gpus` allows more: the estimates of rollouts were seen on up to 256."""
MOST_RL_GPUS = 16 * MOST_POOL_GPUS
"""GPUs of a pool, whatever is allowed."""
SLOW_NETWORK_GBPS = 1.0
"""Gbit/s for which a plan that assumes more says what new weights would take."""
RL_SEARCH_TOLERANCE = 1e-6
"""Relative, by which the arrays of the search and the evaluation of the chosen way may differ."""
SAME_OBJECTIVE = 1e-9
"""Relative difference of the objective below which two ways cost the same."""
PAID_OTHERWISE = "hours paid in advance, machines to buy, windows: not modelled for kind rl"
NOT_FOR_RL = "not modelled for kind rl"


# Questions that are refused by name.


def check_rl(scenario: Scenario, job: RlJob, library: Library) -> None:
    """Raise ScenarioError for what a job of reinforcement learning cannot be planned with."""
    faults = [Fault(scenario.name, 0, where, f"{NOT_FOR_RL}: {what}", fix) for where, what, fix in _refused(scenario)]
    card, work = library.architecture(job.architecture), job.work
    index = [each.name for each in scenario.jobs].index(job.name)
    longest, key = (work.cut_at, "longest_output") if work.cut_at else (work.mean_output, "output_tokens")
    if work.input_tokens + longest > card.max_sequence:
        what = f"{work.input_tokens:,.0f} + {longest:,.0f} tokens exceed the context of {card.name}"
        fix = f"at most {card.max_sequence:,} together"
        faults.append(Fault(scenario.name, 0, f"jobs.{index}.work.{key}", what, fix))
    longest = work.cut_at or min(LONGER * work.mean_output, card.max_sequence - work.input_tokens)
    faults += _reward_faults(scenario, job, index, work.input_tokens + longest)
    if card.image is not None:
        faults.append(
            Fault(
                scenario.name, 0, f"jobs.{index}.architecture", f"{card.name} makes images", "choose a language model"
            )
        )
    if "colocated" not in job.rollout.placement and (scenario.limits.max_gpus or 2) < 2:
        what = "1 GPU cannot have two roles: training and rollout"
        faults.append(Fault(scenario.name, 0, "limits.max_gpus", what, "give 2 or more, or allow placement colocated"))
    raise_faults(faults, ScenarioError)


def _reward_faults(scenario: Scenario, job: RlJob, index: int, tokens: float) -> Iterator[Fault]:
    """Yield what a reward model cannot score, or where it cannot be."""
    if (asked := job.reward_model) is None:
        return
    for _, what, fix in reward_model_faults(asked.model, tokens):
        yield Fault(scenario.name, 0, f"jobs.{index}.reward.model", what, fix)
    if "shared" not in asked.placement and (scenario.limits.max_gpus or 2) < 2:
        what, fix = "1 GPU cannot train and be a reward model's own", "give 2 or more, or allow placement shared"
        yield Fault(scenario.name, 0, "limits.max_gpus", what, fix)


def _refused(scenario: Scenario) -> list[tuple[str, str, str]]:
    """Return place, what and remedy of what of a scenario is refused."""
    limits, found = scenario.limits, list[tuple[str, str, str]]()
    if len(scenario.jobs) > 1:
        found += _refused_next_to_others(scenario)
    if limits.fallbacks:
        found.append(("limits.fallbacks", "further ways", "leave it out"))
    if limits.budgets:
        found.append(("limits.budgets", "budgets by period", "give budget_usd for the whole job"))
    if limits.tools:
        found.append(("limits.tools", "tools that must run the plan", "leave it out"))
    if limits.spot_share.min > 0:
        found.append(("limits.spot_share", "a least share on spot", "leave min out: the trainer stays on demand"))
    if scenario.horizon is not None:
        found.append(("horizon", "machines that are bought", "leave it out: own machines are offers with own"))
    return found


def _refused_next_to_others(scenario: Scenario) -> list[tuple[str, str, str]]:
    """Return place, what and remedy of what other jobs cannot be in the same scenario, or not at the same time."""
    alone, found = "plan it in a scenario of its own", list[tuple[str, str, str]]()
    if scenario.objective != "cost":
        found.append(("objective", "another objective than cost with several jobs", "leave it out, or plan them alone"))
    before = {job.name: ends_before(scenario, job.name) for job in scenario.jobs}
    runs = [job.name for job in scenario.jobs if isinstance(job, RlJob)]
    for index, job in enumerate(scenario.jobs):
        if job.subject not in (None, "rl"):
            what = "a service" if not job.ends else "an open model, batch or number of tokens"
            found.append((f"jobs.{index}", f"{what} in the same scenario", alone))
            continue
        others = runs[: runs.index(job.name)] if isinstance(job, RlJob) else runs  # of two runs the second is named
        run = next((run for run in others if job.name not in before[run] and run not in before[job.name]), None)
        if run is not None:
            fix = f"let one wait for the other (after: {run}), or plan it in a scenario of its own"
            found.append((f"jobs.{index}", f"{job.name} may run at the same time as {run}", fix))
    return found


# Pools: machines of one offer in one market, with what they cost.


@dataclass(frozen=True)
class Pools:
    """Machines of one offer that do one thing, columns (n,)."""

    offer: Integers  # place in the market
    instances: Integers
    is_spot: Flags
    row: Integers  # of the trainers, or of the engines
    gpus: Integers  # that do it
    seconds: Floats  # of a step, with engines that are always there
    plain_seconds: Floats  # of a rollout that ends before the next one begins
    start_hours: Floats
    machine_usd: Floats  # an hour of its machines, on spot while they are there
    hour_usd: Floats  # fees of an hour
    once_usd: Floats
    own_reward: Floats  # seconds of a reward model on GPUs of its own, of the trainer's machines
    reward_gpus: Integers  # of its own

    def rows(self, which: Integers | Flags) -> Pools:
        """Return some of the rows."""
        return Pools(**{name: getattr(self, name)[which] for name in Pools.__annotations__})

    def usd(self, market: RlMarket, run_hours: Floats, factor: Floats | float = 1.0) -> Floats:
        """Return the dollars of the pools (n,) for the hours of a run, starts and rounding included."""
        hours = (self.start_hours + run_hours) * factor
        billed = round_up_hours(hours, market.step_hours[self.offer], market.minimum_hours[self.offer])
        return np.asarray(self.machine_usd * billed + self.hour_usd * hours + self.once_usd)


@dataclass(frozen=True)
class RlMarket:
    """The offers that a job may rent, and what they are to it; columns are over all offers of the market."""

    market: Market
    allowed: tuple[int, ...]
    cards: dict[int, GpuSpec]
    start_hours: Floats
    trainer_start_hours: Floats
    availability: Floats
    mean_up_hours: Floats
    luck_hours: Floats
    step_hours: Floats
    minimum_hours: Floats
    network: Floats  # bytes per second within a region; infinite where unknown
    outside: Floats  # bytes per second to other places
    out_usd: Floats  # per GB
    in_usd: Floats
    place: Integers  # provider and region
    rejected: Counter[str]

    @classmethod
    def of(cls, scenario: Scenario, job: RlJob, library: Library, asked: WhyNotQuery | None = None) -> RlMarket:
        """Return the market of a scenario as the job sees it, or the part of it that a query names."""
        market = build_market(scenario, library)
        architecture, limits = library.architecture(job.architecture), scenario.limits
        known, permitted, rejected = market.is_known(limits), market.permitted(limits), Counter[str]()
        allowed, cards = [], {}
        for index, offer in enumerate(market.offers):
            card = market.cards[index]
            if card is None or not permitted[index] or market.is_outdated[index] or not known[index]:
                continue
            if asked is not None and not asked.permits(offer, market.labels[index]):
                continue
            if offer.block or offer.commitment or offer.committed_hours or offer.buy or offer.available:
                rejected[PAID_OTHERWISE] += 1
            elif card.chip is not None:
                rejected["no engine samples on slices of chips"] += 1
            elif not limits.has_stock(offer):
                rejected["too little stock"] += 1
            else:
                allowed.append(index)
                cards[index] = card
        spots, count = spot_markets(market.offers, library), len(market.offers)
        coefficients = NodeGroupCoefficients.of(library.calibrations["stages"].values)
        start, there, luck = np.zeros(count), np.ones(count), np.zeros(count)
        of_trainer = np.zeros(count)
        for index, card in cards.items():
            offer = market.offers[index]
            start[index] = start_hours_of(job, architecture, offer, card, library, trains=False)
            of_trainer[index] = start_hours_of(job, architecture, offer, card, library, trains=True)
            if offer.has_spot:
                states = market_of_nodes(offer, spots[index], 1, coefficients, library)
                there[index], luck[index] = states.availability(), luck_hours(states, start[index])
        places: dict[object, int] = {}

        def column(values: Any) -> Floats:
            return np.asarray(list(values), dtype=float)

        offers = market.offers
        return cls(
            market, tuple(allowed), cards, start, of_trainer, there, column(spot.mean_up_hours for spot in spots), luck,
            column(offer.billing.step_seconds / HOUR for offer in offers),
            column(offer.billing.minimum_hours for offer in offers),
            column(network_rate(offer) for offer in offers),
            column(download_rate(offer, library) for offer in offers),
            column(fee_usd(offer, "GB out") for offer in offers), column(fee_usd(offer, "GB in") for offer in offers),
            np.asarray([places.setdefault((offer.provider, offer.regions), len(places)) for offer in offers]),
            rejected,
        )  # fmt: skip


class PoolRow(NamedTuple):
    """One pool before it is priced."""

    offer: int  # place in the market
    instances: int
    on_spot: bool
    row: int  # of the trainers, or of the engines
    gpus: int
    seconds: float
    plain_seconds: float
    sent_gb: float  # what is trained; below 0 of engines, which have no data either
    own_reward: float = 0.0
    reward_gpus: int = 0


class OneOffer(NamedTuple):
    """A way on machines of one offer before its engine is chosen."""

    at: int  # place in the market
    machines: int
    sampling: int  # GPUs with engines of one machine that is divided; 0: those that train
    row: int  # of the trainers
    kept_gib: float  # of one GPU, while engines sample
    own_reward: int  # GPUs of a reward model


class EngineRow(NamedTuple):
    """An engine with the seconds of its rollout on some GPUs."""

    row: int
    seconds: float
    plain_seconds: float  # where a rollout ends before the next one begins


def pools_of(one: RlMarket, job: RlJob, architecture: Any, rows: Sequence[PoolRow]) -> Pools:
    """Return pools with their prices and fees."""
    offers = one.market.offers
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(PoolRow._fields)
    offer, instances = np.asarray(columns[0], dtype=np.int64), np.asarray(columns[1], dtype=np.int64)
    spot, seconds = np.asarray(columns[2], dtype=bool), np.asarray(columns[5], dtype=float)
    price = np.asarray(
        [
            (offers[at].spot_usd_per_hour if on else offers[at].usd_per_hour) or 0.0
            for at, on in zip(offer, spot, strict=True)
        ]
    )
    there = np.where(spot, one.availability[offer], 1.0) if len(offer) else np.zeros(0)
    rate = np.asarray([fee_usd(each, "machine hours") for each in offers])
    disk = np.asarray([fee_usd(each, "GB on disk") for each in offers])
    is_engine = np.asarray([gb < 0 for gb in columns[7]], dtype=bool)
    start = np.where(is_engine, one.start_hours[offer], one.trainer_start_hours[offer])
    own_data = np.where(is_engine, 0.0, trainer_data_gb(job))
    sent = np.maximum(np.asarray(columns[7], dtype=float), 0.0)
    on_disk = np.asarray([disk_gb(architecture.download_gb, gb) for gb in own_data])
    return Pools(
        offer, instances, spot, np.asarray(columns[3], dtype=np.int64), np.asarray(columns[4], dtype=np.int64),
        seconds, np.asarray(columns[6], dtype=float), start,
        price * instances * there,
        rate[offer] * instances * there + disk[offer] * on_disk * instances / MONTH_HOURS,
        one.in_usd[offer] * (architecture.release_gb + own_data) * instances + one.out_usd[offer] * sent,
        np.asarray(columns[8], dtype=float), np.asarray(columns[9], dtype=np.int64),
    )  # fmt: skip


# Ways: columns over all of them.


PLACEMENTS: tuple[Placement, ...] = ("colocated", "one machine", "apart")


@dataclass(frozen=True)
class RlWays:
    """Every way that is left, columns (n,)."""

    placement: Integers  # place in `PLACEMENTS`
    trainer: Pools
    rollout: Pools  # of `apart` its own machines; else the same machines, which cost nothing more
    offloads: Flags
    step_seconds: Floats
    sigma: Floats
    run_hours: Floats
    usd: Floats
    late_usd: Floats
    late_hours: Floats

    def __len__(self) -> int:
        return len(self.usd)

    @property
    def is_apart(self) -> Flags:
        """Whether engines have machines of their own (n,)."""
        return np.asarray(self.placement == PLACEMENTS.index("apart"))


def joined_ways(several: Sequence[RlWays]) -> RlWays:
    """Return the ways one after another."""

    def joined(name: str) -> Any:
        parts = [getattr(ways, name) for ways in several]
        if isinstance(parts[0], Pools):
            return Pools(
                **{key: np.concatenate([getattr(part, key) for part in parts]) for key in Pools.__annotations__}
            )
        return np.concatenate(parts)

    return RlWays(**{name: joined(name) for name in RlWays.__annotations__})


@dataclass(frozen=True)
class RlSearch:
    """The search of one scenario: what its ways are made of."""

    scenario: Scenario
    job: RlJob
    library: Library
    one: RlQuantities
    market: RlMarket
    trainers: Trainers
    engines: Engines
    ways: RlWays
    rejected: Counter[str]
    known: dict[Any, Any]  # trainers on machines, for searches that differ in something else

    def again(self, scenario: Scenario, job: RlJob, asked: WhyNotQuery | None = None) -> RlSearch:
        """Return the search of a scenario that differs a little, with what is known of trainers."""
        return search_rl(scenario, job, self.library, asked, self.known)

    @cached_property
    def rent(self) -> Floats:
        """Dollars per hour (n,) of all machines while they are there."""
        ways = self.ways
        there = np.where(ways.rollout.is_spot, self.market.availability[ways.rollout.offer], 1.0)
        return np.asarray(ways.trainer.machine_usd + ways.rollout.machine_usd / there)

    @cached_property
    def objective(self) -> Floats:
        """What is minimised (n,)."""
        scenario, ways = self.scenario, self.ways
        hours = np.maximum(ways.trainer.start_hours, ways.rollout.start_hours) + ways.run_hours
        if scenario.objective_kind == "time":
            return np.asarray(ways.late_hours)
        return np.asarray(ways.usd + scenario.value_of_time_usd_per_hour * hours)

    def used_at_once(self, each: Floats) -> Floats:
        """Return what all machines of a way (n,) use, of what one machine of each offer (offers,) uses."""
        trainer, rollout = (each[pool.offer] * pool.instances for pool in (self.ways.trainer, self.ways.rollout))
        return np.asarray(trainer + np.where(self.ways.is_apart, rollout, 0.0))

    def named(self, way: int) -> NamedRl:
        """Return the names of a way."""
        ways, labels = self.ways, self.market.market.labels
        placement = PLACEMENTS[int(ways.placement[way])]
        row, rollout = int(ways.trainer.row[way]), ways.rollout
        recipe = self.trainers.recipes[row]
        engine = self.engines.keys[int(rollout.row[way])]
        own = NamedPool(labels[int(rollout.offer[way])], int(rollout.instances[way]), bool(rollout.is_spot[way]))
        return NamedRl(
            placement=placement,
            trainer=NamedPool(labels[int(ways.trainer.offer[way])], int(ways.trainer.instances[way])),
            rollout=own if placement == "apart" else None,
            rollout_gpus=int(rollout.gpus[way]),
            gpus_per_engine=engine.gpus,
            offloads=bool(ways.offloads[way]),
            overlapped=placement != "colocated" and self.job.staleness > 0,
            method=recipe.method,
            weight_bits=recipe.weight_bits,
            sharding=recipe.sharding,
            activation_checkpointing=recipe.activation_checkpointing,
            optimizer=recipe.optimizer,
            micro_batch=int(self.trainers.micro_batch[row]),
            lora_rank=int(self.trainers.rank[row]),
            rollout_weight_bits=engine.weight_bits,
            engine=engine.engine,
            reward_gpus=int(ways.trainer.reward_gpus[way]),
            reward_offloads=int(self.trainers.reward_place[row]) == HOSTED,
            framework=recipe.framework,
            **{name: getattr(recipe, name) for name in TRAINER_DEGREES},
        )


class _Search:
    """Makes the ways of one scenario."""

    def __init__(
        self, scenario: Scenario, job: RlJob, library: Library, asked: WhyNotQuery | None, known: dict[Any, Any]
    ) -> None:
        self.scenario, self.job, self.library, self.known_trainers = scenario, job, library, known
        self.architecture = library.architecture(job.architecture)
        self.one = RlQuantities.of(job, self.architecture, library)
        self.market = RlMarket.of(scenario, job, library, asked)
        self.counts: dict[str, Any] = {} if asked is None else {key: asked.given.get(key) for key in ASKED_COUNTS}
        self.most = min(scenario.limits.max_gpus or MOST_POOL_GPUS, MOST_RL_GPUS)
        self.offers = self.market.market.offers
        self.rejected = self.market.rejected
        self.whole = {
            (at, n): machine_of(self.market.cards[at], self.offers[at], n, self.offers[at].gpus)
            for at in self.market.allowed
            if self.offers[at].usd_per_hour is not None
            for n in range(1, self._most_instances(at, self.offers[at].max_nodes) + 1)
        }
        self.parts = {
            (at, gpus): machine_of(self.market.cards[at], self.offers[at], 1, self.offers[at].gpus - gpus)
            for at, n in self.whole
            if n == 1 and ("apart" in job.rollout.placement or self._own_rewards(at))
            for gpus in range(1, self.offers[at].gpus)
        }
        machines = list(dict.fromkeys([*self.whole.values(), *self.parts.values()]))
        self.trainers = find_trainers(self.one, machines, library, scenario.limits.vram_headroom, known)
        self.rejected += self.trainers.rejected
        place = {machine: index for index, machine in enumerate(machines)}
        self.machine = {key: place[machine] for key, machine in (self.whole | self.parts_keys).items()}
        self.of_machine: dict[int, list[int]] = {}
        for row, at in enumerate(self.trainers.machine.tolist()):
            self.of_machine.setdefault(at, []).append(row)
        self.best: dict[tuple[int, int, bool], list[int]] = {}
        self.spread = np.maximum(self.trainers.sigma, STEP_SIGMA)

    @property
    def parts_keys(self) -> dict[Any, Any]:
        """Machines of which some GPUs train, by offer, 0 and the GPUs with engines."""
        return {(at, 0, gpus): machine for (at, gpus), machine in self.parts.items()}

    def _most_instances(self, at: int, nodes: int) -> int:
        offer, limits = self.offers[at], self.scenario.limits
        most = min(nodes, self.most // offer.gpus)
        most = most if offer.stock is None else min(most, offer.stock)
        quota = limits.quota.get(offer.provider)
        return most if quota is None else min(most, quota // offer.gpus)

    def _link(self, at: int, count: int) -> str:
        return (self.offers[at].interconnect or "pcie") if count > 1 else ""

    def _own_rewards(self, at: int) -> list[int]:
        """Return the numbers of GPUs of its own that a reward model may have on machines of an offer."""
        reward = self.job.reward_model
        if reward is None or "own" not in reward.placement:
            return []
        return [gpus for gpus in REWARD_GPUS if self.one.own_reward_fits(self.market.cards[at], gpus)]

    def _layouts(self, at: int, n: int) -> list[tuple[int, int]]:
        """Return the place of what trains, and the GPUs of a reward model alone, for n machines of an offer.

        The latter are part of an only machine, or whole machines of several.
        """
        found, each, reward = list[tuple[int, int]](), self.offers[at].gpus, self.job.reward_model
        if reward is None or "shared" in reward.placement:
            found.append((self.machine[at, n], 0))
        for gpus in self._own_rewards(at):
            if gpus < each and n == 1:
                found.append((self.machine[at, 0, gpus], gpus))
            elif gpus % each == 0 and n > gpus // each:
                found.append((self.machine[at, n - gpus // each], gpus))
        return found

    def _rows(self, at: int, machine: int, has_own: bool) -> list[int]:
        """Return the trainers on a machine, next to a reward model with GPUs of its own or not, that the host holds."""
        trainers, room = self.trainers, host_room_gb(self.offers[at], self.market.cards[at]) * GB / GIB
        needs_none = has_own or self.job.reward_model is None
        return [
            row
            for row in self.of_machine.get(machine, [])
            if (trainers.reward_place[row] == NO_REWARD) == needs_none
            and trainers.hosted_gib[row] * min(self.offers[at].gpus, trainers.machines[machine].gpus) <= room
        ]

    def _best(self, at: int, machine: int, has_own: bool = False) -> list[int]:
        """Return those of these trainers that no other beats in both seconds and their error."""
        key = (at, machine, has_own)
        if key not in self.best:
            self.best[key] = undominated_rows(self._rows(*key), [self.trainers.seconds, self.spread])
        return self.best[key]

    def _keys(self, at: int, gpus: int, kept: float = 0.0) -> list[EngineKey]:
        """Return the engines on so many GPUs of a machine of an offer."""
        name, rollout = self.market.cards[at].name, self.job.rollout
        return [
            EngineKey(name, self._link(at, count), count, kept, bits, engine)
            for count in engine_counts(self.job, gpus)
            for bits in rollout.weight_bits
            for engine in rollout.engine
        ]

    def _colocated(self) -> list[OneOffer]:
        """Return every colocated way: 0 GiB are kept where the states leave the GPUs."""
        found, trainers = list[OneOffer](), self.trainers
        decides = [trainers.seconds, self.spread, trainers.copy_machines]
        if "colocated" not in self.job.rollout.placement:
            return found
        for at, n in self.whole:
            for machine, own in self._layouts(at, n):
                each = min(self.offers[at].gpus, trainers.machines[machine].gpus)
                room = host_room_gb(self.offers[at], self.market.cards[at]) * GB / GIB / each
                rows = self._rows(at, machine, own > 0)
                leaving = [row for row in rows if trainers.states_gib[row] + trainers.hosted_gib[row] <= room]
                found += [OneOffer(at, n, 0, row, 0.0, own) for row in undominated_rows(leaving, decides)]
                staying = undominated_rows(sorted({*rows} - {*leaving}), [*decides, trainers.states_gib])
                found += [OneOffer(at, n, 0, row, float(trainers.states_gib[row]), own) for row in staying]
        return found

    def run(self) -> RlSearch:
        """Return all ways."""
        colocated = self._colocated()
        wanted = [key for one in colocated for key in self._keys(one.at, self._engine_gpus(one)[0], one.kept_gib)]
        if "apart" in self.job.rollout.placement:
            wanted += [key for at, gpus in self.parts for key in self._keys(at, gpus)]
            wanted += [key for at in self.market.allowed for key in self._keys(at, self.offers[at].gpus)]
        self.engines, rejected = find_engines(self.one, wanted, self.library)
        self.rejected += rejected
        self.known: dict[tuple[int, int], tuple[float, float]] = {}
        several = [self._same_machines("colocated", colocated)]
        if "apart" in self.job.rollout.placement:
            several += [self._same_machines("one machine", self._divided()), self._apart()]
        ways = joined_ways(several)
        return RlSearch(
            self.scenario, self.job, self.library, self.one, self.market, self.trainers, self.engines, ways,
            self.rejected, self.known_trainers,
        )  # fmt: skip

    def _engine_gpus(self, one: OneOffer) -> tuple[int, int]:
        """Return the GPUs with engines of one machine and of all."""
        if one.sampling:
            return one.sampling, one.sampling
        each = self.offers[one.at].gpus
        whole = one.machines * each - one.own_reward
        return min(each, whole), whole

    def _divided(self) -> list[OneOffer]:
        """Return the ways on one machine whose GPUs are divided, with the trainer on those that are left."""
        shared = self.job.reward_model is None or "shared" in self.job.reward_model.placement
        found = list[OneOffer]()
        for at, gpus in self.parts:
            for own in [0] * shared + [own for own in self._own_rewards(at) if own < gpus]:
                rows = self._best(at, self.machine[at, 0, gpus], own > 0)
                found += [OneOffer(at, 1, gpus - own, row, 0.0, own) for row in rows]
        return found

    def _rollouts(self, asked: Sequence[tuple[int, int, int, float]], is_in_turn: bool) -> list[EngineRow | None]:
        """Return the fastest engine and its rollout on so many GPUs, for each offer, GPUs of a machine, GPUs, kept.

        `is_in_turn`: a rollout ends before the next one begins, as where all GPUs do both.
        """
        place = self.engines.place
        wanted = [
            [(place[key], gpus // key.gpus) for key in self._keys(at, each, kept) if key in place]
            for at, each, gpus, kept in asked
        ]
        missing = [pair for pair in dict.fromkeys(pair for pairs in wanted for pair in pairs) if pair not in self.known]
        if missing:
            which, count = (np.asarray(column) for column in zip(*missing, strict=True))
            seconds = rollout_columns(self.one, self.engines, which, count.astype(float))
            stale = stale_columns(self.one, self.engines, which, count.astype(float), seconds)
            self.known |= dict(zip(missing, zip(stale.tolist(), seconds.tolist(), strict=True), strict=True))
        best = [min(((self.known[pair][is_in_turn], pair) for pair in pairs), default=None) for pairs in wanted]
        return [None if way is None else EngineRow(way[1][0], way[0], self.known[way[1]][1]) for way in best]

    def _sent(self, row: int) -> float:
        """Return the GB of what a trainer makes."""
        if self.trainers.recipes[row].method == "full":
            return self.architecture.download_gb
        return 2.0 * float(self.trainers.trainable[row]) / GB

    def _same_machines(self, placement: str, asked: Sequence[OneOffer]) -> RlWays:
        """Return ways on machines of one offer; those that do not hold an engine are left out."""
        parts = [(one.at, *self._engine_gpus(one), one.kept_gib) for one in asked]
        rollouts = self._rollouts(parts, placement == "colocated")
        found = [(one, gpus[2], best) for one, gpus, best in zip(asked, parts, rollouts, strict=True) if best]
        trainer = self._pools([self._trainer_row(one.at, one.machines, one.row, one.own_reward) for one, _, _ in found])
        sampling = [PoolRow(one.at, one.machines, False, best.row, gpus, *best[1:], -1.0) for one, gpus, best in found]
        engines = self._pools(sampling)
        none = np.zeros(len(found))
        free = {name: none for name in ("machine_usd", "hour_usd", "once_usd", "start_hours")}
        engines = Pools(**{name: free.get(name, getattr(engines, name)) for name in Pools.__annotations__})
        offloads = np.asarray([placement == "colocated" and one.kept_gib == 0.0 for one, _, _ in found], dtype=bool)
        elsewhere = 1.0 - 1.0 / self.trainers.copy_machines[trainer.row]
        weights = transfer_seconds(self.one.weight_bytes, self._inside(trainer.offer), elsewhere)
        return self._ways(PLACEMENTS.index(placement), trainer, engines, offloads, weights, none)

    def _inside(self, *offers: Integers) -> Floats:
        """Return the bytes per second (n,) between machines of offers in one region."""
        least = np.min([self.market.network[offer] for offer in offers], axis=0)
        return np.where(np.isinf(least), DEFAULT_NETWORK_BYTES_PER_SECOND, least)

    def _pools(self, rows: Sequence[PoolRow]) -> Pools:
        return pools_of(self.market, self.job, self.architecture, rows)

    def _trainer_row(self, at: int, instances: int, row: int, own_reward: int) -> PoolRow:
        seconds, trainers = float(self.trainers.seconds[row]), self.trainers
        scored = 0.0
        if own_reward:
            scored = float(trainers.reward[row]) * trainers.machines[int(trainers.machine[row])].gpus / own_reward
        return PoolRow(at, instances, False, row, 0, seconds, seconds, self._sent(row), scored, own_reward)

    def _apart(self) -> RlWays:
        """Return ways on two pools: all pairs of those that no other in the same place dominates."""
        trains, samples = (self.counts.get(key) for key in ("training_gpus", "rollout_gpus"))
        rows = [
            self._trainer_row(at, n, row, own)
            for at, n in self.whole
            for machine, own in self._layouts(at, n)
            if trains in (None, n * self.offers[at].gpus - own)
            for row in self._best(at, machine, own > 0)
        ]
        trainer = self._pools(rows)
        sizes = [
            (at, n)
            for at in self.market.allowed
            for n in range(1, self._most_instances(at, self.most) + 1)
            if samples in (None, n * self.offers[at].gpus)
        ]
        asked = [(at, self.offers[at].gpus, n * self.offers[at].gpus, 0.0) for at, n in sizes]
        best = self._rollouts(asked, is_in_turn=False)
        sells = [
            PoolRow(at, n, spot, found.row, gpus, *found[1:], -1.0)
            for (at, n), (_, _, gpus, _), found in zip(sizes, asked, best, strict=True)
            if found is not None
            for spot in self._sold(at)
        ]
        rollout = self._pools(sells)
        trainer = trainer.rows(self._undominated(trainer, self.spread[trainer.row]))
        rollout = rollout.rows(self._undominated(rollout, np.zeros(len(rollout.row))))
        first, second = self._pairs(trainer, rollout)
        trainer, rollout = trainer.rows(first), rollout.rows(second)
        one, there = self.market, self.market.place[trainer.offer] == self.market.place[rollout.offer]
        outside = np.minimum(one.outside[trainer.offer], one.outside[rollout.offer])
        network = np.where(there, self._inside(trainer.offer, rollout.offer), outside)
        weights = transfer_seconds(self.one.weight_bytes, network)
        gb = self.one.weight_bytes / GB * self.job.work.steps
        moved = np.where(there, 0.0, gb * (one.out_usd[trainer.offer] + one.in_usd[rollout.offer]))
        return self._ways(2, trainer, rollout, np.zeros(len(first), dtype=bool), weights, moved)

    def _pairs(self, trainer: Pools, rollout: Pools) -> tuple[Integers, Integers]:
        """Return the rows of both sides of all pairs, or of those with the GPUs in all that are asked for."""
        gpus = np.asarray([offer.gpus for offer in self.offers])
        mine, others = (pools.instances * gpus[pools.offer] for pools in (trainer, rollout))
        most = self.counts.get("gpus")
        together = mine[:, None] + others[None, :]
        first, second = np.nonzero((together == most) if most is not None else (together >= 0))
        return first, second

    def _sold(self, at: int) -> list[bool]:
        """Return whether engines may rent an offer on demand, and on spot."""
        offer, limits = self.offers[at], self.scenario.limits
        found = [False] if offer.usd_per_hour is not None else []
        on_spot = offer.has_spot and not self.market.market.is_outlier[at] and limits.spot_share.max > 0
        return [*found, *([True] if on_spot else [])]

    def _undominated(self, pools: Pools, spread: Floats) -> Integers:
        """Return the pools that no other in the same place and market beats in everything that a pair depends on.

        `spread`: that of ln(seconds) of a trainer.
        """
        if not len(pools.offer):
            return np.zeros(0, dtype=np.int64)
        one, limits = self.market, self.scenario.limits
        worse = [pools.seconds, spread, pools.machine_usd, pools.hour_usd, pools.once_usd, pools.start_hours]
        worse += [
            -one.network[pools.offer],
            -one.outside[pools.offer],
            one.out_usd[pools.offer],
            one.in_usd[pools.offer],
        ]
        worse += [one.step_hours[pools.offer], one.minimum_hours[pools.offer], pools.plain_seconds, pools.own_reward]
        # More machines on spot are less seldom all gone; the market of one is that of its offer.
        on_spot = np.asarray(pools.is_spot, dtype=np.float64)
        worse += [-(on_spot * pools.instances), -(on_spot * one.availability[pools.offer])]
        worse += [-(pools.is_spot * one.mean_up_hours[pools.offer]), pools.is_spot * one.luck_hours[pools.offer]]
        worse += [_use(limit, one.market, pools) for limit, _ in given_peaks(limits) if not limit.is_of_dollars]
        if any(self.offers[at].stock is not None for at in one.allowed):
            worse.append(np.asarray([float(at) if self.offers[at].stock is not None else -1.0 for at in pools.offer]))
        if limits.quota or self.counts.get("gpus") is not None:
            worse.append(pools.instances * np.asarray([self.offers[at].gpus for at in pools.offer], dtype=float))
        points, keep = np.stack(worse, 1), list[int]()
        groups: dict[tuple[int, bool, float, bool], list[int]] = {}
        gpus = worse[-1] if self.counts.get("gpus") is not None else np.zeros(len(pools.offer))
        keys = one.place[pools.offer].tolist(), pools.is_spot.tolist(), gpus.tolist(), (pools.reward_gpus > 0).tolist()
        for index, key in enumerate(zip(*keys, strict=True)):
            groups.setdefault(key, []).append(index)
        for members in groups.values():
            keep += undominated_rows(members, points.T)
        return np.asarray(sorted(keep), dtype=np.int64)

    def _ways(
        self, placement: int, trainer: Pools, rollout: Pools, offloads: Flags, weights: Floats, moved: Floats
    ) -> RlWays:
        """Return ways with their step, hours and dollars."""
        job, limits = self.job, self.scenario.limits
        overlapped = placement > 0 and job.staleness > 0
        sampling = rollout.seconds + trainer.own_reward
        both = np.maximum(sampling, trainer.seconds) if overlapped else sampling + trainer.seconds
        rest = weights * self.one.factors.new_weights + self.one.fixed_seconds
        step, luck = both + rest, np.zeros(len(both))
        if (at := np.flatnonzero(rollout.is_spot)).size:
            seconds = rollout.seconds[at], trainer.seconds[at], rest[at]
            engines = self._spot_engines(rollout.rows(at))
            step[at], luck[at] = spot_step(*seconds, overlapped, engines, trainer.own_reward[at])
        run = job.work.steps * step / HOUR + luck / 2.0  # a run may meet a market that is out
        plain = rollout.plain_seconds + trainer.own_reward
        sigma = step_sigmas(self.one, self.trainers, trainer.row, plain, rest, overlapped)
        sigma = np.sqrt(sigma**2 + luck / run)
        tail = tail_of_68_percent(sigma)
        judged = 0.0
        if isinstance(job.reward, Judge):
            judged = job.reward.usd(self.one.sampled * job.work.steps, self.one.mean_tokens)

        def usd(factor: Floats | float) -> Floats:
            return trainer.usd(self.market, run, factor) + rollout.usd(self.market, run, factor) + moved + judged

        hours = np.maximum(trainer.start_hours, rollout.start_hours) + run
        late = np.asarray(confidence_factor(tail, job.confidence))
        late_usd = usd(np.asarray(confidence_factor(tail, limits.budget_confidence)))
        return RlWays(
            np.full(len(step), placement),
            trainer,
            rollout,
            offloads,
            step,
            sigma,
            run,
            usd(1.0),
            late_usd,
            hours * late,
        )

    def _spot_engines(self, pools: Pools) -> SpotEngines:
        """Return pools on spot in the terms of the formula of a step."""
        one, offer = self.market, pools.offer
        found = one.availability[offer], one.mean_up_hours[offer], pools.start_hours, one.luck_hours[offer]
        return SpotEngines(pools.instances, *found)


def _use(limit: Any, market: Market, pools: Pools) -> Floats:
    """Return what pools (n,) use of a limit on one time."""
    return np.asarray(market.use_of(limit)[pools.offer] * pools.instances)


# Limits in numbers: what each way uses of them, which keep them, the least change of one.


@dataclass(frozen=True)
class RlLimit:
    """A limit in numbers, and what each way (n,) uses of it."""

    path: str
    most: float
    """What the scenario gives, or the default."""
    used: Floats
    step: float
    """A new value is rounded up to a multiple of it."""
    unit: str = ""
    tolerance: float = 0.0
    settable: bool = True
    """Whether a setting of the scenario moves it: the stock of an offer has none."""

    @property
    def kept(self) -> Flags:
        """Return the ways (n,) that keep it."""
        return np.asarray(self.used <= self.most * (1.0 + self.tolerance))

    def value_for(self, used: float) -> float:
        """Return the least value that can be typed and that allows so much."""
        if self.step >= 1.0:
            return float(math.ceil(used - 1e-6))
        if self.tolerance:  # what a value allows up to the tolerance needs no larger one
            return round(math.ceil(used / self.step * (1.0 - self.tolerance)) * self.step, 6)
        return round_up(used, self.step)

    def change(self, used: float, scenario: Scenario) -> LimitChange:
        """Return the change of a scenario that allows so much."""
        new = self.value_for(used)
        setting = f"{setting_path(self.path, scenario)}={new:.10g}{self.unit}"
        return LimitChange(self.path, self.most, new, setting)


def limits_of(search: RlSearch, limits: Limits | None = None) -> list[RlLimit]:
    """Return the limits of the scenario, or of others than the search was made with; with the longest run's default."""
    ways, job = search.ways, search.job
    limits = search.scenario.limits if limits is None else limits
    longest = max_run_hours(job, limits)
    found = [RlLimit("limits.max_hours", longest, ways.late_hours, HOURS_STEP)]
    if job.deadline_hours is not None and job.planned_deadline_hours is not None:
        kept_back = job.deadline_hours - job.planned_deadline_hours
        used = ways.late_hours + kept_back
        found.append(RlLimit(f"jobs.{job.name}.deadline", job.deadline_hours, used, HOURS_STEP, "h", PEAK_TOLERANCE))
    if limits.budget_usd is not None:
        found.append(RlLimit(BUDGET, limits.budget_usd, ways.late_usd, USD_STEP))
    for limit, most in given_peaks(limits):
        used = search.rent if limit.is_of_dollars else search.used_at_once(search.market.market.use_of(limit))
        step = USD_STEP if limit.is_of_dollars else limit.step or 1.0
        found.append(RlLimit(limit.path, most, used, step, tolerance=PEAK_TOLERANCE))
    offers = search.market.market.offers
    for provider, quota in limits.quota.items():
        gpus = np.asarray([offer.gpus if offer.provider == provider else 0.0 for offer in offers])
        found.append(RlLimit(f"limits.quota.{provider}", quota, search.used_at_once(gpus), 1.0))
    return [*found, RlLimit("stock", 0.0, _beyond_stock(search), 1.0, settable=False)]


def _beyond_stock(search: RlSearch) -> Floats:
    """Return the machines (n,) of a way that its offers do not have."""
    ways = search.ways
    stock = np.asarray([math.inf if offer.stock is None else offer.stock for offer in search.market.market.offers])
    both = ways.is_apart & (ways.trainer.offer == ways.rollout.offer)
    used = ways.trainer.instances + both * ways.rollout.instances
    return np.asarray(np.maximum(used - stock[ways.trainer.offer], 0.0))


def within(limits: list[RlLimit], count: int, *without: str) -> Flags:
    """Return the ways (count,) that keep all limits but those named."""
    flags = [limit.kept for limit in limits if limit.path not in without]
    return np.asarray(np.logical_and.reduce(flags)) if count else np.zeros(0, dtype=bool)


def least_change(
    search: RlSearch, limits: list[RlLimit], moved: RlLimit, goal: float
) -> tuple[LimitChange, int] | None:
    """Return the least change of one limit at which a way reaches a goal of the objective, and the best way then.

    All other limits hold; None where no way reaches it at any value. A goal of infinity: any way.
    """
    able = within(limits, len(search.ways), moved.path) & (search.objective <= goal)
    if not moved.settable or not able.any():
        return None
    change = moved.change(float(moved.used[able].min()), search.scenario)
    allowed = within(limits, len(search.ways), moved.path) & (moved.used <= float(change.new) * (1.0 + moved.tolerance))
    return change, int(np.argmin(np.where(allowed, search.objective, math.inf)))


# The choice: the least way, other ways.


def best_way(search: RlSearch, able: Flags) -> int:
    """Return of some ways (n,) that of least objective; of equal ones the one that ends first, then the cheapest."""
    objective = np.where(able, search.objective, math.inf)
    least = np.flatnonzero(objective <= objective.min() * (1.0 + SAME_OBJECTIVE))
    order = np.lexsort((search.ways.usd[least], search.ways.late_hours[least]))
    return int(least[order[0]])


def search_rl(
    scenario: Scenario, job: RlJob, library: Library, asked: WhyNotQuery | None = None,
    known: dict[Any, Any] | None = None,
) -> RlSearch:  # fmt: skip
    """Return every way to run the job of a scenario that nothing dominates, with what it costs.

    `asked`: those alone on offers and with numbers of GPUs that a query names; dominated is a way by these only.
    `known`: what earlier searches with the same library found of trainers.
    """
    return _Search(scenario, job, library, asked, {} if known is None else known).run()


def solve_rl(
    scenario: Scenario, library: Library, options: SolveOptions, started: float, explains: bool = True
) -> Plan:
    """Return the plan of a scenario with a job of reinforcement learning, not yet audited.

    Raises ScenarioError for what is not modelled, each by its name.
    """
    job = rl_job_of(scenario)
    assert job is not None
    check_rl(scenario, job, library)
    search = search_rl(scenario, job, library)
    fits = within(limits_of(search), len(search.ways))
    as_of = options.as_of or datetime.date.today()
    facts: dict[str, Any] = {
        "scenario": scenario.name,
        "solver": options.solver,
        "as_of": as_of.isoformat(),
        "candidates": count_ways(search),
        "budget_usd": scenario.limits.budget_usd,
    }
    if not fits.any():
        return Plan(
            **facts, seconds=perf_counter() - started, status="infeasible", objective=None, bound=None, gap=None,
            cost=None, hours=None,
        )  # fmt: skip
    way = best_way(search, fits)
    made = evaluated_way(search, way)
    run = told_run(search, made, report_rl(made, as_of), way, fits, explains)
    value = run.cost_usd + scenario.value_of_time_usd_per_hour * run.hours.expected
    value = run.hours.at_confidence if scenario.objective_kind == "time" else value
    return Plan(
        **facts, seconds=perf_counter() - started, status="optimal", objective=value, bound=value, gap=0.0,
        cost=run.cost, cost_at_confidence=run.cost_at_confidence, hours=run.hours, reinforcement=(run,),
        price_age_days=run.price_age_days, warnings=run.notes,
        inputs=build_inputs(scenario, (run,), solver_versions()),
    )  # fmt: skip


def evaluated_way(search: RlSearch, way: int) -> EvaluatedRl:
    """Return a way evaluated by itself; AuditError where the arrays of the search say something else."""
    offers = dict(zip(search.market.market.labels, search.market.market.offers, strict=True))
    made = evaluate_rl(search.named(way), search.job, search.scenario, offers, search.library)
    pairs = {
        "step_seconds": (search.ways.step_seconds[way], made.step_seconds),
        "cost_usd": (search.ways.usd[way], made.usd()),
        "sigma": (search.ways.sigma[way], made.sigma),
    }
    for name, (mine, other) in pairs.items():
        if not math.isclose(mine, other, rel_tol=RL_SEARCH_TOLERANCE):
            raise AuditError(f"search and evaluation differ: {name} {mine:.10g} and {other:.10g}")
    return made


def told_run(search: RlSearch, made: EvaluatedRl, run: RlRun, way: int, fits: Flags, explains: bool) -> RlRun:
    """Return the run with other ways, changes, what was assumed, and notes."""
    update: dict[str, Any] = {"assumed": _assumed(search), "notes": run_notes(search, made)}
    if explains:
        update |= {"ways": _other_ways(search, way, fits), "changes": changes_of(made, run.start_at_hours)}
    return run.model_copy(update=update)


def undercut_by_none(search: RlSearch, able: Flags) -> list[int]:
    """Return of some ways (n,) those that no other one beats in hours and in dollars, the fastest first."""
    ways = search.ways
    members = np.flatnonzero(able)
    order = members[np.lexsort((ways.usd[members], ways.late_hours[members]))]
    before = np.minimum.accumulate(np.concatenate(([math.inf], ways.usd[order])))[:-1]
    least, found = math.inf, list[int]()
    for way in order[ways.usd[order] < before].tolist():
        if ways.usd[way] < least - NOTICEABLE_USD:
            found.append(way)
            least = float(ways.usd[way])
    return found


def _best_value(search: RlSearch, fits: Flags) -> list[int]:
    """Return the way beyond which waiting stops paying; empty where there is no such one."""
    curve = undercut_by_none(search, fits)
    knee = find_knee(search.ways.late_hours[curve], search.ways.usd[curve])
    return [] if knee is None else [curve[knee.vertex]]


def _categories(search: RlSearch, way: int, fits: Flags) -> dict[str, Flags]:
    """Return ways by a word for what is characteristic of them: secure ones first where the plan has private hosts."""
    ways, offers = search.ways, search.market.market.offers
    own = ways.trainer.reward_gpus > 0
    apart, spot = ways.placement == PLACEMENTS.index("apart"), ways.rollout.is_spot
    gpu = np.asarray([hash(offer.card) for offer in offers])
    same_gpu = gpu[ways.trainer.offer] == gpu[ways.rollout.offer]
    place = search.market.place
    here = place[ways.trainer.offer] == place[ways.rollout.offer]
    hosts = np.asarray([offer.tier == "community" for offer in offers], dtype=bool)
    is_secure = ~(hosts[ways.trainer.offer] | hosts[ways.rollout.offer])
    return {
        **({"own rewards": own, "shared rewards": ~own} if own.any() else {}),
        **({} if is_secure[way] else {SECURE: is_secure}),
        "colocated": ways.placement == PLACEMENTS.index("colocated"),
        "one machine": ways.placement == PLACEMENTS.index("one machine"),
        "apart": apart & ~spot & same_gpu,
        "two kinds": apart & ~spot & ~same_gpu,
        "spot rollout": apart & spot,
        "two places": apart & ~here,
        AT_KNEE: np.isin(np.arange(len(ways)), _best_value(search, fits)),
        FASTEST: np.ones(len(ways), dtype=bool),
    }


MOST_RL_WAYS = 6
AT_KNEE, FASTEST = "best value", "faster"
"""Ways that are shown for what they cost at their end, whatever their kind is; the first as a frontier calls it."""
NEARLY_FASTEST = 1.01
"""Of the ways that end within one percent of the fastest the cheapest is shown."""


def _other_ways(search: RlSearch, way: int, fits: Flags) -> tuple[RlAlternative, ...]:
    """Return the plan and the best way of each kind, the cheapest first."""
    ways, found = search.ways, {way: "plan"}
    soon = ways.late_hours <= NEARLY_FASTEST * np.min(ways.late_hours[fits])
    for label, members in _categories(search, way, fits).items():
        able = members & fits & (soon if label == FASTEST else True)
        if able.any():
            found.setdefault(int(np.argmin(np.where(able, ways.usd, math.inf))), label)
    while len(found) > MOST_RL_WAYS:
        found.pop(_least_telling(search, found))
    rows = [_alternative(search, index, label) for index, label in found.items()]
    return tuple(sorted(rows, key=lambda row: row.cost_usd))


def _least_telling(search: RlSearch, shown: dict[int, str]) -> int:
    """Return the way to leave out: the last kind that another way beats in dollars and hours, else the last one."""
    ways, kept = search.ways, ("plan", SECURE, "own rewards", "shared rewards", AT_KNEE, FASTEST)
    others = [way for way, label in reversed(shown.items()) if label not in kept]

    def is_beaten(way: int) -> bool:
        by = [other for other in shown if other != way and ways.usd[other] <= ways.usd[way]]
        return any(ways.late_hours[other] <= ways.late_hours[way] for other in by)

    return next((way for way in others if is_beaten(way)), others[0])


def _alternative(search: RlSearch, way: int, label: str) -> RlAlternative:
    ways, named = search.ways, search.named(way)
    return RlAlternative(
        label=label,
        machines=way_words(search, way),
        usd_per_hour=float(search.rent[way]),
        cost_usd=float(ways.usd[way]),
        hours_at_confidence=float(ways.late_hours[way]),
        step_seconds=float(ways.step_seconds[way]),
        how=how_words(named.placement, named.overlapped, named.method, named.weight_bits, named.framework)
        + rollout_words(named.rollout_weight_bits, named.engine)
        + reward_gpus_words(named.reward_gpus),
    )


def way_words(search: RlSearch, way: int) -> str:
    """Return the GPUs of a way with their place: `8 x H100-80GB vast`, `6 + 2 x H100-80GB vast`."""
    ways, offers = search.ways, search.market.market.offers
    trainer, rollout = offers[int(ways.trainer.offer[way])], offers[int(ways.rollout.offer[way])]
    placement, more = PLACEMENTS[int(ways.placement[way])], int(ways.rollout.gpus[way])
    gpus = int(ways.trainer.instances[way]) * trainer.gpus
    gpus -= int(ways.trainer.reward_gpus[way])
    left = gpus - more if placement == "one machine" else gpus
    sides = (left, trainer.card, trainer.provider), (more, rollout.card, rollout.provider)
    words = machines_words(placement, *sides, bool(ways.rollout.is_spot[way]))
    return words + reward_gpus_words(int(ways.trainer.reward_gpus[way]))


def how_words(placement: str, overlapped: bool, method: str, bits: int, framework: str) -> str:
    """Return how a way works, in a few words."""
    turn = "in turn" if not overlapped else "overlapped"
    trained = "full" if method == "full" else "QLoRA" if bits == 4 else "LoRA"
    trained += "" if framework == RL_FRAMEWORK else f" with {framework}"
    return f"{trained}, {turn}" if placement != "colocated" else f"{trained}, colocated"


def _assumed(search: RlSearch) -> tuple[str, ...]:
    """Return what the scenario does not say and the plan rests on."""
    work, given = search.job.work, search.job.work.model_fields_set
    said = {
        "prompts": f"{work.prompts:,} prompts a step",
        "answers": f"{work.answers:,} answers to each",
        "longest_output": f"answers cut at {search.one.longest:,} tokens",
        "output_cv": f"spread of lengths {work.spread:g} of their mean",
    }
    from_log = {"longest_output", "output_cv"} if work.lengths else set()
    return tuple(words for name, words in said.items() if name not in given | from_log)


def run_notes(search: RlSearch, made: EvaluatedRl) -> tuple[str, ...]:
    """Return what a plan says of a way besides its figures, what may change the decision first."""
    notes = [*(corrected_words(search.one.factors) if made.job.measured else [SPEED_RISK]), *network_risk(made)]
    notes += _without_shards(search.job)
    notes += [MEGATRON_NOTE] if made.named.framework != RL_FRAMEWORK else _not_tried(search, made)
    notes.append(median_words(made))
    notes += _limits_without_effect(search, made)
    if isinstance(search.job.reward, Judge):
        notes.append("the seconds of the judge are not modelled: it is assumed to keep up with the engines")
    if made.named.overlapped:
        count = made.job.staleness
        notes.append(f"answers may be {count} step{'s' * (count > 1)} behind the policy (off-policy)")
    if made.named.rollout_weight_bits < 16:
        notes.append(FP8_CAUTION)
    if made.named.engine == "sglang":
        notes.append(SGLANG_CAUTION)
    if made.step.reward is not None:
        notes.append(REWARD_CAUTION)
    if made.host_gb:
        what = "the trainer" if made.named.offloads else "the reward model"
        what = "the trainer and the reward model" if made.named.offloads and made.step.shares_reward else what
        notes.append(f"while the engines sample, {made.host_gb:,.0f} GB of a machine's host memory hold {what}")
    if made.engines_pool.named.on_spot:
        notes.append("engines on spot are lost one by one here: where a zone is lost as a whole, steps wait for it")
    return tuple(notes)


DIVIDED_FROM = 30e9
"""Parameters from which on published runs divide layers: NeMo-RL's recipes of 32B and larger, and verl's."""


def _not_tried(search: RlSearch, made: EvaluatedRl) -> list[str]:
    """Return that trainers were not compared that large models are usually trained with, and how they are."""
    job, is_large = search.job, made.architecture.parameters >= DIVIDED_FROM
    if set(DIVIDING) <= set(job.framework) or made.named.method != "full" or not is_large:
        return []
    setting = f"{setting_path(f'jobs.{job.name}.framework', search.scenario)}=[{','.join(RL_FRAMEWORKS)}]"
    return [f"{' and '.join(DIVIDING)}, which divides layers, was not compared: --set '{setting}'"]


def _without_shards(job: RlJob) -> list[str]:
    """Return that a trainer that is allowed was not compared, as it divides no layers and a degree is pinned."""
    pinned = [name for name in TRAINER_DEGREES if 1 not in (getattr(job.techniques, name) or (1,))]
    if RL_FRAMEWORK not in job.framework or not pinned:
        return []
    return [f"framework {RL_FRAMEWORK} was not compared: it divides no layers, and {pinned[0]} is given"]


def median_words(made: EvaluatedRl) -> str:
    """Return that hours and dollars are medians over the error of the speed, and what they are on average.

    The average is that of `planner simulate`, which cuts the long tail of the error at the same ranks.
    """
    factors = equally_likely_factors(float(tail_of_68_percent(step_sigma(made.step))), SPEED_RANK_BOUNDS).tolist()
    usd = fmean(made.usd(factor) for factor in factors)
    hours = (made.start_hours + made.run_hours) * fmean(factors)
    return f"likely hours and dollars are medians; slow runs make the average ${usd:,.2f} and {hours:,.1f} h"


def _limits_without_effect(search: RlSearch, made: EvaluatedRl) -> list[str]:
    """Return limits of the scenario that leave this plan as it is, because of what offers are or do not state."""
    limits, found = search.scenario.limits, list[str]()
    if limits.outlay_usd is not None:
        found.append("limits.outlay_usd has no effect: machines of kind rl are rented by the hour alone")
    silent = [pool.named.offer for pool in made.pools if pool.offer.stock is None and pool.offer.stock_status is None]
    if limits.stock_status is not None and silent:
        what = f"limits.stock_status has no effect on {', '.join(dict.fromkeys(silent))}"
        found.append(f"{what}: the provider's list does not state its stock")
    return found


def network_risk(made: EvaluatedRl) -> list[str]:
    """Return a line where new weights cross between machines whose network the offers do not state."""
    if made.rollout is None or states_network(made.trainer.offer, made.rollout.offer):
        return []
    weight_bytes, assumed = made.step.weight_bytes, (made.step.between or 0.0) * 8.0 / GB
    at, seconds = "", made.phases.new_weights
    if assumed > SLOW_NETWORK_GBPS:
        at = f"at {SLOW_NETWORK_GBPS:g} Gbit/s "
        seconds = transfer_seconds(weight_bytes, SLOW_NETWORK_GBPS * GB / 8.0)
    return [f"{NETWORK_RISK}: {assumed:g} Gbit/s assumed, {at}new weights take {seconds:,.0f} s a step"]


def count_ways(search: RlSearch) -> CandidateCounts:
    """Return how many ways there were, and why others are none."""
    offers = search.market.market.offers
    return CandidateCounts(
        made=len(search.ways),
        rejected=sum(search.rejected.values()),
        dominated=0,
        offers=len(offers) - int(search.market.market.is_outdated.sum()),
        outdated_offers=int(search.market.market.is_outdated.sum()),
        reasons=dict(search.rejected.most_common()),
    )
