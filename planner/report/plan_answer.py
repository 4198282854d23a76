"""The answer of a plan: what to rent, what could go wrong, what else there is; for one job and for several.

Who reads only the first line knows what to do; who reads ten seconds knows the risks and the other ways.
"""

from __future__ import annotations

import itertools
import re
import shlex
from typing import TYPE_CHECKING, NamedTuple

from planner import generation, open_choices, timetable
from planner.report import plan_sections, plan_text, words
from planner.report.words import line_room
from planner.results.plan import Assignment, Plan
from planner.results.plan_parts import NeededAtOnce, Option, Spread, jobs_text
from planner.results.subject_runs import END_OF_SIZES, OTHER_DATA, REPEATED_DATA, WASTED_TOKENS
from planner.subjects import shown_by

if TYPE_CHECKING:
    from collections.abc import Sequence


MOST_RISKS = 3
"""Risks in full; one more line names the others."""
NAMES_OF_RISK = 2
"""Jobs that a risk of several names; of more it says how many."""


class Risk(NamedTuple):
    """What a reader must know before renting: a few words for it, and the sentence."""

    kind: str
    text: str


def risks_of(plan: Plan, job: Assignment) -> list[Risk]:
    """Return what of one job would change the decision, the greatest first."""
    return [Risk(kind, text) for kind, text in _texts_of(plan, job) if text]


def _texts_of(plan: Plan, job: Assignment) -> list[tuple[str, str]]:
    """Return every kind of risk, the greatest first, with its sentence; empty where the job has none of it."""
    return [
        *(("samples are cut", plan_sections.cut_text(cut)) for cut in plan.cut),
        *(("a licence", note) for note in job.notes if note.startswith("licence of ")),
        ("weights to convert", job.conversion or ""),
        ("an outlay", plan_sections.outlay_text(plan)),
        ("a private person's machine", _private_text(job, len(plan.jobs) > 1)),
        ("spot without fallback", _no_fallback_text(job)),
        ("little spot capacity", _dear_spot_text(job)),
        ("speed is a prior", plan_sections.prior_text(job)),
        ("speed is an upper bound", _bound_text(job)),
        *_priors(job),
        *_beyond_the_law(job),
        ("an assumed market keeps the budget", plan_sections.assumed_market_text(plan)),
        ("a technique that may lose quality", plan_text.lossy_text(job)),
        ("the cheapest of many estimates", plan_sections.much_too_low_text(job)),
        ("old prices", _old_prices_text(plan)),
        ("host memory is assumed", _host_text(job)),
    ]


def risks_of_jobs(plan: Plan) -> list[Risk]:
    """Return what of several jobs would change the decision: a line of each kind, with the jobs that it is about."""
    jobs_of: dict[str, dict[str, list[str]]] = {}
    for job in plan.jobs:
        for kind, text in _texts_of(plan, job):
            of_kind = jobs_of.setdefault(kind, {})
            if text:
                of_kind.setdefault(text, []).append(job.name)
    guessed = [Risk("stock is a guess", note) for note in plan_sections.guesses_of_stock(plan)]
    return [
        *(risk for kind, names_by_text in jobs_of.items() for risk in _joined(kind, names_by_text, len(plan.jobs))),
        *guessed,
    ]


def _joined(kind: str, names_by_text: dict[str, list[str]], count: int) -> list[Risk]:
    """Return the risks of one kind: a sentence that all jobs share once, else with the jobs, else how many have it."""
    if all(len(names) == count for names in names_by_text.values()) or kind == "samples are cut":
        return [Risk(kind, text) for text in names_by_text]  # what is cut names its job
    if len(names_by_text) > 1:
        whose = list(dict.fromkeys(name for names in names_by_text.values() for name in names))
        return [Risk(kind, f"{_named(whose, count)}: {kind}")]
    return [Risk(kind, f"{_named(names, count)}: {text}") for text, names in names_by_text.items()]


def _named(names: list[str], count: int) -> str:
    return " and ".join(names) if len(names) <= NAMES_OF_RISK else f"{len(names):,} of {count:,} jobs"


