"""What several services take of shared limits in each hour, in plain sums: stock, quotas, GPUs, dollars per hour.

Services count in all hours of the week, even where one ends or begins earlier than another.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

from planner.evaluation.comparison import Violation, at_most

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planner.evaluation.comparison import Broken
    from planner.results.fleet import FleetKind, Service
    from planner.results.plan import Plan
    from planner.scenario.offer import Offer
    from planner.scenario.scenario import Scenario


def shared_hours(plan: Plan, scenario: Scenario) -> list[Violation]:
    """Return the limits that the services of a plan break together in an hour; those of one alone are its own."""
    offers = dict(scenario.labelled_offers())
    if len(plan.services) < 2 or not all(_is_sound(one, offers) for one in plan.services):
        return []
    hours = math.lcm(*(len(service.fleet.load) for service in plan.services))
    found: list[Violation] = []
    for hour in range(hours):
        machines = [
            (kind, kind.by_hour[hour % len(service.fleet.load)])
            for service in plan.services
            for kind in service.fleet.kinds
        ]
        found += [Violation("", *broken) for broken in _hour(f"services.hour {hour}", machines, scenario, offers)]
    return found


def _is_sound(service: Service, offers: dict[str, Offer]) -> bool:
    """Return whether each kind has an offer and all hours: where not, the service has a fault of its own."""
    hours = len(service.fleet.load)
    return hours > 0 and all(one.offer in offers and len(one.by_hour) == hours for one in service.fleet.kinds)


def _hour(
    place: str, machines: list[tuple[FleetKind, int]], scenario: Scenario, offers: dict[str, Offer]
) -> Iterator[Broken]:
    """Yield the limits that the machines of all services break in an hour."""
    limits, by_provider, by_offer = scenario.limits, Counter[str](), Counter[str]()
    for kind, count in machines:
        by_offer[kind.offer] += count
        by_provider[offers[kind.offer].provider] += count * offers[kind.offer].gpus
    usd = math.fsum(kind.usd_per_hour * count for kind, count in machines)
    yield from at_most(f"{place}: usd_per_hour", limits.max_usd_per_hour, usd, 1e-6 * usd)
    yield from at_most(f"{place}: gpus", limits.max_gpus, by_provider.total())
    for provider, most in limits.quota.items():
        yield from at_most(f"{place}: quota of {provider}", most, by_provider[provider])
    for label, count in sorted(by_offer.items()):
        yield from at_most(f"{place}: stock of {label}", offers[label].stock, count)
