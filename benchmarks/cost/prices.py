"""Dollars per GPU-hour by card, from the market inventory that the project ships."""

from __future__ import annotations

from functools import cache

from planner.documents.files import data_folder, read_document
from planner.errors import Fault, InputError
from planner.library.schema import Library
from planner.loading.price_files import read_offers


@cache
def _cheapest() -> dict[str, float]:
    faults: list[Fault] = []
    offers = read_offers(read_document(data_folder("scenarios") / "inventory" / "market.yaml"), faults)
    if faults:
        raise InputError(faults)
    found: dict[str, float] = {}
    for offer in offers:
        if offer.usd_per_hour and offer.gpu and offer.tier in ("secure", "community"):  # what anybody may rent
            each = offer.usd_per_hour / offer.gpus
            found[offer.gpu.casefold()] = min(each, found.get(offer.gpu.casefold(), each))
    return found


def usd_per_gpu_hour(gpu: str, library: Library) -> float | None:
    """Return the cheapest price on demand of a card, per GPU; None where the inventory does not rent it."""
    names = (gpu, *library.gpu(gpu).aliases)
    known = [_cheapest()[name.casefold()] for name in names if name.casefold() in _cheapest()]
    return min(known) if known else None
