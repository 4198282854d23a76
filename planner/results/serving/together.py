"""A plan of jobs and a service taken apart: the jobs alone, as their own plan would say it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from planner.results.plan_parts import Hours, Spread

if TYPE_CHECKING:
    from planner.results.plan import Plan

SHARING = "services share "
"""How the warning begins that says which limits hold services together."""
_ROUNDING = 1e-6
"""Gap that is none: what is left of sums of dollars that were added and taken off again."""


def services_usd(plan: Plan) -> float:
    """Return the dollars of the services of a plan."""
    return math.fsum(one.cost_usd for one in plan.services)


def services_bound_usd(plan: Plan) -> float:
    """Return the dollars below which the services of a plan cost no less together."""
    if plan.shared_bound_usd is not None:
        return plan.shared_bound_usd
    return math.fsum(one.bound_usd for one in plan.services)


def sharing_of(plan: Plan) -> tuple[str, ...]:
    """Return what services of a plan share, and how they were planned for it; empty where each is planned alone."""
    return tuple(one for one in plan.warnings if one.startswith(SHARING))


def jobs_alone(plan: Plan) -> Plan:
    """Return a plan without its services: dollars, bound and budget less theirs, hours until the last job ends."""
    usd, least = services_usd(plan), services_bound_usd(plan)
    objective = None if plan.objective is None else plan.objective - usd
    bound = None if plan.bound is None else plan.bound - least
    gap = None if objective is None or bound is None else max(0.0, objective - bound) / max(abs(objective), 1e-9)
    cost, late = plan.cost_usd, plan.cost_at_confidence
    hours = {name: max(job.delay_hours + getattr(job.hours, name) for job in plan.jobs) for name in Hours.model_fields}
    ages = [job.price_age_days for job in plan.jobs if job.price_age_days is not None]
    return plan.model_copy(
        update={
            "services": (),
            "shared_bound_usd": None,
            "warnings": tuple(one for one in plan.warnings if not one.startswith(SHARING)),
            "status": "optimal" if gap is not None and gap <= _ROUNDING else plan.status,
            "objective": objective,
            "bound": bound,
            "gap": gap,
            "cost_usd": None if cost is None else Spread(**{name: each - usd for name, each in dict(cost).items()}),
            "cost_at_confidence": None if late is None else late - usd,
            "least_cost_usd": None if plan.least_cost_usd is None else plan.least_cost_usd - usd,
            "budget_usd": None if plan.budget_usd is None else plan.budget_usd - usd,
            "hours": Hours(**hours),
            "price_age_days": max(ages, default=None),
        }
    )
