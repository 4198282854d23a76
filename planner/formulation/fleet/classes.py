"""Hours that look alike: with the same load and limits, and the same ones before and after them.

Tuesday at ten and Wednesday at ten differ in nothing that a fleet could use, so that they have one price.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from planner.arrays import Floats, Integers

REACH = 2
"""Hours before and after that are compared: with more of them prices hardly change."""


class HourClasses(NamedTuple):
    """Classes of hours, and the different pairs of an hour's class and the next one's."""

    of_hour: Integers  # (hours,)
    first: Integers  # (pairs,) an hour of each pair
    times: Floats  # (pairs,) how many hours are like it

    @property
    def number(self) -> int:
        """Number of classes."""
        return int(np.max(self.of_hour)) + 1

    @property
    def own(self) -> Integers:
        """Class (pairs,) of the hour."""
        return self.of_hour[self.first]

    @property
    def next(self) -> Integers:
        """Class (pairs,) of the hour after it."""
        return self.of_hour[(self.first + 1) % len(self.of_hour)]


def hour_classes(load: Floats, room: Integers | None = None) -> HourClasses:
    """Return the classes of the hours of a cycle with a load (hours,), and a room (hours,) where hours have several."""
    columns = [load] if room is None else [load, room.astype(float)]
    around = np.stack([np.roll(one, -away) for one in columns for away in range(-REACH, REACH + 1)], axis=1)
    _, of_hour = np.unique(around, axis=0, return_inverse=True)
    of_hour = of_hour.reshape(-1).astype(np.int64)
    pairs = np.stack([of_hour, np.roll(of_hour, -1)], axis=1)
    _, first, times = np.unique(pairs, axis=0, return_index=True, return_counts=True)
    return HourClasses(of_hour, first.astype(np.int64), times.astype(float))
