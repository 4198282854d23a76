"""The memory estimate on hand-sized numbers: phases, parts, flags and what the driver shows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from planner.estimates.inputs import (
    ATTENTION_EAGER,
    CHECKPOINT_EVERY_2ND,
    CHECKPOINT_FULL,
    CHECKPOINT_KEEP_ATTENTION,
    CHECKPOINT_NONE,
    CHECKPOINT_OFFLOAD,
    CHECKPOINT_SELECTIVE,
    Activations,
    Stack,
)
from planner.estimates.memory_fit import PHASES, evaluation_logit_bytes
from planner.estimates.memory_terms import static_terms
from planner.units import GIB
from tests.helpers.memory_cases import (
    HF,
    PLAIN,
    TINY,
    Case,
    adapter_states,
    estimate_memory,
    full_states,
    layout,
    need_bytes,
    network,
)

WORKED = Case(TINY, layout(micro_batch=2, sequence=10), full_states(), HF, Stack())
LARGE = Case(network(), layout(micro_batch=4), full_states(), HF, Stack())


def test_worked_example_by_hand() -> None:
    """Every figure of a network of 300,000 parameters at 20 tokens equals the sum done by hand."""
    found = estimate_memory(**WORKED.arguments())
    # W + O = 600,000 + 1,200,000; a layer's input 100 * 2 B * 20 tokens = 4,000; G = temporary = 600,000;
    # working set 2 B * 20 * (8 * 100 + 2 * 300 + 100 + 4 * 400) = 124,000; logits 14 B * 20 * 1000 = 280,000.
    assert found.phases == pytest.approx([2_088_000, 1_932_000, 2_524_000, 3_000_000, 0])
    assert PHASES[int(found.phase)] == "optimizer step"
    assert found.allocated == pytest.approx(3_000_000)
    # 0.5 * (3,412,000 of all phases - allocated) + 0.05 * (8,000 + 280,000 + 124,000) + 1 B * 20 * 1000 logits.
    assert found.reserved == pytest.approx(3_000_000 + 206_000 + 20_600 + 20_000)
    assert found.device_used == pytest.approx(3_246_600 + 0.5 * GIB)
    # Nothing in the optimizer step grows with the batch: the smaller margin.
    assert found.need == pytest.approx(1.02 * 3_000_000 + 0.2 * 246_600 + 0.5 * GIB)


def test_parts_of_the_limiting_phase_are_named() -> None:
    """In the optimizer step only weights, optimizer, gradients and its temporary are alive."""
    parts = estimate_memory(**WORKED.arguments()).breakdown
    assert {name: float(value) for name, value in parts.items() if value} == pytest.approx(
        {"weights": 600_000, "optimizer": 1_200_000, "gradients": 600_000, "step_temporary": 600_000}
    )


def test_reserved_is_capped_by_the_card() -> None:
    """The cache stops half a GiB before the card is full, but never below what is allocated."""
    free = estimate_memory(**LARGE.arguments())
    card = float(free.allocated + 0.6 * GIB)
    capped = estimate_memory(**LARGE.arguments(), usable_bytes=card)
    full = estimate_memory(**LARGE.arguments(), usable_bytes=float(free.allocated))
    assert free.reserved > capped.reserved
    assert capped.reserved == pytest.approx(card - 0.5 * GIB)
    assert full.reserved == full.allocated
    assert capped.reserved_uncapped == free.reserved


def test_context_of_several_gpus() -> None:
    """Communicators count for several GPUs: 0.5 GiB in the rule, all of them in what the driver shows."""
    one = estimate_memory(**LARGE.arguments())
    two = estimate_memory(**{**LARGE.arguments(), "layout": layout(micro_batch=4, gpus=2, zero_stage=2)})
    assert [(found.device_used - found.reserved) / GIB for found in (one, two)] == pytest.approx([0.5, 2.8])
    cache = 0.2 * (two.reserved_uncapped - two.allocated)
    assert two.need - two.allocated - two.margin - cache == pytest.approx(1.0 * GIB)


def test_states_have_the_smaller_margin() -> None:
    """Weights and optimizer follow from the accounting (2 %), activations and logits do not (5 %)."""
    long = {**LARGE.arguments(), "layout": layout(micro_batch=32)}
    found = estimate_memory(**long)
    grown = sum(found.breakdown[name] for name in ("stored_activations", "working_set", "logits"))
    assert grown > 0
    assert found.margin == pytest.approx(0.02 * (found.allocated - grown) + 0.05 * grown)
    equal = estimate_memory(**{**long, "stack": Stack().with_margin(0.1)})
    assert equal.margin == pytest.approx(0.1 * equal.allocated)


def test_what_stage_3_gathers_is_as_uncertain_as_activations() -> None:
    """How many layers are gathered at a time depends on the framework; the shards do not."""
    sharded = {**LARGE.arguments(), "layout": layout(micro_batch=32, gpus=8, gpus_per_node=8, zero_stage=3)}
    found = estimate_memory(**sharded)
    assert found.breakdown["gathered_weights"] > 0
    states = sum(found.breakdown[name] for name in ("weights", "optimizer", "gradients", "step_temporary"))
    assert found.known == pytest.approx(states)
    assert found.margin == pytest.approx(0.02 * states + 0.05 * (found.allocated - states))


def test_the_margin_that_just_fits_by_hand() -> None:
    """WORKED on 1.5 million bytes more than its peak, cache and context take, half of them for states.

    The optimizer step limits: 3,000,000 bytes of states at half the margin m, 0.2 * 246,600 cached, context:
    3,000,000 * 0.5 * m = 1,500,000, so m = 1. At m = 1 the first backward has 1,800,000 + 900,000 of states,
    2 * 132,000 of the rest and 0.2 * 0.5 * 1,480,000 of overlap: less.
    """
    usable = 3_000_000 + 0.2 * 246_600 + 0.5 * GIB + 1_500_000
    found = estimate_memory(**WORKED.arguments(), usable_bytes=usable)
    assert found.widest_margin(0.5) == pytest.approx(1.0)
    assert found.widest_margin(1.0) == pytest.approx(0.5)


def test_megatron_context_holds_the_communicators() -> None:
    """For Megatron the driver shows what the allocator reserves and one fitted context."""
    stack = Stack(context_gib=4.2, megatron_context=1)
    many = layout(gpus=16, gpus_per_node=8, tensor=8)
    found = estimate_memory(**{**LARGE.arguments(), "layout": many, "stack": stack})
    assert found.device_used - found.reserved == pytest.approx(4.2 * GIB)


def test_stage_three_near_the_limit_is_judged_harder() -> None:
    """Above 80 % of the card half of the cache counts under stage 3, below it a fifth."""
    case = {**LARGE.arguments(), "layout": layout(micro_batch=8, gpus=2, zero_stage=3)}
    loose = need_bytes(**case)
    found = estimate_memory(**case)
    cached = found.reserved_uncapped - found.allocated
    assert need_bytes(**case, usable_bytes=loose / 0.81) - loose == pytest.approx(0.3 * cached)
    assert need_bytes(**case, usable_bytes=loose / 0.79) == loose


def test_reducer_buckets_double_the_gradients_of_plain_data_parallelism() -> None:
    """Data parallelism without sharding holds a second copy of the gradients, ZeRO-1 does not."""
    parts = [
        estimate_memory(**{**LARGE.arguments(), "layout": layout(gpus=gpus, zero_stage=stage)}).breakdown
        for gpus, stage in ((1, 0), (2, 0), (2, 1))
    ]
    one, doubled, sharded = (float(part["gradients"]) for part in parts)
    assert (doubled, sharded) == pytest.approx((2 * one, one))


def test_hybrid_sharding_cuts_by_the_node() -> None:
    """Sharding inside nodes of 8 holds on 32 GPUs what full sharding holds on 8."""
    inside = layout(gpus=32, gpus_per_node=8, zero_stage=3, hybrid=1)
    one_node = layout(gpus=8, gpus_per_node=8, zero_stage=3)
    found = estimate_memory(**{**LARGE.arguments(), "layout": inside}).allocated
    assert found == estimate_memory(**{**LARGE.arguments(), "layout": one_node}).allocated


def test_accumulation_without_synchronisation_undoes_sharding() -> None:
    """Under stage 3 a loop that skips the reduction keeps whole gradients and whole weights."""
    states = full_states(no_sync_full_gradients=1)
    once, twice = (
        static_terms(LARGE.network, layout(gpus=8, zero_stage=3, accumulation=steps), states, PLAIN) for steps in (1, 2)
    )
    whole = 2.0 * LARGE.network.parameters
    assert once.gradients == pytest.approx(whole / 8)
    assert once.gathered_weights < whole / 2
    assert (twice.gradients, twice.gathered_weights) == pytest.approx((whole, whole))


def test_loader_that_materialises_everything_limits_small_batches() -> None:
    """A loader that holds the whole network next to its shard is the peak of a sharded LoRA run."""
    case = {**LARGE.arguments(), "layout": layout(gpus=8, zero_stage=3, sequence=64)}
    found = estimate_memory(**{**case, "states": adapter_states(load_whole=1)})
    assert PHASES[int(found.phase)] == "load"
    assert found.allocated == pytest.approx(2.0 * LARGE.network.parameters * (1 + 1 / 8))
    assert found.reserved_uncapped >= found.allocated


def test_checkpointing_orders_what_is_stored() -> None:
    """Offloaded, full, all but attention, per operator, every 2nd layer, none: each stores more than the one before."""
    codes = [
        CHECKPOINT_OFFLOAD,
        CHECKPOINT_FULL,
        CHECKPOINT_KEEP_ATTENTION,
        CHECKPOINT_SELECTIVE,
        CHECKPOINT_EVERY_2ND,
        CHECKPOINT_NONE,
    ]
    activations = Activations(np.array(codes), 0, logit_bytes=14)
    long = layout(micro_batch=8, sequence=8192)
    case = {**LARGE.arguments(), "layout": long, "states": adapter_states(), "activations": activations}
    stored = estimate_memory(**case).breakdown["stored_activations"]
    assert stored[0] == 0.0
    assert np.all(np.diff(stored) > 0.0)


def test_sliding_window_saves_nothing_in_eager_attention() -> None:
    """Eager attention computes the full square of scores and masks it, so a window changes no byte."""
    eager = replace(HF, attention=ATTENTION_EAGER)
    windowed = network(sliding_window=512, sliding_layers=1.0)
    case = {**LARGE.arguments(), "activations": eager}
    assert estimate_memory(**{**case, "network": windowed}).allocated == estimate_memory(**case).allocated


def test_gradients_wait_through_the_forward_pass_when_accumulating() -> None:
    """With several micro-steps the gradients of the earlier ones are alive at the end of forward."""
    once = estimate_memory(**LARGE.arguments()).phases
    twice = estimate_memory(**{**LARGE.arguments(), "layout": layout(micro_batch=4, accumulation=2)}).phases
    gradients = 2.0 * LARGE.network.parameters
    assert twice - once == pytest.approx([gradients, gradients, 0.0, 0.0, 0.0])


def test_pipeline_holds_a_micro_batch_per_stage_in_flight() -> None:
    """The first of four stages stores four micro-batches of a quarter of the layers; interleaving adds."""
    case = {**LARGE.arguments(), "activations": replace(HF, logit_bytes=0.3)}
    plain = layout(micro_batch=4, gpus=4, pipeline=4, accumulation=8, zero_stage=1)
    backward = PHASES.index("start of backward")
    stored = [
        float(estimate_memory(**{**case, "layout": replace(plain, **change)}).phases[backward])
        for change in ({"accumulation": 2}, {}, {"interleave": 2})
    ]
    boundary = 4096 * 2 * 4 * 2048  # bytes of one layer input of one micro-batch
    assert stored[1] - stored[0] == pytest.approx(2 * 8 * boundary)
    assert stored[2] - stored[1] == pytest.approx(4 * 8 * boundary * 3 / 8)


def test_grid_equals_its_elements() -> None:
    """A grid of recipes (R, 1) times hardware (H,) holds what its elements give one by one."""
    stages, gpus = np.array([[0], [1], [3]]), np.array([1, 2, 8])
    several = layout(micro_batch=2, gpus=gpus, zero_stage=stages)
    grid = estimate_memory(**{**LARGE.arguments(), "layout": several})
    assert grid.allocated.shape == (3, 3)
    for row, stage in enumerate((0, 1, 3)):
        for column, count in enumerate((1, 2, 8)):
            one = {**LARGE.arguments(), "layout": layout(micro_batch=2, gpus=count, zero_stage=stage)}
            assert grid.allocated[row, column] == estimate_memory(**one).allocated
            assert grid.need[row, column] == pytest.approx(need_bytes(**one))


def test_a_batch_of_evaluation_holds_all_of_its_logits() -> None:
    """Eight sequences of 2,048 tokens and 128,256 entries at 2 + 4 + 4 bytes: 21.0 GB, whatever fuses the loss."""
    assert evaluation_logit_bytes(8, 2048, 128_256) == pytest.approx(21.01e9, rel=1e-3)


def test_a_batch_of_evaluation_lies_next_to_states_context_and_gathered_weights() -> None:
    """W + O = 1,800,000 with 2 % more, the context, and three sequences of 1 MB with 5 % more; no gradients.

    Sharded over two GPUs half the states, communicators, and the root that is gathered at the loss.
    """
    usable = 0.5 * GIB + 1.02 * 1_800_000 + 3 * 1.05e6
    lines = estimate_memory(**WORKED.arguments()).lines
    assert [int(lines.evaluation_sequences(usable + more, 1e6)) for more in (-1.0, 1.0, -9e9)] == [2, 3, 0]
    sharded = layout(micro_batch=2, sequence=10, gpus=2, zero_stage=3)
    lines = estimate_memory(**{**WORKED.arguments(), "layout": sharded}).lines
    root = 2.0 * TINY.embedding_parameters
    usable = 1.0 * GIB + 1.02 * 900_000 + 1.05 * (root + 3e6)
    assert [int(lines.evaluation_sequences(usable + more, 1e6)) for more in (-1.0, 1.0)] == [2, 3]
