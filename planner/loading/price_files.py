"""Files of prices: inventory files, CSV files of offers, and the price book, one file per provider and day."""

from __future__ import annotations

import datetime
import hashlib
import math
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import Field, ValidationError
from pydantic_core import PydanticCustomError

from planner.documents.files import Document, Marks, data_folder, read_shipped, read_text
from planner.documents.quantities import Currency, Date, StrictModel, Text, WholeNumber, parse_date
from planner.documents.tables import MAX_CSV_BYTES, CsvTable, csv_text, first_faults, parse_csv, read_json, short_column
from planner.documents.validation import SYNONYMS, Source, suggest_names, validate_spelled, validation_complaints
from planner.errors import Fault, InputError, KeyPath, collect_faults, format_value
from planner.library.names import known_host, known_interconnect
from planner.library.reading import CardNames
from planner.loading.name_resolution import resolve_offer_names
from planner.scenario.offer import FEES, Offer, Terms, fees_that_count, offer_data

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence


# Inventory files: offers with a date and a currency, and the terms of each provider.


class InventoryFile(StrictModel):
    """An inventory as written; its offers are validated one by one, with the terms of their provider."""

    date: Date | None = None
    currency: Currency = "USD"
    description: str = ""
    notes: str = ""
    source: str = ""
    sources: dict[str, str] = Field(default_factory=dict)  # short key -> text, for `source: KEY`
    terms: dict[str, Terms] = Field(default_factory=dict)  # by provider
    offers: list[Any] = Field(min_length=1)


def read_offers(document: Document, faults: list[Fault]) -> tuple[Offer, ...]:
    """Return the offers of an inventory file with their terms, aliases resolved; faults are added to `faults`."""
    source = Source(document.file, document)
    data = document.data
    if "offers" not in data:  # perhaps a file of passwords: nothing of it is shown
        faults.append(source.fault((), "is not an inventory: it has no offers", "give a file with currency and offers"))
        return ()
    data = {**data, "offers": resolve_offer_names(data["offers"], CardNames("gpus"), source, faults)}
    bad: set[str | int] = set()
    try:
        InventoryFile.model_validate(data)
    except ValidationError as error:
        complaints = validation_complaints(error, InventoryFile, data)
        bad = {path[0] for path, _, _ in complaints if path}
        faults.extend(source.faults(complaints))
    header = {key: value for key, value in data.items() if key not in bad}  # offers must not inherit a fault
    raw = data.get("offers")
    return validate_offers(raw, source, faults, header) if isinstance(raw, list) else ()


def validate_offers(
    raw: list[Any], source: Source, faults: list[Fault], header: dict[str, Any] | None = None
) -> tuple[Offer, ...]:
    """Return the valid offers of a list under the key `offers`; the faults of the others are added."""
    header = header or {}
    terms = header.get("terms", {})
    offers = []
    for index, written in enumerate(raw):
        filled = _fill_terms(written, header, terms)
        try:
            offers.append(validate_spelled(Offer, filled))
        except ValidationError as error:
            for path, what, fix in validation_complaints(error, Offer, filled):
                faults.append(source.fault(_origin(path, index, written, terms), what, fix))
    return mark_price_lag(date_by_source(offers))


def _fill_terms(written: Any, header: dict[str, Any], terms: dict[str, Any]) -> Any:
    """Return the offer with the terms of its provider and the header of the file.

    Fees of machine hours in the terms are those of the provider's machines: a managed service has none.
    """
    if not isinstance(written, dict):
        return written
    provider = written.get("provider")
    common = terms.get(provider, {}) if isinstance(provider, str) else {}
    filled = {**common, **written}
    for block in ("billing", "fees"):  # an offer may differ in one fee; spot statistics belong together
        if isinstance(common.get(block), dict) and isinstance(written.get(block), dict):
            filled[block] = {**common[block], **written[block]}
    if written.get("managed") is not None and isinstance(filled.get("fees"), dict):
        hourly = {fee.key for fee in fees_that_count("machine hours")} - set(written.get("fees", {}))
        filled["fees"] = {key: value for key, value in filled["fees"].items() if key not in hourly}
    return _fill_origin(with_known_machine(filled), written, header)


