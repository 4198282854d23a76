"""Every candidate of a job: configurations joined with offers and priced, and frameworks to compare a plan with."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from planner import generation
from planner.arrays import ON_DEMAND, CandidateTable, Flags, Floats, Integers, concatenate, distinct
from planner.candidates.job_candidates import (
    JobCandidates,
    OfferColumns,
    burden_of,
    find_managed,
    kept_undominated,
    undominated_on_machine,
)
from planner.candidates.market import Market, disk_gb, spot_markets, tie_steps
from planner.candidates.run_hours import Placement, RowHours, RunHours, node_group_ratios
from planner.candidates.stage_hours import (
    enumerate_placements,
    export_columns,
    find_fitting,
    ingested_tokens,
    place_exports,
    prepared_gb,
)
from planner.candidates.training_hours import compute_run_hours
from planner.configurations.fitting_cells import JobConfigurations, enumerate_configurations
from planner.configurations.grid import (
    Configurations,
    concatenate_configurations,
    shape_of,
    technique_penalties,
    technique_uses,
)
from planner.configurations.recipe import Machine, allows_full, is_allowed
from planner.estimates.billing import count_terms, round_up_hours
from planner.estimates.stage_seconds import boot_seconds, ingest_seconds, machine_cores, transfer_seconds
from planner.estimates.work import trial_work
from planner.library.schema import Architecture, Library
from planner.scenario.inference_job import InferenceJob
from planner.scenario.job import DEFAULT_CONFIDENCE, Confidence, Job
from planner.scenario.job_stages import Stages, Trials
from planner.scenario.offer import FeeCount
from planner.spot.policy_cache import PolicyCache
from planner.units import GB, HOUR, MONTH_HOURS
from planner.watch import keep_going

if TYPE_CHECKING:
    from collections.abc import Sequence


MAX_WALL_FACTOR = 1000.0
"""Wall hours on spot over those of the run above which spot is never chosen; keeps the numbers of the program small."""
DEFAULT_RAM_GB = 32.0
"""Memory of a machine whose offer does not state it: the cheapest ones have at least this."""


@dataclass(frozen=True)
class DataAmounts:
    """GB (n,) of data by their way onto the disk of every instance."""

    ingested_here: Floats  # 1 where the training machine prepares the data, else 0
    raw: Floats  # raw data
    own: Floats  # what leaves the storage of the user: training data and raw data
    arriving: Floats  # what a separate machine has prepared
    prepared: float  # what preparing the data makes


@dataclass(frozen=True)
class MachineCandidates:
    """Index columns (n,): configuration of the job, offer that rents its machine, placement of its stages."""

    job: Job
    physics: JobConfigurations
    run_hours: RunHours
    columns: OfferColumns
    placements: tuple[Placement, ...]
    configuration: Integers
    offer: Integers
    placement: Integers

    @property
    def recipe(self) -> Integers:
        """Return the recipe (n,) of each row."""
        return self.physics.ways.recipe[self.configuration]

    @property
    def observed(self) -> Flags:
        """Return the rows (n,) whose hours are those of an observed run."""
        return self.run_hours.observed[self.configuration]

    @property
    def instances(self) -> Integers:
        """Return the instances (n,) of one node group."""
        return self._of_machine([machine.instances for machine in self.physics.ways.machines])

    @property
    def gpus(self) -> Integers:
        """Return the GPUs (n,) of one node group."""
        return self._of_machine([machine.gpus for machine in self.physics.ways.machines])

    def _of_machine(self, values: Sequence[int]) -> Integers:
        """Return the value (n,) of the machine of each row."""
        return np.asarray(values, dtype=np.int64)[self.physics.ways.machine[self.configuration]]

    def of_placement(self, values: Sequence[float]) -> Floats:
        """Return the value (n,) of the placement of each row."""
        return np.asarray(values, dtype=float)[self.placement]

    def has_hours_of(self, other: MachineCandidates) -> bool:
        """Return whether each row is that of `other`, of the same job, with the same hours: prices alone differ."""
        rows = ("configuration", "offer", "placement")

        def timed(placements: Sequence[Placement]) -> list[tuple[object, ...]]:
            """Return what hours depend on of placements."""
            stages = [
                [(stage.stage, stage.hours, stage.late_hours) for stage in placement.separate_stages]
                for placement in placements
            ]
            return [(placement.adapts, *of_stages) for placement, of_stages in zip(placements, stages, strict=True)]

        return (
            self.physics is other.physics
            and self.run_hours is other.run_hours
            and timed(self.placements) == timed(other.placements)
            and all(np.array_equal(getattr(self, name), getattr(other, name)) for name in rows)
            and self.columns.differ_in_prices_alone(other.columns)
        )

    def hours(self) -> RowHours:
        """Return the hours and amounts of data of every candidate."""
        job, run_hours, columns = self.job, self.run_hours, self.columns
        trials = trial_work(job.trials.count, job.trials.at_once, job.trials.halving)
        observed, late = self.observed, run_hours.confidence_factor[self.configuration]
        budget = run_hours.budget_factor[self.configuration]
        data = self._data_amounts()
        restart = self._start_hours(data)
        start = np.where(observed, 0.0, restart)
        evaluates = self.of_placement([float(placement.evaluation is None) for placement in self.placements])
        training = run_hours.training_hours[self.configuration]
        evaluation = evaluates * run_hours.evaluation_hours[self.configuration]
        checkpoints = run_hours.checkpoint_hours[self.configuration]
        reload = run_hours.reload_hours[self.configuration]
        work = training + evaluation + checkpoints
        run = work + reload
        tests = job.stages.evaluation is not None and job.stages.evaluation.answers_prompts
        uncut = evaluation if tests else 0.0  # early stopping leaves out no test prompt
        stretch = ((work - uncut) / job.early_stopping + uncut + reload) / run
        spot_paid, spot_wall = self._spot_hours(run, restart)
        ratios, (export, sent, result) = node_group_ratios(job), self._exports()
        cached = np.asarray(run_hours.latent_gb)[self.recipe]
        stored = (disk_gb(run_hours.weights_gb, job.data_gb) + data.raw + data.prepared + cached) * self.instances
        return RowHours(
            start=start,
            restart=restart,
            ingest=self._ingest_hours(data) + run_hours.latent_hours[self.configuration],
            export=export,
            sent_gb=sent,
            result_gb=result,
            separate=self.of_placement([placement.total("hours") for placement in self.placements]),
            late_separate=self.of_placement([placement.total("late_hours") for placement in self.placements]),
            training=training,
            evaluation=evaluation,
            checkpoints=checkpoints,
            reload=reload,
            waiting=work * (trials.waiting / trials.wall),
            group_run=work * ((trials.work + trials.waiting) / trials.wall) + reload * run_hours.reload_share,
            stretch=stretch,
            late=late,
            budget=budget,
            switch=np.where(np.isnan(columns.on_demand_usd[self.offer]), 0.0, start),
            spot_paid=spot_paid,
            spot_wall=spot_wall,
            late_spot_wall=spot_wall * late * run_hours.wall_factor * stretch,
            budget_spot_wall=spot_wall * budget * run_hours.budget_wall_factor * stretch,
            moved_gb=run_hours.weights_gb + data.own + data.arriving,
            own_gb=np.where(columns.at_data[self.offer], 0.0, data.own),
            stored_gb=(stored + np.asarray(run_hours.kept_gb)[self.recipe]) * len(ratios),
            node_group_ratios=ratios,
        )

    def _data_amounts(self) -> DataAmounts:
        """Return the data that each candidate moves and stores."""
        job, ingest = self.job, self.job.stages.ingest
        here = self.of_placement(
            [float(ingest is not None and placement.ingest is None) for placement in self.placements]
        )
        # An observed run does not state where its data were prepared: on its own machine, if the job allows it.
        here = np.where(self.observed, float(ingest is not None and "machine" in ingest.on), here)
        raw = here * (ingest.raw_gb if ingest else 0.0)
        prepared = prepared_gb(job, self.physics.shape)
        return DataAmounts(here, raw, job.data_gb + raw, (1.0 - here) * prepared, prepared)

    def _start_hours(self, data: DataAmounts) -> Floats:
        """Return the hours (n,) of boot, image, download of weights and data, and load.

        The user's own data arrive no faster than their storage sends them, prepared data as fast as the machine pulls.
        """
        columns, run_hours, source = self.columns, self.run_hours, self.job.stages.transfer
        pull = columns.pull_bytes_per_second[self.offer]
        own_pull = pull
        if source is not None and source.gb_per_second is not None:
            own_pull = np.where(columns.at_data[self.offer], pull, np.minimum(pull, source.gb_per_second * GB))
        seconds = (
            boot_seconds(pull, run_hours.stages)
            + transfer_seconds(run_hours.weights_gb * GB, pull)
            + transfer_seconds(data.own * GB, own_pull)
            + transfer_seconds(data.arriving * GB, pull)
            + run_hours.load_seconds[self.configuration]
        )
        return np.asarray(seconds / HOUR, dtype=float)

    def _ingest_hours(self, data: DataAmounts) -> Floats:
        """Return the hours (n,) of preparing data on the training machine."""
        columns, stages, ingest = self.columns, self.run_hours.stages, self.job.stages.ingest
        if ingest is None or not data.ingested_here.any():
            return np.zeros(len(self.offer))
        cores, ram_gb = columns.cores[self.offer], columns.ram_gb[self.offer]
        seconds = ingest_seconds(
            ingest.raw_gb * GB,
            ingested_tokens(self.job, self.physics.shape),
            np.where(np.isnan(cores), machine_cores(self.gpus / self.instances, stages), cores),
            np.where(np.isnan(ram_gb), max(DEFAULT_RAM_GB, ingest.ram_gb), ram_gb) * GB,
            columns.disk_bytes_per_second[self.offer],
            stages,
        )
        return np.where(self.observed, 0.0, data.ingested_here * np.asarray(seconds, dtype=float) / HOUR)

    def _spot_hours(self, run: Floats, restart: Floats) -> tuple[Floats, Floats]:
        """Return paid and wall hours (n,) of the run on spot; nan where no market is worth planning on, or no loss is.

        A run that cannot go on from a checkpoint would begin again after each loss.
        """
        columns = self.columns
        paid, wall = np.full(len(run), np.nan), np.full(len(run), np.nan)
        resumes = np.asarray([recipe.resumes for recipe in self.physics.ways.recipes], dtype=bool)
        has = ~np.isnan(columns.spot_usd[self.offer]) & (
            resumes[self.recipe] | self.run_hours.observed[self.configuration]
        )
        if has.any():
            offer = self.offer[has]
            interrupted = self.run_hours.interrupt(
                run[has],
                self.configuration[has],
                self.instances[has],
                restart[has],
                columns.mean_up_hours[offer],
                columns.availability[offer],
            )
            # Where a restart takes longer than most up-times, the run never ends: no market to plan on.
            ends = interrupted.wall < MAX_WALL_FACTOR * np.maximum(run[has], restart[has])
            paid[has], wall[has] = (np.where(ends, hours, np.nan) for hours in (interrupted.paid, interrupted.wall))
        return paid, wall

    def _exports(self) -> tuple[Floats, Floats, Floats]:
        """Return hours of the export (n,) on the training machine, GB that leave it, and GB of the result made there.

        The result leaves no faster than its target allows; what another machine makes it from as fast as that pulls.
        """
        wanted, run_hours, columns = self.job.stages.export, self.run_hours, self.columns
        result, trained = (np.asarray(gb)[self.recipe] for gb in (run_hours.export_gb, run_hours.trained_gb))
        away = self.of_placement([float(placement.export is not None) for placement in self.placements]) > 0
        sent = np.where(away, trained, result)
        if wanted is None:
            return np.zeros(len(self.offer)), sent, result
        line = columns.pull_bytes_per_second[self.offer]
        if wanted.gb_per_second is not None:
            line = np.where(away, line, np.minimum(line, wanted.gb_per_second * GB))
        work = columns.export_seconds[np.asarray(run_hours.adapts, dtype=np.int64)[self.recipe], self.offer]
        seconds = transfer_seconds(sent * GB, line) + np.where(away, 0.0, work)
        return np.where(self.observed, 0.0, np.asarray(seconds / HOUR, dtype=float)), sent, np.where(away, 0.0, result)


def join_placements(
    job: Job,
    physics: JobConfigurations,
    run_hours: RunHours,
    columns: OfferColumns,
    placements: tuple[Placement, ...],
    market: Market,
    which: Flags,
) -> MachineCandidates:
    """Return the rows of configurations x offers x placements, without the last placement, which is for observed runs.

    Observed runs have a row per placement too, all of them alike: the hours of the whole job are known.
    """
    configuration, offer = _join_offers(physics.ways, market, which)
    count = len(placements) - 1
    placement = np.tile(np.arange(count), len(configuration))
    configuration, offer = np.repeat(configuration, count), np.repeat(offer, count)
    observed = run_hours.observed[configuration]
    fits = observed | find_fitting(placements, run_hours, physics.ways.recipe[configuration], placement)
    placement = np.where(observed, count, placement)
    return MachineCandidates(
        job, physics, run_hours, columns, placements, configuration[fits], offer[fits], placement[fits]
    )


def _join_offers(ways: Configurations, market: Market, which: Flags) -> tuple[Integers, Integers]:
    """Return index pairs (configuration, offer) of offers that rent the machine of a configuration in `which`."""
    pairs = [(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))]
    chosen = np.flatnonzero(which)
    by_machine = chosen[np.argsort(ways.machine[chosen], kind="stable")]
    ends = np.searchsorted(ways.machine[by_machine], np.arange(len(ways.machines) + 1))
    for position in np.flatnonzero(np.diff(ends)).tolist():
        here = by_machine[ends[position] : ends[position + 1]]
        offers = market.offers_by_machine[ways.machines[position]]
        pairs.append((np.repeat(here, len(offers)), np.tile(offers, len(here))))
    configuration, offer = (np.concatenate(side) for side in zip(*pairs, strict=True))
    return configuration, offer


# Prices of candidates that rent machines: from hours and the terms of offers to the candidate table.
#
# Hours and dollars of one candidate (n instances per node group, k node groups, p_od and p_spot dollars an hour):
#
#     start_h    once + separate + lead   see `planner.candidates.stage_hours`
#     run_h[od]  run                      run_h[spot] = expected wall hours + one more start (the switch)
#     usd[od]    n * p_od * (k * once + machine hours of run)
#     usd[spot]  n * p_spot * (k * once + machine hours paid) + n * p_od * k * switch
#     fixed      transfer in and out, what is kept after the run, terms of commitments
#
# A run longer than the term of a commitment renews it, or goes on at the price by the hour: `count_terms`.
# Both columns of dollars also hold storage, for all hours, and stages on separate machines. Late figures are the same
# at a confidence: hours times `RowHours.late` at that of the job, dollars with the hours times `RowHours.budget` at
# that of the budget, spot waits at their own quantile. A run that is expected to stop early is taken in full.


def are_of(candidates: JobCandidates, job: Job, jobs: Sequence[str]) -> bool:
    """Return whether a job among `jobs` has these candidates on the same offers: a deadline concerns none."""
    mine, its = (compared.model_copy(update={"deadline_hours": None}) for compared in (candidates.job, job))
    return candidates.table.jobs == tuple(jobs) and mine == its


def of_job(candidates: JobCandidates, job: Job) -> JobCandidates:
    """Return the candidates with another job in place of theirs; themselves where it is equal."""
    return candidates if candidates.job == job else replace(candidates, job=job)


def of_another_job(candidates: JobCandidates) -> JobCandidates:
    """Return the candidates to compute another job from: its policies are its own, and kept as long as it."""
    return replace(candidates, policies=PolicyCache())


def hours_and_table(
    machines: MachineCandidates, market: Market, jobs: Sequence[str], before: JobCandidates | None
) -> tuple[RowHours, CandidateTable]:
    """Return hours and table of the candidates; of `before`, earlier candidates of the job, all but changed prices."""
    count = len(machines.offer)
    known = before is not None and are_of(before, machines.job, jobs)
    if before is None or not known or not machines.has_hours_of(_of(before, count)):
        hours = machines.hours()
        return hours, price_machines(machines, hours, market, jobs)
    hours, table = before.hours, before.table
    if len(table) > count:  # managed services follow
        hours, table = hours.rows(np.arange(count)), table.rows(np.arange(count))
    identity = market.identity_columns(jobs, machines.job.name, machines.offer)
    return hours, replace(table, **identity, **_dollars(machines, hours, table.run_h))


def _of(candidates: JobCandidates, count: int) -> MachineCandidates:
    """Return the first rows of a job's candidates, `count` of them, as what rents machines."""
    whole = candidates
    rows = whole.configuration[:count], whole.table.offer[:count], whole.placement[:count]
    return MachineCandidates(whole.job, whole.physics, whole.run_hours, whole.columns, whole.placements, *rows)


