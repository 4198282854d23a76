"""Judge the formulas of a step of reinforcement learning by published steps.

    python -m benchmarks.rl_steps TABLE.csv [--rows]

Each row of the table is one measured run: model, gpu, gpus, placement, lengths, updates, and the seconds of a step and
of its phases (columns as in `COLUMNS`). A row counts where model and GPU are known and the length of answers is stated.
Upper bounds of nightly tests count as inequalities; trainer steps without rollouts and memory of preference tuning are
shown apart. What the source of a row sets and the table leaves out (recomputation, division of GPUs, data sets) is read
from its script, named here.
Nothing of the formulas is fitted. Three figures are priors (fixed seconds, seconds of new weights, spread of lengths):
the first two were chosen with verl's rows in view, and NeMo-RL's rows of DeepSeek-V3 made us replace a rate of new
weights of 12 GB/s, which was too slow for the largest models, by the root of their size. That fixed seconds are fewer
below 7B was judged by NeMo-RL's upper bounds.
"""

from __future__ import annotations

import argparse
import csv
import math
import re
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from statistics import fmean, median
from typing import Any, NamedTuple

import planner
from planner.errors import PlannerError
from planner.loading.question import resolve_cards
from planner.reinforcement.evaluated_rl import stale_seconds
from planner.reinforcement.rl_estimate import RlStep, resolve_step
from planner.scenario.rl_job import RL_FRAMEWORK

COLUMNS = ("id", "framework", "algorithm", "model", "gpu", "gpus", "placement", "step_s", "rollout_s", "train_s")
"""Columns that are printed; the others that are read are named in `settings_of`."""
PHASES = {"rollout_s": "rollout", "train_s": "training", "old_logprob_s": "log_probabilities"}
"""Columns of measured phases, and their names in an estimate."""
GPUS = {"H100-SXM": "H100-80GB", "H200-SXM": "H200", "H20": "H20-96GB"}
"""Names of the table that are not names of cards."""
ALIKE = {"Qwen/Qwen2.5-Math-7B": "qwen2.5-7b"}
"""Models of the same shape under another name."""
USUAL_PROMPT = 150.0
"""Tokens of a prompt where a row states only the whole length: questions of school mathematics."""
NETWORK_GBPS = 3200.0
"""Network of a machine of eight H100 or H20, where a run takes several."""

TRAINING_GPUS = {("Qwen/Qwen3-30B-A3B", "192"): 128}
"""GPUs that train where it is not half of an asynchronous run: 16 of 24 machines (NeMo-RL,
examples/configs/recipes/llm/performance/grpo-qwen3-30ba3b-24n8g-async-8off.yaml)."""
CAP_SHARES = (1.0, 0.25)
"""Mean answers, as shares of their cap, that upper bounds are compared with: the most, and what is usually assumed."""

