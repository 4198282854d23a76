"""Why not X: X is fixed and the same program solved; else what stands in its way, and the least change that lets it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from planner.analysis.explain.blockers import find_blockers, find_remedies, matches_query, pin_techniques
from planner.analysis.explain.why_not_query import SPOT_MAJORITY, WhyNotQuery
from planner.candidates.enumeration import JobCandidates, enumerate_candidates
from planner.candidates.screening import ScreenedCandidates, screen
from planner.decode.assignment_parts import describe_break_even
from planner.results.explanation import WhyNot
from planner.scenario.scenario import AllowForbid, Job, Scenario, Techniques
from planner.solving.infeasibility.candidate_filters import HEADROOM
from planner.solving.infeasibility.diagnosis import verified_relaxations
from planner.solving.infeasibility.relaxations import LimitChange, build_relaxations
from planner.solving.infeasibility.relaxed_candidates import RelaxedCandidates, margin_of, relax_candidates
from planner.solving.prepare import PreparedScenario, prepare
from planner.solving.resolve import ResolvedPlan, recipe_of, try_solve
from planner.solving.scoring import CandidateObjective

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.arrays import Flags
    from planner.candidate_table import CandidateTable

MIN_FACTOR = 1.03
"""Factor from which on a difference is a reason."""


def answer_query(prepared: PreparedScenario, trial: ResolvedPlan | None, wish: WhyNotQuery) -> WhyNot:
    """The answer for one wish; `trial` is the plan, None where there is none."""
    base = _with_regions(prepared, wish)
    found = solve_query(base, wish)
    if found is not None:
        return _feasible_answer(trial, found, wish)
    wide = _relaxed_matches(base, wish)
    if wide is not None:
        ways = verified_relaxations(base, wide, lambda changed: solve_query(changed, wish), 1)
        if ways:
            return _infeasible_answer(base, trial, *ways[0], wish)
    reasons, memory = find_blockers(base, wish)
    return WhyNot(
        asked=wish.asked,
        status="impossible",
        reasons=reasons,
        memory=memory,
        remedies=find_remedies(base, wish, solve_query),
    )


def solve_query(prepared: PreparedScenario, wish: WhyNotQuery) -> ResolvedPlan | None:
    """The best plan of a question in which the job is run as wished, within all limits."""
    pinned = prepare(_fix_techniques(prepared.scenario, wish), prepared.library, prepared)
    one = _require_spot_majority(pinned, wish.job) if wish.market == "spot" else pinned.screened[wish.job]
    mask = match_rows(pinned.candidates[wish.job], one.table, market_mask(pinned, wish), wish)
    screened = list(pinned.screened)
    screened[wish.job] = _in_market(one, mask, wish)
    return try_solve(replace(pinned, screened=tuple(screened)))


def _require_spot_majority(prepared: PreparedScenario, job: int) -> ScreenedCandidates:
    """The ways of a job that do most of its work on spot: a policy may be another one for that."""
    scenario = prepared.scenario
    share = scenario.limits.spot_share
    floor = share.model_copy(update={"min": max(share.min, SPOT_MAJORITY)})
    limits = scenario.limits.model_copy(update={"spot_share": floor})
    waiting = CandidateObjective.of(scenario).waiting_usd
    return screen(prepared.candidates[job], prepared.market, limits, prepared.library, waiting_usd=waiting)


def _with_regions(prepared: PreparedScenario, wish: WhyNotQuery) -> PreparedScenario:
    """The same question with regions told apart where the wish names one: every region is allowed by name."""
    scenario = prepared.scenario
    if not {"region", "offer"} & wish.where.keys() or scenario.limits.regions != AllowForbid():
        return prepared
    regions = AllowForbid(allow=tuple(dict.fromkeys(offer.region for offer in scenario.offers)))
    limits = scenario.limits.model_copy(update={"regions": regions})
    return prepare(scenario.model_copy(update={"limits": limits}), prepared.library, prepared)


def _fix_techniques(scenario: Scenario, wish: WhyNotQuery) -> Scenario:
    """The scenario with each technique of the wish as the only one, where the job's own list lets it in."""
    jobs = list(scenario.jobs)
    job = jobs[wish.job]
    jobs[wish.job] = job.model_copy(update={"techniques": _fix_job_techniques(job, wish, job.techniques)})
    return scenario.model_copy(update={"jobs": tuple(jobs)})


def _fix_job_techniques(job: Job, wish: WhyNotQuery, asked: Techniques) -> Techniques:
    update = {}
    for field, value in wish.techniques.items():
        given = getattr(asked, field)
        if given is None or value in given:
            update[field] = (value,)
    return asked.model_copy(update=update)


def market_mask(prepared: PreparedScenario, wish: WhyNotQuery) -> Flags:
    """Offers (offers,) that the wish asks about."""
    market = prepared.market
    return np.asarray(
        [wish.permits(o, label) for o, label in zip(market.offers, market.labels, strict=True)], dtype=bool
    )


