"""Weights and optimizer in host memory: what leaves the GPU, what the copies cost, and what never gets better."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.estimates.inputs import CHECKPOINT_OFFLOAD, Setup, Stack
from planner.estimates.memory_fit import host_bytes, paged_away
from planner.estimates.memory_terms import hosted_states, static_terms
from planner.units import GIB
from tests.helpers.memory_cases import HF, PLAIN, TINY, estimate_memory, full_states, layout, lines_of, network
from tests.helpers.memory_cases import Case as MemoryCase
from tests.helpers.time_cases import Case, case_of, golden_cases

GOLDEN = golden_cases()
PCIE = 0.8 * 12e9  # what pinned copies reach on the PCIe 3 host of the two RTX 3090


def hosted(row: str, **where: int) -> Case:
    """A golden case with some of its states in host memory."""
    case = case_of(GOLDEN[row])
    return replace(case, states=replace(case.states, **where))


def test_weights_in_host_memory_leave_gathered_layers_and_buffers() -> None:
    """Of 600,000 bytes of weights over four GPUs 2 % of a shard stay; what is gathered for the work stays whole."""
    plan = layout(gpus=4, zero_stage=3)
    there = static_terms(TINY, plan, full_states(host_weights=1), PLAIN)
    here = static_terms(TINY, plan, full_states(), PLAIN)
    assert there.weights == pytest.approx(0.02 * 600_000 / 4)
    assert there.optimizer == pytest.approx(0.02 * 4 * 300_000 / 4)
    assert there.gradients == pytest.approx(0.02 * 2 * 300_000 / 4)
    assert there.gathered_weights == here.gathered_weights


def test_an_optimizer_in_host_memory_leaves_weights_and_gradients() -> None:
    """Two moments of 2 bytes each leave, 2 % of them stay; a shard of ZeRO-1 has whole gradients."""
    plan = layout(gpus=4, zero_stage=1)
    there = static_terms(TINY, plan, full_states(host_optimizer=1), PLAIN)
    here = static_terms(TINY, plan, full_states(), PLAIN)
    assert there.optimizer == pytest.approx(0.02 * here.optimizer)
    assert there.step_temporary == pytest.approx(0.02 * here.step_temporary)
    assert (there.weights, there.gradients) == (here.weights, here.gradients)


def test_one_gpu_with_its_weights_in_host_memory_gathers_them() -> None:
    """A single rank shards nothing, but layers still come and go."""
    terms = static_terms(TINY, layout(gpus=1, zero_stage=3), full_states(host_weights=1), PLAIN)
    assert terms.gathered_weights == pytest.approx(400_000 + 2 * 2 * 50_000)


def test_copies_of_weights_by_hand() -> None:
    """Llama-2-7B in 4 bit on two GPUs: 2 x 0.56 bytes x 6.74e9 / 2 per micro-batch over each slot."""
    here, there = case_of(GOLDEN["m0859"]).time().parts, hosted("m0859", host_weights=1).time().parts
    copied = 2 * 0.56 * 6.738e9 / 2
    assert float(there["host_copies"]) == pytest.approx(copied / PCIE, rel=0.01)
    assert there["sharding"] == here["sharding"] and "host_copies" not in here


def test_a_step_on_the_host_by_hand() -> None:
    """LoRA weights of two GPUs: their states and gradient sums through 33 GB/s that both share, 16 bit over PCIe."""
    case = hosted("m0859", host_optimizer=1)
    each = case.states.trainable / 2
    node = float(case.layout.gpus_per_node)
    traffic, rounds = float(case.states.optimizer_traffic_bytes), float(case.layout.accumulation)
    expected = each * (2 + 2 * rounds) / PCIE + each * node * (traffic + 12 * rounds) / 33e9
    assert float(case.time().parts["optimizer"]) == pytest.approx(expected)


@settings(derandomize=True, max_examples=40)
@given(row=st.sampled_from(["m0012", "m0415", "m0859"]), weights=st.booleans())
def test_host_memory_is_never_faster(row: str, weights: bool) -> None:
    """Copies and CPUs cost time; nothing else changes."""
    there = hosted(row, host_weights=int(weights), host_optimizer=1)
    assert float(there.time().seconds) > float(case_of(GOLDEN[row]).time().seconds)


@settings(derandomize=True, max_examples=40)
@given(
    layers=st.integers(8, 80), gpus=st.sampled_from([2, 4, 8]), stage=st.sampled_from([1, 2, 3]), weights=st.booleans()
)
def test_host_memory_never_takes_more_of_the_gpu(layers: int, gpus: int, stage: int, weights: bool) -> None:
    """No term grows, and the optimizer shrinks."""
    plan = layout(gpus=gpus, zero_stage=stage)
    here = vars(static_terms(network(layers), plan, full_states(), PLAIN))
    states = full_states(host_weights=int(weights), host_optimizer=1)
    there = vars(static_terms(network(layers), plan, states, PLAIN))
    assert all(float(there[name]) <= float(here[name]) for name in here)
    assert float(there["optimizer"]) < float(here["optimizer"])


def test_gradients_follow_an_optimizer_on_the_host() -> None:
    """DeepSpeed's stage 2 hands each reduced gradient to the CPU: copies in flight stay, 2 % of 2 x 1e10 / 2 bytes."""
    large, plan = network(parameters=10**10), layout(gpus=2, zero_stage=2)
    there = static_terms(large, plan, full_states(host_optimizer=1), PLAIN)
    assert there.gradients == pytest.approx(0.02 * 10**10)
    first = static_terms(large, layout(gpus=2, zero_stage=1), full_states(host_optimizer=1), PLAIN)
    assert first.gradients == pytest.approx(2 * 10**10)


