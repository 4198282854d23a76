"""Short forms of a scenario: a plain value that abbreviates a mapping, such as `confidence: 0.8`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from planner.documents.strict_yaml import KeyPath

NAMES = ("providers", "gpus", "regions", "tiers")
"""Limits whose names alone are what is allowed."""

SHORT_FORMS: tuple[tuple[KeyPath, tuple[type, ...], str], ...] = (
    # place ("*": every item), types of the short form, and the key of the mapping that it abbreviates
    (("jobs", "*", "confidence"), (int, float), "deadline"),
    (("jobs", "*", "trials"), (int,), "count"),
    (("jobs", "*", "after", "*"), (str,), "job"),
    *((("limits", name), (str, list), "allow") for name in NAMES),
)

REPLACED: tuple[KeyPath, ...] = (
    ("objective",),
    *(("jobs", "*", key) for key in ("architecture", "global_batch", "loss_law")),
)
"""Places where a mapping says something else than a word or number: nothing of these is left to keep."""


def expand_short_form(value: Any, path: KeyPath, part: str) -> dict[str, Any] | list[Any] | None:
    """Return the mapping or list that a plain value abbreviates, where a setting names a part of it.

    None where it has no parts. One value abbreviates a list of one; whether a list may be there is left to validation.
    """
    if part.isdecimal():
        return value if isinstance(value, list) else [value]
    if any(_is_at(path, place) for place in REPLACED) and not isinstance(value, list):
        return {}
    for place, types, key in SHORT_FORMS:
        if _is_at(path, place) and isinstance(value, types) and not isinstance(value, bool):
            return {key: value}
    return None


def _is_at(path: KeyPath, place: KeyPath) -> bool:
    return len(path) == len(place) and all(
        want in ("*", part) and isinstance(part, int) == (want == "*") for part, want in zip(path, place, strict=True)
    )
