"""What a command prints and writes: text or JSON on standard output, files replaced as a whole."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from planner.errors import Fault, ScenarioError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pydantic import BaseModel


@dataclass(frozen=True)
class Output:
    """Where the answer of a command goes: standard output as text or JSON, and a picture if asked for."""

    as_json: bool
    plot: str | None = None

    def check_plot(self) -> None:
        """Refuse a picture that cannot be written before the answer is computed."""
        if self.plot is not None:
            from planner.report.plots.style import checked_suffix

            checked_suffix(self.plot)
            check_writable(self.plot)

    def write(
        self,
        answer: BaseModel,
        render: Callable[[Any], str],
        draw: Callable[[Any, str, Sequence[str]], None] | None = None,
    ) -> None:
        """Print the answer, and draw it.

        Parameters
        ----------
        answer
            The typed result of a command.
        render
            Returns the text of the answer.
        draw
            Draws the answer into a file with the lines of the text as caption; None if there is nothing to draw.
        """
        text = "" if self.as_json and self.plot is None else render(answer)
        if self.plot is not None and draw is not None:
            try:
                draw(answer, self.plot, text.splitlines())
            except OSError as error:
                raise unwritable_error(self.plot, error.strerror or str(error)) from None
        if self.as_json:
            write_json(answer.model_dump(mode="json", by_alias=True))
        else:
            click.echo(text)


def write_json(document: Any) -> None:
    """Print one JSON document on standard output."""
    click.echo(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False))


def check_writable(path: str) -> None:
    """Refuse a path that cannot be written before the answer is computed."""
    folder = os.path.dirname(path) or "."
    if os.path.isdir(path):
        raise unwritable_error(path, "is a folder")
    if not os.path.isdir(folder):
        raise unwritable_error(path, f"there is no folder {folder}")
    if not os.access(folder, os.W_OK):
        raise unwritable_error(path, f"folder {folder} is not writable")


def write_text(path: str, text: str) -> None:
    """Replace the content of a file; on `ScenarioError` the old content is unchanged."""
    from planner.documents.files import write_text_atomically

    try:
        write_text_atomically(path, text)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise unwritable_error(path, getattr(error, "strerror", None) or str(error)) from None


def unwritable_error(path: str, why: str) -> ScenarioError:
    """Return the error of a path that cannot be written."""
    what = f"cannot be written: {why[:1].lower()}{why[1:]}"
    return ScenarioError([Fault(path, 0, "", what, "give another path")])
