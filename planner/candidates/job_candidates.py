"""All candidates of one job: numbers, what stands behind the rows, offers as columns, and managed services."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from planner.arrays import CandidateTable, Flags, Floats, Integers, distinct, distinct_names, without_last_bits
from planner.candidates.market import (
    Market,
    SpotMarket,
    data_egress_usd_per_gb,
    data_transfer_seconds,
    disk_rate,
    download_rate,
    fee_usd,
    offer_steps,
    tie_steps,
)
from planner.candidates.run_hours import Evidence, Placement, RowHours, RunHours, node_group_ratios
from planner.configurations.coefficients import recipe_coefficients
from planner.configurations.grid import Configurations, JobShape, evaluated_tokens, technique_penalties, trained_gb
from planner.configurations.recipe import Recipe, is_allowed
from planner.estimates.billing import managed_tokens_per_second, managed_usd
from planner.estimates.stage_seconds import retained_gb_months, transfer_seconds
from planner.estimates.uncertainty import confidence_factor
from planner.estimates.work import trial_work
from planner.library.schema import Architecture, Library
from planner.scenario.job import Job
from planner.scenario.offer import FEE_COUNTS, FEES, FeeCount, Offer, usd_above_term
from planner.spot.policy_cache import PolicyCache
from planner.units import GB, HOUR, MONTH_HOURS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from planner.configurations.fitting_cells import JobConfigurations


RECIPES = {
    method: Recipe(method, 16, "none", "managed", "none", "none", "managed", "managed", framework="managed")
    for method in ("lora", "full")
}
"""What a service trains; it does not state how."""
SIZING_RECIPES = {
    method: Recipe(method, 16, "none", "bf16_mixed", "none", "none", "flash", "adamw") for method in ("lora", "full")
}
"""Recipes whose result has the size of the service's."""


@dataclass(frozen=True)
class ManagedRun:
    """One job at one service, all its trials: hours on the wall clock, dollars, data."""

    method: str
    tokens_per_second: float  # images, for a diffusion model
    assumed_speed: bool
    hours: float  # of training
    late_hours: float  # at the confidence, without early stopping
    usd: float
    late_usd: float
    late: float  # factor on hours at the confidence
    sigma: float
    tokens: float  # billed, of all trials
    late_tokens: float  # without early stopping
    upload_hours: float  # the user's data on their way in, once for all trials
    export_hours: float  # the result on its way out; 0 where the job has no such stage
    data_gb: float
    own_gb: float  # of `data_gb`, what the storage of the user charges for
    result_gb: float
    kept_gb_months: float  # of the result after the run
    moved_usd: float  # what moves and is kept, as far as the fees are known


