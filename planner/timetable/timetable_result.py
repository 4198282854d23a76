"""The best timetable, what decides a tie, and from its schedule to the plan, the baseline with it.

    strict   the least objective: of better ranks where that costs nothing
    near     at most a near tie above the least dollars: the least sum of ranks, then the earliest ends

A near tie counts only where both its passes are proven in time: a plan without that proof is the strict one.
"""

from __future__ import annotations

import datetime
import math
from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from planner.arrays import Floats, concatenate
from planner.errors import SolverError
from planner.formulation.program import TypicalPeak, TypicalPeaks
from planner.formulation.solvers import Termination, solver_versions
from planner.library.technique_tables import read_techniques
from planner.results.plan import SAME_MOMENT_HOURS, Assignment, Plan, TieStep, outlay_of, plan_figures
from planner.results.plan_parts import Baseline, Pause, Reservation, jobs_text
from planner.scenario.limits import limits_spending
from planner.scenario.scenario import MOST_ABOVE_LEAST, Scenario, SolveOptions
from planner.solving.chosen import ChosenCandidate, build_inputs, pays_from_hours
from planner.solving.notes import (
    added_budget_note,
    budget_probability,
    budget_warnings,
    build_assignment,
    typical_stock_note,
)
from planner.solving.optimise_choice import (
    RESOLVE_TIME_LIMIT_SECONDS,
    ResolvedPlan,
    Ties,
    best_side_by_side,
    first_better_step,
    may_take_turns,
    no_ties,
    resolved,
    try_solve,
)
from planner.solving.prepare import PreparedScenario, typical_stock
from planner.timetable.cp_sat_timetable import SearchLimits, solve_timetable
from planner.timetable.modes import BuiltTimetable, build_timetable, ending_by, has_near_ties
from planner.timetable.time_index import reduce_to_cost, reduce_to_rank
from planner.timetable.timetable_problem import (
    UNITS_PER_USD,
    Schedule,
    Timetable,
    minutes_up,
    objective_value,
    open_times,
    violations,
)
from planner.timetable.timetable_search import (
    TimetableSearch,
    baseline,
    best_greedy,
    bound_of_any_guarantee,
    further_guarantees,
    without_spare,
)
from planner.units import round_up
from planner.watch import finishing, keep_going, seconds_left

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def break_ties(search: TimetableSearch, left: Callable[[], float], work: float, gap: float) -> Schedule:
    """Return a schedule with the same objective: cheaper where time was minimised, of better ranks, ending earlier.

    Each pass may do so much work; `left` gives the seconds that the time limit leaves.
    """
    if search.problem.objective == "last":
        assert search.schedule is not None
        problem = ending_by(search.problem, objective_value(search.problem, search.schedule))
        search = TimetableSearch(problem, search.schedule, gap)
        search.improve(left(), work)
    known = search.known
    assert known is not None
    reduced = search.reduced.problem
    most = objective_value(reduced, known)
    if _may_improve_ranks(reduced, known):
        ranked = solve_timetable(reduced, SearchLimits(left(), hint=known, most=most, by_rank=True, work=work))
        known = ranked.schedule or known
    limits = SearchLimits(left(), hint=known, most=most, most_rank=_rank(reduced, known), work=work)
    return search.reduced.restored(solve_timetable(reduced, limits).schedule or known)


def near_tie(
    problem: Timetable, strict: Schedule, room: int, left: Callable[[], float], work: float
) -> Schedule | None:
    """Return the schedule that ties prefer of those that cost at most `room` units more than the strict optimum.

    None where one of the two passes is not proven with so much work, or in the seconds that the time limit leaves.
    """
    most = objective_value(problem, strict) + room
    cheap = reduce_to_cost(problem, most)
    known = cheap.reduced(strict)
    ranked = solve_timetable(cheap.problem, SearchLimits(left(), hint=known, most=most, by_rank=True, work=work))
    if ranked.termination is not Termination.OPTIMAL or ranked.schedule is None:
        return None
    least = _rank(cheap.problem, ranked.schedule)
    preferred = cheap.then(reduce_to_rank(cheap.problem, least))
    known = preferred.reduced(cheap.restored(ranked.schedule))
    limits = SearchLimits(left(), hint=known, most=most, most_rank=least, work=work)
    solved = solve_timetable(preferred.problem, limits)
    if solved.termination is not Termination.OPTIMAL or solved.schedule is None:
        return None
    return without_spare(problem, preferred.restored(solved.schedule))


