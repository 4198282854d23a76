"""Cost, hours and machines of every shipped scenario on frozen prices, as `tests/data/costs.json` records them."""

from __future__ import annotations

import datetime
from functools import cache
from typing import Any

from planner.loading.scenario_file import read_scenario
from planner.results.plan import Plan
from planner.scenario.scenario import SolveOptions
from planner.solving.solve import solve
from tests.helpers.computed_once import once_in_a_run
from tests.helpers.frozen_data import ROOT, frozen_scenarios

COSTS = ROOT / "tests" / "data" / "costs.json"
AS_OF = datetime.date(2026, 11, 21)
OPTIONS = SolveOptions(as_of=AS_OF)


@cache
def plan_of(name: str) -> Plan:
    """Return the plan of a shipped scenario on frozen prices, which all processes of a run of tests solve once."""
    return once_in_a_run(f"{name}.plan", lambda: solve(read_scenario(frozen_scenarios()[name]), OPTIONS))


def machines_of(plan: Plan) -> list[str]:
    """Return what each job of a plan runs on and how, in words."""
    of_rl = [(run, pool) for run in plan.reinforcement for pool in run.pools]
    found = [f"{pool.gpus} x {pool.gpu} at {pool.provider}, {pool.market}: {run.placement}" for run, pool in of_rl]
    found += [
        f"{job.gpus} x {job.gpu} at {job.provider}, {job.techniques.method} {job.techniques.weight_bits} bit"
        for job in plan.jobs
    ]
    return found + [
        f"{min(kind.by_hour)} to {max(kind.by_hour)} of {kind.gpus} x {kind.gpu} at {kind.provider}, {kind.market}"
        for service in plan.services
        for kind in service.fleet.kinds
    ]


def recorded_costs() -> dict[str, dict[str, Any]]:
    """Return what is recorded of each scenario, by name."""
    return {name: _record(plan_of(name)) for name in sorted(frozen_scenarios())}


def _record(plan: Plan) -> dict[str, Any]:
    return {
        "status": plan.status,
        "cost_usd": None if plan.cost is None else round(plan.cost.expected, 2),
        "hours": None if plan.hours is None else round(plan.hours.expected, 2),
        "jobs": machines_of(plan),
    }