@dataclass(frozen=True)
class ManagedServiceCandidates:
    """The managed services that take the model of a job: one candidate each, columns (m,)."""

    job: Job
    offer: Integers  # places in the market
    runs: tuple[ManagedRun, ...]

    @property
    def recipes(self) -> tuple[Recipe, ...]:
        """Return the recipes of the services, each once."""
        return tuple(RECIPES[method] for method in dict.fromkeys(run.method for run in self.runs))

    def run_at(self, offer: int) -> ManagedRun:
        """Return the run at the service of an offer, given by its place in the market."""
        return self.runs[int(np.flatnonzero(self.offer == offer)[0])]

    def table(self, market: Market, jobs: Sequence[str], first_recipe: int) -> CandidateTable:
        """Return the table of the services; `first_recipe` is the index of the first of `recipes`."""
        job, count, recipes = self.job, len(self.runs), self.recipes
        zeros, no_gpus = np.zeros(count), np.zeros(count, dtype=np.int64)
        once = self._column("upload_hours") + self._column("export_hours")
        uses = np.asarray([RECIPES[run.method].uses(False) for run in self.runs], dtype=bool)
        at_once = np.full(count, job.trials.at_once, dtype=np.int64)
        return CandidateTable(
            **market.identity_columns(jobs, job.name, self.offer),
            recipe=np.asarray([first_recipe + recipes.index(RECIPES[run.method]) for run in self.runs], dtype=np.int64),
            instances=at_once,
            gpus=no_gpus,
            node_groups=at_once,
            start_h=once,
            late_start_h=once * self._column("late"),
            run_h=self._on_demand("hours"),
            late_h=self._on_demand("late_hours"),
            fixed_usd=self._column("moved_usd"),
            run_usd=self._on_demand("usd"),
            late_usd=self._on_demand("late_usd"),
            share_low=zeros,
            share_high=zeros,
            uses=uses,
            penalty_usd=uses @ job.techniques.penalties_usd,
            tie_steps=tie_steps(offer_steps([market.offers[place] for place in self.offer]), no_gpus + Evidence.PRIOR),
            lossiness=np.zeros(count, dtype=np.int64),
            fit_gib=zeros,
            usable_gib=zeros,
            rented_h=zeros,
            term_usd=np.zeros((count, 3)),
        )

    def hours(self) -> RowHours:
        """Return the hours of the services by stage: upload, training, export; there is no spot market."""
        zeros, nans = np.zeros(len(self.runs)), np.full(len(self.runs), np.nan)
        hours, late = self._column("hours"), self._column("late")
        columns: dict[str, Any] = {field.name: zeros for field in fields(RowHours)}
        columns |= dict.fromkeys(("spot_paid", "spot_wall", "late_spot_wall", "budget_spot_wall"), nans)
        columns |= {
            "start": self._column("upload_hours"),
            "export": self._column("export_hours"),
            "training": hours,
            "group_run": hours,
            "stretch": self._column("late_hours") / late / hours,
            "late": late,
            "budget": late,  # a service is not paid by the hour
            "node_group_ratios": node_group_ratios(self.job),
        }
        return RowHours(**columns)

    def _column(self, name: str) -> Floats:
        """Return a field of the runs (m,)."""
        return np.asarray([getattr(run, name) for run in self.runs], dtype=float)

    def _on_demand(self, name: str) -> Floats:
        """Return a field of the runs per market (m, 2): a service has no spot market."""
        column = self._column(name)
        return np.stack([column, np.full_like(column, np.nan)], axis=1)


def find_managed(
    job: Job, architecture: Architecture, shape: JobShape, market: Market, library: Library
) -> ManagedServiceCandidates:
    """Return the managed services of the market that take the job's model; none states a price of preference tuning."""
    offers = market.managed_services(job.kind, architecture.name) if job.tuning == "sft" else ()
    runs = [_build_run(job, architecture, shape, market.offers[place], library) for place in offers]
    return ManagedServiceCandidates(job, np.asarray(offers, dtype=np.int64), tuple(runs))


def _build_run(job: Job, architecture: Architecture, shape: JobShape, offer: Offer, library: Library) -> ManagedRun:
    """Return what the job takes and costs at the service of an offer."""
    managed = offer.managed
    if managed is None:
        raise ValueError(f"{offer.provider} is not a managed service")
    stages = library.calibrations["stages"]
    assumed_speed = managed.tokens_per_second is None
    assumed = managed_tokens_per_second(shape.network.active_parameters, stages.value("managed_flop_per_second"))
    rate = managed.tokens_per_second or assumed * shape.units_per_token
    trials = trial_work(job.trials.count, job.trials.at_once, job.trials.halving)
    tokens = (shape.tokens + evaluated_tokens(job, shape)) * shape.units_per_token
    sigma = stages.value("managed_sigma_assumed" if assumed_speed else "managed_sigma_told")
    late = float(confidence_factor(sigma, job.confidence))
    full_hours = tokens * trials.wall / rate / HOUR
    prices = (managed.usd_per_million_tokens or 0.0, managed.usd_per_run or 0.0, managed.minimum_usd)
    usd, late_usd = (
        managed_usd(tokens * trials.work * share, job.trials.count, *prices) for share in (job.early_stopping, 1.0)
    )
    return ManagedRun(
        method=managed.method,
        tokens_per_second=rate,
        assumed_speed=assumed_speed,
        hours=full_hours * job.early_stopping,
        late_hours=full_hours * late,
        usd=usd,
        late_usd=late_usd,
        late=late,
        sigma=sigma,
        tokens=tokens * trials.work * job.early_stopping,
        late_tokens=tokens * trials.work,
        **_transfer(job, architecture, shape, offer, managed.method, library),
    )


