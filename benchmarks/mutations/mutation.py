"""One deliberate bug: a text that is replaced in one file, and the tests that should notice."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path

LOOP_VARIABLE = "one"
"""The word of an anchor that matches any name of a variable."""


class AnchorError(ValueError):
    """A mutation does not apply: its text is not in its file exactly once, or what it makes is no Python."""


@dataclass(frozen=True)
class Mutation:
    """A single wrong term; `old` occurs exactly once in `file`, a path below the root of the repository.

    `tests` are files or node ids of pytest, the fastest first. `equivalent` is empty, or the reason why no test can
    notice: the program answers the same.
    """

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    equivalent: str = ""

    def mutated(self, root: Path) -> str:
        """Return the text of the file with the bug in it; AnchorError where it cannot be put there."""
        path = root / self.file
        if not path.is_file():
            raise AnchorError(f"no file {self.file}")
        text = path.read_text(encoding="utf-8")
        found = list(_anchor(self.old).finditer(text))
        if len(found) != 1:
            raise AnchorError(f"{self.file} holds {self.old!r} {len(found)} times")
        begin, end = found[0].span()
        name = found[0].groupdict().get(LOOP_VARIABLE, LOOP_VARIABLE)
        made = text[:begin] + re.sub(rf"\b{LOOP_VARIABLE}\b", name, self.new) + text[end:]
        if path.suffix == ".py":
            try:
                ast.parse(made)
            except SyntaxError as error:
                raise AnchorError(f"{self.file} with {self.new!r} is no Python: {error.msg}") from error
        return made


def _anchor(old: str) -> re.Pattern[str]:
    """Return the pattern of an anchor: its text, in which the word `one` matches any variable, each time the same.

    A loop variable may so get a better name, and no mutation has to follow.
    """
    first, *rest = re.split(rf"\b{LOOP_VARIABLE}\b", old)
    named = [rf"\b(?P<{LOOP_VARIABLE}>[a-z_]+)\b", *[rf"\b(?P={LOOP_VARIABLE})\b"] * (len(rest) - 1)]
    return re.compile(
        re.escape(first) + "".join(name + re.escape(part) for name, part in zip(named, rest, strict=False))
    )


class Area:
    """The mutations of one file after another, for a catalogue that reads as a list."""

    def __init__(self) -> None:
        self.mutations: list[Mutation] = []
        self.file = ""
        self.tests: tuple[str, ...] = ()

    def of(self, file: str, *tests: str) -> None:
        """Go on with another file, whose mutations these tests should notice unless a mutation names others."""
        self.file, self.tests = file, tests

    def add(self, name: str, old: str, new: str, *tests: str, equivalent: str = "") -> None:
        """Add a mutation of the present file; `tests` are run before those of the file."""
        every = tuple(dict.fromkeys((*tests, *self.tests)))
        self.mutations.append(Mutation(name, self.file, old, new, every, equivalent))
