"""What an export needs to know of one job of a plan, by the names that field maps use, and names it refuses."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner.documents.files import data_folder, read_document
from planner.documents.validation import name_fix
from planner.errors import Fault, InputError, printable
from planner.exports.field_map import field_maps
from planner.exports.machine_names import slug
from planner.exports.script_parts import environment_facts, result_step
from planner.library.engines import read_engines
from planner.library.names import is_gated
from planner.library.reading import CardNames, read_library
from planner.library.schema import Architecture
from planner.library.technique_tables import TECHNIQUE_FIELDS, read_techniques
from planner.results.plan import Assignment, Plan
from planner.scenario.inference_job import InferenceJob
from planner.scenario.job import Job
from planner.scenario.scenario import Scenario
from planner.units import GB

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


_DATA_FILE = re.compile(r".*\.(?P<kind>jsonl?|csv|parquet)", re.IGNORECASE)
CHECKPOINT_FOLDER = "/checkpoints"
"""Where a task mounts the bucket that outlives its machines."""


_HYBRID = (
    "ACCELERATE_USE_PARALLELISM_CONFIG=true PARALLELISM_CONFIG_DP_REPLICATE_SIZE={} PARALLELISM_CONFIG_DP_SHARD_SIZE={}"
)
"""Variables of Accelerate (parallelism_config.py of 1.15.0): sharded inside of machines, repeated over them."""
_OF_MLP = {"gate", "up", "down"}


@dataclass(frozen=True)
class Wishes:
    """What the user says in addition to the plan."""

    model_id: str | None = None
    dataset: str | None = None


@dataclass(frozen=True)
class Given:
    """A plan, the scenario that it carries, and the job that is exported."""

    plan: Plan
    scenario: Scenario
    job: Assignment
    whole: Scenario | None = None
    """With the jobs of all kinds, where `scenario` has a part of them."""


def technique_facts(
    techniques: Mapping[str, Any], asked: Job, card: Architecture, gpu: str, sequence: int, dataset: str | None = None
) -> dict[str, Any]:
    """Return the facts that decide whether a tool can carry a run: its techniques, its GPU, what is trained.

    `techniques`: in the spelling of the scenario, `framework`, `lora_rank` and `lora_targets` among them. `sequence`:
    tokens of a row. The search asks for the facts of a candidate, an export for those of the chosen one.
    """
    at_head = techniques["method"] == "lora" and asked.lora.adapt_head
    modules = _lora_modules(techniques["lora_targets"], card.family, at_head)
    facts = {
        **techniques,
        "unit": "tokens" if card.image is None else "images",
        "model": card.name,
        "latents": techniques.get("latents") or "online",
        "swaps_blocks": read_techniques().values.offload.values[techniques["offload"]].swapped > 0,
        "kind": asked.kind,
        "on_spot": False,
        "family": card.family,
        "has_experts": card.experts > 0,
        "experts_16_bit": techniques["method"] == "lora" and asked.lora.experts_16_bit,
        "adapts_experts": _adapts_experts(techniques["lora_targets"], card.family),
        "packing": asked.packing,
        "windowed": _meets_windows(card, sequence),
        "trains_embeddings": techniques["method"] == "lora" and asked.lora.train_embeddings,
        "ema": asked.ema,
        "uses_dora": techniques["method"] == "lora" and asked.lora.dora,
        "lora_modules": modules,
        "adapt_head": at_head,
        "lora_all_linear": modules == ["all-linear"],
        "lora_target_text": _lora_text(modules),
        "has_buckets": card.image is not None and asked.work.aspect_buckets > 1,
        "has_references": card.image is not None and card.image.size(*asked.work.image_size).references > 0,
        **_tower_facts(asked, card, modules),
        **_lora_parts(techniques["lora_targets"], card.family),
        **image_modules(techniques["lora_targets"], card),
        **environment_facts(gpu),
        **_dataset(dataset),
    }
    return facts | _engine(facts)


def _tower_facts(asked: Job, card: Architecture, modules: list[str] | None) -> dict[str, Any]:
    """Return the facts of images next to text: the state of the tower, and the pixels to which a tool shrinks images.

    A tool with a limit of its own must not shrink what the processor lets through, nor the whole image of a tower that
    cuts tiles. `modules` that adapters extend are named in the language model alone, by one pattern: those of a tower
    may have the same names.
    """
    given = asked.work.image_input
    if given is None:
        none = {"has_images": False, "has_pixels": False, "has_tiles": False, "has_video": False}
        return {**none, "tower": None, "image_max_pixels": None, "text_modules": None}
    width, height = given.edges
    stack = "text_model" if card.tower and card.tower.cuts == "grid" else "language_model"  # in Transformers 5
    named = [name for name in modules or () if name != "all-linear"]
    named = named or sorted(read_techniques().linears.chosen(card.family, "all-linear"))
    return {
        "has_images": True,
        "tower": given.tower,
        "has_pixels": given.max_pixels is not None,
        "has_tiles": given.max_tiles is not None,
        "has_video": given.frames is not None,
        "image_max_pixels": given.max_pixels or max(width * height, card.tower.max_pixels if card.tower else 0),
        "text_modules": None if modules is None else f".*{stack}.*[.]({'|'.join(named)})",
    }


def image_modules(targets: str | tuple[str, ...] | None, card: Architecture) -> dict[str, Any]:
    """Return the linear layers of a network of images that adapters extend, by the ends of their names in diffusers."""
    named = card.image is not None and targets not in (None, "attention", "all-linear")
    if card.image is None or targets is None or named:
        return {"image_modules": None, "image_module_text": None, "names_modules": named}
    table = _module_table()
    rows = table["families"].get(card.family, table["default"])
    listed = [*rows["attention"], *(rows["others"] if targets == "all-linear" else [])]
    modules = [name for pattern in listed for name in _numbered(pattern)]
    return {"image_modules": modules, "image_module_text": ",".join(modules), "names_modules": False}


def _numbered(name: str) -> list[str]:
    """Return the names of `blocks.0..47.to_out`, one for each number; a plain name as it is."""
    match = re.fullmatch(r"(.*\.)0\.\.(\d+)(\..*)", name)
    return [name] if match is None else [f"{match[1]}{number}{match[3]}" for number in range(int(match[2]) + 1)]


@cache
def _module_table() -> dict[str, Any]:
    data: dict[str, Any] = read_document(data_folder("models") / "exports" / "networks" / "modules.yaml").data
    return data


def _image_facts(asked: Job, card: Architecture, dataset: str | None) -> dict[str, Any]:
    """Return size and place of the images of a job: a folder where the path looks like one, else the Hub."""
    named = card.image is not None and dataset is not None
    folder = named and (str(dataset).startswith((".", "/", "~")) or Path(str(dataset)).is_dir())
    size = card.image.size(*asked.work.image_size) if card.image is not None else None
    frames = size.frames if size is not None else 1
    return {
        "resolution": size.resolution if size is not None else None,
        "crops": asked.work.aspect_buckets == 1,
        "is_folder": folder,
        "image_folder": dataset if folder else None,
        "image_place": dataset if folder else "images",
        "frames": frames,
        "image_dataset": None if folder else dataset,
        "data_type": "local" if folder or dataset is None else "huggingface",
        "metadata_backend": None if folder or dataset is None else "huggingface",
        "caption_strategy": "textfile" if folder or dataset is None else "huggingface",
        "caption_column": "text",
        "sample_type": "video" if frames > 1 else "image",
        "video": {"num_frames": frames} if frames > 1 else None,
    }


_MIXED = {"fp16_mixed": "MIXED_PRECISION=fp16", "fp32": "MIXED_PRECISION=no", "tf32": "MIXED_PRECISION=no"}
"""Variable by which SimpleTuner's launcher is given what is not bf16 (cli/train.py of 4.8.0)."""


