"""Values of unquoted scalars by the core schema of YAML 1.2.2 (section 10.3.2)."""

from __future__ import annotations

import re
from typing import Any

NULL = re.compile(r"(?:~|null|Null|NULL|)\Z")
BOOL = re.compile(r"(?:true|True|TRUE|false|False|FALSE)\Z")
INT = re.compile(r"(?:[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)\Z")
FLOAT = re.compile(
    r"(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))\Z"
)


def plain_scalar(text: str) -> Any:
    """Return the value of an unquoted scalar in the core schema of YAML 1.2."""
    first = text[:1]
    if first.isalpha() and first not in "tTfFnN":  # most words: no pattern can match
        return text
    if INT.match(text):
        return int(text, 0) if text[:2] in ("0o", "0x") else int(text)
    if FLOAT.match(text):
        return float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
    if NULL.match(text):
        return None
    if BOOL.match(text):
        return text[0] in "tT"
    return text
