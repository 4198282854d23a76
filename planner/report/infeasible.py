"""Why there is no plan: what would have to give, and what came nearest."""

from __future__ import annotations

import math
import shlex
from itertools import groupby
from typing import TYPE_CHECKING

from planner.report import format as words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.results.plan import NearMiss, Plan, Relaxation


def render_infeasible(plan: Plan) -> list[str]:
    """The text of a question without an answer."""
    if plan.status != "infeasible":
        return [*_format_no_plan(plan), *_notes(plan)]
    found = plan.infeasible
    relax = found.relax if found else ()
    nearest = found.nearest if found else ()
    lines = ["infeasible: no way meets all limits"]
    if relax:
        lines = ["infeasible: no way meets all limits. Smallest changes, each checked by solving:"]
        lines += format_relaxations(relax, plan.scenario)
    lines += format_near_misses(nearest, several_jobs=len({miss.job for miss in nearest}) > 1)
    if not relax and not nearest:
        reasons = plan.candidates.reasons
        made = plan.candidates.made
        lines += [f"  {made:,} ways were priced, {plan.candidates.rejected:,} rejected"]
        lines += [
            words.shorten(f"  {count:,} x {words.sanitise(reason)}", words.WIDTH)
            for reason, count in sorted(reasons.items(), key=lambda item: (-item[1], item[0]))[:8]
        ]
    return [*lines, *_notes(plan)]


def format_relaxations(relax: Sequence[Relaxation], scenario: str) -> list[str]:
    """Each way out with its number: what to move, what plan that gives, and the settings that do it."""
    lines: list[str] = []
    for way, entries in groupby(relax, key=lambda one: one.way):
        lines += format_relaxation(way, list(entries), scenario)
    return lines


def format_relaxation(number: int, changes: Sequence[Relaxation], scenario: str) -> list[str]:
    """`1. deadline 2 h -> 2.6 h`, in the lines below what plan that gives and what to type."""
    what = f"  {number}. {words.sanitise(' and '.join(_change(one, scenario) for one in changes))}"
    then = next((f"then {words.sanitise(one.then).removeprefix('then ')}" for one in changes if one.then), "")
    paste = settings([one.setting for one in changes if one.setting])
    head = _wrap_hanging_at(what, 5, 3)
    return [*head, *(_wrap_hanging_at(f"     {then}", 5, 3) if then else []), *paste]


def settings(pairs: Sequence[str], margin: int = 5) -> list[str]:
    """The settings as they are typed, a line of the shell broken where it must be."""
    lines: list[str] = []
    for pair in pairs:
        typed = words.shorten(f"--set {shlex.quote(words.sanitise(pair))}", words.WIDTH - margin - 2)
        if lines and len(lines[-1]) + 1 + len(typed) <= words.WIDTH - 2:
            lines[-1] += f" {typed}"
        else:
            lines = [*lines[:-1], *(f"{line} \\" for line in lines[-1:]), " " * margin + typed]
    return lines


def _change(change: Relaxation, scenario: str) -> str:
    name = limit_name(change.limit, scenario)
    if change.change_from is None and change.change_to is None:
        return change.limit
    old, new = _round_outwards(change)
    if isinstance(new, str) and new.startswith("allow also "):
        return f"{name}: {new}"
    return f"{name} {limit_value(change.limit, old)} -> {limit_value(change.limit, new)}"


def format_near_misses(nearest: Sequence[NearMiss], several_jobs: bool = False) -> list[str]:
    """What came nearest, a line or two each; empty where nothing is known."""
    lines = ["nearest misses, each by the limit that it misses first"] if nearest else []
    for miss in nearest:
        lines += _wrap_hanging(
            f"{miss.job}: {format_near_miss(miss)}" if several_jobs and miss.job else format_near_miss(miss)
        )
    return lines


