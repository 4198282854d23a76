"""Machines by the hour as times at which their number changes, and as lines of cron."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from planner.records import record
from planner.units import DAY_HOURS

if TYPE_CHECKING:
    from collections.abc import Sequence

HOUR_MINUTES = 60
DAY_MINUTES = 60 * int(DAY_HOURS)


@record(frozen=True)
class Change:
    """From this time on so many machines are ordered; the time repeats by the day or by the week."""

    cron: str
    machines: int


def lead_minutes(start_hours: float) -> int:
    """Return the whole minutes from ordering a machine to its first answer."""
    return math.ceil(HOUR_MINUTES * start_hours - 1e-9)


def ordered_at(by_hour: Sequence[int], lead: int, minute: int) -> int:
    """Return the machines that must be ordered at a minute of the cycle: the most of any time until `lead` later."""
    hours = range(minute // HOUR_MINUTES, (minute + lead) // HOUR_MINUTES + 1)
    return max(by_hour[hour % len(by_hour)] for hour in hours)


def changes(by_hour: Sequence[int], start_hours: float) -> list[tuple[int, int]]:
    """Return the minutes of the cycle at which the number of ordered machines changes, and the number from then on.

    Machines are ordered `start_hours` before the hour that needs them, and given back at the full hour. Example: two
    machines from 9 to 17 that start in 7 minutes: ordered at 8:53, given back at 17:00.
    """
    lead, cycle = lead_minutes(start_hours), HOUR_MINUTES * len(by_hour)
    times = {(HOUR_MINUTES * hour - early) % cycle for hour in range(len(by_hour)) for early in (0, lead)}
    found = []
    for minute in sorted(times):
        now, before = (ordered_at(by_hour, lead, one) for one in (minute, (minute - 1) % cycle))
        if now != before:
            found.append((minute, now))
    return found


def cron_changes(by_hour: Sequence[int], start_hours: float) -> list[Change]:
    """Return the changes with one line of cron for all that happen at the same minutes of the same weekdays."""
    weekly = len(by_hour) > int(DAY_HOURS)
    hours: dict[tuple[int, int], dict[int, list[int]]] = {}
    for minute, machines in changes(by_hour, start_hours):
        day, of_day = divmod(minute, DAY_MINUTES)
        hour, rest = divmod(of_day, HOUR_MINUTES)
        hours.setdefault((rest, machines), {}).setdefault(day, []).append(hour)
    found = []
    for (rest, machines), by_day in hours.items():
        together: dict[tuple[int, ...], list[int]] = {}
        for day, some in by_day.items():
            together.setdefault(tuple(some), []).append(day)
        for at, days in together.items():
            weekdays = _ranges([day % 7 + 1 for day in days]) if weekly else "*"  # Monday is 1, Sunday 7
            found.append(Change(f"{rest} {','.join(map(str, at))} * * {weekdays}", machines))
    return found


def _ranges(numbers: Sequence[int]) -> str:
    """Return sorted numbers as cron has them: 1-5,7; Sunday is 0, which every cron knows."""
    parts: list[list[int]] = []
    for one in sorted(numbers):
        if parts and one == parts[-1][1] + 1 and one != 7:
            parts[-1][1] = one
        else:
            parts.append([one, one])
    return ",".join(str(first % 7) if first == last else f"{first}-{last}" for first, last in parts)


def autoscaled(loads: Sequence[float], target: float, least: int, most: int) -> list[int]:
    """Return the machines that SkyPilot asks for at each load: load over target, rounded up, within the bounds."""
    return [min(most, max(least, math.ceil(load / target - 1e-9))) for load in loads]
