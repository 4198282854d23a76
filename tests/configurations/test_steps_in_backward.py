"""A step in the backward pass: what gradients take, and that nothing is added up over micro-steps."""

from __future__ import annotations

from typing import Any

import pytest

import planner
from planner.errors import ScenarioError
from planner.evaluation.audit import audit
from planner.results.plan import Plan
from tests.helpers.stage_scenarios import RENTED, asked, library, solved

FULL = {"method": "full", "precision": "bf16", "activation_checkpointing": "full"}
ONE_RUN = {"framework": "torchtune", "micro_batch": 1, **FULL}


def plan_of(batch: int, packing: str = "packed", ram_gb: float = 64, **techniques: Any) -> Plan:
    """The audited plan of full training of TinyLlama on one RTX 4090 at a global batch."""
    job = {
        **{"architecture": "tinyllama-1.1b", "work": {"tokens": 1e7}, "sequence_length": 2048, "packing": packing},
        **{"global_batch": batch, "framework": "torchtune", "techniques": FULL | techniques},
    }
    job |= {"work": {"samples": 2560, "tokens_per_sample": 2000}} if packing == "padded" else {}
    return solved(asked({**RENTED, "gpu": "RTX4090", "ram_gb": ram_gb}, **job))


def test_gradients_are_those_of_a_layer_and_of_one_matrix_of_the_vocabulary() -> None:
    """Llama 2 7B in bf16: 202 M weights of a layer and 131 M of the head, 2 bytes each, in place of 12.6 GiB."""
    kept, used = (
        planner.estimate("llama-2-7b", "A100-80GB", optimizer=name, **ONE_RUN).vram_gib
        for name in ("adamw", "adamw_in_backward")
    )
    layer, matrix = 4 * 4096**2 + 3 * 4096 * 11008 + 2 * 4096, 32000 * 4096
    assert kept.parts["gradients"] == pytest.approx(2 * 6_738_415_616 / 2**30, rel=1e-4)
    assert 10 < kept.allocated - used.allocated <= 2 * (6_738_415_616 - layer - matrix) / 2**30


def test_micro_steps_are_refused_where_gradients_are_used_up() -> None:
    """There is no sum that a second micro-step could be added to."""
    with pytest.raises(ScenarioError, match="2 micro-steps add them up"):
        planner.estimate("llama-2-7b", "A100-80GB", optimizer="adamw_in_backward", accumulation_steps=2, **ONE_RUN)


@pytest.mark.parametrize("packing", ["packed", "padded"])
def test_a_batch_runs_whole_or_not_at_all(packing: str) -> None:
    """Where accumulation would fit, a batch that does not fit whole has no plan; the same optimizer without has one."""
    (job,) = plan_of(2, packing, optimizer="adamw_in_backward").jobs
    assert (job.techniques.micro_batch, job.techniques.accumulation_steps) == (2, 1)
    refused = plan_of(64, packing, optimizer="adamw_in_backward")
    assert refused.status == "infeasible" and refused.infeasible is not None
    assert all(miss.shortfall > 0 for miss in refused.infeasible.nearest)
    (job,) = plan_of(64, packing, optimizer="adamw").jobs
    assert job.techniques.accumulation_steps > 1


def test_a_plan_that_adds_up_what_is_used_up_fails_its_audit() -> None:
    """The audit looks at the micro-steps by itself."""
    job = {"architecture": "tinyllama-1.1b", "work": {"tokens": 1e6}, "framework": "torchtune", "global_batch": 2}
    scenario = asked(
        {**RENTED, "gpu": "RTX4090"}, **job, sequence_length=2048, techniques=FULL | {"optimizer": "adamw_in_backward"}
    )
    good = solved(scenario)
    split = good.jobs[0].techniques.model_copy(update={"micro_batch": 1, "accumulation_steps": 2})
    bad = good.model_copy(update={"jobs": (good.jobs[0].model_copy(update={"techniques": split}),)})
    assert any("accumulation" in str(violation) for violation in audit(bad, scenario, library()))


def test_checkpoints_take_no_more_than_the_host_has() -> None:
    """Of TinyLlama a sequence of 2,048 tokens takes 1.5 x 22 x 2,048 x 2 bytes x 2,048 = 0.28 GB: two fit in 0.7 GB."""
    roomy, small = (plan_of(8, ram_gb=ram, activation_checkpointing="offloaded").jobs[0] for ram in (64, 0.7))
    assert roomy.techniques.micro_batch > 2 and small.techniques.micro_batch == 2
    assert small.host_memory is not None and small.host_memory.taken_gb == pytest.approx(2 * 0.2768, rel=1e-3)
    assert plan_of(8, ram_gb=0.25, activation_checkpointing="offloaded").status == "infeasible"
