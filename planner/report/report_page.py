"""The report as one HTML file: its words, its figures in a template, the data for its script."""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import json
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner import generation
from planner.drawing.scene import PALETTE, to_svg
from planner.errors import Fault, ScenarioError
from planner.report import plan_sections, plan_text, words
from planner.report.explanation_text import binding_line, format_near_miss, format_relaxation, past_line, step_lines
from planner.report.frontier_figure import frontier_data, frontier_figure, tornado_figure
from planner.report.plan_answer import render_answer, risks_of, risks_of_jobs
from planner.report.plan_figures import (
    NARROW,
    WIDE,
    Figure,
    Table,
    alternative_figures,
    bill_figure,
    memory_figure,
    price_figures,
    simulation_figures,
    timetable_figure,
)
from planner.report.words import sanitise
from planner.results.explanation import Explanation
from planner.results.plan import Assignment, Plan
from planner.results.service_results import jobs_alone
from planner.results.what_if import Overview, Section
from planner.subjects import shown_by

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


Fact = tuple[str, str]
"""A label and its text."""
MOST_BLOCKS = 12
"""Most jobs with a block of their own; the table of the timetable has all."""


def headline(plan: Plan) -> str:
    """Return the plan in one sentence, that of the text: what to rent, for how much, by when, or what no plan keeps."""
    with words.unwrapped():
        first = render_answer(plan).partition("\n")[0]
    text = first.removeprefix(f"{words.sanitise(plan.scenario)}: ")
    return text if plan.planned else f"{text[:1].upper()}{text[1:]}."


def warnings(plan: Plan) -> list[str]:
    """Return what would change the decision, every line that the text has or counts; right below the headline."""
    if (subject := shown_by(plan)) is not None:
        risks = subject.risks(plan)
    elif plan.only_job is not None:
        risks = risks_of(plan, plan.only_job)
    else:
        risks = risks_of_jobs(plan)
    return [words.sanitise(risk.text) for risk in risks]


def tiles(plan: Plan) -> list[tuple[str, str, str]]:
    """Return the key figures: name, figure, and range or probability."""
    if (subject := shown_by(plan)) is not None:
        return subject.tiles(plan)
    if plan.cost is None or plan.hours is None:
        return []
    cost, hours = plan.cost, plan.hours
    shown = [
        ("expected cost", words.usd(cost.expected), f"{words.usd_between(cost.low, cost.high)} with 80 % probability"),
        ("likely finish", words.hours(hours.expected), f"{words.between(hours.low, hours.high)} with 80 % probability"),
        ("ends by", words.hours_by(hours.at_confidence), "at the confidence asked for"),
    ]
    if plan.outlay_usd:
        shown.insert(1, ("paid at once", f"${plan.outlay_usd:,.0f}", "purchases, upfront payments and blocks"))
    chances = [job for job in plan.jobs if job.deadline_probability is not None and job.deadline_hours is not None]
    if chances:
        worst = min(chances, key=lambda job: job.deadline_probability or 0.0)
        chance = words.chance_text(worst.deadline_probability or 0.0, at_least=worst.spot is not None)
        whose = f"{words.given_hours(worst.deadline_hours or 0.0)} h" + (
            f", {words.sanitise(worst.name)}" if len(plan.jobs) > 1 else ""
        )
        shown.append(("meets the deadline", chance, whose))
    if plan.budget_usd is not None and plan.budget_probability is not None:
        shown.append(("keeps the budget", words.chance_text(plan.budget_probability), words.usd(plan.budget_usd)))
    fits = [job.vram_gib.fit_probability for job in plan.jobs if job.gpus]
    if fits:
        shown.append(
            ("fits in memory", words.probability_text(min(fits)), "least of all jobs" if len(fits) > 1 else "")
        )
    return shown


def facts(plan: Plan) -> list[tuple[str, list[Fact]]]:
    """Return the name of each part of a plan with its sections: jobs first."""
    subject = shown_by(plan)
    return job_facts(plan) if subject is None else [*job_facts(plan), *subject.facts(plan)]


def job_facts(plan: Plan) -> list[tuple[str, list[Fact]]]:
    """Return each job's name with its sections, as in the text of `solve`."""
    with words.unwrapped():
        jobs = jobs_alone(plan)
        return [(words.sanitise(job.name), list(_sections(jobs, job))) for job in jobs.jobs[:MOST_BLOCKS]]


