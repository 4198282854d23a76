"""Types of values that a user writes: durations, counts, points in time, prices, lists; how a schema describes them.

Validation is strict: a number in quotes is text, `true` is not a number, an unknown key is a fault.

Descriptions of fields in a schema are the docstrings below them, read from the source when one is asked for. pydantic
has a setting for it (`use_attribute_docstrings`), which reads the source of every class at each import.
"""

from __future__ import annotations

import ast
import datetime
import functools
import math
import os
import re
import sys
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeVar, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    PlainSerializer,
    ValidationError,
)
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError

from planner.documents.validation import faults_of_call
from planner.errors import InputError, KeyPath, format_value
from planner.units import HOUR

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pydantic_core.core_schema import ModelSchema


if TYPE_CHECKING:
    from pydantic._internal._model_construction import ModelMetaclass
else:
    ModelMetaclass = type(BaseModel)


class _MadeByHand(ModelMetaclass):
    """What makes an object of a class that is called in Python: a wrong value is an `InputError` with its place.

    Validation of a mapping, as files need it, does not come here: a validator that makes another object does it with
    `model_validate`, so that its fault keeps its place.
    """

    model_error: type[InputError]
    made_by_hand: Callable[[dict[str, Any]], Any]

    def __call__(cls, *args: Any, **keys: Any) -> Any:
        try:
            made = cls.made_by_hand(keys)
            return super().__call__(*args, **keys) if made is None else made
        except ValidationError as error:
            raise cls.model_error(faults_of_call(error, cls, keys)) from None


class StrictModel(BaseModel, metaclass=_MadeByHand):
    """A frozen model without coercion, unknown keys, nan and infinity."""

    model_error: ClassVar[type[InputError]] = InputError

    @classmethod
    def made_by_hand(cls, keys: dict[str, Any]) -> Any:
        """Return what the class makes of its arguments by a way of its own; None where it has none."""
        del keys

    # Built when the first value is read: many files lack most parts.
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False, defer_build=True)

    @classmethod
    def model_json_schema(cls, *args: Any, **keys: Any) -> dict[str, Any]:
        """Return the JSON Schema, with a description of each field unless another generator is asked for."""
        if "schema_generator" not in keys:
            keys["schema_generator"] = DescribedSchema
        return super().model_json_schema(*args, **keys)


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
_DATE_FIX = f"{_DURATION_FIX}; a deadline also as a day and time: 2026-12-01 09:00"
_LOOKS_LIKE_DATE = re.compile(
    r"\b(?:19|20)\d\d\b|\b\d{1,2}[./-]\d{1,2}\b|\b\d{1,2}:\d\d\b|\btoday\b|\btomorrow\b|day\b"
    r"|\b(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\b",
    re.IGNORECASE,
)
_COUNT_FIX = "write 50000, 50,000, 16k, 90e6, 500M or 1.2B"
_MOST = 10**15
MIN_NUMBER = 1e-12
"""Smallest figure by which something is divided."""
MAX_HOURS = 1e6
"""Longest time: more than a century."""


def parse_hours(value: Any) -> float:
    """Return the hours of `90m`, `36h`, `2d` or `1d12h` (w, d, h, m, s); a number without a unit is an error.

    A program may give a `timedelta`.
    """
    if isinstance(value, datetime.timedelta):
        value = f"{value.total_seconds():.15g}s"
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
        fix = _DATE_FIX if _LOOKS_LIKE_DATE.search(value) else _DURATION_FIX
        raise validation_error(f"{format_value(value)} is not a duration", fix)
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
    """Return the date of `2024-05-31`, or of a moment."""
    if isinstance(value, datetime.datetime):
        return value.date()
    if isinstance(value, datetime.date):
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


# Points in time as a user writes them: a day and an hour with a zone, such as `2026-11-25 09:00 Europe/Berlin`.


CLOCK_CHANGES_DAYS = 400
"""How far ahead changes of the clock are looked for: a machine by night is looked at for half a year."""
_INSTANT = re.compile(
    r"\s*(\d{4}-\d\d-\d\d)(?:[T ]+(\d\d?:\d\d(?::\d\d)?))?"
    r"\s*(Z|UTC|[+-]\d\d:?\d\d)?\s*([A-Za-z_]+(?:/[\w+-]+)+)?\s*\Z"
)
INSTANT_FIX = (
    "write 2026-12-01 09:00, with a zone behind it (UTC, +01:00 or Europe/Berlin) where it is not the local one"
)


