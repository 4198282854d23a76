"""Charts: bars, lanes of a timetable, figures against figures, and small pictures of results for notebooks."""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from planner.drawing.scene import (
    NONE,
    SERIES,
    WIDE_RATIO,
    Axis,
    Box,
    Caption,
    Dot,
    Line,
    Name,
    Rect,
    Scene,
    Shape,
    Text,
    along,
    axis_data,
    clip,
    draw_across,
    draw_legend,
    draw_moments,
    draw_up,
    fit_axis,
    letters_on,
    money,
    notebook_svg,
    place_names,
    plain,
    roles_of,
    room_of_ticks,
    text_width,
    wrap,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

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


def _span(axis: Axis, stretch: Stretch) -> tuple[float, float]:
    """Return left edge and width; a gap of a pixel keeps neighbours apart."""
    start = axis.at(stretch.start)
    return start, max(1.5, axis.at(stretch.end) - start - 1)


def _label(label: str, left: float, upper: float, is_beside: bool, width: float) -> list[Shape]:
    if not is_beside:
        return [Text(0, upper - 5, clip(label, width))]
    lines = wrap(label, left - 10)
    first = upper + 14 - 7 * (len(lines) - 1)
    return [Text(0, first + 14 * place, line) for place, line in enumerate(lines)]


STROKES = 12
"""Straight strokes of a slope, which is a curve on a logarithmic axis."""
MANY, DOT_RADIUS, SMALL_DOT = 60, 4.0, 2.5
"""Breakpoints from which on only named ones have a dot; its radius, and where several curves are drawn."""
HIGH, LOW = 380.0, 300.0
"""Height of a wide and of a narrow chart."""


@dataclass(frozen=True)
class Breakpoint:
    """A breakpoint of the curve with its words, or the plan on or above it; an empty `label` draws none."""

    hours: float
    usd: float
    label: str = ""
    words: str = ""
    is_hollow: bool = False
    is_marked: bool = False
    is_plan: bool = False


Run = tuple[float, float, float, float]
"""Hours and dollars of the left and of the right end of a line."""


@dataclass(frozen=True)
class Branch:
    """A curve next to others, named at one of its breakpoints or in the legend."""

    name: str
    role: str
    points: tuple[Breakpoint, ...]
    runs: tuple[Run, ...]
    width: float = 2.0
    has_dots: bool = True


def curve(
    points: Sequence[Breakpoint], runs: Sequence[Run], deadline: float | None, caption: Caption, width: float,
    branches: Sequence[Branch] = (), below: Sequence[Branch] = (),
) -> Scene:  # fmt: skip
    """Return the chart; both axes are logarithmic where the figures range widely.

    Parameters
    ----------
    points, runs
        The curve; next to branches it is a thick line without names, which they lie on.
    deadline
        Marked as a line where it lies within the chart.
    branches
        Curves with names at their breakpoints.
    below
        Curves behind the others, named in the legend.

    Raises
    ------
    ValueError
        There are no points.
    """
    height = LOW if width < BESIDE else HIGH
    every = [*points, *(point for branch in (*branches, *below) for point in branch.points)]
    across, up = _axes(every, deadline, height, width)
    left = across.start
    heading = Text(0, 12, "expected cost", "muted")
    shapes: list[Shape] = [heading]
    shapes += draw_up(up, left, width - 12, money) + draw_across(across, 22, height - 46, caption.axis, plain)
    if deadline is not None and across.low <= deadline <= across.high:
        at = across.at(deadline)
        shapes.append(Line(((at, 22), (at, height - 46)), "accent", 1.5, dashed=True))
    main = Branch("", "c0", tuple(points), tuple(runs))
    if branches:
        main = Branch("frontier of all allowed", "soft", (), tuple(runs), 7.0, has_dots=False)
    named = [*points, *(point for branch in branches for point in branch.points)]
    taken = [(across.at(point.hours), up.at(point.usd)) for point in named]
    for branch in (*below, main, *branches):
        lines = list(_joined(_lines(sorted(branch.runs, key=lambda run: (run[2], run[0])), across, up)))
        shapes += [Line(line, branch.role, branch.width) for line, is_step in lines if not is_step]
        shapes += [Line(line, branch.role, min(1.0, branch.width), dashed=True) for line, is_step in lines if is_step]
        if branch.has_dots:
            taken += [place for line, _ in lines for place in along(line)]
            shapes += _dots(branch, DOT_RADIUS if branch is main else SMALL_DOT, across, up)
    shapes += _special_dots(points, across, up)
    area = (left, 22.0, width, height - 46.0)
    marks, boxes = _deadline(deadline, across, area)
    names = [_name_of(branch, across, up) for branch in branches] if branches else _names(points, across, up)
    names = [*_names([point for point in points if point.is_plan], across, up), *names] if branches else names
    boxes += [_marker_box(across.at(point.hours), up.at(point.usd)) for point in points if _is_special(point)]
    shown, left_out = place_names(names, taken, area, [heading.box, *boxes])
    entries = [(branch.name, branch.role, "") for branch in (*below, main) if branch.name]
    entries += [(name.text, name.role, "") for name in left_out] if branches else []
    legend, lower = draw_legend(entries, height - 2, width) if entries else ([], height)
    shapes += [*marks, *shown, *legend]
    return Scene(width, lower, caption.title, caption.description, tuple(shapes), axis_data(across, up))


def _axes(points: Sequence[Breakpoint], deadline: float | None, height: float, width: float) -> tuple[Axis, Axis]:
    """Return the axes of hours, up to a deadline that is not far off, and of dollars, from zero where they can be."""
    hours, usd = [point.hours for point in points], [point.usd for point in points]
    most = max([*hours, *([deadline] if deadline is not None and deadline < 8 * max(hours) else [])])
    up = fit_axis(min(usd), max(usd), height - 46.0, 22.0, from_zero=max(usd) <= WIDE_RATIO * min(usd))
    return fit_axis(min(hours), most, room_of_ticks(up, money), width - 12.0), up


def _is_special(point: Breakpoint) -> bool:
    """Return whether a breakpoint has a marker of its own: best value, or the plan."""
    return point.is_marked or point.is_plan


def _marker_box(x: float, y: float) -> Box:
    """Return what no name may cover around a marker; the name of the marker itself is right next to it."""
    half = DOT_RADIUS + 1.5
    return x - half, y - half, x + half, y + half


def _special_dots(points: Sequence[Breakpoint], across: Axis, up: Axis) -> Iterator[Dot]:
    """Yield a ring around the best value, and the plan as a larger dot, in front of all curves."""
    for point in points:
        at = across.at(point.hours), up.at(point.usd)
        if point.is_marked:
            yield Dot(*at, DOT_RADIUS + 4, "accent", NONE, "best value")
        if point.is_plan:
            yield Dot(*at, DOT_RADIUS + 2, "paper", "accent", point.words)


def _dots(branch: Branch, radius: float, across: Axis, up: Axis) -> Iterator[Shape]:
    """Yield the dots of a curve: of hundreds of breakpoints only those with a name, the others would be one band."""
    many = len(branch.points) > MANY and radius == DOT_RADIUS
    for point in branch.points:
        if not many or point.label or point.is_marked or point.is_hollow:
            fill = "paper" if point.is_hollow else branch.role
            yield Dot(across.at(point.hours), up.at(point.usd), radius, branch.role, fill, point.words)


def _lines(runs: Sequence[Run], across: Axis, up: Axis) -> Iterator[tuple[tuple[tuple[float, float], ...], bool]]:
    """Yield lines in pixels, and whether the cost falls there in one step; levels reach up to the next run."""
    before: tuple[float, float] | None = None
    for h0, u0, h1, u1 in runs:
        if before is not None:
            level = (across.at(before[0]), up.at(before[1])), (across.at(h0), up.at(before[1]))
            if h0 > before[0]:
                yield level, False
            if u0 < before[1] * (1 - 1e-9):
                yield ((level[1]), (across.at(h0), up.at(u0))), True
        if h1 > h0:
            shares = [k / STROKES for k in range(STROKES + 1)]
            straight = not (across.is_log or up.is_log) or len(runs) > 60
            shares = [0.0, 1.0] if straight else shares
            yield tuple((across.at(h0 + s * (h1 - h0)), up.at(u0 + s * (u1 - u0))) for s in shares), False
        before = h1, u1
    if before is not None:
        yield ((across.at(before[0]), up.at(before[1])), (across.end, up.at(before[1]))), False


def _joined(
    lines: Iterator[tuple[tuple[tuple[float, float], ...], bool]],
) -> Iterator[tuple[tuple[tuple[float, float], ...], bool]]:
    """Yield the lines, those that continue each other as one."""
    whole: list[tuple[float, float]] = []
    for line, is_step in lines:
        if is_step or (whole and whole[-1] != line[0]):
            if whole:
                yield tuple(whole), False
            whole = []
        if is_step:
            yield line, True
        else:
            whole += line[1:] if whole else line
    if whole:
        yield tuple(whole), False


def _deadline(deadline: float | None, across: Axis, area: Box) -> tuple[list[Text], list[Box]]:
    """Return the name of the deadline, and the boxes of it and of its line."""
    if deadline is None or not across.low <= deadline <= across.high:
        return [], []
    at = across.at(deadline)
    on_left = at + 70 > area[2]
    text = Text(at - 5 if on_left else at + 5, 34, "deadline", "accent", "end" if on_left else "start")
    return [text], [text.box, (at - 2, area[1], at + 2, area[3])]


def _names(points: Sequence[Breakpoint], across: Axis, up: Axis) -> list[Name]:
    """Return the names of breakpoints, the most important first: the plan, the marked one, and both ends."""
    ends = 0, len(points) - 1
    order = sorted(range(len(points)), key=lambda i: (not points[i].is_plan, not points[i].is_marked, i not in ends, i))
    return [
        Name(
            point.label,
            "accent" if point.is_marked or point.is_plan else "ink",
            ((across.at(point.hours), up.at(point.usd)),),
        )
        for point in (points[index] for index in order)
        if point.label
    ]


def _name_of(branch: Branch, across: Axis, up: Axis) -> Name:
    """Return the name of a curve, with the places that it can have: the ends and between them."""
    points = branch.points
    chosen = [points[0], points[-1], *(points[len(points) * part // 4] for part in (1, 2, 3))]
    return Name(branch.name, branch.role, tuple((across.at(point.hours), up.at(point.usd)) for point in chosen))


CROSS = 4.0
"""Half the width of a cross."""

Place = tuple[float, float]


@dataclass(frozen=True)
class Trace:
    """Points in figures of both axes, as a line, as dots or as marks."""

    points: tuple[Place, ...]
    role: str
    name: str = ""
    """In the legend; empty for none."""
    width: float = 1.5
    """Of the line; 0 for none."""
    dashed: bool = False
    steps: Literal["", "after", "before"] = ""
    """Whether a figure holds up to the next point, or from the one before; empty: straight lines."""
    is_area: bool = False
    """Whether the area below steps is filled; those of earlier traces are in front of those of later ones."""
    is_striped: bool = False
    mark: Literal["", "dot", "point", "ring", "dash", "cross"] = ""
    words: tuple[str, ...] = ()
    """Of each dot or step, shown where the pointer rests on it."""


@dataclass(frozen=True)
class Labels:
    """What is written on a panel: the title above the vertical axis, ticks of both, and names in the chart."""

    title: str
    up: Callable[[float], str] = plain
    across: Callable[[float], str] = plain
    whole: bool = False
    """Whether the vertical axis has whole figures alone."""
    at: tuple[float, ...] = ()
    """Figures with a label on the horizontal axis; empty: round ones."""
    grid: tuple[float, ...] = ()
    """Figures with a line across the panel; empty: those with a label."""
    names: tuple[tuple[float, float, str, str], ...] = ()
    """Figures on both axes, text and role of names, placed where there is room next to their point."""
    moments: tuple[tuple[float, str, str], ...] = ()
    """Figures on the horizontal axis with name and role, named above the chart."""


def panel(traces: Sequence[Trace], across: Axis, up: Axis, labels: Labels, caption: Caption, width: float) -> Scene:
    """Return a chart of traces; the vertical axis ends below its title and above the horizontal axis."""
    top, bottom = up.end, up.start
    heading = Text(0, 12, labels.title, "muted")
    shapes: list[Shape] = [heading] if labels.title else []
    shapes += draw_up(up, across.start, width - 12, labels.up, labels.whole)
    shapes += draw_ticks(across, top, bottom, labels, caption.axis)
    for trace in reversed(traces):
        shapes += _areas(trace, across, up)
    for trace in traces:
        shapes += _line(trace, across, up)
    for trace in traces:
        shapes += _marks(trace, across, up)
    shapes += draw_moments(labels.moments, across, bottom, width)
    drawn = [place for trace in traces for place in _taken(trace, across, up)]
    wanted = [Name(text, role, ((across.at(x), up.at(y)),)) for x, y, text, role in labels.names]
    shapes += place_names(wanted, drawn, (across.start, top, width, bottom), [heading.box])[0]
    entries = [(trace.name, str(index), "") for index, trace in enumerate(traces) if trace.name]
    below = bottom + (44.0 if caption.axis else 24.0)
    legend, below = (
        draw_legend(entries, below - 2, width, functools.partial(_swatch, traces)) if entries else ([], below)
    )
    shapes += legend
    return Scene(width, below, caption.title, caption.description, tuple(shapes), axis_data(across, up))


def draw_ticks(across: Axis, top: float, bottom: float, labels: Labels, title: str) -> list[Shape]:
    """Return grid lines and labels of a horizontal axis at round figures, or at given ones as far as there is room."""
    if not labels.at:
        return draw_across(across, top, bottom, title, labels.across)
    shapes: list[Shape] = [
        Line(((across.at(value), top), (across.at(value), bottom)), "grid") for value in labels.grid or labels.at
    ]
    end = -1e9
    for value in sorted(labels.at):
        at, label = across.at(value), labels.across(value)
        half = text_width(label) / 2
        place = min(at, across.end + 12 - half)
        if place - half > end + 6:
            shapes.append(Text(place, bottom + 16, label, "muted", "middle"))
            end = place + half
    return [*shapes, *([Text(across.end, bottom + 34, title, "muted", "end")] if title else [])]


def corners(points: Sequence[Place], steps: str) -> list[Place]:
    """Return the corners of a line of steps: figures that hold up to the next point, or from the one before."""
    places = list(points[:1])
    for (x0, y0), (x1, y1) in itertools.pairwise(points):
        places += [(x1, y0)] if steps == "after" else [(x0, y1)] if steps == "before" else []
        places.append((x1, y1))
    return places


def _pixels(trace: Trace, across: Axis, up: Axis) -> list[Place]:
    return [(across.at(x), up.at(y)) for x, y in corners(trace.points, trace.steps)]


def _areas(trace: Trace, across: Axis, up: Axis) -> Iterable[Shape]:
    """Yield a rectangle below each step."""
    notes = trace.words or itertools.repeat("")
    for ((x0, y0), (x1, _)), note in zip(itertools.pairwise(trace.points), notes, strict=False):
        if trace.is_area and y0 > 0:
            left, high = across.at(x0), up.at(y0)
            yield Rect(left, high, across.at(x1) - left, up.start - high, trace.role, note, trace.is_striped)


def _line(trace: Trace, across: Axis, up: Axis) -> list[Shape]:
    line = tuple(_pixels(trace, across, up))
    return [Line(line, trace.role, trace.width, trace.dashed)] if trace.width and len(line) > 1 else []


def _marks(trace: Trace, across: Axis, up: Axis) -> Iterable[Shape]:
    for (x, y), words in zip(trace.points, trace.words or itertools.repeat(""), strict=False):
        yield from draw_mark(trace, across.at(x), up.at(y), words)


def draw_mark(trace: Trace, x: float, y: float, words: str = "") -> list[Shape]:
    """Return the mark of a trace at a place in pixels."""
    if trace.mark in ("dot", "point"):
        return [Dot(x, y, 4.0 if trace.mark == "dot" else 2.0, trace.role, trace.role, words)]
    if trace.mark == "ring":
        return [Dot(x, y, 7.0, trace.role, NONE)]
    if trace.mark == "dash":
        return [Line(((x - 5, y), (x + 5, y)), trace.role, 2.0)]
    if trace.mark == "cross":
        ends = ((-CROSS, -CROSS, CROSS, CROSS), (-CROSS, CROSS, CROSS, -CROSS))
        return [Line(((x + x0, y + y0), (x + x1, y + y1)), trace.role, 2.0) for x0, y0, x1, y1 in ends]
    return []


def _swatch(traces: Sequence[Trace], index: str, x: float, y: float) -> list[Shape]:
    """Return the key of a trace in the legend: a piece of its line or area, and its mark."""
    trace = traces[int(index)]
    shapes: list[Shape] = [Rect(x, y - 10, 11, 11, trace.role, "", trace.is_striped)] if trace.is_area else []
    if trace.width:
        shapes.append(Line(((x, y - 4), (x + 11, y - 4)), trace.role, trace.width, trace.dashed))
    return [*shapes, *draw_mark(trace, x + 6, y - 4)]


def _taken(trace: Trace, across: Axis, up: Axis) -> list[Place]:
    """Return places that no name may cover."""
    line = _pixels(trace, across, up)
    return [*line, *along(line)] if trace.width else line


SKETCH_WIDTH = 520.0
"""CSS pixels of a picture in a notebook."""
MOST_ROWS_SKETCHED = 24
"""Most bars or lanes; the table below the picture has all."""


class Charge(Protocol):
    """A line of a bill."""

    @property
    def item(self) -> str:
        """What is paid for."""

    @property
    def usd(self) -> float:
        """Dollars."""


class Placed(Protocol):
    """A job on its machines, as a plan has it: the attributes of an `Assignment` that are drawn."""

    @property
    def name(self) -> str:
        """The job."""

    @property
    def gpu(self) -> str:
        """The GPU."""

    @property
    def gpus(self) -> int:
        """Number of GPUs."""

    @property
    def provider(self) -> str:
        """Who rents the machine out."""

    @property
    def start_at_hours(self) -> float:
        """When it begins."""

    @property
    def end_at_hours(self) -> float | None:
        """When it ends; None if that is unknown."""

    @property
    def bill(self) -> Sequence[Charge]:
        """What it costs."""


def plan_picture(jobs: Sequence[Placed], is_timetable: bool) -> str:
    """Return the timetable of jobs that take turns, else the bill, as SVG."""
    return timetable_sketch(jobs) if is_timetable else bill_sketch(jobs)


def bill_sketch(jobs: Sequence[Placed]) -> str:
    """Return the bill of each job as a stacked bar; empty where nothing costs anything."""
    rows = []
    for job in jobs:
        parts = tuple((line.item, line.usd) for line in job.bill if round(line.usd, 2) > 0)
        rows.append(Stack(job.name, parts, f"${sum(line.usd for line in job.bill):,.2f}"))
    rows = [row for row in rows if row.parts][:MOST_ROWS_SKETCHED]
    words = "; ".join(f"{row.label}: {row.words}" for row in rows)
    caption = Caption("Bill", f"Bill by item: {words}")
    return notebook_svg(stacked(rows, caption, lambda usd: f"${usd:,.2f}", "", SKETCH_WIDTH)) if rows else ""


def timetable_sketch(jobs: Sequence[Placed]) -> str:
    """Return which job runs when, a lane for each job in the order of their starts; empty without jobs."""
    if not jobs:
        return ""
    machines = {job.name: f"{job.gpus} x {job.gpu}, {job.provider}" for job in jobs}
    cards = {machines[job.name]: job.gpu for job in jobs}
    roles = dict(zip(cards, roles_of(list(cards.values())), strict=True))
    ordered = sorted(jobs, key=lambda job: (job.start_at_hours, job.name))
    rows = []
    for job in ordered[:MOST_ROWS_SKETCHED]:
        where, end = machines[job.name], job.end_at_hours or job.start_at_hours
        rows.append(Lane(job.name, (Stretch(job.start_at_hours, end, roles[where], "", f"{job.name}: {where}"),)))
    words = "; ".join(f"{job.name}: from {job.start_at_hours:.1f} h on {machines[job.name]}" for job in ordered)
    legend = list(roles.items())[: len(SERIES)]
    return notebook_svg(lanes(rows, (), legend, Caption("Timetable", words, "hours"), SKETCH_WIDTH))


def frontier_sketch(points: Sequence[Breakpoint], runs: Sequence[Run], confidence: float | None) -> str:
    """Return cost against time; empty without points."""
    if not points:
        return ""
    sure = f" ({confidence * 100:.0f} %)" if confidence is not None else ""
    ends = f"${points[0].usd:,.2f} by {points[0].hours:.3g} h to ${points[-1].usd:,.2f} by {points[-1].hours:.3g} h"
    caption = Caption("Cost against time", ends, f"ends by{sure}, hours")
    return notebook_svg(curve(points, runs, None, caption, SKETCH_WIDTH))