def _transfer(
    job: Job, architecture: Architecture, shape: JobShape, offer: Offer, method: str, library: Library
) -> dict[str, float]:
    """Return hours, GB and dollars of the data that go to the service, raw ones unprepared, and of the result."""
    stages = job.stages
    pull = download_rate(offer, library)
    data = job.data_gb + (stages.ingest.raw_gb if stages.ingest else 0.0)
    recipe = SIZING_RECIPES[method]
    made = trained_gb(recipe, recipe_coefficients(recipe, job, shape.network, library), architecture)
    # A service hands over 16-bit weights where more than adapters are asked for: it quantises nothing.
    result = made if stages.export is None or stages.export.form == "adapters" else architecture.download_gb
    kept = float(retained_gb_months(result, stages.retention_hours or 0.0))
    egress = data_egress_usd_per_gb(job, offer)
    line = pull
    if stages.export is not None and stages.export.gb_per_second is not None:
        line = min(pull, stages.export.gb_per_second * GB)
    usd = data * (egress + fee_usd(offer, "GB in")) + result * fee_usd(offer, "GB out")
    return {
        "upload_hours": data_transfer_seconds(data, job, offer, pull) / HOUR,
        "export_hours": float(transfer_seconds(result * GB, line)) / HOUR if stages.export is not None else 0.0,
        "data_gb": data,
        "own_gb": data if egress else 0.0,
        "result_gb": result,
        "kept_gb_months": kept,
        "moved_usd": usd + kept * fee_usd(offer, "GB kept"),
    }


# The offers of a market as columns of numbers.


