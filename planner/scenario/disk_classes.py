"""The speed of a disk in GB per second, or the name of a class of disks that has it."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator

from planner.documents.quantities import Positive, format_value, validation_error
from planner.documents.validation import find_name, name_fix
from planner.library.known_machines import disk_classes


def _speed(value: Any) -> Any:
    """Return the GB per second of a class; a number as it is."""
    if not isinstance(value, str):
        return value
    known = disk_classes()
    if (name := find_name(value, known)) is None:
        fix = f"{name_fix(value, known)}; or give GB per second"
        raise validation_error(f"{format_value(value)} is not a class of disks", fix)
    return known[name]


DiskSpeed = Annotated[Positive, BeforeValidator(_speed, json_schema_input_type=Positive | str)]
"""GB per second, more than 0."""
