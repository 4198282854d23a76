"""Laws: what is saved and read again is equal, and gives the same answer, whatever made it."""

from __future__ import annotations

import copy
import datetime
import importlib
import pickle
import pkgutil
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

import planner
from planner.errors import Fault, InputError, PlannerError
from planner.library.reading import read_library
from planner.loading.scenario_file import parse_scenario, shipped_scenarios
from planner.scenario.scenario import scenario_data
from tests.helpers.open_scenarios import OPEN
from tests.helpers.probes import probed, write_probe_file
from tests.helpers.scenarios_what_if import small
from tests.helpers.services import desk
from tests.services.test_jobs_and_services import both

OPTIONS = planner.SolveOptions(as_of=datetime.date(2026, 11, 21))
LOG = "step,elapsed_seconds\n" + "".join(f"{step},{20 * step}\n" for step in range(1, 101))
HOURS = range(0, 400 * 3600, 600)
TRACE = "time_seconds,available\n" + "".join(f"{time},{int(time % 36000 < 28800)}\n" for time in HOURS)
VARY = ["jobs.0.deadline=2h:12h:5h"]


@cache
def saved_plan() -> planner.Plan:
    return planner.solve("quickstart", OPTIONS)


def tracked(folder: Path) -> planner.Tracking:
    plan = saved_plan()
    return planner.track(plan, planner.plan_scenario(plan), [written(folder / "steps.csv", LOG)])


def judged(folder: Path) -> planner.ProbeVerdict:
    plan = saved_plan()
    path = write_probe_file(folder, probed(plan, 1.5))
    return planner.judge_probe(plan, planner.plan_scenario(plan), path)


def calibrated(folder: Path) -> planner.CalibrationResult:
    log = written(folder / "steps.csv", LOG)
    return planner.calibrate([log], "A10G", tokens_per_step=8192, method="lora", weight_bits=4)


