"""An update of the price book from the providers: each for itself, so that one that fails keeps its old prices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.catalogs.live import UNREACHABLE, WAIT_SECONDS_PER_PROVIDER, fetch_prices
from planner.catalogs.price_book import update_book
from planner.catalogs.summary import summary_of
from planner.errors import Fault, InputError
from planner.loading.price_book import book_folder, book_providers, read_meta
from planner.results.prices import PriceUpdate, ProviderUpdate

if TYPE_CHECKING:
    import datetime
    from collections.abc import Sequence

    from planner.catalogs.live import Fetched
    from planner.loading.price_book import StoredDay

SOURCE = "gpuhunt"


def update_from_providers(
    wanted: Sequence[str],
    now: datetime.datetime,
    force: bool = False,
    timeout_seconds: float = WAIT_SECONDS_PER_PROVIDER,
) -> PriceUpdate:
    """Store the prices of today of the providers, none: of all that gpuhunt has without a key, and say what changed.

    `InputError` where no provider could be updated or has nothing newer.
    """
    stored = _newest_days()
    versions = {} if force else {provider: entry.version for provider, (_, entry) in stored.items()}
    fetched = fetch_prices(wanted, versions, timeout_seconds)
    if not wanted:
        fetched = [one for one in fetched if not one.why_not.endswith(_NO_KEY)]
    found = PriceUpdate(providers=tuple(_stored(one, stored, now, force) for one in fetched))
    if all(one.why_not for one in found.providers):
        raise InputError(_faults(found.providers))
    return found


def _faults(failed: Sequence[ProviderUpdate]) -> list[Fault]:
    """Return why nothing was updated: of each provider, or once where none of several can be reached."""
    if len(failed) > 1 and all(one.why_not.endswith(UNREACHABLE) for one in failed):
        fix = "check the network, or read a file: planner prices update --offline FILE; what is stored stays"
        return [Fault("prices update", 0, "", f"none of the {len(failed)} providers can be reached", fix)]
    return [Fault(one.provider, 0, "", f"not updated: {one.why_not}", _kept(one)) for one in failed]


_NO_KEY = "environment variable"
"""End of gpuhunt's message about a provider whose key is not set."""


def _newest_days() -> dict[str, tuple[datetime.date, StoredDay]]:
    """Return the newest day of each provider in the book; one whose list is damaged has none."""
    found = {}
    for provider in book_providers(book_folder()):
        try:
            days = read_meta(book_folder() / provider).days
        except InputError:
            continue
        if days:
            found[provider] = (max(days), days[max(days)])
    return found


def _stored(
    fetched: Fetched, stored: dict[str, tuple[datetime.date, StoredDay]], now: datetime.datetime, force: bool
) -> ProviderUpdate:
    """Store what one provider has; a refusal is told like any other failure."""
    name, why_not = fetched.provider, fetched.why_not
    read = summary_of(fetched.catalog) if fetched.catalog else None
    if fetched.catalog is not None:
        try:
            source = f"{SOURCE} {fetched.version or 'query'}"
            (changes,) = update_book(fetched.catalog.offers, source, now, force, fetched.version)
            return ProviderUpdate(provider=name, read=read, changes=changes)
        except InputError as error:
            why_not = "; ".join(f"{one.what}; {one.fix}" for one in error.faults)
    day = stored[name][0] if name in stored else None
    age = (now.date() - day).days if day else None
    return ProviderUpdate(provider=name, read=read, why_not=why_not, stands=day, age_days=age)


def _kept(one: ProviderUpdate) -> str:
    return f"its prices of {one.stands} stay, {one.age_days} days old" if one.stands else "none are stored"
