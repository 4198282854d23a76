"""Bytes that a run writes: checkpoints that stay, and the result as it is exported."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from planner.configurations.network import network_of
from planner.estimates.time.export import ExportCoefficients, gguf_bytes, grouped_bytes
from planner.estimates.time.stages import StageCoefficients, kept_checkpoint_bytes
from planner.units import GB

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.arrays import Floats
    from planner.configurations.coefficients import RecipeCoefficients
    from planner.configurations.recipe import Recipe
    from planner.library.schema import Architecture, Library
    from planner.scenario.job import Job


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
