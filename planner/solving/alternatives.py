"""The best alternatives of a plan, and what to do if its machines cannot be had."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

import numpy as np

from planner.arrays import CandidateTable, Flags, Floats, Integers
from planner.candidates.job_candidates import JobCandidates
from planner.candidates.market import MANAGED
from planner.candidates.screening import CandidateObjective, screen
from planner.candidates.spot_search import BEST_OF_NAMES, MAX_RUNNERS_UP, SearchScope
from planner.configurations.recipe import is_allowed
from planner.errors import ScenarioError
from planner.formulation.solvers import solver_versions
from planner.library.schema import Library
from planner.results.explanation import Alternative
from planner.results.plan import Assignment, Plan
from planner.results.plan_parts import (
    WAYS_BEYOND_TYPICAL_STOCK,
    FurtherWay,
    Infeasible,
    Option,
    Relaxation,
    describe_machines,
)
from planner.scenario.limits import PEAK_TOLERANCE
from planner.scenario.scenario import Scenario
from planner.solving.chosen import (
    _keeps_and_rent,
    build_inputs,
    describe_break_even,
    describe_candidate,
    describe_method,
    figures_of,
    nothing_there,
    option_at,
    recipe_of,
    why_excluded,
)
from planner.solving.optimise_choice import COST, LAST, ResolvedPlan, with_settings
from planner.solving.prepare import (
    BOUND_ROUNDING,
    PreparedScenario,
    method_labels,
    prepare,
    screen_up_to,
    shared_peaks,
    typical_stock,
    with_excluded_methods,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


# The best alternatives of a plan by method, GPU and provider, and whether they really differ from it.


# Whether two estimates differ beyond their uncertainty, in words.


RATIO_THRESHOLD, WHOLE_RATIO = 2.0, 10.0
"""Ratios from which on a difference is a factor (2.4x says more than 141 %), and from which on one without decimals."""
NO_DIFFERENCE = "within error"
COST_WORDS = "cheaper", "more expensive", "the cost"
"""Less, more, and what is a multiple."""


def difference_sigma(library: Library, same_gpu: bool) -> float:
    """Return the spread of the difference of two estimates' log errors, on one GPU model or on two."""
    return library.calibrations["uncertainty"].value(f"difference.{'same' if same_gpu else 'other'}_card")


def describe_difference(value: float, reference: float, sigma: float, words: tuple[str, str, str] = COST_WORDS) -> str:
    """Return how two figures differ: `63 % more expensive`, `2.4x the cost`, or the same within `sigma`.

    `words` are those for less, for more and for a multiple. Figures that are not positive have no ratio: empty.
    """
    if value <= 0 or reference <= 0:
        return ""
    log_ratio, (less, more, multiple) = math.log(value / reference), words
    if abs(log_ratio) < sigma:
        return NO_DIFFERENCE
    if value >= RATIO_THRESHOLD * reference:
        return f"{value / reference:,.{0 if value >= WHOLE_RATIO * reference else 1}f}x {multiple}"
    return f"{abs(math.expm1(log_ratio)):,.0%} {more if log_ratio > 0 else less}".replace("%", " %")


PAYMENT_LABELS = {"own": "own machine", "bought": "bought", "managed": "by the service", "committed": "committed"}
"""How the tiers are paid that are not rented by the hour."""
MIN_RELATIVE_DIFFERENCE = 0.25
"""Share by which an alternative of the same cost must differ in hours, or of the same hours in cost."""


class ScoredCandidate(NamedTuple):
    """A row of a table at a spot share, with its objective and its row of the job's uncut table."""

    table: CandidateTable
    row: int
    share: float
    score: float
    uncut_row: int


