"""What only a terminal gets: colour, and progress on standard error."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from typing import TYPE_CHECKING

from planner.errors import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.progress import Progress

QUIET_SECONDS = 1.0
"""Work shorter than this shows nothing."""


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


class ProgressLine:
    """A line on the terminal from the first second of work on: what is done, how much of it, and the elapsed time."""

    def __init__(self, what: str) -> None:
        self._what, self._began = printable(what), time.monotonic()
        self._lock, self._ended, self._done = threading.Lock(), False, 0
        self._shown: Progress | None = None
        self._total: int | None = None
        self._timer = threading.Timer(QUIET_SECONDS, self._show)
        self._timer.daemon = True
        self._timer.start()

    def _show(self) -> None:
        """Put the line on the terminal; rich is loaded here because most commands end before."""
        from rich.console import Console
        from rich.markup import escape
        from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Line

        with self._lock:
            if self._ended:
                return
            counts = (BarColumn(bar_width=30), MofNCompleteColumn()) if self._total else ()
            columns = (SpinnerColumn(), TextColumn("{task.description}"), *counts, TimeElapsedColumn())
            console = Console(stderr=True, no_color=not wants_color())
            self._shown = Line(*columns, console=console, transient=True, get_time=time.monotonic)
            task = self._shown.add_task(escape(self._what), total=self._total, completed=self._done)
            self._shown.tasks[task].start_time = self._began
            self._shown.start()

    def update(self, done: int, total: int) -> None:
        """Show how much is done."""
        with self._lock:
            is_new, self._done, self._total = self._total is None, done, total
            if self._shown is None:
                return
            if not is_new:
                self._shown.update(self._shown.task_ids[0], completed=done, total=total)
                return
            self._shown.stop()  # the line gets a bar
        self._show()

    def end(self) -> None:
        """Take the line off the terminal."""
        self._timer.cancel()
        with self._lock:
            self._ended = True
            if self._shown is not None:
                self._shown.stop()


@contextlib.contextmanager
def show_progress(what: str) -> Iterator[Callable[[int, int], None] | None]:
    """Show work that takes longer than a second on the terminal; nothing if messages go to a file.

    Yields what shows how much is done, `(done, total)`; None where nothing is shown.
    """
    if not sys.stderr.isatty():
        yield None
        return
    line = ProgressLine(what)
    try:
        yield line.update
    finally:
        line.end()
