"""Recorded spot markets: the four formats, the runs in them, and what is refused."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.errors import InputError
from planner.spot.states import Trace
from planner.spot.trace_formats import read_traces

COUNTS = [1, 1, 1, 0, 0, 2, 2, 2, 2, 0, 0, 0]
RLE = "1x3;0x2;2x4;0x3"
HEADER = "trace_id,gpu,zone,start_s,step_s,target_nodes,availability_rle\n"


def as_json(counts: list[Any], gap: float = 600) -> str:
    return json.dumps({"metadata": {"gap_seconds": gap}, "data": counts})


def faults(path: Path) -> list[str]:
    with pytest.raises(InputError) as raised:
        read_traces(path)
    return [str(fault).replace(str(path), "F") for fault in raised.value.faults]


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("us-east-1a.json", as_json(COUNTS)),
        ("list.csv", HEADER + f"us-east-1a,T4,here,0,600,2,{RLE}\n"),
        ("us-east-1a.csv", "time_seconds,available\n" + "".join(f"{600 * i},{n}\n" for i, n in enumerate(COUNTS))),
    ],
)
def test_one_trace_reads_alike_from_every_format(name: str, text: str, packed: bool, tmp_path: Path) -> None:
    """JSON, run lengths and counts over time, plain or packed, are the same market."""
    path = tmp_path / (f"{name}.gz" if packed else name)
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    (trace,) = read_traces(path)
    assert (trace.name, trace.gap_seconds, trace.available.tolist()) == ("us-east-1a", 600, COUNTS)
    assert trace.hours == 2


def test_uneven_times_are_put_on_even_steps(tmp_path: Path) -> None:
    """A count holds until the next one, and the shortest time between two looks is the step."""
    times = [0, 600, 1200, 1500, 3000, 4200, 4800, 5400, 6000, 7200]
    path = tmp_path / "t.csv"
    path.write_text("time_seconds,available\n" + "".join(f"{t},{i}\n" for i, t in enumerate(times)))
    (trace,) = read_traces(path)
    assert trace.gap_seconds == 300
    expected = [max(i for i, t in enumerate(times) if t <= 300 * step) for step in range(25)]
    assert trace.available.tolist() == expected


def test_a_folder_gives_the_traces_of_all_its_files(tmp_path: Path) -> None:
    """Folders inside are read too, and traces of one file name keep distinct names."""
    for zone in ("a", "b"):
        (tmp_path / zone).mkdir()
        (tmp_path / zone / "v100.json").write_text(as_json(COUNTS))
    (tmp_path / "README.md").write_text("no trace")
    assert [trace.name for trace in read_traces(tmp_path)] == ["a/v100", "b/v100"]


def test_runs_know_which_of_their_ends_were_not_seen() -> None:
    """The first run began before the trace, the last goes on after it."""
    runs = Trace("t", 1800, np.array(COUNTS)).runs(1)
    assert runs.up_hours.tolist() == [1.5, 2.0] and runs.up_censored.tolist() == [True, False]
    assert runs.down_hours.tolist() == [1.0, 1.5] and runs.down_censored.tolist() == [False, True]
    born = Trace("t", 1800, np.array(COUNTS)).runs(1, with_first=False)
    assert born.up_hours.tolist() == [2.0] and born.down_hours.tolist() == [1.0, 1.5]
    assert Trace("t", 1800, np.array(COUNTS)).runs(2).up_hours.tolist() == [2.0]


@settings(derandomize=True, max_examples=60, deadline=None)
@given(counts=st.lists(st.integers(0, 3), min_size=1, max_size=60), k=st.integers(1, 4))
def test_runs_make_up_the_whole_trace(counts: list[int], k: int) -> None:
    """No hour is lost or counted twice, up and down take turns, and the larger the node group the less it is up."""
    trace = Trace("t", 3600, np.array(counts))
    runs = trace.runs(k)
    assert runs.up_hours.sum() == trace.up(k).sum() and runs.down_hours.sum() == (~trace.up(k)).sum()
    assert abs(runs.up_hours.size - runs.down_hours.size) <= 1
    seen = runs.up_censored.sum() + runs.down_censored.sum()
    assert seen == (1 if runs.up_hours.size + runs.down_hours.size == 1 else 2)
    assert trace.up(k + 1).sum() <= trace.up(k).sum()


@settings(derandomize=True, max_examples=40, deadline=None)
@given(
    pieces=st.lists(st.tuples(st.integers(0, 99), st.integers(1, 40)), min_size=1, max_size=12),
    gap=st.integers(600, 3600),
)
def test_run_lengths_and_json_are_the_same_counts(
    pieces: list[tuple[int, int]], gap: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Whatever the counts, both formats read back what was written."""
    folder = tmp_path_factory.mktemp("traces")
    counts = [count for count, steps in pieces for _ in range(steps)] + [0] * 10
    rle = ";".join(f"{count}x{steps}" for count, steps in [*pieces, (0, 10)])
    (folder / "one.json").write_text(as_json(counts, gap))
    (folder / "two.csv").write_text(HEADER + f"two,,,,{gap},,{rle}\n")
    one, two = read_traces(folder)
    assert one.available.tolist() == two.available.tolist() == counts and one.gap_seconds == two.gap_seconds == gap


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "F:1: is empty"),
        ("hello world\n", "F:1: unknown trace format"),
        ('{"a": [1, 2', "F:1: not JSON"),
        ('{"data": [1, 2]}', "has no metadata and data of a trace"),
        ("[" * 100_000, "F:1: nested too deeply"),
        (as_json([]), "F:1: data: the trace is empty; give a count per step"),
        (as_json([1, 0, 1]), "F:1: data: 3 counts over 30 minutes are too few"),
        (as_json([1] * 30, 60), "30 counts over 30 minutes are too few"),
        (as_json([*COUNTS, -1]), "F:1: data.12: -1 is not a number of machines"),
        (as_json([1, 0.5, None]), "data.1: 0.5 is not a number of machines (and 1 more)"),
        (as_json(COUNTS, 600_000), "600000 s is 6.9 days from one count to the next; if milliseconds"),
        (as_json(COUNTS, 0.05), "0.05 s is too short a time between two counts; if hours were meant, it is 180"),
        (as_json(COUNTS, -600), "metadata.gap_seconds: -600 is not a time"),
        (as_json(COUNTS).replace("600", "6" * 400), "F:1: a number of 400 digits; at most 300"),
        (as_json(COUNTS).replace("600", "1e999"), "F:1: 1e999 is not a finite number"),
        (as_json([1, "x"]).replace("1, ", "1,\n"), "F:2: data.1: 'x' is not a number of machines"),
        (json.dumps({"metadata": {}, "data": COUNTS}), "metadata.gap_seconds: is missing"),
        (HEADER, "F:1: has a header but no trace"),
        (HEADER + "a,,,0,600,2,\n", "F:2: a: the trace is empty"),
        (HEADER + "a,,,0,600,2,1x3;0y2\n", "F:2: a: availability_rle: '0y2' is malformed; write count x steps"),
        (HEADER + "a,,,0,600,2,1x3;-4x20\n", "availability_rle: -4 is not a number of machines"),
        (HEADER + "a,,,0,600,2,1x3;4x0\n", "'4x0' lasts less than one step"),
        (HEADER + "a,,,0,600,2,1x999999999999\n", "are more than the 10,000,000 that can be read"),
        (HEADER + "a,,,0,,2,1x30\n", "a: step_s: is missing"),
        (HEADER + "a,,,0,ten,2,1x30\n", "a: step_s: 'ten' is not a time"),
        (HEADER + "a,,,0,600,2,1x30\na,,,0,600,2,1x30\n", "F:3: a: two traces have this name"),
        ("time_seconds,available\n", "the trace is empty"),
        ("time_seconds,available\n0,1\n600,1\n600,0\n", "F:4: time_seconds: 600 s does not come after 600 s"),
        ("time_seconds,available\n0,1\n1200,1\n600,0\n", "F:4: time_seconds: 600 s does not come after 1200 s"),
        ("time_seconds,available\n0,1\nnoon,1\n", "F:3: time_seconds: 'noon' is not a time"),
        ("time_seconds,available\n0,1\n600,many\n", "F:3: available: 'many' is not a number of machines"),
        ("time_seconds,available\n" + "".join(f"{600_000 * i},1\n" for i in range(20)), "milliseconds were meant"),
    ],
)
def test_what_cannot_be_used_is_reported_in_one_line(text: str, message: str, tmp_path: Path) -> None:
    """Each fault names the file, the place, and what would be right."""
    path = tmp_path / "t.data"
    path.write_text(text)
    (line,) = faults(path)
    assert message in line