def _meets_windows(card: Architecture, sequence: int) -> bool:
    """Return whether a row of tokens is longer than a window of attention, outside of which flash kernels skip."""
    windows = (card.sliding_window, *(getattr(part, "window", 0) or 0 for part in card.parts))
    return any(0 < window < sequence for window in windows)


def job_facts(given: Given, wishes: Wishes, on_task: bool) -> dict[str, Any]:
    """Return the facts of the job that is exported.

    `on_task`: the job is launched by a task that mounts a folder for checkpoints.
    """
    scenario, job = given.scenario, given.job
    techniques = job.techniques.model_dump() | {"framework": job.framework or job.techniques.framework}
    asked = next(scenario_job for scenario_job in scenario.jobs if scenario_job.name == job.name)
    (card,) = read_library([job.architecture]).architectures.values()
    step = result_step(job, scenario)
    sharding = read_techniques().values.sharding.values[job.techniques.sharding]
    facts = {
        **technique_facts(techniques, asked, card, job.gpu, job.sequence_length, wishes.dataset),
        "unit": "tokens" if job.unit == "tokens" else "images",  # of maps: tools of images train videos, too
        "on_spot": job.spot_share > 0,
        "gpus": job.gpus,
        "gpus_per_instance": job.gpus_per_instance,
        "instances": job.instances,
        "several_machines": job.instances > 1,
        "sequence_length": job.sequence_length,
        "global_batch": job.global_batch,
        "packing": job.packing,
        "cuts_samples": any(cut.job == job.name for cut in given.plan.cut),
        "steps_before": job.steps_before,
        "steps": job.steps_before + job.steps,  # tools count those of a resumed run from its beginning
        "last_step": job.steps + job.steps_before,
        "lora_alpha": 2 * (techniques["lora_rank"] or 0),
        **start_facts(job.name, given.whole or scenario, card, wishes),
        "result": step,
        "result_remarks": step.remarks() if step is not None else [],
        "multi_gpu": "--multi_gpu" if job.gpus > 1 else "",
        "hybrid_variables": _HYBRID.format(job.instances, job.gpus_per_instance) if sharding.hybrid else "",
        "gathered_gb": math.ceil(_gathered_bytes(techniques, card.parameters) / GB),
        "output_dir": f"{CHECKPOINT_FOLDER if on_task else 'out'}/{_folder(job.name)}",
        **_saving(job, asked),
        **(_image_facts(asked, card, wishes.dataset) | {"mixed_variable": _MIXED.get(techniques["precision"], "")}),
    }
    facts["recipe"] = _recipe(facts)
    if facts["engine"] == "deepspeed":
        facts["deepspeed_config"] = field_maps()["deepspeed"].settings(facts)
    return facts


