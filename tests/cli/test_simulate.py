"""`planner simulate` from the command line: one document or 80 columns, and files that are whole or as they were."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from planner.cli import main
from planner.spot.policy_cache import advice
from tests.helpers.computed_once import compute_once
from tests.helpers.spot_scenarios import SPOT, trace

DISTRIBUTION = {"mean", "p05", "p50", "p95"}
FIGURES = {
    "cost_usd", "hours", "deadline_hit_rate", "spot_share", "interruptions", "wasted_hours", "waiting_hours",
}  # fmt: skip


@pytest.fixture(autouse=True)
def once(monkeypatch: pytest.MonkeyPatch) -> None:
    compute_once(monkeypatch)


@pytest.fixture
def question(tmp_path: Path) -> Path:
    path = tmp_path / "nightly.yaml"
    path.write_text(SPOT)
    return path


def run(*arguments: Any) -> Result:
    return CliRunner().invoke(main, ["simulate", *map(str, arguments), "--as-of", "2026-11-21"])


@pytest.mark.slow
def test_json_holds_what_scripts_read(question: Path) -> None:
    """The contract: figures of the plan, of each policy, of each job, and what the plan says."""
    told = run(question, "--json", "--runs", 300, "--seed", 3)
    assert told.exit_code == 0 and told.stderr == ""
    found = json.loads(told.stdout)
    assert found["scenario"] == "nightly" and found["runs"] == 300 and found["seed"] == 3
    assert set(found) > {*FIGURES, "policies", "predicted", "jobs", "runs_per_second", "seconds", "notes"}
    assert set(found["cost_usd"]) == set(found["hours"]) == DISTRIBUTION
    assert found["plan"]["scenario"] == "nightly"  # with it the answer loads as it was
    assert found["cost_usd"]["p05"] < found["cost_usd"]["p50"] < found["cost_usd"]["p95"]
    assert list(found["policies"]) == [
        "planned", "on demand only", "greedy with safety net", "uniform progress", "all-knowing optimum",
    ]  # fmt: skip
    for one in found["policies"].values():
        assert set(one) == {*FIGURES, "usd_over_optimum", "share_over_optimum"}
    assert found["policies"]["planned"]["cost_usd"] == found["cost_usd"]
    assert set(found["jobs"][0]) > {*FIGURES, "name", "predicted", "policies", "market", "told"}


@pytest.mark.slow
def test_the_verdict_comes_first_and_everything_fits(question: Path) -> None:
    """Cost and chance beside those of the plan, then the rest, in plain 80 columns."""
    told = run(question, "--runs", 300)
    lines = told.stdout.splitlines()
    first = " ".join(" ".join(lines[:3]).split())
    assert first.startswith("nightly: $0.4") and "over 300 markets (plan: $0.46), deadline met in" in first
    assert "(plan: at least 90 %)" in first
    assert max(map(len, lines)) <= 80 and told.stdout.isascii() and told.stderr == ""
    assert any(line.startswith("  offline optimum") for line in lines)


@pytest.mark.long
def test_how_long_it_took_is_told_on_request(question: Path) -> None:
    """On standard error, since it is another figure each time."""
    told = run(question, "--runs", 50, "-v")
    assert "runs per second and core" in told.stderr and "per second" not in told.stdout


@pytest.mark.long
def test_a_plan_of_solve_is_replayed_and_a_strangers_refused(question: Path, tmp_path: Path) -> None:
    """The same plan gives the same answer; another scenario's is bad input."""
    plan = tmp_path / "plan.json"
    assert CliRunner().invoke(main, ["solve", str(question), "--as-of", "2026-11-21", "-o", str(plan)]).exit_code == 0
    assert run(question, "--plan", plan, "--runs", 100).stdout == run(question, "--runs", 100).stdout
    refused = run("quickstart", "--plan", plan)
    assert refused.exit_code == 2 and "expected quickstart, found nightly" in refused.stderr
    plan.write_text("{}")
    assert run(question, "--plan", plan).exit_code == 2


