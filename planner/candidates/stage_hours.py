"""Hours and amounts of data of every candidate, stage by stage: one element per row of the candidate table.

    once        boot, image, weights and data, load; preparing data and export where the training machine does them
    run         training, evaluation on the training machine, checkpoints, loads between trials
    separate    stages on separate machines, before and after

A node group is the set of all instances of one run; trials at the same time are several node groups. Hours of the run
are those of the longest chain of trials. Interruptions on spot lengthen the run, and every move to another machine
costs one more start.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from planner.estimates.trials import node_group_shares
from planner.records import record

if TYPE_CHECKING:
    from planner.arrays import Flags, Floats, Integers
    from planner.scenario.job import Job


@record(frozen=True)
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
        found = []
        for ratio in self.node_group_ratios:
            run, paid = (one * stretch * ratio / self.node_groups for one in (self.group_run, self.spot_group_paid))
            on_demand = (1.0 - share) * (self.once + run) + share * self.switch
            spot = np.where(share > 0, share * (self.once + paid), 0.0)
            found.append((np.asarray(on_demand * late), np.asarray(spot * late)))
        return found

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
        return {one.name: getattr(self, one.name) for one in fields(self) if one.name != "node_group_ratios"}


def node_group_ratios(job: Job) -> tuple[float, ...]:
    """Return the rented hours of each node group over the mean of all; (1,) for one run."""
    shares = node_group_shares(job.trials.count, job.trials.at_once, job.trials.halving)
    return tuple(one * len(shares) / sum(shares) for one in shares)