_RECIPE = (
    *("model_id", "dataset_path", "method", "lora_rank", "lora_alpha", "lora_targets", "quant", "precision"),
    *("optimizer", "sequence_length", "packing", "global_batch", "steps", "uses_dora", "adapt_head"),
)
"""Facts that must be equal for a run to go on from the checkpoints of another: other machines may, another job not."""


def _recipe(facts: Mapping[str, Any]) -> str:
    """Return model, data and recipe of a run in one line: `model_id=...; method=lora; ...; steps=1200`."""
    said = {name: facts[name] for name in _RECIPE if facts[name] is not False}
    values = {name: value for name, value in said.items() if value not in (None, "none")}
    if values["method"] == "full":
        values.pop("lora_alpha")
    texts = {name: ",".join(value) if isinstance(value, (list, tuple)) else value for name, value in values.items()}
    return "; ".join(f"{name}={printable(str(value))}" for name, value in texts.items())


def _folder(name: str) -> str:
    """Return the name of the folder of a job; a name that is none for a folder, such as `a/../b`, becomes one."""
    return name if re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.@+-]*", name) else slug(name)


def _gathered_bytes(techniques: Mapping[str, Any], parameters: float) -> float:
    """Return the most bytes that one process holds while it saves sharded states as a whole.

    Weights in the type that is trained, and after them two moments of AdamW in the same type, where all are trained.
    """
    full = techniques["method"] == "full"
    weight_bytes = read_techniques().bytes.training[techniques["precision"]].weight_bytes if full else 2
    return parameters * weight_bytes * (2 if full else 1)


