"""Spot markets from recorded traces: the `spot:` block of an offer, and the paths that replays run on."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from math import exp
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np

from planner.arrays import Integers
from planner.errors import Fault, InputError, ScenarioError, collect_faults, raise_faults
from planner.library.reading import read_library
from planner.results.market_results import (
    EndsByAge,
    FittedDuration,
    HoldoutComparison,
    MarketFit,
    SpotBlock,
    TraceReport,
    ZoneStays,
)
from planner.results.plan_parts import Spread
from planner.spot.market_fit import (
    POOL_WEIGHT,
    DurationFit,
    IntervalEstimate,
    ZoneFit,
    fit_market,
    fit_stays,
    fit_zones,
)
from planner.spot.market_fit import MarketFit as Fitted
from planner.spot.run import SpotRun
from planner.spot.states import (
    Ages,
    DurationShape,
    Paths,
    SpotStates,
    Trace,
    ZoneGroup,
    ages_from_mean,
    ages_on,
    follow,
    group_zones,
    hours_unchanged,
    sample_states,
    worth_of,
)
from planner.spot.trace_formats import is_frame, read_frame, read_traces
from planner.units import MINUTE, mean_hours, round_digits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.random import Generator


FIT_COMMAND = "planner market fit"
HASTY_GAP_SECONDS = 10.0
"""Shorter steps are so rare that minutes may have been meant."""
COARSE_STEPS = 3.0
"""Mean durations of fewer steps: some changes within a step were not recorded."""
RARELY_AVAILABLE = 0.2
"""Share of the time below which a trace may have been read the wrong way round."""
AVAILABILITY_RATIO = 3.0
"""Ratio of the odds of availability between traces above which they are different markets."""
MAX_LISTED_NAMES = 12
"""Names that a message lists."""
LONG_FIRST_SHARE = 0.1
"""Share of the hours before the first change above which a note says so."""


def _listed(traces: Any) -> list[Any]:
    """Return the files, folders and data frames that are given; raises InputError for anything else."""
    paths: list[Any] = [traces]
    if isinstance(traces, Iterable) and not isinstance(traces, (str, Path)) and not is_frame(traces):
        paths = list(traces)
    if strange := [type(path).__name__ for path in paths if not (isinstance(path, (str, Path)) or is_frame(path))]:
        raise InputError(
            [Fault(FIT_COMMAND, 0, "", f"is no trace: {strange[0]}", "give files, folders or data frames")]
        )
    if not paths:
        raise InputError([Fault(FIT_COMMAND, 0, "", "no trace to fit", "name a file or a folder")])
    return paths


def market_fit(
    traces: str | Path | Sequence[str | Path | Any] | Any,
    instances: int = 1,
    only: Sequence[str] = (),
    together: bool = False,
    preempted: bool = False,
) -> MarketFit:
    r"""Return the `spot:` block of an offer that recorded traces support.

    `traces` are files, folders or data frames in the formats of `planner.spot.trace_formats`; all are pooled.
    `instances` machines must be available together for the market to be up.
    `only` names the traces to use, where the files hold others too.
    `preempted`: in the files 1 means that the machine was taken away, and 0 that it is there.
    `together`: the traces are zones that were observed at the same times, and a run may move from one to another. The
    block is then that of the group: stays in one zone, outages of all, and the chance to move on at once.
    Raises `InputError` for files that cannot be read and for traces with too little data.

    >>> times = range(0, 100 * 3600, 600)
    >>> rows = "".join(f"{time},{int(time % 36000 < 28800)}\n" for time in times)
    >>> _ = Path("zone.csv").write_text("time_seconds,available\n" + rows)
    >>> round(planner.market_fit("zone.csv").share_of_hours, 2)
    0.8
    """
    paths = _listed(traces)
    if instances < 1:
        problem = f"{instances} is not a number of machines"
        raise InputError([Fault(FIT_COMMAND, 0, "--instances", problem, "give 1 or more")])
    read = _chosen(read_traces_of(paths, preempted), only)
    zones = fit_zones(group_zones(read, instances)) if together else None
    fitted = replace(zones.as_market(), instances=instances) if zones else _fit(read, instances)
    another = round_digits(fitted.instant)
    hours, test = sum(trace.hours for trace in fitted.traces), fitted.held_out
    losses = sum(trace.interruptions for trace in fitted.traces)
    up_hours = sum(trace.availability * trace.hours for trace in fitted.traces)
    if zones is not None:
        hours, losses = read[0].hours, zones.losses
        up_hours = float(zones.group.up.any(axis=0).mean()) * hours
    up, outage = _build_hazard(fitted.up.ages), _build_hazard(fitted.down.ages)
    mean_up, mean_outage = (mean_hours(ages.ages_hours, ages.ends_per_hour) for ages in (up, outage))
    return MarketFit(
        instances=instances,
        hours=hours,
        interruptions=losses,
        availability=_spread(fitted.availability),
        share_of_hours=up_hours / hours,
        up=_durations(fitted.up),
        outage=_durations(fitted.down),
        spot=SpotBlock(
            availability=round_digits(mean_up / (mean_up + (1 - another) * mean_outage)),
            mean_up_hours=round_digits(mean_up),
            mean_outage_hours=round_digits(mean_outage),
            up=up,
            outage=outage,
            another_zone=another,
            zones=_stays_of(zones) if zones is not None else (),
            instances=instances,
        ),
        held_out=HoldoutComparison(likelier_by=exp(test.gain_per_end), ends=test.ends) if test else None,
        traces=tuple(TraceReport(**asdict(trace)) for trace in fitted.traces),
        notes=(
            *rarely_available([(trace.name, trace.availability) for trace in fitted.traces]),
            *(_notes(fitted, read) if zones is None else _zone_notes(zones, fitted)),
        ),
    )


def _fit(read: Sequence[Trace], instances: int) -> Fitted:
    """Return the market of pooled traces; long outages of a single one are drawn towards the usual ones."""
    return fit_market(read, instances, _usual_outage() if len(read) == 1 else None)


def _usual_outage() -> Ages:
    """Return outages of the market that an offer without statistics has."""
    calibrations = read_library([]).calibrations
    up, share = (calibrations["stages"].value(f"spot_{key}") for key in ("mean_up_hours", "availability"))
    return ages_from_mean(up * (1 - share) / share, DurationShape.of(calibrations["spot"].values))


def read_traces_of(paths: Sequence[str | Path | Any], preempted: bool = False) -> list[Trace]:
    """Return all traces of files and folders; traces of one name are prefixed with their files.

    `preempted`: 1 means that the machine was taken away.

    Raises `InputError` with every fault of every file.
    """
    read: list[tuple[str, Trace]] = []
    faults: list[Fault] = []
    for number, path in enumerate(paths):
        name = f"traces.{number}" if is_frame(path) else str(path)
        with collect_faults(faults):
            read += [(name, trace) for trace in (read_frame(path, name) if is_frame(path) else read_traces(path))]
    if not faults:  # a path that cannot be is reported by the reader
        files = [Path(path).resolve() for path in paths if not is_frame(path)]
        again = [path for path, count in Counter(files).items() if count > 1]
        faults = [Fault(str(path), 0, "", "is given twice", "give it once") for path in again]
    raise_faults(faults)
    names = Counter(trace.name for _, trace in read)
    traces = [trace if names[trace.name] == 1 else replace(trace, name=f"{path}: {trace.name}") for path, trace in read]
    return [_inverted(trace) for trace in traces] if preempted else traces


def _inverted(trace: Trace) -> Trace:
    """Return the trace of a file in which 1 means that the machine was taken away; `InputError` for other counts."""
    if trace.available.max(initial=0) > 1:
        problem = f"{trace.available.max()} is neither 0 nor 1, so it cannot say whether a machine was taken away"
        raise InputError([Fault(trace.name, 0, "--preempted", problem, "leave --preempted out for counts of machines")])
    return replace(trace, available=1 - trace.available)


def rarely_available(traces: Sequence[tuple[str, float]]) -> list[str]:
    """Return a note where traces, by name and availability, may have been read the wrong way round."""
    rare = [f"{name} ({share:.0%})" for name, share in traces if share < RARELY_AVAILABLE]
    if not rare:
        return []
    names = ", ".join(rare[:MAX_LISTED_NAMES]) + (", ..." if len(rare) > MAX_LISTED_NAMES else "")
    return [
        f"available less than {RARELY_AVAILABLE:.0%} of the time: {names}; a value is a count of machines (1 = "
        "available): where 1 means taken away, read the file as preempted"
    ]


def _chosen(traces: list[Trace], only: Sequence[str]) -> list[Trace]:
    """Return the traces of these names, all where none is named."""
    names = [trace.name for trace in traces]
    there = ", ".join(names[:MAX_LISTED_NAMES]) + (", ..." if len(names) > MAX_LISTED_NAMES else "")
    unknown = [name for name in only if name not in names]
    raise_faults([Fault(FIT_COMMAND, 0, "--only", f"unknown trace {name!r}", f"known: {there}") for name in unknown])
    return [trace for trace in traces if not only or trace.name in only]


def _build_hazard(ages: Ages) -> EndsByAge:
    """Return the hazard as it is pasted; ages keep enough digits to differ."""
    return EndsByAge(
        ages_hours=tuple(round_digits(age, 6) for age in ages.begins),
        ends_per_hour=tuple(round_digits(rate) for rate in ages.rates),
    )


def _stays_of(zones: ZoneFit) -> tuple[ZoneStays, ...]:
    """Return how long machines stay in each zone of a group."""
    pairs = zip(zones.group.names, zones.stays, strict=True)
    return tuple(ZoneStays(zone=name, **_build_hazard(ages).model_dump()) for name, ages in pairs)


def _durations(fitted: DurationFit) -> FittedDuration:
    mean = fitted.mean_hours
    return FittedDuration(
        mean_hours=_spread(mean),
        known_to_factor=max(mean.high / mean.value, mean.value / mean.low),
        cv=fitted.cv,
        ends=fitted.ends,
        hours=fitted.hours,
        ends_per_hour=tuple(_spread(rate) for rate in fitted.rates),
    )


def _spread(known: IntervalEstimate) -> Spread:
    return Spread(expected=known.value, low=known.low, high=known.high)


def _notes(fitted: Fitted, traces: Sequence[Trace]) -> list[str]:
    """Return notes on what could be misread."""
    notes = []
    observed, several = fitted.traces, fitted.instances > 1
    losses, machine_hours = (
        sum(trace.machine_losses for trace in observed),
        sum(trace.machine_hours for trace in observed),
    )
    most = max(trace.most_machines for trace in observed)
    if most > fitted.instances and losses:
        least = f"{fitted.instances} of them were" if several else "any one of them was"
        notes.append(
            f"up to {most} machines were recorded, and up means that {least} available, not always the same; "
            f"a single machine was available for {machine_hours / losses:.1f} h on average ({losses} losses): "
            "a run that cannot move to another without a restart is interrupted more often than this block predicts"
        )
    if several:
        notes.append(
            f"the statistics are for {fitted.instances} machines together, as `instances` states; "
            "for other numbers of machines the planner converts them"
        )
    odds = [trace.availability / max(1 - trace.availability, 1e-9) for trace in observed if trace.availability > 0]
    if len(observed) > 1 and (len(odds) < len(observed) or max(odds) > AVAILABILITY_RATIO * min(odds)):
        low, high = (f"{100 * pick(trace.availability for trace in observed):.0f} %" for pick in (min, max))
        notes.append(f"the traces differ, available {low} to {high} of the time: fit each place separately")
    first = sum(trace.hours for trace in traces) - fitted.up.hours - fitted.down.hours
    if first > LONG_FIRST_SHARE * sum(trace.hours for trace in observed):
        notes.append(
            f"{first:.1f} h before the first change are excluded from the fit: it is unknown when that state began, "
            "or whether the machines were requested yet"
        )
    return notes + _find_step_warnings(fitted)


def _zone_notes(zones: ZoneFit, fitted: Fitted) -> list[str]:
    """Return what the block of a group means, and what it rests on."""
    names = [
        name for name, _ in sorted(zip(zones.group.names, zones.stays, strict=True), key=lambda zone: -zone[1].mean())
    ]
    return [
        f"{len(names)} zones as one market: a run stays in a zone until its machines are taken, then moves to the one "
        f"that is up with the longest expected stay; on average they last longest in {', '.join(names[:3])}",
        f"{zones.hops} of {zones.losses} losses were followed by machines in another zone at once (another_zone)",
        f"outages of all zones are rare, so those of single zones count as {POOL_WEIGHT} more in each band",
        "the first counts of all traces are taken to be of the same moment",
        *_find_step_warnings(fitted),
    ]


def _find_step_warnings(fitted: Fitted) -> list[str]:
    """Return notes on implausible or coarse steps."""
    notes = []
    shortest, longest = (pick(trace.gap_seconds for trace in fitted.traces) for pick in (min, max))
    if shortest < HASTY_GAP_SECONDS:
        notes.append(
            f"a count every {shortest:g} s is unusual: if minutes were meant, all durations are 60 times as long"
        )
    brief = min(fitted.up.mean_hours.value, fitted.down.mean_hours.value)
    if brief * 60 * MINUTE < COARSE_STEPS * longest:
        notes.append(
            f"a count every {longest / MINUTE:.3g} minutes misses shorter changes: the real market changes more often"
        )
    notes.append("traces contain no interruption notices: add notice_seconds if the provider gives notice")
    return notes


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
        problem = f"a count every {gap:.3g} h is too coarse for {job}, which may take {hours:.1f} h"
        raise InputError([Fault(traces[0].name, 0, "", problem, "check that its steps are in seconds")])
    ticks = math.ceil(hours / gap - 1e-9)
    long = [trace for trace in traces if trace.available.size >= ticks]
    if not long:
        best = max(traces, key=lambda trace: trace.hours)
        only = "this trace" if len(traces) == 1 else f"the longest of {len(traces)} traces"
        problem = f"{only} is {best.hours:.1f} h long, but {job} may take {hours:.1f} h"
        raise InputError([Fault(best.name, 0, "", problem, "give longer traces, or set an earlier deadline")])
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


@dataclass(frozen=True)
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
        asked = cls(**settings)
        if not (isinstance(asked.runs, int | np.integer) and 1 <= asked.runs <= MAX_RUNS):
            problem, fix = f"{asked.runs:,} runs cannot be simulated", f"1 to {MAX_RUNS:,}"
            raise ScenarioError([Fault("simulate", 0, "runs", problem, fix)])
        if asked.seed < 0:
            raise ScenarioError([Fault("simulate", 0, "seed", f"{asked.seed} is not a seed", "0 or more")])
        read = tuple(read_traces_of(traces, preempted)) if traces else ()
        if asked.together and len(read) < 2:
            problem, fix = f"{len(read)} zones cannot be used together", "give two traces or more with --trace"
            raise ScenarioError([Fault("simulate", 0, "--together", problem, fix)])
        return replace(asked, traces=read)
