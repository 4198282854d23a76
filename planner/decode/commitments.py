"""From how many hours of use on a commitment pays, against equal machines by the hour."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.estimates.billing import break_even_hours
from planner.evaluation.run_context import hourly_price

if TYPE_CHECKING:
    from planner.candidates.market import Market
    from planner.scenario.offer import Offer


def describe_break_even(market: Market, offer: Offer, machines: float) -> str:
    """Return the use above which a commitment costs less than equal machines by the hour, such as `pays from 365 h`.

    Empty without a commitment, and where no offer has equal machines by the hour.
    """
    hours = pays_from_hours(market, offer, machines) if offer.commitment is not None else None
    if hours is None:
        return ""
    return f"pays from {hours:,.0f} h of use" if hours <= offer.term_hours * machines else "never pays in its term"


def pays_from_hours(market: Market, offer: Offer, machines: float) -> float | None:
    """Return the machine hours of use from which on a commitment pays; None without equal machines by the hour."""
    price = hourly_price(offer, market.offers)
    return float(break_even_hours(offer.committed_usd * machines, price)) if price else None
