"""Rows of a screened table on spot: those that may follow a policy, with bounds, and those of whole billing steps."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property

import numpy as np

from planner.arrays import Flags, Floats, Integers
from planner.candidate_table import ON_DEMAND, CandidateTable, concatenate
from planner.candidates.deadline import policy_guarantee_hours
from planner.candidates.job_candidates import JobCandidates, OfferColumns
from planner.candidates.market import Market, market_of_nodes, moves_of, stated_availability
from planner.candidates.stage_hours import RowHours
from planner.estimates.billing import round_up_hours
from planner.estimates.preemption import node_group_market
from planner.library.schema import Library
from planner.records import record
from planner.scenario.peak_limits import PeakLimit
from planner.spot.market.states import SpotStates
from planner.spot.policy.run import SpotRun
from planner.units import GB, HOUR

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


@record(frozen=True)
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

    def late_value(self, row: int, value: float) -> float:
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
