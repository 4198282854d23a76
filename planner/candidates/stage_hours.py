"""Hours of every candidate, stage by stage: one element per (way, offer, placement).

    once     boot, image, weights and data, load; preparing data and export where the machine does them
    run      training, evaluation on the machine, checkpoints, loads between trials: the longest chain of trials
    aside    stages on machines of their own, before and after

A gang is the machines of one run; trials side by side are several gangs.
Interruptions on spot lengthen `run`; every move to another machine costs a start again.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from planner.candidates.stage_placement import Placement, ingested_tokens, prepared_gb
from planner.estimates.time.data_stages import ingest_seconds, machine_cores, merge_seconds, upload_seconds
from planner.estimates.time.stages import boot_seconds, download_seconds
from planner.estimates.trials import node_group_shares, trial_work
from planner.units import GB, HOUR

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.arrays import Flags, Floats, Integers
    from planner.candidates.offer_columns import OfferColumns
    from planner.candidates.run_hours import RunHours
    from planner.configurations.grid import JobShape
    from planner.scenario.scenario import Job

MAX_WALL_FACTOR = 1000.0
"""Wall hours on spot over those of the run from which on it is never chosen; keeps the program's numbers sane."""
DEFAULT_RAM_GB = 32.0
"""Memory of a machine that an offer says nothing about: what the cheapest ones have at least."""


