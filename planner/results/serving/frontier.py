"""Dollars of a month against the time per token of a service."""

from __future__ import annotations

from planner.results.html import html_table
from planner.results.plan import Status
from planner.results.plan_parts import Part
from planner.results.ways.considered import Infeasible


class ServicePoint(Part):
    """The least dollars at a limit on the time per token; no point is both tighter and cheaper than another."""

    tpot_seconds: float
    """The limit."""
    usd_per_month: float
    bound_usd_per_month: float
    """Below which no fleet keeps this limit."""
    gap: float
    least_replicas: int
    most_replicas: int
    machines: tuple[str, ...]
    """Such as `1 to 2 x H100-80GB at nebius, spot`, those with most dollars first."""
    binds: tuple[str, ...]
    """What holds the capacity of these kinds."""
    asked: bool = False
    """Whether it is the limit of the scenario."""
    setting: str
    """PATH=VALUE for `--set` that gives this limit."""


class ServiceFrontier(Part):
    """Dollars of a month against the limit on the time per token, tightest first."""

    schema_version: int = 1
    scenario: str
    status: Status
    points: tuple[ServicePoint, ...] = ()
    share: float
    """Of the requests that the limit holds for."""
    ttft_seconds: float | None = None
    """Limit on the time to the first token, the same at every point."""
    load: float
    """At the peak."""
    unit: str
    least_tpot_seconds: float | None = None
    """That any kind reaches at no load: no limit below it can be kept."""
    solved: int = 0
    seconds: float
    as_of: str
    infeasible: Infeasible | None = None
    notes: tuple[str, ...] = ()

    def _repr_html_(self) -> str:
        """Return a table for notebooks: a row per point."""
        rows = [
            (
                f"{one.tpot_seconds * 1000:.4g} ms",
                f"${one.usd_per_month:,.2f}",
                "no bound" if one.gap >= 1.0 else f"{one.gap:.1%}",
                "; ".join(one.machines),
            )
            for one in self.points
        ]
        return html_table(f"{self.scenario}: {self.status}", ("per token", "a month", "gap", "fleet"), rows)
