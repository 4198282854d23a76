"""Candidates on fixed shares of spot and on demand, or on spot alone: hours and dollars of drawn markets.

A run on a fixed share uses spot up to an hour, and does on demand what is left then. Its means are sums over the two
markets. Its hours and dollars at a confidence are quantiles over speeds and markets, which are no such sums: so a row
whose share may vary becomes points, each with a share of its own. The shares are the same whatever the deadline: so a
looser one has all points of a tighter one, and a frontier those of every solve.

Drawing takes a millisecond a point, so only the rows that look best by the means are drawn.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from planner.arrays import Flags, Floats, Integers
from planner.candidate_table import ON_DEMAND, SPOT, CandidateTable, concatenate
from planner.candidates.job_candidates import JobCandidates
from planner.candidates.market import Market
from planner.candidates.spot_rows import SearchTarget, SpotRows
from planner.library.schema import Library
from planner.spot.policy.luck import quantile
from planner.spot.policy.policy_odds import SpotOnlyCosts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

MOST_DRAWN = 12
"""Rows that are drawn because they cost least by the means, and as many because they end first."""
MOST_AT_PLACE = 2
"""Of these, rows of one provider, GPU, method and framework; so many of each method and framework are drawn anyway."""
SHARE_STEPS = 24
"""Parts of the range of spot shares of a row."""

UNENDING_HOURS = 1e9
"""Hours at the confidence of a run that may never end: no deadline is as late, and programs need finite numbers."""


# What hours and dollars depend on.


def spot_only_rows(candidates: JobCandidates, rows: Integers) -> Flags:
    """Return which of some rows (n,) have spot machines and no others."""
    run_h = candidates.table.run_h[rows]
    return np.asarray(np.isnan(run_h[:, ON_DEMAND]) & ~np.isnan(run_h[:, SPOT]), dtype=bool)


def spot_only_costs(candidates: JobCandidates, row: int, market: Market, library: Library) -> SpotOnlyCosts:
    """Return what hours and dollars of a row of the uncut table on spot alone depend on."""
    return next(_costs_of_spot_only(candidates, np.asarray([row]), market, library))


def fixed_share_costs(
    candidates: JobCandidates, row: int, market: Market, library: Library, share: float
) -> SpotOnlyCosts:
    """Return what hours and dollars of a row of the uncut table on both markets depend on at a fixed spot share.

    The run moves to on demand when its share of the mean hours on spot is over.
    """
    alone, h = spot_only_costs(candidates, row, market, library), candidates.hours.rows(np.asarray([row]))
    offer, machines = int(candidates.table.offer[row]), int(candidates.table.instances[row])
    demand, spot = (
        float(price[offer]) * machines for price in (candidates.columns.on_demand_usd, candidates.columns.spot_usd)
    )
    return replace(
        alone,
        outside_usd=alone.outside_usd + (1 - share) * float(h.after_start[0]) * (demand - spot),
        on_demand_usd_per_hour=demand * float(h.group_run[0]) / (float(h.run[0]) * h.node_groups),
        switch_hours=float(h.start[0]) + share * float(h.spot_wall[0]) if share < 1 else math.inf,
    )


def _costs_of_spot_only(
    candidates: JobCandidates, which: Integers, market: Market, library: Library
) -> Iterator[SpotOnlyCosts]:
    """Yield what hours and dollars of some rows (n,) of the uncut table on spot alone depend on."""
    table, columns = candidates.table.rows(which), candidates.columns
    rows = SpotRows(candidates, table, which, SearchTarget(np.inf, 0.0, 1.0, 0.0, 0.0), market, library)
    h, usd = rows.hours, columns.spot_usd[table.offer] * table.instances
    late_separate = np.asarray([placement.total("late_usd") for placement in candidates.placements])[rows.placement]
    figures = np.stack(
        [
            candidates.run_hours.sigma_tail[rows.configuration],
            h.stretch,
            h.after_start + h.separate,
            h.after_start + h.late_separate,
            h.after_start * (usd + rows.storage) + late_separate,
            usd * h.group_run / (h.run * h.node_groups),
            rows.storage,
            table.fixed_usd,
        ],
        axis=1,
    )
    for number, of_row in enumerate(figures.tolist()):
        yield SpotOnlyCosts(*rows.run_of(number), *of_row)


def with_spot_only_odds(
    candidates: JobCandidates, rows: Integers, latest: Floats, market: Market, library: Library
) -> CandidateTable:
    """Return the table in which some rows on spot alone have the hours and dollars of drawn markets.

    Late figures are quantiles over speeds and markets. A row that is late on a market without losses stays as it is.
    """
    table, h, alone = candidates.table, candidates.hours, spot_only_rows(candidates, rows)
    rows, latest = rows[alone], latest[alone]
    soonest = h.late_outside_run[rows] + (h.run * h.late_factor)[rows]
    rows, late_from = rows[soonest <= latest], candidates.columns.lead_hours
    if not len(rows):
        return table
    rows = rows[np.lexsort((h.restart[rows], table.offer[rows]))]  # up-times of equal starts are the same
    run_h, late_h, run_usd, late_usd = (
        column.copy() for column in (table.run_h, table.late_h, table.run_usd, table.late_usd)
    )
    confidences = (candidates.job.confidence, candidates.run_hours.budget_confidence)
    for row, costs in zip(rows.tolist(), _costs_of_spot_only(candidates, rows, market, library), strict=True):
        lead = float(late_from[int(table.offer[row])])
        expected, late, paid = _spot_only_figures(costs, *confidences)
        if not np.isfinite(late):
            late_h[row, SPOT] = UNENDING_HOURS
            continue
        run_h[row, SPOT] = expected + lead - table.start_h[row]
        run_usd[row, SPOT] += (run_h[row, SPOT] - table.run_h[row, SPOT]) * costs.storage_usd_per_hour
        late_h[row, SPOT] = late + lead - table.late_start_h[row]
        late_usd[row, SPOT] = paid - table.fixed_usd[row]
    return replace(table, run_h=run_h, late_h=late_h, run_usd=run_usd, late_usd=late_usd)


@lru_cache(maxsize=4096)  # a solve screens the same rows under several limits
def _spot_only_figures(costs: SpotOnlyCosts, confidence: float, budget_confidence: float) -> tuple[float, float, float]:
    """Return expected hours, hours at the confidence and dollars at that of the budget; inf where a run may never end.

    Where a run may never end nothing is expected of it, and no deadline is kept.
    """
    (hours, usd), expected = costs.draw(), costs.expected_hours()
    late = quantile(hours, confidence) if np.isfinite(expected) else np.inf
    return expected, late, quantile(usd, budget_confidence)


# Rows on both markets as points of fixed shares.


def on_both_markets(candidates: JobCandidates, rows: Integers) -> Flags:
    """Return which of some rows (n,) have machines on demand and on spot."""
    both = ~np.isnan(candidates.table.run_h[rows]).any(axis=1)
    return np.asarray(both & ~candidates.is_managed_service[rows], dtype=bool)


class SharePoint(NamedTuple):
    """A row at a fixed spot share."""

    share: float
    late_hours: float  # at the confidence of the job, from the order of the first machines; inf if it may never end
    late_usd: float  # at the confidence of the budget


class DrawnShares(NamedTuple):
    """A table whose rows on both markets are points, and the row (n,) that each came from."""

    table: CandidateTable
    origin: Integers
    late: Mapping[int, float]  # row that has no point in time and may not be on demand -> hours that it ends too late


class FixedShares:
    """The points of some rows of a job."""

    def __init__(self, candidates: JobCandidates, rows: Integers, market: Market, library: Library) -> None:
        self.candidates, self.rows, self.market, self.library = candidates, rows, market, library

    def draw(
        self,
        table: CandidateTable,
        is_mixed: Flags,
        latest: Floats,
        likely: Floats,
        whole: Mapping[int, Sequence[float]],
        between: bool,
        every_place: bool,
    ) -> DrawnShares:
        """Return rows of a table as points where they may be on both markets, as they are elsewhere.

        Rows that are not drawn are on demand, or left out where that is not allowed.

        Parameters
        ----------
        table
            The rows (n,) with their bounds on the spot share.
        is_mixed
            (n,): which have points.
        latest
            (n,): the hours within which they have to end at the confidence.
        likely
            (n,): shares that keep the deadline by the means: by the dollars there rows are compared.
        whole
            Shares at which all billed hours are used, by row; such rows have no others between their bounds.
        between
            Whether a point may matter between the least share and the largest in time.
        every_place
            Whether the rows of each provider, GPU, method and framework are drawn.
        """
        best = self._best_rows(table, np.flatnonzero(is_mixed), likely, every_place)
        found, late = list[tuple[int, SharePoint]](), dict[int, float]()
        for at in best:
            low, high = float(table.share_low[at]), float(table.share_high[at])
            inside = whole.get(at, [low + (high - low) * part / SHARE_STEPS for part in range(1, SHARE_STEPS)])
            shares = sorted({low, *inside, high} - {0.0})
            left = float(latest[at] - self.candidates.columns.lead_hours[int(table.offer[at])])
            points = self._points_in_time(at, shares, left, between or at in whole, low > 0)
            found += [(at, point) for point in points]
            if not points and low > 0:
                late[at] = min(self._point(at, shares[0]).late_hours, UNENDING_HOURS) - left
        others = np.flatnonzero(~is_mixed | (table.share_low <= 0))
        kept = table.rows(others)
        kept = replace(kept, share_high=np.where(is_mixed[others], 0.0, kept.share_high))
        origin = np.asarray([at for at, _ in found], dtype=np.int64)
        made = self._as_rows(table.rows(origin), [point for _, point in found])
        return DrawnShares(concatenate([kept, made]), np.concatenate([others, origin]), late)

    def _points_in_time(
        self, at: int, shares: Sequence[float], latest: float, between: bool, has_least: bool
    ) -> list[SharePoint]:
        """Return the points of a row that end in time: all, or those of the least share and of the largest.

        Means are linear in the share, so without other limits one of the two is best.
        """
        if between:
            points = [self._point(at, share) for share in shares]
            return [point for point in points if point.late_hours <= latest]
        low, high, middle = 0, len(shares), len(shares) - 1  # those below `low` are in time: more on spot ends later
        while low < high:  # mostly all of them are: the last comes first
            if self._point(at, shares[middle]).late_hours <= latest:
                low = middle + 1
            else:
                high = middle
            middle = (low + high) // 2
        ends = dict.fromkeys([0, low - 1] if has_least else [low - 1])
        return [self._point(at, shares[number]) for number in ends if 0 <= number < low]

    def _point(self, at: int, share: float) -> SharePoint:
        """Return the point of a row at a share."""
        costs = self._costs(at, share)
        return SharePoint(share, *_late_figures(costs, self.candidates.job.confidence, self._budget_confidence))

    @property
    def _budget_confidence(self) -> float:
        return self.candidates.run_hours.budget_confidence

    def _costs(self, at: int, share: float) -> SpotOnlyCosts:
        return fixed_share_costs(self.candidates, int(self.rows[at]), self.market, self.library, share)

    def _as_rows(self, made: CandidateTable, points: Sequence[SharePoint]) -> CandidateTable:
        """Return rows of single shares, whose late figures are equal on both markets."""
        lead = self.candidates.columns.lead_hours[made.offer]
        share, late, usd = np.asarray(points, dtype=float).reshape(-1, len(SharePoint._fields)).T
        return replace(
            made,
            late_h=np.stack([late + lead - made.late_start_h] * 2, axis=1),
            late_usd=np.stack([usd - made.fixed_usd] * 2, axis=1),
            share_low=share,
            share_high=share,
        )

    def _best_rows(self, table: CandidateTable, rows: Integers, likely: Floats, every_place: bool) -> list[int]:
        """Return the rows of least dollars, and those of least hours, by the means."""
        some, found = table.rows(rows), set[int]()
        shares = np.clip(likely[rows], some.share_low, some.share_high)
        usd = np.fmin(some.cost_usd(some.share_low), some.cost_usd(shares)) + some.penalty_usd
        kinds = [(recipe.method_label, recipe.framework) for recipe in self.candidates.recipes]
        for figure in (usd, some.late_hours(some.share_low)):
            at_place, of_kind, taken = Counter[object](), Counter[object](), 0
            for number in np.argsort(figure, kind="stable").tolist():
                offer, kind = self.market.offers[int(some.offer[number])], kinds[int(some.recipe[number])]
                place = offer.provider, offer.gpu, kind
                if at_place[place] < MOST_AT_PLACE:
                    if every_place or taken < MOST_DRAWN or of_kind[kind] < MOST_AT_PLACE:
                        found.add(int(rows[number]))
                    at_place[place], of_kind[kind], taken = at_place[place] + 1, of_kind[kind] + 1, taken + 1
        return sorted(found)


@lru_cache(maxsize=16384)
def _late_figures(costs: SpotOnlyCosts, confidence: float, budget_confidence: float) -> tuple[float, float]:
    """Return hours at the confidence and dollars at that of the budget; inf where a run may never end."""
    hours, usd = costs.draw()
    late = (
        quantile(hours, confidence)
        if costs.switch_hours < math.inf or np.isfinite(costs.expected_hours())
        else math.inf
    )
    return late, quantile(usd, budget_confidence)
