"""Load, use, replicas and those on spot by the hour, as a strip of characters."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from planner.report import format as words
from planner.report.format import line_room

if TYPE_CHECKING:
    from planner.results.fleet import Fleet

_DAY = 24
DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
LEVELS = ".123456789#"
"""Use of a fleet in tenths; # is full."""


def strip(fleet: Fleet) -> list[str]:
    """Return load, replicas and use by the hour: a character for each hour, equal days once.

    Where some replicas are on spot and others are not, there is a row of each in place of that of all.
    """
    hours = len(fleet.load)
    spot = _replicas(fleet, on_spot=True)
    firm = _replicas(fleet, on_spot=False)
    most = max(fleet.load, default=0.0)
    rows: list[tuple[list[int], tuple[str, ...]]] = []
    names = ("load", "use ", "reps", "spot") if any(spot) and any(firm) else ("load", "use ", "reps")
    for day in range(hours // _DAY):
        span = slice(day * _DAY, (day + 1) * _DAY)
        load = "".join(_level(one / most if most else 0.0) for one in fleet.load[span])
        use = "".join(_level(one) for one in fleet.use_by_hour[span])
        drawn = (load, use, _digits(fleet.replicas_by_hour[span]), _digits(spot[span]))[: len(names)]
        if rows and rows[-1][1] == drawn:
            rows[-1][0].append(day)
        else:
            rows.append(([day], drawn))
    lines = [" " * 13 + "0     6     12    18"] if hours else []
    for days, drawn in rows:
        label = _days(days, hours // _DAY)
        for name, text in zip(names, drawn, strict=True):
            lines.append(f"{label:<8}{name} {text}")
            label = ""
    full = max(fleet.use_by_hour, default=0.0)
    lines.append(f"load in tenths of the peak, use of the capacity in tenths; reps: replicas{_markets(spot, firm)}")
    lines.append(f"mean use {words.percent(fleet.use)}, at most {words.percent(full)}")
    starts = "1 start" if fleet.starts == 1 else f"{fleet.starts:,} starts"
    lines[-1] += f"; {starts} a {'day' if hours == _DAY else 'week'}, {words.usd(fleet.start_usd)}"
    return _wrapped(lines)


def _wrapped(lines: list[str]) -> list[str]:
    """Return the lines; only the sentences below the strip are as long as to be wrapped."""
    return [
        part
        for line in lines
        for part in ([line] if len(line) <= line_room() else words.wrap_lines(line, line_room(), 2))
    ]


def _replicas(fleet: Fleet, on_spot: bool) -> tuple[int, ...]:
    """Return the replicas of each hour that are on spot, or that are not."""
    kinds = [kind for kind in fleet.kinds if (kind.market == "spot") == on_spot]
    return tuple(sum(kind.replicas * kind.by_hour[hour] for kind in kinds) for hour in range(len(fleet.load)))


def _markets(spot: tuple[int, ...], firm: tuple[int, ...]) -> str:
    """Return which replicas are on spot."""
    if any(spot) and any(firm):
        return ", spot: those on spot, the others on demand or committed"
    return ", all on spot" if any(spot) else ", none on spot"


def _level(share: float) -> str:
    return LEVELS[min(10, max(0, math.ceil(share * 10.0 - 1e-9)))]


def _digits(counts: tuple[int, ...]) -> str:
    """Return a character for each count: a digit, a letter from 10 on, + from 36 on."""
    return "".join(str(one) if one < 10 else chr(ord("a") + one - 10) if one < 36 else "+" for one in counts)


def _days(days: list[int], count: int) -> str:
    if count == 1:
        return "daily"
    return DAYS[days[0]] if len(days) == 1 else f"{DAYS[days[0]]}-{DAYS[days[-1]]}"