def _rank(problem: Timetable, schedule: Schedule) -> int:
    """Return the sum of the ranks of the modes of a schedule."""
    return sum(schedule.mode(problem, index).rank for index in range(len(problem.tasks)))


def _may_improve_ranks(problem: Timetable, schedule: Schedule) -> bool:
    """Return whether a task has a mode of better rank that costs no more: without one a search is not worth it."""
    return any(
        other.rank < mode.rank and other.cost <= mode.cost
        for mode, task in ((schedule.mode(problem, index), task) for index, task in enumerate(problem.tasks))
        for other in task.modes
    )


# The best timetable: a greedy one as hint and baseline, the search, and a pass for the earliest ends.


DEFAULT_SECONDS = 60.0
"""Time limit of the search where none is given; a plan that is not proven by then states its gap."""
LEAST_TIE_WORK, MOST_TIE_WORK = 0.24, 1.6
"""Work of each pass that breaks ties, about 1 s and 5 s: as much as the search took, within these bounds."""
PROVEN_GAP = 1e-7


@dataclass(frozen=True)
class SolvedTimetable:
    """A schedule with its proof; `bound` is in the units of the objective, None where nothing is proven."""

    termination: Termination
    schedule: Schedule | None
    bound: float | None
    baseline: tuple[str, float, float] | None  # name, dollars and last end (h) of the better timetable by a simple rule
    strict: Schedule | None = None  # of the least objective, where a near tie prefers another schedule
    gave_up_ties: bool = False  # what near ties prefer was not proven
    work: float = 0.0  # of the search
    keeps_typical: bool = True  # False: no timetable keeps the typical stock of what it rents, a guess

    @property
    def least(self) -> Schedule | None:
        """Return the schedule of the least objective."""
        return self.schedule if self.strict is None else self.strict


LEAST_PASS_SECONDS = 0.1
"""That each pass is given of the time limit, at least."""
MOST_REFINEMENTS, REFINEMENT_WORK, REFINEMENT_MODES = 8, 5.0, 20_000
"""How often guarantees are added to a timetable on spot, at most; no more after so much work, or so many modes.

Around jobs that are planned apart it is twice as many modes: their timetables are often made without a budget, in a
third of the time.
"""
CLOSE_SHARE = 0.01
"""Of all dollars: a plan on spot this close to its bound is not made again with further guarantees."""


def solve_built_schedule(
    prepared: PreparedScenario, built: BuiltTimetable, options: SolveOptions
) -> tuple[BuiltTimetable, SolvedTimetable]:
    """Return the best schedule that keeps the typical stock, or without that where none keeps it, and its timetable.

    Limits of the typical stock that a schedule exceeds are added until there are none, as in a program. A timetable of
    some of the candidates answers a question about these, and holds none that it does not hold already.
    """
    began, limit = perf_counter(), options.time_limit_seconds or DEFAULT_SECONDS
    first = answer = _solve_built(prepared, built, options)
    typical, holds = typical_stock(prepared.scenario, prepared.market), list(built.typical)
    while typical is not None and answer[1].schedule is not None:
        held = {peak.key for peak in holds}
        more = [peak for peak in _exceeded(typical, *answer) if peak.key not in held]
        if not more:
            return answer
        left = limit - (perf_counter() - began)
        if built.keep is not None or left <= 0:
            break
        holds += more
        again = build_timetable(prepared, further=answer[0].further, typical=tuple(holds))
        answer = _solve_built(prepared, again, options.model_copy(update={"time_limit_seconds": left}))
    built, solved = first
    return built, replace(solved, keeps_typical=typical is None or solved.schedule is None)


