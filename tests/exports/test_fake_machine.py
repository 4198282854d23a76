"""Exported scripts on a machine of stand-ins: what is started, what is not after a failure, signals, and exit codes."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from planner.cli.options import scenario_of
from planner.exports.export import choose_job, export_all
from planner.exports.script_parts import script_lines
from planner.results.plan import Plan
from tests.helpers.checkpoints import sharded
from tests.helpers.exported_plans import WISHES, changed, solved, texts
from tests.helpers.fake_machine import FakeMachine, meeting
from tests.helpers.hangs import HANG_SECONDS, wait_until

pytestmark = pytest.mark.slow
TWO = {"instances": 2, "gpus_per_instance": 4, "gpus": 8}


def files_of(plan: Plan) -> dict[str, str]:
    """Return the folder of a plan."""
    return export_all(choose_job(plan, scenario_of(plan, "plan.json"), "plan.json", None), WISHES)[0]


@pytest.fixture
def machine(tmp_path: Path) -> FakeMachine:
    """A machine with the quickstart."""
    return FakeMachine(tmp_path, files_of(solved("quickstart")))


def is_asleep(number: int) -> bool:
    """Return whether a process waits for something, as a shell for its child."""
    listed = subprocess.run(["ps", "-o", "stat=", "-p", str(number)], capture_output=True, text=True, check=True)
    return listed.stdout.startswith("S")


def has_trained(calls: list[str]) -> bool:
    """Return whether the trainer was started."""
    return any(call.startswith("trl sft") for call in calls)


@pytest.mark.parametrize("step", ["pip", "python", "hf"])
def test_nothing_trains_after_a_step_that_failed(machine: FakeMachine, step: str) -> None:
    """Packages, the test of the GPU (and the count of processes), the download: the code is that of the step."""
    machine.tool(step, "exit 9")
    ended = machine.run_script(UPLOAD_TO="me/model")
    assert ended.code == 9 and not has_trained(ended.calls)
    assert not any(call.startswith("hf upload") for call in ended.calls)


def test_a_world_of_another_size_trains_nothing(machine: FakeMachine) -> None:
    """The program that counts the processes ends with 1; the test of the GPU before it is fine."""
    machine.tool("python", 'case "$*" in *world_size*) exit 1 ;; esac')
    ended = machine.run_script()
    assert ended.code == 1 and not has_trained(ended.calls)


@pytest.mark.parametrize(
    ("tried", "techniques", "said"),
    [
        ("triton", {}, "the launcher of Triton's kernels cannot be compiled here: it needs a C compiler"),
        ("CPUAdam", {"offload": "optimizer"}, "DeepSpeed's AdamW of the CPUs cannot be compiled here: it needs a C++"),
    ],
)
def test_what_cannot_be_compiled_ends_the_script_before_the_download(
    tried: str, techniques: dict[str, str], said: str, tmp_path: Path
) -> None:
    """Otherwise the trainer finds out when it has loaded the weights."""
    machine = FakeMachine(tmp_path, files_of(changed(solved("quickstart"), techniques)))
    machine.tool("python", f'case "$*" in *{tried}*) exit 1 ;; esac')
    ended = machine.run_script()
    assert ended.code == 1 and said in ended.said and not has_trained(ended.calls)
    assert not any(call.startswith("hf") for call in ended.calls)


def test_a_trainer_that_fails_is_not_at_its_end(machine: FakeMachine) -> None:
    """Its exit code comes through, nothing is uploaded, and the next start trains again."""
    machine.tool("trl", "exit 7")
    ended = machine.run_script(UPLOAD_TO="me/model")
    assert ended.code == 7 and not any("upload" in call for call in ended.calls)
    machine.tool("trl")
    again = machine.run_script(UPLOAD_TO="me/model")
    assert again.code == 0 and has_trained(again.calls) and "hf upload" in again.calls[-1]


def test_the_script_outlives_a_worker_that_saves_after_its_launcher_has_ended(machine: FakeMachine) -> None:
    """The launcher ends at SIGTERM at once, as torchrun's does under a command line; its worker takes half a second."""
    saves = f'trap "sleep 0.5; echo saved >> {machine.calls}; exit 0" TERM'
    worker = f"{saves}; touch {machine.folder}/up; while :; do sleep 0.05; done"
    machine.tool("trl", f"trap 'exit 1' TERM; sh -c '{worker}' & wait")
    process = machine.start(UPLOAD_TO="me/model")
    wait_until((machine.folder / "up").exists, process)
    process.send_signal(signal.SIGTERM)
    code = process.wait(timeout=HANG_SECONDS)  # not until its output is closed: the worker holds that
    assert code == 143 and machine.calls.read_text().splitlines()[-1] == "saved"
    machine.ended(process)


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_reaches_the_trainer_and_the_code_says_unfinished(machine: FakeMachine, sent: signal.Signals) -> None:
    """The trainer has the time to save and may end with 0; the script says 143, and no process is left."""
    machine.tool(
        "trl", f'trap "echo saved >> {machine.calls}; exit 0" TERM; echo $$ > {machine.folder}/pid; '
        "while :; do sleep 0.05; done",
    )  # fmt: skip
    process = machine.start(UPLOAD_TO="me/model")
    wait_until(lambda: (machine.folder / "pid").exists() and (machine.folder / "pid").read_text(), process)
    process.send_signal(sent)
    ended = machine.ended(process)
    assert ended.code == 143 and ended.calls[-1] == "saved", "saved, and nothing was uploaded afterwards"
    assert "stopped before its end: start it again" in ended.said
    number = (machine.folder / "pid").read_text().strip()
    assert subprocess.run(["ps", "-p", number], capture_output=True, check=False).returncode == 1
    assert not (machine.out / "quickstart" / "finished.txt").exists()


