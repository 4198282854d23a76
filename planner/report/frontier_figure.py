"""Figures of a scenario solved many times: the frontier with its slider, two bills, curves, heat maps, tornados."""

from __future__ import annotations

import functools
import itertools
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from planner.drawing.charts import (
    Branch,
    Breakpoint,
    Labels,
    Ranged,
    Run,
    Stack,
    Swing,
    Trace,
    curve,
    panel,
    ranged,
    stacked,
    swings,
)
from planner.drawing.scene import (
    HEAT,
    SERIES,
    Axis,
    Caption,
    Rect,
    Scene,
    Shape,
    Text,
    clip,
    fit_axis,
    headed,
    joined,
    letters_on,
    money,
    moved,
    plain,
    roles_of,
    room_of_ticks,
    text_width,
    wrap,
)
from planner.report import words
from planner.report.frontier_text import (
    BEST_VALUE,
    about_plan,
    best_value,
    format_late,
    format_notes,
    format_optimality,
    format_summary,
)
from planner.report.plan_figures import COST_LABEL, MONTH_LABEL, MOST_BARS, NARROW, Figure, Table, item_name
from planner.report.plan_sections import batch, format_place, kernels, techniques
from planner.report.plan_sections import item_name as line_name
from planner.report.what_if_text import (
    axis_name,
    describe_hardware,
    effect_of,
    format_axis_values,
    is_visible,
    monthly_usd,
    serves,
)
from planner.results.explanation import describe_job_differences, method_name
from planner.results.frontier import (
    Curve,
    Frontier,
    PlannedPoint,
    Point,
    Segment,
    SegmentJob,
    describe_assignment,
    select_points,
)
from planner.results.plan import Assignment, Plan
from planner.results.service_results import month_items
from planner.results.subject_runs import RlRun
from planner.results.what_if import Axis as Varied
from planner.results.what_if import Cell, Sweep, Tornado, WhatIf

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


MAX_NAMED, MAX_NAMED_NARROW = 10, 4
"""Most breakpoints with a name in a wide and in a narrow picture."""
MOST_ROWS = 60
"""Most rows of the table; the data block has every breakpoint."""
BEST_LABEL, PLAN_LABEL = f"{BEST_VALUE}: ", "your plan"
NO_BILL = -1
"""In place of the bill of an end that is no breakpoint."""
NEAR = 1e-9
"""Relative difference of hours below which two moments are one."""


def frontier_figure(frontier: Frontier, deadline: float | None) -> Figure:
    """Return the frontier as a figure; `deadline` is that of the plan, if all of its jobs share one."""
    confidence = f" ({words.probability_text(frontier.confidence)})" if frontier.confidence is not None else ""
    value = f"{best_value(frontier)}: {frontier.points[frontier.knee].knee}." if frontier.knee is not None else ""
    value = value[:1].upper() + value[1:]
    lead = f"{words.sanitise(format_summary(frontier))}. {value}".strip()
    shown = select_points(frontier.points, MOST_ROWS) if len(frontier.points) > 2 else list(range(len(frontier.points)))
    rows = []
    for above, here in zip([None, *shown], shown, strict=False):
        point = frontier.points[here]
        change = (
            words.sanitise(describe_job_differences(frontier.points[above].planned, point.planned))
            if above is not None
            else ""
        )
        rows.append((f"{format_late(point.hours)} h", words.usd(point.cost_usd), _plan(point), change))
    if (own := frontier.solved) is not None:
        cells = (f"{format_late(own.hours)} h", words.usd(own.cost_usd), _plan(own))
        same = next((place for place, row in enumerate(rows) if row[:3] == cells), None)
        if same is None:
            same = sum(frontier.points[here].hours <= own.hours for here in shown)
            rows.insert(same, (*cells, ""))
        rows[same] = (*cells, ": ".join(filter(None, (PLAN_LABEL, rows[same][3]))))
    hidden = len(frontier.points) - len(shown)
    every = [*frontier.points, *(point for line in frontier.curves for point in line.points)]
    hollow = "; hollow: spot only, no guarantee" if any(point.spot_only for point in every) else ""
    # The lead has the best value.
    notes = [
        *([about_plan(frontier)] if own is not None else []),
        format_optimality(frontier),
        *(note for note in format_notes(frontier) if not note.startswith(BEST_VALUE)),
    ]
    notes += (
        [f"{hidden} similar breakpoints are not in the table; planner frontier shows them with --all"] if hidden else []
    )
    return Figure(
        "frontier",
        "Cost against time",
        lead,
        functools.partial(
            _draw, frontier, deadline, Caption("Cost against time", lead, f"ends by{confidence}, hours{hollow}")
        ),
        Table((f"ends by{confidence}", "expected cost", "plan", "change"), tuple(rows)),
        tuple(map(words.sanitise, notes)),
    )


