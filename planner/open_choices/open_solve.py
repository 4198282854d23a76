"""Solve a scenario that leaves its model, tokens or batch open, or say what would give it a plan."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from planner.audit.audit import audit
from planner.errors import Fault, PlannerError, ScenarioError, raise_faults
from planner.library.reading import read_library
from planner.library.schema import Library
from planner.loading.scenario_file import change_scenario
from planner.open_choices.choice_alternatives import (
    Alternative,
    known_range,
    law_of,
    list_alternatives,
    tokens_at,
    tokens_for_loss,
)
from planner.open_choices.decision import Decision, decide_alone, given_tokens
from planner.open_choices.open_jobs_together import decide_together, least_sum_of, together
from planner.records import record
from planner.results.plan import Assignment, Plan
from planner.results.plan_parts import Relaxation
from planner.scenario.open_job import OpenJob
from planner.scenario.scenario import (
    Scenario,
    SolveOptions,
    architectures_of,
    decide_scenario,
    open_jobs,
    scenario_data,
)
from planner.solving.infeasibility.diagnosis import MAX_RELAXATIONS, asks_no_less, elastic_solutions
from planner.solving.infeasibility.elastic_program import ElasticProgram, ElasticSolution
from planner.solving.infeasibility.relaxations import (
    BUDGET,
    STEP_OF,
    LimitChange,
    build_changes,
    build_relaxations,
    verify_relaxation,
)
from planner.solving.infeasibility.relaxed_candidates import relax_candidates
from planner.solving.prepare import PreparedScenario, prepare
from planner.solving.resolve import try_solve

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


# Why no model and no batch of an open job has a plan: the smallest changes that give any of them one.
#
# Each alternative needs other changes: a larger batch less time, a smaller model fewer dollars. So the elastic program
# is solved for each; of all that change the same limits those that change least are verified, and the smallest is kept.
# What is reported with it is the best alternative under the change, as `solve` decides it.


POLICY_ROOM = 1.5
"""A policy on spot may need this much less of a limit than the mix of two markets that the elastic program counts."""
MOST_VERIFIED = 8
"""Alternatives whose smallest change of the same limits is verified at most, those that change least first."""


@record(frozen=True)
class _Way:
    """A plan of the elastic program of one alternative."""

    prepared: PreparedScenario
    elastic: ElasticProgram
    solution: ElasticSolution


def smallest_changes(alternatives: Sequence[Alternative], options: SolveOptions) -> list[Relaxation]:
    """Return up to `MAX_RELAXATIONS` relaxations with which some alternative has a plan, fewest limits first."""
    by_paths: dict[frozenset[str], list[_Way]] = {}
    for way in _ways(alternatives):
        by_paths.setdefault(way.solution.paths, []).append(way)
    for ways in by_paths.values():
        ways.sort(key=lambda way: way.solution.change)
    order = sorted(by_paths, key=lambda paths: (len(paths), by_paths[paths][0].solution.change))
    found: list[list[LimitChange]] = []
    for paths in order:
        if len(found) == MAX_RELAXATIONS or (found and len(paths) > len(found[0]) + 1):
            break
        least = _least(by_paths[paths])
        if least is not None and not any(asks_no_less(least, before) for before in found):
            found.append(least)
    return [
        relaxation
        for number, changes in enumerate(found, 1)
        for relaxation in _reported(alternatives[0], changes, number, options)
    ]


def _reported(
    asked: Alternative, changes: Sequence[LimitChange], number: int, options: SolveOptions
) -> list[Relaxation]:
    """Return changes as results, with the plan of the best alternative under them, as `solve` decides it."""
    changed = change_scenario(asked.scenario, [change.setting for change in changes])
    job = next(open_job for open_job in open_jobs(changed) if open_job.name == asked.job.name)
    decision = decide_alone(list_alternatives(changed, job, asked.library), options)
    plan, best = try_solve(decision.alternative.prepared(decision.tokens)), decision.alternative
    name = f"{best.architecture.name} at a batch of {best.batch:,}"
    made = [] if plan is None else build_relaxations(plan, changes, number)
    return [relaxation.model_copy(update={"then": f"{name}, {relaxation.then}"}) for relaxation in made]


def _ways(alternatives: Sequence[Alternative]) -> Iterator[_Way]:
    """Yield the plans of the elastic program of each alternative."""
    market: PreparedScenario | None = None
    for alternative in alternatives:
        is_asked, tokens = _tokens_asked(alternative)
        if not is_asked:
            continue
        market = prepared = prepare(alternative.definite(tokens), alternative.library, market, with_policies=False)
        for elastic, solution in elastic_solutions(relax_candidates(prepared)):
            yield _Way(prepared, elastic, solution)


def _tokens_asked(one: Alternative) -> tuple[bool, int | None]:
    """Return whether an alternative can do what is asked for, and the least tokens that do it; None: the work's own."""
    if one.job.wants_least_loss:
        first, last = known_range(one)
        return first <= last, tokens_at(first)
    if one.job.work.loss is not None:
        tokens = tokens_for_loss(one, one.job.work.loss)
        return tokens is not None, tokens
    return True, given_tokens(one)


