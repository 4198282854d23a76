"""What the limits cost that jobs of a timetable share."""

from __future__ import annotations

import pytest

import planner
from planner.results.plan import Plan


def solved(name: str, *settings: str) -> Plan:
    found: Plan = planner.solve(planner.read_scenario(name, settings))
    return found


@pytest.mark.parametrize(
    ("name", "more", "limit", "usd", "hours"),
    [
        # Six runs of 10 h by 20 h, $1.50 on own machines or $4: two machines hold four of them, 4 x 1.5 + 2 x 4 = 14.
        pytest.param(
            "queue-two-own-4090", "offers.0.stock=6", "stock of lab/any/1x-rtx4090", 5.0, 10.0, marks=pytest.mark.slow
        ),
        # Twelve runs of two GPUs by 20 h, $40 or $60: a quota of 8 GPUs holds eight of them, and four pay 20 more.
        pytest.param("team-quota", "limits.quota.cheap=24", "limits.quota.cheap", 80.0, 10.0, marks=pytest.mark.long),
    ],
)
def test_a_shared_limit_costs_what_the_plan_without_it_saves(
    name: str, more: str, limit: str, usd: float, hours: float
) -> None:
    """The saving is that of a plan whose limit is so high that it binds nothing."""
    plan, without = solved(name), solved(name, more)
    (found,) = plan.shared_limits
    assert (found.limit, found.saving_usd, found.saving_hours) == (limit, pytest.approx(usd), pytest.approx(hours))
    assert plan.cost is not None and without.cost is not None
    assert plan.cost.expected - without.cost.expected == pytest.approx(found.saving_usd, abs=0.01)
    assert without.shared_limits == ()


@pytest.mark.long
def test_a_limit_that_costs_nothing_is_not_named() -> None:
    """The monthly budgets move jobs to later months and make none more expensive."""
    assert solved("monthly-budget").shared_limits == ()
