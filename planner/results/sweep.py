"""Results of a sweep over many variants: a row per variant, and a summary of all."""

from __future__ import annotations

from typing import Literal

from planner.results.plan_parts import Part
from planner.results.serving.what_if import CellService
from planner.results.what_if import CellJob

VariantStatus = Literal["optimal", "feasible", "infeasible", "no_plan", "error"]
"""The status of a plan, or `error` where a variant could not be solved at all."""


class Variant(Part):
    """The plan at one value of every range; expected dollars and hours as in a `Cell`."""

    values: tuple[str, ...]
    status: VariantStatus
    error: str = ""
    """Why the variant could not be solved; the others are solved all the same."""
    cost_usd: float | None = None
    hours: float | None = None
    hours_at_confidence: float | None = None
    jobs: tuple[CellJob, ...] = ()
    services: tuple[CellService, ...] = ()


class ManyVariants(Part):
    """A summary of a sweep whose rows are in a file."""

    scenario: str
    paths: tuple[str, ...]
    """What varies; `values` of a variant are in this order."""
    variants: int
    resumed: int
    """Variants that an interrupted run had solved already."""
    counts: dict[VariantStatus, int]
    cheapest: Variant | None
    fastest: Variant | None
    errors: tuple[Variant, ...]
    """The first variants that could not be solved."""
    seconds: float
    workers: int
    file: str = ""
