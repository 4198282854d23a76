"""Runs of a timetable: late jobs move those behind them, reservations are paid once, windows cut runs off."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from planner.analysis.simulate_question import JobOutcome, simulate
from planner.results.plan import Plan
from planner.results.simulation import Simulation
from planner.scenario.scenario import Scenario
from planner.timetable.timetable_questions import shift_timetable
from tests.helpers.stage_scenarios import JOB, RENTED, library, read, solved

OWN = {"provider": "lab", "gpu": "A100-80GB", "gpus": 1, "own": {"power_watts": 500, "usd_per_kwh": 0.3}}
TEN = {**JOB, "measured": [{"gpu": "A100-80GB", "gpus": 1, "hours": 10}], "confidence": 0.5}


def scenario_of(*jobs: dict[str, Any], offers: tuple[dict[str, Any], ...] = (OWN, RENTED)) -> Scenario:
    """Jobs of 10 h on one A100, each with its own settings, on an own machine and rented ones."""
    made = [{**TEN, "name": name, **job} for name, job in zip("abcdef", jobs, strict=False)]
    return read({"name": "s", "offers": list(offers), "jobs": made})


@cache
def three_in_turn() -> tuple[Scenario, Plan]:
    """Three jobs on one machine, from 0, 10 and 20 h; the last one is released at 25 h."""
    scenario = scenario_of({"deadline": "3d"}, {"deadline": "3d"}, {"deadline": "40h", "release": "25h"}, offers=(OWN,))
    return scenario, solved(scenario)


def lasting(*hours: list[float]) -> list[JobOutcome]:
    """Jobs of so many hours in each run."""
    none = np.zeros(len(hours[0]))
    return [JobOutcome(none, np.asarray(one), none, none, none, none, none == 0) for one in hours]


def test_a_late_job_moves_those_behind_it() -> None:
    """In the first run all is as planned, in the second everything is early, in the third the first is 9 h late."""
    scenario, plan = three_in_turn()
    assert [job.start_at_hours for job in plan.jobs] == [0, 10, 25]
    one, two, three = shift_timetable(plan, scenario, library(), lasting([10, 8, 19], [10, 9, 10], [10, 10, 10]))
    assert one.starts.tolist() == [0, 0, 0]
    assert two.starts.tolist() == [10, 10, 19] and two.outcome.hours.tolist() == [20, 19, 29]
    assert three.starts.tolist() == [25, 25, 29] and three.outcome.hours.tolist() == [35, 35, 39]
    assert not three.outlasts.any()


def test_a_job_waits_for_those_it_comes_after() -> None:
    """With their lag, on machines of its own too."""
    scenario = scenario_of({}, {"after": {"job": "a", "lag": "1h"}}, offers=(OWN, RENTED))
    plan = solved(scenario)
    _, late = shift_timetable(plan, scenario, library(), lasting([10, 15], [10, 10]))
    assert late.starts.tolist() == [11, 16]


def test_no_run_holds_more_than_there_is() -> None:
    """Four jobs, two machines, hours that vary by half: at no start are more than two in use."""
    scenario = scenario_of(*({"deadline": "3d"} for _ in range(4)), offers=({**OWN, "stock": 2},))
    plan = solved(scenario)
    drawn = np.random.default_rng(5).uniform(5, 15, (4, 200))
    moved = shift_timetable(plan, scenario, library(), lasting(*drawn.tolist()))
    starts, ends = (np.asarray(each) for each in zip(*((m.starts, m.outcome.hours) for m in moved), strict=True))
    for one in starts:
        assert (((starts <= one) & (one < ends - 1e-9)).sum(axis=0) <= 2).all()
    assert (starts >= np.asarray([[job.start_at_hours] for job in plan.jobs])).all()


def simulated(scenario: Scenario, **settings: Any) -> Simulation:
    return simulate(scenario, library=library(), runs=400, **settings)


@pytest.mark.slow
def test_deadlines_count_from_the_start_of_the_plan() -> None:
    """A job that starts at 10 h and takes 10 h meets 21 h in fewer runs than one that starts at once."""
    scenario = scenario_of({"deadline": "21h"}, {"deadline": "21h"}, offers=(OWN,))
    found = simulated(scenario)
    first, second = sorted(found.jobs, key=lambda job: job.start_at_hours.mean if job.start_at_hours else 0.0)
    assert first.deadline_hit_rate == 1.0
    assert second.deadline_hit_rate is not None and 0.5 < second.deadline_hit_rate < 0.95
    assert found.deadline_hit_rate == second.deadline_hit_rate
    assert second.end_at_hours is not None and second.end_at_hours.mean > 20
    exact = simulated(scenario, exact_speed=True)
    assert exact.deadline_hit_rate == 1.0 and exact.hours is not None and exact.hours.p95 == pytest.approx(20)


@pytest.mark.slow
def test_a_reservation_is_on_the_bill_once() -> None:
    """The plan and every run pay it once, however many jobs share it."""
    term = {"provider": "term", "gpu": "A100-80GB", "gpus": 1, "usd_per_hour": 0, "stock": 4}
    month = {**term, "commitment": {"months": 1, "upfront_usd": 30}}
    scenario = scenario_of(*({"deadline": "20d"} for _ in range(4)), offers=(RENTED, month))
    found = simulated(scenario)
    assert found.plan.reservations and found.cost_usd is not None and found.predicted is not None
    assert found.cost_usd.mean == pytest.approx(30, rel=1e-6) and found.predicted.cost_usd == pytest.approx(30)


@pytest.mark.slow
def test_a_run_that_outlasts_its_window_is_not_in_time() -> None:
    """A window of 10.5 h cuts off what is more than 5 % slower than expected."""
    nights = {**OWN, "available": [{"from": "20h", "to": "30.5h"}]}
    found = simulated(scenario_of({"deadline": "3d"}, offers=(nights,)))
    (job,) = found.jobs
    assert job.outlasts_machines is not None and 0.05 < job.outlasts_machines < 0.5
    assert job.deadline_hit_rate == pytest.approx(1 - job.outlasts_machines)
