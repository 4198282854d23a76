"""What-ifs as text: before and after side by side, curves, heat maps and many variants, and the tornado."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.report import plan_sections, words
from planner.report.explanation_text import render_infeasible
from planner.report.plan_sections import cut_lines, format_market, item_name, rounding, variant_cut_lines
from planner.results.explanation import describe_differences
from planner.results.plan import Assignment, Plan
from planner.results.plan_parts import Hours
from planner.results.service_results import span
from planner.results.subject_runs import LAST_DIGIT, ModelChoice
from planner.results.what_if import (
    Bar,
    BillDelta,
    Cell,
    Endpoint,
    JobDelta,
    ManyVariants,
    Sweep,
    Tornado,
    Variant,
    WhatIf,
    loss_of,
    most_cut,
)
from planner.subjects import shown_by
from planner.units import DAY_HOURS, count_text, figure_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


CHOSEN_AGAIN = "what is open is chosen again for each scenario"
"""That models, tokens and batches of plans that are compared are not the same."""


# Differences between two plans as text, the settings that cause them, and the candidates these rule out or open.


def format_difference(value: float) -> str:
    """Return a difference of dollars with its sign, such as `+$1.15`; zero without a sign."""
    text = words.usd(abs(value))
    return text if text == "$0.00" else f"{'-' if value < 0 else '+'}{text}"


def shown_difference(before: float, after: float, digits: int = 2) -> float:
    """Return the difference of the rounded figures, so that it agrees with what is shown."""
    return round(round(after, digits) - round(before, digits), digits)


def format_hours_difference(value: float) -> str:
    """Return a difference of hours with its sign."""
    text = words.hours(abs(value))
    return text if abs(value) < 0.005 else f"{'-' if value < 0 else '+'}{text}"


def format_loss_difference(value: float, name: str = "loss ") -> str:
    """Return a difference of losses, such as `loss 0.073 lower`."""
    if abs(value) < LAST_DIGIT:
        return f"the same {name or 'loss'}".rstrip()
    return f"{name}{abs(value):.3f} {'higher' if value > 0 else 'lower'}"


def shown_hours_difference(before: float, after: float) -> float:
    """Return the difference of hours as they are shown; exact if it is shown in minutes."""
    least, most = sorted((before, after))
    return after - before if least < 0.1 else shown_difference(before, after, 0 if most >= 1000 else 1)


def shown_differences(answer: WhatIf) -> tuple[float, float]:
    """Return dollars and hours after minus before, both as they are shown; 0 if a plan is missing."""
    before, after = answer.before, answer.after
    usd = hours = 0.0
    if before.cost and after.cost:
        usd = shown_difference(before.cost.expected, after.cost.expected)
    if before.hours and after.hours:
        hours = shown_hours_difference(before.hours.expected, after.hours.expected)
    return usd, hours


def describe_setting(setting: str) -> str:
    """Return a setting as the subject of a sentence, such as `the deadline of 8h` or `forbidding H100-80GB`."""
    path, _, value = words.sanitise(setting).partition("=")
    path, value = path.strip(), value.strip().strip("[]")
    steps = path.split(".")
    key = steps[-1]
    if key == "forbid":
        return f"forbidding {value}"
    if key == "allow":
        return f"allowing only {value}"
    if key == "deadline":
        return f"the deadline of {value}" if value not in ("null", "~", "") else "removing the deadline"
    if path == "limits.budget_usd":
        return f"the budget of ${value}" if value not in ("null", "~", "") else "removing the budget"
    if steps[0] == "adjust":
        return "the changed price"
    return f"{'.'.join(steps[2:]) if steps[0] == 'jobs' and len(steps) > 2 else path} = {value}"


def describe_reasons(answer: WhatIf) -> list[str]:
    """Return what the change ruled out or opened, and the share of each setting in the difference."""
    if answer.effects:
        return [text for text in _shares(answer) if text]
    reason = _single(answer)
    return [reason] if reason else []


def _single(answer: WhatIf) -> str:
    subject = describe_setting(answer.settings[0]) if answer.settings else "the change"
    jobs = answer.jobs
    text = _describe_counts(
        subject,
        answer.better,
        (sum(job.ruled_out for job in jobs), sum(job.opened for job in jobs)),
        (sum(job.dearer for job in jobs), sum(job.cheaper for job in jobs)),
    )
    if text or len(jobs) < 2 or answer.delta.loss is not None:
        return text
    return f"{subject} affects what the jobs share: no candidate of a single job is ruled out or opened"


def _describe_counts(
    subject: str, better: str, ruled_out_opened: tuple[int, int], worse_better: tuple[int, int] = (0, 0)
) -> str:
    """Return what a setting does to the candidates; empty if it changes none."""
    better_word, worse_word = ("cheaper", "more expensive") if better == "cheaper" else ("faster", "slower")
    counts = (
        (ruled_out_opened[0], f"rules out {{}} {better_word} {{}}"),
        (ruled_out_opened[1], f"opens {{}} {better_word} {{}}"),
        (worse_better[0], f"makes {{}} {{}} {worse_word} than the plan after"),
        (worse_better[1], f"makes {{}} {{}} {better_word} than the plan before"),
    )
    texts = [text.format(f"{count:,}", "candidate" if count == 1 else "candidates") for count, text in counts if count]
    return f"{subject} {' and '.join(texts)}" if texts else ""


def _shares(answer: WhatIf) -> list[str]:
    """Return the share of each setting in the difference of the loss, else of the cost, else of the hours."""
    by_cost = abs(answer.delta.cost_usd or 0.0) >= 0.005
    key, shown = ("cost_usd", format_difference) if by_cost else ("hours", format_hours_difference)
    total = shown(shown_differences(answer)[0 if by_cost else 1])
    if answer.delta.loss is not None:
        key, shown = "loss", "{:+.3f} of loss".format
        total = f"{answer.delta.loss:+.3f}"
    texts = []
    for effect in answer.effects:
        name, share = describe_setting(effect.setting), getattr(effect.share, key)
        counts = (effect.ruled_out, effect.opened)
        if getattr(answer.delta, key) is None:
            texts.append(_describe_counts(name, answer.better, counts))
        elif share is None:
            without = "alone" if effect.alone_status == "infeasible" else "without the others"
            texts.append(f"{name}: no plan {without}")
        else:
            changes = _describe_counts("", answer.better, counts)
            texts.append(f"{name}: {shown(share)} of the {total}{';' if changes else ''}{changes}")
    if getattr(answer.delta, key) is None:
        return texts
    left = getattr(answer.together, key)
    if left is not None and abs(left) >= (LAST_DIGIT if key == "loss" else 0.005):
        texts.append(f"only together: {shown(left)}")
    return [*texts, "shares: mean of the effect of each setting alone and as the last of all"]


# Before and after side by side.


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
    machines = f"{len(plan.jobs)} jobs"
    if len(plan.jobs) == 1:
        (job,) = plan.jobs
        machines = plan_sections.format_place(job, with_region=False)
    time = words.likely_and_by(plan.hours) if plan.hours else ""
    cost = words.usd(plan.cost.expected) if plan.cost else ""
    return ", ".join((machines, time, cost, plan_sections.format_optimality(plan)))


def describe_changes(answer: WhatIf) -> list[str]:
    """Return the differences of cost and hours with the most important other ones: in full, and only the first."""
    cost, hours = shown_differences(answer)
    money = "the same cost" if abs(cost) < 0.005 else f"{words.usd(abs(cost))} {'more' if cost > 0 else 'less'}"
    time = (
        f"{words.likely(abs(hours))} {'later' if hours > 0 else 'earlier'}" if abs(hours) >= 0.05 else "the same hours"
    )
    changed = [job for job in answer.jobs if job.changes]
    if not changed:
        changes = "the same machines"
    elif len(answer.jobs) == 1:
        changes = describe_differences(changed[0].changes)
    else:
        changes = f"{len(changed)} of {len(answer.jobs)} jobs change"
    forms = (changes, describe_differences(changed[0].changes, 1)) if len(answer.jobs) == 1 and changed else (changes,)
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
        f"{words.sanitise(model.architecture)} on {count_text(model.tokens)} tokens" if model else ""
        for model in (old, new)
    ]
    losses = [f"{model.loss.value:.3f}" if model and model.loss else "" for model in (old, new)]
    if old and old.loss and new.loss:
        losses[1] += f"  ({format_loss_difference(new.loss.value - old.loss.value, '')})"
    batches = [f"{model.batch.sequences:,} sequences" if model and model.batch else "" for model in (old, new)]
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
        shown = (words.shown_by(spread.at_confidence) for spread in (hours, new_hours))
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


# Sweeps as text: curves and heat maps.


LETTERS = "abcdefghijklmnopqrstuvwxyz"

ON = " on "
"""Between a model that was chosen and its machines."""

MACHINE_LINES = 6
"""Most lines of what is rented in one cell."""

MINUTES = 60
START_SHARE = 0.5
"""Share of the spread of hours from which the start is shown: then the ranges mostly change the start."""


def render_sweep(answer: Sweep) -> str:
    """Return the text of a sweep without a final newline."""
    cut, cutting = most_cut(answer.cells)
    lines = [
        _sweep_summary(answer),
        *_choice_of_cells(answer.cells),
        *variant_cut_lines(cut, cutting, len(answer.cells)),
        "",
    ]
    if len(answer.axes) == 1:
        lines += _curve(answer)
    else:
        lines += _grids(answer)
    if answer.unsolved is not None:
        lines += ["", *words.wrap_lines(f"with the loosest values, {_loosest(answer)}:", words.width(), 2)]
        lines += render_infeasible(answer.unsolved)
    return "\n".join(line.rstrip() for line in lines)


def _choice_of_cells(cells: Sequence[Cell | Variant]) -> list[str]:
    """Return that what is open is chosen again in each cell; nothing where nothing is."""
    is_open = any(job.model is not None for cell in cells for job in cell.jobs)
    return words.second_lines(CHOSEN_AGAIN if is_open else None)


def _loosest(answer: Sweep) -> str:
    """Return the loosest values, such as `budget_usd = 4`."""
    return ", ".join(
        f"{axis_name(axis.path)} = {format_axis_values(answer, index)[axis.values.index(value)]}"
        for index, (axis, value) in enumerate(zip(answer.axes, answer.loosest or (), strict=True))
    )


def format_value(value: str, number: float | None, unit: str) -> str:
    """Return a value of an axis as text, such as `6 h`, `20M` or `llama-2-7b`."""
    if number is None:
        return words.sanitise(value.strip('"'))
    if abs(number) >= 1e6:
        size, letter = next(pair for pair in ((1e12, "T"), (1e9, "B"), (1e6, "M")) if abs(number) >= pair[0])
        return f"{words.significant(number / size, 4)}{letter}{unit}"
    text = figure_text(number)
    return f"{text} {unit}".strip() if unit in ("h", "d", "m", "min", "s", "w") else f"{text}{unit}"


def format_axis_values(answer: Sweep, axis: int) -> list[str]:
    """Return the values of an axis as text."""
    varied = answer.axes[axis]
    numbers = varied.numbers or (None,) * len(varied.values)
    return [format_value(value, number, varied.unit) for value, number in zip(varied.values, numbers, strict=True)]


def axis_name(path: str) -> str:
    """Return the end of a path that names what varies: `deadline`, `work.steps`, `spot_share.max`."""
    steps = path.split(".")
    return ".".join(steps[2:]) if steps[0] == "jobs" and len(steps) > 2 else ".".join(steps[1:]) or path


def describe_hardware(cell: Cell | Variant) -> str:
    """Return the machines of a cell without figures, job by job."""
    jobs = [
        (f"{job.model.words}{ON}" if job.model else "")
        + f"{job.machines} at {job.provider}, {job.method}"
        + (f", {format_market(job.spot_share)}" if job.spot_share > 0 else "")
        for job in cell.jobs
    ]
    return "; ".join(
        map(words.sanitise, [*jobs, *(machine for service in cell.services for machine in service.machines)])
    )


def serves(answer: Sweep) -> bool:
    """Return whether the cells are of services alone, whose dollars are those of a month."""
    return any(cell.services for cell in answer.cells) and not any(cell.jobs for cell in answer.cells)


def monthly_usd(cell: Cell | Variant) -> float | None:
    """Return the dollars of a month of the services of a cell; None without a plan."""
    return sum(service.usd_per_month for service in cell.services) if cell.services else None


def replicas_text(cell: Cell | Variant) -> str:
    """Return the least and the most replicas of any hour: `2 to 3`."""
    least, most = (
        sum(service.least_replicas for service in cell.services),
        sum(service.most_replicas for service in cell.services),
    )
    return span(least, most) if cell.services else "-"


def _sweep_summary(answer: Sweep) -> str:
    losses = [loss for loss in map(cell_loss, answer.cells) if loss is not None]
    costs = [usd for usd in map(monthly_usd if serves(answer) else _cost_usd, answer.cells) if usd is not None]
    none = len(answer.cells) - len(costs)
    month = " a month" if serves(answer) else ""
    range_text = f"{words.usd_between(min(costs), max(costs))}{month}" if costs else "no value has a plan"
    ends = dict.fromkeys(f"{loss:.3f}" for loss in (min(losses), max(losses))) if losses else ()
    range_text = f"{loss_name(answer.cells)} {' to '.join(ends)} for {range_text}" if ends else range_text
    rest = f", {none:,} of {len(answer.cells):,} without a plan" if none and costs else ""
    return words.first_fitting(answer.scenario, f"{range_text}{rest}")


def cell_loss(cell: Cell | Variant) -> float | None:
    """Return the loss of a cell, of all jobs together whose model or tokens are open; None without one."""
    return loss_of(job.model for job in cell.jobs)


def loss_name(cells: Sequence[Cell | Variant]) -> str:
    """Return `loss`, or of several jobs `sum of losses`."""
    several = any(sum(job.model is not None for job in cell.jobs) > 1 for cell in cells)
    return "sum of losses" if several else "loss"


def _loss_text(cell: Cell) -> str:
    loss = cell_loss(cell)
    return "-" if loss is None else f"{loss:.3f}"


def _tokens_text(cell: Cell) -> str:
    return ", ".join(count_text(job.model.tokens) for job in cell.jobs if job.model) or "-"


def _cost_usd(cell: Cell) -> float | None:
    return cell.cost_usd


def _curve(answer: Sweep) -> list[str]:
    values = format_axis_values(answer, 0)
    head = axis_name(answer.axes[0].path)
    width = min(24, max(len(head), *(len(value) for value in values)))
    monthly = serves(answer)
    column = 8 if monthly else 7
    cost, time = ("a month", "replicas") if monthly else ("cost", "likely")
    trained = _choice_columns(answer)
    heads = "".join(f"{name:>{size}}  " for name, size, _ in trained)
    lines = [f"{words.shorten(head, width):>{width}}  {heads}{cost:>10}  {time:>{column}}  machines"]
    room = words.width() - width - 16 - column - len(heads)
    last = ""
    for value, cell in zip(values, answer.cells, strict=True):
        start = f"{words.shorten(value, width):>{width}}"
        if cell.cost_usd is None or cell.hours is None:
            lines.append(f"{start}  {' ' * len(heads)}{_mark(cell):>10}")
            last = ""
            continue
        hardware = describe_hardware(cell)
        took = words.hours(cell.hours).removesuffix(" h")
        usd = cell.cost_usd
        if monthly:
            usd, took = monthly_usd(cell) or 0.0, replicas_text(cell)
        machines = ["the same"] if hardware == last else _wrap_jobs(hardware, room)
        figures = "".join(f"{text(cell):>{size}}  " for _, size, text in trained)
        lines += words.hang(f"{start}  {figures}{words.usd(usd):>10}  {took:>{column}}  ", machines)
        last = hardware
    return lines


def _choice_columns(answer: Sweep) -> list[tuple[str, int, Callable[[Cell], str]]]:
    """Return head, width and text of the columns of what is open: the loss where there is one, and the tokens."""
    models = [job.model for cell in answer.cells for job in cell.jobs if job.model]
    columns: list[tuple[str, int, Callable[[Cell], str]]] = []
    if any(model.loss is not None for model in models):
        name = loss_name(answer.cells)
        columns.append((name, max(6, len(name)), _loss_text))
    if models:
        columns.append(("tokens", max(6, *(len(_tokens_text(cell)) for cell in answer.cells)), _tokens_text))
    return columns


def _grids(answer: Sweep) -> list[str]:
    """Return dollars with a letter for the machines, then hours, then the letters."""
    letters: dict[str, str] = {}
    for cell in answer.cells:
        if cell.cost_usd is not None:
            letters.setdefault(describe_hardware(cell), _letter(len(letters)))

    def cost(cell: Cell) -> str:
        if cell.cost_usd is None:
            return _mark(cell)
        usd = monthly_usd(cell) if serves(answer) else cell.cost_usd
        return f"{words.usd(usd or 0.0)} {letters[describe_hardware(cell)]}"

    def took(cell: Cell) -> str:
        return words.hours(cell.hours).removesuffix(" h") if cell.hours is not None else "-"

    def begins(cell: Cell) -> str:
        return f"{max(job.start_hours for job in cell.jobs) * MINUTES:,.0f}" if cell.jobs else "-"

    trained = [line for name, _, text in _choice_columns(answer) for line in (*_grid(answer, name, text), "")]
    if serves(answer):
        lines = [*_grid(answer, "dollars a month", cost), "", *_grid(answer, "replicas", replicas_text), ""]
    else:
        lines = [*trained, *_grid(answer, "cost", cost), "", *_grid(answer, "likely hours", took), ""]
    if _is_start_dominant(answer):
        lines += [*_grid(answer, "minutes before the first step", begins), ""]
    for hardware, letter in list(letters.items())[:20]:
        lines += words.hang(f"  {letter:<3}", _wrap_jobs(hardware, words.width() - 5))
    return lines + ([f"  and {len(letters) - 20} others: --json"] if len(letters) > 20 else [])


def _wrap_jobs(hardware: str, room: int) -> list[str]:
    """Return the machines job by job in at most `MACHINE_LINES`; the last line refers to --json if it was cut."""
    parts = [
        part for job in hardware.replace("; ", ";\n").split("\n") for part in job.replace(ON, f"{ON}\n").split("\n")
    ]
    lines = words.join_parts([part.strip() for part in parts], " ", room, MACHINE_LINES)
    cut = " (--json)"
    if not lines[-1].endswith("..."):
        return lines
    return [*lines[:-1], words.shorten(lines[-1], room - len(cut)).rstrip() + cut]


def _is_start_dominant(answer: Sweep) -> bool:
    """Return whether the hours differ mostly because the start does."""
    starts = [max(job.start_hours for job in cell.jobs) for cell in answer.cells if cell.jobs]
    took = [cell.hours for cell in answer.cells if cell.hours is not None]
    if len(starts) < 2:
        return False
    return max(starts) - min(starts) > START_SHARE * (max(took) - min(took)) > 0


def _letter(index: int) -> str:
    """Return a to z, then aa, ab and so on."""
    return LETTERS[index] if index < 26 else _letter(index // 26 - 1) + LETTERS[index % 26]


def _grid(answer: Sweep, name: str, render: Callable[[Cell], str]) -> list[str]:
    """Return the first range as rows and the second as columns; columns that do not fit follow in a new block."""
    rows, columns = format_axis_values(answer, 0), format_axis_values(answer, 1)
    texts = [
        [render(cell) for cell in answer.cells[i * len(columns) : (i + 1) * len(columns)]] for i in range(len(rows))
    ]
    head = f"{axis_name(answer.axes[0].path)} by {axis_name(answer.axes[1].path)}"
    label = min(24, max(len(row) for row in rows)) + 2
    width = max(*(len(text) for row in texts for text in row), *(min(16, len(column)) for column in columns)) + 2
    at_once = max(1, (words.width() - label) // width)
    lines = [f"{name}, {words.shorten(head, 60)}"]
    for first in range(0, len(columns), at_once):
        part = slice(first, first + at_once)
        lines.append(" " * label + "".join(f"{words.shorten(column, width - 2):>{width}}" for column in columns[part]))
        lines += [
            f"{words.shorten(row, label - 2):<{label}}" + "".join(f"{text:>{width}}" for text in cells[part])
            for row, cells in zip(rows, texts, strict=True)
        ]
    return lines


def _mark(cell: Cell) -> str:
    return "no plan" if cell.status == "infeasible" else "stopped"


# The summary of a sweep over many variants as text; its rows are in a file.


STATUS_WORDS = {"infeasible": "infeasible", "no_plan": "stopped without a plan", "error": "with an error"}


def render_variants(answer: ManyVariants) -> str:
    """Return the text of a summary without a final newline."""
    counts: dict[str, int] = {str(status): count for status, count in answer.counts.items()}
    planned = sum(count for status, count in counts.items() if status not in STATUS_WORDS)
    parts = [f"{answer.variants:,} variants", f"{planned:,} with a plan"]
    parts += [f"{counts[status]:,} {phrase}" for status, phrase in STATUS_WORDS.items() if status in counts]
    lines = [words.first_fitting(answer.scenario, ", ".join(parts))]
    shown = [variant for variant in (answer.cheapest, answer.fastest, answer.best) if variant is not None]
    lines += [*_choice_of_cells(shown), *variant_cut_lines(answer.cut, answer.cutting, answer.variants), ""]
    if answer.best is not None:
        lines += words.section("Best", _lines(answer, answer.best))
    if answer.cheapest is not None:
        lines += words.section("Cheapest", _lines(answer, answer.cheapest))
    if answer.fastest is not None and answer.fastest != answer.cheapest:
        lines += words.section("Fastest", _lines(answer, answer.fastest))
    lines += words.section("Errors", [line for error in answer.errors for line in _error(answer, error)])
    resumed = f", {answer.resumed:,} of them before an interruption" if answer.resumed else ""
    return "\n".join([*lines, "", f"written to {words.sanitise(answer.file)}{resumed}"])


def _values(answer: ManyVariants, variant: Variant) -> str:
    """Return the values of a variant, such as `deadline = 6h, budget_usd = 4`."""
    pairs = zip(answer.paths, variant.values, strict=True)
    return words.sanitise(", ".join(f"{axis_name(path)} = {value}" for path, value in pairs))


def _lines(answer: ManyVariants, variant: Variant) -> list[str]:
    hours = "" if variant.hours is None else f", {words.likely(variant.hours)}"
    figures = f"{words.usd(variant.cost_usd or 0.0)}{hours}: {_values(answer, variant)}"
    loss = cell_loss(variant)
    figures = figures if loss is None else f"{loss_name([variant])} {loss:.3f}, {figures}"
    return [figures, *words.wrap_lines(describe_hardware(variant), words.line_room(), 2)]


def _error(answer: ManyVariants, variant: Variant) -> list[str]:
    return words.wrap_lines(f"{_values(answer, variant)}: {words.sanitise(variant.error)}", words.line_room(), 3)


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
        first, *more = words.wrap_lines(f"{name}{_base(bar)}", label - 1, 3)
        ends = "".join(f"{_end(end, answer.base, by_time):>{wide}}" for end in (bar.down, bar.up))
        if by_time:
            ends += "".join(f"{_end(end, answer.base, False):>{wide}}" for end in (bar.down, bar.up))
        lines += [f"{first:<{label}}{ends}  {_drawn(bar, answer, widest, bars)}", *(f"  {line}" for line in more)]
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
