"""Weights and optimizer in host memory: what leaves the GPU, what the copies cost, and what never gets better."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.estimates.inputs import Stack
from planner.estimates.memory.states import static_terms
from planner.units import GIB
from tests.helpers.memory_cases import HF, PLAIN, TINY, estimate_memory, full_states, layout, network
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
    """Two moments of 2 bytes each leave, 2 % of them stay."""
    plan = layout(gpus=4, zero_stage=2)
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
    assert float(there["sharding"] - here["sharding"]) == pytest.approx(copied / PCIE, rel=0.01)


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
    """DeepSpeed's stage 2 hands each reduced gradient to the CPU: a bucket of 5e8 stays of 2 x 1e10 / 2 bytes."""
    large, plan = network(parameters=10**10), layout(gpus=2, zero_stage=2)
    there = static_terms(large, plan, full_states(host_optimizer=1), PLAIN)
    assert there.gradients == pytest.approx(0.02 * 10**10 + 2 * 5e8)
    first = static_terms(large, layout(gpus=2, zero_stage=1), full_states(host_optimizer=1), PLAIN)
    assert first.gradients == pytest.approx(2 * 10**10)


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
