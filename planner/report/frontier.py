"""A frontier as text: what to take from it first, then a line per breakpoint, at most 80 columns wide."""

from __future__ import annotations

from planner.frontiers import Beyond, Curve, Frontier, Point, telling, way_of
from planner.report import words
from planner.report.obstacles import obstacles

ROWS = 16
"""Breakpoints that the text shows unless asked for all."""

CHANGE = 17
"""Columns that what changes may claim before what is rented is cut."""

LABEL, END = 20, 20
"""Columns of a curve's name, and of its fastest, knee and cheapest point."""

START_UP = "*"


def render_frontier(found: Frontier, every: bool = False) -> str:
    """The text of a frontier, without a final newline; `every` shows all breakpoints."""
    if not found.points and not found.curves:
        return "\n".join(obstacles(found.plan()))
    lines = [verdict(found)]
    if found.knee is not None and not found.by:
        lines += hung(f"knee: {found.points[found.knee].knee}")
    lines.append("")
    lines += _curves(found) if found.by else _table(found, every)
    lines += [line for said in remarks(found) for line in hung(said)]
    return "\n".join(line.rstrip() for line in [*lines, *words.wrapped(proof(found), words.WIDTH, 2)])


def verdict(found: Frontier) -> str:
    """The range and the knee in one line."""
    name = words.shortened(words.plain(found.scenario), 24)
    if not found.points:
        return f"{name}: no way within the limits as they stand"
    first, last = found.points[0], found.points[-1]
    if len(found.points) == 1:
        return words.shortened(f"{name}: the fastest way is the cheapest, {figures(first)}", words.WIDTH)
    said = f"{figures(first)} to {figures(last)}"
    knee = f", knee {figures(found.points[found.knee])}" if found.knee is not None else ""
    if len(name) + 2 + len(said) + len(knee) > words.WIDTH:
        said, knee = said.replace(" for", ""), knee.replace(" for", "")
    return f"{name}: {said}{knee}"


def figures(point: Point) -> str:
    """`7.2 h for $39.32`."""
    return f"{clock(point.hours)} h for {words.usd(point.cost_usd)}"


def clock(hours: float) -> str:
    """Hours with one decimal; two below an hour, where tenths would tell no two breakpoints apart."""
    return f"{hours:.2f}" if hours < 1 else f"{hours:,.{0 if hours >= 1000 else 1}f}"


def what(point: Point, room: int = words.WIDTH) -> str:
    """What is rented: the way of one job, the cards of several in the order of the jobs.

    Where room is short the provider's name gives way first: machines and method are what a reader looks for.
    """
    if len(point.jobs) > 1:
        return words.shortened(", ".join(f"{job.gpus:,} x {words.plain(job.gpu)}" for job in point.jobs), room)
    job = point.jobs[0].model_copy(update={"provider": words.plain(point.jobs[0].provider)})
    over = len(words.plain(way_of(job))) - room
    if over > 0:
        short = words.shortened(job.provider, max(6, len(job.provider) - over))
        job = job.model_copy(update={"provider": short})
    return words.shortened(words.plain(way_of(job)), room)


def change(point: Point, room: int) -> str:
    """What differs from the point before: as many differences as there is room for, the knee in any case."""
    said = words.plain(point.change)
    first = said.partition(", ")[0]
    # How many GPUs there were stands in the row above.
    forms = (said, first, first.partition(" instead of ")[0]) if said else ()
    fitting = [one for form in forms if len(one := f"knee: {form}" if point.knee else form) <= room]
    if fitting:
        return fitting[0]
    return "knee" if point.knee else words.shortened(first, room)


