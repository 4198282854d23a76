"""A frontier as text: what to take from it first, then a row per breakpoint, at most 80 columns wide."""

from __future__ import annotations

from itertools import zip_longest

from planner.report import format as words
from planner.report.infeasible import render_infeasible
from planner.results.differences import describe_job_differences
from planner.results.frontier import Curve, Frontier, HiddenByLimit, Point, Segment, describe_assignment, select_points

ROWS = 16
"""Breakpoints that the text shows unless asked for all."""

CHANGE, CHANGES = 17, 26
"""Columns that what changes of one job, or of several, may claim before what is rented is cut."""

MOST = 4
"""Lines of one row: what changes is told in full, or nearly so."""

LABEL, END = 20, 20
"""Columns of a curve's name, and of its fastest, knee and cheapest point."""

START_UP, SPOT_ONLY = "*", "~"
"""Marks beside the hours."""


def render_frontier(found: Frontier, every: bool = False) -> str:
    """The text of a frontier, without a final newline; `every` shows all breakpoints."""
    if not found.points and not found.curves:
        return "\n".join(render_infeasible(found.plan()))
    lines = [format_summary(found)]
    if found.knee is not None:
        lines += wrap_hanging(f"{knee(found)}: {found.points[found.knee].knee}")
    lines.append("")
    lines += _curves(found) if found.by else _table(found, every)
    lines += [line for said in format_notes(found) for line in wrap_hanging(said)]
    return "\n".join(line.rstrip() for line in [*lines, *words.wrap_lines(format_optimality(found), words.WIDTH, 2)])


def format_summary(found: Frontier) -> str:
    """The range in one line."""
    if not found.points:
        return words.first_fitting(found.scenario, "no way within the limits as they stand")
    first, last = found.points[0], found.points[-1]
    if len(found.points) == 1:
        return words.first_fitting(
            found.scenario, f"the fastest way is the cheapest, {format_point(first)}{_format_floor(first)}"
        )
    return words.first_fitting(
        found.scenario, f"{format_point(first)}{_format_floor(first)} down to {format_point(last)}{_format_floor(last)}"
    )


def knee(found: Frontier) -> str:
    """Where the knee is; empty where there is none."""
    if found.knee is None:
        return ""
    point = found.points[found.knee]
    return f"knee at {format_hours(point.hours)} h, {words.usd(point.cost_usd)}{_format_floor(point)}"


def _format_floor(point: Point) -> str:
    return " (spot only)" if point.spot_only else ""


def format_point(point: Point) -> str:
    """`7.2 h for $39.32`."""
    return f"{format_hours(point.hours)} h for {words.usd(point.cost_usd)}"


def format_hours(hours: float) -> str:
    """Hours with one decimal; two below an hour, where tenths would tell no two breakpoints apart."""
    return f"{hours:.2f}" if hours < 1 else f"{hours:,.{0 if hours >= 1000 else 1}f}"


def describe_hardware(point: Point, room: int = words.WIDTH) -> list[str]:
    """What is rented: the way of one job on a line, the cards of several, in the order of the jobs, on up to three.

    Where room is short the provider's name gives way first: machines and method are what a reader looks for.
    """
    if len(point.jobs) > 1:
        *cards, last = (words.gpus(job.gpus, words.sanitise(job.gpu), job.runs_at_once) for job in point.jobs)
        return words.join_parts([*(f"{card}," for card in cards), last], " ", room, 3)
    job = point.jobs[0].model_copy(update={"provider": words.sanitise(point.jobs[0].provider)})
    over = len(words.sanitise(describe_assignment(job))) - room
    if over > 0:
        short = words.shorten(job.provider, max(6, len(job.provider) - over))
        job = job.model_copy(update={"provider": short})
    return [words.shorten(words.sanitise(describe_assignment(job)), room)]


