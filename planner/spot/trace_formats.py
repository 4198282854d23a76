"""Files of recorded spot markets: their formats, their traces, and every fault reported."""

from __future__ import annotations

import csv
import datetime
import gzip
import io
import json
import math
import os
import re
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from planner.arrays import Floats
from planner.documents.files import MAX_BYTES, note_read, read_text
from planner.documents.tables import parse_json
from planner.errors import Fault, InputError, collect_faults, raise_faults
from planner.spot.states import Trace
from planner.units import DAY_HOURS, HOUR, MINUTE

MIN_TRACE_HOURS, MIN_TRACE_STEPS = 1.0, 10
"""A shorter trace shows nothing about machines that stay for hours."""
MIN_GAP_SECONDS, MAX_GAP_SECONDS = 1.0, DAY_HOURS * HOUR
"""Range of plausible times between two counts: outside it, another unit is meant."""
MAX_TRACE_STEPS = 10_000_000
"""Steps of one trace that are held in memory (80 MB); three centuries of quarter-hours."""
MAX_MACHINES = 10**9

Rows = list[tuple[int, dict[str, str]]]
"""Lines of a table, and their cells by column."""
_PIECE = re.compile(r"\s*(-?\d{1,12})\s*[x*]\s*(\d{1,12})\s*")
_RLE = ("trace_id", "step_s", "availability_rle")
_PERIODS = ("zone", "gap_seconds", "first_step", "steps", "available")
_TIMES = ("time_seconds", "available")
_DATES = ("date", "availability")


def read_counts_json(text: str, file: str, name: str) -> Trace:
    """Read `{"metadata": {"gap_seconds": n}, "data": [count, ...]}`; `InputError` with every fault."""
    shape = 'write {"metadata": {"gap_seconds": 600}, "data": [1, 0, ...]}'
    document = parse_json(text, file, shape)
    top = document.data if isinstance(document.data, dict) else {}
    metadata, data = top.get("metadata"), top.get("data")
    if not isinstance(metadata, dict) or not isinstance(data, list):
        raise InputError([document.fault((), "has no metadata and data of a trace", shape)])
    gap: Any = metadata.get("gap_seconds")
    gap_line = document.line(("metadata", "gap_seconds"))
    faults = _gap_faults(gap, file, gap_line, "metadata.gap_seconds")
    bad = [i for i, count in enumerate(data) if not _is_count(count)]
    if bad:
        many = f" (and {len(bad) - 1} more)" if len(bad) > 1 else ""
        wrong = f"{_abbreviate(data[bad[0]])} is not a number of machines{many}"
        faults.append(document.fault(("data", bad[0]), wrong, "whole numbers of 0 or more, one per step"))
    if not faults:
        faults = _length_faults(len(data), float(gap), file, document.line(("data",)), "data")
    raise_faults(faults)
    return Trace(name, float(gap), np.array(data, dtype=np.int64))


def is_frame(trace: object) -> bool:
    """Return whether a trace is a data frame, of whatever package, and no file."""
    return hasattr(trace, "to_csv")


def read_frame(frame: Any, name: str) -> list[Trace]:
    """Return the traces of a data frame with the columns of a CSV file; `name` is what faults name."""
    traces = read_table(frame.to_csv(index=False), name, name)
    if traces is None:
        fix = "give time_seconds and available, date and availability, or the columns of another CSV format"
        raise InputError([Fault(name, 0, "", f"no trace has the columns {', '.join(map(str, frame.columns))}", fix)])
    return traces


def read_table(text: str, file: str, name: str) -> list[Trace] | None:
    """Return the traces of a CSV by its columns; None where they are of no known format."""
    reader = csv.reader(io.StringIO(text, newline=""))
    try:
        rows = [(reader.line_num, [cell.strip() for cell in row]) for row in reader if row]
    except csv.Error as error:
        fix = "separate cells by commas, and close every quote"
        raise InputError([Fault(file, reader.line_num, "", f"cannot be read as CSV: {error}", fix)]) from None
    header = rows[0][1]
    body = [(line, dict(zip(header, row, strict=False))) for line, row in rows[1:]]
    if set(_RLE) <= set(header):
        return _run_lengths(body, file)
    if set(_PERIODS) <= set(header):
        return _run_lengths(_periods_as_run_lengths(body, file), file)
    if set(_TIMES) <= set(header):
        return [_counts_over_time(body, file, name)]
    if set(_DATES) <= set(header):
        return [_counts_over_time(_dates_as_seconds(body, file), file, name)]
    return None


