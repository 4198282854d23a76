"""Scripts of clusters, whose machines are there already: a Kubernetes Job and a Slurm batch script."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from planner.documents.yaml_text import yaml_text
from planner.exports.facts import CHECKPOINT_FOLDER
from planner.exports.header import commented, header
from planner.exports.machines import task_name

if TYPE_CHECKING:
    from planner.exports.facts import Given
    from planner.exports.field_map import Facts, FieldMap, LaunchMap
    from planner.results.plan import Assignment

IMAGE = "pytorch/pytorch:2.8.0-cuda12.8-cudnn9-devel"
"""An image with a compiler, which flash attention needs; CUDA 12.8 knows every GPU up to Blackwell."""
RETRIES = 20
"""Times that a lost machine is replaced: a spot run may lose many."""


def longest_hours(job: Assignment) -> float:
    """Return the hours after which a run is stopped: its deadline, else twice what it should take."""
    return job.deadline_hours if job.deadline_hours is not None else 2 * job.hours.at_confidence


def kubernetes_job(given: Given, tool: LaunchMap, trainer: FieldMap, facts: Facts) -> str:
    """Return an indexed Job, one pod per machine, and the headless service by which its pods find each other."""
    del facts
    job, name = given.job, task_name(given.job)
    several = job.instances > 1
    environment: list[dict[str, Any]] = []
    if several:
        index = {"fieldRef": {"fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}}
        environment = [{"name": "NODE_RANK", "valueFrom": index}, {"name": "HEAD_IP", "value": f"{name}-0.{name}"}]
    container: dict[str, Any] = {
        "name": "train",
        "image": IMAGE,
        "command": ["bash", "-c", "cp /job/* /work/ && bash /work/run.sh"],
        **({"env": environment} if environment else {}),
        "resources": {"limits": {"nvidia.com/gpu": str(job.gpus_per_instance)}},
        "volumeMounts": [
            {"name": "files", "mountPath": "/job"},
            {"name": "work", "mountPath": "/work"},
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
            {"name": "work", "emptyDir": {}},
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
