"""The fees of an offer: which key states each, what it counts, and its line of the bill.

All that pays or shows fees goes over `FEES`: the columns of the search, the evaluation of a plan, stages on separate
machines, services, the notes and the bill. Search and evaluation count the amounts independently of each other.

A new fee is a key of `Fees` and an entry of `FEES`. It needs more only where it counts what no other fee does: then
search and evaluation state the amount of the new count.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from planner.documents.quantities import Price, StrictModel

Count = Literal["machine hours", "GB on disk", "GB kept", "GB in", "GB out"]
"""What a fee counts.

machine hours
    hours for which machines are billed, rounding included; the price of a commitment does not cover them
GB on disk
    GB-months of the disks of rented machines
GB kept
    GB-months of the result and its checkpoints after the run
GB in, GB out
    GB that enter or leave machines or a managed service
"""
FEE_UNITS: dict[Count, str] = {
    "machine hours": "h",
    "GB on disk": "GB-month",
    "GB kept": "GB-month",
    "GB in": "GB",
    "GB out": "GB",
}
"""Unit of the quantity on the bill."""
FEE_COUNTS = tuple(FEE_UNITS)


class Fees(StrictModel):
    """What costs in addition to the hours; None is not known (which is not free)."""

    egress_usd_per_gb: Price | None = None
    """Dollars per GB that leaves a machine."""
    ingress_usd_per_gb: Price | None = None
    """Dollars per GB that enters a machine."""
    storage_usd_per_gb_month: Price | None = None
    """Dollars per GB and month of what is kept."""
    network_storage_usd_per_gb_month: Price | None = None
    """Dollars per GB and month of a volume or object store that outlives the machine."""
    public_ip_usd_per_hour: Price | None = None
    """Dollars per hour of each machine for its public IPv4 address; None: free."""


@dataclass(frozen=True)
class Fee:
    """One fee: dollars for each unit of what it counts."""

    key: str  # of `Fees`
    counts: Count
    item: str  # its line of the bill
    is_usual: bool = True  # most providers charge it: the bill names it where it is unknown or 0

    def rate(self, fees: Fees) -> float | None:
        """Return the dollars per unit; None where the offer does not state them."""
        rate: float | None = getattr(fees, self.key)
        return rate

    def is_shown(self, fees: Fees) -> bool:
        """Return whether the bill has a line for it."""
        return self.is_usual or bool(self.rate(fees))


FEES = (
    Fee("public_ip_usd_per_hour", "machine hours", "public addresses", is_usual=False),
    Fee("storage_usd_per_gb_month", "GB on disk", "storage"),
    Fee("network_storage_usd_per_gb_month", "GB kept", "kept after"),
    Fee("ingress_usd_per_gb", "GB in", "transfer in"),
    Fee("egress_usd_per_gb", "GB out", "transfer out"),
)
"""Every fee of an offer; those of one count are in the order of their lines."""


def fees_that_count(*counts: Count) -> tuple[Fee, ...]:
    """Return the fees with one of the counts."""
    return tuple(fee for fee in FEES if fee.counts in counts)


def fee_items(*counts: Count) -> frozenset[str]:
    """Return the lines of the bill of the fees with one of the counts."""
    return frozenset(fee.item for fee in fees_that_count(*counts))


def fee_rate(fees: Fees, count: Count) -> float | None:
    """Return the dollars per unit of all fees with a count; None where the offer states none of them."""
    stated = [rate for fee in FEES if fee.counts == count and (rate := fee.rate(fees)) is not None]
    return math.fsum(stated) if stated else None


def fees_usd(fees: Fees, amounts: Mapping[Count, float]) -> float:
    """Return the dollars of the fees for amounts of what they count; unknown ones cost nothing."""
    return math.fsum(amount * (fee_rate(fees, count) or 0.0) for count, amount in amounts.items())