def _dates_as_seconds(body: Rows, file: str) -> Rows:
    """Return rows of date and availability as rows of time_seconds and available; `InputError` for other dates."""
    faults: list[Fault] = []
    rows: Rows = []
    for line, cells in body:
        text, count = (cells.get(column, "") for column in _DATES)
        try:
            date = datetime.datetime.fromisoformat(text)
            moment = date if date.tzinfo else date.replace(tzinfo=datetime.UTC)
            rows.append((line, dict(zip(_TIMES, (repr(moment.timestamp()), count), strict=True))))
        except ValueError:
            wrong = f"{_abbreviate(text)} is not a date"
            faults.append(
                Fault(file, line, "date", wrong, "write 2024-05-01T12:30:00, in UTC unless it says otherwise")
            )
    raise_faults(faults)
    return rows


def _periods_as_run_lengths(body: Rows, file: str) -> Rows:
    """Return one row per zone from rows of a period each; `InputError` where one does not begin where another ended."""
    faults: list[Fault] = []
    zones: dict[str, tuple[int, str]] = {}
    ends: dict[str, int] = {}
    pieces: dict[str, list[str]] = {}
    for line, cells in body:
        name, gap, first, steps, count = (cells.get(column, "") for column in _PERIODS)
        begin, length, machines = _number(first), _number(steps), _number(count)
        if name not in zones:
            number = _number(gap)
            faults += _gap_faults(gap or None if number is None else number, file, line, "gap_seconds")
        known = zones.setdefault(name, (line, gap))[1]
        at = ends.get(name, 0)
        if length is None or length < 1 or length != int(length):
            wrong = f"{_abbreviate(steps)} is not a number of steps"
            faults.append(Fault(file, line, "steps", wrong, "whole numbers of 1 or more"))
        elif machines is None or not 0 <= machines <= MAX_MACHINES or machines != int(machines):
            wrong = f"{_abbreviate(count)} is not a number of machines"
            faults.append(Fault(file, line, "available", wrong, "whole numbers of 0 or more"))
        elif begin != at:
            wrong = f"begins at step {_abbreviate(first)}, but {at} steps of {name or 'it'} came before"
            faults.append(Fault(file, line, "first_step", wrong, "give the periods of a zone in order, without a gap"))
        elif known != gap:
            wrong = f"{_abbreviate(gap)} s, but {_abbreviate(known)} s above"
            faults.append(Fault(file, line, "gap_seconds", wrong, "one step for all rows of a zone"))
        else:
            ends[name] = at + int(length)
            pieces.setdefault(name, []).append(f"{int(machines)}x{int(length)}")
    raise_faults(faults)
    return [
        (line, dict(zip(_RLE, (name, gap, ";".join(pieces[name])), strict=True))) for name, (line, gap) in zones.items()
    ]


def _run_lengths(body: Rows, file: str) -> list[Trace]:
    """Return one trace per row, whose counts are `count x steps` joined by semicolons."""
    traces: list[Trace] = []
    faults: list[Fault] = []
    names: set[str] = set()
    if not body:
        faults.append(Fault(file, 1, "", "has a header but no trace", "give a row per trace"))
    for line, cells in body:
        name = cells.get("trace_id") or f"line {line}"
        gap = _number(cells.get("step_s", ""))
        counts, wrong = _decode_run_lengths(cells.get("availability_rle", ""))
        row_faults = _gap_faults(gap if gap is not None else cells.get("step_s") or None, file, line, f"{name}: step_s")
        if wrong:
            row_faults.append(
                Fault(file, line, f"{name}: availability_rle", wrong, "write count x steps as in 64x12;63x3")
            )
        elif not row_faults and gap is not None:
            row_faults = _length_faults(counts.size, gap, file, line, name)
        if name in names:
            row_faults.append(Fault(file, line, name, "two traces have this name", "rename one, or leave it out"))
        names.add(name)
        faults += row_faults
        if not row_faults and gap is not None:
            traces.append(Trace(name, gap, counts))
    raise_faults(faults)
    return traces


def _decode_run_lengths(text: str) -> tuple[np.ndarray[Any, np.dtype[np.int64]], str]:
    """Return the counts per step of a run-length text, and what is wrong with it."""
    nothing = np.zeros(0, dtype=np.int64)
    if not text:
        return nothing, ""  # an empty trace, reported as such
    counts, steps = [], []
    for piece in text.split(";"):
        match = _PIECE.fullmatch(piece)
        if match is None:
            return nothing, f"{_abbreviate(piece)} is malformed"
        counts.append(int(match[1]))
        steps.append(int(match[2]))
        if not 0 <= counts[-1] <= MAX_MACHINES:
            return nothing, f"{counts[-1]} is not a number of machines"
        if steps[-1] < 1:
            return nothing, f"{_abbreviate(piece)} lasts less than one step"
    if sum(steps) > MAX_TRACE_STEPS:
        return nothing, f"{sum(steps):,} steps are more than the {MAX_TRACE_STEPS:,} that can be read"
    return np.repeat(np.array(counts, dtype=np.int64), steps), ""