def best_by_method(prepared: PreparedScenario, job: int) -> tuple[Option, ...]:
    """Return the best candidate of each method under all other limits, marked if the job excludes the method."""
    candidates, recipes = prepared.candidates[job], prepared.candidates[job].recipes
    if candidates.job.kind == "pretrain":
        return ()
    table = with_excluded_methods(prepared, job)
    value, share = CandidateObjective.of(prepared.scenario).best(table)
    row_labels = np.asarray([recipe.method_label for recipe in recipes], dtype=str)[table.recipe]
    options = []
    for label in method_labels(candidates):
        excluded = why_excluded([recipe for recipe in recipes if recipe.method_label == label], candidates.job)
        rows = np.flatnonzero((row_labels == label) & np.isfinite(value))
        if len(rows):
            best = int(rows[np.argmin(value[rows])])
            at = table, best, float(share[best])
            options.append(option_at(label, candidates, prepared.market, at, note=excluded, allowed=not excluded))
        else:
            note = "not observed there" if _are_all_observed(candidates) else "no configuration within the limits"
            options.append(nothing_there(label, note, allowed=not excluded))
    return tuple(options)


def _are_all_observed(candidates: JobCandidates) -> bool:
    """Return whether all configurations are whole observed runs: then others are unknown rather than excluded."""
    observed = candidates.physics.ways.observed_hours
    return len(observed) > 0 and bool(np.isfinite(observed).all())


def find_runners_up(prepared: PreparedScenario, job: int, chosen: int, share: float) -> tuple[Option, ...]:
    """Return the best candidates on another GPU, at another provider or paid otherwise, with their difference.

    `chosen` is the row of the job's screened table that the plan uses, at the spot share `share`.
    """
    market, table = prepared.market, prepared.screened[job].table
    objective = CandidateObjective.of(prepared.scenario)
    value, shares = objective.best(table)
    reached = float(objective.values(table.rows(np.asarray([chosen])), share)[0])
    # The best candidate of each offer is enough: thousands of candidates share a few hundred offers.
    best = np.full(len(market.offers), np.inf)
    np.minimum.at(best, table.offer, value)
    leading = np.flatnonzero(np.isfinite(value) & (value <= best[table.offer]))

    def kind(row: int) -> tuple[str, str]:
        offer = int(table.offer[row])
        payment = PAYMENT_LABELS.get(str(market.offers[offer].tier), "by the hour")
        return f"{market.offers[offer].provider} {market.gpus[offer]}", payment

    seen = {kind(chosen)}
    less, more, times = objective.comparatives
    if less == "cheaper":
        less = "cheaper, but slower"  # within the half cent that a plan pays for fewer hours
    options: list[Option] = []
    for row in leading[np.argsort(value[leading], kind="stable")]:
        name, payment = kind(int(row))
        if (name, payment) in seen:
            continue
        seen.add((name, payment))
        same_gpu = market.gpus[int(table.offer[row])] == market.gpus[int(table.offer[chosen])]
        sigma = difference_sigma(prepared.library, same_gpu)
        note = describe_difference(float(value[row]), reached, sigma, (less, more, times))
        if payment != kind(chosen)[1]:
            note = f"{note}, {payment}".removeprefix(", ")
        if break_even := describe_break_even(market, market.offers[int(table.offer[row])], float(table.instances[row])):
            note = f"{note}: {break_even}"
        at = table, int(row), float(shares[row])
        options.append(option_at(name, prepared.candidates[job], market, at, note=note))
        if len(options) == MAX_RUNNERS_UP:
            break
    return tuple(options)


FASTER = {"half the time": 0.55, "a quarter": 0.275}
"""Trades that a plan of least cost shows, as shares of its hours at the confidence: each to within a tenth."""


def find_faster(prepared: PreparedScenario, hours: float) -> tuple[Option, ...]:
    """Return what it costs at least to end within shares of the hours at confidence, where cost is minimised.

    Each is the plan of least cost of the only job for that deadline: candidates on spot follow policies for it, and not
    those of the plan. A policy may end before its deadline at the confidence, as in every other table.
    """
    candidates, market, objective = prepared.candidates[0], prepared.market, CandidateObjective.of(prepared.scenario)
    limits, screened = prepared.scenario.limits, prepared.screened[0].table
    options: dict[tuple[int, float, float | None], Option] = {}
    for label, part in () if objective.by_time else FASTER.items():
        deadline = part * hours + candidates.job.start_slack_hours
        job = candidates.job.model_copy(update={"deadline_hours": deadline})
        in_time = screened.late_hours(0.0) <= part * hours * (1 - BOUND_ROUNDING)
        known = screened.rows(in_time & (screened.share_low <= 0))
        within = screen_up_to(prepared, replace(candidates, job=job), limits, known)
        table, rows = within.table, within.rows
        value, share = objective.best(table)
        if not np.isfinite(value).any():  # nothing ends so early
            continue
        best = int(np.lexsort((table.late_hours(share), value))[0])
        option = option_at(label, candidates, market, (table, best, float(share[best])))
        options.setdefault((int(rows[best]), float(share[best]), option.hours_at_confidence), option)
    return tuple(options.values())


