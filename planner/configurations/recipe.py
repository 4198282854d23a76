"""Recipes: bundles of techniques that a job may be trained with, which of them work on which GPU, and lengths.

Micro-batch and accumulation are no part of a recipe: they follow from the memory of the hardware.
"""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from planner.arrays import Integers
from planner.errors import Fault
from planner.estimates.work import default_sequence
from planner.library.engines import read_engines
from planner.library.image_models import ImageView
from planner.library.reading import conversion, held_quant, training_conversion, training_refusal
from planner.library.schema import Architecture, GpuSpec, ImageTokens, ImageWork, Library
from planner.library.technique_tables import FrameworkProfile, PeakKey, Reference, read_techniques
from planner.scenario.job import Job

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


def image_view(job: Job, architecture: Architecture) -> ImageView | None:
    """Return how a model sees each image next to the text of a job; None without images, or without a known tower."""
    given, tower = job.work.image_input, architecture.tower
    return None if given is None or tower is None else tower.view(*given.edges, given.limits)


def mean_tokens(job: Job, architecture: Architecture) -> float | None:
    """Return the mean tokens of one sequence, its images among them; None where no length was given.

    200 tokens of text and two images of 1,222 tokens are 2,644. Each answer of a pair has the images of its prompt.
    """
    mean, view = job.tokens_per_sequence, image_view(job, architecture)
    return mean if view is None else (mean or 0.0) + _image_tokens(job, view)


def _image_tokens(job: Job, view: ImageView) -> float:
    """Return the mean tokens of the images of one sample."""
    return job.work.image_input.count * view.tokens if job.work.image_input is not None else 0.0


def length_spread(job: Job, architecture: Architecture) -> float:
    """Return the spread of the lengths of sequences: that of the text, as images have the same tokens in each sample.

    256 tokens of text with a spread of 0.8, next to 880 of an image: 0.8 * 256 / 1,136 = 0.18 of the whole.
    """
    text, whole = job.tokens_per_sequence, mean_tokens(job, architecture)
    return job.length_cv * text / whole if text and whole else job.length_cv


def sequence_of(job: Job, architecture: Architecture) -> int:
    """Return the tokens of a sequence: as given, else so many that a sample fits in, at most what the model reads."""
    mean, context = mean_tokens(job, architecture), architecture.max_sequence
    return job.sequence_length or default_sequence(
        *(job.packing, mean, length_spread(job, architecture), context, job.sequence_lengths)
    )


def length_faults(job: Job, architecture: Architecture) -> Iterator[Fault]:
    """Yield the lengths of a training job that are longer than its model can read, or too short for its images.

    Samples may lose the end of their text, never a part of an image. The lengths are those of its sequences, of its
    observed runs, and of samples for which no length was given: none holds them, and cutting them was not allowed.
    """
    if architecture.image is not None:
        return
    context, place = architecture.max_sequence, f"jobs.{job.name}"
    beyond = f"is longer than the {context:,} tokens that {architecture.name} can read"
    given = {f"{place}.sequence_length": job.sequence_length}
    given |= {
        f"{place}.measured.{index}.sequence_length": run.sequence_length for index, run in enumerate(job.measured)
    }
    view = image_view(job, architecture)
    images = math.ceil(_image_tokens(job, view)) if view is not None else 0
    for where, length in given.items():
        if length is not None and length > context:
            yield Fault(job.name, 0, where, f"a sequence of {length:,} {beyond}", f"at most {context:,}")
        elif length is not None and length < images:
            wrong = f"a sequence of {length:,} cuts inside the images of a sample, {images:,} tokens"
            yield Fault(job.name, 0, where, wrong, f"give {images:,} and the text, or smaller images")
    table = job.sequence_lengths
    mean, key = (max(table)[0], "lengths") if table else (mean_tokens(job, architecture), "tokens_per_sample")
    if job.sequence_length is None and mean is not None and mean > context:
        cut = f"give sequence_length {context} to cut the samples" if images <= context else "give smaller images"
        fix = f"{cut}, or choose a model that reads more"
        yield Fault(job.name, 0, f"{place}.work.{key}", f"a sample of {mean:,.0f} tokens {beyond}", fix)


