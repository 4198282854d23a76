"""The limits of a scenario with a job of reinforcement learning: what each way uses of them, which keep them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from planner.records import record
from planner.scenario.limits import given_peaks, max_run_hours
from planner.solving.infeasibility.relaxations import BUDGET, HOURS_STEP, USD_STEP, LimitChange, round_up, setting_path

if TYPE_CHECKING:
    from planner.arrays import Flags, Floats
    from planner.reinforcement.rl_solve import RlSearch
    from planner.scenario.limits import Limits
    from planner.scenario.scenario import Scenario

LIMIT_TOLERANCE = 1e-9
"""Relative, by which what machines use at one time may differ by rounding."""


@record(frozen=True)
class RlLimit:
    """A limit in numbers, and what each way (n,) uses of it."""

    path: str
    most: float
    """What the scenario gives, or the default."""
    used: Floats
    step: float
    """A new value is rounded up to a multiple of it."""
    unit: str = ""
    tolerance: float = 0.0
    settable: bool = True
    """Whether a setting of the scenario moves it: the stock of an offer has none."""

    @property
    def kept(self) -> Flags:
        """Return the ways (n,) that keep it."""
        return np.asarray(self.used <= self.most * (1.0 + self.tolerance))

    def value_for(self, used: float) -> float:
        """Return the least value that can be typed and that allows so much."""
        if self.step >= 1.0:
            return float(math.ceil(used - 1e-6))
        if self.tolerance:  # what a value allows up to the tolerance needs no larger one
            return round(math.ceil(used / self.step * (1.0 - self.tolerance)) * self.step, 6)
        return round_up(used, self.step)

    def change(self, used: float, scenario: Scenario) -> LimitChange:
        """Return the change of a scenario that allows so much."""
        new = self.value_for(used)
        setting = f"{setting_path(self.path, scenario)}={new:.10g}{self.unit}"
        return LimitChange(self.path, self.most, new, setting)


def limits_of(search: RlSearch, limits: Limits | None = None) -> list[RlLimit]:
    """Return the limits of the scenario, or of others than the search was made with; with the longest run's default."""
    ways, job = search.ways, search.job
    limits = search.scenario.limits if limits is None else limits
    longest = max_run_hours(job, limits)
    found = [RlLimit("limits.max_hours", longest, ways.late_hours, HOURS_STEP)]
    if job.deadline_hours is not None and job.planned_deadline_hours is not None:
        kept_back = job.deadline_hours - job.planned_deadline_hours
        used = ways.late_hours + kept_back
        found.append(RlLimit(f"jobs.{job.name}.deadline", job.deadline_hours, used, HOURS_STEP, "h", LIMIT_TOLERANCE))
    if limits.budget_usd is not None:
        found.append(RlLimit(BUDGET, limits.budget_usd, ways.late_usd, USD_STEP))
    for limit, most in given_peaks(limits):
        used = search.rent if limit.is_of_dollars else search.used_at_once(search.market.market.use_of(limit))
        step = USD_STEP if limit.is_of_dollars else limit.step or 1.0
        found.append(RlLimit(limit.path, most, used, step, tolerance=LIMIT_TOLERANCE))
    offers = search.market.market.offers
    for provider, quota in limits.quota.items():
        gpus = np.asarray([offer.gpus if offer.provider == provider else 0.0 for offer in offers])
        found.append(RlLimit(f"limits.quota.{provider}", quota, search.used_at_once(gpus), 1.0))
    return [*found, RlLimit("stock", 0.0, _beyond_stock(search), 1.0, settable=False)]


def _beyond_stock(search: RlSearch) -> Floats:
    """Return the machines (n,) of a way that its offers do not have."""
    ways = search.ways
    stock = np.asarray([math.inf if offer.stock is None else offer.stock for offer in search.market.market.offers])
    both = ways.is_apart & (ways.trainer.offer == ways.rollout.offer)
    used = ways.trainer.instances + both * ways.rollout.instances
    return np.asarray(np.maximum(used - stock[ways.trainer.offer], 0.0))


def within(limits: list[RlLimit], count: int, *without: str) -> Flags:
    """Return the ways (count,) that keep all limits but those named."""
    flags = [limit.kept for limit in limits if limit.path not in without]
    return np.asarray(np.logical_and.reduce(flags)) if count else np.zeros(0, dtype=bool)


def least_change(
    search: RlSearch, limits: list[RlLimit], moved: RlLimit, goal: float
) -> tuple[LimitChange, int] | None:
    """Return the least change of one limit at which a way reaches a goal of the objective, and the best way then.

    All other limits hold; None where no way reaches it at any value. A goal of infinity: any way.
    """
    able = within(limits, len(search.ways), moved.path) & (search.objective <= goal)
    if not moved.settable or not able.any():
        return None
    change = moved.change(float(moved.used[able].min()), search.scenario)
    allowed = within(limits, len(search.ways), moved.path) & (moved.used <= float(change.new) * (1.0 + moved.tolerance))
    return change, int(np.argmin(np.where(allowed, search.objective, math.inf)))