def _counts_over_time(body: Rows, file: str, name: str) -> Trace:
    """Return the trace of one row per observation, on even steps of the shortest time between two rows."""
    times, counts, faults = [], [], []
    before = -math.inf
    for line, cells in body:
        time, count = (_number(cells.get(column, "")) for column in _TIMES)
        if time is None:
            wrong = f"{_abbreviate(cells.get('time_seconds', ''))} is not a time"
            faults.append(Fault(file, line, "time_seconds", wrong, "give seconds"))
        elif time <= before:
            wrong = f"{time:.15g} s does not come after {before:.15g} s"
            faults.append(Fault(file, line, "time_seconds", wrong, "sort the rows, each time once"))
        if count is None or not _is_count(count):
            wrong = f"{_abbreviate(cells.get('available', ''))} is not a number of machines"
            faults.append(Fault(file, line, "available", wrong, "whole numbers of 0 or more"))
        before = time if time is not None else before
        times.append(before)
        counts.append(count if count is not None else 0.0)
    raise_faults(faults)
    if len(times) < MIN_TRACE_STEPS:
        raise InputError(_length_faults(len(times), MIN_TRACE_HOURS, file, 1, ""))
    moments = np.array(times)
    gaps = np.diff(moments)
    faults = _gap_faults(float(np.median(gaps)), file, 1, "time_seconds")
    step = max(float(gaps.min()), MIN_GAP_SECONDS)
    steps = round((moments[-1] - moments[0]) / step) + 1 if not faults else 0
    if steps > MAX_TRACE_STEPS:
        wrong = f"{steps:,} steps of {step:.3g} s are more than the {MAX_TRACE_STEPS:,} that can be read"
        faults = [Fault(file, 1, "time_seconds", wrong, "give a part of it, or fewer observations")]
    faults = faults or _length_faults(steps, step, file, 1, "")
    raise_faults(faults)
    return Trace(name, step, _forward_fill(moments, np.array(counts), step, steps).astype(np.int64))


def _forward_fill(moments: Floats, counts: Floats, step: float, steps: int) -> Floats:
    """Return the last known count at each of `steps` even times, with half a second of slack for drifting clocks."""
    grid = moments[0] + np.arange(steps) * step + min(0.5, step / 2)
    known: Floats = counts[np.searchsorted(moments, grid, side="right") - 1]
    return known


def _gap_faults(gap: Any, file: str, line: int, where: str) -> list[Fault]:
    """Return the faults of a time between two counts: no number, or not a plausible number of seconds."""
    fix = "give the seconds from one count to the next"
    if gap is None:
        return [Fault(file, line, where, "is missing", fix)]
    if isinstance(gap, bool) or not isinstance(gap, (int, float)) or not math.isfinite(gap) or gap <= 0:
        return [Fault(file, line, where, f"{_abbreviate(gap)} is not a time", fix)]
    if gap < MIN_GAP_SECONDS:
        meant = f"hours were meant, it is {gap * HOUR:.4g}" if gap * HOUR >= MINUTE / 2 else "another unit was meant"
        return [Fault(file, line, where, f"{gap:.3g} s is too short a time between two counts", f"if {meant}")]
    if gap > MAX_GAP_SECONDS:
        meant = f"milliseconds were meant, it is {gap / 1000:.6g}"
        wrong = f"{gap:.6g} s is {gap / MAX_GAP_SECONDS:.1f} days from one count to the next"
        return [Fault(file, line, where, wrong, f"if {meant}")]
    return []


def _length_faults(steps: int, gap: float, file: str, line: int, where: str) -> list[Fault]:
    """Return the fault of a trace that is empty or too short."""
    if steps == 0:
        return [Fault(file, line, where, "the trace is empty", "give a count per step")]
    if steps < MIN_TRACE_STEPS or steps * gap / HOUR < MIN_TRACE_HOURS:
        counted = f"{steps} count{'s' if steps > 1 else ''} over {steps * gap / MINUTE:.3g} minutes"
        least = f"{MIN_TRACE_STEPS} counts over {MIN_TRACE_HOURS:g} h are the minimum to replay"
        return [Fault(file, line, where, f"{counted} are too few", f"{least}; a fit needs days")]
    return []


