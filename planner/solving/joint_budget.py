"""A budget of several jobs that may be on spot: it holds for their dollars together, not for a sum of their quantiles.

The program has one row for the budget, in which the dollars of each job at the confidence add up. Jobs on different
markets are seldom unlucky at once, so that their dollars together mostly are less (and at low confidences may be more).
So the amount of the row is searched: plans are solved for some amounts, and each is compared with the budget by the
dollars of all its jobs together. What is returned keeps the budget. It is the best plan whose row is no larger than the
largest amount that was found to keep it; without any row, where that plan keeps the budget, it is the best of all.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from planner.decode.inputs import build_inputs
from planner.decode.probability import budget_probability
from planner.solvers.mathopt import solver_versions

if TYPE_CHECKING:
    from collections.abc import Callable

    from planner.results.plan import Plan
    from planner.results.plan_parts import Relaxation
    from planner.solving.prepare import PreparedScenario

MOST_AMOUNTS = 3
"""Amounts of the row that are tried beside the budget and none."""
NO_ROW_USD = 1e8
"""A budget that no plan needs."""
CLOSE_AMOUNTS = 2e-3
"""Share of the budget up to which two amounts are one."""
EQUAL_USD = 1e-9
"""Relative, of dollars within a budget."""


def shares_luck(prepared: PreparedScenario) -> bool:
    """Return whether several jobs, of which some may be on spot, share a budget."""
    if prepared.scenario.limits.budget_usd is None or len(prepared.scenario.jobs) < 2 or prepared.is_slim:
        return False
    return any(bool((one.table.share_high > 0).any()) for one in prepared.screened)


def solve_jointly(
    prepared: PreparedScenario, solve_row: Callable[[PreparedScenario, bool], Plan], explains: bool
) -> Plan:
    """Return the best plan found whose jobs together keep the budget; `solve_row` keeps it by their sum.

    `solve_row` takes what is prepared, with the amount of the row as its budget, and whether to say why there is none.
    """
    search = _Search(prepared, solve_row)
    first = solve_row(prepared, explains)
    free = search.solve(NO_ROW_USD)
    if free is None:
        return _with_joint_budgets(search, first)
    search.compare(budget := search.budget, _solved(first))
    if search.best is None or not _is_as_good(first, free):
        search.compare(NO_ROW_USD, free)
        if search.best is not free:
            search.between(free)
    if search.best is None:
        barren = first if _solved(first) is None else solve_row(search.with_amount(search.low), explains)
        return _with_joint_budgets(search, barren)
    found, amount = search.best, search.amount
    if _is_as_good(found, free):
        return search.told(found, NO_ROW_USD)
    if found.is_timetable and explains and amount != budget:  # what shared limits cost is told by a full solve
        found = solve_row(search.with_amount(amount), explains)
    return search.told(found, amount)


class _Search:
    """Amounts of the row, and the best plan that keeps the budget."""

    def __init__(self, prepared: PreparedScenario, solve_row: Callable[[PreparedScenario, bool], Plan]) -> None:
        self.prepared, self.solve_row = prepared, solve_row
        self.budget = float(prepared.scenario.limits.budget_usd or 0.0)
        self.low, self.high = 0.0, math.inf  # amounts that keep the budget, and that do not
        self.best: Plan | None = None
        self.amount = self.budget
        self.has_luck = False

    def with_amount(self, amount: float) -> PreparedScenario:
        """Return what is prepared with another amount of the row."""
        scenario = self.prepared.scenario
        limits = scenario.limits.model_copy(update={"budget_usd": amount})
        return replace(self.prepared, scenario=scenario.model_copy(update={"limits": limits}))

    def solve(self, amount: float) -> Plan | None:
        """Return the plan within an amount of the row, None where there is none."""
        return _solved(self.solve_row(self.with_amount(amount), False))

    def compare(self, amount: float, plan: Plan | None) -> None:
        """Take in what is known of an amount: whether its plan keeps the budget."""
        if plan is None:
            self.low = max(self.low, amount)
            return
        self.has_luck |= any(job.usd_of_runs for job in plan.jobs)
        if (plan.cost_at_confidence or 0.0) > self.budget * (1 + EQUAL_USD):
            self.high = min(self.high, amount)
            return
        self.low = max(self.low, amount)
        if self.best is None or (plan.objective or 0.0) <= (self.best.objective or 0.0):
            self.best, self.amount = plan, amount

    def between(self, free: Plan) -> None:
        """Try amounts between those that keep the budget and those that do not."""
        self.high = min(self.high, _sum_of_quantiles(free))
        guess = self.budget + _sum_of_quantiles(free) - (free.cost_at_confidence or 0.0)
        for _ in range(MOST_AMOUNTS):
            if self.high - self.low <= CLOSE_AMOUNTS * self.budget:
                break
            if not self.low + CLOSE_AMOUNTS * self.budget / 2 < guess < self.high:
                guess = (self.low + self.high) / 2
            plan = self.solve(guess)
            self.compare(guess, plan)
            if plan is not None:
                guess = self.budget + _sum_of_quantiles(plan) - (plan.cost_at_confidence or 0.0)

    def told(self, plan: Plan, amount: float) -> Plan:
        """Return a plan that speaks of the budget of the scenario, and of what it is the best of."""
        scenario, warnings = self.prepared.scenario, plan.warnings
        if self.has_luck and amount < NO_ROW_USD:
            at = f"{scenario.limits.budget_confidence * 100:.3g} %"
            note = f"the jobs together keep the budget at {at}; of plans whose jobs, each by itself at {at}, add up to "
            warnings = (*warnings, note + f"${amount:,.2f} this is the best")
        return plan.model_copy(
            update={
                "budget_usd": self.budget,
                "budget_probability": budget_probability(
                    scenario, plan.jobs, math.fsum(one.usd for one in plan.reservations)
                ),
                "inputs": build_inputs(scenario, plan.jobs, solver_versions()),
                "warnings": warnings,
            }
        )


def _with_joint_budgets(search: _Search, plan: Plan) -> Plan:
    """Return why there is no plan, with the budgets that jobs need together, where `solve` finds a plan within them.

    The row of the program needs the sum of what each job needs by itself.
    """
    from planner.solving.infeasibility.relaxations import BUDGET  # loads much that a plan does not need

    infeasible, made = plan.infeasible, []
    if infeasible is None or not any(one.limit == BUDGET for one in infeasible.relax):
        return plan
    for number in dict.fromkeys(one.way for one in infeasible.relax):
        way = [one for one in infeasible.relax if one.way == number]
        made += _with_joint_budget(search, way) if any(one.limit == BUDGET for one in way) else way
    return plan.model_copy(update={"infeasible": infeasible.model_copy(update={"relax": tuple(made)})})


def _with_joint_budget(search: _Search, way: list[Relaxation]) -> list[Relaxation]:
    """Return the changes of one relaxation with the budget that its jobs need together."""
    from planner.solving.infeasibility.relaxations import BUDGET, USD_STEP, round_up
    from planner.solving.resolve import with_settings

    found = _solved(search.solve_row(with_settings(search.prepared, [one.setting for one in way]), False))
    told = next(one.change_to for one in way if one.limit == BUDGET)
    if found is None or not isinstance(told, float | int):
        return way
    if (needed := round_up(found.cost_at_confidence or 0.0, USD_STEP)) >= told:
        return way
    then = f" expected, ${found.cost_at_confidence or 0.0:,.2f} at the requested confidence"
    less = [
        one.model_copy(update={"change_to": needed, "setting": f"{BUDGET}={needed:.2f}"} if one.limit == BUDGET else {})
        for one in way
    ]
    asked = with_settings(search.prepared, [one.setting for one in less])
    if _solved(solve_jointly(asked, search.solve_row, False)) is None:
        return way
    return [one.model_copy(update={"then": f"{one.then.partition(' expected, $')[0]}{then}"}) for one in less]


def _solved(plan: Plan) -> Plan | None:
    """Return a plan that names jobs; None where there is none."""
    return plan if plan.jobs else None


def _is_as_good(plan: Plan, other: Plan) -> bool:
    """Return whether a plan reaches the objective of another."""
    least = other.objective or 0.0
    return (plan.objective or 0.0) <= least + EQUAL_USD * abs(least)


def _sum_of_quantiles(plan: Plan) -> float:
    """Return the dollars at the confidence that the row of the program counts."""
    return math.fsum(job.cost_at_confidence for job in plan.jobs) + math.fsum(one.usd for one in plan.reservations)
