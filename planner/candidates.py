"""Prices once per offer: the ways of a job joined with the offers that rent their machine, as a table of numbers.

Hours and dollars of one candidate (n instances at p_od and p_spot dollars an hour, spot share x of the work):

    start      boot, image, weights and data to the machine, load; billed in the market that the work runs in
    run[od]    step hours * goodput;               run[spot] = expected wall hours + one more start (the switch)
    usd[od]    n * p_od * (start + run[od])        usd[spot] = n * p_spot * (start + paid hours) + n * p_od * switch
    fixed      transfer in and out                 storage is charged for all hours, in either market

Late figures are the same at the job's confidence: step hours times exp(tau), spot waits at their own quantile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from planner.grid import Machine
from planner.library import Architecture, Library
from planner.markets import Market
from planner.running import Running, running_hours
from planner.scenario import Job
from planner.table import TECHNIQUES, CandidateTable, Flags, Floats, Integers
from planner.terms import SpotMarket, disk_gb, spot_markets
from planner.units import HOUR, MONTH_HOURS
from planner.ways import Physics, Ways, enumerate_ways


@dataclass(frozen=True)
class JobCandidates:
    """All priced ways of one job: the physics, and per row of the table the way and what it costs to run."""

    job: Job
    architecture: Architecture
    physics: Physics
    table: CandidateTable  # every way that fits, on every offer, limits left out; shares 0..1 uncut
    way: Integers  # row -> index into physics.ways
    running: Running  # per way
    spot: tuple[SpotMarket, ...]  # per offer of the market
    columns: OfferColumns
    headroom: float | None

    def rows(self, which: Integers | Flags) -> JobCandidates:
        """The same job with only the rows that a mask or an index array names."""
        return replace(self, table=self.table.rows(which), way=self.way[which])


def enumerate_candidates(
    job: Job,
    architecture: Architecture,
    market: Market,
    jobs: Sequence[str],
    library: Library,
    headroom: float | None = None,
    before: JobCandidates | None = None,
) -> JobCandidates:
    """Every way to run the job on every offer of the market, priced; limits and deadline are left to `screen`.

    `jobs` are the names of all jobs of the scenario, so that the tables of several jobs can be joined.
    `headroom` replaces the margin of the fit rule. Physics that `before` shares with this job are taken from it.
    """
    machines = market.distinct
    if before is not None and before.headroom == headroom and _same_physics(before, job, architecture, machines):
        physics = before.physics
        running = before.running if _same_running(before.job, job) else None
    else:
        physics, running = enumerate_ways(job, architecture, machines, library, headroom), None
    running = running or running_hours(job, architecture, physics, library)
    way, offer = _join(physics.ways, market)
    spot = spot_markets(market.offers, library)
    columns = OfferColumns.of(market, job, architecture, spot)
    table = _priced(job, architecture, physics, running, way, offer, market, jobs, columns)
    return JobCandidates(job, architecture, physics, table, way, running, spot, columns, headroom)


BLIND = {
    "name": "",
    "deadline_hours": None,
    "confidence": 0.5,
    "efficiency": 1.0,
    "storage_gb_per_second": 1.0,
    "load_efficiency": 1.0,
    "data_gb": 0.0,
}
"""What of a job its memory and step time do not depend on, with a stand-in for comparisons."""
TIMED = ("confidence", "efficiency", "storage_gb_per_second", "load_efficiency", "data_gb")
"""Those of them that hours depend on."""


def _same_physics(
    before: JobCandidates, job: Job, architecture: Architecture, machines: tuple[Machine, ...]
) -> bool:
    """Whether memory and step times of the ways are those of before: prices, limits and names do not matter."""
    if before.architecture != architecture or before.physics.machines != machines:
        return False
    # Observed runs stand for the ways that are allowed; without them every method is enumerated anyway.
    open_ = {} if job.measured or before.job.measured else {"method": None, "weight_bits": None}

    def essence(one: Job) -> Job:
        techniques = one.techniques.model_copy(update={"penalty_usd": {}, **open_})
        return one.model_copy(update={**BLIND, "techniques": techniques})

    return essence(before.job) == essence(job)


def _same_running(before: Job, job: Job) -> bool:
    return all(getattr(before, field) == getattr(job, field) for field in TIMED)


def _join(ways: Ways, market: Market) -> tuple[Integers, Integers]:
    """Index pairs (way, offer) of every offer that rents the machine of a way."""
    # Offers of one kind share their tuple of machines, so that few are looked up by what they are.
    kinds: dict[int, list[int]] = {}
    for index, several in enumerate(market.machines):
        kinds.setdefault(id(several), []).append(index)
    offers_by_machine: dict[Machine, list[int]] = {}
    for alike in kinds.values():
        for machine in market.machines[alike[0]]:
            offers_by_machine.setdefault(machine, []).extend(alike)
    pairs = []
    for position, machine in enumerate(ways.machines):
        here = np.flatnonzero(ways.machine == position)
        offers = np.sort(np.asarray(offers_by_machine[machine], dtype=np.int64))
        if len(here):
            pairs.append((np.repeat(here, len(offers)), np.tile(offers, len(here))))
    if not pairs:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    return np.concatenate([a for a, _ in pairs]), np.concatenate([b for _, b in pairs])


def _priced(
    job: Job,
    architecture: Architecture,
    physics: Physics,
    running: Running,
    way: Integers,
    offer: Integers,
    market: Market,
    jobs: Sequence[str],
    columns: OfferColumns,
) -> CandidateTable:
    ways = physics.ways
    nodes = np.asarray([m.instances for m in ways.machines], dtype=np.int64)[ways.machine[way]] if len(way) else way
    gpus = np.asarray([m.gpus for m in ways.machines], dtype=np.int64)[ways.machine[way]] if len(way) else way
    start = running.start_hours(columns.community[offer], way)
    spot = running.on_spot(columns, offer, way, nodes)
    on_demand = running.run_hours[way]
    late = running.late_factor[way]
    has_od = ~np.isnan(columns.on_demand_usd[offer])
    switch = np.where(has_od, start, 0.0)
    od_price, spot_price = columns.on_demand_usd[offer] * nodes, columns.spot_usd[offer] * nodes
    switch_usd = np.where(has_od, np.nan_to_num(od_price) * switch, 0.0)
    storage = columns.storage_usd_per_hour[offer] * nodes
    run_h = np.stack(
        [np.where(has_od, on_demand, np.nan), np.where(np.isnan(spot_price), np.nan, spot.wall + switch)],
        axis=1,
    )
    late_h = np.stack(
        [run_h[:, 0] * late, np.where(np.isnan(spot_price), np.nan, spot.late_wall + switch * late)], axis=1
    )
    run_usd = np.stack(
        [
            od_price * (start + on_demand) + storage * (start + run_h[:, 0]),
            spot_price * (start + spot.paid) + switch_usd + storage * (start + run_h[:, 1]),
        ],
        axis=1,
    )
    late_usd = np.stack(
        [
            od_price * (start + on_demand) * late + storage * (start * late + late_h[:, 0]),
            (spot_price * (start + spot.paid) + switch_usd) * late + storage * (start * late + late_h[:, 1]),
        ],
        axis=1,
    )
    export = (
        np.asarray([running.export_gb[i] for i in range(len(ways.recipes))])[ways.recipe[way]]
        if len(way)
        else way * 0.0
    )
    fixed = columns.transfer_in_usd[offer] * nodes + columns.egress_usd_per_gb[offer] * export
    # What hangs on the way alone is looked up there, and taken once per row.
    by_recipe = np.asarray([recipe.uses(False) for recipe in ways.recipes], dtype=bool).reshape(-1, len(TECHNIQUES))
    uses = by_recipe[ways.recipe]
    uses[:, TECHNIQUES.index("gradient_accumulation")] = ways.accumulation > 1
    penalties: dict[str, float] = {str(name): usd for name, usd in job.techniques.penalty_usd.items()}
    penalty = uses @ np.asarray([penalties.get(name, 0.0) for name in TECHNIQUES])
    names = market.providers
    providers = {name: index for index, name in enumerate(names)}
    return CandidateTable(
        jobs=tuple(jobs),
        offers=market.labels,
        providers=names,
        job=np.full(len(way), list(jobs).index(job.name), dtype=np.int64),
        offer=offer,
        provider=np.asarray([providers[o.provider] for o in market.offers], dtype=np.int64)[offer],
        recipe=ways.recipe[way],
        instances=nodes,
        gpus=gpus,
        start_h=start,
        late_start_h=start * late,
        run_h=run_h,
        late_h=late_h,
        fixed_usd=fixed,
        run_usd=run_usd,
        late_usd=late_usd,
        share_low=np.where(has_od, 0.0, 1.0),
        share_high=np.where(np.isnan(spot_price), 0.0, 1.0),
        uses=uses.take(way, axis=0),
        penalty_usd=penalty[way],
        fit_gib=ways.fit_gib[way],
        usable_gib=ways.usable_gib[way],
    )


@dataclass(frozen=True)
class OfferColumns:
    """Offers as columns (offers,): nan where a price does not exist, 0 for an unknown fee, which the bill names."""

    on_demand_usd: Floats
    spot_usd: Floats  # nan where there is no spot market worth the name
    transfer_in_usd: Floats  # per instance
    egress_usd_per_gb: Floats
    storage_usd_per_hour: Floats  # per instance
    community: Flags
    availability: Floats
    mean_up_hours: Floats
    step_hours: Floats
    minimum_hours: Floats

    @classmethod
    def of(
        cls, market: Market, job: Job, architecture: Architecture, spot: Sequence[SpotMarket]
    ) -> OfferColumns:
        """The columns of a market's offers, given how spot machines come and go on each."""
        offers = market.offers
        moved = architecture.download_gb + job.data_gb
        disk = disk_gb(architecture, job.data_gb)

        def column(values: Sequence[float | None], missing: float = np.nan) -> Floats:
            return np.asarray([missing if value is None else value for value in values], dtype=float)

        return cls(
            column([o.usd_per_hour for o in offers]),
            column([o.spot_usd_per_hour if o.has_spot else None for o in offers]),
            column([o.fees.ingress_usd_per_gb for o in offers], 0.0) * moved,
            column([o.fees.egress_usd_per_gb for o in offers], 0.0),
            column([o.fees.storage_usd_per_gb_month for o in offers], 0.0) * disk / MONTH_HOURS,
            np.asarray([o.community for o in offers], dtype=bool),
            column([s.availability for s in spot]),
            column([s.mean_up_hours for s in spot]),
            column([o.billing.step_seconds for o in offers]) / HOUR,
            column([o.billing.minimum_hours for o in offers]),
        )
