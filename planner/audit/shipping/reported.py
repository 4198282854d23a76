"""The data path and the exported result as a plan reports them, computed again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner.audit.shipping.export import merge_ram_gb, result_gb
from planner.results.stages.parts import DataPath, ExportedResult
from planner.scenario.inference import InferenceJob
from planner.units import GB

if TYPE_CHECKING:
    from planner.audit.context import AuditContext
    from planner.audit.physics import RecomputedPhysics
    from planner.audit.stages import JobStages


def report_stages(context: AuditContext, physics: Any, stages: JobStages) -> dict[str, Any]:
    """Return the fields `data_path` and `export` of an assignment; none of generation."""
    if isinstance(context.job, InferenceJob):
        return {}
    return {"data_path": None if context.observed else _data_path(context, physics, stages), "export": _export(context)}


def _data_path(context: AuditContext, physics: RecomputedPhysics, stages: JobStages) -> DataPath:
    """Return the bytes that steps read and the cores that tokenising their text would keep busy."""
    job, image, offer, values = context.job, context.architecture.image, context.offer, context.stages
    seconds, training, saved = physics.step_seconds, stages.training, 0.0
    if image is None:
        read = job.global_batch * physics.work.sequence * values.ingest_bytes_per_token
    else:
        resolution = job.work.resolution or image.resolution
        each = resolution**2 * values.image_bytes_per_pixel
        if context.recipe.caches_latents:
            each = image.cached_bytes(resolution)
        else:
            encoders = image.encoder_gflop / (3 * image.forward_gflop + image.encoder_gflop)
            saved = training * encoders * (1 - 1 / job.work.epochs)
        read = job.global_batch * each
    cores = offer.cpu_cores or values.cores_per_gpu * offer.gpus
    return DataPath(
        read_bytes_per_second=read / seconds,
        storage_bytes_per_second=job.storage_gb_per_second * GB,
        cores_used=None if image else physics.rate / values.tokenise_tokens_per_core_second,
        cores=cores * context.machine.instances,
        cores_known=offer.cpu_cores is not None,
        saved_hours=training * max(0.0, 1 - physics.computed_seconds / seconds),
        latents_saved_hours=saved,
    )


def _export(context: AuditContext) -> ExportedResult | None:
    wanted = context.job.stages.export
    if wanted is None:
        return None
    named = next((one for one in context.named.beside if one.stage == "export"), None)
    offer = context.offer if named is None else context.offers[named.offer]
    is_plain = wanted.format is None
    form = wanted.format or ("merged" if wanted.merged and is_plain else "adapters")
    return ExportedResult(
        format=form,
        bits=None if form in ("adapters", "merged") else wanted.bits or 4,
        gb=result_gb(context, context.recipe.method),
        ram_gb=merge_ram_gb(context),
        offer=named.offer if named is not None else None,
        ram_known=offer.ram_gb is not None,
    )
