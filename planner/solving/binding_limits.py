"""What a plan depends on: limits, prices, what buying machines costs, and the work from which own machines cost less.

The cheapest machines of a small job are not those of a large one, so that the machines of the plan do not know it. The
work of the job is scaled, and the least dollars at each amount are those of the program. A program over the whole
market takes most of a second, one over a handful of offers a hundredth. So the amount is searched among the offers
that were cheapest at some amount, and then proven by one program over all offers just below it: where others are
cheaper there, they join the handful, and the search goes on from there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from planner import generation
from planner.candidates.job_candidates import JobCandidates
from planner.candidates.screening import CandidateObjective, promising_rows, screen
from planner.candidates.spot_search import BEST, LEAST_DOLLARS
from planner.configurations.recipe import Recipe, excluding_techniques, is_allowed
from planner.errors import ScenarioError
from planner.evaluation.evaluated_physics import hourly_price
from planner.results.explanation import Binding
from planner.results.fleet import ApiPrice
from planner.results.plan import Assignment
from planner.results.plan_parts import FirstPurchase, HostedTuning, Option, Purchase, describe_machines
from planner.scenario.inference_job import InferenceJob
from planner.scenario.job import Job
from planner.scenario.limits import UNLIMITED_HOURS, AllowForbid, Limits, latest_finish_hours, max_run_hours
from planner.scenario.offer import Offer, fee_items, fee_rate, offer_labels
from planner.scenario.offer_terms import Buy, Horizon, Own, interest_usd
from planner.scenario.scenario import Scenario, SolveOptions
from planner.solving.chosen import figures_of, recipe_of
from planner.solving.elastic_program import unrestricted_techniques
from planner.solving.optimise_choice import COST, ResolvedPlan, optimise, try_solve
from planner.solving.prepare import BOUND_ROUNDING, PreparedScenario, are_compared, prepare, prepare_below
from planner.units import DAY_HOURS, MONTH_HOURS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


# The limits without which a plan would be better, each lifted alone.


STOCK_LIMIT, HOURS_LIMIT = "stock", "hours paid for"
"""What offers have left limits a plan no less than what its user sets."""
UNLIMITED_OFFER_HOURS = 1e9
"""Hours left of an offer that limit nothing."""


@dataclass(frozen=True)
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


LEAST_SAVING_USD = 0.01
"""Dollars from which on a saving shows on a screen."""


def with_job(scenario: Scenario, index: int, update: dict[str, object]) -> Scenario:
    """Return the scenario with other values of one job."""
    jobs = list(scenario.jobs)
    jobs[index] = jobs[index].model_copy(update=update)
    return scenario.model_copy(update={"jobs": tuple(jobs)})


def find_binding_limits(plan: ResolvedPlan) -> tuple[Binding, ...]:
    """Return the limits without which the plan of all jobs would be better, each verified by solving without it."""
    bindings = []
    objective = CandidateObjective.of(plan.prepared.scenario)
    goal = plan.objective - objective.min_gain(plan.objective)
    for lifted in lift_limits(plan.prepared.scenario):
        free = _solve_without(plan.prepared, lifted.scenario, plan.objective)
        if free is not None and free.objective <= goal:
            binding = Binding(
                limit=lifted.path,
                current=_excluding(plan.prepared.scenario, free, lifted) or lifted.current,
                saving=plan.objective - free.objective,
                saving_usd=plan.cost_usd - free.cost_usd,
                saving_hours=plan.hours - free.hours,
            )
            bindings.append(binding)
    return tuple(bindings)


def _excluding(scenario: Scenario, free: ResolvedPlan, lifted: LiftedLimit) -> str:
    """Return which keys of a job's techniques exclude what it runs without them; empty of other limits."""
    for index, job in enumerate(scenario.jobs):
        if lifted.path == f"jobs.{job.name}.techniques":
            return " and ".join(excluding_techniques(recipe_of(free.prepared.candidates[index], free.rows[index]), job))
    return ""


