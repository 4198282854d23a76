"""The prices that the price book has of the machines of a plan, day by day."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.loading.price_book import read_last_days
from planner.results.overview import PriceDay, PriceHistory
from planner.results.serving.fleet import FleetKind

if TYPE_CHECKING:
    from planner.results.plan import Assignment, Plan
    from planner.scenario.offer import Offer
    from planner.scenario.scenario import Scenario

MAX_DAYS = 60
"""Most days of one machine, the newest ones."""


def price_series(scenario: Scenario, plan: Plan) -> tuple[PriceHistory, ...]:
    """Return the stored prices of every offer that the plan rents; nothing of offers that the book does not have.

    An offer that a service rents on spot too has one history with both prices. Raises `InputError` where the book is
    damaged.
    """
    found: dict[str, PriceHistory] = {}
    rented: list[Assignment | FleetKind] = [*plan.jobs, *(kind for one in plan.services for kind in one.fleet.kinds)]
    for one in rented:
        offer = next((offer for offer in scenario.offers if _is_of(offer, one)), None)
        if offer is not None and offer.rents_gpus and one.offer not in found:
            days = _days(offer)
            if days:
                found[one.offer] = PriceHistory(offer=one.offer, days=days)
    return tuple(found.values())


def _is_of(offer: Offer, rented: Assignment | FleetKind) -> bool:
    """Return whether an offer is what a job, or a kind of machines of a service, rents."""
    gpus = rented.gpus if isinstance(rented, FleetKind) else rented.gpus_per_instance
    same = (offer.provider, offer.region, offer.instance, offer.gpu, offer.gpus)
    return same == (rented.provider, rented.region, rented.instance, rented.gpu, gpus)


def _days(offer: Offer) -> tuple[PriceDay, ...]:
    """Return the prices of an offer on each stored day, the oldest first."""
    days = []
    for day, offers in read_last_days(offer.provider, MAX_DAYS):
        same = [one for one in offers if _machine(one) == _machine(offer)]
        if same:
            prices = {"usd_per_hour": same[0].usd_per_hour, "spot_usd_per_hour": same[0].spot_usd_per_hour}
            days.append(PriceDay(date=day, **prices))
    return tuple(days)


def _machine(offer: Offer) -> tuple[object, ...]:
    """Return what stays the same of a machine from day to day."""
    return offer.provider, offer.region, offer.instance, offer.gpu, offer.gpus, offer.community