def _sections(plan: Plan, job: Assignment) -> Iterator[Fact]:
    single = len(plan.jobs) == 1
    sections: Sequence[tuple[str, Sequence[str]]] = (
        ("Machines", [plan_sections.format_place(job) + ", " + plan_sections.format_market(job.spot_share, job.tier)]),
        ("Serve" if job.inference else "Train", plan_sections.train(job)),
        ("Speed", plan_sections.speed(job)),
        ("Price", generation.price_lines(job.inference) if job.inference else []),
        ("Time", plan_sections.time(job)),
        ("Spot", plan_sections.spot(job)),
        ("Memory risk", plan_text.memory_risk(plan, job)),
        ("Term", plan_sections.commitment(job)),
        ("Weights", plan_text.conversion(job)),
        ("Lossy", plan_text.lossy(job)),
        ("Quality", plan_text.quality(job)),
        ("Faster", plan_text.faster(plan) if single else []),
        ("Service", plan_text.service_prices(job)),
        ("Evidence", plan_sections.evidence(job)),
        ("Next best", plan_text.format_alternatives(job)),
        ("Binding limits", ["; ".join(job.binding) or "none binds"]),
    )
    for label, lines in sections:
        if text := "; ".join(line.strip() for line in lines if line.strip()):
            yield label, words.sanitise(text)


def reasons_of(analyses: Overview) -> list[Fact]:
    """Return why the plan of a report is as it is; nothing where there is none."""
    if (subject := shown_by(analyses.plan)) is not None:
        return subject.reasons(analyses)
    return reasons(analyses.plan, analyses.explanation) if analyses.plan.jobs else []


def reasons(plan: Plan, explanation: Explanation | None) -> list[Fact]:
    """Return which limits bind, what it is worth to relax them, and how far the plan is proven."""
    with words.unwrapped():
        rows = [("Proof", "; ".join(plan_text.scope(plan)))]
        if plan.baseline is not None:
            rows.append(
                (
                    "Simple rule",
                    f"{plan.baseline.name}: {words.usd(plan.baseline.cost_usd)}, {words.hours(plan.baseline.hours)}",
                )
            )
        if explanation is None or explanation.status == "infeasible":
            return [(label, words.sanitise(text)) for label, text in rows if text]
        binds = [binding_line(limit, explanation) for limit in explanation.binding]
        rows += [("Binds", text) for text in binds or ["none: relaxing a single limit does not lower the cost"]]
        paying = [step for step in explanation.next_steps if step.change_to is not None]
        for step in paying:
            text = "; ".join(line.strip() for line in step_lines(step, explanation))
            rows.append(("Relaxing", f"{text} (--set {step.setting})" if step.setting else text))
        rows += [("Earlier prices", past_line(past_cost, explanation)) for past_cost in explanation.past_costs]
    return [(label, words.sanitise(text)) for label, text in rows if text]


def assumptions(plan: Plan) -> Table:
    """Return what the figures rest on: prices with their age, estimates with their error, terms without a price."""
    rows: dict[tuple[str, str, str], None] = {}
    for job in plan.jobs:
        age = "unknown age" if job.price_age_days is None else f"{job.price_age_days:,} days old"
        named = job.price_source.removesuffix(f", {job.price_date}")
        source = ", ".join(part for part in (named, job.price_date, age) if part)
        rows[f"price of {job.offer}", "as offered", source] = None
        if job.evidence is not None:
            rests = "; ".join((*plan_sections.evidence(job), *filter(None, [plan_sections.prior_text(job)])))
            rows[f"evidence of {job.name}", rests, "measured, fitted to measurements, or a prior"] = None
        speeds = (job.tokens_per_second_low, job.tokens_per_second_high)
        error = f"{' to '.join(map(words.significant, speeds))} {job.unit}/s with 80 % probability"
        rows[
            f"speed of {job.name}",
            error,
            f"{'observed runs' if job.observed_runs else 'calibrated estimates'} ({job.framework})",
        ] = None
        for line in job.bill:
            if line.basis:
                rows[f"bill: {line.item}", line.basis, "assumption where the offer states no price"] = None
        if job.spot is not None:
            market = f"up {words.hours(job.spot.mean_up_hours)} at a time, available {job.spot.availability:.0%}"
            rows[f"spot market of {job.offer}", market.replace("%", " %"), job.spot.basis or "stated by the offer"] = (
                None
            )
        for fact in job.quality:
            rows[fact.text, fact.setting, fact.source] = None
        if job.inference is not None:
            rows[f"engine {job.inference.engine}", job.inference.evidence, "; ".join(job.inference.priors)] = None
    notes = dict.fromkeys((*plan.warnings, *(note for job in plan.jobs for note in job.notes)))
    cells = [tuple(map(words.sanitise, row)) for row in rows] + [("note", words.sanitise(note), "") for note in notes]
    versions = plan.inputs.versions if plan.inputs else {}
    if versions:
        cells.append(("versions", words.sanitise(", ".join(" ".join(pair) for pair in versions.items())), ""))
    cells.append(("ages counted to", plan.as_of, f"solver {plan.solver}"))
    return Table(("assumption", "value", "source"), tuple(cells))


