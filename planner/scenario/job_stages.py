"""How much a job computes, and what it does besides training: trials, data, evaluation, export."""

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from planner.documents.quantities import (
    MAX_GB,
    Count,
    Hours,
    ImageEdges,
    OneOrMany,
    Positive,
    PositiveInteger,
    Price,
    Resolution,
    Rows,
    SequenceLength,
    StrictModel,
    Text,
    TokenMean,
    TowerState,
    WholeNumber,
    validation_error,
)
from planner.errors import format_value
from planner.library.image_models import ImageLimits, ImageTower

# How much is to be computed: samples, tokens, steps or images.


MAX_EPOCHS = 1e6


MAX_SAMPLE_CLASSES = 2000
"""Most rows of a table of lengths of training data; longer tables are gathered into so many by `gather_lengths`."""


class SampleClass(StrictModel):
    """Samples of one length in tokens."""

    tokens: Annotated[TokenMean, Field(ge=1)]
    """Mean tokens of a sample of this length."""
    count: Count = 1
    """How many samples have it."""


def gather_lengths(counts: dict[int, int], most: int = MAX_SAMPLE_CLASSES) -> list[tuple[float, int]]:
    """Return at most so many classes (tokens, count) of samples by length, with the same sum and the same longest.

    Neighbours become one class with their mean. The longest stays alone: it decides the length of a sequence.
    """
    *rest, longest = sorted(counts.items())
    size = max(1, -(-len(rest) // (most - 1)))
    groups = [rest[at : at + size] for at in range(0, len(rest), size)]
    means = [(sum(tokens * count for tokens, count in group), sum(count for _, count in group)) for group in groups]
    return [(tokens / count, count) for tokens, count in means] + [(float(longest[0]), longest[1])]


class PromptImages(StrictModel):
    """Images that prompts or samples of a vision-language model have next to their text.

    Tokens follow from the size by the rule of the model's image processor (`models/towers.yaml`).
    """

    size: ImageEdges
    """Mean width and height in pixels, such as `1280x720`; a number is the edge of a square."""
    count: Annotated[Positive, Field(le=10_000)] = 1.0
    """Images, or videos, of a sample or a prompt in the mean."""
    max_pixels: Count | None = None
    """Pixels to which the processor shrinks an image, of Qwen; None: as released."""
    max_tiles: Annotated[int, Field(ge=0, le=100)] | None = None
    """Tiles that the processor cuts at most, of models with tiles; None: as released."""
    frames: Annotated[int, Field(ge=1, le=10_000)] | None = None
    """Frames of each, which is a video then."""
    tokens: Annotated[int, Field(ge=0)] | None = None
    """Tokens of all images of a prompt; filled in from the model when a scenario is read, whatever is written."""

    @property
    def edges(self) -> tuple[int, int]:
        """Width and height in pixels."""
        width, height = map(int, self.size.split("x"))
        return width, height

    @property
    def limits(self) -> ImageLimits:
        """What it says of the processor."""
        return ImageLimits(self.max_pixels, self.max_tiles, self.frames)

    def faults(self, name: str, tower: ImageTower | None) -> Iterator[tuple[str, str, str]]:
        """Yield key (empty: all), fault and mend of what the model of this name or its processor does not have."""
        if tower is None:
            fix = "leave it out, or choose a vision-language model such as qwen3-vl-8b"
            yield "", f"{name} has no image tower that is known", fix
        else:
            yield from ((key, f"{name}: {what}", fix) for key, what, fix in tower.faults(self.limits))

    def tokens_of(self, tower: ImageTower) -> int:
        """Return the tokens of all images of a prompt; 1.5 images of 880 tokens are 1,320."""
        return math.ceil(self.count * tower.view(*self.edges, self.limits).tokens)

    @property
    def described(self) -> str:
        """What a plan counts of the images of prompts, and what it does not."""
        what = f"{self.count:g} x {self.size} in a prompt are {self.tokens or 0:,} tokens"
        return f"{what}, next to those of the text; no image is cached, and decoding and resizing do not count"


class ImageInput(PromptImages):
    """Images of samples that a model is trained on, and what happens to its tower."""

    tower: TowerState = "frozen"
    """What happens to the image tower: nothing, adapters of its own, or all its weights are trained."""

    if not TYPE_CHECKING:  # a sample has a mean of its own
        tokens: ClassVar[None] = None


class Work(StrictModel):
    """How much is to be computed, said in one of four ways.

    `samples` (times `tokens_per_sample` times `epochs`), `tokens` in all, optimizer `steps`,
    or `images` (times `epochs`, squares of `resolution` pixels). A table of `lengths` (a CSV file where it is written)
    says the mean length of samples, and their number where no amount is given: it may be that of a part of the data.
    """

    lengths: Annotated[Rows[SampleClass], Field(max_length=MAX_SAMPLE_CLASSES)] = ()
    """Samples by length, in place of a mean; a file may name a table."""

    samples: Count | None = None
    """Samples of the data set."""
    tokens_per_sample: TokenMean | None = None
    """Mean tokens of a sample."""
    epochs: Annotated[Positive, Field(le=MAX_EPOCHS)] = 1.0
    """How often the data set is passed."""
    tokens: Count | None = None
    """Tokens that are trained on, in all."""
    steps: Count | None = None
    """Optimizer steps."""
    steps_before: WholeNumber = 0
    """Steps that a run that goes on has done, besides `steps`."""
    images: Count | None = None
    """Images of the data set."""
    resolution: Resolution | None = None
    """Pixels of an edge of an image."""
    frames: Annotated[int, Field(ge=1, le=10_000)] | None = None
    """Frames of each sample, which is a video then; `images` counts the videos."""
    reference_images: Annotated[int, Field(ge=0, le=16)] | None = None
    """Images of the same size that the network reads next to each, such as the one that it edits."""
    aspect_buckets: Annotated[int, Field(ge=1, le=100)] = 1
    """Aspects into which tools sort images that are not cropped: a batch has one."""
    image_input: ImageInput | None = None
    """Images next to the text of samples; `tokens_per_sample` are those of the text then."""

    @property
    def image_size(self) -> tuple[int | None, int | None, int | None, int]:
        """Pixels of a side, frames, reference images and aspects of samples, as far as they are given."""
        return self.resolution, self.frames, self.reference_images, self.aspect_buckets

    @property
    def sample_lengths(self) -> tuple[tuple[float, int], ...]:
        """Tokens and number of the samples of each length; empty without a table."""
        return tuple((length.tokens, length.count) for length in self.lengths)

    @property
    def lengths_cv(self) -> float:
        """The spread of the lengths of the table: standard deviation over mean."""
        total, mean = sum(length.count for length in self.lengths), self.tokens_per_sample or 1.0
        variance = math.fsum((length.tokens / mean - 1.0) ** 2 * length.count for length in self.lengths) / max(
            1, total
        )
        return math.sqrt(variance)

    @model_validator(mode="after")
    def _fill_from_lengths(self) -> Self:
        if not self.lengths:
            return self
        total = sum(length.count for length in self.lengths)
        mean = math.fsum(length.tokens * length.count for length in self.lengths) / total
        if self.images is not None:
            raise validation_error("images have no lengths in tokens", "leave lengths out", "lengths")
        if self.tokens_per_sample is not None and abs(self.tokens_per_sample / mean - 1.0) > 1e-9:
            what = (
                f"{self.tokens_per_sample:g} tokens per sample contradict the table of lengths, whose mean is {mean:g}"
            )
            raise validation_error(what, "leave tokens_per_sample out", "tokens_per_sample")
        totals = {"tokens_per_sample": mean}
        if self.tokens is None and self.steps is None and self.samples is None:
            totals["samples"] = total
        for name, value in totals.items():
            object.__setattr__(self, name, value)  # the model is frozen once it is read
        return self

    @model_validator(mode="after")
    def _has_one_amount(self) -> Self:
        ways = [way for way in ("samples", "tokens", "steps", "images") if getattr(self, way) is not None]
        if not ways:
            raise validation_error("the amount of work is missing", "give samples, tokens, steps or images")
        if len(ways) > 1:
            raise validation_error(f"{' and '.join(ways)} contradict each other", "keep one", ways[1])
        way = ways[0]
        if self.epochs != 1 and way in ("tokens", "steps"):
            fix = f"{way} counts all epochs: multiply it and leave epochs out"
            raise validation_error(f"epochs cannot be combined with {way}", fix, "epochs")
        if self.steps_before and way != "steps":
            fix = "give the steps that are left"
            raise validation_error(f"steps_before cannot be combined with {way}", fix, "steps_before")
        self._check_image_input(way)
        if self.tokens_per_sample is not None and way == "images":
            raise validation_error("images have no tokens_per_sample", "leave it out", "tokens_per_sample")
        for key in ("resolution", "frames", "reference_images"):
            if getattr(self, key) is not None and way in ("samples", "tokens"):
                raise validation_error(f"{key} cannot be combined with {way}", "give it with images only", key)
        if self.aspect_buckets > 1 and way in ("samples", "tokens"):
            raise validation_error(f"aspect_buckets cannot be combined with {way}", "leave it out", "aspect_buckets")
        return self

    def _check_image_input(self, way: str) -> None:
        """Raise where images next to text have no text, or come with what counts other images or tokens."""
        if self.image_input is None:
            return
        if way == "images":
            what = "images of a diffusion network have no other images next to them"
            raise validation_error(what, "leave image_input out", "image_input")
        if self.lengths:
            raise validation_error("a table of lengths has its images in it", "leave one of the two out", "image_input")
        if self.tokens_per_sample is None:
            raise validation_error("text of unknown length", "add tokens_per_sample, without the images", "image_input")


# What a job does besides training: trials, and the stages from data on a disk somewhere to an exported network.
#
# A stage that is not given does not happen: its time and its money are left out.


IngestPlace = Literal["machine", "cpu"]
EvaluationPlace = Literal["machine", "one_gpu", "cpu"]
CheckpointContents = Literal["resume", "weights"]
ExportFormat = Literal["adapters", "merged", "gguf", "gptq", "awq"]
ExportPlace = Literal["machine", "cpu", "one_gpu"]


Runs = Annotated[int, Field(ge=1, le=10_000)]
"""A number of trials: each has a share of its own in the sums."""


class Trials(StrictModel):
    """How often the run is done, as in a search for good settings; `trials: 8` is short for `{count: 8}`."""

    count: Runs = Field(default=1, description="Runs that are started.")
    at_once: Runs = Field(
        default=1,
        description="Concurrent runs, each on its own machines, all of one kind at one provider; split: true takes "
        "different ones instead.",
    )
    halving: Annotated[float, Field(ge=1.1)] | None = Field(
        default=None,
        description="Successive halving: after each rung the best 1/halving of the trials go on, until each has done "
        "halving times as much; left out, every trial runs in full.",
    )
    split: bool = Field(
        default=False,
        description="Each trial is a job of its own: how many run at once, when, and on which offer is decided. "
        "It stands in place of at_once, which wants machines of one kind.",
    )

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if self.split and self.halving is not None:
            fix = "leave out one of them: the trials of a round go on together"
            raise validation_error("successive halving of trials that are split", fix, "split")
        if self.split and self.at_once > 1:
            fix = "leave it out: with split, how many run at once is decided"
            raise validation_error("at_once of trials that are split", fix, "at_once")
        if self.at_once > self.count:
            what = f"{self.at_once} trials at once, but only {self.count} in total"
            raise validation_error(what, f"at_once is at most count, {self.count}", "at_once")
        if self.halving is not None and self.halving > self.count:
            what = f"keeping one trial in {self.halving:g} needs as many, but there are {self.count}"
            raise validation_error(what, f"halving is at most count, {self.count}, or left out", "halving")
        return self


def _count_alone(value: Any) -> Any:
    if isinstance(value, (dict, Trials)):
        return value
    if isinstance(value, bool) or not isinstance(value, int):
        fix = "give a whole number, or a mapping with count, at_once and halving"
        raise validation_error(f"{format_value(value)} is not a number of trials", fix)
    if value < 1:
        raise validation_error(f"{value} is not a number of trials", "give 1 or more")
    return {"count": value}


TrialsGiven = Annotated[Trials, BeforeValidator(_count_alone, json_schema_input_type=PositiveInteger | Trials)]
"""Trials in full, or their number alone."""


class Ingest(StrictModel):
    """Raw text is read, tokenised and written as token ids before the run."""

    raw_gb: Positive = Field(le=MAX_GB, description="GB of raw text (or images) as they lie on a disk.")
    tokens: Count | None = Field(default=None, description="Tokens made of it; left out, one epoch of the work.")
    on: OneOrMany[IngestPlace] = Field(
        default=("machine", "cpu"), description="Where it may be done: the training machine, or a CPU offer."
    )
    ram_gb: Positive = Field(default=32.0, description="GB of memory asked of the machine that does it.")


class Transfer(StrictModel):
    """Where the data lie now; nothing of it applies to offers in the same region."""

    region: Text | None = Field(
        default=None, description="Region of the data; left out, it differs from that of every offer."
    )
    egress_usd_per_gb: Price = Field(default=0.0, description="Dollars per GB that leaves its place.")
    gb_per_second: Positive | None = Field(
        default=None, description="How fast it flows; left out, as fast as the machine pulls."
    )


class Evaluation(StrictModel):
    """Forward passes over held-out text, amount said in one of two ways, or answers to test prompts."""

    share: Positive | None = Field(default=None, description="Tokens evaluated per token trained on, in all.")
    tokens: Count | None = Field(default=None, description="Tokens evaluated over the whole run.")
    requests: Count | None = Field(default=None, description="Test prompts, all answered however early the run stops.")
    input_tokens: SequenceLength | None = Field(default=None, description="Tokens of each prompt.")
    output_tokens: SequenceLength | None = Field(default=None, description="Tokens of each answer.")
    on: OneOrMany[EvaluationPlace] = Field(
        default=("machine", "one_gpu"),
        description="Where it may be done: the training machine, an offer of one GPU, or a CPU offer.",
    )

    @model_validator(mode="after")
    def _is_said_once(self) -> Self:
        prompts = {name: getattr(self, name) for name in ("requests", "input_tokens", "output_tokens")}
        if any(value is not None for value in prompts.values()):
            return self._of_prompts(prompts)
        if self.share is None and self.tokens is None:
            fix = "give share or tokens, or requests, input_tokens and output_tokens"
            raise validation_error("the amount of evaluation is missing", fix)
        if self.share is not None and self.tokens is not None:
            raise validation_error("share and tokens contradict each other", "keep one", "tokens")
        return self

    def _of_prompts(self, prompts: dict[str, Any]) -> Self:
        """Return the stage of test prompts; raises where it is incomplete, or done where nothing generates."""
        missing = [name for name, value in prompts.items() if value is None]
        if missing:
            raise validation_error(f"{' and '.join(missing)} missing", "give all three of test prompts", missing[0])
        given = next((name for name in ("share", "tokens") if getattr(self, name) is not None), None)
        if given is not None:
            raise validation_error(f"{given} and requests contradict each other", "keep one", given)
        if self.on == ("cpu",):
            raise validation_error("prompts are answered on GPUs", "on: machine or one_gpu", "on")
        return self

    @property
    def answers_prompts(self) -> bool:
        """Whether test prompts are answered, all of them however early the run stops."""
        return self.requests is not None

    @property
    def all_tokens(self) -> int | None:
        """Tokens over the whole run, of prompts and answers where these are given; None where a share is."""
        if self.requests is None:
            return self.tokens
        return self.requests * ((self.input_tokens or 0) + (self.output_tokens or 0))


class Checkpoints(StrictModel):
    """Checkpoints that the user wants, whatever a spot market makes necessary besides."""

    count: PositiveInteger = Field(description="Checkpoints written over the run.")
    keep: PositiveInteger = Field(default=1, description="How many of them stay, the newest ones.")
    contents: CheckpointContents = Field(
        default="resume", description="`resume`: what training can go on from; `weights`: the trained weights alone."
    )
    asynchronous: bool = Field(
        default=True, description="Copied to host memory, then written behind the training; false: training waits."
    )

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if self.keep > self.count:
            what = f"keeps {self.keep} checkpoints, but only {self.count} are written"
            raise validation_error(what, f"keep is at most count, {self.count}", "keep")
        return self


USUAL_PLACES: dict[ExportFormat, tuple[ExportPlace, ...]] = {
    "adapters": ("machine",),
    "merged": ("machine", "cpu"),
    "gguf": ("machine", "cpu"),
    "gptq": ("machine", "one_gpu"),
    "awq": ("machine", "one_gpu"),
}
"""Where a result may be made if a job does not say; adapters are only sent."""


class Export(StrictModel):
    """The result leaves the machine: adapters of lora, all weights of full training, merged or quantised before."""

    merged: bool = Field(default=False, description="Short for format: merged.")
    format: ExportFormat | None = Field(
        default=None,
        description="`adapters`: what lora has trained; `merged`: all weights in 16 bit; `gguf`, `gptq`, `awq`: "
        "quantised weights, merged first; left out, adapters. Full training has all weights in any case.",
    )
    bits: Literal[4, 8] | None = Field(default=None, description="Of gguf, gptq or awq; left out, 4.")
    on: OneOrMany[ExportPlace] | None = Field(
        default=None,
        description="Where it may be merged or quantised: the training machine, a CPU offer, an offer of one GPU; "
        "left out, wherever the format can be made.",
    )
    gb_per_second: Positive | None = Field(
        default=None, description="How fast it leaves; left out, as fast as the machine pulls."
    )

    @property
    def form(self) -> ExportFormat:
        """What leaves."""
        return self.format or ("merged" if self.merged else "adapters")

    @property
    def quantised_bits(self) -> int | None:
        """Bits of a quantised result; None of adapters and 16-bit weights."""
        return None if self.form in ("adapters", "merged") else self.bits or 4

    @property
    def places(self) -> tuple[ExportPlace, ...]:
        """Where the result may be made."""
        return self.on or USUAL_PLACES[self.form]

    def needs_work(self, adapts: bool) -> bool:
        """Whether a run that trains adapters (or all weights) has more to do than to send its result."""
        return self.quantised_bits is not None or (self.form == "merged" and adapts)

    @model_validator(mode="after")
    def _is_agreed(self) -> Self:
        if self.format is not None and "merged" in self.model_fields_set:
            raise validation_error("merged and format both say what leaves", "keep format", "merged")
        if self.bits is not None and self.quantised_bits is None:
            raise validation_error(f"{self.form} has no bits to choose", "leave out bits, or give a format", "bits")
        if self.form == "awq" and self.bits == 8:
            raise validation_error("awq has 4 bits", "leave out bits, or write format: gptq", "bits")
        if self.on is None:
            return self
        if self.form == "adapters" and self.on != ("machine",):
            fix = "leave out on, or give a format such as merged"
            raise validation_error("adapters are only sent, by the machine that trained them", fix, "on")
        if self.form in ("gptq", "awq") and "cpu" in self.on:
            raise validation_error(f"{self.form} needs a GPU", "machine, one_gpu, or both", "on")
        return self


class Stages(StrictModel):
    """What happens before and after training; None does not happen."""

    ingest: Ingest | None = None
    """Raw data to tokens."""
    transfer: Transfer | None = None
    """Data to the region of the machines."""
    evaluation: Evaluation | None = None
    """Evaluation during or after the run."""
    checkpoints: Checkpoints | None = None
    """Checkpoints of the run."""
    export: Export | None = None
    """What is made of the result, and where it goes."""
    retention_hours: Hours | None = Field(
        default=None,
        alias="retention",
        description="How long the kept checkpoints and the result stay on network storage after the run.",
    )

    @property
    def answers_prompts(self) -> bool:
        """Whether the evaluation answers prompts."""
        return self.evaluation is not None and self.evaluation.answers_prompts

    def check_work(self, work: Work) -> None:
        """Raise a complaint where a stage does not go with the work of its job."""
        if work.images is None:
            return
        if self.ingest is not None and self.ingest.tokens is not None:
            raise validation_error("images have no tokens", "give raw_gb alone", "stages.ingest.tokens")
        if self.evaluation is not None and self.evaluation.all_tokens is not None:
            fix = "give share, images evaluated per image trained on"
            key = "tokens" if self.evaluation.tokens is not None else "requests"
            raise validation_error("images have no tokens", fix, f"stages.evaluation.{key}")
        if self.export is not None and self.export.quantised_bits is not None:
            fix = "adapters or merged: sizes and times of quantising are those of language models"
            raise validation_error(f"{self.export.form} of an image network", fix, "stages.export.format")
