"""Candidates that rent machines: configurations on offers, and the hours of each stage there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from planner.arrays import Flags, Floats, Integers
from planner.candidates.job_candidates import OfferColumns
from planner.candidates.market import Market, disk_gb
from planner.candidates.run_hours import RunHours
from planner.candidates.stage_hours import (
    Placement,
    RowHours,
    find_fitting,
    ingested_tokens,
    node_group_ratios,
    prepared_gb,
)
from planner.configurations.fitting_cells import JobConfigurations
from planner.configurations.grid import Configurations
from planner.estimates.stage_seconds import boot_seconds, ingest_seconds, machine_cores, transfer_seconds
from planner.estimates.work import trial_work
from planner.scenario.job import Job
from planner.units import GB, HOUR

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
                [(each.stage, each.hours, each.late_hours) for each in placement.separate_stages]
                for placement in placements
            ]
            return [(placement.adapts, *found) for placement, found in zip(placements, stages, strict=True)]

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
            found = self.run_hours.interrupt(
                run[has],
                self.configuration[has],
                self.instances[has],
                restart[has],
                columns.mean_up_hours[offer],
                columns.availability[offer],
            )
            # Where a restart takes longer than most up-times, the run never ends: no market to plan on.
            ends = found.wall < MAX_WALL_FACTOR * np.maximum(run[has], restart[has])
            paid[has], wall[has] = (np.where(ends, hours, np.nan) for hours in (found.paid, found.wall))
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
