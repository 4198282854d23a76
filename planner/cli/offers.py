"""`offers`: instance types and their prices."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from planner.cli.exit_codes import ListGroup
from planner.cli.options import json_option
from planner.cli.output import write_json
from planner.errors import Fault, ScenarioError

if TYPE_CHECKING:
    from planner.scenario.offer import Offer

inventory_option = click.option(
    "--inventory", metavar="FILE", help="An inventory or a scenario (default: the shipped market)."
)


@click.group(cls=ListGroup)
def offers() -> None:
    """List offers of instance types and their prices."""


@offers.command("list")
@inventory_option
@click.option("--gpu", metavar="NAME", help="Only offers with this GPU.")
@click.option("--provider", metavar="NAME", help="Only offers of this provider.")
@json_option
def offers_list(inventory: str | None, gpu: str | None, provider: str | None, as_json: bool) -> None:
    """List all, one per line.

    Prices are dollars per GPU and hour; an upfront payment is spread over its term.
    """
    from planner.library.reading import CardNames
    from planner.report.catalog import offers_table
    from planner.scenario.offer import offer_labels

    found = read_market(inventory)
    name = CardNames("gpus").canonical(gpu) or gpu if gpu else None
    chosen = [
        (label, offer)
        for label, offer in zip(offer_labels(found), found, strict=True)
        if name in (None, offer.gpu) and provider in (None, offer.provider)
    ]
    if as_json:
        write_json([_facts(label, offer) for label, offer in chosen])
    else:
        click.echo(offers_table([label for label, _ in chosen], [offer for _, offer in chosen]))


@offers.command("show")
@click.argument("name")
@inventory_option
@json_option
def offers_show(name: str, inventory: str | None, as_json: bool) -> None:
    """Show one; NAME is a label that `offers list` prints."""
    from planner.documents.validation import suggest_names
    from planner.report.catalog import card_text
    from planner.scenario.offer import offer_labels

    found = read_market(inventory)
    labelled = dict(zip(offer_labels(found), found, strict=True))
    if name not in labelled:
        close = suggest_names(name, labelled)
        fix = f"did you mean {close}?" if close else "see: planner offers list"
        raise ScenarioError([Fault(name, 0, "", "unknown offer", fix)])
    facts = _facts(name, labelled[name])
    if as_json:
        write_json(facts)
    else:
        click.echo(card_text(facts))


def _facts(label: str, offer: Offer) -> dict[str, Any]:
    """Return the fields of an offer, those that hold for all offers of its provider last."""
    from planner.scenario.offer import Terms

    facts = offer.model_dump(mode="json")
    terms = {key: facts.pop(key) for key in Terms.model_fields}
    return {"name": label, "tier": offer.tier, **facts, **terms}


def read_market(path: str | None) -> tuple[Offer, ...]:
    """Return the offers of an inventory file or of a scenario, as written; None means the shipped market.

    Raises `ScenarioError` with every fault.
    """
    from planner.documents.source_map import Source
    from planner.documents.strict_yaml import Document, read_document
    from planner.library.reading import CardNames
    from planner.loading.inventory_file import read_offers
    from planner.loading.name_resolution import resolve_offer_names
    from planner.loading.scenario_file import data_folder, read_scenario

    file = str(data_folder("scenarios") / "inventory" / "market.yaml") if path is None else path
    if not os.path.isfile(file):
        return read_scenario(file).offers
    document = read_document(file)
    if "jobs" in document.data:
        return read_scenario(file).offers
    faults: list[Fault] = []
    source = Source(document.file, document)
    rows = resolve_offer_names(document.data.get("offers"), CardNames("gpus"), source, faults)
    found = read_offers(Document(document.file, {**document.data, "offers": rows}, document.marks), faults)
    if faults:
        raise ScenarioError(faults)
    return found
