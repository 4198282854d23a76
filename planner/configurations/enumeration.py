"""Physics once per hardware: every way to run one job on every distinct machine, prices left out.

A machine is a card, a number of them per instance, a number of instances and the links between.
For each recipe and machine the largest micro-batch that fits and divides the batch exactly is kept.
Where the whole job was observed on a machine, its ways have the observed hours
(`observed/whole_run.py`); observed speed and memory draw the estimates of all ways
towards them (`observed/learning.py`).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from planner.configurations.grid import GridInputs, JobShape, Machine, coefficients, grid_inputs, shape_of
from planner.configurations.micro_batch import (
    BatchChooser,
    choose_batches,
    choose_fastest_batches,
    choose_smallest_batches,
    possible_cells,
)
from planner.configurations.observed.learning import NO_CORRECTION, Correction, learn_correction
from planner.configurations.observed.whole_run import apply_observed_hours, find_observed_run
from planner.configurations.recipe import (
    GpuClass,
    Recipe,
    enumerate_recipes,
    expand_parallel_degrees,
    find_incompatibility,
    is_allowed,
)
from planner.estimates.memory.fit import MemoryLines, memory_lines
from planner.estimates.memory.states import MemoryCoefficients
from planner.estimates.time.coefficients import TimeCoefficients
from planner.estimates.time.step import step_seconds
from planner.estimates.work import processed_length
from planner.units import GIB

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from planner.arrays import Flags, Floats, Integers
    from planner.library.schema import Architecture, Library
    from planner.scenario.scenario import Job

MANY_ACCUMULATION_STEPS = 64
"""Accumulation steps beyond any pipeline degree."""


@dataclass(frozen=True)
class Configurations:
    """Columns of shape (n,): ways that fit, priced by nobody yet."""

    recipes: tuple[Recipe, ...]
    machines: tuple[Machine, ...]
    recipe: Integers
    machine: Integers
    micro_batch: Integers
    accumulation: Integers
    step_seconds: Floats
    sequence: Floats  # tokens per sequence as processed
    fit_gib: Floats
    usable_gib: Floats
    observed_hours: Floats  # of the whole job; nan where all is estimated

    def __len__(self) -> int:
        return len(self.recipe)

    def rows(self, which: Integers | Flags) -> Configurations:
        """The ways that a mask or an index array names."""
        return replace(self, **{name: getattr(self, name)[which] for name in COLUMNS})


COLUMNS = (
    "recipe",
    "machine",
    "micro_batch",
    "accumulation",
    "step_seconds",
    "sequence",
    "fit_gib",
    "usable_gib",
    "observed_hours",
)
"""The fields of `Ways` with an element per way."""


@dataclass(frozen=True)
class MemoryShortfall:
    """A recipe on a machine that was rejected: why, and by how much."""

    recipe: Recipe
    machine: Machine
    reason: str
    shortfall: float
    unit: str


@dataclass(frozen=True)
class JobConfigurations:
    """What `enumerate_ways` found for one job."""

    shape: JobShape
    machines: tuple[Machine, ...]  # all that were asked for
    ways: Configurations
    misses: tuple[MemoryShortfall, ...]  # the nearest of each machine and method
    rejected: Counter[str]
    learned: Correction = NO_CORRECTION  # from observed runs; step seconds and memory follow it already


def enumerate_configurations(
    job: Job, architecture: Architecture, machines: Sequence[Machine], library: Library, headroom: float | None = None
) -> JobConfigurations:
    """Every recipe on every machine that fits, with its fastest micro-batch; the others are counted with their reason.

    `headroom` (a share) replaces the margin of the fit rule.
    Shapes: recipes and machines of one class of card form a grid (R, 1) x (H,); the result is its fitting cells.
    """
    shape, learned = shape_of(job, architecture), learn_correction(job, architecture, library)
    pieces: list[Configurations] = []
    misses: list[MemoryShortfall] = []
    rejected: Counter[str] = Counter()
    for group in _groups(machines, library):
        card = GpuClass.of(library.gpu(group[0].gpu))
        recipes = _compatible_recipes(job, card, group, library, rejected)
        found = _on_grid(job, shape, recipes, group, library, rejected, headroom, learned=learned)
        several, missing = [found.ways], found.misses
        opened = _expand_parallel(job, recipes, group, found, library)
        if opened:
            # Where nothing fits, tensor and pipeline parallelism are tried: the smallest degrees that fit win by time.
            left = [m for m in group if m not in {found.ways.machines[i] for i in set(found.ways.machine.tolist())}]
            more = _on_grid(job, shape, opened, left, library, rejected, headroom, learned=learned)
            several.append(more.ways)
            missing = missing if not len(more.ways) else [miss for miss in missing if miss.machine not in left]
        seen = [machine for machine in group if find_observed_run(job, machine)]
        if seen:
            several.append(
                _configurations_that_ran(job, shape, [*recipes, *opened], seen, _concatenate(several), library)
            )
            missing = [miss for miss in missing if miss.machine not in seen]
        pieces += several
        misses += missing
    ways = _concatenate(pieces)
    ways = replace(ways, step_seconds=ways.step_seconds / learned.speed_factor(library))
    return JobConfigurations(
        shape, tuple(machines), apply_observed_hours(ways, job, shape), tuple(misses), rejected, learned
    )


def _configurations_that_ran(
    job: Job,
    shape: JobShape,
    recipes: Sequence[Recipe],
    seen: Sequence[Machine],
    ways: Configurations,
    library: Library,
) -> Configurations:
    """One way on each machine where the job was seen to run although no recipe that it allows is said to fit."""
    permitted = [recipe for recipe in recipes if is_allowed(recipe, job)]
    placed = {
        ways.machines[m] for r, m in zip(ways.recipe, ways.machine, strict=True) if is_allowed(ways.recipes[r], job)
    }
    left = [machine for machine in seen if machine not in placed]
    return _on_grid(job, shape, permitted, left, library, Counter(), None, choose_smallest_batches).ways


def _groups(machines: Sequence[Machine], library: Library) -> Iterator[list[Machine]]:
    """Machines by class of card and by one or several GPUs: one grid each."""
    groups: dict[tuple[GpuClass, bool], list[Machine]] = {}
    for machine in machines:
        groups.setdefault((GpuClass.of(library.gpu(machine.gpu)), machine.gpus > 1), []).append(machine)
    yield from groups.values()


def _compatible_recipes(
    job: Job, card: GpuClass, group: Sequence[Machine], library: Library, rejected: Counter[str]
) -> list[Recipe]:
    working = []
    for recipe in enumerate_recipes(job, card, group[0].gpus > 1, library):
        reason = find_incompatibility(recipe, card, job.framework, library)
        if reason is None:
            working.append(recipe)
        else:
            rejected[reason] += len(group)
    return working


def _expand_parallel(
    job: Job, recipes: Sequence[Recipe], group: Sequence[Machine], found: _Grid, library: Library
) -> list[Recipe]:
    everywhere = len(set(found.ways.machine)) == len(group)
    return [] if everywhere else expand_parallel_degrees(job, recipes, library)


@dataclass(frozen=True)
class _Grid:
    ways: Configurations
    misses: list[MemoryShortfall]


def _on_grid(
    job: Job,
    shape: JobShape,
    recipes: Sequence[Recipe],
    machines: Sequence[Machine],
    library: Library,
    rejected: Counter[str],
    headroom: float | None,
    batched: BatchChooser = choose_batches,
    learned: Correction = NO_CORRECTION,
) -> _Grid:
    if not recipes or not machines:
        return _Grid(_concatenate([]), [])
    inputs = learned.correct_memory(grid_inputs(job, shape, recipes, machines, library), recipes, machines, library)
    if headroom is not None:
        inputs = replace(inputs, stack=replace(inputs.stack, margin=headroom))
    memory = MemoryCoefficients(**coefficients(library, "memory", MemoryCoefficients))
    time = TimeCoefficients(**coefficients(library, "time", TimeCoefficients))
    layout = inputs.layout
    per_rank = job.global_batch / np.asarray(layout.data_parallel, dtype=float)
    possible = possible_cells(recipes, layout, per_rank, len(machines))
    # Accumulating, a first pipeline stage holds as many micro-batches as there are stages: MANY_STEPS covers all.
    lines = [_lines(inputs, steps, memory) for steps in (1, MANY_ACCUMULATION_STEPS)]
    micro, accumulation = batched(job, inputs, lines, per_rank, possible)
    fits = micro > 0
    if job.packing == "padded" or any(recipe.pipeline_parallel > 1 for recipe in recipes):
        micro, accumulation = choose_fastest_batches(job, shape, inputs, time, lines, micro, accumulation, per_rank)
    safe = np.maximum(micro, 1)
    chosen = replace(
        layout,
        micro_batch=safe,
        accumulation=np.maximum(accumulation, 1),
        sequence=processed_length(job.packing, shape.sequence, shape.mean_length, job.length_cv, safe),
    )
    seconds = np.broadcast_to(
        step_seconds(shape.network, chosen, inputs.states, inputs.activations, inputs.kernels, inputs.hardware, time),
        fits.shape,
    )
    usable = np.broadcast_to(np.asarray(inputs.hardware.usable_bytes, dtype=float), fits.shape)
    need = _lines(inputs, np.maximum(accumulation, 1), memory).need(safe, usable)
    misses = _memory_shortfalls(recipes, machines, possible & ~fits, fits, lines, usable, rejected)
    if learned.probed:  # no estimate lies below what a run at most as large was seen to take
        floors = learned.floors(recipes, machines, micro, shape.longest)
        need, fits = np.maximum(need, floors), fits & (floors <= usable)
    rejected["the global batch does not divide over the GPUs"] += int(np.sum(~possible))
    r, h = np.nonzero(fits)
    ways = Configurations(
        tuple(recipes),
        tuple(machines),
        r,
        h,
        micro[r, h].astype(np.int64),
        accumulation[r, h].astype(np.int64),
        seconds[r, h],
        np.broadcast_to(np.asarray(chosen.sequence, dtype=float), fits.shape)[r, h],
        need[r, h] / GIB,
        usable[r, h] / GIB,
        np.full(len(r), np.nan),
    )
    return _Grid(ways, misses)


def _lines(inputs: GridInputs, accumulation: Any, memory: MemoryCoefficients) -> MemoryLines:
    layout = replace(inputs.layout, accumulation=accumulation)
    return memory_lines(inputs.network, layout, inputs.states, inputs.activations, inputs.stack, memory)


def _memory_shortfalls(
    recipes: Sequence[Recipe],
    machines: Sequence[Machine],
    missing: Flags,
    fits: Flags,
    lines: Sequence[MemoryLines],
    usable: Floats,
    rejected: Counter[str],
) -> list[MemoryShortfall]:
    """For each machine and rung of the ladder that does not fit the nearest recipe at a micro-batch of one."""
    if not missing.any():
        return []
    rejected["it does not fit in memory"] += int(np.sum(missing))
    short = np.where(missing, (np.broadcast_to(lines[1].need(1.0, usable), usable.shape) - usable) / GIB, np.inf)
    found = []
    labels = np.asarray([recipe.method_label for recipe in recipes])
    for label in dict.fromkeys(labels):
        rows = np.flatnonzero(labels == label)
        nearest = rows[np.argmin(short[rows], axis=0)]
        for h in map(int, np.flatnonzero(missing[rows].any(axis=0) & ~fits[rows].any(axis=0))):
            found.append(
                MemoryShortfall(
                    recipes[int(nearest[h])],
                    machines[h],
                    "it does not fit in memory",
                    float(short[nearest[h], h]),
                    "GiB",
                )
            )
    return found


def _concatenate(pieces: Sequence[Configurations]) -> Configurations:
    """One set of columns, with the recipes and machines of the pieces side by side."""
    empty = np.zeros(0)
    if not pieces:
        return Configurations((), (), *(empty.astype(np.int64),) * 4, *(empty,) * 5)
    recipes = [recipe for piece in pieces for recipe in piece.recipes]
    machines = [machine for piece in pieces for machine in piece.machines]
    recipe_base = np.cumsum([0, *(len(piece.recipes) for piece in pieces)])
    machine_base = np.cumsum([0, *(len(piece.machines) for piece in pieces)])
    return Configurations(
        tuple(recipes),
        tuple(machines),
        np.concatenate([piece.recipe + base for piece, base in zip(pieces, recipe_base, strict=False)]),
        np.concatenate([piece.machine + base for piece, base in zip(pieces, machine_base, strict=False)]),
        *(np.concatenate([getattr(piece, name) for piece in pieces]) for name in COLUMNS[2:]),
    )
