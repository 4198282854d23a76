"""The page: figures and words in a template, the data for its script, and a policy that lets nothing else run."""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner.drawing.scene import PALETTE, to_svg
from planner.errors import Fault, ScenarioError
from planner.records import record
from planner.report.figures.analysis_figures import alternative_figures, price_figures, tornado_figure
from planner.report.figures.frontier_figure import frontier_data, frontier_figure
from planner.report.figures.plan_figures import (
    NARROW,
    WIDE,
    Figure,
    Table,
    bill_figure,
    memory_figure,
    timetable_figure,
)
from planner.report.figures.simulation_figures import simulation_figures
from planner.report.html import plan_words
from planner.report.words import sanitise
from planner.results.plan import Plan
from planner.results.report_data import Overview, Section
from planner.results.service_results import jobs_alone
from planner.subjects import shown_by

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


# The figures of a report under their headings, of jobs and of services.


SECTION_NAMES: dict[Section, str] = {
    "frontier": "Cost against time",
    "reasons": "Reasons and alternatives",
    "tornado": "What the plan depends on",
    "simulation": "Simulated cost and finish",
    "prices": "Price history",
}


@record(frozen=True)
class Group:
    """Figures under one heading."""

    key: str
    title: str
    figures: tuple[Figure, ...]


def groups_of(found: Overview) -> list[Group]:
    """Return the figures of a report in their order."""
    plan = found.plan
    if (subject := shown_by(plan)) is not None:
        return subject.groups(found)
    if not plan.jobs:
        return []
    groups = []
    if found.frontier is not None and found.frontier.points:
        groups.append(
            Group("cost-time", SECTION_NAMES["frontier"], (frontier_figure(found.frontier, deadline_of(plan)),))
        )
    of_plan = (bill_figure(plan), memory_figure(plan), timetable_figure(plan))
    groups += [Group(figure.key, figure.title, (figure,)) for figure in of_plan if figure is not None]
    others = alternative_figures(plan, found.explanation)
    groups += [Group("alternatives", "Alternatives", tuple(others))] if others else []
    groups += analysis_groups(found)
    table = plan_words.assumptions(plan)
    lead = "What the figures rest on, with source and age."
    groups.append(Group("assumptions", "Assumptions", (Figure("assumptions", "Assumptions", lead, None, table),)))
    return groups


def analysis_groups(found: Overview) -> list[Group]:
    """Return the figures of sensitivity, replays and price history, as far as there are any."""
    swing = tornado_figure(found.tornado) if found.tornado is not None else None
    figures: dict[Section, tuple[Figure, ...]] = {
        "tornado": (swing,) if swing is not None else (),
        "simulation": (
            *(simulation_figures(found.simulation) if found.simulation is not None else ()),
            *(subject.replay_figures(found) if (subject := shown_by(found.plan)) is not None else ()),
        ),
        "prices": tuple(price_figures(found.prices)),
    }
    titles = section_titles(found.plan)
    return [Group(key, titles[key], each) for key, each in figures.items() if each]


def section_titles(plan: Plan) -> dict[Section, str]:
    """Return the headings of the analyses of a plan."""
    subject = shown_by(plan)
    return SECTION_NAMES if subject is None else SECTION_NAMES | subject.section_titles(plan)


def find_figure(found: Overview, name: str) -> Figure | None:
    """Return a figure by its name on the command line; None where the report has none."""
    subject = shown_by(found.plan)
    own = {} if subject is None else subject.figure_keys(found.plan)
    key = {"cost": "cost-runs", "finish": "hours-runs", **own}.get(name, name)
    return next((figure for group in groups_of(found) for figure in group.figures if figure.key == key), None)


def deadline_of(plan: Plan) -> float | None:
    """Return the deadline that all jobs share; None without one."""
    limits = {job.deadline_hours for job in plan.jobs}
    return limits.pop() if len(limits) == 1 else None


MOST_BYTES = 300_000
"""Largest page; files to copy are left out before it is larger."""
MOST_TABLE_ROWS = (200, 60, 20)
"""Most rows of one table, and fewer where the page would be too large; a plan of hundreds of jobs has thousands."""
_FOLDER = Path(__file__).parent


