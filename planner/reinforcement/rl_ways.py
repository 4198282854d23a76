"""Every way to run a job of reinforcement learning, in arrays: machines for each side, all pairs, seconds and dollars.

A way is a trainer on machines of one offer and engines on the same machines in turn, on other GPUs of one machine, or
on machines of a second offer. Of each side only what another one in the same place does not dominate is paired; all
pairs that are left are priced, so that the least of them is the least of all.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

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
from planner.estimates.billing import round_up_hours
from planner.estimates.stage_seconds import NodeGroupCoefficients
from planner.estimates.uncertainty import confidence_factor, tail_of_68_percent
from planner.library.schema import GpuSpec, Library
from planner.reinforcement.evaluated_rl import (
    NamedPool,
    NamedRl,
    host_room_gb,
    network_rate,
    start_hours_of,
    trainer_data_gb,
)
from planner.reinforcement.rl_estimate import STEP_SIGMA
from planner.reinforcement.rl_sides import (
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
from planner.results.subject_runs import Placement
from planner.scenario.limits import given_peaks
from planner.scenario.rl_job import TRAINER_DEGREES, Judge, RlJob
from planner.scenario.scenario import Scenario
from planner.units import GB, GIB, HOUR, MONTH_HOURS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.analysis.why_not import WhyNotQuery

ASKED_COUNTS = ("gpus", "training_gpus", "rollout_gpus")
"""Keys of a query that count GPUs: of all machines, of each side."""
MOST_POOL_GPUS = 64
"""GPUs of a pool, where `limits.max_gpus` allows more: the estimates of rollouts were seen on up to 256."""
MOST_RL_GPUS = 16 * MOST_POOL_GPUS
"""GPUs of a pool, whatever is allowed."""
PAID_OTHERWISE = "hours paid in advance, machines to buy, windows: not modelled for kind rl"


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


def pools_of(market: RlMarket, job: RlJob, architecture: Any, rows: Sequence[PoolRow]) -> Pools:
    """Return pools with their prices and fees."""
    offers = market.market.offers
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(PoolRow._fields)
    offer, instances = np.asarray(columns[0], dtype=np.int64), np.asarray(columns[1], dtype=np.int64)
    spot, seconds = np.asarray(columns[2], dtype=bool), np.asarray(columns[5], dtype=float)
    price = np.asarray(
        [
            (offers[at].spot_usd_per_hour if on else offers[at].usd_per_hour) or 0.0
            for at, on in zip(offer, spot, strict=True)
        ]
    )
    there = np.where(spot, market.availability[offer], 1.0) if len(offer) else np.zeros(0)
    rate = np.asarray([fee_usd(each, "machine hours") for each in offers])
    disk = np.asarray([fee_usd(each, "GB on disk") for each in offers])
    is_engine = np.asarray([gb < 0 for gb in columns[7]], dtype=bool)
    start = np.where(is_engine, market.start_hours[offer], market.trainer_start_hours[offer])
    own_data = np.where(is_engine, 0.0, trainer_data_gb(job))
    sent = np.maximum(np.asarray(columns[7], dtype=float), 0.0)
    on_disk = np.asarray([disk_gb(architecture.download_gb, gb) for gb in own_data])
    return Pools(
        offer, instances, spot, np.asarray(columns[3], dtype=np.int64), np.asarray(columns[4], dtype=np.int64),
        seconds, np.asarray(columns[6], dtype=float), start,
        price * instances * there,
        rate[offer] * instances * there + disk[offer] * on_disk * instances / MONTH_HOURS,
        market.in_usd[offer] * (architecture.release_gb + own_data) * instances + market.out_usd[offer] * sent,
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
    quantities: RlQuantities
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

    def used_at_once(self, of_machine: Floats) -> Floats:
        """Return what all machines of a way (n,) use, of what one machine of each offer (offers,) uses."""
        trainer, rollout = (of_machine[pool.offer] * pool.instances for pool in (self.ways.trainer, self.ways.rollout))
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
        self.quantities = RlQuantities.of(job, self.architecture, library)
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
        self.trainers = find_trainers(self.quantities, machines, library, scenario.limits.vram_headroom, known)
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
        return [gpus for gpus in REWARD_GPUS if self.quantities.own_reward_fits(self.market.cards[at], gpus)]

    def _layouts(self, at: int, n: int) -> list[tuple[int, int]]:
        """Return the place of what trains, and the GPUs of a reward model alone, for n machines of an offer.

        The latter are part of an only machine, or whole machines of several.
        """
        layouts, gpus_of_machine, reward = list[tuple[int, int]](), self.offers[at].gpus, self.job.reward_model
        if reward is None or "shared" in reward.placement:
            layouts.append((self.machine[at, n], 0))
        for gpus in self._own_rewards(at):
            if gpus < gpus_of_machine and n == 1:
                layouts.append((self.machine[at, 0, gpus], gpus))
            elif gpus % gpus_of_machine == 0 and n > gpus // gpus_of_machine:
                layouts.append((self.machine[at, n - gpus // gpus_of_machine], gpus))
        return layouts

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
        colocated, trainers = list[OneOffer](), self.trainers
        decides = [trainers.seconds, self.spread, trainers.copy_machines]
        if "colocated" not in self.job.rollout.placement:
            return colocated
        for at, n in self.whole:
            for machine, own in self._layouts(at, n):
                sharing = min(self.offers[at].gpus, trainers.machines[machine].gpus)
                room = host_room_gb(self.offers[at], self.market.cards[at]) * GB / GIB / sharing
                rows = self._rows(at, machine, own > 0)
                leaving = [row for row in rows if trainers.states_gib[row] + trainers.hosted_gib[row] <= room]
                colocated += [OneOffer(at, n, 0, row, 0.0, own) for row in undominated_rows(leaving, decides)]
                staying = undominated_rows(sorted({*rows} - {*leaving}), [*decides, trainers.states_gib])
                colocated += [OneOffer(at, n, 0, row, float(trainers.states_gib[row]), own) for row in staying]
        return colocated

    def run(self) -> RlSearch:
        """Return all ways."""
        colocated = self._colocated()
        wanted = [key for way in colocated for key in self._keys(way.at, self._engine_gpus(way)[0], way.kept_gib)]
        if "apart" in self.job.rollout.placement:
            wanted += [key for at, gpus in self.parts for key in self._keys(at, gpus)]
            wanted += [key for at in self.market.allowed for key in self._keys(at, self.offers[at].gpus)]
        self.engines, rejected = find_engines(self.quantities, wanted, self.library)
        self.rejected += rejected
        self.known: dict[tuple[int, int], tuple[float, float]] = {}
        several = [self._same_machines("colocated", colocated)]
        if "apart" in self.job.rollout.placement:
            several += [self._same_machines("one machine", self._divided()), self._apart()]
        ways = joined_ways(several)
        return RlSearch(
            self.scenario, self.job, self.library, self.quantities, self.market, self.trainers, self.engines, ways,
            self.rejected, self.known_trainers,
        )  # fmt: skip

    def _engine_gpus(self, way: OneOffer) -> tuple[int, int]:
        """Return the GPUs with engines of one machine and of all."""
        if way.sampling:
            return way.sampling, way.sampling
        gpus_of_machine = self.offers[way.at].gpus
        whole = way.machines * gpus_of_machine - way.own_reward
        return min(gpus_of_machine, whole), whole

    def _divided(self) -> list[OneOffer]:
        """Return the ways on one machine whose GPUs are divided, with the trainer on those that are left."""
        shared = self.job.reward_model is None or "shared" in self.job.reward_model.placement
        divided = list[OneOffer]()
        for at, gpus in self.parts:
            for own in [0] * shared + [own for own in self._own_rewards(at) if own < gpus]:
                rows = self._best(at, self.machine[at, 0, gpus], own > 0)
                divided += [OneOffer(at, 1, gpus - own, row, 0.0, own) for row in rows]
        return divided

    def _rollouts(self, asked: Sequence[tuple[int, int, int, float]], is_in_turn: bool) -> list[EngineRow | None]:
        """Return the fastest engine and its rollout on so many GPUs, for each offer, GPUs of a machine, GPUs, kept.

        `is_in_turn`: a rollout ends before the next one begins, as where all GPUs do both.
        """
        place = self.engines.place
        wanted = [
            [(place[key], gpus // key.gpus) for key in self._keys(at, of_machine, kept) if key in place]
            for at, of_machine, gpus, kept in asked
        ]
        missing = [pair for pair in dict.fromkeys(pair for pairs in wanted for pair in pairs) if pair not in self.known]
        if missing:
            which, count = (np.asarray(column) for column in zip(*missing, strict=True))
            seconds = rollout_columns(self.quantities, self.engines, which, count.astype(float))
            stale = stale_columns(self.quantities, self.engines, which, count.astype(float), seconds)
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
        parts = [(way.at, *self._engine_gpus(way), way.kept_gib) for way in asked]
        rollouts = self._rollouts(parts, placement == "colocated")
        held = [(way, gpus[2], best) for way, gpus, best in zip(asked, parts, rollouts, strict=True) if best]
        trainer = self._pools([self._trainer_row(way.at, way.machines, way.row, way.own_reward) for way, _, _ in held])
        sampling = [PoolRow(way.at, way.machines, False, best.row, gpus, *best[1:], -1.0) for way, gpus, best in held]
        engines = self._pools(sampling)
        none = np.zeros(len(held))
        free = {name: none for name in ("machine_usd", "hour_usd", "once_usd", "start_hours")}
        engines = Pools(**{name: free.get(name, getattr(engines, name)) for name in Pools.__annotations__})
        offloads = np.asarray([placement == "colocated" and way.kept_gib == 0.0 for way, _, _ in held], dtype=bool)
        elsewhere = 1.0 - 1.0 / self.trainers.copy_machines[trainer.row]
        weights = transfer_seconds(self.quantities.weight_bytes, self._inside(trainer.offer), elsewhere)
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
            PoolRow(at, n, spot, engine.row, gpus, *engine[1:], -1.0)
            for (at, n), (_, _, gpus, _), engine in zip(sizes, asked, best, strict=True)
            if engine is not None
            for spot in self._sold(at)
        ]
        rollout = self._pools(sells)
        trainer = trainer.rows(self._undominated(trainer, self.spread[trainer.row]))
        rollout = rollout.rows(self._undominated(rollout, np.zeros(len(rollout.row))))
        first, second = self._pairs(trainer, rollout)
        trainer, rollout = trainer.rows(first), rollout.rows(second)
        market, there = self.market, self.market.place[trainer.offer] == self.market.place[rollout.offer]
        outside = np.minimum(market.outside[trainer.offer], market.outside[rollout.offer])
        network = np.where(there, self._inside(trainer.offer, rollout.offer), outside)
        weights = transfer_seconds(self.quantities.weight_bytes, network)
        gb = self.quantities.weight_bytes / GB * self.job.work.steps
        moved = np.where(there, 0.0, gb * (market.out_usd[trainer.offer] + market.in_usd[rollout.offer]))
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
        markets = [False] if offer.usd_per_hour is not None else []
        on_spot = offer.has_spot and not self.market.market.is_outlier[at] and limits.spot_share.max > 0
        return [*markets, *([True] if on_spot else [])]

    def _undominated(self, pools: Pools, spread: Floats) -> Integers:
        """Return the pools that no other in the same place and market beats in everything that a pair depends on.

        `spread`: that of ln(seconds) of a trainer.
        """
        if not len(pools.offer):
            return np.zeros(0, dtype=np.int64)
        market, limits = self.market, self.scenario.limits
        worse = [pools.seconds, spread, pools.machine_usd, pools.hour_usd, pools.once_usd, pools.start_hours]
        worse += [
            -market.network[pools.offer],
            -market.outside[pools.offer],
            market.out_usd[pools.offer],
            market.in_usd[pools.offer],
        ]
        worse += [
            market.step_hours[pools.offer],
            market.minimum_hours[pools.offer],
            pools.plain_seconds,
            pools.own_reward,
        ]
        # More machines on spot are less seldom all gone; the market of one is that of its offer.
        on_spot = np.asarray(pools.is_spot, dtype=np.float64)
        worse += [-(on_spot * pools.instances), -(on_spot * market.availability[pools.offer])]
        worse += [-(pools.is_spot * market.mean_up_hours[pools.offer]), pools.is_spot * market.luck_hours[pools.offer]]
        worse += [_use(limit, market.market, pools) for limit, _ in given_peaks(limits) if not limit.is_of_dollars]
        if any(self.offers[at].stock is not None for at in market.allowed):
            worse.append(np.asarray([float(at) if self.offers[at].stock is not None else -1.0 for at in pools.offer]))
        if limits.quota or self.counts.get("gpus") is not None:
            worse.append(pools.instances * np.asarray([self.offers[at].gpus for at in pools.offer], dtype=float))
        points, keep = np.stack(worse, 1), list[int]()
        groups: dict[tuple[int, bool, float, bool], list[int]] = {}
        gpus = worse[-1] if self.counts.get("gpus") is not None else np.zeros(len(pools.offer))
        keys = (
            market.place[pools.offer].tolist(),
            pools.is_spot.tolist(),
            gpus.tolist(),
            (pools.reward_gpus > 0).tolist(),
        )
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
        rest = weights * self.quantities.factors.new_weights + self.quantities.fixed_seconds
        step, luck = both + rest, np.zeros(len(both))
        if (at := np.flatnonzero(rollout.is_spot)).size:
            seconds = rollout.seconds[at], trainer.seconds[at], rest[at]
            engines = self._spot_engines(rollout.rows(at))
            step[at], luck[at] = spot_step(*seconds, overlapped, engines, trainer.own_reward[at])
        run = job.work.steps * step / HOUR + luck / 2.0  # a run may meet a market that is out
        plain = rollout.plain_seconds + trainer.own_reward
        sigma = step_sigmas(self.quantities, self.trainers, trainer.row, plain, rest, overlapped)
        sigma = np.sqrt(sigma**2 + luck / run)
        tail = tail_of_68_percent(sigma)
        judged = 0.0
        if isinstance(job.reward, Judge):
            judged = job.reward.usd(self.quantities.sampled * job.work.steps, self.quantities.mean_tokens)

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
        market, offer = self.market, pools.offer
        states = market.availability[offer], market.mean_up_hours[offer], pools.start_hours, market.luck_hours[offer]
        return SpotEngines(pools.instances, *states)


def _use(limit: Any, market: Market, pools: Pools) -> Floats:
    """Return what pools (n,) use of a limit on one time."""
    return np.asarray(market.use_of(limit)[pools.offer] * pools.instances)


def search_rl(
    scenario: Scenario, job: RlJob, library: Library, asked: WhyNotQuery | None = None,
    known: dict[Any, Any] | None = None,
) -> RlSearch:  # fmt: skip
    """Return every way to run the job of a scenario that nothing dominates, with what it costs.

    `asked`: those alone on offers and with numbers of GPUs that a query names; dominated is a way by these only.
    `known`: what earlier searches with the same library found of trainers.
    """
    return _Search(scenario, job, library, asked, {} if known is None else known).run()
