"""Parts whose models are made when the first file has them."""

import subprocess
import sys
from typing import Annotated, Any, Literal

import pytest
from pydantic import Discriminator, Field, Tag, ValidationError

from planner.deferred import Deferred
from planner.documents.quantities import StrictModel


class Rank(StrictModel, defer_build=True):
    """A rank."""

    value: int = Field(default=16, alias="rank")


class Adapters(StrictModel, defer_build=True):
    """Adapters, which few files have."""

    kind: Literal["lora"]
    ranks: tuple[Rank, ...] = Field(default=(), strict=False)


class Full(StrictModel):
    """No adapters."""

    kind: Literal["full"]


def kind_of(value: Any) -> str:
    """Return the kind of a method, written or read."""
    return str(value.get("kind") if isinstance(value, dict) else value.kind)


class LazyRun(StrictModel):
    """A run whose methods are made late."""

    method: Annotated[Annotated[Full, Tag("full")] | Annotated[Deferred[Adapters], Tag("lora")], Discriminator(kind_of)]
    others: tuple[Deferred[Adapters], ...] = Field(default=(), strict=False)


class Run(StrictModel):
    """The same with methods made at once."""

    method: Annotated[Annotated[Full, Tag("full")] | Annotated[Adapters, Tag("lora")], Discriminator(kind_of)]
    others: tuple[Adapters, ...] = Field(default=(), strict=False)


LORA = {"kind": "lora", "ranks": [{"rank": 8}]}


def test_a_deferred_part_reads_and_writes_as_any_other() -> None:
    """Data, defaults and aliases are those of the model itself."""
    data = {"method": LORA, "others": [{"kind": "lora"}]}
    lazy, ready = LazyRun.model_validate(data), Run.model_validate(data)
    assert isinstance(lazy.method, Adapters)
    assert lazy.method == ready.method
    for options in ({}, {"by_alias": True, "exclude_defaults": True, "mode": "json"}):
        assert lazy.model_dump(**options) == ready.model_dump(**options)
    kept = LazyRun(method=lazy.method)
    assert kept.method is lazy.method


@pytest.mark.parametrize(
    "method", [{"kind": "lora", "ranks": [{"rank": 8}, {"rank": "high", "alpha": 1}]}, {"kind": "lora", "rank": 8}, 8]
)
def test_faults_of_a_deferred_part_keep_their_places(method: Any) -> None:
    """Each fault has the place and the kind that it has without the mark."""

    def faults(model: type[StrictModel]) -> list[tuple[Any, str]]:
        with pytest.raises(ValidationError) as raised:
            model.model_validate({"method": {"kind": "full"}, "others": [LORA, method]})
        return [(fault["loc"], fault["type"]) for fault in raised.value.errors()]

    assert faults(LazyRun) == faults(Run)


def test_the_json_schema_refers_to_a_deferred_part_as_to_any_other() -> None:
    """The definitions are the same, and each occurs once."""
    lazy, ready = LazyRun.model_json_schema(), Run.model_json_schema()
    assert {"Adapters", "Rank"} <= set(lazy["$defs"])
    assert lazy["$defs"] == ready["$defs"]
    assert lazy["properties"] == ready["properties"]


def test_a_plan_of_training_makes_no_models_of_services() -> None:
    """A command waits for the models that its scenario has, and for no others."""
    code = (
        "from planner.cli import main\n"
        "try: main(['solve', 'quickstart', '--as-of', '2026-11-21', '-o', '-', '--format', 'json'])\n"
        "except SystemExit: pass\n"
        "from planner.results.fleet import Service\n"
        "from planner.scenario.open_job import OpenJob\n"
        "from planner.scenario.service_load import ServeJob\n"
        "print([one.__pydantic_complete__ for one in (Service, OpenJob, ServeJob)])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120)
    assert done.stdout.splitlines()[-1:] == ["[False, False, False]"], done.stderr
