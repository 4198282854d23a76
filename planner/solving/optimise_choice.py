"""The best choice among screened candidates: bound, dominance, ties, the budget of all jobs; again after a change.

The row of the budget adds up what each job needs at the confidence by itself. Jobs on different markets are seldom
unlucky at once, so that they mostly need less together, and at low confidences may need more. So the amount of the row
is searched: first no row at all, then amounts that fall from above the budget to the budget itself. The first plan
whose jobs together keep the budget is taken.

The amounts lie on a grid that does not depend on the budget. What a budget allows, a larger one allows, too: its search
meets the same amounts, so that more dollars never make a plan more expensive. A plan without a row is the best of all.
Any other is the best of those within its amount; how much less another might cost is known by the plan without a row.

Each pass minimises one goal while every earlier goal stays within a small slack of its optimum. The slack is a
row `cap_<goal>` of the later programs: it is larger than the tolerance of the solvers, so that each of them finds
the same plan, and smaller than what a user cares about.

Between passes, candidates that cannot be part of any such plan are dropped. The bound is exact: if the other jobs
were all at their own best, and the plan still exceeded the cap, then no plan with this candidate keeps it. So the
later passes are small, and for one job mostly unnecessary.
"""

from __future__ import annotations

import datetime
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from itertools import takewhile
from typing import TYPE_CHECKING, get_args

import numpy as np

from planner.arrays import CandidateTable, Floats, Integers, concatenate
from planner.errors import NoPlanError
from planner.formulation.constraints import build_program, find_undominated
from planner.formulation.program import (
    Program,
    SharedLimits,
    TypicalPeak,
    TypicalPeaks,
    VariableLayout,
    cost_objective,
    hours_objective,
    lossiness_objective,
    machines_objective,
    memory_objective,
    name_objective,
    preference_objective,
    single_row,
    time_objective,
)
from planner.formulation.solvers import (
    DEFAULT_GAP,
    DEFAULT_SOLVER,
    SolveResult,
    check_numbers,
    run,
    solve_single_choice,
)
from planner.loading.scenario_file import change_scenario
from planner.results.plan import Assignment, TieStep
from planner.results.plan_parts import joint_late_usd
from planner.scenario.limits import PEAK_TOLERANCE
from planner.scenario.scenario import MOST_ABOVE_LEAST, Scenario, SolveOptions
from planner.solving.chosen import ChosenCandidate, describe_candidate, describe_jobs
from planner.solving.notes import build_assignment
from planner.solving.prepare import PreparedScenario, build_shared_limits, prepare, starts_at_once, typical_stock

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


@dataclass(frozen=True, eq=False)
class LexicographicSolution:
    """The chosen row of the table and its spot share for each job (empty without a plan), and the first pass."""

    first: SolveResult
    rows: Integers  # (jobs,)
    spot_share: Floats  # (jobs,)
    strict_rows: Integers  # (jobs,) of the first pass
    strict_share: Floats  # (jobs,)


@dataclass(frozen=True)
class JointBudget:
    """What the jobs of a choice need together, and how the budget was kept."""

    late_usd: float  # dollars of all jobs together at the confidence
    row_usd: float  # amount of the row of what each needs by itself; inf: no row was needed
    least: float  # the objective without a budget: no plan is below it
    has_luck: bool  # whether a plan on spot was compared with the budget


@dataclass(frozen=True)
class OptimisedChoice:
    """The choice of the program, and for each job its row of the joined table."""

    choice: LexicographicSolution
    rows: tuple[int, ...]  # rows of the joined table, one per job; empty without a plan
    shares: tuple[float, ...]  # spot share of each job, negligible shares rounded away
    table: CandidateTable  # joined, of what dominance leaves of each job
    owner: Integers  # row of the joined table -> row of its job's screened table
    dominated: int
    joint: JointBudget | None = None  # of several jobs with a budget, of which some may be on spot
    keeps_typical: bool = True  # False: no plan keeps the typical stock of what it rents, a guess
    typical: tuple[TypicalPeak, ...] = ()  # those limits of the typical stock that it had to be given

    @property
    def chosen(self) -> CandidateTable:
        """The candidates of the choice, one row per job."""
        return self.table.rows(np.asarray(self.rows))

    @property
    def strict(self) -> OptimisedChoice:
        """The choice before the order of ties."""
        rows = tuple(self.choice.strict_rows.tolist())
        return replace(self, rows=rows, shares=tuple(self.choice.strict_share.tolist()))

    @property
    def late_cost_usd(self) -> float:
        """Dollars at the confidence of the budget that each job needs by itself, summed."""
        return float(np.sum(self.chosen.late_cost_usd(np.asarray(self.shares))))

    @property
    def late_usd(self) -> float:
        """Dollars at the confidence of the budget that the jobs need together; the sum where that is not known."""
        return self.late_cost_usd if self.joint is None else self.joint.late_usd


