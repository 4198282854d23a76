"""Near ties between timetables: the order of ties by enumeration, and plans of scenarios whose jobs take turns."""

from __future__ import annotations

from dataclasses import replace
from itertools import count, permutations, product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.loading.scenario_file import change_scenario
from planner.report.plan_text import render
from planner.scenario.scenario import Scenario, SolveOptions
from planner.solving.prepare import prepare
from planner.timetable.cp_sat_timetable import SearchLimits, solve_timetable
from planner.timetable.modes import build_timetable, split_modes
from planner.timetable.timetable_problem import (
    UNITS_PER_USD,
    Mode,
    Resource,
    Schedule,
    Task,
    Timetable,
    objective_value,
    violations,
)
from planner.timetable.timetable_result import TIES_GIVEN_UP, solve_schedule, tie_work
from tests.helpers.stage_scenarios import JOB, RENTED, library, read, solved
from tests.timetable.test_core_by_brute_force import earliest_starts, problems

OWN = {"provider": "lab", "gpu": "A100-80GB", "gpus": 1, "own": {"power_watts": 500, "usd_per_kwh": 4.02}, "stock": 1}
TEN = {**JOB, "measured": [{"gpu": "A100-80GB", "gpus": 1, "hours": 10}], "confidence": 0.5}


def scenario_of(*jobs: dict[str, Any], offers: tuple[dict[str, Any], ...], **more: Any) -> Scenario:
    """Jobs of 10 h on one A100 at $2 an hour, or on the own machine for half a percent more."""
    made = [{**TEN, "name": name, **job} for name, job in zip("abcdef", jobs, strict=False)]
    return read({"name": "s", "offers": list(offers), "jobs": made, **more})


def key(problem: Timetable, schedule: Schedule) -> tuple[int, int]:
    """What a near tie compares: ranks, then ends, those of earlier tasks a little more."""
    count = len(problem.tasks)
    ranks = sum(schedule.mode(problem, index).rank for index in range(count))
    return ranks, sum((2 * count - index) * schedule.end(problem, index) for index in range(count))


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(problems(3), st.data())
def test_a_near_tie_takes_what_enumeration_prefers(problem: Timetable, data: st.DataObject) -> None:
    """Every order and mode within the tie: none has a less sum of ranks, nor of equal ranks earlier ends."""
    ranks = st.integers(0, 3)
    tasks = [
        replace(task, modes=tuple(replace(mode, rank=data.draw(ranks)) for mode in task.modes))
        for task in problem.tasks
    ]
    split = [split_modes(list(task.modes), keeps_ties=True) for task in tasks]
    kept = [tuple(task.modes[place] for place in places) for task, (places, _) in zip(tasks, split, strict=True)]
    whole = replace(problem, tasks=tuple(replace(one, modes=modes) for one, modes in zip(tasks, kept, strict=True)))
    first = (replace(one, modes=one.modes[:needed]) for one, (_, needed) in zip(whole.tasks, split, strict=True))
    everything = replace(problem, tasks=tuple(tasks))
    found = [
        schedule
        for modes in product(*(range(len(task.modes)) for task in tasks))
        for order in permutations(range(len(tasks)))
        if (schedule := earliest_starts(everything, order, modes)) and not violations(everything, schedule)
    ]
    room = data.draw(st.integers(1, 10))
    rounded = sum(1 + task.late for task in tasks)
    ties = (room + rounded + 0.5) / UNITS_PER_USD
    result = solve_schedule(replace(problem, tasks=tuple(first)), SolveOptions(), whole, lambda _: ties)
    if not found:
        assert result.schedule is None
        return
    assert result.schedule is not None and result.least is not None
    least = min(objective_value(everything, one) for one in found)
    assert objective_value(whole, result.least) == least
    assert objective_value(whole, result.schedule) <= least + room
    near = [one for one in found if objective_value(everything, one) <= least + room]
    assert key(whole, result.schedule) == min(key(everything, one) for one in near)


def test_a_lot_that_a_near_tie_no_longer_uses_is_not_bought() -> None:
    """The strict optimum reserves for 5 units; what ties prefer costs one more, and the cap has room for both."""
    lot, rented = Mode("lot", 10, 10_000, needs=((0, 1),), rank=1), Mode("cloud", 10, 10_006)
    problem = Timetable((Task("a", (lot, rented)),), (Resource("lot", 1, price=5),), horizon=100)
    result = solve_schedule(problem, SolveOptions(), problem, lambda _: 20 / UNITS_PER_USD)
    assert result.least is not None and result.schedule is not None
    assert (result.least.modes, result.least.bought) == ((0,), (1,))
    assert (result.schedule.modes, result.schedule.bought) == ((1,), (0,))