def test_a_signal_that_comes_before_the_trainer_has_a_group_starts_nothing(machine: FakeMachine) -> None:
    """The trap is there before the run is, and the process that would become it gets the signal."""
    machine.tool("setsid", f'kill -s TERM "$PPID"; sleep 0.3; exec {shutil.which("setsid")} "$@"')
    ended = machine.run_script()
    assert ended.code == 143 and not [call for call in ended.calls if call.startswith("trl sft")], ended.calls
    assert not (machine.out / "quickstart" / "finished.txt").exists()


@pytest.mark.parametrize("shell", ["bash", "sh"])
def test_a_failure_comes_through_an_interactive_shell_on_a_terminal(machine: FakeMachine, shell: str) -> None:
    """As dstack starts commands: there a job in the background leads a group of its own."""
    machine.tool("trl", "sleep 0.3; exit 7")
    text = texts(solved("quickstart"), "dstack", "trl")["task.dstack.yml"].replace("/checkpoints", str(machine.out))
    (command,) = yaml.safe_load(text)["commands"]
    program = "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))"
    done = subprocess.run(
        [sys.executable, "-c", program, shell, "-i", "-c", command], cwd=machine.run, stdin=subprocess.DEVNULL,
        env=machine.environment(), capture_output=True, timeout=HANG_SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == 7, done.stdout[-600:]
    assert not (machine.out / "quickstart" / "finished.txt").exists()


def test_a_signal_at_the_very_end_stops_nothing(machine: FakeMachine) -> None:
    """The trainer saved its last step and ended well: the run is at its end, and what follows has its turn."""
    steps = solved("quickstart").jobs[0].steps
    machine.tool(
        "trl", f'mkdir -p {machine.out}/quickstart/checkpoint-{steps}; trap "exit 0" TERM; '
        f"echo $$ > {machine.folder}/pid; while :; do sleep 0.05; done",
    )  # fmt: skip
    process = machine.start(UPLOAD_TO="me/model")
    wait_until((machine.folder / "pid").exists, process)
    process.send_signal(signal.SIGTERM)
    ended = machine.ended(process)
    assert ended.code == 0 and ended.calls[-1].startswith("hf upload")
    assert (machine.out / "quickstart" / "finished.txt").exists()


def test_the_folder_of_another_plan_is_not_gone_on_with(machine: FakeMachine, tmp_path: Path) -> None:
    """The same name of the job, another rank: exit code 3, both recipes are shown, and nothing is started."""
    assert machine.run_script().code == 0
    other = machine.folder / "run" / "other.sh"
    plan = changed(solved("quickstart"), {"lora_rank": 64})
    other.write_text(files_of(plan)["run.sh"].replace("/checkpoints", str(machine.out)))
    ended = machine.run_script("other.sh")
    assert ended.code == 3 and not has_trained(ended.calls)
    assert "holds a run of another plan" in ended.said
    assert "lora_rank=16" in ended.said and "lora_rank=64" in ended.said
    more = files_of(changed(solved("quickstart"), gpus=8, gpus_per_instance=8))["run.sh"]
    other.write_text(more.replace("/checkpoints", str(machine.out)))
    assert machine.run_script("other.sh").code == 0, "other machines go on with the same run"


def test_one_of_several_machines_uploads(tmp_path: Path) -> None:
    """Each trains; the first one alone sends the result."""
    machine = FakeMachine(tmp_path, files_of(changed(solved("fsdp"), **TWO)))
    for rank in ("0", "1"):
        ended = machine.run_script(NODE_RANK=rank, HEAD_IP="10.0.0.1", UPLOAD_TO="me/model")
        assert ended.code == 0 and any("upload" in call for call in ended.calls) == (rank == "0")
        assert bool(list(machine.out.rglob("finished.txt"))) == (rank == "0"), "the first machine has the result"
        for path in machine.out.rglob("finished.txt"):
            path.unlink()
    without = machine.run_script(HEAD_IP="10.0.0.1")
    assert without.code != 0 and "number of this machine" in without.said and not has_trained(without.calls)


@pytest.mark.parametrize("shared", [False, True])
def test_machines_without_a_shared_folder_train_nothing_where_one_has_a_checkpoint(
    shared: bool, tmp_path: Path
) -> None:
    """The first one has step 100, the other nothing: both end before the training. With one folder both go on."""
    files = files_of(changed(solved("fsdp"), instances=2, gpus_per_instance=1, gpus=2))
    variables = meeting(tmp_path)
    launch = (
        'case "$*" in *world_size.py*)\n  while [ "$1" != --machine_rank ]; do shift; done\n  export RANK=$2\n'
        '  while [ "${1%world_size.py}" = "$1" ]; do shift; done\n'
        f'  LOCAL_RANK=0 WORLD_SIZE=2 exec {sys.executable} "$@" ;;\nesac'
    )
    machines = [FakeMachine(tmp_path / str(rank), files, tmp_path / "out" if shared else None) for rank in range(2)]
    name = "llama-2-7b-full-vs-lora"
    sharded(machines[0].out / name / "checkpoint-100", processes=2)
    processes = []
    for rank, one in enumerate(machines):
        one.tool("python", launch)
        processes.append(one.start(NODE_RANK=str(rank), HEAD_IP="10.0.0.1", **variables))
    for one, process in zip(machines, processes, strict=True):
        ended = one.ended(process)
        assert ended.code == (0 if shared else 1), ended.said
        assert has_trained(ended.calls) == shared
        assert ("machines go on from steps 0 and 100: share the folder of checkpoints" in ended.said) != shared
        assert not shared or f"starts from {one.out}/{name}/checkpoint-100" in ended.said


@pytest.mark.parametrize("maker", ["uv", "python3"])
def test_an_environment_is_made_once(machine: FakeMachine, maker: str, tmp_path: Path) -> None:
    """By uv where it is there, else by Python; with the packages of the image, and none is installed outside of it."""
    made = tmp_path / "made"
    copy = f'for last; do :; done; mkdir -p "$last" && cp -r {machine.folder}/venv/bin "$last/bin"'
    machine.tool(maker, copy)
    ended = machine.run_script(VENV=str(made))
    expected = {
        "uv": f"uv venv --quiet --seed --system-site-packages --python >=3.11,<3.14 {made}",
        "python3": f"python3 -m venv --system-site-packages {made}",
    }
    assert ended.code == 0 and ended.calls[0] == expected[maker] and has_trained(ended.calls)
    machine.tool(maker, "exit 1")
    assert machine.run_script(VENV=str(made)).code == 0
    none = machine.run_script(VENV=str(tmp_path / "none"))
    assert none.code == 1 and "no virtual environment: install uv" in none.said and not has_trained(none.calls)


def test_a_folder_of_the_user_is_never_taken_for_an_environment(machine: FakeMachine, tmp_path: Path) -> None:
    """`VENV` names a folder with other things: it is refused and left whole; one that was cut off is made anew."""
    own = tmp_path / "own"
    own.mkdir()
    (own / "thesis.txt").write_text("years")
    machine.tool("uv", f'for last; do :; done; mkdir -p "$last" && cp -r {machine.folder}/venv/bin "$last/bin"')
    for name in (str(own), f"{own}/"):
        ended = machine.run_script(VENV=name)
        assert ended.code == 1 and f"{own} has no bin/pip: " in ended.said and ended.calls == []
    assert (own / "thesis.txt").read_text() == "years" and [path.name for path in own.iterdir()] == ["thesis.txt"]
    machine.tool("uv", 'for last; do :; done; mkdir -p "$last/half" && exit 1')
    cut = tmp_path / "cut"
    assert machine.run_script(VENV=str(cut)).code == 1 and (cut / "half").exists()
    machine.tool("uv", f'for last; do :; done; mkdir -p "$last" && cp -r {machine.folder}/venv/bin "$last/bin"')
    assert machine.run_script(VENV=str(cut)).code == 0 and not (cut / "half").exists()
    assert sorted(path.name for path in tmp_path.glob("cut*")) == ["cut"]


def test_a_run_that_ends_while_its_signal_is_passed_on_ended_well(tmp_path: Path) -> None:
    """The shell has taken note of the end before it waits again: the code is that of the run, not of the signal."""
    script = tmp_path / "script.sh"
    slow = 'kill() { builtin kill "$@"; local code=$?; [ "$2" = 0 ] || sleep 0.5; return "$code"; }\n'
    trained = f'trap "exit 0" TERM; touch {tmp_path}/last; while :; do sleep 0.05; done'
    lines = "\n".join(script_lines("run_once.sh"))
    script.write_text(f"set -e\n{lines}\n{slow}run_to_its_end {tmp_path}/last sh -c '{trained}'\n")
    process = subprocess.Popen(["bash", str(script)], stderr=subprocess.DEVNULL)
    wait_until(lambda: (tmp_path / "last").exists() and is_asleep(process.pid), process)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=HANG_SECONDS) == 0


