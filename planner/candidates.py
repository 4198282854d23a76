"""Prices once per offer: the ways of a job joined with the offers that rent their machine, as a table of numbers.

Hours and dollars of one candidate (n instances at p_od and p_spot dollars an hour, spot share x of the work):

    start      boot, image, weights and data to the machine, load; billed in the market that the work runs in
    run[od]    step hours * goodput;               run[spot] = expected wall hours + one more start (the switch)
    usd[od]    n * p_od * (start + run[od])        usd[spot] = n * p_spot * (start + paid hours) + n * p_od * switch
    fixed      transfer in and out                 storage is charged for all hours, in either market

Late figures are the same at the job's confidence: step hours times exp(tau), spot waits at their own quantile.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from planner.estimates.bill import rounded_hours
from planner.library import Architecture, GpuSpec, Library
from planner.recipes import Recipe, allowed
from planner.running import Running, running_hours
from planner.scenario import AllowForbid, Job, Limits, Offer, Scenario, adjusted_offers, offer_labels
from planner.table import ON_DEMAND, SPOT, TECHNIQUES, CandidateTable, Flags, Floats, Integers, concatenate
from planner.terms import SpotMarket, disk_gb, machines_of, spot_market
from planner.units import HOUR, MONTH_HOURS
from planner.ways import Machine, Miss, Physics, Ways, enumerate_ways

DEFAULT_MAX_HOURS = {"finetune": 720.0, "pretrain": 2160.0}
"""Longest run where the scenario sets none: without a deadline the cheapest machine may take years."""
COARSE_STEP = 0.05
"""Share of the run above which a billing step is rounded (formulation, row `billing`)."""


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


@dataclass(frozen=True)
class Screened:
    """The rows that meet the job's own limits, with their shares cut, and why the others do not."""

    table: CandidateTable
    rows: Integers  # row of `table` -> row of the uncut table
    rounded: Flags  # row of `table`: billed in whole steps
    rejected: Counter[str]
    lateness: Floats  # per uncut row: hours over the deadline where that alone rejects it, else 0


@dataclass(frozen=True)
class Market:
    """The offers of a scenario as the candidates see them: equal ones merged, cards resolved."""

    offers: tuple[Offer, ...]
    labels: tuple[str, ...]
    merged: tuple[int, ...]  # how many offers each stands for
    cards: tuple[GpuSpec, ...]
    machines: tuple[tuple[Machine, ...], ...]

    @property
    def providers(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(offer.provider for offer in self.offers))


def market_of(scenario: Scenario, library: Library) -> Market:
    """Offers at the prices of the what-if; those that differ in region alone become one ("any of 17")."""
    groups: dict[tuple[object, ...], list[Offer]] = {}
    labels: dict[tuple[object, ...], str] = {}
    for label, offer in zip(offer_labels(scenario.offers), adjusted_offers(scenario), strict=True):
        # A limit on regions makes the region matter.
        where = offer.region if scenario.limits.regions != AllowForbid() else ""
        key = (
            where,
            offer.stock,
            offer.instance,
            offer.usd_per_hour,
            offer.spot_usd_per_hour,
            offer.provider,
            offer.gpu,
            offer.gpus,
            offer.max_nodes,
            offer.interconnect,
            offer.network_gbps,
            offer.spot,
            offer.billing,
            offer.fees,
            offer.community,
        )
        groups.setdefault(key, []).append(offer)
        labels.setdefault(key, label)
    offers = tuple(group[0] for group in groups.values())
    cards = tuple(library.gpu(offer.gpu) for offer in offers)
    return Market(
        offers,
        tuple(labels.values()),
        tuple(len(group) for group in groups.values()),
        cards,
        tuple(machines_of(offer, card) for offer, card in zip(offers, cards, strict=True)),
    )


def enumerate_candidates(
    job: Job,
    architecture: Architecture,
    market: Market,
    jobs: Sequence[str],
    library: Library,
    headroom: float | None = None,
) -> JobCandidates:
    """Every way to run the job on every offer of the market, priced; limits and deadline are left to `screen`.

    `jobs` are the names of all jobs of the scenario, so that the tables of several jobs can be joined.
    `headroom` replaces the margin of the fit rule.
    """
    machines = tuple(dict.fromkeys(machine for several in market.machines for machine in several))
    physics = enumerate_ways(job, architecture, machines, library, headroom)
    ways = physics.ways
    running = running_hours(job, architecture, physics, library)
    way, offer = _join(ways, market)
    table = _priced(job, architecture, physics, running, way, offer, market, jobs, library)
    return JobCandidates(
        job, architecture, physics, table, way, running, tuple(spot_market(o, library) for o in market.offers)
    )


