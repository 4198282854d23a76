"""Cached latents of images in plain floats: the hours of encoding all images once, and the GB that this leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.units import GB, HOUR

if TYPE_CHECKING:
    from planner.audit.context import AuditContext
    from planner.audit.physics import RecomputedPhysics


def cached_latents(context: AuditContext, physics: RecomputedPhysics) -> tuple[float, float]:
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
