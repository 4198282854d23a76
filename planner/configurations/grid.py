"""Machines, jobs and recipes in the units of the estimates, one grid (R, 1) x (H,), and its micro-batches.

Shapes: recipes and machines form a grid (R, H).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from planner.arrays import Flags, Floats, Integers, distinct, first_least
from planner.configurations.coefficients import RecipeCoefficients, hardware_numbers, recipe_coefficients
from planner.configurations.recipe import (
    HYBRID_ABOVE_GPUS,
    Machine,
    Recipe,
    image_view,
    length_spread,
    lossiness_of,
    mean_tokens,
    sequence_of,
)
from planner.estimates.inputs import (
    TOWER_ADAPTED,
    TOWER_FROZEN,
    TOWER_TRAINED,
    Activations,
    Attended,
    Hardware,
    Kernels,
    Layout,
    Linear,
    Network,
    Stack,
    States,
    TimedSetup,
    Tower,
)
from planner.estimates.memory_fit import MemoryLines
from planner.estimates.memory_terms import MemoryCoefficients, with_host_room
from planner.estimates.parts import DELTA_CHUNK_TOKENS, Part, activation_stand_ins, attended_of, attention_stand_ins
from planner.estimates.stage_seconds import (
    ExportCoefficients,
    StageCoefficients,
    gguf_bytes,
    grouped_bytes,
    kept_checkpoint_bytes,
)
from planner.estimates.weights import Dimensions, linears_of, parts_of
from planner.estimates.work import (
    PACKED_FILL,
    VARIABLE,
    cut_share,
    image_steps,
    kept_length,
    longest_length,
    step_count,
)
from planner.library.image_models import ImageTower, ImageView
from planner.library.names import is_gated
from planner.library.schema import SERVED_TOWER, Architecture, ImageTokens, ImageWork, Library, describe_tower
from planner.library.technique_tables import read_techniques
from planner.scenario.job import Job
from planner.units import GB

if TYPE_CHECKING:
    _Shaped = Callable[[Sequence[float]], Any]


# The shape of an architecture card as the estimates read it.


_SAME_NAMES = (
    *("layers", "hidden", "heads", "kv_heads", "head_dim", "ffn", "vocab", "gated", "rope", "parallel_residual"),
    "experts",
)
"""Fields that `Network` and an architecture card share."""


def network_of(architecture: Architecture) -> Network:
    """Return the shape of an architecture card, without its names and sources."""
    same = {name: getattr(architecture, name) for name in _SAME_NAMES}
    window, share = _window(architecture)
    is_transformer = isinstance(architecture.image, ImageTokens)
    return Network(
        **same,
        parameters=float(architecture.parameters),
        active_parameters=float(architecture.active_parameters),
        tied=architecture.tied_embeddings,
        experts_per_token=architecture.experts_per_token + architecture.shared_experts if architecture.experts else 0,
        sliding_window=window,
        sliding_layers=share,
        attended=_attended(architecture),
        uneven_layers=architecture.linear_layers > 0 or bool(architecture.parts) or is_transformer,
        **_kept_by_blocks(architecture.image),
        **_launched(architecture.image),
        masked=isinstance(architecture.image, ImageTokens) and architecture.image.masked,
        linears=_linears(architecture),
        adapters=architecture.adapters,
        frozen_parameters=float(architecture.image.frozen_parameters) if architecture.image else 0.0,
        tower_parameters=float(architecture.tower_parameters),
    )


def _kept_by_blocks(image: object) -> dict[str, Any]:
    """Return the fields of `Network` that say what was counted of the blocks of a diffusion transformer."""
    names = ("kept_bytes", "moved_bytes", "freed_bytes", "masks_bytes")
    return {name: getattr(image, name) for name in names} if isinstance(image, ImageTokens) else {}


_TOWER_STATES = {"frozen": TOWER_FROZEN, "lora": TOWER_ADAPTED, "trained": TOWER_TRAINED}


def with_tower(network: Network, job: Job, architecture: Architecture) -> Network:
    """Return the network with what its tower does for a sequence of the job; itself where the job has no images.

    A packed sequence has the images of as many samples as fill it.
    """
    given, view, mean = job.work.image_input, image_view(job, architecture), mean_tokens(job, architecture)
    if given is None or view is None or architecture.tower is None or not mean or not job.trains:
        return network
    packed = PACKED_FILL * sequence_of(job, architecture) / mean if job.packing == "packed" else 1.0
    return replace(
        network,
        tower=Tower(
            _tower_network(architecture.tower, architecture.tower_parameters),
            tiles=packed * given.count * view.tiles,
            patches=view.patches,
            state=_TOWER_STATES[given.tower],
            input_hook=architecture.tower.input_hook,
            adapter_widths=float(architecture.tower.adapter_widths),
        ),
    )


def _tower_network(tower: ImageTower, parameters: int) -> Network:
    """Return the layers of a tower as a network of patches without a causal mask.

    A patch meets all matrices of the layers, and its part of the projector, which one token of several patches meets.
    Attention within a tile costs twice what a causal mask leaves of it, within a window as much as one of so many.
    """
    met = tower.matrices + max(parameters - tower.matrices, 0) / tower.patches_per_token
    windowed = max(tower.layers - tower.full_layers, 0) if tower.window else 0
    full = Attended(2.0 * (tower.layers - windowed) / tower.layers, 0.0)
    window = Attended(windowed / tower.layers, float(tower.window), masked=False)
    return Network(
        parameters=met,
        active_parameters=met,
        layers=tower.layers,
        hidden=tower.hidden,
        heads=tower.heads,
        kv_heads=tower.heads,
        head_dim=tower.hidden // tower.heads,
        ffn=tower.ffn,
        vocab=0,
        tied=True,
        gated=tower.gated,
        rope=tower.cuts in ("resize", "rows"),
        attended=(full, window) if windowed else (full,),
        uneven_layers=True,
    )


def _attended(architecture: Architecture) -> tuple[Attended, ...]:
    """Return the mixers of tokens at their cost over that of causal attention in every layer.

    In a diffusion transformer each token meets all others: twice as many as under a causal mask. One that meets a
    caption of n tokens costs as much as causal attention with a window of n.
    """
    image, layers = architecture.image, architecture.layers
    if not isinstance(image, ImageTokens):
        return attended_of(architecture.parts, layers, architecture.heads * architecture.head_dim)
    caption = Attended(image.cross_attentions / layers, float(image.text_tokens), masked=False)
    return (Attended(2.0 * image.attentions / layers, 0.0), *((caption,) if image.cross_attentions else ()))


def parts_of_card(architecture: Architecture) -> tuple[Part, ...]:
    """Return the parts of an architecture card; none of an image network."""
    if architecture.image is not None:
        return ()
    return parts_of(Dimensions(**{field.name: getattr(architecture, field.name) for field in fields(Dimensions)}))


def prompt_notes(job: Job, architecture: Architecture) -> list[str]:
    """Return what is counted of images in prompts, or that a model which reads them has none."""
    if job.work.image_input is not None:
        return [job.work.image_input.described]
    return [SERVED_TOWER] if architecture.tower_parameters else []


def stand_ins(architecture: Architecture, job: Job) -> list[str]:
    """Return what of an architecture the estimates replace by something else, and what its licence forbids."""
    parts = parts_of_card(architecture)
    said = [*attention_stand_ins(parts), *activation_stand_ins(parts)]
    if isinstance(architecture.image, ImageWork):
        said.append("the estimate for a U-Net is rough: an image counts as equivalent tokens")
    if architecture.image is not None and job.work.aspect_buckets > 1:
        said.append(_describe_buckets(job, architecture.image))
    if job.trains and job.ema != "none":
        where = "in host memory, and on the GPU while it is updated" if job.ema == "host" else "with the optimizer"
        said.append(f"an average of the trained weights (EMA) counts {where}: 4 bytes of each, as an upper bound")
    if isinstance(architecture.image, ImageTokens) and (one_of := architecture.image.experts) > 1:
        said.append(
            f"a run trains one of the {one_of} networks of {architecture.name}: adapters of all are {one_of} jobs"
        )
    if view := image_view(job, architecture):
        said.append(_describe_images(job, view))
    elif architecture.tower_parameters:
        tower = (architecture.tower_parameters, architecture.tower_tokens, architecture.tower_token_pixels)
        said.append(describe_tower(*tower))
    if architecture.unread:
        said.append(f"keys of {architecture.name} that are not read: {', '.join(architecture.unread)}")
    if architecture.licence:
        said.append(f"licence of {architecture.name}: {architecture.licence}")
    repository = next((alias for alias in architecture.aliases if "/" in alias), None)
    if architecture.image is not None and is_gated(repository):
        said.append(f"{repository} is gated: accept its terms on the Hugging Face Hub, and give the machine a token")
    return said


def _describe_buckets(job: Job, image: ImageTokens | ImageWork) -> str:
    """Return what batches of one aspect each are taken to cost."""
    size = image.size(*job.work.image_size)
    return (
        f"images in {size.buckets} aspects of 1:2 to 2:1, equally many in each: the largest has "
        f"{size.largest_area:.1%} of the pixels of the square, which memory holds, and the last batch of each aspect "
        "counts as a whole step"
    )


def _describe_images(job: Job, view: ImageView) -> str:
    """Return what is counted of the images next to the text of a job, and what is not."""
    given = job.work.image_input
    assert given is not None
    noun = "video" if given.frames else "image"
    state = "adapted" if given.tower == "lora" else given.tower
    tiles = f", in {view.tiles} tiles of {view.patches:,} patches" if view.tiles > 1 else f", {view.patches:,} patches"
    return (
        f"each {noun} of {given.size} has {view.tokens:,} tokens{tiles}; the {state} tower lies whole on each GPU, and "
        "reading and resizing the files does not count"
    )


def _linears(architecture: Architecture) -> tuple[Linear, ...]:
    """Return the modules that adapters can extend; none for an image network, whose shape is a stand-in."""
    if architecture.image is not None:
        return ()
    dimensions = Dimensions(**{field.name: getattr(architecture, field.name) for field in fields(Dimensions)})
    return linears_of(dimensions, read_techniques().linears.of(architecture.family))


def _launched(image: ImageTokens | ImageWork | None) -> dict[str, Any]:
    """Return the fields of `Network` that count the linears and blocks of an image network, and what enters them."""
    if image is None:
        return {}
    if isinstance(image, ImageTokens):
        return {"linear_layers": image.linears, "blocks": image.blocks}
    return {
        "launched_layers": image.blocks,
        "linear_layers": float(image.linears),
        "linear_inputs": image.linear_inputs / image.memory_tokens_per_image,
    }


def _window(architecture: Architecture) -> tuple[int, float]:
    """Return a window in tokens, and the share of layers that have it, at the cost of the layer's own attention.

    A gated delta rule costs the same for every token: per head 6 d_k d_v FLOP to read, correct and write its state, and
    4 C (d_k + d_v) within a chunk of C tokens (Gated DeltaNet, arXiv:2412.06464). Softmax attention costs
    4 d FLOP per head and token attended to; the window is how many of those cost as much.
    """
    if not architecture.linear_layers:
        return architecture.sliding_window, architecture.sliding_layer_share
    key, value = architecture.linear_key_dim, architecture.linear_value_dim
    flop = architecture.linear_value_heads * (6 * key * value + 4 * DELTA_CHUNK_TOKENS * (key + value))
    window = flop / (4 * architecture.heads * architecture.head_dim)
    return max(round(window), 1), architecture.linear_layers / architecture.layers


T = TypeVar("T", States, Activations, Stack, Kernels, Hardware)


@dataclass(frozen=True)
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
    length_cv: float = 0.0  # of padded sequences: standard deviation over mean


def shape_of(job: Job, architecture: Architecture, network: Network | None = None) -> JobShape:
    """Return the job's work in tokens, optimizer steps and sequence lengths; `network`: that of the architecture."""
    network = with_tower(network or network_of(architecture), job, architecture)
    if architecture.image is not None:
        return _shape_of_images(job, architecture, network)
    sequence = sequence_of(job, architecture)
    work = job.work
    given, lengths = mean_tokens(job, architecture), job.sequence_lengths
    mean = kept_length(given or sequence, sequence, lengths)
    spread = length_spread(job, architecture)
    cut = cut_share(job.packing, given, spread, sequence, lengths) if given else 0.0
    sample_tokens = job.answers * mean
    per_batch = job.global_batch * job.answers * (sequence if job.packing == "packed" else mean)
    if work.steps is not None:
        steps = float(work.steps)
        tokens = steps * per_batch * (PACKED_FILL if job.packing == "packed" else 1.0)
    else:
        tokens = work.tokens if work.tokens is not None else (work.samples or 0) * sample_tokens * work.epochs
        samples = (work.samples or 0) * work.epochs if work.samples is not None else tokens / sample_tokens
        steps = step_count(job.packing, tokens, samples, sequence, job.global_batch)
    longest = longest_length(job.packing, sequence, mean, job.answers)
    return JobShape(network, sequence, longest, float(mean), float(tokens), float(steps), 1.0, "tokens", cut, spread)


