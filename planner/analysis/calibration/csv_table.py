"""CSV files as logs write them: names in any case with blanks around, units behind figures, a last line cut short."""

from __future__ import annotations

import csv
import io
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from planner.analysis.calibration.run_log import fault

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclass(frozen=True)
class CsvTable:
    """A CSV file; `names` in lower case, `lines` are the numbers of the rows in the file."""

    file: str
    names: tuple[str, ...]
    lines: tuple[int, ...]
    rows: tuple[Mapping[str, str], ...]

    def first(self, wanted: Iterable[str]) -> str | None:
        """Return the first of the names that the table has."""
        return next((name for name in wanted if name in self.names), None)

    def texts(self, column: str) -> list[str]:
        """Return the cells of a column."""
        return [row[column] for row in self.rows]

    def numbers(self, column: str, suffix: str = "") -> list[float]:
        """Return the cells as finite numbers without their unit; `InputError` names the first that is none."""
        found = []
        for line, text in zip(self.lines, self.texts(column), strict=True):
            try:
                value = float(text.removesuffix(suffix).strip())
            except ValueError:
                value = math.nan
            if not math.isfinite(value):
                raise fault(
                    self.file, line, f"{text!r} is not a number", "leave out rows without a measurement", column
                )
            found.append(value)
        return found


def read_table(text: str, file: str) -> CsvTable | None:
    """Return the table; None where the first line is no header; `InputError` where a row does not fit the header."""
    reader = csv.reader(io.StringIO(text), skipinitialspace=True)
    try:
        header = [cell.strip().casefold() for cell in next(reader, [])]
        rows = [(reader.line_num, [cell.strip() for cell in row]) for row in reader if any(map(str.strip, row))]
    except csv.Error as error:
        raise fault(file, reader.line_num, f"cannot be read as CSV: {error}") from None
    if not header or not all(header) or len(set(header)) < len(header):
        return None
    if rows and len(rows[-1][1]) < len(header) and not text.endswith("\n"):
        rows.pop()  # a run that is still writing, or was killed
    for line, row in rows:
        if len(row) != len(header):
            raise fault(file, line, f"{len(row)} cells, but the header has {len(header)}")
    if not rows:
        raise fault(file, 0, "has a header but no rows", "log some steps first")
    return CsvTable(
        file,
        tuple(header),
        tuple(line for line, _ in rows),
        tuple(dict(zip(header, row, strict=True)) for _, row in rows),
    )
