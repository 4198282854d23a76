"""A probe as one row of a public table of measurements: what ran and what it took, nothing of who ran it."""

from __future__ import annotations

import csv
import hashlib
import io
from pathlib import Path
from typing import Any

from planner.analysis.calibration.probe_file import ProbeFile, read_probe
from planner.documents.files import check_writable, read_text, write_text_atomically
from planner.errors import Fault, InputError
from planner.library.reading import read_library
from planner.library.schema import Architecture
from planner.results.plan import Assignment, Plan
from planner.results.plan_parts import Techniques

ROW_SOURCE = "planner/probe"
"""Where the rows of all users say that they come from: they share the program, and none says whose it is."""
ROW_COLUMNS = (
    *("id", "source", "model", "params_b", "layers", "hidden", "heads", "kv_heads", "ffn", "vocab", "method"),
    *("lora_rank", "lora_targets", "dora", "adapt_head", "train_embeddings", "experts_16_bit", "weight_quant"),
    *("precision", "optimizer", "gpu", "gpu_mem_gb", "num_gpus", "sharding", "tp", "pp", "cp", "ep", "act_ckpt"),
    *("cpu_offload", "attention", "compile", "micro_batch", "grad_accum"),
    *("global_batch", "seq_len", "packed", "status", "peak_mem_gb_per_gpu", "mem_unit", "mem_kind", "alt_mem"),
    *("alt_mem_kind", "tokens_per_s_total", "step_time_s", "quality", "framework", "weights_dtype", "gpu_name"),
    *("device_used_gib", "load_gib", "host_gib", "step_spread", "steps", "python", "torch", "transformers", "trl"),
    *("accelerate", "peft", "bitsandbytes", "deepspeed", "liger_kernel", "driver"),
)
"""Those of models/measurements/own.csv as far as a probe has them, and what its runs do not have.

`benchmarks.accuracy` reads the table.
"""
_ATTENTION = {"flash": "flash2", "flash_3": "flash3", "flash_4": "flash4", "mem_efficient": "sdpa memory-efficient"}
_PRECISION = {
    "bf16_mixed": "bf16 mixed",
    "fp16_mixed": "fp16 mixed",
    "bf16": "bf16 pure",
    "tf32": "fp32",
    "fp32": "fp32 (no tf32)",
}
_OFFLOAD = {"none": "no", "optimizer": "optimizer", "optimizer_and_weights": "optimizer + parameters"}


def append_row(table: str, path: str, plan: Plan, name: str) -> None:
    """Append the row of a probe to a table, which is made where there is none; a row that it has is not added again.

    `InputError` for a table of other columns, and for one that cannot be written.
    """
    job = next(job for job in plan.jobs if job.name == name)
    check_writable(table)
    row = shared_row(read_probe(path), job)
    before = read_text(table) if Path(table).exists() else ""
    head = before.split("\n", 1)[0].strip()
    if head and head.split(",") != list(ROW_COLUMNS):
        fix = "give a table that --share wrote, or the name of a new one"
        raise InputError([Fault(table, 1, "", "has other columns than the row of a probe", fix)])
    if any(known["id"] == row["id"] for known in csv.DictReader(io.StringIO(before))):
        return
    text = io.StringIO()
    writer = csv.DictWriter(text, ROW_COLUMNS, lineterminator="\n")
    if not head:
        writer.writeheader()
    writer.writerow(row)
    write_text_atomically(table, before + ("\n" if before and not before.endswith("\n") else "") + text.getvalue())


def shared_row(probe: ProbeFile, job: Assignment) -> dict[str, Any]:
    """Return the row of a probe; a model that is not public has its dimensions and no name."""
    (card,) = read_library([job.architecture]).architectures.values()
    measured, embeddings = _figures(probe, job), _flag(bool(probe.run.get("trains_embeddings")))
    setup = {**_setup(job), "train_embeddings": embeddings}
    row = {"source": ROW_SOURCE, **_network(card), **setup, **measured, "gpu_name": probe.gpu_name}
    row |= {name: probe.versions.get(name.replace("_", "-"), "") for name in ROW_COLUMNS[-10:]}
    found = {name: _cell(row.get(name)) for name in ROW_COLUMNS}
    found["id"] = hashlib.sha256("\x1f".join(found.values()).encode()).hexdigest()[:12]
    return found


