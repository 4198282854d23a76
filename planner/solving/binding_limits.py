"""What a plan depends on: limits without which it would be better, and prices that it should not rest on."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from planner.candidates.job_candidates import JobCandidates
from planner.candidates.screening import screen
from planner.candidates.spot_search import BEST, LEAST_DOLLARS
from planner.configurations.recipe import is_allowed
from planner.records import record
from planner.results.explanation import Binding
from planner.results.plan_parts import describe_machines
from planner.scenario.limits import UNLIMITED_HOURS, Limits, latest_finish_hours, max_run_hours
from planner.scenario.scenario import Scenario
from planner.solving.infeasibility.relaxed_candidates import unrestricted_techniques
from planner.solving.prepare import CandidateObjective, PreparedScenario, are_compared, prepare, promising_rows
from planner.solving.resolve import ResolvedPlan, try_solve
from planner.units import DAY_HOURS

if TYPE_CHECKING:
    from collections.abc import Iterator


# The limits without which a plan would be better, each lifted alone.


STOCK_LIMIT, HOURS_LIMIT = "stock", "hours paid for"
"""What offers have left limits a plan no less than what its user sets."""
UNLIMITED_OFFER_HOURS = 1e9
"""Hours left of an offer that limit nothing."""


@record(frozen=True)
class LiftedLimit:
    """A limit of a scenario: its path, its value, and the scenario without it."""

    path: str  # such as `jobs.chat.deadline`, `limits.budget_usd`, `stock`
    current: float | str
    scenario: Scenario


def lift_limits(scenario: Scenario) -> Iterator[LiftedLimit]:
    """Yield every limit of a scenario, with the scenario without this limit; all else is kept.

    The longest run is a limit also if the scenario does not set it: its default applies then.
    """
    for index, job in enumerate(scenario.jobs):
        if job.deadline_hours is not None:
            without = with_job(scenario, index, {"deadline_hours": None})
            yield LiftedLimit(f"jobs.{job.name}.deadline", job.deadline_hours, without)
        unrestricted = unrestricted_techniques(job.techniques)
        if job.techniques != unrestricted:
            without = with_job(scenario, index, {"techniques": unrestricted})
            yield LiftedLimit(f"jobs.{job.name}.techniques", "as given", without)
    default = dict.fromkeys(f"{max_run_hours(job, scenario.limits):,.0f}" for job in scenario.jobs)
    yield _lift(
        scenario, "max_hours", scenario.limits.max_hours or f"default {' and '.join(default)} h", UNLIMITED_HOURS
    )
    is_guessed = sum(job.trains for job in scenario.jobs) > 1  # a typical stock limits several jobs alone
    unlimited = Limits(typical_stock=None if is_guessed else scenario.limits.typical_stock)
    for name in Limits.model_fields:
        given, free = getattr(scenario.limits, name), getattr(unlimited, name)
        if given != free and name != "max_hours":
            lifted = _lift(scenario, name, given if isinstance(given, (int, float)) else "as given", free)
            yield replace(lifted, path="limits.spot") if name == "spot_share" and given.max == 0 else lifted
    for path, field, free in ((STOCK_LIMIT, "stock", None), (HOURS_LIMIT, "committed_hours", UNLIMITED_OFFER_HOURS)):
        if any(getattr(offer, field) is not None for offer in scenario.offers):
            offers = (
                offer if getattr(offer, field) is None else offer.model_copy(update={field: free})
                for offer in scenario.offers
            )
            yield LiftedLimit(path, "as offered", scenario.model_copy(update={"offers": tuple(offers)}))


def _lift(scenario: Scenario, name: str, current: float | str, free: object) -> LiftedLimit:
    limits = scenario.limits.model_copy(update={name: free})
    return LiftedLimit(f"limits.{name}", current, scenario.model_copy(update={"limits": limits}))


def with_job(scenario: Scenario, index: int, update: dict[str, object]) -> Scenario:
    """Return the scenario with other values of one job."""
    jobs = list(scenario.jobs)
    jobs[index] = jobs[index].model_copy(update=update)
    return scenario.model_copy(update={"jobs": tuple(jobs)})


def find_binding_limits(plan: ResolvedPlan) -> tuple[Binding, ...]:
    """Return the limits without which the plan of all jobs would be better, each verified by solving without it."""
    found = []
    objective = CandidateObjective.of(plan.prepared.scenario)
    goal = plan.objective - objective.min_gain(plan.objective)
    for lifted in lift_limits(plan.prepared.scenario):
        free = try_solve(prepare(lifted.scenario, plan.prepared.library, plan.prepared))
        if free is not None and free.objective <= goal:
            binding = Binding(
                limit=lifted.path,
                current=lifted.current,
                saving=plan.objective - free.objective,
                saving_usd=plan.cost_usd - free.cost_usd,
                saving_hours=plan.hours - free.hours,
            )
            found.append(binding)
    return tuple(found)


def describe_binding_limits(prepared: PreparedScenario, job: int) -> tuple[str, ...]:
    """Return the limits without which one job would do better, such as `budget (without it $0.40 less)`.

    The job's candidates are screened again without each limit: no program is solved, and limits that decide which
    candidates exist at all (the VRAM margin) are left out.
    """
    candidates, scenario = prepared.candidates[job], prepared.scenario
    objective = CandidateObjective.of(scenario)
    current = float(np.min(objective.best(prepared.screened[job].table)[0], initial=np.inf))
    if not math.isfinite(current):
        return ()
    goal = current - objective.min_gain(current)
    promising = candidates.rows(promising_rows(candidates, objective, goal))
    if not len(promising.table):
        return ()
    found = []
    for lifted in lift_limits(scenario):
        best = _best_without(prepared, job, promising, lifted, goal)
        if best < goal:
            name = lifted.path.rpartition(".")[2].removesuffix("_usd")
            is_default = name == "max_hours" and scenario.limits.max_hours is None
            default = f"default {max_run_hours(candidates.job, scenario.limits):,.0f} h; " if is_default else ""
            found.append(f"{name} ({default}without it {objective.describe_saving(current - best)})")
    return tuple(found)


def _best_without(
    prepared: PreparedScenario, job: int, candidates: JobCandidates, lifted: LiftedLimit, goal: float
) -> float:
    """Return the best objective below a goal of candidates of a job without a limit.

    It is no less than the goal where there is none, and infinite if the limit does not concern the job.
    """
    before, after = prepared.scenario, lifted.scenario
    own, freed = before.jobs[job], after.jobs[job]
    screens_method = own.techniques == freed.techniques
    if lifted.path.startswith("jobs."):
        is_idle = own == freed or (not screens_method and all(is_allowed(recipe, own) for recipe in candidates.recipes))
    else:
        is_idle = lifted.path in ("limits.vram_headroom", "limits.typical_stock")
    if lifted.path.endswith((".deadline", "limits.max_hours")):
        is_idle |= latest_finish_hours(own, before.limits) == latest_finish_hours(freed, after.limits)
    if is_idle:
        return math.inf
    market = prepared.market.without_stock() if lifted.path == STOCK_LIMIT else prepared.market
    if lifted.path == HOURS_LIMIT:
        candidates = candidates.without_hours_limit()
    candidates = replace(candidates, job=own.model_copy(update={"deadline_hours": freed.deadline_hours}))
    objective = CandidateObjective.of(after)
    waiting, library = objective.waiting_usd, prepared.library
    scope = replace(LEAST_DOLLARS, below=goal, alone=True)
    table = screen(candidates, market, after.limits, library, screens_method, waiting, scope).table
    return float(np.min(objective.best(table)[0], initial=np.inf))


# Prices that a plan should not rest on: spot prices far below those of the same instance elsewhere, and old ones.


def describe_spot_outlier(prepared: PreparedScenario, job: int, row: int, share: float) -> tuple[str, ...]:
    """Return a warning if a plan uses an outlying spot price, with the best cost without such prices.

    `row` is the row of the job's screened table that the plan uses at the spot share `share`.
    """
    table = prepared.screened[job].table
    is_outlier = prepared.market.is_outlier
    if share == 0 or not is_outlier[table.offer[row]]:
        return ()
    if not are_compared(prepared.scenario.jobs):  # of the others only what the jobs may need is known
        usual, objective = prepared.candidates[job], CandidateObjective.of(prepared.scenario)
        usual = usual.rows(~is_outlier[usual.table.offer])
        limits, waiting_usd = prepared.scenario.limits, objective.waiting_usd
        table = screen(usual, prepared.market, limits, prepared.library, True, waiting_usd, BEST).table
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
    count = sum(limits.is_outdated(listed_offer) for listed_offer in scenario.offers)
    when = f"a price of {offer.first_date:%Y-%m}"
    days = limits.max_price_age_hours / DAY_HOURS
    age = "old" if limits.caps_price_age else "older than the newest of their provider"
    return (
        f"{count} offers with prices over {days:g} days {age} are left out; with {when}: "
        f"{machines} at {offer.provider}, ${usd:,.2f} (limits.max_price_age)",
    )