def is_instant(value: object) -> bool:
    """Whether a value begins with a date."""
    return isinstance(value, str) and re.match(r"\s*\d{4}-\d\d?-\d\d?(?!\d)", value) is not None


def parse_instant(value: object) -> datetime.datetime:
    """Return a point in time with its zone; without a zone it is the local time of this machine.

    An offset before the name of a zone says which of two is meant where the clock shows an hour twice:
    `2026-10-25 02:30 +01:00 Europe/Berlin`.
    """
    found = _INSTANT.match(value) if isinstance(value, str) else None
    if found is None:
        raise validation_error(f"{format_value(value)} is not a day and time", INSTANT_FIX)
    day, time, offset, name = found.groups()
    zone = offset or name
    try:
        hour, *rest = (time or "00:00").split(":")
        moment = datetime.datetime.fromisoformat(f"{day}T{int(hour):02d}:{':'.join(rest)}")
        known = moment.astimezone() if zone is None else moment.replace(tzinfo=_zone(zone))
        known = known.astimezone(_zone(name)) if offset and name else known
    except (ValueError, OverflowError, OSError, LookupError):
        raise validation_error(f"{format_value(value)} is not a day and time", INSTANT_FIX) from None
    shown = known.astimezone(datetime.UTC).astimezone(known.tzinfo).replace(tzinfo=None)
    if offset and name and shown != moment:
        raise validation_error(f"{format_value(value)} is not the time there", f"leave {offset} out")
    if zone is not None and shown != moment:
        fix = f"the clock goes forward there; {shown:%H:%M} is the same instant"
        raise validation_error(f"{format_value(value)} does not exist", fix)
    return known


def hours_between(start: datetime.datetime, end: datetime.datetime) -> float:
    """Return the hours that pass from one instant to another, whatever their clocks show.

    Python subtracts two times of one zone by the clock: across a change of the clock that is an hour off.
    """
    return (end.astimezone(datetime.UTC) - start.astimezone(datetime.UTC)).total_seconds() / HOUR


def moment_after(start: str, hours: float, zone: str = "") -> datetime.datetime:
    """Return the instant so many hours after another, as the clock of a zone shows it.

    `start` is an ISO text with an offset; `zone` is a name such as `Europe/Berlin`, empty for the offset of `start`.
    """
    begin = datetime.datetime.fromisoformat(start)
    moment = begin.astimezone(datetime.UTC) + datetime.timedelta(hours=hours)
    return moment.astimezone(_zone(zone) if zone else begin.tzinfo)


def zone_of(value: object) -> str:
    """Return the name of the zone that an instant is written in, such as `Europe/Berlin`; empty for any other."""
    found = _INSTANT.match(value) if isinstance(value, str) else None
    return (found[4] or "") if found else ""


def written_zone(value: object) -> str:
    """Return the name of the zone in which an instant is meant: as written, or that of this machine; else empty."""
    zone = _zone_as_written(value)
    return zone if "/" in zone and _is_known(zone) else "" if zone else _local_zone()


def users_zone(now: object, dates: Iterable[object]) -> str:
    """Return the name of the zone in which moments are shown; empty where no name is known, or UTC was meant.

    It is the zone of `now`. Where `now` is missing or has no name, it is the first that a date names, and else the zone
    of this machine if something is written without any zone.
    """
    zones = [_zone_as_written(value) for value in (now, *dates) if is_instant(value)]
    if now is not None and zones and zones[0] in ("Z", "UTC"):
        return ""
    named = next((zone for zone in zones if "/" in zone and _is_known(zone)), "")
    return named or (_local_zone() if "" in zones else "")


def written_in(moment: datetime.datetime, zone: str) -> str:
    """Return an instant as text in a named zone, to the second; with its offset where the clock shows it twice."""
    shown = moment.astimezone(_zone(zone))
    text = f"{shown:%Y-%m-%d %H:%M:%S}" if shown.second else f"{shown:%Y-%m-%d %H:%M}"
    twice = shown.replace(fold=0).utcoffset() != shown.replace(fold=1).utcoffset()
    offset = f" {shown.isoformat(timespec='minutes')[-6:]}" if twice else ""
    return f"{text}{offset} {zone}"


