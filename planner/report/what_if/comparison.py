"""Before and after side by side, as text of 80 columns: the verdict, what changed, and why."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING

from planner.report import format as words
from planner.report import plan_sections as parts
from planner.report.infeasible import render_infeasible
from planner.report.what_if.differences import (
    describe_setting,
    format_difference,
    format_hours_difference,
    shown_difference,
    shown_hours_difference,
)
from planner.results.differences import describe_differences

if TYPE_CHECKING:
    from planner.results.plan import Assignment, Hours, Plan
    from planner.results.what_if import BillDelta, Effect, JobDelta, WhatIf

LABEL, BEFORE, AFTER = 14, 31, 35
"""Columns of the label and of either side; together `words.WIDTH`."""

NONE = "no plan"


def render_what_if(answer: WhatIf) -> str:
    """The text of a what-if, without a final newline."""
    if not answer.after.jobs:
        lines = _no_plan_after(answer)
    elif not answer.before.jobs:
        lines = [_summary(answer, f"possible after the change: {_figures(answer.after)}"), "", *_table_lines(answer)]
    elif answer.unchanged:
        lines = _unchanged(answer)
    else:
        lines = [_summary(answer, *_describe_change(answer)), "", *_table_lines(answer), *_why(answer)]
    return "\n".join(line.rstrip() for line in lines)


def _summary(answer: WhatIf, *said: str) -> str:
    return words.first_fitting(answer.scenario, *said)


def _figures(plan: Plan) -> str:
    """What is rented, hours, dollars and proof, in one line."""
    what = f"{len(plan.jobs)} jobs"
    if len(plan.jobs) == 1:
        (job,) = plan.jobs
        what = parts.format_place(job, with_region=False)
    took = words.hours(plan.hours.expected) if plan.hours else ""
    cost = words.usd(plan.cost_usd.expected) if plan.cost_usd else ""
    return ", ".join((what, took, cost, parts.format_optimality(plan)))


def _differences(answer: WhatIf) -> tuple[float, float]:
    """Dollars and hours after less before, both as they are shown; 0 where a plan is missing."""
    before, after = answer.before, answer.after
    return (
        shown_difference(before.cost_usd.expected, after.cost_usd.expected)
        if before.cost_usd and after.cost_usd
        else 0.0,
        shown_hours_difference(before.hours.expected, after.hours.expected) if before.hours and after.hours else 0.0,
    )


def _describe_change(answer: WhatIf) -> list[str]:
    """Dearer or cheaper, sooner or later, and the most telling differences: in full, and the first alone."""
    cost, took = _differences(answer)
    money = "the same cost" if abs(cost) < 0.005 else f"{words.usd(abs(cost))} {'dearer' if cost > 0 else 'cheaper'}"
    time = "the same hours" if abs(took) < 0.05 else f"{words.hours(abs(took))} {'later' if took > 0 else 'sooner'}"
    changed = [job for job in answer.jobs if job.changes]
    if not changed:
        what = "the same machines"
    elif len(answer.jobs) == 1:
        what = describe_differences(changed[0].changes)
    else:
        what = f"{len(changed)} of {len(answer.jobs)} jobs are run otherwise"
    forms = (what, describe_differences(changed[0].changes, 1)) if len(answer.jobs) == 1 and changed else (what,)
    return [f"{money}, {time}; {form}" for form in forms]


def _unchanged(answer: WhatIf) -> list[str]:
    lines = [_summary(answer, "nothing changes"), f"  the plan stays {_figures(answer.after)}"]
    if answer.settings:
        for hint in answer.it_would_take:
            lines += _wrap_hanging(hint)
    else:
        lines.append("  nothing was set: --set PATH=VALUE changes one value")
    return [words.shorten(line, words.WIDTH) for line in lines]


def _no_plan_after(answer: WhatIf) -> list[str]:
    before, after = answer.before, answer.after
    ends = "infeasible" if after.status == "infeasible" else "stopped without a plan"
    if not before.jobs:
        lines = [_summary(answer, f"{ends} after the change, and {before.status} before")]
    else:
        lines = [_summary(answer, f"{ends} after the change"), f"  before   {_figures(before)}"]
    alone = [one for one in answer.effects if one.alone_status == "infeasible"]
    for one in alone:
        lines += _wrap_hanging(f"{describe_setting(one.setting)} leaves no plan even alone")
    if answer.effects and not alone and before.jobs:
        lines += _wrap_hanging("each setting alone leaves a plan; together they do not")
    return [*lines, "", *render_infeasible(after)]


def _table_lines(answer: WhatIf) -> list[str]:
    """The table: one job in full; of several the totals, then a block for each that changed."""
    before, after = answer.before, answer.after
    lines = _row("", "before", "after")
    if len(before.jobs) <= 1 and len(after.jobs) == 1:
        (new,) = after.jobs
        old = before.jobs[0] if before.jobs else None
        delta = next((one for one in answer.jobs), None)
        return lines + _block(old, new, delta)
    lines += _totals(before, after)
    later = {job.name: job for job in after.jobs}
    earlier = {job.name: job for job in before.jobs}
    same = []
    for delta in answer.jobs:
        if _is_same(delta):
            same.append(delta.name)
        else:
            lines += ["", words.shorten(words.sanitise(delta.name), words.WIDTH)]
            lines += _block(earlier[delta.name], later[delta.name], delta)
    for name in (name for name in later if name not in earlier):
        lines += ["", f"{words.shorten(words.sanitise(name), 60)}: new", *_block(None, later[name], None)]
    gone = [name for name in earlier if name not in later]
    for label, names in (("unchanged", same), ("gone", gone if after.jobs else [])):
        if names:
            lines += ["", *words.wrap_lines(f"{label}: {', '.join(names)}", words.WIDTH, 2)]
    return lines


def _is_same(delta: JobDelta) -> bool:
    return not delta.changes and abs(delta.delta.cost_usd or 0) < 0.005 and abs(delta.delta.hours or 0) < 0.01


def _block(old: Assignment | None, new: Assignment, delta: JobDelta | None) -> list[str]:
    """One job: machines, techniques, the lines of the bill that changed, cost, hours, the chance to be in time."""
    lines = _row("plan", _machines(old), _machines(new))
    lines += _row("techniques", parts.techniques(old, brief=True) if old else "", parts.techniques(new, brief=True))
    for line in delta.bill if delta else ():
        lines += _bill(line)
    if delta and delta.bill_unchanged:
        lines += _bill(delta.bill_unchanged)
    lines += _row(
        "cost",
        words.usd(old.cost_usd) if old else NONE,
        _with_difference(words.usd(new.cost_usd), _money(old.cost_usd if old else None, new.cost_usd)),
    )
    return [
        *lines,
        *_row(
            "hours",
            _hours_of(old) if old else "",
            _with_difference(_hours_of(new), _time(old.hours if old else None, new.hours)),
        ),
        *(_row("in time", _in_time(old), _in_time(new)) if _in_time(new) != _in_time(old) else ()),
    ]


def _totals(before: Plan, after: Plan) -> list[str]:
    cost = [words.usd(plan.cost_usd.expected) if plan.cost_usd else NONE for plan in (before, after)]
    took = [_hours_text(plan.hours) if plan.hours else "" for plan in (before, after)]
    return [
        *_row(
            "cost",
            cost[0],
            _with_difference(
                cost[1], _money(*(plan.cost_usd.expected if plan.cost_usd else None for plan in (before, after)))
            ),
        ),
        *_row("hours", took[0], _with_difference(took[1], _time(before.hours, after.hours))),
    ]


def _bill(line: BillDelta) -> list[str]:
    old, new = (
        words.usd(usd).replace("$", "") if usd is not None else "-" for usd in (line.before_usd, line.after_usd)
    )
    label = words.shorten(line.item.replace("gpu ", "GPU "), LABEL - 1)
    change = format_difference(shown_difference(line.before_usd or 0.0, line.after_usd or 0.0)).replace("$", "")
    return _row(label, f" {old}", f" {_with_difference(new, '' if line.item == 'unchanged' else change)}")


def _machines(job: Assignment | None) -> str:
    return f"{parts.format_place(job)}, {parts.format_market(job.spot_share, job.tier)}" if job else NONE


def _hours_of(job: Assignment) -> str:
    return _hours_text(job.hours)


def _hours_text(hours: Hours) -> str:
    return f"{words.hours(hours.expected)} ({words.between(hours.low, hours.high).removesuffix(' h')})"


def _in_time(job: Assignment | None) -> str:
    if job is None or job.deadline_hours is None or job.deadline_probability is None:
        return "no deadline" if job else ""
    return f"{words.plain_number(job.deadline_hours)} h in {words.probability_text(job.deadline_probability)}"


def _money(before: float | None, after: float | None) -> str:
    return "" if before is None or after is None else format_difference(shown_difference(before, after))


def _time(before: Hours | None, after: Hours | None) -> str:
    return (
        ""
        if before is None or after is None
        else format_hours_difference(shown_hours_difference(before.expected, after.expected))
    )


def _with_difference(value: str, difference: str) -> str:
    return f"{value}  ({difference})" if difference else value


def _row(label: str, before: str, after: str) -> list[str]:
    """One row; a long cell goes on below, at most three lines of it."""
    left, right = _cell(before, BEFORE - 2), _cell(after, AFTER)
    return [
        f"{label if not i else '':<{LABEL}}{one:<{BEFORE}}{other}"
        for i, (one, other) in enumerate(zip_longest(left, right, fillvalue=""))
    ]


def _cell(text: str, width: int) -> list[str]:
    indent = " " if text.startswith(" ") else ""
    return [indent + line for line in words.wrap_lines(text.strip(), width - len(indent), 3)]


def _why(answer: WhatIf) -> list[str]:
    """What the change ruled out or opened, and each setting's share of the difference."""
    said = _shares(answer) if answer.effects else [_single(answer)]
    lines = [line for one in said if one for line in words.wrap_lines(one, words.WIDTH - LABEL, 3)]
    return [f"{'why' if not i else '':<{LABEL}}{line}" for i, line in enumerate(lines)]


