"""The one place where text that others wrote becomes a part of a shell command or of a comment."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from planner.errors import printable

if TYPE_CHECKING:
    from collections.abc import Iterable


def shell_word(text: object) -> str:
    """Return text as one word of a shell command, in which the shell replaces and starts nothing.

    A name that begins with a hyphen, which a command would take for an option, is a file of this folder: `./-name`.
    """
    word = str(text)
    return shlex.quote(f"./{word}" if word.startswith("-") else word)


def comment(lines: Iterable[str]) -> str:
    """Return lines as comments of YAML or a shell script; none of them can end before its last sign.

    YAML takes more than a line feed for the end of a line, so every sign that is not printed is written as an escape.
    """
    return "".join(f"# {printable(line)}".rstrip() + "\n" for line in lines)