def describe_change(found: Frontier, above: int | None, here: int) -> str:
    """What differs from the row above, which need not be the breakpoint before, and how the cost fell up to here."""
    text, point = "", found.points[here]
    if above is not None:
        text = words.sanitise(describe_job_differences(found.points[above].jobs, point.jobs))
        along = _slope_to(found, point)
        if along is not None:
            falls = _format_slope(along, found.points[above])
            # A slope of the way before ends where another way takes over.
            ends = point.before or not along.to_included
            text = ", ".join(one for one in ((falls, f"then {text}") if ends and text else (text, falls)) if one)
    return text if not point.knee else f"knee: {text}" if text else "knee"


def _slope_to(found: Frontier, point: Point) -> Segment | None:
    """The stretch on which the cost falls up to a breakpoint; None where it is level and drops."""
    return next((one for one in found.segments if one.hours_to == point.hours and one.saved_per_hour > 0), None)


def _format_slope(along: Segment, above: Point) -> str:
    rate = words.usd(along.saved_per_hour)
    begins = (
        ""
        if format_hours(along.hours_from) == format_hours(above.hours)
        else f" from {format_hours(along.hours_from)} h on"
    )
    return f"{SLOPE} {'under $0.01' if rate == '$0.00' else rate}/h{begins}"


SLOPE = "falls"


def _table(found: Frontier, every: bool) -> list[str]:
    shown = list(range(len(found.points))) if every else select_points(found.points, ROWS)
    points = [found.points[i] for i in shown]
    told = [describe_change(found, above, here) for above, here in zip([None, *shown], shown, strict=False)]
    marks = [f"{START_UP * one.mostly_start_up}{SPOT_ONLY * one.spot_only}" for one in points]
    columns = [
        _column("hours", [format_hours(one.hours) for one in points], marks),
        _column("likely", [format_hours(one.expected_hours) for one in points]),
        _column("cost", [words.usd(one.cost_usd) for one in points]),
    ]
    if not found.exact:
        # What holds up to the next row that is shown was proven of the last breakpoint before it.
        ends = [found.points[i - 1] for i in shown[1:]] + points[-1:]
        floors = [one.cost_usd if one.floor_usd is None else one.floor_usd for one in ends]
        columns.append(_column("bound", [words.usd(usd) for usd in floors]))
    figures_ = [" ".join(cells) for cells in zip(*columns, strict=True)]
    left = len(figures_[0]) + 2
    needed = min(CHANGES if len(points[0].jobs) > 1 else CHANGE, max(len("change"), *(len(one) for one in told)))
    wide = min(words.WIDTH - left - 1 - needed, max(len(line) for one in points for line in describe_hardware(one)))
    lines = [f"{figures_[0]}  {'what':<{wide}} change"]
    for start, point, said in zip(figures_[1:], points, told, strict=True):
        lines += _row(
            start, describe_hardware(point, wide), words.wrap_lines(said, words.WIDTH - left - 1 - wide, MOST), wide
        )
    if hidden := len(found.points) - len(points):
        some = f"{hidden} breakpoint{'s' if hidden > 1 else ''}"
        lines.append(f"  {some} of little difference left out (--all shows every one)")
    if any(SLOPE in one for one in told):
        lines.append(f"  {SLOPE} $/h: the cost falls evenly on the way to this row, elsewhere in one step")
    if not found.exact:
        lines.append("  bound: nothing done before the next row costs less")
    if any(one.mostly_start_up for one in points):
        lines.append(f"  {START_UP} more than half of the hours go into starting the machines")
    return [*lines, ""]


def _column(head: str, cells: list[str], marks: list[str] | None = None) -> list[str]:
    """Head and cells to the right, and marks behind them."""
    width, marked = max(len(one) for one in (head, *cells)), max(map(len, marks or [""]))
    return [
        f"{one:>{width}}{mark:<{marked}}"
        for one, mark in zip([head, *cells], ["", *(marks or [""] * len(cells))], strict=True)
    ]


def _row(start: str, left: list[str], right: list[str], wide: int) -> list[str]:
    """The figures, and beside them what is rented and what changes, each as long as it is."""
    return [
        f"{'' if i else start:<{len(start)}}  {one:<{wide}} {other}"
        for i, (one, other) in enumerate(zip_longest(left, right, fillvalue=""))
    ]


