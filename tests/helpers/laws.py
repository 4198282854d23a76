"""How many examples a law is tried on.

Laws that solve a scenario for every example take most of the time of the suite. By default they run on half of their
examples; with PLANNER_THOROUGH=1, as in `.ci/run`, on all of them.
"""

from __future__ import annotations

import os

THOROUGH = "PLANNER_THOROUGH"
LEAST = 3


def examples(all_of_them: int) -> int:
    """Return the number of examples of a slow law in this run."""
    return all_of_them if os.environ.get(THOROUGH) else max(LEAST, all_of_them // 2)
