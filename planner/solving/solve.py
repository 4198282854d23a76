"""Solve a scenario: from its candidates to an audited plan."""

from __future__ import annotations

import datetime
import logging
import math
from collections import Counter
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from planner import timetable
from planner.candidates.screening import CandidateObjective
from planner.configurations.recipe import Recipe
from planner.errors import AuditError, TimeIsUpError
from planner.evaluation.audit import audit
from planner.formulation.solvers import solver_versions
from planner.library.engines import facts_on
from planner.library.schema import Library
from planner.library.technique_tables import read_techniques
from planner.loading.question import Asked, as_scenario
from planner.results.plan import Assignment, Plan, Status, TieStep, plan_figures
from planner.results.plan_parts import CandidateCounts, CutSamples, Infeasible, Option, QualityNote
from planner.scenario.limits import unknown_notes
from planner.scenario.scenario import Scenario, SolveOptions
from planner.solving.alternatives import (
    SOLVED,
    best_by_method,
    find_faster,
    find_runners_up,
    with_further_ways,
    without_demand,
)
from planner.solving.binding_limits import (
    compare_purchase,
    describe_binding_limits,
    describe_outdated_prices,
    describe_spot_outlier,
)
from planner.solving.chosen import build_inputs, cut_samples
from planner.solving.notes import budget_probability, budget_warnings, build_assignment, typical_stock_note
from planner.solving.optimise_choice import (
    OptimisedChoice,
    best_side_by_side,
    budget_notes,
    first_better_step,
    keeps_together,
    may_take_turns,
    optimise,
    proven_least,
    run_of_job,
    waiting_rooms,
)
from planner.solving.plan_evidence import (
    adapters_another_way,
    best_by_framework,
    find_evidence,
    find_lossy,
    find_riskier,
    find_safer,
    with_flattery,
)
from planner.solving.prepare import PreparedScenario, are_compared, prepare
from planner.subjects import subject_of
from planner.watch import WHY_NONE, finishing, if_time, noting_what_is_left_out, tell, watched

if TYPE_CHECKING:
    from concurrent.futures import Executor

LOG = logging.getLogger("planner")
"""Messages of the library, at the level INFO: nothing is written to a stream."""
CHANGED_DEFAULTS_NOTE = (
    "defaults of schema 2 hold (framework: hf, solve.ties: 0, limits.max_price_age: null, limits.vram_headroom: 0.05, "
    "limits.spot_zones: same_zone, interconnect: nvlink of offers are the former ones); schema: 2 hides this"
)
"""A warning of every plan whose scenario does not say that it expects the present defaults."""
PARALLEL_JOBS_NOTE = "jobs run on separate machines; methods and limits apply per job"
"""A warning of every plan with several jobs."""


def solve(
    scenario: Asked,
    options: SolveOptions | None = None,
    library: Library | None = None,
    explains: bool = True,
    executor: Executor | None = None,
) -> Plan:
    """Return the cheapest (or fastest) plan that keeps every limit, proven and audited.

    An infeasible scenario is a `Plan` with that status and its explanation; without `explains` it has none. The
    workers of an `executor` (of `concurrent.futures`, loky or Dask) prepare many jobs; the plan is the same.
    Raises ScenarioError and LibraryError on bad input, SolverError if the solver breaks down, AuditError if the audit
    finds a fault in the plan.

    >>> plan = planner.solve("quickstart")
    >>> plan.status, len(plan.jobs)
    ('optimal', 1)
    """
    scenario = as_scenario(scenario)
    options = options or SolveOptions()
    with watched(time_limit_seconds=options.time_limit_seconds), noting_what_is_left_out() as left_out:
        try:
            plan = _solve(scenario.on_day(options.as_of), options, library, explains, executor)
        except TimeIsUpError:
            return _told(_out_of_time(scenario, options))
    return _told(plan.model_copy(update={"warnings": (*plan.warnings, *_left_out(left_out))}) if left_out else plan)


def _told(plan: Plan) -> Plan:
    """Return a plan whose status and time a log has, if its program keeps one."""
    LOG.info("%s: %s in %.2f s", plan.scenario, plan.status, plan.seconds)
    return plan