def describe_binding_limits(prepared: PreparedScenario, job: int, paid_usd: float) -> tuple[str, ...]:
    """Return the limits without which one job would do better, such as `budget (without it $0.40 less)`.

    The job's candidates are screened again without each limit, and limits that decide which candidates exist at all
    (the VRAM margin) are left out. What a limit costs is the difference of `paid_usd` from the dollars of the plan that
    is chosen without it, as `explain` says; of several jobs, or where more than dollars counts, that of the objective.
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
    described = []
    for lifted in lift_limits(scenario):
        best, recipe = _best_without(prepared, job, promising, lifted, goal)
        if best < goal:
            name = lifted.path.rpartition(".")[2].removesuffix("_usd")
            if name == "techniques" and recipe is not None:
                name = " and ".join(excluding_techniques(recipe, candidates.job)) or name
            is_default = name == "max_hours" and scenario.limits.max_hours is None
            default = f"default {max_run_hours(candidates.job, scenario.limits):,.0f} h; " if is_default else ""
            saved = _saved_usd(prepared, lifted, paid_usd) or current - best
            described.append(f"{name} ({default}without it {objective.describe_saving(saved)})")
    return tuple(described)


def pick_without(prepared: PreparedScenario, freed: Scenario) -> ResolvedPlan | None:
    """Return the plan of the only job that is chosen with a limit changed, near ties and all, where dollars decide.

    None of several jobs, where more than dollars counts, and where there is none.
    """
    is_by_dollars = freed.objective_kind == "cost" and freed.has_plain_dollars
    if not is_by_dollars or len(freed.jobs) > 1:
        return None
    least = float(np.min(CandidateObjective.of(prepared.scenario).best(prepared.screened[0].table)[0], initial=np.inf))
    return _solve_without(prepared, freed, least)


def _solve_without(prepared: PreparedScenario, freed: Scenario, least: float) -> ResolvedPlan | None:
    """Return the best plan with a limit changed, where the least objective with the limit is `least`.

    A plan of the only job whose dollars are minimised is searched for among candidates that cost no more than that, or
    a near tie more: these are all that decide, if one of them costs as little.
    """
    if len(freed.jobs) == 1 and freed.objective_kind == "cost" and math.isfinite(least):
        rounding = BOUND_ROUNDING * max(1.0, least)
        plan = try_solve(prepare_below(freed, prepared, least + freed.near_tie_usd(least) + COST.slack + 2 * rounding))
        if plan is not None and plan.objective <= least + rounding:
            return plan
    return try_solve(prepare(freed, prepared.library, prepared))


def _saved_usd(prepared: PreparedScenario, lifted: LiftedLimit, paid_usd: float) -> float | None:
    """Return the dollars that the plan chosen without a limit saves; None where a near tie leaves less than a cent."""
    free = pick_without(prepared, lifted.scenario)
    return None if free is None or paid_usd - free.cost_usd < LEAST_SAVING_USD else paid_usd - free.cost_usd


def _best_without(
    prepared: PreparedScenario, job: int, candidates: JobCandidates, lifted: LiftedLimit, goal: float
) -> tuple[float, Recipe | None]:
    """Return the best objective below a goal of candidates of a job without a limit, and the recipe that has it.

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
        return math.inf, None
    market = prepared.market.without_stock() if lifted.path == STOCK_LIMIT else prepared.market
    if lifted.path == HOURS_LIMIT:
        candidates = candidates.without_hours_limit()
    candidates = replace(candidates, job=own.model_copy(update={"deadline_hours": freed.deadline_hours}))
    objective = CandidateObjective.of(after)
    waiting, library = objective.waiting_usd, prepared.library
    scope = replace(LEAST_DOLLARS, below=goal, alone=True)
    table = screen(candidates, market, after.limits, library, screens_method, waiting, scope).table
    value = objective.best(table)[0]
    if not len(value):
        return math.inf, None
    best = int(np.argmin(value))
    return float(value[best]), candidates.recipes[int(table.recipe[best])]


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


LARGER_WORK = (1.0, 10.0, 100.0)
"""Multiples of the job's work at which own machines may cost less, the least first."""
LEAST_WORK = 1e-6
"""Share of the job's work below which nothing is searched."""
BREAK_EVEN_WIDTH = 0.01
"""How far the amount found may lie above the true one, as a share of it."""
MOST_PROOFS = 8
"""Most programs over all offers that one search takes to prove its result; they seldom are more than three."""
KEYS_OF_WORK = ("requests", "tokens", "samples", "images", "steps")
"""Keys that say how much work there is; a job has one of them, or a table of lengths."""


