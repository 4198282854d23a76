"""CSV files of offers: a header with the names of an offer's keys, one instance type per row."""

from __future__ import annotations

import math
import re
from functools import cache
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError
from pydantic_core import PydanticCustomError

from planner.documents.csv_table import CsvTable, csv_text, first_faults, short_column
from planner.documents.quantities import format_value, parse_date
from planner.documents.strict_yaml import Document, Marks
from planner.documents.validation import SYNONYMS, suggest_names, validate_spelled, validation_complaints
from planner.errors import Fault
from planner.library.reading import CardNames
from planner.loading.inventory_file import date_by_source, mark_price_lag, with_known_machine
from planner.scenario.offer import Offer, offer_data

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

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
                    row[column] = read(cell) if read else cell
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
    found: list[Fault] = []
    rows = read_offer_rows(table, {}, found)
    canonical = card_finder(CardNames("gpus"))
    known = []
    for line, row in rows:
        card, suggestion = canonical(row["gpu"]) if "gpu" in row else (None, "")
        if card is None and "gpu" in row:
            found.append(Fault(table.file, line, "gpu", f"unknown GPU {row['gpu']!r}", suggestion))
        else:
            known.append((line, with_known_machine(row | ({"gpu": card} if card else {}))))
    offers = validated_offers(known, table.file, found)
    faults += first_faults(sorted(dict.fromkeys(found)))
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
    cells = ([offer_data(offer).get(column) for column in TABLE_COLUMNS] for offer in offers)
    return csv_text([TABLE_COLUMNS, *cells])


def _header_faults(table: CsvTable, defaults: Mapping[str, Any]) -> list[Fault]:
    faults = []
    for name in table.columns:
        if name not in TABLE_COLUMNS:
            meant = SYNONYMS.get(name.casefold().replace(" ", "_"), "")
            close = meant if meant in TABLE_COLUMNS else suggest_names(name, TABLE_COLUMNS)
            fix = f"did you mean {close}?" if close else f"known columns: {', '.join(TABLE_COLUMNS)}"
            if (other := _OTHER_CURRENCY.match(name.casefold())) and other[1] != "usd":
                fix = f"convert the prices from {other[1].upper()} to USD and call the column {other[2]}usd_per_hour"
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
    **dict.fromkeys(_NUMBERS, parse_number),
    **dict.fromkeys(_COUNTS, _whole_number),
    "date": _date,
    "community": _truth,
}
"""What reads the cells of a column; other columns are text."""
