"""The table of framework profiles: the ones that a scenario can name, each with what stands behind it."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from planner.library.reading import read_library
from planner.library.schema import Library
from planner.scenario.techniques import FRAMEWORKS

BASES = {"peaks", "fits", "shared", "documented", "none"}


@cache
def library() -> Library:
    """The shipped library without architectures, read once."""
    return read_library([])


def profiles() -> dict[str, Any]:
    """The rows of the table."""
    found: dict[str, Any] = library().tables["frameworks"]["frameworks"]
    return found


def test_scenario_and_table_name_the_same_frameworks() -> None:
    """Whatever a job may name has a profile, and no profile is out of reach."""
    assert set(profiles()) == set(FRAMEWORKS)


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_a_profile_says_what_stands_behind_it(name: str) -> None:
    """Measured runs make a profile; documentation alone leaves it with the wider margin."""
    row = profiles()[name]
    assert row["basis"] in BASES
    assert row["profiled"] == (row["basis"] in ("peaks", "fits", "shared"))
    assert bool(row.get("unknown")) == (row["basis"] == "none")


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_a_profile_points_at_rows_that_exist(name: str) -> None:
    """Loss, adapters and kernels of a profile are found in their tables, and its sharding is what it allows."""
    row, tables = profiles()[name], library().tables["bytes"]
    assert row["loss"] in tables["loss"]
    assert row["adapters"] in tables["adapters"]
    assert f"{row['kernels']}.launch_seconds" in library().calibrations["kernels"].coefficients
    assert set(row["sharding"]) <= set(row["allowed"])
    assert row.get("masters", "bf16") in tables["training"]