AMOUNT_STEP = 1.01
"""Ratio of one amount of the row to the next."""
MOST_AMOUNT = 1.25
"""Largest amount of the row over the budget: jobs that need more by themselves seldom keep it together."""
NOTED = 0.01
"""Dollars or hours from which on a plan says how much better another may be."""
EQUAL_USD = 1e-7
"""Relative, of dollars within a budget."""


def may_share_luck(prepared: PreparedScenario) -> bool:
    """Return whether several jobs, of which some may be on spot, share a budget."""
    if prepared.scenario.limits.budget_usd is None or len(prepared.scenario.jobs) < 2 or prepared.is_slim:
        return False
    return any(bool((job.table.share_high > 0).any()) for job in prepared.screened)


def optimise_jointly(
    prepared: PreparedScenario, options: SolveOptions, solve_row: Callable[[float | None, bool], OptimisedChoice]
) -> OptimisedChoice:
    """Return the best choice whose jobs together keep the budget, as far as the amounts of the row find it.

    `solve_row` takes the amount of the row, None for no row, and whether to break ties. Where no amount has a plan that
    keeps the budget, that of the budget itself is returned: its jobs keep it each by itself, with no more probability
    together than is said of it.
    """
    search = _Search(prepared, options, solve_row)
    free = solve_row(None, True)
    if not free.rows or free.choice.first.objective is None:
        return free
    if (kept := search.kept(free, math.inf)) is not None:
        return kept
    search.least = -math.inf if free.choice.first.bound is None else free.choice.first.bound
    if (choice := search.first_kept(amounts_between(search.budget * MOST_AMOUNT, search.budget))) is not None:
        return choice
    alone = solve_row(search.budget, True)
    if not alone.rows or (kept := search.kept(alone, search.budget)) is not None:
        return kept or alone
    less = search.first_kept(amounts_between(search.budget, search.budget / MOST_AMOUNT))
    return less or replace(alone, joint=search.joint(search.late_usd(alone), search.budget))


def amounts_between(most: float, least: float) -> Iterator[float]:
    """Yield the amounts of the grid between two, from the largest."""
    step = math.log(AMOUNT_STEP)
    for number in range(math.floor(math.log(most) / step), math.ceil(math.log(least) / step) - 1, -1):
        if least < (amount := AMOUNT_STEP**number) < most:
            yield amount


class _Search:
    """The plans of one scenario within several amounts of the row."""

    def __init__(
        self,
        prepared: PreparedScenario,
        options: SolveOptions,
        solve_row: Callable[[float | None, bool], OptimisedChoice],
    ) -> None:
        self.prepared, self.solve_row = prepared, solve_row
        self.as_of = options.as_of or datetime.date.today()
        self.budget = float(prepared.scenario.limits.budget_usd or 0.0)
        self.least, self.has_luck = -math.inf, False
        self.known: dict[tuple[int, int, float], Assignment] = {}

    def joint(self, late_usd: float, row_usd: float) -> JointBudget:
        """Return what is known of a choice."""
        return JointBudget(late_usd, row_usd, self.least, self.has_luck)

    def first_kept(self, amounts: Iterator[float]) -> OptimisedChoice | None:
        """Return the choice of the first amount, from the largest, whose jobs together keep the budget."""
        below = math.inf
        for amount in amounts:
            if amount >= below:  # the same plan again
                continue
            optimised = self.solve_row(amount, False)
            if not optimised.rows or not optimised.choice.first.is_proven:  # less has no plan either, or takes too long
                return None
            if self.kept(optimised, amount) is not None:
                return self.kept(self.solve_row(amount, True), amount) or self.kept(optimised, amount)
            below = optimised.late_cost_usd
        return None

    def kept(self, optimised: OptimisedChoice, amount: float) -> OptimisedChoice | None:
        """Return a choice whose jobs together keep the budget, with or without the order of ties; None where none."""
        for choice in (optimised, optimised.strict):
            late_usd = self.late_usd(choice)
            if late_usd <= self.budget * (1 + EQUAL_USD):
                return replace(choice, joint=self.joint(late_usd, amount))
        return None

    def late_usd(self, choice: OptimisedChoice) -> float:
        """Return the dollars of all jobs of a choice together at the confidence of the budget."""
        if not any(share > 0 for share in choice.shares):
            return choice.late_cost_usd
        self.has_luck = True
        rows = zip(choice.rows, choice.shares, strict=True)
        jobs = [self._job(index, int(choice.owner[row]), share) for index, (row, share) in enumerate(rows)]
        return joint_late_usd(jobs, self.prepared.scenario.limits.budget_confidence)

    def _job(self, index: int, row: int, share: float) -> Assignment:
        prepared = self.prepared
        if (key := (prepared.first_twin[index], row, share)) not in self.known:
            chosen = run_of_job(prepared, index, row, share, None)
            self.known[key] = build_assignment(chosen, prepared.scenario, prepared.library, self.as_of)
        return self.known[key]