def with_known_machine(offer: dict[str, Any]) -> dict[str, Any]:
    """Return the keys of an offer with what is known of its machine by name, where it does not state it itself.

    These are the link between its GPUs, and the cores and memory of the host.
    The values may be of any type: they are validated afterwards.
    """
    provider, instance, gpu, gpus = (offer.get(key) for key in ("provider", "instance", "gpu", "gpus"))
    if not isinstance(provider, str) or not isinstance(gpu, str) or type(gpus) is not int:
        return offer
    name = str(instance or "")
    known: dict[str, Any] = {}
    if name and gpus > 1 and (link := known_interconnect(provider, name)):
        known["interconnect"] = link
    if (host := known_host(provider, name, gpu, gpus)) is not None:
        known |= host._asdict()
    return {**known, **offer} if known else offer


# What the shipped list knows of providers and instance types, for lists that state prices alone.


class _ShippedFacts(NamedTuple):
    """Terms of providers, and facts of machines that do not depend on their region."""

    terms: dict[str, dict[str, Any]]
    machines: dict[tuple[Any, ...], dict[str, Any]]  # by provider, instance, GPU and their number
    zones: dict[tuple[Any, ...], tuple[float, Any]]  # by machine and region: the spot price, and that of each zone
    gpus: dict[tuple[str, str], str]  # by provider and instance type


_FACTS_OF_MACHINES = (
    *("max_nodes", "network_gbps", "interconnect", "billing", "fees", "spot", "spot_notice_seconds", "community"),
    *("disk_gb_per_second", "download_gb_per_second", "cpu_cores", "ram_gb"),
)
_TERMS_OF_PROVIDERS = tuple(name for name in _FACTS_OF_MACHINES if name in Terms.model_fields)
SAME_PRICE = 0.005
"""Largest relative difference between two spot prices that are taken as one."""


@cache
def _read_shipped_facts(scenarios: Path) -> _ShippedFacts:
    document = read_shipped(scenarios / "inventory" / "market.yaml")
    faults: list[Fault] = []
    offers = [
        offer for offer in read_offers(document, faults) if offer.rents_gpus and offer.tier in ("secure", "community")
    ]
    terms = {
        provider: {key: value for key, value in written.items() if key in _TERMS_OF_PROVIDERS}
        for provider, written in document.data.get("terms", {}).items()
    }
    several: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    zones: dict[tuple[Any, ...], tuple[float, Any]] = {}
    for offer in offers:
        data, key = offer_data(offer), _machine_name(offer.provider, offer.instance, offer.gpu, offer.gpus)
        several.setdefault(key, []).append({name: data[name] for name in _FACTS_OF_MACHINES if name in data})
        if offer.zones and offer.spot_usd_per_hour is not None:
            zones[(*key, offer.region)] = (offer.spot_usd_per_hour, offer.zones)
    machines = {
        key: {name: value for name, value in rows[0].items() if all(row.get(name) == value for row in rows)}
        for key, rows in several.items()
    }
    gpus: dict[tuple[str, str], set[str]] = {}
    for provider, instance, gpu, _ in machines:
        gpus.setdefault((provider, instance), set()).add(gpu)
    return _ShippedFacts(terms, machines, zones, {key: names.pop() for key, names in gpus.items() if len(names) == 1})


def _machine_name(provider: Any, instance: Any, gpu: Any, gpus: Any) -> tuple[Any, ...]:
    return provider, str(instance).casefold(), gpu, gpus


def with_shipped_facts(row: Row) -> Row:
    """Return the keys of an offer with what the shipped list knows of its provider and machine, where it states none.

    These are the billing step, fees and terms of the provider, and of the instance type the link between machines,
    the most of them, cores and memory. Zones are added where the spot price is that of the shipped list.
    """
    facts = _read_shipped_facts(data_folder("scenarios"))
    provider, key = row.get("provider"), _shipped_machine(row)
    known = {**facts.terms.get(str(provider), {}), **facts.machines.get(key, {})}
    filled = {**known, **row}
    for block in ("billing", "fees"):
        if isinstance(known.get(block), dict) and isinstance(row.get(block), dict):
            filled[block] = {**known[block], **row[block]}
    spot = row.get("spot_usd_per_hour")
    usd, zones = facts.zones.get((*key, row.get("region", "any")), (0.0, None))
    if zones is not None and "zones" not in row and isinstance(spot, float) and abs(spot - usd) <= SAME_PRICE * usd:
        filled["zones"] = zones
    return with_known_machine(filled)