def relaxations(plan: Plan) -> list[tuple[str, str]]:
    """Return the smallest changes that give an infeasible scenario a plan: in words, and as settings."""
    return [(f"{changed}: {then}" if then else changed, typed) for changed, then, typed in ways_out(plan)]


def ways_out(plan: Plan) -> list[tuple[str, str, str]]:
    """Return the smallest changes that give an infeasible scenario a plan, that plan, and the settings to type."""
    relaxations = plan.infeasible.relax if plan.infeasible else ()
    texts = []
    with words.unwrapped():
        for number in dict.fromkeys(relaxation.way for relaxation in relaxations):
            changes = [relaxation for relaxation in relaxations if relaxation.way == number]
            lines = [line.strip() for line in format_relaxation(number, changes, plan.scenario)]
            typed = [line.rstrip("\\").strip() for line in lines if line.startswith("--set")]
            changed, *then = [line for line in lines if not line.startswith("--set")]
            plan_then = " ".join(then).removeprefix("then ")
            changed = words.sanitise(changed.partition(". ")[2]).replace(" -> ", " \u2192 ")
            texts.append((changed, words.sanitise(plan_then), " ".join(typed)))
    return texts


def near_misses(plan: Plan) -> list[str]:
    """Return the rejected candidates that come closest, each with what would make it feasible."""
    nearest = plan.infeasible.nearest if plan.infeasible else ()
    several = len({near_miss.job for near_miss in nearest}) > 1
    return [
        words.sanitise(f"{near_miss.job}: {format_near_miss(near_miss)}" if several else format_near_miss(near_miss))
        for near_miss in nearest
    ]


# The figures of a report under their headings, of jobs and of services.


SECTION_NAMES: dict[Section, str] = {
    "frontier": "Cost against time",
    "reasons": "Reasons and alternatives",
    "tornado": "What the plan depends on",
    "simulation": "Simulated cost and finish",
    "prices": "Price history",
}


@dataclass(frozen=True)
class Group:
    """Figures under one heading."""

    key: str
    title: str
    figures: tuple[Figure, ...]


def groups_of(analyses: Overview) -> list[Group]:
    """Return the figures of a report in their order."""
    plan = analyses.plan
    if (subject := shown_by(plan)) is not None:
        return subject.groups(analyses)
    if not plan.jobs:
        return []
    groups = []
    if analyses.frontier is not None and analyses.frontier.points:
        groups.append(
            Group("cost-time", SECTION_NAMES["frontier"], (frontier_figure(analyses.frontier, deadline_of(plan)),))
        )
    of_plan = (bill_figure(plan), memory_figure(plan), timetable_figure(plan))
    groups += [Group(figure.key, figure.title, (figure,)) for figure in of_plan if figure is not None]
    others = alternative_figures(plan, analyses.explanation)
    groups += [Group("alternatives", "Alternatives", tuple(others))] if others else []
    groups += analysis_groups(analyses)
    table = assumptions(plan)
    lead = "What the figures rest on, with source and age."
    groups.append(Group("assumptions", "Assumptions", (Figure("assumptions", "Assumptions", lead, None, table),)))
    return groups


def analysis_groups(analyses: Overview) -> list[Group]:
    """Return the figures of sensitivity, replays and price history, as far as there are any."""
    swing = tornado_figure(analyses.tornado) if analyses.tornado is not None else None
    figures: dict[Section, tuple[Figure, ...]] = {
        "tornado": (swing,) if swing is not None else (),
        "simulation": (
            *(simulation_figures(analyses.simulation) if analyses.simulation is not None else ()),
            *(subject.replay_figures(analyses) if (subject := shown_by(analyses.plan)) is not None else ()),
        ),
        "prices": tuple(price_figures(analyses.prices)),
    }
    titles = section_titles(analyses.plan)
    return [Group(key, titles[key], drawn) for key, drawn in figures.items() if drawn]


