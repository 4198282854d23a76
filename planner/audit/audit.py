"""Independent check of a plan: its figures are those of its configuration, its sums add up, it keeps every limit.

One configuration at a time in plain floats; nothing of how the plan was found is known here.
Not recomputed is what a plan says of other configurations than its own: the ladder of methods, runners-up, limits that
bind, notes, and the explanation of a question without a plan. Nothing in the plan depends on them.
"""

from __future__ import annotations

import datetime
import math
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np

from planner import open_choices
from planner.audit.audited_limits import choices_of_job, figures_of_job, limits_of_plan, totals
from planner.audit.audited_timetable import lateness_usd, waited_hours
from planner.audit.audited_ways import ways_of_plan
from planner.estimates.work import NEGLIGIBLE_CUT, VARIABLE, padded_length
from planner.evaluation.comparison import Broken, Tolerance, Violation, at_most, compare, unit_of
from planner.evaluation.evaluate import evaluate
from planner.evaluation.evaluated_physics import evaluate_work
from planner.evaluation.named_run import NamedRun, resolve_names
from planner.library.schema import Library
from planner.library.technique_tables import read_techniques
from planner.results.plan import Assignment, Plan
from planner.scenario.scenario import MOST_ABOVE_LEAST, Scenario, open_jobs
from planner.subjects import shown_by

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_NO_PLAN = ("infeasible", "no_plan")  # statuses without jobs
_CUT_SLACK = 1e-3
"""How far the two ways of computing a share of cut tokens may be apart."""
_TIE_SLACK = {"cost": 0.005, "time": 0.001}
"""How far above the optimum (dollars, hours) a plan may lie that is better in what counts second, at the least."""


def audit(
    plan: Plan, scenario: Scenario, library: Library, tolerance: Tolerance | None = None, asked_gap: float = 0.0
) -> list[Violation]:
    """Return every disagreement between the plan and what follows from scenario and library; none for a sound plan.

    `asked_gap` is the relative gap at which the solver was allowed to stop.
    """
    tolerance = tolerance or Tolerance()
    with suppress(ValueError):  # a day that is none is told with the figures that rest on it
        scenario = scenario.on_day(datetime.date.fromisoformat(plan.as_of))
    found = compare("", "scenario", scenario.name, plan.scenario, tolerance)
    found += [Violation("", *broken) for broken in _verdict(plan, max(asked_gap, tolerance.gap))]
    if (subject := shown_by(plan)) is not None and plan.status not in _NO_PLAN:
        found += subject.audit(plan, scenario, library, tolerance)
        plan, scenario = subject.rest(plan, scenario)
    if plan.status in _NO_PLAN or not plan.jobs:
        return found
    decided: Scenario | None = scenario
    wrong: list[Violation] = []
    if open_jobs(scenario) or any(job.model is not None for job in plan.jobs):
        decided, wrong = open_choices.decided_scenario(plan, scenario, library)
    found += wrong
    if decided is None:
        return found
    scenario = decided
    found += _audit_jobs(plan, scenario, library, tolerance)
    found += [Violation("", *broken) for broken in _cut_samples(plan, scenario, library)]
    found += ways_of_plan(plan, scenario, tolerance, lambda way, less: _audit_jobs(way, less, library, tolerance))
    for what, expected in totals(plan, scenario).items():
        found += compare("", what, expected, getattr(plan, what), tolerance, unit_of(what))
    return found + [Violation("", *broken) for broken in _objective(plan, scenario, tolerance)]


def _cut_samples(plan: Plan, scenario: Scenario, library: Library) -> Iterator[Broken]:
    """Yield where the plan states another share of cut tokens than follows from the lengths of samples and sequences.

    Here lengths stand on a grid and are cut one by one, where the plan has a closed form.
    """
    stated = {cut.job: cut for cut in plan.cut}
    for job in scenario.jobs:
        mean, said = job.tokens_per_sequence, stated.pop(job.name, None)
        if mean is None:
            sequence, cut = 0, 0.0
        else:
            sequence = evaluate_work(job, library.architecture(job.architecture)).sequence
            table = job.sequence_lengths
            is_spread = job.packing in VARIABLE or bool(table)
            held = padded_length(mean, job.length_cv, 1, sequence, table) if is_spread else min(mean, sequence)
            cut = max(0.0, 1.0 - float(held) / mean)
        if said is None and cut > NEGLIGIBLE_CUT + _CUT_SLACK:
            yield f"cut of {job.name}", cut, None
        elif said is not None and (abs(said.share - cut) > _CUT_SLACK or said.sequence_length != sequence):
            yield f"cut of {job.name}", cut, said.share
    for name in stated:
        yield f"cut of {name}", "a job of the scenario", None


def describe_unstated(plan: Plan, violations: Sequence[Violation]) -> list[str]:
    """Return a line for each figure of a job that the file of a plan does not have at all: older versions knew none."""
    stated = {part.name: part.model_fields_set for part in plan.jobs}
    return [
        f"{wrong.job}: {wrong.what} is not in the file: an older version wrote it; solve again and check the new plan"
        for wrong in violations
        if wrong.job in stated and wrong.what in Assignment.model_fields and wrong.what not in stated[wrong.job]
    ]


