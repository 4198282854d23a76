"""Values of a sweep: `PATH=A:B:STEP` for numbers with a unit, `PATH=[a, b, c]` for any values."""

from __future__ import annotations

import json
import math
import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from planner.documents.overrides import Refused, Source
from planner.documents.strict_yaml import parse_value
from planner.errors import Fault, InputError, ScenarioError, collect_faults, raise_faults
from planner.records import record

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_RANGES = 2
MAX_CELLS = 2500
"""Most cells of a sweep: a picture of 50 by 50, solved in a minute or two."""

_TOO_MANY = "at most {:,}: use wider steps"

_NUMBER = re.compile(r"\s*([-+]?(?:\d[\d_]*(?:\.\d*)?|\.\d+)(?:e[-+]?\d{1,3})?)\s*([a-z]*)\s*\Z", re.IGNORECASE)
_EXAMPLE = "write it as jobs.NAME.deadline=6h:48h:6h, or limits.gpus.allow=[A100-80GB, H100-80GB]"


@record(frozen=True)
class SweepRange:
    """A path of the scenario and its values, each as typed after `--set PATH=`."""

    path: str
    values: tuple[str, ...]
    numbers: tuple[float, ...] | None = None  # without the unit; None for a list of values
    unit: str = ""

    @property
    def settings(self) -> tuple[str, ...]:
        """Return the values as settings `PATH=VALUE`."""
        return tuple(f"{self.path}={value}" for value in self.values)


def parse_range(text: str, most: int = MAX_CELLS) -> SweepRange:
    """Return the range of a text, of at most so many values; the last is one if the step hits it.

    Raises ScenarioError.
    """
    path, equals, written = (part.strip() for part in text.partition("="))
    try:
        if not equals or not all(path.split(".")):
            raise Refused("is not PATH=A:B:STEP", _EXAMPLE)
        return _parse_list(path, written) if written.startswith("[") else _parse_steps(path, written, most)
    except Refused as error:
        raise ScenarioError([Fault(range_name(text), 0, path if equals else "", *error.args)]) from None


def parse_ranges(
    texts: tuple[str, ...], most_ranges: int = MAX_RANGES, most_cells: int = MAX_CELLS
) -> tuple[SweepRange, ...]:
    """Return the ranges, with at most so many cells in all. Raises ScenarioError with every fault."""
    faults: list[Fault] = []
    found: list[SweepRange] = []
    for text in texts:
        with collect_faults(faults):
            found.append(parse_range(text, most_cells))
    if not faults:
        faults = _check_combination(texts, found, most_ranges, most_cells)
    raise_faults(faults, ScenarioError)
    return tuple(found)


def well_formed_ranges(texts: Iterable[str]) -> list[SweepRange]:
    """Return the ranges of the texts that are one."""
    found = []
    for text in texts:
        with collect_faults([]):
            found.append(parse_range(text))
    return found


def check_ranges(written: Any, source: Source, faults: list[Fault]) -> None:
    """Add the faults of a scenario's `vary`; validation reports what is not text."""
    texts = [written] if isinstance(written, str) else written
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        return
    try:
        parse_ranges(tuple(texts))
    except ScenarioError as error:
        for fault in error.faults:
            place = next((i for i, text in enumerate(texts) if range_name(text) == fault.file), None)
            where = ("vary",) if place is None else ("vary", place)
            faults.append(source.fault(where, fault.what, fault.fix))


def range_name(text: str) -> str:
    """Return the name of a range in a fault, in place of a file."""
    return f"--vary {text if len(text) <= 80 else text[:77] + '...'}"


def _check_combination(
    texts: tuple[str, ...], found: list[SweepRange], most_ranges: int, most_cells: int
) -> list[Fault]:
    if len(found) > most_ranges:
        fix = "give one (a curve) or two (a heat map)" if most_ranges == MAX_RANGES else f"give at most {most_ranges}"
        return [Fault(range_name(texts[most_ranges]), 0, "", f"{len(found)} ranges are too many", fix)]
    for place, sweep_range in enumerate(found):
        if sweep_range.path in [other.path for other in found[:place]]:
            return [Fault(range_name(texts[place]), 0, sweep_range.path, "is varied twice", "give two different paths")]
    cells = math.prod(len(varied.values) for varied in found)
    if cells > most_cells:
        return [Fault(range_name(texts[-1]), 0, "", f"{cells:,} plans to solve", _TOO_MANY.format(most_cells))]
    return []


def _number(part: str) -> tuple[Decimal, str]:
    match = _NUMBER.match(part)
    if not match:
        raise Refused(f"{part.strip() or 'nothing'} is not a number with a unit", _EXAMPLE)
    return Decimal(match[1].replace("_", "")), match[2]


def _parse_steps(path: str, written: str, most: int) -> SweepRange:
    parts = written.split(":")
    if len(parts) != 3:
        raise Refused(f"{written or 'nothing'} is not A:B:STEP", _EXAMPLE)
    (start, unit), (end, unit_end), (width, unit_step) = map(_number, parts)
    units = (unit, unit_end, unit_step)
    if len(set(units)) > 1:
        fix = "use one unit, such as 6h:48h:6h"
        if len({*units} - {""}) == 1:
            fix = f"write {':'.join(_format_number(number, max(units)) for number in (start, end, width))}"
        raise Refused(f"the three units differ ({', '.join(name or 'none' for name in units)})", fix)
    if width == 0:
        raise Refused("the step is 0", "give a step from A towards B")
    if start != end and (width > 0) != (end > start):
        fix = f"write {':'.join(_format_number(number, unit) for number in (start, end, -width))}"
        what = f"a step of {_format_number(width, unit)} leads away from {_format_number(end, unit)}"
        raise Refused(what, fix)
    steps = (end - start) / width
    if steps >= most:
        count = f"{int(steps) + 1:,}" if steps < 10**12 else "far too many"
        raise Refused(f"{count} plans to solve", _TOO_MANY.format(most))
    numbers = [start + width * index for index in range(int(steps) + 1)]
    values = tuple(_format_number(number, unit) for number in numbers)
    return SweepRange(path, values, tuple(map(float, numbers)), unit)


def _format_number(number: Decimal, unit: str) -> str:
    """Return the number without an exponent and without trailing zeros, and its unit."""
    text = f"{number:f}"
    return f"{(text.rstrip('0').rstrip('.') if '.' in text else text) or '0'}{unit}"


def _parse_list(path: str, written: str) -> SweepRange:
    try:
        values = parse_value(written, "")
    except InputError as error:
        raise Refused(error.faults[0].what, _EXAMPLE) from None
    if not isinstance(values, list) or not values:
        raise Refused("the list is empty", _EXAMPLE)
    written_out = tuple(_format_value(value) for value in values)
    twice = [value for value in dict.fromkeys(written_out) if written_out.count(value) > 1]
    if twice:
        raise Refused(f"{', '.join(twice)} more than once", "give each value once")
    numeric = all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values)
    return SweepRange(path, written_out, tuple(float(value) for value in values) if numeric else None)


def _format_value(value: Any) -> str:
    """Return a value as typed: JSON, which is also YAML, without quotes that are not needed."""
    text = json.dumps(value, ensure_ascii=False)
    if isinstance(value, str) and re.fullmatch(r"\w[\w. /-]*", value) and parse_value(value, "") == value:
        return value
    return text