def scale(job: Job, factor: float) -> Job:
    """Return a job with so many times its work; hours that were observed for all of it grow alike."""
    work = job.work
    amount = next((name for name in KEYS_OF_WORK if getattr(work, name, None)), None)
    if amount is not None:
        changed = {amount: max(1, round(getattr(work, amount) * factor))}
    else:
        changed = {"lengths": _scale_lengths(work.lengths, factor)}
    runs = (run if run.hours is None else run.model_copy(update={"hours": run.hours * factor}) for run in job.measured)
    return job.model_copy(update={"work": work.model_copy(update=changed), "measured": tuple(runs)})


def _scale_lengths(lengths: Sequence[Any], factor: float) -> tuple[Any, ...]:
    """Return a table of lengths with so many times the requests, in whole numbers that spread evenly over its rows."""
    scaled, total, taken = [], 0.0, 0
    for length in lengths:
        total += length.count * factor
        count = round(total) - taken
        taken += count
        scaled += [length.model_copy(update={"count": count})] if count > 0 else []
    return tuple(scaled) or (lengths[0].model_copy(update={"count": 1}),)


@dataclass(frozen=True)
class Least:
    """The least dollars for some amount of work, and the machines that ask for them; inf where none does the work."""

    usd: float = math.inf
    machines: Option | None = None


class OwnMachines:
    """The least dollars of machines that a job rents or has, and of services, at multiples of its work."""

    def __init__(self, prepared: PreparedScenario) -> None:
        """Take the only job of a scenario; dollars alone are compared, and no budget keeps it from growing."""
        scenario, self.prepared = prepared.scenario, prepared
        alone: dict[str, Any] = {"objective": "cost", "solve": scenario.solve.model_copy(update={"ties": 0.0})}
        alone["limits"] = scenario.limits.model_copy(update={"budget_usd": None})
        self._scenario, self.job = scenario.model_copy(update=alone), scenario.jobs[0]
        # Answers are never planned at a service, so that the same offers do: their market is prepared already.
        only_machines = tuple(offer for offer in scenario.offers if not offer.is_managed)
        self._offers = only_machines if self.job.trains else scenario.offers
        self._managed = tuple(offer for offer in scenario.offers if offer.is_managed)
        self._few: set[tuple[str, str]] = set()  # provider and GPU of offers that were cheapest at some amount
        self._known: dict[float, Least] = {}
        self._latest: dict[str, PreparedScenario] = {}

    def of_all(self, factor: float) -> Least:
        """Return the least dollars on all offers; the machines that ask for them are of the few from then on."""
        if factor not in self._known:
            least = self._known[factor] = self._least("all", factor, self._offers)
            if least.machines is not None:
                self._few.add((least.machines.provider, least.machines.gpu))
        return self._known[factor]

    def of_few(self, factor: float) -> Least:
        """Return the least dollars on the machines that were cheapest at some amount."""
        return self._least("few", factor, self._cheap_offers)

    def roughly(self, factor: float) -> Least:
        """Return about the same: spot without its policies, which take longer than all else."""
        return self._least("roughly", factor, self._cheap_offers)

    def of_managed(self, factor: float) -> Least:
        """Return the least dollars of services that train."""
        return self._least("services", factor, self._managed)

    def of_offers(self, kind: str, offers: Sequence[Offer]) -> Least:
        """Return the least dollars of the work on some offers."""
        return self._least(kind, 1.0, offers)

    @property
    def _cheap_offers(self) -> tuple[Offer, ...]:
        cheap = (offer for offer in self._offers if not offer.rents_gpus or (offer.provider, offer.card) in self._few)
        return tuple(cheap)

    def _least(self, kind: str, factor: float, offers: Sequence[Offer]) -> Least:
        """Return the least dollars for a multiple of the work on some offers."""
        scenario = self._scenario.model_copy(update={"jobs": (scale(self.job, factor),), "offers": tuple(offers)})
        before = self._latest.get(kind, self.prepared)
        try:
            made = prepare(scenario, before.library, before, with_policies=kind != "roughly")
        except ScenarioError:  # these offers cannot hold or prepare so much
            return Least()
        self._latest[kind] = made
        solved = optimise(made, SolveOptions()) if len(made.screened[0].table) else None
        if solved is None or not solved.rows:
            return Least()
        (row,), (share,) = solved.choice.rows.tolist(), solved.shares
        figures = figures_of(solved.table, row, share, made.market)
        return Least(figures["cost_usd"], Option(label="own machines", **figures))


