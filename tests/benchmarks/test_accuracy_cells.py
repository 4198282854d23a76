"""Tables to come will say things that nobody thought of: each row is predicted or told why not, never a crash."""

from __future__ import annotations

import math
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.accuracy.measurements import Row
from benchmarks.accuracy.predictions import Prediction, Predictor
from planner.library.reading import read_library

# A QLoRA run on one card: every cell that matters is filled in, so that one other cell can do harm.
RUN = {
    "source": "s", "model": "Llama-3-8B", "method": "qlora", "lora_rank": "16", "lora_targets": "q,v",
    "weight_quant": "nf4", "precision": "bf16 mixed", "optimizer": "adamw", "framework": "hf", "gpu": "A100",
    "gpu_mem_gb": "80", "num_gpus": "8", "sharding": "ddp", "act_ckpt": "full", "attention": "flash2",
    "micro_batch": "1", "grad_accum": "1", "seq_len": "2048", "packed": "yes", "status": "ok",
    "peak_mem_gb_per_gpu": "20", "mem_unit": "GiB", "tokens_per_s_total": "9000", "quality": "A",
}  # fmt: skip
COLUMNS = (
    *RUN, "tp", "pp", "cp", "global_batch", "params_b", "layers", "hidden", "heads", "kv_heads", "ffn", "vocab",
    "cpu_offload", "samples_per_s", "step_time_s", "weights_dtype", "loss_kernel", "mem_kind", "compile",
)  # fmt: skip
WORDS = (
    "", "0", "1", "2", "3", "8", "64", "-1", "0.5", "1e30", "nan", "inf", "yes", "no", "none", "fsdp+tp+pp", "zero3",
    "hsdp", "tp", "full", "lora", "pretrain", "partial (9 of 3 layers)", "partial (1 of 0 layers)", "selective",
    "layer split", "nf4", "int8", "fp8 mixed", "nvfp4", "fp32", "fp16", "bf16", "litgpt", "nemo", "unsloth",
    "torchtitan", "Mixtral-8x7B", "stable-diffusion-xl", "T4", "H100-SXM", "V100", "K80", "no; mean 0 tokens",
    "no; mean 300 tokens (std 0)", "512x512 px", "adamw 8bit", "adafactor", "oom",
)  # fmt: skip


@cache
def predictor() -> Predictor:
    """The shipped estimates."""
    return Predictor(read_library())


@pytest.mark.slow
@settings(derandomize=True, max_examples=150, deadline=None)
@given(st.dictionaries(st.sampled_from(COLUMNS), st.sampled_from(WORDS) | st.text(max_size=8), max_size=4))
def test_any_cells_give_a_figure_or_a_reason(cells: dict[str, str]) -> None:
    """Figures are finite and positive; a measured figure without a prediction has its reason counted."""
    row = Row(2, {name: value for name, value in {**RUN, **cells}.items() if value})
    found = predictor().one(row)
    for comparison in (found.peak, found.speed):
        if comparison is not None:
            assert 0 < comparison.predicted < math.inf
            assert 0 < comparison.measured < math.inf
            assert 0 < comparison.sigma <= comparison.sigma_tail * 2
    told = {figure for figure, _ in (*found.missing, *found.inexpressible, *found.contradictions)}
    if not row.out_of_memory:
        assert (found.peak is not None) or (row.peak_bytes is None) or ("memory" in told)
        assert (found.speed is not None) or not row.positive("tokens_per_s_total") or ("throughput" in told)


def predicted_run(**cells: str) -> Prediction:
    """The run above with other cells; an empty one is unknown."""
    return predictor().one(Row(2, {name: value for name, value in {**RUN, **cells}.items() if value}))


def test_an_unknown_card_is_our_gap_in_speed_and_none_in_memory() -> None:
    """What a run holds hangs on its card only where there is none; how fast it goes needs one."""
    found = predicted_run(gpu="FOO-9000", gpu_mem_gb="")
    assert found.peak is not None and not found.missing
    assert found.inexpressible == (("throughput", "the GPU 'FOO-9000', of which there is no card"),)
    assert predicted_run(gpu="").missing == (("throughput", "the GPU"),)


@pytest.mark.parametrize(
    ("cells", "blank"),
    [
        ({"seq_len": ""}, "the sequence length"),
        ({"micro_batch": ""}, "the micro-batch"),
        ({"num_gpus": ""}, "the number of GPUs"),
        ({"model": "no card", "params_b": ""}, "the network's dimensions"),
    ],
)
def test_what_is_inexpressible_is_no_gap_of_ours_where_a_needed_column_is_blank(
    cells: dict[str, str], blank: str
) -> None:
    """Nobody could predict such a row, so it stays out of the complete ones."""
    found = predicted_run(method="adapter", **cells)
    assert found.missing == (("memory", blank), ("throughput", blank))
    assert not found.inexpressible
