"""Changes of plain data and of text that a careless or hostile hand may make."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterable
from random import Random
from typing import Any

NUMBERS = (
    "0", "-1", "1", "2", "3", "7", "8", "0.5", "1e-3", "1e-9", "1e-300", "5e-324", "100", "1000", "4096", "1e5",
    "1e6", "720720", "1024000000", "1e9", "1e12", "1e15", "1e18", "9223372036854775808", "1e21", "1e99", "1e300",
    "1e308", "1e999", "-1e999", ".inf", ".nan", "NaN", "Infinity", "1" * 400, "9" * 5000, "0x7f", "1_000", "-0.0",
    "1.0000000001", "2.5",
)  # fmt: skip
TEXTS = (
    "", " ", "a", "no", "null", "..", "../..", "/etc/passwd", "/dev/null", ".", "x" * 300, "x" * 5000, "x.json",
    "\x1b[31mred\x1b[0m", "\x1b]0;title\x07", "a\x00b", "line\nbreak", "tab\there", "\u202egnp", "\x9b2J", "ä" * 40,
    "7b", "H100-80GB", "a100", "36h", "90m", "1e400h", "1e300h", "1e-300h", "0h", "5", "1.2B", "1e18", "2024-02-30",
    "9999-12-31", "cost", "time", "spot", "full", "lora", "#", "a: b", "{}", "%s", "{0}", "=", "a=b", "\ud7ff\ue000",
)  # fmt: skip
COLLECTIONS: tuple[Any, ...] = ([], {}, [[]], [None], {"a": 1}, [1, 2, 3], {"": ""}, [{}], {"name": "x"})


class Raw(str):
    """Text of a value that is written as it is, such as `1e999`."""

    __slots__ = ()


def hostile(random: Random) -> Any:
    """Return a value that few fields expect."""
    kind = random.random()
    if kind < 0.55:
        return Raw(random.choice(NUMBERS))
    if kind < 0.8:
        return random.choice(TEXTS)
    return copy.deepcopy(random.choice((None, True, False, *COLLECTIONS)))  # each is changed by later mutations


def places(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths of all values but the top."""
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    found = []
    for key, inside in items:
        found += [(*path, key), *places(inside, (*path, key))]
    return found


def mutate(data: Any, random: Random, most: int = 3) -> Any:
    """Return a copy with one to `most` changes."""
    data = copy.deepcopy(data)
    for _ in range(random.randint(1, most)):
        known = places(data)
        if not known:
            break
        path = random.choice(known)
        around = data
        for key in path[:-1]:
            around = around[key]
        _change(around, path[-1], data, random)
    return data


def _change(around: Any, key: Any, data: Any, random: Random) -> None:
    value, change = around[key], random.randrange(10)
    if change < 4:
        around[key] = hostile(random)
    elif change == 4:
        del around[key]
    elif change == 5 and isinstance(around, dict):
        around[random.choice((f"{key}x", str(key)[:-1], *TEXTS))] = around.pop(key)
    elif change == 5:
        around += [copy.deepcopy(value)] * random.choice((1, 2, 30))
    elif change == 6:
        around[key] = [copy.deepcopy(value)]
    elif change == 7 and isinstance(value, (int, float)) and not isinstance(value, bool):
        around[key] = value * random.choice((-1, 0, 1e-9, 1e-3, 0.1, 3, 1000, 10**6, 1e12))
    elif change == 7 and isinstance(value, str):
        at = random.randint(0, len(value))
        around[key] = value[:at] + random.choice(TEXTS) + value[at:]
    elif change == 8:
        other = data
        for part in random.choice(places(data)):
            other = other[part]
        around[key] = copy.deepcopy(other)
    elif isinstance(value, dict):
        value[random.choice(TEXTS)] = hostile(random)
    else:
        around[key] = hostile(random)