def find_break_even(own: OwnMachines, hosted_usd: Callable[[float], float]) -> tuple[float, Option | None] | None:
    """Return the multiple of the work from which own machines cost less than a service, and the machines there.

    0 where they cost less at every multiple that is searched, without machines; None where they do at no multiple of
    `LARGER_WORK`, where a service with a price for a run costs less of more work, or where the search ends without
    a proof.
    """
    multiples = (factor for factor in LARGER_WORK if own.of_all(factor).usd < hosted_usd(factor) < math.inf)
    if (top := next(multiples, None)) is None:
        return None
    least = _end_of_minimum(hosted_usd, top)
    if own.of_all(least).usd < hosted_usd(least):
        # Where the least charge is not used up, more work may be charged no more.
        is_flat = hosted_usd(top) <= hosted_usd(least) * (1.0 + 2 * BREAK_EVEN_WIDTH)
        everywhere = all(
            own.of_all(factor).usd < hosted_usd(factor) or math.isinf(hosted_usd(factor)) for factor in LARGER_WORK
        )
        return (0.0, None) if everywhere and not is_flat else None
    ways = [own.roughly, own.of_few, own.of_all]  # the quickest first, each exact where those before it are not
    for _ in range(MOST_PROOFS):
        cost = next((way for way in ways if way(top).usd < hosted_usd(top)), own.of_all)
        if cost == own.of_few and own.of_all(top / 10).usd < hosted_usd(top / 10):
            top /= 10  # spot with its policies is cheapest at the top: smaller work seldom needs them, and is quicker
            continue
        low, high = bracket(partial(_gap, cost, hosted_usd), least, top)
        exact = own.of_few if cost == own.roughly else cost
        if own.of_all(low).usd < hosted_usd(low):
            top = low
        elif (cheapest := exact(high)).usd < hosted_usd(high):
            return high, cheapest.machines
        else:
            ways = ways[1:]
    return None


def _end_of_minimum(hosted_usd: Callable[[float], float], top: float) -> float:
    """Return the multiple up to which a service takes its least charge, where it is cheapest next to own machines."""
    low, charge = LEAST_WORK, hosted_usd(LEAST_WORK) * (1.0 + BREAK_EVEN_WIDTH / 100)
    while top > low * (1.0 + BREAK_EVEN_WIDTH):
        middle = math.sqrt(low * top)
        low, top = (middle, top) if hosted_usd(middle) <= charge else (low, middle)
    return low


def _gap(cost: Callable[[float], Least], hosted_usd: Callable[[float], float], factor: float) -> float:
    return cost(factor).usd - hosted_usd(factor)


def bracket(gap: Callable[[float], float], low: float, high: float) -> tuple[float, float]:
    """Return two multiples `BREAK_EVEN_WIDTH` apart: at the second one own machines cost less, at the first not.

    `gap` is by how many dollars they cost more, not below 0 at `low` and below 0 at `high`. Both dollars are nearly
    straight lines, so that the chord of `gap` meets zero near the root. It is tried a little to the right and to the
    left, to enclose the root, and every third time the middle, which always ends.
    """
    above, below, turn = gap(low), gap(high), 0
    while high > low * (1.0 + BREAK_EVEN_WIDTH):
        aside = (1.0 + BREAK_EVEN_WIDTH / 2, 1.0 / (1.0 + BREAK_EVEN_WIDTH / 2))
        chord = low + (high - low) * above / (above - below) if math.isfinite(above) else math.nan
        middle = chord * aside[turn % 3] if turn % 3 < 2 else math.nan
        if not low < middle < high:
            middle = math.sqrt(low * high)
        middle_gap, turn = gap(middle), turn + 1
        low, above, high, below = (
            (low, above, middle, middle_gap) if middle_gap < 0 else (middle, middle_gap, high, below)
        )
    return low, high


