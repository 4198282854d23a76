"""Dates in a scenario as hours from its `now`, so that everything behind the file counts in hours."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

from planner.documents.overrides import replace_value
from planner.documents.quantities import format_hours

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planner.documents.source_map import Source
    from planner.documents.strict_yaml import KeyPath
    from planner.errors import Fault

MOMENTS = (
    ("jobs", "*", "deadline"),
    ("jobs", "*", "release"),
    ("jobs", "*", "due"),
    ("offers", "*", "block", "start"),
    ("offers", "*", "block", "end"),
    ("offers", "*", "available", "*", "from"),
    ("offers", "*", "available", "*", "to"),
    ("limits", "budgets", "*", "from"),
    ("limits", "budgets", "*", "to"),
)
"""Places of a scenario that may hold a date instead of a duration."""


def resolve_dates(data: Any, source: Source, faults: list[Fault]) -> Any:
    """Return the data with dates as hours from `now`; a date without `now`, or before it, is a fault."""
    now = as_moment(data.get("now")) if isinstance(data, dict) else None
    if isinstance(data, dict) and data.get("now") is not None:
        if now is None:
            what = f"{data['now']!r} is no date"
            faults.append(source.fault(("now",), what, "write 2026-12-01 or 2026-12-01T09:00"))
            return {**data, "now": None}
        data = {**data, "now": now}
    for place in MOMENTS:
        for path, value in list(_values_at(data, place)):
            moment = as_moment(value)
            if moment is None:
                continue
            if now is None:
                faults.append(source.fault(path, "a date without a start of the plan", "add now: 2026-12-01T09:00"))
                moment, hours = now, 1.0
            else:
                hours = (moment - now) / datetime.timedelta(hours=1)
            may_be_zero = path[-1] in ("release", "start", "from")
            if hours < 0 or (hours == 0 and not may_be_zero):
                faults.append(source.fault(path, f"{value} is not after now", f"now is {now}"))
                hours = 1.0
            data = replace_value(data, path, "0h" if hours == 0 else format_hours(hours))
    return data


def as_moment(value: Any) -> datetime.datetime | None:
    """Return a date, or a date with a time of day, as a moment; None for anything else."""
    if isinstance(value, datetime.datetime):
        return value.replace(tzinfo=None)
    if isinstance(value, datetime.date):
        return datetime.datetime(value.year, value.month, value.day)
    if not isinstance(value, str) or len(value) < len("2026-12-01") or not value[:4].isdigit():
        return None
    try:
        return datetime.datetime.fromisoformat(value).replace(tzinfo=None)
    except ValueError:
        return None


def _values_at(data: Any, place: tuple[str, ...], path: KeyPath = ()) -> Iterator[tuple[KeyPath, Any]]:
    """Yield every value at a place in which `*` is any item of a list."""
    if not place:
        yield path, data
    elif place[0] == "*" and isinstance(data, list):
        for index, item in enumerate(data):
            yield from _values_at(item, place[1:], (*path, index))
    elif isinstance(data, dict) and place[0] in data:
        yield from _values_at(data[place[0]], place[1:], (*path, place[0]))