def _shape_of_images(job: Job, architecture: Architecture, network: Network) -> JobShape:
    assert architecture.image is not None
    size = architecture.image.size(*job.work.image_size)
    tokens, longest = architecture.image.tokens(size), architecture.image.memory_tokens(size)
    images = job.work.images * job.work.epochs if job.work.images else (job.work.steps or 0) * job.global_batch
    steps = float(job.work.steps or 0)
    if job.work.images:
        steps = float(image_steps(job.work.images, job.work.epochs, job.global_batch, job.work.aspect_buckets))
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
    known |= {
        recipe: recipe_coefficients(recipe, job, shape.network, library, shared)
        for recipe in recipes
        if recipe not in known
    }
    setups = [known[recipe] for recipe in recipes]

    def column(values: Sequence[float]) -> Any:
        array = np.asarray(values, dtype=float)
        return float(array[0]) if np.all(array == array[0]) else array[:, None]

    def row(values: Sequence[float]) -> Any:
        return np.asarray(values, dtype=float)

    usual = (float(shape.sequence), shape.longest, variable_length(job, shape), job.answers)
    speeds = _hardware(recipes, machines, library, shared)
    return _inputs(shape.network, usual, (recipes, column), (machines, row), setups, speeds, library)


def _inputs(
    network: Network,
    lengths: tuple[Any, Any, Any, int],
    recipes: tuple[Sequence[Recipe], _Shaped],
    machines: tuple[Sequence[Machine], _Shaped],
    coefficients: Sequence[RecipeCoefficients],
    speeds: Hardware,
    library: Library,
) -> TimedSetup:
    """Return the inputs of the estimates for recipes and machines, each with what shapes an array of its figures.

    `lengths` are the sequence, the longest one, the mean over the longest, and the sequences of a sample.
    """
    (each_recipe, column), (each_machine, row) = recipes, machines
    sequence, longest, variable, answers = lengths
    layout = Layout(
        micro_batch=1,
        accumulation=1,
        sequence=sequence,
        longest_sequence=longest,
        gpus=row([m.gpus for m in each_machine]),
        gpus_per_node=row([m.gpus_per_instance for m in each_machine]),
        tensor=column([r.tensor_parallel for r in each_recipe]),
        pipeline=column([r.pipeline_parallel for r in each_recipe]),
        context=column([r.context_parallel for r in each_recipe]),
        expert=column([r.expert_parallel for r in each_recipe]),
        zero_stage=column([r.zero_stage for r in each_recipe]),
        hybrid=column([float(r.is_hybrid) for r in each_recipe]),
        answers=answers,
        variable_length=variable,
    )
    is_grid = column is not row
    setup = TimedSetup(
        network,
        layout,
        stack_dataclasses([values.states for values in coefficients], is_grid),
        stack_dataclasses([values.activations for values in coefficients], is_grid),
        stack_dataclasses([values.stack for values in coefficients], is_grid),
        stack_dataclasses([values.kernels for values in coefficients], is_grid),
        speeds,
    )
    memory = MemoryCoefficients.of(library.calibrations["memory"].values)
    return with_host_room(setup, row([math.nan if m.ram_gb is None else m.ram_gb * GB for m in each_machine]), memory)


