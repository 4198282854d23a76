"""Every flag of a setup changes the term it names, by the amount worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from planner.estimates.inputs import (
    ATTENTION_EAGER,
    CHECKPOINT_KEEP_ATTENTION,
    CHECKPOINT_MEGATRON_SELECTIVE,
    CHECKPOINT_NONE,
    CHECKPOINT_SELECTIVE,
    Stack,
)
from planner.estimates.memory_fit import PHASES
from planner.estimates.memory_terms import activation_terms, static_terms
from planner.units import GIB
from tests.helpers.memory_cases import (
    HF,
    LAYER_PARAMETERS,
    PLAIN,
    TINY,
    Case,
    adapter_states,
    estimate_memory,
    full_states,
    largest_micro_batch,
    layout,
    need_bytes,
    network,
)

UNSAVED = {"checkpointing": CHECKPOINT_NONE}
FROZEN = {"frozen": 1, "trainable": 1000}

# One layer at 10 tokens: 2 B * 10 * (8 * 100 + 2 * 300 + 100 + 4 * 400) = 62,000 bytes; its input 2,000.
CHANGES = [
    ("working_set", 62_000, {}),
    ("working_set", 56_000, {"network": {"parallel_residual": True}}),  # norms 5 instead of 8
    ("working_set", 56_000, {"network": {"rope": False}}),  # 300 instead of 2 * 300
    # 2 * 400 instead of 4 * 400, and LayerNorms of 6 instead of 8: 2 B * 10 * (600 + 600 + 100 + 800).
    ("working_set", 42_000, {"network": {"gated": False}}),
    ("working_set", 38_000, {"network": {"gated": False}, "activations": {"norm_units": 4}}),  # fewer stay
    ("working_set", 46_000, {"network": {"gated": False, "frozen_parameters": 1.0}}),  # an image network: 8
    ("working_set", 40_000, {"network": {"gated": False, "parallel_residual": True}}),  # one norm: 5
    ("working_set", 94_000, {"network": {"experts": 8, "experts_per_token": 2}}),  # 8 * 400
    # Half of the tokens; keys and values of the other half and their gradients: 4 * 100 * 2 B * 5.
    ("working_set", 35_000, {"layout": {"context": 2, "gpus": 2}}),
    ("working_set", 35_000, {"layout": {"context": 2, "gpus": 2}, "activations": {"key_exchange": 0}}),  # both parts
    ("working_set", 7_750 + 7_000, {"layout": {"context": 8, "gpus": 8}}),  # 8.75 of 10 tokens arrive
    ("working_set", 7_750 + 2_000, {"layout": {"context": 8, "gpus": 8}, "activations": {"key_exchange": 0}}),  # 2.5
    # Some heads of all tokens: a copy of the queries, keys and values of 1.25 tokens, 3 * 100 * 2 B * 1.25.
    ("working_set", 7_750 + 750, {"layout": {"context": 8, "gpus": 8}, "activations": {"key_exchange": 2}}),
    ("working_set", 62_000, {"activations": {"key_exchange": 2}}),
    ("working_set", 39_000, {"layout": {"tensor": 2, "gpus": 2}}),  # all but the norms halved
    ("working_set", 31_000, {"layout": {"tensor": 2, "gpus": 2}, "activations": {"sequence_parallel": 1}}),
    ("working_set", 49_600, {"activations": {"compiled": 1}}),
    ("working_set", 68_200, {"activations": {"working_factor": 1.1}}),
    ("working_set", 15_500, {"activations": UNSAVED}),
    ("working_set", 78_000, {"activations": {"attention": ATTENTION_EAGER}}),  # 16 B * 10 heads * 10 * 10
    ("stored_last", 4_000, {}),
    ("stored_last", 4_000 + 8_000, {"activations": {"keeps_cache": 1}}),  # keys and values: 2 * 100 * 2 B
    ("stored_last", 2_000, {"layout": {"tensor": 2, "gpus": 2}, "activations": {"sequence_parallel": 1}}),
    ("stored_last", 124_000, {"activations": UNSAVED}),
    ("stored_last", 99_200, {"activations": UNSAVED, "states": FROZEN}),
    ("stored_last", 99_200, {"activations": UNSAVED, "states": {**FROZEN, "quantised": 1}}),
    (
        "stored_last",
        136_400,
        {"activations": {**UNSAVED, "quantised_no_checkpoint_factor": 1}, "states": {**FROZEN, "quantised": 1}},
    ),
    ("stored_last", 132_000, {"activations": {**UNSAVED, "attention": ATTENTION_EAGER}}),  # 4 B per score
    # Beside its input each layer keeps the outputs of attention, q, v, gate and down: (4 * 100 + 400) * 10 * 2 B.
    ("stored_last", 4_000 + 2 * 16_000, {"activations": {"checkpointing": CHECKPOINT_SELECTIVE}}),
    # Without a gate it ends with up: down would be the sixth.
    (
        "stored_last",
        4_000 + 2 * 14_000,
        {"activations": {"checkpointing": CHECKPOINT_SELECTIVE}, "network": {"gated": False}},
    ),
    # Cut over two ranks but for its input and the output of down.
    (
        "stored_last",
        4_000 + 2 * 9_000,
        {"activations": {"checkpointing": CHECKPOINT_SELECTIVE}, "layout": {"tensor": 2, "gpus": 2}},
    ),
    (
        "stored_last",
        4_000 + 4_000,
        {"activations": {"checkpointing": CHECKPOINT_KEEP_ATTENTION}},
    ),  # 10 * 100 * 2 B each
    (
        "stored_last",
        4_000 + 2_000,
        {"layout": {"tensor": 2, "gpus": 2}, "activations": {"checkpointing": CHECKPOINT_KEEP_ATTENTION}},
    ),
    (
        "stored_last",
        124_000,
        {"activations": {"checkpointing": CHECKPOINT_MEGATRON_SELECTIVE, "attention": ATTENTION_EAGER}},
    ),
    ("logits", 140_000, {}),
    ("logits", 70_000, {"layout": {"tensor": 2, "gpus": 2}}),
    ("fragments", 10_300 + 10_000, {}),  # 0.05 * (4,000 + 140,000 + 62,000) + 1 B per logit
    ("fragments", 10_300, {"activations": {"logits_materialised": 0}}),
    ("fragments", 20_300 + 206_000, {"layout": {"variable_length": 1}}),
    ("fragments", 20_300 + 0.25 * 206_000, {"layout": {"variable_length": 0.25}}),  # samples a quarter of the longest
]


@pytest.mark.parametrize(("term", "expected", "changes"), CHANGES)
def test_activation_term(term: str, expected: float, changes: dict[str, Any]) -> None:
    """Bytes per sequence of 10 tokens of a two-layer network, flag by flag."""
    terms = activation_terms(
        replace(TINY, **changes.get("network", {})),
        layout(sequence=10, **changes.get("layout", {})),
        full_states(**changes.get("states", {})),
        replace(HF, **changes.get("activations", {})),
        PLAIN,
    )
    assert float(getattr(terms, term)) == pytest.approx(expected)


def test_stage_of_a_pipeline_holds_one_matrix() -> None:
    """Of two stages each has its layers and one embedding-sized matrix, whether or not the two are tied."""
    halves = layout(gpus=2, pipeline=2)
    untied = static_terms(TINY, halves, full_states(), PLAIN)
    tied = static_terms(replace(TINY, parameters=200_000, tied=True), halves, full_states(), PLAIN)
    assert (untied.weights, tied.weights) == pytest.approx((300_000, 300_000))


def test_extra_sharded_bytes_are_alive_in_the_step() -> None:
    """The extra bytes of an odd framework are cut over the shards of the optimizer, beside its step's own 2 bytes."""
    terms = static_terms(TINY, layout(gpus=4, zero_stage=1), full_states(extra_sharded_bytes=12), PLAIN)
    assert terms.optimizer == pytest.approx(300_000 * 4 / 4)
    assert terms.step_temporary == pytest.approx(300_000 * (2 + 12) / 4)


