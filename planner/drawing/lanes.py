"""A timetable as lanes: what happens on each machine from when to when, with moments as marks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.drawing.axis import Axis, draw_across, draw_legend, draw_moments
from planner.drawing.bars import BESIDE
from planner.drawing.scene import Caption, Line, Rect, Scene, Shape, Text, clip, letters_on, text_width, wrap
from planner.records import record

if TYPE_CHECKING:
    from collections.abc import Sequence

LEAST_LETTERS = 5
"""Letters of a name that are more than nothing where it does not fit."""
LANE, STRETCH = 30.0, 20.0
"""Height of a lane and of what is drawn on it."""


@record(frozen=True)
class Stretch:
    """Something from one hour to another one; `name` is written on it where there is room."""

    start: float
    end: float
    role: str
    name: str = ""
    words: str = ""


@record(frozen=True)
class Lane:
    """A machine, or a stage, with what happens on it; the due hours are marks on the lane alone."""

    label: str
    stretches: tuple[Stretch, ...]
    due: tuple[float, ...] = ()
    behind: tuple[Stretch, ...] = ()
    """Drawn below the others and higher than they, such as reservations."""


@record(frozen=True)
class Moment:
    """An hour that matters to all lanes, with its name."""

    hours: float
    name: str
    role: str = "accent"


def lanes(
    rows: Sequence[Lane], moments: Sequence[Moment], legend: Sequence[tuple[str, str]], caption: Caption, width: float,
    axis: Axis | None = None,
) -> Scene:  # fmt: skip
    """Return the timetable; `legend` are names and roles of colours, `axis` is that of a chart above or below."""
    is_beside = width >= BESIDE
    tall = LANE if is_beside else LANE + 16
    axis = axis or lane_axis(rows, moments, width)
    left = axis.start
    top = 6.0 + 18.0 * len(moments)
    bottom = top + tall * len(rows) + 4
    shapes = draw_across(axis, top, bottom, caption.axis)
    for index, row in enumerate(rows):
        upper = top + tall * index + (tall - STRETCH - 4)
        shapes += _label(row.label, left, upper, is_beside, width)
        for stretch in row.behind:
            start, wide = _span(axis, stretch)
            shapes.append(Rect(start, upper - 4, wide, STRETCH + 8, stretch.role, stretch.words))
        for stretch in row.stretches:
            start, wide = _span(axis, stretch)
            shapes.append(Rect(start, upper, wide, STRETCH, stretch.role, stretch.words))
            name = clip(stretch.name, wide - 8)
            if name and (name == stretch.name or len(name) > LEAST_LETTERS) and stretch.role != "soft":
                shapes.append(Text(start + wide / 2, upper + 14, name, letters_on(stretch.role), "middle"))
        for hours in row.due:
            if hours <= axis.high:
                at = axis.at(hours)
                shapes.append(Line(((at, upper - 4), (at, upper + STRETCH + 4)), "accent", 2.0))
    shapes += draw_moments([(moment.hours, moment.name, moment.role) for moment in moments], axis, bottom, width)
    names, below = draw_legend(
        [(name, role, "") for name, role in legend], bottom + (42.0 if caption.axis else 22.0), width
    )
    shapes += names
    return Scene(
        width,
        below if legend else bottom + (44 if caption.axis else 24),
        caption.title,
        caption.description,
        tuple(shapes),
    )


def lane_axis(rows: Sequence[Lane], moments: Sequence[Moment], width: float) -> Axis:
    """Return the axis of hours, to the right of the labels where there is room for them."""
    longest = max((text_width(row.label) for row in rows), default=0.0)
    left = min(longest + 14, 0.34 * width) if width >= BESIDE else 0.0
    ends = [stretch.end for row in rows for stretch in row.stretches]
    last = max([*ends, *(moment.hours for moment in moments), 1e-6])
    return Axis(0.0, last * 1.02, left, width - 12.0)


def _span(axis: Axis, one: Stretch) -> tuple[float, float]:
    """Return left edge and width; a gap of a pixel keeps neighbours apart."""
    start = axis.at(one.start)
    return start, max(1.5, axis.at(one.end) - start - 1)


def _label(label: str, left: float, upper: float, is_beside: bool, width: float) -> list[Shape]:
    if not is_beside:
        return [Text(0, upper - 5, clip(label, width))]
    lines = wrap(label, left - 10)
    first = upper + 14 - 7 * (len(lines) - 1)
    return [Text(0, first + 14 * place, line) for place, line in enumerate(lines)]
