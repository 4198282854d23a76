"""Offers as the text of a file that a scenario's `inventory` names: YAML, or CSV where its name says so."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from planner.documents.files import MAX_BYTES
from planner.documents.strict_yaml import plain_scalar
from planner.errors import Fault, InputError, printable
from planner.loading.offer_table import TABLE_COLUMNS, offer_table_text
from planner.scenario.offer import offer_data

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.scenario.offer import Offer

_PLAIN = re.compile(r"[A-Za-z](?:[\w./-]| (?=[\w.]))*", re.ASCII)
"""Text that needs no quotes in YAML, unless it means true, false or null."""


def offers_text(offers: Sequence[Offer], path: str, command: str) -> str:
    """Return the text of the file `path` with these offers; `InputError` if YAML cannot hold so many.

    `command` is the command that writes the file, which its first line names.
    """
    if path.casefold().endswith(".csv"):
        return offer_table_text(offers)
    rows = (f"  - {{{_keys(one)}}}" for one in offers)
    text = "\n".join([f"# Written by {printable(command)}", "currency: USD", "offers:", *rows, ""])
    if (size := len(text.encode())) > MAX_BYTES:
        most = f"more than the {MAX_BYTES / 1e6:.0f} MB that are read"
        what = f"{len(offers):,} offers are {size / 1e6:.0f} MB of YAML, {most}"
        raise InputError([Fault(path, 0, "", what, "write CSV, which may be larger: -o FILE.csv")])
    return text


def _keys(offer: Offer) -> str:
    data = offer_data(offer)
    return ", ".join(f"{key}: {_scalar(data[key])}" for key in TABLE_COLUMNS if key in data)


def _scalar(value: Any) -> str:
    """Return a value as YAML of one line; text without quotes where it is read as the same text."""
    if not isinstance(value, str):
        return json.dumps(value)
    if _PLAIN.fullmatch(value) and plain_scalar(value) == value:
        return value
    return printable(json.dumps(value, ensure_ascii=False))
