"""Memory of generation in the benchmark: which peaks are judged, and what is predicted for them."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.inference.benchmark import main
from benchmarks.inference.memory import collect_peaks, memory_figures
from benchmarks.inference.rows import read_rows
from planner.library.reading import read_library
from planner.units import GIB

LIBRARY = read_library(["llama-3.1-8b"])
BASE = {
    "source": "x/y", "organisation": "x", "model": "llama-3.1-8b", "gpu": "A100-80GB", "num_gpus": 1, "engine": "hf",
    "weight_bits": 16, "weight_format": "bf16", "input_tokens": 1000, "output_tokens": 3000, "batch": 2,
    "mode": "fixed-batch", "output_tokens_per_s_total": 50, "peak_mem_gb": 16.0, "mem_kind": "allocated",
    "quality": "A",
}  # fmt: skip
TOKEN = 2 * 32 * 8 * 128 * 2
"""Bytes of a token in the cache: keys and values of 32 layers with 8 heads of 128 numbers of 16 bits."""


def table(path: Path, *changes: dict[str, Any]) -> str:
    """Write `BASE` with changes, a row each."""
    with open(path, "w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, [*BASE, "id"])
        writer.writeheader()
        writer.writerows({**BASE, "id": str(number), **one} for number, one in enumerate(changes))
    return str(path)


def test_the_peak_is_that_of_the_prompts_or_of_the_last_token(tmp_path: Path) -> None:
    """Long answers end with the larger cache; of long prompts the activations of their pass come on top."""
    rows = read_rows(table(tmp_path / "t.csv", {}, {"input_tokens": 4000, "output_tokens": 10}))
    (late, early), _ = collect_peaks(rows, LIBRARY)
    weights = late.row.serving.model.stored_weights * 2.0
    assert late.measured == 16.0 * GIB
    assert late.predicted == pytest.approx(weights + 2 * 4000 * TOKEN)
    hidden = 4 * 4096 + 3 * 14336
    logits = 2 * 128256 * 8
    assert early.predicted == pytest.approx(weights + 2 * 4000 * TOKEN + 2 * 4000 * hidden * 2 + logits)


def test_what_a_whole_gpu_shows_has_the_kernels_and_units_are_those_of_the_reading(tmp_path: Path) -> None:
    """1,343 MiB of kernels; 16 GB are not 16 GiB, and megabytes of 10^6 bytes are over 1,024."""
    rows = read_rows(table(tmp_path / "t.csv", {}, {"mem_kind": "nvidia-smi"}, {"mem_kind": "reserved"}))
    (tensors, whole, pool), _ = collect_peaks(rows, LIBRARY)
    assert whole.predicted - tensors.predicted == pytest.approx(1343 * 2**20)
    assert whole.measured == 16 * 1024e6
    assert pool.measured == 16e9 and pool.predicted == tensors.predicted


def test_pools_and_readings_of_unknown_kind_are_counted_and_not_judged(tmp_path: Path) -> None:
    """vLLM and Optimum-NVIDIA fill the GPU whatever they need; a row without a peak is no row of memory."""
    changes = ({}, {"engine": "vllm"}, {"engine": "optimum-nvidia"}, {"mem_kind": ""}, {"peak_mem_gb": ""})
    found = memory_figures(read_rows(table(tmp_path / "t.csv", *changes)), LIBRARY)
    assert found["n"] == 1 and found["by"]["engine"]["hf"]["n"] == found["by"]["kind"]["allocated"]["n"] == 1
    assert found["skipped"] == {
        "a pool of the engine, whatever is needed": 2, "how memory was read is not stated": 1
    }  # fmt: skip


def test_the_benchmark_prints_memory_where_a_table_states_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As text and in the document; a table without peaks has no such part."""
    path = table(tmp_path / "t.csv", {})
    assert main([path, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["memory"]["n"] == 1
    assert main([path]) == 0
    assert "peak memory, no pool" in capsys.readouterr().out
    assert main([table(tmp_path / "u.csv", {"peak_mem_gb": ""})]) == 0
    assert "peak memory" not in capsys.readouterr().out


def test_fused_copies_and_scores_are_held_by_engines_that_make_them(tmp_path: Path) -> None:
    """AutoAWQ: q, k, v of 32 layers once more, 4,096 x 6,144 weights of 0.52 bytes; 8 bytes per score of 32 heads."""
    four = {"weight_bits": 4, "weight_format": "awq", "input_tokens": 4000, "output_tokens": 10}
    rows = read_rows(table(tmp_path / "t.csv", four, {**four, "engine": "autoawq"}))
    (plain, fused), _ = collect_peaks(rows, LIBRARY)
    copies = 32 * 4_096 * 6_144 * 0.52
    assert fused.predicted - plain.predicted == pytest.approx(copies + 8 * 32 * 2 * 4_000**2)


def test_the_cache_of_the_longest_text_is_taken_at_once_by_exllamav2(tmp_path: Path) -> None:
    """Two texts of 131,072 tokens, however short the requests are."""
    rows = read_rows(table(tmp_path / "t.csv", {"gpu": "H200"}, {"gpu": "H200", "engine": "exllamav2"}))
    (grown, whole), _ = collect_peaks(rows, LIBRARY)
    hidden = 4 * 4096 + 3 * 14336
    activations = 2 * 1000 * hidden * 2 + 2 * 128256 * 8
    assert whole.predicted - grown.predicted == pytest.approx(2 * (131_072 - 4_000) * TOKEN + activations)


def test_a_pool_keeps_what_rounding_widening_and_tuning_took(tmp_path: Path) -> None:
    """torchao: 256 MB of tuning in all formats; of the head of 525 million weights 2, 6 or 9 bytes each."""
    torchao = {"engine": "torchao (gpt-fast style)", "mode": "single-stream", "batch": 1, "gpu": "H100-80GB"}
    wanted = ((16, "bf16"), (8, "int8wo"), (8, "float8wo"), (4, "uintx-4-64-hqq"))
    changes = [{**torchao, "weight_bits": bits, "weight_format": form} for bits, form in wanted]
    pools = read_rows(table(tmp_path / "t.csv", *({**one, "mem_kind": "reserved"} for one in changes)))
    tensors = read_rows(table(tmp_path / "u.csv", *changes))
    kept = [
        pool.predicted - tensor.predicted
        for pool, tensor in zip(collect_peaks(pools, LIBRARY)[0], collect_peaks(tensors, LIBRARY)[0], strict=True)
    ]
    head = 128_256 * 4_096
    assert kept == pytest.approx([256e6, 256e6 + 2 * head, 256e6 + 6 * head, 256e6 + 9 * head])


def test_a_reading_of_a_process_that_held_two_models_has_both(tmp_path: Path) -> None:
    """ExLlamaV2 in 8 bits after 4 bits: the tensors of both runs and kernels once."""
    cells = {"engine": "exllamav2", "mem_kind": "nvidia-smi", "gpu": "H200", "batch": 1}
    eight, four = ({**cells, "weight_bits": bits, "weight_format": f"int{bits}"} for bits in (8, 4))
    (both, first), _ = collect_peaks(read_rows(table(tmp_path / "t.csv", eight, four)), LIBRARY)
    (alone, _), _ = collect_peaks(
        read_rows(table(tmp_path / "u.csv", {**eight, "mem_kind": "allocated"}, four)), LIBRARY
    )
    assert both.predicted == pytest.approx(alone.predicted + first.predicted)


def test_an_arena_grows_to_a_power_of_two(tmp_path: Path) -> None:
    """16.1 GB of weights and more take 17.2 GB in ONNX Runtime, and kernels."""
    cells = {"engine": "onnxruntime", "mem_kind": "nvidia-smi", "batch": 1, "input_tokens": 100, "output_tokens": 100}
    (one,), _ = collect_peaks(read_rows(table(tmp_path / "t.csv", cells)), LIBRARY)
    assert one.predicted == pytest.approx(2**34 + 1343 * 2**20)


def test_autoawq_takes_a_cache_of_2048_tokens_where_no_lengths_are_stated(tmp_path: Path) -> None:
    """A short prompt of unknown length, and 128 tokens of answer: 2,048 tokens of cache in place of 128."""
    four = {"weight_bits": 4, "weight_format": "awq", "mode": "single-stream", "batch": 1, "output_tokens": ""}
    rows = read_rows(table(tmp_path / "t.csv", *({**four, "engine": "autoawq", "input_tokens": t} for t in ("", 1))))
    (default, stated), _ = collect_peaks(rows, LIBRARY)
    hidden, logits, scores = 4 * 4096 + 3 * 14336, 128256 * 8, 8 * 32
    assert default.predicted - stated.predicted == pytest.approx(
        2048 * TOKEN + 2 * hidden + logits + scores - max(129 * TOKEN, TOKEN + 2 * hidden + logits + scores)
    )
