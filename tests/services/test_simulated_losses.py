"""States of a fleet on spot: worked examples, and shares that sum to one."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.services.service_simulation import SpotKind, fleet_states

KINDS = st.lists(
    st.builds(
        SpotKind, st.sampled_from(["", "a", "b"]), st.floats(0.1, 1.0), st.floats(0.5, 100.0), st.floats(0.0, 2.0)
    ),
    min_size=1,
    max_size=5,
)


def test_a_kind_answers_once_it_has_started() -> None:
    """90 % of the time there, stays of 10 h, a start of 6 minutes: 89.1 %."""
    states = fleet_states([SpotKind("a", 0.9, 10.0, 0.1)])
    assert sum(one.share for one in states if one.answers[0]) == pytest.approx(0.9 * math.exp(-0.01))


def test_groups_are_lost_independently_and_a_group_as_a_whole() -> None:
    """Two groups of 60 %: both are lost 16 % of the time; two kinds of one group are never lost apart."""
    apart = fleet_states([SpotKind("a", 0.6, 5.0, 0.0), SpotKind("b", 0.6, 5.0, 0.0)])
    assert {one.answers: one.share for one in apart}[False, False] == pytest.approx(0.16)
    together = fleet_states([SpotKind("a", 0.6, 5.0, 0.0), SpotKind("a", 0.6, 5.0, 0.0), SpotKind("", 1.0, 1.0, 9.0)])
    assert {one.answers for one in together} == {(True, True, True), (False, False, True)}


@given(KINDS)
def test_shares_sum_to_one_and_machines_on_demand_always_answer(kinds: list[SpotKind]) -> None:
    """Whatever the groups."""
    states = fleet_states(kinds)
    assert math.fsum(one.share for one in states) == pytest.approx(1.0)
    assert all(answers for one in states for kind, answers in zip(kinds, one.answers, strict=True) if not kind.group)
