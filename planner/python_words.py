"""Messages of the functions of the package in the words of Python: where commands say an option, they say the argument.

Faults are written once, in the words of the command line. The public functions are those of the modules, behind a
door that translates: `--tokens-per-sample` is `tokens_per_sample` there. Commands do not pass it.
"""

from __future__ import annotations

import functools
import inspect
import re
from importlib import import_module
from typing import TYPE_CHECKING, Any

from planner.errors import Fault, InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

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


_KINDS = {"options": "SolveOptions", "library": "Library"}
"""Arguments that functions have in common, and the class of each in the package."""


def _check_kinds(arguments: Mapping[str, Any], typed: list[tuple[str, str]]) -> None:
    """Raise InputError for an argument that is no object of its class."""
    for name, kind in typed:
        value = arguments.get(name)
        if value is not None and not isinstance(value, getattr(import_module("planner"), kind)):
            what = f"is no {kind}: {type(value).__name__}"
            raise InputError([Fault(name, 0, "", what, f"give planner.{kind}")])


@functools.cache
def in_python_words(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a public function whose faults name arguments; it is pickled by the name that the package has for it."""
    given = inspect.signature(function)
    typed = [(name, kind) for name, kind in _KINDS.items() if name in given.parameters]

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
