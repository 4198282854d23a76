"""When jobs may run: windows of machines, capacity blocks, precedence between jobs, budgets by period.

Moments are hours from the start of the plan (`now`), written as durations such as `0h`, `36h` or `2d`.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, PlainSerializer, model_validator

from planner.documents.quantities import Hours, Price, StrictModel, Text, format_hours, parse_hours, validation_error
from planner.units import DAY_HOURS, MONTH_HOURS

PERIOD_HOURS = {"day": DAY_HOURS, "week": 7 * DAY_HOURS, "month": MONTH_HOURS}
"""Hours of the periods of a budget from the start of the plan, by the clock; a month is a billing month of 730 h."""


def parse_moment(value: Any) -> Any:
    """Return the hours of a duration that may be zero."""
    if isinstance(value, str) and value.strip() in ("0h", "0m", "0d", "0.0h"):
        return 0.0
    return parse_hours(value)


Moment = Annotated[
    float,
    BeforeValidator(parse_moment, json_schema_input_type=Annotated[str, Field(examples=["0h", "36h", "2d"])]),
    PlainSerializer(format_hours, return_type=str),
]
"""Hours from the start of the plan."""


class ClockChange(StrictModel):
    """A moment at which the clock of a zone goes forward by some hours, or back where they are negative."""

    at_hours: Moment = Field(alias="at")
    """When the clock changes."""
    forward_hours: Annotated[float, Field(ge=-24, le=24)]
    """By how much it is put forward; negative: back."""


def clock_after(changes: Sequence[ClockChange], hours: float) -> float:
    """Return what a clock shows after some hours that was set to 0 at the start of the plan."""
    return hours + math.fsum(change.forward_hours for change in changes if change.at_hours <= hours)


def elapsed_at(changes: Sequence[ClockChange], shown: float) -> float:
    """Return the hours after which the clock shows a time: of a skipped time as if it had not changed."""
    hours = shown
    for change in changes:
        if hours < change.at_hours or hours - change.forward_hours < change.at_hours:
            break
        hours -= change.forward_hours
    return hours


class Window(StrictModel):
    """A time in which a machine may be used; with `every` it returns again and again.

    A window that returns every day, or every few days, does so by the clock of its zone: `clock_changes` moves it.
    The reader of scenarios enters them where the zone is known.
    """

    from_hours: Moment = Field(alias="from")
    """Begin of the window."""
    to_hours: Moment = Field(alias="to")
    """End of the window."""
    every_hours: Hours | None = Field(default=None, alias="every")
    """After which it comes again; None: once."""
    clock_changes: Annotated[tuple[ClockChange, ...], Field(strict=False)] = ()
    """Changes of the clock from which periods count; found from the zone of `now`."""

    def turns(self, last_hours: float) -> Iterator[tuple[float, float]]:
        """Yield from when to when the window is open, up to a moment.

        The turn before the first one counts where the plan starts within it. A turn that a change of the clock swallows
        ends before it begins.
        """
        if self.every_hours is None:
            yield self.from_hours, self.to_hours
            return
        begin, end = (clock_after(self.clock_changes, hours) for hours in (self.from_hours, self.to_hours))
        turn, at = -1 if begin < self.every_hours else 0, -math.inf
        while at <= last_hours:
            at, until = (elapsed_at(self.clock_changes, hour + turn * self.every_hours) for hour in (begin, end))
            yield at, until
            turn += 1

    def returns_by_clock(self) -> bool:
        """Return whether the window returns after whole days, so that the clock of its zone decides when."""
        return self.every_hours is not None and self.every_hours % DAY_HOURS == 0

    def with_clock(self, changes: Sequence[ClockChange], has_dates: bool) -> Self:
        """Return the window with the changes of its clock.

        Where the first turn is two durations, it is so long by the clock: 22:00 to 06:00 has an hour less on the night
        on which the clock goes forward. Two dates are such times already.
        """
        found = self.model_copy(update={"clock_changes": tuple(changes)})
        end = elapsed_at(changes, clock_after(changes, self.from_hours) + self.to_hours - self.from_hours)
        return found if has_dates or end <= self.from_hours else found.model_copy(update={"to_hours": end})

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        begin, end = (clock_after(self.clock_changes, hours) for hours in (self.from_hours, self.to_hours))
        length = end - begin
        if self.to_hours <= self.from_hours:
            fix = "give a later end; a night is {from: 20h, to: 32h, every: 24h}"
            raise validation_error("the window ends before it begins", fix, "to")
        if self.every_hours is not None and length > self.every_hours:
            what = f"a window of {length:g} h cannot return every {self.every_hours:g} h"
            raise validation_error(what, "give a longer `every`, or leave it out", "every")
        return self


class Block(StrictModel):
    """Capacity that is bought for a fixed time: machines from `start` to `end` for `usd` each."""

    start_hours: Moment = Field(alias="start")
    """When the machines are there."""
    end_hours: Moment = Field(alias="end")
    """Until when."""
    usd: Price
    """Dollars per instance, used or not."""

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


class PeriodBudget(StrictModel):
    """A budget by period, or for one time; dollars are charged evenly as a job runs.

    A day and a week begin at the time of day at which the plan starts, by the clock of its zone: `clock_changes` makes
    a day of 23 or 25 hours. The reader of scenarios enters them where the zone is known.
    """

    usd: Annotated[float, Field(gt=0, le=1e15)]
    """Dollars of each period."""
    per: Literal["day", "week", "month"] | None = None
    """Length of a period: `day`, `week` or `month`; None: between `from` and `to`."""
    from_hours: Moment | None = Field(default=None, alias="from")
    """Begin of the period."""
    to_hours: Moment | None = Field(default=None, alias="to")
    """End of the period."""
    clock_changes: Annotated[tuple[ClockChange, ...], Field(strict=False)] = ()
    """Changes of the clock from which periods count; found from the zone of `now`."""

    @property
    def length_hours(self) -> float:
        """Hours that no period of one that returns exceeds; 0 for one time."""
        back = sum(max(0.0, -change.forward_hours) for change in self.clock_changes)
        return PERIOD_HOURS[self.per] + back if self.per else 0.0

    def periods(self, horizon_hours: float) -> list[tuple[float, float]]:
        """Return the periods in hours from the start of the plan up to a horizon."""
        if self.per is None:
            return [(self.from_hours or 0.0, min(horizon_hours, self.to_hours or horizon_hours))]
        length, ends = PERIOD_HOURS[self.per], [0.0]
        while ends[-1] < horizon_hours:
            ends.append(elapsed_at(self.clock_changes, len(ends) * length))
        return list(pairwise(ends))

    @model_validator(mode="after")
    def _has_one_form(self) -> Self:
        bounds = (self.from_hours, self.to_hours)
        if (self.per is None) == (bounds == (None, None)):
            raise validation_error("a budget needs a period", "give per: day, week or month, or from and to", "per")
        if None not in bounds and (self.to_hours or 0.0) <= (self.from_hours or 0.0):
            raise validation_error("the period ends before it begins", "give a later `to`", "to")
        return self
