"""Generation as a user asks for it: one served configuration (`estimate --inference`), and a job of many prompts."""

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from planner.documents.quantities import (
    MAX_GB,
    NotNegative,
    OneOrMany,
    PositiveInteger,
    Rows,
    SequenceLength,
    StrictModel,
    Text,
    read_amount,
    validation_error,
)
from planner.documents.quantities import Count as Amount
from planner.errors import format_value
from planner.library.engines import read_engines
from planner.scenario.job import Bits, Engine, Job, ServedRun, Tokens, WeightFormatName
from planner.scenario.job_stages import Export, ImageEdges, PromptImages, Stages, Work
from planner.scenario.techniques import FewIntegers, Targets, Techniques

MAX_CLASSES = 2000
"""Most rows of a table of lengths."""
DEFAULT_WEIGHT_BITS = (16, 8)
Count = Annotated[int, Field(ge=1, le=10**12), BeforeValidator(read_amount)]


class InferenceRequest(BaseModel):
    """One served configuration as a user asks for it; None is chosen, and said."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    input: Tokens = 1024
    """Prompt tokens of a request."""
    output: SequenceLength = 128
    """Tokens of an answer."""
    prefix: Tokens = 0
    """Tokens at the beginning that all prompts share."""
    image_size: ImageEdges | None = None
    """Width and height in pixels of the images of a prompt; `input` counts the text then."""
    images_per_sample: Annotated[int, Field(ge=1, le=1000)] = 1
    """Images of a prompt, where a size is given."""
    max_pixels: Count | None = None
    """Pixels to which the processor shrinks an image (Qwen)."""
    max_tiles: Annotated[int, Field(ge=0, le=100)] | None = None
    """Tiles that the processor cuts at most."""
    engine: Text = "vllm"
    """Engine that serves, such as `vllm`."""
    weight_bits: int | None = None
    """Bits of the weights; None: those of the format."""
    weight_format: Text | None = None
    """Format of the weights; None: that of the bits."""
    kv_bits: int = 16
    """Bits of a number in the cache of keys and values."""
    gpus: Annotated[int, Field(ge=1, le=64)] = 1
    """GPUs of one replica."""
    instances: Annotated[int, Field(ge=1, le=64)] | None = None
    """Machines; None: of eight GPUs each."""
    tensor_parallel: Annotated[int, Field(ge=1, le=64)] | None = None
    """GPUs that share each layer; None: all of the replica."""
    interconnect: Literal["nvlink", "nvswitch", "pcie"] | None = None
    """Link between the GPUs of a machine; None: that of the GPU."""
    network_gbps: Annotated[float, Field(gt=0.0, le=100_000.0)] | None = None
    """Network of one machine in Gbit/s, of a replica that lies on several."""
    memory_share: Annotated[float, Field(gt=0.0, le=1.0)] | None = None
    """Share of a GPU's memory for the engine; None: its default."""
    vram_headroom: Annotated[float, Field(ge=0.0, lt=1.0)] | None = None
    """Share of a GPU's memory that stays free, where that is more than the engine leaves by itself."""
    engine_release: Annotated[str, Field(pattern=r"^\d{1,3}(\.\d{1,4}){0,3}$")] | None = None
    """Release of the engine, such as 0.11; None: what holds for every one of its releases."""
    use: Literal["server", "offline"] = "server"
    """How the engine gets its prompts: from clients of a server, or all at once from a script."""
    concurrency: Count | None = None
    """Requests in flight at one time; None: as many as fit."""
    requests: Count | None = None
    """How many there are in all; None: not asked for."""
    usd_per_gpu_hour: NotNegative | None = None
    """Price of a GPU, for dollars per million tokens."""


class LengthClass(StrictModel):
    """Requests of one length."""

    input_tokens: SequenceLength
    """Prompt tokens of each request."""
    output_tokens: SequenceLength
    """Tokens of each answer."""
    count: Amount = 1
    """How many requests have this length, or their weight."""


