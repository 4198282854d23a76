"""What a market has to rent: one offer is one instance type at one place and one date."""

import datetime
from collections.abc import Sequence
from typing import Annotated, Any, Self

from pydantic import Field, PrivateAttr, model_validator

from planner.deferred import Deferred
from planner.documents.quantities import NotNegative, Positive, Price, Text, WholeNumber, validation_error
from planner.scenario.own_machines import Buy, Horizon, Own
from planner.scenario.payment import Commitment, Managed, StockStatus, Terms, Tier
from planner.scenario.schedule import Block, Window
from planner.scenario.zone_prices import Zones, regions_of


class Offer(Terms):
    """One instance type that can be booked; prices are dollars per instance and hour, None if not sold so."""

    provider: Text
    region: Text = "any"
    instance: str = ""
    gpu: Text | None = None  # None: a machine without GPU, or a managed service
    gpus: WholeNumber = 0  # per instance
    cpu_cores: Positive | None = None  # per instance
    ram_gb: Positive | None = None  # per instance
    usd_per_hour: Price | None = None
    spot_usd_per_hour: Price | None = None
    stock: WholeNumber | None = None  # instances; None: unknown
    stock_status: StockStatus | None = None  # as the provider's list gives it; None: unknown
    lead_hours: NotNegative = 0.0  # from the order to the machine
    commitment: Commitment | None = None
    committed_hours: Positive | None = None  # instance-hours already paid for and left
    own: Deferred[Own] | None = None
    buy: Deferred[Buy] | None = None  # not owned yet: bought where the scenario has a horizon, see `bought_for`
    managed: Deferred[Managed] | None = None
    block: Deferred[Block] | None = None  # bought for a fixed time
    available: Annotated[tuple[Deferred[Window], ...], Field(strict=False)] = ()  # when it may be used; empty: always
    zones: Zones = ()  # spot price by zone, per instance and hour; a group of zones holds those that it may rent
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
    def can_outdate(self) -> bool:
        """Whether the price is one that changes: of GPUs that are rented by the hour."""
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
        """Most hours of one run: the term of a reservation, the horizon of a machine that is bought; None: no limit."""
        if self.is_reservation:
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


def offer_labels(offers: Sequence[Offer]) -> tuple[str, ...]:
    """One distinct label per offer: equal ones are numbered, as in `aws/us-east-1/p4d#2`."""
    labels, seen = [offer.label for offer in offers], dict[str, int]()
    for place, label in enumerate(labels):
        seen[label] = again = seen.get(label, 0) + 1
        if again > 1:
            labels[place] = f"{label}#{again}"
    return tuple(labels)