def price_machines(machines: MachineCandidates, hours: RowHours, market: Market, jobs: Sequence[str]) -> CandidateTable:
    """Return the table of the candidates, given their hours and the names of all jobs; spot shares are not cut."""
    ways, columns = machines.physics.ways, machines.columns
    groups, instances, late = hours.node_groups, machines.instances, hours.late
    has_on_demand, no_spot = ~np.isnan(columns.on_demand_usd[machines.offer]), np.isnan(hours.spot_wall)
    run_h = np.stack(
        [np.where(has_on_demand, hours.run, np.nan), np.where(no_spot, np.nan, hours.spot_wall + hours.switch)], axis=1
    )
    late_h = np.stack([run_h[:, ON_DEMAND] * hours.late_factor, hours.late_spot_wall + hours.switch * late], axis=1)
    lead = columns.lead_hours[machines.offer]  # nothing is paid before the machine is there
    # Rows are many times as many as configurations, which with one framework are few of all.
    chosen, of_row = distinct(machines.configuration)
    uses = technique_uses(ways, chosen)
    return CandidateTable(
        **market.identity_columns(jobs, machines.job.name, machines.offer),
        recipe=machines.recipe,
        instances=instances * groups,
        gpus=machines.gpus * groups,
        node_groups=np.full(len(machines.offer), groups, dtype=np.int64),
        start_h=hours.once + hours.separate + lead,
        late_start_h=hours.once * late + hours.late_separate * late + lead,
        run_h=run_h,
        late_h=late_h,
        **_dollars(machines, hours, run_h),
        share_low=np.where(has_on_demand, 0.0, 1.0),
        share_high=np.where(no_spot, 0.0, 1.0),
        uses=uses.take(of_row, axis=0),
        penalty_usd=(uses @ np.asarray(machines.job.techniques.penalties_usd))[of_row],
        tie_steps=tie_steps(columns.tie_steps[machines.offer], machines.run_hours.evidence[machines.configuration]),
        lossiness=ways.lossiness[machines.recipe],
        fit_gib=ways.fit_gib[machines.configuration],
        usable_gib=ways.usable_gib[machines.configuration],
        rented_h=(hours.once * late * groups + hours.group_run * hours.late_factor) * instances,
    )