# Which of the machines for sale pays first, and from how many hours of use on.
#
# A job of the plan is done on each of them at the price of its running alone; what it then costs less than the least
# rent is what its hours save. With so much saved in a month `pays_from_months` knows when that is what it has lost.


def find_first_purchase(prepared: PreparedScenario) -> FirstPurchase | None:
    """Return which machine that the scenario may buy pays first for its only job, against the least rent.

    Delivery and limits on dollars are left out: the question is what to own for such work, not for this run.
    """
    scenario = prepared.scenario
    sold = [offer for offer in scenario.offers if offer.buy is not None]
    rented = tuple(offer for offer in scenario.offers if offer.tier in RENTED)
    rent = OwnMachines(prepared).of_offers("rented", rented)
    if rent.machines is None or not sold:
        return None
    horizon = scenario.horizon
    monthly, interest = (horizon.hours_per_month, horizon.interest) if horizon else (MONTH_HOURS, 0.0)
    limits = scenario.limits.model_copy(update={"budget_usd": None, "outlay_usd": None, "tiers": AllowForbid()})
    running = tuple(_at_running_cost(offer, monthly) for offer in sold)
    update = {"offers": running, "for_sale": (), "horizon": None, "limits": limits, "objective": "cost"}
    try:
        made = prepare(scenario.model_copy(update=update), prepared.library, with_policies=False)
    except ScenarioError:  # none of them can hold or prepare so much
        return None
    (table,), by_label = [job.table for job in made.screened], dict(zip(offer_labels(running), sold, strict=True))
    purchases: list[tuple[float, float, FirstPurchase]] = []
    for row in range(len(table)):
        figures, label = figures_of(table, row, 0.0, made.market), table.offers[int(table.offer[row])]
        buy, machines, hours = by_label[label].buy, int(table.instances[row]), figures["hours"]
        if buy is None:
            continue
        saved = (rent.usd - figures["cost_usd"]) / hours / machines  # an hour of one machine
        months = pays_from_months(buy, saved * monthly, interest, 0)
        first = FirstPurchase(
            offer=label,
            gpu=figures["gpu"],
            gpus=figures["gpus"],
            machines=machines,
            usd=machines * buy.purchase_usd,
            hours_per_month=monthly,
            pays_from_hours=None if months is None else months * monthly,
            price_back_hours=buy.purchase_usd / saved if saved > 0 else None,
            hours=hours,
            rent=rent.machines.model_copy(update={"label": "least rent"}),
        )
        purchases.append((math.inf if months is None else months, -saved / buy.purchase_usd, first))
    return min(purchases, key=itemgetter(0, 1))[2] if purchases else None


def _at_running_cost(offer: Offer, hours_per_month: float) -> Offer:
    """Return a machine that may be bought as one that is there, and whose hours cost power and place alone."""
    if (buy := offer.buy) is None:
        raise ValueError(f"{offer.label} is not for sale")
    own = Own(
        power_watts=buy.power_watts,
        usd_per_kwh=buy.usd_per_kwh,
        pue=buy.pue,
        months=1.0,
        hours_per_month=hours_per_month,
        idle_usd_per_month=buy.idle_usd_per_month,
    )
    update = {"buy": None, "own": own, "usd_per_hour": own.usd_per_hour, "lead_hours": 0.0}
    return offer.model_copy(update=update)


def with_break_even(jobs: tuple[Assignment, ...], prepared: PreparedScenario) -> tuple[Assignment, ...]:
    """Return the only job of a plan with the amounts from which own machines cost less than services, or than rent."""
    if len(jobs) != 1:
        return jobs
    if any(offer.buy is not None for offer in prepared.scenario.offers):
        jobs = (jobs[0].model_copy(update={"pays_first": find_first_purchase(prepared)}),)
    if not any(offer.is_managed for offer in prepared.scenario.offers):
        return jobs
    own, (made,) = OwnMachines(prepared), jobs
    if made.inference is not None:
        api = tuple(_of_answers(price, own) for price in made.inference.api[: generation.MOST_API_PRICES])
        api += made.inference.api[generation.MOST_API_PRICES :]
        return (made.model_copy(update={"inference": made.inference.model_copy(update={"api": api})}),)
    return (made.model_copy(update={"hosted": _of_tuning(own)}),)


