"""What a plan on spot promises is what happens on markets that were drawn for this alone."""

from __future__ import annotations

import pytest

from tests.independent.spot_odds import SEED, statements, summary

WITHIN, LEAST = 3.0, -4.0
"""Points of probability: 2,000 runs err by 0.7 each way at 90 % (standard error), 2,048 of the plan by as much."""
FEW_BEYOND = 0.1
"""Share of the statements that chance alone may move beyond `WITHIN`."""


@pytest.mark.long
def test_odds_hold_on_markets_that_nobody_has_seen() -> None:
    found = list(statements(SEED))
    assert len(found) >= 60
    assert min(one.over for one in found) >= LEAST, summary(found)
    assert sum(abs(one.over) > WITHIN for one in found) <= FEW_BEYOND * len(found), summary(found)
