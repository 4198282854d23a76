"""The `spot:` block of an offer from recorded traces, with intervals and notes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, replace
from math import exp
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner.errors import Fault, InputError, collect_faults, raise_faults
from planner.hazards import mean_hours
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
from planner.spot.market.market_fit import POOL_WEIGHT, DurationFit, IntervalEstimate, ZoneFit, fit_market, fit_zones
from planner.spot.market.market_fit import MarketFit as Fitted
from planner.spot.market.states import Ages, DurationShape, ages_from_mean
from planner.spot.market.trace_formats import is_frame, read_frame, read_traces
from planner.spot.market.zones import Trace, group_zones
from planner.units import MINUTE, round_digits

if TYPE_CHECKING:
    from collections.abc import Sequence

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
    if strange := [type(one).__name__ for one in paths if not (isinstance(one, (str, Path)) or is_frame(one))]:
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

    `traces` are files, folders or data frames in the formats of `planner.spot.market.trace_formats`; all are pooled.
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
        what = f"{instances} is not a number of machines"
        raise InputError([Fault(FIT_COMMAND, 0, "--instances", what, "give 1 or more")])
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
    found = [trace if names[trace.name] == 1 else replace(trace, name=f"{path}: {trace.name}") for path, trace in read]
    return [_inverted(trace) for trace in found] if preempted else found


def _inverted(trace: Trace) -> Trace:
    """Return the trace of a file in which 1 means that the machine was taken away; `InputError` for other counts."""
    if trace.available.max(initial=0) > 1:
        what = f"{trace.available.max()} is neither 0 nor 1, so it cannot say whether a machine was taken away"
        raise InputError([Fault(trace.name, 0, "--preempted", what, "leave --preempted out for counts of machines")])
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
    each = zip(zones.group.names, zones.stays, strict=True)
    return tuple(ZoneStays(zone=name, **_build_hazard(ages).model_dump()) for name, ages in each)


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
