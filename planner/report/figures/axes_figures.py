"""Frontiers, sweeps and tornados on the Matplotlib axes of a caller, in the units of the data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner.errors import NoPlanError
from planner.results.frontier import Frontier
from planner.results.plan_parts import dollars
from planner.results.what_if import Sweep, Tornado

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.results.frontier import Point, Segment

ON_AXES = (Frontier, Sweep, Tornado)
"""Results that can be drawn on axes."""
_MOST_BARS = 12
"""Bars of a tornado: those with the largest effect."""
_COST, _HOURS = "expected cost, $", "ends by, hours"
_NO_FIGURE = float("nan")


def draw_on(ax: Any, result: Frontier | Sweep | Tornado) -> None:
    """Draw a result on axes; NoPlanError where nothing has a plan. Only methods of the axes are called."""
    if isinstance(result, Frontier):
        _draw_frontier(ax, result)
    elif isinstance(result, Sweep):
        _draw_sweep(ax, result)
    else:
        _draw_tornado(ax, result)
    ax.set_title(result.scenario)


def _draw_frontier(ax: Any, found: Frontier) -> None:
    curves = [("", found.points, found.segments)]
    if found.curves:
        curves = [(curve.label, curve.points, curve.segments) for curve in found.curves]
    if not any(points for _, points, _ in curves):
        raise NoPlanError("nothing to draw: the frontier has no points")
    for number, (label, points, segments) in enumerate(curves):
        if points:
            _draw_curve(ax, label, points, segments, f"C{number}")
    if found.knee is not None:
        knee = found.points[found.knee]
        ax.plot([knee.hours], [knee.cost_usd], "o", markersize=10, fillstyle="none", color="black", label="best value")
    ax.set_xlabel(_HOURS if found.confidence is None else f"{_HOURS} ({found.confidence:.0%})")
    ax.set_ylabel(_COST)
    if found.curves:
        ax.legend()


def _draw_curve(ax: Any, label: str, points: Sequence[Point], segments: Sequence[Segment], color: str) -> None:
    """Draw the slopes as lines, and a dot for each breakpoint."""
    for segment in segments:
        ends = ([segment.hours_from, segment.hours_to], [segment.cost_from_usd, segment.cost_to_usd])
        ax.plot(*ends, "-", color=color)
    hours, usd = [point.hours for point in points], [point.cost_usd for point in points]
    ax.plot(hours, usd, "o", markersize=4, color=color, label=label or "breakpoints")


def _draw_sweep(ax: Any, found: Sweep) -> None:
    """Draw cost along one axis as a line, of two axes as a heat map; cells without a plan stay empty."""
    costs = [_NO_FIGURE if cell.cost_usd is None else cell.cost_usd for cell in found.cells]
    if all(cost != cost for cost in costs):
        raise NoPlanError("nothing to draw: no cell has a plan")
    first = found.axes[0]
    if len(found.axes) == 1:
        places = list(range(len(first.values))) if first.numbers is None else list(first.numbers)
        ax.plot(places, costs, "o-")
        ax.set_xticks(places, first.values)
        ax.set_xlabel(first.path)
        ax.set_ylabel(_COST)
        return
    second = found.axes[1]
    width = len(second.values)
    mesh = ax.pcolormesh([costs[start : start + width] for start in range(0, len(costs), width)])
    ax.set_xticks([place + 0.5 for place in range(width)], second.values)
    ax.set_yticks([place + 0.5 for place in range(len(first.values))], first.values)
    ax.set_xlabel(second.path)
    ax.set_ylabel(first.path)
    ax.figure.colorbar(mesh, ax=ax, label=_COST)


def _draw_tornado(ax: Any, found: Tornado) -> None:
    """Draw a bar from the figure at the lower value to that at the higher one; an end without a plan has none."""
    is_time = found.better == "sooner"
    hours = found.base.hours
    base = found.base.cost_usd if not is_time else hours.expected if hours else None
    if base is None:
        raise NoPlanError("nothing to draw: there is no plan without changes")
    lines = found.lines[:_MOST_BARS]
    for place, (_, bar) in enumerate(reversed(lines)):
        for end, color in ((bar.down, "C0"), (bar.up, "C1")):
            figure = end.hours if is_time else end.cost_usd
            if figure is not None:
                ax.barh(place, figure - base, left=base, color=color)
            else:
                ax.text(base, place, end.status, va="center", color=color)
    ax.axvline(base, color="black", linewidth=1)
    ax.set_yticks(range(len(lines)), [name for name, _ in reversed(lines)])
    unit = "likely hours" if is_time else f"{_COST}; {dollars(base)} without changes"
    ax.set_xlabel(f"{unit}; blue: {found.by:.0%} less, orange: {found.by:.0%} more")
