"""Wall clock and odds of one job: hours in each market, expected and late, and drawn runs on spot.

The policy is found by the same pass as the planner's, which tests compare with replays. Run and market are made anew.

Tests compare the drawn runs with replays that share nothing with them.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from planner import generation
from planner.estimates.stage_seconds import (
    NodeGroupCoefficients,
    SpotAvailability,
    checkpoint_bytes,
    checkpoint_seconds,
    interrupted_run,
    node_group_market,
    wall_quantile_factor,
)
from planner.estimates.uncertainty import RANGE_TOP, confidence_factor
from planner.evaluation.evaluated_physics import EvaluatedPhysics, RunContext, is_same
from planner.evaluation.evaluated_stages import JobStages, copy_stall_seconds
from planner.results.plan import Assignment
from planner.results.plan_parts import SpotPlan
from planner.scenario.job import MAX_CONFIDENCE
from planner.scenario.limits import may_pause
from planner.scenario.naming import zone_prices
from planner.scenario.offer import fee_rate
from planner.spot.drawn_runs import PolicyCosts, draw_dollars, max_waiting_price, spot_only_hours, told_of_runs
from planner.spot.luck import speed_ranks
from planner.spot.policy_cache import CurvePoint, PolicyCache
from planner.spot.run import SpotRun, checkpoint_interval, last_checkpoint_fits
from planner.spot.states import Ages, DurationShape, SpotStates, states_from_means, states_of_zones
from planner.spot.switching_policy import RULE_MOMENTS, WaitingRule
from planner.units import GB, HOUR, MONTH_HOURS

if TYPE_CHECKING:
    from collections.abc import Sequence


if TYPE_CHECKING:
    Physics = EvaluatedPhysics | generation.EvaluatedReplicas

_COARSE_STEP = 0.05  # billing steps up to this share of the run are not rounded
_FINE_STEP_HOURS = 1 / 60  # nor steps up to a minute anywhere; the share counts where there is a spot market
_FINE_BILLING_HOURS = 0.1  # longest billing step of a market that a policy is made for
_MAX_RUN_RATIO = 1000.0  # times the run, or the restart where that is longer: a slower market is not used
_TIME_TOLERANCE = 1e-6  # relative, of a guaranteed time: points of a curve lie much further apart
Pair = tuple[float, float]  # a figure as expected, and at the asked confidence with the run in full


@dataclass(frozen=True)
class EvaluatedHours:
    """Wall hours of all the work in each market."""

    outside_run: Pair  # machines rented, before and after the run
    separate_machines: Pair  # stages on machines of their own
    on_demand: Pair
    spot: Pair  # the switch included
    switch: float  # one more start; 0 where the run is on spot alone
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


def evaluate_hours(context: RunContext, stages: JobStages, physics: Physics, confidence: float) -> EvaluatedHours:
    """Return all hours of the job, its stages given, late ones at a confidence."""
    values = context.values("stages")
    late = float(confidence_factor(physics.sigmas.tail, confidence))
    market, group = group_market(context), NodeGroupCoefficients.of(values)
    stall, write = spot_checkpoint_hours(context, physics)
    # A lost replica loses half of a request in the mean, and needs no other machine.
    lost = stages.restart + (0.0 if isinstance(physics, EvaluatedPhysics) else physics.cycle_hours / 2)
    interrupted = interrupted_run(stages.run, lost, stall, market, group, values["spot_outage_cv"], write)
    is_alone = context.offer.usd_per_hour is None or (context.named.spot_share >= 1 and context.named.policy is None)
    switch = 0.0 if is_alone else stages.start  # nothing is moved
    wall, outside = float(interrupted.wall), stages.outside_run_hours
    spread = wall_quantile_factor(confidence, context.values("uncertainty")["wall_spread"])
    separate = math.fsum(stage.machine.hours for stage in stages.separate)
    return EvaluatedHours(
        outside_run=(outside, outside * late),
        separate_machines=(separate, math.fsum(stage.late_hours for stage in stages.separate) * late),
        on_demand=(stages.run, stages.run * late * stages.stretch),
        spot=(wall + switch, wall * late * spread * stages.stretch + switch * late),
        switch=switch,
        paid_spot=float(interrupted.paid),
        wall_spot=wall,
        late=late,
    )


def group_market(context: RunContext) -> SpotAvailability:
    """Return how the machines of one run come and go together: as the offer states it, else as the prior has it."""
    values, statistics = context.values("stages"), context.offer.spot
    group = NodeGroupCoefficients.of(values)
    up, share = values["spot_mean_up_hours"], values["spot_availability"]
    if statistics is not None:
        # The statistics are of so many machines; wanted are those of one.
        up = statistics.mean_up_hours * statistics.instances**group.gang_rate_exponent
        share = min(1.0, statistics.availability * statistics.instances**-group.gang_availability_exponent)
    return node_group_market(up, share, _lost_together(context) * (1 if statistics else context.prior_hosts), group)


def _lost_together(context: RunContext) -> int:
    """Return the machines that need one another: all of a training run, one of generation."""
    return context.machine.instances if context.job.trains else 1


def spot_checkpoint_hours(context: RunContext, physics: Physics) -> tuple[float, float]:
    """Return the stall and the full write of a checkpoint that interruptions make necessary; generation has none."""
    if not isinstance(physics, EvaluatedPhysics):
        return 0.0, 0.0
    saved = float(checkpoint_bytes(physics.setup.inputs.states.trainable, context.stages))
    disk = context.job.storage_gb_per_second * GB
    written = float(checkpoint_seconds(saved, context.machine.instances, disk, math.inf, context.stages))
    return copy_stall_seconds(context, physics, saved) / HOUR, written / HOUR


def evaluate_resume(context: RunContext, stages: JobStages, physics: Physics) -> float:
    """Return the hours that a pause costs: a checkpoint is written and the run starts again; 0 where none may pause."""
    plan = context.named
    if plan.is_reserved or not may_pause(
        context.job, context.offer, context.scenario.limits, plan.spot_share, is_coarse(context, stages)
    ):
        return 0.0
    # Checkpoint and start are those of an interruption on spot.
    return stages.restart + spot_checkpoint_hours(context, physics)[1]


def is_coarse(context: RunContext, stages: JobStages) -> bool:
    """Return whether the billing step or minimum is too large to be left out of the sums."""
    billing = context.offer.billing
    smallest = _COARSE_STEP * stages.run if context.offer.has_spot else _FINE_STEP_HOURS
    return billing.step_seconds / HOUR > smallest or billing.minimum_hours > stages.outside_run_hours + stages.run


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


@dataclass(frozen=True)
class EvaluatedPolicyRun:
    """The run of a plan on its market, and the point of the curve at the time that the plan guarantees."""

    run: SpotRun
    states: SpotStates
    point: CurvePoint
    rule: WaitingRule
    on_demand_outside_run_hours: float  # rented outside the run, its starts not among them: on demand
    moved_gb: float  # to other regions, at each loss of machines on average
    storage_usd_per_hour: float

    def hours(self, hours: EvaluatedHours, stretch: float) -> EvaluatedHours:
        """Return the hours of the job with those of the policy: whatever share it takes, they are all its own."""
        outside, run = self.on_demand_outside_run_hours, self.point.hours * stretch * hours.late
        pair = (self.point.finish_hours, run)
        return replace(hours, outside_run=(outside, outside * hours.late), on_demand=pair, spot=pair)

    def disk_hours(self, late: float, stretch: float) -> float:
        """Return hours that disks are paid for: of a late run, not of one that takes all the time it may."""
        return (self.on_demand_outside_run_hours + self.point.finish_hours * stretch) * late

    def report(self, context: RunContext, stages: JobStages) -> SpotPlan:
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
            outage_usd=paid - needed * (run.spot_usd_per_hour + storage),
            outage_hours=point.finish_hours - needed,
            **{name: getattr(point, name) for name in ("usd_sd", "interruptions", "wasted_hours", "waiting_hours")},
            waiting_usd_per_hour=self._waiting_usd_per_hour(context),
            **self._rule(context),
            checkpoint_interval_hours=run.interval_hours,
            restart_hours=run.restart_hours,
            last_checkpoint=run.last_checkpoint,
            availability=states.availability(),
            mean_up_hours=states.up.mean(),
            mean_outage_hours=states.down.mean(),
            zones=zone_prices(context.offer),
            basis=_basis(context, "" if context.offer.spot else f"prior: {prior}"),
        )

    def _rule(self, context: RunContext) -> dict[str, float | None]:
        """Return when the run takes a spot machine: what the plan names, as far as it is a step or one next to it."""
        named, run = context.named.policy, self.run
        after, at_once = self.rule.take_after_up_hours, self.rule.take_at_once_from_hours
        if named is not None and named.rule is not None:
            latest = max(0.0, named.guaranteed_hours - run.work_hours - run.restart_hours)
            moments = [latest * number / RULE_MOMENTS for number in range(RULE_MOMENTS)]
            after = _named_step(after, named.rule.take_after_up_hours, self.states.up.begins)
            at_once = _named_step(at_once, named.rule.take_at_once_from_hours, moments)
        return {"take_after_up_hours": after, "take_at_once_from_hours": at_once}

    def _waiting_usd_per_hour(self, context: RunContext) -> float:
        """Return the price of waiting that the plan names, as far as it may: that of the limits, or one up to 2 %."""
        given, named = context.scenario.limits.waiting_usd_per_hour, context.named.policy
        if given is not None or named is None or not context.scenario.waits_less:
            return given or 0.0
        return min(named.waiting_usd_per_hour, max_waiting_price(self.run))


def _named_step(expected: float | None, named: float | None, steps: Sequence[float]) -> float | None:
    """Return the named value where it is the expected step or a neighbour; None is the step after the last.

    The last digit of the speed, which the search computes for many rows at once, may move a rule by a step.
    """

    def place(value: float | None) -> float:
        if value is None:
            return len(steps)
        nearest = min(range(len(steps)), key=lambda number: abs(steps[number] - value))
        return nearest if abs(steps[nearest] - value) <= _TIME_TOLERANCE * max(1.0, value) else math.inf

    return named if abs(place(named) - place(expected)) <= 1 else expected


def _basis(context: RunContext, alone: str) -> str:
    """Return what the market of the plan rests on: of a group of zones, what is known of one and a rule."""
    zones, known = len(context.offer.zones), alone or "as the offer states it"
    return f"{known} in one zone; any of {zones} zones by m^0.7 (prior)" if zones > 1 else alone


def fixed_share_run(context: RunContext, stages: JobStages, physics: Physics) -> tuple[SpotRun, SpotStates] | None:
    """Return run and market where a job is on spot for a fixed share of its work, or for all; None elsewhere."""
    if not context.offer.has_spot or context.named.spot_share <= 0:
        return None
    # What an hour is worth is on no bill, and nothing is decided by it.
    return replace(
        _run(context, stages, physics), standing_usd_per_hour=_storage_usd_per_hour(context, stages)
    ), spot_states(context)


def market_ends(stages: JobStages, hours: EvaluatedHours) -> bool:
    """Return whether a run on spot comes to an end at all."""
    return hours.wall_spot < _MAX_RUN_RATIO * max(stages.run, stages.restart)


def can_follow_policy(context: RunContext, stages: JobStages) -> bool:
    """Return whether a policy can be made for the run: one run in both markets whose use is billed finely."""
    offer, bounds = context.offer, context.scenario.limits.spot_share
    has_both = offer.has_spot and offer.usd_per_hour is not None and bounds.min < 1 and bounds.max >= 1
    is_fine = offer.billing.step_seconds / HOUR <= _FINE_BILLING_HOURS and not is_coarse(context, stages)
    return has_both and is_fine and context.job.trials.count == 1


def evaluate_policy_run(context: RunContext, stages: JobStages, physics: Physics) -> EvaluatedPolicyRun | None:
    """Return the policy at the time that the plan guarantees; None where the plan names none or none ends in time."""
    named = context.named.policy
    if named is None:
        return None
    run, states, guaranteed = _run(context, stages, physics), spot_states(context), named.guaranteed_hours
    if not 0 < run.work_hours + run.restart_hours <= guaranteed * (1 + _TIME_TOLERANCE):
        return None
    policies, searched = PolicyCache(), context.searched
    if searched is not None and is_same((run, states), (searched.run, searched.states)):
        run, states, policies = searched.run, searched.states, searched.policies
    (point,), (rule,) = policies.best_points([(run, states, guaranteed)]), policies.rules([(run, states, guaranteed)])
    moved_gb, _ = moved_to_other_regions(context, physics)
    storage = _storage_usd_per_hour(context, stages)
    return EvaluatedPolicyRun(run, states, point, rule, stages.outside_run_hours - stages.start, moved_gb, storage)


def spot_states(context: RunContext) -> SpotStates:
    """Return the market of all machines together: as the offer tells it by age, else its means in the usual shape."""
    given, values = context.offer.spot, context.values("spot")
    if given and given.up and given.outage and given.instances == _lost_together(context):
        up, outage = (Ages(durations.ages_hours, durations.ends_per_hour) for durations in (given.up, given.outage))
        alone = SpotStates(up, outage, given.another_zone)
    else:
        group = group_market(context)
        alone = states_from_means(float(group.mean_up), float(group.mean_outage), DurationShape.of(values))
    return states_of_zones(alone, max(1, len(context.offer.zones)), values["zone_exponent"])


def moved_to_other_regions(context: RunContext, physics: Physics) -> tuple[float, float]:
    """Return the GB that all machines copy for each loss of one of them, on average, and the hours of one copy."""
    regions = [name.partition("/")[0] for name, _ in context.offer.zones]
    pairs = [(region, other) for at, region in enumerate(regions) for other in regions[:at]]
    share = sum(region != other for region, other in pairs) / len(pairs) if pairs else 0.0
    saved = 0.0  # a replica has no state to keep
    if isinstance(physics, EvaluatedPhysics):
        saved = float(checkpoint_bytes(physics.setup.inputs.states.trainable, context.stages)) / GB
    gb, rate = share * (saved + context.job.data_gb), context.download_rate_of(context.offer)
    return gb * context.machine.instances / _lost_together(context), gb * GB / rate / HOUR


def _run(context: RunContext, stages: JobStages, physics: Physics) -> SpotRun:
    """Return what the policy has to bring home. The hours of an observed run have its start among them."""
    offer, instances, states = context.offer, context.machine.instances, spot_states(context)
    stall, write = spot_checkpoint_hours(context, physics)
    notice = offer.spot.notice_seconds if offer.spot else None
    noticed = (offer.spot_notice_seconds if notice is None else notice) or 0.0
    if not isinstance(physics, EvaluatedPhysics):  # requests that end within the notice are not lost
        interval, is_warned = physics.cycle_hours, last_checkpoint_fits(noticed, physics.cycle_hours * HOUR)
    else:
        share = context.values("stages")["interval_share_of_young"]
        is_warned = last_checkpoint_fits(noticed, write * HOUR)
        interval = checkpoint_interval(stall, states, share, write, is_warned)
    hourly = fee_rate(offer.fees, "machine hours") or 0.0
    waiting = context.named.policy.waiting_usd_per_hour if context.named.policy else 0.0
    valued = context.scenario.value_of_time_usd_per_hour + waiting
    moved_gb, moving_hours = moved_to_other_regions(context, physics)
    return SpotRun(
        work_hours=stages.run - stages.restart if context.observed else stages.run,
        restart_hours=stages.restart,
        stall_hours=stall,
        interval_hours=interval,
        spot_usd_per_hour=((offer.spot_usd_per_hour or 0.0) + hourly) * instances,
        on_demand_usd_per_hour=((offer.usd_per_hour or 0.0) + hourly) * instances,
        standing_usd_per_hour=_storage_usd_per_hour(context, stages) + valued,
        last_checkpoint=is_warned,
        write_hours=write,
        hop_usd=moved_gb * (fee_rate(offer.fees, "GB out") or 0.0),
        hop_hours=moving_hours,
    )


def _storage_usd_per_hour(context: RunContext, stages: JobStages) -> float:
    """Return dollars an hour of all that the machines of the run keep on disks."""
    return (fee_rate(context.offer.fees, "GB on disk") or 0.0) / MONTH_HOURS * stages.disk_gb


_SPEEDS, _LUCKS = 8, 16  # rows and columns of the cases that a plan states
Cases = tuple[tuple[float, ...], ...]


def usd_of_policy(
    context: RunContext,
    stages: JobStages,
    policy: EvaluatedPolicyRun,
    hours: EvaluatedHours,
    sigma: float,
    fixed_usd: float,
) -> tuple[float, Cases]:
    """Return the dollars of a policy at the confidence of the budget, and those in equally likely cases.

    `hours` at the confidence of the job end with the guarantee; slower runs have what these leave.
    """
    run, storage, outside = policy.run, policy.storage_usd_per_hour, policy.on_demand_outside_run_hours
    costs = PolicyCosts(
        run=run,
        states=policy.states,
        guaranteed_hours=policy.point.hours,
        sigma=sigma,
        stretch=stages.stretch,
        late_hours=hours.total(1.0, is_late=True),
        outside_hours=outside + math.fsum(stage.late_hours for stage in stages.separate),
        outside_usd=outside * (run.on_demand_usd_per_hour + storage)
        + math.fsum(stage.late_usd for stage in stages.separate),
        storage_usd_per_hour=storage,
        fixed_usd=fixed_usd,
    )
    if context.searched is not None and is_same(costs, context.searched.costs):
        costs = context.searched.costs
    (usd,) = draw_dollars([costs])
    return told_of_runs(usd, context.scenario.limits.budget_confidence)


@dataclass(frozen=True)
class FixedShareFigures:
    """Hours and dollars of a run that is on spot up to an hour, and then on demand, or on spot alone."""

    alone_hours: float  # expected, on spot alone
    late_hours: float
    late_usd: float
    usd: Cases
    hours: Cases
    middle_hours: tuple[float, float]  # between which 80 % of the runs end
    middle_usd: tuple[float, float]


def fixed_share_figures(
    context: RunContext,
    stages: JobStages,
    run: SpotRun,
    states: SpotStates,
    switch_hours: float,
    sigma: float,
    extra_usd: float,
) -> FixedShareFigures:
    """Return the figures over drawn markets and speeds.

    `switch_hours` count from the order of the first machines; `extra_usd` does not depend on market or speed.
    """
    slow = [float(factor) for factor in confidence_factor(sigma, speed_ranks())]
    after, groups = stages.outside_run_hours - stages.start, context.job.trials.at_once
    separate = math.fsum(stage.late_hours for stage in stages.separate)
    share, storage = context.named.spot_share, run.standing_usd_per_hour * groups
    mixed = share * run.spot_usd_per_hour + ((1 - share) * run.on_demand_usd_per_hour if share < 1 else 0.0)
    outside = after * (mixed * groups + storage) + math.fsum(stage.late_usd for stage in stages.separate)
    used = stages.all_groups_hours / stages.run
    drawn = spot_only_hours(
        run, states, np.asarray([factor * stages.stretch * run.work_hours for factor in slow]), switch_hours
    )
    machines = drawn.paid * run.spot_usd_per_hour
    if math.isfinite(switch_hours):
        machines = machines + drawn.on_demand * run.on_demand_usd_per_hour
    draws = list(zip(slow, drawn.wall.tolist(), machines.tolist(), strict=True))
    hours = [factor * (after + separate) + wall for factor, wall, _ in draws]
    usd = [extra_usd + factor * outside + paid * used + wall * storage for factor, wall, paid in draws]
    usual = spot_only_hours(run, states, np.full(len(slow), run.work_hours)).wall.tolist() if share == 1 else [math.inf]
    return FixedShareFigures(
        after + math.fsum(stage.machine.hours for stage in stages.separate) + math.fsum(usual) / len(usual),
        _quantile(hours, context.job.confidence),
        _quantile(usd, context.scenario.limits.budget_confidence),
        _cases(usd),
        _cases(hours),
        *((_quantile(draws, 1 - RANGE_TOP), _quantile(draws, RANGE_TOP)) for draws in (hours, usd)),
    )


def finish_chance(cases: Cases, limit: float, late: float, confidence: float) -> float:
    """Return the chance of ending within a limit: at least the confidence where the hours at it are."""
    drawn_share = _share_below(sorted(itertools.chain.from_iterable(cases)), limit)
    return min(MAX_CONFIDENCE, max(drawn_share, confidence if late <= limit else 0.0))


def _quantile(figures: Sequence[float], probability: float) -> float:
    return sorted(figures)[max(math.ceil(probability * len(figures) - 1e-9), 1) - 1]


def _cases(usd: Sequence[float]) -> Cases:
    """Return means of equally many runs: by speed, at each speed by dollars."""
    runs, rows = len(usd) // _SPEEDS, []
    for speed in range(_SPEEDS):
        ordered, size = sorted(usd[speed * runs : (speed + 1) * runs]), runs // _LUCKS
        rows.append(tuple(math.fsum(ordered[at : at + size]) / size for at in range(0, runs, size)))
    return tuple(rows)


def budget_odds(
    jobs: Sequence[Assignment], confidence: float, paid: float, budget: float | None
) -> tuple[float | None, float | None]:
    """Return dollars of all jobs at the confidence and the probability of the budget; None where no job has luck.

    `paid` are dollars beside the jobs. Jobs on one market (provider, region, card) are unlucky in the same runs.
    """
    lucky = [job for job in jobs if job.usd_of_runs]
    if not lucky:
        return None, None
    markets = sorted({(job.provider, job.region, job.gpu) for job in lucky})
    every: list[float] = []
    for speed in range(_SPEEDS):
        sums, sure = [paid], [job for job in jobs if not job.usd_of_runs]
        rows_of = [[_at_speed(job, speed, confidence) for job in sure]] if sure else []
        rows_of += [
            [job.usd_of_runs[speed] for job in lucky if (job.provider, job.region, job.gpu) == market]
            for market in markets
        ]
        for rows in rows_of:
            both = sorted(total + math.fsum(column) for total in sums for column in zip(*rows, strict=True))
            size = max(1, len(both) // _LUCKS)
            sums = [sum(both[at : at + size]) / size for at in range(0, len(both), size)]
        every += [total for total in sums for _ in range(_LUCKS // len(sums))]
    every.sort()
    place = min(max(confidence * len(every) - 0.5, 0.0), len(every) - 1.0)
    low = min(math.floor(place), len(every) - 2)
    late = every[low] * (low + 1 - place) + every[low + 1] * (place - low)
    added = paid + math.fsum(job.cost_at_confidence for job in jobs)
    if len(jobs) == 1:
        late = added
    elif len(markets) == 1:  # what each needs is needed in the same runs
        late = min(late, added)
    if budget is None:
        return late, None
    return late, min(MAX_CONFIDENCE, max(_share_below(every, budget), confidence if late <= budget else 0.0))


def around(expected: float, middle: tuple[float, float]) -> tuple[float, float]:
    """Return the interval, widened where need be so that it holds what is expected."""
    return min(expected, middle[0]), max(expected, middle[1])


def _share_below(ordered: Sequence[float], limit: float) -> float:
    """Return the share of equally likely cases up to a limit, between two of them in proportion."""
    count = len([value for value in ordered if value <= limit])
    if 0 < count < len(ordered):
        between = (limit - ordered[count - 1]) / (ordered[count] - ordered[count - 1])
        return (count - 0.5 + between) / len(ordered)
    return count / len(ordered)


def _at_speed(job: Assignment, speed: int, confidence: float) -> tuple[float, ...]:
    """Return the dollars of a job without luck over the ranks of one speed: its error goes as Student's t."""
    if confidence == 0.5 or not job.cost_at_confidence > job.cost_usd > 0:
        return (job.cost_at_confidence,) * _LUCKS

    def student(rank: float) -> float:
        rank = max(1 - MAX_CONFIDENCE, min(MAX_CONFIDENCE, rank))
        return (2 * rank - 1) / math.sqrt(2 * rank * (1 - rank))

    scale = math.log(job.cost_at_confidence / job.cost_usd) / student(confidence)
    first, step = speed / _SPEEDS, 1 / (_SPEEDS * _LUCKS)
    return tuple(job.cost_usd * math.exp(scale * student(first + (place + 0.5) * step)) for place in range(_LUCKS))
