"""What a user wants trained: the network, the work, the deadline and what may be done to it."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self, get_args

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag, model_validator

from planner.documents.quantities import (
    Gigabytes,
    Hours,
    NotNegative,
    OneOrMany,
    Positive,
    PositiveInteger,
    Price,
    Rows,
    StrictModel,
    Text,
    validation_error,
)
from planner.scenario.stages import Stages, Trials, TrialsGiven
from planner.scenario.work import Work

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

MAX_CONFIDENCE = 0.975
"""The errors of the estimates were measured on too few runs to say anything about rarer ones."""


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


PeakKind = Literal["allocated", "reserved", "device"]
"""What a peak counts: live tensors (torch max_memory_allocated), what the allocator took (max_memory_reserved), or
all that the driver shows (nvidia-smi)."""


class Measured(StrictModel):
    """One observed run of this very job on `gpus` cards in all.

    `hours` are those of the whole job from start to end: nothing is added to them, and they stand for every way to
    run it on that hardware, so they go with no techniques.
    `tokens_per_second` (images, of a diffusion network) counts real tokens over all cards; it and `peak_vram_gib`
    draw the job's estimates towards them.
    What else is said tells how the run was set up; what is left out is taken from the job.
    """

    gpu: Text
    gpus: PositiveInteger
    tokens_per_second: Positive | None = None
    hours: Positive | None = None
    peak_vram_gib: Positive | None = None  # of the fullest card
    peak_kind: PeakKind | None = None  # None: allocated, which asks for the most room
    instances: PositiveInteger | None = None
    interconnect: Literal["nvlink", "nvswitch", "pcie"] | None = None
    network_gbps: Positive | None = None
    method: Method | None = None
    weight_bits: WeightBits | None = None
    quant: Quantisation | None = None
    precision: Precision | None = None
    activation_checkpointing: Checkpointing | None = None
    sharding: Sharding | None = None
    attention: Attention | None = None
    optimizer: Optimizer | None = None
    tensor_parallel: PositiveInteger | None = None
    pipeline_parallel: PositiveInteger | None = None
    micro_batch: PositiveInteger | None = None
    accumulation_steps: PositiveInteger | None = None
    global_batch: PositiveInteger | None = None
    sequence_length: PositiveInteger | None = None  # tokens

    @property
    def settings(self) -> dict[str, Any]:
        """What is said of how the run was set up, hardware left out."""
        return {name: value for name in RUN_SETTINGS if (value := getattr(self, name)) is not None}

    @model_validator(mode="after")
    def _has_observation(self) -> Self:
        if self.tokens_per_second is not None and self.hours is not None:
            fix = "give one of the two; hours are those of the whole job"
            raise validation_error("needs either tokens_per_second or hours", fix)
        if self.tokens_per_second is None and self.hours is None and self.peak_vram_gib is None:
            fix = "give tokens_per_second or hours (of the whole job), or peak_vram_gib"
            raise validation_error("does not say what was observed", fix)
        if self.hours is not None and self.settings:
            said = next(iter(self.settings))
            fix = f"leave {said} out, or give tokens_per_second in place of hours"
            raise validation_error(f"hours of the whole job stand for any way to run it, and {said} for one", fix, said)
        if self.peak_kind is not None and self.peak_vram_gib is None:
            raise validation_error("peak_kind without a peak", "add peak_vram_gib", "peak_kind")
        return self

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        if self.instances is not None and self.gpus % self.instances:
            fix = f"gpus counts all of them: a multiple of {self.instances}"
            raise validation_error(f"{self.gpus} GPUs do not spread evenly over {self.instances} machines", fix, "gpus")
        if self.quant is not None and self.weight_bits in (16, 8):
            raise validation_error("quant is for 4-bit weights", "give weight_bits 4, or drop it", "quant")
        if self.method == "full" and (self.quant is not None or self.weight_bits in (8, 4)):
            fix = "quantised weights are for lora: give method lora, or weight_bits 16"
            raise validation_error("method full cannot train quantised weights", fix, "method")
        batch = (self.micro_batch, self.accumulation_steps, self.global_batch)
        ranks = self.gpus / ((self.tensor_parallel or 1) * (self.pipeline_parallel or 1))
        if None not in batch and batch[0] * batch[1] * ranks != batch[2]:  # type: ignore[operator]
            what = f"{batch[2]} is not micro_batch {batch[0]} x accumulation_steps {batch[1]} x {ranks:g} ranks"
            raise validation_error(what, "leave one of the three out", "global_batch")
        return self


RUN_SETTINGS = (
    "method",
    "weight_bits",
    "quant",
    "precision",
    "activation_checkpointing",
    "sharding",
    "attention",
    "optimizer",
    "tensor_parallel",
    "pipeline_parallel",
    "micro_batch",
    "accumulation_steps",
    "global_batch",
    "sequence_length",
)
"""The fields of `Measured` that say how a run was set up, hardware left out."""


def _confidence(value: object) -> object:
    if isinstance(value, (int, float)) and MAX_CONFIDENCE < value <= 100:
        fix = f"at most {MAX_CONFIDENCE}: beyond it the measured errors of the estimates say nothing"
        raise validation_error(f"{value} is more than can be promised", fix)
    return value


class Job(StrictModel):
    """One training run, or several trials of it, with the stages around it."""

    name: Text
    architecture: Text
    """Name of a card, or the path of a Hugging Face config.json."""
    work: Work
    data_gb: Gigabytes = 0.0
    sequence_length: PositiveInteger | None = None  # tokens; None: 2048, or the context where that is shorter
    global_batch: PositiveInteger = 64  # sequences or images per optimizer step
    packing: Literal["packed", "padded", "fixed"] = "packed"
    length_cv: NotNegative = 0.8
    kind: Literal["finetune", "pretrain"] = "finetune"
    deadline_hours: Hours | None = Field(default=None, alias="deadline")
    confidence: Annotated[float, Field(gt=0, le=MAX_CONFIDENCE), BeforeValidator(_confidence)] = 0.9
    framework: Framework = "hf"
    lora_given: LoraSettings | None = Field(default=None, alias="lora")
    techniques: Techniques = Techniques()
    efficiency: Positive = 1.0
    storage_gb_per_second: Positive = 0.5
    load_efficiency: Annotated[float, Field(gt=0, le=1)] = 0.6
    measured: Rows[Measured] = ()
    trials: TrialsGiven = Trials()
    early_stopping: Annotated[float, Field(gt=0, le=1)] = Field(
        default=1.0, description="Expected share of the planned work after which a run stops."
    )
    stages: Stages = Stages()

    @property
    def lora(self) -> LoraSettings:
        """The adapters' settings, wherever they were given."""
        return self.lora_given or self.techniques.lora_given or LoraSettings()

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        work = self.work
        in_samples = work.samples is not None
        if work.tokens_per_sample is None and work.images is None:
            if in_samples and self.packing != "fixed":
                raise validation_error("samples of unknown length", "add tokens_per_sample (the mean)", "work")
            if self.packing == "padded":
                raise validation_error("padding of unknown lengths", "add tokens_per_sample (the mean)", "work")
        if self.kind == "pretrain" and "full" not in (self.techniques.method or ("full",)):
            fix = "allow full, or kind: finetune"
            raise validation_error("pretraining trains every weight", fix, "techniques.method")
        seen = [(run.gpu, run.gpus) for run in self.measured if run.hours is not None]
        twice = next((one for one in seen if seen.count(one) > 1), None)
        if twice is not None:
            what = f"the whole job was observed twice on {twice[1]} x {twice[0]}"
            raise validation_error(what, "keep one, or give the mean of their hours", "measured")
        given = (self.lora_given, self.techniques.lora_given)
        if None not in given and given[0] != given[1]:
            raise validation_error("lora is given twice, differently", "keep one", "lora")
        self.stages.check_work(work)
        return self