def _exceeded(typical: TypicalPeaks, built: BuiltTimetable, solved: SolvedTimetable) -> tuple[TypicalPeak, ...]:
    """Return the limits of the typical stock that a schedule exceeds, at any time."""
    problem, peaks = built.with_ties, dict[str, TypicalPeak]()
    for schedule in filter(None, (solved.schedule, solved.strict)):
        sources = [job.sources[mode] for job, mode in zip(built.jobs, schedule.modes, strict=True)]
        rows = concatenate([source.screened.table.rows(np.asarray([source.row])) for source in sources])
        starts = np.asarray(schedule.starts)
        ends = np.asarray([schedule.end(problem, index) for index in range(len(problem.tasks))])
        for moment in set(schedule.starts):
            for peak in typical.exceeded(rows.rows((starts <= moment) & (moment < ends))):
                peaks[peak.key] = peak
    return tuple(peaks.values())


def _solve_built(
    prepared: PreparedScenario, built: BuiltTimetable, options: SolveOptions
) -> tuple[BuiltTimetable, SolvedTimetable]:
    """Return the best schedule of a scenario's timetable, which near ties may decide, and the timetable it is of.

    Where jobs may have other guarantees on spot than those of the modes, the bound is that of all guarantees, and some
    are added to the modes that may cost less.
    """
    keep_going()
    options = options.model_copy(update={"time_limit_seconds": seconds_left(most=options.time_limit_seconds)})
    with finishing():  # the search has its own limit, and what it finds by then is the plan
        began, limit = perf_counter(), options.time_limit_seconds or DEFAULT_SECONDS
        solved = _solved_once(built, prepared.scenario, options)
        work, modes, bound = 0.0, 0, built.least
        for number in range(MOST_REFINEMENTS + 1):
            if bound is None or solved.least is None or solved.bound is None:
                break
            value, passed = objective_value(built.problem, solved.least), perf_counter() - began
            if value - min(bound, solved.bound) <= _rounding(built.problem):
                break
            left = max(LEAST_PASS_SECONDS, limit - passed)
            any_length = bound_of_any_guarantee(prepared, built, left, tie_work(solved.work), PROVEN_GAP)
            work, modes = work + any_length.work, modes + any_length.modes
            bound, passed = max(bound, any_length.bound), perf_counter() - began
            most_modes = (2 if prepared.apart_usd else 1) * REFINEMENT_MODES
            is_over = number == MOST_REFINEMENTS or work > REFINEMENT_WORK or modes > most_modes
            is_over |= passed > limit / 2
            if is_over or value - bound <= CLOSE_SHARE * (value + UNITS_PER_USD * prepared.apart_usd):
                break
            further = further_guarantees(prepared, built, solved.least, any_length.spans)
            if further == built.further:
                break
            finer = build_timetable(prepared, further=further, typical=built.typical)
            rest = options.model_copy(update={"time_limit_seconds": limit - passed})
            again = _solved_once(finer, prepared.scenario, rest)
            work += again.work
            if again.least is None or objective_value(finer.problem, again.least) > value:  # by the time limit
                break
            built, solved = finer, again
        return built, _for_any_guarantee(built, solved, bound)


def _solved_once(built: BuiltTimetable, scenario: Scenario, options: SolveOptions) -> SolvedTimetable:
    """Return the best schedule of the modes of a timetable."""
    near = (built.with_ties, scenario.near_tie_usd) if has_near_ties(scenario) else ()
    return solve_schedule(built.problem, options, *near)


def _for_any_guarantee(built: BuiltTimetable, solved: SolvedTimetable, least: float | None) -> SolvedTimetable:
    """Return a timetable with the bound of all guarantees that its jobs may have, not of those of its modes alone."""
    if least is None or solved.least is None or solved.bound is None:
        return solved
    bound = min(solved.bound, least)
    if objective_value(built.problem, solved.least) - bound <= _rounding(built.problem):
        return solved
    termination = Termination.FEASIBLE if solved.termination is Termination.OPTIMAL else solved.termination
    return replace(solved, termination=termination, bound=bound)


