"""The export of a result in plain floats: its bytes, what merging and quantising take, and the memory for it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from planner.configurations.coefficients import recipe_coefficients
from planner.estimates.adapters import lora_parameters
from planner.estimates.time import export_work as formulas
from planner.estimates.time.stage_seconds import merge_seconds
from planner.units import GB, GIB, HOUR, MONTH_HOURS, TERA

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planner.evaluation.evaluated_physics import EvaluatedPhysics
    from planner.evaluation.run_context import RunContext
    from planner.scenario.offer import Offer


_QUANTISED = ("gguf", "gptq", "awq")


def _coefficients(context: RunContext) -> formulas.ExportCoefficients:
    return formulas.ExportCoefficients.of(context.values("stages"))


def _format(context: RunContext) -> tuple[str, int]:
    """Return what the job wants to leave, and its bits where it is quantised."""
    wanted = context.job.stages.export
    if wanted is None:
        return "adapters", 16
    name = wanted.format or ("merged" if wanted.merged else "adapters")
    return name, (wanted.bits or 4) if name in _QUANTISED else 16


def is_made(context: RunContext, method: str) -> bool:
    """Return whether the result is more than what training leaves: quantised, or adapters merged."""
    name, _ = _format(context)
    return name in _QUANTISED or (name == "merged" and method == "lora")


def trained_gb(context: RunContext, method: str) -> float:
    """Return the size of what training leaves: adapters, or all weights as the model is released."""
    if method == "full":
        return context.architecture.download_gb
    if not context.offer.is_managed:
        states = recipe_coefficients(context.recipe, context.job, context.network, context.library).states
        return float(states.trainable) * float(states.adapter_bytes) / GB
    lora = context.job.lora
    count = float(lora_parameters(context.network, lora.rank[0], lora.targets).trainable)
    return count * context.library.techniques.bytes.adapters[context.framework.adapters].adapter_bytes / GB


def result_gb(context: RunContext, method: str) -> float:
    """Return the size of what the job wants to leave; a service quantises nothing."""
    name, bits = _format(context)
    if name == "adapters":
        return trained_gb(context, method)
    if name == "merged" or context.offer.is_managed:
        return context.architecture.download_gb
    weights, coefficients = float(context.architecture.parameters), _coefficients(context)
    if name == "gguf":
        return float(formulas.gguf_bytes(weights, bits, coefficients)) / GB
    return formulas.grouped_bytes(context.network, weights, bits, coefficients) / GB


def made_hours(context: RunContext, offer: Offer) -> float:
    """Return hours of merging and quantising on one machine of an offer."""
    method = context.recipe.method
    if not is_made(context, method):
        return 0.0
    (name, bits), disk, whole = _format(context), context.disk_rate_of(offer), context.architecture.download_gb * GB
    seconds = float(merge_seconds(whole, disk)) if method == "lora" else 0.0
    weights, made, coefficients = (
        context.architecture.parameters,
        result_gb(context, method) * GB,
        _coefficients(context),
    )
    if name == "gguf":
        seconds += float(formulas.gguf_seconds(weights, made, disk, coefficients))
    elif bits < 16:
        peak = context.library.gpu(offer.card).matmul16_tflops * TERA
        seconds += float(formulas.gpu_quantise_seconds(weights, made, peak, disk, coefficients))
    return seconds / HOUR


def sent_hours(context: RunContext, offer: Offer, gb: float, is_final: bool = True) -> float:
    """Return hours until `gb` has left a machine; the user's own place may take a final result more slowly."""
    wanted, line = context.job.stages.export, context.download_rate_of(offer)
    if is_final and wanted is not None and wanted.gb_per_second is not None:
        line = min(line, wanted.gb_per_second * GB)
    return gb * GB / line / HOUR if wanted is not None else 0.0


def separate_export(context: RunContext, offer: Offer) -> tuple[float, float, float]:
    """Return hours (twice) and dollars of transfers: boot, image, all weights in, the result made, sent and kept."""
    method, fees = context.recipe.method, offer.fees
    made, weights = result_gb(context, method), context.architecture.download_gb
    boot = context.stages.boot_seconds + (context.stages.image_bytes + weights * GB) / context.download_rate_of(offer)
    hours = boot / HOUR + made_hours(context, offer) + sent_hours(context, offer, made)
    months = (context.job.stages.retention_hours or 0.0) / MONTH_HOURS
    usd = weights * (fees.ingress_usd_per_gb or 0.0) + made * (fees.egress_usd_per_gb or 0.0)
    return hours, hours, usd + made * months * (fees.network_storage_usd_per_gb_month or 0.0)


def merge_ram_gb(context: RunContext) -> float:
    """Return GB of host memory of merging; 0 where nothing is merged."""
    if context.recipe.method != "lora" or not is_made(context, "lora"):
        return 0.0
    return float(formulas.merge_ram_bytes(context.architecture.download_gb * GB / 2.0, _coefficients(context))) / GB


def lacking_memory(context: RunContext, offer: Offer) -> Iterator[tuple[str, str]]:
    """Yield the memory that the export asks of a machine, and what that machine is known to have."""
    method, coefficients = context.recipe.method, _coefficients(context)
    if not is_made(context, method):
        return
    ram, needs = math.inf if offer.ram_gb is None else offer.ram_gb, merge_ram_gb(context)
    if needs > ram:
        yield f"{needs:.1f} GB of RAM", f"{ram:.1f}"
    if _format(context)[0] in ("gptq", "awq") and offer.rents_gpus:
        usable = context.library.gpu(offer.card).usable_gib * GIB
        layers = formulas.gpu_quantise_bytes(context.network, coefficients)
        if layers > usable:
            yield f"{layers / GB:.1f} GB of GPU memory", f"{usable / GB:.1f}"


def cached_latents(context: RunContext, physics: EvaluatedPhysics) -> tuple[float, float]:
    """Return hours and GB; none where images are encoded in every epoch, or where the whole run was observed.

    The encoders take a third as long per FLOP as the network that is trained, forward passes being a third of its work.
    """
    image, job = context.architecture.image, context.job
    if image is None or not context.recipe.caches_latents:
        return 0.0, 0.0
    resolution = job.work.resolution or image.resolution
    images = float(job.work.images or (job.work.steps or 0) * job.global_batch)
    each = image.latent_bytes * (resolution / image.resolution) ** 2 + image.text_bytes
    read = images * resolution**2 * context.stages.image_bytes_per_pixel
    step = physics.computed_seconds * image.encoder_gflop / (3.0 * image.forward_gflop)
    seconds = max(images / job.global_batch * step, (read + images * each) / (job.storage_gb_per_second * GB))
    return seconds / HOUR, images * each / GB
