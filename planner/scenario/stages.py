"""What a job does besides training: trials, and the stages from data on a disk somewhere to an exported network.

A stage that is not given does not happen: its time and its money are left out.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from planner.documents.quantities import (
    MAX_GB,
    Count,
    Hours,
    OneOrMany,
    Positive,
    PositiveInteger,
    Price,
    StrictModel,
    Text,
    format_value,
    validation_error,
)
from planner.scenario.work import Work

IngestPlace = Literal["machine", "cpu"]
EvaluationPlace = Literal["machine", "one_gpu", "cpu"]
CheckpointContents = Literal["resume", "weights"]


class Trials(StrictModel):
    """How often the run is done, as in a search for good settings; `trials: 8` is short for `{count: 8}`."""

    count: PositiveInteger = Field(default=1, description="Runs that are started.")
    at_once: PositiveInteger = Field(default=1, description="Concurrent runs, each on its own machines.")
    halving: Annotated[float, Field(gt=1)] | None = Field(
        default=None,
        description="Successive halving: after each rung the best 1/halving of the trials go on, until each has done "
        "halving times as much; left out, every trial runs in full.",
    )

    @model_validator(mode="after")
    def _agree(self) -> Self:
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
    """Forward passes over held-out text, amount said in one of two ways."""

    share: Positive | None = Field(default=None, description="Tokens evaluated per token trained on, in all.")
    tokens: Count | None = Field(default=None, description="Tokens evaluated over the whole run.")
    on: OneOrMany[EvaluationPlace] = Field(
        default=("machine", "one_gpu"),
        description="Where it may be done: the training machine, an offer of one GPU, or a CPU offer.",
    )

    @model_validator(mode="after")
    def _is_said_once(self) -> Self:
        if self.share is None and self.tokens is None:
            raise validation_error("the amount of evaluation is missing", "give share or tokens")
        if self.share is not None and self.tokens is not None:
            raise validation_error("share and tokens contradict each other", "keep one", "tokens")
        return self


class Checkpoints(StrictModel):
    """Checkpoints that the user wants, whatever a spot market makes necessary besides."""

    count: PositiveInteger = Field(description="Checkpoints written over the run.")
    keep: PositiveInteger = Field(default=1, description="How many of them stay, the newest ones.")
    contents: CheckpointContents = Field(
        default="resume", description="resume: what training can go on from; weights: the trained weights alone."
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


class Export(StrictModel):
    """The result leaves the machine: adapters of lora, all weights of full training."""

    merged: bool = Field(
        default=False, description="Merge adapters into 16-bit weights first and export the whole model."
    )
    gb_per_second: Positive | None = Field(
        default=None, description="How fast it leaves; left out, as fast as the machine pulls."
    )


class Stages(StrictModel):
    """What happens before and after training; None does not happen."""

    ingest: Ingest | None = None
    transfer: Transfer | None = None
    evaluation: Evaluation | None = None
    checkpoints: Checkpoints | None = None
    export: Export | None = None
    retention_hours: Hours | None = Field(
        default=None,
        alias="retention",
        description="How long the kept checkpoints and the result stay on network storage after the run.",
    )

    def check_work(self, work: Work) -> None:
        """Raise a complaint where a stage does not go with the work of its job."""
        if work.images is None:
            return
        if self.ingest is not None and self.ingest.tokens is not None:
            raise validation_error("images have no tokens", "give raw_gb alone", "stages.ingest.tokens")
        if self.evaluation is not None and self.evaluation.tokens is not None:
            fix = "give share, images evaluated per image trained on"
            raise validation_error("images have no tokens", fix, "stages.evaluation.tokens")
