"""The plan and the analyses of one scenario together: what a report shows."""

from __future__ import annotations

import datetime
from typing import Literal

from pydantic import Field

from planner.results.explanation import Explanation
from planner.results.frontier import Frontier
from planner.results.plan import Plan
from planner.results.plan_parts import Part
from planner.results.service_results import KindBasis, ServiceFrontier, ServiceSimulation
from planner.results.simulation import Simulation
from planner.results.what_if import Tornado

Section = Literal["frontier", "reasons", "tornado", "simulation", "prices"]
"""An analysis of a report beyond the plan."""


class PriceDay(Part):
    """Prices of one machine that the price book has of a day; dollars per instance and hour, None: not sold so."""

    date: datetime.date
    usd_per_hour: float | None
    spot_usd_per_hour: float | None


class PriceHistory(Part):
    """The stored prices of one offer of the plan, the oldest first."""

    offer: str
    days: tuple[PriceDay, ...]


class Overview(Part):
    """A plan and the analyses of its scenario; None where one was not asked for, or has nothing to say."""

    plan: Plan
    frontier: Frontier | None = None
    service_frontier: ServiceFrontier | None = None
    """Where the plan has a service; without other jobs in place of `frontier`."""
    explanation: Explanation | None = None
    tornado: Tornado | None = None
    simulation: Simulation | None = None
    service_simulation: ServiceSimulation | None = None
    """Of a service without jobs before it; next to jobs the replays of both are in `simulation`."""
    bases: tuple[KindBasis, ...] = ()
    """What each kind of machines of the services rests on."""
    prices: tuple[PriceHistory, ...] = ()
    fixed: tuple[str, ...] = Field(default=(), exclude_if=lambda lines: not lines)
    """What the scenario leaves open and is fixed here, as `solve` chose it."""
    of_file: bool = False
    """Whether the plan was read from a file: other offers than those it carries are not known then."""
    skipped: dict[Section, str] = Field(default_factory=dict)
    """Why an analysis is missing, by its name."""
