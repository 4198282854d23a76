"""Comparison of a plan with reference figures, field by field; the unit that ends a field's name sets the tolerance."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from planner.results.plan_parts import Part

Figure = float | str | None

_UNAUDITED = {"ladder", "runner_up", "compared_by", "binding", "notes"}
"""Fields about other configurations than the plan's own, and prose."""
_KEYS = {"bill": "item", "beside": "stage"}
"""Lists whose order carries no meaning: the field that identifies an element."""
_AMOUNTS = {"usd", "quantity", "hours"}
"""Fields of a list's element that are all zero where the element may be left out."""
_DOLLARS = ("usd", "usd_sd", "cost", "cost_at_confidence")


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
    if name.startswith("rate_") or name.endswith("_per_hour"):
        return "rate"
    if name.endswith(_DOLLARS):
        return "usd"
    return "gib" if name.endswith("_gib") else "rate" if name.endswith("hours") else unit


def compare(
    job: str, what: str, expected: object, found: object, tolerance: Tolerance, unit: str = "", whole: float = 0.0
) -> list[Violation]:
    """Return a violation for each field of `found` that differs from the reference.

    `what`: path of the field. `unit`: from the path's last name that has one. `whole`: sum of the mapping that a
    figure is part of; parts are as exact as their sum, because a small one may be the difference of large ones.
    """
    if isinstance(expected, tuple) and all(isinstance(one, Part) for one in expected):
        expected, found = _labelled(what, expected), _labelled(what, found)
    if isinstance(expected, Part) and type(found) is type(expected):
        names = [name for name in type(expected).model_fields if name not in _UNAUDITED]
        prefix = f"{what}." if what else ""
        pairs = [(name, prefix + name, getattr(expected, name), getattr(found, name)) for name in names]
    elif isinstance(expected, Mapping) and isinstance(found, Mapping):
        whole = math.fsum(one for one in expected.values() if isinstance(one, float))
        pairs = [_pair(what, key, expected, found) for key in dict.fromkeys([*expected, *found])]
    elif isinstance(expected, float) and isinstance(found, (int, float)):
        room = tolerance.room(unit, max(abs(expected), abs(found), whole))
        return [] if abs(expected - found) <= room else [Violation(job, what, expected, found)]
    else:
        return [] if expected == found else [Violation(job, what, _figure(expected), _figure(found))]
    return [
        violation
        for name, path, one, other in pairs
        for violation in compare(job, path, one, other, tolerance, unit_of(name, unit), whole)
    ]


def _labelled(what: str, parts: object) -> Mapping[str, object]:
    """Return the elements of a list by name, or by position where they have none; an element twice gets a number."""
    found: dict[str, object] = {}
    for number, one in enumerate(parts if isinstance(parts, tuple) else ()):
        label = str(getattr(one, _KEYS[what])) if what in _KEYS else str(number)
        found[f"{label}#{number}" if label in found else label] = one
    return found


def _pair(
    what: str, key: str, expected: Mapping[str, object], found: Mapping[str, object]
) -> tuple[str, str, object, object]:
    """Return name, path and both values of an entry; nothing need not be reported: no hours, no dollars."""
    one, other = expected.get(key), found.get(key)
    path = f"{what}[{key}]" if isinstance(one if one is not None else other, Part) else f"{what}.{key}"
    if isinstance(one, float) and other is None:
        other = 0.0
    elif isinstance(one, Part) and other is None:
        other = one if _is_nothing(one) else None
    elif isinstance(other, Part) and one is None:
        one = other if _is_nothing(other) else None
    return "", path, one, other


def _is_nothing(part: Part) -> bool:
    amounts = [getattr(part, name) for name in _AMOUNTS & type(part).model_fields.keys()]
    return bool(amounts) and all(abs(amount or 0.0) <= 1e-9 for amount in amounts)


def _figure(value: object) -> Figure:
    """Return a value as a violation reports it: a part in full, in words."""
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)
