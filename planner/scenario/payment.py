"""What providers grant all of their offers, and ways to pay other than by the hour: commitments, managed services."""

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from planner.deferred import Deferred
from planner.documents.quantities import (
    Currency,
    Date,
    NotNegative,
    OneOrMany,
    Positive,
    Price,
    StrictModel,
    Text,
    format_value,
    validation_error,
)
from planner.scenario.date_window import DateWindow
from planner.scenario.disk_classes import DiskSpeed
from planner.scenario.spot_statistics import SpotStatistics
from planner.units import MEGA, MONTH_HOURS

MONTHS = (1, 3, 6, 12, 36)
"""Terms that providers sell commitments for."""

Tier = Literal["own", "bought", "managed", "committed", "community", "secure"]
TIERS: tuple[Tier, ...] = ("own", "bought", "managed", "committed", "community", "secure")
"""What an offer is beside its price, as `limits.tiers` names it."""


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
    minimum_hours: Annotated[NotNegative, Field(le=YEAR_HOURS)] = 0.0


class Fees(StrictModel):
    """What costs in addition to the hours; None is not known (which is not free)."""

    egress_usd_per_gb: Price | None = None
    ingress_usd_per_gb: Price | None = None
    storage_usd_per_gb_month: Price | None = None
    network_storage_usd_per_gb_month: Price | None = None  # volume or object store that outlives the machine


def _word(value: Any) -> Any:
    """Return yes and no as words: YAML reads them as true and false."""
    return {True: "yes", False: "no"}.get(value, value) if isinstance(value, bool) else value


class Commitment(StrictModel):
    """A term that is paid for whether it is used or not; the hour's price is due in every hour of it."""

    months: Annotated[Literal[1, 3, 6, 12, 36], BeforeValidator(_sold_term)]
    upfront_usd: Price = 0.0  # per instance

    @property
    def term_hours(self) -> float:
        """Hours of the term."""
        return self.months * MONTH_HOURS


class Managed(StrictModel, defer_build=True):
    """A service that trains a network or answers prompts: no machine, no memory to fit into."""

    architectures: OneOrMany[Text]  # names of cards; one that we have no card of is never asked for
    usd_per_million_tokens: Price | None = None  # of training, every epoch counted
    usd_per_run: Price | None = None
    minimum_usd: Price = 0.0  # a run costs at least this
    tokens_per_second: Positive | None = None  # None: the provider promises no speed
    method: Literal["lora", "full"] = "lora"
    usd_per_million_input_tokens: Price | None = None  # of prompts that it answers
    usd_per_million_output_tokens: Price | None = None
    batch_discount: Annotated[float, Field(ge=0, lt=1)] = 0.0  # share taken off prompts that may wait
    hosts_tuned: Annotated[Literal["yes", "dedicated", "no"], BeforeValidator(_word)] = "no"

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

    def answers_usd(self, input_tokens: float, output_tokens: float) -> float:
        """Return the dollars of prompts and answers of so many tokens, sent as a batch."""
        million = (self.usd_per_million_input_tokens or 0.0) * input_tokens
        million += (self.usd_per_million_output_tokens or 0.0) * output_tokens
        return million / MEGA * (1.0 - self.batch_discount)

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
    fees: Fees = Fees()
    spot: Deferred[SpotStatistics] | None = None
    spot_notice_seconds: NotNegative | None = None  # from the warning to the loss of a spot machine; None: not known
    interconnect: Literal["nvlink", "nvswitch", "pcie", "ici"] | None = None
    network_gbps: Positive | None = None  # per instance
    disk_gb_per_second: DiskSpeed | None = None  # per instance; None: as the class of machine has it
    download_gb_per_second: Positive | None = None  # per instance, from the outside; None likewise
    max_nodes: Annotated[Nodes, BeforeValidator(_one_node, json_schema_input_type=Nodes | None)] = 1
    community: bool = False
    notes: str = ""
    currency: Currency = "USD"
    date: Date | None = None
    dates: DateWindow | None = None  # in place of date, where only the window of its collection is known
    source: str = ""
