"""Estimate of one configuration: memory and speed by part."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from planner.analysis.estimated_configuration import (
    ResolvedConfiguration,
    estimate_step,
    find_fit_remedies,
    processed_tokens,
    resolve_configuration,
)
from planner.configurations.hardware import DEFAULT_NETWORK_BYTES_PER_SECOND, chip_notes, efficiency_notes, expert_notes
from planner.configurations.memory_margin import margin_text
from planner.configurations.recipe import framework_of, optimizer_notes
from planner.configurations.uncertainty_columns import chip_sigma, configuration_sigmas
from planner.decode.memory_breakdown import as_scalar
from planner.decode.notes import TIGHT_FIT_PROBABILITY, cut_samples, on_host_memory
from planner.documents.source_map import Source
from planner.errors import Fault, ScenarioError
from planner.estimates.time.device import TimeCoefficients
from planner.estimates.uncertainty import display_factors
from planner.estimates.work import PACKED_FILL
from planner.evaluation.evaluated_physics import techniques_of
from planner.library.names import split_count
from planner.library.releases import training_conversion
from planner.loading.question import resolve_cards
from planner.results.estimate import Capacity, Estimate, Remedy, StepSeconds
from planner.scenario.configuration import WHERE, Configuration
from planner.units import GB, GIB

if TYPE_CHECKING:
    from planner.estimates.memory.memory_peak import MemoryEstimate
    from planner.library.schema import Architecture, Library
    from planner.results.plan_parts import CutSamples, HostMemory


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
    `settings` are the other fields of `planner.scenario.configuration.Configuration`, in the spelling of the scenario
    file: `gpus`, `method`, `weight_bits`, `micro_batch`, `sequence_length` and so on. What is left out is chosen, and
    listed in `assumed`.
    `largest_batch` and `longest_sequence` request these limits as well.
    A configuration that does not fit is a valid result: `vram_gib.fits` is false, and `remedies` say what would fit.

    Raises `ScenarioError` for settings that are wrong or do not work together, `LibraryError` for unknown names.

    >>> estimate("mistral-7b", "A10G", weight_bits=4).vram_gib.fits
    True
    """
    name = architecture if isinstance(architecture, str) else architecture.name
    count, gpu = split_count(gpu)
    if count is not None and settings.setdefault("gpus", count) != count:
        what = f"{count} by the name of the GPU, {settings['gpus']} here"
        raise ScenarioError([Fault(WHERE, 0, "gpus", what, "give one of the two")])
    asked = Source(WHERE).validate(Configuration, {"architecture": name, "gpu": gpu, **settings})
    network, card, library = resolve_cards(architecture, gpu, library)
    resolved = resolve_configuration(asked, network, card, library)
    result = _build_estimate(resolved, library)
    evaluator, steps, notes = resolved.memory_evaluator, resolved.accumulation, list(result.notes)
    found: dict[str, Any] = {}
    if largest_batch:
        found["largest_micro_batch"] = most = evaluator.largest_micro_batch(steps)
        chance = evaluator.vram(evaluator.at(most, steps)).fit_probability if most else 1.0
        if chance < TIGHT_FIT_PROBABILITY and most != resolved.micro_batch:
            share = _percentage(chance)
            notes.append(f"micro-batch {most:,} fits with only {share} % probability: a smaller one is safer")
    if longest_sequence:
        if result.unit == "images":
            what = f"{network.name} is trained on images, which have no sequence length"
            raise ScenarioError([Fault(WHERE, 0, "longest_sequence", what, "vary resolution")])
        found["longest_sequence"] = longest = evaluator.longest_sequence(resolved.micro_batch, steps)
        if longest > network.max_sequence:
            notes.append(f"the longest sequence exceeds the model's context of {network.max_sequence:,} tokens")
    if not result.vram_gib.fits:
        remedies = find_fit_remedies(asked, resolved, network, card, library)
        found["remedies"] = tuple(Remedy(change=what, peak=peak) for what, peak in remedies)
    return result.model_copy(update={**found, "notes": tuple(notes)})


