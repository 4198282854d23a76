"""Results of what-if as pictures: two bills, a curve, a heat map, a tornado."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

from planner.report import format as words
from planner.report.plots.style import (
    ACCENT_COLOR,
    COLORS,
    MUTED_COLOR,
    TEXT_COLOR,
    draw_title,
    open_figure,
    tick,
    write_picture,
)
from planner.report.what_if.sweep import axis_name, describe_hardware, format_axis_values
from planner.report.what_if.tornado import effect_of, is_visible
from planner.results.what_if import Axis, Sweep, Tornado, WhatIf

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from planner.results.plan import Plan

MAX_WRITTEN = 12
"""Rows or columns up to which the cells of a heat map show their figure."""

MAX_LABELLED_ROWS = 6
"""Columns up to which they also show the machines."""


def draw(answer: WhatIf | Sweep | Tornado, path: str | Path, caption: Sequence[str] = ()) -> None:
    """Draw a result into a file; raises like `write_picture`."""
    if isinstance(answer, WhatIf):
        _bills(answer, path, caption)
    elif isinstance(answer, Tornado):
        _tornado(answer, path, caption)
    elif len(answer.axes) == 1:
        _curve(answer, path, caption)
    else:
        _heat_map(answer, path, caption)


def _bills(answer: WhatIf, path: str | Path, caption: Sequence[str]) -> None:
    """Draw before and after as one bar each, made of the lines of their bills."""
    plans = (("before", answer.before), ("after", answer.after))
    bills = [_bill(plan) for _, plan in plans]
    items = list(dict.fromkeys(item for bill in bills for item in bill))
    shown = [item for item in items if any(abs(bill.get(item, 0.0)) >= 0.005 for bill in bills)]
    with open_figure(8.0, 3.2) as (figure, axes):
        left = [0.0, 0.0]
        for index, item in enumerate(shown):
            widths = [bill.get(item, 0.0) for bill in bills]
            name, color = item.replace("gpu ", "GPU "), COLORS[index % len(COLORS)]
            axes.barh([1, 0], widths, left=left, color=color, label=name, height=0.55)
            left = [start + width for start, width in zip(left, widths, strict=True)]
        for place, end, (_, plan) in zip((1, 0), left, plans, strict=True):
            axes.text(end, place, f" {_describe_end(plan)}", va="center", color=TEXT_COLOR)
        axes.set_yticks([1, 0], [name for name, _ in plans])
        axes.set_xlim(0, max(*left, 0.01) * 1.35)
        axes.xaxis.set_major_formatter(tick)
        axes.set_xlabel("expected US dollars")
        draw_title(figure, caption[0] if caption else answer.scenario)
        if shown:
            axes.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.28), ncols=min(4, len(shown)))
        write_picture(figure, path, caption)


def _bill(plan: Plan) -> dict[str, float]:
    found: dict[str, float] = {}
    for job in plan.jobs:
        for line in job.bill:
            found[line.item] = found.get(line.item, 0.0) + line.usd
    return found


def _describe_end(plan: Plan) -> str:
    if plan.cost_usd is None or plan.hours is None:
        return plan.status.replace("_", " ")
    return f"{words.usd(plan.cost_usd.expected)}, {words.hours(plan.hours.expected)}"


def _curve(answer: Sweep, path: str | Path, caption: Sequence[str]) -> None:
    """Draw cost above, hours below; a circle marks other machines than at the previous value."""
    places, ticks = _places(answer, 0)
    with open_figure(8.0, 5.2, rows=2) as (figure, (above, below)):
        for axes, name, color in ((above, "cost_usd", COLORS[0]), (below, "hours", COLORS[2])):
            values = [getattr(cell, name) for cell in answer.cells]
            numbers = [float("nan") if value is None else value for value in values]
            axes.plot(places, numbers, color=color, marker="o", markersize=4, drawstyle=step_style(answer.axes[0]))
            axes.margins(y=0.12)
            axes.set_ylim(bottom=0)
            last = ""
            for place, value, cell in zip(places, values, answer.cells, strict=True):
                what = describe_hardware(cell)
                if value is not None and what != last:
                    axes.plot([place], [value], marker="o", markersize=9, fillstyle="none", color=ACCENT_COLOR)
                elif value is None:
                    axes.plot([place], [0], marker="x", color=ACCENT_COLOR, clip_on=False)
                last = what
            axes.yaxis.set_major_formatter(tick)
            if ticks:
                axes.set_xticks(places, ticks if axes is below else [""] * len(ticks), rotation=30, ha="right")
        above.set_ylabel("expected dollars")
        below.set_ylabel("expected hours")
        unit = f", {answer.axes[0].unit}" if answer.axes[0].unit else ""
        below.set_xlabel(f"{axis_name(answer.axes[0].path)}{'' if ticks else unit}; circle: other machines, x: no plan")
        draw_title(figure, caption[0] if caption else answer.scenario)
        write_picture(figure, path, caption)


def step_style(axis: Axis) -> str:
    """Return how values are joined: between two values of a limit the plan of the tighter one holds."""
    numbers = axis.numbers or ()
    if not axis.looser_direction or len(numbers) < 2:
        return "default"
    return "steps-post" if (axis.looser_direction == "up") == (numbers[1] > numbers[0]) else "steps-pre"


def _places(answer: Sweep, axis: int) -> tuple[list[float], list[str]]:
    """Return the positions of the values, and their labels; no labels for an axis of numbers."""
    varied = answer.axes[axis]
    if varied.numbers is not None:
        return list(varied.numbers), []
    return [float(index) for index in range(len(varied.values))], format_axis_values(answer, axis)


def _heat_map(answer: Sweep, path: str | Path, caption: Sequence[str]) -> None:
    """Draw cost by colour, from pale to dark; cells without a plan are grey."""
    rows, columns = answer.shape
    costs = [[_cost(answer, row * columns + column) for column in range(columns)] for row in range(rows)]
    with open_figure(8.0, max(3.2, min(8.0, 1.6 + 0.45 * rows))) as (figure, axes):
        axes.set_facecolor(MUTED_COLOR)
        known = [cost for row in costs for cost in row if cost == cost]
        image = axes.imshow(
            costs, cmap="YlGnBu", aspect="auto", vmin=min(known, default=0.0), vmax=max(known, default=1.0)
        )
        if rows <= MAX_WRITTEN and columns <= MAX_WRITTEN:
            _write_figures(axes, answer, costs, (min(known, default=0.0) + max(known, default=1.0)) / 2)
        for axis, set_ticks in ((0, axes.set_yticks), (1, axes.set_xticks)):
            names = format_axis_values(answer, axis)
            every = max(1, len(names) // MAX_WRITTEN)
            set_ticks(range(0, len(names), every), names[::every])
        axes.set_ylabel(axis_name(answer.axes[0].path))
        axes.set_xlabel(axis_name(answer.axes[1].path))
        draw_title(figure, caption[0] if caption else answer.scenario)
        figure.colorbar(image, format=tick, label="expected US dollars; grey: no plan")
        write_picture(figure, path, caption)


def _write_figures(axes: Any, answer: Sweep, costs: list[list[float]], middle: float) -> None:
    """Write dollars in every cell, and the machines if there is room."""
    for row, line in enumerate(costs):
        for column, cost in enumerate(line):
            text = words.usd(cost) if cost == cost else "no plan"
            jobs = answer.cells[row * len(line) + column].jobs
            if len(line) <= MAX_LABELLED_ROWS and len(jobs) == 1:
                text += f"\n{jobs[0].machines}"
            color = "white" if cost > middle else TEXT_COLOR
            axes.text(column, row, text, ha="center", va="center", fontsize=8, color=color)


def _cost(answer: Sweep, index: int) -> float:
    cost = answer.cells[index].cost_usd
    return float("nan") if cost is None else cost


def _tornado(answer: Tornado, path: str | Path, caption: Sequence[str]) -> None:
    """Draw one bar per visible effect, more expensive or later to the right; a cross marks an end without a plan."""
    by_time = answer.better == "sooner"
    lines = [(name, bar) for name, bar in answer.lines if is_visible(answer, bar)][::-1]
    with open_figure(8.0, 1.6 + 0.32 * max(1, len(lines))) as (figure, axes):
        base = _figure(answer.base, by_time)
        for place, (_, bar) in enumerate(lines):
            ends = [
                (effect_of(end, answer.base, by_time), color)
                for end, color in ((bar.down, COLORS[0]), (bar.up, COLORS[1]))
            ]
            for change, color in sorted(ends, key=lambda pair: -abs(pair[0] or 0.0)):
                if change is not None:
                    axes.barh(place, change, left=base, color=color, height=0.6)
                else:
                    axes.plot(
                        [1.0], [place], marker="x", color=color, transform=axes.get_yaxis_transform(), clip_on=False
                    )
        axes.axvline(base, color=TEXT_COLOR, linewidth=1)
        axes.xaxis.set_major_formatter(tick)
        axes.set_yticks(range(len(lines)), [textwrap.fill(name, 28) for name, _ in lines])
        share = f"{answer.by * 100:.3g} %"
        what = "hours" if by_time else "US dollars"
        axes.set_xlabel(f"expected {what}; blue: {share} less, red: {share} more, x: no plan")
        draw_title(figure, caption[0] if caption else answer.scenario)
        write_picture(figure, path, caption)


def _figure(plan: Plan, by_time: bool) -> float:
    if by_time:
        return plan.hours.expected if plan.hours else 0.0
    return plan.cost_usd.expected if plan.cost_usd else 0.0
