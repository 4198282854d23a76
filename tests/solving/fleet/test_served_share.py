"""What is served although spot machines are lost: at best, and if groups are lost independently."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.solving.fleet.served import served_at_best, served_if_independent
from tests.helpers.fleet_problems import fleet


def test_two_groups_of_sixty_percent_are_lost_together_sixteen_percent_of_the_time() -> None:
    """Each carries all of the load: at best all is served, independently 84 %."""
    problem = fleet(
        [2.0], [2.0, 2.0], [1.0, 1.0], [0.0, 0.0], group=np.array([0, 1]), others_share=np.array([0.9, 0.9])
    )
    both = np.array([[1.0, 1.0]])
    assert served_at_best(problem, [0.6, 0.6], both) == pytest.approx(1.0)
    assert served_if_independent(problem, [0.6, 0.6], both) == pytest.approx(0.84)


def test_on_demand_serves_all_and_one_group_is_the_same_in_both_cases() -> None:
    """A group that is there 75 % of the time and carries half of the load: an eighth is lost."""
    problem = fleet([4.0], [2.0, 2.0], [1.0, 1.0], [0.0, 0.0], group=np.array([-1, 0]), others_share=np.array([0.5]))
    half, firm = np.array([[1.0, 1.0]]), np.array([[2.0, 0.0]])
    assert served_at_best(problem, [0.75], half) == served_if_independent(problem, [0.75], half) == 0.875
    assert served_at_best(problem, [0.75], firm) == served_if_independent(problem, [0.75], firm) == 1.0


@given(
    st.lists(st.tuples(st.floats(0.05, 1.0), st.integers(0, 3)), min_size=1, max_size=5),
    st.floats(0.5, 6.0),
    st.integers(0, 3),
)
def test_independent_losses_serve_no_more_than_the_best_case(
    groups: list[tuple[float, int]], load: float, firm: int
) -> None:
    """The worst group alone is lost as often in both; the others only add to it."""
    kinds = len(groups) + 1
    problem = fleet(
        [load], [1.0] * kinds, [1.0] * kinds, [0.0] * kinds,
        group=np.array([-1, *range(len(groups))]), others_share=np.zeros(len(groups)),
    )  # fmt: skip
    fleets = np.array([[firm, *(count for _, count in groups)]], dtype=float)
    if fleets.sum() < load:
        return
    there = [a for a, _ in groups]
    assert served_if_independent(problem, there, fleets) <= served_at_best(problem, there, fleets) + 1e-9
