"""Variants of a scenario solved one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.scenario.serving.job import ServeJob
from planner.solving.prepare import PreparedScenario, prepare
from planner.solving.solve import solve, solve_prepared

if TYPE_CHECKING:
    from planner.library.schema import Library
    from planner.results.plan import Plan
    from planner.scenario.scenario import Scenario, SolveOptions


class VariantSolver:
    """Solves scenarios; what one has in common with the one before is not computed again."""

    def __init__(self, library: Library, options: SolveOptions | None) -> None:
        self.library = library
        self.options = options
        self._before: PreparedScenario | None = None

    def solve(self, scenario: Scenario, explains: bool = False) -> Plan:
        """Return the plan that `solve` gives; without `explains` nothing need say why there is none."""
        if any(isinstance(job, ServeJob) for job in scenario.jobs):
            return solve(scenario, self.options, self.library, explains)
        self._before = prepare(scenario, self.library, self._before)
        return solve_prepared(self._before, self.options, explains=explains)
