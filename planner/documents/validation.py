"""Tables and JSON as plain data, rows of models, and errors of pydantic as complaints, each with its place."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections import Counter
from dataclasses import dataclass, field
from json.decoder import WHITESPACE, scanstring  # type: ignore[attr-defined]
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from planner.documents.files import MAX_DIGITS, Document, KeyPath, file_name, read_text, short_key
from planner.errors import Fault, InputError, ScenarioError, format_value, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping


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


# JSON text to plain data with the line of every value; what is no finite, readable number is a fault.


def json_text(document: Any, indent: int | None = 2) -> str:
    """Return one JSON document, in which every sign that a terminal obeys is an escape."""
    text = json.dumps(document, indent=indent, ensure_ascii=False, allow_nan=False)
    return "\n".join(map(printable, text.split("\n")))


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
        found: list[tuple[KeyPath, int, dict[str, Any]]] = []
        _collect(self.text, WHITESPACE.match(self.text, 0).end(), (), is_record, found)
        records, line, last = [], 1, 0
        for path, at, data in found:
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
    found: list[tuple[KeyPath, int, dict[str, Any]]],
) -> int:
    """Add the records of the value at `at`, each with its place and offset, and return where the value ends."""
    if text[at] not in "{[" or len(path) > MAX_WRAPPERS:
        return int(_DECODER.raw_decode(text, at)[1])
    if text[at] == "{":
        value, end = _DECODER.raw_decode(text, at)
        if is_record(value):
            found.append((path, at, value))
            return int(end)
    is_object, closing = text[at] == "{", "}" if text[at] == "{" else "]"
    number, at = 0, _skip(text, at + 1)
    while text[at] != closing:
        name: str | int = number
        if is_object:
            name, at = scanstring(text, at + 1)
            at = _skip(text, _skip(text, at) + 1)  # over the colon
        at = _skip(text, _collect(text, at, (*path, name), is_record, found))
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


_Model = TypeVar("_Model", bound=BaseModel)


class Row(BaseModel):
    """A row of a table: frozen, no unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)


Complaint = tuple[KeyPath, str, str]
"""A place in the data, what is wrong there, and how to fix it."""

UNKNOWN_KEY = "unknown key"
SYNONYMS = {
    **dict.fromkeys(("price", "cost", "usd", "hourly_price", "price_per_hour", "on_demand"), "usd_per_hour"),
    **dict.fromkeys(("spot_price", "preemptible"), "spot_usd_per_hour"),
    **dict.fromkeys(("batch_size", "batch", "train_batch_size"), "global_batch"),
    **dict.fromkeys(("model", "base_model", "model_name"), "architecture"),
    **dict.fromkeys(("seq_len", "seq_length", "context", "context_length", "max_length"), "sequence_length"),
    **dict.fromkeys(("budget", "max_cost", "max_usd"), "budget_usd"),
    **dict.fromkeys(("outlay", "capex", "upfront", "max_outlay"), "outlay_usd"),
    **dict.fromkeys(("count", "num_gpus", "gpu_count"), "gpus"),
    **dict.fromkeys(("memory_gb", "ram"), "ram_gb"),
    **dict.fromkeys(("cloud", "vendor"), "provider"),
    **dict.fromkeys(("prices", "market", "catalog"), "inventory"),
    **dict.fromkeys(("r", "lora_r", "lora_rank"), "rank"),
    **dict.fromkeys(("start", "start_date", "today"), "now"),
    **dict.fromkeys(("tasks", "runs", "trainings"), "jobs"),
    "checkpointing": "activation_checkpointing",
    "gradient_checkpointing": "activation_checkpointing",
}
"""Words that people use for keys -> the key."""
WITHOUT_EFFECT = frozenset(
    ["lr", "learning_rate", "lr_scheduler", "seed", "warmup", "warmup_ratio", "warmup_steps", "weight_decay", "dropout"]
)
"""Settings of a training that change neither its memory nor its time: no key has them."""
ENDS_OF_KEYS = frozenset(["usd", "hours", "days", "months", "seconds", "gb", "gib", "gbps", "share"])
"""Ends of keys that may be left out when a key is sought."""
ADDED = (
    *("[key]", "word", "value", "of training", "of inference", "of serving", "of a choice"),
    *("of reinforcement learning", "judge"),
    *("of names", "of a family", "a number", "a range", "a named law", "an own law"),
)
"""What pydantic adds to the place of an error: keys of mappings, and tags of the members of unions."""
MAX_COMPLAINTS = 100
"""Most errors of one validation that are reported: nobody reads more at a time."""

