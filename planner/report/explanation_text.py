"""Limits as text: what binds, what relaxing it is worth, what makes an infeasible scenario feasible; techniques."""

from __future__ import annotations

import math
import shlex
from itertools import groupby
from typing import TYPE_CHECKING

from planner.report import words
from planner.report.plan_sections import cut_lines, data_path_text, payment_words
from planner.report.words import line_room
from planner.results.explanation import (
    Alternative,
    Binding,
    Explanation,
    LimitSensitivity,
    PastCost,
    TechniqueAnswer,
    WhyNot,
    device_noun,
)
from planner.results.plan import Plan
from planner.results.plan_parts import Infeasible, NearMiss, Relaxation
from planner.subjects import shown_by

if TYPE_CHECKING:
    from collections.abc import Sequence


def render_infeasible(plan: Plan) -> list[str]:
    """Return the text of a scenario without a plan."""
    if plan.status != "infeasible":
        return [*_format_no_plan(plan), *_notes(plan)]
    reasons = plan.infeasible or Infeasible()
    lines = render_relaxations(reasons.relax, reasons.nearest, plan.scenario)
    if not reasons.relax and not reasons.nearest:
        counts = plan.candidates
        lines.append(f"  {counts.made:,} candidates, {counts.rejected:,} of them rejected")
        for reason, count in sorted(counts.reasons.items(), key=lambda item: (-item[1], item[0]))[:8]:
            lines.append(words.shorten(f"  {count:,} x {words.sanitise(reason)}", words.width()))
    return [*lines, *_notes(plan)]


def render_relaxations(relax: Sequence[Relaxation], nearest: Sequence[NearMiss], scenario: str) -> list[str]:
    """Return which limit no plan keeps, the smallest sets of limits to relax with their plans, and the near misses."""
    ways = [list(changes) for _, changes in groupby(relax, key=lambda change: change.way)]
    lines = _first_lines(ways, scenario)
    for number, changes in enumerate(ways, 1):
        lines += _way_lines(number, changes, scenario)
    return lines + format_near_misses(nearest, several_jobs=len({miss.job for miss in nearest}) > 1)


def _first_lines(ways: Sequence[Sequence[Relaxation]], scenario: str) -> list[str]:
    """Return what no plan keeps, and the least of it; with the deadline and the budget that it is kept within.

    A budget without its deadline would be refuted by a further change that moves both.
    """
    changes = ways[0] if ways else []
    partner = _partner(ways)
    if partner is None:
        return [words.first_fitting(scenario, *_broken(changes, scenario))]
    (change,) = changes
    _, new = _round_outwards(change)
    both = f"no plan keeps {_old_value(change, scenario)} and {_old_value(partner, scenario)}"
    within = f"least within {limit_value(partner.limit, partner.change_from)}: {limit_value(change.limit, new)}"
    if change.limit == "limits.budget_usd" and change.then.endswith(" %"):
        likely = "" if change.cost_usd is None else f", likely {words.usd(change.cost_usd)}"
        within += f" at {change.then.rpartition(' at ')[2]}{likely}"
    whole = words.first_fitting(scenario, f"{both} ({within})", both)
    return [whole] if whole.endswith(")") else [whole, *words.wrap_hanging(within, 2)]


def _partner(ways: Sequence[Sequence[Relaxation]]) -> Relaxation | None:
    """Return the deadline or budget that a further change moves, where the smallest one moves the other of them."""
    if not ways or len(ways[0]) != 1:
        return None
    (smallest,) = ways[0]
    is_usd = smallest.limit == "limits.budget_usd"
    if not is_usd and not smallest.limit.endswith(".deadline"):
        return None
    others = {
        change.limit: change
        for way in ways[1:]
        for change in way
        if (change.limit.endswith(".deadline") if is_usd else change.limit == "limits.budget_usd")
    }
    partner = next(iter(others.values())) if len(others) == 1 else None
    return partner if partner is not None and isinstance(partner.change_from, (int, float)) else None


