"""What plans are compared by: dollars with penalties and the value of time, or hours at the asked confidence."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from planner.candidate_table import ON_DEMAND, SPOT, CandidateTable

if TYPE_CHECKING:
    from planner.arrays import Floats
    from planner.scenario.scenario import Scenario

MIN_GAIN_USD, MIN_GAIN_SHARE = 0.01, 0.001
"""A plan is better where it saves a cent and a thousandth of the objective: less is not worth a decision."""
MIN_GAIN_HOURS = 0.05
"""A plan is faster where it saves what reads as a tenth of an hour."""
ROUNDING = 1e-9
"""Relative, of a share at which a budget is spent."""


@dataclass(frozen=True)
class Objective:
    """The objective of a scenario, for single ways and in words."""

    by_time: bool = False
    usd_per_hour: float = 0.0
    has_penalties: bool = False
    budget_usd: float = math.inf  # at the asked confidence; infinite where several jobs share it

    @property
    def waiting_usd(self) -> float | None:
        """Dollars that an hour of waiting is worth where cost is minimised; None where hours are: spot saves none."""
        return None if self.by_time else self.usd_per_hour

    @classmethod
    def of(cls, scenario: Scenario) -> Objective:
        """The measure of a scenario."""
        budget = scenario.limits.budget_usd
        return cls(
            by_time=scenario.objective_kind == "time",
            usd_per_hour=scenario.value_of_time_usd_per_hour,
            has_penalties=any(any(job.techniques.penalty_usd.values()) for job in scenario.jobs),
            budget_usd=math.inf if budget is None or len(scenario.jobs) > 1 else budget,
        )

    def values(self, table: CandidateTable, share: Floats | float) -> Floats:
        """The objective (n,) of every row at a spot share."""
        if self.by_time:
            return table.late_hours(share)
        return table.cost_usd(share) + table.penalty_usd + self.usd_per_hour * table.hours(share)

    def best(self, table: CandidateTable) -> tuple[Floats, Floats]:
        """The least objective (n,) of each row over its spot shares, and that share; infinite beyond the budget."""
        best = np.full(len(table), np.inf)
        share = table.share_low.copy()
        for end in (table.share_low, table.share_high, self._spent(table)):
            paid = table.late_cost_usd(end) <= self.budget_usd * (1 + ROUNDING)
            value = np.where(paid, self.values(table, end), np.inf)
            share = np.where(value < best, end, share)
            best = np.minimum(best, value)
        return best, share

    def _spent(self, table: CandidateTable) -> Floats:
        """The share (n,) at which the budget is spent, where there is one."""
        if math.isinf(self.budget_usd):
            return table.share_low
        at = table.fixed_usd + table.late_usd[:, ON_DEMAND]
        with np.errstate(invalid="ignore", divide="ignore"):
            share = (self.budget_usd - at) / (table.late_usd[:, SPOT] - table.late_usd[:, ON_DEMAND])
        return np.clip(np.where(np.isfinite(share), share, table.share_low), table.share_low, table.share_high)

    def min_gain(self, objective: float) -> float:
        """By how much a plan must be better than this objective to be worth telling."""
        return max(MIN_GAIN_HOURS if self.by_time else MIN_GAIN_USD, MIN_GAIN_SHARE * abs(objective))

    @property
    def formula(self) -> str:
        """Such as `cost + $0.50 per hour + penalties`; empty where plans are compared by plain dollars or hours."""
        if self.by_time or not (self.usd_per_hour or self.has_penalties):
            return ""
        hours = f" + ${self.usd_per_hour:,.2f} per hour" if self.usd_per_hour else ""
        return f"cost{hours}{' + penalties' if self.has_penalties else ''}"

    @property
    def comparatives(self) -> tuple[str, str, str]:
        """What less is called, what more is, and what many times as much is."""
        if self.by_time:
            return "faster", "slower", "slow"
        return ("better", "worse", "much") if self.formula else ("cheaper", "dearer", "dear")

    def saved(self, amount: float) -> str:
        """Such as `$0.40 less`, `$1.45 better` where more than dollars counts, or `3 min sooner`."""
        if self.by_time:
            return f"{amount * 60:.0f} min sooner" if amount < 0.1 else f"{amount:,.1f} h sooner"
        return f"${amount:,.{0 if amount >= 10_000 else 2}f} {'better' if self.formula else 'less'}"
