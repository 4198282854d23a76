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
    print(f"not predicted: {len(refused)}")
    for name in sorted({reason for _, reason in refused}):
        print(f"  {sum(reason == name for _, reason in refused)} x {name}")


if __name__ == "__main__":
    main()
