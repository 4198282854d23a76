"""Portfolios of many jobs without time: what is kept of each job is all that the plan needs."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import Executor, Future
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import planner
from planner.scenario.scenario import Scenario, SolveOptions
from planner.solving import prepare as slimming
from planner.solving.prepare import prepare
from planner.solving.solve import solve_prepared
from tests.helpers.stage_scenarios import AS_OF, JOB, RENTED, library, read

MANY = {"architecture": "llama-2-7b", "deadline": "48h", "techniques": {"method": "lora"}}
OFFER = {"provider": "p", "gpu": "A100-80GB", "gpus": 1, "usd_per_hour": 1.9}
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
    assert other.jobs[0].methods and not one.jobs[0].methods


@pytest.mark.slow
def test_a_slim_portfolio_keeps_what_a_typical_stock_may_need(monkeypatch: pytest.MonkeyPatch) -> None:
    """Six jobs fill the two cheapest offers, of which one alone would hold all of them without the limit."""
    monkeypatch.setattr(slimming, "MANY_JOBS", 5)
    jobs = [{**JOB, "name": f"job-{k}", "work": {"tokens": (1 + k % 3) * 1e7}} for k in range(6)]
    offers = [{**RENTED, "provider": name, "usd_per_hour": usd} for name, usd in (("a", 1.0), ("b", 1.1), ("c", 1.2))]
    scenario = read({"name": "s", "offers": offers, "jobs": jobs, "limits": {"typical_stock": 3}, "solve": {"ties": 0}})
    options = SolveOptions(as_of=AS_OF)
    slim, full = prepare(scenario, library()), prepare(scenario, library(), may_be_slim=False)
    assert slim.is_slim and not full.is_slim
    one, other = solve_prepared(slim, options), solve_prepared(full, options)
    assert one.objective == pytest.approx(other.objective)
    assert sorted(job.provider for job in one.jobs) == ["a", "a", "a", "b", "b", "b"]


def test_jobs_that_differ_in_name_alone_have_the_plan_of_jobs_that_are_made_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Fourteen alike jobs, among them four of another length, are decoded and audited once each kind."""
    jobs = [{**JOB, "name": f"job-{k}", "work": {"tokens": (1 + (k > 9)) * 1e7}} for k in range(14)]
    scenario = read({"name": "s", "offers": [RENTED, FAST], "jobs": jobs, "limits": {"typical_stock": 8}})
    options, made = SolveOptions(as_of=AS_OF), prepare(scenario, library())
    assert len(set(made.first_twin)) == 2
    shared = solve_prepared(made, options)
    monkeypatch.setattr(slimming.PreparedScenario, "first_twin", tuple(range(14)))
    alone = solve_prepared(prepare(scenario, library()), options)
    assert shared.model_dump(exclude={"seconds"}) == alone.model_dump(exclude={"seconds"})


class PickledExecutor(Executor):
    """An executor whose work is done at once, on copies as a worker of another process gets and returns them."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Return what the function makes of copies, copied."""
        made: Future[Any] = Future()
        made.set_result(pickle.loads(pickle.dumps(fn(*pickle.loads(pickle.dumps(args)), **kwargs))))
        return made


