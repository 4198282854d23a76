"""Prices of today through gpuhunt, one timeout for each provider, and an update of the price book from them.

gpuhunt publishes the catalogs of some providers (a version and a zip with a CSV each), and has an adapter for the
interfaces of others, which it queries. Both arrive here as the same table. gpuhunt's own loader waits for ever and
loads every provider, so the published files are fetched one by one. Hugging Face's machines for jobs come from its
own package.
"""

from __future__ import annotations

import datetime
import importlib
import io
import json
import logging
import os
import re
import threading
import time
import zipfile
from contextlib import contextmanager
from dataclasses import field, replace
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from planner.catalogs.catalog import GPUHUNT, JOB_FLAVORS, Catalog, catalog_of, summary_of
from planner.catalogs.price_updates import update_book
from planner.catalogs.skypilot import PROVIDER as JOBS
from planner.catalogs.skypilot import flavors_table, plain_flavors
from planner.documents.tables import MAX_CSV_BYTES, CsvTable, parse_csv, parse_json
from planner.documents.validation import find_name, name_fix
from planner.errors import Fault, InputError
from planner.library.known_machines import provider_name, seller_of, tiers_of
from planner.loading.price_files import StoredDay, book_folder, book_providers, read_meta
from planner.records import record
from planner.results.market_results import PriceUpdate, ProviderUpdate

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


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


@record(frozen=True)
class Fetched:
    """The prices of one provider; without a catalog why there is none, or nothing where there is none newer."""

    provider: str
    catalog: Catalog | None = None
    version: str | None = None
    why_not: str = ""


class NoPricesError(Exception):
    """Why a provider gave no prices, in words."""


@record(frozen=True)
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
        found = []
        for name, answer in jobs:
            try:
                found.append(answer.get(timeout=max(deadline - time.monotonic(), 0.001)))
            except Empty:
                found.append(Fetched(name, why_not=f"no answer within {timeout_seconds:g} s"))
    return found


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
    several = [one for update in fetched for one in _by_tier(update, asked)]
    found = PriceUpdate(providers=tuple(_stored(update, stored, now, force) for update in several))
    if all(provider.why_not for provider in found.providers):
        raise InputError(_faults(found.providers))
    return found


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
    found = {}
    for provider in book_providers(book_folder()):
        try:
            days = read_meta(book_folder() / provider).days
        except InputError:
            continue
        if days:
            found[provider] = (max(days), days[max(days)])
    return found


def _asked_tiers(provider: str, asked: Sequence[str]) -> list[str]:
    """Return the providers under which the prices of one are stored: its tiers, or those of them that are asked for."""
    tiers = list(tiers_of(provider).values())
    return [tier for tier in tiers if tier in asked and provider not in asked] or tiers or [provider]


def _versions(stored: dict[str, tuple[datetime.date, StoredDay]], asked: Sequence[str]) -> dict[str, str | None]:
    """Return which state is stored of each provider: of one that sells tiers, the one that all of them have."""
    found: dict[str, str | None] = {}
    for provider in {seller_of(name) for name in stored}:
        days = [stored.get(tier) for tier in _asked_tiers(provider, asked)]
        states = {day[1].version if day else None for day in days}
        found[provider] = states.pop() if len(states) == 1 else None
    return found


def _by_tier(fetched: Fetched, asked: Sequence[str]) -> list[Fetched]:
    """Return what a provider has, by the tiers that are asked for; one that sells no tiers as it is."""
    names = _asked_tiers(fetched.provider, asked)
    if names == [fetched.provider] or (fetched.catalog is None and not {*names} & {*book_providers(book_folder())}):
        return [fetched]
    if fetched.catalog is None:
        return [Fetched(name, None, fetched.version, fetched.why_not) for name in names]
    found = []
    for name in names:
        offers = tuple(offer for offer in fetched.catalog.offers if offer.provider == name)
        catalog = replace(fetched.catalog, offers=offers) if offers else None
        found.append(Fetched(name, catalog, fetched.version, "" if offers else "it answered without any offer"))
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
            why_not = "; ".join(f"{fault.what}; {fault.fix}" for fault in error.faults)
    day = stored[name][0] if name in stored else None
    age = (now.date() - day).days if day else None
    return ProviderUpdate(provider=name, read=read, why_not=why_not, stands=day, age_days=age)


def _kept(one: ProviderUpdate) -> str:
    return f"its prices of {one.stands} stay, {one.age_days} days old" if one.stands else "none are stored"
