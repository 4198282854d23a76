"""Configurations of one job: every recipe on every distinct machine, prices left out.

A machine is a GPU, their number per instance, a number of instances and the links between them.
For each recipe and machine the largest micro-batch that fits and divides the batch exactly is kept.
Where the whole job was observed on a machine, its configurations have the observed hours
(`observed/whole_run.py`); observed speed and memory correct the estimates of all configurations
(`observed/learning.py`).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import field, replace
from itertools import chain
from typing import TYPE_CHECKING

from planner.configurations.configuration_table import (
    Configurations,
    HostShortfall,
    MemoryShortfall,
    concatenate_configurations,
)
from planner.configurations.fitting_cells import Grid
from planner.configurations.grid import JobShape, Machine, shape_of
from planner.configurations.observed.learning import NO_CORRECTION, Correction, learn_correction
from planner.configurations.observed.whole_run import apply_observed_hours
from planner.configurations.recipe import GpuClass, Recipe, enumerate_recipes, find_incompatibility, is_allowed
from planner.records import record

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from planner.configurations.coefficients import RecipeCoefficients
    from planner.library.schema import Architecture, Library
    from planner.scenario.job import Job


@record(frozen=True)
class JobConfigurations:
    """What `enumerate_configurations` found for one job."""

    shape: JobShape
    machines: tuple[Machine, ...]  # all that were asked for
    ways: Configurations
    misses: tuple[MemoryShortfall, ...]  # the nearest of each machine and method
    rejected: Counter[str]
    learned: Correction = NO_CORRECTION  # from observed runs; step seconds and memory follow it already
    coefficients: Mapping[Recipe, RecipeCoefficients] = field(default_factory=dict)  # of recipes that were tried
    small_hosts: tuple[HostShortfall, ...] = ()  # the nearest of each machine that only its host's memory leaves out


def enumerate_configurations(
    job: Job,
    architecture: Architecture,
    machines: Sequence[Machine],
    library: Library,
    headroom: float | None = None,
    only_allowed: bool = False,
) -> JobConfigurations:
    """Return every recipe on every machine that fits, with its fastest micro-batch; count the others by their reason.

    `headroom` (a share) replaces the margin of the fit rule. `only_allowed` leaves out cards on which the job allows
    no recipe that works.
    Shapes: recipes and machines of one class of GPU form a grid (R, 1) x (H,); the result is its fitting cells.
    """
    shape, learned = shape_of(job, architecture), learn_correction(job, architecture, library)
    rejected: Counter[str] = Counter()
    grid = Grid(job, shape, library, headroom, learned, rejected)
    pieces: list[Configurations] = []
    misses: list[MemoryShortfall] = []
    for recipes, classes in _grids_of(job, machines, library, rejected):
        if only_allowed and not any(is_allowed(recipe, job) for recipe in recipes):
            continue
        found, missing = grid.evaluate(recipes, list(chain.from_iterable(classes)))
        pieces.append(found)
        for group in classes:
            more, missing = grid.evaluate_where_missing(recipes, group, found, missing)
            pieces += more
        misses += missing
    ways = concatenate_configurations(pieces)
    ways = replace(ways, step_seconds=ways.step_seconds / learned.speed_factors(ways, shape.sequence, library))
    observed = apply_observed_hours(ways, job, shape)
    hosts = tuple(grid.small_hosts)
    return JobConfigurations(shape, tuple(machines), observed, tuple(misses), rejected, learned, grid.known, hosts)


def _grids_of(
    job: Job, machines: Sequence[Machine], library: Library, rejected: Counter[str]
) -> Iterator[tuple[Sequence[Recipe], list[list[Machine]]]]:
    """Yield the recipes of each grid, with its machines by class of GPU and by one or several GPUs.

    Classes with the same recipes are one grid: most of its time does not depend on the number of machines.
    """
    groups: dict[tuple[GpuClass, bool], list[Machine]] = {}
    cards = {name: GpuClass.of(library.gpu(name)) for name in {machine.gpu for machine in machines}}
    for machine in machines:
        groups.setdefault((cards[machine.gpu], machine.gpus > 1), []).append(machine)
    grids: dict[tuple[Recipe, ...], list[list[Machine]]] = {}
    for group in groups.values():
        grids.setdefault(tuple(_compatible_recipes(job, group, library, rejected)), []).append(group)
    yield from grids.items()


def _compatible_recipes(job: Job, group: Sequence[Machine], library: Library, rejected: Counter[str]) -> list[Recipe]:
    card, architecture = GpuClass.of(library.gpu(group[0].gpu)), library.architecture(job.architecture)
    working = []
    for recipe in enumerate_recipes(job, card, group[0].gpus > 1, library):
        reason = find_incompatibility(recipe, card, library, architecture)
        if reason is None:
            working.append(recipe)
        else:
            rejected[reason] += len(group)
    return working
