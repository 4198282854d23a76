"""Results of what-if as pictures: two bills, a curve, a heat map, a tornado."""

from __future__ import annotations

import itertools
import textwrap
from typing import TYPE_CHECKING

import numpy as np

from planner.report import format as words
from planner.report.plots.style import (
    ACCENT_COLOR,
    COLORS,
    COST_LABEL,
    MONTH_LABEL,
    MUTED_COLOR,
    NOTE_SIZE,
    TEXT_COLOR,
    letters_on,
    open_picture,
    tick,
    tick_usd,
)
from planner.report.what_if.sweep import axis_name, describe_hardware, format_axis_values, monthly_usd, serves
from planner.report.what_if.tornado import MIN_EFFECT, is_visible, longest_first
from planner.results.serving.differences import month_items
from planner.results.what_if import Axis, Cell, Sweep, Tornado, WhatIf

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from planner.results.plan import Plan

NAMED_SHARE = 40
"""Letters that fit into a bar as long as the axis; shorter parts of a bill are named in a legend."""

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
    monthly = bool(answer.before.services or answer.after.services) and not (answer.before.jobs or answer.after.jobs)
    title = " ".join(itertools.takewhile(bool, caption)) if monthly else ""
    with open_picture(path, caption, height=2.8, title=title) as (_, axes):
        left, whole = [0.0, 0.0], max(*(sum(bill.values()) for bill in bills), 0.01)
        for index, item in enumerate(shown):
            widths = [bill.get(item, 0.0) for bill in bills]
            name, color = item.replace("gpu ", "GPU "), COLORS[index % len(COLORS)]
            wide = max(range(2), key=widths.__getitem__)
            is_named = widths[wide] * NAMED_SHARE > whole * len(name)
            if is_named:
                middle = left[wide] + widths[wide] / 2
                axes.text(middle, 1 - wide, name, ha="center", va="center", color=letters_on(color))
            axes.barh([1, 0], widths, left=left, color=color, label=None if is_named else name, height=0.55)
            left = [start + width for start, width in zip(left, widths, strict=True)]
        for place, end, (_, plan) in zip((1, 0), left, plans, strict=True):
            text = plan.status.replace("_", " ")
            if plan.services and monthly:
                text = f"{words.usd(end)} a month"
            elif plan.cost_usd and plan.hours:
                text = f"{words.usd(plan.cost_usd.expected)}, {words.likely(plan.hours.expected)}"
            axes.text(end, place, f" {text}", va="center", color=TEXT_COLOR)
        axes.set_yticks([1, 0], [name for name, _ in plans])
        axes.set_xlim(0, max(*left, 0.01) * 1.4)
        axes.xaxis.set_major_formatter(tick_usd)
        axes.set_xlabel(MONTH_LABEL if monthly else COST_LABEL)
        if axes.get_legend_handles_labels()[1]:
            axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.3), ncols=2 if monthly else 3)


def _bill(plan: Plan) -> dict[str, float]:
    found: dict[str, float] = {}
    for job in plan.jobs:
        for line in job.bill:
            found[line.item] = found.get(line.item, 0.0) + line.usd
    for one in plan.services:
        for name, usd in month_items(one.fleet):
            share = one.cost_usd / one.fleet.usd_per_month if plan.jobs else 1.0  # next to jobs of all of its hours
            found[name] = found.get(name, 0.0) + usd * share
    return found


def _curve(answer: Sweep, path: str | Path, caption: Sequence[str]) -> None:
    """Draw cost above, hours below; a circle marks other machines than at the previous value."""
    places, ticks = _places(answer, 0)
    with open_picture(path, caption, height=4.6, rows=2) as (_, (above, below)):
        monthly = serves(answer)
        for axes, color in ((above, COLORS[0]), (below, COLORS[2])):
            values = [_value(cell, axes is above, monthly) for cell in answer.cells]
            known, style = np.array(values, dtype=float), step_style(answer.axes[0])
            axes.plot(places, known, color=color, marker="o", markersize=4, drawstyle=style)
            axes.margins(y=0.12)
            axes.set_ylim(0, 1.12 * max((value for value in values if value is not None), default=1.0))
            last = ""
            for place, value, cell in zip(places, values, answer.cells, strict=True):
                what = describe_hardware(cell)
                if value is not None and what != last:
                    axes.plot([place], [value], marker="o", markersize=9, fillstyle="none", color=ACCENT_COLOR)
                elif value is None:
                    axes.plot([place], [0], marker="x", color=ACCENT_COLOR, clip_on=False)
                last = what
            axes.yaxis.set_major_formatter(tick_usd if axes is above else tick)
            if not ticks and len(places) <= MAX_WRITTEN:
                axes.set_xticks(places, [tick(place) for place in places])
            if ticks:
                axes.set_xticks(places, ticks if axes is below else [""] * len(ticks), rotation=30, ha="right")
        above.set_ylabel(MONTH_LABEL if monthly else COST_LABEL)
        below.set_ylabel("most replicas" if monthly else "likely hours")
        unit = f", {answer.axes[0].unit}" if answer.axes[0].unit else ""
        below.set_xlabel(f"{axis_name(answer.axes[0].path)}{'' if ticks else unit}; circle: other machines, x: no plan")