def test_slurm_gives_each_node_its_number_and_its_own_environment(tmp_path: Path) -> None:
    """`srun` starts the script on every node; two nodes never install into one folder."""
    machine = FakeMachine(tmp_path, files_of(changed(solved("fsdp"), **TWO)))
    machine.tool("scontrol", "echo head; echo other")
    machine.tool("srun", 'SLURM_NODEID=1 "$@"')
    machine.tool("python3", f'for last; do :; done; mkdir -p "$last" && cp -r {machine.folder}/venv/bin "$last/bin"')
    ended = machine.run_script("job.slurm", SLURM_JOB_NODELIST="a[0-1]", SLURM_JOB_ID="5", TMPDIR=str(tmp_path))
    assert ended.code == 0 and has_trained(ended.calls)
    assert (tmp_path / "venv-5" / "bin" / "pip").exists()
    assert any("--machine_rank 1 --main_process_ip head" in call for call in ended.calls)


def test_the_first_process_of_a_pod_is_the_script(tmp_path: Path) -> None:
    """A shell that waits for another one would keep the signal of Kubernetes for itself."""
    files = files_of(solved("quickstart"))
    (job,) = yaml.safe_load_all(files["job.yaml"])
    command = job["spec"]["template"]["spec"]["containers"][0]["command"]
    machine = FakeMachine(tmp_path, files)
    inside = command[2].replace("/job", str(machine.run)).replace("/workspace", str(tmp_path / "work"))
    (tmp_path / "work").mkdir()
    (machine.run / "pod.sh").write_text(inside)
    ended = machine.run_script("pod.sh")
    assert ended.code == 0 and has_trained(ended.calls) and "exec bash" in inside
