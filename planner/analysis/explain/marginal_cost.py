"""Where cost rises or falls hour by hour: a plan that mixes markets gives way by its spot share before its machines.

Along a slope every share is a plan of its own, so it is told as a rate and where it ends, not as a step of a cent.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from planner.analysis.explain.baseline import Baseline, build_step
from planner.errors import ScenarioError
from planner.results.explanation import LimitSensitivity
from planner.solving.infeasibility.relaxations import (
    HOURS_STEP,
    SHARE_STEP,
    USD_STEP,
    LimitChange,
    round_up,
    setting_path,
)
from planner.solving.resolve import ResolvedPlan, describe_candidate, try_solve, with_deadline, with_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SAME_SHARE = 1e-6
"""Spot shares that differ by less are one."""


def marginal_cost(now: Baseline, trial: ResolvedPlan, change: LimitChange) -> LimitSensitivity | None:
    """The looser step from the present plan to `trial` as the slope that it begins, to its end; None where it is none.

    It is one where the same machines do more of the work in the other market.
    """
    old, new = change.old, change.new
    if isinstance(new, str) or isinstance(old, str) or not _same_machines(trial, now.trial):
        return None
    end = _search_range(now, change.limit)
    if end is None:
        return None
    step, far = end
    sign = 1 if new > old else -1
    unit = "h" if change.limit.endswith(".deadline") else ""
    place = setting_path(change.limit, now.prepared.scenario)

    def at(count: int) -> tuple[ResolvedPlan | None, LimitChange]:
        value = round(new + sign * count * step, 6)
        tried = replace(change, new=value, setting=f"{place}={value:.10g}{unit}")
        try:
            return now.better(with_settings(now.prepared, [tried.setting])), tried
        except ScenarioError:
            return None, tried

    count = _last(round((far - new) * sign / step), lambda n: _along(at(n)[0], now))
    last, tried = at(count) if count > 0 else (trial, change)
    if last is None:
        return None
    made = build_step(now, last, tried).model_copy(update={"slope": True})
    if not change.limit.endswith((".deadline", "max_hours")):
        return made
    later = max(after - before for after, before in zip(last.late_hours, now.trial.late_hours, strict=True))
    rate = (now.trial.cost_usd - last.cost_usd) / later if later > 0 else None
    return made.model_copy(update={"usd_per_hour": rate})


def _along(trial: ResolvedPlan | None, now: Baseline) -> bool:
    return trial is not None and _same_machines(trial, now.trial)


def _last(most: int, holds: Callable[[int], bool]) -> int:
    """The largest count up to `most` at which it holds, by bisection; it holds at 0."""
    if most <= 0 or holds(most):
        return max(most, 0)
    low, high = 0, most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def _same_machines(one: ResolvedPlan, other: ResolvedPlan) -> bool:
    return _machines(one) == _machines(other)


def _machines(trial: ResolvedPlan) -> list[str]:
    jobs = zip(trial.prepared.candidates, trial.rows, strict=True)
    return [describe_candidate(candidates, row, 0.0, trial.prepared.market) for candidates, row in jobs]


def _search_range(now: Baseline, limit: str) -> tuple[float, float] | None:
    """In which steps the limit is moved, and the value beyond which the present machines gain no more."""
    trial, limits = now.trial, now.prepared.scenario.limits
    if limit.startswith("limits.spot_share."):
        return SHARE_STEP, 1.0 if limit.endswith("max") else 0.0
    late_hours, late_usd = [], []
    for candidates, row in zip(trial.prepared.candidates, trial.rows, strict=True):
        own = candidates.table.rows(np.asarray([row]))
        ends = own.share_low, np.minimum(own.share_high, limits.spot_share.max)
        late_hours.append(max(float(own.late_hours(end)[0]) for end in ends))
        late_usd.append(max(float(own.late_cost_usd(end)[0]) for end in ends))
    if limit == "limits.max_hours":
        return HOURS_STEP, round_up(max(late_hours), HOURS_STEP)
    if limit == "limits.budget_usd":
        return USD_STEP, round_up(sum(late_usd), USD_STEP)
    names = [f"jobs.{job.name}.deadline" for job in now.prepared.scenario.jobs]
    return (HOURS_STEP, round_up(late_hours[names.index(limit)], HOURS_STEP)) if limit in names else None


def tighten_deadline(now: Baseline, job: int) -> Iterator[LimitSensitivity]:
    """What a shorter deadline of one job costs: first by the hour, where the spot share gives way; then other machines.

    The second step is the longest deadline under which the job is run another way, and what comes then.
    """
    one = now.prepared.scenario.jobs[job]
    path = f"jobs.{one.name}.deadline"
    sloped = _least_on_slope(now, job)
    low, after = _end_of(now, job, sloped is not None)
    ends = round((low + 1) * HOURS_STEP, 2)
    place = setting_path(path, now.prepared.scenario)

    def to(trial: ResolvedPlan, hours: float) -> LimitSensitivity:
        change = LimitChange(path, one.deadline_hours or "none", hours, f"{place}={hours:.10g}h")
        return build_step(now, trial, change, "tighter").model_copy(update={"worth": "dollar"})

    starts = now.trial.late_hours[job]
    if sloped is not None:
        hours = max(ends, round_up(sloped, HOURS_STEP))
        last = try_solve(with_deadline(now.prepared, job, hours))
        if last is not None and starts - hours > HOURS_STEP:
            rate = (last.cost_usd - now.trial.cost_usd) / (starts - last.late_hours[job])
            yield to(last, hours).model_copy(update={"slope": True, "usd_per_hour": rate, "below": starts})
    if after is None:
        yield LimitSensitivity(
            worth="dollar",
            limit=path,
            direction="tighter",
            change_from=one.deadline_hours,
            note=f"nothing within the limits ends before {ends:,.10g} h at {one.confidence * 100:.3g} % confidence",
        )
        return
    note = f"the present {'machines end' if sloped is not None else 'plan ends'} at {ends:,.10g} h"
    yield to(after, round(low * HOURS_STEP, 2)).model_copy(update={"below": ends, "note": note})


def _least_on_slope(now: Baseline, job: int) -> float | None:
    """Least late hours of the job's present row over its spot shares; None where a smaller share is not sooner."""
    mine = now.trial.chosen.rows(np.asarray([job]))
    share, low = now.trial.shares[job], float(mine.share_low[0])
    least = float(mine.late_hours(low)[0])
    return least if share > low + SAME_SHARE and least < now.trial.late_hours[job] - HOURS_STEP else None


