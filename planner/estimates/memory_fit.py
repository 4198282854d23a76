"""Memory of one GPU while training: its peak by part, and the fit rule as lines in the micro-batch."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import TYPE_CHECKING

import numpy as np

from planner.arrays import Floats
from planner.estimates.inputs import Numbers, Setup, Stack, TimedSetup, tower_backward
from planner.estimates.memory_terms import (
    HOST_BUFFERS,
    ActivationTerms,
    MemoryCoefficients,
    StaticTerms,
    activation_terms,
    hosted_states,
    parked_bytes,
    static_terms,
    tower_terms,
)
from planner.estimates.uncertainty import confidence_factor, student_2_deviations
from planner.units import GIB

if TYPE_CHECKING:
    from numpy.typing import NDArray


# The fit rule: the memory need of a configuration as lines in the micro-batch, with a margin.
#
# Each phase of a training step needs `fixed + slope * micro_batch` bytes.
# The need of the fit rule is a maximum of such lines, so the largest micro-batch is a division.


TIGHT_SHARE = 0.8
"""Share of the usable memory above which `TIGHT_PHI` applies to a stage-3 plan."""

TIGHT_PHI = 0.5
"""Weight of fragmentation of a tight stage-3 plan: such runs failed (70B QLoRA on two GPUs at 85 %)."""

LARGEST_MICRO_BATCH = 2**31
"""The largest micro-batch where nothing grows with it."""


Parts = Mapping[str, Numbers]
"""Bytes of each part of the memory that is alive, such as `weights`."""


@dataclass(frozen=True)
class MemoryLines:
    """The phases of one step as lines in the micro-batch, each the sum of the parts that are alive in it.

    Phases 0..4: end of forward, start of backward, end of backward, optimizer step, load.
    All arrays broadcast with the arguments they were built from.
    """

    known: tuple[Parts, ...]  # per phase: states, which follow from the accounting, whatever the micro-batch
    held: tuple[Parts, ...]  # per phase: what else does not depend on the micro-batch
    grown: tuple[Parts, ...]  # per phase: bytes per sequence of the micro-batch
    fragments_slope: Numbers
    rho: float
    stage_three: NDArray[np.bool_]
    stack: Stack
    context_bytes: Numbers
    paged_bytes: Numbers  # optimizer states that leave the card when it is full; no part of any need
    most: Numbers = math.inf  # the largest micro-batch that the host has room for

    @cached_property
    def lines(self) -> list[tuple[Numbers, Numbers]]:
        """Bytes of each phase whatever the micro-batch, and per sequence of it."""
        return [(known + held, slope) for known, held, slope in self.margined]

    @cached_property
    def margined(self) -> list[tuple[Numbers, Numbers, Numbers]]:
        """Bytes of each phase by margin: states, what else is held, and bytes per sequence of the micro-batch."""
        phases = zip(self.known, self.held, self.grown, strict=True)
        return [(_sum(known), _sum(held), _sum(grown)) for known, held, grown in phases]

    @cached_property
    def together_line(self) -> tuple[Numbers, Numbers]:
        """The line of all parts of a step together; a part counts as in the last phase before the optimizer step."""
        sides = ((side[3], *side[:3]) for side in (self.known, self.held, self.grown))
        known, held, grown = (reduce(lambda merged, phase: {**merged, **phase}, side) for side in sides)
        return _sum(known) + _sum(held), _sum(grown)

    def phases(self, micro_batch: Numbers) -> list[Numbers]:
        """Return the bytes of each phase."""
        return [fixed + slope * micro_batch for fixed, slope in self.lines]

    def allocated(self, micro_batch: Numbers) -> Floats:
        """Return the peak of the bytes in live tensors, per GPU; shape of the broadcast setup."""
        return np.asarray(reduce(np.maximum, self.phases(micro_batch)))

    def together(self, micro_batch: Numbers) -> Floats:
        """Sum of all phases, as if nothing were freed between them."""
        fixed, slope = self.together_line
        return np.asarray(np.maximum(fixed + slope * micro_batch, self.lines[-1][0]))

    def cached(self, micro_batch: Numbers, allocated: Numbers) -> Floats:
        """Return reserved minus allocated bytes, before any cap: the allocator's cache and fragmentation."""
        overlap = self.rho * (self.together(micro_batch) - allocated)
        return np.asarray(overlap + self.fragments_slope * micro_batch)

    def margin(self, micro_batch: Numbers) -> Floats:
        """Return the bytes that the margins of the fit rule add to the peak."""
        return np.asarray(self._padded(0.0, micro_batch) - self.allocated(micro_batch))

    def need(self, micro_batch: Numbers, usable_bytes: Numbers = math.inf) -> Floats:
        """Return the bytes of the fit rule: allocated + margins + phi * (reserved - allocated) + context.

        States follow from the accounting and have the smaller margin.
        Fits where this is at most `usable_bytes`. Under stage 3, a need above `TIGHT_SHARE` of
        `usable_bytes` is judged again with `TIGHT_PHI`.
        """
        phi = self.stack.phi
        need = self._need(micro_batch, phi)
        if not np.any(self.stage_three):
            return need
        tight = self.stage_three & (need > np.multiply(TIGHT_SHARE, usable_bytes))
        return np.where(tight, self._need(micro_batch, np.maximum(phi, TIGHT_PHI)), need)

    def _need(self, micro_batch: Numbers, phi: Numbers) -> Floats:
        """Return the left side of the fit rule for one weight of fragmentation.

        Each phase counts with its margins and with what the allocator caches beyond it:
        max_i (phase_i + m_known * known_i + m * (phase_i - known_i) + phi * rho * (together(b) - phase_i)),
        or (1 + m_known) * load where loading needs more than all parts together; phi * fragments(b) + context on top.
        """
        overlap = np.multiply(phi, self.rho)
        together_fixed, together_slope = self.together_line
        step = self._padded(overlap, micro_batch) + overlap * (together_fixed + together_slope * micro_batch)
        above = phi * self.fragments_slope * micro_batch + self.context_bytes
        return np.asarray(np.maximum(step, (1.0 + self.stack.known_margin) * self.lines[-1][0]) + above)

    def _padded(self, overlap: Numbers, micro_batch: Numbers) -> Numbers:
        """Return the largest phase with its margins, less a share `overlap` of itself."""
        states, rest = 1.0 + self.stack.known_margin - overlap, 1.0 + self.stack.margin - overlap
        return reduce(
            np.maximum,
            [states * known + rest * held + rest * slope * micro_batch for known, held, slope in self.margined],
        )

    def largest_micro_batch(self, usable_bytes: Numbers) -> NDArray[np.int64]:
        """Return the largest micro-batch whose `need` is at most `usable_bytes`; 0 where one sequence does not fit."""
        largest = np.minimum(self._loosest(self._crossing, usable_bytes), self.most)
        return np.asarray(np.floor(np.clip(largest, 0.0, LARGEST_MICRO_BATCH)), dtype=np.int64)

    def evaluation_sequences(self, usable_bytes: Numbers, sequence_bytes: Numbers) -> NDArray[np.int64]:
        """Return the sequences that a batch of evaluation may have on one GPU; 0 where one has no room.

        The logits of each take `sequence_bytes` (`evaluation_logit_bytes`). Next to them lie what the loss of training
        finds, without gradients: states, the weights that are gathered then, buffers, context and communicators. The
        margins are those of the fit rule.
        """
        states = _sum({name: part for name, part in self.known[0].items() if name != "gradients"})
        rest = _sum({name: part for name, part in self.held[0].items() if name != "head_gradient"})
        states, rest = (1.0 + self.stack.known_margin) * states, (1.0 + self.stack.margin) * rest
        room = np.subtract(usable_bytes, self.context_bytes + states + rest)
        largest = np.maximum(room, 0.0) / ((1.0 + self.stack.margin) * np.asarray(sequence_bytes))
        return np.asarray(np.floor(np.minimum(largest, LARGEST_MICRO_BATCH)), dtype=np.int64)

    def _loosest(self, crossing: Callable[[Numbers, Numbers], Floats], usable_bytes: Numbers) -> Floats:
        """Return where `_need` meets the usable memory: the later one of both readings of a stage-3 plan.

        It fits where it is not tight, or where it fits with the heavier fragmentation.
        """
        phi = self.stack.phi
        if not np.any(self.stage_three):
            return crossing(usable_bytes, phi)
        tight_phi = np.where(self.stage_three, np.maximum(phi, TIGHT_PHI), phi)
        loose = crossing(np.multiply(TIGHT_SHARE, usable_bytes), phi)
        return np.maximum(crossing(usable_bytes, tight_phi), loose)

    def _crossing(self, usable_bytes: Numbers, phi: Numbers) -> Floats:
        """Return the micro-batch (real) at which `_need` reaches `usable_bytes`: the first of its lines to do so."""
        overlap = np.multiply(phi, self.rho)
        states, rest = 1.0 + self.stack.known_margin - overlap, 1.0 + self.stack.margin - overlap
        together_fixed, together_slope = self.together_line
        shared = overlap * together_slope + phi * self.fragments_slope
        room = usable_bytes - self.context_bytes - overlap * together_fixed
        load = (1.0 + self.stack.known_margin) * self.lines[-1][0]
        spare = np.subtract(usable_bytes, load + self.context_bytes)
        with np.errstate(divide="ignore", invalid="ignore"):
            # fmin drops the nan of 0 / 0: a phase that just fits and does not grow.
            ends = [
                np.divide(room - (states * known + rest * held), rest * slope + shared)
                for known, held, slope in self.margined
            ]
            crossing = reduce(np.fmin, [*ends, np.divide(spare, phi * self.fragments_slope)])
        return np.asarray(np.where(np.isnan(crossing), LARGEST_MICRO_BATCH, crossing))

    def widest_margin(self, micro_batch: Numbers, usable_bytes: Numbers, known_share: Numbers) -> Floats:
        """Return the margin with which `need` would just reach `usable_bytes`; below 0 where none is left.

        States count with `known_share` of it. The margins of the stack are not read. Infinite where nothing would
        grow with it.
        """
        together_fixed, together_slope = self.together_line

        def crossing(usable: Numbers, phi: Numbers) -> Floats:
            overlap = np.multiply(phi, self.rho)
            room = usable - self.context_bytes - np.multiply(phi, self.fragments_slope) * micro_batch
            ends = [
                (room - phase - overlap * (together_fixed + together_slope * micro_batch - phase), phase - known, known)
                for phase, (known, _, _) in zip(self.phases(micro_batch), self.margined, strict=True)
            ]
            loaded = self.lines[-1][0]
            ends.append((room - loaded, 0.0 * loaded, loaded))
            margins = []
            for left, moving, known in ends:
                size = np.asarray(moving + known_share * known, dtype=float)
                # A phase without bytes limits nothing.
                margins.append(np.where(size > 0.0, left / np.where(size > 0.0, size, 1.0), math.inf))
            return np.asarray(reduce(np.minimum, margins))

        return self._loosest(crossing, usable_bytes)


