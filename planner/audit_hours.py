"""Audit of the hours of one job, in plain arithmetic: start, run, spot, deadline."""

from __future__ import annotations

import math
from dataclasses import dataclass

from planner.audit_ground import Ground, Tolerance, Violation, apart, beyond, unequal
from planner.audit_physics import Physics, Workload
from planner.estimates.preemption import GangCoefficients, gang_market, interrupted_run, wall_quantile_factor
from planner.estimates.stages import (
    StageCoefficients,
    asynchronous_stall_seconds,
    boot_seconds,
    checkpoint_bytes,
    download_seconds,
    goodput_factor,
    load_seconds,
)
from planner.estimates.uncertainty import late_factor
from planner.jobs import MAX_CONFIDENCE
from planner.units import GB, HOUR

DEFAULT_MAX_HOURS = {"finetune": 720.0, "pretrain": 2160.0}


@dataclass(frozen=True)
class Hours:
    """Wall and paid hours of all the work in each market; `late_` at the asked confidence."""

    start: float
    on_demand: float
    spot: float  # wall, the switch included
    switch: float
    late_start: float
    late_on_demand: float
    late_spot: float
    paid_spot: float  # machine hours, the start left out
    wall_spot: float  # wall, the switch left out
    late: float  # factor on hours of compute at the confidence

    def expected(self, share: float) -> float:
        """Wall hours at a spot share."""
        return self.start + _mixed(share, self.on_demand, self.spot)

    def at_confidence(self, share: float) -> float:
        """Wall hours at a spot share that the asked confidence holds for."""
        return self.late_start + _mixed(share, self.late_on_demand, self.late_spot)


def _mixed(share: float, on_demand: float, spot: float) -> float:
    """A market that gets no work does not count, however it behaves."""
    return (on_demand * (1 - share) if share < 1 else 0.0) + (spot * share if share > 0 else 0.0)


def hours_of(ground: Ground, work: Workload, physics: Physics) -> Hours:
    """All hours of the job on its machines."""
    job, plan, offer = ground.job, ground.plan, ground.offer
    stages = ground.values("stages")
    coefficients = StageCoefficients.of(stages)
    restart = _start_hours(ground, physics, coefficients)
    if ground.observed is not None and ground.observed.hours is not None:
        # Seen from start to end: nothing is added but what interruptions cost on spot.
        start, run = 0.0, ground.observed.hours
    else:
        start = restart
        step_hours = work.steps * physics.step_seconds / HOUR / job.efficiency
        run = step_hours * float(goodput_factor(step_hours, plan.instances, 0, coefficients))
    late = float(late_factor(physics.sigma_tail, job.confidence))
    up, share = stages["spot_mean_up_hours"], stages["spot_availability"]
    gang = GangCoefficients.of(stages)
    if offer.spot is not None:
        together = offer.spot.instances  # the statistics are of so many machines; wanted are those of one
        up = offer.spot.mean_up_hours * together**gang.gang_rate_exponent
        share = min(1.0, offer.spot.availability * together**-gang.gang_availability_exponent)
    saved = checkpoint_bytes(physics.trainable, coefficients)
    stall = float(asynchronous_stall_seconds(saved, plan.gpus, physics.pcie_bytes_per_second, coefficients))
    stall += coefficients.checkpoint_fixed_seconds  # even small adapters halt the run for a moment
    interrupted = interrupted_run(
        run,
        restart,
        stall / HOUR,
        gang_market(up, share, plan.instances, gang),
        gang,
        stages["spot_outage_cv"],
    )
    switch = 0.0 if offer.usd_per_hour is None else start
    wall = float(interrupted.wall)
    spread = wall_quantile_factor(job.confidence, ground.values("uncertainty")["wall_spread"])
    return Hours(
        start=start,
        on_demand=run,
        spot=wall + switch,
        switch=switch,
        late_start=start * late,
        late_on_demand=run * late,
        late_spot=wall * late * spread + switch * late,
        paid_spot=float(interrupted.paid),
        wall_spot=wall,
        late=late,
    )


