"""The result of `market fit`: the `spot:` block of recorded traces, and its uncertainty.

Intervals are 80 %; hours are wall hours during which `instances` machines are available together, or not.
"""

from __future__ import annotations

import json

from planner.results.html import html_table
from planner.results.plan_parts import Part, Spread


class EndsByAge(Part):
    """Durations that end `ends_per_hour[i]` times an hour once they are `ages_hours[i]` old."""

    ages_hours: tuple[float, ...]
    ends_per_hour: tuple[float, ...]

    def _yaml(self) -> str:
        ages, rates = (", ".join(f"{v:g}" for v in values) for values in (self.ages_hours, self.ends_per_hour))
        return f"{{ages_hours: [{ages}], ends_per_hour: [{rates}]}}"


class ZoneStays(EndsByAge):
    """How long machines stay in one zone."""

    zone: str


class SpotBlock(Part):
    """The `spot:` of an offer, in the spelling of the inventory file."""

    availability: float
    mean_up_hours: float
    mean_outage_hours: float
    up: EndsByAge
    outage: EndsByAge
    another_zone: float = 0.0
    """In a group of zones: chance that another zone has machines when they are taken from one."""
    zones: tuple[ZoneStays, ...] = ()
    """Of a group, how long machines stay in each: where to go."""
    instances: int = 1


class FittedDuration(Part):
    """Up-times, or outages."""

    mean_hours: Spread
    known_to_factor: float
    """Factor within which the mean is known, up and down, with 80 % confidence."""
    cv: float | None
    """Standard deviation over mean of those that ended; 1 for a constant hazard, more for a heavy tail."""
    ends: int
    """Number of durations observed from start to end; the fit is based on these."""
    hours: float
    ends_per_hour: tuple[Spread, ...]
    """One per age of the block."""


class TraceReport(Part):
    """One trace; means are None if no end was observed."""

    name: str
    hours: float
    gap_seconds: float
    most_machines: int
    availability: float
    interruptions: int
    mean_up_hours: float | None
    mean_outage_hours: float | None
    machine_hours: float
    machine_losses: int
    """Interrupted machines, whether or not others replaced them."""


class HoldoutComparison(Part):
    """Rates by age compared with one constant rate, fitted on one half of the time and tested on the other."""

    likelier_by: float
    """Ratio of the likelihoods of a held-out end; above 1 the ages help."""
    ends: int


class MarketFit(Part):
    """The result of `planner market fit`."""

    instances: int
    hours: float
    interruptions: int
    availability: Spread
    """Of the fit, which excludes the duration that a trace begins in."""
    share_of_hours: float
    """Share of all observed hours."""
    up: FittedDuration
    outage: FittedDuration
    spot: SpotBlock
    held_out: HoldoutComparison | None
    """None if there are too few ends."""
    traces: tuple[TraceReport, ...]
    notes: tuple[str, ...] = ()

    @property
    def spot_yaml(self) -> str:
        """Return the `spot:` block of an offer as YAML."""
        block = self.spot
        lines = [f"{key}: {getattr(block, key):g}" for key in ("availability", "mean_up_hours", "mean_outage_hours")]
        lines += [f"up: {block.up._yaml()}", f"outage: {block.outage._yaml()}"]
        lines += [f"another_zone: {block.another_zone:g}"] if block.another_zone else []
        lines += ["zones:"] if block.zones else []
        lines += [f"  - {{zone: {json.dumps(one.zone)}, {one._yaml()[1:]}" for one in block.zones]
        lines += [f"instances: {block.instances}"] if block.instances > 1 else []
        return "\n".join(["spot:", *(f"  {line}" for line in lines)]) + "\n"

    def _repr_html_(self) -> str:
        """Return the three figures with their intervals as a table for notebooks."""
        figures = [
            ("availability", self.availability),
            ("mean up, h", self.up.mean_hours),
            ("mean outage, h", self.outage.mean_hours),
        ]
        rows = [(name, *(f"{v:.3g}" for v in (one.expected, one.low, one.high))) for name, one in figures]
        machines = f"{self.instances} machine{'s' if self.instances > 1 else ''}"
        caption = f"spot market of {machines}, {self.hours:.0f} h observed"
        return html_table(caption, ("what", "expected", "low", "high"), rows)
