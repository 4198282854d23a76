"""Layout of the variables of a candidate table, and its figures as vectors over them."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

import numpy as np

from planner.candidate_table import ON_DEMAND, SPOT, CandidateTable
from planner.records import record

if TYPE_CHECKING:
    from planner.arrays import Flags, Floats, Integers
    from planner.formulation.shared_limits import SharedLimits


@record(frozen=True, eq=False)
class VariableLayout:
    """The layout of the variables: choose (one per candidate), then spot shares, then `last`.

    `share[c,on_demand] = choose[c] - share[c,spot]` is substituted everywhere, so `split[c]` needs no
    row and only the spot share is a variable. A candidate whose share is a point (one market, or
    share_low = share_high) has no share variable at all: share = share_low * choose[c] is part of the
    coefficient of choose[c]. The program is equivalent to the form with two shares per candidate, whose
    additional variables are determined by `choose` and the spot share.
    """

    table: CandidateTable
    shared: SharedLimits
    split: Integers = field(init=False)  # candidates with a share variable
    base_share: Floats = field(init=False)  # (n,) spot share that is part of the coefficient of choose

    def __post_init__(self) -> None:
        is_split = self.table.share_low < self.table.share_high
        object.__setattr__(self, "split", np.flatnonzero(is_split))
        object.__setattr__(self, "base_share", np.where(is_split, 0.0, self.table.share_low))

    @property
    def choose(self) -> Integers:
        """Columns (n,) of choose[c]."""
        return np.arange(len(self.table))

    @property
    def share(self) -> Integers:
        """Columns (len(split),) of share[c,spot]."""
        return len(self.table) + np.arange(len(self.split))

    @property
    def last(self) -> int | None:
        """Column of the last finish; only the objective `time` has one."""
        return len(self.table) + len(self.split) if self.shared.objective == "time" else None

    @property
    def size(self) -> int:
        """Number of variables."""
        return len(self.table) + len(self.split) + (self.last is not None)

    def vector(self, per_choice: Floats, per_share: Floats | None = None) -> Floats:
        """Return one number per variable (size,) from one per candidate and one per split candidate."""
        values = np.zeros(self.size)
        values[: len(self.table)] = per_choice
        if per_share is not None:
            values[self.share] = per_share
        return values

    def slope(self, per_market: Floats) -> Floats:
        """Return what a unit of spot share adds over on demand, (len(split),)."""
        chosen = per_market[self.split]
        return np.asarray(chosen[:, SPOT] - chosen[:, ON_DEMAND])

    def hours(self) -> Floats:
        """Return expected hours: start_h*choose + sum_m run_h*share."""
        return self.vector(self.table.hours(self.base_share), self.slope(self.table.run_h))

    def late_hours(self) -> Floats:
        """Return hours at the requested confidence: late_start_h*choose + sum_m late_h*share."""
        return self.vector(self.table.late_hours(self.base_share), self.slope(self.table.late_h))

    def late_cost_usd(self) -> Floats:
        """Return dollars at the requested confidence: fixed_usd*choose + sum_m late_usd*share."""
        return self.vector(self.table.late_cost_usd(self.base_share), self.slope(self.table.late_usd))

    def cost_usd(self) -> Floats:
        """Return expected dollars: fixed_usd*choose + sum_m run_usd*share."""
        return self.vector(self.table.cost_usd(self.base_share), self.slope(self.table.run_usd))

    def at_bounds(self, values: Floats) -> tuple[Floats, Floats]:
        """Return what each candidate (n,) adds to a sum over the variables at its share floor and at its cap."""
        low, high = values[self.choose].copy(), values[self.choose].copy()
        low[self.split] += values[self.share] * self.table.share_low[self.split]
        high[self.split] += values[self.share] * self.table.share_high[self.split]
        return low, high

    def chosen(self, values: Floats) -> Integers:
        """Return the chosen candidates, one per job, in the order of the jobs."""
        rows = np.flatnonzero(values[: len(self.table)] > 0.5)
        return rows[np.argsort(self.table.job[rows], kind="stable")]

    def spot_share(self, values: Floats, rows: Integers) -> Floats:
        """Return the spot share of some candidates at a solution, within their bounds."""
        share = self.base_share.copy()
        share[self.split] = values[self.share]
        return np.clip(share[rows], self.table.share_low[rows], self.table.share_high[rows])

    def bounds(self) -> tuple[Floats, Floats, Flags]:
        """Return lower and upper bounds and integrality of the variables: choose in {0,1}, share in [0, share_high]."""
        lower, upper = np.zeros(self.size), np.ones(self.size)
        upper[self.share] = self.table.share_high[self.split]
        integer = np.zeros(self.size, dtype=bool)
        integer[self.choose] = True
        if self.last is not None:
            upper[self.last] = finish_upper_bound(self.table)
        return lower, upper, integer

    def candidate_label(self, row: int) -> str:
        """Return `job,offer,count,recipe` of a candidate."""
        table = self.table
        job, offer = table.jobs[table.job[row]], table.offers[table.offer[row]]
        return f"{job},{offer},{table.instances[row]},{table.recipe[row]}"

    def name(self, column: int) -> str:
        """Return the name of a variable."""
        if column < len(self.table):
            return f"choose[{self.candidate_label(column)}]"
        if column == self.last:
            return "last"
        return f"share[{self.candidate_label(int(self.split[column - len(self.table)]))}]"


def finish_upper_bound(table: CandidateTable) -> float:
    """Return the latest hours that any candidate can take: an upper bound on `last`, which some solvers need."""
    if len(table) == 0:
        return 0.0
    return float(max(table.late_hours(table.share_low).max(), table.late_hours(table.share_high).max()))