def _of_answers(price: ApiPrice, own: OwnMachines) -> ApiPrice:
    """Return what a service takes for answers, with the requests from which own machines cost less."""
    asked = cast("InferenceJob", own.job)
    offer = {price.offer: dict(own.prepared.scenario.labelled_offers())[price.offer]}

    def plain_usd(factor: float) -> float:
        ((_, _, _, usd),) = generation.usd_by_the_token(cast("InferenceJob", scale(asked, factor)), offer)
        return usd

    all_usd = plain_usd(1.0)
    break_even = find_break_even(own, lambda factor: price.usd * plain_usd(factor) / all_usd) if all_usd else None
    if break_even is None:
        return price
    factor, machines = break_even
    requests = cast("InferenceJob", scale(asked, factor)).work.total_requests * asked.trials.count if factor else 0
    return price.model_copy(update={"pays_from_requests": float(requests), "pays_on": machines})


def _of_tuning(own: OwnMachines) -> HostedTuning | None:
    """Return what the cheapest service takes to train; None where none does, or no machine is offered."""
    hosted, job = own.of_managed(1.0), own.job
    if hosted.machines is None or job.work.images is not None or not own.of_all(1.0).machines:
        return None
    break_even = find_break_even(own, lambda factor: own.of_managed(factor).usd)
    tokens = float(own.prepared.candidates[0].physics.shape.tokens)
    pays, machines = (None, None) if break_even is None else (break_even[0] * tokens, break_even[1])
    return HostedTuning(provider=hosted.machines.provider, usd=hosted.usd, pays_from_tokens=pays, pays_on=machines)


# What buying the machines of a job costs, and from how many hours of such use it pays.
#
# Buying n machines for P dollars each, of which a share r(m) is left after m months, pays from the first m on at which
# the rent that h hours of use a month save is what they have lost by then, with the interest on it:
#
#     h*m*(rent - n*running) = n*(P*(1 - r(m)) + interest(m))
#
# where `rent` is what an hour of work is rented for, and `running` is power*PUE*price, the monthly costs over the hours
# of a month and the hourly fees of the machine. Two RTX 3090 at $2,500, half of it left at any age, rented at $0.22 an
# hour each, with 504 W at $0.18 per kWh: 2,500 / (0.44 - 0.18144) = 9,669 hours. The whole price is back after twice
# as many hours: published break-evens often count that, and call it the same.


RENTED = ("secure", "community")
"""Tiers whose hours are rented one by one."""


NO_WORK = {
    *("lost on spot", "move to on demand", "starts on demand", "starts and losses", "rounded up"),
    *fee_items("machine hours"),
}
"""Lines of the bill for hours that an own machine would not need, and fees of hours that another line has."""


SOON_MONTHS = 1e-6
"""Months that are none: what pays after them pays at once."""


LONGEST_MONTHS = 12_000.0
"""Age up to which a break-even of machines is sought whose life nobody states."""


