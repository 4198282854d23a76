"""Runs that stand still while their machine may not be used: against a minute-by-minute count, and solved plans."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.loading.scenario_file import change_scenario
from planner.results.plan import Plan
from planner.timetable.timetable_problem import Mode, PauseCost, paused_modes
from planner.timetable.timetable_questions import run_through_windows
from tests.helpers.stage_scenarios import RENTED, solved
from tests.timetable.test_timetable_plans import OWN, scenario_of

NIGHTS = {**OWN, "stock": 1, "available": [{"from": "20h", "to": "32h", "every": "24h"}]}
LONG = {"measured": [{"gpu": "A100-80GB", "gpus": 1, "hours": 30}]}
WINDOWS = st.lists(st.integers(1, 9), min_size=2, max_size=8).map(
    lambda steps: [(sum(steps[:k]), sum(steps[: k + 1])) for k in range(0, len(steps), 2)]
)


def count_minutes(start: int, minutes: int, resume: int, windows: list[tuple[int, int]]) -> tuple[int, int] | None:
    """End and pauses of a run, minute by minute; windows no longer than a resumption are not used."""
    left, pauses = minutes, 0
    useful = [one for one in windows if one[1] - one[0] > resume]
    place = next((k for k, (first, last) in enumerate(useful) if first <= start < last), None)
    if place is None:
        return None
    at = start
    while True:
        while at < useful[place][1]:
            at, left = at + 1, left - 1
            if not left:
                return at, pauses
        place, pauses = place + 1, pauses + 1
        if place == len(useful):
            return None
        at, left = useful[place][0], left + resume


@given(WINDOWS, st.integers(1, 15), st.integers(0, 3))
def test_pairs_of_windows_are_every_run_with_pauses(windows: list[tuple[int, int]], minutes: int, resume: int) -> None:
    """From each minute there is one mode with the end and the pauses that counting gives, where there are pauses."""
    cost = PauseCost(resume, 1.0, 1.0, 0.0, 0.0)
    modes = [one for one, _ in paused_modes(Mode("m", minutes), cost, windows)]
    for start in range(windows[-1][1] + 1):
        counted = count_minutes(start, minutes, resume, windows)
        ends = [start + one.minutes for one in modes if one.may_start(start)]
        assert ends == ([counted[0]] if counted and counted[1] else [])


@given(WINDOWS, st.integers(1, 15), st.integers(0, 3), st.integers(0, 20))
def test_a_replayed_run_ends_when_counting_says(
    windows: list[tuple[int, int]], minutes: int, resume: int, start: int
) -> None:
    """Monte Carlo goes through the windows as the modes do; a start in a closed time is that of the next window."""
    useful = [one for one in windows if one[1] - one[0] > resume]
    begins = next((max(start, first) for first, last in useful if last > start), None)
    counted = None if begins is None else count_minutes(begins, minutes, resume, windows)
    hours = [(float(first), float(last)) for first, last in useful]
    first, end = run_through_windows(np.array([float(start)]), np.array([float(minutes)]), hours, float(resume))
    assert end[0] == (np.inf if counted is None else pytest.approx(counted[0], abs=1e-5))
    if counted is not None:
        assert first[0] == begins


def pauses(plan: Plan) -> list[tuple[float, float]]:
    """When the first job stands still."""
    return [(one.from_hours, one.to_hours) for one in plan.jobs[0].pauses]


def long_run(*offers: dict[str, Any], **more: Any) -> Any:
    """A run of 30 h within six days."""
    return scenario_of({**LONG, "deadline": "6d", **more.pop("job", {})}, offers=offers, **more)


def test_a_run_longer_than_a_night_goes_on_the_next_evening() -> None:
    """8 h of the first night, then 12 and 10 h: two pauses by day, each with a start more on its bill."""
    plan = solved(long_run(NIGHTS))
    (job,) = plan.jobs
    assert pauses(plan) == [(8.0, 20.0), (32.0, 44.0)]
    assert job.end_at_hours == pytest.approx(30 + 2 * 12 + 2 * job.resume_hours)
    assert job.cost_usd == pytest.approx(0.15 * (30 + 2 * job.resume_hours))
    assert 0.05 < job.resume_hours < 0.2


def test_pauses_cost_the_value_of_time() -> None:
    """At $1 an hour waiting 24 h is worth more than what the rented machine costs beyond the own one."""
    slow, hasty = (
        long_run(NIGHTS, RENTED),
        long_run(NIGHTS, {**RENTED, "usd_per_hour": 0.6}, objective={"value_of_time_usd_per_hour": 1}),
    )
    assert solved(slow).jobs[0].provider == "lab"
    assert solved(hasty).jobs[0].provider == "p"


@pytest.mark.parametrize(
    "more",
    [
        {"job": {"stages": {"checkpoints": {"count": 2, "contents": "weights"}}}},
        {"limits": {"budgets": [{"per": "month", "usd": 500}]}},
    ],
)
def test_what_cannot_go_on_must_fit_one_window(more: dict[str, Any]) -> None:
    """Checkpoints of weights alone, and budgets by period, leave no pauses: the run rents."""
    plan = solved(long_run(NIGHTS, RENTED, **more))
    assert plan.jobs[0].provider == "p" and not plan.jobs[0].pauses


def test_two_runs_share_the_nights() -> None:
    """The machine is never used by day; the second waits for a whole night, which saves it a pause."""
    plan = solved(scenario_of({**LONG, "deadline": "9d"}, {**LONG, "deadline": "9d"}, offers=(NIGHTS,)))
    first, second = sorted(plan.jobs, key=lambda job: job.start_at_hours)
    assert second.start_at_hours == 68.0 >= (first.end_at_hours or 0.0)
    assert [len(job.pauses) for job in (first, second)] == [2, 2]
    for job in plan.jobs:
        stretches = zip(
            [job.start_at_hours, *(one.to_hours for one in job.pauses)],
            [*(one.from_hours for one in job.pauses), job.end_at_hours or 0.0],
            strict=True,
        )
        assert all((start + 4) % 24 + end - start <= 12 + 1e-6 for start, end in stretches)


def test_a_deadline_between_two_nights_is_kept() -> None:
    """A deadline by day is that of the morning before: 20 h of the first two nights are not enough for 30 h."""
    late = change_scenario(long_run(NIGHTS, RENTED), ["jobs.a.deadline=43h"])
    assert solved(late).jobs[0].provider == "p"
