"""Inventories by name or path: the shipped market, the price book, YAML and CSV files."""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING

from planner.documents.files import data_folder
from planner.documents.source_map import Source
from planner.documents.strict_yaml import read_document, read_shipped
from planner.errors import Fault, InputError, raise_faults
from planner.loading.defaults import MARKET, PRICE_BOOK, PURCHASE, shipped_inventory
from planner.loading.inventory_file import read_offers

if TYPE_CHECKING:
    from pathlib import Path

    from planner.scenario.offer import Offer

Inventory = list[tuple[Source, "tuple[Offer, ...]"]]
"""Each file of an inventory with its offers."""


def read_inventory(name: str, folder: Path, faults: list[Fault]) -> Inventory:
    """Return the offers of an inventory; faults inside it are added, `InputError` is raised where there is none.

    A path is relative to `folder`.
    """
    if name == PRICE_BOOK and not os.path.isfile(folder / name):
        from planner.loading.price_book import read_price_book  # late, as tables are: most inventories are YAML

        return [(source, tuple(map(_of_book, offers))) for source, offers in read_price_book()]
    path = shipped_inventory(name) or folder / name
    if not os.path.isfile(path):  # not Path.is_file, which raises for too long a name
        where = f"{MARKET} for the shipped prices, {PURCHASE} for machines to buy, or {PRICE_BOOK} for the price book"
        fix = f"give a path relative to the folder of the scenario, or {where}"
        what = "not a file" if os.path.exists(path) else "no such file"
        raise InputError([Fault("", 0, "", f"{what}: {path}", fix)])
    if str(path).casefold().endswith(".csv"):
        from planner.documents.csv_table import read_csv
        from planner.loading.offer_table import read_offer_table

        document, offers = read_offer_table(read_csv(path), faults)
    else:
        is_shipped = path.resolve().is_relative_to(data_folder("scenarios").resolve())
        document = (read_shipped if is_shipped else read_document)(path)
        offers = read_offers(document, faults)
    return [(Source(document.file, document), offers)]


def shipped_purchases() -> tuple[Offer, ...]:
    """Return the machines of the shipped list of purchases, with which a plan compares those that it rents."""
    return _purchases_of(data_folder("scenarios"))


@functools.lru_cache(maxsize=1)  # asked for at every change of a scenario
def _purchases_of(folder: Path) -> tuple[Offer, ...]:
    faults: list[Fault] = []
    ((_, offers),) = read_inventory(PURCHASE, folder, faults)
    raise_faults(faults, InputError)
    return offers


def _of_book(offer: Offer) -> Offer:
    """Return an offer whose source says that the price book had it, so that a plan says it too."""
    return offer.model_copy(update={"source": f"price book: {offer.source}" if offer.source else "price book"})
