"""Results about prices: catalogs, the price book, and spot markets fitted to traces."""

from __future__ import annotations

import datetime
import json
from typing import Literal

from planner.results.plan_parts import Part, Spread, html_table
from planner.results.result_tables import Result

# The result of `market fit`: the `spot:` block of recorded traces, and its uncertainty.
#
# Intervals are 80 %; hours are wall hours during which `instances` machines are available together, or not.


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


class MarketFit(Result):
    """The result of `planner market fit`."""

    schema_version: int = 3
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
        lines += [f"  - {{zone: {json.dumps(zone.zone)}, {zone._yaml()[1:]}" for zone in block.zones]
        lines += [f"instances: {block.instances}"] if block.instances > 1 else []
        return "\n".join(["spot:", *(f"  {line}" for line in lines)]) + "\n"

    def _repr_html_(self) -> str:
        """Return the three figures with their intervals as a table for notebooks."""
        figures = [
            ("availability", self.availability),
            ("mean up, h", self.up.mean_hours),
            ("mean outage, h", self.outage.mean_hours),
        ]
        rows = [
            (name, *(f"{v:.3g}" for v in (estimate.expected, estimate.low, estimate.high)))
            for name, estimate in figures
        ]
        machines = f"{self.instances} machine{'s' if self.instances > 1 else ''}"
        caption = f"spot market of {machines}, {self.hours:.0f} h observed"
        return html_table(caption, ("what", "expected", "low", "high"), rows)


# What was read from a catalog, and what the price book holds and how it changed.


class RowsLeftOut(Part):
    """Rows of a catalog that are no offers, for one reason."""

    reason: str
    rows: int
    first_line: int


class RowsNoted(Part):
    """Rows that were read in a way that the user should know."""

    note: str
    rows: int


class ImportSummary(Part):
    """What became of the rows of a file."""

    file: str
    kind: str
    rows: int
    offers: int
    date: datetime.date
    date_is_of_file: bool  # no date was given: the day on which the file was last written
    left_out: tuple[RowsLeftOut, ...]
    notes: tuple[RowsNoted, ...]


class PriceMove(Part):
    """A price of one offer that changed, dollars per instance and hour; None: not sold so."""

    offer: str
    market: Literal["on demand", "spot"]
    before_usd_per_hour: float | None
    after_usd_per_hour: float | None


class PriceChanges(Part):
    """How the prices of a provider differ between two days; `before` is None where there was no earlier one."""

    provider: str
    before: datetime.date | None
    after: datetime.date
    rows_before: int
    rows_after: int
    new: tuple[str, ...]
    gone: tuple[str, ...]
    moved: tuple[PriceMove, ...]


class BookUpdate(Part):
    """What an update of the price book read and changed."""

    read: ImportSummary
    changes: tuple[PriceChanges, ...]


class FileNotRead(Part):
    """A file of prices that is not stored, and why."""

    file: str
    why_not: str


class BookUpdates(Part):
    """What an update of the price book from several files read and changed."""

    read: tuple[ImportSummary, ...]
    not_read: tuple[FileNotRead, ...]
    changes: tuple[PriceChanges, ...]


class ProviderUpdate(Part):
    """What became of the prices of one provider that were asked for.

    Without `changes` nothing was stored: `why_not` says why, and the prices of `stands` are used still. With neither,
    the provider has published nothing since.
    """

    provider: str
    read: ImportSummary | None = None
    changes: PriceChanges | None = None
    why_not: str = ""
    stands: datetime.date | None = None
    age_days: int | None = None


class PriceUpdate(Part):
    """What an update from the providers brought."""

    providers: tuple[ProviderUpdate, ...]


class StoredPrices(Part):
    """The newest prices of a provider in the price book."""

    provider: str
    date: datetime.date
    age_days: int
    rows: int
    days: int
    source: str
