"""The market as a job of generation sees it: any number of machines of an offer, which need no common network."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from planner.candidates.offer_terms import interconnect_of
from planner.configurations.grid import Machine
from planner.scenario.inference import InferenceJob

if TYPE_CHECKING:
    from planner.candidates.market import Market
    from planner.scenario.job import Job

MOST_MACHINES = 1024
"""Machines of one job at the most."""
ALL_COUNTS_UP_TO = 32
"""Numbers of machines up to which each is tried; above, sixteen to every doubling."""


@lru_cache(maxsize=1)
def machine_counts() -> tuple[int, ...]:
    """Return the numbers of machines that are tried."""
    found, step = list(range(1, ALL_COUNTS_UP_TO + 1)), 1
    while found[-1] < MOST_MACHINES:
        step *= 2
        found += range(found[-1] + step, min(2 * found[-1], MOST_MACHINES) + 1, step)
    return tuple(found)


def market_of(job: Job, market: Market) -> Market:
    """Return the market with the machines that a job may rent: for generation any number of each offer."""
    if not isinstance(job, InferenceJob):
        return market
    made: dict[tuple[object, ...], tuple[Machine, ...]] = {}
    machines: list[tuple[Machine, ...]] = []
    for offer, card in zip(market.offers, market.cards, strict=True):
        if card is None:
            machines.append(())
            continue
        link, most = interconnect_of(offer), offer.stock
        kind = card.name, offer.gpus, link, None if most is None else min(most, MOST_MACHINES)
        if kind not in made:
            counts = (n for n in machine_counts() if most is None or n <= most)
            made[kind] = tuple(Machine(card.name, offer.gpus, n, link, None) for n in counts)
        machines.append(made[kind])
    distinct = tuple(dict.fromkeys(machine for several in made.values() for machine in several))
    return replace(market, machines=tuple(machines), distinct_machines=distinct)
