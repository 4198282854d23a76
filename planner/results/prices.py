"""What was read from a catalog, and what the price book holds and how it changed."""

from __future__ import annotations

import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict


class _Result(BaseModel):
    model_config = ConfigDict(frozen=True)


class RowsLeftOut(_Result):
    """Rows of a catalog that are no offers, for one reason."""

    reason: str
    rows: int
    first_line: int


class RowsNoted(_Result):
    """Rows that were read in a way that the user should know."""

    note: str
    rows: int


class ImportSummary(_Result):
    """What became of the rows of a file."""

    file: str
    kind: str
    rows: int
    offers: int
    date: datetime.date
    date_is_of_file: bool  # no date was given: the day on which the file was last written
    left_out: tuple[RowsLeftOut, ...]
    notes: tuple[RowsNoted, ...]


class PriceMove(_Result):
    """A price of one offer that changed, dollars per instance and hour; None: not sold so."""

    offer: str
    market: Literal["on demand", "spot"]
    before_usd_per_hour: float | None
    after_usd_per_hour: float | None


class PriceChanges(_Result):
    """How the prices of a provider differ between two days; `before` is None where there was no earlier one."""

    provider: str
    before: datetime.date | None
    after: datetime.date
    rows_before: int
    rows_after: int
    new: tuple[str, ...]
    gone: tuple[str, ...]
    moved: tuple[PriceMove, ...]


class BookUpdate(_Result):
    """What an update of the price book read and changed."""

    read: ImportSummary
    changes: tuple[PriceChanges, ...]


class ProviderUpdate(_Result):
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


class PriceUpdate(_Result):
    """What an update from the providers brought."""

    providers: tuple[ProviderUpdate, ...]


class StoredPrices(_Result):
    """The newest prices of a provider in the price book."""

    provider: str
    date: datetime.date
    age_days: int
    rows: int
    days: int
    source: str
