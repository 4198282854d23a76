"""Several trials of one run: rungs worked by hand, and laws of successive halving."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.estimates.work import rungs, trial_work

COUNTS = st.integers(1, 60)
FACTORS = st.sampled_from([1.5, 2, 2.5, 3, 4, 5])


def test_one_run_is_itself() -> None:
    """One trial multiplies nothing, loads nothing again and waits for nothing."""
    assert trial_work(1) == (1, 1, 0, 0, 0)


def test_trials_without_halving_by_hand() -> None:
    """9 trials on 2 node groups: 5 one after the other on the busier one, 4 and 3 further loads."""
    assert trial_work(9, 2) == (5, 9, 4, 7, 0)
    assert trial_work(9, 9) == (1, 9, 0, 0, 0)


def test_nine_trials_halved_by_three() -> None:
    """Rungs of 9, 3 and 1 trials end at 1/9, 1/3 and all of the work: 1 + 2/3 + 2/3 runs in place of 9."""
    assert rungs(9, 3) == ((9, pytest.approx(1 / 9)), (3, pytest.approx(1 / 3)), (1, 1.0))
    alone = trial_work(9, 1, 3)
    assert alone.work == pytest.approx(7 / 3)
    assert alone.wall == pytest.approx(7 / 3)
    assert (alone.reloads, alone.reloads_wall, alone.waiting) == (8 + 3 + 1, 8 + 3 + 1, 0)


def test_halving_side_by_side() -> None:
    """On 3 node groups: 3 rounds of 1/9, one of 2/9, one of 2/3; the last trial still lies where it ran."""
    found = trial_work(9, 3, 3)
    assert found.wall == pytest.approx(3 / 9 + 2 / 9 + 2 / 3)
    assert found.work == pytest.approx(7 / 3)
    assert (found.reloads_wall, found.reloads) == (2 + 1, 6 + 3)


def test_a_node_group_waits_for_the_rung() -> None:
    """On 2 node groups one runs 5 trials of the first rung, the other 4 and waits 1/9; later it is released."""
    assert trial_work(9, 2, 3).waiting == pytest.approx(1 / 9)


def test_all_side_by_side_stay_in_memory() -> None:
    """With a node group for each trial, survivors go on where they are, and the wall is that of one run."""
    found = trial_work(9, 9, 3)
    assert found.wall == pytest.approx(1)
    assert (found.reloads, found.reloads_wall, found.waiting) == (0, 0, 0)


@pytest.mark.parametrize(("count", "factor", "steps"), [(125, 5, 3), (243, 3, 5), (1000, 10, 3), (8, 3, 1), (2, 3, 0)])
def test_powers_are_not_lost_to_rounding(count: int, factor: float, steps: int) -> None:
    """The trials are thinned out as often as the factor goes into their number, exact powers included."""
    ladder = rungs(count, factor)
    assert len(ladder) == steps + 1
    assert ladder[-1] == (count // factor**steps, 1.0)


@pytest.mark.parametrize("wrong", [(0, 1, None), (3, 4, None), (3, 0, None), (3, 1, 1.0)])
def test_nonsense_is_refused(wrong: tuple[int, int, float | None]) -> None:
    """No trials, more node groups than trials, none at all, or a halving that keeps everybody."""
    with pytest.raises(ValueError, match="trial"):
        trial_work(*wrong)


@settings(max_examples=150, derandomize=True)
@given(COUNTS, st.data(), FACTORS)
def test_halving_never_costs_more(count: int, data: st.DataObject, factor: float) -> None:
    """Neither work nor wall of halved trials exceeds those of all runs in full; one run is the least."""
    at_once = data.draw(st.integers(1, count))
    full, halved = trial_work(count, at_once), trial_work(count, at_once, factor)
    assert full == (math.ceil(count / at_once), count, math.ceil(count / at_once) - 1, count - at_once, 0)
    assert 1 - 1e-9 <= halved.work <= full.work + 1e-9
    assert 1 - 1e-9 <= halved.wall <= full.wall + 1e-9


@settings(max_examples=150, derandomize=True)
@given(COUNTS, st.data(), st.none() | FACTORS)
def test_node_groups_do_what_they_are_held_for(count: int, data: st.DataObject, factor: float | None) -> None:
    """Work and waiting fit into the node groups' hours, loads into their chains; more node groups never take longer."""
    at_once = data.draw(st.integers(1, count))
    found = trial_work(count, at_once, factor)
    assert found.work + found.waiting <= found.wall * at_once + 1e-9
    assert found.reloads <= found.reloads_wall * at_once
    assert trial_work(count, count, factor).wall == pytest.approx(1)
    assert trial_work(count, min(at_once + 1, count), factor).wall <= found.wall + 1e-9


@settings(max_examples=100, derandomize=True)
@given(COUNTS, st.data(), st.sampled_from([2, 3, 4]))
def test_node_groups_simulated(count: int, data: st.DataObject, factor: int) -> None:
    """Dealing the trials of every rung out to node groups in turn gives the same wall, work and waiting."""
    at_once = data.draw(st.integers(1, count))
    ladder = rungs(count, factor)
    wall = work = waiting = Fraction(0)
    done = Fraction(0)
    for position, (alive, share) in enumerate(ladder):
        exact = Fraction(1, factor ** (len(ladder) - 1 - position))
        assert share == pytest.approx(float(exact))
        node_groups = [Fraction(0)] * at_once
        for trial in range(alive):
            node_groups[trial % at_once] += exact - done
        kept = min(at_once, ladder[position + 1].alive) if position + 1 < len(ladder) else 0
        wall += max(node_groups)
        work += sum(node_groups)
        waiting += sum(max(node_groups) - busy for busy in sorted(node_groups, reverse=True)[:kept])
        done = exact
    found = trial_work(count, at_once, factor)
    assert found[:2] == pytest.approx((float(wall), float(work)))
    assert found.waiting == pytest.approx(float(waiting))
