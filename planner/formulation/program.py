"""A mixed-integer program as data: the layout of its variables, objectives, and the limits that jobs share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from planner.arrays import ON_DEMAND, SPOT, CandidateTable, Flags, Floats, Integers

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


# A mixed-integer program as data: columns as arrays, rows as families of sparse arrays.


Labeller = Callable[[int], str]

INFINITY = float("inf")


@dataclass(frozen=True, eq=False)
class Row:
    """`lower <= sum(coefficient * variable) <= upper`; `columns` index the variables of the program."""

    name: str
    columns: Integers
    coefficients: Floats
    lower: float = -INFINITY
    upper: float = INFINITY


@dataclass(frozen=True, eq=False)
class Rows:
    """All rows of one constraint family, compressed: row i owns the entries `starts[i]:starts[i + 1]`.

    A family may have tens of thousands of rows, so they are arrays, and a name is made when it is read.
    """

    family: str
    starts: Integers  # (rows + 1,)
    columns: Integers  # (entries,)
    coefficients: Floats  # (entries,)
    lower: Floats  # (rows,)
    upper: Floats  # (rows,)
    label: Labeller  # text between the brackets of a row's name; empty for a family of one

    def __len__(self) -> int:
        return len(self.lower)

    def __iter__(self) -> Iterator[Row]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, i: int) -> Row:
        entries = slice(self.starts[i], self.starts[i + 1])
        return Row(
            self.name(i), self.columns[entries], self.coefficients[entries], float(self.lower[i]), float(self.upper[i])
        )

    def name(self, i: int) -> str:
        """Return `family[label]`: it leads back to the function that made the row."""
        label = self.label(i)
        return f"{self.family}[{label}]" if label else self.family

    def activity(self, values: Floats) -> Floats:
        """Return the left-hand sides (rows,) at a point."""
        terms = self.coefficients * values[self.columns]
        return np.bincount(self.row_of_entry(), weights=terms, minlength=len(self)).astype(float)

    def row_of_entry(self) -> Integers:
        """Return the row (entries,) of each entry."""
        return np.repeat(np.arange(len(self)), np.diff(self.starts))


@dataclass(frozen=True, eq=False)
class Program:
    """Minimise `offset + cost @ x` over `lower <= x <= upper`, some x integer, under the rows."""

    lower: Floats
    upper: Floats
    integer: Flags
    cost: Floats
    rows: tuple[Rows, ...]
    variable_name: Labeller
    offset: float = 0.0
    is_tight: bool = False  # what a presolve could remove or tighten is removed and tightened already

    @property
    def size(self) -> int:
        """Number of variables."""
        return len(self.cost)

    def objective(self, values: Floats) -> float:
        """Return the objective at a point."""
        return self.offset + float(self.cost @ values)

    def violation(self, values: Floats) -> float:
        """Return the largest amount by which a point violates a row or a bound, 0 if it violates none."""
        excess = [np.zeros(1), self.lower - values, values - self.upper]
        for rows in self.rows:
            activity = rows.activity(values)
            excess += [rows.lower - activity, activity - rows.upper]
        return float(np.max(np.concatenate(excess)))

    def minimising(self, cost: Floats) -> Program:
        """Return the same rows with another objective."""
        return replace(self, cost=np.asarray(cost, dtype=float), offset=0.0)

    def with_rows(self, *rows: Rows) -> Program:
        """Return the same program with more rows."""
        return replace(self, rows=self.rows + rows)


def sparse_rows(
    family: str, row: Integers, columns: Integers, coefficients: Floats, lower: Floats, upper: Floats, label: Labeller
) -> Rows:
    """Return rows from triplets in any order; terms of coefficient 0 are left out."""
    keep = coefficients != 0.0
    row, columns, coefficients = row[keep], columns[keep], coefficients[keep]
    order = np.lexsort((columns, row))
    starts = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=len(lower)))]).astype(np.int64)
    return Rows(family, starts, columns[order], coefficients[order], lower, upper, label)


def single_row(family: str, cost: Floats, lower: float = -INFINITY, upper: float = INFINITY) -> Rows:
    """Return a family of one row whose coefficients are a dense vector over all variables."""
    columns = np.flatnonzero(cost)
    return sparse_rows(
        family,
        np.zeros(len(columns), dtype=np.int64),
        columns,
        cost[columns],
        np.array([lower]),
        np.array([upper]),
        lambda _: "",
    )


# Limits and objective that the jobs of a scenario share.


@dataclass(frozen=True, eq=False)
class Peak:
    """The most that may be used at one time, over all jobs or services."""

    key: str  # under `limits`
    most: float
    each: Floats  # (offers,) or (kinds,), what one machine uses

    @property
    def name(self) -> str:
        """The name of its row, such as `gpus`."""
        return self.key.removeprefix("max_")

    def used(self, table: CandidateTable) -> Floats:
        """Return what each candidate (n,) uses of it."""
        return np.asarray(self.each[table.offer] * table.instances, dtype=float)


@dataclass(frozen=True, eq=False)
class TypicalPeak(Peak):
    """The GPUs of one model that several training jobs may rent of one provider: a guess, where the stock is unknown.

    A job that needs more than that is not limited by a guess: it counts as all of it, and no other job joins it there.
    """

    counts: Flags  # (jobs,), the jobs that it limits
    words: str  # such as `A5000 at runpod`

    def used(self, table: CandidateTable) -> Floats:
        """Return what each candidate (n,) uses of it."""
        return np.where(self.counts[table.job], np.minimum(super().used(table), self.most), 0.0)


@dataclass(frozen=True, eq=False)
class TypicalPeaks:
    """The typical stock of every GPU at every provider of a market: hundreds of limits, of which a plan meets a few.

    A program with all of them would have to keep the best candidates of each GPU at each provider. So a plan is made
    without them, then with those that it exceeded, until it exceeds none: the optimum of all of them, as those that
    are left out hold by themselves.
    """

    names: tuple[str, ...]  # (kinds,), such as `A5000 at runpod`
    most: Floats  # (kinds,), GPUs
    kind: Integers  # (offers,), -1 for an offer that none of them limits
    gpus: Integers  # (offers,), of one machine
    counts: Flags  # (jobs,)

    def exceeded(self, *tables: CandidateTable) -> tuple[TypicalPeak, ...]:
        """Return the limits that one of several plans exceeds, each a table with a row for every job."""
        kinds = {kind for table in tables for kind in np.flatnonzero(self._sums(table) > self.most).tolist()}
        return tuple(self._peak(kind) for kind in sorted(kinds))

    def fits_next_to(self, others: CandidateTable, table: CandidateTable) -> Flags:
        """Return the candidates (n,) of a job that exceed none next to those of the other jobs, a row for each."""
        kind, used = self._used(table)
        return np.asarray((kind < 0) | (used <= (self.most - self._sums(others))[kind]))

    def _used(self, table: CandidateTable) -> tuple[Integers, Floats]:
        """Return the kind of each candidate (n,), -1 for none, and what it uses of its limit, at most all of it."""
        kind = np.where(self.counts[table.job], self.kind[table.offer], -1)
        return kind, np.minimum(self.gpus[table.offer] * table.instances, np.append(self.most, 0.0)[kind])

    def _sums(self, table: CandidateTable) -> Floats:
        """Return what all candidates of a table use of each limit (kinds,)."""
        kind, used = self._used(table)
        return np.bincount(kind[kind >= 0], weights=used[kind >= 0], minlength=len(self.names)).astype(float)

    def _peak(self, kind: int) -> TypicalPeak:
        each = np.where(self.kind == kind, self.gpus, 0).astype(float)
        name = self.names[kind]
        return TypicalPeak(f"typical_stock[{name}]", float(self.most[kind]), each, self.counts, name)


@dataclass(frozen=True)
class SharedLimits:
    """Everything that jobs share; limits on one job alone are filters on its candidates.

    `peaks` limit what is used at one time, `quota` maps provider names to GPUs, `stock` maps offer labels to
    instances, `committed` to machine hours that are paid for already; a missing name has no such limit, and `None`
    means no limit. `value_of_time_usd_per_hour` prices expected hours.
    """

    budget_usd: float | None = None
    peaks: tuple[Peak, ...] = ()
    quota: Mapping[str, int] = field(default_factory=dict)
    stock: Mapping[str, int] = field(default_factory=dict)
    committed: Mapping[str, float] = field(default_factory=dict)
    objective: Literal["cost", "time"] = "cost"
    value_of_time_usd_per_hour: float = 0.0

    @property
    def limit_one_time(self) -> bool:
        """Whether anything limits what is used at one time: then it matters which jobs run together."""
        return bool(self.peaks or self.quota or self.stock)

    def in_turns(self) -> SharedLimits:
        """Return the limits of jobs that need not run at one time."""
        return replace(self, peaks=(), quota={}, stock={})

    def with_peaks(self, more: Sequence[Peak]) -> SharedLimits:
        """Return the limits with more of what is limited at one time."""
        return replace(self, peaks=(*self.peaks, *more))


# Layout of the variables of a candidate table, and its figures as vectors over them.


@dataclass(frozen=True, eq=False)
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


def cost_objective(columns: VariableLayout) -> Floats:
    """Return expected dollars with penalties and the value of time.

    sum_c ( fixed_usd*choose + sum_m run_usd*share + penalty_usd*choose ) + value_of_time*sum_j hours_j
    """
    penalty = columns.vector(columns.table.penalty_usd)
    return columns.cost_usd() + penalty + columns.shared.value_of_time_usd_per_hour * columns.hours()


def preference_objective(columns: VariableLayout) -> Floats:
    """Return what ties are decided by before machines and hours, summed over the jobs.

    sum_c preference[c]*choose[c]
    """
    return columns.vector(columns.table.preference.astype(float))


def machines_objective(columns: VariableLayout) -> Floats:
    """Return the machines, summed over the jobs.

    sum_c instances[c]*choose[c]
    """
    return columns.vector(columns.table.instances.astype(float))


def hours_objective(columns: VariableLayout) -> Floats:
    """Return the hours at the requested confidence, summed over the jobs.

    sum_j late_j,    late_j = sum_{c of j} ( late_start_h*choose + sum_m late_h*share )
    """
    return columns.late_hours()


def time_objective(columns: VariableLayout) -> Floats:
    """Return the hours at which the last job ends, at the requested confidence.

    last
    """
    values = np.zeros(columns.size)
    values[columns.last] = 1.0
    return values


def lossiness_objective(columns: VariableLayout) -> Floats:
    """Return how much the techniques in use may change what is learnt, summed over the jobs.

    sum_c lossiness[c]*choose[c]
    """
    return columns.vector(columns.table.lossiness.astype(float))


def memory_objective(columns: VariableLayout) -> Floats:
    """Return less the GiB per GPU that stay free.

    - sum_c ( usable_gib[c] - fit_gib[c] )*choose[c]
    """
    return columns.vector(columns.table.fit_gib - columns.table.usable_gib)


def name_objective(columns: VariableLayout) -> Floats:
    """Return a number for each plan that depends on the names of its offers alone.

    sum_{j,c of j} weight[j]*rank[c]*choose[c],    rank by (offer label, row order) within the job

    The weights are `1 + (j*golden ratio mod 1)`: multiples of an irrational number, so that hardly any two plans have
    the same sum and every solver ends at the same plan.
    """
    table = columns.table
    order_of_offer = np.empty(len(table.offers), dtype=np.int64)
    order_of_offer[np.argsort(np.array(table.offers))] = np.arange(len(table.offers))
    order = np.lexsort((np.arange(len(table)), order_of_offer[table.offer], table.job))
    first_of_job = np.searchsorted(table.job[order], np.arange(len(table.jobs)))
    rank = np.empty(len(table))
    rank[order] = np.arange(len(table)) - first_of_job[table.job[order]]
    weight = 1.0 + np.mod(np.arange(len(table.jobs)) * (1.0 + np.sqrt(5.0)) / 2.0, 1.0)
    return columns.vector(weight[table.job] * rank)
