"""`planner export --all`: a folder to launch from, its scripts, and the spot policy without the planner."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml

import planner
from planner.analysis.job_runs import policy_tables, spot_advice
from planner.cli.options import scenario_of
from planner.exports import spot_policy
from planner.exports.export import choose_job, export_all
from planner.exports.facts import Wishes
from planner.exports.launchers import longest_hours
from planner.exports.spot_policy import decide
from planner.results.plan import Plan
from tests.helpers.checkpoints import adapters
from tests.helpers.exported_plans import WISHES, changed, solved
from tests.helpers.fake_machine import FakeMachine

pytestmark = pytest.mark.slow
TWO = {"instances": 2, "gpus_per_instance": 4, "gpus": 8}


def folder(plan: Plan, policy: dict[str, Any] | None = None) -> dict[str, str]:
    given = choose_job(plan, scenario_of(plan, "plan.json"), "plan.json", None)
    return export_all(given, WISHES, "plan.json", policy)[0]


@pytest.fixture(scope="module")
def table() -> dict[str, Any]:
    plan = solved("spot")
    return policy_tables(scenario_of(plan, "plan.json"), plan)[plan.jobs[0].name]


@pytest.mark.parametrize("name", ["quickstart", "secure", "fsdp", "zero2", "spot"])
def test_a_folder_has_everything_to_launch(name: str) -> None:
    """Trainer, script, packages, every launcher that has the machines, and a README of a line for each thing to do."""
    files = folder(solved(name))
    assert {"sft.yaml", "run.sh", "requirements.txt", "job.yaml", "job.slurm", "README.md"} <= files.keys()
    lines = [line.partition(": ")[0] for line in files["README.md"].splitlines()]
    assert lines[1:] == ["First", "Launch", "Follow", "Stop"]
    assert "trl==1.16.0" in files["requirements.txt"].splitlines()
    assert "--no-build-isolation" not in files["requirements.txt"], "pip reads no such option in a file"
    assert yaml.safe_load(files["sft.yaml"])["output_dir"].startswith("/checkpoints/")


@pytest.mark.parametrize("machines", [{}, TWO])
def test_scripts_are_shell(tmp_path: Path, machines: dict[str, int]) -> None:
    """`bash -n` reads them, and shellcheck has nothing to say where it is installed."""
    files = folder(changed(solved("fsdp"), **machines))
    check = shutil.which("shellcheck")
    for name in ("run.sh", "job.slurm"):
        path = tmp_path / name
        path.write_text(files[name])
        subprocess.run(["bash", "-n", str(path)], check=True)
        if check:
            subprocess.run([check, str(path)], check=True)


def test_the_script_downloads_trains_resumes_and_uploads(tmp_path: Path) -> None:
    """Run with tools that only say how they were called: in this order, from the last checkpoint, then without one."""
    machine = FakeMachine(tmp_path, folder(solved("quickstart")))
    out, train = machine.out / "quickstart", "trl sft --config sft.yaml --num_processes 4 --multi_gpu"
    first = machine.run_script()
    assert first.code == 0 and first.calls[0] == "pip install -r requirements.txt" and first.calls[-1] == train
    assert first.calls[-2].startswith("python -m accelerate.commands.launch --num_processes 4 --multi_gpu /")
    assert first.calls[-2].endswith("/world_size.py 4 "), "counted before the training, by the same launcher"
    assert any(call.startswith("hf download mistralai/Mistral-7B-v0.1 --exclude original/*") for call in first.calls)
    assert "hf download --repo-type dataset my/data" in first.calls
    for step in ("90", "100"):
        adapters(out / f"checkpoint-{step}")
    again = machine.run_script(UPLOAD_TO="me/model")
    assert train not in again.calls and "trained to its last step already" in again.said
    upload = f"hf upload me/model {out} --exclude checkpoint-* --exclude planned.txt --exclude finished.txt"
    assert again.calls[-1] == upload, "what follows the training has its turn, and takes no checkpoints along"
    (out / "finished.txt").unlink()
    resumed = machine.run_script(UPLOAD_TO="me/model").calls
    assert resumed[-3].endswith(f"/world_size.py 4 {out}/checkpoint-100"), "every machine says where it goes on"
    assert resumed[-2:] == [f"{train} --resume_from_checkpoint {out}/checkpoint-100", upload]
    (out / "finished.txt").unlink()
    (out / "checkpoint-100" / "trainer_state.json").unlink()
    assert machine.run_script().calls[-1] == f"{train} --resume_from_checkpoint {out}/checkpoint-90"
    (out / "finished.txt").unlink()
    shutil.rmtree(out / "checkpoint-90")
    assert machine.run_script().calls[-1] == train


def test_several_machines_are_told_their_number_and_the_first_one() -> None:
    """A headless service and the index of the pod in Kubernetes, the node's number in Slurm."""
    files = folder(changed(solved("fsdp"), **TWO))
    job, service = yaml.safe_load_all(files["job.yaml"])
    pod = job["spec"]["template"]["spec"]
    assert job["spec"]["parallelism"] == job["spec"]["completions"] == 2 and service["spec"]["clusterIP"] == "None"
    assert pod["subdomain"] == service["metadata"]["name"]
    assert pod["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": "4"}
    assert "NODE_RANK=$SLURM_NODEID" in files["job.slurm"] and "#SBATCH --nodes=2" in files["job.slurm"]
    assert "NODE_RANK:?" in files["run.sh"]
    meet = '--num_machines 2 --machine_rank "$NODE_RANK" --main_process_ip "$HEAD_IP" --main_process_port 29500'
    assert f"env trl sft --config sft.yaml --multi_gpu --num_processes 8 {meet} " in files["run.sh"]