def section_titles(plan: Plan) -> dict[Section, str]:
    """Return the headings of the analyses of a plan."""
    subject = shown_by(plan)
    return SECTION_NAMES if subject is None else SECTION_NAMES | subject.section_titles(plan)


def find_figure(analyses: Overview, name: str) -> Figure | None:
    """Return a figure by its name on the command line; None where the report has none."""
    subject = shown_by(analyses.plan)
    own = {} if subject is None else subject.figure_keys(analyses.plan)
    key = {"cost": "cost-runs", "finish": "hours-runs", **own}.get(name, name)
    return next((figure for group in groups_of(analyses) for figure in group.figures if figure.key == key), None)


def deadline_of(plan: Plan) -> float | None:
    """Return the deadline that all jobs share; None without one."""
    limits = {job.deadline_hours for job in plan.parts_that_end}
    return limits.pop() if len(limits) == 1 else None


MOST_BYTES = 300_000
"""Largest page; files to copy are left out before it is larger."""
MOST_TABLE_ROWS = (200, 60, 20)
"""Most rows of one table, and fewer where the page would be too large; a plan of hundreds of jobs has thousands."""
_FOLDER = Path(__file__).parent / "html"


def check_installed(path: str) -> None:
    """Raise ScenarioError where the extra that writes pages is not installed."""
    if importlib.util.find_spec("jinja2") is None:
        fix = "install the extra `report`: pip install '.[report]'"
        raise ScenarioError([Fault(path, 0, "", "cannot be written: Jinja2 is not installed", fix)])


def render_page(analyses: Overview, exports: Mapping[str, str] | None = None, notes: Sequence[str] = ()) -> str:
    """Return the report as one HTML page of at most `MOST_BYTES`.

    Parameters
    ----------
    analyses
        The plan and its analyses.
    exports
        Files to copy by name; the largest are left out where the page would be too large.
    notes
        Why files are missing.
    """
    files, remarks = dict(exports or {}), [sanitise(note) for note in notes]
    parts = _parts(analyses, MOST_TABLE_ROWS[0])
    page = _rendered(parts, files, remarks)
    while len(page.encode()) > MOST_BYTES and files:
        largest = max(files, key=lambda name: len(files[name]))
        del files[largest]
        remarks.append(f"{sanitise(largest)} is left out for its size: planner solve -o, planner export")
        page = _rendered(parts, files, remarks)
    for most in MOST_TABLE_ROWS[1:]:
        if len(page.encode()) > MOST_BYTES:
            page = _rendered(_parts(analyses, most), files, remarks)
    return page


def _parts(analyses: Overview, most_rows: int) -> dict[str, Any]:
    """Return what the template shows, without the files."""
    plan, groups = analyses.plan, groups_of(analyses)
    solved = bool(plan.planned)
    contents = [("why", "Why there is no plan")] if not solved else [("plan", "The plan"), ("reasons", "Why this plan")]
    offers = f"{plan.candidates.offers:,} offers, " if plan.candidates.offers else ""
    made = f"{offers}{plan.candidates.made:,} candidates; ages of prices count to {plan.as_of}; solver {plan.solver}"
    if analyses.of_file:
        made += ". The plan was read from a file: the analyses know only the offers that it carries"
    counts = sorted(plan.candidates.reasons.items(), key=lambda item: (-item[1], item[0]))[:12]
    titles = section_titles(plan)
    missing = {titles[name]: sanitise(why) for name, why in analyses.skipped.items()}
    if solved and not analyses.prices and "prices" not in analyses.skipped:
        missing[SECTION_NAMES["prices"]] = (
            "the price book has no earlier prices of these machines: planner prices update"
        )
    return {
        "name": sanitise(plan.scenario),
        "headline": headline(plan),
        "warnings": warnings(plan),
        "fixed": [sanitise(line) for line in analyses.fixed],
        "tiles": tiles(plan),
        "made": made,
        "infeasible": not solved,
        "relaxations": relaxations(plan),
        "misses": near_misses(plan),
        "rejected": [(sanitise(reason), f"{count:,}") for reason, count in counts],
        "jobs": facts(plan),
        "more_jobs": max(0, len(plan.jobs) - MOST_BLOCKS),
        "reasons": reasons_of(analyses),
        "groups": [
            {"key": group.key, "title": group.title, "figures": [_drawn(figure, most_rows) for figure in group.figures]}
            for group in groups
        ],
        "missing": list(missing.items()),
        "contents": contents + [(group.key, group.title) for group in groups],
        "data": json_block(_data(analyses)),
    }