def test_all_faults_of_all_files_are_reported_at_once(tmp_path: Path) -> None:
    """Nobody mends a folder file by file."""
    (tmp_path / "a.json").write_text(as_json([-1, 2], -5))
    (tmp_path / "b.csv").write_text(HEADER + "x,,,0,600,2,huh\ny,,,0,1e9,2,1x30\n")
    (tmp_path / "c.json").write_text(as_json(COUNTS))
    assert len(faults(tmp_path)) == 4


def test_missing_broken_and_empty_places_are_told(tmp_path: Path) -> None:
    """A wrong path, a damaged archive, text of another code, and a folder without traces."""
    assert "cannot be read" in faults(tmp_path / "nothing.json")[0]
    assert "no trace in this folder" in faults(tmp_path)[0]
    broken = tmp_path / "t.csv.gz"
    broken.write_bytes(gzip.compress(as_json(COUNTS).encode())[:-12])
    assert "cannot be unpacked" in faults(broken)[0]
    broken.write_bytes(gzip.compress(b"\xff\xfe\x00"))
    assert "not UTF-8" in faults(broken)[0]
    broken.write_bytes(gzip.compress(b" " * (11 * 2**20)))
    assert "unpacks to more than 10 MB" in faults(broken)[0]


def test_dates_and_availability_are_a_format(tmp_path: Path) -> None:
    """ISO dates, in UTC where no zone is given; another text is a fault at its line."""
    rows = [f"2024-05-01T{hour:02}:{minute:02}:00,{hour % 2}" for hour in range(4) for minute in (0, 20, 40)]
    path = tmp_path / "zone.csv"
    path.write_text("\n".join(["date,availability", *rows]))
    (trace,) = read_traces(path)
    assert trace.gap_seconds == 1200
    assert trace.available.tolist() == [0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1]
    path.write_text("\n".join(["date,availability", "yesterday,1", *rows]))
    with pytest.raises(InputError, match=r"zone.csv:2.*'yesterday' is not a date"):
        read_traces(path)


