"""Solve a scenario that leaves its model, tokens or batch open, for one budget or several; what it chose, fixed.

Questions about a plan (why, how it runs, what it costs by another deadline) are asked of the model, tokens and batch
that it chose. Questions about other scenarios (what-if, sweeps) choose again: each of them is solved as it is.
"""

from __future__ import annotations

import datetime
import math
from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING

from planner import timetable
from planner.candidates.job_candidates import JobCandidates
from planner.errors import Fault, InputError, PlannerError, ScenarioError, raise_faults
from planner.evaluation.audit import audit
from planner.library.reading import read_library
from planner.library.schema import Library
from planner.loading.question import Asked, as_scenario
from planner.loading.scenario_file import change_scenario
from planner.open_choices.choice_alternatives import (
    Alternative,
    Found,
    best_of,
    known_range,
    list_alternatives,
    tokens_at,
    tokens_for_loss,
)
from planner.open_choices.decision import SPREAD_NOTE, Decision, decide_alone, given_tokens, without_waste
from planner.open_choices.loss_laws import law_of
from planner.open_choices.model_choice_text import chosen_text, money_text
from planner.open_choices.open_jobs_together import (
    Together,
    decide_together,
    least_starts,
    least_sum_near,
    least_sum_of,
    together,
)
from planner.results.frontier import describe_assignment
from planner.results.plan import Assignment, Plan
from planner.results.plan_parts import Relaxation
from planner.results.subject_runs import LossFrontier, LossPoint
from planner.scenario.limits import peak_limit_at
from planner.scenario.open_job import OpenJob, OwnLaw
from planner.scenario.scenario import (
    Scenario,
    SolveOptions,
    architectures_of,
    decide,
    decide_scenario,
    open_job,
    open_jobs,
    scenario_data,
)
from planner.solving.diagnosis import (
    MAX_RELAXATIONS,
    STEP_OF,
    asks_no_less,
    build_relaxations,
    elastic_solutions,
    settle_all,
    verify_relaxation,
)
from planner.solving.elastic_program import (
    ElasticProgram,
    ElasticSolution,
    RelaxedCandidates,
    pieces_of,
    relax_candidates,
)
from planner.solving.limit_changes import BUDGET, LimitChange, build_changes
from planner.solving.optimise_choice import may_take_turns, try_solve
from planner.solving.prepare import PreparedScenario, prepare
from planner.solving.solve import solve, solve_prepared

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence


# Why no model and no batch of an open job has a plan: the smallest changes that give any of them one.
#
# Each alternative needs other changes: a larger batch less time, a smaller model fewer dollars. So the elastic program
# is solved for each; of all that change the same limits those that change least are verified, and the smallest is kept.
# What is reported with it is the best alternative under the change, as `solve` decides it.


POLICY_ROOM = 1.5
"""A policy on spot may need this much less of a limit than the mix of two markets that the elastic program counts."""
MOST_VERIFIED = 8
"""Alternatives whose smallest change of the same limits is verified at most, those that change least first."""


@dataclass(frozen=True)
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
    smallest: list[list[LimitChange]] = []
    for paths in order:
        if len(smallest) == MAX_RELAXATIONS or (smallest and len(paths) > len(smallest[0]) + 1):
            break
        least = _least(by_paths[paths])
        if least is not None and not any(asks_no_less(least, before) for before in smallest):
            smallest.append(least)
    return [
        relaxation
        for number, changes in enumerate(smallest, 1)
        for relaxation in _reported_change(alternatives[0], changes, number, options)
    ]


