"""`planner export`: files, standard output, exit codes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from planner.cli import main
from planner.cli.plan_commands import TARGETS, TRAINERS_OF_ALL
from planner.documents.tables import json_text
from planner.exports.export import target_names
from planner.exports.field_map import STARTING_ALL
from planner.exports.machine_names import slug
from tests.helpers.exported_plans import changed, solved, unsloth_plan
from tests.helpers.exported_services import with_job
from tests.helpers.plans import make_infeasible

pytestmark = pytest.mark.slow


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ("export", *arguments))


@pytest.fixture(scope="module")
def plan_file(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A plan on spot, as `solve -o` writes it."""
    path = tmp_path_factory.mktemp("plan") / "plan.json"
    path.write_text(json_text(solved("spot").model_dump(mode="json", by_alias=True)))
    return str(path)


def test_the_targets_of_the_command_are_those_with_a_field_map() -> None:
    """`--help` lists them without reading the maps."""
    assert set(TARGETS) == set(target_names()) and TRAINERS_OF_ALL == STARTING_ALL


def test_one_file_goes_to_standard_output(plan_file: str) -> None:
    """So that it can be piped; several need a folder."""
    result = run(plan_file, "--to", "trl", "--dataset", "my/data")
    assert result.exit_code == 0 and yaml.safe_load(result.stdout)["dataset_name"] == "my/data"
    several = run(plan_file, "--to", "trl", "--to", "skypilot")
    assert several.exit_code == 2 and "2 files: name a folder with -o" in several.stderr and not several.stdout


def test_a_plan_is_not_replaced_by_a_file_of_its_name(plan_file: str, tmp_path: Path) -> None:
    """Nothing is written then; a folder that holds the plan as it is may be written again."""
    plan, folder = tmp_path / "sft.yaml", str(tmp_path)
    plan.write_text(Path(plan_file).read_text())
    before = plan.read_bytes()
    result = run(str(plan), "--to", "trl,skypilot", "--dataset", "my/data", "-o", folder)
    assert result.exit_code == 2 and "sft.yaml: is read by this command" in result.stderr
    assert plan.read_bytes() == before and os.listdir(tmp_path) == ["sft.yaml"]
    again = str(tmp_path / "run")
    assert run(plan_file, "--all", "--dataset", "my/data", "-o", again).exit_code == 0
    whole = run(f"{again}/plan.json", "--all", "--dataset", "my/data", "-o", again)
    assert whole.exit_code == 0 and "plan.json: unchanged" in whole.stdout


def test_files_are_written_into_a_folder_and_left_alone_where_nothing_changed(plan_file: str, tmp_path: Path) -> None:
    """A second export touches nothing; an edited file is replaced, and the command says so."""
    folder = tmp_path / "new" / "run"
    arguments = (plan_file, "--to", "skypilot", "--to", "trl", "-o", str(folder))
    first = run(*arguments)
    assert first.exit_code == 0 and sorted(os.listdir(folder)) == ["export.json", "sft.yaml", "task.yaml"]
    assert first.stdout.count(": written") == 3
    before = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert run(*arguments).stdout.count(": unchanged") == 3
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == before
    (folder / "sft.yaml").write_text("mine")
    third = run(*arguments)
    assert f"{folder / 'sft.yaml'}: replaced" in third.stdout and f"{folder / 'task.yaml'}: unchanged" in third.stdout


def test_a_whole_folder_is_of_the_trainer_that_is_named(plan_file: str, tmp_path: Path) -> None:
    """`--all` alone takes the first that can; the file of a launcher is part of the folder anyhow."""
    asked = (plan_file, "--all", "--dataset", "my/data", "-o", str(tmp_path / "run"))
    assert run(*asked, "--to", "llamafactory").exit_code == 0
    script = (tmp_path / "run" / "run.sh").read_text()
    assert "llamafactory-cli train" in script and "trl sft" not in script
    refused = run(*asked, "--to", "slurm")
    assert refused.exit_code == 2 and "takes the trainer, one of trl, axolotl" in refused.stderr


def test_nothing_is_written_where_one_target_is_refused(tmp_path: Path) -> None:
    """Half of an export would be launched with files of another plan."""
    path = tmp_path / "plan.json"
    plan = changed(solved("spot"), framework="litgpt")
    path.write_text(json_text(plan.model_dump(mode="json", by_alias=True)))
    result = run(str(path), "--to", "trl", "--to", "accelerate", "-o", str(tmp_path / "out"))
    assert result.exit_code == 2 and not (tmp_path / "out").exists()
    line = 1 + path.read_text().split("\n").index('  "jobs": [') + 1
    assert result.stderr.startswith(f"{path}:{line}: jobs.") and "litgpt" in result.stderr


def test_what_a_launcher_does_not_have_is_told_in_the_file_of_the_plan(tmp_path: Path) -> None:
    """With the line of the job, also where the fault is of no target alone."""
    path = tmp_path / "mine.json"
    plan = changed(solved("spot"), provider="nobody")
    path.write_text(json_text(plan.model_dump(mode="json", by_alias=True)))
    result = run(str(path), "--to", "skypilot")
    assert result.exit_code == 2 and result.stderr.startswith(f"{path}:"), result.stderr
    text = CliRunner().invoke(main, ("export", "-", "--to", "skypilot"), input=path.read_text())
    assert text.exit_code == 2 and text.stderr.startswith("standard input: jobs.")


@pytest.mark.parametrize(
    ("text", "said"),
    [("", "is empty"), ("{", "not JSON"), ("[]", "not a plan"), ('{"scenario": "x"}', "not a plan: no status")],
)
def test_a_file_that_is_no_plan_is_bad_input(text: str, said: str, tmp_path: Path) -> None:
    """As with `planner check`: one message, exit code 2."""
    path = tmp_path / "plan.json"
    path.write_text(text)
    result = run(str(path), "--to", "trl")
    assert result.exit_code == 2 and said in result.stderr and not result.stdout