def _shipped_machine(row: Row) -> tuple[Any, ...]:
    """Return the name of a machine in the shipped list: its instance type, or the GPUs of a pod (`2x-l4`)."""
    machines = _read_shipped_facts(data_folder("scenarios")).machines
    provider, gpu, gpus = (row.get(key) for key in ("provider", "gpu", "gpus"))
    name = _machine_name(provider, row.get("instance", ""), gpu, gpus)
    pod = _machine_name(provider, f"{gpus}x-{gpu}", gpu, gpus)
    return pod if name not in machines and pod in machines else name


def is_shipped_machine(row: Row) -> bool:
    """Whether the shipped list has a machine, in any region."""
    return _shipped_machine(row) in _read_shipped_facts(data_folder("scenarios")).machines


def shipped_gpu(provider: str, instance: str) -> str | None:
    """Return the GPU that the shipped list gives an instance type; None where it has none of that name."""
    return _read_shipped_facts(data_folder("scenarios")).gpus.get((provider, instance.casefold()))


def shipped_beside_prices(providers: Collection[str]) -> tuple[Offer, ...]:
    """Return the shipped offers of providers that no price list by the hour has: commitments, machines without GPU."""
    faults: list[Fault] = []
    offers = read_offers(read_shipped(data_folder("scenarios") / "inventory" / "market.yaml"), faults)
    return tuple(
        offer for offer in offers if offer.provider in providers and (offer.is_cpu or offer.tier == "committed")
    )


def _fill_origin(filled: dict[str, Any], written: dict[str, Any], header: dict[str, Any]) -> dict[str, Any]:
    """Return the offer with day and source: its own, else those of its provider, else those of the file."""
    if {"date", "dates"} & written.keys():  # what the offer says of its day replaces what its provider says
        for key in {"date", "dates"} - written.keys():
            filled.pop(key, None)
    for key in ("date", "source"):
        if key == "date" and "dates" in filled:
            continue
        if key not in filled and isinstance(header.get(key), str):
            filled[key] = header[key]
    sources = header.get("sources")
    if isinstance(sources, dict) and isinstance(filled.get("source"), str):
        filled["source"] = sources.get(filled["source"], filled["source"])
    return filled


def _origin(path: KeyPath, index: int, written: Any, terms: dict[str, Any]) -> KeyPath:
    """Return where the value was written: in the offer, or in the terms of its provider."""
    if path and isinstance(written, dict) and path[0] not in written:
        provider = written.get("provider")
        if path[0] in terms.get(str(provider), {}):
            return ("terms", str(provider), *path)
    return ("offers", index, *path)


def date_by_source(offers: Sequence[Offer]) -> tuple[Offer, ...]:
    """Return the new offers of one file, each undated price of a rental as old as the oldest of its source."""
    oldest: dict[str, datetime.date] = {}
    for offer in offers:
        if offer.first_date is not None:
            oldest[offer.source] = min(offer.first_date, oldest.get(offer.source, offer.first_date))
    for offer in offers:
        if offer.first_date is None and offer.own is None and offer.buy is None:
            offer._day_of_source = oldest.get(offer.source)
    return tuple(offers)


def mark_price_lag(offers: Sequence[Offer]) -> tuple[Offer, ...]:
    """Return the offers of a scenario, each with the days by which it is older than the newest of its provider.

    A window counts with its last day here: a price is left out only if it is surely that old.
    """
    newest: dict[str, datetime.date] = {}
    days = [offer.last_date or offer.first_date for offer in offers]
    for offer, day in zip(offers, days, strict=True):
        if day is not None:
            newest[offer.provider] = max(day, newest.get(offer.provider, day))
    marked = []
    for offer, day in zip(offers, days, strict=True):
        behind = 0 if day is None else (newest[offer.provider] - day).days
        if behind != offer.days_behind:
            offer = offer.model_copy()  # the same offer may stand in another scenario beside other ones
            offer._days_behind = behind
        marked.append(offer)
    return tuple(marked)


# CSV files of offers: a header with the names of an offer's keys, one instance type per row.


