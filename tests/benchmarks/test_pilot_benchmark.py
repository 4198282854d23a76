"""One pilot run pays: measured on the project's own table of published runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.accuracy.measurements import read_measurements
from benchmarks.calibration.pilot import main, pilots

TABLE = Path(__file__).parent.parent.parent / "benchmarks" / "validation.csv"


@pytest.fixture(scope="module")
def unknown() -> dict[str, list[dict[str, dict[str, float]]]]:
    return pilots([row for row in read_measurements(TABLE) if row.headline], as_unknown=True)


@pytest.mark.long
def test_a_stack_that_nobody_has_measured_gains_by_one_run_and_more_by_three(
    unknown: dict[str, list[dict[str, dict[str, float]]]],
) -> None:
    """A quarter off the median error of speed by one run, a third by three; rare errors shrink as well."""
    one, three, _ = unknown["throughput"]
    assert one["after"]["median"] < 0.8 * one["before"]["median"]
    assert three["after"]["median"] < 0.7 * three["before"]["median"]
    assert one["after"]["p90"] < one["before"]["p90"]


@pytest.mark.long
def test_one_probe_takes_a_quarter_off_the_median_error_of_memory(
    unknown: dict[str, list[dict[str, dict[str, float]]]],
) -> None:
    """Of the same setting, the framework forgotten, and the narrowed intervals of speed stay honest on other rows."""
    one, _, _ = unknown["memory"]
    assert one["after"]["median"] < 0.75 * one["before"]["median"]
    assert one["after"]["p90"] < one["before"]["p90"]
    for one in unknown["throughput"]:
        assert 0.5 < float(one["within_68"]) < 0.85  # type: ignore[arg-type]
        assert 0.92 < float(one["within_95"]) <= 1.0  # type: ignore[arg-type]


def test_a_table_that_is_none_ends_with_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The fault is told, no traceback."""
    (tmp_path / "table.csv").write_text("a,b\n1,2\n")
    assert main([str(tmp_path / "table.csv")]) == 2
    assert "has no column" in capsys.readouterr().err


def test_a_table_of_few_rows_is_answered_without_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where no row has another of its source, n is 0 and errors are null."""
    header, first, *_ = TABLE.read_text(encoding="utf-8").splitlines()
    (tmp_path / "table.csv").write_text(f"{header}\n{first}\n", encoding="utf-8")
    assert main([str(tmp_path / "table.csv"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["unknown"]["throughput"][0] == {
        "k": 1, "n": 0, "before": {"median": None, "p90": None}, "after": {"median": None, "p90": None},
        "within_68": None, "within_95": None,
    }  # fmt: skip
