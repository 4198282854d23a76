"""Points in time as a user writes them: a day and an hour with a zone, such as `2026-11-25 09:00 Europe/Berlin`."""

from __future__ import annotations

import datetime
import re

from planner.documents.quantities import format_value, validation_error
from planner.units import HOUR

_INSTANT = re.compile(
    r"\s*(\d{4}-\d\d-\d\d)(?:[T ]+(\d\d?:\d\d(?::\d\d)?))?"
    r"\s*(Z|UTC|[+-]\d\d:?\d\d|[A-Za-z_]+(?:/[\w+-]+)+)?\s*\Z"
)
INSTANT_FIX = (
    "write 2026-11-25 09:00, with a zone behind it (UTC, +01:00 or Europe/Berlin) where it is not the local one"
)


def is_instant(value: object) -> bool:
    """Whether a value begins with a date."""
    return isinstance(value, str) and re.match(r"\s*\d{4}-\d\d?-\d\d?(?!\d)", value) is not None


def parse_instant(value: object) -> datetime.datetime:
    """Return a point in time with its zone; without a zone it is the local time of this machine."""
    found = _INSTANT.match(value) if isinstance(value, str) else None
    if found is None:
        raise validation_error(f"{format_value(value)} is not a day and time", INSTANT_FIX)
    day, time, zone = found.groups()
    try:
        hour, *rest = (time or "00:00").split(":")
        moment = datetime.datetime.fromisoformat(f"{day}T{int(hour):02d}:{':'.join(rest)}")
        known = moment.astimezone() if zone is None else moment.replace(tzinfo=_zone(zone))
    except (ValueError, OverflowError, OSError, LookupError):
        raise validation_error(f"{format_value(value)} is not a day and time", INSTANT_FIX) from None
    shown = known.astimezone(datetime.UTC).astimezone(known.tzinfo).replace(tzinfo=None)
    if zone is not None and shown != moment:
        fix = f"the clock goes forward there; {shown:%H:%M} is the same instant"
        raise validation_error(f"{format_value(value)} does not exist", fix)
    return known


def hours_between(start: datetime.datetime, end: datetime.datetime) -> float:
    """Return the hours that pass from one instant to another, whatever their clocks show.

    Python subtracts two times of one zone by the clock: across a change of the clock that is an hour off.
    """
    return (end.astimezone(datetime.UTC) - start.astimezone(datetime.UTC)).total_seconds() / HOUR


def moment_after(start: str, hours: float, zone: str = "") -> datetime.datetime:
    """Return the instant so many hours after another, as the clock of a zone shows it.

    `start` is an ISO text with an offset; `zone` is a name such as `Europe/Berlin`, empty for the offset of `start`.
    """
    begin = datetime.datetime.fromisoformat(start)
    moment = begin.astimezone(datetime.UTC) + datetime.timedelta(hours=hours)
    return moment.astimezone(_zone(zone) if zone else begin.tzinfo)


def zone_of(value: object) -> str:
    """Return the name of the zone that an instant is written in, such as `Europe/Berlin`; empty for any other."""
    found = _INSTANT.match(value) if isinstance(value, str) else None
    zone = (found[3] or "") if found else ""
    return zone if "/" in zone else ""


def _zone(name: str) -> datetime.tzinfo:
    if name in ("Z", "UTC"):
        return datetime.UTC
    if name[0] in "+-":
        digits = name[1:].replace(":", "")
        offset = datetime.timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
        return datetime.timezone(-offset if name[0] == "-" else offset)
    from zoneinfo import ZoneInfo  # its files are read for few scenarios

    return ZoneInfo(name)
