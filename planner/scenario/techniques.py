"""What of a job may be chosen: values of techniques, adapters, and one configuration as a user asks for it."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self, get_args

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, GetCoreSchemaHandler, Tag, model_validator
from pydantic_core import CoreSchema, core_schema

from planner.documents.quantities import (
    Count,
    ImageEdges,
    NotNegative,
    OneOrMany,
    Positive,
    PositiveInteger,
    Price,
    Resolution,
    SequenceCount,
    SequenceLength,
    StrictModel,
    Text,
    TokenMean,
    TowerState,
    WholeNumber,
    validation_error,
)
from planner.documents.validation import find_name, name_fix
from planner.errors import format_value
from planner.library.technique_tables import read_techniques

# What of a job may be chosen: the values of each technique, and the settings of adapters.


FOUR_BIT_LORA = "qlora"
"""LoRA on 4-bit weights: a word for two techniques, on the command line."""


class OneOf:
    """A value of a technique as the table has it, in any case; a common synonym is refused with the value to write."""

    def __init__(self, field: str):
        self.field = field

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        table = read_techniques()
        allowed = table.allowed(self.field)

        def find_value(value: Any) -> Any:
            if value in allowed or not isinstance(value, str):
                return value
            if (name := find_name(value, map(str, allowed))) in allowed:
                return name
            if self.field == "framework":
                by_label = {profile.label: name for name, profile in table.frameworks.items()}
                if (label := find_name(value, by_label)) is not None:
                    return by_label[label]
                raise validation_error(f"unknown framework {format_value(value)}", name_fix(value, allowed))
            fix = table.values.synonyms.get(value.casefold())
            if self.field == "tuning" and find_name(value, ("qlora", *table.allowed("method"))) is not None:
                fix = "write it below techniques, as techniques: {method: ...}"
            if fix is not None:
                raise validation_error(f"{format_value(value)} is not one of {', '.join(map(str, allowed))}", fix)
            return value

        literal = core_schema.literal_schema(list(allowed))
        return core_schema.no_info_before_validator_function(find_value, literal)


Method = Annotated[str, OneOf("method")]
WeightBits = Annotated[int, OneOf("weight_bits")]
Quantisation = Annotated[str, OneOf("quant")]
Precision = Annotated[str, OneOf("precision")]
Checkpointing = Annotated[str, OneOf("activation_checkpointing")]
Sharding = Annotated[str, OneOf("sharding")]
Attention = Annotated[str, OneOf("attention")]
Optimizer = Annotated[str, OneOf("optimizer")]
Offload = Annotated[str, OneOf("offload")]
Latents = Annotated[str, OneOf("latents")]
Reference = Annotated[str, OneOf("reference")]
Tuning = Annotated[str, OneOf("tuning")]
TechniqueName = Annotated[str, OneOf("names")]
"""Techniques with a 0/1 name, the ones that a penalty can be put on."""
Framework = Annotated[str, OneOf("framework")]

TargetSet = Literal["all-linear", "attention", "qv"]


def _set_or_list(value: object) -> object:
    if isinstance(value, str) and (name := find_name(value, get_args(TargetSet))) is not None:
        return name
    if isinstance(value, str):
        raise validation_error(
            f"{value!r} is not a set of modules", "all-linear, attention, qv, or a list of module names"
        )
    return value


def _targets_form(value: object) -> str:
    return "set" if isinstance(value, str) else "modules"


LINEARS = ("q", "k", "v", "o", "gate", "up", "down")
"""The linear layers of a block that adapters can extend; `q_proj` and a family's own names are accepted too."""


def _linear(name: str) -> str:
    short, known = name.casefold().removesuffix("_proj"), read_techniques().linears.names
    if short in LINEARS:
        return short
    if name not in known and name not in read_techniques().linears.endings:
        raise validation_error(f"{name!r} is not a linear layer for adapters", name_fix(name, (*LINEARS, *known)))
    return name


Linear = Annotated[Text, AfterValidator(_linear)]
Targets = Annotated[
    Annotated[TargetSet, Tag("set")] | Annotated[OneOrMany[Linear], Tag("modules")],
    Discriminator(_targets_form),
    BeforeValidator(_set_or_list),
]


FewIntegers = Annotated[OneOrMany[PositiveInteger], Field(max_length=32)]
"""Ranks, or degrees of parallelism, that are tried: each makes recipes of its own."""


class LoraSettings(StrictModel):
    """Size and place of the adapters."""

    rank: FewIntegers = (16,)
    """Ranks of the adapters."""
    targets: Targets = "all-linear"
    """Layers that have one: `all-linear`, `attention`, `qv`, or a list."""
    train_embeddings: bool = False
    """Whether embedding and output layer are trained in full (`modules_to_save` of PEFT)."""
    dora: bool = False
    """Whether each adapted layer has trained magnitudes, too (DoRA, arXiv:2402.09353)."""
    adapt_head: bool = False
    """Whether the output layer has adapters, too, next to those of `targets`."""
    experts_16_bit: bool = False
    """Whether routed experts stay in 16 bits under weights in 8 or 4: bitsandbytes quantises linear layers alone."""


