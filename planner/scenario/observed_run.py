"""One observed run of a job, and how it was set up: training with its speed, hours or memory, generation."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from planner.documents.quantities import (
    MAX_TOKENS,
    Count,
    Positive,
    PositiveInteger,
    SequenceLength,
    StrictModel,
    Text,
    read_amount,
    validation_error,
)
from planner.documents.validation import name_fix
from planner.errors import format_value
from planner.library.engines import read_engines
from planner.scenario.techniques import RunSettings

_AnyLength = Annotated[int, Field(ge=0, le=MAX_TOKENS)]
Tokens = Annotated[_AnyLength, BeforeValidator(read_amount, json_schema_input_type=_AnyLength | str)]
"""Tokens of a part of a prompt, which may have none."""
_MeanLength = Annotated[float, Field(ge=1, le=MAX_TOKENS)]
MeanTokens = Annotated[_MeanLength, BeforeValidator(read_amount, json_schema_input_type=_MeanLength | str)]
"""Mean tokens of a prompt or an answer that was measured."""
PeakKind = Literal["allocated", "reserved", "device"]
"""What a peak counts: live tensors (torch max_memory_allocated), what the allocator took (max_memory_reserved), or
all that the driver shows (nvidia-smi)."""


class Measured(RunSettings):
    """One observed run of this job on `gpus` GPUs in total.

    `hours` are those of the whole job from start to end: nothing is added to them, and they hold for every
    configuration on that hardware, so they are given without techniques. Of a job that is expected to stop early they
    are those without the stop.
    `tokens_per_second` (images, for a diffusion model) counts real tokens over all GPUs; it and `peak_vram_gib`
    correct the estimates of the job.
    The other keys describe how the run was set up; a key that is left out is taken from the job.
    """

    gpu: Text
    """GPU of the run."""
    gpus: PositiveInteger
    """GPUs of one machine."""
    tokens_per_second: Positive | None = None
    """Real tokens, or images, per second over all GPUs."""
    hours: Positive | None = None
    """Hours of the whole job on this hardware; they replace the estimate."""
    peak_vram_gib: Positive | None = None
    """Peak in GiB on the GPU that holds most."""
    peak_kind: PeakKind | None = None
    """What the peak counts; None: what is allocated, which asks for the most room."""
    instances: PositiveInteger | None = None
    """Machines of the run."""
    interconnect: Literal["nvlink", "nvswitch", "pcie"] | None = None
    """What connects the GPUs of a machine."""
    network_gbps: Positive | None = None
    """Network of a machine in Gbit/s."""

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
        ranks = self.gpus / ((self.tensor_parallel or 1) * (self.pipeline_parallel or 1) * (self.context_parallel or 1))
        if None not in batch and batch[0] * batch[1] * ranks != batch[2]:  # type: ignore[operator]
            what = f"{batch[2]} is not micro_batch {batch[0]} x accumulation_steps {batch[1]} x {ranks:g} ranks"
            raise validation_error(what, "leave one of the three out", "global_batch")
        return self


def _named(what: str, value: Any, behind: Callable[[str], str | None], known: Iterable[str]) -> str:
    """Return the table's name of an engine or a weight format; a fault for one that it does not have."""
    name = behind(value) if isinstance(value, str) else None
    if name is None:
        raise validation_error(f"unknown {what} {format_value(value)}", name_fix(str(value), known))
    return name


def _engine(value: Any) -> str:
    return _named("engine", value, read_engines().engine_behind, read_engines().engines)


def _format(value: Any) -> str:
    return _named("weight format", value, read_engines().format_behind, read_engines().formats)


def _bits(known: tuple[int, ...]) -> BeforeValidator:
    def check(value: Any) -> Any:
        if value not in known or isinstance(value, bool):
            raise validation_error(f"{value!r} bits are not known", f"one of {', '.join(map(str, known))}")
        return value

    return BeforeValidator(check, json_schema_input_type=Literal[known])


Engine = Annotated[Text, BeforeValidator(_engine)]
WeightFormatName = Annotated[Text, BeforeValidator(_format)]
Bits = Annotated[int, _bits((16, 8, 4))]
"""Bits of weights, or of the cache."""


class ServedRun(StrictModel):
    """One measurement of a replica: what `vllm bench serve` or GuideLLM found, at which lengths and how many at once.

    It corrects the speed of its engine on its GPU. `requests`: those of the whole measurement; left out, so many that
    start and end do not count.
    """

    engine: Engine
    """Engine that served."""
    gpu: Text
    """GPU of the replica."""
    gpus: PositiveInteger = 1
    """GPUs of the replica."""
    tensor_parallel: PositiveInteger | None = None
    """GPUs that share each layer; None: all of the replica."""
    weight_format: WeightFormatName
    """Format of the weights."""
    kv_bits: Bits = 16
    """Bits of the cache of keys and values."""
    input_tokens: MeanTokens
    """Mean tokens of a prompt."""
    output_tokens: MeanTokens
    """Mean tokens of an answer."""
    prefix_tokens: Tokens = 0
    """Tokens at the beginning that all prompts share."""
    in_flight: SequenceLength
    """Requests in flight at one time."""
    requests: Count | None = None
    """Requests of the run."""
    output_tokens_per_second: Positive
    """Tokens of answers per second of the replica."""
    ttft_seconds: Positive | None = None
    """Median time to the first token."""
    tpot_seconds: Positive | None = None
    """Median time per token after the first."""

    if not TYPE_CHECKING:  # a measurement is no run of the whole job
        hours: ClassVar[None] = None

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if self.prefix_tokens > self.input_tokens:
            what = f"{self.prefix_tokens:,} exceeds the input of {self.input_tokens:,.0f} tokens"
            raise validation_error(what, "the prefix is part of every input", "prefix_tokens")
        if self.tensor_parallel is not None and self.gpus % self.tensor_parallel:
            what = f"{self.gpus} GPUs are no multiple of {self.tensor_parallel}"
            raise validation_error(what, "gpus are those of one replica", "tensor_parallel")
        return self