def test_pods_have_numbers_checkpoints_and_time_and_a_fault_is_not_tried_again() -> None:
    """One pod that ends with a fault ends the job; of two, one ends so, too, when the other is lost."""
    for machines, rule in (({}, ("NotIn", [143])), (TWO, ("In", [3]))):
        files = folder(changed(solved("fsdp"), **machines))
        job, *_ = yaml.safe_load_all(files["job.yaml"])
        assert job["spec"]["completionMode"] == "Indexed"
        lost, fault = job["spec"]["podFailurePolicy"]["rules"]
        assert lost["action"] == "Ignore" and lost["onPodConditions"][0]["type"] == "DisruptionTarget"
        assert fault["action"] == "FailJob"
        assert (fault["onExitCodes"]["operator"], fault["onExitCodes"]["values"]) == rule
        pod = job["spec"]["template"]["spec"]
        assert pod["terminationGracePeriodSeconds"] == 120 and pod["restartPolicy"] == "Never"
        claim = {volume["name"]: volume for volume in pod["volumes"]}["checkpoints"]
        assert claim["persistentVolumeClaim"]["claimName"] == f"checkpoints-{job['metadata']['name']}"
        (container,) = pod["containers"]
        assert {"name": "checkpoints", "mountPath": "/checkpoints"} in container["volumeMounts"]
        variables = {one["name"]: one for one in container["env"]}
        assert variables["HF_TOKEN"]["valueFrom"]["secretKeyRef"] == {"name": "hf-token", "key": "HF_TOKEN"}
        name = job["metadata"]["name"]
        if machines:
            assert variables["HEAD_IP"]["value"] == f"{name}-0.{name}"
            path = variables["NODE_RANK"]["valueFrom"]["fieldRef"]["fieldPath"]
            assert path == "metadata.annotations['batch.kubernetes.io/job-completion-index']"


def test_slurm_signals_before_the_time_is_up_and_starts_what_was_taken_again() -> None:
    """Two minutes, in which a checkpoint is saved; without --requeue a job that is preempted has ended."""
    lines = folder(solved("fsdp"))["job.slurm"].splitlines()
    assert {"#SBATCH --signal=TERM@120", "#SBATCH --requeue", "#SBATCH --open-mode=append"} <= set(lines)
    assert lines[-1].startswith("srun bash -c 'NODE_RANK=$SLURM_NODEID VENV=${TMPDIR:-/tmp}/venv-$SLURM_JOB_ID exec ")


