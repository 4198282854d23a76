"""Hours and dollars of jobs on spot over speeds and markets: cases and quantiles of drawn runs.

Tests compare the drawn runs with replays that share nothing with them.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

import numpy as np

from planner.estimates.uncertainty import confidence_factor
from planner.evaluation.evaluated_hours import EvaluatedHours, EvaluatedPolicyRun
from planner.evaluation.evaluated_stages import JobStages
from planner.evaluation.named_run import RunContext, is_same
from planner.records import record
from planner.results.plan import Assignment
from planner.scenario.job import MAX_CONFIDENCE
from planner.spot.market.states import SpotStates
from planner.spot.policy.luck import speed_ranks
from planner.spot.policy.policy_odds import PolicyCosts, draw_dollars, told_of_runs
from planner.spot.policy.run import SpotRun
from planner.spot.policy.spot_only import spot_only_hours

if TYPE_CHECKING:
    from collections.abc import Sequence

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


@record(frozen=True)
class FixedShareFigures:
    """Hours and dollars of a run that is on spot up to an hour, and then on demand, or on spot alone."""

    alone_hours: float  # expected, on spot alone
    late_hours: float
    late_usd: float
    usd: Cases
    hours: Cases


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
    each = list(zip(slow, drawn.wall.tolist(), machines.tolist(), strict=True))
    hours = [factor * (after + separate) + wall for factor, wall, _ in each]
    usd = [extra_usd + factor * outside + paid * used + wall * storage for factor, wall, paid in each]
    usual = spot_only_hours(run, states, np.full(len(slow), run.work_hours)).wall.tolist() if share == 1 else [math.inf]
    return FixedShareFigures(
        after + math.fsum(stage.machine.hours for stage in stages.separate) + math.fsum(usual) / len(usual),
        _quantile(hours, context.job.confidence),
        _quantile(usd, context.scenario.limits.budget_confidence),
        _cases(usd),
        _cases(hours),
    )


def finish_chance(cases: Cases, limit: float, late: float, confidence: float) -> float:
    """Return the chance of ending within a limit: at least the confidence where the hours at it are."""
    found = _share_below(sorted(itertools.chain.from_iterable(cases)), limit)
    return min(MAX_CONFIDENCE, max(found, confidence if late <= limit else 0.0))


def _quantile(figures: Sequence[float], probability: float) -> float:
    return sorted(figures)[max(math.ceil(probability * len(figures) - 1e-9), 1) - 1]


def _cases(usd: Sequence[float]) -> Cases:
    """Return means of equally many runs: by speed, at each speed by dollars."""
    each, rows = len(usd) // _SPEEDS, []
    for speed in range(_SPEEDS):
        ordered, size = sorted(usd[speed * each : (speed + 1) * each]), each // _LUCKS
        rows.append(tuple(math.fsum(ordered[at : at + size]) / size for at in range(0, each, size)))
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


def middle_cases(cases: Cases, expected: float) -> tuple[float, float]:
    """Return the ends of the middle 80 % of equally likely cases, which hold what is expected."""
    ordered = sorted(itertools.chain.from_iterable(cases))

    def at(share: float) -> float:
        below, between = divmod(share * len(ordered) - 0.5, 1)
        return ordered[int(below)] + between * (ordered[int(below) + 1] - ordered[int(below)])

    return min(expected, at(0.1)), max(expected, at(0.9))


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
