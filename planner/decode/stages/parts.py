"""The data path and the exported result of a chosen row."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from planner.candidates.shipping.export_work import ExportWork
from planner.configurations.latents import latent_cache
from planner.estimates.time.data_stages import machine_cores
from planner.estimates.time.stages import step_bytes
from planner.results.stages.parts import DataPath, ExportedResult
from planner.scenario.inference import InferenceJob
from planner.units import GB

if TYPE_CHECKING:
    from planner.decode.chosen import ChosenCandidate
    from planner.library.schema import Library


def build_data_path(chosen: ChosenCandidate) -> DataPath | None:
    """Return what training reads and what caching could save; None of generation and of observed runs."""
    candidates, job, row = chosen.candidates, chosen.job, chosen.row
    if isinstance(job, InferenceJob) or candidates.observed[row]:
        return None
    run_hours, shape, architecture = candidates.run_hours, candidates.physics.shape, candidates.architecture
    step = float(run_hours.step_seconds[chosen.configuration])
    computed = float(candidates.physics.ways.step_seconds[chosen.configuration]) / job.efficiency
    cache, image = latent_cache(job, architecture), architecture.image
    per_step = job.global_batch * (1 if image else shape.sequence)
    read = float(step_bytes(per_step, run_hours.stages, (job.work.resolution or image.resolution) if image else 0))
    training, latents = float(candidates.hours.training[row]), 0.0
    if cache is not None and chosen.recipe.caches_latents:
        read = per_step * cache.each_bytes
    elif cache is not None:
        latents = training * (1.0 - cache.token_share) * (1.0 - 1.0 / job.work.epochs)
    tokens = shape.tokens / (shape.steps * step)
    cores, offer = chosen.offer.cpu_cores, chosen.offer
    return DataPath(
        read_bytes_per_second=read / step,
        storage_bytes_per_second=job.storage_gb_per_second * GB,
        cores_used=None if image else tokens / run_hours.stages.tokenise_tokens_per_core_second,
        cores=chosen.machine.instances * float(cores or machine_cores(offer.gpus, run_hours.stages)),
        cores_known=cores is not None,
        saved_hours=training * max(0.0, 1.0 - computed / step),
        latents_saved_hours=latents,
    )


def build_export(chosen: ChosenCandidate, library: Library) -> ExportedResult | None:
    """Return what leaves as the result; None where nothing does, and of the answers of generation."""
    candidates, job, row = chosen.candidates, chosen.job, chosen.row
    wanted = job.stages.export
    if wanted is None or isinstance(job, InferenceJob):
        return None
    work = ExportWork.of(job, candidates.architecture, library, chosen.recipe.method == "lora")
    place = candidates.placement_of(row).export
    offer = chosen.offer if place is None else place.offer
    gb = np.asarray(candidates.run_hours.export_gb, dtype=float)[int(candidates.table.recipe[row])]
    return ExportedResult(
        format=wanted.form,
        bits=wanted.quantised_bits,
        gb=float(gb),
        ram_gb=work.ram_gb if work is not None else 0.0,
        offer=place.label if place is not None else None,
        ram_known=offer.ram_gb is not None,
    )
