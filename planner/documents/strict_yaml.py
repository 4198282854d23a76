"""YAML text to plain dicts, lists and scalars and back, strictly, with line numbers.

A repeated key is a fault, `1e6` is a number, `12:30`, `no` and `on` are text. Aliases, nesting and size are
bounded, and each fault has its line.
Scalars follow the core schema of YAML 1.2.2 (section 10.3.2); keys are always text.
"""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import yaml

from planner.documents.files import file_name, read_text
from planner.documents.yaml_scalars import BOOL, FLOAT, INT, NULL, plain_scalar
from planner.errors import Fault, InputError

if TYPE_CHECKING:
    from pathlib import Path

MAX_DEPTH = 50
"""Deepest nesting of lists and mappings; a scenario needs about 6."""
MAX_NODES = 1_000_000
"""Most values of a document with its aliases expanded."""
MAX_DIGITS = 300
"""Most digits of an integer: more do not fit into a double."""

KeyPath = tuple[str | int, ...]
"""A place in a document: mapping keys and list indices from the top."""


@dataclass
class Marks:
    """The line (1-based) on which a value starts, and the marks of the values inside it."""

    line: int
    children: dict[str | int, Marks] = field(default_factory=dict)


@dataclass(frozen=True)
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


def parse_document(text: str, file: str) -> Document:
    """Parse the text of a file whose top is a mapping; `InputError` with every fault found."""
    value, marks = _parse(text, file)
    if value is None:
        raise _refused(file, "the file is empty", "add keys and values such as `name: my-plan`")
    if not isinstance(value, dict):
        what = f"the top of the file is {_kind(value)}"
        raise InputError([Fault(file, marks.line, "", what, "write a mapping of keys to values")])
    return Document(file, value, marks)


def parse_value(text: str, file: str) -> Any:
    """Return one YAML value of any type, such as the right side of a setting."""
    return _parse(text, file)[0]


def write_yaml(data: Any) -> str:
    """Return YAML text that `parse_document` reads as the same data; keys keep their order."""
    stream = io.StringIO()
    dumper = _Dumper(stream, sort_keys=False, allow_unicode=True, width=2**31, default_flow_style=None)
    try:
        dumper.open()
        dumper.represent(data)
        dumper.close()
    finally:
        dumper.dispose()
    return stream.getvalue()


class _Dumper(yaml.SafeDumper):
    """Quotes exactly the texts that `plain_scalar` does not read back as text."""

    yaml_implicit_resolvers = {  # noqa: RUF012 (the parent's name and type)
        None: [
            ("tag:yaml.org,2002:null", NULL),
            ("tag:yaml.org,2002:bool", BOOL),
            ("tag:yaml.org,2002:int", INT),
            ("tag:yaml.org,2002:float", FLOAT),
        ]
    }

    def ignore_aliases(self, *_: Any, **__: Any) -> bool:
        return True

    def represent_str(self, data: str) -> yaml.ScalarNode:
        """Quote what a plain scalar does not keep: line breaks other than a newline, and the merge key."""
        style = '"' if data == "<<" or any(mark in data for mark in "\r\x85\u2028\u2029") else None
        return self.represent_scalar("tag:yaml.org,2002:str", data, style=style)


_Dumper.add_representer(str, _Dumper.represent_str)


@dataclass
class _Open:
    """A list or mapping that is not yet closed."""

    value: Any  # dict, list, or None for a value that is skipped
    marks: Marks
    anchor: str | None
    nodes_before: int
    key: str | None = None  # of a mapping: the key without its value yet


_NO_KEY_AS_COLLECTION = "a list or mapping is used as a key"


