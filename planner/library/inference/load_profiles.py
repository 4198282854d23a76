"""Shipped profiles of load: `models/techniques/load_profiles.yaml`."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from planner.documents.files import data_folder, read_text
from planner.documents.strict_yaml import parse_value
from planner.library.technique_rows import Row


class LoadProfile(Row, defer_build=True):
    """Load by the hour of a week, from Monday 0:00 on, as shares of the peak."""

    numbers: tuple[float, ...]
    source: str


def read_load_profiles() -> Mapping[str, LoadProfile]:
    """Return the profiles by name."""
    return _read(data_folder("models"))


@cache
def _read(models: Path) -> dict[str, LoadProfile]:
    file = str(models / "techniques" / "load_profiles.yaml")
    return {name: LoadProfile.model_validate(row) for name, row in parse_value(read_text(file), file).items()}
