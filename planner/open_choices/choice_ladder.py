"""Ladders of token counts: rungs of every model of several jobs that share a budget, and the program over them.

A rung is a model at a number of tokens with the candidates of the market for it; its loss is a coefficient of these
candidates. Dollars never fall and losses never rise with the tokens. So whatever lies between a rung and the next one
costs at least as much as the rung, and loses at least what one step below the next rung does. The program with these
least losses is a bound of every finer ladder, down to each number of tokens on the grid.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from planner.candidate_table import CandidateTable, concatenate
from planner.formulation.build import build_program
from planner.formulation.dominance import find_undominated
from planner.formulation.program import SharedLimits, VariableLayout
from planner.open_choices.choice_alternatives import (
    LEAST_LATE,
    ONLY_DOLLARS,
    Alternative,
    known_range,
    least_late_usd,
    tokens_at,
)
from planner.records import record
from planner.solving.optimise_choice import Run

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

FIRST_STEPS = 347
"""Steps of the grid between the rungs of a first ladder: about twice the tokens."""


@record(frozen=True)
class Rung:
    """A model at a number of tokens; `index` is the place of the tokens on the grid, `table` what is undominated."""

    index: int
    table: CandidateTable
    least_usd: float


@dataclass
class Ladder:
    """The rungs of one model, fewest tokens first; from `end` on nothing is paid for, or known to the law."""

    alternative: Alternative
    shared: SharedLimits
    tables: dict[int, CandidateTable] = field(default_factory=dict)  # place on the grid -> what is undominated there
    rungs: list[Rung] = field(default_factory=list)
    end: int = 0

    def start(self, budget_usd: float) -> None:
        """Make the first rung, if a budget pays for it."""
        first, last = known_range(self.alternative)
        self.end = last + 1
        if first <= last:
            self.split(first, budget_usd)

    def extend(self, budget_usd: float) -> None:
        """Make the rungs above the first one, up to the first that a budget does not pay for."""
        first, last = known_range(self.alternative)
        index = first
        while index < min(last, self.end - 1):
            index = min(index + FIRST_STEPS, last)
            self.split(index, budget_usd)
        for known in sorted(self.tables.keys() - {rung.index for rung in self.rungs}):  # of another budget
            if known < self.end:
                self.split(known, budget_usd)

    def split(self, index: int, budget_usd: float) -> None:
        """Add the rung at a place, or let the ladder end there."""
        if index not in self.tables:
            scope = ONLY_DOLLARS if shares_machines(self.shared) else LEAST_LATE
            self.tables[index] = dollars_alone(self.alternative.dollar_table(tokens_at(index), scope), self.shared)
        least = least_late_usd(self.tables[index])
        if not math.isfinite(least) or least > budget_usd:
            self.end = min(self.end, index)
            self.rungs = [rung for rung in self.rungs if rung.index < self.end]
            return
        self.rungs.append(Rung(index, self.tables[index], least))
        self.rungs.sort(key=lambda rung: rung.index)

    @property
    def least_usd(self) -> float:
        """Least dollars of any rung; infinite without one."""
        return min((rung.least_usd for rung in self.rungs), default=math.inf)

    def next_index(self, place: int) -> int:
        """Return the place on the grid of the rung after one, or where the ladder ends."""
        return self.rungs[place + 1].index if place + 1 < len(self.rungs) else self.end

    def losses(self, place: int) -> tuple[float, float]:
        """Return the loss of a rung, and the least one below the next rung."""
        index = self.rungs[place].index
        most = max(index, self.next_index(place) - 1)
        return self.alternative.loss(tokens_at(index)), self.alternative.loss(tokens_at(most))


def shares_machines(shared: SharedLimits) -> bool:
    """Return whether jobs share anything but dollars: then the cheapest candidate of each may not be enough."""
    return bool(shared.limit_one_time or shared.committed)


def dollars_alone(table: CandidateTable, shared: SharedLimits) -> CandidateTable:
    """Return what is undominated of candidates where nothing but dollars at the confidence and machines counts.

    Dollars are linear in the spot share, so the cheaper end of it is taken. GPUs count where a limit holds them.
    """
    if not len(table):
        return table
    low, high = table.late_cost_usd(table.share_low), table.late_cost_usd(table.share_high)
    usd = np.stack([np.minimum(low, high)] * 2, axis=1)
    zeros = np.zeros(len(table))
    bare = replace(
        table,
        start_h=zeros,
        late_start_h=zeros,
        run_h=0.0 * usd,
        late_h=0.0 * usd,
        fixed_usd=zeros,
        run_usd=usd,
        late_usd=usd,
        penalty_usd=zeros,
        share_low=zeros,
        share_high=zeros,
        lossiness=np.zeros_like(table.lossiness),
        gpus=table.gpus if shared.limit_one_time else np.ones_like(table.gpus),
    )
    return bare.rows(find_undominated(bare, shared))


@record(frozen=True)
class Step:
    """A rung that a program chose; None stands for a job whose work is given."""

    ladder: Ladder | None
    place: int

    @property
    def tokens(self) -> int | None:
        """Tokens at the reference batch; None where the work is given."""
        return None if self.ladder is None else tokens_at(self.ladder.rungs[self.place].index)

    @property
    def middle(self) -> int | None:
        """Place halfway to the next rung; None where there is none between."""
        if self.ladder is None:
            return None
        low, high = self.ladder.rungs[self.place].index, self.ladder.next_index(self.place)
        return (low + high) // 2 if high - low > 1 else None


@record(frozen=True)
class Sums:
    """What a program over ladders found: a step per job, their sum of losses, and the dollars of each job."""

    steps: tuple[Step, ...]
    loss: float
    usd: tuple[float, ...]


def least_sum(
    ladders: Sequence[Sequence[Ladder]], fixed: Sequence[CandidateTable], shared: SharedLimits, run: Run, bound: bool
) -> Sums | None:
    """Return the rungs of the least sum of losses within all shared limits; None where there are none.

    The rows are those of every plan. In the objective losses stand in place of expected dollars:
    min sum_c loss[c]*choose[c]. With `bound` the loss of a rung is the least one below the next rung. Jobs whose
    work is given lose nothing.
    """
    steps, tables = [], []
    for step, table, loss in _columns(ladders, fixed, bound):
        steps += [step] * len(table)
        tables.append(replace(table, run_usd=np.full_like(table.run_usd, loss)))
    if {int(table.job[0]) for table in tables if len(table)} != set(range(len(tables[0].jobs) if tables else 1)):
        return None
    table = concatenate(tables)
    kept = np.flatnonzero(find_undominated(table, shared))
    columns = VariableLayout(table.rows(kept), shared)
    result = run(build_program(columns))
    if not result.has_solution:
        return None
    rows = kept[columns.chosen(result.values)]
    chosen = table.rows(rows)
    loss = float(chosen.cost_usd(0.0).sum())
    least = loss if result.bound is None else min(loss, result.bound)
    usd = tuple(chosen.late_cost_usd(0.0).tolist())
    return Sums(tuple(steps[row] for row in rows), least if bound else loss, usd)


def _columns(
    ladders: Sequence[Sequence[Ladder]], fixed: Sequence[CandidateTable], bound: bool
) -> Iterator[tuple[Step, CandidateTable, float]]:
    """Yield each rung with its candidates and its loss; then the jobs whose work is given."""
    for several in ladders:
        for ladder in several:
            for place, rung in enumerate(ladder.rungs):
                yield Step(ladder, place), rung.table, ladder.losses(place)[int(bound)]
    for table in fixed:
        yield Step(None, 0), table, 0.0
