"""Statistics of replays: the jobs of a plan together, policies against the offline optimum, distributions."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from planner.analysis.simulation.job_replay import JobOutcome, ReplayedJob
from planner.analysis.simulation.job_runs import JobRun
from planner.arrays import Flags, Floats
from planner.records import record
from planner.results.plan import Assignment
from planner.results.simulation import OPTIMUM, PLANNED, Distribution, Histogram, PlanPrediction, PolicyFigures

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

HISTOGRAM_BINS = 60
HISTOGRAM_TAIL_PERCENT = 0.5
"""Percent of the runs at either end that the first and last bin of a histogram take in."""
DEADLINE_TOLERANCE_HOURS = 1e-6
"""Hours that rounding may make of a run that ends at its deadline."""


@record(frozen=True)
class PlanOutcome(JobOutcome):
    """All jobs of a plan together; `met`: (runs,) whether each deadline was, None where there is none."""

    met: Flags | None


def combine_jobs(
    job_runs: Sequence[JobRun], outcomes: Mapping[str, Sequence[JobOutcome]], fixed_usd: float = 0.0
) -> dict[str, PlanOutcome]:
    """Return the whole plan by policy: dollars and interruptions add up, the last end is the end.

    `fixed_usd` is paid beside the jobs, for reservations.
    """
    found = {name: _combine_policy(job_runs, several) for name, several in outcomes.items()}
    return {name: replace(outcome, usd=outcome.usd + fixed_usd) for name, outcome in found.items()}


def outcomes_by_policy(replayed: Sequence[ReplayedJob]) -> dict[str, list[JobOutcome]]:
    """Return the outcomes of all jobs by policy; a job to which a policy does not apply stays as planned."""
    names = dict.fromkeys(name for each in replayed for name in each.outcomes)
    return {name: [each.outcomes.get(name, each.outcomes[PLANNED]) for each in replayed] for name in names}


def _combine_policy(job_runs: Sequence[JobRun], several: Sequence[JobOutcome]) -> PlanOutcome:
    jobs = [job_run.job for job_run in job_runs]
    weights = np.asarray([max(1, job.gpus) * job.runs_at_once * job.hours.expected for job in jobs])
    on_time = [
        outcome.done & (outcome.hours <= job.deadline_hours + DEADLINE_TOLERANCE_HOURS)
        for job, outcome in zip(jobs, several, strict=True)
        if job.deadline_hours is not None
    ]
    added = ("usd", "interruptions", "wasted_hours", "waiting_hours")
    return PlanOutcome(
        **{name: np.sum([getattr(outcome, name) for outcome in several], axis=0) for name in added},
        hours=np.max([outcome.hours for outcome in several], axis=0),
        spot_share=np.average([outcome.spot_share for outcome in several], axis=0, weights=weights),
        done=np.all([outcome.done for outcome in several], axis=0),
        met=np.all(on_time, axis=0) if on_time else None,
    )


def summarise_outcome(whole: PlanOutcome) -> dict[str, Any]:
    """Return the fields of `Figures`."""
    means = ("spot_share", "interruptions", "wasted_hours", "waiting_hours")
    return {
        "cost_usd": distribution(whole.usd),
        "hours": distribution(whole.hours),
        "deadline_hit_rate": None if whole.met is None else float(np.mean(whole.met)),
        **{name: float(np.mean(getattr(whole, name))) for name in means},
    }


def compare_policies(
    job_runs: Sequence[JobRun], replayed: Sequence[ReplayedJob], whole: Mapping[str, PlanOutcome]
) -> dict[str, PolicyFigures]:
    """Return every policy with its cost above the offline optimum, which comes last.

    The optimum is known for the first runs only. There its distance to the plan is taken, whose mean over all runs is
    known (control variate): this errs much less than the mean of the optimum over a few runs.
    """
    pairs = list(zip(job_runs, replayed, strict=True))
    if all(replay.optimum is None for replay in replayed):
        whole_plan = summarise_outcome(whole[PLANNED])
        return {PLANNED: PolicyFigures(**whole_plan, usd_over_optimum=None, share_over_optimum=None)}
    below = math.fsum(  # of the optimum under the plan, in the objective
        float(np.mean(_objective_values(job_run, replay, PLANNED)[: replay.optimum.size] - replay.optimum))
        for job_run, replay in pairs
        if replay.optimum is not None
    )
    means = {name: math.fsum(float(np.mean(_objective_values(*pair, name))) for pair in pairs) for name in whole}
    least = means[PLANNED] - below
    found = {
        name: PolicyFigures(
            **summarise_outcome(outcome),
            usd_over_optimum=means[name] - least,
            share_over_optimum=(means[name] - least) / least if least > 0 else None,
        )
        for name, outcome in whole.items()
    }
    paid = None if any(job_run.waiting_usd for job_run in job_runs) else _optimum_cost(replayed, least)
    found[OPTIMUM] = PolicyFigures(cost_usd=paid, usd_over_optimum=0.0, share_over_optimum=0.0)
    return found


def _objective_values(job_run: JobRun, replayed: ReplayedJob, name: str) -> Floats:
    """Return the objective of the plan, (runs,): dollars plus the value of the hours."""
    one = replayed.outcomes.get(name, replayed.outcomes[PLANNED])
    return np.asarray(one.usd + job_run.waiting_usd * one.hours)


def _optimum_cost(replayed: Sequence[ReplayedJob], mean: float) -> Distribution:
    """Return the dollars of the offline optimum: quantiles of the first runs, with the mean over all."""
    first = min(replay.optimum.size for replay in replayed if replay.optimum is not None)
    usd = np.sum(
        [(replay.outcomes[PLANNED].usd if replay.optimum is None else replay.optimum)[:first] for replay in replayed],
        axis=0,
    )
    return distribution(usd).model_copy(update={"mean": mean})


def distribution(values: Floats) -> Distribution:
    """Return mean and quantiles of (runs,)."""
    p05, p50, p95 = np.percentile(values, (5, 50, 95)).tolist()
    return Distribution(mean=float(np.mean(values)), p05=p05, p50=p50, p95=p95)


def histogram(values: Floats) -> Histogram:
    """Return counts in `HISTOGRAM_BINS` bins of one width; one bin where all values are the same."""
    tail = HISTOGRAM_TAIL_PERCENT
    low, high = np.percentile(values, (tail, 100 - tail)).tolist()
    if high - low <= 1e-9 * abs(high):
        return Histogram(edges=(low, high), counts=(values.size,))
    counts, edges = np.histogram(np.clip(values, low, high), bins=HISTOGRAM_BINS, range=(low, high))
    return Histogram(edges=tuple(edges.tolist()), counts=tuple(counts.tolist()))


def build_prediction(jobs: Sequence[Assignment], fixed_usd: float = 0.0) -> PlanPrediction:
    """Return what a plan predicts for its jobs together; `fixed_usd` is paid beside them, for reservations."""
    chances = [job.deadline_probability for job in jobs if job.deadline_probability is not None]
    policies = [job.spot for job in jobs if job.spot is not None]
    known = all(job.spot is not None or job.spot_share <= 0 for job in jobs)
    weights = [max(1, job.gpus) * job.runs_at_once * job.hours.expected for job in jobs]
    sums = {
        name: math.fsum(getattr(policy, name) for policy in policies) if known else None
        for name in ("interruptions", "wasted_hours", "waiting_hours")
    }
    return PlanPrediction(
        cost_usd=fixed_usd + math.fsum(job.cost_usd for job in jobs),
        hours=max(job.delay_hours + job.hours.expected for job in jobs),
        # One error of the speed for all jobs: the least likely deadline is met no more rarely than all of them.
        deadline_probability=min(chances, default=None),
        at_least=bool(policies),
        spot_share=float(np.average([job.spot_share for job in jobs], weights=weights)),
        **sums,
    )
