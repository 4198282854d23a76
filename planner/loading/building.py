"""Scenarios made in Python: a mapping in the form of a file, with the values that programs have at hand."""

from __future__ import annotations

import datetime
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from planner.documents.files import make_folder, write_text_atomically
from planner.documents.overrides import Settings, as_settings
from planner.documents.strict_yaml import Document, KeyPath, Marks, yaml_text
from planner.documents.tables import parse_json
from planner.errors import Fault, InputError, ScenarioError, raise_faults
from planner.library.reading import CONFIG_WANTED, config_architecture
from planner.library.schema import Architecture
from planner.loading.price_files import cache_folder
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
    The `architecture` of a job may be the content of a `config.json`, or what `import_architecture` returns: it is kept
    in a file of the user's cache folder, which the scenario names, so that a saved one still has it.

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
    document = _document_of({**(data or {}), **keys}, FILE)
    return load_document(document, Path(folder), as_settings(set_)).scenario


def scenario_of_keys(keys: Mapping[str, Any]) -> Scenario:
    """Return the scenario of the arguments of its class: as `build_scenario`, but GPUs need not be known yet."""
    return load_document(_document_of({"name": FILE, **keys}, "Scenario"), Path(), (), knows_gpus=False).scenario


def _document_of(data: Mapping[str, Any], file: str) -> Document:
    """Return a mapping as the content of a file; what no file can hold is a fault."""
    faults: list[Fault] = []
    plain = _with_kept_models(_plain(data, (), faults), faults)
    raise_faults([fault._replace(file=file) for fault in faults], ScenarioError)
    return Document(file, plain, Marks(0))


def _with_kept_models(data: dict[str, Any], faults: list[Fault]) -> dict[str, Any]:
    """Return the data with the path of a kept file for each model that a job has as its content."""
    jobs = data.get("jobs")
    listed = jobs if isinstance(jobs, list) else [jobs]
    for number, job in enumerate(listed):
        if not isinstance(job, dict):
            continue
        place, models = f"jobs.{number}.architecture", job.get("architecture")
        if isinstance(models, list):
            job["architecture"] = [_kept(model, f"{place}.{at}", faults) for at, model in enumerate(models)]
        else:
            job["architecture"] = _kept(models, place, faults)
        if job["architecture"] is None:
            del job["architecture"]
    return data


def _kept(model: Any, place: str, faults: list[Fault]) -> Any:
    """Return the path of the file in which the content of a config.json, or of a card, is kept; all else as it is."""
    if not (isinstance(model, dict) and ("model_type" in model or "parameters_basis" in model or "layers" in model)):
        return model
    is_config = "model_type" in model
    text = json.dumps(model, indent=2, sort_keys=True) if is_config else yaml_text(model)
    name = re.sub(r"[^\w.-]", "-", str(model["model_type"] if is_config else model.get("name", "model")))[:60]
    of_content = cache_folder("models") / hashlib.sha256(text.encode()).hexdigest()[:10]
    path = of_content / name / "config.json" if is_config else of_content / f"{name}.yaml"
    try:
        if is_config:
            config_architecture(parse_json(text, FILE, CONFIG_WANTED, keeps_infinity=True), name)
        if not path.exists():
            make_folder(path.parent, "set XDG_CACHE_HOME to a folder that is writable")
            write_text_atomically(path, text)
    except InputError as error:
        faults += [Fault(FILE, 0, f"{place}.{one.where}".rstrip("."), one.what, one.fix) for one in error.faults]
    return str(path)


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
    listed = rows if hasattr(rows, "columns") else list(rows) if isinstance(rows, Iterable) else [rows]
    plain = _plain(listed, ("rows",), faults)
    if not all(isinstance(row, dict) for row in plain):
        faults.append(Fault(FILE, 0, "rows", "are no rows of keys and values", "give a data frame, or mappings"))
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
    if isinstance(value, BaseModel):
        return _data_of(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if (text := _text_of(value)) is not None:
        return text
    fix = "give a number, a text, a list, a mapping, a date or a model of planner"
    faults.append(Fault(FILE, 0, ".".join(map(str, place)), f"a file cannot hold a {type(value).__name__}", fix))
    return None


def _data_of(model: BaseModel) -> dict[str, Any]:
    """Return a model of this package in the words of a file."""
    if isinstance(model, Offer):
        return offer_data(model)
    if isinstance(model, Architecture):  # a card has other defaults than its class
        return model.model_dump(mode="json", exclude_unset=True)
    return model.model_dump(mode="json", by_alias=True, exclude_defaults=True)


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
