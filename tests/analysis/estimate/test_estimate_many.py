"""Estimates of many configurations: the same figures as one by one, faults at their rows, frames in and out."""

from __future__ import annotations

import math
from typing import Any

import pytest

import planner

pytestmark = pytest.mark.slow

ROWS: list[dict[str, Any]] = [
    {"architecture": "mistral-7b", "gpu": "A10G", "weight_bits": 4},
    {"architecture": "mistral-7b", "gpu": "2xA100-80GB", "method": "full", "optimizer": "adamw_8bit"},
    {"architecture": "mistral-7b", "gpu": "RTX4090", "method": "full"},  # does not fit
    {"architecture": "llama-3.1-8b", "gpu": "8 x H100", "method": "full", "sharding": "zero3", "micro_batch": 1},
    {"architecture": "llama-3.1-8b", "gpu": "H100", "global_batch": 64},
    {"architecture": "llama-3.1-8b", "gpu": "H100", "gpus": 16, "global_batch": 64, "network_gbps": 400.0},
    {
        **{"architecture": "llama-3.1-8b", "gpu": "L40S", "packing": "padded", "tokens_per_sample": 700},
        **{"sequence_length": 2048, "global_batch": 32},
    },
    {"architecture": "llama-3.1-8b", "gpu": "T4", "weight_bits": 4, "vram_headroom": 0.1},
    {"architecture": "llama-3.1-8b", "gpu": "RTX4090", "weight_bits": 4, "optimizer": "adamw_8bit_paged"},
    {
        **{"architecture": "llama-3.1-70b", "gpu": "H100", "gpus": 16, "tensor_parallel": 8, "pipeline_parallel": 2},
        **{"framework": "megatron", "method": "full"},
    },
    {"architecture": "llama-3.1-70b", "gpu": "A100-80GB", "weight_bits": 4, "lora_rank": 64, "lora_targets": "qv"},
    {"architecture": "mixtral-8x7b", "gpu": "8xH100", "weight_bits": 4},
    {"architecture": "tinyllama-1.1b", "gpu": "2xA10G", "method": "full", "offload": "optimizer", "ram_gb": 400.0},
    {"architecture": "stable-diffusion-1.5", "gpu": "A10G", "method": "lora"},
    {"architecture": "mistral-7b", "gpu": "A100-80GB", "precision": "bf16_qat", "method": "full"},
    {"architecture": "mistral-7b", "gpu": "A100-80GB", "activation_checkpointing": "all_offloaded", "method": "full"},
    {"architecture": "tinyllama-1.1b", "gpu": "MI300X", "accumulation_steps": 4, "activation_checkpointing": "none"},
]


def one_by_one(row: dict[str, Any]) -> planner.Estimate:
    settings = {name: value for name, value in row.items() if name not in ("architecture", "gpu")}
    return planner.estimate(row["architecture"], row["gpu"], **settings)


def figures_of(found: planner.Estimate) -> dict[str, Any]:
    """Return every figure of an estimate by the column that has it in the table."""
    vram = found.vram_gib
    figures = {
        **{"vram_gib": vram.peak, "usable_gib": vram.usable, "allocated_gib": vram.allocated, "fits": vram.fits},
        **{"fit_probability": vram.fit_probability, "phase": vram.phase, "reserved_gib": vram.reserved},
        **{"device_used_gib": vram.device_used, "step_seconds": found.step_seconds.total},
        **{f"gib_{name}": size for name, size in vram.parts.items()},
        **{f"seconds_{name}": seconds for name, seconds in found.step_seconds.parts.items()},
        "host_memory_gb": None if found.host_memory is None else found.host_memory.taken_gb,
    }
    same = (
        *("architecture", "gpu", "gpus", "instances", "interconnect", "sequence_length", "global_batch", "packing"),
        *("unit", "parameters", "trainable_parameters", "sigma", "sigma_in_tails", "tokens_per_second"),
        *("tokens_per_second_low", "tokens_per_second_high", "processed_tokens_per_second"),
    )
    of_techniques = {name: getattr(found.techniques, name) for name in type(found.techniques).model_fields}
    del of_techniques["latents"], of_techniques["lora_targets"]
    return {**figures, **{name: getattr(found, name) for name in same}, **of_techniques}


@pytest.mark.parametrize("places", [range(len(ROWS)), range(len(ROWS) - 1, -1, -2)], ids=["all", "every second"])
def test_figures_are_those_of_one_estimate(places: range) -> None:
    """Every figure of every row is that of `estimate`, whatever rows stand next to it."""
    table = planner.estimate_many([ROWS[place] for place in places])
    assert len(table) == len(places)
    for row, place in zip(table, places, strict=True):
        for name, figure in figures_of(one_by_one(ROWS[place])).items():
            if isinstance(figure, float):
                assert math.isclose(row[name], figure, rel_tol=1e-12, abs_tol=1e-15), (place, name, row[name], figure)
            else:
                assert row[name] == figure, (place, name)


def test_intervals_hold_the_figure() -> None:
    """Memory and speed lie in their intervals, and what is known of the memory narrows its own."""
    for row in planner.estimate_many(ROWS):
        assert row["allocated_gib_low"] < row["allocated_gib"] < row["allocated_gib_high"]
        assert row["tokens_per_second_low"] < row["tokens_per_second"] < row["tokens_per_second_high"]
        assert (
            row["allocated_gib_high"] / row["allocated_gib"]
            < row["tokens_per_second_high"] / row["tokens_per_second"] * 2
        )


def test_faults_name_their_rows() -> None:
    """All wrong rows are told together, each by its number and key; names that are unknown, too."""
    rows = [ROWS[0], {**ROWS[0], "gpus": 0}, {**ROWS[0], "gpu": "H999"}, {**ROWS[0], "micro_batches": 2}]
    with pytest.raises(planner.ScenarioError) as error:
        planner.estimate_many(rows)
    places = [fault.where for fault in error.value.faults]
    assert places == ["rows.1.gpus", "rows.2", "rows.3.micro_batches"]
    table = planner.estimate_many(rows, keep_faulty=True)
    assert [row["error"] is None for row in table] == [True, False, False, False]
    assert table[0]["vram_gib"] == planner.estimate_many(rows[:1])[0]["vram_gib"]
    assert table[2]["gpu"] == "H999" and "unknown GPU" in table[2]["error"] and table[2]["vram_gib"] is None


def test_targets_that_a_model_does_not_have_fault_their_row_alone() -> None:
    """A fault that is found in the arrays of a model is told of the row that has it."""
    rows = [ROWS[0], {**ROWS[0], "lora_targets": ["qkv_proj"]}]
    table = planner.estimate_many(rows, keep_faulty=True)
    assert table[0]["error"] is None and "lora.targets" in table[1]["error"]


def test_frames_come_in_and_go_out() -> None:
    """A frame with gaps is read as its rows, and the answer is a frame with a row for each."""
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(ROWS[:5])
    assert frame["weight_bits"].isna().any()
    answer = planner.estimate_many(frame).to_dataframe()
    assert list(answer["vram_gib"]) == planner.estimate_many(ROWS[:5]).column("vram_gib")
    assert len(planner.estimate_many([])) == 0