def solve_schedule(
    problem: Timetable, options: SolveOptions, with_ties: Timetable | None = None, ties: Ties = no_ties
) -> SolvedTimetable:
    """Return the best schedule within the time limit and the gap of the options.

    The modes of `with_ties` begin with those of the problem. One of its schedules that costs at most `ties` (dollars,
    of the least ones) more is taken where the order of ties prefers it.
    It is proven to be the best of the modes, and so is its bound.
    """
    seconds = DEFAULT_SECONDS if options.time_limit_seconds is None else options.time_limit_seconds
    began = perf_counter()
    if any(not task.modes for task in problem.tasks):
        return SolvedTimetable(Termination.INFEASIBLE, None, None, None)
    simple = baseline(problem)
    named = None if simple is None else (simple[0], _dollars(problem, simple[1]), _last_hours(problem, simple[1]))
    search = TimetableSearch(problem, best_greedy(problem), max(options.gap, PROVEN_GAP))
    search.improve(seconds)
    if search.schedule is None:
        return SolvedTimetable(search.termination, None, None, named)
    strict, near, gave_up, work = search.schedule, None, False, tie_work(search.work)

    def left() -> float:
        return max(LEAST_PASS_SECONDS, seconds - (perf_counter() - began))

    if with_ties is not None and search.termination is Termination.OPTIMAL:
        rounded = sum(1 + task.late for task in problem.tasks)  # half a unit, and up to a minute of lateness, of each
        room = math.floor(UNITS_PER_USD * ties(_dollars(problem, strict))) - rounded
        near = near_tie(with_ties, strict, room, left, work) if room > 0 else None
        gave_up = room > 0 and near is None
    schedule = near or break_ties(search, left, work, search.gap)
    if broken := violations(problem if near is None else with_ties or problem, schedule):
        raise SolverError("the timetable breaks its own rules: " + "; ".join(broken[:5]))
    kept = strict if near else None
    return SolvedTimetable(search.termination, schedule, search.bound, named, kept, gave_up, search.work)


def tie_work(searched: float) -> float:
    """Return the work of a pass that breaks ties, after a search of so much: as much, within 0.24 and 1.6."""
    return min(MOST_TIE_WORK, max(LEAST_TIE_WORK, searched))


def _dollars(problem: Timetable, schedule: Schedule) -> float:
    """Return the cost of a schedule in dollars, whatever is minimised."""
    return objective_value(replace(problem, objective="cost"), schedule) / UNITS_PER_USD


def _last_hours(problem: Timetable, schedule: Schedule) -> float:
    """Return when the last job of a schedule ends, in hours."""
    return objective_value(replace(problem, objective="last"), schedule) / 60


TIES_GIVEN_UP = "what near ties prefer was not proven in time, so that the least cost is planned (solve.ties)"
TIMETABLE_NOTE = "jobs take turns on shared machines; each holds its machines until its end at its confidence"
"""A warning of timetables in which a job takes a machine after another."""
WITHIN_TERMS = "runs end within the terms of a commitment; only a single job goes on by the hour after them"
"""A warning of timetables that commit: what is not modelled there might cost less."""