def _cell(value: Any) -> str:
    """Return a figure as a table has it; a text that a spreadsheet would run as a formula is no name of anything."""
    if isinstance(value, float):
        return f"{value:.6g}"
    return "" if value is None else str(value).lstrip("=+-@\t\r")


def _network(card: Architecture) -> dict[str, Any]:
    is_public = card.name in read_library().architectures
    return {
        "model": card.name if is_public else "",
        "params_b": round(card.parameters / 1e9, 6),
        **{name: getattr(card, name) for name in ("layers", "hidden", "heads", "kv_heads", "ffn", "vocab")},
    }


def _setup(job: Assignment) -> dict[str, Any]:
    """Return how the run was set up, in the words of tables of published runs."""
    used = job.techniques
    lora = used.method == "lora"
    targets = used.lora_targets
    padded = f"no (mean {job.tokens_per_step / job.global_batch:.0f} tokens)"
    return {
        "method": "qlora" if lora and used.weight_bits == 4 else used.method,
        "lora_rank": used.lora_rank if lora else None,
        "lora_targets": ("all linear" if targets == "all-linear" else _words(targets)) if lora else None,
        **{name: _flag(getattr(used, name)) for name in ("dora", "adapt_head", "experts_16_bit")},
        "weight_quant": "nf4 dq" if used.quant == "nf4_dq" else used.quant,
        "precision": _PRECISION.get(used.precision, used.precision),
        "optimizer": used.optimizer.replace("_", " "),
        **{"gpu": job.gpu, "num_gpus": job.gpus, "sharding": used.sharding},
        **{"tp": used.tensor_parallel, "pp": used.pipeline_parallel, "cp": used.context_parallel},
        "ep": used.expert_parallel,
        "act_ckpt": used.activation_checkpointing,
        "cpu_offload": _OFFLOAD.get(used.offload, used.offload),
        "attention": _ATTENTION.get(used.attention, used.attention),
        **{"compile": "no", "micro_batch": used.micro_batch, "grad_accum": used.accumulation_steps},
        **{"global_batch": job.global_batch, "seq_len": job.sequence_length},
        "packed": padded if job.packing == "padded" else "yes",
        "framework": job.framework or used.framework,
        "weights_dtype": _weights_dtype(used),
    }


def _weights_dtype(used: Techniques) -> str:
    """Return the type of the weights that are not quantised: full training under autocast keeps them in fp32."""
    keeps_fp32 = used.precision in ("fp32", "tf32") or (used.method == "full" and used.precision.endswith("_mixed"))
    return "fp32" if keeps_fp32 else used.precision[:4]


def _flag(is_used: bool) -> str:
    return "yes" if is_used else ""


def _words(targets: str | tuple[str, ...] | None) -> str | None:
    return " ".join(targets) if isinstance(targets, tuple) else targets


def _figures(probe: ProbeFile, job: Assignment) -> dict[str, Any]:
    """Return what was measured; of a run out of memory no figure of a step."""
    found: dict[str, Any] = {"status": probe.status, "quality": "A", "gpu_mem_gb": round(probe.gpu_gib or 0)}
    found |= {"load_gib": probe.load_gib, "host_gib": probe.host_gib}
    if probe.status == "oom" or probe.step_seconds is None:
        return found
    return found | {
        **{"peak_mem_gb_per_gpu": probe.allocated_gib, "mem_unit": "GiB", "mem_kind": "torch max_memory_allocated"},
        **{"alt_mem": probe.reserved_gib, "alt_mem_kind": "torch max_memory_reserved"},
        "device_used_gib": probe.driver_gib,
        "tokens_per_s_total": job.tokens_per_step / probe.step_seconds,
        **{"step_time_s": probe.step_seconds, "step_spread": probe.step_spread, "steps": len(probe.steps)},
    }
