"""Maps of `models/exports/engines`: how the settings of a plan of generation are spelt in one version of one engine."""

from __future__ import annotations

from functools import cache
from typing import Any

from planner.documents.files import data_folder
from planner.documents.strict_yaml import read_document
from planner.exports.field_map import Tool, validated
from planner.library.technique_rows import Row


class EngineMap(Row):
    """Commands of an engine; the keys are explained in `vllm-0.33.yaml`."""

    engine: str
    label: str
    version: str
    checked: dict[str, str]
    source: str
    packages: tuple[str, ...]
    serve: tuple[str, ...]
    formats: dict[str, tuple[str, ...]]
    made: dict[str, tuple[str, ...]]
    cache: dict[int, tuple[str, ...]]
    prefix: dict[bool, tuple[str, ...]]
    adapters: tuple[str, ...]
    ranks: tuple[int, ...]
    measure: tuple[str, ...]
    service: tuple[str, ...] = ()
    several: tuple[str, ...] = ()
    image: str = ""

    @property
    def tool(self) -> Tool:
        """The engine as headers name tools."""
        return Tool(
            target=self.engine, label=self.label, version=self.version, checked=self.checked, source=self.source,
            file="generate.py",
        )  # fmt: skip

    def room_for(self, rank: int) -> int | None:
        """Return the rank that the engine reserves room for; None where it has none as large."""
        return rank if not self.ranks else min((one for one in self.ranks if one >= rank), default=None)


def filled(words: tuple[str, ...], settings: dict[str, Any]) -> list[str]:
    """Return a command with the settings in place of their names; names that are no setting stay."""
    found = list(words)
    for name, value in settings.items():
        found = [word.replace("{" + name + "}", str(value)) for word in found]
    return found


@cache
def engine_maps() -> dict[str, EngineMap]:
    """Return the maps by engine; `LibraryError` with every fault of a file."""
    found: dict[str, EngineMap] = {}
    for path in sorted((data_folder("models") / "exports" / "engines").glob("*.yaml")):
        one = validated(EngineMap, read_document(path))
        found[one.engine] = one
    return found
