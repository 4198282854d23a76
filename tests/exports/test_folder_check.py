"""`planner export --check`: an exported folder as it was written, changed, incomplete, filled in, of another plan."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from planner.cli import main
from planner.cli.plan_commands import TARGETS
from planner.documents.tables import json_text
from planner.exports.export import _parsed, _scripts
from planner.report.words import wrap_with_commands
from planner.results.plan import Plan
from tests.helpers import exported_services
from tests.helpers.exported_plans import changed, on_hugging_face, solved, unsloth_plan

pytestmark = pytest.mark.slow


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ("export", *arguments))


def plan_file(plan: Plan, folder: Path) -> str:
    """Write a plan as `solve -o` does; return its path."""
    path = folder / "given.json"
    path.write_text(json_text(plan.model_dump(mode="json", by_alias=True)))
    return str(path)


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """The plan on providers of every launcher, and its whole folder."""
    place = tmp_path_factory.mktemp("whole")
    plan = plan_file(solved("secure"), place)
    assert run(plan, "--all", "--dataset", "my/data", "-o", str(place / "run")).exit_code == 0
    return plan, place / "run"


@pytest.fixture
def folder(exported: tuple[str, Path], tmp_path: Path) -> Path:
    """A copy of it that a test may break."""
    return Path(shutil.copytree(exported[1], tmp_path / "run"))


def test_a_folder_as_it_was_written_has_no_fault(exported: tuple[str, Path]) -> None:
    """Also next to its plan; what is left to a person is said, the exit code is 0."""
    plan, folder = exported
    for words in ((), (plan,)):
        result = run(*words, "--check", str(folder))
        assert result.exit_code == 0, result.output
        first, *others = result.stdout.splitlines()
        count = len([path for path in folder.iterdir() if path.name != "export.json"])
        assert first.startswith(f"{folder}: no faults ({count} files of quickstart, ")
        assert any(line.startswith("see to task.yaml: HF_TOKEN: ") for line in others)


def replaced(name: str, old: str, new: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        path = folder / name
        assert old in path.read_text(), name
        path.write_text(path.read_text().replace(old, new, 1))

    return change


FAULTS: dict[str, tuple[Callable[[Path], None], str]] = {
    "missing": (lambda folder: (folder / "job.slurm").unlink(), "job.slurm: is missing"),
    "a field of the plan": (
        replaced("sft.yaml", "max_length: 2048", "max_length: 4096"),
        "sft.yaml:10: max_length: is 4096, and the plan counts with 2048",
    ),
    "a field that was taken out": (replaced("sft.yaml", "max_steps:", "# max_steps:"), "max_steps: is left out, and"),
    "a field misspelt": (
        replaced("sft.yaml", "bf16: true", "bf16: true\nlearning_rat: 1.0e-4"),
        "learning_rat: is no field that TRL 1.16 has; write learning_rate",
    ),
    "not filled in": (replaced("sft.yaml", "dataset_name: my/data\n", ""), "dataset_name: is required and missing"),
    "no YAML": (replaced("job.yaml", "kind: Job", "kind: [Job"), "job.yaml:"),
    "a script": (replaced("run.sh", "set -euo pipefail", "set -euo pipefail; if"), "run.sh: bash: "),
    "a script that is one": (replaced("run.sh", "hf download", "hf  download"), "run.sh: was changed after the export"),
    "another plan": (replaced("plan.json", '"gpus": ', '"gpus":  '), "plan.json: is another plan than that of these"),
    "no JSON": (lambda folder: (folder / "plan.json").write_text("{"), "plan.json:1: is no JSON"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_is_one_line_and_the_code_is_2(name: str, folder: Path) -> None:
    """With the file, the place and what to do."""
    change, said = FAULTS[name]
    change(folder)
    result = run("--check", str(folder))
    assert result.exit_code == 2 and result.stdout == "" and "Traceback" not in result.stderr
    assert said in result.stderr, result.stderr
    lines = [line for line in result.stderr.splitlines() if line.startswith(str(folder))]
    assert 1 <= len(lines) <= 2 and len(lines) == len(result.stderr.splitlines())


def test_faults_of_several_files_are_reported_together(folder: Path) -> None:
    """One line each."""
    for name in ("missing", "a field of the plan", "a script that is one"):
        FAULTS[name][0](folder)
    assert len(run("--check", str(folder)).stderr.splitlines()) == 3


def test_what_is_filled_in_is_no_fault(folder: Path) -> None:
    """A learning rate is the user's; a field that no map has is named, since this machine cannot judge it."""
    replaced("sft.yaml", "bf16: true", "bf16: true\nlearning_rate: 1.0e-4\nmystery: 1")(folder)
    result = run("--check", str(folder))
    assert result.exit_code == 0, result.stderr
    assert "not checked: sft.yaml: mystery" in result.stderr and "learning_rate" not in result.stderr


