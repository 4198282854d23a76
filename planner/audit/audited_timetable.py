"""Times of a plan checked: starts, precedence, windows, reservations, and what is in use and spent at one time."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from planner.evaluation.comparison import Broken, Tolerance, at_most
from planner.evaluation.named_run import hourly_price
from planner.library.schema import Library
from planner.results.plan import Assignment, Plan
from planner.results.plan_parts import Reservation
from planner.scenario.job import Job
from planner.scenario.offer import Offer, offer_labels
from planner.scenario.scenario import Scenario

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence


@dataclass(frozen=True)
class Held:
    """Machines that are held at one time, as a plan names them."""

    offer: Offer | None  # None: the plan names an offer that is none, which is a fault of its own
    machines: float
    gpus: float
    usd_per_hour: float


def amount_of(key: str, held: Held, library: Library) -> float:
    """Return what machines use of the limit of a key, such as `max_gpus`.

    Raises ValueError for a limit that has no second computation here.
    """
    match key:
        case "max_gpus":
            return held.gpus
        case "max_usd_per_hour":
            return held.usd_per_hour
        case "max_kilowatts":
            return _kilowatts(held, library)
        case "outlay_usd":
            return held.machines * price_at_once(held.offer)
    raise ValueError(f"limits.{key} has no second computation")


_WATTS_PER_WATT_OF_GPU = 1.8 * 0.8
"""What a server draws in training: 80 % of its rated power, which is 1.8 times that of its GPUs."""


def _kilowatts(held: Held, library: Library) -> float:
    """Return the power that machines draw: as an own one states it, else from the TDP of the GPUs; inf if unknown."""
    offer = held.offer
    if offer is None or offer.gpu is None:
        return 0.0
    for machine in (offer.own, offer.buy):
        if machine is not None and machine.power_watts is not None:
            return held.machines * machine.power_watts / 1e3
    tdp = library.gpu(offer.gpu).tdp_w
    return math.inf if tdp is None else held.gpus * tdp * _WATTS_PER_WATT_OF_GPU / 1e3


def price_at_once(offer: Offer | None) -> float:
    """Return the price of one machine on the day of its order: bought, asked upfront, or as a block of hours."""
    if offer is None:
        return 0.0
    bought = offer.buy.purchase_usd if offer.buy else 0.0
    upfront = offer.commitment.upfront_usd if offer.commitment else 0.0
    return bought + upfront + (offer.block.usd if offer.block else 0.0)


def gpus_of(job: Assignment) -> int:
    """Return the GPUs that a job holds."""
    return job.gpus * job.runs_at_once


def machines_of(job: Assignment) -> int:
    """Return the machines that a job holds, or its place at a service."""
    return max(1, job.instances) * job.runs_at_once


def held_by(job: Assignment, offer: Offer | None) -> Held:
    """Return what a job holds from start to end; it spends its dollars at the confidence evenly over these hours."""
    rate = job.cost_at_confidence / max(job.held_hours, 1e-6)
    return Held(offer, machines_of(job), gpus_of(job), rate)


_MINUTE = 1 / 60
"""Hours of the grid of a timetable: a run is given whole minutes."""
_SLACK = 1e-6
"""Hours by which two moments may differ."""


def peak(jobs: Iterable[Assignment], amount: Callable[[Assignment], float]) -> float:
    """Return the most that jobs hold at one time; what ends in a moment makes room for what starts in it."""
    jobs = list(jobs)
    return max(
        (
            math.fsum(
                amount(b) for b in jobs if b.start_at_hours <= a.start_at_hours + _SLACK < b.finish_hours - _SLACK
            )
            for a in jobs
        ),
        default=0.0,
    )


def held_at_busiest(jobs: Iterable[Assignment]) -> Counter[tuple[str, str]]:
    """Return the GPUs by provider and model that jobs hold at the first moment of most GPUs in all."""
    users = sorted((job for job in jobs if job.gpus), key=lambda job: job.start_at_hours)
    most: Counter[tuple[str, str]] = Counter()
    for at in dict.fromkeys(job.start_at_hours for job in users):
        held: Counter[tuple[str, str]] = Counter()
        for job in users:
            if job.start_at_hours <= at + _SLACK < job.finish_hours - _SLACK:
                held[job.provider, job.gpu] += job.gpus * job.runs_at_once
        most = held if held.total() > most.total() else most
    return most


def times_of_plan(plan: Plan, scenario: Scenario, tolerance: Tolerance) -> Iterator[Broken]:
    """Yield times that the plan may not have: of jobs, between jobs, in windows and reservations, of spending."""
    by_name = {job.name: job for job in plan.jobs}
    offers = dict(scenario.labelled_offers())
    for wanted in scenario.jobs:
        if (job := by_name.get(wanted.name)) is None:
            continue
        yield from _times_of_job(wanted, job, by_name)
        if (offer := offers.get(job.offer)) is not None:
            if job.start_at_hours < offer.lead_hours - _SLACK:
                yield f"start of {wanted.name}", f"at least {offer.lead_hours:g}", job.start_at_hours
            yield from _in_window(job, offer)
            yield from _in_reservation(job, offer, plan.reservations)
    for place, reservation in enumerate(plan.reservations):
        yield from _reservation(place, reservation, plan, offers, tolerance)
    if plan.now not in ("", scenario.now_text):
        yield "now", scenario.now_text, plan.now
    if plan.zone != (zone := scenario.zone if plan.now else ""):
        yield "zone", zone, plan.zone
    if (simple := plan.baseline) is not None:
        if simple.compares != scenario.objective_kind:
            yield "baseline: compares", scenario.objective_kind, simple.compares
        figure = simple.cost_usd if scenario.objective_kind == "cost" else simple.hours
        yield from at_most("bound", figure, plan.bound or 0.0, tolerance.usd * len(plan.jobs))
    yield from _spending(plan, scenario, offers, tolerance)


def _times_of_job(wanted: Job, job: Assignment, by_name: dict[str, Assignment]) -> Iterator[Broken]:
    """Yield a start before the release or the end of a job that is waited for, and an end that is not the run's."""
    start, end, name = job.start_at_hours, job.finish_hours, wanted.name
    if start < wanted.release_hours - _SLACK:
        yield f"start of {name}", f"at least {wanted.release_hours:g}", start
    ends = start + job.hours.at_confidence + job.paused_hours
    if abs(end - ends) > _SLACK:
        yield f"end of {name}", ends, end
    if job.pauses and not job.resume_hours:
        yield f"pauses of {name}", "none: it cannot go on after one", len(job.pauses)
    for predecessor in wanted.after:
        earliest = by_name[predecessor.job].finish_hours + predecessor.lag_hours if predecessor.job in by_name else 0.0
        if start < earliest - _SLACK:
            yield f"start of {name} after {predecessor.job}", f"at least {earliest:g}", start


