"""Charts of figures against figures: lines, steps and areas with dots, names and a legend."""

from __future__ import annotations

import functools
import itertools
from typing import TYPE_CHECKING, Literal

from planner.drawing.axis import (
    Axis,
    Name,
    along,
    axis_data,
    draw_across,
    draw_legend,
    draw_moments,
    draw_up,
    place_names,
    plain,
)
from planner.drawing.scene import NONE, Caption, Dot, Line, Rect, Scene, Shape, Text, text_width
from planner.records import record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

CROSS = 4.0
"""Half the width of a cross."""

Place = tuple[float, float]


@record(frozen=True)
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


@record(frozen=True)
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
    """Return what stands for a trace in the legend: a piece of its line or area, and its mark."""
    trace = traces[int(index)]
    shapes: list[Shape] = [Rect(x, y - 10, 11, 11, trace.role, "", trace.is_striped)] if trace.is_area else []
    if trace.width:
        shapes.append(Line(((x, y - 4), (x + 11, y - 4)), trace.role, trace.width, trace.dashed))
    return [*shapes, *draw_mark(trace, x + 6, y - 4)]


def _taken(trace: Trace, across: Axis, up: Axis) -> list[Place]:
    """Return places that no name may cover."""
    line = _pixels(trace, across, up)
    return [*line, *along(line)] if trace.width else line
