"""A frontier as a picture: dollars against hours, dotted where the cost falls in one step."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from planner.report import format as words
from planner.report.frontier import format_point, format_summary, knee
from planner.report.plots.style import (
    ACCENT_COLOR,
    COLORS,
    COST_LABEL,
    MUTED_COLOR,
    NOTE_SIZE,
    TEXT_COLOR,
    finish_label,
    open_picture,
    tick,
    tick_usd,
)
from planner.results.differences import method_name
from planner.results.frontier import Curve, Frontier, Point, Segment, select_points

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

LABELS = 9
"""Most breakpoints with a label."""

WIDE_RANGE = 8
"""Ratio of the largest to the smallest figure from which an axis is logarithmic."""

VERY_WIDE_RANGE = 500
"""The same ratio from which only powers of ten have a tick."""

LABEL_OFFSETS = (
    (7, 5, "left"),
    (7, 20, "left"),
    (12, 36, "left"),
    (-7, -16, "right"),
    (-7, -30, "right"),
    (20, 54, "left"),
    (7, -16, "left"),
    (30, 74, "left"),
    (-7, 8, "right"),
    (40, 96, "left"),
    (-14, -46, "right"),
)
"""Offsets of a label from its point in typographic points, tried in this order: up and right is usually free."""

FAR = 16
"""Offset from which a thin line connects label and point."""

SLOPE_STROKES = 16
"""Straight strokes of a slope."""

STROKE_POINTS, LEADER_POINTS = 41, 13
"""Points along a stroke of the frontier and along a thin line, so close that no label fits between them."""

DOT, MARGIN = 4, 1.5
"""Half the width of a breakpoint, and the space around a label, in pixels."""


def draw_frontier(found: Frontier, path: str | Path, caption: Sequence[str]) -> None:
    """Draw the frontier, or one line per curve, into a file; `caption` is the text that an HTML page shows below it.

    Raises like `open_picture`.
    """
    curves = [curve for curve in found.curves if curve.points]
    whole = {"color": TEXT_COLOR, "alpha": 0.15, "linewidth": 6}
    title = "; ".join(text for text in (format_summary(found), knee(found)) if text)
    with open_picture(path, caption, height=4.4, title=title) as (figure, axes):
        if curves:
            first, names = _select_curves(found, curves), []
            _line(axes, found.segments, found.points, whole, "frontier of all allowed", 0)
            others = [curve for curve in curves if curve not in first]
            muted = {"color": MUTED_COLOR, "alpha": 0.5, "linewidth": 0.8}
            for curve in others:
                _line(axes, curve.segments, curve.points, muted, "", 0)
            for color, curve in zip(COLORS, first, strict=False):
                name = words.sanitise(curve.label) + ("" if curve.allowed else " (excluded)")
                _line(axes, curve.segments, curve.points, {"color": color}, "", 2.5)
                names.append((curve, name, color))
            if others:
                axes.plot([], [], label=f"{len(others)} others", **muted)
        else:
            if found.separate:
                style = {"color": MUTED_COLOR, "linewidth": 0.8}
                _line(axes, found.separate, (), style, "lower bound: each job alone", 0)
                axes.legend()
            _line(axes, found.segments, found.points, {"color": COLORS[0]}, "", 4)
        points = [point for curve in curves for point in curve.points] or list(found.points)
        _axes(axes, points, found)
        if curves:
            _mark_knee(axes, found)
            _name_curves(figure, axes, names)
        else:
            _labels(figure, axes, found)


def _select_curves(found: Frontier, curves: Sequence[Curve]) -> list[Curve]:
    """Return one curve per colour: those that make up the frontier first, then the cheapest."""
    legs = {getattr(job, found.by or "method") for segment in found.segments for job in segment.jobs}
    chosen = sorted(curves, key=lambda curve: (curve.label not in legs, curve.points[-1].cost_usd))[: len(COLORS)]
    return [curve for curve in curves if curve in chosen]


def _line(
    axes: Any, segments: Sequence[Segment], points: Sequence[Point], style: dict[str, Any], name: str, dot: float
) -> None:
    """Draw slopes and levels as lines, steps dotted, a dot at each breakpoint."""
    runs = list(_runs(segments, points))
    hours, usd = [runs[0][0]], [runs[0][1]]
    for x0, y0, x1, y1 in runs:
        if x0 > hours[-1]:
            hours.append(x0)
            usd.append(usd[-1])
        if y0 < usd[-1] * (1 - 1e-9):
            axes.plot(
                [x0, x0], [usd[-1], y0], color=style["color"], linestyle=":", linewidth=1.0, alpha=style.get("alpha")
            )
            hours.append(float("nan"))
            usd.append(float("nan"))
        # A straight line of dollars over hours is a curve on a logarithmic axis.
        parts = SLOPE_STROKES if x1 > x0 else 1
        hours += [x0 + (x1 - x0) * k / parts for k in range(parts + 1)]
        usd += [y0 + (y1 - y0) * k / parts for k in range(parts + 1)]
    axes.plot(hours, usd, label=name or None, **{"linewidth": 1.6, **style})
    for spot_only, fill in ((False, style["color"]), (True, "white")):
        some = [point for point in points if point.spot_only is spot_only and dot]
        at = [point.hours for point in some], [point.cost_usd for point in some]
        axes.plot(*at, "o", color=style["color"], markerfacecolor=fill, markersize=dot)


def _runs(segments: Sequence[Segment], points: Sequence[Point]) -> Iterator[tuple[float, float, float, float]]:
    """Yield segments, and the points that lie on none of them, from left to right."""
    runs = [(segment.hours_from, segment.cost_from_usd, segment.hours_to, segment.cost_to_usd) for segment in segments]
    ends = {hours for run in runs for hours in (run[0], run[2])}
    runs += [(point.hours, point.cost_usd, point.hours, point.cost_usd) for point in points if point.hours not in ends]
    yield from sorted(runs, key=lambda run: (run[2], run[0]))


def _axes(axes: Any, points: Sequence[Point], found: Frontier) -> None:
    """Set scales and labels: logarithmic for a wide range, with round figures on the ticks."""
    hollow = "; hollow: spot only, no guarantee" if any(point.spot_only for point in points) else ""
    axes.set_xlabel(f"{finish_label(found.confidence)}{hollow}")
    axes.set_ylabel(COST_LABEL)
    for values, axis, scale, limit in (
        ([point.hours for point in points], axes.xaxis, axes.set_xscale, axes.set_xlim),
        ([point.cost_usd for point in points], axes.yaxis, axes.set_yscale, axes.set_ylim),
    ):
        low, high = min(values), max(values)
        if low > 0 and high > WIDE_RANGE * low:
            scale("log")
            limit(low / 1.25, high * 1.6)
            axis.set_ticks(_round_figures(low / 1.25, high * 1.6))
            axis.set_ticks([], minor=True)
        else:
            # Dollars start at zero to show proportions; hours need no zero.
            limit(0 if axis is axes.yaxis else None, high * 1.15 if high > 0 else 1)
        axis.set_major_formatter(tick_usd if axis is axes.yaxis else tick)
    axes.grid(True, color=MUTED_COLOR, alpha=0.2, linewidth=0.6)


def _round_figures(low: float, high: float) -> list[float]:
    """Return 1, 2 and 5 times powers of ten within a range; of a very wide one the powers alone."""
    digits = (1, 2, 5) if high < VERY_WIDE_RANGE * low else (1,)
    figures = (m * 10.0**e for e in range(-6, 12) for m in digits)
    return [value for value in figures if low <= value <= high]


def _mark_knee(axes: Any, found: Frontier) -> None:
    """Mark the knee of the frontier only; marks of the curves would overlap."""
    if found.knee is not None:
        at = [found.points[found.knee].hours], [found.points[found.knee].cost_usd]
        axes.plot(*at, "o", markersize=10, markerfacecolor="none", markeredgecolor=ACCENT_COLOR, gid="knee")


def _labels(figure: Any, axes: Any, found: Frontier) -> None:
    """Label the knee with its reason, then the most important breakpoints; skip labels without a free place."""
    dots, line = _drawn(figure, axes, found.points)
    taken: list[Any] = []
    shown = select_points(found.points, LABELS)
    texts = {index: _short(found.points[index]) for index in shown}
    # A machine is named where it first appears: a name repeated along the line says nothing.
    named = [at for last, at in zip([None, *shown], shown, strict=False) if last is None or texts[at] != texts[last]]
    named = sorted({*named, *(at for at in shown if at == found.knee)})
    for index in sorted(named, key=lambda i: (i != found.knee, i not in (0, len(found.points) - 1), i)):
        point = found.points[index]
        text, color = texts[index], TEXT_COLOR
        if index == found.knee:
            _mark_knee(axes, found)
            text, color = f"knee: {text},\n{format_point(point)}", ACCENT_COLOR
        _place(axes, point, text, color, dots, line, taken)


def _name_curves(figure: Any, axes: Any, curves: Sequence[tuple[Curve, str, str]]) -> None:
    """Write the name of each curve at one of its ends or in its middle; a legend has those without a free place."""
    dots, line = _drawn(figure, axes, [point for curve, _, _ in curves for point in curve.points])
    taken: list[Any] = []
    for curve, name, color in curves:
        points = curve.points
        places = [points[0], points[-1], *(points[len(points) * part // 4] for part in (1, 2, 3))]
        if not any(_place(axes, point, name, color, dots, line, taken) for point in places):
            axes.plot([], [], color=color, linewidth=1.6, label=name)
    axes.legend(loc="upper right")


def _drawn(figure: Any, axes: Any, points: Sequence[Point]) -> tuple[Any, list[Any]]:
    """Return the places of the points in pixels, shape (points, 2), and arrays of places along what is drawn."""
    figure.draw_without_rendering()  # positions are known only after the layout
    dots = axes.transData.transform([(point.hours, point.cost_usd) for point in points])
    strokes = [
        stroke for drawn in axes.lines if drawn.get_alpha() is None for stroke in itertools.pairwise(drawn.get_xydata())
    ]
    return dots, [dots, *(axes.transData.transform(np.linspace(*stroke, STROKE_POINTS)) for stroke in strokes)]


def _short(point: Point) -> str:
    """Return `4 x H100-80GB, QLoRA`, or only the GPUs of several jobs."""
    machines = ", ".join(words.gpus(job.gpus, job.gpu, job.runs_at_once) for job in point.jobs)
    if len(point.jobs) == 1:
        return words.sanitise(f"{machines}, {method_name(point.jobs[0].techniques)}")
    return words.shorten(words.sanitise(machines), 44)


def _place(axes: Any, point: Point, text: str, color: str, dots: Any, line: list[Any], taken: list[Any]) -> bool:
    """Draw a label at the first free place, if there is one; a thin line connects it to its point if that is far.

    Parameters
    ----------
    dots
        Places of the breakpoints in pixels, shape (points, 2).
    line
        Arrays of places that no label may cover, along the frontier and the thin lines; the new one is added.
    taken
        Boxes of the labels; the new one is added.
    """
    covered = np.vstack(line)
    for dx, dy, side in LABEL_OFFSETS:
        at: dict[str, Any] = {"xy": (point.hours, point.cost_usd), "xytext": (dx, dy), "textcoords": "offset points"}
        up = "bottom" if dy > 0 else "center"
        note = axes.annotate(text, ha=side, va=up, fontsize=NOTE_SIZE, color=color, **at)
        box = note.get_window_extent().padded(MARGIN)
        ends = axes.transData.transform(at["xy"]), note.get_transform().transform(note.get_position())
        leader = np.linspace(*ends, LEADER_POINTS)[: -1 if abs(dy) > FAR else 0]
        if (
            axes.get_window_extent().count_contains(box.get_points()) == 2
            and not box.padded(DOT).count_contains(dots)
            and not box.count_contains(covered)
            and not any(box.overlaps(other) or other.count_contains(leader) for other in taken)
        ):
            taken.append(box)
            line.append(leader)
            if len(leader):
                axes.annotate("", arrowprops={"arrowstyle": "-", "color": MUTED_COLOR, "linewidth": 0.6}, **at)
            return True
        note.remove()
    return False