def best_by_place(prepared: PreparedScenario, index: int) -> tuple[Option, ...]:
    """Return the best candidate of one job for each GPU at each provider, within the limits, the best first."""
    candidates, market = prepared.candidates[index], prepared.market
    limits, objective = prepared.scenario.limits, CandidateObjective.of(prepared.scenario)
    scope = SearchScope(every_place=True)
    table = screen(candidates, market, limits, prepared.library, True, objective.waiting_usd, scope).table
    value, share = objective.best(table)
    best: dict[tuple[str, str], Option] = {}
    for row in np.argsort(value, kind="stable")[: np.count_nonzero(np.isfinite(value))].tolist():
        offer = market.offers[int(table.offer[row])]
        place = offer.card, offer.provider
        if place not in best:
            best[place] = option_at("", candidates, market, (table, row, float(share[row])))
    return tuple(best.values())


def find_best_alternatives(plan: ResolvedPlan) -> tuple[Alternative, ...]:
    """Return per job and per provider, GPU and method the best candidate within the limits, best first.

    The other jobs stay as planned. A method that the job excludes is included and marked.
    """
    return tuple(alternative for job in range(len(plan.rows)) for alternative in _best_alternatives_of_job(plan, job))


def _best_alternatives_of_job(plan: ResolvedPlan, job: int) -> Iterator[Alternative]:
    prepared, market = plan.prepared, plan.prepared.market
    candidates, limits = prepared.candidates[job], prepared.scenario.limits
    objective = CandidateObjective.of(prepared.scenario)
    screened = screen(candidates, market, limits, prepared.library, False, objective.waiting_usd, BEST_OF_NAMES)
    table = screened.table
    budget_usd, within_shared = _remaining_limits(plan, job, table)
    value, share = replace(objective, budget_usd=budget_usd).best(table)
    score = np.where(within_shared, value, np.inf)
    second = (table.cost_usd if objective.by_time else table.hours)(share)
    slack = (LAST if objective.by_time else COST).slack
    is_recipe_allowed = [is_allowed(recipe, candidates.job) for recipe in candidates.recipes]
    allowed = np.asarray(is_recipe_allowed, dtype=bool)[table.recipe]
    is_chosen = screened.rows == plan.rows[job]
    providers = np.asarray([offer.provider for offer in market.offers])[table.offer]
    gpus = np.asarray(market.gpus)[table.offer]
    methods = np.asarray([recipe.method_label for recipe in candidates.recipes])[table.recipe]
    groups: tuple[tuple[Literal["provider", "gpu", "method"], Floats, Flags], ...] = (
        ("provider", providers, allowed),
        ("gpu", gpus, allowed),
        ("method", methods, np.ones(len(table), dtype=bool)),
    )
    run, run_shares = plan.as_run
    chosen, chosen_share = run.rows(np.asarray([job])), float(run_shares[job])
    reached = float(objective.values(chosen, chosen_share)[0])
    current = ScoredCandidate(chosen, 0, chosen_share, reached, plan.rows[job])
    for by, names, members in groups:
        best: list[tuple[bool, float, str, int]] = []
        for name in np.unique(names[members]):
            rows = np.flatnonzero((names == name) & members)
            if is_chosen[rows].any():  # the plan itself, not an alternative within half a cent of it
                best.append((False, current.score, str(name), int(rows[is_chosen[rows]][0])))
                continue
            # As in the passes of a solve: within the slack of the best the order of ties decides, then what rounds.
            near = rows[score[rows] <= np.min(score[rows]) + slack]
            of_ties = second[near], table.instances[near], table.preference[near]
            row = int(near[np.lexsort((score[near], table.lossiness[near], *of_ties, ~allowed[near]))[0]])
            if math.isfinite(score[row]):
                best.append((True, float(score[row]), str(name), row))
        for is_other, value_of_row, name, row in sorted(best):
            other = ScoredCandidate(table, row, float(share[row]), value_of_row, int(screened.rows[row]))
            alternative = _build_alternative(plan, job, current, other if is_other else current)
            yield alternative.model_copy(update={"by": by, "name": name, "allowed": bool(allowed[row])})


