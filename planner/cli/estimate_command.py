"""`estimate`: memory and speed of one configuration."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import click

from planner import generation, reinforcement
from planner.cli.options import Day, OptionTable, json_option, table_options, technique_options
from planner.cli.output import Output, show_next
from planner.errors import Fault, ScenarioError

if TYPE_CHECKING:
    from collections.abc import Callable

    from planner.results.estimate import Estimate

CHOICES: OptionTable = {
    # option: type, values and help; a wrong value is refused by the planner, which suggests one
    "packing": (None, "packed|padded|fixed|padding_free", "[packed]"),
    "interconnect": (None, "nvlink|nvswitch|pcie|ici", "Between the GPUs of a machine [that of the GPU]"),
}

NUMBERS: OptionTable = {
    "gpus": (int, None, "Number of GPUs in total [1]"),
    "instances": (int, None, "Number of machines [8 GPUs each]"),
    "ram-gb": (float, None, "Host memory of one machine in GB, for offloaded states"),
    "network-gbps": (float, None, "Network of one machine in Gbit/s, if there are several"),
    "sequence-length": (str, "N", "Tokens per sequence, such as 16k [what holds a sample; 2048]"),
    "micro-batch": (int, None, "Sequences per GPU and step [the largest that fits]"),
    "accumulation-steps": (int, None, "Micro-batches per optimizer step [1]"),
    "global-batch": (str, "N", "Sequences per optimizer step over all GPUs"),
    "tokens-per-sample": (str, "N", "Mean length of samples"),
    "length-cv": (float, None, "Coefficient of variation of these lengths [0.8]"),
    "lora-rank": (int, None, "Rank of the adapters [16]"),
    "tensor-parallel": (int, None, "GPUs that share each layer [1]"),
    "pipeline-parallel": (int, None, "GPUs among which the layers are divided [1]"),
    "context-parallel": (int, None, "GPUs that share each sequence [1]"),
    "expert-parallel": (int, None, "GPUs that share the experts of a mixture [1]"),
    "resolution": (int, None, "Pixels per side, for a diffusion model"),
    "frames": (int, None, "Frames of a sample, for a model that makes videos"),
    "vram-headroom": (float, None, "Share of memory kept free, instead of the profile's margin"),
}


INFERENCE: OptionTable = {
    "input": (str, "N", "Tokens of a prompt [1024]"),
    "output": (str, "N", "Tokens of an answer [128]"),
    "prefix": (str, "N", "Tokens of the prompt that all requests share [0]"),
    "engine": (str, "NAME", "vllm, sglang, trt-llm, llama.cpp, exllamav2, hf ... [vllm]"),
    "weight-format": (str, "NAME", "Such as fp8, awq, gguf-q4_k_m [the engine's first of --weight-bits]"),
    "kv-bits": (int, "16|8|4", "Bits of keys and values [16]"),
    "concurrency": (int, None, "Requests in flight [memory, or the engine's default]"),
    "requests": (str, "N", "Requests of a finite batch, which has a start and an end"),
    "memory-share": (float, None, "Share of a GPU's memory for the engine [that of the engine]"),
    "engine-release": (str, "VERSION", "Such as 0.11: what its start leaves to the cache [the least of all]"),
    "use": (None, "server|offline", "Prompts of clients, or all at once from a script [server]"),
    "usd-per-gpu-hour": (float, None, "Price [the least of the shipped market]"),
}
"""Options of --inference."""

RL: OptionTable = {
    "prompts": (str, "N", "Prompts of a step [128]"),
    "answers": (str, "N", "Answers to each prompt [8]"),
    "longest-output": (str, "N", "Tokens at which an answer is cut [4 times the mean]"),
    "output-cv": (float, None, "Coefficient of variation of the lengths of answers [0.8]"),
    "updates": (int, None, "Optimizer steps for the answers of one step [1]"),
    "sampled-per-kept": (float, None, "Answers sampled for each that is trained on [dapo 3, else 1]"),
    "rollout-gpus": (int, None, "GPUs that only sample [the training GPUs do both in turn]"),
    "rollout-gpu": (str, "NAME", "GPU of the engines, where it is another"),
    "rollout-parallel": (int, None, "GPUs of one engine [the number with the fastest rollout]"),
    "steps": (str, "N", "Steps in all [100]"),
    "rollout-usd-per-gpu-hour": (float, None, "Price of a GPU that only samples [as a training GPU of the kind]"),
}
"""Options of --rl, next to --input, --output and --usd-per-gpu-hour, which are means there, and those of training."""

PREFERENCE_OPTIONS: OptionTable = {
    "pairs": (str, "N", "Examples: a prompt with a chosen and a rejected answer [10,000]"),
    "pairs-at-once": (int, None, "Examples on one GPU in one pass [1]"),
    "compared-with": (None, "model|adapter|precomputed|none", "The reference [adapter; model in full training]"),
}
"""Options of --preference, next to --input, --output, --longest-output and --usd-per-gpu-hour."""


@click.command()
@click.argument("model", required=False)
@click.argument("card", metavar="[GPU]", required=False)
@click.option(
    "--model",
    "--architecture",
    "architecture",
    metavar="NAME",
    help="In place of MODEL: a name, a repository or a config.json.",
)
@click.option("--gpu", metavar="NAME", help="In place of GPU: name or alias, also with a count: 2xA100.")
@click.option("--framework", metavar="NAME", help="Framework profile of the estimates [hf]")
@click.option(
    "--lora-targets", metavar="SET|LIST", help="all-linear, attention, qv, or such as q,k,v or qkv_proj [all-linear]"
)
@table_options(NUMBERS)
@technique_options
@table_options(CHOICES)
@click.option("--dora", is_flag=True, default=None, help="Adapters with magnitudes (DoRA).")
@click.option("--adapt-head", is_flag=True, default=None, help="Adapters at the output layer, too.")
@click.option("--experts-16-bit", is_flag=True, default=None, help="Routed experts in 16 bits on a quantised base.")
@click.option("--inference", is_flag=True, help="Estimate generation in place of training, with the options below.")
@table_options(INFERENCE)
@click.option("--rl", metavar="ALGORITHM", help="Estimate steps of grpo, dapo, rloo, ppo or reinforce++.")
@table_options(RL)
@click.option("--overlap", is_flag=True, default=None, help="Sample the next step's answers while the trainer works.")
@click.option("--reference/--no-reference", default=None, help="Whether a reference policy is compared with.")
@click.option("--preference", metavar="OBJECTIVE", help="Estimate tuning on pairs by dpo, kto, orpo or simpo.")
@table_options(PREFERENCE_OPTIONS)
@click.option("--largest-batch", is_flag=True, help="Also find the largest micro-batch that fits.")
@click.option("--longest-sequence", is_flag=True, help="Also find the longest sequence that fits.")
@json_option
@click.option(
    "--as-of", type=Day(), metavar="DATE", expose_value=False, help="Accepted and ignored: no date enters an estimate."
)
def estimate(as_json: bool, lora_targets: str | None, model: str | None, card: str | None, **settings: Any) -> None:
    """Estimate memory and speed of one configuration, by part.

    Options that are not given take the value [in brackets]; the output
    lists these values.

    Try: planner estimate mistral-7b A10G --weight-bits 4
    """
    from planner.analysis.estimate_question import estimate as estimate_configuration
    from planner.report.estimate_text import render_estimate

    settings |= {"architecture": _one_of("MODEL", model, "--model", settings["architecture"])}
    settings |= {"gpu": _one_of("GPU", card, "--gpu", settings["gpu"])}
    given = {name: value for name, value in settings.items() if value is not None}
    serves, algorithm = given.pop("inference"), given.pop("rl", None)
    if algorithm is not None and given.get("preference") is not None:
        raise click.UsageError("give --rl or --preference, not both", click.get_current_context())
    if algorithm is not None:
        return _reinforcement(as_json, lora_targets, {**given, "algorithm": algorithm}, serves)
    if (objective := given.pop("preference", None)) is not None:
        return _preference(as_json, lora_targets, {**given, "objective": objective}, serves)
    if stray := sorted(PREFERENCE_NAMES & given.keys()):
        raise click.UsageError(f"--{stray[0].replace('_', '-')} needs --preference", click.get_current_context())
    if stray := sorted(RL_NAMES & given.keys()):
        raise click.UsageError(f"--{stray[0].replace('_', '-')} needs --rl", click.get_current_context())
    if serves:
        return _inference(as_json, lora_targets, given)
    if stray := sorted(INFERENCE_NAMES & given.keys()):
        raise click.UsageError(f"--{stray[0].replace('_', '-')} needs --inference", click.get_current_context())
    found = _print_answer(as_json, lora_targets, given, estimate_configuration, render_estimate)
    if not as_json:
        show_next(_next_command(given["architecture"], found))


TOKENS_TO_REPLACE = "50M"
"""Tokens of the printed question: an estimate is not asked for any."""


def _next_command(model: str, estimate: Estimate) -> str:
    """Return the command that asks what the model costs to train by that method, on whatever GPU is cheapest.

    Images can only be asked for by a file.
    """
    if estimate.unit == "images":
        return ""
    asked = ["planner", "solve", "--model", model, "--tokens", TOKENS_TO_REPLACE]
    return f"{shlex.join([*asked, '--method', estimate.techniques.method])}  # {TOKENS_TO_REPLACE}: an example"


INFERENCE_NAMES = {name.replace("-", "_") for name in INFERENCE}
RL_NAMES = {*(name.replace("-", "_") for name in RL), "overlap", "reference"}
PREFERENCE_NAMES = {name.replace("-", "_") for name in PREFERENCE_OPTIONS}
RL_ALSO = {"input", "output", "usd_per_gpu_hour"}
"""Options that generation and reinforcement learning share."""
INFERENCE_ALSO = {
    "architecture",
    "gpu",
    "gpus",
    "instances",
    "weight_bits",
    "tensor_parallel",
    "interconnect",
    "network_gbps",
    "vram_headroom",
}
"""Options that training and generation share."""


def _inference(as_json: bool, lora_targets: str | None, given: dict[str, Any]) -> None:
    """Print the estimate of generation; an option of training alone is a fault."""
    flags = {"largest_batch", "longest_sequence"}
    stray = {name for name in given.keys() - flags if name not in INFERENCE_NAMES | INFERENCE_ALSO}
    stray |= {name for name in flags if given.pop(name)} | ({"lora_targets"} if lora_targets is not None else set())
    if stray:
        raise click.UsageError(
            f"--{min(stray).replace('_', '-')} is about training: leave it out with --inference",
            click.get_current_context(),
        )
    try:
        found = generation.estimate_inference(**given)
    except ScenarioError as error:
        raise ScenarioError([_as_option(fault) for fault in error.faults]) from None
    Output(as_json).write(found, generation.render_inference, color=True)


def _reinforcement(as_json: bool, lora_targets: str | None, given: dict[str, Any], serves: bool) -> None:
    """Print the estimate of steps of reinforcement learning; what it does not read is a fault."""
    _refuse_others(given, "--rl", RL_NAMES | RL_ALSO, serves)
    _print_answer(as_json, lora_targets, given, reinforcement.estimate_rl, reinforcement.render_rl)


def _preference(as_json: bool, lora_targets: str | None, given: dict[str, Any], serves: bool) -> None:
    """Print the estimate of preference tuning; what it does not read is a fault."""
    _refuse_others(given, "--preference", PREFERENCE_NAMES | RL_ALSO | {"longest_output"}, serves)
    _print_answer(as_json, lora_targets, given, reinforcement.estimate_preference, reinforcement.render_preference)


def _refuse_others(given: dict[str, Any], option: str, own: set[str], serves: bool) -> None:
    """Raise a fault for options of other estimates."""
    flags = {name for name in ("largest_batch", "longest_sequence") if given.pop(name)}
    others = INFERENCE_NAMES | RL_NAMES | PREFERENCE_NAMES
    stray = flags | ((others - own) & given.keys()) | ({"inference"} if serves else set())
    if stray:
        raise click.UsageError(
            f"--{min(stray).replace('_', '-')} does not go with {option}: leave it out", click.get_current_context()
        )


def _print_answer(
    as_json: bool,
    lora_targets: str | None,
    given: dict[str, Any],
    ask: Callable[..., Any],
    render: Callable[[Any], str],
) -> Any:
    """Print an estimate and return it; faults name options."""
    if lora_targets is not None:
        given["lora_targets"] = _targets(lora_targets)
    try:
        found = ask(**given)
    except ScenarioError as error:
        raise ScenarioError([_as_option(fault) for fault in error.faults]) from None
    Output(as_json).write(found, render, color=True)
    return found


def _one_of(name: str, argument: str | None, option: str, value: str | None) -> str:
    """Return what was given by position or by option."""
    if (argument is None) == (value is None):
        what = (
            f"missing {name}: planner estimate mistral-7b A10G"
            if argument is None
            else f"{name} and {option}: keep one"
        )
        raise click.UsageError(what, click.get_current_context())
    return str(argument or value)


def _targets(text: str) -> str | list[str]:
    """Return a set by its name, or a list of linear layers."""
    from typing import get_args

    from planner.documents.validation import find_name
    from planner.scenario.techniques import TargetSet

    return find_name(text, get_args(TargetSet)) or [part.strip() for part in text.split(",")]


OTHER_NAMES = {"algorithm": "rl", "objective": "preference"}
"""Settings whose option has another name."""


def _as_option(fault: Fault) -> Fault:
    """Return the fault with the name of the option instead of that of the setting."""
    option = fault.where.replace("lora.", "lora_").partition(".")[0]
    option = OTHER_NAMES.get(option, option)
    where = f"--{option.replace('_', '-')}" if option else ""
    return fault._replace(file="planner estimate", where=where)
