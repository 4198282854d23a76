"""What to rent and how to train on it: least cost within deadline, budget and VRAM, with a proof.

>>> import planner
>>> plan = planner.solve(planner.read_scenario("scenarios/quickstart.yaml"))

Names are loaded when they are first asked for, so that `planner --help` does not wait for numpy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from planner.advising import policy_tables, spot_advice
    from planner.calibrating import calibrate
    from planner.comparisons import Sweep, Tornado, WhatIf
    from planner.errors import InputError, LibraryError, NoPlanError, PlannerError, ScenarioError, SolverError
    from planner.estimating import estimate
    from planner.estimation import Estimate
    from planner.explaining import explain
    from planner.explanations import Explanation
    from planner.fits import MarketFit
    from planner.frontiers import Frontier
    from planner.loading import read_scenario
    from planner.market_fitting import market_fit
    from planner.pareto import frontier
    from planner.plan import Plan
    from planner.replays import Simulation
    from planner.scenario import Scenario, SolveOptions
    from planner.sensitivity import what_if
    from planner.simulating import simulate
    from planner.solving import solve
    from planner.sweeps import sweep
    from planner.tornados import tornado

_HOME = {
    "read_scenario": "planner.loading",
    "solve": "planner.solving",
    "frontier": "planner.pareto",
    "Frontier": "planner.frontiers",
    "calibrate": "planner.calibrating",
    "estimate": "planner.estimating",
    "market_fit": "planner.market_fitting",
    "MarketFit": "planner.fits",
    "simulate": "planner.simulating",
    "Simulation": "planner.replays",
    "policy_tables": "planner.advising",
    "spot_advice": "planner.advising",
    "Estimate": "planner.estimation",
    "explain": "planner.explaining",
    "Explanation": "planner.explanations",
    "what_if": "planner.sensitivity",
    "sweep": "planner.sweeps",
    "tornado": "planner.tornados",
    "WhatIf": "planner.comparisons",
    "Sweep": "planner.comparisons",
    "Tornado": "planner.comparisons",
    "Scenario": "planner.scenario",
    "SolveOptions": "planner.scenario",
    "Plan": "planner.plan",
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
    """The public name, imported on first use (PEP 562)."""
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
    """The installed version; `0+unknown` in a checkout that was never installed."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("finetune-planner")
    except PackageNotFoundError:
        return "0+unknown"
