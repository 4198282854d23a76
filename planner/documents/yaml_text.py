"""Plain data as YAML text that YAML 1.1 and 1.2 read alike."""

from __future__ import annotations

import re
from typing import Any

import yaml

_NUMBER = re.compile(r"[-+]?(0o[0-7]+|0x[0-9a-fA-F]+|(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?)")
"""What YAML 1.2 reads as a number, of which YAML 1.1 takes some for text (`1e3`, `08`)."""


class _Dumper(yaml.SafeDumper):
    """Writes scripts as blocks, and lists indented below their key."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002 (its name is PyYAML's)
        """Indent the items of a list, which PyYAML does not."""
        super().increase_indent(flow, False)


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else "'" if _NUMBER.fullmatch(text) else None
    if not all(sign.isprintable() or sign in "\n\t" for sign in text):
        style = '"'  # escapes what YAML 1.1 takes for the end of a line, and 1.2 for a sign
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def yaml_text(data: dict[str, Any]) -> str:
    """Return a mapping as a YAML document, keys in the order that they have."""
    return yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)
