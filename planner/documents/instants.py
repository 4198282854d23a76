"""Points in time as a user writes them: a day and an hour with a zone, such as `2026-11-25 09:00 Europe/Berlin`."""

from __future__ import annotations

import datetime
import os
import re
from typing import TYPE_CHECKING

from planner.documents.quantities import format_value, validation_error
from planner.units import HOUR

if TYPE_CHECKING:
    from collections.abc import Iterable

CLOCK_CHANGES_DAYS = 400
"""How far ahead changes of the clock are looked for: a machine by night is looked at for half a year."""
_INSTANT = re.compile(
    r"\s*(\d{4}-\d\d-\d\d)(?:[T ]+(\d\d?:\d\d(?::\d\d)?))?"
    r"\s*(Z|UTC|[+-]\d\d:?\d\d)?\s*([A-Za-z_]+(?:/[\w+-]+)+)?\s*\Z"
)
INSTANT_FIX = (
    "write 2026-11-25 09:00, with a zone behind it (UTC, +01:00 or Europe/Berlin) where it is not the local one"
)


def is_instant(value: object) -> bool:
    """Whether a value begins with a date."""
    return isinstance(value, str) and re.match(r"\s*\d{4}-\d\d?-\d\d?(?!\d)", value) is not None


def parse_instant(value: object) -> datetime.datetime:
    """Return a point in time with its zone; without a zone it is the local time of this machine.

    An offset before the name of a zone says which of two is meant where the clock shows an hour twice:
    `2026-10-25 02:30 +01:00 Europe/Berlin`.
    """
    found = _INSTANT.match(value) if isinstance(value, str) else None
    if found is None:
        raise validation_error(f"{format_value(value)} is not a day and time", INSTANT_FIX)
    day, time, offset, name = found.groups()
    zone = offset or name
    try:
        hour, *rest = (time or "00:00").split(":")
        moment = datetime.datetime.fromisoformat(f"{day}T{int(hour):02d}:{':'.join(rest)}")
        known = moment.astimezone() if zone is None else moment.replace(tzinfo=_zone(zone))
        known = known.astimezone(_zone(name)) if offset and name else known
    except (ValueError, OverflowError, OSError, LookupError):
        raise validation_error(f"{format_value(value)} is not a day and time", INSTANT_FIX) from None
    shown = known.astimezone(datetime.UTC).astimezone(known.tzinfo).replace(tzinfo=None)
    if offset and name and shown != moment:
        raise validation_error(f"{format_value(value)} is not the time there", f"leave {offset} out")
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
    return (found[4] or "") if found else ""


def written_zone(value: object) -> str:
    """Return the name of the zone in which an instant is meant: as written, or that of this machine; else empty."""
    zone = _zone_as_written(value)
    return zone if "/" in zone and _is_known(zone) else "" if zone else _local_zone()


def users_zone(now: object, dates: Iterable[object]) -> str:
    """Return the name of the zone in which moments are shown; empty where no name is known, or UTC was meant.

    It is the zone of `now`. Where `now` is missing or has no name, it is the first that a date names, and else the zone
    of this machine if something is written without any zone.
    """
    zones = [_zone_as_written(value) for value in (now, *dates) if is_instant(value)]
    if now is not None and zones and zones[0] in ("Z", "UTC"):
        return ""
    named = next((zone for zone in zones if "/" in zone and _is_known(zone)), "")
    return named or (_local_zone() if "" in zones else "")


def written_in(moment: datetime.datetime, zone: str) -> str:
    """Return an instant as text in a named zone, to the second; with its offset where the clock shows it twice."""
    shown = moment.astimezone(_zone(zone))
    text = f"{shown:%Y-%m-%d %H:%M:%S}" if shown.second else f"{shown:%Y-%m-%d %H:%M}"
    twice = shown.replace(fold=0).utcoffset() != shown.replace(fold=1).utcoffset()
    offset = f" {shown.isoformat(timespec='minutes')[-6:]}" if twice else ""
    return f"{text}{offset} {zone}"


def clock_changes(
    start: datetime.datetime, zone: str, days: int = CLOCK_CHANGES_DAYS
) -> list[tuple[datetime.datetime, float]]:
    """Return when the clock of a zone changes within some days of an instant, and by how many hours it goes forward."""
    clock, day, found = _zone(zone), datetime.timedelta(days=1), []
    before = start.astimezone(datetime.UTC).replace(second=0, microsecond=0)
    for _ in range(days):
        after = before + day
        change = _offset_hours(after, clock) - _offset_hours(before, clock)
        if change:
            first, last = before, after  # the change lies between them: halve the minutes
            while (minutes := int((last - first).total_seconds()) // 60) > 1:
                middle = first + datetime.timedelta(minutes=minutes // 2)
                same = _offset_hours(middle, clock) == _offset_hours(before, clock)
                first, last = (middle, last) if same else (first, middle)
            found.append((last, change))
        before = after
    return found


def at_clock(day: datetime.datetime, days: float, zone: str) -> datetime.datetime:
    """Return the instant at which the clock of a zone shows the time of another instant, some days later.

    A time that the clock skips is read as if the clock had not gone forward; of one shown twice the first is meant.
    """
    shown = day.astimezone(_zone(zone)).replace(tzinfo=None) + datetime.timedelta(days=days)
    return shown.replace(tzinfo=_zone(zone)).astimezone(datetime.UTC)


def _offset_hours(moment: datetime.datetime, zone: datetime.tzinfo) -> float:
    offset = moment.astimezone(zone).utcoffset()
    return offset.total_seconds() / HOUR if offset is not None else 0.0


def _zone_as_written(value: object) -> str:
    """Return the zone of an instant: its name, its offset, or nothing."""
    found = _INSTANT.match(value) if isinstance(value, str) else None
    return (found[4] or found[3] or "") if found else "UTC"


def _local_zone() -> str:
    """Return the name of the zone of this machine where the system tells it; empty for UTC and for none."""
    link = os.environ.get("TZ") or (os.path.realpath("/etc/localtime") if os.name == "posix" else "")
    name = link.removeprefix(":").rpartition("zoneinfo/")[2]
    if "/" not in name or name.startswith(("Etc/", "/")) or not _is_known(name):
        return ""
    here = datetime.datetime.now().astimezone()
    return name if here.astimezone(_zone(name)).utcoffset() == here.utcoffset() else ""


def _is_known(zone: str) -> bool:
    """Return whether the system has a zone of that name."""
    try:
        _zone(zone)
    except (LookupError, ValueError, OSError):
        return False
    return True


def _zone(name: str) -> datetime.tzinfo:
    if name in ("Z", "UTC"):
        return datetime.UTC
    if name[0] in "+-":
        digits = name[1:].replace(":", "")
        offset = datetime.timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
        return datetime.timezone(-offset if name[0] == "-" else offset)
    from zoneinfo import ZoneInfo  # its files are read for few scenarios

    return ZoneInfo(name)