def test_a_folder_that_is_a_file_is_bad_input(plan_file: str, tmp_path: Path) -> None:
    """The message names the path."""
    (tmp_path / "file").write_text("")
    result = run(plan_file, "--to", "trl", "-o", str(tmp_path / "file"))
    assert result.exit_code == 2 and str(tmp_path / "file") in result.stderr
    assert run(plan_file, "--to", "trl", "-o", str(tmp_path / "file" / "below")).exit_code == 2


def test_an_unknown_job_and_an_unknown_target_are_bad_input(plan_file: str) -> None:
    """Both messages name what is nearest."""
    job = run(plan_file, "--to", "trl", "--job", "nobody")
    assert job.exit_code == 2 and "spot-heavy" in job.stderr
    target = run(plan_file, "--to", "torchtune")
    assert target.exit_code == 2 and "the nearest are " in target.stderr and "trl" in target.stderr


def test_a_plan_of_an_older_release_that_carries_no_scenario_is_bad_input(tmp_path: Path) -> None:
    """Offers and stages come from what the plan carries."""
    path = tmp_path / "plan.json"
    path.write_text(json_text({**solved("spot").model_dump(mode="json", by_alias=True), "inputs": None}))
    result = run(str(path), "--to", "trl")
    assert result.exit_code == 2 and "the plan does not carry its scenario" in result.stderr


def test_an_infeasible_plan_has_nothing_to_run(tmp_path: Path) -> None:
    """It carries no scenario either, which is not what its reader must know."""
    path = tmp_path / "plan.json"
    path.write_text(json_text(make_infeasible().model_dump(mode="json", by_alias=True)))
    for command in (["export", str(path)], ["track", str(path), str(tmp_path)]):
        result = CliRunner().invoke(main, command)
        assert result.exit_code == 2 and "nothing to run: the plan is infeasible; solve again" in result.stderr


@pytest.mark.parametrize(("name", "made"), [("7b-chat", "job-7b-chat"), ("chat_über 8B", "chat-ber-8b"), ("__", "job")])
def test_names_begin_with_a_letter_and_have_what_clouds_take(name: str, made: str) -> None:
    """Kubernetes takes no Service whose name begins with a digit."""
    assert slug(name) == made
    assert len(slug("9" * 60)) == 40


def test_without_a_tool_it_is_the_trainer_of_the_framework(plan_file: str, tmp_path: Path) -> None:
    """TRL for the Transformers frameworks, Unsloth for its own; a framework that no target runs is refused."""
    assert "for TRL 1.16" in run(plan_file, "--dataset", "my/data").stdout.splitlines()[0]
    plans = {"unsloth": unsloth_plan(), "torchtune": changed(solved("quickstart"), framework="torchtune")}
    for name, plan in plans.items():
        (tmp_path / f"{name}.json").write_text(json_text(plan.model_dump(mode="json", by_alias=True)))
    assert "for Unsloth 2026.10" in run(str(tmp_path / "unsloth.json")).stdout.splitlines()[0]
    refused = run(str(tmp_path / "torchtune.json"))
    assert refused.exit_code == 2 and "no target has a file for torchtune" in refused.stderr
    assert "framework=[hf, hf-fused, deepspeed, unsloth, litgpt]" in refused.stderr


@pytest.fixture(scope="module")
def both_file(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A plan of a run and a service as a file, and the name of the run."""
    path, plan = tmp_path_factory.mktemp("both") / "plan.json", with_job()
    path.write_text(json_text(plan.model_dump(mode="json", by_alias=True)))
    return str(path), plan.jobs[0].name


def test_a_job_next_to_a_service_is_exported_by_its_name(both_file: tuple[str, str], plan_file: str) -> None:
    """The file is that of the plan without the service; without a name the command asks for one."""
    path, job = both_file
    result = run(path, "--job", job)
    assert result.exit_code == 0 and result.stdout == run(plan_file).stdout
    assert run(path, "--job", "answers").stdout.splitlines()[1].startswith("# Service answers of plan ")
    unclear = run(path)
    assert unclear.exit_code == 2 and f"2 jobs; choose one with --job {job} or --job answers" in unclear.stderr
    unknown = run(path, "--job", "x")
    assert unknown.exit_code == 2 and f"no job 'x'; known: {job}, answers" in unknown.stderr


def test_all_of_a_job_and_a_service_are_folders_of_their_own(both_file: tuple[str, str], tmp_path: Path) -> None:
    """Each has what --job writes for it; data are those of the run, weights could be those of either."""
    path, job = both_file
    result = run(path, "--all", "--dataset", "my/data", "-o", str(tmp_path / "all"))
    assert result.exit_code == 0, result.stderr
    assert sorted(os.listdir(tmp_path / "all")) == sorted([job, "answers", "export.json", "plan.json"])
    for name, more in ((job, ("--dataset", "my/data")), ("answers", ())):
        assert run(path, "--all", "--job", name, *more, "-o", str(tmp_path / name)).exit_code == 0
        own = ("export.json", "plan.json")
        alone = {one.name: one.read_text() for one in (tmp_path / name).iterdir() if one.name not in own}
        assert {one.name: one.read_text() for one in (tmp_path / "all" / name).iterdir()} == alone and alone
    refused = run(path, "--all", "--model-id", "me/x", "-o", str(tmp_path / "none"))
    assert refused.exit_code == 2 and "--model-id: the plan has 2 jobs; choose one with --job" in refused.stderr
    assert not (tmp_path / "none").exists()
