"""What recorded traces say of a spot market: the `spot:` block that they are worth, and how surely it is known.

Figures come with their 80 % interval; hours are wall hours of `instances` machines being there together, or not.
"""

from __future__ import annotations

from planner.results.html import html_table
from planner.results.plan import Part, Spread


class EndsByAge(Part):
    """Durations that end `ends_per_hour[i]` times an hour once they are `ages_hours[i]` old."""

    ages_hours: tuple[float, ...]
    ends_per_hour: tuple[float, ...]

    def _yaml(self) -> str:
        ages, rates = (", ".join(f"{v:g}" for v in values) for values in (self.ages_hours, self.ends_per_hour))
        return f"{{ages_hours: [{ages}], ends_per_hour: [{rates}]}}"


class SpotBlock(Part):
    """The `spot:` of an offer, in the spelling of the inventory file."""

    availability: float
    mean_up_hours: float
    mean_outage_hours: float
    up: EndsByAge
    outage: EndsByAge
    instances: int = 1


class FittedDuration(Part):
    """Up-times, or outages."""

    mean_hours: Spread
    known_to_factor: float
    """The mean is at most so many times as long, or as short, in 80 of 100 cases."""
    cv: float | None
    """Standard deviation over mean of those that ended; 1 for a constant chance to end, more for a heavy tail."""
    ends: int
    """How many were seen from beginning to end; the fit rests on these."""
    hours: float
    ends_per_hour: tuple[Spread, ...]
    """One per age of the block."""


class TraceReport(Part):
    """One trace as it is; means are None where no end was seen."""

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
    """Machines that went, whether or not others stood in for them."""


class HoldoutComparison(Part):
    """Rates by age against one constant rate, fitted on one half of the time and judged on the other."""

    likelier_by: float
    """Factor on the likelihood of an end that was not fitted on; above 1 the ages help."""
    ends: int


class MarketFit(Part):
    """What `planner market fit` found."""

    instances: int
    hours: float
    interruptions: int
    availability: Spread
    """By the fit, which leaves out what was going on when a trace began."""
    share_of_hours: float
    """Of all hours that were watched."""
    up: FittedDuration
    outage: FittedDuration
    spot: SpotBlock
    held_out: HoldoutComparison | None
    """None where there is too little to judge by."""
    traces: tuple[TraceReport, ...]
    notes: tuple[str, ...] = ()

    @property
    def spot_yaml(self) -> str:
        """The `spot:` of an offer as YAML."""
        told = self.spot
        lines = [f"availability: {told.availability:g}", f"mean_up_hours: {told.mean_up_hours:g}"]
        lines += [f"mean_outage_hours: {told.mean_outage_hours:g}"]
        lines += [f"up: {told.up._yaml()}", f"outage: {told.outage._yaml()}"]
        lines += [f"instances: {told.instances}"] if told.instances > 1 else []
        return "\n".join(["spot:", *(f"  {line}" for line in lines)]) + "\n"

    def _repr_html_(self) -> str:
        """How a notebook shows it: the three figures with their intervals."""
        figures = [
            ("availability", self.availability),
            ("mean up, h", self.up.mean_hours),
            ("mean outage, h", self.outage.mean_hours),
        ]
        rows = [(name, *(f"{v:.3g}" for v in (one.expected, one.low, one.high))) for name, one in figures]
        caption = f"spot market of {self.instances} machine{'s' if self.instances > 1 else ''}, {self.hours:.0f} h seen"
        return html_table(caption, ("what", "expected", "low", "high"), rows)
