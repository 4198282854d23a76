"""Which hours a deadline is compared with, and which limit is the earlier one, worked out by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest

from planner.candidates.spot_search import SHARE_STEPS
from planner.results.plan import Assignment
from planner.solving.prepare import prepare
from tests.helpers.stage_scenarios import CPU, RENTED, START_SECONDS, asked, library, planned, solved

DATA_GB = 3600.0
START_HOURS = START_SECONDS / 3600 + 2
"""Of the small job with 3,600 GB of data, which take 2 h at 0.5 GB/s: 2.0575 h."""
SEEN: dict[str, Any] = {"measured": [{"gpu": "A100-80GB", "gpus": 1, "hours": 10}], "confidence": 0.5}
"""10 h observed, at even odds: no spread."""


def status(limits: dict[str, Any] | None = None, **job: Any) -> str:
    """Whether there is a plan for the small job."""
    return solved(asked(RENTED, limits=limits, **job)).status


def test_a_deadline_counts_the_hours_before_the_run() -> None:
    """2.06 h of start and the run must both lie before the deadline, not each of them."""
    found = planned(RENTED, data_gb=DATA_GB, confidence=0.5)
    run = found.training_hours
    assert found.start_hours == pytest.approx(START_HOURS)
    assert found.hours.expected == pytest.approx(START_HOURS + run)
    assert run < START_HOURS
    assert status(data_gb=DATA_GB, confidence=0.5, deadline=f"{START_HOURS + run + 0.001}h") == "optimal"
    assert status(data_gb=DATA_GB, confidence=0.5, deadline=f"{START_HOURS + run - 0.001}h") == "infeasible"
    assert status(data_gb=DATA_GB, confidence=0.5, deadline=f"{START_HOURS + run / 2}h") == "infeasible"


def test_a_deadline_counts_a_start_that_is_late_too() -> None:
    """At 90 % the start is as late as the run: both are multiplied by one factor."""
    found = planned(RENTED, data_gb=DATA_GB, confidence=0.9)
    factor = found.hours.at_confidence / found.hours.expected
    assert factor > 1.1
    late = (START_HOURS + found.training_hours) * factor
    assert found.hours.at_confidence == pytest.approx(late)
    start_on_time = START_HOURS + found.training_hours * factor
    assert status(data_gb=DATA_GB, confidence=0.9, deadline=f"{(late + start_on_time) / 2}h") == "infeasible"
    assert status(data_gb=DATA_GB, confidence=0.9, deadline=f"{late * 1.0001}h") == "optimal"


def test_a_run_on_spot_is_late_by_its_speed_and_its_market() -> None:
    """Machines that are always there: what they take late on demand, times the 1.30 of published replays at 90 %."""
    market = {"spot_usd_per_hour": 0.7, "spot": {"availability": 0.999999, "mean_up_hours": 1e7}}
    scenario = asked({**RENTED, **market}, work={"tokens": 1e9}, confidence=0.9, limits={"budget_confidence": 0.9})
    (candidates,) = prepare(scenario, library()).candidates
    h = candidates.hours
    for (on_demand, spot), late in ((candidates.table.late_h[0], h.late[0]), (h.budget_run[0], h.budget[0])):
        assert spot - h.switch[0] * late == pytest.approx(1.30 * on_demand, rel=0.005)


@pytest.mark.parametrize(("deadline", "max_hours", "found"), [(20, 9, "infeasible"), (9, 20, "infeasible")])
def test_the_earlier_of_deadline_and_longest_run_counts(deadline: float, max_hours: float, found: str) -> None:
    """10 h end after 9 h, whichever of the two limits says so; both at 11 h let it pass."""
    assert status({"max_hours": max_hours}, **SEEN, deadline=f"{deadline}h") == found
    assert status({"max_hours": 11}, **SEEN, deadline="11h") == "optimal"


@pytest.mark.slow
@pytest.mark.parametrize("stopping", [1.0, 0.5])
def test_a_guarantee_leaves_room_for_what_is_done_elsewhere(stopping: float) -> None:
    """Data prepared on a CPU and the guarantee of the policy, both late at 90 % and in full, end at the deadline."""
    spot = {**RENTED, "spot_usd_per_hour": 0.5, "spot": {"availability": 0.8, "mean_up_hours": 3}}
    found = planned(
        spot,
        CPU,
        work={"tokens": 4e8},
        early_stopping=stopping,
        stages={"ingest": {"raw_gb": 400, "on": "cpu"}},
        deadline="30h",
        confidence=0.9,
    )
    assert found.spot is not None
    (separate,) = found.separate_machines
    assert separate.hours > 0.3
    late = math.exp(found.sigma_in_tails * 1.645 / 2.92 * 0.8 / math.sqrt(0.18))
    in_full = (separate.hours + found.spot.guaranteed_hours * stretch(found, stopping)) * late
    assert found.hours.at_confidence == pytest.approx(in_full)
    assert found.hours.at_confidence <= 30 + 1e-9


def stretch(found: Assignment, stopping: float) -> float:
    """A run in full over the run expected: all of it is training here."""
    assert set(found.stage_hours) == {"prepare data"}
    return 1 / stopping


def test_a_mix_of_two_markets_takes_as_much_spot_as_the_deadline_allows() -> None:
    """Trials follow no policy: as much spot as runs over drawn markets end in time with, to a part of `SHARE_STEPS`."""
    spot = {"spot_usd_per_hour": 0.5, "spot": {"availability": 0.6, "mean_up_hours": 3}}
    job: dict[str, Any] = {"trials": 2, "work": {"tokens": 1e8}}
    on_demand = planned(RENTED, **job).hours.at_confidence
    all_spot = planned({**RENTED, **spot}, **job)
    assert all_spot.spot_share == 1.0
    deadline = 0.8 * on_demand + 0.2 * all_spot.hours.at_confidence
    mixed = planned({**RENTED, **spot}, **job, deadline=f"{deadline}h")
    parts = mixed.spot_share * SHARE_STEPS
    assert 0 < mixed.spot_share < 1
    assert parts == pytest.approx(round(parts))
    assert mixed.hours.at_confidence <= deadline
    more = {"spot_share": {"min": mixed.spot_share + 1 / SHARE_STEPS}}
    assert planned({**RENTED, **spot}, limits=more, **job).hours.at_confidence > deadline
