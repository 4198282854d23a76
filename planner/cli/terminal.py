"""What only a terminal gets: colour, and progress on standard error."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING, Any

import click

from planner.errors import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CLEAR_LINE = "\r\033[K"
"""Moves to the start of the line and erases it."""


def wants_color() -> bool:
    """Return whether standard output is a terminal whose user has not refused colour."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def count_columns() -> int:
    """Return the columns of standard output: what COLUMNS says, in a pipe too, else those of the terminal, else 80."""
    told = os.environ.get("COLUMNS", "")
    if told.isdecimal() and len(told) < 6:
        return int(told)
    with contextlib.suppress(OSError, ValueError):  # no file behind it
        return os.get_terminal_size(sys.stdout.fileno()).columns
    return 80


@contextlib.contextmanager
def show_progress(what: str) -> Iterator[None]:
    """Show a line on the terminal during the work inside; nothing if messages go to a file."""
    shown = sys.stderr.isatty()
    if shown:
        click.echo(f"{printable(what)} ...", err=True, nl=False)
    try:
        yield
    finally:
        if shown:
            click.echo(CLEAR_LINE, err=True, nl=False)


def count_cells(done: int, cells: int) -> None:
    """Show on the terminal how many cells of a sweep are solved."""
    if sys.stderr.isatty():
        click.echo(f"{CLEAR_LINE}{done:,} of {cells:,} solved", err=True, nl=False)


@contextlib.contextmanager
def show_replays(what: str) -> Iterator[Callable[[int, int], None] | None]:
    """Show `what`, then a bar of the replays done; None if messages go to a file."""
    if not sys.stderr.isatty():
        yield None
        return
    with show_progress(what), contextlib.ExitStack() as stack:
        bars: list[Any] = []

        def progress(done: int, runs: int) -> None:
            if not bars:
                click.echo(CLEAR_LINE, err=True, nl=False)
                bars.append(stack.enter_context(click.progressbar(length=runs, label="replaying", file=sys.stderr)))
            bars[0].update(done - bars[0].pos)

        yield progress
