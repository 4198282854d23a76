"""Independent check of a plan: everything it says of its jobs, recomputed from scenario and library alone.

Plain arithmetic on one configuration at a time; nothing of how the plan was found is known here.
Not recomputed is what a plan says of other ways than its own: the ladder of methods, runners-up, limits that bind,
notes, and the explanation of a question without a plan. Nothing in the plan hangs on them.
"""

from __future__ import annotations

import datetime
import math
from typing import TYPE_CHECKING

from planner.audit.job.bill import check_bill, check_cost, recompute_bill
from planner.audit.job.commitments import (
    check_commitment,
    check_commitment_term,
    check_committed_hours,
    machine_hours_at_confidence,
)
from planner.audit.job.configuration import (
    check_allow_lists,
    check_batch,
    check_gpu_counts,
    check_names,
    check_offer,
    check_price_date,
    check_spot_share,
    check_techniques,
)
from planner.audit.job.context import (
    AuditContext,
    Tolerance,
    Violation,
    check_equal,
    resolve_assignment,
    resolve_context,
)
from planner.audit.job.hours import (
    check_deadline_probability,
    check_hour_limits,
    check_hours,
    check_spot_end,
    recompute_hours,
)
from planner.audit.job.managed_service import check_service
from planner.audit.job.observations import check_observations
from planner.audit.job.physics import check_memory, check_memory_fit, check_speed, recompute_physics, recompute_workload
from planner.audit.job.spot import check_spot, recompute_policy_run
from planner.audit.job.stage_placement import check_separate_stages, recompute_separate_stages
from planner.audit.job.stages import check_stages, recompute_stages
from planner.audit.job.totals import (
    check_budget,
    check_jobs,
    check_objective,
    check_shared_limits,
    check_status,
    check_totals,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from planner.library.schema import Library
    from planner.results.plan import Assignment, Plan
    from planner.scenario.scenario import Scenario

__all__ = ["Tolerance", "Violation", "audit"]

NAMED_CHECKS: Sequence[Callable[[AuditContext], list[Violation]]] = (
    check_names,
    check_gpu_counts,
    check_batch,
    check_techniques,
    check_spot_share,
)
"""Checks of names and whole numbers; figures are recomputed only where these leave something to compute."""


def audit(
    plan: Plan, scenario: Scenario, library: Library, tolerance: Tolerance | None = None, asked_gap: float = 0.0
) -> list[Violation]:
    """Every disagreement between the plan and what follows from scenario and library; empty for a sound plan.

    Other ways that the plan names (`ladder`, `runner_up`, `binding`) and its notes are left out.
    `asked_gap` is the relative gap at which the solver was allowed to stop.
    """
    tolerance = tolerance or Tolerance()
    found = check_equal("", "scenario", scenario.name, plan.scenario)
    found += check_status(plan, max(asked_gap, tolerance.gap))
    if plan.status in ("infeasible", "no_plan"):
        return found
    found += check_jobs(plan, scenario)
    machine_hours = []
    for assignment in plan.jobs:
        faults, used = _audit_job(assignment, plan, scenario, library, tolerance)
        found += faults
        machine_hours.append(used)
    found += check_shared_limits(plan, scenario)
    found += check_committed_hours(plan, scenario, machine_hours, tolerance)
    found += check_totals(plan, tolerance)
    found += check_budget(plan, scenario, tolerance)
    found += check_objective(plan, scenario, tolerance)
    return found


def _audit_job(
    assignment: Assignment, plan: Plan, scenario: Scenario, library: Library, tolerance: Tolerance
) -> tuple[list[Violation], float]:
    """All checks of one job, and its machine hours at its confidence.

    A plan of nonsense counts or degrees gets no further than those.
    """
    footing, found = resolve_assignment(assignment, scenario, library)
    if footing is None:
        return found, 0.0
    found += [*check_offer(footing), *check_allow_lists(footing)]
    try:
        found += check_price_date(footing, datetime.date.fromisoformat(plan.as_of))
        if footing.offer.managed is not None:
            return [*found, *check_service(footing, footing.offer.managed, tolerance)], 0.0
        ground = resolve_context(footing)
        for check in NAMED_CHECKS:
            found += check(ground)
        worth = None if scenario.objective_kind == "time" else scenario.value_of_time_usd_per_hour
        faults, machine_hours = _audit_figures(ground, worth, tolerance)
        return [*found, *faults], machine_hours
    except (ValueError, KeyError, IndexError, ZeroDivisionError, OverflowError) as error:
        return [*found, Violation(assignment.name, "figures", "something to compute", repr(error))], 0.0


def _audit_figures(ground: AuditContext, worth: float | None, tolerance: Tolerance) -> tuple[list[Violation], float]:
    """Every figure of a job on machines, and its machine hours at its confidence.

    `worth`: dollars of an hour where cost is minimised; None where time is.
    """
    work = recompute_workload(ground)
    physics = recompute_physics(ground, work)
    elsewhere, found = recompute_separate_stages(ground, work)
    course = recompute_stages(ground, work, physics, elsewhere)
    hours = recompute_hours(ground, course, physics)
    followed, faults = recompute_policy_run(ground, course, physics, hours, worth)
    if followed is None:
        faults += check_spot_end(ground, course, hours, tolerance)
    else:
        faults += check_spot(ground, course, followed, tolerance)
        hours = followed.hours(hours, course.stretch)
    lines, late = (recompute_bill(ground, course, hours, followed, late) for late in (False, True))
    share = ground.plan.spot_share
    expected, at_confidence = hours.expected(share), hours.at_confidence(share)
    found += [
        *faults,
        *check_memory_fit(ground, physics, tolerance),
        *check_memory(ground, physics, tolerance),
        *check_speed(ground, work, physics, tolerance),
        *check_observations(ground, physics.correction, tolerance),
        *check_stages(ground, course, tolerance),
        *check_separate_stages(ground, elsewhere, tolerance),
        *check_hours(ground, hours, physics, tolerance),
        *check_hour_limits(ground, at_confidence, tolerance),
        *check_deadline_probability(ground, expected, at_confidence, tolerance),
        *check_commitment(ground, course, tolerance),
        *check_commitment_term(ground, hours, tolerance),
        *check_bill(ground, lines, tolerance),
        *check_cost(ground, lines, late, math.exp(1.28 * physics.sigma), tolerance),
    ]
    return found, machine_hours_at_confidence(ground, hours, course)
