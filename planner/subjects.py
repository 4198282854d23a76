"""The face of whatever is planned, and the one table of the packages that plan a kind of job of their own.

The core plans jobs of training and of bulk generation. Another kind of job has a package, which answers the questions
of `Subject` in one class, whose instance its door names. Commands look a scenario or a result up in `SUBJECTS`, and
ask what they find; where they find nothing, the core answers. A new kind is a package, a line of the table, and
`subject` of its job (and of its part of a plan, if that is no `Assignment`).
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from planner import open_choices, reinforcement, services
from planner.documents.validation import MOST_NAMES
from planner.errors import Fault, InputError, ScenarioError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from planner.analysis.market_paths import SimulationArguments
    from planner.analysis.track_question import Stated
    from planner.drawing.scene import Scene
    from planner.evaluation.comparison import Tolerance, Violation
    from planner.exports.facts import Wishes
    from planner.exports.launchers import Checklist
    from planner.library.schema import Library
    from planner.report.plan_answer import Risk
    from planner.report.plan_figures import Figure
    from planner.report.report_page import Group
    from planner.results.explanation import Explanation
    from planner.results.frontier import Frontier, GroupBy
    from planner.results.plan import Plan, Planned
    from planner.results.result_tables import Result
    from planner.results.run_results import CalibrationResult, Tracking
    from planner.results.service_results import KindBasis, ServiceFrontier, ServiceSimulation
    from planner.results.simulation import Simulation
    from planner.results.subject_runs import LossFrontier
    from planner.results.what_if import Overview, Section, WhatIf
    from planner.scenario.scenario import Scenario, SolveOptions


class SubjectCurve:
    """The curve that the page of `planner app` draws of what has no end, as far as it is computed."""

    def answer(self, scenario: Scenario, options: SolveOptions, points: int | None, width: float) -> dict[str, Any]:
        """Return figure, scene and points of the curve; fewer `points` first, more of them from there on."""
        raise NotImplementedError


class Subject:
    """What is asked of a package that plans a kind of job of its own; a question without an answer is refused.

    A library of None: read what the scenario needs. All raise ScenarioError, LibraryError and SolverError as `solve`.
    """

    name: ClassVar[str]
    """Its key in `SUBJECTS`, which is `subject` of its jobs and of its parts of a plan."""
    reads_logs: ClassVar[bool] = False
    """Whether logs of its runs are read by `track` and `calibrate` of its own."""

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

    def simulate_endless(
        self, scenario: Scenario, plan: Plan | None, options: SolveOptions, arguments: dict[str, Any]
    ) -> ServiceSimulation:
        """Return the simulation of its own jobs where these have no end and no other job is there."""
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

    # Questions about a plan that holds parts of its own, perhaps next to jobs.

    def track(
        self,
        plan: Plan,
        scenario: Scenario,
        logs: Sequence[str],
        job: str | None,
        stated: Stated,
        market: Scenario | None,
        options: SolveOptions | None,
    ) -> Tracking:
        """Return one of its parts of a plan that runs, by the paths of its logs, against what was planned."""
        raise lacking(self, "track")

    def calibrate(
        self, logs: Sequence[str], scenario: Scenario, job: str, run: dict[str, Any], options: SolveOptions | None
    ) -> CalibrationResult:
        """Return the `measured` entry of the logs of a run, and what it changes in the plan of its job.

        `run`: how the run was set up, or the plan under the key `plan`.
        """
        raise lacking(self, "calibrate")

    def audit(self, plan: Plan, scenario: Scenario, library: Library, tolerance: Tolerance) -> list[Violation]:
        """Return every disagreement between its parts of a plan and what follows from scenario and library."""
        raise lacking(self, "check")

    def rest(self, plan: Plan, scenario: Scenario) -> tuple[Plan, Scenario]:
        """Return the jobs that the core planned as a plan of their own, and its scenario."""
        raise lacking(self, "jobs")

    def files(
        self, plan: Plan, scenario: Scenario, file: str, name: str | None, wishes: Wishes, targets: Sequence[str] | None
    ) -> tuple[dict[str, str], list[str]]:
        """Return the files that run one of its parts by path, and what is left out; without targets all that can be.

        `file` is what faults name. InputError where a tool cannot express it.
        """
        raise lacking(self, "export")

    def checklist(
        self, plan: Plan, scenario: Scenario, file: str, name: str, wishes: Wishes, files: Collection[str]
    ) -> Checklist:
        """Return what the files of one of its parts need, leave to a person, and cost."""
        raise lacking(self, "export")

    not_supported: ClassVar[Mapping[str, tuple[str, str]]] = MappingProxyType({})
    """By the name of a command that has no question here, why it takes none of its jobs, and what to do."""

    # Questions about results that hold parts of its own: plans, comparisons, reasons, frontiers.

    def text(self, result: Any) -> str:
        """Return the text of a result, perhaps with jobs next to its own parts, without a final newline."""
        raise lacking(self, "text")

    def details(self, plan: Plan) -> str:
        """Return all that there is to say of a plan, as `solve --details` prints it."""
        raise lacking(self, "text")

    def risks(self, plan: Plan) -> list[Risk]:
        """Return what of a plan would change the decision, of jobs too, the greatest first."""
        raise lacking(self, "text")

    def replays(self, found: Simulation) -> list[str]:
        """Return the lines that stand below the replays of the jobs."""
        raise lacking(self, "text")

    def scene(self, result: Any) -> Scene | None:
        """Return the picture of a result of its own; None where there is nothing to draw."""
        raise lacking(self, "picture")

    # Parts of the page of a report, and of the page that `planner app` shows.

    def tiles(self, plan: Plan) -> list[tuple[str, str, str]]:
        """Return the key figures: name, figure, and what it is measured against."""
        raise lacking(self, "page")

    def facts(self, plan: Plan) -> list[tuple[str, list[tuple[str, str]]]]:
        """Return the name of each part of its own with the labels and texts of its sections."""
        raise lacking(self, "page")

    def reasons(self, found: Overview) -> list[tuple[str, str]]:
        """Return labels and texts that say why the plan is as it is, of jobs too."""
        raise lacking(self, "page")

    def groups(self, found: Overview) -> list[Group]:
        """Return the figures in their order, of jobs too."""
        raise lacking(self, "page")

    def replay_figures(self, found: Overview) -> list[Figure]:
        """Return the figures of its simulation, below those of the jobs; nothing where it has none of its own."""
        del found
        return []

    def section_titles(self, plan: Plan) -> dict[Section, str]:
        """Return the headings of analyses that are others than those of jobs; nothing where all are the same."""
        del plan
        return {}

    def figure_keys(self, plan: Plan) -> dict[str, str]:
        """Return the keys of figures by the names of the command line, where they are others than those of jobs."""
        del plan
        return {}

    def page_plan(self, scenario: Scenario, options: SolveOptions, library: Library | None) -> Plan:
        """Return the plan that the page shows; it may leave out what the page shows in another way."""
        from planner.solving.solve import solve

        return solve(scenario, options, library)

    def new_curve(self) -> SubjectCurve:
        """Return the curve of jobs that have no end, of which nothing is computed."""
        raise lacking(self, "page")

    def bases(self, scenario: Scenario, plan: Plan, library: Library | None) -> tuple[KindBasis, ...]:
        """Return what each kind of its machines rests on, which the page shows; nothing where the plan has all."""
        del scenario, plan, library
        return ()

    def compare(self, before: Plan, after: Plan, settings: tuple[str, ...]) -> WhatIf:
        """Return the comparison of two plans that are solved already."""
        raise lacking(self, "page")

    def chips(self, plan: Plan) -> list[tuple[str, str, str]]:
        """Return proof and risks in a few words: tone (`good` or `attention`), text, and the whole sentence."""
        raise lacking(self, "page")

    def compared(self, plan: Plan) -> list[tuple[str, str]]:
        """Return the rows of a pinned plan: names and figures."""
        raise lacking(self, "page")

    def change_parts(self, before: Plan, after: Plan, answer: WhatIf | None) -> dict[str, Any]:
        """Return summary, rows and reasons of a change; without an answer the plans alone are compared."""
        raise lacking(self, "page")

    def plan_scenes(self, plan: Plan) -> list[Scene]:
        """Return the pictures of its own parts of a plan."""
        raise lacking(self, "picture")


SUBJECTS: dict[str, Callable[[], Subject]] = {
    "rl": lambda: reinforcement.REINFORCEMENT,
    "serve": lambda: services.SERVICES,
    "open": lambda: open_choices.OPEN_CHOICES,
}
"""What answers for each subject, loaded when asked; the first that a scenario holds answers for all of it."""


def subject_of(*scenarios: Scenario) -> Subject | None:
    """Return what answers for a scenario, or for several that are compared; None where the core does."""
    held = {job.subject for scenario in scenarios for job in scenario.jobs}
    return next((find() for name, find in SUBJECTS.items() if name in held), None)


def planner_of(part: Planned) -> Subject | None:
    """Return what planned a part of a plan; None where the core did."""
    return SUBJECTS[part.subject]() if part.subject is not None else None


def shown_by(result: Result) -> Subject | None:
    """Return what shows a result; None where the core does."""
    return SUBJECTS[result.subject]() if result.subject is not None else None


def check_supported(scenario: Scenario, command: str) -> None:
    """Raise ScenarioError where a command that has no question here takes no such scenario."""
    subject = subject_of(scenario)
    if subject is not None and command in subject.not_supported:
        raise ScenarioError([Fault(scenario.name, 0, command, *subject.not_supported[command])])


def jobs_of_plan(plan: Plan, scenario: Scenario) -> tuple[Plan, Scenario]:
    """Return a plan and its scenario as those of the jobs alone that the core planned."""
    subject = shown_by(plan)
    return (plan, scenario) if subject is None else subject.rest(plan, scenario)


def check_named(plan: Plan, name: str | None) -> None:
    """Raise `InputError` where no job is named, and one of several reads logs of its own."""
    parts = [(part.name, planner_of(part)) for part in plan.planned]
    if name is None and len(parts) > 1 and any(subject is not None and subject.reads_logs for _, subject in parts):
        names = [part for part, subject in parts if subject is None or subject.reads_logs]
        fix = f"name one, such as {' or '.join(names[:MOST_NAMES])}"
        raise InputError([Fault("--job", 0, "", f"{len(parts)} jobs", fix)])


def lacking(subject: Subject, what: str) -> ScenarioError:
    """Return the fault of a question about a plan that its subject has no answer to."""
    return ScenarioError([Fault("plan", 0, what, f"not supported for {subject.name}", "use solve --json")])


def refusal(scenario: Scenario, command: str) -> ScenarioError:
    """Return the fault of a question that no answer to is known for a kind of job."""
    kinds = ", ".join(dict.fromkeys(job.kind for job in scenario.jobs if job.subject is not None))
    return ScenarioError([Fault(scenario.name, 0, command, f"not supported for kind: {kinds}", "use solve or check")])
