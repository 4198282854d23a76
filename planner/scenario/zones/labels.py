"""Every offer of a scenario by its label, made once for offers, prices and limits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner.scenario.offer import offer_labels
from planner.scenario.price_adjustment import apply_adjustments
from planner.scenario.zones.groups import limits_read, single_zone, zone_groups

if TYPE_CHECKING:
    from planner.scenario.limits import Limits
    from planner.scenario.offer import Offer
    from planner.scenario.ownership.machines import Horizon
    from planner.scenario.price_adjustment import Adjust

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
        prices = apply_adjustments([one.bought_for(horizon) for one in offers], adjust)
        every = [*(single_zone(one, limits) for one in prices), *zone_groups(prices, limits)]
        labelled = zip(offer_labels(every), every, strict=True)
        made = tuple((label, one) for label, one in labelled if not one.is_for_sale_only)
        kept[_KEPT] = given, made
    return tuple(made)


def hand_on_labels(kept: dict[str, Any], to: dict[str, Any]) -> None:
    """Give what one scenario keeps to another, which uses it as far as it is made from the same."""
    if _KEPT in kept:
        to.setdefault(_KEPT, kept[_KEPT])
