"""A frontier as text: the summary, and a row per breakpoint."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, NamedTuple

from planner.report import words
from planner.report.explanation_text import render_infeasible
from planner.report.plan_sections import cut_lines
from planner.results.explanation import describe_job_differences
from planner.results.frontier import (
    DOLLARS_PAID,
    MINIMISES_END,
    Curve,
    Frontier,
    HiddenByLimit,
    PlannedPoint,
    Point,
    Segment,
    describe_assignment,
    select_points,
)
from planner.units import round_up

if TYPE_CHECKING:
    from collections.abc import Sequence


MAX_BREAKPOINTS = 8
"""Breakpoints that the text shows without --all."""

CHANGE, CHANGES = 17, 26
"""Columns kept for the changes of one job, or of several, before the machines are cut."""

ROW_LINES = 4
"""Most lines of one row."""

CURVE_NAME, CURVE_POINT = 20, 20
"""Columns of the name of a curve, and of its fastest, best and cheapest point."""

START_UP_MARK, SPOT_ONLY_MARK = "*", "~"
"""Marks after the hours."""

PLAN_MARK = ">"
"""Before the row that is the plan."""

SAME_END, LEAST_SHOWN_USD = 1e-6, 0.005
"""Relative difference of hours below which two ends are one, and dollars that show on a screen."""

SLOPE = "falls"
"""First word of a slope in the column of changes."""

BEST_VALUE = "best value"
"""First words of the point from which on more time saves little, everywhere on screens (`knee` in JSON)."""


def render_frontier(frontier: Frontier, every: bool = False) -> str:
    """Return the text of a frontier without a final newline; `every` shows all breakpoints."""
    if not frontier.points and not frontier.curves:
        first, *rest = render_infeasible(frontier.plan())
        return "\n".join([first, *cut_lines(frontier.cut), *rest])
    lines = [format_summary(frontier), *words.lines_below_first(frontier.fixed), *cut_lines(frontier.cut), ""]
    lines += _curves(frontier) if frontier.by else _table(frontier, every)
    lines += [line for note in format_notes(frontier) for line in words.wrap_hanging(note, 3)]
    return "\n".join(
        line.rstrip() for line in [*lines, *words.wrap_lines(format_optimality(frontier), words.width(), 2)]
    )


def format_summary(frontier: Frontier) -> str:
    """Return the range of the frontier in one line."""
    if not frontier.points:
        return words.first_fitting(frontier.scenario, "no candidate within the limits")
    least, first = (
        f"{format_point(point)}{_mark_spot_only(point)}" for point in (frontier.points[-1], frontier.points[0])
    )
    if len(frontier.points) == 1:
        return words.first_fitting(frontier.scenario, f"{first}; the fastest plan is also the cheapest")
    own, text = frontier.solved, f"{least} to {first}"
    if own is not None and own.cost_usd - frontier.points[0].cost_usd >= LEAST_SHOWN_USD:
        return words.first_fitting(
            frontier.scenario, f"{text}; your plan {format_point(own)}", f"{text}; plan {words.usd(own.cost_usd)}"
        )
    return words.first_fitting(frontier.scenario, text)


def best_value(frontier: Frontier) -> str:
    """Return hours and cost of the point of best value; empty if there is none."""
    if frontier.knee is None:
        return ""
    point = frontier.points[frontier.knee]
    return f"{BEST_VALUE} {format_point(point)}{_mark_spot_only(point)}"


def _mark_spot_only(point: Point) -> str:
    return " (spot only)" if point.spot_only else ""


def format_point(point: PlannedPoint) -> str:
    """Return cost and hours at the confidence, such as `$39.32 by 7.2 h`."""
    return f"{words.usd(point.cost_usd)} by {format_late(point.hours)} h"


def deadline_of(frontier: Frontier, index: int) -> float:
    """Return a deadline in hours that keeps a point: its end as it is shown where no other plan lies up to there."""
    hours = frontier.points[index].hours
    shown = float(format_late(hours).replace(",", ""))
    others = [point.hours for point in frontier.points[index + 1 :]]
    others += [leg.hours_from for leg in frontier.segments if leg.saved_per_hour > 0 and leg.hours_to > hours]
    return round_up(hours, 2) if any(other <= shown for other in others) else shown


def format_hours(hours: float) -> str:
    """Return hours with one decimal; with two below an hour, to distinguish breakpoints."""
    return f"{hours:.2f}" if hours < 1 else f"{hours:,.{0 if hours >= 1000 else 1}f}"


def format_late(hours: float) -> str:
    """Return hours at the confidence as `format_hours` does, rounded up: as a deadline, they keep the same plan."""
    return format_hours(round_up(hours, 2 if hours < 1 else 0 if hours >= 1000 else 1))


def describe_hardware(point: PlannedPoint, room: int | None = None) -> list[str]:
    """Return what is rented: the configuration of one job, or the GPUs of several in the order of the jobs.

    Neighbours on equal machines are counted.
    """
    room = words.width() if room is None else room
    if len(point.planned) > 1:
        cards = (words.gpus(job.gpus, words.sanitise(job.gpu), job.runs_at_once) for job in point.planned)
        equal = ((card, len(list(jobs))) for card, jobs in itertools.groupby(cards))
        counted = [(f"{card} each", f"({count} jobs)") if count > 1 else (card,) for card, count in equal]
        *before, last = counted
        parts = [*((*card[:-1], f"{card[-1]},") for card in before), last]
        return words.join_parts([part for card in parts for part in card], " ", room, 3)
    return words.wrap_lines(describe_assignment(point.planned[0]), room, 3)


def describe_change(frontier: Frontier, above: int | None, here: int) -> str:
    """Return the differences from the row above (not always the previous breakpoint), and the slope up to this row."""
    text, point = "", frontier.points[here]
    if above is not None:
        text = words.sanitise(describe_job_differences(frontier.points[above].planned, point.planned))
        # Without such a segment the cost falls in one step.
        along = next((leg for leg in frontier.segments if leg.hours_to == point.hours and leg.saved_per_hour > 0), None)
        if along is not None:
            follows_policy = any(job.spot for job in point.before or point.jobs)
            falls = "" if follows_policy else _format_slope(along, frontier.points[above])
            # The slope of the previous configuration ends where another configuration becomes cheaper.
            ends = point.before or not along.to_included
            text = ", ".join(part for part in ((falls, f"then {text}") if ends and text else (text, falls)) if part)
    return text if not point.knee else f"{BEST_VALUE}: {text}" if text else BEST_VALUE


def _format_slope(along: Segment, above: Point) -> str:
    rate = words.usd(along.saved_per_hour)
    start = format_late(along.hours_from)
    begins = "" if start == format_late(above.hours) else f" from {start} h on"
    return f"{SLOPE} {'under $0.01' if rate == '$0.00' else rate}/h{begins}"


class _Row(NamedTuple):
    """A row of the table: a breakpoint, or the plan of `solve` where it lies on none."""

    point: PlannedPoint
    change: str
    is_plan: bool = False

    @property
    def mark(self) -> str:
        """What stands after its hours."""
        point = self.point
        if not isinstance(point, Point):
            return ""
        return f"{START_UP_MARK * point.mostly_start_up}{SPOT_ONLY_MARK * point.spot_only}"


def _rows(frontier: Frontier, every: bool) -> list[_Row]:
    """Return the rows, earliest first; one of them is the plan of `solve` where the frontier has it."""
    own = frontier.solved
    shown = list(range(len(frontier.points))) if every else _without_repeats(frontier.points, own)
    changes = [describe_change(frontier, above, here) for above, here in zip([None, *shown], shown, strict=False)]
    rows = [_Row(frontier.points[here], change) for here, change in zip(shown, changes, strict=True)]
    if own is None:
        return rows
    same = next((place for place, row in enumerate(rows) if _reads(row.point) == _reads(own)), None)
    if same is not None:
        rows[same] = rows[same]._replace(is_plan=True)
        return rows
    place = sum(row.point.hours <= own.hours for row in rows)
    above = rows[place - 1].point.planned if place else ()
    change = words.sanitise(describe_job_differences(above, own.planned)) if place else ""
    return [*rows[:place], _Row(own, change, is_plan=True), *rows[place:]]


def _table(frontier: Frontier, every: bool) -> list[str]:
    table = _rows(frontier, every)
    points, changes = [row.point for row in table], [row.change for row in table]
    columns = [_column("", [PLAN_MARK * row.is_plan for row in table])] if frontier.solved is not None else []
    columns.append(_column("by h", [format_late(point.hours) for point in points], [row.mark for row in table]))
    columns.append(_column("likely h", [format_hours(point.expected_hours) for point in points]))
    columns.append(_column("cost $", [words.usd(point.cost_usd).replace("$", "") for point in points]))
    if not frontier.exact:
        columns.append(_column("bound $", _floors(frontier, points)))
    rows = [" ".join(cells) for cells in zip(*columns, strict=True)]
    left = len(rows[0]) + 2
    needed = min(
        CHANGES if len(points[0].planned) > 1 else CHANGE, max(len("change"), *(len(text) for text in changes))
    )
    wide = min(
        words.width() - left - 1 - needed, max(len(line) for point in points for line in describe_hardware(point))
    )
    lines = [f"{rows[0]}  {'plan':<{wide}} change"]
    for start, point, change in zip(rows[1:], points, changes, strict=True):
        wrapped = words.wrap_lines(change, words.width() - left - 1 - wide, ROW_LINES)
        lines += words.hang(f"{start}  ", words.columns(describe_hardware(point, wide), wrapped, wide + 1))
    if hidden := len(frontier.points) - sum(isinstance(point, Point) for point in points):
        lines.append(f"  {hidden} similar breakpoint{'s' if hidden > 1 else ''} not shown (--all shows them)")
    lines += words.wrap_hanging(f"{PLAN_MARK} {about_plan(frontier)}", 3) if frontier.solved is not None else []
    kinds = [f"{SLOPE} $/h: the cost falls linearly up to this row"] * any(SLOPE in text for text in changes)
    kinds += ["spot: the cost falls along a curve"] * any(job.spot for point in points for job in point.jobs)
    if kinds:
        lines += words.wrap_hanging(f"{'; '.join(kinds)}; elsewhere in one step", 3)
    if not frontier.exact:
        lines.append("  bound: no plan that ends before the next row costs less")
    if any(isinstance(point, Point) and point.mostly_start_up for point in points):
        lines.append(f"  {START_UP_MARK} more than half of the hours are machine start")
    return [*lines, ""]


def _floors(frontier: Frontier, points: Sequence[PlannedPoint]) -> list[str]:
    """Return the bound of each row up to the next one: that of the last breakpoint before it, shown or not."""
    floors = []
    for point, after in zip(points, [*points[1:], None], strict=True):
        until = math.inf if after is None else after.hours
        end = [breakpoint for breakpoint in frontier.points if breakpoint.hours < until or breakpoint is point][
            -1:
        ] or frontier.points[:1]
        usd = end[0].cost_usd if end[0].floor_usd is None else end[0].floor_usd
        floors.append(words.usd(usd).replace("$", ""))
    return floors


def about_plan(frontier: Frontier) -> str:
    """Return that a mark is the plan of `solve`, why it is not on the frontier, and what that costs."""
    text, own = "your plan, as planner solve gives it", frontier.solved
    if own is None:
        return text
    within = [point.cost_usd for point in frontier.points if point.hours <= own.hours * (1 + SAME_END)]
    more = own.cost_usd - min(within, default=own.cost_usd)
    if MINIMISES_END in frontier.notes:
        text += ": the earliest end is chosen, not the least cost"
        if more >= LEAST_SHOWN_USD:
            text += f"; a plan that ends no later costs {words.usd(more)} less"
    elif more >= LEAST_SHOWN_USD and not any(DOLLARS_PAID in note for note in frontier.notes):
        text += f": {words.usd(more)} above the least cost by then, among near ties (solve.ties)"
    elif more < LEAST_SHOWN_USD and own.cost_usd - frontier.points[-1].cost_usd >= LEAST_SHOWN_USD:
        later = own.cost_usd - frontier.points[-1].cost_usd
        text += f": {words.usd(later)} more than the cheapest, which ends later"
    return text


def _reads(point: PlannedPoint) -> tuple[object, ...]:
    """Return what a row shows of a point but for its change."""
    times = format_late(point.hours), format_hours(point.expected_hours)
    return *times, words.usd(point.cost_usd), describe_hardware(point)


def _without_repeats(points: Sequence[Point], own: PlannedPoint | None) -> list[int]:
    """Return the breakpoints of a table; of several in a row that read alike the last, unless one is of best value.

    The plan of `solve` is among them where it is a breakpoint.
    """
    plans = [place for place, point in enumerate(points) if own is not None and _reads(point) == _reads(own)]
    chosen = select_points(points, MAX_BREAKPOINTS)
    if plans and not set(plans).intersection(chosen):
        chosen = sorted([*chosen, plans[-1]])
    kept: list[int] = []
    for here in chosen:
        if kept and _reads(points[kept[-1]]) == _reads(points[here]):
            last = kept.pop()
            here = last if points[last].knee else here
        kept.append(here)
    return kept


def _column(head: str, cells: list[str], marks: list[str] | None = None) -> list[str]:
    """Return head and cells aligned to the right, and marks after them."""
    cells, marks = [head, *cells], ["", *(marks or [""] * len(cells))]
    width, marked = max(map(len, cells)), max(map(len, marks))
    return [f"{cell:>{width}}{mark:<{marked}}" for cell, mark in zip(cells, marks, strict=True)]


def _curves(frontier: Frontier) -> list[str]:
    """Return fastest, best and cheapest point of each curve; then excluded ones, then those without a point."""
    heads = f"{'fastest, by':<{CURVE_POINT}}{f'{BEST_VALUE}, by':<{CURVE_POINT}}cheapest, by"
    lines = [f"{frontier.by or '':<{CURVE_NAME}}{heads}"]
    for allowed in (True, False):
        curves = [curve for curve in frontier.curves if curve.points and curve.allowed is allowed]
        if curves and not allowed:
            lines.append("excluded by the scenario:")
        for curve in curves:
            label = words.shorten(words.sanitise(curve.label), CURVE_NAME - 2)
            lines.append(words.shorten(f"{label:<{CURVE_NAME}}{_ends(curve)}", words.width()))
    without = ", ".join(words.sanitise(curve.label) for curve in frontier.curves if not curve.points)
    return [*lines, *(words.wrap_hanging(f"infeasible within the limits: {without}", 3) if without else []), ""]


def _ends(curve: Curve) -> str:
    knee = _short(curve.points[curve.knee]) if curve.knee is not None and len(curve.points) > 1 else "-"
    return f"{_short(curve.points[0]):<{CURVE_POINT}}{knee:<{CURVE_POINT}}{_short(curve.points[-1])}"


def _short(point: Point) -> str:
    return f"{format_late(point.hours)} h {words.usd(point.cost_usd)}{SPOT_ONLY_MARK * point.spot_only}"


def format_notes(frontier: Frontier) -> list[str]:
    """Return what the columns mean, what a limit hides, and the notes of the frontier."""
    hold = "at the confidence of each job"
    if frontier.confidence is not None:
        hold = f"with {words.probability_text(frontier.confidence)} confidence"
    best = "cost is a best estimate" if frontier.by else "likely and cost are best estimates"
    curves = (frontier.points, *(curve.points for curve in frontier.curves))
    if any(point.spot_only for points in curves for point in points):
        hold += f", except those marked {SPOT_ONLY_MARK} (spot only, no fallback to on demand)"
    value = [f"{best_value(frontier)}: {frontier.points[frontier.knee].knee}"] if frontier.knee is not None else []
    return [f"by: holds {hold}; {best}", *value, *(format_hidden(limit) for limit in frontier.beyond), *frontier.notes]


def format_hidden(hidden: HiddenByLimit) -> str:
    """Return what a limit on hours hides, and the setting that shows it."""
    limit = f"{words.given_hours(hidden.limit_hours)} h {'deadline' if hidden.limit.endswith('deadline') else 'limit'}"
    job = hidden.limit.removeprefix("jobs.").removesuffix(".deadline")
    of_job = f" of {words.sanitise(job)}" if hidden.limit.startswith("jobs.") else ""
    cost = f"{words.usd(hidden.cost_usd)} by {format_late(hidden.hours)} h"
    return f"ends at the {limit}{of_job}; beyond it {cost} with --set {hidden.setting}"


def format_optimality(frontier: Frontier) -> str:
    """Return whether the frontier is exact, or its gap to the bounds."""
    if frontier.exact:
        pieces = f"{len(frontier.segments):,} segment{'s' if len(frontier.segments) != 1 else ''}"
        return f"proven: {pieces} of {frontier.candidates.made:,} candidates; no plan is cheaper or faster"
    worst = max((point.gap for point in frontier.points), default=0.0)
    gap = "each optimal" if worst == 0 else f"at most {words.percent(worst)} can be saved at the same end"
    between = "no plan between them is cheaper"
    if frontier.hidden_usd:
        between = f"a plan between two saves at most {words.usd(frontier.hidden_usd)}"
    text = f"{len(frontier.points)} points, {gap}, none dominated; {between}"
    hidden = max((curve.hidden_usd for curve in frontier.curves if not curve.exact), default=0.0)
    return text + (f", on a curve (fewer points) {words.usd(hidden)}" if hidden >= 0.01 else "")