def _start_hours(ground: Ground, physics: Physics, coefficients: StageCoefficients) -> float:
    """Boot, image, weights and data from the outside, then weights from disk to the GPUs."""
    job, plan = ground.job, ground.plan
    stages = ground.values("stages")
    pull = stages["community_pull_bytes_per_second" if ground.offer.community else "pull_bytes_per_second"]
    weights = ground.architecture.download_gb * GB
    seconds = float(boot_seconds(pull, coefficients))
    seconds += float(download_seconds(weights + job.data_gb * GB, pull))
    # The job states how fast its disk is read, and the share of that which loading reaches.
    disk = job.storage_gb_per_second * GB * job.load_efficiency / coefficients.disk_efficiency
    seconds += float(
        load_seconds(
            weights,
            plan.gpus,
            math.inf,
            disk,
            physics.pcie_bytes_per_second,
            coefficients,
            quantised_weights=ground.network.parameters if ground.recipe.weight_bits < 16 else 0,
            compiled=int(bool(ground.framework.get("compiled"))),
        )
    )
    return seconds / HOUR


def hours_are_told(ground: Ground, hours: Hours, physics: Physics, tolerance: Tolerance) -> list[Violation]:
    """Start, training, expected, interval and at-confidence hours are what comes out again."""
    plan, share = ground.plan, ground.plan.spot_share
    expected, reach = hours.expected(share), math.exp(1.28 * physics.sigma)
    seen = ground.observed.hours if ground.observed else None
    found = unequal(plan.name, "observed_hours", seen, plan.observed_hours)
    for what, wanted, told in (
        ("start_hours", hours.start, plan.start_hours),
        ("training_hours", expected - hours.start, plan.training_hours),
        ("hours.expected", expected, plan.hours.expected),
        ("hours.low", expected / reach, plan.hours.low),
        ("hours.high", expected * reach, plan.hours.high),
        ("hours.at_confidence", hours.at_confidence(share), plan.hours.at_confidence),
    ):
        found += apart(plan.name, what, wanted, told, tolerance.hours)
    return found


def hours_hold(ground: Ground, hours: Hours, tolerance: Tolerance) -> list[Violation]:
    """At the asked confidence the job ends before its deadline and the longest run."""
    job, late = ground.job, hours.at_confidence(ground.plan.spot_share)
    longest = ground.limits.max_hours or DEFAULT_MAX_HOURS[job.kind]
    found: list[Violation] = []
    for what, limit in (("deadline_hours", job.deadline_hours), ("max_hours", longest)):
        if limit is not None:
            found += beyond(job.name, f"{what} at confidence", limit, late, tolerance.hours * limit)
    return found


def deadline_chance_is_told(ground: Ground, hours: Hours, tolerance: Tolerance) -> list[Violation]:
    """The chance to end in time is the one that the spread of the hours gives, at least the confidence."""
    job, plan, told = ground.job, ground.plan, ground.plan.deadline_probability
    if job.deadline_hours is None:
        return unequal(plan.name, "deadline_probability", None, told)
    if told is None or not job.confidence - 1e-6 <= told <= 1:
        return [Violation(plan.name, "deadline_probability", f"at least {job.confidence:g}", told)]
    expected, late = hours.expected(plan.spot_share), hours.at_confidence(plan.spot_share)
    if job.confidence <= 0.5:
        return []  # the hours at this confidence say nothing about how wide the spread is
    # Late hours go as exp(scale * t), t the quantile of Student's t with 2 degrees of freedom.
    p = job.confidence
    quantile = (2 * p - 1) / math.sqrt(2 * p * (1 - p))
    t = math.log(job.deadline_hours / expected) / (math.log(late / expected) / quantile)
    chance = min(MAX_CONFIDENCE, 0.5 * (1 + t / math.sqrt(2 + t * t)))
    return apart(plan.name, "deadline_probability", chance, told, tolerance.hours)


def spot_end_is_told(ground: Ground, hours: Hours, tolerance: Tolerance) -> list[Violation]:
    """When a run moves from spot to on demand: after its spot share; never, where it is all one market."""
    plan, share = ground.plan, ground.plan.spot_share
    if not 0 < share < 1:
        return unequal(plan.name, "switch_to_on_demand_at_hours", None, plan.switch_to_on_demand_at_hours)
    at = hours.start + share * hours.wall_spot
    return apart(plan.name, "switch_to_on_demand_at_hours", at, plan.switch_to_on_demand_at_hours, tolerance.hours)
