"""Plan which GPUs to rent and how to train on them: least cost within deadline, budget and memory.

>>> import planner
>>> plan = planner.solve(planner.read_scenario("scenarios/quickstart.yaml"))

Names are imported on first use, so that `planner --help` does not load numpy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from planner.analysis.calibrate_question import calibrate as calibrate
    from planner.analysis.estimate_question import estimate as estimate
    from planner.analysis.estimate_table import estimate_many as estimate_many
    from planner.analysis.frontier_question import frontier as frontier
    from planner.analysis.job_runs import policy_tables as policy_tables
    from planner.analysis.job_runs import spot_advice as spot_advice
    from planner.analysis.limit_sensitivity import explain as explain
    from planner.analysis.limit_sensitivity import explain_technique as explain_technique
    from planner.analysis.market_paths import market_fit as market_fit
    from planner.analysis.probe_question import judge_probe as judge_probe
    from planner.analysis.run_sweep import run_sweep as run_sweep
    from planner.analysis.simulate_question import simulate as simulate
    from planner.analysis.track_question import Stated as Stated
    from planner.analysis.track_question import track as track
    from planner.analysis.what_if_question import sweep as sweep
    from planner.analysis.what_if_question import tornado as tornado
    from planner.analysis.what_if_question import what_if as what_if
    from planner.cli.functions import architectures as architectures
    from planner.cli.functions import check as check
    from planner.cli.functions import export as export
    from planner.cli.functions import gpus as gpus
    from planner.cli.functions import import_architecture as import_architecture
    from planner.cli.functions import import_offers as import_offers
    from planner.cli.functions import offers as offers
    from planner.cli.functions import plan_scenario as plan_scenario
    from planner.cli.functions import probe as probe
    from planner.cli.functions import read_training_config as read_training_config
    from planner.cli.functions import update_prices as update_prices
    from planner.cli.functions import write_report as write_report
    from planner.cli.options import read_plan as read_plan
    from planner.errors import AuditError as AuditError
    from planner.errors import CancelledError as CancelledError
    from planner.errors import Fault as Fault
    from planner.errors import InputError as InputError
    from planner.errors import LibraryError as LibraryError
    from planner.errors import MissingExtraError as MissingExtraError
    from planner.errors import NoPlanError as NoPlanError
    from planner.errors import PlannerError as PlannerError
    from planner.errors import ScenarioError as ScenarioError
    from planner.errors import SolverError as SolverError
    from planner.errors import TimeIsUpError as TimeIsUpError
    from planner.evaluation.comparison import Violation as Violation
    from planner.generation import estimate_inference as estimate_inference
    from planner.library.schema import Architecture as Architecture
    from planner.library.schema import GpuSpec as GpuSpec
    from planner.library.schema import Library as Library
    from planner.loading.question import build_scenario as build_scenario
    from planner.loading.question import scenario_yaml as scenario_yaml
    from planner.loading.scenario_file import change_scenario as change_scenario
    from planner.loading.scenario_file import read_scenario as read_scenario
    from planner.open_choices import calibrate_losses as calibrate_losses
    from planner.open_choices import loss_frontier as loss_frontier
    from planner.reinforcement import PreferenceEstimate as PreferenceEstimate
    from planner.reinforcement import RlEstimate as RlEstimate
    from planner.reinforcement import estimate_preference as estimate_preference
    from planner.reinforcement import estimate_rl as estimate_rl
    from planner.report.any_result import Picture as Picture
    from planner.report.any_result import plot as plot
    from planner.report.any_result import text as text
    from planner.results.explanation import Explanation as Explanation
    from planner.results.explanation import TechniqueAnswer as TechniqueAnswer
    from planner.results.fleet import InferenceEstimate as InferenceEstimate
    from planner.results.fleet import Service as Service
    from planner.results.frontier import Frontier as Frontier
    from planner.results.market_results import MarketFit as MarketFit
    from planner.results.market_results import PriceUpdate as PriceUpdate
    from planner.results.plan import Assignment as Assignment
    from planner.results.plan import Plan as Plan
    from planner.results.plan_parts import Infeasible as Infeasible
    from planner.results.plan_parts import Relaxation as Relaxation
    from planner.results.result_tables import Result as Result
    from planner.results.result_tables import Table as Table
    from planner.results.run_results import CalibrationResult as CalibrationResult
    from planner.results.run_results import Estimate as Estimate
    from planner.results.run_results import ProbeVerdict as ProbeVerdict
    from planner.results.run_results import Tracking as Tracking
    from planner.results.service_results import ServiceFrontier as ServiceFrontier
    from planner.results.service_results import ServiceSimulation as ServiceSimulation
    from planner.results.simulation import Simulation as Simulation
    from planner.results.subject_runs import LossCalibration as LossCalibration
    from planner.results.subject_runs import LossFrontier as LossFrontier
    from planner.results.what_if import ManyVariants as ManyVariants
    from planner.results.what_if import Sweep as Sweep
    from planner.results.what_if import Tornado as Tornado
    from planner.results.what_if import WhatIf as WhatIf
    from planner.scenario.job import Job as Job
    from planner.scenario.limits import Limits as Limits
    from planner.scenario.offer import Offer as Offer
    from planner.scenario.scenario import Scenario as Scenario
    from planner.scenario.scenario import SolveOptions as SolveOptions
    from planner.services import service_frontier as service_frontier
    from planner.services import simulate_service as simulate_service
    from planner.solving.solve import solve as solve
    from planner.watch import CallProgress as CallProgress
    from planner.watch import watched as watched

_NAMES_BY_MODULE = {
    "planner.analysis.calibrate_question": ("calibrate",),
    "planner.analysis.estimate_question": ("estimate",),
    "planner.analysis.estimate_table": ("estimate_many",),
    "planner.analysis.limit_sensitivity": ("explain", "explain_technique"),
    "planner.analysis.frontier_question": ("frontier",),
    "planner.analysis.market_paths": ("market_fit",),
    "planner.analysis.probe_question": ("judge_probe",),
    "planner.analysis.run_sweep": ("run_sweep",),
    "planner.analysis.job_runs": ("policy_tables", "spot_advice"),
    "planner.analysis.simulate_question": ("simulate",),
    "planner.analysis.track_question": ("Stated", "track"),
    "planner.analysis.what_if_question": ("sweep", "tornado", "what_if"),
    "planner.cli.functions": (
        "architectures",
        "check",
        "export",
        "gpus",
        "import_architecture",
        "import_offers",
        "offers",
        "plan_scenario",
        "probe",
        "read_training_config",
        "update_prices",
        "write_report",
    ),
    "planner.cli.options": ("read_plan",),
    "planner.errors": (
        "AuditError",
        "CancelledError",
        "Fault",
        "InputError",
        "LibraryError",
        "MissingExtraError",
        "NoPlanError",
        "PlannerError",
        "ScenarioError",
        "SolverError",
        "TimeIsUpError",
    ),
    "planner.evaluation.comparison": ("Violation",),
    "planner.generation": ("estimate_inference",),
    "planner.library.schema": ("Architecture", "GpuSpec", "Library"),
    "planner.loading.question": ("build_scenario", "scenario_yaml"),
    "planner.loading.scenario_file": ("change_scenario", "read_scenario"),
    "planner.open_choices": ("calibrate_losses", "loss_frontier"),
    "planner.reinforcement": ("PreferenceEstimate", "RlEstimate", "estimate_preference", "estimate_rl"),
    "planner.report.any_result": ("Picture", "plot", "text"),
    "planner.results.subject_runs": ("LossCalibration", "LossFrontier"),
    "planner.results.run_results": ("CalibrationResult", "Estimate", "ProbeVerdict", "Tracking"),
    "planner.results.explanation": ("Explanation", "TechniqueAnswer"),
    "planner.results.fleet": ("InferenceEstimate", "Service"),
    "planner.results.frontier": ("Frontier",),
    "planner.results.market_results": ("MarketFit", "PriceUpdate"),
    "planner.results.plan": ("Assignment", "Plan"),
    "planner.results.plan_parts": ("Infeasible", "Relaxation"),
    "planner.results.service_results": ("ServiceFrontier", "ServiceSimulation"),
    "planner.results.simulation": ("Simulation",),
    "planner.results.result_tables": ("Result", "Table"),
    "planner.results.what_if": ("ManyVariants", "Sweep", "Tornado", "WhatIf"),
    "planner.scenario.job": ("Job",),
    "planner.scenario.limits": ("Limits",),
    "planner.scenario.offer": ("Offer",),
    "planner.scenario.scenario": ("Scenario", "SolveOptions"),
    "planner.services": ("service_frontier", "simulate_service"),
    "planner.solving.solve": ("solve",),
    "planner.watch": ("CallProgress", "watched"),
}

__version__ = "0.4.0"

_PUBLIC = ["__version__", *(name for names in _NAMES_BY_MODULE.values() for name in names)]


def on_first_use(package: str, names_by_module: Mapping[str, tuple[str, ...]]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package, which imports each name from its module when it is asked for (PEP 562)."""
    home = {name: module for module, names in names_by_module.items() for name in names}

    def find(name: str) -> Any:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(home[name]), name)

    return find


if not TYPE_CHECKING:  # a type checker reads the imports above, and refuses a name that is not among them
    __all__ = _PUBLIC
    _find = on_first_use(__name__, _NAMES_BY_MODULE)

    def __getattr__(name: str) -> object:
        """Return a public name; functions speak of their arguments, where commands speak of options."""
        value = _find(name)
        from planner.errors import said_in_python

        return said_in_python(value)


def __dir__() -> list[str]:
    return _PUBLIC
