"""Optimizer states in managed pages: what of them the card has no room for, and what that costs a step."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from planner.estimates.memory.fit import memory_lines
from planner.units import GIB

if TYPE_CHECKING:
    from planner.arrays import Floats
    from planner.estimates.inputs import Numbers, TimedSetup
    from planner.estimates.memory.fit import MemoryLines
    from planner.estimates.memory.states import MemoryCoefficients

UNRESERVED_BYTES = 0.5 * GIB
"""The allocator leaves the driver this much of the usable memory (a convention of the formula)."""


def paged_away(lines: MemoryLines, micro_batch: Numbers, usable_bytes: Numbers) -> Floats:
    """Return the bytes of paged states that lie in host memory, per GPU; shape of the broadcast arguments.

    Pages have what the allocator and the context leave of the card. The driver moves the rest away.
    """
    allocated = lines.allocated(micro_batch)
    wanted = allocated + lines.cached(micro_batch, allocated)
    reserved = np.minimum(wanted, np.maximum(allocated, np.subtract(usable_bytes, UNRESERVED_BYTES)))
    room = np.maximum(np.subtract(usable_bytes, reserved + lines.context_bytes), 0.0)
    return np.asarray(np.maximum(lines.paged_bytes - room, 0.0))


def with_paging(setup: TimedSetup, coefficients: MemoryCoefficients) -> TimedSetup:
    """Return the setup with what its paged states have away from the card at its batch; itself without pages."""
    if not np.any(setup.states.paged_optimizer):
        return setup
    away = paged_away(memory_lines(setup, coefficients), setup.layout.micro_batch, setup.hardware.usable_bytes)
    return replace(setup, states=replace(setup.states, paged_away_bytes=away))
