"""Columns of hours, one element per configuration or candidate, the deadline that they keep, and separate machines."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from enum import IntEnum
from typing import Any, Literal

import numpy as np

from planner.arrays import ON_DEMAND, SPOT, CandidateTable, Flags, Floats, Integers
from planner.estimates.inputs import Numbers
from planner.estimates.stage_seconds import (
    InterruptedRun,
    NodeGroupCoefficients,
    StageCoefficients,
    checkpoint_seconds,
    interrupted_run,
    node_group_market,
)
from planner.estimates.work import node_group_shares
from planner.scenario.job import Job
from planner.scenario.offer import Offer
from planner.spot.run import checkpoint_interval, last_checkpoint_fits
from planner.spot.states import SpotStates
from planner.units import HOUR


class Evidence(IntEnum):
    """What a speed rests on, the best first."""

    OWN_RUN = 0
    PUBLISHED_RUNS = 1
    PRIOR = 2


@dataclass(frozen=True)
class RunHours:
    """Columns (configurations,): hours on demand by stage, and what a machine needs to start.

    Hours are those of the longest chain of trials, with early stopping; some columns are per recipe.
    """

    training_hours: Floats  # with goodput; as observed where the whole job was observed
    evaluation_hours: Floats  # if the training machine does it
    checkpoint_hours: Floats  # of the stage
    reload_hours: Floats  # loads of the model between trials
    reload_share: float  # loads of all node groups over those of the longest chain
    observed: Flags  # hours are those of an observed run, including its start
    evidence: Integers  # what the speed rests on, see `planner.candidates.market`
    step_seconds: Floats  # no faster than storage feeds them
    load_seconds: Floats
    sigma: Floats
    sigma_tail: Floats
    confidence_factor: Floats
    budget_factor: Floats  # the same at the confidence of the budget
    stall_seconds: Floats  # per checkpoint
    saved_bytes: Floats  # of a checkpoint that training can resume from
    disk_bytes_per_second: float  # of one instance
    trained_gb: tuple[float, ...]  # adapters, or all weights
    export_gb: tuple[float, ...]  # the result as it is exported
    latent_hours: Floats  # of encoding all images before training
    latent_gb: tuple[float, ...]  # that this leaves on the disk of every instance
    kept_gb: tuple[float, ...]  # checkpoints that stay, per node group
    adapts: tuple[bool, ...]  # trains adapters
    weights_gb: float  # that every instance downloads
    stages: StageCoefficients
    node_group: NodeGroupCoefficients
    outage_cv: float
    wall_factor: float
    budget_wall_factor: float
    budget_confidence: float

    def rows(self, which: Integers) -> RunHours:
        """Return the columns of some configurations, by their places."""
        given = ((field.name, getattr(self, field.name)) for field in fields(self))
        cut: dict[str, Any] = {name: column[which] for name, column in given if isinstance(column, np.ndarray)}
        return replace(self, **cut)

    def interrupt(
        self,
        run_hours: Numbers,
        configuration: Integers | int,
        nodes: Numbers,
        restart: Numbers,
        mean_up_hours: Numbers,
        availability: Numbers,
    ) -> InterruptedRun:
        """Return paid and wall hours of `run_hours` on spot, without the first start; all arguments broadcast."""
        market = node_group_market(mean_up_hours, availability, self.gang(nodes), self.node_group)
        stall, write = self.stall_seconds[configuration] / HOUR, self.write_seconds(configuration, nodes) / HOUR
        restart = self.lost_hours(restart, configuration)
        return interrupted_run(run_hours, restart, stall, market, self.node_group, self.outage_cv, write)

    def lost_hours(self, restart: Numbers, configuration: Integers | int) -> Any:
        """Return the hours that an interruption costs apart from checkpoints: a restart."""
        del configuration
        return restart

    def gang(self, nodes: Any) -> Any:
        """Return how many of `nodes` instances need one another: they are lost together."""
        return nodes

    def exposure_hours(self, configuration: Integers) -> Floats:
        """Return hours (n,) that make a lost machine the worse the longer they are: the stall of a checkpoint."""
        return np.asarray(self.stall_seconds[configuration] / HOUR, dtype=float)

    def checkpoints(
        self, configuration: int, nodes: int, states: SpotStates, notice_seconds: float
    ) -> tuple[float, float, bool]:
        """Return hours between checkpoints and of a full write, and whether a last one fits in the notice."""
        write = float(self.write_seconds(configuration, nodes))
        warned, share = last_checkpoint_fits(notice_seconds, write), self.node_group.interval_share_of_young
        stall = float(self.stall_seconds[configuration] / HOUR)
        return checkpoint_interval(stall, states, share, write / HOUR, warned), write / HOUR, warned

    def write_seconds(self, configuration: Integers | int, nodes: Numbers) -> Any:
        """Return the seconds to write a checkpoint from `nodes` to storage that outlives them. Arguments broadcast."""
        saved = self.saved_bytes[configuration]
        return checkpoint_seconds(saved, nodes, self.disk_bytes_per_second, math.inf, self.stages)


# Hours and amounts of data of every candidate, stage by stage: one element per row of the candidate table.
#
#     once        boot, image, weights and data, load; preparing data and export where the training machine does them
#     run         training, evaluation on the training machine, checkpoints, loads between trials
#     separate    stages on separate machines, before and after
#
# A node group is the set of all instances of one run; trials at the same time are several node groups. Hours of the run
# are those of the longest chain of trials. Interruptions on spot lengthen the run, and every move to another machine
# costs one more start.


@dataclass(frozen=True)
class RowHours:
    """Columns (n,): expected hours of one node group, on the wall clock, unless a comment says otherwise."""

    start: Floats  # boot, image, weights and data, load; 0 where observed hours include it
    restart: Floats  # the same for every further start, whatever was observed
    ingest: Floats  # on the training machine, with the encoding of images whose latents are cached
    export: Floats
    separate: Floats
    late_separate: Floats  # where the run does not stop early
    training: Floats
    evaluation: Floats  # on the training machine
    checkpoints: Floats
    reload: Floats
    waiting: Floats  # machine hours of node groups that wait for the last trial of a rung, in all
    group_run: Floats  # of all node groups together: what is paid on demand for `run`
    stretch: Floats  # the run without early stopping over the expected run
    late: Floats  # factor on all hours at the confidence of the job
    budget: Floats  # factor on all hours that are paid, at the confidence of the budget
    switch: Floats  # one more start, from spot to on demand; 0 where the offer is spot only
    spot_paid: Floats  # of `run` on spot; nan without a spot market
    spot_wall: Floats
    late_spot_wall: Floats
    budget_spot_wall: Floats  # at the confidence of the budget
    moved_gb: Floats  # onto every instance: weights and data
    own_gb: Floats  # of `moved_gb`, what leaves the storage of the user
    sent_gb: Floats  # what leaves the training machines: the result, or what another machine makes it from
    result_gb: Floats  # of the result that is kept where it was trained; 0 where another machine makes it
    stored_gb: Floats  # on disks of all instances and in checkpoints that stay, while machines are rented
    node_group_ratios: tuple[float, ...]  # of `group_run`, the part of each node group over the mean of all

    @property
    def node_groups(self) -> int:
        """Return the number of runs at the same time."""
        return len(self.node_group_ratios)

    @property
    def once(self) -> Floats:
        """Return the hours (n,) outside the run in which the training machines are rented."""
        return self.start + self.ingest + self.export

    @property
    def run(self) -> Floats:
        """Return the hours (n,) of the longest chain of trials on demand."""
        return self.training + self.evaluation + self.checkpoints + self.reload

    @property
    def spot_group_paid(self) -> Floats:
        """Return the machine hours (n,) of all node groups on spot, without starts."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(self.spot_paid * self.group_run / self.run)

    @property
    def after_start(self) -> Floats:
        """Return the hours (n,) of `once` without the start, which a switching policy counts as part of the run."""
        return self.once - self.start

    @property
    def late_outside_run(self) -> Floats:
        """Return the hours (n,) at the confidence that a switching policy has no influence on."""
        return (self.after_start + self.late_separate) * self.late

    @property
    def late_factor(self) -> Floats:
        """Return the hours of the run at the confidence, without early stopping, over the expected ones (n,)."""
        return self.late * self.stretch

    @property
    def budget_factor(self) -> Floats:
        """Return the hours of the run that a budget has to pay, without early stopping, over the expected ones (n,)."""
        return self.budget * self.stretch

    @property
    def budget_run(self) -> Floats:
        """Return the wall hours (n, 2) of the run in each market, at the confidence of the budget."""
        return np.stack([self.run * self.budget_factor, self.budget_spot_wall + self.switch * self.budget], axis=1)

    def billed(
        self, share: Floats | float, late: Floats | float = 1.0, stretch: Floats | float = 1.0
    ) -> list[tuple[Floats, Floats]]:
        """Return per node group the hours (n,) on demand and on spot at a spot share, before rounding."""
        share = np.asarray(share, dtype=float)
        hours = []
        for ratio in self.node_group_ratios:
            run, paid = (
                duration * stretch * ratio / self.node_groups for duration in (self.group_run, self.spot_group_paid)
            )
            on_demand = (1.0 - share) * (self.once + run) + share * self.switch
            spot = np.where(share > 0, share * (self.once + paid), 0.0)
            hours.append((np.asarray(on_demand * late), np.asarray(spot * late)))
        return hours

    def joined(self, other: RowHours) -> RowHours:
        """Return the rows of both, these first."""
        arrays: dict[str, Any] = {n: np.concatenate([v, getattr(other, n)]) for n, v in self._columns().items()}
        return replace(self, **arrays)

    def rows(self, which: Integers | Flags) -> RowHours:
        """Return the rows that a mask or an index array selects."""
        index = np.flatnonzero(which) if which.dtype == bool else which
        chosen: dict[str, Any] = {name: column.take(index) for name, column in self._columns().items()}
        return replace(self, **chosen)  # `take` is twice as fast as indexing

    def _columns(self) -> dict[str, Floats]:
        """Return the columns by name."""
        return {field.name: getattr(self, field.name) for field in fields(self) if field.name != "node_group_ratios"}