def written(path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8")
    return str(path)


def wrong_figure(_: Path) -> planner.Violation:
    plan = saved_plan()
    (job,) = plan.jobs
    return planner.check(plan.model_copy(update={"jobs": (job.model_copy(update={"cost_usd": 1.0}),)}))[0]


MADE: dict[str, Callable[[Path], Any]] = {
    "plan": lambda _: saved_plan(),
    "no plan": lambda _: planner.solve(planner.change_scenario(small(), ["jobs.bot.deadline=1m"]), OPTIONS),
    "plan of a service": lambda _: planner.solve(desk(), OPTIONS),
    "plan of a choice": lambda _: planner.solve(parse_scenario(OPEN), OPTIONS),
    "frontier": lambda _: planner.frontier(small(), OPTIONS),
    "frontier of a service": lambda _: planner.frontier(desk(), OPTIONS, points=2),
    "frontier of losses": lambda _: planner.frontier(parse_scenario(OPEN), OPTIONS, points=2),
    "sweep": lambda _: planner.sweep(small(), VARY, options=OPTIONS),
    "sweep with a file": lambda folder: planner.run_sweep("quickstart", VARY, str(folder / "out.csv"), workers=1),
    "tornado": lambda _: planner.tornado(small(), OPTIONS),
    "what if": lambda _: planner.what_if(small(), {"jobs.0.deadline": "2h"}, OPTIONS),
    "explanation": lambda _: planner.explain("quickstart", why_not="gpu=RTX4090", options=OPTIONS),
    "explanation of both": lambda _: planner.explain(both(), options=OPTIONS),
    "answer on a technique": lambda _: planner.explain_technique("quickstart", "shared_layers"),
    "simulation": lambda _: planner.simulate("quickstart", options=OPTIONS, runs=20),
    "simulation of a service": lambda _: planner.simulate_service(desk(), options=OPTIONS, runs=100),
    "estimate": lambda _: planner.estimate("llama-3.1-8b", "A10G", weight_bits=4),
    "estimates": lambda _: planner.estimate_many([{"architecture": "llama-3.1-8b", "gpu": "A10G"}]),
    "estimate of inference": lambda _: planner.estimate_inference("llama-3.1-8b", "A10G"),
    "estimate of reinforcement learning": lambda _: planner.estimate_rl("qwen2.5-1.5b", "2xH100", output=300),
    "estimate of preference tuning": lambda _: planner.estimate_preference("qwen2.5-1.5b", "A10G"),
    "offers": lambda _: planner.offers(gpu="L40S"),
    "GPUs": lambda _: planner.gpus(),
    "models": lambda _: planner.architectures("tiny"),
    "violation": wrong_figure,
    "market": lambda folder: planner.market_fit(written(folder / "zone.csv", TRACE)),
    "tracking": tracked,
    "calibration": calibrated,
    "probe": judged,
    "law of loss": lambda folder: planner.calibrate_losses(
        written(folder / "runs.csv", "parameters,tokens,loss\n256M,5B,2.9\n")
    ),
    "scenario": lambda _: planner.read_scenario("quickstart"),
    "library": lambda _: read_library(["mistral-7b"]),
}
"""A result of every public function, by what it is."""
QUICK = (
    "plan",
    "estimate",
    "estimate of inference",
    "offers",
    "GPUs",
    "models",
    "violation",
    "market",
    "scenario",
    "library",
)


def assert_kept(made: Any) -> None:
    """Pickled, copied and as its own JSON, with and without the keys of files, it is equal; so is its text."""
    kept = [pickle.loads(pickle.dumps(made)), copy.deepcopy(made)]
    if isinstance(made, BaseModel) and not isinstance(made, planner.Scenario | planner.Library):  # which have files
        kept += [type(made).model_validate_json(made.model_dump_json(by_alias=alias)) for alias in (True, False)]
        kept.append(type(made).model_validate(made.model_dump(by_alias=True)))
    if isinstance(made, planner.Result):
        kept.append(type(made).from_json(made.to_json()))
    for again in kept:
        assert type(again) is type(made) and again == made
        assert str(again) == str(made)


@pytest.mark.parametrize("what", QUICK)
def test_results_survive(what: str, tmp_path: Path) -> None:
    """Those that are made in a moment."""
    assert_kept(MADE[what](tmp_path))


@pytest.mark.long
@pytest.mark.parametrize("what", sorted({*MADE} - {*QUICK}))
def test_longer_results_survive(what: str, tmp_path: Path) -> None:
    """Those that search for a while."""
    assert_kept(MADE[what](tmp_path))


def test_every_public_result_is_among_them() -> None:
    """Each public class of a result that stands by itself is made by a function above."""
    returned = {name for name in planner.__all__ if isinstance(getattr(planner, name), type)}
    results = {name for name in returned if issubclass(getattr(planner, name), planner.Result)}
    assert results == {
        *("CalibrationResult", "Estimate", "Explanation", "Frontier", "InferenceEstimate", "LossCalibration"),
        "LossFrontier",
        *("ManyVariants", "MarketFit", "Plan", "PreferenceEstimate", "ProbeVerdict", "Result", "RlEstimate"),
        *("ServiceFrontier", "ServiceSimulation"),
        *("Simulation", "Sweep", "TechniqueAnswer", "Tornado", "Tracking", "WhatIf"),
    }


# Scenarios: they are saved as files.


SCENARIOS = sorted(shipped_scenarios())
SOLVED_AGAIN = ("quickstart", "spot-heavy", "no-4-bit", "serve-office-hours", "label-2m-documents")


@pytest.mark.long
@pytest.mark.parametrize("name", SCENARIOS)
def test_shipped_scenarios_survive(name: str) -> None:
    """As a file, as the mapping of one, pickled and copied; files of loads and inventories stay where they were."""
    scenario = planner.read_scenario(name)
    folder = shipped_scenarios()[name].parent
    again = [pickle.loads(pickle.dumps(scenario)), copy.deepcopy(scenario)]
    again += [planner.Scenario.from_yaml(text, folder) for text in (scenario.to_yaml(), scenario.to_json())]
    again.append(planner.build_scenario(scenario_data(scenario), folder=folder))
    for read in again:
        assert read == scenario


@pytest.mark.long
@pytest.mark.parametrize("name", SOLVED_AGAIN)
def test_saved_scenarios_have_the_same_plan(name: str, tmp_path: Path) -> None:
    """To the cent and to the machine, saved as a file and pickled after that; each alone is an equal scenario."""
    scenario = planner.read_scenario(name, {"limits.max_price_age": "120d", "limits.spot": name == "spot-heavy"})
    file = written(tmp_path / "kept.yaml", planner.scenario_yaml(scenario))
    saved = pickle.loads(pickle.dumps(planner.read_scenario(file)))
    plans = [planner.solve(one, OPTIONS) for one in (scenario, saved)]
    unlike = {"seconds": 0.0}
    assert len({plan.model_copy(update=unlike).model_dump_json() for plan in plans}) == 1


@pytest.mark.parametrize("by_alias", [True, False])
@pytest.mark.parametrize("name", ["quickstart", "serve-office-hours"])
def test_a_dump_is_no_scenario(name: str, by_alias: bool) -> None:
    """A dump lacks what a file says: it is refused with the way to save, not planned as another scenario."""
    dump = planner.read_scenario(name).model_dump_json(by_alias=by_alias)
    with pytest.raises(planner.ScenarioError, match=r"planner\.scenario_yaml"):
        planner.Scenario.model_validate_json(dump)


def test_what_is_no_result_is_a_fault_with_its_place() -> None:
    """A text of something else, and one that is cut off."""
    for text in ("{}", "[1]", '{"scenario": '):
        with pytest.raises(InputError, match="give what to_json wrote"):
            planner.Plan.from_json(text)


# Errors cross the border of a process.


def error_kinds() -> list[type[PlannerError]]:
    """Return every class of error, all modules imported."""
    for module in pkgutil.walk_packages(planner.__path__, "planner."):
        if not module.name.endswith("__main__") and ".web" not in module.name:
            importlib.import_module(module.name)
    open_, found = [PlannerError], list[type[PlannerError]]()
    while open_:
        found.append(open_.pop())
        open_ += found[-1].__subclasses__()
    return found


def raise_it(kind: type[PlannerError]) -> None:
    raise kind([Fault("a.yaml", 3, "jobs.0", "wrong", "mend it")]) if issubclass(kind, InputError) else kind("no plan")


@pytest.mark.slow
def test_errors_survive_a_pool_of_processes() -> None:
    """Each is raised in a worker and caught in the caller with its text and faults; the pool goes on."""
    kinds = error_kinds()
    assert len(kinds) > 9
    with ProcessPoolExecutor(1, get_context("fork")) as pool:
        for kind in kinds:
            found = pool.submit(raise_it, kind).exception()
            assert type(found) is kind
            if isinstance(found, InputError):
                assert found.faults == (Fault("a.yaml", 3, "jobs.0", "wrong", "mend it"),)
            else:
                assert str(found) == "no plan"
