"""What a program chose: for each job a candidate and its share on spot."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from planner.arrays import Floats, Integers
from planner.candidate_table import CandidateTable
from planner.formulation.program import TypicalPeak
from planner.records import record
from planner.solvers.base import SolveResult


@record(frozen=True, eq=False)
class LexicographicSolution:
    """The chosen row of the table and its spot share for each job (empty without a plan), and the first pass."""

    first: SolveResult
    rows: Integers  # (jobs,)
    spot_share: Floats  # (jobs,)
    strict_rows: Integers  # (jobs,) of the first pass
    strict_share: Floats  # (jobs,)


@record(frozen=True)
class JointBudget:
    """What the jobs of a choice need together, and how the budget was kept."""

    late_usd: float  # dollars of all jobs together at the confidence
    row_usd: float  # amount of the row of what each needs by itself; inf: no row was needed
    least: float  # the objective without a budget: no plan is below it
    has_luck: bool  # whether a plan on spot was compared with the budget


@record(frozen=True)
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
