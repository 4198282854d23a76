"""Machines by the hour as changes of cron: what they order at every minute is what the plan needs."""

from __future__ import annotations

import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.services.served_kinds import autoscaled, changes, cron_changes, lead_minutes, ordered_at

DAYS = st.lists(st.integers(0, 3), min_size=24, max_size=24)
WEEKS = st.lists(st.integers(0, 2), min_size=168, max_size=168)
MONDAY = datetime.datetime(2026, 11, 23, tzinfo=datetime.UTC)


def matches(cron: str, minute: int) -> bool:
    """Return whether a line of cron fires at a minute from Monday 0:00 on; lists and ranges, Sunday is 0."""
    at = MONDAY + datetime.timedelta(minutes=minute)
    fields = dict(zip(("minute", "hour", "day", "month", "weekday"), cron.split(), strict=True))
    assert fields["day"] == fields["month"] == "*"

    def named(text: str) -> set[int]:
        ends = [[int(end) for end in part.split("-")] for part in text.split(",")]
        return {one for part in ends for one in range(part[0], part[-1] + 1)}

    of_day = at.minute in named(fields["minute"]) and at.hour in named(fields["hour"])
    return of_day and (fields["weekday"] == "*" or at.isoweekday() % 7 in named(fields["weekday"]))


def test_machines_are_ordered_before_the_hour_and_given_back_at_it() -> None:
    """Two machines from 9 to 17 that start in 6.6 minutes: 8:53 and 17:00 of every day."""
    by_hour = [1] * 9 + [2] * 8 + [1] * 7
    assert changes(by_hour, 0.11) == [(8 * 60 + 53, 2), (17 * 60, 1)]
    assert [(one.cron, one.machines) for one in cron_changes(by_hour, 0.11)] == [("53 8 * * *", 2), ("0 17 * * *", 1)]


def test_the_working_days_of_a_week_share_a_line() -> None:
    """Monday to Friday; what is wanted on Monday at 0:00 is ordered on Sunday."""
    day, rest = [1] * 9 + [2] * 8 + [1] * 7, [1] * 24
    found = cron_changes(day * 5 + rest * 2, 0.0)
    assert [(one.cron, one.machines) for one in found] == [("0 9 * * 1-5", 2), ("0 17 * * 1-5", 1)]
    early = cron_changes([1] + [0] * 167, 0.5)
    assert [(one.cron, one.machines) for one in early] == [("0 1 * * 1", 0), ("30 23 * * 0", 1)]


def test_a_flat_number_never_changes() -> None:
    """No line at all."""
    assert cron_changes([3] * 24, 0.2) == []


def test_a_start_longer_than_a_gap_keeps_the_machines() -> None:
    """One hour without them, and 90 minutes to start: they are not given back."""
    assert changes([2] * 10 + [1] + [2] * 13, 1.5) == []


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(by_hour=st.one_of(DAYS, WEEKS), start_hours=st.floats(0.0, 2.5))
def test_cron_orders_every_machine_early_enough_and_none_longer_than_needed(
    by_hour: list[int], start_hours: float
) -> None:
    """Played over a cycle, the number in force at each minute is the most of that minute and the start after it."""
    lines, cycle, lead = cron_changes(by_hour, start_hours), 60 * len(by_hour), lead_minutes(start_hours)
    at = {}
    for minute, machines in changes(by_hour, start_hours):
        fired = [one for one in lines if matches(one.cron, minute)]
        assert [one.machines for one in fired] == [machines]
        at[minute] = machines
    now = at[max(at)] if at else by_hour[0]
    for minute in range(cycle):
        now = at.get(minute, now)
        assert now == max(by_hour[(minute + ahead) // 60 % len(by_hour)] for ahead in range(lead + 1))
        if minute % 60 == 0:
            assert now == ordered_at(by_hour, lead, minute) >= by_hour[minute // 60]


@settings(max_examples=10, deadline=None)
@given(by_hour=DAYS)
def test_no_line_of_cron_fires_at_another_minute(by_hour: list[int]) -> None:
    """As often in a day as the number changes."""
    lines, known = cron_changes(by_hour, 0.1), {minute for minute, _ in changes(by_hour, 0.1)}
    for minute in range(24 * 60):
        assert any(matches(one.cron, minute) for one in lines) == (minute in known)


@pytest.mark.parametrize(("load", "machines"), [(0.0, 1), (1.9, 1), (2.0, 1), (2.1, 2), (99.0, 3)])
def test_autoscaling_rounds_up_within_the_bounds(load: float, machines: int) -> None:
    """As SkyPilot's own rule does: requests per second over the target."""
    assert autoscaled([load], 2.0, 1, 3) == [machines]
