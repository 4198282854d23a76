"""Tables (CSV) and JSON as plain data, each value with its place in the file."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections import Counter
from dataclasses import dataclass, field
from json.decoder import WHITESPACE, scanstring  # type: ignore[attr-defined]
from typing import TYPE_CHECKING, Any

from planner.documents.files import MAX_DIGITS, file_name, read_text
from planner.errors import Fault, InputError, KeyPath, printable, short_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path


# CSV files with a header to rows of text, each with its line; what is cut off or uneven is a fault.


MAX_CSV_BYTES = 100 * 2**20
"""Largest CSV file that is read: several times the largest catalog of a provider."""
MAX_CSV_COLUMNS, MAX_CSV_CELLS = 1_000, 3_000_000
"""Most columns and cells that are read: ten times what the largest catalog has, read in 10 s and 500 MB at most."""
MAX_ROW_FAULTS = 20
"""Most faults of one CSV file that are reported one by one."""


@dataclass(frozen=True)
class CsvTable:
    """A CSV file as text: the names of its columns, and each row with the line on which it ends."""

    file: str
    columns: tuple[str, ...]
    rows: tuple[tuple[int, tuple[str, ...]], ...]

    def position(self, column: str) -> int | None:
        """Return the position of a column, None where the file has none of that name."""
        return self.columns.index(column) if column in self.columns else None


_FORMULA = re.compile("'*[=+\\-@\t\r\uff1d\uff0b\uff0d\uff20]")
"""The beginning of a text that a spreadsheet computes, or that was quoted so that it does not."""


def csv_text(rows: Iterable[Iterable[object]]) -> str:
    """Return rows as the text of a CSV file: the one place where cells are written.

    A text that a spreadsheet would compute as a formula begins with an apostrophe, which `parse_csv` takes off again;
    numbers stay. None is an empty cell; truth values are `true` and `false`.
    """
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerows([_cell(value) for value in row] for row in rows)
    return stream.getvalue()


def _cell(value: object) -> object:
    """Return a value as it stands in a cell."""
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str):
        return value
    try:
        float(value)
    except ValueError:
        return f"'{value}" if _FORMULA.match(value) else value
    return value


def _read_cell(text: str) -> str:
    """Return a cell without white space around it and without the apostrophe of `csv_text`."""
    text = text.strip()
    return text[1:] if text[:1] == "'" and _FORMULA.match(text) else text


def read_csv(path: str | Path) -> CsvTable:
    """Parse a CSV file, `-` being standard input; `InputError` with every fault found."""
    return parse_csv(read_text(path, MAX_CSV_BYTES), file_name(path))


def parse_csv(text: str, file: str) -> CsvTable:
    """Parse the text of a CSV file with a header; `InputError` with every fault found."""
    reader = csv.reader(_lines(text), strict=True)
    columns: tuple[str, ...] | None = None
    rows: list[tuple[int, tuple[str, ...]]] = []
    faults: list[Fault] = []
    try:
        for cells in filter(any, reader):
            line = reader.line_num
            if columns is None:
                columns = tuple(cell.strip() for cell in cells)
                faults += (header := _header_faults(columns, file, line))
                if header and not 1 < len(columns) <= MAX_CSV_COLUMNS:
                    break  # the rows would only repeat it
            elif len(cells) != len(columns):
                what = f"{len(cells)} cells in a table of {len(columns)} columns"
                fix = "the file may be cut off; write one cell per column, in quotes where it has a comma"
                faults.append(Fault(file, line, "", what, fix))
            elif len(rows) * len(columns) >= MAX_CSV_CELLS:
                what = f"more than {MAX_CSV_CELLS:,} cells in rows of {len(columns)}"
                fix = "split the file, or leave out rows and columns that are not needed"
                faults.append(Fault(file, line, "", what, fix))
                break
            else:
                rows.append((line, tuple(map(_read_cell, cells))))
    except csv.Error as error:
        what = "ends inside a quoted cell" if "end of data" in str(error) else f"not CSV: {error}"
        faults.append(Fault(file, reader.line_num, "", what, "the file may be cut off; check the quotes near here"))
    if columns is None and not faults:
        faults.append(Fault(file, 1, "", "the file is empty", "give a CSV file with a header and rows"))
    elif not rows and not faults:
        faults.append(Fault(file, 1, "", "has a header and no rows", "give at least one row"))
    if faults or columns is None:
        raise InputError(first_faults(faults))
    return CsvTable(file, columns, tuple(rows))


def _lines(text: str) -> Iterator[str]:
    """Yield the lines of a text with their ends."""
    for line in re.finditer(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+\Z", text):
        yield line.group()


def short_column(name: str) -> str:
    """Return the name of a column as a fault shows it: the file may be one of passwords, of which none is shown."""
    return short_key(name.partition("=")[0])


def _other_separator(header: str) -> tuple[str, str] | None:
    """Return the fault of a table whose cells are separated by something else, as spreadsheets of many countries do."""
    name = next((name for sign, name in ((";", "semicolons"), ("\t", "tabs")) if sign in header), "")
    fix = "save it with commas between the cells and a point in numbers, such as 0.40"
    return (f"has {name} between its cells", fix) if name else None


def first_faults(faults: list[Fault]) -> list[Fault]:
    """Return the first faults of a file in the order of its lines, and one that counts the others."""
    if len(faults) <= MAX_ROW_FAULTS:
        return faults
    shown = sorted(faults)[:MAX_ROW_FAULTS]
    more = f"{len(faults) - MAX_ROW_FAULTS:,} more faults below"
    return [*shown, Fault(shown[-1].file, shown[-1].line, "", more, "correct those above first")]


def _header_faults(columns: tuple[str, ...], file: str, line: int) -> list[Fault]:
    if len(columns) > MAX_CSV_COLUMNS:
        return [Fault(file, line, "", f"{len(columns):,} columns", f"at most {MAX_CSV_COLUMNS:,}: keep those needed")]
    if len(columns) == 1 and (faulty := _other_separator(columns[0])):
        return [Fault(file, line, "", *faulty)]
    twice = sorted(name for name, count in Counter(columns).items() if count > 1)
    return [
        Fault(file, line, short_column(name), "two columns of that name", "")
        if name
        else Fault(file, line, "header", "two columns without a name", "")
        for name in twice
    ]


def json_text(document: Any, indent: int | None = 2) -> str:
    """Return one JSON document, in which every sign that a terminal obeys is an escape."""
    text = json.dumps(document, indent=indent, ensure_ascii=False, allow_nan=False)
    return "\n".join(map(printable, text.split("\n")))


# JSON text to plain data with the line of every value; what is no finite, readable number is a fault.


_LONG = re.compile(rf"\d{{{MAX_DIGITS + 1},}}")
_DECODER = json.JSONDecoder()


@dataclass(frozen=True)
class JsonDocument:
    """One parsed JSON file; `data` is plain."""

    file: str
    data: Any
    text: str = field(repr=False)

    def line(self, path: KeyPath) -> int:
        """Return the line of a place, or of the nearest enclosing place; that of a key, where it has one."""
        value = key = WHITESPACE.match(self.text, 0).end()
        for part in path:
            found = _find(self.text, value, part)
            if found is None:
                break
            key, value = found
        return self.text.count("\n", 0, key) + 1

    def fault(self, path: KeyPath, what: str, fix: str) -> Fault:
        """Return the fault at a place."""
        return Fault(self.file, self.line(path), ".".join(map(str, path)), what, fix)

    def records(self, is_record: Callable[[dict[str, Any]], bool]) -> list[JsonRecord]:
        """Return the objects that `is_record` knows, in the order of the text, whatever they are wrapped in.

        What lies inside a record, or deeper than `MAX_WRAPPERS`, is not looked at. One pass over the text.
        """
        places: list[tuple[KeyPath, int, dict[str, Any]]] = []
        _collect(self.text, WHITESPACE.match(self.text, 0).end(), (), is_record, places)
        records, line, last = [], 1, 0
        for path, at, data in places:
            line, last = line + self.text.count("\n", last, at), at
            records.append(JsonRecord(path, line, data))
        return records


@dataclass(frozen=True)
class JsonRecord:
    """One object of a JSON file, with its place and its line."""

    path: KeyPath
    line: int
    data: dict[str, Any]


MAX_WRAPPERS = 6
"""Most lists and objects around a record: an answer of GraphQL has three, a list of pages four."""


def _collect(
    text: str,
    at: int,
    path: KeyPath,
    is_record: Callable[[dict[str, Any]], bool],
    records: list[tuple[KeyPath, int, dict[str, Any]]],
) -> int:
    """Add the records of the value at `at`, each with its place and offset, and return where the value ends."""
    if text[at] not in "{[" or len(path) > MAX_WRAPPERS:
        return int(_DECODER.raw_decode(text, at)[1])
    if text[at] == "{":
        value, end = _DECODER.raw_decode(text, at)
        if is_record(value):
            records.append((path, at, value))
            return int(end)
    is_object, closing = text[at] == "{", "}" if text[at] == "{" else "]"
    number, at = 0, _skip(text, at + 1)
    while text[at] != closing:
        name: str | int = number
        if is_object:
            name, at = scanstring(text, at + 1)
            at = _skip(text, _skip(text, at) + 1)  # over the colon
        at = _skip(text, _collect(text, at, (*path, name), is_record, records))
        at = _skip(text, at + 1) if text[at] == "," else at
        number += 1
    return at + 1


def read_json(path: str | Path, fix: str, keeps_infinity: bool = False) -> JsonDocument:
    """Parse a JSON file, `-` being standard input; `fix` says which file is wanted. Raises `InputError`."""
    return parse_json(read_text(path), file_name(path), fix, keeps_infinity=keeps_infinity)


def parse_json(
    text: str, file: str, fix: str, nan_is_nothing: bool = False, keeps_infinity: bool = False
) -> JsonDocument:
    """Parse a JSON text; raises `InputError` with the line of what cannot be read.

    `nan_is_nothing` reads `NaN` and `Infinity`, which logs have where a loss or gradient is none, as null.
    `keeps_infinity` reads them as they are: a config.json has them in keys that are not read.
    """
    constant = _nothing if nan_is_nothing else float if keeps_infinity else _refuse
    if not text.strip():
        raise InputError([Fault(file, 1, "", "is empty", fix)])
    if (digits := _LONG.search(text)) is not None:
        what = f"a number of {len(digits[0])} digits"
        raise InputError([Fault(file, text.count("\n", 0, digits.start()) + 1, "", what, f"at most {MAX_DIGITS}")])
    try:
        data = json.loads(text, parse_constant=constant, parse_float=_finite)
    except json.JSONDecodeError as error:
        what = f"not JSON: {error.msg[:1].lower()}{error.msg[1:]}"
        raise InputError([Fault(file, error.lineno, "", what, fix)]) from None
    except _NotFinite as error:
        line = text.count("\n", 0, text.find(str(error))) + 1
        raise InputError([Fault(file, line, "", f"{error} is not a finite number", "give a finite number")]) from None
    except RecursionError:
        raise InputError([Fault(file, 1, "", "nested too deeply", fix)]) from None
    return JsonDocument(file, data, text)


class _NotFinite(Exception):
    """A number as it is written that is infinite or none; not a ValueError, which the parser has a meaning for."""


def _nothing(literal: str) -> None:
    del literal


def _refuse(literal: str) -> Any:
    raise _NotFinite(literal)


def _finite(literal: str) -> float:
    number = float(literal)
    return number if math.isfinite(number) else _refuse(literal)


def _find(text: str, at: int, part: str | int) -> tuple[int, int] | None:
    """Return where an item of the object or list at `at` begins, and where its value does; None without it."""
    closing = {"{": "}", "[": "]"}.get(text[at])
    number, at = 0, _skip(text, at + 1)
    while closing and text[at] != closing:
        start, name = at, number
        if closing == "}":
            name, at = scanstring(text, at + 1)
            at = _skip(text, _skip(text, at) + 1)  # over the colon
        if name == part:
            return start, at
        at = _skip(text, _DECODER.raw_decode(text, at)[1])
        at = _skip(text, at + 1) if text[at] == "," else at
        number += 1
    return None


def _skip(text: str, at: int) -> int:
    """Return the offset after blanks."""
    return int(WHITESPACE.match(text, at).end())