def _priors(job: Assignment) -> list[tuple[str, str]]:
    """Return what else than the speed of a job is a guess."""
    rests = job.evidence
    memory = f"the memory of {job.framework} is a prior, not from measurements"
    market = "how often spot machines are lost is a prior, not recorded"
    return [
        ("memory is a prior", memory if rests is not None and rests.memory == "prior" else ""),
        ("spot market is a prior", market if rests is not None and rests.spot == "prior" else ""),
    ]


def _beyond_the_law(job: Assignment) -> list[tuple[str, str]]:
    """Return what else a loss may cost, and where it leaves what its law has seen: large steps, repeated data."""
    kinds = {
        END_OF_SIZES: "the size is at the end of its range",
        WASTED_TOKENS: "large steps waste tokens",
        REPEATED_DATA: "data repeated too often",
        OTHER_DATA: "other data have other losses",
    }
    if job.model is None:
        return []
    ends = ", and beyond them|, which the loss counts"  # of a note that says more than a line takes
    short = {word: re.split(ends, note)[0] for note in job.notes for word in kinds if word in note}
    return [(kind, short.get(word, "")) for word, kind in kinds.items()]


def _old_prices_text(plan: Plan) -> str:
    age = plan_sections.old_prices_text(plan)
    return f"{age}: {plan_sections.RENEWS_PRICES}" if age else ""


def _bound_text(job: Assignment) -> str:
    return "the speed is an upper bound: the run may take longer" if plan_sections.is_upper_bound(job) else ""


def _host_text(job: Assignment) -> str:
    host = job.host_memory
    return f"memory of the host: {plan_sections.host_memory_text(host)}" if host is not None and host.assumed else ""


_OF_SEVERAL = "private persons' machines; what others cost: --set 'limits.tiers.forbid=[community]'"


def _private_text(job: Assignment, of_several: bool) -> str:
    if job.tier != "community":
        return ""
    secure, text = _safer(job, "secure"), "a private person's machine"
    if secure is None:  # not searched for: of several jobs, or for want of time
        return _OF_SEVERAL if of_several else text
    if secure.cost_usd is None:
        return f"{text}; no other is within the limits"
    spot = " on spot" if secure.spot_share else ""
    return f"{text}: secure ones{spot} for about {words.usd(secure.cost_usd)} (--set {shlex.quote(secure.note)})"


def _no_fallback_text(job: Assignment) -> str:
    if job.has_fallback:
        return ""
    on_demand = _safer(job, "on demand")
    text = "spot machines only: the run waits while there are none; a deadline holds with a probability"
    if on_demand is None:
        return text
    if on_demand.cost_usd is None:
        return f"{text}; none on demand is within the limits"
    return f"{text}; on demand from {_safer_words(on_demand, on_demand.cost_usd)}"


def _dear_spot_text(job: Assignment) -> str:
    """Return what a run on spot costs where capacity is scarce: the high end of its dollars."""
    if job.scarce_usd is None:
        return ""
    text = f"up to {words.usd(job.scarce_usd)} if little spot capacity appears"
    on_demand = _safer(job, "on demand")
    if on_demand is None or on_demand.cost_usd is None or on_demand.cost_usd >= job.cost.high:
        return text
    return f"{text}; on demand {_safer_words(on_demand, on_demand.cost_usd)}"


def _safer_words(option: Option, usd: float) -> str:
    """Return the dollars of a safer way, whether it is on a private person's host, and the setting that asks for it."""
    paid = plan_sections.market_words(option)
    return f"{words.usd(usd)}{paid and f', {paid}'} (--set {shlex.quote(option.note)})"


def _safer(job: Assignment, label: str) -> Option | None:
    return next((option for option in job.safer if option.label == label), None)


def risk_lines(risks: list[Risk]) -> list[str]:
    """Return the first risks in at most two lines each, and one line that names the others."""
    shown, others = risks[:MOST_RISKS], risks[MOST_RISKS:]
    if len(others) == 1:  # a line for its name is a line for itself
        shown, others = risks, []
    texts = [risk.text for risk in shown]
    if others:
        texts.append(f"also: {', '.join(risk.kind for risk in others)} (--details)")
    wrapped = (words.wrap_lines(text, words.width() - 2, 2) for text in texts)
    return [f"{'  ' if number else '! '}{line}" for lines in wrapped for number, line in enumerate(lines)]


