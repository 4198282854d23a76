"""Plan which GPUs to rent and how to train on them: least cost within deadline, budget and memory.

>>> import planner
>>> plan = planner.solve(planner.read_scenario("scenarios/quickstart.yaml"))

Names are imported on first use, so that `planner --help` does not load numpy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.first_use import on_first_use

if TYPE_CHECKING:
    from planner.analysis.calibration.calibrate import calibrate as calibrate
    from planner.analysis.estimate_question import estimate as estimate
    from planner.analysis.estimate_table import estimate_many as estimate_many
    from planner.analysis.explain.limit_sensitivity import explain as explain
    from planner.analysis.explain.limit_sensitivity import explain_technique as explain_technique
    from planner.analysis.frontier.frontier_question import frontier as frontier
    from planner.analysis.market_fit_question import market_fit as market_fit
    from planner.analysis.run_sweep import run_sweep as run_sweep
    from planner.analysis.simulation.job_runs import policy_tables as policy_tables
    from planner.analysis.simulation.job_runs import spot_advice as spot_advice
    from planner.analysis.simulation.simulate_question import simulate as simulate
    from planner.analysis.track_question import track as track
    from planner.analysis.what_if_question import what_if as what_if
    from planner.analysis.what_if_sweep import sweep as sweep
    from planner.analysis.what_if_sweep import tornado as tornado
    from planner.cli.plan_file import read_plan as read_plan
    from planner.errors import CancelledError as CancelledError
    from planner.errors import InputError as InputError
    from planner.errors import LibraryError as LibraryError
    from planner.errors import MissingExtraError as MissingExtraError
    from planner.errors import NoPlanError as NoPlanError
    from planner.errors import PlannerError as PlannerError
    from planner.errors import ScenarioError as ScenarioError
    from planner.errors import SolverError as SolverError
    from planner.errors import TimeIsUpError as TimeIsUpError
    from planner.loading.building import build_scenario as build_scenario
    from planner.loading.building import scenario_yaml as scenario_yaml
    from planner.loading.scenario_file import change_scenario as change_scenario
    from planner.loading.scenario_file import read_scenario as read_scenario
    from planner.report.figures.result_figures import plot as plot
    from planner.report.result_text import text as text
    from planner.results.estimate import Estimate as Estimate
    from planner.results.explanation import Explanation as Explanation
    from planner.results.frontier import Frontier as Frontier
    from planner.results.market_results import MarketFit as MarketFit
    from planner.results.plan import Plan as Plan
    from planner.results.run_results import Tracking as Tracking
    from planner.results.simulation import Simulation as Simulation
    from planner.results.what_if import ManyVariants as ManyVariants
    from planner.results.what_if import Sweep as Sweep
    from planner.results.what_if import Tornado as Tornado
    from planner.results.what_if import WhatIf as WhatIf
    from planner.scenario.scenario import Scenario as Scenario
    from planner.scenario.scenario import SolveOptions as SolveOptions
    from planner.services import simulate_service as simulate_service
    from planner.solving.solve import solve as solve
    from planner.watch import CallProgress as CallProgress
    from planner.watch import watched as watched

_NAMES_BY_MODULE = {
    "planner.analysis.calibration.calibrate": ("calibrate",),
    "planner.analysis.estimate_question": ("estimate",),
    "planner.analysis.estimate_table": ("estimate_many",),
    "planner.analysis.explain.limit_sensitivity": ("explain", "explain_technique"),
    "planner.analysis.frontier.frontier_question": ("frontier",),
    "planner.analysis.market_fit_question": ("market_fit",),
    "planner.analysis.simulation.job_runs": ("policy_tables", "spot_advice"),
    "planner.services": ("simulate_service",),
    "planner.analysis.simulation.simulate_question": ("simulate",),
    "planner.analysis.track_question": ("track",),
    "planner.analysis.run_sweep": ("run_sweep",),
    "planner.analysis.what_if_sweep": ("sweep", "tornado"),
    "planner.analysis.what_if_question": ("what_if",),
    "planner.errors": (
        *("CancelledError", "InputError", "LibraryError", "MissingExtraError", "NoPlanError", "PlannerError"),
        *("ScenarioError", "SolverError", "TimeIsUpError"),
    ),
    "planner.loading.building": ("build_scenario", "scenario_yaml"),
    "planner.cli.plan_file": ("read_plan",),
    "planner.loading.scenario_file": ("change_scenario", "read_scenario"),
    "planner.results.estimate": ("Estimate",),
    "planner.results.explanation": ("Explanation",),
    "planner.results.frontier": ("Frontier",),
    "planner.results.market_results": ("MarketFit",),
    "planner.results.plan": ("Plan",),
    "planner.results.simulation": ("Simulation",),
    "planner.results.run_results": ("Tracking",),
    "planner.results.what_if": ("ManyVariants", "Sweep", "Tornado", "WhatIf"),
    "planner.report.figures.result_figures": ("plot",),
    "planner.report.result_text": ("text",),
    "planner.scenario.scenario": ("Scenario", "SolveOptions"),
    "planner.solving.solve": ("solve",),
    "planner.watch": ("CallProgress", "watched"),
}

__version__ = "0.3.0"

_PUBLIC = ["__version__", *(name for names in _NAMES_BY_MODULE.values() for name in names)]

if not TYPE_CHECKING:  # a type checker reads the imports above
    __all__ = _PUBLIC

__getattr__ = on_first_use(__name__, _NAMES_BY_MODULE)


def __dir__() -> list[str]:
    return _PUBLIC