def row_inputs(
    runs: Sequence[tuple[Job, JobShape, Recipe, Machine]], library: Library, hardware: dict[object, Hardware]
) -> TimedSetup:
    """Return the inputs of the estimates for single runs of one model, arrays (n,); their figures are those of a grid.

    `hardware` is a cache of the speeds of machines, whatever the model. The jobs differ in nothing but their sequences,
    adapters and resolution, and have one network.
    """
    shared: dict[object, dict[object, Any]] = {}
    coefficients = [
        recipe_coefficients(recipe, job, shape.network, library, shared.setdefault(_facts_of(job), {}))
        for job, shape, recipe, _ in runs
    ]
    values = library.techniques.values.precision.values

    def speeds(recipe: Recipe, machine: Machine) -> Hardware:
        key = (machine.gpu, machine.link, machine.network_gbps, values[recipe.precision].compute)
        if key not in hardware:
            gpu = library.gpu(machine.gpu)
            hardware[key] = hardware_numbers(gpu, machine.link, machine.network_gbps, recipe.precision, library)
        return hardware[key]

    def column(numbers: Sequence[float]) -> Floats:
        return np.asarray(numbers, dtype=float)

    _, shapes, recipes, machines = zip(*runs, strict=True)
    lengths = (
        column([shape.sequence for shape in shapes]),
        column([shape.longest for shape in shapes]),
        column([variable_length(job, shape) for job, shape, _, _ in runs]),
        runs[0][0].answers,
    )
    hardware_of_rows = stack_dataclasses([speeds(recipe, machine) for _, _, recipe, machine in runs], False)
    network = shapes[0].network
    return _inputs(network, lengths, (recipes, column), (machines, column), coefficients, hardware_of_rows, library)