def _sum(parts: Parts) -> Numbers:
    return sum(parts.values())


def memory_lines(setup: Setup, coefficients: MemoryCoefficients) -> MemoryLines:
    """Return the lines of a configuration; `layout.micro_batch` is not read."""
    network, layout, states, stack = setup.network, setup.layout, setup.states, setup.stack
    static = static_terms(network, layout, states, coefficients)
    moving = activation_terms(network, layout, states, setup.activations, coefficients)
    head = float(network.vocab * network.hidden)
    several = np.greater(layout.gpus, 1) & np.equal(stack.megatron_context, 0)
    context_gib = stack.context_gib + np.where(several, stack.fit_nccl_gib, 0.0)
    return MemoryLines(
        known=_known_parts(static),
        held=_held_parts(static, setup.activations.head_gradient_bytes * head / layout.tensor),
        grown=_grown_parts(moving, tower_terms(setup, coefficients), tower_backward(setup)),
        fragments_slope=moving.fragments,
        rho=coefficients.rho,
        stage_three=np.asarray(np.greater_equal(layout.zero_stage, 3)),
        stack=stack,
        context_bytes=context_gib * GIB,
        paged_bytes=static.paged,
    )


def _known_parts(static: StaticTerms) -> tuple[Parts, ...]:
    """Return the states of each phase: known once sharding, precision and framework are."""
    base = {"weights": static.weights, "adapters": static.adapters, "optimizer": static.optimizer}
    base["reference"] = static.reference
    early, late = {"gradients": static.early_gradients}, {"gradients": static.gradients}
    busy = {**base, "cast_weights": static.cast_weights}
    return (
        {**busy, **early},
        {**busy, **early},
        {**busy, **late},
        {**base, "gradients": static.step_gradients, "step_temporary": static.step_temporary},
        {"weights": static.load},
    )


