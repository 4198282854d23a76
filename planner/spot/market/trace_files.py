"""Files of recorded spot markets: their format, and the faults that make them unusable.

Five formats are supported. JSON: `{"metadata": {"gap_seconds": 600}, "data": [count, ...]}`, one trace per file.
Run-length CSV: columns trace_id, step_s, availability_rle (`64x12;63x3`: count x steps), one trace per row.
CSV of periods: columns zone, gap_seconds, first_step, steps, available, one row per period; several traces per file.
CSV of counts: columns time_seconds, available, one row per observation; one trace per file.
CSV of dates: columns date (ISO 8601), availability, one row per observation; one trace per file.
Any of them may be compressed with gzip.
"""

from __future__ import annotations

import gzip
import io
import os
import re
import zlib
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from planner.documents.files import MAX_BYTES, note_read, read_text
from planner.errors import Fault, InputError, collect_faults, raise_faults
from planner.spot.market.trace_formats import read_counts_json, read_table

if TYPE_CHECKING:
    from planner.spot.market.trace import Trace

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
        what = "is a gzip file that cannot be unpacked"
        raise InputError([Fault(str(path), 0, "", what, "compress it again")]) from None


def _check_distinct(traces: list[Trace], file: str) -> list[Trace]:
    """Return the traces; `InputError` for two of one name, which could be one trace counted twice."""
    twice = [name for name, count in Counter(trace.name for trace in traces).items() if count > 1]
    fix = "rename one, or leave it out"
    raise_faults([Fault(file, 0, name, "two traces have this name", fix) for name in twice])
    return traces
