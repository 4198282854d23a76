"""What the page shows, computed: plans, comparisons, frontiers and files; runs in a process of its own."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from planner.analysis.simulated_fleet import kind_bases
from planner.analysis.what_if_question import compare_solved
from planner.analysis.what_if_sweep import compare_services_solved, difference, library_of
from planner.errors import InputError, NoPlanError, PlannerError
from planner.loading.scenario_file import change_scenario
from planner.records import record
from planner.scenario.jobs_and_services import services_alone
from planner.scenario.open_job import OpenJob
from planner.scenario.service_load import ServeJob
from planner.solving.prepare import PreparedScenario, prepare
from planner.solving.solve import solve, solve_prepared
from planner.web.drawing import figure_data, scene_data
from planner.web.page_parts import change_parts, plan_parts
from planner.web.service_parts import steps_data

if TYPE_CHECKING:
    from planner.library.schema import Library
    from planner.results.fleet_differences import ServiceFrontier
    from planner.results.plan import Plan
    from planner.results.what_if import WhatIf
    from planner.scenario.scenario import Scenario, SolveOptions
    from planner.solving.fleet.refusals import ServiceTrial

KEPT = 6
"""Plans that are kept with their candidates: the scenario as opened, the last moves, and pinned ones."""


@record(frozen=True)
class Solved:
    """A scenario with its candidates and its plan.

    There are no candidates where `solve` first has to find a job's model, and none of a service.
    """

    scenario: Scenario
    prepared: PreparedScenario | None
    plan: Plan


@dataclass
class Curve:
    """The curve of a service as far as it is computed, and the fleets behind it by their limit."""

    fleets: dict[float | None, ServiceTrial]
    found: ServiceFrontier | None = None
    points: int = 0
    """That were asked for."""


class Engine:
    """Answers about one scenario and changes of it; each solve starts from the candidates of the last one."""

    def __init__(self, scenario: Scenario, options: SolveOptions):
        self.base, self.options = scenario.on_day(options.as_of), options
        self.kept: OrderedDict[tuple[str, ...], Solved] = OrderedDict()
        self.curves: OrderedDict[tuple[str, ...], Curve] = OrderedDict()
        self.last: PreparedScenario | None = None
        self.library: Library | None = None

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to a request of the page; faults of the input are part of the answer."""
        try:
            tasks = {"plan": self.plan, "frontier": self.frontier, "file": self.file}
            return tasks[request["task"]](request)
        except InputError as error:
            return {"faults": error.faults}
        except PlannerError as error:
            return {"error": str(error)}

    def solved(self, settings: tuple[str, ...]) -> Solved:
        """Return the plan of the scenario with settings applied, from those kept or solved now."""
        if settings not in self.kept:
            scenario = change_scenario(self.base, settings) if settings else self.base
            if serves(scenario):
                self.kept[settings] = Solved(scenario, None, self._service_plan(scenario))
            elif any(isinstance(job, OpenJob) for job in scenario.jobs):
                self.kept[settings] = Solved(scenario, None, solve(scenario, self.options))
            else:
                prepared = prepare(scenario, self._library(scenario), before=self.last)
                self.last = prepared
                self.kept[settings] = Solved(scenario, prepared, solve_prepared(prepared, self.options))
            while len(self.kept) > KEPT:
                self.kept.popitem(last=False)
        self.kept.move_to_end(settings)
        return self.kept[settings]

    def _service_plan(self, scenario: Scenario) -> Plan:
        """Return the plan of a service, without what a looser limit saves: the curve shows that, and it is as slow."""
        library = self._library(scenario)
        plan = solve(scenario, self.options, library, explains=False)
        return plan if plan.services else solve(scenario, self.options, library)

    def _library(self, scenario: Scenario) -> Library:
        """Return the library of the last scenario where it has the models of this one: candidates are shared by it."""
        known = self.library
        if known is None or any(job.architecture not in known.architectures for job in scenario.jobs):
            self.library = library_of([self.base, scenario])
            self.last = None
        assert self.library is not None
        return self.library

    def plan(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the plan of `settings`, and how it differs from that of `reference`.

        A `brief` answer has no alternatives and no reasons, which take longer than the plan itself; a service has
        one answer, which is `whole`.
        """
        reference, settings = tuple(request["reference"]), tuple(request["settings"])
        serving = serves(self.base)
        if request.get("brief") and not serving and settings not in self.kept and reference in self.kept:
            return self._brief(settings, self.kept[reference].plan, float(request["width"]))
        before, after = self.solved(reference), self.solved(settings)
        width = float(request["width"])
        bases = kind_bases(after.scenario, after.plan, self.library) if after.plan.services else ()
        parts = plan_parts(after.plan, width, bases)
        change = change_parts(before.plan, after.plan, self._compared(before, after, settings if not reference else ()))
        delta = difference(before.plan, after.plan).model_dump()
        return {**parts, "whole": serving, "change": {**change, "delta": delta}}

    def _compared(self, before: Solved, after: Solved, settings: tuple[str, ...]) -> WhatIf | None:
        """Return the comparison of `what-if`; None where that command compares no such scenarios."""
        if serves(self.base):
            is_alone = len(self.base.jobs) == 1
            return compare_services_solved(before.plan, after.plan, settings) if is_alone else None
        if before.prepared is None or after.prepared is None:
            return None
        return compare_solved(before.prepared, after.prepared, before.plan, after.plan, settings)

    def _brief(self, settings: tuple[str, ...], before: Plan, width: float) -> dict[str, Any]:
        """Return the plan alone; a scenario that has none, or needs more than one solve, is left to the full answer."""
        scenario = change_scenario(self.base, settings)
        if any(isinstance(job, OpenJob) for job in scenario.jobs):
            return {"later": True}
        self.last = prepare(scenario, self._library(scenario), before=self.last)
        # Marked as slim a scenario gets its plan without the search for alternatives.
        plan = solve_prepared(replace(self.last, is_slim=True), self.options, explains=False)
        if not plan.jobs:
            return {"later": True}
        change = change_parts(before, plan, None)
        return {**plan_parts(plan, width), "change": {**change, "delta": difference(before, plan).model_dump()}}

    def frontier(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the frontier of `settings`, from which deadlines were taken; `deadline` is marked in the picture."""
        from planner.analysis.frontier.frontier_question import frontier as trace
        from planner.report.figures.frontier_figure import frontier_data, frontier_figure

        scenario = change_scenario(self.base, request["settings"]) if request["settings"] else self.base
        if serves(scenario):
            return self._steps(scenario, request)
        try:
            found = trace(scenario, self.options, library=None)
        except NoPlanError as error:
            return {"error": str(error)}
        if not found.points:
            return {"empty": "no plan at any deadline within the other limits"}
        figure = frontier_figure(found, None)
        assert figure.draw is not None
        scene = scene_data(figure.draw(float(request["width"])))
        return {"figure": figure_data(figure), "scene": scene, "data": frontier_data(found), "exact": found.exact}

    def _steps(self, scenario: Scenario, request: dict[str, Any]) -> dict[str, Any]:
        """Return dollars of a month against the limit on the time per token, each point solved.

        The page asks for a few points first, and then for more of the same curve, which go on from there.
        """
        from planner.analysis.frontier.service_curve import SERVICE_POINTS, service_frontier

        settings, points = tuple(request["settings"]), int(request.get("points", SERVICE_POINTS))
        curve = self.curves.pop(settings, None) or Curve({})
        if curve.found is None or curve.points < points:
            alone = services_alone(scenario)
            curve.found = service_frontier(alone, self.options, points=points, known=curve.fleets)
            curve.points = points
        self.curves[settings] = curve
        while len(self.curves) > KEPT:
            self.curves.popitem(last=False)
        if not curve.found.points:
            return {"empty": "no fleet at any limit on the time per token, within the other limits"}
        is_whole = curve.points >= SERVICE_POINTS or curve.found.solved < curve.points
        return {**steps_data(curve.found, float(request["width"])), "whole": is_whole}

    def file(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return a file to download: the plan as JSON, the report, or the files that run the plan."""
        from planner.web.kept_files import export_archive, plan_file, report_file

        solved = self.solved(tuple(request["settings"]))
        scenario, plan = solved.scenario, solved.plan
        if plan.services:  # a file has what the page leaves out
            plan = solve(scenario, self.options, self._library(scenario))
        if request["file"] == "plan":
            return {"text": plan_file(plan)}
        if request["file"] == "exports":
            return {"base64": export_archive(scenario, plan)}
        return {"text": report_file(scenario, plan, self.options)}


def serves(scenario: Scenario) -> bool:
    """Return whether there is a service."""
    return any(isinstance(job, ServeJob) for job in scenario.jobs)
