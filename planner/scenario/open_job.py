"""A job that leaves something open: which model, how many tokens, or which batch."""

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, cast

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag, model_validator

from planner.documents.quantities import (
    Count,
    NotNegative,
    OneOrMany,
    Positive,
    SequenceCount,
    StrictModel,
    Text,
    validation_error,
)
from planner.documents.validation import find_name
from planner.errors import format_value
from planner.scenario.job import Job
from planner.scenario.job_stages import Work

OPEN_FORM = "of a choice"
"""Tag of the form of such a job."""
BEST_TOKENS = "best"
"""The tokens of a job that trains the best model for its budget."""
MOST_ALTERNATIVES = 200
"""Most models times batches that are compared."""


LEAST_UNIQUE_TOKENS = 10_000_000
"""A tenth of the smallest data set that the law of repeated data was fitted on (arXiv:2305.16264)."""


class ParameterRange(StrictModel):
    """Numbers of parameters."""

    least: Annotated[Count, Field(alias="from")]
    """Fewest parameters."""
    most: Annotated[Count, Field(alias="to")]
    """Most parameters."""

    @model_validator(mode="after")
    def _has_order(self) -> Self:
        if self.least > self.most:
            raise validation_error(f"from {self.least:,} to {self.most:,} is empty", "give the smaller number first")
        return self


def _family(word: str) -> str:
    """Return the family that a word is; an unknown one as it is, which `check_choices` refuses."""
    from planner.library.reading import families  # late: it reads every card

    return find_name(word, families()) or word


class Family(StrictModel):
    """The models of a family within a range of sizes; of llama also shapes made by its rules."""

    family: Annotated[Text, AfterValidator(_family)]
    """Name of the family, such as `llama`."""
    parameters: ParameterRange
    """Sizes that are tried."""


class BatchRange(StrictModel):
    """Sequences per optimizer step, doubled from the first to at most the last."""

    least: Annotated[SequenceCount, Field(alias="from")]
    """Smallest batch, in sequences."""
    most: Annotated[SequenceCount, Field(alias="to")]
    """Largest batch, in sequences."""

    @property
    def batches(self) -> tuple[int, ...]:
        """The batches that are compared."""
        batches = [self.least]
        while batches[-1] * 2 <= self.most:
            batches.append(batches[-1] * 2)
        return tuple(batches)

    @model_validator(mode="after")
    def _has_batches(self) -> Self:
        if self.most < self.least:
            raise validation_error(f"from {self.least:,} to {self.most:,} is empty", "give the smaller number first")
        if self.most < 2 * self.least:
            what = f"from {self.least:,} to {self.most:,} holds one batch: the next is {2 * self.least:,}"
            raise validation_error(what, f"give global_batch: {self.least}, or a range that doubles", "to")
        if self.batches[-1] != self.most:
            fix = f"end at {self.batches[-1]:,} or {2 * self.batches[-1]:,}"
            raise validation_error(f"{self.most:,} is not {self.least:,} doubled several times", fix, "to")
        return self


class OwnLaw(StrictModel):
    """Constants of L = e + a / N^alpha + b / D^beta."""

    e: Positive
    """Loss that no network undercuts."""
    a: Positive
    """Factor of the term of parameters."""
    b: Positive
    """Factor of the term of tokens."""
    alpha: Annotated[float, Field(gt=0, le=2)]
    """Exponent of the parameters."""
    beta: Annotated[float, Field(gt=0, le=2)]
    """Exponent of the tokens."""
    spread: NotNegative | None = None
    """Nats by which a loss on these data may be off either way; None: as far as that of a published law."""


def _tokens(value: Any) -> Any:
    """Return a count, or the word best."""
    if isinstance(value, str) and value != BEST_TOKENS and not value[:1].isdigit():
        raise validation_error(f"{format_value(value)} is not a count", "write 20B, or best")
    return value


class OpenWork(Work):
    """How much is to be computed, or what is to be reached: the least loss for the money, or a loss."""

    tokens: Annotated[Count | Literal["best"], BeforeValidator(_tokens)] | None = None  # type: ignore[assignment]
    """Tokens, or `best`: what the objective `loss` finds."""
    loss: Positive | None = Field(default=None, description="Loss in nats per token that the model has to reach.")

    @model_validator(mode="before")
    @classmethod
    def _loss_stands_alone(cls, data: Any) -> Any:
        if isinstance(data, dict) and data.get("loss") is not None:
            other = next((key for key in data if key != "loss" and data[key] is not None), None)
            if other is not None:
                fix = "give the loss alone: it decides the tokens"
                raise validation_error(f"loss and {other} contradict each other", fix, other)
        return data

    @model_validator(mode="after")
    def _has_one_amount(self) -> Self:
        return self if self.loss is not None else super()._has_one_amount()  # type: ignore[operator]


def _architectures(value: Any) -> str:
    return "of a family" if isinstance(value, (dict, Family)) else "of names"


def _batch_form(value: Any) -> str:
    return "a range" if isinstance(value, (dict, BatchRange)) else "a number"


def _law_form(value: Any) -> str:
    return "an own law" if isinstance(value, (dict, OwnLaw)) else "a named law"