def _least(ways: Sequence[_Way]) -> list[LimitChange] | None:
    """Return the smallest verified changes of the same limits; None where none is verified."""
    best: tuple[float, list[LimitChange]] | None = None
    for way in ways[:MOST_VERIFIED]:
        if best is not None and way.solution.change > best[0] * POLICY_ROOM:
            break
        changes = build_changes(way.solution, way.elastic, way.prepared)
        smaller = None if best is None else _step_smaller(best[1])
        if smaller is not None and _size(smaller) < sum(map(_size, changes)):
            changes = [smaller]  # one solve shows whether a policy needs so much less
        verified = verify_relaxation(way.prepared, changes) if changes else None
        if verified is not None and (best is None or sum(map(_size, verified[1])) < best[0]):
            best = sum(map(_size, verified[1])), verified[1]
    return None if best is None else best[1]


def _step_smaller(changes: Sequence[LimitChange]) -> LimitChange | None:
    """Return a change of one amount, smaller by one step that can be typed; None where there is none."""
    one = changes[0]
    if len(changes) != 1 or isinstance(one.old, str) or isinstance(one.new, str):
        return None
    step = STEP_OF.get(one.limit.rpartition(".")[2], 1.0)
    if abs(one.new - one.old) <= step:
        return None
    new = round(one.new - math.copysign(step, one.new - one.old), 2)
    path, _, text = one.setting.partition("=")
    return replace(one, new=new, setting=f"{path}={new:.10g}{'h' if text.endswith('h') else ''}")


def _size(change: LimitChange) -> float:
    """Return by how much a limit changes, relative to what it was; 1 for a list."""
    if isinstance(change.old, str) or isinstance(change.new, str):
        return 1.0
    return abs(change.new - change.old) / (abs(change.old) or 1.0)


# Solve a scenario that leaves its model, its tokens or its batch open: decide them, then solve what is left.


Finish = Callable[[PreparedScenario, SolveOptions | None, float | None], Plan]
"""Solves a definite scenario; its seconds count from the last argument."""


MOST_SMALLER_BUDGETS = 2
"""Smaller budgets that models are searched for, where those for the whole one have no plan."""
MOST_OVER_BUDGET = 1.1
"""What the search of models misses of the dollars at the confidence is less than this share."""


class ChoiceAuditError(PlannerError):
    """A fault of the planner: the independent audit does not confirm what was chosen."""


