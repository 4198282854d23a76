"""What a user wants trained: architecture, work, deadline, what may be done to it, and what was observed of it."""

import math
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from planner.documents.quantities import (
    MAX_TOKENS,
    Count,
    Gigabytes,
    Hours,
    NotNegative,
    OneOrMany,
    Positive,
    PositiveInteger,
    Price,
    Rows,
    SequenceCount,
    SequenceLength,
    StrictModel,
    Text,
    read_amount,
    validation_error,
)
from planner.documents.validation import name_fix
from planner.errors import format_value
from planner.library.engines import read_engines
from planner.library.technique_tables import Tuning as TuningRow
from planner.library.technique_tables import read_techniques
from planner.scenario.job_stages import Stages, Trials, TrialsGiven, Work
from planner.scenario.offer_terms import DiskSpeed, Moment
from planner.scenario.techniques import DEFAULT_LORA, Framework, LoraSettings, RunSettings, Techniques, Tuning
from planner.units import GB

ASSUMED_PASSES = 20
"""How often each image is trained on where the work names steps alone: a prior, as in most shipped scenarios."""

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
RolloutBits = Annotated[int, _bits((16, 8))]
"""Bits of the weights of engines that sample for training: 16, or 8 (fp8)."""


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


MAX_CONFIDENCE = 0.975
"""The errors of the estimates were measured on too few runs to say anything about rarer ones."""

MAX_MEMORY_CONFIDENCE = 0.99
"""Hundreds of published peaks of memory support the 99th percentile."""
DEFAULT_MEMORY_CONFIDENCE = 0.85
"""Probability to fit where a job states none: a choice, the highest at which both measured shares are below 8 %.

7.6 % of the published runs out of memory are said to fit, and 6.5 % of those that ran not to (docs/margins.md,
What a confidence of memory costs). The 8 % are a target, and costs decide nothing between 0.8 and 0.9. A start that
fails costs its minutes of rent and a smaller micro-batch, some 8 % of a bill; a false rejection the next GPU, some
20 %: both are judgement. From 0.95 to 0.9 that is 1.2 % saved for 0.05 x 8 % = 0.4 % risked, from 0.9 to 0.85 0.3 % for
0.4 %, from 0.85 to 0.8 0.2 % for 0.4 %.
"""


def _sure(value: object) -> object:
    if isinstance(value, (int, float)) and MAX_CONFIDENCE < value <= 100:
        fix = f"at most {MAX_CONFIDENCE}: the errors of the estimates are measured on too few runs for more"
        if 1 < value <= MAX_CONFIDENCE * 100:
            raise validation_error(f"{value:g} is not a probability", f"write {value:g} % as {value / 100:g}")
        raise validation_error(f"{value} is more than can be guaranteed", fix)
    return value


DEFAULT_CONFIDENCE = 0.9
"""Probability of keeping a deadline, or a budget, where the scenario states none."""

Sure = Annotated[float, Field(ge=0.5, le=MAX_CONFIDENCE), BeforeValidator(_sure)]
"""A probability that the estimates' errors, as they were measured, can support; no plan aims to be late."""


class Confidence(StrictModel):
    """Probabilities with which a plan keeps its deadline and fits in memory."""

    deadline: Sure = DEFAULT_CONFIDENCE
    """Probability with which the deadline holds."""
    memory: Annotated[float, Field(ge=0.5, le=MAX_MEMORY_CONFIDENCE)] = DEFAULT_MEMORY_CONFIDENCE
    """Probability with which a run fits in memory."""


def _confidence(value: object) -> object:
    """Return a single number as that of the deadline."""
    return {"deadline": _sure(value)} if isinstance(value, (int, float)) and not isinstance(value, bool) else value


Average = Literal["none", "gpu", "host"]


JOB_KINDS = ("finetune", "pretrain", "inference", "serve", "rl")


def kind_of_job(value: Any) -> Any:
    """Return the kind of a job; a fault that names all kinds."""
    if value not in JOB_KINDS:
        raise validation_error(f"{format_value(value)} is not one of {', '.join(JOB_KINDS)}", "give one of them")
    return value


class After(StrictModel):
    """A job that must have ended before this one starts, `lag` earlier at least."""

    job: Text
    """Name of the other job."""
    lag_hours: Moment = Field(default=0.0, alias="lag")
    """Least time between its end and the start."""


def as_after(value: Any) -> Any:
    """Return `after: name`, `[name, ...]` or mappings with a lag as mappings."""
    items = value if isinstance(value, (list, tuple)) else [value]
    return tuple({"job": item} if isinstance(item, str) else item for item in items)


