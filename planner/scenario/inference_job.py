"""What answers prompts: one served configuration, a job of many prompts, and a service with its load."""

import re
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, PlainValidator, model_validator

from planner.documents.quantities import (
    MAX_GB,
    MAX_NUMBER,
    Hours,
    ImageEdges,
    NotNegative,
    OneOrMany,
    Positive,
    PositiveInteger,
    Rows,
    SequenceLength,
    StrictModel,
    Text,
    read_amount,
    validation_error,
)
from planner.documents.quantities import Count as Amount
from planner.documents.validation import find_name, name_fix
from planner.errors import format_value
from planner.library.engines import read_engines, read_load_profiles
from planner.scenario.job import JOB_KINDS, Bits, Engine, Job, ServedRun, Tokens, WeightFormatName, kind_of_job
from planner.scenario.job_stages import Export, PromptImages, Stages, Work
from planner.scenario.techniques import FewIntegers, Targets, Techniques
from planner.units import DAY_HOURS, HOUR

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
        rows = (
            ((length.input_tokens, length.output_tokens, length.count) for length in self.lengths)
            if self.lengths
            else alike
        )
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
        forms = [table.format_behind(str(form)) for form in (named if isinstance(named, (list, tuple)) else [named])]
        bits = tuple(dict.fromkeys(table.formats[form].bits for form in forms if form))
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


DAY, WEEK = int(DAY_HOURS), 7 * int(DAY_HOURS)
FLAT, OFFICE = "flat", "office"
_SECONDS = re.compile(r"\s*(\d+(?:\.\d*)?(?:e[-+]?\d+)?|\.\d+)\s*(ms|s|m)\s*\Z", re.IGNORECASE)
_SECONDS_OF = {"ms": 1e-3, "s": 1.0, "m": 60.0}
MAX_LATENCY_SECONDS = 3600.0


def parse_seconds(value: Any) -> float:
    """Return the seconds of `40ms`, `1s`, `0.5s` or `2m`; a number without a unit is an error."""
    match = _SECONDS.match(value) if isinstance(value, str) else None
    if match is None:
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        what = f"{format_value(value)} {'has no unit' if number else 'is not a time'}"
        raise validation_error(what, "write 40ms, 1s or 0.5s")
    seconds = float(match[1]) * _SECONDS_OF[match[2].lower()]
    if not 0.0 < seconds <= MAX_LATENCY_SECONDS:
        raise validation_error(f"{format_value(value)} is out of range", "give more than 0 s, at most an hour")
    return seconds


def format_seconds(seconds: float) -> str:
    """Return a time that `parse_seconds` reads as exactly the same seconds."""
    return f"{seconds!r}s"


Seconds = Annotated[
    float,
    BeforeValidator(parse_seconds, json_schema_input_type=Annotated[str, Field(examples=["40ms", "1s"])]),
    PlainSerializer(format_seconds, return_type=str),
]
"""Seconds as a float, written with a unit."""


def _profile(value: Any) -> Any:
    """Return a name of a profile, or its numbers; a fault for other counts, and where there is no load at all."""
    if isinstance(value, str):
        known = (FLAT, *read_load_profiles())
        if (name := find_name(value, known)) is None:
            fix = f"{name_fix(value, known)}; or give 24 or {WEEK} numbers, or a CSV file"
            raise validation_error(f"{format_value(value)} is no profile", fix)
        return name
    plain = isinstance(value, (list, tuple)) and all(
        isinstance(figure, (int, float)) and not isinstance(figure, bool) and abs(figure) <= MAX_NUMBER
        for figure in value
    )
    if not plain:
        raise validation_error(f"{format_value(value)} is no profile", f"flat, office, 24 or {WEEK} numbers, or a CSV")
    if len(value) not in (DAY, WEEK):
        fix = f"give {DAY} for a day or {WEEK} for a week from Monday 0:00 on"
        raise validation_error(f"a profile of {len(value)} numbers", fix)
    if any(figure < 0 for figure in value):
        place = next(hour for hour, figure in enumerate(value) if figure < 0)
        raise validation_error(f"hour {place} has a load of {value[place]}", "give 0 or more for each hour")
    if not any(value):
        raise validation_error("a profile without any load", "give at least one hour a load")
    return tuple(float(figure) for figure in value)


def _written(value: Any) -> Any:
    """Return a profile as a file has it."""
    return value if isinstance(value, str) else list(value)


