"""The price book's writer: new prices are stored whole or not at all, and what they change is returned."""

from __future__ import annotations

import hashlib
import json
import re
from contextlib import suppress
from typing import TYPE_CHECKING

from planner.catalogs.catalog import price_changes
from planner.documents.files import check_writable, make_folder, write_text_atomically
from planner.documents.validation import name_fix
from planner.errors import Fault, InputError, raise_faults
from planner.loading.price_files import (
    FILL_BOOK,
    META,
    BookMeta,
    StoredDay,
    book_folder,
    book_providers,
    offer_table_text,
    read_day,
    read_meta,
)
from planner.records import record
from planner.results.market_results import PriceChanges, StoredPrices
from planner.scenario.naming import OfferedNames
from planner.scenario.offer import Offer

if TYPE_CHECKING:
    import datetime
    from collections.abc import Sequence
    from pathlib import Path

KEPT_DAYS = 90
"""Days that prices are kept; the newest ones of a provider are kept in any case."""
MOST_GONE = 0.5
"""Largest share of a provider's offers that may be gone without --force: more looks like half a file."""


@record(frozen=True)
class _Update:
    """New prices of one provider, checked and not yet stored."""

    folder: Path
    meta: BookMeta
    day: datetime.date
    offers: tuple[Offer, ...]
    changes: PriceChanges


def update_book(
    offers: Sequence[Offer], source: str, now: datetime.datetime, force: bool = False, version: str | None = None
) -> tuple[PriceChanges, ...]:
    """Store the offers of each provider as its prices of their newest day, and return what changed.

    `InputError` with every fault, and nothing stored, for prices of the future; without `force` also for prices older
    than those stored, and where more than half of a provider's offers, or of its prices on demand or on spot, would go.
    """
    faults: list[Fault] = []
    updates = []
    for provider in sorted({offer.provider for offer in offers}):
        its = tuple(offer for offer in offers if offer.provider == provider)
        update = _checked(provider, its, source, now.date(), force, faults)
        if update is not None:
            updates.append(update)
    raise_faults(faults)
    for update in updates:
        make_folder(update.folder, "set XDG_CACHE_HOME to a folder that is writable")
    for update in updates:
        _store(update, source, now, version)
    return tuple(update.changes for update in updates)


def _checked(
    provider: str, offers: tuple[Offer, ...], source: str, today: datetime.date, force: bool, faults: list[Fault]
) -> _Update | None:
    """Return the update of a provider; None where its faults are added."""
    day = max((offer.last_date for offer in offers if offer.last_date is not None), default=today)
    if not re.fullmatch(r"\w[\w.-]{0,60}", provider, re.ASCII):
        what = f"{provider!r} cannot name a folder of the price book"
        faults.append(Fault(source, 0, "", what, "use letters, digits, dots and hyphens: --provider NAME"))
        return None
    if day > today:
        faults.append(Fault(source, 0, "", f"prices of {day}, which is to come", "give their day: --date DATE"))
        return None
    folder = book_folder() / provider
    try:
        meta = read_meta(folder)
        before = _newest(folder, meta)
    except InputError:
        if not force:
            raise
        meta, before = BookMeta(days={}), None
    why = _why_not(provider, day, offers, before)
    if why and not force:
        faults.append(Fault(source, 0, "", why, "check the file; --force stores it all the same"))
        return None
    return _Update(folder, meta, day, offers, price_changes(provider, before, (day, offers)))


def _newest(folder: Path, meta: BookMeta) -> tuple[datetime.date, tuple[Offer, ...]] | None:
    if not meta.days:
        return None
    newest = max(meta.days)
    return newest, read_day(folder, newest, meta.days[newest])[1]


def _why_not(
    provider: str, day: datetime.date, offers: tuple[Offer, ...], before: tuple[datetime.date, tuple[Offer, ...]] | None
) -> str:
    """Return why prices should not replace those that are stored; empty where they may."""
    if before is None:
        return ""
    if day < before[0]:
        return f"prices of {provider} of {day}, older than those stored of {before[0]}"
    old, new = _counts(before[1]), _counts(offers)
    for what, count in old.items():
        if new[what] < (1 - MOST_GONE) * count:
            return f"only {new[what]:,} for {provider} after {count:,} {what} of {before[0]}: more than half are gone"
    return ""


