"""Settings from the command line: where they land, and what is said of those that land nowhere."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.documents.overrides import override

DATA: dict[str, Any] = {
    "name": "s",
    "jobs": [{"name": "llama-3.1", "deadline": "36h"}, {"name": "b"}],
    "limits": {"budget_usd": 250, "quota": {"a.b": 1}},
    "objective": "cost",
}


@pytest.mark.parametrize(
    ("setting", "path", "value"),
    [
        ("limits.budget_usd=100", ("limits", "budget_usd"), 100),
        ("limits.budget_usd=null", ("limits", "budget_usd"), None),
        ("limits.spot_share.max=0", ("limits", "spot_share", "max"), 0),
        ("jobs.b.deadline=12h", ("jobs", 1, "deadline"), "12h"),
        ("jobs.1.deadline=12:30", ("jobs", 1, "deadline"), "12:30"),
        ("jobs.llama-3.1.deadline=12h", ("jobs", 0, "deadline"), "12h"),
        ("jobs.2.name=c", ("jobs", 2, "name"), "c"),
        ("limits.quota.a.b=2", ("limits", "quota", "a.b"), 2),
        ("adjust.0.usd_per_hour_factor=1.2", ("adjust", 0, "usd_per_hour_factor"), 1.2),
        ("objective.value_of_time_usd_per_hour=5", ("objective", "value_of_time_usd_per_hour"), 5),
        ("jobs.b.work={tokens: 1e6}", ("jobs", 1, "work"), {"tokens": 1e6}),
        ("description=a=b", ("description",), "a=b"),
        ("description=", ("description",), None),
    ],
)
def test_a_setting_lands_at_its_path(setting: str, path: tuple[str | int, ...], value: object) -> None:
    """Keys, names with dots, indices, and what is not there yet can all be set."""
    found: Any
    found, origins, faults = override(DATA, [setting])
    assert not faults
    assert origins == {path: setting}
    for part in path:
        found = found[part]
    assert found == value


@pytest.mark.parametrize(
    ("setting", "what", "fix"),
    [
        ("jobs.lama-3.1.deadline=1h", "jobs has no item called lama-3", "did you mean jobs.llama-3.1.deadline?"),
        ("jobs.x.deadline=1h", "jobs has no item called x", "did you mean jobs.llama-3.1.deadline or jobs.b.deadline?"),
        ("jobs.3.name=c", "jobs has 2 items", "jobs.2"),
        ("jobs.99999999999999999999.name=c", "jobs has 2 items", "jobs.2"),
        ("limits.budget_usd", "is not PATH=VALUE", "limits.budget_usd=100"),
        ("=3", "is not PATH=VALUE", ""),
        ("limits..budget_usd=3", "is not PATH=VALUE", ""),
        ("limits={a: 1, a: 2}", "duplicate key", ""),
        ("limits=[1", "not YAML", ""),
    ],
)
def test_a_setting_that_leads_nowhere_says_what_is_near(setting: str, what: str, fix: str) -> None:
    """The fault names the setting as typed, what is wrong with it, and what would be right."""
    _, _, (fault,) = override(DATA, [setting])
    assert fault.file == f"--set {setting}"
    assert what in fault.what
    assert fix in fault.fix


def test_every_faulty_setting_is_told_and_the_others_apply() -> None:
    """One bad setting does not hide another."""
    data, _, faults = override(DATA, ["jobs.x.a=1", "name=t", "jobs.y.a=1"])
    assert len(faults) == 2
    assert data["name"] == "t"


def test_a_place_of_thousands_of_levels_is_a_fault() -> None:
    """A path as long as a command line is answered at once."""
    data, origins, faults = override(DATA, ["jobs.0.after." * 2000 + "lag=1h"])
    assert (data, origins) == (DATA, {})
    assert "deeper than 50 levels" in faults[0].what


def test_later_settings_see_earlier_ones() -> None:
    """An item that one setting appends can be filled by the next, by its name."""
    data, _, _ = override(DATA, ["jobs.2.name=c", "jobs.c.deadline=1h"])
    assert data["jobs"][2] == {"name": "c", "deadline": "1h"}


def test_the_data_given_is_left_alone_even_where_parts_are_shared() -> None:
    """Two jobs that share one mapping through an alias do not change together."""
    shared = {"method": "lora"}
    data = {"jobs": [{"name": "a", "techniques": shared}, {"name": "b", "techniques": shared}]}
    before = copy.deepcopy(data)
    made, _, _ = override(data, ["jobs.a.techniques.method=full"])
    assert data == before
    assert [job["techniques"]["method"] for job in made["jobs"]] == ["full", "lora"]


@settings(max_examples=200, derandomize=True, deadline=None)
@given(st.text(alphabet="jobs.limt012=ab[]{}:\n\0é -", max_size=20))
def test_any_setting_is_applied_or_told(setting: str) -> None:
    """No text on the command line breaks the door: it changes the data or becomes a fault."""
    data, origins, faults = override(DATA, [setting])
    assert bool(faults) != bool(origins)
    assert data == DATA or origins
