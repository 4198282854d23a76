"""One offer per way to pay, for the tests of offers, and small scenarios made of them."""

from __future__ import annotations

from typing import Any

import pytest

from planner.errors import ScenarioError
from planner.loading.scenario_file import parse_scenario
from planner.scenario.scenario import Scenario, scenario_data
from tests.helpers.scenarios import GOOD, json_text

T4 = {"provider": "p", "gpu": "T4", "gpus": 1}
PRICED = {**T4, "usd_per_hour": 1.0}
CPU = {"provider": "p", "cpu_cores": 16, "ram_gb": 32, "usd_per_hour": 0.5}
YEAR = {**T4, "usd_per_hour": 0.5, "commitment": {"months": 12, "upfront_usd": 1000}}
LEFT = {**T4, "committed_hours": 200}
OWN = {**T4, "own": {"power_watts": 500, "usd_per_kwh": 0.3, "purchase_usd": 1500, "lifetime_hours": 15000}}
SERVICE = {"provider": "s", "managed": {"architectures": ["mistral-7b"], "usd_per_million_tokens": 0.5}}
KINDS: dict[str, dict[str, Any]] = {
    "on demand": PRICED,
    "cpu": CPU,
    "year": YEAR,
    "left": LEFT,
    "own": OWN,
    "service": SERVICE,
}


def question(*offers: dict[str, Any]) -> dict[str, Any]:
    """The small good scenario as plain data, with other offers."""
    data = scenario_data(parse_scenario(GOOD))
    return {**data, "offers": list(offers)}


def asked(*offers: dict[str, Any]) -> Scenario:
    """The small good scenario with other offers."""
    return parse_scenario(json_text(question(*offers)))


def faults(*offers: dict[str, Any]) -> list[str]:
    """What is told of a scenario with these offers, the places without file and line."""
    with pytest.raises(ScenarioError) as caught:
        asked(*offers)
    return [f"{fault.where}: {fault.what}; {fault.fix}" for fault in caught.value.faults]