def match_rows(one: JobCandidates, table: CandidateTable, offers: Flags, wish: WhyNotQuery) -> Flags:
    """Rows (n,) of a table of the job whose offer, GPUs and recipe are as wished."""
    recipes = one.recipes
    fits = np.asarray([matches_query(recipe, wish) for recipe in recipes], dtype=bool)
    mask = offers[table.offer]
    if len(recipes):
        mask = mask & fits[table.recipe]
    if wish.gpus is not None:
        mask = mask & (table.gpus == wish.gpus)
    if wish.market == "spot":
        mask = mask & (table.share_high >= SPOT_MAJORITY)
    if wish.market == "on_demand":
        mask = mask & (table.share_low <= 0)
    return np.asarray(mask, dtype=bool)


def _in_market(one: ScreenedCandidates, mask: Flags, wish: WhyNotQuery) -> ScreenedCandidates:
    """The screened rows that are as wished, their work in the wished market."""
    table = _fix_share(one.table.rows(mask), wish)
    return replace(one, table=table, rows=one.rows[mask], rounded=one.rounded[mask])


def _fix_share(table: CandidateTable, wish: WhyNotQuery) -> CandidateTable:
    if wish.market == "spot":
        return replace(table, share_low=np.maximum(table.share_low, SPOT_MAJORITY))
    if wish.market == "on_demand":
        return replace(table, share_low=np.zeros(len(table)), share_high=np.zeros(len(table)))
    return table


def _relaxed_matches(prepared: PreparedScenario, wish: WhyNotQuery) -> RelaxedCandidates | None:
    """Every way to run the job as wished, limits and filters broken; None where there is none."""
    job, pinned = prepared.scenario.jobs[wish.job], pin_techniques(prepared, wish)
    one = prepared.candidates[wish.job]
    headroom = prepared.scenario.limits.vram_headroom
    margins = [headroom, *([0.0] if margin_of(job, prepared.scenario.limits, prepared.library) > 0 else [])]
    offers = market_mask(prepared, wish)
    pieces = []
    for margin in margins:
        made = enumerate_candidates(pinned, one.architecture, prepared.market, one.table.jobs, prepared.library, margin)
        pieces.append(made.rows(match_rows(made, made.table, offers, wish)))
    if not any(len(piece.table) for piece in pieces):
        return None
    wide = relax_candidates(prepared, {wish.job: pieces})
    table = wide.table
    mine = table.job == wish.job
    if wish.market is None:
        return wide
    floor, cap = (SPOT_MAJORITY, 1.0) if wish.market == "spot" else (0.0, 0.0)
    wide = wide.rows(~mine | ((table.share_low <= cap) & (table.share_high >= floor)))
    table, mine = wide.table, wide.table.job == wish.job
    low = np.where(mine, np.maximum(table.share_low, floor), table.share_low)
    high = np.where(mine, np.minimum(table.share_high, cap), table.share_high)
    return replace(wide, table=replace(table, share_low=low, share_high=high))


def _feasible_answer(trial: ResolvedPlan | None, found: ResolvedPlan, wish: WhyNotQuery) -> WhyNot:
    """X is within the limits: its price beside the plan's."""
    if trial is None:  # cannot be: a plan with X is a plan
        return WhyNot(
            asked=wish.asked, status="possible", plan=found.description, cost_usd=found.cost_usd, hours=found.hours
        )
    same = _kind(found, wish.job) == _kind(trial, wish.job) and abs(found.objective - trial.objective) < 0.01
    return WhyNot(
        asked=wish.asked,
        status="chosen" if same else "possible",
        plan=found.description,
        cost_usd=found.cost_usd,
        hours=found.hours,
        times=found.cost_usd / trial.cost_usd if trial.cost_usd > 0 else None,
        reasons=() if same else _differences(trial, found, wish.job),
    )


def _kind(trial: ResolvedPlan, job: int) -> tuple[object, ...]:
    one, row = trial.prepared.candidates[job], trial.rows[job]
    offer = trial.prepared.market.offers[int(one.table.offer[row])]
    return offer.provider, offer.gpu, int(one.table.gpus[row]), recipe_of(one, row), round(trial.shares[job], 2)