UNSHARDED = "none"
"""The sharding of a run on one GPU, and the offload of one that keeps all states on its GPUs."""
TENSOR_DEGREES = (1, 2, 4, 8)
PIPELINE_DEGREES = (1, 2, 4, 8, 16)
SPREAD_DEGREES = (2, 4, 8)
"""Degrees of context and expert parallelism that are tried where a job names none."""
LONG_SEQUENCE, LONG_FOR_ONE_GPU = 16_384, 8_192
"""Tokens from which sequences are cut over GPUs by default: always, and where nothing else fits."""
HYBRID_ABOVE_GPUS = 16
"""Hybrid sharding is used where full sharding would span more GPUs than this: gathers across machines are slow."""


@dataclass(frozen=True)  # a key that is looked up thousands of times
class Recipe:
    """One technique signature; the values are those of the scenario file's `techniques`."""

    method: str
    weight_bits: int
    quant: str  # "none" for 16 bit, "int8" for 8 bit
    precision: str
    activation_checkpointing: str
    sharding: str
    attention: str
    optimizer: str
    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    framework: str = "hf"
    offload: str = UNSHARDED
    lora_rank: int | None = None  # None: no adapters, or the first rank that the job lists
    context_parallel: int = 1
    expert_parallel: int = 1
    latents: str | None = None  # of an image network; None: not asked for, so encoded in every epoch
    reference: str | None = None  # of preference tuning; None: without one
    tuning: str = "sft"  # what the job does with samples
    dora: bool = False  # adapters with magnitudes, as the job asks for them
    adapt_head: bool = False  # adapters at the output layer, as the job asks for them
    experts_16_bit: bool = False  # routed experts in 16 bits on a quantised base, as the job asks for them

    @property
    def zero_stage(self) -> int:
        """The ZeRO stage of the sharding, 0 to 3."""
        return read_techniques().values.sharding.values[self.sharding].zero_stage

    @property
    def is_hybrid(self) -> bool:
        """Whether weights are sharded inside each machine only."""
        return read_techniques().values.sharding.values[self.sharding].hybrid

    @property
    def caches_latents(self) -> bool:
        """Whether images are encoded once, before training."""
        return self.latents is not None and read_techniques().values.latents.values[self.latents].cached

    @property
    def reference_row(self) -> Reference | None:
        """What preference tuning compares with; None without one."""
        return None if self.reference is None else read_techniques().values.reference.values[self.reference]

    @property
    def uses_host_memory(self) -> bool:
        """Whether states or checkpoints lie in host memory, or may come to lie there."""
        values = read_techniques().values
        states = values.offload.values[self.offload].technique or values.optimizer.values[self.optimizer].paged
        copied = self.reference_row is not None and self.reference_row.hosted
        return bool(states or self.parks_checkpoints or self.hosts_attention or copied)

    @property
    def offloads(self) -> bool:
        """Whether optimizer states lie in host memory by request."""
        return bool(read_techniques().values.offload.values[self.offload].optimizer)

    @property
    def parks_checkpoints(self) -> bool:
        """Whether the inputs of layers that checkpointing keeps lie in host memory."""
        table, kept = read_techniques(), self.activation_checkpointing
        hosted = table.values.activation_checkpointing.values[kept].hosted
        return hosted or (kept == "full" and table.frameworks[self.framework].offloaded_checkpoints)

    @property
    def keeps_activations(self) -> bool:
        """Whether all activations lie in host memory, and none is computed again."""
        values = read_techniques().values.activation_checkpointing.values
        return values[self.activation_checkpointing].keeps_all

    @property
    def hosts_attention(self) -> bool:
        """Whether what attention keeps for the backward pass lies in host memory."""
        values = read_techniques().values.activation_checkpointing.values
        return values[self.activation_checkpointing].attention_hosted

    @property
    def has_prior_speed(self) -> bool:
        """Whether its speed is a prior: DoRA, all activations in host memory, or a tool without measured speeds."""
        return self.dora or self.keeps_activations or read_techniques().frameworks[self.framework].prior_speed

    @property
    def checkpointed_blocks(self) -> str | None:
        """Which blocks of a diffusion network run again: `half` of them, or all in `pairs`; None for the usual ones."""
        return read_techniques().values.activation_checkpointing.values[self.activation_checkpointing].blocks

    @property
    def accumulates(self) -> bool:
        """Whether gradients can be added up over micro-steps; those that the backward pass uses up cannot."""
        return not read_techniques().values.optimizer.values[self.optimizer].in_backward

    @property
    def resumes(self) -> bool:
        """Whether its training can go on from a checkpoint, as it must after the loss of a spot machine."""
        return self.method != "lora" or read_techniques().frameworks[self.framework].resumes_adapters

    @property
    def method_label(self) -> str:
        """The rung of the ladder: full, LoRA 16-bit, LoRA 8-bit, QLoRA."""
        return _method_label(self.method, self.weight_bits)

    @property
    def lossiness(self) -> int:
        """How much its techniques round, as the sum of their grades in the table."""
        return read_techniques().lossiness(vars(self))

    def uses(self, accumulates: bool) -> tuple[bool, ...]:
        """Return which 0/1 techniques are on, in the order of the table's `names`."""
        table = read_techniques()
        on = table.in_use(vars(self), accumulates)
        return tuple(name in on for name in table.values.names)


