"""When jobs may run: windows of machines, capacity blocks, precedence between jobs, budgets by period.

Moments are hours from the start of the plan (`now`), written as durations such as `0h`, `36h` or `2d`.
"""

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, PlainSerializer, model_validator

from planner.documents.quantities import Hours, Price, StrictModel, Text, format_hours, parse_hours, validation_error
from planner.units import DAY_HOURS, MONTH_HOURS

PERIOD_HOURS = {"day": DAY_HOURS, "week": 7 * DAY_HOURS, "month": MONTH_HOURS}
"""Hours of the periods of a budget, counted from the start of the plan; a month is a billing month."""


def _moment(value: Any) -> Any:
    """Return the hours of a duration that may be zero."""
    if isinstance(value, str) and value.strip() in ("0h", "0m", "0d", "0.0h"):
        return 0.0
    return parse_hours(value)


Moment = Annotated[
    float,
    BeforeValidator(_moment, json_schema_input_type=Annotated[str, Field(examples=["0h", "36h", "2d"])]),
    PlainSerializer(format_hours, return_type=str),
]
"""Hours from the start of the plan."""


class Window(StrictModel, defer_build=True):
    """A time in which a machine may be used; with `every` it returns again and again."""

    from_hours: Moment = Field(alias="from")
    to_hours: Moment = Field(alias="to")
    every_hours: Hours | None = Field(default=None, alias="every")

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        length = self.to_hours - self.from_hours
        if length <= 0:
            fix = "give a later end; a night is {from: 20h, to: 32h, every: 24h}"
            raise validation_error("the window ends before it begins", fix, "to")
        if self.every_hours is not None and length > self.every_hours:
            what = f"a window of {length:g} h cannot return every {self.every_hours:g} h"
            raise validation_error(what, "give a longer `every`, or leave it out", "every")
        return self


class Block(StrictModel, defer_build=True):
    """Capacity that is bought for a fixed time: machines from `start` to `end` for `usd` each."""

    start_hours: Moment = Field(alias="start")
    end_hours: Moment = Field(alias="end")
    usd: Price  # per instance, used or not

    @property
    def term_hours(self) -> float:
        """Hours of the block."""
        return self.end_hours - self.start_hours

    @property
    def words(self) -> str:
        """Such as `24 h block`."""
        return f"{self.term_hours:g} h block"

    @model_validator(mode="after")
    def _has_hours(self) -> Self:
        if self.end_hours <= self.start_hours:
            raise validation_error("a reservation of no hours", "end must be later than start", "end")
        return self


class After(StrictModel, defer_build=True):
    """A job that must have ended before this one starts, `lag` earlier at least."""

    job: Text
    lag_hours: Moment = Field(default=0.0, alias="lag")


def as_after(value: Any) -> Any:
    """Return `after: name`, `[name, ...]` or mappings with a lag as mappings."""
    items = value if isinstance(value, (list, tuple)) else [value]
    return tuple({"job": one} if isinstance(one, str) else one for one in items)


class PeriodBudget(StrictModel, defer_build=True):
    """A budget by period, or for one time; dollars are charged evenly as a job runs."""

    usd: Annotated[float, Field(gt=0, le=1e15)]
    per: Literal["day", "week", "month"] | None = None
    from_hours: Moment | None = Field(default=None, alias="from")
    to_hours: Moment | None = Field(default=None, alias="to")

    @property
    def length_hours(self) -> float:
        """Hours of a period that returns; 0 for one time."""
        return PERIOD_HOURS[self.per] if self.per else 0.0

    def periods(self, horizon_hours: float) -> list[tuple[float, float]]:
        """Return the periods in hours from the start of the plan up to a horizon."""
        if self.per is None:
            return [(self.from_hours or 0.0, min(horizon_hours, self.to_hours or horizon_hours))]
        length = PERIOD_HOURS[self.per]
        return [(k * length, (k + 1) * length) for k in range(int(-(-horizon_hours // length)))]

    @model_validator(mode="after")
    def _has_one_form(self) -> Self:
        bounds = (self.from_hours, self.to_hours)
        if (self.per is None) == (bounds == (None, None)):
            raise validation_error("a budget needs a period", "give per: day, week or month, or from and to", "per")
        if None not in bounds and (self.to_hours or 0.0) <= (self.from_hours or 0.0):
            raise validation_error("the period ends before it begins", "give a later `to`", "to")
        return self
