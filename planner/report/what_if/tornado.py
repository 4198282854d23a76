"""A tornado as text: bars of plus and minus, largest effect first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.report import format as words
from planner.report.infeasible import render_infeasible
from planner.report.plan_sections import cut_lines
from planner.units import DAY_HOURS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.results.plan import Plan
    from planner.results.what_if import Bar, Endpoint, Tornado

BY_COST = (35, 9, 25)
BY_TIME = (29, 8, 17)
"""Columns of a name, of the figure of an end, and of a bar including its middle."""

MIN_EFFECT = 0.005
"""Dollars or hours below which a change is not shown."""


def render_tornado(answer: Tornado) -> str:
    """Return the text of a tornado without a final newline."""
    plan = answer.base
    if plan.cost_usd is None or plan.hours is None:
        lines = [
            words.first_fitting(answer.scenario, "no plan to start from"),
            *cut_lines(plan.cut),
            "",
            *render_infeasible(plan),
        ]
        return "\n".join(line.rstrip() for line in lines)
    visible = [(name, bar) for name, bar in answer.lines if is_visible(answer, bar)]
    share = f"{answer.by * 100:.3g} %"
    figures = words.usd(plan.cost_usd.expected)
    if plan.services:
        figures += f" for {plan.hours.expected / DAY_HOURS:,.4g} days"
    if answer.better == "sooner":
        figures = f"{words.likely(plan.hours.expected)}, {figures}"
    most = f"{figures}; nothing has an effect"
    if visible:
        most = f"{figures}; largest effect: {words.sanitise(visible[0][0])}"
    # The head of the columns shows the share too.
    lines = [words.first_fitting(answer.scenario, *([f"{most}, moved by {share}"] if visible else []), most)]
    lines += [*cut_lines(plan.cut), ""]
    if visible:
        lines += _bars(answer, visible, share)
        unit = (
            "likely hours and dollars minus the plan's"
            if answer.better == "sooner"
            else "dollars minus the plan's cost"
        )
        lines += ["", f"  - moved down, + moved up; {unit}"]
    rest = [f"{words.sanitise(name)}{_base(bar)}" for name, bar in answer.lines if not is_visible(answer, bar)]
    if rest:
        lines += [f"  {line}" for line in words.wrap_lines(f"no effect: {'; '.join(rest)}", words.width() - 2, 6)]
    return "\n".join(line.rstrip() for line in lines)


def is_visible(answer: Tornado, bar: Bar) -> bool:
    """Return whether a bar has a visible effect or leaves no plan."""
    effect = max(bar.effect_usd, bar.effect_hours if answer.better == "sooner" else 0.0)
    return bar.can_fail or effect >= MIN_EFFECT


def _bars(answer: Tornado, visible: list[tuple[str, Bar]], share: str) -> list[str]:
    """Return a head and a line per bar: in dollars, or in hours and dollars if the objective is time."""
    by_time = answer.better == "sooner"
    label, wide, bars = BY_TIME if by_time else BY_COST
    columns = [f"{unit}{sign}{share}" for unit in (("h ", "$ ") if by_time else ("",)) for sign in "-+"]
    head = f"{'':<{label}}" + "".join(f"{column:>{wide}}" for column in columns)
    left, right = ("earlier", "later") if by_time else ("cheaper", "more expensive")
    lines = [f"{head}  {left}{right:>{bars - len(left)}}"]
    widest = max(answer.effect(bar) for _, bar in visible)
    for name, bar in visible:
        what, *more = words.wrap_lines(f"{name}{_base(bar)}", label - 1, 3)
        ends = "".join(f"{_end(end, answer.base, by_time):>{wide}}" for end in (bar.down, bar.up))
        if by_time:
            ends += "".join(f"{_end(end, answer.base, False):>{wide}}" for end in (bar.down, bar.up))
        lines += [f"{what:<{label}}{ends}  {_drawn(bar, answer, widest, bars)}", *(f"  {line}" for line in more)]
    return lines


def _base(bar: Bar) -> str:
    """Return the present value; empty for a factor of 1."""
    return "" if bar.base == "x 1" else f" {bar.base}"


def effect_of(end: Endpoint, plan: Plan, by_time: bool) -> float | None:
    """Return hours or dollars of an end minus those of the plan; None if either is missing."""
    if end.cost_usd is None or end.hours is None or plan.cost_usd is None or plan.hours is None:
        return None
    return end.hours - plan.hours.expected if by_time else end.cost_usd - plan.cost_usd.expected


def longest_first(bar: Bar, answer: Tornado, marks: Sequence[str]) -> list[tuple[float | None, str]]:
    """Return the effects of both ends with their marks, the longer one first, so that both stay visible."""
    ends = [effect_of(end, answer.base, answer.better == "sooner") for end in (bar.down, bar.up)]
    return sorted(zip(ends, marks, strict=True), key=lambda pair: -abs(pair[0] or 0.0))


def _end(end: Endpoint, plan: Plan, by_time: bool) -> str:
    change = effect_of(end, plan, by_time)
    if change is None:
        return "no plan" if end.status == "infeasible" else "stopped"
    return "0.00" if abs(change) < MIN_EFFECT else f"{change:+,.2f}"


def _drawn(bar: Bar, answer: Tornado, widest: float, wide: int) -> str:
    """Return a bar: `-` for moving down, `+` for moving up, left of the middle if cheaper or earlier."""
    half = wide // 2
    cells = [" "] * half + ["|"] + [" "] * half
    for change, sign in longest_first(bar, answer, "-+"):
        if change is None:
            cells[-1] = "!"
            continue
        length = round(abs(change) / widest * half) if widest else 0
        side = 1 if change > 0 else -1
        for step in range(1, length + 1):
            cells[half + side * step] = sign
    return "".join(cells)