def _broken(changes: Sequence[Relaxation], scenario: str) -> list[str]:
    """Return what no plan keeps, by the smallest change that gives one: in full, and in a few words."""
    least = "no plan within all limits"
    if not changes:
        return [f"infeasible: {least}", "infeasible"]
    figures = [change for change in changes if isinstance(change.change_from, (int, float))]
    if len(figures) < len(changes):
        changed = " and ".join(_change(change, scenario) for change in changes)
        return [f"{least}; smallest change: {changed}", f"{least}; smallest changes:"]
    kept = " and ".join(_old_value(change, scenario) for change in changes)
    if len(changes) > 1:
        return [f"no plan keeps {kept} together", f"{least}; smallest changes:"]
    (only,) = changes
    old, new = _round_outwards(only)
    bound = limit_value(only.limit, new)
    if isinstance(old, (int, float)) and isinstance(new, (int, float)):
        bound = f"{'least' if new > old else 'most'}: {bound}"
    return [f"no plan keeps {kept} ({bound})", f"{least}; smallest changes:"]


def _old_value(change: Relaxation, scenario: str) -> str:
    name, value = limit_name(change.limit, scenario), limit_value(change.limit, change.change_from)
    if " of " in name:  # of a job that has not the name of the scenario, or of a provider
        return f"the {name}, {value}"
    return f"the {name} of {value}" if " " not in name else f"{name} {value}"


def _way_lines(number: int, changes: Sequence[Relaxation], scenario: str) -> list[str]:
    """Return `1  deadline 2.6 h: 8 x H100 at lambda, $71.30`, and the settings to type: on that line if they fit."""
    jobs = {change.limit.split(".")[1] for change in changes if change.limit.startswith("jobs.")}
    scope = scenario if len(jobs) < 2 else ""  # of several jobs each is named
    named = " and ".join(_change(change, scope, from_old=False) for change in changes)
    then = next((change.then.removeprefix("then ") for change in changes if change.then), "")
    text = f"{named}: {then}" if then else named
    typed = settings([change.setting for change in changes if change.setting])
    lines = words.hang(f"  {number}  ", words.wrap_lines(text, words.width() - 5, 3))
    if len(lines) == len(typed) == 1 and len(lines[0]) + len(typed[0]) - 2 <= words.width():
        return [f"{lines[0]}   {typed[0].strip()}"]
    return lines + typed


def format_relaxation(number: int, changes: Sequence[Relaxation], scenario: str) -> list[str]:
    """Return `1. deadline 2 h -> 2.6 h`, below it the resulting plan and the settings to type."""
    jobs = {change.limit.split(".")[1] for change in changes if change.limit.startswith("jobs.")}
    scope = scenario if len(jobs) < 2 else ""  # of several jobs each is named
    texts = [" and ".join(_change(change, scope) for change in changes)]
    texts += [f"then {change.then.removeprefix('then ')}" for change in changes if change.then][:1]
    typed = settings([change.setting for change in changes if change.setting])
    return words.hang(f"  {number}. ", words.wrap_all(texts, words.width() - 5, 3)) + typed


def settings(pairs: Sequence[str], margin: int = 5) -> list[str]:
    """Return the settings as typed in a shell, long lines continued by a backslash."""
    lines: list[str] = []
    for pair in pairs:
        typed = f"--set {shlex.quote(words.sanitise(pair))}"  # whole, however long: half a command cannot be pasted
        if lines and len(lines[-1]) + 1 + len(typed) <= words.width() - 2:
            lines[-1] += f" {typed}"
        else:
            lines = [*lines[:-1], *(f"{line} \\" for line in lines[-1:]), " " * margin + typed]
    return lines


def _change(change: Relaxation, scenario: str, from_old: bool = True) -> str:
    """Return a limit with both values, or with its new one alone."""
    name = limit_name(change.limit, scenario)
    if change.change_from is None and change.change_to is None:
        return change.limit
    old, new = _round_outwards(change)
    if isinstance(new, str) and new.startswith("allow also "):
        return f"{name}: {new}"
    before = f"{limit_value(change.limit, old)} -> " if from_old else "to " if " of " in name else ""
    return f"{name} {before}{limit_value(change.limit, new)}"