def keeps_together(prepared: PreparedScenario, jobs: Sequence[Assignment]) -> bool:
    """Return whether jobs together keep the budget at its confidence; True without one."""
    limits = prepared.scenario.limits
    if limits.budget_usd is None:
        return True
    return joint_late_usd(jobs, limits.budget_confidence) <= limits.budget_usd * (1 + EQUAL_USD)


def proven_least(solved: OptimisedChoice) -> float | None:
    """Return what no plan that keeps the budget stays below, where a plan within an amount of the row may not be it."""
    joint, objective = solved.joint, solved.choice.first.objective
    if joint is None or objective is None or not joint.has_luck or math.isinf(joint.row_usd):
        return None
    return joint.least if objective - joint.least >= NOTED else None


def budget_notes(scenario: Scenario, solved: OptimisedChoice, shown: float | None) -> tuple[str, ...]:
    """Return how much better than what is shown another plan within the budget may be; nothing where none is."""
    least, joint = proven_least(solved), solved.joint
    if least is None or joint is None or shown is None or math.isinf(least):
        return ()
    better = shown - least
    more = (
        f"end up to {better:,.2f} h earlier" if scenario.objective_kind == "time" else f"cost up to ${better:,.2f} less"
    )
    at = f"{scenario.limits.budget_confidence * 100:.3g} %"
    tried = f"plans were tried whose jobs, each by itself at {at}, need up to ${joint.row_usd:,.2f} in all"
    return (f"another plan within the budget may {more}: {tried}",)


Ties = Callable[[float], float]
"""Dollars above a least cost within which the order of ties decides, see `planner.candidates.market`."""
Run = Callable[[Program], "SolveResult"]
"""What runs a program: the solver, its limits and its gap are chosen by the caller."""
Check = Callable[[CandidateTable], None]
"""What raises where a choice, a row for each job, is none."""


@dataclass(frozen=True)
class Goal:
    """A goal to minimise, and how far above its optimum later passes may go."""

    name: str
    coefficients: Callable[[VariableLayout], Floats]
    slack: float


@dataclass(frozen=True)
class Cap:
    """What a goal may be at most in later passes."""

    goal: Goal
    most: float


COST = Goal("cost", cost_objective, 0.005)  # $: half a cent
PREFERENCE_GOAL = Goal("preference", preference_objective, 0.1)  # whole numbers
MACHINES_GOAL = Goal("machines", machines_objective, 0.1)  # whole numbers
HOURS_GOAL = Goal("hours", hours_objective, 1e-3)  # h: a few seconds, more than the tolerance of solvers
LAST = Goal("last", time_objective, 0.001)  # h
LOSSINESS = Goal("lossiness", lossiness_objective, 0.1)  # whole numbers
MEMORY = Goal("memory", memory_objective, 1e-3)  # GiB
NAME_ORDER = Goal("names", name_objective, 0.0)


def no_ties(_: float) -> float:
    """Return the tie of a strict optimum: no more than the slack of the goal."""
    return 0.0


GOALS = {
    "cost": (COST, PREFERENCE_GOAL, MACHINES_GOAL, HOURS_GOAL, LOSSINESS, MEMORY, NAME_ORDER),
    "time": (LAST, COST, PREFERENCE_GOAL, MACHINES_GOAL, LOSSINESS, MEMORY, NAME_ORDER),
}
"""The passes, in order, for each objective."""
SHARE_GOALS = {"cost": HOURS_GOAL, "time": COST}
"""The goal whose pass fixes the spot shares, too: the last one that depends on them."""

STRICT_SHARE, LEAST_SLACK_USD = 1e-6, 2e-6
"""Share of the least cost that a strict optimum may be above it, and the dollars that solvers miss a row by."""

BOUND_TOLERANCE = 1e-6
"""How far above a cap a candidate is kept: the feasibility tolerance of solvers."""

SNAP_TOLERANCE = 1e-5
"""A share this close to its floor or cap is moved there: solvers miss it by their tolerance."""


SAME_HOURS = 1e-3
"""Hours below which two plans end together, as in the pass for hours of a solve."""


def first_better_step(less: Floats) -> TieStep | None:
    """Return the first step of a tie, of all or only the first ones, of which a plan has less than another."""
    pairs = zip(get_args(TieStep), less.tolist(), strict=False)
    return next((name for name, amount in pairs if amount > SAME_HOURS), None)


def accept(_: CandidateTable) -> None:
    """Raise nothing: any choice is one."""


