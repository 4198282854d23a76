"""The program whose limits give: by how little must those of a given set move, so that there is a plan?

    relax[j,f]      sum_{c of j that break f} choose[c] <= relax[f]     relax binary, a filter f is a value of a list
    soft[l]         activity_l/scale_l <= limit_l/scale_l + slack[l]    l: deadline, hours, budget, GPUs, quota, stock,
                                                                        hours paid for, spot share
    give            relax[f] = 0, slack[l] = 0 for every limit outside the set
    minimise        sum relax + sum slack,    then   cost

An assignment chooses one candidate per job, so one row per job and filter says what one per candidate would. Which
limits give is fixed from outside, set by set, fewest first (`.diagnosis`): a binary per slack would need a bound
on the slack (a slow machine takes thousands of hours), under whose tolerance a slack of minutes hides.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from planner.formulation.constraints import assignment_rows, spot_cap_rows, spot_floor_rows
from planner.formulation.objective import cost_objective
from planner.formulation.program import INFINITY, Program, Rows, single_row, sparse_rows
from planner.formulation.shared_limits import SharedLimits
from planner.formulation.variables import VariableLayout
from planner.scenario.limits import SpotShare, max_run_hours
from planner.solvers.registry import run
from planner.solving.infeasibility.relaxed_candidates import RelaxedCandidates, undominated_candidates

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from planner.arrays import Flags, Floats, Integers

MOST_FILTERS = 2
"""Filters that a candidate may break; more are allowed only where otherwise nothing would do."""
TIME_LIMIT_SECONDS = 10.0
CHANGE_TOLERANCE = 1e-6
"""Relative excess over a limit from which on it counts as touched: the tolerance of the solvers."""
LIMIT_TOLERANCE = 1e-7
"""Room that the second pass leaves the first one's optimum, relative."""
STOCK, HOURS = "stock of ", "hours left of "
"""What offers have too little of: machines, and hours that are paid for. No setting of the user moves it."""


@dataclass(frozen=True, eq=False)
class SoftConstraint:
    """A limit that may be exceeded: rows `activity @ x <= bound + slack` over the variables of the candidates."""

    path: str
    current: float
    rows: tuple[tuple[Floats, float], ...]  # (activity, bound) each
    scale: float  # a slack of this much is a change of 100 %
    sense: int = 1  # -1: the limit is a floor, which goes down

    def excess(self, values: Floats) -> float:
        """By how much a point exceeds the limit, 0 where it does not."""
        return max(0.0, *(float(activity @ values) - bound for activity, bound in self.rows))


@dataclass(frozen=True)
class ElasticSolution:
    """A plan of the elastic program: its rows, and what it needs of the limits."""

    rows: Integers  # per job: row of the wide table
    shares: Floats
    filters: frozenset[int]  # numbers of the filters that it breaks
    excess: dict[str, float]  # path of a soft limit -> by how much
    paths: frozenset[str]  # of all limits that must move
    change: float  # filters, and relative changes of the soft limits, summed
    cost: float  # the objective in dollars


