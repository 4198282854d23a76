"""Candidates on fixed shares: on spot up to an hour, then on demand, with hours and dollars of drawn markets.

A row becomes points. Each has an hour at which it moves, and for its spot share the part of the work that is done on
spot by then, on average at the expected speed. Hours and dollars at a confidence are quantiles over speeds and markets,
so that no figure lies between two points. Drawing takes time: the rows that look best by their means are drawn, the
others stay on demand.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from planner.candidate_table import CandidateTable, concatenate
from planner.candidates.spot.candidates import UNENDING_HOURS, drawn_figures, spot_only_costs
from planner.candidates.spot.odds import expected_share
from planner.spot.policy.luck import RUNS, quantile
from planner.spot.policy.spot_only import spot_only_hours

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from planner.arrays import Flags, Floats, Integers
    from planner.candidates.job_candidates import JobCandidates
    from planner.candidates.market import Market
    from planner.candidates.spot.odds import ExpectedShare, SpotOnlyCosts
    from planner.library.schema import Library
    from planner.spot.market.states import SpotStates
    from planner.spot.policy.run import SpotRun

MOST_DRAWN = 12
"""Rows that are drawn because they cost least by their means, and as many because they end first."""
SHARE_STEPS = 12
"""Parts of the hours between the switch of the least share and that of the largest."""
MOST_TRIALS, SHARE_ERROR = 40, 1e-9
"""Hours that are tried for the switch of a share, and how near to the share is near enough."""


class SharePoint(NamedTuple):
    """A row that moves to on demand at some hour of its run: the share and figures of the job."""

    run: ExpectedShare
    switch_hours: float  # inf: never
    hours: float  # expected, inf if the run may never end
    late_hours: float
    usd: float  # expected, without the fixed ones
    late_usd: float  # with the fixed ones


class DrawnShares(NamedTuple):
    """A table whose rows on fixed shares are points: where each row came from, and when those on both markets move."""

    table: CandidateTable
    origin: Integers
    points: Mapping[int, SharePoint] = {}  # row of the table -> its point
    late: Mapping[int, float] = {}  # row that has no point in time and may not be on demand -> hours after its latest


class ShareRows:
    """Some rows of a job that may be on both markets, and their points."""

    def __init__(self, candidates: JobCandidates, rows: Integers, market: Market, library: Library) -> None:
        self.candidates, self.rows, self.market, self.library = candidates, rows, market, library
        self._whole: dict[int, SpotOnlyCosts] = {}

    def whole(self, row: int) -> SpotOnlyCosts:
        """Return the same of a row that never moves."""
        if row not in self._whole:
            self._whole[row] = spot_only_costs(self.candidates, row, self.market, self.library)
        return self._whole[row]

    def point(self, row: int, switch_hours: float) -> SharePoint:
        """Return the point of a row that moves at some hour."""
        whole, run_hours = self.whole(row), self.candidates.run_hours
        expected = expected_share(whole.run, whole.states, switch_hours)
        rest, after = 1.0 - expected.share, whole.outside_machine_hours[1]
        dearer = after * rest * (whole.on_demand_usd_per_hour - whole.usd_per_hour) / whole.use
        costs = replace(
            whole,
            switch_hours=switch_hours,
            outside_usd=whole.outside_usd + dearer,
            usual_outside_usd=whole.usual_outside_usd + dearer,
            outside_machine_hours=(after * rest, after * expected.share),
        )
        (hours, usd), late, late_usd = drawn_figures(costs, self.candidates.job.confidence, run_hours.budget_confidence)
        return SharePoint(expected, switch_hours, hours, late, usd, late_usd)

    def switches(self, row: int, low: float, high: float, others: Sequence[float] = ()) -> list[float]:
        """Return hours at which a row may move, rising, so that its share lies between two bounds, above 0.

        `others` are shares that matter, too.
        """
        run, states = self.whole(row).run, self.whole(row).states
        first = switch_of_share(run, states, low, False) if low > 0 else 0.0
        if low >= 1 or math.isinf(first):
            return [math.inf] if high >= 1 else []
        last = _usual_end(run, states) if high >= 1 else switch_of_share(run, states, high, True)
        last = max(first, last)
        parts = (first + (last - first) * number / SHARE_STEPS for number in range(SHARE_STEPS + 1))
        more = (switch_of_share(run, states, share, False) for share in others)
        found = [hours for hours in sorted({*parts, *more}) if 0 < hours <= last < math.inf]
        return [*found, math.inf] if high >= 1 else found

    def draw(
        self, table: CandidateTable, is_mixed: Flags, latest: Floats, between: Flags, whole: tuple[Integers, Floats]
    ) -> DrawnShares:
        """Return rows of a table as points where they may be on both markets, as they are elsewhere.

        Parameters
        ----------
        table
            The rows (n,) with their bounds on the spot share.
        is_mixed
            (n,): which are to be drawn.
        latest
            (n,): the hours within which they have to end at the confidence.
        between
            (n,): whether points matter between the least share and the largest in time.
        whole
            Rows (k,) and shares (k,) at which whole billing steps are used.
        """
        best, found, late = _best_rows(table, np.flatnonzero(is_mixed)), list[tuple[int, SharePoint]](), {}
        for at in best.tolist():
            row, low, high = int(self.rows[at]), float(table.share_low[at]), float(table.share_high[at])
            left = float(latest[at] - self.candidates.columns.lead_hours[int(table.offer[at])])
            switches = self.switches(row, low, high, whole[1][whole[0] == at].tolist())
            points = self._points_in_time(row, switches, left, bool(between[at]), low > 0)
            found += [(at, one) for one in points]
            if not points and low > 0:
                late[at] = self.point(row, switches[0] if switches else math.inf).late_hours - left
        others = np.flatnonzero(~is_mixed | (table.share_low <= 0))
        kept = table.rows(others)
        kept = replace(kept, share_high=np.where(is_mixed[others], 0.0, kept.share_high))
        origin = np.asarray([at for at, _ in found], dtype=np.int64)
        return DrawnShares(
            concatenate([kept, self._as_rows(table.rows(origin), [one for _, one in found])]),
            np.concatenate([others, origin]),
            {len(others) + number: one for number, (_, one) in enumerate(found)},
            late,
        )

    def _points_in_time(
        self, row: int, switches: Sequence[float], latest: float, between: bool, has_least: bool
    ) -> list[SharePoint]:
        """Return the points of a row that end in time: all, or those of the least share and of the largest."""
        if between:
            points = [self.point(row, hours) for hours in switches]
            return [one for one in points if one.late_hours <= latest]
        low, high, middle = 0, len(switches), len(switches) - 1  # more on spot ends later: below `low` are in time
        while low < high:  # mostly all of them are: the last comes first
            if self.point(row, switches[middle]).late_hours <= latest:
                low = middle + 1
            else:
                high = middle
            middle = (low + high) // 2
        ends = dict.fromkeys([0, low - 1] if has_least else [low - 1])
        return [self.point(row, switches[number]) for number in ends if 0 <= number < low]

    def _as_rows(self, made: CandidateTable, points: Sequence[SharePoint]) -> CandidateTable:
        """Return rows of fixed shares, whose figures are equal on both markets."""
        lead = self.candidates.columns.lead_hours[made.offer]
        figures = [(one.run.share, *one[2:]) for one in points]
        share, hours, late, usd, late_usd = np.asarray(figures, dtype=float).reshape(-1, len(SharePoint._fields) - 1).T
        return replace(
            made,
            run_h=np.stack([hours + lead - made.start_h] * 2, axis=1),
            late_h=np.stack([late + lead - made.late_start_h] * 2, axis=1),
            run_usd=np.stack([usd] * 2, axis=1),
            late_usd=np.stack([late_usd - made.fixed_usd] * 2, axis=1),
            share_low=share,
            share_high=share,
        )


@lru_cache(maxsize=4096)
def switch_of_share(run: SpotRun, states: SpotStates, share: float, is_most: bool) -> float:
    """Return when a run moves so that this share of its work is on spot, at most or at least; inf if it never is.

    By false position, where an end that stays counts half as much each time.
    """
    below, above = 0.0, run.work_hours + run.restart_hours
    less, more = -share, expected_share(run, states, above).share - share
    while more < 0:
        below, above, less = above, 2 * above, more
        if above > UNENDING_HOURS:
            return math.inf
        more = expected_share(run, states, above).share - share
    low, high = less, more  # weights of the ends
    for _ in range(MOST_TRIALS):
        if (-less if is_most else more) <= SHARE_ERROR:
            break
        middle = min(max((below * high - above * low) / (high - low), below), above)
        found = expected_share(run, states, middle).share - share
        if found < 0 or (is_most and found <= 0):
            below, less, low, high = middle, found, found, high / 2
        else:
            above, more, high, low = middle, found, found, low / 2
    return below if is_most else above


@lru_cache(maxsize=4096)
def _usual_end(run: SpotRun, states: SpotStates) -> float:
    """Return the hours within which nine of ten runs end on spot alone; inf if some never do."""
    wall = spot_only_hours(run, states, np.full(RUNS, run.work_hours)).wall
    return quantile(wall, 0.9) if np.isfinite(wall).all() else math.inf


def _best_rows(table: CandidateTable, rows: Integers) -> Integers:
    """Return the rows of least dollars, and those of least hours, by their means."""
    some = table.rows(rows)
    ends = [
        (some.cost_usd(share) + some.penalty_usd, some.late_hours(share)) for share in (some.share_low, some.share_high)
    ]
    usd, hours = (np.fmin(first, second) for first, second in zip(*ends, strict=True))
    order = [np.argsort(one, kind="stable")[:MOST_DRAWN] for one in (usd, hours)]
    return rows[np.unique(np.concatenate(order))] if len(rows) else rows
