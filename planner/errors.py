"""Errors that a caller may catch, faults of the input and places in it, and faults in the words of Python.

Faults are written once, in the words of the command line. The public functions are those of the modules, behind a
door that translates: `--tokens-per-sample` is `tokens_per_sample` there. Commands do not pass it.
"""

from __future__ import annotations

import functools
import inspect
import json
import os
import re
import shlex
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence


def printable(text: str) -> str:
    r"""Return text of unknown origin as it may be shown: what a terminal would obey as an escape, such as `\u001b`.

    The escapes are those of JSON, so that a JSON document stays one with the same content.
    """
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() else json.dumps(sign)[1:-1] for sign in text)


def format_value(value: Any) -> str:
    """Return a value as a user wrote it, cut if it is long."""
    if isinstance(value, (dict, list, tuple)):
        return "a list" if isinstance(value, (list, tuple)) else "a mapping"
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else text[:57] + "..."


def escaped(text: str) -> str:
    """Return text of unknown origin as a part of HTML or SVG: between tags, or in a quoted attribute."""
    import html  # late: its table of names takes a millisecond, and few commands write pages

    return html.escape(text)


class Fault(NamedTuple):
    """One fault of an input file, shown as `file:line: where: what; fix`.

    `line` is 1-based, 0 if unknown; `where` is a path such as `jobs.0.deadline`.
    """

    file: str
    line: int
    where: str
    what: str
    fix: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        parts = [place, self.where, self.what] if self.where else [place, self.what]
        return printable(": ".join(parts) + (f"; {self.fix}" if self.fix else ""))


MAX_WHERE, MAX_TEXT = 200, 1000
"""Most characters of a place, and of what and fix: a fault may quote what a user wrote."""


def _shortened(fault: Fault) -> Fault:
    where, what, fix = (
        text if len(text) <= most else f"{text[: most - 3]}..."
        for text, most in ((fault.where, MAX_WHERE), (fault.what, MAX_TEXT), (fault.fix, MAX_TEXT))
    )
    return fault._replace(where=where, what=what, fix=fix)


class PlannerError(Exception):
    """Base of every error that this package raises on purpose."""


class InputError(PlannerError):
    """Input that cannot be used; has every fault found, not only the first."""

    def __init__(self, faults: Sequence[Fault]):
        self.faults = tuple(sorted(_shortened(fault) for fault in faults))
        super().__init__("\n".join(str(fault) for fault in self.faults))

    def __reduce__(self) -> tuple[type[InputError], tuple[tuple[Fault, ...]]]:
        """Rebuild from the faults: what `Exception` keeps is the text, and a pool of processes sends errors back."""
        return type(self), (self.faults,)


class ScenarioError(InputError):
    """A scenario, an inventory or a plan file that cannot be used."""


class LibraryError(InputError):
    """A card in models/ that cannot be used, or an unknown name."""


class SolverError(PlannerError):
    """A solver that is missing, rejected the program or failed."""


class NoPlanError(PlannerError):
    """A plan was requested but none exists."""


class TimeIsUpError(NoPlanError):
    """The time that the caller allows is up, and there is no answer yet."""


class MissingExtraError(PlannerError, ImportError):
    """A package that only some functions need is not installed; the message names the extra that has it."""


class CancelledError(PlannerError):
    """The caller has cancelled the call."""


@contextmanager
def collect_faults(faults: list[Fault]) -> Iterator[None]:
    """Add the faults of an `InputError` that is raised inside to those found before, and go on."""
    try:
        yield
    except InputError as error:
        faults.extend(error.faults)


def raise_faults(faults: Sequence[Fault], kind: type[InputError] = InputError) -> None:
    """Raise an error with every fault; nothing happens where there is none."""
    if faults:
        raise kind(faults)


class AuditError(PlannerError):
    """A fault of the planner: search and evaluation, or plan and check, have different figures of one run."""


Part = str | int | None
"""A key of a mapping or number of a list; None where a value is no part of another, or a key."""
KeyPath = tuple[str | int, ...]
"""A place in a document: mapping keys and list indices from the top."""


SHOWN_OF_KEY = 20
"""Characters of an unknown key that a fault shows."""


def short_key(key: str) -> str:
    """Return a key as a fault shows it: no more than its start, because the file may be one of passwords."""
    return key if len(key) <= SHOWN_OF_KEY else f"{key[:SHOWN_OF_KEY]}..."


def plan_with(path: str, values: Iterable[object] | str) -> str:
    """Return what to plan with, as it is typed: `plan with --set 'limits.gpus.forbid=[T4]'`; a text is one value."""
    value = values if isinstance(values, str) else f"[{', '.join(map(str, values))}]"
    return f"plan with --set {shlex.quote(f'{path}={value}')}"


# Messages of the functions of the package: where commands say an option, these say the argument.


ARGUMENTS = {"time-limit": "time_limit_seconds", "trace": "traces", "cluster": "workers"}
"""Options whose argument has another name than theirs with underscores."""

_COMMAND = r"\bplanner [a-z][a-z-]*(?:,? (?!or |and )(?:[a-z-]+|[A-Z]+|--[a-z-]+))*"
_VALUE = r"(?P<value>'[^']*'|\"[^\"]*\"|[A-Z]+\b|\$?[\w.]*\d[\w.:/%-]*)"
_SAID = re.compile(rf"(?P<command>{_COMMAND})|(?<![\w-])--(?P<option>[a-z][a-z0-9-]*[a-z0-9])(?:[ =]{_VALUE})?")
_LEADS = re.compile(r"--(?P<option>[a-z][a-z0-9-]*[a-z0-9])(?: (?P<value>.+))?", re.DOTALL)


