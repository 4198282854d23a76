"""Every field of every result is described in its JSON Schema: by its docstring, or by the words for its name."""

from __future__ import annotations

import re
from typing import Any, Literal, get_args

from pydantic import BaseModel

import planner
from planner.cli.options import VERSION
from planner.documents.quantities import described
from planner.report.any_result import TEXTS
from planner.results.field_words import FIELD_WORDS, words_of
from planner.results.run_results import Tracking
from planner.results.what_if import Tornado
from tests.documents.test_descriptions import lacking

MODES: tuple[Literal["validation", "serialization"], ...] = ("validation", "serialization")


def results() -> list[type[BaseModel]]:
    """Return each result that is public by its name, with all its parts."""
    found: dict[type[BaseModel], None] = {}
    open_ones: list[Any] = [kind for kind in _public() if isinstance(kind, type)]
    while open_ones:
        kind = open_ones.pop()
        if kind in found or not hasattr(kind, "model_fields") or not kind.__module__.startswith("planner.results."):
            continue
        found[kind] = None
        open_ones += [inner for field in kind.model_fields.values() for inner in _kinds(field.annotation)]
    return list(found)


def _public() -> list[Any]:
    return [getattr(planner, name) for name in planner.__all__]


def _kinds(annotation: Any) -> list[Any]:
    inner = get_args(annotation)
    return [annotation] if not inner else [kind for each in inner for kind in _kinds(each)]


def test_every_field_of_every_result_is_described() -> None:
    """In its JSON Schema, as what is written and as what is read."""
    kinds = results()
    assert {planner.Plan, planner.Tornado, planner.Estimate, planner.PriceUpdate} <= set(kinds) and len(kinds) > 100
    for kind in kinds:
        for mode in MODES:
            own = {"properties": kind.model_json_schema(mode=mode).get("properties", {})}
            assert lacking(own) == [], kind.__name__


def test_every_result_states_its_version() -> None:
    """Whoever reads the JSON of any command knows of which form it is."""
    assert {Tracking, Tornado} <= set(TEXTS)
    assert {kind.__name__: kind.model_fields["schema_version"].default for kind in TEXTS} == {
        kind.__name__: VERSION for kind in TEXTS
    }


def test_words_of_fields_are_those_of_fields() -> None:
    """No entry is for a field that is not there, or that has a docstring."""
    used = {
        key
        for kind in results()
        for name in kind.model_fields
        for key in (name, f"{kind.__name__}.{name}")
        if key in FIELD_WORDS and FIELD_WORDS[key].startswith(words_of(kind)[name][:-1]) and name not in described(kind)
    }
    assert used == set(FIELD_WORDS)


def test_only_a_field_that_may_be_none_says_when_it_is() -> None:
    """Dollars of a plan in a search may be None, and those of a job of a plan are not."""
    for kind in results():
        for name, words in (words_of(kind) | described(kind)).items():
            if re.search(r"\bNone\b", words):
                assert type(None) in get_args(kind.model_fields[name].annotation), f"{kind.__name__}.{name}: {words}"
