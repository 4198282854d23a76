"""Wall clock of one job in each market: hours outside the run, of the run, late, and with interruptions on spot."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from planner.audit.stages import copy_stall_seconds
from planner.estimates.preemption import NodeGroupCoefficients, interrupted_run, node_group_market, wall_quantile_factor
from planner.estimates.time.stages import checkpoint_bytes
from planner.estimates.uncertainty import confidence_factor
from planner.scenario.job import MAX_CONFIDENCE
from planner.units import HOUR

if TYPE_CHECKING:
    from planner.audit.context import AuditContext
    from planner.audit.physics import RecomputedPhysics
    from planner.audit.stages import JobStages
    from planner.estimates.preemption import SpotAvailability

_COARSE_STEP = 0.05
"""Billing steps up to this share of the run are not rounded."""
_FINE_STEP_HOURS = 1 / 60
"""Billing steps up to a minute are not rounded anywhere; the share counts where there is a spot market."""


Pair = tuple[float, float]
"""A figure as expected, and at the asked confidence with the run in full."""


@dataclass(frozen=True)
class RecomputedHours:
    """Wall hours of all the work in each market."""

    outside_run: Pair  # machines rented, before and after the run
    separate_machines: Pair  # stages on machines of their own
    on_demand: Pair
    spot: Pair  # the switch included
    switch: float  # one more start; 0 where the machines are not sold on demand
    paid_spot: float  # machine hours of the longest chain of trials, starts left out
    wall_spot: float  # the switch left out
    late: float  # factor on hours at the confidence

    def rented(self, share: float, is_late: bool = False) -> float:
        """Return hours in which the job's machines are rented; a market that gets no work does not count."""
        on_demand, spot = self.on_demand[is_late], self.spot[is_late]
        mixed = (on_demand * (1 - share) if share < 1 else 0.0) + (spot * share if share > 0 else 0.0)
        return self.outside_run[is_late] + mixed

    def total(self, share: float, is_late: bool = False) -> float:
        """Return wall hours at a spot share."""
        return self.separate_machines[is_late] + self.rented(share, is_late)


def recompute_hours(context: AuditContext, stages: JobStages, physics: RecomputedPhysics) -> RecomputedHours:
    """Return all hours of the job, its stages given."""
    confidence, values = context.job.confidence, context.values("stages")
    late = float(confidence_factor(physics.sigmas.tail, confidence))
    interrupted = interrupted_run(
        stages.run,
        stages.restart,
        spot_stall_hours(context, physics),
        group_market(context),
        NodeGroupCoefficients.of(values),
        values["spot_outage_cv"],
    )
    switch = 0.0 if context.offer.usd_per_hour is None else stages.start
    wall, outside = float(interrupted.wall), stages.outside_run_hours
    spread = wall_quantile_factor(confidence, context.values("uncertainty")["wall_spread"])
    separate = math.fsum(one.machine.hours for one in stages.separate)
    return RecomputedHours(
        outside_run=(outside, outside * late),
        separate_machines=(separate, math.fsum(one.late_hours for one in stages.separate) * late),
        on_demand=(stages.run, stages.run * late * stages.stretch),
        spot=(wall + switch, wall * late * spread * stages.stretch + switch * late),
        switch=switch,
        paid_spot=float(interrupted.paid),
        wall_spot=wall,
        late=late,
    )


def group_market(context: AuditContext) -> SpotAvailability:
    """Return how the machines of one run come and go together: as the offer states it, else as the prior has it."""
    values, told = context.values("stages"), context.offer.spot
    group = NodeGroupCoefficients.of(values)
    up, share = values["spot_mean_up_hours"], values["spot_availability"]
    if told is not None:
        # The statistics are of so many machines; wanted are those of one.
        up = told.mean_up_hours * told.instances**group.gang_rate_exponent
        share = min(1.0, told.availability * told.instances**-group.gang_availability_exponent)
    return node_group_market(up, share, context.machine.instances, group)


def spot_stall_hours(context: AuditContext, physics: RecomputedPhysics) -> float:
    """Return the stall of a checkpoint that an interruption makes necessary."""
    saved = float(checkpoint_bytes(physics.setup.parts.states.trainable, context.stages))
    return copy_stall_seconds(context, physics, saved) / HOUR


def is_coarse(context: AuditContext, stages: JobStages) -> bool:
    """Return whether the billing step or minimum is too large to be left out of the sums."""
    billing = context.offer.billing
    smallest = _COARSE_STEP * stages.run if context.offer.has_spot else _FINE_STEP_HOURS
    too_long = billing.step_seconds / HOUR > smallest
    return too_long or billing.minimum_hours > stages.outside_run_hours + stages.run


def probability_within(limit: float | None, expected: float, late: float, confidence: float) -> float | None:
    """Return the chance that a figure stays within a limit, where it stays within `late` with the chance `confidence`.

    Late figures go as exp(scale * t), t the quantile of Student's t with 2 degrees of freedom.
    """
    if limit is None:
        return None
    if late <= expected or expected <= 0 or confidence == 0.5:
        return 1.0 if expected <= limit else 0.0
    quantile = (2 * confidence - 1) / math.sqrt(2 * confidence * (1 - confidence))
    t = math.log(limit / expected) / (math.log(late / expected) / quantile)
    return min(MAX_CONFIDENCE, 0.5 * (1 + t / math.sqrt(2 + t * t)))
