"""Questions about jobs that leave something open: asked of what is chosen, or of each choice where that is another one.

Questions about a plan are asked of the model, tokens and batch that `solve` chose. Other scenarios choose again.
"""

from __future__ import annotations

from functools import partial
from operator import attrgetter
from time import perf_counter
from typing import TYPE_CHECKING, Any

from planner.analysis.frontier_question import frontier_of_jobs
from planner.analysis.frontier_trace import NOTICEABLE_USD, with_knee
from planner.analysis.limit_sensitivity import explain
from planner.analysis.market_paths import SimulationArguments, SimulationSettings
from planner.analysis.overview import overview
from planner.analysis.simulate_question import check_plan, simulate, without_runs
from planner.analysis.what_if_question import (
    compare_jobs,
    difference,
    effect_of,
    rest_of,
    separable_settings,
    what_it_would_take,
)
from planner.analysis.why_not import parse_query
from planner.errors import NoPlanError
from planner.library.reading import read_library
from planner.library.schema import Library
from planner.loading.scenario_file import change_scenario
from planner.open_choices.open_solve import FixedChoice, definite_choices, fix_choice, loss_frontier, solve_open
from planner.results.explanation import Explanation, describe_job_differences
from planner.results.frontier import DEFAULT_POINTS, Frontier, GroupBy, Point, Segment
from planner.results.plan import Plan
from planner.results.simulation import Simulation
from planner.results.subject_runs import LossFrontier
from planner.results.what_if import Better, Effect, Overview, Section, WhatIf
from planner.scenario.scenario import Scenario, SolveOptions, architectures_of, open_jobs
from planner.solving.prepare import prepare
from planner.solving.solve import solve
from planner.subjects import Subject

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from planner.results.plan import Plan


# Cost against time: with the best choice at each point, or of the one that is planned.


def frontier_of_choices(
    scenario: Scenario, options: SolveOptions, library: Library | None, by: GroupBy | None, points: int
) -> Frontier:
    """Return the cost for every deadline, with the best choice at each point, or of the one that is planned."""
    trace = partial(frontier_of_jobs, by=by, points=points)
    best = _of_choices(scenario, library, options, trace)
    return best or _of_choice(fix_choice(scenario, options, library), library, options, trace)


def _of_choices(
    scenario: Scenario, library: Library | None, options: SolveOptions, trace: Callable[..., Frontier]
) -> Frontier | None:
    """Return the cost for every deadline, with the best model and batch at each point; None where they are fixed.

    The frontier of each model and batch is traced; what another one undercuts is left out.
    """
    started = perf_counter()
    library = library or read_library([name for job in open_jobs(scenario) for name in architectures_of(job)])
    choices = definite_choices(scenario, library)
    traced = [frontier for choice in choices if (frontier := trace(choice, options, library)).points]
    if not traced:
        return None
    points, knee = with_knee(_undercut_by_none(traced))
    segments = sorted(
        (
            segment
            for number, frontier in enumerate(traced)
            for segment in frontier.segments
            if not _is_undercut(segment, [*traced[:number], *traced[number + 1 :]])
        ),
        key=attrgetter("hours_from"),
    )
    # Where a curve crosses another one between its ends, which of both is lower is known at the points alone.
    exact = all(
        frontier.exact and all(segment.saved_per_hour == 0 for segment in frontier.segments) for frontier in traced
    )
    numbers, of_all = ("made", "rejected", "dominated"), [frontier.candidates for frontier in traced]
    counts = {name: sum(getattr(counted, name) for counted in of_all) for name in numbers}
    first = points[0].jobs[0]
    at_first = f"{first.architecture}, {first.global_batch:,} sequences per step"
    return traced[0].model_copy(
        update={
            "exact": exact,
            "points": points,
            "segments": tuple(segments),
            "knee": knee,
            "seconds": perf_counter() - started,
            "separate": (),
            "curves": (),
            "by": None,
            "candidates": of_all[0].model_copy(update=counts),
            "notes": tuple(dict.fromkeys(note for frontier in traced for note in frontier.notes)),
            "fixed": (f"what is open is chosen again at each point, of {len(choices)}: first {at_first}",),
        }
    )


