"""Charts of figures against figures: cost against time, and lines, steps and areas with dots and a legend."""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from planner.drawing.axis import (
    WIDE_RATIO,
    Axis,
    Box,
    Name,
    along,
    axis_data,
    draw_across,
    draw_legend,
    draw_moments,
    draw_up,
    fit_axis,
    money,
    place_names,
    plain,
    room_of_ticks,
)
from planner.drawing.bars import BESIDE
from planner.drawing.scene import NONE, Caption, Dot, Line, Rect, Scene, Shape, Text, text_width

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence


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
    found = list(points[:1])
    for (x0, y0), (x1, y1) in itertools.pairwise(points):
        found += [(x1, y0)] if steps == "after" else [(x0, y1)] if steps == "before" else []
        found.append((x1, y1))
    return found


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
