"""Prices of today through gpuhunt, one timeout for each provider, and the price book that they are written to.

gpuhunt publishes the catalogs of some providers (a version and a zip with a CSV each), and has an adapter for the
interfaces of others, which it queries. Both arrive here as the same table. gpuhunt's own loader waits for ever and
loads every provider, so the published files are fetched one by one. Hugging Face's machines for jobs come from its
own package.
"""

from __future__ import annotations

import datetime
import hashlib
import importlib
import io
import json
import logging
import os
import re
import threading
import time
import zipfile
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from planner.catalogs.catalog import GPUHUNT, JOB_FLAVORS, Catalog, catalog_of, price_changes, summary_of
from planner.catalogs.skypilot import PROVIDER as JOBS
from planner.catalogs.skypilot import flavors_table, plain_flavors
from planner.documents.files import check_writable, make_folder, write_text_atomically
from planner.documents.tables import MAX_CSV_BYTES, CsvTable, parse_csv, parse_json
from planner.documents.validation import find_name, name_fix
from planner.errors import Fault, InputError, raise_faults
from planner.library.names import provider_name, seller_of, tiers_of
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
from planner.results.market_results import PriceChanges, PriceUpdate, ProviderUpdate, StoredPrices
from planner.scenario.naming import OfferedNames
from planner.scenario.offer import Offer

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


KEPT_DAYS = 90
"""Days that prices are kept; the newest ones of a provider are kept in any case."""
MOST_GONE = 0.5
"""Largest share of a provider's offers that may be gone without --force: more looks like half a file."""


@dataclass(frozen=True)
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
    prices = []
    for provider in book_providers(root):
        days = read_meta(root / provider).days
        if days:
            newest = max(days)
            day = days[newest]
            facts = {"provider": provider, "rows": day.rows, "days": len(days), "source": day.source}
            prices.append(StoredPrices(date=newest, age_days=(today - newest).days, **facts))
    return tuple(prices)


def _stored_providers(provider: str, known: Sequence[str]) -> tuple[str, ...]:
    """Return the stored providers that a name means; `InputError` with the nearest ones where it means none."""
    names = OfferedNames([{"provider": name} for name in known])
    meant = tuple(name for name in names.meant("provider", provider) if name in known)
    if not meant:
        fix = name_fix(provider, known, "planner prices list") if known else FILL_BOOK
        raise InputError([Fault("--provider", 0, provider, "no prices of this provider are stored", fix)])
    return meant


def book_changes(
    provider: str | None = None, before: datetime.date | None = None, after: datetime.date | None = None
) -> tuple[PriceChanges, ...]:
    """Return how prices changed, of one provider or of all with two days.

    Compared are the newest prices up to the day `after` (None: the newest) with the newest up to the day `before`
    (None: those before them). `InputError` where nothing can be compared.
    """
    root = book_folder()
    changes = []
    for name in book_providers(root) if provider is None else _stored_providers(provider, book_providers(root)):
        days = read_meta(root / name).days
        later = max((day for day in days if after is None or day <= after), default=None)
        if later is None:
            continue
        earlier = max((day for day in days if day < later and (before is None or day <= before)), default=None)
        if earlier is not None:
            old, new = ((day, read_day(root / name, day, days[day])[1]) for day in (earlier, later))
            changes.append(price_changes(name, old, new))
    if not changes:
        what = f"no two days of {provider or 'any provider'} are stored that could be compared"
        raise InputError([Fault("price book", 0, "", what, f"see planner prices list; {FILL_BOOK}")])
    return tuple(changes)


WAIT_SECONDS_PER_PROVIDER = 60.0
"""Longest wait for a provider by default; all are asked at once."""
UNREACHABLE = "cannot be reached"
"""End of the reason why a provider that no connection leads to was not updated."""
_LARGEST_ZIP = 50 * 2**20
_DAY = re.compile(r"(20\d\d)-?([01]\d)-?([0-3]\d)")
_ITEM_COLUMNS = (
    *("instance_name", "location", "price", "cpu", "memory", "gpu_count", "gpu_name", "gpu_memory", "spot"),
    *("disk_size", "gpu_vendor", "flags", "cpu_arch", "provider_data"),
)


@dataclass(frozen=True)
class Fetched:
    """The prices of one provider; without a catalog why there is none, or nothing where there is none newer."""

    provider: str
    catalog: Catalog | None = None
    version: str | None = None
    why_not: str = ""


