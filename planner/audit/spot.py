"""A run that follows a policy on spot: when it may, what the policy guarantees, and what it is expected to take.

Run and market are made anew, one configuration at a time. The policy itself is found again by the same pass over time
and market as the planner's: its figures are compared with replays by tests.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from planner.audit.hours import group_market, is_coarse, spot_stall_hours
from planner.estimates.time.stages import checkpoint_bytes, checkpoint_seconds
from planner.results.plan import SpotPlan
from planner.spot.market.duration_shapes import DurationShape, states_from_means
from planner.spot.market.states import Ages, SpotStates
from planner.spot.policy.checkpointing import checkpoint_interval, last_checkpoint_fits
from planner.spot.policy.curve_cache import CurveCache
from planner.spot.policy.run import SpotRun
from planner.units import GB, HOUR, MONTH_HOURS

if TYPE_CHECKING:
    from planner.audit.context import AuditContext
    from planner.audit.hours import RecomputedHours
    from planner.audit.physics import RecomputedPhysics
    from planner.audit.stages import JobStages
    from planner.spot.policy.cost_curve import CurvePoint

_FINE_BILLING_HOURS = 0.1
"""Longest billing step of a market that a policy is made for."""
_MAX_RUN_RATIO = 1000.0
"""Times the run, or the restart where that is longer: a market on which it takes so long is not used."""
_TIME_TOLERANCE = 1e-6
"""Relative, of a guaranteed time: points of a curve lie much further apart."""


@dataclass(frozen=True)
class RecomputedPolicyRun:
    """The run of a plan on its market, and the point of the curve at the time that the plan guarantees."""

    run: SpotRun
    states: SpotStates
    point: CurvePoint
    on_demand_outside_run_hours: float  # rented outside the run, its starts not among them: on demand

    def hours(self, hours: RecomputedHours, stretch: float) -> RecomputedHours:
        """Return the hours of the job with those of the policy: whatever share it takes, they are all its own."""
        outside, run = self.on_demand_outside_run_hours, self.point.hours * stretch * hours.late
        pair = (self.point.finish_hours, run)
        return replace(hours, outside_run=(outside, outside * hours.late), on_demand=pair, spot=pair)

    def disk_hours(self, late: float, stretch: float) -> float:
        """Return hours that disks are paid for: of a late run, not of one that takes all the time it may."""
        return (self.on_demand_outside_run_hours + self.point.finish_hours * stretch) * late

    def report(self, context: AuditContext, stages: JobStages) -> SpotPlan:
        """Return the policy as a plan reports it; what an hour is worth to the user is on no bill."""
        run, states, point, values = self.run, self.states, self.point, context.values("stages")
        prior = f"up {values['spot_mean_up_hours']:g} h, available {values['spot_availability']:.0%} of the time"
        needed, storage = run.work_hours + run.restart_hours, _storage_usd_per_hour(context, stages)
        paid = point.usd - (run.standing_usd_per_hour - storage) * point.finish_hours
        return SpotPlan(
            guaranteed_hours=point.hours,
            latest_on_demand_hours=stages.prepare + stages.separate_hours("ingest") + point.hours - needed,
            saving_usd=needed * (run.on_demand_usd_per_hour + storage) - paid,
            hours_sd=point.finish_sd,
            luck_usd=paid - needed * (run.spot_usd_per_hour + storage),
            luck_hours=point.finish_hours - needed,
            **{name: getattr(point, name) for name in ("usd_sd", "interruptions", "wasted_hours", "waiting_hours")},
            checkpoint_interval_hours=run.interval_hours,
            restart_hours=run.restart_hours,
            last_checkpoint=run.last_checkpoint,
            availability=states.availability(),
            mean_up_hours=states.up.mean(),
            mean_outage_hours=states.down.mean(),
            basis="" if context.offer.spot else f"prior: {prior}",
        )


def market_ends(stages: JobStages, hours: RecomputedHours) -> bool:
    """Return whether a run on spot comes to an end at all."""
    return hours.wall_spot < _MAX_RUN_RATIO * max(stages.run, stages.restart)


def may_follow_policy(context: AuditContext, stages: JobStages) -> bool:
    """Return whether a policy is made for the run, on a market on which it ends.

    Cost is minimised, one run on an offer has both markets, of which none is ruled out, and use is billed finely.
    """
    offer, bounds = context.offer, context.limits.spot_share
    has_both = offer.has_spot and offer.usd_per_hour is not None and bounds.min < 1 and bounds.max >= 1
    is_fine = offer.billing.step_seconds / HOUR <= _FINE_BILLING_HOURS and not is_coarse(context, stages)
    by_cost = context.scenario.objective_kind == "cost"
    return by_cost and has_both and is_fine and context.job.trials.count == 1


def recompute_policy_run(
    context: AuditContext, stages: JobStages, physics: RecomputedPhysics
) -> RecomputedPolicyRun | None:
    """Return the policy at the time that the plan guarantees; None where the plan names none or none ends in time."""
    named = context.plan.spot
    if named is None:
        return None
    run, states, guaranteed = _run(context, stages, physics), _states(context), named.guaranteed_hours
    if not 0 < run.work_hours + run.restart_hours <= guaranteed * (1 + _TIME_TOLERANCE):
        return None
    (points,) = CurveCache().latest_points([(run, states, guaranteed * (1 + _TIME_TOLERANCE))])
    point = min(points, key=lambda one: abs(one.hours - guaranteed), default=None)
    return RecomputedPolicyRun(run, states, point, stages.outside_run_hours - stages.start) if point else None


def _states(context: AuditContext) -> SpotStates:
    """Return the market of all machines together: as the offer tells it by age, else its means in the usual shape."""
    told = context.offer.spot
    if told is not None and told.instances == context.machine.instances and told.up and told.outage:
        up, down = (Ages(one.ages_hours, one.ends_per_hour) for one in (told.up, told.outage))
        return SpotStates(up, down)
    group = group_market(context)
    return states_from_means(float(group.mean_up), float(group.mean_outage), DurationShape.of(context.values("spot")))


def _run(context: AuditContext, stages: JobStages, physics: RecomputedPhysics) -> SpotRun:
    """Return what the policy has to bring home. The hours of an observed run have its start among them."""
    job, offer, instances, coefficients = context.job, context.offer, context.machine.instances, context.stages
    stall, states = spot_stall_hours(context, physics), _states(context)
    saved = float(checkpoint_bytes(physics.setup.parts.states.trainable, coefficients))
    disk = job.storage_gb_per_second * GB
    written = float(checkpoint_seconds(saved, instances, disk, float("inf"), coefficients))
    notice = offer.spot.notice_seconds if offer.spot else None
    is_warned = last_checkpoint_fits((offer.spot_notice_seconds if notice is None else notice) or 0.0, written)
    share = context.values("stages")["interval_share_of_young"]
    return SpotRun(
        work_hours=stages.run - stages.restart if context.observed else stages.run,
        restart_hours=stages.restart,
        stall_hours=stall,
        interval_hours=checkpoint_interval(stall, states, share, is_warned),
        spot_usd_per_hour=(offer.spot_usd_per_hour or 0.0) * instances,
        on_demand_usd_per_hour=(offer.usd_per_hour or 0.0) * instances,
        standing_usd_per_hour=_storage_usd_per_hour(context, stages) + context.scenario.value_of_time_usd_per_hour,
        last_checkpoint=is_warned,
    )


def _storage_usd_per_hour(context: AuditContext, stages: JobStages) -> float:
    """Return dollars an hour of all that the machines of the run keep on disks."""
    return (context.offer.fees.storage_usd_per_gb_month or 0.0) / MONTH_HOURS * stages.disk_gb
