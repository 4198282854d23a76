"""Ranges: which values they have, and what is told where they make no sense."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.documents.overrides import MAX_CELLS, parse_range, parse_ranges
from planner.errors import ScenarioError
from planner.loading.scenario_file import parse_scenario
from tests.helpers.scenarios import GOOD


def told(*texts: str) -> list[str]:
    with pytest.raises(ScenarioError) as caught:
        parse_ranges(texts)
    return [str(fault) for fault in caught.value.faults]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("jobs.x.deadline=6h:24h:6h", ("6h", "12h", "18h", "24h")),
        ("jobs.x.deadline=24h:6h:-6h", ("24h", "18h", "12h", "6h")),
        ("limits.budget_usd=50:100:30", ("50", "80")),
        ("a.b=0.1:0.5:0.1", ("0.1", "0.2", "0.3", "0.4", "0.5")),
        ("a.b=7:7:1", ("7",)),
        ("a.b=90e6:270e6:90e6", ("90000000", "180000000", "270000000")),
        ("a.b=-1:1:1", ("-1", "0", "1")),
    ],
)
def test_range_goes_from_first_to_last_in_exact_steps(text: str, values: tuple[str, ...]) -> None:
    """The last value is in it when the steps hit it, and tenths stay tenths."""
    assert parse_range(text).values == values


def test_a_range_has_as_many_values_as_all_ranges_together_may_have() -> None:
    """A sweep into a file allows more of them than one that is drawn."""
    assert len(parse_ranges(("a.b=1:2501:1",), 1, 2501)[0].values) == 2501
    with pytest.raises(ScenarioError, match="2,501 plans to solve; at most 2,500"):
        parse_ranges(("a.b=1:2501:1",))


def test_list_of_values_is_taken_as_it_is() -> None:
    """Names need no quotes, other values are written so that they read back the same."""
    found = parse_range("limits.gpus.allow=[A100-80GB, [H100-80GB, H200], '12']")
    assert found.values == ("A100-80GB", '["H100-80GB", "H200"]', '"12"')
    assert found.numbers is None
    assert parse_range("a=[1, 2.5]").numbers == (1.0, 2.5)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a.b", "is not PATH=A:B:STEP"),
        ("=1:2:1", "is not PATH=A:B:STEP"),
        ("a..b=1:2:1", "is not PATH=A:B:STEP"),
        ("a.b=1:2", "1:2 is not A:B:STEP"),
        ("a.b=", "nothing is not A:B:STEP"),
        ("a.b=one:2:1", "one is not a number with a unit"),
        ("a.b=1d12h:2d:6h", "1d12h is not a number with a unit"),
        ("a.b=1:5:0", "the step is 0"),
        ("a.b=1h:5h:-1h", "a step of -1h leads away from 5h; write 1h:5h:1h"),
        ("a.b=5:1:1", "a step of 1 leads away from 1; write 5:1:-1"),
        ("a.b=6h:48:6h", "the three units differ (h, none, h); write 6h:48h:6h"),
        ("a.b=6h:2d:6h", "the three units differ (h, d, h)"),
        ("a.b=0:2500:1", "2,501 plans to solve; at most 2,500"),
        ("a.b=0:1e300:1e-300", "far too many plans to solve"),
        ("a.b=[]", "the list is empty"),
        ("a.b=[1, 2, 1]", "1 more than once"),
        ("a.b=[1, 2", "a.b: "),
    ],
)
def test_range_that_makes_no_sense_is_told_with_what_would(text: str, says: str) -> None:
    """One message, which names the range as it was typed."""
    (message,) = told(text)
    assert says in message
    assert message.startswith(f"--vary {text}")


def test_ranges_together_are_bounded() -> None:
    """Three ranges have no picture, twice the same place is no pair, and cells multiply."""
    assert "3 ranges are too many" in told("a=1:2:1", "b=1:2:1", "c=1:2:1")[0]
    assert "is varied twice" in told("a=1:2:1", "a=3:4:1")[0]
    assert "2,550 plans" in told("a=1:50:1", "b=1:51:1")[0]
    assert len(told("a=1:2:0", "b=1:2:0")) == 2


@settings(derandomize=True, max_examples=60)
@given(first=st.integers(-500, 500), count=st.integers(1, 60), step=st.integers(-40, 40).filter(bool))
def test_range_has_one_value_per_step(first: int, count: int, step: int) -> None:
    """Written from its ends, a range has exactly the values between them."""
    found = parse_range(f"a.b={first}h:{first + step * (count - 1)}h:{step}h")
    assert found.numbers == tuple(float(first + step * index) for index in range(count))
    assert found.unit == "h"
    assert len(found.values) <= MAX_CELLS


def test_ranges_of_a_scenario_are_checked_with_it() -> None:
    """`vary` is a part of the file: its faults have a line, and a good one changes nothing else."""
    bad = GOOD + "vary: ['jobs.a.deadline=6h:48h:0h', 'jobs.a.deadline=12h']\n"
    with pytest.raises(ScenarioError) as caught:
        parse_scenario(bad, file="s.yaml")
    assert [fault.where for fault in caught.value.faults] == ["vary.0", "vary.1"]
    assert all(fault.file == "s.yaml" and fault.line for fault in caught.value.faults)
    good = parse_scenario(GOOD + "vary: jobs.a.deadline=6h:48h:6h\n")
    assert good.vary == ("jobs.a.deadline=6h:48h:6h",)
    assert good.model_copy(update={"vary": ()}) == parse_scenario(GOOD)
