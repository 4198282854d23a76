"""What a reader can compute from the text of a plan agrees with what it says, and no word is cut.

`tests/end_to_end/test_shipped_scenarios.py` reads the plan of every shipped scenario.
"""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.report import words
from planner.report.plan_sections import bill_line, rounding
from planner.results.plan_parts import BillItem
from tests.helpers.shown_arithmetic import agrees, number

UNITS = ("h", "machine hours", "GB-month", "M tokens")


@settings(derandomize=True, max_examples=200)
@given(amounts=st.lists(st.floats(0, 30_000), min_size=1, max_size=9))
def test_rounding_makes_any_amounts_add_up(amounts: list[float]) -> None:
    """The amounts as they are shown and the rounding are the total as it is shown."""
    total = math.fsum(amounts)
    shown = [number(words.usd(one).replace("$", "")) for one in (*amounts, total)]
    assert math.fsum(shown[:-1]) + rounding(amounts, total) == pytest.approx(shown[-1], abs=1e-6)


@settings(derandomize=True, max_examples=100)
@given(amount=st.floats(1e-4, 1e5), rate=st.floats(1e-3, 1e3), unit=st.sampled_from(UNITS))
def test_any_line_of_a_bill_multiplies(amount: float, rate: float, unit: str) -> None:
    """As many digits are shown as the product needs; where there is no room the rate is left out."""
    item = BillItem(item="gpu spot", usd=amount * rate, quantity=amount, unit=unit, rate_usd=rate)
    line = bill_line(item)
    assert agrees(line), line
    single = amount == 1 and unit != "h"
    assert " x $" in line or single or math.log10(amount * rate) > 3, line


@settings(derandomize=True, max_examples=100)
@given(text=st.lists(st.text("abcde", min_size=1, max_size=9), min_size=1, max_size=30).map(" ".join))
def test_a_shortened_line_ends_with_a_whole_word(text: str) -> None:
    """Words of up to half the width are kept whole or left out."""
    shown = words.shorten(text, 40)
    assert len(shown) <= 40
    assert shown == text or text.startswith(f"{shown.removesuffix('...')} ")