def timetable_plan(
    prepared: PreparedScenario,
    built: BuiltTimetable,
    solved: SolvedTimetable,
    options: SolveOptions,
    facts: dict[str, Any],
) -> Plan:
    """Return the plan of a schedule; `facts` are the fields that do not depend on it."""
    schedule = solved.schedule
    if schedule is None:
        status = "infeasible" if solved.termination is Termination.INFEASIBLE else "no_plan"
        return Plan(**facts, status=status, objective=None, bound=None, gap=None, cost=None, hours=None)
    as_of = options.as_of or datetime.date.today()
    run = runs_of(prepared, built, schedule, as_of)
    least = run if solved.strict is None else runs_of(prepared, built, solved.strict, as_of)
    objective = objective_of(prepared.scenario, *least)
    above = objective_of(prepared.scenario, *run) - objective
    if above > max(0.0, prepared.scenario.near_tie_usd(objective)) and solved.strict is not None:  # by rounding alone
        schedule, run, above = solved.strict, least, 0.0
    jobs, reservations = run
    bound, gap = _proof(built, solved, objective)
    if _waits_less(prepared.scenario):
        jobs = _waiting_less(prepared, built, schedule, jobs, as_of, MOST_ABOVE_LEAST * objective - max(0.0, above))
    figures = plan_figures(jobs, reservations, prepared.scenario.limits.budget_confidence)
    paid = sum(reservation.usd for reservation in reservations)
    chance = budget_probability(prepared.scenario, jobs, paid)
    short = (*budget_warnings(prepared.scenario, chance), *added_budget_note(prepared.scenario, jobs, paid))
    warnings = dict.fromkeys((*short, *_warnings(prepared.scenario, built, solved, jobs, reservations)))
    plan = Plan(
        **facts,
        status="optimal" if solved.termination is Termination.OPTIMAL else "feasible",
        objective=objective,
        bound=bound,
        gap=gap,
        least_cost_usd=objective if prepared.scenario.has_plain_dollars else None,
        tie_decided_by=None if solved.strict is None else _tie_decided_by(built, schedule, solved.strict),
        inputs=build_inputs(prepared.scenario, jobs, solver_versions()),
        budget_usd=prepared.scenario.limits.budget_usd,
        budget_probability=chance,
        now=prepared.scenario.now_text,
        zone=prepared.scenario.zone,
        baseline=_baseline(solved, prepared.scenario.objective_kind),
        warnings=tuple(warnings),
        keeps_typical_stock=solved.keeps_typical,
        **figures,
    )
    return plan.model_copy(update={"idle_hours": _idle_hours(prepared, jobs)}) if plan.is_timetable else plan


def _warnings(
    scenario: Scenario,
    built: BuiltTimetable,
    solved: SolvedTimetable,
    jobs: tuple[Assignment, ...],
    reservations: tuple[Reservation, ...],
) -> Iterator[str]:
    """Yield the warnings of a timetable: stock, hours, terms, turns and near ties, then the notes of its jobs."""
    yield from typical_stock_note({peak.words: peak.most for peak in built.typical}, solved.keeps_typical)
    yield from overuse_notes(scenario, jobs)
    committed = {label for label, offer in scenario.labelled_offers() if offer.commitment is not None}
    if any(reservation.offer in committed for reservation in reservations):
        yield WITHIN_TERMS
    if take_turns(jobs):
        yield TIMETABLE_NOTE
    if solved.gave_up_ties:
        yield TIES_GIVEN_UP
    yield from (note for job in jobs for note in job.notes)


def take_turns(jobs: tuple[Assignment, ...]) -> bool:
    """Return whether a job starts on machines of an offer after another job there has ended."""
    first_end: dict[str, float] = {}
    for job in jobs:
        first_end[job.offer] = min(job.finish_hours, first_end.get(job.offer, math.inf))
    return any(0 < job.start_at_hours >= first_end[job.offer] - SAME_MOMENT_HOURS for job in jobs)


def overuse_notes(scenario: Scenario, jobs: tuple[Assignment, ...]) -> tuple[str, ...]:
    """Return a note on each purchase whose jobs in turn use more hours than the horizon spreads its wear over."""
    notes = []
    for label, offer in scenario.labelled_offers():
        users = tuple(job for job in jobs if job.offer == label)
        if offer.buy is None or offer.own is None or offer.own.use_hours is None or not users:
            continue
        machines = max(1.0, outlay_of(users) / offer.outlay_usd)
        used = math.fsum(job.hours.expected * max(1, job.instances) * job.runs_at_once for job in users)
        if used > (planned := machines * offer.own.use_hours) * (1 + 1e-9):
            notes.append(
                f"the jobs use {label} for {used:,.0f} h and the horizon has {planned:,.0f}: they are charged with "
                "more than it loses, so raise horizon.hours_per_month or horizon.months"
            )
    return tuple(notes)


