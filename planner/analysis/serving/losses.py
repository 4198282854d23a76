"""Spot machines of a fleet that are lost: which kinds answer, and how often, in any moment.

A group is there for a share of the time, in stays of a mean length. A machine answers once it has started after the
group came back. Groups are independent of one another.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_STATES = 4096
"""States of a fleet that are distinguished; the rarest of more are left out."""


class SpotKind(NamedTuple):
    """What of a kind decides whether it answers; no group: always."""

    group: str
    availability: float
    mean_up_hours: float
    start_hours: float


class FleetState(NamedTuple):
    """Which kinds answer, and the share of the time that just these do."""

    answers: tuple[bool, ...]
    share: float


def fleet_states(kinds: Sequence[SpotKind]) -> list[FleetState]:
    """Return the states of a fleet, the most frequent first; their shares sum to 1.

    A stay of mean M lasts at least c hours more with exp(-c / M), so that a kind that takes c hours to start answers
    a * exp(-c / M) of the time. Example: a = 0.9, M = 10 h, c = 0.1 h: 89.1 %.
    """
    groups = list(dict.fromkeys(one.group for one in kinds if one.group))
    found = []
    for levels in itertools.product(*(_levels([one for one in kinds if one.group == group]) for group in groups)):
        started = dict(zip(groups, (level for level, _ in levels), strict=True))
        share = math.prod(share for _, share in levels)
        found.append(FleetState(tuple(not k.group or k.start_hours <= started[k.group] for k in kinds), share))
    found.sort(key=lambda one: -one.share)
    kept = found[:MOST_STATES]
    whole = math.fsum(one.share for one in kept)
    return [FleetState(one.answers, one.share / whole) for one in kept if one.share > 0]


def _levels(members: Sequence[SpotKind]) -> list[tuple[float, float]]:
    """Return the hours since a group came back, up to the next that lets a kind answer, with their shares."""
    share, up = min(one.availability for one in members), min(one.mean_up_hours for one in members)
    starts = sorted({one.start_hours for one in members})
    reached = [share * math.exp(-one / up) for one in starts]
    levels = [(-1.0, 1.0 - reached[0])]
    return levels + [
        (start, now - after) for start, now, after in zip(starts, reached, [*reached[1:], 0.0], strict=True)
    ]