def solve_lexicographic(
    table: CandidateTable,
    shared: SharedLimits,
    run: Run,
    ties: Ties = no_ties,
    breaks_ties: bool = True,
    check: Check = accept,
) -> LexicographicSolution:
    """Return the plan of least objective; within a tie the one that comes first in the order of `GOALS`.

    A tie is half a cent, or more dollars if `ties` says so: the objective of the first pass stays the strict one.
    With objective `time`: the least last finish; within 0.001 h of it the least cost, then as above. A first pass
    without a proven optimum is followed by the one that fixes the spot shares only: breaking ties means nothing then.
    Without `breaks_ties` the first pass is the only one. `check` is called with what the first pass and the last one
    choose, and may raise.
    """
    narrowed = _fix_cheapest_shares(table, shared)
    first = run(build_program(VariableLayout(narrowed, shared)))
    if not first.has_solution:
        nothing = np.zeros(0, dtype=np.int64)
        return LexicographicSolution(first, nothing, np.zeros(0), nothing, np.zeros(0))
    columns = VariableLayout(narrowed, shared)
    strict_rows = rows = columns.chosen(first.values)
    strict_shares = shares = columns.spot_share(first.values, rows)
    check(narrowed.rows(rows))
    if not breaks_ties:
        return LexicographicSolution(first, rows, _snap_shares(narrowed, rows, shares), rows, shares)
    strict, share_goal = GOALS[shared.objective][0], SHARE_GOALS[shared.objective]
    goal = _with_ties(strict, first.objective, ties)
    # Near ties choose between candidates, each at its cheapest share: dollars are not spent on a faster share.
    is_near = goal.slack > strict.slack
    pool = narrowed if is_near else table
    caps, result, kept, has_shares = [Cap(goal, _cap(goal, first))], first, np.arange(len(pool)), False
    for goal in GOALS[shared.objective][1:]:
        kept = kept[_feasible_under_caps(VariableLayout(pool.rows(kept), shared), caps)]
        columns = VariableLayout(pool.rows(kept), shared)
        decided = not (first.is_proven and result.is_proven) or _is_decided(columns, goal)
        if decided and goal is not share_goal:
            continue
        result = run(_pass(columns, goal, caps))
        if not result.has_solution:  # only a limit or numerical trouble can do that: keep the present rows
            break
        before, rows = rows, kept[columns.chosen(result.values)]
        if goal is share_goal:
            shares, has_shares = columns.spot_share(result.values, columns.chosen(result.values)), True
        elif has_shares and not np.array_equal(before, rows):
            shares = _settle_shares(pool, shared, share_goal, caps, rows, run)
        caps.append(Cap(goal, _cap(goal, result)))
    check(pool.rows(rows))
    if is_near and first.is_proven:
        shares = _cheapest_shares(table, shared, rows, run, shares)
    return LexicographicSolution(first, rows, _snap_shares(table, rows, shares), strict_rows, strict_shares)


def _is_decided(columns: VariableLayout, goal: Goal) -> bool:
    """Return whether a goal that no spot share changes is the same for every choice that is left."""
    values, job = goal.coefficients(columns)[columns.choose], columns.table.job
    least, most = np.full(len(columns.table.jobs), np.inf), np.full(len(columns.table.jobs), -np.inf)
    np.minimum.at(least, job, values)
    np.maximum.at(most, job, values)
    return bool(np.all(most <= least))


def _with_ties(goal: Goal, reached: float | None, ties: Ties) -> Goal:
    """Return the goal with the slack of near ties, where it is dollars; a strict one is met to a millionth."""
    if goal is not COST or reached is None:
        return goal
    strict = min(goal.slack, max(STRICT_SHARE * abs(reached), LEAST_SLACK_USD))
    return replace(goal, slack=max(strict, ties(reached)))


def potentially_optimal_rows(table: CandidateTable, shared: SharedLimits, ties: Ties = no_ties) -> Integers:
    """Return the rows that a plan of one job may need: others are worse than one row at an end of its share.

    This is a bound, cheaper than comparing pairs, and exact for one job because its plan is one row. With several
    jobs, or if no end keeps the budget, every row stays.
    """
    everything = np.arange(len(table))
    if len(table.jobs) != 1 or not len(table):
        return everything
    goal = GOALS[shared.objective][0]
    if goal is LAST:
        ends = (table.late_hours(table.share_low), table.late_hours(table.share_high))
    else:
        columns = VariableLayout(table, shared)
        ends = columns.at_bounds(goal.coefficients(columns))
    reached = np.inf
    budget = np.inf if shared.budget_usd is None else shared.budget_usd
    for share, values in zip((table.share_low, table.share_high), ends, strict=True):
        allowed = values[table.late_cost_usd(share) <= budget]
        reached = min(reached, float(np.min(allowed, initial=np.inf)))
    slack = 0.0
    if np.isfinite(reached):
        slack = _with_ties(goal, reached, ties).slack + BOUND_TOLERANCE * max(1.0, abs(reached))
    return np.flatnonzero(np.minimum(*ends) <= reached + slack)


