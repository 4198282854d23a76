"""Dates in the zones of users: the same instants make the same plan, and nights go by the clock."""

from __future__ import annotations

import datetime
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from planner.documents.quantities import at_clock, hours_between, users_zone, written_in
from planner.loading.scenario_file import change_scenario, parse_scenario
from planner.scenario.scenario import Scenario
from planner.solving.solve import solve
from planner.timetable.timetable_text import render_timetable
from tests.helpers.scenarios import json_text
from tests.helpers.stage_scenarios import JOB, RENTED, read, solved

ZONES = ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Tokyo", "America/St_Johns", "Pacific/Apia")
CHANGE = datetime.datetime(2026, 3, 29, 1, tzinfo=datetime.UTC)
HOUR = datetime.timedelta(hours=1)


def dated(now: str | None, dates: list[str], every: str | None = None) -> dict[str, Any]:
    """Return a scenario whose job and machine have these dates: release, deadline, begin and end of a window."""
    release, deadline, begin, end = dates
    window = {"from": begin, "to": end} | ({"every": every} if every else {})
    job = {"name": "j", "architecture": "mistral-7b", "work": {"tokens": "20M"}, "techniques": {"method": "lora"}}
    offer = {"provider": "a", "gpu": "RTX4090", "gpus": 1, "usd_per_hour": 0.5, "available": [window], "stock": 1}
    data = {"name": "d", "jobs": [{**job, "release": release, "deadline": deadline}], "offers": [offer]}
    return data | ({"now": now} if now else {})


def in_zone(moment: datetime.datetime, zone: str) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC" if zone == "UTC" else written_in(moment, zone)