def format_near_misses(nearest: Sequence[NearMiss], several_jobs: bool = False) -> list[str]:
    """Return the nearest infeasible candidates, one or two lines each; empty if there are none."""
    lines: list[str] = []
    for miss in nearest:
        job = f"{miss.job}: " if several_jobs and miss.job else ""
        lines += words.hang("  near: ", words.wrap_lines(f"{job}{format_near_miss(miss)}", words.width() - 8, 4))
    return lines


_OF_JOBS = {
    "replicas.min": "least replicas",
    "latency.share": "share of the requests in time",
    "most_kinds": "most kinds of machines",
    "trials.at_once": "trials at once",
    "trials.split": "trials",
}
"""Ends of the paths of keys of a job, and their words."""


def limit_name(path: str, scenario: str = "") -> str:
    """Return the key in words: `deadline of bot` for `jobs.bot.deadline`, unless the scenario has the job's name."""
    parts = path.split(".")
    key = parts[-1].removesuffix("_usd").replace("deadline_hours", "deadline").replace("_", " ")
    if path == "limits.vram_headroom":
        return "VRAM margin"
    if path.endswith(".confidence.memory"):
        key = "confidence of memory"
    if path.startswith("limits.quota."):
        return f"quota of {path.removeprefix('limits.quota.')}"
    if path.startswith("limits.budgets."):
        return f"budget by period, number {int(parts[2]) + 1}"
    if path.startswith("limits.spot_share."):
        return f"{key} of spot share"
    key = _OF_JOBS.get(".".join(parts[-2:]), key)
    job = ".".join(parts[1:-1])
    for part in (".techniques", ".trials", ".confidence", ".latency", ".replicas", ".load"):
        job = job.removesuffix(part)
    return f"{key} of {job}" if parts[0] == "jobs" and job not in ("", scenario) else key


def _round_outwards(change: Relaxation) -> tuple[float | str | None, float | str | None]:
    """Return both values, the new one rounded away from the old, so that the printed value suffices."""
    old, new = change.change_from, change.change_to
    if isinstance(old, (int, float)) and isinstance(new, (int, float)):
        away = math.ceil if new > old else math.floor
        parts = 1000 if change.limit.endswith("vram_headroom") else 100  # a share is shown in tenths of a percent
        new = away(round(new * parts, 6)) / parts
    return old, new


def limit_value(path: str, value: float | str | None) -> str:
    """Return a limit in its unit."""
    if value is None:
        return "none"
    if isinstance(value, str):
        return value
    key = path.rpartition(".")[2]
    if key == "vram_headroom" or path.endswith(".confidence.memory"):
        return f"{format_typed(value * 100)} %"
    if key.endswith("usd"):
        return words.usd(value)
    if key in ("deadline", "max_hours", "deadline_hours") or path.startswith("hours left of "):
        return f"{format_typed(value)} h"
    return format_typed(value)


def format_typed(value: float) -> str:
    """Return a figure as a user types it: at most two decimals, none if they are zero."""
    return f"{value:,.2f}".rstrip("0").rstrip(".")


def format_near_miss(miss: NearMiss) -> str:
    """Return what was rejected, why, by how much, and what would make it feasible."""
    short = _shortfall(miss)
    text = f"{miss.what}: {miss.reason}" + (f" ({short})" if short else "")
    return f"{text}; {miss.fix}" if miss.fix else text


def _shortfall(miss: NearMiss) -> str:
    if not miss.unit:
        return ""
    if miss.unit.lower() in ("usd", "$"):
        return f"{words.usd(miss.shortfall)} over"
    if miss.unit in ("h", "hours"):
        return f"{words.hours(miss.shortfall)} late"
    if miss.unit == "ms":
        return f"{words.plain_number(miss.shortfall)} ms over"
    if miss.unit == "GPUs":
        return f"{words.plain_number(miss.shortfall)} too many"
    unit = miss.unit.removesuffix("s") if miss.shortfall == 1 else miss.unit
    return f"{words.plain_number(miss.shortfall) if miss.shortfall >= 0.05 else 'under 0.1'} {unit} short"


