"""JSON text to plain data with the line of every value; what is no finite, readable number is a fault."""

from __future__ import annotations

import json
import math
import re
from dataclasses import field
from json.decoder import WHITESPACE, scanstring  # type: ignore[attr-defined]
from typing import TYPE_CHECKING, Any

from planner.documents.files import file_name, read_text
from planner.documents.strict_yaml import MAX_DIGITS
from planner.errors import Fault, InputError, printable
from planner.records import record

if TYPE_CHECKING:
    from pathlib import Path

    from planner.documents.strict_yaml import KeyPath


def json_text(document: Any, indent: int | None = 2) -> str:
    """Return one JSON document, in which every sign that a terminal obeys is an escape."""
    text = json.dumps(document, indent=indent, ensure_ascii=False, allow_nan=False)
    return "\n".join(map(printable, text.split("\n")))


_LONG = re.compile(rf"\d{{{MAX_DIGITS + 1},}}")
_DECODER = json.JSONDecoder()


@record(frozen=True)
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


def read_json(path: str | Path, fix: str) -> JsonDocument:
    """Parse a JSON file, `-` being standard input; `fix` says which file is wanted. Raises `InputError`."""
    return parse_json(read_text(path), file_name(path), fix)


def parse_json(text: str, file: str, fix: str, nan_is_nothing: bool = False) -> JsonDocument:
    """Parse a JSON text; raises `InputError` with the line of what cannot be read.

    `nan_is_nothing` reads `NaN` and `Infinity`, which logs have where a loss or gradient is none, as null.
    """
    if not text.strip():
        raise InputError([Fault(file, 1, "", "is empty", fix)])
    if (digits := _LONG.search(text)) is not None:
        what = f"a number of {len(digits[0])} digits"
        raise InputError([Fault(file, text.count("\n", 0, digits.start()) + 1, "", what, f"at most {MAX_DIGITS}")])
    try:
        data = json.loads(text, parse_constant=_nothing if nan_is_nothing else _refuse, parse_float=_finite)
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
