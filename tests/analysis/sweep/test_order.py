"""Variants are chained so that neighbours differ little, and every one of them is solved once."""

from __future__ import annotations

from itertools import pairwise, product

import pytest

from planner.analysis.run_sweep import MAX_CHUNK, chained_places, change_cost, chunks_of
from planner.documents.overrides import parse_ranges

RANGES = parse_ranges(
    ("limits.budget_usd=1:3:1", "jobs.bot.work.tokens=[1e7, 2e7]", "jobs.bot.deadline=2h:8h:2h"), most_ranges=3
)


def test_neighbours_differ_in_one_value_by_one_step() -> None:
    """What the preparation of one variant takes from the one before is as much as possible."""
    places = chained_places(RANGES)
    assert sorted(places) == sorted(product(range(3), range(2), range(4)))
    for one, other in pairwise(places):
        assert sum(abs(a - b) for a, b in zip(one, other, strict=True)) == 1


def test_what_is_expensive_to_change_changes_least_often() -> None:
    """Other work makes new candidates, another deadline screens them again, another budget does neither."""
    places = chained_places(RANGES)
    changes = [sum(a[axis] != b[axis] for a, b in pairwise(places)) for axis in range(3)]
    assert changes[0] > changes[2] > changes[1] == 1
    assert change_cost("limits.budget_usd") < change_cost("jobs.bot.deadline") < change_cost("jobs.bot.work.tokens")
    assert change_cost("offers.0.usd_per_hour") > change_cost("jobs.bot.work.tokens")


@pytest.mark.parametrize(("count", "workers"), [(1, 1), (7, 2), (24, 2), (5000, 3)])
def test_chunks_hold_every_variant_once_in_order(count: int, workers: int) -> None:
    """There is work for every worker, and no chunk is so large that much is lost with it."""
    places = [(number,) for number in range(count)]
    chunks = chunks_of(places, workers)
    assert [one for chunk in chunks for one in chunk] == places
    assert len(chunks) >= min(workers, count) and max(map(len, chunks)) <= MAX_CHUNK
