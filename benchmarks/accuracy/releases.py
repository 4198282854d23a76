"""What a framework's release decides where no column says it: loss, batches of a pipeline, where checkpoints lie."""

from __future__ import annotations

import re
from typing import NamedTuple

from benchmarks.accuracy.measurements import Row


class Release(NamedTuple):
    """A month since which a framework computes its loss otherwise; kernels are rows of models/techniques/bytes.yaml."""

    month: str
    before: str
    since: str
    named: str  # what the column says of both


RELEASES = {
    # Its recipes use a loss in chunks since pull request 1390; before, fp32 logits and a shifted copy of them, as
    # Transformers' classes did.
    "torchtune": Release("2024-09", "hf", "chunked", ""),
    # The loss is compiled with the model since pull request 1033; until then the line that did it was commented out.
    "torchtitan": Release("2025-04", "fp32-eager", "fp32-compiled", "fp32"),
}
"""Frameworks whose loss their release decides."""

_AO = "pytorch/ao:docs/source"
STATED_MONTHS = {
    (f"{_AO}/workflows/training.md", "h100-sxm"): "2025-03",  # torchtitan 0.0.2 with torch 2.7.0a0
    (f"{_AO}/workflows/training.md", "mi300x"): "2025-08",
    (f"{_AO}/workflows/training.md", "b200 (power limited)"): "2025-08",
    (f"{_AO}/eager_tutorials/pretraining.rst", "h100-sxm"): "2025-06",
}
"""Months of runs that a document states next to its tables (releases, nightly builds or the lines of a log), by GPU."""

_MONTH = re.compile(r"(?:_|@)(20\d\d)-?(\d\d)")
_NOW = "9999-99"
ONE_SEQUENCE_SINCE = "2025-04"
"""torchtitan, pull request 1073."""
OFFLOADS_SINCE = "2024-04"
"""unsloth."""


def losses_of_row(row: Row) -> tuple[str, ...]:
    """Return the loss kernels that a row allows, equally likely; an empty word where it says nothing."""
    return tuple(_as_sharded(row, _as_compiled(row, kernel)) for kernel in _allowed(row))


def _allowed(row: Row) -> tuple[str, ...]:
    """Return the kernels that the column names, or that releases of the framework leave open."""
    text, framework = row.text("loss_kernel"), row.text("framework")
    release = RELEASES.get(framework)
    if release is None or text != release.named:
        return (text,)
    month = _month(row)
    if (framework == "torchtitan" and row.text("compile") == "no") or (month and month < release.month):
        return (release.before,)
    return (release.since,) if month else (release.before, release.since)


def _as_compiled(row: Row, kernel: str) -> str:
    """Return the kernel as a compiler leaves it: torchtune compiles its chunks where it compiles the model."""
    chunks = row.text("framework") == "torchtune" and kernel == "chunked" and row.text("compile") == "yes"
    return "chunked-compiled" if chunks else kernel


def _as_sharded(row: Row, kernel: str) -> str:
    """Return the kernel under tensor parallelism: torchtitan's logits stay sharded (`disable_loss_parallel`: false)."""
    return f"{kernel}-sharded" if kernel == "fp32-eager" and (row.count("tp") or 1) > 1 else kernel


def _month(row: Row) -> str | None:
    """Return the month that a row's document or its name states; None where that is open.

    A document of the framework's own repository without a date describes its last release.
    """
    if stated := STATED_MONTHS.get((row.source, row.text("gpu"))):
        return stated
    if found := _MONTH.search(row.source):
        return f"{found[1]}-{found[2]}"
    own = row.source.split(":")[0].partition("/")[2]
    return _NOW if own == row.text("framework") else None


def pipelined_batch(row: Row, batch: int, pipeline: int) -> tuple[int, int]:
    """Return the micro-batch and micro-steps of torchtitan's `batch` per rank in a pipeline.

    One sequence at a time (`pipeline_parallel_microbatch_size`: 1); its releases before that option made as many
    micro-batches as there are stages (`pipeline_parallel_microbatches`: by default their number).
    """
    month = _month(row)
    if month and month < ONE_SEQUENCE_SINCE and batch % pipeline == 0:
        return batch // pipeline, pipeline
    return 1, batch


def keeps_inputs_on_card(row: Row) -> bool:
    """Return whether unsloth ran as before April 2024: plain checkpointing, and a loss that works on whole logits.

    Its rows say `full + CPU offload` where inputs of layers lie in host memory; where they say nothing, the month does.
    """
    month = _month(row)
    return row.text("act_ckpt") == "full" or (not row.text("act_ckpt") and month is not None and month < OFFLOADS_SINCE)