def test_a_bucket_of_deepspeed_is_alive_in_the_backward_pass() -> None:
    """5e8 gradients of 2 bytes, however few weights are trained: with the loss and the layers, not in the step."""
    plan = layout(gpus=2, zero_stage=2)
    without = Case(network(), plan, adapter_states(), HF, Stack())
    found = estimate_memory(**replace(without, states=adapter_states(bucket_bytes=1e9)).arguments())
    assert found.phases - estimate_memory(**without.arguments()).phases == pytest.approx([1e9, 1e9, 1e9, 0.0, 0.0])
    assert found.breakdown["bucket"] == 1e9


def test_zero_1_of_deepspeed_frees_the_gradients_of_others_before_it_steps() -> None:
    """Whole in the backward pass, a quarter on four ranks in the step: 2 bytes of 300,000 weights."""
    plan = layout(gpus=4, zero_stage=1)
    terms = static_terms(TINY, plan, full_states(bucket_bytes=1e9), PLAIN)
    assert (terms.gradients, terms.step_gradients) == pytest.approx((600_000, 150_000))
    assert static_terms(TINY, plan, full_states(), PLAIN).step_gradients == pytest.approx(600_000)


def test_load_limits_the_micro_batch() -> None:
    """Where loading alone passes the rule only just, batches are taken; a byte less of card takes none."""
    case = Case(network(), layout(gpus=8, zero_stage=3, sequence=64), adapter_states(load_whole=1), HF, Stack(phi=0.0))
    load = 2.0 * (32 * LAYER_PARAMETERS + 2 * 128_256 * 4096) * (1 + 1 / 8)
    enough = 1.02 * load + 1.0 * GIB
    cards = np.array([0.999 * enough, 1.001 * enough])
    assert PHASES[int(estimate_memory(**case.arguments()).phase)] == "load"
    refused, taken = largest_micro_batch(**case.arguments(), usable_bytes=cards)
    assert refused == 0
    assert taken > 1


