"""The offers of a market as columns of numbers."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

import numpy as np

from planner.candidates.offer_terms import SpotMarket, disk_rate, download_rate
from planner.candidates.preference import offer_steps
from planner.candidates.shipping.export_work import export_columns
from planner.records import record
from planner.units import HOUR, MONTH_HOURS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.arrays import Flags, Floats, Integers
    from planner.candidates.market import Market
    from planner.library.schema import Library
    from planner.scenario.job import Job


@record(frozen=True)
class OfferColumns:
    """Offers as columns (offers,): nan where a price does not exist, 0 for an unknown fee, which the bill names."""

    on_demand_usd: Floats  # of one more hour: 0 under a commitment, whose hours are paid for in any case
    spot_usd: Floats  # nan without a spot market
    committed_usd: Floats  # per instance, however little it is used
    ingress_usd_per_gb: Floats
    egress_usd_per_gb: Floats
    storage_usd_per_gb_hour: Floats
    network_storage_usd_per_gb_month: Floats
    source_usd_per_gb: float  # egress of the storage of the user's data
    at_data: Flags  # in the region of the user's data
    pull_bytes_per_second: Floats
    disk_bytes_per_second: Floats
    cores: Floats  # per instance; nan: unknown
    ram_gb: Floats  # nan: unknown
    availability: Floats
    mean_up_hours: Floats
    step_hours: Floats
    minimum_hours: Floats
    term_hours: Floats  # longest run: the term of a commitment, the horizon of a purchase; inf without one
    lead_hours: Floats  # from the order to the machine
    committed_hours: Floats  # prepaid machine hours that are left; inf where that is no limit
    export_seconds: Floats  # (2, offers): merging and quantising what full training, or adapters, leave
    lacks_export_memory: Flags  # (2, offers): known to have too little memory for that
    tie_steps: Integers  # (offers, 3): what ties are decided by, see `planner.candidates.preference`

    @classmethod
    def of(cls, market: Market, job: Job, spot: Sequence[SpotMarket], library: Library) -> OfferColumns:
        """Return the columns of the offers of a market, given the spot market of each."""
        offers = market.offers
        source = job.stages.transfer

        def column(values: Sequence[float | None], missing: float = np.nan) -> Floats:
            """Return values as a column, with `missing` in place of None."""
            return np.asarray([missing if value is None else value for value in values], dtype=float)

        disks = column([disk_rate(o, library) for o in offers])
        export_seconds, lacks_export_memory = export_columns(job, offers, disks, library)
        return cls(
            on_demand_usd=column([0.0 if o.commitment else o.usd_per_hour for o in offers]),
            spot_usd=column([o.spot_usd_per_hour if o.has_spot else None for o in offers]),
            committed_usd=column([o.committed_usd for o in offers]),
            ingress_usd_per_gb=column([o.fees.ingress_usd_per_gb for o in offers], 0.0),
            egress_usd_per_gb=column([o.fees.egress_usd_per_gb for o in offers], 0.0),
            storage_usd_per_gb_hour=column([o.fees.storage_usd_per_gb_month for o in offers], 0.0) / MONTH_HOURS,
            network_storage_usd_per_gb_month=column([o.fees.network_storage_usd_per_gb_month for o in offers], 0.0),
            source_usd_per_gb=source.egress_usd_per_gb if source else 0.0,
            at_data=np.asarray([bool(source and o.is_in(source.region)) for o in offers], dtype=bool),
            pull_bytes_per_second=column([download_rate(o, library) for o in offers]),
            disk_bytes_per_second=disks,
            cores=column([o.cpu_cores for o in offers]),
            ram_gb=column([o.ram_gb for o in offers]),
            availability=column([s.availability for s in spot]),
            mean_up_hours=column([s.mean_up_hours for s in spot]),
            step_hours=column([o.billing.step_seconds for o in offers]) / HOUR,
            minimum_hours=column([o.billing.minimum_hours for o in offers]),
            term_hours=column([o.use_hours for o in offers], np.inf),
            lead_hours=column([o.lead_hours for o in offers]),
            committed_hours=column([o.committed_hours for o in offers], np.inf),
            export_seconds=export_seconds,
            lacks_export_memory=lacks_export_memory,
            tie_steps=offer_steps(offers),
        )

    def differ_in_prices_alone(self, other: OfferColumns) -> bool:
        """Return whether hours on the offers are those on the offers of `other`: other prices, on the same markets."""
        for one in fields(self):
            mine, theirs = (np.asarray(getattr(columns, one.name), dtype=float) for columns in (self, other))
            if "usd" in one.name:  # of a price hours depend only on whether there is one
                mine, theirs = np.isnan(mine), np.isnan(theirs)
            if not np.array_equal(mine, theirs, equal_nan=True):
                return False
        return True

    def storage_usd_per_hour(self, offer: Integers, stored_gb: Floats) -> Floats:
        """Return the dollars (n,) per hour of storing `stored_gb` (n,) at offers (n,)."""
        return np.asarray(self.storage_usd_per_gb_hour[offer] * stored_gb, dtype=float)