def compare_purchase(job: Assignment, scenario: Scenario) -> Purchase | None:
    """Return the purchase of the machines of a job: of those that it buys, else of as many equal ones as it rents.

    None where none is for sale, or nothing is rented. `scenario.for_sale` is searched in its order for a machine with
    as many of the same GPUs.
    """
    if job.tier == "bought":
        offer = dict(scenario.labelled_offers()).get(job.offer)
    else:
        kind = job.gpu, job.gpus_per_instance
        offer = next((offer for offer in scenario.for_sale if (offer.gpu, offer.gpus) == kind), None)
    if offer is None or offer.buy is None or job.tier not in (*RENTED, "bought"):
        return None
    machines, buy = job.instances * job.runs_at_once, offer.buy
    hours, rent = _bought_hours(job, offer, scenario) if job.tier == "bought" else _rented_hours(job)
    if hours <= 0 or (rent is not None and rent <= 0):
        return None
    horizon = scenario.horizon if job.tier == "bought" else None
    monthly = horizon.hours_per_month if horizon is not None else MONTH_HOURS
    fees = fee_rate(offer.fees, "machine hours") or 0.0
    running = machines * (buy.power_usd_per_hour + buy.idle_usd_per_month / monthly + fees)
    saved, interest = 0.0 if rent is None else (rent - running) / machines, horizon.interest if horizon else 0.0
    months = [pays_from_months(buy, saved * monthly, interest, which) for which in range(3)]
    pays = [None if needed is None else needed * monthly for needed in months]
    low, high = buy.purchase_range_usd or (buy.purchase_usd, buy.purchase_usd)
    return Purchase(
        is_bought=job.tier == "bought",
        offer=offer.label,
        machines=machines,
        usd=machines * buy.purchase_usd,
        low_usd=machines * low,
        high_usd=machines * high,
        date=offer.date_text,
        source=offer.source,
        rent_usd_per_hour=rent,
        hours_per_month=monthly,
        running_usd_per_hour=running,
        price_back_hours=buy.purchase_usd / saved if saved > 0 else None,
        life_months=buy.life_months,
        **_hour_of_it(buy, horizon, machines, fees),
        without=buy.without or "",
        interest=interest,
        pays_from_hours=pays[0],
        pays_from_hours_low=pays[1],
        pays_from_hours_high=pays[2],
        hours=hours,
    )


def _hour_of_it(buy: Buy, horizon: Horizon | None, machines: int, fees: float) -> dict[str, float]:
    """Return what an hour of machines that are bought costs at the use of the horizon, and at half of it."""
    if horizon is None:
        return {}
    half = horizon.model_copy(update={"hours_per_month": horizon.hours_per_month / 2})
    usd = [machines * (buy.owned(used).usd_per_hour + fees) for used in (horizon, half)]
    return {"usd_per_hour": usd[0], "half_use_usd_per_hour": usd[1]}


def _rented_hours(job: Assignment) -> tuple[float, float]:
    """Return the hours of work of rented machines, and the dollars of all of them for an hour of it."""
    lines = [line for line in job.bill if line.unit == "h" and " at " not in line.item]
    hours = math.fsum(line.quantity or 0.0 for line in lines if line.item not in NO_WORK)
    hours /= job.instances * job.runs_at_once
    if job.spot is not None:  # the starts of a policy are on lines of their own, of which one is needed
        hours += job.start_hours
    return hours, math.fsum(line.usd for line in lines) / hours if hours > 0 else 0.0


def _bought_hours(job: Assignment, offer: Offer, scenario: Scenario) -> tuple[float, float | None]:
    """Return the hours that bought machines work, and the dollars of as many equal ones by the hour; None without."""
    machines = job.instances * job.runs_at_once
    hours = max((line.quantity or 0.0 for line in job.bill if line.item == "wear of own machines"), default=0.0)
    offers = (other for _, other in scenario.labelled_offers())
    price = hourly_price(offer, (other for other in offers if other.tier in RENTED and scenario.limits.permits(other)))
    fees = fee_rate(offer.fees, "machine hours") or 0.0  # which `hourly_price` takes off
    return hours / machines, None if price is None else machines * (price + fees)


def pays_from_months(buy: Buy, saved_usd_per_month: float, interest: float, which: int) -> float | None:
    """Return the months from which on one machine that saves so many dollars of rent in each pays; None if never.

    `which`: 0 as stated, 1 the least and 2 the most that it may lose. No machine pays after its life.
    """
    price = (buy.purchase_usd, *(buy.purchase_range_usd or (buy.purchase_usd, buy.purchase_usd)))[which]

    def gain(months: float) -> float:
        lost = buy.lost_usd(months)[which]
        return saved_usd_per_month * months - lost - interest_usd(price, price - lost, months, interest)

    low, high = 0.0, buy.life_months or LONGEST_MONTHS
    if gain(high) < 0:
        return None
    if gain(SOON_MONTHS) >= 0:
        return 0.0
    for _ in range(60):  # what is lost grows ever more slowly, so that the gain is negative first and positive then
        middle = (low + high) / 2
        low, high = (low, middle) if gain(middle) >= 0 else (middle, high)
    return high