class NoPricesError(Exception):
    """Why a provider gave no prices, in words."""


@dataclass(frozen=True)
class _Sources:
    """What gpuhunt can fetch, by our names for the providers."""

    published: Mapping[str, str] = field(default_factory=dict)  # its name for the provider
    queried: Mapping[str, tuple[str, str]] = field(default_factory=dict)  # module and class of the adapter
    base_url: str = ""


def fetch_prices(
    wanted: Sequence[str], versions: Mapping[str, str | None], timeout_seconds: float = WAIT_SECONDS_PER_PROVIDER
) -> list[Fetched]:
    """Return the prices of providers, none: of all that need no key; each one ends within the timeout.

    `versions`: what is stored of a provider, by its name; a catalog of the same version is not fetched again.
    Raises `InputError` for unknown names, and where gpuhunt is missing.
    """
    names = list(dict.fromkeys(seller_of(provider_name(name)) for name in wanted))
    sources = _Sources() if names and {*names} == {JOBS} else _sources()
    known = sorted({*sources.published, *sources.queried, JOBS})
    names = [find_name(name, known) or name for name in names]
    names = names or [name for name in known if name != JOBS]  # whose key is not asked for by others
    _check_names(names, known)
    jobs: list[tuple[str, SimpleQueue[Fetched]]] = []
    deadline = time.monotonic() + timeout_seconds
    with _quiet_gpuhunt():
        for name in dict.fromkeys(names):
            answer: SimpleQueue[Fetched] = SimpleQueue()
            work = (name, sources, versions.get(name), timeout_seconds, answer)
            threading.Thread(target=_answer, args=work, daemon=True).start()  # one that hangs must not hold the end
            jobs.append((name, answer))
        answers = []
        for name, answer in jobs:
            try:
                answers.append(answer.get(timeout=max(deadline - time.monotonic(), 0.001)))
            except Empty:
                answers.append(Fetched(name, why_not=f"no answer within {timeout_seconds:g} s"))
    return answers


def _sources() -> _Sources:
    try:
        catalog: Any = importlib.import_module("gpuhunt._internal.catalog")
        default: Any = importlib.import_module("gpuhunt._internal.default")
        modules = dict(default.ONLINE_PROVIDER_MODULES)
        queried = {module.rpartition(".")[2]: (module, name) for module, name in modules.items()}
        base = os.environ.get("GPUHUNT_CATALOG_URL", catalog.CATALOG_URL).rstrip("/")
        published = {provider_name(name): name for name in catalog.OFFLINE_PROVIDERS}
    except ImportError:
        fix = "pip install gpuhunt, or give a file: planner prices update --offline FILE"
        what = "prices are fetched by gpuhunt, which is not installed"
        raise InputError([Fault("prices update", 0, "", what, fix)]) from None
    except AttributeError as error:
        fix = "install gpuhunt 0.1.34, or give a file: planner prices update --offline FILE"
        raise InputError([Fault("prices update", 0, "", f"gpuhunt of another version: {error}", fix)]) from None
    return _Sources(published, {provider_name(name): place for name, place in queried.items()}, base)


def _check_names(names: Sequence[str], known: Sequence[str]) -> None:
    faults = []
    for name in names:
        if name not in known:
            fix = f"{name_fix(name, known)}; others: --offline FILE"
            faults.append(Fault("--provider", 0, name, "gpuhunt has no prices of this provider", fix))
    if faults:
        raise InputError(faults)


@contextmanager
def _quiet_gpuhunt() -> Iterator[None]:
    """Keep gpuhunt's log of rows that it skips to itself."""
    log = logging.getLogger("gpuhunt")
    before = log.level
    log.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        log.setLevel(before)


def _answer(
    name: str, sources: _Sources, stored: str | None, timeout_seconds: float, answer: SimpleQueue[Fetched]
) -> None:
    """Put what a provider has into a queue; whatever goes wrong is told in words."""
    try:
        if name == JOBS:
            answer.put(_job_flavors())
        elif name in sources.published:
            answer.put(_published(name, sources, stored, timeout_seconds))
        else:
            answer.put(_queried(name, sources))
    except InputError as error:
        more = f" (and {len(error.faults) - 1} more faults)" if len(error.faults) > 1 else ""
        answer.put(Fetched(name, why_not=f"{error.faults[0]}{more}"))
    except Exception as error:  # of the HTTP client, of the adapter, of what a provider answers
        answer.put(Fetched(name, why_not=_reason(error)))


