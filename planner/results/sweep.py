"""Results of a sweep over many variants: a row per variant, and a summary of all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from planner.results.plan_parts import CutSamples, Part
from planner.results.serving.what_if import CellService
from planner.results.what_if import CellJob

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.results.what_if import Cell

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
    cut: tuple[CutSamples, ...] = ()
    """Samples that do not fit in their sequences, by job."""


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
    cut: tuple[CutSamples, ...] = ()
    """Of each job whose samples are cut, the variant that cuts most."""
    cutting: int = 0
    """Variants that cut samples."""
    errors: tuple[Variant, ...]
    """The first variants that could not be solved."""
    seconds: float
    workers: int
    file: str = ""


def most_cut(cells: Sequence[Cell | Variant]) -> tuple[tuple[CutSamples, ...], int]:
    """Return of each job whose samples some cells cut the greatest cut, and the number of cells that cut."""
    most: dict[str, CutSamples] = {}
    for one in (cut for cell in cells for cut in cell.cut):
        if one.job not in most or one.share > most[one.job].share:
            most[one.job] = one
    return tuple(most.values()), sum(bool(cell.cut) for cell in cells)
