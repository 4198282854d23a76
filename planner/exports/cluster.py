"""Jobs of machines that stand ready: a Kubernetes Job, a Slurm batch script, and a job of Hugging Face."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from planner.documents.yaml_text import yaml_text
from planner.errors import Fault, InputError
from planner.exports.environment import environment_remark, image_of
from planner.exports.facts import CHECKPOINT_FOLDER
from planner.exports.header import commented, header
from planner.exports.machine_names import find_machines, task_name

if TYPE_CHECKING:
    from planner.exports.facts import Given
    from planner.exports.field_map import Facts, FieldMap, LaunchMap
    from planner.results.plan import Assignment

RUN_FOLDER = "/workspace"
"""Folder of a pod that the scripts write in: files of a ConfigMap are read-only."""
RETRIES = 20
"""Times that a lost machine is replaced: a spot run may lose many."""


def longest_hours(job: Assignment) -> float:
    """Return the hours after which a run is stopped: its deadline, else twice what it should take."""
    return job.deadline_hours if job.deadline_hours is not None else 2 * job.hours.at_confidence


def kubernetes_job(given: Given, tool: LaunchMap, trainer: FieldMap, facts: Facts) -> str:
    """Return an indexed Job, one pod per machine, and the headless service by which its pods find each other."""
    del facts
    job, name = given.job, task_name(given.job)
    image = image_of(job.gpu)
    several = job.instances > 1
    environment: list[dict[str, Any]] = []
    if several:
        index = {"fieldRef": {"fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}}
        environment = [{"name": "NODE_RANK", "valueFrom": index}, {"name": "HEAD_IP", "value": f"{name}-0.{name}"}]
    container: dict[str, Any] = {
        "name": "train",
        "image": image.image,
        "command": ["bash", "-c", f"cp /job/* {RUN_FOLDER}/ && bash {RUN_FOLDER}/run.sh"],
        **({"env": environment} if environment else {}),
        "resources": {"limits": {f"{image.vendor.lower()}.com/gpu": str(job.gpus_per_instance)}},
        "volumeMounts": [
            {"name": "files", "mountPath": "/job"},
            {"name": "run", "mountPath": RUN_FOLDER},
            {"name": "memory", "mountPath": "/dev/shm"},
            {"name": "checkpoints", "mountPath": CHECKPOINT_FOLDER},
        ],
    }
    pod: dict[str, Any] = {
        "restartPolicy": "Never",
        **({"subdomain": name} if several else {}),
        "containers": [container],
        "volumes": [
            {"name": "files", "configMap": {"name": name}},
            {"name": "run", "emptyDir": {}},
            {"name": "memory", "emptyDir": {"medium": "Memory"}},
            {"name": "checkpoints", "persistentVolumeClaim": {"claimName": f"checkpoints-{name}"}},
        ],
    }
    spec = {
        "completions": job.instances,
        "parallelism": job.instances,
        "completionMode": "Indexed",
        "backoffLimit": RETRIES,
        "activeDeadlineSeconds": math.ceil(3600 * longest_hours(job)),
        "template": {"metadata": {"labels": {"job": name}}, "spec": pod},
    }
    remarks = [
        environment_remark(job.gpu),
        f"first: kubectl create configmap {name} --from-file=run.sh --from-file=requirements.txt "
        f"--from-file={trainer.file}",
        f"first: a PersistentVolumeClaim checkpoints-{name}, which outlives the pods",
        f"a pod may get any GPU: add a nodeSelector of your cluster for {job.gpu}",
    ]
    documents = [{"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}]
    if several:
        service = {"clusterIP": "None", "selector": {"job": name}, "ports": [{"port": 29500}]}
        documents.append({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": service})
    return commented(header(given.plan, job, tool, tool.run, remarks)) + "---\n".join(map(yaml_text, documents))


def slurm_script(given: Given, tool: LaunchMap, trainer: FieldMap, facts: Facts) -> str:
    """Return the batch script: one task per machine, requeued where its machines are taken."""
    del trainer, facts
    job, name = given.job, task_name(given.job)
    minutes = math.ceil(60 * longest_hours(job))
    days, rest = divmod(minutes, 24 * 60)
    options = {
        "job-name": name,
        "nodes": job.instances,
        "ntasks-per-node": 1,
        "gpus-per-node": job.gpus_per_instance,
        "time": f"{days}-{rest // 60:02}:{rest % 60:02}:00",
        "output": f"{name}-%j.log",
        "open-mode": "append",
    }
    lines = ["#!/usr/bin/env bash", *(f"#SBATCH --{key}={value}" for key, value in options.items())]
    lines += ["#SBATCH --requeue"]
    remarks = [
        f"--gpus-per-node takes any GPU: your cluster may call {job.gpu} in --constraint or --gres",
        f"{CHECKPOINT_FOLDER} must be a shared folder that outlives the job",
        environment_remark(job.gpu),
    ]
    text = commented(header(given.plan, job, tool, tool.run, remarks))
    body = (
        "set -euo pipefail\n"
        'HEAD_IP=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)\n'
        "export HEAD_IP\n"
        "# shellcheck disable=SC2016 # each task has its own number\n"
        "srun bash -c 'NODE_RANK=$SLURM_NODEID bash run.sh'\n"
    )
    return "\n".join(lines) + "\n" + text + body


def hf_job(given: Given, tool: LaunchMap, trainer: FieldMap, facts: Facts) -> str:
    """Return the script that starts a job of Hugging Face on the flavor of the plan.

    `InputError` for several machines, which a job there does not have, and for a number of GPUs without a flavor.
    """
    del trainer, facts
    job = given.job
    find_machines(given.scenario, job, tool)
    flavors = tool.machines.get(job.gpu, {})
    flavor = job.instance if job.instance in flavors.values() else flavors.get(job.gpus_per_instance)
    if flavor is None or job.instances > 1:
        what = f"{tool.label} has no job on {job.instances} x {job.gpus_per_instance} {job.gpu}"
        fix = f"plan with limits.max_gpus of {', '.join(map(str, flavors))}, or export to another launcher"
        raise InputError([Fault("plan", 0, f"jobs.{job.name}", what, fix)])
    options = [
        f"--name {task_name(job)} --flavor {flavor} --timeout {math.ceil(longest_hours(job))}h --secrets HF_TOKEN",
        '--env "UPLOAD_TO=${UPLOAD_TO:-}"',
        f'--volume ./:/job --volume "hf://buckets/${{BUCKET:?OWNER/NAME of a bucket}}:{CHECKPOINT_FOLDER}"',
        image_of(job.gpu).image,
        f"bash -c 'mkdir -p {RUN_FOLDER} && cp /job/* {RUN_FOLDER}/ && bash {RUN_FOLDER}/run.sh'",
    ]
    remarks = [
        environment_remark(job.gpu),
        "needs run.sh and what it starts in this folder, which --all writes",
        f"BUCKET=OWNER/NAME is mounted as {CHECKPOINT_FOLDER} and outlives the job (hf buckets create OWNER/NAME)",
    ]
    lines = ["set -euo pipefail", 'cd "$(dirname "$0")"', " \\\n  ".join(("hf jobs run", *options))]
    text = commented(header(given.plan, job, tool, tool.run, remarks))
    return "#!/usr/bin/env bash\n" + text + "\n".join(lines) + "\n"
