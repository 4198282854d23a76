"""The frontier that a scenario has: dollars against hours, against the time per token, or the loss."""

from __future__ import annotations

import datetime
import math
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, get_args

import numpy as np

from planner.analysis.frontier_trace import NOTICEABLE_USD, FrontierTracer, TracedFrontier, ignored_objectives
from planner.analysis.lower_envelope import build_segments
from planner.candidates.job_candidates import JobCandidates
from planner.candidates.screening import screen
from planner.candidates.spot_candidates import ScreenedCandidates
from planner.candidates.spot_search import LEAST_DOLLARS, SearchScope
from planner.configurations.recipe import is_allowed
from planner.documents.validation import meant_name
from planner.errors import Fault, ScenarioError
from planner.library.schema import Library
from planner.loading.question import Asked, as_scenario
from planner.loading.scenario_file import change_scenario
from planner.results.frontier import DEFAULT_POINTS, Curve, Frontier, GroupBy, HiddenByLimit
from planner.results.plan import Status
from planner.results.plan_parts import Infeasible
from planner.scenario.limits import UNLIMITED_HOURS, latest_finish_hours
from planner.scenario.scenario import Scenario, SolveOptions
from planner.solving.alternatives import without_demand
from planner.solving.binding_limits import pick_without
from planner.solving.diagnosis import diagnose
from planner.solving.optimise_choice import may_share_luck
from planner.solving.prepare import PreparedScenario, prepare, sharing_candidates
from planner.solving.solve import count_candidates, find_cut_samples, lack_of_ways, solve, solve_prepared
from planner.subjects import Subject, subject_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from planner.results.service_results import ServiceFrontier
    from planner.results.subject_runs import LossFrontier


# The cost-time frontier: exact for one job, and for several where no shared limit binds.


MIN_CURVE_POINTS = 10
"""Fewest of them for each curve of `by`."""

METHODS = ("QLoRA", "LoRA 8-bit", "LoRA", "full")


NO_VALUE_OF_TIME = 0.0
"""Dollars that an hour of waiting is worth on a frontier: its cost axis is dollars paid."""


def _check_curves(by: str | None) -> None:
    if by is not None and by not in get_args(GroupBy):
        raise ScenarioError([Fault("frontier", 0, "by", f"there are no curves by {by!r}", "method, gpu or provider")])


def frontier_of_jobs(
    scenario: Asked,
    options: SolveOptions | None = None,
    library: Library | None = None,
    by: GroupBy | None = None,
    points: int = DEFAULT_POINTS,
) -> Frontier:
    """Return the cost for every deadline: every breakpoint with its plan, none dominated.

    One job: exact, the lower envelope of all candidates, with curves on spot to within `CURVE_ERROR`. Several: exact
    where the separate optima keep the budget, GPUs, quota and stock that they share; elsewhere the jobs are solved
    together, in turn where they may take turns, for up to `points` deadlines. `by` adds one curve per method, GPU or
    provider, except where jobs take turns. Next to a service it is that of the jobs. Raises ScenarioError or
    LibraryError on bad input, SolverError where the solver failed; an infeasible scenario is a Frontier with that
    status and its explanation. What is open is chosen again at each point; next to other jobs it is fixed.
    """
    scenario = as_scenario(scenario)
    _check_curves(by)
    started, options = perf_counter(), options or SolveOptions()
    scenario = scenario.on_day(options.as_of)
    if (subject := subject_of(scenario)) is not None:
        return subject.frontier(scenario, options, library, by, points)
    prepared = prepare(scenario, library, with_policies=False)
    if (lack := lack_of_ways(scenario, options, prepared.library)) is not None:
        return _without_points(prepared, lack, options, perf_counter() - started)
    prepared = without_demand(prepared)
    scenario = prepared.scenario
    tracer = FrontierTracer(prepared, options)
    screened = _whole_curves(prepared)
    prepared, main = replace(prepared, screened=screened), tracer.traced(screened, points)
    confidences = {job.confidence for job in scenario.jobs}
    is_split = by and not main.in_turn and main.status != "infeasible"
    curves, left_out = _curves(tracer, by, points) if by and is_split else ((), ())
    status, why = _explained(prepared, main, options)
    return Frontier(
        scenario=scenario.name,
        status=status,
        exact=main.exact,
        confidence=confidences.pop() if len(confidences) == 1 else None,
        points=main.points,
        segments=main.segments,
        knee=main.knee,
        separate=main.separate,
        by=None if main.in_turn else by,
        curves=curves,
        beyond=tuple(_hidden_by_deadline(prepared)) if main.points and not scenario.needs_timetable else (),
        candidates=count_candidates(prepared, sum(len(np.unique(part.rows)) for part in screened) - main.used),
        solver="envelope" if main.exact else "cp-sat" if main.in_turn else options.solver,
        seconds=perf_counter() - started,
        as_of=tracer.as_of.isoformat(),
        budget_usd=scenario.limits.budget_usd,
        infeasible=why,
        keeps_typical_stock=main.keeps_typical,
        notes=(*ignored_objectives(scenario), *main.notes, *_left_out(by if main.in_turn else None, left_out)),
        cut=find_cut_samples(prepared),
    )


