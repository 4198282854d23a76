"""An infeasible scenario as text: the smallest changes that make it feasible, and near misses."""

from __future__ import annotations

import math
import shlex
from itertools import groupby
from typing import TYPE_CHECKING

from planner.report import words
from planner.results.plan import Plan
from planner.results.plan_parts import Infeasible, NearMiss, Relaxation

if TYPE_CHECKING:
    from collections.abc import Sequence


def render_infeasible(plan: Plan) -> list[str]:
    """Return the text of a scenario without a plan."""
    if plan.status != "infeasible":
        return [*_format_no_plan(plan), *_notes(plan)]
    found = plan.infeasible or Infeasible()
    lines = render_relaxations(found.relax, found.nearest, plan.scenario)
    if not found.relax and not found.nearest:
        counts = plan.candidates
        lines.append(f"  {counts.made:,} candidates, {counts.rejected:,} of them rejected")
        for reason, count in sorted(counts.reasons.items(), key=lambda item: (-item[1], item[0]))[:8]:
            lines.append(words.shorten(f"  {count:,} x {words.sanitise(reason)}", words.width()))
    return [*lines, *_notes(plan)]


def render_relaxations(relax: Sequence[Relaxation], nearest: Sequence[NearMiss], scenario: str) -> list[str]:
    """Return which limit no plan keeps, the smallest sets of limits to relax with their plans, and the near misses."""
    ways = [list(changes) for _, changes in groupby(relax, key=lambda change: change.way)]
    lines = [words.first_fitting(scenario, *_broken(ways[0] if ways else [], scenario))]
    for number, changes in enumerate(ways, 1):
        lines += _way_lines(number, changes, scenario)
    return lines + format_near_misses(nearest, several_jobs=len({miss.job for miss in nearest}) > 1)


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
    (one,) = changes
    old, new = _round_outwards(one)
    bound = limit_value(one.limit, new)
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
        lines += words.hang("  near: ", words.wrap_lines(f"{job}{format_near_miss(miss)}", words.width() - 8, 2))
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
