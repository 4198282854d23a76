"""Memory of one GPU while training: peak, limiting phase, breakdown, what the driver shows, what must fit.

The peak is the maximum over the phases of a step, not their sum.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from planner.estimates.memory.memory_fit import MemoryLines, memory_lines
from planner.records import record
from planner.units import GIB

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from planner.arrays import Floats
    from planner.estimates.inputs import Numbers, Setup, TimedSetup
    from planner.estimates.memory.memory_states import MemoryCoefficients


# Optimizer states in managed pages: what of them the card has no room for, and what that costs a step.


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


PHASES = ("end of forward (logits)", "start of backward", "end of backward", "optimizer step", "load")
"""Names of the codes of `MemoryEstimate.phase`."""

PARTS = (
    "weights",
    "adapters",
    "optimizer",
    "gradients",
    "step_temporary",  # of a non-fused optimizer step, and DeepSpeed's copies of gradients
    "cast_weights",  # 16-bit copies under autocast
    "gathered_weights",  # unsharded under stage 3
    "gathered_gradients",
    "bucket",  # of gradients that wait for their reduction
    "dequantised",
    "stored_activations",
    "working_set",
    "input_gradients",  # of all layers, where FSDP keeps them
    "logits",
)
"""Parts of `MemoryEstimate.breakdown`."""


@record(frozen=True)
class MemoryEstimate:
    """One configuration per element; bytes per GPU."""

    allocated: Floats  # peak of live tensors = the sum of `breakdown`
    phase: NDArray[np.int64]  # index into PHASES
    phases: Floats  # (5, ...) bytes of every phase
    reserved: Floats  # allocator, capped by the usable memory
    reserved_uncapped: Floats
    device_used: Floats  # what the driver shows
    need: Floats  # left side of the fit rule
    margin: Floats  # of it, what its margins set aside
    known: Floats  # of `allocated`, the states, which follow from the accounting
    breakdown: dict[str, Floats]  # of every part in the limiting phase, 0 where it is not alive
    lines: MemoryLines
    micro_batch: Numbers
    usable_bytes: Numbers

    def widest_margin(self, known_share: Numbers) -> Floats:
        """Return the margin on uncertain bytes with which it would just fit; states count with `known_share` of it."""
        return self.lines.widest_margin(self.micro_batch, self.usable_bytes, known_share)


def estimate_memory(setup: Setup, coefficients: MemoryCoefficients, usable_bytes: Numbers = math.inf) -> MemoryEstimate:
    """Return the whole answer for display; `MemoryLines.need` is the cheap path for many candidates.

    `usable_bytes` caps `reserved` and decides which stage-3 plans are tight; without it neither happens.
    """
    stack, batch = setup.stack, setup.layout.micro_batch
    lines = memory_lines(setup, coefficients)
    need = lines.need(batch, usable_bytes)
    phases = np.stack([np.broadcast_to(np.asarray(one, dtype=float), need.shape) for one in lines.phases(batch)])
    phase = phases.argmax(axis=0)
    breakdown = _breakdown(lines, batch, phase)
    allocated = np.asarray(sum(breakdown.values()))
    uncapped = allocated + lines.cached(batch, allocated)
    room = np.subtract(usable_bytes, UNRESERVED_BYTES)
    reserved = np.minimum(uncapped, np.maximum(allocated, room))
    several = np.greater(setup.layout.gpus, 1) & np.equal(stack.megatron_context, 0)
    context = (stack.context_gib + np.where(several, stack.nccl_gib, 0.0)) * float(GIB)
    seen = reserved + context
    # Pages take what the card has left (CUDA's managed memory); PyTorch's allocator does not count them.
    pages = np.minimum(lines.paged_bytes, np.maximum(np.subtract(usable_bytes, seen), 0.0))
    return MemoryEstimate(
        allocated=allocated,
        phase=phase,
        phases=phases,
        reserved=reserved,
        reserved_uncapped=uncapped,
        device_used=seen + pages,
        need=need,
        margin=lines.margin(batch),
        known=np.choose(phase, [np.broadcast_to(known, phase.shape) for known, _, _ in lines.margined]).astype(float),
        breakdown=breakdown,
        lines=lines,
        micro_batch=batch,
        usable_bytes=usable_bytes,
    )


def _breakdown(lines: MemoryLines, micro_batch: Numbers, phase: NDArray[np.int64]) -> dict[str, Floats]:
    """Return the parts alive in the limiting phase of each element."""
    found = {name: np.zeros(phase.shape) for name in PARTS}
    for code, (known, held, grown) in enumerate(zip(lines.known, lines.held, lines.grown, strict=True)):
        alive = {**known, **held, **{name: part * micro_batch for name, part in grown.items()}}
        for name, part in alive.items():
            found[name] = np.where(phase == code, part, found[name])
    return found