ROWS_OF_JOBS = 20
"""Rows of jobs, those with most dollars; one more row has the sum of the rest."""
KINDS_IN_FIRST_LINE = 3
"""Kinds of machines that the first line names."""
LINES_EACH = 2
"""Lines of each reservation, pause, limit and further way."""


def render_jobs_answer(plan: Plan) -> str:
    """Return the answer of a plan of several jobs, or of jobs over time, without a final newline."""
    lines = [first_line_of_jobs(plan), *risk_lines(risks_of_jobs(plan)), "", *job_lines(plan), ""]
    return "\n".join([*lines, *_sections_of_jobs(plan)])


def first_line_of_jobs(plan: Plan) -> str:
    """Return how many jobs on what, dollars, and when the last one ends at the confidence; less of the machines."""
    named = jobs_text(len(plan.planned)) if len(plan.planned) > 1 else ""
    late = f", by {timetable.end_text(plan, plan.hours.at_confidence)}" if plan.hours else ""
    figures = f"{words.usd(plan.cost.expected)}{late}" if plan.cost else late.removeprefix(", ")
    forms = [f"{named} on {machines}".strip() if named else machines for machines in machine_forms(plan)]
    return plan_text.summary_line(plan.scenario, *(f"{form}, {figures}" for form in [*forms, named] if form))


def machine_forms(plan: Plan) -> list[str]:
    """Return the most of each kind that jobs need: with places, by kind alone, and shortened; none if none is known."""
    if len(plan.jobs) == 1 == len(plan.planned):
        return [_place(plan.jobs[0]), plan_sections.format_place(plan.jobs[0], with_region=False)]
    kinds: dict[str, int] = {}
    needs = plan.most_of_each or plan.at_one_time
    for need in needs:
        kinds[need.gpu] = kinds.get(need.gpu, 0) + need.gpus
    placed = [f"{need.gpus:,} x {need.gpu} at {need.provider}" for need in needs]
    bare = [f"{count:,} x {gpu}" for gpu, count in kinds.items()]
    short = [*bare[:1], f"{sum(kinds.values()) - next(iter(kinds.values())):,} other GPUs"] if bare[1:] else bare
    return [_listed(form) for form in (placed, bare, short) if form and len(form) <= KINDS_IN_FIRST_LINE]


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
        times = timetable.moment_text(plan, job.start_at_hours), timetable.end_text(plan, job.finish_hours)
        return _place(job), *times, words.usd(job.cost_usd), plan_sections.method_words(job)

    alike: dict[tuple[str, ...], list[Assignment]] = {}
    for job in sorted(plan.jobs, key=lambda job: job.start_at_hours):
        alike.setdefault(reads(job), []).append(job)
    return [
        JobRow(
            [job.name for job in jobs], read[0], jobs[0].start_at_hours, read[2], sum(job.cost_usd for job in jobs),
            read[4], jobs[0].is_reserved,
        )
        for read, jobs in alike.items()
    ]  # fmt: skip


def job_lines(plan: Plan, more: Sequence[JobRow] = ()) -> list[str]:
    """Return the table of jobs, of `more` too: the rows with most dollars, and the sum of the rest."""
    rows = sorted([*rows_of(plan), *more], key=lambda row: row.start_hours) if more else rows_of(plan)
    dearest = sorted(rows, key=lambda row: -row.cost_usd)[:ROWS_OF_JOBS]
    shown, rest = [row for row in rows if row in dearest], [row for row in rows if row not in dearest]
    starts = any(row.start_hours for row in rows)
    cells = [("job", "machine", *(["start"] if starts else []), "by", "cost", "how")]
    for row in shown:
        suffix = " each" if row.names[1:] else ""
        start = [timetable.moment_text(plan, row.start_hours)] if starts else []
        cells.append((_names(row.names), row.machine + suffix, *start, row.late, _paid(row), row.how))
    if rest:
        count = sum(len(row.names) for row in rest)
        usd = words.usd(sum(row.cost_usd for row in rest))
        cells.append((f"{count:,} more jobs", "(--details)", *([""] if starts else []), "", usd, ""))
    for reservation in plan.reservations:  # with them the column of dollars adds up to the plan
        times = [timetable.moment_text(plan, hours) for hours in (reservation.start_hours, reservation.end_hours)]
        cells.append(
            (
                "reserved",
                f"{reservation.count} x {reservation.offer}",
                *times[not starts :],
                words.usd(reservation.usd),
                "",
            )
        )
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
    how = "reserved" if job.is_reserved else plan_sections.market_words(job)
    place = plan_sections.format_place(job, with_region=False)
    return f"{place}, {how}" if how else place


