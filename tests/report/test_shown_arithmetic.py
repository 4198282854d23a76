"""What a reader can compute from the text of a plan agrees with what it says, and no word is cut.

`tests/end_to_end/test_shipped_scenarios.py` reads the plan of every shipped scenario.
"""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.report import words
from planner.report.plan_figures import bill_figure
from planner.report.plan_sections import added_up, bill, bill_line, bill_text, rounding
from planner.results.plan_parts import BillItem
from tests.helpers.plans import make_assignment, make_plan
from tests.helpers.shown_arithmetic import agrees, number

UNITS = ("h", "machine hours", "GB-month", "M tokens")


@settings(derandomize=True, max_examples=200)
@given(amounts=st.lists(st.floats(0, 30_000), min_size=1, max_size=9))
def test_rounding_makes_any_amounts_add_up(amounts: list[float]) -> None:
    """The amounts as they are shown and the rounding are the total as it is shown."""
    total = math.fsum(amounts)
    shown = [number(words.usd(one).replace("$", "")) for one in (*amounts, total)]
    assert math.fsum(shown[:-1]) + rounding(amounts, total) == pytest.approx(shown[-1], abs=1e-6)


@settings(derandomize=True, max_examples=200)
@given(amounts=st.lists(st.floats(0.01, 900), min_size=1, max_size=9))
def test_cents_of_rounding_are_in_the_largest_amount_and_no_line_of_their_own(amounts: list[float]) -> None:
    """Below $10,000 all is in whole cents, and the amounts as shown are the total as shown."""
    total = math.fsum(amounts)
    made, rest = added_up(amounts, total)
    shown = [number(words.usd(one).replace("$", "")) for one in (*made, total)]
    assert rest == 0 and math.fsum(shown[:-1]) == pytest.approx(shown[-1], abs=1e-6)
    assert max(abs(new - old) for new, old in zip(made, amounts, strict=True)) < 0.06


def test_a_bill_has_no_line_of_rounding() -> None:
    """Thirds of a dollar are a cent short of it."""
    bills = [BillItem(item=name, usd=1 / 3) for name in ("gpu on demand", "storage", "transfer out")]
    job = make_assignment(bill=bills, cost={"expected": 1.0, "low": 1.0, "high": 1.0}, cost_usd=1.0)
    table = bill_figure(make_plan(job, cost={"expected": 1.0, "low": 1.0, "high": 1.0})).table
    assert table is not None
    for text in (" ".join(bill(job)), bill_text([job], job.cost), repr(table.rows)):
        assert ("rounding" in text, text.count("0.34"), text.count("0.33")) == (False, 1, 2), text


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
