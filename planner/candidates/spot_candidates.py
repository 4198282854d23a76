"""Candidates on spot: their runs and bounds, whole billing steps, and the best switching policies that they follow.

A policy waits, runs on spot or runs on demand, and always keeps its guarantee: the run ends within G hours on every
path of the market, and at the confidence within the deadline (`planner.candidates.run_hours`).
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from planner.arrays import ON_DEMAND, SPOT, CandidateTable, Flags, Floats, Integers, concatenate
from planner.candidates.job_candidates import JobCandidates, OfferColumns
from planner.candidates.market import Market, market_of_nodes, moves_of, stated_availability
from planner.candidates.run_hours import RowHours, policy_guarantee_hours, policy_late_hours
from planner.estimates.billing import round_up_hours
from planner.estimates.stage_seconds import node_group_market
from planner.library.schema import Library
from planner.scenario.limits import PeakLimit
from planner.spot.drawn_runs import PolicyCosts, late_dollars, least_wait
from planner.spot.policy_cache import CurvePoint, Key, PolicyCache, Span, longest_useful_hours, spans_up_to
from planner.spot.run import SpotRun
from planner.spot.states import SpotStates
from planner.spot.switching_policy import CurvePiece, WaitingRule
from planner.units import GB, HOUR

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Mapping, Sequence


# What a row of a table on spot follows: a policy for one deadline, or a piece of a market curve.


@dataclass(frozen=True)
class SpotChoice:
    """A run, its market, and the point of its market curve that is chosen."""

    run: SpotRun
    states: SpotStates
    point: CurvePoint

    @property
    def ends(self) -> tuple[Floats, Floats, Floats, Floats]:
        """Return guaranteed hours, expected hours, dollars and spot share of the columns of both markets: equal."""
        point = self.point
        hours, finish, usd, share = (
            np.full(2, x) for x in (point.hours, point.finish_hours, point.usd, point.spot_share)
        )
        return hours, finish, usd, share

    def with_less_waiting(
        self, policies: PolicyCache, most_usd: float, low_share: float
    ) -> tuple[SpotChoice, float] | None:
        """Return the policy of nearly the same dollars that waits least, and the price of waiting that it weighs."""
        least = least_wait(policies, self.run, self.states, self.point, most_usd, low_share)
        return None if least is None else (SpotChoice(least[0], self.states, least[1]), least[2])

    def in_full(self, policies: PolicyCache) -> SpotChoice:
        """Return the choice with all figures of its point, those that no candidate is compared by included."""
        if not math.isnan(self.point.usd_sd):
            return self
        (point,) = policies.best_points([(self.run, self.states, self.point.hours)])
        return replace(self, point=point)

    def at_waiting_price(self, policies: PolicyCache, usd_per_hour: float) -> SpotChoice:
        """Return the best policy within the same time where an hour of waiting costs more by this price."""
        run = replace(self.run, standing_usd_per_hour=self.run.standing_usd_per_hour + usd_per_hour)
        (point,) = policies.best_points([(run, self.states, self.point.hours)])
        return SpotChoice(run, self.states, point)

    def rule(self, policies: PolicyCache) -> WaitingRule:
        """Return when a run that waits takes a spot machine."""
        return policies.rules([(self.run, self.states, self.point.hours)])[0]


@dataclass(frozen=True)
class SpotPiece:
    """A run, its market, and a straight piece of its market curve, along which a row's share goes from 0 to 1.

    Only dollars are known along it: the expected hours stand for themselves at most, as the guaranteed ones.
    """

    run: SpotRun
    states: SpotStates
    piece: CurvePiece
    valued_usd_per_hour: float  # what an hour is worth, among the dollars of the piece, but on no bill

    @property
    def ends(self) -> tuple[Floats, Floats, Floats, Floats]:
        """Return what the columns of the two markets hold: the figures of either end, and the shares 0 and 1."""
        hours = np.asarray(self.piece.hours)
        return hours, hours, np.asarray(self.piece.usd), np.arange(2.0)

    def key(self, share: float) -> Key:
        """Return the run, its market and the guaranteed hours at a share of the piece."""
        begin, end = self.piece.hours
        return self.run, self.states, begin + share * (end - begin)

    def settle(
        self, figures: CandidateTable, share: float, policies: PolicyCache
    ) -> tuple[SpotChoice, CandidateTable, float]:
        """Return the best policy at a share of the piece, the table row with its figures, and its spot share."""
        run, states, hours = self.key(share)
        (point,) = policies.best_points([(run, states, hours)])
        begin, end = self.piece.usd
        later = point.finish_hours - hours
        more_usd = point.usd - (begin + share * (end - begin)) - self.valued_usd_per_hour * later
        exact = replace(
            figures,
            run_h=_in_both(figures.hours(share) - figures.start_h + later),
            late_h=_in_both(figures.late_hours(share) - figures.late_start_h),
            run_usd=_in_both(figures.cost_usd(share) - figures.fixed_usd + more_usd),
        )
        return SpotChoice(run, states, point), exact, point.spot_share


def _in_both(values: Floats) -> Floats:
    """Return a column (n,) for both markets (n, 2)."""
    return np.repeat(values[:, None], 2, axis=1)


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
    peaks: tuple[PeakLimit, ...] = ()  # what several jobs may use at one time, next to dollars
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
        offer, spot_market = self.market.offers[place], self.candidates.spot[place]
        # Where jobs share limits, two offers may differ in stock.
        where: object = place if self.target.shared else (offer.provider, offer.gpu, offer.spot, offer.notice_seconds)
        return (
            where,
            int(self.table.gpus[row]),
            int(self.nodes[row]),
            spot_market.mean_up_hours,
            spot_market.availability,
            spot_market.zones,
        )

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
        moved, offer = np.zeros((len(self.table), 2)), self.table.offer
        saved_gb = self.candidates.run_hours.saved_bytes[self.configuration] / GB
        pull = self.candidates.columns.pull_bytes_per_second[offer]
        for place in np.flatnonzero(np.bincount(offer)).tolist():
            if (sold := self.market.offers[place]).zones:
                at = np.flatnonzero(offer == place)
                move = moves_of(sold, saved_gb[at], self.candidates.job.data_gb, pull[at])
                moved[at, 0] = move.usd * self.nodes[at] / self.gang[at]  # machines that move each copy all
                moved[at, 1] = move.hours
        return moved

    def run_of(self, row: int) -> tuple[SpotRun, SpotStates]:
        """Return the run of a row and the market of all machines of its node group together."""
        if row not in self._runs:
            self._runs[row] = self._run_of(row)
        return self._runs[row]

    def _run_of(self, row: int) -> tuple[SpotRun, SpotStates]:
        place, nodes = int(self.table.offer[row]), int(self.nodes[row])
        offer, run_hours, key = self.market.offers[place], self.candidates.run_hours, (place, int(self.gang[row]))
        if key not in self.states:
            spot_market = self.candidates.spot[place]
            self.states[key] = market_of_nodes(offer, spot_market, key[1], run_hours.node_group, self.library)
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


SPAN_PARTS = 8
"""Parts of the times that one pass answers, in each of which a bound is compared with what is known."""
BISECTIONS = 12
"""Halvings of the time in which the spot share of policies reaches the least share."""
FINE_BILLING_HOURS = 0.1
"""Longest billing step for a policy: each start would pay for whole steps."""


def policy_rows(candidates: JobCandidates, rows: Integers) -> Flags:
    """Return which of some rows (n,) may follow a policy: one run, with on-demand machines to fall back on."""
    table = candidates.table
    both = ~np.isnan(table.run_h[rows, ON_DEMAND]) & ~np.isnan(table.run_h[rows, SPOT])
    both &= candidates.columns.step_hours[table.offer[rows]] <= FINE_BILLING_HOURS
    return np.asarray(both & (candidates.job.trials.count == 1) & ~candidates.is_managed_service[rows], dtype=bool)


DRAWN_POLICIES = 3
"""Policies of one search of which runs are drawn for a budget: those that cost least on mean markets."""


class SpotCandidates(SpotRows):
    """Policies of the rows of one screened table: their values, points and curves."""

    def close_bound(self, row: int) -> float:
        """Return a lower bound on the value of every policy of a row that is mostly higher than `bound`, and slower."""
        return float(self.outside_usd[row] + self.worth[row]) + self.candidates.policies.usd_bound(*self._key(row))

    def least_values(self, which: Sequence[int]) -> Floats:
        """Return what the search minimises, for the best policy of each row; inf where on demand costs no more.

        Where a least spot share is asked for, it is a bound on the value of `choices`.
        """
        keys = [self._key(row) for row in which]
        on_demand = np.array([run.on_demand_usd for run, *_ in keys])
        usd = self.candidates.policies.least_usd(keys)
        return np.asarray((self.outside_usd + self.worth)[list(which)] + np.where(usd < on_demand, usd, np.inf))

    def late_usd(self, values: Floats, which: Integers | slice = ALL) -> Floats:
        """Return the dollars (n,) at the confidence of the budget of policies of rows, whose values are given.

        Those of `as_rows`, where an hour has no value and waiting no price.
        """
        usd = values - (self.outside_usd + self.worth)[which]
        return np.asarray(self.table.fixed_usd[which] + self._slow_usd(which, usd[:, None])[:, 0], dtype=float)

    def _slow_usd(self, which: Integers | slice, usd: Floats) -> Floats:
        """Return dollars (n, k) of rows, without the fixed ones, at the confidence of the budget and on mean markets.

        `usd` (n, k) are those of policies, as expected; a slow run does not stop early.
        """
        h, placements = self.hours, self.candidates.placements
        late_separate = np.asarray([placement.total("late_usd") for placement in placements])[self.placement[which]]
        outside = (self.on_demand[which] + self.storage[which]) * h.after_start[which] + late_separate
        return np.asarray((outside[:, None] + usd * h.stretch[which, None]) * h.budget[which, None])

    def late_value(self, row: int, value: float) -> float:
        """Return the cost at the confidence, with penalties, of the best policy of a row, whose value is given.

        Where there is a budget, its runs are drawn.
        """
        if not self.target.has_budget or not math.isfinite(value):
            return self.mean_market_late_value(row, value)
        run, states, guaranteed = self._key(row)
        costs, confidence = self._costs(row, run, states, guaranteed), self.candidates.run_hours.budget_confidence
        return late_dollars([costs], confidence)[0] + float(self.worth[row])

    def _costs(self, row: int, run: SpotRun, states: SpotStates, guaranteed_hours: float) -> PolicyCosts:
        fixed = float(self.table.fixed_usd[row])
        return policy_costs(self.candidates, int(self.rows[row]), fixed, run, states, guaranteed_hours)

    def choices(self, which: Sequence[int]) -> list[tuple[int, SpotChoice]]:
        """Return the rows that have a policy within the bounds on the share, with the figures of the cheapest."""
        keys, policies, choices = [self._key(row) for row in which], self.candidates.policies, []
        for row, key, best in zip(which, keys, policies.best_within(keys), strict=True):
            point = best if self._allowed(best) or self.target.low <= 0 else self._with_enough_spot(*key)
            if point is not None and self._allowed(point):
                choices.append((row, SpotChoice(key[0], key[1], point)))
        return choices

    def _with_enough_spot(self, run: SpotRun, states: SpotStates, guarantee: float) -> CurvePoint | None:
        """Return the cheapest policy with the least spot share: one with less time to spare may have it.

        It is a point of `pieces`, which do not depend on the time: more of it never costs more.
        """
        whole = spans_up_to(run, states, longest_useful_hours(run, states))
        pieces = self._allowed_pieces(run, states, [span for span in whole if span[0] < guarantee])
        ends = [end for piece in pieces for end in zip(piece.hours, piece.usd, strict=True) if end[0] <= guarantee]
        if not ends:
            return None
        _, hours = min((usd, hours) for hours, usd in ends)
        return self.candidates.policies.figures([(run, states, hours)])[0]

    def value(self, row: int, choice: SpotChoice) -> float:
        """Return what the search minimises, for one policy of a row."""
        return float(self.outside_usd[row] + self.worth[row] + choice.point.usd)

    def useful_spans(self, row: int, least: Callable[[Floats], Floats]) -> list[Span]:
        """Return the guaranteed times of a row at which it may cost less than `least` by its late hours (k,).

        A bound falls with the time: where that at the end of a part of a span is no less than the least cost at its
        beginning, nothing in the part matters.
        """
        run, states, longest = self._key(row)
        spans = spans_up_to(run, states, longest)
        first, last = np.asarray(spans, dtype=float).reshape(-1, 2).T
        edges = np.linspace(first, last, SPAN_PARTS + 1, axis=1)
        begin, end = edges[:, :-1], edges[:, 1:]
        of_row = np.full(begin.size, row)
        most = least(policy_late_hours(self.hours.rows(of_row), begin.ravel())).reshape(begin.shape)
        may = self.bound(end.ravel(), of_row).reshape(begin.shape) < most
        outside, policies = float(self.outside_usd[row] + self.worth[row]), self.candidates.policies

        def is_below(hours: Floats, usd: Floats) -> bool:
            """Return whether the closer bound by some time is below the cost there."""
            pairs = zip(hours.tolist(), usd.tolist(), strict=True)
            return any(outside + policies.usd_bound(run, states, time) < cost for time, cost in pairs)

        # What the whole span may save at most spares the parts of most spans.
        return [
            span
            for span, ends, costs, here in zip(spans, end, most, may, strict=True)
            if here.any() and is_below(ends[-1:], costs[:1]) and is_below(ends[here], costs[here])
        ]

    def value_curves(self, which: Sequence[int], spans: Sequence[Sequence[Span]]) -> list[list[tuple[Floats, Floats]]]:
        """Return guaranteed hours, and the least value of a policy within them, in each span of each row."""
        asked = [(*self.run_of(row), span) for row, span in zip(which, spans, strict=True)]
        outside = (self.outside_usd + self.worth)[list(which)].tolist()
        curves = self.candidates.policies.usd_curves(asked)
        return [[(hours, usd + more) for hours, usd in several] for several, more in zip(curves, outside, strict=True)]

    def pieces(self, row: int, spans: Sequence[Span]) -> list[SpotPiece]:
        """Return the curve of a row in some spans as straight pieces, those within the bounds on the spot share."""
        (run, states), policies = self.run_of(row), self.candidates.policies
        pieces = (
            policies.pieces(run, states, spans) if self.target.low <= 0 else self._allowed_pieces(run, states, spans)
        )
        valued = float(self.standing[row] - self.storage[row])
        return [SpotPiece(run, states, piece, valued) for piece in pieces]

    def allowed_ends(self, row: int, spans: Sequence[Span]) -> tuple[Floats, Floats]:
        """Return guaranteed hours and values (k,) of policies of a row with the least spot share, by rising hours."""
        pieces = self._allowed_pieces(*self.run_of(row), spans)
        hours, usd = (np.asarray([end for piece in pieces for end in piece[axis]], dtype=float) for axis in range(2))
        return hours, usd + float(self.outside_usd[row] + self.worth[row])

    def _allowed_pieces(self, run: SpotRun, states: SpotStates, spans: Sequence[Span]) -> list[CurvePiece]:
        """Return the parts of a curve whose policies have the least spot share, by rising hours, single points too.

        The share is looked at where neighbours are not noticeably apart in dollars; between one that has it and one
        that has not, a part ends where bisection finds it.
        """
        policies, allowed = self.candidates.policies, list[CurvePiece]()
        points = policies.close_points(run, states, policies.pieces(run, states, spans))
        for left, right in itertools.pairwise(points):
            if self._allowed(left) == self._allowed(right):
                ends = (left, right)
            elif self._allowed(left):
                ends = (left, self._last_allowed(run, states, left, right))
            else:
                ends = (self._last_allowed(run, states, right, left), right)
            if self._allowed(ends[0]):
                allowed.append(CurvePiece((ends[0].hours, ends[1].hours), (ends[0].usd, ends[1].usd)))
        return allowed

    def _last_allowed(self, run: SpotRun, states: SpotStates, has: CurvePoint, lacks: CurvePoint) -> CurvePoint:
        """Return the last policy with the least spot share from one that has it to one that lacks it."""
        inside, outside = has, lacks.hours
        for _ in range(BISECTIONS):
            middle = (inside.hours + outside) / 2
            point = self.candidates.policies.figures([(run, states, middle)])[0]
            if self._allowed(point):
                inside = point
            else:
                outside = middle
        return inside

    def ends(self, which: Sequence[int], values: Sequence[float]) -> list[SpotPiece]:
        """Return the ends of the curves of rows, whose values are known."""
        keys = [self._key(row) for row in which]
        outside = (self.outside_usd + self.worth)[list(which)].tolist()
        worth = (self.standing - self.storage)[list(which)].tolist()
        return [
            SpotPiece(run, states, CurvePiece((hours, hours), (value - more, value - more)), valued)
            for (run, states, hours), value, more, valued in zip(keys, values, outside, worth, strict=True)
        ]

    def _key(self, row: int) -> tuple[SpotRun, SpotStates, float]:
        """Return the run of a row, its market, and the hours that its policy may take."""
        run, states = self.run_of(row)
        return run, states, min(float(self.guarantee[row]), longest_useful_hours(run, states))

    def _allowed(self, point: CurvePoint) -> bool:
        """Return whether the point uses spot, within the bounds on its share."""
        return point.spot_hours > 0 and self.target.low - 1e-9 <= point.spot_share <= self.target.high + 1e-9

    def as_rows(self, which: Integers, choices: Sequence[SpotChoice | SpotPiece]) -> CandidateTable:
        """Return rows of the table for policies: at a point the figures of both markets are equal."""
        ends = [choice.ends for choice in choices]
        guaranteed, finish, usd, share = (np.asarray([end[column] for end in ends]) for column in range(4))
        h, rows = self.hours.rows(which), self.table.rows(which)
        storage, standing = self.storage[which], self.standing[which]
        compute = usd - standing[:, None] * finish
        late_usd = self._slow_usd(which, compute + storage[:, None] * finish)
        if self.target.has_budget:
            points = np.flatnonzero(guaranteed[:, 0] == guaranteed[:, 1])  # those of a curve are settled later
            late_usd[points] = self._with_luck(which, choices, points, late_usd, rows.fixed_usd)
        return replace(
            rows,
            run_h=(self.outside_run[which] - rows.start_h)[:, None] + finish,
            late_h=np.stack([policy_late_hours(h, hours) - rows.late_start_h for hours in guaranteed.T], axis=1),
            run_usd=(self.outside_usd[which] - rows.fixed_usd)[:, None] + compute + storage[:, None] * finish,
            late_usd=late_usd,
            share_low=share[:, 0],
            share_high=share[:, 1],
        )

    def _with_luck(
        self,
        which: Integers,
        choices: Sequence[SpotChoice | SpotPiece],
        points: Integers,
        late_usd: Floats,
        fixed_usd: Floats,
    ) -> Floats:
        """Return the dollars of policies (points, 2), without the fixed ones, at the confidence of the budget.

        `late_usd` counts slow runs on mean markets. Runs of the cheapest are drawn, which takes some hundredths of a
        second each. The others get the largest ratio that was found among them, so that no budget is promised that a
        drawn run of a policy like them would break.
        """
        mean = late_usd[points, 0] + fixed_usd[points]
        drawn = np.argsort(mean, kind="stable")[:DRAWN_POLICIES]
        ratios = np.ones(len(points))
        these = [(int(which[at]), choices[at]) for at in points[drawn].tolist()]
        costs = [self._costs(row, choice.run, choice.states, float(choice.ends[0][0])) for row, choice in these]
        ratios[drawn] = np.array(late_dollars(costs, self.candidates.run_hours.budget_confidence)) / mean[drawn]
        others = np.ones(len(points), dtype=bool)
        others[drawn] = False
        ratios[others] = max(1.0, float(ratios[drawn].max(initial=1.0)))
        return np.asarray((ratios * mean - fixed_usd[points])[:, None] + np.zeros(2))


class FoundPolicies(NamedTuple):
    """Rows of a table for candidates on policies, the row of the search that each came from, and what it follows.

    Of a search for one deadline each row is a choice, of one for a frontier a piece of a curve; both by row.
    """

    table: CandidateTable
    origin: Integers
    choices: dict[int, SpotChoice]
    pieces: dict[int, SpotPiece]


def policy_costs(
    candidates: JobCandidates, row: int, fixed_usd: float, run: SpotRun, states: SpotStates, guaranteed_hours: float
) -> PolicyCosts:
    """Return what the dollars of a policy of a row of the uncut table depend on."""
    which, table = np.asarray([row]), candidates.table
    h, offer, columns = candidates.hours.rows(which), int(table.offer[row]), candidates.columns
    storage = float(columns.storage_usd_per_hour(table.offer[which], h.stored_gb)[0])
    separate = float(candidates.placement_of(row).total("late_usd"))
    machines = float(columns.on_demand_usd[offer]) * float(table.instances[row] // table.node_groups[row])
    after = float(h.after_start[0])
    return PolicyCosts(
        run=run,
        states=states,
        guaranteed_hours=guaranteed_hours,
        sigma=float(candidates.run_hours.sigma_tail[int(candidates.configuration[row])]),
        stretch=float(h.stretch[0]),
        late_hours=float(policy_late_hours(h, np.asarray([guaranteed_hours]))[0]),
        outside_hours=after + float(h.late_separate[0]),
        outside_usd=after * (machines + storage) + separate,
        storage_usd_per_hour=storage,
        fixed_usd=fixed_usd,
    )


def only_dollars(work: SpotCandidates, values: Mapping[int, float]) -> FoundPolicies:
    """Return candidates of which only the values of their policies are known."""
    ends = list(zip(values, work.ends(list(values), list(values.values())), strict=True))
    return FoundPolicies(*rows_of(work, ends), {}, dict(enumerate(piece for _, piece in ends)))


def rows_of(
    work: SpotCandidates, policies: Sequence[tuple[int, SpotChoice | SpotPiece]]
) -> tuple[CandidateTable, Integers]:
    """Return the rows of a table for what was found, and the row of `work` that each came from."""
    origin = np.asarray([row for row, _ in policies], dtype=np.int64)
    return (work.as_rows(origin, [choice for _, choice in policies]) if policies else work.table.rows(origin)), origin


# Bills of whole billing steps: rows as points of fixed spot shares, each with rounded dollars.


COARSE_STEP = 0.05
"""Share of the run above which a billing step is rounded where there is a spot market."""


FINE_STEP_HOURS = 1 / 60
"""Billing steps up to a minute are never rounded."""


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


@dataclass(frozen=True)
class ScreenedCandidates:
    """The rows that meet the limits of the job, with their spot shares cut, and why the others do not."""

    table: CandidateTable
    rows: Integers  # row of `table` -> row of the uncut table
    rounded: Flags  # row of `table`: billed in whole steps
    rejected: Counter[str]
    lateness: Floats  # per uncut row: hours over the deadline where that alone rejects it, else 0
    spot: Mapping[int, SpotChoice] = field(default_factory=dict)  # row of `table` that follows a policy -> it
    pieces: Mapping[int, SpotPiece] = field(default_factory=dict)  # the same of rows that are pieces of a curve
    dropped: int = 0  # uncut rows that are no longer kept
    dominated: int = 0  # rows of the table that are no longer kept

    def select(self, which: Flags) -> ScreenedCandidates:
        """Return the rows that a mask (n,) selects."""
        kept = np.flatnonzero(which).tolist()
        return replace(
            self,
            table=self.table.rows(which),
            rows=self.rows[which],
            rounded=self.rounded[which],
            spot={number: self.spot[row] for number, row in enumerate(kept) if row in self.spot},
            pieces={number: self.pieces[row] for number, row in enumerate(kept) if row in self.pieces},
        )

    def curves(self) -> Integers:
        """Return for rows that are pieces of a curve the row of the uncut table that it belongs to; -1 for others."""
        curves = np.full(len(self.rows), -1)
        pieces = list(self.pieces)
        curves[pieces] = self.rows[pieces]
        return curves

    def with_policies(self, policies: FoundPolicies, rows: Integers) -> ScreenedCandidates:
        """Return these candidates and those that follow policies, which come from `rows` of the uncut table."""
        first = len(self.rows)
        return replace(
            self,
            table=concatenate([self.table, policies.table]),
            rows=np.append(self.rows, rows),
            rounded=np.append(self.rounded, np.zeros(len(rows), dtype=bool)),
            spot={first + number: choice for number, choice in policies.choices.items()},
            pieces={first + number: piece for number, piece in policies.pieces.items()},
        )
