"""Candidates of frameworks that a plan is compared with, on its own GPU."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from planner.arrays import Flags, Integers
from planner.candidates.candidate_enumeration import price_machines
from planner.candidates.job_candidates import JobCandidates, burden_of, undominated_on_machine
from planner.candidates.machine_candidates import join_placements
from planner.candidates.market import Market
from planner.candidates.run_hours import RunHours, compute_run_hours
from planner.configurations.fitting_cells import enumerate_configurations
from planner.configurations.grid import Configurations, concatenate_configurations, technique_penalties
from planner.configurations.recipe import is_allowed
from planner.library.schema import Library
from planner.scenario.job import Confidence, Job

if TYPE_CHECKING:
    from collections.abc import Sequence


def candidates_of_frameworks(
    candidates: JobCandidates,
    frameworks: tuple[str, ...],
    gpu: str,
    market: Market,
    library: Library,
    confidence: Confidence | None = None,
) -> JobCandidates:
    """Return the candidates on one GPU that may be the best under each framework, whether the job uses it or not.

    `confidence` replaces that of the job.
    """
    update = {"framework": frameworks, **({} if confidence is None else {"confidence_given": confidence})}
    job = candidates.job.model_copy(update=update)
    # Of a job with another deadline, or within another budget, they are the same: only the screening reads these.
    key, same = ("candidates", frameworks, gpu, confidence), job.model_copy(update={"deadline_hours": None})
    given, columns, made = candidates.kept.get(key, (None, None, {}))
    if columns is not candidates.columns or given != same:
        made = _made_for_frameworks(candidates, job, frameworks, gpu, market, library)
        candidates.kept[key] = same, candidates.columns, made
    return replace(candidates, job=job, kept={}, **made)


def _made_for_frameworks(
    candidates: JobCandidates, job: Job, frameworks: tuple[str, ...], gpu: str, market: Market, library: Library
) -> dict[str, Any]:
    """Return what differs for a job of some frameworks on one GPU, by the name of the field."""
    parts = [_best_ways(candidates, job, framework, gpu, market, library) for framework in frameworks]
    physics = replace(candidates.physics, ways=concatenate_configurations([ways for ways, _ in parts]))
    run_hours = _joined([hours for _, hours in parts])
    which = np.ones(len(physics.ways), dtype=bool)
    machines = join_placements(job, physics, run_hours, candidates.columns, candidates.placements, market, which)
    hours = machines.hours()
    return {
        "physics": physics,
        "table": price_machines(machines, hours, market, candidates.table.jobs),
        "configuration": machines.configuration,
        "placement": machines.placement,
        "hours": hours,
        "run_hours": run_hours,
    }


def _best_ways(
    candidates: JobCandidates, job: Job, framework: str, gpu: str, market: Market, library: Library
) -> tuple[Configurations, RunHours]:
    """Return the configurations of one framework on one GPU that may be the best, and their hours."""
    physics, run_hours = candidates.physics, candidates.run_hours
    has_same_confidence = job.confidence_given == candidates.job.confidence_given
    if has_same_confidence and any(recipe.framework == framework for recipe in physics.ways.recipes):
        burden = candidates.burden()
        of = np.asarray([recipe.framework == framework for recipe in physics.ways.recipes], dtype=bool)[
            physics.ways.recipe
        ]
    else:
        architecture, headroom = candidates.architecture, candidates.headroom
        machines = tuple(machine for machine in market.distinct_machines if machine.gpu == gpu)
        allowed, alone = (job.techniques.method, job.techniques.weight_bits), (framework,)
        key = ("physics", framework, allowed, job.confidence_given, machines)
        if key not in candidates.kept:
            one = job.model_copy(update={"framework": alone})
            found = enumerate_configurations(one, architecture, machines, library, headroom, only_allowed=True)
            hours = compute_run_hours(one, architecture, found, library, run_hours.budget_confidence)
            candidates.kept[key] = found, hours
        physics, run_hours = candidates.kept[key]
        burden = burden_of(physics.ways, run_hours, technique_penalties(job, physics.ways))
        of = np.ones(len(physics.ways), dtype=bool)
    is_used = np.asarray([is_allowed(recipe, job) for recipe in physics.ways.recipes], dtype=bool)[physics.ways.recipe]
    on_gpu = np.asarray([machine.gpu == gpu for machine in physics.ways.machines], dtype=bool)[physics.ways.machine]
    which = of & is_used & on_gpu
    which[which] = undominated_on_machine(physics.ways.rows(which), burden[:, which])
    ways, recipes = physics.ways.rows(which).with_used_lists()
    return ways, _selected(run_hours, which, recipes)


def _selected(hours: RunHours, which: Flags, recipes: Integers) -> RunHours:
    """Return the columns of some configurations, and the figures of the recipes that they use."""

    def selected(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return value[which]
        return tuple(value[place] for place in recipes.tolist()) if isinstance(value, tuple) else value

    return replace(hours, **{name: selected(value) for name, value in vars(hours).items()})


def _joined(parts: Sequence[RunHours]) -> RunHours:
    """Return the columns of the configurations of all parts of one job, and the figures of their recipes."""

    def joined(values: Sequence[Any]) -> Any:
        if isinstance(values[0], np.ndarray):
            return np.concatenate(values)
        return tuple(value for several in values for value in several) if isinstance(values[0], tuple) else values[0]

    return replace(parts[0], **{name: joined([getattr(part, name) for part in parts]) for name in vars(parts[0])})
