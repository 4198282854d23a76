"""The line of each value of a YAML file: found when a fault asks for it, by going through the file again.

Most files have no fault, and a price list has thousands of values: to note the line of each takes as long as reading.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from collections.abc import Callable

LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The loader whose events are read: in C, unless libyaml is missing."""


@dataclass(slots=True)
class Marks:
    """The line (1-based) on which a value starts, and the marks of the values inside it."""

    line: int
    children: dict[str | int, Marks] = field(default_factory=dict)


def line_of(event: Any) -> int:
    """Return the line on which an event of the parser starts."""
    return int(event.start_mark.line) + 1


def find_marks(text: str) -> Marks:
    """Return the marks of a document that was read without a fault."""
    event_after: Callable[[], Any] = LOADER(text).get_event
    anchors: dict[str | None, tuple[Marks, str]] = {}

    def read(event: Any) -> tuple[Marks, str]:
        """Return the marks of the value that begins with an event, and its text as a key."""
        marks, key = Marks(line_of(event)), getattr(event, "value", "")
        if isinstance(event, yaml.AliasEvent):
            known, key = anchors[event.anchor]
            return Marks(marks.line, known.children), key
        if isinstance(event, yaml.MappingStartEvent):
            while not isinstance(one := event_after(), yaml.MappingEndEvent):
                line, (_, name) = line_of(one), read(one)
                inside, _ = read(event_after())
                inside.line = line  # that of the key, not of its value
                marks.children[name] = inside
        elif isinstance(event, yaml.SequenceStartEvent):
            while not isinstance(one := event_after(), yaml.SequenceEndEvent):
                marks.children[len(marks.children)], _ = read(one)
        if event.anchor:
            anchors[event.anchor] = marks, key
        return marks, key

    event = event_after()
    while isinstance(event, (yaml.StreamStartEvent, yaml.DocumentStartEvent)):
        event = event_after()
    return read(event)[0]
