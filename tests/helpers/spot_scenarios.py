"""Small scenarios that rent on spot, and recorded markets to replay them on."""

from __future__ import annotations

import datetime
import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from planner.library.reading import read_library
from planner.loading.scenario_file import change_scenario, parse_scenario
from planner.results.plan import Plan
from planner.scenario.scenario import Scenario, SolveOptions
from planner.solving.prepare import PreparedScenario, prepare
from planner.solving.solve import solve_prepared

OPTIONS = SolveOptions(as_of=datetime.date(2026, 11, 21))

SPOT = """\
name: nightly
jobs:
  - name: bot
    architecture: tinyllama-1.1b
    work: {tokens: 100e6}
    deadline: 20h
    techniques: {method: lora}
offers:
  - provider: cheap
    gpu: RTX3090
    gpus: 1
    usd_per_hour: 0.4
    spot_usd_per_hour: 0.1
    spot: {availability: 0.7, mean_up_hours: 3}
    fees: {storage_usd_per_gb_month: 0.1, ingress_usd_per_gb: 0.02}
limits: {spot_share: {min: 0.3}, budget_usd: 1.2}
"""

SEVERAL = """\
name: several
jobs:
  - name: trials
    architecture: tinyllama-1.1b
    work: {tokens: 50e6}
    deadline: 60h
    trials: {count: 4, at_once: 2}
    techniques: {method: lora}
  - name: bot
    architecture: tinyllama-1.1b
    work: {tokens: 100e6}
    techniques: {method: lora}
    stages: {ingest: {raw_gb: 20, 'on': [machine]}, export: {}}
offers:
  - provider: cheap
    gpu: RTX3090
    gpus: 1
    usd_per_hour: 0.4
    spot_usd_per_hour: 0.1
    spot: {availability: 0.8, mean_up_hours: 3}
    fees: {storage_usd_per_gb_month: 0.1, ingress_usd_per_gb: 0.02}
limits: {spot_share: {min: 0.3}}
"""

ON_DEMAND = SPOT.replace("    spot_usd_per_hour: 0.1\n", "").replace("{spot_share: {min: 0.3}, budget_usd: 1.2}", "{}")
SPOT_ALONE = SPOT.replace("    usd_per_hour: 0.4\n", "")


@cache
def scenario(text: str = SPOT, *changes: str) -> Scenario:
    return change_scenario(parse_scenario(text), changes)


@cache
def prepared(text: str = SPOT, *changes: str) -> PreparedScenario:
    return prepare(scenario(text, *changes), read_library(["tinyllama-1.1b"]))


@cache
def planned(text: str = SPOT, *changes: str) -> Plan:
    return solve_prepared(prepared(text, *changes), OPTIONS)


def trace(folder: Path, counts: Sequence[int], name: str = "zone", minutes: float = 10) -> Path:
    """A recorded market in a file."""
    path = folder / f"{name}.json"
    path.write_text(json.dumps({"metadata": {"gap_seconds": 60 * minutes}, "data": list(counts)}))
    return path
