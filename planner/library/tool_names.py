"""Names of the tools that a plan is exported to, by the files of `models/exports`."""

from __future__ import annotations

from functools import cache

from planner.documents.files import data_folder


@cache
def tool_names() -> tuple[str, ...]:
    """Return the tools of training and the launchers: a file is named by its tool and version."""
    files = sorted((data_folder("models") / "exports").glob("*.yaml"))
    return tuple(dict.fromkeys(path.stem.rpartition("-")[0] for path in files))
