"""The objective of a scenario for single candidates: dollars with penalties and the value of time, or hours."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from planner.candidate_table import ON_DEMAND, SPOT, CandidateTable
from planner.records import record

if TYPE_CHECKING:
    from planner.arrays import Floats
    from planner.scenario.scenario import Scenario

MIN_GAIN_USD, MIN_GAIN_SHARE = 0.01, 0.001
"""A plan is better if it saves a cent and a thousandth of the objective: less is not worth a decision."""
MIN_GAIN_HOURS = 0.05
"""A plan is faster if it saves what rounds to a tenth of an hour."""
BUDGET_TOLERANCE = 1e-9
"""Relative, at the spot share at which a budget is spent."""


@record(frozen=True)
class CandidateObjective:
    """What a scenario minimises, as a value of each candidate and in words.

    The dollars are expected dollars with penalties and the value of time, the hours those at the requested
    confidence; `by_time` says which. The scenario's own `objective` is only the user's choice between the two.
    """

    by_time: bool = False
    usd_per_hour: float = 0.0
    has_penalties: bool = False
    budget_usd: float = math.inf  # at the requested confidence; infinite if several jobs share it

    @classmethod
    def of(cls, scenario: Scenario) -> CandidateObjective:
        """Return the objective of a scenario."""
        budget = scenario.limits.budget_usd
        return cls(
            by_time=scenario.objective_kind == "time",
            usd_per_hour=scenario.value_of_time_usd_per_hour,
            has_penalties=any(any(job.techniques.penalty_usd.values()) for job in scenario.jobs),
            budget_usd=math.inf if budget is None or len(scenario.jobs) > 1 else budget,
        )

    @property
    def waiting_usd(self) -> float | None:
        """Dollars that an hour of waiting is worth; None if hours are minimised, as spot saves none."""
        return None if self.by_time else self.usd_per_hour

    def values(self, table: CandidateTable, share: Floats | float) -> Floats:
        """Return the objective (n,) of every candidate at a spot share."""
        if self.by_time:
            return table.late_hours(share)
        return table.cost_usd(share) + table.penalty_usd + self.usd_per_hour * table.hours(share)

    def best(self, table: CandidateTable) -> tuple[Floats, Floats]:
        """Return the least objective (n,) of each candidate over its spot shares, and the share (n,) that has it.

        The objective is linear in the share, so that one of three points has its minimum: the floor, the cap, and
        the share at which the budget is spent. It is infinite if no share keeps the budget.
        """
        best = np.full(len(table), np.inf)
        share = table.share_low.copy()
        ends = [table.share_low, table.share_high]
        if not math.isinf(self.budget_usd):
            ends.append(self._share_at_budget(table))
        for end in ends:
            is_affordable = table.late_cost_usd(end) <= self.budget_usd * (1 + BUDGET_TOLERANCE)
            value = np.where(is_affordable, self.values(table, end), np.inf)
            share = np.where(value < best, end, share)
            best = np.minimum(best, value)
        return best, share

    def _share_at_budget(self, table: CandidateTable) -> Floats:
        """Return the spot share (n,) at which the budget is spent, the floor if there is none."""
        on_demand_usd = table.fixed_usd + table.late_usd[:, ON_DEMAND]
        with np.errstate(invalid="ignore", divide="ignore"):
            share = (self.budget_usd - on_demand_usd) / (table.late_usd[:, SPOT] - table.late_usd[:, ON_DEMAND])
        return np.clip(np.where(np.isfinite(share), share, table.share_low), table.share_low, table.share_high)

    def min_gain(self, objective: float) -> float:
        """Return by how much a plan must be better than this objective to be reported."""
        return max(MIN_GAIN_HOURS if self.by_time else MIN_GAIN_USD, MIN_GAIN_SHARE * abs(objective))

    @property
    def formula(self) -> str:
        """Such as `cost + $0.50 per hour + penalties`; empty if plans are compared by plain dollars or hours."""
        if self.by_time or not (self.usd_per_hour or self.has_penalties):
            return ""
        hours = f" + ${self.usd_per_hour:,.2f} per hour" if self.usd_per_hour else ""
        return f"cost{hours}{' + penalties' if self.has_penalties else ''}"

    @property
    def comparatives(self) -> tuple[str, str, str]:
        """The words for less, for more, and for many times as much."""
        if self.by_time:
            return "faster", "slower", "the hours"
        return ("better", "worse", "the objective") if self.formula else ("cheaper", "more expensive", "the cost")

    def describe_saving(self, amount: float) -> str:
        """Return such as `$0.40 less`, `$1.45 better` if more than dollars counts, or `3 min earlier`."""
        if self.by_time:
            return f"{amount * 60:.0f} min earlier" if amount < 0.1 else f"{amount:,.1f} h earlier"
        return f"${amount:,.{0 if amount >= 10_000 else 2}f} {'better' if self.formula else 'less'}"