def test_a_script_inside_of_a_task_is_read(tmp_path: Path) -> None:
    """SkyPilot's setup and run, and the command of dstack."""
    plan = plan_file(solved("secure"), tmp_path)
    for target, name, place in (("skypilot", "task.yaml", "run"), ("dstack", "task.dstack.yml", "commands.0")):
        folder = tmp_path / target
        assert run(plan, "--to", target, "--to", "trl", "--dataset", "d/d", "-o", str(folder)).exit_code == 0
        assert run("--check", str(folder)).exit_code == 0
        replaced(name, "take_folder() {", "take_folder() { {")(folder)
        assert f"{name}: {place}: bash: " in run("--check", str(folder)).stderr


def unwrapped(text: str) -> list[str]:
    """Return the lines of an export before they were broken."""
    return text.replace("\n  ", " ").splitlines()


def test_long_lines_of_an_export_end_where_a_clause_does_and_keep_commands_whole() -> None:
    """A loop is one command, whatever signs it has."""
    loop = "for one in kubernetes-*.yaml; do kubectl delete -f $one; done"
    text = f"$2.27 to 3.60 per hour from the first minute on; stop: sky serve down -y a-1 a-2, or {loop}, or another"
    lines = wrap_with_commands(text, 66)
    assert max(map(len, lines)) <= 71 and any(loop in line for line in lines) and len(lines) > 2
    assert unwrapped("\n".join(lines)) == [text]


def test_what_a_task_starts_must_be_there(tmp_path: Path) -> None:
    """A launcher alone, the script that it starts, and data that lie here: each is named with what to do."""
    plan, folder = plan_file(solved("secure"), tmp_path), tmp_path / "run"
    alone = run(plan, "--to", "slurm", "--dataset", "chats.jsonl", "-o", str(folder))
    assert "fill in job.slurm: run.sh and requirements.txt: --all writes them" in alone.stderr.splitlines()
    said = run("--check", str(folder)).stderr
    assert "sft.yaml: is missing, and a file here starts or reads it; export it into this folder: --to trl" in said
    assert "chats.jsonl: is missing, and a file here starts or reads it; copy it into this folder" in said
    assert "run.sh: is missing, and a file here starts or reads it; export the whole folder: --all" in said
    assert run(plan, "--to", "trl", "--dataset", "chats.jsonl", "-o", str(folder)).exit_code == 0
    (folder / "chats.jsonl").write_text("{}\n")
    assert set(json.loads((folder / "export.json").read_text())["files"]) == {"job.slurm", "sft.yaml"}
    assert {line.partition(": ")[0].rpartition("/")[2] for line in run("--check", str(folder)).stderr.splitlines()} == {
        "run.sh", "requirements.txt",
    }, "the list has the files of both exports"  # fmt: skip
    assert run(plan, "--all", "--dataset", "chats.jsonl", "-o", str(folder)).exit_code == 0
    whole = run("--check", str(folder))
    assert whole.exit_code == 0 and "--all writes them" not in whole.stdout, "said of files that were not there yet"


@pytest.mark.parametrize(
    ("file", "needs"),
    [
        (
            "job.yaml",
            "the ConfigMap quickstart, the PersistentVolumeClaim checkpoints-quickstart, and the Secret hf-token",
        ),
        ("job.slurm", "a shared folder /checkpoints"),
        ("task.dstack.yml", "the volume checkpoints-quickstart, where the task has it"),
    ],
)
def test_an_export_ends_with_what_each_launcher_needs_first(
    file: str, needs: str, exported: tuple[str, Path], tmp_path: Path
) -> None:
    """Without it pods wait until their deadline, with the bill of their nodes; the README and --check say it, too."""
    plan, folder = exported
    result = run(plan, "--all", "--dataset", "my/data", "-o", str(tmp_path / "run"))
    assert any(line.startswith(f"fill in {file}: first: {needs}") for line in unwrapped(result.stderr))
    assert f"see to {file}: first: {needs}" in run("--check", str(folder)).stdout
    assert f"needs {needs}" in (folder / "README.md").read_text()


