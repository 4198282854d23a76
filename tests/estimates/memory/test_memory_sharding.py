"""What stage 3 and pipelines mean for memory: what is gathered, kept whole, freed, and when."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.estimates.inputs import CHECKPOINT_NONE, Stack
from planner.estimates.memory_terms import activation_terms, static_terms
from tests.helpers.memory_cases import (
    HF,
    PLAIN,
    TINY,
    Case,
    adapter_states,
    estimate_memory,
    full_states,
    layout,
    network,
)


def test_a_sharded_pipeline_keeps_its_stage_whole_between_micro_batches() -> None:
    """Two stages of 150,000 parameters on four GPUs: weights gathered at 2 bytes, gradients at 2, not cut in two."""
    plan = layout(gpus=4, pipeline=2, zero_stage=3)
    once = static_terms(TINY, plan, full_states(), PLAIN)
    often = static_terms(TINY, replace(plan, accumulation=4), full_states(), PLAIN)
    stage = 50_000 + 100_000  # one layer, one embedding-sized matrix
    assert once.gradients == pytest.approx(2 * stage / 2)
    assert once.gathered_weights == pytest.approx(2 * 2 * 50_000 + 2 * 100_000)  # two layers and the root unit
    assert often.gradients == pytest.approx(2 * stage)
    assert often.gathered_weights == pytest.approx(2 * stage)


def test_the_405b_pipeline_of_512_gpus_is_met_within_a_sixth() -> None:
    """Llama-3.1-405B, FSDP 8 x TP 8 x PP 8, eight sequences of 32,768: 75.3 GiB reserved (torchtitan benchmarks).

    States 12 GiB, whole weights of a stage 12, their fp32 gradients 23, inputs of 16 layers x 8 in flight 16.
    """
    giant = replace(
        network(layers=126), parameters=405.85e9, active_parameters=405.85e9, hidden=16384, heads=128, ffn=53248
    )
    plan = layout(gpus=512, gpus_per_node=8, tensor=8, pipeline=8, accumulation=8, zero_stage=3, sequence=32768)
    mixed = full_states(
        weight_bytes=4, embedding_bytes=4, gradient_bytes=4, optimizer_bytes=8, step_bytes=0, trainable=405.85e9
    )
    kernels = replace(HF, logit_bytes=10, compiled=1, sequence_parallel=1)
    found = estimate_memory(**Case(giant, plan, mixed, kernels, Stack()).arguments())
    assert float(found.reserved_uncapped) / 2**30 == pytest.approx(75.3, rel=1 / 6)


@settings(derandomize=True, max_examples=40)
@given(pipeline=st.sampled_from([2, 4, 8]), accumulation=st.sampled_from([2, 8]), sequence=st.sampled_from([512, 4096]))
def test_accumulating_in_a_sharded_pipeline_never_takes_less_than_one_micro_batch(
    pipeline: int, accumulation: int, sequence: int
) -> None:
    """What is kept whole between micro-batches is never less than what is gathered and reduced each time."""

    def allocated(rounds: int) -> float:
        plan = layout(gpus=8 * pipeline, pipeline=pipeline, accumulation=rounds, zero_stage=3, sequence=sequence)
        return float(estimate_memory(**Case(network(), plan, full_states(), HF, Stack()).arguments()).allocated)

    assert allocated(accumulation) >= allocated(1)


def test_only_the_root_unit_is_gathered_at_the_loss() -> None:
    """Stage 3 frees each layer after its forward pass: embedding and head stay, 2 bytes of 200,000 weights."""
    terms = static_terms(TINY, layout(gpus=4, zero_stage=3), full_states(), PLAIN)
    assert terms.gathered_root == pytest.approx(400_000)
    assert terms.gathered_weights == pytest.approx(400_000 + 2 * 2 * 50_000)


def test_a_loss_that_sets_the_peak_does_not_count_gathered_layers() -> None:
    """Where the phase is the end of forward, the breakdown shows the root unit alone among gathered weights."""
    plan = layout(gpus=8, zero_stage=3, micro_batch=4, sequence=4096)
    found = estimate_memory(**Case(network(), plan, full_states(), HF, Stack()).arguments())
    assert int(found.phase) == 0
    assert float(found.breakdown["gathered_weights"]) == pytest.approx(2 * 2 * 128_256 * 4096)
    assert float(sum(found.breakdown.values())) == pytest.approx(float(found.allocated))


def test_adapters_under_fsdp_keep_the_gradients_of_their_inputs() -> None:
    """32 layers x 4,096 x 2 bytes a token more than on one GPU while layers are recomputed, and no more at the loss."""
    plan = layout(gpus=2, zero_stage=3, sequence=10)
    kept, freed = (
        activation_terms(network(), plan, adapter_states(), replace(HF, keeps_gradients=flag), PLAIN) for flag in (1, 0)
    )
    assert float(kept.input_gradients) == pytest.approx(10 * 32 * 4096 * 2)
    assert freed.input_gradients == 0
    assert (kept.stored_last, kept.working_set, kept.logits) == (freed.stored_last, freed.working_set, freed.logits)
    unsaved = replace(HF, checkpointing=CHECKPOINT_NONE, keeps_gradients=1)
    assert activation_terms(network(), plan, adapter_states(), unsaved, PLAIN).input_gradients == 0


def test_zero_groups_cut_states_over_one_node() -> None:
    """Stage 1 in groups of eight on 64 GPUs holds an eighth of the moments, not a sixty-fourth."""
    plan = layout(gpus=64, gpus_per_node=8, zero_stage=1)
    grouped = static_terms(TINY, replace(plan, hybrid=1), full_states(), PLAIN)
    assert grouped.optimizer == pytest.approx(300_000 * 4 / 8)
    assert static_terms(TINY, plan, full_states(), PLAIN).optimizer == pytest.approx(300_000 * 4 / 64)


def test_zero_3_of_deepspeed_leaves_a_thousand_million_weights_gathered() -> None:
    """Of 8.03e9 weights 1e9 of layers stay, and the head of 128,256 x 4,096 is in use: 2 x (1e9 + 0.525e9) bytes."""
    plan = layout(gpus=8, zero_stage=3)
    found = static_terms(network(), plan, full_states(live_parameters=1e9), PLAIN)
    assert found.gathered_weights == pytest.approx(2 * (1e9 + 128_256 * 4096))
    assert found.gathered_root == pytest.approx(found.gathered_weights)


def test_zero_3_of_deepspeed_gathers_no_more_than_there_is() -> None:
    """300,000 weights: two layers of 50,000 and one of the two matrices of 100,000."""
    found = static_terms(TINY, layout(gpus=2, zero_stage=3), full_states(live_parameters=1e9), PLAIN)
    assert found.gathered_weights == pytest.approx(2 * (100_000 + 100_000))


def test_fsdp2_has_two_layers_of_a_mixture_and_copies_gradients_in_fp32() -> None:
    """At n_uns 1.2: two layers of 50,000 in place of 1.2, and 2 + 4 bytes for each gradient of a layer."""
    plan, near = layout(gpus=4, zero_stage=3), replace(PLAIN, n_uns=1.2)
    dense = static_terms(TINY, plan, full_states(), near)
    mixed = static_terms(TINY, plan, full_states(gathered_layers=2, reduction_copy_bytes=4), near)
    assert dense.gathered_weights == pytest.approx(2 * (1.2 * 50_000 + 200_000))
    assert mixed.gathered_weights == pytest.approx(2 * (2 * 50_000 + 200_000))
    assert (dense.gathered_gradients, mixed.gathered_gradients) == (2 * 50_000, 6 * 50_000)


def test_a_loss_that_makes_the_gradient_of_the_head_holds_it_before_the_backward_pass() -> None:
    """1,000 x 100 weights of 2 bytes at the loss and at the start of the backward pass, and not in the step."""
    plan = layout(gpus=1)
    plain = Case(TINY, plan, full_states(trainable=300_000.0), HF, Stack())
    early = replace(plain, activations=replace(HF, head_gradient_bytes=2))
    phases = [estimate_memory(**case.arguments()).phases for case in (plain, early)]
    more = [float(after) - float(before) for before, after in zip(*phases, strict=True)]
    assert more == pytest.approx([200_000, 200_000, 0, 0, 0])
