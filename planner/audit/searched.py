"""What a search has computed of the policy of a run: its passes and drawn runs are not computed a second time.

They are taken only where the run, its market and what its dollars depend on are, computed from the names, the same.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

from planner.records import record

if TYPE_CHECKING:
    from planner.spot.market.states import SpotStates
    from planner.spot.policy.policy_cache import PolicyCache
    from planner.spot.policy.policy_odds import PolicyCosts
    from planner.spot.policy.run import SpotRun

SAME = 1e-9
"""Relative difference of figures that differ by rounding alone: arrays and plain floats add in other orders."""


@record(frozen=True, eq=False)
class SearchedPolicy:
    """The run, market and costs of a policy in a search, and the passes that the search has computed."""

    run: SpotRun
    states: SpotStates
    costs: PolicyCosts
    policies: PolicyCache


def is_same(mine: object, found: object) -> bool:
    """Return whether two records are the same but for rounding."""
    if isinstance(mine, float) and isinstance(found, (int, float)):
        return math.isclose(mine, found, rel_tol=SAME, abs_tol=SAME)
    if type(mine) is not type(found):
        return False
    if isinstance(mine, tuple) and isinstance(found, tuple):
        return len(mine) == len(found) and all(map(is_same, mine, found))
    if dataclasses.is_dataclass(mine):
        names = [field.name for field in dataclasses.fields(mine)]
        return all(is_same(getattr(mine, name), getattr(found, name)) for name in names)
    return mine == found
