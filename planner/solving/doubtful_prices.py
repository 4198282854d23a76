"""Prices that a plan should not rest on: spot prices far below those of the same instance elsewhere, and old ones."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from planner.candidates.screening import screen
from planner.candidates.spot_search import BEST
from planner.results.plan_parts import describe_machines
from planner.solving.binding_limits import promising_rows
from planner.solving.scoring import CandidateObjective
from planner.units import DAY_HOURS

if TYPE_CHECKING:
    from planner.solving.prepare import PreparedScenario


def describe_spot_outlier(prepared: PreparedScenario, job: int, row: int, share: float) -> tuple[str, ...]:
    """Return a warning if a plan uses an outlying spot price, with the best cost without such prices.

    `row` is the row of the job's screened table that the plan uses at the spot share `share`.
    """
    table = prepared.screened[job].table
    is_outlier = prepared.market.is_outlier
    if share == 0 or not is_outlier[table.offer[row]]:
        return ()
    others = table.rows(~is_outlier[table.offer])
    value, shares = CandidateObjective.of(prepared.scenario).best(others)
    without = "no plan"
    if np.isfinite(value).any():
        without = f"${others.cost_usd(shares)[np.argmin(value)]:,.2f}"
    return (f"the spot price is under half of what this instance costs elsewhere; without such prices: {without}",)


def describe_outdated_prices(prepared: PreparedScenario, job: int, row: int, share: float) -> tuple[str, ...]:
    """Return how many offers are left out for the age of their price, and the best plan with one if that is better.

    `row` is the row of the job's screened table that the plan uses at the spot share `share`.
    """
    market, scenario = prepared.market, prepared.scenario
    limits = scenario.limits
    if not market.is_outdated.any() or limits.max_price_age_hours is None:
        return ()
    candidates, objective = prepared.candidates[job], CandidateObjective.of(scenario)
    reached = float(objective.values(prepared.screened[job].table.rows(np.asarray([row])), share)[0])
    goal = reached - objective.min_gain(reached)
    old = candidates.rows(market.is_outdated[candidates.table.offer])
    old = old.rows(promising_rows(old, objective, np.nextafter(goal, np.inf)))
    if not len(old.table):
        return ()
    open_, scope = limits.model_copy(update={"max_price_age_hours": None}), replace(BEST, below=goal)
    table = screen(old, market, open_, prepared.library, True, objective.waiting_usd, scope).table
    value, shares = objective.best(table)
    if not np.min(value, initial=np.inf) <= goal:
        return ()
    best = int(np.argmin(value))
    place = int(table.offer[best])
    offer = market.offers[place]
    machines = describe_machines(int(table.run_gpus[best]), offer.card, int(table.node_groups[best]))
    usd = float(table.rows(np.asarray([best])).cost_usd(shares[best])[0])
    count = sum(limits.is_outdated(one) for one in scenario.offers)
    when = f"a price of {offer.first_date:%Y-%m}"
    days = limits.max_price_age_hours / DAY_HOURS
    age = "old" if limits.caps_price_age else "older than the newest of their provider"
    return (
        f"{count} offers with prices over {days:g} days {age} are left out; with {when}: "
        f"{machines} at {offer.provider}, ${usd:,.2f} (limits.max_price_age)",
    )