def _solve(
    scenario: Scenario, options: SolveOptions, library: Library | None, explains: bool, executor: Executor | None
) -> Plan:
    """Return the plan of a scenario; TimeIsUpError where nothing is found in time."""
    started = perf_counter()
    if (subject := subject_of(scenario)) is not None:
        return subject.solve(scenario, options, library, started, explains)
    return solve_prepared(prepare(scenario, library, executor=executor, only_plan=True), options, started, explains)


def _out_of_time(scenario: Scenario, options: SolveOptions) -> Plan:
    """Return the plan of a scenario for which nothing was found in time."""
    seconds, as_of = options.time_limit_seconds or 0.0, options.as_of or datetime.date.today()
    return Plan(
        scenario=scenario.name, status="no_plan", solver=options.solver, seconds=seconds, as_of=as_of.isoformat(),
        candidates=CandidateCounts(made=0, rejected=0, dominated=0, offers=len(scenario.offers)),
        objective=None, bound=None, gap=None, cost=None, hours=None,
    )  # fmt: skip


def _left_out(names: list[str]) -> tuple[str, ...]:
    """Return the warning that names what a plan lacks because its time was up."""
    return (f"left out, as the time limit was reached: {', '.join(names)}",) if names else ()


def solve_prepared(
    prepared: PreparedScenario, options: SolveOptions | None = None, started: float | None = None, explains: bool = True
) -> Plan:
    """Return the plan of a prepared scenario; the plan's seconds count from `started`.

    Without `explains` nothing says why there is no plan: to find that out takes longer than all else.
    """
    options = options or SolveOptions()
    started = perf_counter() if started is None else started
    if not prepared.scenario.limits.fallbacks:
        return _solve_alone(prepared, options, started, explains)
    plan = _solve_alone(without_demand(prepared), options, started, explains)
    if plan.status not in SOLVED:
        return plan
    plan = with_further_ways(prepared, plan, partial(_solve_way, options), explains)
    return audited(
        plan.model_copy(update={"seconds": perf_counter() - started}), prepared.scenario, prepared.library, options
    )


def lack_of_ways(scenario: Scenario, options: SolveOptions | None, library: Library) -> Infeasible | None:
    """Return why a scenario has fewer further ways than it asks for; None where it has enough, or asks for none.

    A scenario without any plan is None too: there is more to say of it.
    """
    if not scenario.limits.fallbacks:
        return None
    prepared, options = prepare(scenario, library), options or SolveOptions()
    if _solve_alone(without_demand(prepared), options, perf_counter(), explains=False).status not in SOLVED:
        return None
    return solve_prepared(prepared, options).infeasible


def _solve_way(options: SolveOptions, prepared: PreparedScenario) -> Plan:
    """Return the plan of one further way, unexplained where it has none."""
    return _solve_alone(prepared, options, perf_counter(), explains=False)


def _solve_alone(prepared: PreparedScenario, options: SolveOptions, started: float, explains: bool) -> Plan:
    """Return the plan of a prepared scenario, which asks for no further ways."""
    has_candidates = all(len(candidates.table) for candidates in prepared.screened)
    free = has_candidates and may_take_turns(prepared)
    if free and prepared.scenario.needs_timetable:
        return solve_over_time(prepared, options, started, explains)
    best = best_side_by_side if free else optimise
    solved = best(prepared, options) if has_candidates else None
    if free and solved is None:
        return solve_over_time(_uncut(prepared), options, started, explains)
    with finishing():
        plan = _plan(prepared, solved, options, perf_counter() - started, explains)
        return audited(plan, prepared.scenario, prepared.library, options)


def _uncut(prepared: PreparedScenario) -> PreparedScenario:
    """Return the scenario with all candidates of its jobs, made again where some are no longer kept."""
    return prepare(prepared.scenario, prepared.library, may_be_slim=False) if prepared.is_cut else prepared


def solve_over_time(prepared: PreparedScenario, options: SolveOptions, started: float, explains: bool = True) -> Plan:
    """Return the plan of a scenario whose jobs take turns on what they share."""
    # CP-SAT and the modules of timetables are loaded only where jobs compete.

    return solve_built(prepared, timetable.build_timetable(prepared), options, started, explains)


