"""Why no model and no batch of an open job has a plan: the smallest changes that give any of them one.

Each alternative needs other changes: a larger batch less time, a smaller model fewer dollars. So the elastic program is
solved for each; of all that change the same limits those that change least are verified, and the smallest is kept.
What is reported with it is the best alternative under the change, as `solve` decides it.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from planner.loading.scenario_file import change_scenario
from planner.records import record
from planner.scenario.definite import open_jobs
from planner.solving.choices.choice_alternatives import known_range, list_alternatives, tokens_at, tokens_for_loss
from planner.solving.choices.decision import decide_alone, given_tokens
from planner.solving.infeasibility.diagnosis import MAX_RELAXATIONS, asks_no_less, elastic_solutions
from planner.solving.infeasibility.relaxations import (
    STEP_OF,
    LimitChange,
    build_changes,
    build_relaxations,
    verify_relaxation,
)
from planner.solving.infeasibility.relaxed_candidates import relax_candidates
from planner.solving.prepare import prepare
from planner.solving.resolve import try_solve

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from planner.results.plan_parts import Relaxation
    from planner.scenario.scenario import SolveOptions
    from planner.solving.choices.choice_alternatives import Alternative
    from planner.solving.infeasibility.elastic_program import ElasticProgram, ElasticSolution
    from planner.solving.prepare import PreparedScenario

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
        ways.sort(key=lambda one: one.solution.change)
    order = sorted(by_paths, key=lambda paths: (len(paths), by_paths[paths][0].solution.change))
    found: list[list[LimitChange]] = []
    for paths in order:
        if len(found) == MAX_RELAXATIONS or (found and len(paths) > len(found[0]) + 1):
            break
        least = _least(by_paths[paths])
        if least is not None and not any(asks_no_less(least, before) for before in found):
            found.append(least)
    return [
        one for number, changes in enumerate(found, 1) for one in _reported(alternatives[0], changes, number, options)
    ]


def _reported(
    asked: Alternative, changes: Sequence[LimitChange], number: int, options: SolveOptions
) -> list[Relaxation]:
    """Return changes as results, with the plan of the best alternative under them, as `solve` decides it."""
    changed = change_scenario(asked.scenario, [one.setting for one in changes])
    job = next(one for one in open_jobs(changed) if one.name == asked.job.name)
    decision = decide_alone(list_alternatives(changed, job, asked.library), options)
    plan, best = try_solve(decision.alternative.prepared(decision.tokens)), decision.alternative
    name = f"{best.architecture.name} at a batch of {best.batch:,}"
    made = [] if plan is None else build_relaxations(plan, changes, number)
    return [one.model_copy(update={"then": f"{name}, {one.then}"}) for one in made]


def _ways(alternatives: Sequence[Alternative]) -> Iterator[_Way]:
    """Yield the plans of the elastic program of each alternative."""
    market: PreparedScenario | None = None
    for one in alternatives:
        is_asked, tokens = _tokens_asked(one)
        if not is_asked:
            continue
        market = prepared = prepare(one.definite(tokens), one.library, market, with_policies=False)
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
