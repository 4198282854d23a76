"""Rows on spot: those that may follow a policy, with bounds, whole billing steps, and fixed shares of spot.

A run on a fixed share uses spot up to an hour, and does on demand what is left then. Its means are sums over the two
markets. Its hours and dollars at a confidence are quantiles over speeds and markets, which are no such sums: so a row
whose share may vary becomes points, each with a share of its own. The shares are the same whatever the deadline: so a
looser one has all points of a tighter one, and a frontier those of every solve.

Drawing takes a millisecond a point, so only the rows that look best by the means are drawn.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from planner.arrays import Flags, Floats, Integers
from planner.candidate_table import ON_DEMAND, SPOT, CandidateTable, concatenate
from planner.candidates.deadline import policy_guarantee_hours
from planner.candidates.job_candidates import JobCandidates, OfferColumns
from planner.candidates.market import Market, market_of_nodes, moves_of, stated_availability
from planner.candidates.stage_hours import RowHours
from planner.estimates.billing import round_up_hours
from planner.estimates.preemption import node_group_market
from planner.library.schema import Library
from planner.scenario.limits import PeakLimit
from planner.spot.drawn_runs import SpotOnlyCosts
from planner.spot.luck import quantile
from planner.spot.run import SpotRun
from planner.spot.states import SpotStates
from planner.units import GB, HOUR
from planner.watch import keep_going

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


# Bills of whole billing steps: rows as points of fixed spot shares, each with rounded dollars.


COARSE_STEP = 0.05
"""Share of the run above which a billing step is rounded where there is a spot market."""
FINE_STEP_HOURS = 1 / 60
"""Billing steps up to a minute are never rounded."""


def apply_billing_steps(
    table: CandidateTable, hours: RowHours, columns: OfferColumns
) -> tuple[CandidateTable, Integers, Flags]:
    """Return the table with coarsely billed rows as points, the row that each came from, and which are rounded.

    A point has a fixed spot share and rounded dollars. Steps add to drawn dollars what they add to the expected hours,
    whatever the confidence: so dollars never fall as the confidence rises. The points of a row are its bounds on the
    share and those of `whole_step_shares`: between two of them a larger share is later and not cheaper, so no better
    share is missed.
    """
    everything = np.arange(len(table))
    if not len(table):
        return table, everything, np.zeros(0, dtype=bool)
    coarse = has_coarse_billing(table, hours, columns)
    if not coarse.any():
        return table, everything, coarse
    smooth, points = np.flatnonzero(~coarse), np.flatnonzero(coarse)
    inside, between = whole_step_shares(table, hours, points, columns)
    two = points[table.share_high[points] > table.share_low[points]]
    origin = np.concatenate([smooth, points, inside, two])
    share = np.concatenate([table.share_low[points], between, table.share_high[two]])
    which = np.concatenate([points, inside, two])
    made, at = table.rows(which), hours.rows(which)
    none, drawn = np.ones(len(made)), share > 0
    late, stretch = np.where(drawn, 1.0, at.budget), np.where(drawn, 1.0, at.stretch)
    made = replace(
        made,
        run_usd=made.run_usd + _rounding_usd(made, at, share, none, none, columns),
        late_usd=made.late_usd + _rounding_usd(made, at, share, late, stretch, columns),
        share_low=share,
        share_high=share,
    )
    return concatenate([table.rows(smooth), made]), origin, np.arange(len(origin)) >= len(smooth)


def has_coarse_billing(table: CandidateTable, hours: RowHours, columns: OfferColumns) -> Flags:
    """Return the rows (n,) whose billing step or minimum is too large a part of their hours to be ignored."""
    step, least = columns.step_hours[table.offer], columns.minimum_hours[table.offer]
    # Without a spot market there is one point, and rounding it costs nothing but the arithmetic.
    smallest = np.where(np.isnan(columns.spot_usd[table.offer]), FINE_STEP_HOURS, COARSE_STEP * hours.run)
    return np.asarray((step > smallest) | (least > hours.once + hours.run), dtype=bool)


def on_demand_rounding_usd(table: CandidateTable, hours: RowHours, columns: OfferColumns) -> Floats:
    """Return the dollars (n,) that whole billing steps add to rows with all work on demand; 0 where none are rounded.

    0.2 h at 17.50 dollars, billed for an hour at least: 14 more than the 3.50 of the hours.
    """
    added = np.zeros(len(table))
    if len(rows := np.flatnonzero(has_coarse_billing(table, hours, columns))):
        made, none = table.rows(rows), np.ones(len(rows))
        added[rows] = _rounding_usd(made, hours.rows(rows), np.zeros(len(rows)), none, none, columns)[:, 0]
    return added


def whole_step_shares(
    table: CandidateTable, hours: RowHours, rows: Integers, columns: OfferColumns
) -> tuple[Integers, Floats]:
    """Return rows and spot shares, inside the bounds of the row, at which all billed hours on demand are used.

    (1 - x) * (once + run) + x * switch hours of a node group on demand are billed in whole steps of `step` h, at least
    `least` h: a share just above such an x pays the same on demand and no less on spot, and ends later.
    A run has few coarse steps.
    """
    rows = rows[(table.share_high[rows] > table.share_low[rows]) & ~np.isnan(table.run_h[rows, ON_DEMAND])]
    low, high, of_row = table.share_low[rows], table.share_high[rows], hours.rows(rows)
    step, least = columns.step_hours[table.offer[rows]], columns.minimum_hours[table.offer[rows]]
    everything, none, most, fewest = (of_row.billed(share)[0][0] for share in (0.0, 1.0, low, high))
    first = np.ceil(np.maximum(fewest, least) / step)
    count = np.maximum(np.floor(most / step) - first + 1, 0).astype(np.int64)
    # The whole steps of each row, then its minimum.
    at = np.repeat(np.arange(len(rows)), count + 1)
    number = np.arange(len(at)) - np.repeat(np.cumsum(count + 1) - (count + 1), count + 1)
    whole = np.where(number < count[at], (first[at] + number) * step[at], least[at])
    saved = everything - none
    shares = (everything[at] - whole) / np.where(saved > 0, saved, np.nan)[at]
    inside = (shares > low[at]) & (shares < high[at])
    return rows[at[inside]], shares[inside]


def _rounding_usd(
    made: CandidateTable, hours: RowHours, share: Floats, late: Floats, stretch: Floats, columns: OfferColumns
) -> Floats:
    """Return what whole billing steps add to the dollars per market (n, 1), so that the mix at `share` is the bill."""
    step, least = columns.step_hours[made.offer], columns.minimum_hours[made.offer]
    prices = (columns.on_demand_usd[made.offer], columns.spot_usd[made.offer])
    added = sum(
        (round_up_hours(billed_hours, step, least) - billed_hours)
        * np.nan_to_num(price)
        * (made.instances // made.node_groups)
        for group in hours.billed(share, late, stretch)
        for billed_hours, price in zip(group, prices, strict=True)
    )
    return np.asarray(added)[:, None]


ALL = slice(None)
MIN_HOURS = 1e-3
"""Shortest work that a policy is computed for."""


@dataclass(frozen=True)
class SearchTarget:
    """What the points are for: the latest finish, bounds on the spot share, the value of an hour in dollars."""

    latest_hours: float
    low: float
    high: float
    usd_per_hour: float
    waiting: float  # price of an hour of waiting for spot machines, on no bill
    shared: bool = False  # there is a budget or another job: the program may need more than the cheapest candidate
    quota: frozenset[str] = frozenset()  # providers with a quota
    has_budget: bool = False  # dollars at its confidence are quantiles over speeds and markets
    peaks: tuple[PeakLimit, ...] = ()  # what several jobs may use at one time, beside dollars
    at_one_time: bool = False  # several jobs have some limit at one time, be it of dollars
    only_budget_usd: float = -math.inf  # the budget where nothing else may bar the cheapest candidate of the only job


class SpotRows:
    """Bounds and runs of the rows of one screened table, each at share 0."""

    def __init__(
        self,
        candidates: JobCandidates,
        table: CandidateTable,
        rows: Integers,
        target: SearchTarget,
        market: Market,
        library: Library,
    ) -> None:
        self.candidates, self.table, self.rows, self.target = candidates, table, rows, target
        self.market, self.library = market, library
        self.configuration, self.placement = candidates.configuration[rows], candidates.placement[rows]
        columns, self.nodes = candidates.columns, table.instances // table.node_groups
        self.gang: Integers = candidates.run_hours.gang(self.nodes)
        self.hours = h = candidates.hours.rows(rows)
        self.on_demand = columns.on_demand_usd[table.offer] * self.nodes
        self.spot = columns.spot_usd[table.offer] * self.nodes
        self.storage = columns.storage_usd_per_hour(table.offer, h.stored_gb)
        self.standing = self.storage + target.usd_per_hour + target.waiting
        # Hours of an observed run include its start; a policy counts every start on its own.
        self.work = np.where(candidates.observed[rows], h.run - h.restart, h.run)
        self.outside_run = h.after_start + h.separate
        self.guarantee = policy_guarantee_hours(h, target.latest_hours)
        separate_usd = np.asarray([placement.total("usd") for placement in candidates.placements])[self.placement]
        self.outside_usd = table.fixed_usd + (self.on_demand + self.storage) * h.after_start + separate_usd
        # Standing costs are those of every hour until the end; the work itself is no waiting.
        self.worth = (
            table.penalty_usd + target.usd_per_hour * self.outside_run - target.waiting * (self.work + h.restart)
        )
        self.states: dict[tuple[int, int], SpotStates] = {}
        self._runs: dict[int, tuple[SpotRun, SpotStates]] = {}

    def bound(self, guarantee: Floats | None = None, which: Integers | slice = ALL) -> Floats:
        """Return a lower bound on the value of every policy; inf where on demand takes longer than `guarantee`.

        Spot does at most the work that fits into the hours that the market is available. All work is paid, and one
        start. Shape (n,) for the rows of `which` and their own guarantees; one row broadcasts over many guarantees.
        """
        guarantee = self.guarantee[which] if guarantee is None else guarantee
        work, restart = self.work[which], self.hours.restart[which]
        on_spot = np.minimum(work, self._group_availability[which] * guarantee)
        hours = self.spot[which] * (on_spot + restart) + self.on_demand[which] * (work - on_spot)
        least = (self.outside_usd + self.worth)[which] + hours + self.standing[which] * (work + restart)
        return np.where(guarantee > work + restart, least, np.inf)

    @cached_property
    def _group_availability(self) -> Floats:
        """Return the share of time (n,) at which all machines of a row are there together."""
        columns, offer = self.candidates.columns, self.table.offer
        means = columns.mean_up_hours[offer], columns.availability[offer]
        group = node_group_market(*means, self.gang, self.candidates.run_hours.node_group)
        most = int(np.max(self.gang, initial=0)) + 1
        several, of_row = np.unique(offer * most + self.gang, return_inverse=True)
        pairs = [divmod(code, most) for code in several.tolist()]
        stated = [stated_availability(self.market.offers[place].spot, count) for place, count in pairs]
        alone = np.maximum(group.availability, np.asarray(stated)[of_row])
        zones = np.asarray([states.zones for states in self.candidates.spot])[offer]
        exponent = self.library.calibrations["spot"].value("zone_exponent")
        return np.asarray(1.0 - (1.0 - alone) ** (zones**exponent), dtype=float)

    def mean_market_late_value(self, row: int, value: float) -> float:
        """Return the cost at the confidence, with penalties, of a policy of that value on a mean market.

        It is an upper bound where the dollars of slow runs all grow as the hours do.
        """
        worth = float(self.worth[row])
        return (value - worth) * float(self.hours.budget_factor[row]) + worth

    @cached_property
    def sizes(self) -> Floats:
        """Return figures (n, 12) of which none makes a policy on the same kind of machines better if it grows."""
        columns = (
            self.work,
            self.hours.restart,
            self.candidates.run_hours.exposure_hours(self.configuration),
            self.outside_usd + self.worth,
            self.spot,
            self.on_demand,
            self.standing,
            self.hours.late_factor,
            self.hours.late_outside_run,
            self.hours.budget,
            *self.moves.T,
        )
        return np.stack([np.asarray(column, dtype=float) for column in columns], axis=1)

    def kind(self, row: int) -> tuple[object, ...]:
        """Return the kind of a row: rows of one kind rent the same machines at one provider on the same spot market."""
        place = int(self.table.offer[row])
        offer, one = self.market.offers[place], self.candidates.spot[place]
        # Where jobs share limits, two offers may differ in stock.
        where: object = place if self.target.shared else (offer.provider, offer.gpu, offer.spot, offer.notice_seconds)
        return where, int(self.table.gpus[row]), int(self.nodes[row]), one.mean_up_hours, one.availability, one.zones

    @property
    def unlimited(self) -> Flags:
        """Return the offers (offers,) without stock, quota or prepaid hours that limit them."""
        free = [offer.stock is None and offer.committed_hours is None for offer in self.market.offers]
        open_ = [offer.provider not in self.target.quota for offer in self.market.offers]
        return np.asarray(np.asarray(free) & np.asarray(open_), dtype=bool)

    def places(self) -> tuple[Integers, int]:
        """Return the number (n,) of the provider and GPU of each row, and how many there are."""
        places = [(offer.provider, offer.gpu) for offer in self.market.offers]
        known = {place: code for code, place in enumerate(dict.fromkeys(places))}
        return np.asarray([known[place] for place in places], dtype=np.int64)[self.table.offer], len(known)

    @cached_property
    def stalls(self) -> Floats:
        """Return the hours (n,) that a checkpoint stops training."""
        return np.asarray(self.candidates.run_hours.stall_seconds[self.configuration] / HOUR, dtype=float)

    @cached_property
    def moves(self) -> Floats:
        """Return the dollars and hours (n, 2) that a loss of machines costs a run which goes on in another region."""
        found, offer = np.zeros((len(self.table), 2)), self.table.offer
        saved_gb = self.candidates.run_hours.saved_bytes[self.configuration] / GB
        pull = self.candidates.columns.pull_bytes_per_second[offer]
        for place in np.flatnonzero(np.bincount(offer)).tolist():
            if (sold := self.market.offers[place]).zones:
                at = np.flatnonzero(offer == place)
                one = moves_of(sold, saved_gb[at], self.candidates.job.data_gb, pull[at])
                found[at, 0] = one.usd * self.nodes[at] / self.gang[at]  # machines that move each copy all
                found[at, 1] = one.hours
        return found

    def run_of(self, row: int) -> tuple[SpotRun, SpotStates]:
        """Return the run of a row and the market of all machines of its node group together."""
        if row not in self._runs:
            self._runs[row] = self._run_of(row)
        return self._runs[row]

    def _run_of(self, row: int) -> tuple[SpotRun, SpotStates]:
        place, nodes = int(self.table.offer[row]), int(self.nodes[row])
        offer, run_hours, key = self.market.offers[place], self.candidates.run_hours, (place, int(self.gang[row]))
        if key not in self.states:
            one = self.candidates.spot[place]
            self.states[key] = market_of_nodes(offer, one, key[1], run_hours.node_group, self.library)
        states = self.states[key]
        configuration = int(self.configuration[row])
        interval, write, warned = run_hours.checkpoints(configuration, nodes, states, offer.notice_seconds)
        return (
            SpotRun(
                work_hours=float(self.work[row]),
                restart_hours=float(self.hours.restart[row]),
                stall_hours=float(self.stalls[row]),
                interval_hours=interval,
                spot_usd_per_hour=float(self.spot[row]),
                on_demand_usd_per_hour=math.inf if np.isnan(self.on_demand[row]) else float(self.on_demand[row]),
                standing_usd_per_hour=float(self.standing[row]),
                last_checkpoint=warned,
                write_hours=write,
                hop_usd=float(self.moves[row, 0]),
                hop_hours=float(self.moves[row, 1]),
            ),
            states,
        )


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
