"""States in host memory need a host with room: as its offer states, else the typical one of its class, with a mark."""

from __future__ import annotations

from typing import Any

import pytest

from planner.analysis.estimate_question import estimate
from planner.errors import ScenarioError
from planner.evaluation.audit import audit
from planner.report.plan_text import render
from planner.results.plan import Plan
from tests.helpers.stage_scenarios import RENTED, asked, library, solved

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


def test_a_small_host_is_refused_with_its_memory() -> None:
    """26 GB of states and buffers on 16 GB: the near miss names host memory, not that of the GPU."""
    found = plan(16, offload="optimizer")
    assert found.status == "infeasible" and found.infeasible is not None
    miss = found.infeasible.nearest[0]
    assert (miss.unit, miss.shortfall) == ("GB", pytest.approx(1.5 * 16 * 1.1 - 16, abs=0.1))
    assert "states in host memory take" in miss.reason and "16 are there" in miss.reason
    assert any("do not fit in the host memory of the offer" in reason for reason in found.candidates.reasons)


def test_an_unknown_host_is_taken_as_typical_and_the_plan_says_so() -> None:
    """Two GPUs of 12 GiB have 46 GB around them in a cloud, 32 GB at a private host; what an offer states stands."""
    job = {"architecture": "tinyllama-1.1b", "work": {"tokens": 1e6}, "framework": "hf"}
    techniques = {"method": "lora", "weight_bits": 16, "sharding": "zero3"}
    two = {**SMALL, "gpus": 2}
    hosts = {"cloud": two, "private": {**two, "community": True}, "stated": {**two, "ram_gb": 64}}
    found = {
        name: solved(asked(offer, **job, techniques={**techniques, "offload": "optimizer_and_weights"})).jobs[0]
        for name, offer in hosts.items()
    }
    memory = {name: job.host_memory for name, job in found.items()}
    assert {name: (one.total_gb, one.assumed) for name, one in memory.items() if one} == {
        "cloud": (46, True),
        "private": (32, True),
        "stated": (64, False),
    }
    assert [name for name, job in found.items() if "host memory assumed: " in job.notes[0]] == ["cloud", "private"]
    assert "host: " in render(solved(asked(two, **job, techniques={**techniques, "offload": "optimizer_and_weights"})))


def test_an_unknown_host_that_is_too_small_names_what_is_assumed() -> None:
    """No refusal is silent: 26 GB do not fit in the 16 that a private host with 12 GiB is taken to have."""
    offer = {**SMALL, "community": True}
    job = {"architecture": "tinyllama-1.1b", "work": {"tokens": 1e6}, "framework": "deepspeed"}
    found = solved(asked(offer, **job, techniques={**FULL, "offload": "optimizer"}))
    assert found.infeasible is not None
    miss = found.infeasible.nearest[0]
    assert "16 are assumed" in miss.reason
    assert miss.fix == "state ram_gb of the offer if it has more"


def test_a_paged_optimizer_is_opened_where_full_training_does_not_fit_otherwise() -> None:
    """18 bytes per weight do not fit into 16 GB and 10 do: 8.8 GB of moments come and go over PCIe in each step."""
    job = {"architecture": "tinyllama-1.1b", "work": {"tokens": 1e6}, "framework": "hf"}

    def found(ram_gb: float | None, gpu: str = "A4000", **techniques: Any) -> Plan:
        offer = {**SMALL, "gpu": gpu} if ram_gb is None else {**SMALL, "gpu": gpu, "ram_gb": ram_gb}
        return solved(asked(offer, **job, techniques={"method": "full", **techniques}))

    unknown = found(None).jobs[0]
    assert unknown.techniques.optimizer == "adamw_paged"
    assert unknown.host_memory is not None and unknown.host_memory.assumed
    assert found(8).status == "infeasible"  # 8.8 GB of moments
    paged = found(32).jobs[0]
    assert paged.techniques.optimizer == "adamw_paged"
    assert paged.host_memory is not None
    assert (paged.host_memory.taken_gb, paged.host_memory.assumed) == (pytest.approx(8 * 1.1, abs=0.1), False)
    assert found(32, optimizer="adamw").status == "infeasible"  # as listed
    assert found(32, gpu="A100-80GB").jobs[0].techniques.optimizer == "adamw"  # where it fits nothing is paged