def _table(found: Frontier, every: bool) -> list[str]:
    shown = list(range(len(found.points))) if every else telling(found.points, ROWS)
    points = [found.points[i] for i in shown]
    rows = [(clock(one.hours), clock(one.expected_hours), words.usd(one.cost_usd)) for one in points]
    hours, mean, cost = (max(least, *(len(row[i]) for row in rows)) for i, least in enumerate((5, 6, 4)))
    rest = words.WIDTH - hours - mean - cost - 6
    needed = max(len("change"), *(len(change(one, CHANGE)) for one in points))
    wide = min(rest - needed, max(len(what(one)) for one in points))
    lines = [f"{'hours':>{hours}}  {'likely':>{mean}} {'cost':>{cost}}  {'what':<{wide}} change"]
    for one, (took, usual, paid) in zip(points, rows, strict=True):
        mark = START_UP if one.mostly_start_up else " "
        said = f"{took:>{hours}}{mark} {usual:>{mean}} {paid:>{cost}}  {what(one, wide):<{wide}}"
        lines.append(f"{said} {change(one, rest - wide)}")
    if left := len(found.points) - len(points):
        some = f"{left} breakpoint{'s' if left > 1 else ''}"
        lines.append(f"  {some} of little difference left out (--all shows every one)")
    if any(one.mostly_start_up for one in points):
        lines.append(f"  {START_UP} more than half of the hours go into starting the machines")
    return [*lines, ""]


def _curves(found: Frontier) -> list[str]:
    """Fastest, knee and cheapest point of each curve; then what is not allowed, then what cannot be."""
    lines = [f"{found.by or '':<{LABEL}}{'fastest':<{END}}{'knee':<{END}}cheapest"]
    for wanted in (True, False):
        some = [one for one in found.curves if one.points and one.allowed is wanted]
        if some and not wanted:
            lines.append("not allowed here:")
        lines += [words.shortened(f"{_label(one):<{LABEL}}{_ends(one)}", words.WIDTH) for one in some]
    without = ", ".join(words.plain(one.label) for one in found.curves if not one.points)
    return [*lines, *(hung(f"no way within the limits: {without}") if without else []), ""]


def _label(curve: Curve) -> str:
    return words.shortened(words.plain(curve.label), LABEL - 2)


def _ends(curve: Curve) -> str:
    knee = _short(curve.points[curve.knee]) if curve.knee is not None else "-"
    first, last = _short(curve.points[0]), _short(curve.points[-1])
    return f"{first:<{END}}{knee:<{END}}{last}" if len(curve.points) > 1 else f"{first:<{END}}{'-':<{END}}{first}"


def _short(point: Point) -> str:
    return f"{clock(point.hours)} h {words.usd(point.cost_usd)}"


def remarks(found: Frontier) -> list[str]:
    """What the axes are, what lies beyond a limit, and what else to know."""
    hold = "at the confidence of each job" if found.confidence is None else f"in {words.cases(found.confidence)}"
    best = "cost is a best estimate" if found.by else "likely hours and cost are best estimates"
    return [f"hours hold {hold}; {best}", *(beyond(one) for one in found.beyond), *found.notes]


def beyond(one: Beyond) -> str:
    """What a limit on hours hides, and how to see it."""
    limit = f"{words.bare(one.limit_hours)} h {'deadline' if one.limit.endswith('deadline') else 'limit'}"
    job = one.limit.removeprefix("jobs.").removesuffix(".deadline")
    whose = f" of {words.plain(job)}" if one.limit.startswith("jobs.") else ""
    cost = f"{words.usd(one.cost_usd)} in {clock(one.hours)} h"
    return f"ends at the {limit}{whose}; beyond it as cheap as {cost}: --set {one.setting}"


def proof(found: Frontier) -> str:
    """What is certain about the frontier."""
    if found.exact:
        pieces = f"{len(found.segments):,} segment{'s' if len(found.segments) != 1 else ''}"
        return f"exact: {pieces} of {found.candidates.made:,} priced ways; nothing cheaper or faster exists"
    worst = max((one.gap for one in found.points), default=0.0)
    sure = "each proven" if worst == 0 else f"each within {words.percent(worst)} of its bound"
    return f"{len(found.points)} points, {sure}, none dominated; between two the cost is at most that of the earlier"


def hung(text: str) -> list[str]:
    """At most three lines, the later ones further in."""
    lines = words.wrapped(text, words.WIDTH - 4, 3)
    return [f"  {line}" if i == 0 else f"    {line}" for i, line in enumerate(lines)]