def _baseline(solved: SolvedTimetable, compares: Literal["cost", "time"]) -> Baseline | None:
    """Return the better timetable by a simple rule; None where no simple rule keeps every limit."""
    if solved.baseline is None:
        return None
    name, usd, hours = solved.baseline
    return Baseline(name=name, compares=compares, cost_usd=usd, hours=hours)


def _waits_less(scenario: Scenario) -> bool:
    """Return whether policies on spot may cost a little more to wait less; not where dollars are limited."""
    limits = scenario.limits
    limited = limits.budget_usd is not None or limits_spending(limits) or bool(limits.budgets)
    return scenario.waits_less and not limited


def runs_of(
    prepared: PreparedScenario, built: BuiltTimetable, schedule: Schedule, as_of: datetime.date
) -> tuple[tuple[Assignment, ...], tuple[Reservation, ...]]:
    """Return how and when each job of a schedule is run, and what is reserved."""
    places = range(len(built.problem.tasks))
    jobs = tuple(_assignment(prepared, built, schedule, index, as_of) for index in places)
    return jobs, tuple(
        _reservation(prepared, built, schedule, number, jobs) for number in _places_bought(built, schedule)
    )


def _places_bought(built: BuiltTimetable, schedule: Schedule) -> dict[int, int]:
    """Return the place among the reservations of every lot that is bought; machines to keep are none of them."""
    lots = {lot.resource for lots in built.shared.lots.values() for lot in lots}
    return {number: place for place, number in enumerate(n for n in sorted(lots) if schedule.bought[n])}


def _waiting_less(
    prepared: PreparedScenario,
    built: BuiltTimetable,
    schedule: Schedule,
    jobs: tuple[Assignment, ...],
    as_of: datetime.date,
    room_usd: float,
) -> tuple[Assignment, ...]:
    """Return the jobs with policies on spot that wait less for at most so many dollars together."""
    on_spot = sum(job.spot is not None for job in jobs)
    return tuple(
        _assignment(prepared, built, schedule, index, as_of, max(0.0, room_usd) / on_spot) if job.spot else job
        for index, job in enumerate(jobs)
    )


def _tie_decided_by(built: BuiltTimetable, chosen: Schedule, least: Schedule) -> TieStep | None:
    """Return the first step of a tie in which a schedule is better than the strict optimum; None where none is."""

    def steps(schedule: Schedule) -> Floats:
        sources = [made.sources[mode] for made, mode in zip(built.jobs, schedule.modes, strict=True)]
        tables = [(source.screened.table, source.row, len(source.pauses)) for source in sources]
        of_ties = [[*table.tie_steps[row], table.instances[row], pauses] for table, row, pauses in tables]
        ends = sum(schedule.end(built.with_ties, index) for index in range(len(sources)))
        return np.append(np.sum(of_ties, axis=0), ends / 60)

    return first_better_step(steps(least) - steps(chosen))


def _assignment(
    prepared: PreparedScenario,
    built: BuiltTimetable,
    schedule: Schedule,
    index: int,
    as_of: datetime.date,
    waiting_room_usd: float = 0.0,
) -> Assignment:
    """Return how and when one job is run; on spot it may cost so many dollars more than the least to wait less."""
    source = built.jobs[index].sources[schedule.modes[index]]
    chosen = ChosenCandidate.of(prepared.candidates[index], source.screened, prepared.market, source.row, source.share)
    chosen = replace(
        chosen,
        is_reserved=source.lot is not None,
        pauses=tuple(Pause(from_hours=first / 60, to_hours=last / 60) for first, last in source.pauses),
        start_at_hours=schedule.starts[index] / 60,
    )
    if waiting_room_usd:  # what the policy guarantees stays, and so does the timetable
        chosen = chosen.with_less_waiting(waiting_room_usd, math.inf, prepared.scenario.limits.spot_share.min)
    # The run itself is not rounded to minutes: it gives its machines back within the last one.
    made = build_assignment(chosen, prepared.scenario, prepared.library, as_of)
    place = None if source.lot is None else _places_bought(built, schedule)[source.lot]
    return made.model_copy(update={"reservation": place})


