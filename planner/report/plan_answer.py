"""The answer of a plan for one job: what to rent, what could go wrong, what else there is; the rest is in the details.

Who reads only the first line knows what to do; who reads ten seconds knows the risks and the other ways.
"""

from __future__ import annotations

from typing import NamedTuple

from planner import generation, open_choices
from planner.report import plan_alternatives, plan_sections, plan_text, words
from planner.report.jobs_answer import render_jobs_answer
from planner.report.risks import risk_lines, risks_of
from planner.report.words import line_room
from planner.results.plan import Assignment, Plan
from planner.results.plan_parts import Option
from planner.subjects import shown_by

MOST_WAYS = 6
"""Rows of the table of ways, the plan's among them."""


def render_answer(plan: Plan) -> str:
    """Return the answer of a plan without a final newline; of no plan its whole text."""
    if not plan.planned or plan.status in ("infeasible", "no_plan"):
        return plan_text.render_brief(plan)
    if (subject := shown_by(plan)) is not None:
        return subject.text(plan)
    job = plan.only_job
    if job is None:
        return render_jobs_answer(plan)
    chosen = open_choices.answer_lines(job.model) if job.model else []
    lines = [_first_line(plan, job), *chosen, *risk_lines(risks_of(plan, job))]
    ways = ways_of(plan, job)
    if len(ways) > 1:
        lines += ["", *_way_lines(ways)]
    return "\n".join([*lines, "", *_sections(plan, job)])


def _first_line(plan: Plan, job: Assignment) -> str:
    """Return machine, place, method, dollars and the hours at the confidence; the place is shortened where it must."""
    bought = plan_alternatives.purchase_price(plan, job)
    price = f" for ${bought:,.0f}" if bought is not None else ""
    hosts = ["private host"] if job.tier == "community" else []
    market = "".join(f", {word}" for word in (*hosts, plan_sections.payment_words(job.tier, job.spot_share)) if word)
    figures = f"{words.usd(job.cost_usd)}{' for this job' if price else ''}, {words.by(job.hours.at_confidence)}"
    method = f", {plan_sections.method_words(job)}"
    full, short = plan_sections.format_place(job), plan_sections.format_place(job, with_region=False)
    least = words.sanitise(words.gpus(job.gpus, job.gpu, job.runs_at_once))
    forms = [
        *(f"{place}{market}{price}{method}, {figures}" for place in (full, short)),
        f"{short}{price}{method}, {figures}",
        *(f"{place}{price}, {figures}" for place in (short, least)),
    ]
    return plan_text.summary_line(plan.scenario, *forms)


# The table of ways.


class Way(NamedTuple):
    """A row: a word for the way, what it rents, and what it costs; `note` says what excludes it."""

    name: str
    machine: str
    usd_per_hour: float | None
    cost_usd: float
    late_hours: float
    method: str
    note: str = ""


def ways_of(plan: Plan, job: Assignment) -> list[Way]:
    """Return the plan and what else could be rented, at most `MOST_WAYS` rows that differ, the cheapest first."""
    own = Way(
        "plan",
        _machine(job),
        rent_per_hour(job),
        job.cost_usd,
        job.hours.at_confidence,
        plan_sections.method_words(job),
    )
    known = job.evidence.known if job.evidence else None
    named = [
        *((option.label, option) for option in job.safer),
        *([("measured", known)] if known is not None else []),
        *(("at risk", option) for option in job.cheaper_at_risk),
        *(("faster", option) for option in plan.faster),
        *((_rung_name(option, own), option) for option in job.methods),
        *(("next", option) for option in job.next_best),
    ]
    rows = [own]
    for name, option in named:
        way = _way(name, option)
        if way is not None and all(_differs(way, row) for row in rows):
            rows.append(way)
    return sorted(rows[:MOST_WAYS], key=lambda way: way.cost_usd)


def _rung_name(option: Option, own: Way) -> str:
    """Return the word for the best plan of a method: its name, but `cheaper` for one of the plan's own method."""
    if option.method == own.method and option.cost_usd is not None and option.cost_usd < own.cost_usd:
        return "cheaper"
    return option.label


def _way(name: str, option: Option) -> Way | None:
    """Return another way as a row; None where its figures are unknown."""
    if option.cost_usd is None or option.hours_at_confidence is None:
        return None
    note = "" if option.allowed else option.note.partition(":")[0].replace("fits with", "fits")
    note = "excluded" if note.startswith("excluded") else note
    return Way(
        name, _machine(option), option.usd_per_hour, option.cost_usd, option.hours_at_confidence, option.method, note
    )


def _differs(way: Way, row: Way) -> bool:
    """Return whether two ways rent or do something else, or differ in a cent."""
    return way.machine != row.machine or way.method != row.method or abs(way.cost_usd - row.cost_usd) >= 0.01


def _machine(run: Assignment | Option) -> str:
    """Return machines, place and market, such as `4 x A5000 at runpod, spot`."""
    paid = plan_sections.payment_words(run.tier, run.spot_share)
    place = f"{words.gpus(run.gpus, run.gpu, run.runs_at_once)} at {run.provider}"
    return words.sanitise(f"{place}, {paid}" if paid else place)


