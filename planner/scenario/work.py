"""How much is to be computed: samples, tokens, steps or images."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from planner.documents.quantities import (
    Count,
    Positive,
    PositiveInteger,
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


class Work(StrictModel):
    """How much is to be computed, said in one of four ways.

    `samples` (times `tokens_per_sample` times `epochs`), `tokens` in all, optimizer `steps`,
    or `images` (times `epochs`, squares of `resolution` pixels).
    """

    samples: Count | None = None
    tokens_per_sample: TokenMean | None = None  # mean
    epochs: Annotated[Positive, Field(le=MAX_EPOCHS)] = 1.0
    tokens: Count | None = None
    steps: Count | None = None
    steps_before: WholeNumber = 0  # of a run that goes on: those that it has done, besides `steps`
    images: Count | None = None
    resolution: Resolution | None = None

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
