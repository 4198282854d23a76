"""The table of framework profiles: each with what stands behind it."""

from __future__ import annotations

import pytest

from planner.library.reading import read_library
from planner.library.technique_tables import read_techniques

PROFILES = read_techniques().frameworks


@pytest.mark.parametrize("name", PROFILES)
def test_a_profile_says_what_stands_behind_it(name: str) -> None:
    """Measured runs make a profile; documentation alone leaves it with the wider margin."""
    row = PROFILES[name]
    assert row.profiled == (row.basis in ("peaks", "fits", "shared"))
    assert row.unknown == (row.basis == "none")


@pytest.mark.slow
@pytest.mark.parametrize("name", PROFILES)
def test_a_profile_points_at_rows_that_exist(name: str) -> None:
    """Kernels and fp32 masters of a profile are found in their tables."""
    row = PROFILES[name]
    assert f"{row.kernels}.launch_seconds" in read_library([]).calibrations["kernels"].coefficients
    assert {row.masters, *row.deepspeed_masters.values()} - {None} <= set(read_techniques().bytes.training)