class InferenceWork(Work):
    """Prompts to be answered: requests of one length, or a table of lengths (a CSV file where it is written)."""

    requests: Amount | None = None
    """How many prompts there are; with a table of lengths their number is its sum."""
    input_tokens: SequenceLength | None = None
    """Tokens of a prompt, the shared prefix among them."""
    output_tokens: SequenceLength | None = None
    """Tokens of an answer."""
    prefix_tokens: Tokens = Field(default=0, description="Tokens at the beginning that all prompts share.")
    lengths: Annotated[Rows[LengthClass], Field(max_length=MAX_CLASSES)] = ()  # type: ignore[assignment]
    """Requests by length, in place of one length; a file may name a CSV table."""
    image_input: PromptImages | None = None  # type: ignore[assignment]
    """Images of each prompt next to its text; `input_tokens` are those of the text then."""

    if not TYPE_CHECKING:  # what training counts is nothing here
        samples: ClassVar[None] = None
        tokens_per_sample: ClassVar[None] = None
        epochs: ClassVar[float] = 1.0
        tokens: ClassVar[None] = None
        steps: ClassVar[None] = None
        images: ClassVar[None] = None
        resolution: ClassVar[None] = None
        frames: ClassVar[None] = None

    @property
    def sample_lengths(self) -> tuple[tuple[float, int], ...]:
        """Nothing: no sample is trained on."""
        return ()

    @model_validator(mode="after")
    def _fill_from_lengths(self) -> Self:
        return self

    @model_validator(mode="after")
    def _has_one_amount(self) -> Self:
        single = {name: getattr(self, name) for name in ("requests", "input_tokens", "output_tokens")}
        given = [name for name, value in single.items() if value is not None]
        if self.lengths and given:
            raise validation_error(f"{given[0]} and lengths contradict each other", "keep one", given[0])
        if not self.lengths and len(given) < len(single):
            missing = " and ".join(name for name, value in single.items() if value is None)
            raise validation_error(f"{missing} is missing", "give requests, input_tokens, output_tokens, or lengths")
        if self.image_input is not None and self.image_input.tokens is None:
            what = "the tokens of images follow from the model, which is not read here"
            raise validation_error(what, "make the scenario with planner.Scenario or read_scenario", "image_input")
        shortest = min(request_class.input_tokens for request_class in self.classes) - self.image_tokens
        if self.prefix_tokens > shortest:
            what = f"{self.prefix_tokens:,} exceeds the shortest input of {shortest:,} tokens"
            raise validation_error(what, "the prefix is part of every input", "prefix_tokens")
        return self

    @property
    def image_tokens(self) -> int:
        """Tokens of the images of a prompt."""
        return (self.image_input.tokens or 0) if self.image_input is not None else 0

    @property
    def classes(self) -> tuple[LengthClass, ...]:
        """The requests by length, their images among the tokens of prompts."""
        if self.lengths and not self.image_tokens:
            return self.lengths
        alike = ((self.input_tokens or 0, self.output_tokens or 0, self.requests or 0),)
        rows = ((one.input_tokens, one.output_tokens, one.count) for one in self.lengths) if self.lengths else alike
        return tuple(
            LengthClass.model_construct(input_tokens=prompt + self.image_tokens, output_tokens=answer, count=count)
            for prompt, answer, count in rows
        )

    @property
    def total_requests(self) -> int:
        """All requests."""
        return sum(request_class.count for request_class in self.classes)

    @property
    def total_output_tokens(self) -> int:
        """Tokens that are written, over all requests."""
        return sum(request_class.count * request_class.output_tokens for request_class in self.classes)

    @property
    def total_input_tokens(self) -> int:
        """Tokens of all prompts, shared ones counted each time."""
        return sum(request_class.count * request_class.input_tokens for request_class in self.classes)


class InferenceTechniques(Techniques):
    """What of an engine may be chosen; None is every value that makes sense."""

    engine: OneOrMany[Engine] | None = None
    """Engines that may be used; None: those with a pool that enough measurements stand behind."""
    weight_bits: OneOrMany[Bits] = DEFAULT_WEIGHT_BITS
    """Bits of the weights that may be used; where none are given, those of a quantised release."""
    weight_format: OneOrMany[WeightFormatName] | None = None
    """Formats of the weights that may be used; left out: those that make sense."""
    kv_bits: OneOrMany[Bits] = (16,)
    """Bits of the cache of keys and values that may be used."""
    tensor_parallel: FewIntegers | None = None
    """GPUs of one replica that share each layer; left out: what the model needs."""

    if not TYPE_CHECKING:  # techniques of training
        method: ClassVar[None] = None
        quant: ClassVar[None] = None
        precision: ClassVar[None] = None
        activation_checkpointing: ClassVar[None] = None
        sharding: ClassVar[None] = None
        attention: ClassVar[None] = None
        optimizer: ClassVar[None] = None
        offload: ClassVar[None] = None
        pipeline_parallel: ClassVar[None] = None
        penalty_usd: ClassVar[dict[str, float]] = {}
        lora_given: ClassVar[None] = None

    @model_validator(mode="before")
    @classmethod
    def _formats_have_bits(cls, data: Any) -> Any:
        """Return the data with the bits of the formats that are named, where no bits are given."""
        if not isinstance(data, dict) or not data.get("weight_format") or "weight_bits" in data:
            return data
        table, named = read_engines(), data["weight_format"]
        found = [table.format_behind(str(form)) for form in (named if isinstance(named, (list, tuple)) else [named])]
        bits = tuple(dict.fromkeys(table.formats[form].bits for form in found if form))
        return {**data, "weight_bits": bits} if bits else data

    @model_validator(mode="after")
    def _agree(self) -> Self:
        for name in self.weight_format or ():
            formats, engines = read_engines().formats, read_engines().engines
            if formats[name].bits not in self.weight_bits:
                allowed = ", ".join(map(str, self.weight_bits))
                what = f"{name} has {formats[name].bits} bits, and weight_bits allows {allowed}"
                raise validation_error(what, "give one of the two", "weight_format")
            if self.engine and not any(name in engines[engine].formats for engine in self.engine):
                have = ", ".join(dict.fromkeys(form for engine in self.engine for form in engines[engine].formats))
                raise validation_error(f"no engine of {', '.join(self.engine)} loads {name}", have, "weight_format")
        return self


