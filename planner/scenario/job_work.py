"""How much is to be computed: samples, tokens, steps or images."""

import math
from typing import Annotated, Self

from pydantic import Field, model_validator

from planner.documents.quantities import (
    Count,
    Positive,
    PositiveInteger,
    Rows,
    StrictModel,
    TokenMean,
    WholeNumber,
    validation_error,
)

MAX_EPOCHS = 1e6
MIN_RESOLUTION = 64
"""Pixels per side of an image: an autoencoder divides them by 8 and the U-Net halves the rest three times (Rombach et
al. 2022, latent diffusion), so that less leaves no pixel at its deepest level."""

Resolution = Annotated[PositiveInteger, Field(ge=MIN_RESOLUTION)]
"""Pixels per side of an image."""


MAX_SAMPLE_CLASSES = 2000
"""Most rows of a table of lengths of training data; longer tables are gathered into so many by `gather_lengths`."""


class SampleClass(StrictModel, defer_build=True):
    """Samples of one length in tokens."""

    tokens: Annotated[TokenMean, Field(ge=1)]
    count: Count = 1


def gather_lengths(counts: dict[int, int], most: int = MAX_SAMPLE_CLASSES) -> list[tuple[float, int]]:
    """Return at most so many classes (tokens, count) of samples by length, with the same sum and the same longest.

    Neighbours become one class with their mean. The longest stays alone: it decides the length of a sequence.
    """
    *rest, longest = sorted(counts.items())
    size = max(1, -(-len(rest) // (most - 1)))
    groups = [rest[at : at + size] for at in range(0, len(rest), size)]
    means = [(sum(tokens * count for tokens, count in one), sum(count for _, count in one)) for one in groups]
    return [(tokens / count, count) for tokens, count in means] + [(float(longest[0]), longest[1])]


class Work(StrictModel):
    """How much is to be computed, said in one of four ways.

    `samples` (times `tokens_per_sample` times `epochs`), `tokens` in all, optimizer `steps`,
    or `images` (times `epochs`, squares of `resolution` pixels). A table of `lengths` (a CSV file where it is written)
    says the mean length of samples, and their number where no amount is given: it may be that of a part of the data.
    """

    lengths: Annotated[Rows[SampleClass], Field(max_length=MAX_SAMPLE_CLASSES)] = ()

    samples: Count | None = None
    tokens_per_sample: TokenMean | None = None  # mean
    epochs: Annotated[Positive, Field(le=MAX_EPOCHS)] = 1.0
    tokens: Count | None = None
    steps: Count | None = None
    steps_before: WholeNumber = 0  # of a run that goes on: those that it has done, besides `steps`
    images: Count | None = None
    resolution: Resolution | None = None

    @property
    def sample_lengths(self) -> tuple[tuple[float, int], ...]:
        """Tokens and number of the samples of each length; empty without a table."""
        return tuple((one.tokens, one.count) for one in self.lengths)

    @property
    def lengths_cv(self) -> float:
        """The spread of the lengths of the table: standard deviation over mean."""
        total, mean = sum(one.count for one in self.lengths), self.tokens_per_sample or 1.0
        variance = math.fsum((one.tokens / mean - 1.0) ** 2 * one.count for one in self.lengths) / max(1, total)
        return math.sqrt(variance)

    @model_validator(mode="after")
    def _fill_from_lengths(self) -> Self:
        if not self.lengths:
            return self
        total = sum(one.count for one in self.lengths)
        mean = math.fsum(one.tokens * one.count for one in self.lengths) / total
        if self.images is not None:
            raise validation_error("images have no lengths in tokens", "leave lengths out", "lengths")
        if self.tokens_per_sample is not None and abs(self.tokens_per_sample / mean - 1.0) > 1e-9:
            what = (
                f"{self.tokens_per_sample:g} tokens per sample contradict the table of lengths, whose mean is {mean:g}"
            )
            raise validation_error(what, "leave tokens_per_sample out", "tokens_per_sample")
        found = {"tokens_per_sample": mean}
        if self.tokens is None and self.steps is None and self.samples is None:
            found["samples"] = total
        for name, value in found.items():
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
        if self.tokens_per_sample is not None and way == "images":
            raise validation_error("images have no tokens_per_sample", "leave it out", "tokens_per_sample")
        if self.resolution is not None and way in ("samples", "tokens"):
            raise validation_error(
                f"resolution cannot be combined with {way}", "give it with images only", "resolution"
            )
        return self