# What holds for all jobs, in as few lines as can be.


def _sections_of_jobs(plan: Plan) -> list[str]:
    need, room = _need_text(plan), line_room()
    cost = plan.cost or Spread(expected=0.0, low=0.0, high=0.0)
    notes = dict.fromkeys((*plan.warnings, *itertools.chain(*(job.notes for job in plan.jobs))))
    over_time = timetable.timetable_sections(plan)
    parts = (
        ("Models", _models(plan)),
        ("Need", words.wrap_lines(need, room, 2) if need else []),
        ("Time", words.wrap_lines(_time_text_of_jobs(plan), room, 2)),
        *((label, lines[: 2 * LINES_EACH]) for label, lines in over_time.items()),
        ("Bill", words.wrap_lines(_bill_text(plan, cost), room, 6)),
        ("Why", words.wrap_lines(why_text_of_jobs(plan), room, 4)),
        ("Else", plan_text.further_ways_of_all(plan)[: 2 * LINES_EACH]),
        ("Notes", first_note(tuple(notes))),
    )
    return [line for label, lines in parts for line in words.section(label, lines)]


def _bill_text(plan: Plan, cost: Spread) -> str:
    """Return the bill of all jobs; where the cents of the rows above do not add up to it, it says why."""
    shown = [row.cost_usd for row in rows_of(plan)] + [reservation.usd for reservation in plan.reservations]
    rounded = "; the rows above are rounded" if plan_sections.rounding(shown, cost.expected) else ""
    return f"{plan_sections.bill_text(plan.jobs, cost, plan.reservations)}{rounded}"


FIRST_NOTE_LINES = 1
"""Lines of the first note: up to the last clause that fits."""


def first_note(notes: tuple[str, ...]) -> list[str]:
    """Return the first note in whole clauses, and how many more there are; none where there are none."""
    if not notes:
        return []
    more = f" ({len(notes) - 1} more: --details)" if len(notes) > 1 else ""
    return words.wrap_clauses(notes[0], more, line_room(), FIRST_NOTE_LINES)


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
    together = [f"{need.gpus:,} x {need.gpu} at {need.provider}" for need in plan.at_one_time]
    if len(together) < 2 or _listed(together) in first_line_of_jobs(plan):
        return ""
    return f"at one time {_needs_text(plan.at_one_time)}"


def _needs_text(needs: Sequence[NeededAtOnce]) -> str:
    rest = sum(need.gpus for need in needs[2 * KINDS_IN_FIRST_LINE :])
    kinds = [f"{need.gpus:,} x {need.gpu} at {need.provider}" for need in needs[: 2 * KINDS_IN_FIRST_LINE]]
    return ", ".join([*kinds, *([f"{rest:,} others"] if rest else [])])


def _time_text_of_jobs(plan: Plan) -> str:
    """Return when the last job ends, and the job that is least sure of its deadline."""
    parts = []
    if plan.hours is not None:
        likely = timetable.moment_text(plan, plan.hours.expected)
        parts.append(f"last end likely {likely}, by {timetable.end_text(plan, plan.hours.at_confidence)}")
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


def why_text_of_jobs(plan: Plan) -> str:
    """Return what is proven, what the budget allows, which limits bind, and what a near tie costs."""
    binding: dict[str, list[str]] = {}
    for job in plan.jobs:
        for limit in job.binding:
            binding.setdefault(limit, []).append(job.name)
    names = []
    for limit, jobs in binding.items():
        more = f" and {len(jobs) - 1} more" if jobs[1:] else ""
        names.append(limit if len(jobs) == len(plan.jobs) else f"{jobs[0]}{more}: {limit}")
    parts = [*_earliest_text(plan), plan_text.proof_text(plan), *plan_sections.budget(plan)]
    parts += [f"binding: {', '.join(names)}"] if names else []
    parts += [least] if (least := " ".join(plan_text.near_tie(plan))) else []
    return "; ".join(parts)


