"""Estimate of one configuration: the request with its defaults resolved, then memory and speed by part."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from planner.candidates.training_hours import configuration_sigmas, unmeasured_sigma
from planner.configurations.coefficients import (
    DEFAULT_NETWORK_BYTES_PER_SECOND,
    chip_notes,
    efficiency_notes,
    expert_notes,
    margin_text,
)
from planner.configurations.compared_runs import GPUS_PER_MACHINE, real_units
from planner.configurations.grid import JobShape, shape_of, stand_ins
from planner.configurations.network_faults import (
    AVERAGED_IMAGES,
    frameworks_for,
    network_refusal,
    targets_refusal,
    text_faults,
    tower_faults,
)
from planner.configurations.recipe import (
    UNSHARDED,
    GpuClass,
    Machine,
    Recipe,
    best_attention,
    find_incompatibility,
    framework_of,
    length_faults,
    quantisations,
    technique_notes,
)
from planner.documents.validation import Source
from planner.errors import Fault, ScenarioError
from planner.estimates.device import TimeCoefficients
from planner.estimates.inputs import Layout, Network
from planner.estimates.memory_fit import MemoryEstimate, with_paging
from planner.estimates.step_time import StepTime, step_time
from planner.estimates.uncertainty import time_factors
from planner.estimates.work import processed_length
from planner.evaluation.evaluated_physics import techniques_of
from planner.library.names import split_count, typical_ram_gb
from planner.library.reading import held_quant, training_conversion
from planner.library.schema import Architecture, GpuSpec, Library, describe_slices
from planner.loading.question import resolve_cards
from planner.results.plan_parts import CutSamples, HostMemory
from planner.results.run_results import Capacity, Estimate, Remedy, StepSeconds
from planner.scenario.job import Job
from planner.scenario.job_stages import ImageInput, Work
from planner.scenario.techniques import WHERE, Configuration, LoraSettings
from planner.solving.chosen import TIGHT_FIT_PROBABILITY, MemoryEvaluator, as_scalar, cut_samples, on_host_memory
from planner.units import GB, GIB

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


# Resolution of a requested configuration to job, machine, recipe and batch, with defaults for what is not given.
#
# What the rules exclude, and what does not divide, is an input error with its reason.


STEPS_PER_STAGE = 8
"""Default micro-batches per further pipeline stage: the bubble then takes a ninth of the step."""


@dataclass(frozen=True)
class ResolvedConfiguration:
    """A configuration in the planner's own terms."""

    architecture: Architecture
    job: Job
    shape: JobShape
    machine: Machine
    recipe: Recipe
    memory_evaluator: MemoryEvaluator
    micro_batch: int
    accumulation: int
    assumed: tuple[str, ...]  # what was not given


@dataclass(frozen=True)
class PossibleRuns:
    """What a request leaves open of a configuration: the recipes, of which one is taken by its memory."""

    asked: Configuration  # with its framework
    machine: Machine
    recipes: list[Recipe]
    assumed: list[str]  # what was not given
    job: Job
    shape: JobShape


def possible_runs(
    asked: Configuration, architecture: Architecture, card: GpuSpec, library: Library, network: Network | None = None
) -> PossibleRuns:
    """Return the recipes of a request on its machine; `ScenarioError` where it cannot run at all.

    `network`: that of the architecture, where it is known already.
    """
    machine = _machine(asked, card)
    _check_batch(asked, machine)
    usual = _framework_of(asked, card, architecture, library)
    asked = asked.model_copy(update={"framework": usual})
    recipes, assumed = _recipes(asked, architecture, card, machine, library)
    assumed = [f"framework {usual}", *assumed] if usual != type(asked).model_fields["framework"].default else assumed
    _check_experts(asked, architecture)
    if recipes[0].method == "lora":
        for refusal in targets_refusal((usual,), asked.lora_targets, library):
            raise _fault("lora_targets", refusal, "give all-linear")
    job = _job(asked, architecture, recipes[0].method)
    if asked.image_size is not None and asked.tokens_per_sample is None:
        assumed.append(f"{TEXT_TOKENS} tokens of text a sample")
    return PossibleRuns(asked, machine, recipes, assumed, job, shape_of(job, architecture, network))


