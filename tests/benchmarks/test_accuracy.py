"""The accuracy benchmark as a whole, on the project's own validation table."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from benchmarks.accuracy import benchmark as accuracy
from benchmarks.accuracy.measurements import read_measurements
from benchmarks.accuracy.predictions import Predictor
from benchmarks.accuracy.text import percent, text_of
from planner.library.reading import read_library

TABLE = Path(__file__).parents[2] / "benchmarks" / "validation.csv"


@cache
def answer() -> dict[str, Any]:
    """The report on the validation table."""
    return accuracy.report(read_measurements(TABLE), read_library())


def test_the_validation_table_is_large_public_and_spread() -> None:
    """At least 150 rows of named sources, over frameworks, methods and cards; ids are unique."""
    rows = read_measurements(TABLE)
    assert len(rows) >= 150
    assert len({row.cells["id"] for row in rows}) == len(rows)
    assert all(re.match(r"https://(github\.com|arxiv\.org)/|package ", row.cells["url"]) for row in rows)
    assert len({row.text("framework") for row in rows}) >= 10
    assert len({row.text("gpu") for row in rows}) >= 15
    assert {"full", "lora", "qlora", "pretrain"} == {row.text("method") for row in rows}
    assert sum(row.out_of_memory for row in rows) >= 30


@pytest.mark.slow
@pytest.mark.parametrize("figure", accuracy.FIGURES)
def test_nearly_every_complete_row_is_predicted(figure: str) -> None:
    """At least 95 % of the rows that have the columns, and a hundred of them."""
    found = answer()[figure]
    assert found["n"] >= 100
    assert found["n"] / found["n_complete"] >= 0.95


@pytest.mark.parametrize(("figure", "median", "mape"), [("memory", 0.075, 0.15), ("throughput", 0.11, 0.17)])
def test_errors_stay_where_they_are(figure: str, median: float, mape: float) -> None:
    """A guard against a change that makes estimates worse unnoticed, not a claim of accuracy."""
    found = answer()[figure]
    assert found["median_ape"] < median
    assert found["mape"] < mape


@pytest.mark.parametrize("figure", accuracy.FIGURES)
def test_rules_of_thumb_are_beaten_on_the_same_rows(figure: str) -> None:
    """Each by a factor of 1.7 or more in the median, memory rules by 5."""
    ours = answer()[figure]
    factor = {"memory": 5.0, "throughput": 1.7}[figure]
    for name, errors in answer()["baselines"][figure].items():
        assert errors["n"] == ours["n"], name
        assert errors["median_ape"] > factor * ours["median_ape"], name


@pytest.mark.long
def test_a_share_below_its_target_is_told_with_the_verdict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Rows of a card that nobody knows stay complete: no speed is predicted, and the first lines say so."""
    lines = TABLE.read_text(encoding="utf-8").splitlines()
    with TABLE.open(encoding="utf-8", newline="") as stream:
        known = list(csv.DictReader(stream))[::4]
    rows = [{**cells, "gpu": "FOO-9000"} for cells in known]
    table = tmp_path / "unknown.csv"
    with table.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, lines[0].split(","))
        writer.writeheader()
        writer.writerows(rows)
    assert accuracy.main([str(table), "--brief"]) == 0
    text = capsys.readouterr().out
    complete = accuracy.report(read_measurements(TABLE)[::4], read_library())["throughput"]["n_complete"]
    assert complete > 30 and f"(0 of {complete})" in text
    assert "memory 100.0 (95) met, throughput 0.0 (95) missed." in text.splitlines()[2]
    assert max(map(len, text.splitlines())) <= 80


def test_the_json_has_the_agreed_shape() -> None:
    """Names that scripts outside the project read."""
    for figure in accuracy.FIGURES:
        found = answer()[figure]
        assert {"n", "n_complete", "share_predicted", "mape", "median_ape", "p90_ape", "bias", "by"} <= set(found)
        assert {"method", "gpu", "framework", "quality"} <= set(found["by"])
    assert set(answer()["throughput"]["pairs"]) == {"gpu", "setting", "technique"}
    assert set(answer()["throughput"]["pairs_same_dimensions"]) == {"gpu", "setting", "technique"}
    for reading in ("regret", "regret_same_dimensions"):
        assert {"median", "p90", "optimism", "n"} <= set(answer()["throughput"][reading])
    assert {"false_fit", "false_reject", "n_oom", "n_ok"} <= set(answer()["fit"])
    assert set(answer()["splits"]) == {"configuration", "source", "source_unknown"}
    assert json.loads(json.dumps(answer(), allow_nan=False)) == answer()


