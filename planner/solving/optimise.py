"""The best choice among screened candidates: bound, dominance, passes, rounding of shares."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from planner.candidate_table import CandidateTable, concatenate
from planner.formulation.dominance import find_undominated
from planner.records import record
from planner.solvers.registry import DEFAULT_GAP, DEFAULT_SOLVER, check_numbers, run
from planner.solvers.single_choice import solve_single_choice
from planner.solving.lexicographic import LexicographicSolution, potentially_optimal_rows, solve_lexicographic
from planner.solving.prepare import PreparedScenario, build_shared_limits

if TYPE_CHECKING:
    from planner.arrays import Floats, Integers
    from planner.formulation.program import Program
    from planner.formulation.shared_limits import SharedLimits
    from planner.scenario.scenario import Scenario, SolveOptions
    from planner.solvers.base import SolveResult
    from planner.solving.lexicographic import Ties

NEGLIGIBLE_SHARE = 0.01
"""Share of the work below which a second market is not worth a machine."""
COST_TOLERANCE_USD = 0.01
"""What rounding a share may cost where hours are minimised."""


@record(frozen=True)
class OptimisedChoice:
    """The choice of the program, and for each job its row of the joined table."""

    choice: LexicographicSolution
    rows: tuple[int, ...]  # rows of the joined table, one per job; empty without a plan
    shares: tuple[float, ...]  # spot share of each job, negligible shares rounded away
    table: CandidateTable  # joined, of what dominance leaves of each job
    owner: Integers  # row of the joined table -> row of its job's screened table
    dominated: int

    @property
    def chosen(self) -> CandidateTable:
        """The candidates of the choice, one row per job."""
        return self.table.rows(np.asarray(self.rows))


def optimise(prepared: PreparedScenario, options: SolveOptions, side_by_side: bool = True) -> OptimisedChoice:
    """Return the best choice of a scenario; every job must have a screened row.

    Without `side_by_side` the limits at one time are left out: what a plan costs at least if jobs take turns.
    """
    shared = build_shared_limits(prepared.scenario, prepared.market)
    if not side_by_side:
        shared = replace(shared, max_gpus=None, quota={}, stock={})
    ties = prepared.scenario.near_tie_usd
    kept = [_needed_rows(table, shared, ties) for table in (one.table for one in prepared.screened)]
    # Job by job: the joined table of all candidates of hundreds of jobs would not fit in memory.
    table = concatenate([one.table.rows(rows) for one, rows in zip(prepared.screened, kept, strict=True)])
    owner = np.concatenate(kept)
    # Of hundreds of jobs the strict optimum is taken: it is found in a second, ties would take minutes.
    choice = solve_lexicographic(table, shared, partial(_run, options=options), ties, breaks_ties=not prepared.is_slim)
    rows = tuple(choice.rows.tolist())
    shares = _round_shares(prepared.scenario, table.rows(np.asarray(rows)), choice.spot_share) if rows else ()
    dominated = sum(len(one.table) for one in prepared.screened) - len(table)
    return OptimisedChoice(choice, rows, shares, table, owner, dominated)


def _run(program: Program, options: SolveOptions) -> SolveResult:
    """Return the optimum of a program; one that takes one of its candidates needs the default solver for nothing."""
    if options.solver == DEFAULT_SOLVER:
        check_numbers(program)
        if (found := solve_single_choice(program, options.solver)) is not None:
            return found
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


def _round_shares(scenario: Scenario, chosen: CandidateTable, found: Floats) -> tuple[float, ...]:
    """Return the spot share of each job, moved to its floor or cap if that is negligibly far.

    A pass may spend a cent on a negligible share of the other market to save seconds, which does not justify
    a machine. If cost is the objective the move must not cost more, if hours are it must not end later; the budget
    holds in any case.
    """
    shares = [float(share) for share in found]
    budget = np.inf if scenario.limits.budget_usd is None else scenario.limits.budget_usd
    slack = COST_TOLERANCE_USD if scenario.objective_kind == "time" else 0.0
    for index, share in enumerate(shares):
        one = chosen.rows(np.asarray([index]))
        for end in (float(one.share_low[0]), float(one.share_high[0])):
            moved = [*shares[:index], end, *shares[index + 1 :]]
            costs_no_more = one.cost_usd(end)[0] <= one.cost_usd(share)[0] + slack
            ends_no_later = (
                scenario.objective_kind != "time" or one.late_hours(end)[0] <= one.late_hours(share)[0] + 1e-9
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
