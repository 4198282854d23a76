"""No name that a user, a file or a price list wrote runs as a command, ends a comment or adds a key to an export."""

from __future__ import annotations

import ast
import json
import subprocess
from functools import cache
from pathlib import Path
from string import Template
from typing import Any

import pytest
import yaml

import planner
import planner.exports
from planner.documents.files import yaml_text
from planner.errors import InputError
from planner.exports.export import choose_job, export, export_all
from planner.exports.facts import Given, Wishes
from planner.exports.field_map import field_maps
from planner.exports.script_parts import comment, shell_inside, shell_word
from planner.loading.scenario_file import parse_scenario
from planner.scenario.scenario import SolveOptions
from tests.helpers import exported_services
from tests.helpers.exported_plans import AS_OF
from tests.helpers.fake_machine import FakeMachine

HOSTILE = {
    "substitution": "q$(touch PWNED)",
    "backticks": "q`touch PWNED`",
    "double quote": 'q"; touch PWNED; "',
    "single quote": "q'; touch PWNED; '",
    "operators": "q; touch PWNED & touch PWNED | touch PWNED > PWNED",
    "brace": "q}; touch PWNED; ${x:-",
    "path": "../../../tmp/q",
    "YAML lines": "q\u2028touch: PWNED\u2029other: PWNED\x85more: PWNED",
    "YAML flow": "{touch: PWNED}, [a]: &b *c !d #e",
    "escape": "q\x1b]0;PWNED\x07",
    "number": "1e3",
    "heredoc": "END_OF_PROGRAM",
    "interpolation": "${{ secrets.PWNED }} $HOME ${HOME}",
}


@cache
def given(name: str, gpus: int = 2) -> Given:
    """Return a plan whose job, provider, region, instance and source have a hostile name."""
    told = json.dumps(name)
    scenario = parse_scenario(
        f"""
schema: 2
name: {told}
jobs:
  - name: {told}
    architecture: llama-3.1-8b
    work: {{samples: 2000, tokens_per_sample: 800}}
    sequence_length: 1024
    deadline: 1d
    framework: hf
    techniques: {{method: lora}}
offers:
  - {{provider: {told}, region: {told}, instance: {told}, source: {told}, gpu: A100-80GB, gpus: {gpus},
      usd_per_hour: 2.0}}
"""
    )
    plan = planner.solve(scenario, SolveOptions(as_of=AS_OF))
    assert plan.jobs, plan.status
    return choose_job(plan, scenario, "plan.json", None)


def machine_of(folder: Path, files: dict[str, str]) -> FakeMachine:
    """Return a machine with tools that do nothing; whatever else a name starts would leave a file."""
    machine = FakeMachine(folder, files)
    for tool in ("srun", "scontrol"):
        machine.tool(tool)
    return machine


@pytest.mark.slow
@pytest.mark.parametrize("kind", HOSTILE)
def test_names_are_only_names_in_every_file_of_a_folder(kind: str, tmp_path: Path) -> None:
    """Every file has the structure that it has with tame names, and what a shell runs of it starts nothing."""
    name = HOSTILE[kind]
    wishes = Wishes(model_id=f"me/{name}", dataset=f"my/{name}")
    files, tame = export_all(given(name), wishes)[0], export_all(given("tame"), Wishes("me/tame", "my/tame"))[0]
    assert files.keys() == tame.keys()
    machine = machine_of(tmp_path, files)
    for file, text in files.items():
        shown = [line for line in text.splitlines() if line.startswith("#")] if file == "run.sh" else [text]
        assert all(sign.isprintable() or sign == "\n" for one in shown for sign in one), file
        if file.endswith((".yaml", ".yml")):
            found, known = list(yaml.safe_load_all(text)), list(yaml.safe_load_all(tame[file]))
            assert [one.keys() for one in found] == [one.keys() for one in known], file
    for file in ("run.sh", "job.slurm"):
        subprocess.run(["bash", "-n", str(machine.run / file)], check=True)
        assert machine.run_script(file, UPLOAD_TO="me/model", SLURM_JOB_NODELIST="a").code == 0
    assert not list(tmp_path.rglob("*PWNED*"))


