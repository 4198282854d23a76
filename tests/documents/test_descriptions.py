"""Descriptions of fields: the docstring below each is that of the JSON Schema, read only when a schema is asked for."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from click.testing import CliRunner

import planner
from planner.cli import main
from planner.documents.quantities import StrictModel, described
from planner.documents.validation import plain_schema
from planner.scenario.scenario import ScenarioFile

PUBLIC = ("Job", "Limits", "Offer", "Scenario", "SolveOptions")


class _First(StrictModel):
    hours: float
    """Hours of the first."""
    usd: float  # a comment is none
    plain: int = 0


class _Second(_First):
    hours: float = 1.0
    usd: float = 2.0
    """Dollars,
    over two lines.
    """


def lacking(schema: dict[str, Any]) -> list[str]:
    """Return the fields of a schema without a description that is a sentence."""
    parts = {"": schema, **schema.get("$defs", {})}
    return [
        f"{part}.{key}"
        for part, fields in parts.items()
        for key, field in fields.get("properties", {}).items()
        if not (said := field.get("description", "")).endswith(".") or said[0].islower() or len(said) < 10
    ]


def test_every_field_of_a_scenario_file_is_described() -> None:
    """As `planner schema` prints it."""
    printed = json.loads(CliRunner().invoke(main, ["schema"]).stdout)
    assert len(printed["$defs"]) > 50
    assert lacking(printed) == []
    assert printed["$defs"]["Job"]["properties"]["deadline"]["description"].startswith("Until when the job is done")


@pytest.mark.parametrize("name", PUBLIC)
def test_public_models_describe_their_fields(name: str) -> None:
    """In the schema that each has of its own; the keys are those of files."""
    schema = getattr(planner, name).model_json_schema()
    assert not [field for field in lacking(schema) if field.startswith((".", f"{name}."))]


def test_descriptions_are_inherited_and_replaced() -> None:
    """A field that is written anew keeps the description unless it has one; comments are none."""
    assert described(_First) == {"hours": "Hours of the first."}
    assert described(_Second) == {"hours": "Hours of the first.", "usd": "Dollars, over two lines."}
    fields = _Second.model_json_schema()["properties"]
    assert fields["usd"]["description"] == "Dollars, over two lines." and "description" not in fields["plain"]


def test_schemas_for_faults_read_no_source() -> None:
    """They are the same but for the descriptions that docstrings add."""
    assert lacking(plain_schema(ScenarioFile))
    code = "import planner\nfrom planner.documents.quantities import _of_module\n"
    code += "try: planner.read_scenario('quickstart', 'a=1')\n"
    code += "except planner.ScenarioError: print(_of_module.cache_info().currsize)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "0\n"
