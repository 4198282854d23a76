"""When a run will end and what it will cost, from its progress and its plan.

The pace of the steps that are left is that of the plan corrected by what was observed: both are estimates of ln(pace),
weighted by the inverse squares of their spreads. So a few noisy steps change little, and many steady ones all.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from planner.estimates.uncertainty import confidence_factor, display_factors, interval
from planner.evaluation.evaluated_bill import FIXED
from planner.evaluation.evaluated_hours import probability_within
from planner.records import record
from planner.results.plan_parts import Spread
from planner.results.tracking import Cause, ProjectedEnd
from planner.units import HOUR

if TYPE_CHECKING:
    from planner.analysis.run_progress import Progress
    from planner.results.plan import Assignment

BEFORE_STAGES, BETWEEN_STAGES = ("prepare data",), ("evaluation", "checkpoints")
"""Stages of a plan before the first step, and in between steps; the others follow the last step."""
PAID_AT_THE_END = ("transfer out", "kept after")
"""Fixed lines of a bill that are due after the last step."""
LEAST_SPREAD = 1e-4
"""Spread of a pace that is known as well as can be."""


@record(frozen=True)
class Projection:
    """What is left of a run: hours of one job, dollars of all of its machines."""

    pace_seconds: float
    """Expected wall seconds of each step that is left, stages between steps included."""
    sigma: float
    """Spread of ln(hours left)."""
    left_hours: float
    least_hours: float
    """On the machines at hand without any interruption."""
    market_sd_hours: float
    left_usd: float
    market_sd_usd: float


def planned_step_seconds(job: Assignment) -> float:
    """Return the planned wall seconds of a step, with what happens between steps."""
    return job.step_seconds + _between_seconds(job)


def observed_step_seconds(job: Assignment, progress: Progress) -> float | None:
    """Return the same of the run; what a log does not time is that of the plan."""
    if progress.pace is None:
        return None
    return progress.pace.seconds + (_between_seconds(job) if progress.times_steps_alone else 0.0)


def _between_seconds(job: Assignment) -> float:
    """Return the planned seconds per step of stages between steps, and of the short stops that every run has.

    On spot the latter are in `market_factor`.
    """
    stages = math.fsum(job.stage_hours.get(name, 0.0) for name in BETWEEN_STAGES)
    stops = 0.0 if job.spot_share > 0 else max(0.0, job.training_hours - job.steps * job.step_seconds / HOUR)
    return (stages + stops) * HOUR / job.steps


def market_factor(job: Assignment) -> float:
    """Return the planned wall hours of training over its hours of work: above 1 on spot alone."""
    work = job.steps * job.step_seconds / HOUR
    return max(1.0, job.training_hours / work) if job.spot_share > 0 and work > 0 else 1.0


def hourly_usd(job: Assignment) -> float:
    """Return the dollars of a bill that grow with the hours."""
    return math.fsum(line.usd for line in job.bill if line.item not in FIXED)


def project(job: Assignment, progress: Progress) -> Projection:
    """Return what is left of a run."""
    left = max(0, job.steps - progress.steps)
    pace, sigma = _pace_left(job, progress, left)
    work = left * pace / HOUR
    factor = market_factor(job)
    after = math.fsum(hours for name, hours in job.stage_hours.items() if name not in (*BEFORE_STAGES, *BETWEEN_STAGES))
    share = left / job.steps
    fixed = math.fsum(line.usd for line in job.bill if line.item in PAID_AT_THE_END)
    paid = hourly_usd(job) * paid_share(job, work, after)
    restart = job.spot.restart_hours if job.spot is not None and left else 0.0
    return Projection(
        pace_seconds=pace,
        sigma=sigma,
        left_hours=work * factor + after,
        least_hours=work + after + restart,
        market_sd_hours=job.spot.hours_sd * math.sqrt(share) if job.spot else 0.0,
        left_usd=paid + fixed,
        market_sd_usd=job.spot.usd_sd * math.sqrt(share) if job.spot else 0.0,
    )


def paid_share(job: Assignment, work_hours: float, other_hours: float = 0.0) -> float:
    """Return the share of the planned hourly dollars that so many hours cost.

    On spot, dollars follow the work: hours of waiting are free. Else they follow the hours.
    """
    planned = job.steps * planned_step_seconds(job) / HOUR
    return (work_hours + other_hours) / (planned if job.spot_share > 0 else job.hours.expected)


def _pace_left(job: Assignment, progress: Progress, left: int) -> tuple[float, float]:
    """Return the expected wall seconds of a step that is left, and the spread of its ln."""
    planned, pace, observed = planned_step_seconds(job), progress.pace, observed_step_seconds(job, progress)
    if pace is None or observed is None:
        return planned, max(job.sigma_tail, LEAST_SPREAD)
    noise, prior = max(pace.noise(left), LEAST_SPREAD), max(job.sigma_tail, LEAST_SPREAD)
    weight = prior**2 / (prior**2 + noise**2)
    mean = weight * math.log(observed) + (1.0 - weight) * math.log(planned)
    return math.exp(mean), noise * prior / math.hypot(noise, prior)


def end_of(
    job: Assignment, found: Projection, elapsed_hours: float, spent_usd: float, confidence: float
) -> ProjectedEnd:
    """Return the end of a job that has run for some hours and cost some dollars."""
    low, high = (float(one) for one in display_factors(found.sigma))
    hours = interval(found.left_hours, found.least_hours, (low, high), found.market_sd_hours)
    usd = interval(found.left_usd, 0.0, (low, high), found.market_sd_usd)
    return ProjectedEnd(
        hours=Spread(
            expected=elapsed_hours + found.left_hours, low=elapsed_hours + hours[0], high=elapsed_hours + hours[1]
        ),
        cost_usd=Spread(expected=spent_usd + found.left_usd, low=spent_usd + usd[0], high=spent_usd + usd[1]),
        deadline_probability=_on_time(job, found, elapsed_hours, confidence),
        left_hours=found.left_hours,
    )


def _on_time(job: Assignment, found: Projection, elapsed_hours: float, confidence: float) -> float | None:
    """Return the probability of the deadline.

    A run that follows a policy moves to on demand in time on every path of the market, so only the error of its pace
    counts; else the spread of the market adds to it.
    """
    if job.deadline_hours is None:
        return None
    left = job.deadline_hours - elapsed_hours
    if left <= 0 or found.left_hours <= 0:
        return 1.0 if left >= 0 and found.left_hours <= 0 else 0.0
    hours = found.least_hours if job.spot is not None else found.left_hours
    factor = float(confidence_factor(found.sigma, confidence))
    late = hours + math.hypot(hours * (factor - 1.0), 0.0 if job.spot is not None else found.market_sd_hours)
    return probability_within(left, hours, late, confidence)


def causes_of(
    job: Assignment, progress: Progress, found: Projection, elapsed_hours: float, end: ProjectedEnd
) -> tuple[Cause, ...]:
    """Return the parts of the difference between projected and planned hours; they add up."""
    planned, factor = planned_step_seconds(job), market_factor(job)
    observed = observed_step_seconds(job, progress) or planned
    left = max(0, job.steps - progress.steps)
    slower = (progress.steps * (observed - planned) + left * (found.pace_seconds - planned) * factor) / HOUR
    repeated = progress.repeated_steps * observed / HOUR
    expected_stand = (factor - 1.0) * progress.steps * planned / HOUR
    standing = progress.standing_hours - expected_stand
    start = None
    if progress.run_hours is not None:
        before = job.start_hours + math.fsum(job.stage_hours.get(name, 0.0) for name in BEFORE_STAGES)
        start = elapsed_hours - progress.run_hours - before
    total = end.hours.expected - job.hours.expected
    parts = {
        "slower steps" if slower >= 0 else "faster steps": slower,
        "steps done again after restarts": repeated,
        "standing still" if standing >= 0 else "less waiting than planned": standing,
        "before the first step and after the last one": start or 0.0,
    }
    parts["warm-up and the rest"] = total - math.fsum(parts.values())
    return tuple(Cause(what=what, hours=hours) for what, hours in parts.items())
