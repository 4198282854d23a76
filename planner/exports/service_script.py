"""The shell script that starts one server of a kind, and what its reader must know."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.exports.header import commented, wrapped, written_by
from planner.exports.quoting import shell_inside, shell_word
from planner.exports.served_kinds import PORT, cron_changes
from planner.library.reading import read_library
from planner.results.fleet_differences import seconds_text
from planner.scenario.service_load import DAY
from planner.units import figure_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from planner.exports.field_map import Tool
    from planner.exports.served_kinds import GivenService, ServedKind

_ADAPTERS = (
    "MODULES=()\n"
    'for one in "${ADAPTERS:?folder with a folder for each adapter}"/*/; do\n'
    '  MODULES+=("$(basename "$one")=${one%/}")\n'
    "done\n"
)
_NO_CODE_BELOW = 7.5
"""Compute capability that the images of engines may have no code for (CUDA 13 compiles nothing older)."""


def server_body(kind: ServedKind, together: bool = True) -> str:
    """Return the commands of the shell that start a server.

    `together`: one of a whole machine; else of one replica.
    """
    what = shell_inside(kind.model or _unnamed(kind))
    named = f'MODEL="${{MODEL:-{what}}}"\n' if kind.model else f': "${{MODEL:?{what}}}"\n'
    words = [_quoted(one) for one in kind.words(together)]
    adapters = bool(kind.settings["adapters_served"])
    if adapters:
        words[-1] += ' "${MODULES[@]}"'
    first = next(at for at, one in enumerate(words) if one.startswith("--"))  # the program with what it runs
    command = " \\\n  ".join((" ".join(words[:first]), *words[first:]))
    return f"set -euo pipefail\n{named}{_ADAPTERS if adapters else ''}exec {command}\n"


def _quoted(word: str) -> str:
    """Return a word for the shell; model and port are variables there."""
    if "{model}" in word:
        return word.replace("{model}", '"$MODEL"')
    return word.replace("{port}", f'"${{PORT:-{PORT}}}"') if "{port}" in word else shell_word(word)


def _unnamed(kind: ServedKind) -> str:
    return f"name the weights ({kind.weights})"


def command_script(given: GivenService, kind: ServedKind, kinds: int) -> str:
    """Return the script that serves on one machine."""
    remarks = [f"pip install {' '.join(kind.engine.packages)}"]
    if kind.made.replicas > 1 and not kind.is_together:
        each = kind.made.gpus_per_replica
        remarks.append(
            f"one replica; the machine has {kind.made.replicas}: start it for each, with PORT of its own and "
            f"CUDA_VISIBLE_DEVICES of {each} GPU{'s' * (each > 1)}"
        )
    lines = service_header(given, kind, kinds, kind.engine.tool, f"bash serve-{kind.file}.sh", remarks)
    return "#!/usr/bin/env bash\n" + commented(lines) + server_body(kind)


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
    return wrapped((*lines, *(f"Note: {one}" for one in (*_weights_remarks(kind), *remarks))))


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
        lines += [f"    cron {one.cron}: {one.machines}\n" for one in cron_changes(made.by_hour, made.start_hours)]
    return "".join(lines)


def _counts(by_hour: tuple[int, ...]) -> str:
    least, most = min(by_hour), max(by_hour)
    return f"{most}" if least == most else f"{least} to {most}"


def _market(kind: ServedKind) -> str:
    made = kind.made
    return f"on spot (there {100 * made.availability:.0f} % of the time)" if made.market == "spot" else made.market