def _end_of(now: Baseline, job: int, sloped: bool) -> tuple[int, ResolvedPlan | None]:
    """The longest deadline (in steps) at which the job is run another way, and the plan there; by bisection.

    On a slope only other machines are another way, else also the other market.
    """
    mine = _label(now.trial, job, sloped)
    high = math.ceil(now.trial.late_hours[job] / HOURS_STEP - 1e-6)  # the present way is best here
    low = min(high - 1, math.ceil(_least_hours(now, job) / HOURS_STEP - 1e-6) - 1)  # and impossible here

    def at(steps: int) -> ResolvedPlan | None:
        return try_solve(with_deadline(now.prepared, job, steps * HOURS_STEP)) if steps > 0 else None

    after = at(low)
    while high - low > 1:
        middle = (low + high) // 2
        tried = at(middle)
        if tried is None or _label(tried, job, sloped) != mine:
            low, after = middle, tried
        else:
            high = middle
    return low, after


def _label(trial: ResolvedPlan, job: int, sloped: bool) -> tuple[str, bool]:
    """What a person would call another way: machine, place, method, and off a slope the market of most of the work."""
    return _machines(trial)[job], not sloped and trial.shares[job] >= 0.5


def _least_hours(now: Baseline, job: int) -> float:
    """Least late hours of any row on the machines of the job's present way."""
    one, trial = now.prepared.candidates[job], now.trial
    table, row = one.table, trial.rows[job]
    alike = (table.provider == table.provider[row]) & (table.gpus == table.gpus[row])
    mine = table.rows(alike)
    hours = np.where(mine.share_low <= 0, mine.late_hours(0.0), np.inf)
    hours = np.minimum(hours, np.where(mine.share_high >= 1, mine.late_hours(1.0), np.inf))
    return min(float(np.min(hours)), trial.late_hours[job])
