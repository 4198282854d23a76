"""Ways that one question has and another has not: what a change of limits or prices ruled out."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from planner.alternatives import cheapest
from planner.plan import Assignment
from planner.preparing import Prepared
from planner.table import Floats, Integers

HAIR = 1e-9
"""Relative difference below which two figures are one and the same way's."""


class PassedOver(NamedTuple):
    """How many better ways are impossible on the other side, and how many are possible there but worse."""

    impossible: int
    worse: int


def passed_over(here: Prepared, mine: int, there: Prepared, theirs: int, chosen: Assignment) -> PassedOver:
    """Ways of job `mine` that are possible `here` and better than the plan `chosen` of the same job `there`.

    A way is an offer, a number of machines and a recipe. Better is cheaper (expected dollars, penalties left
    out), or with `objective: time` sooner done at the asked confidence.
    """
    by_time = here.scenario.objective_kind == "time"
    reached = chosen.hours.at_confidence if by_time else chosen.cost_usd
    figures = _figures(here, mine, by_time)
    better = figures < reached - HAIR * max(1.0, abs(reached))
    if not better.any():
        return PassedOver(0, 0)
    codes, others = _codes(here, mine, there, theirs)
    wanted = np.unique(codes[better])
    possible = np.isin(wanted, others)
    there_figures = _figures(there, theirs, by_time)
    least = np.full(len(wanted), np.inf)
    places = np.searchsorted(wanted, others)
    inside = (places < len(wanted)) & (wanted[np.minimum(places, len(wanted) - 1)] == others)
    np.minimum.at(least, places[inside], there_figures[inside])
    return PassedOver(
        int(np.sum(~possible)), int(np.sum(possible & (least >= reached - HAIR * max(1.0, abs(reached)))))
    )


def _figures(prepared: Prepared, index: int, by_time: bool) -> Floats:
    """Least hours at the confidence, or least dollars, of every row of the screened table."""
    table = prepared.screened[index].table
    if by_time:
        return np.minimum(table.late_hours(table.share_low), table.late_hours(table.share_high))
    return cheapest(table)[0] - table.penalty_usd


def _codes(here: Prepared, mine: int, there: Prepared, theirs: int) -> tuple[Integers, Integers]:
    """A number per row of either screened table, equal where offer, machines and recipe are the same."""
    known: dict[object, int] = {}

    def numbered(names: list[object]) -> Integers:
        return np.asarray([known.setdefault(name, len(known)) for name in names], dtype=np.int64)

    def code(prepared: Prepared, index: int) -> tuple[Integers, Integers, Integers]:
        table = prepared.screened[index].table
        offers = numbered(list(table.offers))[table.offer]
        recipes = numbered(list(prepared.candidates[index].physics.ways.recipes))[table.recipe]
        return offers, recipes, table.instances

    first, second = code(here, mine), code(there, theirs)
    size = len(known)
    most = 1 + max(int(np.max(column[2], initial=0)) for column in (first, second))
    ours, others = ((offer * size + recipe) * most + machines for offer, recipe, machines in (first, second))
    return ours, others
