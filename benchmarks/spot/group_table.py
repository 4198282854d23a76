"""The table of groups of zones as text, and the targets that it is judged by."""

from __future__ import annotations

from typing import Any

from benchmarks.spot.groups import COLUMNS

Row = dict[str, Any]
FAR = (8, 1.08)
"""Zones and deadline over work at which the simple use of zones is far from the optimum."""
HALF = 0.5


def group_targets(title: str, rows: list[Row]) -> list[tuple[str, bool]]:
    """Return the targets of a table and whether they are met: planned is never above sticky or the best-known zone."""
    lines = []
    for other in ("sticky", "best known"):
        above = [
            row for row in rows if row["percent_of_on_demand"]["planned"] > row["percent_of_on_demand"][other] + 1e-9
        ]
        text = f"{title}: planned above {other} in {len(above)} of {len(rows)} cells"
        lines.append((text, not above))
    late = sum(row["late"] for row in rows)
    lines.append((f"{title}: {late} deadlines missed", late == 0))
    return lines


def halved_targets(title: str, rows: list[Row]) -> list[tuple[str, bool]]:
    """Return for each cell that is far from the optimum whether half of the distance of sticky is closed."""
    return [
        (
            f"{title}: {row['zones']} zones, {row['work_hours']:g} h of work, restart {row['restart_hours']:g} h, "
            f"deadline {row['deadline_over_work']:g}: {100 * row['distance_closed']:.0f} % of the distance of sticky "
            "to the optimum closed, at least 50 %",
            row["distance_closed"] >= HALF,
        )
        for row in rows
        if (row["zones"], row["deadline_over_work"]) == FAR
    ]


def group_text(title: str, rows: list[Row]) -> list[str]:
    """Return the table as text, in percent of the cost on demand."""
    if not rows:
        return []
    lines = [f"{title}; percent of on demand (+- standard error), n = {rows[0]['n']} groups and halves"]
    names = "".join(f"{name:>16}" for name in COLUMNS)
    lines += [f"zones  work restart deadline{names}  planned - sticky  closed"]
    for row in rows:
        cells = "".join(
            f"{row['percent_of_on_demand'][name]:9.1f} +- {row['standard_error'][name]:<3.1f}" for name in COLUMNS
        )
        head = f"{row['zones']:5d}{row['work_hours']:6.0f}{row['restart_hours']:8.1f}{row['deadline_over_work']:9.2f}"
        more, error = row["planned_minus_sticky"]
        lines.append(f"{head}{cells}{more:+9.2f} +- {error:<5.2f}{100 * row['distance_closed']:6.0f} %")
    return [*lines, ""]