def solve_built(
    prepared: PreparedScenario,
    built: timetable.BuiltTimetable,
    options: SolveOptions,
    started: float,
    explains: bool = True,
) -> Plan:
    """Return the plan of a timetable that is built already, perhaps from some of the candidates only."""
    built, solved = timetable.solve_built_schedule(prepared, built, options)
    dominated = sum(len(candidates.table) for candidates in prepared.screened) - sum(
        len(job.modes) for job in built.jobs
    )
    facts = _facts(prepared, options, perf_counter() - started, max(0, dominated)) | {"solver": "cp-sat"}
    least = solved.least
    with finishing():
        plan = timetable.timetable_plan(prepared, built, solved, options, facts)
        if plan.status == "infeasible" and explains:
            why = if_time(WHY_NONE, lambda: timetable.explain_timetable(prepared, built), None)
            plan = plan.model_copy(update={"infeasible": why})
        if least is not None and explains:
            costs = if_time("what limits cost", lambda: timetable.shared_limit_costs(built.problem, least), ())
            plan = plan.model_copy(update={"shared_limits": costs})
        return audited(plan, prepared.scenario, prepared.library, options)


def audited(plan: Plan, scenario: Scenario, library: Library, options: SolveOptions) -> Plan:
    """Return the plan; AuditError if the independent audit finds a fault."""
    violations = audit(plan, scenario, library, asked_gap=options.gap)
    if violations:
        raise AuditError("the plan fails its own audit: " + "; ".join(str(violation) for violation in violations[:5]))
    left_out = unknown_notes(scenario.offers, scenario.limits, library)
    return plan.model_copy(update={"warnings": tuple(dict.fromkeys((*left_out, *plan.warnings)))}) if left_out else plan


def _facts(prepared: PreparedScenario, options: SolveOptions, seconds: float, dominated: int) -> dict[str, Any]:
    """Return the fields of a plan that do not depend on what was chosen."""
    return {
        "scenario": prepared.scenario.name,
        "solver": options.solver,
        "seconds": seconds,
        "as_of": (options.as_of or datetime.date.today()).isoformat(),
        "candidates": count_candidates(prepared, dominated),
        "cut": find_cut_samples(prepared),
    }


def find_cut_samples(prepared: PreparedScenario) -> tuple[CutSamples, ...]:
    """Return what is cut of the samples of each training job that has samples longer than its sequences."""
    cuts = (
        cut_samples(job, candidate.physics.shape, prepared.library.architecture(job.architecture))
        for job, candidate in zip(prepared.scenario.jobs, prepared.candidates, strict=True)
        if job.trains
    )
    return tuple(cut for cut in cuts if cut is not None)


def _plan(
    prepared: PreparedScenario, solved: OptimisedChoice | None, options: SolveOptions, seconds: float, explains: bool
) -> Plan:
    """Return the plan of a choice, or why there is none: without rows, or not solved for want of candidates."""
    scenario, as_of = prepared.scenario, options.as_of or datetime.date.today()
    facts = _facts(prepared, options, seconds, solved.dominated if solved else 0)
    if solved is None or not solved.rows:
        from planner.solving.diagnosis import diagnose  # loads many modules that a plan does not need

        def why() -> Infeasible:
            return diagnose(_uncut(prepared))  # what is too late, too

        status: Status = "infeasible" if solved is None or solved.choice.first.is_infeasible else "no_plan"
        facts["infeasible"] = if_time(WHY_NONE, why, None) if explains and status == "infeasible" else None
        return Plan(**facts, status=status, objective=None, bound=None, gap=None, cost=None, hours=None)
    first, jobs = solved.choice.first, _assignments(prepared, solved, as_of)
    if explains:
        jobs = with_flattery(jobs, prepared)
        if any(offer.is_managed or offer.buy is not None for offer in scenario.offers):
            from planner.solving.binding_limits import with_break_even  # only next to services, and machines to buy

            jobs = if_time("from where own machines pay", partial(with_break_even, jobs, prepared), jobs)
    in_dollars = scenario.objective_kind == "cost" and scenario.has_plain_dollars
    shown = math.fsum(job.cost.expected for job in jobs) if in_dollars else first.objective
    chance = budget_probability(scenario, jobs)
    return Plan(
        **facts,
        objective=first.objective,
        **_proof(solved),
        keeps_typical_stock=solved.keeps_typical,
        least_cost_usd=first.objective if scenario.has_plain_dollars else None,
        tie_decided_by=_tie_decided_by(solved) if scenario.objective_kind == "cost" else None,
        faster=_faster(prepared, jobs) if explains and not prepared.is_slim else (),
        budget_usd=scenario.limits.budget_usd,
        budget_probability=chance,
        now=scenario.now_text,
        zone=scenario.zone,
        warnings=(
            *budget_warnings(scenario, chance),
            *budget_notes(scenario, solved, shown),
            *typical_stock_note({peak.words: peak.most for peak in solved.typical}, solved.keeps_typical),
            *_warnings(scenario, jobs),
        ),
        inputs=build_inputs(scenario, jobs, solver_versions()),
        **plan_figures(jobs, budget_confidence=scenario.limits.budget_confidence),
    )