def _single(answer: WhatIf) -> str:
    subject = describe_setting(answer.settings[0]) if answer.settings else "the change"
    said = _describe_counts(subject, answer.better, *_counts(answer))
    if said or len(answer.jobs) < 2:
        return said
    return f"{subject} bears on what the jobs share: no way of one job alone is ruled out or opened"


def _counts(answer: WhatIf) -> tuple[int, int, int, int]:
    jobs = answer.jobs
    return (
        sum(job.ruled_out for job in jobs),
        sum(job.opened for job in jobs),
        sum(job.dearer for job in jobs),
        sum(job.cheaper for job in jobs),
    )


def _describe_counts(subject: str, better: str, lost: int, gained: int, dearer: int = 0, cheaper: int = 0) -> str:
    said = []
    if lost:
        said.append(f"rules out {lost:,} {better} {'way' if lost == 1 else 'ways'}")
    if gained:
        said.append(f"opens {gained:,} {better} {'way' if gained == 1 else 'ways'}")
    worse, now = ("dearer", "cheaper") if better == "cheaper" else ("slower", "faster")
    if dearer:
        said.append(f"makes {dearer:,} {'way' if dearer == 1 else 'ways'} {worse} than the plan after")
    if cheaper:
        said.append(f"makes {cheaper:,} {'way' if cheaper == 1 else 'ways'} {now} than the plan before")
    return f"{subject} {' and '.join(said)}" if said else ""


