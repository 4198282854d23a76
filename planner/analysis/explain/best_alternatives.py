"""The best way of every provider, GPU and method, and whether it really differs from the plan."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from planner.candidates.screening import screen
from planner.candidates.spot_search import SearchScope
from planner.configurations.recipe import is_allowed
from planner.results.explanation import Alternative
from planner.solving.alternatives import NO_DIFFERENCE, describe_difference, difference_sigma
from planner.solving.lexicographic import COST, LAST
from planner.solving.resolve import describe_candidate, describe_method, recipe_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planner.analysis.explain.baseline import Baseline
    from planner.arrays import Flags, Floats, Integers
    from planner.candidate_table import CandidateTable
    from planner.scenario.scenario import Limits

MIN_RELATIVE_DIFFERENCE = 0.25
"""Share by which hours must differ to be told of a way that costs the same."""


@dataclass(frozen=True)
class _ScoredRows:
    """Rows of one job with the best admissible share of each, and what it scores."""

    table: CandidateTable
    rows: Integers  # of the uncut table
    share: Floats
    score: Floats  # the objective; infinite where no share is admissible


def find_best_alternatives(now: Baseline) -> tuple[Alternative, ...]:
    """Per job and per provider, GPU and method the best way within the limits, best first; other jobs stay as planned.

    A method that the job excludes is priced too and marked.
    """
    found: list[Alternative] = []
    for job in range(len(now.prepared.candidates)):
        found += _alternatives_of_job(now, job)
    return tuple(found)


def _alternatives_of_job(now: Baseline, job: int) -> Iterator[Alternative]:
    prepared, market = now.prepared, now.prepared.market
    one = prepared.candidates[job]
    limits, waiting = prepared.scenario.limits, now.measure.waiting_usd
    within = screen(one, market, limits, prepared.library, False, waiting, SearchScope(every_place=True))
    standing = _score_rows(now, job, within.table, within.rows)
    recipes = one.recipes
    may = np.asarray([is_allowed(recipe, one.job) for recipe in recipes], dtype=bool)[standing.table.recipe]
    cards = np.asarray(market.gpus)[standing.table.offer]
    providers = np.asarray([offer.provider for offer in market.offers])[standing.table.offer]
    methods = np.asarray([recipe.method_label for recipe in recipes])[standing.table.recipe]
    taken = np.flatnonzero(standing.rows == now.trial.rows[job])
    slack = (LAST if now.by_time else COST).slack
    second = (standing.table.cost_usd if now.by_time else standing.table.hours)(standing.share)
    for by, names, which in (("provider", providers, may), ("gpu", cards, may), ("method", methods, may | True)):
        best = []
        for name in np.unique(names[which]):
            rows = np.flatnonzero((names == name) & which)
            if len(here := np.intersect1d(taken, rows)):  # the plan itself, not one that is as good within half a cent
                best.append((_current_score(now, job), str(name), int(here[0])))
                continue
            # As in the passes of a solve: among those within the slack of the best, the second goal decides.
            near = rows[standing.score[rows] <= np.min(standing.score[rows]) + slack]
            row = int(near[np.lexsort((standing.score[near], second[near], ~may[near]))[0]])
            if math.isfinite(standing.score[row]):
                best.append((float(standing.score[row]), str(name), row))
        for _, name, row in sorted(best, key=lambda entry: (entry[2] not in taken, *entry)):
            yield _alternative(now, job, by, name, standing, row, bool(may[row]))


def _alternative(
    now: Baseline, job: int, by: str, name: str, standing: _ScoredRows, row: int, may: bool
) -> Alternative:
    prepared, trial = now.prepared, now.trial
    one = prepared.candidates[job]
    uncut, share = int(standing.rows[row]), float(standing.share[row])
    figures = standing.table.rows(np.asarray([row]))
    mine = trial.chosen.rows(np.asarray([job]))
    value, against = float(standing.score[row]), _current_score(now, job)
    same = uncut == trial.rows[job]
    if same:
        share, figures, value = trial.shares[job], mine, against
    cost, hours = float(figures.cost_usd(share)[0]), float(figures.hours(share)[0])
    offer = prepared.market.offers[int(figures.offer[0])]
    card = prepared.market.gpus[int(figures.offer[0])]
    same_card = card == prepared.market.gpus[int(mine.offer[0])]
    return Alternative(
        by="provider" if by == "provider" else "gpu" if by == "gpu" else "method",
        job=one.job.name,
        name=name,
        plan=describe_candidate(one, uncut, share, prepared.market),
        gpu=card,
        gpus=int(figures.run_gpus[0]),
        runs_at_once=int(figures.node_groups[0]),
        provider=offer.provider,
        method=describe_method(recipe_of(one, uncut)),
        cost_usd=cost,
        hours=hours,
        difference=value / against - 1 if against > 0 else None,
        verdict="the plan"
        if same
        else _describe_difference(now, (value, against), figures, share, mine, job, same_card),
        chosen=same,
        allowed=may,
    )


def _describe_difference(
    now: Baseline,
    scores: tuple[float, float],
    figures: CandidateTable,
    share: float,
    mine: CandidateTable,
    job: int,
    same_card: bool,
) -> str:
    """How much worse; of what is no real difference, what differs besides; and a penalty that the plan has not.

    `scores` are those of the way and of the plan; nothing can be compared with a plan that costs nothing.
    """
    said = describe_difference(*scores, difference_sigma(now.prepared.library, same_card), *now.measure.comparatives)
    at = np.asarray([now.trial.shares[job]])
    if said == NO_DIFFERENCE:
        hours, dollars = float(figures.hours(share)[0]), float(figures.cost_usd(share)[0])
        own_hours, own_dollars = float(mine.hours(at)[0]), float(mine.cost_usd(at)[0])
        if now.by_time and _differs(dollars, own_dollars):
            said += f", ${abs(dollars - own_dollars):,.2f} {'more' if dollars > own_dollars else 'less'}"
        elif not now.by_time and _differs(hours, own_hours):
            said += f", {abs(hours - own_hours):,.1f} h {'later' if hours > own_hours else 'sooner'}"
    penalty = 0.0 if now.by_time else float(figures.penalty_usd[0] - mine.penalty_usd[0])
    return f"{said}, penalty ${penalty:,.0f}" if penalty >= 1 else said


def _differs(one: float, other: float) -> bool:
    return abs(one - other) >= MIN_RELATIVE_DIFFERENCE * max(one, other)


def _current_score(now: Baseline, job: int) -> float:
    """What the job's present way scores."""
    mine, share = now.trial.chosen.rows(np.asarray([job])), np.asarray([now.trial.shares[job]])
    return float(now.measure.values(mine, share)[0])