def clock_changes(
    start: datetime.datetime, zone: str, days: int = CLOCK_CHANGES_DAYS
) -> list[tuple[datetime.datetime, float]]:
    """Return when the clock of a zone changes within some days of an instant, and by how many hours it goes forward."""
    clock, day, changes = _zone(zone), datetime.timedelta(days=1), []
    before = start.astimezone(datetime.UTC).replace(second=0, microsecond=0)
    for _ in range(days):
        after = before + day
        change = _offset_hours(after, clock) - _offset_hours(before, clock)
        if change:
            first, last = before, after  # the change lies between them: halve the minutes
            while (minutes := int((last - first).total_seconds()) // 60) > 1:
                middle = first + datetime.timedelta(minutes=minutes // 2)
                same = _offset_hours(middle, clock) == _offset_hours(before, clock)
                first, last = (middle, last) if same else (first, middle)
            changes.append((last, change))
        before = after
    return changes


def at_clock(day: datetime.datetime, days: float, zone: str) -> datetime.datetime:
    """Return the instant at which the clock of a zone shows the time of another instant, some days later.

    A time that the clock skips is read as if the clock had not gone forward; of one shown twice the first is meant.
    """
    shown = day.astimezone(_zone(zone)).replace(tzinfo=None) + datetime.timedelta(days=days)
    return shown.replace(tzinfo=_zone(zone)).astimezone(datetime.UTC)


def _offset_hours(moment: datetime.datetime, zone: datetime.tzinfo) -> float:
    offset = moment.astimezone(zone).utcoffset()
    return offset.total_seconds() / HOUR if offset is not None else 0.0


def _zone_as_written(value: object) -> str:
    """Return the zone of an instant: its name, its offset, or nothing."""
    found = _INSTANT.match(value) if isinstance(value, str) else None
    return (found[4] or found[3] or "") if found else "UTC"


def _local_zone() -> str:
    """Return the name of the zone of this machine where the system tells it; empty for UTC and for none."""
    link = os.environ.get("TZ") or (os.path.realpath("/etc/localtime") if os.name == "posix" else "")
    name = link.removeprefix(":").rpartition("zoneinfo/")[2]
    if "/" not in name or name.startswith(("Etc/", "/")) or not _is_known(name):
        return ""
    here = datetime.datetime.now().astimezone()
    return name if here.astimezone(_zone(name)).utcoffset() == here.utcoffset() else ""


def _is_known(zone: str) -> bool:
    """Return whether the system has a zone of that name."""
    try:
        _zone(zone)
    except (LookupError, ValueError, OSError):
        return False
    return True


def _zone(name: str) -> datetime.tzinfo:
    if name in ("Z", "UTC"):
        return datetime.UTC
    if name[0] in "+-":
        digits = name[1:].replace(":", "")
        offset = datetime.timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
        return datetime.timezone(-offset if name[0] == "-" else offset)
    from zoneinfo import ZoneInfo  # its files are read for few scenarios

    return ZoneInfo(name)


# Short forms of a scenario: a plain value that abbreviates a mapping, such as `confidence: 0.8`.


NAMES = ("providers", "gpus", "regions", "tiers")
"""Limits whose names alone are what is allowed."""

SHORT_FORMS: tuple[tuple[KeyPath, tuple[type, ...], str], ...] = (
    # place ("*": every item), types of the short form, and the key of the mapping that it abbreviates
    (("jobs", "*", "confidence"), (int, float), "deadline"),
    (("jobs", "*", "trials"), (int,), "count"),
    (("jobs", "*", "after", "*"), (str,), "job"),
    *((("limits", name), (str, list), "allow") for name in NAMES),
)

REPLACED: tuple[KeyPath, ...] = (
    ("objective",),
    *(("jobs", "*", key) for key in ("architecture", "global_batch", "loss_law", "reward")),
)
"""Places where a mapping says something else than a word or number: nothing of these is left to keep."""


def expand_short_form(value: Any, path: KeyPath, part: str) -> dict[str, Any] | list[Any] | None:
    """Return the mapping or list that a plain value abbreviates, where a setting names a part of it.

    None where it has no parts. One value abbreviates a list of one; whether a list may be there is left to validation.
    """
    if part.isdecimal():
        return value if isinstance(value, list) else [value]
    if any(_is_at(path, place) for place in REPLACED) and not isinstance(value, list):
        return {}
    for place, types, key in SHORT_FORMS:
        if _is_at(path, place) and isinstance(value, types) and not isinstance(value, bool):
            return {key: value}
    return None


def _is_at(path: KeyPath, place: KeyPath) -> bool:
    return len(path) == len(place) and all(
        want in ("*", part) and isinstance(part, int) == (want == "*") for part, want in zip(path, place, strict=True)
    )


class DescribedSchema(GenerateJsonSchema):
    """The JSON Schema of pydantic with a description of each field that has none of its own there."""

    def model_schema(self, schema: ModelSchema) -> JsonSchemaValue:
        """Return the schema of a model with its fields described."""
        described = super().model_schema(schema)
        kind: type[BaseModel] = schema["cls"]
        said = self.descriptions(kind)
        for name, field in kind.model_fields.items():
            keys = (name, field.alias, field.validation_alias, field.serialization_alias)
            key = next((key for key in keys if isinstance(key, str) and key in described.get("properties", {})), None)
            if key is not None and name in said:
                described["properties"][key].setdefault("description", said[name])
        return described

    def descriptions(self, kind: type[BaseModel]) -> dict[str, str]:
        """Return the description of each field of a model that has one."""
        return described(kind)


def described(kind: type[BaseModel]) -> dict[str, str]:
    """Return the docstring of each field of a model; of one that is written anew in a subclass without one, the former.

    Empty where there is no source to read.
    """
    said: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if issubclass(base, BaseModel) and base is not BaseModel:
            said |= _of_module(base.__module__).get(base.__qualname__, {})
    return said


@functools.cache
def _of_module(name: str) -> dict[str, dict[str, str]]:
    """Return the docstrings of fields by class of a module."""
    file = getattr(sys.modules.get(name), "__file__", None)
    try:
        tree = ast.parse(Path(file or "").read_text(encoding="utf-8"))
    except (OSError, SyntaxError):  # only compiled files are there
        return {}
    return {node.name: _of_class(node) for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}


def _of_class(node: ast.ClassDef) -> dict[str, str]:
    said = {}
    for field, below in zip(node.body, node.body[1:], strict=False):
        if not (isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)):
            continue
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant) and isinstance(below.value.value, str):
            said[field.target.id] = " ".join(below.value.value.split())
    return said