def _earliest_text(plan: Plan) -> list[str]:
    """Return that a plan ends as early as it can, where that is its objective: others may cost less."""
    is_earliest = plan.inputs is not None and plan.inputs.scenario.get("objective") == "time"
    within = "" if plan.budget_usd is None else f" within {words.usd(plan.budget_usd)}"
    return [f"earliest end{within}, not least cost"] if is_earliest else []


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


OF_THE_MACHINES = ("a private person's machine", "spot without fallback", "little spot capacity")
"""Kinds of risks that the sections of a plan's details do not have."""


def render_details(plan: Plan) -> str:
    """Return all that there is to say of a plan, what its machines risk below its first lines."""
    lines = plan_text.render(plan).split("\n")
    if shown_by(plan) is None and plan.jobs and plan.status not in ("infeasible", "no_plan"):
        risks = risks_of(plan, plan.jobs[0]) if len(plan.jobs) == 1 else risks_of_jobs(plan)
        end = lines.index("") if "" in lines else len(lines)
        lines[end:end] = risk_lines([risk for risk in risks if risk.kind in OF_THE_MACHINES])
    return "\n".join(lines)


def _first_line(plan: Plan, job: Assignment) -> str:
    """Return machine, place, market, method, dollars and the hours at the confidence.

    Where the line is too long, the region is left out, then the method, then the place; the market always stays. A
    narrow line has no price of a machine that is bought: a risk further down names it.
    """
    bought = plan_text.purchase_price(plan, job) if words.width() >= words.WIDTH else None
    price = f" for ${bought:,.0f}" if bought is not None else ""
    paid = plan_sections.market_words(job)
    market = f", {paid}" if paid else ""
    figures = f"{words.usd(job.cost_usd)}{' for this job' if price else ''}, {words.by(job.hours.at_confidence)}"
    method = f", {plan_sections.method_words(job)}"
    full, short = plan_sections.format_place(job), plan_sections.format_place(job, with_region=False)
    least = words.sanitise(words.gpus(job.gpus, job.gpu, job.runs_at_once))
    forms = [
        *(f"{place}{market}{price}{method}, {figures}" for place in (full, short)),
        f"{short}{market}{price}, {figures}",
        *(f"{least}{market}{price}{how}, {figures}" for how in (method, "")),
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
        way = _way(name, option, job, own)
        if way is not None and all(_differs(way, row) for row in rows):
            rows.append(way)
    return sorted(rows[:MOST_WAYS], key=lambda way: way.cost_usd)


def _rung_name(option: Option, own: Way) -> str:
    """Return the word for the best plan of a method: its name, but `cheaper` for one of the plan's own method.

    One that costs less by parts of a cent is `as cheap`: the two figures read the same.
    """
    if option.method == own.method and option.cost_usd is not None and option.cost_usd < own.cost_usd:
        return "as cheap" if words.usd(option.cost_usd) == words.usd(own.cost_usd) else "cheaper"
    return option.label


def _way(name: str, option: Option, job: Assignment, own: Way) -> Way | None:
    """Return another way as a row; None where its figures are unknown."""
    if option.cost_usd is None or option.hours_at_confidence is None:
        return None
    note = "" if option.allowed else option.note.partition(":")[0].replace("fits with", "fits")
    note = "excluded" if note.startswith("excluded") else note
    is_same = (_machine(option), option.method) == (own.machine, own.method)
    if is_same and not note:
        note = plan_text.difference_on_same_machines(job, option)
    return Way(
        name, _machine(option), option.usd_per_hour, option.cost_usd, option.hours_at_confidence, option.method, note
    )


def _differs(way: Way, row: Way) -> bool:
    """Return whether two ways rent or do something else, or differ in a cent."""
    return way.machine != row.machine or way.method != row.method or abs(way.cost_usd - row.cost_usd) >= 0.01


def _machine(run: Assignment | Option) -> str:
    """Return machines, place and market, such as `4 x A5000 at runpod, private, spot`."""
    paid = plan_sections.market_words(run, "private")
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
    usd = sum((item.quantity or 0.0) * (item.rate_usd or 0.0) for item in items) / hours
    return usd * job.instances * job.runs_at_once


def _way_lines(ways: list[Way]) -> list[str]:
    """Return the table; columns are as wide as their widest cell, and the machine is shortened first."""
    cells = [("way", "machine", "$/h", "cost", "by", "how"), *map(_cells, ways)]
    marked = next(number for number, way in enumerate(ways, 1) if way.name == "plan")
    return words.table(cells, right=(2, 3, 4), cut=1, marked=marked)


def _cells(way: Way) -> tuple[str, str, str, str, str, str]:
    rent = "-" if way.usd_per_hour is None else words.rate(way.usd_per_hour).removeprefix("$")
    named = way.method if way.name != way.method else ""
    how = ", ".join(part for part in (named, way.note) if part)
    return way.name, way.machine, rent, words.usd(way.cost_usd), words.hours_by(way.late_hours), how


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
        ("Service", plan_text.service_prices(job)),
        ("Bill", words.wrap_lines(plan_sections.bill_text([job], job.cost), room, 6)),
        ("Else", [*plan_text.further_ways(job), *words.wrap_all(_unnamed_framework(job), room, 2)]),
        ("Buy", plan_text.purchase(job)),
        ("Why", words.wrap_lines(_why_text(plan, job), room, 4)),
        ("Notes", _notes(plan, job)),
    )
    return [line for name, lines in parts for line in words.section(name, lines)]