def _score_rows(now: Baseline, job: int, table: CandidateTable, rows: Integers) -> _ScoredRows:
    """Scores at the best of the shares that keep what the other jobs leave of the shared limits."""
    budget, counts = _remaining_limits(now, job, table)
    value, share = replace(now.measure, budget_usd=budget).best(table)
    return _ScoredRows(table, rows, share, np.where(counts, value, np.inf))


def _remaining_limits(now: Baseline, job: int, table: CandidateTable) -> tuple[float, Flags]:
    """Dollars that the other jobs leave of the budget, and the rows within GPUs, quota and stock that they leave."""
    limits: Limits = now.prepared.scenario.limits
    chosen, shares = now.trial.chosen, np.asarray(now.trial.shares)
    others = np.arange(len(shares)) != job
    budget = math.inf if limits.budget_usd is None else limits.budget_usd
    spent = float(np.sum(chosen.late_cost_usd(shares)[others]))
    most = math.inf if limits.max_gpus is None else limits.max_gpus - int(np.sum(chosen.gpus[others]))
    fits = table.gpus <= most
    for provider, quota in limits.quota.items():
        if provider in table.providers:
            here = table.providers.index(provider)
            taken = int(np.sum(chosen.gpus[others & (chosen.provider == here)]))
            fits &= (table.provider != here) | (table.gpus <= quota - taken)
    for index, offer in enumerate(now.prepared.market.offers):
        if offer.stock is not None and len(shares) > 1:
            taken = int(np.sum(chosen.instances[others & (chosen.offer == index)]))
            fits &= (table.offer != index) | (table.instances <= offer.stock - taken)
        if offer.committed_hours is not None and len(shares) > 1:
            used = float(np.sum(chosen.rented_h[others & (chosen.offer == index)]))
            fits &= (table.offer != index) | (table.rented_h <= offer.committed_hours - used)
    return budget - spent, np.asarray(fits, dtype=bool)
