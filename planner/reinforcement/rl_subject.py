"""What jobs of reinforcement learning answer of all that is asked of a subject; each question loads what answers it."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from planner.results.plan import Plan
from planner.results.what_if import Better, WhatIf
from planner.subjects import Subject

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from planner.analysis.market_paths import SimulationArguments
    from planner.analysis.track_question import Stated
    from planner.drawing.scene import Scene
    from planner.evaluation.comparison import Tolerance, Violation
    from planner.exports.facts import Wishes
    from planner.exports.launchers import Checklist
    from planner.library.schema import Library
    from planner.report.plan_answer import Risk
    from planner.report.report_page import Group
    from planner.results.explanation import Explanation
    from planner.results.frontier import Frontier, GroupBy
    from planner.results.run_results import CalibrationResult, Tracking
    from planner.results.simulation import Simulation
    from planner.results.what_if import Overview, Section
    from planner.scenario.scenario import Scenario, SolveOptions

_FIX = "use solve, check, frontier, explain, what-if, simulate, report, export, track or calibrate"


def _library_of(scenario: Scenario) -> Library:
    """Return the library with the models of a scenario."""
    from planner.library.reading import read_library
    from planner.scenario.scenario import architectures_of

    return read_library([name for job in scenario.jobs for name in architectures_of(job)])


class Reinforcement(Subject):
    """Steps of answers that engines sample, and of a policy that is trained on them."""

    name = "rl"
    reads_logs = True

    def solve(
        self, scenario: Scenario, options: SolveOptions, library: Library | None, started: float, explains: bool
    ) -> Plan:
        """Return the plan of the job, with others before or after it."""
        from planner.reinforcement.rl_chain import ChainSearch, solve_chain
        from planner.reinforcement.rl_choice import diagnose_rl, searched, solve_rl
        from planner.solving.solve import audited

        library = library or _library_of(scenario)
        if len(scenario.jobs) > 1:
            plan = solve_chain(scenario, ChainSearch(library, options), started, explains)
            return audited(plan, scenario, library, options)
        plan = solve_rl(scenario, library, options, started, explains)
        if plan.status == "infeasible" and explains:
            return plan.model_copy(update={"infeasible": diagnose_rl(searched(scenario, library))})
        return audited(plan, scenario, library, options)

    def frontier(
        self, scenario: Scenario, options: SolveOptions, library: Library | None, by: GroupBy | None, points: int
    ) -> Frontier:
        """Return the cost for every deadline."""
        from planner.reinforcement.rl_chain import ChainSearch
        from planner.reinforcement.rl_chain_questions import frontier_of_chain
        from planner.reinforcement.rl_choice import frontier_of_rl

        library = library or _library_of(scenario)
        if len(scenario.jobs) > 1:
            return frontier_of_chain(scenario, ChainSearch(library, options), by, points)
        return frontier_of_rl(scenario, options, library, by)  # of a single job every breakpoint

    def what_if(
        self,
        scenario: Scenario,
        changed: Scenario,
        settings: tuple[str, ...],
        options: SolveOptions | None,
        library: Library,
    ) -> WhatIf:
        """Return the comparison of two plans as a whole, without what each way and each setting does."""
        from planner.analysis.what_if_question import difference
        from planner.solving.solve import solve

        before, after = (solve(asked, options, library) for asked in (scenario, changed))
        better: Better = "sooner" if changed.objective_kind == "time" else "cheaper"
        figures: dict[str, Any] = {"before": before, "after": after, "delta": difference(before, after)}
        return WhatIf(scenario=scenario.name, settings=settings, better=better, **figures)

    def explain(
        self, scenario: Scenario, why_not: str | None, options: SolveOptions | None, library: Library | None
    ) -> Explanation:
        """Return what binds the plan and what limits are worth, or why not what is asked for."""
        from planner.reinforcement.rl_chain_questions import explain_chain
        from planner.reinforcement.rl_reasons import explain_rl
        from planner.scenario.scenario import SolveOptions

        library = library or _library_of(scenario)
        if len(scenario.jobs) > 1:
            return explain_chain(scenario, why_not, options or SolveOptions(), library)
        return explain_rl(scenario, why_not, library)  # no solver runs: every way is priced

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
        from planner.reinforcement.rl_simulation import simulate_rl
        from planner.scenario.scenario import SolveOptions

        options = options or SolveOptions()
        scenario = scenario.on_day(options.as_of)
        return simulate_rl(scenario, plan, options, library or _library_of(scenario), progress, arguments)

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
        """Return the plan and the analyses around it."""
        from planner.reinforcement.rl_page import overview_of_rl

        return overview_of_rl(scenario, plan, options, library, wanted, runs, seed)

    def audit(self, plan: Plan, scenario: Scenario, library: Library, tolerance: Tolerance) -> list[Violation]:
        """Return every disagreement between the run of a plan and what follows from scenario and library."""
        from planner.reinforcement.audited_rl import audit_rl

        return audit_rl(plan, scenario, library, tolerance)

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
        """Return a run of a plan, by its logs, against what was planned."""
        from planner.reinforcement.rl_tracking import track_rl

        return track_rl(plan, scenario, logs, job, stated, market, options)

    def calibrate(
        self, logs: Sequence[str], scenario: Scenario, job: str, run: dict[str, Any], options: SolveOptions | None
    ) -> CalibrationResult:
        """Return the `measured` entry of the logs of a run, and what it changes."""
        from planner.reinforcement.rl_calibration import calibrate_rl

        return calibrate_rl(logs, scenario, job, run, options)

    def rest(self, plan: Plan, scenario: Scenario) -> tuple[Plan, Scenario]:
        """Return the jobs before and after the runs as a plan of their own; runs alone as they are."""
        from planner.reinforcement.rl_chain import jobs_of_chain

        return jobs_of_chain(plan, scenario)

    def files(
        self, plan: Plan, scenario: Scenario, file: str, name: str | None, wishes: Wishes, targets: Sequence[str] | None
    ) -> tuple[dict[str, str], list[str]]:
        """Return the settings of a trainer, or a folder to launch from."""
        from planner.exports.rl_export import choose_rl, export_all_rl, export_rl

        given = choose_rl(plan, scenario, file, name)
        return export_all_rl(given, wishes, file) if targets is None else (export_rl(given, targets, wishes, file), [])

    def checklist(
        self, plan: Plan, scenario: Scenario, file: str, name: str, wishes: Wishes, files: Collection[str]
    ) -> Checklist:
        """Return what the files need, leave to a person, and cost."""
        from planner.exports.rl_export import choose_rl, rl_checklist

        return rl_checklist(choose_rl(plan, scenario, file, name), wishes, file, files)

    not_supported = MappingProxyType(
        {
            "probe": ("a probe of reinforcement learning is not modelled", _FIX),
            "technique": ("reading the data of reinforcement learning is not modelled", _FIX),
        }
    )

    def text(self, result: Any) -> str:
        """Return the text of a plan or a comparison."""
        from planner.reinforcement.rl_text import render_rl_answer, render_rl_what_if

        texts: dict[type, Callable[[Any], str]] = {Plan: render_rl_answer, WhatIf: render_rl_what_if}
        return texts[type(result)](result)

    def details(self, plan: Plan) -> str:
        """Return the answer, which has all that there is to say of a run alone."""
        from planner.reinforcement.rl_chain import other_jobs
        from planner.reinforcement.rl_text import render_chain_details

        if len(plan.planned) == 1:
            return self.text(plan)
        return render_chain_details(plan, other_jobs(plan) if plan.jobs else None)

    def replays(self, found: Simulation) -> list[str]:
        """Return steps, rollouts and engines that were lost, each with what was planned."""
        from planner.reinforcement.rl_text import replay_lines

        return replay_lines(found)

    def risks(self, plan: Plan) -> list[Risk]:
        """Return what would change the decision, the greatest first."""
        from planner.reinforcement.rl_text import risks_of_chain

        return risks_of_chain(plan)

    # Parts of a report, pictures, and the page of `planner app`.

    def tiles(self, plan: Plan) -> list[tuple[str, str, str]]:
        """Return dollars, hours, dollars of 100 steps and seconds of a step."""
        from planner.reinforcement.rl_page import tiles

        return tiles(plan)

    def facts(self, plan: Plan) -> list[tuple[str, list[tuple[str, str]]]]:
        """Return the name of each job with its sections."""
        from planner.reinforcement.rl_page import facts

        return facts(plan)

    def reasons(self, found: Overview) -> list[tuple[str, str]]:
        """Return proof, limits that bind, and what it is worth to relax them."""
        from planner.reinforcement.rl_page import reasons

        return reasons(found)

    def groups(self, found: Overview) -> list[Group]:
        """Return the figures of a report."""
        from planner.reinforcement.rl_page import groups_of_rl

        return groups_of_rl(found)

    def figure_keys(self, plan: Plan) -> dict[str, str]:
        """Return the step for the timetable."""
        del plan
        return {"timetable": "step"}

    def plan_scenes(self, plan: Plan) -> list[Scene]:
        """Return the step of each job as a strip of phases."""
        from planner.reinforcement.rl_page import step_scenes

        return step_scenes(plan)

    def chips(self, plan: Plan) -> list[tuple[str, str, str]]:
        """Return proof and risks in a few words."""
        from planner.reinforcement.rl_page import chips

        return chips(plan)

    def compared(self, plan: Plan) -> list[tuple[str, str]]:
        """Return the rows of a pinned plan."""
        from planner.reinforcement.rl_page import compared

        return compared(plan)

    def change_parts(self, before: Plan, after: Plan, answer: WhatIf | None) -> dict[str, Any]:
        """Return the rows of what changed."""
        from planner.reinforcement.rl_page import change_parts

        del answer  # the plans have all that is shown
        return change_parts(before, after)


REINFORCEMENT: Reinforcement = Reinforcement()
"""What answers for jobs of `kind: rl`."""
