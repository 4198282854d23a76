"""The files of a service: the script that starts one server, and what runs it by the hour on Kubernetes or SkyPilot."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from planner.documents.files import yaml_text
from planner.errors import Fault, InputError, collect_faults, plan_with, raise_faults
from planner.exports.facts import Wishes
from planner.exports.field_map import LaunchMap, Tool, field_maps, launch_maps
from planner.exports.launchers import Checklist, hourly_text
from planner.exports.machine_names import PRICE_MARGIN, Machines, find_machines
from planner.exports.script_parts import (
    commented,
    document,
    environment_lines,
    in_environment,
    shell_inside,
    shell_word,
    wrapped,
    written_by,
)
from planner.library.names import is_gated
from planner.library.reading import read_library
from planner.results.service_results import seconds_text
from planner.scenario.inference_job import DAY
from planner.services.served_kinds import (
    PORT,
    GivenService,
    ServedKind,
    autoscaled,
    cron_changes,
    lead_minutes,
    served_kinds,
)
from planner.units import HOUR, MONTH_HOURS, figure_text

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

# The shell script that starts one server of a kind, and what its reader must know.


_ADAPTERS = (
    "MODULES=()\n"
    'for one in "${ADAPTERS:?folder with a folder for each adapter}"/*/; do\n'
    '  MODULES+=("$(basename "$one")=${one%/}")\n'
    "done\n"
)
_NO_CODE_BELOW = 7.5
"""Compute capability that the images of engines may have no code for (CUDA 13 compiles nothing older)."""


def server_body(kind: ServedKind, together: bool = True, install: Sequence[str] = ()) -> str:
    """Return the commands of the shell that start a server.

    `together`: one of a whole machine; else of one replica. `install`: lines before the server.
    """
    model = shell_inside(kind.model or _unnamed(kind))
    named = f'MODEL="${{MODEL:-{model}}}"\n' if kind.model else f': "${{MODEL:?{model}}}"\n'
    words = [_quoted(word) for word in kind.words(together)]
    adapters = bool(kind.settings["adapters_served"])
    if adapters:
        words[-1] += ' "${MODULES[@]}"'
    first = next(at for at, word in enumerate(words) if word.startswith("--"))  # the program with what it runs
    command = " \\\n  ".join((" ".join(words[:first]), *words[first:]))
    installs = "".join(f"{line}\n" for line in install)
    return f"set -euo pipefail\n{named}{_ADAPTERS if adapters else ''}{installs}exec {command}\n"


def _quoted(word: str) -> str:
    """Return a word for the shell; model and port are variables there."""
    if "{model}" in word:
        return word.replace("{model}", '"$MODEL"')
    return word.replace("{port}", f'"${{PORT:-{PORT}}}"') if "{port}" in word else shell_word(word)


def _unnamed(kind: ServedKind) -> str:
    return f"name the weights ({kind.weights})"


def command_script(given: GivenService, kind: ServedKind, kinds: int) -> str:
    """Return the script that serves on one machine."""
    packages = " ".join(kind.engine.packages)
    remarks = [f"{packages} goes into a virtual environment: VENV, by default ~/.venvs/{kind.service}"]
    if kind.made.replicas > 1 and not kind.is_together:
        gpus = kind.made.gpus_per_replica
        remarks.append(
            f"one replica; the machine has {kind.made.replicas}: start it for each, with PORT of its own and "
            f"CUDA_VISIBLE_DEVICES of {gpus} GPU{'s' * (gpus > 1)}; start the first alone, which installs"
        )
    lines = service_header(given, kind, kinds, kind.engine.tool, f"bash serve-{kind.file}.sh", remarks)
    install = (*environment_lines(kind.service), _install(kind))
    return "#!/usr/bin/env bash\n" + commented(lines) + server_body(kind, install=install)


def _install(kind: ServedKind) -> str:
    return f"pip install {' '.join(map(shell_word, kind.engine.packages))}"


def service_header(
    given: GivenService, kind: ServedKind, kinds: int, tool: Tool, run: str, remarks: Iterable[str]
) -> list[str]:
    """Return the lines of the comment: the plan, the machines, expected load, latency and dollars, assumptions."""
    service, fleet, made = given.service, given.fleet, kind.made
    versions = ", ".join(f"{package} {version}" for package, version in tool.checked.items())
    of = f", kind {kind.number} of {kinds}" if kinds > 1 else ""
    loads = kind.loads(fleet)
    share, per_million = 100 * fleet.within_limits_share, fleet.usd_per_million_tokens
    average = " on average (paid while it is there)" if made.market == "spot" else ""
    lines = [
        f"Service {service.name} of plan {given.plan.scenario}{of}, for {tool.label} {tool.version}"
        + (f" (fields of {versions})." if versions else "."),
        written_by(given.plan),
        f"Machines: {_counts(made.by_hour)} of {made.gpus} x {made.gpu} ({made.instance}) at {made.provider}, "
        f"{made.region}, {_market(kind)}.",
        f"Expected: at most {max(loads):.3g} {fleet.unit} for each machine, {100 * max(loads) / made.capacity:.0f} % "
        f"of its capacity of {made.capacity:.3g} (limited by {made.binds}); {share:g} % of requests within "
        f"{seconds_text(made.ttft_seconds)} to the first token and {seconds_text(made.tpot_seconds)} per token "
        f"in its hour of most use.",
        f"Dollars: ${made.usd_per_hour:,.3f} an hour for each machine{average}, ${made.start_usd:,.3f} for a start; "
        f"the whole service ${fleet.usd_per_month:,.2f} a month, ${per_million:,.3g} per million tokens.",
        *assumptions(given, kind),
        f"Run: {run}",
    ]
    return wrapped((*lines, *(f"Note: {remark}" for remark in (*_weights_remarks(kind), *remarks))))


def assumptions(given: GivenService, kind: ServedKind) -> list[str]:
    """Return what capacity, latency and dollars rest on; every option of the command that says it is listed."""
    service, made, load = given.service, kind.made, given.asked.load
    has = kind.settings
    prompts = f"{service.prefix_tokens:,} of them shared and kept (prefix caching)" if service.prefix_tokens else (
        "none of them shared (prefix caching off; switched on it may be faster than planned)"
    )  # fmt: skip
    lengths = "the table of the scenario" if load.lengths else "the mean; longer ones are guessed at four times it"
    adapters = (
        f"{has['adapters_served']} adapters served, up to rank {has['adapter_rank']}" if has["adapters_served"] else ""
    )
    model = "weights merged with the adapter" if given.asked.adapter and not adapters else adapters
    dtype = f", computed in {has['dtype']}" if kind.has_16_bit_weights else ""
    return [
        f"Assumed load: {figure_text(service.input_tokens)} tokens in, {prompts}; "
        f"{figure_text(service.output_tokens)} out; requests arrive one by one (Poisson), "
        f"headroom {100 * given.asked.headroom:g} %.",
        f"Assumed engine: {made.weight_format} weights{dtype}, {made.kv_bits}-bit KV cache, tensor parallel "
        f"{has['tensor_parallel']}, pipeline parallel {has['pipeline_parallel']}, up to {has['max_num_seqs']} requests "
        f"at once, {has['memory_share']:g} of the memory, prompts in chunks of {has['chunk']:,} tokens, no speculative "
        f"decoding{'; ' + model if model else ''}.",
        *(f"Assumed {line}." for line in kind.engine.image_remarks(load.image_input)),
        f"Assumed length: requests of up to {has['max_model_len']:,} tokens ({lengths}).",
    ]


def _weights_remarks(kind: ServedKind) -> list[str]:
    form, tool = kind.made.weight_format, kind.engine
    remarks = []
    if kind.model is None:
        example = f"--model-id {'' if kind.has_16_bit_weights else f'{form}='}OWNER/NAME"
        remarks.append(f"MODEL has no value yet: {_unnamed(kind)}; export with {example}, or set it when it starts")
    elif kind.made_here:
        remarks.append(f"{tool.label} makes {form} of the 16-bit weights of {kind.model} while it loads them")
    elif not kind.has_16_bit_weights:
        remarks.append(f"{kind.model} must hold weights in {form}")
    if kind.settings["adapters_served"]:
        remarks.append("ADAPTERS is a folder with a folder for each adapter; requests name it as their model")
    card = read_library([]).gpu(kind.gpu)
    if card.vendor == "NVIDIA" and float(card.compute_capability) < _NO_CODE_BELOW:
        capability = f"{kind.gpu} has compute capability {card.compute_capability}"
        remarks.append(f"{capability}: releases of {tool.label} may have no code for it, try one before you plan on it")
    return remarks


def hours_table(kinds: list[ServedKind]) -> str:
    """Return the machines of each kind by the hour, and the times at which they change, as text."""
    lines = [
        "Machines by the hour: 24 hours of each day, Monday first where the cycle is a week. A line of cron has the "
        "time of a change\n(minute, hour, weekday) and the machines from then on. Machines are ordered as long before "
        "the hour as they take to start.\n"
    ]
    for kind in kinds:
        made = kind.made
        lines.append(f"\n{kind.file} ({made.gpus} x {made.gpu} at {made.provider}, {made.market}):\n\n")
        days = range(0, len(made.by_hour), DAY)
        lines += [f"    {' '.join(map(str, made.by_hour[first : first + DAY]))}\n" for first in days]
        lines += [
            f"    cron {cron_change.cron}: {cron_change.machines}\n"
            for cron_change in cron_changes(made.by_hour, made.start_hours)
        ]
    return "".join(lines)


def _counts(by_hour: tuple[int, ...]) -> str:
    least, most = min(by_hour), max(by_hour)
    return f"{most}" if least == most else f"{least} to {most}"


def _market(kind: ServedKind) -> str:
    made = kind.made
    return f"on spot (there {100 * made.availability:.0f} % of the time)" if made.market == "spot" else made.market


# SkyPilot: a service for each kind of machines, and the hours at which their numbers change.


LEAST_DELAY_SECONDS = 1200
"""Before which a replica that does not answer is not given up: SkyPilot's own default."""
DELAY_FACTOR = 3
"""How much longer than planned a start may take."""
CRON_FILE = "skypilot-hours.cron"
MOST_WEIGHT = 256
"""Largest weight that HAProxy takes."""


