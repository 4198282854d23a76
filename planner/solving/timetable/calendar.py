"""Hours as whole minutes, windows of machines, and how far ahead a timetable looks."""

from __future__ import annotations

import math
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.scenario.schedule import Window

MAX_WINDOWS_OF_OFFER = 200
"""Most windows of one offer that are looked at: a machine by night is open this often in half a year."""


def minutes_up(hours: float) -> int:
    """Return hours as minutes, rounded up: a run is never given less time than it needs."""
    return math.ceil(hours * 60 - 1e-6)


def minutes_down(hours: float) -> int:
    """Return hours as minutes, rounded down: a deadline is never moved back."""
    return math.floor(hours * 60 + 1e-6)


def open_times(windows: Sequence[Window], horizon: int) -> list[tuple[int, int]]:
    """Return when a machine may be used, in minutes up to the horizon; adjoining windows are one."""
    times = [
        (max(0, minutes_up(start)), min(horizon, minutes_down(end)))
        for window in windows
        for start, end in islice(window.turns(horizon / 60), MAX_WINDOWS_OF_OFFER + 1)
    ]
    merged: list[tuple[int, int]] = []
    for first, last in sorted(one for one in times if one[0] < one[1]):
        if merged and first <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return merged[:MAX_WINDOWS_OF_OFFER]