def _plan(point: PlannedPoint) -> str:
    alone = " (spot only: no guarantee)" if isinstance(point, Point) and point.spot_only else ""
    return words.sanitise("; ".join(map(describe_assignment, point.planned))) + alone


def _draw(frontier: Frontier, deadline: float | None, caption: Caption, width: float) -> Scene:
    most = MAX_NAMED_NARROW if width <= NARROW else MAX_NAMED
    named = set(select_points(frontier.points, most)) if len(frontier.points) > 2 else set(range(len(frontier.points)))
    texts = {index: _label(frontier.points[index], index == frontier.knee) for index in sorted(named)}
    # A machine is named where it first appears: a name repeated along the line says nothing.
    repeated = [
        here for last, here in itertools.pairwise(sorted(named)) if texts[here] == texts[last].removeprefix(BEST_LABEL)
    ]
    points = [
        Breakpoint(
            point.hours,
            point.cost_usd,
            texts[index] if index in named and index not in repeated else "",
            f"by {format_late(point.hours)} h, {words.usd(point.cost_usd)}: {_plan(point)}",
            point.spot_only,
            index == frontier.knee,
        )
        for index, point in enumerate(frontier.points)
    ]
    branches, below = _branches(frontier)
    runs = runs_of(frontier.segments, frontier.points)
    if (own := frontier.solved) is not None:
        said = f"{PLAN_LABEL}: by {format_late(own.hours)} h, {words.usd(own.cost_usd)}: {_plan(own)}"
        points.append(Breakpoint(own.hours, own.cost_usd, PLAN_LABEL, said, is_plan=True))
        points.sort(key=lambda point: point.hours)
    return curve(points, runs, deadline, caption, width, branches, below)


def _branches(frontier: Frontier) -> tuple[list[Branch], list[Branch]]:
    """Return the curves that have a name, and those behind them: further curves, or the bound of an inexact frontier.

    One curve has a name for each colour: those that make up the frontier first, then the cheapest.
    """
    curves = [line for line in frontier.curves if line.points]
    legs = {getattr(job, frontier.by or "method") for segment in frontier.segments for job in segment.jobs}
    cheapest = sorted(curves, key=lambda line: (line.label not in legs, line.points[-1].cost_usd))
    chosen = [line for line in curves if line in cheapest[: len(SERIES)]]
    branches = [
        _branch(line, role, words.sanitise(line.label) + ("" if line.allowed else " (excluded)"))
        for role, line in zip(roles_of([line.label for line in chosen]), chosen, strict=True)
    ]
    others = cheapest[len(SERIES) :]
    below = [_branch(line, "c6", "" if at else f"{len(others)} others", 0.7) for at, line in enumerate(others)]
    if frontier.separate and not curves:
        bound = tuple(runs_of(frontier.separate, ()))
        below.append(Branch("lower bound: each job alone", "muted", (), bound, 1.0, has_dots=False))
    return branches, below


def _branch(found_curve: Curve, role: str, name: str, width: float = 2.0) -> Branch:
    points = tuple(
        Breakpoint(
            point.hours, point.cost_usd, "",
            f"{found_curve.label}: by {format_late(point.hours)} h, {words.usd(point.cost_usd)}", point.spot_only,
        )
        for point in found_curve.points
    )  # fmt: skip
    return Branch(
        name, role, points, tuple(runs_of(found_curve.segments, found_curve.points)), width, has_dots=width > 1
    )


def _label(point: Point, is_knee: bool) -> str:
    first, *others = point.planned
    if isinstance(first, RlRun):
        text = first.described
    else:
        text = ", ".join(words.gpus(job.gpus, job.gpu, job.runs_at_once) for job in (first, *others[:1]))
        text = text if others else f"{text}, {method_name(first.techniques)}"
    return words.sanitise(f"{BEST_LABEL}{text}" if is_knee else text)


