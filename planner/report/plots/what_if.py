"""Results of what-if as pictures: two bills, a curve, a heat map, a tornado."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import numpy as np

from planner.report import format as words
from planner.report.plots.style import ACCENT_COLOR, COLORS, MUTED_COLOR, TEXT_COLOR, open_picture, tick
from planner.report.what_if.sweep import axis_name, describe_hardware, format_axis_values
from planner.report.what_if.tornado import is_visible, longest_first
from planner.results.what_if import Axis, Sweep, Tornado, WhatIf

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from planner.results.plan import Plan

MAX_WRITTEN = 12
"""Rows or columns up to which the cells of a heat map show their figure."""

MAX_LABELLED_ROWS = 6
"""Columns up to which they also show the machines."""


def draw(answer: WhatIf | Sweep | Tornado, path: str | Path, caption: Sequence[str]) -> None:
    """Draw a result into a file; raises like `open_picture`."""
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
    with open_picture(path, caption, height=3.2) as (_, axes):
        left = [0.0, 0.0]
        for index, item in enumerate(shown):
            widths = [bill.get(item, 0.0) for bill in bills]
            name, color = item.replace("gpu ", "GPU "), COLORS[index % len(COLORS)]
            axes.barh([1, 0], widths, left=left, color=color, label=name, height=0.55)
            left = [start + width for start, width in zip(left, widths, strict=True)]
        for place, end, (_, plan) in zip((1, 0), left, plans, strict=True):
            text = plan.status.replace("_", " ")
            if plan.cost_usd and plan.hours:
                text = f"{words.usd(plan.cost_usd.expected)}, {words.hours(plan.hours.expected)}"
            axes.text(end, place, f" {text}", va="center", color=TEXT_COLOR)
        axes.set_yticks([1, 0], [name for name, _ in plans])
        axes.set_xlim(0, max(*left, 0.01) * 1.35)
        axes.xaxis.set_major_formatter(tick)
        axes.set_xlabel("expected US dollars")
        if shown:
            axes.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.28), ncols=min(4, len(shown)))


def _bill(plan: Plan) -> dict[str, float]:
    found: dict[str, float] = {}
    for job in plan.jobs:
        for line in job.bill:
            found[line.item] = found.get(line.item, 0.0) + line.usd
    return found


def _curve(answer: Sweep, path: str | Path, caption: Sequence[str]) -> None:
    """Draw cost above, hours below; a circle marks other machines than at the previous value."""
    places, ticks = _places(answer, 0)
    with open_picture(path, caption, height=5.2, rows=2) as (_, (above, below)):
        for axes, name, color in ((above, "cost_usd", COLORS[0]), (below, "hours", COLORS[2])):
            values = [getattr(cell, name) for cell in answer.cells]
            known, style = np.array(values, dtype=float), step_style(answer.axes[0])
            axes.plot(places, known, color=color, marker="o", markersize=4, drawstyle=style)
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
    costs = np.array([cell.cost_usd for cell in answer.cells], dtype=float).reshape(rows, columns)
    known = [cell.cost_usd for cell in answer.cells if cell.cost_usd is not None]
    low, high = min(known, default=0.0), max(known, default=1.0)
    with open_picture(path, caption, height=max(3.2, min(8.0, 1.6 + 0.45 * rows))) as (figure, axes):
        axes.set_facecolor(MUTED_COLOR)
        image = axes.imshow(costs, cmap="YlGnBu", aspect="auto", vmin=low, vmax=high)
        for index, cell in enumerate(answer.cells if max(rows, columns) <= MAX_WRITTEN else ()):
            text = "no plan" if cell.cost_usd is None else words.usd(cell.cost_usd)
            if columns <= MAX_LABELLED_ROWS and len(cell.jobs) == 1:
                text += f"\n{cell.jobs[0].machines}"
            color = "white" if (cell.cost_usd or 0.0) > (low + high) / 2 else TEXT_COLOR
            axes.text(index % columns, index // columns, text, ha="center", va="center", fontsize=8, color=color)
        for axis, set_ticks in ((0, axes.set_yticks), (1, axes.set_xticks)):
            names = format_axis_values(answer, axis)
            every = max(1, len(names) // MAX_WRITTEN)
            set_ticks(range(0, len(names), every), names[::every])
        axes.set_ylabel(axis_name(answer.axes[0].path))
        axes.set_xlabel(axis_name(answer.axes[1].path))
        figure.colorbar(image, format=tick, label="expected US dollars; grey: no plan")


def _tornado(answer: Tornado, path: str | Path, caption: Sequence[str]) -> None:
    """Draw one bar per visible effect, more expensive or later to the right; a cross marks an end without a plan."""
    by_time = answer.better == "sooner"
    lines = [(name, bar) for name, bar in answer.lines if is_visible(answer, bar)][::-1]
    with open_picture(path, caption, height=1.6 + 0.32 * max(1, len(lines))) as (_, axes):
        expected = answer.base.hours if by_time else answer.base.cost_usd
        base = expected.expected if expected else 0.0
        for place, (_, bar) in enumerate(lines):
            for change, color in longest_first(bar, answer, COLORS[:2]):
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
