"""Portfolios of many jobs without time: what is kept of each job is all that the plan needs."""

from __future__ import annotations

from typing import Any

import pytest

from planner.scenario.scenario import Scenario, SolveOptions
from planner.solving import prepare as slimming
from planner.solving import solve as solving
from planner.solving.prepare import prepare
from planner.solving.solve import solve_prepared
from tests.helpers.stage_scenarios import AS_OF, JOB, RENTED, library, read

FAST = {**RENTED, "provider": "q", "gpus": 2, "usd_per_hour": 4.2}


def portfolio(count: int, **more: Any) -> Scenario:
    """Jobs of different lengths on one or two GPUs, which they share with a quota."""
    jobs = [
        {**JOB, "name": f"job-{k}", "work": {"tokens": (1 + k % 3) * 1e7}, "deadline": f"{2 + k % 2}h"}
        for k in range(count)
    ]
    limits = {"quota": {"p": count // 2}, "max_gpus": 2 * count, **more.pop("limits", {})}
    return read({"name": "s", "offers": [RENTED, FAST], "jobs": jobs, "limits": limits, "solve": {"ties": 0}, **more})


@pytest.mark.slow
def test_a_slim_portfolio_has_the_plan_of_a_full_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same machines, dollars and counts; only alternatives are no longer named."""
    monkeypatch.setattr(slimming, "MANY_JOBS", 5)
    scenario, options = portfolio(6, schedule="side_by_side"), SolveOptions(as_of=AS_OF)
    slim, full = prepare(scenario, library()), prepare(scenario, library(), may_be_slim=False)
    assert slim.is_slim and not full.is_slim
    assert sum(len(one.table) for one in slim.candidates) < sum(len(one.table) for one in full.candidates)
    one, other = solve_prepared(slim, options), solve_prepared(full, options)
    machines = [sorted((job.offer, job.hours.expected) for job in plan.jobs) for plan in (one, other)]
    assert machines[0] == machines[1]  # which of two equal jobs has which is arbitrary
    assert one.objective == pytest.approx(other.objective)
    assert one.candidates == other.candidates
    assert other.jobs[0].ladder and not one.jobs[0].ladder


@pytest.mark.slow
def test_an_infeasible_slim_portfolio_is_explained_as_a_full_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """What misses the limits is made again, because it says which limit to relax."""
    monkeypatch.setattr(slimming, "MANY_JOBS", 2)
    scenario = portfolio(3, schedule="side_by_side", limits={"budget_usd": 0.5})
    options = SolveOptions(as_of=AS_OF)
    one = solve_prepared(prepare(scenario, library()), options)
    other = solve_prepared(prepare(scenario, library(), may_be_slim=False), options)
    assert one.status == "infeasible" and one.infeasible == other.infeasible and one.infeasible is not None


def test_jobs_over_time_are_never_slim(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where jobs take turns another dominance holds."""
    monkeypatch.setattr(slimming, "MANY_JOBS", 2)
    assert not prepare(portfolio(3), library()).is_slim
    assert prepare(portfolio(3, schedule="side_by_side"), library()).is_slim


def test_of_more_jobs_than_anybody_compares_other_ways_are_left_out_and_this_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The same machines and dollars; the first lines of the notes say where a job's other ways can be seen."""
    scenario, options = portfolio(3, schedule="side_by_side"), SolveOptions(as_of=AS_OF)
    compared = solve_prepared(prepare(scenario, library()), options)
    monkeypatch.setattr(solving, "MOST_COMPARED", 2)
    bare = solve_prepared(prepare(scenario, library()), options)
    assert [(job.offer, job.cost) for job in bare.jobs] == [(job.offer, job.cost) for job in compared.jobs]
    assert all(job.ladder and job.frameworks for job in compared.jobs)
    assert not any(job.ladder or job.frameworks or job.runner_up for job in bare.jobs)
    assert "other ways to run each of 3 jobs are left out: solve one alone to see its own" in bare.warnings
    assert not any("left out: solve one alone" in note for note in compared.warnings)