DEFAULT_LORA = LoraSettings()
"""The adapters of a job that says nothing of them; made once, because thousands of recipes ask for it."""


class Techniques(StrictModel):
    """What may be chosen; None is every value that makes sense for the job."""

    method: OneOrMany[Method] | None = None
    """`full` or `lora`; a value or a list."""
    weight_bits: OneOrMany[WeightBits] | None = None
    """Bits of the frozen weights: 16, 8 or 4; a value or a list."""
    quant: OneOrMany[Quantisation] | None = None
    """Kind of 4-bit weights, such as `nf4` or `gptq`; a value or a list."""
    precision: OneOrMany[Precision] | None = None
    """In which numbers it computes, such as `bf16_mixed`; a value or a list."""
    activation_checkpointing: OneOrMany[Checkpointing] | None = None
    """Which activations are computed anew in the backward pass; a value or a list."""
    sharding: OneOrMany[Sharding] | None = None
    """What the GPUs share among them, such as `zero3`; `none` for one GPU; a value or a list."""
    attention: OneOrMany[Attention] | None = None
    """Kernel of attention, such as `flash`; a value or a list."""
    optimizer: OneOrMany[Optimizer] | None = None
    """Optimizer and the bits of its states, such as `adamw_8bit`; a value or a list."""
    offload: OneOrMany[Offload] | None = None
    """Which states lie in host memory between their uses; a value or a list."""
    latents: OneOrMany[Latents] | None = None
    """Of image networks."""
    reference: OneOrMany[Reference] | None = None
    """What preference tuning compares with, such as `adapter`; a value or a list."""
    tensor_parallel: FewIntegers | None = None
    """GPUs that share a layer; a value or a list."""
    pipeline_parallel: FewIntegers | None = None
    """GPUs that share the stack of layers; a value or a list."""
    context_parallel: FewIntegers | None = None
    """GPUs that share a sequence; a value or a list."""
    expert_parallel: FewIntegers | None = None
    """GPUs that share the experts of a mixture; a value or a list."""
    penalty_usd: dict[TechniqueName, Price] = Field(default_factory=dict)
    """Dollars that a technique must save before it is used."""
    lora_given: LoraSettings | None = Field(default=None, alias="lora")
    """Settings of adapters, the same as `lora` of the job."""

    @property
    def penalties_usd(self) -> tuple[float, ...]:
        """The penalty of each technique with a 0/1 name, in the order of the table; 0 where none is given."""
        return tuple(self.penalty_usd.get(name, 0.0) for name in read_techniques().values.names)

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if self.method == ("full",) and self.weight_bits is not None and 16 not in self.weight_bits:
            fix = "quantised weights are for lora: allow method lora, or weight_bits 16"
            raise validation_error(f"method full cannot train {self.weight_bits[0]}-bit weights", fix, "weight_bits")
        for quant in self.quant or ():
            bits = read_techniques().bytes.quantised[quant].bits
            if self.weight_bits is not None and bits not in self.weight_bits:
                fix = f"allow weight_bits {bits}, or drop it"
                raise validation_error(f"{quant_of_bits(quant, bits)} is for {bits}-bit weights", fix, "quant")
        return self


def quant_of_bits(quant: str, bits: int | None) -> str:
    """Return the words of a quantisation in a fault: all of 4 bits share theirs."""
    return "quant" if bits == 4 else f"quant {quant}"


class RunSettings(StrictModel):
    """How one run is set up; None is not said."""

    framework: Framework | None = None
    """Framework of the run."""
    method: Method | None = None
    """`full` or `lora`."""
    weight_bits: WeightBits | None = None
    """Bits of the frozen weights: 16, 8 or 4."""
    quant: Quantisation | None = None
    """Kind of 4-bit weights, such as `nf4` or `gptq`."""
    precision: Precision | None = None
    """In which numbers it computes, such as `bf16_mixed`."""
    activation_checkpointing: Checkpointing | None = None
    """Which activations are computed anew in the backward pass."""
    sharding: Sharding | None = None
    """What the GPUs share among them, such as `zero3`; `none` for one GPU."""
    attention: Attention | None = None
    """Kernel of attention, such as `flash`."""
    optimizer: Optimizer | None = None
    """Optimizer and the bits of its states, such as `adamw_8bit`."""
    offload: Offload | None = None
    """Which states lie in host memory between their uses."""
    latents: Latents | None = None
    """Of image networks: whether the frozen encoders run in every epoch or once."""
    tensor_parallel: PositiveInteger | None = None
    """GPUs that share a layer."""
    pipeline_parallel: PositiveInteger | None = None
    """GPUs that share the stack of layers."""
    context_parallel: PositiveInteger | None = None
    """GPUs that share a sequence."""
    expert_parallel: PositiveInteger | None = None
    """GPUs that share the experts of a mixture."""
    micro_batch: PositiveInteger | None = None
    """Sequences that one GPU takes at a time."""
    accumulation_steps: PositiveInteger | None = None
    """Micro-batches per optimizer step."""
    global_batch: SequenceCount | None = None
    """Sequences or images per optimizer step."""
    sequence_length: SequenceLength | None = None
    """Tokens per sequence."""

    def check_quantisation(self) -> None:
        """Raise where a quantisation is asked for that the bits or the method exclude."""
        bits = read_techniques().bytes.quantised[self.quant].bits if self.quant is not None else None
        if self.quant is not None and self.weight_bits not in (bits, None):
            fix = f"give weight_bits {bits}, or drop it"
            raise validation_error(f"{quant_of_bits(self.quant, bits)} is for {bits}-bit weights", fix, "quant")
        if self.method == "full" and (self.quant is not None or self.weight_bits in (8, 4)):
            fix = "quantised weights are for lora: give method lora, or weight_bits 16"
            raise validation_error("method full cannot train quantised weights", fix, "method")


