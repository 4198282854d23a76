"""A plan as text with everything that there is to say: the summary first; of several jobs also what fits a screen."""

from __future__ import annotations

import re

from planner import generation, open_choices, timetable
from planner.report import plan_alternatives, plan_sections, words
from planner.report.plan_sections import bill, render_notes
from planner.report.words import line_room
from planner.results.plan import Assignment, Plan
from planner.subjects import shown_by

LINES = 30
"""Most lines of a plan for several jobs."""
NOTE_LINES_OF_JOB = 6
"""Most lines of the notes of one job."""

BOLD, DIM, ATTENTION, PLAIN = "\033[1m", "\033[36m", "\033[33m", "\033[0m"
GOOD, BAD = "\033[32m", "\033[31m"
"""Of differences: cheaper or earlier, and more expensive or later."""
AMOUNT = r"(?:likely )?[$]?[0-9][0-9,.]*(?: (?:h|min|%))?"


def render(plan: Plan) -> str:
    """Return all that there is to say of a plan, without a final newline."""
    with words.whole():
        return render_brief(plan)


def render_brief(plan: Plan) -> str:
    """Return the text of a plan with its notes and rows as far as they fit a screen."""
    if (subject := shown_by(plan)) is not None:
        return subject.details(plan)
    if plan.status in ("infeasible", "no_plan") or not plan.jobs:
        from planner.report.infeasible_text import render_infeasible

        lines = render_infeasible(plan)
    elif plan.is_timetable:
        lines = timetable.render_timetable(plan)
    elif len(plan.jobs) == 1:
        lines = _single(plan)
    else:
        lines = _joint(plan)
    return "\n".join(with_cut_samples(lines, plan))


def with_cut_samples(lines: list[str], plan: Plan) -> list[str]:
    """Return the text of a plan with what is cut of its samples below its first line."""
    return [*lines[:1], *plan_sections.cut_lines(plan.cut), *lines[1:]]


def _single(plan: Plan) -> list[str]:
    """Return all sections of one job."""
    job = plan.jobs[0]
    headlines = _headlines(job, plan_alternatives.purchase_price(plan, job))
    texts = (f"{text}, {plan_sections.format_optimality(plan)}" for text in headlines)
    summary = [
        summary_line(plan.scenario, *texts),
        *plan_sections.outlay(plan),
        *plan_sections.old_prices(plan),
        *plan_sections.on_a_prior(job),
        *words.second_lines(plan_sections.assumed_market_text(plan)),
        *(open_choices.answer_lines(job.model) if job.model else []),
        *plan_alternatives.conversion(job),
        *plan_alternatives.lossy(job),
    ]
    above = [
        *words.section("Model", open_choices.model_lines(job.model) if job.model else []),
        *words.section("Batch", open_choices.batch_lines(job.model) if job.model else []),
        *words.section("Serve" if job.inference else "Train", plan_sections.train(job)),
        *words.section("Memory", [*plan_sections.memory(job), *plan_alternatives.memory_risk(plan, job)]),
        *words.section("Speed", plan_sections.speed(job)),
        *words.section("Data", plan_sections.data_path(job)),
        *words.section("Export", plan_sections.export(job)),
        *words.section("Price", generation.price_lines(job.inference) if job.inference else []),
        *words.section("Time", [*plan_sections.time(job), *plan_sections.deadline_day(plan, job)]),
        *words.section("Spot", plan_sections.spot(job)),
        *words.section("Term", plan_sections.commitment(job)),
    ]
    below = [
        *words.section("Faster", plan_alternatives.faster(plan)),
        *words.section(
            "Engines" if job.inference else "Methods",
            [*plan_alternatives.methods(job), *plan_alternatives.quality(job)],
        ),
        *words.section(plan_alternatives.FRAMEWORKS, plan_alternatives.frameworks(job)),
        *words.section("Service", plan_alternatives.services(job)),
        *words.section("Next", plan_alternatives.format_alternatives(job)),
        *words.section("Else", plan_alternatives.further_ways(job)),
        *words.section("Buy", plan_alternatives.purchase(job)),
        *words.section(
            "Limits",
            [*plan_sections.budget(plan), *words.wrap_lines("; ".join(job.binding) or "none binds", line_room(), 2)],
        ),
        *words.section("Prices", plan_sections.prices(job)),
        *words.section("Evidence", plan_sections.evidence(job)),
        *words.section("Scope", plan_alternatives.scope(plan)),
    ]
    remarks = render_notes(tuple(dict.fromkeys((*job.notes, *plan.warnings))), words.most(NOTE_LINES_OF_JOB))
    return [*summary, "", *above, *words.section("Bill", bill(job)), "", *below, *remarks]


