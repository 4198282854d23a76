"""`estimate`, `track` and `calibrate`: the speed of a run before it starts, and its logs against its plan."""

from __future__ import annotations

import shlex
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from planner import generation, reinforcement
from planner.cli.options import (
    Day,
    OptionTable,
    check_supported,
    decided_scenario_of,
    finite,
    json_option,
    meant_job,
    read_plan,
    solve_options,
    table_options,
    technique_options,
)
from planner.cli.output import INFEASIBLE, Output, show, show_next
from planner.errors import Fault, InputError, ScenarioError
from planner.results.plan import Plan, plan_text
from planner.scenario.scenario import Scenario, SolveOptions
from planner.subjects import check_named, planner_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from planner.results.run_results import Estimate


CHOICES: OptionTable = {
    # option: type, values and help; a wrong value is refused by the planner, which suggests one
    "packing": (None, "packed|padded|fixed|padding_free", "[packed]"),
    "tower": (None, "frozen|lora|trained", "The image tower [frozen]"),
    "ema": (None, "none|gpu|host", "Where an average of the trained weights lies, of a diffusion model [none]"),
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
    "frames": (int, None, "Frames of a sample, for a model that makes or reads videos"),
    "reference-images": (int, None, "Images that a diffusion model reads next to each [as released]"),
    "image-size": (str, "WxH", "Pixels of images next to text, such as 1280x720, for a vision-language model"),
    "images-per-sample": (float, None, "Of these images in a sample, in the mean [1]"),
    "max-pixels": (str, "N", "Pixels to which its processor shrinks an image [as released]"),
    "max-tiles": (int, None, "Tiles that its processor cuts at most [as released]"),
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
    "rollout-weight-bits": (int, "16|8", "Bits of the engines' weights, 8 is fp8 [16]"),
    "rollout-engine": (str, "NAME", "vllm or sglang [vllm]"),
    "reward-model": (str, "NAME", "Model that scores each answer in one pass [rewards are by rule]"),
    "reward-gpus": (int, None, "GPUs that only score, of the trainer's kind [the training GPUs do]"),
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
@click.option("--reward-offload", is_flag=True, default=None, help="The reward model lies in host memory in between.")
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
    from planner.report.run_text import render_estimate

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
    answer = _print_answer(as_json, lora_targets, given, estimate_configuration, render_estimate)
    if not as_json and "image_size" not in given:  # which only a file can ask for
        show_next(_next_command(given["architecture"], answer))


TOKENS_TO_REPLACE = "50M"
"""Tokens of the printed question: an estimate is not asked for any."""


def _next_command(model: str, estimate: Estimate) -> str:
    """Return the command that asks what the model costs to train by that method, on whatever GPU is cheapest.

    Images can only be asked for by a file.
    """
    if estimate.unit != "tokens":
        return ""
    asked = ["planner", "solve", "--model", model, "--tokens", TOKENS_TO_REPLACE]
    return f"{shlex.join([*asked, '--method', estimate.techniques.method])}  # {TOKENS_TO_REPLACE}: an example"


INFERENCE_NAMES = {name.replace("-", "_") for name in INFERENCE}
RL_NAMES = {*(name.replace("-", "_") for name in RL), "overlap", "reference", "reward_offload"}
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
    "image_size",
    "images_per_sample",
    "max_pixels",
    "max_tiles",
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
        answer = generation.estimate_inference(**given)
    except ScenarioError as error:
        raise ScenarioError([_as_option(fault) for fault in error.faults]) from None
    Output(as_json).write(answer, generation.render_inference, color=True)


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
        answer = ask(**given)
    except ScenarioError as error:
        raise ScenarioError([_as_option(fault) for fault in error.faults]) from None
    Output(as_json).write(answer, render, color=True)
    return answer


def _one_of(name: str, argument: str | None, option: str, value: str | None) -> str:
    """Return what was given by position or by option."""
    if (argument is None) == (value is None):
        problem = (
            f"missing {name}: planner estimate mistral-7b A10G"
            if argument is None
            else f"{name} and {option}: keep one"
        )
        raise click.UsageError(problem, click.get_current_context())
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


# `track`: a running job against its plan.


WATCH_SECONDS = 60


@click.command()
@click.argument("plan_file", metavar="PLAN")
@click.argument("logs", metavar="LOG...", nargs=-1, required=True)
@click.option("--started", metavar="TIME", help="When the machines were ordered, such as '2026-11-25 09:00 UTC'.")
@click.option(
    "--spent",
    "spent_usd",
    type=click.FloatRange(min=0, max=1e15),
    callback=finite,
    metavar="USD",
    help="Dollars spent so far.",
)
@click.option("--now", metavar="TIME", help="Count hours up to this time (default: the last logged step).")
@click.option("--job", metavar="NAME", help="The job, where the plan has several.")
@click.option("--replan", is_flag=True, help="Plan what is left: stay on these machines, or move to others.")
@click.option("--scenario", metavar="SCENARIO", help="Offers to move to (default: those that the plan names).")
@click.option("-o", "--output", "path", metavar="FILE", help="Also write the new plan to FILE as JSON.")
@click.option("--watch", is_flag=True, help=f"Read the logs again every {WATCH_SECONDS} seconds until the run is done.")
@json_option
@solve_options(solver=False)
def track(
    plan_file: str, logs: Sequence[str], job: str | None, as_json: bool, options: SolveOptions, **given: Any
) -> None:
    """Compare a running job with its PLAN, and project when it will end.

    LOG is a trainer_state.json, trainer_log.jsonl, the console output of
    Transformers, torchtitan, torchtune, Megatron, NeMo, Composer, LitGPT or
    nanoGPT, a CSV of Weights & Biases, TensorBoard or with step and seconds, or
    a log of nvidia-smi; of a job of kind: rl a log of TRL, verl or NeMo-RL.
    Give all logs of the run, of earlier attempts too.

    Exit code 3: the deadline is missed more often than the job allows. The
    new plan of --replan exports as the first one did.

    Try: planner track plan.json out/trainer_state.json
    """
    from planner.analysis.track_question import Stated
    from planner.analysis.track_question import track as follow
    from planner.loading.scenario_file import read_scenario
    from planner.report.run_text import render_tracking

    context = click.get_current_context()
    replan, path = given["replan"], given["path"]
    if (given["scenario"] is not None or path is not None) and not replan:
        raise click.UsageError("--scenario and -o belong to --replan", context)
    output = Output(as_json, path=path)
    output.check()
    plan = read_plan(plan_file)
    job = meant_job(plan, job)
    check_supported(plan, plan_file, job, "track")
    asked = decided_scenario_of(plan, plan_file)
    offered = read_scenario(given["scenario"]) if given["scenario"] is not None else asked
    market = asked.model_copy(update={"offers": offered.offers, "adjust": offered.adjust}) if replan else None
    stated = Stated(given["started"], given["spent_usd"], given["now"])
    tracking = None
    while tracking is None or (given["watch"] and tracking.observed.share_done < 1):
        if tracking is not None:
            time.sleep(WATCH_SECONDS)
        try:
            tracking = follow(plan, asked, logs, job, stated, market, options)
        except InputError as error:
            if tracking is None:
                raise
            show(str(error), err=True)  # a log that is being replaced is whole again a moment later
        else:
            output.write(
                tracking, render_tracking, document=lambda tracking: _plan_or_none(tracking.replan), color=True
            )
    context.exit(0 if tracking.is_on_time else INFEASIBLE)


# `calibrate`: a `measured:` entry from the logs of a run, and its effect on a plan.


SETTINGS: OptionTable = {
    # option: type, metavar, help
    "micro-batch": (int, "N", "Sequences per GPU and micro-step."),
    "accumulation-steps": (int, "N", "Micro-steps per optimizer step."),
    "global-batch": (int, "N", "Sequences per optimizer step over all GPUs."),
    "sequence-length": (int, "TOKENS", "Sequence length, if not that of the job."),
    "tensor-parallel": (int, "N", "GPUs that share each layer."),
    "pipeline-parallel": (int, "N", "GPUs among which the layers are divided."),
    "context-parallel": (int, "N", "GPUs that share each sequence."),
    "expert-parallel": (int, "N", "GPUs that share the experts of a mixture."),
    "instances": (int, "N", "Number of machines."),
    "interconnect": (str, "NAME", "nvlink, nvswitch, pcie or ici."),
    "network-gbps": (float, "X", "Network of one machine in Gbit/s, if there are several."),
}


@click.command()
@click.argument("logs", metavar="LOG...", nargs=-1)
@click.option("--gpu", metavar="NAME", help="GPU of the run: a name or an alias.")
@click.option("--gpus", type=click.IntRange(min=1), default=1, show_default=True, help="Number of GPUs in total.")
@click.option(
    "--losses", metavar="FILE", help="Fit the law of loss to runs of yours: CSV of parameters, tokens and loss, no LOG."
)
@click.option("--scenario", metavar="SCENARIO", help="Show how the run changes the plan of this scenario.")
@click.option("--job", metavar="NAME", help="Job of the scenario that ran, if it has several.")
@click.option("--plan", "plan_file", metavar="PLAN", help="Of a probe or a run of kind: rl: its plan.")
@click.option("--share", metavar="FILE", help="Of a probe: append an anonymous row to a table of measurements.")
@click.option(
    "--tokens-per-step", type=click.FloatRange(min=0, min_open=True), help="Tokens of one optimizer step over all GPUs."
)
@technique_options
@table_options(SETTINGS)
@json_option
@click.option("-o", "--output", "path", metavar="FILE", help="Also write the entry to FILE as YAML.")
@solve_options(solver=False)
def calibrate(
    logs: tuple[str, ...],
    losses: str | None,
    scenario: str | None,
    as_json: bool,
    path: str | None,
    options: SolveOptions,
    **run: Any,
) -> None:
    """Calibrate estimates from the logs of a run.

    LOG is any log that `planner track` reads, of one run without a restart, or
    a memory log: nvidia-smi --query-gpu=memory.used --format=csv, or a column
    max_memory_allocated. Several logs must be of one run. A JSON of `vllm bench serve` or GuideLLM measures
    generation; generate.json of the export says how. Prints an entry for the
    job's list `measured`.

    Logs of TRL (GRPO), verl and NeMo-RL correct the phases of a job of kind: rl;
    --plan is the plan of the run, in place of --gpu.

    The probe.json of `planner probe` needs its --plan instead: the first line
    says to keep the machine, what to change, or to give it back (exit code 3
    of the last two). -o is then the plan to go on with.

    Try: planner calibrate trainer_state.json --gpu A100 --scenario quickstart
    """
    from planner import open_choices
    from planner.analysis.calibrate_question import calibrate as learn_from_logs
    from planner.analysis.probe_question import is_probe
    from planner.loading.scenario_file import read_scenario
    from planner.report.run_text import render_calibration

    output = Output(as_json, path=path)
    output.check()
    given = {name: value for name, value in run.items() if value is not None}
    plan_file, share = given.pop("plan_file", None), given.pop("share", None)
    loaded = read_scenario(scenario) if scenario is not None else None
    if losses is not None:
        _refuse_options_of_logs(logs, {**given, "plan": plan_file, "share": share})
        law = open_choices.calibrate_losses(losses, loaded, given.get("job"), options)
        output.write(law, open_choices.render_loss_calibration, document=lambda calibrated: calibrated.block)
        return
    of_rl = None if plan_file is None else _plan_of_logs(plan_file, given)
    if of_rl is None and (plan_file is not None or any(map(is_probe, logs))):
        _judge(logs, plan_file, share, loaded, given, output, options)
        return
    context = click.get_current_context()
    if share is not None:
        raise click.UsageError("--share belongs to the probe.json of planner probe, and its --plan", context)
    if of_rl is not None and plan_file is not None:
        loaded = loaded or decided_scenario_of(of_rl, plan_file)
        given = {"plan": of_rl, "job": meant_job(of_rl, given.get("job"))}
    for name, missing in (("argument 'LOG...'", not logs), ("option '--gpu'", not {"gpu", "plan"} & given.keys())):
        if missing:
            raise click.UsageError(f"Missing {name}; a table of losses is --losses", context)
    result = learn_from_logs(logs, scenario=loaded, options=options, **given)
    output.write(result, render_calibration, document=lambda calibrated: calibrated.block)


def _refuse_options_of_logs(logs: tuple[str, ...], given: dict[str, Any]) -> None:
    """Raise a usage error for what says how one run was made, next to a table of losses."""
    odd = [
        *logs,
        *(f"--{name.replace('_', '-')}" for name, value in given.items() if value and name not in ("job", "gpus")),
    ]
    if odd:
        raise click.UsageError(f"--losses takes --scenario and --job alone: leave out {', '.join(odd)}.")


def _plan_of_logs(path: str, given: dict[str, Any]) -> Plan | None:
    """Return the plan whose run is the one of the logs; None for a plan that only a probe is compared with."""
    plan = read_plan(path)
    name = meant_job(plan, given.get("job"))
    check_named(plan, name)
    subject = next((planner_of(part) for part in plan.planned if name in (None, part.name)), None)
    if subject is None or not subject.reads_logs:
        return None
    if stray := [name for name, value in given.items() if name != "job" and (name, value) != ("gpus", 1)]:
        problem = f"--{stray[0].replace('_', '-')} is that of the plan: it says how the run is set up"
        raise click.UsageError(problem, click.get_current_context())
    return plan


def _judge(
    logs: tuple[str, ...],
    plan_file: str | None,
    share: str | None,
    market: Scenario | None,
    given: dict[str, Any],
    output: Output,
    options: SolveOptions,
) -> None:
    """Say whether the machine that a probe ran on is kept, and share what was measured; exit with 3 where it is not."""
    from planner.analysis.probe_question import append_row, judge_probe
    from planner.report.run_text import render_probe

    context, job = click.get_current_context(), given.pop("job", None)
    if len(logs) != 1:
        raise click.UsageError("a probe is judged alone: give its probe.json and no other log", context)
    if plan_file is None:
        raise click.UsageError("a probe is judged against its plan: add --plan plan.json", context)
    if given.pop("gpus", 1) != 1 or given:
        name = next(iter(given), "gpus").replace("_", "-")
        raise click.UsageError(f"--{name} is that of the plan: a probe says how it ran", context)
    plan = read_plan(plan_file)
    job = meant_job(plan, job)
    scenario = decided_scenario_of(plan, plan_file)
    verdict = judge_probe(plan, scenario, logs[0], job, market, options)
    if share is not None:
        append_row(share, logs[0], plan, verdict.job)
    if output.path is not None and verdict.plan is None:
        show("no plan is written: fields of the export are to change, or nothing meets the limits", err=True)
        output = replace(output, path=None)
    output.write(verdict, render_probe, document=lambda verdict: _plan_or_none(verdict.plan))
    context.exit(0 if verdict.is_kept else INFEASIBLE)


def _plan_or_none(plan: Plan | None) -> str:
    return plan_text(plan) if plan is not None else "{}\n"