def _facts_of(job: Job) -> tuple[object, ...]:
    return job.lora, job.ema, *job.work.image_size, job.work.image_input


def variable_length(job: Job, shape: JobShape) -> float:
    """Return the mean over the longest length of sequences that differ in length; 0 where all are alike."""
    return shape.mean_length / shape.longest if job.packing in VARIABLE else 0.0


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
        hardware: Hardware = shared[key]
        return hardware

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


# Configurations of one job as columns: a recipe on a machine with its batch, speed and memory, not yet priced.


@dataclass(frozen=True)
class Configurations:
    """Columns of shape (n,): configurations that fit."""

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

    @functools.cached_property
    def lossiness(self) -> Integers:
        """Return `lossiness_of` the recipes (recipes,): a plan compares the same ones on many offers."""
        return lossiness_of(self.recipes)

    def rows(self, which: Integers | Flags) -> Configurations:
        """Return the configurations that a mask or an index array selects."""
        return replace(self, **{name: getattr(self, name)[which] for name in COLUMNS})

    def with_used_lists(self) -> tuple[Configurations, Integers]:
        """Return the same configurations with none but their recipes and machines, and the places of these recipes."""
        (recipes, recipe), (machines, machine) = distinct(self.recipe), distinct(self.machine)
        used = tuple(self.recipes[place] for place in recipes.tolist())
        rented = tuple(self.machines[place] for place in machines.tolist())
        return replace(self, recipes=used, machines=rented, recipe=recipe, machine=machine), recipes