def _dollars(machines: MachineCandidates, hours: RowHours, run_h: Floats) -> dict[str, Any]:
    """Return the columns of dollars: fixed, of a run expected and late, and those of commitments among them."""
    (run_usd, late_usd), term_usd = _market_usd(machines, hours, run_h), _term_usd(machines, hours)
    run_usd[:, ON_DEMAND] += term_usd[:, 1]
    late_usd[:, ON_DEMAND] += term_usd[:, 2]
    fixed_usd = _fixed_usd(machines, hours) + term_usd[:, 0]
    return {"fixed_usd": fixed_usd, "run_usd": run_usd, "late_usd": late_usd, "term_usd": term_usd}


def _term_usd(machines: MachineCandidates, hours: RowHours) -> Floats:
    """Return dollars (n, 3) of reservations: of their terms, and of the hours after them, expected and late."""
    columns, offer = machines.columns, machines.offer
    instances = machines.instances * hours.node_groups
    usd = np.zeros((len(offer), 3))
    usd[:, 0] = columns.committed_usd[offer] * instances
    longer = np.flatnonzero((hours.once + hours.run * hours.stretch) * hours.late > columns.term_hours[offer])
    if len(longer):
        rows, of = hours.rows(longer), offer[longer]
        full = rows.once + rows.run * rows.stretch
        after, term = columns.after_usd[of], columns.term_hours[of]
        terms, goes_on = count_terms(rows.once + rows.run, full * rows.late, term, columns.committed_usd[of], after)
        usd[longer, 0] *= terms
        steps = columns.after_step_hours[of], columns.after_minimum_hours[of]
        for place, used in ((1, rows.once + rows.run), (2, full * rows.budget)):
            billed = round_up_hours(np.maximum(0.0, used - terms * term), *steps)
            usd[longer, place] = np.where(goes_on, billed * after * instances[longer], 0.0)
    return usd


