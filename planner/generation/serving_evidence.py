"""What the speed of a replica rests on: measured engine, GPU and format, or a prior, and its spread."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from planner.library.engines import read_engines
from planner.library.schema import Coefficient

if TYPE_CHECKING:
    from collections.abc import Mapping


ROUGH_BATCHES = (
    "many requests in flight: most measurements are of engines of 2024, so real ones may be faster; measure first"
)


def coefficient_or(coefficients: Mapping[str, Coefficient], key: str, otherwise: float) -> float:
    """Return a coefficient's value, or another where there is none."""
    entry = coefficients.get(key)
    return entry.value if entry else otherwise


def prior_parts(
    coefficients: Mapping[str, Coefficient], engine: str, label: str, gpu: str, weights: str
) -> tuple[str, ...]:
    """Return what no published measurement informs: engine (by its `label`), GPU, format."""
    keys = {
        f"engine {label}": f"spread.{engine}",
        f"GPU {gpu}": f"memory.{gpu}",
        f"format {weights}": f"reading.{read_engines().fitted_as(weights)}",
    }
    entries = {what: coefficients.get(key) for what, key in keys.items()}
    return tuple(what for what, entry in entries.items() if entry is None or entry.basis != "measured")


def speed_sigma(coefficients: Mapping[str, Coefficient], engine: str, is_prior: bool) -> float:
    """Return the standard deviation of ln(speed): the engine's, else that of all; wider where a part is a prior."""
    own = coefficient_or(coefficients, f"spread.{engine}", coefficient_or(coefficients, "spread", 0.4))
    return math.hypot(own, coefficient_or(coefficients, "spread.prior", 0.2) if is_prior else 0.0)
