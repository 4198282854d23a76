"""A field of the page, and how a value of a scenario is written in it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Literal

from planner.records import record
from planner.units import DAY_HOURS

Kind = Literal["model", "text", "hours", "dollars", "factor", "switch", "one", "choices", "names"]
_MILLISECONDS = 1000.0


@record(frozen=True)
class Control:
    """A field of the page.

    `key` is its name in the address, `path` the place in the scenario, `value` what the scenario has there.
    `choices` are the values of a list, each with its words; an empty choice leaves it to the planner where the field
    may be empty. `fold` is the heading under which the field is hidden until it is opened.
    """

    key: str
    group: str
    label: str
    kind: Kind
    path: str
    value: str
    hint: str = ""
    choices: tuple[tuple[str, str], ...] = ()
    may_be_empty: bool = False
    fold: str = ""

    def data(self) -> dict[str, Any]:
        """Return the field as the page reads it."""
        return asdict(self)


def plain_text(value: Any) -> str:
    """Return a value of a scenario as it is typed; a list with commas, empty where nothing is given."""
    if value is None:
        return ""
    if isinstance(value, (tuple, list)):
        return ",".join(map(str, value))
    return f"{value:.12g}" if isinstance(value, float) else str(value)


def count_text(value: float) -> str:
    """Return a number as people write it: whole millions as 24M, whole billions as 2B."""
    for unit, size in (("B", 10**9), ("M", 10**6)):
        if value >= size and value % size == 0:
            return f"{value / size:.0f}{unit}"
    return f"{value:.12g}"


def hours_text(value: float | None) -> str:
    """Return hours with their unit."""
    return "" if value is None else f"{value:.10g}h"


def days_text(hours: float) -> str:
    """Return a long time in whole days where it has them."""
    return hours_text(hours) if hours % DAY_HOURS else f"{hours / DAY_HOURS:.10g}d"


def latency_text(seconds: float | None) -> str:
    """Return a time as people write it: 40ms, 1.5s."""
    if seconds is None:
        return ""
    return f"{seconds:.12g}s" if seconds >= 1 else f"{seconds * _MILLISECONDS:.12g}ms"