def resolve_configuration(
    asked: Configuration, architecture: Architecture, card: GpuSpec, library: Library
) -> ResolvedConfiguration:
    """Return the resolved configuration; `ScenarioError` where it cannot run at all."""
    possible = possible_runs(asked, architecture, card, library)
    asked, machine, recipes = possible.asked, possible.machine, possible.recipes
    job, shape, assumed = possible.job, possible.shape, [*possible.assumed]
    memories = [MemoryEvaluator.of(job, shape, recipe, machine, asked.vram_headroom, library) for recipe in recipes]
    batch = (asked.micro_batch or 1, asked.accumulation_steps or 1)
    # The first that fits the requested batch, else the one that needs least.
    needs = [0.0 if memory.fits(*batch) else memory.need_gib(*batch) for memory in memories]
    recipe, memory = recipes[needs.index(min(needs))], memories[needs.index(min(needs))]
    if asked.sharding is None and machine.gpus > 1:
        assumed.append(recipe.sharding)
    ranks = machine.gpus // asked.group
    time = TimeCoefficients.of(library.calibrations["time"].values)
    micro, accumulation = _batch(asked, job, shape, recipe, memory, ranks, time)
    check_accumulation(recipe, accumulation)
    check_host_memory(memory.host_memory(micro, accumulation, machine))
    if asked.micro_batch is None:
        assumed.append("the best micro-batch that fits" if memory.fits(micro, accumulation) else "micro-batch 1")
    if asked.accumulation_steps is None and asked.global_batch is None and asked.pipeline_parallel > 1:
        assumed.append(f"{accumulation} accumulation steps")
    if asked.sequence_length is None and shape.unit == "tokens":
        assumed.append(f"{shape.sequence:,} tokens per sequence")
    if architecture.image is not None:
        size = architecture.image.size(asked.resolution, asked.frames, asked.reference_images)
        if asked.resolution is None:
            assumed.append(f"{size.resolution:,} pixels a side")
        if asked.frames is None and architecture.image.makes_videos:
            assumed.append(f"{size.frames} frames")
        if asked.reference_images is None and size.references:
            assumed.append(f"{size.references} reference image{'s' * (size.references > 1)}")
    job = job.model_copy(update={"global_batch": micro * accumulation * ranks})
    return ResolvedConfiguration(architecture, job, shape, machine, recipe, memory, micro, accumulation, tuple(assumed))


def _framework_of(asked: Configuration, card: GpuSpec, architecture: Architecture, library: Library) -> str:
    """Return the framework that is asked for, else the first that runs on the chip and trains such a network."""
    images, fitting = architecture.image is not None, frameworks_for(architecture, library)
    if "framework" in asked.model_fields_set:
        if refusal := network_refusal(asked.framework, architecture, library):
            fix = f"give {' or '.join(fitting)}" if images else "give one of language models, such as hf"
            raise _fault("framework", refusal, fix)
        if asked.ema != "none" and images and not fitting[asked.framework].averages:
            raise _fault(
                "ema", f"{asked.framework} averages no weights here", "give framework simpletuner, or ema none"
            )
        return asked.framework
    if asked.framework in fitting and card.vendor in fitting[asked.framework].vendors:
        return asked.framework
    return next(name for name, profile in fitting.items() if card.vendor in profile.vendors)


def _method_of(card: GpuSpec, usual: str) -> str:
    """Return what is assumed where no method is given: the usual one, on a chip one that was measured on it."""
    methods = [measurement.method for measurement in card.chip.measured] if card.chip else [usual]
    return usual if usual in methods else methods[0]


