"""What jobs that leave their model, tokens or batch open answer of all that is asked of a subject."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.results.frontier import DEFAULT_POINTS
from planner.subjects import Subject

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from planner.analysis.simulation.market_paths import SimulationArguments
    from planner.library.schema import Library
    from planner.results.chosen_model import LossFrontier
    from planner.results.explanation import Explanation
    from planner.results.frontier import Frontier, GroupBy
    from planner.results.plan import Plan
    from planner.results.report_data import Overview, Section
    from planner.results.simulation import Simulation
    from planner.results.what_if import WhatIf
    from planner.scenario.scenario import Scenario, SolveOptions


class OpenChoices(Subject):
    """Jobs whose best model, tokens or batch is to be found; each question loads what answers it."""

    name = "open"

    def solve(
        self, scenario: Scenario, options: SolveOptions, library: Library | None, started: float, explains: bool
    ) -> Plan:
        """Return the plan of what the jobs choose."""
        from planner.open_choices.open_solve import solve_open

        return solve_open(scenario, options, library, started, explains)

    def frontier(
        self, scenario: Scenario, options: SolveOptions, library: Library | None, by: GroupBy | None, points: int
    ) -> Frontier:
        """Return the cost for every deadline, with what is open chosen at each point, or as planned."""
        from planner.open_choices.open_questions import frontier_of_choices

        return frontier_of_choices(scenario, options, library, by, points)

    def own_frontier(
        self, scenario: Scenario, options: SolveOptions | None, library: Library | None, points: int | None
    ) -> LossFrontier:
        """Return the least loss for every budget."""
        from planner.open_choices.loss_curve import loss_frontier

        return loss_frontier(scenario, options, library, points or DEFAULT_POINTS)

    def what_if(
        self,
        scenario: Scenario,
        changed: Scenario,
        settings: tuple[str, ...],
        options: SolveOptions | None,
        library: Library,
    ) -> WhatIf:
        """Return the plans of two scenarios that each chose what is open."""
        from planner.open_choices.open_questions import what_if_of_choices

        return what_if_of_choices(scenario, changed, settings, options, library)

    def explain(
        self, scenario: Scenario, why_not: str | None, options: SolveOptions | None, library: Library | None
    ) -> Explanation:
        """Return why the plan of what was chosen is as it is."""
        from planner.open_choices.open_questions import explain_choice

        return explain_choice(scenario, why_not, options, library)

    def simulate(
        self,
        scenario: Scenario,
        plan: Plan | None,
        options: SolveOptions | None,
        library: Library | None,
        progress: Callable[[int, int], None] | None,
        arguments: SimulationArguments,
    ) -> Simulation:
        """Return the replays of what was chosen."""
        from planner.open_choices.open_questions import simulate_choice

        return simulate_choice(scenario, plan, options, library, progress, arguments)

    def overview(
        self,
        scenario: Scenario,
        plan: Plan | None,
        options: SolveOptions,
        library: Library | None,
        wanted: Collection[Section] | None,
        runs: int | None,
        seed: int,
    ) -> Overview:
        """Return the plan of what was chosen, and the analyses around it."""
        from planner.open_choices.open_questions import overview_of_choice

        return overview_of_choice(scenario, plan, options, library, wanted, runs, seed)


OPEN_CHOICES = OpenChoices()