def solve_open(
    scenario: Scenario,
    job: OpenJob,
    options: SolveOptions | None,
    library: Library | None,
    started: float,
    finish: Finish,
) -> Plan:
    """Return the plan of the best model, tokens and batch of an open job, audited.

    Every model is compared at every batch; a comparison solves all its candidates. Where nothing is feasible, the
    plan explains which smallest changes give any alternative a plan.

    Raises
    ------
    ScenarioError
        For models that no law knows, and for losses and sizes outside what the law has seen.
    """
    options = options or SolveOptions()
    library = library or read_library(
        [name for scenario_job in scenario.jobs for name in architectures_of(scenario_job)]
    )
    if len(scenario.jobs) > 1:
        return _solve_several(scenario, options, library, started, finish)
    alternatives = open_alternatives(scenario, job, library)
    decision = decide_alone(alternatives, options)
    plan = finish(decision.alternative.prepared(decision.tokens), options, started)
    if plan.infeasible is not None and len(alternatives) > 1:
        relax = tuple(smallest_changes(alternatives, options))
        plan = plan.model_copy(
            update={"infeasible": plan.infeasible.model_copy(update={"relax": relax})} if relax else {}
        )
    return _with_choices(plan, scenario, {job.name: decision}, library, options)


def _solve_several(scenario: Scenario, options: SolveOptions, library: Library, started: float, finish: Finish) -> Plan:
    """Return the plan of several jobs, some of which train the best models that the budget of all of them pays for.

    Jobs may take turns on machines of which there are few. Where deadlines leave no turns, they run at one time.
    """
    for job in open_jobs(scenario):
        open_alternatives(scenario, job, library)
    jobs = together(scenario, library, options)
    decisions = decide_together(jobs.in_turns())
    decided = decide_scenario(scenario, *(decision.definite for decision in decisions.values()))
    plan = finish(jobs.prepared(decided, decisions), options, started)
    if not plan.jobs and all(decision.above_least is not None for decision in decisions.values()):
        decisions = decide_together(jobs, least=least_sum_of(decisions))
        decided = decide_scenario(scenario, *(decision.definite for decision in decisions.values()))
        plan = finish(jobs.prepared(decided, decisions), options, started)
    least = (
        least_sum_of(decisions) if all(decision.above_least is not None for decision in decisions.values()) else None
    )
    for _ in range(MOST_SMALLER_BUDGETS):
        budget = None if least is None else _smaller_budget(plan, scenario.limits.budget_usd, jobs.shared.budget_usd)
        if budget is None:
            break
        jobs = replace(jobs, shared=replace(jobs.shared, budget_usd=budget))
        decisions = decide_together(jobs.in_turns(), least=least)
        decided = decide_scenario(scenario, *(decision.definite for decision in decisions.values()))
        plan = finish(jobs.prepared(decided, decisions), options, started)
    return _with_choices(plan, scenario, decisions, library, options)


def _smaller_budget(plan: Plan, limit_usd: float | None, budget_usd: float | None) -> float | None:
    """Return a budget for the search that leaves room for what the jobs at the confidence cost more than it counts.

    The search counts dollars on mean markets; None where there is a plan, or another limit stands in the way.
    """
    if plan.infeasible is None or limit_usd is None or budget_usd is None:
        return None
    needed = [change.change_to for change in plan.infeasible.relax if change.limit == BUDGET]
    first = next((float(usd) for usd in needed if isinstance(usd, int | float)), math.inf)
    return 0.998 * budget_usd * limit_usd / first if first <= MOST_OVER_BUDGET * limit_usd else None


def open_alternatives(scenario: Scenario, job: OpenJob, library: Library) -> list[Alternative]:
    """Return the models and batches of an open job; ScenarioError where a law does not hold for any of them."""
    alternatives = list_alternatives(scenario, job, library)
    raise_faults(_model_faults(scenario, job, alternatives), ScenarioError)
    if alternatives[0].definite(1).needs_timetable:
        what = "release, due, after, available, block, budgets and max_usd_per_hour need a model that is known"
        raise ScenarioError([Fault(scenario.name, 0, f"jobs.{job.name}.work", what, "leave them out")])
    if scenario.limits.fallbacks:
        what = "further ways need a model and tokens that are known"
        fix = "leave it out, or set architecture and work.tokens to those of a plan without it"
        raise ScenarioError([Fault(scenario.name, 0, "limits.fallbacks", what, fix)])
    return alternatives


