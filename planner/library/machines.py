"""What is known of instance types by their name: `models/machines/`."""

from __future__ import annotations

from functools import cache
from typing import Any

from planner.documents.files import data_folder, read_text
from planner.documents.strict_yaml import parse_value


@cache
def _read_links(file: str) -> tuple[tuple[str, tuple[str, ...], str], ...]:
    rows: list[dict[str, Any]] = parse_value(read_text(file), file)
    return tuple(
        (row["provider"], tuple(name.casefold() for name in row["instances"]), row["interconnect"]) for row in rows
    )


def known_interconnect(provider: str, instance: str) -> str | None:
    """Return the link between the GPUs of an instance type; None where nothing is known of that name."""
    name = instance.casefold()
    for owner, beginnings, link in _read_links(str(data_folder("models") / "machines" / "interconnect.yaml")):
        if owner == provider.casefold() and name.startswith(beginnings):
            return link
    return None
