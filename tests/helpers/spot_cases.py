"""Small runs, paths and a replay by hand, for tests of spot markets."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from hypothesis import strategies as st

from planner.arrays import Flags, Floats, Integers
from planner.spot.markov_chain import CurveRequest, Grid, check_run
from planner.spot.policy_cache import Curve, count_tables, curve_at
from planner.spot.run import Action, Policy, SpotRun
from planner.spot.states import SpotStates

TICK = 0.25
"""Hours."""


@dataclass
class Script:
    """A policy that asks for what is written, tick after tick; the last word holds for the rest."""

    actions: list[int]
    name: str = "script"
    asked: int = field(default=0)

    def decide(
        self, work_left: Floats, hours_left: Floats, up: Flags, age_hours: Floats, running: Integers
    ) -> Integers:
        action = self.actions[min(self.asked, len(self.actions) - 1)]
        self.asked += 1
        return np.where((action == Action.SPOT) & ~up, Action.WAIT, action)


@dataclass(frozen=True)
class Coin:
    """A policy without a plan: what it asks for follows from the work left by a hash, never the same for long."""

    name: str = "coin"

    def decide(
        self, work_left: Floats, hours_left: Floats, up: Flags, age_hours: Floats, running: Integers
    ) -> Integers:
        drawn = np.floor(np.abs(np.sin(work_left * 12.9898 + hours_left * 3.1) * 43758.5453)).astype(np.int64) % 7
        fresh = np.where(drawn < 3, Action.SPOT, np.where(drawn < 5, Action.ON_DEMAND, Action.WAIT))
        asked = np.where(np.floor(hours_left / TICK).astype(np.int64) % 3 == 0, fresh, running)
        return np.where((asked == Action.SPOT) & ~up, Action.WAIT, asked)


def runs() -> st.SearchStrategy[SpotRun]:
    """Runs of 1 to 6 h with round and crooked figures; no stalls where checkpoints are written all the time."""
    return st.builds(
        SpotRun,
        work_hours=st.sampled_from([1.0, 2.5, 4.0, 5.99]),
        restart_hours=st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.6]),
        stall_hours=st.sampled_from([0.0, 0.01, 0.05, 0.25]),
        interval_hours=st.sampled_from([0.0, 0.1, 0.25, 0.75, 2.0, math.inf]),
        spot_usd_per_hour=st.just(1.0),
        on_demand_usd_per_hour=st.sampled_from([1.5, 3.0]),
        standing_usd_per_hour=st.sampled_from([0.0, 0.1]),
        last_checkpoint=st.booleans(),
        write_hours=st.sampled_from([0.0, 0.04, 0.1, 0.3]),
    ).filter(lambda run: run.interval_hours >= run.write_hours and (run.interval_hours > 0 or run.stall_hours == 0))


@st.composite
def paths(draw: st.DrawFn, ticks: int = 60) -> Flags:
    """Three paths of a market whose states last one tick to a few hours; shape (3, ticks)."""
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    turns = rng.random((3, ticks)) < draw(st.sampled_from([0.05, 0.2, 0.6]))
    return np.logical_xor.accumulate(turns, axis=1)


def by_hand(policy: Policy, run: SpotRun, up: Flags, deadline: float) -> dict[str, float]:
    """One run, `up` of shape (ticks,), event after event: restart, work, checkpoint, and what stops each."""
    now, left, unsaved, running, restart, stall = 0.0, run.work_hours, 0.0, Action.WAIT, 0.0, 0.0
    busy, done = 0.0, 0.0  # hours and work on spot since the last restart
    taken: list[tuple[float, float]] = []  # checkpoints since then: when, and the work that each holds
    interval = run.interval_hours or math.inf
    age, spot, demand, demand_work, interruptions = 0.0, 0.0, 0.0, 0.0, 0
    for number, there in enumerate(up):
        if now >= deadline - 1e-9 or left <= 1e-9:
            break
        age = age + TICK if number and there == up[number - 1] else 0.0
        if running == Action.SPOT and not there:
            interruptions, running = interruptions + 1, Action.WAIT
            safe = max((work for at, work in taken if at + run.write_hours <= busy + 1e-9), default=0.0)
            left += 0.0 if run.last_checkpoint or run.interval_hours == 0 else done - safe
        one = [np.array([each]) for each in (left, deadline - now, there, age, running)]
        action = int(policy.decide(*one)[0])
        if action != running:
            running, restart, unsaved, stall = action, run.restart_hours if action else 0.0, 0.0, 0.0
            busy, done, taken = 0.0, 0.0, []
        end = min(now + TICK, deadline)
        while now < end - 1e-9 and left > 1e-9:
            if running == Action.WAIT:
                now = end
                continue
            if restart > 1e-9:
                step = min(restart, end - now)
                restart -= step
            elif stall > 1e-9:
                step = min(stall, end - now)
                stall -= step
                busy += step
                if stall <= 1e-9:
                    unsaved = 0.0
                    taken.append((busy, done))
            else:
                step = min(left, end - now, interval - unsaved if running == Action.SPOT else math.inf)
                left -= step
                if running == Action.SPOT:
                    unsaved, busy, done = unsaved + step, busy + step, done + step
                    if unsaved >= interval - 1e-9:
                        stall = run.stall_hours
                        if stall <= 0:
                            unsaved = 0.0
                            taken.append((busy, done))
                else:
                    demand_work += step
            now += step
            if running == Action.SPOT:
                spot += step
            else:
                demand += step
    if left > 1e-9:
        rest = left + (restart if running == Action.ON_DEMAND else run.restart_hours)
        now, demand, demand_work = now + rest, demand + rest, demand_work + left
    usd = spot * run.spot_usd_per_hour + demand * run.on_demand_usd_per_hour + now * run.standing_usd_per_hour
    return {
        "usd": usd,
        "hours": now,
        "spot_hours": spot,
        "on_demand_hours": demand,
        "interruptions": interruptions,
        "wasted_hours": spot + demand - run.work_hours,
        "waiting_hours": now - spot - demand,
        "spot_share": 1 - demand_work / run.work_hours,
        "met": now <= deadline + 1e-6,
    }


def cost_curve(run: SpotRun, states: SpotStates, longest_hours: float, ticks: int = 200, points: int = 96) -> Curve:
    """The curve of one run up to one time on a grid of the test's choice, a point per tick."""
    check_run(run, longest_hours)
    request = CurveRequest(run, states, longest_hours)
    (table,) = count_tables([request], Grid(max(ticks, math.ceil(request.part.resolving_ticks)), points))
    return curve_at(table, table.hours())