def runs_of(segments: Sequence[Segment], points: Sequence[Point]) -> list[Run]:
    """Return segments, and the points that lie on none of them, as hours and dollars of both ends."""
    runs = [(segment.hours_from, segment.cost_from_usd, segment.hours_to, segment.cost_to_usd) for segment in segments]
    ends = {hours for run in runs for hours in (run[0], run[2])}
    return runs + [
        (point.hours, point.cost_usd, point.hours, point.cost_usd) for point in points if point.hours not in ends
    ]


def frontier_data(frontier: Frontier) -> dict[str, Any]:
    """Return what the slider needs: breakpoints, slopes, and the plans and bills behind them, each stored once.

    The cost within h hours is the least over all runs that begin by then: of a run that has ended, the cost at its
    end, else that on its line. A slope has the bills of both of its ends, between which the bill is linear too.
    """
    plans: dict[str, int] = {}
    items: dict[str, int] = {}
    texts: list[dict[str, Any]] = []
    bills: dict[tuple[float, ...], int] = {}

    def plan_of(jobs: Sequence[Assignment | RlRun]) -> int:
        return _store(plans, texts, [{"name": words.sanitise(job.name), "facts": _facts(job)} for job in jobs])

    def bill_of(jobs: Sequence[Assignment | RlRun], reserved: float) -> int:
        sums: dict[str, float] = {"reserved": reserved} if reserved else {}
        for job in jobs:
            for line in job.bill:
                name = item_name(line, job.gpu)
                sums[name] = sums.get(name, 0.0) + line.usd
        places = [(items.setdefault(name, len(items)), usd) for name, usd in sums.items() if round(usd, 2)]
        bill = tuple(figure for place, usd in places for figure in (place, round(usd, 3)))
        return bills.setdefault(bill, len(bills))

    points = []
    for point in frontier.points:
        reserved = sum(reservation.usd for reservation in point.reservations)
        points.append(
            {
                "h": round(point.hours, 6),
                "e": round(point.expected_hours, 4),
                "u": round(point.cost_usd, 6),
                "p": plan_of(point.planned),
                "b": bill_of(point.planned, reserved),
                "s": [0.0 if isinstance(job, RlRun) else round(job.spot_share, 3) for job in point.planned],
            }
        )
    slopes = [
        [
            *(
                round(figure, 6)
                for figure in (slope.hours_from, slope.cost_from_usd, slope.hours_to, slope.cost_to_usd)
            ),
            plan_of(left or right)
            if left or right
            else _store(plans, texts, [_short_facts(job) for job in slope.jobs]),
            bill_of(left, 0.0) if left else NO_BILL,
            bill_of(right, 0.0) if right else NO_BILL,
            [[round(job.spot_share_from, 3), round(job.spot_share_to, 3)] for job in slope.jobs],
        ]
        for slope, left, right in _slopes(frontier)
    ]
    return {"points": points, "slopes": slopes, "plans": texts, "items": list(items), "bills": list(bills)}


def _store(plans: dict[str, int], texts: list[dict[str, Any]], jobs: list[dict[str, Any]]) -> int:
    """Return the place of a plan among the stored ones; a new one is added."""
    key = repr(jobs)
    if key not in plans:
        plans[key] = len(texts)
        texts.append({"jobs": jobs})
    return plans[key]


def _slopes(frontier: Frontier) -> list[tuple[Segment, Sequence[Assignment], Sequence[Assignment]]]:
    """Return the segments on which cost falls over time, with the jobs at their left and at their right end.

    An end that another plan beats is no breakpoint: its jobs are not known, and empty here.
    """
    at = {round(point.hours, 9): point for point in frontier.points}
    slopes: list[tuple[Segment, Sequence[Assignment], Sequence[Assignment]]] = []
    for segment in frontier.segments:
        if segment.hours_to > segment.hours_from * (1 + NEAR):
            left, right = at.get(round(segment.hours_from, 9)), at.get(round(segment.hours_to, 9))
            begins = left.jobs if left and segment.from_included else ()
            ends = (right.before or right.jobs) if right and segment.to_included else ()
            slopes.append((segment, begins, ends))
    return slopes


def _short_facts(job: SegmentJob) -> dict[str, Any]:
    """Return what a segment itself says of a job."""
    machines = f"{words.gpus(job.gpus, job.gpu)} at {job.provider}"
    return {"name": words.sanitise(job.name), "facts": [("machines", words.sanitise(machines)), ("method", job.method)]}