def _format_no_plan(plan: Plan) -> list[str]:
    name = words.shorten(words.sanitise(plan.scenario), 40)
    lines = [f"{name}: stopped without a plan after {words.significant(plan.seconds)} s"]
    if plan.bound is not None:
        lines.append(f"  no plan costs less than {words.significant(plan.bound)} (bound by {plan.solver})")
    return [*lines, "  try a longer --time-limit or a larger --gap"]


def _notes(plan: Plan) -> list[str]:
    return [line for note in plan.warnings for line in words.wrap_hanging(note, 2)]


MAX_ROWS, MAX_ROWS_OF_SEVERAL = 6, 3
"""Rows of a table of alternatives, for one job and for each of several."""

SHOWN_USD, SHOWN_HOURS = 0.005, 1 / 60
"""Differences below these are not shown."""

SAME_COST = 0.005
"""Largest relative difference from an earlier cost that is called none."""

TABLES = {"provider": "Provider", "gpu": "GPU", "method": "Method"}


def render(explanation: Explanation) -> str:
    """Return the text of an explanation without a final newline."""
    if (subject := shown_by(explanation)) is not None:
        return subject.text(explanation)
    if explanation.why_not is not None:
        head, lines = why_not(explanation, explanation.why_not)
    elif explanation.status == "infeasible":
        head, lines = _halves(render_relaxations(explanation.relax, explanation.nearest, explanation.scenario))
    else:
        head, lines = _halves(plan(explanation))
    below = [*words.lines_below_first(explanation.fixed), *cut_lines(explanation.cut)]
    return "\n".join([*head, *below, *lines])


def _halves(lines: list[str]) -> tuple[list[str], list[str]]:
    return lines[:1], lines[1:]


def plan(explanation: Explanation) -> list[str]:
    """Return why the plan is as it is."""
    lines = [_summary(explanation)]
    if explanation.compared_by:
        lines.append(words.shorten(f"  compared by {explanation.compared_by}", words.width()))
    lines += [f"  {line}" for line in words.wrap_all(explanation.notes, words.width() - 2, 2)]
    lines.append("")
    binds = words.wrap_all((binding_line(limit, explanation) for limit in explanation.binding), line_room(), 2)
    none = "none: relaxing a single limit does not lower the cost"
    lines += words.section("Binds", binds or words.wrap_lines(none, line_room(), 2))
    lines += words.section("Next", next_lines(explanation)) if explanation.next_steps else []
    lines += words.section("Prices", [past_line(past_cost, explanation) for past_cost in explanation.past_costs])
    jobs = dict.fromkeys(option.job for option in explanation.alternatives)
    for job in jobs:
        options = [option for option in explanation.alternatives if option.job == job]
        several = len(jobs) > 1
        lines += ["", *_alternatives(options, job if several else "", MAX_ROWS_OF_SEVERAL if several else MAX_ROWS)]
    return lines


def past_line(past: PastCost, explanation: Explanation) -> str:
    """Return what the same machines would have cost, such as `7 days ago (2026-11-15): $2.93, 7 % more`."""
    change = past.cost_usd / explanation.cost_usd - 1 if explanation.cost_usd else 0.0
    than = "about the same" if abs(change) < SAME_COST else f"{abs(change):.0%} {'more' if change > 0 else 'less'}"
    return f"{past.days_ago} days ago ({past.date}): {words.usd(past.cost_usd)}, {than.replace('%', ' %')}"


