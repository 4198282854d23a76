"""Ways that one question has and another has not: what a change of limits or prices ruled out."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from planner.solving.alternatives import find_cheapest_shares

if TYPE_CHECKING:
    from planner.arrays import Floats, Integers
    from planner.results.plan import Assignment
    from planner.solving.prepare import PreparedScenario

RELATIVE_TOLERANCE = 1e-9
"""Relative difference below which two figures are one and the same way's."""


class DisplacedCandidates(NamedTuple):
    """How many better ways are impossible on the other side, and how many are possible there but worse."""

    impossible: int
    worse: int


def count_displaced(
    here: PreparedScenario, mine: int, there: PreparedScenario, theirs: int, chosen: Assignment, by_time: bool
) -> DisplacedCandidates:
    """Ways of job `mine` that are possible `here` and better than the plan `chosen` of the same job `there`.

    A way is an offer, a number of machines and a recipe; it is possible where it keeps every limit of its job,
    and the budget if it has that for itself. Better is cheaper (expected dollars, penalties left out), or
    `by_time` sooner done at the asked confidence.
    """
    reached = chosen.hours.at_confidence if by_time else chosen.cost_usd
    reached -= RELATIVE_TOLERANCE * max(1.0, abs(reached))
    figures, other_figures = _figures(here, mine, by_time), _figures(there, theirs, by_time)
    codes, other_codes = _codes(here, mine, there, theirs)
    wanted = set(codes[figures < reached].tolist())
    left = np.isfinite(other_figures)
    possible = wanted & set(other_codes[left].tolist())
    still_better = possible & set(other_codes[left & (other_figures < reached)].tolist())
    return DisplacedCandidates(len(wanted) - len(possible), len(possible) - len(still_better))


def _figures(prepared: PreparedScenario, index: int, by_time: bool) -> Floats:
    """Least hours at the confidence, or least dollars, of every row of the screened table; inf over the budget."""
    table = prepared.screened[index].table
    low, high = table.share_low, table.share_high
    figures = np.minimum(table.late_hours(low), table.late_hours(high)) if by_time else find_cheapest_shares(table)[0]
    figures = figures if by_time else figures - table.penalty_usd
    budget = prepared.scenario.limits.budget_usd
    if budget is None or len(prepared.scenario.jobs) > 1:
        return figures
    return np.where(np.minimum(table.late_cost_usd(low), table.late_cost_usd(high)) <= budget, figures, np.inf)


def _codes(here: PreparedScenario, mine: int, there: PreparedScenario, theirs: int) -> tuple[Integers, Integers]:
    """A number per row of either screened table, equal where offer, machines and recipe are the same."""
    known: dict[object, int] = {}

    def numbered(names: list[object]) -> Integers:
        return np.asarray([known.setdefault(name, len(known)) for name in names], dtype=np.int64)

    def code(prepared: PreparedScenario, index: int) -> tuple[Integers, Integers, Integers]:
        table = prepared.screened[index].table
        offers = numbered(list(table.offers))[table.offer]
        recipes = numbered(list(prepared.candidates[index].recipes))[table.recipe]
        return offers, recipes, table.instances

    first, second = code(here, mine), code(there, theirs)
    size = len(known)
    most = 1 + max(int(np.max(column[2], initial=0)) for column in (first, second))
    ours, others = ((offer * size + recipe) * most + machines for offer, recipe, machines in (first, second))
    return ours, others
