"""Policies that wait less for a little more money: what they cost, and how long they idle while machines are there."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from benchmarks.spot.judge import SLACKS, Windows, deadline_of, job
from benchmarks.spot.zones import SEED, TICK_HOURS, WORK_HOURS, zone
from planner.arrays import Flags, Floats, Integers
from planner.loading.scenario_file import read_scenario
from planner.scenario.scenario import SolveOptions
from planner.solving.chosen import ChosenCandidate
from planner.solving.optimise_choice import optimise
from planner.solving.prepare import prepare
from planner.spot.drawn_runs import least_wait
from planner.spot.policy_cache import PolicyCache
from planner.spot.replayed_runs import replay
from planner.spot.run import Action, Policy, SpotRun
from planner.spot.states import SpotStates, sample_states
from planner.spot.switching_policy import best_policy

MOST_MORE_PERCENT, LEAST_FEWER_PERCENT = 1.5, 35.0
"""Targets: dollars above the policy of least dollars, and hours waited while the market is up below its hours."""
SHIPPED, SHIPPED_MARKETS = "spot-heavy", 2000
FIGURES = ("usd", "waiting_hours", "idle_while_up_hours")


class _Watched:
    """A policy that counts how often it waits although spot machines are there."""

    def __init__(self, policy: Policy) -> None:
        self.policy, self.waits = policy, 0

    def decide(
        self, work_left: Floats, hours_left: Floats, up: Flags, age_hours: Floats, running: Integers
    ) -> Integers:
        """Return the action of the policy."""
        action = self.policy.decide(work_left, hours_left, up, age_hours, running)
        self.waits += int(np.sum((action == Action.WAIT) & up & (work_left > 0)))
        return action


def replayed(run: SpotRun, states: SpotStates, hours: float, windows: Windows) -> tuple[Floats, Floats]:
    """Return `FIGURES` per window of the policy of least dollars, and of the one that waits least for nearly as many.

    The dollars of both are those of the bill.
    """
    policies, found = PolicyCache(), []
    (best,) = policies.best_points([(run, states, hours)])
    less = least_wait(policies, run, states, best)
    for priced in (run, less[0] if less else run):
        watched = _Watched(best_policy(priced, states, hours, tick_hours=windows.tick_hours))
        ticks = round(hours / windows.tick_hours + 0.5)
        result = replay(watched, run, windows.up[:, :ticks], windows.tick_hours, hours, age_hours=windows.age_hours)
        idle = watched.waits * windows.tick_hours / len(windows.up)
        found.append(np.array([result.usd.mean(), result.waiting_hours.mean(), idle]))
    return found[0], found[1]


def shipped_windows() -> tuple[SpotRun, SpotStates, float, Windows]:
    """Return the run of the shipped scenario on spot, its market, its guaranteed hours, and drawn paths of it."""
    prepared = prepare(read_scenario(SHIPPED))
    solved = optimise(prepared, SolveOptions())
    row = int(solved.owner[solved.rows[0]])
    chosen = ChosenCandidate.of(prepared.candidates[0], prepared.screened[0], prepared.market, row, solved.shares[0])
    if chosen.spot is None:
        raise ValueError(f"the plan of {SHIPPED} follows no policy on spot")
    hours, states = chosen.spot.point.hours, chosen.spot.states
    rng = np.random.default_rng(SEED)
    paths = sample_states(states, SHIPPED_MARKETS, round(hours / TICK_HOURS + 0.5), TICK_HOURS, rng)
    return (
        chosen.spot.run,
        states,
        hours,
        Windows(SHIPPED, states, cast("Flags", paths.up), paths.age_hours, TICK_HOURS),
    )


def waiting_rows(zones: int) -> list[dict[str, Any]]:
    """Return a row for the shipped scenario and one per deadline of the published V100 zones."""
    run, states, hours, windows = shipped_windows()
    rows = [waiting_row(f"{SHIPPED}, {SHIPPED_MARKETS:,} markets", [replayed(run, states, hours, windows)])]
    markets = [zone("one V100", number) for number in range(zones)]
    for slack in SLACKS if zones else ():
        each = [
            replayed(job(WORK_HOURS), one.states, deadline_of(job(WORK_HOURS), slack, one.tick_hours), one)
            for one in markets
        ]
        rows.append(waiting_row(f"{zones} zones, deadline {slack:g} x work", each))
    return rows


def waiting_row(name: str, pairs: list[tuple[Floats, Floats]]) -> dict[str, Any]:
    """Return the mean figures of both policies over some markets, and their differences in percent."""
    strict, less = (np.mean([pair[side] for pair in pairs], axis=0).tolist() for side in (0, 1))
    row: dict[str, Any] = {
        "name": name,
        "least_dollars": dict(zip(FIGURES, strict, strict=True)),
        "less_waiting": dict(zip(FIGURES, less, strict=True)),
        "more_usd_percent": 100 * (less[0] / strict[0] - 1),
    }
    idle = strict[2]
    row["fewer_idle_hours_percent"] = 100 * (1 - less[2] / idle) if idle > 0 else None
    return row


def waiting_targets(rows: list[dict[str, Any]]) -> list[tuple[str, bool]]:
    """Return the targets and whether they are met; a policy that never idles while the market is up has no second."""
    lines = []
    for row in rows:
        more, fewer = row["more_usd_percent"], row["fewer_idle_hours_percent"]
        text = f"{row['name']}: {more:+.2f} % dollars, at most {MOST_MORE_PERCENT:g} %"
        lines.append((text, more <= MOST_MORE_PERCENT))
        if fewer is not None:
            text = f"{row['name']}: {fewer:.0f} % fewer hours waited while the market is up, at least "
            lines.append((f"{text}{LEAST_FEWER_PERCENT:g} %", fewer >= LEAST_FEWER_PERCENT))
    return lines


def waiting_text(rows: list[dict[str, Any]]) -> list[str]:
    """Return a table: both policies by row."""
    lines = ["less waiting: dollars, hours waited, and of these while the market is up; least dollars -> less waiting"]
    for row in rows:
        cells = [f"{row['least_dollars'][name]:8.2f} -> {row['less_waiting'][name]:<8.2f}" for name in FIGURES]
        lines.append(f"{row['name']:<34}" + "".join(cells))
    return [*lines, ""]
