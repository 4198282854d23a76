"""The modes of each job: its configurations at offers, with hours at confidence, dollars and what they hold."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from planner.candidates.screening import ScreenedCandidates, screen
from planner.formulation.dominance import find_undominated
from planner.formulation.shared_limits import SharedLimits
from planner.formulation.timetable.problem import Mode
from planner.records import record
from planner.scenario.limits import max_run_hours
from planner.solving.scoring import CandidateObjective
from planner.solving.timetable.calendar import minutes_down, minutes_up, open_times
from planner.solving.timetable.pauses import pause_cost, paused_modes
from planner.solving.timetable.shared import usd_units, usd_units_up

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planner.candidate_table import CandidateTable
    from planner.solving.prepare import PreparedScenario
    from planner.solving.timetable.shared import SharedThings

MOMENT_HOURS = 1e-6
"""A run is never shorter: what it spends per hour stays a number."""
SHORTER_GUARANTEES = (0.5, 0.25)
"""Parts of the time that a job has for which policies on spot are made too: a shorter one leaves room for others.

Each is rounded down to whole minutes. Rounded up, two halves would be longer than the whole."""


KeepRows = Callable[[int, ScreenedCandidates], ScreenedCandidates]
"""What leaves some of the candidates of a job (by its place): those that a question asks for."""


@record(frozen=True)
class ModeSource:
    """The candidate behind a mode: a row of screened candidates at a spot share, and the lot that pays for it."""

    screened: ScreenedCandidates
    row: int
    share: float
    lot: int | None  # resource
    pauses: tuple[tuple[int, int], ...] = ()  # minutes in which the run stands still


@record(frozen=True)
class JobModes:
    """The modes of one job, and the candidate behind each."""

    modes: tuple[Mode, ...]
    sources: tuple[ModeSource, ...]


def job_modes(
    prepared: PreparedScenario, index: int, shared: SharedThings, horizon: int, keep: KeepRows | None = None
) -> JobModes:
    """Return the undominated modes of one job, of the candidates that `keep` leaves."""
    tables = screens_of_job(prepared, index)
    if keep is not None:
        tables = [keep(index, one) for one in tables]
    found: list[tuple[Mode, ModeSource]] = []
    for screened in tables:
        for row in _useful_rows(prepared, screened, shared):
            found += _modes_of_row(prepared, screened, int(row), shared, horizon)
    found.sort(key=lambda one: int(one[1].screened.table.lossiness[one[1].row]))  # of equal modes the first stays
    found = _with_ranks(found)
    kept = undominated_modes([mode for mode, _ in found])
    return JobModes(tuple(found[place][0] for place in kept), tuple(found[place][1] for place in kept))


def _with_ranks(found: list[tuple[Mode, ModeSource]]) -> list[tuple[Mode, ModeSource]]:
    """Return the modes with their place in the order of ties: by preference, then by machines."""

    def key(source: ModeSource) -> tuple[int, int]:
        table = source.screened.table
        return int(table.preference[source.row]), int(table.instances[source.row])

    keys = [key(source) for _, source in found]
    rank = {one: place for place, one in enumerate(sorted(set(keys)))}
    return [(replace(mode, rank=rank[one]), source) for (mode, source), one in zip(found, keys, strict=True)]


def screens_of_job(prepared: PreparedScenario, index: int) -> list[ScreenedCandidates]:
    """Return the candidates within the time that a job has after its release, then with shorter guarantees on spot.

    Without a deadline that time is the longest run that the limits allow.
    """
    job, candidates, limits = prepared.scenario.jobs[index], prepared.candidates[index], prepared.scenario.limits
    waiting = CandidateObjective.of(prepared.scenario).waiting_usd

    def within(hours: float | None) -> ScreenedCandidates:
        shorter = replace(candidates, job=job.model_copy(update={"deadline_hours": hours}))
        return screen(shorter, prepared.market, limits, prepared.library, waiting_usd=waiting)

    first = prepared.screened[index]
    room = max_run_hours(job, limits)
    if job.deadline_hours is not None:
        left = job.deadline_hours - job.release_hours
        first = within(left) if job.release_hours else first
        room = min(room, left)
    if not first.spot:
        return [first]
    others = [within(minutes_down(room * part) / 60) for part in SHORTER_GUARANTEES]
    on_spot = [one.select(np.isin(np.arange(len(one.rows)), list(one.spot))) for one in others if one.spot]
    return [first, *on_spot]


def without_reservations(table: CandidateTable, prepared: PreparedScenario) -> CandidateTable:
    """Return the table without the dollars of reservations, which are bought apart from the jobs, and without leads.

    Before a machine is there, it is not held.
    """
    offers = [prepared.market.offers[place] for place in table.offer.tolist()]
    paid = np.asarray([offer.committed_usd for offer in offers], dtype=float)
    lead = np.asarray([offer.lead_hours for offer in offers], dtype=float)
    return replace(
        table,
        fixed_usd=table.fixed_usd - paid * table.instances,
        start_h=table.start_h - lead,
        late_start_h=table.late_start_h - lead,
    )


def _useful_rows(prepared: PreparedScenario, screened: ScreenedCandidates, shared: SharedThings) -> list[int]:
    """Return the rows that dominance leaves; an offer that is finite or has windows dominates only itself."""
    table = without_reservations(screened.table, prepared)
    if shared.rate is not None or shared.periods:
        return list(range(len(table)))  # a mode that costs more in all may cost less per hour
    market, limits = prepared.market, prepared.scenario.limits
    apart = {
        *shared.stock,
        *shared.lots,
        *(p for p, one in enumerate(market.offers) if one.available or one.lead_hours),
    }
    rows = SharedLimits(
        budget_usd=limits.budget_usd,
        max_gpus=limits.max_gpus,
        quota=limits.quota,
        stock={market.labels[place]: market.offers[place].stock or 10**6 for place in apart},
        committed={market.labels[place]: 0.0 for place in shared.hours_left},
        objective=prepared.scenario.objective_kind,
        value_of_time_usd_per_hour=prepared.scenario.value_of_time_usd_per_hour,
    )
    keep: list[int] = np.flatnonzero(find_undominated(table, rows)).tolist()
    return keep


def _modes_of_row(
    prepared: PreparedScenario, screened: ScreenedCandidates, row: int, shared: SharedThings, horizon: int
) -> Iterator[tuple[Mode, ModeSource]]:
    """Yield a mode for each end of the spot share, each lot and each window in which a row may run."""
    one = without_reservations(screened.table.rows(np.asarray([row])), prepared)
    place = int(one.offer[0])
    for share in dict.fromkeys((float(one.share_low[0]), float(one.share_high[0]))):
        base = _mode_of(prepared, one, share, shared)
        lots = shared.lots.get(place)
        if lots is None:
            options: list[tuple[Mode, int | None]] = [(base, None)]
        else:
            held = int(one.instances[0])
            options = [
                (
                    replace(
                        base,
                        needs=(*base.needs, (lot.resource, held)),
                        earliest=max(lot.start, base.earliest),
                        latest=lot.end - base.minutes,
                    ),
                    lot.resource,
                )
                for lot in lots
                if lot.end - max(lot.start, base.earliest) >= base.minutes
                and held <= shared.resources[lot.resource].capacity
            ]
        for mode, lot in options:
            for placed in _in_windows(mode, prepared, place, horizon):
                yield placed, ModeSource(screened, row, share, lot)
        cost = pause_cost(prepared, screened, row, share, shared)
        if lots is None and cost is not None:
            windows = open_times(prepared.market.offers[place].available, horizon)
            for paused, pauses in paused_modes(base, cost, windows):
                yield paused, ModeSource(screened, row, share, None, pauses)


def _mode_of(prepared: PreparedScenario, one: CandidateTable, share: float, shared: SharedThings) -> Mode:
    """Return a row at a spot share as a mode that may start at any time."""
    place, provider, gpus = int(one.offer[0]), int(one.provider[0]), int(one.gpus[0])
    late_hours = float(one.late_hours(share)[0])
    minutes = max(1, minutes_up(late_hours))
    late_usd = max(0.0, float(one.late_cost_usd(share)[0]))
    value = prepared.scenario.value_of_time_usd_per_hour * float(one.hours(share)[0])
    usd = float(one.cost_usd(share)[0]) + float(one.penalty_usd[0]) + value
    needs = []
    if shared.gpus is not None and gpus:
        needs.append((shared.gpus, gpus))
    if provider in shared.quota and gpus:
        needs.append((shared.quota[provider], gpus))
    if shared.rate is not None and late_usd:
        needs.append((shared.rate, math.ceil(100 * late_usd / max(late_hours, MOMENT_HOURS) - 1e-6)))
    if place in shared.stock:
        needs.append((shared.stock[place], max(1, int(one.instances[0]))))
    uses = []
    if shared.budget is not None:
        uses.append((shared.budget, usd_units_up(late_usd)))
    if place in shared.hours_left:
        uses.append((shared.hours_left[place], minutes_up(float(one.rented_h[0]))))
    spend = usd_units_up(late_usd) if shared.periods else 0
    label = f"{one.offers[place]}#{int(one.recipe[0])}"
    return Mode(
        label,
        minutes,
        usd_units(usd),
        tuple(needs),
        tuple(uses),
        spend,
        earliest=minutes_up(prepared.market.offers[place].lead_hours),
    )


def _in_windows(mode: Mode, prepared: PreparedScenario, place: int, horizon: int) -> Iterator[Mode]:
    """Yield the mode for each window that is long enough; unchanged where the machine is always there."""
    offer = prepared.market.offers[place]
    if not offer.available:
        yield mode
        return
    for first, last in open_times(offer.available, horizon):
        earliest, latest = max(first, mode.earliest), last - mode.minutes
        latest = latest if mode.latest is None else min(latest, mode.latest)
        if earliest <= latest:
            yield replace(mode, earliest=earliest, latest=latest)


def undominated_modes(modes: list[Mode]) -> list[int]:
    """Return the places of the modes of one task that an optimal timetable may need.

    A mode dominates another if it costs, lasts, holds, uses and spends no more, and may start whenever the other may.
    Replacing the other by it at the same start then keeps every rule and raises no cost. Of equal ones the first stays.
    At equal cost it dominates none of a better rank.
    """
    order = sorted(
        range(len(modes)), key=lambda place: (modes[place].cost, modes[place].minutes, modes[place].rank, place)
    )
    kept: list[int] = []
    for place in order:
        if not any(_dominates(modes[other], modes[place]) for other in kept):
            kept.append(place)
    return kept


def _dominates(one: Mode, other: Mode) -> bool:
    """Return whether `one`, which costs no more, is in nothing worse than `other`."""
    if one.cost == other.cost and one.rank > other.rank:
        return False
    if one.minutes > other.minutes or one.spend > other.spend or one.earliest > other.earliest:
        return False
    if one.latest is not None and (other.latest is None or one.latest < other.latest):
        return False
    return _within(one.needs, other.needs) and _within(one.uses, other.uses)


def _within(amounts: tuple[tuple[int, int], ...], others: tuple[tuple[int, int], ...]) -> bool:
    """Return whether every amount is at most the other's of the same place."""
    if amounts == others:
        return True
    there = dict(others)
    return all(amount <= there.get(which, 0) for which, amount in amounts)