def skypilot_services(given: GivenService, kinds: list[ServedKind], tool: LaunchMap) -> dict[str, str]:
    """Return the service of each kind, and lines of cron where machines change by the hour.

    `InputError` where SkyPilot does not have a provider or a GPU, or would reach one of several replicas alone.
    """
    files = {f"skypilot-{kind.file}.yaml": _skypilot_service(given, kind, len(kinds), tool) for kind in kinds}
    lines = _cron_lines(kinds)
    if lines:
        remarks = [
            f"Machines by the hour of service {given.service.name}, plan {given.plan.scenario}.",
            written_by(given.plan),
            "Each line sets the number of one kind from that time on, with the start of its machines before the hour.",
            "Run: crontab skypilot-hours.cron, in the time zone that the load is counted in; replaces your crontab. "
            "Set the names at the top first, and start each service once with sky serve up.",
        ]
        names = [f"MODEL_{kind.number}=OWNER/NAME\n" for kind in kinds if kind.model is None]
        files[CRON_FILE] = commented(wrapped(remarks)) + "".join(("DIR=/path/to/this/folder\n", *names, *lines))
    return files


def _skypilot_service(given: GivenService, kind: ServedKind, kinds: int, tool: LaunchMap) -> str:
    """Return the text of one service."""
    made = kind.made
    if made.replicas > 1 and not kind.is_together:
        problem = (
            f"kind {kind.number}: {made.replicas} servers on a machine, and {tool.label} sends requests to one port"
        )
        fix = "export to kubernetes, which has a pod for each, or "
        fix += plan_with(f"jobs.{given.service.name}.techniques.engine", ["vllm", "sglang"])
        raise InputError([Fault("plan", 0, f"jobs.{given.service.name}", problem, fix)])
    machines = find_machines(given.scenario, kind, tool)
    least, most = min(made.by_hour), max(made.by_hour)
    policy: dict[str, Any] = {"min_replicas": least, "max_replicas": most}
    if least < most:
        policy["target_qps_per_replica"] = float(f"{requests_per_second(given, kind):.4g}")
    delay = max(LEAST_DELAY_SECONDS, math.ceil(DELAY_FACTOR * HOUR * made.start_hours))
    served = bool(kind.settings["adapters_served"])
    task = {
        "name": kind.name,
        **({"workdir": "."} if served else {}),
        "service": {
            "readiness_probe": {"path": "/health", "initial_delay_seconds": delay},
            "replica_policy": policy,
            "load_balancing_policy": "least_load",
        },
        "resources": _resources(given, kind, machines),
        "envs": {"MODEL": kind.model, **({"ADAPTERS": "adapters"} if served else {})},
        "setup": in_environment(kind.service, _install(kind)),
        "run": in_environment(kind.service, server_body(kind).removesuffix("\n")),
    }
    lines = service_header(given, kind, kinds, tool, start_command(kind), _remarks(given, kind, kinds, machines))
    return commented(lines) + yaml_text(task)


