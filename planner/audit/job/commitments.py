"""Audit of ways to pay: what a commitment costs and when it pays, its term, hours that are paid for already."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from planner.audit.job.context import AuditContext, Tolerance, Violation, check_at_most, check_close, check_equal
from planner.scenario.scenario import Scenario, offer_labels
from planner.units import MONTH_HOURS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.audit.job.hours import RecomputedHours
    from planner.audit.job.stages import JobStages
    from planner.results.plan import Plan


def machine_hours_at_confidence(ground: AuditContext, hours: RecomputedHours, course: JobStages) -> float:
    """Hours of all instances of all gangs at the asked confidence, on demand."""
    run = hours.late_on_demand / course.run * course.all_groups_hours
    return (hours.late_outside_run * ground.job.trials.at_once + run) * ground.plan.instances


def check_commitment(ground: AuditContext, course: JobStages, tolerance: Tolerance) -> list[Violation]:
    """Dollars, use, term and break-even of the commitment that the plan takes; nothing where it takes none."""
    told, commitment, name = ground.plan.commitment, ground.offer.commitment, ground.plan.name
    if commitment is None or told is None:
        return check_equal(name, "commitment", commitment is not None, told is not None)
    node_groups, n = ground.job.trials.at_once, ground.plan.instances
    term = commitment.months * MONTH_HOURS
    due = (commitment.upfront_usd + (ground.offer.usd_per_hour or 0.0) * term) * n * node_groups
    price = _hourly_equivalent_usd(ground)
    found = check_equal(name, "commitment.months", commitment.months, told.months)
    found += check_close(name, "commitment.usd", due, told.usd, absolute=tolerance.usd)
    for what, wanted, said in (
        ("used_hours", (course.outside_run_hours * node_groups + course.all_groups_hours) * n, told.used_hours),
        ("term_hours", term * n * node_groups, told.term_hours),
        ("on_demand_usd_per_hour", price, told.on_demand_usd_per_hour),
        ("break_even_hours", due / price if price else None, told.break_even_hours),
        ("break_even_share", due / price / (term * n * node_groups) if price else None, told.break_even_share),
    ):
        if wanted is None:
            found += check_equal(name, f"commitment.{what}", None, said)
        else:
            found += check_close(name, f"commitment.{what}", wanted, said, tolerance.hours)
    return found


def _hourly_equivalent_usd(ground: AuditContext) -> float | None:
    """Least price by the hour of as many of the same card in one machine, of the same provider if it has one."""
    mine = ground.offer
    alike = [
        (offer.provider != mine.provider, offer.usd_per_hour)
        for offer in ground.offers.values()
        if (offer.gpu, offer.gpus) == (mine.gpu, mine.gpus) and offer.usd_per_hour
        if (offer.commitment, offer.committed_hours, offer.own) == (None, None, None)
    ]
    return min(alike)[1] if alike else None


def check_commitment_term(ground: AuditContext, hours: RecomputedHours, tolerance: Tolerance) -> list[Violation]:
    """At the asked confidence the job ends before its commitment does."""
    commitment = ground.offer.commitment
    if commitment is None:
        return []
    term = commitment.months * MONTH_HOURS
    needed = hours.late_outside_run + hours.late_on_demand
    return check_at_most(ground.plan.name, "term of the commitment", term, needed, tolerance.hours * term)


def check_committed_hours(
    plan: Plan, scenario: Scenario, machine_hours: Sequence[float], tolerance: Tolerance
) -> list[Violation]:
    """Hours that are paid for already and left: all jobs on an offer together; `machine_hours` per job of the plan."""
    if all(offer.committed_hours is None for offer in scenario.offers):
        return []
    used: dict[str, float] = defaultdict(float)
    for job, hours in zip(plan.jobs, machine_hours, strict=True):
        used[job.offer] += hours
    found: list[Violation] = []
    for label, offer in zip(offer_labels(scenario.offers), scenario.offers, strict=True):
        left = offer.committed_hours
        slack = tolerance.hours * (left or 0.0)
        found += check_at_most("", f"hours left of {label}", left, used.get(label, 0.0), slack)
    return found
