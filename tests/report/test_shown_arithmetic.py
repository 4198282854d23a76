"""What a reader can compute from the text of a plan agrees with what it says, and no word is cut."""

from __future__ import annotations

import math
import re
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.loading.scenario_file import read_scenario
from planner.report import format as words
from planner.report.bill import bill_line, rounding
from planner.report.plan import render
from planner.results.plan_parts import BillItem
from planner.scenario.scenario import SolveOptions
from planner.solving.solve import solve
from tests.helpers.frozen_data import frozen_scenarios

FACTORS = re.compile(r"(?P<amount>\d[\d,.]*) (?P<unit>[^$]*?) x \$(?P<rate>\d[\d,.]*)\b.*? (?P<usd>-?\d[\d,.]*)$")
BATCH = re.compile(r"micro-batch (\d+) x (\d+) steps?(?: x ([\d,]+) (?:GPUs|chips|groups))?.*= ([\d,]+) ")
UNITS = ("h", "machine hours", "GB-month", "M tokens")


@cache
def text_of(name: str) -> str:
    """Return the plan of a shipped scenario as text."""
    return render(solve(read_scenario(frozen_scenarios()[name]), SolveOptions()))


def number(text: str) -> float:
    """Return a shown figure."""
    return float(text.replace(",", ""))


def agrees(line: str) -> bool:
    """Return whether the factors of a line of the bill multiply to its dollars, to the digits shown."""
    found = FACTORS.search(line)
    if found is None:
        return True
    minutes = 60.0 if found["unit"] == "min" else 1.0
    product = number(found["amount"]) * number(found["rate"]) / minutes
    return words.usd(product) == words.usd(number(found["usd"]))


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(frozen_scenarios()))
def test_the_products_of_a_shipped_plan_multiply(name: str) -> None:
    """A quantity times its rate is the amount beside it, micro-batches make up the batch, and 80 columns suffice."""
    text = text_of(name)
    assert [line for line in text.splitlines() if not agrees(line)] == []
    for micro, steps, ranks, batch in BATCH.findall(text):
        assert int(micro) * int(steps) * number(ranks or "1") == number(batch)
    assert max(map(len, text.splitlines())) <= words.WIDTH


def lacking(text: str) -> float:
    """Return what the lines of a bill lack of their total, to the cent; 0 where a plan shows no bill of one job."""
    lines = text.splitlines()
    first = next((at for at, line in enumerate(lines) if line.startswith("  Bill ")), None)
    if first is None:
        return 0.0
    last = next(at for at in range(first, len(lines)) if lines[at][11:].startswith("total "))
    shown = [number(line.split()[-1]) for line in lines[first : last + 1] if "not included" not in line and line[66:]]
    return round(shown[-1] - sum(shown[:-1]), 2)


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(frozen_scenarios()))
def test_the_lines_of_a_shipped_bill_add_up_to_its_total(name: str) -> None:
    """Every line is shown in whole cents; a line of rounding, or of the smaller items, makes up for it."""
    text = text_of(name)
    assert lacking(text) == 0 or "jobs, " in text.splitlines()[0]


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
