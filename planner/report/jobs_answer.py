"""The answer of a plan for several jobs or a timetable: what all rent, the risks, a row per job, bill and proof."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, NamedTuple

from planner import open_choices, timetable
from planner.report import plan_alternatives, plan_sections, plan_text, words
from planner.report.risks import risk_lines, risks_of_jobs
from planner.report.words import line_room
from planner.results.plan import Assignment, Plan
from planner.results.plan_parts import NeededAtOnce, Spread, jobs_text

if TYPE_CHECKING:
    from collections.abc import Sequence

ROWS_OF_JOBS = 20
"""Rows of jobs, those with most dollars; one more row has the sum of the rest."""
KINDS_IN_FIRST_LINE = 3
"""Kinds of machines that the first line names."""
LINES_EACH = 2
"""Lines of each reservation, pause, limit and further way."""


def render_jobs_answer(plan: Plan) -> str:
    """Return the answer of a plan of several jobs, or of jobs over time, without a final newline."""
    lines = [_first_line(plan), *risk_lines(risks_of_jobs(plan)), "", *job_lines(plan), ""]
    return "\n".join([*lines, *_sections(plan)])


def _first_line(plan: Plan) -> str:
    """Return how many jobs on what, dollars, and when the last one ends at the confidence; less of the machines."""
    named = jobs_text(len(plan.jobs)) if len(plan.jobs) > 1 else ""
    late = f", by {timetable.moment_text(plan, plan.hours.at_confidence)}" if plan.hours else ""
    figures = f"{words.usd(plan.cost.expected)}{late}" if plan.cost else late.removeprefix(", ")
    forms = [f"{named} on {machines}".strip() if named else machines for machines in machine_forms(plan)]
    return plan_text.summary_line(plan.scenario, *(f"{form}, {figures}" for form in [*forms, named] if form))


def machine_forms(plan: Plan) -> list[str]:
    """Return the most of each kind that jobs need: with places, by kind alone, and shortened; none if none is known."""
    if len(plan.jobs) == 1:
        return [_place(plan.jobs[0]), plan_sections.format_place(plan.jobs[0], with_region=False)]
    kinds: dict[str, int] = {}
    needs = plan.most_of_each or plan.at_one_time
    for one in needs:
        kinds[one.gpu] = kinds.get(one.gpu, 0) + one.gpus
    placed = [f"{one.gpus:,} x {one.gpu} at {one.provider}" for one in needs]
    bare = [f"{count:,} x {gpu}" for gpu, count in kinds.items()]
    short = [*bare[:1], f"{sum(kinds.values()) - next(iter(kinds.values())):,} other GPUs"] if bare[1:] else bare
    return [_listed(each) for each in (placed, bare, short) if each and len(each) <= KINDS_IN_FIRST_LINE]


def _listed(parts: list[str]) -> str:
    return " and ".join([", ".join(parts[:-1]), parts[-1]]) if parts[1:] else parts[0]


# A row for each job, or for several that are alike.


class JobRow(NamedTuple):
    """Jobs that are alike in all that their row shows."""

    names: list[str]
    machine: str
    start_hours: float
    late: str
    cost_usd: float
    how: str
    is_reserved: bool


def rows_of(plan: Plan) -> list[JobRow]:
    """Return a row for each kind of alike jobs, in order of start, else in that of the scenario."""

    def reads(job: Assignment) -> tuple[str, ...]:
        times = (timetable.moment_text(plan, hours) for hours in (job.start_at_hours, job.finish_hours))
        return _place(job), *times, words.usd(job.cost_usd), plan_sections.method_words(job)

    found: dict[tuple[str, ...], list[Assignment]] = {}
    for job in sorted(plan.jobs, key=lambda job: job.start_at_hours):
        found.setdefault(reads(job), []).append(job)
    return [
        JobRow(
            [job.name for job in jobs], read[0], jobs[0].start_at_hours, read[2], sum(job.cost_usd for job in jobs),
            read[4], jobs[0].is_reserved,
        )
        for read, jobs in found.items()
    ]  # fmt: skip


def job_lines(plan: Plan) -> list[str]:
    """Return the table of jobs: the rows with most dollars, and the sum of the rest."""
    rows = rows_of(plan)
    dearest = sorted(rows, key=lambda row: -row.cost_usd)[:ROWS_OF_JOBS]
    shown, rest = [row for row in rows if row in dearest], [row for row in rows if row not in dearest]
    starts = any(row.start_hours for row in rows)
    cells = [("job", "machine", *(["start"] if starts else []), "by", "cost", "how")]
    for row in shown:
        each = " each" if row.names[1:] else ""
        start = [timetable.moment_text(plan, row.start_hours)] if starts else []
        cells.append((_names(row.names), row.machine + each, *start, row.late, _paid(row), row.how))
    if rest:
        count = sum(len(row.names) for row in rest)
        usd = words.usd(sum(row.cost_usd for row in rest))
        cells.append((f"{count:,} more jobs", "(--details)", *([""] if starts else []), "", usd, ""))
    for one in plan.reservations:  # with them the column of dollars adds up to the plan
        times = [timetable.moment_text(plan, hours) for hours in (one.start_hours, one.end_hours)]
        cells.append(("reserved", f"{one.count} x {one.offer}", *times[not starts :], words.usd(one.usd), ""))
    figures = range(2, len(cells[0]) - 1)
    return words.table(cells, right=tuple(figures), cut=1)


def _paid(row: JobRow) -> str:
    """Return the dollars of a row; of jobs on reserved machines what they cost next to the reservation."""
    if not row.is_reserved:
        return words.usd(row.cost_usd)
    return f"+ {words.usd(row.cost_usd)}" if round(row.cost_usd, 2) else "reserved"


def _names(names: list[str]) -> str:
    first = words.shorten(names[0], 20)
    return first if len(names) == 1 else f"{first} and {len(names) - 1:,} alike"


def _place(job: Assignment) -> str:
    """Return the machines of a job and how they are paid where that is not by the hour on demand."""
    how = "private host" if job.tier == "community" else plan_sections.payment_words(job.tier, job.spot_share)
    place = plan_sections.format_place(job, with_region=False)
    return ", ".join(part for part in (place, "reserved" if job.is_reserved else how) if part)


# What holds for all jobs, in as few lines as can be.


def _sections(plan: Plan) -> list[str]:
    need, room = _need_text(plan), line_room()
    cost = plan.cost or Spread(expected=0.0, low=0.0, high=0.0)
    notes = dict.fromkeys((*plan.warnings, *itertools.chain(*(job.notes for job in plan.jobs))))
    over_time = timetable.timetable_sections(plan)
    parts = (
        ("Models", _models(plan)),
        ("Need", words.wrap_lines(need, room, 2) if need else []),
        ("Time", words.wrap_lines(_time_text(plan), room, 2)),
        *((label, lines[: 2 * LINES_EACH]) for label, lines in over_time.items()),
        ("Bill", words.wrap_lines(_bill_text(plan, cost), room, 6)),
        ("Why", words.wrap_lines(_why_text(plan), room, 4)),
        ("Else", plan_alternatives.further_ways_of_all(plan)[: 2 * LINES_EACH]),
        ("Notes", first_note(tuple(notes))),
    )
    return [line for label, lines in parts for line in words.section(label, lines)]


def _bill_text(plan: Plan, cost: Spread) -> str:
    """Return the bill of all jobs; where the cents of the rows above do not add up to it, it says why."""
    shown = [row.cost_usd for row in rows_of(plan)] + [one.usd for one in plan.reservations]
    rounded = "; the rows above are rounded" if plan_sections.rounding(shown, cost.expected) else ""
    return f"{plan_sections.bill_text(plan.jobs, cost, plan.reservations)}{rounded}"


def first_note(notes: tuple[str, ...]) -> list[str]:
    """Return the first note as far as a line goes, and how many more there are; none where there are none."""
    if not notes:
        return []
    more = f" ({len(notes) - 1} more: --details)" if len(notes) > 1 else ""
    return [words.shorten(words.sanitise(notes[0]), line_room() - len(more)) + more]


def _models(plan: Plan) -> list[str]:
    """Return what was chosen of each job that left its model, tokens or batch open, two lines each."""
    texts = (
        f"{words.sanitise(job.name)}: {' '.join(line.strip() for line in open_choices.answer_lines(job.model))}"
        for job in plan.jobs
        if job.model is not None
    )
    return words.wrap_all(texts, line_room(), LINES_EACH)[: words.most(ROWS_OF_JOBS)]


def _need_text(plan: Plan) -> str:
    """Return the GPUs that all jobs hold at one time, where the first line cannot name them with their places.

    Of jobs in turn also the most of each kind, which they do not need at one time.
    """
    most = _needs_text(plan.most_of_each)
    if most:
        return f"at most {most}; at one time {_needs_text(plan.at_one_time)}"
    together = [f"{one.gpus:,} x {one.gpu} at {one.provider}" for one in plan.at_one_time]
    if len(together) < 2 or _listed(together) in _first_line(plan):
        return ""
    return f"at one time {_needs_text(plan.at_one_time)}"


def _needs_text(needs: Sequence[NeededAtOnce]) -> str:
    rest = sum(one.gpus for one in needs[2 * KINDS_IN_FIRST_LINE :])
    kinds = [f"{one.gpus:,} x {one.gpu} at {one.provider}" for one in needs[: 2 * KINDS_IN_FIRST_LINE]]
    return ", ".join([*kinds, *([f"{rest:,} others"] if rest else [])])


def _time_text(plan: Plan) -> str:
    """Return when the last job ends, and the job that is least sure of its deadline."""
    parts = []
    if plan.hours is not None:
        ends = (timetable.moment_text(plan, hours) for hours in (plan.hours.expected, plan.hours.at_confidence))
        parts.append("last end likely {}, by {}".format(*ends))
    with_deadline = [job for job in plan.jobs if job.deadline_probability is not None]
    if with_deadline:
        least = min(with_deadline, key=lambda job: job.deadline_probability or 0.0)
        text = plan_sections.format_job_deadline(least)
        alike = all(plan_sections.format_job_deadline(job) == text for job in with_deadline)
        whose = (
            "every job"
            if alike and len(with_deadline) == len(plan.jobs)
            else f"least sure: {words.sanitise(least.name)}"
        )
        parts.append(f"{whose} {text}")
    return "; ".join(parts)


def _why_text(plan: Plan) -> str:
    """Return what is proven, what the budget allows, which limits bind, and what a near tie costs."""
    binding: dict[str, list[str]] = {}
    for job in plan.jobs:
        for limit in job.binding:
            binding.setdefault(limit, []).append(job.name)
    names = []
    for limit, jobs in binding.items():
        more = f" and {len(jobs) - 1} more" if jobs[1:] else ""
        names.append(limit if len(jobs) == len(plan.jobs) else f"{jobs[0]}{more}: {limit}")
    parts = [plan_alternatives.proof_text(plan), *plan_sections.budget(plan)]
    parts += [f"binding: {', '.join(names)}"] if names else []
    parts += [least] if (least := " ".join(plan_alternatives.near_tie(plan))) else []
    return "; ".join(parts)
