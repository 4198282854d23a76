"""Prices once per offer: the ways of a job joined with the offers that rent their machine, as a table of numbers.

Hours and dollars of one candidate (n instances per gang, k gangs, p_od and p_spot dollars an hour, spot share x):

    start_h    once + aside             once: hours of the machines beside the run; aside: stages on other machines
    run_h[od]  run                      run_h[spot] = expected wall hours + one more start (the switch)
    usd[od]    n * p_od * (k * once + machine hours of run)            (k = 1: once + run)
    usd[spot]  n * p_spot * (k * once + machine hours paid) + n * p_od * k * switch
    fixed      transfer in and out, what is kept after the run, commitments      storage is charged for all hours

Late figures are the same at the job's confidence: hours times exp(tau), spot waits at their own quantile; a run that
is expected to stop early is taken in full.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from planner.candidate_table import CandidateTable, concatenate
from planner.candidates.managed_service import ManagedRows, managed_rows
from planner.candidates.offer_columns import OfferColumns
from planner.candidates.offer_terms import SpotMarket, spot_markets
from planner.candidates.run_hours import RunHours, compute_run_hours
from planner.candidates.stage_hours import RowHours, row_hours
from planner.candidates.stage_placement import Placement, enumerate_placements
from planner.configurations.enumeration import Configurations, JobConfigurations, enumerate_configurations
from planner.scenario.stages import Stages, Trials
from planner.spot.policy.curve_cache import CurveCache
from planner.units import MONTH_HOURS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.arrays import Flags, Floats, Integers
    from planner.candidates.market import Market
    from planner.configurations.grid import Machine
    from planner.configurations.recipe import Recipe
    from planner.library.schema import Architecture, Library
    from planner.scenario.scenario import Job


@dataclass(frozen=True)
class JobCandidates:
    """All priced ways of one job: the physics, and per row of the table the way and what it costs to run."""

    job: Job
    architecture: Architecture
    physics: JobConfigurations
    table: CandidateTable  # every way that fits, on every offer, limits left out; shares 0..1 uncut
    configuration: Integers  # row -> index into physics.ways; -1: a managed service, which has no way of ours
    placement: Integers  # row -> index into `placements`
    hours: RowHours  # per row
    run_hours: RunHours  # per way
    placements: tuple[Placement, ...]
    spot: tuple[SpotMarket, ...]  # per offer of the market
    columns: OfferColumns
    headroom: float | None
    curves: CurveCache = field(default_factory=CurveCache, compare=False)  # of spot markets, computed when asked for
    managed: tuple[Recipe, ...] = ()  # what managed services run, as far as they tell

    @property
    def recipes(self) -> tuple[Recipe, ...]:
        """What `table.recipe` indexes."""
        return self.physics.ways.recipes + self.managed

    def hours_rented(self) -> Floats:
        """Hours (n,) on demand that one gang is rented for, at the asked confidence."""
        return (self.hours.once + self.hours.run * self.hours.stretch) * self.hours.late

    def lacks_ram(self) -> Flags:
        """Rows (n,) that prepare data on a training machine known to have less memory than that takes.

        What was observed did run; a service has no machine of its own.
        """
        wanted, own = self.job.stages.ingest, self.configuration >= 0
        if wanted is None or not own.any():
            return np.zeros(len(self.table), dtype=bool)
        here = np.asarray([one.ingest is None for one in self.placements], dtype=bool)[self.placement]
        seen = self.run_hours.observed[np.where(own, self.configuration, 0)]
        small = self.columns.ram_gb[self.table.offer] < wanted.ram_gb  # nan, which is unknown, is not
        return np.asarray(own & here & ~seen & small, dtype=bool)

    def without_hours_limit(self) -> JobCandidates:
        """The same where as many hours are paid for already as anyone asks for, on every such offer."""
        endless = np.full_like(self.columns.committed_hours, np.inf)
        return replace(self, columns=replace(self.columns, committed_hours=endless))

    def rows(self, which: Integers | Flags) -> JobCandidates:
        """The same job with only the rows that a mask or an index array names."""
        return replace(
            self,
            table=self.table.rows(which),
            configuration=self.configuration[which],
            placement=self.placement[which],
            hours=self.hours.rows(which),
        )


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
    Raises ScenarioError for a stage that no offer can run.
    """
    machines = market.distinct_machines
    if before is not None and before.headroom == headroom and _same_physics(before, job, architecture, machines):
        physics = before.physics
        running = before.run_hours if _has_same_hours(before.job, job) else None
    else:
        physics, running = enumerate_configurations(job, architecture, machines, library, headroom), None
    running = running or compute_run_hours(job, architecture, physics, library)
    placed = enumerate_placements(job, architecture, physics.shape, market, library)
    way, offer = _join(physics.ways, market)
    several = len(placed)
    placement = np.tile(np.arange(several), len(way))
    way, offer = np.repeat(way, several), np.repeat(offer, several)
    spot = spot_markets(market.offers, library)
    columns = OfferColumns.of(market, job, architecture, spot, library)
    table, hours = _price(job, physics, running, placed, way, offer, placement, market, jobs, columns)
    made = JobCandidates(
        job, architecture, physics, table, way, placement, hours, running, placed, spot, columns, headroom
    )
    if before is not None:
        made = replace(made, curves=before.curves)
    return _with_managed(made, market, library)


