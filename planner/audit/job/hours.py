"""Audit of the wall clock of one job, in plain arithmetic: once, run, spot, stages beside, deadline."""

from __future__ import annotations

import math
from dataclasses import dataclass

from planner.audit.job.context import Footing, Ground, Tolerance, Violation, apart, beyond, unequal
from planner.audit.job.physics import Physics
from planner.audit.job.stages import Course
from planner.estimates.preemption import GangCoefficients, gang_market, interrupted_run, wall_quantile_factor
from planner.estimates.preemption import Market as GangMarket
from planner.estimates.time.stages import StageCoefficients, asynchronous_stall_seconds, checkpoint_bytes
from planner.estimates.uncertainty import late_factor
from planner.scenario.job import MAX_CONFIDENCE
from planner.units import HOUR

DEFAULT_MAX_HOURS = {"finetune": 720.0, "pretrain": 2160.0}
COARSE_STEP = 0.05
"""Billing steps up to this share of the run are not rounded."""
FINE_STEP_HOURS = 1 / 60
"""Billing steps up to a minute are not rounded anywhere; the share counts where there is a spot market."""


@dataclass(frozen=True)
class Hours:
    """Wall hours of all the work in each market; `late_` at the asked confidence, the run in full."""

    once: float  # machines rented, stages beside the run
    beside: float  # stages on machines of their own
    on_demand: float
    spot: float  # the switch included
    switch: float  # one more start; 0 where the machines are not sold on demand
    late_once: float
    late_beside: float
    late_on_demand: float
    late_spot: float
    paid_spot: float  # machine hours of the longest chain of trials, starts left out
    wall_spot: float  # the switch left out
    late: float  # factor on hours at the confidence

    def rented(self, share: float, late: bool = False) -> float:
        """Hours in which the job's machines are rented, at a spot share."""
        if late:
            return self.late_once + _mixed(share, self.late_on_demand, self.late_spot)
        return self.once + _mixed(share, self.on_demand, self.spot)

    def expected(self, share: float) -> float:
        """Wall hours at a spot share."""
        return self.beside + self.rented(share)

    def at_confidence(self, share: float) -> float:
        """Wall hours at a spot share that the asked confidence holds for."""
        return self.late_beside + self.rented(share, late=True)


def _mixed(share: float, on_demand: float, spot: float) -> float:
    """A market that gets no work does not count, however it behaves."""
    return (on_demand * (1 - share) if share < 1 else 0.0) + (spot * share if share > 0 else 0.0)


def hours_of(ground: Ground, course: Course, physics: Physics) -> Hours:
    """All hours of the job, its stages given."""
    job, offer = ground.job, ground.offer
    stages = ground.values("stages")
    late = float(late_factor(physics.sigma_tail, job.confidence))
    interrupted = interrupted_run(
        course.run,
        course.restart,
        spot_stall_hours(ground, physics),
        gang_of(ground),
        GangCoefficients.of(stages),
        stages["spot_outage_cv"],
    )
    switch = 0.0 if offer.usd_per_hour is None else course.start
    wall = float(interrupted.wall)
    spread = wall_quantile_factor(job.confidence, ground.values("uncertainty")["wall_spread"])
    return Hours(
        once=course.once,
        beside=course.beside,
        on_demand=course.run,
        spot=wall + switch,
        switch=switch,
        late_once=course.once * late,
        late_beside=course.late_beside * late,
        late_on_demand=course.run * late * course.stretch,
        late_spot=wall * late * spread * course.stretch + switch * late,
        paid_spot=float(interrupted.paid),
        wall_spot=wall,
        late=late,
    )


def gang_of(ground: Ground) -> GangMarket:
    """How the machines of one run come and go together: as the offer states it, else as the prior has it."""
    stages, told = ground.values("stages"), ground.offer.spot
    gang = GangCoefficients.of(stages)
    up, share = stages["spot_mean_up_hours"], stages["spot_availability"]
    if told is not None:
        # The statistics are of so many machines; wanted are those of one.
        up = told.mean_up_hours * told.instances**gang.gang_rate_exponent
        share = min(1.0, told.availability * told.instances**-gang.gang_availability_exponent)
    return gang_market(up, share, ground.plan.instances, gang)


def spot_stall_hours(ground: Ground, physics: Physics) -> float:
    """Stall of a checkpoint that an interruption makes necessary; even small adapters halt the run for a moment."""
    coefficients = StageCoefficients.of(ground.values("stages"))
    saved = checkpoint_bytes(physics.trainable, coefficients)
    slot = physics.pcie_bytes_per_second
    seconds = float(asynchronous_stall_seconds(saved, ground.plan.gpus, slot, coefficients))
    return (seconds + coefficients.checkpoint_fixed_seconds) / HOUR


