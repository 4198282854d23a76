"""Paths of a scenario that a setting may name, and suggestions for unknown ones."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any

from planner.documents.validation import Complaint, list_alternatives

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from planner.documents.strict_yaml import KeyPath

UNKNOWN_KEY = "unknown key"
MAX_PATHS = 3
"""Most paths in a suggestion."""

MIN_SIMILARITY = 0.6
SIMILARITY_MARGIN = 0.12
"""Largest loss of similarity against the best path at which another path is also suggested."""

MIN_KEY_SIMILARITY = 0.7
"""Similarity from which the last parts of two paths are taken as the same."""

SKIPPED = ("offers", "measured")
"""Lists whose items are seldom set one by one; paths into them end at their own key."""

OFTEN_SET = (".deadline", "limits.budget_usd", "limits.max_gpus")
LAST_KEY_WEIGHT = 0.95
"""Weight of a path whose end is similar: `deadline=3h` means that of the job."""


def suggest_for_unknown_keys(
    found: list[Complaint], origins: Mapping[KeyPath, str], schema: dict[str, Any], data: Any
) -> list[Complaint]:
    """Return the complaints, those of unknown keys from a setting with the nearest valid paths as fix."""
    complaints: list[Complaint] = []
    known: list[str] = []
    for path, what, fix in found:
        setting = next((text for place, text in origins.items() if place[: len(path)] == path), None)
        if what == UNKNOWN_KEY and setting is not None:
            known = known or list(known_paths(schema, data))
            typed = setting.partition("=")[0].strip()
            close = suggest_paths(typed, known)
            fix = f"did you mean {' or '.join(close)}?" if close else f"{fix}; examples of paths: {_examples(known)}"
        complaints.append((path, what, fix))
    return complaints


def known_paths(schema: dict[str, Any], data: Any) -> Iterator[str]:
    """Yield every path that a setting may name; items of lists by their name in `data`, or as 0."""
    yield from _paths_below(schema, schema, data, ())


def suggest_paths(path: str, known: list[str]) -> list[str]:
    """Return up to three known paths similar to the path or to its end, most similar first."""
    others = [name for name in known if not f"{path}.".startswith(f"{name}.")]  # a correct prefix is no suggestion
    scored = sorted(
        ((_similarity(path.casefold(), name.casefold()), name) for name in others), key=lambda pair: -pair[0]
    )
    if not scored or scored[0][0] < MIN_SIMILARITY:
        return []
    best, first = scored[0]
    near = [
        name
        for score, name in scored
        if score >= max(MIN_SIMILARITY, best - SIMILARITY_MARGIN) and not first.startswith(f"{name}.")
    ]
    return near[:MAX_PATHS]


def _examples(known: list[str]) -> str:
    """Return paths that are often set, as examples."""
    return ", ".join(name for name in known if name.endswith(OFTEN_SET))


def _similarity(path: str, other: str) -> float:
    whole = difflib.SequenceMatcher(None, path, other).ratio()
    end, other_end = path.rpartition(".")[2], other.rpartition(".")[2]
    last = difflib.SequenceMatcher(None, end, other_end).ratio()
    mixed = 1.0 if sorted(path.split(".")) == sorted(other.split(".")) else 0.0  # limits.forbid.gpus
    return max(whole, mixed, LAST_KEY_WEIGHT * last if last > MIN_KEY_SIMILARITY else 0.0, (whole + last) / 2)


def _paths_below(schema: dict[str, Any], node: Any, data: Any, path: tuple[str, ...]) -> Iterator[str]:
    for form in list_alternatives(node, schema):
        for key, inside in form.get("properties", {}).items():
            here = (*path, key)
            yield ".".join(here)
            if key not in SKIPPED:
                yield from _paths_below(schema, inside, data.get(key) if isinstance(data, dict) else None, here)
        items = form.get("items")
        if items is not None and any("properties" in form for form in list_alternatives(items, schema)):
            for name, item in _items(data):
                yield from _paths_below(schema, items, item, (*path, name))


def _items(data: Any) -> list[tuple[str, Any]]:
    if not isinstance(data, list) or not data:
        return [("0", None)]
    named = [(str(item.get("name", index)), item) for index, item in enumerate(data) if isinstance(item, dict)]
    return named or [("0", None)]