IGNORED_FIELDS = {
    "name": "",
    "deadline_hours": None,
    "confidence": 0.5,
    "efficiency": 1.0,
    "storage_gb_per_second": 1.0,
    "load_efficiency": 1.0,
    "data_gb": 0.0,
    "trials": Trials(),
    "early_stopping": 1.0,
    "stages": Stages(),
}
"""What of a job its memory and step time do not depend on, with a stand-in for comparisons."""
TIMING_FIELDS = (
    "confidence",
    "efficiency",
    "storage_gb_per_second",
    "load_efficiency",
    "trials",
    "early_stopping",
    "stages",
)
"""Those of them that hours depend on."""


def _same_physics(before: JobCandidates, job: Job, architecture: Architecture, machines: tuple[Machine, ...]) -> bool:
    """Whether memory and step times of the ways are those of before: prices, limits and names do not matter."""
    if before.architecture != architecture or before.physics.machines != machines:
        return False
    # Observed runs stand for the ways that are allowed; without them every method is enumerated anyway.
    open_ = {} if job.measured or before.job.measured else {"method": None, "weight_bits": None}

    def essence(one: Job) -> Job:
        techniques = one.techniques.model_copy(update={"penalty_usd": {}, **open_})
        return one.model_copy(update={**IGNORED_FIELDS, "techniques": techniques})

    return essence(before.job) == essence(job)


def _has_same_hours(before: Job, job: Job) -> bool:
    return all(getattr(before, field) == getattr(job, field) for field in TIMING_FIELDS)


def _join(ways: Configurations, market: Market) -> tuple[Integers, Integers]:
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


