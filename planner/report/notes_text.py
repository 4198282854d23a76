"""Notes below a plan: each in full or counted."""

from __future__ import annotations

from planner.report import format as words
from planner.report.format import line_room

NOTE_LINES = 3
"""Most lines of one note."""


def render_notes(texts: tuple[str, ...], room: int) -> list[str]:
    """Return notes in at most `room` lines, each in full or not at all; the last line counts those left out."""
    lines: list[str] = []
    left = list(texts)
    while left:
        wrapped = words.wrap_lines(left[0], line_room(), NOTE_LINES)
        if len(lines) + len(wrapped) + (len(left) > 1) > room:
            break
        lines += wrapped
        left.pop(0)
    if left:
        more = f" ({len(left) - 1} more: --json)" if len(left) > 1 else ""
        short = next((text for text in left if len(text) + len(more) <= line_room()), None)
        counted = f"{len(left)} {'more' if lines else 'notes'}: --json"
        lines.append(f"{words.sanitise(short)}{more}" if short else counted)
    return words.section("Notes", lines)
