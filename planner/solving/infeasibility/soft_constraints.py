"""Limits as soft constraints: rows of the elastic program that a slack variable may exceed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from planner.records import record
from planner.scenario.limits import SpotShare, max_run_hours

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planner.arrays import Flags, Floats
    from planner.formulation.shared_limits import SharedLimits
    from planner.formulation.variables import VariableLayout
    from planner.scenario.scenario import Scenario

STOCK_OF, HOURS_LEFT_OF = "stock of ", "hours left of "
"""What offers have too little of: machines, and hours that are paid for. No setting of the user changes it."""


@record(frozen=True, eq=False)
class SoftConstraint:
    """A limit that may be exceeded: rows `activity @ x <= bound + slack` over the variables of the candidates."""

    path: str
    current: float
    rows: tuple[tuple[Floats, float], ...]  # (activity, bound) each
    scale: float  # a slack of this much is a change of 100 %
    sense: int = 1  # -1: the limit is a floor, which is relaxed downwards

    @property
    def is_of_offer(self) -> bool:
        """Whether the limit is what an offer has left."""
        return self.path.startswith((STOCK_OF, HOURS_LEFT_OF))

    def excess(self, values: Floats) -> float:
        """Return by how much a point exceeds the limit, 0 if it does not."""
        return max(0.0, *(float(activity @ values) - bound for activity, bound in self.rows))

    def largest_change(self, columns: VariableLayout) -> float:
        """Return the relative excess that no plan goes beyond: the sum of the jobs' worst candidates."""
        excess = [0.0]
        for activity, bound in self.rows:
            worst = np.full(len(columns.table.jobs), -np.inf)
            np.maximum.at(worst, columns.table.job, np.maximum(*columns.at_bounds(activity)))
            excess.append(float(np.sum(worst)) - bound)
        return max(excess) / self.scale


def soft_constraints(scenario: Scenario, columns: VariableLayout, offers: SharedLimits) -> tuple[SoftConstraint, ...]:
    """Return every limit that can be exceeded by an amount: those of the scenario, and what `offers` have left."""
    return (
        *_time_limits(scenario, columns),
        *_money_and_count_limits(scenario, columns),
        *_spot_share_limits(scenario, columns),
        *_offer_limits(columns, offers),
    )


def _time_limits(scenario: Scenario, columns: VariableLayout) -> Iterator[SoftConstraint]:
    """Yield the deadline of each job, and the longest run of all jobs."""
    each_job = [columns.late_hours() * owner for owner in _rows_of_jobs(scenario, columns)]
    for job, late_hours in zip(scenario.jobs, each_job, strict=True):
        if (deadline := job.deadline_hours) is not None:
            row = (late_hours, deadline - job.start_slack_hours)
            yield SoftConstraint(f"jobs.{job.name}.deadline", deadline, (row,), deadline)
    longest = [max_run_hours(job, scenario.limits) for job in scenario.jobs]
    rows = tuple(zip(each_job, longest, strict=True))
    yield SoftConstraint("limits.max_hours", max(longest), rows, max(longest))


def _money_and_count_limits(scenario: Scenario, columns: VariableLayout) -> Iterator[SoftConstraint]:
    """Yield budget, largest number of GPUs, and quotas of providers."""
    limits, table = scenario.limits, columns.table
    if limits.budget_usd is not None:
        row = (columns.late_cost_usd(), limits.budget_usd)
        yield SoftConstraint("limits.budget_usd", limits.budget_usd, (row,), limits.budget_usd)
    if limits.max_gpus is not None:
        most = float(limits.max_gpus)
        yield SoftConstraint("limits.max_gpus", most, ((columns.vector(table.gpus.astype(float)), most),), most)
    for provider, quota in limits.quota.items():
        if provider in table.providers:
            members = table.provider == table.providers.index(provider)
            row = (columns.vector(table.gpus * members.astype(float)), float(quota))
            yield SoftConstraint(f"limits.quota.{provider}", quota, (row,), max(quota, 1.0))


def _spot_share_limits(scenario: Scenario, columns: VariableLayout) -> Iterator[SoftConstraint]:
    """Yield floor and cap of the spot share, a row for each job."""
    bounds = scenario.limits.spot_share
    if bounds != SpotShare():
        share = columns.vector(columns.base_share, np.ones(len(columns.split)))
        shares = [share * owner for owner in _rows_of_jobs(scenario, columns)]
        floors = tuple((-one, -bounds.min) for one in shares)
        caps = tuple((one, bounds.max) for one in shares)
        yield SoftConstraint("limits.spot_share.min", bounds.min, floors, 1.0, sense=-1)
        yield SoftConstraint("limits.spot_share.max", bounds.max, caps, 1.0)


def _offer_limits(columns: VariableLayout, offers: SharedLimits) -> Iterator[SoftConstraint]:
    """Yield what offers have left of machines and of paid hours, shared by all jobs."""
    table = columns.table
    for kind, left, used in (
        (STOCK_OF, offers.stock, table.instances),
        (HOURS_LEFT_OF, offers.committed, table.rented_h),
    ):
        for label, most in left.items():
            members = table.offer == table.offers.index(label)
            if members.any():
                row = (columns.vector(used * members.astype(float)), float(most))
                yield SoftConstraint(kind + label, most, (row,), max(most, 1.0))


def _rows_of_jobs(scenario: Scenario, columns: VariableLayout) -> list[Floats]:
    return [indicator_row(columns, columns.table.job == index) for index in range(len(scenario.jobs))]


def indicator_row(columns: VariableLayout, members: Flags) -> Floats:
    """Return 1 on the variables of some candidates (n,), 0 on the others."""
    return columns.vector(members.astype(float), members[columns.split].astype(float))
