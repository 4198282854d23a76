"""Scenarios of generation on one or two made-up offers, small enough to be worked by hand."""

from __future__ import annotations

import datetime
import json
from functools import cache
from typing import Any

from planner.library.reading import read_library
from planner.library.schema import Library
from planner.loading.scenario_file import parse_scenario
from planner.results.plan import Plan
from planner.scenario.scenario import Scenario, SolveOptions
from planner.solving.solve import solve

MODEL = "llama-3.1-8b"
OFFER = {"provider": "cloud", "gpu": "L40S", "gpus": 1, "usd_per_hour": 1.0, "source": "made up"}
OPTIONS = SolveOptions(as_of=datetime.date(2026, 11, 21))


@cache
def library(model: str = MODEL) -> Library:
    """Return the library with a model."""
    return read_library([model])


def scenario(
    work: dict[str, Any] | None = None, offers: list[dict[str, Any]] | None = None, limits: Any = None, **job: Any
) -> Scenario:
    """Return 20,000 prompts of 900 tokens and answers of 150 on one L40S an hour for a dollar, or what is given."""
    amount = {"requests": 20_000, "input_tokens": 900, "output_tokens": 150, **(work or {})}
    made = {"name": "j", "kind": "inference", "architecture": MODEL, "work": amount}
    made["techniques"] = {"engine": "vllm", "weight_bits": 16}
    written = {
        "schema": 2,
        "name": "s",
        "jobs": [{**made, **job}],
        "offers": offers or [OFFER],
        "limits": limits or {},
        "solve": {"ties": 0},
    }
    return parse_scenario(json.dumps(written))


def plan(**changes: Any) -> Plan:
    """Return the plan of `scenario` with changes."""
    return solve(scenario(**changes), OPTIONS, library(changes.get("architecture", MODEL)))
