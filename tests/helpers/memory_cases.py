"""Setups of the memory estimate, some drawn by Hypothesis, shared by the tests of this folder."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st

from planner.estimates import memory_fit as peak
from planner.estimates.inputs import CHECKPOINT_FULL, Activations, Layout, Network, Setup, Stack, States
from planner.estimates.memory_fit import MemoryEstimate, MemoryLines, memory_lines
from planner.estimates.memory_terms import MemoryCoefficients


def estimate_memory(usable_bytes: Any = math.inf, *, coefficients: MemoryCoefficients, **setup: Any) -> MemoryEstimate:
    """The memory estimate of the parts of a setup."""
    return peak.estimate_memory(Setup(**setup), coefficients, usable_bytes)


def lines_of(coefficients: MemoryCoefficients, **setup: Any) -> MemoryLines:
    """The memory lines of the parts of a setup."""
    return memory_lines(Setup(**setup), coefficients)


def need_bytes(usable_bytes: Any = math.inf, **setup: Any) -> Any:
    """The bytes of the fit rule at the micro-batch of the layout."""
    return lines_of(**setup).need(setup["layout"].micro_batch, usable_bytes)


def largest_micro_batch(usable_bytes: Any, **setup: Any) -> Any:
    """The largest micro-batch that passes the fit rule, whatever that of the layout."""
    return lines_of(**setup).largest_micro_batch(usable_bytes)


# Round figures near the fitted ones: laws must hold whatever was fitted.
PLAIN = MemoryCoefficients(
    k_log=1.0,
    k_ws=1.0,
    k_act=1.0,
    k_frz=0.8,
    k_frzq=1.1,
    k_comp=0.8,
    k_wait=0.2,
    c_in=1.25,
    e_att=16.0,
    e_sto=4.0,
    n_uns=2.0,
    rho=0.5,
    f_dyn=0.05,
    f_log=1.0,
    f_var=1.0,
    k_mws=1.0,
    host_resident=0.02,
)

# Small enough to be worked out by hand.
TINY = Network(
    parameters=300_000,
    active_parameters=300_000,
    layers=2,
    hidden=100,
    heads=10,
    kv_heads=10,
    head_dim=10,
    ffn=400,
    vocab=1000,
    tied=False,
    gated=True,
    rope=True,
)
HF = Activations(checkpointing=CHECKPOINT_FULL, attention=0, logit_bytes=14)

LAYER_PARAMETERS = 218_112_000.0  # of an 8B network of 32 layers, embedding and head apart


def network(layers: int = 32, vocab: int = 128_256, **changes: Any) -> Network:
    """A Llama-like network whose parameters follow its layers and vocabulary."""
    parameters = LAYER_PARAMETERS * layers + 2.0 * vocab * 4096
    plain = Network(
        parameters=parameters,
        active_parameters=parameters,
        layers=layers,
        hidden=4096,
        heads=32,
        kv_heads=8,
        head_dim=128,
        ffn=14336,
        vocab=vocab,
        tied=False,
        gated=True,
        rope=True,
    )
    return replace(plain, **changes)


def full_states(**changes: Any) -> States:
    """All weights trained in pure 16 bit."""
    plain = States(
        frozen=0,
        quantised=0,
        weight_bytes=2,
        embedding_bytes=2,
        gradient_bytes=2,
        optimizer_bytes=4,
        step_bytes=2,
        cast_bytes=0,
        trainable=8.03e9,
    )
    return replace(plain, **changes)


def adapter_states(rank: int = 16, quantised: int = 0, **changes: Any) -> States:
    """fp32 adapters on q, k, v and o of `network()`."""
    per_layer = rank * (2 * (4096 + 4096) + 2 * (4096 + 1024))
    plain = States(
        frozen=1,
        quantised=quantised,
        weight_bytes=0.5625 if quantised else 2,
        embedding_bytes=4 if quantised else 2,
        gradient_bytes=4,
        optimizer_bytes=8,
        step_bytes=4,
        cast_bytes=0,
        trainable=32.0 * per_layer,
        adapter_bytes=4,
        adapter_inputs=4 * 4096,
        adapter_copies=4,
    )
    return replace(plain, **changes)


@dataclass(frozen=True)
class Case:
    """The arguments of one estimate."""

    network: Network
    layout: Layout
    states: States
    activations: Activations
    stack: Stack
    coefficients: MemoryCoefficients = PLAIN

    def arguments(self) -> dict[str, Any]:
        """As keyword arguments of the estimate."""
        return dict(vars(self))


def layout(**changes: Any) -> Layout:
    """One sequence of 2,048 tokens on one GPU; the longest sequence follows `sequence`."""
    plain = Layout(micro_batch=1, accumulation=1, sequence=2048, longest_sequence=2048)
    if "sequence" in changes:
        changes.setdefault("longest_sequence", changes["sequence"])
    return replace(plain, **changes)


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    """Layouts of up to 128 GPUs in nodes of 8, every GPU in use."""
    tensor, pipeline, data = (draw(st.sampled_from(sizes)) for sizes in ([1, 2, 4], [1, 2, 4], [1, 2, 8]))
    return layout(
        micro_batch=draw(st.integers(1, 64)),
        accumulation=draw(st.integers(1, 8)),
        sequence=draw(st.sampled_from([256, 1000, 2048, 8192])),
        gpus=tensor * pipeline * data,
        gpus_per_node=8,
        tensor=tensor,
        pipeline=pipeline,
        interleave=draw(st.sampled_from([1, 2])),
        zero_stage=draw(st.integers(0, 3)),
        hybrid=draw(st.integers(0, 1)),
        variable_length=draw(st.sampled_from([0.0, 0.25, 1.0])),
    )


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Any setup: methods, sharding, checkpointing, attention and loss kernels mixed freely."""
    flag = st.integers(0, 1)
    states = draw(st.sampled_from([full_states(), adapter_states(), adapter_states(quantised=1)]))
    states = replace(
        states,
        cast_bytes=draw(st.sampled_from([0, 2])),
        no_sync_full_gradients=draw(flag),
        gradients_in_forward=draw(flag),
        load_whole=draw(flag),
    )
    activations = Activations(
        checkpointing=draw(st.integers(0, 5)),
        attention=draw(st.integers(0, 2)),
        logit_bytes=draw(st.sampled_from([0.3, 4, 8, 14])),
        logits_materialised=draw(flag),
        residual_bytes=draw(st.sampled_from([2, 4])),
        sequence_parallel=draw(flag),
        compiled=draw(flag),
        megatron_kernels=draw(flag),
        quantised_no_checkpoint_factor=draw(flag),
    )
    stack = Stack(margin=draw(st.sampled_from([0.0, 0.05, 0.2])), phi=draw(st.sampled_from([0.0, 0.2, 0.5])))
    return Case(network(layers=draw(st.sampled_from([4, 30, 32]))), draw(layouts()), states, activations, stack)