def _summary(explanation: Explanation) -> str:
    count = len(explanation.binding)
    binds = "no limit binds" if not count else "1 limit binds" if count == 1 else f"{count} limits bind"
    binds = f"{binds} this choice" if explanation.fixed else binds
    plan = words.sanitise(explanation.plan)
    jobs = len({option.job for option in explanation.alternatives})
    if jobs > 1:
        plan = f"{jobs} jobs"
    late, usd = explanation.hours_at_confidence, words.usd(explanation.cost_usd or 0.0)
    times = [_times_text(explanation.hours, late), *([words.by(late)] if late is not None else [])]
    # A part of the machines would read as all of them; a place is left out rather than cut.
    descriptions = dict.fromkeys(
        (plan, plan.rpartition(", ")[0] or plan, plan.partition(" on ")[0].partition(" at ")[0])
    )
    forms = [f"{described}, {time}, {usd}; {binds}" for described in descriptions for time in times]
    return words.first_fitting(words.shorten(explanation.scenario, 30), *forms, f"{times[-1]}, {usd}; {binds}")


def _times_text(hours: float | None, late: float | None) -> str:
    """Return the likely hours and, where they are known, those at the confidence."""
    likely = words.likely(hours or 0.0)
    return likely if late is None else f"{likely}, {words.by(late)}"


def binding_line(limit: Binding, explanation: Explanation) -> str:
    """Return a limit that binds, and what the plan would gain without it."""
    name = limit_name(limit.limit, job_scope(explanation))
    current = "" if isinstance(limit.current, str) else f" {limit_value(limit.limit, limit.current)}"
    if isinstance(limit.current, str) and limit.current.startswith("default"):
        current = f" ({limit.current})"
    if limit.limit.endswith(".techniques") and limit.current != "as given":
        current = f" ({limit.current})"
    usd = None if limit.saving_usd is None else -limit.saving_usd
    gains = format_gain(explanation, limit.saving, usd, -limit.saving_hours)
    return f"{name}{current}: without it {', '.join(gains)}"


def format_gain(explanation: Explanation, better: float | None, usd: float | None, hours: float) -> list[str]:
    """Return the differences of another plan, the objective first: `$0.40 less`, `likely 3.0 h later`.

    Parameters
    ----------
    explanation
        The explanation, for its objective.
    better
        Improvement of the objective; None if unknown.
    usd, hours
        Expected dollars and hours of the other plan minus those of the plan; no dollars where they are unknown.
    """
    money = "" if usd is None else "the same cost"
    if usd is not None and abs(usd) >= SHOWN_USD:
        money = f"{words.usd(abs(usd))} {'more' if usd > 0 else 'less'}"
    time = f"{words.likely(abs(hours))} {'later' if hours > 0 else 'earlier'}" if abs(hours) >= SHOWN_HOURS else ""
    if explanation.objective == "time":
        if better is not None and hours > -SHOWN_HOURS and better >= SHOWN_HOURS:
            time = f"{words.hours(better)} earlier at the confidence asked for"
        return [text for text in (time, money) if text] or ["less than 1 min earlier"]
    gain = [f"{words.usd(better)} better"] if explanation.compared_by and better is not None and better > 0 else []
    return [*gain, money, *([time] if time else [])]


def job_scope(explanation: Explanation) -> str:
    """Return the job whose name is omitted from its limits: the only one."""
    jobs = list(dict.fromkeys(option.job for option in explanation.alternatives))
    return jobs[0] if len(jobs) == 1 else explanation.scenario


def next_lines(explanation: Explanation) -> list[str]:
    """Return one entry per limit whose relaxation pays; the others in one line."""
    paying = [step for step in explanation.next_steps if step.change_to is not None]
    lines = [line for step in paying for line in step_lines(step, explanation)]
    idle = [limit_name(step.limit, job_scope(explanation)) for step in explanation.next_steps if step.change_to is None]
    if idle:
        lines += words.wrap_lines(f"no gain from relaxing: {', '.join(idle)}", line_room(), 3)
    return lines