def requests_per_second(given: GivenService, kind: ServedKind) -> float:
    """Return the requests per second from which a further machine is wanted: the capacity less the headroom.

    Of a load counted in flight: at least the capacity over the time that a request takes at its limits.
    """
    made, service = kind.made, given.service
    most = made.capacity / (1.0 + given.asked.headroom)
    if given.fleet.unit == "requests/s":
        return most
    return most / (made.ttft_seconds + max(0.0, service.output_tokens - 1.0) * made.tpot_seconds)


def _resources(given: GivenService, kind: ServedKind, machines: Machines) -> dict[str, Any]:
    """Return what to rent and where; all of one market, because SkyPilot takes no mix in a service."""
    made, on_spot = kind.made, kind.made.market == "spot"
    price = machines.spot_usd_per_hour if on_spot else machines.usd_per_hour
    if price is None and made.market != "committed":
        problem = f"the plan has no priced offer of {made.gpu} at {made.provider}"
        raise InputError(
            [Fault("plan", 0, f"jobs.{given.service.name}", problem, "planner check lists edits; solve it again")]
        )
    places = [f"{machines.provider}/{region}" if region else machines.provider for region in machines.regions]
    most = {"max_hourly_cost": round(PRICE_MARGIN * price, 2)} if price is not None else {}
    choices = [{"infra": place, "use_spot": on_spot, **most} for place in places]
    resources: dict[str, Any] = {"accelerators": f"{machines.gpu}:{made.gpus}", "ports": PORT}
    return resources | ({"any_of": choices} if len(choices) > 1 else choices[0])


