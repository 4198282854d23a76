"""Candidates that follow the best switching policy of a spot market: one point of the market curve each.

A policy waits, runs on spot or runs on demand, and always keeps its guarantee: the run ends within G hours on every
path of the market, and at the confidence within the deadline (`planner.candidates.deadline`).

Curves take time to compute, so only the candidates that a lower bound leaves are computed. The bound: spot does at most
the work that fits into the time that the market is available, and every hour of it is paid.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from planner.candidate_table import ON_DEMAND, SPOT, CandidateTable
from planner.candidates.deadline import policy_guarantee_hours, policy_late_hours
from planner.candidates.offer_terms import group_states
from planner.estimates.preemption import node_group_market
from planner.spot.market.duration_shapes import DurationShape, states_from_means
from planner.spot.policy.checkpointing import checkpoint_interval, last_checkpoint_fits
from planner.spot.policy.policy_cache import longest_useful_hours
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

ALL = slice(None)
FINE_BILLING_HOURS = 0.1
"""Longest billing step for a policy: each start would pay for whole steps."""


@dataclass(frozen=True)
class SpotChoice:
    """A run, its market, and the point of its market curve that is chosen."""

    run: SpotRun
    states: SpotStates
    point: CurvePoint


@dataclass(frozen=True)
class SearchTarget:
    """What the points are for: the latest finish, bounds on the spot share, the value of an hour in dollars."""

    latest_hours: float
    low: float
    high: float
    usd_per_hour: float
    waiting: Callable[[Floats], Floats]  # price of an hour of waiting, of machines at a price on demand; on no bill
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
        columns, h = candidates.columns, candidates.hours.rows(rows)
        self.hours = h
        self.nodes = table.instances // table.node_groups
        self.on_demand = columns.on_demand_usd[table.offer] * self.nodes
        self.spot = columns.spot_usd[table.offer] * self.nodes
        self.storage = columns.storage_usd_per_hour(table.offer, h.stored_gb)
        waiting = target.waiting(self.on_demand)
        self.standing = self.storage + target.usd_per_hour + waiting
        # Hours of an observed run include its start; a policy counts every start on its own.
        self.work = np.where(candidates.observed[rows], h.run - h.restart, h.run)
        self.outside_run = h.after_start + h.separate
        self.guarantee = policy_guarantee_hours(h, target.latest_hours)
        separate_usd = np.asarray([one.total("usd") for one in candidates.placements])[self.placement]
        self.outside_usd = table.fixed_usd + (self.on_demand + self.storage) * h.after_start + separate_usd
        # Standing costs are those of every hour until the end; the work itself is no waiting.
        self.worth = table.penalty_usd + target.usd_per_hour * self.outside_run
        self.worth = self.worth - waiting * (self.work + self.hours.restart)
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
        return (value - worth) * float(self.hours.late_factor[row]) + worth

    @cached_property
    def sizes(self) -> Floats:
        """Return figures (n, 9) of which none makes a policy on the same kind of machines better if it grows."""
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

    def choices(self, which: Sequence[int]) -> list[tuple[int, SpotChoice]]:
        """Return the rows that have a policy within the bounds on the share, with the cheapest."""
        keys = [self._key(row) for row in which]
        found = []
        for row, key, best in zip(which, keys, self.candidates.policies.best_points(keys), strict=True):
            point = best if self._allowed(best) or self.target.low <= 0 else self._with_enough_spot(*key)
            if point is not None and self._allowed(point):
                found.append((row, SpotChoice(key[0], key[1], point)))
        return found

    def _with_enough_spot(self, run: SpotRun, states: SpotStates, guarantee: float) -> CurvePoint | None:
        """Return the cheapest policy with the least spot share: one with less time to spare may have it."""
        points = filter(self._allowed, self.candidates.policies.points(run, states, guarantee))
        best = min(points, key=lambda point: (point.usd, point.hours), default=None)
        return best and self.candidates.policies.best_points([(run, states, best.hours)])[0]

    def value(self, row: int, choice: SpotChoice) -> float:
        """Return what the search minimises, for one policy of a row."""
        return float(self.outside_usd[row] + self.worth[row] + choice.point.usd)

    def value_curves(self, which: Sequence[int]) -> list[tuple[Floats, Floats]]:
        """Return the guaranteed hours, and the least value of a policy within them, of each row."""
        curves = self.candidates.policies.usd_curves([self._key(row) for row in which])
        outside = (self.outside_usd + self.worth)[list(which)].tolist()
        return [(hours, usd + more) for (hours, usd), more in zip(curves, outside, strict=True)]

    def whole_curve(self, row: int) -> list[SpotChoice]:
        """Return every noticeably cheaper point of the curve of a row, by rising hours."""
        run, states, guarantee = self._key(row)
        points = self.candidates.policies.points(run, states, guarantee)
        return [SpotChoice(run, states, point) for point in points if self._allowed(point)]

    def _key(self, row: int) -> tuple[SpotRun, SpotStates, float]:
        """Return the run of a row, its market, and the hours that its policy may take."""
        run, states = self.run_of(row)
        return run, states, min(float(self.guarantee[row]), longest_useful_hours(run))

    def _allowed(self, point: CurvePoint) -> bool:
        """Return whether the point uses spot, within the bounds on its share."""
        return point.spot_hours > 0 and self.target.low - 1e-9 <= point.spot_share <= self.target.high + 1e-9

    def as_rows(self, which: Integers, choices: Sequence[SpotChoice]) -> CandidateTable:
        """Return rows of the table at the chosen points: hours and dollars are the same in both markets."""
        points = [one.point for one in choices]
        finish, guaranteed, usd, share = (
            np.asarray([getattr(one, name) for one in points])
            for name in ("finish_hours", "hours", "usd", "spot_share")
        )
        h, storage, rows = self.hours.rows(which), self.storage[which], self.table.rows(which)
        compute = usd - self.standing[which] * finish
        placements = self.candidates.placements
        late_separate = np.asarray([one.total("late_usd") for one in placements])[self.placement[which]]
        late_usd = (self.on_demand[which] * h.after_start + compute * h.stretch) * h.late
        late_usd += storage * (h.after_start + finish * h.stretch) * h.late + late_separate * h.late

        def both(values: Floats) -> Floats:
            """Return a column (n,) for both markets (n, 2)."""
            return np.repeat(np.asarray(values, dtype=float)[:, None], 2, axis=1)

        return replace(
            rows,
            run_h=both(self.outside_run[which] + finish - rows.start_h),
            late_h=both(policy_late_hours(h, guaranteed) - rows.late_start_h),
            run_usd=both(self.outside_usd[which] - rows.fixed_usd + compute + storage * finish),
            late_usd=both(late_usd),
            share_low=share,
            share_high=share,
        )


def market_states(candidates: JobCandidates, place: int, offer: Offer, nodes: int, library: Library) -> SpotStates:
    """Return the market of `nodes` machines of an offer: as given by age, else means with recorded shapes."""
    if offer.spot is not None and offer.spot.instances == nodes and (given := group_states(offer.spot)) is not None:
        return given
    one = candidates.spot[place]
    group = node_group_market(one.mean_up_hours, one.availability, nodes, candidates.run_hours.node_group)
    shape = DurationShape.of(library.calibrations["spot"].values)
    return states_from_means(float(group.mean_up), float(group.mean_outage), shape)
