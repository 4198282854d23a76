"""What a configuration of a training tool says of a job, in plain words."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from planner.records import record

if TYPE_CHECKING:
    from collections.abc import Collection

    from planner.documents.strict_yaml import KeyPath

_OF_ADAPTERS: tuple[KeyPath, ...] = (
    *(("lora", "rank"), ("lora", "targets")),
    *(("techniques", "weight_bits"), ("techniques", "quant")),
)


@record(frozen=True)
class Held:
    """A value of the file that the plan keeps: its place in a job, and the field that says it."""

    place: KeyPath
    value: Any
    field: str
    line: int


@dataclass
class ToolFile:
    """What a file says of a job, what has no effect on a plan, and what is not modelled (field -> why)."""

    file: str
    label: str
    held: dict[KeyPath, Held] = field(default_factory=dict)
    without_effect: list[str] = field(default_factory=list)
    unmodelled: dict[str, str] = field(default_factory=dict)

    def consistent(self) -> ToolFile:
        """Return it without what says nothing of full training: adapters, and bits of a base that is not frozen."""
        method = self.held.get(("techniques", "method"))
        if method is not None and method.value == ["full"]:
            for place in _OF_ADAPTERS:
                self.held.pop(place, None)
        return self


def describe(found: ToolFile, replaced: Collection[KeyPath] = ()) -> list[str]:
    """Return what is held, what has no effect, and what is not modelled, as lines of plain words."""
    lines = [f"From {found.file} ({found.label})"]
    kept = [
        f"{'.'.join(map(str, one.place))} {_listed(one)} ({one.field})"
        for one in found.held.values()
        if one.place not in replaced
    ]
    lines.append(f"  Held: {'; '.join(kept) or 'nothing'}")
    if replaced:
        others = [one.field for one in found.held.values() if one.place in replaced and one.line]
        if others:
            lines.append(f"  Not held, because an option says otherwise: {', '.join(others)}")
    lines.append("  Chosen: machines, and every technique that is not named above")
    if found.without_effect:
        lines.append(f"  No effect on hours, memory or dollars: {', '.join(found.without_effect)}")
    lines += [f"  Not modelled: {name}: {why}" for name, why in found.unmodelled.items()]
    return lines


def _listed(one: Held) -> str:
    between = ", " if one.place == ("lora", "targets") else " or "
    return between.join(map(str, one.value)) if isinstance(one.value, list) else str(one.value)