def _differences(trial: ResolvedPlan, found: ResolvedPlan, job: int) -> tuple[str, ...]:
    """What makes the difference: the price of an hour, the hours, the work of other jobs; largest factor first."""
    (price, hours), (price_x, hours_x) = _per_hour(trial, job), _per_hour(found, job)
    gpus, gpus_x = int(trial.chosen.gpus[job]), int(found.chosen.gpus[job])
    reasons = []
    for one, other, said in (
        (price_x, price, f"an hour costs ${price_x:,.2f} against ${price:,.2f}"),
        (hours_x, hours, f"it takes {_format_duration(hours_x)} against {_format_duration(hours)}"),
    ):
        if said.startswith("an hour") and not (gpus and gpus_x):
            continue  # a service charges for tokens and runs, however long they take
        if min(one, other) <= 0:  # what is free is no multiple of anything
            reasons += [(math.inf, said)] if one != other else []
        elif max(one, other) > MIN_FACTOR * min(one, other):
            reasons.append((abs(math.log(one / other)), f"{said} ({_format_factor(one / other)})"))
    told = [said for _, said in sorted(reasons, reverse=True)]
    market, place = found.prepared.market, int(found.chosen.offer[job])
    if pays := describe_break_even(market, market.offers[place], float(found.chosen.instances[job])):
        told.append(f"its commitment {pays}")
    if not gpus or not gpus_x:
        told.insert(0, "it charges for tokens or runs, not for hours" if gpus else "it is paid by the hour")
    elif gpus != gpus_x:
        told.append(f"{gpus_x:,} GPU{'s' if gpus_x > 1 else ''} against {gpus:,}")
    penalty = float(found.chosen.penalty_usd[job] - trial.chosen.penalty_usd[job])
    if abs(penalty) >= 0.01:
        told.append(f"penalties make ${penalty:+,.2f}".replace("$-", "-$").replace("$+", "+$"))
    return tuple(told)


def _format_duration(hours: float) -> str:
    """Hours, or minutes where tenths of an hour say nothing."""
    return f"{hours * 60:,.0f} min" if hours < 0.1 else f"{hours:,.1f} h"


def _format_factor(factor: float) -> str:
    """A factor as a person says it: `2.1 x`, `7.5 x less`, `4 % more`."""
    if 1 / 1.5 < factor < 1.5:
        return f"{abs(factor - 1) * 100:.0f} % {'more' if factor > 1 else 'less'}"
    return f"{factor:,.1f} x" if factor > 1 else f"{1 / factor:,.1f} x less"


def _per_hour(trial: ResolvedPlan, job: int) -> tuple[float, float]:
    """Dollars per expected hour of one job, and its expected hours."""
    one = trial.chosen.rows(np.asarray([job]))
    share = np.asarray([trial.shares[job]])
    hours = float(one.hours(share)[0])
    return float(one.cost_usd(share)[0]) / hours, hours


def _infeasible_answer(
    base: PreparedScenario,
    trial: ResolvedPlan | None,
    found: ResolvedPlan,
    changes: Sequence[LimitChange],
    wish: WhyNotQuery,
) -> WhyNot:
    """X needs limits to move: which, and what it then costs."""
    return WhyNot(
        asked=wish.asked,
        status="beyond",
        plan=found.description,
        cost_usd=found.cost_usd,
        hours=found.hours,
        times=found.cost_usd / trial.cost_usd if trial is not None and trial.cost_usd > 0 else None,
        reasons=tuple(_reason(change, base) for change in changes),
        relax=tuple(build_relaxations(found, changes, 1)),
    )


def _reason(change: LimitChange, base: PreparedScenario) -> str:
    """A limit in the way, as a sentence with both numbers."""
    limit, old, new = change.limit, change.old, change.new
    if limit.endswith(".deadline"):
        job = next(one for one in base.scenario.jobs if limit == f"jobs.{one.name}.deadline")
        return f"it takes {new:.4g} h at {job.confidence * 100:.3g} % confidence; the deadline is {old:.4g} h"
    if limit == "limits.max_hours":
        return f"it takes {new:.4g} h at the asked confidence; at most {old:.4g} h are allowed"
    if limit == "limits.budget_usd":
        return f"it costs ${new:,.2f} at the asked confidence; the budget is ${old:,.2f}"
    if limit == "limits.max_gpus":
        return f"it needs {new:,.0f} GPUs; at most {old:,.0f} may be used"
    if limit.startswith("limits.quota."):
        return f"it needs {new:,.0f} GPUs at {limit.removeprefix('limits.quota.')}; the quota is {old:,.0f}"
    if limit.startswith("limits.spot_share."):
        return f"it needs a spot share of {new:.2g}; {limit.removeprefix('limits.')} is {old:.2g}"
    if limit.endswith(".trials.at_once"):
        return f"there are machines for {new:g} trial{'' if new == 1 else 's'} at a time; {old:g} are asked for"
    if limit == HEADROOM:
        return (
            f"it fits in memory only with a margin of {float(new) * 100:.3g} %; {float(old) * 100:.3g} % are kept free"
        )
    what = str(new).removeprefix("allow also ")
    kind, _, names = str(old).partition(" ")
    if kind == "forbid":
        return f"{limit} forbids {what}"
    return f"{limit} allows {names if kind == 'allow' else old}, not {what}"
