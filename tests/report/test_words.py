"""Figures as words: digits that are known, and no more."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.report import words


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (words.usd(1234.5), "$1,234.50"),
        (words.usd(3728867.12), "$3,728,867"),
        (words.usd(-0.1), "-$0.10"),
        (words.usd(-0.001), "$0.00"),
        (words.rate(0.1269), "$0.127"),
        (words.rate(0.08), "$0.08"),
        (words.rate(0.5), "$0.50"),
        (words.rate(2.494), "$2.49"),
        (words.rate(0.0), "$0.00"),
        (words.hours(21.42), "21.4 h"),
        (words.hours(1234.56), "1,235 h"),
        (words.hours(0.05), "3 min"),
        (words.hours(0.0), "0.0 h"),
        (words.plain_number(36.0), "36"),
        (words.plain_number(2.6), "2.6"),
        (words.significant(1193.7), "1,190"),
        (words.significant(0.5312), "0.531"),
        (words.significant(999.9), "1,000"),
        (words.significant(12345678), "12,300,000"),
        (words.significant(0), "0"),
        (words.brief(4.0004e-11), "4e-11"),
        (words.brief(0.00123), "0.00123"),
        (words.brief(1193.7), "1,190"),
        (words.brief(0), "0"),
        (words.duration(1 / 60), "1 min"),
        (words.duration(24), "24.0 h"),
        (words.duration(48), "2 days"),
        (words.duration(720), "30 days"),
        (words.percent(0.0312), "3.1 %"),
        (words.percent(1e-9), "0.1 %"),
        (words.percent(0.0), "0.0 %"),
        (words.probability_text(0.972), "97 %"),
        (words.probability_text(0.979), "97 %"),
        (words.probability_text(0.29), "29 %"),
        (words.probability_text(1.0), "over 99 %"),
        (words.probability_text(0.0), "under 1 %"),
        (words.bar(0.557), "###########........."),
        (words.bar(7.0), "#" * 20),
        (words.between(17.0, 27.1), "17.0 to 27.1 h"),
        (words.between(0.02, 0.05), "1 to 3 min"),
        (words.usd_between(2.3, 3.6), "$2.30 to 3.60"),
    ],
)
def test_figures_are_told_in_their_habit(said: str, expected: str) -> None:
    """Money two decimals, hours one, rates three digits."""
    assert said == expected


@settings(derandomize=True, max_examples=200)
@given(value=st.floats(1e-9, 1e12))
def test_three_digits_are_within_half_a_percent(value: float) -> None:
    """Rounding for the eye never changes a figure by more than its third digit."""
    assert float(words.significant(value).replace(",", "")) == pytest.approx(value, rel=0.0051)


def test_what_is_cut_is_marked() -> None:
    """Text that does not fit ends in dots after a whole word, within the width asked for."""
    assert words.wrap_lines("one two three four five", 10, 1) == ["one two..."]
    assert words.join_parts(["aaaa", "bbbb", "cccc"], "  ", 10, 1) == ["aaaa  ..."]
    assert words.join_parts(["DeepSpeed $9 (prior)", "NeMo $8 (prior)", "hf $7"], "  ", 39, 1) == [
        "DeepSpeed $9 (prior)  ..."
    ]
    assert words.join_parts(["aaaa", "bbbb", "cccc"], "  ", 10, 2) == ["aaaa  bbbb", "cccc"]


@pytest.mark.parametrize(("hours", "shown"), [(3.41, "3.5 h"), (36.0, "36.0 h"), (0.07, "5 min"), (1000.2, "1,001 h")])
def test_hours_at_the_confidence_are_rounded_up(hours: float, shown: str) -> None:
    """A deadline of the hours that a text shows keeps the plan; hours that are exact stay what they are."""
    assert words.by(hours) == f"by {shown}" and words.by(words.shown_by(hours)) == f"by {shown}"


def test_a_note_does_not_end_at_a_comma_in_the_middle_of_a_sentence() -> None:
    """A condition without what follows from it says nothing."""
    note = "link unknown: PCIe assumed; if it is NVLink, say interconnect: nvlink"
    assert words.wrap_clauses(note, " (3 more)", 62, 1) == ["link unknown: PCIe assumed (3 more)"]
    licence = "licence of flux.1-dev: Non-Commercial License, no use of the model without a paid licence"
    assert words.wrap_clauses(licence, " (3 more)", 62, 1) == ["licence of flux.1-dev: Non-Commercial License (3 more)"]
