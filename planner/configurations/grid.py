"""Machines, jobs and recipes in the units of the estimates: what one grid (R, 1) x (H,) is computed from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from planner.configurations.coefficients import recipe_coefficients
from planner.configurations.hardware import hardware_numbers
from planner.configurations.lengths import sequence_of
from planner.configurations.network import network_of
from planner.estimates.inputs import Activations, Hardware, Kernels, Layout, Network, Stack, States, TimedSetup
from planner.estimates.memory.host_offload import with_host_room
from planner.estimates.memory.states import MemoryCoefficients
from planner.estimates.work import PACKED_FILL, cut_share, kept_length, step_count
from planner.records import record
from planner.units import GB

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.configurations.coefficients import RecipeCoefficients
    from planner.configurations.recipe import Recipe
    from planner.library.schema import Architecture, Library
    from planner.scenario.job import Job

T = TypeVar("T", States, Activations, Stack, Kernels, Hardware)


@dataclass(frozen=True)  # a key that is looked up thousands of times
class Machine:
    """Hardware that estimates can tell apart; `network_gbps` None where unknown or where there is one instance."""

    gpu: str
    gpus_per_instance: int
    instances: int
    link: str
    network_gbps: float | None
    ram_gb: float | None = None  # of one instance; None: no limit, as of observed runs
    assumes_ram: bool = False  # that of its class, as the offer does not state it

    @property
    def gpus(self) -> int:
        """GPUs in total."""
        return self.gpus_per_instance * self.instances


@record(frozen=True)
class JobShape:
    """A job in the units of the estimates: tokens (or equivalent tokens of an image) and sequences."""

    network: Network
    sequence: int  # tokens per packed sequence, or the cap
    longest: float  # tokens of the longest sequence that sets the memory peak
    mean_length: float  # tokens per sample before padding
    tokens: float  # real tokens in all
    steps: float  # optimizer steps; nan where it depends on the micro-batch (never: batches are global)
    units_per_token: float  # 1, or images per equivalent token
    unit: str
    cut_share: float = 0.0  # of the tokens of the samples, those beyond the end of a sequence


def shape_of(job: Job, architecture: Architecture) -> JobShape:
    """Return the job's work in tokens, optimizer steps and sequence lengths."""
    network = network_of(architecture)
    if architecture.image is not None:
        return _shape_of_images(job, architecture, network)
    sequence = sequence_of(job, architecture)
    work = job.work
    given, lengths = work.tokens_per_sample, work.sample_lengths
    mean = kept_length(given or sequence, sequence, lengths)
    cut = cut_share(job.packing, given, job.length_cv, sequence, lengths) if given else 0.0
    per_batch = job.global_batch * (sequence if job.packing == "packed" else mean)
    if work.steps is not None:
        steps = float(work.steps)
        tokens = steps * per_batch * (PACKED_FILL if job.packing == "packed" else 1.0)
    else:
        tokens = work.tokens if work.tokens is not None else (work.samples or 0) * mean * work.epochs
        samples = (work.samples or 0) * work.epochs if work.samples is not None else tokens / mean
        steps = step_count(job.packing, tokens, samples, sequence, job.global_batch)
    return JobShape(network, sequence, float(sequence), float(mean), float(tokens), float(steps), 1.0, "tokens", cut)


def _shape_of_images(job: Job, architecture: Architecture, network: Network) -> JobShape:
    assert architecture.image is not None
    resolution = job.work.resolution or architecture.image.resolution
    tokens = architecture.image.tokens(resolution)
    longest = architecture.image.memory_tokens(resolution)
    images = job.work.images * job.work.epochs if job.work.images else (job.work.steps or 0) * job.global_batch
    steps = float(np.ceil(images / job.global_batch))
    return JobShape(network, round(tokens), longest, tokens, images * tokens, steps, 1.0 / tokens, "images")


def evaluated_tokens(job: Job, shape: JobShape) -> float:
    """Return the tokens (or equivalent ones) that one run evaluates; 0 without that stage."""
    wanted = job.stages.evaluation
    if wanted is None:
        return 0.0
    return float(wanted.all_tokens) if wanted.all_tokens is not None else (wanted.share or 0.0) * shape.tokens


