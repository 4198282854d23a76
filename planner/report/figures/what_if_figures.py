"""Pictures of what-if: two bills, a curve over one value, a heat map of two, and a tornado."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING

from planner.drawing.axis import Axis, fit_axis, money, plain, room_of_ticks
from planner.drawing.bars import Ranged, Stack, ranged, stacked
from planner.drawing.panel import Labels, Trace, panel
from planner.drawing.scene import (
    HEAT,
    Caption,
    Rect,
    Scene,
    Shape,
    Text,
    clip,
    headed,
    joined,
    letters_on,
    moved,
    text_width,
    wrap,
)
from planner.report import words
from planner.report.figures.analysis_figures import tornado_figure
from planner.report.figures.plan_figures import COST_LABEL, MONTH_LABEL
from planner.report.plan_sections import item_name
from planner.report.sweep_text import axis_name, describe_hardware, format_axis_values, monthly_usd, serves
from planner.results.plan import Plan
from planner.results.service_results import month_items
from planner.results.what_if import Axis as Varied
from planner.results.what_if import Cell, Sweep, Tornado, WhatIf

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

LEAST_USD = 0.005
"""Dollars from which on a line of a bill is drawn."""
MAX_WRITTEN = 12
"""Rows or columns up to which the cells of a heat map show their figure."""
MAX_LABELLED_ROWS = 6
"""Columns up to which they also show the machines."""
WIDE_VALUES = 50.0
"""Ratio of the largest to the smallest value from which the axis of a sweep is logarithmic."""
MOST_SWINGS = 24
"""Most bars of a tornado in a file of its own."""
SMALL = 10.0
"""Size of letters in cells that are too narrow for others."""
CELL_HIGH, COLUMN_LABEL = 36.0, 46.0
"""Height of a cell of a heat map, and of the labels below its columns."""


def bills_scene(answer: WhatIf, width: float) -> Scene:
    """Return before and after as one bar each, made of the lines of their bills."""
    plans = (("before", answer.before), ("after", answer.after))
    monthly = bool(answer.before.services or answer.after.services) and not (answer.before.jobs or answer.after.jobs)
    rows = []
    for name, plan in plans:
        bill = _bill(plan)
        text = plan.status.replace("_", " ")
        if plan.services and monthly:
            text = f"{words.usd(sum(bill.values()))} a month"
        elif plan.cost and plan.hours:
            text = f"{words.usd(plan.cost.expected)}, {words.likely(plan.hours.expected)}"
        rows.append(Stack(name, tuple(part for part in bill.items() if part[1] >= LEAST_USD), text))
    shown = "; ".join(f"{row.label}: {row.words}" for row in rows)
    caption = Caption("Before and after", shown, MONTH_LABEL if monthly else COST_LABEL)
    return stacked(rows, caption, words.usd, "", width, has_sums=False, has_axis=True)


def _bill(plan: Plan) -> dict[str, float]:
    found: dict[str, float] = {}
    for job in plan.jobs:
        for line in job.bill:
            name = words.sanitise(item_name(line.item, job.gpu))
            found[name] = found.get(name, 0.0) + line.usd
    for service in plan.services:
        for item, usd in month_items(service.fleet):
            # Next to jobs: of all of its hours.
            share = service.cost_usd / service.fleet.usd_per_month if plan.jobs else 1.0
            found[words.sanitise(item)] = found.get(words.sanitise(item), 0.0) + usd * share
    return found


def sweep_scene(answer: Sweep, width: float) -> Scene:
    """Return a curve over one value, or a heat map of two."""
    if len(answer.axes) > 1:
        return _heat_map(answer, width)
    return _named_values(answer, width) if answer.axes[0].numbers is None else _curve(answer, width)


def _named_values(answer: Sweep, width: float) -> Scene:
    """Return a bar for each value that is no number."""
    monthly = serves(answer)
    values = [_value(cell, True, monthly) for cell in answer.cells]
    least = min((usd for usd in values if usd is not None), default=None)
    name = axis_name(answer.axes[0].path)
    rows = []
    for label, cell in zip(format_axis_values(answer, 0), answer.cells, strict=True):
        usd = _value(cell, True, monthly)
        if usd is None:
            rows.append(Ranged(label, 0.0, "no plan"))
            continue
        most = _value(cell, False, monthly) or 0.0
        second = f"at most {most:,.0f} replicas" if monthly else words.likely(most)
        rows.append(Ranged(label, usd, f"{words.usd(usd)}, {second}", is_chosen=usd == least))
    shown = "; ".join(f"{row.label}: {row.words}" for row in rows)
    return headed(ranged(rows, Caption(name, shown), width), f"{MONTH_LABEL if monthly else COST_LABEL} by {name}")


def _curve(answer: Sweep, width: float) -> Scene:
    """Return cost above, hours below; a circle marks other machines than at the previous value, a cross no plan."""
    varied, monthly = answer.axes[0], serves(answer)
    numbers = varied.numbers or ()
    unit = f", {varied.unit}" if varied.unit else ""
    found = {is_cost: [_value(cell, is_cost, monthly) for cell in answer.cells] for is_cost in (True, False)}
    ups = {is_cost: _from_zero(values) for is_cost, values in found.items()}
    left = max(room_of_ticks(up, money if is_cost else plain) for is_cost, up in ups.items())
    across = _values_axis(numbers, left, width - 12.0)
    panels = []
    for is_cost, role in ((True, "c0"), (False, "c2")):
        values, up, show = found[is_cost], ups[is_cost], money if is_cost else plain
        traces = list(_stretches(numbers, values, role, step_style(varied)))
        remarks = _remarks(answer, numbers, values)
        traces += [replace(remark, name="") for remark in remarks] if is_cost else remarks  # one legend for both
        title = (MONTH_LABEL if is_cost else "most replicas") if monthly else COST_LABEL if is_cost else "likely hours"
        labels = Labels(title, up=show, whole=monthly and not is_cost, at=numbers)
        caption = Caption(title, title, "" if is_cost else f"{axis_name(varied.path)}{unit}")
        panels.append([panel(traces, across, up, labels, caption, width)])
    return joined(panels, axis_name(varied.path), f"{COST_LABEL} and hours over {axis_name(varied.path)}")


def _from_zero(values: Sequence[float | None]) -> Axis:
    known = [value for value in values if value is not None]
    return Axis(0.0, 1.12 * max(known, default=1.0) or 1.0, 172.0, 22.0)


def _values_axis(numbers: Sequence[float], left: float, right: float) -> Axis:
    """Return the axis of the values, logarithmic where they range very widely."""
    low, high = min(numbers), max(numbers)
    if low > 0 and high > WIDE_VALUES * low:
        return fit_axis(low, high, left, right)
    room = 0.04 * (high - low) or 1.0
    return Axis(low - room, high + room, left, right)


def _stretches(numbers: Sequence[float], values: Sequence[float | None], role: str, steps: str) -> Iterator[Trace]:
    """Yield lines through values that follow each other with a plan."""
    pairs = zip(numbers, values, strict=True)
    for has_plan, group in itertools.groupby(pairs, key=lambda pair: pair[1] is not None):
        if has_plan:
            points = tuple((number, value) for number, value in group if value is not None)
            yield Trace(points, role, width=1.8, steps=steps, mark="dot")  # type: ignore[arg-type]


def _remarks(answer: Sweep, numbers: Sequence[float], values: Sequence[float | None]) -> Iterator[Trace]:
    """Yield marks where the machines change, and where there is no plan."""
    changed: list[tuple[float, float]] = []
    missing: list[tuple[float, float]] = []
    last = ""
    for number, value, cell in zip(numbers, values, answer.cells, strict=True):
        what = describe_hardware(cell)
        if value is None:
            missing.append((number, 0.0))
        elif what != last:
            changed.append((number, value))
        last = what
    for points, name, mark in ((changed, "other machines", "ring"), (missing, "no plan", "cross")):
        if points:
            yield Trace(tuple(points), "accent", name, width=0.0, mark=mark)  # type: ignore[arg-type]


def _value(cell: Cell, is_cost: bool, monthly: bool) -> float | None:
    """Return the dollars or hours of a cell; of services dollars of a month, or the most replicas of an hour."""
    if not monthly:
        return cell.cost_usd if is_cost else cell.hours
    if not cell.services:
        return None
    return monthly_usd(cell) if is_cost else float(sum(service.most_replicas for service in cell.services))


def step_style(varied: Varied) -> str:
    """Return how values are joined: between two values of a limit the plan of the tighter one holds."""
    numbers = varied.numbers or ()
    if not varied.looser_direction or len(numbers) < 2:
        return ""
    return "after" if (varied.looser_direction == "up") == (numbers[1] > numbers[0]) else "before"


def _heat_map(answer: Sweep, width: float) -> Scene:
    """Return cost by colour, from pale to dark, with a scale below; cells without a plan are grey."""
    rows, columns = answer.shape
    monthly = serves(answer)
    values = [_value(cell, True, monthly) for cell in answer.cells]
    known = [usd for usd in values if usd is not None]
    low, high = min(known, default=0.0), max(known, default=0.0)
    names = [format_axis_values(answer, axis) for axis in (0, 1)]
    left = min(0.3 * width, max(text_width(name) for name in names[0]) + 10)
    wide, tall = (width - left) / columns, CELL_HIGH if rows <= MAX_WRITTEN else max(4.0, 12 * CELL_HIGH / rows)
    titles = [axis_name(axis.path) for axis in answer.axes]
    shapes: list[Shape] = [Text(0, 12, clip(titles[0], width), "muted")]
    for index, (cell, usd) in enumerate(zip(answer.cells, values, strict=True)):
        x, y = left + wide * (index % columns), 22.0 + tall * (index // columns)
        role = "soft" if usd is None else _heat(usd, low, high)
        lines = _cell_lines(cell, usd, columns, wide) if max(rows, columns) <= MAX_WRITTEN else []
        note = f"{', '.join(map(words.sanitise, cell.values))}: {'no plan' if usd is None else words.usd(usd)}"
        shapes.append(Rect(x, y, wide - 1, tall - 1, role, note))
        first = y + tall / 2 + 4 - 7 * (len(lines) - 1)
        middle = x + wide / 2
        size = 12.0 if all(text_width(line) <= wide - 2 for line in lines) else SMALL
        ink = letters_on(role)
        shapes += [Text(middle, first + 14 * at, line, ink, "middle", size) for at, line in enumerate(lines)]
    bottom = 22.0 + tall * rows
    shapes.append(Text(width, bottom + 34, clip(titles[1], width), "muted", "end"))
    for row in range(0, rows, max(1, rows // MAX_WRITTEN)):
        shapes.append(Text(0, 22.0 + tall * (row + 0.5) + 4, clip(names[0][row], left - 6)))
    for column in range(0, columns, max(1, columns // MAX_WRITTEN)):
        room = wide * max(1, columns // MAX_WRITTEN) - 4
        shapes.append(Text(left + wide * (column + 0.5), bottom + 16, clip(names[1][column], room), anchor="middle"))
    scale = _scale(low, high, len(known) < len(values), MONTH_LABEL if monthly else COST_LABEL)
    shapes += [moved(shape, 0.0, bottom + COLUMN_LABEL) for shape in scale]
    return Scene(
        width, bottom + COLUMN_LABEL + 24, titles[0], f"{COST_LABEL}: {words.usd_between(low, high)}", tuple(shapes)
    )


def _cell_lines(cell: Cell, usd: float | None, columns: int, wide: float) -> list[str]:
    """Return what is written into a cell: dollars, and the machines where there is room."""
    text = "no plan" if usd is None else words.usd(usd)
    if text_width(text, SMALL) > wide - 2 and usd is not None:
        text = f"${usd:,.0f}"
    lines = [text] if text_width(text, SMALL) <= wide - 2 else []
    if lines and columns <= MAX_LABELLED_ROWS and len(cell.jobs) == 1:
        lines += wrap(words.sanitise(cell.jobs[0].machines), wide - 4, 1)
    return lines


def _heat(usd: float, low: float, high: float) -> str:
    """Return the role of an amount between two others."""
    share = (usd - low) / (high - low) if high > low else 0.0
    return HEAT[min(len(HEAT) - 1, int(share * len(HEAT)))]


def _scale(low: float, high: float, has_gaps: bool, label: str) -> Iterator[Shape]:
    """Yield the colours from the least to the most with both figures, and the one of cells without a plan."""
    x = 0.0
    if high > 0:
        yield Text(0, 12, f"{label}:")
        x = text_width(f"{label}:") + 8
        yield Text(x, 12, words.usd(low))
        x += text_width(words.usd(low)) + 6
        for role in HEAT:
            yield Rect(x, 2, 16, 12, role)
            x += 16
        yield Text(x + 6, 12, words.usd(high))
        x += text_width(words.usd(high)) + 24
    if has_gaps:
        yield Rect(x, 2, 12, 12, "soft")
        yield Text(x + 18, 12, "no plan")


def tornado_scene(answer: Tornado, width: float) -> Scene:
    """Return what a change of each limit, price and estimate does; a sentence where nothing has an effect."""
    figure = tornado_figure(answer, MOST_SWINGS)
    if figure is not None and figure.draw is not None:
        return figure.draw(width)
    text = "No limit, price or estimate has an effect."
    return Scene(width, 24.0, "What the plan depends on", text, (Text(0, 14, text),))
