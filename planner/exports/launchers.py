"""A folder to launch from: `run.sh` and README, and tasks for Kubernetes, Slurm, Hugging Face, dstack, SkyPilot."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

from planner.documents.files import yaml_text
from planner.errors import Fault, InputError, plan_with
from planner.exports.facts import CHECKPOINT_FOLDER, Given
from planner.exports.field_map import Facts, FieldMap, LaunchMap, launch_maps
from planner.exports.machine_names import (
    PRICE_MARGIN,
    Machines,
    filled,
    find_machines,
    launch_script,
    offers_of,
    task_name,
    task_remarks,
)
from planner.exports.script_parts import (
    SCRIPT,
    commented,
    compiled_by,
    document,
    environment_lines,
    environment_remark,
    header,
    image_of,
    in_environment,
    needs_image,
    result_body,
    setup_script,
    shell_word,
    split_packages,
    trying_lines,
    wrapped,
    written_by,
)
from planner.results.plan import Assignment

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence


TOKEN = "HF_TOKEN"
"""Environment variable with a token of the Hub."""
_TOKEN_SECRET = "hf-token"
"""Secret of Kubernetes that holds it."""


def local_data(facts: Facts) -> list[str]:
    """Return the file or folder of data that lies on the machine of the user, where the data are none of the Hub."""
    return _not_in_volume(facts["dataset_path"]) if facts["has_data_file"] or facts["is_folder"] else []


def local_model(facts: Facts) -> list[str]:
    """Return the folder of the weights that lies on the machine of the user, where they are none of the Hub."""
    model = str(facts["model_id"] or "")
    return _not_in_volume(model) if model.startswith((".", "/", "~")) else []


def _not_in_volume(path: str) -> list[str]:
    """Return a path in a list; none where it lies in the volume that tasks mount."""
    return [] if path.startswith(f"{CHECKPOINT_FOLDER}/") else [path]


def local_paths(facts: Facts) -> list[str]:
    """Return what lies on the machine of the user: the file of data, and weights in a folder."""
    return [*local_data(facts), *local_model(facts)]


def _copied_by_hand(facts: Facts, paths: list[str], why: str, volume: str | None) -> list[str]:
    """Return what a user does with files that a launcher does not send: the run reads them from its volume.

    `volume`: what it is; None where there is none, so that the Hub is what is left.
    """
    data, said = local_data(facts), []
    for path in paths:
        place = f"{CHECKPOINT_FOLDER}/{Path(path).name}" if volume else "OWNER/NAME"
        copied = f"copy it into {volume}" if volume else "upload it to the Hub"
        option = "--dataset" if path in data else "--model-id"
        said.append(f"first: {path} is not sent ({why}): {copied}, and export with {option} {place}")
    return said


def token_remark(model: str) -> str:
    """Return what a gated model needs before it can be downloaded."""
    return f"{model} is gated: accept its terms on the Hub, and set {TOKEN} to a token that may read it"


# Jobs of machines that are there already: a Kubernetes Job, a Slurm batch script, and a job of Hugging Face.


RUN_FOLDER = "/workspace"
"""Folder of a pod that the scripts write in: files of a ConfigMap are read-only."""
RETRIES = 20
"""Times that a lost machine is replaced: a spot run may lose many."""
NOTICE_SECONDS = 120
"""Time between the signal and the end, in which a checkpoint is saved: `run_once.sh` waits as long."""


def longest_hours(job: Assignment) -> float:
    """Return the hours after which a run is stopped: its deadline, else twice what it should take."""
    return job.deadline_hours if job.deadline_hours is not None else 2 * job.hours.at_confidence


def kubernetes_job(given: Given, tool: LaunchMap, trainer: FieldMap, facts: Facts) -> str:
    """Return an indexed Job, one pod per machine, and the headless service by which its pods find each other."""
    job, name = given.job, task_name(given.job)
    several = job.instances > 1
    spec = {
        "completions": job.instances,
        "parallelism": job.instances,
        "completionMode": "Indexed",
        "backoffLimit": RETRIES * job.instances,
        "podFailurePolicy": {"rules": _pod_failures(several)},
        "activeDeadlineSeconds": math.ceil(3600 * longest_hours(job)),
        "template": {"metadata": {"labels": {"job": name}}, "spec": _pod(job, facts)},
    }
    documents = [{"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}]
    if several:
        headless = {"clusterIP": "None", "selector": {"job": name}, "ports": [{"port": 29500}]}
        documents.append({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": headless})
    remarks = _remarks_of_pods(job, trainer, facts)
    head = header(given.plan, job, tool, tool.run, remarks, facts["result_remarks"])
    return commented(head) + "---\n".join(map(yaml_text, documents))


def _pod(job: Assignment, facts: Facts) -> dict[str, Any]:
    """Return the pod of one machine: its files from the ConfigMap, its checkpoints on a volume that outlives it."""
    name = task_name(job)
    image = image_of(job.gpu)
    environment = _pod_environment(job, facts)
    container: dict[str, Any] = {
        "name": "train",
        "image": image.image,
        "command": ["bash", "-c", f"cp -rL /job/* {RUN_FOLDER}/ && exec bash {RUN_FOLDER}/run.sh"],
        **({"env": environment} if environment else {}),
        "resources": {"limits": {f"{image.vendor.lower()}.com/gpu": str(job.gpus_per_instance)}},
        "volumeMounts": [
            {"name": "files", "mountPath": "/job"},
            {"name": "run", "mountPath": RUN_FOLDER},
            {"name": "memory", "mountPath": "/dev/shm"},
            {"name": "checkpoints", "mountPath": CHECKPOINT_FOLDER},
        ],
    }
    return {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": NOTICE_SECONDS,
        **({"subdomain": name} if job.instances > 1 else {}),
        "containers": [container],
        "volumes": [
            {"name": "files", "configMap": {"name": name}},
            {"name": "run", "emptyDir": {}},
            {"name": "memory", "emptyDir": {"medium": "Memory"}},
            {"name": "checkpoints", "persistentVolumeClaim": {"claimName": f"checkpoints-{name}"}},
        ],
    }


def _remarks_of_pods(job: Assignment, trainer: FieldMap, facts: Facts) -> list[str]:
    """Return what must be in the cluster first, and what the cluster decides by itself."""
    name = task_name(job)
    remarks = [
        environment_remark(job.gpu),
        f"first: kubectl create configmap {name} "
        + " ".join(
            f"--from-file={file}" for file in ("run.sh", "requirements.txt", trainer.file, *trainer.files_of(facts))
        ),
        f"first: a PersistentVolumeClaim checkpoints-{name}, which outlives the pods"
        + (f"; {job.instances} pods write to it, so its access mode is ReadWriteMany" if job.instances > 1 else ""),
        f"a pod may get any GPU: add a nodeSelector of your cluster for {job.gpu}",
    ]
    remarks += _copied_by_hand(facts, local_paths(facts), "a ConfigMap holds 1 MiB", "the volume of that claim")
    if facts["needs_token"]:
        made = f"first: kubectl create secret generic {_TOKEN_SECRET} --from-literal={TOKEN}=...; "
        remarks.append(made + token_remark(facts["model_id"]))
    return remarks


def _pod_failures(several: bool) -> list[dict[str, Any]]:
    """Return which ends of a pod are a lost machine, and which a fault that would come again, with its bill.

    143 is a run that was stopped, 3 the folder of another plan. Of several pods the others end with a fault of their
    trainer when one is lost, so that such a fault says nothing.
    """
    stopped = {"operator": "NotIn", "values": [143]} if not several else {"operator": "In", "values": [3]}
    return [
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
        {"action": "FailJob", "onExitCodes": stopped},
    ]


def _pod_environment(job: Assignment, facts: Facts) -> list[dict[str, Any]]:
    """Return the variables of a pod: the token of a gated model, and of several pods its number and the first one."""
    name, variables = task_name(job), list[dict[str, Any]]()
    if facts["needs_token"]:
        variables.append({"name": TOKEN, "valueFrom": {"secretKeyRef": {"name": _TOKEN_SECRET, "key": TOKEN}}})
    if job.instances > 1:
        index = {"fieldRef": {"fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}}
        variables += [{"name": "NODE_RANK", "valueFrom": index}, {"name": "HEAD_IP", "value": f"{name}-0.{name}"}]
    return variables


def slurm_script(given: Given, tool: LaunchMap, trainer: FieldMap, facts: Facts) -> str:
    """Return the batch script: one task per machine, requeued where its machines are taken."""
    del trainer
    job, name = given.job, task_name(given.job)
    host = _slurm_host(given)
    minutes = math.ceil(60 * longest_hours(job))
    days, rest = divmod(minutes, 24 * 60)
    options = {
        "job-name": name,
        "nodes": job.instances,
        "ntasks-per-node": 1,
        "gpus-per-node": job.gpus_per_instance,
        **host,
        "time": f"{days}-{rest // 60:02}:{rest % 60:02}:00",
        "output": f"{name}-%j.log",
        "open-mode": "append",
        "signal": f"TERM@{NOTICE_SECONDS}",
    }
    lines = ["#!/usr/bin/env bash", *(f"#SBATCH --{key}={value}" for key, value in options.items())]
    lines += ["#SBATCH --requeue"]
    remarks = [
        f"--gpus-per-node takes any GPU: your cluster may call {job.gpu} in --constraint or --gres",
        f"{CHECKPOINT_FOLDER} must be a shared folder that outlives the job",
        environment_remark(job.gpu),
    ]
    if "cpus-per-task" not in host:
        remarks.append("the plan does not know the CPUs of the machine: add --cpus-per-task, or a task gets one CPU")
    if job.host_memory is not None:
        remarks.append(f"states take {job.host_memory.taken_gb:.0f} GB of host memory on each node")
    text = commented(header(given.plan, job, tool, tool.run, remarks, facts["result_remarks"]))
    body = (
        "set -euo pipefail\n"
        'HEAD_IP=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | sed -n 1p)\n'
        "export HEAD_IP\n"
        "# srun takes the CPUs of a task from here, not from the options above (its manual, since 22.05).\n"
        'export SRUN_CPUS_PER_TASK="${SLURM_CPUS_PER_TASK:-1}"\n'
        "# shellcheck disable=SC2016 # each task has its own number\n"
        "# Packages go to a disk of each node: nodes that install into one shared folder at a time break it.\n"
        "srun bash -c 'NODE_RANK=$SLURM_NODEID VENV=${TMPDIR:-/tmp}/venv-$SLURM_JOB_ID exec bash run.sh'\n"
    )
    return "\n".join(lines) + "\n" + text + body


def _slurm_host(given: Given) -> dict[str, int]:
    """Return the CPUs and the memory of a node: the cores of the machine of the plan, and all memory (0) of the node.

    Slurm's own defaults are one CPU and a few GB, in which a run ends when it loads its weights.
    """
    cores = [offer.cpu_cores for offer in offers_of(given.scenario, given.job) if offer.cpu_cores is not None]
    return {**({"cpus-per-task": max(1, math.floor(min(cores)))} if cores else {}), "mem": 0}


def hf_job(given: Given, tool: LaunchMap, trainer: FieldMap, facts: Facts) -> str:
    """Return the script that starts a job of Hugging Face on the flavor of the plan.

    `InputError` for several machines, which a job there does not have, and for a number of GPUs without a flavor.
    """
    del trainer
    job = given.job
    find_machines(given.scenario, job, tool)
    flavors = tool.machines.get(job.gpu, {})
    flavor = tool.machine(job.gpu, job.gpus_per_instance, job.instance, job.instances)
    if flavor is None:
        problem = f"{tool.label} has no job on {job.instances} x {job.gpus_per_instance} {job.gpu}"
        known = ", ".join(map(str, flavors))
        fewest = plan_with("limits.max_gpus", str(min(flavors, default=1)))
        fix = f"{fewest} (it has {known}), or export to another launcher"
        raise InputError([Fault("plan", 0, f"jobs.{job.name}", problem, fix)])
    options = [
        f"--name {task_name(job)} --flavor {flavor} --timeout {math.ceil(longest_hours(job))}h --secrets HF_TOKEN",
        '--env "UPLOAD_TO=${UPLOAD_TO:-}"',
        f'--volume ./:/job --volume "hf://buckets/${{BUCKET:?OWNER/NAME of a bucket}}:{CHECKPOINT_FOLDER}"',
        image_of(job.gpu).image,
        f"bash -c 'mkdir -p {RUN_FOLDER} && cp -r /job/. {RUN_FOLDER}/ && exec bash {RUN_FOLDER}/run.sh'",
    ]
    remarks = [
        environment_remark(job.gpu),
        "needs run.sh and what it starts in this folder, which --all writes",
        f"BUCKET=OWNER/NAME is mounted as {CHECKPOINT_FOLDER} and outlives the job (hf buckets create OWNER/NAME)",
    ]
    lines = ["set -euo pipefail", 'cd "$(dirname "$0")"', " \\\n  ".join(("hf jobs run", *options))]
    text = commented(header(given.plan, job, tool, tool.run, remarks, facts["result_remarks"]))
    return "#!/usr/bin/env bash\n" + text + "\n".join(lines) + "\n"


# A dstack task: the machines of a plan, spot and on demand, and the run with its checkpoints.


_RETRIED = ("no-capacity", "interruption")
_SHARED_GB_PER_GPU = 8
"""Shared memory of a container for each of its GPUs: the 64 MB of Docker are too few for NCCL and loaders of data."""
_MOST_SENT = "2 MB at most, where DSTACK_SERVER_CODE_UPLOAD_LIMIT of the server says no other"
_DSTACK_VARIABLES = {"NODE_RANK": '"$DSTACK_NODE_RANK"', "HEAD_IP": '"$DSTACK_MASTER_NODE_IP"'}
"""Shell variables of a launch command -> how dstack says them."""


def dstack_profile(job: Assignment, machines: Machines, nodes: int = 1) -> dict[str, Any]:
    """Return what to rent, where, on which market, at what highest price, and for how long."""
    on_spot = job.spot_share > 0
    profile: dict[str, Any] = {"backends": [machines.provider]}
    if all(machines.regions):
        profile["regions"] = list(machines.regions)
    profile["spot_policy"] = "auto" if on_spot else "on-demand"
    prices = [
        price for price in (machines.usd_per_hour, machines.spot_usd_per_hour if on_spot else None) if price is not None
    ]
    if prices:
        profile["max_price"] = round(PRICE_MARGIN * max(prices), 2)
    longest = math.ceil(longest_hours(job))
    profile["max_duration"] = f"{longest}h"
    if on_spot:
        # A fault of the run itself would come again; of several nodes, one that is taken ends the others by a fault.
        events = [*_RETRIED, *(["error"] if nodes > 1 else [])]
        profile["retry"] = {"on_events": events, "duration": f"{longest}h"}
    shared = f"{_SHARED_GB_PER_GPU * job.gpus_per_instance}GB"
    return profile | {"resources": {"gpu": f"{machines.gpu}:{job.gpus_per_instance}", "shm_size": shared}}


def dstack_task(given: Given, tool: LaunchMap, trainer: FieldMap, facts: Facts) -> str:
    """Return the text of the task.

    `auto` tries spot first and takes on demand where there is none; the run goes on after an interruption for as long
    as the deadline leaves it, in whole hours, because dstack reads one unit alone.
    """
    job = given.job
    machines = find_machines(given.scenario, job, tool, together=job.instances)
    task: dict[str, Any] = {"type": "task", "name": task_name(job), "nodes": job.instances}
    task |= dstack_profile(job, machines, job.instances)
    task["image"] = image_of(job.gpu).image
    task["files"] = [trainer.file, *trainer.files_of(facts), *local_data(facts)]
    if facts["needs_token"]:
        task["env"] = [TOKEN]  # of the environment in which it is applied
    if machines.keeps:
        task["volumes"] = [{"name": f"checkpoints-{task_name(job)}", "path": CHECKPOINT_FOLDER}]
    # One command: dstack joins several with &&, before which the shell lets a step fail.
    setup, launch = (
        setup_script(trainer, facts, job.gpu, task_name(job)),
        launch_script(trainer, facts, _DSTACK_VARIABLES),
    )
    task["commands"] = [setup + launch]
    remarks = [*task_remarks(machines, job, trainer, tool), environment_remark(job.gpu)]
    writers = "a machine" if job.instances == 1 else f"{job.instances} machines"
    remarks.append(
        f"make the volume checkpoints-{task_name(job)} first (dstack apply, type: volume)"
        if machines.keeps
        else f"{tool.label} has no network volume for {writers} here: save {CHECKPOINT_FOLDER} of "
        "the first before it goes"
    )
    remarks += [f"{path} is sent: {_MOST_SENT}" for path in local_data(facts)]
    remarks += _copied_by_hand(facts, local_model(facts), _MOST_SENT, "the volume" if machines.keeps else None)
    return commented(header(given.plan, job, tool, tool.run, remarks, facts["result_remarks"])) + yaml_text(task)


# A SkyPilot task: the machines of a plan, spot and on demand, and the run with its checkpoints.


IDLE_MINUTES = 10
"""Minutes without work after which machines are given back."""


def skypilot_task(given: Given, tool: LaunchMap, trainer: FieldMap, facts: Facts) -> str:
    """Return the text of the task.

    A synchronous run is on spot or on demand as a whole, so the spot share of a plan is one of time: spot first,
    and on demand where there is none.
    """
    job = given.job
    machines = find_machines(given.scenario, job, tool)
    bucket = {"name": bucket_name("checkpoints", job, facts["recipe"]), "mode": "MOUNT_CACHED"}
    image, image_remark = _skypilot_image(given, tool, machines, facts)
    task = {
        "name": task_name(job),
        "workdir": ".",
        "num_nodes": job.instances,
        "resources": skypilot_resources(given, machines) | image,
        "file_mounts": {CHECKPOINT_FOLDER: bucket},
        **({"secrets": {TOKEN: None}} if facts["needs_token"] else {}),
        "setup": setup_script(trainer, facts, job.gpu, task_name(job)),
        "run": in_environment(task_name(job), _alone(launch_script(trainer, facts, SKYPILOT_TASK_VARIABLES))),
    }
    remarks = task_remarks(machines, job, trainer, tool)
    remarks.append(image_remark)
    remarks += [text for _, text in skypilot_needs(job, facts)]
    command = tool.command(job) + (f" --secret {TOKEN}" if facts["needs_token"] else "")
    head = header(given.plan, job, tool, command, remarks, facts["result_remarks"])
    return commented(head) + yaml_text(task)


def _skypilot_image(given: Given, tool: LaunchMap, machines: Machines, facts: Facts) -> tuple[dict[str, str], str]:
    """Return the image that a task names, if any, and what its head says of it.

    `InputError` where a GPU needs the PyTorch of an image and the provider starts none.
    """
    job, said = given.job, environment_remark(given.job.gpu)
    needed = needs_image(facts, job.gpu)
    if machines.image == "always" or (needed and machines.image == "where needed"):
        return {"image_id": f"docker:{image_of(job.gpu).image}"}, said
    if not needed:
        why = f"{job.provider} starts none" if machines.image == "never" else "loading one takes minutes"
        return {}, f"no image is named ({why}, and the run needs none); packages like those of {said}"
    if not image_of(job.gpu).torch:
        problem = f"{tool.label} starts no image at {job.provider}, and {job.gpu} needs the PyTorch of one"
        raise InputError([Fault("plan", 0, f"jobs.{job.name}", problem, "export to another launcher")])
    needs = "; ".join(f"{compiled.what} needs {compiled.needs}" for compiled in compiled_by(facts))
    return {}, f"no image is named ({job.provider} starts none); packages like those of {said}; {needs}"


def bucket_name(contents: str, job: Assignment, recipe: str) -> str:
    """Return a name that no bucket of others is likely to have, as names are global: with a hash of the recipe."""
    return f"{contents}-{task_name(job)}-{hashlib.sha256(recipe.encode()).hexdigest()[:8]}"


def bucket_remark(name: str, keeps: str) -> str:
    """Return what a user must see to before a task makes its bucket."""
    return f"the bucket {name}, which keeps {keeps}, is made in a store that sky check lists: S3, GCS, R2, ..."


def skypilot_needs(job: Assignment, facts: Facts) -> list[tuple[str, str]]:
    """Return what a user must see to before a task starts, each with the word that it is about."""
    needs = []
    if facts["needs_token"]:
        needs.append((TOKEN, f"{token_remark(facts['model_id'])}; pass it with --secret {TOKEN}"))
    bucket = bucket_name("checkpoints", job, facts["recipe"])
    return [*needs, ("bucket", bucket_remark(bucket, "checkpoints and the result"))]


def _alone(script: str) -> str:
    """Return a script without its first line, which ends it at a fault, and without its last end of line."""
    return script.removeprefix("set -e\n").removesuffix("\n")


# sed reads all of its input: head ends at the first line, and pipefail takes the signal of the writer for a fault.
SKYPILOT_TASK_VARIABLES = {"NODE_RANK": '"$SKYPILOT_NODE_RANK"', "HEAD_IP": '$(echo "$SKYPILOT_NODE_IPS" | sed -n 1p)'}
"""Shell variables of a launch command -> how SkyPilot says them."""


def skypilot_resources(given: Given, machines: Machines) -> dict[str, Any]:
    """Return what to rent, where and on which market; `InputError` where the plan has no price."""
    job = given.job
    on_spot = job.spot_share > 0
    resources: dict[str, Any] = {"accelerators": f"{machines.gpu}:{job.gpus_per_instance}"}
    choices = _choices(machines, on_spot)
    if not choices:
        problem = f"the plan has no priced offer of {job.gpu} at {job.provider}"
        raise InputError([Fault("plan", 0, f"jobs.{job.name}", problem, "planner check lists edits; solve it again")])
    resources |= {"any_of": choices} if len(choices) > 1 else choices[0]
    if on_spot:
        resources["job_recovery"] = {"strategy": "EAGER_NEXT_REGION" if len(machines.regions) > 1 else "FAILOVER"}
    resources["autostop"] = {"idle_minutes": IDLE_MINUTES, "down": True}
    return resources


def _choices(machines: Machines, on_spot: bool) -> list[dict[str, Any]]:
    """Return the places and markets, spot before on demand."""
    places = [f"{machines.provider}/{region}" if region else machines.provider for region in machines.regions]
    markets = [(True, machines.spot_usd_per_hour)] if on_spot else []
    markets.append((False, machines.usd_per_hour))
    return [
        {"infra": place, "use_spot": spot, "max_hourly_cost": round(PRICE_MARGIN * price, 2)}
        for spot, price in markets
        for place in places
        if price is not None
    ]


VARIABLES = {
    "NODE_RANK": '"${NODE_RANK:?number of this machine, from 0}"',
    "HEAD_IP": '"${HEAD_IP:?address of machine 0}"',
}
"""Shell variables of a launch command, which the caller sets where there are several machines."""
UPLOAD = "UPLOAD_TO"
"""Environment variable with the repository that the result is uploaded to."""


def run_script(given: Given, trainer: FieldMap, facts: Facts) -> str:
    """Return the script that one machine runs; it goes on from the last checkpoint where there is one."""
    step = facts["result"]
    result = '"$OUT"' if step is None or step.trouble or step.offer else f'"$OUT"/{step.folder}'
    own = (trainer.checkpoints.name, "planned.txt", "finished.txt")
    left_out = " ".join(f"--exclude {shell_word(name)}" for name in own)
    lines = [
        "set -euo pipefail",
        'cd "$(dirname "$0")"',
        *environment_lines(task_name(given.job)),
        "pip install -r requirements.txt",
        *(f"pip install {package}" for package in split_packages(trainer, facts)[1]),
        *trying_lines(facts),
        *_downloads(facts, trainer.download),
        launch_script(trainer, facts, VARIABLES).removeprefix("set -e\n").rstrip(),
        f'if [ -n "${{{UPLOAD}:-}}" ] && [ "${{NODE_RANK:-0}}" = 0 ]; then',
        f'  hf upload "${UPLOAD}" {result} {left_out}',
        "fi",
    ]
    remarks = [
        environment_remark(given.job.gpu),
        f"{UPLOAD}=OWNER/NAME uploads the result to the Hub when the run has ended",
    ]
    copied = "must be on each machine, next to this file; nothing copies it there"
    remarks += [f"{path} {copied}" for path in local_paths(facts)]
    if facts["needs_token"]:
        remarks.append(token_remark(facts["model_id"]))
    if given.job.instances > 1:
        remarks.append("every machine runs it, with NODE_RANK and HEAD_IP set")
    text = commented(header(given.plan, given.job, trainer, "bash run.sh", remarks, facts["result_remarks"]))
    return "#!/usr/bin/env bash\n" + text + "\n".join(lines) + "\n"


def result_script(given: Given, facts: Facts) -> str | None:
    """Return the script of the machine that the plan rents to make the result alone; None where it rents none."""
    step, job = facts["result"], given.job
    if step is None or step.trouble or step.offer is None:
        return None
    lines = [
        f"Result of job {job.name} of plan {given.plan.scenario}: {step.form}, {step.bits} bits, after the run.",
        written_by(given.plan),
        _machine_of_result(given, step.offer),
        f"Run: bash {SCRIPT} FOLDER, the folder of the run; or OWNER/NAME of the Hub, where {UPLOAD} sent its result",
        f"Note: {UPLOAD}=OWNER/NAME uploads what is made",
    ]
    if job.export is not None and step.merges:
        lines.append(f"Note: merging takes {job.export.ram_gb:.0f} GB of host memory")
    lines += [f"Note: {remark}" for remark in _asked_of_all(facts)]
    body = result_body(step, facts, task_name(job), UPLOAD)
    return "#!/usr/bin/env bash\n" + commented(wrapped(lines)) + "\n".join(body) + "\n"


def _machine_of_result(given: Given, offer: str) -> str:
    """Return the machine that makes the result, with its hours and dollars."""
    export_machine = next((machine for machine in given.job.separate_machines if machine.stage == "export"), None)
    return f"Machine: {offer}" + (
        f", likely {export_machine.hours:.1f} h, ${export_machine.usd:,.2f}" if export_machine is not None else ""
    )


def _downloads(facts: Facts, of_weights: str) -> list[str]:
    """Return the commands that fetch weights and data of the Hub; folders and files are there already.

    `of_weights`: the command of the tool for weights, with `$model_id`; empty for that of the Hub.
    """
    commands = []
    for command, name in (
        (
            of_weights or "hf download $model_id --exclude 'original/*' --exclude 'consolidated*' --exclude '*.gguf'",
            facts["model_id"],
        ),
        ("hf download --repo-type dataset $model_id", facts["dataset_name"]),
    ):
        if name and str(name).count("/") == 1 and not str(name).startswith((".", "/", "-")):
            commands.append(Template(command).substitute(model_id=shell_word(name)))
    return commands


def readme(given: Given, files: Sequence[str], launchers: Mapping[str, LaunchMap], facts: Facts) -> str:
    """Return what it is, what must be there first, how to launch, follow and stop it, and what an hour costs."""
    job, name = given.job, task_name(given.job)
    tools = launchers.values()
    starts = ", or ".join(f"`{tool.command(job)}`" for tool in tools)
    stops = "".join(f"`{stop}`, or " for tool, stop in stop_commands(given).items() if tool in launchers)
    needs = [(tool.command(job), tool.first_needs(name, facts["needs_token"])) for tool in tools]
    first = [f"`{command}` needs {need}" for command, need in needs if need]
    usd = usd_per_hour(given)
    most = "at most " if job.spot_share > 0 else ""
    by_hand = "`bash run.sh` on the machine itself"
    if job.instances > 1:
        by_hand = (
            f"`NODE_RANK=NUMBER HEAD_IP=ADDRESS bash run.sh` on each of the {job.instances} machines, from number 0"
        )
    lines = [
        f"Files of job {job.name} ({job.gpus} x {job.gpu} at {job.provider}): {', '.join(files)}.",
        "First: " + "; ".join([*_asked_of_all(facts), *first]) + ".",
        f"Launch: {starts + ', or ' if starts else ''}{by_hand}.",
        f"Follow: `planner track plan.json LOG`, with {job.steps:,} steps of {job.step_seconds:.3g} s planned.",
        *(f"Result: {remark}." for remark in facts["result_remarks"]),
        f"Stop: {stops}{GIVE_BACK}." + (f" Until then {most}${usd:,.2f} per hour." if usd is not None else ""),
    ]
    return document("\n".join(lines) + "\n")


@dataclass(frozen=True)
class Checklist:
    """What exported files leave: files that they start or read, what a person must do, and what an hour costs."""

    needs: tuple[str, ...]
    see_to: tuple[str, ...]
    hourly: tuple[str, ...]
    """A line of each job or service: dollars from the first minute on, and the commands that stop them."""

    def inside(self, folder: str, files: Collection[str]) -> Checklist:
        """Return the same of files that lie in a folder; empty: in none."""
        if not folder:
            return self
        see_to = (f"{folder}{'/' if line.partition(': ')[0] in files else ': '}{line}" for line in self.see_to)
        needs = (str(Path(folder) / path) for path in self.needs)
        return Checklist(tuple(needs), tuple(see_to), tuple(f"{folder}: {line}" for line in self.hourly))


def hourly_text(usd: str | None, stops: Sequence[str]) -> str:
    """Return what machines cost from their first minute on, and what stops that."""
    cost = f"{usd} per hour from the first minute on" if usd is not None else "the plan has no price of an hour"
    return f"{cost}; stop: {', or '.join((*stops, GIVE_BACK))}"


def job_hourly(given: Given, stops: Sequence[str]) -> str:
    """Return what the machines of a job cost, and the commands that stop them."""
    usd = usd_per_hour(given)
    most = "at most " if given.job.spot_share > 0 else ""
    return hourly_text(None if usd is None else f"{most}${usd:,.2f}", stops)


GIVE_BACK = "give the machine back"
"""What stops the bill of a machine that no launcher rented."""


def stop_commands(given: Given) -> dict[str, str]:
    """Return the command that stops a job and its bill, by launcher."""
    name = {"name": task_name(given.job)}
    return {target: filled(tool.stop_command(given.job), name) for target, tool in launch_maps().items()}


def _asked_of_all(facts: Facts) -> list[str]:
    """Return what every way to launch needs of the user: results of jobs before, a token, and data that lie here."""
    remarks = [*facts["start_remarks"], *([token_remark(facts["model_id"])] if facts["needs_token"] else [])]
    return [*remarks, *(f"{path} next to these files on each machine" for path in local_paths(facts))]


def usd_per_hour(given: Given) -> float | None:
    """Return the dollars of an hour of all machines, from their first minute on; on demand where they are sold so."""
    offers = offers_of(given.scenario, given.job)
    there = [offer for offer in offers if offer.region == given.job.region] or offers
    prices = [price for offer in there if (price := offer.usd_per_hour or offer.spot_usd_per_hour) is not None]
    return max(prices) * given.job.instances if prices else None
