"""Scenarios made in Python: a mapping in the form of a file, with the values that programs have at hand."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from planner.documents.overrides import Settings, as_settings
from planner.documents.strict_yaml import Document, KeyPath, Marks, yaml_text
from planner.errors import Fault, ScenarioError, raise_faults
from planner.loading.scenario_file import load_document, read_scenario
from planner.scenario.offer import Offer, offer_data
from planner.scenario.scenario import Scenario, scenario_data

Question = Scenario | Mapping[str, Any] | str | Path
"""What a function takes as its scenario: one, what one is made of, the path of a file, or a shipped name."""

FILE = "scenario"
"""Name in faults of what comes from no file."""


def build_scenario(
    data: Mapping[str, Any] | None = None, *, folder: str | Path = ".", set_: Settings = (), **keys: Any
) -> Scenario:
    """Return the scenario of a mapping in the form of a file; `keys` are keys of it, too, and replace those given.

    Everything that holds of a file holds here: names in any spelling, inventories, dates, short forms, every fault at
    once. Relative paths start at `folder`. Values may also be numbers of numpy, `date`, `datetime` and `timedelta`,
    tuples, paths, models of this package, and data frames for lists of mappings (a missing value is a key left out).

    Raises
    ------
    ScenarioError
        With every fault, and the place of each as `jobs.0.deadline`.

    >>> job = {"architecture": "mistral-7b", "work": {"tokens": 10e6}, "deadline": datetime.timedelta(hours=9)}
    >>> build_scenario(jobs=[job], limits={"gpus": ["H100", "L40S"]}).jobs[0].deadline_hours
    9.0
    """
    if not isinstance(data, Mapping | None):
        fix = "give a mapping; read_scenario reads a file or a shipped name"
        raise ScenarioError([Fault(FILE, 0, "", f"is no mapping: {type(data).__name__}", fix)])
    faults: list[Fault] = []
    plain = _plain({**(data or {}), **keys}, (), faults)
    raise_faults(faults, ScenarioError)
    return load_document(Document(FILE, plain, Marks(0)), Path(folder), as_settings(set_)).scenario


def as_scenario(asked: Question) -> Scenario:
    """Return a scenario as it is, else that of a mapping, a path or a shipped name; raises ScenarioError."""
    if isinstance(asked, Scenario):
        return asked
    if isinstance(asked, Mapping):
        return build_scenario(asked)
    if isinstance(asked, (str, Path)):
        return read_scenario(asked)
    fix = "give a Scenario, a mapping, the path of a file or the name of a shipped scenario"
    raise ScenarioError([Fault(FILE, 0, "", f"is no scenario: {type(asked).__name__}", fix)])


def scenario_yaml(scenario: Question) -> str:
    """Return a scenario as the text of a file, which `read_scenario` reads; inventory files stay named.

    >>> scenario = planner.read_scenario("quickstart")
    >>> _ = Path("kept.yaml").write_text(scenario_yaml(scenario))
    >>> planner.read_scenario("kept.yaml") == scenario
    True
    """
    return yaml_text(scenario_data(as_scenario(scenario)))


def plain_rows(rows: Any) -> list[dict[str, Any]]:
    """Return a data frame, or mappings, as plain data: numbers of numpy are Python's, a missing value is no key.

    A column of whole numbers in which one is missing has fractions in pandas; they are whole numbers again here.
    """
    faults: list[Fault] = []
    plain = _plain(rows if hasattr(rows, "columns") else list(rows), ("rows",), faults)
    raise_faults(faults, ScenarioError)
    return [{key: _whole(cell) for key, cell in row.items() if not _is_missing(cell)} for row in plain]


def _whole(cell: Any) -> Any:
    return int(cell) if isinstance(cell, float) and cell.is_integer() else cell


def _plain(value: Any, place: KeyPath, faults: list[Fault]) -> Any:
    """Return a value as a file would hold it; what no file can hold is a fault."""
    if hasattr(value, "columns") and hasattr(value, "to_dict"):  # a data frame, of whatever package
        rows = value.to_dict("records")
        value = [{key: cell for key, cell in row.items() if not _is_missing(cell)} for row in rows]
    elif hasattr(value, "tolist"):  # numbers and arrays of numpy, series of pandas
        if value.dtype.kind in "Mm" and not hasattr(value, "to_numpy"):  # its nanoseconds would be a bare number
            value = value.astype(f"{'timedelta64' if value.dtype.kind == 'm' else 'datetime64'}[us]")
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): _plain(inner, (*place, str(key)), faults) for key, inner in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(inner, (*place, number), faults) for number, inner in enumerate(value)]
    if isinstance(value, Offer):
        return offer_data(value)
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if (text := _text_of(value)) is not None:
        return text
    fix = "give a number, a text, a list, a mapping, a date or a model of planner"
    faults.append(Fault(FILE, 0, ".".join(map(str, place)), f"a file cannot hold a {type(value).__name__}", fix))
    return None


def _is_missing(cell: Any) -> bool:
    """Return whether a cell of a data frame holds nothing: None, nan, and what pandas has for them."""
    is_nothing = isinstance(cell, (float, datetime.date, datetime.timedelta)) and cell != cell  # nan and NaT
    return cell is None or is_nothing or type(cell).__name__ == "NAType"


def _text_of(value: Any) -> str | None:
    """Return a path, a moment or a duration as it is written in a file."""
    if isinstance(value, datetime.timedelta):
        return f"{value.total_seconds():g}s"
    if isinstance(value, datetime.datetime):
        return value.isoformat(" ")
    if isinstance(value, (datetime.date, Path)):
        return str(value)
    return None
