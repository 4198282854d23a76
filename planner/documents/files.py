"""Text files: reading as UTF-8 with a size limit, atomic writing; YAML in them, strictly, and back to text."""

from __future__ import annotations

import os
import re
import stat
import sys
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

import yaml

from planner.errors import Fault, InputError, KeyPath, Part, short_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


MAX_BYTES = 10 * 2**20
"""Largest file that is read: 10 MiB, thousands of times a large scenario."""

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}

PACKAGE_FOLDER = Path(__file__).parent.parent
"""The folder `planner/`; tests exchange it, so that commands run on other data."""


def data_folder(kind: Literal["models", "scenarios"]) -> Path:
    """Return the folder of shipped data: inside the package where it was installed, else that of the checkout."""
    return _data_folder(PACKAGE_FOLDER, kind)


@cache
def _data_folder(package: Path, kind: str) -> Path:
    packaged = package / "_data" / kind
    return packaged if packaged.is_dir() else package.parent / kind


_read: set[tuple[int, int]] = set()
"""Device and number of every file that the running command has read, so that no answer replaces its own question."""


def forget_read() -> None:
    """Forget what was read: a command begins."""
    _read.clear()


def note_read(stream: BinaryIO) -> None:
    """Remember that the file of an open stream is read."""
    status = os.fstat(stream.fileno())
    _read.add((status.st_dev, status.st_ino))


def is_read(path: str | Path) -> bool:
    """Return whether the running command has read a file, under whatever name."""
    with suppress(OSError, ValueError):
        status = os.stat(path)
        return (status.st_dev, status.st_ino) in _read
    return False


def check_unread(path: str | Path) -> None:
    """Raise `InputError` where an answer would replace a file that the running command has read."""
    if is_read(path):
        raise _refused(str(path), "is read by this command", "write to another file")


def _note_standard_input() -> None:
    """Remember the file that standard input comes from, where it is one."""
    with suppress(OSError, ValueError):  # ValueError: a stand-in without a file
        if stat.S_ISREG(os.fstat(sys.stdin.buffer.fileno()).st_mode):
            note_read(sys.stdin.buffer)


def file_name(path: str | Path) -> str:
    """Return the name of a file in a fault; `-` is standard input."""
    return "standard input" if str(path) == "-" else str(path)


