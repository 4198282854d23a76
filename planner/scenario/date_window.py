"""The days in which a price can have been collected, where its own day is not known."""

from typing import Self

from pydantic import Field, model_validator

from planner.documents.quantities import Date, StrictModel, validation_error


class DateWindow(StrictModel):
    """The first and the last day on which a price can have been collected."""

    from_: Date = Field(alias="from")
    to: Date

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.from_ > self.to:
            raise validation_error(f"{self.from_} is after {self.to}", "from is the first day, to the last", "from")
        return self