@pytest.mark.slow
def test_policies_are_written_as_tables_that_can_be_asked(question: Path, tmp_path: Path) -> None:
    """One table per job; a job without a policy has none to write."""
    file = tmp_path / "policy.json"
    assert run(question, "--runs", 50, "--policy", file).exit_code == 0
    written = json.loads(file.read_text())
    assert written["scenario"] == "nightly"
    assert advice(written["jobs"]["bot"], 12.0, 1.5, False, 1 / 6, "nothing") == "wait"
    before = file.read_text()
    refused = run(question, "--runs", 50, "--set", "limits={spot_share: {max: 0}}", "--policy", file)
    assert refused.exit_code == 2 and "follows a policy on spot" in refused.stderr and file.read_text() == before


@pytest.mark.long
@pytest.mark.parametrize("suffix", ["svg", "png", "html"])
def test_plots_are_drawn_whole(question: Path, tmp_path: Path, suffix: str) -> None:
    """Of a plan on spot and of one on demand; the same figures give the same SVG."""
    file = tmp_path / f"replay.{suffix}"
    assert run(question, "--runs", 200, "--plot", file).exit_code == 0
    first = file.read_bytes()
    assert len(first) > 5000
    if suffix == "svg":
        assert run(question, "--runs", 200, "--plot", file).exit_code == 0
        assert file.read_bytes() == first and b"One replay" in first and b"guard" in first
    assert run(question, "--runs", 200, "--set", "limits={spot_share: {max: 0}}", "--plot", file).exit_code == 0
    assert file.read_bytes() != first and (suffix == "png" or b"One replay" not in file.read_bytes())
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("replay")] == [file.name]


@pytest.mark.slow
def test_a_failed_run_leaves_the_old_picture(question: Path, tmp_path: Path) -> None:
    """Nothing is written where nothing was found."""
    file = tmp_path / "replay.svg"
    file.write_text("old")
    assert run(question, "--set", "jobs.bot.deadline=30m", "--plot", file).exit_code == 3
    assert run(question, "--trace", trace(tmp_path, [1, 0]), "--plot", file).exit_code == 2
    assert file.read_text() == "old"
    assert run(question, "--plot", tmp_path / "replay.pdf").exit_code == 2


@pytest.mark.slow
def test_an_infeasible_scenario_is_explained_with_code_3(question: Path) -> None:
    """As `solve` explains it, in text and as a document."""
    told = run(question, "--set", "jobs.bot.deadline=30m")
    assert told.exit_code == 3 and told.stdout.startswith("nightly: no plan keeps the deadline of bot, 0.5 h ")
    found = json.loads(run(question, "--set", "jobs.bot.deadline=30m", "--json").stdout)
    assert found["status"] == "infeasible" and found["infeasible"]["relax"] and found["cost_usd"] is None


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--runs", "0"), "0 is not in the range"),
        (("--seed", "-1"), "-1 is not in the range"),
        (("--trace", "nowhere"), "nowhere: cannot be read"),
        (("--plan", "nowhere.json"), "nowhere.json"),
        (("--policy", "nowhere/policy.json"), "there is no folder"),
    ],
)
def test_what_cannot_be_done_is_said_with_code_2(question: Path, arguments: tuple[str, str], said: str) -> None:
    """On standard error, or as one document."""
    told = run(question, *arguments)
    assert told.exit_code == 2 and said in told.stderr and told.stdout == ""
    document = json.loads(run(question, *arguments, "--json").stdout)
    assert document["status"] == "error" and document["errors"]


@pytest.mark.long
def test_a_service_is_simulated_and_what_is_of_runs_is_refused(tmp_path: Path) -> None:
    """One document; --plot and --policy are refused in one line each."""
    found = run("serve-or-api", "--runs", 50, "--json")
    assert found.exit_code == 0, found.output
    data = json.loads(found.stdout)
    assert [one["name"] for one in data["services"][0]["streams"]] == ["Poisson", "bursts"]
    for option in ("--plot", "--policy"):
        refused = run("serve-or-api", option, tmp_path / "file.svg")
        assert refused.exit_code == 2 and f"{option}: not supported for kind: serve" in refused.stderr