def _facts(job: Assignment | RlRun) -> list[tuple[str, str]]:
    """Return what of a configuration does not change along a slope."""
    if isinstance(job, RlRun):
        how = f"{job.method_name}, {job.sharding}, {'overlapped' if job.overlapped else 'in turn'}"
        facts = [("machines", job.described), ("training", how), ("step", f"{words.significant(job.step_seconds)} s")]
        return [(name, words.sanitise(text)) for name, text in facts]
    vram = job.vram_gib
    facts = [
        ("machines", f"{format_place(job)}, {job.interconnect}" if job.gpus > 1 else format_place(job)),
        ("training" if job.inference is None else "serving", techniques(job)),
        ("batch", batch(job)),
        ("framework", kernels(job)),
        ("memory", f"{words.gib(vram.peak)} of {words.gib(vram.usable)} GiB" if job.gpus else ""),
    ]
    return [(name, words.sanitise(text)) for name, text in facts if text]


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
    items: dict[str, float] = {}
    for job in plan.parts_that_end:
        for line in job.bill:
            name = words.sanitise(line_name(line.item, job.gpu))
            items[name] = items.get(name, 0.0) + line.usd
    for service in plan.services:
        for item, usd in month_items(service.fleet):
            # Next to jobs: of all of its hours.
            share = service.cost_usd / service.fleet.usd_per_month if plan.jobs else 1.0
            items[words.sanitise(item)] = items.get(words.sanitise(item), 0.0) + usd * share
    return items


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
    figures = {is_cost: [_value(cell, is_cost, monthly) for cell in answer.cells] for is_cost in (True, False)}
    ups = {is_cost: _from_zero(values) for is_cost, values in figures.items()}
    left = max(room_of_ticks(up, money if is_cost else plain) for is_cost, up in ups.items())
    across = _values_axis(numbers, left, width - 12.0)
    panels = []
    for is_cost, role in ((True, "c0"), (False, "c2")):
        values, up, show = figures[is_cost], ups[is_cost], money if is_cost else plain
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
        machines = describe_hardware(cell)
        if value is None:
            missing.append((number, 0.0))
        elif machines != last:
            changed.append((number, value))
        last = machines
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


def tornado_figure(tornado: Tornado, most: int = MOST_BARS) -> Figure | None:
    """Return what a change of each limit, price and estimate does to the plan; None where nothing has an effect.

    `most` are the bars that are drawn; the table has all.
    """
    by_time = tornado.better == "sooner"
    visible = [(name, bar) for name, bar in tornado.lines if is_visible(tornado, bar)]
    if not visible:
        return None
    share, unit = f"{tornado.by * 100:.3g} %", "hours" if by_time else "dollars"
    show = words.hours if by_time else _signed
    rows, table = [], []
    for name, bar in visible:
        down, up = (effect_of(end, tornado.base, by_time) for end in (bar.down, bar.up))
        texts = ["no plan" if change is None else show(change) for change in (down, up)]
        label = words.sanitise(name)
        rows.append(Swing(label, down, up, f"{label}: {texts[0]} at {bar.down.value}, {texts[1]} at {bar.up.value}"))
        table.append((label, bar.base, f"{bar.down.value}: {texts[0]}", f"{bar.up.value}: {texts[1]}"))
    idle = [words.sanitise(name) for name, bar in tornado.lines if not is_visible(tornado, bar)]
    lead = f"Each limit, price and estimate alone, {share} down and up; the largest effect: {rows[0].label}"
    names = (f"{share} less", f"{share} more")
    title = f"change of the expected {'hours' if by_time else 'cost'}"
    draw = functools.partial(
        swings,
        rows[:most],
        Caption("What the plan depends on", lead, title),
        names,
        _hours_tick if by_time else _signed,
    )
    notes = (f"No effect: {'; '.join(idle)}.",) if idle else ()
    head = ("what", "now", f"{unit} at {share} less", f"{unit} at {share} more")
    return Figure("tornado", "What the plan depends on", f"{lead}.", draw, Table(head, tuple(table)), notes)


def _signed(value: float) -> str:
    return f"{'+' if value > 0 else ''}{words.usd(value)}"


def _hours_tick(value: float) -> str:
    return words.plain_number(value)


def tornado_scene(answer: Tornado, width: float) -> Scene:
    """Return what a change of each limit, price and estimate does; a sentence where nothing has an effect."""
    figure = tornado_figure(answer, MOST_SWINGS)
    if figure is not None and figure.draw is not None:
        return figure.draw(width)
    text = "No limit, price or estimate has an effect."
    return Scene(width, 24.0, "What the plan depends on", text, (Text(0, 14, text),))
