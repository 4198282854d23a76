"""Differences between two figures, and the settings that made them, as words."""

from __future__ import annotations

from planner.report import format as words


def format_difference(value: float) -> str:
    """A difference of dollars with its sign, such as `+$1.15`; nothing reads as `$0.00`."""
    text = words.usd(abs(value))
    return text if text == "$0.00" else f"{'-' if value < 0 else '+'}{text}"


def shown_difference(before: float, after: float, digits: int = 2) -> float:
    """The difference of two figures as they are shown, so that it is the one that a reader finds."""
    return round(round(after, digits) - round(before, digits), digits)


def format_hours_difference(value: float) -> str:
    """A difference of hours with its sign."""
    text = words.hours(abs(value))
    return text if abs(value) < 0.005 else f"{'-' if value < 0 else '+'}{text}"


def shown_hours_difference(before: float, after: float) -> float:
    """The difference of hours as they are shown; of minutes as it is."""
    least, most = sorted((before, after))
    return after - before if least < 0.1 else shown_difference(before, after, 0 if most >= 1000 else 1)


def describe_setting(setting: str) -> str:
    """A setting as the subject of a sentence, such as `the deadline of 8h` or `forbidding H100-80GB`."""
    path, _, value = words.sanitise(setting).partition("=")
    path, value = path.strip(), value.strip().strip("[]")
    steps = path.split(".")
    key = steps[-1]
    if key == "forbid":
        return f"forbidding {value}"
    if key == "allow":
        return f"allowing only {value}"
    if key == "deadline":
        return f"the deadline of {value}" if value not in ("null", "~", "") else "lifting the deadline"
    if path == "limits.budget_usd":
        return f"the budget of ${value}" if value not in ("null", "~", "") else "lifting the budget"
    if steps[0] == "adjust":
        return "the changed price"
    return f"{'.'.join(steps[2:]) if steps[0] == 'jobs' and len(steps) > 2 else path} = {value}"
