"""Ways to pay for machines other than by the hour: commitments, own machines, managed services."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, model_validator

from planner.documents.quantities import (
    MAX_USD,
    OneOrMany,
    Positive,
    Price,
    StrictModel,
    Text,
    format_value,
    validation_error,
)
from planner.units import MONTH_HOURS

MONTHS = (1, 3, 6, 12, 36)
"""Terms that providers sell commitments for."""

Tier = Literal["own", "managed", "committed", "community", "secure"]
TIERS: tuple[Tier, ...] = ("own", "managed", "committed", "community", "secure")
"""What an offer is beside its price, as `limits.tiers` names it."""

WATTS_PER_KILOWATT = 1000.0


def _sold_term(value: Any) -> Any:
    if isinstance(value, bool) or value not in MONTHS:
        listed = ", ".join(map(str, MONTHS))
        raise validation_error(f"{format_value(value)} is not a commitment term", f"one of {listed} months")
    return value


class Commitment(StrictModel):
    """A term that is paid for whether it is used or not; the hour's price is due in every hour of it."""

    months: Annotated[Literal[1, 3, 6, 12, 36], BeforeValidator(_sold_term)]
    upfront_usd: Price = 0.0  # per instance

    @property
    def term_hours(self) -> float:
        """Hours of the term."""
        return self.months * MONTH_HOURS


class Own(StrictModel):
    """A machine that stands in the house: its hour costs electricity and wear."""

    power_watts: Positive  # per instance, under load
    usd_per_kwh: Price
    purchase_usd: Price = 0.0  # per instance
    lifetime_hours: Positive | None = None  # hours of use that the purchase is spread over

    @property
    def power_usd_per_hour(self) -> float:
        """Electricity of one instance under load, dollars per hour: kW times the price of a kWh."""
        return self.power_watts / WATTS_PER_KILOWATT * self.usd_per_kwh

    @property
    def depreciation_usd_per_hour(self) -> float:
        """Wear of one instance, dollars per hour: the purchase spread evenly over its hours of use."""
        return self.purchase_usd / self.lifetime_hours if self.lifetime_hours else 0.0

    @model_validator(mode="after")
    def _wears_out(self) -> Self:
        if self.purchase_usd > 0 and self.lifetime_hours is None:
            fix = "give lifetime_hours, the hours of use that purchase_usd is spread over"
            raise validation_error("a purchase without a lifetime", fix, "lifetime_hours")
        hour = self.power_usd_per_hour + self.depreciation_usd_per_hour
        if hour > MAX_USD:
            raise validation_error(
                f"an hour of it costs ${hour:.3g}", f"power and wear come to at most {MAX_USD:g} dollars"
            )
        return self


class Managed(StrictModel):
    """A service that takes data and hands back a trained network: no machine, no memory to fit into."""

    architectures: OneOrMany[Text]  # names of cards; one that we have no card of is never asked for
    usd_per_million_tokens: Price | None = None  # of training, every epoch counted
    usd_per_run: Price | None = None
    minimum_usd: Price = 0.0  # a run costs at least this
    tokens_per_second: Positive | None = None  # None: the provider promises no speed
    method: Literal["lora", "full"] = "lora"

    @model_validator(mode="after")
    def _has_a_price(self) -> Self:
        if self.usd_per_million_tokens is None and self.usd_per_run is None:
            fix = "give usd_per_million_tokens or usd_per_run, in dollars"
            raise validation_error("a managed service without a price", fix)
        return self