def _reservation(
    prepared: PreparedScenario, built: BuiltTimetable, schedule: Schedule, resource: int, jobs: tuple[Assignment, ...]
) -> Reservation:
    """Return a lot that is bought, and how full it is."""
    lot = next(lot for lots in built.shared.lots.values() for lot in lots if lot.resource == resource)
    offer, count = prepared.market.offers[lot.offer], schedule.bought[resource]
    place = _places_bought(built, schedule)[resource]
    users = [job for job in jobs if job.reservation == place]
    term_hours = offer.term_hours * lot.terms
    held = sum(
        max(1, job.instances) * job.runs_at_once * ((job.end_at_hours or 0.0) - job.start_at_hours) for job in users
    )
    return Reservation(
        offer=prepared.market.labels[lot.offer],
        count=count,
        start_hours=lot.start / 60,
        end_hours=lot.start / 60 + term_hours,
        terms=lot.terms,
        usd=offer.committed_usd * count * lot.terms,
        outlay_usd=offer.outlay_usd * count,
        used_hours=held,
        used_share=held / (term_hours * count),
        pays_from_hours=pays_from_hours(prepared.market, offer, float(count * lot.terms)),
    )


def _idle_hours(prepared: PreparedScenario, jobs: tuple[Assignment, ...]) -> dict[str, float]:
    """Return the hours of own machines until the last end in which no job runs, though one may.

    A machine that would only be bought, or that the limits forbid, is none of them.
    """
    last, idle = max(job.end_at_hours or 0.0 for job in jobs), {}
    for label, offer in zip(prepared.market.labels, prepared.market.offers, strict=True):
        is_ours = offer.own is not None and offer.buy is None and offer.stock is not None
        if is_ours and prepared.scenario.limits.permits(offer):
            held = [job for job in jobs if job.offer == label]
            busy = sum(job.instances * job.runs_at_once * job.held_hours for job in held)
            windows = open_times(offer.available, minutes_up(last)) if offer.available else [(0, minutes_up(last))]
            there = sum(max(0.0, min(end / 60, last) - start / 60) for start, end in windows)
            idle[label] = max(0.0, (offer.stock or 0) * there - busy)
    return idle


def objective_of(scenario: Scenario, jobs: tuple[Assignment, ...], reservations: tuple[Reservation, ...]) -> float:
    """Return what the timetable minimises: dollars with penalties, waiting and lateness, or the last end."""
    if scenario.objective_kind == "time":
        return max(job.end_at_hours or 0.0 for job in jobs)
    total = sum(reservation.usd for reservation in reservations)
    value = scenario.value_of_time_usd_per_hour
    for wanted, job in zip(scenario.jobs, jobs, strict=True):
        total += job.cost_usd + value * (job.delay_hours - wanted.release_hours + job.hours.expected)
        total += sum(usd for name, usd in wanted.techniques.penalty_usd.items() if name in _in_use(job))
        if wanted.due_hours is not None:
            total += wanted.late_usd_per_hour * max(0.0, (job.end_at_hours or 0.0) - wanted.due_hours)
    return total


def _in_use(job: Assignment) -> set[str]:
    """Return the 0/1 names of the techniques of a job."""
    return set(read_techniques().in_use(vars(job.techniques), job.techniques.accumulation_steps > 1))


def _proof(built: BuiltTimetable, solved: SolvedTimetable, objective: float) -> tuple[float | None, float | None]:
    """Return bound and gap in dollars or hours; what the rounding of single jobs moves is no gap."""
    if solved.bound is None or solved.least is None:
        return None, None
    value = objective_value(built.problem, solved.least)
    if solved.termination is Termination.OPTIMAL and value - solved.bound <= max(1.0, PROVEN_GAP * value):
        return objective, 0.0
    unit = 60 if built.problem.objective == "last" else UNITS_PER_USD
    bound = min(objective, max(0.0, (solved.bound - _rounding(built.problem)) / unit))
    return bound, (objective - bound) / max(abs(objective), 1e-9)


