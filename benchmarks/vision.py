"""Judge the estimates of training vision-language models by published runs.

    python -m benchmarks.vision TABLE.csv [--examples EXAMPLES.yaml]

Each row is one measured run: source, method, lora_rank, gpu, gpus, micro_batch, activation_checkpointing, peak_gpu_gib
and step_s. What a row leaves open (pixels, text, batch) is that of the script in its source (`vision_examples.yaml`).
No constant of the estimates was chosen with these rows in view.
"""

from __future__ import annotations

import argparse
import csv
import json
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import yaml

import planner
from benchmarks.diffusion import errors_of
from planner.errors import PlannerError

EXAMPLES = Path(__file__).with_name("vision_examples.yaml")
ASSUMED_GPU = "A100-80GB"
"""The card of rows that state "80 GB class" alone."""


class JudgedRow(NamedTuple):
    """One row with its estimate."""

    row: dict[str, str]
    estimate: planner.Estimate

    @property
    def gib(self) -> float:
        """Return the GiB that the row's tool would report: ms-swift those that PyTorch reserves, nanoVLM allocated."""
        found = self.estimate.vram_gib
        own = found.reserved if self.row["framework"].startswith("ms-swift") else found.allocated
        return own + found.set_aside.get("encoders", 0.0)  # a frozen tower's weights are tensors as all others

    @property
    def memory(self) -> float | None:
        """Return the predicted over the measured peak; None where none was measured."""
        return self.gib / float(self.row["peak_gpu_gib"]) if self.row["peak_gpu_gib"] else None

    @property
    def seconds(self) -> float | None:
        """Return the predicted over the measured seconds of a step; None where none were measured."""
        found = self.estimate.step_seconds.total
        return found / float(self.row["step_s"]) if self.row["step_s"] else None


def judge(table: Path, examples: Path, folder: Path) -> tuple[list[JudgedRow], list[tuple[str, str]]]:
    """Return the rows that are predicted, and those that are not with the reason."""
    known = yaml.safe_load(examples.read_text(encoding="utf-8"))
    judged, refused = [], []
    for row in csv.DictReader(table.open(encoding="utf-8")):
        if not row["kind"].startswith("vision-language") and "-VL-" not in row["model"]:
            continue
        text = " ".join((row["kind"], row["source"], row["notes"]))
        reason = next((why for word, why in known["left_out"].items() if word in text), None)
        example = next((one for path, one in known["examples"].items() if path in row["source"]), None)
        if reason or example is None:
            refused.append((row["id"], reason or "its script is not known"))
            continue
        try:
            judged.append(JudgedRow(row, _estimate(row, dict(example), known, folder)))
        except PlannerError as error:
            refused.append((row["id"], str(error)))
    return judged, refused


def _estimate(row: dict[str, str], example: dict[str, Any], known: dict[str, Any], folder: Path) -> planner.Estimate:
    settings = known["shapes"][example.pop("shape")] | example
    model = settings.pop("model", "")
    if name := settings.pop("config", None):
        path = folder / f"{name}.json"
        path.write_text(json.dumps(known["configs"][name]), encoding="utf-8")
        model = str(path)
    gpu = settings.pop("gpu", ASSUMED_GPU if row["gpu"].startswith("not stated") else row["gpu"])
    # Four rows of one script say in their notes whether layers run again: "gc true" or "gc false".
    stored = row["activation_checkpointing"] == "none" or "gc false" in row["notes"].partition(",")[0]
    return planner.estimate(
        model,
        gpu,
        gpus=int(row["gpus"]),
        method="full" if row["method"] == "full" else "lora",
        lora_rank=int(row["lora_rank"] or 8),
        micro_batch=int(row["micro_batch"]),
        activation_checkpointing="none" if stored else "full",
        **settings,
    )


def text_of(judged: list[JudgedRow], refused: list[tuple[str, str]]) -> str:
    """Return the rows with their errors, the errors in all, and the rows that are not predicted by reason."""
    units = "".join(f"{unit:>8}{'planned':>9}{'error':>8}" for unit in ("GiB", "s"))
    lines = [f"{'row':<6}{'model':<30}{'method':<10}{units}"]
    for one in judged:
        seen, found = one.row, one.estimate
        memory = _compared(seen["peak_gpu_gib"], one.gib, one.memory)
        seconds = _compared(seen["step_s"], found.step_seconds.total, one.seconds)
        lines.append(f"{seen['id']:<6}{seen['model'].split('/')[-1][:28]:<30}{seen['method']:<10}{memory}{seconds}")
    lines.append(f"memory {errors_of([one.memory for one in judged if one.memory])}")
    lines.append(f"seconds of a step {errors_of([one.seconds for one in judged if one.seconds])}")
    lines.append("median / mean of the absolute error (bias) and number of rows")
    lines.append(f"not predicted: {len(refused)} of {len(refused) + len(judged)}")
    lines += [f"{count:>15}  {why}" for why, count in Counter(why for _, why in refused).most_common()]
    return "\n".join(lines)


def _compared(measured: str, planned: float, ratio: float | None) -> str:
    return f"{measured:>8}{planned:>9.2f}{ratio - 1:>+8.0%}" if ratio else f"{'-':>8}{planned:>9.2f}{'':>8}"


def main() -> None:
    """Print the errors for the rows of one file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", type=Path)
    parser.add_argument("--examples", type=Path, default=EXAMPLES)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(text_of(*judge(asked.table, asked.examples, Path(folder))))


if __name__ == "__main__":
    main()
