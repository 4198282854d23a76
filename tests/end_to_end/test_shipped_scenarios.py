"""Every shipped scenario: recorded on frozen prices, equal on solvers of two families, audited on today's market."""

from __future__ import annotations

import json
import sys
from functools import cache
from importlib import import_module
from typing import Any

import pytest

from planner.cli.options import scenario_of
from planner.documents.files import read_document
from planner.evaluation.audit import audit
from planner.library.reading import read_library
from planner.loading.scenario_file import read_scenario, shipped_scenarios
from planner.report import words
from planner.report.plan_answer import render_answer
from planner.report.plan_text import render
from planner.report.words import WIDTH
from planner.results.plan import Plan
from planner.scenario.job import DEFAULT_MEMORY_CONFIDENCE
from planner.scenario.scenario import Scenario, SolveOptions, architectures_of
from planner.solving.solve import solve
from tests.helpers.costs import AS_OF, COSTS, machines_of, plan_of
from tests.helpers.frozen_data import FROZEN_MARKET, ROOT, frozen_scenarios
from tests.helpers.shown_arithmetic import check_shown_arithmetic
from tests.helpers.worked import check_worked

NAMES = sorted(shipped_scenarios())
PLAN_SCHEMA = Plan.model_json_schema()
MARKET = ROOT / "scenarios" / "inventory" / "market.yaml"
ON_THE_MARKET = [name for name in NAMES if "market.yaml" in shipped_scenarios()[name].read_text(encoding="utf-8")]
EXPECTED = json.loads(COSTS.read_text(encoding="utf-8"))
HEAVY = {
    *("batch-under-deadline", "best-for-200", "loss-frontier", "two-models-one-budget"),
    *("label-2m-documents", "synthetic-data-70b", "tune-then-label"),
    *("many-adapters", "serve-office-hours", "serve-or-api", "serve-week", "tune-then-serve", "two-models"),
    *("infeasible", "llama-2-70b-lora", "llama-2-7b-full-vs-lora", "quickstart-any", "spot-heavy", "team-quota"),
    *("thirteen-b-tight-deadline", "tpu-pretrain", "value-of-time", "own-or-api", "no-4-bit", "pretrain-1b"),
    *("frameworks-long-context", "spot-zones", "spot-waiting", "bill-aws-adapter"),
}
"""Scenarios that take about 2 s and more to solve."""
SOLVED_TWICE = (
    # one of each structure: jobs on one market and on spot, a pool of offers, several jobs and limits, other measures
    *("quickstart", "spot-heavy", "three-jobs-one-budget", "value-of-time"),
    # no plan, whole bills, every way to pay, confidences, further ways
    *("infeasible", "bill-aws-adapter", "bill-marketplace-70b", "bill-runpod-trials", "buy-or-rent"),
    *("pay-commitment-upfront", "pay-hours-left", "pay-managed-run", "pay-own-machine", "stage-evaluation-cpu"),
    *("budget-confidence", "confidence-budget", "memory-confidence", "near-tie", "spot-zones", "two-fallbacks"),
    # choices of models, generation, services
    *("batch-under-deadline", "own-or-api", "serve-or-api", "two-models"),
)


def test_every_scenario_has_a_recorded_expectation() -> None:
    """A scenario without a recorded cost, or a record without a scenario, is a forgotten one."""
    assert set(NAMES) == set(EXPECTED) == set(frozen_scenarios())
    assert len(NAMES) >= 16


@pytest.mark.slow
@pytest.mark.parametrize("name", [pytest.param(one, marks=pytest.mark.long) if one in HEAVY else one for one in NAMES])
def test_scenario_gives_the_recorded_plan_which_passes_the_audit_and_adds_up(name: str) -> None:
    """Cost, hours and machines of the record, nothing for the audit to find, and arithmetic that a reader can follow.

    A change of physics shows in the record, a new price does not. What is worked out by hand at the top of a file is
    what the plan says.
    """
    plan, scenario = plan_of(name), read_scenario(frozen_scenarios()[name])
    assert scenario.description and "\n" not in scenario.description
    _check_record(plan, EXPECTED[name])
    assert audit(plan, scenario, _library(scenario)) == []
    if plan.inputs is not None and plan.jobs:  # with every offer that it rents, and every one that it names
        carried = scenario_of(plan, "plan.json")
        assert audit(plan, carried, _library(carried)) == []
    import_module("jsonschema").validate(plan.model_dump(mode="json", by_alias=True), PLAN_SCHEMA)
    text = render(plan)
    assert max(map(len, render_answer(plan).splitlines())) <= WIDTH
    check_shown_arithmetic(text)
    folder = shipped_scenarios()[name].parent.name
    if folder in ("generation", "timetable"):
        figures = plan.model_dump(mode="json", by_alias=True)
        figures = {**figures["jobs"][0], "jobs": figures["jobs"]} if folder == "generation" else figures
        check_worked(shipped_scenarios()[name].read_text(encoding="utf-8"), figures)
    if folder == "timetable":
        _check_timetable(name, plan)
    if name == "three-jobs-one-budget":  # hours count: the simple rule is cheaper, and later
        assert plan.baseline is not None and plan.objective is not None
        assert plan.baseline.hours >= plan.objective - 1 / 60
        assert f"last finish {words.by(plan.baseline.hours)} (" in text