def test_deepspeed_keeps_fp32_gradients_beside_an_optimizer_on_the_host() -> None:
    """A quarter of 300,000 weights, 1.5 times for buffers: 12 + 4 bytes with DeepSpeed, without it 4 fewer.

    DeepSpeed's estimator of ZeRO-2 says 16 bytes for each parameter and a factor of 1.5, too.
    """
    plan = layout(gpus=4, zero_stage=2)
    states = full_states(optimizer_bytes=12, host_optimizer=1)
    assert float(hosted_states(TINY, plan, replace(states, bucket_bytes=1e9), PLAIN)) == pytest.approx(
        1.5 * 16 * 75_000
    )
    assert float(hosted_states(TINY, plan, states, PLAIN)) == pytest.approx(1.5 * 12 * 75_000)


def test_checkpoints_in_host_memory_by_hand() -> None:
    """Inputs of 28 layers: 3,072 x 2 bytes x 8,192 tokens, 1.5 times for pinned blocks; none of them on the card."""
    large = network(layers=28, hidden=3072)
    case = MemoryCase(large, layout(micro_batch=2, longest_sequence=4096), full_states(), HF, Stack())
    parked = replace(case, activations=replace(HF, checkpointing=CHECKPOINT_OFFLOAD))
    taken = float(host_bytes(Setup(case.network, case.layout, case.states, parked.activations, case.stack), PLAIN))
    assert taken == pytest.approx(1.5 * 28 * 3072 * 2 * 8192)
    here, there = (lines_of(**one.arguments()).grown[1]["stored_activations"] for one in (case, parked))
    assert (2 * here, there) == (pytest.approx(28 * 3072 * 2 * 8192), 0)


def test_paged_states_take_what_the_card_has_left() -> None:
    """Pages are part of no need; the driver shows them as far as the card has room for them."""
    plain = MemoryCase(network(), layout(micro_batch=4), full_states(), HF, Stack())
    paged = replace(plain, states=full_states(paged_optimizer=1))
    before, states = estimate_memory(**plain.arguments()), plain.states.optimizer_bytes * network().parameters
    free = estimate_memory(**paged.arguments())
    assert free.breakdown["optimizer"] == 0
    assert free.need < before.need
    assert free.device_used - free.reserved == pytest.approx(states + 0.5 * GIB)
    tight = estimate_memory(**paged.arguments(), usable_bytes=float(free.need) + GIB)
    assert tight.device_used == pytest.approx(float(free.need) + GIB)
    gone = estimate_memory(**paged.arguments(), usable_bytes=float(free.allocated))
    assert gone.device_used == pytest.approx(gone.reserved + 0.5 * GIB)


def test_pages_that_are_away_cross_the_bus_twice_in_a_step() -> None:
    """torchtune's 8B recipe (README): 4,096 tokens took 1.59 s on 48 GB, where all fits, and 2.48 s on 24 GB: 0.9 s.

    Live tensors took 18.9 GiB of 23.6, so of 15.2 GiB of 8-bit moments 10.5 were away: 2 x 11.3 GB at 20.7 GB/s.
    """
    case = case_of(GOLDEN["m0012"])
    slot = 0.863 * 24e9
    card = replace(case, hardware=replace(case.hardware, pcie=24e9))
    card = replace(card, coefficients=replace(card.coefficients, host_copy_utilisation=0.863))
    away = replace(card, states=replace(card.states, paged_optimizer=1, paged_away_bytes=11.3e9))
    more = float(away.time().parts["optimizer"] - card.time().parts["optimizer"])
    assert more == pytest.approx(2 * 11.3e9 / slot, rel=0.01)
    assert more == pytest.approx(4096 / 1650 - 4096 / 2579, rel=0.25)  # as measured, on another GPU of like speed


@settings(derandomize=True, max_examples=30)
@given(layers=st.integers(8, 80), batch=st.integers(1, 64), usable=st.floats(1.0, 200.0))
def test_pages_in_host_memory_grow_with_the_batch_and_shrink_with_the_card(
    layers: int, batch: int, usable: float
) -> None:
    """None is away of a card that holds all, all are of a full one, and never more than all."""
    setup = MemoryCase(network(layers), layout(), full_states(paged_optimizer=1), HF, Stack())
    lines = lines_of(**setup.arguments())
    states = 4.0 * network(layers).parameters
    here, there = (float(paged_away(lines, batch, room * GIB)) for room in (usable, usable / 2))
    assert 0.0 <= here <= there <= states * (1 + 1e-9)
    assert here <= float(paged_away(lines, 2 * batch, usable * GIB))
    assert float(paged_away(lines, batch, 1e15)) == 0.0
