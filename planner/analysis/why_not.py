"""Why not X: X is fixed and the program solved again; else what excludes X, and the least change that admits it."""

from __future__ import annotations

import math
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from planner import timetable
from planner.analysis.why_not_query import (
    WhyNotQuery,
    find_blockers,
    find_remedies,
    matches_query,
    named_offers,
    pin_techniques,
)
from planner.arrays import CandidateTable, Flags
from planner.candidates.candidate_enumeration import Margins, enumerate_candidates
from planner.candidates.job_candidates import JobCandidates
from planner.candidates.screening import CandidateObjective, screen
from planner.candidates.spot_candidates import ScreenedCandidates
from planner.results.explanation import WhyNot
from planner.results.plan import Plan
from planner.scenario.limits import PEAK_LIMITS, AllowForbid
from planner.scenario.scenario import Scenario, SolveOptions
from planner.solving.alternatives import COST_WORDS, describe_difference, difference_sigma
from planner.solving.binding_limits import with_job
from planner.solving.chosen import describe_break_even, recipe_of, rent_usd_per_hour
from planner.solving.diagnosis import build_relaxations, verified_relaxations
from planner.solving.elastic_program import HEADROOM, RelaxedCandidates, margin_of, relax_candidates
from planner.solving.limit_changes import LimitChange, limit_key
from planner.solving.optimise_choice import ResolvedPlan, try_solve
from planner.solving.prepare import PreparedScenario, prepare
from planner.solving.solve import solve_built, solve_prepared

if TYPE_CHECKING:
    from collections.abc import Callable

MIN_FACTOR = 1.03
"""Factor from which on a difference is a reason."""
SAME_COST_USD = 0.01
"""Difference of the objective below which two plans on the same machines are one."""


def answer_query(prepared: PreparedScenario, plan: ResolvedPlan | None, query: WhyNotQuery) -> WhyNot:
    """Return the answer to one query; `plan` is that of the scenario, None if there is none."""
    base = _with_every_offer(prepared, query)
    found = solve_query(base, query)
    if found is not None:
        same = plan is not None and _is_same(plan, found, query.job)
        if same:
            return _priced_answer(query, plan, found, status="chosen")
        least = _of_least_cost(base, query, found)
        reasons = _differences(plan, least, query.job) if plan is not None else ()
        return _priced_answer(query, plan, least, status="possible", reasons=(*reasons, *_near_tie(least, found)))
    relaxed = _relaxed_matches(base, query)
    if relaxed is not None:
        verified = verified_relaxations(base, relaxed, lambda changed: solve_query(changed, query), 1)
        if verified:
            (found, changes), *_ = verified
            reasons, relax = tuple(_reason(change, base) for change in changes), build_relaxations(found, changes, 1)
            return _priced_answer(query, plan, found, status="beyond", reasons=reasons, relax=tuple(relax))
    reasons, memory = find_blockers(base, query)
    return WhyNot(
        asked=query.text,
        status="impossible",
        reasons=reasons,
        memory=memory,
        remedies=find_remedies(base, query, solve_query),
    )


def _priced_answer(query: WhyNotQuery, plan: ResolvedPlan | None, found: ResolvedPlan, **answer: Any) -> WhyNot:
    """Return an answer with the price of X, and how it compares with that of the plan."""
    times = found.cost_usd / plan.cost_usd if plan is not None and plan.cost_usd > 0 else None
    figures = {"plan": found.description, "cost_usd": found.cost_usd, "hours": found.hours, "times": times}
    offer = found.prepared.market.offers[int(found.chosen.offer[query.job])]
    figures["hours_at_confidence"] = found.late_hours
    share = float(found.as_run[1][query.job])
    figures["usd_per_hour"] = rent_usd_per_hour(offer, int(found.chosen.gpus[query.job]), share)
    if plan is not None:
        figures["verdict"] = _verdict(plan, found, query.job)
    return WhyNot(asked=query.text, **figures, **answer)


def solve_query(prepared: PreparedScenario, query: WhyNotQuery) -> ResolvedPlan | None:
    """Return the best plan that runs the job as the query asks, within all limits; None if there is none."""
    pinned = prepare(_fix_techniques(prepared.scenario, query), prepared.library, prepared)
    return try_solve(keep_matches(pinned, query))