def _cap(goal: Goal, result: SolveResult) -> float:
    assert result.objective is not None  # callers ask only where there is a solution
    return result.objective + goal.slack


def _pass(columns: VariableLayout, goal: Goal, caps: Sequence[Cap]) -> Program:
    """Return the program that minimises a goal under the caps of the earlier ones."""
    program = build_program(columns).minimising(goal.coefficients(columns))
    rows = [single_row(f"cap_{cap.goal.name}", cap.goal.coefficients(columns), upper=cap.most) for cap in caps]
    return program.with_rows(*rows)


def _fix_cheapest_shares(table: CandidateTable, shared: SharedLimits) -> CandidateTable:
    """Fix every share at its cheaper end if only the objective depends on it.

    Without a budget no shared row holds the share. The objective is linear in it between floor and cap, so an end
    is optimal, and the first pass needs no share variables.
    """
    if shared.budget_usd is not None or shared.objective != "cost":
        return table
    columns = VariableLayout(table, shared)
    low, high = columns.at_bounds(COST.coefficients(columns))
    share = np.where(high <= low, table.share_high, table.share_low)
    return replace(table, share_low=share, share_high=share)


def _feasible_under_caps(columns: VariableLayout, caps: Sequence[Cap]) -> Integers:
    """Return the candidates that keep the caps if all other jobs are at their own best."""
    table = columns.table
    keep = np.ones(len(table), dtype=bool)
    for held in caps:
        goal, cap = held.goal, held.most
        if goal is LAST:
            finish = np.minimum(table.late_hours(table.share_low), table.late_hours(table.share_high))
            keep &= finish <= cap + BOUND_TOLERANCE
            continue
        least = np.minimum(*columns.at_bounds(goal.coefficients(columns)))
        best = np.full(len(table.jobs), np.inf)
        np.minimum.at(best, table.job, least)
        keep &= least - best[table.job] + best.sum() <= cap + BOUND_TOLERANCE * max(1.0, abs(cap))
    return np.flatnonzero(keep)


def _settle_shares(
    table: CandidateTable, shared: SharedLimits, share_goal: Goal, caps: Sequence[Cap], rows: Integers, run: Run
) -> Floats:
    """Return spot shares of chosen rows by the pass that fixes them, without its own cap and later ones."""
    earlier = list(takewhile(lambda cap: cap.goal is not share_goal, caps))
    columns = VariableLayout(table.rows(rows), shared)
    result = run(_pass(columns, share_goal, earlier))
    return columns.spot_share(result.values, np.arange(len(rows)))


def _cheapest_shares(table: CandidateTable, shared: SharedLimits, rows: Integers, run: Run, known: Floats) -> Floats:
    """Return spot shares of chosen rows: of least objective, and within its own small slack of least hours.

    `known` shares stay where a limit of the solver leaves no others.
    """
    result = run(build_program(VariableLayout(table.rows(rows), shared)))
    if not result.has_solution:
        return known
    strict = GOALS[shared.objective][0]
    return _settle_shares(table, shared, SHARE_GOALS[shared.objective], [Cap(strict, _cap(strict, result))], rows, run)


def _snap_shares(table: CandidateTable, rows: Integers, shares: Floats) -> Floats:
    """Move shares to a floor or cap that they miss by a solver's tolerance."""
    for end in (table.share_low[rows], table.share_high[rows]):
        shares = np.where(np.abs(shares - end) <= SNAP_TOLERANCE, end, shares)
    return shares


# The best choice among screened candidates: bound, dominance, passes, rounding of shares.


NEGLIGIBLE_SHARE = 0.01
"""Share of the work below which a second market is not worth a machine."""
COST_TOLERANCE_USD = 0.01
"""What rounding a share may cost where hours are minimised."""


def optimise(prepared: PreparedScenario, options: SolveOptions, side_by_side: bool = True) -> OptimisedChoice:
    """Return the best choice of a scenario; every job must have a screened row.

    Without `side_by_side` the limits at one time are left out: what a plan costs at least if jobs take turns.
    """
    shared = build_shared_limits(prepared.scenario, prepared.market)
    if not side_by_side:
        shared = shared.in_turns()
    typical, held = typical_stock(prepared.scenario, prepared.market), dict[str, TypicalPeak]()
    if typical is None:
        return _optimise(prepared, shared, options)
    choice = None
    while choice is None:
        limits = shared.with_peaks(tuple(held.values()))
        try:
            choice = _optimise(prepared, limits, options, partial(_check_typical_stock, typical, held))
        except _ExceedsTypicalStockError as exceeded:
            held |= exceeded.peaks
    if choice.rows or not held:
        return replace(choice, typical=tuple(held.values()))
    return replace(_optimise(prepared, shared, options), keeps_typical=False)


