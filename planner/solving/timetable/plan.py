"""From a schedule to a plan: each job decoded at its start, what is reserved, and the baseline beside."""

from __future__ import annotations

import datetime
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from planner.decode.assignment import build_assignment
from planner.decode.chosen import ChosenCandidate
from planner.decode.commitments import pays_from_hours
from planner.decode.inputs import build_inputs
from planner.decode.probability import budget_probability, budget_warnings
from planner.formulation.timetable.problem import UNITS_PER_USD, Schedule, objective_value
from planner.results.plan import Assignment, Plan, plan_figures
from planner.results.plan_parts import Baseline, Pause, Reservation
from planner.scenario.scenario import MOST_ABOVE_LEAST
from planner.solvers.base import Termination
from planner.solvers.mathopt import solver_versions
from planner.solving.timetable.calendar import minutes_up, open_times
from planner.solving.timetable.optimise import PROVEN_GAP

if TYPE_CHECKING:
    from planner.scenario.scenario import Scenario, SolveOptions
    from planner.solving.prepare import PreparedScenario
    from planner.solving.timetable.build import BuiltTimetable
    from planner.solving.timetable.optimise import SolvedTimetable

TIMETABLE_NOTE = "jobs take turns on shared machines; each holds its machines until its end at its confidence"
"""A warning of every timetable."""


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
        return Plan(**facts, status=status, objective=None, bound=None, gap=None, cost_usd=None, hours=None)
    as_of = options.as_of or datetime.date.today()
    bought = {number: place for place, number in enumerate(n for n, count in enumerate(schedule.bought) if count)}
    places = range(len(built.problem.tasks))
    jobs = tuple(_assignment(prepared, built, schedule, index, bought, as_of) for index in places)
    reservations = tuple(_reservation(prepared, built, schedule, number, jobs) for number in bought)
    objective = objective_of(prepared.scenario, jobs, reservations)
    bound, gap = _proof(built, solved, objective)
    if _waits_less(prepared.scenario) and (on_spot := sum(job.spot is not None for job in jobs)):
        room = MOST_ABOVE_LEAST * objective / on_spot
        jobs = tuple(
            _assignment(prepared, built, schedule, index, bought, as_of, room) if jobs[index].spot else jobs[index]
            for index in places
        )
    figures = plan_figures(jobs, reservations, prepared.scenario.limits.budget_confidence)
    chance = budget_probability(prepared.scenario, jobs, sum(one.usd for one in reservations))
    short = budget_warnings(prepared.scenario, chance)
    warnings = dict.fromkeys((*short, TIMETABLE_NOTE, *(note for job in jobs for note in job.notes)))
    plan = Plan(
        **facts,
        status="optimal" if solved.termination is Termination.OPTIMAL else "feasible",
        objective=objective,
        bound=bound,
        gap=gap,
        least_cost_usd=objective if prepared.scenario.has_plain_dollars else None,
        inputs=build_inputs(prepared.scenario, jobs, solver_versions()),
        budget_usd=prepared.scenario.limits.budget_usd,
        budget_probability=chance,
        now=prepared.scenario.now_text,
        zone=prepared.scenario.zone,
        baseline=_baseline(solved, prepared.scenario.objective_kind),
        warnings=tuple(warnings),
        **figures,
    )
    return plan.model_copy(update={"idle_hours": _idle_hours(prepared, jobs)}) if plan.is_timetable else plan


def _baseline(solved: SolvedTimetable, compares: Literal["cost", "time"]) -> Baseline | None:
    """Return the better timetable by a simple rule; None where no simple rule keeps every limit."""
    if solved.baseline is None:
        return None
    name, usd, hours = solved.baseline
    return Baseline(name=name, compares=compares, cost_usd=usd, hours=hours)


def _waits_less(scenario: Scenario) -> bool:
    """Return whether policies on spot may cost a little more to wait less; not where dollars are limited."""
    limits = scenario.limits
    limited = limits.budget_usd is not None or limits.max_usd_per_hour is not None or bool(limits.budgets)
    return scenario.waits_less and not limited