def test_an_own_machine_is_taken_in_turn_for_half_a_percent() -> None:
    """Two runs in turn at $20.10 rather than $20 each, and the plan says what the least cost is; strictly both rent."""
    scenario = scenario_of({}, {"after": "a"}, offers=(OWN, RENTED))
    near, strict = solved(scenario), solved(change_scenario(scenario, ["solve.ties=0"]))
    costly = solved(change_scenario(scenario, ["solve.ties=0.05"]))
    assert near.is_timetable
    assert [job.provider for job in near.jobs] == ["lab", "lab"]
    assert [job.provider for job in strict.jobs] == [job.provider for job in costly.jobs] == ["p", "p"]
    assert near.cost is not None and strict.cost is not None
    assert near.objective == near.least_cost_usd == strict.objective == pytest.approx(strict.cost.expected)
    assert 0 < near.cost.expected - strict.cost.expected <= 0.01 * strict.cost.expected
    assert near.tie_decided_by == "own" and strict.tie_decided_by is None
    assert "not on an own machine" in " ".join(render(near).split()) and "solve.ties" not in render(strict)


@pytest.mark.parametrize(("searched", "work"), [(1.0, 1.0), (0.01, 0.24), (20.0, 1.6)])
def test_a_pass_does_no_more_work_than_the_search(searched: float, work: float) -> None:
    """Within the least and the most, which count what the solver does: about a second and five."""
    assert tie_work(searched) == work


def test_a_plan_is_the_same_however_slow_the_clock_says_the_machine_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look at the clock is half a second later: near ties and guarantees on spot are bounded by work alone."""
    scenario = scenario_of({}, {"after": "a"}, offers=(OWN, RENTED))
    usual, ticks = solved(scenario), count(step=0.5)
    for module in ("timetable_result", "timetable_search"):
        monkeypatch.setattr(f"planner.timetable.{module}.perf_counter", lambda: next(ticks))
    limits: list[SearchLimits] = []

    def slowly(problem: Timetable, asked: SearchLimits) -> Any:
        limits.append(asked)
        return solve_timetable(problem, asked)

    for module in ("timetable_result", "timetable_search"):
        monkeypatch.setattr(f"planner.timetable.{module}.solve_timetable", slowly)
    slow = solved(scenario)
    assert slow.model_dump(exclude={"seconds"}) == usual.model_dump(exclude={"seconds"})
    assert limits and all(one.work is not None and (one.time_limit_seconds or 0.0) > 50 for one in limits)


def test_near_ties_that_are_given_up_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a pass is not proven with its work the least cost is planned, and a note says so."""
    scenario = scenario_of({}, {"after": "a"}, offers=(OWN, RENTED))
    assert TIES_GIVEN_UP not in solved(scenario).warnings
    monkeypatch.setattr("planner.timetable.timetable_result.near_tie", lambda *_: None)
    given_up = solved(scenario)
    assert [job.provider for job in given_up.jobs] == ["p", "p"]
    assert TIES_GIVEN_UP in given_up.warnings


def test_ranks_add_up_step_by_step() -> None:
    """Two jobs of the best first step, the worst of all later ones, outweigh a job of a worse first step."""
    prepared = prepare(scenario_of({}, {}, {}, offers=(OWN, {**RENTED, "stock": 9})), library())
    built = build_timetable(prepared)
    numbers = [
        (tuple(table.tie_steps[one.row].tolist()), int(table.instances[one.row]), mode.rank)
        for made in built.jobs
        for mode, one in zip(made.modes, made.sources, strict=True)
        for table in [one.screened.table]
    ]
    for chosen in product(numbers, repeat=3):
        for other in product(numbers, repeat=3):
            sums = [
                (*(sum(one[0][step] for one in some) for step in range(4)), sum(one[1] for one in some))
                for some in (chosen, other)
            ]
            ranks = [sum(one[2] for one in some) for some in (chosen, other)]
            assert (ranks[0] < ranks[1]) == (sums[0] < sums[1])
