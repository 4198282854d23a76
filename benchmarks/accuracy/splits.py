"""Which rows a calibration may look at and which judge it: fixed by a hash of what a row says, never by its figures."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from benchmarks.accuracy.measurements import Row

DOCUMENTED = "organisation_documented"
"""In addition to the splits, of memory alone: an organisation left out, its framework named. Nothing that a fit has
taken from its rows is known, so what is left of a framework of one organisation alone is its documented accounting."""
HALVES = ("configuration", "source", "source_unknown")
"""By configuration; by whole source, its framework profiled; by whole source, its framework treated as unknown."""
SPLITS = ("organisation", "organisation_unknown", "configuration")
"""What a calibration is judged on: one organisation left out at a time, its framework forgotten where it was the only
one with it; the same with every framework forgotten; halves by configuration."""

PUBLISHERS = {
    "nvidia-nemo": "nvidia",
    "arxiv 2205.05198": "nvidia",
    "arxiv 2201.11990": "nvidia",
    "arxiv 2211.05100": "bigscience-workshop",
    "arxiv 2302.13971": "meta-llama",
    "arxiv 2307.09288": "meta-llama",
    "llama 3.2": "meta-llama",
    "mpt-7b announcement": "mosaicml",
}
"""Papers, cards and second accounts by the owner of the repositories that those who published them also fill.

NeMo and Megatron, selective recomputation (2205.05198) and Megatron-Turing NLG (2201.11990) are NVIDIA's, BLOOM
(2211.05100) is BigScience's, LLaMA, Llama 2 and Llama 3.2 are Meta's, MPT is MosaicML's.
"""

CONFIGURATION_COLUMNS = (
    "model", "method", "lora_rank", "lora_targets", "weight_quant", "precision", "optimizer", "gpu", "gpu_mem_gb",
    "num_gpus", "sharding", "tp", "pp", "cp", "act_ckpt", "cpu_offload", "attention", "compile", "micro_batch",
    "grad_accum", "global_batch", "seq_len", "packed", "framework", "loss_kernel", "weights_dtype",
)  # fmt: skip
"""What makes two rows the same configuration: equal ones fall on the same side whoever published them."""


def side(row: Row, split: str) -> int:
    """Return 0 or 1, half of the rows (or of the sources) each; a calibration fits one side and is judged on the other.

    Both source splits share their sides. ValueError for a split that is not in `HALVES`.
    """
    if split not in HALVES:
        raise ValueError(f"no split {split!r}; there are {', '.join(HALVES)}")
    return _parity(configuration_cells(row) if split == "configuration" else [family(row)])


def inner_side(row: Row) -> int:
    """Return 0 or 1 by configuration, whatever `side` says: for fits within one side of the configuration split."""
    return _parity(configuration_cells(row), byte=1)


def configuration_cells(row: Row) -> tuple[str, ...]:
    """Return what was run, without its source: equal for equal configurations."""
    return tuple(_cell(row, name) for name in CONFIGURATION_COLUMNS)


def family(row: Row) -> str:
    """Return the source of a row: the text of `source` up to its first colon, else its first two words.

    Files of one repository, or tables of one paper, belong together: split apart they would judge themselves.
    """
    head, colon, _ = row.source.partition(":")
    return head.strip() if colon else " ".join(row.source.split()[:2])


def organisation(row: Row) -> str:
    """Return who published a row: the owner of its repository, else of the paper or package, in lower case.

    All sources of one owner share its clusters, stacks and ways of counting, so none of them judges another.
    """
    first = row.source.split()[0] if row.source.split() else ""
    owner, slash, _ = first.partition("/")
    name = (owner if slash else " ".join(row.source.partition(":")[0].split()[:2])).casefold()
    return PUBLISHERS.get(name, name)


def _cell(row: Row, column: str) -> str:
    number = row.number(column)
    return row.text(column) if number is None else f"{number:g}"


def _parity(parts: Sequence[str], byte: int = 0) -> int:
    # The separator cannot occur in a cell, so no two lists of cells hash alike by running together.
    return hashlib.sha256("\x1f".join(parts).encode("utf-8")).digest()[byte] & 1
