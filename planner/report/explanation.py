"""An explanation as text: the verdict first, then what binds, what comes next, and what else there was."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.report import format as words
from planner.report.infeasible import (
    format_near_misses,
    format_relaxation,
    format_relaxations,
    limit_name,
    limit_value,
    settings,
)
from planner.report.plan_sections import ROOM

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.results.explanation import Alternative, Binding, Explanation, LimitSensitivity, WhyNot

ROWS, ROWS_OF_SEVERAL = 6, 3
"""Rows of a table of alternatives, for one job and for each of several."""
CENT_SHOWN, MINUTE = 0.005, 1 / 60
"""What reads as nothing: dollars, hours."""
HOW, VERDICT = 25, 14
"""Columns of machines and of a verdict in a table."""
TABLES = {"provider": "Provider", "gpu": "GPU", "method": "Method"}


def render(told: Explanation) -> str:
    """The text of an explanation, without a final newline, in 80 columns."""
    if told.why_not is not None:
        lines = why_not(told, told.why_not)
    elif told.status == "infeasible":
        lines = ["infeasible: no way meets all limits"]
        if told.relax:
            lines = ["infeasible: no way meets all limits. Smallest changes, each checked by solving:"]
            lines += format_relaxations(told.relax, told.scenario)
        lines += format_near_misses(told.nearest, several_jobs=len({miss.job for miss in told.nearest}) > 1)
    else:
        lines = plan(told)
    return "\n".join(lines)


def plan(told: Explanation) -> list[str]:
    """Why the plan is as it is."""
    lines = [_summary(told)]
    if told.compared_by:
        lines.append(words.shorten(f"  compared by {told.compared_by}", words.WIDTH))
    lines += [f"  {line}" for note in told.notes for line in words.wrap_lines(note, words.WIDTH - 2, 2)]
    lines.append("")
    lines += words.section("Binds", _binding_lines(told))
    lines += words.section("Next", _next(told)) if told.next_steps else []
    jobs = dict.fromkeys(one.job for one in told.alternatives)
    for job in jobs:
        mine = [one for one in told.alternatives if one.job == job]
        lines += ["", *_alternatives(mine, job if len(jobs) > 1 else "", ROWS if len(jobs) == 1 else ROWS_OF_SEVERAL)]
    return lines


def _summary(told: Explanation) -> str:
    count = len(told.binding)
    binds = "no limit binds" if not count else "1 limit binds" if count == 1 else f"{count} limits bind"
    figures = f"{words.hours(told.hours or 0.0)}, {words.usd(told.cost_usd or 0.0)}; {binds}"
    name = words.shorten(words.sanitise(told.scenario), 30)
    what = words.sanitise(told.plan)
    jobs = len({one.job for one in told.alternatives})
    if jobs > 1:
        what = f"{jobs} jobs"
    room = words.WIDTH - len(name) - len(figures) - 4
    while len(what) > room and ", " in what:
        what = what.rpartition(", ")[0]
    if len(what) > room:
        what = what.partition(" at ")[0]  # better no place than half of one
    return f"{name}: {words.shorten(what, room)}, {figures}"


def _binding_lines(told: Explanation) -> list[str]:
    if not told.binding:
        return ["none: without any one limit the plan would be the same"]
    return [words.shorten(_binding_line(one, told), ROOM) for one in told.binding]


def _binding_line(one: Binding, told: Explanation) -> str:
    name = limit_name(one.limit, job_scope(told))
    current = "" if isinstance(one.current, str) else f" {limit_value(one.limit, one.current)}"
    if isinstance(one.current, str) and one.current.startswith("default"):
        current = f" ({one.current})"
    gains = format_gain(told, one.saving, -one.saving_usd, -one.saving_hours)
    return f"{name}{current}: without it {', '.join(gains)}"


def format_gain(told: Explanation, better: float | None, usd: float, hours: float) -> list[str]:
    """What another plan changes, first that by which plans are compared: `$0.40 less`, `3.0 h later`."""
    money = f"{words.usd(abs(usd))} {'more' if usd > 0 else 'less'}" if abs(usd) >= CENT_SHOWN else ""
    took = f"{words.hours(abs(hours))} {'later' if hours > 0 else 'sooner'}" if abs(hours) >= MINUTE else ""
    if told.objective == "time":
        if better is not None and hours > -MINUTE and better >= MINUTE:
            took = f"{words.hours(better)} sooner at the asked confidence"
        return [one for one in (took, money or "the same cost") if one]
    sums = [f"{words.usd(better)} better"] if told.compared_by and better is not None and better > 0 else []
    return [*sums, *(one for one in (money or "the same cost", took) if one)]


def job_scope(told: Explanation) -> str:
    """The name that limits of a job are told without: that of the only job."""
    jobs = list(dict.fromkeys(one.job for one in told.alternatives))
    return jobs[0] if len(jobs) == 1 else told.scenario


def _next(told: Explanation) -> list[str]:
    """One entry per limit that gains; the others in one line."""
    lines: list[str] = []
    for step in told.next_steps:
        if step.change_to is not None:
            lines += step_lines(step, told)
    idle = [limit_name(step.limit, job_scope(told)) for step in told.next_steps if step.change_to is None]
    if idle:
        lines += words.wrap_lines(f"nothing to gain by relaxing: {', '.join(idle)}", ROOM, 3)
    return lines


def step_lines(step: LimitSensitivity, told: Explanation) -> list[str]:
    """What moves, and the plan and the price that it gives."""
    return [*words.wrap_lines(_looser(step, told), ROOM, 2), *_indented(f"{step.plan}, {_figures(step)}")]


def _looser(step: LimitSensitivity, told: Explanation) -> str:
    gains = ", ".join(format_gain(told, step.gain, step.delta_usd or 0.0, step.delta_hours or 0.0))
    name = limit_name(step.limit, job_scope(told))
    if isinstance(step.change_to, str):
        return f"{name}: {step.change_to}: {gains}"
    old, new = limit_value(step.limit, step.change_from), limit_value(step.limit, step.change_to)
    return f"{name} {old} -> {new}: {gains}"


def _indented(text: str) -> list[str]:
    return [f"  {line}" for line in words.wrap_lines(text, ROOM - 2, 3)]


def _figures(step: LimitSensitivity) -> str:
    hours = f"{words.hours(step.hours)}, " if step.hours is not None else ""
    return f"{hours}{words.usd(step.cost_usd or 0.0)}"


def _alternatives(mine: Sequence[Alternative], job: str, most: int) -> list[str]:
    """Tables by provider, GPU and method: the best way of each, and whether it really differs."""
    lines = [words.shorten(f"  Instead{f' of {words.sanitise(job)}' if job else ''}", words.WIDTH)]
    for by, title in TABLES.items():
        rows = [one for one in mine if one.by == by]
        if not rows:
            continue
        lines.append(f"    {title:<18}{'':<{HOW + 1}}{'hours':>6}{'cost':>10}")
        lines += [line for one in rows[:most] for line in _row(one)]
        if len(rows) > most:
            lines.append(f"    {len(rows) - most} more: --json")
    return lines


def _row(one: Alternative) -> list[str]:
    """One way; in a second line the rest of what is said of it."""
    name = words.shorten(words.sanitise(one.name), 17)
    machines = words.gpus(one.gpus, one.gpu, one.runs_at_once)
    how = {
        "provider": f"{machines}, {one.method}",
        "gpu": f"{_count(one)} at {one.provider}",
        "method": f"{machines} at {one.provider}",
    }[one.by]
    if len(how) > HOW and one.by != "gpu":
        how = machines  # better no method or place than half of one
    hours = words.hours(one.hours).removesuffix(" h") if one.hours is not None else ""
    cost = words.usd(one.cost_usd).replace("$", "") if one.cost_usd is not None else ""
    said = one.verdict.replace("no real ", "no ").replace(" more expensive", " more") if one.allowed else "not allowed"
    row = f"    {name:<18}{words.shorten(words.sanitise(how), HOW):<{HOW + 1}}{hours:>6}{cost:>10}  "
    first, *rest = words.wrap_lines(said, VERDICT, 2)
    lines = [f"{row}{first}".rstrip(), *(f"{'':<{len(row)}}{line}" for line in rest)]
    return [words.shorten(line, words.WIDTH) for line in lines]


def _count(one: Alternative) -> str:
    """How many of a card that stands beside it: `8`, `2 x 8` of runs side by side; of a service that it is one."""
    if not one.gpus:
        return "service"
    return f"{one.runs_at_once:,} x {one.gpus:,}" if one.runs_at_once > 1 else f"{one.gpus:,}"


def why_not(told: Explanation, found: WhyNot) -> list[str]:
    """The verdict on X, what makes the difference or stands in the way, and what would let it be."""
    asked = words.sanitise(found.asked)
    against = f" against {words.usd(told.cost_usd)}, {words.hours(told.hours)}" if told.cost_usd and told.hours else ""
    figures = f"{words.usd(found.cost_usd or 0.0)}, {words.hours(found.hours or 0.0)}"
    if found.status == "chosen":
        return words.wrap_lines(f"{asked}: that is the plan: {found.plan}, {figures}", words.WIDTH, 2)
    if found.status == "possible":
        lines = words.wrap_lines(f"{asked}: could be: {figures}{against}{_times(found, told)}", words.WIDTH, 2)
        lines += words.section("As", words.wrap_lines(found.plan, ROOM, 2))
        lines += words.section("Because", [part for one in found.reasons for part in words.wrap_lines(one, ROOM, 2)])
        return lines
    if found.status == "beyond":
        lines = words.wrap_lines(f"{asked}: not within the limits: {'; '.join(found.reasons)}", words.WIDTH, 4)
        lines.append("Smallest change, checked by solving:")
        lines += format_relaxation(1, found.relax, told.scenario)
        price = words.wrap_lines(f"that is {figures}{against}{_times(found, told)}", words.WIDTH - 5, 2)
        return [*lines, *(f"     {line}" for line in price)]
    lines = words.wrap_lines(f"{asked}: cannot be: {'; '.join(found.reasons)}", words.WIDTH, 5)
    lines += _memory(found)
    if found.remedies:
        lines.append("It could be, checked by solving:")
        for number, one in enumerate(found.remedies, 1):
            took = f", {words.usd(one.cost_usd)}, {words.hours(one.hours)}" if one.cost_usd and one.hours else ""
            first, *rest = words.wrap_lines(f"{one.change}: {one.plan}{took}", words.WIDTH - 5, 2)
            lines += [f"  {number}. {first}", *(f"     {line}" for line in rest)]
            lines += settings([pair for pair in (one.setting, *one.also) if pair])
    return lines


def _times(found: WhyNot, told: Explanation) -> str:
    """How much dearer, or slower where time is the objective."""
    if not told.cost_usd or not told.hours or found.cost_usd is None or found.hours is None:
        return ""
    more, less = ("slower", "faster") if told.objective == "time" else ("dearer", "cheaper")
    times = found.hours / told.hours if told.objective == "time" else found.cost_usd / told.cost_usd
    if abs(times - 1) < 0.005:
        return ": no slower" if told.objective == "time" else ": the same cost"
    if times >= 2:
        return f": {times:,.1f} x as {'long' if told.objective == 'time' else 'dear'}"
    return f": {abs(times - 1) * 100:.0f} % {more if times > 1 else less}"


def _memory(found: WhyNot) -> list[str]:
    if found.memory is None:
        return []
    parts = sorted(found.memory.parts.items(), key=lambda part: (-part[1], part[0]))
    said = [f"{name.replace('_', ' ')} {words.gib(size)}" for name, size in parts if size >= 0.05]
    said.append(f"limit: {found.memory.phase}")
    return words.section("Memory", words.join_parts(said, "  ", ROOM, 3))