def _held_parts(static: StaticTerms, head_gradient: Numbers) -> tuple[Parts, ...]:
    """Return what else is alive in each phase whatever the micro-batch: how much depends on the framework.

    `head_gradient`: bytes that a loss makes in the forward pass, before the backward pass adds them to the gradients.
    """
    bucket, early = {"bucket": static.bucket}, {"head_gradient": head_gradient}
    gathered = {"gathered_weights": static.gathered_weights, "gathered_gradients": static.gathered_gradients}
    return (
        {"gathered_weights": static.gathered_root, **bucket, **early},  # before the backward pass of the loss
        {**gathered, **bucket, **early, "dequantised": static.dequantised},
        {**gathered, **bucket},
        {},
        {},
    )


def _grown_parts(moving: ActivationTerms, images: ActivationTerms | None, backward: Numbers) -> tuple[Parts, ...]:
    """Return the parts of each phase that grow with the micro-batch; `images`: those of a tower, and its `backward`."""
    stored = np.maximum(moving.stored_first, moving.stored_last)
    passing = {"working_set": moving.working_set, "input_gradients": moving.input_gradients}
    end, start, late = _tower_parts(moving, images, backward)
    return (
        {"stored_activations": moving.stored_last, "logits": moving.logits, **end},
        {"stored_activations": stored, **passing, **start},
        {**passing, **late},
        {},
        {},
    )


