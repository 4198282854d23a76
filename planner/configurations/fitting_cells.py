"""The cells of a grid that fit, each with its fastest micro-batch, and all configurations of one job."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from planner.arrays import Flags, Floats, first_least
from planner.configurations.coefficients import RecipeCoefficients
from planner.configurations.compared_runs import (
    NO_CORRECTION,
    Correction,
    apply_observed_hours,
    find_observed_run,
    learn_correction,
)
from planner.configurations.grid import (
    Configurations,
    HostShortfall,
    JobShape,
    MemoryShortfall,
    choose_batches,
    choose_fastest_batches,
    choose_smallest_batches,
    concatenate_configurations,
    grid_inputs,
    least_need,
    possible_cells,
    shape_of,
)
from planner.configurations.recipe import (
    GpuClass,
    Machine,
    Recipe,
    allows_full,
    enumerate_recipes,
    expand_paged,
    expand_parallel_degrees,
    find_incompatibility,
    is_allowed,
)
from planner.estimates.device import TimeCoefficients
from planner.estimates.inputs import TimedSetup
from planner.estimates.memory_fit import MemoryLines, host_bytes, memory_lines, parked_bytes_with_buffers, with_paging
from planner.estimates.memory_terms import MemoryCoefficients
from planner.estimates.step_time import step_seconds
from planner.estimates.uncertainty import UNMEASURED_MOST
from planner.estimates.work import processed_length
from planner.library.schema import Architecture, Library
from planner.scenario.job import Job
from planner.units import GB, GIB

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence


MANY_ACCUMULATION_STEPS = 64
"""Accumulation steps beyond any pipeline degree."""
DOES_NOT_FIT = "it does not fit in memory"
HOST_MEMORY_SMALL = "offloaded states do not fit in the host memory of the offer"
HOST_MEMORY_ASSUMED_SMALL = "offloaded states do not fit in the host memory that is assumed of the offer (state ram_gb)"


@dataclass(frozen=True)
class Grid:
    """The grids of one job.

    `rejected` counts the cells that are left out, `small_hosts` are the nearest of those that only the memory of the
    host leaves out; `known` and `shared` are the caches that `grid_inputs` fills. `ran` is true where the job was
    observed: then the recipe that takes least memory is the only cell of a machine, whether it fits or not.
    """

    job: Job
    shape: JobShape
    library: Library
    headroom: float | None
    learned: Correction
    rejected: Counter[str]
    small_hosts: list[HostShortfall] = field(default_factory=list)
    known: dict[Recipe, RecipeCoefficients] = field(default_factory=dict)
    shared: dict[object, Any] = field(default_factory=dict)
    ran: bool = False

    def evaluate(
        self, recipes: Sequence[Recipe], machines: Sequence[Machine]
    ) -> tuple[Configurations, list[MemoryShortfall]]:
        """Return the cells (R, 1) x (H,) that fit, and the nearest recipe of each machine and method that does not."""
        if not recipes or not machines:
            return concatenate_configurations([]), []
        job, shape, learned, library = self.job, self.shape, self.learned, self.library
        plain = grid_inputs(job, shape, recipes, machines, library, self.known, self.shared)
        inputs = learned.correct_memory(plain, recipes, machines)
        if self.headroom is not None:
            inputs = replace(inputs, stack=inputs.stack.with_margin(self.headroom))
        memory = MemoryCoefficients.of(library.calibrations["memory"].values)
        per_rank = job.global_batch / np.asarray(inputs.layout.data_parallel, dtype=float)
        possible = possible_cells(recipes, inputs.layout, per_rank, len(machines))
        without_room = ~possible
        # While accumulating, a first pipeline stage holds as many micro-batches as there are stages: 64 covers all.
        lines = [_lines(inputs, steps, memory) for steps in (1, MANY_ACCUMULATION_STEPS)]
        possible = self._with_host_memory(inputs, recipes, machines, lines[1], possible)
        choose = choose_smallest_batches if self.ran else choose_batches
        room = _host_room(inputs, machines, memory)
        micro, accumulation = choose(inputs, [replace(line, most=room) for line in lines], per_rank, possible)
        fits = micro > 0
        micro, accumulation, seconds, sequence = self._speeds(inputs, lines, micro, accumulation, per_rank)
        usable = np.broadcast_to(np.asarray(inputs.hardware.usable_bytes, dtype=float), fits.shape)
        need = _lines(inputs, np.maximum(accumulation, 1), memory).need(np.maximum(micro, 1), usable)
        missing = possible & ~fits
        misses = []
        if missing.any():
            self.rejected[DOES_NOT_FIT] += int(np.sum(missing))
            least = least_need(inputs, lines, per_rank, fits.shape)
            misses = _memory_shortfalls(recipes, machines, missing, fits, (least - usable) / GIB)
        fits = self._without_doubted(recipes, machines, fits)
        if learned.probed:  # no estimate lies below the memory that a run at most as large took
            floors = learned.floors(recipes, machines, micro, shape.longest)
            need, fits = np.maximum(need, floors), fits & (floors <= usable)
        self.rejected["the global batch does not divide over the GPUs"] += int(np.sum(without_room))
        r, h = np.nonzero(fits)
        fitting = Configurations(
            tuple(recipes),
            tuple(machines),
            r,
            h,
            micro[r, h].astype(np.int64),
            accumulation[r, h].astype(np.int64),
            seconds[r, h],
            sequence[r, h],
            need[r, h] / GIB,
            usable[r, h] / GIB,
            np.full(len(r), np.nan),
        )
        return fitting, misses

    def tried(self, recipes: tuple[Recipe, ...], classes: Sequence[Sequence[Machine]]) -> TriedGrid:
        """Return the cells of recipes on machines, given by their class, with what leaves the others out."""
        alone = replace(self, rejected=Counter(), small_hosts=[])
        fitting, missing = alone.evaluate(recipes, list(chain.from_iterable(classes)))
        return TriedGrid(recipes, classes, fitting, missing, alone.rejected, alone.small_hosts)

    def evaluate_where_missing(
        self,
        recipes: Sequence[Recipe],
        group: Sequence[Machine],
        fitting: Configurations,
        missing: Sequence[MemoryShortfall],
        pages: Configurations | None,
    ) -> tuple[list[Configurations], list[MemoryShortfall]]:
        """Return what one class of machines runs besides `fitting`, and the shortfalls that are left of `missing`.

        These are paged optimizers (`pages`), parallelism over GPUs, and observed runs that should not fit.
        """
        job, several, opened = self.job, list[Configurations](), list[Recipe]()
        left_missing = list(missing)
        if pages is not None and len(pages):
            several.append(pages)
            reached = set(_placed(pages))
            left_missing = [
                shortfall
                for shortfall in missing
                if shortfall.machine not in reached or shortfall.recipe.method != "full"
            ]
        left = _without(group, fitting, *several)
        if left:
            # Where nothing fits, tensor and pipeline parallelism are tried: the smallest degrees that fit win by time.
            opened = expand_parallel_degrees(job, recipes, GpuClass.of(self.library.gpu(group[0].gpu)), self.library)
            more, _ = self.evaluate(opened, left)
            several.append(more)
            if len(more):
                left_missing = [miss for miss in left_missing if miss.machine not in left]
        seen = [machine for machine in group if find_observed_run(job, machine)]
        if seen:
            known = concatenate_configurations([fitting, *several])
            several.append(self.evaluate_observed([*recipes, *opened], seen, known))
            left_missing = [miss for miss in left_missing if miss.machine not in seen]
        return several, left_missing

    def _with_host_memory(
        self,
        inputs: TimedSetup,
        recipes: Sequence[Recipe],
        machines: Sequence[Machine],
        lines: MemoryLines,
        possible: Flags,
    ) -> Flags:
        """Return the possible cells whose states in host memory have room there; count the others."""
        memory = MemoryCoefficients.of(self.library.calibrations["memory"].values)
        bytes_per_gpu = host_bytes(inputs, memory)  # at a micro-batch of one
        taken = np.multiply(bytes_per_gpu, inputs.layout.gpus_per_node)
        if not np.any(taken):
            return possible
        ram = _ram_bytes(machines)
        taken = np.broadcast_to(taken, possible.shape)
        small = possible & (taken > ram)
        assumed = small & np.asarray([machine.assumes_ram for machine in machines], dtype=bool)
        if small.any():
            usable = np.asarray(inputs.hardware.usable_bytes, dtype=float)
            on_card = small & np.asarray(lines.need(1.0, usable) <= usable)
            self.small_hosts.extend(_nearest_hosts(recipes, machines, np.where(on_card, taken, np.inf) / GB))
        self.rejected[HOST_MEMORY_ASSUMED_SMALL] += int(np.sum(assumed))
        self.rejected[HOST_MEMORY_SMALL] += int(np.sum(small & ~assumed))
        return np.asarray(possible & ~small)

    def _without_doubted(self, recipes: Sequence[Recipe], machines: Sequence[Machine], fits: Flags) -> Flags:
        """Return the fitting cells (R, H) that can be so sure to fit as the job asks; count the others."""
        if self.headroom is not None or self.ran or self.job.memory_confidence <= UNMEASURED_MOST:
            return fits
        sure = fits.copy()
        for row, column in zip(*np.nonzero(fits), strict=True):
            doubt = self.learned.doubt_of_memory(recipes[row], machines[column].gpus, self.job, self.library)
            if doubt is not None:
                sure[row, column] = False
                self.rejected[doubt] += 1
        return sure

    def _speeds(
        self, inputs: TimedSetup, lines: Sequence[MemoryLines], micro: Floats, accumulation: Floats, per_rank: Floats
    ) -> tuple[Floats, Floats, Floats, Floats]:
        """Return micro-batches, accumulation steps, seconds per step and tokens per sequence, all (R, H)."""
        job, shape = self.job, self.shape
        time = TimeCoefficients.of(self.library.calibrations["time"].values)
        memory = MemoryCoefficients.of(self.library.calibrations["memory"].values)

        def seconds_at(batch: Floats | float, steps: Floats) -> tuple[Floats, Floats]:
            sequence = processed_length(
                *(job.packing, shape.sequence, shape.mean_length, shape.length_cv),
                *(batch * job.answers, job.sequence_lengths),
            )
            layout = replace(inputs.layout, micro_batch=batch, accumulation=steps, sequence=sequence)
            seconds = step_seconds(with_paging(replace(inputs, layout=layout), memory), time)
            shaped = (np.broadcast_to(np.asarray(column, dtype=float), micro.shape) for column in (seconds, sequence))
            return next(shaped), next(shaped)

        # A larger padded batch pads more, and a pipeline of few large micro-batches idles at both ends.
        if job.packing == "padded" or np.any(np.asarray(inputs.layout.pipeline) > 1):
            micro, accumulation = choose_fastest_batches(inputs, seconds_at, lines, micro, accumulation, per_rank)
        return micro, accumulation, *seconds_at(np.maximum(micro, 1), np.maximum(accumulation, 1))

    def evaluate_paged(self, grids: Sequence[TriedGrid]) -> dict[tuple[int, int], Configurations]:
        """Return full training with a paged optimizer where no other fits, by the places of a grid and of its class.

        Machines on which the same recipes are opened are one grid, whatever their class.
        """
        job, library, by_place = self.job, self.library, dict[tuple[int, int], Configurations]()
        opened: dict[tuple[Recipe, ...], dict[tuple[int, int], list[Machine]]] = {}
        if not allows_full(job):
            return by_place
        for number, grid in enumerate(grids):
            full = np.asarray([recipe.method == "full" for recipe in grid.fitting.recipes], dtype=bool)
            in_full, paged = grid.fitting.rows(full[grid.fitting.recipe]), expand_paged(job, grid.recipes, library)
            paged = [recipe for recipe in paged if is_allowed(recipe, job)]
            for place, group in enumerate(grid.classes):
                if left := _without(group, in_full):
                    card = GpuClass.of(library.gpu(group[0].gpu))
                    works = tuple(recipe for recipe in paged if find_incompatibility(recipe, card, library) is None)
                    opened.setdefault(works, {})[number, place] = left
        quiet = replace(self, rejected=Counter(), small_hosts=[])  # what does not fit in pages was counted without them
        for recipes, of_class in opened.items():
            fitting, _ = quiet.evaluate(recipes, list(chain.from_iterable(of_class.values())))
            begin = 0
            for which, left in of_class.items():
                here = fitting.rows((fitting.machine >= begin) & (fitting.machine < begin + len(left)))
                by_place[which] = replace(here, machines=tuple(left), machine=here.machine - begin)
                begin += len(left)
        return by_place

    def evaluate_observed(
        self, recipes: Sequence[Recipe], seen: Sequence[Machine], known: Configurations
    ) -> Configurations:
        """Return a configuration on each machine where the job was observed although no allowed recipe should fit."""
        job = self.job
        allowed = np.asarray([is_allowed(recipe, job) for recipe in known.recipes], dtype=bool)
        left = _without(seen, known.rows(allowed[known.recipe]))
        unlimited = replace(self, headroom=None, learned=NO_CORRECTION, rejected=Counter(), small_hosts=[], ran=True)
        return unlimited.evaluate([recipe for recipe in recipes if is_allowed(recipe, job)], left)[0]


def _ram_bytes(machines: Sequence[Machine]) -> Floats:
    """Return the host memory of each machine (H,); nan where it is no limit."""
    return np.asarray([np.nan if machine.ram_gb is None else machine.ram_gb * GB for machine in machines])


def _host_room(inputs: TimedSetup, machines: Sequence[Machine], memory: MemoryCoefficients) -> Floats | float:
    """Return the largest micro-batch whose checkpoints the host has room for, (R, H); infinite where none lie there."""
    sequence_bytes = parked_bytes_with_buffers(inputs, memory)
    if not np.any(sequence_bytes):
        return np.inf
    states = host_bytes(inputs, memory) - sequence_bytes * inputs.layout.micro_batch
    left = _ram_bytes(machines) / np.asarray(inputs.layout.gpus_per_node) - states
    with np.errstate(divide="ignore", invalid="ignore"):
        room = np.floor(left / sequence_bytes)
    return np.where(np.isfinite(room), np.maximum(room, 0.0), np.inf)


def _lines(inputs: TimedSetup, accumulation: Any, memory: MemoryCoefficients) -> MemoryLines:
    return memory_lines(replace(inputs, layout=replace(inputs.layout, accumulation=accumulation)), memory)


def _nearest_hosts(recipes: Sequence[Recipe], machines: Sequence[Machine], taken_gb: Floats) -> Iterator[HostShortfall]:
    """Yield the recipe that takes least of each host, where one takes too much; (R, H), inf where it is no reason."""
    least = first_least(taken_gb, axis=0)
    for h, machine in enumerate(machines):
        if np.isfinite(taken_gb[least[h], h]):
            yield HostShortfall(recipes[int(least[h])], machine, float(taken_gb[least[h], h]))


def _memory_shortfalls(
    recipes: Sequence[Recipe], machines: Sequence[Machine], missing: Flags, fits: Flags, short_gib: Floats
) -> list[MemoryShortfall]:
    """Return the nearest recipe at a micro-batch of one, for each machine and rung of the ladder that does not fit."""
    short = np.where(missing, np.broadcast_to(short_gib, missing.shape), np.inf)
    labels = np.asarray([recipe.method_label for recipe in recipes])
    shortfalls = []
    for label in dict.fromkeys(labels):
        rows = np.flatnonzero(labels == label)
        nearest = rows[first_least(short[rows], axis=0)]
        shortfalls += [
            MemoryShortfall(recipes[int(nearest[h])], machines[h], float(short[nearest[h], h]))
            for h in map(int, np.flatnonzero(missing[rows].any(axis=0) & ~fits[rows].any(axis=0)))
        ]
    return shortfalls


def _placed(configurations: Configurations) -> Iterator[Machine]:
    """Yield the machines that some configuration runs on."""
    yield from (configurations.machines[index] for index in set(configurations.machine.tolist()))


def _without(machines: Sequence[Machine], *fitting: Configurations) -> list[Machine]:
    """Return the machines that no configuration runs on."""
    placed = {machine for configurations in fitting for machine in _placed(configurations)}
    return [machine for machine in machines if machine not in placed]


# Configurations of one job: every recipe on every distinct machine, prices left out.
#
# A machine is a GPU, their number per instance, a number of instances and the links between them.
# For each recipe and machine the largest micro-batch that fits and divides the batch exactly is kept.
# Where the whole job was observed on a machine, its configurations have the observed hours; observed speed and memory
# correct the estimates of all configurations (`compared_runs.py`).


@dataclass(frozen=True)
class TriedGrid:
    """The recipes of one grid, its machines by class, and the cells that fit, before pages and parallelism are tried.

    `rejected` and `small_hosts` are those of this grid alone.
    """

    recipes: tuple[Recipe, ...]
    classes: Sequence[Sequence[Machine]]
    fitting: Configurations
    missing: Sequence[MemoryShortfall]
    rejected: Counter[str]
    small_hosts: Sequence[HostShortfall]


@dataclass(frozen=True)
class TriedGrids:
    """The grids of one job, and how many recipes work on no machine of a class, by the reason."""

    grids: tuple[TriedGrid, ...]
    incompatible: Counter[str]


@dataclass(frozen=True)
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
    tried: TriedGrids | None = None  # what techniques that a job may not use leave as it is


def enumerate_configurations(
    job: Job,
    architecture: Architecture,
    machines: Sequence[Machine],
    library: Library,
    headroom: float | None = None,
    only_allowed: bool = False,
    before: JobConfigurations | None = None,
) -> JobConfigurations:
    """Return every recipe on every machine that fits, with its fastest micro-batch; count the others by their reason.

    `headroom` (a share) replaces the margin of the fit rule. `only_allowed` leaves out cards on which the job allows
    no recipe that works. `before` are all configurations of a job that differs in whether it may train in full, and in
    nothing else that memory and step times depend on: only paged optimizers, and what follows from them, are tried.
    Shapes: recipes and machines of one class of GPU form a grid (R, 1) x (H,); the result is its fitting cells.
    """
    shape, learned = shape_of(job, architecture), learn_correction(job, architecture, library)
    rejected: Counter[str] = Counter()
    grid = Grid(job, shape, library, headroom, learned, rejected)
    pieces: list[Configurations] = []
    misses: list[MemoryShortfall] = []
    if before is not None and before.tried is not None:
        grid.known.update(before.coefficients)
        tried = before.tried
    else:
        incompatible = Counter[str]()
        kinds = _grids_of(job, machines, library, incompatible)
        if only_allowed:
            kinds = [kind for kind in kinds if any(is_allowed(recipe, job) for recipe in kind[0])]
        tried = TriedGrids(tuple(grid.tried(*kind) for kind in kinds), incompatible)
    rejected.update(tried.incompatible)
    pages = grid.evaluate_paged(tried.grids)
    for number, tried_grid in enumerate(tried.grids):
        rejected.update(tried_grid.rejected)
        grid.small_hosts.extend(tried_grid.small_hosts)
        pieces.append(tried_grid.fitting)
        missing = tried_grid.missing
        for place, group in enumerate(tried_grid.classes):
            of_class = tried_grid.recipes, group, tried_grid.fitting, missing, pages.get((number, place))
            more, missing = grid.evaluate_where_missing(*of_class)
            pieces += more
        misses += missing
    ways = concatenate_configurations(pieces)
    ways = replace(ways, step_seconds=ways.step_seconds / learned.speed_factors(ways, shape.sequence, library))
    observed = apply_observed_hours(ways, job, shape)
    results = observed, tuple(misses), rejected, learned, grid.known, tuple(grid.small_hosts), tried
    return JobConfigurations(shape, tuple(machines), *results)


def _grids_of(
    job: Job, machines: Sequence[Machine], library: Library, rejected: Counter[str]
) -> Iterable[tuple[tuple[Recipe, ...], list[list[Machine]]]]:
    """Return the recipes of each grid, with its machines by class of GPU and by one or several GPUs.

    Classes with the same recipes are one grid: most of its time does not depend on the number of machines.
    """
    groups: dict[tuple[GpuClass, bool], list[Machine]] = {}
    cards = {name: GpuClass.of(library.gpu(name)) for name in {machine.gpu for machine in machines}}
    for machine in machines:
        groups.setdefault((cards[machine.gpu], machine.gpus > 1), []).append(machine)
    grids: dict[tuple[Recipe, ...], list[list[Machine]]] = {}
    for group in groups.values():
        grids.setdefault(tuple(_compatible_recipes(job, group, library, rejected)), []).append(group)
    return grids.items()


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
