"""A service and its load: requests per second or in flight by the hour of a week, and their lengths."""

import re
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, PlainSerializer, PlainValidator, model_validator

from planner.documents.quantities import (
    MAX_NUMBER,
    Hours,
    NotNegative,
    Positive,
    Rows,
    SequenceLength,
    StrictModel,
    validation_error,
)
from planner.documents.validation import find_name, name_fix
from planner.errors import format_value
from planner.library.engines import read_load_profiles
from planner.scenario.inference_job import MAX_CLASSES, InferenceJob, InferenceWork, LengthClass, kind_of_job
from planner.scenario.job import Tokens
from planner.scenario.job_stages import PromptImages
from planner.units import DAY_HOURS, HOUR

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
    """Take the default out of the JSON Schema of a field, where it stands for what depends on other fields."""
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
        """The limits that nobody gave, by their keys."""
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