def _market_usd(machines: MachineCandidates, hours: RowHours, run_h: Floats) -> tuple[Floats, Floats]:
    """Return dollars (n, 2) that depend on hours, if all work is done in one market: expected and late."""
    columns, late, once = machines.columns, hours.budget[:, None], hours.once[:, None]
    price = np.stack([columns.on_demand_usd[machines.offer], columns.spot_usd[machines.offer]], axis=1)
    price = price * machines.instances[:, None]
    outside = price * (hours.node_groups * once)
    outside[:, 1] += np.nan_to_num(price[:, ON_DEMAND]) * hours.switch * hours.node_groups
    run = price * np.stack([hours.group_run, hours.spot_group_paid], axis=1)
    storage = columns.storage_usd_per_hour(machines.offer, hours.stored_gb)[:, None]
    separate = machines.of_placement([placement.total("usd") for placement in machines.placements])[:, None]
    late_separate = machines.of_placement([placement.total("late_usd") for placement in machines.placements])[:, None]
    return (
        outside + run + storage * (once + run_h) + separate,
        (outside + run * hours.stretch[:, None]) * late
        + storage * (once * late + hours.budget_run)
        + late_separate * late,
    )


def _fixed_usd(machines: MachineCandidates, hours: RowHours) -> Floats:
    """Return dollars (n,) whatever the hours: transfers, and what is kept after the run."""
    columns, offer, run_hours = machines.columns, machines.offer, machines.run_hours
    instances = machines.instances * hours.node_groups
    kept = np.asarray(run_hours.kept_gb)[machines.recipe] + hours.result_gb
    months = (machines.job.stages.retention_hours or 0.0) / MONTH_HOURS
    amounts: dict[FeeCount, Floats] = {
        "GB in": hours.moved_gb * instances,
        "GB out": hours.sent_gb,
        "GB kept": kept * months,
    }
    return np.asarray(columns.fees_usd(offer, amounts) + columns.source_usd_per_gb * hours.own_gb * instances)


