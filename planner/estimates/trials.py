"""The work of several trials of one run, and the hours of the longest chain of them.

Sources: successive halving, Jamieson and Talwalkar 2016 (arXiv 1502.07943); the sizes of its rungs as in Hyperband,
Li et al. 2018 (arXiv 1603.06560), survivors going on from where they stopped.
All figures are multiples of one run in full: of its hours, of its work, of one load of the network.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

_ROUNDING = 1e-9
"""Error of the logarithm of an exact power."""


class Rung(NamedTuple):
    """Trials that are still run, and the share of the full work that each has done at the end of the rung."""

    alive: int
    share: float


class TrialWork(NamedTuple):
    """All trials of a job over one run of it; `(1, 1, 0, 0, 0)` is one run.

    A node group is the set of machines that one trial runs on.
    """

    wall: float  # hours of the longest chain of trials, over the hours of one run
    work: float  # work of all trials, over that of one run
    reloads_wall: float  # loads of the network in the longest chain, beyond that of the start
    reloads: float  # loads over all node groups, beyond one each at their start
    waiting: float  # runs' worth of hours in which a node group is idle until its rung is done


def rungs(count: int, halving: float | None = None) -> tuple[Rung, ...]:
    """Return the rungs of successive halving; without halving all trials run in full.

    Rung i has `count * halving^-i` trials, rounded down, up to `halving^(i - s)` of the work, with s =
    floor(log(count) / log(halving)).
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


def _rung_works(ladder: tuple[Rung, ...]) -> Iterator[tuple[int, float, int]]:
    """Yield of each rung its trials, the work that each of them adds, and the trials of the next rung."""
    done = 0.0
    for (alive, share), following in zip(ladder, [*(rung.alive for rung in ladder[1:]), 0], strict=True):
        yield alive, share - done, following
        done = share


def node_group_shares(count: int, at_once: int = 1, halving: float | None = None) -> tuple[float, ...]:
    """Return for how many runs' worth of hours each node group is rented, waiting included, loads excluded.

    They sum to work + waiting of `trial_work`. 4 trials on 2 groups at 2: one is busy for 2 x 1/4 + 1 x 1/4 + 1/2 =
    1.25 runs, the other, released when one trial is left, for 2 x 1/4 + 1 x 1/4 = 0.75.
    ValueError as there.
    """
    trial_work(count, at_once, halving)
    ladder = rungs(count, halving)
    busy = [0.0] * at_once
    for alive, rung_work, following in _rung_works(ladder):
        for group in range(min(at_once, alive)):
            own = alive // at_once + (group < alive % at_once)
            busy[group] += (math.ceil(alive / at_once) if group < following else own) * rung_work
    return tuple(busy)


def trial_work(count: int, at_once: int = 1, halving: float | None = None) -> TrialWork:
    """Return the factors of `count` trials on `at_once` parallel node groups over one run.

    A rung ends when its last trial ends, so groups that the next rung needs may wait; the others are released.
    A survivor is loaded again unless every trial of its rung is still in the memory of a group of its own:
    which trials survive is not known beforehand, so this counts the most loads that can be needed.
    ValueError for fewer than one group, for more groups than trials, and as `rungs`.
    """
    ladder = rungs(count, halving)
    if not 1 <= at_once <= count:
        raise ValueError(f"1 to {count} trials side by side, not {at_once}")
    wall = work = waiting = 0.0
    reloads_wall, reloads = math.ceil(count / at_once) - 1, count - at_once
    for alive, rung_work, following in _rung_works(ladder):
        wall += math.ceil(alive / at_once) * rung_work
        work += alive * rung_work
        if alive > at_once:
            reloads_wall += math.ceil(following / at_once)
            reloads += following
        # Groups beyond the remainder run one trial less than the busiest.
        busiest = alive % at_once or at_once
        waiting += max(0, min(at_once, following) - busiest) * rung_work
    return TrialWork(wall, work, float(reloads_wall), float(reloads), waiting)