def _in_window(job: Assignment, offer: Offer) -> Iterator[Broken]:
    """Yield a job that runs outside the windows of its machine; between its pauses it is in one each time."""
    begins = [job.start_at_hours, *(pause.to_hours for pause in job.pauses)]
    ends = [*(pause.from_hours for pause in job.pauses), job.finish_hours]
    for start, end in zip(begins, ends, strict=True):
        yield from _stretch_in_window(job, offer, start, end)


def _stretch_in_window(job: Assignment, offer: Offer, start: float, end: float) -> Iterator[Broken]:
    """Yield a stretch of a run that no window of its machine holds, or that ends before it begins."""
    if end < start - _SLACK:
        yield f"pauses of {job.name}", "in their order", f"{start:g} to {end:g} h"
    if not offer.available or any(
        begin - _SLACK <= start and end <= last + _SLACK
        for window in offer.available
        for begin, last in window.turns(end)
    ):
        return
    if not _in_joined_windows(start, end, offer):
        yield f"window of {job.offer}", "open from start to end", f"{start:g} to {end:g} h of {job.name}"


def _in_joined_windows(start: float, end: float, offer: Offer) -> bool:
    """Return whether windows that adjoin or overlap hold a time together, minute by minute."""
    at = start
    while at < end - _SLACK:
        reach = max(
            (
                last
                for window in offer.available
                for begin, last in window.turns(end)
                if begin <= at + _MINUTE and last > at + _SLACK
            ),
            default=at,
        )
        if reach <= at:
            return False
        at = reach
    return True


def _in_reservation(job: Assignment, offer: Offer, reservations: Sequence[Reservation]) -> Iterator[Broken]:
    """Yield a job on reserved machines that no reservation pays for, or at another time."""
    if job.reservation is None:  # a commitment of one job alone is on its bill
        if offer.block is not None:
            yield f"reservation of {job.name}", "one", None
        return
    if not 0 <= job.reservation < len(reservations) or reservations[job.reservation].offer != job.offer:
        yield f"reservation of {job.name}", f"a reservation of {job.offer}", job.reservation
        return
    paid = reservations[job.reservation]
    if job.start_at_hours < paid.start_hours - _SLACK or job.finish_hours > paid.end_hours + _SLACK:
        yield f"time of {job.name}", f"{paid.start_hours:g} to {paid.end_hours:g}", job.start_at_hours


