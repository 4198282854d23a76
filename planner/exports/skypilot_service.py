"""SkyPilot: a service for each kind of machines, and the hours at which their numbers change."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from planner.documents.yaml_text import yaml_text
from planner.errors import Fault, InputError
from planner.exports.header import commented, wrapped, written_by
from planner.exports.machine_names import PRICE_MARGIN, Machines, find_machines
from planner.exports.served_kinds import PORT, autoscaled, cron_changes, lead_minutes
from planner.exports.service_script import server_body, service_header
from planner.units import HOUR

if TYPE_CHECKING:
    from planner.exports.field_map import LaunchMap
    from planner.exports.served_kinds import GivenService, ServedKind

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
    found = {f"skypilot-{one.file}.yaml": _service(given, one, len(kinds), tool) for one in kinds}
    lines = _cron_lines(kinds)
    if lines:
        remarks = [
            f"Machines by the hour of service {given.service.name}, plan {given.plan.scenario}.",
            written_by(given.plan),
            "Each line sets the number of one kind from that time on, with the start of its machines before the hour.",
            "Run: crontab skypilot-hours.cron, in the time zone that the load is counted in; replaces your crontab. "
            "Set the names at the top first, and start each service once with sky serve up.",
        ]
        names = [f"MODEL_{one.number}=OWNER/NAME\n" for one in kinds if one.model is None]
        found[CRON_FILE] = commented(wrapped(remarks)) + "".join(("DIR=/path/to/this/folder\n", *names, *lines))
    return found


def _service(given: GivenService, kind: ServedKind, kinds: int, tool: LaunchMap) -> str:
    """Return the text of one service."""
    made = kind.made
    if made.replicas > 1 and not kind.is_together:
        what = f"kind {kind.number}: {made.replicas} servers on a machine, and {tool.label} sends requests to one port"
        fix = "export to kubernetes, which has a pod for each, or plan with techniques.engine=[vllm, sglang]"
        raise InputError([Fault("plan", 0, f"jobs.{given.service.name}", what, fix)])
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
        "setup": f"pip install {' '.join(kind.engine.packages)}\n",
        "run": server_body(kind),
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
        what = f"the plan has no priced offer of {made.gpu} at {made.provider}"
        raise InputError(
            [Fault("plan", 0, f"jobs.{given.service.name}", what, "planner check lists edits; solve it again")]
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
    found = [hours_remark(given, kind)]
    if kinds > 1:
        found.append(
            f"kinds share the load: put a balancer before their endpoints that gives this one {weight(given, kind)} "
            f"parts of requests in flight for each machine, where the largest has {MOST_WEIGHT}"
        )
    if made.market == "spot":
        found.append(
            "lost machines are replaced on spot; dynamic_ondemand_fallback: true replaces them on demand meanwhile, "
            "which the plan does not pay"
        )
    if made.market == "committed":
        found.append("the plan pays for a commitment; make it first, or each hour costs the price on demand")
    else:
        found.append(f"the highest price is {100 * (PRICE_MARGIN - 1):.0f} % above that of the plan")
    found.append("weights that need a login: add --secret HF_TOKEN")
    if machines.note:
        found.append(machines.note)
    return found


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
    same = sum(one == count for one, count in zip(asked, made.by_hour, strict=True))
    few = sum(one < count for one, count in zip(asked, made.by_hour, strict=True))
    text = f"at the planned load this asks for the machines of the plan in {same} of {cycle} hours"
    text += f", for fewer in {few}" if few else ""
    late = lead_minutes(made.start_hours)
    return f"{text}, {late} minutes after the load has come; {CRON_FILE} orders them as long before the hour"


def weight(given: GivenService, kind: ServedKind) -> int:
    """Return the part of the requests in flight that a machine takes, from 1 to MOST_WEIGHT for the largest.

    In flight are capacity times the time of a request (Little's law): what a balancer by least connections counts.
    """
    made, service = kind.made, given.service

    def flight(one: Any) -> float:
        if given.fleet.unit != "requests/s":
            return float(one.capacity)
        return float(one.capacity * (one.ttft_seconds + max(0.0, service.output_tokens - 1.0) * one.tpot_seconds))

    return max(1, round(MOST_WEIGHT * flight(made) / max(flight(one) for one in given.fleet.kinds)))


def _cron_lines(kinds: list[ServedKind]) -> list[str]:
    """Return a line for each time at which the number of a kind changes: bounds of the service, then an update."""
    found = []
    for kind in kinds:
        for one in cron_changes(kind.made.by_hour, kind.made.start_hours):
            now = f"now-{kind.file}.yaml"
            bounds = f"-e 's/\\(min\\|max\\)_replicas: .*/\\1_replicas: {one.machines}/' -e '/target_qps/d'"
            model = "" if kind.model else f' --env MODEL="$MODEL_{kind.number}"'
            update = f"sky serve update -y{model} {kind.name} {now}"
            found.append(f'{one.cron} cd "$DIR" && sed {bounds} skypilot-{kind.file}.yaml > {now} && {update}\n')
    return found
