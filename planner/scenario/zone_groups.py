"""Offers by their labels, and groups of zones: a run that loses its machines moves to another zone.

Zones are those that offers list under `zones`, each at its own spot price; a region that lists none is one zone. They
belong together where everything else of their offers is the same: the instance, the price on demand, the terms and the
date of the price. A group rents the cheapest of them; it costs their mean, because a run stays where it is until its
machines are taken, whatever the price elsewhere becomes.
"""

from __future__ import annotations

import math
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from planner.scenario.limits import Limits
from planner.scenario.offer import Adjust, Offer, apply_adjustments, offer_labels
from planner.scenario.own_machines import Horizon
from planner.scenario.spot_statistics import moves_between_regions

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


MOST_ZONES = 8
"""Zones of a group at most: recorded groups are no larger."""
SIZES = (2, 4, MOST_ZONES)
"""Numbers of zones of a group; where there are fewer, all of them are one."""
APART = {"region", "zones", "spot_usd_per_hour", "notes"}
"""In what the offers of one group may differ."""
_facts = itemgetter(*(name for name in Offer.model_fields if name not in APART))


class _Zone(NamedTuple):
    """One zone, cheaper ones first."""

    usd_per_hour: float
    name: str  # region/zone, or the region alone
    offer: Offer

    @property
    def region(self) -> str:
        return self.name.partition("/")[0]


def limits_read(limits: Limits) -> tuple[object, ...]:
    """Return what offers by zone and in groups depend on of the limits."""
    age = limits.max_price_age_hours, limits.caps_price_age, limits.today
    return limits.regions, limits.spot_zones, limits.spot_share.max <= 0, age


def zone_groups(offers: Iterable[Offer], limits: Limits) -> list[Offer]:
    """Return the groups that the limits allow, as offers; none where a run must stay in its zone."""
    if limits.spot_zones == "same_zone" or limits.spot_share.max <= 0:
        return []
    classes: dict[tuple[object, ...], list[_Zone]] = {}
    for offer in offers:
        if _may_group(offer) and limits.regions.permits(offer.region):
            key = (limits.is_outdated(offer), _facts(offer.__dict__))
            classes.setdefault(key, []).extend(_zones_of(offer, limits))
    found: list[Offer] = []
    for every in classes.values():
        if len(every) == 1:
            continue  # as in most classes
        zones, regions = _each_once(every), dict[str, list[_Zone]]()
        for zone in zones:
            regions.setdefault(zone.region, []).append(zone)
        for several in regions.values():
            found += _groups_of(several)
        if limits.spot_zones == "any" and len(regions) > 1:
            found += [group for group in _groups_of(zones) if len(group.regions) > 1]
    return found


def _each_once(zones: Iterable[_Zone]) -> list[_Zone]:
    """Return the zones in order of price, each at its lowest: two rows of one zone are one market."""
    least: dict[str, _Zone] = {}
    for zone in sorted(zones, key=itemgetter(0, 1)):
        least.setdefault(zone.name, zone)
    return list(least.values())


def single_zone(offer: Offer, limits: Limits) -> Offer:
    """Return the offer of one zone alone, at the spot price that it states.

    What was fitted to several zones together is no market of one: where a run must stay in its zone it is not rented
    on spot.
    """
    update: dict[str, object] = {"zones": ()} if offer.zones else {}
    if limits.spot_zones == "same_zone" and offer.spot is not None and offer.spot.another_zone:
        update |= {"spot_usd_per_hour": None}
    return offer.model_copy(update=update) if update else offer


def zone_prices(offer: Offer) -> dict[str, float]:
    """Return the spot price of each zone that a run on the offer may rent; none where it stays in one zone."""
    if offer.spot is not None and offer.spot.zones:
        return {zone.zone: offer.spot_usd_per_hour or 0.0 for zone in offer.spot.zones}
    return dict(offer.zones)


