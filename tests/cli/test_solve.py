"""From a scenario file to what is printed, with the real solver: the front door, end to end."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from planner.cli import main
from planner.cli.solve_command import next_commands
from planner.report.words import WIDTH, by
from planner.results.plan import Inputs
from tests.helpers.computed_once import compute_once
from tests.helpers.plans import make_assignment, make_plan
from tests.helpers.services import SERVICE_FILE

AS_OF = ("--as-of", "2026-09-01")


@pytest.fixture(autouse=True)
def _computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is asked as text and as JSON, or by two commands, is computed once."""
    compute_once(monkeypatch)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


@pytest.fixture(scope="module")
def plan_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The plan of the quickstart, written by -o."""
    path = tmp_path_factory.mktemp("plan") / "plan.json"
    result = run("solve", "quickstart", "-o", str(path), *AS_OF)
    assert result.exit_code == 0, result.stderr
    return path


@pytest.mark.slow
def test_quickstart_fits_on_the_screen_verdict_first(plan_file: Path) -> None:
    """The text has the figures of the JSON, in 30 lines of 80 columns, and commands to go on with."""
    document = json.loads(plan_file.read_text())
    lines = run("solve", "quickstart", *AS_OF).stdout.splitlines()
    job = document["jobs"][0]
    assert lines[0].startswith(f"quickstart: {job['gpus']} x {job['gpu']} at {job['provider']}")
    assert lines[0].endswith(f"${document['cost_usd']:,.2f}, {by(job['hours']['at_confidence'])}")
    *answer, empty, run_it, why_not, details = lines
    assert len(answer) <= 30 and max(map(len, answer)) <= WIDTH and empty == ""
    asked = f"planner solve quickstart {' '.join(AS_OF)}"
    assert run_it == f"{asked} -o plan.json && planner export plan.json --all -o run"
    assert why_not.startswith(asked.replace("solve", "explain") + " --why-not gpu=")
    assert details == f"{asked} --details"


@pytest.mark.slow
def test_every_command_that_an_answer_prints_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also with options that the next command does not take, and where the plan was kept in a file."""
    monkeypatch.chdir(tmp_path)
    for given in (("--solver", "cbc", "--gap=0.001"), ("-o", "my plan.json")):
        printed = run("solve", "quickstart", *AS_OF, *given).stdout.splitlines()
        commands = [part for line in printed if line.startswith("planner ") for part in line.split(" && ")]
        assert len(commands) >= 3
        for command in commands:
            result = run(*shlex.split(command)[1:])
            assert result.exit_code == 0, f"{command}\n{result.stderr}"


@pytest.mark.long
@pytest.mark.parametrize("what", ["queue-two-own-4090", "desk.yaml"])
def test_commands_below_several_jobs_and_a_service_run_too(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan can be exported, explained and printed whole."""
    monkeypatch.chdir(tmp_path)
    Path("desk.yaml").write_text(SERVICE_FILE, encoding="utf-8")
    printed = run("solve", what, *AS_OF).stdout.splitlines()
    commands = [part for line in printed if line.startswith("planner ") for part in line.split(" && ")]
    assert [command.split()[1] for command in commands] == ["solve", "export", "explain", "solve"]
    for command in commands:
        result = run(*shlex.split(command)[1:])
        assert result.exit_code == 0, f"{command}\n{result.stderr}"


def test_why_not_is_asked_of_a_managed_service_by_its_name() -> None:
    """It has no GPU that the query could name."""
    service = make_plan().jobs[0].next_best[0].model_copy(update={"gpu": "managed", "gpus": 0, "provider": "svc"})
    plan = make_plan(make_assignment(next_best=[service.model_dump()]))
    (why_not,) = [line for line in next_commands(("solve", "s.yaml"), None, plan) if "explain" in line]
    assert why_not == "planner explain s.yaml --why-not provider=svc"


def test_an_answer_to_standard_input_names_no_command() -> None:
    """What came from there is gone."""
    plan = make_plan()
    assert next_commands(("solve", "-"), None, plan) == []
    assert next_commands(("solve", "my file.yaml"), None, plan)[-1] == "planner solve 'my file.yaml' --details"


def test_check_accepts_the_plan_that_solve_wrote_and_no_other(plan_file: Path, tmp_path: Path) -> None:
    """Exit 0 for the plan as written, 3 once a figure of it was improved by hand."""
    assert run("check", str(plan_file), "quickstart").exit_code == 0
    document: dict[str, Any] = json.loads(plan_file.read_text())
    document["jobs"][0]["cost_usd"] *= 0.5
    edited = tmp_path / "edited.json"
    edited.write_text(json.dumps(document))
    result = run("check", str(edited), "quickstart", "--json")
    assert result.exit_code == 3
    assert all({"job", "what", "expected", "found"} == set(one) for one in json.loads(result.stdout)["violations"])


@pytest.mark.long
def test_an_infeasible_scenario_exits_3_in_words_and_in_json() -> None:
    """The shipped question that nobody can satisfy is explained, not reported as an error."""
    few = ("--set", "limits.gpus.allow=[A100-80GB, H100-80GB]", "--set", "limits.providers=[lambda, nebius]", *AS_OF)
    words = run("solve", "infeasible", *few)
    assert words.exit_code == 3 and words.stdout.startswith("infeasible: no plan ")
    assert max(map(len, words.stdout.splitlines())) <= WIDTH
    document = run("solve", "infeasible", "--json", *few)
    assert document.exit_code == 3 and json.loads(document.stdout)["status"] == "infeasible"


@pytest.mark.slow
def test_several_jobs_have_a_row_each_and_a_block_in_the_details() -> None:
    """Each job's verdict and the joint bill, in 80 columns."""
    result = run("solve", "three-jobs-one-budget", "--set", "schedule=side_by_side", *AS_OF)
    lines = result.stdout.splitlines()
    assert result.exit_code == 0 and lines[0].startswith("three-jobs-one-budget: 3 jobs on ")
    jobs = ("chat", "code", "small")
    assert all(any(line.startswith(f"  {job} ") for line in lines) for job in jobs)
    whole = run("solve", "three-jobs-one-budget", "--set", "schedule=side_by_side", "--details", *AS_OF).stdout
    assert all(f"\n  {job}: " in whole for job in jobs)
    assert max(len(line) for line in lines if not line.startswith("planner ")) <= WIDTH


@pytest.mark.slow
def test_a_plan_that_no_trainer_runs_says_so_with_the_setting_that_helps() -> None:
    """Below the first line, where the command of the files would be missing in silence."""
    result = run("solve", "pretrain-1b", *AS_OF)
    said = " ".join(result.stdout.split())
    assert "! no files to start it: TRL does not run llm-foundry; plan with --set 'jobs.pretrain-1b.framework=" in said
    assert "planner export" not in said


def test_the_files_of_each_of_several_jobs_are_named() -> None:
    """The command is that of the first job; those of the others differ in its name alone."""
    plan = make_plan(*(make_assignment(name=name) for name in ("a", "b")))
    first, rest, *_ = next_commands(("solve", "s.yaml"), None, plan)
    assert "export plan.json --job a --all" in first and rest == "each job: --job NAME"
    assert not any("frontier" in line for line in next_commands(("solve", "s.yaml"), None, plan))
    hurried = plan.model_copy(update={"inputs": Inputs(scenario={"objective": "time"}, offers=(), versions={})})
    assert "planner frontier s.yaml" in next_commands(("solve", "s.yaml", "--details"), None, hurried)
