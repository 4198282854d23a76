"""Why no model and no batch of open jobs has a plan: the smallest changes of limits that give any of them one."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from planner import timetable
from planner.candidates.job_candidates import JobCandidates
from planner.errors import InputError
from planner.loading.scenario_file import change_scenario
from planner.open_choices.choice_alternatives import (
    Alternative,
    known_range,
    list_alternatives,
    tokens_at,
    tokens_for_loss,
)
from planner.open_choices.decision import Decision, decide_alone, given_tokens
from planner.open_choices.open_jobs_together import Together
from planner.results.plan_parts import Relaxation
from planner.scenario.limits import peak_limit_at
from planner.scenario.scenario import Scenario, SolveOptions, decide_scenario, open_jobs
from planner.solving.infeasibility.diagnosis import MAX_RELAXATIONS, asks_no_less, elastic_solutions, settle_all
from planner.solving.infeasibility.elastic_program import ElasticProgram, ElasticSolution
from planner.solving.infeasibility.relaxations import (
    BUDGET,
    STEP_OF,
    LimitChange,
    build_changes,
    build_relaxations,
    verify_relaxation,
)
from planner.solving.infeasibility.relaxed_candidates import RelaxedCandidates, pieces_of, relax_candidates
from planner.solving.optimise_choice import may_take_turns, try_solve
from planner.solving.prepare import PreparedScenario, prepare

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
    found: list[Relaxation] = []
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
        what = "; ".join(
            f"{name} trains {decision.alternative.architecture.name} at a batch of {decision.alternative.batch:,}"
            for name, decision in best[1].items()
        )
        made = build_relaxations(best[0], changes, len(kept))
        found += [one.model_copy(update={"then": f"{what}; {one.then}"}) for one in made]
    return found


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
    ranges = [[(one, known_range(one)) for one in each] for each in jobs.alternatives]
    return [[(one, tokens_at(first)) for one, (first, last) in each if first <= last] for each in ranges]


def _candidates_together(jobs: Together, least: Sequence[Sequence[tuple[Alternative, int]]]) -> RelaxedCandidates:
    """Return the candidates of all alternatives, with those that filters exclude, in one table."""
    limits, market, library = jobs.first.scenario.limits, jobs.first.market, jobs.first.library
    places = {job.name: index for index, job in enumerate(jobs.first.scenario.jobs)}
    instead = {
        places[name]: [
            piece for one, tokens in runs for piece in pieces_of(one.candidates_at(tokens), limits, market, library)
        ]
        for name, runs in zip(jobs.names, least, strict=True)
    }
    return relax_candidates(jobs.first, instead)


def _decision_of(piece: JobCandidates, runs: Sequence[tuple[Alternative, int]]) -> Decision:
    """Return the alternative that some candidates are of, as decided."""
    own = (piece.architecture.name, piece.job.global_batch)
    one, tokens = next(run for run in runs if (run[0].architecture.name, run[0].batch) == own)
    return Decision(one, tokens, len(runs))


def _changes_of(explained: Sequence[Relaxation]) -> Iterator[list[LimitChange]]:
    """Yield the changes of each relaxation."""
    for way in dict.fromkeys(one.way for one in explained):
        yield [
            LimitChange(one.limit, one.change_from or 0.0, one.change_to or 0.0, one.setting)
            for one in explained
            if one.way == way
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
