"""Rows at fixed shares of spot, or on spot alone, with hours and dollars of drawn markets.

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
from planner.candidates.spot_candidates import SearchTarget, SpotRows
from planner.library.schema import Library
from planner.spot.drawn_runs import SpotOnlyCosts
from planner.spot.luck import quantile
from planner.watch import keep_going

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


MOST_DRAWN = 12
"""Rows that are drawn because they cost least by the means, and as many because they end first."""
MOST_AT_PLACE = 2
"""Of these, rows of one provider, GPU, method and framework; so many of each method and framework are drawn anyway."""
SHARE_STEPS, FEW_STEPS = 24, 4
"""Parts of the range of spot shares of a row; where any share may matter, and hours or other jobs too, fewer."""

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
    """Return what hours and dollars of a row of the uncut table on both markets depend on at a fixed spot share."""
    which = np.asarray([row])
    return next(_mixed_rows(candidates, which, market, library)).costs(share)


class _MixedRow(NamedTuple):
    """What a row on both markets depends on; hours are those of one node group, dollars those of all machines."""

    alone: SpotOnlyCosts  # on spot, without a move
    start_hours: float
    after_start_hours: float  # outside the run
    mean_wall_hours: float  # of the run on spot
    more_usd_per_hour: float  # on demand than on spot
    demand_usd_per_hour: float  # as far as machines are used

    def costs(self, share: float) -> SpotOnlyCosts:
        """Return the same at a fixed spot share: it moves to on demand when this share of the mean hours is over."""
        if share >= 1:
            return self.alone
        return replace(
            self.alone,
            outside_usd=self.alone.outside_usd + (1 - share) * self.after_start_hours * self.more_usd_per_hour,
            on_demand_usd_per_hour=self.demand_usd_per_hour,
            switch_hours=self.start_hours + share * self.mean_wall_hours,
        )


def _mixed_rows(candidates: JobCandidates, which: Integers, market: Market, library: Library) -> Iterator[_MixedRow]:
    """Yield what some rows (n,) of the uncut table on both markets depend on."""
    h, table, columns = candidates.hours.rows(which), candidates.table.rows(which), candidates.columns
    demand, spot = (price[table.offer] * table.instances for price in (columns.on_demand_usd, columns.spot_usd))
    used = demand * h.group_run / (h.run * h.node_groups)
    figures = np.stack([h.start, h.after_start, h.spot_wall, demand - spot, used], axis=1)
    each = _costs_of_spot_only(candidates, which, market, library)
    return (_MixedRow(alone, *of_row) for alone, of_row in zip(each, figures.tolist(), strict=True))


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
    keep_going()
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
    alone_hours: float = math.nan  # expected, where the run never moves


class WantedShares(NamedTuple):
    """Which points may matter."""

    between: bool  # any share, not only the least and the largest in time
    is_fine: bool  # all shares, not only some of them
    only_hours: bool  # hours are minimised, and no limit but a budget is on dollars or providers
    every_place: bool  # of each provider, GPU, method and framework
    budget_usd: float  # of all jobs


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
        wanted: WantedShares,
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
        wanted
            Which rows and shares may matter.
        """
        best = self._best_rows(table, np.flatnonzero(is_mixed), likely, wanted)
        found, late = list[tuple[int, SharePoint]](), dict[int, float]()
        rows = _mixed_rows(self.candidates, self.rows[np.asarray(best, dtype=np.int64)], self.market, self.library)
        for at, row in zip(best, rows, strict=True):
            low, high = float(table.share_low[at]), float(table.share_high[at])
            steps = SHARE_STEPS if wanted.is_fine else FEW_STEPS
            inside = whole.get(at, [low + (high - low) * part / steps for part in range(1, steps)])
            shares = sorted({low, *inside, high} - {0.0})
            left = float(latest[at] - self.candidates.columns.lead_hours[int(table.offer[at])])
            points = self._points_in_time(row, shares, left, wanted, at in whole, low > 0)
            found += [(at, point) for point in points]
            if not points and low > 0:
                late[at] = min(self._point(row, shares[0]).late_hours, UNENDING_HOURS) - left
        others = np.flatnonzero(~is_mixed | (table.share_low <= 0))
        kept = table.rows(others)
        kept = replace(kept, share_high=np.where(is_mixed[others], 0.0, kept.share_high))
        origin = np.asarray([at for at, _ in found], dtype=np.int64)
        made = self._as_rows(table.rows(origin), origin, [point for _, point in found])
        return DrawnShares(concatenate([kept, made]), np.concatenate([others, origin]), late)

    def _points_in_time(
        self,
        row: _MixedRow,
        shares: Sequence[float],
        latest: float,
        wanted: WantedShares,
        is_coarse: bool,
        has_least: bool,
    ) -> list[SharePoint]:
        """Return the points of a row that end in time: all, or those of the least share and of the largest.

        Means are linear in the share, so one of the two is best where a budget is no obstacle.
        """
        ends = [] if wanted.between or is_coarse else self._ends_in_time(row, shares, latest, has_least)
        if wanted.between or is_coarse or any(point.late_usd > wanted.budget_usd for point in ends):
            points = [self._point(row, share) for share in shares]
            return [point for point in points if point.late_hours <= latest]
        return ends

    def _ends_in_time(
        self, row: _MixedRow, shares: Sequence[float], latest: float, has_least: bool
    ) -> list[SharePoint]:
        """Return the point of the largest share in time, and that of the least where there has to be one."""
        low, high, middle = 0, len(shares), len(shares) - 1  # those below `low` are in time: more on spot ends later
        while low < high:  # mostly all of them are: the last comes first
            if self._point(row, shares[middle]).late_hours <= latest:
                low = middle + 1
            else:
                high = middle
            middle = (low + high) // 2
        numbers = dict.fromkeys([0, low - 1] if has_least else [low - 1])
        return [self._point(row, shares[number]) for number in numbers if 0 <= number < low]

    def _point(self, row: _MixedRow, share: float) -> SharePoint:
        """Return the point of a row at a share."""
        run_hours = self.candidates.run_hours
        return SharePoint(
            share, *_late_figures(row.costs(share), self.candidates.job.confidence, run_hours.budget_confidence)
        )

    def _as_rows(self, made: CandidateTable, origin: Integers, points: Sequence[SharePoint]) -> CandidateTable:
        """Return rows of single shares, whose late figures are equal on both markets; `origin` are the rows of each.

        The means of both markets together count a move. A run that is on spot for good has none, and its hours are
        those of the drawn runs.
        """
        columns, h = self.candidates.columns, self.candidates.hours.rows(self.rows[origin])
        share, late, usd, alone = np.asarray(points, dtype=float).reshape(-1, len(SharePoint._fields)).T
        lead, stays = columns.lead_hours[made.offer], share >= 1
        run_h, run_usd = made.run_h.copy(), made.run_usd.copy()
        run_h[stays, SPOT] = (alone + lead - made.start_h)[stays]
        storage = (run_h - made.run_h)[:, SPOT] * columns.storage_usd_per_hour(made.offer, h.stored_gb)
        moves = columns.on_demand_usd[made.offer] * made.instances * h.switch
        run_usd[stays, SPOT] += (storage - moves)[stays]
        return replace(
            made,
            run_h=run_h,
            run_usd=run_usd,
            late_h=np.stack([late + lead - made.late_start_h] * 2, axis=1),
            late_usd=np.stack([usd - made.fixed_usd] * 2, axis=1),
            share_low=share,
            share_high=share,
        )

    def _best_rows(self, table: CandidateTable, rows: Integers, likely: Floats, wanted: WantedShares) -> list[int]:
        """Return the rows of least dollars, and those of least hours, by the means; those within the budget."""
        some, found = table.rows(rows), set[int]()
        usd = np.fmin(some.cost_usd(some.share_low), some.cost_usd(some.share_high))
        rows = rows[usd <= wanted.budget_usd]
        some = table.rows(rows)
        shares = np.clip(likely[rows], some.share_low, some.share_high)
        usd = np.fmin(some.cost_usd(some.share_low), some.cost_usd(shares)) + some.penalty_usd
        kinds = [(recipe.method_label, recipe.framework) for recipe in self.candidates.recipes]
        of_any_kind = 0 if wanted.only_hours else MOST_AT_PLACE  # there a method is named at its hours on demand
        for figure in (usd, some.late_hours(some.share_low)):
            at_place, of_kind, taken = Counter[object](), Counter[object](), 0
            for number in np.argsort(figure, kind="stable").tolist():
                offer, kind = self.market.offers[int(some.offer[number])], kinds[int(some.recipe[number])]
                place = offer.provider, offer.gpu, kind
                if at_place[place] < MOST_AT_PLACE:
                    if wanted.every_place or taken < MOST_DRAWN or of_kind[kind] < of_any_kind:
                        found.add(int(rows[number]))
                    at_place[place], of_kind[kind], taken = at_place[place] + 1, of_kind[kind] + 1, taken + 1
        return sorted(found)


@lru_cache(maxsize=16384)
def _late_figures(costs: SpotOnlyCosts, confidence: float, budget_confidence: float) -> tuple[float, float, float]:
    """Return hours at the confidence, dollars at that of the budget, and expected hours of a run that never moves.

    Hours are inf where such a run may never end; expected hours are nan where it moves.
    """
    hours, usd = costs.draw()
    alone = costs.expected_hours() if math.isinf(costs.switch_hours) else math.nan
    late = math.inf if math.isinf(alone) else quantile(hours, confidence)
    return late, quantile(usd, budget_confidence), alone
