"""The shipped price list in the form of SkyPilot's catalog: what a user has who renews the list from it."""

from __future__ import annotations

import csv
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

from planner.library.names import seller_of
from planner.library.reading import read_library
from planner.units import GB, GIB
from tests.helpers.catalogs import SKYPILOT_HEADER, gpu_info

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from planner.scenario.offer import Offer


def write_shipped_catalogs(folder: Path, offers: Iterable[Offer]) -> list[Offer]:
    """Write `PROVIDER/vms.csv` of all that is rented by the hour, and return the offers that no catalog can hold."""
    rows, others = defaultdict[str, list[list[object]]](list), []
    for offer in offers:
        if offer.rents_gpus and offer.tier in ("secure", "community"):
            rows[seller_of(offer.provider)] += _rows(offer)
        else:
            others.append(offer)
    for provider, several in rows.items():
        (folder / provider).mkdir(parents=True)
        with (folder / provider / "vms.csv").open("w", newline="", encoding="utf-8") as stream:
            csv.writer(stream).writerows([SKYPILOT_HEADER.split(","), *several])
    return others


def _rows(offer: Offer) -> Iterator[list[object]]:
    """Yield the rows of an offer: one, or one for each zone with its own spot price."""
    gib = "" if offer.ram_gb is None else offer.ram_gb * GB / GIB
    cores = "" if offer.cpu_cores is None else offer.cpu_cores
    vram = read_library([]).gpus[offer.card].vram_gib
    info = next(csv.reader([gpu_info(offer.card, offer.gpus, 1024 * vram, 1024 * vram * offer.gpus)]))[0]
    tier = offer.provider.removeprefix(seller_of(offer.provider)).replace("-", "_").upper()
    form = "-SXM" if read_library([]).gpus[offer.card].form == "SXM" else ""
    machine = [f"{offer.instance}{tier}", f"{offer.card}{form}", float(offer.gpus), cores, gib, info]
    if offer.card.startswith("TPU"):
        machine[:3] = ["", f"tpu-{offer.instance}", 1.0]
    on_demand = "" if offer.usd_per_hour is None else offer.usd_per_hour
    for zone, spot in offer.zones or (("", "" if offer.spot_usd_per_hour is None else offer.spot_usd_per_hour),):
        yield [*machine, on_demand, spot, offer.region, zone]
