"""The speed of a disk in GB per second, or the name of a class of disks that has it."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator

from planner.documents.quantities import Positive, validation_error
from planner.documents.validation import suggest_names
from planner.library.machines import disk_classes


def _speed(value: Any) -> Any:
    """Return the GB per second of a class; a number as it is."""
    if not isinstance(value, str):
        return value
    known = disk_classes()
    if value not in known:
        close = suggest_names(value, known)
        fix = f"did you mean {close}?" if close else f"a number of GB per second, or one of {', '.join(known)}"
        raise validation_error(f"{value!r} is not a class of disks", fix)
    return known[value]


DiskSpeed = Annotated[Positive, BeforeValidator(_speed, json_schema_input_type=Positive | str)]
"""GB per second, more than 0."""