IGNORED_FIELDS = {
    "name": "",
    "deadline_hours": None,
    "efficiency": 1.0,
    "storage_gb_per_second": 1.0,
    "load_efficiency": 1.0,
    "data_gb": 0.0,
    "trials": Trials(),
    "early_stopping": 1.0,
    "stages": Stages(),
}
"""Fields of a job that its memory and step time do not depend on, with the value that comparisons put in.

Neither does the confidence of the deadline, while that of memory decides what fits.
"""
AMOUNTS = {"tokens": None, "samples": None, "epochs": 1.0, "steps": None}
"""Fields of work that a step does not depend on, with the value that comparisons put in."""
TIMING_FIELDS = (
    "confidence",
    "efficiency",
    "storage_gb_per_second",
    "load_efficiency",
    "trials",
    "early_stopping",
    "stages",
)
"""Those of such fields that hours depend on."""


class Margins(NamedTuple):
    """How sure memory and dollars are: what replaces the margin of the fit rule, and the confidence of the budget."""

    headroom: float | None = None  # share of memory
    budget_confidence: float = DEFAULT_CONFIDENCE


DEFAULT_MARGINS = Margins()
"""Those of a scenario that says nothing of either."""


def enumerate_candidates(
    job: Job,
    architecture: Architecture,
    market: Market,
    jobs: Sequence[str],
    library: Library,
    margins: Margins = DEFAULT_MARGINS,
    before: JobCandidates | None = None,
) -> JobCandidates:
    """Return every candidate of the job on every offer of the market; `screen` applies limits and deadline.

    Raises ScenarioError for a stage that no offer can run.

    Parameters
    ----------
    jobs
        Names of all jobs of the scenario, so that the tables of several jobs can be concatenated.
    margins
        What replaces the margin of the fit rule, and the probability with which the late dollars are kept.
    before
        Earlier candidates of the job; what still applies is not computed again.
    """
    keep_going()
    if not job.trains:
        market = generation.market_of(market)
    physics, run_hours = _reuse_or_compute(job, architecture, market.distinct_machines, library, margins, before)
    earlier = enumerate_placements(job, architecture, physics.shape, market, library)
    placements = (*place_exports(earlier, job, architecture, run_hours, market, library), Placement())
    same_rows = before and before.offers is market.offers and before.placements == placements
    if before and same_rows and before.run_hours is run_hours and are_of(before, job, jobs):
        return of_job(before, job)
    spot = spot_markets(market.offers, library)
    columns = OfferColumns.of(market, job, spot, export_columns(job, market.offers, library), library)
    kept = before.kept if before is not None and run_hours is before.run_hours else {}
    which = kept_undominated(kept, job, physics.ways, run_hours)
    machines = join_placements(job, physics, run_hours, columns, placements, market, which)
    managed = find_managed(job, architecture, physics.shape, market, library)
    hours, table = hours_and_table(machines, market, jobs, before)
    if count := len(managed.offer):
        table = concatenate([table, managed.table(market, jobs, len(physics.ways.recipes))])
        hours = hours.joined(managed.hours())
    return JobCandidates(
        job,
        architecture,
        physics,
        table,
        np.append(machines.configuration, np.full(count, -1)),
        np.append(machines.placement, np.full(count, len(placements) - 1)),
        hours,
        run_hours,
        placements,
        spot,
        columns,
        margins.headroom,
        managed,
        before.policies if before is not None else PolicyCache(),
        kept,
        market.offers,
    )