def start_command(kind: ServedKind) -> str:
    """Return the command that starts the service of a kind."""
    named = "" if kind.model else " --env MODEL=OWNER/NAME"
    return f"sky serve up -n {kind.name}{named} skypilot-{kind.file}.yaml"


def _remarks(given: GivenService, kind: ServedKind, kinds: int, machines: Machines) -> list[str]:
    made = kind.made
    remarks = [hours_remark(given, kind)]
    if kinds > 1:
        remarks.append(
            f"kinds share the load: put a balancer before their endpoints that gives this one {weight(given, kind)} "
            f"parts of requests in flight for each machine, where the largest has {MOST_WEIGHT}"
        )
    if made.market == "spot":
        remarks.append(
            "lost machines are replaced on spot; dynamic_ondemand_fallback: true replaces them on demand meanwhile, "
            "which the plan does not pay"
        )
    if made.market == "committed":
        remarks.append("the plan pays for a commitment; make it first, or each hour costs the price on demand")
    else:
        remarks.append(f"the highest price is {100 * (PRICE_MARGIN - 1):.0f} % above that of the plan")
    remarks.append("weights that need a login: add --secret HF_TOKEN")
    if machines.note:
        remarks.append(machines.note)
    return remarks


def hours_remark(given: GivenService, kind: ServedKind) -> str:
    """Return how the machines of each hour follow from the bounds and the target of SkyPilot."""
    made, fleet = kind.made, given.fleet
    cycle = len(made.by_hour)
    if len(set(made.by_hour)) == 1:
        return f"the plan has {made.by_hour[0]} in every hour"
    asked = autoscaled(
        [use * made.capacity * count for use, count in zip(fleet.use_by_hour, made.by_hour, strict=True)],
        made.capacity / (1.0 + given.asked.headroom), min(made.by_hour), max(made.by_hour),
    )  # fmt: skip
    same = sum(machines == count for machines, count in zip(asked, made.by_hour, strict=True))
    few = sum(machines < count for machines, count in zip(asked, made.by_hour, strict=True))
    text = f"at the planned load this asks for the machines of the plan in {same} of {cycle} hours"
    text += f", for fewer in {few}" if few else ""
    late = lead_minutes(made.start_hours)
    return f"{text}, {late} minutes after the load has come; {CRON_FILE} orders them as long before the hour"


def weight(given: GivenService, kind: ServedKind) -> int:
    """Return the part of the requests in flight that a machine takes, from 1 to MOST_WEIGHT for the largest.

    In flight are capacity times the time of a request (Little's law): what a balancer by least connections counts.
    """
    made, service = kind.made, given.service

    def flight(sort: Any) -> float:
        if given.fleet.unit != "requests/s":
            return float(sort.capacity)
        return float(sort.capacity * (sort.ttft_seconds + max(0.0, service.output_tokens - 1.0) * sort.tpot_seconds))

    return max(1, round(MOST_WEIGHT * flight(made) / max(flight(kind) for kind in given.fleet.kinds)))