@functools.lru_cache(maxsize=64)  # asked for of every recipe, again and again
def _method_label(method: str, weight_bits: int) -> str:
    return read_techniques().method_label(method, weight_bits)


@dataclass(frozen=True)
class GpuClass:
    """What of a GPU decides whether a recipe works on it."""

    generation: str
    vendor: str
    bf16: bool
    peaks: frozenset[PeakKey]  # that its sheet has
    capability: str = ""  # of CUDA

    @classmethod
    def of(cls, gpu: GpuSpec) -> GpuClass:
        """Return the class of a GPU."""
        return cls(gpu.generation, gpu.vendor, gpu.bf16, frozenset(gpu.peaks), gpu.compute_capability)


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


def framework_of(library: Library, name: str) -> FrameworkProfile:
    """Return a framework's profile, its name in any case and spelling; KeyError names the nearest ones."""
    known = library.techniques.frameworks
    if name in known:  # nearly always, and in loops
        return known[name]
    return library.techniques.framework(name)


def frameworks_of(job: Job, library: Library) -> tuple[str, ...]:
    """Return the frameworks that the job may use: those that it names, else every profile that takes part by itself."""
    if job.framework is not None:
        return job.framework
    card, profiles = library.architecture(job.architecture), library.techniques.frameworks
    return tuple(name for name, profile in profiles.items() if profile.takes_part and _trains(profile, job, card))


def unnamed_frameworks(job: Job, library: Library) -> tuple[str, ...]:
    """Return the maintained frameworks that train such a job and that it does not use: their estimates are priors."""
    card, used = library.architecture(job.architecture), frameworks_of(job, library)
    profiles = {name: framework for name, framework in library.techniques.frameworks.items() if name not in used}
    return tuple(name for name, profile in profiles.items() if profile.maintained and _trains(profile, job, card))


def _trains(profile: FrameworkProfile, job: Job, card: Architecture) -> bool:
    averages, images = job.ema == "none" or profile.averages, card.image is not None
    own = profile.takes_network(card.name, card.family, images)
    return averages and own and profile.trains(job.kind, card.family, job.tuning, images=images)


def enumerate_recipes(job: Job, card: GpuClass, multi_gpu: bool, library: Library) -> list[Recipe]:
    """Return every recipe that makes sense for the job on this class of GPU, whether the job allows it or not.

    Methods that `techniques` excludes are made too, because the plan prices each rung of the ladder;
    `is_allowed` distinguishes them. `multi_gpu` false gives only unsharded recipes.
    """
    asked, table = job.techniques, library.techniques
    held = held_quant(library.architecture(job.architecture))
    named = asked.quant or ((held,) if held in table.values.quant.values else None)
    methods = ("full",) if job.kind == "pretrain" else table.tried("method")
    recipes = []
    frameworks = frameworks_of(job, library)
    if job.framework is None:  # one that the job names is refused by a rule instead, with its reason
        frameworks = tuple(
            framework for framework in frameworks if card.vendor in framework_of(library, framework).vendors
        )
    for method, framework in itertools.product(methods, frameworks):
        facts, profile = {**vars(card), "method": method, "framework": framework}, framework_of(library, framework)
        # Weight bits that `techniques` excludes are made like its methods.
        options = itertools.product(
            table.tried("weight_bits", **facts),
            asked.precision or table.tried("precision", **facts),
            asked.activation_checkpointing or table.tried("activation_checkpointing"),
            _shardings(job, profile, multi_gpu),
            asked.attention or table.tried("attention", **facts),
            asked.optimizer or table.tried("optimizer", **facts),
            asked.tensor_parallel or (1,),
            asked.pipeline_parallel or (1,),
            asked.offload or table.tried("offload", **facts),
            asked.context_parallel or _context_degrees(job, profile, multi_gpu, library),
            asked.expert_parallel or _expert_degrees(job, profile, multi_gpu, library),
            asked.latents or (None,),
            _references(job, method, library),
        )
        for bits, precision, ckpt, sharding, attention, optimizer, tp, pp, offload, cp, ep, *last in options:
            recipes += [
                Recipe(
                    *(method, bits, quant, precision, ckpt, sharding, attention, optimizer),
                    *(tp, pp, framework, offload, rank, cp, ep),
                    **dict(zip(("latents", "reference"), last, strict=True)),
                    tuning=job.tuning,
                    dora=method == "lora" and job.lora.dora,
                    adapt_head=method == "lora" and job.lora.adapt_head,
                    experts_16_bit=method == "lora" and bits < 16 and job.lora.experts_16_bit,
                )
                for quant in quantisations(bits, named, framework, library)
                for rank in (job.lora.rank if method == "lora" else (None,))
            ]
    return recipes


