"""What the jobs of a scenario share over time, as resources, pools and periods of a timetable."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from planner.formulation.timetable.problem import UNITS_PER_USD, Period, Pool, Resource
from planner.records import record
from planner.solving.timetable.calendar import minutes_down, minutes_up

if TYPE_CHECKING:
    from planner.candidates.market import Market
    from planner.scenario.scenario import Scenario

MAX_START_DATES = 4
"""Most dates on which a commitment may begin: the releases of jobs, thinned."""


@record(frozen=True)
class Lot:
    """A reservation that may be bought: machines of an offer for a term."""

    resource: int
    offer: int  # place in the market
    start: int
    end: int


@dataclass
class SharedThings:
    """Resources, pools and periods with their places by what they stand for."""

    resources: list[Resource] = field(default_factory=list)
    pools: list[Pool] = field(default_factory=list)
    periods: list[Period] = field(default_factory=list)
    gpus: int | None = None
    rate: int | None = None  # cents per hour
    budget: int | None = None
    quota: dict[int, int] = field(default_factory=dict)  # provider of the candidate table -> resource
    stock: dict[int, int] = field(default_factory=dict)  # offer -> resource
    hours_left: dict[int, int] = field(default_factory=dict)  # offer -> pool, in machine minutes
    lots: dict[int, list[Lot]] = field(default_factory=dict)  # offer -> its lots

    def add(self, resource: Resource) -> int:
        """Add a resource and return its place."""
        self.resources.append(resource)
        return len(self.resources) - 1

    def add_pool(self, pool: Pool) -> int:
        """Add a pool and return its place."""
        self.pools.append(pool)
        return len(self.pools) - 1


def usd_units(usd: float) -> int:
    """Return dollars in the units of a timetable, rounded to the nearest."""
    return round(usd * UNITS_PER_USD)


def usd_units_up(usd: float) -> int:
    """Return dollars in the units of a timetable, rounded up: a budget is never exceeded by rounding."""
    return math.ceil(usd * UNITS_PER_USD - 1e-6)


def shared_things(scenario: Scenario, market: Market, horizon: int) -> SharedThings:
    """Return what is finite: GPUs, quotas, dollars per hour, stock, lots, budgets, hours that are paid for."""
    limits, found = scenario.limits, SharedThings()
    if limits.budget_usd is not None:
        found.budget = found.add_pool(Pool("limits.budget_usd", math.floor(limits.budget_usd * UNITS_PER_USD)))
    if limits.max_gpus is not None:
        found.gpus = found.add(Resource("limits.max_gpus", limits.max_gpus))
    if limits.max_usd_per_hour is not None:
        found.rate = found.add(Resource("limits.max_usd_per_hour", math.floor(100 * limits.max_usd_per_hour + 1e-6)))
    for place, provider in enumerate(market.providers):
        if provider in limits.quota:
            found.quota[place] = found.add(Resource(f"limits.quota.{provider}", limits.quota[provider]))
    for budget in limits.budgets:
        amount = math.floor(budget.usd * UNITS_PER_USD)
        found.periods += [
            Period(minutes_down(start), minutes_up(end), amount) for start, end in budget.periods(horizon / 60)
        ]
    _add_offers(found, scenario, market, horizon)
    return found


def _add_offers(found: SharedThings, scenario: Scenario, market: Market, horizon: int) -> None:
    """Add what each offer has left: machines, hours that are paid for, reservations."""
    for place, (label, offer) in enumerate(zip(market.labels, market.offers, strict=True)):
        if offer.committed_hours is not None:
            pool = Pool(f"hours left of {label}", minutes_down(offer.committed_hours))
            found.hours_left[place] = found.add_pool(pool)
        if offer.is_reservation:
            _add_lots(found, scenario, market, place, horizon)
        elif offer.stock is not None:
            found.stock[place] = found.add(Resource(f"stock of {label}", offer.stock))


def _add_lots(found: SharedThings, scenario: Scenario, market: Market, place: int, horizon: int) -> None:
    """Add the reservations of an offer: a block at its time, a commitment from the release of any job."""
    offer, label = market.offers[place], market.labels[place]
    machines = sum(job.trials.at_once for job in scenario.jobs) * offer.max_nodes
    count = machines if offer.stock is None else min(offer.stock, machines)
    if offer.block is not None:
        starts = [minutes_up(offer.block.start_hours)]
    else:
        starts = sorted({minutes_up(job.release_hours) for job in scenario.jobs})[:MAX_START_DATES]
        if starts[0] + minutes_down(offer.term_hours) >= horizon:
            starts = starts[:1]  # it outlasts the plan: a later start buys nothing
    price = usd_units(offer.committed_usd)
    uses = () if found.budget is None else ((found.budget, usd_units_up(offer.committed_usd)),)
    for start in starts:
        name = f"{label} from {start / 60:g} h"
        resource = found.add(Resource(name, count, price, group=label, uses=uses, paid_at=start))
        end = start + minutes_down(offer.term_hours)
        found.lots.setdefault(place, []).append(Lot(resource, place, start, end))
