"""Spread of the memory of a configuration, and the margin of the fit rule that follows from it."""

from __future__ import annotations

from planner.configurations.recipe import Recipe, framework_of
from planner.estimates.memory.memory_fit import confidence_margin
from planner.estimates.uncertainty import MemorySpread, memory_spread
from planner.library.schema import Library

MIN_MEMORY_SAVING = 0.02
"""Share of the memory that a change after a run out of memory saves at least: less is no help."""


def framework_spread(framework: str, library: Library, offload: bool = False) -> MemorySpread:
    """Return the spread of the memory of a framework without observations; `offload`: with states in host memory."""
    values = library.calibrations["memory"].values
    return memory_spread(values, framework, framework_of(library, framework).profiled, offload)


def recipe_spread(recipe: Recipe, library: Library) -> MemorySpread:
    """Return the spread of the memory of a recipe without observations."""
    return framework_spread(recipe.framework, library, recipe.offloads)


def memory_margin(framework: str, confidence: float, library: Library, offload: bool = False) -> float:
    """Return the margin on uncertain bytes at which a configuration fits with a probability, without observations."""
    return confidence_margin(framework_spread(framework, library, offload).sigma, confidence)


def margin_text(margin: float, known_margin: float) -> str:
    """Return the margins of the fit rule in percent, in words."""
    if margin == known_margin:
        return f"margin {margin * 100:.3g} %"
    return f"margin {margin * 100:.3g} %, of weights, gradients and optimizer {known_margin * 100:.3g} %"