def test_the_readme_says_what_is_needed_first_what_stops_it_and_what_an_hour_costs() -> None:
    """Of a gated model with local data: token, data, bucket and volume in one line; each way to launch has its stop."""
    plan = solved("secure")
    job = plan.jobs[0]
    given = choose_job(plan, scenario_of(plan, "plan.json"), "plan.json", None)
    text = export_all(given, Wishes("meta-llama/Llama-3.1-8B", "chats.jsonl"))[0]["README.md"]
    first, stop = text.splitlines()[1], text.splitlines()[-1]
    for word in ("HF_TOKEN", "chats.jsonl next to these files", f"PersistentVolumeClaim checkpoints-{job.name}"):
        assert word in first
    assert f"`scancel --name={job.name}`" in stop and "`kubectl delete -f job.yaml`" in stop
    prices = [
        offer["usd_per_hour"]
        for offer in (plan.inputs.offers if plan.inputs else ())
        if offer["instance"] == job.instance
    ]
    assert f"${max(prices) * job.instances:,.2f} per hour" in stop


def test_the_readme_starts_each_of_several_machines_by_its_number() -> None:
    """One machine is started as it is."""
    for several, said in (
        (2, "`NODE_RANK=NUMBER HEAD_IP=ADDRESS bash run.sh` on each of the 2 machines, from number 0."),
        (1, "`bash run.sh` on the machine itself."),
    ):
        plan = changed(solved("fsdp"), instances=several, gpus=8 * several, gpus_per_instance=8)
        given = choose_job(plan, scenario_of(plan, "plan.json"), "plan.json", None)
        (launch,) = (
            line for line in export_all(given, WISHES)[0]["README.md"].splitlines() if line.startswith("Launch")
        )
        assert launch.endswith(said)


def test_what_lies_on_the_machine_of_the_user_and_who_writes_a_claim_is_said() -> None:
    """Data and weights in a folder are copied by nothing; two pods write to one claim, a single one needs no word."""
    given = choose_job(solved("fsdp"), scenario_of(solved("fsdp"), "plan.json"), "plan.json", None)
    files = export_all(given, Wishes("./weights", "chats.jsonl"))[0]
    for path, there in (
        ("./weights", "--model-id /checkpoints/weights"),
        ("chats.jsonl", "--dataset /checkpoints/chats.jsonl"),
    ):
        assert f"{path} next to these files on each machine" in files["README.md"]
        copied = f"copy it into the volume of that claim, and export with {there}"
        not_sent = f"first: {path} is not sent (a ConfigMap holds 1 MiB): {copied}"
        assert not_sent in files["job.yaml"].replace("\n#  ", "")
        assert f"{path} must be on each machine" in files["run.sh"]
    assert (
        "ReadWriteMany" in folder(changed(solved("fsdp"), **TWO))["job.yaml"]
        and "ReadWriteMany" not in files["job.yaml"]
    )


def test_a_node_of_slurm_has_the_cpus_of_the_plan_and_its_own_memory() -> None:
    """Else a task gets one CPU and a few GB; `srun` needs the CPUs once more."""
    plan = solved("fsdp")
    assert plan.inputs is not None
    cores = {
        offer.get("cpu_cores") for offer in plan.inputs.offers if offer["instance"] == plan.jobs[0].instance
    } - {None}  # fmt: skip
    script = folder(plan)["job.slurm"]
    assert "#SBATCH --mem=0\n" in script
    if cores:
        assert f"#SBATCH --cpus-per-task={int(min(cores))}\n" in script
        assert 'SRUN_CPUS_PER_TASK="${SLURM_CPUS_PER_TASK' in script
    else:
        assert "add --cpus-per-task" in script


