"""YAML text to plain dicts, lists and scalars, strictly, with line numbers.

A repeated key is a fault, `1e6` is a number, `12:30`, `no` and `on` are text: scalars follow the core schema of YAML
1.2.2 (section 10.3.2), keys are always text. Aliases, nesting and size are bounded, and each fault has its line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import yaml

from planner.documents.files import file_name, read_text
from planner.errors import Fault, InputError
from planner.records import record

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MAX_DEPTH = 50
"""Deepest nesting of lists and mappings; a scenario needs about 6."""
TOO_DEEP = f"nested deeper than {MAX_DEPTH} levels"
MAX_VALUES = 1_000_000
"""Most values of a document with its aliases expanded."""
MAX_DIGITS = 300
"""Most digits of an integer: more do not fit into a double."""

SHOWN_OF_KEY = 20
"""Characters of an unknown key that a fault shows."""

NULL = re.compile(r"(?:~|null|Null|NULL|)\Z")
BOOL = re.compile(r"(?:true|True|TRUE|false|False|FALSE)\Z")
INT = re.compile(r"(?:[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)\Z")
FLOAT = re.compile(
    r"(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))\Z"
)

THOUSANDS = re.compile(r"[0-9]{3}\Z")
"""What is left of a number with a comma in a mapping of one line: a key of three digits without a value."""

KeyPath = tuple[str | int, ...]
"""A place in a document: mapping keys and list indices from the top."""


@dataclass(slots=True)
class Marks:
    """The line (1-based) on which a value starts, and the marks of the values inside it."""

    line: int
    children: dict[str | int, Marks] = field(default_factory=dict)


@record(frozen=True)
class Document:
    """One parsed file: `data` is plain (dict, list, str, int, float, bool, None)."""

    file: str
    data: Any
    marks: Marks

    def line(self, path: KeyPath) -> int:
        """Return the line of a place, or of the nearest enclosing place in the document."""
        marks = self.marks
        for part in path:
            if part not in marks.children:
                break
            marks = marks.children[part]
        return marks.line


def read_document(path: str | Path) -> Document:
    """Parse a YAML (or JSON) file, `-` being standard input; `InputError` with every fault found."""
    return parse_document(read_text(path), file_name(path))


def read_shipped(path: str | Path) -> Document:
    """Parse a file of the shipped data, once in a process while its text stays the same.

    Every caller has the same data: copy what is changed.
    """
    return _parse_once(read_text(path), file_name(path))


@lru_cache(maxsize=512)
def _parse_once(text: str, file: str) -> Document:
    return parse_document(text, file)


def parse_document(text: str, file: str) -> Document:
    """Parse the text of a file whose top is a mapping; `InputError` with every fault found."""
    value, marks = _parse(text, file)
    if value is None:
        raise InputError([Fault(file, 1, "", "the file is empty", "add keys and values such as `name: my-plan`")])
    if not isinstance(value, dict):
        what = f"the top of the file is {'a list' if isinstance(value, list) else 'a single value'}"
        raise InputError([Fault(file, marks.line, "", what, "write a mapping of keys to values")])
    return Document(file, value, marks)


def parse_value(text: str, file: str) -> Any:
    """Return one YAML value of any type, such as the right side of a setting."""
    return _parse(text, file)[0]


_NOTHING: dict[str | int, Marks] = {}
"""What lies inside a scalar: one empty mapping for all, because a price list has thousands."""
_NO_KEY_AS_COLLECTION = "a list or mapping is used as a key"


class _Reader:
    """Builds data from the events of the parser; nesting is bounded, so that it cannot overflow the stack."""

    def __init__(self, events: Iterator[Any], file: str) -> None:
        self.events = events
        self.file = file
        self.faults: list[Fault] = []
        self.anchors: dict[str, tuple[Any, Marks, int] | None] = {}  # None while still open
        self.nodes = 0
        self.depth = 0

    def fault(self, line: int, path: KeyPath, what: str, fix: str) -> None:
        self.faults.append(Fault(self.file, line, ".".join(short_key(str(part)) for part in path), what, fix))

    def check(self, line: int, path: KeyPath, depth: int) -> None:
        """Raise `InputError` where values or levels are too many."""
        if depth > MAX_DEPTH:
            raise self.stop(line, path, TOO_DEEP, "use fewer levels")
        if self.nodes > MAX_VALUES:
            raise self.stop(line, path, f"more than {MAX_VALUES:,} values with aliases expanded", "split the file")

    def stop(self, line: int, path: KeyPath, what: str, fix: str) -> InputError:
        """Return the error for a fault that ends reading."""
        self.fault(line, path, what, fix)
        return InputError(self.faults)

    def document(self) -> tuple[Any, Marks]:
        """Return the only document; nothing on line 1 where there is none."""
        found = None
        for event in self.events:
            if isinstance(event, yaml.DocumentStartEvent):
                if found:
                    raise self.stop(_line(event), (), "a second document starts here", "write one document per file")
                found = self.value(next(self.events), ())
        return found or (None, Marks(1))

    def value(self, event: Any, path: KeyPath, is_key: bool = False) -> tuple[Any, Marks]:
        """Return the value that begins with an event, and its marks."""
        line, before = _line(event), self.nodes
        if isinstance(event, yaml.AliasEvent):
            return self.alias(event, path)
        if event.tag is not None:
            self.fault(line, path, f"the tag {short_key(event.tag)} is not supported", "remove the tag")
        self.nodes += 1
        if isinstance(event, yaml.ScalarEvent):
            marks = Marks(line, _NOTHING)
            self.check(line, path, self.depth)
            value = self.scalar(event, path, is_key)
        else:
            marks = Marks(line)
            self.check(line, path, self.depth + 1)
            if event.anchor:
                self.anchors[event.anchor] = None
            self.depth += 1
            value = (self.mapping if isinstance(event, yaml.MappingStartEvent) else self.sequence)(path, marks)
            self.depth -= 1
        if event.anchor:
            self.anchors[event.anchor] = (value, marks, self.nodes - before)
        return value, marks

    def key(self, event: Any, path: KeyPath) -> Any:
        """Return what a mapping has as a key; most are plain words, which need no marks."""
        if not isinstance(event, yaml.ScalarEvent) or event.anchor or event.tag is not None:
            return self.value(event, path, is_key=True)[0]
        self.nodes += 1
        self.check(_line(event), path, self.depth)
        return self.scalar(event, path, is_key=True)

    def scalar(self, event: Any, path: KeyPath, is_key: bool) -> Any:
        is_plain = event.style in (None, "")
        if is_plain and is_key and event.value == "<<":
            self.fault(_line(event), path, "merge keys (<<) are not part of YAML 1.2", "write the keys out")
        if is_key or not is_plain:
            return event.value
        if len(event.value) > MAX_DIGITS and INT.match(event.value):
            self.fault(_line(event), path, f"a number of {len(event.value)} digits", f"write at most {MAX_DIGITS}")
            return 0
        return plain_scalar(event.value)

    def alias(self, event: Any, path: KeyPath) -> tuple[Any, Marks]:
        known = self.anchors.get(event.anchor)
        if known is None:
            inside = event.anchor in self.anchors
            why = "refers to a value that contains it" if inside else "has no anchor above it"
            raise self.stop(_line(event), path, f"the alias *{short_key(event.anchor)} {why}", "write the value out")
        value, marks, nodes = known
        self.nodes += nodes
        self.check(_line(event), path, self.depth + _depth(marks))
        return value, Marks(_line(event), marks.children)

    def sequence(self, path: KeyPath, marks: Marks) -> list[Any]:
        values: list[Any] = []
        while not isinstance(event := next(self.events), yaml.SequenceEndEvent):
            value, marks.children[len(values)] = self.value(event, (*path, len(values)))
            values.append(value)
        return values

    def mapping(self, path: KeyPath, marks: Marks) -> dict[str, Any]:
        values: dict[str, Any] = {}
        last = ""
        while not isinstance(event := next(self.events), yaml.MappingEndEvent):
            line, written = _line(event), self.key(event, path)
            key = str(written)
            if isinstance(written, (dict, list)):
                fix = "use a word as key; quote text that starts with { or ["
                self.fault(line, path, _NO_KEY_AS_COLLECTION, fix)
                key = f"{_NO_KEY_AS_COLLECTION} {line}"
            value, inside = self.value(next(self.events), (*path, key))
            if value is None and THOUSANDS.match(key) and isinstance(values.get(last), (int, float)):
                fix = "write the number without commas, such as 20000"
                self.fault(line, (*path, last), f"{values[last]},{key} is read as a number and a key", fix)
                values[last] = None  # one fault for 20,000,000
                continue
            if key in values:
                what = f"duplicate key, first on line {marks.children[key].line}"
                self.fault(line, (*path, key), what, "keep one of them")
            if key not in values:
                values[key] = value
                inside.line = line  # that of the key, not of its value
                marks.children[key] = inside
            last = key
        return values


def _line(event: Any) -> int:
    return int(event.start_mark.line) + 1


def short_key(key: str) -> str:
    """Return a key as a fault shows it: no more than its start, because the file may be one of passwords."""
    return key if len(key) <= SHOWN_OF_KEY else f"{key[:SHOWN_OF_KEY]}..."


def plain_scalar(text: str) -> Any:
    """Return the value of an unquoted scalar in the core schema of YAML 1.2."""
    first = text[:1]
    if first.isalpha() and first not in "tTfFnN":  # most words: no pattern can match
        return text
    if INT.match(text):
        return int(text, 0) if text[:2] in ("0o", "0x") else int(text)
    if FLOAT.match(text):
        return float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
    if NULL.match(text):
        return None
    if BOOL.match(text):
        return text[0] in "tT"
    return text


def _parse(text: str, file: str) -> tuple[Any, Marks]:
    found, reader = None, _Reader(iter(()), file)
    try:
        # The loader's own events, none at the end: `yaml.parse` asks three times for each.
        reader.events = iter(getattr(yaml, "CSafeLoader", yaml.SafeLoader)(text).get_event, None)
        found = reader.document()
    except yaml.YAMLError as error:
        reader.faults.append(_syntax_fault(error, text, file))
    except UnicodeEncodeError:
        reader.fault(1, (), "contains half of a surrogate pair", "save the file as UTF-8")
    except RecursionError:  # only with the parser in Python, if libyaml is missing
        reader.fault(1, (), TOO_DEEP, "use fewer levels")
    if found is None or reader.faults:
        raise InputError(reader.faults)
    return found


def _syntax_fault(error: yaml.YAMLError, text: str, file: str) -> Fault:
    mark = getattr(error, "problem_mark", None)
    if mark is None:  # a character that YAML forbids: the error has only its offset
        position = getattr(error, "position", 0)
        line = text.count("\n", 0, position) + 1 if isinstance(position, int) else 0
        return Fault(file, line, "", "a control character that YAML does not allow", "remove it")
    lines = text.splitlines()
    line_text = lines[mark.line] if mark.line < len(lines) else ""
    if line_text[: mark.column + 1].strip() == "" and "\t" in line_text[: mark.column + 1]:
        return Fault(file, mark.line + 1, "", "indented with a tab", "indent with spaces")
    problem = getattr(error, "problem", None) or "cannot be read as YAML"
    if "nesting depth" in problem:  # libyaml has a bound of its own, and looks ahead for the end of a key
        return Fault(file, mark.line + 1, "", TOO_DEEP, "use fewer levels")
    context = getattr(error, "context", None)
    what = f"not YAML: {problem}" + (f" {context}" if context else "")
    return Fault(file, mark.line + 1, "", what, "check the indentation, quotes and brackets near here")


def _depth(marks: Marks) -> int:
    """Return the levels of nesting below a place; bounded, as is what was built."""
    return 1 + max(map(_depth, marks.children.values())) if marks.children else 0
