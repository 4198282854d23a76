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


def test_a_paged_optimizer_is_opened_where_full_training_does_not_fit_and_host_memory_is_known() -> None:
    """18 bytes per weight do not fit into 16 GB and 10 do: 8.8 GB of moments come and go over PCIe in each step."""
    job = {"architecture": "tinyllama-1.1b", "work": {"tokens": 1e6}, "framework": "hf"}

    def found(ram_gb: float | None, gpu: str = "A4000", **techniques: Any) -> Plan:
        offer = {**SMALL, "gpu": gpu} if ram_gb is None else {**SMALL, "gpu": gpu, "ram_gb": ram_gb}
        return solved(asked(offer, **job, techniques={"method": "full", **techniques}))

    assert found(None).status == "infeasible"  # nothing is assumed of a machine that says nothing
    assert found(8).status == "infeasible"  # 8.8 GB of moments
    paged = found(32)
    assert paged.jobs[0].techniques.optimizer == "adamw_paged"
    assert found(32, optimizer="adamw").status == "infeasible"  # as listed
    assert found(32, gpu="A100-80GB").jobs[0].techniques.optimizer == "adamw"  # where it fits nothing is paged
