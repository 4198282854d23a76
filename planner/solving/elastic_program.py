"""The elastic program: limits as soft rows, and the least relaxation of them that gives a plan.

A filter is a limit that admits a single candidate or not: the lists of GPUs, providers, regions and tiers, the
job's techniques, the VRAM margin. What can be exceeded by an amount (hours, dollars, counts) is a soft constraint of
the elastic program instead, so candidates are uncut here.

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
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from planner import generation
from planner.arrays import CandidateTable, Flags, Floats, Integers, concatenate
from planner.candidates.candidate_enumeration import Margins, enumerate_candidates
from planner.candidates.job_candidates import JobCandidates
from planner.candidates.market import Market
from planner.candidates.screening import screen
from planner.candidates.spot_search import MEAN_SHARES
from planner.configurations.coefficients import memory_margin
from planner.configurations.recipe import Recipe, frameworks_of, quantisations
from planner.formulation.constraints import assignment_rows, find_undominated, spot_cap_rows, spot_floor_rows
from planner.formulation.program import (
    INFINITY,
    Program,
    Rows,
    SharedLimits,
    VariableLayout,
    cost_objective,
    single_row,
    sparse_rows,
)
from planner.formulation.solvers import run
from planner.library.schema import Library
from planner.library.technique_tables import read_techniques
from planner.scenario.inference_job import InferenceTechniques
from planner.scenario.job import Job
from planner.scenario.limits import UNLIMITED_HOURS, AllowForbid, Limits, SpotShare, max_run_hours
from planner.scenario.scenario import Scenario
from planner.scenario.techniques import Techniques
from planner.solving.chosen import describe_candidate, describe_jobs
from planner.solving.prepare import PreparedScenario, limits_of_offers, shared_peaks

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence


# Limits that admit a single candidate or not, and which candidates break them.


LISTS = {"providers": "provider", "gpus": "gpu", "regions": "region", "tiers": "tier"}
"""Limit -> the field of an offer that it reads."""
TECHNIQUES = (
    *("weight_bits", "precision", "activation_checkpointing", "sharding", "attention", "optimizer", "offload"),
    "latents",
)
"""Techniques that a recipe has under the same name, without the method and how its weights are quantised."""
DEGREES = ("tensor_parallel", "pipeline_parallel", "context_parallel", "expert_parallel")
HEADROOM, MAX_PRICE_AGE, TOOLS = "limits.vram_headroom", "limits.max_price_age", "limits.tools"
WITHOUT_LIST = (HEADROOM, MAX_PRICE_AGE, TOOLS)
"""Limits of single candidates that name no values: they are lifted as a whole."""


class CandidateFilter(NamedTuple):
    """A limit that excludes candidates: its path in the scenario, and the value that would have to be admitted."""

    path: str
    value: str = ""  # empty for the VRAM margin and the age of prices
    job: int = -1  # index, if it is a technique of one job


@dataclass(frozen=True)
class FilterCatalog:
    """The filters of a scenario that candidates break, numbered in the order in which they are found."""

    scenario: Scenario
    market: Market
    library: Library
    numbers: dict[CandidateFilter, int] = field(default_factory=dict)

    def violations(self, piece: JobCandidates, job: int, table: CandidateTable) -> Integers:
        """Return the numbers (n, rules) of the filters that rows of a job's table break, -1 for rules they keep."""
        limits, broken = self.scenario.limits, []
        for name, offer_field in LISTS.items():
            rule: AllowForbid = getattr(limits, name)
            values = [getattr(offer, offer_field) for offer in self.market.offers]
            # An offer without a GPU has no value: a list of GPUs does not apply to it.
            filters = [
                None if value is None or rule.permits(value) else CandidateFilter(f"limits.{name}", str(value))
                for value in values
            ]
            broken.append(self._numbers(filters)[table.offer])
        too_old = CandidateFilter(MAX_PRICE_AGE)
        aged = [too_old if limits.is_outdated(offer) else None for offer in self.market.offers]
        broken.append(self._numbers(aged)[table.offer])
        of_tools = CandidateFilter(TOOLS) if limits.tools else None
        broken.append(self._numbers([None, of_tools])[self._refused_by_tools(piece, table)])
        of_recipe = [_technique_filters(recipe, self.scenario.jobs[job], job, self.library) for recipe in piece.recipes]
        for name in ("method", "quant", *TECHNIQUES, *DEGREES):
            numbers = self._numbers([filters.get(name) for filters in of_recipe])[table.recipe]
            # Sharding is a technique on several GPUs only.
            broken.append(np.where(table.gpus > 1, numbers, -1) if name == "sharding" else numbers)
        no_margin = piece.headroom == 0.0 and limits.vram_headroom != 0.0
        broken.append(self._numbers([CandidateFilter(HEADROOM) if no_margin else None]).repeat(len(table)))
        return np.stack(broken, axis=1)

    def _refused_by_tools(self, piece: JobCandidates, table: CandidateTable) -> Integers:
        """Return 1 for the rows (n,) of a table that one of the tools refuses, else 0."""
        refused, tools = np.zeros(len(table), dtype=bool), self.scenario.limits.tools
        if tools:
            from planner.candidates.tool_support import keeps_spot, tool_refusals

            for _, rows in tool_refusals(replace(piece, table=table), self.market, tools):
                refused |= rows
            refused |= (table.share_low > 0) & ~keeps_spot(table, self.market, tools)
        return refused.astype(np.int64)

    def _numbers(self, filters: Sequence[CandidateFilter | None]) -> Integers:
        """Return the number of each filter, -1 for None."""
        numbers = [
            -1 if candidate_filter is None else self.numbers.setdefault(candidate_filter, len(self.numbers))
            for candidate_filter in filters
        ]
        return np.asarray(numbers, dtype=np.int64)