def step_lines(step: LimitSensitivity, explanation: Explanation) -> list[str]:
    """Return the relaxation of a limit, and the plan and the price that it gives."""
    gains = ", ".join(format_gain(explanation, step.gain, step.delta_usd or 0.0, step.delta_hours or 0.0))
    old, new = limit_value(step.limit, step.change_from), limit_value(step.limit, step.change_to)
    change = f": {new}" if isinstance(step.change_to, str) else f" {old} -> {new}"
    name = limit_name(step.limit, job_scope(explanation))
    looser = f"without the limit on {name}: {gains}" if step.change_to == "none" else f"{name}{change}: {gains}"
    hours = f"{words.likely(step.hours)}, " if step.hours is not None else ""
    plan = f"{step.plan}, {hours}{words.usd(step.cost_usd or 0.0)}"
    below = [*words.wrap_lines(plan, line_room() - 2, 3)]
    below += words.wrap_lines(step.note, line_room() - 2, 2) if step.note and step.setting else []
    return words.wrap_lines(looser, line_room(), 2) + words.hang("  ", below)


def _alternatives(options: Sequence[Alternative], job: str, most: int) -> list[str]:
    """Return tables by provider, GPU and method: the best plan of each, and how it differs."""
    lines = [words.shorten(f"  Alternatives{f' for {words.sanitise(job)}' if job else ''}", words.width())]
    for by, title in TABLES.items():
        rows = [option for option in options if option.by == by]
        if not rows:
            continue
        if by == "gpu" and any(device_noun(option.gpu) == "chip" for option in rows):
            title = "GPU or TPU"
        shown = rows[: words.most(most)]
        keeps = any(option.hours_at_confidence is not None for option in shown)
        head = (title, "machine", "$/h", "by" if keeps else "likely", "cost", "")
        marked = next((place for place, option in enumerate(shown, 1) if option.chosen), None)
        lines += words.table([head, *map(_cells, shown)], right=(2, 3, 4), cut=1, marked=marked, margin=4)
        if len(rows) > words.most(most):
            lines.append(f"    {len(rows) - most} more: --details")
    return lines


def _cells(option: Alternative) -> tuple[str, ...]:
    """Return the cells of one alternative: hours are those at the confidence where they are known."""
    name = words.shorten(words.sanitise(option.name), 17)
    machines, count = words.gpus(option.gpus, option.gpu, option.runs_at_once), _count(option)
    pools = option.plan.rpartition(", ")[0].replace(f" {option.provider}", "")
    if " + " in pools:  # of several kinds: the number of all would read as one of the first
        machines, count = pools, pools.replace(f" x {option.gpu}", "")
    how = {
        "provider": f"{machines}, {option.method}",
        "gpu": f"{count} at {option.provider}",
        "method": f"{machines} at {option.provider}",
    }[option.by]
    rent = "-" if option.usd_per_hour is None else words.rate(option.usd_per_hour).removeprefix("$")
    paid = payment_words(option.tier, option.spot_share)
    how = f"{how}, {paid}" if paid else how
    late = option.hours if option.hours_at_confidence is None else option.hours_at_confidence
    hours = words.hours_by(late) if late is not None else ""
    cost = words.usd(option.cost_usd) if option.cost_usd is not None else ""
    difference = option.verdict if option.allowed else "excluded"
    difference = difference.replace(" more expensive", " more")
    return name, how, rent, hours, cost, difference


def _count(option: Alternative) -> str:
    """Return the number of GPUs: `8`, or `2 x 8` for parallel runs; `service` for a managed service."""
    if not option.gpus:
        return "service"
    return f"{option.runs_at_once:,} x {option.gpus:,}" if option.runs_at_once > 1 else f"{option.gpus:,}"


