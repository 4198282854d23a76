"""A sweep into a file: the rows are what `solve` gives with any number of workers, and survive an interruption."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from planner.analysis.run_sweep import Journal, journal_of, run_sweep
from planner.errors import InputError
from planner.results.what_if import ManyVariants
from tests.helpers.frozen_data import ROOT
from tests.helpers.hangs import HANG_SECONDS
from tests.helpers.scenarios_what_if import OPTIONS, SMALL, small, solved

VARY = ("limits.budget_usd=[0.2, 5, 60]", "jobs.bot.deadline=[12h, 30h]", "jobs.bot.release=[1h, 20h]")
"""Of the twelve variants three are impossible: a release of 20 h with a deadline of 12 h."""


def swept(path: Path, vary: tuple[str, ...] = VARY, **others: Any) -> ManyVariants:
    return run_sweep(small(), vary, str(path), options=OPTIONS, **{"workers": 1, **others})


@pytest.mark.slow
def test_each_row_is_what_solving_the_variant_gives(tmp_path: Path) -> None:
    """Rows come in the order of the ranges, the last one fastest; impossible combinations are errors of their own."""
    answer = swept(tmp_path / "all.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "all.jsonl").read_text().splitlines()]
    assert [tuple(row["values"].values()) for row in rows][:3] == [
        ("0.2", "12h", "1h"),
        ("0.2", "12h", "20h"),
        ("0.2", "30h", "1h"),
    ]
    errors = [row for row in rows if row["status"] == "error"]
    assert [row["values"]["jobs.bot.release"] for row in errors] == ["20h"] * 3
    assert all("release" in row["error"] for row in errors)
    for row in rows:
        if row not in errors:
            plan = solved(*(f"{path}={value}" for path, value in row["values"].items()), explains=False)
            assert row["status"] == plan.status
            assert row["cost_usd"] == (plan.cost.expected if plan.cost else None)
            assert len(row["jobs"]) == len(plan.jobs)
    assert answer.variants == len(rows) == sum(answer.counts.values()) and answer.counts["error"] == 3
    costs = [row["cost_usd"] for row in rows if row["cost_usd"] is not None]
    assert costs and answer.cheapest and answer.cheapest.cost_usd == min(costs)
    assert not Path(journal_of(str(tmp_path / "all.jsonl"))).exists()


@pytest.mark.slow
def test_a_table_has_a_column_per_range(tmp_path: Path) -> None:
    """Spreadsheets read it."""
    swept(tmp_path / "all.csv", VARY[:1])
    with (tmp_path / "all.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["limits.budget_usd"] for row in rows] == ["0.2", "5", "60"]
    assert [row["status"] for row in rows] == ["infeasible", "optimal", "optimal"]
    assert float(rows[1]["cost_usd"]) > 0 and " x " in rows[1]["machines"]


@pytest.mark.slow
def test_an_interrupted_sweep_solves_only_what_is_missing(tmp_path: Path) -> None:
    """Also where the last line of the journal was cut short; errors are tried again."""
    path, whole = tmp_path / "rows.jsonl", tmp_path / "whole.jsonl"
    swept(whole)

    def stop(done: int, _: int) -> None:
        if done == 7:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        swept(path, on_variant=stop)
    journal = Path(journal_of(str(path)))
    kept = journal.read_text().splitlines()
    journal.write_text(journal.read_text() + kept[-1][:20])
    errors = sum('"error":"s' in line or '"status":"error"' in line for line in kept)
    counted: list[int] = []
    answer = swept(path, on_variant=lambda done, _: counted.append(done))
    assert answer.resumed == 7 - errors and len(counted) == 12 - answer.resumed
    assert path.read_text() == whole.read_text() and not journal.exists()


@pytest.mark.slow
def test_a_journal_of_another_question_is_refused(tmp_path: Path) -> None:
    """Its rows would be wrong; --restart begins anew."""
    path = tmp_path / "rows.jsonl"

    def stop(done: int, _: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        swept(path, VARY[:1], on_variant=stop)
    with pytest.raises(InputError, match="--restart"):
        swept(path, VARY[1:2])
    assert swept(path, VARY[1:2], restart=True).resumed == 0


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_a_journal_without_its_header_is_a_sweep_that_has_not_begun(tmp_path: Path, share: float) -> None:
    """A kill at the very start leaves an empty file, or a header that is cut short."""
    path = tmp_path / "rows.jsonl"
    header = json.dumps({"sweep": "0123456789abcdef"})
    Path(journal_of(str(path))).write_text(header[: int(len(header) * share)])
    assert Journal(str(path), "0123456789abcdef").rows() == {}


def test_wrong_values_and_files_are_told_before_anything_is_solved(tmp_path: Path) -> None:
    """Nothing is left behind."""
    with pytest.raises(InputError, match="out"):
        swept(tmp_path / "rows.csv", ("limits.spot_share.max=0:1.5:0.5",))
    with pytest.raises(InputError, match=r"\.csv"):
        swept(tmp_path / "rows.txt")
    with pytest.raises(InputError, match="cannot be written"):
        swept(tmp_path / "missing" / "rows.csv")
    with pytest.raises(InputError, match="nothing to vary"):
        swept(tmp_path / "rows.csv", ())
    with pytest.raises(InputError, match="at most 100,000"):
        swept(tmp_path / "rows.csv", ("limits.budget_usd=1:2000:1", "jobs.bot.deadline=1h:1000h:1h"))
    assert not list(tmp_path.iterdir())


@pytest.mark.long
def test_processes_give_the_same_file(tmp_path: Path) -> None:
    """As one process does, byte by byte."""
    pytest.importorskip("loky")
    swept(tmp_path / "one.jsonl")
    answer = swept(tmp_path / "two.jsonl", workers=2)
    assert answer.workers == 2
    assert (tmp_path / "one.jsonl").read_bytes() == (tmp_path / "two.jsonl").read_bytes()


@pytest.mark.ecosystem
def test_a_cluster_gives_the_same_file(tmp_path: Path) -> None:
    """As one process does, byte by byte."""
    distributed = pytest.importorskip("distributed")
    swept(tmp_path / "one.jsonl")
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        answer = swept(tmp_path / "two.jsonl", workers=cluster.scheduler_address)
    assert answer.workers == 2
    assert (tmp_path / "one.jsonl").read_bytes() == (tmp_path / "two.jsonl").read_bytes()


@pytest.mark.ecosystem
@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "nonsense"])
def test_a_cluster_that_does_not_answer_is_told(tmp_path: Path, address: str) -> None:
    """With what an address looks like."""
    pytest.importorskip("distributed")
    with pytest.raises(InputError, match="no Dask scheduler answers"):
        swept(tmp_path / "rows.csv", VARY[:1], workers=address)
    assert not list(tmp_path.iterdir())


@pytest.mark.long
def test_workers_end_with_the_sweep(tmp_path: Path) -> None:
    """Where the sweep is killed, so that nothing computes on for nobody."""
    pytest.importorskip("loky")
    path, out = tmp_path / "small.yaml", tmp_path / "rows.csv"
    path.write_text(SMALL)
    vary = ["--vary", "jobs.bot.work.tokens=1e6:9e8:1e6"]
    asked = ["sweep", str(path), *vary, "--workers", "2", "-o", str(out)]
    process = subprocess.Popen([sys.executable, "-m", "planner", *asked], cwd=ROOT)
    workers = _wait_until(lambda: _children(process.pid))
    process.kill()
    process.wait()
    assert len(workers) == 2
    assert _wait_until(lambda: not any(map(_is_running, workers)))


def _wait_until(condition: Callable[[], Any], seconds: float = HANG_SECONDS) -> Any:
    """Wait until something holds; far longer than it takes on a busy machine."""
    for _ in range(round(5 * seconds)):
        if found := condition():
            break
        time.sleep(0.2)
    return found


def _children(parent: int) -> list[int]:
    """Return the worker processes of a process, once there are two."""
    every = ["ps", "-ewwo", "pid=,ppid=,args="]  # not cut to the width of a terminal
    listed = subprocess.run(every, capture_output=True, text=True, check=True).stdout
    rows = [line.split(maxsplit=2) for line in listed.splitlines()]
    found = [int(pid) for pid, ppid, args in rows if int(ppid) == parent and "LokyProcess" in args]
    return found if len(found) == 2 else []


def _is_running(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists() and " Z " not in Path(f"/proc/{pid}/stat").read_text()
