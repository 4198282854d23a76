"""Errors that a caller may catch, faults of the input, and places in it."""

from __future__ import annotations

import json
import shlex
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


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