def _without_points(prepared: PreparedScenario, why: Infeasible, options: SolveOptions, seconds: float) -> Frontier:
    """Return the frontier of a scenario that has too few further ways."""
    return Frontier(
        scenario=prepared.scenario.name,
        status="infeasible",
        exact=True,
        confidence=None,
        candidates=count_candidates(prepared, 0),
        solver=options.solver,
        seconds=seconds,
        as_of=(options.as_of or datetime.date.today()).isoformat(),
        budget_usd=prepared.scenario.limits.budget_usd,
        infeasible=why,
        cut=find_cut_samples(prepared),
    )


def _explained(
    prepared: PreparedScenario, main: TracedFrontier, options: SolveOptions
) -> tuple[Status, Infeasible | None]:
    """Return the status of a frontier, and why it has no points where it has none."""
    has_luck = not main.points and not main.in_turn and may_share_luck(prepared)
    if main.points or not (has_luck or main.in_turn or main.status == "infeasible"):
        return main.status, None
    if has_luck:
        _check_budget(prepared, options)
    whole = prepare(prepared.scenario, prepared.library)
    if not main.in_turn:
        return "infeasible", diagnose(whole)
    plan = solve_prepared(whole, options)
    return ("no_plan" if plan.jobs else plan.status), plan.infeasible


def _check_budget(prepared: PreparedScenario, options: SolveOptions) -> None:
    """Raise ScenarioError where jobs keep the budget together, and no plan keeps it for what each needs by itself."""
    scenario = prepared.scenario
    if solve_prepared(prepare(scenario, prepared.library), options).jobs:
        problem = (
            "a frontier adds up what each job needs by itself at the confidence, and no plan keeps that sum within it"
        )
        fix = "planner solve has a plan whose jobs keep it together; raise the budget for a frontier"
        raise ScenarioError([Fault(scenario.name, 0, "limits.budget_usd", problem, fix)])


def _left_out(by: GroupBy | None, names: Sequence[str]) -> Iterator[str]:
    """Yield a note on the curves that are not traced, all of `by` or some, because jobs take turns."""
    if by or names:
        curves = f"no curve of {', '.join(names)}" if names else "one curve for each value"
        yield f"jobs take turns: {curves} {'without' if names else 'needs'} schedule: side_by_side"