class OpenJob(Job):
    """A job of which the best model, number of tokens or batch is to be found."""

    subject: ClassVar[str | None] = "open"

    if not TYPE_CHECKING:  # a definite job has one model and one batch
        architecture: Annotated[
            Annotated[OneOrMany[Text], Tag("of names")] | Annotated[Family, Tag("of a family")],
            Discriminator(_architectures),
        ]
        global_batch: Annotated[
            Annotated[SequenceCount, Tag("a number")] | Annotated[BatchRange, Tag("a range")],
            Discriminator(_batch_form),
        ] = 64
        teacher: ClassVar[None] = None
        tuning: ClassVar[str] = "sft"  # laws of loss are of language modelling

    work: OpenWork
    """Amount of training, or what decides it."""
    loss_law: Annotated[
        Annotated[Literal["besiroglu", "muennighoff"], Tag("a named law")] | Annotated[OwnLaw, Tag("an own law")],
        Discriminator(_law_form),
    ] = "besiroglu"
    """Law that says the loss of a size and an amount of tokens, or its constants."""
    unique_tokens: Count | None = Field(default=None, description="Tokens that exist; more are repetitions.")
    serve_tokens: Count | None = None
    """Tokens that the model reads and writes over its life; with `work: {loss: L}` their cost enters its size."""
    serve_usd_per_million_tokens: Positive | None = None
    """Dollars of a million of them for 1 billion parameters, others in proportion; None: as estimated."""

    @property
    def models(self) -> tuple[str, ...] | Family:
        """The models that may be trained, as they were asked for."""
        asked: Any = self.architecture
        return asked if isinstance(asked, Family) else tuple(asked)

    @property
    def opens_batch(self) -> bool:
        """Whether the batch is to be found."""
        return isinstance(cast("object", self.global_batch), BatchRange)

    @property
    def batches(self) -> tuple[int, ...]:
        """The batches that are compared, in sequences; the first is the one that tokens are counted at."""
        asked: Any = self.global_batch
        return asked.batches if isinstance(asked, BatchRange) else (asked,)

    @property
    def wants_least_loss(self) -> bool:
        """Whether money and time are given, and the loss is to be the least."""
        return self.work.tokens == BEST_TOKENS

    @property
    def uses_law(self) -> bool:
        """Whether the loss decides what is trained."""
        return self.wants_least_loss or self.work.loss is not None

    @model_validator(mode="after")
    def _leaves_a_choice(self) -> Self:
        given = self.model_fields_set
        if self.kind != "pretrain" and self.uses_law:
            fix = "add kind: pretrain; no law of fine-tuning is known"
            raise validation_error("the laws of loss hold for training from scratch", fix, "kind")
        if self.kind != "pretrain" and self.opens_batch:
            fix = "give one number: no law of the batch of fine-tuning is known"
            raise validation_error("a range of batches is for pretraining", fix, "global_batch")
        if self.opens_batch and not self.uses_law and self.work.tokens is None:
            fix = "give work: {tokens: N}, counted at the smallest batch"
            raise validation_error("a range of batches needs the work in tokens", fix, "work")
        if self.opens_batch and self.packing != "packed":
            raise validation_error("a range of batches needs packed sequences", "drop packing", "packing")
        unused = next((key for key in ("loss_law", "unique_tokens") if key in given and not self.uses_law), None)
        if unused is not None:
            fix = "use it with work: {tokens: best} or work: {loss: L}"
            raise validation_error("is of no use: the work is given", fix, unused)
        if self.serve_tokens is not None and self.work.loss is None:
            what = "what serving costs enters the choice of a size that reaches a loss"
            fix = "use it with work: {loss: L} and objective: cost; a budget pays for the training alone"
            raise validation_error(what, fix, "serve_tokens")
        if self.serve_usd_per_million_tokens is not None and self.serve_tokens is None:
            raise validation_error(
                "is of no use: no tokens are served", "add serve_tokens", "serve_usd_per_million_tokens"
            )
        if self.unique_tokens is not None and self.unique_tokens < LEAST_UNIQUE_TOKENS:
            what = f"{self.unique_tokens:,} tokens: no law of repeated data is known for so few"
            raise validation_error(what, f"give at least {LEAST_UNIQUE_TOKENS:,}", "unique_tokens")
        if self.uses_law and (self.trials.count > 1 or self.early_stopping != 1 or self.measured):
            what = "several trials, early stopping and observed runs hold for one model"
            raise validation_error(what, "leave them out where the model is to be found", "work")
        return self


def is_open(value: dict[str, Any]) -> bool:
    """Whether the data of a job leave a choice that the forms of definite jobs do not know."""
    work = value.get("work")
    law = isinstance(work, dict) and ("loss" in work or work.get("tokens") == BEST_TOKENS)
    models = value.get("architecture")
    several = isinstance(models, (list, tuple, Family)) or (isinstance(models, dict) and "family" in models)
    keys = bool({"loss_law", "unique_tokens", "serve_tokens", "serve_usd_per_million_tokens"} & value.keys())
    return law or several or isinstance(value.get("global_batch"), dict) or keys
