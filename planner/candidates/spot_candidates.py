"""Candidates that follow the best switching policy of a spot market: one point of the market curve each.

A policy waits, runs on spot or on demand, and never gives up its guarantee: at the speed expected the run ends within G
hours on every path of the market, and at the asked confidence within the deadline, speed error and all:

    (once - start + aside + stretch * G) * late = min(deadline, longest run)

Curves cost time, so only candidates are computed that a bound leaves: spot does at most the work that fits into the
time that the market is up, and every hour of it is paid.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from planner.candidate_table import ON_DEMAND, SPOT, CandidateTable
from planner.candidates.offer_terms import group_states
from planner.candidates.run_hours import calibration_values
from planner.estimates.preemption import node_group_market
from planner.estimates.time.stages import checkpoint_seconds
from planner.spot.market.duration_shapes import DurationShape
from planner.spot.market.duration_shapes import states_from_means as shaped
from planner.spot.policy.checkpointing import checkpoint_interval, last_checkpoint_fits
from planner.spot.policy.run import SpotRun
from planner.units import GB, HOUR

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.arrays import Flags, Floats, Integers
    from planner.candidates.enumeration import JobCandidates
    from planner.candidates.market import Market
    from planner.library.schema import Library
    from planner.scenario.scenario import Offer
    from planner.spot.market.states import SpotStates
    from planner.spot.policy.cost_curve import CurvePoint

FINE_BILLING_HOURS = 0.1
"""Longest billing step of a market that a policy is made for: each start would pay for whole steps."""


@dataclass(frozen=True)
class SpotChoice:
    """A run, its market, and the point of the curve that it is planned for."""

    run: SpotRun
    states: SpotStates
    point: CurvePoint


@dataclass(frozen=True)
class SearchTarget:
    """What the points are for: the latest end, bounds on the spot share, dollars that an hour of waiting is worth."""

    latest_hours: float
    low: float
    high: float
    usd_per_hour: float
    shared: bool = False  # a budget, or other jobs beside it: the cheapest alone may not be what the program needs
    quota: frozenset[str] = frozenset()  # providers with one


def policy_rows(candidates: JobCandidates, table: CandidateTable, rows: Integers) -> Flags:
    """Rows that have both markets and one run: a policy needs on-demand machines to fall back on."""
    both = ~np.isnan(table.run_h[:, ON_DEMAND]) & ~np.isnan(table.run_h[:, SPOT])
    both &= candidates.columns.step_hours[table.offer] <= FINE_BILLING_HOURS
    return np.asarray(both & (candidates.job.trials.count == 1) & (candidates.configuration[rows] >= 0), dtype=bool)


class SpotCandidates:
    """Bounds, runs and points of the rows of one screened table, each at share 0."""

    def __init__(
        self,
        candidates: JobCandidates,
        table: CandidateTable,
        rows: Integers,
        aim: SearchTarget,
        market: Market,
        library: Library,
    ) -> None:
        self.candidates, self.table, self.rows, self.aim = candidates, table, rows, aim
        self.market, self.library = market, library
        columns, h = candidates.columns, candidates.hours.rows(rows)
        self.hours = h
        self.nodes = table.instances // table.node_groups
        self.on_demand = columns.on_demand_usd[table.offer] * self.nodes
        self.spot = columns.spot_usd[table.offer] * self.nodes
        self.storage = storage_usd_per_hour(candidates, rows)
        self.standing = self.storage + aim.usd_per_hour
        observed = candidates.run_hours.observed[candidates.configuration[rows]]
        # Hours of an observed run have its start among them; a policy counts every start apart.
        self.work = np.where(observed, h.run - h.restart, h.run)
        self.beside = h.once - h.start + h.aside
        self.late_beside = (h.once - h.start + h.late_separate) * h.late
        self.guarantee = self.guarantee_by(aim.latest_hours)
        self.common = table.fixed_usd + (self.on_demand + self.storage) * (h.once - h.start)
        self.common = self.common + self._aside_usd()
        self.worth = table.penalty_usd + aim.usd_per_hour * self.beside
        self.states: dict[tuple[int, int], SpotStates] = {}

    def _aside_usd(self) -> Floats:
        placed = np.asarray([one.usd for one in self.candidates.placements])
        ran = ~self.candidates.run_hours.observed[self.candidates.configuration[self.rows]]
        return np.asarray(placed[self.candidates.placement[self.rows]] * ran, dtype=float)

    def bound(self, guarantee: Floats | None = None) -> Floats:
        """What no policy costs less than, of the shape of `guarantee` (n,); inf where on demand takes longer.

        Spot hours are at most those that the market is up; every hour of work is paid, and one start.
        """
        columns, table = self.candidates.columns, self.table
        guarantee = self.guarantee if guarantee is None else guarantee
        up, share = columns.mean_up_hours[table.offer], columns.availability[table.offer]
        gang = node_group_market(up, share, self.nodes, self.candidates.run_hours.gang)
        on_spot = np.minimum(self.work, gang.availability * guarantee)
        hours = self.spot * (on_spot + self.hours.restart) + self.on_demand * (self.work - on_spot)
        least = self.common + self.worth + hours + self.standing * (self.work + self.hours.restart)
        return np.where(guarantee > self.work + self.hours.restart, least, np.inf)

    def guarantee_by(self, latest_hours: Floats | float) -> Floats:
        """Hours (.., n) that a policy may take so that the run ends by then at the confidence."""
        return np.asarray((latest_hours - self.late_beside) / (self.hours.late * self.hours.stretch))

    def value(self, row: int, point: CurvePoint) -> float:
        """What the search minimises: dollars, penalties and the worth of waiting."""
        return float(self.common[row] + self.worth[row] + point.usd)

    def late_value(self, row: int, point: CurvePoint) -> float:
        """No less than what the choice costs at the asked confidence, penalties in."""
        usd = float(self.common[row]) + point.usd
        return usd * float(self.hours.late[row] * self.hours.stretch[row]) + float(self.worth[row])

    @cached_property
    def sizes(self) -> Floats:
        """What never makes a policy on like machines better (n, 9): more of any of these."""
        columns = (
            self.work,
            self.hours.restart,
            self.stalls,
            self.common + self.worth,
            self.spot,
            self.on_demand,
            self.standing,
            self.hours.late * self.hours.stretch,
            self.late_beside,
        )
        return np.stack([np.asarray(one, dtype=float) for one in columns], axis=1)

    def kind(self, row: int) -> tuple[object, ...]:
        """Rows of one kind rent like machines at one provider, on markets that come and go alike."""
        place = int(self.table.offer[row])
        offer, one = self.market.offers[place], self.candidates.spot[place]
        # Where jobs share limits, two offers may be stocked apart.
        where: object = place if self.aim.shared else (offer.provider, offer.gpu, offer.spot, offer.notice_seconds)
        return where, int(self.table.gpus[row]), int(self.nodes[row]), one.mean_up_hours, one.availability

    @property
    def unlimited(self) -> Flags:
        """Offers that no stock, quota or hours paid for limit."""
        free = [one.stock is None and one.committed_hours is None for one in self.market.offers]
        open_ = [one.provider not in self.aim.quota for one in self.market.offers]
        return np.asarray(np.asarray(free) & np.asarray(open_), dtype=bool)

    @cached_property
    def stalls(self) -> Floats:
        """Hours (n,) per checkpoint."""
        return np.asarray(
            self.candidates.run_hours.stall_seconds[self.candidates.configuration[self.rows]] / HOUR, dtype=float
        )

    def run_of(self, row: int) -> tuple[SpotRun, SpotStates]:
        """The run of a row and the market of its machines, all of the gang together."""
        place, nodes = int(self.table.offer[row]), int(self.nodes[row])
        offer = self.market.offers[place]
        key = (place, nodes)
        if key not in self.states:
            self.states[key] = market_states(self.candidates, place, offer, nodes, self.library)
        states = self.states[key]
        way = int(self.candidates.configuration[self.rows[row]])
        stall = float(self.stalls[row])
        share = self.candidates.run_hours.gang.interval_share_of_young
        warned = last_checkpoint_fits(offer.notice_seconds, write_seconds(self.candidates, way, nodes))
        return (
            SpotRun(
                work_hours=float(self.work[row]),
                restart_hours=float(self.hours.restart[row]),
                stall_hours=stall,
                interval_hours=checkpoint_interval(stall, states, share, warned),
                spot_usd_per_hour=float(self.spot[row]),
                on_demand_usd_per_hour=float(self.on_demand[row]),
                standing_usd_per_hour=float(self.standing[row]),
                last_checkpoint=warned,
            ),
            states,
        )

    def find_choices(self, which: Sequence[int]) -> list[tuple[int, SpotChoice]]:
        """The rows whose market has a point within the bounds on the share, with the cheapest."""
        made = [(row, *self.run_of(row)) for row in which]
        asked = [(run, states, float(self.guarantee[row])) for row, run, states in made]
        curves = self.candidates.curves
        # Who may do little on spot finds that little where time is short.
        points = curves.latest_points(asked) if self.aim.high >= 1 else [curves.points(*one) for one in asked]
        found = []
        for (row, run, states), several in zip(made, points, strict=True):
            best = min(filter(self._allowed, several), key=lambda point: (point.usd, point.hours), default=None)
            if best is not None:
                found.append((row, SpotChoice(run, states, best)))
        return found

    def whole_curves(self, which: Sequence[int]) -> list[tuple[int, list[SpotChoice]]]:
        """The rows with every point of their curves that is cheaper than all faster ones."""
        found = []
        for row in which:
            run, states = self.run_of(row)
            points: list[SpotChoice] = []
            least = math.inf
            for point in self.candidates.curves.points(run, states, float(self.guarantee[row])):
                if self._allowed(point) and point.usd < least:
                    least = point.usd
                    points.append(SpotChoice(run, states, point))
            if points:
                found.append((row, points))
        return found

    def _allowed(self, point: CurvePoint) -> bool:
        """Whether spot is used at all, and within the bounds on its share."""
        return point.spot_hours > 0 and self.aim.low - 1e-9 <= point.spot_share <= self.aim.high + 1e-9

    def as_rows(self, which: Integers, choices: Sequence[SpotChoice]) -> CandidateTable:
        """Rows of the table at the points: whatever share a mix takes, hours and dollars are those of the point."""
        points = [one.point for one in choices]
        finish, guaranteed, usd, share = (
            np.asarray([getattr(one, name) for one in points])
            for name in ("finish_hours", "hours", "usd", "spot_share")
        )
        h, storage = self.hours.rows(which), self.storage[which]
        compute = usd - self.standing[which] * finish
        once = h.once - h.start
        beside = self.common[which] - self.table.fixed_usd[which]
        late_aside = np.asarray([one.late_usd for one in self.candidates.placements])
        late_aside = late_aside[self.candidates.placement[self.rows[which]]] * (beside > 0)
        late_usd = (self.on_demand[which] * once + compute * h.stretch) * h.late
        late_usd += storage * (once + finish * h.stretch) * h.late + late_aside * h.late
        late_hours = self.late_beside[which] + guaranteed * h.stretch * h.late

        def both(values: Floats) -> Floats:
            return np.repeat(np.asarray(values, dtype=float)[:, None], 2, axis=1)

        rows = self.table.rows(which)
        return replace(
            rows,
            run_h=both(self.beside[which] + finish - rows.start_h),
            late_h=both(late_hours - rows.late_start_h),
            run_usd=both(beside + compute + storage * finish),
            late_usd=both(late_usd),
            share_low=share,
            share_high=share,
        )


def storage_usd_per_hour(candidates: JobCandidates, rows: Integers) -> Floats:
    """Dollars (n,) an hour of the disks of one gang: those of its machines, and the checkpoints that stay."""
    table, columns = candidates.table.rows(rows), candidates.columns
    kept_gb = np.zeros(len(candidates.recipes))  # services keep nothing that we know of
    kept_gb[: len(candidates.run_hours.kept_gb)] = candidates.run_hours.kept_gb
    kept = kept_gb[table.recipe]
    disk = columns.disk_gb[table.offer] + candidates.hours.raw_gb[rows]
    nodes = table.instances // table.node_groups
    return np.asarray(columns.storage_usd_per_gb_hour[table.offer] * (disk * nodes + kept), dtype=float)


def market_states(candidates: JobCandidates, place: int, offer: Offer, nodes: int, library: Library) -> SpotStates:
    """How `nodes` machines of an offer come and go together: as told by age, else means in the shape of records."""
    if offer.spot is not None and offer.spot.instances == nodes and (told := group_states(offer.spot)) is not None:
        return told
    one = candidates.spot[place]
    gang = node_group_market(one.mean_up_hours, one.availability, nodes, candidates.run_hours.gang)
    return shaped(float(gang.mean_up), float(gang.mean_outage), DurationShape.of(calibration_values(library, "spot")))


def write_seconds(candidates: JobCandidates, way: int, nodes: int) -> float:
    """Seconds to write a checkpoint of a way to storage that outlives the machines."""
    running, job = candidates.run_hours, candidates.job
    stored = float(running.saved_bytes[way])
    return float(checkpoint_seconds(stored, nodes, job.storage_gb_per_second * GB, math.inf, running.stages))


__all__ = ["SearchTarget", "SpotCandidates", "SpotChoice", "market_states", "policy_rows", "storage_usd_per_hour"]
