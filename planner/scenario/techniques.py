"""What of a job may be chosen: the values of each technique, and the settings of adapters."""

from __future__ import annotations

from typing import Annotated, Literal, Self, get_args

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag, model_validator

from planner.documents.quantities import OneOrMany, PositiveInteger, Price, StrictModel, Text, validation_error

Method = Literal["full", "lora"]
WeightBits = Literal[16, 8, 4]
Quantisation = Literal["nf4", "nf4_dq", "gptq"]
Precision = Literal["bf16_mixed", "bf16", "fp16_mixed", "tf32", "fp32"]
Checkpointing = Literal["none", "selective", "full"]
Sharding = Literal["none", "ddp", "zero1", "zero2", "zero3", "hsdp"]
Attention = Literal["flash", "mem_efficient", "eager"]
Optimizer = Literal["adamw", "adamw_8bit"]
TechniqueName = Literal[
    "lora",
    "four_bit",
    "eight_bit",
    "mixed_precision",
    "gradient_accumulation",
    "activation_checkpointing",
    "sharding",
    "eight_bit_optimizer",
]
"""Techniques with a 0/1 name, the ones that a penalty can be put on."""
Framework = Literal[
    "hf",
    "hf-fused",
    "unsloth",
    "deepspeed",
    "fsdp",
    "llm-foundry",
    "torchtune",
    "torchtitan",
    "nemo",
    "megatron",
    "megatron-deepspeed",
    "litgpt",
    "internevo",
    "compiled",
    "eager",
    "unknown",
]
FRAMEWORKS: tuple[str, ...] = get_args(Framework)

TargetSet = Literal["all-linear", "attention", "qv"]


def _set_or_list(value: object) -> object:
    if isinstance(value, str) and value not in get_args(TargetSet):
        raise validation_error(
            f"{value!r} is no set of modules", "all-linear, attention, qv, or a list of module names"
        )
    return value


def _targets_form(value: object) -> str:
    return "set" if isinstance(value, str) else "modules"


LINEARS = ("q", "k", "v", "o", "gate", "up", "down")
"""The linear layers of a block that adapters can sit on; `q_proj` and the like are accepted."""


def _linear(name: str) -> str:
    short = name.removesuffix("_proj")
    if short not in LINEARS:
        raise validation_error(f"{name!r} is no linear layer that adapters can sit on", f"out of {', '.join(LINEARS)}")
    return short


Linear = Annotated[Text, AfterValidator(_linear)]
Targets = Annotated[
    Annotated[TargetSet, Tag("set")] | Annotated[OneOrMany[Linear], Tag("modules")],
    Discriminator(_targets_form),
    BeforeValidator(_set_or_list),
]


class LoraSettings(StrictModel):
    """Size and place of the adapters."""

    rank: PositiveInteger = 16
    targets: Targets = "all-linear"


class Techniques(StrictModel):
    """What may be chosen; None is every value that makes sense for the job."""

    method: OneOrMany[Method] | None = None
    weight_bits: OneOrMany[WeightBits] | None = None
    quant: OneOrMany[Quantisation] | None = None
    precision: OneOrMany[Precision] | None = None
    activation_checkpointing: OneOrMany[Checkpointing] | None = None
    sharding: OneOrMany[Sharding] | None = None
    attention: OneOrMany[Attention] | None = None
    optimizer: OneOrMany[Optimizer] | None = None
    tensor_parallel: OneOrMany[PositiveInteger] | None = None
    pipeline_parallel: OneOrMany[PositiveInteger] | None = None
    penalty_usd: dict[TechniqueName, Price] = Field(default_factory=dict)
    lora_given: LoraSettings | None = Field(default=None, alias="lora")

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if self.method == ("full",) and self.weight_bits is not None and 16 not in self.weight_bits:
            fix = "quantised weights are for lora: allow method lora, or weight_bits 16"
            raise validation_error(f"method full cannot train {self.weight_bits[0]}-bit weights", fix, "weight_bits")
        if self.quant is not None and self.weight_bits is not None and 4 not in self.weight_bits:
            raise validation_error("quant is for 4-bit weights", "allow weight_bits 4, or drop it", "quant")
        return self
