"""Comparison of a plan with reference figures, field by field; the unit that ends a field's name sets the tolerance."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from planner.results.plan_parts import Part

if TYPE_CHECKING:
    from collections.abc import Iterator

Figure = float | str | None

_DECIDED = ("start_at_hours", "end_at_hours", "reservation", "pauses")  # checked with the timetable
_PROSE = ("lossy_techniques", "quality", "compared_by", "binding", "notes")
_UNAUDITED = {
    "methods",
    "fallbacks",
    "purchase",
    "hosted",
    "pays_first",
    "pays_from_requests",
    "pays_on",
    "cheaper_at_risk",
    "safer",
    "frameworks",
    "next_best",
    "model",  # checked with the choice
    *_PROSE,
    *_DECIDED,
}  # other configurations, and prose
_KEYS = {"bill": "item", "separate_machines": "stage"}  # lists without an order: the field that identifies an element
_AMOUNTS = ("usd", "quantity", "hours")  # of an element, all zero where it may be left out


@dataclass(frozen=True)
class Violation:
    """A disagreement of a plan with what follows from scenario and library; `job` is empty for totals."""

    job: str
    what: str
    expected: Figure
    found: Figure

    def __str__(self) -> str:
        place = f"{self.job}: " if self.job else ""
        return f"{place}{self.what}: expected {self.expected}, found {self.found}"


@dataclass(frozen=True)
class Tolerance:
    """How far a figure may be off: hours, GiB and rates relatively, dollars absolutely."""

    hours: float = 1e-6
    gib: float = 1e-6
    usd: float = 0.005
    gap: float = 1e-5  # relative: what a solver's feasibility tolerance makes of an objective; a larger one if asked

    def room(self, unit: str, size: float) -> float:
        """Return the largest difference between two figures of a unit that are at most `size`."""
        if unit == "usd":
            return max(self.usd, 1e-8 * size)
        return max((self.gib if unit == "gib" else self.hours) * size, 1e-12)


def unit_of(name: str, unit: str = "") -> str:
    """Return `usd`, `gib`, or `rate` for everything relative; a name without a unit has that of its parent."""
    if name.startswith("rate_") or name.endswith(("_per_hour", "hours", "hours_of_runs")):
        return "rate"
    if name.endswith(("usd", "usd_sd", "usd_of_runs", "cost", "cost_at_confidence")):
        return "usd"
    return "gib" if name.endswith("_gib") else unit


Broken = tuple[str, Figure, Figure]  # what is violated, what is wanted, and what is found


def at_most(what: str, limit: float | None, found: float, slack: float = 0.0) -> Iterator[Broken]:
    """Yield a figure that lies above its limit (None: no limit) by more than the slack."""
    if limit is not None and not found <= limit + slack:
        yield what, f"at most {limit:.12g}", found


def compare(
    job: str, what: str, expected: object, found: object, tolerance: Tolerance, unit: str = "", whole: float = 0.0
) -> list[Violation]:
    """Return a violation for each field of `found` that differs from the reference.

    `what`: path of the field. `unit`: from the path's last name that has one. `whole`: sum of the mapping that a
    figure is part of; parts are as exact as their sum, because a small one may be the difference of large ones.
    """
    if isinstance(expected, float) and isinstance(found, (int, float)):
        room = tolerance.room(unit, max(abs(expected), abs(found), whole))
        return [] if abs(expected - found) <= room else [Violation(job, what, expected, found)]
    mine, others = _entries(what, expected), _entries(what, found)
    if mine is None or others is None or (isinstance(expected, Part) and type(found) is not type(expected)):
        return [] if expected == found else [Violation(job, what, _in_words(expected), _in_words(found))]
    violations = []
    if isinstance(expected, dict):
        whole = math.fsum(mine.values())
    for name in dict.fromkeys([*mine, *others]):
        own, other = mine.get(name, others.get(name)), others.get(name, mine.get(name))
        path = f"{what}[{name}]" if isinstance(expected, tuple) else f"{what}.{name}".removeprefix(".")
        if (name in mine and name in others) or _is_nothing(own):
            violations += compare(job, path, own, other, tolerance, unit_of(name, unit), whole)
        else:
            violations.append(Violation(job, path, _in_words(mine.get(name)), _in_words(others.get(name))))
    return violations


def _entries(what: str, value: object) -> dict[str, Any] | None:
    """Return fields, entries or elements by name, of elements without a name by position; None of a single figure."""
    if isinstance(value, Part):
        fields = {name: getattr(value, name) for name in type(value).model_fields if name not in _UNAUDITED}
        # Words on figures, which name another configuration; what a replica rests on is a word of its own.
        return {
            name: field_value
            for name, field_value in fields.items()
            if name != "evidence" or isinstance(field_value, str)
        }
    if isinstance(value, dict):
        return value
    if isinstance(value, tuple) and value and all(isinstance(item, (float, tuple)) for item in value):
        return {str(number): item for number, item in enumerate(value)}
    if not isinstance(value, tuple) or not all(isinstance(item, Part) for item in value):
        return None
    names = [str(getattr(item, _KEYS[what])) if what in _KEYS else str(number) for number, item in enumerate(value)]
    # What is listed twice is no entry of the reference.
    return {f"{name}#{number}" if name in names[:number] else name: value[number] for number, name in enumerate(names)}


def _is_nothing(value: object) -> bool:
    """Return whether a value need not be reported: no hours, no dollars, no quantity."""
    is_part = isinstance(value, Part)
    amounts = [getattr(value, name) for name in _AMOUNTS if hasattr(value, name)] if is_part else [value]
    return bool(amounts) and all(isinstance(amount, float) and abs(amount) <= 1e-9 for amount in amounts)


def _in_words(value: object) -> Figure:
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)
