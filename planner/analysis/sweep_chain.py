"""Variants solved one after the other, each prepared from the one before; what a worker runs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from planner.analysis.what_if_sweep import VariantSolver, build_cell
from planner.errors import InputError
from planner.loading.scenario_file import change_scenario
from planner.records import record
from planner.results.what_if import Variant

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.analysis.sweep_order import Places
    from planner.documents.sweep_ranges import SweepRange
    from planner.library.schema import Library
    from planner.scenario.scenario import Scenario, SolveOptions


PARENT = "PLANNER_SWEEP_PARENT"
"""Environment variable of a worker process: the number of the process that started it."""


@record(frozen=True)
class SweepQuestion:
    """All that a worker needs to know: the scenario, what varies, and how to solve."""

    scenario: Scenario
    ranges: tuple[SweepRange, ...]
    options: SolveOptions
    library: Library

    def values(self, places: Places) -> tuple[str, ...]:
        """Return the values of a variant."""
        return tuple(one.values[place] for one, place in zip(self.ranges, places, strict=True))


class Chain:
    """Solves variants; what a variant has in common with the one before is not computed again."""

    def __init__(self, question: SweepQuestion) -> None:
        self.question = question
        self._solver = VariantSolver(question.library, question.options)

    def solve(self, places: Places) -> Variant:
        """Return a variant; an error in it is its status, and the next variant starts from the last good one."""
        question, values = self.question, self.question.values(places)
        try:
            settings = [one.settings[place] for one, place in zip(question.ranges, places, strict=True)]
            plan = self._solver.solve(change_scenario(question.scenario, settings))
        except Exception as error:
            return failed(values, error)
        cell = build_cell(values, plan)
        return Variant(**{name: getattr(cell, name) for name in type(cell).model_fields})


def failed(values: tuple[str, ...], error: BaseException) -> Variant:
    """Return the row of a variant that could not be solved."""
    if isinstance(error, InputError):
        text = "; ".join(str(fault) for fault in error.faults)
    else:
        text = f"{type(error).__name__}: {error}"
    return Variant(values=values, status="error", error=" ".join(text.split()))


def solve_chunk(question: SweepQuestion, chunk: Sequence[Places]) -> list[Variant]:
    """Return the variants of a chunk, which are neighbours; a worker whose parent has ended ends too."""
    chain, found, parent = Chain(question), list[Variant](), os.environ.get(PARENT)
    for places in chunk:
        if parent is not None and parent != str(os.getppid()):
            os._exit(1)  # nobody waits for the rest, and a pool has no other way to notice
        found.append(chain.solve(places))
    return found