def write(value: Any, indent: int = 0) -> str:
    """Return the data as JSON (which is YAML too), one value per line, raw text as it is."""
    pad, end = " " * (indent + 1), " " * indent
    if isinstance(value, Raw):
        return value
    if isinstance(value, dict) and value:
        lines = [
            f"{pad}{json.dumps(str(key), ensure_ascii=False)}: {write(one, indent + 1)}" for key, one in value.items()
        ]
        return "{\n" + ",\n".join(lines) + f"\n{end}}}"
    if isinstance(value, list) and value:
        return "[\n" + ",\n".join(pad + write(one, indent + 1) for one in value) + f"\n{end}]"
    return json.dumps(value, ensure_ascii=False, default=str)  # a date in YAML


_TOKEN = re.compile(r"-?\d+(?:\.\d+)?|[A-Za-z_]\w+")


def spoil(text: str, random: Random) -> bytes:
    """Return the text with one change that knows nothing of its structure."""
    lines = text.splitlines(keepends=True) or [""]
    at, line = random.randrange(len(text) + 1), random.randrange(len(lines))
    change = random.randrange(16)
    if change < 5 and (found := list(_TOKEN.finditer(text))):
        one = random.choice(found)
        text = text[: one.start()] + random.choice((*NUMBERS, *TEXTS)) + text[one.end() :]
    elif change == 5:
        text = text[:at]
    elif change == 6:
        text = (
            text[:at]
            + random.choice(("\t", "\x00", "\x1b[2J", "\u2028", "{", "]", ":", ",", '"', "\r", "&a ", "*a"))
            + text[at:]
        )
    elif change == 7:
        del lines[line]
        text = "".join(lines)
    elif change == 8:
        text = "".join([*lines[:line], lines[line] * random.choice((2, 1000)), *lines[line:]])
    elif change == 9:
        text = text[:at] + random.choice("[{") * random.choice((60, 100_000)) + text[at:]
    elif change == 10:
        return text.encode(random.choice(("utf-16", "utf-8-sig", "latin-1")), "replace")
    elif change == 11:
        text = random.choice(("", " \n ", "\n", "[]", "{}", "null", "5", '"text"', "[[[1]]]", "\ufeff"))
    elif change == 12:
        text = text.replace("\n", random.choice(("\r\n", "\r", "")))
    elif change == 13:
        return random.randbytes(random.choice((1, 100, 5000)))
    elif change == 14:
        lines[line] = lines[line].replace(",", random.choice((";", "", ",,", "\t")))
        text = "".join(lines)
    else:
        random.shuffle(lines)
        text = "".join(lines)
    return text.encode("utf-8", "surrogatepass")


Pools = dict[str, list[Any]]
"""The values that each key has anywhere in the shipped files."""


def pools_of(documents: Iterable[Any]) -> Pools:
    """Return the values by key."""
    found: Pools = {}
    for document in documents:
        for path in places(document):
            value = document
            for key in path:
                value = value[key]
            if isinstance(path[-1], str):
                found.setdefault(path[-1], []).append(value)
    return found


def vary(data: Any, pools: Pools, random: Random, most: int = 4) -> Any:
    """Return a copy with a few plausible changes: scaled numbers, and values that the key has elsewhere."""
    data = copy.deepcopy(data)
    for _ in range(random.randint(1, most)):
        path = random.choice(places(data))
        around = data
        for key in path[:-1]:
            around = around[key]
        around[path[-1]] = _plausible(around[path[-1]], path[-1], pools, random)
    return data


def _plausible(value: Any, key: Any, pools: Pools, random: Random) -> Any:
    others = pools.get(key, [])
    if isinstance(value, dict) and others and random.random() < 0.7:  # one more key
        other = random.choice(others)
        if isinstance(other, dict) and other:
            name = random.choice(list(other))
            return {**value, name: copy.deepcopy(other[name])}
    if isinstance(value, (int, float)) and not isinstance(value, bool) and random.random() < 0.7:
        scaled = value * random.choice((1e-4, 0.01, 0.1, 0.5, 2, 3, 7, 10, 100, 1e4))
        return max(1, round(scaled)) if isinstance(value, int) else scaled
    return copy.deepcopy(random.choice(others)) if others else value
