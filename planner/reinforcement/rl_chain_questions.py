"""What is asked of a chain around its plan: cost against time, what binds, why not another way."""

from __future__ import annotations

import copy
import math
from time import perf_counter
from typing import TYPE_CHECKING, Any

from planner import timetable
from planner.analysis.frontier_trace import NOTICEABLE_USD, SolverLimitError, ignored_objectives, with_knee
from planner.analysis.limit_sensitivity import explain
from planner.analysis.why_not import WhyNotQuery, parse_query
from planner.errors import Fault, ScenarioError
from planner.reinforcement.rl_chain import (
    ChainSearch,
    Combinations,
    around,
    combined_ways,
    given_values,
    least_value,
    renumbered,
    runs_of,
    solve_chain,
    starts_of,
    with_value,
    without_runs,
)
from planner.reinforcement.rl_choice import segment_job
from planner.reinforcement.rl_limits import given_lists, without_lists
from planner.reinforcement.rl_reasons import WORTH_USD, answer_rl_query, not_admitted, pinned_job
from planner.results.explanation import (
    Binding,
    Explanation,
    LimitSensitivity,
    WhyNot,
    describe_job_differences,
    method_name,
)
from planner.results.frontier import Frontier, Point, Segment, SegmentJob, describe_assignment, hidden_usd
from planner.results.subject_runs import RlRun
from planner.scenario.limits import given_peaks
from planner.scenario.rl_job import RlJob
from planner.scenario.scenario import setting_path
from planner.solving.alternatives import SOLVED
from planner.solving.limit_changes import BUDGET, UNITS, limit_key

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planner.analysis.lower_envelope import Breakpoint
    from planner.arrays import Floats
    from planner.library.schema import Library
    from planner.results.frontier import GroupBy
    from planner.results.plan import Plan
    from planner.scenario.scenario import Scenario, SolveOptions


# Cost against time: the chain is solved for one deadline after another.


class ChainProgram(timetable.TurnProgram):
    """The plans of a chain for deadlines that all its jobs have in common."""

    def __init__(self, scenario: Scenario, shared: ChainSearch) -> None:
        super().__init__(scenario, shared.library, (), shared.options)
        self.shared = copy.copy(shared)  # with the same ways, and a time limit of its own
        self.shared.options = self.options
        self.on_spot = scenario.limits.spot_share.max > 0
        self.slope_hours = timetable.SLOPE_HOURS

    def fastest_hours(self) -> float | None:
        """Return the least hours in which all jobs can end; None where no plan keeps the limits.

        The other jobs take no less time around ways of the runs that cost more: what they take around the fastest
        and cheapest bounds the hours of all ways.
        """
        _, _, rows = combined_ways(self.scenario, self.shared)
        if rows is None or not len(rows.way):
            return None
        best, rest = math.inf, -math.inf
        every = [(rows.hours.min(axis=0), float(rows.late_usd.min())), *zip(rows.hours, rows.late_usd, strict=True)]
        for number, (hours, late_usd) in enumerate(every):
            took = float(hours.sum())  # the runs follow one another, so that all hours are their sum and a rest
            if best <= took + rest:
                break
            end = self._end_around(rows, hours, late_usd)
            if number == 0:
                if end is None:
                    return None
                rest = end - took
            elif end is not None:
                best = min(best, end)
        return best * (1 + timetable.SAME_DEADLINE) if math.isfinite(best) else None

    def _end_around(self, rows: Combinations, hours: Floats, late_usd: float) -> float | None:
        """Return the least hours in which all jobs end around runs of so much; None without a plan."""
        late_hours = rows.late_hours(hours)
        asked = around(self.scenario, late_hours, late_usd)
        plan = None if asked is None else self.shared.others(asked.model_copy(update={"objective": "time"}))
        if plan is None or plan.hours is None:
            return None
        starts = starts_of(self.scenario, late_hours, plan)
        return max(plan.hours.at_confidence, *(start + late_hours[name] for name, start in starts.items()))

    def _next_deadline(self, left: Breakpoint, right: Breakpoint, slides: bool) -> float:
        """Return the deadline just before the right end and, every second time, that in the middle.

        Many ways of the run differ in minutes and cents: just before one of them lies the next.
        """
        return super()._next_deadline(left, right, slides or len(self.bounds) % 2 == 1)

    def _solve(self, scenario: Scenario) -> Plan | None:
        """Return the plan of a scenario that differs from the others in deadlines; None without one."""
        plan = solve_chain(scenario, self.shared, perf_counter(), explains=False)
        if plan.status == "no_plan":
            raise SolverLimitError
        return plan if plan.status in SOLVED else None


