"""Dates in a scenario as hours from its `now`, so that everything behind the file counts in hours."""

from __future__ import annotations

import datetime
import math
from typing import TYPE_CHECKING, Any

from pydantic_core import PydanticCustomError, ValidationError

from planner.documents.overrides import Source, replace_value
from planner.documents.quantities import (
    at_clock,
    clock_changes,
    format_hours,
    hours_between,
    is_instant,
    parse_hours,
    parse_instant,
    users_zone,
    written_in,
    written_zone,
    zone_of,
)
from planner.documents.strict_yaml import KeyPath
from planner.errors import Fault
from planner.scenario.offer import Offer
from planner.scenario.schedule import ClockChange
from planner.units import DAY_HOURS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

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

    The `now` that dates were counted from stays in the data, so that a change of another value moves no date. It is
    written in the zone of the user: its own, or the first that a date names. Windows that return by the day have the
    changes of the clock of their zone.
    """
    dated = [(path, value) for place in MOMENTS for path, value in _values_at(data, place) if is_instant(value)]
    if not dated and data.get("now") is None:
        return data
    try:
        zone = users_zone(data.get("now"), [value for _, value in dated])
        now = parse_instant(data["now"]) if data.get("now") is not None else _clock(dated[0][1])
    except PydanticCustomError:
        return data  # the validation reports it
    if zone and zone != zone_of(data.get("now")):
        data = {**data, "now": written_in(now, zone)}
    elif data.get("now") is None:
        data = {**data, "now": now.isoformat(sep=" ", timespec="minutes")}
    data = _budgets_by_clock(data, now, zone)
    moments = {path: _hours_until(value, now, path, source, faults) for path, value in dated}
    written = dict(dated)
    for path, hours in moments.items():
        data = replace_value(data, path, _written(hours))
    for place, windows in list(_values_at(data, ("offers", "*", "available"))):
        if not isinstance(windows, list) or not windows:
            continue
        left = []
        for index, window in enumerate(windows):
            date = written.get((*place, index, "from"))
            clock = written_zone(date) if date is not None else zone
            parts = _left_of(window, (*place, index), moments, now, written)
            left += [_by_clock(part, now, clock, date is not None) for part in parts]
        if not left:
            fix = "give a later one, or set now (--now) to the day on which the job may start"
            faults.append(source.fault(place, "every window is over", fix))
        data = data if left == windows else replace_value(data, place, left)
    return data


def _budgets_by_clock(data: dict[str, Any], now: datetime.datetime, zone: str) -> dict[str, Any]:
    """Return the data with the changes of the clock from the present `now` on in budgets by day and week."""
    for path, budget in list(_values_at(data, ("limits", "budgets", "*"))):
        if zone and isinstance(budget, dict) and budget.get("per") in ("day", "week"):
            changes = [change.model_dump(by_alias=True, mode="json") for change in _changes(now, zone)]
            if changes or "clock_changes" in budget:
                data = replace_value(data, path, budget | {"clock_changes": changes})
    return data


def offers_by_clock(offers: tuple[Offer, ...], now: object) -> tuple[Offer, ...]:
    """Return offers of files with the changes of the clock of `now` in windows that return by the day."""
    if not (zone := zone_of(now)) or not any(offer.available for offer in offers):
        return offers
    changes = _changes(parse_instant(now), zone)
    return tuple(
        offer.model_copy(
            update={
                "available": tuple(
                    window.with_clock(changes, False)
                    if window.returns_by_clock() and not window.clock_changes
                    else window
                    for window in offer.available
                )
            }
        )
        if offer.available
        else offer
        for offer in offers
    )


def _clock(date: object) -> datetime.datetime:
    """Return the present minute, with the offset of a date where that has no name of a zone."""
    now = datetime.datetime.now(datetime.UTC).replace(second=0, microsecond=0)
    try:
        return now.astimezone(parse_instant(date).tzinfo)
    except PydanticCustomError:  # which is reported where the date is read
        return now


def _changes(now: datetime.datetime, zone: str) -> tuple[ClockChange, ...]:
    """Return the changes of the clock of a zone from `now` on."""
    from planner.scenario.schedule import ClockChange

    return tuple(
        ClockChange.model_validate({"at": _written(hours_between(now, at)), "forward_hours": hours})
        for at, hours in clock_changes(now, zone)
    )


def _by_clock(window: Any, now: datetime.datetime, zone: str, has_dates: bool) -> Any:
    """Return a window that returns by the day with the changes of its clock; the validation reports what is none."""
    if not zone or not isinstance(window, dict) or "every" not in window or window.get("clock_changes"):
        return window
    from planner.scenario.schedule import Window

    try:
        read = Window.model_validate(window)
    except ValidationError:
        return window
    changes = _changes(now, zone) if read.returns_by_clock() else ()
    if not changes:
        return window
    return read.with_clock(changes, has_dates).model_dump(by_alias=True, mode="json")


def _left_of(
    window: Any,
    place: KeyPath,
    moments: Mapping[KeyPath, float],
    now: datetime.datetime,
    written: Mapping[KeyPath, Any],
) -> list[Any]:
    """Return the parts of a window that lie ahead of `now`.

    At 23:00, of a window from 20:00 to 8:00 that returns every day: 0 h to 9 h, and 21 h to 33 h every 24 h. It returns
    by the clock of its zone.
    """
    begin, end = moments.get((*place, "from"), 0.0), moments.get((*place, "to"), math.inf)
    if begin >= 0 or not begin < end < math.inf:
        return [window]  # it has not begun, or the validation reports it
    if "every" not in window:
        return [window] if end > 0 else []
    try:
        every = parse_hours(window["every"])
        dates = [parse_instant(written[(*place, key)]) for key in ("from", "to")]
    except PydanticCustomError:
        return [window]
    zone = written_zone(written[(*place, "from")]) if every % DAY_HOURS == 0 else ""

    def turn(times: int) -> tuple[float, float]:
        if not zone:
            return begin + times * every, end + times * every
        first, last = (hours_between(now, at_clock(date, times * every / DAY_HOURS, zone)) for date in dates)
        return first, last

    times = math.floor(-begin / every)  # how often it has begun again
    times -= turn(times)[0] > 0
    times += turn(times + 1)[0] <= 0
    end, following = turn(times)[1], turn(times + 1)
    again = window | {"from": _written(following[0]), "to": _written(following[1])}
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
