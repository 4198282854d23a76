"""The report of a small service with a hostile name, made once per process."""

from __future__ import annotations

import json
from functools import cache

from planner.analysis.overview import overview
from planner.loading.scenario_file import parse_scenario
from planner.report.report_page import render_page
from planner.results.what_if import Overview
from planner.scenario.scenario import Scenario
from tests.helpers.pages import OFFICE
from tests.helpers.reports import HOSTILE, OPTIONS

OFFERS = [
    {**one, "date": "2026-11-01", "source": f"list of {HOSTILE}"} for one in OFFICE["offers"]
]  # with a source that would start a script


def service_scenario() -> Scenario:
    """A service with two kinds of machines and a busier day."""
    return parse_scenario(json.dumps({**OFFICE, "name": HOSTILE, "offers": OFFERS}), file="small.json")


@cache
def service_overview() -> Overview:
    """Every analysis of the small service."""
    return overview(service_scenario(), options=OPTIONS, runs=400)


@cache
def service_page() -> str:
    """Its page, with a file to copy."""
    return render_page(service_overview(), {"plan.json": HOSTILE}, ["a note"])
