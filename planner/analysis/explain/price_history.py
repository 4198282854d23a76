"""What the plan would have cost at the prices that the price book has of a week and of a month ago."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

from planner.errors import InputError
from planner.loading.price_book import read_earlier_day
from planner.results.explanation import PastCost
from planner.solving.prepare import prepare
from planner.solving.resolve import ResolvedPlan, try_solve

if TYPE_CHECKING:
    from planner.scenario.offer import Offer

SPANS_DAYS = (7, 30)
"""How long ago; prices of a day up to twice as long ago count, and the answer names their day."""


def past_costs(plan: ResolvedPlan, today: datetime.date) -> tuple[PastCost, ...]:
    """Return what the best plan on the same machines would have cost then, without the budget.

    Nothing of a day on which the book lacks the price of one of the machines.
    """
    places = [int(one.table.offer[row]) for one, row in zip(plan.prepared.candidates, plan.rows, strict=True)]
    offers = [plan.prepared.market.offers[place] for place in dict.fromkeys(places)]
    if plan.prepared.scenario.adjust or not all(offer.rents_gpus for offer in offers):
        return ()
    found = []
    for days in SPANS_DAYS:
        then = [_earlier(offer, today - datetime.timedelta(days), days) for offer in offers]
        known = [one for one in then if one is not None]
        if len(known) == len(then):
            cost = _cost_with(plan, tuple(offer for _, offer in known))
            if cost is not None:
                found.append(PastCost(days_ago=days, date=min(day for day, _ in known), cost_usd=cost))
    return tuple(found)


def _earlier(offer: Offer, day: datetime.date, span_days: int) -> tuple[datetime.date, Offer] | None:
    """Return the day of the newest prices up to `day`, and the offer at them; None where the book has none."""
    try:
        stored = read_earlier_day(offer.provider, day, day - datetime.timedelta(span_days))
    except InputError:  # a damaged book is told where it is planned with
        return None
    if stored is None:
        return None
    same = [one for one in stored[1] if _machine(one) == _machine(offer)]
    if not same:
        return None
    prices = {"usd_per_hour": same[0].usd_per_hour, "spot_usd_per_hour": same[0].spot_usd_per_hour}
    return stored[0], offer.model_copy(update=prices)


def _machine(offer: Offer) -> tuple[object, ...]:
    return offer.provider, offer.region, offer.instance, offer.gpu, offer.gpus, offer.community


def _cost_with(plan: ResolvedPlan, offers: tuple[Offer, ...]) -> float | None:
    """Return the dollars of the best plan with these offers and no other rented GPUs; None without one."""
    scenario = plan.prepared.scenario
    others = tuple(one for one in scenario.offers if not one.rents_gpus and one.managed is None)
    limits = scenario.limits.model_copy(update={"budget_usd": None})
    then = scenario.model_copy(update={"offers": (*offers, *others), "limits": limits})
    solved = try_solve(prepare(then, plan.prepared.library))
    return None if solved is None else solved.cost_usd
