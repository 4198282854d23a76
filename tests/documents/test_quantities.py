"""Durations and counts as people write them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from planner.documents.quantities import Count, SequenceLength, TokenMean, format_hours, parse_count, parse_hours
from planner.errors import InputError
from planner.scenario.job import Job
from planner.scenario.job_stages import Work

JOB = {"name": "a", "architecture": "mistral-7b", "work": {"tokens": "1M"}}


@pytest.mark.parametrize(
    ("text", "hours"),
    [("90m", 1.5), ("36h", 36), ("2d", 48), ("1d12h", 36), ("36hr", 36), ("1.5 days", 36), ("2h 30min", 2.5)],
)
def test_durations_are_read_with_their_units(text: str, hours: float) -> None:
    """Minutes, hours and days may be mixed and written out."""
    assert parse_hours(text) == pytest.approx(hours)


@pytest.mark.parametrize("wrong", [36, 36.0, "36", "36x", "h", "", "-3h", "3h-", "0h", True, {}, [3]])
def test_a_duration_without_a_unit_names_the_units(wrong: Any) -> None:
    """A bare number is refused with what would be right."""
    with pytest.raises(ValidationError, match=r"90m, 36h, 2d or 1d12h"):
        Job.model_validate({**JOB, "deadline": wrong})


@settings(max_examples=100, derandomize=True)
@given(st.floats(1e-9, 1e6))
def test_a_written_duration_reads_back_exactly(hours: float) -> None:
    """No hour is lost on the way through a file."""
    assert parse_hours(format_hours(hours)) == hours


@pytest.mark.parametrize(
    ("written", "count"),
    [
        (50000, 50000),
        (90e6, 90_000_000),
        ("90e6", 90_000_000),
        ("10k", 10_000),
        ("500M", 500_000_000),
        ("1.2B", 1_200_000_000),
        ("1.2 billion", 1_200_000_000),
        ("2T", 2 * 10**12),
        ("1_000", 1000),
    ],
)
def test_counts_may_be_written_generously(written: Any, count: int) -> None:
    """Whole numbers come out, exactly, whichever way they are written."""
    assert parse_count(written) == count


@pytest.mark.parametrize(
    "wrong", [0, -5, 1.5, "1.5", "5X", "M", "", "1e9999", 10**30, True, float("nan"), float("inf")]
)
def test_what_is_no_count_is_refused(wrong: Any) -> None:
    """Nothing, less than nothing, parts of one, and the endless are no counts of tokens."""
    with pytest.raises(InputError, match=r"^Work: tokens: "):
        Work(tokens=wrong)


@pytest.mark.parametrize(
    ("written", "number"),
    [("16k", 16_000), ("1.2k", 1_200), ("24M", 24_000_000), ("50,000", 50_000), ("1,234,567", 1_234_567),
     ("2048", 2048), (2048, 2048), (2048.0, 2048), ("1_000", 1000), ("1,000.5k", 1_000_500)],
)  # fmt: skip
def test_numbers_of_tokens_and_samples_are_read_as_people_write_them(written: object, number: int) -> None:
    """One way of writing for counts, lengths and means."""
    assert TypeAdapter(Count).validate_python(written) == number
    assert TypeAdapter(SequenceLength).validate_python(written, strict=True) == number
    assert TypeAdapter(TokenMean).validate_python(written, strict=True) == number


@pytest.mark.parametrize("written", ["5,00", "50,0000", ",500", "1,2k", "16 KiB", "", "many", "1e999", True, "-5"])
def test_what_is_no_number_of_tokens_is_refused(written: object) -> None:
    """A comma that separates no thousands is no guess at a decimal."""
    for kind in (Count, SequenceLength, TokenMean):
        with pytest.raises(ValidationError):
            TypeAdapter(kind).validate_python(written, strict=True)
