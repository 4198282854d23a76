"""Why there is no plan: what would have to give, and what came nearest."""

from __future__ import annotations

import math

from planner.plan import NearMiss, Plan, Relaxation
from planner.report import words

CHANGE = 42
"""Columns of a change, before what it leads to."""


def obstacles(plan: Plan) -> list[str]:
    """The text of a question without an answer."""
    if plan.status != "infeasible":
        return [*_stopped(plan), *_notes(plan)]
    found = plan.infeasible
    relax = found.relax if found else ()
    nearest = found.nearest if found else ()
    lines = ["infeasible: no way meets all limits"]
    if relax:
        lines = ["infeasible: no way meets all limits. Smallest changes, each checked by solving:"]
        for number, change in enumerate(relax, 1):
            lines += relaxation(number, change, plan.scenario)
    if nearest:
        lines.append("nearest misses")
        for miss in nearest:
            lines += _hung(near_miss(miss))
    if not relax and not nearest:
        reasons = plan.candidates.reasons
        made = plan.candidates.made
        lines += [f"  {made:,} ways were priced, {plan.candidates.rejected:,} rejected"]
        lines += [
            words.shortened(f"  {count:,} x {words.plain(reason)}", words.WIDTH)
            for reason, count in sorted(reasons.items(), key=lambda item: (-item[1], item[0]))[:8]
        ]
    return [*lines, *_notes(plan)]


def relaxation(number: int, change: Relaxation, scenario: str) -> list[str]:
    """`1. deadline 2 h -> 2.6 h     then ...`, on a second line where it is long."""
    if change.change_from is None and change.change_to is None:
        what = change.limit
    else:
        old, new = _outwards(change)
        what = f"{limit_name(change.limit, scenario)} {limit_value(change.limit, old)}"
        what += f" -> {limit_value(change.limit, new)}"
    what = f"  {number}. {words.plain(what)}"
    then = f"then {words.plain(change.then).removeprefix('then ')}" if change.then else ""
    if not then:
        return [words.shortened(what, words.WIDTH)]
    if len(what) < CHANGE and CHANGE + len(then) <= words.WIDTH:
        return [f"{what:<{CHANGE}}{then}"]
    return [words.shortened(what, words.WIDTH), words.shortened(f"     {then}", words.WIDTH)]


def limit_name(path: str, scenario: str = "") -> str:
    """The key in words; `deadline of bot` for `jobs.bot.deadline`, unless the scenario has the job's name."""
    parts = path.split(".")
    key = parts[-1].removesuffix("_usd").removesuffix("_hours").replace("_", " ")
    job = ".".join(parts[1:-1])
    return f"{key} of {job}" if parts[0] == "jobs" and job not in ("", scenario) else key


def _outwards(change: Relaxation) -> tuple[float | str | None, float | str | None]:
    """Both values; the new one rounded away from the old, so that what is printed is enough."""
    old, new = change.change_from, change.change_to
    if isinstance(old, (int, float)) and isinstance(new, (int, float)):
        digits = 100 if change.limit.endswith("usd") else 10
        away = math.ceil if new > old else math.floor
        new = away(round(new * digits, 6)) / digits
    return old, new


def limit_value(path: str, value: float | str | None) -> str:
    """A limit in its unit."""
    if value is None:
        return "none"
    if isinstance(value, str):
        return value
    key = path.rpartition(".")[2]
    if key.endswith("usd"):
        return words.usd(value)
    if key in ("deadline", "max_hours", "deadline_hours"):
        return f"{words.bare(value)} h"
    return words.bare(value)


def near_miss(miss: NearMiss) -> str:
    """What was rejected, why, and by how much."""
    if not miss.unit:
        return f"{miss.what}: {miss.reason}"
    if miss.unit.lower() in ("usd", "$"):
        lacking = f"{words.usd(miss.shortfall)} over"
    elif miss.unit in ("h", "hours"):
        lacking = f"{words.hours(miss.shortfall)} late"
    else:
        lacking = f"{words.bare(miss.shortfall)} {miss.unit} short"
    return f"{miss.what}: {miss.reason} ({lacking})"


def _stopped(plan: Plan) -> list[str]:
    name = words.shortened(words.plain(plan.scenario), 40)
    lines = [f"{name}: stopped without a plan after {words.significant(plan.seconds)} s"]
    if plan.bound is not None:
        lines.append(f"  no plan costs less than {words.significant(plan.bound)} (bound by {plan.solver})")
    return [*lines, "  a longer --time-limit or a --gap may find one"]


def _notes(plan: Plan) -> list[str]:
    return [line for note in plan.warnings for line in _hung(note)]


def _hung(text: str) -> list[str]:
    """At most two lines, the second further in."""
    lines = words.wrapped(text, words.WIDTH - 4, 2)
    return [f"  {line}" if i == 0 else f"    {line}" for i, line in enumerate(lines)]
