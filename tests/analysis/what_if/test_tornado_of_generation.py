"""The tornado of a job of generation: its work is a number of requests."""

from __future__ import annotations

import json

import pytest

from planner.analysis.what_if_question import tornado
from planner.loading.scenario_file import parse_scenario
from tests.helpers.reports import OPTIONS

ANSWER = {
    "name": "answer",
    "schema": 2,
    "jobs": [
        {
            "name": "answer",
            "kind": "inference",
            "architecture": "llama-3.1-8b",
            "work": {"requests": 20_000, "input_tokens": 500, "output_tokens": 200},
            "deadline": "20h",
        }
    ],
    "offers": [{"provider": "p", "gpu": "H100-80GB", "gpus": 1, "usd_per_hour": 3.0}],
}


@pytest.mark.slow
def test_requests_are_the_work_of_generation() -> None:
    """Requests are moved down and up like tokens of training; it used to end in an internal error."""
    found = tornado(parse_scenario(json.dumps(ANSWER), file="s.json"), OPTIONS)
    bar = next(bar for bar in found.bars if bar.path.endswith(".work.requests"))
    assert (bar.down.value, bar.base, bar.up.value) == ("16,000", "20,000", "24,000")
    assert bar.down.cost_usd is not None and bar.up.cost_usd is not None
    assert bar.down.cost_usd < bar.up.cost_usd