@dataclass(frozen=True, eq=False)
class ElasticProgram:
    """The candidates that may matter, with every limit as a filter or a soft row."""

    relaxed: RelaxedCandidates
    columns: VariableLayout
    soft: tuple[SoftConstraint, ...]
    fixed: tuple[Rows, ...] = field(repr=False)

    @classmethod
    def of(cls, wide: RelaxedCandidates, most: int = MOST_FILTERS) -> ElasticProgram:
        """From every candidate; those that could only do worse are left out."""
        scenario, market = wide.scenario, wide.market
        offers = list(zip(market.labels, market.offers, strict=True))
        stock = {label: offer.stock for label, offer in offers if offer.stock is not None}
        hours = {label: offer.committed_hours for label, offer in offers if offer.committed_hours is not None}
        few = undominated_candidates(
            wide, SharedLimits(quota=scenario.limits.quota, stock=stock, committed=hours), most
        )
        worth = scenario.value_of_time_usd_per_hour
        columns = VariableLayout(few.table, SharedLimits(value_of_time_usd_per_hour=worth))
        families = (assignment_rows, spot_floor_rows, spot_cap_rows)
        fixed = tuple(rows for family in families for rows in family(columns))
        return cls(few, columns, (*_soft_limits(few, columns), *_soft_offers(few, columns, stock, hours)), fixed)

    @property
    def _base(self) -> int:
        return self.columns.size

    @cached_property
    def _relax_rows(self) -> Rows:
        """relax[j,f]    sum_{c of j that break f} choose[c] <= relax[f]"""
        breaks, job = self.relaxed.breaks, self.relaxed.table.job
        rows, columns, values, row = [], [], [], 0
        for number in range(breaks.shape[1]):
            for one in np.unique(job[breaks[:, number]]):
                members = np.flatnonzero(breaks[:, number] & (job == one))
                columns += [members, np.asarray([self._base + number])]
                values += [np.ones(len(members)), np.asarray([-1.0])]
                rows.append(np.full(len(members) + 1, row))
                row += 1
        return sparse_rows(
            "relax",
            np.concatenate([np.zeros(0, dtype=np.int64), *rows]),
            np.concatenate([np.zeros(0, dtype=np.int64), *columns]),
            np.concatenate([np.zeros(0), *values]),
            np.full(row, -INFINITY),
            np.zeros(row),
            str,
        )

    @cached_property
    def _soft_rows(self) -> tuple[Rows, ...]:
        """soft[l]    activity_l/scale_l - slack[l] <= limit_l/scale_l"""
        made = []
        for index, one in enumerate(self.soft):
            for activity, bound in one.rows:
                row = self._vector(activity / one.scale)
                row[self._slack(index)] = -1.0
                made.append(single_row(f"soft {one.path}", row, upper=bound / one.scale))
        return tuple(made)

    @property
    def relaxable_paths(self) -> tuple[str, ...]:
        """Paths of the limits that a user can move: what offers have left is none of them."""
        filters = [one.path for one in self.relaxed.filters]
        return tuple(dict.fromkeys([*(one.path for one in self.soft if not is_offer_limit(one.path)), *filters]))

    @property
    def offer_paths(self) -> tuple[str, ...]:
        """Paths of what offers have left."""
        return tuple(one.path for one in self.soft if is_offer_limit(one.path))

    def solve(
        self,
        give: Collection[str],
        most: Mapping[str, float] | None = None,
        caps: Sequence[tuple[Floats, float]] = (),
        one_filter: bool = False,
        cost_first: bool = False,
    ) -> ElasticSolution | None:
        """The plan that changes the limits in `give` (paths) least, then costs least; None where there is none.

        `most` bounds the relative change of some; `caps` are rows `activity @ x <= cap` over the variables of the
        candidates, all jobs together; `one_filter` lets one value of one list in at most; `cost_first` asks for the
        cheapest plan instead of the least change.
        """
        program = self._program(give, most or {})
        for activity, cap in caps:
            scale = max(1.0, abs(cap))
            program = program.with_rows(single_row("cap", self._vector(activity / scale), upper=cap / scale))
        if one_filter:
            program = program.with_rows(single_row("one_filter", self._vector(np.zeros(self._base), 1.0), upper=1.0))
        change = self._vector(np.zeros(self._base), 1.0, 1.0)
        cost = self._vector(cost_objective(self.columns))
        values: Floats | None = None
        for goal in [cost] if cost_first else [change, cost]:
            result = run(program.minimising(goal), time_limit_seconds=TIME_LIMIT_SECONDS)
            if not result.has_solution or result.objective is None:
                break
            values = result.values
            room = LIMIT_TOLERANCE * max(1.0, abs(result.objective))
            program = program.with_rows(single_row("kept", goal, upper=result.objective + room))
        return None if values is None else self._found(values)

    def _program(self, give: Collection[str], most: Mapping[str, float]) -> Program:
        lower, upper, integer = self.columns.bounds()
        open_filters = [float(one.path in give) for one in self.relaxed.filters]
        slack = [min(_most(self.columns, one), most.get(one.path, INFINITY)) * (one.path in give) for one in self.soft]
        extra = len(open_filters) + len(slack)
        return Program(
            lower=np.concatenate([lower, np.zeros(extra)]),
            upper=np.concatenate([upper, open_filters, slack]),
            integer=np.concatenate([integer, np.arange(extra) < len(open_filters)]),
            cost=np.zeros(self._base + extra),
            rows=(*self.fixed, self._relax_rows, *self._soft_rows),
            variable_name=self._name,
        )

    def _found(self, values: Floats) -> ElasticSolution:
        base = values[: self._base]
        rows = self.columns.chosen(base)
        shares = self.columns.spot_share(base, rows)
        # What the rounded point needs is counted again, free of the solver's tolerance.
        point = np.zeros(self._base)
        point[rows] = 1.0
        split = {int(c): i for i, c in enumerate(self.columns.split)}
        for row, share in zip(rows, shares, strict=True):
            if int(row) in split:
                point[self.columns.share[split[int(row)]]] = share
        over = {one.path: one.excess(point) for one in self.soft}
        needed = {one.path: over[one.path] for one in self.soft if over[one.path] > CHANGE_TOLERANCE * one.scale}
        broken = frozenset(int(number) for number in np.flatnonzero(self.relaxed.breaks[rows].any(axis=0)))
        change = len(broken) + sum(needed.get(one.path, 0.0) / one.scale for one in self.soft)
        paths = {*needed, *(self.relaxed.filters[number].path for number in broken)}
        cost = float(cost_objective(self.columns) @ point)
        return ElasticSolution(rows, shares, broken, needed, frozenset(paths), change, cost)

    def _slack(self, index: int) -> int:
        return self._base + len(self.relaxed.filters) + index

    def _vector(self, base: Floats, per_filter: float = 0.0, per_slack: float = 0.0) -> Floats:
        return np.concatenate(
            [base, np.full(len(self.relaxed.filters), per_filter), np.full(len(self.soft), per_slack)]
        )

    def _name(self, column: int) -> str:
        if column < self._base:
            return self.columns.name(column)
        number = column - self._base
        if number < len(self.relaxed.filters):
            one = self.relaxed.filters[number]
            return f"relax[{one.path},{one.value}]"
        return f"slack[{self.soft[number - len(self.relaxed.filters)].path}]"