def undominated_groups(groups: Sequence[Offer], is_doubtful: Sequence[bool], regions_matter: bool = False) -> list[int]:
    """Return the places of the groups that no other replaces: of as many zones, price and moves no higher.

    A group with a doubtful price replaces only others that have one; where `regions_matter`, one of the same regions.
    """
    kept: list[int] = []
    classes: dict[tuple[object, ...], list[tuple[float, float, int, int]]] = {}
    for place, offer in enumerate(groups):
        size = (offer.spot_usd_per_hour or 0.0, moves_between_regions(offer.zones), -len(offer.zones), place)
        where = frozenset(offer.regions) if regions_matter else None
        classes.setdefault((is_doubtful[place], where, _facts(offer.__dict__)), []).append(size)
    for members in classes.values():
        best: list[tuple[float, float, int, int]] = []
        for member in sorted(members):
            if not any(other[1] <= member[1] and other[2] <= member[2] for other in best):
                best.append(member)
        kept += [place for *_, place in best]
    return sorted(kept)


def _may_group(offer: Offer) -> bool:
    """Return whether the offer is sold in zones of its own: machines by the hour, as many as there are."""
    is_plain = offer.tier == "secure" and offer.stock is None and not offer.available
    is_one_zone = offer.spot is None or not offer.spot.another_zone
    return is_plain and is_one_zone and offer.has_spot and offer.usd_per_hour is not None and offer.region != "any"


def _zones_of(offer: Offer, limits: Limits) -> list[_Zone]:
    """Return the permitted zones of an offer that are cheaper than on demand."""
    listed = [(name if "/" in name else f"{offer.region}/{name}", usd) for name, usd in offer.zones]
    each = [_Zone(usd, name, offer) for name, usd in listed or [(offer.region, offer.spot_usd_per_hour or 0.0)]]
    on_demand = offer.usd_per_hour or 0.0
    return [zone for zone in each if zone.usd_per_hour < on_demand and limits.regions.permits(zone.name)]


def _groups_of(zones: Sequence[_Zone]) -> list[Offer]:
    """Return groups of the cheapest zones, in order of price."""
    most = min(len(zones), MOST_ZONES)
    sizes = sorted({min(size, most) for size in SIZES})
    return [_group(zones[:size]) for size in sizes if size > 1]


def _group(zones: Sequence[_Zone]) -> Offer:
    """Return the offer of a group."""
    first = zones[0].offer
    regions = list(dict.fromkeys(zone.region for zone in sorted(zones, key=lambda zone: zone.name)))
    places = "+".join(regions) if len(regions) <= 2 else f"{len(regions)} regions"
    update = {
        "region": f"{len(zones)} zones of {places}" if len(zones) > len(regions) else f"any of {places}",
        "zones": tuple((zone.name, zone.usd_per_hour) for zone in zones),
        "spot_usd_per_hour": math.fsum(zone.usd_per_hour for zone in zones) / len(zones),
        "notes": "",
    }
    return first.model_copy(update=update)


# Every offer of a scenario by its label, made once for offers, prices and limits.


_KEPT = "_labelled_offers"


def labelled_offers(
    kept: dict[str, Any], offers: tuple[Offer, ...], adjust: tuple[Adjust, ...], limits: Limits, horizon: Horizon | None
) -> tuple[tuple[str, Offer], ...]:
    """Return every offer by its label at adjusted prices: each zone alone, then groups of zones.

    Machines to buy are at the prices of the horizon; without one they are for sale only, and left out.
    `kept` holds the last answer. A copy of a scenario carries it along, so what it was made from is compared.
    """
    given = (offers, adjust, limits_read(limits), horizon)
    made_from, made = kept.get(_KEPT, (None, ()))
    if made_from != given:
        prices = apply_adjustments([offer.bought_for(horizon) for offer in offers], adjust)
        every = [*(single_zone(price, limits) for price in prices), *zone_groups(prices, limits)]
        labelled = zip(offer_labels(every), every, strict=True)
        made = tuple((label, offer) for label, offer in labelled if not offer.is_for_sale_only)
        kept[_KEPT] = given, made
    return tuple(made)


def hand_on_labels(kept: dict[str, Any], to: dict[str, Any]) -> None:
    """Give what one scenario keeps to another, which uses it as far as it is made from the same."""
    if _KEPT in kept:
        to.setdefault(_KEPT, kept[_KEPT])
