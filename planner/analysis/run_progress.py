"""How far a run is and how fast, from its logs; when it will end and what it will cost."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from statistics import stdev
from typing import TYPE_CHECKING

from planner.analysis.logged_steps import (
    MIN_TIMED_STEPS,
    STALL_SECONDS,
    Attempt,
    Interval,
    LogHistory,
    LogPoint,
    count_warm_up_steps,
    fault,
    resumed_remarks,
    split_attempts,
)
from planner.estimates.uncertainty import Sigmas, confidence_factor, interval, time_factors
from planner.evaluation.evaluate import AFTER_TERM, FIXED
from planner.evaluation.evaluated_hours import probability_within
from planner.results.plan import Assignment
from planner.results.plan_parts import Spread
from planner.results.run_results import Cause, ProjectedEnd
from planner.scenario.offer import fee_items
from planner.units import HOUR

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.scenario.limits import Limits


# How far a run is and how fast: its logs joined, its attempts distinguished, its pace with the noise.


BATCHES = 20
"""Groups of successive intervals whose means show how much a long stretch of steps varies (method of batch means)."""
UNRESOLVED_NOISE = 0.05
"""Spread of the mean pace of a run where its log does not time single steps: a guess."""


@dataclass(frozen=True)
class Pace:
    """Seconds of one step without warm-up and standstills; `steps` are those that are timed."""

    seconds: float
    spread: float | None
    """Standard deviation of ln(seconds) of one interval; None where only the whole run is timed."""
    batch_spread: float
    """The same of the mean of one batch of intervals."""
    batches: int
    steps: int
    warm_up_steps: int

    def noise(self, steps_left: int) -> float:
        """Return the spread of ln(mean pace of the steps left / observed mean): both means are of few batches.

        100 steps in 20 batches of spread 0.04, 100 steps left: 0.04 * sqrt(1 / 20 + 1 / 20) = 0.013.
        """
        steps_per_batch = self.steps / self.batches
        return self.batch_spread * math.sqrt(1.0 / self.batches + steps_per_batch / max(steps_left, 1))


@dataclass(frozen=True)
class Progress:
    """What the logs of a run say of it, whatever the plan; hours are wall hours."""

    steps: int
    attempts: int
    repeated_steps: int
    """Steps that were done again after a restart."""
    standing_hours: float
    """Between attempts, and within them where nothing advanced; of attempts only where clock times are logged."""
    run_hours: float | None
    """From the first to the last logged step; None where nothing is timed."""
    pace: Pace | None
    times_steps_alone: bool
    """Whether the log states seconds of steps, without evaluation and checkpoints between them."""
    first_clock: float | None
    """Seconds since the epoch when training began, by the first logged step."""
    last_clock: float | None
    diverged_at: int | None
    """First step of the last attempt whose loss is no number, if its last one is none either."""
    last_loss: float | None
    remarks: tuple[str, ...]


def join_logs(histories: Sequence[LogHistory]) -> LogHistory:
    """Return the log of steps of a run; logs of several attempts are joined in the order of their first steps.

    `InputError` where none has a step.
    """
    stepped = [history for history in histories if history.points]
    if not stepped:
        first = histories[0]
        raise fault(first.file, 1, "says nothing of steps", "add the log of the run itself")
    ordered = sorted(stepped, key=_order)
    last = ordered[-1]
    if len(ordered) == 1:
        return last
    # A state file repeats the history of the attempts before it: the longest one says it all.
    kept = [history for history in ordered if not _is_part(history, ordered)]
    return last.__class__(
        **{
            **vars(last),
            "file": ", ".join(history.file for history in kept),
            "points": tuple(point for history in kept for point in history.points),
            "remarks": tuple(remark for history in kept for remark in history.remarks),
            "total_steps": next((history.total_steps for history in reversed(kept) if history.total_steps), None),
        }
    )


def _order(log: LogHistory) -> tuple[float, int, int]:
    clock = next((point.clock for point in log.points if point.clock is not None), 0.0)
    return clock, log.points[-1].step, len(log.points)


def _is_part(inner: LogHistory, others: Sequence[LogHistory]) -> bool:
    """Whether another log has every point of this one; of equal logs, such as those of two ranks, the first stays."""
    place = next(number for number, log in enumerate(others) if log is inner)
    return any(
        other is not inner and (len(other.points), place) > (len(inner.points), number) and _is_within(inner, other)
        for number, other in enumerate(others)
    )


def _is_within(inner: LogHistory, other: LogHistory) -> bool:
    """Whether another log has each step of this one with the same figure: the first kind that both state."""
    for name in ("loss", "elapsed", "clock", "step"):
        mine, theirs = (
            {(point.step, getattr(point, name)) for point in log.points if getattr(point, name) is not None}
            for log in (inner, other)
        )
        if mine and theirs:
            return mine <= theirs
    return False


def read_progress(log: LogHistory) -> Progress:
    """Return the progress that a log of steps shows."""
    attempts = split_attempts(log.points, log.resolution_seconds)
    last = attempts[-1]
    clocks = [point.clock for point in log.points if point.clock is not None]
    pace = _pace(attempts) or _whole_pace(log)
    gaps = [
        after.points[0].clock - before.points[-1].clock
        for before, after in pairwise(attempts)
        if after.points[0].clock is not None and before.points[-1].clock is not None
    ]
    standing = math.fsum(max(0.0, gap) for gap in gaps)
    standing += math.fsum(stall.seconds - stall.steps * pace.seconds for at in attempts for stall in at.stalls if pace)
    standing += math.fsum(_unexplained(attempt) for attempt in attempts)
    return Progress(
        steps=last.last_step,
        attempts=len(attempts),
        repeated_steps=sum(max(0, a.last_step - _resumed_at(b)) for a, b in pairwise(attempts)),
        standing_hours=standing / HOUR,
        run_hours=_run_hours(log, attempts, clocks, pace),
        pace=pace,
        times_steps_alone=any(point.seconds is not None for point in log.points),
        first_clock=_began(attempts[0], pace),
        last_clock=max(clocks, default=None),
        diverged_at=_diverged_at(last.points),
        last_loss=next((p.loss for p in reversed(last.points) if p.loss is not None and not p.is_diverged), None),
        remarks=(*log.remarks, *_remarks(attempts)),
    )


def _unexplained(attempt: Attempt) -> float:
    """Return the seconds in which an attempt stood still between steps whose own time the log states."""
    seconds = 0.0
    for before, after in pairwise(attempt.points):
        if after.seconds is not None and after.clock is not None and before.clock is not None:
            more = after.clock - before.clock - after.seconds * (after.step - before.step)
            seconds += more if more > STALL_SECONDS else 0.0
    return seconds


def _resumed_at(attempt: Attempt) -> int:
    """Return the step that an attempt went on from: one logging interval before its first logged step."""
    if len(attempt.points) < 2:
        return attempt.first_step - 1
    return max(0, attempt.first_step - (attempt.points[1].step - attempt.first_step))


def _pace(attempts: Sequence[Attempt]) -> Pace | None:
    """Return the mean pace of all attempts, each without its warm-up; None with too few timed steps."""
    kept: list[Interval] = []
    warm = 0
    for attempt in attempts:
        count = (
            count_warm_up_steps([interval.pace for interval in attempt.intervals]) if len(attempt.intervals) > 1 else 0
        )
        warm += sum(interval.steps for interval in attempt.intervals[:count])
        kept += attempt.intervals[count:]
    steps = sum(timed.steps for timed in kept)
    if len(kept) < MIN_TIMED_STEPS:
        every = [interval for attempt in attempts for interval in attempt.intervals]
        steps = sum(timed.steps for timed in every)
        if steps < MIN_TIMED_STEPS:
            return None
        seconds = math.fsum(timed.seconds for timed in every) / steps
        return Pace(seconds, None, UNRESOLVED_NOISE, 1, steps, 0)
    seconds = math.fsum(timed.seconds for timed in kept) / steps
    batches = [_mean(part) for part in _parts(kept, min(BATCHES, len(kept)))]
    return Pace(
        seconds=seconds,
        spread=stdev(math.log(timed.pace) for timed in kept),
        batch_spread=stdev(math.log(batch) for batch in batches),
        batches=len(batches),
        steps=steps,
        warm_up_steps=warm,
    )


def _whole_pace(log: LogHistory) -> Pace | None:
    """Return the mean pace of a run that only its end times."""
    if log.whole is None or log.whole[0] < MIN_TIMED_STEPS or log.whole[1] <= 0:
        return None
    return Pace(log.whole[1] / log.whole[0], None, UNRESOLVED_NOISE, 1, log.whole[0], 0)


def _parts(intervals: Sequence[Interval], count: int) -> list[Sequence[Interval]]:
    ends = [round(len(intervals) * n / count) for n in range(count + 1)]
    return [intervals[start:end] for start, end in pairwise(ends)]


def _mean(part: Sequence[Interval]) -> float:
    return math.fsum(timed.seconds for timed in part) / sum(timed.steps for timed in part)


def _began(attempt: Attempt, pace: Pace | None) -> float | None:
    """Return the clock time at which the first step began."""
    first = attempt.points[0]
    if first.clock is None:
        return None
    before = first.elapsed if first.elapsed is not None else first.step * pace.seconds if pace else 0.0
    return first.clock - before


def _run_hours(
    log: LogHistory, attempts: Sequence[Attempt], clocks: Sequence[float], pace: Pace | None
) -> float | None:
    began = _began(attempts[0], pace)
    if began is not None and len(clocks) > 1:
        return max(0.0, max(clocks) - began) / HOUR
    timed = math.fsum(span.seconds for at in attempts for span in (*at.intervals, *at.stalls))
    if log.whole is not None and log.whole[1] > timed:
        return log.whole[1] / HOUR
    if not timed and pace is None:
        return None
    unseen = attempts[-1].last_step - sum(span.steps for at in attempts for span in (*at.intervals, *at.stalls))
    return (timed + max(0, unseen) * (pace.seconds if pace else 0.0)) / HOUR


def _diverged_at(points: Sequence[LogPoint]) -> int | None:
    lost = [point for point in points if point.loss is not None]
    if not lost or not lost[-1].is_diverged:
        return None
    first = lost[-1].step
    for point in reversed(lost):
        if not point.is_diverged:
            break
        first = point.step
    return first


def _remarks(attempts: Sequence[Attempt]) -> list[str]:
    remarks = resumed_remarks(attempts)
    jumps = sum(attempt.jumps_back for attempt in attempts)
    if jumps:
        remarks.append(f"the clock of the log goes back {jumps} times: those intervals are not timed")
    stalls = sum(len(attempt.stalls) for attempt in attempts)
    if stalls:
        remarks.append(f"{stalls} gaps of ten times the usual pace are not part of it: the run stood still")
    return remarks


# When a run will end and what it will cost, from its progress and its plan.
#
# The pace of the steps that are left is that of the plan corrected by what was observed: both are estimates of
# ln(pace), weighted by the inverse squares of their spreads. So a few noisy steps change little, and many steady ones
# all.


BEFORE_STAGES, BETWEEN_STAGES = ("prepare data",), ("evaluation", "checkpoints")
"""Stages of a plan before the first step, and in between steps; the others follow the last step."""
PAID_AT_THE_END = fee_items("GB out", "GB kept")
"""Fixed lines of a bill that are due after the last step."""
LEAST_SPREAD = 1e-4
"""Spread of a pace that is known as well as can be."""


@dataclass(frozen=True)
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


def after_term_usd(job: Assignment, from_hours: float, to_hours: float) -> float:
    """Return the dollars by the hour between two hours of a run for what lies beyond the terms of its commitment."""
    if (term := job.commitment) is None:
        return 0.0
    stated = next((line.rate_usd for line in job.bill if line.item == AFTER_TERM), None)
    begin, end = (max(0.0, job.instances * hours - term.term_hours) for hours in (from_hours, to_hours))
    return (end - begin) * (stated or term.on_demand_usd_per_hour or 0.0)


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
        return planned, max(job.sigma_in_tails, LEAST_SPREAD)
    return weighted_pace(planned, job.sigma_in_tails, observed, pace.noise(left))


def weighted_pace(planned: float, prior: float, observed: float, noise: float) -> tuple[float, float]:
    """Return the pace by plan and observation with their spreads of ln(pace), and the spread of its ln."""
    noise, prior = max(noise, LEAST_SPREAD), max(prior, LEAST_SPREAD)
    weight = prior**2 / (prior**2 + noise**2)
    mean = weight * math.log(observed) + (1.0 - weight) * math.log(planned)
    return math.exp(mean), noise * prior / math.hypot(noise, prior)


def end_of(
    job: Assignment, projection: Projection, elapsed_hours: float, spent_usd: float, confidence: float
) -> ProjectedEnd:
    """Return the end of a job that has run for some hours and cost some dollars."""
    # Below the median the error is narrower than in its tails, as much as that of the plan is.
    of_both = job.sigma / job.sigma_in_tails if job.sigma_in_tails else 1.0
    low, high = (float(factor) for factor in time_factors(Sigmas(projection.sigma * of_both, projection.sigma)))
    hours = interval(projection.left_hours, projection.least_hours, (low, high), projection.market_sd_hours)
    usd = interval(projection.left_usd, 0.0, (low, high), projection.market_sd_usd)
    return ProjectedEnd(
        hours=Spread(
            expected=elapsed_hours + projection.left_hours, low=elapsed_hours + hours[0], high=elapsed_hours + hours[1]
        ),
        cost=Spread(expected=spent_usd + projection.left_usd, low=spent_usd + usd[0], high=spent_usd + usd[1]),
        deadline_probability=_on_time(job, projection, elapsed_hours, confidence),
        left_hours=projection.left_hours,
    )


def _on_time(job: Assignment, projection: Projection, elapsed_hours: float, confidence: float) -> float | None:
    """Return the probability of the deadline.

    A run that follows a policy moves to on demand in time on every path of the market, so only the error of its pace
    counts; else the spread of the market adds to it.
    """
    if job.deadline_hours is None:
        return None
    left = job.deadline_hours - elapsed_hours
    if left <= 0 or projection.left_hours <= 0:
        return 1.0 if left >= 0 and projection.left_hours <= 0 else 0.0
    hours = projection.least_hours if job.spot is not None else projection.left_hours
    factor = float(confidence_factor(projection.sigma, confidence))
    late = hours + math.hypot(hours * (factor - 1.0), 0.0 if job.spot is not None else projection.market_sd_hours)
    return probability_within(left, hours, late, confidence)


def budget_note(limits: Limits, likely_usd: float, late_usd: float) -> list[str]:
    """Return that the cost at the confidence of the budget, which a plan keeps within it, is above it."""
    budget, sure = limits.budget_usd, limits.budget_confidence
    if budget is None or late_usd <= budget:
        return []
    risk = f"the budget of ${budget:,.2f} is at risk: ${late_usd:,.2f} at its confidence of {100 * sure:.3g} %"
    return [f"{risk}, likely ${likely_usd:,.2f}"]


def causes_of(
    job: Assignment, progress: Progress, projection: Projection, elapsed_hours: float, end: ProjectedEnd
) -> tuple[Cause, ...]:
    """Return the parts of the difference between projected and planned hours; they add up."""
    planned, factor = planned_step_seconds(job), market_factor(job)
    observed = observed_step_seconds(job, progress) or planned
    left = max(0, job.steps - progress.steps)
    slower = (progress.steps * (observed - planned) + left * (projection.pace_seconds - planned) * factor) / HOUR
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
    return tuple(Cause(what=cause, hours=hours) for cause, hours in parts.items())