LESS_COST = 0.95
"""Share of the cost of a plan below which that of a framework on priors is worth a line."""


def _unnamed_framework(job: Assignment) -> list[str]:
    """Return the framework that would cost least by priors, where that is less than the plan, and what plans with it.

    Its cost is that on the GPU of the plan: more may be saved on others.
    """
    named = [(option.cost_usd, option) for option in job.frameworks if option.prior and option.note]
    priced = [(usd, option) for usd, option in named if usd is not None and usd < LESS_COST * job.cost_usd]
    if not priced:
        return []
    usd, least = min(priced, key=lambda each: each[0])
    late = least.hours_at_confidence
    by = "" if late is None else f" by {words.hours_by(late)}"
    return [f"{least.label} about {words.usd(usd)}{by} (prior): --set {shlex.quote(least.note)}"]


def _train(job: Assignment) -> list[str]:
    """Return technique and framework, batch, and how several machines share the work."""
    if job.inference is not None:
        return plan_sections.train(job)
    framework = plan_sections.framework_label(job)
    how = plan_sections.techniques(job, brief=True)
    how += f", {job.packing}" if job.unit == "tokens" and job.gpus else ""
    lines = words.wrap_lines(f"{how}; {framework}" if framework else how, line_room(), 2)
    rest = (plan_sections.batch(job), plan_sections.machines(job) if job.gpus > 1 else "", plan_sections.trials(job))
    return [*lines, *words.wrap_all((line for line in rest if line), line_room(), 1)]


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
    return [f"{taken}, {sure}", *plan_text.if_out_of_memory(plan, job)]


def _time_text(job: Assignment) -> str:
    """Return the likely hours with their range, those at the confidence, and how sure the deadline is kept."""
    span = plan_sections.range_of_hours(job.hours)
    chance = plan_sections.format_job_deadline(job)
    starts = f"; the machine is there at hour {words.plain_number(job.lead_hours)}" if job.lead_hours else ""
    return f"{words.likely(job.hours.expected)} ({span}), {words.by(job.hours.at_confidence)}{starts}" + (
        f"; {chance}" if chance else ""
    )


def _why_text(plan: Plan, job: Assignment) -> str:
    """Return what is proven, what binds, and what a choice among many estimates costs."""
    compared = f", by {job.compared_by}" if job.compared_by else ""
    parts = [f"{plan_text.proof_text(plan)}{compared}", *plan_sections.budget(plan)]
    parts += [f"binding: {', '.join(job.binding)}"] if job.binding else ["no limit binds"]
    least = " ".join(plan_text.near_tie(plan))
    parts += [least] if least else []
    pick = "" if plan_sections.much_too_low_text(job) else plan_sections.pick_text(job)  # said above the plan
    return "; ".join([*parts, pick] if pick else parts)


def _notes(plan: Plan, job: Assignment) -> list[str]:
    """Return how many notes there are, and the first of them as far as a line goes."""
    return first_note(tuple(dict.fromkeys((*job.notes, *plan.warnings))))