def _audit_jobs(plan: Plan, scenario: Scenario, library: Library, tolerance: Tolerance) -> list[Violation]:
    """Return all violations of the jobs of a plan, and of the limits that they keep together."""
    found, used_hours = list[Violation](), []
    wanted = {job.name: job.model_copy(update={"name": ""}) for job in scenario.jobs}
    sound: list[tuple[object, Assignment, float]] = []  # what differs in names alone is evaluated once
    for assignment in plan.jobs:
        job, nameless = wanted.get(assignment.name), assignment.model_copy(update={"name": ""})
        known = next((hours for other, same, hours in sound if same == nameless and other == job), None)
        if known is None:
            violations, known = _audit_job(assignment, plan, scenario, library, tolerance)
            found += violations
            if not violations:
                sound.append((job, nameless, known))
        used_hours.append(known)
    return found + [Violation("", *broken) for broken in limits_of_plan(plan, scenario, library, used_hours, tolerance)]


def _audit_job(
    assignment: Assignment, plan: Plan, scenario: Scenario, library: Library, tolerance: Tolerance
) -> tuple[list[Violation], float]:
    """Return all violations of one job, and its machine hours at its confidence."""
    context, found = resolve_names(NamedRun.of(assignment), scenario, library)
    if context is None:
        return found, 0.0
    name = assignment.name
    try:
        found += [Violation(name, *broken) for broken in choices_of_job(context)]
        with np.errstate(divide="ignore", invalid="ignore"):  # a plan of no GPUs or of no seconds per step
            evaluation = evaluate(context, datetime.date.fromisoformat(plan.as_of))
        found += compare(name, "", evaluation.assignment, assignment, tolerance)
        found += [Violation(name, *broken) for broken in figures_of_job(context, assignment, evaluation, tolerance)]
        return found, evaluation.late_machine_hours
    except (ValueError, KeyError, IndexError, ZeroDivisionError, OverflowError) as error:
        # A plan of nonsense counts or degrees has no figures to compare.
        return [*found, Violation(name, "figures", "something to compute", repr(error))], 0.0


def _verdict(plan: Plan, gap: float) -> Iterator[Broken]:
    """Yield where status, objective, bound, gap and explanation contradict each other."""
    if plan.infeasible is not None and plan.status != "infeasible":
        yield "infeasible", None, f"an explanation of a plan that is {plan.status}"
    if plan.status in _NO_PLAN:
        if plan.jobs:
            yield f"jobs of a plan that is {plan.status}", 0, len(plan.jobs)
        for what in ("objective", "cost", "cost_at_confidence", "hours"):
            if getattr(plan, what) is not None:
                yield f"{what} of a plan that is {plan.status}", None, "a figure"
    elif plan.objective is None or not plan.planned:
        yield "objective and jobs", "figures", None
    else:
        yield from _proof(plan, plan.objective, gap)


def _proof(plan: Plan, objective: float, gap: float) -> Iterator[Broken]:
    """Yield where bound and gap do not fit the objective; an optimal plan has a gap no larger than asked."""
    if plan.bound is None or plan.gap is None:
        if plan.status == "optimal" or (plan.bound is None) != (plan.gap is None):
            yield "bound and gap", "figures", None
        return
    yield from at_most("bound", objective, plan.bound, 1e-9 * max(1.0, abs(objective)))
    distance = max(0.0, objective - plan.bound)
    expected = distance / max(abs(objective), 1e-9)
    if not abs(expected - plan.gap) <= max(1e-6 * max(expected, abs(plan.gap)), 1e-9):
        yield "gap", expected, plan.gap
    # Below a millionth of a dollar (or hour) a gap is rounding, whatever it is relative to.
    if plan.status == "optimal" and distance > 1e-6:
        yield from at_most("gap of an optimal plan", gap, plan.gap, 1e-12)


def _objective(plan: Plan, scenario: Scenario, tolerance: Tolerance) -> Iterator[Broken]:
    """Yield an objective that is not that of the jobs, up to what a later pass may give up to break ties."""
    if scenario.objective_kind == "time":
        value = max(job.delay_hours + job.hours.at_confidence for job in plan.jobs)
    else:
        hours = math.fsum(waited_hours(job, scenario) + job.hours.expected for job in plan.jobs)
        value = math.fsum(job.cost_usd + _penalty_usd(job, scenario) for job in plan.jobs)
        value += math.fsum(reservation.usd for reservation in plan.reservations) + lateness_usd(plan, scenario)
        value += scenario.value_of_time_usd_per_hour * hours
    slack = tolerance.hours * max(1.0, abs(value))
    if plan.objective is None:
        return
    tie = _TIE_SLACK[scenario.objective_kind]
    if scenario.objective_kind == "cost":
        tie = max(tie, scenario.near_tie_usd(plan.objective))
    if scenario.waits_less and any(job.spot is not None for job in plan.jobs):
        tie = max(tie, MOST_ABOVE_LEAST * plan.objective)
    if not -slack - _TIE_SLACK[scenario.objective_kind] <= value - plan.objective <= tie + slack:
        yield "objective", value, plan.objective
    least = plan.objective if scenario.has_plain_dollars else None
    if plan.least_cost_usd != least:
        yield "least_cost_usd", least, plan.least_cost_usd


def _penalty_usd(assignment: Assignment, scenario: Scenario) -> float:
    """Return what avoiding the techniques in use would have been worth."""
    named = assignment.techniques
    in_use = read_techniques().in_use(vars(named), named.accumulation_steps > 1)
    job = next((job for job in scenario.jobs if job.name == assignment.name), None)
    penalties = job.techniques.penalty_usd if job else {}
    return math.fsum(usd for name, usd in penalties.items() if name in in_use)
