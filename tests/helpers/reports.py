"""A small scenario with hostile names, and its report, made once per process."""

from __future__ import annotations

import datetime
import json
from functools import cache

from planner.analysis.overview import overview
from planner.loading.scenario_file import parse_scenario
from planner.report.report_page import render_page
from planner.results.what_if import Overview
from planner.scenario.scenario import Scenario, SolveOptions

OPTIONS = SolveOptions(as_of=datetime.date(2026, 11, 21))
HOSTILE = "</script><script>alert(1)</script><b>"
"""A name that would start a script on a page that does not escape it."""

SMALL = {
    "name": HOSTILE,
    "schema": 2,
    "jobs": [
        {
            "name": HOSTILE,
            "architecture": "tinyllama-1.1b",
            "work": {"tokens": "100M"},
            "deadline": "20h",
            "techniques": {"method": "lora"},
        }
    ],
    "offers": [
        {"provider": "cheap", "gpu": "RTX3090", "gpus": 1, "usd_per_hour": 0.4, "spot_usd_per_hour": 0.1},
        {"provider": "fast", "gpu": "H100-80GB", "gpus": 1, "usd_per_hour": 3.0},
        {"provider": "faster", "gpu": "H100-80GB", "gpus": 8, "usd_per_hour": 26.0},
    ],
}


def small_scenario() -> Scenario:
    """A training job of minutes to hours, on a slow spot machine or on faster ones."""
    return parse_scenario(json.dumps(SMALL), file="small.json")


@cache
def small_overview() -> Overview:
    """Every analysis of the small scenario."""
    return overview(small_scenario(), options=OPTIONS, runs=300)


@cache
def small_page() -> str:
    """Its page, with a file to copy."""
    return render_page(small_overview(), {"plan.json": HOSTILE}, ["a note"])
