"""Candidates that follow the best switching policy of a spot market: one point of the market curve each.

A policy waits, runs on spot or runs on demand, and always keeps its guarantee: the run ends within G hours on every
path of the market, and at the confidence within the deadline (`planner.candidates.deadline`).
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from planner.candidate_table import ON_DEMAND, SPOT, CandidateTable
from planner.candidates.deadline import policy_guarantee_hours, policy_late_hours
from planner.candidates.job_candidates import SpotChoice, SpotPiece
from planner.candidates.offer_terms import group_states
from planner.estimates.preemption import node_group_market
from planner.spot.market.duration_shapes import DurationShape, states_from_means
from planner.spot.policy.checkpointing import checkpoint_interval, last_checkpoint_fits
from planner.spot.policy.curve_pieces import CurvePiece
from planner.spot.policy.policy_cache import longest_useful_hours, spans_up_to
from planner.spot.policy.run import SpotRun
from planner.units import HOUR

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from planner.arrays import Flags, Floats, Integers
    from planner.candidates.job_candidates import JobCandidates
    from planner.candidates.market import Market
    from planner.library.schema import Library
    from planner.scenario.offer import Offer
    from planner.spot.market.states import SpotStates
    from planner.spot.policy.cost_curve import CurvePoint
    from planner.spot.policy.policy_cache import Span

ALL = slice(None)
FINE_BILLING_HOURS = 0.1
"""Longest billing step for a policy: each start would pay for whole steps."""


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


def policy_rows(candidates: JobCandidates, table: CandidateTable, rows: Integers) -> Flags:
    """Return the rows (n,) that may follow a policy: one run, with on-demand machines to fall back on."""
    both = ~np.isnan(table.run_h[:, ON_DEMAND]) & ~np.isnan(table.run_h[:, SPOT])
    both &= candidates.columns.step_hours[table.offer] <= FINE_BILLING_HOURS
    return np.asarray(both & (candidates.job.trials.count == 1) & ~candidates.is_managed_service[rows], dtype=bool)


class SpotCandidates:
    """Bounds, runs and points of the rows of one screened table, each at share 0."""

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
        self.hours = h = candidates.hours.rows(rows)
        self.on_demand = columns.on_demand_usd[table.offer] * self.nodes
        self.spot = columns.spot_usd[table.offer] * self.nodes
        self.storage = columns.storage_usd_per_hour(table.offer, h.stored_gb)
        self.standing = self.storage + target.usd_per_hour + target.waiting
        # Hours of an observed run include its start; a policy counts every start on its own.
        self.work = np.where(candidates.observed[rows], h.run - h.restart, h.run)
        self.outside_run = h.after_start + h.separate
        self.guarantee = policy_guarantee_hours(h, target.latest_hours)
        separate_usd = np.asarray([one.total("usd") for one in candidates.placements])[self.placement]
        self.outside_usd = table.fixed_usd + (self.on_demand + self.storage) * h.after_start + separate_usd
        # Standing costs are those of every hour until the end; the work itself is no waiting.
        self.worth = (
            table.penalty_usd + target.usd_per_hour * self.outside_run - target.waiting * (self.work + h.restart)
        )
        self.states: dict[tuple[int, int], SpotStates] = {}

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
        up, share = columns.mean_up_hours[offer], columns.availability[offer]
        group = node_group_market(up, share, self.nodes, self.candidates.run_hours.node_group)
        return np.asarray(group.availability, dtype=float)

    def late_value(self, row: int, value: float) -> float:
        """Return an upper bound on the cost at the confidence, with penalties, of a policy of that value."""
        worth = float(self.worth[row])
        return (value - worth) * float(self.hours.budget_factor[row]) + worth

    @cached_property
    def sizes(self) -> Floats:
        """Return figures (n, 10) of which none makes a policy on the same kind of machines better if it grows."""
        columns = (
            self.work,
            self.hours.restart,
            self.stalls,
            self.outside_usd + self.worth,
            self.spot,
            self.on_demand,
            self.standing,
            self.hours.late_factor,
            self.hours.late_outside_run,
            self.hours.budget,
        )
        return np.stack([np.asarray(one, dtype=float) for one in columns], axis=1)

    def kind(self, row: int) -> tuple[object, ...]:
        """Return the kind of a row: rows of one kind rent the same machines at one provider on the same spot market."""
        place = int(self.table.offer[row])
        offer, one = self.market.offers[place], self.candidates.spot[place]
        # Where jobs share limits, two offers may differ in stock.
        where: object = place if self.target.shared else (offer.provider, offer.gpu, offer.spot, offer.notice_seconds)
        return where, int(self.table.gpus[row]), int(self.nodes[row]), one.mean_up_hours, one.availability

    @property
    def unlimited(self) -> Flags:
        """Return the offers (offers,) without stock, quota or prepaid hours that limit them."""
        free = [one.stock is None and one.committed_hours is None for one in self.market.offers]
        open_ = [one.provider not in self.target.quota for one in self.market.offers]
        return np.asarray(np.asarray(free) & np.asarray(open_), dtype=bool)

    @cached_property
    def stalls(self) -> Floats:
        """Return the hours (n,) that a checkpoint stops training."""
        return np.asarray(self.candidates.run_hours.stall_seconds[self.configuration] / HOUR, dtype=float)

    def run_of(self, row: int) -> tuple[SpotRun, SpotStates]:
        """Return the run of a row and the market of all machines of its node group together."""
        place, nodes = int(self.table.offer[row]), int(self.nodes[row])
        offer = self.market.offers[place]
        key = (place, nodes)
        if key not in self.states:
            self.states[key] = market_states(self.candidates, place, offer, nodes, self.library)
        states = self.states[key]
        stall = float(self.stalls[row])
        share = self.candidates.run_hours.node_group.interval_share_of_young
        write = float(self.candidates.run_hours.write_seconds(int(self.configuration[row]), nodes))
        warned = last_checkpoint_fits(offer.notice_seconds, write)
        return (
            SpotRun(
                work_hours=float(self.work[row]),
                restart_hours=float(self.hours.restart[row]),
                stall_hours=stall,
                interval_hours=checkpoint_interval(stall, states, share, write / HOUR, warned),
                spot_usd_per_hour=float(self.spot[row]),
                on_demand_usd_per_hour=float(self.on_demand[row]),
                standing_usd_per_hour=float(self.standing[row]),
                last_checkpoint=warned,
                write_hours=write / HOUR,
            ),
            states,
        )

    def least_values(self, which: Sequence[int]) -> Floats:
        """Return what the search minimises, for the best policy of each row: dollars, penalties, value of hours.

        inf where no policy that uses spot is cheaper than on demand. Where a least spot share is asked for, it is a
        bound on the value of `choices`.
        """
        keys = [self._key(row) for row in which]
        on_demand = np.array([run.on_demand_usd for run, *_ in keys])
        usd = self.candidates.policies.least_usd(keys)
        worth: Floats = (self.outside_usd + self.worth)[list(which)]
        return worth + np.where(usd < on_demand, usd, np.inf)

    def choices(self, which: Sequence[int], only_figures: bool = False) -> list[tuple[int, SpotChoice]]:
        """Return the rows that have a policy within the bounds on the share, with the cheapest."""
        keys, policies, found = [self._key(row) for row in which], self.candidates.policies, []
        points = (policies.figures if only_figures else policies.best_points)(keys)
        for row, key, best in zip(which, keys, points, strict=True):
            point = best if self._allowed(best) or self.target.low <= 0 else self._with_enough_spot(*key)
            if point is not None and self._allowed(point):
                found.append((row, SpotChoice(key[0], key[1], point)))
        return found

    def _with_enough_spot(self, run: SpotRun, states: SpotStates, guarantee: float) -> CurvePoint | None:
        """Return the cheapest policy with the least spot share: one with less time to spare may have it."""
        policies = self.candidates.policies
        points = policies.close_points(run, states, policies.pieces(run, states, spans_up_to(run, guarantee)))
        return min(filter(self._allowed, points), key=lambda point: (point.usd, point.hours), default=None)

    def value(self, row: int, choice: SpotChoice) -> float:
        """Return what the search minimises, for one policy of a row."""
        return float(self.outside_usd[row] + self.worth[row] + choice.point.usd)

    def useful_spans(self, row: int, least: Callable[[Floats], Floats]) -> list[Span]:
        """Return the guaranteed times of a row at which it may cost less than `least` by its late hours (k,).

        A bound falls with the time: where that at the end of a span is no less than the least cost at its beginning,
        nothing in it matters.
        """
        run, _, longest = self._key(row)
        spans = spans_up_to(run, longest)
        begin, end = np.asarray(spans).reshape(-1, 2).T
        late = policy_late_hours(self.hours.rows(np.full(len(begin), row)), begin)
        useful = self.bound(end, np.full(len(end), row)) < least(late)
        return [span for span, matters in zip(spans, useful.tolist(), strict=True) if matters]

    def value_curves(self, which: Sequence[int], spans: Sequence[Sequence[Span]]) -> list[tuple[Floats, Floats]]:
        """Return the guaranteed hours, and the least value of a policy within them, in some spans of each row."""
        asked = [(*self.run_of(row), one) for row, one in zip(which, spans, strict=True)]
        outside = (self.outside_usd + self.worth)[list(which)].tolist()
        curves = self.candidates.policies.usd_curves(asked)
        return [(hours, usd + more) for (hours, usd), more in zip(curves, outside, strict=True)]

    def pieces(self, row: int, spans: Sequence[Span]) -> list[SpotPiece]:
        """Return the curve of a row in some spans as straight pieces, those within the bounds on the spot share."""
        (run, states), policies = self.run_of(row), self.candidates.policies
        pieces = policies.pieces(run, states, spans)
        if self.target.low > 0:
            points = policies.close_points(run, states, pieces)
            pieces = [
                CurvePiece((left.hours, right.hours), (left.usd, right.usd))
                for left, right in itertools.pairwise(points)
                if self._allowed(left) and self._allowed(right)
            ]
        return [SpotPiece(run, states, piece) for piece in pieces]

    def ends(self, which: Sequence[int], values: Sequence[float]) -> list[SpotPiece]:
        """Return the ends of the curves of rows, whose values are known."""
        keys = [self._key(row) for row in which]
        outside = (self.outside_usd + self.worth)[list(which)].tolist()
        return [
            SpotPiece(run, states, CurvePiece((hours, hours), (value - more, value - more)))
            for (run, states, hours), value, more in zip(keys, values, outside, strict=True)
        ]

    def _key(self, row: int) -> tuple[SpotRun, SpotStates, float]:
        """Return the run of a row, its market, and the hours that its policy may take."""
        run, states = self.run_of(row)
        return run, states, min(float(self.guarantee[row]), longest_useful_hours(run))

    def _allowed(self, point: CurvePoint) -> bool:
        """Return whether the point uses spot, within the bounds on its share."""
        return point.spot_hours > 0 and self.target.low - 1e-9 <= point.spot_share <= self.target.high + 1e-9

    def as_rows(self, which: Integers, found: Sequence[SpotChoice | SpotPiece]) -> CandidateTable:
        """Return rows of the table for policies: at a point the figures of both markets are equal."""
        ends = [one.ends for one in found]
        guaranteed, finish, usd, share = (np.asarray([one[column] for one in ends]) for column in range(4))
        h, rows = self.hours.rows(which), self.table.rows(which)
        storage, standing = self.storage[which], self.standing[which]
        compute = usd - standing[:, None] * finish
        placements = self.candidates.placements
        late_separate = np.asarray([one.total("late_usd") for one in placements])[self.placement[which]]
        outside = (self.on_demand[which] + storage) * h.after_start
        run = (compute + storage[:, None] * finish) * h.stretch[:, None]
        return replace(
            rows,
            run_h=(self.outside_run[which] - rows.start_h)[:, None] + finish,
            late_h=np.stack([policy_late_hours(h, one) - rows.late_start_h for one in guaranteed.T], axis=1),
            run_usd=(self.outside_usd[which] - rows.fixed_usd)[:, None] + compute + storage[:, None] * finish,
            late_usd=((outside + late_separate)[:, None] + run) * h.budget[:, None],
            share_low=share[:, 0],
            share_high=share[:, 1],
        )


def market_states(candidates: JobCandidates, place: int, offer: Offer, nodes: int, library: Library) -> SpotStates:
    """Return the market of `nodes` machines of an offer: as given by age, else means with recorded shapes."""
    if offer.spot is not None and offer.spot.instances == nodes and (given := group_states(offer.spot)) is not None:
        return given
    one = candidates.spot[place]
    group = node_group_market(one.mean_up_hours, one.availability, nodes, candidates.run_hours.node_group)
    shape = DurationShape.of(library.calibrations["spot"].values)
    return states_from_means(float(group.mean_up), float(group.mean_outage), shape)
