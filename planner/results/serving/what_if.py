"""Services in what-if and sweeps: what a change did to one, and its fleet in a cell."""

from __future__ import annotations

from planner.results.differences import Difference
from planner.results.plan_parts import Part


class ServiceDelta(Part):
    """What a change did to one service."""

    name: str
    usd_per_month: float
    """After minus before."""
    proven_usd_per_month: float
    """By which either plan may lie above the least one: a smaller difference may be none."""
    changes: tuple[Difference, ...] = ()


class CellService(Part):
    """The fleet of one service in a cell."""

    name: str
    usd_per_month: float
    least_replicas: int
    most_replicas: int
    machines: tuple[str, ...]
    """Such as `1 to 2 x H100-80GB at nebius, spot`, those with most dollars first."""
    ttft_seconds: float
    tpot_seconds: float
    """That the asked share of the requests stays below in the busiest hour."""
