"""The files of a probe: the settings of the export, and a program whose recorded results are read here."""

from __future__ import annotations

import json
import py_compile
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from planner.cli.options import scenario_of
from planner.cli.plan_commands import probe_texts, write_probe
from planner.documents.files import data_folder
from planner.errors import InputError
from planner.exports.export import LEAST_STEPS, STEPS, check_folder, choose_job, export_all, probe_files, probe_steps
from planner.exports.facts import Given
from planner.results.plan import Plan
from tests.helpers.exported_plans import WISHES, changed, settings, solved

PROGRAM = data_folder("models") / "exports" / "probe.py"
RECORDED = Path(__file__).parent / "probed"
OTHER_FIELDS = {
    *("model_name_or_path", "dataset_name", "datasets", "output_dir", "max_steps"),
    *("save_strategy", "save_steps", "save_total_limit", "save_only_model", "enable_jit_checkpoint"),
}


def given_of(plan: Plan) -> Given:
    return choose_job(plan, scenario_of(plan, "plan.json"), "plan.json", None)


def files(plan: Plan) -> dict[str, str]:
    return probe_files(given_of(plan), "plan.json")


def test_the_program_compiles(tmp_path: Path) -> None:
    """No machine is rented to learn of a misplaced bracket."""
    py_compile.compile(str(PROGRAM), cfile=str(tmp_path / "probe.pyc"), doraise=True)


def test_the_model_that_is_made_names_its_class(tmp_path: Path) -> None:
    """TRL loads the class that config.json names; a file that is made of a card names none. Weights need torch."""
    shutil.copy(PROGRAM, tmp_path / "probe.py")
    shutil.copy(RECORDED / "planned.json", tmp_path / "planned.json")
    without_torch = 'import probe; probe.write_tokenizer = int; probe.write_weights = lambda: "Ours"; probe.make()'
    subprocess.run([sys.executable, "-c", without_torch], cwd=tmp_path, check=True)
    written = json.loads((tmp_path / "model" / "config.json").read_text())
    assert written["architectures"] == ["Ours"] and written["model_type"] == "llama"


def summed(folder: Path, ended: int = 0, processes: int = 1) -> tuple[int, dict[str, Any]]:
    """Run the last part of the program, which needs Python alone, after a command that ended with a code."""
    shutil.copy(PROGRAM, folder / "probe.py")
    planned = json.loads((RECORDED / "planned.json").read_text())
    (folder / "planned.json").write_text(json.dumps({**planned, "processes": processes}))
    command = [sys.executable, str(folder / "probe.py"), "sum", str(ended)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, json.loads((folder / "probe.json").read_text())


def test_a_recorded_log_is_summed_as_it_was_on_its_machine(tmp_path: Path) -> None:
    """Six steps of a network of 64 hidden units under TRL 1.16 on a CPU."""
    (tmp_path / "results").mkdir()
    for name in ("end-0.json", "steps-0.jsonl"):
        shutil.copy(RECORDED / name, tmp_path / "results" / name)
    code, found = summed(tmp_path)
    wanted = json.loads((RECORDED / "probe.json").read_text())
    assert code == 0
    assert {**found, "versions": 0} == {**wanted, "versions": 0}
    assert found["step_seconds"] == pytest.approx(0.056638) and found["warm_up_steps"] == 2


def test_one_process_out_of_memory_is_the_result_of_all(tmp_path: Path) -> None:
    """The launcher ends the others before they can write anything; the largest peak counts."""
    (tmp_path / "results").mkdir()
    end = {"status": "oom", "reached": "step 1", "error": "", "load_gib": 9.0, "host_gib": 2.0, "allocated_gib": 23.1}
    end |= {"gpu": {"name": "NVIDIA RTX A5000", "gib": 23.6}}
    (tmp_path / "results" / "end-1.json").write_text(json.dumps(end))
    (tmp_path / "results" / "steps-0.jsonl").write_text(
        json.dumps({"step": 1, "seconds": 2.0, "tokens": 9, "allocated_gib": 23.4})
    )
    code, found = summed(tmp_path)
    assert (code, found["status"], found["reached"], found["allocated_gib"]) == (0, "oom", "step 1", 23.4)


def test_processes_that_leave_nothing_have_failed_for_a_reason_that_is_not_known(tmp_path: Path) -> None:
    """Killed for host memory, or never started: the code is all that is known, and no memory of a GPU is blamed."""
    code, found = summed(tmp_path, ended=1)
    assert (code, found["status"], found["error"]) == (1, "failed", "1 of 1 processes wrote no end; exit code 1")
    (tmp_path / "results").mkdir()
    shutil.copy(RECORDED / "end-0.json", tmp_path / "results")
    code, found = summed(tmp_path, ended=137, processes=4)
    assert (code, found["status"], found["error"]) == (1, "failed", "3 of 4 processes wrote no end; exit code 137")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["quickstart", "fsdp", "zero2", "spot"])