def solve_pinned(prepared: PreparedScenario, query: WhyNotQuery, options: SolveOptions) -> Plan:
    """Return the plan whose one job runs as the query asks, of all ways to run it where jobs take turns."""
    pinned = keep_matches(prepare(_fix_techniques(prepared.scenario, query), prepared.library, prepared), query)
    if not pinned.scenario.needs_timetable:
        return solve_prepared(pinned, options, explains=False)
    built = timetable.build_timetable(pinned, rows_in_market(query))
    return solve_built(pinned, built, options, perf_counter(), explains=False)


def keep_matches(prepared: PreparedScenario, query: WhyNotQuery) -> PreparedScenario:
    """Return the scenario with those candidates of the job alone that the query asks for, screened again.

    Screened with all others, most of them have no policy on spot: only what may be the best of its method has one.
    """
    scenario, (floor, cap) = prepared.scenario, query.spot_bounds
    candidates, screened = list(prepared.candidates), list(prepared.screened)
    one = candidates[query.job]
    one = one.rows(match_rows(one, one.table, named_offers(prepared, query), query))
    share = scenario.limits.spot_share
    bounds = share.model_copy(update={"min": max(share.min, floor), "max": min(share.max, cap)})
    limits = scenario.limits.model_copy(update={"spot_share": bounds})
    waiting = CandidateObjective.of(scenario).waiting_usd
    candidates[query.job] = one
    screened[query.job] = screen(one, prepared.market, limits, prepared.library, waiting_usd=waiting)
    return replace(prepared, candidates=tuple(candidates), screened=tuple(screened))


def rows_in_market(query: WhyNotQuery) -> Callable[[int, ScreenedCandidates], ScreenedCandidates]:
    """Return what keeps the rows of the job that may run in the market of the query, within its spot shares."""
    floor, cap = query.spot_bounds

    def keep(index: int, screened: ScreenedCandidates) -> ScreenedCandidates:
        if index != query.job:
            return screened
        one = screened.select((screened.table.share_low <= cap) & (screened.table.share_high >= floor))
        return replace(one, table=in_market(one.table, query))

    return keep


def _with_every_offer(prepared: PreparedScenario, query: WhyNotQuery) -> PreparedScenario:
    """Return the scenario with every offer of its own if the query may name one that is not the cheapest of its kind.

    Every region is allowed by name, so that regions and instances count.
    """
    scenario = prepared.scenario
    if not {"region", "offer", "instance", "market"} & query.given.keys() or scenario.limits.regions != AllowForbid():
        return prepared
    regions = AllowForbid(allow=tuple(dict.fromkeys(offer.region for offer in scenario.offers)))
    limits = scenario.limits.model_copy(update={"regions": regions})
    return prepare(scenario.model_copy(update={"limits": limits}), prepared.library, prepared)


def _fix_techniques(scenario: Scenario, query: WhyNotQuery) -> Scenario:
    """Return the scenario with each technique of the query as the only one, if the job's own list admits it."""
    job = scenario.jobs[query.job]
    techniques = job.techniques
    given: dict[str, Any] = {
        field: job.framework if field == "framework" else getattr(techniques, field) for field in query.techniques
    }
    update = {
        field: (value,) for field, value in query.techniques.items() if given[field] is None or value in given[field]
    }
    framework = update.pop("framework", job.framework)
    return with_job(scenario, query.job, {"framework": framework, "techniques": techniques.model_copy(update=update)})


def match_rows(one: JobCandidates, table: CandidateTable, offers: Flags, query: WhyNotQuery) -> Flags:
    """Return the rows (n,) of a table of the job whose offer, GPUs, market and recipe match the query."""
    floor, cap = query.spot_bounds
    fits = np.asarray([matches_query(recipe, query) for recipe in one.recipes], dtype=bool)
    mask = offers[table.offer] & fits[table.recipe] & (table.share_low <= cap) & (table.share_high >= floor)
    return np.asarray(mask & (table.gpus == query.given.get("gpus", table.gpus)), dtype=bool)


def in_market(table: CandidateTable, query: WhyNotQuery, members: Flags | bool = True) -> CandidateTable:
    """Return a table with the work of some rows (n,) in the market of the query."""
    floor, cap = query.spot_bounds
    low, high = np.maximum(table.share_low, floor), np.minimum(table.share_high, cap)
    return replace(
        table, share_low=np.where(members, low, table.share_low), share_high=np.where(members, high, table.share_high)
    )


