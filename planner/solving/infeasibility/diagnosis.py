"""Why there is no plan: the smallest sets of limits to move, each held to by solving, and the nearest rejected ways."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING

from planner.candidates.screening import screen
from planner.results.plan import Infeasible, Relaxation
from planner.solving.infeasibility.elastic_program import ElasticProgram, ElasticSolution
from planner.solving.infeasibility.near_misses import find_near_misses
from planner.solving.infeasibility.relaxations import (
    LimitChange,
    TrySolve,
    build_changes,
    build_relaxations,
    setting_path,
    verify_relaxation,
)
from planner.solving.infeasibility.relaxed_candidates import RelaxedCandidates, relax_candidates
from planner.solving.prepare import PreparedScenario
from planner.solving.resolve import ResolvedPlan, try_solve

if TYPE_CHECKING:
    from collections.abc import Iterator


MAX_RELAXATIONS = 3
"""Ways out that are told at most."""
MOST_LIMITS = 4
"""Limits that a way out may move; more only where otherwise there would be none."""
MORE = 1
"""Limits that a later way out may move beyond those of the first: another is no help."""
SHARED = 0.5
"""Part of the only single change that a way moving two limits may ask of the same limit."""


def diagnose(prepared: PreparedScenario) -> Infeasible:
    """Return up to three relaxations, fewest limits first, and the candidates that come nearest to the limits."""
    scenario, market, library = prepared.scenario, prepared.market, prepared.library
    screened = tuple(screen(one, market, scenario.limits, library) for one in prepared.candidates)
    prepared = replace(prepared, screened=screened)
    wide = relax_candidates(scenario, market, prepared.candidates, library)
    return Infeasible(
        relax=tuple(entry for way in minimal_relaxations(prepared, wide) for entry in way),
        nearest=find_near_misses(prepared, wide),
    )


def minimal_relaxations(
    prepared: PreparedScenario, wide: RelaxedCandidates, solve: TrySolve = try_solve, most: int = MAX_RELAXATIONS
) -> list[tuple[Relaxation, ...]]:
    """Sets of limits to move, fewest first; `solve` finds the plan of a changed question."""
    held = verified_relaxations(prepared, wide, solve, most)
    return [tuple(build_relaxations(trial, changes, way)) for way, (trial, changes) in enumerate(held, 1)]


def verified_relaxations(
    prepared: PreparedScenario, wide: RelaxedCandidates, solve: TrySolve, most: int = MAX_RELAXATIONS
) -> list[tuple[ResolvedPlan, list[LimitChange]]]:
    """The same before it is put into words: the plan and the changes of each way out."""
    found: list[tuple[ResolvedPlan, list[LimitChange]]] = []
    for elastic, plan in _plans(wide):
        held = verify_relaxation(prepared, build_changes(plan, elastic, prepared), solve)
        if held is not None:
            found.append(held)
        if len(found) == most:
            break
    return found or _reduce_concurrency(prepared, solve)


def _reduce_concurrency(prepared: PreparedScenario, solve: TrySolve) -> list[tuple[ResolvedPlan, list[LimitChange]]]:
    """Where no limit helps: fewer trials at a time, which take fewer machines; the most that have a plan."""
    scenario = prepared.scenario
    for job in scenario.jobs:
        path = f"jobs.{job.name}.trials.at_once"
        for fewer in range(job.trials.at_once - 1, 0, -1):
            change = LimitChange(path, job.trials.at_once, fewer, f"{setting_path(path, scenario)}={fewer}")
            held = verify_relaxation(prepared, [change], solve)
            if held is not None:
                return [held]
    return []


def _plans(wide: RelaxedCandidates) -> Iterator[tuple[ElasticProgram, ElasticSolution]]:
    """Plans of the elastic program by the sets of limits that they move, fewest and least first, none in another."""
    elastic = ElasticProgram.of(wide)
    if elastic.solve(elastic.relaxable_paths) is None:
        elastic = ElasticProgram.of(wide, len(wide.filters))
    known: list[ElasticSolution] = []
    for size in range(1, MOST_LIMITS + 1):
        if known and size > len(known[0].paths) + MORE:
            break
        taken = {next(iter(one.paths)) for one in known if len(one.paths) == 1}
        left = [path for path in elastic.relaxable_paths if path not in taken]
        if elastic.solve(left) is None:
            break
        plans = [
            plan
            for give in combinations(left, size)
            if not any(one.paths <= set(give) for one in known)
            and (plan := elastic.solve(give)) is not None
            and plan.paths
        ]
        for plan in sorted(plans, key=lambda plan: (plan.change, plan.cost)):
            if not any(one.paths <= plan.paths for one in known):
                known.append(plan)
                yield elastic, plan
    if not known and (last := elastic.solve(elastic.relaxable_paths)) is not None and last.paths:
        yield elastic, last  # many limits at once: still better than no way out
    if len(known) == 1 and len(known[0].paths) == 1:
        yield from ((elastic, plan) for plan in _split_relaxation(elastic, known[0]))


def _split_relaxation(elastic: ElasticProgram, only: ElasticSolution) -> list[ElasticSolution]:
    """Where one limit must move whatever else does: the way that moves it at most half as far, and one more."""
    (path,) = only.paths
    if path not in only.excess:
        return []
    half = {path: only.change * SHARED}
    plans = [elastic.solve((path, other), half) for other in elastic.relaxable_paths if other != path]
    found = [plan for plan in plans if plan is not None]
    return [min(found, key=lambda plan: (plan.change, plan.cost))] if found else []


__all__ = ["diagnose", "minimal_relaxations", "verified_relaxations"]
