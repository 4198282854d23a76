"""Judge the estimates of diffusion training by published runs.

    python -m benchmarks.diffusion TABLE.csv [--examples EXAMPLES.yaml] [--left-out] [--rows]

Each row is one measured run: model, gpu, weight_format, activation_checkpointing, status (ok or oom), peak_gpu_gib and
step_s. What a row leaves open (pixels, batch, adapters, the shape of the network) is that of the example which it names
(`diffusion_examples.yaml`). Times of launches were chosen with these rows in view: `--left-out` judges each model with
the constants that all other models give.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from statistics import fmean, median
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import yaml

import planner
from planner.arrays import Floats
from planner.errors import PlannerError
from planner.library.reading import read_library
from planner.library.schema import Calibration

EXAMPLES = Path(__file__).with_name("diffusion_examples.yaml")
CHECKPOINTING = {"none": "none", "layer": "full", "full (default)": "full", "activation-offload": "attention_offloaded"}
"""Modes of SimpleTuner that are the same for all classes, by its names; `segments` of the examples has the rest."""
WEIGHTS = {
    "bf16": {},
    "int8-sdnq-hadamard": {"weight_bits": 8},
    "fp8wo-torchao": {"weight_bits": 8, "quant": "fp8_weights"},
    "fp8-torchao": {"weight_bits": 8, "quant": "fp8_dynamic"},
}
"""Formats of the frozen weights, by SimpleTuner's names."""


FITTED = (
    "diffusion.launch_seconds",
    "diffusion.recomputed_launch",
    "diffusion.quantised_launch_seconds",
    "diffusion.quantised_launch_seconds.fp8_weights",
    "diffusion.quantised_launch_seconds.fp8_dynamic",
    "masked.attention_factor",
)
"""Constants of models/calibration/kernels.yaml that were chosen with such rows in view."""
LIKE_ERROR = 0.2
"""Error in ln of one model's seconds that the fit takes as usual."""


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
        """Return whether the measured seconds lie in the printed range, one of 80 %."""
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
        modes = {**CHECKPOINTING, **known["segments"].get(model, {})}
        missing = [
            f"{row[key]}: not modelled"
            for key, table_of in (("activation_checkpointing", modes), ("weight_format", WEIGHTS))
            if row[key] not in table_of
        ]
        if model not in known["examples"]:
            missing = [f"{model}: {known['left_out'].get(model, 'its example is not known')}"]
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
    """Return the tables of errors by model and by card, and the rows that are not predicted by reason."""
    head = f"{'memory':>24}{'seconds of a step':>26}{'in range':>10}"
    lines = []
    for key, title in (
        ("model", "model"),
        ("gpu", "card"),
        ("weight_format", "weights"),
        ("activation_checkpointing", "checkpoints"),
    ):
        lines += [f"{title:<22}{head}", *(_line(name, group) for name, group in grouped(judged, key).items())]
    lines.append(_line("all", judged))
    lines.append("in range: within the printed range of the speed, which should hold 80 %")
    ran = [one for one in judged if one.row["status"] == "ok"]
    failed = [one for one in judged if one.row["status"] == "oom"]
    refusals = sum(not one.estimate.vram_gib.fits for one in ran)
    fits = sum(one.estimate.vram_gib.fits for one in failed)
    lines.append(f"false rejects {_rate(refusals, len(ran))}, false fits {_rate(fits, len(failed))}")
    reasons = Counter(why for _, why in refused)
    lines.append(f"not predicted: {len(refused)} of {len(refused) + len(judged)}")
    lines += [f"{count:>15}  {why}" for why, count in reasons.most_common()]
    if rows:
        for one in judged:
            seen, found = one.row, one.estimate
            lines.append(
                f"{seen['model']:<20}{seen['gpu']:<10}{seen['weight_format']:<20}{seen['activation_checkpointing']:<8}"
                f"{seen['status']:<4}{seen['peak_gpu_gib']:>8} GiB, planned {found.vram_gib.allocated:6.2f}"
                f"{seen['step_s']:>9} s, planned {found.step_seconds.total:6.3f}"
            )
    return "\n".join(lines)


def grouped(judged: list[Judged], key: str) -> dict[str, list[Judged]]:
    """Return the rows by one of their columns, in the order of its values."""
    groups: dict[str, list[Judged]] = defaultdict(list)
    for one in judged:
        groups[one.row[key]].append(one)
    return dict(sorted(groups.items()))


def _rate(count: int, of: int) -> str:
    return f"{count} of {of}" + (f" ({count / of:.0%})" if of else "")


def _line(name: str, group: list[Judged]) -> str:
    memory = [one.memory for one in group if one.memory]
    seconds = [one.seconds for one in group if one.seconds]
    inside = [one.within for one in group if one.seconds]
    return f"{name:<22}{errors_of(memory):>24}{errors_of(seconds):>26}{sum(inside):>6}/{len(inside)}"


