"""Tables of published measurements: one row per run, a blank cell means that its source does not say.

Nothing is read from `notes` or `id`, and `source` only says which rows belong together.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from planner.errors import Fault, InputError
from planner.units import GB, GIB

NEEDED_COLUMNS = ("source", "model", "method", "gpu", "num_gpus", "status", "framework", "micro_batch", "seq_len")
"""A table without these is no table of measurements; any other column may be missing, which is as if it were blank."""

HEADLINE_QUALITIES = ("A", "B")
"""A: complete configuration. B: one or two unknowns. C: doubtful, rounded or a bound: reported apart."""

LARGEST_COUNT = 10**9

_MEAN = re.compile(r"mean(?: real length)? ([\d.]+) tokens(?: \(std ([\d.]+)\))?")


@dataclass(frozen=True)
class Lengths:
    """What is known of the lengths of a run's samples."""

    full: bool  # every sequence has the row's length (packed, synthetic, padded to the maximum)
    varying: bool  # batches differ in length from one to the next
    mean: float | None = None  # real tokens per sample, before cutting
    deviation: float | None = None  # standard deviation of the same


@dataclass(frozen=True)
class Row:
    """One line of a table; `cells` by column, stripped of blanks."""

    line: int  # in the file, the header being 1
    cells: Mapping[str, str]

    def text(self, column: str) -> str:
        """Return the cell, lower-case; empty where unknown."""
        return self.cells.get(column, "").casefold()

    def number(self, column: str) -> float | None:
        """Return the cell as a finite number; None where it is blank or says something else."""
        try:
            value = float(self.cells.get(column, ""))
        except ValueError:
            return None
        return value if math.isfinite(value) else None

    def positive(self, column: str) -> float | None:
        """Return the cell as a number above zero; None where it is none."""
        value = self.number(column)
        return value if value is not None and value > 0 else None

    def count(self, column: str) -> int | None:
        """Return the cell as a positive whole number; None where it is none or implausibly large."""
        value = self.number(column)
        return int(value) if value is not None and 1 <= value <= LARGEST_COUNT and value == int(value) else None

    @property
    def source(self) -> str:
        """Source of the row."""
        return self.cells.get("source", "")

    @property
    def quality(self) -> str:
        """Quality of the row, `unknown` where it is blank."""
        return self.cells.get("quality", "").upper() or "unknown"

    @property
    def headline(self) -> bool:
        """Whether the row counts in the headline."""
        return self.quality in HEADLINE_QUALITIES

    @property
    def out_of_memory(self) -> bool:
        """Whether the run failed for lack of memory."""
        return self.text("status") == "oom"

    @cached_property
    def lengths(self) -> Lengths | None:
        """From the column `packed`; None where it is blank."""
        text = self.text("packed")
        if not text:
            return None
        found = _MEAN.search(text)
        mean = (float(found[1]) or None) if found else None
        deviation = float(found[2]) if found and found[2] else None
        if text.startswith(("yes", "fixed")):
            return Lengths(full=True, varying=False)
        # Buckets of like lengths leave the allocator no fragments of differing size.
        return Lengths(full=False, varying="bucketed" not in text, mean=mean, deviation=deviation)

    @property
    def peak_bytes(self) -> float | None:
        """Measured peak of memory per GPU, bytes: GiB where the row says so, else GB of 10^9."""
        value = self.positive("peak_mem_gb_per_gpu")
        return None if value is None else value * (GIB if self.text("mem_unit") == "gib" else GB)

    @property
    def peak_kind(self) -> str:
        """What was measured: allocated, reserved, or device (all that the driver shows; also where it is not said)."""
        text = self.text("mem_kind")
        if "allocator" in text:  # of PyTorch's allocator, which does not see the context
            return "reserved"
        if "not stated" in text:
            return "device"
        if "reserved" in text:
            return "reserved"
        return "allocated" if any(word in text for word in ("allocated", "active")) else "device"


def read_measurements(path: str | Path) -> tuple[Row, ...]:
    """Return the rows of a CSV file; InputError where it cannot be read or is no such table."""
    return read_table(path, NEEDED_COLUMNS, "name the columns as in benchmarks/validation.csv")


def read_table(path: str | Path, needed: Sequence[str], fix: str) -> tuple[Row, ...]:
    """Return the rows of a CSV file; InputError where it cannot be read or has not the needed columns."""
    file = str(path)
    try:
        with open(path, encoding="utf-8-sig", newline="") as stream:
            reader = csv.DictReader(stream)
            names = reader.fieldnames or []
            rows = tuple(Row(reader.line_num, _cells(cells)) for cells in reader)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise InputError([Fault(file, 0, "", f"cannot be read: {why}", "give a CSV file in UTF-8")]) from None
    missing = [name for name in needed if name not in names]
    if missing:
        what = f"has no column {', '.join(missing)}"
        raise InputError([Fault(file, 1, "header", what, fix)])
    if not rows:
        raise InputError([Fault(file, 1, "", "holds no rows", "one measured run per line")])
    return rows


def _cells(cells: Mapping[str | None, str | list[str] | None]) -> dict[str, str]:
    # Cells beyond the header come under None, cells that are missing are None.
    return {name: value.strip() for name, value in cells.items() if name and isinstance(value, str) and value.strip()}
