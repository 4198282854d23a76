"""Estimates of many configurations as one table: the figures of `estimate`, computed as columns.

One estimate spends nine tenths of its time on numpy calls with single numbers and on reading the library. Here the
library is read once, and the formulas see all rows of one model at a time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from planner.analysis.estimate_question import (
    PossibleRuns,
    check_accumulation,
    check_host_memory,
    possible_runs,
    possible_sizes,
    processed_tokens,
    usual_accumulation,
)
from planner.arrays import Floats, Integers
from planner.candidates.training_hours import configuration_sigmas, unmeasured_sigma
from planner.configurations.coefficients import recipe_spread
from planner.configurations.compared_runs import real_units
from planner.configurations.grid import network_of, row_inputs
from planner.documents.validation import Source
from planner.errors import Fault, InputError, ScenarioError, raise_faults
from planner.estimates.device import TimeCoefficients
from planner.estimates.inputs import Hardware, Network, Stack, TimedSetup
from planner.estimates.memory_fit import (
    PHASES,
    MemoryEstimate,
    estimate_memory,
    fit_probability,
    host_bytes,
    memory_lines,
    with_paging,
)
from planner.estimates.memory_terms import MemoryCoefficients
from planner.estimates.step_time import StepTime, step_time
from planner.estimates.uncertainty import MemorySpread, factors_of_tail, time_factors
from planner.evaluation.evaluated_physics import techniques_of
from planner.library.names import split_count
from planner.library.reading import read_library
from planner.library.schema import Architecture, GpuSpec, Library
from planner.loading.question import plain_rows, resolve_cards
from planner.results.plan_parts import HostMemory
from planner.results.result_tables import Row, Table, flattened
from planner.scenario.techniques import WHERE, Configuration
from planner.units import GB, GIB

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_Part = TypeVar("_Part")


def estimate_many(
    rows: Iterable[Mapping[str, Any]] | Any, library: Library | None = None, *, keep_faulty: bool = False
) -> Table:
    """Return memory and speed of many configurations, a row each, in their order.

    Parameters
    ----------
    rows
        Mappings, or a data frame: `architecture`, `gpu` and the settings that `estimate` takes. What a row leaves out,
        or holds as None or nan, is chosen as `estimate` chooses it.
    library
        Models and GPUs; the shipped ones by default.
    keep_faulty
        Give what is wrong with a row as text in its column `error`, without figures, in place of raising it.

    Returns
    -------
    Table
        Names, techniques and batch of each row; `fits`, GiB of one GPU (`vram_gib` is what must fit in `usable_gib`),
        `allocated_gib` and `tokens_per_second` with their 80 % intervals, seconds of a step, and the parts of both as
        `gib_...` and `seconds_...`. They are the figures of `estimate`, which adds notes and changes that make it fit.

    Raises
    ------
    ScenarioError
        With the faults of all rows, each at its place: `rows.3.gpus`. Unknown names are among them.

    Examples
    --------
    >>> table = estimate_many([{"architecture": "mistral-7b", "gpu": "A10G", "weight_bits": bits} for bits in (4, 16)])
    >>> table.column("weight_bits"), table.column("fits")
    ([4, 16], [True, True])
    """
    asked = plain_rows(rows)
    shared, faults = _Shared(library), dict[int, list[Fault]]()
    runs = dict[int, _Run]()
    for number, row in enumerate(asked):
        try:
            runs[number] = shared.run(row)
        except InputError as error:
            faults[number] = list(error.faults)
    answers = dict[int, Row]()
    keys = {number: (run.architecture.name, run.possible.shape.network) for number, run in runs.items()}
    for alike in dict.fromkeys(keys.values()):
        places = [number for number, key in keys.items() if key == alike]
        _estimate(places, [runs[place] for place in places], shared, answers, faults)
    if not keep_faulty:
        raise_faults([_of_row(fault, number) for number in sorted(faults) for fault in faults[number]], ScenarioError)
        return Table([answers[number] for number in range(len(asked))], "estimates")
    told = {number: "; ".join(map(str, told)) for number, told in faults.items()}
    for number in told:
        answers[number] = {name: asked[number].get(name) for name in ("architecture", "gpu")}
    return Table([{**answers[number], "error": told.get(number)} for number in range(len(asked))], "estimates")


def _of_row(fault: Fault, number: int) -> Fault:
    """Return a fault with the place of its row."""
    return fault._replace(file=WHERE, where=".".join(filter(None, ("rows", f"{number}", fault.where))))


@dataclass(frozen=True)
class _Run:
    """One row: its model and GPU, and the recipes that it leaves open."""

    architecture: Architecture
    card: GpuSpec
    library: Library
    possible: PossibleRuns


class _Shared:
    """What does not depend on the row: the library, models and GPUs by the names in the rows, speeds of machines."""

    def __init__(self, library: Library | None) -> None:
        self._given = library is not None
        self.library = library or read_library([])
        self.hardware: dict[object, Hardware] = {}
        self._architectures: dict[str, tuple[Architecture, Network, Library]] = {}
        self._cards: dict[str, GpuSpec] = {}

    def run(self, row: Row) -> _Run:
        """Return a row with its names resolved; ScenarioError or LibraryError where it cannot run at all."""
        gpu, settings = row.get("gpu"), row
        if isinstance(gpu, str):
            count, gpu = split_count(gpu)
            if count is not None and row.get("gpus", count) != count:
                problem = f"{count} by the name of the GPU, {row['gpus']} here"
                raise ScenarioError([Fault(WHERE, 0, "gpus", problem, "give one of the two")])
            settings = row if count is None else {**row, "gpu": gpu, "gpus": count}
        asked = Source(WHERE).validate(Configuration, settings)
        if asked.architecture not in self._architectures or asked.gpu not in self._cards:
            self._resolve(asked)
        architecture, network, library = self._architectures[asked.architecture]
        card = self._cards[asked.gpu]
        return _Run(architecture, card, library, possible_runs(asked, architecture, card, library, network))

    def _resolve(self, asked: Configuration) -> None:
        """Find model and GPU of a row; LibraryError with both where both are unknown."""
        given = self.library if self._given else None
        architecture, card, library = resolve_cards(asked.architecture, asked.gpu, given)
        if not self._given:  # cards that are read once are kept for all models
            library = Library(
                architectures=library.architectures, gpus=self.library.gpus, calibrations=self.library.calibrations
            )
        if asked.architecture not in self._architectures:
            self._architectures[asked.architecture] = (architecture, network_of(architecture), library)
        self._cards[asked.gpu] = card


def _estimate(
    places: Sequence[int],
    runs: Sequence[_Run],
    shared: _Shared,
    answers: dict[int, Row],
    faults: dict[int, list[Fault]],
) -> None:
    """Add the rows of one model to the answers, those that cannot run to the faults."""
    library = runs[0].library
    cells = [(number, recipe) for number, run in enumerate(runs) for recipe in run.possible.recipes]
    try:
        inputs = row_inputs(
            [(runs[n].possible.job, runs[n].possible.shape, recipe, runs[n].possible.machine) for n, recipe in cells],
            library,
            shared.hardware,
        )
    except ScenarioError as error:
        if len(runs) == 1:
            faults[places[0]] = list(error.faults)
            return
        for place, run in zip(places, runs, strict=True):  # which of them it is
            _estimate([place], [run], shared, answers, faults)
        return
    inputs = _with_headroom(inputs, [runs[number].possible.asked.vram_headroom for number, _ in cells])
    memory = _Memory(inputs, library)
    taken = _taken_recipes(memory, runs, cells)
    micro, accumulation = _batches(memory, runs, cells, taken, library)
    figures = _figures(memory, runs, cells, taken, micro, accumulation, library)
    for number, (place, run) in enumerate(zip(places, runs, strict=True)):
        recipe = cells[int(taken[number])][1]
        try:
            check_accumulation(recipe, int(accumulation[number]))
            check_host_memory(_host_memory(run, figures["host_memory_gb"][number]))
        except ScenarioError as error:
            faults[place] = list(error.faults)
            continue
        row = {name: column[number] for name, column in figures.items()}
        answers[place] = {**_names(run, recipe, int(micro[number]), int(accumulation[number])), **row}


def _host_memory(run: _Run, taken_gb: float | None) -> HostMemory | None:
    machine = run.possible.machine
    if taken_gb is None or machine.ram_gb is None:
        return None
    return HostMemory(taken_gb=taken_gb, total_gb=machine.ram_gb, assumed=machine.assumes_ram)


def _names(run: _Run, recipe: Any, micro: int, accumulation: int) -> Row:
    """Return what is estimated: names, machines, techniques and batch."""
    possible = run.possible
    machine, asked = possible.machine, possible.asked
    techniques = flattened(techniques_of(recipe, possible.job, micro, accumulation), ("latents", "lora_targets"))
    return {
        "architecture": run.architecture.name,
        "gpu": machine.gpu,
        "gpus": machine.gpus,
        "instances": machine.instances,
        "interconnect": machine.link,
        **techniques,
        "sequence_length": possible.shape.sequence,
        "global_batch": micro * accumulation * (machine.gpus // asked.group),
        "packing": asked.packing,
        "unit": possible.shape.unit,
        "parameters": run.architecture.parameters,
    }


def _with_headroom(inputs: TimedSetup, headrooms: Sequence[float | None]) -> TimedSetup:
    """Return the inputs with the share of memory that some rows keep free in place of their margins."""
    if all(headroom is None for headroom in headrooms):
        return inputs
    given = np.asarray([math.nan if headroom is None else headroom for headroom in headrooms])
    stack, kept = inputs.stack, np.isnan(given)

    def margin(usual: Any) -> Floats:
        return np.where(kept, usual, given)

    changed: Stack = replace(stack, margin=margin(stack.margin), known_margin=margin(stack.known_margin))
    return replace(inputs, stack=changed)


@dataclass(frozen=True)
class _Memory:
    """The inputs of all cells, a row with one of its recipes each, and what is computed of some of them."""

    inputs: TimedSetup
    library: Library

    @property
    def coefficients(self) -> MemoryCoefficients:
        return MemoryCoefficients.of(self.library.calibrations["memory"].values)

    def at(self, cells: Integers, micro_batch: Any, accumulation: Any) -> TimedSetup:
        """Return the inputs of some cells at a batch each."""
        taken = TimedSetup(
            self.inputs.network,
            *(_rows_of(getattr(self.inputs, field.name), cells) for field in fields(TimedSetup)[1:]),
        )
        layout = replace(
            taken.layout,
            micro_batch=np.asarray(micro_batch, dtype=float),
            accumulation=np.asarray(accumulation, dtype=float),
        )
        return replace(taken, layout=layout)

    def usable_bytes(self, cells: Integers) -> Floats:
        """Return the usable bytes of the GPU of some cells."""
        usable = np.broadcast_to(np.asarray(self.inputs.hardware.usable_bytes, dtype=float), (_count(self.inputs),))
        return usable[cells]

    def need_gib(self, cells: Integers, micro_batch: Any, accumulation: Any) -> Floats:
        """Return the left side of the fit rule of some cells at a batch each."""
        setup = self.at(cells, micro_batch, accumulation)
        need = memory_lines(setup, self.coefficients).need(setup.layout.micro_batch, self.usable_bytes(cells))
        return np.broadcast_to(need, (len(cells),)) / GIB

    def fits(self, cells: Integers, micro_batch: Any, accumulation: Any) -> Any:
        """Return whether the need is at most the usable memory."""
        return self.need_gib(cells, micro_batch, accumulation) <= self.usable_bytes(cells) / GIB

    def largest(self, cells: Integers, accumulation: Any) -> Integers:
        """Return the largest micro-batches that fit."""
        setup = self.at(cells, 1.0, accumulation)
        batches = memory_lines(setup, self.coefficients).largest_micro_batch(self.usable_bytes(cells))
        return np.broadcast_to(batches, (len(cells),))


def _count(inputs: TimedSetup) -> int:
    return int(np.size(inputs.layout.gpus))


def _rows_of(part: _Part, cells: Integers) -> _Part:
    """Return a part of the inputs with the elements of some cells; numbers that all cells share stay as they are."""
    changed = {name: value[cells] for name, value in vars(part).items() if isinstance(value, np.ndarray) and value.ndim}
    return replace(part, **changed)  # type: ignore[type-var]


def _taken_recipes(memory: _Memory, runs: Sequence[_Run], cells: Sequence[tuple[int, Any]]) -> Integers:
    """Return the cell of each row: the first recipe that fits the requested batch, else the one that needs least."""
    every = np.arange(len(cells))
    asked = [runs[number].possible.asked for number, _ in cells]
    batch = (
        [question.micro_batch or 1 for question in asked],
        [question.accumulation_steps or 1 for question in asked],
    )
    needs = memory.need_gib(every, *batch)
    needs = np.where(needs <= memory.usable_bytes(every) / GIB, 0.0, needs).tolist()
    best: dict[int, int] = {}
    for cell, (number, _) in enumerate(cells):
        if number not in best or needs[cell] < needs[best[number]]:
            best[number] = cell
    return np.asarray([best[number] for number in range(len(runs))], dtype=np.int64)


def _batches(
    memory: _Memory, runs: Sequence[_Run], cells: Sequence[tuple[int, Any]], taken: Integers, library: Library
) -> tuple[Integers, Integers]:
    """Return micro-batch and accumulation steps of each row, as `estimate` chooses them."""
    micro, rounds = np.zeros(len(runs), dtype=np.int64), np.zeros(len(runs), dtype=np.int64)
    largest, divided = list[int](), list[int]()
    for number, run in enumerate(runs):
        asked, machine = run.possible.asked, run.possible.machine
        if asked.global_batch is None:
            rounds[number] = asked.accumulation_steps or usual_accumulation(asked)
            micro[number] = asked.micro_batch or 0
            largest += [number] if asked.micro_batch is None else []
            continue
        local = asked.global_batch // (machine.gpus // asked.group)
        if asked.micro_batch is not None:
            micro[number], rounds[number] = asked.micro_batch, local // asked.micro_batch
        elif asked.accumulation_steps is not None:
            micro[number], rounds[number] = local // asked.accumulation_steps, asked.accumulation_steps
        else:
            divided.append(number)
    if largest:
        micro[largest] = np.maximum(memory.largest(taken[largest], rounds[largest]), 1)
    _divide(memory, runs, cells, taken, divided, (micro, rounds), library)
    return micro, rounds


def _divide(
    memory: _Memory,
    runs: Sequence[_Run],
    cells: Sequence[tuple[int, Any]],
    taken: Integers,
    numbers: Sequence[int],
    batches: tuple[Integers, Integers],
    library: Library,
) -> None:
    """Choose the micro-batch of rows with a global batch alone, among the divisors of what one rank has."""
    tried: list[tuple[int, int, int]] = []
    for number in numbers:
        asked, machine = runs[number].possible.asked, runs[number].possible.machine
        local = asked.global_batch // (machine.gpus // asked.group)  # type: ignore[operator]
        sizes = possible_sizes(local, cells[int(taken[number])][1])
        batches[0][number], batches[1][number] = sizes[-1], local // sizes[-1]
        tried += [(number, size, local // size) for size in sizes]
    if not tried:
        return
    rows, sizes_tried, rounds = (np.asarray(column, dtype=np.int64) for column in zip(*tried, strict=True))
    fits = memory.fits(taken[rows], sizes_tried, rounds)
    seconds = _step(memory, runs, taken, rows, sizes_tried, rounds, library).seconds
    order = np.broadcast_to(seconds, (len(rows),)).tolist()
    best: dict[int, int] = {}
    for place, (number, _, _) in enumerate(tried):
        asked = runs[number].possible.asked
        is_timed = asked.packing == "padded" or asked.pipeline_parallel > 1
        if fits[place] and (number not in best or (is_timed and order[place] < order[best[number]])):
            best[number] = place
    for number, place in best.items():
        batches[0][number], batches[1][number] = sizes_tried[place], rounds[place]


def _step(
    memory: _Memory,
    runs: Sequence[_Run],
    taken: Integers,
    rows: Integers,
    micro: Integers,
    rounds: Integers,
    library: Library,
) -> StepTime:
    """Return the steps of some rows at a batch each."""
    setup = memory.at(taken[rows], micro, rounds)
    processed = _processed(runs, rows, micro)
    timed = with_paging(replace(setup, layout=replace(setup.layout, sequence=processed)), memory.coefficients)
    return step_time(timed, TimeCoefficients.of(library.calibrations["time"].values))


def _processed(runs: Sequence[_Run], rows: Integers, micro: Integers) -> Floats:
    """Return the tokens per sequence that the GPUs process; only those of padded batches depend on the batch."""
    tokens = []
    for number, size in zip(rows.tolist(), micro.tolist(), strict=True):
        job, shape = runs[number].possible.job, runs[number].possible.shape
        tokens.append(processed_tokens(job, shape, size) if job.packing == "padded" else float(shape.sequence))
    return np.asarray(tokens)


def _figures(
    memory: _Memory,
    runs: Sequence[_Run],
    cells: Sequence[tuple[int, Any]],
    taken: Integers,
    micro: Integers,
    rounds: Integers,
    library: Library,
) -> dict[str, list[Any]]:
    """Return the columns of memory and speed."""
    every = np.arange(len(runs))
    recipes = [cells[cell][1] for cell in taken.tolist()]
    setup, usable = memory.at(taken, micro, rounds), memory.usable_bytes(taken)
    estimate = estimate_memory(setup, memory.coefficients, usable)
    known = {recipe: recipe_spread(recipe, library) for recipe in recipes}
    spreads = [known[recipe] for recipe in recipes]
    columns = {"trainable_parameters": np.rint(np.asarray(setup.states.trainable, dtype=float)).astype(np.int64)}
    columns |= _memory_columns(estimate, usable, spreads)
    host = host_bytes(with_paging(setup, memory.coefficients), memory.coefficients)
    host_gb = np.broadcast_to(np.asarray(host) * setup.layout.gpus_per_node / GB, (len(runs),))
    columns["host_memory_gb"] = np.where(host_gb > 0, host_gb, None)  # type: ignore[call-overload]
    step = _step(memory, runs, taken, every, micro, rounds, library)
    columns |= _speed_columns(step, runs, recipes, micro, rounds, library)
    return {name: np.broadcast_to(column, (len(runs),)).tolist() for name, column in columns.items()}


def _memory_columns(estimate: MemoryEstimate, usable: Floats, spreads: Sequence[MemorySpread]) -> dict[str, Any]:
    """Return the memory of one GPU in GiB; the interval is that of the bytes that are not certain.

    Its tails are those of `fit_probability`, so that what fits with 90 % is the upper end.
    """
    sigma, certain, most = (np.asarray(side) for side in zip(*spreads, strict=True))
    need, allocated = np.asarray(estimate.need), np.asarray(estimate.allocated)
    uncertain = allocated - estimate.known + certain * estimate.known
    low, high = factors_of_tail(sigma)
    return {
        "fits": need / GIB <= usable / GIB,
        "vram_gib": need / GIB,
        "usable_gib": usable / GIB,
        "fit_probability": fit_probability(estimate.widest_margin(certain), sigma, most),
        "allocated_gib": allocated / GIB,
        "allocated_gib_low": (allocated + uncertain * (low - 1.0)) / GIB,
        "allocated_gib_high": (allocated + uncertain * (high - 1.0)) / GIB,
        "reserved_gib": np.asarray(estimate.reserved) / GIB,
        "device_used_gib": np.minimum(np.asarray(estimate.device_used) / GIB, np.maximum(usable, need) / GIB),
        "phase": np.asarray(PHASES, dtype=object)[estimate.phase],
        **{f"gib_{name}": np.asarray(part) / GIB for name, part in estimate.breakdown.items()},
    }


def _speed_columns(
    step: StepTime, runs: Sequence[_Run], recipes: Sequence[Any], micro: Integers, rounds: Integers, library: Library
) -> dict[str, Any]:
    """Return tokens (or images) per second with their 80 % interval, and the seconds of a step by part."""
    every = np.arange(len(runs))
    machines = [run.possible.machine for run in runs]
    kinds = np.asarray(
        [unmeasured_sigma(*pair, runs[0].architecture.experts, library) for pair in zip(recipes, machines, strict=True)]
    )
    tokens = micro * runs[0].possible.job.answers * _processed(runs, every, micro)
    spread = configuration_sigmas(recipes, runs[0].architecture, machines, every, tokens, library, kinds)
    quick, slow = time_factors(spread)
    units, ranks = [], []
    for run in runs:
        job, shape = run.possible.job, run.possible.shape
        units.append(real_units(job, shape))
        ranks.append(run.possible.machine.gpus // run.possible.asked.group)
    rate = micro * rounds * np.asarray(ranks) * np.asarray(units) / step.seconds
    return {
        "tokens_per_second": rate,
        "tokens_per_second_low": rate / slow,
        "tokens_per_second_high": rate / quick,
        "processed_tokens_per_second": step.tokens_per_second,
        "step_seconds": step.seconds,
        "sigma": spread.display,
        "sigma_in_tails": spread.tail,
        **{f"seconds_{name}": seconds for name, seconds in step.visible.items()},
    }
