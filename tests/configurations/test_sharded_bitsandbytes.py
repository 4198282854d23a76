"""Optimizers of bitsandbytes with sharded weights: where they work, what a shard holds, and what a plan says."""

from __future__ import annotations

from typing import Any

import pytest

import planner
from planner.errors import ScenarioError

QLORA = {
    **{"gpus": 2, "method": "lora", "weight_bits": 4, "sharding": "zero3", "micro_batch": 1, "sequence_length": 512},
    **{"framework": "hf", "activation_checkpointing": "full"},
}


def told(**changes: Any) -> Any:
    """A QLoRA of Llama 2 70B sharded over two RTX 3090."""
    return planner.estimate("llama-2-70b", "RTX3090", **(QLORA | changes))


def test_a_paged_optimizer_is_estimated_with_fsdp_by_hand() -> None:
    """As Axolotl's maintainers advise (issue 1522): it frees the moments, too little for 24 GB, as was reported there.

    207 million adapter weights: 8 bytes of moments over two GPUs are 0.77 GiB, 2.03 bytes in 8 bits 0.20 GiB.
    """
    plain, paged, eight = told(), told(optimizer="adamw_8bit_paged"), told(optimizer="adamw_8bit")
    trained = 80 * 16 * (2 * (8192 + 8192) + 2 * (8192 + 1024) + 3 * (8192 + 28672))
    assert plain.vram_gib.parts["optimizer"] == pytest.approx(8 * trained / 2 / 2**30, rel=1e-3)
    assert eight.vram_gib.parts["optimizer"] == pytest.approx(2.03 * trained / 2 / 2**30, rel=1e-3)
    assert plain.vram_gib.allocated - paged.vram_gib.allocated == pytest.approx(0.77, abs=0.01)
    assert not paged.vram_gib.fits and not plain.vram_gib.fits
    assert any("FSDP version 1" in note for note in paged.notes) and any("version 1" in note for note in eight.notes)
    assert not any("FSDP version 1" in note for note in plain.notes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"framework": "torchtune", "optimizer": "adamw_8bit_paged"}, "FSDP version 1 alone"),
        ({"framework": "deepspeed", "weight_bits": 16, "optimizer": "adamw_8bit"}, "FSDP version 1 alone"),
        ({"offload": "optimizer_and_weights", "optimizer": "adamw_paged"}, "step on the GPU"),
        ({"sharding": "zero2", "optimizer": "adamw_paged"}, "no run of a paged optimizer"),
        ({"sharding": "hsdp", "weight_bits": 16, "gpus": 16, "optimizer": "adamw_8bit"}, "no run of bitsandbytes"),
    ],
)
def test_where_no_run_is_known_the_reason_is_said(changes: dict[str, Any], message: str) -> None:
    """FSDP 2, host memory, and DeepSpeed's stages."""
    with pytest.raises(ScenarioError, match=message):
        told(**changes)