@pytest.mark.parametrize("ram_gb", [None, 0.1, 64])
def test_pages_that_fit_on_the_card_need_no_host_memory(ram_gb: float | None) -> None:
    """The moments of adapters take 0.1 GB and more; of a card that is half empty none of them leaves."""
    offer = SMALL if ram_gb is None else {**SMALL, "ram_gb": ram_gb}
    job = {"architecture": "tinyllama-1.1b", "work": {"tokens": 1e6}, "framework": "hf", "sequence_length": 512}
    techniques = {"method": "lora", "weight_bits": 4, "optimizer": "adamw_paged"}
    found = solved(asked(offer, **job, techniques=techniques))
    assert found.status == "optimal"
    assert found.jobs[0].host_memory is None
    assert not any("host memory" in note for note in found.jobs[0].notes)


@pytest.mark.parametrize(("ram_gb", "gpus"), [(None, 1), (None, 2), (64, 1), (16, 1)])
def test_estimate_and_solve_agree_on_host_memory(ram_gb: float | None, gpus: int) -> None:
    """The same configuration has the same memory in both, known or assumed, or is refused by both."""
    found = solved(
        asked(
            {**SMALL, "gpus": gpus, **({} if ram_gb is None else {"ram_gb": ram_gb})},
            architecture="tinyllama-1.1b",
            work={"tokens": 1e6},
            framework="deepspeed",
            techniques={**FULL, "offload": "optimizer", **({"sharding": "zero3"} if gpus > 1 else {})},
        )
    )
    settings: dict[str, Any] = {"gpus": gpus, "framework": "deepspeed", "offload": "optimizer", "method": "full"}
    if found.status == "infeasible":
        with pytest.raises(ScenarioError, match="states take 26 GB of host memory per machine"):
            estimate("tinyllama-1.1b", "RTX3060", ram_gb=ram_gb, **settings)
        return
    job = found.jobs[0]
    settings |= {
        "micro_batch": job.techniques.micro_batch,
        "accumulation_steps": job.techniques.accumulation_steps,
        "activation_checkpointing": job.techniques.activation_checkpointing,
        "precision": job.techniques.precision,
        "sequence_length": job.sequence_length,
    }
    if gpus > 1:
        settings["sharding"] = "zero3"
    assert estimate("tinyllama-1.1b", "RTX3060", ram_gb=ram_gb, **settings).host_memory == job.host_memory


def test_a_plan_that_takes_more_host_memory_than_there_is_fails_its_audit() -> None:
    """The audit computes both figures again, and compares them."""
    offer = {**SMALL, "ram_gb": 64}
    scenario = asked(
        offer,
        architecture="tinyllama-1.1b",
        work={"tokens": 1e6},
        framework="deepspeed",
        techniques={**FULL, "offload": "optimizer"},
    )
    good = solved(scenario)
    assert audit(good, scenario, library()) == []
    host = good.jobs[0].host_memory
    assert host is not None
    small = scenario.model_copy(update={"offers": (scenario.offers[0].model_copy(update={"ram_gb": 16.0}),)})
    assert {"host memory in GB", "host_memory.total_gb"} <= {one.what for one in audit(good, small, library())}
    for changes in ({"taken_gb": host.taken_gb * 1.1}, {"total_gb": 80.0}, {"assumed": True}):
        job = good.jobs[0].model_copy(update={"host_memory": host.model_copy(update=changes)})
        told = audit(good.model_copy(update={"jobs": (job,)}), scenario, library())
        assert any(f"host_memory.{key}" in one.what for one in told for key in changes), changes