Profile = Annotated[
    str | tuple[float, ...],
    PlainValidator(_profile, json_schema_input_type=str | list[float]),
    PlainSerializer(_written, return_type=Any),
]


def _one_number(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        fix = f"give the peak here, and a list of {DAY} or {WEEK} numbers as profile; without a peak they are the load"
        raise validation_error("a list is not the load at the peak", fix)
    return value


Peak = Annotated[Positive, BeforeValidator(_one_number)]
"""Load at the peak, a single number."""


class Load(StrictModel):
    """Requests that come, by the hour, and their lengths."""

    per_second: Peak | None = Field(default=None, description="Requests per second at the peak.")
    concurrent: Peak | None = Field(default=None, description="Requests in flight at the peak, in its place.")
    profile: Profile = Field(
        default=FLAT,
        description="`flat`, `office`, 24 numbers (each day), 168 numbers (a week from Monday 0:00 on), or a CSV file "
        "with the columns hour and per_second. Numbers are relative to the peak where one is given.",
    )
    input_tokens: SequenceLength | None = None
    """Tokens of a prompt, the shared prefix among them."""
    output_tokens: SequenceLength | None = None
    """Tokens of an answer."""
    prefix_tokens: Tokens = Field(default=0, description="Tokens at the beginning that all prompts share.")
    lengths: Annotated[Rows[LengthClass], Field(max_length=MAX_CLASSES)] = ()
    """Requests by length, in place of one length."""
    image_input: PromptImages | None = None
    """Images of each prompt next to its text; `input_tokens` are those of the text then."""

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        if self.per_second is not None and self.concurrent is not None:
            raise validation_error("per_second and concurrent contradict each other", "keep one", "concurrent")
        if self.per_second is None and self.concurrent is None and isinstance(self.profile, str):
            raise validation_error("the load is missing", "give per_second, the requests per second at the peak")
        _ = self.as_work  # the same faults of lengths as a job of many prompts
        return self

    @property
    def unit(self) -> Literal["requests/s", "requests in flight"]:
        """What the figures of the load count."""
        return "requests/s" if self.concurrent is None else "requests in flight"

    @property
    def hourly(self) -> tuple[float, ...]:
        """Load of each hour of the cycle: a day, or a week from Monday 0:00 on."""
        if self.profile == FLAT:
            shape: tuple[float, ...] = (1.0,) * DAY
        elif isinstance(self.profile, str):
            shape = read_load_profiles()[self.profile].numbers
        else:
            shape = self.profile
        peak = self.per_second if self.concurrent is None else self.concurrent
        if peak is None:
            return shape
        most = max(shape)
        return tuple(peak * (figure / most) for figure in shape)

    @property
    def as_work(self) -> InferenceWork:
        """The requests of an hour of mean load, by length: what the formulas of generation read."""
        shared = {"prefix_tokens": self.prefix_tokens, "image_input": self.image_input}
        if self.lengths:
            return InferenceWork.model_validate({"lengths": self.lengths, **shared})
        given: dict[str, Any] = {"input_tokens": self.input_tokens, "output_tokens": self.output_tokens}
        missing = [name for name, value in given.items() if value is None]
        if missing:
            raise validation_error(f"{' and '.join(missing)} is missing", "give both, or lengths", missing[0])
        count = max(1, round(HOUR * sum(self.hourly) / len(self.hourly)))
        return InferenceWork.model_validate({"requests": count, **shared, **given})


LEFT_OUT = -1.0
"""Seconds of a limit that is not given; a service puts its default there."""
FIRST_TOKEN_SECONDS, FIRST_TOKEN_SECONDS_PER_TOKEN, TOKEN_SECONDS = 2.0, 0.5e-3, 0.2
"""Default limits: MLPerf Inference asks servers for 2 s and 0.2 s per token of Llama 2 70B (5.1, short prompts), and
for 6 s of Llama 3.1 405B, whose prompts have 9,400 tokens: 0.43 s more for each 1,000 (mlcommons.org, 2025-04)."""


def _no_limit(value: Any) -> Any:
    """Return None for a limit that is said to be none."""
    return None if isinstance(value, str) and value.strip().casefold() in ("none", "no limit") else value


def without_default(schema: dict[str, Any]) -> None:
    """Take the default out of the JSON Schema of a field whose default depends on other fields."""
    schema.pop("default", None)


Limit = Annotated[Seconds | None, BeforeValidator(_no_limit)]


class Latency(StrictModel):
    """How fast answers must come; None is no limit, and what a replica can hold without saturation is."""

    ttft_seconds: Limit = Field(
        default=LEFT_OUT,
        alias="ttft",
        description="Time to the first token; left out, 2 s and 0.5 s per 1,000 prompt tokens; none: no limit.",
        json_schema_extra=without_default,
    )
    tpot_seconds: Limit = Field(
        default=LEFT_OUT,
        alias="tpot",
        description="Time per token after the first; left out, 200ms; none: no limit.",
        json_schema_extra=without_default,
    )
    share: Annotated[float, Field(gt=0, le=1)] = Field(
        default=0.95, description="Share of the requests that each limit holds for."
    )

    @property
    def by_default(self) -> tuple[str, ...]:
        """The limits that the file does not give, by their keys."""
        return tuple(key for key in ("ttft", "tpot") if f"{key}_seconds" not in self.model_fields_set)

    def filled(self, load: Load) -> Self:
        """Return the limits with a default for each that is not given.

        That of the first token grows with the prompts: the length that the share of the requests stays below, less the
        prefix that they share. Example: 1,000 tokens 2.5 s, 127,000 tokens 65.5 s.
        """
        if LEFT_OUT not in (self.ttft_seconds, self.tpot_seconds):
            return self
        work, seen, longest = load.as_work, 0, 0
        for request_class in sorted(work.classes, key=lambda each: each.input_tokens):
            longest = request_class.input_tokens
            seen += request_class.count
            if seen >= self.share * work.total_requests:
                break
        first = FIRST_TOKEN_SECONDS + FIRST_TOKEN_SECONDS_PER_TOKEN * (longest - work.prefix_tokens)
        usual = {"ttft_seconds": min(first, MAX_LATENCY_SECONDS), "tpot_seconds": TOKEN_SECONDS}
        values = {name: getattr(self, name) for name in type(self).model_fields}
        values |= {name: usual[name] for name in usual if values[name] == LEFT_OUT}
        made = self.model_copy(update=values)
        made.__pydantic_fields_set__.clear()
        made.__pydantic_fields_set__.update(self.model_fields_set)
        return made


class ReplicaBounds(StrictModel):
    """How many replicas stand at the least at any hour."""

    min: Annotated[int, Field(ge=0, le=10**6)] = 1
    """Fewest replicas at any hour."""


LEAST_REPLICA_SHARE = 0.5
"""Of its even share of an hour that each replica carries where `most_kinds` limits the kinds of machines."""

Headroom = Annotated[NotNegative, Field(le=10)]


# A service: one model that answers requests as they come, on as many replicas as each hour needs.


DEFAULT_HOURS = 30 * DAY_HOURS


class ServeJob(InferenceJob):
    """One model behind a load that changes by the hour; the fleet repeats every day or week."""

    kind: Annotated[Literal["serve"], BeforeValidator(kind_of_job)]  # type: ignore[assignment]
    load: Load
    """Requests by the hour."""
    latency: Latency = Field(default=Latency(), json_schema_extra=without_default)
    """How fast answers must come."""
    for_hours: Hours = Field(default=DEFAULT_HOURS, alias="for", description="How long the service runs.")
    replicas: ReplicaBounds = ReplicaBounds()
    """Fewest and most replicas."""
    most_kinds: Annotated[int, Field(ge=1, le=10**6)] | None = Field(
        default=2,
        description="Most kinds of machines: an offer in one market with one engine and format. Each replica then "
        "carries at least half of its even share of every hour. null: any mix.",
    )
    headroom: Headroom = Field(default=0.0, description="Share of the load that there is room for on top of it.")
    cold_start_hours: Hours | None = Field(
        default=None,
        alias="cold_start",
        description="From ordering a machine to its first answer; left out, estimated.",
    )

    subject: ClassVar[str | None] = "serve"
    ends: ClassVar[bool] = False

    if not TYPE_CHECKING:  # what a batch has and a service has not
        work: ClassVar[property] = property(lambda self: self.load.as_work)
        deadline_hours: ClassVar[None] = None
        trials: ClassVar = InferenceJob.model_fields["trials"].default
        stages: ClassVar = InferenceJob.model_fields["stages"].default
        data_gb: ClassVar[float] = 0.0
        release_hours: ClassVar[float] = 0.0
        due_hours: ClassVar[None] = None
        late_usd_per_hour: ClassVar[float] = 0.0

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        filled = self.latency.filled(self.load)
        if filled is not self.latency:
            object.__setattr__(self, "latency", filled)
        return self