def _technique_filters(recipe: Recipe, job: Job, index: int, library: Library) -> dict[str, CandidateFilter]:
    """Return what the job's `techniques` would have to admit for a recipe, by field.

    The rules are those of `planner.configurations.recipe`.
    """
    given = job.techniques
    excluded: dict[str, object] = {}
    if given.method is not None and recipe.method not in given.method:
        excluded["method"] = recipe.method
    for name in TECHNIQUES:
        allowed = getattr(given, name)
        if allowed is None or getattr(recipe, name) in allowed:
            continue
        # Full training keeps 16-bit weights, whatever the scenario says of a LoRA base.
        keeps_weights = name == "weight_bits" and recipe.method == "full" and given.method is not None
        if not keeps_weights:
            excluded[name] = getattr(recipe, name)
    if given.quant is not None and recipe.quant not in quantisations(
        recipe.weight_bits, given.quant, recipe.framework, library
    ):
        excluded["quant"] = recipe.quant
    together = given.tensor_parallel or given.pipeline_parallel
    for name in DEGREES:
        degree, asked = getattr(recipe, name), getattr(given, name)
        if (asked or (together and name in DEGREES[:2])) and degree not in (asked or (1,)):
            excluded[name] = degree
    return {
        name: CandidateFilter(f"jobs.{job.name}.techniques.{name}", str(value), index)
        for name, value in excluded.items()
    }


@dataclass(frozen=True)
class RelaxedCandidates:
    """Every candidate of every job, as one table with uncut spot shares, and which filters each breaks."""

    scenario: Scenario
    market: Market
    table: CandidateTable
    pieces: tuple[JobCandidates, ...]
    piece: Integers  # row -> index into pieces
    row: Integers  # row -> row of that piece's uncut table
    filters: tuple[CandidateFilter, ...]
    breaks: Flags  # (n, filters)

    def rows(self, which: Integers | Flags) -> RelaxedCandidates:
        """Return the same with only some rows."""
        return replace(
            self, table=self.table.rows(which), piece=self.piece[which], row=self.row[which], breaks=self.breaks[which]
        )


def margin_of(job: Job, limits: Limits, library: Library) -> float:
    """Return the margin of the fit rule for a job, the widest of its frameworks and of what it may offload."""
    if limits.vram_headroom is not None:
        return limits.vram_headroom
    if not job.trains:  # an engine leaves what it does not take
        return 0.0
    table = library.techniques
    tried = job.techniques.offload or table.tried("offload")
    hosted = any(table.values.offload.values[name].optimizer for name in tried)
    return max(memory_margin(name, job.memory_confidence, library, hosted) for name in frameworks_of(job, library))


def unrestricted_techniques(given: Techniques) -> Techniques:
    """Return techniques that restrict nothing, with the same adapters, quantisation and penalties.

    Optimizers and offload that are tried only where a job lists them stay, with those that are tried anyway; latents,
    where a job says how it reads them, may be read in every way. Of generation the bits of the weights are freed, and
    engines stay.
    """
    if isinstance(given, InferenceTechniques):
        return given.model_copy(update={} if given.weight_format else {"weight_bits": generation.ALL_BITS})
    table, kept = read_techniques(), dict[str, Any]()
    for name in ("optimizer", "offload"):
        if (values := getattr(given, name)) is not None:
            anyway = (value for row in table.of(name).tried for value in row.values)
            kept[name] = tuple(dict.fromkeys((*values, *anyway)))
    if given.latents is not None:
        kept["latents"] = tuple(dict.fromkeys((*given.latents, *table.of("latents").values)))
    return Techniques(quant=given.quant, penalty_usd=given.penalty_usd, lora=given.lora_given, **kept)


