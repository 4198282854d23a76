"""The result of `simulate` for services: what requests met on a simulated fleet, next to what the plan predicts."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from planner.results.plan import Plan, Status
from planner.results.plan_parts import Part
from planner.results.ways.considered import Infeasible


class SimulatedLatency(Part):
    """One latency of some requests; the quantile is that of the share that the service asks for."""

    predicted_seconds: float
    simulated_seconds: float
    predicted_share: float | None = None
    """Of the requests within the limit; None without a limit."""
    simulated_share: float | None = None


class SimulatedLimit(Part):
    """A limit on latency: in the busiest hour with the whole fleet, and over the cycle with losses."""

    name: Literal["ttft", "tpot"]
    limit_seconds: float | None
    asked_share: float
    busiest: SimulatedLatency
    cycle: SimulatedLatency


class SimulatedKind(Part):
    """The replicas of one kind in the busiest hour, with the whole fleet there."""

    offer: str
    provider: str
    gpu: str
    use: float
    """Share of its capacity."""
    requests_per_second: float
    """Of one replica."""
    ttft: SimulatedLatency
    tpot: SimulatedLatency


class SimulatedStream(Part):
    """Requests of one burstiness."""

    name: Literal["Poisson", "bursts"]
    shape: float
    """Of the gamma gaps between requests: 1 is a Poisson stream, less are bursts."""
    limits: tuple[SimulatedLimit, ...]
    kinds: tuple[SimulatedKind, ...]


class ServiceReplay(Part):
    """One service over its cycle."""

    name: str
    cycle_hours: int
    distinct_hours: int
    requests: int
    """Simulated, of all streams."""
    busiest_hour: int
    busiest_use: float
    refused_share: float
    """Of the requests, while spot groups are lost or start again, each on its own."""
    predicted_refused_share: float
    """As the plan says."""
    cut_share: float
    """Of the requests that a loss ends on their machine."""
    streams: tuple[SimulatedStream, ...]


class ServiceSimulation(Part):
    """The result of `planner simulate` for services."""

    schema_version: int = 1
    scenario: str
    status: Status
    runs: int
    """Requests of each distinct hour."""
    seed: int
    exact_speed: bool
    services: tuple[ServiceReplay, ...] = ()
    seconds: float
    as_of: str
    infeasible: Infeasible | None = None
    notes: tuple[str, ...] = ()
    plan: Plan = Field(exclude=True, repr=False)
    """The plan that was simulated."""
