"""Settings such as `jobs.support-bot.deadline=12h`, applied to plain data before it is validated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner.documents.quantities import format_value
from planner.documents.short_forms import expand_short_form
from planner.documents.strict_yaml import MAX_DEPTH, KeyPath, parse_value
from planner.documents.validation import suggest_names
from planner.errors import Fault, InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

NAMING_KEYS = ("name", "instance")
"""Keys whose value names an item of a list."""

MAX_ITEM_NAMES = 3
"""Items that are listed if none is similar to the given name."""


class Refused(Exception):
    """A path or a value that cannot be used; its arguments are what and fix of the fault."""


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
        name = max((one for one in known if rest.startswith((f"{one}.", f"{one}="))), key=len, default=None)
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


def setting_name(setting: str) -> str:
    """Return the name of a setting in a fault, in place of a file."""
    return f"--set {setting if len(setting) <= 80 else setting[:77] + '...'}"


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