class _Builder:
    """Builds data from the events of the parser without recursion, so that nesting cannot overflow the stack."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.faults: list[Fault] = []
        self.stack: list[_Open] = []
        self.anchors: dict[str, tuple[Any, Marks, int] | None] = {}  # None while still open
        self.nodes = 0
        self.root: tuple[Any, Marks] | None = None

    def fault(self, line: int, what: str, fix: str = "") -> None:
        self.faults.append(Fault(self.file, line, self._where(), what, fix))

    def _where(self) -> str:
        parts = [o.key if isinstance(o.value, dict) else str(len(o.value or ())) for o in self.stack]
        return ".".join(part for part in parts if part is not None)

    def stop(self, line: int, what: str, fix: str) -> InputError:
        """Return the error for a fault that ends reading."""
        self.fault(line, what, fix)
        return InputError(self.faults)

    def grow(self, line: int, nodes: int) -> None:
        self.nodes += nodes
        if self.nodes > MAX_NODES:
            raise self.stop(line, f"more than {MAX_NODES:,} values with aliases expanded", "split the file")

    def event(self, event: Any) -> None:
        line = event.start_mark.line + 1
        if isinstance(event, yaml.ScalarEvent):
            self.grow(line, 1)
            self.add(self.scalar(event, line), Marks(line), event.anchor, 1)
        elif isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent)):
            self.open(event, line)
        elif isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
            done = self.stack.pop()
            self.add(done.value, done.marks, done.anchor, self.nodes - done.nodes_before)
        elif isinstance(event, yaml.AliasEvent):
            self.alias(event, line)
        elif isinstance(event, yaml.DocumentStartEvent) and self.root is not None:
            raise self.stop(line, "a second document starts here", "write one document per file")

    def scalar(self, event: Any, line: int) -> Any:
        if event.tag is not None:
            self.fault(line, f"the tag {event.tag} is not supported", "remove the tag")
        is_plain, is_key = event.style in (None, ""), bool(self.stack) and self._awaits_key()
        if is_plain and is_key and event.value == "<<":
            self.fault(line, "merge keys (<<) are not part of YAML 1.2", "write the keys out")
        if is_key or not is_plain:
            return event.value
        if len(event.value) > MAX_DIGITS and INT.match(event.value):
            self.fault(line, f"a number of {len(event.value)} digits", f"write at most {MAX_DIGITS}")
            return 0
        return plain_scalar(event.value)

    def _awaits_key(self) -> bool:
        return isinstance(self.stack[-1].value, dict) and self.stack[-1].key is None

    def open(self, event: Any, line: int) -> None:
        self.grow(line, 1)
        if event.tag is not None:
            self.fault(line, f"the tag {event.tag} is not supported", "remove the tag")
        if len(self.stack) >= MAX_DEPTH:
            raise self.stop(line, f"nested deeper than {MAX_DEPTH} levels", "use fewer levels")
        if event.anchor:
            self.anchors[event.anchor] = None
        value: Any = {} if isinstance(event, yaml.MappingStartEvent) else []
        self.stack.append(_Open(value, Marks(line), event.anchor, self.nodes - 1))

    def alias(self, event: Any, line: int) -> None:
        known = self.anchors.get(event.anchor)
        if known is None:
            inside = event.anchor in self.anchors
            why = "refers to a value that contains it" if inside else "has no anchor above it"
            raise self.stop(line, f"the alias *{event.anchor} {why}", "write the value out")
        value, marks, nodes = known
        self.grow(line, nodes)
        depth = len(self.stack) + _depth(marks)
        if depth > MAX_DEPTH:
            raise self.stop(line, f"nested deeper than {MAX_DEPTH} levels", "use fewer levels")
        self.add(value, Marks(line, marks.children), None, nodes)

    def add(self, value: Any, marks: Marks, anchor: str | None, nodes: int) -> None:
        """Add a finished value to its place: the root, a list, a key or the value of a key."""
        if anchor:
            self.anchors[anchor] = (value, marks, nodes)
        if not self.stack:
            self.root = (value, marks)
            return
        around = self.stack[-1]
        if isinstance(around.value, list):
            around.marks.children[len(around.value)] = marks
            around.value.append(value)
        elif around.key is None:
            around.key = self._as_key(value, marks.line)
            self._check_key(around, around.key, marks.line)
        else:
            if around.key not in around.value:
                around.value[around.key] = value
                around.marks.children[around.key].children = marks.children
            around.key = None

    def _as_key(self, value: Any, line: int) -> str:
        if isinstance(value, (dict, list)):
            self.fault(line, _NO_KEY_AS_COLLECTION, "use a word as key; quote text that starts with { or [")
            return f"{_NO_KEY_AS_COLLECTION} {line}"
        return str(value)

    def _check_key(self, around: _Open, key: str, line: int) -> None:
        if key in around.value:
            first = around.marks.children[key].line
            self.fault(line, f"duplicate key, first on line {first}", "keep one of them")
        else:
            around.marks.children[key] = Marks(line)  # the line of the key, not of its value


def _parse(text: str, file: str) -> tuple[Any, Marks]:
    builder = _Builder(file)
    loader_class = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        for event in yaml.parse(text, Loader=loader_class):
            builder.event(event)
    except yaml.YAMLError as error:
        builder.faults.append(_syntax_fault(error, text, file))
    except UnicodeEncodeError:
        builder.fault(0, "contains half of a surrogate pair", "save the file as UTF-8")
    except RecursionError:  # only with the parser in Python, if libyaml is missing
        builder.fault(0, f"nested deeper than {MAX_DEPTH} levels")
    if builder.faults:
        raise InputError(builder.faults)
    return builder.root or (None, Marks(1))


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
    context = getattr(error, "context", None)
    what = f"not YAML: {problem}" + (f" {context}" if context else "")
    return Fault(file, mark.line + 1, "", what, "check the indentation, quotes and brackets near here")


def _depth(marks: Marks) -> int:
    """Return the levels of nesting below a place; bounded, as is what was built."""
    return 1 + max(map(_depth, marks.children.values())) if marks.children else 0


def _kind(value: Any) -> str:
    return "a list" if isinstance(value, list) else f"a single value ({str(value)[:40]})"


def _refused(file: str, what: str, fix: str) -> InputError:
    return InputError([Fault(file, 0, "", what, fix)])