def _cron_lines(kinds: list[ServedKind]) -> list[str]:
    """Return a line for each time at which the number of a kind changes: bounds of the service, then an update."""
    lines = []
    for kind in kinds:
        for cron_change in cron_changes(kind.made.by_hour, kind.made.start_hours):
            now = f"now-{kind.file}.yaml"
            bounds = f"-e 's/\\(min\\|max\\)_replicas: .*/\\1_replicas: {cron_change.machines}/' -e '/target_qps/d'"
            model = "" if kind.model else f' --env MODEL="$MODEL_{kind.number}"'
            update = f"sky serve update -y{model} {kind.name} {now}"
            lines.append(
                f'{cron_change.cron} cd "$DIR" && sed {bounds} skypilot-{kind.file}.yaml > {now} && {update}\n'
            )
    return lines


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
    files = {f"kubernetes-{kind.file}.yaml": _kind(given, kind, len(kinds), tool) for kind in kinds}
    name = kinds[0].service
    about = [f"Of service {given.service.name}, plan {given.plan.scenario}.", written_by(given.plan)]
    if any(cron_changes(kind.made.by_hour, kind.made.start_hours) for kind in kinds):
        text = "What the CronJobs of the other files need to scale Deployments."
        files[SCALER] = _joined([text, *about], _scaler(name))
    if len(kinds) > 1:
        text = (
            "Divides the requests among the kinds: each pod gets requests in flight in proportion to what it can have "
            "at its capacity. Without it a Service would give each pod the same."
        )
        files[BALANCER] = _joined([text, *about], _balancer(given, kinds))
    return files


def _kind(given: GivenService, kind: ServedKind, kinds: int, tool: LaunchMap) -> str:
    """Return the Deployment, the Service and the CronJobs of one kind."""
    pods = [count * kind.made.replicas for count in kind.made.by_hour]
    objects = [_deployment(kind, max(pods)), _kubernetes_service(kind, headless=kinds > 1)]
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


def _kubernetes_service(kind: ServedKind, headless: bool) -> dict[str, Any]:
    """Return the Service; headless, its name has the address of each pod, which the balancer reads."""
    spec: dict[str, Any] = {"clusterIP": "None"} if headless else {}
    spec |= {"selector": _labels(kind), "ports": [{"port": PORT, "targetPort": PORT}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": _named(kind.name, kind), "spec": spec}


def _cron_jobs(kind: ServedKind) -> list[dict[str, Any]]:
    """Return a CronJob for all changes to one number at the same minutes."""
    jobs = []
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
        jobs.append({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": _named(name, kind), "spec": spec})
    return jobs


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
    files = {} if targets else {f"serve-{kind.file}.sh": command_script(given, kind, len(kinds)) for kind in kinds}
    for name in targets:
        if name not in _TARGETS:
            label = (maps | field_maps())[name].label
            problem = f"{label} trains, and this is a service" if name in field_maps() else f"no service for {label}"
            fix = f"--to {' or --to '.join(_TARGETS)}, or --all"
            faults.append(Fault(file, 0, f"jobs.{given.service.name}", problem, fix))
            continue
        with collect_faults(faults):
            files |= _TARGETS[name](given, kinds, maps[name])
    raise_faults(faults)
    return files


def export_all_services(given: GivenService, wishes: Wishes, file: str) -> tuple[dict[str, str], list[str]]:
    """Return every file that the plan can have, by name, and which launchers are left out and why."""
    files, left_out = export_service(given, [], wishes, file), []
    for name in _TARGETS:
        try:
            files |= export_service(given, [name], wishes, file)
        except InputError as error:
            left_out.append(f"the files of {launch_maps()[name].label} are left out: {error.faults[0].what}")
    kinds = served_kinds(given, wishes, file)
    files["README.md"] = _readme(given, kinds, sorted(files))
    return files, left_out


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
    commands = []
    if any(file.startswith("skypilot") for file in files):
        commands.append(f"sky serve down -y {' '.join(kind.name for kind in kinds)}")
    if any(file.startswith("kubernetes") for file in files):
        commands.append("for one in kubernetes-*.yaml; do kubectl delete -f $one; done")
    return commands


def _asked_first(kinds: list[ServedKind]) -> list[str]:
    """Return what must be there before a start: weights that the files do not name, and the token of gated ones."""
    unnamed = list(dict.fromkeys(kind.made.weight_format for kind in kinds if kind.model is None))
    variables = [f"MODEL=OWNER/NAME: a repository with the weights in {', '.join(unnamed)}"] if unnamed else []
    gated = dict.fromkeys(kind.model for kind in kinds if is_gated(kind.model))
    return variables + [
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
