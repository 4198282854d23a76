"""Spread of the memory of a configuration, and the margin of the fit rule that follows from it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.configurations.recipe import framework_of
from planner.estimates.memory.fit import confidence_margin
from planner.estimates.uncertainty import memory_tail

if TYPE_CHECKING:
    from planner.library.schema import Library


def memory_sigma(framework: str, library: Library) -> float:
    """Return the spread of ln(measured / predicted) of allocated bytes without observations."""
    values = library.calibrations["memory"].values
    return memory_tail(values, framework, framework_of(library, framework).profiled)


def memory_margin(framework: str, confidence: float, library: Library) -> float:
    """Return the margin of the fit rule at which a configuration fits with a probability, without observations."""
    return confidence_margin(memory_sigma(framework, library), confidence)
