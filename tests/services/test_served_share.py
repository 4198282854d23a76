"""What is served although spot machines are lost, each group on its own."""

from __future__ import annotations

import numpy as np
import pytest

from planner.services.fleet_optimise import served_on_average
from tests.helpers.fleet_problems import fleet


def test_two_groups_of_sixty_percent_are_lost_together_sixteen_percent_of_the_time() -> None:
    """Each carries all of the load: 84 % are served."""
    problem = fleet(
        [2.0], [2.0, 2.0], [1.0, 1.0], [0.0, 0.0], group=np.array([0, 1]), availability=np.array([0.6, 0.6])
    )
    assert served_on_average(problem, np.array([[1.0, 1.0]])) == pytest.approx(0.84)


def test_a_lost_group_takes_its_part_of_the_load_with_it() -> None:
    """A group that is there 75 % of the time and carries half of the load: an eighth is lost; on demand nothing is."""
    problem = fleet([4.0], [2.0, 2.0], [1.0, 1.0], [0.0, 0.0], group=np.array([-1, 0]), availability=np.array([0.75]))
    assert served_on_average(problem, np.array([[1.0, 1.0]])) == 0.875
    assert served_on_average(problem, np.array([[2.0, 0.0]])) == 1.0


def test_hours_count_by_their_load() -> None:
    """An hour of 3 that is always served, and one of 1 that is served half of the time: 87.5 %."""
    problem = fleet(
        [3.0, 1.0], [3.0, 1.0], [1.0, 1.0], [0.0, 0.0], group=np.array([-1, 0]), availability=np.array([0.5])
    )
    assert served_on_average(problem, np.array([[1.0, 0.0], [0.0, 1.0]])) == pytest.approx(0.875)