_KINDS = {
    "float_type": "a number",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_parsing": "a number",
    "int_parsing": "a whole number",
    "bool_parsing": "true or false",
    "string_type": "text",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "list_type": "a list",
    "dict_type": "a mapping of keys to values",
    "model_type": "a mapping of keys to values",
    "model_attributes_type": "a mapping of keys to values",
    "date_type": "a date such as 2024-05-31",
}
_BOUNDS = {
    "greater_than": ("gt", "more than"),
    "greater_than_equal": ("ge", "at least"),
    "less_than": ("lt", "less than"),
    "less_than_equal": ("le", "at most"),
}


def validation_complaints(error: ValidationError, kind: type[BaseModel], data: Any) -> list[Complaint]:
    """Return every error of validating `data` as `kind`, each at its place in `data`."""
    found: list[Complaint] = []
    schema: dict[str, Any] = {}
    for detail in error.errors(include_url=False):
        if len(found) == MAX_COMPLAINTS:
            left = error.error_count() - MAX_COMPLAINTS
            return [*found, ((), f"{left:,} more faults", "correct those above first")]
        if detail["type"] == "too_short" and detail["input"]:
            continue  # the faults of its items are reported one by one
        path = _place(detail["loc"], data)
        context = detail.get("ctx", {})
        if detail["type"] == "extra_forbidden":
            schema = schema or plain_schema(kind)
            what, key, known = UNKNOWN_KEY, str(path[-1]), keys_at(schema, path[:-1], data)
            sought = SYNONYMS.get(key, key) if SYNONYMS.get(key) not in known else key
            holder = next((name for name in known if sought in keys_at(schema, (*path[:-1], name), data)), "")
            fix = _known_keys(key, known, holder, _elsewhere(key, detail["input"], schema, path))
        elif detail["type"] == "planner":
            what, fix = context["what"], context["fix"]
            path += tuple(context["where"].split(".")) if context["where"] else ()
        else:
            what, fix = _reword(detail["type"], detail.get("input"), context, detail["msg"])
        found.append((path, what, fix))
    return found