@pytest.mark.parametrize(("target", "file"), [("accelerate", "accelerate.yaml"), ("deepspeed", "ds_config.json")])
def test_the_script_of_a_person_is_left_to_the_person(target: str, file: str, tmp_path: Path) -> None:
    """A file for a script of one's own comes without it, and the export ends with that."""
    plan, folder = plan_file(solved("zero2"), tmp_path), str(tmp_path / "run")
    said = f"training script: train.py is yours, and sets what the head of {file} lists"
    assert f"fill in {said}" in unwrapped(run(plan, "--to", target, "-o", folder).stderr)
    assert f"see to {said}" in run("--check", folder).stdout.splitlines()


def test_files_of_another_plan_are_not_those_of_this_one(exported: tuple[str, Path], tmp_path: Path) -> None:
    """`planner export PLAN --check DIR`; an export of another plan begins a list of its own."""
    other = plan_file(changed(solved("secure"), steps=7), tmp_path)
    result = run(other, "--check", str(exported[1]))
    assert result.exit_code == 2 and "these files are of another plan" in result.stderr
    folder = shutil.copytree(exported[1], tmp_path / "run")
    assert run(other, "--to", "trl", "--dataset", "d/d", "-o", str(folder)).exit_code == 0
    assert set(json.loads((folder / "export.json").read_text())["files"]) == {"sft.yaml"}


@pytest.mark.parametrize("target", ["unsloth", "accelerate", "deepspeed", "axolotl", "llamafactory", "huggingface"])
def test_every_kind_of_file_is_read(target: str, tmp_path: Path) -> None:
    """Settings of YAML and JSON, a program, a script; without data the fields that need them are named."""
    flavored = on_hugging_face(solved("quickstart"), "A100-80GB", 4)
    plan = {"unsloth": unsloth_plan(), "deepspeed": solved("zero2"), "huggingface": flavored}.get(target)
    techniques = {"activation_checkpointing": "full"}
    file = plan_file(plan or changed(solved("quickstart"), techniques), tmp_path)
    words = ("--all",) if target == "huggingface" else ("--to", target)  # its script starts run.sh
    folder = str(tmp_path / "run")
    assert run(file, *words, "--dataset", "d/d", "-o", folder).exit_code == 0
    said = run("--check", folder).stderr.splitlines()
    unsaid = {"llamafactory": "template", "axolotl": "learning_rate"}.get(target)  # that the command does not ask for
    assert len(said) == (unsaid is not None) and all(f"{unsaid}: is required and missing" in line for line in said)
    assert run(file, *words, "-o", folder).exit_code == 0
    without = run("--check", folder)
    assert (without.exit_code == 2) == (target not in ("accelerate", "deepspeed")), without.stderr


@pytest.mark.parametrize("words", [("--to", "trl"), ("--all",), ("-o", "x"), ("--dataset", "d")])
def test_the_check_takes_no_other_option(words: tuple[str, ...], tmp_path: Path) -> None:
    """It writes nothing."""
    result = run("--check", str(tmp_path), *words)
    assert result.exit_code == 2 and "--check takes PLAN and no other option" in result.stderr


@pytest.mark.parametrize("text", [None, "", "[]", '{"files": {}}'])
def test_a_folder_without_a_list_is_told_what_is_wanted(text: str | None, tmp_path: Path) -> None:
    """One message, exit code 2; so is no argument at all."""
    if text is not None:
        (tmp_path / "export.json").write_text(text)
    result = run("--check", str(tmp_path))
    assert result.exit_code == 2 and "give a folder that planner export -o wrote" in result.stderr
    assert run("--check", str(tmp_path / "none")).exit_code == 2
    assert "Missing argument 'PLAN'" in run().stderr


