"""Rows of a study of configurations per CPU second: `estimate_many` against `estimate` one by one."""

from __future__ import annotations

import itertools
from functools import partial
from typing import Any

from benchmarks.speed.timing import Line, best_times

MODELS = ("mistral-7b", "llama-3.1-8b", "qwen2.5-7b", "llama-3.1-70b")
GPUS = ("A10G", "L40S", "RTX4090", "H100", "2xA100-80GB", "8xH100")
WAYS: tuple[dict[str, Any], ...] = ({"method": "lora", "weight_bits": 4}, {"method": "lora"}, {"method": "full"})
LENGTHS, BATCHES = (1024, 4096), (None, 1, 4)
TARGET = 12.0


def study() -> list[dict[str, Any]]:
    """Return the rows of a study that fit: of the others `estimate` looks for changes that make them fit, too."""
    from planner import estimate_many

    rows = [
        {"architecture": model, "gpu": gpu, **way, "sequence_length": length, "micro_batch": batch}
        for model, gpu, way, length, batch in itertools.product(MODELS, GPUS, WAYS, LENGTHS, BATCHES)
    ]
    return [row for row, found in zip(rows, estimate_many(rows), strict=True) if found["fits"]]


def _one_by_one(rows: list[dict[str, Any]]) -> None:
    from planner import estimate

    for row in rows:
        settings = {name: value for name, value in row.items() if name not in ("architecture", "gpu")}
        estimate(row["architecture"], row["gpu"], **settings)


def estimates_lines(repeat: int) -> list[Line]:
    """Measure a study at once against its rows one by one."""
    from planner import estimate_many

    rows = study()
    at_once = best_times(partial(estimate_many, rows), repeat)
    loop = best_times(partial(_one_by_one, rows), repeat)
    told = f"{len(rows)} rows: {at_once}; one by one {loop}"
    return [Line("estimate_many rows per CPU second / estimate", loop.cpu / at_once.cpu, "x", TARGET, False, told)]