def relax_candidates(
    prepared: PreparedScenario, instead: Mapping[int, Sequence[JobCandidates]] | None = None
) -> RelaxedCandidates:
    """Return the candidates of a scenario together with those that its filters exclude.

    `instead` gives some jobs (by index) other candidates than all of these.
    """
    scenario, market, library = prepared.scenario, prepared.market, prepared.library
    catalog = FilterCatalog(scenario, market, library)
    pieces: list[JobCandidates] = []
    parts: list[tuple[CandidateTable, Integers, Integers, Integers]] = []
    for index, candidate in enumerate(prepared.candidates):
        for piece in (instead or {}).get(index) or pieces_of(candidate, scenario.limits, market, library):
            for whole, every in _without_deadline_cut(piece, scenario.limits, market, library):
                known = market.is_known(scenario.limits)[whole.offer]  # no value of a limit admits the others
                table, rows = whole.rows(known), every[known]
                piece_of = np.full(len(rows), len(pieces), dtype=np.int64)
                parts.append((table, piece_of, rows, catalog.violations(piece, index, table)))
            pieces.append(piece)
    tables, *columns = zip(*parts, strict=True)
    piece_column, row_column, numbers = map(np.concatenate, columns)
    breaks = np.zeros((len(numbers), len(catalog.numbers) + 1), dtype=bool)
    np.put_along_axis(breaks, numbers, True, axis=1)  # -1, no filter, is the last column
    filters = tuple(catalog.numbers)
    table = concatenate(tables)
    return RelaxedCandidates(scenario, market, table, tuple(pieces), piece_column, row_column, filters, breaks[:, :-1])


def pieces_of(one: JobCandidates, limits: Limits, market: Market, library: Library) -> Iterator[JobCandidates]:
    """Yield the candidates as given, with unrestricted techniques, and with these but without a VRAM margin."""
    yield one
    unrestricted = unrestricted_techniques(one.job.techniques)
    job = one.job.model_copy(update={"techniques": unrestricted})
    names = one.table.jobs

    def made(headroom: float | None) -> JobCandidates:
        margins = Margins(headroom, limits.budget_confidence)
        return enumerate_candidates(job, one.architecture, market, names, library, margins)

    if unrestricted != one.job.techniques:
        yield made(limits.vram_headroom)
    if margin_of(job, limits, library) > 0:
        yield made(0.0)


def _without_deadline_cut(
    piece: JobCandidates, limits: Limits, market: Market, library: Library
) -> Iterator[tuple[CandidateTable, Integers]]:
    """Yield all rows with their whole range of spot shares, and their rows in the uncut table.

    Rows that are billed in coarse steps come twice: also at the share that the present deadline cuts to. What an
    offer has left, in machines or in hours paid for, is a soft constraint of the elastic program, too.
    """
    free = replace(piece, job=piece.job.model_copy(update={"deadline_hours": None}))
    stockless = market.without_stock()
    free, piece = free.without_hours_limit(), piece.without_hours_limit()
    unlimited = Limits(max_hours=UNLIMITED_HOURS, max_price_age=None)
    lifted = screen(free, stockless, unlimited, library, method_filter=False, scope=MEAN_SHARES)
    yield lifted.table, lifted.rows
    timed = Limits(max_hours=limits.max_hours, spot_share=limits.spot_share, max_price_age=None)
    cut = screen(piece, stockless, timed, library, method_filter=False, scope=MEAN_SHARES)
    inside = cut.rounded & (cut.table.share_low > 0) & (cut.table.share_low < 1)
    yield cut.table.rows(inside), cut.rows[inside]


def undominated_candidates(relaxed: RelaxedCandidates, shared: SharedLimits, max_filters: int) -> RelaxedCandidates:
    """Return rows that break at most so many filters and that no row breaking the same filters or fewer dominates.

    Rows are grouped by the set of filters that they break. A row may replace another in every plan only if it breaks
    no filter that the other keeps, so each group is compared with itself and with the fronts of its subsets.
    """
    within = np.flatnonzero(relaxed.breaks.sum(axis=1) <= max_filters)
    packed = np.packbits(relaxed.breaks[within], axis=1) if relaxed.filters else np.zeros((len(within), 1), np.uint8)
    sets, group = np.unique(packed, axis=0, return_inverse=True)
    group = group.reshape(-1)
    first = [within[np.argmax(group == number)] for number in range(len(sets))]
    broken = [frozenset(np.flatnonzero(relaxed.breaks[row]).tolist()) for row in first]
    fronts: dict[frozenset[int], Integers] = {}
    for number in sorted(range(len(sets)), key=lambda index: (len(broken[index]), sorted(broken[index]))):
        members = within[group == number]
        rivals = [front for fewer, front in fronts.items() if fewer < broken[number]]
        pool = np.concatenate([*rivals, members])
        keep = find_undominated(relaxed.table.rows(pool), shared)
        fronts[broken[number]] = members[keep[len(pool) - len(members) :]]
    return relaxed.rows(np.sort(np.concatenate(list(fronts.values()))) if fronts else within)


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

    def shortages(self, solution: ElasticSolution) -> list[tuple[SoftConstraint, float]]:
        """Return the offers that have too little for a plan, each with what it would have to have."""
        excess = solution.excess
        return [
            (constraint, constraint.current + excess[constraint.path])
            for constraint in self.soft
            if constraint.is_of_offer and constraint.path in excess
        ]

    def describe(self, solution: ElasticSolution) -> str:
        """Return the candidates of a plan in words."""
        relaxed = self.relaxed
        pieces = [relaxed.pieces[place] for place in relaxed.piece[solution.rows]]
        rows = zip(pieces, relaxed.row[solution.rows].tolist(), solution.shares.tolist(), strict=True)
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
