"""Fitted values written into the files that hold them: comments, order and what was not fitted stay as they are."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.calibration.traced import BYTES, key_of
from planner.documents.files import read_document, write_text_atomically

DIGITS = 3
CALIBRATIONS = ("memory", "time", "kernels", "gpu_efficiency", "uncertainty")
_ORDER = ("value", "default", "low", "high", "unit", "basis", "source")


@dataclass(frozen=True)
class Found:
    """What a calibration has to say of one coefficient."""

    value: float
    low: float | None
    high: float | None
    basis: str
    source: str
    unit: str | None = None  # None: as it was


def plain(value: float) -> str:
    """Return a number with three digits and without an exponent, as YAML takes it."""
    return str(np.format_float_positional(value, precision=DIGITS, fractional=False, trim="-", unique=False))


def rewritten(path: Path, found: Mapping[str, Found], description: str) -> str:
    """Return the text of a calibration file with these entries; those that it lacks come at its end."""
    entries = read_document(path).data["coefficients"]
    lines = []
    for line in path.read_text(encoding="utf-8").splitlines():
        entry = re.match(r"  ([^\s#][^:]*(?:\.[^:]+)*): \{", line)
        if line.startswith("description:"):
            line = f'description: "{description}"'
        elif entry and entry[1] in entries:
            line = _line(entry[1], entries[entry[1]], found.get(entry[1]))
        lines.append(line)
    lines += [_line(name, {}, facts) for name, facts in found.items() if name not in entries]
    return "\n".join(lines) + "\n"


def _line(name: str, entry: Mapping[str, Any], found: Found | None) -> str:
    facts = dict(entry)
    if found is not None:
        facts |= {"value": found.value, "basis": found.basis, "source": found.source}
        facts |= {"unit": found.unit} if found.unit else {}
        if found.low is not None and found.high is not None:
            facts |= {"low": found.low, "high": found.high}
        else:  # a range that was there before must hold the value
            facts |= {key: pick(facts[key], found.value) for key, pick in (("low", min), ("high", max)) if key in facts}
    return f"  {name}: {{" + ", ".join(f"{key}: {_text(key, facts[key])}" for key in _ORDER if key in facts) + "}"


def _text(key: str, value: Any) -> str:
    if isinstance(value, str):
        needs_quotes = key == "source" or not re.fullmatch(r"[A-Za-z][\w /()-]*", value)
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"' if needs_quotes else value
    return plain(value)


def rewritten_bytes(path: Path, found: Mapping[str, Found]) -> str:
    """Return the text of models/techniques/bytes.yaml with its fitted numbers replaced."""
    text = path.read_text(encoding="utf-8")
    for framework, entry, _, key in BYTES:
        if key in found:
            pattern = rf"(?m)^(  {re.escape(framework)}: \{{.*?\b{entry}: )[\d.]+"
            text, times = re.subn(pattern, rf"\g<1>{plain(found[key].value)}", text)
            if times != 1:
                raise ValueError(f"{path.name} holds {framework}.{entry} {times} times")
    return text


def write_calibration(
    models: Path, out: Path, found: Mapping[str, Found], description: Mapping[str, str]
) -> list[Path]:
    """Write every file of `models` that holds a fitted number under `out`, and return the paths."""
    texts = {}
    for name in CALIBRATIONS:
        prefix = key_of(name, "")
        own = {key.removeprefix(prefix): facts for key, facts in found.items() if key.startswith(prefix)}
        if not own:  # fitted was another estimate alone
            continue
        path = Path("calibration") / f"{name}.yaml"
        texts[path] = rewritten(models / path, own, description[name])
    path = Path("techniques") / "bytes.yaml"
    texts[path] = rewritten_bytes(models / path, found)
    for path, text in texts.items():
        (out / path).parent.mkdir(parents=True, exist_ok=True)
        write_text_atomically(out / path, text)
    return [out / path for path in texts]
