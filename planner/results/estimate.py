"""The answer about one configuration: memory, speed and how sure both are, as `planner estimate --json` writes it.

Memory is GiB per GPU, time is seconds of one optimizer step.
"""

from __future__ import annotations

from typing import Literal

from planner.results.html import html_table
from planner.results.plan import Part, Techniques, Vram


class Capacity(Vram):
    """Memory of one GPU against what it has; `parts` sum to `allocated`, with `set_aside` they sum to `peak`."""

    fits: bool
    reserved: float
    """What the allocator takes: live tensors, its cache and fragmentation."""
    device_used: float
    """What nvidia-smi would show: reserved, context and communicators."""
    set_aside: dict[str, float]
    """Of the fit rule: the margin, the share of fragmentation that counts, and the context."""


class StepSeconds(Part):
    """One optimizer step; `parts` are what each cause adds, hidden work left out, and sum to `total`."""

    total: float
    parts: dict[str, float]


class Remedy(Part):
    """One change that makes a configuration fit, and its peak then."""

    change: str
    peak: float


class Estimate(Part):
    """What `estimate` says of one configuration."""

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
    """Tokens; of a diffusion network the tokens that an image counts for."""
    resolution: int | None
    """Pixels per side, of a diffusion network."""
    global_batch: int
    packing: str
    vram_gib: Capacity
    tokens_per_second: float
    """Real tokens (images) over all GPUs, padding and unfilled positions left out."""
    tokens_per_second_low: float
    tokens_per_second_high: float
    """The 80 % interval."""
    processed_tokens_per_second: float
    """Every position that the GPUs work on, filled or not, as most training logs count."""
    step_seconds: StepSeconds
    profile: str
    profiled: bool
    """Whether measured peaks stand behind the profile's memory accounting."""
    sigma: float
    """Spread of ln(speed), for the interval shown."""
    sigma_tail: float
    """The same for rare cases."""
    largest_micro_batch: int | None = None
    """0 where not even one sequence fits; None where nobody asked."""
    longest_sequence: int | None = None
    """Tokens, at the micro-batch of this estimate; 0 where none fits, None where nobody asked."""
    remedies: tuple[Remedy, ...] = ()
    """What would make it fit; empty where it does."""
    assumed: tuple[str, ...] = ()
    """Settings that were not given."""
    notes: tuple[str, ...] = ()

    @property
    def short_gib(self) -> float:
        """GiB that are missing; 0 where it fits."""
        return max(0.0, self.vram_gib.peak - self.vram_gib.usable)

    def _repr_html_(self) -> str:
        """How a notebook shows the estimate: the verdict, then memory and step by part."""
        vram, step = self.vram_gib, self.step_seconds
        verdict = f"{self.architecture} on {self.gpus} x {self.gpu}: {'fits' if vram.fits else 'does not fit'}"
        low, high = self.tokens_per_second_low, self.tokens_per_second_high
        rate = f"{self.tokens_per_second:,.3g} ({low:,.3g} to {high:,.3g})"
        facts = [
            ("GiB per GPU", f"{vram.peak:.1f} of {vram.usable:.1f}"),
            ("chance to fit", f"{vram.fit_probability:.2f}"),
            ("limit", vram.phase),
            (f"{self.unit} per second", rate),
            ("seconds per step", f"{step.total:.3g}"),
            ("profile", f"{self.profile}, {'profiled' if self.profiled else 'not profiled'}"),
        ]
        memory = {**vram.parts, **vram.set_aside}
        return (
            html_table(verdict, ("", ""), facts)
            + html_table("memory", ("part", "GiB"), [(name, f"{size:.2f}") for name, size in memory.items() if size])
            + html_table("step", ("part", "seconds"), [(name, f"{s:.3g}") for name, s in step.parts.items() if s])
        )
