"""The elastic program: limits as soft rows, and the least relaxation of them that gives a plan.

    relax[j,f]      sum_{c of j that break f} choose[c] <= relax[f]     relax binary, a filter f is a value of a list
    soft[l]         activity_l/scale_l <= limit_l/scale_l + slack[l]    l: deadline, hours, budget, GPUs, quota, stock,
                                                                        hours paid for, spot share
    fixed           relax[f] = 0, slack[l] = 0 for every limit that must hold
    minimise        sum relax + sum slack,    then   cost

An assignment chooses one candidate per job, so one row per job and filter says what one row per candidate would.
Which limits may be relaxed is fixed from outside, set by set, fewest first (`.diagnosis`). Counting relaxed limits
inside the program would need a binary and a bound for each slack. A slow machine takes thousands of hours, so the
bound would be large, and under its tolerance a slack of minutes would cost nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from planner.arrays import Flags, Floats, Integers
from planner.decode.chosen import describe_candidate, describe_jobs
from planner.formulation.constraints import assignment_rows, spot_cap_rows, spot_floor_rows
from planner.formulation.objective import cost_objective
from planner.formulation.program import INFINITY, Program, Rows, SharedLimits, VariableLayout, single_row, sparse_rows
from planner.scenario.limits import SpotShare, max_run_hours
from planner.scenario.scenario import Scenario
from planner.solvers.registry import run
from planner.solving.infeasibility.relaxed_candidates import RelaxedCandidates, undominated_candidates
from planner.solving.prepare import limits_of_offers, shared_peaks

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence


# Limits as soft constraints: rows of the elastic program that a slack variable may exceed.


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


def soft_constraints(scenario: Scenario, columns: VariableLayout, shared: SharedLimits) -> tuple[SoftConstraint, ...]:
    """Return every limit that can be exceeded by an amount: those of the scenario, and what offers have left."""
    return (
        *_time_limits(scenario, columns),
        *_money_and_count_limits(scenario, columns, shared),
        *_spot_share_limits(scenario, columns),
        *_offer_limits(columns, shared),
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


def _money_and_count_limits(
    scenario: Scenario, columns: VariableLayout, shared: SharedLimits
) -> Iterator[SoftConstraint]:
    """Yield budget, what is limited at one time, and quotas of providers."""
    limits, table = scenario.limits, columns.table
    if limits.budget_usd is not None:
        row = (columns.late_cost_usd(), limits.budget_usd)
        yield SoftConstraint("limits.budget_usd", limits.budget_usd, (row,), limits.budget_usd)
    for peak in shared.peaks:
        yield SoftConstraint(
            f"limits.{peak.key}", peak.most, ((columns.vector(peak.used(table)), peak.most),), peak.most
        )
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
        floors = tuple((-job_share, -bounds.min) for job_share in shares)
        caps = tuple((job_share, bounds.max) for job_share in shares)
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


MAX_BROKEN_FILTERS = 2
"""Filters that a candidate may break; more are allowed only if there is no plan otherwise."""
ELASTIC_TIME_LIMIT_SECONDS = 10.0
CHANGE_TOLERANCE = 1e-6
"""Relative excess over a limit from which on it counts as exceeded: the tolerance of the solvers."""
NEEDED_TOLERANCE = 1e-4
"""Relative excess over a limit from which on it is certain that no solver takes it for kept."""
LIMIT_TOLERANCE = 1e-7
"""Relative tolerance by which the second pass may miss the optimum of the first."""


@dataclass(frozen=True)
class ElasticSolution:
    """A plan of the elastic program: its rows, and how it violates the limits."""

    rows: Integers  # per job: row of the relaxed table
    shares: Floats
    filters: frozenset[int]  # numbers of the filters that it breaks
    excess: dict[str, float]  # path of a soft constraint -> by how much it is exceeded
    paths: frozenset[str]  # of all limits that must be relaxed
    change: float  # filters, and relative changes of the soft constraints, summed
    cost: float  # the objective in dollars


@dataclass(frozen=True, eq=False)
class ElasticProgram:
    """The candidates that may matter, with every limit as a filter or a soft constraint."""

    relaxed: RelaxedCandidates
    columns: VariableLayout
    soft: tuple[SoftConstraint, ...]
    fixed: tuple[Rows, ...] = field(repr=False)

    @classmethod
    def of(cls, relaxed: RelaxedCandidates, max_filters: int = MAX_BROKEN_FILTERS) -> ElasticProgram:
        """Build the program from the candidates that break at most so many filters and that none dominates."""
        scenario = relaxed.scenario
        peaks = shared_peaks(scenario.limits, relaxed.market)
        shared = replace(limits_of_offers(relaxed.market), peaks=peaks, quota=scenario.limits.quota)
        few = undominated_candidates(relaxed, shared, max_filters)
        priced = SharedLimits(value_of_time_usd_per_hour=scenario.value_of_time_usd_per_hour)
        columns = VariableLayout(few.table, priced)
        families = (assignment_rows, spot_floor_rows, spot_cap_rows)
        fixed = tuple(rows for family in families for rows in family(columns))
        return cls(few, columns, soft_constraints(scenario, columns, shared), fixed)

    @property
    def relaxable_paths(self) -> tuple[str, ...]:
        """Paths of the limits that a user can relax: what offers have left is not among them."""
        soft = (constraint.path for constraint in self.soft if not constraint.is_of_offer)
        return tuple(dict.fromkeys([*soft, *(candidate_filter.path for candidate_filter in self.relaxed.filters)]))

    @property
    def offer_paths(self) -> tuple[str, ...]:
        """Paths of what offers have left."""
        return tuple(constraint.path for constraint in self.soft if constraint.is_of_offer)

    def shortages(self, found: ElasticSolution) -> list[tuple[SoftConstraint, float]]:
        """Return the offers that have too little for a plan, each with what it would have to have."""
        excess = found.excess
        return [
            (constraint, constraint.current + excess[constraint.path])
            for constraint in self.soft
            if constraint.is_of_offer and constraint.path in excess
        ]

    def describe(self, found: ElasticSolution) -> str:
        """Return the candidates of a plan in words."""
        relaxed = self.relaxed
        pieces = [relaxed.pieces[place] for place in relaxed.piece[found.rows]]
        rows = zip(pieces, relaxed.row[found.rows].tolist(), found.shares.tolist(), strict=True)
        return describe_jobs(pieces, [describe_candidate(*row, relaxed.market) for row in rows])

    def solve(
        self,
        paths: Collection[str],
        max_change: Mapping[str, float] | None = None,
        caps: Sequence[tuple[Floats, float]] = (),
        one_value: bool = False,
    ) -> ElasticSolution | None:
        """Return the plan that changes some limits least, then costs least; None if there is none.

        Parameters
        ----------
        paths
            The limits that may be relaxed; all others hold.
        max_change
            Bounds on the relative change of some soft constraints, by path.
        caps
            Rows `activity @ x <= cap` over the variables of the candidates, all jobs together.
        one_value
            Return the cheapest plan that breaks at most one filter (one value of one list), whatever it changes.
        """
        if not self.may_have_plan(paths):
            return None
        program = self._program(paths, max_change or {})
        for activity, cap in caps:
            scale = max(1.0, abs(cap))
            program = program.with_rows(single_row("cap", self._vector(activity / scale), upper=cap / scale))
        goals = [self._vector(np.zeros(self._base), 1.0, 1.0), self._vector(cost_objective(self.columns))]
        if one_value:
            program = program.with_rows(single_row("one_value", self._vector(np.zeros(self._base), 1.0), upper=1.0))
            del goals[0]
        values: Floats | None = None
        for goal in goals:
            result = run(program.minimising(goal), time_limit_seconds=ELASTIC_TIME_LIMIT_SECONDS)
            if not result.has_solution or result.objective is None:
                break
            values = result.values
            tolerance = LIMIT_TOLERANCE * max(1.0, abs(result.objective))
            program = program.with_rows(single_row("kept", goal, upper=result.objective + tolerance))
        return None if values is None else self._solution(values)

    def may_have_plan(self, paths: Collection[str]) -> bool:
        """Return whether each job has a candidate that needs no other limit relaxed: without one no plan exists.

        Thousands of sets of limits are tried, most of which fail here, without a program.
        """
        names, needs = self._needs
        holds = np.asarray([name not in paths for name in names], dtype=bool)
        possible = ~np.any(needs[:, holds], axis=1)
        jobs = self.relaxed.table.job[possible]
        return len(np.unique(jobs)) == len(self.relaxed.table.jobs)

    @cached_property
    def _needs(self) -> tuple[tuple[str, ...], Flags]:
        """Return the paths of all limits, and which of them (candidates, paths) a plan with a candidate must relax.

        A soft constraint is one of them if it is exceeded even where every other job takes least of it.
        """
        filters = self.relaxed.filters
        names = tuple(
            dict.fromkeys(
                [
                    *(candidate_filter.path for candidate_filter in filters),
                    *(constraint.path for constraint in self.soft),
                ]
            )
        )
        job = self.relaxed.table.job
        needs = np.zeros((len(job), len(names)), dtype=bool)
        for number, candidate_filter in enumerate(filters):
            needs[:, names.index(candidate_filter.path)] |= self.relaxed.breaks[:, number]
        for soft in self.soft:
            for activity, bound in soft.rows:
                own = np.minimum(*self.columns.at_bounds(activity))
                least = np.full(len(self.relaxed.table.jobs), np.inf)
                np.minimum.at(least, job, own)
                excess = own + (least.sum() - least[job]) - bound
                needs[:, names.index(soft.path)] |= excess > NEEDED_TOLERANCE * soft.scale
        return names, needs

    @cached_property
    def _largest_changes(self) -> tuple[float, ...]:
        """Return the relative excess over each soft constraint that no plan goes beyond."""
        return tuple(constraint.largest_change(self.columns) for constraint in self.soft)

    @property
    def _base(self) -> int:
        """Number of variables of the candidates; those of filters and slacks follow."""
        return self.columns.size

    @cached_property
    def _relax_rows(self) -> Rows:
        """Return the rows of the filters: `sum_{c of j that break f} choose[c] <= relax[f]`."""
        table = self.relaxed.table
        candidates, numbers = np.nonzero(self.relaxed.breaks)
        pairs, row = np.unique(numbers * len(table.jobs) + table.job[candidates], return_inverse=True)
        return sparse_rows(
            "relax",
            np.concatenate([row, np.arange(len(pairs))]),
            np.concatenate([candidates, self._base + pairs // len(table.jobs)]),
            np.concatenate([np.ones(len(row)), -np.ones(len(pairs))]),
            np.full(len(pairs), -INFINITY),
            np.zeros(len(pairs)),
            str,
        )

    @cached_property
    def _soft_rows(self) -> tuple[Rows, ...]:
        """Return the rows of the soft constraints: `activity_l/scale_l - slack[l] <= limit_l/scale_l`."""
        made = []
        for index, constraint in enumerate(self.soft):
            for activity, bound in constraint.rows:
                row = self._vector(activity / constraint.scale)
                row[self._base + len(self.relaxed.filters) + index] = -1.0
                made.append(single_row(f"soft {constraint.path}", row, upper=bound / constraint.scale))
        return tuple(made)

    def _program(self, paths: Collection[str], max_change: Mapping[str, float]) -> Program:
        lower, upper, integer = self.columns.bounds()
        open_filters = [float(candidate_filter.path in paths) for candidate_filter in self.relaxed.filters]
        slack = [
            min(largest, max_change.get(constraint.path, INFINITY)) * (constraint.path in paths)
            for constraint, largest in zip(self.soft, self._largest_changes, strict=True)
        ]
        extra = len(open_filters) + len(slack)
        return Program(
            lower=np.concatenate([lower, np.zeros(extra)]),
            upper=np.concatenate([upper, open_filters, slack]),
            integer=np.concatenate([integer, np.arange(extra) < len(open_filters)]),
            cost=np.zeros(self._base + extra),
            rows=(*self.fixed, self._relax_rows, *self._soft_rows),
            variable_name=self._name,
        )

    def _solution(self, values: Floats) -> ElasticSolution:
        """Return the plan at a point of the program.

        A solver keeps rows only within its tolerance. So the choices are rounded, shares put back between their
        bounds, and the excess over each limit counted again at that point.
        """
        base = values[: self._base]
        rows = self.columns.chosen(base)
        shares = self.columns.spot_share(base, rows)
        is_chosen, share_of = np.zeros((2, len(self.relaxed.table)))
        is_chosen[rows], share_of[rows] = 1.0, shares
        point = self.columns.vector(is_chosen, share_of[self.columns.split])
        over = ((constraint, constraint.excess(point)) for constraint in self.soft)
        excess = {
            constraint.path: amount for constraint, amount in over if amount > CHANGE_TOLERANCE * constraint.scale
        }
        broken = frozenset(np.flatnonzero(self.relaxed.breaks[rows].any(axis=0)).tolist())
        change = len(broken) + sum(excess.get(constraint.path, 0.0) / constraint.scale for constraint in self.soft)
        paths = {*excess, *(self.relaxed.filters[number].path for number in broken)}
        cost = float(cost_objective(self.columns) @ point)
        return ElasticSolution(rows, shares, broken, excess, frozenset(paths), change, cost)

    def _vector(self, base: Floats, per_filter: float = 0.0, per_slack: float = 0.0) -> Floats:
        return np.concatenate(
            [base, np.full(len(self.relaxed.filters), per_filter), np.full(len(self.soft), per_slack)]
        )

    def _name(self, column: int) -> str:
        if column < self._base:
            return self.columns.name(column)
        others = [
            f"relax[{candidate_filter.path},{candidate_filter.value}]" for candidate_filter in self.relaxed.filters
        ]
        return [*others, *(f"slack[{constraint.path}]" for constraint in self.soft)][column - self._base]
