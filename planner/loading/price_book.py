"""The price book: prices that `planner prices update` stored, one CSV file per provider and day, read while planning.

`prices/<provider>/<date>.csv` has the offers, `prices/<provider>/meta.json` the source, time, rows and SHA-256 of each.
"""

from __future__ import annotations

import datetime
import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from planner.documents.csv_table import MAX_CSV_BYTES, parse_csv
from planner.documents.files import read_text
from planner.documents.json_file import read_json
from planner.documents.quantities import Date, StrictModel, Text, WholeNumber
from planner.documents.source_map import Source
from planner.documents.validation import validation_complaints
from planner.errors import Fault, InputError, collect_faults
from planner.loading.offer_table import read_offer_table

if TYPE_CHECKING:
    from collections.abc import Collection

    from planner.documents.strict_yaml import Document
    from planner.scenario.offer import Offer

META = "meta.json"
"""File of a provider's folder that lists its days."""
FILL_BOOK = "fill it: planner prices update, or planner prices update --offline FILE"
_REPAIR = "store the prices of that day again with planner prices update --force"


class StoredDay(StrictModel, defer_build=True):
    """What is known of the stored prices of one day."""

    source: Text
    stored: Text  # time of storing, ISO 8601 with zone
    rows: WholeNumber
    sha256: Text
    replaces: str | None = None  # SHA-256 of the file that stood here before
    version: str | None = None  # what the source calls this state, by which it tells whether there is a newer one


class BookMeta(StrictModel, defer_build=True):
    """The days of one provider."""

    version: WholeNumber = 1
    days: dict[Date, StoredDay]


def book_folder() -> Path:
    """Return the folder of the price book: below the user's cache folder."""
    import platformdirs  # only where the price book is used

    return Path(platformdirs.user_cache_path("finetune-planner", appauthor=False)) / "prices"


def read_meta(folder: Path) -> BookMeta:
    """Return the days in the folder of a provider, none where it has no list; `InputError` if it cannot be read."""
    path = folder / META
    if not path.exists():
        return BookMeta(days={})
    document = read_json(path, _REPAIR)
    data: Any = document.data
    if isinstance(data, dict) and isinstance(data.get("days"), dict):
        data = {**data, "days": {_day(key): value for key, value in data["days"].items()}}
    try:
        return BookMeta.model_validate(data)
    except ValidationError as error:
        found = validation_complaints(error, BookMeta, data)
        raise InputError(Source(str(path), document).faults(found)) from None


def _day(written: str) -> datetime.date | str:
    try:
        return datetime.date.fromisoformat(written)
    except ValueError:
        return written


def book_providers(folder: Path) -> list[str]:
    """Return the providers with stored prices, sorted."""
    return sorted(path.parent.name for path in folder.glob(f"*/{META}"))


def read_day(folder: Path, day: datetime.date, stored: StoredDay) -> tuple[Document, tuple[Offer, ...]]:
    """Return the offers that a provider's folder has of a day; `InputError` if the file is not what was stored."""
    path = folder / f"{day}.csv"
    text = read_text(path, MAX_CSV_BYTES)
    if hashlib.sha256(text.encode()).hexdigest() not in (stored.sha256, stored.replaces):
        raise InputError([Fault(str(path), 0, "", "is not what was stored: it was changed or cut off", _REPAIR)])
    faults: list[Fault] = []
    read = read_offer_table(parse_csv(text, str(path)), faults)
    if faults:
        raise InputError(faults)
    return read


def read_earlier_day(
    provider: str, last: datetime.date, first: datetime.date
) -> tuple[datetime.date, tuple[Offer, ...]] | None:
    """Return the newest prices of a provider between two days; None where the book has none."""
    folder = book_folder() / provider
    days = read_meta(folder).days
    day = max((one for one in days if first <= one <= last), default=None)
    return None if day is None else (day, read_day(folder, day, days[day])[1])


def read_last_days(provider: str, most: int) -> list[tuple[datetime.date, tuple[Offer, ...]]]:
    """Return the prices of a provider on its last `most` stored days, the oldest first."""
    folder = book_folder() / provider
    days = read_meta(folder).days
    return [(day, read_day(folder, day, days[day])[1]) for day in sorted(days)[-most:]]


def read_price_book(providers: Collection[str] | None = None) -> list[tuple[Source, tuple[Offer, ...]]]:
    """Return the newest prices of each provider; `InputError` with every fault, or where nothing is stored."""
    root = book_folder()
    found: list[tuple[Source, tuple[Offer, ...]]] = []
    faults: list[Fault] = []
    for provider in book_providers(root):
        if providers is not None and provider not in providers:
            continue
        with collect_faults(faults):
            days = read_meta(root / provider).days
            if days:
                newest = max(days)
                document, offers = read_day(root / provider, newest, days[newest])
                found.append((Source(document.file, document), offers))
    if faults:
        raise InputError(faults)
    if not found:
        raise InputError([Fault(str(root), 0, "", "the price book is empty", FILL_BOOK)])
    return found
