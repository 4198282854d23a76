"""What published work says of techniques: `models/techniques/quality.yaml` and `published.yaml`."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from planner.documents.files import data_folder, read_text
from planner.documents.strict_yaml import parse_value
from planner.records import record

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping


@record(frozen=True)
class QualityFact:
    """One finding, with the setting that it was made in and its source."""

    against: str
    setting: str
    finding: str
    source: str
    technique: str = ""  # 0/1 name, empty where one value of a technique is meant
    value: tuple[tuple[str, str], ...] = ()
    short: str = ""


def quality_facts() -> tuple[QualityFact, ...]:
    """Return every finding, in the order of the file."""
    return _read(str(data_folder("models") / "techniques" / "quality.yaml"))


@cache
def _read(file: str) -> tuple[QualityFact, ...]:
    rows: list[dict[str, Any]] = parse_value(read_text(file), file)
    return tuple(QualityFact(**{**row, "value": tuple(row.get("value", {}).items())}) for row in rows)


def facts_on(in_use: Collection[str], values: Mapping[str, Any]) -> tuple[QualityFact, ...]:
    """Return what is worth a note on techniques in use, by their 0/1 names and values."""
    return tuple(
        fact
        for fact in quality_facts()
        if fact.short and (fact.technique in in_use or (fact.value and all(values.get(k) == v for k, v in fact.value)))
    )


@record(frozen=True)
class Published:
    """What was found on a technique that articles recommend, and whether a scenario decides it."""

    name: str
    decides: str
    """`yes`, `no`, or for what kind of job."""
    why: str
    where: str
    """Key of a scenario; empty where there is none."""
    found: tuple[QualityFact, ...]


@cache
def published_techniques() -> dict[str, Published]:
    """Return every technique of `published.yaml` by name, in the order of the file."""
    file = str(data_folder("models") / "techniques" / "published.yaml")
    rows: dict[str, dict[str, Any]] = parse_value(read_text(file), file)
    found = {}
    for name, row in rows.items():
        facts = tuple(QualityFact(against="", **fact) for fact in row["found"])
        found[name] = Published(name, row["decides"], row["why"], row["where"], facts)
    return found