def _reservation(
    place: int, reservation: Reservation, plan: Plan, offers: dict[str, Offer], tolerance: Tolerance
) -> Iterator[Broken]:
    """Yield what is wrong with a reservation: its offer, term, dollars, use, and more machines in use than bought."""
    offer, what = offers.get(reservation.offer), f"reservation {place}"
    if offer is None or not offer.is_reservation:
        yield what, "an offer that is reserved", reservation.offer
        return
    terms = reservation.terms
    if terms < 1 or (terms > 1 and offer.commitment is None):
        yield f"{what}: terms", "one, or several of a commitment", terms
        return
    term_hours, usd = offer.term_hours * terms, offer.committed_usd * reservation.count * terms
    if abs(reservation.end_hours - reservation.start_hours - term_hours) > _SLACK:
        yield f"{what}: term", term_hours, reservation.end_hours - reservation.start_hours
    if offer.block is not None and abs(reservation.start_hours - offer.block.start_hours) > _MINUTE:
        yield f"{what}: start", offer.block.start_hours, reservation.start_hours
    if abs(reservation.usd - usd) > tolerance.usd:
        yield f"{what}: usd", usd, reservation.usd
    at_once = price_at_once(offer) * reservation.count
    if abs(reservation.outlay_usd - at_once) > tolerance.usd:
        yield f"{what}: outlay_usd", at_once, reservation.outlay_usd
    users = [job for job in plan.jobs if job.reservation == place]
    yield from at_most(f"machines of {what}", reservation.count, peak(users, machines_of))
    used = math.fsum(machines_of(job) * (job.finish_hours - job.start_at_hours) for job in users)
    share = used / (term_hours * reservation.count) if reservation.count else 0.0
    if abs(used - reservation.used_hours) > 1e-6 * max(1.0, used) or abs(share - reservation.used_share) > 1e-6:
        yield f"{what}: used_hours", used, reservation.used_hours
    price = hourly_price(offer, offers.values())
    pays = usd / price if price else None
    if (pays is None) != (reservation.pays_from_hours is None) or abs(
        (pays or 0.0) - (reservation.pays_from_hours or 0.0)
    ) > _SLACK:
        yield f"{what}: pays_from_hours", pays, reservation.pays_from_hours


def _spending(plan: Plan, scenario: Scenario, offers: dict[str, Offer], tolerance: Tolerance) -> Iterator[Broken]:
    """Yield dollars in a period above their limits, and more reserved machines than there are.

    What a job spends in a period is charged evenly over the whole minutes that the timetable gives to its run.
    """
    given = [_whole_minutes(job.held_hours) for job in plan.jobs]
    last = max(job.start_at_hours + hours for job, hours in zip(plan.jobs, given, strict=True))
    for number, budget in enumerate(scenario.limits.budgets):
        for start, end in budget.periods(last):
            spent = math.fsum(
                job.cost_at_confidence
                * max(0.0, min(end, job.start_at_hours + hours) - max(start, job.start_at_hours))
                / hours
                for job, hours in zip(plan.jobs, given, strict=True)
            )
            spent += math.fsum(
                reservation.usd for reservation in plan.reservations if start <= reservation.start_hours < end
            )
            what = f"limits.budgets.{number} from {start:g} to {end:g} h"
            yield from at_most(what, budget.usd, spent, tolerance.usd * len(plan.jobs))
    reserved = Counter[str]()
    for reservation in plan.reservations:
        reserved[reservation.offer] += reservation.count
    for label, count in reserved.items():
        if label in offers:
            yield from at_most(f"reserved machines of {label}", offers[label].stock, count)


def _whole_minutes(hours: float) -> float:
    """Return hours rounded up to a whole minute, one at least."""
    return max(1, math.ceil(hours / _MINUTE - 1e-6)) * _MINUTE


def waited_hours(job: Assignment, scenario: Scenario) -> float:
    """Return the hours between the release of a job and its end in which it does not run."""
    wanted = next((scenario_job for scenario_job in scenario.jobs if scenario_job.name == job.name), None)
    return job.start_at_hours + job.paused_hours - (wanted.release_hours if wanted else 0.0)


def idle_hours(plan: Plan, scenario: Scenario) -> dict[str, float]:
    """Return the hours of own machines until the last end in which no job runs; nothing without a timetable.

    Machines that may be bought, or that the limits forbid, have none.
    """
    if not plan.is_timetable:
        return {}
    last = max(job.finish_hours for job in plan.jobs)
    found = {}
    for label, offer in zip(offer_labels(scenario.offers), scenario.offers, strict=True):
        if offer.own is None or offer.buy is not None or not scenario.limits.permits(offer):
            continue
        if offer.stock is not None:
            users = [job for job in plan.jobs if job.offer == label]
            busy = math.fsum(machines_of(job) * job.held_hours for job in users)
            found[label] = max(0.0, offer.stock * _open_hours(offer, last) - busy)
    return found


def _open_hours(offer: Offer, last: float) -> float:
    """Return the hours up to a time in which a machine may be used; what windows share counts once."""
    if not offer.available:
        return last
    times = sorted((max(0.0, start), min(last, end)) for window in offer.available for start, end in window.turns(last))
    hours = reach = 0.0
    for start, end in times:
        hours += max(0.0, end - max(start, reach))
        reach = max(reach, end)
    return hours


def lateness_usd(plan: Plan, scenario: Scenario) -> float:
    """Return what jobs that end after their due date cost."""
    dues = {job.name: (job.due_hours, job.late_usd_per_hour) for job in scenario.jobs}
    late = 0.0
    for job in plan.jobs:
        due, usd = dues.get(job.name, (None, 0.0))
        late += usd * max(0.0, job.finish_hours - due) if due is not None else 0.0
    return late