def _price(
    job: Job,
    physics: JobConfigurations,
    running: RunHours,
    placed: Sequence[Placement],
    way: Integers,
    offer: Integers,
    placement: Integers,
    market: Market,
    jobs: Sequence[str],
    columns: OfferColumns,
) -> tuple[CandidateTable, RowHours]:
    ways = physics.ways
    machine = ways.machine[way]
    nodes = np.asarray([m.instances for m in ways.machines], dtype=np.int64)[machine] if len(way) else way
    gpus = np.asarray([m.gpus for m in ways.machines], dtype=np.int64)[machine] if len(way) else way
    recipe = ways.recipe[way]
    hours = row_hours(job, physics.shape, running, columns, placed, way, offer, placement, recipe, nodes, gpus)
    late, stretch, node_groups = hours.late, hours.stretch, hours.node_groups
    has_od, no_spot = ~np.isnan(columns.on_demand_usd[offer]), np.isnan(hours.spot_wall)
    once, run = hours.once, hours.run
    run_h = np.stack([np.where(has_od, run, np.nan), np.where(no_spot, np.nan, hours.spot_wall + hours.switch)], axis=1)
    late_h = np.stack([run_h[:, 0] * late * stretch, hours.late_spot_wall + hours.switch * late], axis=1)
    od_price, spot_price = columns.on_demand_usd[offer] * nodes, columns.spot_usd[offer] * nodes
    switch_usd = np.nan_to_num(od_price) * hours.switch * node_groups
    od_usd, spot_usd = od_price * (node_groups * once), spot_price * (node_groups * once) + switch_usd
    spot_run = spot_price * hours.spot_group_paid
    kept = np.asarray(running.kept_gb)[recipe] if len(way) else way * 0.0
    disk = columns.disk_gb[offer] + hours.raw_gb
    storage = columns.storage_usd_per_gb_hour[offer] * (disk * nodes + kept) * node_groups
    ran = ~running.observed[way]
    aside, late_aside = (
        np.asarray(usd, dtype=float)[placement] * ran
        for usd in ([one.usd for one in placed], [one.late_usd for one in placed])
    )
    run_usd = np.stack(
        [
            od_usd + od_price * hours.group_run + storage * (once + run_h[:, 0]) + aside,
            spot_usd + spot_run + storage * (once + run_h[:, 1]) + aside,
        ],
        axis=1,
    )
    late_usd = np.stack(
        [
            (od_usd + od_price * hours.group_run * stretch) * late + storage * (once * late + late_h[:, 0]),
            (spot_usd + spot_run * stretch) * late + storage * (once * late + late_h[:, 1]),
        ],
        axis=1,
    )
    export = np.asarray(running.export_gb)[recipe] if len(way) else way * 0.0
    months = (job.stages.retention_hours or 0.0) / MONTH_HOURS
    fixed = (
        (columns.ingress_usd_per_gb[offer] * hours.moved_gb + columns.source_usd_per_gb * hours.own_gb)
        * nodes
        * node_groups
        + columns.egress_usd_per_gb[offer] * export
        + columns.network_storage_usd_per_gb_month[offer] * (export + kept) * months
        + columns.committed_usd[offer] * nodes * node_groups
    )
    # What hangs on the way alone is looked up there, and taken once per row.
    penalties = np.asarray(job.techniques.penalties_usd)
    by_recipe = np.asarray([[one.uses(steps) for one in ways.recipes] for steps in (False, True)], dtype=bool)
    uses = by_recipe.reshape(2, -1, len(penalties))[(ways.accumulation > 1).astype(np.int64), ways.recipe]
    penalty = uses @ penalties
    names = market.providers
    providers = {name: index for index, name in enumerate(names)}
    start_late = once * late
    table = CandidateTable(
        jobs=tuple(jobs),
        offers=market.labels,
        providers=names,
        job=np.full(len(way), list(jobs).index(job.name), dtype=np.int64),
        offer=offer,
        provider=np.asarray([providers[o.provider] for o in market.offers], dtype=np.int64)[offer],
        recipe=recipe,
        instances=nodes * node_groups,
        gpus=gpus * node_groups,
        node_groups=np.full(len(way), node_groups, dtype=np.int64),
        start_h=once + hours.aside,
        late_start_h=start_late + hours.late_separate * late,
        run_h=run_h,
        late_h=late_h,
        fixed_usd=fixed,
        run_usd=run_usd,
        late_usd=late_usd + (late_aside * late)[:, None],
        share_low=np.where(has_od, 0.0, 1.0),
        share_high=np.where(no_spot, 0.0, 1.0),
        uses=uses.take(way, axis=0),
        penalty_usd=penalty[way],
        fit_gib=ways.fit_gib[way],
        usable_gib=ways.usable_gib[way],
        rented_h=(start_late * node_groups + hours.group_run * stretch * late) * nodes,
    )
    return table, hours


def _with_managed(made: JobCandidates, market: Market, library: Library) -> JobCandidates:
    """The candidates with those of managed services that take the network, after all others."""
    extra: ManagedRows | None = managed_rows(made, market, library)
    if extra is None:
        return made
    return replace(
        made,
        managed=extra.recipes,
        table=concatenate([made.table, extra.table]),
        configuration=np.concatenate([made.configuration, np.full(len(extra.table), -1)]),
        placement=np.concatenate([made.placement, extra.placement]),
        hours=made.hours.joined(extra.hours),
        placements=extra.placements,
    )
