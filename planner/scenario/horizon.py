"""Whether a scenario says how long machines that it may buy will be used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner.documents.quantities import validation_error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.scenario.offer import Offer
    from planner.scenario.own_machines import Horizon


def check_horizon(horizon: Horizon | None, offers: Sequence[Offer], inline: Sequence[Offer]) -> None:
    """Raise a fault for a horizon without machines to buy, and for machines to buy without a horizon.

    Those of an inventory file may stay without one: a plan then says from how many hours of use they pay.
    """
    to_buy = [offer.buy is not None for offer in offers]
    if horizon is not None and not any(to_buy):
        fix = "add inventory: [market, purchase], or offers with buy; or leave it out"
        raise validation_error("a horizon and nothing to buy", fix, "horizon")
    if horizon is None and (all(to_buy) or any(offer.buy is not None for offer in inline)):
        fix = "add horizon: {months: 36, hours_per_month: 200}, how long and how much it will be used"
        raise validation_error("a purchase without a horizon", fix, "offers" if inline else "inventory")


def with_offers(data: dict[str, Any], offers: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the data of a scenario with some of its offers in it, so that purchases and horizon still agree.

    Without a horizon machines to buy are left out, and without such machines the horizon.
    """
    kept = [offer for offer in offers if data.get("horizon") is not None or offer.get("buy") is None]
    if not any(offer.get("buy") for offer in kept):
        data = {key: value for key, value in data.items() if key != "horizon"}
    return {**data, "offers": kept}