def _value(cell: Cell, is_cost: bool, monthly: bool) -> float | None:
    """Return the dollars or hours of a cell; of services dollars of a month, or the most replicas of an hour."""
    if not monthly:
        return cell.cost_usd if is_cost else cell.hours
    if not cell.services:
        return None
    return monthly_usd(cell) if is_cost else float(sum(one.most_replicas for one in cell.services))


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
    monthly = serves(answer)
    values = [_value(cell, True, monthly) for cell in answer.cells]
    costs = np.array(values, dtype=float).reshape(rows, columns)
    known = [usd for usd in values if usd is not None]
    low, high = min(known, default=0.0), max(known, default=1.0)
    with open_picture(path, caption, height=max(3.2, min(8.0, 1.6 + 0.45 * rows))) as (figure, axes):
        axes.set_facecolor(MUTED_COLOR)
        image = axes.imshow(costs, cmap="YlGnBu", aspect="auto", vmin=low, vmax=high)
        for index, cell in enumerate(answer.cells if max(rows, columns) <= MAX_WRITTEN else ()):
            usd = values[index]
            text = "no plan" if usd is None else words.usd(usd)
            if columns <= MAX_LABELLED_ROWS and len(cell.jobs) == 1:
                text += f"\n{cell.jobs[0].machines}"
            color = "white" if (usd or 0.0) > (low + high) / 2 else TEXT_COLOR
            axes.text(
                index % columns, index // columns, text, ha="center", va="center", fontsize=NOTE_SIZE, color=color
            )
        for axis, set_ticks in ((0, axes.set_yticks), (1, axes.set_xticks)):
            names = format_axis_values(answer, axis)
            every = max(1, len(names) // MAX_WRITTEN)
            set_ticks(range(0, len(names), every), names[::every])
        axes.set_ylabel(axis_name(answer.axes[0].path))
        axes.set_xlabel(axis_name(answer.axes[1].path))
        figure.colorbar(image, format=tick_usd, label=f"{MONTH_LABEL if monthly else COST_LABEL}; grey: no plan")


def _tornado(answer: Tornado, path: str | Path, caption: Sequence[str]) -> None:
    """Draw one bar per visible effect, more expensive or later to the right; a cross marks an end without a plan."""
    by_time = answer.better == "sooner"
    lines = [(name, bar) for name, bar in answer.lines if is_visible(answer, bar)][::-1]
    with open_picture(path, caption, height=1.4 + 0.46 * max(1, len(lines))) as (_, axes):
        expected = answer.base.hours if by_time else answer.base.cost_usd
        base, share = expected.expected if expected else 0.0, f"{answer.by * 100:.3g} %"
        for place, (_, bar) in enumerate(lines):
            for change, color in longest_first(bar, answer, COLORS[:2]):
                sign = "-" if color == COLORS[0] else "+"
                if change is not None:
                    axes.barh(place, change, left=base, color=color, height=0.6)
                    if abs(change) >= MIN_EFFECT:
                        side = 1 if change > 0 else -1
                        axes.annotate(
                            f"{sign}{share}", (base + change, place), xytext=(4 * side, 0), va="center",
                            textcoords="offset points", ha="left" if side > 0 else "right", color=color,
                        )  # fmt: skip
                else:
                    axes.plot(
                        [1.0], [place], marker="x", color=color, transform=axes.get_yaxis_transform(), clip_on=False
                    )
        axes.axvline(base, color=TEXT_COLOR, linewidth=1)
        axes.margins(x=0.22)
        axes.xaxis.set_major_formatter(tick if by_time else tick_usd)
        axes.set_yticks(range(len(lines)), [textwrap.fill(name, 24) for name, _ in lines])
        fails = "; x: no plan" if any(bar.can_fail for _, bar in lines) else ""
        axes.set_xlabel(f"{'likely hours' if by_time else COST_LABEL}{fails}")
