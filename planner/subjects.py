"""The face of whatever is planned, and the one table of the packages that plan a kind of job of their own.

The core plans jobs of training and of bulk generation. Another kind of job has a package, which answers the questions
of `Subject` in one class, and shows an instance at its door. Commands look a scenario, or a part of a plan, up in `SUBJECTS`, and ask what
they find; where they find nothing, the core answers. A new kind is a package, a line of the table, and `subject` of its
job (and of its part of a plan, if it is no `Assignment`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from planner import open_choices, services
from planner.errors import Fault, ScenarioError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from planner.analysis.simulation.market_paths import SimulationArguments
    from planner.library.schema import Library
    from planner.results.chosen_model import LossFrontier
    from planner.results.explanation import Explanation
    from planner.results.frontier import Frontier, GroupBy
    from planner.results.plan import Plan
    from planner.results.report_data import Overview, Section
    from planner.results.service_results import ServiceFrontier
    from planner.results.simulation import Simulation
    from planner.results.what_if import WhatIf
    from planner.scenario.scenario import Scenario, SolveOptions


class Subject:
    """What is asked of a package that plans a kind of job of its own; a question without an answer is refused.

    A library of None: read what the scenario needs. All raise ScenarioError, LibraryError and SolverError as `solve`.
    """

    name: ClassVar[str]
    """Its key in `SUBJECTS`, which is `subject` of its jobs and of its parts of a plan."""

    # Questions about a scenario that holds such a job, perhaps next to others.

    def solve(
        self, scenario: Scenario, options: SolveOptions, library: Library | None, started: float, explains: bool
    ) -> Plan:
        """Return the audited plan of all jobs of the scenario; its seconds count from `started`, of `perf_counter`.

        Where it does not explain, it leaves out what takes longer than the plan: why there is none, what else there is.
        """
        raise NotImplementedError

    def frontier(
        self, scenario: Scenario, options: SolveOptions, library: Library | None, by: GroupBy | None, points: int
    ) -> Frontier:
        """Return the cost for every deadline of the jobs that end."""
        raise refusal(scenario, "frontier")

    def own_frontier(
        self, scenario: Scenario, options: SolveOptions | None, library: Library | None, points: int | None
    ) -> ServiceFrontier | LossFrontier:
        """Return the frontier of its own jobs where that is another than cost against time."""
        raise refusal(scenario, "frontier")

    def what_if(
        self,
        scenario: Scenario,
        changed: Scenario,
        settings: tuple[str, ...],
        options: SolveOptions | None,
        library: Library,
    ) -> WhatIf:
        """Return the plans before and after settings, and what each did; either scenario may hold such a job."""
        raise refusal(scenario, "what-if")

    def explain(
        self, scenario: Scenario, why_not: str | None, options: SolveOptions | None, library: Library | None
    ) -> Explanation:
        """Return why the plan is as it is, or why not what is asked for."""
        raise refusal(scenario, "explain")

    def simulate(
        self,
        scenario: Scenario,
        plan: Plan | None,
        options: SolveOptions | None,
        library: Library | None,
        progress: Callable[[int, int], None] | None,
        arguments: SimulationArguments,
    ) -> Simulation:
        """Return the replays of a plan, or of the one that `solve` finds."""
        raise refusal(scenario, "simulate")

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
        """Return the plan and the analyses around it, which a report shows."""
        raise refusal(scenario, "report")


SUBJECTS: dict[str, Callable[[], Subject]] = {
    "serve": lambda: services.SERVICES,
    "open": lambda: open_choices.OPEN_CHOICES,
}
"""What answers for each subject, loaded when it is asked; the first that a scenario holds answers for all of it."""


def subject_of(*scenarios: Scenario) -> Subject | None:
    """Return what answers for a scenario, or for several that are compared; None where the core does."""
    held = {job.subject for scenario in scenarios for job in scenario.jobs}
    return next((find() for name, find in SUBJECTS.items() if name in held), None)


def refusal(scenario: Scenario, command: str) -> ScenarioError:
    """Return the fault of a question that no answer to is known for a kind of job."""
    kinds = ", ".join(dict.fromkeys(job.kind for job in scenario.jobs if job.subject is not None))
    return ScenarioError([Fault(scenario.name, 0, command, f"not supported for kind: {kinds}", "use solve or check")])
