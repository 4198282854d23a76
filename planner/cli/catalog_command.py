"""`architectures`, `gpus` and `schema`: the library of models and GPUs, and the format of a scenario."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from planner.cli.exit_codes import ListGroup
from planner.cli.import_architecture import import_architecture
from planner.cli.options import json_option
from planner.cli.output import write_either, write_json
from planner.errors import Fault, LibraryError

if TYPE_CHECKING:
    from planner.library.schema import Card


@click.group(cls=ListGroup)
def architectures() -> None:
    """List the models that can be trained."""


architectures.add_command(import_architecture)


@architectures.command("list")
@click.argument("words", nargs=-1)
@click.option("--family", metavar="NAME", help="Only of this family.")
@json_option
def architectures_list(words: tuple[str, ...], family: str | None, as_json: bool) -> None:
    """List all, one per line; with WORDS those whose name, alias or family has each of them.

    Try: planner architectures list llama 8b
    """
    from planner.library.name_search import find_cards
    from planner.library.reading import read_library
    from planner.report.catalog_text import ARCHITECTURE_COLUMNS, table

    cards = find_cards(read_library().architectures, words, family)
    write_either(
        as_json, [card.model_dump(mode="json") for card in cards], lambda _: table(ARCHITECTURE_COLUMNS, cards)
    )


@architectures.command("show")
@click.argument("name")
@json_option
def architectures_show(name: str, as_json: bool) -> None:
    """Show one; NAME is a name, an alias or the path of a config.json."""
    from planner.library.reading import read_library

    (card,) = read_library([name]).architectures.values()
    _show(card, as_json)


@click.group(cls=ListGroup)
def gpus() -> None:
    """List the GPUs whose memory and speed are known."""


@gpus.command("list")
@json_option
def gpus_list(as_json: bool) -> None:
    """List all, one per line."""
    from planner.library.reading import read_library
    from planner.report.catalog_text import gpu_table

    cards = list(read_library([]).gpus.values())
    write_either(as_json, [card.model_dump(mode="json") for card in cards], lambda _: gpu_table(cards))


@gpus.command("show")
@click.argument("name")
@json_option
def gpus_show(name: str, as_json: bool) -> None:
    """Show one; NAME is a name or an alias."""
    from planner.library.reading import CardNames, read_library

    names = CardNames("gpus")
    found = names.canonical(name)
    if found is None:
        raise LibraryError([Fault(name, 0, "", "unknown GPU", names.suggestion(name))])
    _show(read_library([]).gpus[found], as_json)


@click.command()
def schema() -> None:
    """Print the JSON Schema of a scenario file."""
    from planner.scenario.scenario import scenario_schema

    write_json(scenario_schema())


def _show(card: Card, as_json: bool) -> None:
    from planner.report.catalog_text import card_text

    write_either(as_json, card.model_dump(mode="json"), card_text)