COLUMNS = tuple(field.name for field in fields(Configurations))[2:]
"""The fields of `Configurations` with an element per configuration."""


@dataclass(frozen=True)
class MemoryShortfall:
    """A recipe on a machine whose memory is too small, and by how much."""

    recipe: Recipe
    machine: Machine
    shortfall_gib: float


@dataclass(frozen=True)
class HostShortfall:
    """A recipe that fits on the GPUs of a machine, whose host has too little memory for its states."""

    recipe: Recipe
    machine: Machine
    taken_gb: float

    @property
    def shortfall_gb(self) -> float:
        """GB that the host lacks."""
        return self.taken_gb - (self.machine.ram_gb or 0.0)


def concatenate_configurations(pieces: Sequence[Configurations]) -> Configurations:
    """Return one set of columns; the recipes and machines of the pieces are listed one after the other."""
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


def technique_uses(ways: Configurations, which: Integers) -> Flags:
    """Return the techniques (k, T) that some configurations (k,) use."""
    names = read_techniques().values.names
    recipes, of = distinct(ways.recipe[which])
    by_recipe = np.asarray([_uses(ways.recipes[recipe], names) for recipe in recipes.tolist()], dtype=bool)
    return by_recipe.reshape(-1, 2, len(names))[of, (ways.accumulation[which] > 1).astype(np.int64)]


