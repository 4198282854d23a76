"""What the exported script is given: every setting that the estimate assumed, and the commands that say it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from planner.errors import Fault, InputError
from planner.exports.generation.engine_map import EngineMap, engine_maps, filled
from planner.library.inference.engines import read_engines
from planner.library.reading import read_library
from planner.scenario.inference import InferenceJob
from planner.units import GIB

if TYPE_CHECKING:
    from planner.exports.facts import Given, Wishes
    from planner.results.inference import BulkGeneration

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
    job, maps = given.job, {name: one for name, one in engine_maps().items() if one.measure}
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
        what = f"{tool.label} serves no adapters of rank {asked.adapter.rank}"
        faults.append(Fault(file, 0, where, what, f"a rank up to {max(tool.ranks)}"))
    if job.gpus_per_instance < made.gpus_per_replica:
        what = f"a replica of {made.gpus_per_replica} GPUs does not fit on a machine of {job.gpus_per_instance}"
        faults.append(Fault(file, 0, where, what, "planner check lists every edited figure; solve it again"))
    if faults:
        raise InputError(faults)
    return tool


def generation_of(given: Given) -> BulkGeneration:
    """Return what the plan says of the generation; the caller knows that it has some."""
    assert given.job.inference is not None
    return given.job.inference


def asked_of(given: Given) -> InferenceJob:
    """Return the job as the scenario states it."""
    (asked,) = (one for one in given.scenario.jobs if one.name == given.job.name)
    assert isinstance(asked, InferenceJob)
    return asked


def script_settings(given: Given, tool: EngineMap, wishes: Wishes, comment: list[str]) -> dict[str, Any]:
    """Return the content of `generate.json`.

    The engine admits as many requests as the estimate let it, its memory is the share that the estimate gave it, and
    its longest context holds the longest prompt with the longest answer.
    """
    job, made, asked = given.job, generation_of(given), asked_of(given)
    engine = read_engines().engines[made.engine]
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
        "max_num_seqs": engine.sequences,
        "max_model_len": max(one.input_tokens for one in asked.work.classes) + longest,
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
        "concurrency": math.ceil(QUEUED * engine.sequences),
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
    more = (
        *(tool.made[made.weight_format] if made_here else tool.formats[made.weight_format]),
        *tool.cache[made.kv_bits],
    )
    serve = (*tool.serve, *more, *tool.prefix[made.prefix_tokens > 0], *(tool.adapters if served else ()))
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
    found = []
    if not model and asked.adapter is not None and not asked.adapter.served:
        found.append("name the merged weights: model in generate.json, or --model-id")
    elif not model:
        found.append(f"name weights in {made.weight_format}: model in generate.json, or --model-id")
    elif made_here:
        found.append(f"{tool.label} makes {made.weight_format} of the 16-bit weights of {model} while it loads them")
    elif made.weight_format != "bf16":
        found.append(f"{model} must hold weights in {made.weight_format}")
    if asked.adapter is not None and asked.adapter.served:
        found.append("adapters in generate.json: the folder of each; a prompt names its own as adapter")
    if asked.work.lengths:
        found.append("answers are cut at the longest output of the job (max_tokens)")
    else:
        found.append(
            f"answers are cut at {_longest_answer(given):,} tokens (max_tokens); the plan counts on their mean"
        )
    return found


def _longest_answer(given: Given) -> int:
    """Return the tokens at which answers are cut: the longest that is listed, or room above the mean.

    Never longer than the cache and the model hold with the longest prompt. 150 tokens in the mean: 600.
    """
    work, made = asked_of(given).work, generation_of(given)
    prompt = max(one.input_tokens for one in work.classes)
    longest = max(one.output_tokens for one in work.classes)
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


def _capability(gpu: str) -> float:
    card = read_library([]).gpu(gpu)
    return float(card.compute_capability) if card.vendor == "NVIDIA" else 9.0