def plain_schema(kind: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON Schema of a model without descriptions, for which its source would be read."""
    from pydantic.json_schema import GenerateJsonSchema

    return kind.model_json_schema(by_alias=True, schema_generator=GenerateJsonSchema)


def faults_of_call(error: ValidationError, kind: type, keys: dict[str, Any]) -> list[Fault]:
    """Return the faults of a class that was called with wrong values."""
    plain = {key: value for key, value in keys.items() if not hasattr(value, "model_fields_set")}
    complaints = validation_complaints(error, kind, plain)
    return [Fault(kind.__name__, 0, ".".join(map(str, path)), what, fix) for path, what, fix in complaints]


def validate_spelled(kind: type[_Model], data: Any) -> _Model:
    """Return data as a model; a word of a short list is read in any case and spelling. `ValidationError` for the rest.

    Only what fails as written is looked at, so that correct data costs nothing.
    """
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        spelled = data
        for detail in error.errors(include_url=False):
            if detail["type"] == "literal_error" and isinstance(detail["input"], str):
                allowed = re.findall(r"'([^']*)'", detail.get("ctx", {}).get("expected", ""))
                name = find_name(detail["input"], allowed)
                spelled = spelled if name is None else _replaced(spelled, _place(detail["loc"], data), name)
        if spelled is data:
            raise
    return kind.model_validate(spelled)


def _replaced(data: Any, path: KeyPath, value: str) -> Any:
    """Return a copy of data with the text at a place replaced, or the data where no text is there."""
    if not path:
        return value if isinstance(data, str) else data
    if not _holds(data, path[0]):
        return data
    copy: Any = dict(data) if isinstance(data, dict) else list(data)
    copy[path[0]] = _replaced(data[path[0]], path[1:], value)
    return copy


def fold(text: str) -> str:
    """Return the letters and digits of a name in lower case: spellings that differ in nothing else are one name."""
    return re.sub(r"[^a-z0-9]", "", text.casefold())


def find_name(word: object, known: Iterable[str]) -> str | None:
    """Return the known name that a word is, whatever its case and separators; None where none or several are meant."""
    names = list(known)
    if word in names or not isinstance(word, str):
        return word if isinstance(word, str) else None
    found = {name for name in names if fold(name) == fold(word)}
    return found.pop() if len(found) == 1 and fold(word) else None


def suggest_names(word: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """Return up to three known names similar to the word, joined by "or"; empty if none is."""
    import difflib  # late: most files have no fault

    by_folded = {name.casefold(): name for name in known}
    folded = word.casefold()
    close = difflib.get_close_matches(folded, by_folded, n=3, cutoff=cutoff)
    if not close and len(folded) >= 3:
        close = sorted((name for name in by_folded if folded in name), key=len)[:3]
    return " or ".join(by_folded[name] for name in close)


MOST_NAMES = 3
"""Names that a fault of an unknown one suggests."""


def name_fix(word: str, known: Iterable[str], listing: str = "") -> str:
    """Return how to correct an unknown name: similar names, else the three that are nearest; never all of them.

    `listing` is the command that prints all.
    """
    names = list(dict.fromkeys(known))
    if close := suggest_names(word, names):
        return f"did you mean {close}?"
    import difflib

    folded = word.casefold()[:100]
    nearest = sorted(names, key=lambda name: -difflib.SequenceMatcher(None, folded, name.casefold()).ratio())
    few = nearest[:MOST_NAMES]
    if not few:
        return f"none is known; see {listing}" if listing else "leave it out: there is none"
    said = f"known: {', '.join(few)}" if len(names) <= MOST_NAMES else f"the nearest are {', '.join(few)}"
    return f"{said}; all: {listing}" if listing and len(names) > MOST_NAMES else said


def meant_name(word: str, known: Iterable[str], where: str, what: str, listing: str = "") -> str:
    """Return the known name that a word is, whatever its case and separators; `ScenarioError` with the nearest three.

    `where` is what the word was given as, such as an option, and `what` says what no name is; `listing` is the command
    that prints all names.
    """
    names = list(known)
    if (found := find_name(word, names)) is None:
        raise ScenarioError([Fault(where, 0, "", f"{what} {format_value(word)}", name_fix(word, names, listing))])
    return found


def keys_at(schema: dict[str, Any], path: KeyPath, data: Any = None) -> list[str]:
    """Return the keys that a JSON Schema allows in the mapping at a place; of several forms those that `data` has."""
    nodes = list_alternatives(schema, schema)
    for part in path:
        inside: list[dict[str, Any]] = []
        for node in nodes:
            if isinstance(part, int):
                inside += list_alternatives(node.get("items"), schema)
            elif part in node.get("properties", {}):
                inside += list_alternatives(node["properties"][part], schema)
            else:
                inside += list_alternatives(node.get("additionalProperties"), schema)
        data = data[part] if _holds(data, part) else None
        nodes = forms_of(inside, data)
    return list(dict.fromkeys(key for node in nodes for key in node.get("properties", {})))


def forms_of(forms: list[dict[str, Any]], data: Any) -> list[dict[str, Any]]:
    """Return the forms whose `kind` is that of the data; all where none is, or where there is no data."""

    def is_meant(form: dict[str, Any]) -> bool:
        kind = form.get("properties", {}).get("kind")
        given = data.get("kind", kind.get("default")) if kind else None
        return kind is None or given in (kind.get("enum") or (kind.get("const"),))

    if not isinstance(data, dict):
        return forms
    meant = [form for form in forms if is_meant(form)]
    return meant if any("properties" in form for form in meant) else forms


def _holds(data: Any, part: int | str) -> bool:
    """Return whether a mapping has a key, or a list as many items."""
    if isinstance(data, dict):
        return part in data
    return isinstance(data, (list, tuple)) and isinstance(part, int) and 0 <= part < len(data)


def _place(loc: tuple[int | str, ...], data: Any) -> KeyPath:
    """Return the location of an error without what pydantic adds (union members, indices of a single value)."""
    path: list[int | str] = []
    for position, part in enumerate(loc):
        if _holds(data, part):
            data = data[part]
        elif not (isinstance(data, dict) and position == len(loc) - 1 and part not in ADDED):
            continue
        path.append(part)
    return tuple(path)


def list_alternatives(node: Any, schema: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the alternatives of a node, references resolved."""
    if not isinstance(node, dict):
        return []
    if "$ref" in node:
        return list_alternatives(schema["$defs"][node["$ref"].rsplit("/", 1)[-1]], schema)
    branches = [branch for key in ("anyOf", "oneOf", "allOf") for branch in node.get(key, ())]
    return [node] + [form for branch in branches for form in list_alternatives(branch, schema)]


def _elsewhere(key: str, value: Any, schema: dict[str, Any], path: KeyPath) -> str:
    """Return where else in the document a key stands, by itself, with its unit or as a list; else empty.

    Examples: `limits.budget_usd` for `budget`, `limits.gpus` for a GPU of a job, `limits.max_gpus` for their number.
    """
    count = isinstance(value, int) and not isinstance(value, bool)
    tops = sorted(keys_at(schema, ()), key=lambda top: top == "offers")  # what is offered is seldom what was meant
    for top in tops:
        for below in ((top,), (top, 0)):
            if below[0] == path[0] and len(below) == len(path) - 1:
                continue  # its own neighbours
            names = keys_at(schema, below)
            with_unit = [
                name for name in names if name.rpartition("_")[0] == key and name.rpartition("_")[2] in ENDS_OF_KEYS
            ]
            forms = [f"max_{key}"] * count + [key, *with_unit, *([] if count else [f"{key}s"])]
            if found := next((form for form in forms if form in names), ""):
                return ".".join(map(str, (*below, found)))
    return ""


def _known_keys(key: str, known: list[str], holder: str, elsewhere: str) -> str:
    """Return the key that may have been meant.

    `holder`: one of the known keys below which the key exists; `elsewhere`: another place of the document that has it.
    """
    meant = SYNONYMS.get(key.casefold().replace("-", "_"))
    if holder and meant not in known:
        return f"write it below {holder}, as {holder}: {{{meant or key}: ...}}"
    if meant is None and key in WITHOUT_EFFECT:
        return "leave it out: no plan depends on it"
    close = meant if meant in known else suggest_names(key, known)
    if close:
        return f"did you mean {close}?"
    return f"write it as {elsewhere}" if elsewhere else f"known keys: {', '.join(sorted(known))}"


def _reword(kind: str, value: Any, context: dict[str, Any], message: str) -> tuple[str, str]:
    if kind == "missing" and isinstance(value, (list, tuple)):
        return "has too few values", "add what is missing"
    if kind == "missing":
        return "is missing", "add it"
    if kind == "literal_error":
        return _not_one_of(value, context["expected"])
    if kind in _KINDS:
        return f"{format_value(value)} is not {_KINDS[kind]}", _how_to_write(kind, value)
    if kind in _BOUNDS:
        key, bound = _BOUNDS[kind]
        limit = context[key]
        shown = f"{limit:,}" if isinstance(limit, int) else f"{limit:g}"
        share = f"; write {value:g} % as {value / 100:g}" if key == "le" and limit == 1 and 1 < value <= 100 else ""
        return f"{format_value(value)} is out of range", f"must be {bound} {shown}{share}"
    if kind == "finite_number":
        return f"{format_value(value)} is not a finite number", "give a finite number"
    if kind in ("too_short", "string_too_short"):
        return "is empty", "give at least one" if kind == "too_short" else "give a name"
    return message.removeprefix("Value error, "), "correct the value"


def _not_one_of(value: Any, expected: str) -> tuple[str, str]:
    choices = [text or number for text, number in re.findall(r"'([^']*)'|(\d+)", expected)]
    close = suggest_names(value, choices) if isinstance(value, str) else ""
    what = f"{format_value(value)} is not one of {', '.join(choices)}"
    return what, f"did you mean {close}?" if close else "give one of them"


_THOUSANDS = re.compile(r"[0-9]{1,3}(?:,[0-9]{3})+")
_PERCENT = re.compile(r"([0-9]{1,3}(?:\.[0-9]+)?) ?%")


def _how_to_write(kind: str, value: Any) -> str:
    if kind == "string_type" and not isinstance(value, (dict, list)):
        return "put it in quotes if it is a name"
    if kind == "float_type" and isinstance(value, str) and (share := _PERCENT.fullmatch(value)):
        return f"write it as a share: {float(share[1]) / 100:g}"
    if kind in ("float_type", "int_type") and isinstance(value, str) and _THOUSANDS.fullmatch(value):
        return f"write it without commas: {value.replace(',', '')}"
    if kind in ("float_type", "int_type") and isinstance(value, str):
        return "write it without quotes and unit: the name of the key has the unit"
    return f"give {_KINDS[kind]}"


# The file and line, or the setting, that each value of the input came from.


@dataclass(frozen=True)
class Source:
    """A document, and the places in its data that a setting `PATH=VALUE` or an option `--name value` wrote."""

    file: str
    document: Document | JsonDocument | None = None
    origins: Mapping[KeyPath, str] = field(default_factory=dict)

    def folder(self, path: KeyPath, own: Path) -> Path:
        """Return the folder of a relative path: the working folder if a setting wrote it, else `own`."""
        is_set = any(path[:length] in self.origins for length in range(1, len(path) + 1))
        return Path() if is_set else own

    def fault(self, path: KeyPath, what: str, fix: str) -> Fault:
        """Return the fault at a place, with the setting that wrote the value, or else its line."""
        shown_path = (*path[:-1], short_key(str(path[-1]))) if what == UNKNOWN_KEY else path
        where = ".".join(map(str, shown_path))
        for length in range(len(path), 0, -1):
            if path[:length] in self.origins:
                setting = self.origins[path[:length]]
                if setting.startswith("--"):
                    return Fault(setting, 0, "", what, fix)
                shown = ".".join((_typed_path(setting), *map(str, path[length:])))
                return Fault(setting_name(setting), 0, shown, what, fix)
        # A setting may also have created the faulty mapping: `limit.x=1` creates an unknown `limit`.
        inside = [(place, setting) for place, setting in self.origins.items() if place[: len(path)] == path]
        if inside and (self.document is None or self.document.line(path) == self.document.line(path[:-1])):
            place, setting = inside[-1]
            if setting.startswith("--"):
                return Fault(setting, 0, "", what, fix)
            rest = "." + ".".join(map(str, place[len(path) :]))
            typed = _typed_path(setting)
            shown = typed.removesuffix(rest) if typed.endswith(rest) else where
            return Fault(setting_name(setting), 0, shown, what, fix)
        return Fault(self.file, self.document.line(path) if self.document else 0, where, what, fix)

    def faults(self, found: Iterable[Complaint]) -> list[Fault]:
        """Return the faults of many complaints."""
        return [self.fault(*complaint) for complaint in found]

    def validate(self, kind: type[_Model], data: dict[str, Any]) -> _Model:
        """Return the data as a model; `ScenarioError` with every fault."""
        try:
            return validate_spelled(kind, data)
        except ValidationError as error:
            raise ScenarioError(self.faults(validation_complaints(error, kind, data))) from None


def _typed_path(setting: str) -> str:
    """Return the path as it was typed, with a job by its name if that was typed."""
    return setting.partition("=")[0].strip()


def setting_name(setting: str) -> str:
    """Return the name of a setting in a fault, in place of a file."""
    return f"--set {setting if len(setting) <= 80 else setting[:77] + '...'}"