class Job(StrictModel, defer_build=False):  # once for the models of a file and of a scenario, and those that extend it
    """One training run, or several trials of it, with the stages around it."""

    name: Text = "job"
    """Name of the job; left out: the name of its model."""
    architecture: Text
    """Name of a card, or the path of a Hugging Face config.json."""
    work: Work
    """Amount of training."""
    data_gb: Gigabytes = 0.0
    """Size of the data set in GB."""
    sequence_length: SequenceLength | None = None
    """Tokens per sequence; None: what a sample fits in."""
    ema: Average = "none"
    """Average of the trained weights of a network of images (EMA): `none`, on the `gpu` or in `host` memory."""
    global_batch: SequenceCount = 64
    """Sequences, pairs or images per optimizer step."""
    packing: Literal["packed", "padded", "fixed", "padding_free"] = "packed"
    """`packed`: samples fill sequences; `padded`: one in each; `fixed`: of full length; `padding_free`: end to end."""
    length_cv: NotNegative = 0.8
    """Spread of the lengths of padded samples: standard deviation over mean."""
    kind: Literal["finetune", "pretrain"] = "finetune"
    """`finetune`, or `pretrain`: all weights, from random ones."""
    tuning: Tuning = Field(default="sft", alias="method")
    """`sft`, or preference tuning: `dpo`, `kto`, `orpo`, `simpo`, `reward`; or `distill` from a teacher."""
    teacher: Text | None = None
    """Model whose logits are learned, of `method: distill`."""
    deadline_hours: Hours | None = Field(default=None, alias="deadline")
    """Until when the job is done: a duration, or a day and time."""
    confidence_given: Annotated[Confidence, BeforeValidator(_confidence, json_schema_input_type=float | Confidence)] = (
        Field(default=Confidence(), alias="confidence")
    )
    """Probability with which the deadline holds, or a mapping of `deadline` and `memory`."""
    framework: OneOrMany[Framework] | None = None
    """Frameworks that may be used; None: every profile that takes part by itself."""
    lora_given: LoraSettings | None = Field(default=None, alias="lora")
    """Settings of adapters."""
    techniques: Techniques = Techniques()
    """Which techniques may be used; left out: all that make sense."""
    efficiency: Positive = 1.0
    """Factor on the estimated speed."""
    storage_gb_per_second: DiskSpeed = 0.5
    """Disk speed of the training machine in GB/s, or a class of disks."""
    load_efficiency: Annotated[float, Field(gt=0, le=1)] = 0.6
    """Share of the disk speed that loading reaches."""
    measured: Rows[Measured] = ()
    """Observed runs of this job, which correct the estimates."""
    trials: TrialsGiven = Trials()
    """Number of runs, or how they are run: `{count, at_once, halving, split}`."""
    early_stopping: Annotated[float, Field(gt=0, le=1)] = Field(
        default=1.0, description="Expected share of the planned work after which a run stops."
    )
    stages: Stages = Stages()
    """What happens around training."""
    start_slack_hours: Moment = Field(default=0.0, alias="start_slack")
    """Part of the deadline that is kept for finding a machine."""
    release_hours: Moment = Field(default=0.0, alias="release")
    """Earliest start."""
    due_hours: Hours | None = Field(default=None, alias="due")
    """A date that costs `late_usd_per_hour` to miss."""
    late_usd_per_hour: Price = 0.0
    """Dollars per hour after `due`."""
    after: Annotated[Rows[After], BeforeValidator(as_after)] = ()
    """Jobs that must have ended before."""

    trains: ClassVar[bool] = True
    """It trains a model on machines that need one another; otherwise it answers prompts on replicas that do not."""
    subject: ClassVar[str | None] = None
    """Key of the package that plans it in `planner.subjects.SUBJECTS`; None: the core does."""
    ends: ClassVar[bool] = True
    """Its work has an end; otherwise it answers requests as they come."""

    @property
    def confidence(self) -> float:
        """The probability with which the deadline is kept."""
        return self.confidence_given.deadline

    @property
    def tuning_row(self) -> TuningRow:
        """What the job does with its samples."""
        return read_techniques().values.tuning[self.tuning]

    @property
    def image_bytes(self) -> float:
        """Bytes of one image or video as it is stored: its part of `data_gb`; 0 where that is not stated."""
        return self.data_gb * GB / self.work.images if self.work.images else 0.0

    @property
    def dataset_images(self) -> int:
        """Different images or videos that are trained on: as stated, else the samples of all steps over assumed passes.

        The steps that a run which goes on has done count, too: it encodes the same images again.
        """
        samples = ((self.work.steps or 0) + self.work.steps_before) * self.global_batch
        return self.work.images or math.ceil(samples / ASSUMED_PASSES)

    @property
    def answers(self) -> int:
        """Sequences of a sample: a pair has two, chosen and rejected."""
        return self.tuning_row.answers

    @property
    def tokens_per_sequence(self) -> float | None:
        """Mean tokens of one sequence; None where none was given."""
        mean = self.work.tokens_per_sample
        return None if mean is None else mean / self.answers

    @property
    def sequence_lengths(self) -> tuple[tuple[float, int], ...]:
        """Tokens of one sequence and number of the samples of each length; empty without a table."""
        return tuple((tokens / self.answers, count) for tokens, count in self.work.sample_lengths)

    @property
    def planned_deadline_hours(self) -> float | None:
        """The deadline of a plan whose machines are there at once: less what is kept for finding them."""
        return None if self.deadline_hours is None else self.deadline_hours - self.start_slack_hours

    @property
    def memory_confidence(self) -> float:
        """The probability with which a configuration fits in memory."""
        return self.confidence_given.memory

    @property
    def lora(self) -> LoraSettings:
        """The adapters' settings, wherever they were given."""
        return self.lora_given or self.techniques.lora_given or DEFAULT_LORA

    @property
    def needs_timetable(self) -> bool:
        """Whether a key of the job has a meaning only where starts are chosen."""
        return bool(self.release_hours or self.due_hours is not None or self.after)

    @property
    def can_resume(self) -> bool:
        """Whether a run that was stopped can go on: its checkpoints hold more than the weights."""
        return self.stages.checkpoints is None or self.stages.checkpoints.contents == "resume"

    @model_validator(mode="after")
    def _times_agree(self) -> Self:
        if self.deadline_hours is not None and self.release_hours >= self.deadline_hours:
            what = f"released after {self.release_hours:g} h, which is not before its deadline"
            raise validation_error(
                what, f"release it before {self.deadline_hours:g} h, or extend the deadline", "release"
            )
        if self.start_slack_hours and self.deadline_hours is None:
            fix = "add a deadline, of which it is kept, or leave it out"
            raise validation_error("time for finding a machine, and no deadline", fix, "start_slack")
        if self.deadline_hours is not None and self.start_slack_hours >= self.deadline_hours - self.release_hours:
            what = f"{self.start_slack_hours:g} h are kept for finding a machine, and nothing is left to run"
            raise validation_error(what, f"less than {self.deadline_hours - self.release_hours:g} h", "start_slack")
        if self.late_usd_per_hour and self.due_hours is None:
            raise validation_error("lateness without a due date", "add due, or leave it out", "late_usd_per_hour")
        if self.due_hours is not None and not self.late_usd_per_hour:
            fix = "add late_usd_per_hour; a date that must be kept is a deadline"
            raise validation_error("a due date that costs nothing to miss", fix, "due")
        return self

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        work = self.work
        self._check_teacher()
        self._check_tuning()
        if work.lengths:
            spread = work.lengths_cv
            if "length_cv" in self.model_fields_set and abs(self.length_cv - spread) > 1e-6:
                what = f"a spread of {self.length_cv:g} contradicts the table of lengths, which has {spread:.3g}"
                raise validation_error(what, "leave length_cv out", "length_cv")
            object.__setattr__(self, "length_cv", spread)
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
        twice = next((name for name in seen if seen.count(name) > 1), None)
        if twice is not None:
            what = f"the whole job was observed twice on {twice[1]} x {twice[0]}"
            raise validation_error(what, "keep one, or give the mean of their hours", "measured")
        given = (self.lora_given, self.techniques.lora_given)
        if None not in given and given[0] != given[1]:
            raise validation_error("lora is given twice, differently", "keep one", "lora")
        self.stages.check_work(work)
        return self

    def _check_teacher(self) -> None:
        """Raise where a teacher is missing, or is given to another method; one is always held as a copy."""
        if self.teacher is not None and not self.tuning_row.teacher:
            raise validation_error(f"{self.tuning} has no teacher", "leave it out, or method: distill", "teacher")
        if self.tuning_row.teacher and self.teacher is None:
            raise validation_error("distillation from no model", "give teacher, such as qwen2.5-72b", "teacher")
        compared, asked = read_techniques().values.reference.values, self.techniques.reference or ()
        if self.teacher is not None and any(not compared[name].copied for name in asked):
            fix = "write model, or offloaded_model"
            raise validation_error("a teacher is another model, held as a copy", fix, "techniques.reference")

    def _check_tuning(self) -> None:
        """Raise where preference tuning and its data do not agree; pairs are padded where nothing is said."""
        if self.techniques.reference and not self.tuning_row.reference:
            raise validation_error(f"{self.tuning} has no reference", "leave it out", "techniques.reference")
        if self.tuning == "sft":
            if self.packing == "padding_free":
                raise validation_error("padding_free is for preference tuning", "write padded or packed", "packing")
            return
        if self.kind == "pretrain":
            raise validation_error(f"{self.tuning} starts from a trained model", "leave kind out", "method")
        if self.work.images is not None:
            raise validation_error(f"{self.tuning} is planned for language models", "leave it out", "method")
        if "packing" not in self.model_fields_set:
            object.__setattr__(self, "packing", "padded")
            self.model_fields_set.add("packing")  # what is built from the fields given keeps it
        if self.packing == "packed":
            fix = "write padded, or padding_free: tokens end to end without padding"
            raise validation_error(f"{self.tuning} keeps samples apart", fix, "packing")
