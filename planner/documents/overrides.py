"""Settings such as `jobs.support-bot.deadline=12h`: paths, values and their origin; the values of a sweep."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from planner.documents.files import MAX_DEPTH, parse_value
from planner.documents.quantities import expand_short_form
from planner.documents.validation import (
    UNKNOWN_KEY,
    Complaint,
    Source,
    forms_of,
    list_alternatives,
    setting_name,
    suggest_names,
)
from planner.errors import Fault, InputError, KeyPath, ScenarioError, collect_faults, format_value, raise_faults

if TYPE_CHECKING:
    from collections.abc import Iterator


# Settings such as `jobs.support-bot.deadline=12h`, applied to plain data before it is validated.


NAMING_KEYS = ("name", "instance")
"""Keys whose value names an item of a list."""

MAX_ITEM_NAMES = 3
"""Items that are listed if none is similar to the given name."""


class Refused(Exception):
    """A path or a value that cannot be used; its arguments are what and fix of the fault."""


Settings = str | Sequence[str] | Mapping[str, Any]
"""One `PATH=VALUE`, several, or a mapping from path to value."""


def as_settings(settings: Settings) -> tuple[str, ...]:
    """Return settings as `PATH=VALUE`: of one text, of several, or of a mapping from path to value.

    {"limits.budget_usd": 4, "limits.spot": False} are limits.budget_usd=4 and limits.spot=false. Raises InputError for
    what is none of these.
    """
    if isinstance(settings, str):
        return (settings,)
    if isinstance(settings, Mapping):
        return tuple(f"{path}={json.dumps(value, default=str)}" for path, value in settings.items())
    if not isinstance(settings, Iterable):
        fix = "give PATH=VALUE, several, or a mapping from path to value"
        raise InputError([Fault("settings", 0, "", f"are no settings: {type(settings).__name__}", fix)])
    texts = tuple(settings)
    if strange := [type(setting).__name__ for setting in texts if not isinstance(setting, str)]:
        raise InputError([Fault("settings", 0, "", f"are no texts: {strange[0]}", "give PATH=VALUE in each")])
    return texts


def override(data: dict[str, Any], settings: Sequence[str]) -> tuple[dict[str, Any], dict[KeyPath, str], list[Fault]]:
    """Apply `PATH=VALUE` settings in order to a copy of the data.

    Return the copy, the setting that wrote each place, and the faults of the settings that were not applied.
    A mapping is entered by key, a list by the name or index of an item; an index one past the end appends.
    Missing mappings and lists are created, and a short form becomes the mapping that it abbreviates, so that no
    value is lost; the validation that follows reports unknown keys.
    """
    origins: dict[KeyPath, str] = {}
    faults: list[Fault] = []
    for setting in settings:
        place, equals, text = _partition(setting, data)
        shown = setting_name(setting)
        parts = place.strip().split(".")
        if not equals or not all(parts):
            faults.append(Fault(shown, 0, "", "is not PATH=VALUE", "write it as limits.budget_usd=100"))
            continue
        if len(parts) > MAX_DEPTH:
            what = f"names a place deeper than {MAX_DEPTH} levels"
            faults.append(Fault(shown, 0, "", what, "write it as limits.budget_usd=100"))
            continue
        try:
            data, landed = _put(data, parts, parse_value(text, shown), ())
            origins[landed] = setting
        except Refused as error:
            faults.append(Fault(shown, 0, place, *error.args))
        except InputError as error:
            faults.extend(Fault(shown, 0, place, fault.what, fault.fix) for fault in error.faults)
    return data, origins, faults


def _partition(setting: str, data: Any) -> tuple[str, str, str]:
    """Return the path, the sign between, and the value of a setting; names that are known may hold that sign, too."""
    start, around = 0, data
    while known := _children(around):
        rest = setting[start:]
        name = max((name for name in known if rest.startswith((f"{name}.", f"{name}="))), key=len, default=None)
        if name is None or rest[len(name)] == "=":
            start += len(name or "")
            break
        start, around = start + len(name) + 1, known[name]
    place, equals, text = setting[start:].partition("=")
    return setting[:start] + place, equals, text


def _children(around: Any) -> dict[str, Any]:
    """Return what a path may enter by name: the values of a mapping, and the named items of a list."""
    if isinstance(around, list):
        named = ((item.get(key), item) for item in around if isinstance(item, dict) for key in NAMING_KEYS)
        return {name: item for name, item in named if isinstance(name, str) and name}
    return {key: value for key, value in around.items() if isinstance(key, str)} if isinstance(around, dict) else {}


def replace_value(data: Any, path: KeyPath, value: Any) -> Any:
    """Return a copy of the data with the value at an existing place replaced; the rest is shared."""
    if not path:
        return value
    copy: Any = dict(data) if isinstance(data, dict) else list(data)
    copy[path[0]] = replace_value(data[path[0]], path[1:], value)
    return copy


def _put(around: Any, parts: list[str], value: Any, path: KeyPath) -> tuple[Any, KeyPath]:
    """Return a copy with the value in it (aliased parts must not change together), and the full path."""
    if not parts:
        return value, path
    around = _entered(around, parts, path)
    if isinstance(around, dict):
        key, rest = _split_known_prefix(parts, around)
        inside, landed = _put(around.get(key), rest, value, (*path, key))
        return {**around, key: inside}, landed
    index, rest = _item(around, parts, path)
    inside, landed = _put(around[index] if index < len(around) else None, rest, value, (*path, index))
    return [*around[:index], inside, *around[index + 1 :]], landed


def _entered(around: Any, parts: list[str], path: KeyPath) -> Any:
    """Return the mapping or list of which a setting names a part: one that is there, is meant, or is new."""
    if around is None:
        return [] if parts[0].isdecimal() else {}
    if isinstance(around, dict):
        return around
    found = expand_short_form(around, path, parts[0])
    if found is None and not isinstance(around, list):
        here = ".".join(map(str, path))
        what = f"{here} is {format_value(around)}, which has no key {parts[0]}"
        raise Refused(what, f"set {here} as a whole, or clear it first with {here}=null")
    return around if found is None else found


def _split_known_prefix(parts: list[str], known: Any) -> tuple[str, list[str]]:
    """Return the longest known run of parts (names may contain dots), and the rest."""
    for length in range(len(parts), 1, -1):
        if ".".join(parts[:length]) in known:
            return ".".join(parts[:length]), parts[length:]
    return parts[0], parts[1:]


def _parts_after(parts: list[str], name: str) -> list[str]:
    """Return the parts after the name; a name with dots takes as many parts if it is similar to them."""
    length = name.count(".") + 1
    return parts[length:] if suggest_names(".".join(parts[:length]), [name]) else parts[1:]


def _item(items: list[Any], parts: list[str], path: KeyPath) -> tuple[int, list[str]]:
    names: dict[str, int] = {}
    for index, item in enumerate(items):
        for key in NAMING_KEYS if isinstance(item, dict) else ():
            if isinstance(item.get(key), str):
                names.setdefault(item[key], index)
    name, rest = _split_known_prefix(parts, names)
    if name in names:
        return names[name], rest
    here = ".".join(map(str, path))
    if not name.isdecimal():
        alike = suggest_names(name, names)
        close = alike.split(" or ") if alike else list(names)[:MAX_ITEM_NAMES]
        whole = [".".join((here, item, *_parts_after(parts, item))) for item in close]
        fix = f"did you mean {' or '.join(whole)}?" if whole else f"{here} has no named items"
        raise Refused(f"{here} has no item called {name}", fix)
    if len(name) > 9 or int(name) > len(items):
        raise Refused(f"{here} has {len(items)} items", f"use at most {here}.{len(items)}, which appends an item")
    return int(name), rest


# Paths of a scenario that a setting may name, and suggestions for unknown ones.


MAX_PATHS = 3
"""Most paths in a suggestion."""

MIN_SIMILARITY = 0.6
SIMILARITY_MARGIN = 0.12
"""Largest loss of similarity against the best path at which another path is also suggested."""

MIN_KEY_SIMILARITY = 0.7
"""Similarity from which the last parts of two paths are taken as the same."""

SKIPPED = ("offers", "measured")
"""Lists whose items are seldom set one by one; paths into them end at their own key."""

OFTEN_SET = (".deadline", "limits.budget_usd", "limits.max_gpus")
LAST_KEY_WEIGHT = 0.95
"""Weight of a path whose end is similar: `deadline=3h` means that of the job."""


def suggest_for_unknown_keys(
    complaints: list[Complaint], origins: Mapping[KeyPath, str], schema: dict[str, Any], data: Any
) -> list[Complaint]:
    """Return the complaints, those of unknown keys from a setting with the nearest valid paths as fix."""
    suggested: list[Complaint] = []
    known: list[str] = []
    for path, what, fix in complaints:
        setting = next((text for place, text in origins.items() if place[: len(path)] == path), None)
        if what == UNKNOWN_KEY and setting is not None:
            known = known or list(dict.fromkeys(known_paths(schema, data)))  # a key of both forms of a job is one
            typed = setting.partition("=")[0].strip()
            close = suggest_paths(typed, known)
            often = [name for name in known if name.endswith(OFTEN_SET)]
            examples = ", ".join(name for name in often if not _has_shorter(name, often))
            fix = f"did you mean {' or '.join(close)}?" if close else f"{fix}; examples of paths: {examples}"
        suggested.append((path, what, fix))
    return suggested


def suggest_paths(path: str, known: list[str]) -> list[str]:
    """Return up to three known paths similar to the path or to its end, most similar first."""
    others = [name for name in known if not f"{path}.".startswith(f"{name}.")]  # a correct prefix is no suggestion
    scores = {name: _similarity(path.casefold(), name.casefold()) for name in others}
    ranked = sorted(others, key=lambda name: -scores[name])
    if not ranked:
        return []
    least = max(MIN_SIMILARITY, scores[ranked[0]] - SIMILARITY_MARGIN)
    near = [name for name in ranked if scores[name] >= least and not ranked[0].startswith(f"{name}.")]
    return [name for name in near if not _has_shorter(name, near)][:MAX_PATHS]


def _has_shorter(path: str, others: list[str]) -> bool:
    """Return whether the same key stands further out: `jobs.a.deadline` is meant, not `jobs.a.confidence.deadline`."""
    above, _, key = path.rpartition(".")
    return any(key == other.rpartition(".")[2] and above.startswith(f"{other.rpartition('.')[0]}.") for other in others)


def _similarity(path: str, other: str) -> float:
    import difflib  # late: most settings are spelled right

    whole = difflib.SequenceMatcher(None, path, other).ratio()
    end, other_end = path.rpartition(".")[2], other.rpartition(".")[2]
    last = difflib.SequenceMatcher(None, end, other_end).ratio()
    mixed = 1.0 if sorted(path.split(".")) == sorted(other.split(".")) else 0.0  # limits.forbid.gpus
    if end in other_end.split("_") and path.rpartition(".")[0] == other.rpartition(".")[0]:
        mixed = 1.0  # techniques.bits is techniques.weight_bits
    return max(whole, mixed, LAST_KEY_WEIGHT * last if last > MIN_KEY_SIMILARITY else 0.0, (whole + last) / 2)


def known_paths(schema: dict[str, Any], data: Any, node: Any = None, path: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield every path below a node (None: the top) that a setting may name; items by their name in `data`, or as 0."""
    for form in forms_of(list_alternatives(node or schema, schema), data):
        for key, inside in form.get("properties", {}).items():
            here = (*path, key)
            yield ".".join(here)
            if key not in SKIPPED:
                yield from known_paths(schema, data.get(key) if isinstance(data, dict) else None, inside, here)
        items = form.get("items")
        if items is not None and any("properties" in form for form in list_alternatives(items, schema)):
            for name, item in _items(data):
                yield from known_paths(schema, item, items, (*path, name))


