"""Dates in a scenario as hours from its `now`, so that everything behind the file counts in hours."""

from __future__ import annotations

import datetime
import math
from typing import TYPE_CHECKING, Any

from pydantic_core import PydanticCustomError

from planner.documents.instants import hours_between, is_instant, parse_instant
from planner.documents.overrides import replace_value
from planner.documents.quantities import format_hours, parse_hours

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

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
MAY_BE_NOW = ("release", "start", "from")
"""Keys of moments at which something begins."""
BEGUN = ("release", "available")
"""Keys of what may have begun before `now`: a job that waits since then, and windows, of which the rest is left."""


def resolve_dates(data: dict[str, Any], source: Source, faults: list[Fault]) -> dict[str, Any]:
    """Return the data with every date as hours from `now`, which is the clock where it is not set.

    The `now` that dates were counted from stays in the data, so that a change of another value moves no date.
    """
    dated = [(path, value) for place in MOMENTS for path, value in _values_at(data, place) if is_instant(value)]
    if not dated:
        return data
    try:
        now = parse_instant(data["now"]) if data.get("now") is not None else datetime.datetime.now(datetime.UTC)
    except PydanticCustomError:
        return data  # the validation reports it
    data = {**data, "now": now.isoformat(sep=" ", timespec="minutes")} if data.get("now") is None else data
    moments = {path: _hours_until(value, now, path, source, faults) for path, value in dated}
    for path, hours in moments.items():
        data = replace_value(data, path, _written(hours))
    for place in sorted({path[:3] for path in moments if "available" in path}):
        windows = data["offers"][place[1]]["available"]
        left = [part for index, one in enumerate(windows) for part in _left_of(one, (*place, index), moments)]
        if not left:
            fix = "give a later one, or set now (--now) to the day on which the job may start"
            faults.append(source.fault(place, "every window is over", fix))
        data = replace_value(data, place, left)
    return data


def _left_of(window: Any, place: KeyPath, moments: Mapping[KeyPath, float]) -> list[Any]:
    """Return the parts of a window that lie ahead of `now`.

    At 23:00, of a window from 20:00 to 8:00 that returns every day: 0 h to 9 h, and 21 h to 33 h every 24 h.
    """
    begin, end = moments.get((*place, "from"), 0.0), moments.get((*place, "to"), math.inf)
    if begin >= 0 or not begin < end < math.inf:
        return [window]  # it has not begun, or the validation reports it
    if "every" not in window:
        return [window] if end > 0 else []
    try:
        every = parse_hours(window["every"])
    except PydanticCustomError:
        return [window]
    times = math.floor(-begin / every)  # how often it has begun again
    begin, end = begin + times * every, end + times * every
    again = window | {"from": _written(begin + every), "to": _written(end + every)}
    now_open = {key: value for key, value in window.items() if key != "every"} | {"from": "0h", "to": _written(end)}
    return [now_open, again] if end > 0 else [again]


def _written(hours: float) -> str:
    """Return hours from `now` as a scenario has them; what has begun is open from `now` on."""
    return format_hours(hours) if hours > 0 else "0h"


def _hours_until(value: str, now: datetime.datetime, path: KeyPath, source: Source, faults: list[Fault]) -> float:
    """Return the hours from `now` to a date; what is no date, or over, is a fault."""
    try:
        hours = hours_between(now, parse_instant(value))
    except PydanticCustomError as error:
        context = error.context or {}
        faults.append(source.fault(path, context["what"], context["fix"]))
        return 1.0
    over = hours < 0 or (hours == 0 and path[-1] not in MAY_BE_NOW)
    if over and not any(key in BEGUN for key in path):
        fix = "give a later day, or set now (--now) to the day on which the job may start"
        faults.append(source.fault(path, f"{value} is over", fix))
        return 1.0
    return hours


def _values_at(data: Any, place: tuple[str, ...], path: KeyPath = ()) -> Iterator[tuple[KeyPath, Any]]:
    """Yield every value at a place in which `*` is any item of a list."""
    if not place:
        yield path, data
    elif place[0] == "*" and isinstance(data, list):
        for index, item in enumerate(data):
            yield from _values_at(item, place[1:], (*path, index))
    elif isinstance(data, dict) and place[0] in data:
        yield from _values_at(data[place[0]], place[1:], (*path, place[0]))
