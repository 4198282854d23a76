"""The load of a service by the hour from a CSV file, in place of its path."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from planner.documents.overrides import replace_value
from planner.errors import Fault, InputError
from planner.library.inference.load_profiles import read_load_profiles
from planner.loading.name_resolution import texts_at
from planner.scenario.serving.load import DAY, FLAT, WEEK

if TYPE_CHECKING:
    from pathlib import Path

    from planner.documents.source_map import Source

LOAD_COLUMNS = ("hour", "per_second")


def resolve_load(data: Any, folder: Path, source: Source, faults: list[Fault]) -> Any:
    """Return the data with the numbers of load files in place of their paths; what is wrong in them is a fault."""
    for path, wanted in list(texts_at(data, ("jobs", "*", "load", "profile"))):
        if wanted == FLAT or wanted in read_load_profiles() or not wanted.lower().endswith(".csv"):
            continue
        try:
            numbers = read_load(source.folder(path, folder) / wanted)
        except InputError as error:
            faults.extend(one if one.line else source.fault(path, one.what, one.fix) for one in error.faults)
            numbers = [1.0] * DAY  # no second fault for what could not be read
        data = replace_value(data, path, numbers)
    return data


def read_load(path: Path) -> list[float]:
    """Return the load of each hour; `InputError` for other columns, cells that are no load, hours twice or missing."""
    from planner.documents.csv_table import first_faults, read_csv  # late: few services have a table

    table = read_csv(path)
    if sorted(table.columns) != sorted(LOAD_COLUMNS):
        fix = f"the columns are {', '.join(LOAD_COLUMNS)}"
        raise InputError([Fault(table.file, 1, "", f"columns {', '.join(table.columns)}", fix)])
    faults: list[Fault] = []
    loads: dict[int, float] = {}
    for line, cells in table.rows:
        found = dict(zip(table.columns, cells, strict=True))
        hour = int(found["hour"]) if found["hour"].isascii() and found["hour"].isdigit() else None
        load = _number(found["per_second"])
        if hour is None or hour >= WEEK:
            faults.append(Fault(table.file, line, "hour", f"{found['hour']!r} is no hour", f"0 to {WEEK - 1}"))
        elif hour in loads:
            faults.append(Fault(table.file, line, "hour", f"hour {hour} is there twice", "keep one"))
        elif load is None:
            what = f"{found['per_second']!r} is no load"
            faults.append(Fault(table.file, line, "per_second", what, "give requests per second, 0 or more"))
        else:
            loads[hour] = load
    if not faults and sorted(loads) not in (list(range(DAY)), list(range(WEEK))):
        fix = f"give hours 0 to {DAY - 1} of a day, or 0 to {WEEK - 1} of a week from Monday 0:00 on"
        faults.append(Fault(table.file, 1, "hour", f"a profile of {len(loads)} hours", fix))
    if faults:
        raise InputError(first_faults(faults))
    return [loads[hour] for hour in sorted(loads)]


def _number(text: str) -> float | None:
    """Return a finite number that is not negative; None for anything else."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None