def _library(scenario: Scenario) -> Any:
    return read_library([name for job in scenario.jobs for name in architectures_of(job)])


def _check_record(plan: Plan, expected: dict[str, Any]) -> None:
    """Check cost, hours and machines."""
    assert plan.status == expected["status"]
    assert machines_of(plan) == expected["jobs"]
    if plan.cost is not None and plan.hours is not None:
        assert plan.cost.expected == pytest.approx(expected["cost_usd"], abs=0.02, rel=1e-6)
        assert plan.hours.expected == pytest.approx(expected["hours"], abs=0.02, rel=1e-5)


def _check_timetable(name: str, plan: Plan) -> None:
    """Check that a timetable is proven, and that no simple rule costs less than its objective."""
    assert plan.status == "optimal"
    if plan.baseline is not None and plan.objective is not None and name != "trials-over-unlike-cards":
        assert plan.baseline.cost_usd >= plan.objective - 0.01


@pytest.mark.long
@pytest.mark.parametrize("name", SOLVED_TWICE)
def test_solver_of_another_family_finds_the_same_optimum(name: str) -> None:
    """CBC (branch and cut of its own) agrees with HiGHS on status and objective, and the plan is the same."""
    one, other = plan_of(name), _plan_of_cbc(read_scenario(frozen_scenarios()[name]))
    assert other.status == one.status
    if one.services and one.objective is not None and one.gap is not None:  # a path through a pool, within its gap
        assert other.objective == pytest.approx(one.objective, rel=one.gap + 1e-6)
    elif one.objective is not None and one.cost is not None and other.cost is not None:
        assert other.objective == pytest.approx(one.objective, abs=1e-4, rel=1e-6)
        assert other.cost.expected == pytest.approx(one.cost.expected, abs=0.006)
        assert [job.offer for job in other.jobs] == [job.offer for job in one.jobs]


def _plan_of_cbc(scenario: Scenario) -> Plan:
    """Return the plan of CBC; where there is none, nothing says why."""
    return solve(scenario, SolveOptions(solver="cbc", as_of=AS_OF), explains=False)


def test_llama_2_70b_from_scratch_takes_about_the_reported_gpu_hours() -> None:
    """Meta reports 1,720,320 A100-80GB hours (arXiv 2307.09288, table 2); restarts and all, within 1.0 to 1.3."""
    (job,) = plan_of("llama-2-70b-2t").jobs
    gpu_hours = job.training_hours * job.gpus
    assert 1.0 / 1.3 < gpu_hours / 1_720_320 < 1.3


@pytest.mark.slow
def test_quickstart_ends_for_a_few_dollars() -> None:
    """The first thing a user sees: 4-bit LoRA of a 7B model on one GPU, likely to fit, under five dollars."""
    (job,) = plan_of("quickstart").jobs
    assert (job.techniques.method, job.techniques.weight_bits) == ("lora", 4)
    assert job.gpus == 1 and job.vram_gib.fit_probability >= DEFAULT_MEMORY_CONFIDENCE
    assert job.cost_usd < 5


@cache
def market_has_changed() -> bool:
    """Whether the market inventory holds other offers than the frozen one."""
    return read_document(MARKET).data != read_document(FROZEN_MARKET).data


@pytest.mark.long
@pytest.mark.parametrize("name", ON_THE_MARKET)
def test_scenario_can_be_planned_on_the_present_market(name: str) -> None:
    """With the market inventory as it ships, each scenario loads; where a price is new, its plan passes the audit."""
    scenario = read_scenario(name)
    if not market_has_changed():
        return  # the same offers as in the tests above
    plan = solve(scenario, SolveOptions(as_of=AS_OF))
    assert audit(plan, scenario, read_library([name for job in scenario.jobs for name in architectures_of(job)])) == []


def test_recorded_figures_rest_on_frozen_prices() -> None:
    """What is recorded is computed without opening the market inventory that ships, so a new price changes nothing."""
    opened: list[str] = []
    watching = [True]
    sys.addaudithook(lambda event, details: opened.append(str(details[0])) if watching and event == "open" else None)
    try:
        read_scenario(frozen_scenarios()["quickstart"])
    finally:
        watching.clear()  # a hook cannot be removed
    assert [path for path in opened if path.endswith("market.yaml")]
    assert str(MARKET) not in opened