def _references(job: Job, method: str, library: Library) -> tuple[str | None, ...]:
    """Return what a job may compare with; None of one that compares with nothing."""
    if not job.tuning_row.reference:
        return (None,)
    copies = ("model",) if job.tuning_row.teacher else None
    return job.techniques.reference or copies or library.techniques.tried("reference", method=method)


def best_attention(card: GpuClass, precision: str, library: Library) -> str:
    """Return the fastest attention that the GPU has a kernel for in the elements of a precision."""
    table = library.techniques
    rows = table.values.attention.values
    fastest_first = list(rows)[list(rows).index(table.tried("attention", **vars(card))[0]) :]
    width = table.compute(precision).element_bytes
    return next(attention for attention in fastest_first if width <= (rows[attention].max_element_bytes or width))


def find_incompatibility(
    recipe: Recipe, card: GpuClass, library: Library, architecture: Architecture | None = None
) -> str | None:
    """Return the first of the `incompatibilities`; None where there is none."""
    return next(incompatibilities(recipe, card, library, architecture), None)


def incompatibilities(
    recipe: Recipe, card: GpuClass, library: Library, architecture: Architecture | None = None
) -> Iterator[str]:
    """Yield why this pair does not work: the rules that refuse it, and a peak that the GPU lacks.

    With an `architecture` also why its published weights are not trained so, or its layers do not divide.
    """
    if architecture is not None:
        weights = (recipe.method, recipe.weight_bits, recipe.quant, recipe.framework, recipe.experts_16_bit)
        by_heads = library.techniques.frameworks[recipe.framework].context_parallel == "heads"
        heads_over = recipe.tensor_parallel * (recipe.context_parallel if by_heads else 1)
        fault = training_refusal(architecture, *weights) or architecture.split_fault(heads_over)
        fault = fault or (head_refusal(architecture) if recipe.adapt_head else None)
        fault = fault or group_refusal(recipe, architecture)
        if fault is not None:
            yield fault
    splits = recipe.context_parallel > 1
    family = architecture.family if architecture is not None else ""
    yield from library.techniques.refusals({**vars(recipe), **vars(card), "splits_sequences": splits, "family": family})


def group_refusal(recipe: Recipe, architecture: Architecture) -> str | None:
    """Return why blocks are not checkpointed in groups, or their attention is not moved; None where they may be."""
    image = architecture.image
    if recipe.checkpointed_blocks and isinstance(image, ImageWork):
        return "a U-Net has no row of equal blocks to checkpoint in groups"
    if recipe.hosts_attention and not (isinstance(image, ImageTokens) and image.moved_bytes):
        return "what attention of this network moves to host memory is not counted"
    return None


def head_refusal(architecture: Architecture) -> str | None:
    """Return why the output layer gets no adapters; None where it may."""
    tied = architecture.tied_embeddings
    return "adapters at the output layer are not planned where it is the embedding itself" if tied else None


