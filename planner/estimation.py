"""The answer about one configuration: memory, speed and how sure both are, as `planner estimate --json` writes it.

Memory is GiB per GPU, time is seconds of one optimizer step.
"""

from __future__ import annotations

from html import escape
from typing import Literal

from planner.plan import Part, Techniques, Vram


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
        """A plain table for notebooks."""
        vram, rate = self.vram_gib, self.tokens_per_second
        rows = [
            ("configuration", f"{self.architecture} on {self.gpus} x {self.gpu}"),
            ("memory", f"{vram.peak:.1f} of {vram.usable:.1f} GiB"),
            ("fits", f"{'yes' if vram.fits else 'no'}, chance {vram.fit_probability:.2f}"),
            ("limit", vram.phase),
            *((f"memory: {name}".replace("_", " "), f"{size:.2f} GiB") for name, size in vram.parts.items() if size),
            ("speed", f"{rate:,.3g} ({self.tokens_per_second_low:,.3g} to {self.tokens_per_second_high:,.3g})"),
            ("step", f"{self.step_seconds.total:.3g} s"),
            *(
                (f"step: {name}".replace("_", " "), f"{seconds:.3g} s")
                for name, seconds in self.step_seconds.parts.items()
                if seconds
            ),
            ("profile", f"{self.profile}, {'profiled' if self.profiled else 'not profiled'}"),
        ]
        cells = "".join(f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in rows)
        return f"<table>{cells}</table>"
