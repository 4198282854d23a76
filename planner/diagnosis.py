"""Why there is no plan: the smallest change of each single limit that makes one, and the nearest rejected ways.

Every proposed change was found by solving the scenario with that limit lifted, so it is sufficient.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from planner.candidates import JobCandidates, Market, nearest_misses
from planner.dominance import undominated
from planner.formulation.passes import solve_passes
from planner.formulation.question import Question
from planner.library import Library
from planner.plan import Infeasible, NearMiss, Relaxation
from planner.scenario import AllowForbid, Limits, Scenario, SpotShare
from planner.screening import deadline_hours, screen
from planner.solvers.base import run
from planner.table import CandidateTable, Floats, concatenate

FOREVER_HOURS = 1e6
NEAREST = 3
TIME_LIMIT_SECONDS = 10.0
LIFTED = ("max_gpus", "quota", "providers", "gpus", "regions", "spot_share")


def diagnose(scenario: Scenario, market: Market, candidates: Sequence[JobCandidates], library: Library) -> Infeasible:
    """Single limits to relax, each with the value that suffices, and the nearest misses."""
    found = _single(scenario, market, candidates, library)
    if not found:
        found = _together(scenario, market, candidates, library, scenario.limits)
    if not found:
        # The cheapest plan that any limits allow: what it breaks is what stands in the way.
        found = _together(scenario, market, candidates, library, Limits(), methods=False)
    return Infeasible(relax=tuple(found), nearest=_nearest(scenario, market, candidates, library))


def _single(
    scenario: Scenario, market: Market, candidates: Sequence[JobCandidates], library: Library
) -> list[Relaxation]:
    limits = scenario.limits
    found = []
    attempt = partial(_least, scenario, market, candidates, library)
    for index, one in enumerate(candidates):
        if one.job.deadline_hours is None and limits.max_hours is None:
            continue
        answer = attempt(limits, partial(_late_hours_of, index), late=(index,))
        if answer:
            name = f"jobs.{one.job.name}.deadline" if one.job.deadline_hours is not None else "limits.max_hours"
            found.append(_relaxed(name, deadline_hours(one.job, limits), _above(answer[0], 1e-3), answer[1]))
    if limits.budget_usd is not None:
        answer = attempt(limits.model_copy(update={"budget_usd": None}), _late_dollars)
        if answer:
            found.append(_relaxed("limits.budget_usd", limits.budget_usd, _above(answer[0], 0.01), answer[1]))
    if limits.max_gpus is not None:
        answer = attempt(limits.model_copy(update={"max_gpus": None}), lambda table: table.gpus.astype(float))
        if answer:
            found.append(_relaxed("limits.max_gpus", limits.max_gpus, round(answer[0]), answer[1]))
    opened: list[tuple[str, str, dict[str, object]]] = [
        (f"limits.{name}", "no restriction", {name: AllowForbid()})
        for name in ("providers", "gpus", "regions")
        if getattr(limits, name) != AllowForbid()
    ]
    if limits.spot_share != SpotShare():
        opened.append(("limits.spot_share", "no restriction", {"spot_share": SpotShare()}))
    if limits.quota:
        opened.append(("limits.quota", "no restriction", {"quota": {}}))
    for name, to, update in opened:
        answer = attempt(limits.model_copy(update=update), None)
        if answer:
            found.append(_relaxed(name, "as given", to, answer[1]))
    if any(one.job.techniques.method or one.job.techniques.weight_bits for one in candidates):
        answer = attempt(limits, None, methods=False)
        if answer:
            found.append(_relaxed("techniques", "as given", "any method and weight bits", answer[1]))
    return found


def _together(
    scenario: Scenario,
    market: Market,
    candidates: Sequence[JobCandidates],
    library: Library,
    kept: Limits,
    methods: bool = True,
) -> list[Relaxation]:
    """Where no single limit is enough: every deadline and the budget at once, all of `kept` but the budget kept.

    Named are the limits that the plan of least dollars breaks, with the values that it needs.
    """
    limits = scenario.limits
    free = kept.model_copy(update={"budget_usd": None})
    everyone = tuple(range(len(candidates)))
    answer = _least(scenario, market, candidates, library, free, _late_dollars, late=everyone, methods=methods)
    if not answer:
        return []
    least, then, hours = answer
    then = f"all of these together: {then}"
    found = [
        _relaxed(f"jobs.{one.job.name}.deadline", latest, _above(hours[index], 1e-3), then)
        for index, one in enumerate(candidates)
        if hours[index] > (latest := deadline_hours(one.job, limits))
    ]
    if limits.budget_usd is not None and least > limits.budget_usd:
        found.append(_relaxed("limits.budget_usd", limits.budget_usd, _above(least, 0.01), then))
    if kept is not limits:
        given = [name for name in LIFTED if getattr(limits, name) not in (None, {}, AllowForbid(), SpotShare())]
        found += [_relaxed(f"limits.{name}", "as given", "no restriction", then) for name in given]
    if not methods and any(one.job.techniques.method or one.job.techniques.weight_bits for one in candidates):
        found.append(_relaxed("techniques", "as given", "any method and weight bits", then))
    return found


Measure = Callable[[CandidateTable], Floats]


def _least(
    scenario: Scenario,
    market: Market,
    candidates: Sequence[JobCandidates],
    library: Library,
    limits: Limits,
    measure: Measure | None,
    late: tuple[int, ...] = (),
    methods: bool = True,
) -> tuple[float, str, list[float]] | None:
    """The least of a measure over all plans within `limits`; None if there is no plan.

    The jobs in `late` have no deadline. Also what the plan is in words, and the late hours of each job.
    """
    tables = []
    for index, one in enumerate(candidates):
        asked = replace(one, job=one.job.model_copy(update={"deadline_hours": None})) if index in late else one
        lifted = limits.model_copy(update={"max_hours": FOREVER_HOURS}) if index in late else limits
        tables.append(screen(asked, market, lifted, library, methods).table)
    if not all(len(table) for table in tables):
        return None
    table = _at_ends(concatenate(tables))
    question = Question(
        budget_usd=limits.budget_usd,
        max_gpus=limits.max_gpus,
        quota=limits.quota,
        stock={label: o.stock for label, o in zip(market.labels, market.offers, strict=True) if o.stock is not None},
    )
    values = measure(table) if measure else table.cost_usd(table.share_low)
    # The program minimises dollars: the measure takes their place, in the market that each row is in.
    spot = (table.share_low > 0)[:, None] * np.asarray([0.0, 1.0]) + (table.share_low == 0)[:, None] * np.asarray(
        [1.0, 0.0]
    )
    whole = np.where(spot > 0, values[:, None], np.nan)
    late_usd = np.where(spot > 0, table.late_cost_usd(table.share_low)[:, None], np.nan)
    priced = replace(
        table,
        fixed_usd=np.zeros(len(table)),
        penalty_usd=np.zeros(len(table)),
        run_usd=whole,
        late_usd=late_usd,
        share_low=(table.share_low > 0).astype(float),
        share_high=(table.share_low > 0).astype(float),
        run_h=np.where(spot > 0, table.hours(table.share_low)[:, None], np.nan),
        late_h=np.where(spot > 0, table.late_hours(table.share_low)[:, None], np.nan),
        start_h=np.zeros(len(table)),
        late_start_h=np.zeros(len(table)),
    )
    keep = np.flatnonzero(undominated(priced, question))
    choice = solve_passes(priced.rows(keep), question, partial(run, time_limit_seconds=TIME_LIMIT_SECONDS))
    if choice.chosen is None:
        return None
    rows = keep[choice.rows]
    hours = table.late_hours(table.share_low)[rows]
    dollars = math.fsum(table.cost_usd(table.share_low)[rows])
    said = ", ".join(
        f"{table.gpus[row]} x {market.cards[table.offer[row]].name} at {table.providers[table.provider[row]]}"
        for row in rows
    )
    late_dollars = math.fsum(table.late_cost_usd(table.share_low)[rows])
    # A budget is kept at the asked confidence, so that figure is said beside the expected one.
    then = f"{said}, ${dollars:,.2f} expected, ${late_dollars:,.2f} at the asked confidence"
    return math.fsum(values[rows]), then, [float(h) for h in hours]


def _at_ends(table: CandidateTable) -> CandidateTable:
    """Every row once at its share floor and once at its cap: points, which is all that a least value needs."""
    two = np.flatnonzero(table.share_high > table.share_low)
    low = replace(table, share_high=table.share_low)
    high = table.rows(two)
    return concatenate([low, replace(high, share_low=high.share_high)])


def _late_hours_of(job: int, table: CandidateTable) -> Floats:
    return np.where(table.job == job, table.late_hours(table.share_low), 0.0)


def _late_dollars(table: CandidateTable) -> Floats:
    return table.late_cost_usd(table.share_low)


def _relaxed(limit: str, old: float | str, new: float | str, then: str) -> Relaxation:
    return Relaxation(limit=limit, change_from=old, change_to=new, then=then)


def _above(value: float, step: float) -> float:
    """Rounded up to a figure that a user can type and that still suffices."""
    return math.ceil(value / step + 1e-6) * step


def _nearest(
    scenario: Scenario, market: Market, candidates: Sequence[JobCandidates], library: Library
) -> tuple[NearMiss, ...]:
    """Ways that missed the deadline or the memory by least."""
    found = []
    for one in candidates:
        screened = screen(one, market, scenario.limits, library)
        late = np.flatnonzero(screened.lateness > 0)
        for row in late[np.argsort(screened.lateness[late])][:1]:
            table = one.table
            place = table.offer[row]
            what = f"{table.gpus[row]} x {market.cards[place].name} at {market.offers[place].provider}"
            found.append(
                NearMiss(
                    job=one.job.name,
                    what=what,
                    reason="late at the asked confidence",
                    shortfall=float(screened.lateness[row]),
                    unit="h",
                )
            )
        for miss in nearest_misses(one, NEAREST - 1):
            what = f"{miss.machine.gpus} x {miss.machine.gpu}, {miss.recipe.method_label}"
            found.append(
                NearMiss(job=one.job.name, what=what, reason=miss.reason, shortfall=miss.shortfall, unit=miss.unit)
            )
    return tuple(found)
