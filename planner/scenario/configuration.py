"""One configuration as a user asks for it: what `planner estimate` takes."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from planner.documents.quantities import NotNegative, Positive, PositiveInteger, StrictModel, Text, validation_error
from planner.scenario.techniques import (
    Attention,
    Checkpointing,
    Framework,
    Method,
    Optimizer,
    Precision,
    Quantisation,
    Sharding,
    Targets,
    WeightBits,
    check_quantisation,
)

WHERE = "estimate"
"""What the faults of a configuration name as their file."""


class Configuration(StrictModel):
    """What to estimate; None is chosen, and said.

    `gpus` counts all of them, over `instances` machines.
    """

    architecture: Text
    gpu: Text
    gpus: PositiveInteger = 1
    instances: PositiveInteger | None = None
    method: Method | None = None
    weight_bits: WeightBits | None = None
    quant: Quantisation | None = None
    precision: Precision | None = None
    activation_checkpointing: Checkpointing | None = None
    sharding: Sharding | None = None
    attention: Attention | None = None
    optimizer: Optimizer = "adamw"
    lora_rank: PositiveInteger = 16
    lora_targets: Targets = "all-linear"
    sequence_length: PositiveInteger | None = None  # tokens
    resolution: PositiveInteger | None = None  # pixels per side, of diffusion networks
    micro_batch: PositiveInteger | None = None
    accumulation_steps: PositiveInteger | None = None
    global_batch: PositiveInteger | None = None
    packing: Literal["packed", "padded", "fixed"] = "packed"
    tokens_per_sample: Positive | None = None  # mean, where samples are not packed
    length_cv: NotNegative = 0.8
    tensor_parallel: PositiveInteger = 1
    pipeline_parallel: PositiveInteger = 1
    framework: Framework = "hf"
    interconnect: Literal["nvlink", "nvswitch", "pcie"] | None = None
    network_gbps: Positive | None = None  # of one machine, in gigabits per second
    vram_headroom: Annotated[float, Field(ge=0, lt=1)] | None = None  # share; replaces the fit rule's margin

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        if self.packing == "padded" and self.tokens_per_sample is None:
            raise validation_error("padding of unknown lengths", "add tokens_per_sample (the mean)", "packing")
        check_quantisation(self.method, self.weight_bits, self.quant)
        return self