def rent_per_hour(job: Assignment) -> float | None:
    """Return the rent of all machines of a job at one time; None where they are not rented by the hour.

    Quantities of the bill are hours of machines, and rates are those of one.
    """
    items = [item for item in job.bill if item.item in ("gpu on demand", "gpu spot") and item.rate_usd]
    hours = sum(item.quantity or 0.0 for item in items)
    if hours <= 0:
        return None
    each = sum((item.quantity or 0.0) * (item.rate_usd or 0.0) for item in items) / hours
    return each * job.instances * job.runs_at_once


def _way_lines(ways: list[Way]) -> list[str]:
    """Return the table; columns are as wide as their widest cell, and the machine is shortened first."""
    cells = [("way", "machine", "$/h", "cost", "by", "how"), *map(_cells, ways)]
    marked = next(number for number, way in enumerate(ways, 1) if way.name == "plan")
    return words.table(cells, right=(2, 3, 4), cut=1, marked=marked)


def _cells(way: Way) -> tuple[str, str, str, str, str, str]:
    rent = "-" if way.usd_per_hour is None else words.rate(way.usd_per_hour).removeprefix("$")
    named = way.method if way.name != way.method else ""
    how = ", ".join(part for part in (named, way.note) if part)
    return way.name, way.machine, rent, words.usd(way.cost_usd), words.hours(way.late_hours), how


# What the plan is, in as few lines as can be.


def _sections(plan: Plan, job: Assignment) -> list[str]:
    made, room = job.inference, line_room()
    label = "Serve" if made else "Train"
    parts = (
        ("Model", open_choices.model_lines(job.model)[:3] if job.model else []),
        (label, _train(job)),
        ("Memory", _memory(plan, job)),
        ("Speed", plan_sections.speed(job)[:1] if made else []),
        ("Data", plan_sections.data_path(job)),
        ("Export", plan_sections.export(job)),
        ("Time", words.wrap_lines(_time_text(job), room, 2) + plan_sections.deadline_day(plan, job)),
        ("Spot", plan_sections.spot(job)),
        ("Term", plan_sections.commitment(job)),
        ("Price", generation.price_lines(made) if made else []),
        ("Service", plan_alternatives.services(job)),
        ("Bill", words.wrap_lines(plan_sections.bill_text([job], job.cost), room, 3)),
        ("Else", plan_alternatives.further_ways(job)),
        ("Buy", plan_alternatives.purchase(job)),
        ("Why", words.wrap_lines(_why_text(plan, job), room, 4)),
        ("Notes", _notes(plan, job)),
    )
    return [line for name, lines in parts for line in words.section(name, lines)]


def _train(job: Assignment) -> list[str]:
    """Return technique and framework, batch, and how several machines share the work."""
    if job.inference is not None:
        return plan_sections.train(job)
    framework = plan_sections.framework_label(job)
    how = plan_sections.techniques(job, brief=True)
    how += f", {job.packing}" if job.unit == "tokens" and job.gpus else ""
    lines = words.wrap_lines(f"{how}; {framework}" if framework else how, line_room(), 2)
    rest = (plan_sections.batch(job), plan_sections.machines(job) if job.gpus > 1 else "", plan_sections.trials(job))
    return [*lines, *(words.shorten(line, line_room()) for line in rest if line)]


def _memory(plan: Plan, job: Assignment) -> list[str]:
    """Return what the peak takes of the card and how sure it fits, and what to do if it does not."""
    vram = job.vram_gib
    if not job.gpus:
        return []
    taken = f"{words.gib(vram.peak)} of {words.gib(vram.usable)} GiB"
    if job.inference is not None:
        return words.wrap_lines(f"{taken}; {generation.flight_words(job.inference)}", line_room(), 2)
    sure = (
        f"fits with {words.probability_text(vram.fit_probability)}" if job.observed_hours is None else "fits: observed"
    )
    return [f"{taken}, {sure}", *plan_alternatives.if_out_of_memory(plan, job)]


def _time_text(job: Assignment) -> str:
    """Return the likely hours with their range, those at the confidence, and how sure the deadline is kept."""
    span = words.between(job.hours.low, job.hours.high)
    chance = plan_sections.format_job_deadline(job)
    starts = f"; the machine is there at hour {words.plain_number(job.lead_hours)}" if job.lead_hours else ""
    return f"{words.likely(job.hours.expected)} ({span}), {words.by(job.hours.at_confidence)}{starts}" + (
        f"; {chance}" if chance else ""
    )


def _why_text(plan: Plan, job: Assignment) -> str:
    """Return what is proven, what binds, and what a choice among many estimates costs."""
    compared = f", by {job.compared_by}" if job.compared_by else ""
    parts = [f"{plan_alternatives.proof_text(plan)}{compared}", *plan_sections.budget(plan)]
    parts += [f"binding: {', '.join(job.binding)}"] if job.binding else ["no limit binds"]
    least = " ".join(plan_alternatives.near_tie(plan))
    parts += [least] if least else []
    pick = plan_sections.pick_text(job)
    return "; ".join([*parts, pick] if pick else parts)


def _notes(plan: Plan, job: Assignment) -> list[str]:
    """Return how many notes there are, and the first of them as far as a line goes."""
    notes = tuple(dict.fromkeys((*job.notes, *plan.warnings)))
    if not notes:
        return []
    more = f" ({len(notes) - 1} more: --details)" if len(notes) > 1 else ""
    return [words.shorten(words.sanitise(notes[0]), line_room() - len(more)) + more]