def read_text(path: str | Path, most: int = MAX_BYTES, lossy: bool = False) -> str:
    """Return the text of a file of at most `most` bytes; `InputError` if it cannot be read or is not UTF-8.

    `lossy`: what is not UTF-8 becomes a replacement character.
    """
    file = file_name(path)
    try:
        if str(path) == "-":
            _note_standard_input()
            raw = sys.stdin.buffer.read(most + 1)
        else:
            size = Path(path).stat().st_size
            if size > most:
                raise _refused(file, f"too large: {size / 1e6:.0f} MB", f"at most {most / 1e6:.0f} MB")
            with open(path, "rb") as stream:
                note_read(stream)
                raw = stream.read(most + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = getattr(error, "strerror", None) or str(error)
        raise _refused(file, f"cannot be read: {reason.lower()}", "check the path") from None
    if len(raw) > most:
        raise _refused(file, "too large", f"at most {most / 1e6:.0f} MB")
    try:
        return raw.decode("utf-8-sig", "replace" if lossy else "strict")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        what = f"not UTF-8 text: byte 0x{raw[error.start]:02x} at offset {error.start}"
        raise InputError([Fault(file, line, "", what, "save the file as UTF-8")]) from None


def make_folder(path: Path, fix: str = "give the path of a folder") -> None:
    """Make a folder where there is none; `InputError` with this way out if that cannot be done."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        why = (getattr(error, "strerror", None) or str(error)).lower()
        raise _refused(str(path), f"cannot be made a folder: {why}", fix) from None


def check_writable(path: str | Path) -> None:
    """Raise `InputError` if a file cannot be written, before anything is computed for it."""
    with _writing(path):
        _target(path)


def write_text_atomically(path: str | Path, text: str) -> None:
    """Replace the content of a file atomically; raises like `write_bytes_atomically`."""
    write_bytes_atomically(path, text.encode("utf-8", "backslashreplace"))


def write_bytes_atomically(path: str | Path, content: bytes) -> None:
    """Replace the content of a file: a reader, even after a kill, finds the old content or the new one.

    A symbolic link stays one: the file that it names is written. Mode and owner are kept where the system permits it.
    Only a file with further hard links is written in place, because replacing it would separate them.

    Raises `InputError` if the file cannot be written; its old content is unchanged.
    """
    with _writing(path):
        target = _target(path)
        while not _replace(target, content):
            pass  # another process took the new file for one that was left: write it again


def _replace(target: Path, content: bytes) -> bool:
    """Write a file beside the target and put it in its place; return False where another process removed it."""
    old = target.stat() if target.exists() else None
    handle, part = _open_part(target)
    try:
        with os.fdopen(handle, "wb") as stream:  # closing ends the lock, and Windows renames closed files only
            stream.write(content)
            stream.flush()
            os.fsync(handle)  # a disk that is full may say so only now
            _keep_owner_and_mode(part, old)
        if old is None or old.st_nlink == 1:
            try:
                os.replace(part, target)
            except FileNotFoundError:
                if target.parent.is_dir():
                    return False
                raise
            return True
        os.unlink(part)  # its space is free again, so that the content fits
        with open(target, "r+b") as stream:
            stream.write(content)
            stream.truncate()
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(part)
        raise
    return True


def _keep_owner_and_mode(part: str, old: os.stat_result | None) -> None:
    """Give a new file owner and mode of the old one as far as the system permits it, else the usual mode."""
    if old is not None and hasattr(os, "chown"):  # not on Windows
        for owner in ((old.st_uid, -1), (-1, old.st_gid)):
            with suppress(OSError):
                os.chown(part, *owner)
    with suppress(OSError):
        os.chmod(part, old.st_mode & 0o777 if old else 0o666 & ~_umask())


@contextmanager
def _writing(path: str | Path) -> Iterator[None]:
    """Turn what prevents writing a file into `InputError`."""
    try:
        yield
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        why = getattr(error, "strerror", None) or str(error)
        fix = "give the path of a file in a folder that exists and is writable"
        raise _refused(str(path) or "the output", f"cannot be written: {why[:1].lower()}{why[1:]}", fix) from None


def _target(path: str | Path) -> Path:
    """Return the file that writing replaces, symbolic links followed; OSError if it is none or must not be written."""
    if not os.path.basename(path):
        raise OSError("is a folder" if str(path) else "the path is empty")
    target = Path(os.path.realpath(path))
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        mode = stat.S_IFREG
    if not stat.S_ISREG(mode):
        raise OSError(f"is {_KINDS.get(stat.S_IFMT(mode), 'not a file')}")
    _check_no_stream(path)
    if not target.parent.is_dir():
        raise OSError(f"there is no folder {target.parent}")
    if not os.access(target.parent, os.W_OK | os.X_OK):
        raise OSError(f"folder {target.parent} is not writable")
    if target.exists() and not os.access(target, os.W_OK):
        raise OSError("is read-only")
    return target


def _check_no_stream(path: str | Path) -> None:
    """Raise `InputError` for the file of a standard stream: replacing it would lose what others write there."""
    for number, name in enumerate(("input", "output", "error")):
        with suppress(OSError):  # there is no such file yet, or the stream is closed
            if os.path.samestat(os.stat(path), os.fstat(number)):
                fix = "write to another file" + (", or to - for standard output" if number == 1 else "")
                raise _refused(str(path), f"is the file of standard {name}", fix)


def _open_part(target: Path) -> tuple[int, str]:
    """Return a new file beside the target, locked, and its name; remove those that killed processes left."""
    import glob
    import tempfile  # late: most commands write no file

    start = f".{target.name[:50]}."
    for left in target.parent.glob(f"{glob.escape(start)}????????.part"):
        with suppress(OSError):
            _remove_left(left)
    while True:
        handle, part = tempfile.mkstemp(prefix=start, suffix=".part", dir=target.parent)
        with suppress(OSError, ImportError):  # some network file systems have no locks
            _lock(handle)
        if os.path.exists(part):
            return handle, part
        os.close(handle)  # another process removed it before it was locked


def _lock(handle: int) -> None:
    """Lock an open file until it is closed; OSError where another process has it, ImportError without such locks."""
    import fcntl  # not on Windows

    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _remove_left(left: Path) -> None:
    """Remove a file that a killed process left; OSError while its process lives.

    Windows removes no file that is open. A system that has neither this nor locks cannot tell: the file stays.
    """
    if sys.platform == "win32":
        os.unlink(left)
        return
    flags = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    with suppress(ImportError), open(os.open(left, os.O_RDONLY | flags), "rb") as stream:
        _lock(stream.fileno())
        os.unlink(left)


def _umask() -> int:
    """Return the file mode mask of the process; it can only be read by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _refused(file: str, what: str, fix: str) -> InputError:
    return InputError([Fault(file, 0, "", what, fix)])


# YAML text to plain dicts, lists and scalars, strictly, with line numbers.
#
# A repeated key is a fault, `1e6` is a number, `12:30`, `no` and `on` are text: scalars follow the core schema of YAML
# 1.2.2 (section 10.3.2), keys are always text. Aliases, nesting and size are bounded, and each fault has its line.


# The line of each value of a YAML file: found when a fault asks for it, by going through the file again.
#
# Most files have no fault, and a price list has thousands of values: to note the line of each takes as long as reading.


LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The loader whose events are read: in C, unless libyaml is missing."""


@dataclass(slots=True)
class Marks:
    """The line (1-based) on which a value starts, and the marks of the values inside it."""

    line: int
    children: dict[str | int, Marks] = field(default_factory=dict)


def line_of(event: Any) -> int:
    """Return the line on which an event of the parser starts."""
    return int(event.start_mark.line) + 1


def find_marks(text: str) -> Marks:
    """Return the marks of a document that was read without a fault."""
    event_after: Callable[[], Any] = LOADER(text).get_event
    anchors: dict[str | None, tuple[Marks, str]] = {}

    def read(event: Any) -> tuple[Marks, str]:
        """Return the marks of the value that begins with an event, and its text as a key."""
        marks, key = Marks(line_of(event)), getattr(event, "value", "")
        if isinstance(event, yaml.AliasEvent):
            known, key = anchors[event.anchor]
            return Marks(marks.line, known.children), key
        if isinstance(event, yaml.MappingStartEvent):
            while not isinstance(key_event := event_after(), yaml.MappingEndEvent):
                line, (_, name) = line_of(key_event), read(key_event)
                inside, _ = read(event_after())
                inside.line = line  # that of the key, not of its value
                marks.children[name] = inside
        elif isinstance(event, yaml.SequenceStartEvent):
            while not isinstance(item_event := event_after(), yaml.SequenceEndEvent):
                marks.children[len(marks.children)], _ = read(item_event)
        if event.anchor:
            anchors[event.anchor] = marks, key
        return marks, key

    event = event_after()
    while isinstance(event, (yaml.StreamStartEvent, yaml.DocumentStartEvent)):
        event = event_after()
    return read(event)[0]


MAX_DEPTH = 50
"""Deepest nesting of lists and mappings; a scenario needs about 6."""
TOO_DEEP = f"nested deeper than {MAX_DEPTH} levels"
MAX_VALUES = 1_000_000
"""Most values of a document with its aliases expanded."""
MAX_DIGITS = 300
"""Most digits of an integer: more do not fit into a double."""

NULL = re.compile(r"(?:~|null|Null|NULL|)\Z")
BOOL = re.compile(r"(?:true|True|TRUE|false|False|FALSE)\Z")
INT = re.compile(r"(?:[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)\Z")
FLOAT = re.compile(
    r"(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))\Z"
)
THOUSANDS = re.compile(r"[0-9]{3}\Z")
"""What is left of a number with a comma in a mapping of one line: a key of three digits without a value."""


@dataclass(frozen=True)
class Document:
    """One parsed file: `data` is plain (dict, list, str, int, float, bool, None)."""

    file: str
    data: Any
    source: Marks | str  # the lines of its values, or the text in which they are found when they are asked for
    repeated: dict[KeyPath, int] = field(default_factory=dict)
    """Keys that stand twice in a mapping, and the line of the first, where a reader takes the last."""

    @cached_property
    def marks(self) -> Marks:
        """The lines of its values."""
        return find_marks(self.source) if isinstance(self.source, str) else self.source

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


def parse_document(text: str, file: str, takes_last: bool = False) -> Document:
    """Parse the text of a file whose top is a mapping; `InputError` with every fault found.

    takes_last: of a key that is repeated the last value counts, as for PyYAML; otherwise it is a fault.
    """
    repeated: dict[KeyPath, int] | None = {} if takes_last else None
    value, line = _parse(text, file, repeated)
    if value is None:
        raise InputError([Fault(file, 1, "", "the file is empty", "add keys and values such as `name: my-plan`")])
    if not isinstance(value, dict):
        what = f"the top of the file is {'a list' if isinstance(value, list) else 'a single value'}"
        raise InputError([Fault(file, line, "", what, "write a mapping of keys to values")])
    return Document(file, value, text, repeated or {})


def parse_value(text: str, file: str) -> Any:
    """Return one YAML value of any type, such as the right side of a setting."""
    return _parse(text, file)[0]


_NO_KEY_AS_COLLECTION = "a list or mapping is used as a key"


class _Reader:
    """Builds data from the events of the parser; nesting is bounded, so that it cannot overflow the stack."""

    def __init__(self, events: Iterator[Any], file: str, repeated: dict[KeyPath, int] | None = None) -> None:
        self.events = events
        self.repeated = repeated  # where the last of a repeated key counts; None where it is a fault
        self.file = file
        self.faults: list[Fault] = []
        self.anchors: dict[str, tuple[Any, int] | None] = {}  # value and how many are in it; None while still open
        self.nodes = 0
        self.depth = 0
        self.path: list[Part] = []  # of the list or mapping that is read

    def fault(self, line: int, what: str, fix: str, part: Part = None) -> None:
        """Note a fault of what is read, or of a part of it."""
        where = ".".join(short_key(str(key)) for key in (*self.path, part) if key is not None)
        self.faults.append(Fault(self.file, line, where, what, fix))

    def check(self, line: int, depth: int, part: Part = None) -> None:
        """Raise `InputError` where values or levels are too many."""
        if depth > MAX_DEPTH:
            raise self.stop(line, TOO_DEEP, "use fewer levels", part)
        if self.nodes > MAX_VALUES:
            raise self.stop(line, f"more than {MAX_VALUES:,} values with aliases expanded", "split the file", part)

    def stop(self, line: int, what: str, fix: str, part: Part = None) -> InputError:
        """Return the error for a fault that ends reading."""
        self.fault(line, what, fix, part)
        return InputError(self.faults)

    def document(self) -> tuple[Any, int]:
        """Return the only document and its line; nothing on line 1 where there is none."""
        content = None
        for event in self.events:
            if isinstance(event, yaml.DocumentStartEvent):
                if content:
                    raise self.stop(line_of(event), "a second document starts here", "write one document per file")
                event = next(self.events)
                content = self.value(event), line_of(event)
        return content or (None, 1)

    def value(self, event: Any, part: Part = None, is_key: bool = False) -> Any:
        """Return the value that begins with an event, under a key or number of what is read."""
        if isinstance(event, yaml.ScalarEvent) and event.tag is None and event.anchor is None:  # most
            self.nodes += 1
            if self.nodes > MAX_VALUES:
                self.check(line_of(event), self.depth, part)
            text = event.value
            if is_key or event.style or len(text) > MAX_DIGITS:
                return text if is_key and text != "<<" else self.scalar(event, is_key, part)
            return plain_scalar(text)
        line, before = line_of(event), self.nodes
        if isinstance(event, yaml.AliasEvent):
            return self.alias(event, part)
        if event.tag is not None:
            self.fault(line, f"the tag {short_key(event.tag)} is not supported", "remove the tag", part)
        self.nodes += 1
        if isinstance(event, yaml.ScalarEvent):
            self.check(line, self.depth, part)
            value = self.scalar(event, is_key, part)
        else:
            value = self.collection(event, line, part)
        if event.anchor:
            self.anchors[event.anchor] = (value, self.nodes - before)
        return value

    def collection(self, event: Any, line: int, part: Part = None) -> Any:
        """Return the list or mapping that begins with an event."""
        self.check(line, self.depth + 1, part)
        if event.anchor:
            self.anchors[event.anchor] = None
        self.depth += 1
        self.path.append(part)
        value = self.mapping() if isinstance(event, yaml.MappingStartEvent) else self.sequence()
        self.path.pop()
        self.depth -= 1
        return value

    def scalar(self, event: Any, is_key: bool, part: Part = None) -> Any:
        if is_key and event.value == "<<" and not event.style:
            self.fault(line_of(event), "merge keys (<<) are not part of YAML 1.2", "write the keys out", part)
        if is_key or event.style:
            return event.value
        if len(event.value) > MAX_DIGITS and INT.match(event.value):
            what = f"a number of {len(event.value)} digits"
            self.fault(line_of(event), what, f"write at most {MAX_DIGITS}", part)
            return 0
        return plain_scalar.__wrapped__(event.value)  # long: not to be kept

    def alias(self, event: Any, part: Part = None) -> Any:
        known, line = self.anchors.get(event.anchor), line_of(event)
        if known is None:
            why = "refers to a value that contains it" if event.anchor in self.anchors else "has no anchor above it"
            what = f"the alias *{short_key(event.anchor)} {why}"
            raise self.stop(line, what, "write the value out", part)
        value, nodes = known
        self.nodes += nodes
        self.check(line, self.depth + _depth(value), part)
        return value

    def sequence(self) -> list[Any]:
        values: list[Any] = []
        while not isinstance(event := next(self.events), yaml.SequenceEndEvent):
            values.append(self.value(event, len(values)))
        return values

    def mapping(self) -> dict[str, Any]:
        values: dict[str, Any] = {}
        first: dict[str, Any] = {}  # the event of each key
        last = ""
        while not isinstance(event := next(self.events), yaml.MappingEndEvent):
            written = self.value(event, is_key=True)
            key = str(written)
            if isinstance(written, (dict, list)):
                self.fault(line_of(event), _NO_KEY_AS_COLLECTION, "use a word; quote text that starts with { or [")
                key = f"{_NO_KEY_AS_COLLECTION} {line_of(event)}"
            value = self.value(next(self.events), key)
            if value is None and THOUSANDS.match(key) and isinstance(values.get(last), (int, float)):
                fix = "write the number without commas, such as 20000"
                self.fault(line_of(event), f"{values[last]},{key} is read as a number and a key", fix, last)
                values[last] = None  # one fault for 20,000,000
                continue
            if key in values and self.repeated is None:
                self.fault(
                    line_of(event), f"duplicate key, first on line {line_of(first[key])}", "keep one of them", key
                )
                continue
            if key in values and self.repeated is not None:
                place = (*(part for part in self.path if part is not None), key)
                self.repeated.setdefault(place, line_of(first[key]))
            values[key], first[key] = value, event
            last = key
        return values


@lru_cache(maxsize=4096)  # names and numbers repeat
def plain_scalar(text: str) -> Any:
    """Return the value of an unquoted scalar in the core schema of YAML 1.2."""
    if text[:1].isalpha() and text[0] not in "tTfFnN":  # most words: no pattern can match
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


def _parse(text: str, file: str, repeated: dict[KeyPath, int] | None = None) -> tuple[Any, int]:
    """Return the value of a text, and its line; keys that are repeated are noted where a mapping is given for them."""
    content, reader = None, _Reader(iter(()), file, repeated)
    try:
        # The loader's own events, none at the end: `yaml.parse` asks three times for each.
        reader.events = iter(LOADER(text).get_event, None)
        content = reader.document()
    except yaml.YAMLError as error:
        reader.faults.append(_syntax_fault(error, text, file))
    except UnicodeEncodeError:
        reader.fault(1, "contains half of a surrogate pair", "save the file as UTF-8")
    except RecursionError:  # only with the parser in Python, if libyaml is missing
        reader.fault(1, TOO_DEEP, "use fewer levels")
    if content is None or reader.faults:
        raise InputError(reader.faults)
    return content


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


def _depth(value: Any) -> int:
    """Return the levels of nesting of a value; bounded, as is what was built."""
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inside is None else 1 + max(map(_depth, inside), default=0)


# Plain data as YAML text that YAML 1.1 and 1.2 read alike.


_NUMBER = re.compile(r"[-+]?(0o[0-7]+|0x[0-9a-fA-F]+|(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?)")
"""What YAML 1.2 reads as a number, of which YAML 1.1 takes some for text (`1e3`, `08`)."""


class _Dumper(yaml.SafeDumper):
    """Writes scripts as blocks, and lists indented below their key."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002 (its name is PyYAML's)
        """Indent the items of a list, which PyYAML does not."""
        super().increase_indent(flow, False)


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else "'" if _NUMBER.fullmatch(text) else None
    if not all(sign.isprintable() or sign in "\n\t" for sign in text):
        style = '"'  # escapes what YAML 1.1 takes for the end of a line, and 1.2 for a sign
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def yaml_text(data: dict[str, Any]) -> str:
    """Return a mapping as a YAML document, keys in the order that they have."""
    return yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)
