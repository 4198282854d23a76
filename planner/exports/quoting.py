"""The one place where text that others wrote becomes a part of a shell command or of a comment."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

from planner.errors import printable

if TYPE_CHECKING:
    from collections.abc import Iterable


def shell_word(text: object) -> str:
    """Return text as one word of a shell command, in which the shell replaces and starts nothing."""
    return shlex.quote(str(text))


def shell_inside(text: str) -> str:
    """Return text for a place between double quotes of a shell command, a `${NAME:-...}` in them included."""
    return re.sub(r'([\\$"`}])', r"\\\1", text)


def document(text: str) -> str:
    """Return a text for people, in which no sign is one that a terminal obeys."""
    return "\n".join(map(printable, text.split("\n")))


def comment(lines: Iterable[str]) -> str:
    """Return lines as comments of YAML or a shell script; none of them can end before its last sign.

    YAML takes more than a line feed for the end of a line, so every sign that is not printed is written as an escape.
    """
    return "".join(f"# {printable(line)}".rstrip() + "\n" for line in lines)