def _undercut_by_none(traced: Sequence[Frontier]) -> tuple[Point, ...]:
    """Return the points of several frontiers, earliest first, without those that an earlier one costs less than."""
    points: list[Point] = []
    for point in sorted(
        (point for frontier in traced for point in frontier.points), key=attrgetter("hours", "cost_usd")
    ):
        if not points or point.cost_usd < points[-1].cost_usd - NOTICEABLE_USD:
            earlier = point.before or (points[-1].jobs if points else ())
            change = describe_job_differences(earlier, point.jobs)
            points.append(point.model_copy(update={"change": change, "knee": ""}))
    return tuple(points)


def _is_undercut(segment: Segment, others: Sequence[Frontier]) -> bool:
    """Return whether a plan of another frontier is no later and costs no more than either end of a segment."""
    ends = (segment.hours_from, segment.cost_from_usd), (segment.hours_to, segment.cost_to_usd)
    return any(
        all(point.hours <= hours and point.cost_usd <= usd + NOTICEABLE_USD for hours, usd in ends)
        for frontier in others
        for point in frontier.points
    )


def _of_choice(
    fixed: FixedChoice, library: Library | None, options: SolveOptions, trace: Callable[..., Frontier]
) -> Frontier:
    """Return the cost for every deadline of the model, tokens and batch that `solve` chooses."""
    plan = fixed.plan
    if plan.jobs:
        frontier = trace(fixed.scenario, options, library)
        return frontier.model_copy(update={"fixed": fixed.lines, "seconds": plan.seconds + frontier.seconds})
    return Frontier(
        scenario=plan.scenario,
        status=plan.status,
        exact=True,
        confidence=None,
        candidates=plan.candidates,
        solver=plan.solver,
        seconds=plan.seconds,
        as_of=plan.as_of,
        budget_usd=plan.budget_usd,
        infeasible=plan.infeasible,
        cut=plan.cut,
    )


# What a change does: each scenario chooses again.


def what_if_of_choices(
    scenario: Scenario, changed: Scenario, settings: tuple[str, ...], options: SolveOptions | None, library: Library
) -> WhatIf:
    """Return the comparison of two plans that each chose what is open, in their own scenario."""
    here, there = (fix_choice(asked, options, library) for asked in (scenario, changed))
    before, after = here.plan, there.plan
    better: Better = "sooner" if changed.objective_kind == "time" else "cheaper"
    figures: dict[str, Any] = {"better": better, "before": before, "after": after, "delta": difference(before, after)}
    answer = WhatIf(scenario=scenario.name, settings=settings, **figures)
    if not (before.jobs and after.jobs):
        return answer
    base = prepare(here.scenario, library)
    answer = answer.model_copy(
        update={"jobs": compare_jobs(base, prepare(there.scenario, library, base), before, after)}
    )
    if answer.unchanged:
        return answer.model_copy(update={"it_would_take": what_it_would_take(before, settings, base)})
    effects = _effects_of_choices(scenario, before, after, settings, options, library)
    return answer.model_copy(update={"effects": effects, "together": rest_of(answer.delta, effects)})


def _effects_of_choices(
    scenario: Scenario,
    before: Plan,
    after: Plan,
    settings: tuple[str, ...],
    options: SolveOptions | None,
    library: Library,
) -> tuple[Effect, ...]:
    """Return the effect of each of several changes, for each of which what is open is chosen again."""
    groups = separable_settings(scenario, settings)

    def solved(kept: list[tuple[str, ...]]) -> Plan:
        asked = change_scenario(scenario, [setting for group in kept for setting in group])
        return solve(asked, options, library, explains=False)

    alone = [solved([group]) for group in groups]
    without = alone[::-1]
    if len(groups) > 2:
        without = [solved([*groups[:index], *groups[index + 1 :]]) for index in range(len(groups))]
    return tuple(
        effect_of(", ".join(group), (before, plan, rest, after))
        for group, plan, rest in zip(groups, alone, without, strict=True)
    )


# Why a plan is as it is.