def _reason(error: Exception) -> str:
    """Return what went wrong in one line: a status, an answer that is none, or the error."""
    status = getattr(getattr(error, "response", None), "status_code", None)
    text = " ".join(str(error).split())[:160]
    kind = type(error).__name__
    if isinstance(error, NoPricesError) or kind == "MissingCredsError":
        return text
    if status is not None:
        return f"it answered {status}{' (too many requests)' if status == 429 else ''}"
    host = urlsplit(str(getattr(getattr(error, "request", None), "url", ""))).hostname
    if "Timeout" in kind:
        return f"{host or 'it'} did not answer in time"
    if kind == "ConnectionError" and host:
        return f"{host} {UNREACHABLE}"
    if isinstance(error, json.JSONDecodeError) or "JSONDecodeError" in kind:
        return "its answer is no JSON: cut off, or a web page"
    if isinstance(error, (KeyError, TypeError, AttributeError, IndexError)):
        return f"its answer has another form ({kind}: {text})"
    if isinstance(error, zipfile.BadZipFile):
        return "its catalog is no zip file: cut off, or a web page"
    return f"{kind}: {text}"


def _published(name: str, sources: _Sources, stored: str | None, timeout_seconds: float) -> Fetched:
    """Return a published catalog, unless it is the one that is stored."""
    theirs = sources.published[name]
    version = _get(f"{sources.base_url}/{theirs}/version", timeout_seconds, 1000).decode("utf-8", "replace").strip()
    if not re.fullmatch(r"[\w.+-]{1,60}", version):
        raise NoPricesError(f"its version is none: {version[:60]!r}")
    if version == stored:
        return Fetched(name, version=version)
    packed = _get(f"{sources.base_url}/{theirs}/{version}/catalog.zip", timeout_seconds, _LARGEST_ZIP)
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        file = f"{theirs}.csv"
        if file not in archive.namelist():
            raise NoPricesError(f"its catalog has no {file}")
        if archive.getinfo(file).file_size > MAX_CSV_BYTES:
            raise NoPricesError(f"its catalog has over {MAX_CSV_BYTES / 1e6:.0f} MB")
        text = archive.read(file).decode("utf-8", "replace")
    table = parse_csv(text, f"{theirs}.csv")
    return Fetched(name, catalog_of(table, GPUHUNT, name, _day_of(version)), version)


def _day_of(version: str) -> datetime.date:
    """Return the day that a version names, at most today; today where it names none."""
    found, today = _DAY.search(version), datetime.date.today()
    if found is None:
        return today
    try:
        return min(datetime.date(*map(int, found.groups())), today)
    except ValueError:
        return today


def _get(url: str, timeout_seconds: float, most_bytes: int) -> bytes:
    """Return what stands at an address, of at most so many bytes; `file:` is read from the disk."""
    if url.startswith("file:"):
        return Path(url.removeprefix("file://")).read_bytes()
    import requests  # gpuhunt needs it

    with requests.get(url, timeout=timeout_seconds, stream=True) as response:
        response.raise_for_status()
        parts, size = [], 0
        for part in response.iter_content(2**16):
            parts.append(part)
            size += len(part)
            if size > most_bytes:
                raise NoPricesError(f"its answer has over {most_bytes / 1e6:.3g} MB")
    return b"".join(parts)


def _queried(name: str, sources: _Sources) -> Fetched:
    """Return what the adapter of a provider finds."""
    module, adapter = sources.queried[name]
    hunt = importlib.import_module("gpuhunt")
    provider = getattr(importlib.import_module(module), adapter).from_env()
    # Vast.ai answers with few offers unless it is asked for a GPU that the adapter does not know.
    wanted = {"gpu_name": ["any"]} if name == "vast" else {}
    items = provider.get(query_filter=hunt.QueryFilter(min_gpu_count=1, **wanted))
    if not items:
        raise NoPricesError("it answered without any offer")
    rows = tuple((line, tuple(_cells(item))) for line, item in enumerate(items, 2))
    table = CsvTable(f"answer of {name}", _ITEM_COLUMNS, rows)
    return Fetched(name, catalog_of(table, GPUHUNT, name, datetime.date.today()))