def node_group_ratios(job: Job) -> tuple[float, ...]:
    """Return the rented hours of each node group over the mean of all; (1,) for one run."""
    shares = node_group_shares(job.trials.count, job.trials.at_once, job.trials.halving)
    return tuple(share * len(shares) / sum(shares) for share in shares)


@dataclass(frozen=True)
class SeparateStage:
    """A stage on a machine that is rented for it alone: hours as rented, and dollars."""

    stage: Literal["ingest", "evaluation", "export"]
    label: str
    offer: Offer
    hours: float  # expected, on the wall clock
    late_hours: float  # where the run does not stop early; without the error of the estimate
    usd: float
    late_usd: float
    billed_hours: float
    moved_usd: float  # of `usd`, for data that move in and out


@dataclass(frozen=True)
class Placement:
    """Separate machines of the stages that may have one; None: on the training machine, or no such stage."""

    ingest: SeparateStage | None = None
    evaluation: SeparateStage | None = None
    export: SeparateStage | None = None
    adapts: bool | None = None  # whether it is for runs that train adapters, or for full training; None: for both

    @property
    def separate_stages(self) -> tuple[SeparateStage, ...]:
        """Return the stages on separate machines."""
        return tuple(stage for stage in (self.ingest, self.evaluation, self.export) if stage is not None)

    def hours_of(self, stage: str) -> float:
        """Return the hours of a stage on a separate machine; 0 where it has none."""
        return sum(separate.hours for separate in self.separate_stages if separate.stage == stage)

    def total(self, figure: Literal["hours", "late_hours", "usd", "late_usd"]) -> float:
        """Return a figure of the separate machines, summed."""
        return float(sum(getattr(stage, figure) for stage in self.separate_stages))


