"""Bytes of host memory that states take which lie there between their uses, and what stays where it has no room."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from planner.estimates.memory.states import static_terms

if TYPE_CHECKING:
    from planner.estimates.inputs import Layout, Network, Numbers, States, TimedSetup
    from planner.estimates.memory.states import MemoryCoefficients

HOST_BUFFERS = 1.5
"""Host memory over the states that lie in it, copies and pinned buffers included: the `additional_buffer_factor` of
DeepSpeed's own estimators (documentation, "Memory Requirements")."""

FP32_GRADIENTS = 4
"""Bytes of gradients that DeepSpeed keeps in host memory for each parameter stepped there (the same estimators)."""


def host_bytes(network: Network, layout: Layout, states: States, coefficients: MemoryCoefficients) -> Numbers:
    """Return the bytes of host memory for one GPU: its shard of the optimizer, with weights offloaded of all states.

    Under DeepSpeed its shard of the gradients in fp32, too.
    Paged states count without buffers, and whole once the card has no room for some of them (`paged_away_bytes`): the
    driver moves pages, and may come to move all of them. As long as the card holds them all they take none.
    Shape: that of the layout and states, broadcast. 0 where all states stay on the GPU.
    """
    here = static_terms(network, layout, replace(states, host_weights=0, host_optimizer=0), coefficients)
    weights = np.not_equal(states.host_weights, 0) & np.greater_equal(layout.zero_stage, 3)
    optimizer = weights | np.not_equal(states.host_optimizer, 0)
    sums = np.greater(states.bucket_bytes, 0) * (FP32_GRADIENTS * here.optimizer / states.optimizer_bytes)
    moved = optimizer * (here.optimizer + sums) + weights * (here.weights + here.adapters + here.gradients)
    return HOST_BUFFERS * moved + np.where(np.greater(states.paged_away_bytes, 0), here.paged, 0.0)


def with_host_room(setup: TimedSetup, ram_bytes: Numbers, coefficients: MemoryCoefficients) -> TimedSetup:
    """Return the setup with paged states that never leave the card where the host cannot hold all of them.

    `ram_bytes` is the memory of one machine, nan where it is no limit; its shape is that of the layout, broadcast.
    """
    if not np.any(setup.states.paged_optimizer):
        return setup
    paged = static_terms(setup.network, setup.layout, setup.states, coefficients).paged
    fits = ~np.greater(np.multiply(paged, setup.layout.gpus_per_node), ram_bytes)
    if np.all(fits):
        return setup
    return replace(setup, states=replace(setup.states, paged_optimizer=setup.states.paged_optimizer * fits))
