"""Small words of the text that a reader stumbles over: one step, two machines, minutes, whole notes, no empty lines."""

from __future__ import annotations

from typing import Any

import pytest

from planner.report import words
from planner.report.plan_sections import bill, quantity, speed
from planner.report.plan_sections import render_notes as notes
from planner.report.plan_text import render
from tests.helpers.stage_scenarios import JOB, LORA, RENTED, line, planned, read, solved

SEEN: dict[str, Any] = {"measured": [{"gpu": "A100-80GB", "gpus": 1, "hours": 300}]}
SOLD = {"provider": "s", "managed": {"architectures": ["tinyllama-1.1b"], "usd_per_million_tokens": 0}}


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [(0.05, 0.12, "3 to 7 min"), (0.02, 0.05, "1 to 3 min"), (0.4, 1.2, "0.4 to 1.2 h"), (0.08, 4.0, "0.1 to 4.0 h")],
)
def test_an_interval_has_one_unit_which_is_minutes_where_hours_say_nothing(low: float, high: float, said: str) -> None:
    """No interval of minutes reads as beginning at nothing, and none mixes minutes with hours."""
    assert words.between(low, high) == said


def test_two_machines_and_one_step_are_counted_right() -> None:
    """A commitment for two machines, one for one; one step of training."""
    assert quantity(2, "machine for 1 month") == "2 machines for 1 month"
    assert quantity(1, "machine for 3 months") == "1 machine for 3 months"
    told = planned(RENTED, work={"steps": 1})
    assert ", 1 step of " in speed(told)[0]


def test_a_free_service_has_a_bill() -> None:
    """What a service gives away is on its bill, at nothing."""
    told = planned(SOLD, techniques=LORA)
    assert line(told, "tokens trained") == (10.0, 0.0)
    assert any("tokens trained" in row and "10 M tokens x $0.00" in row for row in bill(told))


def test_no_line_of_a_joint_plan_is_blank_inside_a_block() -> None:
    """A service has no batch to tell, and leaves no line for it; deadlines are told, not hours twice."""
    jobs = [{**JOB, "techniques": LORA, "deadline": "40d"}, {**JOB, **SEEN, "name": "b", "deadline": "40d"}]
    text = render(solved(read({"name": "s", "offers": [SOLD, {**RENTED, "stock": 1}], "jobs": jobs})))
    assert not [row for row in text.splitlines() if row and not row.strip()]
    assert text.count("meets the 960 h deadline with") == 2


def test_notes_are_told_in_full_or_not_at_all() -> None:
    """Where lines run out, the rest is counted; no note ends in dots."""
    told = ("one " * 30, "two " * 30, "three " * 30, "short")
    assert notes(told[:1], 2) == notes(told[:1], 9)
    for room in range(1, 9):
        lines = notes(told, room)
        assert len(lines) <= room
        assert not any(row.endswith("...") for row in lines)
    assert notes(told[:3], 1) == ["  Notes    3 notes: --details"]
    assert notes(told, 3)[-1].strip() == "short (2 more: --details)"
