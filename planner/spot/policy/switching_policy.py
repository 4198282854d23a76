"""The best switching policy of one run on one market: found by backward induction, followed by table lookup."""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from planner.records import record
from planner.spot.policy.backward_induction import BackwardInduction, FollowedInduction, TimeSlice
from planner.spot.policy.deadline_guard import DeadlineGuard
from planner.spot.policy.discretisation import CurveRequest, Fineness, Grid, build_chain_for, check_run, grid_of
from planner.spot.policy.markov_chain import DOLLARS
from planner.spot.policy.run import ROUNDING_HOURS, Action, SpotRun

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from planner.arrays import Flags, Floats, Integers
    from planner.spot.market.states import SpotStates
    from planner.spot.policy.markov_chain import MarkovChain

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


@record(frozen=True)
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


@record(frozen=True)
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
    found: list[list[tuple[float, list[Row]]]] = [[] for _ in requests]
    if grid:
        steps, chain = grid.ticks, build_chain_for([request.part for request in requests], grid)
        induction = FollowedInduction if zones else BackwardInduction
        backward = induction(chain, counts=DOLLARS)  # actions are compared in dollars alone
        every = max(1, steps // MAX_TABLE_ROWS)
        for number in range(1, steps + 1):
            moment = backward.step()
            if (steps - number) % every == 0:  # the last row is the whole time
                for table, left, rows in zip(found, moment.hours_left, _rows(moment, chain, len(keys)), strict=True):
                    table.append((float(f"{left:.6g}"), rows))
    else:
        found = [[(one.guaranteed_hours, [((-np.inf, Action.ON_DEMAND),)] * len(keys))] for one in requests]
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
        for request, table in zip(requests, found, strict=True)
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
    first = next((age for age, one in zip(up.begins, takes, strict=True) if one[0]), None)
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
    found: list[list[list[tuple[float, int]]]] = [
        [[(-math.inf, action)] for action in run] for run in actions[..., 0].tolist()
    ]
    run, row, at = np.nonzero(changes)
    middles = (slack[run, at] + slack[run, at + 1]) / 2
    places = zip(run.tolist(), row.tolist(), middles.tolist(), actions[run, row, at + 1].tolist(), strict=True)
    for of_run, of_row, middle, action in places:
        found[of_run][of_row].append((round(middle, TABLE_DIGITS), action))
    return [[tuple(one) for one in rows] for rows in found]