def frontier_of_chain(scenario: Scenario, shared: ChainSearch, by: GroupBy | None, points: int) -> Frontier:
    """Return the cost for every deadline of all jobs together; exact where no step between two points is left open."""
    if by is not None:
        problem = f"curves by {by} are not modelled for kind rl: a way may have two kinds of GPUs"
        raise ScenarioError([Fault(scenario.name, 0, "--by", problem, f"use explain --why-not {by}=NAME")])
    started = perf_counter()
    whole = solve_chain(scenario, shared, started)
    if whole.status not in SOLVED:
        return _frontier(scenario, whole, (), (), started)
    program = ChainProgram(scenario, shared)
    try:
        vertices, notes = program.fill_points([math.inf], (), (), program.most_deadlines(points))
    except SolverLimitError:
        return _frontier(scenario, whole.model_copy(update={"status": "no_plan"}), (), (), started)
    made = list[Point]()
    for vertex in vertices:
        made.append(_point(vertex, made))
    return _frontier(scenario, whole, tuple(made), notes, started)


def _frontier(
    scenario: Scenario, whole: Plan, points: tuple[Point, ...], notes: tuple[str, ...], started: float
) -> Frontier:
    marked, knee = with_knee(points)
    is_exact = bool(points) and all(not point.gap for point in points) and hidden_usd(points, ()) <= NOTICEABLE_USD
    confidences = {job.confidence for job in scenario.jobs}
    status = whole.status if not points else "optimal" if all(not point.gap for point in points) else "feasible"
    return Frontier(
        scenario=scenario.name, status=status, exact=is_exact,
        confidence=confidences.pop() if len(confidences) == 1 else None,
        points=tuple(point.model_copy(update={"floor_usd": None}) for point in marked) if is_exact else marked,
        segments=tuple(map(_segment, marked)) if is_exact else (), knee=knee, candidates=whole.candidates,
        solver="cp-sat", seconds=perf_counter() - started, as_of=whole.as_of, budget_usd=scenario.limits.budget_usd,
        infeasible=None if points else whole.infeasible, notes=(*ignored_objectives(scenario), *notes),
    ).with_plan(whole)  # fmt: skip


def _point(vertex: Breakpoint, before: list[Point]) -> Point:
    """Return a breakpoint with its plan; `before` are those that end earlier."""
    plan = vertex.plan
    assert plan is not None and plan.hours is not None
    last = max(plan.parts_that_end, key=lambda part: part.finish_hours)
    start = max(pool.start_hours for pool in last.pools) if isinstance(last, RlRun) else last.start_hours
    return Point(
        hours=vertex.hours, expected_hours=plan.hours.expected, cost_usd=vertex.usd, jobs=plan.jobs,
        reservations=plan.reservations, reinforcement=plan.reinforcement, bound=vertex.bound, gap=vertex.gap,
        change=describe_job_differences(before[-1].planned if before else (), plan.parts_that_end),
        floor_usd=vertex.floor_usd, mostly_start_up=start > 0.5 * last.hours.expected,
    )  # fmt: skip


def _segment(point: Point) -> Segment:
    """Return the segment of a point."""
    ends = {"hours_from": point.hours, "hours_to": point.hours}
    usd = {"cost_from_usd": point.cost_usd, "cost_to_usd": point.cost_usd}
    jobs = tuple(
        SegmentJob(
            name=job.name, provider=job.provider, offer=job.offer, gpu=job.gpu, gpus=job.gpus,
            method=method_name(job.techniques), spot_share_from=job.spot_share, spot_share_to=job.spot_share,
        )
        for job in point.jobs
    )  # fmt: skip
    return Segment(**ends, **usd, jobs=(*jobs, *map(segment_job, point.reinforcement)))


# What binds: the chain without one limit, and the least change of it that pays.


def explain_chain(scenario: Scenario, why_not: str | None, options: SolveOptions, library: Library) -> Explanation:
    """Return what each limit costs, the others as they are; or why not what is asked for of one job.

    Everything is solved for all jobs together: each of them, and the run, may be another one then.
    """
    started, shared = perf_counter(), ChainSearch(library, options)
    query = None if why_not is None else _query_of(why_not, scenario, library)
    plan = solve_chain(scenario, shared, started, explains=why_not is None)
    explanation = Explanation(
        scenario=scenario.name, status=plan.status, plan=_summary_of(plan), cut=plan.cut,
        cost_usd=plan.cost.expected if plan.cost else None, hours=plan.hours.expected if plan.hours else None,
    )  # fmt: skip
    if query is not None:
        explanation = explanation.model_copy(update={"why_not": _why_not(scenario, plan, *query, shared)})
    elif plan.infeasible is not None:
        explanation = explanation.model_copy(
            update={"relax": plan.infeasible.relax, "nearest": plan.infeasible.nearest}
        )
    elif plan.objective is not None:
        return _with_binding(explanation, _binding(scenario, plan, _freed(scenario), shared), started)
    return explanation.model_copy(update={"seconds": perf_counter() - started})


