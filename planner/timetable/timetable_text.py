"""A timetable as text: which job on what, from when to when, what is reserved, what a simple rule would cost."""

from __future__ import annotations

from planner import generation
from planner.documents.quantities import moment_after
from planner.report import words
from planner.report.explanation_text import limit_name
from planner.report.plan_sections import (
    at_one_time,
    budget,
    format_optimality,
    format_place,
    old_prices,
    outlay,
    price_text,
    render_notes,
)
from planner.report.plan_text import further_ways_of_all, near_tie
from planner.report.words import line_room
from planner.results.plan import Assignment, Plan
from planner.results.plan_parts import Reservation, jobs_text
from planner.units import round_up

MAX_JOBS_SHOWN = 60
"""Most jobs in the table; `--details` shows them all."""
LONGEST_NAME = 20
"""Columns of the name of a job."""
MAX_PAUSES_SHOWN = 4
NOTICED_IDLE_HOURS = 0.05
"""Idle hours below which nothing is said of them."""


def render_timetable(plan: Plan) -> list[str]:
    """Return the summary, a row per job in order of start, reservations, idle machines and the baseline."""
    lines = [
        words.first_fitting(plan.scenario, *_timetable_headlines(plan)),
        *outlay(plan),
        *old_prices(plan),
        *at_one_time(plan),
        "",
    ]
    lines += _table(plan)
    lines += [""] if plan.reservations or plan.idle_hours or plan.baseline else []
    of_label = timetable_sections(plan)
    of_label["Limits"] += words.wrap_all(budget(plan), line_room(), 2)
    lines += [line for label, texts in of_label.items() for line in words.section(label, texts)]
    ages = dict.fromkeys(words.shorten(price_text(job), line_room()) for job in plan.jobs)
    lines += words.section("Prices", list(ages)[: words.most(2)])
    lines += words.section("Scope", near_tie(plan))
    lines += words.section("Else", further_ways_of_all(plan))
    return [*lines, *render_notes(plan.warnings, words.most(4))]


def timetable_sections(plan: Plan) -> dict[str, list[str]]:
    """Return what holds of jobs over time under each label; no line under those that say nothing here."""
    is_over_time = plan.is_timetable
    return {
        "Reserved": [line for reservation in plan.reservations for line in _reserved(plan, reservation)],
        "Pauses": [line for job in plan.jobs for line in _pauses(plan, job)],
        "Idle": _idle(plan),
        "Against": _baseline(plan) if is_over_time else [],
        "Limits": _shared(plan),
    }


def _timetable_headlines(plan: Plan) -> list[str]:
    """Return how many jobs, when the last one ends, dollars and optimality: with both times, and with the late one."""
    jobs = jobs_text(len(plan.jobs))
    rest = [words.usd(plan.cost.expected)] if plan.cost else []
    rest = [*rest, format_optimality(plan)]
    if plan.hours is None:
        return [", ".join((jobs, *rest))]
    late = f"last finish by {end_text(plan, plan.hours.at_confidence)}"
    both = f"{late} (likely {moment_text(plan, plan.hours.expected)})"
    return [", ".join((jobs, time, *rest)) for time in (both, late)]


def _table(plan: Plan) -> list[str]:
    """Return the table of jobs, the first to start first."""
    jobs = sorted(plan.jobs, key=lambda job: (job.start_at_hours, job.end_at_hours or 0.0, job.name))
    cells = [("job", "machine", "start", "by", "cost", "how")]
    for job in jobs[: words.most(MAX_JOBS_SHOWN)]:
        times = moment_text(plan, job.start_at_hours), end_text(plan, job.finish_hours)
        name = words.shorten(words.sanitise(job.name), LONGEST_NAME)
        cells.append((name, _place(job), *times, words.usd(job.cost_usd), _method(job)))
    lines = words.table(cells, right=(2, 3, 4), cut=1)
    if len(jobs) > words.most(MAX_JOBS_SHOWN):
        lines.append(f"  {len(jobs) - MAX_JOBS_SHOWN} more jobs: --details")
    return lines


def _place(job: Assignment) -> str:
    """Return the machines and how they are paid where that is not by the hour on demand."""
    if job.reservation is not None:
        return f"{format_place(job, with_region=False)}, reserved"
    spot = ", spot" if job.spot_share > 0 else ""
    return f"{format_place(job, with_region=False)}{spot}"


