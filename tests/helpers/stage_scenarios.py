"""Small scenarios with stages, trials and ways to pay, solved (and so audited), for figures worked out by hand.

TinyLlama (2.200096768 GB, 1,100,048,384 weights) trained in full on one A100-80GB at $2 an hour: 10,000,000 tokens in
batches of 16 sequences. Where nothing else is said the line pulls 0.5 GB/s, the machine's disk reaches 1 GB/s, the
storage that the job trains from 0.5 GB/s.
"""

from __future__ import annotations

import copy
import datetime
from functools import cache
from typing import Any

from planner.library.reading import read_library
from planner.library.schema import Library
from planner.loading.scenario_file import parse_scenario
from planner.results.plan import Assignment, Plan
from planner.scenario.scenario import Scenario, SolveOptions
from planner.solving.solve import solve
from tests.helpers.scenarios import json_text

AS_OF = datetime.date(2026, 1, 1)

RENTED: dict[str, Any] = {"provider": "p", "gpu": "A100-80GB", "gpus": 1, "usd_per_hour": 2.0, "date": "2025-12-01"}
CPU: dict[str, Any] = {"provider": "c", "cpu_cores": 16, "ram_gb": 32, "usd_per_hour": 0.6}
JOB: dict[str, Any] = {
    "name": "job",
    "architecture": "tinyllama-1.1b",
    "work": {"tokens": 1e7},
    "global_batch": 16,
    "techniques": {"method": "full", "activation_checkpointing": "none", "optimizer": "adamw"},
}
LORA = {"method": "lora", "weight_bits": 16, "activation_checkpointing": "none"}

WEIGHTS_GB = 2.200096768
LOAD_SECONDS = WEIGHTS_GB / 0.3 + WEIGHTS_GB / 12 + 15
"""Read at 0.6 of 0.5 GB/s, moved over half of a slot of 24 GB/s, 15 s of imports: 22.517 s."""
START_SECONDS = 160 + 20 + WEIGHTS_GB / 0.5 + LOAD_SECONDS
"""Boot 160 s, an image of 10 GB and the weights at 0.5 GB/s, load: 206.917 s."""
RESUME_GB = 14 * 1.100048384
"""A checkpoint that training goes on from, 14 bytes per weight: 15.401 GB."""


@cache
def library() -> Library:
    return read_library(["tinyllama-1.1b", "stable-diffusion-1.5"])


def question(*offers: dict[str, Any], limits: dict[str, Any] | None = None, **job: Any) -> dict[str, Any]:
    """The small job with other settings on these offers, else on the rented one, for its strict optimum."""
    rented = list(offers) or [RENTED]
    data = {"name": "s", "offers": rented, "jobs": [{**JOB, **job}], "limits": limits or {}, "solve": {"ties": 0}}
    return copy.deepcopy(data)


def read(data: dict[str, Any]) -> Scenario:
    """The scenario of plain data."""
    return parse_scenario(json_text(data))


def asked(*offers: dict[str, Any], limits: dict[str, Any] | None = None, **job: Any) -> Scenario:
    """The same as a scenario."""
    return read(question(*offers, limits=limits, **job))


def solved(scenario: Scenario) -> Plan:
    """The plan; AuditError where it does not stand up to the audit."""
    return solve(scenario, SolveOptions(as_of=AS_OF), library())


def planned(*offers: dict[str, Any], limits: dict[str, Any] | None = None, **job: Any) -> Assignment:
    """How the one job is run."""
    return solved(asked(*offers, limits=limits, **job)).assignment(JOB["name"])


def run_hours(told: Assignment) -> float:
    """One run's training, from the seconds per step that the plan tells: 3 % more than its steps on one node."""
    return told.steps * told.step_seconds / 3600 * 1.03


def line(told: Assignment, item: str) -> tuple[float, float]:
    """Quantity and dollars of a line of the bill; 0 where there is none."""
    return next(((one.quantity or 0.0, one.usd) for one in told.bill if one.item == item), (0.0, 0.0))