def _drawn(figure: Figure, most_rows: int) -> dict[str, Any]:
    """Return a figure with its pictures in both widths; they are safe, because every text in them is escaped."""
    import markupsafe  # comes with Jinja2

    pictures = {}
    for name, width in (("wide", WIDE), ("narrow", NARROW)):
        if figure.draw is not None:
            pictures[name] = markupsafe.Markup(to_svg(figure.draw(width), f"{figure.key}-{name}", as_classes=True))
    fields = {key: getattr(figure, key) for key in ("key", "title", "lead", "notes")}
    table = figure.table
    if over := max(0, len(table.rows) - most_rows):
        fields["notes"] = (*figure.notes, f"{over:,} more rows are left out for their size: planner solve --json")
        table = Table(table.header, table.rows[:most_rows])
    return {**fields, "table": table, "wide": "", "narrow": "", **pictures}


def _data(analyses: Overview) -> dict[str, Any]:
    """Return the data of the script."""
    plan = jobs_alone(analyses.plan)
    setting = ""
    if len(plan.planned) == 1 and not plan.is_timetable:
        setting = f"--set {shlex.quote(f'jobs.{sanitise(plan.planned[0].name)}.deadline=HOURSh')}"
    usd = plan.cost.expected if plan.cost else None
    hours = plan.hours.at_confidence if plan.hours else None
    data: dict[str, Any] = {"plan": {"usd": usd, "within": hours}, "setting": setting}
    if analyses.frontier is not None and analyses.frontier.points and plan.parts_that_end:
        data["frontier"] = frontier_data(analyses.frontier)
    return data


def json_block(data: object) -> str:
    """Return JSON that can stand in a script element: no sign in it can end the element or start another one."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def _rendered(parts: Mapping[str, Any], files: Mapping[str, str], notes: Sequence[str]) -> str:
    import jinja2  # an extra: only pages need it
    import markupsafe  # comes with Jinja2

    style, script = page_style(), least_cost_script() + (_FOLDER / "script.js").read_text(encoding="utf-8")
    policy = (
        f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; base-uri 'none'; form-action 'none'"
    )
    loader = jinja2.FileSystemLoader(_FOLDER)
    environment = jinja2.Environment(
        autoescape=True, loader=loader, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    safe = {name: markupsafe.Markup(text) for name, text in (("style", style), ("script", script), ("policy", policy))}
    exports = [(sanitise(name), text) for name, text in files.items()]
    contents = parts["contents"] + ([("exports", "Files to copy")] if exports or notes else [])
    data = markupsafe.Markup(parts["data"])
    page: str = environment.get_template("page.html.j2").render(
        {**parts, **safe, "data": data, "contents": contents, "exports": exports, "export_notes": notes,
         "digits": tuple("0123456789$+-")}
    )  # fmt: skip
    return page + "\n"


def least_cost_script() -> str:
    """Return the functions of a script that read the least cost off the data of a frontier."""
    return (_FOLDER / "least_cost.js").read_text(encoding="utf-8")


def page_style() -> str:
    """Return the style sheet: the colours of both modes, then the rules."""
    light, dark = (";".join(f"--{role}:{colors[mode]}" for role, colors in PALETTE.items()) for mode in (0, 1))
    rules = "".join(f".f-{role}{{fill:var(--{role})}}.s-{role}{{stroke:var(--{role})}}" for role in PALETTE)
    modes = (
        f":root{{{light};color-scheme:light}}@media (prefers-color-scheme:dark){{:root{{{dark};color-scheme:dark}}}}"
        f":root[data-theme=light]{{{light};color-scheme:light}}:root[data-theme=dark]{{{dark};color-scheme:dark}}"
        f"@media print{{:root,:root[data-theme=dark]{{{light};color-scheme:light}}}}"
    )
    return modes + rules + ".f-none{fill:none}" + (_FOLDER / "style.css").read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """Return the source expression that admits exactly this text."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