def _method(job: Assignment) -> str:
    """Return the method in a word."""
    how = job.techniques
    if job.inference is not None:
        return f"{generation.engine_name(job.inference.engine)} {how.weight_bits}-bit"
    if how.method == "full":
        return "full"
    return "QLoRA" if how.weight_bits == 4 else f"LoRA {how.weight_bits}"


def moment_text(plan: Plan, hours: float) -> str:
    """Return a moment as weekday and time where the plan knows the date, else as hours from its start."""
    if not plan.now:
        return words.hours(hours) if hours else "0.0 h"
    moment = moment_after(plan.now, hours, plan.zone)
    return moment.strftime("%a %d %b %H:%M")


def end_text(plan: Plan, hours: float) -> str:
    """Return an end at the confidence as `moment_text` does, but rounded up: to the minute, or as `words.hours_by`."""
    return moment_text(plan, round_up(hours * 60, 0) / 60 if plan.now else words.shown_by(hours))


def _reserved(plan: Plan, reservation: Reservation) -> list[str]:
    """Return what is reserved, how full it is, and from which use on it pays."""
    term = reservation.end_hours - reservation.start_hours
    begins = moment_text(plan, reservation.start_hours)
    text = f"{reservation.count} x {reservation.offer}, {words.hours(term)} from {begins}, {words.usd(reservation.usd)}"
    text += f": used {words.percent(reservation.used_share)}"
    if reservation.pays_from_hours is not None:
        text += f", cheaper than by the hour from {words.hours(reservation.pays_from_hours)} of use"
    return words.wrap_lines(text, line_room(), 2)


def _pauses(plan: Plan, job: Assignment) -> list[str]:
    """Return when a run stands still because its machine may not be used, and what that costs each time."""
    times = [f"{moment_text(plan, pause.from_hours)} to {moment_text(plan, pause.to_hours)}" for pause in job.pauses]
    if not times:
        return []
    shown = ", ".join(times[:MAX_PAUSES_SHOWN]) + (
        f", {len(times) - MAX_PAUSES_SHOWN} more" * (len(times) > MAX_PAUSES_SHOWN)
    )
    lost = f"checkpoint and start {words.hours(job.resume_hours)} each time"
    return words.wrap_lines(f"{words.sanitise(job.name)}: {shown}; {lost}", line_room(), 3)


def _idle(plan: Plan) -> list[str]:
    """Return the idle hours of own machines."""
    last = plan.hours.at_confidence if plan.hours else 0.0
    texts = [f"{offer} {words.hours(hours)}" for offer, hours in plan.idle_hours.items() if hours >= NOTICED_IDLE_HOURS]
    text = f"own machines until {moment_text(plan, last)}: {', '.join(texts)}"
    return words.wrap_lines(text, line_room(), 3) if texts else []


def _shared(plan: Plan) -> list[str]:
    """Return what the limits cost that the jobs share, the most expensive first."""
    lines = []
    for shared_limit in plan.shared_limits:
        name, saving = words.sanitise(limit_name(shared_limit.limit)), words.usd(shared_limit.saving_usd)
        text = f"{name} {shared_limit.current:,g}: without it {saving} less"
        if abs(shared_limit.saving_hours) >= 0.05:
            word = "earlier" if shared_limit.saving_hours > 0 else "later"
            text += f", last finish {words.hours(abs(shared_limit.saving_hours))} {word}"
        lines += words.wrap_lines(text, line_room(), 2)
    return lines


def _baseline(plan: Plan) -> list[str]:
    """Return what the better simple rule costs, compared with the objective of the plan."""
    if plan.baseline is None:
        return ["neither the order of due dates nor cheapest first keeps every limit"]
    usd, hours, by_time = plan.baseline.cost_usd, plan.baseline.hours, plan.baseline.compares == "time"
    own, other = plan.objective or 0.0, hours if by_time else usd
    if plan.tie_decided_by is not None and plan.cost is not None:
        own = plan.cost.expected  # what is shown, which a near tie preferred to the objective
    word = ("later" if other > own else "earlier") if by_time else "more" if other > own else "less"
    same = own <= 0 or abs(other - own) <= 0.0005 * own
    more = "the same" if same else f"{words.percent(abs(other / own - 1))} {word}"
    figures = f"last finish by {words.hours_by(hours)} ({more}), {words.usd(usd)}"
    rule = {"earliest due date": "jobs in the order of their due dates", "cheapest first": "cheapest jobs first"}
    name = rule.get(plan.baseline.name, plan.baseline.name)
    text = f"{name}: {figures if by_time else f'{words.usd(usd)} ({more})'}"
    return words.wrap_lines(text, line_room(), 2)