def _remaining_limits(plan: ResolvedPlan, job: int, table: CandidateTable) -> tuple[float, Flags]:
    """Return what the other jobs leave of the shared limits.

    These are the dollars of the budget, and the candidates (n,) within the GPUs, quota, stock and paid hours that are
    left.
    """
    limits, chosen, market = plan.prepared.scenario.limits, plan.chosen, plan.prepared.market
    others = np.arange(len(chosen)) != job
    late_usd = chosen.late_cost_usd(np.asarray(plan.shares))
    spent_usd, together_usd = float(np.sum(late_usd[others])), plan.late_usd - float(np.sum(late_usd))
    # Jobs on several markets need less together than by themselves: what they need less is there to be spent.
    budget_usd = math.inf if limits.budget_usd is None else limits.budget_usd - spent_usd - min(together_usd, 0.0)
    if len(chosen) == 1:
        return budget_usd, np.ones(len(table), dtype=bool)

    def left(most: Iterable[float | None], used: Floats | Integers, owner: Integers) -> Floats:
        """Return what the other jobs leave of limits, one per owner; infinite where there is none."""
        unused = np.asarray([math.inf if limit is None else limit for limit in most], dtype=float)
        np.subtract.at(unused, owner[others], used[others])
        return unused

    quota = left(map(limits.quota.get, table.providers), chosen.gpus, chosen.provider)
    stock = left((offer.stock for offer in market.offers), chosen.instances, chosen.offer)
    hours = left((offer.committed_hours for offer in market.offers), chosen.rented_h, chosen.offer)
    fits = np.asarray(table.gpus <= quota[table.provider])
    for peak in shared_peaks(limits, market):
        room = peak.most - float(np.sum(peak.used(chosen)[others]))
        fits &= peak.used(table) <= room + PEAK_TOLERANCE * peak.most
    if typical := typical_stock(plan.prepared.scenario, market):
        fits &= typical.fits_next_to(chosen.rows(others), table)
    fits &= (table.instances <= stock[table.offer]) & (table.rented_h <= hours[table.offer])
    return budget_usd, np.asarray(fits, dtype=bool)


def _build_alternative(plan: ResolvedPlan, job: int, current: ScoredCandidate, other: ScoredCandidate) -> Alternative:
    candidates, market = plan.prepared.candidates[job], plan.prepared.market
    figures = figures_of(other.table, other.row, other.share, market)
    figures |= _keeps_and_rent((other.table, other.row, other.share), market)
    return Alternative(
        by="provider",
        job=candidates.job.name,
        name="",
        plan=describe_candidate(candidates, other.uncut_row, other.share, market),
        method=describe_method(recipe_of(candidates, other.uncut_row)),
        difference=other.score / current.score - 1 if current.score > 0 else None,
        verdict="the plan" if other is current else _describe_alternative(plan, current, other, figures),
        chosen=other is current,
        **figures,
    )


def _describe_alternative(
    plan: ResolvedPlan, current: ScoredCandidate, other: ScoredCandidate, figures: dict[str, Any]
) -> str:
    """Return how much worse an alternative is; if by nothing, what else differs; and its additional penalty."""
    prepared, objective = plan.prepared, CandidateObjective.of(plan.prepared.scenario)
    own = figures_of(current.table, current.row, current.share, prepared.market)
    own |= _keeps_and_rent((current.table, current.row, current.share), prepared.market)
    sigma = difference_sigma(prepared.library, figures["gpu"] == own["gpu"])
    summary = describe_difference(other.score, current.score, sigma, objective.comparatives)
    if summary == NO_DIFFERENCE:
        key = "cost_usd" if objective.by_time else "hours_at_confidence"
        more = figures[key] - own[key]
        if abs(more) >= MIN_RELATIVE_DIFFERENCE * max(figures[key], own[key]):
            less_or_later = (
                f"${abs(more):,.2f} {'more' if more > 0 else 'less'}"
                if objective.by_time
                else f"{abs(more):,.1f} h {'later' if more > 0 else 'earlier'}"
            )
            summary += f", {less_or_later}"
    penalty_usd = float(other.table.penalty_usd[other.row] - current.table.penalty_usd[current.row])
    return f"{summary}, penalty ${penalty_usd:,.0f}" if penalty_usd >= 1 and not objective.by_time else summary


