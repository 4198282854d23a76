"""Runs that stand still while the windows of their machine are closed, and go on when the next one opens.

A run of `minutes` that starts in window w and ends in window v takes always the same time from start to end: its own
minutes, the closed times between, and `resume` minutes for each. So each pair of windows is one more mode, which may
start wherever its end lies in v. It holds its machine, and its place in quotas, from start to end.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from planner.records import record
from planner.scenario.limits import may_pause
from planner.solving.timetable.calendar import minutes_up
from planner.solving.timetable.shared import usd_units, usd_units_up

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from planner.candidates.screening import ScreenedCandidates
    from planner.formulation.timetable.problem import Mode
    from planner.solving.prepare import PreparedScenario
    from planner.solving.timetable.shared import SharedThings


@record(frozen=True)
class PauseCost:
    """What one pause costs: minutes on the machine, dollars expected and late, and dollars per hour of standstill."""

    minutes: int
    usd: float
    late_usd: float
    standstill_usd_per_hour: float  # disks, and the value of time
    late_standstill_usd_per_hour: float  # disks
    budget: int | None = None  # pool of dollars
    hours_left: int | None = None  # pool of machine minutes
    machines: int = 1


def pause_cost(
    prepared: PreparedScenario, screened: ScreenedCandidates, row: int, share: float, shared: SharedThings
) -> PauseCost | None:
    """Return what a pause of a screened candidate costs; None where it must fit into one window."""
    uncut, place = int(screened.rows[row]), int(screened.table.offer[row])
    job = screened.table.job[row]
    candidates, offer, scenario = prepared.candidates[job], prepared.market.offers[place], prepared.scenario
    if candidates.is_managed_service[uncut] or row in screened.spot or row in screened.pieces:
        return None
    if not may_pause(candidates.job, offer, scenario.limits, share, bool(screened.rounded[row])):
        return None
    hours, h = candidates.resume_hours(uncut), candidates.hours
    machines = int(screened.table.instances[row])
    usd = hours * machines * (offer.usd_per_hour or 0.0)
    which = screened.table.offer[row : row + 1]
    disks = float(candidates.columns.storage_usd_per_hour(which, h.stored_gb[uncut : uncut + 1])[0])
    value, late = scenario.value_of_time_usd_per_hour, hours * float(h.late[uncut])
    return PauseCost(
        minutes=minutes_up(late),
        usd=usd + value * late,
        late_usd=usd * float(h.budget[uncut]),
        standstill_usd_per_hour=disks + value,
        late_standstill_usd_per_hour=disks,
        budget=shared.budget,
        hours_left=shared.hours_left.get(place),
        machines=machines,
    )


def paused_modes(
    base: Mode, cost: PauseCost, windows: Sequence[tuple[int, int]]
) -> Iterator[tuple[Mode, tuple[tuple[int, int], ...]]]:
    """Yield the mode with pauses for each pair of windows in which it may start and end, and its pauses.

    Windows that are no longer than what a pause costs are left out: a run would get nowhere in them.
    """
    useful = [one for one in windows if one[1] - one[0] > cost.minutes]
    for place, (first, last) in enumerate(useful):
        pauses: list[tuple[int, int]] = []
        for (_, before), (opens, closes) in zip(useful[place:], useful[place + 1 :], strict=False):
            pauses.append((before, opens))
            still = sum(end - start for start, end in pauses)
            minutes = base.minutes + still + len(pauses) * cost.minutes
            # It starts before its window closes, and ends in the last one after it has gone on there.
            earliest = max(first, base.earliest, opens + cost.minutes + 1 - minutes)
            latest = min(last - 1, closes - minutes)
            if earliest <= latest:
                yield _with_pauses(base, cost, len(pauses), still, minutes, earliest, latest), tuple(pauses)
            elif latest < first:
                continue  # it does not end by then
            else:
                break


def _with_pauses(base: Mode, cost: PauseCost, count: int, still: int, minutes: int, earliest: int, latest: int) -> Mode:
    """Return a mode that stands still `count` times, for `still` minutes in all."""
    usd = count * cost.usd + still / 60 * cost.standstill_usd_per_hour
    late_usd = count * cost.late_usd + still / 60 * cost.late_standstill_usd_per_hour
    more = {cost.budget: usd_units_up(late_usd), cost.hours_left: count * cost.minutes * cost.machines}
    return replace(
        base,
        minutes=minutes,
        cost=base.cost + usd_units(usd),
        uses=tuple((pool, amount + more.get(pool, 0)) for pool, amount in base.uses),
        earliest=earliest,
        latest=latest,
    )