MAX_FILE_OFFERS = 75_000
"""Most offers of one file: that many are read in 10 s and 500 MB at most."""
_NUMBERS = ("usd_per_hour", "spot_usd_per_hour", "cpu_cores", "ram_gb", "network_gbps", "lead_hours")
_COUNTS = ("gpus", "stock", "max_nodes")
TABLE_COLUMNS = (
    *("provider", "region", "instance", "gpu", "gpus", "usd_per_hour", "spot_usd_per_hour", "cpu_cores", "ram_gb"),
    *("stock", "stock_status", "lead_hours", "max_nodes", "interconnect", "network_gbps", "community", "currency"),
    *("date", "source", "notes"),
)
"""Columns of a CSV file of offers, which are keys of an offer; `gpu`, `gpus` and a price are needed."""
_BLOCKS: Mapping[str, tuple[str, str]] = {
    **{fee.key: ("fees", fee.key) for fee in FEES},
    "billing_step_seconds": ("billing", "step_seconds"),
    "billing_minimum_hours": ("billing", "minimum_hours"),
}
"""Columns that a file may have besides: each is a key of the fees, or of the billing, of an offer."""
_TERM_COLUMNS = ("spot_notice_seconds", "disk_gb_per_second", "download_gb_per_second", "zones")
_MORE_COLUMNS = (*_BLOCKS, *_TERM_COLUMNS)
"""Columns that a file may have besides, and that are written where an offer states them."""

Row = dict[str, Any]
"""The keys of an offer as plain data."""


def read_offer_rows(table: CsvTable, defaults: Mapping[str, Any], faults: list[Fault]) -> list[tuple[int, Row]]:
    """Return the line and the keys of each row, GPU names as written; an empty cell has the default or is left out.

    Faults of the header and of cells that are no number, date or truth value are added to `faults`.
    """
    header = _header_faults(table, defaults)
    if header:
        faults += header
        return []
    readers = [(column, _READERS.get(column)) for column in table.columns]
    rows: list[tuple[int, Row]] = []
    for line, cells in table.rows:
        if len(rows) >= MAX_FILE_OFFERS:
            faults.append(too_many_offers(table.file, line))
            break
        row: Row = dict(defaults)
        before = len(faults)
        for (column, read), cell in zip(readers, cells, strict=True):
            if cell:
                try:
                    value = read(cell) if read else cell
                    block, key = _BLOCKS.get(column, ("", column))
                    row |= {block: {**row.get(block, {}), key: value}} if block else {column: value}
                except ValueError as error:
                    fix = _HOW_TO_WRITE.get(column, "write a plain number: the name of the column has the unit")
                    faults.append(Fault(table.file, line, column, str(error), fix))
        if len(faults) == before:
            rows.append((line, row))
    return rows


def too_many_offers(file: str, line: int) -> Fault:
    """Return the fault of a file whose row on this line is one more than `MAX_FILE_OFFERS`."""
    fix = "keep the regions and GPUs that you can rent, or split the file"
    return Fault(file, line, "", f"more than {MAX_FILE_OFFERS:,} offers", fix)


def validated_offers(rows: Iterable[tuple[int, Row]], file: str, faults: list[Fault]) -> tuple[Offer, ...]:
    """Return the offers of rows; a row with a fault, or of the same machine as another one, is added to `faults`."""
    offers: list[Offer] = []
    seen: dict[tuple[Any, ...], int] = {}
    for line, row in rows:
        try:
            offer = validate_spelled(Offer, row)
        except ValidationError as error:
            for path, what, fix in validation_complaints(error, Offer, row):
                faults.append(Fault(file, line, ".".join(map(str, path)), what, fix))
            continue
        first = seen.setdefault(machine_key(offer), line)
        if first != line:
            what = f"the same machine as on line {first}"
            faults.append(Fault(file, line, offer.label, what, "keep one of them, or name the instances apart"))
            continue
        offers.append(offer)
    return mark_price_lag(date_by_source(offers))


def machine_key(offer: Offer) -> tuple[Any, ...]:
    """Return what distinguishes the machines of a price list."""
    return (
        *(offer.provider, offer.region, offer.instance, offer.gpu, offer.gpus),
        *(offer.cpu_cores, offer.ram_gb, offer.community, offer.interconnect),
    )