def check_installed(path: str) -> None:
    """Raise ScenarioError where the extra that writes pages is not installed."""
    if importlib.util.find_spec("jinja2") is None:
        fix = "install the extra `report`: pip install '.[report]'"
        raise ScenarioError([Fault(path, 0, "", "cannot be written: Jinja2 is not installed", fix)])


def render_page(found: Overview, exports: Mapping[str, str] | None = None, notes: Sequence[str] = ()) -> str:
    """Return the report as one HTML page of at most `MOST_BYTES`.

    Parameters
    ----------
    found
        The plan and its analyses.
    exports
        Files to copy by name; the largest are left out where the page would be too large.
    notes
        Why files are missing.
    """
    files, remarks = dict(exports or {}), [sanitise(note) for note in notes]
    parts = _parts(found, MOST_TABLE_ROWS[0])
    page = _rendered(parts, files, remarks)
    while len(page.encode()) > MOST_BYTES and files:
        largest = max(files, key=lambda name: len(files[name]))
        del files[largest]
        remarks.append(f"{sanitise(largest)} is left out for its size: planner solve -o, planner export")
        page = _rendered(parts, files, remarks)
    for most in MOST_TABLE_ROWS[1:]:
        if len(page.encode()) > MOST_BYTES:
            page = _rendered(_parts(found, most), files, remarks)
    return page


def _parts(found: Overview, most_rows: int) -> dict[str, Any]:
    """Return what the template shows, without the files."""
    plan, groups = found.plan, groups_of(found)
    solved = bool(plan.planned)
    contents = [("why", "Why there is no plan")] if not solved else [("plan", "The plan"), ("reasons", "Why this plan")]
    offers = f"{plan.candidates.offers:,} offers, " if plan.candidates.offers else ""
    made = f"{offers}{plan.candidates.made:,} candidates; ages of prices count to {plan.as_of}; solver {plan.solver}"
    if found.of_file:
        made += ". The plan was read from a file: the analyses know only the offers that it carries"
    counts = sorted(plan.candidates.reasons.items(), key=lambda item: (-item[1], item[0]))[:12]
    titles = section_titles(plan)
    missing = {titles[name]: sanitise(why) for name, why in found.skipped.items()}
    if solved and not found.prices and "prices" not in found.skipped:
        missing[SECTION_NAMES["prices"]] = (
            "the price book has no earlier prices of these machines: planner prices update"
        )
    return {
        "name": sanitise(plan.scenario),
        "headline": plan_words.headline(plan),
        "warnings": plan_words.warnings(plan),
        "fixed": [sanitise(line) for line in found.fixed],
        "tiles": plan_words.tiles(plan),
        "made": made,
        "infeasible": not solved,
        "relaxations": plan_words.relaxations(plan),
        "misses": plan_words.near_misses(plan),
        "rejected": [(sanitise(reason), f"{count:,}") for reason, count in counts],
        "jobs": plan_words.facts(plan),
        "more_jobs": max(0, len(plan.jobs) - plan_words.MOST_BLOCKS),
        "reasons": plan_words.reasons_of(found),
        "groups": [
            {"key": group.key, "title": group.title, "figures": [_drawn(figure, most_rows) for figure in group.figures]}
            for group in groups
        ],
        "missing": list(missing.items()),
        "contents": contents + [(group.key, group.title) for group in groups],
        "data": json_block(_data(found)),
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


def _data(found: Overview) -> dict[str, Any]:
    """Return the data of the script."""
    plan = jobs_alone(found.plan)
    setting = ""
    if plan.only_job is not None:
        setting = f"--set {shlex.quote(f'jobs.{sanitise(plan.jobs[0].name)}.deadline=HOURSh')}"
    usd = plan.cost.expected if plan.cost else None
    hours = plan.hours.at_confidence if plan.hours else None
    data: dict[str, Any] = {"plan": {"usd": usd, "within": hours}, "setting": setting}
    if found.frontier is not None and found.frontier.points and plan.jobs:
        data["frontier"] = frontier_data(found.frontier)
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