@pytest.mark.slow
@pytest.mark.parametrize("kind", HOSTILE)
def test_names_are_only_names_in_the_tasks_of_launchers(kind: str, tmp_path: Path) -> None:
    """A launcher rents from providers that it knows alone; of the rest every name is hostile."""
    name = HOSTILE[kind]
    one = given(name)
    offer = one.scenario.offers[0].model_copy(update={"provider": "runpod-secure"})
    job = one.job.model_copy(update={"provider": "runpod-secure"})
    moved = Given(one.plan, one.scenario.model_copy(update={"offers": (offer,)}), job)
    wishes = Wishes(model_id=f"me/{name}", dataset=f"my/{name}")
    for target, file in (("skypilot", "task.yaml"), ("dstack", "task.dstack.yml")):
        task: dict[str, Any] = yaml.safe_load(export(moved, [target, "trl"], wishes)[file])
        scripts = [task["setup"], task["run"]] if target == "skypilot" else task["commands"]
        assert "touch" not in task and "other" not in task
        files = {f"{number}.sh": script for number, script in enumerate(scripts)}
        machine = machine_of(tmp_path / target, files)
        for file in files:
            for shell in ("bash", "sh"):
                assert machine.run_script(file, shell).code == 0, (file, shell)
        assert name not in (task["name"], *task.get("file_mounts", {})) or name == "END_OF_PROGRAM"
    assert not list(tmp_path.rglob("*PWNED*"))


@pytest.mark.slow
@pytest.mark.parametrize("kind", HOSTILE)
def test_names_are_only_names_in_the_files_of_trainers(kind: str) -> None:
    """YAML, JSON and Python give back the names that were written, and nothing more."""
    name, written = HOSTILE[kind], []
    for target in ("trl", "axolotl", "llamafactory", "unsloth", "deepspeed", "accelerate", "litgpt"):
        try:
            files = export(given(name, 1), [target], Wishes(model_id=f"me/{name}", dataset=f"my/{name}"))
        except InputError:
            continue  # the trainer does not have this plan
        written.append(target)
        text = next(iter(files.values()))
        if target == "unsloth":
            ast.parse(text)
            continue
        found = json.loads(text) if target == "deepspeed" else yaml.safe_load(text)
        assert "touch" not in found and "other" not in found, target
        if target in ("trl", "llamafactory"):
            assert found["model_name_or_path"] == f"me/{name}", target
    assert {"trl", "axolotl", "llamafactory"} <= set(written)


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_quoted_name_comes_back_as_it_was(kind: str, tmp_path: Path) -> None:
    """As a word, between double quotes, as the default of a variable, and in YAML."""
    name = HOSTILE[kind]
    for shell in ("bash", "sh"):
        for script in (f"printf %s {shell_word(name)}", f'printf %s "${{NONE:-{shell_inside(name)}}}"'):
            done = subprocess.run([shell, "-c", script], cwd=tmp_path, capture_output=True, check=True)
            assert done.stdout.decode() == name, (shell, script)
    assert not list(tmp_path.iterdir())
    assert yaml.safe_load(yaml_text({"key": name, name: 1})) == {"key": name, name: 1}
    assert yaml.safe_load(comment([name]) + "key: 1\n") == {"key": 1}


def test_no_export_quotes_for_itself() -> None:
    """One function for each format: what is for a shell goes through `script_parts.py`, YAML through `yaml_text`."""
    folder = Path(next(iter(planner.exports.__path__)))
    for path in folder.rglob("*.py"):
        if path.name in (
            "script_parts.py",
            "generate.py",
            "spot_policy.py",
            "rl_configs.py",
            "image_configs.py",
        ):  # read
            continue
        tree = ast.parse(path.read_text())
        imported = {one.name for node in ast.walk(tree) if isinstance(node, ast.Import) for one in node.names}
        assert not imported & {"shlex", "yaml", "html", "csv"}, path.name


def test_the_commands_of_field_maps_insert_numbers_and_words_of_the_maps_alone() -> None:
    """What others wrote is in the files that a tool reads; `download` gets a name that is a quoted word."""
    own = {
        "gpus",
        "instances",
        "gpus_per_instance",
        "method",
        "multi_gpu",
        "hybrid_variables",
        "mixed_variable",
        "flags",
        "port",
        "resume",
    }
    for tool in field_maps().values():
        for text in (tool.run, tool.launch, tool.flags, tool.starter.alone, tool.starter.together):
            assert set(Template(text).get_identifiers()) <= own, tool.target
        assert set(Template(tool.download).get_identifiers()) <= {"model_id"}, tool.target


@pytest.mark.parametrize("kind", HOSTILE)
def test_the_weights_of_a_service_are_only_a_name(kind: str, tmp_path: Path) -> None:
    """The script gives the engine the name that was asked for."""
    name = f"me/{HOSTILE[kind]}"
    found = exported_services.texts(exported_services.plan(exported_services.kind()), model_id=name)
    (script,) = (text for file, text in found.items() if file.endswith(".sh"))
    machine = FakeMachine(tmp_path, {"serve.sh": script.replace("exec ", "printf '%s\\n' ", 1)})
    ended = machine.run_script("serve.sh")
    assert ended.code == 0 and ended.calls == ["pip install vllm==0.33.0"], ended.said
    assert name in ended.said or {",", "="} & {*name}  # which separate the weights of several formats
    assert [path.name for path in machine.run.iterdir()] == ["serve.sh"]
