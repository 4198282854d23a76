"""What a market has to rent, one offer per instance type, place and date, its fees and the ways to pay for it."""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, PrivateAttr, model_validator

from planner.documents.quantities import (
    Currency,
    Date,
    NotNegative,
    OneOrMany,
    Positive,
    Price,
    StrictModel,
    Text,
    WholeNumber,
    validation_error,
)
from planner.errors import format_value
from planner.scenario.offer_terms import Block, Buy, DiskSpeed, Horizon, Own, SpotStatistics, Window, Zones, regions_of
from planner.units import MONTH_HOURS

# The fees of an offer: which key states each, what it counts, and its line of the bill.
#
# All that pays or shows fees goes over `FEES`: the columns of the search, the evaluation of a plan, stages on separate
# machines, services, the notes and the bill. Search and evaluation count the amounts independently of each other.
#
# A new fee is a key of `Fees` and an entry of `FEES`. It needs more only where it counts what no other fee does: then
# search and evaluation state the amount of the new count.


FeeCount = Literal["machine hours", "GB on disk", "GB kept", "GB in", "GB out"]
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
FEE_UNITS: dict[FeeCount, str] = {
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
    counts: FeeCount
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


def fees_that_count(*counts: FeeCount) -> tuple[Fee, ...]:
    """Return the fees with one of the counts."""
    return tuple(fee for fee in FEES if fee.counts in counts)


def fee_items(*counts: FeeCount) -> frozenset[str]:
    """Return the lines of the bill of the fees with one of the counts."""
    return frozenset(fee.item for fee in fees_that_count(*counts))


def fee_rate(fees: Fees, count: FeeCount) -> float | None:
    """Return the dollars per unit of all fees with a count; None where the offer states none of them."""
    stated = [rate for fee in FEES if fee.counts == count and (rate := fee.rate(fees)) is not None]
    return math.fsum(stated) if stated else None


def fees_usd(fees: Fees, amounts: Mapping[FeeCount, float]) -> float:
    """Return the dollars of the fees for amounts of what they count; unknown ones cost nothing."""
    return math.fsum(amount * (fee_rate(fees, count) or 0.0) for count, amount in amounts.items())


# The days in which a price can have been collected, where its own day is not known.


class DateWindow(StrictModel):
    """The first and the last day on which a price can have been collected."""

    from_: Date = Field(alias="from")
    """First day of the window."""
    to: Date
    """Last day of the window."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.from_ > self.to:
            raise validation_error(f"{self.from_} is after {self.to}", "from is the first day, to the last", "from")
        return self


# What providers grant all of their offers, and ways to pay other than by the hour: commitments, managed services.


MONTHS = (1, 3, 6, 12, 36)
"""Terms that providers sell commitments for."""

Tier = Literal["own", "bought", "managed", "committed", "community", "secure"]
TIERS: tuple[Tier, ...] = ("own", "bought", "managed", "committed", "community", "secure")
"""What an offer is besides its price, as `limits.tiers` names it."""


def _sold_term(value: Any) -> Any:
    if isinstance(value, bool) or value not in MONTHS:
        listed = ", ".join(map(str, MONTHS))
        raise validation_error(f"{format_value(value)} is not a commitment term", f"one of {listed} months")
    return value


MONTH_SECONDS, YEAR_HOURS = 31 * 24 * 3600, 366 * 24
"""Longest billing step and longest minimum: nobody sells longer ones by the hour."""


class Billing(StrictModel):
    """How use is rounded up."""

    step_seconds: Annotated[Positive, Field(le=MONTH_SECONDS)] = 1.0
    """Use is rounded up to this step."""
    minimum_hours: Annotated[NotNegative, Field(le=YEAR_HOURS)] = 0.0
    """Least use that is charged."""


def _word(value: Any) -> Any:
    """Return yes and no as words: YAML reads them as true and false."""
    return {True: "yes", False: "no"}.get(value, value) if isinstance(value, bool) else value


class Commitment(StrictModel):
    """A term that is paid for whether it is used or not; the hour's price is due in every hour of it."""

    months: Annotated[Literal[1, 3, 6, 12, 36], BeforeValidator(_sold_term)]
    """Length in months."""
    upfront_usd: Price = 0.0
    """Dollars at the start, per instance."""

    @property
    def term_hours(self) -> float:
        """Hours of the term."""
        return self.months * MONTH_HOURS


class Managed(StrictModel):
    """A service that trains a network or answers prompts: no machine, no memory to fit into."""

    architectures: OneOrMany[Text]
    """Names of the models that it takes; one that is not known is never asked for."""
    usd_per_million_tokens: Price | None = None
    """Dollars per million tokens of training, every epoch counted."""
    usd_per_run: Price | None = None
    """Dollars of a run of training, whatever its size."""
    minimum_usd: Price = 0.0
    """Least dollars of a run."""
    tokens_per_second: Positive | None = None
    """Speed that is promised; None: none is."""
    method: Literal["lora", "full"] = "lora"
    """What it trains: adapters or all weights."""
    usd_per_million_input_tokens: Price | None = None
    """Dollars per million tokens of prompts that it answers."""
    usd_per_million_output_tokens: Price | None = None
    """Dollars per million tokens of answers."""
    batch_discount: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Share taken off prompts that may wait."""
    hosts_tuned: Annotated[Literal["yes", "dedicated", "no"], BeforeValidator(_word)] = "no"
    """Whether it serves networks that a customer tuned, and on which terms."""

    @property
    def trains(self) -> bool:
        """Whether it trains: it has a price for that."""
        return self.usd_per_million_tokens is not None or self.usd_per_run is not None

    @property
    def answers(self) -> bool:
        """Whether it answers prompts: it has a price for tokens in and out."""
        return self.usd_per_million_input_tokens is not None

    @property
    def does(self) -> str:
        """What it does in a word: lora, full, or api where it only answers."""
        return self.method if self.trains else "api"

    @model_validator(mode="after")
    def _has_a_price(self) -> Self:
        if (self.usd_per_million_input_tokens is None) != (self.usd_per_million_output_tokens is None):
            fix = "give usd_per_million_input_tokens and usd_per_million_output_tokens"
            raise validation_error("tokens of one direction have a price", fix)
        if not self.answers and (self.batch_discount or self.hosts_tuned != "no"):
            fix = "give usd_per_million_input_tokens and usd_per_million_output_tokens, or leave it out"
            key = "batch_discount" if self.batch_discount else "hosts_tuned"
            raise validation_error("is of services that answer prompts", fix, key)
        if not self.trains and not self.answers:
            fix = "give usd_per_million_tokens or usd_per_run, in dollars"
            raise validation_error("a managed service without a price", fix)
        return self


STOCK_STATUSES = ("none", "low", "medium", "high")
"""What lists of providers say of their stock, least first."""


def _status(value: Any) -> Any:
    """Return the word of a status; YAML reads none as a text, and an empty value as null."""
    return value.casefold() if isinstance(value, str) else value


StockStatus = Annotated[Literal["none", "low", "medium", "high"], BeforeValidator(_status)]

MAX_INSTANCES = 1000
"""Most machines of one run: each number of them is a configuration of its own."""
Nodes = Annotated[int, Field(ge=1, le=MAX_INSTANCES)]


def _one_node(value: Any) -> Any:
    return 1 if value is None else value


class Terms(StrictModel):
    """What a provider grants all of its offers, unless an offer says otherwise."""

    billing: Billing = Billing()
    """In which steps use is charged."""
    fees: Fees = Fees()
    """What costs in addition to the hours."""
    spot: SpotStatistics | None = None
    """How the spot market comes and goes; None: a prior."""
    spot_notice_seconds: NotNegative | None = None
    """From the warning to the loss of a spot machine; None: not known."""
    interconnect: Literal["nvlink", "nvswitch", "pcie", "ici"] | None = None
    """What connects the GPUs of an instance; None: what its type says, else `pcie`."""
    network_gbps: Positive | None = None
    """Network of an instance in Gbit/s; None: not known."""
    disk_gb_per_second: DiskSpeed | None = None
    """Disk speed of an instance in GB/s, or a class of disks; None: that of its class of machine."""
    download_gb_per_second: Positive | None = None
    """Speed from the outside in GB/s, per instance; None: that of its class of machine."""
    max_nodes: Annotated[Nodes, BeforeValidator(_one_node, json_schema_input_type=Nodes | None)] = 1
    """Instances that can work on one run."""
    community: bool = False
    """Whether these are machines of private hosts."""
    notes: str = ""
    """Remarks for the reader."""
    currency: Currency = "USD"
    """Currency of the prices."""
    date: Date | None = None
    """Day of the price."""
    dates: DateWindow | None = None
    """Window in which the price was collected, in place of `date`."""
    source: str = ""
    """Where the price stands."""


# What a market has to rent: one offer is one instance type at one place and one date.


class Offer(Terms):
    """One instance type that can be booked; prices are dollars per instance and hour, None if not sold so."""

    provider: Text
    """Who sells it."""
    region: Text = "any"
    """Region, with the zone behind it where its name does not say the region."""
    instance: str = ""
    """Type of the instance, as the provider calls it."""
    gpu: Text | None = None
    """Model of the GPU; None: a machine without GPU, or a managed service."""
    gpus: WholeNumber = 0
    """GPUs per instance."""
    cpu_cores: Positive | None = None
    """Virtual cores per instance; None: not known."""
    ram_gb: Positive | None = None
    """Memory per instance in GB of 10^9 bytes; None: not known."""
    usd_per_hour: Price | None = None
    """Dollars per instance and hour on demand; None: not sold so."""
    spot_usd_per_hour: Price | None = None
    """Dollars per instance and hour on spot; None: not sold so."""
    stock: WholeNumber | None = None
    """Instances that can be had; None: unknown."""
    stock_status: StockStatus | None = None
    """Stock as the provider's list says it; None: unknown."""
    lead_hours: NotNegative = 0.0
    """Hours from the order to the machine."""
    commitment: Commitment | None = None
    """For how long the price on demand binds."""
    committed_hours: Positive | None = None
    """Instance-hours already paid for and left."""
    own: Own | None = None
    """What an own machine costs; it is not rented."""
    buy: Buy | None = None
    """What the machine costs to buy, where the scenario has a horizon."""
    managed: Managed | None = None
    """A service that trains or answers, in place of a machine."""
    block: Block | None = None
    """Machines for a fixed time, in place of a price by the hour."""
    available: Annotated[tuple[Window, ...], Field(strict=False)] = ()
    """When the machine may be used; empty: always."""
    zones: Zones = ()
    """Spot price by zone, per instance and hour; a group of zones holds those that it may rent."""
    _days_behind: int = PrivateAttr(default=0)
    _day_of_source: datetime.date | None = PrivateAttr(default=None)

    @property
    def first_date(self) -> datetime.date | None:
        """The day from which the age of the price counts: the first one that it can be of.

        An undated price is as old as the oldest of its source; None where that is not known either.
        """
        if self.dates:
            return self.dates.from_
        of_source: datetime.date | None = (self.__pydantic_private__ or {}).get("_day_of_source")
        return self.date or of_source

    @property
    def last_date(self) -> datetime.date | None:
        """The day of the price, the last one that it can be of; None for an undated price."""
        return self.dates.to if self.dates else self.date

    @property
    def date_text(self) -> str:
        """The day of the price, or the window that it is of; empty for an undated price."""
        return f"{self.dates.from_} to {self.dates.to}" if self.dates else str(self.date or "")

    @property
    def days_behind(self) -> int:
        """Days by which the price is at least older than the newest one of its provider."""
        # Tens of thousands of offers are asked: pydantic takes thirty times as long to find a private attribute.
        return int((self.__pydantic_private__ or {}).get("_days_behind", 0))

    @property
    def is_by_the_hour(self) -> bool:
        """Whether it rents GPUs by the hour, at a price that changes."""
        return self.rents_gpus and self.tier in ("secure", "community")

    @property
    def regions(self) -> tuple[str, ...]:
        """The regions of a group of zones, or its own region."""
        return regions_of(self.zones) or (self.region,)

    def is_in(self, region: str | None) -> bool:
        """Whether a run on the offer stays in a region, whichever of its zones it uses."""
        return self.regions == (region,)

    @property
    def is_cpu(self) -> bool:
        """Whether this is a machine without GPU."""
        return self.gpu is None and self.managed is None

    @property
    def is_managed(self) -> bool:
        """Whether a service trains, and no machine is rented."""
        return self.managed is not None

    @property
    def rents_gpus(self) -> bool:
        """Whether this is a machine with GPUs."""
        return self.gpu is not None

    @property
    def card(self) -> str:
        """Name of its GPU, empty where it has none."""
        return self.gpu or ""

    @property
    def is_private_host(self) -> bool:
        """Whether its host is like those of a marketplace: offered there, or one's own."""
        return self.community or self.own is not None or self.buy is not None

    @property
    def tier(self) -> Tier:
        """What `limits.tiers` knows the offer as."""
        if self.buy is not None:
            return "bought"
        if self.own is not None:
            return "own"
        if self.managed is not None:
            return "managed"
        if self.block is not None or self.commitment is not None or self.committed_hours is not None:
            return "committed"
        return "community" if self.community else "secure"

    @property
    def term_hours(self) -> float:
        """Hours that a commitment or a block is due for, 0 without one."""
        term = self.commitment or self.block
        return term.term_hours if term else 0.0

    @property
    def is_reservation(self) -> bool:
        """Whether machines are paid once for a term, whatever their use."""
        return self.commitment is not None or self.block is not None

    @property
    def committed_usd(self) -> float:
        """What a commitment costs per instance, used or not, 0 without one: upfront + price * hours of the term."""
        if self.block is not None:
            return self.block.usd
        if self.commitment is None:
            return 0.0
        return self.commitment.upfront_usd + (self.usd_per_hour or 0.0) * self.term_hours

    @property
    def outlay_usd(self) -> float:
        """What one instance costs on the day of its order: its purchase, what a commitment asks upfront, or a block."""
        if self.buy is not None:
            return self.buy.purchase_usd
        if self.block is not None:
            return self.block.usd
        return self.commitment.upfront_usd if self.commitment is not None else 0.0

    @property
    def full_usd_per_hour(self) -> float | None:
        """What an instance costs per hour, an upfront payment spread over all hours of its term."""
        return self.committed_usd / self.term_hours if self.term_hours else self.usd_per_hour

    @property
    def label(self) -> str:
        """Such as `vast/US-CA/1x-rtx3090`."""
        return f"{self.provider}/{self.region}/{self.instance or self._kind}"

    @property
    def _kind(self) -> str:
        """What tells the offer apart where no instance is named."""
        if self.gpu is not None:
            return f"{self.gpus}x-{self.gpu.lower()}"
        return f"managed-{self.managed.does}" if self.managed else f"{self.cpu_cores or 0:g}-cores"

    @property
    def notice_seconds(self) -> float:
        """From the warning to the loss of a spot machine: what its statistics say, else its provider, else nothing."""
        told = self.spot.notice_seconds if self.spot else None
        return (self.spot_notice_seconds or 0.0) if told is None else told

    @property
    def has_spot(self) -> bool:
        """Whether spot is worth considering: sold, and cheaper than on demand."""
        if self.spot_usd_per_hour is None:
            return False
        return self.usd_per_hour is None or self.spot_usd_per_hour < self.usd_per_hour

    @property
    def use_hours(self) -> float | None:
        """Most hours of one run: a block, the horizon of a machine that is bought; None: no limit."""
        if self.block is not None:
            return self.term_hours
        return self.own.use_hours if self.buy is not None and self.own is not None else None

    def bought_for(self, horizon: Horizon | None) -> Self:
        """Return a machine that may be bought as one that is owned for the horizon; any other offer as it is."""
        if self.buy is None or horizon is None:
            return self
        owned = self.buy.owned(horizon)
        return self.model_copy(update={"own": owned, "usd_per_hour": owned.usd_per_hour})

    @property
    def is_for_sale_only(self) -> bool:
        """Whether it can neither be rented nor, for want of a horizon, be bought."""
        return self.buy is not None and self.own is None

    @model_validator(mode="before")
    @classmethod
    def _own_price_is_not_written(cls, data: Any) -> Any:
        """Check what is written: an offer that is handed on has its derived price already."""
        if isinstance(data, dict) and data.get("own") is not None and data.get("usd_per_hour") is not None:
            fix = "leave it out: the hour's price follows from power and purchase"
            raise validation_error("an own machine with a price", fix, "usd_per_hour")
        return data

    @model_validator(mode="after")
    def _rents_something(self) -> Self:
        if self.managed is not None:
            self._is_no_machine()
        elif self.gpu is not None and self.gpus == 0:
            raise validation_error(
                f"the number of {self.gpu} is missing", "give gpus, the GPUs of one instance", "gpus"
            )
        elif self.gpu is None and self.gpus > 0:
            raise validation_error(f"the name of its {self.gpus} GPUs is missing", "give gpu, such as H100-80GB", "gpu")
        elif self.gpu is None and self.cpu_cores is None:
            fix = "give gpu and gpus, cpu_cores for a machine without GPU, or managed for a service"
            raise validation_error("the rented hardware is missing", fix)
        return self

    def _is_no_machine(self) -> None:
        for key in ("gpu", "gpus", "cpu_cores", "ram_gb", "usd_per_hour", "spot_usd_per_hour"):
            if getattr(self, key) not in (None, type(self).model_fields[key].default):
                fix = "leave it out; prices belong in managed" if "usd" in key else "leave it out, or leave managed out"
                raise validation_error(f"a managed service has no {key}", fix, key)
        for fee in fees_that_count("machine hours"):
            if fee.rate(self.fees):
                what = f"a managed service has no machines, so no fees.{fee.key}"
                raise validation_error(what, "leave it out; prices belong in managed", "fees")

    @model_validator(mode="after")
    def _waits_for_something(self) -> Self:
        if not self.lead_hours:
            return self
        known = {"a spot machine": self.spot_usd_per_hour is not None, "a service": self.managed, "a block": self.block}
        what = next((name for name, holds in {**known, "a machine with windows": self.available}.items() if holds), "")
        if what:
            fix = "leave it out, or add another offer for machines that are ordered"
            raise validation_error(f"{what} has no lead time", fix, "lead_hours")
        return self

    @model_validator(mode="after")
    def _has_one_date(self) -> Self:
        if self.date is not None and self.dates is not None:
            raise validation_error("date and dates contradict each other", "keep one", "dates")
        return self

    @model_validator(mode="after")
    def _is_paid_in_one_way(self) -> Self:
        ways = [
            key
            for key in ("commitment", "committed_hours", "own", "buy", "managed", "block")
            if getattr(self, key) is not None
        ]
        if len(ways) > 1:
            fix = "keep one, and add another offer for the rest"
            raise validation_error(f"{', '.join(ways)} exclude each other", fix)
        if ways and self.spot_usd_per_hour is not None:
            fix = "leave it out: the spot price belongs to another offer"
            raise validation_error(f"a spot price together with {ways[0]}", fix, "spot_usd_per_hour")
        return self

    @model_validator(mode="after")
    def _has_a_price(self) -> Self:
        if self.own is not None:
            self._fill(usd_per_hour=self.own.usd_per_hour, stock=1)
        elif self.buy is not None:
            if self.usd_per_hour is not None:
                fix = "leave it out: the hour's price follows from power, purchase and the horizon"
                raise validation_error("a machine to buy with a price by the hour", fix, "usd_per_hour")
        elif self.committed_hours is not None:
            self._fill(usd_per_hour=0.0)
        elif self.block is not None:
            if self.usd_per_hour:
                raise validation_error("a block with a price by the hour", "leave it out: usd buys it", "usd_per_hour")
            self._fill(usd_per_hour=0.0)
        elif self.managed is None and self.usd_per_hour is None:
            self._complain_of_no_price()
        elif self.commitment is not None and self.committed_usd == 0:
            fix = "give usd_per_hour or upfront_usd; hours already paid for are committed_hours"
            raise validation_error("a commitment that costs nothing", fix, "commitment")
        return self

    def _complain_of_no_price(self) -> None:
        if self.commitment is not None:
            fix = "give usd_per_hour, which is due in every hour of the term; 0 where all of it is paid upfront"
            raise validation_error("a commitment without an hourly price", fix, "usd_per_hour")
        if self.gpu is None:
            raise validation_error(
                "a machine without GPU has no price", "give usd_per_hour, in dollars", "usd_per_hour"
            )
        if self.spot_usd_per_hour is None:
            raise validation_error("an offer without a price", "give usd_per_hour or spot_usd_per_hour, in dollars")

    def _fill(self, **values: Any) -> None:
        """Set what follows from the rest and is not there; the offer is frozen for everybody else."""
        for key, value in values.items():
            if getattr(self, key) is None:
                object.__setattr__(self, key, value)


def offer_data(offer: Offer) -> dict[str, Any]:
    """Return the offer as plain data in the form of its file, without defaults and derived prices."""
    data = offer.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    if offer.own is not None:
        data.pop("usd_per_hour", None)
    return data


def usd_above_term(mine: Offer, other: Offer) -> float:
    """Return what an hour of `other` costs above one in the term of a commitment, whose own fees are due too.

    $2.00 an hour against a commitment whose machines pay $0.90 an hour for their addresses are $1.10.
    """
    fees = [fee_rate(offer.fees, "machine hours") or 0.0 for offer in (other, mine)]
    return (other.usd_per_hour or 0.0) + fees[0] - fees[1]


def offer_labels(offers: Sequence[Offer]) -> tuple[str, ...]:
    """One distinct label per offer: equal ones are numbered, as in `aws/us-east-1/p4d#2`."""
    labels, seen = [offer.label for offer in offers], dict[str, int]()
    for place, label in enumerate(labels):
        seen[label] = again = seen.get(label, 0) + 1
        if again > 1:
            labels[place] = f"{label}#{again}"
    return tuple(labels)


# What-if factors on the prices of offers.


def _names(value: Any) -> Any:
    """Return one name, or several as a tuple; a list of one is that name."""
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
        raise validation_error(
            f"{format_value(value)} is not a name or a list of names", "put it in quotes if it is one"
        )
    if not names or not all(names):
        raise validation_error("is empty", "give a name, or leave it out")
    return tuple(names) if len(names) > 1 else names[0]


Names = Annotated[str | tuple[str, ...], BeforeValidator(_names)]
"""A name, or several of which each is selected."""


class Match(StrictModel):
    """Selection of offers: each key that is given must name theirs."""

    gpu: Names | None = None
    """Names of which one must be that of the offer; None: any."""
    provider: Names | None = None
    """Names of which one must be that of the offer; None: any."""
    region: Names | None = None
    """Names of which one must be that of the offer; None: any."""
    instance: Names | None = None
    """Names of which one must be that of the offer; None: any."""

    def find_matches(self, offers: Sequence[Offer]) -> list[int]:
        """Return the positions of the selected offers."""
        places = list(range(len(offers)))
        for key in ("gpu", "provider", "region", "instance"):
            wanted = getattr(self, key)
            if wanted is not None:
                wanted = (wanted,) if isinstance(wanted, str) else wanted
                places = [index for index in places if getattr(offers[index], key) in wanted]
        return places


MAX_PRICE_FACTOR = 1000.0
"""Largest factor on a price."""


class Adjust(StrictModel):
    """Factors on the prices of selected offers."""

    match: Match = Match()
    """Which offers."""
    usd_per_hour_factor: Annotated[float, Field(ge=0, le=MAX_PRICE_FACTOR)] = 1.0
    """Factor on the price on demand."""
    spot_usd_per_hour_factor: Annotated[float, Field(ge=0, le=MAX_PRICE_FACTOR)] = 1.0
    """Factor on the price on spot."""


def apply_adjustments(offers: Sequence[Offer], rules: Sequence[Adjust]) -> tuple[Offer, ...]:
    """Return the offers at adjusted prices: the factors of all matching rules are multiplied."""
    adjusted = list(offers)
    for rule in rules:
        for index in rule.match.find_matches(adjusted):
            adjusted[index] = _apply_adjustment(adjusted[index], rule)
    return tuple(adjusted)


def _apply_adjustment(offer: Offer, rule: Adjust) -> Offer:
    """Return the offer at other prices; the upfront price of a commitment changes too, the price of power does not."""
    keys = ("usd_per_hour", "spot_usd_per_hour")
    prices: dict[str, Any] = {
        key: price * getattr(rule, f"{key}_factor") for key in keys if (price := getattr(offer, key)) is not None
    }
    prices["zones"] = tuple((name, usd * rule.spot_usd_per_hour_factor) for name, usd in offer.zones)
    if offer.commitment is not None:
        upfront = offer.commitment.upfront_usd * rule.usd_per_hour_factor
        prices["commitment"] = offer.commitment.model_copy(update={"upfront_usd": upfront})
    return offer.model_copy(update=prices)  # only numbers change
