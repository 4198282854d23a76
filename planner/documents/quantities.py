"""Types of values that a user writes: durations and counts with units, lists, prices.

Validation is strict: a number in quotes is text, `true` is not a number, an unknown key is a fault.
"""

from __future__ import annotations

import datetime
import math
import re
from decimal import Decimal
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    PlainSerializer,
)
from pydantic_core import CoreSchema, PydanticCustomError


class StrictModel(BaseModel):
    """A frozen model without coercion, unknown keys, nan and infinity."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


def validation_error(what: str, fix: str, where: str = "") -> PydanticCustomError:
    """Return the error of a validator: what is wrong, how to fix it, and the key."""
    context = {"what": what, "fix": fix, "where": where}
    return PydanticCustomError("planner", "{what}; {fix}", context)


_NUMBER = r"(\d+(?:\.\d*)?(?:e[-+]?\d+)?|\.\d+(?:e[-+]?\d+)?)"
_HOURS_OF = {"w": 168.0, "d": 24.0, "h": 1.0, "m": 1 / 60, "s": 1 / 3600}
_UNIT = r"(weeks?|w|days?|d|hours?|hrs?|h|minutes?|mins?|m|seconds?|secs?|s)(?![a-z])"
# A unit may be followed directly by the next number ("1d12h"), so only letters may not follow it.
_DURATION_PART = re.compile(rf"\s*{_NUMBER}\s*{_UNIT}", re.IGNORECASE)
_COUNT = re.compile(
    r"\s*((?:\d{1,3}(?:,\d{3})+|\d[\d_]*)(?:\.\d*)?(?:e[-+]?\d{1,4})?)\s*"
    r"(k|thousand|m|million|b|g|billion|t|trillion)?\s*\Z",
    re.IGNORECASE,
)
_TIMES = {"k": 3, "thousand": 3, "m": 6, "million": 6, "b": 9, "g": 9, "billion": 9, "t": 12, "trillion": 12}
_DURATION_FIX = "write 90m, 36h, 2d or 1d12h"
_COUNT_FIX = "write 50000, 50,000, 16k, 90e6, 500M or 1.2B"
_MOST = 10**15
MIN_NUMBER = 1e-12
"""Smallest figure by which something is divided."""
MAX_HOURS = 1e6
"""Longest time: more than a century."""


def parse_hours(value: Any) -> float:
    """Return the hours of `90m`, `36h`, `2d` or `1d12h` (w, d, h, m, s); a number without a unit is an error."""
    if not isinstance(value, str):
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        raise validation_error(
            f"{format_value(value)} {'has no unit' if number else 'is not a duration'}", _DURATION_FIX
        )
    hours, position = 0.0, 0
    while part := _DURATION_PART.match(value, position):
        hours += float(part[1]) * _HOURS_OF[part[2][0].lower()]
        position = part.end()
    if position == 0 or value[position:].strip():
        raise validation_error(f"{format_value(value)} is not a duration", _DURATION_FIX)
    if hours < MIN_NUMBER:
        raise validation_error(f"{format_value(value)} is {'out of range' if hours else 'zero'}", _DURATION_FIX)
    if hours > MAX_HOURS:
        raise validation_error(f"{format_value(value)} is out of range", f"must be at most {MAX_HOURS:,.0f} hours")
    return hours


def format_hours(hours: float) -> str:
    """Return a duration that `parse_hours` reads as exactly the same hours."""
    return f"{hours!r}h"


def parse_count(value: Any) -> int:
    """Return the whole number (at least 1) of `50000`, `50,000`, `16k`, `90e6`, `500M` or `1.2B` (k, M, B, T)."""
    number = _counted(value)
    if number is None:
        raise validation_error(f"{format_value(value)} is not a count", _COUNT_FIX)
    if not 1 <= number <= _MOST:
        raise validation_error(f"{format_value(value)} is out of range", f"must be 1 to {_MOST:,}")
    if number != number.to_integral_value():
        raise validation_error(f"{format_value(value)} is not a whole number", _COUNT_FIX)
    return int(number)


def _counted(value: Any) -> Decimal | None:
    """Return the number that counts something, with the zeros of its suffix; None for what is no such number."""
    if isinstance(value, str) and (match := _COUNT.match(value)):
        return Decimal(re.sub("[_,]", "", match[1])).scaleb(_TIMES.get((match[2] or "").lower(), 0))
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    return Decimal(value) if is_number else None


def read_amount(value: Any) -> Any:
    """Return text such as `16k` or `50,000`, and any whole number, as an integer; other numbers as they are.

    For types with bounds of their own, which refuse what is no number at all.
    """
    number = _counted(value)
    if isinstance(value, int) or (number is None and not isinstance(value, str)):
        return value
    if number is None:
        raise validation_error(f"{format_value(value)} is not a number", _COUNT_FIX)
    if number > _MOST:
        raise validation_error(f"{format_value(value)} is out of range", f"must be at most {_MOST:,}")
    return int(number) if number == number.to_integral_value() else float(number)


def parse_date(value: Any) -> datetime.date:
    """Return the date of `2024-05-31`."""
    if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        return value
    try:
        return datetime.date.fromisoformat(value)
    except (TypeError, ValueError):
        raise validation_error(f"{format_value(value)} is not a date", "write it as 2024-05-31") from None


CURRENCY = "USD"


def _dollars(value: Any) -> Any:
    if value == CURRENCY:
        return value
    what = f"prices in {value}" if isinstance(value, str) and value else f"{format_value(value)} is not a currency"
    raise validation_error(what, f"convert the prices to {CURRENCY}")


def _as_tuple(value: Any) -> Any:
    """Return a list as a tuple, one value as a tuple of one."""
    if isinstance(value, list):
        return tuple(value)
    return (value,) if isinstance(value, (str, int, float)) else value


def format_value(value: Any) -> str:
    """Return a value as a user wrote it, cut if it is long."""
    if isinstance(value, (dict, list, tuple)):
        return "a list" if isinstance(value, (list, tuple)) else "a mapping"
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else text[:57] + "..."


class _OneOrMany:
    """Adds to the JSON Schema that a single value may stand for a list of one."""

    def __get_pydantic_json_schema__(self, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        array = handler(core_schema)
        return {"anyOf": [array["items"], array]}


_T = TypeVar("_T")

Hours = Annotated[
    float,
    BeforeValidator(parse_hours, json_schema_input_type=Annotated[str, Field(examples=["90m", "36h", "1d12h"])]),
    PlainSerializer(format_hours, return_type=str),
]
"""Hours as a float, written with a unit."""
Count = Annotated[int, BeforeValidator(parse_count, json_schema_input_type=int | float | str)]
"""A whole number of at least 1, written plainly or as 500M, 1.2B."""
Date = Annotated[datetime.date, BeforeValidator(parse_date, json_schema_input_type=datetime.date)]
Currency = Annotated[Literal["USD"], BeforeValidator(_dollars)]
"""The currency of prices; any other is an error."""
OneOrMany = Annotated[tuple[_T, ...], Field(min_length=1), BeforeValidator(_as_tuple), _OneOrMany()]
"""One value or a list of them; always a tuple afterwards."""
ZeroOrMany = Annotated[tuple[_T, ...], BeforeValidator(_as_tuple), _OneOrMany()]
"""Like `OneOrMany`, and may be empty."""
Rows = Annotated[tuple[_T, ...], Field(strict=False)]
"""A list, a tuple afterwards."""

Text = Annotated[str, Field(min_length=1)]
MAX_NUMBER = 1e15
"""Largest figure that has no tighter bound: far above anything real, and sums and products of it stay finite."""


def _large_enough(value: float) -> float:
    if value < MIN_NUMBER:
        raise validation_error(f"{value:g} is out of range", f"must be at least {MIN_NUMBER:g}")
    return value


Positive = Annotated[float, Field(gt=0, le=MAX_NUMBER), AfterValidator(_large_enough)]
NotNegative = Annotated[float, Field(ge=0, le=MAX_NUMBER)]
MAX_USD = 1e9
"""Largest price: more is a typing error, and too large for the arithmetic of a solver."""
Price = Annotated[float, Field(ge=0, le=MAX_USD)]
"""Dollars per hour, GB, token or machine."""
MAX_GB = 1e12
"""A zettabyte: more than any training set."""
Gigabytes = Annotated[float, Field(ge=0, le=MAX_GB)]
Share = Annotated[float, Field(ge=0, le=1)]
MAX_INTEGER = 10**6
"""Largest whole number of machines, GPUs, runs or sequences: work and memory grow with some of them."""
PositiveInteger = Annotated[int, Field(ge=1, le=MAX_INTEGER)]
WholeNumber = Annotated[int, Field(ge=0, le=MAX_INTEGER)]
MAX_TOKENS = 10**8
"""Most tokens of one sequence, sample, prompt or answer."""
_Length = Annotated[int, Field(ge=1, le=MAX_TOKENS)]
SequenceLength = Annotated[_Length, BeforeValidator(read_amount, json_schema_input_type=_Length | str)]
"""Tokens of one sequence, prompt or answer, written plainly or as 16k, 50,000."""
_Sequences = PositiveInteger
SequenceCount = Annotated[_Sequences, BeforeValidator(read_amount, json_schema_input_type=_Sequences | str)]
"""Sequences, or images, of one optimizer step, written in the same ways."""
TokenMean = Annotated[Positive, BeforeValidator(read_amount, json_schema_input_type=Positive | str)]
"""Mean tokens of a sample, not always whole, written in the same ways."""