def _build_estimate(resolved: ResolvedConfiguration, library: Library) -> Estimate:
    """Return the estimate of a resolved configuration, without remedies."""
    job, recipe, machine, shape = resolved.job, resolved.recipe, resolved.machine, resolved.shape
    image = resolved.architecture.image
    memory = resolved.memory_evaluator.at(resolved.micro_batch, resolved.accumulation)
    capacity = _capacity(resolved, memory)
    time = TimeCoefficients.of(library.calibrations["time"].values)
    step = estimate_step(job, shape, resolved.memory_evaluator, resolved.micro_batch, resolved.accumulation, time)
    seconds = as_scalar(step.seconds)
    tokens = resolved.micro_batch * processed_tokens(job, shape, resolved.micro_batch)
    first = np.zeros(1, dtype=np.int64)
    spreads = library.calibrations["uncertainty"].values
    kind = chip_sigma(library.gpu(machine.gpu), recipe.method, recipe.precision, machine.gpus, spreads)
    spread = configuration_sigmas([recipe.framework], resolved.architecture, [machine], first, tokens, library, kind)
    sigma, tail = as_scalar(spread.display), as_scalar(spread.tail)
    low, high = (float(factor) for factor in display_factors(sigma))
    filled = PACKED_FILL * shape.sequence if job.packing == "packed" else shape.mean_length
    each = 1.0 if shape.unit == "images" else filled
    rate = job.global_batch * each / seconds
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
        unit="images" if shape.unit == "images" else "tokens",
        sequence_length=shape.sequence,
        resolution=job.work.resolution or image.resolution if image else None,
        global_batch=job.global_batch,
        packing=job.packing,
        vram_gib=capacity,
        host_memory=_host_memory(resolved),
        tokens_per_second=rate,
        tokens_per_second_low=rate * low,
        tokens_per_second_high=rate * high,
        processed_tokens_per_second=as_scalar(step.tokens_per_second),
        step_seconds=StepSeconds(total=seconds, parts={name: as_scalar(value) for name, value in step.visible.items()}),
        profile=recipe.framework,
        profiled=framework_of(library, recipe.framework).profiled,
        sigma=sigma,
        sigma_tail=tail,
        assumed=resolved.assumed,
        conversion=training_conversion(resolved.architecture, recipe.weight_bits),
        notes=_notes(resolved, capacity, library),
        cut=_cut(resolved),
    )


def _cut(resolved: ResolvedConfiguration) -> CutSamples | None:
    """Return what the sequences do not hold of the samples, with the option that holds it in place of a setting."""
    found = cut_samples(resolved.job, resolved.shape, resolved.architecture)
    if found is None:
        return None
    return found.model_copy(update={"job": "", "setting": f"--sequence-length {found.holds}" if found.holds else ""})


def _percentage(probability: float) -> int:
    """Return a probability in whole percent, rounded down."""
    return math.floor(probability * 100 + 1e-9)


def _capacity(resolved: ResolvedConfiguration, memory: MemoryEstimate) -> Capacity:
    evaluator = resolved.memory_evaluator
    vram = evaluator.vram(memory)
    margin = as_scalar(memory.margin) / GIB
    return Capacity(
        **vram.model_dump(),
        fits=vram.peak <= vram.usable,
        reserved=as_scalar(memory.reserved) / GIB,
        # A monitor cannot show more memory than the GPU has.
        device_used=min(as_scalar(memory.device_used) / GIB, max(vram.usable, vram.peak)),
        set_aside={
            "margin": margin,
            "fragmentation": vram.peak - vram.allocated - margin - evaluator.context_gib,
            "context": evaluator.context_gib,
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
    machine, shape, framework = resolved.machine, resolved.shape, resolved.recipe.framework
    row = framework_of(library, framework)
    if capacity.fits and capacity.fit_probability < TIGHT_FIT_PROBABILITY:
        cases = _percentage(capacity.fit_probability)
        safer = "a smaller micro-batch is safer, " if resolved.micro_batch > 1 else ""
        room = f"{safer}--vram-headroom 0.15 reserves more memory"
        notes.append(f"memory is tight: it fits with {cases} % probability only; {room}")
    if not row.profiled:
        notes += _profile_notes(resolved, row.unknown)
    card, recipe = library.gpu(machine.gpu), resolved.recipe
    notes = [*chip_notes(card, recipe.method, recipe.precision, machine.gpus), *notes, *efficiency_notes(card, library)]
    if card.chip and card.chip.estimate_only:
        notes.append(f"no plan uses {card.name}: {card.chip.estimate_only}")
    if machine.instances > 1 and machine.network_gbps is None:
        assumed = DEFAULT_NETWORK_BYTES_PER_SECOND / GB
        notes.append(f"bandwidth between machines unknown: {assumed:g} GB/s assumed; set --network-gbps")
    if resolved.recipe.tensor_parallel * resolved.recipe.pipeline_parallel > 1 and not row.parallel:
        notes.append(f"framework {framework} has no tensor or pipeline parallelism: estimated as if it had")
    notes += on_host_memory(_host_memory(resolved), "and give --ram-gb")
    notes += optimizer_notes(recipe, library)
    notes += expert_notes(recipe.tensor_parallel, recipe.pipeline_parallel, recipe.expert_parallel, machine.gpus)
    if resolved.architecture.experts:
        notes.append("mixture-of-experts estimates are the least accurate: looped and grouped kernels differ fourfold")
    if shape.unit == "images":
        notes.append("the estimate for diffusion is rough: an image counts as equivalent tokens")
    return tuple(notes)