# What to do if the machines of a plan cannot be had: as many further ways as a scenario asks for, each solved.
#
# A way is the plan of the same scenario without the offers of the provider and card that the job rents in the plan, and
# in the ways before it. So it keeps every limit, and of several jobs the others may move with it. How likely an offer
# is to be out of stock is not known, and not assumed: where trying is free, offers are tried in the order of their cost
# whatever those probabilities are.


SOLVED = ("optimal", "feasible")
PATH = "limits.fallbacks"
Place = tuple[str, str]
"""Provider and card."""


class Solve(Protocol):
    """What solves a prepared scenario that asks for no further ways."""

    def __call__(self, prepared: PreparedScenario, /) -> Plan:
        """Return the plan."""
        ...


@dataclass(frozen=True)
class WaysOfJob:
    """The ways that were found for a job, and the scenario that has no further one; None where there are enough."""

    ways: tuple[FurtherWay, ...]
    barren: Scenario | None = None


def without_demand(prepared: PreparedScenario) -> PreparedScenario:
    """Return the same without the demand for further ways, which no candidate depends on."""
    limits = prepared.scenario.limits.model_copy(update={"fallbacks": 0})
    return replace(prepared, scenario=prepared.scenario.model_copy(update={"limits": limits}))


def with_further_ways(prepared: PreparedScenario, plan: Plan, solve: Solve, explains: bool) -> Plan:
    """Return the plan with the further ways that the scenario asks for, or why it has too few.

    `plan` is that of the scenario without the demand.
    """
    scenario, free = prepared.scenario, without_demand(prepared)
    wanted = scenario.limits.fallbacks
    ways_of_jobs = [_ways_of_job(free, plan, job, wanted, solve) for job in plan.jobs]
    if all(ways_of_job.barren is None for ways_of_job in ways_of_jobs):
        jobs = tuple(
            job.model_copy(update={"fallbacks": ways_of_job.ways})
            for job, ways_of_job in zip(plan.jobs, ways_of_jobs, strict=True)
        )
        beyond = [job.name for job in jobs if not all(way.keeps_typical_stock for way in job.fallbacks)]
        note = (f"further ways of {', '.join(beyond)} {WAYS_BEYOND_TYPICAL_STOCK}",) if beyond else ()
        update = {"jobs": jobs, "warnings": (*plan.warnings, *note)}
        return plan.model_copy(update={**update, "inputs": build_inputs(scenario, jobs, solver_versions())})
    facts = {
        name: getattr(plan, name) for name in ("scenario", "solver", "seconds", "as_of", "candidates", "now", "cut")
    }
    nothing = dict.fromkeys(("objective", "bound", "gap", "cost", "hours"))
    why = _explain(prepared, plan, ways_of_jobs, solve) if explains else None
    return Plan(**facts, **nothing, status="infeasible", infeasible=why)


def _ways_of_job(free: PreparedScenario, plan: Plan, job: Assignment, wanted: int, solve: Solve) -> WaysOfJob:
    """Return as many further ways as wanted, or all there are."""
    barred: list[Place] = [(job.provider, job.gpu)]
    ways: list[FurtherWay] = []
    while len(ways) < wanted:
        reduced = without_places(free.scenario, barred)
        other = _solve_reduced(free, reduced, solve)
        if other is None:
            return WaysOfJob(tuple(ways), reduced)
        mine = other.assignment(job.name)
        ways.append(_further_way(plan, other, mine))
        barred.append((mine.provider, mine.gpu))
    return WaysOfJob(tuple(ways))