def _reported_change(
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


def _tokens_asked(alternative: Alternative) -> tuple[bool, int | None]:
    """Return whether an alternative can do what is asked for, and the least tokens that do it; None: the work's own."""
    if alternative.job.wants_least_loss:
        first, last = known_range(alternative)
        return first <= last, tokens_at(first)
    if alternative.job.work.loss is not None:
        tokens = tokens_for_loss(alternative, alternative.job.work.loss)
        return tokens is not None, tokens
    return True, given_tokens(alternative)


def _least(ways: Sequence[_Way]) -> list[LimitChange] | None:
    """Return the smallest verified changes of the same limits; None where none is verified."""
    best: tuple[float, list[LimitChange]] | None = None
    for way in ways[:MOST_VERIFIED]:
        if best is not None and way.solution.change > best[0] * POLICY_ROOM:
            break
        changes = build_changes(way.solution, way.elastic, way.prepared)
        lone = best[1][0] if best is not None and len(best[1]) == 1 else None
        smaller = _smaller(lone, 1) if lone is not None and _steps(lone) > 1 else None
        if smaller is not None and _size(smaller) < sum(map(_size, changes)):
            changes = [smaller]  # one solve shows whether a policy needs so much less
        verified = verify_relaxation(way.prepared, changes) if changes else None
        if verified is not None and (best is None or sum(map(_size, verified[1])) < best[0]):
            best = sum(map(_size, verified[1])), verified[1]
    return None if best is None else best[1]


def _steps(change: LimitChange) -> int:
    """Return by how many steps that can be typed an amount changes, rounded up; 0 for a list."""
    if isinstance(change.old, str) or isinstance(change.new, str):
        return 0
    return math.ceil(abs(change.new - change.old) / _step_of(change) - 1e-6)


def _step_of(change: LimitChange) -> float:
    """Return the step in which an amount can be typed."""
    peak = peak_limit_at(change.limit)
    step = None if peak is None else peak.step
    return STEP_OF.get(change.limit.rpartition(".")[2], 1.0) if step is None else step


def _smaller(change: LimitChange, steps: int) -> LimitChange:
    """Return a change of an amount, smaller by some steps."""
    assert not isinstance(change.old, str) and not isinstance(change.new, str)
    new = round(change.new - math.copysign(steps * _step_of(change), change.new - change.old), 6)
    path, _, text = change.setting.partition("=")
    return replace(change, new=new, setting=f"{path}={new:.10g}{'h' if text.endswith('h') else ''}")


def _size(change: LimitChange) -> float:
    """Return by how much a limit changes, relative to what it was; 1 for a list."""
    if isinstance(change.old, str) or isinstance(change.new, str):
        return 1.0
    return abs(change.new - change.old) / (abs(change.old) or 1.0)


# The same of several jobs: each trains as little as the law has seen, which needs least of every limit.
#
# One elastic program holds the candidates of all alternatives of all jobs, so it chooses among them. What is reported
# is the plan that `solve` makes of the changed scenario. Policies on spot and jobs in turn may need less than the
# elastic program counts: there the amounts are lowered while `solve` has a plan.


SHARE_OF_CHANGE = 0.01
"""Share of a change to which its least amount is found where each trial solves all jobs."""

if TYPE_CHECKING:
    Solved = tuple[timetable.ReportedPlan, Mapping[str, Decision]]
    SolveChanged = Callable[[Scenario, bool], Solved | None]
    """Returns the plan of a scenario with what each open job trains, as `solve` decides it; None without a plan.

    The second argument asks for the plan of the cheapest runs, which needs no search for the least loss.
    """


def smallest_changes_together(
    jobs: Together, scenario: Scenario, explained: Sequence[Relaxation], solve: SolveChanged
) -> list[Relaxation]:
    """Return up to `MAX_RELAXATIONS` relaxations of several jobs with which `solve` has a plan, fewest limits first.

    `explained` are those of one alternative of each job. Some are of another kind: frameworks, deadlines in turn.
    """
    ways = sorted([*_ways_together(jobs, scenario), *_changes_of(explained)], key=len)
    has_spot = any(offer.has_spot for offer in jobs.first.market.offers)
    may_need_less = has_spot or may_take_turns(jobs.first)
    kept: list[list[LimitChange]] = []
    relaxations: list[Relaxation] = []
    for way in ways:
        if len(kept) == MAX_RELAXATIONS or (kept and len(way) > len(kept[0]) + 1):
            break
        if any(asks_no_less(way, before) for before in kept):
            continue
        # A deadline that is rounded up may let a cheaper run end in time: then less of the budget is enough.
        rounded = len({change.limit == BUDGET for change in way}) > 1
        changes = way
        if may_need_less or rounded:
            changes = _least_amounts(scenario, way, solve, SHARE_OF_CHANGE if may_need_less else 0.0)
        # A budget that just suffices pays for nothing but the cheapest runs.
        best = _solved(scenario, changes, solve, only_cheapest=all(change.limit == BUDGET for change in changes))
        if best is None or any(asks_no_less(changes, before) for before in kept):
            continue
        kept.append(changes)
        names = "; ".join(
            f"{name} trains {decision.alternative.architecture.name} at a batch of {decision.alternative.batch:,}"
            for name, decision in best[1].items()
        )
        made = build_relaxations(best[0], changes, len(kept))
        relaxations += [relaxation.model_copy(update={"then": f"{names}; {relaxation.then}"}) for relaxation in made]
    return relaxations


def _ways_together(jobs: Together, scenario: Scenario) -> Iterator[list[LimitChange]]:
    """Yield the smallest changes of each set of limits with which some alternatives of all jobs have a plan."""
    least = _shortest_runs(jobs)
    for elastic, solution in elastic_solutions(_candidates_together(jobs, least)):
        pieces = [elastic.relaxed.pieces[place] for place in elastic.relaxed.piece[solution.rows].tolist()]
        names = [job.name for job in scenario.jobs]
        chosen = {
            name: _decision_of(pieces[names.index(name)], runs) for name, runs in zip(jobs.names, least, strict=True)
        }
        decided = decide_scenario(scenario, *(decision.definite for decision in chosen.values()))
        prepared = jobs.prepared(decided, chosen)
        changes = build_changes(solution, elastic, prepared)
        verified = verify_relaxation(prepared, changes) if changes else None
        for _, settled in settle_all(prepared, [verified]) if verified else ():
            yield settled


def _shortest_runs(jobs: Together) -> list[list[tuple[Alternative, int]]]:
    """Return, per open job, its alternatives with the fewest tokens that the law has seen."""
    ranges = [[(alternative, known_range(alternative)) for alternative in of_job] for of_job in jobs.alternatives]
    return [[(model, tokens_at(first)) for model, (first, last) in of_job if first <= last] for of_job in ranges]


def _candidates_together(jobs: Together, least: Sequence[Sequence[tuple[Alternative, int]]]) -> RelaxedCandidates:
    """Return the candidates of all alternatives, with those that filters exclude, in one table."""
    limits, market, library = jobs.first.scenario.limits, jobs.first.market, jobs.first.library
    places = {job.name: index for index, job in enumerate(jobs.first.scenario.jobs)}
    instead = {
        places[name]: [
            piece
            for alternative, tokens in runs
            for piece in pieces_of(alternative.candidates_at(tokens), limits, market, library)
        ]
        for name, runs in zip(jobs.names, least, strict=True)
    }
    return relax_candidates(jobs.first, instead)


def _decision_of(piece: JobCandidates, runs: Sequence[tuple[Alternative, int]]) -> Decision:
    """Return the alternative that some candidates are of, as decided."""
    own = (piece.architecture.name, piece.job.global_batch)
    alternative, tokens = next(run for run in runs if (run[0].architecture.name, run[0].batch) == own)
    return Decision(alternative, tokens, len(runs))


def _changes_of(explained: Sequence[Relaxation]) -> Iterator[list[LimitChange]]:
    """Yield the changes of each relaxation."""
    for way in dict.fromkeys(relaxation.way for relaxation in explained):
        yield [
            LimitChange(
                relaxation.limit, relaxation.change_from or 0.0, relaxation.change_to or 0.0, relaxation.setting
            )
            for relaxation in explained
            if relaxation.way == way
        ]


def _solved(
    scenario: Scenario, changes: Sequence[LimitChange], solve: SolveChanged, only_cheapest: bool = False
) -> Solved | None:
    """Return the plan of a scenario under changes; None where values contradict one another, or without a plan."""
    try:
        return solve(change_scenario(scenario, [change.setting for change in changes]), only_cheapest)
    except InputError:
        return None


def _least_amounts(
    scenario: Scenario, way: Sequence[LimitChange], solve: SolveChanged, share: float
) -> list[LimitChange]:
    """Return changes whose amounts are no larger than a plan needs, one after the other by bisection.

    Each to within a share of it, and never closer than a step.
    """
    changes = list(way)
    for place, whole in enumerate(way):
        low, high = 0, _steps(whole)  # steps back: low suffices, high does not
        width, middle = max(1.0, share * high), min(1, high - 1)  # mostly the change is the least already
        while high - low > width:
            smaller = _smaller(whole, middle)
            if _solved(scenario, [*changes[:place], smaller, *changes[place + 1 :]], solve, only_cheapest=True):
                low, changes[place] = middle, smaller
            else:
                high = middle
            middle = (low + high) // 2
    return changes


# Solve a scenario that leaves its model, its tokens or its batch open: decide them, then solve what is left.


MOST_SMALLER_BUDGETS = 2
"""Smaller budgets that models are searched for, where those for the whole one have no plan."""
MOST_OVER_BUDGET = 1.1
"""What the search of models misses of the dollars at the confidence is less than this share."""


class ChoiceAuditError(PlannerError):
    """A fault of the planner: the independent audit does not confirm what was chosen."""


def solve_open(
    scenario: Scenario, options: SolveOptions | None, library: Library | None, started: float, explains: bool
) -> Plan:
    """Return the plan of the best model, tokens and batch of the open jobs, audited.

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
    if len(scenario.jobs) > 1:  # their search reads from the explanation how much room a budget lacks
        return _solve_several(scenario, options, library, started)
    (job,) = open_jobs(scenario)
    alternatives = open_alternatives(scenario, job, library)
    decision = decide_alone(alternatives, options)
    plan = solve_prepared(decision.alternative.prepared(decision.tokens), options, started, explains)
    if plan.infeasible is not None and len(alternatives) > 1:
        relax = tuple(smallest_changes(alternatives, options))
        plan = plan.model_copy(
            update={"infeasible": plan.infeasible.model_copy(update={"relax": relax})} if relax else {}
        )
    return _with_choices(plan, scenario, {job.name: decision}, library, options)


def _solve_several(scenario: Scenario, options: SolveOptions, library: Library, started: float) -> Plan:
    """Return the plan of several jobs, some of which train the best models that the budget of all of them pays for.

    Jobs may take turns on machines of which there are few. Where deadlines leave no turns, they run at one time.
    """
    for job in open_jobs(scenario):
        open_alternatives(scenario, job, library)
    jobs = together(scenario, library, options)

    def solve_changed(changed: Scenario, only_cheapest: bool) -> Solved | None:
        its = together(changed, library, options)
        if only_cheapest:
            return _reported(its, changed, least_starts(its, None))
        other = _decide_several(its, changed, options, started)
        return _reported(its, changed, other.decisions) if other.plan.jobs else None

    several = _decide_several(jobs, scenario, options, started)
    plan = several.plan
    if plan.infeasible is not None:
        relax = tuple(smallest_changes_together(jobs, scenario, plan.infeasible.relax, solve_changed))
        plan = plan.model_copy(update={"infeasible": plan.infeasible.model_copy(update={"relax": relax})})
    return _with_choices(plan, scenario, several.decisions, library, options)


@dataclass(frozen=True)
class _Several:
    """What several jobs train, and the plan of it."""

    plan: Plan
    decisions: Mapping[str, Decision]


def _decide_several(jobs: Together, scenario: Scenario, options: SolveOptions, started: float) -> _Several:
    """Return the plan of the first decision that has one, the best first."""

    def solve(decisions: Mapping[str, Decision]) -> _Several:
        return _Several(solve_prepared(_prepared(jobs, scenario, decisions), options, started), decisions)

    several = None
    for decisions in _attempts(jobs):
        if several is not None and all(decision.why_infeasible for decision in decisions.values()):
            several = _with_smaller_budgets(jobs, scenario, several, solve)
            if several.plan.jobs or all(decision.why_infeasible for decision in several.decisions.values()):
                break
        several = solve(decisions)
        if several.plan.jobs:
            break
    assert several is not None
    if several.plan.jobs and any(decision.above_least is None for decision in several.decisions.values()):
        return replace(several, decisions=least_starts(jobs, least_sum_near(jobs.in_turns(), MOST_OVER_BUDGET)))
    return several


def _attempts(jobs: Together) -> Iterator[Mapping[str, Decision]]:
    """Yield what open jobs may train: in turn, at one time, and last the cheapest runs of all.

    Dollars at the confidence may be more than the search counts, so the best decision within the budget may fail.
    """
    first = decide_together(jobs.in_turns())
    yield first
    if all(decision.above_least is not None for decision in first.values()):
        least = least_sum_of(first)
        yield decide_together(jobs, least=least)
        yield least_starts(jobs, least)


def _with_smaller_budgets(
    jobs: Together, scenario: Scenario, several: _Several, solve: Callable[[Mapping[str, Decision]], _Several]
) -> _Several:
    """Return what is decided within budgets that leave room for what the search does not count."""
    least = least_sum_of(several.decisions)
    for _ in range(MOST_SMALLER_BUDGETS):
        budget = _smaller_budget(several.plan, scenario.limits.budget_usd, jobs.shared.budget_usd)
        if budget is None:
            break
        jobs = replace(jobs, shared=replace(jobs.shared, budget_usd=budget))
        several = solve(decide_together(jobs.in_turns(), least=least))
    return several


def _prepared(jobs: Together, scenario: Scenario, decisions: Mapping[str, Decision]) -> PreparedScenario:
    """Return the candidates of a scenario with what its open jobs train."""
    decided = decide_scenario(scenario, *(decision.definite for decision in decisions.values()))
    return jobs.prepared(decided, decisions)


def _reported(jobs: Together, scenario: Scenario, decisions: Mapping[str, Decision]) -> Solved | None:
    """Return the plan of decisions as a relaxation reports it; None without one."""
    plan = timetable.solve_as_asked(_prepared(jobs, scenario, decisions))
    return None if plan is None else (plan, decisions)


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
    if job.serve_tokens is not None and scenario.objective != "cost":
        wrong = "dollars of serving enter the choice of a size by its dollars alone"
        raise ScenarioError([Fault(scenario.name, 0, "objective", wrong, "minimise cost, or leave serve_tokens out")])
    if alternatives[0].definite(1).needs_timetable:
        wrong = "release, due, after, available, block, budgets and max_usd_per_hour need a model that is known"
        raise ScenarioError([Fault(scenario.name, 0, f"jobs.{job.name}.work", wrong, "leave them out")])
    if scenario.limits.fallbacks:
        wrong = "further ways need a model and tokens that are known"
        fix = "leave it out, or set architecture and work.tokens to those of a plan without it"
        raise ScenarioError([Fault(scenario.name, 0, "limits.fallbacks", wrong, fix)])
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
            wrong = f"{architecture.name} {kind}: the laws hold for dense models of text"
            faults.append(Fault(scenario.name, 0, f"{place}.architecture", wrong, "leave it out"))
    ranges = [known_range(alternative) for alternative in alternatives]
    if not faults and all(first > last for first, last in ranges):
        wrong = "no model of these has runs that the law has seen: 1e18 to 1e22 FLOP, 1 to 350 tokens per parameter"
        faults.append(
            Fault(scenario.name, 0, f"{place}.architecture", wrong, "take models of 0.02 to 40 billion parameters")
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
        wrong = f"{wanted:g} is not above {law.e:g}, which the law says no model reaches"
    elif wanted < best:
        wrong = f"{wanted:g} is below {best:.3f}, the least loss of these models that the law has seen"
    else:
        wrong = f"{wanted:g} is above {worst:.3f}, the loss of the shortest run of these models that the law has seen"
    return [Fault(scenario.name, 0, place, wrong, f"give {least} to {math.floor(worst * 100) / 100:.2f}")]


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


LEAST_SHARE = 1 / 32
"""Smallest budget of the frontier, over that of the scenario."""
MOST_POINTS = 11
"""Budgets: two per doubling."""


def loss_frontier(
    scenario: Asked, options: SolveOptions | None = None, library: Library | None = None, points: int = MOST_POINTS
) -> LossFrontier:
    """Return the least loss for budgets up to that of the scenario, each proven over all models and machines.

    Budgets fall by a square root of two, down to a 32nd. Those that do not pay for the shortest run that the law has
    seen have no point. ScenarioError on bad input, and without a budget.

    >>> found = planner.loss_frontier(planner.read_scenario("best-for-200", {"limits.spot": False}), points=2)
    >>> found.points[0].loss > found.points[-1].loss
    True
    """
    started, scenario, options = perf_counter(), as_scenario(scenario), options or SolveOptions()
    job, most = open_job(scenario), scenario.limits.budget_usd
    if job is None or not job.wants_least_loss:
        fix = "give the job work: {tokens: best} and the scenario objective: loss"
        raise ScenarioError([Fault(scenario.name, 0, "objective", "a frontier of loss needs a model to choose", fix)])
    if len(scenario.jobs) > 1:
        wrong, fix = "a frontier of loss is that of one job", "leave the other jobs out, or solve for one budget"
        raise ScenarioError([Fault(scenario.name, 0, "jobs", wrong, fix)])
    if most is None:
        wrong = "a frontier of loss needs a budget, its last point"
        raise ScenarioError([Fault(scenario.name, 0, "limits.budget_usd", wrong, "add limits.budget_usd: 1000")])
    library = library or read_library(architectures_of(job))
    alternatives = open_alternatives(scenario, job, library)
    count = max(2, min(points, MOST_POINTS))
    budgets = [most * LEAST_SHARE ** (step / (count - 1)) for step in range(count)]
    losses: list[LossPoint] = []
    missed: list[float] = []
    for budget in budgets:
        near = best_of(alternatives, budget, slack=0.0)
        if not near:
            break
        best = without_waste(near[0])
        plan = solve_prepared(best.alternative.prepared(best.tokens, budget), options)
        if not plan.jobs:  # a policy on spot that a rounding of its dollars moved over the budget
            missed.append(budget)
            continue
        losses.append(_loss_point(budget, best, plan.jobs[0]))
    return LossFrontier(
        scenario=scenario.name,
        status="optimal" if losses else "infeasible",
        points=tuple(_undominated(losses[::-1])),
        law="own" if isinstance(job.loss_law, OwnLaw) else job.loss_law,
        compared=len(alternatives),
        solved=sum(len(alternative.costs) for alternative in alternatives),
        seconds=perf_counter() - started,
        as_of=(options.as_of or datetime.date.today()).isoformat(),
        notes=(
            *note_on_missed(missed),
            SPREAD_NOTE,
            "the cost stays within the budget at its confidence; hours are expected values",
        ),
    )


def _loss_point(budget_usd: float, best: Found, job: Assignment) -> LossPoint:
    """Return the least loss for a budget, with its model and its run."""
    architecture = best.alternative.architecture
    return LossPoint(
        budget_usd=budget_usd,
        loss=best.loss,
        architecture=architecture.name,
        parameters=architecture.parameters,
        tokens=best.alternative.run_tokens(best.tokens)[0],
        hours=job.hours.expected,
        plan=describe_assignment(job),
    )


def note_on_missed(budgets: list[float]) -> tuple[str, ...]:
    """Return a note on the budgets whose best model has no plan; none where all have one."""
    if not budgets:
        return ()
    dollars = ", ".join(f"${budget:,.2f}" for budget in sorted(budgets))
    return (f"no point for {dollars}: the plan found there costs more at the confidence of the budget",)


def _undominated(points: list[LossPoint]) -> list[LossPoint]:
    """Return the points, cheapest first, without those that more money does not improve."""
    kept: list[LossPoint] = []
    least = math.inf
    for point in points:
        if point.loss < least:
            kept.append(point)
            least = point.loss
    return kept


@dataclass(frozen=True)
class FixedChoice:
    """A plan with its choices, and the definite scenario and plan that they make."""

    plan: Plan
    scenario: Scenario
    definite: Plan

    @property
    def lines(self) -> tuple[str, ...]:
        """What is fixed, in the words of an answer."""
        jobs = [job for job in self.plan.jobs if job.model is not None]
        several = len(self.plan.jobs) > 1
        texts = []
        for job in jobs:
            assert job.model is not None
            whose = f"of {job.name} " if several else ""
            texts.append(f"what is open {whose}is fixed as solve chose it: {chosen_text(job.model)}")
            texts.append(money_text(job.model))
        return tuple(line for line in texts if line)


def fix_choice(
    scenario: Scenario, options: SolveOptions | None, library: Library | None, plan: Plan | None = None
) -> FixedChoice:
    """Return the choice of a plan, or of the one that `solve` finds; without a plan nothing is fixed.

    Raises
    ------
    ScenarioError, LibraryError, SolverError
        As `solve` does.
    """
    plan = solve(scenario, options, library) if plan is None else plan
    return FixedChoice(plan, scenario_as_chosen(plan, scenario), _without_choices(plan))


MOST_TRACED = 8
"""Models times batches up to which a frontier chooses again at each of its points."""


def definite_choices(scenario: Scenario, library: Library) -> tuple[Scenario, ...]:
    """Return the definite scenario of each model and batch of the only job, with its tokens; none where too many.

    None either where there are other jobs, or where the loss is what is minimised.
    """
    job = open_job(scenario)
    if job is None or len(scenario.jobs) > 1 or job.wants_least_loss:
        return ()
    alternatives = open_alternatives(scenario, job, library)
    if not 1 < len(alternatives) <= MOST_TRACED:
        return ()
    wanted, choices = job.work.loss, []
    for alternative in alternatives:
        tokens = given_tokens(alternative) if wanted is None else tokens_for_loss(alternative, wanted)
        if tokens is not None or wanted is None:
            choices.append(alternative.definite(tokens))
    return tuple(choices)


def scenario_as_chosen(plan: Plan, scenario: Scenario) -> Scenario:
    """Return a scenario with what its plan chose in place of what is open; itself where the plan chose nothing."""
    decided = []
    for job in open_jobs(scenario):
        chosen = next((planned_job.model for planned_job in plan.jobs if planned_job.name == job.name), None)
        if chosen is None:
            return scenario
        batch = job.batches[0] if chosen.batch is None else chosen.batch.sequences
        sigma = 0.0 if chosen.batch is None else chosen.batch.sigma
        given = not job.uses_law and chosen.batch is None
        decided.append(decide(job, chosen.architecture, batch, None if given else chosen.tokens, sigma))
    return decide_scenario(scenario, *decided)


def _without_choices(plan: Plan) -> Plan:
    """Return a plan as that of the definite scenario."""
    return plan.model_copy(update={"jobs": tuple(job.model_copy(update={"model": None}) for job in plan.jobs)})
