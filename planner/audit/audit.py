"""Independent check of a plan: everything it says of its jobs, recomputed from scenario and library alone.

Plain arithmetic on one configuration at a time; nothing of how the plan was found is known here.
Not recomputed is what a plan says of other ways than its own: the ladder of methods, runners-up, limits that bind,
notes, and the explanation of a question without a plan. Nothing in the plan hangs on them.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Sequence

from planner.audit.job.bill import bill_is_told, bill_of, cost_is_told
from planner.audit.job.commitments import (
    commitment_is_told,
    committed_hours_hold,
    machine_hours_at_confidence,
    term_holds,
)
from planner.audit.job.configuration import (
    batch_divides,
    counts_agree,
    lists_permit,
    names_resolve,
    offer_is_told,
    price_is_dated,
    recipe_is_permitted,
    spot_share_is_allowed,
)
from planner.audit.job.context import Ground, Tolerance, Violation, lay_footing, lay_ground, unequal
from planner.audit.job.hours import (
    deadline_chance_is_told,
    hours_are_told,
    hours_hold,
    hours_of,
    spot_end_is_told,
)
from planner.audit.job.managed_service import service_is_told
from planner.audit.job.observations import observations_are_told
from planner.audit.job.physics import (
    memory_fits,
    memory_is_told,
    physics_of,
    speed_is_told,
    workload_of,
)
from planner.audit.job.spot import followed_of, spot_is_told
from planner.audit.job.stage_placement import beside_is_told, elsewhere_of
from planner.audit.job.stages import course_of, stages_are_told
from planner.audit.totals import (
    budget_holds,
    jobs_are_placed_once,
    objective_is_told,
    shared_limits_hold,
    status_is_consistent,
    totals_are_told,
)
from planner.library.schema import Library
from planner.results.plan import Assignment, Plan
from planner.scenario.scenario import Scenario

__all__ = ["Tolerance", "Violation", "audit"]

NAMED_CHECKS: Sequence[Callable[[Ground], list[Violation]]] = (
    names_resolve,
    counts_agree,
    batch_divides,
    recipe_is_permitted,
    spot_share_is_allowed,
)
"""Checks of names and whole numbers; figures are recomputed only where these leave something to compute."""


def audit(
    plan: Plan,
    scenario: Scenario,
    library: Library,
    tolerance: Tolerance | None = None,
    asked_gap: float = 0.0,
) -> list[Violation]:
    """Every disagreement between the plan and what follows from scenario and library; empty for a sound plan.

    Other ways that the plan names (`ladder`, `runner_up`, `binding`) and its notes are left out.
    `asked_gap` is the relative gap at which the solver was allowed to stop.
    """
    tolerance = tolerance or Tolerance()
    found = unequal("", "scenario", scenario.name, plan.scenario)
    found += status_is_consistent(plan, max(asked_gap, tolerance.gap))
    if plan.status in ("infeasible", "no_plan"):
        return found
    found += jobs_are_placed_once(plan, scenario)
    machine_hours = []
    for assignment in plan.jobs:
        faults, used = _audit_job(assignment, plan, scenario, library, tolerance)
        found += faults
        machine_hours.append(used)
    found += shared_limits_hold(plan, scenario)
    found += committed_hours_hold(plan, scenario, machine_hours, tolerance)
    found += totals_are_told(plan, tolerance)
    found += budget_holds(plan, scenario, tolerance)
    found += objective_is_told(plan, scenario, tolerance)
    return found


def _audit_job(
    assignment: Assignment, plan: Plan, scenario: Scenario, library: Library, tolerance: Tolerance
) -> tuple[list[Violation], float]:
    """All checks of one job, and its machine hours at its confidence.

    A plan of nonsense counts or degrees gets no further than those.
    """
    footing, found = lay_footing(assignment, scenario, library)
    if footing is None:
        return found, 0.0
    found += [*offer_is_told(footing), *lists_permit(footing)]
    try:
        found += price_is_dated(footing, datetime.date.fromisoformat(plan.as_of))
        if footing.offer.managed is not None:
            return [*found, *service_is_told(footing, footing.offer.managed, tolerance)], 0.0
        ground = lay_ground(footing)
        for check in NAMED_CHECKS:
            found += check(ground)
        worth = None if scenario.objective_kind == "time" else scenario.value_of_time_usd_per_hour
        faults, machine_hours = _audit_figures(ground, worth, tolerance)
        return [*found, *faults], machine_hours
    except (ValueError, KeyError, IndexError, ZeroDivisionError, OverflowError) as error:
        return [*found, Violation(assignment.name, "figures", "something to compute", repr(error))], 0.0


def _audit_figures(ground: Ground, worth: float | None, tolerance: Tolerance) -> tuple[list[Violation], float]:
    """Every figure of a job on machines, and its machine hours at its confidence.

    `worth`: dollars of an hour where cost is minimised; None where time is.
    """
    work = workload_of(ground)
    physics = physics_of(ground, work)
    elsewhere, found = elsewhere_of(ground, work)
    course = course_of(ground, work, physics, elsewhere)
    hours = hours_of(ground, course, physics)
    followed, faults = followed_of(ground, course, physics, hours, worth)
    if followed is None:
        faults += spot_end_is_told(ground, course, hours, tolerance)
    else:
        faults += spot_is_told(ground, course, followed, tolerance)
        hours = followed.hours(hours, course.stretch)
    lines, late = (bill_of(ground, course, hours, followed, late) for late in (False, True))
    share = ground.plan.spot_share
    expected, at_confidence = hours.expected(share), hours.at_confidence(share)
    found += [
        *faults,
        *memory_fits(ground, physics, tolerance),
        *memory_is_told(ground, physics, tolerance),
        *speed_is_told(ground, work, physics, tolerance),
        *observations_are_told(ground, physics.lesson, tolerance),
        *stages_are_told(ground, course, tolerance),
        *beside_is_told(ground, elsewhere, tolerance),
        *hours_are_told(ground, hours, physics, tolerance),
        *hours_hold(ground, at_confidence, tolerance),
        *deadline_chance_is_told(ground, expected, at_confidence, tolerance),
        *commitment_is_told(ground, course, tolerance),
        *term_holds(ground, hours, tolerance),
        *bill_is_told(ground, lines, tolerance),
        *cost_is_told(ground, lines, late, math.exp(1.28 * physics.sigma), tolerance),
    ]
    return found, machine_hours_at_confidence(ground, hours, course)