# One configuration as a user asks for it: what `planner estimate` takes.


WHERE = "estimate"
"""What the faults of a configuration name as their file."""


class Configuration(RunSettings):
    """What to estimate; None is chosen, and said.

    `gpus` counts all of them, over `instances` machines.
    """

    architecture: Text
    """Name of the model."""
    gpu: Text
    """GPU."""
    gpus: PositiveInteger = 1
    """GPUs of one machine."""
    ram_gb: Positive | None = None
    """Memory of a machine in GB; read where states lie in host memory."""
    instances: PositiveInteger | None = None
    """Machines."""
    optimizer: Optimizer = "adamw"
    """Optimizer and the bits of its states, such as `adamw_8bit`."""
    lora_rank: PositiveInteger = 16
    """Rank of adapters."""
    lora_targets: Targets = "all-linear"
    """Layers that have adapters."""
    dora: bool = False
    """Whether adapters have magnitudes (DoRA)."""
    adapt_head: bool = False
    """Whether the output layer has adapters, too."""
    experts_16_bit: bool = False
    """Whether routed experts stay in 16 bits on a quantised base."""
    resolution: Resolution | None = None
    """Pixels of an edge of an image, of diffusion networks."""
    frames: PositiveInteger | None = None
    """Frames of a sample, of networks that make videos; with `image_size` of each image next to text."""
    ema: Literal["none", "gpu", "host"] = "none"
    """Average of the trained weights (EMA) of a network of images, on the GPU or in host memory."""
    reference_images: Annotated[int, Field(ge=0, le=16)] | None = None
    """Images of the same size that a network reads next to each, such as the one that it edits."""
    image_size: ImageEdges | None = None
    """Width and height in pixels of images next to text, of vision-language models, such as `1280x720`."""
    images_per_sample: Positive | None = None
    """Images of a sample in the mean, where a size is given."""
    max_pixels: Count | None = None
    """Pixels to which the processor shrinks an image (Qwen)."""
    max_tiles: WholeNumber | None = None
    """Tiles that the processor cuts at most (InternVL, Llama 4, Gemma 3, SmolVLM)."""
    tower: TowerState | None = None
    """What happens to the image tower: `frozen`, `lora` or `trained`."""
    tuning: Tuning = "sft"
    """What is done with samples: `sft`, or preference tuning such as `dpo`, whose samples are pairs."""
    reference: Reference | None = None
    """What preference tuning compares with; None: the adapter switched off, or a copy of the model."""
    teacher: Text | None = None
    """Model whose logits are learned, of `distill`."""
    packing: Literal["packed", "padded", "fixed", "padding_free"] = "packed"
    """How samples fill sequences."""
    tokens_per_sample: TokenMean | None = None
    """Mean tokens of a sample, where samples are not packed."""
    length_cv: NotNegative = 0.8
    """Spread of the lengths of padded samples."""
    tensor_parallel: PositiveInteger = 1
    """GPUs that share a layer."""
    pipeline_parallel: PositiveInteger = 1
    """GPUs that share the stack of layers."""
    context_parallel: PositiveInteger = 1
    """GPUs that share a sequence."""
    expert_parallel: PositiveInteger = 1
    """GPUs that share the experts of a mixture."""
    framework: Framework = "hf"
    """Framework of the run."""
    interconnect: Literal["nvlink", "nvswitch", "pcie", "ici"] | None = None
    """What connects the GPUs of a machine."""
    network_gbps: Positive | None = None
    """Network of a machine in Gbit/s."""
    vram_headroom: Annotated[float, Field(ge=0, lt=1)] | None = None
    """Share of the predicted memory that is added as a margin, in place of that of the fit rule."""

    @property
    def group(self) -> int:
        """GPUs that work on one sequence together."""
        return self.tensor_parallel * self.pipeline_parallel * self.context_parallel

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        self.check_quantisation()
        return self
