"""Limits as soft constraints: rows of the elastic program that a slack variable may exceed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from planner.scenario.limits import SpotShare, max_run_hours

if TYPE_CHECKING:
    from planner.arrays import Flags, Floats
    from planner.candidate_table import CandidateTable
    from planner.formulation.shared_limits import SharedLimits
    from planner.formulation.variables import VariableLayout
    from planner.scenario.scenario import Scenario

STOCK_OF, HOURS_LEFT_OF = "stock of ", "hours left of "
"""What offers have too little of: machines, and hours that are paid for. No setting of the user changes it."""


@dataclass(frozen=True, eq=False)
class SoftConstraint:
    """A limit that may be exceeded: rows `activity @ x <= bound + slack` over the variables of the candidates."""

    path: str
    current: float
    rows: tuple[tuple[Floats, float], ...]  # (activity, bound) each
    scale: float  # a slack of this much is a change of 100 %
    sense: int = 1  # -1: the limit is a floor, which is relaxed downwards

    def excess(self, values: Floats) -> float:
        """Return by how much a point exceeds the limit, 0 if it does not."""
        return max(0.0, *(float(activity @ values) - bound for activity, bound in self.rows))

    def largest_change(self, columns: VariableLayout) -> float:
        """Return the relative excess that no plan goes beyond: the sum of the jobs' worst candidates."""
        excess = [float(np.sum(_worst_activity(columns, activity))) - bound for activity, bound in self.rows]
        return max(0.0, *excess) / self.scale


def is_offer_limit(path: str) -> bool:
    """Return whether a soft constraint is what an offer has left."""
    return path.startswith((STOCK_OF, HOURS_LEFT_OF))


def soft_constraints(scenario: Scenario, columns: VariableLayout, offers: SharedLimits) -> tuple[SoftConstraint, ...]:
    """Return every limit that can be exceeded by an amount: those of the scenario, and what `offers` have left."""
    return (
        *_time_limits(scenario, columns),
        *_money_and_count_limits(scenario, columns),
        *_spot_share_limits(scenario, columns),
        *_offer_limits(columns, offers),
    )


def _time_limits(scenario: Scenario, columns: VariableLayout) -> list[SoftConstraint]:
    """Return the deadline of each job, and the longest run of all jobs."""
    late_hours = columns.late_hours()
    made, each_job = [], []
    for job, owner in zip(scenario.jobs, _rows_of_jobs(scenario, columns), strict=True):
        each_job.append((late_hours * owner, max_run_hours(job, scenario.limits)))
        if (deadline := job.deadline_hours) is not None:
            made.append(
                SoftConstraint(f"jobs.{job.name}.deadline", deadline, ((late_hours * owner, deadline),), deadline)
            )
    longest = max(hours for _, hours in each_job)
    return [*made, SoftConstraint("limits.max_hours", longest, tuple(each_job), longest)]


def _money_and_count_limits(scenario: Scenario, columns: VariableLayout) -> list[SoftConstraint]:
    """Return budget, largest number of GPUs, and quotas of providers."""
    limits, table = scenario.limits, columns.table
    gpus = columns.vector(table.gpus.astype(float))
    made = []
    if limits.budget_usd is not None:
        row = (columns.late_cost_usd(), limits.budget_usd)
        made.append(SoftConstraint("limits.budget_usd", limits.budget_usd, (row,), limits.budget_usd))
    if limits.max_gpus is not None:
        most = float(limits.max_gpus)
        made.append(SoftConstraint("limits.max_gpus", most, ((gpus, most),), most))
    for provider, quota in limits.quota.items():
        if provider in table.providers:
            members = table.provider == table.providers.index(provider)
            row = (gpus * indicator_row(columns, members), float(quota))
            made.append(SoftConstraint(f"limits.quota.{provider}", quota, (row,), max(quota, 1.0)))
    return made


def _spot_share_limits(scenario: Scenario, columns: VariableLayout) -> list[SoftConstraint]:
    """Return floor and cap of the spot share, a row for each job."""
    bounds = scenario.limits.spot_share
    if bounds == SpotShare():
        return []
    share = columns.vector(columns.base_share, np.ones(len(columns.split)))
    owners = _rows_of_jobs(scenario, columns)
    floors = tuple((-share * owner, -bounds.min) for owner in owners)
    caps = tuple((share * owner, bounds.max) for owner in owners)
    return [
        SoftConstraint("limits.spot_share.min", bounds.min, floors, 1.0, sense=-1),
        SoftConstraint("limits.spot_share.max", bounds.max, caps, 1.0),
    ]


def _offer_limits(columns: VariableLayout, offers: SharedLimits) -> list[SoftConstraint]:
    """Return what offers have left of machines and of paid hours, shared by all jobs."""
    table: CandidateTable = columns.table
    made = []
    for kind, left, used in (
        (STOCK_OF, offers.stock, table.instances.astype(float)),
        (HOURS_LEFT_OF, offers.committed, table.rented_h),
    ):
        for label, most in left.items():
            members = table.offer == table.offers.index(label)
            if members.any():
                activity = columns.vector(used) * indicator_row(columns, members)
                made.append(SoftConstraint(kind + label, most, ((activity, float(most)),), max(most, 1.0)))
    return made


def _rows_of_jobs(scenario: Scenario, columns: VariableLayout) -> list[Floats]:
    return [indicator_row(columns, columns.table.job == index) for index in range(len(scenario.jobs))]


def indicator_row(columns: VariableLayout, members: Flags) -> Floats:
    """Return 1 on the variables of some candidates (n,), 0 on the others."""
    return columns.vector(members.astype(float), members[columns.split].astype(float))


def _worst_activity(columns: VariableLayout, activity: Floats) -> Floats:
    """Return the largest activity (jobs,) of any candidate of each job, over its shares."""
    low = activity[columns.choose].copy()
    high = low.copy()
    low[columns.split] += activity[columns.share] * columns.table.share_low[columns.split]
    high[columns.split] += activity[columns.share] * columns.table.share_high[columns.split]
    worst = np.full(len(columns.table.jobs), -np.inf)
    np.maximum.at(worst, columns.table.job, np.maximum(low, high))
    return worst
