"""A disk may be named by its class."""

from __future__ import annotations

import pytest

from planner.errors import ScenarioError
from planner.library.names import disk_classes
from tests.helpers.stage_scenarios import CPU, RENTED, asked


def test_a_class_stands_for_its_speed() -> None:
    """gp3 reads 125 MiB/s, which are 0.131 GB/s."""
    scenario = asked({**RENTED, "disk_gb_per_second": "gp3"}, CPU, storage_gb_per_second="nvme")
    assert scenario.offers[0].disk_gb_per_second == pytest.approx(125 * 2**20 / 1e9, rel=0.001)
    assert scenario.jobs[0].storage_gb_per_second == disk_classes()["nvme"] == 2


def test_an_unknown_class_is_told_with_the_nearest() -> None:
    """One fault."""
    with pytest.raises(ScenarioError, match=r"'gp33' is not a class of disks; did you mean gp3\?"):
        asked(RENTED, storage_gb_per_second="gp33")