def technique_penalties(job: Job, ways: Configurations) -> Floats:
    """Return the sum of the penalties (n,) of the techniques that each configuration uses."""
    penalties = np.asarray(job.techniques.penalties_usd)
    if not penalties.any():
        return np.zeros(len(ways))
    return np.asarray(technique_uses(ways, np.arange(len(ways))) @ penalties, dtype=float)


@functools.lru_cache(maxsize=4096)  # recipes repeat: on other GPUs, and whenever a limit is lifted
def _uses(recipe: Recipe, names: tuple[str, ...]) -> tuple[tuple[bool, ...], tuple[bool, ...]]:
    """Return which of the table's `names` are in use without and with accumulation."""
    del names  # part of the key alone: another table of techniques has other names
    return recipe.uses(False), recipe.uses(True)


# Bytes that a run writes: checkpoints that stay, and the result as it is exported.


def trained_gb(recipe: Recipe, coefficients: RecipeCoefficients, architecture: Architecture) -> float:
    """Return the GB that training itself leaves: the adapters, or all weights in 16 bit."""
    if recipe.method == "lora":
        return float(coefficients.states.trainable) * float(coefficients.states.adapter_bytes) / GB
    return architecture.download_gb


def export_gb(
    recipe: Recipe, coefficients: RecipeCoefficients, architecture: Architecture, job: Job, library: Library
) -> float:
    """Return the GB of the result: as trained, or all weights in 16 bit, or quantised."""
    wanted = job.stages.export
    if wanted is None or wanted.form == "adapters":
        return trained_gb(recipe, coefficients, architecture)
    if wanted.quantised_bits is None:
        return architecture.download_gb
    weights = float(architecture.parameters)
    values = ExportCoefficients.of(library.calibrations["stages"].values)
    if wanted.form == "gguf":
        return float(gguf_bytes(weights, wanted.quantised_bits, values)) / GB
    return grouped_bytes(network_of(architecture), weights, wanted.quantised_bits, values) / GB


def stage_checkpoint_bytes(job: Job, coefficients: Sequence[RecipeCoefficients], stages: StageCoefficients) -> Floats:
    """Return the bytes of one checkpoint of the stage, per recipe; 0 without that stage."""
    wanted = job.stages.checkpoints
    if wanted is None:
        return np.zeros(len(coefficients))
    trained, weight = (
        np.asarray(column, dtype=float)
        for column in (
            [s.states.trainable for s in coefficients],
            [s.states.adapter_bytes if s.states.frozen else stages.weight_bytes_per_parameter for s in coefficients],
        )
    )
    return np.asarray(kept_checkpoint_bytes(trained, weight, wanted.contents == "resume", stages), dtype=float)


def possible_cells(recipes: Sequence[Recipe], layout: Layout, per_rank: Floats, width: int) -> Flags:
    """Return the cells whose batch divides exactly and whose parallel degrees fit the machine."""
    shape = (len(recipes), width)
    gpus = np.asarray(layout.gpus)
    ranks = np.broadcast_to(np.asarray(layout.data_parallel, dtype=float), shape)
    possible = (ranks >= 1) & (ranks == np.floor(ranks)) & (np.broadcast_to(per_rank, shape) == np.floor(per_rank))
    possible &= np.broadcast_to(per_rank, shape) >= 1
    possible &= np.broadcast_to(np.asarray(layout.tensor) <= np.asarray(layout.gpus_per_node), shape)
    possible &= np.broadcast_to(layout.divides_experts, shape)
    hybrid = np.asarray([[recipe.is_hybrid] for recipe in recipes])
    worthwhile = (gpus > HYBRID_ABOVE_GPUS) & (gpus > np.asarray(layout.gpus_per_node))
    return np.asarray(possible & (~hybrid | worthwhile))


