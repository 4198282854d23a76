"""A figure of the report: its title, a sentence, a picture in any width, and the table behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.records import record

if TYPE_CHECKING:
    from collections.abc import Callable

    from planner.drawing.scene import Scene

WIDE, NARROW = 840.0, 320.0
"""Widths in which each picture is drawn: for a page or paper, and for a telephone or a column of 80 mm."""
PICTURE = 510.0
"""Width of a picture as a file of its own: reduced to a column of 80 mm, its letters are still five points high."""
COST_LABEL, MONTH_LABEL = "expected cost", "dollars a month"


@record(frozen=True)
class Table:
    """A table of texts; cells that start with a digit or a dollar sign are aligned to the right."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@record(frozen=True)
class Figure:
    """A picture with the table behind it; `draw` returns the picture in a width, None: the table says it all."""

    key: str
    title: str
    lead: str
    draw: Callable[[float], Scene] | None
    table: Table
    notes: tuple[str, ...] = ()
