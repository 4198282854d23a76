"""What replays run on: their settings, and market paths that are drawn or recorded."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np

from planner.analysis.market_fit_question import read_traces_of
from planner.arrays import Integers
from planner.errors import Fault, InputError, ScenarioError
from planner.records import record
from planner.spot.market.hazard_fit import fit_stays
from planner.spot.market.sampling import Paths, sample_states
from planner.spot.market.states import SpotStates
from planner.spot.market.zones import Trace, ZoneGroup, ages_on, follow, group_zones, hours_unchanged, worth_of
from planner.spot.policy.run import SpotRun

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.random import Generator


# Sources of market paths for replays: drawn from the states of a market, or windows of recorded ones.


MAX_TICK_HOURS, MIN_TICK_HOURS = 1 / 12, 1 / 120
"""Range of the time between two observations of the market: five minutes, half a minute."""
TICKS_PER_STAY = 6
"""Ticks in a mean up-time or outage: changes between two ticks would be missed."""
TICKS_PER_SLACK = 20
"""The guard reserves one tick, which must be a small part of the slack."""
MIN_COUNTS_PER_RUN = 12
"""Fewest counts of a trace in the time of a run."""


def choose_tick_hours(run: SpotRun, states: SpotStates, target_hours: float) -> float:
    """Return the hours between two decisions of a policy."""
    stays = (states.up.mean(), states.down.mean())
    slack = target_hours - run.work_hours - run.restart_hours
    asked = [MAX_TICK_HOURS, *(stay / TICKS_PER_STAY for stay in stays)]
    asked += [slack / TICKS_PER_SLACK] if math.isfinite(slack) else []
    return max(MIN_TICK_HOURS, min(asked))


@dataclass
class SampledPaths:
    """Paths drawn from the states of a market, each from a random moment on."""

    states: SpotStates
    ticks: int
    tick_hours: float
    rng: Generator

    def paths(self, runs: Integers) -> Paths:
        """Return the next paths; always up where machines are never taken."""
        if math.isinf(self.states.up.mean()):
            return Paths(np.ones((len(runs), self.ticks), dtype=bool), np.zeros(len(runs)))
        return sample_states(self.states, len(runs), self.ticks, self.tick_hours, self.rng)


class RecordedWindows:
    """Windows of recorded markets: one for every possible start, or some of them."""

    def __init__(self, traces: Sequence[Trace], instances: int, ticks: int, notes: Sequence[str] = ()) -> None:
        self.notes = notes
        self.names = tuple(trace.name for trace in traces)
        self.tick_hours = traces[0].gap_hours
        self.flags = [trace.up(instances) for trace in traces]
        self.ages = [hours_unchanged(flags, self.tick_hours) for flags in self.flags]
        self.ticks = ticks
        starts = np.asarray([flags.size - ticks + 1 for flags in self.flags])
        self.begins = np.concatenate([[0], np.cumsum(starts)])
        self.windows = int(self.begins[-1])
        self.chosen = np.arange(self.windows)

    def spread_evenly(self, runs: int) -> None:
        """Choose `runs` windows, spread evenly over the traces."""
        self.chosen = (np.arange(runs) * self.windows) // runs

    def paths(self, runs: Integers) -> Paths:
        """Return the windows of these runs."""
        windows = self.chosen[runs]
        which = np.searchsorted(self.begins, windows, side="right") - 1
        first = windows - self.begins[which]
        up = np.stack([self.flags[i][at : at + self.ticks] for i, at in zip(which, first, strict=True)])
        return Paths(up, np.asarray([self.ages[i][at] for i, at in zip(which, first, strict=True)]))

    @property
    def availability(self) -> float:
        """Share of the recorded time at which the market is up."""
        return float(np.mean(np.concatenate(self.flags)))


class RecordedZones(RecordedWindows):
    """Windows of zones that were recorded at the same times: a run stays in one until it is lost."""

    def __init__(self, group: ZoneGroup, ticks: int, notes: Sequence[str] = ()) -> None:
        super().__init__([group.trace(zone) for zone in range(len(group.names))], 1, ticks, notes)
        self.group = group
        self.worth = worth_of(group, fit_stays(group))
        self.windows = group.up.shape[1] - ticks + 1
        self.chosen = np.arange(self.windows)

    def paths(self, runs: Integers) -> Paths:
        """Return the zones of these runs, each of which begins where the expected stay per dollar is longest.

        A run knows for how long its zone has been up, as `spot_advice` does: also before the run moved there.
        """
        starts = self.chosen[runs].tolist()
        zones = follow(self.worth, starts, self.ticks)
        up = np.stack([self.group.up[:, start : start + self.ticks] for start in starts], axis=1)
        return Paths(zones, ages_on(zones, self.group, starts), up, self.names)

    @property
    def availability(self) -> float:
        """Share of the recorded time at which any zone is up."""
        return float(np.mean(self.group.up.any(axis=0)))


PathSource = SampledPaths | RecordedWindows
"""Where paths of one job's market come from: `paths` takes run numbers, which come in order."""


