"""What a simulation of picks by uncertain estimates must show."""

from __future__ import annotations

import math

import numpy as np
import pytest

from planner.solving.plan_evidence import Priced, own_parts, simulate


def candidates(usd: list[float]) -> Priced:
    """Candidates that differ in framework, card and configuration, all of whose dollars grow with the hours."""
    n = len(usd)
    each = np.arange(n)
    return Priced(np.array(usd), np.ones(n), np.zeros(n), each, each, each)


def test_parts_follow_from_differences() -> None:
    """0.205 of two sources, 0.115 on two cards, 0.11 on one: sqrt(0.205^2 - 0.115^2) / sqrt 2 = 0.12, 0.024, 0.078."""
    values = {"difference.other_source": 0.205, "difference.other_card": 0.115, "difference.same_card": 0.11}
    assert own_parts(values) == pytest.approx((0.12, 0.0237, 0.0778), abs=1e-4)


def test_the_least_of_two_equal_estimates_flatters_by_what_theory_says() -> None:
    """The expected minimum of two normal errors of spread s is -s / sqrt(pi): 0.1 gives 5.6 %."""
    found = simulate(candidates([1.0, 1.0]), (0.0, 0.0, 0.1), draws=4000)
    assert found.flattery == pytest.approx(0.1 / math.sqrt(math.pi), rel=0.05)
    assert found.regret == 0.0


def test_what_has_no_rival_does_not_flatter() -> None:
    """One candidate alone, or one ten times as cheap as all others, is picked whatever its error."""
    for usd in ([1.0], [1.0, 10.0, 10.0]):
        found = simulate(candidates(usd), (0.0, 0.0, 0.1), draws=2000)
        assert found.flattery == pytest.approx(0.0, abs=0.01)
        assert found.regret == 0.0


def test_a_shared_error_chooses_nothing() -> None:
    """Offers of one configuration have one error: the cheapest stays the cheapest."""
    alike = candidates([1.0, 1.01])._replace(
        **{name: np.zeros(2, int) for name in ("framework", "card", "configuration")}
    )
    assert simulate(alike, (0.1, 0.1, 0.1), draws=500).regret == 0.0


def test_no_candidates_are_no_curse() -> None:
    """Nothing to pick from, or something for nothing."""
    assert simulate(candidates([0.0, 1.0]), (0.1, 0.1, 0.1)) == (0.0, 0.0)
    assert simulate(candidates([]), (0.1, 0.1, 0.1)) == (0.0, 0.0)


def test_a_card_whose_speed_is_a_prior_flatters_more() -> None:
    """Two cards with 0.1 of their own each: as two configurations with that."""
    prior = candidates([1.0, 1.0])._replace(unmeasured=np.full(2, 0.1))
    assert simulate(prior, (0.0, 0.0, 0.0), draws=4000).flattery == pytest.approx(0.1 / math.sqrt(math.pi), rel=0.05)