def _summary_of(plan: Plan) -> str:
    """Return how many jobs there are on which machines."""
    held = dict.fromkeys(held for part in plan.parts_that_end for held in part.held)
    machines = ", ".join(f"{gpus} x {gpu} at {provider}" for provider, gpu, gpus in held)
    return f"{len(plan.parts_that_end)} jobs on {machines}" if held else ""


def _words_of(plan: Plan) -> str:
    return "; ".join(f"{part.name}: {describe_assignment(part)}" for part in plan.parts_that_end)


def explain_times_and_dollars(scenario: Scenario, plan: Plan, shared: ChainSearch) -> Explanation:
    """Return what the budget and each deadline cost a plan: what `explain_chain` has without a search for new ways."""
    started = perf_counter()
    explanation = Explanation(
        scenario=scenario.name, status=plan.status, plan=_summary_of(plan), cut=plan.cut,
        cost_usd=plan.cost.expected if plan.cost else None, hours=plan.hours.expected if plan.hours else None,
    )  # fmt: skip
    given = ((path, value, with_value(scenario, path, None)) for path, value in given_values(scenario))
    return _with_binding(explanation, _binding(scenario, plan, given, shared), started)


def _with_binding(
    explanation: Explanation, binding: Iterator[tuple[Binding, LimitSensitivity | None]], started: float
) -> Explanation:
    """Return the explanation with the limits that bind, the one that costs most first."""
    pairs = sorted(binding, key=lambda pair: -pair[0].saving)
    steps = tuple(step for _, step in pairs if step is not None)
    update = {"binding": tuple(limit for limit, _ in pairs), "next_steps": steps, "seconds": perf_counter() - started}
    return explanation.model_copy(update=update)


def _freed(scenario: Scenario) -> Iterator[tuple[str, float | str, Scenario]]:
    """Yield each limit that is given, its value, and the scenario without it."""
    limits = scenario.limits

    def without(**update: Any) -> Scenario:
        return scenario.model_copy(update={"limits": limits.model_copy(update=update)})

    for path, value in given_values(scenario):
        yield path, value, with_value(scenario, path, None)
    for limit, most in given_peaks(limits):
        yield limit.path, most, without(**{limit.key: None})
    for name, most in limits.quota.items():
        rest = {other: count for other, count in limits.quota.items() if other != name}
        yield f"limits.quota.{name}", float(most), without(quota=rest)
    for path in given_lists(scenario):
        yield path, "as given", without_lists(scenario, path)


def _binding(
    scenario: Scenario, plan: Plan, freed: Iterator[tuple[str, float | str, Scenario]], shared: ChainSearch
) -> Iterator[tuple[Binding, LimitSensitivity | None]]:
    """Yield every limit without which the chain costs less, with the least change of it that pays.

    `freed` has each limit, its value, and the scenario without it.
    """
    assert plan.objective is not None and plan.cost is not None and plan.hours is not None
    goal = plan.objective - WORTH_USD
    for path, current, free in freed:
        better = solve_chain(free, shared, perf_counter(), explains=False)
        # Of plans on spot that are not proven a difference within what is open says nothing.
        if better.objective is None or better.objective > min(goal, plan.bound or goal):
            continue
        assert better.cost is not None and better.hours is not None
        hours, saving = plan.hours.expected - better.hours.expected, plan.objective - better.objective
        yield (
            Binding(limit=path, current=current, saving=saving, saving_usd=saving, saving_hours=hours),
            _least_step(scenario, plan, path, shared) if path in dict(given_values(scenario)) else None,
        )


def _least_step(scenario: Scenario, plan: Plan, path: str, shared: ChainSearch) -> LimitSensitivity | None:
    """Return the least budget or deadline with which the chain costs less."""
    given = dict(given_values(scenario))[path]
    assert plan.objective is not None and plan.hours is not None and plan.cost is not None
    least = least_value(scenario, path, given, shared, plan.objective - WORTH_USD)
    if least is None:
        return None
    value, better = least
    assert better.objective is not None and better.hours is not None
    unit = "" if path == BUDGET else "h"
    return LimitSensitivity(
        worth=UNITS.get(limit_key(path), "choice"), limit=path, change_from=given, change_to=value,
        setting=f"{setting_path(path, scenario)}={value:.10g}{unit}", plan=_words_of(better),
        cost_usd=better.objective, hours=better.hours.expected, delta_usd=better.objective - plan.objective,
        delta_hours=better.hours.expected - plan.hours.expected, gain=plan.objective - better.objective,
    )  # fmt: skip