def why_not(explanation: Explanation, answer: WhyNot) -> tuple[list[str], list[str]]:
    """Return whether the alternative is feasible, and below it why, and what makes it feasible."""
    against = ""
    if explanation.cost_usd and explanation.hours:
        own = _times_text(explanation.hours, explanation.hours_at_confidence)
        against = f"; the plan: {words.usd(explanation.cost_usd)}, {own}"
    figures = f"{words.usd(answer.cost_usd or 0.0)}, {_times_text(answer.hours, answer.hours_at_confidence)}"
    times = _times(answer, explanation)
    head = {
        "chosen": f"this is the plan: {answer.plan}, {figures}",
        "possible": f"{figures}{times}{against}",
        "beyond": f"infeasible within the limits: {'; '.join(answer.reasons)}",
        "impossible": f"infeasible: {'; '.join(answer.reasons)}",
    }[answer.status]
    most = {"beyond": 4, "impossible": 5}.get(answer.status, 2)
    lines = []
    if answer.status == "possible":
        rent = "" if answer.usd_per_hour is None else f" at {words.rate(answer.usd_per_hour)}/h"
        lines += words.section("Plan", words.wrap_lines(f"{answer.plan}{rent}", line_room(), 2))
        lines += words.section("Because", words.wrap_all(answer.reasons, line_room(), 2))
    elif answer.status == "beyond":
        lines.append("Smallest change, verified by solving:")
        lines += format_relaxation(1, answer.relax, explanation.scenario)
        price = words.wrap_lines(f"which is {figures}{times}{against}", words.width() - 5, 2)
        lines += words.hang(" " * 5, price)
    elif answer.status == "impossible":
        lines += [*_memory(answer), *_remedies(answer)]
    return words.wrap_lines(f"{words.sanitise(answer.asked)}: {head}", words.width(), most), lines


def _remedies(answer: WhyNot) -> list[str]:
    if not answer.remedies:
        return []
    lines = ["Feasible with one of these changes, each verified by solving:"]
    for number, fix in enumerate(answer.remedies, 1):
        figures = f", {words.usd(fix.cost_usd)}, {words.likely(fix.hours)}" if fix.cost_usd and fix.hours else ""
        change = words.wrap_lines(f"{fix.change}: {fix.plan}{figures}", words.width() - 5, 2)
        lines += words.hang(f"  {number}. ", change)
        lines += settings([pair for pair in (fix.setting, *fix.also) if pair])
    return lines


def _times(answer: WhyNot, explanation: Explanation) -> str:
    """Return how much more expensive, or slower if time is the objective."""
    if not explanation.cost_usd or not explanation.hours or answer.cost_usd is None or answer.hours is None:
        return ""
    if answer.verdict:
        return f", {answer.verdict}"
    by_time = explanation.objective == "time"
    more, less, objective = ("slower", "faster", "time") if by_time else ("more expensive", "cheaper", "cost")
    times = answer.hours / explanation.hours if by_time else answer.cost_usd / explanation.cost_usd
    if abs(times - 1) < 0.005:
        return f", the same {objective}"
    if times >= 2:
        return f", {times:,.1f}x the {objective}"
    return f", {abs(times - 1) * 100:.0f} % {more if times > 1 else less}"


def _memory(answer: WhyNot) -> list[str]:
    if answer.memory is None:
        return []
    parts = sorted(answer.memory.parts.items(), key=lambda part: (-part[1], part[0]))
    sizes = [f"{name.replace('_', ' ')} {words.gib(size)}" for name, size in parts if size >= 0.05]
    return words.section("Memory", words.join_parts([*sizes, f"peak in: {answer.memory.phase}"], "  ", line_room(), 3))


# The answer of `explain --technique` as text.


MOST_LINES_EACH = 4
"""Lines of one finding."""


def render_technique(answer: TechniqueAnswer) -> str:
    """Return the text without a final newline: the verdict, the findings, and what they mean for the jobs."""
    verdict = {"no": "the program does not decide it", "yes": "the program decides it"}.get(
        answer.decides, f"the program decides it {answer.decides}"
    )
    lines = [f"{answer.technique}: {verdict}", ""]
    lines += words.section("Why", words.wrap_lines(answer.why, line_room(), 3))
    lines += words.section("Where", [answer.where] if answer.where else [])
    findings = [f"{fact.finding} ({fact.setting}; {fact.source})" for fact in answer.found]
    lines += words.section("Found", words.wrap_all(findings, line_room(), MOST_LINES_EACH))
    several = len(answer.data_paths) > 1
    here = [
        f"{name}: {text}" if several else text
        for name, path in answer.data_paths.items()
        for text in [data_path_text(path, name)]
    ]
    lines += words.section("Here", words.wrap_all([*here, *answer.notes], line_room(), 3))
    return "\n".join(lines)