# Sizes of images.


MIN_RESOLUTION = 64
"""Pixels per side of an image: an autoencoder divides them by 8 and the U-Net halves the rest three times (Rombach et
al. 2022, latent diffusion), so that less leaves no pixel at its deepest level."""


Resolution = Annotated[PositiveInteger, Field(ge=MIN_RESOLUTION)]
"""Pixels per side of an image."""


_SIZE = re.compile(r"([1-9]\d{0,4})x([1-9]\d{0,4})")


def _image_size(value: Any) -> Any:
    """Return width and height as `1280x720`; a number is the edge of a square."""
    text = f"{value}x{value}" if isinstance(value, int) and not isinstance(value, bool) else value
    if not isinstance(text, str) or not (found := _SIZE.fullmatch(text)):
        what = f"{format_value(value)} is no size of an image"
        raise validation_error(what, "write width x height, such as 1280x720")
    if max(edges := [int(edge) for edge in found.groups()]) > MAX_ASPECT * min(edges):
        raise validation_error(f"{text} is too narrow for image processors", f"a ratio of {MAX_ASPECT} at most")
    return text


MAX_ASPECT = 200
"""Ratio of the edges of an image that `smart_resize` of Qwen takes."""


ImageEdges = Annotated[str, BeforeValidator(_image_size, json_schema_input_type=int | str)]
"""Width and height in pixels, such as `1280x720`; a number is the edge of a square."""


TowerState = Literal["frozen", "lora", "trained"]
"""What happens to an image tower: nothing, adapters of its own, or all its weights are trained."""


TOWER_STATES: tuple[TowerState, ...] = get_args(TowerState)
