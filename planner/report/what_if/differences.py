"""Differences between two figures, and the settings that cause them, as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.report import format as words

if TYPE_CHECKING:
    from planner.results.what_if import WhatIf


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


def shown_hours_difference(before: float, after: float) -> float:
    """Return the difference of hours as they are shown; exact if it is shown in minutes."""
    least, most = sorted((before, after))
    return after - before if least < 0.1 else shown_difference(before, after, 0 if most >= 1000 else 1)


def shown_differences(answer: WhatIf) -> tuple[float, float]:
    """Return dollars and hours after minus before, both as they are shown; 0 if a plan is missing."""
    before, after = answer.before, answer.after
    usd = hours = 0.0
    if before.cost_usd and after.cost_usd:
        usd = shown_difference(before.cost_usd.expected, after.cost_usd.expected)
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