@pytest.mark.long
def test_the_stricter_reading_of_pairs_stands_below_the_letter() -> None:
    """It leaves pairs out and adds none; the text shows both, each with its number."""
    rows = read_measurements(TABLE)
    predictions = Predictor(read_library()).predict(rows)
    one = next(p for p in predictions if accuracy.headline(p, "throughput") and p.speed is not None)
    assert one.speed is not None
    speed = {"tokens_per_s_total": str(one.speed.measured / 2), "tokens_per_s_per_gpu": "", "samples_per_s": ""}
    wider = replace(one.row, cells={**one.row.cells, "heads": "8", **speed})
    table = accuracy.report([*rows, wider], read_library())["throughput"]
    letter, strict = (sum(kind["n"] for kind in table[key].values()) for key in ("pairs", "pairs_same_dimensions"))
    assert letter > strict
    assert f"same dimensions, too: gpu {percent(answer()['throughput']['pairs']['gpu']['right'])} % of" in text_of(
        answer(), "-"
    )


def test_splits_say_that_nothing_was_held_out() -> None:
    """Who reads the JSON alone must not take halves of rows that a fit has seen for rows that it has not."""
    assert [split["held_out"] for split in answer()["splits"].values()] == [False, False, False]


def test_groups_and_sides_add_up() -> None:
    """Every headline row lies in one group of each kind, and on one side of each split."""
    for figure in accuracy.FIGURES:
        n = answer()[figure]["n"]
        for kind in ("method", "gpu", "framework"):
            assert sum(errors["n"] for errors in answer()[figure]["by"][kind].values()) == n
        for split in ("configuration", "source"):
            sides = answer()["splits"][split]
            assert sides["side 0"][figure]["n"] + sides["side 1"][figure]["n"] == sides["both"][figure]["n"] == n


def test_forgetting_the_framework_makes_memory_worse() -> None:
    """A profile is worth something: unknown rows are further off, in the median and in the mean.

    Fewer of them may be refused all the same: Megatron-DeepSpeed's are said to take less than they do.
    """
    known, unknown = answer()["splits"]["source"]["both"], answer()["splits"]["source_unknown"]["both"]
    assert unknown["memory"]["median_ape"] > known["memory"]["median_ape"]
    assert unknown["memory"]["mape"] > known["memory"]["mape"]


def test_ranges_are_judged_class_by_class() -> None:
    """Classes of 25 rows or more, each with the interval of its share."""
    for figure in accuracy.FIGURES:
        classes = answer()[figure]["classes"]
        assert set(classes) <= set(accuracy.CLASSES)
        assert 0 < sum(classes[name]["interval_68"]["n"] for name in classes if "GPU" in name) <= answer()[figure]["n"]
        for ranges in classes.values():
            for share in ranges.values():
                assert share["n"] >= accuracy.LEAST_OF_CLASS and share["low"] <= share["share"] <= share["high"]


def test_means_over_organisations_weigh_each_of_them_alike() -> None:
    """The mean of each one's own median and MAPE, however many rows it has."""
    for figure in accuracy.FIGURES:
        found, each = answer()[figure]["organisations"], answer()[figure]["by"]["organisation"].values()
        assert found["n"] == len(each)
        assert found["mape"] == pytest.approx(sum(one["mape"] for one in each) / len(each))
        assert found["median_ape"] == pytest.approx(sum(one["median_ape"] for one in each) / len(each))


def test_rows_apart_are_not_in_the_headline() -> None:
    """Unnamed frameworks and lengths known by a mean are counted elsewhere."""
    assert answer()["apart"]["lengths from a mean"]["throughput"]["n"] > 0
    assert "unknown" not in answer()["throughput"]["by"]["framework"]


@pytest.mark.long
def test_the_text_is_80_columns_wide_and_says_the_verdict_first(capsys: pytest.CaptureFixture[str]) -> None:
    """Read on a terminal: the two medians in the first lines, reasons of skipped rows last."""
    assert accuracy.main([str(TABLE)]) == 0
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 80
    assert text.startswith("validation.csv: ")
    assert "complete rows predicted" in text[:250]
    assert re.match(
        r" +\d+  (memory|throughput|fit), (not stated|not expressible|contradicts itself): ", text.splitlines()[-1]
    )


@pytest.mark.long
def test_json_and_pictures_are_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One document on standard output; the pictures' names go elsewhere."""
    small = tmp_path / "small.csv"
    small.write_text("".join(TABLE.read_text(encoding="utf-8").splitlines(keepends=True)[:40]), encoding="utf-8")
    assert accuracy.main([str(small), "--json", "--plot", str(tmp_path / "pictures")]) == 0
    out = capsys.readouterr()
    assert json.loads(out.out)["rows"] == 39
    assert "throughput.png" in out.err
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in (tmp_path / "pictures").iterdir())


def test_a_bad_table_ends_with_2_and_one_message(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also as JSON, in the shape of every other command."""
    assert accuracy.main([str(tmp_path / "none.csv"), "--json"]) == 2
    out = capsys.readouterr()
    assert json.loads(out.out)["errors"][0]["what"].startswith("cannot be read")
    assert "none.csv" in out.err


@pytest.mark.slow
def test_brief_is_the_beginning_and_the_baselines() -> None:
    """The headlines read the same in both; groups and skipped rows are left to the whole report."""
    whole, brief = (text_of(answer(), TABLE.name, only_headlines) for only_headlines in (False, True))
    assert all(part in whole for part in brief.strip().split("\n\n"))
    assert "not stated" not in brief and len(brief) < len(whole) / 2
