"""Cached latents of images: what caching saves of every step, what it costs before the first one, and its bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from planner.errors import Fault
from planner.estimates.time.device import encode_seconds
from planner.estimates.time.stage_seconds import step_bytes
from planner.records import record
from planner.units import GB

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from planner.arrays import Floats
    from planner.configurations.recipe import Recipe
    from planner.estimates.time.stage_seconds import StageCoefficients
    from planner.library.schema import Architecture
    from planner.scenario.job import Job


@record(frozen=True)
class LatentCache:
    """The cache of one job: as many images as it has, each encoded once."""

    images: float
    token_share: float
    """Of the time of a step, what is left without the encoders."""
    each_bytes: float
    """Of one image and its caption, encoded."""
    batches: float
    """Steps of an epoch."""

    @property
    def gb(self) -> float:
        """Return the GB of the whole cache."""
        return self.images * self.each_bytes / GB


def latent_cache(job: Job, architecture: Architecture) -> LatentCache | None:
    """Return the cache that a job may make; None of a network that is not trained on images."""
    image = architecture.image
    if image is None:
        return None
    resolution = job.work.resolution or image.resolution
    images = float(job.work.images or (job.work.steps or 0) * job.global_batch)
    share = 1.0 - image.encoder_tokens(resolution) / image.tokens(resolution)
    return LatentCache(images, share, image.cached_bytes(resolution), images / job.global_batch)


def latent_gb(recipe: Recipe, job: Job, architecture: Architecture) -> float:
    """Return the GB that a recipe caches; 0 where it caches nothing."""
    cache = latent_cache(job, architecture) if recipe.caches_latents else None
    return cache.gb if cache else 0.0


def cached_bytes(job: Job, architecture: Architecture, recipes: Sequence[Recipe]) -> list[float]:
    """Return of each recipe the bytes of one image whose latents are cached; 0 where they are not."""
    cache = latent_cache(job, architecture)
    return [cache.each_bytes if cache and one.caches_latents else 0.0 for one in recipes]


def latent_seconds(
    job: Job, architecture: Architecture, each_bytes: Floats, step_seconds: Floats, coefficients: StageCoefficients
) -> Floats:
    """Return the seconds (n,) of encoding all images once, where one is cached in `each_bytes` (n,); 0 elsewhere.

    `step_seconds` (n,) are those of a step that reads its latents.
    """
    cache, image = latent_cache(job, architecture), architecture.image
    if cache is None or image is None:
        return np.zeros(len(each_bytes))
    moved = step_bytes(cache.images, coefficients, job.work.resolution or image.resolution) + cache.images * each_bytes
    storage = job.storage_gb_per_second * GB
    seconds = encode_seconds(cache.batches, step_seconds, cache.token_share, moved, storage)
    return np.where(each_bytes > 0, np.asarray(seconds, dtype=float), 0.0)


def latent_faults(job: Job, architecture: Architecture) -> Iterator[Fault]:
    """Yield the fault of latents that a job asks for and its network does not have."""
    if architecture.image is None and job.techniques.latents:
        where = f"jobs.{job.name}.techniques.latents"
        what = f"{architecture.name} is trained on text, which has no latents"
        yield Fault(job.name, 0, where, what, "leave it out, or choose an image network")
