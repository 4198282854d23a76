"""Charts of bars: stacked, single with a range, to both sides, counts; and the lanes of a timetable."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from planner.drawing.scene import (
    SERIES,
    Axis,
    Caption,
    Line,
    Rect,
    Scene,
    Shape,
    Text,
    clip,
    draw_across,
    draw_legend,
    draw_moments,
    draw_up,
    letters_on,
    room_of_ticks,
    text_width,
    wrap,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


ROW, BAR_HEIGHT = 34.0, 18.0
"""Height of a row and of its bar."""
BESIDE = 480.0
"""Width from which on labels stand to the left of bars; on a narrower chart they stand above them."""
WIDE_BIN = 7.0
"""Pixels of a bin from which on a gap separates the bars."""
FAR_OFF = 3.0
"""Times the last edge of a histogram from which a mark is named and not drawn."""


@dataclass(frozen=True)
class Stack:
    """One stacked bar: parts in order of drawing, and the words at its end."""

    label: str
    parts: tuple[tuple[str, float], ...]
    words: str
    limit: float | None = None
    """Where a mark crosses the bar, such as the memory of the GPU."""


@dataclass(frozen=True)
class Ranged:
    """One bar with its words, and the ends of its range."""

    label: str
    value: float
    words: str
    low: float | None = None
    high: float | None = None
    is_chosen: bool = False
    limit: float | None = None
    """Where a mark crosses the bar."""


@dataclass(frozen=True)
class Swing:
    """What two changes of one cause do: differences, None where there is no plan."""

    label: str
    down: float | None
    up: float | None
    words: str


def stacked(
    rows: Sequence[Stack], caption: Caption, show: Callable[[float], str], limit: str, width: float,
    has_sums: bool = True, has_axis: bool = False,
) -> Scene:  # fmt: skip
    """Return stacked bars, with the parts named below in the order of their size over all rows.

    `has_sums`: whether a part over all rows is a figure of its own, as dollars are and memory of other GPUs is not.
    `has_axis`: whether there are ticks below the bars.
    """
    sums: dict[str, float] = {}
    for row in rows:
        for name, value in row.parts:
            sums[name] = sums.get(name, 0.0) + value
    names = sorted(sums, key=lambda name: -sums[name])
    shown, rest = (names, []) if len(names) <= len(SERIES) else (names[: len(SERIES) - 1], names[len(SERIES) - 1 :])
    roles = {name: SERIES[index] for index, name in enumerate(shown)} | dict.fromkeys(rest, SERIES[-1])
    frame = _Frame(width, [row.label for row in rows], room=max(text_width(row.words) for row in rows) + 12)
    most = max([sum(value for _, value in row.parts) for row in rows] + [row.limit or 0.0 for row in rows])
    axis = Axis(0.0, most or 1.0, frame.left, frame.right)
    shapes = draw_across(axis, frame.top, frame.bottom, caption.axis, show) if has_axis else []
    for index, row in enumerate(rows):
        top, start = frame.bar_top(index), 0.0
        shapes += frame.label(index)
        for name, value in sorted(row.parts, key=lambda part: names.index(part[0])):
            if value > 0:
                whole = axis.at(start + value) - axis.at(start)
                wide = max(min(1.0, whole), whole - 1)
                shapes.append(Rect(axis.at(start), top, wide, BAR_HEIGHT, roles[name], f"{name}: {show(value)}"))
                start += value
        if row.limit is not None:
            shapes.append(frame.mark(index, axis.at(row.limit)))
        shapes.append(Text(frame.right + 8, top + 14, clip(row.words, width - frame.right - 8)))
    figures = {name: show(sums[name]) if has_sums else "" for name in shown}
    entries = [(name, roles[name], figures[name]) for name in shown]
    others = show(sum(sums[name] for name in rest)) if has_sums else ""
    entries += [("other", SERIES[-1], others)] if rest else []
    entries += [(limit, "accent", "")] if limit else []
    legend, bottom = draw_legend(entries, frame.bottom + (44 if has_axis else 10), width)
    return Scene(width, bottom, caption.title, caption.description, (*shapes, *legend))


def ranged(rows: Sequence[Ranged], caption: Caption, width: float, limit: str = "") -> Scene:
    """Return one bar per row from zero, the chosen one in another colour, ranges as thin lines.

    `limit` names the marks of the rows below the bars.
    """
    room = min(0.55 * width, max(text_width(row.words) for row in rows) + 14)
    frame = _Frame(width, [row.label for row in rows], room=room)
    most = max(max(row.value, row.high or 0.0, row.limit or 0.0) for row in rows)
    axis = Axis(0.0, most or 1.0, frame.left, frame.right)
    shapes: list[Shape] = []
    for index, row in enumerate(rows):
        top = frame.bar_top(index)
        shapes += frame.label(index, row.is_chosen)
        fill = "c0" if row.is_chosen else "c6"
        long = max(1.0, axis.at(row.value) - frame.left)
        shapes.append(Rect(frame.left, top, long, BAR_HEIGHT, fill, row.words))
        end = axis.at(max(row.value, row.high or 0.0, row.limit or 0.0))
        if row.limit is not None:
            shapes.append(frame.mark(index, axis.at(row.limit)))
        if row.low is not None and row.high is not None:
            shapes.append(
                Line(((axis.at(row.low), top + BAR_HEIGHT / 2), (axis.at(row.high), top + BAR_HEIGHT / 2)), "ink", 2.0)
            )
        shapes.append(Text(end + 8, top + 14, clip(row.words, width - end - 8), bold=row.is_chosen))
    legend, bottom = draw_legend([(limit, "accent", "")], frame.bottom + 4, width) if limit else ([], frame.bottom)
    return Scene(width, bottom, caption.title, caption.description, (*shapes, *legend))


def swings(
    rows: Sequence[Swing], caption: Caption, names: tuple[str, str], show: Callable[[float], str], width: float
) -> Scene:
    """Return bars to both sides of a middle line: blue where the cause is lowered, red where it is raised."""
    frame = _Frame(width, [row.label for row in rows], room=12.0, most_lines=3)
    changes = [change for row in rows for change in (row.down, row.up) if change is not None]
    low, high = min([0.0, *changes]), max([0.0, *changes])
    space = 0.04 * (high - low) or 1.0
    axis = Axis(low - space if low < 0 else low, high + space, frame.left, frame.right)
    shapes = draw_across(axis, frame.top, frame.bottom, caption.axis, show)
    zero = axis.at(0.0)
    for index, row in enumerate(rows):
        top = frame.bar_top(index)
        shapes += frame.label(index)
        both = sorted(((row.down, "c0"), (row.up, "c1")), key=lambda end: -abs(end[0] or 0.0))
        for change, role in both:
            if change is None:
                shapes.append(Text(frame.right - 2, top + 14, "no plan", "accent", "end"))
            elif change:
                ends = sorted((zero, axis.at(change)))
                shapes.append(Rect(ends[0], top, max(1.0, ends[1] - ends[0]), BAR_HEIGHT, role, row.words))
    shapes.append(Line(((zero, frame.top), (zero, frame.bottom)), "ink"))
    entries = [(names[0], "c0", ""), (names[1], "c1", "")]
    legend, bottom = draw_legend(entries, frame.bottom + 40, width)
    return Scene(width, bottom, caption.title, caption.description, (*shapes, *legend))


def histogram(
    edges: Sequence[float],
    counts: Sequence[int],
    marks: Sequence[tuple[float, str, str]],
    caption: Caption,
    show: Callable[[float], str],
    width: float,
) -> Scene:
    """Return counts per bin as bars, with marks (figure, words, role) as lines that are named above.

    A mark far to the right of all bars is named only: drawn, it would leave no room for them.
    """
    # Names stand in rows above the bars, so that they never cover each other.
    top = 8.0 + 18.0 * len(marks)
    near = [mark for mark in marks if mark[0] <= FAR_OFF * edges[-1]]
    right, bottom = width - 12.0, top + 110.0
    up = Axis(0.0, float(max(counts) or 1), bottom, top)
    left = room_of_ticks(up)
    values = [*edges, *(value for value, _, _ in near)]
    axis = Axis(min(values), max(values) if max(values) > min(values) else min(values) + 1.0, left, right)
    shapes = [*draw_up(up, left, right, whole=True), *draw_across(axis, top, bottom, caption.axis, show)]
    for count, begin, end in zip(counts, edges[:-1], edges[1:], strict=True):
        if count:
            whole = axis.at(end) - axis.at(begin)
            wide = max(1.0, whole - 1 if whole > WIDE_BIN else whole)
            note = f"{show(begin)} to {show(end)}: {count:,} runs"
            shapes.append(Rect(axis.at(begin), up.at(count), wide, bottom - up.at(count), "c5", note))
    shapes.append(Line(((left, bottom), (right, bottom)), "muted"))
    far = [mark for mark in marks if mark not in near]
    shapes += draw_moments(near, axis, bottom, width, below=len(far))
    for row, (_, name, role) in enumerate(far):
        shapes.append(Text(right, 14.0 + 18.0 * row, clip(f"{name}, far to the right", right), role, "end"))
    return Scene(width, bottom + 44.0, caption.title, caption.description, tuple(shapes))


class _Frame:
    """Rows of bars with their labels: next to the bars on a wide chart, above them on a narrow one."""

    def __init__(self, width: float, labels: Sequence[str], room: float, most_lines: int = 2) -> None:
        self.top, self.width, self.labels = 4.0, width, labels
        self.is_beside = width >= BESIDE
        longest = max((text_width(label) for label in labels), default=0.0)
        self.left = min(longest + 14, 0.34 * width) if self.is_beside else 0.0
        self.lines = [wrap(label, self.left - 10, most_lines) for label in labels] if self.is_beside else []
        self.right = width - room
        tallest = max((len(lines) for lines in self.lines), default=1)
        self.row = max(ROW, 14.0 * tallest + 8) if self.is_beside else ROW + 16
        self.bottom = self.top + self.row * len(labels)

    def bar_top(self, index: int) -> float:
        """Return the upper edge of the bar of a row."""
        return (
            self.top + self.row * index + ((self.row - BAR_HEIGHT) / 2 if self.is_beside else self.row - BAR_HEIGHT - 6)
        )

    def mark(self, index: int, at: float) -> Line:
        """Return a line across the bar of a row, which stays below a label above the bar."""
        top = self.bar_top(index)
        return Line(((at, top - (5 if self.is_beside else 1)), (at, top + BAR_HEIGHT + 5)), "accent", 2.0)

    def label(self, index: int, bold: bool = False) -> list[Shape]:
        """Return the label of a row."""
        top = self.bar_top(index)
        if not self.is_beside:
            return [Text(0, top - 5, clip(self.labels[index], self.width), bold=bold)]
        lines = self.lines[index]
        first = top + 14 - 7 * (len(lines) - 1)
        return [Text(0, first + 14 * place, line, bold=bold) for place, line in enumerate(lines)]


LEAST_LETTERS = 5
"""Letters of a name that are more than nothing where it does not fit."""
LANE, STRETCH = 30.0, 20.0
"""Height of a lane and of what is drawn on it."""


@dataclass(frozen=True)
class Stretch:
    """Something from one hour to another one; `name` is written on it where there is room."""

    start: float
    end: float
    role: str
    name: str = ""
    words: str = ""


@dataclass(frozen=True)
class Lane:
    """A machine, or a stage, with what happens on it; the due hours are marks on the lane alone."""

    label: str
    stretches: tuple[Stretch, ...]
    due: tuple[float, ...] = ()
    behind: tuple[Stretch, ...] = ()
    """Drawn below the others and higher than they, such as reservations."""


@dataclass(frozen=True)
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
