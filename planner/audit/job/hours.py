"""Audit of the wall clock of one job, in plain arithmetic: once, run, spot, stages beside, deadline."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from planner.audit.job.context import (
    AssignmentContext,
    AuditContext,
    Tolerance,
    Violation,
    check_at_most,
    check_close,
    check_equal,
)
from planner.estimates.preemption import NodeGroupCoefficients, interrupted_run, node_group_market, wall_quantile_factor
from planner.estimates.preemption import SpotAvailability as GangMarket
from planner.estimates.time.stages import StageCoefficients, asynchronous_stall_seconds, checkpoint_bytes
from planner.estimates.uncertainty import confidence_factor
from planner.scenario.job import MAX_CONFIDENCE
from planner.units import HOUR

if TYPE_CHECKING:
    from planner.audit.job.physics import RecomputedPhysics
    from planner.audit.job.stages import JobStages

DEFAULT_MAX_HOURS = {"finetune": 720.0, "pretrain": 2160.0}
COARSE_STEP = 0.05
"""Billing steps up to this share of the run are not rounded."""
FINE_STEP_HOURS = 1 / 60
"""Billing steps up to a minute are not rounded anywhere; the share counts where there is a spot market."""


@dataclass(frozen=True)
class RecomputedHours:
    """Wall hours of all the work in each market; `late_` at the asked confidence, the run in full."""

    outside_run: float  # machines rented, stages beside the run
    separate_machines: float  # stages on machines of their own
    on_demand: float
    spot: float  # the switch included
    switch: float  # one more start; 0 where the machines are not sold on demand
    late_outside_run: float
    late_separate_machines: float
    late_on_demand: float
    late_spot: float
    paid_spot: float  # machine hours of the longest chain of trials, starts left out
    wall_spot: float  # the switch left out
    late: float  # factor on hours at the confidence

    def rented(self, share: float, late: bool = False) -> float:
        """Hours in which the job's machines are rented, at a spot share."""
        if late:
            return self.late_outside_run + _mix_markets(share, self.late_on_demand, self.late_spot)
        return self.outside_run + _mix_markets(share, self.on_demand, self.spot)

    def expected(self, share: float) -> float:
        """Wall hours at a spot share."""
        return self.separate_machines + self.rented(share)

    def at_confidence(self, share: float) -> float:
        """Wall hours at a spot share that the asked confidence holds for."""
        return self.late_separate_machines + self.rented(share, late=True)


def _mix_markets(share: float, on_demand: float, spot: float) -> float:
    """A market that gets no work does not count, however it behaves."""
    return (on_demand * (1 - share) if share < 1 else 0.0) + (spot * share if share > 0 else 0.0)


def recompute_hours(ground: AuditContext, course: JobStages, physics: RecomputedPhysics) -> RecomputedHours:
    """All hours of the job, its stages given."""
    job, offer = ground.job, ground.offer
    stages = ground.values("stages")
    late = float(confidence_factor(physics.sigma_tail, job.confidence))
    interrupted = interrupted_run(
        course.run,
        course.restart,
        spot_stall_hours(ground, physics),
        resolve_interruption_process(ground),
        NodeGroupCoefficients.of(stages),
        stages["spot_outage_cv"],
    )
    switch = 0.0 if offer.usd_per_hour is None else course.start
    wall = float(interrupted.wall)
    spread = wall_quantile_factor(job.confidence, ground.values("uncertainty")["wall_spread"])
    return RecomputedHours(
        outside_run=course.outside_run_hours,
        separate_machines=course.separate_hours,
        on_demand=course.run,
        spot=wall + switch,
        switch=switch,
        late_outside_run=course.outside_run_hours * late,
        late_separate_machines=course.late_separate_hours * late,
        late_on_demand=course.run * late * course.stretch,
        late_spot=wall * late * spread * course.stretch + switch * late,
        paid_spot=float(interrupted.paid),
        wall_spot=wall,
        late=late,
    )


def resolve_interruption_process(ground: AuditContext) -> GangMarket:
    """How the machines of one run come and go together: as the offer states it, else as the prior has it."""
    stages, told = ground.values("stages"), ground.offer.spot
    gang = NodeGroupCoefficients.of(stages)
    up, share = stages["spot_mean_up_hours"], stages["spot_availability"]
    if told is not None:
        # The statistics are of so many machines; wanted are those of one.
        up = told.mean_up_hours * told.instances**gang.gang_rate_exponent
        share = min(1.0, told.availability * told.instances**-gang.gang_availability_exponent)
    return node_group_market(up, share, ground.plan.instances, gang)