def _counts(offers: Sequence[Offer]) -> dict[str, int]:
    """Count offers and their prices: a history of spot prices has no other ones."""
    return {
        "offers": len(offers),
        "prices on demand": sum(offer.usd_per_hour is not None for offer in offers),
        "prices on spot": sum(offer.has_spot for offer in offers),
    }


def _store(update: _Update, source: str, now: datetime.datetime, version: str | None) -> None:
    """Write the prices and the list of days; whenever it is interrupted, the list fits one of the two files."""
    text = offer_table_text(update.offers)
    old = update.meta.days.get(update.day)
    entry = StoredDay(
        source=source,
        stored=now.isoformat(timespec="seconds"),
        rows=len(update.offers),
        sha256=hashlib.sha256(text.encode()).hexdigest(),
        replaces=old.sha256 if old else None,
        version=version,
    )
    meta = BookMeta(days={**update.meta.days, update.day: entry})
    target = update.folder / f"{update.day}.csv"
    check_writable(update.folder / META)
    if old is not None:  # the list accepts the old file and the new one before the file changes
        _write_meta(update.folder, meta)
    write_text_atomically(target, text)
    _write_meta(update.folder, meta)
    _prune(update.folder, meta, now.date())


def _write_meta(folder: Path, meta: BookMeta) -> None:
    text = json.dumps(meta.model_dump(mode="json", exclude_none=True), indent=2, ensure_ascii=False)
    write_text_atomically(folder / META, text + "\n")


def _prune(folder: Path, meta: BookMeta, today: datetime.date) -> int:
    """Remove days that are too old, and return how many."""
    newest = max(meta.days, default=today)
    gone = [day for day in meta.days if day < newest and (today - day).days > KEPT_DAYS]
    if gone:
        _write_meta(folder, BookMeta(days={day: entry for day, entry in meta.days.items() if day not in gone}))
    for day in gone:
        with suppress(OSError):
            (folder / f"{day}.csv").unlink()
    return len(gone)


def prune_book(today: datetime.date) -> int:
    """Remove prices older than `KEPT_DAYS` but for the newest of each provider; return the number of files."""
    root = book_folder()
    return sum(
        _prune(root / book_provider, read_meta(root / book_provider), today) for book_provider in book_providers(root)
    )


def stored_prices(today: datetime.date) -> tuple[StoredPrices, ...]:
    """Return the newest prices of each provider in the book."""
    root = book_folder()
    found = []
    for provider in book_providers(root):
        days = read_meta(root / provider).days
        if days:
            newest = max(days)
            one = days[newest]
            facts = {"provider": provider, "rows": one.rows, "days": len(days), "source": one.source}
            found.append(StoredPrices(date=newest, age_days=(today - newest).days, **facts))
    return tuple(found)


def _stored(provider: str, known: Sequence[str]) -> tuple[str, ...]:
    """Return the stored providers that a name means; `InputError` with the nearest ones where it means none."""
    names = OfferedNames([{"provider": name} for name in known])
    found = tuple(name for name in names.meant("provider", provider) if name in known)
    if not found:
        fix = name_fix(provider, known, "planner prices list") if known else FILL_BOOK
        raise InputError([Fault("--provider", 0, provider, "no prices of this provider are stored", fix)])
    return found


def book_changes(
    provider: str | None = None, before: datetime.date | None = None, after: datetime.date | None = None
) -> tuple[PriceChanges, ...]:
    """Return how prices changed, of one provider or of all with two days.

    Compared are the newest prices up to the day `after` (None: the newest) with the newest up to the day `before`
    (None: those before them). `InputError` where nothing can be compared.
    """
    root = book_folder()
    found = []
    for name in book_providers(root) if provider is None else _stored(provider, book_providers(root)):
        days = read_meta(root / name).days
        later = max((day for day in days if after is None or day <= after), default=None)
        if later is None:
            continue
        earlier = max((day for day in days if day < later and (before is None or day <= before)), default=None)
        if earlier is not None:
            old, new = ((day, read_day(root / name, day, days[day])[1]) for day in (earlier, later))
            found.append(price_changes(name, old, new))
    if not found:
        what = f"no two days of {provider or 'any provider'} are stored that could be compared"
        raise InputError([Fault("price book", 0, "", what, f"see planner prices list; {FILL_BOOK}")])
    return tuple(found)
