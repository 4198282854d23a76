"""The result of `track` as text: what was observed, what was planned, and how it will end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.report import format as words
from planner.report.format import line_room

if TYPE_CHECKING:
    from planner.results.tracking import Choice, Tracking

MIN_CAUSE_HOURS = 0.05
"""Parts of a difference up to this are not shown."""


def render_tracking(found: Tracking) -> str:
    """Return the text of a tracked job."""
    lines = words.wrap_lines(_summary(found), words.width(), 2)
    lines += ["", *words.section("Done", words.wrap_all(_done(found), line_room(), 2))]
    lines += words.section("Speed", words.wrap_all(_speed(found), line_room(), 2))
    if found.observed.peak_vram_gib is not None:
        lines += words.section("Memory", words.wrap_all(_memory(found), line_room(), 2))
    lines += words.section("End", words.wrap_all(_end(found), line_room(), 2))
    lines += words.section("Because", _causes(found))
    for one in found.choices:
        lines += words.section("Now" if one is found.choices[0] else "", words.wrap_lines(_choice(one), line_room(), 3))
    lines += words.section("Logs", words.wrap_all(found.logs, line_room(), 2))
    lines += words.section("Notes", words.wrap_all(found.notes, line_room(), 3))
    return "\n".join(line.rstrip() for line in lines)


def _summary(found: Tracking) -> str:
    end, chance = found.projected, found.projected.deadline_probability
    text = (
        f"{found.job}: {100 * found.observed.share_done:.0f} % done, ends after {words.likely(end.hours.expected)} "
        f"for {words.usd(end.cost_usd.expected)}"
    )
    if chance is None or found.planned.deadline_hours is None:
        return text
    deadline = words.plain_number(found.planned.deadline_hours)
    return f"{text}, meets the {deadline} h deadline with {words.chance_text(chance)} probability"


def _done(found: Tracking) -> list[str]:
    seen = found.observed
    how = "spent" if seen.spent_is_given else "spent at the prices of the plan"
    lines = [
        f"{seen.steps:,} of {found.planned.steps:,} steps in {words.hours(seen.elapsed_hours)}, "
        f"{words.usd(seen.spent_usd)} {how}"
    ]
    if seen.restarts:
        plural = "" if seen.restarts == 1 else "s"
        again = f", {seen.repeated_steps:,} steps done again" if seen.repeated_steps else ""
        lines.append(f"{seen.restarts} restart{plural}{again}")
    if seen.standing_hours >= MIN_CAUSE_HOURS:
        lines.append(f"stood still for {words.hours(seen.standing_hours)}")
    return lines


def _speed(found: Tracking) -> list[str]:
    seen, plan = found.observed, found.planned
    planned = f"{words.significant(plan.tokens_per_second)} planned"
    if seen.tokens_per_second is None or seen.step_seconds is None:
        return [f"not timed; {planned}"]
    ratio = seen.tokens_per_second / plan.tokens_per_second - 1.0
    spread = f" (± {words.percent(seen.step_spread)} each)" if seen.step_spread is not None else ""
    warm = f", {seen.warm_up_steps:,} of warm-up excluded" if seen.warm_up_steps else ""
    lines = [
        f"{words.significant(seen.tokens_per_second)} {plan.unit}/s observed, {planned} ({100 * ratio:+.0f} %)",
        f"{words.significant(seen.step_seconds)} s per step{spread} over {seen.timed_steps:,} steps{warm}; "
        f"{words.significant(plan.step_seconds)} s planned",
    ]
    if seen.gpu_utilisation is not None:
        lines.append(f"GPUs busy {100 * seen.gpu_utilisation:.0f} % of the time")
    return lines


def _memory(found: Tracking) -> list[str]:
    seen, plan = found.observed, found.planned
    return [
        f"{words.gib(seen.peak_vram_gib or 0.0)} of {words.gib(plan.usable_vram_gib)} GiB ({seen.peak_kind}), "
        f"{words.gib(seen.free_vram_gib or 0.0)} free; peak of {words.gib(plan.peak_vram_gib)} planned"
    ]


def _end(found: Tracking) -> list[str]:
    end, plan = found.projected, found.planned
    lines = [
        f"{words.likely(end.hours.expected)} ({words.between(end.hours.low, end.hours.high)}), "
        f"{words.hours(end.left_hours)} left; {words.likely(plan.hours.expected)} planned",
        f"{words.usd(end.cost_usd.expected)} ({words.usd_between(end.cost_usd.low, end.cost_usd.high)}); "
        f"{words.usd(plan.cost_usd.expected)} planned",
    ]
    if end.deadline_probability is not None:
        asked = f"asked for: {words.probability_text(plan.confidence)}"
        lines.append(f"deadline: {words.chance_text(end.deadline_probability)}; {asked}")
    return lines


def _causes(found: Tracking) -> list[str]:
    shown = [one for one in found.causes if abs(one.hours) >= MIN_CAUSE_HOURS]
    if not shown:
        return ["as planned within 3 minutes"]
    wide = max(len(one.what) for one in shown)
    return [f"{one.what:<{wide}}  {one.hours:+.1f} h" for one in sorted(shown, key=lambda one: -abs(one.hours))]


def _choice(one: Choice) -> str:
    chance = "" if one.deadline_probability is None else f", {words.chance_text(one.deadline_probability)} on time"
    where = words.sanitise(f"{one.machines} at {one.provider}")
    return f"{one.what}: {where}, {words.usd(one.cost_usd)}, {words.likely(one.hours.expected)} left{chance}"