class _ExceedsTypicalStockError(Exception):
    """A choice exceeds limits of the typical stock that its program does not have: another is made with them."""

    def __init__(self, peaks: dict[str, TypicalPeak]) -> None:
        super().__init__(", ".join(peaks))
        self.peaks = peaks


def _check_typical_stock(typical: TypicalPeaks, held: Mapping[str, TypicalPeak], chosen: CandidateTable) -> None:
    """Raise _ExceedsTypicalStockError where a choice, a row for each job, exceeds more than the limits held."""
    if new := {peak.key: peak for peak in typical.exceeded(chosen) if peak.key not in held}:
        raise _ExceedsTypicalStockError(new)


def _optimise(
    prepared: PreparedScenario, shared: SharedLimits, options: SolveOptions, check: Check = accept
) -> OptimisedChoice:
    """Return the best choice within shared limits; every job must have a screened row."""
    ties = prepared.scenario.near_tie_usd
    needed = cache(lambda index: _needed_rows(prepared.screened[index].table, shared, ties))
    kept = [needed(index) for index in prepared.first_twin]
    # Job by job: the joined table of all candidates of hundreds of jobs would not fit in memory.
    table = concatenate([candidates.table.rows(rows) for candidates, rows in zip(prepared.screened, kept, strict=True)])
    owner = np.concatenate(kept)
    dominated = sum(len(candidates.table) for candidates in prepared.screened) - len(table)

    def solve_row(budget_usd: float | None, breaks_ties: bool) -> OptimisedChoice:
        """Return the best choice within an amount of the row of the budget, None for no row."""
        within = replace(shared, budget_usd=budget_usd)
        choice = solve_lexicographic(table, within, partial(_run, options=options), ties, breaks_ties, check)
        rows = tuple(choice.rows.tolist())
        chosen = table.rows(np.asarray(rows)) if rows else table
        shares = _round_shares(prepared.scenario, chosen, choice.spot_share, budget_usd) if rows else ()
        return OptimisedChoice(choice, rows, shares, table, owner, dominated)

    if may_share_luck(prepared):
        return optimise_jointly(prepared, options, solve_row)
    # Of hundreds of jobs the strict optimum is taken: it is found in a second, ties would take minutes.
    return solve_row(shared.budget_usd, not prepared.is_slim)


def _run(program: Program, options: SolveOptions) -> SolveResult:
    """Return the optimum of a program; one that takes one of its candidates needs the default solver for nothing."""
    if options.solver == DEFAULT_SOLVER:
        check_numbers(program)
        if (result := solve_single_choice(program, options.solver)) is not None:
            return result
    return run(
        program,
        solver=options.solver,
        time_limit_seconds=options.time_limit_seconds,
        relative_gap=max(options.gap, DEFAULT_GAP),
    )


def _needed_rows(table: CandidateTable, shared: SharedLimits, ties: Ties) -> Integers:
    """Return the rows of one job that the program needs."""
    keep = potentially_optimal_rows(table, shared, ties)
    return keep[find_undominated(table.rows(keep), shared, keeps_ties=True)]


def _round_shares(
    scenario: Scenario, chosen: CandidateTable, unrounded: Floats, budget_usd: float | None
) -> tuple[float, ...]:
    """Return the spot share of each job, moved to its floor or cap if that is negligibly far.

    A pass may spend a cent on a negligible share of the other market to save seconds, which does not justify
    a machine. If cost is the objective the move must not cost more, if hours are it must not end later; the budget
    holds in any case.
    """
    shares = [float(share) for share in unrounded]
    budget = np.inf if budget_usd is None else budget_usd
    slack = COST_TOLERANCE_USD if scenario.objective_kind == "time" else 0.0
    for index, share in enumerate(shares):
        of_job = chosen.rows(np.asarray([index]))
        for end in (float(of_job.share_low[0]), float(of_job.share_high[0])):
            moved = [*shares[:index], end, *shares[index + 1 :]]
            costs_no_more = of_job.cost_usd(end)[0] <= of_job.cost_usd(share)[0] + slack
            ends_no_later = (
                scenario.objective_kind != "time" or of_job.late_hours(end)[0] <= of_job.late_hours(share)[0] + 1e-9
            )
            if (
                abs(share - end) < NEGLIGIBLE_SHARE
                and costs_no_more
                and ends_no_later
                and float(np.sum(chosen.late_cost_usd(np.asarray(moved)))) <= budget
            ):
                shares = moved
                break
    return tuple(shares)