def _model_faults(scenario: Scenario, job: OpenJob, alternatives: Sequence[Alternative]) -> list[Fault]:
    """Return a fault for each model that a law does not hold for, or one where it holds for none."""
    place = f"jobs.{job.name}"
    if not job.uses_law:
        return []
    faults = []
    for architecture in {
        alternative.architecture.name: alternative.architecture for alternative in alternatives
    }.values():
        if architecture.kind != "decoder" or architecture.experts:
            kind = "has experts" if architecture.experts else "makes images"
            what = f"{architecture.name} {kind}: the laws hold for dense models of text"
            faults.append(Fault(scenario.name, 0, f"{place}.architecture", what, "leave it out"))
    ranges = [known_range(alternative) for alternative in alternatives]
    if not faults and all(first > last for first, last in ranges):
        what = "no model of these has runs that the law has seen: 1e18 to 1e22 FLOP, 1 to 350 tokens per parameter"
        faults.append(
            Fault(scenario.name, 0, f"{place}.architecture", what, "take models of 0.02 to 40 billion parameters")
        )
    wanted = job.work.loss
    if not faults and wanted is not None:
        faults += _loss_faults(
            scenario,
            job,
            wanted,
            [alternative for alternative, (a, b) in zip(alternatives, ranges, strict=True) if a <= b],
        )
    return faults


def _loss_faults(scenario: Scenario, job: OpenJob, wanted: float, alternatives: Sequence[Alternative]) -> list[Fault]:
    """Return a fault for a loss that no model reaches within what the law has seen."""
    place, law = f"jobs.{job.name}.work.loss", law_of(job)
    best = min(alternative.loss(tokens_at(known_range(alternative)[1])) for alternative in alternatives)
    worst = max(alternative.loss(tokens_at(known_range(alternative)[0])) for alternative in alternatives)
    if best <= wanted <= worst:
        return []
    least = f"{math.ceil(best * 100) / 100:.2f}"
    if wanted <= law.e:
        what = f"{wanted:g} is not above {law.e:g}, which the law says no model reaches"
    elif wanted < best:
        what = f"{wanted:g} is below {best:.3f}, the least loss of these models that the law has seen"
    else:
        what = f"{wanted:g} is above {worst:.3f}, the loss of the shortest run of these models that the law has seen"
    return [Fault(scenario.name, 0, place, what, f"give {least} to {math.floor(worst * 100) / 100:.2f}")]


def _with_choices(
    plan: Plan, scenario: Scenario, decisions: Mapping[str, Decision], library: Library, options: SolveOptions
) -> Plan:
    """Return the plan with what was chosen, checked by the audit, and with the scenario as it was asked."""
    if not plan.jobs:
        reasons = tuple(decision.why_infeasible for decision in decisions.values() if decision.why_infeasible)
        return plan.model_copy(update={"warnings": (*plan.warnings, *reasons)})
    jobs = tuple(_with_choice(job, decisions[job.name]) if job.name in decisions else job for job in plan.jobs)
    notes = [note for decision in decisions.values() for note in decision.notes]
    data = {key: value for key, value in scenario_data(scenario).items() if key != "offers"}
    inputs = plan.inputs and plan.inputs.model_copy(update={"scenario": data})
    warnings = tuple(dict.fromkeys((*notes, *plan.warnings)))
    plan = plan.model_copy(update={"jobs": jobs, "warnings": warnings, "inputs": inputs})
    violations = audit(plan, scenario, library, asked_gap=options.gap)
    if violations:
        raise ChoiceAuditError(
            "the choice fails its own audit: " + "; ".join(str(violation) for violation in violations[:5])
        )
    return plan


def _with_choice(job: Assignment, decision: Decision) -> Assignment:
    """Return how a job is run with what was chosen of it."""
    made = {"model": decision.choice(), "binding": decision.binding(job.binding)}
    return job.model_copy(update={**made, "notes": (*decision.notes, *job.notes)})
