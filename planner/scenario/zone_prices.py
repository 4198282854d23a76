"""Spot prices by zone, as an offer states them."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer

from planner.documents.quantities import Price, Text, validation_error


def _pairs(value: Any) -> Any:
    """Return the prices of a mapping as pairs, which an offer that is handed on has already."""
    if isinstance(value, (tuple, list)):
        return tuple(tuple(one) if isinstance(one, list) else one for one in value)
    if not isinstance(value, dict):
        raise validation_error("no prices by zone", "write zones: {use1-az1: 2.10, use1-az4: 2.35}")
    return tuple(value.items())


Zones = Annotated[
    tuple[tuple[Text, Price], ...],
    BeforeValidator(_pairs, json_schema_input_type=dict[str, float]),
    PlainSerializer(dict, return_type=dict[str, float]),
]
"""Dollars per instance and hour by zone; a mapping where it is written, pairs where it is read."""


def regions_of(zones: Zones) -> tuple[str, ...]:
    """Return the regions of zones that are named `region/zone`, each once."""
    return tuple(dict.fromkeys(name.partition("/")[0] for name, _ in zones))


def moves_between_regions(zones: Zones) -> float:
    """Return the share of moves from one zone to another that lead to another region, all being as likely.

    Two zones of one region and one of another: 4 of 6 ordered pairs, 0.67.
    """
    names = [name.partition("/")[0] for name, _ in zones]
    pairs = len(names) * (len(names) - 1)
    return sum(one != other for one in names for other in names) / pairs if pairs else 0.0