def test_what_is_measured_is_what_will_be_run(name: str) -> None:
    """Every field is that of the export, but for weights, data, steps and saving."""
    plan = solved(name)
    probe, export = yaml.safe_load(files(plan)["sft.yaml"]), settings(plan, "trl")
    assert {key: value for key, value in probe.items() if key not in OTHER_FIELDS} == {
        key: value for key, value in export.items() if key not in OTHER_FIELDS
    }
    assert probe["model_name_or_path"] == "model" and probe["save_strategy"] == "no"


@pytest.mark.slow
def test_the_processes_are_those_of_the_plan_and_the_folder_has_no_fault(tmp_path: Path) -> None:
    """The launcher is the one that the command of the trainer takes."""
    plan = solved("quickstart")
    job = plan.jobs[0]
    write_probe(plan, "plan.json", None, tmp_path, None)
    script = (tmp_path / "probe.sh").read_text()
    start = f"python -m accelerate.commands.launch --num_processes {job.gpus} {'--multi_gpu ' if job.gpus > 1 else ''}"
    assert start.strip() in script and "hf download" not in script and "HF_TOKEN" not in script
    found = check_folder(str(tmp_path), plan)
    assert (found.scripts, found.see_to) == (1, ())


def words_before(line: str, program: str) -> list[str]:
    """Return the variables and options with which a line starts the processes of a program."""
    words = shlex.split(line.removeprefix("run_to_its_end ").partition(" || ")[0])
    own = {"env", "trl", "sft", "python", "-m", "accelerate.commands.launch", program, "train", "--config", "sft.yaml"}
    return [word for word in words if word not in own and not word.startswith(("$", "/"))]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sharding", "machines"), [("ddp", 1), ("zero3", 1), ("ddp", 2), ("zero2", 2), ("zero3", 2), ("hsdp", 2)]
)
def test_processes_start_with_the_variables_and_options_of_the_export(sharding: str, machines: int) -> None:
    """Hybrid shards are made by variables alone: without them the probe would measure another sharding."""
    several = {"instances": machines, "gpus_per_instance": 4, "gpus": 4 * machines}
    given = given_of(changed(solved("fsdp"), {"sharding": sharding}, **several))
    lines = export_all(given, WISHES)[0]["run.sh"].splitlines()
    (export,) = (line for line in lines if line.startswith('run_to_its_end "$OUT"'))
    (probe,) = (line for line in probe_files(given, "plan.json")["probe.sh"].splitlines() if "probe.py train" in line)
    wanted = words_before(export.replace('"$OUT"/checkpoint', "/checkpoint").partition(" ${LATEST")[0], "")
    assert words_before(probe, "probe.py") == wanted
    assert any("PARALLELISM" in word for word in wanted) == (sharding == "hsdp")


@pytest.mark.slow
def test_what_a_machine_cannot_compile_is_tried_as_by_the_export() -> None:
    """Before the random weights are written: the same lines."""
    given = given_of(changed(solved("fsdp"), {"offload": "optimizer", "sharding": "zero2"}, framework="hf-fused"))
    own, export = probe_files(given, "plan.json")["probe.sh"], export_all(given, WISHES)[0]["run.sh"]
    tried = [line for line in export.splitlines() if line.startswith("python -c ")]
    assert len(tried) == 3 and all(line in own.splitlines() for line in tried)


@pytest.mark.slow
def test_samples_have_the_lengths_that_the_plan_counts_with() -> None:
    """Packed: so many that the rows of the steps are full, with the mean of the job."""
    plan = solved("quickstart")
    planned = json.loads(files(plan)["planned.json"])
    job, asked = plan.jobs[0], scenario_of(plan, "plan.json").jobs[0]
    counts = planned["samples"]
    tokens = sum(length * count for length, count in counts)
    mean = tokens / sum(count for _, count in counts)
    assert mean == pytest.approx(asked.work.tokens_per_sample, rel=0.05)
    assert tokens >= planned["steps"] * job.global_batch * job.sequence_length
    assert max(length for length, _ in counts) <= job.sequence_length


def test_long_steps_are_run_less_often() -> None:
    """Three minutes, and at least as many as are left after the first ones."""
    assert (probe_steps(0.5), probe_steps(15.0), probe_steps(3600.0)) == (STEPS, 10, LEAST_STEPS)


@pytest.mark.slow
def test_another_trainer_is_refused_with_the_setting_that_plans_for_this_one() -> None:
    with pytest.raises(InputError) as error:
        files(changed(solved("quickstart"), framework="litgpt"))
    assert "TRL does not run litgpt" in str(error.value)
    assert "jobs.quickstart.framework=[hf, hf-fused, deepspeed]" in str(error.value)


@pytest.mark.slow
def test_a_model_whose_shape_is_not_known_whole_asks_for_its_file() -> None:
    with pytest.raises(InputError, match=r"config.json of gpt2 cannot be written .* as the architecture of the job"):
        files(changed(solved("quickstart"), architecture="gpt2"))


@pytest.mark.slow
def test_generation_is_refused() -> None:
    with pytest.raises(InputError, match="a probe trains, and this job generates"):
        probe_texts(solved("generation merged"), "plan.json", None, None)
