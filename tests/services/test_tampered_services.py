"""A service's plan with one figure changed by a few percent: the audit refuses each, but for the few that it names."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from pydantic import ValidationError

from planner.evaluation.audit import audit
from planner.library.reading import read_library
from planner.library.schema import Library
from planner.loading.scenario_file import parse_scenario
from planner.results.plan import Plan
from planner.scenario.scenario import Scenario
from planner.solving.solve import solve
from tests.helpers.services import MACHINES, answering

FILE = (
    """
schema: 2
name: chat
jobs:
  - name: chat
    kind: serve
    architecture: llama-3.1-8b
    load:
      per_second: 30
      profile: [1, 1, 1, 1, 1, 1, 1, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 1, 1, 1, 1, 1, 1]
      lengths: [{input_tokens: 300, output_tokens: 80, count: 3}, {input_tokens: 2000, output_tokens: 250, count: 2}]
    latency: {ttft: 1s, tpot: 40ms, share: 0.95}
    replicas: {min: 2}
    techniques: {engine: vllm, weight_bits: [16, 8]}
limits: {budget_usd: 100000}
"""
    + MACHINES
    + answering(0.9)
)
NOT_RECOMPUTED = {
    # a note on the file and on the run that wrote it
    ("schema_version",), ("seconds",),
    # how many kinds and offers the search saw
    ("candidates", "made"), ("candidates", "offers"), ("candidates", "outdated_offers"),
    # other fleets than that of the plan
    ("jobs", "fleet", "baselines", "usd_per_month"), ("jobs", "fleet", "any_mix", "usd_per_month"),
    ("jobs", "looser", "cost_usd"), ("jobs", "looser", "hours"), ("jobs", "looser", "way"),
    # found by solving for other loads: tests/solving/test_break_even.py solves on both sides of it
    ("jobs", "fleet", "api", "pays_from_requests"), ("jobs", "fleet", "api", "pays_on", "spot_share"),
    ("jobs", "fleet", "api", "pays_on", "cost_usd"), ("jobs", "fleet", "api", "pays_on", "runs_at_once"),
    ("jobs", "fleet", "api", "pays_on", "gpus"),
}  # fmt: skip


@cache
def case() -> tuple[Scenario, Library, Plan]:
    """Return the scenario, its library and its plan."""
    scenario = parse_scenario(FILE)
    return scenario, read_library(["llama-3.1-8b"]), solve(scenario)


def figures(data: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], float]]:
    """Yield every number of a document with its path; of a list of numbers the one in the middle."""
    if isinstance(data, dict):
        for key, value in data.items():
            yield from figures(value, (*path, key))
    elif isinstance(data, list):
        plain = all(isinstance(one, (int, float)) for one in data)
        for place in [len(data) // 2] if plain and data else range(len(data)):
            yield from figures(data[place], (*path, place))
    elif isinstance(data, (int, float)) and not isinstance(data, bool):
        yield path, data


def changed(data: Any, path: tuple[str | int, ...], value: float) -> Any:
    """Return a copy of a document with one number changed."""
    copy = json.loads(json.dumps(data))
    inside = copy
    for key in path[:-1]:
        inside = inside[key]
    inside[path[-1]] = value
    return copy


@pytest.mark.long
def test_each_figure_that_is_changed_is_refused() -> None:
    """Floats by 3 %, counts by one, up and down in turn; what the audit cannot know is listed."""
    scenario, library, plan = case()
    assert audit(plan, scenario, library) == []
    data = plan.model_dump(mode="json", by_alias=True)
    data.pop("inputs")  # the record of the question, which the audit does not read
    passed, tried = set(), 0
    for number, (path, value) in enumerate(figures(data)):
        name = tuple(str(key) for key in path if isinstance(key, str))
        step = 1 if number % 2 else -1
        other = value + step if isinstance(value, int) else value * (1.0 + 0.03 * step) if abs(value) > 1e-12 else 0.03
        try:
            wrong = Plan.model_validate(changed(data, path, other))
        except ValidationError:
            continue  # not even a plan
        tried += 1
        if not audit(wrong, scenario, library):
            passed.add(name)
    assert passed == NOT_RECOMPUTED
    assert tried > 70


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "what"),
    [
        ({"engine": "sglang"}, "engine"),
        ({"weight_format": "awq"}, "weight_bits"),
        ({"binds": "KV"}, "binds"),
        ({"instance": "other"}, "instance"),
        ({"region": "other"}, "region"),
        ({"market": "committed"}, "market"),
        ({"pipeline_parallel": 2}, "figures"),
    ],
)
def test_a_choice_that_is_changed_is_refused(kind: dict[str, Any], what: str) -> None:
    """Each is named."""
    scenario, library, plan = case()
    service = plan.services[0]
    first, *rest = service.fleet.kinds
    fleet = service.fleet.model_copy(update={"kinds": (first.model_copy(update=kind), *rest)})
    wrong = plan.model_copy(update={"services": (service.model_copy(update={"fleet": fleet}),)})
    assert any(what in one.what for one in audit(wrong, scenario, library))


@pytest.mark.parametrize("key", ["load", "use_by_hour"])
def test_hours_without_load_are_counted(key: str) -> None:
    """Zeros at the end of a list are hours that the scenario does not have."""
    scenario, library, plan = case()
    data = json.loads(plan.model_dump_json(by_alias=True))
    data["jobs"][0]["fleet"][key] = [*data["jobs"][0]["fleet"][key], 0.0, 0.0]
    found = audit(Plan.model_validate(data), scenario, library)
    assert any(violation.what == f"number of fleet.{key}" for violation in found)
