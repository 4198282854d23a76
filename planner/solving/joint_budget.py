"""What a program chose, and the budget of several jobs on spot, which holds for their dollars together.

The row of the budget adds up what each job needs at the confidence by itself. Jobs on different markets are seldom
unlucky at once, so that they mostly need less together, and at low confidences may need more. So the amount of the row
is searched: first no row at all, then amounts that fall from above the budget to the budget itself. The first plan
whose jobs together keep the budget is taken.

The amounts lie on a grid that does not depend on the budget. What a budget allows, a larger one allows, too: its search
meets the same amounts, so that more dollars never make a plan more expensive. A plan without a row is the best of all.
Any other is the best of those within its amount; how much less another might cost is known by the plan without a row.
"""

from __future__ import annotations

import datetime
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from planner.arrays import Floats, Integers
from planner.candidate_table import CandidateTable
from planner.decode.assignment import build_assignment
from planner.decode.chosen import ChosenCandidate
from planner.formulation.program import TypicalPeak
from planner.results.odds import joint_late_usd
from planner.solvers.base import SolveResult

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from planner.results.plan import Assignment
    from planner.scenario.scenario import Scenario, SolveOptions
    from planner.solving.prepare import PreparedScenario


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
    return any(bool((one.table.share_high > 0).any()) for one in prepared.screened)


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
    if (found := search.first_kept(amounts_between(search.budget * MOST_AMOUNT, search.budget))) is not None:
        return found
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
            found = self.solve_row(amount, False)
            if not found.rows or not found.choice.first.is_proven:  # less has no plan either, or takes too long
                return None
            if self.kept(found, amount) is not None:
                return self.kept(self.solve_row(amount, True), amount) or self.kept(found, amount)
            below = found.late_cost_usd
        return None

    def kept(self, found: OptimisedChoice, amount: float) -> OptimisedChoice | None:
        """Return a choice whose jobs together keep the budget, with or without the order of ties; None where none."""
        for one in (found, found.strict):
            late_usd = self.late_usd(one)
            if late_usd <= self.budget * (1 + EQUAL_USD):
                return replace(one, joint=self.joint(late_usd, amount))
        return None

    def late_usd(self, found: OptimisedChoice) -> float:
        """Return the dollars of all jobs of a choice together at the confidence of the budget."""
        if not any(share > 0 for share in found.shares):
            return found.late_cost_usd
        self.has_luck = True
        rows = zip(found.rows, found.shares, strict=True)
        jobs = [self._job(index, int(found.owner[row]), share) for index, (row, share) in enumerate(rows)]
        return joint_late_usd(jobs, self.prepared.scenario.limits.budget_confidence)

    def _job(self, index: int, row: int, share: float) -> Assignment:
        prepared = self.prepared
        if (key := (prepared.first_twin[index], row, share)) not in self.known:
            chosen = ChosenCandidate.of(
                prepared.candidates[index], prepared.screened[index], prepared.market, row, share
            )
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
