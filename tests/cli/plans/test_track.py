"""`planner track`: text, JSON, exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from planner.cli import main
from planner.documents.tables import json_text
from tests.helpers import exported_services, run_logs
from tests.helpers.exported_plans import solved

pytestmark = pytest.mark.slow


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ("track", *arguments))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A plan, a log of its run, and one of a run that will be late."""
    made = tmp_path_factory.mktemp("track")
    (made / "plan.json").write_text(json_text(solved("quickstart").model_dump(mode="json", by_alias=True)))
    (made / "run.log").write_text(run_logs.torchtitan(range(10, 301, 10), 28.0))
    (made / "late.log").write_text(run_logs.torchtitan(range(10, 301, 10), 260.0))
    return made


def test_the_first_line_says_how_it_will_end(folder: Path) -> None:
    """Share, hours, dollars and the deadline; then what was observed against what was planned."""
    result = run(str(folder / "plan.json"), str(folder / "run.log"))
    assert result.exit_code == 0
    assert result.stdout.startswith("quickstart: 42 % done, ends after likely 5.6 h for $3.")
    for label in ("Done", "Speed", "Memory", "End", "Because", "Logs", "Notes"):
        assert f"\n  {label}" in result.stdout
    assert "slower steps" in result.stdout and "tokens/s observed" in result.stdout


def test_the_json_has_the_fields_of_the_contract(folder: Path) -> None:
    """`observed`, `planned`, `projected` and `replan`, one document, nothing else."""
    result = run(str(folder / "plan.json"), str(folder / "run.log"), "--json")
    found = json.loads(result.stdout)
    assert {"observed", "planned", "projected", "replan"} <= found.keys()
    assert {"hours", "cost", "deadline_probability"} <= found["projected"].keys()
    assert found["observed"]["steps"] == 300 and found["replan"] is None


def test_a_deadline_in_danger_is_exit_code_3(folder: Path) -> None:
    """The answer is printed all the same."""
    result = run(str(folder / "plan.json"), str(folder / "late.log"))
    assert result.exit_code == 3 and "meets the 36 h deadline with under 1 % probability" in " ".join(
        result.stdout.split()
    )


def test_bad_input_is_exit_code_2(folder: Path) -> None:
    """A log that is none, a plan that is none, an amount that is none."""
    (folder / "none.log").write_text("hello\n")
    assert run(str(folder / "plan.json"), str(folder / "none.log")).exit_code == 2
    assert run(str(folder / "run.log"), str(folder / "run.log")).exit_code == 2
    assert run(str(folder / "plan.json"), str(folder / "run.log"), "--spent", "nan").exit_code == 2
    result = run(str(folder / "plan.json"), str(folder / "missing"), "--json")
    assert result.exit_code == 2 and json.loads(result.stdout)["errors"][0]["what"].startswith("cannot be read")


def test_watching_reads_the_logs_again_until_the_run_is_done(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log that is gone for a moment is told on standard error; the last step ends it."""
    log = folder / "growing.log"
    log.write_text(run_logs.torchtitan(range(10, 301, 10), 28.0))
    states = iter(["", run_logs.torchtitan(range(10, 501, 10), 26.0), run_logs.torchtitan(range(4, 709, 4), 26.0)])
    waited: list[float] = []

    def sleep(seconds: float) -> None:
        waited.append(seconds)
        log.write_text(next(states))

    monkeypatch.setattr("planner.cli.run_commands.time.sleep", sleep)
    result = run(str(folder / "plan.json"), str(log), "--watch")
    assert result.exit_code == 0, result.output
    assert waited == [60, 60, 60] and "growing.log:1: is empty" in result.stderr
    assert [text for text in ("42 % done", "71 % done", "100 % done") if text not in result.stdout] == []


def test_a_service_has_no_end_to_track(folder: Path) -> None:
    """Alone or by its name next to a run; that run is tracked as if it were alone."""
    log = str(folder / "run.log")
    both = exported_services.with_job()
    for name, plan, words in (("serve.json", exported_services.plan(), ()), ("both.json", both, ("--job", "answers"))):
        path = folder / name
        path.write_text(json_text(plan.model_dump(mode="json", by_alias=True)))
        result = run(str(path), log, *words)
        assert result.exit_code == 2
        assert result.output == f"{path}: answers: a service has no end to track; use planner simulate\n"
    (folder / "alone.json").write_text(json_text(solved("spot").model_dump(mode="json", by_alias=True)))
    (folder / "spot.log").write_text(run_logs.torchtitan(range(1, 6), 26.0))
    beside, alone = (
        run(str(folder / name), str(folder / "spot.log"), "--json") for name in ("both.json", "alone.json")
    )
    assert beside.exit_code == alone.exit_code and beside.stdout == alone.stdout