def _job_flavors() -> Fetched:
    """Return Hugging Face's machines for jobs, which its own package lists."""
    try:
        import huggingface_hub
    except ImportError:
        raise NoPricesError("huggingface_hub, which lists its machines, is not installed") from None
    if not hasattr(huggingface_hub, "list_jobs_hardware"):
        raise NoPricesError(f"huggingface_hub {huggingface_hub.__version__} lists no machines; install a newer one")
    document = parse_json(json.dumps(plain_flavors(huggingface_hub.list_jobs_hardware())), f"answer of {JOBS}", "")
    return Fetched(JOBS, catalog_of(flavors_table(document), JOB_FLAVORS, JOBS, datetime.date.today()))


def _cells(item: Any) -> Iterator[str]:
    """Yield the cells of an offer of gpuhunt, as its files have them."""
    for column in _ITEM_COLUMNS:
        value = getattr(item, column, None)
        yield "" if value is None else str(getattr(value, "value", value))


# An update of the price book from the providers: each for itself, so that one that fails keeps its old prices.


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
    asked = [provider_name(name) for name in wanted]
    fetched = fetch_prices(wanted, {} if force else _versions(stored, asked), timeout_seconds)
    if not wanted:
        fetched = [update for update in fetched if not update.why_not.endswith(_NO_KEY)]
    several = [tier for update in fetched for tier in _by_tier(update, asked)]
    updates = PriceUpdate(providers=tuple(_stored(update, stored, now, force) for update in several))
    if all(provider.why_not for provider in updates.providers):
        raise InputError(_faults(updates.providers))
    return updates


def _faults(failed: Sequence[ProviderUpdate]) -> list[Fault]:
    """Return why nothing was updated: of each provider, or once where none of several can be reached."""
    if len(failed) > 1 and all(update.why_not.endswith(UNREACHABLE) for update in failed):
        fix = "check the network, or read a file: planner prices update --offline FILE; what is stored stays"
        return [Fault("prices update", 0, "", f"none of the {len(failed)} providers can be reached", fix)]
    return [Fault(update.provider, 0, "", f"not updated: {update.why_not}", _kept(update)) for update in failed]


_NO_KEY = "environment variable"
"""End of gpuhunt's message about a provider whose key is not set."""


def _newest_days() -> dict[str, tuple[datetime.date, StoredDay]]:
    """Return the newest day of each provider in the book; one whose list is damaged has none."""
    newest = {}
    for provider in book_providers(book_folder()):
        try:
            days = read_meta(book_folder() / provider).days
        except InputError:
            continue
        if days:
            newest[provider] = (max(days), days[max(days)])
    return newest


def _asked_tiers(provider: str, asked: Sequence[str]) -> list[str]:
    """Return the providers under which the prices of one are stored: its tiers, or those of them that are asked for."""
    tiers = list(tiers_of(provider).values())
    return [tier for tier in tiers if tier in asked and provider not in asked] or tiers or [provider]


def _versions(stored: dict[str, tuple[datetime.date, StoredDay]], asked: Sequence[str]) -> dict[str, str | None]:
    """Return which state is stored of each provider: of one that sells tiers, the one that all of them have."""
    versions: dict[str, str | None] = {}
    for provider in {seller_of(name) for name in stored}:
        days = [stored.get(tier) for tier in _asked_tiers(provider, asked)]
        states = {day[1].version if day else None for day in days}
        versions[provider] = states.pop() if len(states) == 1 else None
    return versions


def _by_tier(fetched: Fetched, asked: Sequence[str]) -> list[Fetched]:
    """Return what a provider has, by the tiers that are asked for; one that sells no tiers as it is."""
    names = _asked_tiers(fetched.provider, asked)
    if names == [fetched.provider] or (fetched.catalog is None and not {*names} & {*book_providers(book_folder())}):
        return [fetched]
    if fetched.catalog is None:
        return [Fetched(name, None, fetched.version, fetched.why_not) for name in names]
    by_tier = []
    for name in names:
        offers = tuple(offer for offer in fetched.catalog.offers if offer.provider == name)
        catalog = replace(fetched.catalog, offers=offers) if offers else None
        by_tier.append(Fetched(name, catalog, fetched.version, "" if offers else "it answered without any offer"))
    return by_tier


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
            why_not = "; ".join(f"{fault.what}; {fault.fix}" for fault in error.faults)
    day = stored[name][0] if name in stored else None
    age = (now.date() - day).days if day else None
    return ProviderUpdate(provider=name, read=read, why_not=why_not, stands=day, age_days=age)


def _kept(one: ProviderUpdate) -> str:
    return f"its prices of {one.stands} stay, {one.age_days} days old" if one.stands else "none are stored"