@pytest.mark.long
def test_the_policy_script_advises_as_the_planner_does(table: dict[str, Any]) -> None:
    """The same action at 2,000 moments of any state, the deadline guard included."""
    random = Random(1)
    seen = set()
    for _ in range(2000):
        up = random.random() < 0.6
        running = random.choice(("nothing", "spot", "on_demand") if up else ("nothing", "on_demand"))
        hour = random.uniform(0, 1.1 * table["guaranteed_hours"])
        done, minutes, slowness = random.random(), random.uniform(0, 300), random.uniform(0.8, 1.3)
        hours_left = table["guaranteed_hours"] * slowness - hour
        work_left = (1 - done) * table["work_hours"] * slowness
        ours = decide(table, hours_left, work_left, up, minutes / 60, running)
        assert ours == spot_advice(table, hour, done, up, minutes, running, slowness)
        seen.add(ours)
    assert seen == {"wait", "spot", "on_demand"}


def test_the_policy_script_runs_alone(table: dict[str, Any], tmp_path: Path) -> None:
    """Outside of the planner, without any package."""
    files = folder(solved("spot"), table)
    for name in ("spot_policy.py", "policy.json"):
        (tmp_path / name).write_text(files[name])
    arguments = ("--hour", "20", "--done", "0.6", "--market", "up", "--minutes", "10")
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(tmp_path / "spot_policy.py"), *arguments],
        capture_output=True, text=True, check=True, cwd=tmp_path,
    )  # fmt: skip
    assert json.loads(done.stdout) == spot_advice(table, 20, 0.6, True, 10)


@pytest.mark.parametrize("running", ["nothing", "on_demand", "spot in east/east-a"])
def test_the_policy_script_names_the_zone_that_the_planner_names(running: str, tmp_path: Path) -> None:
    """Early and late in a run, with two zones up and with none."""
    scenario = planner.read_scenario("spot-zones")
    table = planner.policy_tables(scenario, planner.solve(scenario))["spot-zones"]
    (tmp_path / "policy.json").write_text(json.dumps(table))
    script = shutil.copy(spot_policy.__file__, tmp_path)
    moments = [(1.0, 0.1, {"east/east-a": 5, "east/east-b": 300, "east/east-c": None}), (4.5, 0.8, {"east/east-a": 9})]
    moments += [] if "spot" in running else [(1.0, 0.1, {"east/east-a": None, "east/east-b": None})]
    for hour, share, zones in moments:
        given = [f"{name}={'down' if minutes is None else minutes}" for name, minutes in zones.items()]
        arguments = ["--hour", str(hour), "--done", str(share), "--running", running, "--zones", *given]
        done = subprocess.run(
            [sys.executable, "-I", "-S", str(script), *arguments], capture_output=True, text=True, check=True
        )
        assert json.loads(done.stdout) == planner.spot_advice(table, hour, share, zones=zones, running=running)


@pytest.mark.parametrize("zones", ["west=5", "east/east-a=soon", "east/east-a=-1"])
def test_the_policy_script_refuses_what_is_no_zone_or_no_time(
    zones: str, table: dict[str, Any], tmp_path: Path
) -> None:
    """One line, and exit code 2."""
    row = {"zone": "east/east-a", "usd_per_hour": 1.0, "ages_hours": [0.0], "ends_per_hour": [0.5]}
    (tmp_path / "policy.json").write_text(json.dumps(table | {"zones": [row]}))
    script = shutil.copy(spot_policy.__file__, tmp_path)
    arguments = ["--hour", "1", "--done", "0.1", "--zones", zones]
    done = subprocess.run([sys.executable, "-I", "-S", str(script), *arguments], capture_output=True, text=True)
    assert done.returncode == 2 and zones in done.stderr and "Traceback" not in done.stderr


def test_a_launcher_stops_a_run_at_its_deadline_or_after_twice_its_late_hours() -> None:
    """worked: by 6.3 h and no deadline, the run may take 12.6 h; with a deadline of 8 h it may take 8 h."""
    job = solved("quickstart").jobs[0]
    late = job.model_copy(update={"hours": job.hours.model_copy(update={"at_confidence": 6.3}), "deadline_hours": None})
    assert longest_hours(late) == pytest.approx(12.6)
    assert longest_hours(late.model_copy(update={"deadline_hours": 8.0})) == 8.0
