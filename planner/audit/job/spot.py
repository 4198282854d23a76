"""Audit of a run that follows a policy on spot: when it may, what the policy promises, what it is expected to take.

Run and market are made anew, one configuration at a time. The policy itself is found again by the same pass over time
and market as the planner's: its figures are held against replays by tests.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from planner.audit.job.context import AuditContext, Tolerance, Violation, check_close, check_equal
from planner.audit.job.hours import RecomputedHours, is_coarse, resolve_interruption_process, spot_stall_hours
from planner.audit.job.stages import JobStages, disk_gb_of_group
from planner.estimates.time.stages import StageCoefficients, checkpoint_bytes, checkpoint_seconds
from planner.results.plan import SpotPlan
from planner.spot.market.duration_shapes import DurationShape, states_from_means
from planner.spot.market.states import Ages, SpotStates
from planner.spot.policy.checkpointing import checkpoint_interval, last_checkpoint_fits
from planner.spot.policy.curve_cache import CurveCache
from planner.spot.policy.run import SpotRun
from planner.units import GB, HOUR, MONTH_HOURS

if TYPE_CHECKING:
    from planner.audit.job.physics import RecomputedPhysics
    from planner.spot.policy.cost_curve import CurvePoint

FINE_BILLING_HOURS = 0.1
"""Longest billing step of a market that a policy is made for."""
MAX_RUN_RATIO = 1000.0
"""Times the run, or the restart where that is longer: a market on which it takes so long is not used."""
TIME_TOLERANCE = 1e-6
"""Relative, of a guaranteed time: points of a curve lie much further apart."""


@dataclass(frozen=True)
class RecomputedPolicyRun:
    """The run of a plan on its market, and the point of the curve at the time that the plan guarantees."""

    run: SpotRun
    states: SpotStates
    point: CurvePoint
    on_demand_outside_run_hours: float  # hours rented beside the run, its starts not among them: on demand

    def hours(self, hours: RecomputedHours, stretch: float) -> RecomputedHours:
        """The hours of the job with those of the policy: whatever share it takes, they are all its own."""
        finish, longest = self.point.finish_hours, self.point.hours * stretch * hours.late
        return replace(
            hours,
            outside_run=self.on_demand_outside_run_hours,
            on_demand=finish,
            spot=finish,
            late_outside_run=self.on_demand_outside_run_hours * hours.late,
            late_on_demand=longest,
            late_spot=longest,
        )

    def disk_hours(self, late: float = 1.0, stretch: float = 1.0) -> float:
        """Hours that disks are paid for: of a late run, not of one that takes all the time it may."""
        return (self.on_demand_outside_run_hours + self.point.finish_hours * stretch) * late

    def machine_hours(self, course: JobStages) -> dict[str, tuple[float, float]]:
        """Hours of one machine by what they are for, on demand and on spot, of the run expected.

        Work is done for the policy's share on spot; what it pays beyond is starts, stalls and work that was lost.
        """
        x, point = self.point.spot_share, self.point
        work = {"gpu": course.training, "evaluation": course.evaluation, "checkpoints": course.checkpoints}
        return {
            **{item: ((1 - x) * hours, x * hours) for item, hours in work.items()},
            "starts on demand": (point.on_demand_hours - (1 - x) * course.run, 0.0),
            "starts and losses": (0.0, point.spot_hours - x * course.run),
        }


def recompute_policy_run(
    ground: AuditContext,
    course: JobStages,
    physics: RecomputedPhysics,
    hours: RecomputedHours,
    usd_per_hour: float | None,
) -> tuple[RecomputedPolicyRun | None, list[Violation]]:
    """The policy that the plan follows, found again, and what is wrong with following it or with not doing so.

    `usd_per_hour`: what an hour is worth where cost is minimised; None where time is, which no policy is made for.
    """
    plan, told = ground.plan, ground.plan.spot
    serves = hours.wall_spot < MAX_RUN_RATIO * max(course.run, course.restart)
    able = serves and usd_per_hour is not None and _can_follow_policy(ground, course)
    found = []
    if plan.spot_share > 0 and not serves:
        found.append(Violation(plan.name, "spot_share", "0: on this market the run never ends", plan.spot_share))
    if told is not None or ground.limits.spot_share.min == 0:  # a mix may reach a floor that no policy asks for
        found += check_equal(plan.name, "a policy on spot", able and plan.spot_share > 0, told is not None)
    if told is None or not able or usd_per_hour is None:
        return None, found
    states = _states(ground)
    run = _run(ground, course, physics, states, usd_per_hour)
    point = _point(run, states, told.guaranteed_hours)
    if point is None:
        return None, [*found, Violation(plan.name, "spot.guaranteed_hours", "a time to end in", told.guaranteed_hours)]
    found += check_close(plan.name, "spot.guaranteed_hours", point.hours, told.guaranteed_hours, TIME_TOLERANCE)
    return RecomputedPolicyRun(run, states, point, course.outside_run_hours - course.start), found


def _can_follow_policy(ground: AuditContext, course: JobStages) -> bool:
    """One run on an offer that has both markets, of which none is ruled out, and that bills about what is used."""
    offer = ground.offer
    both = offer.has_spot and offer.usd_per_hour is not None and ground.limits.spot_share.min < 1
    both = both and ground.limits.spot_share.max >= 1 and offer.billing.step_seconds / HOUR <= FINE_BILLING_HOURS
    return both and ground.job.trials.count == 1 and not is_coarse(ground, course)


def _states(ground: AuditContext) -> SpotStates:
    """The market of all machines together: as the offer tells it by age, else its means in the shape of records."""
    told = ground.offer.spot
    if told is not None and told.instances == ground.plan.instances and told.up and told.outage:
        up, down = (Ages(one.ages_hours, one.ends_per_hour) for one in (told.up, told.outage))
        return SpotStates(up, down)
    gang = resolve_interruption_process(ground)
    return states_from_means(float(gang.mean_up), float(gang.mean_outage), DurationShape.of(ground.values("spot")))


def _run(
    ground: AuditContext, course: JobStages, physics: RecomputedPhysics, states: SpotStates, usd_per_hour: float
) -> SpotRun:
    """What the policy has to bring home. The hours of an observed run have its start among them."""
    job, offer, machines = ground.job, ground.offer, ground.plan.instances
    stages = StageCoefficients.of(ground.values("stages"))
    stall = spot_stall_hours(ground, physics)
    saved = float(checkpoint_bytes(physics.trainable, stages))
    written = float(checkpoint_seconds(saved, machines, job.storage_gb_per_second * GB, float("inf"), stages))
    notice = offer.spot.notice_seconds if offer.spot else None
    notice = offer.spot_notice_seconds if notice is None else notice
    warned = last_checkpoint_fits(notice or 0.0, written)
    share = ground.values("stages")["interval_share_of_young"]
    return SpotRun(
        work_hours=course.run if ground.observed_hours is None else course.run - course.restart,
        restart_hours=course.restart,
        stall_hours=stall,
        interval_hours=checkpoint_interval(stall, states, share, warned),
        spot_usd_per_hour=(offer.spot_usd_per_hour or 0.0) * machines,
        on_demand_usd_per_hour=(offer.usd_per_hour or 0.0) * machines,
        standing_usd_per_hour=_storage_usd_per_hour(ground, course) + usd_per_hour,
        last_checkpoint=warned,
    )


def _storage_usd_per_hour(ground: AuditContext, course: JobStages) -> float:
    """Dollars an hour of all that the machines of the run keep on disks."""
    return (ground.offer.fees.storage_usd_per_gb_month or 0.0) / MONTH_HOURS * disk_gb_of_group(ground, course)


def _point(run: SpotRun, states: SpotStates, guaranteed_hours: float) -> CurvePoint | None:
    """The point of the curve next to a guaranteed time; None where no policy ends within it."""
    if not 0 < run.work_hours + run.restart_hours <= guaranteed_hours:
        return None
    (points,) = CurveCache().latest_points([(run, states, guaranteed_hours * (1 + TIME_TOLERANCE))])
    return min(points, key=lambda point: abs(point.hours - guaranteed_hours), default=None)


def check_spot(
    ground: AuditContext, course: JobStages, followed: RecomputedPolicyRun, tolerance: Tolerance
) -> list[Violation]:
    """Every figure of the plan's policy, the last moment to go on demand, and the share of the work on spot."""
    plan, told = ground.plan, ground.plan.spot
    if told is None:
        return [Violation(plan.name, "spot", "a policy", None)]
    run, states, point = followed.run, followed.states, followed.point
    needed = run.work_hours + run.restart_hours
    before = course.prepare + sum(one.hours for one in course.separate_stages if one.stage == "ingest")
    latest = before + point.hours - needed
    storage = _storage_usd_per_hour(ground, course)
    paid = point.usd - (run.standing_usd_per_hour - storage) * point.finish_hours  # the value of time is on no bill
    wanted = SpotPlan(
        guaranteed_hours=told.guaranteed_hours,  # held against the curve before
        latest_on_demand_hours=latest,
        saving_usd=needed * (run.on_demand_usd_per_hour + storage) - paid,
        usd_sd=point.usd_sd,
        hours_sd=point.finish_sd,
        luck_usd=paid - needed * (run.spot_usd_per_hour + storage),
        luck_hours=point.finish_hours - needed,
        interruptions=point.interruptions,
        wasted_hours=point.wasted_hours,
        waiting_hours=point.waiting_hours,
        checkpoint_interval_hours=run.interval_hours,
        restart_hours=run.restart_hours,
        last_checkpoint=run.last_checkpoint,
        availability=states.availability(),
        mean_up_hours=states.up.mean(),
        mean_outage_hours=states.down.mean(),
        basis=_basis(ground),
    )
    found = check_close(plan.name, "spot_share", point.spot_share, plan.spot_share, tolerance.hours)
    found += check_close(
        plan.name, "switch_to_on_demand_at_hours", latest, plan.switch_to_on_demand_at_hours, tolerance.hours
    )
    for name in SpotPlan.model_fields:
        value, said = getattr(wanted, name), getattr(told, name)
        if isinstance(value, float):
            dollars = tolerance.usd if name.endswith(("_usd", "usd_sd")) else 0.0
            found += check_close(plan.name, f"spot.{name}", value, said, tolerance.hours, dollars)
        else:
            found += check_equal(plan.name, f"spot.{name}", value, said)
    return found


def _basis(ground: AuditContext) -> str:
    """Empty where the offer states its market."""
    if ground.offer.spot is not None:
        return ""
    stages = ground.values("stages")
    return f"prior: up {stages['spot_mean_up_hours']:g} h, available {stages['spot_availability']:.0%} of the time"
