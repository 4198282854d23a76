"""Which policies a search for candidates on spot is for."""

from __future__ import annotations

import math
from typing import Literal

from planner.records import record


@record(frozen=True)
class SearchScope:
    """Which policies are searched for."""

    whole_curves: bool = False  # every point that may matter at some time up to the latest, for a frontier
    by_method: bool = True  # of whole curves: for each method, else for the job
    only_dollars: bool = False  # of the policies for one deadline: nothing but what they cost
    every_place: bool = False  # for each card and provider, not only for those that a plan names
    least_late: bool = False  # of those dollars, the least at the confidence of the budget alone
    mean_markets: bool = False  # of those dollars, without the luck of the market
    # For one deadline; `places`: those a plan names, too.
    best_of: Literal["places", "methods", "frameworks", "all"] = "places"
    below: float = math.inf  # for one deadline: candidates whose objective is no less than this are of no use


DEFAULT_SCOPE = SearchScope()
"""The policies that a plan may use or name as alternatives."""
BEST, BEST_OF_METHODS = SearchScope(best_of="all"), SearchScope(best_of="methods")
BEST_OF_FRAMEWORKS = SearchScope(best_of="frameworks")
LEAST_DOLLARS = SearchScope(best_of="all", only_dollars=True, mean_markets=True)
"""The policy of the best candidate alone, of that of each method or framework, and what the best candidate costs."""