EMOJI = {"sequence_length": 1801, "tokens_per_sample": 2 * 334.0, "length_cv": 162.8 / 334.0, "packing": "padded"}
"""Pairs of shareAI/DPO-zh-en-emoji: longest, mean and deviation of its answers with their prompts in Qwen2.5's tokens
(ms-swift, docs/source_en/Instruction/Supported-models-and-datasets.md)."""
FULL = {"method": "full", "gpus": 4}
PACKED = {"sequence_length": 4096, "tokens_per_sample": 8192.0, "packing": "fixed"}
"""Sequences of 8,192 tokens that pairs fill, both answers of each."""
SCRIPTS: dict[str, dict[str, Any]] = {
    "train/rlhf/dpo/full.sh": {**FULL, **EMOJI, "tuning": "dpo", "framework": "deepspeed", "sharding": "zero3"},
    "train/rlhf/dpo/lora.sh": {**EMOJI, "tuning": "dpo", "method": "lora", "lora_rank": 8, "framework": "hf"},
    "train/rlhf/simpo.sh": {
        **FULL, **EMOJI, "tuning": "simpo", "gpus": 2, "framework": "deepspeed", "sharding": "zero2",
    },
    "megatron/rlhf/dpo/dense.sh": {**FULL, **EMOJI, "tuning": "dpo", "packing": "padding_free", "tensor_parallel": 4},
    "megatron/rlhf/kto/dense.sh": {**FULL, **PACKED, "tuning": "kto", "sequence_length": 8192, "tensor_parallel": 4},
    "megatron/rlhf/rm/dense.sh": {**FULL, **PACKED, "tuning": "reward", "gpus": 2, "tensor_parallel": 2},
    "megatron/rlhf/rm/moe.sh": {
        **PACKED, "tuning": "reward", "method": "lora", "gpus": 2, "lora_rank": 8, "framework": "nemo",
        "expert_parallel": 2,
    },
    "megatron/rlhf/dpo/moe.sh": {
        **FULL, **PACKED, "tuning": "dpo", "gpus": 8, "tensor_parallel": 4, "expert_parallel": 8,
    },
    "megatron/multimodal/moe/full_dpo_offload.sh": {
        **FULL, **PACKED, "tuning": "dpo", "gpus": 8, "tensor_parallel": 4, "pipeline_parallel": 2,
        "expert_parallel": 4, "sequence_length": 8192, "tokens_per_sample": 16384.0,
    },
}  # fmt: skip
"""What the ms-swift examples of preference tuning set, by their file below examples/. `nemo` has the adapters of
Megatron; full runs keep gradients in fp32 (`main_grads_dtype`)."""
HOSTED = {"megatron/rlhf/dpo/moe.sh": 1.0, "megatron/multimodal/moe/full_dpo_offload.sh": 0.65}
"""Share of the optimizer that lies in host memory (`optimizer_offload_fraction`), taken off by hand: a job with
Megatron refuses it."""
LANGUAGE_MODELS = {"OpenGVLab/InternVL3_5-30B-A3B": "qwen3-30b-a3b"}
"""The language model of what has no architecture file; its frozen tower has 0.3e9 weights."""


