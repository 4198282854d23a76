"""The files of a job of generation: the settings of its script, the commands, and the tasks that launch it."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from planner.documents.files import data_folder, yaml_text
from planner.errors import Fault, InputError, collect_faults, raise_faults
from planner.exports.facts import Given, Wishes
from planner.exports.field_map import EngineMap, LaunchMap, engine_maps, field_maps, filled, launch_maps
from planner.exports.launchers import (
    GIVE_BACK,
    TOKEN,
    Checklist,
    bucket_name,
    bucket_remark,
    dstack_profile,
    job_hourly,
    skypilot_resources,
    token_remark,
    usd_per_hour,
)
from planner.exports.machine_names import PRICE_MARGIN, find_machines, task_name
from planner.exports.machine_names import filled as filled_command
from planner.exports.script_parts import (
    commented,
    document,
    environment_lines,
    environment_remark,
    header,
    image_of,
    in_environment,
    shell_word,
)
from planner.library.engines import read_engines
from planner.library.names import is_gated
from planner.library.reading import read_library
from planner.results.fleet import BulkGeneration
from planner.scenario.inference_job import InferenceJob
from planner.units import GIB

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence


GENERATE_SCRIPT = "generate.py"
"""The program in `models/exports` that answers the prompts."""
OF_ANSWERS = ("model", "weight_format", "kv_bits", "max_tokens", "sampling", "prompts_per_part")
"""Settings that the answers depend on, as the program names them."""
PART_SECONDS = 60.0
"""Work of a machine whose answers are written together: a lost machine loses no more, and its requests in flight."""
MOST_PARTS = 10_000
MEASURED_SECONDS = 300.0
"""Requests of a measurement, in seconds at the planned speed: with the start of the engine about ten minutes."""
LONGER_ANSWERS = 4
"""How much longer than their mean answers may be before they are cut, where the plan knows the mean alone (a guess)."""
QUEUED = 1.25
"""Requests that the script has sent for each that the engine has room for, so that none of its places is empty."""


def engine_of(given: Given, file: str) -> EngineMap:
    """Return the map of the engine that the plan chose; `InputError` with what to change where there is none."""
    job, maps = given.job, {name: engine for name, engine in engine_maps().items() if engine.measure}
    made, where = generation_of(given), f"jobs.{given.job.name}"
    tool = maps.get(made.engine)
    if tool is None:
        label = read_engines().engines[made.engine].label
        fix = f"plan with --set '{where}.techniques.engine=[{', '.join(maps)}]'"
        raise InputError([Fault(file, 0, where, f"no script runs {label}", fix)])
    faults = []
    if made.weight_format not in tool.formats:
        fix = f"plan with --set '{where}.techniques.weight_format=[{', '.join(tool.formats)}]'"
        faults.append(Fault(file, 0, where, f"the script for {tool.label} loads no {made.weight_format}", fix))
    if made.kv_bits not in tool.cache:
        fix = f"plan with --set '{where}.techniques.kv_bits=[{', '.join(map(str, tool.cache))}]'"
        faults.append(Fault(file, 0, where, f"the script for {tool.label} has no {made.kv_bits}-bit cache", fix))
    asked = asked_of(given)
    if asked.adapter is not None and asked.adapter.served and tool.room_for(asked.adapter.rank) is None:
        wrong = f"{tool.label} serves no adapters of rank {asked.adapter.rank}"
        faults.append(Fault(file, 0, where, wrong, f"a rank up to {max(tool.ranks)}"))
    if job.gpus_per_instance < made.gpus_per_replica:
        wrong = f"a replica of {made.gpus_per_replica} GPUs does not fit on a machine of {job.gpus_per_instance}"
        faults.append(Fault(file, 0, where, wrong, "planner check lists every edited figure; solve it again"))
    if faults:
        raise InputError(faults)
    return tool


def generation_of(given: Given) -> BulkGeneration:
    """Return what the plan says of the generation; the caller knows that it has some."""
    assert given.job.inference is not None
    return given.job.inference


def asked_of(given: Given) -> InferenceJob:
    """Return the job as the scenario states it."""
    (asked,) = (job for job in given.scenario.jobs if job.name == given.job.name)
    assert isinstance(asked, InferenceJob)
    return asked


def script_settings(given: Given, tool: EngineMap, wishes: Wishes, comment: list[str]) -> dict[str, Any]:
    """Return the content of `generate.json`.

    The engine admits as many requests as the estimate let it, its memory is the share that the estimate gave it, and
    its longest context holds the longest prompt with the longest answer.
    """
    job, made, asked = given.job, generation_of(given), asked_of(given)
    engine, card = read_engines().engines[made.engine], read_library([]).gpu(job.gpu)
    model, made_here = _weights(given, tool, wishes)
    per_machine = job.gpus_per_instance // made.gpus_per_replica
    rate = made.output_tokens_per_second / made.output_tokens / made.replicas  # requests per second of a replica
    longest = _longest_answer(given)
    adapter, served = asked.adapter, (asked.adapter.served if asked.adapter else None)
    settings: dict[str, Any] = {
        "engine": made.engine,
        "model": model or "",
        "weight_format": made.weight_format,
        "weight_bits": read_engines().formats[made.weight_format].bits,
        "kv_bits": made.kv_bits,
        "tensor_parallel": job.techniques.tensor_parallel,
        "pipeline_parallel": job.techniques.pipeline_parallel,
        "max_num_seqs": (most := engine.limits_on(card).sequences),
        "max_model_len": max(request_class.input_tokens for request_class in asked.work.classes) + longest,
        "memory_share": round(min(engine.share, 1.0 - (given.scenario.limits.vram_headroom or 0.0)), 3),
        "prefix_caching": made.prefix_tokens > 0,
        "prefix_tokens": made.prefix_tokens,
        "adapter": None if adapter is None else "served" if served else "merged",
        "adapters": {f"adapter-{number}": "" for number in range(served or 0)},
        "gpus_per_replica": made.gpus_per_replica,
        "replicas_per_machine": per_machine,
        "machines": job.instances,
        "first_port": 8000,
        "in_flight": made.in_flight,
        "concurrency": math.ceil(QUEUED * most),
        "max_tokens": longest,
        "sampling": {},
        "prompts_per_part": max(1, round(PART_SECONDS * rate * per_machine), math.ceil(made.requests / MOST_PARTS)),
        "planned": {
            "output_tokens_per_second": made.output_tokens_per_second,
            "ttft_seconds": made.ttft_seconds,
            "tpot_seconds": made.tpot_seconds,
            "hours": job.hours.expected,
            "usd": job.cost_usd,
        },
    }
    if served and adapter is not None:
        settings |= {"adapters_served": served, "adapter_rank": tool.room_for(adapter.rank)}
    more = (*(tool.made if made_here else tool.formats)[made.weight_format], *tool.cache[made.kv_bits])
    more = (*more, *tool.prefix[made.prefix_tokens > 0], *tool.image_words(asked.work.image_input))
    serve = (*tool.serve, *more, *(tool.adapters if served else ()))
    measured = {
        "own_input_tokens": max(1, round(made.input_tokens - made.prefix_tokens)),
        "output_tokens": max(1, round(made.output_tokens)),
        "measured_requests": max(2 * made.in_flight, round(MEASURED_SECONDS * rate)),
    }
    dtype = "bfloat16" if _capability(job.gpu) >= 8 else "float16"  # older ones have no 16-bit brain floats
    known = {name: value for name, value in settings.items() if name != "model"} | measured | {"dtype": dtype}
    return {"_comment": comment, **settings, "serve": filled(serve, known), "measure": filled(tool.measure, known)}


def remarks_of(given: Given, tool: EngineMap, wishes: Wishes) -> list[str]:
    """Return what a reader of the files must know of weights, adapters and lengths."""
    made, asked = generation_of(given), asked_of(given)
    model, made_here = _weights(given, tool, wishes)
    remarks = tool.image_remarks(asked.work.image_input)
    if not model and asked.adapter is not None and not asked.adapter.served:
        remarks.append("name the merged weights: model in generate.json, or --model-id")
    elif not model:
        remarks.append(f"name weights in {made.weight_format}: model in generate.json, or --model-id")
    elif made_here:
        remarks.append(f"{tool.label} makes {made.weight_format} of the 16-bit weights of {model} while it loads them")
    elif made.weight_format != "bf16":
        remarks.append(f"{model} must hold weights in {made.weight_format}")
    if asked.adapter is not None and asked.adapter.served:
        remarks.append("adapters in generate.json: the folder of each; a prompt names its own as adapter")
    if asked.work.lengths:
        remarks.append("answers are cut at the longest output of the job (max_tokens)")
    else:
        remarks.append(
            f"answers are cut at {_longest_answer(given):,} tokens (max_tokens); the plan counts on their mean"
        )
    return remarks


def _longest_answer(given: Given) -> int:
    """Return the tokens at which answers are cut: the longest that is listed, or room above the mean.

    Never longer than the cache and the model hold with the longest prompt. 150 tokens in the mean: 600.
    """
    work, made = asked_of(given).work, generation_of(given)
    prompt = max(request_class.input_tokens for request_class in work.classes)
    longest = max(request_class.output_tokens for request_class in work.classes)
    if work.lengths:
        return longest
    (card,) = read_library([given.job.architecture]).architectures.values()
    held = made.output_tokens * read_engines().engines[made.engine].held_share
    cached = int(made.requests_that_fit * (made.input_tokens + held))
    room = min(card.max_sequence, max(cached, prompt + longest)) - prompt
    return max(longest, min(LONGER_ANSWERS * longest, room))


def _weights(given: Given, tool: EngineMap, wishes: Wishes) -> tuple[str | None, bool]:
    """Return the weights to load, and whether the engine makes the format of the plan of them.

    Without a wish: the release in 16 bits, where that is the format, or where the engine makes it and 16 bits fit.
    """
    form = generation_of(given).weight_format
    (card,) = read_library([given.job.architecture]).architectures.values()
    release = next((alias for alias in card.aliases if "/" in alias), None)
    adapter = asked_of(given).adapter
    if wishes.model_id is not None or (adapter is not None and not adapter.served):
        return wishes.model_id, False  # merged weights are the user's own
    if form == card.published[0]:
        return release, False
    whole = card.parameters * 2 / generation_of(given).gpus_per_replica / GIB
    made = form in tool.made and whole < 0.8 * given.job.vram_gib.usable
    return (release, made) if made else (None, False)


def _gated_model(given: Given, tool: EngineMap, wishes: Wishes) -> str | None:
    """Return the repository that is downloaded with a token; None where it needs none."""
    model, _ = _weights(given, tool, wishes)
    return model if is_gated(model) else None


def _capability(gpu: str) -> float:
    card = read_library([]).gpu(gpu)
    return float(card.compute_capability) if card.vendor == "NVIDIA" else 9.0


# Tasks of launchers for a job of generation: one machine each, because machines do not wait for one another.


RESULTS = "/results"
"""Where a task mounts the folder of answers, which outlives its machines."""


def skypilot_generation(
    given: Given, tool: LaunchMap, engine: EngineMap, remarks: Sequence[str], wishes: Wishes
) -> str:
    """Return the task of one machine; `SHARD` says which of `SHARDS` it is."""
    job, name, gated = given.job, task_name(given.job), _gated_model(given, engine, wishes)
    machines = find_machines(given.scenario, job, tool, "answers")
    task = {
        "name": name,
        "workdir": ".",
        "num_nodes": 1,
        "resources": skypilot_resources(given, machines),
        "envs": {"SHARD": "0", "SHARDS": str(job.instances), "PROMPTS": wishes.dataset or PROMPTS},
        **({"secrets": {TOKEN: None}} if gated else {}),
        "file_mounts": {RESULTS: {"name": _bucket(given, engine, wishes), "mode": "MOUNT_CACHED"}},
        "setup": in_environment(name, _install(engine)),
        "run": in_environment(name, _RUN),
    }
    comments = _remarks(given, machines.note, remarks)
    return commented(header(given.plan, job, tool, skypilot_command(given, bool(gated)), comments)) + yaml_text(task)


def dstack_generation(given: Given, tool: LaunchMap, engine: EngineMap, remarks: Sequence[str], wishes: Wishes) -> str:
    """Return the task of machine 0; the command makes those of the others by replacing the number."""
    job, name, prompts = given.job, task_name(given.job), wishes.dataset or PROMPTS
    gated = _gated_model(given, engine, wishes)
    machines = find_machines(given.scenario, job, tool, "answers")
    task: dict[str, Any] = {"type": "task", "name": f"{name}-0", "nodes": 1}
    task |= {**dstack_profile(job, machines), "image": image_of(job.gpu).image}
    task["env"] = ["SHARD=0", f"SHARDS={job.instances}", f"PROMPTS={prompts}", *([TOKEN] if gated else [])]
    task["files"] = [GENERATE_SCRIPT, "generate.json", prompts]
    if machines.keeps:
        task["volumes"] = [{"name": f"results-{name}-0", "path": RESULTS}]
    task["commands"] = [in_environment(name, _install(engine), _RUN)]
    comments = [*_remarks(given, machines.note, remarks), environment_remark(job.gpu).partition(";")[0]]
    comments.append(
        f"make a volume results-{name}-NUMBER for each machine first (dstack apply, type: volume)"
        if machines.keeps
        else f"{tool.label} has no network volumes here: save {RESULTS} before the machines go"
    )
    return commented(header(given.plan, job, tool, dstack_command(given, bool(gated)), comments)) + yaml_text(task)


def skypilot_command(given: Given, gated: bool) -> str:
    """Return the command that launches every machine of the plan; `gated`: the weights need a token."""
    job, name = given.job, task_name(given.job)
    on_spot, several, token = job.spot_share > 0, job.instances > 1, f" --secret {TOKEN}" if gated else ""
    if not several:
        return f"sky {'jobs ' if on_spot else ''}launch task.yaml{token}"
    start = f"sky jobs launch -y -d -n {name}-$i" if on_spot else f"sky launch -y -d -c {name}-$i"
    return _for_each(job.instances, f"{start} --env SHARD=$i task.yaml{token}")


def dstack_command(given: Given, gated: bool) -> str:
    """Return the command that launches every machine of the plan; a token is taken from where it runs."""
    del gated
    if given.job.instances == 1:
        return "dstack apply -f task.dstack.yml"
    renamed = rf'sed "s/\({task_name(given.job)}-\|SHARD=\)0$/\1$i/" task.dstack.yml'
    return _for_each(given.job.instances, f"{renamed} | dstack apply -y -d -f -")


_RUN = f'python generate.py "$PROMPTS" {RESULTS} --shard "$SHARD" --shards "$SHARDS"'


def _install(engine: EngineMap) -> str:
    return f"pip install {' '.join(map(shell_word, engine.packages))}"


def _bucket(given: Given, engine: EngineMap, wishes: Wishes) -> str:
    """Return the bucket of the answers: another one for other prompts, and for what else answers depend on."""
    settings = script_settings(given, engine, wishes, [])
    recipe = {"prompts": wishes.dataset or PROMPTS, **{name: settings[name] for name in OF_ANSWERS}}
    return bucket_name("results", given.job, json.dumps(recipe, sort_keys=True))


def run_script(given: Given, engine: EngineMap, remarks: Sequence[str]) -> str:
    """Return the script that one machine runs: packages in an environment of their own, then the prompts."""
    name, machines = task_name(given.job), given.job.instances
    lines = [
        "set -euo pipefail",
        'cd "$(dirname "$0")"',
        *environment_lines(name),
        "pip install -r requirements.txt",
        f'[ $# -gt 0 ] || set -- "${{PROMPTS:-{PROMPTS}}}" results'
        + (f' --shard "${{SHARD:?number of this machine, from 0}}" --shards {machines}' if machines > 1 else ""),
        'exec python generate.py "$@"',
    ]
    command = "bash run.sh" if machines == 1 else "SHARD=NUMBER bash run.sh, from number 0"
    head = header(given.plan, given.job, engine.tool, command, remarks)
    return "#!/usr/bin/env bash\n" + commented(head) + "\n".join(lines) + "\n"


def skypilot_stop(given: Given) -> str:
    """Return the command that stops every machine that the command of SkyPilot launches."""
    job, name = given.job, task_name(given.job)
    if job.instances == 1:
        return filled_command(launch_maps()["skypilot"].stop_command(job), {"name": name})
    stop = f"sky jobs cancel -y -n {name}-$i" if job.spot_share > 0 else f"sky down -y {name}-$i"
    return _for_each(job.instances, stop)


def dstack_stop(given: Given) -> str:
    """Return the command that stops every machine that the command of dstack launches: their names have a number."""
    machines, stop = given.job.instances, f"dstack stop -y {task_name(given.job)}"
    return f"{stop}-0" if machines == 1 else _for_each(machines, f"{stop}-$i")


def _for_each(machines: int, command: str) -> str:
    return f"for i in $(seq 0 {machines - 1}); do {command}; done"


def _remarks(given: Given, note: str, more: Sequence[str]) -> list[str]:
    machines = given.job.instances
    return [
        *([f"{machines} tasks of one machine each: one that is lost stops no other"] if machines > 1 else []),
        "needs generate.py, generate.json and the prompts in the same folder",
        f"the highest price is {100 * (PRICE_MARGIN - 1):.0f} % above that of the plan, per machine and hour",
        *([note] if note else []),
        *more,
    ]


# The files of a job of generation: the script, its settings, and the tasks that launch it.


_TASKS = {
    "skypilot": (skypilot_generation, skypilot_command, skypilot_stop),
    "dstack": (dstack_generation, dstack_command, dstack_stop),
}
"""Launcher -> its task, and the commands that start and stop all machines of it."""
PROMPTS = "prompts.jsonl"
RUN = "python generate.py prompts.jsonl results"


def export_generation(given: Given, targets: Sequence[str], wishes: Wishes, file: str) -> dict[str, str]:
    """Return the task of each target, the script and its settings by the names of the files.

    `InputError` for a target that trains, for a launcher that has no such task, and for an engine without a script.
    """
    engine, maps = engine_of(given, file), launch_maps()
    where, gated = f"jobs.{given.job.name}", _gated_model(given, engine, wishes)
    remarks = [*remarks_of(given, engine, wishes), *([token_remark(gated)] if gated else [])]
    faults, files = [], {}
    for name in targets:
        if name not in _TASKS:
            label = (maps | field_maps())[name].label
            wrong = f"{label} trains, and this job answers prompts" if name in field_maps() else f"no task for {label}"
            faults.append(Fault(file, 0, where, wrong, f"--to {' or --to '.join(_TASKS)}, or --all"))
            continue
        with collect_faults(faults):
            files[maps[name].file] = _TASKS[name][0](given, maps[name], engine, remarks, wishes)
    raise_faults(faults)
    comment = header(given.plan, given.job, engine.tool, RUN, remarks)
    files[GENERATE_SCRIPT] = (data_folder("models") / "exports" / GENERATE_SCRIPT).read_text(encoding="utf-8")
    files["generate.json"] = json.dumps(script_settings(given, engine, wishes, comment), indent=2) + "\n"
    return files


def export_all_generation(given: Given, wishes: Wishes, file: str) -> tuple[dict[str, str], list[str]]:
    """Return the files of a folder to launch from, by name, and which launchers are left out and why."""
    files, left_out, starts = export_generation(given, [], wishes, file), [], dict[str, str]()
    engine = engine_of(given, file)
    gated = _gated_model(given, engine, wishes)
    for name, (_, command, _) in _TASKS.items():
        try:
            files |= export_generation(given, [name], wishes, file)
            starts[name] = command(given, bool(gated))
        except InputError as error:
            left_out.append(f"{launch_maps()[name].file} is left out: {error.faults[0].what}")
    remarks = [*remarks_of(given, engine, wishes), *([token_remark(gated)] if gated else [])]
    files["requirements.txt"] = "".join(f"{package}\n" for package in engine.packages)
    files["run.sh"] = run_script(given, engine, remarks)
    files["README.md"] = _readme(given, sorted(files), starts, gated)
    return files, left_out


def generation_checklist(given: Given, wishes: Wishes, files: Collection[str]) -> Checklist:
    """Return what the files of a job of generation need and leave to a person, and what its machines cost."""
    engine, maps = engine_of(given, "plan"), launch_maps()
    tasks, see_to = [name for name in _TASKS if maps[name].file in files], list[str]()
    model, adapter = _weights(given, engine, wishes)[0], asked_of(given).adapter
    if not model:
        see_to.append(f"generate.json: model: the weights in {generation_of(given).weight_format}, or --model-id")
    if adapter is not None and adapter.served:
        see_to.append("generate.json: adapters: the folder of each")
    if (gated := _gated_model(given, engine, wishes)) is not None:
        see_to.append(f"{TOKEN}: {token_remark(gated)}")
    if "skypilot" in tasks:
        bucket = _bucket(given, engine, wishes)
        see_to.append(f"{maps['skypilot'].file}: bucket: {bucket_remark(bucket, 'the answers')}")
    prompts = wishes.dataset or PROMPTS
    see_to.append(f"{prompts}: the prompts, a line for each")
    hourly = job_hourly(given, [_TASKS[name][2](given) for name in tasks])
    return Checklist((prompts,) if tasks else (), tuple(see_to), (hourly,))


def _readme(given: Given, files: Sequence[str], starts: Mapping[str, str], gated: str | None) -> str:
    """Return what the folder is, how to launch, measure and stop it, and what an hour costs.

    `starts`: the commands by launcher. `gated`: the repository that needs a token.
    """
    job, usd = given.job, usd_per_hour(given)
    launch = "".join(f"    {start}\n" for start in starts.values())
    stops = [f"`{_TASKS[name][2](given)}`" for name in starts]
    first = f"First: {token_remark(gated)}.\n" if gated else ""
    most = "at most " if job.spot_share > 0 else ""
    price = f" Until then {most}${usd:,.2f} per hour." if usd is not None else ""
    of_machine = f"    {'SHARD=NUMBER ' if job.instances > 1 else ''}bash run.sh\n"
    return document(
        f"Files of job {job.name} ({job.gpus} x {job.gpu} at {job.provider}): {', '.join(files)}.\n\n"
        'Prompts: prompts.jsonl, a line for each: {"id": "a1", "prompt": "..."} or {"id": "a1", "messages": [...]}.\n'
        "Answers: parts in the folder of results, in the order of the prompts. What is there is not done again.\n"
        f"{first}"
        f"Stop: {', or '.join((*stops, GIVE_BACK))}.{price}\n\n"
        f"Launch {'one machine' if job.instances == 1 else f'{job.instances} machines'}:\n\n{launch}"
        f"or on the machine itself:\n\n{of_machine}\n"
        "Measure for ten minutes first, on one machine, and correct the plan:\n\n"
        "    bash run.sh --measure measure.json\n"
        f"    planner calibrate measure.json generate.json --gpu {shell_word(job.gpu)} --scenario SCENARIO "
        f"--job {shell_word(job.name)}\n"
    )
