"""The best switching policy of one run on one market: found by the backward pass, followed by looking into a table."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from planner.spot.policy.backward_induction import BackwardInduction, TimeSlice
from planner.spot.policy.cost_curve import POINTS, TICKS, tick_count
from planner.spot.policy.deadline_guard import ROUNDING, DeadlineGuard
from planner.spot.policy.discretisation import CurveRequest, build_chain_for, check_run
from planner.spot.policy.run import ON_DEMAND, SPOT, WAIT, SpotRun

if TYPE_CHECKING:
    from collections.abc import Iterable

    from planner.arrays import Flags, Floats, Integers
    from planner.spot.market.states import SpotStates

ROWS = 64
"""Most times left that a table has rows for."""
DIGITS = 4
"""Hours in a table are rounded to this many places, so that what is written is what is followed."""

Row = tuple[tuple[float, int], ...]
"""What to do by rising slack: (slack in hours from which on, action); the first from -inf."""


@dataclass(frozen=True)
class SwitchingPolicy:
    """A table of what to do, by market state, what runs, time left and slack; a `Policy`.

    Slack is time left minus work left. The row that is nearest to the time left counts; beyond the last row, slack is
    measured in proportion. The guard comes before the table.
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
        """Number of bands, slack thresholds and actions; arrays of shape (states, rows, thresholds or actions)."""
        bands = max(len(self.up_begins), len(self.down_begins))
        most = max(len(row) for rows in self.rows.values() for row in rows)
        thresholds = np.full((2 * bands * 3, len(self.hours_left), most), np.inf)
        actions = np.full(thresholds.shape, ON_DEMAND)
        for (up, band, running), rows in self.rows.items():
            key = (int(up) * bands + band) * 3 + running
            for number, row in enumerate(rows):
                thresholds[key, number, : len(row)] = [slack for slack, _ in row]
                actions[key, number, : len(row)] = [action for _, action in row]
        return bands, thresholds[:, :, 1:], actions

    def decide(
        self, work_left: Floats, hours_left: Floats, up: Flags, age_hours: Floats, running: Integers
    ) -> Integers:
        """WAIT, SPOT (only where `up`) or ON_DEMAND; arrays of shape (runs,)."""
        bands, thresholds, actions = self._arrays
        slack = hours_left - work_left
        band = np.where(up, _band(self.up_begins, age_hours), _band(self.down_begins, age_hours))
        key = (up * bands + band) * 3 + running
        first, last = self.hours_left[0], self.hours_left[-1]
        step = (last - first) / max(1, len(self.hours_left) - 1)
        row = np.clip(np.rint((hours_left - first) / (step or 1.0)), 0, len(self.hours_left) - 1).astype(np.int64)
        shown = slack * np.minimum(1.0, last / np.maximum(hours_left, last))
        passed = np.zeros(slack.shape, np.int64)
        for column in range(thresholds.shape[2]):
            passed += shown >= thresholds[key, row, column]
        action = actions[key, row, passed]
        kept = np.where(action == SPOT, np.where(running == SPOT, self.guard.spot, self.guard.start_spot), 0.0)
        kept = np.where(action == WAIT, self.guard.wait, kept)
        barred = (action != ON_DEMAND) & (slack < kept - ROUNDING)
        return np.where(barred, ON_DEMAND, action)

    def latest_switch_hours(self, work_left: float) -> float:
        """Hours left at which on-demand machines must start at the latest while nothing runs."""
        return work_left + self.guard.wait


def best_policy(
    run: SpotRun,
    states: SpotStates,
    guaranteed_hours: float,
    tick_hours: float = 1 / 12,
    ticks: int = TICKS,
    points: int = POINTS,
) -> SwitchingPolicy:
    """The policy that costs least on average among those that end within `guaranteed_hours` on every path.

    `tick_hours`: how often it will be asked, besides whenever machines are taken; the guard keeps that much in hand.
    `ticks`, `points`: the grid as in `market_curve`. ValueError as there.
    """
    check_run(run, guaranteed_hours)
    part = CurveRequest(run, states, guaranteed_hours).part
    ups, downs = len(states.up.rates), len(states.down.rates)
    keys = [(True, band, WAIT) for band in range(ups)] + [(False, band, WAIT) for band in range(downs)]
    keys += [(True, band, ON_DEMAND) for band in range(ups)] + [(False, band, ON_DEMAND) for band in range(downs)]
    keys += [(True, band, SPOT) for band in range(ups)]
    found: list[tuple[float, list[Row]]] = []
    if part.slack_hours > run.restart_hours + 1e-6 * guaranteed_hours:
        steps = tick_count(part, ticks)
        chain = build_chain_for([part], steps, points)
        backward = BackwardInduction(chain)
        every = max(1, steps // ROWS)
        for number in range(1, steps + 1):
            moment = backward.step()
            if (steps - number) % every == 0:  # the last row is the whole time
                found.append((float(f"{moment.hours_left[0]:.6g}"), _rows(moment, chain.slack[0], ups)))
    else:
        found.append((guaranteed_hours, [((-np.inf, ON_DEMAND),)] * len(keys)))
    return SwitchingPolicy(
        guard=DeadlineGuard.of(run, tick_hours),
        guaranteed_hours=guaranteed_hours,
        work_hours=run.work_hours,
        up_begins=states.up.begins,
        down_begins=states.down.begins,
        hours_left=tuple(hours for hours, _ in found),
        rows={key: tuple(rows[number] for _, rows in found) for number, key in enumerate(keys)},
    )


def _band(begins: Iterable[float], age_hours: Floats) -> Integers:
    return np.searchsorted(np.asarray(list(begins)[1:]), age_hours, side="right")


def _rows(moment: TimeSlice, slack: Floats, ups: int) -> list[Row]:
    """What to do at one time left: a row per state, in the order idle, on demand, on spot."""
    idle = moment.idle[0]
    demand = np.where(moment.leaves_demand[0], idle, ON_DEMAND)
    spot = np.where(moment.leaves_spot[0], idle[:ups], SPOT)
    alive = max(1, int(np.count_nonzero(slack < moment.hours_left[0] - ROUNDING)))
    return [_row(actions[:alive], slack) for actions in (*idle, *demand, *spot)]


def _row(actions: Integers, slack: Floats) -> Row:
    """Where along the slack axis the action changes: half way between two points."""
    changes = np.flatnonzero(np.diff(actions)) + 1
    middles = [round(float(slack[at - 1] + slack[at]) / 2, DIGITS) for at in changes]
    return ((-np.inf, int(actions[0])), *zip(middles, (int(actions[at]) for at in changes), strict=True))