def _most(columns: VariableLayout, one: SoftConstraint) -> float:
    """Relative change beyond which no plan goes: the sum of the jobs' worst candidates."""
    needs = [float(np.sum(_worst(columns, activity))) - bound for activity, bound in one.rows]
    return max(0.0, *needs) / one.scale


def _worst(columns: VariableLayout, activity: Floats) -> Floats:
    """The largest activity (jobs,) of any candidate of each job, over its shares."""
    low = activity[columns.choose].copy()
    high = low.copy()
    low[columns.split] += activity[columns.share] * columns.table.share_low[columns.split]
    high[columns.split] += activity[columns.share] * columns.table.share_high[columns.split]
    worst = np.full(len(columns.table.jobs), -np.inf)
    np.maximum.at(worst, columns.table.job, np.maximum(low, high))
    return worst


def is_offer_limit(path: str) -> bool:
    """Whether a soft limit is what an offer has left."""
    return path.startswith((STOCK, HOURS))


def _soft_offers(
    wide: RelaxedCandidates, columns: VariableLayout, stock: dict[str, int], hours: dict[str, float]
) -> list[SoftConstraint]:
    """What offers have left of machines and of hours paid for, shared by all jobs."""
    table = wide.table
    made = []
    for kind, left, used in ((STOCK, stock, table.instances.astype(float)), (HOURS, hours, table.rented_h)):
        for label, most in left.items():
            members = table.offer == table.offers.index(label)
            if members.any():
                here = columns.vector(used) * indicator_row(columns, members)
                made.append(SoftConstraint(kind + label, most, ((here, float(most)),), max(most, 1.0)))
    return made


def _soft_limits(wide: RelaxedCandidates, columns: VariableLayout) -> list[SoftConstraint]:
    """Every limit that the scenario sets and that can be exceeded by an amount."""
    scenario, table = wide.scenario, wide.table
    limits = scenario.limits
    late, gpus = columns.late_hours(), columns.vector(table.gpus.astype(float))
    owner = [indicator_row(columns, table.job == index) for index in range(len(scenario.jobs))]
    made = []
    longest = {}
    for index, job in enumerate(scenario.jobs):
        longest[index] = max_run_hours(job, limits)
        if job.deadline_hours is not None:
            mine = ((late * owner[index], job.deadline_hours),)
            made.append(SoftConstraint(f"jobs.{job.name}.deadline", job.deadline_hours, mine, job.deadline_hours))
    each = tuple((late * owner[index], hours) for index, hours in longest.items())
    made.append(SoftConstraint("limits.max_hours", max(longest.values()), each, max(longest.values())))
    if limits.budget_usd is not None:
        row = (columns.late_cost_usd(), limits.budget_usd)
        made.append(SoftConstraint("limits.budget_usd", limits.budget_usd, (row,), limits.budget_usd))
    if limits.max_gpus is not None:
        most = float(limits.max_gpus)
        made.append(SoftConstraint("limits.max_gpus", most, ((gpus, most),), most))
    for provider, quota in limits.quota.items():
        if provider in table.providers:
            here = gpus * indicator_row(columns, table.provider == table.providers.index(provider))
            row = (here, float(quota))
            made.append(SoftConstraint(f"limits.quota.{provider}", quota, (row,), max(quota, 1.0)))
    if limits.spot_share != SpotShare():
        share = columns.vector(columns.base_share, np.ones(len(columns.split)))
        low, high = limits.spot_share.min, limits.spot_share.max
        floors = tuple((-share * mine, -low) for mine in owner)
        made.append(SoftConstraint("limits.spot_share.min", low, floors, 1.0, sense=-1))
        made.append(SoftConstraint("limits.spot_share.max", high, tuple((share * mine, high) for mine in owner), 1.0))
    return made


def indicator_row(columns: VariableLayout, members: Flags) -> Floats:
    """1 on the variables of some candidates (n,), 0 on the others."""
    return columns.vector(members.astype(float), members[columns.split].astype(float))