def read_offer_table(table: CsvTable, faults: list[Fault]) -> tuple[Document, tuple[Offer, ...]]:
    """Return the offers of a CSV file that a scenario names, and their lines; faults are added to `faults`."""
    table_faults: list[Fault] = []
    rows = read_offer_rows(table, {}, table_faults)
    canonical = card_finder(CardNames("gpus"))
    known = []
    for line, row in rows:
        card, suggestion = canonical(row["gpu"]) if "gpu" in row else (None, "")
        if card is None and "gpu" in row:
            table_faults.append(Fault(table.file, line, "gpu", f"unknown GPU {row['gpu']!r}", suggestion))
        else:
            known.append((line, with_known_machine(row | ({"gpu": card} if card else {}))))
    offers = validated_offers(known, table.file, table_faults)
    faults += first_faults(sorted(dict.fromkeys(table_faults)))
    marks = Marks(1, {index: Marks(line) for index, (line, _) in enumerate(rows)})
    return Document(table.file, {}, Marks(1, {"offers": marks})), offers


def card_finder(names: CardNames) -> Callable[[str], tuple[str | None, str]]:
    """Return a function from a GPU as written to its name, and what may have been meant where there is none."""

    @cache
    def find(wanted: str) -> tuple[str | None, str]:
        card = names.canonical(wanted)
        return card, "" if card else names.suggestion(wanted)

    return find


def offer_table_text(offers: Iterable[Offer]) -> str:
    """Return offers as the text of a CSV file that `read_offer_table` reads."""
    rows = [offer_data(offer) for offer in offers]
    more = [column for column in _MORE_COLUMNS if any(_more_cell(row, column) is not None for row in rows)]
    cells = ([*map(row.get, TABLE_COLUMNS), *(_more_cell(row, column) for column in more)] for row in rows)
    return csv_text([(*TABLE_COLUMNS, *more), *cells])


def _more_cell(row: Row, column: str) -> Any:
    """Return what stands in a column besides those of `TABLE_COLUMNS`; None where the offer does not state it."""
    block, key = _BLOCKS.get(column, ("", column))
    value = row.get(block, {}).get(key) if block else row.get(key)
    return " ".join(f"{zone}={usd:.10g}" for zone, usd in value.items()) if column == "zones" and value else value


def _zones(cell: str) -> dict[str, float]:
    """Return the spot price of each zone of a cell such as `use1-az1=2.10 use1-az4=2.35`."""
    pairs = [part.rpartition("=") for part in cell.split()]
    if not all(zone for zone, _, _ in pairs):
        raise ValueError(f"{format_value(cell)} is no list of zones")
    return {zone: parse_number(usd) for zone, _, usd in pairs}


_OTHER_UNIT = re.compile(r"month|week|year|per_gpu|gpu_hour")
"""Of a column whose prices are not those of a machine and hour."""


def _header_faults(table: CsvTable, defaults: Mapping[str, Any]) -> list[Fault]:
    faults = []
    for name in table.columns:
        if name not in (*TABLE_COLUMNS, *_MORE_COLUMNS):
            meant = SYNONYMS.get(name.casefold().replace(" ", "_"), "")
            close = meant if meant in TABLE_COLUMNS else suggest_names(name, (*TABLE_COLUMNS, *_MORE_COLUMNS))
            fix = f"did you mean {close}?" if close else f"known columns: {', '.join(TABLE_COLUMNS)}"
            if (other := _OTHER_CURRENCY.match(name.casefold())) and other[1] != "usd":
                fix = f"convert the prices from {other[1].upper()} to USD and call the column {other[2]}usd_per_hour"
            if _OTHER_UNIT.search(name.casefold()) and "storage" not in name.casefold():
                fix = "convert the prices to dollars per machine and hour, and call the column usd_per_hour"
            faults.append(Fault(table.file, 1, short_column(name), "unknown column", fix))
    has = {*table.columns, *defaults}
    faults += [
        Fault(table.file, 1, name, "the column is missing", _HOW_TO_ADD.get(name, _ADD))
        for name in ("provider", "gpu", "gpus")
        if name not in has
    ]
    if not {"usd_per_hour", "spot_usd_per_hour"} & has:
        fix = "add usd_per_hour, dollars per instance and hour, or spot_usd_per_hour"
        faults.append(Fault(table.file, 1, "usd_per_hour", "no column has a price", fix))
    return faults


_ADD = "add it; planner offers import --template shows all"

_HOW_TO_ADD = {
    "provider": "add it, or import the file with --provider NAME; planner offers import --template shows all"
}