def test_a_row_per_period_is_a_format(tmp_path: Path) -> None:
    """Two zones in one file, rows of each in order; a gap, an overlap and another step are faults at their line."""
    head = "zone,gap_seconds,first_step,steps,available"
    path = tmp_path / "zones.csv"
    path.write_text("\n".join([head, "a,600,0,3,1", "b,600,0,20,0", "a,600,3,17,0"]))
    one, two = read_traces(path)
    assert (one.name.rpartition("/")[2], one.gap_seconds, one.available.tolist()) == ("a", 600.0, [1] * 3 + [0] * 17)
    assert two.available.tolist() == [0] * 20
    path.write_text("\n".join([head, "a,600,0,3.0,1e0", "a,600,3,17,0"]))  # whole numbers, however they are written
    assert read_traces(path)[0].available.tolist() == [1] * 3 + [0] * 17
    for row, what in (
        ("a,600,4,17,0", "zones.csv:4: first_step: begins at step '4', but 3 steps of a came before"),
        ("a,600,2,17,0", "begins at step '2', but 3 steps of a came before"),
        ("a,300,3,17,0", "zones.csv:4: gap_seconds: '300' s, but '600' s above"),
        ("a,600,3,many,0", "zones.csv:4: steps: 'many' is not a number of steps"),
        ("a,600,3,0,0", "'0' is not a number of steps"),
        ("a,600,3,17,x", "zones.csv:4: available: 'x' is not a number of machines"),
        ("a,600,3,17,1x5;0", "zones.csv:4: available: '1x5;0' is not a number of machines"),
        ("a,600,3,17,-1", "'-1' is not a number of machines"),
        ("c,soon,0,17,1", "zones.csv:4: gap_seconds: 'soon' is not a time"),
    ):
        path.write_text("\n".join([head, "a,600,0,3,1", "b,600,0,20,0", row]))
        with pytest.raises(InputError) as found:
            read_traces(path)
        assert what in str(found.value)
