"""Before and after side by side as text, and the tornado: the summary, what changed, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.report import plan_sections, words
from planner.report.explanation_text import render_infeasible
from planner.report.plan_sections import cut_lines, item_name, rounding
from planner.report.sweep_text import (
    CHOSEN_AGAIN,
    describe_reasons,
    describe_setting,
    format_difference,
    format_hours_difference,
    format_loss_difference,
    shown_difference,
    shown_differences,
    shown_hours_difference,
)
from planner.results.explanation import describe_differences
from planner.results.plan import Assignment, Plan
from planner.results.plan_parts import Hours
from planner.results.subject_runs import ModelChoice
from planner.results.what_if import Bar, BillDelta, Endpoint, JobDelta, Tornado, WhatIf
from planner.subjects import shown_by
from planner.units import DAY_HOURS, count_text

if TYPE_CHECKING:
    from collections.abc import Sequence


ROW_LABEL, BEFORE, AFTER = 20, 29, 31
"""Columns of the label and of either side; together 80."""


def render_what_if(answer: WhatIf) -> str:
    """Return the text of a what-if without a final newline."""
    if (subject := shown_by(answer)) is not None:
        return subject.text(answer)
    if not answer.after.jobs:
        lines = _no_plan_after(answer)
    elif not answer.before.jobs:
        lines = [_summary(answer, f"feasible after the change: {_figures(answer.after)}"), "", *table_lines(answer)]
    elif answer.unchanged:
        lines = _unchanged(answer)
    else:
        lines = [_summary(answer, *describe_changes(answer)), "", *table_lines(answer)]
        label = _columns()[0]
        reasons = words.wrap_all(describe_reasons(answer), words.width() - label, 3)
        lines += words.hang(f"{'why':<{label}}", reasons)
    return with_choice(answer, lines)


def with_choice(answer: WhatIf, lines: list[str]) -> str:
    """Return the lines with those below the first one: that what is open is chosen again, and what is cut."""
    below = [*_choice_line(answer), *cut_lines(answer.after.cut or answer.before.cut)]
    return "\n".join(line.rstrip() for line in [*lines[:1], *below, *lines[1:]])


def _choice_line(answer: WhatIf) -> list[str]:
    """Return that what is open is chosen again for the changed scenario; nothing where nothing is."""
    is_open = any(job.model is not None for plan in (answer.before, answer.after) for job in plan.jobs)
    return words.second_lines(CHOSEN_AGAIN if is_open else None)


def _summary(answer: WhatIf, *texts: str) -> str:
    return words.first_fitting(answer.scenario, *texts)


def _figures(plan: Plan) -> str:
    """Return machines, hours, dollars and optimality in one line."""
    what = f"{len(plan.jobs)} jobs"
    if len(plan.jobs) == 1:
        (job,) = plan.jobs
        what = plan_sections.format_place(job, with_region=False)
    time = words.likely_and_by(plan.hours) if plan.hours else ""
    cost = words.usd(plan.cost.expected) if plan.cost else ""
    return ", ".join((what, time, cost, plan_sections.format_optimality(plan)))


def describe_changes(answer: WhatIf) -> list[str]:
    """Return the differences of cost and hours with the most important other ones: in full, and only the first."""
    cost, hours = shown_differences(answer)
    money = "the same cost" if abs(cost) < 0.005 else f"{words.usd(abs(cost))} {'more' if cost > 0 else 'less'}"
    time = (
        f"{words.likely(abs(hours))} {'later' if hours > 0 else 'earlier'}" if abs(hours) >= 0.05 else "the same hours"
    )
    changed = [job for job in answer.jobs if job.changes]
    if not changed:
        what = "the same machines"
    elif len(answer.jobs) == 1:
        what = describe_differences(changed[0].changes)
    else:
        what = f"{len(changed)} of {len(answer.jobs)} jobs change"
    forms = (what, describe_differences(changed[0].changes, 1)) if len(answer.jobs) == 1 and changed else (what,)
    several = sum(job.model is not None for job in answer.after.jobs) > 1
    name = "sum of losses " if several else "loss "
    loss = f"{format_loss_difference(answer.delta.loss, name)}, " if answer.delta.loss is not None else ""
    return [f"{loss}{money}, {time}; {form}" for form in forms]


def _unchanged(answer: WhatIf) -> list[str]:
    lines = [_summary(answer, "nothing changes"), *words.wrap_hanging(f"the plan stays {_figures(answer.after)}", 2)]
    if answer.settings:
        for hint in answer.it_would_take:
            lines += words.wrap_hanging(hint, 3)
    else:
        lines.append("  no value was set: --set PATH=VALUE changes one")
    return [words.shorten(line, words.width()) for line in lines]


def _no_plan_after(answer: WhatIf) -> list[str]:
    before, after = answer.before, answer.after
    ends = "infeasible" if after.status == "infeasible" else "stopped without a plan"
    if not before.jobs:
        lines = [_summary(answer, f"{ends} after the change, and {before.status} before")]
    else:
        lines = [_summary(answer, f"{ends} after the change"), *_before(before)]
    alone = [effect for effect in answer.effects if effect.alone_status == "infeasible"]
    for effect in alone:
        lines += words.wrap_hanging(f"{describe_setting(effect.setting)} alone is infeasible", 3)
    if answer.effects and not alone and before.jobs:
        lines += words.wrap_hanging("each setting alone is feasible; together they are not", 3)
    return [*lines, "", *render_infeasible(after)]


def _before(plan: Plan) -> list[str]:
    start = "  before   "
    return words.hang(start, words.wrap_lines(_figures(plan), words.width() - len(start), 2))


def table_lines(answer: WhatIf) -> list[str]:
    """Return the table: one job in full; for several jobs the totals, then a block for each that changed."""
    before, after = answer.before, answer.after
    lines = _row("", "before", "after")
    if len(before.jobs) <= 1 and len(after.jobs) == 1:
        (new,) = after.jobs
        old = before.jobs[0] if before.jobs else None
        return lines + _block(old, new, answer.jobs[0] if answer.jobs else None)
    usd, new_usd = (plan.cost.expected if plan.cost else None for plan in (before, after))
    lines += _cost_and_hours(usd, new_usd, before.hours, after.hours)
    later = {job.name: job for job in after.jobs}
    earlier = {job.name: job for job in before.jobs}
    same = []
    for delta in answer.jobs:
        if is_same(delta):
            same.append(delta.name)
        else:
            lines += ["", words.shorten(words.sanitise(delta.name), words.width())]
            lines += _block(earlier[delta.name], later[delta.name], delta)
    for name in (name for name in later if name not in earlier):
        lines += ["", f"{words.shorten(words.sanitise(name), 60)}: new", *_block(None, later[name], None)]
    gone = [name for name in earlier if name not in later]
    for label, names in (("unchanged", same), ("removed", gone if after.jobs else [])):
        if names:
            lines += ["", *words.wrap_lines(f"{label}: {', '.join(names)}", words.width(), 2)]
    return lines


def is_same(delta: JobDelta) -> bool:
    """Return whether nothing of a job changed."""
    return not delta.changes and abs(delta.delta.cost_usd or 0) < 0.005 and abs(delta.delta.hours or 0) < 0.01


def _block(old: Assignment | None, new: Assignment, delta: JobDelta | None) -> list[str]:
    """Return one job: machines, techniques, changed lines of the bill, cost, hours, probability to be in time."""
    lines = _trained_rows(old.model if old else None, new.model)
    lines += _row("plan", _machines(old), _machines(new))
    lines += _row(
        "techniques",
        plan_sections.techniques(old, brief=True) if old else "",
        plan_sections.techniques(new, brief=True),
    )
    if delta and old:
        lines += _bill(delta, old, new)
    lines += _cost_and_hours(old.cost_usd if old else None, new.cost_usd, old.hours if old else None, new.hours)
    return lines + (_row("in time", _in_time(old), _in_time(new)) if _in_time(new) != _in_time(old) else [])


def _trained_rows(old: ModelChoice | None, new: ModelChoice | None) -> list[str]:
    """Return what a job trains that leaves it open, and the loss, before and after."""
    if new is None:
        return []
    trained = [
        f"{words.sanitise(one.architecture)} on {count_text(one.tokens)} tokens" if one else "" for one in (old, new)
    ]
    losses = [f"{one.loss.value:.3f}" if one and one.loss else "" for one in (old, new)]
    if old and old.loss and new.loss:
        losses[1] += f"  ({format_loss_difference(new.loss.value - old.loss.value, '')})"
    batches = [f"{one.batch.sequences:,} sequences" if one and one.batch else "" for one in (old, new)]
    rows = [("trains", trained), ("loss", losses), ("batch", batches)]
    return [line for label, cells in rows if any(cells) for line in _row(label, *cells)]


def _cost_and_hours(
    cost: float | None, new_cost: float | None, hours: Hours | None, new_hours: Hours | None
) -> list[str]:
    """Return three rows: dollars, likely hours and those at the confidence, before and after, with the differences."""
    dollars = ["no plan" if usd is None else words.usd(usd) for usd in (cost, new_cost)]
    times = [_hours_text(duration) if duration else "" for duration in (hours, new_hours)]
    if cost is not None and new_cost is not None:
        dollars[1] += f"  ({format_difference(shown_difference(cost, new_cost))})"
    late = [words.hours_by(duration.at_confidence) if duration else "" for duration in (hours, new_hours)]
    if hours and new_hours:
        times[1] += f"  ({format_hours_difference(shown_hours_difference(hours.expected, new_hours.expected))})"
        shown = (words.shown_by(each.at_confidence) for each in (hours, new_hours))
        late[1] += f"  ({format_hours_difference(shown_hours_difference(*shown))})"
    return _row("cost", *dollars) + _row("likely", *times) + _row("by", *late)


def _bill(delta: JobDelta, before: Assignment, after: Assignment) -> list[str]:
    """Return the lines of the bill that change, and all others as one that makes either column add up to its cost."""
    lines = [row for line in delta.bill for row in _bill_line(line, after.gpu)]
    rests = (
        rounding([line.before_usd or 0.0 for line in delta.bill], before.cost_usd),
        rounding([line.after_usd or 0.0 for line in delta.bill], after.cost_usd),
    )
    if any(rests):
        lines += _row("all else", *(f" {words.usd(usd).replace('$', '')}" for usd in rests))
    return lines


def _bill_line(line: BillDelta, gpu: str) -> list[str]:
    """Return a line of the bill before and after."""
    old, new = (
        words.usd(usd).replace("$", "") if usd is not None else "-" for usd in (line.before_usd, line.after_usd)
    )
    change = format_difference(shown_difference(line.before_usd or 0.0, line.after_usd or 0.0)).replace("$", "")
    return _row(item_name(line.item, gpu), f" {old}", f" {new}  ({change})")


def _machines(job: Assignment | None) -> str:
    return (
        f"{plan_sections.format_place(job)}, {plan_sections.format_market(job.spot_share, job.tier)}"
        if job
        else "no plan"
    )


def _hours_text(hours: Hours) -> str:
    return f"{words.hours(hours.expected)} ({words.hours_between(hours).removesuffix(' h')})"


def _in_time(job: Assignment | None) -> str:
    if job is None or job.deadline_hours is None or job.deadline_probability is None:
        return "no deadline" if job else ""
    chance = words.chance_text(job.deadline_probability, at_least=job.spot is not None)
    return f"{words.given_hours(job.deadline_hours)} h with {chance}"


def _row(label: str, before: str, after: str) -> list[str]:
    """Return one row; a long cell continues below, in at most three lines."""
    name, old, new = _columns()
    cells = words.columns(_cell(before, old - 2), _cell(after, new), old)
    return words.hang(f"{words.shorten(label, name - 1):<{name}}", cells)


def _columns() -> tuple[int, int, int]:
    """Return the columns of the label and of either side: narrower in less than 80 columns."""
    over = max(0, ROW_LABEL + BEFORE + AFTER - words.width())
    return ROW_LABEL - over // 5, BEFORE - 2 * over // 5, AFTER - over + over // 5 + 2 * over // 5


def _cell(text: str, width: int) -> list[str]:
    indent = " " if text.startswith(" ") else ""
    return [indent + line for line in words.wrap_lines(text.strip(), width - len(indent), 3)]


# A tornado as text: bars of plus and minus, largest effect first.


BY_COST = (35, 9, 25)
BY_TIME = (29, 8, 17)
"""Columns of a name, of the figure of an end, and of a bar including its middle."""

LEAST_BAR = 9
"""Columns of a bar in a narrow text."""

MIN_EFFECT = 0.005
"""Dollars or hours below which a change is not shown."""


def render_tornado(answer: Tornado) -> str:
    """Return the text of a tornado without a final newline."""
    plan = answer.base
    if plan.cost is None or plan.hours is None:
        lines = [
            words.first_fitting(answer.scenario, "no plan to start from"),
            *cut_lines(plan.cut),
            "",
            *render_infeasible(plan),
        ]
        return "\n".join(line.rstrip() for line in lines)
    visible = [(name, bar) for name, bar in answer.lines if is_visible(answer, bar)]
    share = f"{answer.by * 100:.3g} %"
    figures = words.usd(plan.cost.expected)
    if shown_by(plan) is not None:
        figures += f" for {plan.hours.expected / DAY_HOURS:,.4g} days"
    if answer.better == "sooner":
        figures = f"{words.likely(plan.hours.expected)}, {figures}"
    most = f"{figures}; nothing has an effect"
    if visible:
        most = f"{figures}; largest effect: {words.sanitise(visible[0][0])}"
    # The head of the columns shows the share too.
    lines = [words.first_fitting(answer.scenario, *([f"{most}, moved by {share}"] if visible else []), most)]
    lines += [*words.lines_below_first(answer.fixed), *cut_lines(plan.cut), ""]
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
    over = max(0, words.WIDTH - words.width())
    narrower = min(over, bars - LEAST_BAR) // 2 * 2  # a bar has a middle
    label, bars = label - over + narrower, bars - narrower
    columns = [f"{unit}{sign}{share}" for unit in (("h ", "$ ") if by_time else ("",)) for sign in "-+"]
    head = f"{'':<{label}}" + "".join(f"{column:>{wide}}" for column in columns)
    left, right = ("earlier", "later") if by_time else ("cheaper", "more expensive")
    left, right = (left, right) if len(left) + len(right) < bars else ("less", "more")
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
    if end.cost_usd is None or end.hours is None or plan.cost is None or plan.hours is None:
        return None
    return end.hours - plan.hours.expected if by_time else end.cost_usd - plan.cost.expected


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
