"""The deadline: the largest spot share that keeps it, and the guarantee of a policy that keeps it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from planner.candidates.run_hours import RowHours, max_spot_share, policy_guarantee_hours, policy_late_hours
from tests.helpers.candidate_tables import random_table

NAN = float("nan")


@pytest.mark.parametrize(
    ("on_demand", "spot", "latest", "share"),
    [
        (10.0, 20.0, 16.0, 0.5),  # 1 + 15 h: half way between the markets
        (10.0, 20.0, 40.0, 1.0),
        (10.0, 20.0, 10.0, -1.0),  # on demand needs 11 h
        (20.0, 10.0, 16.0, 1.0),  # spot is faster: all of it
        (20.0, 10.0, 10.0, -1.0),
        (10.0, NAN, 11.0, 0.0),
        (10.0, NAN, 10.0, -1.0),
        (NAN, 10.0, 11.0, 1.0),
        (NAN, 10.0, 10.0, -1.0),
    ],
)
def test_the_largest_spot_share_keeps_the_deadline(on_demand: float, spot: float, latest: float, share: float) -> None:
    """1 h of start, then hours between those of the two markets; -1 where no share is in time."""
    table = replace(random_table(1, 1), late_start_h=np.asarray([1.0]), late_h=np.asarray([[on_demand, spot]]))
    found = max_spot_share(table, latest)
    assert found[0] == pytest.approx(share)
    if share >= 0:
        assert table.late_hours(found)[0] <= latest + 1e-9


def test_the_guarantee_is_what_the_deadline_leaves() -> None:
    """2 h of export and 1 h elsewhere, all hours 1.5 times as long when late, the run twice without early stopping."""
    columns = {name: np.zeros(1) for name in RowHours.__annotations__}
    one = {"export": 2.0, "late_separate": 1.0, "late": 1.5, "stretch": 2.0}
    hours = RowHours(
        **{**columns, **{name: np.asarray([value]) for name, value in one.items()}, "node_group_ratios": (1.0,)}
    )
    guarantee = policy_guarantee_hours(hours, 34.5)
    assert guarantee[0] == pytest.approx((34.5 - 3 * 1.5) / 3)
    assert policy_late_hours(hours, guarantee)[0] == pytest.approx(34.5)