def _instances(asked: Configuration, card: GpuSpec) -> int:
    """Return the machines of a run; a chip that is rented in slices has as few as its slices allow."""
    if card.chip is None or not card.chip.hosts:
        return asked.instances or -(-asked.gpus // GPUS_PER_MACHINE)
    slices = card.chip.hosts
    instances = asked.instances or (1 if asked.gpus in slices else -(-asked.gpus // max(slices)))
    if asked.gpus / instances not in slices:
        problem = f"{asked.gpus} chips are no slice that is sold"
        raise _fault("gpus", problem, describe_slices(card.name, slices))
    return instances


def _machine(asked: Configuration, card: GpuSpec) -> Machine:
    instances = _instances(asked, card)
    if asked.gpus % instances:
        fix = f"gpus is the total: give a multiple of {instances}, or change instances"
        raise _fault("gpus", f"{asked.gpus} GPUs do not spread evenly over {instances} machines", fix)
    per_machine = asked.gpus // instances
    if asked.tensor_parallel > per_machine:
        problem = (
            f"{asked.tensor_parallel} ranks do not fit into a machine of {per_machine} GPU{'s' * (per_machine != 1)}"
        )
        raise _fault("tensor_parallel", problem, f"at most {per_machine}: tensor parallelism stays within a machine")
    if asked.gpus % asked.group:
        problem = f"{asked.gpus} GPUs are not a multiple of {asked.group}, the GPUs that share one copy of the model"
        raise _fault("gpus", problem, "give a multiple of tensor_parallel x pipeline_parallel x context_parallel")
    if card.lacks_link(asked.interconnect):
        raise _fault("interconnect", f"{card.name} has no NVLink", "give pcie, or leave it out")
    usual = "ici" if card.form == "pod" else "nvlink" if card.nvlink_by_default else "pcie"
    link = asked.interconnect or usual
    link = link if per_machine > 1 else "pcie"
    ram_gb = asked.ram_gb or typical_ram_gb(per_machine * card.vram_gib, is_private=False)
    network_gbps = asked.network_gbps if instances > 1 else None
    return Machine(card.name, per_machine, instances, link, network_gbps, ram_gb, asked.ram_gb is None)


def check_accumulation(recipe: Recipe, steps: int) -> None:
    """Refuse micro-steps that are added up where the backward pass uses up each gradient."""
    if steps > 1 and not recipe.accumulates:
        problem = f"{recipe.optimizer} uses up each gradient in the backward pass, and {steps} micro-steps add them up"
        raise _fault("optimizer", problem, "give a micro-batch that is the whole batch of a GPU, or another optimizer")


def check_host_memory(host: HostMemory | None) -> None:
    """Refuse states that do not fit in the host memory of a machine, as `solve` does."""
    if host is None or host.taken_gb <= host.total_gb:
        return
    problem, fix = f"offloaded states take {host.taken_gb:,.0f} GB of host memory per machine", "offload less"
    if host.assumed:
        assumed = f"more than the {host.total_gb:,.0f} GB that are assumed, as half of such machines have"
        raise _fault("ram_gb", f"{problem}, {assumed}", f"give the memory of the machine if it has more, or {fix}")
    raise _fault("ram_gb", f"{problem}, more than {host.total_gb:,.0f} GB", f"give a machine with more, or {fix}")


def _check_experts(asked: Configuration, architecture: Architecture) -> None:
    """Refuse experts that do not divide over the GPUs that share them, and networks without any."""
    degree, stage = asked.expert_parallel, asked.gpus // asked.pipeline_parallel
    if degree > 1 and not architecture.experts:
        raise _fault("expert_parallel", f"{architecture.name} has no experts", "leave it out")
    layout = Layout(1, 1, 1, 1, asked.gpus, 1, asked.tensor_parallel, asked.pipeline_parallel, expert=degree)
    if degree > 1 and (architecture.experts % degree or not layout.divides_experts):
        problem = f"{architecture.experts} experts on {stage} GPUs do not divide by {degree}"
        raise _fault("expert_parallel", problem, "give a divisor of both")


def _check_batch(asked: Configuration, machine: Machine) -> None:
    """Refuse a global batch that does not divide over GPUs, micro-batch and accumulation steps."""
    if asked.global_batch is None:
        return
    ranks = machine.gpus // asked.group
    parts = ranks * (asked.micro_batch or 1) * (asked.accumulation_steps or 1)
    all_given = asked.micro_batch is not None and asked.accumulation_steps is not None
    if asked.global_batch % parts or (all_given and parts != asked.global_batch):
        factors = [f"{ranks} data-parallel GPUs"]
        factors += [f"micro-batch {asked.micro_batch}"] if asked.micro_batch else []
        factors += [f"{asked.accumulation_steps} accumulation steps"] if asked.accumulation_steps else []
        problem = f"{asked.global_batch} is not {'the product' if all_given else 'a multiple'} of {' x '.join(factors)}"
        raise _fault("global_batch", problem, f"such as {parts if all_given else parts * 2}, or leave one of them out")


def _recipes(
    asked: Configuration, architecture: Architecture, card: GpuSpec, machine: Machine, library: Library
) -> tuple[list[Recipe], list[str]]:
    """Return the possible recipes, one per sharding, and what was not given."""
    kind = GpuClass.of(card)
    table = library.techniques
    held = held_quant(architecture)
    stored = asked.quant or held
    bits = asked.weight_bits or (table.bytes.quantised[stored].bits if stored else 16)
    method = asked.method or ("lora" if held else None) or _method_of(card, table.of("method").estimated[0])
    facts = {**vars(kind), "method": method, "framework": asked.framework}
    precision = asked.precision or table.tried("precision", **facts)[0]
    checkpointing = asked.activation_checkpointing or table.of("activation_checkpointing").estimated[0]
    attention = asked.attention or best_attention(kind, precision, library)
    quant = asked.quant or (held if held and table.bytes.quantised[held].bits == bits else None)
    quant = quantisations(bits, (quant,) if quant else None, asked.framework, library)[0]
    assumed = [
        parts
        for value, parts in (
            (asked.method, method if bits == 16 else None),
            (asked.weight_bits or asked.quant, f"{bits}-bit weights" if method == "lora" else None),
            (asked.quant, quant if bits == 4 else None),
            (asked.precision, precision),
            (asked.activation_checkpointing, f"{checkpointing} checkpointing"),
            (asked.attention, f"{attention} attention"),
        )
        if value is None and parts is not None
    ]
    offload = asked.offload or table.tried("offload")[0]
    degrees = (asked.tensor_parallel, asked.pipeline_parallel)
    recipes = [
        Recipe(
            *(method, bits, quant, precision, checkpointing, sharding, attention, asked.optimizer, *degrees),
            *(asked.framework, offload, None, asked.context_parallel, asked.expert_parallel, asked.latents),
            *(_reference(asked, method, library), asked.tuning),
            dora=method == "lora" and asked.dora,
            adapt_head=method == "lora" and asked.adapt_head,
            experts_16_bit=method == "lora" and bits < 16 and asked.experts_16_bit,
        )
        for sharding in _shardings(asked, machine, library)
    ]
    refused = [find_incompatibility(recipe, kind, library, architecture) for recipe in recipes]
    if all(refused):
        remedy = _compatible_change(recipes, kind, library, architecture, machine.gpus)
        problem = f"does not work together: {refused[0]}; {_describe_recipe(recipes[-1])}"
        raise _fault("", problem, f"{remedy} would work" if remedy else "")
    return [recipe for recipe, reason in zip(recipes, refused, strict=True) if reason is None], assumed


def _reference(asked: Configuration, method: str, library: Library) -> str | None:
    """Return what is compared with: as asked, else the first that is tried; None of a method that compares nothing."""
    if not library.techniques.values.tuning[asked.tuning].reference:
        return None
    if asked.teacher is not None:
        return asked.reference or "model"
    return asked.reference or str(library.techniques.tried("reference", method=method)[0])


_CHANGEABLE = ("framework", "method", "sharding", "offload", "precision", "activation_checkpointing", "attention",
               "optimizer")  # fmt: skip
"""Fields of which one is changed in a remedy, in the order in which they are tried."""


def _compatible_change(
    recipes: list[Recipe], kind: GpuClass, library: Library, architecture: Architecture, gpus: int
) -> str:
    """Return the first single change after which a recipe works, such as `framework compiled`; empty without one."""

    def works(recipe: Recipe) -> bool:
        is_sharded = recipe.sharding != UNSHARDED
        profile = framework_of(library, recipe.framework)
        is_possible = is_sharded == (gpus > 1) and recipe.sharding in profile.allowed
        is_possible = is_possible and profile.images == (architecture.image is not None)
        return is_possible and find_incompatibility(recipe, kind, library, architecture) is None

    table = library.techniques
    for field in _CHANGEABLE:
        values = table.frameworks if field == "framework" else table.of(field).values
        for value in values:
            change: dict[str, Any] = {field: value}
            changed = (replace(recipe, **change) for recipe in recipes if getattr(recipe, field) != value)
            if any(map(works, changed)):
                return f"{field.replace('_', ' ')} {value}"
    return ""


def _describe_recipe(recipe: Recipe) -> str:
    weights = f"{recipe.weight_bits}-bit weights"
    attention, sharding = f"{recipe.attention} attention", f"sharding {recipe.sharding}"
    parts = [recipe.method, weights, recipe.precision, attention, sharding, recipe.optimizer]
    parts += [f"offload {recipe.offload}"] if recipe.offload != UNSHARDED else []
    return f"requested or assumed: {', '.join(parts)}"


def _shardings(asked: Configuration, machine: Machine, library: Library) -> list[str]:
    """Return the requested sharding, or those to try in turn."""
    allowed = framework_of(library, asked.framework).allowed
    if machine.gpus == 1:
        if asked.sharding not in (None, UNSHARDED):
            raise _fault("sharding", f"{asked.sharding} needs several GPUs", "give gpus 2 or more, or none")
        return [UNSHARDED]
    several = [name for name in library.techniques.of("sharding").estimated if name in allowed]
    if not several:
        raise _fault("gpus", f"framework {asked.framework} trains on one GPU", "give gpus 1, or another framework")
    if asked.sharding is None:
        return several
    if asked.sharding not in allowed or asked.sharding == UNSHARDED:
        fix = f"{asked.framework} has {', '.join(name for name in allowed if name != UNSHARDED)}"
        raise _fault("sharding", f"{asked.sharding} is not possible with {machine.gpus} GPUs here", fix)
    return [asked.sharding]


TEXT_TOKENS = 256
"""Tokens of text of a sample with images where none are given: a question and a short answer. A choice."""


def _image_input(asked: Configuration) -> ImageInput | None:
    """Return the images next to text that are asked for; `ScenarioError` for settings of images without a size."""
    given = {"count": asked.images_per_sample, "max_pixels": asked.max_pixels, "max_tiles": asked.max_tiles}
    settings: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    settings |= {"tower": asked.tower} if asked.tower is not None else {}
    if asked.image_size is None:
        if settings:
            key = next(iter(settings)).replace("count", "images_per_sample")
            raise _fault(key, "a setting of images whose size is not given", "add image_size, such as 1280x720")
        return None
    return ImageInput(size=asked.image_size, frames=asked.frames, **settings)


def _settings_of_images(asked: Configuration, name: str) -> Iterator[tuple[str, str, str]]:
    """Yield settings of networks of images that a language model is given: key, what is wrong, what to do."""
    if asked.resolution is not None:
        yield "resolution", f"{name} is trained on text", "give sequence_length"
    if asked.reference_images is not None:
        yield "reference_images", f"{name} is trained on text", "give image_size"
    if asked.latents is not None:
        yield "latents", f"{name} is trained on text, which has no latents", "leave it out"
    if asked.ema != "none":
        yield "ema", AVERAGED_IMAGES, "leave it out"


def _job(asked: Configuration, architecture: Architecture, method: str) -> Job:
    image, pictures = architecture.image is not None, _image_input(asked)
    for key, problem, fix in () if image else _settings_of_images(asked, architecture.name):
        raise _fault(key, problem, fix)
    if asked.frames is not None and pictures is None and not (architecture.image and architecture.image.makes_videos):
        raise _fault("frames", f"{architecture.name} makes no videos", "leave it out")
    sizes = (asked.resolution, asked.frames, asked.reference_images)
    for key, problem, fix in architecture.image.faults(*sizes) if architecture.image else ():
        raise _fault(key, problem, fix)
    for key, problem, fix in text_faults(asked, architecture.name) if image else ():
        raise _fault(key, problem, fix)
    if asked.packing == "padded" and asked.tokens_per_sample is None and pictures is None:
        raise _fault("packing", "padding of unknown lengths", "add tokens_per_sample (the mean)")
    if asked.lora_rank > architecture.hidden:
        problem = f"{asked.lora_rank:,} exceeds the hidden size of the model"
        raise _fault("lora_rank", problem, f"at most {architecture.hidden:,}; 8 to 256 are usual")
    job = Job(
        name="estimate",
        architecture=architecture.name,
        work=Work(
            steps=1,
            resolution=asked.resolution,
            frames=None if pictures else asked.frames,
            reference_images=asked.reference_images,
            tokens_per_sample=asked.tokens_per_sample or (TEXT_TOKENS if pictures else None),
            image_input=pictures,
        ),
        sequence_length=asked.sequence_length,
        method=asked.tuning,
        teacher=asked.teacher,
        packing=asked.packing,
        ema=asked.ema,
        length_cv=asked.length_cv,
        framework=(asked.framework,),
        lora=LoraSettings(
            rank=(asked.lora_rank,),
            targets=asked.lora_targets,
            dora=asked.dora,
            adapt_head=asked.adapt_head,
            experts_16_bit=asked.experts_16_bit,
        ),
    )
    for fault in (*tower_faults(job, architecture, (method,)), *length_faults(job, architecture)):
        raise _fault(fault.where.rpartition(".")[2], fault.what, fault.fix)
    return job


def usual_accumulation(asked: Configuration) -> int:
    """Return the accumulation steps where neither they nor the global batch are given."""
    return STEPS_PER_STAGE * asked.pipeline_parallel - STEPS_PER_STAGE + 1


def possible_sizes(local: int, recipe: Recipe) -> list[int]:
    """Return the micro-batches that divide the batch of one rank, largest first."""
    least = 1 if recipe.accumulates else local
    return [size for size in range(local, least - 1, -1) if local % size == 0]


def _batch(
    asked: Configuration,
    job: Job,
    shape: JobShape,
    recipe: Recipe,
    memory: MemoryEvaluator,
    ranks: int,
    time: TimeCoefficients,
) -> tuple[int, int]:
    """Return micro-batch and accumulation steps: the best that fit, micro-batch 1 where none does.

    The best is the largest, except where batches are padded (larger ones pad more) or go through a pipeline
    (few leave it empty): there it is the fastest.
    """
    if asked.global_batch is None:
        accumulation = asked.accumulation_steps or usual_accumulation(asked)
        return asked.micro_batch or max(1, memory.largest_micro_batch(accumulation)), accumulation
    local = asked.global_batch // ranks
    if asked.micro_batch is not None:
        return asked.micro_batch, local // asked.micro_batch
    if asked.accumulation_steps is not None:
        return local // asked.accumulation_steps, asked.accumulation_steps
    possible = possible_sizes(local, recipe)
    sizes = [size for size in possible if memory.fits(size, local // size)]
    if asked.packing == "padded" or asked.pipeline_parallel > 1:
        sizes.sort(key=lambda size: as_scalar(estimate_step(job, shape, memory, size, local // size, time).seconds))
    taken = sizes[0] if sizes else possible[-1]
    return taken, local // taken


def processed_tokens(job: Job, shape: JobShape, micro_batch: int) -> float:
    """Return the tokens per sequence that the GPUs process, padding included."""
    return as_scalar(
        processed_length(
            *(job.packing, shape.sequence, shape.mean_length, shape.length_cv),
            *(float(micro_batch) * job.answers, job.sequence_lengths),
        )
    )


def estimate_step(
    job: Job, shape: JobShape, memory: MemoryEvaluator, micro_batch: int, accumulation: int, time: TimeCoefficients
) -> StepTime:
    """Return one optimizer step by cause."""
    layout = replace(
        memory.inputs.layout,
        micro_batch=float(micro_batch),
        accumulation=float(accumulation),
        sequence=processed_tokens(job, shape, micro_batch),
    )
    return step_time(with_paging(replace(memory.inputs, layout=layout), memory.coefficients), time)


def _fault(where: str, what: str, fix: str = "") -> ScenarioError:
    return ScenarioError([Fault(WHERE, 0, where, what, fix)])


# Changes that make a configuration fit: single changes first, cheap ones first.


MAX_FIT_REMEDIES = 4
"""Remedies that are reported."""

MAX_GPUS = 1024
"""Where the search for a number of GPUs ends."""

MEMORY_SAVING_CHANGE = "lora on a 4-bit base, full checkpointing, micro-batch 1"
"""Everything that saves memory at once, in words."""
MEMORY_SAVING_SETTINGS = {
    **{"method": "lora", "weight_bits": 4, "optimizer": "adamw", "micro_batch": 1},
    **{"activation_checkpointing": "full", "attention": None, "sharding": None},
}
"""The same as fields of a `Configuration`."""

MIN_SUGGESTED_SEQUENCE = 128
"""Tokens; a shorter sequence is no remedy."""


def find_fit_remedies(
    asked: Configuration, resolved: ResolvedConfiguration, architecture: Architecture, card: GpuSpec, library: Library
) -> list[tuple[str, float]]:
    """Return changes that make it fit, with the peak in GiB of each; a larger number of GPUs comes last."""

    def attempt(change: str, settings: dict[str, Any]) -> list[tuple[str, float]]:
        """Return the change with its peak if it fits and is allowed; the batch stays unless it is changed."""
        kept = {"micro_batch": resolved.micro_batch, "accumulation_steps": resolved.accumulation, "global_batch": None}
        changed = asked.model_copy(update={**kept, **settings})
        try:
            other = resolve_configuration(changed, architecture, card, library)
        except ScenarioError:
            return []
        need = other.memory_evaluator.need_gib(other.micro_batch, other.accumulation)
        return [(change, need)] if need <= other.memory_evaluator.usable_gib else []

    def more_gpus(change: str, settings: dict[str, Any]) -> list[tuple[str, float]]:
        """Return the fewest GPUs that fit it with a change, by doubling; tensor and pipeline degrees stay."""
        count = resolved.machine.gpus * 2
        while count <= MAX_GPUS:
            more = {**settings, "gpus": count, "instances": None, "sharding": None}
            if remedies := attempt(f"{count} x {card.name}{change}", more):
                return remedies
            count *= 2
        return []

    remedies = list(_smaller_batches(resolved))
    for change, settings in memory_saving_changes(resolved.recipe, card, resolved.machine.gpus, library):
        remedies += attempt(change, settings)
    remedies += _frozen_offloads(resolved.recipe, library, attempt, is_only=not remedies)
    if not remedies:
        remedies += attempt(MEMORY_SAVING_CHANGE, MEMORY_SAVING_SETTINGS)
    more = more_gpus("", {})
    if not remedies:
        remedies += more_gpus(f", {MEMORY_SAVING_CHANGE}", MEMORY_SAVING_SETTINGS)
    return [*remedies[:MAX_FIT_REMEDIES], *more]


def _smaller_batches(resolved: ResolvedConfiguration) -> Iterator[tuple[str, float]]:
    """Yield a smaller micro-batch and a shorter sequence that fit."""
    evaluator, steps = resolved.memory_evaluator, resolved.accumulation
    most = evaluator.largest_micro_batch(steps)
    if 0 < most < resolved.micro_batch:
        yield f"micro-batch {most} instead of {resolved.micro_batch}", evaluator.need_gib(most, steps)
    if resolved.shape.unit == "tokens":
        longest = evaluator.longest_sequence(resolved.micro_batch, steps)
        if longest >= MIN_SUGGESTED_SEQUENCE:
            change = f"sequences of at most {longest:,} tokens instead of {resolved.shape.sequence:,}"
            yield change, evaluator.need_gib(resolved.micro_batch, steps, longest)


def memory_saving_changes(
    recipe: Recipe, card: GpuSpec, gpus: int, library: Library
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield settings that save memory and differ from those of a recipe, those that change the result last.

    Each has a description, and the fields of a `Configuration` that it sets. This is the one list of such settings,
    for `estimate` as for `explain --why-not`.
    """
    if recipe.activation_checkpointing != "full":
        yield "full checkpointing", {"activation_checkpointing": "full"}
    if framework_of(library, recipe.framework).images:
        yield from _image_changes(recipe)
    if recipe.attention == "eager" and best_attention(GpuClass.of(card), recipe.precision, library) != "eager":
        yield "fused attention", {"attention": None}
    if recipe.framework == "hf":
        yield "a fused loss kernel (framework hf-fused)", {"framework": "hf-fused"}
    if gpus > 1 and recipe.zero_stage < 3:
        yield "zero3: every state sharded", {"sharding": "zero3"}
    if recipe.method == "full":
        yield "the 8-bit optimizer", {"optimizer": "adamw_8bit"}
        if recipe.precision != "bf16" and GpuClass.of(card).bf16:
            yield "pure bf16 without fp32 master weights", {"precision": "bf16"}
        yield "lora instead of full", {"method": "lora"}
    if recipe.weight_bits == 16:
        yield "lora on a 4-bit base", {"method": "lora", "weight_bits": 4, "optimizer": "adamw"}


def _image_changes(recipe: Recipe) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield cached latents, and fewer bits of a frozen base: 8 of tools that have no 4."""
    adapts_16_bit = recipe.weight_bits == 16 and recipe.method == "lora"
    if not recipe.caches_latents:
        yield "cached latents, so that the encoders leave the card", {"latents": "cached"}
        if adapts_16_bit:
            yield "cached latents and a 4-bit base", {"latents": "cached", "weight_bits": 4}
    if adapts_16_bit:
        yield "lora on an 8-bit base", {"weight_bits": 8}


def _frozen_offloads(
    recipe: Recipe, library: Library, attempt: Callable[[str, dict[str, Any]], list[tuple[str, float]]], is_only: bool
) -> list[tuple[str, float]]:
    """Return the fewest swapped blocks of an image network that fit, and all frozen weights in host memory if these do.

    Which of them a framework has is for the rules. `is_only`: without another remedy, latents are cached, too, if that
    is needed.
    """
    offloads = library.techniques.values.offload.values
    held = offloads[recipe.offload]
    if not framework_of(library, recipe.framework).images or held.frozen:
        return []
    swapped = [name for name in offloads if offloads[name].swapped > held.swapped]
    swapped.sort(key=lambda name: offloads[name].swapped)
    frozen = [name for name in offloads if offloads[name].frozen]

    def least(names: list[str], also: str, settings: dict[str, Any]) -> list[tuple[str, float]]:
        tried = (
            attempt(f"{also}{offloads[offload].words} (offload {offload})", {**settings, "offload": offload})
            for offload in names
        )
        return next(filter(None, tried), [])

    remedies = [*least(swapped, "", {}), *least(frozen, "", {})]
    if is_only and not remedies and not recipe.caches_latents:
        also, settings = "cached latents and ", {"latents": "cached"}
        remedies = [*least(swapped, also, settings), *least(frozen, also, settings)]
    return remedies


# Estimate of one configuration: memory and speed by part.


def estimate(
    architecture: str | Architecture,
    gpu: str,
    library: Library | None = None,
    *,
    largest_batch: bool = False,
    longest_sequence: bool = False,
    **settings: Any,
) -> Estimate:
    """Return memory and speed of one configuration.

    `architecture` is the name or alias of an architecture card, the repository of a fine-tune, the path of a
    config.json, or a card; `gpu` the name or alias of a GPU, also with their number (`2xA100`).
    `settings` are the other fields of `planner.scenario.techniques.Configuration`, in the spelling of the scenario
    file: `gpus`, `method`, `weight_bits`, `micro_batch`, `sequence_length` and so on. What is left out is chosen, and
    listed in `assumed`.
    `largest_batch` and `longest_sequence` request these limits as well.
    A configuration that does not fit is a valid result: `vram_gib.fits` is false, and `remedies` say what would fit.

    Raises `ScenarioError` for settings that are wrong or do not work together, `LibraryError` for unknown names.

    >>> estimate("mistral-7b", "A10G", weight_bits=4).vram_gib.fits
    True
    """
    if not isinstance(architecture, (str, Architecture)):
        problem = f"is no model: {type(architecture).__name__}"
        fix = "give a name, the path of a config.json or an Architecture; the rest as gpu=..., method=..."
        raise ScenarioError([Fault(WHERE, 0, "architecture", problem, fix)])
    name = architecture if isinstance(architecture, str) else architecture.name
    count, gpu = split_count(gpu)
    if count is not None and settings.setdefault("gpus", count) != count:
        problem = f"{count} by the name of the GPU, {settings['gpus']} here"
        raise ScenarioError([Fault(WHERE, 0, "gpus", problem, "give one of the two")])
    asked = Source(WHERE).validate(Configuration, {"architecture": name, "gpu": gpu, **settings})
    network, card, library = resolve_cards(architecture, gpu, library)
    resolved = resolve_configuration(asked, network, card, library)
    result = _build_estimate(resolved, library)
    evaluator, steps, notes = resolved.memory_evaluator, resolved.accumulation, list(result.notes)
    figures: dict[str, Any] = {}
    if (image := resolved.architecture.image) is not None:
        size = image.size(asked.resolution, asked.frames, asked.reference_images)
        figures["largest_micro_batch"] = evaluator.largest_micro_batch(steps)
        figures["largest_resolution"] = evaluator.largest_resolution(image, size)
    if largest_batch:
        figures["largest_micro_batch"] = most = evaluator.largest_micro_batch(steps)
        chance = evaluator.vram(evaluator.at(most, steps)).fit_probability if most else 1.0
        if chance < TIGHT_FIT_PROBABILITY and most != resolved.micro_batch:
            share = _percentage(chance)
            notes.append(f"micro-batch {most:,} fits with only {share} % probability: a smaller one is safer")
    if longest_sequence:
        if result.unit != "tokens":
            problem = f"{network.name} is trained on {result.unit}, which have no sequence length"
            raise ScenarioError([Fault(WHERE, 0, "longest_sequence", problem, "vary resolution")])
        figures["longest_sequence"] = longest = evaluator.longest_sequence(resolved.micro_batch, steps)
        if longest > network.max_sequence:
            notes.append(f"the longest sequence exceeds the model's context of {network.max_sequence:,} tokens")
    if not result.vram_gib.fits:
        remedies = find_fit_remedies(asked, resolved, network, card, library)
        figures["remedies"] = tuple(Remedy(change=change, peak=peak) for change, peak in remedies)
    return result.model_copy(update={**figures, "notes": tuple(notes)})


def _build_estimate(resolved: ResolvedConfiguration, library: Library) -> Estimate:
    """Return the estimate of a resolved configuration, without remedies."""
    job, recipe, machine, shape = resolved.job, resolved.recipe, resolved.machine, resolved.shape
    image = resolved.architecture.image
    memory = resolved.memory_evaluator.at(resolved.micro_batch, resolved.accumulation)
    capacity = _capacity(resolved, memory)
    time = TimeCoefficients.of(library.calibrations["time"].values)
    step = estimate_step(job, shape, resolved.memory_evaluator, resolved.micro_batch, resolved.accumulation, time)
    seconds = as_scalar(step.seconds)
    tokens = resolved.micro_batch * job.answers * processed_tokens(job, shape, resolved.micro_batch)
    first = np.zeros(1, dtype=np.int64)
    kind = unmeasured_sigma(recipe, machine, resolved.architecture.experts, library)
    spread = configuration_sigmas([recipe], resolved.architecture, [machine], first, tokens, library, kind)
    sigma, tail = as_scalar(spread.display), as_scalar(spread.tail)
    quick, slow = map(as_scalar, time_factors(spread))
    rate = job.global_batch * real_units(job, shape) / seconds
    return Estimate(
        architecture=resolved.architecture.name,
        parameters=resolved.architecture.parameters,
        trainable_parameters=round(as_scalar(resolved.memory_evaluator.inputs.states.trainable)),
        gpu=machine.gpu,
        gpus=machine.gpus,
        gpus_per_instance=machine.gpus_per_instance,
        instances=machine.instances,
        interconnect=machine.link,
        network_gbps=machine.network_gbps,
        techniques=techniques_of(recipe, job, resolved.micro_batch, resolved.accumulation),
        unit=resolved.architecture.trained_unit(job.work.frames),
        sequence_length=shape.sequence,
        resolution=image.size(job.work.resolution, None).resolution if image else None,
        frames=image.size(None, job.work.frames).frames if image and image.makes_videos else None,
        global_batch=job.global_batch,
        packing=job.packing,
        vram_gib=capacity,
        host_memory=_host_memory(resolved),
        tokens_per_second=rate,
        tokens_per_second_low=rate / slow,
        tokens_per_second_high=rate / quick,
        processed_tokens_per_second=as_scalar(step.tokens_per_second),
        step_seconds=StepSeconds(total=seconds, parts={name: as_scalar(value) for name, value in step.visible.items()}),
        profile=recipe.framework,
        profiled=framework_of(library, recipe.framework).profiled,
        sigma=sigma,
        sigma_in_tails=tail,
        assumed=resolved.assumed,
        conversion=training_conversion(resolved.architecture, recipe.weight_bits),
        notes=_notes(resolved, capacity, library),
        cut=_cut(resolved),
    )


def _cut(resolved: ResolvedConfiguration) -> CutSamples | None:
    """Return what the sequences do not hold of the samples, with the option that holds it in place of a setting."""
    cut = cut_samples(resolved.job, resolved.shape, resolved.architecture)
    if cut is None:
        return None
    return cut.model_copy(update={"job": "", "setting": f"--sequence-length {cut.holds}" if cut.holds else ""})


def _percentage(probability: float) -> int:
    """Return a probability in whole percent, rounded down."""
    return math.floor(probability * 100 + 1e-9)


def _capacity(resolved: ResolvedConfiguration, memory: MemoryEstimate) -> Capacity:
    evaluator = resolved.memory_evaluator
    vram = evaluator.vram(memory)
    margin = as_scalar(memory.margin) / GIB
    return Capacity(
        **vram.model_dump(exclude={"set_aside"}),
        fits=vram.peak <= vram.usable,
        reserved=as_scalar(memory.reserved) / GIB,
        # A monitor cannot show more memory than the GPU has.
        device_used=min(as_scalar(memory.device_used) / GIB, max(vram.usable, vram.peak)),
        set_aside={
            "margin": margin,
            "fragmentation": vram.peak - vram.allocated - margin - evaluator.context_gib,
            "context": evaluator.context_gib - evaluator.encoders_gib,
            **vram.set_aside,
        },
    )


def _host_memory(resolved: ResolvedConfiguration) -> HostMemory | None:
    batch = (resolved.micro_batch, resolved.accumulation)
    return resolved.memory_evaluator.host_memory(*batch, resolved.machine)


def _profile_notes(resolved: ResolvedConfiguration, never_seen: bool) -> list[str]:
    """Return what is less certain of a framework without a measured profile, most of all of a stranger's."""
    stack = resolved.memory_evaluator.inputs.stack
    margins = margin_text(as_scalar(stack.margin), as_scalar(stack.known_margin))
    notes = [f"framework {resolved.recipe.framework} has no measured memory profile: {margins}"]
    return ["framework never seen: ranges are those of unseen frameworks", *notes] if never_seen else notes


def _notes(resolved: ResolvedConfiguration, capacity: Capacity, library: Library) -> tuple[str, ...]:
    """Return notes on assumptions in place of facts, and on the limits of the estimate."""
    notes = []
    machine, framework = resolved.machine, resolved.recipe.framework
    row = framework_of(library, framework)
    if capacity.fits and capacity.fit_probability < TIGHT_FIT_PROBABILITY:
        cases = _percentage(capacity.fit_probability)
        safer = "a smaller micro-batch is safer, " if resolved.micro_batch > 1 else ""
        room = f"{safer}a headroom of 15 % reserves more memory"
        notes.append(f"memory is tight: it fits with {cases} % probability only; {room}")
    if not row.profiled:
        notes += _profile_notes(resolved, row.unknown)
    card, recipe = library.gpu(machine.gpu), resolved.recipe
    notes = [*stand_ins(resolved.architecture, resolved.job), *notes]
    notes = [*chip_notes(card, recipe.method, recipe.precision, machine.gpus), *notes, *efficiency_notes(card, library)]
    if card.chip and card.chip.estimate_only:
        notes.append(f"no plan uses {card.name}: {card.chip.estimate_only}")
    if machine.instances > 1 and machine.network_gbps is None:
        assumed = DEFAULT_NETWORK_BYTES_PER_SECOND / GB
        notes.append(f"bandwidth between machines unknown: {assumed:g} GB/s assumed: state it where it is known")
    if resolved.recipe.tensor_parallel * resolved.recipe.pipeline_parallel > 1 and not row.parallel:
        notes.append(f"framework {framework} has no tensor or pipeline parallelism: estimated as if it had")
    notes += on_host_memory(_host_memory(resolved), "and state it")
    notes += technique_notes(recipe, resolved.architecture.experts, library)
    notes += expert_notes(recipe, machine.gpus, machine.gpus_per_instance, library)
    if resolved.architecture.experts:
        notes.append("mixture-of-experts estimates are the least accurate: looped and grouped kernels differ fourfold")
    return tuple(notes)
