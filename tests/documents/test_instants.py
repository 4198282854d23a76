"""Instants across a change of the clock: compared in UTC, shown in the zone of the user."""

from __future__ import annotations

import pytest
from pydantic_core import PydanticCustomError

from planner.documents.quantities import hours_between, moment_after, parse_instant, zone_of
from planner.loading.scenario_file import parse_scenario
from tests.helpers.scenarios import GOOD


@pytest.mark.parametrize(
    ("start", "end", "hours"),
    [
        ("2026-03-29 00:00 Europe/Berlin", "2026-03-29 05:00 Europe/Berlin", 4.0),
        ("2026-10-25 00:00 Europe/Berlin", "2026-10-25 05:00 Europe/Berlin", 6.0),
        ("2026-03-29 00:00 Europe/Berlin", "2026-03-29 03:00 UTC", 4.0),
        ("2026-03-08 00:00 America/New_York", "2026-03-09 00:00 America/New_York", 23.0),
        ("2026-06-01 00:00 Europe/Berlin", "2026-06-02 00:00 Europe/Berlin", 24.0),
    ],
)
def test_hours_pass_as_they_pass(start: str, end: str, hours: float) -> None:
    """The same instant in another zone gives the same hours; a deadline of a scenario has them."""
    first, last = parse_instant(start), parse_instant(end)
    assert hours_between(first, last) == hours and hours_between(last, first) == -hours
    text = GOOD.replace("deadline: 36h", f"deadline: {end}") + f"now: {start}\n"
    assert parse_scenario(text).jobs[0].deadline_hours == hours  # type: ignore[union-attr]


def test_a_moment_is_shown_by_the_clock_of_its_zone() -> None:
    """Four hours after midnight of the change it is five o'clock; without a name the offset of `now` stays."""
    assert moment_after("2026-03-29T00:00+01:00", 4, "Europe/Berlin").strftime("%H:%M %z") == "05:00 +0200"
    assert moment_after("2026-03-29T00:00+01:00", 4).strftime("%H:%M %z") == "04:00 +0100"
    assert zone_of("2026-03-29 05:00 Europe/Berlin") == "Europe/Berlin"
    assert zone_of("2026-03-29 05:00 UTC") == zone_of("2026-03-29 05:00") == zone_of(None) == ""


def test_a_time_that_the_clock_skips_is_refused() -> None:
    """Half past two does not exist on that night."""
    with pytest.raises(PydanticCustomError, match="does not exist"):
        parse_instant("2026-03-29 02:30 Europe/Berlin")
