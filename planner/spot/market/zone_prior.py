"""The market of several zones of which nothing is known but that of one: how often any of them has machines.

Zones fail together, so m of them are worth fewer independent ones, m^0.7: any is up for 1 - (1 - a)^(m^0.7) of the
time where one is up for a. Of nine recorded V100 zones (a = 0.64) groups of two, four and eight were up 0.82, 0.95 and
0.99 of the time; the formula gives 0.81, 0.93 and 0.99.
"""

from __future__ import annotations

import math

from planner.spot.market.states import Ages, SpotStates

MOST_INSTANT = 0.999
"""Largest chance of another zone: an outage of all zones is possible."""


def any_zone_availability(share: float, zones: int, exponent: float) -> float:
    """Return the share of time at which any of `zones` is up, each for `share` of it: 1 - (1 - a)^(m^e).

    0.6 and four zones at e = 0.7: 1 - 0.4^2.64 = 0.911.
    """
    return float(1.0 - (1.0 - share) ** (zones**exponent))


def states_of_zones(alone: SpotStates, zones: int, exponent: float) -> SpotStates:
    """Return the market of a run that moves among `zones`, each of which is like `alone`.

    With k = m^e the others are as k - 1 zones: at a loss another is up with chance p = 1 - (1 - a)^(k - 1). An outage
    of all lasts D a / A, so that the market is up for A, the share of `any_zone_availability`:
    A = U / (U + (1 - p) D a / A).
    Up 3 h, down 2 h, four zones: p = 0.777, outages of 2 * 0.6 / 0.911 = 1.317 h, and 3 / (3 + 0.223 * 1.317) = 0.911.
    """
    share = alone.availability()
    if zones == 1 or not math.isfinite(alone.up.mean()):
        return alone
    shorter = share / any_zone_availability(share, zones, exponent)
    another = min(float(1.0 - (1.0 - share) ** (zones**exponent - 1.0)), MOST_INSTANT)
    down = Ages(
        tuple(begin * shorter for begin in alone.down.begins), tuple(rate / shorter for rate in alone.down.rates)
    )
    return SpotStates(alone.up, down, another)
