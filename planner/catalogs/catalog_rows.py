"""What the readers of catalogs share: rows that are read, rows that are left out by reason, faults of cells."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from planner.errors import Fault
from planner.library.machines import provider_name, unsold_type
from planner.loading.offer_table import MAX_FILE_OFFERS, Row, parse_number, too_many_offers

if TYPE_CHECKING:
    from planner.documents.csv_table import CsvTable

Cells = Mapping[str, str]
"""The cells of a row by column."""


@dataclass
class LeftOut:
    """Rows that are left out for one reason: how many, and the line of the first."""

    rows: int
    line: int


PRICE_KEYS = ("usd_per_hour", "spot_usd_per_hour")


@dataclass
class CatalogRows:
    """The machines of a catalog as offers to be validated, and what became of the other rows."""

    table: CsvTable
    machines: dict[tuple[Any, ...], tuple[int, Row]] = field(default_factory=dict)
    left_out: dict[str, LeftOut] = field(default_factory=dict)
    notes: dict[str, int] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)

    def add(self, line: int, row: Row) -> None:
        """Add a row with one or both of its prices; a row of the same machine adds the price that is missing.

        Of two prices the higher one is kept: the lower one may not be to be had. All rows of a catalog have the same
        keys in the same order, so that their values tell machines apart.
        """
        prices = {key: price for key in PRICE_KEYS if (price := row.pop(key, None)) is not None}
        if not prices:
            self.leave_out(line, "no price (empty or 0.00)")
            return
        machine = tuple(value for key, value in row.items() if key != "notes")
        if machine not in self.machines:
            stated = {key: value for key, value in row.items() if value is not None and value != ""}
            self.machines[machine] = (line, stated | prices)
            return
        _, known = self.machines[machine]
        if any(key in known and known[key] != price for key, price in prices.items()):
            self.leave_out(line, "the same machine at another price: the higher one is kept")
        elif all(key in known for key in prices):
            self.leave_out(line, "a repeated row")
        known |= {key: max(price, known.get(key, 0.0)) for key, price in prices.items()}

    def offers(self) -> list[tuple[int, Row]]:
        """Return line and keys of each machine that is sold, without spot prices that are no discount."""
        return bookable(self.machines.values(), self)

    def leave_out(self, line: int, reason: str) -> None:
        """Count a row that cannot be mapped."""
        self.left_out.setdefault(reason, LeftOut(0, line)).rows += 1

    def note(self, text: str) -> None:
        """Count a row that is read in a way that the user should know."""
        self.notes[text] = self.notes.get(text, 0) + 1

    def number(self, line: int, cells: Cells, column: str) -> float | None:
        """Return the number in a cell, None where it is empty; one that is no number or negative is a fault."""
        cell = cells.get(column, "")
        if not cell:
            return None
        try:
            number = parse_number(cell)
        except ValueError as error:
            self.faults.append(Fault(self.table.file, line, column, str(error), "correct the row or leave it out"))
            return None
        if number < 0:
            self.faults.append(Fault(self.table.file, line, column, f"{cell} is negative", "it must be at least 0"))
            return None
        return number

    def price(self, line: int, cells: Cells, column: str) -> float | None:
        """Return the price in a cell; None where it is empty or 0.00, which means that it is not known."""
        return self.number(line, cells, column) or None


def bookable(rows: Iterable[tuple[int, Row]], found: CatalogRows) -> list[tuple[int, Row]]:
    """Return the rows that can be booked, each with the prices at which it can; the others are left out."""
    sold = ((line, _as_sold(line, row, found)) for line, row in rows)
    return [(line, _with_usable_spot(row, found)) for line, row in sold if row is not None]


def _as_sold(line: int, row: Row, found: CatalogRows) -> Row | None:
    """Return a row without a price on demand where its provider sells none; None where it cannot be had at all."""
    instance = str(row.get("instance", ""))
    unsold = unsold_type(provider_name(str(row.get("provider", ""))), instance)
    if unsold is None:
        return row
    if not unsold.sold_on_spot or "spot_usd_per_hour" not in row:
        found.leave_out(line, f"{instance}: {unsold.reason}")
        return None
    if "usd_per_hour" in row:
        found.note(f"{instance}: {unsold.reason}, its price on demand is left out")
    return {key: value for key, value in row.items() if key != "usd_per_hour"}


def _with_usable_spot(row: Row, found: CatalogRows) -> Row:
    """Return a row without a spot price that is no discount."""
    on_demand, spot = (row.get(key) for key in PRICE_KEYS)
    if spot is None or on_demand is None or spot < on_demand:
        return row
    found.note("spot price not below that on demand: left out, it is no discount")
    return {key: value for key, value in row.items() if key != "spot_usd_per_hour"}


def read_rows(
    table: CsvTable, needed: tuple[str, ...], kind: str, offer: Callable[[int, Cells, CatalogRows], Row | None]
) -> CatalogRows:
    """Return the rows of a catalog, each read by `offer` (None: left out), or a fault for each missing column."""
    found = CatalogRows(table, faults=check_columns(table, needed, kind))
    if found.faults:
        return found
    for line, values in table.rows:
        if len(found.machines) >= MAX_FILE_OFFERS:
            found.faults.append(too_many_offers(table.file, line))
            break
        row = offer(line, dict(zip(table.columns, values, strict=True)), found)
        if row is not None:
            found.add(line, row)
    return found


def check_columns(table: CsvTable, needed: tuple[str, ...], kind: str) -> list[Fault]:
    """Return a fault for each column that a catalog of this kind needs and the file has not."""
    has = ", ".join(table.columns)
    return [
        Fault(table.file, 1, name, f"a {kind} without this column", f"it has {has[:200]}")
        for name in needed
        if name not in table.columns
    ]


def whole_gpus(found: CatalogRows, line: int, count: float | None) -> int | None:
    """Return the number of GPUs of a row; None, and the row left out, where it has none or a part of one."""
    if not count:
        found.leave_out(line, "no GPU")
        return None
    if count != int(count):
        found.leave_out(line, "a fraction of a GPU")
        return None
    return int(count)