def grid_inputs(
    job: Job,
    shape: JobShape,
    recipes: Sequence[Recipe],
    machines: Sequence[Machine],
    library: Library,
    known: dict[Recipe, RecipeCoefficients] | None = None,
    shared: dict[object, Any] | None = None,
) -> TimedSetup:
    """Return the inputs of the estimates for recipes (R, 1) on machines (H,) that run all of them.

    Both are caches for all grids of a job: `known` has the coefficients of each recipe, `shared` those that several
    recipes share, by the facts on which they depend.
    """
    known, shared = {} if known is None else known, {} if shared is None else shared
    known |= {one: recipe_coefficients(one, job, shape.network, library, shared) for one in recipes if one not in known}
    setups = [known[recipe] for recipe in recipes]

    def column(values: Sequence[float]) -> Any:
        array = np.asarray(values, dtype=float)
        return float(array[0]) if np.all(array == array[0]) else array[:, None]

    def row(values: Sequence[float]) -> Any:
        return np.asarray(values, dtype=float)

    layout = Layout(
        micro_batch=1,
        accumulation=1,
        sequence=float(shape.sequence),
        longest_sequence=shape.longest,
        gpus=row([m.gpus for m in machines]),
        gpus_per_node=row([m.gpus_per_instance for m in machines]),
        tensor=column([r.tensor_parallel for r in recipes]),
        pipeline=column([r.pipeline_parallel for r in recipes]),
        context=column([r.context_parallel for r in recipes]),
        expert=column([r.expert_parallel for r in recipes]),
        zero_stage=column([r.zero_stage for r in recipes]),
        hybrid=column([float(r.is_hybrid) for r in recipes]),
        variable_length=shape.mean_length / shape.longest if job.packing == "padded" else 0.0,
    )
    setup = TimedSetup(
        shape.network,
        layout,
        stack_dataclasses([s.states for s in setups], True),
        stack_dataclasses([s.activations for s in setups], True),
        stack_dataclasses([s.stack for s in setups], True),
        stack_dataclasses([s.kernels for s in setups], True),
        _hardware(recipes, machines, library, shared),
    )
    memory = MemoryCoefficients.of(library.calibrations["memory"].values)
    return with_host_room(setup, row([np.nan if m.ram_gb is None else m.ram_gb * GB for m in machines]), memory)


def _hardware(
    recipes: Sequence[Recipe], machines: Sequence[Machine], library: Library, shared: dict[object, Any]
) -> Hardware:
    """Return speeds (H,), or (R, H) where the recipes differ in how they compute."""
    values = library.techniques.values.precision.values

    def speeds(machine: Machine, kind: str, precision: str) -> Hardware:
        key = (machine.gpu, machine.link, machine.network_gbps, kind)
        if key not in shared:
            gpu = library.gpu(machine.gpu)
            shared[key] = hardware_numbers(gpu, machine.link, machine.network_gbps, precision, library)
        found: Hardware = shared[key]
        return found

    kinds = [values[recipe.precision].compute for recipe in recipes]
    precisions = dict(zip(kinds, (recipe.precision for recipe in recipes), strict=True))
    per_kind = {
        kind: stack_dataclasses([speeds(machine, kind, precision) for machine in machines], False)
        for kind, precision in precisions.items()
    }
    if len(per_kind) == 1:
        return per_kind[kinds[0]]
    width = len(machines)
    fields = {
        name: np.stack(
            [np.broadcast_to(np.asarray(getattr(per_kind[kind], name), dtype=float), (width,)) for kind in kinds]
        )
        for name in Hardware.__dataclass_fields__
    }
    return Hardware(**fields)


def stack_dataclasses(items: Sequence[T], as_column: bool) -> T:
    """Return one dataclass of arrays, shape (n, 1) as a column of recipes or (n,) as a row of hardware.

    A field that is the same in all items stays a scalar: the estimates run faster on it.
    """
    first = items[0]
    fields: dict[str, Any] = {}
    distinct = list({id(item): vars(item) for item in items}.values())
    for name in first.__dataclass_fields__:
        values = [item[name] for item in distinct]
        if values.count(values[0]) == len(values):
            fields[name] = values[0]
        else:
            array = np.asarray([getattr(item, name) for item in items], dtype=float)
            fields[name] = array[:, None] if as_column else array
    return type(first)(**fields)