def _reuse_or_compute(
    job: Job,
    architecture: Architecture,
    machines: tuple[Machine, ...],
    library: Library,
    margins: Margins,
    before: JobCandidates | None,
) -> tuple[JobConfigurations, RunHours]:
    """Return the configurations of the job and their hours, from `before` as far as the job has not changed."""
    run_hours, tried = None, None  # pages are tried only where full training is allowed
    if before is not None and before.headroom == margins.headroom:
        tried = _known_physics(before, job, architecture, machines)
    if before is not None and tried is not None and allows_full(before.job) == allows_full(job):
        physics, has_same = before.physics, before.job.work == job.work
        if not has_same:
            physics = replace(physics, shape=shape_of(job, architecture))
        has_same &= before.run_hours.budget_confidence == margins.budget_confidence and _has_same_hours(before.job, job)
        run_hours = before.run_hours if has_same else None
    else:
        physics = _configurations(job, architecture, machines, library, margins.headroom, tried)
    return physics, run_hours or _hours(job, architecture, physics, library, margins.budget_confidence)


def _configurations(
    job: Job,
    architecture: Architecture,
    machines: Sequence[Machine],
    library: Library,
    headroom: float | None,
    tried: JobConfigurations | None,
) -> JobConfigurations:
    """Return the configurations of a job of either form, from those that differ in no more than their pages."""
    if isinstance(job, InferenceJob):
        return generation.enumerate_replicas(job, architecture, machines, library, headroom)
    return enumerate_configurations(job, architecture, machines, library, headroom, before=tried)


