"""Bytes of host memory that states take which lie there between their uses."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from planner.estimates.memory.states import static_terms

if TYPE_CHECKING:
    from planner.estimates.inputs import Layout, Network, Numbers, States
    from planner.estimates.memory.states import MemoryCoefficients

HOST_BUFFERS = 1.5
"""Host memory over the states that lie in it, copies and pinned buffers included: the `additional_buffer_factor` of
DeepSpeed's own estimators (documentation, "Memory Requirements")."""

FP32_GRADIENTS = 4
"""Bytes of gradients that DeepSpeed keeps in host memory for each parameter stepped there (the same estimators)."""


def host_bytes(network: Network, layout: Layout, states: States, coefficients: MemoryCoefficients) -> Numbers:
    """Return the bytes of host memory for one GPU: its shard of the optimizer, with weights offloaded of all states.

    Under DeepSpeed its shard of the gradients in fp32, too.
    Paged states count whole and without buffers: the driver moves pages, and may come to move all of them.
    Shape: that of the layout and states, broadcast. 0 where all states stay on the GPU.
    """
    here = static_terms(network, layout, replace(states, host_weights=0, host_optimizer=0), coefficients)
    weights = np.not_equal(states.host_weights, 0) & np.greater_equal(layout.zero_stage, 3)
    optimizer = weights | np.not_equal(states.host_optimizer, 0)
    sums = np.greater(states.bucket_bytes, 0) * (FP32_GRADIENTS * here.optimizer / states.optimizer_bytes)
    moved = optimizer * (here.optimizer + sums) + weights * (here.weights + here.adapters + here.gradients)
    return HOST_BUFFERS * moved + here.paged
