"""An explanation as text: the verdict first, then what binds, what comes next, and what else there was."""

from __future__ import annotations

from collections.abc import Sequence

from planner.explanations import Alternative, Binding, Explanation, NextStep, WhyNot
from planner.report import words
from planner.report.obstacles import limit_name, limit_value, near_misses, settings, way_out, ways_out
from planner.report.parts import ROOM

ROWS, ROWS_OF_SEVERAL = 6, 3
"""Rows of a table of alternatives, for one job and for each of several."""
TABLES = {"provider": "Provider", "gpu": "GPU", "method": "Method"}


def render(told: Explanation) -> str:
    """The text of an explanation, without a final newline, in 80 columns."""
    if told.why_not is not None:
        lines = why_not(told, told.why_not)
    elif told.status == "infeasible":
        lines = ["infeasible: no way meets all limits"]
        if told.relax:
            lines = ["infeasible: no way meets all limits. Smallest changes, each checked by solving:"]
            lines += ways_out(told.relax, told.scenario)
        lines += near_misses(told.nearest, several_jobs=len({miss.job for miss in told.nearest}) > 1)
    else:
        lines = plan(told)
    return "\n".join(lines)


def plan(told: Explanation) -> list[str]:
    """Why the plan is as it is."""
    lines = [_verdict(told), ""]
    lines += words.section("Binds", _binds(told))
    lines += words.section("Next", _next(told)) if told.next_steps else []
    jobs = dict.fromkeys(one.job for one in told.alternatives)
    for job in jobs:
        mine = [one for one in told.alternatives if one.job == job]
        lines += ["", *_instead(mine, job if len(jobs) > 1 else "", ROWS if len(jobs) == 1 else ROWS_OF_SEVERAL)]
    return lines


def _verdict(told: Explanation) -> str:
    count = len(told.binding)
    binds = "no limit binds" if not count else "1 limit binds" if count == 1 else f"{count} limits bind"
    figures = f"{words.hours(told.hours or 0.0)}, {words.usd(told.cost_usd or 0.0)}; {binds}"
    name = words.shortened(words.plain(told.scenario), 30)
    what = words.plain(told.plan)
    jobs = len({one.job for one in told.alternatives})
    if jobs > 1:
        what = f"{jobs} jobs"
    room = words.WIDTH - len(name) - len(figures) - 4
    while len(what) > room and ", " in what:
        what = what.rpartition(", ")[0]
    return f"{name}: {words.shortened(what, room)}, {figures}"


def _binds(told: Explanation) -> list[str]:
    if not told.binding:
        return ["none: without any one limit the plan would be the same"]
    return [words.shortened(_bind(one, told), ROOM) for one in told.binding]


def _bind(one: Binding, told: Explanation) -> str:
    name = limit_name(one.limit, told.scenario)
    current = "" if isinstance(one.current, str) else f" {limit_value(one.limit, one.current)}"
    if told.objective == "time":
        cost = f", {words.usd(abs(one.saving_usd))} {'less' if one.saving_usd >= 0 else 'more'}"
        return f"{name}{current}: without it {words.hours(max(one.saving_hours, 0.0))} sooner{cost}"
    return f"{name}{current}: without it {words.usd(one.saving_usd)} less"


def _next(told: Explanation) -> list[str]:
    """One entry per limit that gains; the others in one line."""
    lines: list[str] = []
    for step in told.next_steps:
        if step.change_to is not None:
            lines += step_lines(step, told.scenario)
        elif step.direction == "tighter":
            lines += words.wrapped(f"{_of_job(step, told)}{step.note}", ROOM, 2)
    idle = [
        _idle(step, told.scenario) for step in told.next_steps if step.change_to is None and step.direction == "looser"
    ]
    if idle:
        lines += words.wrapped(f"nothing to gain by relaxing: {', '.join(idle)}", ROOM, 3)
    return lines


def _of_job(step: NextStep, told: Explanation) -> str:
    job = limit_name(step.limit, told.scenario).removeprefix("deadline").removeprefix(" of ")
    return f"{job}: " if job else ""


def _idle(step: NextStep, scenario: str) -> str:
    name = limit_name(step.limit, scenario)
    if step.worth == "gib" and step.limit.startswith("memory"):
        return f"memory per GPU ({step.note.removeprefix('nothing ')})"
    return name


def step_lines(step: NextStep, scenario: str) -> list[str]:
    """What moves, and the plan and the price that it gives."""
    gain = _delta(step)
    if step.direction == "tighter":
        ends = step.note.removeprefix("the present plan ends at ")
        name = limit_name(step.limit, scenario).removeprefix("deadline")
        head = f"{_more_for_less(step)}: under a deadline{name} of {ends} the plan becomes"
        return [*words.wrapped(head, ROOM, 2), *_indented(f"{step.plan}, {_figures(step)}")]
    if step.worth == "gib" and step.limit.startswith("memory"):
        sizes = f"{limit_value('', step.change_from)} to {limit_value('', step.change_to)}"
        head = f"{step.note} on {step.limit.removeprefix('memory of ')} ({sizes}): {gain}"
    elif isinstance(step.change_to, str):
        head = f"{limit_name(step.limit, scenario)}: {step.change_to}: {gain}"
    else:
        old = limit_value(step.limit, step.change_from)
        head = f"{limit_name(step.limit, scenario)} {old} -> {limit_value(step.limit, step.change_to)}: {gain}"
    return [*words.wrapped(head, ROOM, 2), *_indented(f"{step.plan}, {_figures(step)}")]