def _hours(
    job: Job, architecture: Architecture, physics: JobConfigurations, library: Library, budget_confidence: float
) -> RunHours:
    """Return the hours of the configurations of a job of either form."""
    if isinstance(job, InferenceJob):
        return generation.compute_replica_hours(job, architecture, physics, library, budget_confidence)
    return compute_run_hours(job, architecture, physics, library, budget_confidence)


def _known_physics(
    before: JobCandidates, job: Job, architecture: Architecture, machines: tuple[Machine, ...]
) -> JobConfigurations | None:
    """Return the configurations of `before` where memory and step times are those of the job, but for its pages.

    The amount of work is no part of them. None where they differ.
    """
    if before.architecture != architecture or before.physics.machines != machines:
        return None
    amounts = {} if _counts_work(job, architecture) or _counts_work(before.job, architecture) else AMOUNTS
    # Observed runs replace the allowed configurations; without them every method is enumerated anyway.
    open_ = {} if job.measured or before.job.measured else {"method": None, "weight_bits": None}

    def essence(given: Job) -> Job:
        """Return the job with the same value in all fields that do not matter."""
        techniques = given.techniques.model_copy(update={"penalty_usd": {}, **open_})
        confidence = given.confidence_given.model_copy(update={"deadline": 0.5})
        update = {**IGNORED_FIELDS, "confidence_given": confidence, "techniques": techniques}
        return given.model_copy(update=update | {"work": given.work.model_copy(update=amounts)})

    return before.physics if essence(before.job) == essence(job) else None


def _counts_work(job: Job, architecture: Architecture) -> bool:
    """Return whether step times depend on the amount of work: of answers, observed hours and cached latents they do."""
    return not job.trains or bool(job.measured) or architecture.image is not None


def _has_same_hours(before: Job, job: Job) -> bool:
    """Return whether hours of the configurations are those of `before`."""
    return all(getattr(before, field) == getattr(job, field) for field in TIMING_FIELDS)