def unknown_values(job: Assignment) -> list[str]:
    """Return the techniques of an edited plan whose value the planner does not know."""
    table, chosen = read_techniques(), job.techniques.model_dump()
    return [f"{field} {chosen[field]}" for field in TECHNIQUE_FIELDS if chosen[field] not in table.planned(field)]


def start_facts(name: str, scenario: Scenario, card: Architecture, wishes: Wishes) -> dict[str, Any]:
    """Return the weights that a job starts from, and what of the jobs before it goes in.

    Where one of them trains the same model, its result is meant, whose place no plan knows: the user names it.
    """
    waits = {wait.job for job in scenario.jobs if job.name == name for wait in job.after}
    earlier = [job for job in scenario.jobs if job.name in waits]
    trained = [job.name for job in earlier if not isinstance(job, InferenceJob) and _is_of(job.architecture, card)]
    others = [job.name for job in earlier if job.name not in trained]
    model, remarks = wishes.model_id or (None if trained else repository_of(card.aliases)), []
    if trained:
        given = f"must be {model}" if model else "goes in: its folder or repository is --model-id"
        remarks.append(f"the result of {' or '.join(trained)}, which trains the same model, {given}")
    if others:
        remarks.append(f"it starts after {' and '.join(others)}: put in what it needs of the result")
    return {"model_id": model, "needs_token": is_gated(model), "start_remarks": remarks}


def _is_of(name: str, card: Architecture) -> bool:
    """Return whether a name of a scenario is that of a card."""
    return name == card.name or read_library([name]).architecture(name).name == card.name


def repository_of(aliases: tuple[str, ...]) -> str | None:
    """Return the repository of the release that a card describes; None where it names none."""
    return next((alias for alias in aliases if "/" in alias), None)


def _lora_modules(targets: str | tuple[str, ...] | None, family: str, at_head: bool) -> list[str] | None:
    """Return the modules that adapters extend: `all-linear`, or the names that the family has for them.

    PEFT's `all-linear` leaves the output layer out, so with adapters `at_head` all modules are named; it stops in
    families with a module that PEFT refuses.
    """
    if targets is None:
        return None
    linears = read_techniques().linears
    if targets == "all-linear" and not at_head and family not in linears.named:
        return [targets]
    return [*linears.chosen(family, targets), *(["lm_head"] if at_head else [])]


def _adapts_experts(targets: str | tuple[str, ...] | None, family: str) -> bool:
    """Return whether adapters extend routed experts."""
    linears = read_techniques().linears
    routed = {path for path, parts in linears.of(family).items() if any(part.startswith("experts.") for part in parts)}
    ends = {path.rpartition(".")[2] for path in routed}
    return targets is not None and bool(set(linears.chosen(family, targets)) & (routed | ends))


def _lora_text(modules: list[str] | None) -> str | None:
    """Return the modules in one text, as LLaMA-Factory reads them."""
    return None if modules is None else "all" if modules == ["all-linear"] else ",".join(modules)


def _lora_parts(targets: str | tuple[str, ...] | None, family: str) -> dict[str, bool]:
    """Return which matrices of a layer adapters extend, as LitGPT asks for them: q, k, v, o, and the MLP as a whole.

    Adapters on `q` and `v` alone: `lora_on_q` and `lora_on_v` are true, the others false.
    """
    linears = read_techniques().linears
    modules = linears.of(family)
    chosen = set(linears.chosen(family, targets)) if targets is not None else set()
    on = {part for path, parts in modules.items() if chosen & {path, path.rpartition(".")[2]} for part in parts}
    mlp = {part for parts in modules.values() for part in parts if part.rpartition(".")[2] in _OF_MLP}
    return {
        **{f"lora_on_{part}": part in on for part in "qkvo"},
        "lora_on_mlp": bool(mlp) and mlp <= on,
        "lora_on_part_of_mlp": bool(mlp & on) and not mlp <= on,
    }