def _assignment(
    prepared: PreparedScenario,
    built: BuiltTimetable,
    schedule: Schedule,
    index: int,
    bought: dict[int, int],
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
    return made.model_copy(update={"reservation": None if source.lot is None else bought[source.lot]})


def _reservation(
    prepared: PreparedScenario, built: BuiltTimetable, schedule: Schedule, resource: int, jobs: tuple[Assignment, ...]
) -> Reservation:
    """Return a lot that is bought, and how full it is."""
    lot = next(one for lots in built.shared.lots.values() for one in lots if one.resource == resource)
    offer, count = prepared.market.offers[lot.offer], schedule.bought[resource]
    place = [number for number, bought in enumerate(schedule.bought) if bought].index(resource)
    users = [job for job in jobs if job.reservation == place]
    held = sum(
        max(1, job.instances) * job.runs_at_once * ((job.end_at_hours or 0.0) - job.start_at_hours) for job in users
    )
    return Reservation(
        offer=prepared.market.labels[lot.offer],
        count=count,
        start_hours=lot.start / 60,
        end_hours=lot.start / 60 + offer.term_hours,
        usd=offer.committed_usd * count,
        used_hours=held,
        used_share=held / (offer.term_hours * count),
        pays_from_hours=pays_from_hours(prepared.market, offer, float(count)),
    )


def _idle_hours(prepared: PreparedScenario, jobs: tuple[Assignment, ...]) -> dict[str, float]:
    """Return the hours of own machines until the last end in which no job runs, though one may.

    A machine that would only be bought, or that the limits forbid, is none of them.
    """
    last, found = max(job.end_at_hours or 0.0 for job in jobs), {}
    for label, offer in zip(prepared.market.labels, prepared.market.offers, strict=True):
        is_ours = offer.own is not None and offer.buy is None and offer.stock is not None
        if is_ours and prepared.scenario.limits.permits(offer):
            held = [job for job in jobs if job.offer == label]
            busy = sum(job.instances * job.runs_at_once * job.held_hours for job in held)
            windows = open_times(offer.available, minutes_up(last)) if offer.available else [(0, minutes_up(last))]
            there = sum(max(0.0, min(end / 60, last) - start / 60) for start, end in windows)
            found[label] = max(0.0, (offer.stock or 0) * there - busy)
    return found


def objective_of(scenario: Scenario, jobs: tuple[Assignment, ...], reservations: tuple[Reservation, ...]) -> float:
    """Return what the timetable minimises: dollars with penalties, waiting and lateness, or the last end."""
    if scenario.objective_kind == "time":
        return max(job.end_at_hours or 0.0 for job in jobs)
    total = sum(one.usd for one in reservations)
    value = scenario.value_of_time_usd_per_hour
    for wanted, job in zip(scenario.jobs, jobs, strict=True):
        total += job.cost_usd + value * (job.delay_hours - wanted.release_hours + job.hours.expected)
        total += sum(usd for name, usd in wanted.techniques.penalty_usd.items() if name in _in_use(job))
        if wanted.due_hours is not None:
            total += wanted.late_usd_per_hour * max(0.0, (job.end_at_hours or 0.0) - wanted.due_hours)
    return total


def _in_use(job: Assignment) -> set[str]:
    """Return the 0/1 names of the techniques of a job."""
    from planner.library.techniques import read_techniques

    return set(read_techniques().in_use(vars(job.techniques), job.techniques.accumulation_steps > 1))


def _proof(built: BuiltTimetable, solved: SolvedTimetable, objective: float) -> tuple[float | None, float | None]:
    """Return bound and gap in dollars or hours; what the rounding of single jobs moves is no gap."""
    if solved.bound is None or solved.schedule is None:
        return None, None
    value = objective_value(built.problem, solved.schedule)
    if solved.termination is Termination.OPTIMAL and value - solved.bound <= max(1.0, PROVEN_GAP * value):
        return objective, 0.0
    unit, slack = (60, 1.0) if built.problem.objective == "last" else (UNITS_PER_USD, 0.0)
    if built.problem.objective == "cost":  # half a unit, and up to a minute of lateness, is rounding
        slack = sum(0.5 + task.late for task in built.problem.tasks)
    bound = min(objective, max(0.0, (solved.bound - slack) / unit))
    return bound, (objective - bound) / max(abs(objective), 1e-9)
