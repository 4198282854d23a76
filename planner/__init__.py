"""Plan which GPUs to rent and how to train on them: least cost within deadline, budget and memory.

>>> import planner
>>> plan = planner.solve(planner.read_scenario("scenarios/quickstart.yaml"))

Names are imported on first use, so that `planner --help` does not load numpy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from planner.analysis.calibration.calibrate import calibrate
    from planner.analysis.estimate.estimate import estimate
    from planner.analysis.explain.explain import explain
    from planner.analysis.frontier.frontier import frontier
    from planner.analysis.market_fit import market_fit
    from planner.analysis.simulation.policy_advice import policy_tables, spot_advice
    from planner.analysis.simulation.simulate import simulate
    from planner.analysis.what_if.sweep import sweep
    from planner.analysis.what_if.tornado import tornado
    from planner.analysis.what_if.what_if import what_if
    from planner.errors import InputError, LibraryError, NoPlanError, PlannerError, ScenarioError, SolverError
    from planner.loading.scenario_file import read_scenario
    from planner.results.estimate import Estimate
    from planner.results.explanation import Explanation
    from planner.results.frontier import Frontier
    from planner.results.market_fit import MarketFit
    from planner.results.plan import Plan
    from planner.results.simulation import Simulation
    from planner.results.what_if import Sweep, Tornado, WhatIf
    from planner.scenario.scenario import Scenario, SolveOptions
    from planner.solving.solve import solve

_HOME = {
    "read_scenario": "planner.loading.scenario_file",
    "solve": "planner.solving.solve",
    "frontier": "planner.analysis.frontier.frontier",
    "Frontier": "planner.results.frontier",
    "calibrate": "planner.analysis.calibration.calibrate",
    "estimate": "planner.analysis.estimate.estimate",
    "market_fit": "planner.analysis.market_fit",
    "MarketFit": "planner.results.market_fit",
    "simulate": "planner.analysis.simulation.simulate",
    "Simulation": "planner.results.simulation",
    "policy_tables": "planner.analysis.simulation.policy_advice",
    "spot_advice": "planner.analysis.simulation.policy_advice",
    "Estimate": "planner.results.estimate",
    "explain": "planner.analysis.explain.explain",
    "Explanation": "planner.results.explanation",
    "what_if": "planner.analysis.what_if.what_if",
    "sweep": "planner.analysis.what_if.sweep",
    "tornado": "planner.analysis.what_if.tornado",
    "WhatIf": "planner.results.what_if",
    "Sweep": "planner.results.what_if",
    "Tornado": "planner.results.what_if",
    "Scenario": "planner.scenario.scenario",
    "SolveOptions": "planner.scenario.scenario",
    "Plan": "planner.results.plan",
    "PlannerError": "planner.errors",
    "InputError": "planner.errors",
    "ScenarioError": "planner.errors",
    "LibraryError": "planner.errors",
    "SolverError": "planner.errors",
    "NoPlanError": "planner.errors",
}

__all__ = [
    "Estimate",
    "Explanation",
    "Frontier",
    "InputError",
    "LibraryError",
    "MarketFit",
    "NoPlanError",
    "Plan",
    "PlannerError",
    "Scenario",
    "ScenarioError",
    "Simulation",
    "SolveOptions",
    "SolverError",
    "Sweep",
    "Tornado",
    "WhatIf",
    "__version__",
    "calibrate",
    "estimate",
    "explain",
    "frontier",
    "market_fit",
    "policy_tables",
    "read_scenario",
    "simulate",
    "solve",
    "spot_advice",
    "sweep",
    "tornado",
    "what_if",
]


def __getattr__(name: str) -> Any:
    """Return a public name, imported on first use (PEP 562)."""
    if name == "__version__":
        return _version()
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


def _version() -> str:
    """Return the installed version; `0+unknown` in a checkout that is not installed."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("finetune-planner")
    except PackageNotFoundError:
        return "0+unknown"