def _curves(found: Frontier) -> list[str]:
    """Fastest, knee and cheapest point of each curve; then what is not allowed, then what cannot be."""
    lines = [f"{found.by or '':<{LABEL}}{'fastest':<{END}}{'knee':<{END}}cheapest"]
    for wanted in (True, False):
        some = [one for one in found.curves if one.points and one.allowed is wanted]
        if some and not wanted:
            lines.append("not allowed here:")
        lines += [words.shorten(f"{_label(one):<{LABEL}}{_ends(one)}", words.WIDTH) for one in some]
    without = ", ".join(words.sanitise(one.label) for one in found.curves if not one.points)
    return [*lines, *(wrap_hanging(f"no way within the limits: {without}") if without else []), ""]


def _label(curve: Curve) -> str:
    return words.shorten(words.sanitise(curve.label), LABEL - 2)


def _ends(curve: Curve) -> str:
    knee = _short(curve.points[curve.knee]) if curve.knee is not None else "-"
    first, last = _short(curve.points[0]), _short(curve.points[-1])
    return f"{first:<{END}}{knee:<{END}}{last}" if len(curve.points) > 1 else f"{first:<{END}}{'-':<{END}}{first}"


def _short(point: Point) -> str:
    return f"{format_hours(point.hours)} h {words.usd(point.cost_usd)}{SPOT_ONLY * point.spot_only}"


def format_notes(found: Frontier) -> list[str]:
    """What the axes are, what lies beyond a limit, and what else to know."""
    hold = (
        "at the confidence of each job"
        if found.confidence is None
        else f"in {words.probability_text(found.confidence)}"
    )
    best = "cost is a best estimate" if found.by else "likely hours and cost are best estimates"
    if any(one.spot_only for points in (found.points, *(one.points for one in found.curves)) for one in points):
        hold += f", but where marked {SPOT_ONLY}: spot only, no fallback on demand, so nothing is guaranteed"
    return [f"hours hold {hold}; {best}", *(format_hidden(one) for one in found.beyond), *found.notes]


def format_hidden(one: HiddenByLimit) -> str:
    """What a limit on hours hides, and how to see it."""
    limit = f"{words.plain_number(one.limit_hours)} h {'deadline' if one.limit.endswith('deadline') else 'limit'}"
    job = one.limit.removeprefix("jobs.").removesuffix(".deadline")
    whose = f" of {words.sanitise(job)}" if one.limit.startswith("jobs.") else ""
    cost = f"{words.usd(one.cost_usd)} in {format_hours(one.hours)} h"
    return f"ends at the {limit}{whose}; beyond it as cheap as {cost}: --set {one.setting}"


def format_optimality(found: Frontier) -> str:
    """What is certain about the frontier."""
    if found.exact:
        pieces = f"{len(found.segments):,} segment{'s' if len(found.segments) != 1 else ''}"
        return f"exact: {pieces} of {found.candidates.made:,} priced ways; nothing cheaper or faster exists"
    worst = max((one.gap for one in found.points), default=0.0)
    sure = "each proven" if worst == 0 else f"each within {words.percent(worst)} of its bound"
    hidden = found.hidden_usd
    between = "each step between them, too" if hidden == 0 else f"between two at most {words.usd(hidden)} can be saved"
    said = f"{len(found.points)} points, {sure}, none dominated; {between}"
    hidden = max((one.hidden_usd for one in found.curves if not one.exact), default=0.0)
    return said + (f"; on a curve, which is solved at fewer, {words.usd(hidden)}" if hidden >= 0.01 else "")


def wrap_hanging(text: str) -> list[str]:
    """At most three lines, the later ones further in."""
    lines = words.wrap_lines(text, words.WIDTH - 4, 3)
    return [f"  {line}" if i == 0 else f"    {line}" for i, line in enumerate(lines)]