def argument_of(option: str) -> str:
    """Return the Python argument of an option that is given without its hyphens in front."""
    return ARGUMENTS.get(option, option.replace("-", "_"))


def _said(found: re.Match[str]) -> str:
    """Return an option as Python writes it; a whole command, which a user types, stays as it is."""
    parts = found.groupdict()
    if parts.get("command"):
        return found[0]
    value = parts["value"]
    if parts["option"] == "set":
        return "a setting" if value is None else f"the setting {value}"
    argument = argument_of(parts["option"])
    return argument if value is None else f"{argument}={value}"


def python_words(text: str) -> str:
    """Return a message of the command line in the words of Python.

    >>> python_words("give --tokens, or --samples with --tokens-per-sample 512; planner offers import --template")
    'give tokens, or samples with tokens_per_sample=512; planner offers import --template'
    """
    if "--" not in text:
        return text
    if whole := _LEADS.fullmatch(text):  # the place of a fault is an option with its value, whatever that holds
        return _said(whole)
    return _SAID.sub(_said, text)


def translated(error: InputError) -> InputError:
    """Return the error with its faults in the words of Python; itself where they have no option."""
    faults = [
        fault._replace(
            file=python_words(fault.file),
            where=python_words(fault.where),
            what=python_words(fault.what),
            fix=python_words(fault.fix),
        )
        for fault in error.faults
    ]
    return error if tuple(faults) == error.faults else type(error)(faults)


_OF_CLASS = {"SolveOptions", "Library", "Plan", "Scenario", "Architecture", "Result"}
"""Classes of the package that arguments have."""
_WORDS = {
    "str": "text",
    "Path": "path",
    "int": "number",
    "float": "number",
    "bool": "truth value",
    "Sequence[str]": "list of texts",
    "Callable": "function",
    "ProgressCallback": "function",
    "Executor": "executor",
}
"""What is said of a kind of argument that is no class of the package."""


def _is_number(value: Any) -> bool:
    return hasattr(value, "__float__") and not isinstance(value, str)


def _are_texts(value: Any) -> bool:
    """Return whether a value is a text or a path, or several."""
    values = [*value] if hasattr(value, "__iter__") and not hasattr(value, "keys") else [value]
    return all(isinstance(part, (str, os.PathLike)) for part in values)


_IS: dict[str, Callable[[Any], bool]] = {
    "str": lambda value: isinstance(value, str),
    "Path": lambda value: isinstance(value, os.PathLike),
    "int": _is_number,
    "float": _is_number,
    "bool": lambda value: isinstance(value, bool) or type(value).__name__ in ("bool", "bool_"),  # of numpy, too
    "None": lambda value: value is None,
    "Sequence[str]": _are_texts,
    "Callable": callable,
    "ProgressCallback": callable,
    "Executor": lambda value: hasattr(value, "submit"),
}
"""Whether a value is of a kind that annotations name."""


def _kinds_of(annotation: Any) -> tuple[str, ...] | None:
    """Return the kinds that an annotation allows, None where values are looked at by the function itself.

    >>> _kinds_of("int | str | None"), _kinds_of("Settings")
    (('int', 'str', 'None'), None)
    """
    pieces = re.sub(r"^Callable\[.*\](?= \| None$|$)", "Callable", str(annotation)).split(" | ")
    return tuple(pieces) if all(piece in _IS or piece in _OF_CLASS for piece in pieces) else None


def _is_of(value: Any, kind: str) -> bool:
    return isinstance(value, getattr(import_module("planner"), kind)) if kind in _OF_CLASS else _IS[kind](value)


def _check_kinds(arguments: Mapping[str, Any], typed: Mapping[str, tuple[str, ...]]) -> None:
    """Raise InputError for an argument that is of none of its kinds."""
    for name, value in arguments.items():
        kinds = typed.get(name)
        if kinds is None or any(_is_of(value, kind) for kind in kinds):
            continue
        wanted = [kind for kind in kinds if kind != "None"]
        gives = dict.fromkeys(_WORDS.get(kind, f"planner.{kind}") for kind in wanted)
        what = f"is no {_WORDS.get(wanted[0], wanted[0])}: {type(value).__name__}"
        raise InputError([Fault(name, 0, "", what, f"give {' or '.join(gives)}")])


@functools.cache
def in_python_words(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a public function whose faults name arguments; it is pickled by the name that the package has for it."""
    given = inspect.signature(function)
    named = [
        parameter
        for parameter in given.parameters.values()
        if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]
    typed = {parameter.name: kinds for parameter in named if (kinds := _kinds_of(parameter.annotation)) is not None}

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if typed:
            _check_kinds(given.bind_partial(*args, **kwargs).arguments, typed)
        try:
            return function(*args, **kwargs)
        except InputError as error:
            told = translated(error)
            if told is error:
                raise
            raise told.with_traceback(error.__traceback__) from error.__cause__

    call.__module__ = "planner"
    return call


def said_in_python(what: Any) -> Any:
    """Return a public name as the package gives it out: functions behind the door, all else as it is."""
    return in_python_words(what) if inspect.isfunction(what) else what