def choose_batches(
    inputs: TimedSetup, lines: Sequence[MemoryLines], per_rank: Floats, possible: Flags
) -> tuple[Floats, Floats]:
    """Return micro-batch and accumulation steps, (R, H); 0 where nothing fits.

    `lines`: memory against the micro-batch without accumulation and with it.

    The whole batch of a rank in one go if that fits; else the largest proper divisor of it that fits while
    gradients are kept between micro-steps, where they are kept at all.
    """
    usable = inputs.hardware.usable_bytes
    local = np.broadcast_to(per_rank, possible.shape)
    whole = np.broadcast_to(lines[0].largest_micro_batch(usable), possible.shape) >= local
    most = np.broadcast_to(lines[1].largest_micro_batch(usable), possible.shape)
    divided, keeps = np.zeros(possible.shape), ~_steps_at_once(inputs, possible)
    for batch in sorted(set(local[possible].tolist())):  # `np.unique` would load masked arrays
        cells = possible & keeps & (local == batch)
        divisors = proper_divisors(int(batch))
        if len(divisors):
            index = np.searchsorted(divisors, most[cells], side="right")
            divided[cells] = np.where(index > 0, divisors[np.maximum(index, 1) - 1], 0)
    micro = np.where(possible, np.where(whole, local, divided), 0.0)
    return micro, np.where(micro > 0, local / np.maximum(micro, 1.0), 0.0)


def _steps_at_once(inputs: TimedSetup, possible: Flags) -> Flags:
    """Return the cells (R, H) whose batch is no sum over micro-steps, because the backward pass uses up gradients."""
    return np.broadcast_to(np.not_equal(inputs.states.steps_in_backward, 0), possible.shape)


def least_need(inputs: TimedSetup, lines: Sequence[MemoryLines], per_rank: Floats, shape: tuple[int, ...]) -> Floats:
    """Return the memory (R, H) at the smallest micro-batch that can be run: of one sequence, or the whole batch."""
    usable = inputs.hardware.usable_bytes
    whole, single = lines[0].need(per_rank, usable), lines[1].need(1.0, usable)
    return np.where(np.not_equal(inputs.states.steps_in_backward, 0), whole, np.broadcast_to(single, shape))


def choose_smallest_batches(
    inputs: TimedSetup, lines: Sequence[MemoryLines], per_rank: Floats, possible: Flags
) -> tuple[Floats, Floats]:
    """Choose one recipe per machine, fitting or not: the least over its memory, at a micro-batch of one."""
    usable = inputs.hardware.usable_bytes
    over = np.where(possible, least_need(inputs, lines, per_rank, possible.shape) - usable, np.inf)
    nearest = np.arange(len(possible))[:, None] == first_least(over, axis=0)
    local = np.broadcast_to(per_rank, possible.shape)
    micro = np.where(possible & nearest, np.where(_steps_at_once(inputs, possible), local, 1.0), 0.0)
    return micro, np.where(micro > 0, local / np.maximum(micro, 1.0), 0.0)


def proper_divisors(number: int) -> Integers:
    """Return the divisors of a positive integer below itself, ascending."""
    return np.asarray([d for d in range(1, number // 2 + 1) if number % d == 0], dtype=np.int64)


SecondsAt = Callable[[Floats | float, Floats], tuple[Floats, Floats]]
"""Seconds per step and tokens per sequence (R, H) at a micro-batch and accumulation steps."""


def choose_fastest_batches(
    inputs: TimedSetup,
    seconds_at: SecondsAt,
    lines: Sequence[MemoryLines],
    micro: Floats,
    accumulation: Floats,
    per_rank: Floats,
) -> tuple[Floats, Floats]:
    """Return the fastest of all divisors up to the largest that fits, and its accumulation steps: (R, H)."""
    local = np.broadcast_to(per_rank, micro.shape)
    usable = inputs.hardware.usable_bytes
    best, best_seconds, best_steps = micro, np.full(micro.shape, np.inf), accumulation
    at_once = _steps_at_once(inputs, micro > 0)
    batches = {int(batch) for batch in local[micro > 0].tolist()}
    for candidate in sorted({size for batch in batches for size in (*map(int, proper_divisors(batch)), batch)}):
        # The whole batch at once may fit where a part of it does not: only accumulating keeps gradients.
        fits = (candidate == micro) | (lines[1].need(float(candidate), usable) <= usable)
        is_candidate = (candidate <= micro) & (local % candidate == 0) & fits & (~at_once | (candidate == local))
        if not is_candidate.any():
            continue
        seconds, _ = seconds_at(float(candidate), np.where(is_candidate, local / candidate, 1.0))
        better = is_candidate & (seconds < best_seconds)
        best = np.where(better, float(candidate), best)
        best_steps = np.where(better, local / candidate, best_steps)
        best_seconds = np.where(better, seconds, best_seconds)
    return best, best_steps