SHORT_NAME = 24
"""A name up to this length is never cut to show the place."""


def _joint(plan: Plan) -> list[str]:
    """Return the total, a block per job and the joint bill of several jobs, in as much detail as fits `LINES`."""
    for detail in (6, 4, 3, 2):
        lines, room = _joint_lines(plan, detail), words.most(LINES)
        if len(lines) <= room:
            return [*lines, *words.section("Scope", plan_alternatives.scope(plan))][:room]
    return _joint_lines(plan, 1)


def _joint_lines(plan: Plan, detail: int) -> list[str]:
    """Return the joint text with blocks of at most `detail` lines; below 6 the bill shows only the total."""
    full = detail == 6
    figures = [f"{len(plan.jobs)} jobs"]
    times = [words.likely_and_by(plan.hours), words.likely(plan.hours.expected)] if plan.hours else [""]
    rest = [words.usd(plan.cost.expected)] if plan.cost else []
    rest = [*rest, plan_sections.format_optimality(plan)]
    forms = (", ".join([*figures, *([time] if time else []), *rest]) for time in times)
    lines = [
        summary_line(plan.scenario, *forms),
        *plan_sections.outlay(plan),
        *plan_sections.old_prices(plan),
        *plan_sections.at_one_time(plan),
    ]
    priors = [job.name for job in plan.jobs if job.evidence is not None and job.evidence.speed == "prior"]
    lines += words.second_lines(f"the speed of {', '.join(priors)} is a prior" if priors else None)
    lines += words.second_lines(plan_sections.assumed_market_text(plan))
    for job in plan.jobs:
        lines += [*[""] * full, *_block(job)[:detail]]
    binding = "; ".join(f"{job.name}: {', '.join(job.binding)}" for job in plan.jobs if job.binding)
    ages = dict.fromkeys(words.shorten(plan_sections.price_text(job), line_room()) for job in plan.jobs)
    lines += ["", *words.section("Bill", _joint_bill(plan) if full else _joint_bill(plan)[-1:])]
    binds = words.wrap_lines(binding or "no limit of a single job binds", line_room(), 2)
    lines += words.section("Limits", [*plan_sections.budget(plan), *binds])
    lines += words.section("Prices", list(ages)[: words.most(2)])
    lines += words.section("Else", plan_alternatives.further_ways_of_all(plan))
    return [*lines, *render_notes(_joint_notes(plan), words.most(4 if full else 3))]


def _joint_notes(plan: Plan) -> tuple[str, ...]:
    """Return the notes of the plan, those of every job once, and those of some jobs with the job's name."""
    shared = set.intersection(*(set(job.notes) for job in plan.jobs))
    own = [f"{job.name}: {note}" for job in plan.jobs for note in job.notes if note not in shared]
    of_jobs = {note for job in plan.jobs for note in job.notes}
    common = [note for note in plan.jobs[0].notes if note in shared]
    above = plan_sections.guesses_of_stock(plan)
    rest = [note for note in plan.warnings if note not in of_jobs and note not in above]
    return tuple(dict.fromkeys((*rest, *common, *own)))