def _items(data: Any) -> list[tuple[str, Any]]:
    if not isinstance(data, list) or not data:
        return [("0", None)]
    named = [(str(item.get("name", index)), item) for index, item in enumerate(data) if isinstance(item, dict)]
    return named or [("0", None)]


MAX_RANGES = 2
MAX_CELLS = 2500
"""Most cells of a sweep: a picture of 50 by 50, solved in a minute or two."""

_TOO_MANY = "at most {:,}: use wider steps"

_NUMBER = re.compile(r"\s*([-+]?(?:\d[\d_]*(?:\.\d*)?|\.\d+)(?:e[-+]?\d{1,3})?)\s*([a-z]*)\s*\Z", re.IGNORECASE)
_EXAMPLE = "write it as jobs.NAME.deadline=6h:48h:6h, or limits.gpus.allow=[A100-80GB, H100-80GB]"


@dataclass(frozen=True)
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
    ranges: list[SweepRange] = []
    for text in texts:
        with collect_faults(faults):
            ranges.append(parse_range(text, most_cells))
    if not faults:
        faults = _check_combination(texts, ranges, most_ranges, most_cells)
    raise_faults(faults, ScenarioError)
    return tuple(ranges)


def well_formed_ranges(texts: Iterable[str]) -> list[SweepRange]:
    """Return the ranges of the texts that are one."""
    ranges = []
    for text in texts:
        with collect_faults([]):
            ranges.append(parse_range(text))
    return ranges


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
    texts: tuple[str, ...], ranges: list[SweepRange], most_ranges: int, most_cells: int
) -> list[Fault]:
    if len(ranges) > most_ranges:
        fix = "give one (a curve) or two (a heat map)" if most_ranges == MAX_RANGES else f"give at most {most_ranges}"
        return [Fault(range_name(texts[most_ranges]), 0, "", f"{len(ranges)} ranges are too many", fix)]
    for place, sweep_range in enumerate(ranges):
        if sweep_range.path in [other.path for other in ranges[:place]]:
            return [Fault(range_name(texts[place]), 0, sweep_range.path, "is varied twice", "give two different paths")]
    cells = math.prod(len(varied.values) for varied in ranges)
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