def open_hours(turns: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return what of these times lies from 0 h to 7,000 h."""
    left = ((max(0.0, round(begin, 6)), round(end, 6)) for begin, end in turns if begin <= 7000)
    return sorted({(begin, end) for begin, end in left if begin < end})


def hours_of(data: dict[str, Any]) -> tuple[Any, ...]:
    scenario = parse_scenario(json_text(data))
    (window,) = scenario.offers[0].available
    job = scenario.jobs[0]
    return job.release_hours, job.deadline_hours, list(window.turns(500.0))


@given(
    st.lists(st.integers(0, 40_000), min_size=4, max_size=4, unique=True), st.lists(st.sampled_from(ZONES), min_size=5)
)
@settings(max_examples=25)
@example([50, 4000, 60, 3000], ["Europe/Berlin"] * 5)
def test_the_zone_of_an_instant_changes_nothing(minutes: list[int], zones: list[str]) -> None:
    """Every instant may be written in UTC or in a zone of its own: hours and windows stay the same."""
    first, second, third, last = sorted(minutes)
    moments = [CHANGE - 20 * HOUR + datetime.timedelta(minutes=one + 1) for one in (first, last, second, third)]
    utc = dated("2026-03-28 05:00 UTC", [in_zone(one, "UTC") for one in moments])
    now = in_zone(CHANGE - 20 * HOUR, zones[0])
    other = dated(now, [in_zone(one, zone) for one, zone in zip(moments, zones[1:], strict=False)])
    assert hours_of(other) == hours_of(utc)


@given(
    st.integers(0, 300 * 24),
    st.integers(0, 200 * 24),
    st.integers(1, 23),
    st.sampled_from(ZONES),
    st.sampled_from((1, 7)),
)
@settings(max_examples=40)
@example(4, 0, 8, "Europe/Berlin", 1)
def test_a_window_of_every_day_goes_by_the_clock(ahead: int, past: int, length: int, zone: str, days: int) -> None:
    """A night that returns begins and ends at the same time of the clock, whenever it began for the first time."""
    clock, now = ZoneInfo(zone), datetime.datetime(2026, 2, 1, tzinfo=datetime.UTC)
    first = (now + (ahead - past) * HOUR).astimezone(clock)
    begin, end = first.replace(tzinfo=None), first.replace(tzinfo=None) + length * HOUR
    shown = [f"{one:%Y-%m-%d %H:%M} {zone}" for one in (begin, end)]
    if any(one.replace(tzinfo=clock) != one.replace(tzinfo=clock).astimezone(datetime.UTC) for one in (begin, end)):
        return  # the clock skips this time on the first day, which is a fault
    if first.fold or first.replace(fold=0).utcoffset() != first.replace(fold=1).utcoffset():
        return
    data = dated("2026-02-01 00:00 UTC", ["0h", "9000h", *shown], f"{days}d")
    scenario = parse_scenario(json_text(data))
    turns = [one for window in scenario.offers[0].available for one in window.turns(7000.0)]
    before = 250 if ahead < past else int(ahead - past < 24 * days)  # a night that the plan starts in counts
    wanted = []
    for turn in range(-before, 520):
        ends = [(one + datetime.timedelta(days=turn * days)).replace(tzinfo=clock) for one in (begin, end)]
        wanted.append(tuple((one.astimezone(datetime.UTC) - now) / HOUR for one in ends))
    assert open_hours(turns) == open_hours(wanted)


def test_plans_are_the_same_and_shown_in_the_zone() -> None:
    """A run of two nights over the change: one plan in UTC and Berlin, at its hours by each clock."""
    moments = [CHANGE - 20 * HOUR, CHANGE + 90 * HOUR, CHANGE - 4 * HOUR, CHANGE + 80 * HOUR]
    plans = {}
    for zone in ("UTC", "Europe/Berlin"):
        data = dated(in_zone(CHANGE - 20 * HOUR, zone), [in_zone(one, zone) for one in moments])
        plans[zone] = solve(parse_scenario(json_text(data)))
    first, second = (plan.model_dump(exclude={"now", "zone", "inputs", "timings"}) for plan in plans.values())
    assert first["jobs"] == second["jobs"] and first["cost_usd"] == second["cost_usd"]
    assert "Sat 28 Mar 22:00" in "\n".join(render_timetable(plans["Europe/Berlin"]))
    assert "Sat 28 Mar 21:00" in "\n".join(render_timetable(plans["UTC"]))


def test_without_now_moments_are_those_of_the_zone_that_was_written() -> None:
    """The clock of the machine is read as an instant; it is shown where the first date with a zone is."""
    soon = datetime.datetime.now(datetime.UTC) + 3 * 24 * HOUR
    for zone in ("Asia/Tokyo", "America/St_Johns"):
        scenario = parse_scenario(json_text(dated(None, ["1h", in_zone(soon, zone), "2h", "30h"])))
        assert scenario.zone == zone and scenario.now_text
    text = f"{soon:%Y-%m-%d %H:%M} +05:30"
    assert parse_scenario(json_text(dated(None, ["1h", text, "2h", "30h"]))).now_text.endswith("+05:30")


@pytest.mark.parametrize(
    ("now", "dates", "zone"),
    [
        ("2026-03-28 05:00 UTC", ["2026-04-01 Europe/Berlin"], ""),
        ("2026-03-28 05:00 +01:00", ["2026-04-01 09:00 UTC", "2026-04-02 Europe/Berlin"], "Europe/Berlin"),
        ("2026-03-28 05:00 Asia/Tokyo", ["2026-04-01 Europe/Berlin"], "Asia/Tokyo"),
        (None, ["2026-04-01 UTC"], ""),
        ("2026-03-28 05:00", [], "America/New_York"),
    ],
)
def test_the_zone_of_the_user(now: str | None, dates: list[str], zone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """`now` decides where it names a zone or UTC, then the dates, then this machine where no zone is written."""
    monkeypatch.setattr("planner.documents.quantities._local_zone", lambda: "America/New_York")
    assert users_zone(now, dates) == zone


def test_an_hour_that_comes_twice_keeps_its_instant() -> None:
    """Written back with its offset, the second half past two stays the second."""
    second = datetime.datetime(2026, 10, 25, 1, 30, tzinfo=datetime.UTC)
    text = written_in(second, "Europe/Berlin")
    assert text == "2026-10-25 02:30 +01:00 Europe/Berlin"
    scenario = Scenario.model_validate(parse_scenario(json_text(dated(text, ["1h", "30h", "2h", "29h"]))))
    assert scenario.now_text == "2026-10-25T02:30+01:00" and scenario.zone == "Europe/Berlin"


@given(st.integers(-200, 200), st.sampled_from(ZONES), st.sampled_from(["day", "week"]))
@settings(max_examples=25)
@example(-12, "Europe/Berlin", "day")
@example(158, "Australia/Lord_Howe", "day")  # the clock shows 1:30 for the second time
def test_budgets_by_day_and_week_go_by_the_clock(hours: int, zone: str, per: str) -> None:
    """Each period begins at the time of day of `now`, also across changes of the clock; a month has 730 h."""
    now, days = CHANGE + hours * HOUR, {"day": 1, "week": 7}[per]
    budgets = [{"per": per, "usd": 5}, {"per": "month", "usd": 100}]
    data = dated(in_zone(now, zone), ["1h", "90d", "0h", "80d"]) | {"limits": {"budgets": budgets}}
    by_clock, by_month = parse_scenario(json_text(data)).limits.budgets
    begins = [0.0, *(hours_between(now, at_clock(now, days * number, zone)) for number in range(1, 60 // days))]
    periods = by_clock.periods(24.0 * 60)
    assert [begin for begin, _ in periods[: len(begins)]] == pytest.approx(begins)
    assert all(one[1] == other[0] for one, other in pairwise(periods)) and periods[-1][1] >= 24.0 * 60
    assert max(end - begin for begin, end in periods) <= by_clock.length_hours + 1e-9
    assert [end - begin for begin, end in by_month.periods(1500.0)] == [730.0] * 3
    later = change_scenario(parse_scenario(json_text(data)), ["limits.budgets.1.usd=50"])
    assert later.limits.budgets[0] == by_clock


@pytest.mark.parametrize(("zone", "start"), [("Europe/Berlin", 0.0), ("UTC", 0.5)])
def test_a_day_on_which_the_clock_goes_forward_has_the_budget_of_23_hours(zone: str, start: float) -> None:
    """A run of 24 h at $2 with $47 a day: it spends $46 of them on the short day, and waits for $1 less elsewhere."""
    run = {**JOB, "name": "j", "measured": [{"gpu": "A100-80GB", "gpus": 1, "hours": 24}], "confidence": 0.5}
    limits = {"budget_confidence": 0.5, "budgets": [{"per": "day", "usd": 47}]}
    now = in_zone(datetime.datetime(2026, 3, 28, 12, tzinfo=datetime.UTC), zone)
    plan = solved(read({"name": "s", "now": now, "offers": [RENTED], "jobs": [run], "limits": limits}))
    assert plan.jobs[0].start_at_hours == pytest.approx(start, abs=0.02)