def _relaxed_matches(prepared: PreparedScenario, query: WhyNotQuery) -> RelaxedCandidates | None:
    """Return every candidate that runs the job as the query asks, whatever limits it breaks; None if there is none."""
    job, pinned = prepared.scenario.jobs[query.job], pin_techniques(prepared, query)
    one = prepared.candidates[query.job]
    headroom = prepared.scenario.limits.vram_headroom
    margins = [headroom, *([0.0] if margin_of(job, prepared.scenario.limits, prepared.library) > 0 else [])]
    offers = named_offers(prepared, query)
    pieces = []
    for margin in margins:
        names, both = one.table.jobs, Margins(margin, one.run_hours.budget_confidence)
        made = enumerate_candidates(pinned, one.architecture, prepared.market, names, prepared.library, both)
        pieces.append(made.rows(match_rows(made, made.table, offers, query)))
    if not any(len(piece.table) for piece in pieces):
        return None
    relaxed = relax_candidates(prepared, {query.job: pieces})
    floor, cap = query.spot_bounds
    table = relaxed.table
    relaxed = relaxed.rows((table.job != query.job) | ((table.share_low <= cap) & (table.share_high >= floor)))
    return replace(relaxed, table=in_market(relaxed.table, query, relaxed.table.job == query.job))


def _is_same(plan: ResolvedPlan, found: ResolvedPlan, job: int) -> bool:
    """Return whether two plans run a job on the same machines with the same recipe, at the same objective."""
    return _kind(found, job) == _kind(plan, job) and abs(found.objective - plan.objective) < SAME_COST_USD


def _kind(plan: ResolvedPlan, job: int) -> tuple[object, ...]:
    one, row = plan.prepared.candidates[job], plan.rows[job]
    offer = plan.prepared.market.offers[int(one.table.offer[row])]
    return offer.provider, offer.gpu, int(one.table.gpus[row]), recipe_of(one, row), round(plan.shares[job], 2)


def _differences(plan: ResolvedPlan, found: ResolvedPlan, job: int) -> tuple[str, ...]:
    """Return what makes the difference: the price of an hour, the hours, commitments, GPUs; largest factor first.

    What speaks for X comes last. Dollars per hour are those of the bill: on spot a run also waits, for nothing.
    """
    (price, hours), (price_x, hours_x) = _per_hour(plan, job), _per_hour(found, job)
    gpus, gpus_x = int(plan.chosen.gpus[job]), int(found.chosen.gpus[job])
    hour = "an hour with waiting" if max(plan.shares[job], found.shares[job]) > 0 else "an hour"
    reasons, although = [], []
    for with_x, usual, words in (
        (price_x, price, f"{hour} costs ${price_x:,.2f} against ${price:,.2f}"),
        (hours_x, hours, f"it likely takes {_format_duration(hours_x)} against {_format_duration(hours)}"),
    ):
        if words.startswith("an hour") and not (gpus and gpus_x):
            continue  # a service charges for tokens and runs, whatever their hours
        if min(with_x, usual) <= 0:  # nothing is a multiple of what is free
            reasons += [(math.inf, words)] if with_x > usual else []
            although += [f"although {words}"] if with_x < usual else []
        elif with_x > MIN_FACTOR * usual:
            reasons.append((math.log(with_x / usual), f"{words} ({_format_factor(with_x / usual)})"))
        elif usual > MIN_FACTOR * with_x:
            although.append(f"although {words} ({_format_factor(with_x / usual)})")
    described = [words for _, words in sorted(reasons, reverse=True)]
    market, place = found.prepared.market, int(found.chosen.offer[job])
    if break_even := describe_break_even(market, market.offers[place], float(found.chosen.instances[job])):
        described.append(f"its commitment {break_even}")
    if not gpus or not gpus_x:
        described.insert(0, "it charges for tokens or runs, not for hours" if gpus else "it is paid by the hour")
    elif gpus != gpus_x:
        described.append(f"{gpus_x:,} GPU{'s' if gpus_x > 1 else ''} against {gpus:,}")
    penalty = float(found.chosen.penalty_usd[job] - plan.chosen.penalty_usd[job])
    if abs(penalty) >= 0.01:
        described.append(f"penalties make ${penalty:+,.2f}".replace("$-", "-$").replace("$+", "+$"))
    return (*described, *although)


