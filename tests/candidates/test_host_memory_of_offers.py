"""States in host memory need an offer that states its memory, and enough of it."""

from __future__ import annotations

from typing import Any

import pytest

from planner.results.plan import Plan
from tests.helpers.stage_scenarios import RENTED, asked, solved

FULL = {"method": "full", "precision": "bf16_mixed", "weight_bits": 16, "optimizer": "adamw"}
SMALL = {**RENTED, "gpu": "RTX3060"}


def plan(ram_gb: float | None, **techniques: Any) -> Plan:
    """The audited plan of training 1.1 billion weights on one GPU of 12 GB whose machine has so much host memory."""
    offer = SMALL if ram_gb is None else {**SMALL, "ram_gb": ram_gb}
    job = {"architecture": "tinyllama-1.1b", "work": {"tokens": 1e6}, "framework": "deepspeed"}
    return solved(asked(offer, **job, techniques={**FULL, **techniques}))


def test_an_offer_with_room_trains_what_its_gpu_alone_cannot() -> None:
    """Of 20 bytes per weight 16 leave, and most of the gradients: 1.5 x 17.6 of 64 GB."""
    assert plan(64).status == "infeasible"
    found = plan(64, offload=["none", "optimizer"])
    assert found.status == "optimal"
    assert found.jobs[0].techniques.offload == "optimizer"
    assert found.jobs[0].vram_gib.parts["optimizer"] < 1


@pytest.mark.parametrize(
    ("ram_gb", "reason"), [(None, "does not state its host memory"), (16, "do not fit in the host memory")]
)
def test_unknown_and_small_host_memory_is_refused_with_its_reason(ram_gb: float | None, reason: str) -> None:
    """Nothing is assumed of an offer that says nothing."""
    found = plan(ram_gb, offload="optimizer")
    assert found.status == "infeasible"
    assert reason in str(found.model_dump())