def _is_count(value: Any) -> bool:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and 0 <= value <= MAX_MACHINES and value == int(value)


def _number(text: str) -> float | None:
    """Return the text as a finite number; None where it is none."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _abbreviate(value: Any) -> str:
    """Return a value as its author wrote it, shortened where it is long."""
    text = repr(value) if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


# Files of recorded spot markets: their format, and the faults that make them unusable.
#
# Five formats are supported. JSON: `{"metadata": {"gap_seconds": 600}, "data": [count, ...]}`, one trace per file.
# Run-length CSV: columns trace_id, step_s, availability_rle (`64x12;63x3`: count x steps), one trace per row.
# CSV of periods: columns zone, gap_seconds, first_step, steps, available, one row per period; several traces per file.
# CSV of counts: columns time_seconds, available, one row per observation; one trace per file.
# CSV of dates: columns date (ISO 8601), availability, one row per observation; one trace per file.
# Any of them may be compressed with gzip.


FORMATS = (
    'give JSON {"metadata": {"gap_seconds": 600}, "data": [1, 0, ...]}, a CSV with trace_id, step_s and '
    "availability_rle, one with zone, gap_seconds, first_step, steps and available, one with time_seconds and "
    "available, or one with date and availability"
)
ENDINGS = (".json", ".csv", ".json.gz", ".csv.gz")
_ENDING = re.compile(r"\.(json|csv)(\.gz)?\Z")  # left out of a name: `us-east-1a/one` for `us-east-1a/one.json.gz`
GZIP_MAGIC = b"\x1f\x8b"


def read_traces(path: str | Path) -> list[Trace]:
    """Return all traces of a file, or of the files below a folder; names are distinct.

    Raises `InputError` with every fault of every file.
    """
    place = Path(path)
    if not os.path.isdir(path):
        return _check_distinct(_read_file(place, _ENDING.sub("", place.name)), str(path))
    files = sorted(file for file in place.rglob("*") if file.name.endswith(ENDINGS) and file.is_file())
    if not files:
        raise InputError([Fault(str(path), 0, "", "no trace in this folder", f"files end in {', '.join(ENDINGS)}")])
    traces: list[Trace] = []
    faults: list[Fault] = []
    for file in files:
        with collect_faults(faults):
            traces += _read_file(file, _ENDING.sub("", file.relative_to(place).as_posix()))
    raise_faults(faults)
    return _check_distinct(traces, str(path))


def _read_file(path: Path, name: str) -> list[Trace]:
    file, text = str(path), _text(path)
    if not text.strip():
        raise InputError([Fault(file, 1, "", "is empty", FORMATS)])
    if text.lstrip()[0] in "{[":
        return [read_counts_json(text, file, name)]
    traces = read_table(text, file, name)
    if traces is None:
        raise InputError([Fault(file, 1, "", "unknown trace format", FORMATS)])
    return traces


def _text(path: Path) -> str:
    """Return the text of a file, unpacked where it is compressed; `InputError` above a size of `MAX_BYTES`."""
    try:
        with open(path, "rb") as stream:
            note_read(stream)
            packed = stream.read(len(GZIP_MAGIC)) == GZIP_MAGIC
    except (OSError, ValueError):
        packed = False  # the ordinary reader reports it
    if not packed:
        return read_text(path)
    try:
        with gzip.open(path) as stream:
            raw = stream.read(MAX_BYTES + 1)
        if len(raw) > MAX_BYTES:
            raise ValueError(f"unpacks to more than {MAX_BYTES / 1e6:.0f} MB")
        return io.TextIOWrapper(io.BytesIO(raw), "utf-8-sig").read()
    except UnicodeDecodeError:
        raise InputError([Fault(str(path), 1, "", "not UTF-8 text once it is unpacked", FORMATS)]) from None
    except ValueError as error:
        raise InputError([Fault(str(path), 0, "", str(error), "give the traces in several files")]) from None
    except (OSError, EOFError, zlib.error):
        wrong = "is a gzip file that cannot be unpacked"
        raise InputError([Fault(str(path), 0, "", wrong, "compress it again")]) from None


def _check_distinct(traces: list[Trace], file: str) -> list[Trace]:
    """Return the traces; `InputError` for two of one name, which could be one trace counted twice."""
    twice = [name for name, count in Counter(trace.name for trace in traces).items() if count > 1]
    fix = "rename one, or leave it out"
    raise_faults([Fault(file, 0, name, "two traces have this name", fix) for name in twice])
    return traces