# The deadline: a filter of candidates, and a bound of spot shares.


def max_spot_share(
    table: CandidateTable, latest_hours: Floats | float, which: Integers | slice = slice(None)
) -> Floats:
    """Return the largest spot share (n,) in [0, 1] of rows that keeps the deadline; -1 where no share does.

    late_start_h[c] + (1-s)*late_h[c,od] + s*late_h[c,spot] <= latest_h[j]

    The deadline of candidate c of job j at the spot share s. `late_start_h` and `late_h` are the hours of the candidate
    at the confidence of the job (columns of the candidate table), `latest_h` is
    `planner.scenario.limits.latest_finish_hours`. The left side is linear in s, so the program needs no row: the
    largest share that keeps the deadline is an upper bound on s, and a candidate that no share keeps is rejected.
    """
    slack = latest_hours - table.late_start_h[which]
    on_demand, spot = table.late_h[which, ON_DEMAND], table.late_h[which, SPOT]
    with np.errstate(invalid="ignore", divide="ignore"):
        both = (slack - on_demand) / (spot - on_demand)
    both = np.where(spot <= on_demand, np.where(spot <= slack, 1.0, -1.0), both)
    # Where spot is slower and on demand is too slow already, the quotient is no share: every share is late.
    both = np.where((on_demand > slack) & (spot > on_demand), -1.0, both)
    only_spot = np.where(spot <= slack, 1.0, -1.0)
    only_on_demand = np.where(on_demand <= slack, 0.0, -1.0)
    share = np.where(np.isnan(on_demand), only_spot, np.where(np.isnan(spot), only_on_demand, both))
    return np.clip(share, -1.0, 1.0)


def least_late_hours(table: CandidateTable, low: Floats, high: Floats) -> Floats:
    """Return the left side (n,) of the deadline at the better end of the shares from `low` to `high`."""
    with np.errstate(invalid="ignore"):
        return np.fmin(table.late_hours(np.clip(low, 0, 1)), table.late_hours(np.clip(high, 0, 1)))


def policy_late_hours(hours: RowHours, guarantee_hours: Floats) -> Floats:
    """Return the hours (n,) at the confidence after which a policy with a guarantee of `guarantee_hours` has ended.

    A policy that switches between the markets has no share in advance. It guarantees that the run ends within G hours
    on every path of the market, at the expected speed. An error of the estimate stretches all hours alike, so it keeps

        late_outside_run[c] + late_factor[c]*G <= latest_h[j]

    with the hours outside the run, and the factor from expected hours to hours at the confidence, of `RowHours`.
    """
    return np.asarray(hours.late_outside_run + guarantee_hours * hours.late_factor, dtype=float)


def policy_guarantee_hours(hours: RowHours, latest_hours: Floats | float) -> Floats:
    """Return the longest guarantee (.., n) of a policy that keeps the deadline: the inverse of `policy_late_hours`."""
    return np.asarray((latest_hours - hours.late_outside_run) / hours.late_factor, dtype=float)