def _rounding(problem: Timetable) -> float:
    """Return the units of an objective that are rounding: a minute, or half a unit and a minute of lateness per job."""
    return 1.0 if problem.objective == "last" else sum(0.5 + task.late for task in problem.tasks)


# The plan that `solve` makes of a scenario, side by side or in turn, with what a relaxation says of it.


MOST_JOBS = 4
"""Of more jobs a plan side by side is reported as it was found: their best timetable may take many seconds."""
OPTIONS = SolveOptions(time_limit_seconds=RESOLVE_TIME_LIMIT_SECONDS)
FACTS: dict[str, Any] = {
    "solver": "cp-sat",
    "seconds": 0.0,
    "as_of": "2000-01-01",
    "candidates": {"made": 0, "rejected": 0, "dominated": 0},
}
"""Fields that a plan must have and of which nothing is reported."""


@dataclass(frozen=True)
class TimetablePlan:
    """What a relaxation reports of a plan whose jobs take turns, under the names of `ResolvedPlan`."""

    prepared: PreparedScenario
    description: str
    cost_usd: float  # expected
    late_usd: float  # at the requested confidence: what a budget limits
    hours: float  # expected, until the last job ends
    objective: float


ReportedPlan = ResolvedPlan | TimetablePlan
"""What a relaxation reports: a plan side by side, or one in turn."""


def as_solved(plan: ReportedPlan) -> ReportedPlan:
    """Return the plan that `solve` makes of the scenario of a plan side by side: in turn it may be cheaper."""
    in_turn = len(plan.prepared.scenario.jobs) <= MOST_JOBS and may_take_turns(plan.prepared)
    return (solve_as_asked(plan.prepared) or plan) if in_turn else plan


def may_cost_less_in_turn(plan: ReportedPlan) -> bool:
    """Return whether a plan is side by side, no timetable was solved for it, and one may be cheaper."""
    prepared = plan.prepared
    if not isinstance(plan, ResolvedPlan) or len(prepared.scenario.jobs) <= MOST_JOBS or not may_take_turns(prepared):
        return False
    if prepared.scenario.needs_timetable:
        return True
    return best_side_by_side(prepared, OPTIONS) is None  # else no timetable is cheaper


def solve_as_asked(prepared: PreparedScenario) -> ReportedPlan | None:
    """Return the best plan as `solve` makes it, or None if none was found in time.

    Jobs that may take turns run side by side where the best plan without limits at one time keeps these limits.
    """
    if not may_take_turns(prepared):
        return try_solve(prepared)
    if not all(len(candidates.table) for candidates in prepared.screened):
        return None
    if not prepared.scenario.needs_timetable:
        best = best_side_by_side(prepared, OPTIONS)
        if best is not None:
            return resolved(prepared, best)
    return _in_turn(prepared)


def _in_turn(prepared: PreparedScenario) -> TimetablePlan | None:
    """Return the best timetable; CP-SAT is loaded only where there may be one."""
    built = build_timetable(prepared)
    built, solved = solve_built_schedule(prepared, built, OPTIONS)
    if solved.schedule is None:
        return None
    plan = timetable_plan(prepared, built, solved, SolveOptions(), FACTS | {"scenario": prepared.scenario.name})
    if plan.cost is None or plan.hours is None or plan.objective is None:
        return None
    how = "in turn" if any(job.start_at_hours for job in plan.jobs) else "side by side"
    description = f"{jobs_text(len(plan.jobs))} {how}, last finish by {round_up(plan.hours.at_confidence, 1):,.1f} h"
    late = plan.cost.expected if plan.cost_at_confidence is None else plan.cost_at_confidence
    return TimetablePlan(prepared, description, plan.cost.expected, late, plan.hours.expected, plan.objective)
