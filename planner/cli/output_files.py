"""Files that a command writes: refused before the work where they cannot be written, replaced as a whole after it."""

from __future__ import annotations

import os

from planner.errors import Fault, ScenarioError


def check_writable(path: str) -> None:
    """Refuse a path that cannot be written before minutes are spent on what goes into it."""
    folder = os.path.dirname(path) or "."
    if os.path.isdir(path):
        raise unwritable_error(path, "is a folder")
    if not os.path.isdir(folder):
        raise unwritable_error(path, f"there is no folder {folder}")
    if not os.access(folder, os.W_OK):
        raise unwritable_error(path, f"folder {folder} cannot be written to")


def write_text(path: str, text: str) -> None:
    """The text into the file; ScenarioError where that fails, the old file then as it was."""
    from planner.loading.scenario_file import write_text_atomically

    try:
        write_text_atomically(path, text)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise unwritable_error(path, getattr(error, "strerror", None) or str(error)) from None


def unwritable_error(path: str, why: str) -> ScenarioError:
    """The fault of a path that cannot be written."""
    what = f"cannot be written: {why[:1].lower()}{why[1:]}"
    return ScenarioError([Fault(path, 0, "", what, "give another path")])