def _solve_reduced(free: PreparedScenario, reduced: Scenario, solve: Solve) -> Plan | None:
    """Return the plan of a scenario with fewer offers, without alternatives; None where it has none."""
    if not any(offer.rents_gpus or offer.is_managed for offer in reduced.offers):
        return None
    try:
        # Slim is what has no alternatives to show.
        plan = solve(replace(prepare(reduced, free.library, free), is_slim=True))
    except ScenarioError:  # what is left cannot hold or prepare the data
        return None
    return plan if plan.status in SOLVED else None


def without_places(scenario: Scenario, barred: Sequence[Place]) -> Scenario:
    """Return the scenario without the offers of some providers and cards."""
    kept = {
        name: tuple(
            offer
            for offer in getattr(scenario, name)
            if (offer.provider, MANAGED if offer.is_managed else offer.card) not in barred
        )
        for name in ("offers", "offers_inline")
    }
    return scenario.model_copy(update=kept)


def _further_way(plan: Plan, other: Plan, mine: Assignment) -> FurtherWay:
    """Return a plan without some offers as what one job does then."""
    paid = plan.cost.expected if plan.cost else 0.0
    return FurtherWay(
        provider=mine.provider,
        gpu=mine.gpu,
        gpus=mine.gpus,
        runs_at_once=mine.runs_at_once,
        cost_usd=mine.cost_usd,
        hours=mine.delay_hours + mine.hours.expected,
        more_usd=(other.cost.expected if other.cost else 0.0) - paid,
        jobs=tuple(job.model_dump(mode="json", by_alias=True) for job in other.jobs),
        reservations=other.reservations,
        keeps_typical_stock=other.keeps_typical_stock,
    )


def _explain(prepared: PreparedScenario, plan: Plan, ways_of_jobs: Sequence[WaysOfJob], solve: Solve) -> Infeasible:
    """Return ways out: fewer further ways, and the limits without which there is one more, each verified by solving."""
    scenario, most = prepared.scenario, min(len(ways_of_job.ways) for ways_of_job in ways_of_jobs)
    relax = [_relaxation(plan, PATH, scenario.limits.fallbacks, most, f"{PATH}={most}", 1)]
    barren = next(
        ways_of_job.barren
        for ways_of_job in ways_of_jobs
        if ways_of_job.barren is not None and len(ways_of_job.ways) == most
    )
    if not any(offer.rents_gpus for offer in barren.offers):
        return Infeasible(relax=tuple(relax))
    from planner.solving.diagnosis import diagnose  # loads many modules that a plan does not need

    free = without_demand(prepared)
    why = diagnose(prepare(barren, free.library, free, may_be_slim=False))
    for way in dict.fromkeys(relaxation.way for relaxation in why.relax):
        changes = [relaxation for relaxation in why.relax if relaxation.way == way]
        if (then := _verified(prepared, [change.setting for change in changes], solve)) is not None:
            number = relax[-1].way + 1
            relax += [
                _relaxation(then, change.limit, change.change_from, change.change_to, change.setting, number)
                for change in changes
            ]
    return Infeasible(relax=tuple(relax), nearest=why.nearest)


def _verified(prepared: PreparedScenario, settings: Sequence[str], solve: Solve) -> Plan | None:
    """Return the plan of the scenario with settings if it has all further ways; else None."""
    try:
        changed = with_settings(prepared, settings)
        plan = solve(replace(without_demand(changed), is_slim=True))
    except ScenarioError:
        return None
    if plan.status not in SOLVED:
        return None
    plan = with_further_ways(changed, plan, solve, explains=False)
    return plan if plan.status in SOLVED else None


def _relaxation(
    then: Plan, limit: str, before: float | str | None, after: float | str | None, setting: str, way: int
) -> Relaxation:
    """Return one changed limit with the plan that it leads to."""
    words = [f"{describe_machines(job.gpus, job.gpu, job.runs_at_once)} at {job.provider}" for job in then.jobs]
    named = words if len(words) == 1 else [f"{job.name}: {word}" for job, word in zip(then.jobs, words, strict=True)]
    return Relaxation(
        **{"from": before, "to": after},
        limit=limit,
        then="; ".join(named),
        way=way,
        setting=setting,
        cost_usd=then.cost.expected if then.cost else None,
        hours=then.hours.expected if then.hours else None,
    )
