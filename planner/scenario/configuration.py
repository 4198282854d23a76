"""One configuration as a user asks for it: what `planner estimate` takes."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from planner.documents.quantities import NotNegative, Positive, PositiveInteger, Text, TokenMean, validation_error
from planner.scenario.job_work import Resolution
from planner.scenario.techniques import Framework, Optimizer, RunSettings, Targets

WHERE = "estimate"
"""What the faults of a configuration name as their file."""


class Configuration(RunSettings):
    """What to estimate; None is chosen, and said.

    `gpus` counts all of them, over `instances` machines.
    """

    architecture: Text
    gpu: Text
    gpus: PositiveInteger = 1
    ram_gb: Positive | None = None  # of one machine; read where states lie in host memory
    instances: PositiveInteger | None = None
    optimizer: Optimizer = "adamw"
    lora_rank: PositiveInteger = 16
    lora_targets: Targets = "all-linear"
    resolution: Resolution | None = None  # of diffusion networks
    packing: Literal["packed", "padded", "fixed"] = "packed"
    tokens_per_sample: TokenMean | None = None  # mean, where samples are not packed
    length_cv: NotNegative = 0.8
    tensor_parallel: PositiveInteger = 1
    pipeline_parallel: PositiveInteger = 1
    context_parallel: PositiveInteger = 1
    expert_parallel: PositiveInteger = 1
    framework: Framework = "hf"
    interconnect: Literal["nvlink", "nvswitch", "pcie", "ici"] | None = None
    network_gbps: Positive | None = None  # of one machine, in gigabits per second
    vram_headroom: Annotated[float, Field(ge=0, lt=1)] | None = None  # share; replaces the fit rule's margin

    @property
    def group(self) -> int:
        """GPUs that work on one sequence together."""
        return self.tensor_parallel * self.pipeline_parallel * self.context_parallel

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        if self.packing == "padded" and self.tokens_per_sample is None:
            raise validation_error("padding of unknown lengths", "add tokens_per_sample (the mean)", "packing")
        self.check_quantisation()
        return self
