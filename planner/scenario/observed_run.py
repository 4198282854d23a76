"""One observed run of a job: speed, hours or memory, and how it was set up."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import model_validator

from planner.documents.quantities import Positive, PositiveInteger, Text, validation_error
from planner.scenario.techniques import RunSettings

PeakKind = Literal["allocated", "reserved", "device"]
"""What a peak counts: live tensors (torch max_memory_allocated), what the allocator took (max_memory_reserved), or
all that the driver shows (nvidia-smi)."""


class Measured(RunSettings):
    """One observed run of this job on `gpus` GPUs in total.

    `hours` are those of the whole job from start to end: nothing is added to them, and they hold for every
    configuration on that hardware, so they are given without techniques.
    `tokens_per_second` (images, for a diffusion model) counts real tokens over all GPUs; it and `peak_vram_gib`
    correct the estimates of the job.
    The other keys describe how the run was set up; a key that is left out is taken from the job.
    """

    gpu: Text
    gpus: PositiveInteger
    tokens_per_second: Positive | None = None
    hours: Positive | None = None
    peak_vram_gib: Positive | None = None  # of the GPU that holds most
    peak_kind: PeakKind | None = None  # None: allocated, which asks for the most room
    instances: PositiveInteger | None = None
    interconnect: Literal["nvlink", "nvswitch", "pcie"] | None = None
    network_gbps: Positive | None = None

    @property
    def settings(self) -> dict[str, Any]:
        """How the run was set up, as far as it is given, without the hardware."""
        return {name: value for name in RunSettings.model_fields if (value := getattr(self, name)) is not None}

    @model_validator(mode="after")
    def _has_observation(self) -> Self:
        if self.tokens_per_second is not None and self.hours is not None:
            fix = "give one of the two; hours are those of the whole job"
            raise validation_error("needs either tokens_per_second or hours", fix)
        if self.tokens_per_second is None and self.hours is None and self.peak_vram_gib is None:
            fix = "give tokens_per_second or hours (of the whole job), or peak_vram_gib"
            raise validation_error("no observation given", fix)
        if self.hours is not None and self.settings:
            given = next(iter(self.settings))
            fix = f"leave {given} out, or give tokens_per_second in place of hours"
            raise validation_error(f"hours of the whole job cannot be combined with {given}", fix, given)
        if self.peak_kind is not None and self.peak_vram_gib is None:
            raise validation_error("peak_kind without a peak", "add peak_vram_gib", "peak_kind")
        return self

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        if self.instances is not None and self.gpus % self.instances:
            fix = f"gpus counts all of them: a multiple of {self.instances}"
            raise validation_error(f"{self.gpus} GPUs do not spread evenly over {self.instances} machines", fix, "gpus")
        self.check_quantisation()
        batch = (self.micro_batch, self.accumulation_steps, self.global_batch)
        ranks = self.gpus / ((self.tensor_parallel or 1) * (self.pipeline_parallel or 1))
        if None not in batch and batch[0] * batch[1] * ranks != batch[2]:  # type: ignore[operator]
            what = f"{batch[2]} is not micro_batch {batch[0]} x accumulation_steps {batch[1]} x {ranks:g} ranks"
            raise validation_error(what, "leave one of the three out", "global_batch")
        return self
