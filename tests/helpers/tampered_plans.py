"""Plans with single values changed, near enough to be overlooked: what an audit has to find."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import Any, TypeVar

import pytest

from planner.evaluation import audit as auditing
from planner.evaluation.evaluate import Evaluation, evaluate
from planner.evaluation.evaluated_physics import RunContext
from planner.results.plan import Plan

UNAUDITED = {
    "schema_version": "the format",
    "solver": "who found it",
    "seconds": "how long it took",
    "candidates": "how many ways there were",
    "warnings": "words",
    "baseline": "another timetable",
    "inputs": "what was asked, which an audit receives apart",
    "faster": "other ways",
    "jobs.methods": "other ways",
    "jobs.lossy_techniques": "other ways",
    "jobs.pays_first": "other ways",
    "jobs.quality": "words",
    "jobs.frameworks": "other ways",
    "jobs.cheaper_at_risk": "other ways",
    "jobs.safer": "other ways",
    "jobs.next_best": "other ways",
    "jobs.compared_by": "what other ways are compared by",
    "jobs.binding": "words",
    "jobs.notes": "words",
    "jobs.evidence.estimates": "how many ways there were",
    "jobs.evidence.optimizer_curse": "what the choice among other ways costs",
}
"""What a plan says beside how the jobs are run; everything else must be found when changed."""

Path = tuple[str | int, ...]
Place = TypeVar("Place")


def leaves(data: Any, path: Path = ()) -> Iterator[Path]:
    """Paths of every single value of nested plain data; an empty list is one."""
    if isinstance(data, dict) and data:
        for key, value in data.items():
            yield from leaves(value, (*path, key))
    elif isinstance(data, (list, tuple)) and data:
        for index, value in enumerate(data):
            yield from leaves(value, (*path, index))
    else:
        yield path


def name_of(path: Path) -> str:
    """The keys of a path, which values at several places of a plan share."""
    return ".".join(part for part in path if isinstance(part, str))


def audited_leaves(plan: Plan, unaudited: Collection[str] = tuple(UNAUDITED)) -> list[Path]:
    """Paths of every single value that an audit of the plan has to hold against something."""
    return [path for path in leaves(plan.model_dump()) if not name_of(path).startswith(tuple(unaudited))]


def spread(places: Sequence[Place], names: Sequence[str], every: int) -> list[Place]:
    """One in `every` of the places that share a name, at least one of each; names begin at different ones."""
    kept, seen = [], dict[str, int]()
    counts, first = Counter(names), {name: at for at, name in enumerate(dict.fromkeys(names))}
    for place, name in zip(places, names, strict=True):
        number = seen[name] = seen.get(name, -1) + 1
        if (number - first[name]) % min(every, counts[name]) == 0:
            kept.append(place)
    return kept


def other(value: Any, today: str = "") -> Any:
    """Something else of the same kind, near enough to be overlooked; `today` becomes another date."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, float):
        return value * 1.01 + 0.02
    return "2025-12-24" if value == today else f"{value}x" if isinstance(value, str) else 1


def with_value(data: Any, path: Path, value: Any) -> Any:
    """Plain data with one value replaced."""
    if not path:
        return value
    key, rest = path[0], path[1:]
    if isinstance(data, dict):
        return data | {key: with_value(data[key], rest, value)}
    items = list(data)
    items[int(key)] = with_value(items[int(key)], rest, value)
    return items


def tampered(plan: Plan, path: Path, today: str = "") -> Plan | None:
    """The plan with something else at a path; None where its types refuse that already."""
    data: Any = plan.model_dump()
    value = data
    for key in path:
        value = value[key]
    try:
        return Plan.model_validate(with_value(data, path, other(value, today)))
    except ValueError:
        return None


def evaluate_once(patch: pytest.MonkeyPatch) -> None:
    """Let audits of plans that name the same run compute its figures once: most values are no names.

    What an audit then compares them with is read anew from each plan.
    """
    known: list[tuple[RunContext, datetime.date, Evaluation]] = []

    def once(context: RunContext, as_of: datetime.date) -> Evaluation:
        for seen, day, evaluation in known:
            same_run = seen.named == context.named and day == as_of
            if same_run and seen.library is context.library and seen.scenario == context.scenario:
                return evaluation
        known.append((context, as_of, evaluate(context, as_of)))
        return known[-1][-1]

    patch.setattr(auditing, "evaluate", once)
