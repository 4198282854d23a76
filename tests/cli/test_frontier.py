"""`planner frontier`: exit codes, one JSON document, whole pictures or none."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from planner.cli import main
from planner.drawing.scene import plain
from tests.helpers.computed_once import compute_once
from tests.helpers.scenarios import GOOD

SPOT = """\
  - {provider: lambda, gpu: A100-80GB, gpus: 4, usd_per_hour: 6, spot_usd_per_hour: 2}
"""


QUICK = GOOD.replace("epochs: 3", "epochs: 1").replace("36h", "12h")
TWINS = GOOD.replace("gpus: 1,", "gpus: 1, stock: 1,").replace(
    "offers:",
    """\
  - name: b
    architecture: mistral-7b
    work: {samples: 50000, tokens_per_sample: 600, epochs: 3}
offers:""",
)
"""Two jobs, and one of the machines that both would like best."""


@pytest.fixture(autouse=True)
def once(monkeypatch: pytest.MonkeyPatch) -> None:
    compute_once(monkeypatch)


@pytest.fixture
def scenario(tmp_path: Path) -> str:
    """One job, four offers, in a folder of its own."""
    path = tmp_path / "s.yaml"
    path.write_text(QUICK + SPOT, encoding="utf-8")
    return str(path)


def ask(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["frontier", *arguments, "--as-of", "2026-11-21"])


@pytest.mark.slow
def test_text_begins_with_the_range_and_ends_with_the_proof(scenario: str) -> None:
    """A verdict, a row per breakpoint, and what is certain."""
    result = ask(scenario)
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert lines[0].startswith("small: ")
    assert " to " in lines[0]
    *answer, empty, command = lines
    assert answer[-1].startswith("proven: ") and empty == ""
    assert command.startswith(f"planner solve {scenario}") and "--set jobs.0.deadline=" in command
    assert max(map(len, answer)) <= 80
    assert CliRunner().invoke(main, command.split()[1:]).exit_code == 0


@pytest.mark.long
def test_json_is_one_document_as_agreed(scenario: str) -> None:
    """Points sorted by hours with full plans, segments, exactness."""
    result = ask(scenario, "--json")
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    assert found["exact"] is True
    assert found["status"] == "optimal"
    hours = [point["hours"] for point in found["points"]]
    assert hours == sorted(hours)
    assert len(hours) > 1
    for point in found["points"]:
        assert {"hours", "expected_hours", "cost_usd", "jobs", "before", "change", "bound", "gap", "knee"} <= set(point)
        assert point["jobs"][0]["techniques"]["micro_batch"] >= 1
    for segment in found["segments"]:
        assert {"hours_from", "hours_to", "cost_from_usd", "cost_to_usd", "to_included", "jobs"} <= set(segment)


@pytest.mark.long
def test_settings_and_the_deadline_shape_the_frontier(scenario: str) -> None:
    """It ends at the deadline that --set gives."""
    found = json.loads(ask(scenario, "--set", "jobs.a.deadline=3h", "--json").stdout)
    assert all(point["hours"] <= 3 for point in found["points"])
    assert found["beyond"][0]["setting"] == "jobs.a.deadline=null"


def test_points_on_spot_only_offers_are_marked_as_solve_calls_them(tmp_path: Path) -> None:
    """Without a price on demand there is no fallback: solve says so of its plan, the frontier of its point."""
    path = tmp_path / "s.yaml"
    path.write_text(
        GOOD.replace("usd_per_hour: 0.2, spot", "spot").replace("36h", "72h\n    sequence_length: 2048"),
        encoding="utf-8",
    )
    found = json.loads(ask(str(path), "--json").stdout)
    marked = {point["jobs"][0]["provider"]: point["spot_only"] for point in found["points"]}
    assert marked == {"lambda": False, "vast": True}
    assert "except those marked ~" in ask(str(path)).output
    solved = CliRunner().invoke(main, ["solve", str(path)])
    assert "a deadline holds with a probability" in " ".join(solved.output.split())


@pytest.mark.long
def test_by_shows_a_line_per_curve(scenario: str) -> None:
    """Methods by name."""
    result = ask(scenario, "--by", "method", "--set", "limits.spot=false")
    assert result.exit_code == 0
    assert "fastest" in result.output
    assert "QLoRA" in result.output
    assert ask(scenario, "--by", "weather").exit_code == 2


@pytest.mark.long
@pytest.mark.parametrize(("ending", "by"), [("png", None), ("html", None), ("svg", "provider")])
def test_a_picture_is_written_by_the_ending_of_its_name(
    scenario: str, tmp_path: Path, ending: str, by: str | None
) -> None:
    """PNG, SVG, or a page that holds both picture and text."""
    path = tmp_path / f"f.{ending}"
    result = ask(scenario, "--plot", str(path), *(["--by", by] if by else []))
    assert result.exit_code == 0, result.output
    begins = {"png": b"\x89PNG", "svg": b"<?xml", "html": b"<!doctype html>"}
    content = path.read_bytes()
    assert content.startswith(begins[ending])
    if ending != "png":
        text = content.decode()
        assert "ends by (" in text and "expected cost" in text
        assert by or "best value" in text or "RTX3090" in text
        assert "small: " in text


@pytest.mark.long
def test_the_same_picture_twice_is_the_same_file(
    scenario: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No date, no chance."""
    monkeypatch.undo()
    for name in ("a.svg", "b.svg"):
        ask(scenario, "--plot", str(tmp_path / name))
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_a_path_that_cannot_be_written_is_refused_before_the_work(scenario: str, tmp_path: Path) -> None:
    """Exit 2 with the reason; nothing is left behind."""
    for path, said in (
        (tmp_path / "none" / "f.png", "there is no folder"),
        (tmp_path, "is a folder"),
        (tmp_path / "f.gif", "is not a supported picture format"),
    ):
        result = ask(scenario, "--plot", str(path))
        assert result.exit_code == 2
        assert said in result.stderr
    assert sorted(os.listdir(tmp_path)) == ["s.yaml"]