def weights_to_make(job: Job, recipe: Recipe, architecture: Architecture, gpu: GpuSpec) -> str | None:
    """Return what of the weights a user must make, or what frameworks make of the release; None where taken as is."""
    if job.kind not in ("inference", "serve"):
        return training_conversion(architecture, recipe.weight_bits)
    engine = read_engines().engines[recipe.framework]
    usable = gpu.usable_gib * recipe.tensor_parallel * recipe.pipeline_parallel
    adapter = getattr(job, "adapter", None)
    merges = adapter is not None and adapter.served is None  # then the weights are the user's own
    return conversion(architecture, recipe.quant, engine, merges, usable)


def lossiness_of(recipes: Sequence[Recipe]) -> Integers:
    """Return for each recipe (n,) how much it may change what is learnt; 0 for nothing.

    What the techniques round comes first; among equals of it, the fewer ranks are higher.
    """
    ranks = {recipe.lora_rank for recipe in recipes if recipe.lora_rank is not None}
    higher = {rank: sum(other > rank for other in ranks) for rank in ranks}
    steps = max(1, len(ranks))  # more than any number of higher ranks
    sums = [
        _lossiness(recipe) * steps + (0 if recipe.lora_rank is None else higher[recipe.lora_rank]) for recipe in recipes
    ]
    return np.asarray(sums, dtype=np.int64)


@functools.lru_cache(maxsize=4096)  # recipes repeat: on other GPUs, and whenever a limit is lifted
def _lossiness(recipe: Recipe) -> int:
    return recipe.lossiness


def is_allowed(recipe: Recipe, job: Job) -> bool:
    """Whether the job's `techniques` permit the recipe's method and weight bits (all else is not enumerated)."""
    return not excluding_techniques(recipe, job)


def excluding_techniques(recipe: Recipe, job: Job) -> tuple[str, ...]:
    """Return which keys of the job's `techniques` exclude a recipe: `method`, `weight_bits`, both or none."""
    asked, keys = job.techniques, []
    if asked.method is not None and recipe.method not in asked.method:
        keys.append("method")
    # Full training keeps 16-bit weights whatever was said of a LoRA base.
    counts_bits = recipe.method != "full" or asked.method is None
    if counts_bits and asked.weight_bits is not None and recipe.weight_bits not in asked.weight_bits:
        keys.append("weight_bits")
    return tuple(keys)


def allows_full(job: Job) -> bool:
    """Whether the job's `techniques` permit full training, which keeps 16-bit weights."""
    asked = job.techniques
    return "full" in asked.method if asked.method is not None else asked.weight_bits is None or 16 in asked.weight_bits


def with_parallel_degrees(recipe: Recipe, tensor: int, pipeline: int) -> Recipe:
    """Return the recipe with other tensor and pipeline parallel degrees."""
    return replace(recipe, tensor_parallel=tensor, pipeline_parallel=pipeline)


def expand_parallel_degrees(job: Job, recipes: Sequence[Recipe], card: GpuClass, library: Library) -> list[Recipe]:
    """Return the recipes at every degree of tensor, pipeline and (for long sequences) context parallelism that works.

    None where the job asks or the framework has none.
    """
    opened = list[Recipe]()
    if not job.techniques.context_parallel and LONG_FOR_ONE_GPU <= _sequence(job, library) < LONG_SEQUENCE:
        opened += [replace(recipe, context_parallel=degree) for recipe in recipes for degree in SPREAD_DEGREES]
    architecture = library.architecture(job.architecture)
    if not job.techniques.tensor_parallel and not job.techniques.pipeline_parallel:
        opened += [
            with_parallel_degrees(recipe, tensor, pipeline)
            for recipe in recipes
            if framework_of(library, recipe.framework).parallel and not recipe.is_hybrid
            for tensor in TENSOR_DEGREES
            if architecture.split_fault(tensor) is None
            for pipeline in PIPELINE_DEGREES
            if tensor * pipeline > 1
        ]
    return [recipe for recipe in opened if find_incompatibility(recipe, card, library) is None]


def expand_paged(job: Job, recipes: Sequence[Recipe], library: Library) -> list[Recipe]:
    """Return full training with its optimizer in managed pages; none where the job names its optimizers.

    Pages change no result, and cost nothing where the states fit: they are opened where full training does not.
    """
    rows = library.techniques.values.optimizer.values
    if job.techniques.optimizer:
        return []
    opened = [
        replace(recipe, optimizer=paged)
        for recipe in recipes
        if recipe.method == "full" and recipe.zero_stage == 0 and (paged := rows[recipe.optimizer].paged_as)
    ]
    return [recipe for recipe in opened if library.techniques.values.offload.values[recipe.offload].technique is None]