@dataclass(frozen=True)
class RowHours:
    """Columns (n,): expected hours of one gang, on the wall clock, unless a name says otherwise."""

    start: Floats  # boot, image, weights and data, load; 0 where observed hours have it among them
    restart: Floats  # the same, whatever was observed: what every further start takes
    ingest: Floats  # on the training machine
    export: Floats
    aside: Floats
    late_separate: Floats  # where the run does not stop early
    training: Floats
    evaluation: Floats  # on the training machine
    checkpoints: Floats
    reload: Floats
    waiting: Floats  # machine hours of gangs that wait for the last trial of a rung, in all
    group_run: Floats  # of all gangs together: what is paid on demand for `run`
    stretch: Floats  # the run without early stopping over the run expected
    late: Floats  # factor on all hours at the asked confidence
    switch: Floats  # one more start, from spot to on demand; 0 where it is not sold on demand
    spot_paid: Floats  # of `run` on spot; nan where there is no spot market
    spot_wall: Floats
    late_spot_wall: Floats
    moved_gb: Floats  # onto every instance: weights and data
    own_gb: Floats  # of them what leaves the place where the user's data lie
    raw_gb: Floats  # raw data and what is made of them, on the disk of every instance
    node_group_ratios: tuple[float, ...]  # of `gang_run`, what each gang has over the mean of all

    @property
    def node_groups(self) -> int:
        """Runs side by side."""
        return len(self.node_group_ratios)

    def billed(
        self, share: Floats | float, late: Floats | float = 1.0, stretch: Floats | float = 1.0
    ) -> list[tuple[Floats, Floats]]:
        """Hours (n,) billed on demand and on spot at a spot share, before rounding, for each gang."""
        share = np.asarray(share, dtype=float)
        found = []
        for ratio in self.node_group_ratios:
            run, paid = (one * stretch * ratio / self.node_groups for one in (self.group_run, self.spot_group_paid))
            on_demand = (1.0 - share) * (self.once + run) + share * self.switch
            spot = np.where(share > 0, share * (self.once + paid), 0.0)
            found.append((np.asarray(on_demand * late), np.asarray(spot * late)))
        return found

    @property
    def once(self) -> Floats:
        """Hours beside the run in which the machines are rented."""
        return self.start + self.ingest + self.export

    @property
    def run(self) -> Floats:
        """Hours of the longest chain of trials on demand."""
        return self.training + self.evaluation + self.checkpoints + self.reload

    @property
    def spot_group_paid(self) -> Floats:
        """Machine hours of all gangs on spot, starts left out."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(self.spot_paid * self.group_run / self.run)

    def joined(self, other: RowHours) -> RowHours:
        """The rows of both, these first."""
        columns: dict[str, Any] = {one.name: getattr(self, one.name) for one in fields(self)}
        arrays = {name: v for name, v in columns.items() if isinstance(v, np.ndarray)}
        joined: dict[str, Any] = {name: np.concatenate([v, getattr(other, name)]) for name, v in arrays.items()}
        return replace(self, **joined)

    def rows(self, which: Integers | Flags) -> RowHours:
        """The elements that a mask or an index array names."""
        columns: dict[str, Any] = {one.name: getattr(self, one.name) for one in fields(self)}
        chosen: dict[str, Any] = {name: v[which] for name, v in columns.items() if isinstance(v, np.ndarray)}
        return replace(self, **chosen)


def row_hours(
    job: Job,
    shape: JobShape,
    running: RunHours,
    columns: OfferColumns,
    placed: Sequence[Placement],
    way: Integers,
    offer: Integers,
    placement: Integers,
    recipe: Integers,
    nodes: Integers,
    gpus: Integers,
) -> RowHours:
    """The hours of candidates: `way` of the job on `offer` with `placement`; index arrays of one shape (n,)."""
    trials = trial_work(job.trials.count, job.trials.at_once, job.trials.halving)

    def of(values: Sequence[float]) -> Floats:
        return np.asarray(values, dtype=float)[placement]

    observed = running.observed[way]
    ingest = job.stages.ingest
    here = of([float(ingest is not None and one.ingest is None) for one in placed])
    # An observed job tells no places: its data are prepared where it ran, if that is allowed.
    here = np.where(observed, float(ingest is not None and "machine" in ingest.on), here)
    evaluates = of([float(one.evaluation is None) for one in placed])
    raw = here * (ingest.raw_gb if ingest else 0.0)
    made = prepared_gb(job, shape)
    own, arriving = job.data_gb + raw, (1.0 - here) * made
    restart = start_hours(job, running, columns, own, arriving, offer, way)
    start = np.where(observed, 0.0, restart)
    prepared = np.zeros(len(way))
    if ingest is not None and here.any():
        seconds = ingest_seconds(
            ingest.raw_gb * GB,
            ingested_tokens(job, shape),
            np.where(np.isnan(columns.cores[offer]), machine_cores(gpus / nodes, running.stages), columns.cores[offer]),
            np.where(np.isnan(columns.ram_gb[offer]), max(DEFAULT_RAM_GB, ingest.ram_gb), columns.ram_gb[offer]) * GB,
            columns.disk_bytes_per_second[offer],
            running.stages,
        )
        prepared = np.where(observed, 0.0, here * np.asarray(seconds, dtype=float) / HOUR)
    parts = [running.training_hours[way], evaluates * running.evaluation_hours[way], running.checkpoint_hours[way]]
    reload = running.reload_hours[way]
    work = parts[0] + parts[1] + parts[2]
    run = work + reload
    stretch = np.where(observed, 1.0, (work / job.early_stopping + reload) / run)
    spot_paid, spot_wall, late_wall = (np.full(len(way), np.nan) for _ in range(3))
    has = ~np.isnan(columns.spot_usd[offer])
    late = running.confidence_factor[way]
    if has.any():
        which, where = way[has], offer[has]
        found = running.interrupt(
            run[has], which, nodes[has], restart[has], columns.mean_up_hours[where], columns.availability[where]
        )
        # A restart that outlasts most up-times never ends the run: that is no market to plan on.
        hopeful = found.wall < MAX_WALL_FACTOR * np.maximum(run[has], restart[has])
        spot_paid[has], spot_wall[has] = (np.where(hopeful, one, np.nan) for one in (found.paid, found.wall))
        late_wall[has] = spot_wall[has] * late[has] * running.wall_factor * stretch[has]
    return RowHours(
        start=start,
        restart=restart,
        ingest=prepared,
        export=np.where(observed, 0.0, _export_hours(job, running, columns, recipe, offer)),
        aside=np.where(observed, 0.0, of([one.hours for one in placed])),
        late_separate=np.where(observed, 0.0, of([one.late_hours for one in placed])),
        training=parts[0],
        evaluation=parts[1],
        checkpoints=parts[2],
        reload=reload,
        waiting=work * (trials.waiting / trials.wall),
        group_run=work * ((trials.work + trials.waiting) / trials.wall) + reload * running.reload_share,
        stretch=stretch,
        late=late,
        switch=np.where(np.isnan(columns.on_demand_usd[offer]), 0.0, start),
        spot_paid=spot_paid,
        spot_wall=spot_wall,
        late_spot_wall=late_wall,
        moved_gb=running.weights_gb + own + arriving,
        own_gb=np.where(columns.beside_data[offer], 0.0, own),
        raw_gb=raw + made,
        node_group_ratios=node_group_ratios(job),
    )


def node_group_ratios(job: Job) -> tuple[float, ...]:
    """What each gang is rented for over the mean of all; (1,) for one run."""
    shares = node_group_shares(job.trials.count, job.trials.at_once, job.trials.halving)
    return tuple(one * len(shares) / sum(shares) for one in shares)


def start_hours(
    job: Job,
    running: RunHours,
    columns: OfferColumns,
    own_gb: Floats,
    arriving_gb: Floats,
    offer: Integers,
    way: Integers,
) -> Floats:
    """Boot, image, download of weights and data, load.

    `own_gb` leave the place where the user's data lie, no faster than that lets them; what was prepared elsewhere
    flows as fast as the machine pulls.
    """
    pull = columns.pull_bytes_per_second[offer]
    source = job.stages.transfer
    data_pull = pull
    if source is not None and source.gb_per_second is not None:
        data_pull = np.where(columns.beside_data[offer], pull, np.minimum(pull, source.gb_per_second * GB))
    return np.asarray(
        (
            boot_seconds(pull, running.stages)
            + download_seconds(running.weights_gb * GB, pull)
            + download_seconds(own_gb * GB, data_pull)
            + download_seconds(arriving_gb * GB, pull)
            + running.load_seconds[way]
        )
        / HOUR,
        dtype=float,
    )


def _export_hours(job: Job, running: RunHours, columns: OfferColumns, recipe: Integers, offer: Integers) -> Floats:
    """The result on its way out, no faster than the machine's line and than what the job says of its goal."""
    wanted = job.stages.export
    if wanted is None:
        return np.zeros(len(offer))
    line = columns.pull_bytes_per_second[offer]
    if wanted.gb_per_second is not None:
        line = np.minimum(line, wanted.gb_per_second * GB)
    seconds = upload_seconds(np.asarray(running.export_gb)[recipe] * GB, line)
    if wanted.merged:
        lora = np.asarray(running.adapts)[recipe]
        seconds = seconds + lora * merge_seconds(running.weights_gb * GB, columns.disk_bytes_per_second[offer])
    return np.asarray(seconds / HOUR, dtype=float)
