"""The least price of a GPU on demand in the shipped market."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from planner.loading.defaults import MARKET
from planner.loading.inventories import read_inventory

if TYPE_CHECKING:
    from planner.errors import Fault
    from planner.library.schema import Library


def least_usd_per_gpu_hour(gpu: str, library: Library) -> tuple[float, str] | None:
    """Return the least price per GPU-hour that anybody may rent at, and whose it is; None where nobody rents it."""
    faults: list[Fault] = []
    names = {name.casefold() for name in (gpu, *library.gpu(gpu).aliases)}
    found = [
        (offer.usd_per_hour / offer.gpus, offer.provider)
        for _, offers in read_inventory(MARKET, Path(), faults)
        for offer in offers
        if offer.gpu and offer.gpus and offer.usd_per_hour and offer.gpu.casefold() in names
        if offer.tier in ("secure", "community") and not offer.commitment
    ]
    return min(found) if found else None