def _indented(text: str) -> list[str]:
    return [f"  {line}" for line in words.wrapped(text, ROOM - 2, 3)]


def _figures(step: NextStep) -> str:
    hours = f"{words.hours(step.hours)}, " if step.hours is not None else ""
    return f"{hours}{words.usd(step.cost_usd or 0.0)}"


def _delta(step: NextStep) -> str:
    money = "the same cost"
    if step.delta_usd is not None and abs(step.delta_usd) >= 0.005:
        money = f"{words.usd(abs(step.delta_usd))} {'more' if step.delta_usd > 0 else 'less'}"
    if step.delta_hours is None or abs(step.delta_hours) < 0.05:
        return money
    return f"{money}, {words.hours(abs(step.delta_hours))} {'later' if step.delta_hours > 0 else 'sooner'}"


def _more_for_less(step: NextStep) -> str:
    """`$9.52 more buys 118.1 h`; where the next way is no faster, only its price."""
    usd, hours = step.delta_usd or 0.0, step.delta_hours or 0.0
    price = f"{words.usd(abs(usd))} {'more' if usd >= 0 else 'less'}"
    return f"{price} buys {words.hours(-hours)}" if hours <= -0.05 else price


def _instead(mine: Sequence[Alternative], job: str, most: int) -> list[str]:
    """Tables by provider, GPU and method: the best way of each, and whether it really differs."""
    lines = [words.shortened(f"  Instead{f' of {words.plain(job)}' if job else ''}", words.WIDTH)]
    for by, title in TABLES.items():
        rows = [one for one in mine if one.by == by]
        if not rows:
            continue
        lines.append(f"    {title:<18}{'':<26}{'hours':>6}{'cost':>10}")
        lines += [_row(one) for one in rows[:most]]
        if len(rows) > most:
            lines.append(f"    {len(rows) - most} more: --json")
    return lines


def _row(one: Alternative) -> str:
    name = words.shortened(words.plain(one.name), 17)
    how = {
        "provider": f"{words.gpus(one.gpus, one.gpu)}, {one.method}",
        "gpu": f"{one.gpus:,} at {one.provider}",
        "method": f"{words.gpus(one.gpus, one.gpu)} at {one.provider}",
    }[one.by]
    hours = words.hours(one.hours).removesuffix(" h") if one.hours is not None else ""
    cost = words.usd(one.cost_usd).replace("$", "") if one.cost_usd is not None else ""
    said = one.verdict.replace("no real difference", "no difference") if one.allowed else "not allowed"
    row = f"    {name:<18}{words.shortened(words.plain(how), 25):<26}{hours:>6}{cost:>10}  {said}"
    return words.shortened(row.rstrip(), words.WIDTH)


def why_not(told: Explanation, found: WhyNot) -> list[str]:
    """The verdict on X, what makes the difference or stands in the way, and what would let it be."""
    asked = words.plain(found.asked)
    against = f" against {words.usd(told.cost_usd)}, {words.hours(told.hours)}" if told.cost_usd and told.hours else ""
    figures = f"{words.usd(found.cost_usd or 0.0)}, {words.hours(found.hours or 0.0)}"
    if found.status == "chosen":
        return words.wrapped(f"{asked}: that is the plan: {found.plan}, {figures}", words.WIDTH, 2)
    if found.status == "possible":
        lines = words.wrapped(f"{asked}: could be: {figures}{against}{_times(found, told)}", words.WIDTH, 2)
        lines += words.section("As", words.wrapped(found.plan, ROOM, 2))
        lines += words.section("Because", [part for one in found.reasons for part in words.wrapped(one, ROOM, 2)])
        return lines
    if found.status == "beyond":
        lines = words.wrapped(f"{asked}: not within the limits: {'; '.join(found.reasons)}", words.WIDTH, 4)
        lines.append("Smallest change, checked by solving:")
        lines += way_out(1, found.relax, told.scenario)
        price = words.wrapped(f"that is {figures}{against}{_times(found, told)}", words.WIDTH - 5, 2)
        return [*lines, *(f"     {line}" for line in price)]
    lines = words.wrapped(f"{asked}: cannot be: {'; '.join(found.reasons)}", words.WIDTH, 5)
    lines += _memory(found)
    if found.remedies:
        lines.append("It could be, checked by solving:")
        for number, one in enumerate(found.remedies, 1):
            took = f", {words.usd(one.cost_usd)}, {words.hours(one.hours)}" if one.cost_usd and one.hours else ""
            first, *rest = words.wrapped(f"{one.change}: {one.plan}{took}", words.WIDTH - 5, 2)
            lines += [f"  {number}. {first}", *(f"     {line}" for line in rest)]
            lines += settings([one.setting]) if one.setting else []
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
    return words.section("Memory", words.joined(said, "  ", ROOM, 3))