def _tower_parts(moving: ActivationTerms, images: ActivationTerms | None, backward: Numbers) -> tuple[Parts, ...]:
    """Return what a tower of images adds to the end of forward, the start and the end of backward.

    A tower without a backward pass has done its work before the language model stores anything: it counts where it
    needs more than that does at the end. Another stores its activations to the end of the backward pass.
    """
    if images is None:
        return {}, {}, {}
    alone = np.maximum(images.working_set - moving.stored_last - moving.logits, 0.0)
    if not np.any(backward):
        return {"image_tower": alone}, {}, {}
    kept = {"image_tower": np.where(backward, images.stored_last, 0.0)}
    working = np.where(backward, images.working_set, 0.0)
    end = {"image_tower": np.where(backward, images.stored_last, alone)}
    return end, kept, {"image_tower": kept["image_tower"] + working}


def fit_probability(margin: Numbers, sigma: Numbers, most: Numbers = 1.0) -> Floats:
    """Return the probability that the measured peak stays within a margin on what is uncertain, elementwise.

    ln(measured / predicted) has median 0 and heavy tails, once the bytes that are certain are taken off both: those of
    speed (`confidence_factor`). `margin`: `MemoryLines.widest_margin`; -1 and below is hopeless. At most `most`.
    A margin of 0.2 and sigma 0.111: ln(1.2) / 0.111 = 1.64, a probability of 0.95; one of 0.44, twice as far: 0.986.
    """
    with np.errstate(divide="ignore"):
        deviations = np.log(np.maximum(1.0 + np.asarray(margin, dtype=float), 0.0))
    return np.asarray(np.minimum(student_2_deviations(sigma, deviations), most), dtype=float)


