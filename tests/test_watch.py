"""Calls that are bounded, followed and cancelled: by a clock that counts how often it is read."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from functools import cache

import pytest

import planner
from planner import watch
from planner.errors import CancelledError, TimeIsUpError
from planner.formulation.solvers import run
from planner.results.plan import Plan
from planner.scenario.scenario import Scenario
from planner.timetable.cp_sat_timetable import solve_timetable
from planner.timetable.timetable_problem import Mode, Resource, Task, Timetable
from tests.formulation.test_solver_contract import market_split

MOST_READ_LATE = 12
"""Times that the clock is read after the limit: once for each thing that is left out, and where a solver begins."""


class Clock:
    """A clock that moves on by a second whenever it is read."""

    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> float:
        self.now += 1
        return float(self.now)


@cache
def scenario(name: str) -> Scenario:
    """A shipped scenario."""
    return planner.read_scenario(name)


@cache
def whole(name: str) -> tuple[Plan, int]:
    """The plan without a limit, and how often a clock is read for it once what can be kept is."""
    within(name, 1e9)
    plan, clock = within(name, 1e9)
    return plan, clock.now


def within(name: str, seconds: float) -> tuple[Plan, Clock]:
    """Solve a scenario within seconds of such a clock."""
    clock = Clock()
    with watch._watching(watch.Watch(until=seconds, clock=clock)):
        return planner.solve(scenario(name)), clock


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.0, 0.5, 0.9, 0.98, 1.0])
@pytest.mark.parametrize("name", ["quickstart", "infeasible", "three-jobs-one-budget"])
def test_a_limit_ends_a_solve_with_what_is_found_by_then(name: str, share: float) -> None:
    """Whatever is left out is named; what is not is that of a solve without a limit."""
    plan, readings = whole(name)
    limit = share * readings
    found, clock = within(name, limit)
    assert clock.now <= max(limit, 0) + MOST_READ_LATE
    if found.status == "no_plan":
        assert found.jobs == ()
        return
    assert (found.status, found.cost_usd, found.bound) == (plan.status, plan.cost_usd, plan.bound)
    left_out = [note for note in found.warnings if note.startswith("left out, as the time limit was reached")]
    assert bool(left_out) == (clock.now > limit)
    if not left_out:
        assert found.model_copy(update={"seconds": 0.0}) == plan.model_copy(update={"seconds": 0.0})


def test_what_explains_a_plan_is_left_out_by_name() -> None:
    """A limit that ends once the plan is found leaves the alternatives out, and one that ends before leaves no plan."""
    _, readings = whole("quickstart")
    texts = {
        note
        for limit in range(readings // 4, readings, readings // 12)
        for note in within("quickstart", limit)[0].warnings
        if note.startswith("left out")
    }
    assert "left out, as the time limit was reached: other ways to run a job, faster plans" in texts
    assert within("quickstart", 0)[0].status == "no_plan"


def test_a_call_without_a_plan_says_that_its_time_is_up() -> None:
    """A frontier has nothing to return."""
    with watch._watching(watch.Watch(until=10, clock=Clock())), pytest.raises(TimeIsUpError, match="time limit"):
        planner.frontier(scenario("quickstart"))


def test_the_inner_limit_never_lengthens_the_outer_one() -> None:
    """Within 10 s, a call that may take 100 s has what is left of the ten."""
    with watch._watching(watch.Watch(until=10, clock=lambda: 4.0)):
        with planner.watched(time_limit_seconds=100):
            assert watch.seconds_left() == 6
            assert watch.seconds_left(most=2) == 2
        with planner.watched(time_limit_seconds=3):
            assert watch.seconds_left() == 3


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.0, 0.6, 0.99])
@pytest.mark.parametrize("name", ["quickstart", "three-jobs-one-budget"])
def test_a_cancelled_call_ends_at_once_and_leaves_nothing_half_done(name: str, share: float) -> None:
    """The next solve is that of a process in which nothing was cancelled."""
    plan, readings = whole(name)
    after, asked = int(share * readings), 0

    def cancel() -> bool:
        nonlocal asked
        asked += 1
        return asked > after

    with planner.watched(cancel=cancel), pytest.raises(CancelledError):
        planner.solve(scenario(name))
    assert asked <= after + 3  # a solver asks once more as it ends
    assert planner.solve(scenario(name)).model_copy(update={"seconds": plan.seconds}) == plan


def weighted_ends(count: int = 60) -> Timetable:
    """Tasks of different lengths and weights on three machines, released one by one: hard to prove."""
    tasks = [
        Task(
            name=f"t{number}",
            modes=(Mode(label="m", minutes=40 + number * 37 % 61, needs=((0, 1),)),),
            release=number * 13 % 97,
            due=0,
            late=1 + number * 17 % 23,
        )
        for number in range(count)
    ]
    return Timetable(tasks=tuple(tasks), resources=(Resource(name="machines", capacity=3),), horizon=10_000)


SOLVERS: dict[str, Callable[[], object]] = {
    "highs": lambda: run(market_split(), relative_gap=1e-7),
    "cp-sat": lambda: solve_timetable(weighted_ends()),
}


@pytest.mark.slow
@pytest.mark.parametrize("solver", SOLVERS)
def test_a_solver_that_is_at_work_is_cancelled(solver: str) -> None:
    """Its program would take it minutes."""
    asked = 0

    def cancel() -> bool:
        nonlocal asked
        asked += 1
        return asked > 3

    with planner.watched(cancel=cancel), pytest.raises(CancelledError):
        SOLVERS[solver]()


def test_progress_counts_the_jobs() -> None:
    """Three jobs: none, one and two of three are done when the next begins."""
    heard: list[planner.CallProgress] = []
    with planner.watched(progress=heard.append):
        planner.solve(scenario("three-jobs-one-budget"))
    steps = [each for each in heard if each.step == "candidates of jobs"]
    assert [(each.done, each.of) for each in steps[:3]] == [(0, 3), (1, 3), (2, 3)]


def test_a_task_of_asyncio_is_cancelled() -> None:
    """A service that loses its client sets an event, and the thread that solves ends."""

    async def serve() -> None:
        gone = threading.Event()

        def answer() -> Plan:
            with planner.watched(cancel=gone.is_set, progress=lambda _: gone.set()):  # the client leaves as it begins
                return planner.solve(scenario("quickstart"))

        await asyncio.to_thread(answer)

    with pytest.raises(CancelledError):
        asyncio.run(serve())


@pytest.mark.parametrize("name", ["infeasible", "quickstart"])
def test_nothing_explains_where_nothing_is_asked_for(name: str) -> None:
    """To find out why there is no plan takes longer than all else."""
    plan = planner.solve(scenario(name), explains=False)
    assert plan.infeasible is None
    assert (plan.status == "infeasible") == (name == "infeasible")
