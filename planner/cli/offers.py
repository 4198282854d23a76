"""`offers`: instance types and their prices."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from planner.cli.exit_codes import ListGroup
from planner.cli.import_offers import import_offers
from planner.cli.options import json_option
from planner.cli.output import write_either
from planner.errors import Fault, ScenarioError, raise_faults

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.scenario.offer import Offer

inventory_option = click.option(
    "--inventory",
    metavar="FILE",
    help="An inventory (YAML or CSV), a scenario, purchase (machines to buy), or prices, the price book "
    "(default: the shipped market).",
)


@click.group(cls=ListGroup)
def offers() -> None:
    """List offers of instance types and their prices."""


offers.add_command(import_offers)


@offers.command("list")
@inventory_option
@click.option("--gpu", metavar="NAME", help="Only offers with this GPU.")
@click.option("--provider", metavar="NAME", help="Only offers of this provider.")
@json_option
def offers_list(inventory: str | None, gpu: str | None, provider: str | None, as_json: bool) -> None:
    """List all, one per line.

    Prices are dollars per GPU and hour; an upfront payment is spread over its term.
    """
    from planner.report.catalog_text import OFFER_COLUMNS, table
    from planner.scenario.offer import offer_labels

    found = read_market(inventory)
    names = _cards_like(gpu) if gpu else None
    providers = _providers_like(provider, found) if provider else None
    chosen = [
        (label, offer)
        for label, offer in zip(offer_labels(found), found, strict=True)
        if (names is None or offer.gpu in names) and (providers is None or offer.provider in providers)
    ]
    why = "" if chosen else _why_none(found, names, gpu, provider)
    write_either(as_json, [_facts(*row) for row in chosen], lambda _: why or table(OFFER_COLUMNS, chosen))


def _cards_like(wanted: str) -> frozenset[str]:
    """Return the GPUs of that name or group, else those whose name has the text in it; `ScenarioError` if none has."""
    from planner.library.reading import CardNames

    cards = CardNames("gpus")
    if names := cards.group(wanted):
        return frozenset(names)
    plain = "".join(wanted.casefold().split())
    found = frozenset(name for name in cards.names if plain in name.casefold())
    if not found:
        raise ScenarioError([Fault(f"--gpu {wanted}", 0, "", "unknown GPU", cards.suggestion(wanted))])
    return found


def _providers_like(wanted: str, offers: Sequence[Offer]) -> frozenset[str]:
    """Return the providers that a name means among offers; `ScenarioError` where it means none."""
    from planner.scenario.naming import OfferedNames

    names = OfferedNames(offers)
    found = names.meant("provider", wanted)
    if not found:
        raise ScenarioError([Fault(f"--provider {wanted}", 0, "", *names.fault("provider", wanted))])
    return frozenset(found)


def _why_none(found: Sequence[Offer], names: frozenset[str] | None, gpu: str | None, provider: str | None) -> str:
    """Return why a list of offers is empty, in a line."""
    providers = sorted({offer.provider for offer in found})
    if provider is not None and provider not in providers:
        return f"no offers: none is of provider {provider}"
    rented = sorted({offer.provider for offer in found if names is None or offer.gpu in names})
    where = f"; {', '.join(rented)} has it" if rented else ""
    return f"no offers: {f'{provider} does' if provider else 'these prices do'} not list {gpu}{where}"


@offers.command("show")
@click.argument("name")
@inventory_option
@json_option
def offers_show(name: str, inventory: str | None, as_json: bool) -> None:
    """Show one; NAME is a label that `offers list` prints."""
    from planner.documents.validation import meant_name
    from planner.report.catalog_text import card_text
    from planner.scenario.offer import offer_labels

    found = read_market(inventory)
    labelled = dict(zip(offer_labels(found), found, strict=True))
    name = meant_name(name, labelled, "offers show", "unknown offer", "planner offers list")
    write_either(as_json, _facts(name, labelled[name]), card_text)


def _facts(label: str, offer: Offer) -> dict[str, Any]:
    """Return the fields of an offer, those that hold for all offers of its provider last."""
    from planner.scenario.payment import Terms

    facts = offer.model_dump(mode="json")
    terms = {key: facts.pop(key) for key in Terms.model_fields}
    return {"name": label, "tier": offer.tier, **facts, **terms}


def read_market(path: str | None) -> tuple[Offer, ...]:
    """Return the offers of an inventory file or of a scenario, as written; None means the shipped market.

    Raises `ScenarioError` with every fault.
    """
    from planner.documents.strict_yaml import read_document
    from planner.loading.inventory_file import read_offers
    from planner.loading.scenario_file import MARKET, PRICE_BOOK, PURCHASE, read_inventory, read_scenario

    file = path or MARKET
    faults: list[Fault] = []
    is_table = file.casefold().endswith(".csv") and os.path.isfile(file)
    if file in (MARKET, PURCHASE, PRICE_BOOK) or is_table:
        found = tuple(offer for _, offers in read_inventory(file, Path(), faults) for offer in offers)
    else:
        document = read_document(file) if os.path.isfile(file) else None
        if document is None or "jobs" in document.data:
            return read_scenario(file).offers
        found = read_offers(document, faults)
    raise_faults(faults, ScenarioError)
    return found