def confidence_margin(sigma: float, confidence: float) -> float:
    """Return the margin on uncertain bytes within which the measured peak stays with probability `confidence`.

    The fit rule with this margin holds just where `fit_probability` of the widest margin is at least p, whatever the
    highest probability of the spread. Negative below one half.
    """
    return float(confidence_factor(sigma, confidence)) - 1.0


# Evaluation between training steps has memory of its own: logits of a whole batch, with nothing fused.


EVALUATION_LOGIT_BYTES = 10.0
"""Per token and vocabulary entry of a forward pass with labels: the logits in 16 bit, an fp32 copy, its log-softmax.

Whatever fuses the loss in training does not here. Sources: Transformers, loss/loss_utils.py: `ForCausalLMLoss`
(logits.float()); Liger-Kernel, transformers/model/llama.py: `lce_forward` (skip_logits only while the model trains).
"""


def evaluation_logit_bytes(sequences: float, tokens: float, vocab: int) -> float:
    """Return the bytes of the logits of one batch of evaluation: 8 x 2,048 tokens of 128,256 are 21.0 GB."""
    return EVALUATION_LOGIT_BYTES * sequences * tokens * vocab


# Memory of one GPU while training: peak, limiting phase, breakdown, what the driver shows, what must fit.
#
# The peak is the maximum over the phases of a step, not their sum.


# Optimizer states in managed pages: what of them the card has no room for, and what that costs a step.


UNRESERVED_BYTES = 0.5 * GIB
"""The allocator leaves the driver this much of the usable memory (a convention of the formula)."""


def host_bytes(setup: Setup, coefficients: MemoryCoefficients) -> Numbers:
    """Return the bytes of host memory for one GPU: its states there (`hosted_states`), and its checkpoints."""
    states = hosted_states(setup.network, setup.layout, setup.states, coefficients)
    return states + setup.layout.micro_batch * parked_bytes_with_buffers(setup, coefficients)


def parked_bytes_with_buffers(setup: Setup, coefficients: MemoryCoefficients) -> Numbers:
    """Return the bytes of host memory for one GPU and sequence that checkpoints take, in pinned blocks.

    PyTorch's allocator of pinned memory takes powers of two (CachingHostAllocator): up to twice the bytes, 1.5 assumed.
    """
    parts = (setup.network, setup.layout, setup.states, setup.activations)
    return HOST_BUFFERS * parked_bytes(*parts, coefficients)


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
    "reference",  # a frozen copy of the weights, of preference tuning
    "gradients",
    "step_temporary",  # of a non-fused optimizer step, and DeepSpeed's copies of gradients
    "cast_weights",  # 16-bit copies under autocast
    "gathered_weights",  # unsharded under stage 3
    "gathered_gradients",
    "bucket",  # of gradients that wait for their reduction
    "head_gradient",
    "dequantised",
    "stored_activations",
    "working_set",
    "input_gradients",  # of all layers, where FSDP keeps them
    "logits",
    "image_tower",  # activations of a tower of images; a part where a job has images
)
"""Parts of `MemoryEstimate.breakdown`."""


@dataclass(frozen=True)
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
    phases = np.stack([np.broadcast_to(np.asarray(line, dtype=float), need.shape) for line in lines.phases(batch)])
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
    named = {name for side in (lines.known, lines.held, lines.grown) for parts in side for name in parts}
    by_part = {name: np.zeros(phase.shape) for name in PARTS if name in named or name != "image_tower"}
    for code, (known, held, grown) in enumerate(zip(lines.known, lines.held, lines.grown, strict=True)):
        alive = {**known, **held, **{name: part * micro_batch for name, part in grown.items()}}
        for name, part in alive.items():
            by_part[name] = np.where(phase == code, part, by_part[name])
    return by_part