def _dataset(dataset: str | None) -> dict[str, Any]:
    """Return a dataset of the Hub by its name, and files as the loader of `datasets` wants them."""
    match = _DATA_FILE.fullmatch(dataset or "")
    kind = match["kind"].lower().replace("jsonl", "json") if match else None
    return {
        "has_dataset": dataset is not None,
        "has_data_file": kind is not None,
        "dataset_name": None if kind else dataset,
        "dataset_path": dataset,
        "dataset_files": [{"path": kind, "data_files": [dataset]}] if kind else None,
        "dataset_kind": kind,
    }


def _saving(job: Assignment, asked: Job) -> dict[str, Any]:
    """Return how often a checkpoint is saved: as the policy on spot assumes, and as the stage of the job asks."""
    stage = asked.stages.checkpoints
    steps = [max(job.steps // stage.count, 1)] if stage else []
    if job.spot is not None and job.step_seconds > 0:
        steps.append(max(int(job.spot.checkpoint_interval_hours * 3600 / job.step_seconds), 1))
    if not steps and job.steps_before:  # the rest of a run that has checkpoints has them as often
        steps.append(max(min(job.steps_before, job.steps), 1))
    return {
        "saves": bool(steps),
        "save_steps": min(steps, default=None),
        "save_limit": max(stage.keep if stage else 1, 2 if job.spot is not None else 1),
        "save_weights_only": stage is not None and stage.contents == "weights" and job.spot is None,
    }


def _engine(facts: dict[str, Any]) -> dict[str, Any]:
    """Return what shards the states, by the accounting of the estimate (`configurations/coefficients.py`).

    The stages 1 and 2, and an optimizer alone in host memory, are those of DeepSpeed; stage 3 is FSDP but where the
    framework is DeepSpeed itself. On one GPU an optimizer in host memory is that of stage 2. Megatron shards its own.
    """
    values = read_techniques().values
    sharding = values.sharding.values[facts["sharding"]]
    hosted = values.offload.values[facts["offload"]]
    stage = sharding.zero_stage
    if read_techniques().frameworks[facts["framework"]].megatron:
        return {"engine": "megatron", "zero_stage": stage, "hybrid": False}
    if stage in (1, 2) or (hosted.optimizer and not hosted.weights) or (stage and facts["framework"] == "deepspeed"):
        return {"engine": "deepspeed", "zero_stage": stage or 2, "hybrid": sharding.hybrid}
    return {"engine": "fsdp" if stage else "none", "zero_stage": stage, "hybrid": sharding.hybrid}


def check_names(plan: Plan, path: str) -> None:
    """Raise InputError that names each GPU, engine and technique of a plan file that the library does not have."""
    faults = [Fault(path, 0, where, f"unknown: {name!r}", fix) for where, name, fix in _unknown(plan)]
    if faults:
        raise InputError(faults)


def _unknown(plan: Plan) -> Iterator[tuple[str, str, str]]:
    """Yield place, name and what may have been meant of each unknown name."""
    gpus, engines, techniques = CardNames("gpus"), read_engines().engines, read_techniques()
    named_gpus = [(f"jobs.{part.name}.{place}", gpu) for part in plan.planned for place, gpu in part.gpus_named]
    named_engines = [(f"jobs.{part.name}.{place}", name) for part in plan.planned for place, name in part.engines_named]
    yield from ((place, gpu, gpus.suggestion(gpu)) for place, gpu in named_gpus if gpus.canonical(gpu) is None)
    yield from ((place, name, name_fix(name, sorted(engines))) for place, name in named_engines if name not in engines)
    for job in plan.jobs:
        if job.inference is not None or not job.gpus:
            continue
        for field in TECHNIQUE_FIELDS:
            value = getattr(job.techniques, field)
            if isinstance(value, str) and value not in techniques.planned(field):
                known = sorted(map(str, techniques.allowed(field)))
                yield f"jobs.{job.name}.techniques.{field}", value, name_fix(value, known)