def candidates_of_frameworks(
    candidates: JobCandidates,
    frameworks: tuple[str, ...],
    gpu: str,
    market: Market,
    library: Library,
    confidence: Confidence | None = None,
) -> JobCandidates:
    """Return the candidates on one GPU that may be the best under each framework, whether the job uses it or not.

    `confidence` replaces that of the job.
    """
    update = {"framework": frameworks, **({} if confidence is None else {"confidence_given": confidence})}
    job = candidates.job.model_copy(update=update)
    # Of a job with another deadline, or within another budget, they are the same: only the screening reads these.
    key, same = ("candidates", frameworks, gpu, confidence), job.model_copy(update={"deadline_hours": None})
    given, columns, made = candidates.kept.get(key, (None, None, {}))
    if columns is not candidates.columns or given != same:
        made = _made_for_frameworks(candidates, job, frameworks, gpu, market, library)
        candidates.kept[key] = same, candidates.columns, made
    return replace(candidates, job=job, kept={}, **made)


def _made_for_frameworks(
    candidates: JobCandidates, job: Job, frameworks: tuple[str, ...], gpu: str, market: Market, library: Library
) -> dict[str, Any]:
    """Return what differs for a job of some frameworks on one GPU, by the name of the field."""
    parts = [_best_ways(candidates, job, framework, gpu, market, library) for framework in frameworks]
    physics = replace(candidates.physics, ways=concatenate_configurations([ways for ways, _ in parts]))
    run_hours = _joined([hours for _, hours in parts])
    which = np.ones(len(physics.ways), dtype=bool)
    machines = join_placements(job, physics, run_hours, candidates.columns, candidates.placements, market, which)
    hours = machines.hours()
    return {
        "physics": physics,
        "table": price_machines(machines, hours, market, candidates.table.jobs),
        "configuration": machines.configuration,
        "placement": machines.placement,
        "hours": hours,
        "run_hours": run_hours,
    }


def _best_ways(
    candidates: JobCandidates, job: Job, framework: str, gpu: str, market: Market, library: Library
) -> tuple[Configurations, RunHours]:
    """Return the configurations of one framework on one GPU that may be the best, and their hours."""
    physics, run_hours = candidates.physics, candidates.run_hours
    has_same_confidence = job.confidence_given == candidates.job.confidence_given
    if has_same_confidence and any(recipe.framework == framework for recipe in physics.ways.recipes):
        burden = candidates.burden()
        of = np.asarray([recipe.framework == framework for recipe in physics.ways.recipes], dtype=bool)[
            physics.ways.recipe
        ]
    else:
        architecture, headroom = candidates.architecture, candidates.headroom
        machines = tuple(machine for machine in market.distinct_machines if machine.gpu == gpu)
        allowed, alone = (job.techniques.method, job.techniques.weight_bits), (framework,)
        key = ("physics", framework, allowed, job.confidence_given, machines)
        if key not in candidates.kept:
            of_framework = job.model_copy(update={"framework": alone})
            configurations = enumerate_configurations(
                of_framework, architecture, machines, library, headroom, only_allowed=True
            )
            hours = compute_run_hours(of_framework, architecture, configurations, library, run_hours.budget_confidence)
            candidates.kept[key] = configurations, hours
        physics, run_hours = candidates.kept[key]
        burden = burden_of(physics.ways, run_hours, technique_penalties(job, physics.ways))
        of = np.ones(len(physics.ways), dtype=bool)
    is_used = np.asarray([is_allowed(recipe, job) for recipe in physics.ways.recipes], dtype=bool)[physics.ways.recipe]
    on_gpu = np.asarray([machine.gpu == gpu for machine in physics.ways.machines], dtype=bool)[physics.ways.machine]
    which = of & is_used & on_gpu
    which[which] = undominated_on_machine(physics.ways.rows(which), burden[:, which])
    ways, recipes = physics.ways.rows(which).with_used_lists()
    return ways, _selected(run_hours, which, recipes)


def _selected(hours: RunHours, which: Flags, recipes: Integers) -> RunHours:
    """Return the columns of some configurations, and the figures of the recipes that they use."""

    def selected(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return value[which]
        return tuple(value[place] for place in recipes.tolist()) if isinstance(value, tuple) else value

    return replace(hours, **{name: selected(value) for name, value in vars(hours).items()})


def _joined(parts: Sequence[RunHours]) -> RunHours:
    """Return the columns of the configurations of all parts of one job, and the figures of their recipes."""

    def joined(values: Sequence[Any]) -> Any:
        if isinstance(values[0], np.ndarray):
            return np.concatenate(values)
        return tuple(value for several in values for value in several) if isinstance(values[0], tuple) else values[0]

    return replace(parts[0], **{name: joined([getattr(part, name) for part in parts]) for name in vars(parts[0])})
