"""The file and line, or the setting, that each value of the input came from."""

from __future__ import annotations

from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ValidationError

from planner.documents.overrides import setting_name
from planner.documents.strict_yaml import short_key
from planner.documents.validation import UNKNOWN_KEY, Complaint, validate_spelled, validation_complaints
from planner.errors import Fault, ScenarioError
from planner.records import record

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from planner.documents.json_file import JsonDocument
    from planner.documents.strict_yaml import Document, KeyPath

_Model = TypeVar("_Model", bound=BaseModel)


@record(frozen=True)
class Source:
    """A document, and the places in its data that a setting `PATH=VALUE` or an option `--name value` wrote."""

    file: str
    document: Document | JsonDocument | None = None
    origins: Mapping[KeyPath, str] = field(default_factory=dict)

    def folder(self, path: KeyPath, own: Path) -> Path:
        """Return the folder of a relative path: the working folder if a setting wrote it, else `own`."""
        is_set = any(path[:length] in self.origins for length in range(1, len(path) + 1))
        return Path() if is_set else own

    def fault(self, path: KeyPath, what: str, fix: str) -> Fault:
        """Return the fault at a place, with the setting that wrote the value, or else its line."""
        shown_path = (*path[:-1], short_key(str(path[-1]))) if what == UNKNOWN_KEY else path
        where = ".".join(map(str, shown_path))
        for length in range(len(path), 0, -1):
            if path[:length] in self.origins:
                setting = self.origins[path[:length]]
                if setting.startswith("--"):
                    return Fault(setting, 0, "", what, fix)
                shown = ".".join((_typed_path(setting), *map(str, path[length:])))
                return Fault(setting_name(setting), 0, shown, what, fix)
        # A setting may also have created the faulty mapping: `limit.x=1` creates an unknown `limit`.
        inside = [(place, setting) for place, setting in self.origins.items() if place[: len(path)] == path]
        if inside and (self.document is None or self.document.line(path) == self.document.line(path[:-1])):
            place, setting = inside[-1]
            if setting.startswith("--"):
                return Fault(setting, 0, "", what, fix)
            rest = "." + ".".join(map(str, place[len(path) :]))
            typed = _typed_path(setting)
            shown = typed.removesuffix(rest) if typed.endswith(rest) else where
            return Fault(setting_name(setting), 0, shown, what, fix)
        return Fault(self.file, self.document.line(path) if self.document else 0, where, what, fix)

    def faults(self, found: Iterable[Complaint]) -> list[Fault]:
        """Return the faults of many complaints."""
        return [self.fault(*complaint) for complaint in found]

    def validate(self, kind: type[_Model], data: dict[str, Any]) -> _Model:
        """Return the data as a model; `ScenarioError` with every fault."""
        try:
            return validate_spelled(kind, data)
        except ValidationError as error:
            raise ScenarioError(self.faults(validation_complaints(error, kind, data))) from None


def _typed_path(setting: str) -> str:
    """Return the path as it was typed, with a job by its name if that was typed."""
    return setting.partition("=")[0].strip()
