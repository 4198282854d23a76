"""Predictions of cost curves compared with replays on markets drawn at random."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator

from benchmarks.spot.judge import SLACKS, states_of
from benchmarks.spot.samplers import batch_hit_probability, lognormal_draw, sample_node_group, weibull_draw
from benchmarks.spot.zones import SEED
from planner.spot.policy_cache import PolicyCache
from planner.spot.replayed_runs import Replays, replay
from planner.spot.run import SpotRun, checkpoint_interval
from planner.spot.states import Ages, Paths, SpotStates, Trace, sample_paths, sample_states
from planner.spot.switching_policy import best_policy
from planner.units import DAY_HOURS, HOUR

RUNS = 1000
"""Replays of one market."""
TICK_HOURS = 1 / 30
"""Two minutes."""
WATCHED_DAYS = 365
"""Length of the trace to which a market of another form is fitted: long, because only the form is judged here."""
LIMITS = {"drawn from age bands": 5.0, "log-normal": 10.0, "Weibull": 10.0, "batch losses": 10.0}
"""Percent by which replayed mean cost may differ from the predicted."""
OUTSIDE = 15
"""Markets of each form that is not made of age bands."""

Sample = Callable[[int, int, Generator], Paths]
"""`sample(runs, ticks, rng)`."""


@dataclass(frozen=True)
class Check:
    """One market: predicted and replayed."""

    form: str
    usd_error: float  # relative
    usd_standard_error: float  # relative, of the replayed mean
    hours_error: float  # relative, of the mean end of a run
    share_error: float  # of the work on spot: points from 0 to 1
    met: float  # share of runs that met the deadline; promised is all


def check_markets(markets: int, outside: int = OUTSIDE) -> list[Check]:
    """Check `markets` markets drawn from age bands, and `outside` of each other form."""
    checks = []
    for number in range(markets):
        rng = np.random.default_rng([SEED, 1, number])
        states = SpotStates(_bands(rng, _log_uniform(rng, 1, 12)), _bands(rng, _log_uniform(rng, 0.3, 4)))
        checks.append(_check("drawn from age bands", states, rng, _from_states(states)))
    for form in ("log-normal", "Weibull", "batch losses"):
        for number in range(outside):
            rng = np.random.default_rng([SEED, 2, number, len(form)])
            sample = _sampler(form, rng)
            watched = sample(1, round(WATCHED_DAYS * DAY_HOURS / TICK_HOURS), rng).up[0]
            runs = Trace(form, TICK_HOURS * HOUR, watched.astype(np.int64)).runs(1, with_first=False)
            checks.append(_check(form, states_of([runs], TICK_HOURS), rng, sample))
    return checks


def _check(form: str, states: SpotStates, rng: Generator, sample: Sample) -> Check:
    """Compare prediction and replay of one run drawn at random on one market."""
    run, deadline = _run(rng, states)
    # The point that a plan would take of the curves that plans are priced with.
    (point,) = PolicyCache().best_points([(run, states, deadline)])
    policy = best_policy(run, states, point.hours, tick_hours=TICK_HOURS)
    paths = sample(RUNS, math.ceil(deadline / TICK_HOURS), rng)
    found: Replays = replay(policy, run, paths.up, TICK_HOURS, deadline, age_hours=paths.age_hours)
    mean = float(found.usd.mean())
    return Check(
        form=form,
        usd_error=mean / point.usd - 1,
        usd_standard_error=float(found.usd.std()) / mean / math.sqrt(RUNS),
        hours_error=float(found.hours.mean()) / point.finish_hours - 1,
        share_error=float(found.spot_share.mean()) - point.spot_share,
        met=float(found.met.mean()),
    )


def _run(rng: Generator, states: SpotStates) -> tuple[SpotRun, float]:
    """Draw a run of 8 to 48 h with checkpoints and a deadline; half of them lose unsaved work."""
    stall = _log_uniform(rng, 2, 120) / HOUR
    work = float(rng.uniform(8, 48))
    run = SpotRun(
        work_hours=work,
        restart_hours=float(rng.uniform(2, 20)) / 60,
        stall_hours=stall,
        interval_hours=checkpoint_interval(stall, states, 0.7),
        spot_usd_per_hour=float(rng.uniform(0.2, 0.7)),
        on_demand_usd_per_hour=1.0,
        standing_usd_per_hour=float(rng.choice([0.0, 0.02])),
        last_checkpoint=bool(rng.random() < 0.5),
    )
    return run, max(work * float(rng.choice(SLACKS)), work + 4 * run.restart_hours)


def _bands(rng: Generator, mean: float) -> Ages:
    """Draw two age bands of about a mean, the young two to ten times as likely to end as the old."""
    ratio, begin = float(rng.uniform(2, 10)), mean * float(rng.uniform(0.1, 0.5))
    base = Ages((0.0, begin), (ratio, 1.0))
    scale = base.mean() / mean  # a first guess; the mean need not be hit
    return Ages((0.0, begin), (ratio * scale, scale))


def _from_states(states: SpotStates) -> Sample:
    """Return a sampler of paths of a market of these states."""
    return lambda n, t, r: sample_states(states, n, t, TICK_HOURS, r)


def _sampler(form: str, rng: Generator) -> Sample:
    """Return a sampler of paths of a market of this form, its figures drawn at random."""
    up, down = _log_uniform(rng, 1, 12), _log_uniform(rng, 0.3, 4)
    variation = float(rng.uniform(1.2, 2.5))
    if form == "batch losses":
        size = int(rng.choice([2, 4, 8]))
        gap = lognormal_draw(up * batch_hit_probability(size), variation)
        return lambda n, t, r: sample_node_group(size, gap, lognormal_draw(down, variation), n, t, TICK_HOURS, r)
    draw = {"log-normal": lognormal_draw, "Weibull": weibull_draw}[form]
    return lambda n, t, r: sample_paths(draw(up, variation), draw(down, variation), n, t, TICK_HOURS, r)


def _log_uniform(rng: Generator, low: float, high: float) -> float:
    """Draw a number between two limits, uniform on a log scale."""
    return float(np.exp(rng.uniform(math.log(low), math.log(high))))


def unit_rows(checks: list[Check]) -> list[dict[str, Any]]:
    """Return a row per form of market."""
    rows = []
    for form, limit in LIMITS.items():
        some = [check for check in checks if check.form == form]
        errors = 100 * np.abs([check.usd_error for check in some])
        rows.append(
            {
                "form": form,
                "markets": len(some),
                "runs_each": RUNS,
                "limit_percent": limit,
                "median_error_percent": float(np.median(errors)),
                "worst_error_percent": float(errors.max()),
                "within_limit": int((errors <= limit).sum()),
                "mean_bias_percent": float(100 * np.mean([check.usd_error for check in some])),
                "worst_hours_error_percent": float(100 * max(abs(check.hours_error) for check in some)),
                "worst_share_error_points": float(100 * max(abs(check.share_error) for check in some)),
                "least_met_percent": float(100 * min(check.met for check in some)),
            }
        )
    return rows