def waiting_rooms(scenario: Scenario, solved: OptimisedChoice) -> tuple[float, float]:
    """Return by how many dollars each job may exceed its cost to wait less, expected and at the confidence."""
    shares, limits = np.asarray(solved.shares), scenario.limits
    least, jobs = solved.choice.first.objective or 0.0, len(solved.rows)
    room = least * (1 + MOST_ABOVE_LEAST) - float(np.sum(solved.chosen.cost_usd(shares)))
    late = math.inf if limits.budget_usd is None else limits.budget_usd - solved.late_usd
    return max(room, 0.0) / jobs, max(late, 0.0) / jobs


CHANGED_BY_POLICY = ("run_h", "run_usd", "late_usd", "share_low", "share_high")
"""Columns of a row that differ from one policy on spot to another."""


def run_of_job(
    prepared: PreparedScenario, index: int, row: int, share: float, rooms: tuple[float, float] | None
) -> ChosenCandidate:
    """Return how a job runs by a row of its screened table: on spot with a policy that waits less within `rooms`.

    These are the dollars that it may cost more for that, expected and at the confidence; None where it may not.
    """
    chosen = ChosenCandidate.of(prepared.candidates[index], prepared.screened[index], prepared.market, row, share)
    if rooms is None:
        return chosen
    return chosen.with_less_waiting(*rooms, prepared.scenario.limits.spot_share.min)


def runs_of(
    prepared: PreparedScenario, solved: OptimisedChoice, rooms: tuple[float, float] | None
) -> list[ChosenCandidate]:
    """Return how each job of a choice runs."""
    rows = enumerate(zip(solved.rows, solved.shares, strict=True))
    return [run_of_job(prepared, index, int(solved.owner[row]), share, rooms) for index, (row, share) in rows]


def _assignments(prepared: PreparedScenario, runs: Sequence[ChosenCandidate]) -> list[Assignment]:
    """Return runs in full; no figure of them depends on the day."""
    today = datetime.date.today()
    return [build_assignment(run, prepared.scenario, prepared.library, today) for run in runs]


# Whether jobs compete for something finite, so that it matters when each of them runs.


def may_take_turns(prepared: PreparedScenario) -> bool:
    """Return whether a job may run later than another: several jobs and something finite, or times that are given."""
    scenario = prepared.scenario
    if scenario.needs_timetable:
        return True
    if len(scenario.jobs) < 2:
        return False
    return not starts_at_once(scenario, prepared.market, build_shared_limits(scenario, prepared.market))


def takes_turns(prepared: PreparedScenario, options: SolveOptions) -> bool:
    """Return whether `solve` makes a timetable of a scenario: jobs compete, and not all can start at once."""
    if not all(len(candidates.table) for candidates in prepared.screened) or not may_take_turns(prepared):
        return False
    if prepared.scenario.needs_timetable:
        return True
    return best_side_by_side(prepared, options) is None


def best_side_by_side(prepared: PreparedScenario, options: SolveOptions) -> OptimisedChoice | None:
    """Return the best choice of jobs that compete, if all can start at once; None where taking turns may be better.

    A near tie may prefer one machine for several jobs. Where the strict optimum keeps what they share, that is no
    reason to take turns: the order of ties decides within the shared limits then.
    """
    solved = optimise(prepared, options, side_by_side=False)
    if not solved.rows:
        return None
    if fits_side_by_side(prepared, solved.chosen, solved.shares):
        return solved
    strict, shares = solved.table.rows(solved.choice.strict_rows), solved.choice.strict_share.tolist()
    return optimise(prepared, options) if fits_side_by_side(prepared, strict, shares) else None


def fits_side_by_side(prepared: PreparedScenario, chosen: CandidateTable, shares: Sequence[float]) -> bool:
    """Return whether the chosen candidates, one per job, keep every limit at one time if all jobs start at once.

    A plan that is best without these limits and keeps them is best with them: no timetable is better. A reservation
    that several jobs could share saves nothing where it costs more than all jobs without it.
    """
    limits = build_shared_limits(prepared.scenario, prepared.market)
    gpus, machines = Counter[str](), Counter[str]()
    for row in range(len(chosen)):
        gpus[chosen.providers[chosen.provider[row]]] += int(chosen.gpus[row])
        machines[chosen.offers[chosen.offer[row]]] += max(1, int(chosen.instances[row]))
    if any(float(np.sum(peak.used(chosen))) > peak.most * (1.0 + PEAK_TOLERANCE) for peak in limits.peaks):
        return False
    if any(count > limits.quota.get(name, count) for name, count in gpus.items()):
        return False
    if any(count > limits.stock.get(name, count) for name, count in machines.items()):
        return False
    reservations = [offer.committed_usd for offer in prepared.market.offers if offer.is_reservation]
    return float(np.sum(chosen.cost_usd(np.asarray(shares)))) <= min(reservations, default=np.inf)


RESOLVE_TIME_LIMIT_SECONDS = 10.0


