"""Small HTML tables and pictures for results in a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from planner.errors import escaped

if TYPE_CHECKING:
    from planner.drawing.sketch import Placed


def html_table(caption: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a `<table>` with every text escaped; cells that start with a digit or a sign are aligned to the right."""
    head = "".join(f"<th>{escaped(cell)}</th>" for cell in header)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    return f"<table><caption>{escaped(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def plan_picture(jobs: Sequence[Placed], is_timetable: bool) -> str:
    """Return the timetable of jobs that take turns, else the bill, as SVG; what draws is loaded only then."""
    from planner.drawing.sketch import bill_sketch, timetable_sketch

    return timetable_sketch(jobs) if is_timetable else bill_sketch(jobs)


def dollars(amount: float | None) -> str:
    """Return dollars with two decimals; empty for None."""
    return "" if amount is None else f"${amount:,.2f}"


def _cell(text: str) -> str:
    side = ' style="text-align:right"' if text[:1].isdigit() or text[:1] in ("$", "-", "+") else ""
    return f"<td{side}>{escaped(text)}</td>"