def spot_stall_hours(ground: AuditContext, physics: RecomputedPhysics) -> float:
    """Stall of a checkpoint that an interruption makes necessary; even small adapters halt the run for a moment."""
    coefficients = StageCoefficients.of(ground.values("stages"))
    saved = checkpoint_bytes(physics.trainable, coefficients)
    slot = physics.pcie_bytes_per_second
    seconds = float(asynchronous_stall_seconds(saved, ground.plan.gpus, slot, coefficients))
    return (seconds + coefficients.checkpoint_fixed_seconds) / HOUR


def is_coarse(ground: AuditContext, course: JobStages) -> bool:
    """Whether the billing step or minimum is too large to be left out of the sums."""
    billing = ground.offer.billing
    smallest = COARSE_STEP * course.run if ground.offer.has_spot else FINE_STEP_HOURS
    too_long = billing.step_seconds / HOUR > smallest
    return too_long or billing.minimum_hours > course.outside_run_hours + course.run


def check_hours(
    ground: AuditContext, hours: RecomputedHours, physics: RecomputedPhysics, tolerance: Tolerance
) -> list[Violation]:
    """Training, expected, interval and at-confidence hours are what comes out again."""
    plan, share = ground.plan, ground.plan.spot_share
    expected, reach = hours.expected(share), math.exp(1.28 * physics.sigma)
    spot = plan.spot  # held against the curve by itself
    luck, spread = (spot.luck_hours, spot.hours_sd) if spot else (0.0, 0.0)
    low = max((expected - luck) / reach, expected - math.hypot(expected * (1 - 1 / reach), 1.28 * spread))
    high = expected + math.hypot(expected * (reach - 1), 1.28 * spread)
    stages = math.fsum(plan.stage_hours.values())  # held against their own before
    found = check_equal(plan.name, "observed_hours", ground.observed_hours, plan.observed_hours)
    for what, wanted, told in (
        ("training_hours", expected - plan.start_hours - stages, plan.training_hours),
        ("hours.expected", expected, plan.hours.expected),
        ("hours.low", low, plan.hours.low),
        ("hours.high", high, plan.hours.high),
        ("hours.at_confidence", hours.at_confidence(share), plan.hours.at_confidence),
    ):
        found += check_close(plan.name, what, wanted, told, tolerance.hours)
    return found


def check_hour_limits(ground: AssignmentContext, late: float, tolerance: Tolerance) -> list[Violation]:
    """At the asked confidence, after `late` hours, the job has ended before its deadline and the longest run."""
    job = ground.job
    longest = ground.limits.max_hours or DEFAULT_MAX_HOURS[job.kind]
    found: list[Violation] = []
    for what, limit in (("deadline_hours", job.deadline_hours), ("max_hours", longest)):
        if limit is not None:
            found += check_at_most(job.name, f"{what} at confidence", limit, late, tolerance.hours * limit)
    return found


def check_deadline_probability(
    ground: AssignmentContext, expected: float, late: float, tolerance: Tolerance
) -> list[Violation]:
    """The chance to end in time is the one that the spread of the hours gives, at least the confidence."""
    job, plan, told = ground.job, ground.plan, ground.plan.deadline_probability
    if job.deadline_hours is None:
        return check_equal(plan.name, "deadline_probability", None, told)
    if told is None or not job.confidence - 1e-6 <= told <= 1:
        return [Violation(plan.name, "deadline_probability", f"at least {job.confidence:g}", told)]
    if job.confidence <= 0.5:
        return []  # the hours at this confidence say nothing about how wide the spread is
    chance = probability_within(job.deadline_hours, expected, late, job.confidence)
    return check_close(plan.name, "deadline_probability", chance, told, tolerance.hours)


def probability_within(limit: float, expected: float, late: float, confidence: float) -> float:
    """Chance that a figure stays within a limit, where it stays within `late` with the chance `confidence` > 0.5.

    Late figures go as exp(scale * t), t the quantile of Student's t with 2 degrees of freedom.
    """
    if late <= expected or expected <= 0:
        return 1.0 if expected <= limit else 0.0
    quantile = (2 * confidence - 1) / math.sqrt(2 * confidence * (1 - confidence))
    t = math.log(limit / expected) / (math.log(late / expected) / quantile)
    return min(MAX_CONFIDENCE, 0.5 * (1 + t / math.sqrt(2 + t * t)))


def check_spot_end(
    ground: AuditContext, course: JobStages, hours: RecomputedHours, tolerance: Tolerance
) -> list[Violation]:
    """When a run moves from spot to on demand: after its spot share; never, where it is all one market."""
    plan, share = ground.plan, ground.plan.spot_share
    if not 0 < share < 1:
        return check_equal(plan.name, "switch_to_on_demand_at_hours", None, plan.switch_to_on_demand_at_hours)
    before = math.fsum(one.hours for one in course.separate_stages if one.stage == "ingest")
    at = before + course.start + course.prepare + share * hours.wall_spot
    return check_close(
        plan.name, "switch_to_on_demand_at_hours", at, plan.switch_to_on_demand_at_hours, tolerance.hours
    )