def loops_over_experts(recipe: Recipe, library: Library) -> bool:
    """Return whether the kernels of a recipe take experts one by one, and not as one grouped product."""
    framework, kernels = framework_of(library, recipe.framework), library.calibrations["kernels"]
    has_16_bit_experts = recipe.weight_bits == 16 or recipe.experts_16_bit
    if framework.grouped_experts == "all" or (framework.grouped_experts and has_16_bit_experts):
        return False
    return kernels.value(f"{framework.kernels}.naive_experts") > 0.0


def has_unmeasured_loops(recipe: Recipe, experts: int, library: Library) -> bool:
    """Return whether a recipe loops over more experts of a layer than any measured run has."""
    measured = library.calibrations["uncertainty"].value("looped_experts.measured")
    return experts > measured and loops_over_experts(recipe, library)


def technique_notes(recipe: Recipe, experts: int, library: Library) -> list[str]:
    """Return what a plan or an estimate says of techniques: sharded states of an optimizer, and what is a prior.

    `experts`: of a layer, 0 of a dense network.
    """
    values = library.techniques.values
    note = values.optimizer.values[recipe.optimizer].sharded
    chosen = (
        values.precision.values[recipe.precision],
        values.activation_checkpointing.values[recipe.activation_checkpointing],
        values.offload.values[recipe.offload],
    )
    notes = [*([note] if note and recipe.zero_stage == 3 else []), *(value.prior for value in chosen if value.prior)]
    profile = framework_of(library, recipe.framework)
    if profile.prior_speed:
        notes.append(f"no run of {profile.label} was measured: its speed is that of SimpleTuner, a prior")
    factor = library.calibrations["time"].coefficients["magnitude_factor"]
    if recipe.dora:
        reported = f"{factor.value:g} times that of LoRA (reported {factor.low:g} to {factor.high:g})"
        notes.append(f"the time of DoRA is a prior, {reported}")
    loops = loops_over_experts(recipe, library)
    if has_unmeasured_loops(recipe, experts, library):
        most = library.calibrations["uncertainty"].value("looped_experts.measured")
        notes.append(f"the speed of {experts} experts in a loop is a prior: runs with at most {most:g} were measured")
    if experts and framework_of(library, recipe.framework).grouped_experts and not loops:
        releases = "Transformers 5, unsloth of 2026"
        notes.append(f"counts on grouped kernels of experts ({releases}): older releases take several times as long")
    return notes


def quantisations(bits: int, asked: Sequence[str] | None, framework: str, library: Library) -> tuple[str, ...]:
    """Return how a framework quantises weights of so many bits: as asked where there is a choice, else as usual."""
    row, kinds = library.techniques.values.weight_bits.values[bits], library.techniques.bytes.quantised
    named = tuple(quant for quant in asked or () if kinds[quant].bits == bits)
    return named or (row.quant_of.get(framework, row.quant),)


def _context_degrees(job: Job, framework: FrameworkProfile, multi_gpu: bool, library: Library) -> tuple[int, ...]:
    """Return the GPUs that share a sequence: several are tried where sequences are long and the framework can."""
    long = multi_gpu and framework.context_parallel and _sequence(job, library) >= LONG_SEQUENCE
    return (1, *SPREAD_DEGREES) if long else (1,)


def _sequence(job: Job, library: Library) -> int:
    """Return the tokens of a sequence of a training job; 0 of images, which are never divided."""
    architecture = library.architecture(job.architecture)
    return 0 if architecture.image is not None else sequence_of(job, architecture)


def _expert_degrees(job: Job, framework: FrameworkProfile, multi_gpu: bool, library: Library) -> tuple[int, ...]:
    """Return the GPUs that share the experts of a mixture, where the framework can."""
    if not (multi_gpu and framework.expert_parallel):
        return (1,)
    experts = library.architecture(job.architecture).experts
    return (1, *(degree for degree in SPREAD_DEGREES if experts and experts % degree == 0))


def _shardings(job: Job, framework: FrameworkProfile, multi_gpu: bool) -> tuple[str, ...]:
    if not multi_gpu:
        return (UNSHARDED,)
    asked = job.techniques.sharding or framework.sharding
    return tuple(sharding for sharding in asked if sharding in framework.allowed and sharding != UNSHARDED)