def _join(ways: Ways, market: Market) -> tuple[Integers, Integers]:
    """Index pairs (way, offer) of every offer that rents the machine of a way."""
    offers_by_machine: dict[Machine, list[int]] = {}
    for index, several in enumerate(market.machines):
        for machine in several:
            offers_by_machine.setdefault(machine, []).append(index)
    pairs = []
    for position, machine in enumerate(ways.machines):
        here = np.flatnonzero(ways.machine == position)
        offers = np.asarray(offers_by_machine[machine], dtype=np.int64)
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
    library: Library,
) -> CandidateTable:
    ways = physics.ways
    columns = OfferColumns.of(market, job, architecture, library)
    nodes = (
        np.asarray([m.instances for m in ways.machines], dtype=np.int64)[ways.machine[way]]
        if len(way)
        else way
    )
    gpus = np.asarray([m.gpus for m in ways.machines], dtype=np.int64)[ways.machine[way]] if len(way) else way
    start = running.start_hours(columns.community[offer], way)
    spot = running.on_spot(columns, offer, way, nodes, start)
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
    uses = np.asarray([recipe.uses(False) for recipe in ways.recipes], dtype=bool).reshape(
        -1, len(TECHNIQUES)
    )[ways.recipe[way]]
    uses[:, TECHNIQUES.index("gradient_accumulation")] = ways.accumulation[way] > 1
    penalties: dict[str, float] = {str(name): usd for name, usd in job.techniques.penalty_usd.items()}
    penalty = np.asarray([penalties.get(name, 0.0) for name in TECHNIQUES])
    providers = {name: index for index, name in enumerate(market.providers)}
    return CandidateTable(
        jobs=tuple(jobs),
        offers=market.labels,
        providers=market.providers,
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
        uses=uses,
        penalty_usd=uses @ penalty,
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
    def of(cls, market: Market, job: Job, architecture: Architecture, library: Library) -> OfferColumns:
        offers = market.offers
        moved = architecture.download_gb + job.data_gb
        disk = disk_gb(architecture, job.data_gb)
        spot = [spot_market(offer, library) for offer in offers]

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


def screen(
    candidates: JobCandidates, market: Market, limits: Limits, library: Library, method_filter: bool = True
) -> Screened:
    """Filters that concern one job alone, spot shares cut at the deadline, coarse billing rounded at points.

    `method_filter` false keeps methods that the job's techniques exclude: the ladder prices them too.
    """
    job, table = candidates.job, candidates.table
    reasons: Counter[str] = Counter()
    keep = np.ones(len(table), dtype=bool)

    def reject(where: Flags, reason: str) -> None:
        nonlocal keep
        count = int(np.sum(keep & where))
        if count:
            reasons[reason] += count
        keep &= ~where

    if method_filter:
        ok = np.asarray([allowed(recipe, job) for recipe in candidates.physics.ways.recipes], dtype=bool)
        reject(~ok[table.recipe] if len(ok) else ~keep, "its method is not allowed")
    permitted = np.asarray(
        [
            limits.providers.permits(o.provider)
            and limits.gpus.permits(o.gpu)
            and limits.regions.permits(o.region)
            for o in market.offers
        ],
        dtype=bool,
    )
    reject(~permitted[table.offer], "its provider, GPU or region is not allowed")
    reject(_over(table, market, limits), "it needs more GPUs than a limit, quota or stock allows")
    low = np.maximum(table.share_low, limits.spot_share.min)
    high = np.minimum(table.share_high, limits.spot_share.max)
    reject(low > high, "its spot market cannot give the share asked for")
    latest = deadline_hours(job, limits)
    cut = _cut(table, latest, low)
    late = keep & (np.minimum(cut, high) < low - 1e-12)
    lateness = np.where(late, _least_late_hours(table, low, high) - latest, 0.0)
    reject(late, "it ends after the deadline")
    high = np.minimum(high, cut)
    rows = np.flatnonzero(keep)
    cut_table = replace(table.rows(rows), share_low=low[rows], share_high=np.maximum(high[rows], low[rows]))
    run = candidates.running.run_hours[candidates.way[rows]]
    rounded, origin, billed = _billed_in_steps(cut_table, run, candidates, market, library)
    return Screened(rounded, rows[origin], billed, reasons, lateness)


def deadline_hours(job: Job, limits: Limits) -> float:
    """The latest end in hours: the deadline, and the longest run that anyone meant."""
    longest = limits.max_hours if limits.max_hours is not None else DEFAULT_MAX_HOURS[job.kind]
    return min(longest, job.deadline_hours) if job.deadline_hours is not None else longest


def _over(table: CandidateTable, market: Market, limits: Limits) -> Flags:
    over = np.zeros(len(table), dtype=bool)
    if limits.max_gpus is not None:
        over |= table.gpus > limits.max_gpus
    quota = np.asarray([limits.quota.get(name, np.inf) for name in table.providers])
    stock = np.asarray([np.inf if o.stock is None else o.stock for o in market.offers])
    return over | (table.gpus > quota[table.provider]) | (table.instances > stock[table.offer])


def _cut(table: CandidateTable, latest: float, low: Floats) -> Floats:
    """Largest spot share whose late hours meet the deadline; -1 where the smallest share does not."""
    slack = latest - table.late_start_h
    on_demand, spot = table.late_h[:, ON_DEMAND], table.late_h[:, SPOT]
    with np.errstate(invalid="ignore", divide="ignore"):
        both = (slack - on_demand) / (spot - on_demand)
    both = np.where(spot <= on_demand, np.where(spot <= slack, 1.0, -1.0), both)
    # A start that outlasts the deadline is late at any share, however long spot would take.
    both = np.where((on_demand > slack) & (spot > on_demand), -1.0, both)
    only_spot = np.where(spot <= slack, 1.0, -1.0)
    only_demand = np.where(on_demand <= slack, 0.0, -1.0)
    cut = np.where(np.isnan(on_demand), only_spot, np.where(np.isnan(spot), only_demand, both))
    return np.clip(cut, -1.0, 1.0)


def _least_late_hours(table: CandidateTable, low: Floats, high: Floats) -> Floats:
    with np.errstate(invalid="ignore"):
        return np.fmin(table.late_hours(np.clip(low, 0, 1)), table.late_hours(np.clip(high, 0, 1)))


def _billed_in_steps(
    table: CandidateTable, run: Floats, candidates: JobCandidates, market: Market, library: Library
) -> tuple[CandidateTable, Integers, Flags]:
    """Rows whose billing step is coarse become points, at share floor and share cut, with rounded dollars.

    `run` are the hours of all the work on demand. Returns the table, and for each of
    its rows the row that it came from and whether it is rounded.
    """
    columns = OfferColumns.of(market, candidates.job, candidates.architecture, library)
    everything = np.arange(len(table))
    if not len(table):
        return table, everything, np.zeros(0, dtype=bool)
    step, least = columns.step_hours[table.offer], columns.minimum_hours[table.offer]
    coarse = (step > COARSE_STEP * run) | (least > table.start_h + run)
    if not coarse.any():
        return table, everything, coarse
    smooth, points = np.flatnonzero(~coarse), np.flatnonzero(coarse)
    two = points[table.share_high[points] > table.share_low[points]]
    origin = np.concatenate([smooth, points, two])
    share = np.concatenate([table.share_low[points], table.share_high[two]])
    made = table.rows(np.concatenate([points, two]))
    storage = columns.storage_usd_per_hour[made.offer] * made.instances
    usd, late_usd = (
        _rounded_usd(made, share, dollars, hours, start, storage, columns)
        for dollars, hours, start in (
            (made.run_usd, made.run_h, made.start_h),
            (made.late_usd, made.late_h, made.late_start_h),
        )
    )
    made = replace(made, run_usd=usd, late_usd=late_usd, share_low=share, share_high=share)
    return concatenate([table.rows(smooth), made]), origin, np.arange(len(origin)) >= len(smooth)


def _rounded_usd(
    made: CandidateTable,
    share: Floats,
    dollars: Floats,
    hours: Floats,
    start: Floats,
    storage: Floats,
    columns: OfferColumns,
) -> Floats:
    """Dollars per market such that the mix at `share` equals whole billing steps at the offer's prices."""
    step, least = columns.step_hours[made.offer], columns.minimum_hours[made.offer]
    od_price = np.nan_to_num(columns.on_demand_usd[made.offer]) * made.instances
    spot_price = np.nan_to_num(columns.spot_usd[made.offer]) * made.instances
    switch = np.where(np.isnan(columns.on_demand_usd[made.offer]), 0.0, start)
    paid_usd = np.nan_to_num(dollars[:, SPOT] - storage * (start + hours[:, SPOT])) - od_price * switch
    paid = np.divide(paid_usd, spot_price, out=np.zeros_like(paid_usd), where=spot_price > 0)
    od_hours = (1 - share) * np.nan_to_num(start + hours[:, ON_DEMAND]) + share * switch
    spot_hours = share * paid
    od_usd = rounded_hours(od_hours, step, least) * od_price
    spot_usd = rounded_hours(spot_hours, step, least) * spot_price
    mixed_od = np.where(share < 1, od_usd / np.maximum(1 - share, 1e-300), 0.0)
    # At share 1 the switch hours on demand are part of what spot costs.
    mixed_spot = np.where(
        share > 0, (spot_usd + np.where(share < 1, 0.0, od_usd)) / np.maximum(share, 1e-300), 0.0
    )
    result = np.stack(
        [mixed_od + storage * (start + hours[:, ON_DEMAND]), mixed_spot + storage * (start + hours[:, SPOT])],
        axis=1,
    )
    return np.where(np.isnan(dollars), np.nan, result)


def nearest_misses(candidates: JobCandidates, count: int) -> tuple[Miss, ...]:
    """The rejected recipes that came nearest to fitting, at most one per machine and method."""
    return tuple(sorted(candidates.physics.misses, key=lambda miss: miss.shortfall))[:count]


def recipe_of(candidates: JobCandidates, row: int) -> Recipe:
    """The recipe of a row of the uncut table."""
    return candidates.physics.ways.recipes[int(candidates.table.recipe[row])]