@pytest.mark.long
def test_a_plan_is_the_same_whatever_workers_prepare_its_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every field of it, with parts that divide jobs that differ in name alone."""
    monkeypatch.setattr(slimming, "JOBS_OF_A_PART", 2)
    jobs = [{**JOB, "name": f"job-{k}", "work": {"tokens": (1 + k % 2) * 1e7}} for k in range(5)]
    spot = {**RENTED, "provider": "s", "spot_usd_per_hour": 0.7}
    scenario, options = read({"name": "s", "offers": [RENTED, FAST, spot], "jobs": jobs}), SolveOptions(as_of=AS_OF)
    here = planner.solve(scenario, options, library())
    there = planner.solve(scenario, options, library(), executor=PickledExecutor())
    assert there.model_dump(exclude={"seconds"}) == here.model_dump(exclude={"seconds"})


@pytest.mark.ecosystem
def test_a_dask_cluster_prepares_the_same_plan(tmp_path: Path) -> None:
    """By its executor in Python, and by its address on the command line, as two processes and as one do."""
    distributed = pytest.importorskip("distributed")
    jobs = [{**MANY, "name": f"job-{k}", "work": {"tokens": (1 + k) * 1e6}} for k in range(10)]
    file = tmp_path / "many.yaml"
    offers = [OFFER, {**OFFER, "provider": "s", "spot_usd_per_hour": 0.6}]
    file.write_text(json.dumps({"schema": 2, "jobs": jobs, "offers": offers}))

    def answer(*words: str) -> Any:
        command = [sys.executable, "-m", "planner", "solve", str(file), "--as-of", "2026-11-21", "--json", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
        return {key: value for key, value in json.loads(done.stdout).items() if key != "seconds"}

    alone = answer("--workers", "1")
    assert answer("--workers", "2") == alone
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        assert answer("--cluster", cluster.scheduler_address) == alone
        with distributed.Client(cluster) as client:
            options = SolveOptions(as_of=date(2026, 11, 21))
            plan = planner.solve(str(file), options, executor=client.get_executor())
    assert json.loads(plan.model_dump_json(by_alias=True)) == alone | {"seconds": plan.seconds}


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
    monkeypatch.setattr(slimming, "MOST_COMPARED", 2)
    bare = solve_prepared(prepare(scenario, library()), options)
    assert [(job.offer, job.cost) for job in bare.jobs] == [(job.offer, job.cost) for job in compared.jobs]
    assert all(job.methods and job.frameworks for job in compared.jobs)
    assert not any(job.methods or job.frameworks or job.next_best for job in bare.jobs)
    assert "other ways to run each of 3 jobs are left out: solve one alone to see its own" in bare.warnings
    assert not any("left out: solve one alone" in note for note in compared.warnings)


def spot_jobs(count: int, **more: Any) -> dict[str, Any]:
    """Jobs of few models and different lengths that share a budget, some of them best on spot."""
    models = ("mistral-7b", "tinyllama-1.1b")
    jobs = [
        {
            **{"name": f"job-{k}", "architecture": models[k % 2], "work": {"tokens": (2 + k) * 4e6}},
            **{"sequence_length": 2048, "global_batch": 16, "deadline": f"{24 + 12 * (k % 2)}h"},
        }
        for k in range(count)
    ]
    offers = [
        {**SPOT, "provider": "a", "gpu": "A100-80GB", "gpus": 1, "usd_per_hour": 1.9, "spot_usd_per_hour": 0.9},
        {**SPOT, "provider": "b", "gpu": "L40S", "gpus": 1, "usd_per_hour": 1.1, "spot_usd_per_hour": 0.4},
        {**SPOT, "provider": "c", "gpu": "H100-80GB", "gpus": 2, "usd_per_hour": 6.0, "spot_usd_per_hour": 2.4},
    ]
    return {"jobs": jobs, "offers": offers, "limits": {"budget_usd": 200, **more}}


SPOT = {"spot": {"availability": 0.9, "mean_up_hours": 6, "mean_outage_hours": 0.7}}


@pytest.mark.long
@pytest.mark.parametrize("limits", [{}, {"max_gpus": 3}, {"quota": {"b": 2}}, {"max_usd_per_hour": 4}])
def test_fewer_policies_are_enough_for_many_jobs(limits: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """To the cent it is the plan of jobs whose other ways are named, whatever they share."""
    scenario, options = planner.build_scenario(spot_jobs(3, **limits)), SolveOptions(as_of=AS_OF)
    compared = planner.solve(scenario, options)
    monkeypatch.setattr(slimming, "MOST_COMPARED", 2)
    bare = planner.solve(scenario, options)
    assert compared.status == bare.status and compared.objective == bare.objective
    assert any(job.spot_share > 0 for job in bare.jobs)
    assert [(job.offer, job.cost, job.hours, job.binding) for job in bare.jobs] == [
        (job.offer, job.cost, job.hours, job.binding) for job in compared.jobs
    ]


@pytest.mark.long
def test_jobs_of_one_model_share_what_does_not_depend_on_their_work() -> None:
    """Of jobs that differ in their work memory and step times are computed once; all figures are those of one alone."""
    data = spot_jobs(4)
    together = prepare(planner.build_scenario(data))
    first, second, third, fourth = together.candidates
    assert first.physics.ways is third.physics.ways and second.physics.ways is fourth.physics.ways
    assert first.physics.shape.tokens != third.physics.shape.tokens
    for place, one in enumerate(together.candidates):
        (alone,) = prepare(planner.build_scenario({**data, "jobs": [data["jobs"][place]]})).candidates
        for column in ("run_h", "run_usd", "late_h", "late_usd", "fixed_usd", "start_h"):
            assert np.array_equal(getattr(one.table, column), getattr(alone.table, column), equal_nan=True), column


def test_what_a_step_depends_on_is_not_shared() -> None:
    """Another length of samples, another batch or an observed run has memory and step times of its own."""
    base = spot_jobs(1)["jobs"][0]
    run = {"gpu": "L40S", "gpus": 1, "tokens_per_second": 4000, "method": "lora"}
    for change in ({"sequence_length": 1024}, {"global_batch": 32}, {"measured": [run]}):
        data = {**spot_jobs(1), "jobs": [base, {**base, "name": "other", **change}]}
        one, other = prepare(planner.build_scenario(data)).candidates
        assert one.physics.ways is not other.physics.ways, change


@pytest.mark.slow
def test_jobs_that_are_not_compared_keep_what_their_notes_and_limits_say(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cut portfolio has every field of one that keeps all rows: ties, spot, a limit that binds, an old price."""
    monkeypatch.setattr(slimming, "MOST_COMPARED", 2)
    spot = {**RENTED, "provider": "s", "spot_usd_per_hour": 0.3}
    twin = {**RENTED, "provider": "t", "spot_usd_per_hour": 0.05}  # an outlier
    old = {**RENTED, "provider": "o", "usd_per_hour": 0.4, "date": "2025-01-01"}
    new = {**RENTED, "provider": "n", "usd_per_hour": 1.9, "date": "2026-11-01"}
    scenario = portfolio(3, limits={"budget_usd": 60, "max_price_age": "60d"}, solve={})
    offers = read({"name": "s", "offers": [RENTED, FAST, spot, twin, old, new], "jobs": [JOB]}).offers
    scenario, options = scenario.model_copy(update={"offers": offers}), SolveOptions(as_of=AS_OF)
    cut = prepare(scenario.on_day(AS_OF), library(), only_plan=True)
    full = prepare(scenario.on_day(AS_OF), library())
    assert cut.is_cut and not full.is_cut
    assert all(len(one.table) < len(other.table) for one, other in zip(cut.candidates, full.candidates, strict=True))
    one, other = solve_prepared(cut, options), solve_prepared(full, options)
    assert one.model_dump(exclude={"seconds"}) == other.model_dump(exclude={"seconds"})
    assert any(job.binding or job.notes for job in other.jobs)


def test_what_hundreds_of_jobs_rest_on_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where no row but those of the program is kept."""
    monkeypatch.setattr(slimming, "MANY_JOBS", 2)
    scenario, options = portfolio(3, schedule="side_by_side"), SolveOptions(as_of=AS_OF)
    slim = solve_prepared(prepare(scenario, library()), options)
    monkeypatch.setattr(slimming, "MANY_JOBS", 100)
    full = solve_prepared(prepare(scenario, library()), options)
    assert [job.evidence and job.evidence.speed for job in slim.jobs] == [
        job.evidence and job.evidence.speed for job in full.jobs
    ]
    assert slim.jobs[0].evidence is not None