def settings_of(row: dict[str, str]) -> tuple[str, str, dict[str, Any]]:
    """Return model, GPU and settings of `estimate_rl` for one row of a table."""
    gpus, apart = int(row["gpus"]), "async" in row["placement"]
    answer = float(row["mean_response_len"] or 0) or float(row["mean_total_len"]) - USUAL_PROMPT
    sequences = float(row["sequences_per_step"] or 0)
    sequences = sequences or float(row["prompts_per_step"]) * float(row["generations_per_prompt"])
    each = int(row["generations_per_prompt"] or (32 if sequences > 1000 else 16))
    longest = float(row["max_response_len"] or 0) or float(row["max_total_len"]) - USUAL_PROMPT
    half = TRAINING_GPUS.get((row["model"], row["gpus"]), gpus // 2)
    training = int(row["train_gpus"] or (half if apart else gpus))
    settings: dict[str, Any] = {
        "algorithm": row["algorithm"].lower(), "prompts": max(1, round(sequences / each)), "answers": each,
        "input": USUAL_PROMPT, "output": answer, "longest_output": int(max(longest, answer * 1.02)),
        "updates": int(float(row["updates_per_step"] or 1)), "gpus": training, "network_gbps": NETWORK_GBPS,
        "framework": "megatron" if "Megatron" in row["framework"] + row["train_parallel"] else RL_FRAMEWORK,
        **divisions(row["train_parallel"]),
    }  # fmt: skip
    if keeps_activations(row):
        settings["activation_checkpointing"] = "none"
    if (share := re.search(r"(?:TP,PP=\[|tp)(\d+)", row["rollout_parallel"])) is not None:
        settings["rollout_parallel"] = min(int(share[1]), 8)  # a replica stays within a machine here
    if apart:
        settings |= {"rollout_gpus": gpus - training, "overlap": True}
    if row["gpu"].startswith("GB"):
        settings["instances"] = max(1, training // 4)  # four GPUs in a tray
    return ALIKE.get(row["model"], row["model"]), GPUS.get(row["gpu"], row["gpu"]), settings


def keeps_activations(row: dict[str, str]) -> bool:
    """Whether a run recomputes nothing in the backward pass.

    verl's Megatron recomputes only with a granularity (`activations_checkpoint_granularity: null` in
    verl/trainer/config/ppo_megatron_trainer.yaml), which the scripts of these rows leave out. FSDP recomputes there.
    NeMo-RL's performance recipes switch it on (`activation_checkpointing`), but for Qwen3-30B-A3B, and Llama-3.1-8B on
    machines of four GPUs.
    """
    if "AC " in row["train_parallel"]:
        return "AC False" in row["train_parallel"]
    if row["framework"].startswith("verl"):
        return "Megatron" in row["framework"]
    small = row["gpu"].startswith("GB") and row["model"] == "meta-llama/Llama-3.1-8B"
    return row["framework"].startswith("NeMo-RL") and (small or row["model"] == "Qwen/Qwen3-30B-A3B")


def divisions(text: str) -> dict[str, int]:
    """Return the degrees of `TP,CP,EP,PP,VPP=[1,1,8,1,n/a]` or of `tp4cp2pp2ep8`.

    Some lists have seven numbers: the last but one is that of the pipeline (NeMo-RL, examples/configs/recipes/llm/
    performance/grpo-llama3.1-8b-instruct-2n8g.yaml: pipeline_model_parallel_size 2 and nothing else).
    """
    listed = re.search(r"\[(.*)\]", text)
    if listed is not None:
        numbers = listed[1].split(",")
        found = {"tp": int(numbers[0]), "cp": int(numbers[1]), "ep": int(numbers[2]), "pp": int(numbers[-2])}
    else:
        found = {name: int(number) for name, number in re.findall(r"(tp|cp|ep|pp)(\d+)", text.lower())}
    names = {"tp": "tensor_parallel", "cp": "context_parallel", "ep": "expert_parallel", "pp": "pipeline_parallel"}
    return {names[name]: number for name, number in found.items() if number > 1}


class Judged(NamedTuple):
    """A measured step with its estimate."""

    row: dict[str, str]
    step: RlStep
    found: planner.RlEstimate
    planned: float  # seconds from one step to the next

    @property
    def measured(self) -> float:
        """Seconds from one step to the next."""
        return float(self.row["step_s"])


def judge(table: Path) -> tuple[list[Judged], list[tuple[str, str]]]:
    """Return the rows that are predicted with their estimates, and those that are not with the reason."""
    judged, refused = [], []
    for row in csv.DictReader(table.open(encoding="utf-8")):
        if row["value_kind"] != "measured" or not row["step_s"]:
            continue
        if not (row["mean_total_len"] or row["mean_response_len"]):
            refused.append((row["id"], "no length of answers"))
            continue
        if not (row["sequences_per_step"] or row["prompts_per_step"]):
            refused.append((row["id"], "no number of answers"))
            continue
        try:
            judged.append(estimated(row))
        except PlannerError as error:
            refused.append((row["id"], str(error).splitlines()[0]))
    return judged, refused


def estimated(row: dict[str, str], layout: bool = True) -> Judged:
    """Return the estimate of a row; of answers several steps behind with the rollout of a job's `staleness`.

    Without `layout` as if FSDP sharded the trainer.
    """
    model, gpu, settings = settings_of(row)
    if not layout:
        degrees = {f"{kind}_parallel" for kind in ("tensor", "pipeline", "context", "expert")}
        settings = {name: value for name, value in settings.items() if name not in degrees}
        settings["framework"] = RL_FRAMEWORK
    step, found = resolve_step(model, gpu, **settings), planner.estimate_rl(model, gpu, **settings)
    behind = re.search(r"(\d+)-step Off", row["placement"])
    if behind is None or int(behind[1]) == 1:
        return Judged(row, step, found, found.step_seconds.expected)
    rollout = min(step.phases.rollout, stale_seconds(step, int(behind[1])))
    return Judged(row, step, found, replace(step.phases, rollout=rollout).step_seconds(True))


def bounds(table: Path) -> tuple[list[tuple[dict[str, str], list[float]]], list[tuple[str, str]]]:
    """Return rows of upper bounds with the seconds planned at each share of `CAP_SHARES`, and those not predicted."""
    found, refused = [], []
    for row in csv.DictReader(table.open(encoding="utf-8")):
        if not row["value_kind"].startswith("upper bound"):
            continue
        try:
            if not row["step_s"]:
                raise PlannerError("no seconds")
            if row["algorithm"] == "DISTILLATION":
                raise PlannerError("distillation that samples is no step with rollouts of one model")
            found.append((row, [bounded_seconds(row, share) for share in CAP_SHARES]))
        except PlannerError as error:
            refused.append((row["id"], str(error).splitlines()[0].partition(";")[0]))
    return found, refused


def bounded_seconds(row: dict[str, str], share: float) -> float:
    """Return the seconds planned for a row whose answers (without rollouts: sequences) have this share of the cap."""
    most = float(row["max_total_len"])
    if "training only" not in row["placement"]:
        return estimated({**row, "mean_response_len": str(share * (most - min(USUAL_PROMPT, most / 4)))}).planned
    tuning = row["algorithm"].partition(" ")[0].lower()
    gpus, is_megatron = int(row["gpus"]), "Megatron" in row["train_parallel"]
    settings: dict[str, Any] = {
        "method": "lora" if row["lora_rank"] else "full", "gpus": gpus, "tuning": tuning, "packing": "fixed",
        "framework": "megatron" if is_megatron else "hf", "global_batch": int(row["train_global_batch"]),
        "micro_batch": int(row["micro_batch"]), "sequence_length": int(share * most),
        "tokens_per_sample": (2 if tuning == "dpo" else 1) * float(int(share * most)), "network_gbps": NETWORK_GBPS,
        "activation_checkpointing": "none" if keeps_activations(row) else "full", **divisions(row["train_parallel"]),
        **({} if is_megatron else {"sharding": "zero3"}),
    }  # fmt: skip
    if row["gpu"].startswith("GB"):
        settings["instances"] = max(1, gpus // 4)
    return planner.estimate(row["model"], GPUS.get(row["gpu"], row["gpu"]), **settings).step_seconds.total


def trainers(table: Path) -> tuple[dict[str, list[tuple[float, float]]], list[tuple[str, str]]]:
    """Return planned and measured seconds of trainer steps without rollouts, by kind, and the rows not predicted.

    prime-rl's benchmarks, on packed sequences as long as stated, which may be longer than a model was trained for.
    """
    found: dict[str, list[tuple[float, float]]] = defaultdict(list)
    refused = []
    for row in csv.DictReader(table.open(encoding="utf-8")):
        if not row["framework"].startswith("prime-rl") or not row["train_s"]:
            continue
        tokens, gpus = int(row["mean_total_len"]), int(row["gpus"])
        settings: dict[str, Any] = {
            "gpus": gpus, "method": "lora" if row["lora_rank"] else "full", "micro_batch": int(row["micro_batch"]),
            "global_batch": int(row["train_global_batch"]), "sequence_length": tokens, "framework": RL_FRAMEWORK,
            **({"sharding": "zero3"} if gpus > 1 else {}),
            **({"lora_rank": int(row["lora_rank"])} if row["lora_rank"] else {}),
            "attention": "flash3" if "flash_attention_3" in row["train_parallel"] else "flash",
        }  # fmt: skip
        try:
            network, card, library = resolve_cards(row["model"], GPUS.get(row["gpu"], row["gpu"]), None)
            network = network.model_copy(update={"max_sequence": max(tokens, network.max_sequence)})
            seconds = planner.estimate(network, card.name, library, **settings).step_seconds.total
        except PlannerError as error:
            refused.append((row["id"], str(error).splitlines()[0]))
            continue
        kind = "mixture" if network.experts else settings["method"]
        found[kind].append((seconds, float(row["train_s"])))
    return found, refused


def memory_of(table: Path) -> list[tuple[dict[str, str], str, planner.Estimate, float]]:
    """Return the rows of preference tuning with a measured peak, file, estimate, and GiB that lie in host memory.

    Lengths are those of the data set, where pairs fill no sequence. No row states its GPU; memory does not depend on
    it. ms-swift logs what the allocator has reserved (`max_memory_reserved` in swift/utils/torch_utils.py).
    """
    found = []
    for row in csv.DictReader(table.open(encoding="utf-8")):
        script = row["source"].partition(":examples/")[2].partition("@")[0]
        if script not in SCRIPTS or not row["peak_gpu_gb"]:
            continue
        settings = {"framework": "megatron", "gpus": 1, "micro_batch": int(row["micro_batch"]), **SCRIPTS[script]}
        replicas = settings["gpus"] // (settings.get("tensor_parallel", 1) * settings.get("pipeline_parallel", 1))
        batch = int(row["train_global_batch"] or 16)
        settings["accumulation_steps"] = max(1, batch // (replicas * settings["micro_batch"]))
        if row["notes"].startswith("with padding_free"):
            settings["packing"] = "padding_free"
        name = LANGUAGE_MODELS.get(row["model"], row["model"])
        estimate = planner.estimate(name, "A100-80GB", **settings)
        found.append((row, script, estimate, HOSTED.get(script, 0.0) * estimate.vram_gib.parts["optimizer"]))
    return found


def print_memory(table: Path) -> None:
    """Print each peak of preference tuning next to what is estimated: live tensors, and what the allocator reserves."""
    rows = memory_of(table)
    if not rows:
        return
    print("memory of preference tuning, GiB per GPU: live tensors, reserved, measured")
    pairs: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
    for row, script, estimate, hosted in rows:
        vram, measured = estimate.vram_gib, float(row["peak_gpu_gb"])
        pairs[hosted > 0].append((vram.reserved - hosted, measured))
        said = f"{vram.allocated - hosted:5.1f} {vram.reserved - hosted:5.1f} {measured:5.1f}"
        said += f" {(vram.reserved - hosted) / measured - 1:+.0%}{'  optimizer in host memory' if hosted else ''}"
        print(f"  {row['id']} {script.removesuffix('.sh'):<42} {said}")
    print(f"  reserved                                       {errors(pairs[False])}")
    print(f"  with those by hand                             {errors(pairs[False] + pairs[True])}")


def errors(pairs: list[tuple[float, float]]) -> str:
    """Return count, median and mean of the absolute errors."""
    relative = [abs(planned / measured - 1.0) for planned, measured in pairs]
    return f"n {len(pairs):>3}  median {median(relative):6.1%}  MAPE {fmean(relative):6.1%}"


def coverage(judged: list[Judged]) -> str:
    """Return how many steps lie within the 68 % range, and between which shares chance alone leaves that (95 %)."""
    from scipy.stats import beta  # type: ignore[import-untyped]

    count = len(judged)
    inside = sum(abs(math.log(one.measured / one.planned)) <= one.found.sigma for one in judged)
    low = beta.ppf(0.025, inside, count - inside + 1) if inside else 0.0
    high = beta.ppf(0.975, inside + 1, count - inside) if inside < count else 1.0
    return f"{inside} of {count} ({inside / count:.0%}, {low:.0%} to {high:.0%} by chance)"


def left_out(judged: list[Judged]) -> list[str]:
    """Return for each repository its spread around the formulas, and how many steps of the others that would hold."""
    errors: dict[str, list[float]] = defaultdict(list)
    for one in judged:
        errors[one.row["source"].partition(":")[0]].append(abs(math.log(one.measured / one.planned)))
    lines = []
    for name, own in sorted(errors.items()):
        spread = math.sqrt(fmean(error**2 for error in own))
        others = [error for other, several in errors.items() if other != name for error in several]
        inside = sum(error <= spread for error in others)
        lines.append(f"{name}: {spread:.2f}, which holds {inside} of {len(others)} of the others")
    return lines


def print_reasons(refused: list[tuple[str, str]]) -> None:
    """Print how many rows are not predicted, by reason."""
    print(f"  not predicted: {len(refused)}")
    for name in sorted({reason for _, reason in refused}):
        print(f"    {sum(reason == name for _, reason in refused)} x {name}")


def print_steps(table: Path, with_rows: bool) -> None:
    """Print errors of whole steps by framework and of phases, and the coverage of the range."""
    judged, refused = judge(table)
    steps: dict[str, list[Judged]] = defaultdict(list)
    phases: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for one in judged:
        steps[one.row["framework"].partition(" ")[0]].append(one)
        for column, phase in PHASES.items():
            if one.row[column] and not one.found.overlapped:
                phases[phase].append((one.found.phases[phase], float(one.row[column])))
        if with_rows:
            print(*(f"{one.row[column][:24]:<{8 if column == 'id' else 16}}" for column in COLUMNS[:7]), end="")
            print(f" {one.planned:8.0f} s planned, {one.measured:8.0f} s measured: {one.planned / one.measured:.2f}")
    print("steps by framework, and how many lie within the 68 % range")
    for name, several in [*sorted(steps.items()), ("all", judged)]:
        print(f"  {name:<18} {errors([(one.planned, one.measured) for one in several])}  {coverage(several)}")
    print_layouts([one for one in judged if "Megatron" in one.row["framework"]])
    print("spread of ln(measured / planned) of one repository, and the others")
    for line in left_out(judged):
        print(f"  {line}")
    print("phases")
    for name, pairs in sorted(phases.items()):
        print(f"  {name:<18} {errors(pairs)}")
    print_reasons(refused)


def print_layouts(judged: list[Judged]) -> None:
    """Print errors of steps with Megatron, with their own layout and as if FSDP sharded the trainer."""
    if not judged:
        return
    own = [(one.planned, one.measured) for one in judged]
    sharded = [(estimated(one.row, layout=False).planned, one.measured) for one in judged]
    ratio = median(measured / planned for planned, measured in own)
    print(f"steps with Megatron, the median {ratio:.2f} of its estimate")
    print(f"  their own layout   {errors(own)}")
    print(f"  as if sharded      {errors(sharded)}")


def print_bounds(table: Path) -> None:
    """Print how many upper bounds hold, whatever the answers' lengths or as they are assumed."""
    found, refused = bounds(table)
    if not found:
        return
    held = [[planned <= float(row["step_s"]) for planned in each] for row, each in found]
    print(f"upper bounds of nightly tests: {len(found)}")
    print(f"  hold with every answer at its cap     {sum(most for most, _ in held)}")
    print(f"  hold with means of a quarter of it    {sum(usual for _, usual in held)}")
    for (row, each), (_, usual) in zip(found, held, strict=True):
        if not usual:
            print(f"    {row['id']} {row['model'][:40]:<40} {each[1]:6.1f} s planned, at most {row['step_s']} measured")
    print_reasons(refused)


def print_trainers(table: Path) -> None:
    """Print errors of trainer steps without rollouts, which are no steps of the tables above."""
    found, refused = trainers(table)
    if not found:
        return
    print("trainer steps without rollouts")
    for name, pairs in sorted(found.items()):
        print(f"  {name:<18} {errors(pairs)}")
    print_reasons(refused)


def main() -> None:
    """Print steps, phases and coverage, then bounds, trainer steps and memory of preference tuning."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=Path)
    parser.add_argument("--rows", action="store_true", help="also print each row")
    options = parser.parse_args()
    print_steps(options.table, options.rows)
    print_bounds(options.table)
    print_trainers(options.table)
    print_memory(options.table)


if __name__ == "__main__":
    main()
