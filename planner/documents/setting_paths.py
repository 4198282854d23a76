"""Paths of a scenario that a setting may name, and suggestions for unknown ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner.documents.validation import UNKNOWN_KEY, Complaint, forms_of, list_alternatives

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from planner.documents.strict_yaml import KeyPath

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
            known = known or list(dict.fromkeys(known_paths(schema, data)))  # a key of both forms of a job is one
            typed = setting.partition("=")[0].strip()
            close = suggest_paths(typed, known)
            often = [name for name in known if name.endswith(OFTEN_SET)]
            examples = ", ".join(name for name in often if not _has_shorter(name, often))
            fix = f"did you mean {' or '.join(close)}?" if close else f"{fix}; examples of paths: {examples}"
        complaints.append((path, what, fix))
    return complaints


def suggest_paths(path: str, known: list[str]) -> list[str]:
    """Return up to three known paths similar to the path or to its end, most similar first."""
    others = [name for name in known if not f"{path}.".startswith(f"{name}.")]  # a correct prefix is no suggestion
    scores = {name: _similarity(path.casefold(), name.casefold()) for name in others}
    ranked = sorted(others, key=lambda name: -scores[name])
    if not ranked:
        return []
    least = max(MIN_SIMILARITY, scores[ranked[0]] - SIMILARITY_MARGIN)
    near = [name for name in ranked if scores[name] >= least and not ranked[0].startswith(f"{name}.")]
    return [name for name in near if not _has_shorter(name, near)][:MAX_PATHS]


def _has_shorter(path: str, others: list[str]) -> bool:
    """Return whether the same key stands further out: `jobs.a.deadline` is meant, not `jobs.a.confidence.deadline`."""
    above, _, key = path.rpartition(".")
    return any(key == other.rpartition(".")[2] and above.startswith(f"{other.rpartition('.')[0]}.") for other in others)


def _similarity(path: str, other: str) -> float:
    import difflib  # late: most settings are spelled right

    whole = difflib.SequenceMatcher(None, path, other).ratio()
    end, other_end = path.rpartition(".")[2], other.rpartition(".")[2]
    last = difflib.SequenceMatcher(None, end, other_end).ratio()
    mixed = 1.0 if sorted(path.split(".")) == sorted(other.split(".")) else 0.0  # limits.forbid.gpus
    if end in other_end.split("_") and path.rpartition(".")[0] == other.rpartition(".")[0]:
        mixed = 1.0  # techniques.bits is techniques.weight_bits
    return max(whole, mixed, LAST_KEY_WEIGHT * last if last > MIN_KEY_SIMILARITY else 0.0, (whole + last) / 2)


def known_paths(schema: dict[str, Any], data: Any, node: Any = None, path: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield every path below a node (None: the top) that a setting may name; items by their name in `data`, or as 0."""
    for form in forms_of(list_alternatives(node or schema, schema), data):
        for key, inside in form.get("properties", {}).items():
            here = (*path, key)
            yield ".".join(here)
            if key not in SKIPPED:
                yield from known_paths(schema, data.get(key) if isinstance(data, dict) else None, inside, here)
        items = form.get("items")
        if items is not None and any("properties" in form for form in list_alternatives(items, schema)):
            for name, item in _items(data):
                yield from known_paths(schema, item, items, (*path, name))


def _items(data: Any) -> list[tuple[str, Any]]:
    if not isinstance(data, list) or not data:
        return [("0", None)]
    named = [(str(item.get("name", index)), item) for index, item in enumerate(data) if isinstance(item, dict)]
    return named or [("0", None)]