# Why not another way for one job.


def _query_of(text: str, scenario: Scenario, library: Library) -> tuple[WhyNotQuery, RlJob | None]:
    """Return the query, and the run that it is about; its keys are those of the job that it names.

    Without a name it is about the only run. The place of another job is that among the others. Raises ScenarioError
    with every fault.
    """
    named = {key.strip(): value.strip() for key, _, value in (part.partition("=") for part in text.split(","))}
    runs, others = runs_of(scenario), tuple(other for other in scenario.jobs if not isinstance(other, RlJob))
    if named.get("job") not in {other.name for other in others}:
        query = parse_query(text, scenario, library)
        return query, next((job for job in runs if job.name == named.get("job")), runs[0])
    return parse_query(text, scenario.model_copy(update={"jobs": others}), library), None


def _why_not(scenario: Scenario, plan: Plan, query: WhyNotQuery, job: RlJob | None, shared: ChainSearch) -> WhyNot:
    """Return what the chain costs where one job runs as is asked, all others free to change; else what excludes it.

    `job`: the run that is asked about; None: another job.
    """
    asked, lists = scenario, tuple[str, ...]()
    if job is not None:
        pinned = pinned_job(job, query)
        lists = tuple(not_admitted(shared.ways(scenario, job), pinned, query))
        jobs = tuple(pinned if other is job else other for other in scenario.jobs)
        asked = scenario.model_copy(update={"jobs": jobs})
    of_run, of_other = ({}, query) if job is None else ({job.name: query}, None)
    forced = solve_chain(asked, ChainSearch(shared.library, shared.options, of_run, of_other), perf_counter())
    if forced.objective is None or forced.cost is None or forced.hours is None:
        given = dict(given_values(scenario))
        relax = tuple(
            change for change in (forced.infeasible.relax if forced.infeasible else ()) if change.limit in given
        )
        if not relax or lists:
            return _excluded(scenario, query, job, shared)
        reasons = tuple(f"with the other jobs it needs {change.change_to:,.10g} of {change.limit}" for change in relax)
        return WhyNot(
            asked=query.text, status="beyond", reasons=reasons, relax=relax,
            cost_usd=relax[0].cost_usd, hours=relax[0].hours,
        )  # fmt: skip
    figures: dict[str, Any] = {
        "cost_usd": forced.cost.expected,
        "hours": forced.hours.expected,
        "times": forced.cost.expected / plan.cost.expected if plan.cost and plan.cost.expected > 0 else None,
    }
    if lists and job is not None:
        needed = _excluded(scenario, query, job, shared)
        then = f"${forced.cost.expected:,.2f} for all jobs"
        costs = {"then": then, "cost_usd": forced.cost.expected, "hours": forced.hours.expected}
        relax = tuple(
            change.model_copy(update=costs) for change in needed.relax if change.limit.startswith(f"jobs.{job.name}.")
        )
        return needed.model_copy(update={"status": "beyond", "relax": relax, "plan": _words_of(forced), **figures})
    changed = describe_job_differences(plan.parts_that_end, forced.parts_that_end) if plan.planned else ""
    is_plan = bool(plan.planned) and not changed
    return WhyNot(
        asked=query.text, status="chosen" if is_plan else "possible",
        plan=_summary_of(forced) if is_plan else _words_of(forced), reasons=(changed,) if changed else (), **figures,
    )  # fmt: skip


def _excluded(scenario: Scenario, query: WhyNotQuery, job: RlJob | None, shared: ChainSearch) -> WhyNot:
    """Return what excludes what is asked for of one job, without figures: those of one part are none of the chain."""
    if job is not None:
        answer: WhyNot | None = renumbered(answer_rl_query(shared.ways(scenario, job), None, query), scenario, job)
    else:
        others = without_runs(scenario)
        answer = None if others is None else explain(others, query.text, shared.options, shared.library).why_not
    if answer is None or answer.status in ("chosen", "possible"):
        reason = "with the other jobs no plan runs it so, whatever the budget or the deadline alone is"
        return WhyNot(asked=query.text, status="impossible", reasons=(reason,))
    relax = tuple(change.model_copy(update={"then": "", "cost_usd": None, "hours": None}) for change in answer.relax)
    none = dict.fromkeys(("cost_usd", "hours", "times"))
    return answer.model_copy(update={"relax": relax, "remedies": (), "plan": "", **none})