_OTHER_CURRENCY = re.compile(r"(?=(?:spot_)?([a-z]{3})_per_hour$)((?:spot_)?)")

_HOW_TO_WRITE = {
    "date": "write it as 2024-05-31",
    "community": "write true or false",
    "zones": "write use1-az1=2.10 use1-az4=2.35",
    **dict.fromkeys(_COUNTS, "write a whole number"),
}


def _whole_number(cell: str) -> int:
    number = parse_number(cell)
    if number != int(number):
        raise ValueError(f"{format_value(cell)} is not a whole number")
    return int(number)


def _truth(cell: str) -> bool:
    if cell.casefold() not in ("true", "false"):
        raise ValueError(f"{format_value(cell)} is not true or false")
    return cell.casefold() == "true"


@cache
def _date(cell: str) -> Any:
    try:
        return parse_date(cell)
    except PydanticCustomError:
        raise ValueError(f"{format_value(cell)} is not a date") from None


def parse_number(cell: str) -> float:
    """Return the finite number that a cell holds; ValueError with what is wrong."""
    try:
        number = float(cell)
    except ValueError:
        number = None
    if number is None or "_" in cell:
        raise ValueError(f"{format_value(cell)} is not a number")
    if not math.isfinite(number):
        raise ValueError(f"{format_value(cell)} is not a finite number")
    return number


_READERS: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys((*_NUMBERS, *_BLOCKS, *_TERM_COLUMNS), parse_number),
    "zones": _zones,
    **dict.fromkeys(_COUNTS, _whole_number),
    "date": _date,
    "community": _truth,
}
"""What reads the cells of a column; other columns are text."""


# The price book: prices that `planner prices update` stored, one CSV file per provider and day, read while planning.
#
# `prices/<provider>/<date>.csv` has the offers, `prices/<provider>/meta.json` the source, time, rows and SHA-256 of
# each.


META = "meta.json"
"""File of a provider's folder that lists its days."""
FILL_BOOK = "fill it: planner prices update, or planner prices update --offline FILE"
_REPAIR = "store the prices of that day again with planner prices update --force"


class StoredDay(StrictModel):
    """What is known of the stored prices of one day."""

    source: Text
    stored: Text  # time of storing, ISO 8601 with zone
    rows: WholeNumber
    sha256: Text
    replaces: str | None = None  # SHA-256 of the file that stood here before
    version: str | None = None  # what the source calls this state, by which it tells whether there is a newer one


class BookMeta(StrictModel):
    """The days of one provider."""

    version: WholeNumber = 1
    days: dict[Date, StoredDay]


def book_folder() -> Path:
    """Return the folder of the price book."""
    return cache_folder("prices")


def cache_folder(part: str) -> Path:
    """Return a folder below the user's cache folder."""
    import platformdirs  # only where something is kept

    return Path(platformdirs.user_cache_path("finetune-planner", appauthor=False)) / part


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
        complaints = validation_complaints(error, BookMeta, data)
        raise InputError(Source(str(path), document).faults(complaints)) from None


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
    day = max((day for day in days if first <= day <= last), default=None)
    return None if day is None else (day, read_day(folder, day, days[day])[1])


def read_last_days(provider: str, most: int) -> list[tuple[datetime.date, tuple[Offer, ...]]]:
    """Return the prices of a provider on its last `most` stored days, the oldest first."""
    folder = book_folder() / provider
    days = read_meta(folder).days
    return [(day, read_day(folder, day, days[day])[1]) for day in sorted(days)[-most:]]


def read_price_book(providers: Collection[str] | None = None) -> list[tuple[Source, tuple[Offer, ...]]]:
    """Return the newest prices of each provider; `InputError` with every fault, or where nothing is stored."""
    root = book_folder()
    sources: list[tuple[Source, tuple[Offer, ...]]] = []
    faults: list[Fault] = []
    for provider in book_providers(root):
        if providers is not None and provider not in providers:
            continue
        with collect_faults(faults):
            days = read_meta(root / provider).days
            if days:
                newest = max(days)
                document, offers = read_day(root / provider, newest, days[newest])
                sources.append((Source(document.file, document), offers))
    if faults:
        raise InputError(faults)
    if not sources:
        raise InputError([Fault(str(root), 0, "", "the price book is empty", FILL_BOOK)])
    return sources