def build_recorded_windows(
    traces: Sequence[Trace], job: str, instances: int, hours: float, together: bool = False
) -> RecordedWindows:
    """Return windows of the traces that are long enough for a job, with notes on what could be misread.

    `together`: the traces are zones that the run may move among.

    Raises `InputError` where none is, where their steps differ, or where they are too coarse for the job.
    """
    gaps = sorted({trace.gap_hours for trace in traces})
    if len(gaps) > 1:
        steps = ", ".join(f"{gap * 60:g}" for gap in gaps)
        fix = "simulate traces of one step at a time"
        raise InputError([Fault(traces[0].name, 0, "", f"traces of different steps ({steps} minutes)", fix)])
    gap = gaps[0]
    if hours < MIN_COUNTS_PER_RUN * gap:
        what = f"a count every {gap:.3g} h is too coarse for {job}, which may take {hours:.1f} h"
        raise InputError([Fault(traces[0].name, 0, "", what, "check that its steps are in seconds")])
    ticks = math.ceil(hours / gap - 1e-9)
    long = [trace for trace in traces if trace.available.size >= ticks]
    if not long:
        best = max(traces, key=lambda trace: trace.hours)
        only = "this trace" if len(traces) == 1 else f"the longest of {len(traces)} traces"
        what = f"{only} is {best.hours:.1f} h long, but {job} may take {hours:.1f} h"
        raise InputError([Fault(best.name, 0, "", what, "give longer traces, or set an earlier deadline")])
    if not any(trace.up(instances).any() for trace in long):
        several = f"{instances} machines were never available together"
        never = several if instances > 1 else "a machine was never available"
        raise InputError([Fault(long[0].name, 0, "", f"{never}, but {job} needs it", "give other traces")])
    if together:
        group = group_zones(traces, instances)
        return RecordedZones(
            group,
            ticks,
            [f"the run moves among {len(traces)} zones, ranked by their own traces; each move is paid with a restart"],
        )
    notes: list[str] = []
    if short := len(traces) - len(long):
        which = f"{short} trace{'s' if short > 1 else ''} of {len(traces)}"
        notes.append(f"{which} left out: shorter than the {hours:.1f} h that {job} may take")
    most = max(int(trace.available.max()) for trace in traces)
    if most > instances:
        those = f"any {instances} of them {'are' if instances > 1 else 'is'} there"
        notes.append(f"up to {most} machines were recorded: the market of {job} counts as up while {those}")
    return RecordedWindows(long, instances, ticks, notes)


# Settings of a simulation: runs, seed, recorded markets and speeds.


DEFAULT_RUNS = 10_000
MAX_RUNS = 1_000_000


class SimulationArguments(TypedDict, total=False):
    """How a plan is replayed; see `simulate`."""

    traces: Sequence[str | Path]
    together: bool
    preempted: bool
    runs: int
    seed: int
    exact_speed: bool


@record(frozen=True)
class SimulationSettings:
    """The arguments of a simulation, its traces read."""

    traces: tuple[Trace, ...] = ()
    runs: int = DEFAULT_RUNS  # at most
    seed: int = 0
    exact_speed: bool = False
    together: bool = False  # the traces are zones that a run may move among

    @classmethod
    def of(cls, traces: Sequence[str | Path] = (), preempted: bool = False, **settings: Any) -> SimulationSettings:
        """Return checked settings; ScenarioError for runs or a seed that cannot be used."""
        found = cls(**settings)
        if not (isinstance(found.runs, int | np.integer) and 1 <= found.runs <= MAX_RUNS):
            what, fix = f"{found.runs:,} runs cannot be simulated", f"1 to {MAX_RUNS:,}"
            raise ScenarioError([Fault("simulate", 0, "runs", what, fix)])
        if found.seed < 0:
            raise ScenarioError([Fault("simulate", 0, "seed", f"{found.seed} is not a seed", "0 or more")])
        read = tuple(read_traces_of(traces, preempted)) if traces else ()
        if found.together and len(read) < 2:
            what, fix = f"{len(read)} zones cannot be used together", "give two traces or more with --trace"
            raise ScenarioError([Fault("simulate", 0, "--together", what, fix)])
        return replace(found, traces=read)
