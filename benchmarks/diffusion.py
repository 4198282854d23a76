"""Judge the estimates of diffusion training by published runs.

    python -m benchmarks.diffusion TABLE.csv [--examples EXAMPLES.yaml] [--rows]

Each row is one measured run: model, gpu, weight_format, activation_checkpointing, status (ok or oom), peak_gpu_gib and
step_s. What a row leaves open (pixels, batch, adapters, the shape of the network) is that of the example which it names
(`diffusion_examples.yaml`). Nothing of the formulas is fitted to these rows.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import tempfile
from collections import defaultdict
from pathlib import Path
from statistics import fmean, median
from typing import Any, NamedTuple

import yaml

import planner
from planner.errors import PlannerError

EXAMPLES = Path(__file__).with_name("diffusion_examples.yaml")
CHECKPOINTING = {"none": "none", "layer": "full", "full (default)": "full"}
"""Modes of SimpleTuner that are the same for all classes, by its names of them; `segments` of the examples has the rest."""
WEIGHTS = {"bf16": {}, "int8-sdnq-hadamard": {"weight_bits": 8}, "fp8wo-torchao": {"weight_bits": 8, "quant": "fp8"}}
"""Formats of the frozen weights; dynamic fp8 of torchao, which rounds activations, too, is not modelled."""


class Judged(NamedTuple):
    """One row with its estimate."""

    row: dict[str, str]
    estimate: planner.Estimate

    @property
    def memory(self) -> float | None:
        """Return the predicted over the measured peak; None where none was measured."""
        measured = float(self.row["peak_gpu_gib"] or 0)
        return self.estimate.vram_gib.allocated / measured if measured else None

    @property
    def seconds(self) -> float | None:
        """Return the predicted over the measured seconds of a step; None where none were measured."""
        measured = float(self.row["step_s"] or 0)
        return self.estimate.step_seconds.total / measured if measured else None

    @property
    def within(self) -> bool:
        """Return whether the measured seconds lie in the printed range (one standard deviation)."""
        rate, found = self.estimate.global_batch / float(self.row["step_s"]), self.estimate
        return found.tokens_per_second_low <= rate <= found.tokens_per_second_high


def judge(table: Path, examples: Path, folder: Path) -> tuple[list[Judged], list[tuple[str, str]]]:
    """Return the rows that are predicted, and those that are not with the reason."""
    known = yaml.safe_load(examples.read_text(encoding="utf-8"))
    judged, refused = [], []
    for row in csv.DictReader(table.open(encoding="utf-8")):
        if not row["kind"].startswith("diffusion"):
            continue
        model = row["model"]
        if model not in known["examples"]:
            refused.append((row["id"], f"{model}: {known['left_out'].get(model, 'its example is not known')}"))
            continue
        modes = {**CHECKPOINTING, **known["segments"].get(model, {})}
        missing = [
            f"{row[key]} is not modelled"
            for key, table_of in (("activation_checkpointing", modes), ("weight_format", WEIGHTS))
            if row[key] not in table_of
        ]
        if missing:
            refused.append((row["id"], missing[0]))
            continue
        try:
            judged.append(Judged(row, _estimate(row, modes, dict(known["examples"][model]), folder)))
        except PlannerError as error:
            refused.append((row["id"], str(error)))
    return judged, refused


def _estimate(row: dict[str, str], modes: dict[str, str], example: dict[str, Any], folder: Path) -> planner.Estimate:
    card = example.pop("card", None)
    if card is None:
        path = folder / f"{row['model'].replace(' ', '-')}.json"
        path.write_text(json.dumps({"_class_name": example.pop("class"), **example.pop("keys")}), encoding="utf-8")
        card = str(path)
    gpu = row["gpu"]
    settings = {"activation_checkpointing": modes[row["activation_checkpointing"]], "latents": "cached"}
    return planner.estimate(card, gpu, method="lora", **WEIGHTS[row["weight_format"]], **settings, **example)


def text_of(judged: list[Judged], refused: list[tuple[str, str]], rows: bool) -> str:
    """Return the tables of errors by model, and the rows that are not predicted by reason."""
    groups: dict[str, list[Judged]] = defaultdict(list)
    for one in judged:
        groups[one.row["model"]].append(one)
    lines = [f"{'model':<22}{'memory':>24}{'seconds of a step':>26}{'in range':>10}"]
    lines += [_line(name, group) for name, group in [*sorted(groups.items()), ("all", judged)]]
    ran = [one for one in judged if one.row["status"] == "ok"]
    failed = [one for one in judged if one.row["status"] == "oom"]
    refusals = sum(not one.estimate.vram_gib.fits for one in ran)
    fits = sum(one.estimate.vram_gib.fits for one in failed)
    lines.append(f"false rejects {refusals} of {len(ran)}, false fits {fits} of {len(failed)}")
    reasons: dict[str, int] = defaultdict(int)
    for _, why in refused:
        reasons[why] += 1
    lines += [f"not predicted: {count:>4}  {why}" for why, count in sorted(reasons.items(), key=lambda pair: -pair[1])]
    if rows:
        for one in judged:
            seen, found = one.row, one.estimate
            lines.append(
                f"{seen['model']:<20}{seen['gpu']:<10}{seen['weight_format']:<20}{seen['activation_checkpointing']:<8}"
                f"{seen['status']:<4}{seen['peak_gpu_gib']:>8} GiB, planned {found.vram_gib.allocated:6.2f}"
                f"{seen['step_s']:>9} s, planned {found.step_seconds.total:6.3f}"
            )
    return "\n".join(lines)


def _line(name: str, group: list[Judged]) -> str:
    memory = [one.memory for one in group if one.memory]
    seconds = [one.seconds for one in group if one.seconds]
    inside = [one.within for one in group if one.seconds]
    return f"{name:<22}{_errors(memory):>24}{_errors(seconds):>26}{sum(inside):>6}/{len(inside)}"


def _errors(ratios: list[float]) -> str:
    if not ratios:
        return "-"
    off = [abs(ratio - 1.0) for ratio in ratios]
    bias = math.exp(fmean(math.log(ratio) for ratio in ratios)) - 1.0
    return f"{median(off):.0%} / {fmean(off):.0%} ({bias:+.0%}) n {len(off)}"


def main() -> None:
    """Print the tables for the rows of one file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", type=Path)
    parser.add_argument("--examples", type=Path, default=EXAMPLES)
    parser.add_argument("--rows", action="store_true", help="print each row, too")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        judged, refused = judge(asked.table, asked.examples, Path(folder))
    print(text_of(judged, refused, asked.rows))


if __name__ == "__main__":
    main()