@dataclass(frozen=True)
class OfferColumns:
    """Offers as columns (offers,): nan where a price does not exist, 0 for an unknown fee, which the bill names."""

    on_demand_usd: Floats  # of one more hour, with its fees: under a commitment these alone, the hour is paid for
    spot_usd: Floats  # likewise; nan without a spot market
    committed_usd: Floats  # per instance, however little it is used
    fee_usd: Floats  # (counts, offers): dollars per unit of each count of `FEE_COUNTS`
    source_usd_per_gb: float  # egress of the storage of the user's data
    at_data: Flags  # in the region of the user's data
    pull_bytes_per_second: Floats
    disk_bytes_per_second: Floats
    cores: Floats  # per instance; nan: unknown
    ram_gb: Floats  # nan: unknown
    availability: Floats
    mean_up_hours: Floats
    step_hours: Floats
    minimum_hours: Floats
    term_hours: Floats  # of a commitment, which may be renewed; inf without one
    use_hours: Floats  # longest run: a block, the horizon of a purchase; inf without one
    after_usd: Floats  # of an hour after the term, with its fees above those of an hour in it; nan: it is renewed
    after_step_hours: Floats
    after_minimum_hours: Floats
    lead_hours: Floats  # from the order to the machine
    committed_hours: Floats  # prepaid machine hours that are left; inf where that is no limit
    export_seconds: Floats  # (2, offers): merging and quantising what full training, or adapters, leave
    lacks_export_memory: Flags  # (2, offers): known to have too little memory for that
    tie_steps: Integers  # (offers, 3): what ties are decided by, see `planner.candidates.market`

    @classmethod
    def of(
        cls, market: Market, job: Job, spot: Sequence[SpotMarket], export: tuple[Floats, Flags], library: Library
    ) -> OfferColumns:
        """Return the columns of the offers of a market, given the spot market and the hours of the export of each."""
        offers, after = market.offers, market.after_term
        source = job.stages.transfer

        def column(values: Sequence[float | None], missing: float = np.nan) -> Floats:
            """Return values as a column, with `missing` in place of None."""
            return np.asarray([missing if value is None else value for value in values], dtype=float)

        fee_usd = np.zeros((len(FEE_COUNTS), len(offers)))
        for fee in FEES:
            fee_usd[FEE_COUNTS.index(fee.counts)] += column([fee.rate(o.fees) for o in offers], 0.0)
        hourly = fee_usd[FEE_COUNTS.index("machine hours")]
        return cls(
            on_demand_usd=column([0.0 if o.commitment else o.usd_per_hour for o in offers]) + hourly,
            spot_usd=column([o.spot_usd_per_hour if o.has_spot else None for o in offers]) + hourly,
            committed_usd=column([o.committed_usd for o in offers]),
            fee_usd=fee_usd,
            source_usd_per_gb=source.egress_usd_per_gb if source else 0.0,
            at_data=np.asarray([bool(source and o.is_in(source.region)) for o in offers], dtype=bool),
            pull_bytes_per_second=column([download_rate(o, library) for o in offers]),
            disk_bytes_per_second=column([disk_rate(o, library) for o in offers]),
            cores=column([o.cpu_cores for o in offers]),
            ram_gb=column([o.ram_gb for o in offers]),
            availability=column([s.availability for s in spot]),
            mean_up_hours=column([s.mean_up_hours for s in spot]),
            step_hours=column([o.billing.step_seconds for o in offers]) / HOUR,
            minimum_hours=column([o.billing.minimum_hours for o in offers]),
            term_hours=column([o.commitment.term_hours if o.commitment else None for o in offers], np.inf),
            use_hours=column([o.use_hours for o in offers], np.inf),
            after_usd=column([None if a is None else usd_above_term(o, a) for o, a in zip(offers, after, strict=True)]),
            after_step_hours=column([a.billing.step_seconds if a else HOUR for a in after]) / HOUR,
            after_minimum_hours=column([a.billing.minimum_hours if a else 0.0 for a in after]),
            lead_hours=column([o.lead_hours for o in offers]),
            committed_hours=column([o.committed_hours for o in offers], np.inf),
            export_seconds=export[0],
            lacks_export_memory=export[1],
            tie_steps=offer_steps(offers),
        )

    def differ_in_prices_alone(self, other: OfferColumns) -> bool:
        """Return whether hours on the offers are those on the offers of `other`: other prices, on the same markets."""
        for column in fields(self):
            mine, theirs = (np.asarray(getattr(columns, column.name), dtype=float) for columns in (self, other))
            if "usd" in column.name:  # of a price hours depend only on whether there is one
                mine, theirs = np.isnan(mine), np.isnan(theirs)
            if not np.array_equal(mine, theirs, equal_nan=True):
                return False
        return True

    def fees_usd(self, offer: Integers, amounts: Mapping[FeeCount, Floats]) -> Floats:
        """Return the dollars (n,) of the fees of offers (n,) for amounts (n,) of what they count."""
        usd = np.zeros(len(offer))
        for count, amount in amounts.items():
            usd = usd + self.fee_usd[FEE_COUNTS.index(count), offer] * amount
        return usd

    def storage_usd_per_hour(self, offer: Integers, stored_gb: Floats) -> Floats:
        """Return the dollars (n,) per hour of storing `stored_gb` (n,) at offers (n,)."""
        usd_per_gb_hour = self.fee_usd[FEE_COUNTS.index("GB on disk"), offer] / MONTH_HOURS
        return np.asarray(usd_per_gb_hour * stored_gb, dtype=float)