def is_coarse(ground: Ground, course: Course) -> bool:
    """Whether the billing step or minimum is too large to be left out of the sums."""
    billing = ground.offer.billing
    smallest = COARSE_STEP * course.run if ground.offer.has_spot else FINE_STEP_HOURS
    too_long = billing.step_seconds / HOUR > smallest
    return too_long or billing.minimum_hours > course.once + course.run


def hours_are_told(ground: Ground, hours: Hours, physics: Physics, tolerance: Tolerance) -> list[Violation]:
    """Training, expected, interval and at-confidence hours are what comes out again."""
    plan, share = ground.plan, ground.plan.spot_share
    expected, reach = hours.expected(share), math.exp(1.28 * physics.sigma)
    spot = plan.spot  # held against the curve by itself
    luck, spread = (spot.luck_hours, spot.hours_sd) if spot else (0.0, 0.0)
    low = max((expected - luck) / reach, expected - math.hypot(expected * (1 - 1 / reach), 1.28 * spread))
    high = expected + math.hypot(expected * (reach - 1), 1.28 * spread)
    stages = math.fsum(plan.stage_hours.values())  # held against their own before
    found = unequal(plan.name, "observed_hours", ground.observed_hours, plan.observed_hours)
    for what, wanted, told in (
        ("training_hours", expected - plan.start_hours - stages, plan.training_hours),
        ("hours.expected", expected, plan.hours.expected),
        ("hours.low", low, plan.hours.low),
        ("hours.high", high, plan.hours.high),
        ("hours.at_confidence", hours.at_confidence(share), plan.hours.at_confidence),
    ):
        found += apart(plan.name, what, wanted, told, tolerance.hours)
    return found


def hours_hold(ground: Footing, late: float, tolerance: Tolerance) -> list[Violation]:
    """At the asked confidence, after `late` hours, the job has ended before its deadline and the longest run."""
    job = ground.job
    longest = ground.limits.max_hours or DEFAULT_MAX_HOURS[job.kind]
    found: list[Violation] = []
    for what, limit in (("deadline_hours", job.deadline_hours), ("max_hours", longest)):
        if limit is not None:
            found += beyond(job.name, f"{what} at confidence", limit, late, tolerance.hours * limit)
    return found


def deadline_chance_is_told(ground: Footing, expected: float, late: float, tolerance: Tolerance) -> list[Violation]:
    """The chance to end in time is the one that the spread of the hours gives, at least the confidence."""
    job, plan, told = ground.job, ground.plan, ground.plan.deadline_probability
    if job.deadline_hours is None:
        return unequal(plan.name, "deadline_probability", None, told)
    if told is None or not job.confidence - 1e-6 <= told <= 1:
        return [Violation(plan.name, "deadline_probability", f"at least {job.confidence:g}", told)]
    if job.confidence <= 0.5:
        return []  # the hours at this confidence say nothing about how wide the spread is
    chance = chance_within(job.deadline_hours, expected, late, job.confidence)
    return apart(plan.name, "deadline_probability", chance, told, tolerance.hours)


def chance_within(limit: float, expected: float, late: float, confidence: float) -> float:
    """Chance that a figure stays within a limit, where it stays within `late` with the chance `confidence` > 0.5.

    Late figures go as exp(scale * t), t the quantile of Student's t with 2 degrees of freedom.
    """
    if late <= expected or expected <= 0:
        return 1.0 if expected <= limit else 0.0
    quantile = (2 * confidence - 1) / math.sqrt(2 * confidence * (1 - confidence))
    t = math.log(limit / expected) / (math.log(late / expected) / quantile)
    return min(MAX_CONFIDENCE, 0.5 * (1 + t / math.sqrt(2 + t * t)))


def spot_end_is_told(ground: Ground, course: Course, hours: Hours, tolerance: Tolerance) -> list[Violation]:
    """When a run moves from spot to on demand: after its spot share; never, where it is all one market."""
    plan, share = ground.plan, ground.plan.spot_share
    if not 0 < share < 1:
        return unequal(plan.name, "switch_to_on_demand_at_hours", None, plan.switch_to_on_demand_at_hours)
    before = math.fsum(one.hours for one in course.elsewhere if one.stage == "ingest")
    at = before + course.start + course.prepare + share * hours.wall_spot
    return apart(plan.name, "switch_to_on_demand_at_hours", at, plan.switch_to_on_demand_at_hours, tolerance.hours)