def _shares(answer: WhatIf) -> list[str]:
    by_cost = abs(answer.delta.cost_usd or 0.0) >= 0.005
    whole = answer.delta.cost_usd if by_cost else answer.delta.hours
    if whole is None:
        return [
            _describe_counts(describe_setting(one.setting), answer.better, one.ruled_out, one.opened)
            for one in answer.effects
        ]
    shown = format_difference if by_cost else format_hours_difference
    total = shown(_differences(answer)[0 if by_cost else 1])
    said = [_share(one, by_cost, total, answer.better) for one in answer.effects]
    left = answer.together.cost_usd if by_cost else answer.together.hours
    if left is not None and abs(left) >= 0.005:
        said.append(f"only together: {shown(left)}")
    # How the difference was divided belongs beside the figures.
    return [*said, "shares: the mean of what each does alone and as the last of all"]


def _share(effect: Effect, by_cost: bool, whole: str, better: str) -> str:
    share = effect.share.cost_usd if by_cost else effect.share.hours
    name = describe_setting(effect.setting)
    shown = format_difference if by_cost else format_hours_difference
    ways = _describe_counts("", better, effect.ruled_out, effect.opened)
    tail = f";{ways}" if ways else ""
    if share is None:
        return f"{name}: leaves no plan {'alone' if effect.alone_status == 'infeasible' else 'without the others'}"
    return f"{name}: {shown(share)} of the {whole}{tail}"


def _wrap_hanging(text: str) -> list[str]:
    lines = words.wrap_lines(text, words.WIDTH - 4, 3)
    return [f"  {line}" if not i else f"    {line}" for i, line in enumerate(lines)]
