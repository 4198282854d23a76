"""The script that starts one server of a kind, and SkyPilot's services that run it by the hour."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from planner.documents.files import yaml_text
from planner.errors import Fault, InputError
from planner.exports.field_map import LaunchMap, Tool
from planner.exports.machine_names import PRICE_MARGIN, Machines, find_machines
from planner.exports.script_parts import (
    commented,
    environment_lines,
    in_environment,
    shell_inside,
    shell_word,
    wrapped,
    written_by,
)
from planner.library.reading import read_library
from planner.results.service_results import seconds_text
from planner.scenario.inference_job import DAY
from planner.services.served_kinds import PORT, GivenService, ServedKind, autoscaled, cron_changes, lead_minutes
from planner.units import HOUR, figure_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


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
    what = shell_inside(kind.model or _unnamed(kind))
    named = f'MODEL="${{MODEL:-{what}}}"\n' if kind.model else f': "${{MODEL:?{what}}}"\n'
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
        each = kind.made.gpus_per_replica
        remarks.append(
            f"one replica; the machine has {kind.made.replicas}: start it for each, with PORT of its own and "
            f"CUDA_VISIBLE_DEVICES of {each} GPU{'s' * (each > 1)}; start the first alone, which installs"
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
    share, each = 100 * fleet.within_limits_share, fleet.usd_per_million_tokens
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
        f"the whole service ${fleet.usd_per_month:,.2f} a month, ${each:,.3g} per million tokens.",
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
    found = []
    if kind.model is None:
        example = f"--model-id {'' if kind.has_16_bit_weights else f'{form}='}OWNER/NAME"
        found.append(f"MODEL has no value yet: {_unnamed(kind)}; export with {example}, or set it when it starts")
    elif kind.made_here:
        found.append(f"{tool.label} makes {form} of the 16-bit weights of {kind.model} while it loads them")
    elif not kind.has_16_bit_weights:
        found.append(f"{kind.model} must hold weights in {form}")
    if kind.settings["adapters_served"]:
        found.append("ADAPTERS is a folder with a folder for each adapter; requests name it as their model")
    card = read_library([]).gpu(kind.gpu)
    if card.vendor == "NVIDIA" and float(card.compute_capability) < _NO_CODE_BELOW:
        what = f"{kind.gpu} has compute capability {card.compute_capability}"
        found.append(f"{what}: releases of {tool.label} may have no code for it, try one before you plan on it")
    return found


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
    found = {f"skypilot-{kind.file}.yaml": _service(given, kind, len(kinds), tool) for kind in kinds}
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

    return max(1, round(MOST_WEIGHT * flight(made) / max(flight(kind) for kind in given.fleet.kinds)))


def _cron_lines(kinds: list[ServedKind]) -> list[str]:
    """Return a line for each time at which the number of a kind changes: bounds of the service, then an update."""
    found = []
    for kind in kinds:
        for cron_change in cron_changes(kind.made.by_hour, kind.made.start_hours):
            now = f"now-{kind.file}.yaml"
            bounds = f"-e 's/\\(min\\|max\\)_replicas: .*/\\1_replicas: {cron_change.machines}/' -e '/target_qps/d'"
            model = "" if kind.model else f' --env MODEL="$MODEL_{kind.number}"'
            update = f"sky serve update -y{model} {kind.name} {now}"
            found.append(
                f'{cron_change.cron} cd "$DIR" && sed {bounds} skypilot-{kind.file}.yaml > {now} && {update}\n'
            )
    return found
