"""The best switching policy of one run on one market, and the curves of cost against time that it gives."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from planner.arrays import Flags, Floats, Integers
from planner.spot.backward_induction import BackwardInduction, FollowedInduction, StartTable, TimeSlice
from planner.spot.markov_chain import (
    DOLLARS,
    CurveRequest,
    Fineness,
    Grid,
    MarkovChain,
    build_chain_for,
    check_run,
    grid_of,
)
from planner.spot.run import ROUNDING_HOURS, Action, DeadlineGuard, SpotRun
from planner.spot.states import SpotStates

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


POLICY_TICKS = 200
"""Ticks of the pass that finds a policy; more are taken where the market changes faster."""
MAX_TABLE_ROWS = 64
"""Times left for which a table has rows, at most."""
TABLE_DIGITS = 4
"""Decimals of the hours in a table, so that a table that is written and read again is the same policy."""

RULE_MOMENTS = 256
"""Moments of the time that a policy may spend waiting at which its rule is read."""

Row = tuple[tuple[float, int], ...]
"""Actions by rising slack: (least slack in hours, action); the first from -inf."""


@dataclass(frozen=True)
class SwitchingPolicy:
    """A table of actions by market state, what runs, time left and slack; a `Policy`.

    Slack is time left minus work left. The row nearest to the time left is used; beyond the last row, slack is scaled
    in proportion. The guard overrules the table.
    """

    guard: DeadlineGuard
    guaranteed_hours: float
    work_hours: float
    up_begins: tuple[float, ...]  # hours: age bands
    down_begins: tuple[float, ...]
    hours_left: tuple[float, ...]  # of the rows, evenly spaced from the first on
    rows: dict[tuple[bool, int, int], tuple[Row, ...]]  # (market up, age band, what runs): a row per time left
    name: str = "planned"

    @cached_property
    def _arrays(self) -> tuple[int, Floats, Integers]:
        """Return the number of bands, slack thresholds and actions; arrays (states, rows, thresholds or actions)."""
        bands = max(len(self.up_begins), len(self.down_begins))
        most = max(len(row) for rows in self.rows.values() for row in rows)
        thresholds = np.full((2 * bands * 3, len(self.hours_left), most), np.inf)
        actions = np.full(thresholds.shape, Action.ON_DEMAND)
        for (up, band, running), rows in self.rows.items():
            key = (int(up) * bands + band) * 3 + running
            for number, row in enumerate(rows):
                thresholds[key, number, : len(row)] = [slack for slack, _ in row]
                actions[key, number, : len(row)] = [action for _, action in row]
        return bands, thresholds[:, :, 1:], actions

    def decide(
        self, work_left: Floats, hours_left: Floats, up: Flags, age_hours: Floats, running: Integers
    ) -> Integers:
        """Return the `Action` of each run; SPOT only where `up`; arrays of shape (runs,)."""
        bands, thresholds, actions = self._arrays
        slack = hours_left - work_left
        band = np.where(up, _band(self.up_begins, age_hours), _band(self.down_begins, age_hours))
        key = (up * bands + band) * 3 + running
        first, last = self.hours_left[0], self.hours_left[-1]
        step = (last - first) / max(1, len(self.hours_left) - 1)
        row = np.clip(np.rint((hours_left - first) / (step or 1.0)), 0, len(self.hours_left) - 1).astype(np.int64)
        scaled = slack * np.minimum(1.0, last / np.maximum(hours_left, last))
        passed = np.zeros(slack.shape, np.int64)
        for column in range(thresholds.shape[2]):
            passed += scaled >= thresholds[key, row, column]
        return self.guard.enforce(actions[key, row, passed], slack, running)


@dataclass(frozen=True)
class WaitingRule:
    """When a run that has nothing rented takes a spot machine, while it has made no progress."""

    take_after_up_hours: float | None  # age of the market that it waits for in the beginning; None: it takes none
    take_at_once_from_hours: float | None  # from when on it takes a machine of any age; None: never before on demand


def best_policy(
    run: SpotRun,
    states: SpotStates,
    guaranteed_hours: float,
    tick_hours: float = 1 / 12,
    ticks: int = POLICY_TICKS,
    only_starts: bool = False,
) -> SwitchingPolicy:
    """Return the policy of least mean cost among those that end within `guaranteed_hours` on every path.

    `tick_hours`: how often it will be asked, besides whenever machines are taken; the guard reserves that much.
    The grid has `ticks`, no shorter than that, more where `grid_of` says so. `only_starts`: the table has the rows
    alone that say when a run with nothing rented takes a machine of a market that is up. ValueError as `check_run`
    raises it.
    """
    check_run(run, guaranteed_hours)
    request = CurveRequest(run, states, guaranteed_hours)
    return policies_of_pass([request], pass_of(request, ticks, tick_hours), tick_hours, only_starts)[0]


class PolicyPass(NamedTuple):
    """What runs have in common whose policies one pass finds."""

    grid: Grid | None  # none where the time allows on demand only
    bands: tuple[int, int]  # of the up-time and of outages
    zones: bool


def pass_of(request: CurveRequest, ticks: int = POLICY_TICKS, tick_hours: float = 0.0) -> PolicyPass:
    """Return the pass that finds the policy of a request that is asked every `tick_hours`, 0 for at any moment.

    Its grid is that of `ticks` (`grid_of`), with fewer where the policy is asked less often. A tick of waiting is
    longer than the table says where it is asked less often: slack of 0.67 h that lasts for another look in 0.01 h, and
    then a start that needs 0.6 h, does not last for one in 0.05 h and another.
    """
    part, states = request.part, request.states
    has_slack = part.slack_hours > part.run.restart_hours + 1e-6 * request.guaranteed_hours
    asked = math.floor(part.guaranteed_hours / tick_hours + ROUNDING_HOURS) if tick_hours > 0 else math.inf
    grid = grid_of(part, Fineness(ticks, ticks), max(asked, 1)) if has_slack else None
    return PolicyPass(grid, (len(states.up.rates), len(states.down.rates)), bool(states.instant))


def policies_of_pass(
    requests: Sequence[CurveRequest], alike: PolicyPass, tick_hours: float = 1 / 12, only_starts: bool = False
) -> list[SwitchingPolicy]:
    """Return the policies of requests that have one pass (`pass_of`) in common, as `best_policy` says of one."""
    grid, (ups, downs), zones = alike
    bands = [*((True, band) for band in range(ups)), *((False, band) for band in range(downs))]
    keys = [(up, band, running) for running in (Action.WAIT, Action.ON_DEMAND) for up, band in bands]
    keys += [(True, band, Action.SPOT) for band in range(ups)]
    keys = keys[:ups] if only_starts else keys
    tables: list[list[tuple[float, list[Row]]]] = [[] for _ in requests]
    if grid:
        steps, chain = grid.ticks, build_chain_for([request.part for request in requests], grid)
        induction = FollowedInduction if zones else BackwardInduction
        backward = induction(chain, counts=DOLLARS)  # actions are compared in dollars alone
        every = max(1, steps // MAX_TABLE_ROWS)
        for number in range(1, steps + 1):
            moment = backward.step()
            if (steps - number) % every == 0:  # the last row is the whole time
                for table, left, rows in zip(tables, moment.hours_left, _rows(moment, chain, len(keys)), strict=True):
                    table.append((float(f"{left:.6g}"), rows))
    else:
        tables = [[(request.guaranteed_hours, [((-np.inf, Action.ON_DEMAND),)] * len(keys))] for request in requests]
    return [
        SwitchingPolicy(
            guard=DeadlineGuard.of(request.run, tick_hours),
            guaranteed_hours=request.guaranteed_hours,
            work_hours=request.run.work_hours,
            up_begins=request.states.up.begins,
            down_begins=request.states.down.begins,
            hours_left=tuple(hours for hours, _ in table),
            rows={key: tuple(rows[number] for _, rows in table) for number, key in enumerate(keys)},
        )
        for request, table in zip(requests, tables, strict=True)
    ]


def waiting_rule(request: CurveRequest, policy: SwitchingPolicy) -> WaitingRule:
    """Return when the policy takes a spot machine while nothing is rented and nothing is done.

    The policy may be that of a longer time: what is best at some time left and slack depends on no more than these.
    """
    run, up = request.run, request.states.up
    latest = request.guaranteed_hours - run.work_hours - run.restart_hours
    now = np.linspace(0.0, max(latest, 0.0), RULE_MOMENTS, endpoint=False)
    work, idle = np.full(now.size, run.work_hours), np.full(now.size, Action.WAIT)
    is_up = np.ones(now.size, dtype=bool)
    takes = [
        policy.decide(work, request.guaranteed_hours - now, is_up, np.full(now.size, age), idle) == Action.SPOT
        for age in up.begins
    ]
    first = next((age for age, take in zip(up.begins, takes, strict=True) if take[0]), None)
    at_once = np.flatnonzero(takes[0])
    return WaitingRule(
        take_after_up_hours=None if first is None else float(first),
        take_at_once_from_hours=float(now[at_once[0]]) if at_once.size else None,
    )


def _band(begins: Iterable[float], age_hours: Floats) -> Integers:
    """Return the band of each age (n,): six times five minutes are half an hour, whatever their sum in floats."""
    return np.searchsorted(np.asarray(list(begins)[1:]), age_hours + ROUNDING_HOURS, side="right")


def _rows(moment: TimeSlice, chain: MarkovChain, count: int) -> list[list[Row]]:
    """Return the actions of each run at a time left, by slack.

    Rows of the first `count` states, in the order idle, on demand, on spot; an action changes halfway between two
    points of the slack axis.
    """
    actions, slack = moment.idle, chain.slack
    if count > actions.shape[1]:
        demand = np.where(moment.leaves_demand, actions, Action.ON_DEMAND)
        spot = np.where(moment.leaves_spot, actions[:, : chain.ups], Action.SPOT)
        actions = np.concatenate([actions, demand, spot], axis=1)
    actions = actions[:, :count]
    axis = slack[:, : actions.shape[2]]
    alive = axis < moment.hours_left[:, None] - ROUNDING_HOURS
    changes = (actions[..., 1:] != actions[..., :-1]) & alive[:, None, 1:]
    rows_of_runs: list[list[list[tuple[float, int]]]] = [
        [[(-math.inf, action)] for action in run] for run in actions[..., 0].tolist()
    ]
    run, row, at = np.nonzero(changes)
    middles = (slack[run, at] + slack[run, at + 1]) / 2
    places = zip(run.tolist(), row.tolist(), middles.tolist(), actions[run, row, at + 1].tolist(), strict=True)
    for of_run, of_row, middle, action in places:
        rows_of_runs[of_run][of_row].append((round(middle, TABLE_DIGITS), action))
    return [[tuple(switches) for switches in rows] for rows in rows_of_runs]


# Cost against time: the least of several curves as steps, and one curve as straight pieces.
#
# Within `CURVE_ERROR` each time between the ends of a piece costs what the line between them says. Between two samples,
# the ticks and the points of the slack axis, a curve is quadratic, because `StartTable` interpolates in both. A
# quadratic is farthest from its chord in the middle, so one more value tells how finely a stretch must be divided. The
# samples are then thinned as by Douglas and Peucker (1973): a line is divided where a sample lies farthest from it.


CURVE_ERROR = 1e-3
"""Relative: how far a piece may lie from its curve, below what the grid of the curve errs by."""
JUST_AFTER = 1 + 2e-6
"""A curve begins right after on demand alone, or after the last time that a shorter horizon answers."""


class CurvePiece(NamedTuple):
    """A part of a curve on which the dollars fall in proportion to the guaranteed hours; hours and dollars (2,)."""

    hours: tuple[float, float]
    usd: tuple[float, float]

    def divided(self, saving: float) -> list[float]:
        """Return hours from end to end, evenly, of which each costs at most that share less than the one before."""
        steps = max(1, math.ceil(math.log(self.usd[0] / self.usd[1]) / math.log1p(saving)))
        return list(map(float, np.linspace(*self.hours, steps + 1)))


class LeastCost:
    """The least cost known by each time: falls in steps."""

    def __init__(self, hours: Floats, usd: Floats) -> None:
        self.hours, self.usd = hours, usd
        self.add(np.zeros(0), np.zeros(0))

    def add(self, hours: Floats, usd: Floats) -> None:
        """Lower the cost to `usd` (k,) from `hours` (k,) on."""
        every, cost = np.concatenate([self.hours, hours]), np.concatenate([self.usd, usd])
        order = np.lexsort((cost, every))
        least = np.minimum.accumulate(cost[order])
        falls = np.isfinite(least) & (np.diff(least, prepend=np.inf) < 0)
        self.hours, self.usd = every[order][falls], least[falls]

    def by(self, hours: Floats) -> Floats:
        """Return the least cost by `hours` (k,); inf before the first."""
        place = np.searchsorted(self.hours, hours, side="right")
        return np.concatenate([[np.inf], self.usd])[place]

    def ends(self, latest_hours: float, most: int) -> tuple[Floats, Floats]:
        """Return the ends of the steps in hours and their costs, the time before the first step included.

        Neighbours are joined where there are more than `most`: to the end of the last, at the cost of the first.
        """
        ends, usd = np.append(self.hours, latest_hours), np.concatenate([[np.inf], self.usd])
        last = len(usd) - 1
        first = np.unique(np.append(0, np.linspace(min(1, last), last, most).astype(np.int64)))
        return ends[np.append(first[1:] - 1, last)], usd[first]


def straight_pieces(table: StartTable, begin: float, end: float) -> list[CurvePiece]:
    """Return the falling parts of the curve of a table from `begin` to `end` hours, by rising hours.

    A time that costs more than an earlier one is none of a piece: the earlier policy keeps its guarantee, too.
    """
    hours = _sample_hours(table, begin * JUST_AFTER, end)
    usd = np.minimum.accumulate(np.minimum(table.at(hours), table.request.run.on_demand_usd))
    falls = np.diff(usd) < 0
    starts = np.flatnonzero(falls & ~np.append(False, falls[:-1]))
    ends = np.flatnonzero(falls & ~np.append(falls[1:], False)) + 1
    pieces = []
    for first, last in zip(starts.tolist(), ends.tolist(), strict=True):
        kept = [first + place for place in _thinned(hours[first : last + 1], usd[first : last + 1])]
        for left, right in itertools.pairwise(kept):
            along, costs = (values[[left, right]].tolist() for values in (hours, usd))
            pieces.append(CurvePiece(tuple(along), tuple(costs)))
    return pieces


def _sample_hours(table: StartTable, begin: float, end: float) -> Floats:
    """Return times (k,) from `begin` to `end` between which the curve is as good as straight."""
    parts, work = table.request.parts, table.request.part.run.work_hours
    ticks = np.arange(1, len(table.values) + 1) * table.tick
    hours = np.sort(np.concatenate([ticks, work + table.slack])) * parts
    hours = np.concatenate([[begin], hours[(hours > begin * JUST_AFTER) & (hours < end / JUST_AFTER)], [end]])
    usd, middle = table.at(hours), table.at((hours[:-1] + hours[1:]) / 2)
    bend = np.abs((usd[:-1] + usd[1:]) / 2 / middle - 1)
    steps = np.maximum(np.ceil(np.sqrt(bend / (CURVE_ERROR / 2))), 1).astype(np.int64)
    stretch = np.repeat(np.arange(len(steps)), steps)
    part = (np.arange(len(stretch)) - np.repeat(np.cumsum(steps) - steps, steps)) / steps[stretch]
    return np.append(hours[stretch] + part * np.diff(hours)[stretch], end)


def _thinned(hours: Floats, usd: Floats) -> list[int]:
    """Return the samples that are kept, the ends among them: all others lie on the lines between these."""
    kept, waiting = [0], [len(hours) - 1]
    while waiting:
        first, last = kept[-1], waiting[-1]
        line = np.interp(hours[first + 1 : last], hours[[first, last]], usd[[first, last]])
        away = np.abs(line / usd[first + 1 : last] - 1)
        if last - first > 1 and away.max() > CURVE_ERROR / 2:
            waiting.append(first + 1 + int(np.argmax(away)))
        else:
            kept.append(waiting.pop())
    return kept