def _faster(prepared: PreparedScenario, jobs: tuple[Assignment, ...]) -> tuple[Option, ...]:
    if len(jobs) > 1:
        return ()
    return if_time("faster plans", lambda: find_faster(prepared, jobs[0].hours.at_confidence), ())


def _proof(solved: OptimisedChoice) -> dict[str, Any]:
    """Return status, bound and gap of a choice.

    A solver whose result holds only on a grid of shares (CP-SAT) proves no gap, and a budget that jobs keep together
    only leaves one: such a plan is `feasible`.
    """
    first, least = solved.choice.first, proven_least(solved)
    if least is None or first.objective is None:
        is_proven = first.is_proven and first.gap is not None
        bound = first.bound if first.gap is not None else None
        return {"status": "optimal" if is_proven else "feasible", "bound": bound, "gap": first.gap}
    if math.isinf(least):
        return {"status": "feasible", "bound": None, "gap": None}
    return {"status": "feasible", "bound": least, "gap": (first.objective - least) / max(abs(first.objective), 1e-9)}


def _tie_decided_by(solved: OptimisedChoice) -> TieStep | None:
    """Return the first step of a tie in which the plan is better than the strict optimum; None where they are one."""
    chosen, least = np.asarray(solved.rows), solved.choice.strict_rows
    if np.array_equal(chosen, least):
        return None
    table = solved.table
    fastest = np.minimum(table.late_hours(table.share_low), table.late_hours(table.share_high))
    pauses = np.zeros(len(table))
    columns = (*table.tie_steps.T, table.instances, pauses, fastest, table.lossiness)
    return first_better_step(np.array([column[least].sum() - column[chosen].sum() for column in columns]))


def _assignments(prepared: PreparedScenario, solved: OptimisedChoice, as_of: datetime.date) -> tuple[Assignment, ...]:
    """Return how each job is run; jobs on spot wait less where that keeps the budget of all jobs together, too."""
    scenario = prepared.scenario
    rooms = waiting_rooms(scenario, solved) if scenario.waits_less else None

    def made(rooms: tuple[float, float] | None) -> tuple[Assignment, ...]:
        numbered = enumerate(zip(solved.rows, solved.shares, strict=True))
        known: dict[tuple[int, int, float], Assignment] = {}
        assignments = []
        for index, (row, share) in numbered:
            tell("jobs of the plan", index, len(solved.rows))
            # Of few jobs each also names alternatives of its own.
            twin = index if are_compared(solved.rows) else prepared.first_twin[index]
            key = (twin, int(solved.owner[row]), share)
            if key not in known:
                known[key] = _assignment(prepared, solved, *(index, row, share), rooms, as_of)
            assignments.append(known[key].model_copy(update={"name": scenario.jobs[index].name}))
        return tuple(assignments)

    jobs = made(rooms)
    if rooms is None or solved.joint is None or keeps_together(prepared, jobs):
        return jobs
    return made(None)