def explain_choice(
    scenario: Scenario, why_not: str | None, options: SolveOptions | None, library: Library | None
) -> Explanation:
    """Return why the plan of what is chosen is as it is; raises as `explain` does."""
    started = perf_counter()
    if why_not is not None:  # its faults come first: to choose a model takes seconds
        parse_query(why_not, scenario, library or read_library(()))
    explanation = _explain_choice(fix_choice(scenario, options, library), why_not, options, library)
    return explanation.model_copy(update={"seconds": perf_counter() - started})


def _explain_choice(
    fixed: FixedChoice, why_not: str | None, options: SolveOptions | None, library: Library | None
) -> Explanation:
    """Return why the plan of what was chosen is as it is, or why there is none of any choice."""
    plan = fixed.plan
    if plan.jobs:
        return explain(fixed.scenario, why_not, options, library).model_copy(update={"fixed": fixed.lines})
    if plan.infeasible is None:
        raise NoPlanError(f"{plan.scenario}: the search stopped without a plan")
    explanation = Explanation(scenario=plan.scenario, status=plan.status, notes=plan.warnings, cut=plan.cut)
    return explanation.model_copy(update=dict(plan.infeasible))


# Replays, and the report.


def simulate_choice(
    scenario: Scenario,
    plan: Plan | None,
    options: SolveOptions | None,
    library: Library | None,
    progress: Callable[[int, int], None] | None,
    arguments: SimulationArguments,
) -> Simulation:
    """Return the replays of the plan of what is chosen; raises as `simulate` does."""
    started = perf_counter()
    settings = SimulationSettings.of(**arguments)
    options = options or SolveOptions()
    scenario = scenario.on_day(options.as_of)
    if plan is not None:
        models = [name for job in scenario.jobs for name in architectures_of(job)]
        check_plan(plan, scenario, library or read_library(models))
    fixed = fix_choice(scenario, options, library, plan)
    if not fixed.plan.jobs:
        return without_runs(fixed.plan, settings, perf_counter() - started)
    simulation = simulate(
        fixed.scenario, fixed.definite, options=options, library=library, progress=progress, **arguments
    )
    return simulation.model_copy(update={"plan": fixed.plan, "fixed": fixed.lines})


def overview_of_choice(
    scenario: Scenario,
    plan: Plan | None,
    options: SolveOptions,
    library: Library | None,
    wanted: Collection[Section] | None,
    runs: int | None,
    seed: int,
) -> Overview:
    """Return the plan of what is chosen, and the analyses around it."""
    given = plan is not None
    fixed = fix_choice(scenario, options, library, plan)
    if not fixed.plan.jobs:
        return Overview(plan=fixed.plan, of_file=given)
    analyses = overview(
        fixed.scenario, fixed.definite, options=options, library=library, wanted=wanted, runs=runs, seed=seed
    )
    return analyses.model_copy(update={"plan": fixed.plan, "fixed": fixed.lines, "of_file": given})


# The face of all this.


class OpenChoices(Subject):
    """Jobs whose best model, tokens or batch is to be found."""

    name = "open"

    def solve(
        self, scenario: Scenario, options: SolveOptions, library: Library | None, started: float, explains: bool
    ) -> Plan:
        """Return the plan of what the jobs choose."""
        return solve_open(scenario, options, library, started, explains)

    def frontier(
        self, scenario: Scenario, options: SolveOptions, library: Library | None, by: GroupBy | None, points: int
    ) -> Frontier:
        """Return the cost for every deadline, with what is open chosen at each point, or as planned."""
        return frontier_of_choices(scenario, options, library, by, points)

    def own_frontier(
        self, scenario: Scenario, options: SolveOptions | None, library: Library | None, points: int | None
    ) -> LossFrontier:
        """Return the least loss for every budget."""
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
        return what_if_of_choices(scenario, changed, settings, options, library)

    def explain(
        self, scenario: Scenario, why_not: str | None, options: SolveOptions | None, library: Library | None
    ) -> Explanation:
        """Return why the plan of what was chosen is as it is."""
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
        return overview_of_choice(scenario, plan, options, library, wanted, runs, seed)


OPEN_CHOICES: OpenChoices = OpenChoices()