def errors_of(ratios: list[float]) -> str:
    """Return median and mean of the absolute error, the bias and the number of rows."""
    if not ratios:
        return "-"
    off = [abs(ratio - 1.0) for ratio in ratios]
    bias = math.exp(fmean(math.log(ratio) for ratio in ratios)) - 1.0
    return f"{median(off):.0%} / {fmean(off):.0%} ({bias:+.0%}) n {len(off)}"


class LeftOut(NamedTuple):
    """Errors in ln of the rows of one model: as shipped, and with the constants fitted to all other models."""

    model: str
    shipped: list[float]
    refitted: list[float]
    fitted: dict[str, float]


def leave_out(predict: Callable[[], list[Judged]]) -> list[LeftOut]:
    """Return each model's errors under constants that were fitted without it.

    The constants of `FITTED` are least squares of the errors of the others (each model counts once), with the range of
    the file as a prior; the estimates are taken as linear in their logarithms, whose slopes are differences.
    """
    rows = [one for one in predict() if one.seconds]
    errors = np.array([math.log(one.seconds) for one in rows if one.seconds])
    kernels = read_library([]).calibrations["kernels"].coefficients
    slopes = np.stack([_slopes(predict, name, errors) for name in FITTED], axis=1)
    priors = np.array([math.log((kernels[name].high or 1.0) / (kernels[name].low or 1.0)) / 2.0 for name in FITTED])
    models = np.array([one.row["model"] for one in rows])
    found = []
    for model in sorted(set(models)):
        others = models != model
        weight = np.array([1.0 / np.count_nonzero(models == each) for each in models[others]]) / LIKE_ERROR**2
        own = slopes[others] * weight[:, None]
        moved = -np.linalg.solve(own.T @ slopes[others] + np.diag(priors**-2.0), own.T @ errors[others])
        fitted = {name: kernels[name].value * math.exp(move) for name, move in zip(FITTED, moved, strict=True)}
        again = errors[~others] + slopes[~others] @ moved
        found.append(LeftOut(str(model), errors[~others].tolist(), again.tolist(), fitted))
    return found


def _slopes(predict: Callable[[], list[Judged]], name: str, errors: Floats) -> Floats:
    """Return how the logarithm of each row's seconds moves with that of one constant."""
    plain, step = Calibration.value, 1.05

    def moved(self: Calibration, key: str) -> float:
        return plain(self, key) * (step if key == name else 1.0)

    with mock.patch.object(Calibration, "value", moved):
        after = np.array([math.log(one.seconds) for one in predict() if one.seconds])
    return (after - errors) / math.log(step)


def left_out_text(found: list[LeftOut], sigma: float) -> str:
    """Return the errors by left-out model, and the spread that they suggest."""
    lines = [f"{'left out':<22}{'as shipped':>24}{'fitted without it':>24}  constants without it"]
    for one in found:
        constants = ", ".join(f"{value:.2g}" for value in one.fitted.values())
        shipped, again = (errors_of([math.exp(error) for error in each]) for each in (one.shipped, one.refitted))
        lines.append(f"{one.model:<22}{shipped:>24}{again:>24}  {constants}")
    every = np.abs([error for one in found for error in one.refitted])
    again = errors_of([math.exp(error) for one in found for error in one.refitted])
    lines.append(f"{'all':<46}{again:>24}  {', '.join(FITTED)}")
    inside = 0
    for one in found:
        others = np.abs([error for other in found if other is not one for error in other.refitted])
        inside += int(np.count_nonzero(np.abs(one.refitted) <= np.quantile(others, 0.68)))
    usual, most = (float(np.quantile(every, share)) for share in (0.68, 0.95))
    lines.append(f"68 % of these errors lie within {usual:.3f} ln, 95 % within {most:.3f}; stated {sigma:.3f}")
    lines.append(f"a range from the errors of the other models holds {_rate(inside, len(every))}")
    return "\n".join(lines)


def main() -> None:
    """Print the tables for the rows of one file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", type=Path)
    parser.add_argument("--examples", type=Path, default=EXAMPLES)
    parser.add_argument("--left-out", action="store_true", help="fit the constants without each model in turn, too")
    parser.add_argument("--rows", action="store_true", help="print each row, too")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        judged, refused = judge(asked.table, asked.examples, Path(folder))
        print(text_of(judged, refused, asked.rows))
        if asked.left_out:
            spread = read_library([]).calibrations["uncertainty"].value("diffusion.sigma")
            print(left_out_text(leave_out(lambda: judge(asked.table, asked.examples, Path(folder))[0]), spread))


if __name__ == "__main__":
    main()
