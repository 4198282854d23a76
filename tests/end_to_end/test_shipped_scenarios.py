"""Every shipped scenario: recorded on frozen prices, equal on solvers of two families, audited on today's market."""

from __future__ import annotations

import json
import sys
from functools import cache

import pytest

from planner.audit.audit import audit
from planner.documents.strict_yaml import read_document
from planner.library.reading import read_library
from planner.loading.scenario_file import read_scenario, shipped_scenarios
from planner.scenario.choices.definite import architectures_of
from planner.scenario.scenario import SolveOptions
from planner.solving.solve import solve
from tests.helpers.costs import AS_OF, COSTS, machines_of, plan_of
from tests.helpers.frozen_data import FROZEN_MARKET, ROOT, frozen_scenarios

NAMES = sorted(shipped_scenarios())
MARKET = ROOT / "scenarios" / "inventory" / "market.yaml"
ON_THE_MARKET = [name for name in NAMES if "market.yaml" in shipped_scenarios()[name].read_text(encoding="utf-8")]
EXPECTED = json.loads(COSTS.read_text(encoding="utf-8"))
HEAVY = {
    "best-for-200",
    "loss-frontier",
    "serve-office-hours",
    "synthetic-data-70b",
    "team-quota",
    "tune-then-label",
    "two-models",
    "two-models-one-budget",
}
"""Scenarios that take over 5 s to solve: their plans are audited where the long tests solve them anyway."""


def test_every_scenario_has_a_recorded_expectation() -> None:
    """A scenario without a recorded cost, or a record without a scenario, is a forgotten one."""
    assert set(NAMES) == set(EXPECTED) == set(frozen_scenarios())
    assert len(NAMES) >= 16


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_scenario_gives_the_recorded_plan(name: str) -> None:
    """Cost, hours and machines are those of the record: a change of physics shows here, a new price does not."""
    plan, expected = plan_of(name), EXPECTED[name]
    assert plan.status == expected["status"]
    assert machines_of(plan) == expected["jobs"]
    if plan.cost_usd is not None and plan.hours is not None:
        assert plan.cost_usd.expected == pytest.approx(expected["cost_usd"], abs=0.02, rel=1e-6)
        assert plan.hours.expected == pytest.approx(expected["hours"], abs=0.02, rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", [pytest.param(one, marks=pytest.mark.long) if one in HEAVY else one for one in NAMES])
def test_scenario_passes_the_audit_and_says_what_it_shows(name: str) -> None:
    """The independent audit finds nothing, and the description is one line."""
    scenario = read_scenario(frozen_scenarios()[name])
    library = read_library([name for job in scenario.jobs for name in architectures_of(job)])
    assert audit(plan_of(name), scenario, library) == []
    assert scenario.description and "\n" not in scenario.description


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_solver_of_another_family_finds_the_same_optimum(name: str) -> None:
    """CBC (branch and cut of its own) agrees with HiGHS on status and objective, and the plan is the same."""
    one, other = plan_of(name), plan_of(name, "cbc")
    assert other.status == one.status
    if one.services and one.objective is not None and one.gap is not None:  # a path through a pool, within its gap
        assert other.objective == pytest.approx(one.objective, rel=one.gap + 1e-6)
    elif one.objective is not None and one.cost_usd is not None and other.cost_usd is not None:
        assert other.objective == pytest.approx(one.objective, abs=1e-4, rel=1e-6)
        assert other.cost_usd.expected == pytest.approx(one.cost_usd.expected, abs=0.006)
        assert [job.offer for job in other.jobs] == [job.offer for job in one.jobs]


def test_llama_2_70b_from_scratch_takes_about_the_reported_gpu_hours() -> None:
    """Meta reports 1,720,320 A100-80GB hours (arXiv 2307.09288, table 2); restarts and all, within 1.0 to 1.3."""
    (job,) = plan_of("llama-2-70b-2t").jobs
    gpu_hours = job.training_hours * job.gpus
    assert 1.0 / 1.3 < gpu_hours / 1_720_320 < 1.3


def test_quickstart_ends_for_a_few_dollars() -> None:
    """The first thing a user sees: 4-bit LoRA of a 7B model on one GPU, sure to fit, under five dollars."""
    (job,) = plan_of("quickstart").jobs
    assert (job.techniques.method, job.techniques.weight_bits) == ("lora", 4)
    assert job.gpus == 1 and job.vram_gib.fit_probability >= 0.95
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