class ServedAdapter(StrictModel):
    """Adapters of LoRA: merged into the weights, or several served next to them."""

    rank: PositiveInteger = 16
    """Rank of the adapters."""
    targets: Targets = "all-linear"
    """Layers that have one: `all-linear`, `attention`, `qv`, or a list."""
    merged: bool = True
    """Whether they are merged into the weights before serving."""
    served: PositiveInteger | None = Field(default=None, description="Adapters in memory at one time.")

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if self.served is not None and self.merged and "merged" in self.model_fields_set:
            raise validation_error("adapters are either merged or served", "keep one", "served")
        return self


class Results(Export):
    """The answers leave the machines."""

    gb: Annotated[float, Field(gt=0, le=MAX_GB)] | None = Field(
        default=None, description="GB of all answers; left out, 4 bytes per output token."
    )

    if not TYPE_CHECKING:
        merged: ClassVar[bool] = False
        format: ClassVar[None] = None
        bits: ClassVar[None] = None
        on: ClassVar[None] = None


class InferenceStages(Stages):
    """Prompts come from somewhere, answers go there."""

    export: Results | None = None
    """How the answers leave the machines."""

    if not TYPE_CHECKING:  # stages of training
        ingest: ClassVar[None] = None
        evaluation: ClassVar[None] = None
        checkpoints: ClassVar[None] = None


JOB_KINDS = ("finetune", "pretrain", "inference", "serve", "rl")


def kind_of_job(value: Any) -> Any:
    """Return the kind of a job; a fault that names all kinds."""
    if value not in JOB_KINDS:
        raise validation_error(f"{format_value(value)} is not one of {', '.join(JOB_KINDS)}", "give one of them")
    return value


class InferenceJob(Job):
    """Many prompts to be answered by one model: each machine is a replica or several, and needs none of the others."""

    kind: Annotated[Literal["inference"], BeforeValidator(kind_of_job)]  # type: ignore[assignment]
    """`inference`: prompts that are answered by a deadline."""
    work: InferenceWork
    """The prompts that are answered."""
    techniques: InferenceTechniques = InferenceTechniques()
    """Which formats, engines and degrees may be used."""
    adapter: ServedAdapter | None = None
    """Adapters of LoRA that are merged or served."""
    stages: InferenceStages = InferenceStages()
    """What happens after the answers: their export."""
    measured: Rows[ServedRun] = ()  # type: ignore[assignment]
    trains: ClassVar[bool] = False

    if not TYPE_CHECKING:  # settings of training
        sequence_length: ClassVar[None] = None
        global_batch: ClassVar[int] = 1
        packing: ClassVar[str] = "fixed"
        ema: ClassVar[str] = "none"
        length_cv: ClassVar[float] = 0.0
        framework: ClassVar[None] = None
        lora_given: ClassVar[None] = None
        early_stopping: ClassVar[float] = 1.0
        tuning: ClassVar[str] = "sft"
        teacher: ClassVar[None] = None

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        return self


FORMS = {"inference": "of inference", "serve": "of serving", "rl": "of reinforcement learning"}
"""Form in which a kind of job is written; the others are of training."""


def job_form(value: Any) -> str:
    """Return the tag of the form in which a job is written."""
    if not isinstance(value, dict):
        return FORMS.get(getattr(value, "kind", ""), "of training")
    kind, work = value.get("kind"), value.get("work")
    misspelt = kind not in (None, *JOB_KINDS) and isinstance(work, dict) and {"requests", "lengths"} & work.keys()
    if kind not in JOB_KINDS and "load" in value:
        return FORMS["serve"]
    return (
        FORMS["inference"] if misspelt else FORMS.get(kind, "of training") if isinstance(kind, str) else "of training"
    )