@pytest.mark.long
def test_a_write_that_fails_leaves_the_old_file(scenario: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk is bad luck, not a traceback."""
    path = tmp_path / "f.svg"
    path.write_text("old", encoding="utf-8")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("planner.documents.files.os.replace", full)
    result = ask(scenario, "--plot", str(path))
    assert result.exit_code == 2
    assert "cannot be written: no space left" in result.stderr
    assert path.read_text(encoding="utf-8") == "old"


@pytest.mark.long
def test_infeasible_is_explained_with_exit_code_3(scenario: str, tmp_path: Path) -> None:
    """The reasons of solve, no picture, and in JSON the same."""
    path = tmp_path / "f.png"
    result = ask(scenario, "--set", "limits.budget_usd=0.01", "--plot", str(path))
    assert result.exit_code == 3
    assert ": no plan keeps the budget of $0.01 (least: " in result.output.splitlines()[0]
    assert not path.exists()
    found = json.loads(ask(scenario, "--set", "limits.budget_usd=0.01", "--json").stdout)
    assert found["points"] == []
    assert found["infeasible"]["relax"]


def test_bad_input_is_told_with_exit_code_2(scenario: str) -> None:
    """A path that is none, as in solve."""
    result = ask(scenario, "--set", "limits.bugdet_usd=3")
    assert result.exit_code == 2
    assert "budget_usd" in result.stderr


@pytest.mark.long
def test_curves_lie_on_the_thick_line_of_the_frontier_and_only_its_best_value_is_marked(
    scenario: str, tmp_path: Path
) -> None:
    """Where every curve had its own, their circles would stand on one another."""
    path = tmp_path / "f.svg"
    ask(scenario, "--by", "gpu", "--plot", str(path))
    picture = path.read_text(encoding="utf-8")
    assert "frontier of all allowed" in picture
    assert picture.count("<title>best value</title>") == 1


@pytest.mark.long
def test_the_picture_of_jobs_in_each_others_way_has_their_lower_bound(tmp_path: Path) -> None:
    """A thin line of what they would cost without each other; an exact frontier needs none."""
    path = tmp_path / "s.yaml"
    path.write_text(TWINS + "schedule: side_by_side\n", encoding="utf-8")
    picture = tmp_path / "f.svg"
    result = ask(str(path), "--plot", str(picture))
    assert result.exit_code == 0 and "compete for shared limits" in result.output
    assert "lower bound: each job alone" in picture.read_text(encoding="utf-8")
    path.write_text(GOOD, encoding="utf-8")
    ask(str(path), "--plot", str(picture))
    assert "lower bound" not in picture.read_text(encoding="utf-8")


def test_large_figures_have_no_exponent_at_an_axis() -> None:
    """Millions of dollars are written out; small hours keep their digits."""
    assert [plain(value) for value in (0.0, 0.25, 950.5, 4e6)] == ["0", "0.25", "950.5", "4,000,000"]


def test_a_picture_without_matplotlib_names_the_extra(
    scenario: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line, before anything is computed: a plan and its SVG need no matplotlib, so it may be missing."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert ask(scenario, "--plot", str(tmp_path / "drawn.svg")).exit_code == 0
    assert (tmp_path / "drawn.svg").read_bytes().startswith(b"<?xml")
    result = ask(scenario, "--plot", str(tmp_path / "picture.png"))
    assert result.exit_code == 2
    assert len(result.output.splitlines()) == 1
    assert "pip install '.[plot]'" in result.output
    assert not list(tmp_path.glob("picture*"))


@pytest.mark.long
def test_jobs_that_take_turns_follow_policies_on_spot(tmp_path: Path) -> None:
    """A frontier of one job computes the policies itself, that of a timetable takes them from the candidates."""
    path = tmp_path / "s.yaml"
    path.write_text(TWINS, encoding="utf-8")
    result = ask(str(path), "--json")
    assert result.exit_code == 0, result.output
    last = json.loads(result.output)["points"][-1]
    assert all(job["spot"] for job in last["jobs"] if job["spot_share"] > 0)
    assert any(job["spot"] for job in last["jobs"])
