"""What a command prints and writes: text or JSON on standard output, files replaced as a whole."""

from __future__ import annotations

import contextlib
import os
import textwrap
from typing import TYPE_CHECKING, Any

import click

from planner.cli.terminal import count_columns, wants_color
from planner.errors import Fault, InputError, printable
from planner.records import record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pydantic import BaseModel


STANDARD_OUTPUT = ("-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")
"""Paths that mean standard output."""


SAVING = "planner.saving"
"""Key of the running command's context: the command that saves its question, where options asked it."""
READ = "planner.read"
"""Key of the running command's context: lines on the configuration of a training tool that it read."""


@record(frozen=True)
class Output:
    """Where the answer of a command goes: text or JSON on standard output, a picture and a file if asked for."""

    as_json: bool
    plot: str | None = None
    path: str | None = None

    def check(self) -> None:
        """Refuse a file that cannot be written before the answer is computed."""
        from planner.documents.files import check_writable

        for path in self._files():
            check_writable(path)
        self._check_apart()
        if self.plot is not None:
            from planner.report.figures.plot import PLOT_SUFFIXES, check_picture

            check_picture(self.plot, PLOT_SUFFIXES)

    def _files(self) -> list[str]:
        """Return the files that are written."""
        return [path for path in (self.path, self.plot) if path is not None and path not in STANDARD_OUTPUT]

    def _check_apart(self) -> None:
        """Refuse a file that the command has read, and one file for both the answer and its picture."""
        from planner.documents.files import check_unread

        for path in self._files():
            check_unread(path)
        if len({os.path.realpath(path) for path in self._files()}) < len(self._files()):
            raise InputError([Fault(self.path or "", 0, "", "is both the answer and its picture", "name two files")])

    def write(
        self,
        answer: BaseModel,
        render: Callable[[Any], str],
        draw: Callable[[Any, str, Sequence[str]], None] | None = None,
        document: Callable[[Any], str] | None = None,
        color: bool = False,
    ) -> None:
        """Print the answer, and write and draw it; a document that goes to standard output replaces the text there.

        Parameters
        ----------
        answer
            The typed result of a command.
        render
            Returns the text of the answer.
        draw
            Draws the answer into a file with the lines of the text as caption; None if there is nothing to draw.
        document
            Returns what the file is to hold; None if there is nothing to write.
        color
            Mark the summary and the labels where a terminal shows the text.
        """
        self._check_apart()
        written = document(answer) if self.path is not None and document is not None else None
        if written is not None and self.path is not None and self.path not in STANDARD_OUTPUT:
            from planner.documents.files import write_text_atomically

            write_text_atomically(self.path, written)
        text = "" if self.as_json and self.plot is None else _rendered(answer, render)
        self._show_read()
        if self.plot is not None and draw is not None:
            with silent_matplotlib():
                draw(answer, self.plot, text.splitlines())
        if written is not None and self.path in STANDARD_OUTPUT:
            show(written.removesuffix("\n"))
        elif self.as_json:
            write_json(answer.model_dump(mode="json", by_alias=True))
        else:
            show(text, color=color)
            context = click.get_current_context(silent=True)
            if context is not None and SAVING in context.meta:
                show(f"\nTo keep this question: {context.meta[SAVING]}")

    def _show_read(self) -> None:
        """Print what was read of a configuration: above the text, or on standard error where that is a document."""
        context = click.get_current_context(silent=True)
        lines = context.meta.get(READ, ()) if context is not None else ()
        is_document = self.as_json or self.path in STANDARD_OUTPUT
        for line in lines:
            show("\n".join(_wrapped(line)), err=is_document)
        if lines and not is_document:
            show("")


def draw_answer(answer: Any, path: str, caption: Sequence[str]) -> None:
    """Draw an answer into a file; what draws is loaded only where a picture is asked for."""
    from planner.report.figures.plot import draw_file

    draw_file(answer, path, caption)


def _wrapped(line: str) -> list[str]:
    """Return a line of what was read, in the width of standard output."""
    indent = "  " * bool(line[:1] == " ")
    return textwrap.wrap(line.strip(), count_columns() - 2, initial_indent=indent, subsequent_indent=indent + "  ")


def _rendered(answer: Any, render: Callable[[Any], str]) -> str:
    """Return the text of an answer, as wide as standard output."""
    from planner.report.format import text_width

    with text_width(count_columns()):
        return render(answer)


@contextlib.contextmanager
def silent_matplotlib() -> Iterator[None]:
    """Keep to itself what matplotlib says about its folders, the fonts and an unknown MPLBACKEND."""
    import logging
    import warnings

    os.environ["MPLBACKEND"] = "agg"
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    with warnings.catch_warnings(action="ignore"):
        yield


def show(text: str, err: bool = False, color: bool = False) -> None:
    """Print text of which nothing acts on the terminal but the line breaks, and the colours if asked for.

    A message that standard error cannot take is dropped: the exit code says as much.
    """
    lines = [printable(line) for line in text.split("\n")]
    if color and wants_color():
        from planner.report.plan_text import colorize

        lines = colorize(lines)
    with contextlib.suppress(OSError) if err else contextlib.nullcontext():
        click.echo("\n".join(lines), err=err)


def write_either(as_json: bool, document: Any, render: Callable[[Any], str]) -> None:
    """Print a document as JSON, or as the text that `render` makes of it."""
    if as_json:
        write_json(document)
    else:
        show(_rendered(document, render))


def write_json(document: Any) -> None:
    """Print one JSON document on standard output."""
    from planner.documents.json_file import json_text

    show(json_text(document))
