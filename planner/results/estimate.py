"""The result of `estimate`.

Memory is GiB per GPU, time is seconds of one optimizer step.
"""

from __future__ import annotations

from typing import Literal

from planner.results.plan_parts import CutSamples, HostMemory, Part, Techniques, Vram, html_table
from planner.results.result_tables import Result


class Capacity(Vram):
    """Memory needed and usable on one GPU; `parts` sum to `allocated`, with `set_aside` to `peak`."""

    fits: bool
    reserved: float
    """Memory of the allocator: live tensors, its cache and fragmentation."""
    device_used: float
    """Memory that nvidia-smi shows: reserved, context and communicators."""
    set_aside: dict[str, float]
    """Parts of the fit rule: the margin, the counted share of fragmentation, and the context."""


class StepSeconds(Part):
    """Seconds of one optimizer step; `parts` exclude overlapped work and sum to `total`."""

    total: float
    parts: dict[str, float]


class Remedy(Part):
    """One change that makes a configuration fit, and the peak with it."""

    change: str
    peak: float


class Estimate(Result):
    """Memory and speed of one configuration."""

    schema_version: int = 3
    architecture: str
    parameters: int
    trainable_parameters: int
    gpu: str
    gpus: int
    gpus_per_instance: int
    instances: int
    interconnect: str
    network_gbps: float | None
    techniques: Techniques
    unit: Literal["tokens", "images"]
    sequence_length: int
    """Tokens; for a diffusion model the tokens per image."""
    resolution: int | None
    """Pixels per side, for a diffusion model."""
    frames: int | None = None
    """Frames of a sample, for a diffusion model that makes videos."""
    global_batch: int
    packing: str
    vram_gib: Capacity
    host_memory: HostMemory | None = None
    """None where no states lie in host memory."""
    tokens_per_second: float
    """Real tokens (images) over all GPUs, without padding and unfilled positions."""
    tokens_per_second_low: float
    tokens_per_second_high: float
    """The 80 % interval."""
    processed_tokens_per_second: float
    """All positions that the GPUs process, filled or not, as most training logs count them."""
    step_seconds: StepSeconds
    profile: str
    profiled: bool
    """Whether the memory of the profile is calibrated on measured peaks."""
    sigma: float
    """Standard deviation of ln(speed), for the interval."""
    sigma_in_tails: float
    """Standard deviation of ln(speed) in the tails."""
    largest_micro_batch: int | None = None
    """0 if not even one sequence fits; None if not requested."""
    longest_sequence: int | None = None
    """Tokens at the micro-batch of this estimate; 0 if none fits, None if not requested."""
    remedies: tuple[Remedy, ...] = ()
    """Changes that make it fit; empty if it fits."""
    conversion: str | None = None
    """What of the weights a user must make, or what frameworks make of the release; None where they are taken as is."""
    assumed: tuple[str, ...] = ()
    """Settings that were not given."""
    notes: tuple[str, ...] = ()
    cut: CutSamples | None = None
    """Where samples are longer than the sequences."""

    @property
    def short_gib(self) -> float:
        """Return the missing GiB; 0 if it fits."""
        return max(0.0, self.vram_gib.peak - self.vram_gib.usable)

    def _repr_html_(self) -> str:
        """Return summary, memory and step as tables for notebooks."""
        vram, step = self.vram_gib, self.step_seconds
        summary = f"{self.architecture} on {self.gpus} x {self.gpu}: {'fits' if vram.fits else 'does not fit'}"
        low, high = self.tokens_per_second_low, self.tokens_per_second_high
        rate = f"{self.tokens_per_second:,.3g} ({low:,.3g} to {high:,.3g})"
        facts = [
            ("GiB per GPU", f"{vram.peak:.1f} of {vram.usable:.1f}"),
            ("probability to fit", f"{vram.fit_probability:.2f}"),
            ("peak in", vram.phase),
            (f"{self.unit} per second", rate),
            ("seconds per step", f"{step.total:.3g}"),
            ("profile", f"{self.profile}, {'profiled' if self.profiled else 'not profiled'}"),
        ]
        memory = {**vram.parts, **vram.set_aside}
        return (
            html_table(summary, ("", ""), facts)
            + html_table("memory", ("part", "GiB"), [(name, f"{size:.2f}") for name, size in memory.items() if size])
            + html_table("step", ("part", "seconds"), [(name, f"{s:.3g}") for name, s in step.parts.items() if s])
        )
