"""How much work several trials of one run are, and how long the longest chain of them takes.

Sources: successive halving, Jamieson and Talwalkar 2016 (arXiv 1502.07943); the sizes of its rungs as in Hyperband,
Li et al. 2018 (arXiv 1603.06560), survivors going on from where they stopped.
All figures are multiples of one run in full: of its hours, of its work, of one load of the network.
"""

from __future__ import annotations

import math
from typing import NamedTuple

_ROUNDING = 1e-9
"""What the logarithm of an exact power may miss its whole number by."""


class Rung(NamedTuple):
    """Trials that are still run, and the share of the full work that each has done at the end of the rung."""

    alive: int
    share: float


class TrialWork(NamedTuple):
    """All trials of a job over one run of it; `(1, 1, 0, 0, 0)` is one run.

    A gang is the set of machines that one trial runs on.
    """

    wall: float  # hours of the longest chain of trials, over the hours of one run
    work: float  # work of all trials, over that of one run
    reloads_wall: float  # loads of the network in the longest chain, beyond that of the start
    reloads: float  # loads over all gangs, beyond one each at their start
    waiting: float  # runs' worth of hours in which a gang is kept idle until its rung is done


def rungs(count: int, halving: float | None = None) -> tuple[Rung, ...]:
    """The rungs of successive halving: `count * halving^-i` trials, rounded down, up to `halving^(i - s)` of the work.

    s = floor(log(count) / log(halving)) times the trials are thinned out; without halving all run in full.
    9 trials at 3: 9 to 1/9 of the work, 3 to 1/3, 1 to the end.
    ValueError for fewer than one trial, and for a halving of 1 or less.
    """
    if count < 1:
        raise ValueError(f"at least one trial, not {count}")
    if halving is None:
        return (Rung(count, 1.0),)
    if halving <= 1:
        raise ValueError(f"halving keeps one trial in more than one, not in {halving}")
    last = math.floor(math.log(count) / math.log(halving) + _ROUNDING)
    return tuple(
        Rung(max(1, math.floor(count / halving**i + _ROUNDING)), float(halving ** (i - last))) for i in range(last + 1)
    )


def node_group_shares(count: int, at_once: int = 1, halving: float | None = None) -> tuple[float, ...]:
    """What each gang is rented for, in runs' worth of hours, the wait for its rung counted in; loads left out.

    They sum to work + waiting of `trial_work`. 4 trials on 2 gangs at 2: one is busy for 2 x 1/4 + 1 x 1/4 + 1/2 = 1.25
    runs, the other, given back when one trial is left, for 2 x 1/4 + 1 x 1/4 = 0.75.
    ValueError as there.
    """
    trial_work(count, at_once, halving)
    ladder = rungs(count, halving)
    busy = [0.0] * at_once
    done = 0.0
    for position, (alive, share) in enumerate(ladder):
        rung_work, done = share - done, share
        following = ladder[position + 1].alive if position + 1 < len(ladder) else 0
        for gang in range(min(at_once, alive)):
            own = alive // at_once + (gang < alive % at_once)
            busy[gang] += (math.ceil(alive / at_once) if gang < following else own) * rung_work
    return tuple(busy)


def trial_work(count: int, at_once: int = 1, halving: float | None = None) -> TrialWork:
    """What `count` trials on `at_once` gangs side by side multiply one run by.

    A rung ends when its last trial ends, so gangs that the next rung needs may wait; the others are given back.
    A survivor is loaded again unless every trial of its rung still lies in the memory of a gang of its own:
    which of them survive is not known beforehand, so this counts the most loads that can be needed.
    ValueError for fewer than one gang, for more gangs than trials, and as `rungs`.
    """
    ladder = rungs(count, halving)
    if not 1 <= at_once <= count:
        raise ValueError(f"1 to {count} trials side by side, not {at_once}")
    wall = work = waiting = 0.0
    reloads_wall, reloads = math.ceil(count / at_once) - 1, count - at_once
    done = 0.0
    for position, (alive, share) in enumerate(ladder):
        rung_work, done = share - done, share
        rounds = math.ceil(alive / at_once)
        wall += rounds * rung_work
        work += alive * rung_work
        if position > 0 and ladder[position - 1].alive > at_once:
            reloads_wall += rounds
            reloads += alive
        following = ladder[position + 1].alive if position + 1 < len(ladder) else 0
        # Gangs beyond the remainder run one trial less than the busiest.
        busiest = alive % at_once or at_once
        waiting += max(0, min(at_once, following) - busiest) * rung_work
    return TrialWork(wall, work, float(reloads_wall), float(reloads), waiting)