@dataclass(frozen=True)
class JobCandidates:
    """Every candidate of one job on every offer: those that rent machines, then those of managed services."""

    job: Job
    architecture: Architecture
    physics: JobConfigurations
    table: CandidateTable  # limits are not applied, spot shares not cut
    configuration: Integers  # row -> index into physics.ways; of no use where `is_managed_service`
    placement: Integers  # row -> index into `placements`
    hours: RowHours  # per row
    run_hours: RunHours  # per configuration
    placements: tuple[Placement, ...]  # the last one has no stage on a separate machine
    spot: tuple[SpotMarket, ...]  # per offer of the market
    columns: OfferColumns
    headroom: float | None
    managed: ManagedServiceCandidates
    policies: PolicyCache = field(default_factory=PolicyCache, compare=False)  # of spot markets, computed when needed
    kept: dict[tuple[object, ...], Any] = field(default_factory=dict, compare=False)  # follows from job and physics
    offers: tuple[Offer, ...] = field(default=(), compare=False)  # of the market

    @property
    def recipes(self) -> tuple[Recipe, ...]:
        """Return the recipes that `table.recipe` indexes."""
        return self.physics.ways.recipes + self.managed.recipes

    @cached_property
    def is_managed_service(self) -> Flags:
        """Return the rows (n,) that a managed service trains; all others rent machines."""
        return np.isin(self.table.offer, self.managed.offer)

    @cached_property
    def observed(self) -> Flags:
        """Return the rows (n,) whose hours are those of an observed run."""
        is_observed = np.zeros(len(self.table), dtype=bool)
        machines = ~self.is_managed_service
        is_observed[machines] = self.run_hours.observed[self.configuration[machines]]
        return is_observed

    def moved(self, row: int) -> tuple[float, float, float]:
        """Return what a move to another region copies: GB of the checkpoint and of the data, and bytes per second."""
        saved = self.run_hours.saved_bytes[self.configuration[row]]
        return float(saved) / GB, self.job.data_gb, float(self.columns.pull_bytes_per_second[self.table.offer[row]])

    def batch(self, row: int) -> tuple[int, int]:
        """Return micro-batch and accumulation steps of a row; 0 and 0 where a managed service chooses them."""
        if self.is_managed_service[row]:
            return 0, 0
        ways, configuration = self.physics.ways, int(self.configuration[row])
        return int(ways.micro_batch[configuration]), int(ways.accumulation[configuration])

    def placement_of(self, row: int) -> Placement:
        """Return the placement of a row; an observed run and a managed service have no separate machines."""
        return self.placements[int(self.placement[row])]

    def resume_hours(self, row: int) -> float:
        """Return the expected hours on the machine that a pause of a run costs.

        A checkpoint is written before it, and the run starts once more after it.
        """
        nodes = int(self.table.instances[row]) // self.hours.node_groups
        write = self.run_hours.write_seconds(int(self.configuration[row]), nodes)
        return float(self.hours.restart[row]) + float(write) / HOUR

    def hours_rented(self) -> Floats:
        """Return the hours (n,) on demand that one node group is rented for, at the confidence of the job."""
        return (self.hours.once + self.hours.run * self.hours.stretch) * self.hours.late

    def lacks_ram(self) -> Flags:
        """Return the rows (n,) that prepare data on a training machine known to have too little memory for that.

        An observed run did work, and a managed service has no machine of ours.
        """
        wanted = self.job.stages.ingest
        if wanted is None:
            return np.zeros(len(self.table), dtype=bool)
        here = np.asarray([placement.ingest is None for placement in self.placements], dtype=bool)[self.placement]
        small = self.columns.ram_gb[self.table.offer] < wanted.ram_gb  # nan, which is unknown, is not
        return np.asarray(here & small & ~self.observed & ~self.is_managed_service, dtype=bool)

    def lacks_export_memory(self) -> Flags:
        """Return the rows (n,) whose own machine is known to have too little memory to merge or quantise the result."""
        if not self.columns.lacks_export_memory.any():
            return np.zeros(len(self.table), dtype=bool)
        here = np.asarray([placement.export is None for placement in self.placements], dtype=bool)[self.placement]
        adapts = np.asarray([recipe.method == "lora" for recipe in self.recipes], dtype=np.int64)[self.table.recipe]
        small = self.columns.lacks_export_memory[adapts, self.table.offer]
        return np.asarray(here & small & ~self.observed & ~self.is_managed_service, dtype=bool)

    def exports_nowhere(self) -> bool:
        """Return whether every row that the job's methods allow lacks the memory to export its result."""
        allowed = np.asarray([is_allowed(recipe, self.job) for recipe in self.recipes], dtype=bool)[self.table.recipe]
        return bool(allowed.any() and self.lacks_export_memory()[allowed].all())

    def burden(self) -> Floats:
        """Return `burden_of` all configurations."""
        ways = self.physics.ways
        return burden_of(ways, self.run_hours, technique_penalties(self.job, ways))

    def without_hours_limit(self) -> JobCandidates:
        """Return the same candidates where every offer has as many prepaid hours left as needed."""
        endless = np.full_like(self.columns.committed_hours, np.inf)
        return replace(self, columns=replace(self.columns, committed_hours=endless))

    def rows(self, which: Integers | Flags) -> JobCandidates:
        """Return the same job with the rows that a mask or an index array selects."""
        return replace(
            self,
            table=self.table.rows(which),
            configuration=self.configuration[which],
            placement=self.placement[which],
            hours=self.hours.rows(which),
        )

    def with_used_configurations(self) -> JobCandidates:
        """Return the same rows with no more configurations than they have: most are worse on their own machine."""
        runs, configuration = ~self.is_managed_service, self.configuration.copy()
        used, configuration[runs] = distinct(self.configuration[runs])
        physics = replace(self.physics, ways=self.physics.ways.rows(used))
        return replace(self, physics=physics, configuration=configuration, run_hours=self.run_hours.rows(used))


