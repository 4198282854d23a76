"""Which zone of a group a run takes: the one with the longest expected rest of its up-time per dollar."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from planner.records import record
from planner.spot.market.states import Ages
from planner.spot.market.zones import expected_rest
from planner.units import HOUR, MINUTE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from planner.scenario.offer import Offer
    from planner.spot.market.states import SpotStates


@record(frozen=True)
class ZoneStay:
    """One zone: its price, and how long machines stay in it by the age of its up-time."""

    zone: str
    usd_per_hour: float  # of an instance
    ages_hours: tuple[float, ...]
    ends_per_hour: tuple[float, ...]

    def rest_per_usd(self, up_hours: float) -> float:
        """Return the expected hours of a day that the zone stays up after `up_hours`, over the dollars of an hour."""
        rest = float(expected_rest(Ages(self.ages_hours, self.ends_per_hour), np.array([up_hours]))[0])
        return rest / max(self.usd_per_hour, 1e-9)


def zones_to_rent(offer: Offer, states: SpotStates) -> tuple[ZoneStay, ...]:
    """Return the zones of an offer: at their own prices and alike in stays, or with the stays that were fitted."""
    if offer.spot is not None and offer.spot.zones:
        price = offer.spot_usd_per_hour or 0.0
        return tuple(ZoneStay(one.zone, price, one.ages_hours, one.ends_per_hour) for one in offer.spot.zones)
    return tuple(ZoneStay(name, usd, states.up.begins, states.up.rates) for name, usd in offer.zones)


def zone_rows(zones: Sequence[ZoneStay]) -> list[dict[str, Any]]:
    """Return zones as data that JSON can hold."""
    return [asdict(one) for one in zones]


def best_zone(rows: Sequence[Mapping[str, Any]], up_minutes: Mapping[str, float | None]) -> tuple[str, float] | None:
    """Return the zone to take and the minutes for which it has been up; None where none is up.

    `rows`: the zones of a policy table. `up_minutes`: of each zone that was asked, None where it has no machines.
    ValueError for a zone that the table does not have.

    Two zones at one price and with rates that fall with age: the one that has been up for longer.
    """
    known = {str(row["zone"]): row for row in rows}
    if unknown := [name for name in up_minutes if name not in known]:
        raise ValueError(f"{unknown[0]} is not a zone of this policy: {', '.join(known) or 'it has none'}")
    worth = {}
    for name, minutes in up_minutes.items():
        if minutes is not None:
            row = known[name]
            stay = ZoneStay(name, row["usd_per_hour"], tuple(row["ages_hours"]), tuple(row["ends_per_hour"]))
            worth[name] = stay.rest_per_usd(minutes * MINUTE / HOUR)
    if not worth:
        return None
    best = max(worth, key=lambda name: worth[name])
    return best, float(up_minutes[best] or 0.0)