def limit_name(path: str, scenario: str = "") -> str:
    """The key in words; `deadline of bot` for `jobs.bot.deadline`, unless the scenario has the job's name."""
    parts = path.split(".")
    key = parts[-1].removesuffix("_usd").replace("deadline_hours", "deadline").replace("_", " ")
    if path == "limits.vram_headroom":
        return "VRAM margin"
    if path.startswith("limits.quota."):
        return f"quota of {path.removeprefix('limits.quota.')}"
    if path.startswith("limits.spot_share."):
        return f"{key} of spot share"
    if path.endswith(".trials.at_once"):
        key = "trials at once"
    job = ".".join(part for part in parts[1:-1]).removesuffix(".techniques").removesuffix(".trials")
    return f"{key} of {job}" if parts[0] == "jobs" and job not in ("", scenario) else key


def _round_outwards(change: Relaxation) -> tuple[float | str | None, float | str | None]:
    """Both values; the new one rounded away from the old, so that what is printed is enough."""
    old, new = change.change_from, change.change_to
    if isinstance(old, (int, float)) and isinstance(new, (int, float)):
        away = math.ceil if new > old else math.floor
        parts = 1000 if change.limit.endswith("vram_headroom") else 100  # a share is told in tenths of a per cent
        new = away(round(new * parts, 6)) / parts
    return old, new


def limit_value(path: str, value: float | str | None) -> str:
    """A limit in its unit."""
    if value is None:
        return "none"
    if isinstance(value, str):
        return value
    key = path.rpartition(".")[2]
    if key == "vram_headroom":
        return f"{format_typed(value * 100)} %"
    if key.endswith("usd"):
        return words.usd(value)
    if key in ("deadline", "max_hours", "deadline_hours") or path.startswith("hours left of "):
        return f"{format_typed(value)} h"
    return format_typed(value)


def format_typed(value: float) -> str:
    """A figure that a person may type: two decimals at most, none where they are zero."""
    return f"{value:,.2f}".rstrip("0").rstrip(".")


def format_near_miss(miss: NearMiss) -> str:
    """What was rejected, why, by how much, and what would make it fit."""
    if not miss.unit:
        said = f"{miss.what}: {miss.reason}"
    elif miss.unit.lower() in ("usd", "$"):
        said = f"{miss.what}: {miss.reason} ({words.usd(miss.shortfall)} over)"
    elif miss.unit in ("h", "hours"):
        said = f"{miss.what}: {miss.reason} ({words.hours(miss.shortfall)} late)"
    elif miss.unit == "GPUs":
        said = f"{miss.what}: {miss.reason} ({words.plain_number(miss.shortfall)} too many)"
    else:
        unit = miss.unit.removesuffix("s") if miss.shortfall == 1 else miss.unit
        said = f"{miss.what}: {miss.reason} ({_short(miss.shortfall)} {unit} short)"
    return f"{said}; {miss.fix}" if miss.fix else said


def _short(amount: float) -> str:
    return words.plain_number(amount) if amount >= 0.05 else "under 0.1"


def _format_no_plan(plan: Plan) -> list[str]:
    name = words.shorten(words.sanitise(plan.scenario), 40)
    lines = [f"{name}: stopped without a plan after {words.significant(plan.seconds)} s"]
    if plan.bound is not None:
        lines.append(f"  no plan costs less than {words.significant(plan.bound)} (bound by {plan.solver})")
    return [*lines, "  a longer --time-limit or a --gap may find one"]


def _notes(plan: Plan) -> list[str]:
    return [line for note in plan.warnings for line in _wrap_hanging(note)]


def _wrap_hanging(text: str) -> list[str]:
    """At most two lines, the second further in."""
    lines = words.wrap_lines(text, words.WIDTH - 4, 2)
    return [f"  {line}" if i == 0 else f"    {line}" for i, line in enumerate(lines)]


def _wrap_hanging_at(text: str, margin: int, most: int) -> list[str]:
    """At most so many lines; all but the first start at the margin, the first has its own."""
    lead = text[: len(text) - len(text.lstrip())]
    lines = words.wrap_lines(text.lstrip(), words.WIDTH - max(margin, len(lead)), most)
    return [f"{lead if i == 0 else ' ' * margin}{line}" for i, line in enumerate(lines)]
