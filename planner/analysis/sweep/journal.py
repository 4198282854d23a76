"""The rows of a sweep on disk: a journal while it runs, to resume from, and the file of all rows when it is done."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from planner.documents.csv_table import csv_text
from planner.documents.files import check_writable, read_text, write_text_atomically
from planner.documents.json_file import json_text
from planner.errors import Fault, InputError, printable
from planner.results.plan_parts import describe_machines
from planner.results.sweep import Variant

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from planner.analysis.sweep.chain import SweepQuestion

RESULT_FORMATS = (".csv", ".jsonl")
MAX_JOURNAL_BYTES = 2**30
VARIANT_FIGURES = ("status", "cost_usd", "hours", "hours_at_confidence", "machines", "cut_share", "error")
"""Columns of a CSV file after those of the values; `cut_share` is the greatest share of tokens that a job cuts."""


def check_results_file(path: str) -> None:
    """Raise InputError for a file that cannot be written, or whose ending is none of `RESULT_FORMATS`."""
    if Path(path).suffix not in RESULT_FORMATS:
        fix = "end its name with .csv, or with .jsonl for all figures of each job"
        raise InputError([Fault(path or "the output", 0, "", "is no results file", fix)])
    check_writable(path)
    check_writable(journal_of(path))


def journal_of(path: str) -> str:
    """Return the journal of a results file."""
    return f"{path}.part"


def fingerprint(question: SweepQuestion, as_of: str, version: str) -> str:
    """Return a short text that is the same only for the same question of the same version."""
    asked = [
        question.scenario.model_dump_json(by_alias=True),
        [(one.path, one.values) for one in question.ranges],
        question.options.model_dump_json(),
        as_of,
        version,
    ]
    return hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:16]


class Journal:
    """A file of JSON lines beside the results: a header with the fingerprint of the question, then a row each."""

    def __init__(self, path: str, question_id: str) -> None:
        self.path, self._header = journal_of(path), json.dumps({"sweep": question_id})

    def rows(self) -> dict[tuple[str, ...], Variant]:
        """Return the rows of an interrupted run by their values; errors are left out, to be tried again.

        A last line that is cut short is left out too. Raises InputError if the journal is that of another question.
        """
        if not os.path.exists(self.path):
            return {}
        lines = read_text(self.path, MAX_JOURNAL_BYTES).split("\n")
        if len(lines) == 1 and self._header.startswith(lines[0]):
            return {}  # stopped before the first row: empty, or a header that is cut short
        if lines[0] != self._header:
            what = "was written for another scenario, other ranges, options or prices, or by another version"
            raise InputError([Fault(self.path, 1, "", what, "repeat that sweep, or give --restart to begin anew")])
        found: dict[tuple[str, ...], Variant] = {}
        for number, line in enumerate(lines[1:-1], start=2):
            try:
                row = Variant.model_validate_json(line)
            except ValidationError:
                raise InputError([Fault(self.path, number, "", "is no row of a sweep", "give --restart")]) from None
            if row.status != "error":
                found[row.values] = row
        return found

    def begin(self, rows: Iterable[Variant]) -> None:
        """Write the journal with the rows that are known."""
        write_text_atomically(self.path, "".join(f"{line}\n" for line in (self._header, *map(_row, rows))))

    def add(self, rows: Sequence[Variant]) -> None:
        """Append rows; they are on the disk when this returns."""
        with open(self.path, "a", encoding="utf-8") as file:
            file.write("".join(f"{_row(one)}\n" for one in rows))
            file.flush()
            os.fsync(file.fileno())

    def end(self) -> None:
        """Remove the journal."""
        Path(self.path).unlink(missing_ok=True)


def _row(one: Variant) -> str:
    return one.model_dump_json()


def write_results(path: str, paths: Sequence[str], rows: Iterable[Variant]) -> None:
    """Write all rows: a table, or a JSON object per line with the jobs of each variant."""
    text = _table(paths, rows) if Path(path).suffix == ".csv" else "".join(_line(paths, one) for one in rows)
    write_text_atomically(path, text)


def _line(paths: Sequence[str], one: Variant) -> str:
    """Return a row as JSON, its values by path."""
    values = dict(zip(paths, one.values, strict=True))
    row = {"values": values, **one.model_dump(mode="json", exclude={"values"})}
    return json_text(row, indent=None) + "\n"


def _table(paths: Sequence[str], rows: Iterable[Variant]) -> str:
    table: list[list[object]] = [[*paths, *VARIANT_FIGURES]]
    for one in rows:
        machines = "; ".join(
            [f"{describe_machines(job.gpus, job.gpu, job.runs_at_once)} at {job.provider}" for job in one.jobs]
            + [machines for service in one.services for machines in service.machines]
        )
        figures = (one.cost_usd, one.hours, one.hours_at_confidence)
        cut = max((each.share for each in one.cut), default=0.0)
        table.append([*one.values, one.status, *figures, machines, cut, one.error])
    return csv_text([[printable(cell) if isinstance(cell, str) else cell for cell in row] for row in table])
