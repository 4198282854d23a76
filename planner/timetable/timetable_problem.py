"""A timetable as data: tasks with modes, what they hold and buy, and what jobs share in whole minutes.

Times are whole minutes, but for deadlines and the part of its last minute that a run does not use: a run of 20.4
minutes holds what it needs for 21, and keeps a deadline of 20.4. Money is whole units of a sixtieth of a cent, so that
lateness in dollars per hour is a whole number per minute. With `x[j,m]` whether task j runs in mode m, `start[j]`, and
`end[j] = start[j] + minutes`:

    mode[j]          sum_m x[j,m] = 1
    window[j,m]      earliest[m] <= start[j] <= latest[m]                                   where x[j,m] = 1
    precedence[i,j]  start[j] >= end[i] + lag[i,j]
    deadline[j]      end[j] - unused[m] <= deadline[j]                                      where x[j,m] = 1
    capacity[r,t]    sum_{j,m: start[j] <= t < end[j]} need[m,r]*x[j,m] <= capacity[r], or bought[r] where r is a lot
    group[g]         sum_{r in g} bought[r] <= capacity[r]
    pool[p]          sum_{j,m} use[m,p]*x[j,m] <= pool[p]
    period[k]        sum_{j,m} spend[m]*overlap(k, start[j], end[j])/minutes[m]*x[j,m] <= period[k]

    minimise  sum_{j,m} cost[m]*x[j,m] + sum_r price[r]*bought[r] + sum_j late[j]*max(0, end[j] - due[j])
              + sum_j wait[j]*(start[j] - release[j])        or the last end
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Literal

from planner.candidates.market import Market
from planner.candidates.spot_candidates import ScreenedCandidates
from planner.formulation.program import TypicalPeak
from planner.scenario.limits import PeakLimit, given_peaks, may_pause
from planner.scenario.offer import Offer
from planner.scenario.offer_terms import Window
from planner.scenario.scenario import Scenario
from planner.solving.prepare import PreparedScenario

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


UNITS_PER_USD = 6000
"""Units of money in a dollar: sixty to a cent."""
SAME_MINUTE = 1e-6
"""Minutes: what floating-point arithmetic adds to a time is no minute."""


@dataclass(frozen=True)
class Mode:
    """One way to run a task; `needs` is what it holds while it runs, `uses` what it takes from pools once."""

    label: str
    minutes: int
    cost: int = 0
    needs: tuple[tuple[int, int], ...] = ()  # (resource, amount)
    uses: tuple[tuple[int, int], ...] = ()  # (pool, amount)
    spend: int = 0  # what period budgets count, spread evenly over the minutes
    earliest: int = 0
    latest: int | None = None  # latest start; None: no limit of its own
    rank: int = 0  # less is better among timetables of equal objective
    unused: float = 0.0  # part of its last minute in which it has already ended

    def may_start(self, minute: int) -> bool:
        """Return whether the mode may start in a minute."""
        return self.earliest <= minute and (self.latest is None or minute <= self.latest)


def latest_start(mode: Mode, deadline: float | None) -> int | None:
    """Return the last minute in which a mode may start by its own limit and a deadline; None without either.

    A run of 20.4 minutes and a deadline of 30.4: minute 10. Ending in whole minutes it would be minute 9.
    """
    limits = [] if mode.latest is None else [mode.latest]
    if deadline is not None:
        limits.append(math.floor(deadline - (mode.minutes - mode.unused) + SAME_MINUTE))
    return min(limits, default=None)


@dataclass(frozen=True)
class Task:
    """One job: its modes, when it may run, what lateness costs, and which tasks it waits for."""

    name: str
    modes: tuple[Mode, ...]
    release: int = 0
    deadline: float | None = None  # minutes, not rounded
    due: int | None = None
    late: int = 0  # units per minute after `due`
    wait: int = 0  # units per minute between release and start
    after: tuple[tuple[int, int], ...] = ()  # (task, lag in minutes)


@dataclass(frozen=True)
class Resource:
    """Something that is finite at one time; with a price it is a lot of which up to `capacity` are bought."""

    name: str
    capacity: int
    price: int | None = None
    group: str = ""  # of all lots of a group at most `capacity` are bought
    uses: tuple[tuple[int, int], ...] = ()  # what a lot takes from pools
    paid_at: int = 0  # minute in which a lot is paid


@dataclass(frozen=True)
class Pool:
    """Something that is finite in all: a budget, hours already paid for."""

    name: str
    amount: int


@dataclass(frozen=True)
class Period:
    """A budget for what is spent from one minute to another."""

    start: int
    end: int
    amount: int


@dataclass(frozen=True)
class Timetable:
    """All tasks with what they share."""

    tasks: tuple[Task, ...]
    resources: tuple[Resource, ...] = ()
    pools: tuple[Pool, ...] = ()
    periods: tuple[Period, ...] = ()
    horizon: int = 0  # no task ends later
    objective: Literal["cost", "last"] = "cost"


@dataclass(frozen=True)
class Schedule:
    """The mode and start of every task, and how many of each lot are bought."""

    modes: tuple[int, ...]
    starts: tuple[int, ...]
    bought: tuple[int, ...]  # per resource, 0 where it has no price

    def end(self, problem: Timetable, task: int) -> int:
        """Return the minute in which a task ends."""
        return self.starts[task] + self.mode(problem, task).minutes

    def mode(self, problem: Timetable, task: int) -> Mode:
        """Return the mode of a task."""
        return problem.tasks[task].modes[self.modes[task]]


def lateness_cost(task: Task, start: int, minutes: int) -> int:
    """Return what the start of a task costs beyond its mode: waiting, and lateness."""
    late = 0 if task.due is None else max(0, start + minutes - task.due)
    return task.wait * (start - task.release) + task.late * late


def objective_value(problem: Timetable, schedule: Schedule) -> int:
    """Return the objective of a schedule."""
    if problem.objective == "last":
        return max(schedule.end(problem, index) for index in range(len(problem.tasks)))
    total = sum(
        (resource.price or 0) * count for resource, count in zip(problem.resources, schedule.bought, strict=True)
    )
    for index, task in enumerate(problem.tasks):
        mode = schedule.mode(problem, index)
        total += mode.cost + lateness_cost(task, schedule.starts[index], mode.minutes)
    return total


def overlap(start: int, end: int, first: int, last: int) -> int:
    """Return how many minutes of [start, end) are in [first, last)."""
    return max(0, min(end, last) - max(start, first))


def period_spend(mode: Mode, start: int, period: Period) -> int:
    """Return what a mode spends in a period, rounded up to a unit."""
    minutes = overlap(start, start + mode.minutes, period.start, period.end)
    return -(-mode.spend * minutes // mode.minutes) if mode.minutes else 0


def violations(problem: Timetable, schedule: Schedule) -> list[str]:
    """Return every rule that a schedule breaks, in words; none for a feasible one."""
    broken = _task_violations(problem, schedule)
    for number, resource in enumerate(problem.resources):
        limit = resource.capacity if resource.price is None else schedule.bought[number]
        if schedule.bought[number] > resource.capacity:
            broken.append(f"{resource.name}: {schedule.bought[number]} bought of {resource.capacity}")
        if (most := peak_use(problem, schedule, number)) > limit:
            broken.append(f"{resource.name}: {most} in use of {limit}")
    for group, (capacity, members) in lot_groups(problem).items():
        if (count := sum(schedule.bought[number] for number in members)) > capacity:
            broken.append(f"{group}: {count} bought of {capacity}")
    chosen = [schedule.mode(problem, index) for index in range(len(problem.tasks))]
    for number, pool in enumerate(problem.pools):
        used = sum(amount for mode in chosen for which, amount in mode.uses if which == number)
        used += lots_from_pool(problem, schedule.bought, number)
        if used > pool.amount:
            broken.append(f"{pool.name}: {used} used of {pool.amount}")
    for period in problem.periods:
        spent = sum(period_spend(mode, start, period) for mode, start in zip(chosen, schedule.starts, strict=True))
        spent += lots_in_period(problem, schedule.bought, period)
        if spent > period.amount:
            broken.append(f"budget from {period.start} to {period.end}: {spent} of {period.amount}")
    return broken


def lots_from_pool(problem: Timetable, bought: Sequence[int], pool: int) -> int:
    """Return what the lots that are bought take from a pool."""
    pairs = zip(problem.resources, bought, strict=True)
    return sum(amount * count for lot, count in pairs for which, amount in lot.uses if which == pool)


def lots_in_period(problem: Timetable, bought: Sequence[int], period: Period) -> int:
    """Return what the lots that are paid in a period cost."""
    pairs = zip(problem.resources, bought, strict=True)
    return sum((lot.price or 0) * count for lot, count in pairs if period.start <= lot.paid_at < period.end)


def lot_groups(problem: Timetable) -> dict[str, tuple[int, list[int]]]:
    """Return how many lots of each group may be bought, and the resources that belong to it."""
    groups: dict[str, tuple[int, list[int]]] = {}
    for number, resource in enumerate(problem.resources):
        if resource.price is not None and resource.group:
            capacity, members = groups.get(resource.group, (resource.capacity, []))
            groups[resource.group] = (max(capacity, resource.capacity), [*members, number])
    return groups


def _task_violations(problem: Timetable, schedule: Schedule) -> list[str]:
    """Return what single tasks and precedence break."""
    broken = []
    for index, task in enumerate(problem.tasks):
        start, end, mode = schedule.starts[index], schedule.end(problem, index), schedule.mode(problem, index)
        if start < task.release or not mode.may_start(start):
            broken.append(f"{task.name}: starts at {start}")
        is_late = task.deadline is not None and end - mode.unused > task.deadline + SAME_MINUTE
        if end > problem.horizon or is_late:
            broken.append(f"{task.name}: ends at {end}")
        broken += [
            f"{task.name}: starts at {start}, {problem.tasks[other].name} ends at {schedule.end(problem, other)}"
            for other, lag in task.after
            if start < schedule.end(problem, other) + lag
        ]
    return broken


def peak_use(problem: Timetable, schedule: Schedule, resource: int) -> int:
    """Return the most of a resource that is in use at one time."""
    events: list[tuple[int, int]] = []
    for index in range(len(problem.tasks)):
        amount = sum(need for which, need in schedule.mode(problem, index).needs if which == resource)
        if amount:
            events += [(schedule.starts[index], amount), (schedule.end(problem, index), -amount)]
    level = most = 0
    for _, change in sorted(events):  # at one minute what ends comes first
        level += change
        most = max(most, level)
    return most


def is_tied(problem: Timetable, index: int) -> bool:
    """Return whether a task waits for another, or another for it."""
    return bool(problem.tasks[index].after) or any(other == index for task in problem.tasks for other, _ in task.after)


def topological_order(problem: Timetable) -> list[int]:
    """Return the tasks so that each comes after those it waits for; a cycle is a ValueError with its names."""
    waiting = {index: {other for other, _ in task.after} for index, task in enumerate(problem.tasks)}
    order: list[int] = []
    while waiting:
        ready = [index for index, others in waiting.items() if not others & waiting.keys()]
        if not ready:
            raise ValueError(", ".join(problem.tasks[index].name for index in waiting))
        order += ready
        for index in ready:
            del waiting[index]
    return order


def time_bounds(problem: Timetable) -> tuple[list[int], list[int]]:
    """Return the earliest start and the latest end of every task that release, deadline and precedence leave.

    A task cannot start before those it waits for have ended in their shortest modes, and must leave enough time for
    those that wait for it.
    """
    order = topological_order(problem)
    shortest = [min((mode.minutes for mode in task.modes), default=0) for task in problem.tasks]
    first = [max(task.release, min((m.earliest for m in task.modes), default=0)) for task in problem.tasks]
    last = [
        problem.horizon if task.deadline is None else min(math.ceil(task.deadline - SAME_MINUTE), problem.horizon)
        for task in problem.tasks
    ]
    for index in order:
        for other, lag in problem.tasks[index].after:
            first[index] = max(first[index], first[other] + shortest[other] + lag)
    for index in reversed(order):
        for other, lag in problem.tasks[index].after:
            last[other] = min(last[other], last[index] - shortest[index] - lag)
    return first, last


# Hours as whole minutes, windows of machines, and how far ahead a timetable looks.


MAX_WINDOWS_OF_OFFER = 200
"""Most windows of one offer that are looked at: a machine by night is open this often in half a year."""


def minutes_up(hours: float) -> int:
    """Return hours as minutes, rounded up: a run is never given less time than it needs."""
    return math.ceil(hours * 60 - 1e-6)


def minutes_down(hours: float) -> int:
    """Return hours as minutes, rounded down: a deadline is never moved back."""
    return math.floor(hours * 60 + 1e-6)


def open_times(windows: Sequence[Window], horizon: int) -> list[tuple[int, int]]:
    """Return when a machine may be used, in minutes up to the horizon; adjoining windows are one."""
    times = [
        (max(0, minutes_up(start)), min(horizon, minutes_down(end)))
        for window in windows
        for start, end in islice(window.turns(horizon / 60), MAX_WINDOWS_OF_OFFER + 1)
    ]
    merged: list[tuple[int, int]] = []
    for first, last in sorted(time for time in times if time[0] < time[1]):
        if merged and first <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return merged[:MAX_WINDOWS_OF_OFFER]


MAX_START_DATES = 4
"""Most dates on which a commitment may begin: the releases of jobs, thinned."""
MAX_TERMS = 12
"""Most terms back to back that jobs may share."""


@dataclass(frozen=True)
class Lot:
    """A reservation that may be bought: machines of an offer for a term, or for several back to back."""

    resource: int
    offer: int  # place in the market
    start: int
    end: int
    terms: int = 1


@dataclass
class SharedThings:
    """Resources, pools and periods with their places by what they stand for."""

    resources: list[Resource] = field(default_factory=list)
    pools: list[Pool] = field(default_factory=list)
    periods: list[Period] = field(default_factory=list)
    peaks: list[tuple[PeakLimit, int]] = field(default_factory=list)  # what is used at one time, and its resource
    budget: int | None = None
    outlay: int | None = None  # pool of dollars that are paid at once
    typical: list[tuple[TypicalPeak, int]] = field(default_factory=list)  # the typical stock, and its resource
    quota: dict[int, int] = field(default_factory=dict)  # provider of the candidate table -> resource
    stock: dict[int, int] = field(default_factory=dict)  # offer -> resource; a lot of no price where outlay is limited
    hours_left: dict[int, int] = field(default_factory=dict)  # offer -> pool, in machine minutes
    lots: dict[int, list[Lot]] = field(default_factory=dict)  # offer -> its lots

    @property
    def limits_spending(self) -> bool:
        """Whether the dollars that runs spend per hour are limited."""
        return any(limit.is_of_dollars for limit, _ in self.peaks)

    def add(self, resource: Resource) -> int:
        """Add a resource and return its place."""
        self.resources.append(resource)
        return len(self.resources) - 1

    def add_pool(self, pool: Pool) -> int:
        """Add a pool and return its place."""
        self.pools.append(pool)
        return len(self.pools) - 1


def usd_units(usd: float) -> int:
    """Return dollars in the units of a timetable, rounded to the nearest."""
    return round(usd * UNITS_PER_USD)


def usd_units_up(usd: float) -> int:
    """Return dollars in the units of a timetable, rounded up: a budget is never exceeded by rounding."""
    return math.ceil(usd * UNITS_PER_USD - 1e-6)


def shared_things(
    scenario: Scenario, market: Market, horizon: int, typical: Sequence[TypicalPeak] = ()
) -> SharedThings:
    """Return what is finite: GPUs, quotas, dollars per hour, stock, lots, budgets, hours that are paid for.

    Of the typical stock those limits that are given.
    """
    limits, shared = scenario.limits, SharedThings()
    if limits.budget_usd is not None:
        shared.budget = shared.add_pool(Pool("limits.budget_usd", math.floor(limits.budget_usd * UNITS_PER_USD)))
    for limit, most in given_peaks(limits):
        if limit.stays:
            shared.outlay = shared.add_pool(Pool(limit.path, math.floor(most * UNITS_PER_USD + 1e-6)))
            continue
        shared.peaks.append((limit, shared.add(Resource(limit.path, limit.capacity(most)))))
    for place, provider in enumerate(market.providers):
        if provider in limits.quota:
            shared.quota[place] = shared.add(Resource(f"limits.quota.{provider}", limits.quota[provider]))
    shared.typical = [(peak, shared.add(Resource(f"limits.{peak.key}", int(peak.most)))) for peak in typical]
    for budget in limits.budgets:
        amount = math.floor(budget.usd * UNITS_PER_USD)
        shared.periods += [
            Period(minutes_down(start), minutes_up(end), amount) for start, end in budget.periods(horizon / 60)
        ]
    _add_offers(shared, scenario, market, horizon)
    return shared


def _add_offers(shared: SharedThings, scenario: Scenario, market: Market, horizon: int) -> None:
    """Add what each offer has left: machines, hours that are paid for, reservations."""
    for place, (label, offer) in enumerate(zip(market.labels, market.offers, strict=True)):
        if offer.committed_hours is not None:
            pool = Pool(f"hours left of {label}", minutes_down(offer.committed_hours))
            shared.hours_left[place] = shared.add_pool(pool)
        if offer.is_reservation:
            _add_lots(shared, scenario, market, place, horizon)
        elif shared.outlay is not None and offer.outlay_usd:  # as many as are bought, which jobs use in turn
            name, uses = f"machines bought of {label}", _paid_from(shared, offer)
            shared.stock[place] = shared.add(Resource(name, _most_machines(scenario, offer), price=0, uses=uses))
        elif offer.stock is not None:
            shared.stock[place] = shared.add(Resource(f"stock of {label}", offer.stock))


def _most_machines(scenario: Scenario, offer: Offer) -> int:
    """Return how many machines of an offer all jobs together may hold."""
    machines = sum(job.trials.at_once for job in scenario.jobs) * offer.max_nodes
    return machines if offer.stock is None else min(offer.stock, machines)


def _paid_from(shared: SharedThings, offer: Offer, terms: int = 1) -> tuple[tuple[int, int], ...]:
    """Return what a machine that is bought, or reserved for so many terms, takes from the pools of dollars."""
    paid = {shared.budget: offer.committed_usd * terms, shared.outlay: offer.outlay_usd}
    return tuple((pool, usd_units_up(usd)) for pool, usd in paid.items() if pool is not None and usd)


def _add_lots(shared: SharedThings, scenario: Scenario, market: Market, place: int, horizon: int) -> None:
    """Add the reservations of an offer: a block at its time, a commitment from the release of any job.

    A commitment may be renewed: each number of terms back to back that ends before the horizon, and one more.
    """
    offer, label = market.offers[place], market.labels[place]
    count = _most_machines(scenario, offer)
    if offer.block is not None:
        starts = [minutes_up(offer.block.start_hours)]
    else:
        starts = sorted({minutes_up(job.release_hours) for job in scenario.jobs})[:MAX_START_DATES]
        if starts[0] + minutes_down(offer.term_hours) >= horizon:
            starts = starts[:1]  # it outlasts the plan: a later start buys nothing
    longest = MAX_TERMS if offer.commitment is not None else 1
    for start in starts:
        for terms in range(1, longest + 1):
            name = f"{label} from {start / 60:g} h" + (f", {terms} terms" if terms > 1 else "")
            price, uses = usd_units(offer.committed_usd * terms), _paid_from(shared, offer, terms)
            resource = shared.add(Resource(name, count, price, group=label, uses=uses, paid_at=start))
            end = start + minutes_down(offer.term_hours * terms)
            shared.lots.setdefault(place, []).append(Lot(resource, place, start, end, terms))
            if end >= horizon:  # one more buys nothing
                break


# Runs that stand still while the windows of their machine are closed, and go on when the next one opens.
#
# A run of `minutes` that starts in window w and ends in window v takes always the same time from start to end: its own
# minutes, the closed times between, and `resume` minutes for each. So each pair of windows is one more mode, which may
# start wherever its end lies in v. It holds its machine, and its place in quotas, from start to end.


@dataclass(frozen=True)
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
    usd = hours * machines * float(candidates.columns.on_demand_usd[place])
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
    useful = [window for window in windows if window[1] - window[0] > cost.minutes]
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
        unused=0.0,
    )
