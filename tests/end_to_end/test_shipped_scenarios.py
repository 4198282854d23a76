"""Every shipped scenario: solved, audited, equal on solvers of two families, and what was recorded for it."""

from __future__ import annotations

import datetime
import json
from functools import cache

import pytest

from planner.audit.audit import audit
from planner.loading.scenario_file import data_folder, read_library, read_scenario, shipped_scenarios
from planner.results.plan import Plan
from planner.scenario.scenario import SolveOptions
from planner.solving.solve import solve

AS_OF = datetime.date(2026, 11, 21)
FOLDER = data_folder("scenarios")
NAMES = sorted(shipped_scenarios())
EXPECTED = json.loads((FOLDER / "expected" / "costs.json").read_text(encoding="utf-8"))


@cache
def plan_of(name: str, solver: str = "highs") -> Plan:
    return solve(read_scenario(name), SolveOptions(solver=solver, as_of=AS_OF))  # type: ignore[arg-type]


def test_every_scenario_has_a_recorded_expectation() -> None:
    """A scenario without a recorded cost, or a record without a scenario, is a forgotten one."""
    assert set(NAMES) == set(EXPECTED)
    assert len(NAMES) >= 16


@pytest.mark.parametrize("name", NAMES)
def test_scenario_gives_the_recorded_plan(name: str) -> None:
    """Cost, hours and machines are those of the record: a change of physics or prices shows here."""
    plan, expected = plan_of(name), EXPECTED[name]
    assert plan.status == expected["status"]
    machines = [
        f"{job.gpus} x {job.gpu} at {job.provider}, {job.techniques.method} {job.techniques.weight_bits} bit"
        for job in plan.jobs
    ]
    assert machines == expected["jobs"]
    if plan.cost_usd is not None and plan.hours is not None:
        assert plan.cost_usd.expected == pytest.approx(expected["cost_usd"], abs=0.02, rel=1e-6)
        assert plan.hours.expected == pytest.approx(expected["hours"], abs=0.02, rel=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_scenario_passes_the_audit_and_says_what_it_shows(name: str) -> None:
    """The independent audit finds nothing, and the description is one line."""
    scenario = read_scenario(name)
    library = read_library([job.architecture for job in scenario.jobs])
    assert audit(plan_of(name), scenario, library) == []
    assert scenario.description and "\n" not in scenario.description


@pytest.mark.parametrize("name", NAMES)
def test_solver_of_another_family_finds_the_same_optimum(name: str) -> None:
    """CBC (branch and cut of its own) agrees with HiGHS on status and objective, and the plan is the same."""
    one, other = plan_of(name), plan_of(name, "cbc")
    assert other.status == one.status
    if one.objective is not None and one.cost_usd is not None and other.cost_usd is not None:
        assert other.objective == pytest.approx(one.objective, abs=1e-4, rel=1e-6)
        assert other.cost_usd.expected == pytest.approx(one.cost_usd.expected, abs=0.006)
        assert [job.offer for job in other.jobs] == [job.offer for job in one.jobs]


def test_llama_2_70b_from_scratch_takes_about_the_reported_gpu_hours() -> None:
    """Meta reports 1,720,320 A100-80GB hours (arXiv 2307.09288, table 2); restarts and all, within 1.0 to 1.3."""
    (job,) = plan_of("llama-2-70b-2t").jobs
    gpu_hours = job.training_hours * job.gpus
    assert 1.0 / 1.3 < gpu_hours / 1_720_320 < 1.3


def test_quickstart_ends_on_a_small_card_for_a_few_dollars() -> None:
    """The first thing a user sees: 4-bit LoRA of a 7B network on a card of 24 GiB or less, under five dollars."""
    (job,) = plan_of("quickstart").jobs
    assert (job.techniques.method, job.techniques.weight_bits) == ("lora", 4)
    assert job.vram_gib.usable <= 24
    assert job.cost_usd < 5