def burden_of(ways: Configurations, run: RunHours, penalty_usd: Floats) -> Floats:
    """Return all that hours and dollars of configurations on one machine depend on, (k, n); less is never worse."""
    elsewhere = run.training_hours + run.checkpoint_hours  # the run where another machine evaluates
    hours = elsewhere, elsewhere + run.evaluation_hours, run.reload_hours
    restarts = (
        run.load_seconds,
        run.latent_hours,
        run.confidence_factor,
        run.budget_factor,
        run.exposure_hours(np.arange(len(ways))),
        run.saved_bytes,
        ~run.observed,
        run.evidence,
    )
    begins_again = [not recipe.resumes for recipe in ways.recipes]  # after a loss, so that spot is no choice
    sizes = run.trained_gb, run.export_gb, run.kept_gb, run.adapts, run.latent_gb
    # What rounds never outdoes an equal configuration that does not.
    of_recipe = np.asarray([*sizes, begins_again, ways.lossiness])[:, ways.recipe]
    return np.stack([*hours, *restarts, *of_recipe, penalty_usd])


def kept_undominated(kept: dict[tuple[object, ...], Any], job: Job, ways: Configurations, run: RunHours) -> Flags:
    """Return `undominated_on_machine` of all configurations, found once for a plan and what it is compared with."""
    key = ("undominated", job.techniques.penalties_usd)
    if key not in kept:
        kept[key] = undominated_on_machine(ways, burden_of(ways, run, technique_penalties(job, ways)))
    return np.asarray(kept[key])


def undominated_on_machine(ways: Configurations, burden: Floats) -> Flags:
    """Return the configurations (n,) that no other of their machine and method is nowhere worse than.

    The others are joined with no offer: on none and at no spot share is one of them the best. Methods are compared
    apart, because a job allows or excludes the whole of one. Of equal ones that with the most free memory stays.

    Parameters
    ----------
    burden
        What `burden_of` returns, (k, n).
    """
    burden = burden[(burden != burden[:, :1]).any(axis=1)]  # what is the same everywhere tells none apart
    burden = without_last_bits(burden)  # which of two equal ones stays must not depend on the processor
    names, label = distinct_names([recipe.method_label for recipe in ways.recipes])
    group = ways.machine * len(names) + label[ways.recipe]
    left = np.flatnonzero(~_beaten_by_fastest(group, burden))
    left = left[np.lexsort((without_last_bits(ways.fit_gib - ways.usable_gib)[left], group[left]))]
    keep = np.zeros(len(ways), dtype=bool)
    _, starts, sizes = np.unique(group[left], return_index=True, return_counts=True)
    for size in set(sizes.tolist()):  # all groups of one size at once: (groups, size, size)
        members = left[starts[sizes == size][:, None] + np.arange(size)]
        no_worse = np.ones((len(members), size, size), dtype=bool)
        better = no_worse & np.triu(np.ones((size, size), dtype=bool), 1)  # the first, if nothing else differs
        for figures in burden[:, members]:
            no_worse &= figures[:, :, None] <= figures[:, None, :]
            better |= figures[:, :, None] < figures[:, None, :]
        keep[members] = ~np.any(no_worse & better, axis=1)
    return keep


def _beaten_by_fastest(group: Integers, burden: Floats) -> Flags:
    """Return the configurations (n,) that are in nothing better than the fastest of their group, and worse somewhere.

    These are most of them, found without a comparison of every pair.
    """
    order = np.lexsort((*burden[::-1], group))
    _, first, place = np.unique(group[order], return_index=True, return_inverse=True)
    fastest = order[first[place]]
    beaten = np.zeros(len(group), dtype=bool)
    no_better, worse = burden[:, order] >= burden[:, fastest], burden[:, order] > burden[:, fastest]
    beaten[order] = np.all(no_better, axis=0) & np.any(worse, axis=0)
    return beaten
