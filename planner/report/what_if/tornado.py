"""A tornado as text of 80 columns: bars of plus and minus, what matters most first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.report import format as words
from planner.report.infeasible import render_infeasible
from planner.results.what_if import PRICES, Bar, Endpoint, Tornado

if TYPE_CHECKING:
    from planner.results.plan import Plan

BY_COST = (35, 9, 25)
BY_TIME = (29, 8, 17)
"""Columns of a name, of the figure of an end, and of a bar, its middle included."""

MIN_EFFECT = 0.005
"""Dollars, or hours, under which a change reads as nothing."""


def render_tornado(answer: Tornado) -> str:
    """The text of a tornado, without a final newline."""
    plan = answer.base
    if plan.cost_usd is None or plan.hours is None:
        lines = [
            words.first_fitting(answer.scenario, "there is no plan to move away from"),
            "",
            *render_infeasible(plan),
        ]
        return "\n".join(line.rstrip() for line in lines)
    telling = [(name, bar) for name, bar in answer.lines if is_visible(answer, bar)]
    share = f"{answer.by * 100:.3g} %"
    figures = words.usd(plan.cost_usd.expected)
    if answer.better == "sooner":
        figures = f"{words.hours(plan.hours.expected)}, {figures}"
    most = "nothing matters"
    if telling:
        most = f"{words.sanitise(telling[0][0])} {_format_insensitive(telling[0][0])} most"
    # The columns say by how much, too.
    forms = [f"{figures}; {most}, moved by {share}", f"{figures}; {most}"] if telling else [f"{figures}; {most}"]
    lines = [words.first_fitting(answer.scenario, *forms), ""]
    if telling:
        lines += _bars(answer, telling, share)
        unit = (
            "hours, and dollars, against the plan's" if answer.better == "sooner" else "dollars against the plan's cost"
        )
        lines += ["", f"  - moved down, + moved up; {unit}"]
    rest = [f"{words.sanitise(name)}{_base(bar)}" for name, bar in answer.lines if not is_visible(answer, bar)]
    if rest:
        lines += [f"  {line}" for line in words.wrap_lines(f"no effect: {'; '.join(rest)}", words.WIDTH - 2, 6)]
    return "\n".join(line.rstrip() for line in lines)


def is_visible(answer: Tornado, bar: Bar) -> bool:
    """Whether a bar is worth a line: it changes something that one can see, or leaves no plan."""
    seen = max(bar.effect_usd, bar.effect_hours if answer.better == "sooner" else 0.0)
    return bar.can_fail or seen >= MIN_EFFECT


def _format_insensitive(name: str) -> str:
    return "matter" if name.endswith(PRICES) else "matters"


def _bars(answer: Tornado, telling: list[tuple[str, Bar]], share: str) -> list[str]:
    """A head and a line per bar: in hours, and dollars beside them, where the end is wanted soon."""
    by_time = answer.better == "sooner"
    label, wide, bars = BY_TIME if by_time else BY_COST
    head = f"{'':<{label}}{'-' + share:>{wide}}{'+' + share:>{wide}}"
    if by_time:
        head = (
            f"{'':<{label}}{'h -' + share:>{wide}}{'h +' + share:>{wide}}{'$ -' + share:>{wide}}{'$ +' + share:>{wide}}"
        )
    left, right = ("sooner", "later") if by_time else ("cheaper", "dearer")
    lines = [f"{head}  {left:<{bars // 2}} {right:>{bars // 2}}"]
    widest = max(answer.effect(bar) for _, bar in telling)
    for name, bar in telling:
        what, *more = words.wrap_lines(f"{name}{_base(bar)}", label - 1, 3)
        ends = "".join(f"{_end(end, answer.base, by_time):>{wide}}" for end in (bar.down, bar.up))
        if by_time:
            ends += "".join(f"{_end(end, answer.base, False):>{wide}}" for end in (bar.down, bar.up))
        lines += [f"{what:<{label}}{ends}  {_drawn(bar, answer, widest, bars)}", *(f"  {line}" for line in more)]
    return lines


def _base(bar: Bar) -> str:
    """The value now, where the name does not say it."""
    return "" if bar.base == "x 1" else f" {bar.base}"


def effect_of(end: Endpoint, plan: Plan, by_time: bool) -> float | None:
    """Hours or dollars of an end less those of the plan; None where either is missing."""
    if end.cost_usd is None or end.hours is None or plan.cost_usd is None or plan.hours is None:
        return None
    return end.hours - plan.hours.expected if by_time else end.cost_usd - plan.cost_usd.expected


def _end(end: Endpoint, plan: Plan, by_time: bool) -> str:
    change = effect_of(end, plan, by_time)
    if change is None:
        return "no way" if end.status == "infeasible" else "stopped"
    return "0.00" if abs(change) < MIN_EFFECT else f"{change:+,.2f}"


def _drawn(bar: Bar, answer: Tornado, widest: float, wide: int) -> str:
    """`-` for what moving down does, `+` for moving up, left of the middle where it gets cheaper, or sooner."""
    half = wide // 2
    cells = [" "] * half + ["|"] + [" "] * half
    by_time = answer.better == "sooner"
    ends = [(effect_of(end, answer.base, by_time), sign) for end, sign in ((bar.down, "-"), (bar.up, "+"))]
    # The longer one first, so that the shorter one on the same side stays visible.
    for change, sign in sorted(ends, key=lambda pair: -abs(pair[0] or 0.0)):
        if change is None:
            cells[-1] = "!"
            continue
        length = round(abs(change) / widest * half) if widest else 0
        side = 1 if change > 0 else -1
        for step in range(1, length + 1):
            cells[half + side * step] = sign
    return "".join(cells)
