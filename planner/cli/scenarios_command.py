"""`scenarios`: the scenarios that ship with the program."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from planner.cli.exit_codes import ListGroup
from planner.cli.options import json_option
from planner.cli.output import show, write_either, write_json

if TYPE_CHECKING:
    from pathlib import Path


@click.group(cls=ListGroup)
def scenarios() -> None:
    """List the scenarios that ship with the program."""


@scenarios.command("list")
@json_option
def scenarios_list(as_json: bool) -> None:
    """List all, one per line, with the question that each asks."""
    from planner.documents.strict_yaml import read_document
    from planner.loading.scenario_file import shipped_scenarios
    from planner.report.catalog_text import described_names

    found = {name: str(read_document(path).data.get("description", "")) for name, path in shipped_scenarios().items()}
    rows = [{"name": name, "description": text} for name, text in found.items()]
    write_either(as_json, rows, lambda _: described_names(found))


@scenarios.command("show")
@click.argument("name")
@json_option
def scenarios_show(name: str, as_json: bool) -> None:
    """Print the file of one, to start an own one from: planner scenarios show quickstart > my.yaml."""
    from planner.documents.files import read_text
    from planner.documents.strict_yaml import read_document

    path = _path_of(name)
    if as_json:
        write_json(read_document(path).data)
    else:
        show(read_text(path).rstrip("\n"))


def _path_of(name: str) -> Path:
    from planner.documents.validation import meant_name
    from planner.loading.scenario_file import shipped_scenarios

    shipped = shipped_scenarios()
    name = meant_name(name, shipped, "scenarios show", "no shipped scenario", "planner scenarios list")
    return shipped[name]
