"""The paths of a scenario that a setting may name, and the nearest of them to one that leads nowhere."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Any

from planner.documents.strict_yaml import Path_
from planner.documents.validation import Complaint, forms_of

UNKNOWN_KEY = "unknown key"
MOST = 3
CUTOFF = 0.6
CLOSE = 0.12
"""How much less alike than the nearest path another may be to be told, too."""
ALIKE = 0.7
"""Likeness from which the last parts of two paths are taken to mean the same."""
SKIPPED = ("offers", "measured")
"""Lists whose items are seldom set one by one; what leads into them is told as far as their own key."""
OFTEN_SET = (".deadline", "limits.budget_usd", "limits.max_gpus")
ENDS_ALIKE = 0.95
"""Weight of a path of which only the end is alike: `deadline=3h` means that of the job."""


def renamed(found: list[Complaint], origins: Mapping[Path_, str], schema: dict[str, Any], data: Any) -> list[Complaint]:
    """The complaints, where a setting made an unknown key told with the nearest valid paths as a whole."""
    told: list[Complaint] = []
    known: list[str] = []
    for path, what, fix in found:
        setting = next((text for place, text in origins.items() if place[: len(path)] == path), None)
        if what == UNKNOWN_KEY and setting is not None:
            known = known or list(known_paths(schema, data))
            typed = setting.partition("=")[0].strip()
            close = nearest_paths(typed, known)
            fix = f"did you mean {' or '.join(close)}?" if close else f"{fix}; paths are such as {_examples(known)}"
        told.append((path, what, fix))
    return told


def known_paths(schema: dict[str, Any], data: Any) -> Iterator[str]:
    """Every path that a setting may name; items of lists by the names that they have in `data`, or as 0."""
    yield from _below(schema, schema, data, ())


def nearest_paths(path: str, known: list[str]) -> list[str]:
    """Up to three known paths that look like the path as a whole or by its end, the most alike first."""
    others = [one for one in known if not f"{path}.".startswith(f"{one}.")]  # what is right already needs no telling
    scored = sorted(((_likeness(path.casefold(), one.casefold()), one) for one in others), key=lambda pair: -pair[0])
    if not scored or scored[0][0] < CUTOFF:
        return []
    best, first = scored[0]
    near = [one for score, one in scored if score >= max(CUTOFF, best - CLOSE) and not first.startswith(f"{one}.")]
    return near[:MOST]


def _examples(known: list[str]) -> str:
    """Paths that are often set, for one that is like none."""
    return ", ".join(one for one in known if one.endswith(OFTEN_SET))


def _likeness(path: str, other: str) -> float:
    whole = difflib.SequenceMatcher(None, path, other).ratio()
    end, other_end = path.rpartition(".")[2], other.rpartition(".")[2]
    last = difflib.SequenceMatcher(None, end, other_end).ratio()
    mixed = 1.0 if sorted(path.split(".")) == sorted(other.split(".")) else 0.0  # limits.forbid.gpus
    return max(whole, mixed, ENDS_ALIKE * last if last > ALIKE else 0.0, (whole + last) / 2)


def _below(schema: dict[str, Any], node: Any, data: Any, path: tuple[str, ...]) -> Iterator[str]:
    for form in forms_of(node, schema):
        for key, inside in form.get("properties", {}).items():
            here = (*path, key)
            yield ".".join(here)
            if key not in SKIPPED:
                yield from _below(schema, inside, data.get(key) if isinstance(data, dict) else None, here)
        items = form.get("items")
        if items is not None and any("properties" in one for one in forms_of(items, schema)):
            for name, item in _items(data):
                yield from _below(schema, items, item, (*path, name))


def _items(data: Any) -> list[tuple[str, Any]]:
    if not isinstance(data, list) or not data:
        return [("0", None)]
    named = [(str(item.get("name", index)), item) for index, item in enumerate(data) if isinstance(item, dict)]
    return named or [("0", None)]
