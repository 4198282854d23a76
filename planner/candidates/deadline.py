"""late_start_h[c] + (1-s)*late_h[c,od] + s*late_h[c,spot] <= latest_h[j].

The deadline of candidate c of job j at the spot share s. `late_start_h` and `late_h` are the hours of the candidate at
the confidence of the job (columns of the candidate table), `latest_h` is `planner.scenario.limits.latest_finish_hours`.
The left side is linear in s, so the program needs no row: the largest share that keeps the deadline is an upper bound
on s (`max_spot_share`), and a candidate that no share keeps is rejected.

A policy that switches between the markets has no share in advance. It guarantees that the run ends within G hours on
every path of the market, at the expected speed. An error of the estimate stretches all hours alike, so it keeps

    late_outside_run[c] + late_factor[c]*G <= latest_h[j]

with the hours outside the run, and the factor from expected hours to hours at the confidence, of `RowHours`.
"""

from __future__ import annotations

import numpy as np

from planner.arrays import ON_DEMAND, SPOT, CandidateTable, Floats, Integers
from planner.candidates.run_hours import RowHours


def max_spot_share(
    table: CandidateTable, latest_hours: Floats | float, which: Integers | slice = slice(None)
) -> Floats:
    """Return the largest spot share (n,) in [0, 1] of rows that keeps the deadline; -1 where no share does."""
    slack = latest_hours - table.late_start_h[which]
    on_demand, spot = table.late_h[which, ON_DEMAND], table.late_h[which, SPOT]
    with np.errstate(invalid="ignore", divide="ignore"):
        both = (slack - on_demand) / (spot - on_demand)
    both = np.where(spot <= on_demand, np.where(spot <= slack, 1.0, -1.0), both)
    # Where spot is slower and on demand is too slow already, the quotient is no share: every share is late.
    both = np.where((on_demand > slack) & (spot > on_demand), -1.0, both)
    only_spot = np.where(spot <= slack, 1.0, -1.0)
    only_on_demand = np.where(on_demand <= slack, 0.0, -1.0)
    share = np.where(np.isnan(on_demand), only_spot, np.where(np.isnan(spot), only_on_demand, both))
    return np.clip(share, -1.0, 1.0)


def least_late_hours(table: CandidateTable, low: Floats, high: Floats) -> Floats:
    """Return the left side (n,) of the deadline at the better end of the shares from `low` to `high`."""
    with np.errstate(invalid="ignore"):
        return np.fmin(table.late_hours(np.clip(low, 0, 1)), table.late_hours(np.clip(high, 0, 1)))


def policy_late_hours(hours: RowHours, guarantee_hours: Floats) -> Floats:
    """Return the hours (n,) at the confidence after which a policy with a guarantee of `guarantee_hours` has ended."""
    return np.asarray(hours.late_outside_run + guarantee_hours * hours.late_factor, dtype=float)


def policy_guarantee_hours(hours: RowHours, latest_hours: Floats | float) -> Floats:
    """Return the longest guarantee (.., n) of a policy that keeps the deadline: the inverse of `policy_late_hours`."""
    return np.asarray((latest_hours - hours.late_outside_run) / hours.late_factor, dtype=float)