KINDS: dict[str, Callable[[], Plan]] = {
    "training": lambda: solved("secure"),
    "training on spot": lambda: solved("spot"),
    "training elsewhere": lambda: on_hugging_face(solved("quickstart"), "A100-80GB", 4),
    "generation": lambda: solved("generation merged"),
    "generation on machines": lambda: changed(solved("generation spot"), instances=4, spot_share=0.0, spot=None),
    "service": exported_services.plan,
    "service of two kinds": lambda: exported_services.plan(
        exported_services.kind(), exported_services.kind(weight_format="int8", offer="b")
    ),
}
STOPS = {
    "task.yaml": "sky (jobs cancel|down) ",
    "skypilot-1-l40s-on-demand.yaml": "sky serve down ",
    "task.dstack.yml": "dstack stop ",
    "hf_job.sh": "hf jobs cancel ",
    "job.yaml": "kubectl delete -f job.yaml",
    "kubernetes-1-l40s-on-demand.yaml": r"kubectl delete -f \$one",
    "job.slurm": "scancel ",
}
"""File that a launcher takes -> what stops the bill that it begins."""


@pytest.mark.parametrize("target", [*TARGETS, "--all", "none"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_export_ends_with_its_cost_and_what_stops_it(kind: str, target: str, tmp_path: Path) -> None:
    """Of every job and target: dollars from the first minute on, a command for each launcher whose file is there.

    Packages go into an environment in every script, and the shell can read each of them.
    """
    plan, folder = KINDS[kind](), tmp_path / "run"
    words = {"--all": ["--all"], "none": []}.get(target, ["--to", target])
    result = run(plan_file(plan, tmp_path), *words, "-o", str(folder))
    if result.exit_code == 2:
        assert target in TARGETS, "a refusal names a tool, and the whole folder is always there"
        return
    assert result.exit_code == 0, result.output
    last = unwrapped(result.stderr)[-1]
    cost, _, stops = last.partition("; stop: ")
    priced = r"(at most )?\$[\d.,]+( to [\d.,]+)? per hour from the first minute on"
    assert re.fullmatch(priced if kind != "training elsewhere" else "the plan has no price of an hour", cost), last
    assert stops.endswith("give the machine back")
    written = {path.name: path.read_text() for path in folder.iterdir()}
    for name, stop in STOPS.items():
        assert bool(re.search(stop, stops)) == (name in written), (name, stops)
    for name, text in written.items():
        for _, script in _scripts(name, text, _parsed(name, text)):
            outside = script.partition("\nenter_environment ")[0]
            assert not re.search(r"^\s*(pip|python|vllm|trl) ", outside, re.MULTILINE), name
            if check := shutil.which("shellcheck"):
                words = [check, "--shell=bash", "-"]
                said = subprocess.run(words, input=script, capture_output=True, text=True, check=False)
                assert said.stdout == "", f"{name}: {said.stdout}"
    for line in run("--check", str(folder)).stderr.splitlines():
        assert re.search("is required and missing|is missing, and|^not checked: ", line), line


def test_jobs_and_services_in_folders_of_their_own_have_their_lines_each(tmp_path: Path) -> None:
    """What a person must do, with the folder; `--check` knows what the files of each need."""
    plan, service = solved("secure"), exported_services.plan()
    assert plan.inputs is not None and service.inputs is not None
    jobs = [*plan.inputs.scenario["jobs"], *service.inputs.scenario["jobs"]]
    offers = (*plan.inputs.offers, *service.inputs.offers)
    inputs = plan.inputs.model_copy(update={"scenario": {**plan.inputs.scenario, "jobs": jobs}, "offers": offers})
    both = plan.model_copy(update={"services": service.services, "inputs": inputs})
    result = run(plan_file(both, tmp_path), "--all", "-o", str(tmp_path / "run"))
    assert result.exit_code == 0, result.output
    lines = unwrapped(result.stderr)
    assert "fill in quickstart/sft.yaml: dataset_name: --dataset" in lines
    assert any(line.startswith("fill in answers: meta-llama/Llama-3.1-8B is gated") for line in lines)
    costs = [line.partition(" per hour from the first minute on; stop: ")[0] for line in lines[-2:]]
    assert costs[0].startswith("quickstart: $") and costs[1].startswith("answers: $1.86 to 5.58")
    (tmp_path / "run" / "quickstart" / "sft.yaml").unlink()
    said = run("--check", str(tmp_path / "run")).stderr
    assert "quickstart/sft.yaml: is missing" in said
    listed = json.loads((tmp_path / "run" / "export.json").read_text())
    assert "quickstart/sft.yaml" in listed["needs"] and any(line.startswith("answers: ") for line in listed["see_to"])