@pytest.mark.parametrize("phi", [0.0, 0.2])
def test_largest_micro_batch_under_a_limiting_load(phi: float) -> None:
    """Around the card that holds exactly the loaded weights the closed form and the rule agree."""
    case = Case(network(), layout(gpus=8, zero_stage=2, sequence=64), adapter_states(load_whole=1), HF, Stack(phi=phi))
    one = float(need_bytes(**case.arguments()))
    for usable in np.linspace(0.99, 1.03, 9) * one:
        largest = int(largest_micro_batch(**case.arguments(), usable_bytes=usable))
        sizes = replace(case.layout, micro_batch=np.array([largest, largest + 1]))
        now, beyond = need_bytes(**{**case.arguments(), "layout": sizes}, usable_bytes=usable)
        assert largest == 0 or now <= usable
        assert beyond > usable


def test_stage_three_far_from_the_limit_ignores_heavy_fragmentation() -> None:
    """A batch whose need stays under 80 % of the card fits, even where the harder rule would refuse it."""
    fragmented = replace(PLAIN, f_var=20.0)
    plan = layout(gpus=8, zero_stage=3, sequence=64, variable_length=1)
    case = Case(network(), plan, full_states(), HF, Stack(), fragmented)
    usable = 60.0 * GIB
    largest = int(largest_micro_batch(**case.arguments(), usable_bytes=usable))
    sizes = replace(plan, micro_batch=np.array([largest, largest + 1]))
    now, beyond = need_bytes(**{**case.arguments(), "layout": sizes}, usable_bytes=usable)
    assert 0.7 * usable < now <= 0.8 * usable  # the harder rule stops well before
    assert beyond > usable


def test_rule_adds_no_communicators_to_a_megatron_context() -> None:
    """The fitted context of Megatron includes its communicators, so the rule adds none."""
    plan = layout(gpus=8, tensor=8)
    stack = Stack(context_gib=4.2, megatron_context=1, phi=0.0).with_margin(0.0)
    case = Case(network(), plan, full_states(), HF, stack)
    found = estimate_memory(**case.arguments())
    assert found.need - found.allocated == pytest.approx(4.2 * GIB)