def _of_least_cost(prepared: PreparedScenario, query: WhyNotQuery, found: ResolvedPlan) -> ResolvedPlan:
    """Return the plan of least cost with X, which tables of other ways show, in place of a near tie that costs more."""
    scenario = found.prepared.scenario
    in_dollars = scenario.objective_kind == "cost" and scenario.has_plain_dollars
    if not in_dollars or round(found.cost_usd, 2) <= round(found.objective, 2):
        return found
    strict = {"solve": prepared.scenario.solve.model_copy(update={"ties": 0.0})}
    return solve_query(replace(prepared, scenario=prepared.scenario.model_copy(update=strict)), query) or found


def _near_tie(least: ResolvedPlan, found: ResolvedPlan) -> tuple[str, ...]:
    """Return what `solve` with X alone prefers where that is a near tie of the least cost shown."""
    if least is found:
        return ()
    late = f"by {found.late_hours:,.1f} h"
    return (f"with it alone planner solve prefers a near tie: ${found.cost_usd:,.2f}, {late} (solve.ties)",)


def _verdict(plan: ResolvedPlan, found: ResolvedPlan, job: int) -> str:
    """Return how the objective with X differs from that of the plan, in the words of the tables of other ways."""
    objective = CandidateObjective.of(plan.prepared.scenario)
    by_time = objective.by_time
    values = [one.hours if by_time else one.cost_usd for one in (found, plan)]
    gpus = [one.prepared.market.gpus[int(one.chosen.offer[job])] for one in (found, plan)]
    sigma = difference_sigma(plan.prepared.library, gpus[0] == gpus[1])
    return describe_difference(values[0], values[1], sigma, objective.comparatives if by_time else COST_WORDS)


def _format_duration(hours: float) -> str:
    """Return hours, or minutes below a tenth of an hour."""
    return f"{hours * 60:,.0f} min" if hours < 0.1 else f"{hours:,.1f} h"


def _format_factor(factor: float) -> str:
    """Return a factor in words: `2.1x`, `7.5x less`, `4 % more`."""
    if 1 / 1.5 < factor < 1.5:
        return f"{abs(factor - 1) * 100:.0f} % {'more' if factor > 1 else 'less'}"
    return f"{factor:,.1f}x" if factor > 1 else f"{1 / factor:,.1f}x less"


def _per_hour(plan: ResolvedPlan, job: int) -> tuple[float, float]:
    """Return dollars per expected hour of one job, and its expected hours."""
    table, shares = plan.as_run
    one, share = table.rows(np.asarray([job])), shares[[job]]
    hours = float(one.hours(share)[0])
    return float(one.cost_usd(share)[0]) / hours, hours


REASONS = {
    "deadline": "it takes {new:.4g} h at {confidence:.3g} % confidence; the deadline is {old:.4g} h",
    "max_hours": "it takes {new:.4g} h at the requested confidence; at most {old:.4g} h are allowed",
    "budget_usd": "it costs ${new:,.2f} at the requested confidence; the budget is ${old:,.2f}",
    **{limit.key: limit.excludes for limit in PEAK_LIMITS if limit.excludes},
    "quota": "it needs {new:,.0f} GPUs at {name}; the quota is {old:,.0f}",
    "spot_share": "it needs a spot share of {new:.2g}; spot_share.{name} is {old:.2g}",
    "max_price_age": "its price is too old: limits.max_price_age is {old}",
    "at_once": "there are machines for {new:g} {plans} at a time; {old:g} are requested",
}
"""Why a limit excludes X, by its key in the scenario."""


def _reason(change: LimitChange, base: PreparedScenario) -> str:
    """Return a limit that excludes X, as a sentence with both values."""
    limit, old, new = change.limit, change.old, change.new
    if limit == HEADROOM:
        margins = f"{float(new) * 100:.3g} %; {float(old) * 100:.3g} %"
        return f"it fits in memory only with a margin of {margins} are kept free"
    if limit.endswith(".confidence.memory"):
        asked = f"{float(old) * 100:.3g} % are asked for"
        return f"it fits in memory with {float(new) * 100:.3g} % probability; {asked}"
    job = next((job for job in base.scenario.jobs if limit.startswith(f"jobs.{job.name}.")), None)
    if reason := REASONS.get(limit_key(limit)):
        confidence, plans = job.confidence * 100 if job else None, "plan" if new == 1 else "plans"
        name = limit.removeprefix("limits.").partition(".")[2]
        return reason.format(new=new, old=old, name=name, confidence=confidence, plans=plans)
    what = str(new).removeprefix("allow also ")
    kind, _, names = str(old).partition(" ")
    if kind == "forbid":
        return f"{limit} forbids {what}"
    return f"{limit} allows {names if kind == 'allow' else old}, not {what}"
