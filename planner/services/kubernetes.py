"""The files of a service: Kubernetes objects for each kind and hour, and how they go together with others."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from planner.documents.files import yaml_text
from planner.errors import Fault, InputError, collect_faults, raise_faults
from planner.exports.facts import Wishes
from planner.exports.field_map import LaunchMap, field_maps, launch_maps
from planner.exports.launchers import Checklist, hourly_text
from planner.exports.script_parts import commented, document, wrapped, written_by
from planner.library.names import is_gated
from planner.library.reading import read_library
from planner.services.served_kinds import PORT, GivenService, ServedKind, cron_changes, served_kinds
from planner.services.service_script import (
    CRON_FILE,
    DELAY_FACTOR,
    command_script,
    hours_table,
    server_body,
    service_header,
    skypilot_services,
    start_command,
    weight,
)
from planner.units import HOUR, MONTH_HOURS

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence


TIME_ZONE = "Etc/UTC"
KUBECTL_IMAGE = "registry.k8s.io/kubectl:v1.34.2"
BALANCER_IMAGE = "haproxy:3.2"
BALANCERS = 2
PROBE_SECONDS = 10
LATE_SECONDS = 1800
"""After which a missed change of an hour is not made up for."""
SCALER = "kubernetes-hours.yaml"
BALANCER = "kubernetes-balancer.yaml"


def kubernetes_services(given: GivenService, kinds: list[ServedKind], tool: LaunchMap) -> dict[str, str]:
    """Return the objects of each kind; with changing hours who may change them, with several kinds a balancer.

    A pod is one replica. Its hours are carried out by CronJobs that scale the Deployment.
    """
    found = {f"kubernetes-{kind.file}.yaml": _kind(given, kind, len(kinds), tool) for kind in kinds}
    name = kinds[0].service
    about = [f"Of service {given.service.name}, plan {given.plan.scenario}.", written_by(given.plan)]
    if any(cron_changes(kind.made.by_hour, kind.made.start_hours) for kind in kinds):
        text = "What the CronJobs of the other files need to scale Deployments."
        found[SCALER] = _joined([text, *about], _scaler(name))
    if len(kinds) > 1:
        text = (
            "Divides the requests among the kinds: each pod gets requests in flight in proportion to what it can have "
            "at its capacity. Without it a Service would give each pod the same."
        )
        found[BALANCER] = _joined([text, *about], _balancer(given, kinds))
    return found


def _kind(given: GivenService, kind: ServedKind, kinds: int, tool: LaunchMap) -> str:
    """Return the Deployment, the Service and the CronJobs of one kind."""
    pods = [count * kind.made.replicas for count in kind.made.by_hour]
    objects = [_deployment(kind, max(pods)), _service(kind, headless=kinds > 1)]
    if kinds == 1:
        objects[1]["metadata"]["name"] = kind.service
    jobs = _cron_jobs(kind)
    remarks = [
        f"a pod is one replica ({kind.made.gpus_per_replica} x {kind.gpu}), {kind.made.replicas} to a machine of the "
        f"plan; it may get any GPU: add a nodeSelector of your cluster for {kind.gpu}",
        "weights that need a login: kubectl create secret generic hf-token --from-literal=token=...",
        f"starts with the pods of the busiest hour; {len(jobs)} CronJobs scale it, each with the start of a pod before "
        f"the hour, in the time zone {TIME_ZONE} (change timeZone to that of your load); apply {SCALER} too"
        if jobs
        else "the plan has as many in every hour",
    ]
    if kind.made.market == "spot":
        remarks.append("machines on spot: add the toleration and the nodeSelector of such nodes in your cluster")
    if kind.settings["adapters_served"]:
        remarks.append("first: a PersistentVolumeClaim adapters with a folder for each adapter")
    run = f"kubectl apply -f kubernetes-{kind.file}.yaml"
    return _joined(service_header(given, kind, kinds, tool, run, remarks), [*objects, *jobs])


def _joined(lines: list[str], objects: list[dict[str, Any]]) -> str:
    return commented(wrapped(lines)) + "---\n".join(map(yaml_text, objects))


def _labels(kind: ServedKind) -> dict[str, str]:
    return {"app": kind.service, "kind": str(kind.number)}


def _deployment(kind: ServedKind, pods: int) -> dict[str, Any]:
    made, served = kind.made, bool(kind.settings["adapters_served"])
    vendor = read_library([]).gpu(made.gpu).vendor.lower()
    token = {"name": "hf-token", "key": "token", "optional": True}
    environment: list[dict[str, Any]] = [{"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": token}}]
    environment.append({"name": "MODEL", "value": kind.model or ""})
    mounts = [{"name": "memory", "mountPath": "/dev/shm"}]
    volumes: list[dict[str, Any]] = [{"name": "memory", "emptyDir": {"medium": "Memory"}}]
    if served:
        environment.append({"name": "ADAPTERS", "value": "/adapters"})
        mounts.append({"name": "adapters", "mountPath": "/adapters"})
        volumes.append({"name": "adapters", "persistentVolumeClaim": {"claimName": "adapters", "readOnly": True}})
    tries = math.ceil(DELAY_FACTOR * HOUR * made.start_hours / PROBE_SECONDS)
    container = {
        "name": "server",
        "image": kind.engine.image,
        "command": ["bash", "-c", server_body(kind, together=False)],
        "env": environment,
        "ports": [{"containerPort": PORT}],
        "resources": {"limits": {f"{vendor}.com/gpu": str(made.gpus_per_replica)}},
        "startupProbe": {**_probe(), "failureThreshold": tries},
        "readinessProbe": _probe(),
        "volumeMounts": mounts,
    }
    template = {"metadata": {"labels": _labels(kind)}, "spec": {"containers": [container], "volumes": volumes}}
    spec = {"replicas": pods, "selector": {"matchLabels": _labels(kind)}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": _named(kind.name, kind), "spec": spec}


def _probe() -> dict[str, Any]:
    return {"httpGet": {"path": "/health", "port": PORT}, "periodSeconds": PROBE_SECONDS}


def _named(name: str, kind: ServedKind) -> dict[str, Any]:
    return {"name": name, "labels": _labels(kind)}


def _service(kind: ServedKind, headless: bool) -> dict[str, Any]:
    """Return the Service; headless, its name has the address of each pod, which the balancer reads."""
    spec: dict[str, Any] = {"clusterIP": "None"} if headless else {}
    spec |= {"selector": _labels(kind), "ports": [{"port": PORT, "targetPort": PORT}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": _named(kind.name, kind), "spec": spec}


def _cron_jobs(kind: ServedKind) -> list[dict[str, Any]]:
    """Return a CronJob for all changes to one number at the same minutes."""
    found = []
    for number, cron_change in enumerate(cron_changes(kind.made.by_hour, kind.made.start_hours), 1):
        command = [
            "kubectl",
            "scale",
            f"deployment/{kind.name}",
            f"--replicas={cron_change.machines * kind.made.replicas}",
        ]
        pod = {
            "serviceAccountName": f"{kind.service}-hours",
            "restartPolicy": "OnFailure",
            "containers": [{"name": "kubectl", "image": KUBECTL_IMAGE, "command": command}],
        }
        spec = {
            "schedule": cron_change.cron,
            "timeZone": TIME_ZONE,
            "startingDeadlineSeconds": LATE_SECONDS,
            "concurrencyPolicy": "Forbid",
            "jobTemplate": {"spec": {"backoffLimit": 3, "template": {"spec": pod}}},
        }
        name = f"{kind.name}-h{number}"
        found.append({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": _named(name, kind), "spec": spec})
    return found


def _scaler(service: str) -> list[dict[str, Any]]:
    """Return an account that may scale Deployments and nothing else."""
    name, rights = f"{service}-hours", "rbac.authorization.k8s.io"
    rules = [
        {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get"]},
        {"apiGroups": ["apps"], "resources": ["deployments/scale"], "verbs": ["get", "patch", "update"]},
    ]
    named = {"metadata": {"name": name}}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", **named},
        {"apiVersion": f"{rights}/v1", "kind": "Role", **named, "rules": rules},
        {
            "apiVersion": f"{rights}/v1",
            "kind": "RoleBinding",
            **named,
            "subjects": [{"kind": "ServiceAccount", "name": name}],
            "roleRef": {"apiGroup": rights, "kind": "Role", "name": name},
        },
    ]


def balancer_config(given: GivenService, kinds: list[ServedKind]) -> str:
    """Return the configuration of HAProxy: least connections, weighted by what a pod can have in flight."""
    servers = "".join(
        f'  server-template kind{kind.number}- {max(kind.made.by_hour) * kind.made.replicas} '
        f'"{kind.name}.${{NAMESPACE}}.svc.cluster.local:{PORT}" check weight {weight(given, kind)} resolvers cluster '
        "init-addr none\n"
        for kind in kinds
    )  # fmt: skip
    return (
        "defaults\n  mode http\n  timeout connect 5s\n  timeout client 10m\n  timeout server 10m\n"
        "resolvers cluster\n  parse-resolv-conf\n  accepted_payload_size 8192\n  hold valid 10s\n"
        f"frontend requests\n  bind :{PORT}\n  default_backend fleet\n"
        f"backend fleet\n  balance leastconn\n  option httpchk GET /health\n{servers}"
    )


def _balancer(given: GivenService, kinds: list[ServedKind]) -> list[dict[str, Any]]:
    """Return the configuration, the pods and the Service that requests are sent to."""
    service = kinds[0].service
    name = f"{service}-balancer"

    def labels() -> dict[str, str]:  # a mapping that stands in several places would be written as an alias
        return {"app": name}

    field = {"fieldRef": {"fieldPath": "metadata.namespace"}}
    container = {
        "name": "haproxy",
        "image": BALANCER_IMAGE,
        "env": [{"name": "NAMESPACE", "valueFrom": field}],
        "ports": [{"containerPort": PORT}],
        "volumeMounts": [{"name": "config", "mountPath": "/usr/local/etc/haproxy"}],
    }
    pod = {"containers": [container], "volumes": [{"name": "config", "configMap": {"name": name}}]}
    template = {"metadata": {"labels": labels()}, "spec": pod}
    spec = {"replicas": BALANCERS, "selector": {"matchLabels": labels()}, "template": template}
    front = {"selector": labels(), "ports": [{"port": PORT, "targetPort": PORT}]}
    data = {"haproxy.cfg": balancer_config(given, kinds)}
    return [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data},
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "labels": labels()}, "spec": spec},
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": service}, "spec": front},
    ]


# The files of a service: commands, SkyPilot services, Kubernetes objects, and how they go together.


_TARGETS = {"skypilot": skypilot_services, "kubernetes": kubernetes_services}


def export_service(given: GivenService, targets: Sequence[str], wishes: Wishes, file: str) -> dict[str, str]:
    """Return the files of each target by their names; without a target the command of each kind.

    `InputError` for a target that serves nothing, and with everything that an engine or a launcher cannot do.
    """
    kinds, maps = served_kinds(given, wishes, file), launch_maps()
    faults: list[Fault] = []
    found = {} if targets else {f"serve-{kind.file}.sh": command_script(given, kind, len(kinds)) for kind in kinds}
    for name in targets:
        if name not in _TARGETS:
            label = (maps | field_maps())[name].label
            what = f"{label} trains, and this is a service" if name in field_maps() else f"no service for {label}"
            fix = f"--to {' or --to '.join(_TARGETS)}, or --all"
            faults.append(Fault(file, 0, f"jobs.{given.service.name}", what, fix))
            continue
        with collect_faults(faults):
            found |= _TARGETS[name](given, kinds, maps[name])
    raise_faults(faults)
    return found


def export_all_services(given: GivenService, wishes: Wishes, file: str) -> tuple[dict[str, str], list[str]]:
    """Return every file that the plan can have, by name, and which launchers are left out and why."""
    found, left_out = export_service(given, [], wishes, file), []
    for name in _TARGETS:
        try:
            found |= export_service(given, [name], wishes, file)
        except InputError as error:
            left_out.append(f"the files of {launch_maps()[name].label} are left out: {error.faults[0].what}")
    kinds = served_kinds(given, wishes, file)
    found["README.md"] = _readme(given, kinds, sorted(found))
    return found, left_out


def _readme(given: GivenService, kinds: list[ServedKind], files: Sequence[str]) -> str:
    """Return what the files are, how to start the service, and the machines of each hour."""
    service, fleet, count = given.service, given.fleet, f"{len(kinds)} kind{'s' * (len(kinds) > 1)} of machines"
    least, most = min(fleet.replicas_by_hour), max(fleet.replicas_by_hour)
    replicas = f"{least} to {most} replicas" if least < most else f"{most} replica{'s' * (most > 1)}"
    parts = [
        f"Service {service.name}: {replicas} of {service.architecture}, {count}, "
        f"${fleet.usd_per_month:,.2f} a month planned.\n\n"
        f"Files: {', '.join(files)}.\n\n",
        *(f"First: {line}.\n\n" for line in _asked_first(kinds)),
    ]
    if any(file.startswith("skypilot") for file in files):
        starts = "".join(f"    {start_command(kind)}\n" for kind in kinds)
        hours = f"{CRON_FILE} changes the machines by the hour.\n\n" if CRON_FILE in files else ""
        parts.append(f"SkyPilot:\n\n{starts}\n{hours}")
    if any(file.startswith("kubernetes") for file in files):
        providers = sorted({kind.provider for kind in kinds})
        several = (
            f"The kinds are at {', '.join(providers)}: one cluster needs nodes of all of them, or each provider has a "
            "cluster of its own, with a balancer before them.\n\n"
        )
        parts.append(
            "Kubernetes:\n\n    for one in kubernetes-*.yaml; do kubectl apply -f $one; done\n\n"
            f"Requests go to http://{kinds[0].service}:8000/v1"
            + (f", which {BALANCER} divides among the kinds.\n\n" if len(kinds) > 1 else ".\n\n")
            + (several if len(providers) > 1 else "")
        )
    scripts = (f"    {'' if kind.model else 'MODEL=OWNER/NAME '}bash serve-{kind.file}.sh\n" for kind in kinds)
    parts += ["On one machine:\n\n", *scripts, "\n", _stop(given, kinds, files)]
    return document("".join((*parts, hours_table(kinds))))


def service_checklist(given: GivenService, wishes: Wishes, file: str, files: Collection[str]) -> Checklist:
    """Return what the files of a service leave to a person, and what its machines cost by the hour of the plan."""
    kinds = served_kinds(given, wishes, file)
    see_to = _asked_first(kinds)
    if any(kind.settings["adapters_served"] for kind in kinds):
        see_to.append("ADAPTERS: a folder with a folder for each adapter, or the claim adapters of Kubernetes")
    if CRON_FILE in files:
        see_to.append(f"{CRON_FILE}: the names at its top; crontab {CRON_FILE} then changes the machines by the hour")
    by_hour = [
        math.fsum(count * kind.made.usd_per_hour for kind, count in zip(kinds, counts, strict=True))
        for counts in zip(*(kind.made.by_hour for kind in kinds), strict=True)
    ]
    least, most = f"${min(by_hour):,.2f}", f"{max(by_hour):,.2f}"
    usd = least if least == f"${most}" else f"{least} to {most}"
    return Checklist((), tuple(see_to), (hourly_text(usd, _stop_commands(kinds, files)),))


def _stop_commands(kinds: list[ServedKind], files: Collection[str]) -> list[str]:
    """Return the commands that end a service on the launchers whose files there are."""
    found = []
    if any(file.startswith("skypilot") for file in files):
        found.append(f"sky serve down -y {' '.join(kind.name for kind in kinds)}")
    if any(file.startswith("kubernetes") for file in files):
        found.append("for one in kubernetes-*.yaml; do kubectl delete -f $one; done")
    return found


def _asked_first(kinds: list[ServedKind]) -> list[str]:
    """Return what must be there before a start: weights that the files do not name, and the token of gated ones."""
    unnamed = list(dict.fromkeys(kind.made.weight_format for kind in kinds if kind.model is None))
    found = [f"MODEL=OWNER/NAME: a repository with the weights in {', '.join(unnamed)}"] if unnamed else []
    gated = dict.fromkeys(kind.model for kind in kinds if is_gated(kind.model))
    return found + [
        f"{model} is gated: accept its terms on the Hub, and give a token that may read it (SkyPilot: --secret "
        "HF_TOKEN after sky serve up; Kubernetes: kubectl create secret generic hf-token --from-literal=token=...; "
        "on one machine: HF_TOKEN)"
        for model in gated
    ]


def _stop(given: GivenService, kinds: list[ServedKind], files: Sequence[str]) -> str:
    """Return the commands that end the service and its bill, and the dollars of an hour until then."""
    lines = [f"    {command}\n" for command in _stop_commands(kinds, files)]
    last = "give the machines back that no launcher rented"
    last = f"Take the lines of {CRON_FILE} out of your crontab, and {last}" if CRON_FILE in files else last.capitalize()
    usd = given.fleet.usd_per_month / MONTH_HOURS
    return f"Stop:\n\n{''.join(lines)}\n{last}. Until then ${usd:,.2f} per hour on average.\n\n"
