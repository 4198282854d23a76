"""The best choice among screened candidates, for a plan as for a trial: bound, dominance, passes, whole shares."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from planner.candidate_table import CandidateTable, concatenate
from planner.formulation.dominance import find_undominated
from planner.solvers.registry import DEFAULT_GAP, run
from planner.solving.lexicographic import LexicographicSolution, potentially_optimal_rows, solve_lexicographic
from planner.solving.prepare import PreparedScenario, build_shared_limits

if TYPE_CHECKING:
    from planner.arrays import Floats, Integers
    from planner.scenario.scenario import Scenario, SolveOptions

SHARE_TOLERANCE = 0.01
"""Share of the work below which a second market is not worth a machine."""
COST_TOLERANCE_USD = 0.01


@dataclass(frozen=True)
class OptimisedChoice:
    """The choice of the program, and for each job the row of its screened table."""

    choice: LexicographicSolution
    rows: tuple[int, ...]  # rows of the joined table, one per job; empty where there is no plan
    shares: tuple[float, ...]  # spot share of each job, slivers rounded away
    table: CandidateTable
    owner: Integers  # row of the joined table -> row of its job's screened table
    dominated: int


def optimise(prepared: PreparedScenario, options: SolveOptions) -> OptimisedChoice:
    """Bound and dominance, program, passes, shares; every job must have a screened row."""
    table = concatenate([one.table for one in prepared.screened])
    owner = np.concatenate([np.arange(len(one.table)) for one in prepared.screened])
    question = build_shared_limits(prepared.scenario, prepared.market)
    keep = potentially_optimal_rows(table, question)
    keep = keep[find_undominated(table.rows(keep), question)]
    solver = partial(
        run,
        solver=options.solver,
        time_limit_seconds=options.time_limit_seconds,
        relative_gap=max(options.gap, DEFAULT_GAP),
    )
    choice = solve_lexicographic(table.rows(keep), question, solver)
    rows = tuple(int(keep[row]) for row in choice.rows) if choice.chosen is not None else ()
    shares = _whole_shares(prepared.scenario, table.rows(np.asarray(rows)), choice.spot_share) if rows else ()
    return OptimisedChoice(choice, rows, shares, table, owner, len(table) - len(keep))


def _whole_shares(scenario: Scenario, chosen: CandidateTable, found: Floats) -> tuple[float, ...]:
    """Spot share of each job, moved to its floor or cap where it is a hair away, no later and hardly dearer.

    A pass may spend a cent on a sliver of the other market to win seconds; nobody rents a sliver.
    Where cost is the objective it must not get dearer, and the budget holds in any case.
    """
    shares = [float(share) for share in found]
    slack = COST_TOLERANCE_USD if scenario.objective_kind == "time" else 0.0
    for index, now in enumerate(shares):
        one = chosen.rows(np.asarray([index]))
        for end in (float(one.share_low[0]), float(one.share_high[0])):
            trial = [*shares[:index], end, *shares[index + 1 :]]
            no_dearer = one.cost_usd(end)[0] <= one.cost_usd(now)[0] + slack
            no_later = scenario.objective_kind != "time" or one.late_hours(end)[0] <= one.late_hours(now)[0] + 1e-9
            if (
                abs(now - end) < SHARE_TOLERANCE
                and no_dearer
                and no_later
                and _is_within_budget(scenario, chosen, trial)
            ):
                shares = trial
                break
    return tuple(shares)


def _is_within_budget(scenario: Scenario, chosen: CandidateTable, shares: list[float]) -> bool:
    budget = scenario.limits.budget_usd
    return budget is None or float(np.sum(chosen.late_cost_usd(np.asarray(shares)))) <= budget
