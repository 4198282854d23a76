"""Judge the formulas of a step of reinforcement learning by published steps.

    python -m benchmarks.rl_steps TABLE.csv [--rows]

Each row of the table is one measured run: model, gpu, gpus, placement, lengths, updates, and the seconds of a step and
of its phases (columns as in `COLUMNS`). A row counts where model and GPU are known and the length of answers is stated.
Nothing of the formulas is fitted. Three figures are priors (fixed seconds, seconds of new weights, spread of lengths):
the first two were chosen with verl's rows in view, and NeMo-RL's rows of DeepSeek-V3 made us replace a rate of new
weights of 12 GB/s, which was too slow for the largest models, by the root of their size.
"""

from __future__ import annotations

import argparse
import csv
import math
import re
from collections import defaultdict
from pathlib import Path
from statistics import fmean, median
from typing import Any

import planner
from planner.errors import PlannerError

COLUMNS = ("id", "framework", "algorithm", "model", "gpu", "gpus", "placement", "step_s", "rollout_s", "train_s")
"""Columns that are printed; the others that are read are named in `settings_of`."""
GPUS = {"H100-SXM": "H100-80GB", "H20": "H20-96GB"}
"""Names of the table that are not names of cards."""
ALIKE = {"Qwen/Qwen2.5-Math-7B": "qwen2.5-7b"}
"""Models of the same shape under another name."""
USUAL_PROMPT = 150.0
"""Tokens of a prompt where a row states only the whole length: questions of school mathematics."""
NETWORK_GBPS = 3200.0
"""Network of a machine of eight H100 or H20, where a run takes several."""

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
    training = int(row["train_gpus"] or (gpus // 2 if apart else gpus))
    settings: dict[str, Any] = {
        "algorithm": row["algorithm"].lower(), "prompts": max(1, round(sequences / each)), "answers": each,
        "input": USUAL_PROMPT, "output": answer, "longest_output": int(max(longest, answer * 1.02)),
        "updates": int(float(row["updates_per_step"] or 1)), "gpus": training, "network_gbps": NETWORK_GBPS,
        "framework": "megatron" if "Megatron" in row["framework"] else "fsdp",
        **divisions(row["train_parallel"]),
    }  # fmt: skip
    if (share := re.search(r"(?:TP,PP=\[|tp)(\d+)", row["rollout_parallel"])) is not None:
        settings["rollout_parallel"] = min(int(share[1]), 8)  # a replica stays within a machine here
    if apart:
        settings |= {"rollout_gpus": gpus - training, "overlap": True}
    if row["gpu"].startswith("GB"):
        settings["instances"] = max(1, training // 4)  # four GPUs in a tray
    return ALIKE.get(row["model"], row["model"]), GPUS.get(row["gpu"], row["gpu"]), settings


def divisions(text: str) -> dict[str, int]:
    """Return tensor, pipeline and expert parallel from `TP,CP,EP,PP,VPP=[1,1,8,1,n/a]` or from `tp4pp2ep8`."""
    listed = re.search(r"\[(.*)\]", text)
    if listed is not None:
        numbers = listed[1].split(",")
        found = {"tp": int(numbers[0]), "ep": int(numbers[2]), "pp": int(numbers[3])}
    else:
        found = {name: int(number) for name, number in re.findall(r"(tp|ep|pp)(\d+)", text.lower())}
    names = {"tp": "tensor_parallel", "ep": "expert_parallel", "pp": "pipeline_parallel"}
    return {names[name]: number for name, number in found.items() if number > 1}


def judge(table: Path) -> tuple[list[tuple[dict[str, str], planner.RlEstimate]], list[tuple[str, str]]]:
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
        model, gpu, settings = settings_of(row)
        try:
            judged.append((row, planner.estimate_rl(model, gpu, **settings)))
        except PlannerError as error:
            refused.append((row["id"], str(error).splitlines()[0]))
    return judged, refused


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


def main() -> None:
    """Print errors of steps by framework and of phases, and the coverage of the range."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=Path)
    parser.add_argument("--rows", action="store_true", help="also print each row")
    options = parser.parse_args()
    judged, refused = judge(options.table)
    steps: dict[str, list[tuple[float, float]]] = defaultdict(list)
    phases: dict[str, list[tuple[float, float]]] = defaultdict(list)
    inside = within = 0
    for row, found in judged:
        planned, measured = found.step_seconds.expected, float(row["step_s"])
        steps[row["framework"].partition(" ")[0]].append((planned, measured))
        inside += found.step_seconds.low <= measured <= found.step_seconds.high
        within += abs(math.log(measured / planned)) <= found.sigma
        for column, phase in (
            ("rollout_s", "rollout"),
            ("train_s", "training"),
            ("old_logprob_s", "log_probabilities"),
        ):
            if row[column] and not found.overlapped:
                phases[phase].append((found.phases[phase], float(row[column])))
        if options.rows:
            print(*(f"{row[column][:24]:<{8 if column == 'id' else 16}}" for column in COLUMNS[:7]), end="")
            print(f" {planned:8.0f} s planned, {measured:8.0f} s measured: {planned / measured:.2f}")
    print("steps by framework")
    for name, pairs in sorted(steps.items()):
        print(f"  {name:<18} {errors(pairs)}")
    print(f"  {'all':<18} {errors([pair for pairs in steps.values() for pair in pairs])}")
    print(f"  within the printed range (80 %): {inside} of {len(judged)}; within 68 %: {within}")
    print("phases")
    for name, pairs in sorted(phases.items()):
        print(f"  {name:<18} {errors(pairs)}")
    print_memory(options.table)
    print(f"not predicted: {len(refused)}")
    for name in sorted({reason for _, reason in refused}):
        print(f"  {sum(reason == name for _, reason in refused)} x {name}")


if __name__ == "__main__":
    main()