@dataclass(frozen=True)
class ResolvedPlan:
    """The best plan of a scenario as rows: one row per job, and its spot share."""

    prepared: PreparedScenario
    rows: tuple[int, ...]  # per job: row of its uncut table
    shares: tuple[float, ...]
    chosen: CandidateTable  # the rows as screened, one per job
    objective: float  # dollars with penalties and the value of time, or late hours of the last job
    proven: bool
    late_usd: float  # of all jobs together at the requested confidence: what a budget limits
    solved: OptimisedChoice

    @cached_property
    def as_run(self) -> tuple[CandidateTable, Floats]:
        """The chosen rows, one per job, and their spot shares, with the policies that `solve` plans: these wait less.

        The objective and `chosen` are those of the policies of least dollars.
        """
        shares, table = np.asarray(self.shares), self.chosen
        if not self.prepared.scenario.waits_less or not shares.any():
            return table, shares
        runs = runs_of(self.prepared, self.solved, waiting_rooms(self.prepared.scenario, self.solved))
        if self.solved.joint is not None and not keeps_together(self.prepared, _assignments(self.prepared, runs)):
            return table, shares
        columns = {name: getattr(table, name).copy() for name in CHANGED_BY_POLICY}
        for index, chosen in enumerate(runs):
            for name, column in columns.items():
                column[index] = getattr(chosen.figures, name)[0]
        return replace(table, **columns), np.asarray([chosen.share for chosen in runs])

    @property
    def cost_usd(self) -> float:
        """Expected dollars of all jobs, penalties left out."""
        table, shares = self.as_run
        return float(np.sum(table.cost_usd(shares)))

    @property
    def least_cost_usd(self) -> float:
        """Expected dollars of all jobs with the spot policies of least dollars, penalties left out."""
        return float(np.sum(self.chosen.cost_usd(np.asarray(self.shares))))

    @property
    def hours(self) -> float:
        """Expected hours of the job that takes longest."""
        table, shares = self.as_run
        return float(np.max(table.hours(shares)))

    @property
    def late_hours(self) -> float:
        """Hours at the confidence of the jobs, of the one that takes longest."""
        table, shares = self.as_run
        return float(np.max(table.late_hours(shares)))

    @property
    def scarce_usd(self) -> float | None:
        """Dollars of one job on spot where little capacity appears; None where they are not much more than expected."""
        if len(self.rows) > 1 or not any(self.shares):
            return None
        rooms = waiting_rooms(self.prepared.scenario, self.solved) if self.prepared.scenario.waits_less else None
        (job,) = _assignments(self.prepared, runs_of(self.prepared, self.solved, rooms))
        return job.scarce_usd

    @property
    def description(self) -> str:
        """Such as `8 x H100-80GB at nebius, QLoRA, spot`; of several jobs one after the other."""
        jobs = zip(self.prepared.candidates, self.rows, self.as_run[1].tolist(), strict=True)
        words = [describe_candidate(candidates, row, share, self.prepared.market) for candidates, row, share in jobs]
        return describe_jobs(self.prepared.candidates, words)


def try_solve(
    prepared: PreparedScenario, options: SolveOptions | None = None, side_by_side: bool = True
) -> ResolvedPlan | None:
    """Return the best plan, the same as that of `solve`, or None if none was found in time.

    With `options` a search that stops at a limit without a plan raises NoPlanError: nothing is known then.
    Without `side_by_side` the limits at one time are left out.
    """
    screened = prepared.screened
    if not all(len(candidates.table) for candidates in screened):
        return None
    solved = optimise(prepared, options or SolveOptions(time_limit_seconds=RESOLVE_TIME_LIMIT_SECONDS), side_by_side)
    first = solved.choice.first
    if not solved.rows or first.objective is None:
        if options is not None and not first.is_infeasible:
            raise NoPlanError(f"{options.solver} stopped with '{first.termination.value}' before it had a plan")
        return None
    return resolved(prepared, solved)


def resolved(prepared: PreparedScenario, solved: OptimisedChoice) -> ResolvedPlan:
    """Return a choice with a plan as rows of the uncut tables."""
    first, screened = solved.choice.first, prepared.screened
    assert first.objective is not None  # there is a plan
    return ResolvedPlan(
        prepared,
        tuple(int(candidates.rows[solved.owner[row]]) for candidates, row in zip(screened, solved.rows, strict=True)),
        solved.shares,
        solved.table.rows(np.asarray(solved.rows)),
        first.objective,
        first.is_proven and first.gap is not None,
        solved.late_usd,
        solved,
    )


def with_settings(prepared: PreparedScenario, settings: Sequence[str]) -> PreparedScenario:
    """Return the scenario with settings applied as by `--set`; ScenarioError if they are invalid."""
    return prepare(change_scenario(prepared.scenario, settings), prepared.library, prepared)