def _block(job: Assignment) -> list[str]:
    """Return one of several jobs in at most seven lines."""
    vram = job.vram_gib
    fit = f"{words.gib(vram.peak)} of {words.gib(vram.usable)} GiB"
    chance = f"; {text}" if (text := plan_sections.format_job_deadline(job)) else ""
    time = f"{words.between(job.hours.low, job.hours.high)}, {words.by(job.hours.at_confidence)}{chance}"
    lines = [
        *(
            words.shorten(line.strip(), line_room())
            for line in (open_choices.answer_lines(job.model) if job.model else [])
        ),
        *(words.wrap_lines(job.conversion, line_room(), 2) if job.conversion else []),
        *words.wrap_lines(plan_sections.techniques(job, brief=True), line_room(), 1),
        *([words.shorten(made, line_room())] if (made := plan_sections.batch(job)) else []),
        words.shorten(f"{fit}; {plan_sections.rate(job)}" if job.gpus else plan_sections.rate(job), line_room()),
        words.shorten(time if len(time) <= line_room() else time.removesuffix(" probability"), line_room()),
        *(words.wrap_lines(plan_alternatives.methods_brief(job), line_room(), 1) if job.methods else []),
    ]
    summary = summary_line(job.name, *_headlines(job), width=words.width() - 2)
    return [f"  {summary}", *(" " * words.LABEL + line for line in lines)]


def _joint_bill(plan: Plan) -> list[str]:
    """Return one line per job and the total."""
    rows = [(job.name, plan_sections.format_place(job), words.usd(job.cost_usd)) for job in plan.jobs]
    if plan.cost is not None:
        spread = f"({words.usd_between(plan.cost.low, plan.cost.high)})"
        rows.append(("total", spread, words.usd(plan.cost.expected)))
    return [
        f"{words.shorten(words.sanitise(name), 19):<20}{words.shorten(how, 34):<35}{amount.replace('$', ''):>13}"
        for name, how, amount in rows
    ]


def _headlines(job: Assignment, purchase_usd: float | None = None) -> tuple[str, ...]:
    """Return hardware, place, hours and dollars; then without the late hours, the region, the market and the place.

    Of a bought machine its price is named too, of which the job carries its share.
    """
    full, figures = (
        f", {time}, {words.usd(job.cost_usd)}"
        for time in (words.likely_and_by(job.hours), words.likely(job.hours.expected))
    )
    if purchase_usd is not None:
        full, figures = (f" for ${purchase_usd:,.0f}{text} for this job" for text in (full, figures))
    market = f", {plan_sections.format_market(job.spot_share, job.tier)}"
    rest = f"{market}{figures}"
    short = plan_sections.format_place(job, with_region=False)
    least = words.sanitise(words.gpus(job.gpus, job.gpu, job.runs_at_once))
    named = ", bought" if purchase_usd is not None else ""
    place = plan_sections.format_place(job)
    return place + market + full, place + rest, short + rest, f"{short}{named}{figures}", f"{least}{named}{figures}"


def summary_line(name: str, *texts: str, width: int | None = None) -> str:
    """Return `name: text` with the first text that fits; if none fits, cut the name and then the hardware.

    Figures at the end are never cut.
    """
    name, width = words.sanitise(name), words.width() if width is None else width
    # Market and place are shown below too: drop them before a short name is cut.
    forms = texts if len(name) <= SHORT_NAME else texts[:3]
    for form in forms:
        if len(name) + len(form) + 2 <= width:
            return f"{name}: {form}"
    shortest = forms[-1]
    name = words.shorten(name, max(12, width - len(shortest) - 2))
    over = len(name) + 2 + len(shortest) - width
    if over > 0:
        what, comma, rest = shortest.partition(", ")
        shortest = words.shorten(what, max(3, len(what) - over)) + comma + rest
    return f"{name}: {shortest}"


def colorize(lines: list[str]) -> list[str]:
    """Return the first line and the plan's row bold, risks yellow, labels in colour, differences green or red."""
    return [f"{BOLD}{lines[0]}{PLAIN}", *map(_colored, lines[1:])]


def _colored(line: str) -> str:
    if line.startswith(("! ", "  > ")):
        return f"{ATTENTION if line[0] == '!' else BOLD}{line}{PLAIN}"
    line = re.sub(rf"({AMOUNT} (?:less|earlier|cheaper))\b", rf"{GOOD}\1{PLAIN}", line)
    line = re.sub(rf"({AMOUNT} (?:more(?: expensive)?|later))(?=[,;:)]|$)", rf"{BAD}\1{PLAIN}", line)
    return re.sub(r"^(  )([A-Z][a-z]+)", rf"\1{DIM}\2{PLAIN}", line)