def _assignment(
    prepared: PreparedScenario,
    solved: OptimisedChoice,
    index: int,
    row: int,
    share: float,
    rooms: tuple[float, float] | None,
    as_of: datetime.date,
) -> Assignment:
    """Return how one job is run: the chosen row of the joined table decoded, with alternatives and binding limits.

    `rooms` are dollars that it may cost more to wait less, None where it may not.
    """
    chosen_row = int(solved.owner[row])
    chosen = run_of_job(prepared, index, chosen_row, share, rooms)
    made = build_assignment(chosen, prepared.scenario, prepared.library, as_of)
    if not prepared.names_others or (prepared.is_slim and not prepared.is_cut):
        return made  # a variant, or a plan that another one is compared with
    evidence = find_evidence(prepared, index, made, chosen_row, are_compared(prepared.scenario.jobs))
    if prepared.is_slim:
        return made.model_copy(update={"evidence": evidence})  # alternatives are no longer kept
    others: dict[str, Any] = {}
    if are_compared(prepared.scenario.jobs):
        find = partial(_others, prepared, index, made, chosen.recipe, chosen_row, share)
        others = if_time("other ways to run a job", find, {})
    return made.model_copy(
        update={
            **others,
            "evidence": evidence,
            "quality": _quality(made, chosen.recipe),
            "purchase": compare_purchase(made, prepared.scenario),
            "compared_by": CandidateObjective.of(prepared.scenario).formula,
            "notes": (
                *describe_spot_outlier(prepared, index, chosen_row, share),
                *describe_outdated_prices(prepared, index, chosen_row, share),
                *made.notes,
            ),
            "binding": describe_binding_limits(prepared, index, made.cost_usd),
        }
    )


def _others(
    prepared: PreparedScenario, index: int, made: Assignment, recipe: Recipe, row: int, share: float
) -> dict[str, Any]:
    """Return the fields of an assignment that name other ways to run the job."""
    return {
        "lossy_techniques": find_lossy(prepared, index, recipe),
        "methods": (*best_by_method(prepared, index), *adapters_another_way(prepared, index)),
        "cheaper_at_risk": find_riskier(prepared, index, made.gpu, row, share),
        "safer": find_safer(prepared, index, made),
        "frameworks": best_by_framework(prepared, index, made.gpu),
        "next_best": find_runners_up(prepared, index, row, share),
    }


def _quality(job: Assignment, recipe: Recipe) -> tuple[QualityNote, ...]:
    """Return what is published of the quality that the techniques of a job reach.

    Weights as they are released round nothing, and what is known of nf4 says nothing of other formats of 4 bits.
    """
    values = vars(job.techniques)
    released = getattr(recipe, "released", False)
    other = job.inference is not None and values["weight_bits"] == 4 and job.inference.weight_format != "nf4"
    rounds = values | ({"weight_bits": 16} if released or other else {})
    in_use = read_techniques().in_use(rounds, job.techniques.accumulation_steps > 1)
    facts = facts_on(in_use, values)
    return tuple(QualityNote(text=fact.short, setting=fact.setting, source=fact.source) for fact in facts)


def count_candidates(prepared: PreparedScenario, dominated: int) -> CandidateCounts:
    """Return how many candidates were made, and why the others are none of the program."""
    reasons: Counter[str] = Counter()
    for candidates, screened in zip(prepared.candidates, prepared.screened, strict=True):
        reasons += candidates.physics.rejected + screened.rejected
    outdated = sum(prepared.scenario.limits.is_outdated(offer) for offer in prepared.scenario.offers)
    return CandidateCounts(
        made=sum(len(candidate.table) for candidate in prepared.candidates)
        + sum(candidates.dropped for candidates in prepared.screened),
        rejected=sum(reasons.values()),
        dominated=dominated + sum(candidates.dominated for candidates in prepared.screened),
        offers=len(prepared.scenario.offers) - outdated,
        outdated_offers=outdated,
        reasons=dict(reasons.most_common()),
    )


def _warnings(scenario: Scenario, jobs: tuple[Assignment, ...]) -> tuple[str, ...]:
    schema = () if scenario.schema_version else (CHANGED_DEFAULTS_NOTE,)
    joint = (PARALLEL_JOBS_NOTE,) if len(jobs) > 1 else ()
    if not are_compared(jobs):
        joint = (*joint, f"other ways to run each of {len(jobs)} jobs are left out: solve one alone to see its own")
    return tuple(dict.fromkeys((*joint, *(note for job in jobs for note in job.notes), *schema)))
