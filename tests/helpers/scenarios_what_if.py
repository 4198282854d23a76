"""A small scenario that is quick to solve, and its plans solved from scratch."""

from __future__ import annotations

import datetime
from functools import cache

from hypothesis import settings

from planner.library.reading import read_library
from planner.library.schema import Library
from planner.loading.scenario_file import change_scenario, parse_scenario
from planner.results.plan import Plan
from planner.scenario.scenario import Scenario, SolveOptions
from planner.solving.solve import solve
from tests.helpers.bare_plans import bare_plan

OPTIONS = SolveOptions(as_of=datetime.date(2026, 11, 21))
LAWS = settings(derandomize=True, max_examples=6, deadline=None)

SMALL = """\
name: small
jobs:
  - name: bot
    architecture: tinyllama-1.1b
    work: {tokens: 50e6}
    deadline: 40h
    techniques: {method: lora}
offers:
  - {provider: cheap, gpu: RTX3090, gpus: 1, usd_per_hour: 0.2, spot_usd_per_hour: 0.1}
  - {provider: cheap, gpu: RTX3090, gpus: 4, usd_per_hour: 0.9}
  - {provider: fast, gpu: A100-80GB, gpus: 1, usd_per_hour: 1.6, spot_usd_per_hour: 0.9}
  - {provider: fast, gpu: H100-80GB, gpus: 1, usd_per_hour: 3.1}
  - {provider: fast, gpu: H100-80GB, gpus: 8, usd_per_hour: 26}
limits: {budget_usd: 60, max_gpus: 8, spot_share: {max: 0.5}}
solve: {ties: 0}
"""

TWO = SMALL.replace(
    "offers:",
    """\
  - name: other
    architecture: tinyllama-1.1b
    work: {tokens: 20e6}
    techniques: {method: lora}
offers:""",
)


@cache
def library() -> Library:
    return read_library(["tinyllama-1.1b"])


@cache
def small(text: str = SMALL) -> Scenario:
    return parse_scenario(text)


@cache
def solved(*changes: str, text: str = SMALL, explains: bool = True) -> Plan:
    return solve(change_scenario(small(text), changes), OPTIONS, library(), explains)


@cache
def bare(*changes: str, text: str = SMALL) -> Plan:
    """The strict optimum alone, for tests that compare dollars, hours and machines: a quarter of the time."""
    return bare_plan(change_scenario(small(text), changes), OPTIONS, library())