def _curves(tracer: FrontierTracer, by: GroupBy, points: int) -> tuple[tuple[Curve, ...], tuple[str, ...]]:
    """Return one curve per value of any job's candidates, and the values whose jobs take turns.

    Excluded methods are included and marked.
    """
    prepared = tracer.prepared
    wide = _whole_curves(prepared, by)
    labels = [_labels(prepared, index, candidates, by) for index, candidates in enumerate(wide)]
    names = list(dict.fromkeys(str(name) for column in labels for name in np.unique(column)))
    if by == "method":
        names = [name for name in METHODS if name in names]
    most = max(MIN_CURVE_POINTS, points // max(1, len(names)))
    curves, in_turn = [], []
    for name in names:
        part = [candidates.select(column == name) for candidates, column in zip(wide, labels, strict=True)]
        traced = tracer.traced(part, most, is_part=True)
        if traced.in_turn:
            in_turn.append(name)
            continue
        curves.append(
            Curve(
                label=name,
                allowed=by != "method" or _is_method_allowed(prepared, name),
                exact=traced.exact,
                points=traced.points,
                segments=traced.segments,
                knee=traced.knee if traced.exact else None,  # a bend of a few solved points is no knee
            )
        )
    if by != "method":
        curves.sort(key=lambda curve: (curve.points[-1].cost_usd if curve.points else math.inf, curve.label))
    return tuple(curves), tuple(in_turn)


def _whole_curves(prepared: PreparedScenario, by: GroupBy | None = None) -> tuple[ScreenedCandidates, ...]:
    """Return the screened candidates with all points of cost curves that may matter at some time, per value."""
    spot = any(np.isfinite(candidate.columns.spot_usd).any() for candidate in prepared.candidates)
    if not spot and by != "method":
        return prepared.screened
    limits, library = prepared.scenario.limits, prepared.library
    scope = SearchScope(whole_curves=True, by_method=by == "method", every_place=by in ("gpu", "provider"))
    return tuple(
        screen(_without_penalties(candidate), prepared.market, limits, library, by != "method", NO_VALUE_OF_TIME, scope)
        for candidate in prepared.candidates
    )


def _without_penalties(candidates: JobCandidates) -> JobCandidates:
    """Return the candidates without penalties, which must not decide which cost curves are computed."""
    return replace(candidates, table=replace(candidates.table, penalty_usd=np.zeros(len(candidates.table))))


def _labels(prepared: PreparedScenario, index: int, screened: ScreenedCandidates, by: GroupBy) -> np.ndarray:
    """Return the value of `by` of each row (n,) of one job."""
    table, market, recipes = screened.table, prepared.market, prepared.candidates[index].recipes
    names, rows = {
        "method": ([recipe.method_label for recipe in recipes], table.recipe),
        "gpu": (market.gpus, table.offer),
        "provider": (market.providers, table.provider),
    }[by]
    labels: np.ndarray = np.asarray(names, dtype=object)[rows]
    return labels


def _is_method_allowed(prepared: PreparedScenario, method: str) -> bool:
    return all(
        any(is_allowed(recipe, candidate.job) for recipe in candidate.recipes if recipe.method_label == method)
        for candidate in prepared.candidates
    )


def _hidden_by_deadline(prepared: PreparedScenario) -> Iterator[HiddenByLimit]:
    """Yield what a job's deadline or longest run hides, for each job by itself: a candidate that costs less.

    Of one job it is the plan that `solve` gives with the setting.
    """
    limits = prepared.scenario.limits
    for candidate, screened in zip(prepared.candidates, prepared.screened, strict=True):
        latest = latest_finish_hours(candidate.job, limits)
        by_deadline = candidate.job.deadline_hours is not None and candidate.job.deadline_hours <= latest
        free = replace(_without_penalties(candidate), job=candidate.job.model_copy(update={"deadline_hours": None}))
        longer = limits if by_deadline else limits.model_copy(update={"max_hours": UNLIMITED_HOURS})
        goal = float(build_segments(screened.table, limits.budget_usd).usd_to.min()) - NOTICEABLE_USD
        scope = replace(LEAST_DOLLARS, below=goal)
        later = screen(free, prepared.market, longer, prepared.library, waiting_usd=NO_VALUE_OF_TIME, scope=scope)
        whole = build_segments(later.table, limits.budget_usd)
        if np.min(whole.usd_to, initial=np.inf) < goal:
            least = int(np.argmin(whole.usd_to))
            hours = float(whole.hours_to[least])
            limit = f"jobs.{candidate.job.name}.deadline" if by_deadline else "limits.max_hours"
            setting = f"{limit}={'null' if by_deadline else f'{math.ceil(hours)}'}"
            cost_usd = float(whole.usd_to[least])
            pick = pick_without(prepared, change_scenario(prepared.scenario, [setting]))
            if pick is not None and pick.cost_usd < goal:
                cost_usd, hours = pick.cost_usd, pick.late_hours
            yield HiddenByLimit(limit=limit, limit_hours=latest, cost_usd=cost_usd, hours=hours, setting=setting)


def traces_its_own(scenario: Scenario, job: str | None, by: str | None = None) -> Subject | None:
    """Return what traces a frontier of its own for a scenario; None where the frontier is of cost against time.

    `job` is whose it shall be, where jobs stand next to a service.

    Raises
    ------
    ScenarioError
        No job has the name, there is no service to tell jobs from, or curves are asked for where there are none.
    """
    subject = subject_of(scenario)
    if scenario.objective != "loss":
        endless = {planned.name for planned in scenario.jobs if not planned.ends}
        names = [planned.name for planned in scenario.jobs]
        if job is not None and not endless:
            raise ScenarioError([Fault("--job", 0, "", "is for jobs next to a service", "leave it out")])
        asked = names if job is None else [meant_name(job, names, "--job", "the scenario has no job")]
        subject = subject if endless.issuperset(asked) else None
    if by is not None and subject is not None:
        raise ScenarioError([Fault("--by", 0, "", "divides a frontier of cost against time", "leave it out")])
    return subject


def frontier(
    scenario: Asked,
    options: SolveOptions | None = None,
    library: Library | None = None,
    by: GroupBy | None = None,
    points: int | None = None,
    job: str | None = None,
) -> Frontier | ServiceFrontier | LossFrontier:
    """Return the frontier of a scenario, as the command `planner frontier` does.

    Of jobs it is the cost for every deadline (`Frontier`), of a service the dollars of a month for limits on the time
    per token (`ServiceFrontier`), with `objective: loss` the least loss for every budget (`LossFrontier`).

    Parameters
    ----------
    by
        Of jobs: one curve more for each `method`, `gpu` or `provider`.
    points
        Most points to solve; 20, of a service 10. One job alone has every breakpoint, whatever is asked for.
    job
        Where jobs stand next to a service: whose frontier; that of the jobs by default.

    Raises
    ------
    ScenarioError, LibraryError
        The scenario or a name cannot be used. An infeasible one is a result with that status and its explanation.
    SolverError
        The solver failed.

    Examples
    --------
    >>> found = planner.frontier("quickstart")
    >>> found.points[0].hours < found.points[-1].hours and found.points[0].cost_usd > found.points[-1].cost_usd
    True
    >>> type(planner.frontier("many-adapters", points=2)).__name__
    'ServiceFrontier'
    """
    scenario = as_scenario(scenario)
    own = traces_its_own(scenario, job, by)
    if points is not None and (isinstance(points, bool) or not isinstance(points, int) or points < 2):
        raise ScenarioError([Fault("--points", 0, "", f"{points!r} is no number of points", "give 2 or more")])
    if own is not None:
        return own.own_frontier(scenario, options, library, points)
    options = options or SolveOptions()
    dated = scenario.on_day(options.as_of)
    if subject_of(dated) is not None:
        traced = frontier_of_jobs(scenario, options, library, by, points or DEFAULT_POINTS)
        if traced.solved is not None or not traced.points:
            return traced
        return traced.with_plan(solve(scenario, options, library, explains=False))
    prepared = replace(prepare(dated, library), names_others=False)
    with sharing_candidates(prepared):
        traced = frontier_of_jobs(scenario, options, prepared.library, by, points or DEFAULT_POINTS)
    return traced.with_plan(solve_prepared(prepared, options, explains=False)) if traced.points else traced
