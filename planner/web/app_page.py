"""The page of `planner app`: its text, its parts as plain data, and the files to download that its changes make.

Every text of a scenario reaches it escaped or as JSON; the script puts texts in as text, and draws every shape itself.
"""

from __future__ import annotations

import base64
import importlib.util
import io
import json
import math
import shlex
import zipfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner import open_choices
from planner.analysis.job_runs import policy_tables
from planner.analysis.overview import overview
from planner.documents.files import yaml_text
from planner.documents.overrides import override, replace_value
from planner.drawing.scene import Dot, Line, Rect, Scene, Shape
from planner.errors import Fault, InputError, printable
from planner.exports.export import LIST, checklist, choose_job, export_all, folder_list
from planner.exports.facts import Wishes
from planner.exports.machine_names import part_folders
from planner.library.reading import architecture_names
from planner.loading.name_resolution import texts_at
from planner.loading.scenario_file import fill_names, read_inventory, shipped_inventory, shipped_scenarios
from planner.report import plan_answer, report_page, words
from planner.report.plan_answer import risks_of
from planner.report.plan_figures import Figure, Table
from planner.report.plan_sections import format_market, format_optimality, format_place
from planner.report.report_page import groups_of, json_block, least_cost_script, page_style, render_page
from planner.report.what_if_text import (
    describe_changes,
    describe_reasons,
    format_difference,
    format_hours_difference,
    shown_difference,
    shown_hours_difference,
)
from planner.report.words import sanitise
from planner.results.plan import Assignment, Plan, plan_text
from planner.results.plan_parts import Option
from planner.results.service_results import KindBasis
from planner.results.what_if import JobDelta, Overview, WhatIf
from planner.scenario.offer import offer_data
from planner.scenario.scenario import Scenario, SolveOptions, scenario_data
from planner.subjects import jobs_of_plan, planner_of, shown_by
from planner.web.setting_fields import Control, controls_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# Files to download: the scenario with its changes, the plan, the report, the files that run the plan.


PLAN_FILE = "plan.json"


def plan_file(plan: Plan) -> str:
    """Return the plan as `planner solve -o` writes it, with fewer blanks."""
    return plan_text(plan, indent=1)


def export_archive(scenario: Scenario, plan: Plan) -> str:
    """Return a ZIP archive in base64 with what `planner export --all` writes, a folder for each of several jobs.

    `left-out.txt` says which files are missing and why. Raises InputError where there is nothing to run, or no tool
    can express a job.
    """
    parts, missing, stream, texts = _folders(scenario, plan), [], io.BytesIO(), dict[str, str]()
    folders = part_folders(list(parts)) if len(parts) > 1 else dict.fromkeys(parts, "")
    for name, (files, left_out) in parts.items():
        inside = f"{folders[name]}/" if folders[name] else ""
        missing += [f"{inside}{line}" for line in left_out]
        texts |= {inside + path: text for path, text in files.items()}
    texts[PLAN_FILE] = plan_text(plan)
    left = checklist(plan, scenario, PLAN_FILE, Wishes(), folders, texts)
    texts[LIST] = folder_list(plan, texts, left.needs, left.see_to)
    if missing:
        texts["left-out.txt"] = "\n".join(missing) + "\n"
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, text in texts.items():
            archive.writestr(zipfile.ZipInfo(path), text)
    return base64.b64encode(stream.getvalue()).decode("ascii")


def _folders(scenario: Scenario, plan: Plan) -> dict[str, tuple[dict[str, str], list[str]]]:
    """Return files by path, and lines on what is left out, for each job of a plan."""
    scenario = open_choices.scenario_as_chosen(plan, scenario)
    wishes, folders = Wishes(), {}
    jobs, asked = jobs_of_plan(plan, scenario)
    policies = policy_tables(asked, jobs) if any(job.spot is not None for job in plan.jobs) else {}
    if not plan.planned:
        choose_job(jobs, asked, PLAN_FILE, None)  # says that there is nothing to run
    for part in plan.planned:
        if (subject := planner_of(part)) is not None:
            folders[part.name] = subject.files(plan, scenario, PLAN_FILE, part.name, wishes, None)
        else:
            chosen = choose_job(jobs, asked, PLAN_FILE, part.name)
            folders[part.name] = export_all(chosen, wishes, PLAN_FILE, policies.get(part.name))
    return folders


def report_file(scenario: Scenario, plan: Plan, options: SolveOptions) -> str:
    """Return the report as `planner report` writes it, with the plan to copy."""
    return render_page(overview(scenario, plan, options=options), {PLAN_FILE: plan_file(plan)})


# The scenario that the page was started with, and the file that its changes make of it.


@dataclass(frozen=True)
class OpenedScenario:
    """A scenario with what it was read from.

    `document` is its plain data, `file` what that is called, `settings` what the command line changed in it, and
    `asked` the words of a command line that asks for it.
    """

    scenario: Scenario
    document: Mapping[str, Any]
    file: str
    settings: tuple[str, ...] = ()
    asked: tuple[str, ...] = ()

    @cached_property
    def controls(self) -> list[Control]:
        """The fields of the page."""
        return controls_of(self.scenario)

    @property
    def job_names(self) -> tuple[str, ...]:
        """The names of the jobs in their order."""
        return tuple(job.name for job in self.scenario.jobs_written or self.scenario.jobs)

    @property
    def serves(self) -> bool:
        """Whether there is a service, whose curve is dollars against the time per token."""
        return not all(job.ends for job in self.scenario.jobs)

    @cached_property
    def axis(self) -> Control | None:
        """The field along which the curve is drawn: the only job's deadline, or a service's time per token."""
        wanted = ".latency.tpot" if self.serves else ".deadline"
        matching = [control for control in self.controls if control.path.endswith(wanted)]
        return next((control for control in matching if self.serves or control.key == "deadline"), None)

    def command(self, settings: Sequence[str]) -> str:
        """Return the command that compares the same change."""
        changes = [word for setting in settings for word in ("--set", setting)]
        before = [word for setting in self.settings for word in ("--set", setting)]
        if not settings or (self.serves and len(self.scenario.jobs) > 1):  # what-if takes a service alone
            return shlex.join(["planner", "solve", *self.asked, *before, *changes])
        return shlex.join(["planner", "what-if", *self.asked, *before, *changes])

    def changed_file(
        self, settings: Sequence[str], configs: Mapping[str, str], names: Mapping[str, str]
    ) -> dict[str, Any]:
        """Return the text of the scenario with settings applied, in the keys and the order of its own file.

        It needs no other file: what its inventories and tables held is in it.
        """
        data, _, _ = override(fill_names(dict(self.document), self.file), (*self.settings, *settings))
        text = yaml_text(self._with_tables(self._with_offers(data)))
        lines = [f"# {self.scenario.name}, with what was changed on the page of planner app"]
        for key, path in configs.items():
            if path in text:
                text = text.replace(path, names[key])
                lines.append(f"# put the file {names[key]} next to this one")
        return {"text": "\n".join([*map(printable, lines), text]), "changes": json.dumps(list(settings))}

    def _with_offers(self, data: dict[str, Any]) -> dict[str, Any]:
        """Return the data with the offers of inventory files and of the price book in place of their names."""
        named = data.get("inventory") or []
        names = named if isinstance(named, list) else [named]
        shipped = [name for name in names if shipped_inventory(name) is not None]
        if len(shipped) == len(names):
            return data
        known = [offer for name in shipped for offer in read_inventory(name, Path(), [])]
        scenario = self.scenario
        read = scenario.offers[: len(scenario.offers) - len(scenario.offers_inline)]
        offers = [*(offer_data(offer) for offer in read if offer not in known), *(data.get("offers") or [])]
        kept = {"inventory": shipped} if shipped else {}
        return (
            {key: value for key, value in data.items() if key not in ("inventory", "offers")}
            | kept
            | {"offers": offers}
        )

    def _with_tables(self, data: dict[str, Any]) -> dict[str, Any]:
        """Return the data with tables of lengths and of load in place of the names of their files."""
        read = scenario_data(self.scenario)["jobs"]
        for part, key in (("work", "lengths"), ("load", "lengths"), ("load", "profile")):
            for path, text in list(texts_at(data, ("jobs", "*", part, key))):
                if text.lower().endswith(".csv"):
                    data = replace_value(data, path, read[path[1]][part][key])
        return data


_FOLDER = Path(__file__).parent
SCRIPTS = ("app.js", "state.js", "answer.js", "curve.js", "steps.js", "fields.js", "draw.js")
"""The modules of the script; `app.js` imports the others."""
EXAMPLES = {
    "train": ("Train", "quickstart"),
    "generate": ("Generate", "label-2m-documents"),
    "serve": ("Serve", "serve-office-hours"),
}
"""What a job does: the word, and the shipped scenario that shows it."""


def check_installed() -> None:
    """Raise InputError where the extra that serves pages is not installed."""
    missing = [name for name in ("fastapi", "uvicorn", "jinja2") if importlib.util.find_spec(name) is None]
    if missing:
        fix = "install the extra `web`: pip install '.[web]'"
        raise InputError([Fault("planner app", 0, "", f"{', '.join(missing)} not installed", fix)])


def script_text(name: str) -> str | None:
    """Return the text of a module of the script; None where there is none of that name."""
    if name == "least_cost.js":  # the report has it without modules
        return least_cost_script() + "\nexport { leastCost };\n"
    return (_FOLDER / name).read_text(encoding="utf-8") if name in SCRIPTS else None


def render_app(opened: OpenedScenario, controls: list[Control], token: str, nonce: str, shipped: str = "") -> str:
    """Return the page of an opened scenario.

    `nonce` is what the policy of the answer admits, `shipped` the name where a page opened a shipped scenario.
    """
    import jinja2  # an extra: only pages need it
    import markupsafe  # comes with Jinja2

    scenario = opened.scenario
    axis = opened.axis
    data: dict[str, Any] = {
        "token": token,
        "controls": [control.data() for control in controls],
        "models": list(architecture_names()),
        "axis": axis.key if axis is not None else "",
        "serves": opened.serves,
        "waits": len(scenario.jobs) > 1 and not opened.serves,
        "name": sanitise(scenario.name),
        "shipped": shipped,
    }
    does = "serve" if opened.serves else "train" if all(job.trains for job in scenario.jobs) else "generate"
    environment = jinja2.Environment(
        autoescape=True, loader=jinja2.FileSystemLoader(_FOLDER), undefined=jinja2.StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    style = page_style() + (_FOLDER / "app.css").read_text(encoding="utf-8")
    page: str = environment.get_template("page.html.j2").render(
        name=sanitise(scenario.name),
        serves=opened.serves,
        description=sanitise(scenario.description),
        nonce=nonce,
        style=markupsafe.Markup(style),
        scenarios=sorted(shipped_scenarios()),
        shipped=shipped,
        kinds=[(word, name, key == does) for key, (word, name) in EXAMPLES.items()],
        data=markupsafe.Markup(json_block(data)),
    )
    return page


Row = tuple[str, ...]
"""A label, before, after, and the difference."""


def plan_parts(plan: Plan, width: float, bases: Sequence[KindBasis] = ()) -> dict[str, Any]:
    """Return what the page shows of a plan; pictures in a width in pixels, memory of replicas where `bases` say it."""
    groups = groups_of(Overview(plan=plan, bases=tuple(bases)))
    subject = shown_by(plan)
    own = [] if subject is None else subject.facts(plan)
    has_plan = bool(plan.planned)
    return {
        "status": plan.status,
        "headline": report_page.headline(plan),
        "warnings": report_page.warnings(plan),
        "tiles": answer_tiles(plan),
        "chips": chips(plan),
        "machine": machines_of(plan.jobs[0]) if len(plan.jobs) == 1 else "",
        "others": other_rows(plan),
        "changes": possible_changes(plan),
        "jobs": [*own, *report_page.job_facts(plan)],
        "more_jobs": max(0, len(plan.jobs) - report_page.MOST_BLOCKS),
        "figures": [drawn(figure, width) for group in groups for figure in group.figures],
        "relaxations": [] if has_plan else report_page.relaxations(plan),
        "misses": [] if has_plan else report_page.near_misses(plan),
        "usd": plan.cost.expected if plan.cost else None,
        "hours": plan.hours.expected if plan.hours else None,
        "within": plan.hours.at_confidence if plan.hours else None,
        "compared": _compared(plan),
        "made": f"{plan.candidates.made:,} candidates of {plan.candidates.offers:,} offers",
    }


# The answer at a glance: the bar that stays, what else could be rented, and what one change would bring.


MOST_TILES = 5
"""Figures in the bar."""
METHOD_SETTINGS = {
    "full": "method=full",
    "LoRA": "weight_bits=[16]",
    "LoRA 8-bit": "weight_bits=[8]",
    "QLoRA": "weight_bits=[4]",
}
"""The technique that asks for each method that the table of ways names."""


def answer_tiles(plan: Plan) -> list[tuple[str, str, str]]:
    """Return the figures of the bar: name, figure, and what it is measured against; without a plan why there is none.

    The least change that gives one is then the second, and the first of `possible_changes` makes it.
    """
    if not plan.planned:
        least = [("least change", changed, then) for changed, then, _ in report_page.ways_out(plan)[:1]]
        return [("answer", "No plan", report_page.headline(plan)), *least]
    if plan.subject is not None or len(plan.jobs) != 1 or plan.cost is None or plan.hours is None:
        return report_page.tiles(plan)[:MOST_TILES]
    job, cost, hours = plan.jobs[0], plan.cost, plan.hours
    tiles = [("cost", words.usd(cost.expected), f"{words.usd_between(cost.low, cost.high)}, 80 %")]
    if plan.outlay_usd:
        tiles.append(("paid at once", f"${plan.outlay_usd:,.0f}", "purchases, upfront payments and blocks"))
    rent = plan_answer.rent_per_hour(job)
    place = f"{words.sanitise(job.provider)}, {format_market(job.spot_share, job.tier)}"
    paid = place if rent is None else f"{place}, {words.rate(rent)}/h"
    tiles.append(("machine", words.sanitise(words.gpus(job.gpus, job.gpu, job.runs_at_once)), paid))
    tiles.append(("likely", words.hours(hours.expected), words.by(hours.at_confidence)))
    if job.deadline_probability is not None and job.deadline_hours is not None:
        chance = words.chance_text(job.deadline_probability, at_least=job.spot is not None)
        tiles.append(("in time", chance, f"deadline {words.given_hours(job.deadline_hours)} h"))
    if job.gpus:
        vram = job.vram_gib
        sure = "observed" if job.observed_hours is not None else words.probability_text(vram.fit_probability)
        tiles.append(("memory", f"{words.gib(vram.peak)} of {words.gib(vram.usable)} GiB", f"fits: {sure}"))
    return tiles


def chips(plan: Plan) -> list[tuple[str, str, str]]:
    """Return proof and risks in a few words: tone (`good` or `attention`), text, and the whole sentence."""
    if not plan.planned:
        return []
    if (subject := shown_by(plan)) is not None:
        return subject.chips(plan)
    proof = format_optimality(plan)
    of = f"{plan.candidates.made:,} candidates of {plan.candidates.offers:,} offers"
    proven = ("good", "proven optimal", of) if proof == "optimal" else ("attention", proof, of)
    risks = risks_of(plan, plan.only_job) if plan.only_job is not None else []
    return [proven, *(("attention", risk.kind, words.sanitise(risk.text)) for risk in risks)]


def other_rows(plan: Plan) -> list[dict[str, Any]]:
    """Return the plan and the other ways to run its job that it names; none of several jobs."""
    if (job := plan.only_job) is None:
        return []
    ways = plan_answer.ways_of(plan, job)
    return [
        {
            "machine": way.machine.partition(" at ")[0],
            "place": way.machine.partition(" at ")[2],
            "rent": way.usd_per_hour,
            "usd": way.cost_usd,
            "by": way.late_hours,
            "how": way.method,
            "plan": way.name == "plan",
            "why": "" if way.name == "plan" else why_not_chosen(job, way.cost_usd, way.late_hours, way.note),
        }
        for way in ways
    ]


def option_rows(plan: Plan, options: Sequence[Option]) -> list[dict[str, Any]]:
    """Return the best of each GPU at each provider as rows; the plan's own machines have the plan's figures."""
    job = plan.jobs[0]
    rows = [row for row in other_rows(plan) if row["plan"]]
    for option in options:
        if option.cost_usd is None or (option.gpu, option.provider) == (job.gpu, job.provider):
            continue
        late = option.hours_at_confidence
        rows.append(
            {
                "machine": words.sanitise(words.gpus(option.gpus, option.gpu, option.runs_at_once)),
                "place": words.sanitise(f"{option.provider}, {format_market(option.spot_share, option.tier)}"),
                "rent": option.usd_per_hour,
                "usd": option.cost_usd,
                "by": late,
                "how": option.method,
                "plan": False,
                "why": why_not_chosen(job, option.cost_usd, late, option.note),
            }
        )
    return rows


def why_not_chosen(job: Assignment, usd: float, late: float | None, note: str = "") -> str:
    """Return why another way is not the plan: what excludes it, or what it costs and takes against the plan."""
    if note:
        return words.sanitise(note)
    more = usd - job.cost_usd
    share = more / job.cost_usd if job.cost_usd > 0 else 0.0
    price = (
        "same cost" if abs(more) < 0.005 else f"{abs(share):.0%} {'more' if more > 0 else 'less'}".replace("%", " %")
    )
    if late is None:
        return price
    wait = late - job.hours.at_confidence
    return price if abs(wait) < 0.05 else f"{price}, {words.hours(abs(wait))} {'later' if wait > 0 else 'earlier'}"


def possible_changes(plan: Plan) -> list[dict[str, str]]:
    """Return what one change of the scenario would bring: words, dollars, and the setting that makes it.

    Of a plan these are other methods, an earlier end and safer machines; of an infeasible scenario the smallest
    relaxations, each verified by solving.
    """
    if not plan.planned:
        return [{"text": text, "gain": "", "setting": setting} for text, setting in report_page.relaxations(plan)]
    if (job := plan.only_job) is None:
        return []
    own = next(way for way in plan_answer.ways_of(plan, job) if way.name == "plan")
    where, changes = f"jobs.{job.name}", list[tuple[str, float, str]]()
    for option in job.safer:
        if option.cost_usd is not None and option.note:
            changes.append((f"{option.label} machines only", option.cost_usd, option.note))
    for option in plan.faster:
        if option.cost_usd is not None and option.hours_at_confidence is not None:
            hours = option.hours_at_confidence
            setting = f"{where}.deadline={math.ceil(hours * 100) / 100:.10g}h"
            changes.append((f"end by {words.hours_by(hours)}", option.cost_usd, setting))
    for way in plan_answer.ways_of(plan, job):
        if way.name in METHOD_SETTINGS and way.method != own.method:
            changes.append(
                (
                    f"{way.name} in place of {own.method}",
                    way.cost_usd,
                    f"{where}.techniques.{METHOD_SETTINGS[way.name]}",
                )
            )
    return [
        {
            "text": words.sanitise(text),
            "gain": format_difference(shown_difference(job.cost_usd, usd)),
            "setting": setting,
        }
        for text, usd, setting in changes
    ]


def _compared(plan: Plan) -> list[tuple[str, str]]:
    """Return the rows of a pinned plan: names and figures."""
    if plan.cost is None or plan.hours is None:
        return [("cost", "no plan")]
    if (subject := shown_by(plan)) is not None:
        return subject.compared(plan)
    machines = machines_of(plan.jobs[0]) if len(plan.jobs) == 1 else f"{len(plan.jobs)} jobs"
    hours = plan.hours
    return [
        ("cost", words.usd(plan.cost.expected)),
        ("likely finish", words.hours(hours.expected)),
        ("ends by", words.hours_by(hours.at_confidence)),
        ("machines", machines),
    ]


def change_parts(before: Plan, after: Plan, answer: WhatIf | None) -> dict[str, Any]:
    """Return what changed and what it cost; `answer` is the comparison, None where the plans alone are compared."""
    if (subject := shown_by(after) or shown_by(before)) is not None:
        return subject.change_parts(before, after, answer)
    rows = totals(before, after)
    if answer is None:
        return {"summary": "", "rows": rows, "reasons": []}
    single = len(after.jobs) <= 1
    for job in answer.jobs:
        start = "" if single else f"{words.sanitise(job.name)}: "
        rows += [(start + label, *rest) for label, *rest in _job_rows(job, single)]
    same = answer.unchanged
    summary = "" if not (before.jobs and after.jobs) else "nothing changes" if same else describe_changes(answer)[0]
    reasons = answer.it_would_take if same else describe_reasons(answer) if answer.settings else ()
    return {"summary": words.sanitise(summary), "rows": rows, "reasons": [words.sanitise(reason) for reason in reasons]}


def _time_row(label: str, before: Plan, after: Plan, which: str) -> Row:
    """Return the row of one of the two times of the whole plans: `expected` or `at_confidence`."""
    old, new = (getattr(plan.hours, which) if plan.hours else None for plan in (before, after))
    if which == "at_confidence":
        old, new = (None if hours is None else words.shown_by(hours) for hours in (old, new))
    change = "" if old is None or new is None else format_hours_difference(shown_hours_difference(old, new))
    return (label, *("" if hours is None else words.hours(hours) for hours in (old, new)), change)


def totals(before: Plan, after: Plan) -> list[Row]:
    """Return the rows of cost, hours and machines of the whole plans."""
    usd, new_usd = (plan.cost.expected if plan.cost else None for plan in (before, after))
    cost = ""
    if usd is not None and new_usd is not None:
        cost = format_difference(shown_difference(usd, new_usd))
    rows: list[Row] = [
        ("cost", *("no plan" if dollars is None else words.usd(dollars) for dollars in (usd, new_usd)), cost),
        _time_row("likely finish", before, after, "expected"),
        _time_row("ends by", before, after, "at_confidence"),
    ]
    if len(before.jobs) <= 1 and len(after.jobs) <= 1:
        machines = [machines_of(plan.jobs[0]) if plan.jobs else "" for plan in (before, after)]
        rows.append(("machines", *machines, "" if machines[0] == machines[1] else "changed"))
    return rows


def machines_of(job: Assignment) -> str:
    """Return the machines of a job, where they are and how they are paid."""
    return f"{format_place(job)}, {format_market(job.spot_share, job.tier)}"


def _job_rows(job: JobDelta, is_single: bool) -> list[Row]:
    """Return the differences of one job: techniques and machines, then the lines of the bill."""
    skipped = ("card", "GPUs", "provider", "region", "instance") if is_single else ()
    names = {"card": "GPU", "machines": "nodes"}
    rows = [
        (names.get(change.what, change.what), change.before, change.after, "changed")
        for change in job.changes
        if change.what not in skipped
    ]
    for line in job.bill:
        old, new = ("none" if usd is None else words.usd(usd) for usd in (line.before_usd, line.after_usd))
        change = format_difference(shown_difference(line.before_usd or 0.0, line.after_usd or 0.0))
        rows.append((f"bill: {line.item.replace('gpu ', 'GPU ')}", old, new, change))
    return [tuple(map(words.sanitise, row)) for row in rows]


# Figures as plain data: texts, a table, and a picture as a list of shapes that the script of the page draws.


def figure_data(figure: Figure) -> dict[str, Any]:
    """Return the texts and the table of a figure."""
    return {
        **{"key": figure.key, "title": figure.title, "lead": figure.lead, "notes": list(figure.notes)},
        "table": _table(figure.table),
    }


def drawn(figure: Figure, width: float) -> dict[str, Any]:
    """Return a figure with its picture in a width in pixels."""
    scene = scene_data(figure.draw(width)) if figure.draw is not None else None
    return {**figure_data(figure), "scene": scene}


def _table(table: Table) -> dict[str, Any]:
    return {"header": table.header, "rows": table.rows}


def scene_data(scene: Scene) -> dict[str, Any]:
    """Return a picture as lists of figures and texts."""
    size = {"width": round(scene.width, 1), "height": round(scene.height, 1)}
    texts = {"title": scene.title, "description": scene.description}
    return {**size, **texts, "data": dict(scene.data), "shapes": [_shape(shape) for shape in scene.shapes]}


def _shape(shape: Shape) -> list[Any]:
    """Return one shape: its kind, its figures, its colours by role, its text."""
    if isinstance(shape, Rect):
        box = [round(length, 1) for length in (shape.x, shape.y, shape.width, shape.height)]
        return ["rect", *box, shape.fill, shape.note, int(shape.striped)]
    if isinstance(shape, Dot):
        return ["dot", round(shape.x, 1), round(shape.y, 1), shape.radius, shape.stroke, shape.fill, shape.note]
    if isinstance(shape, Line):
        way = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in shape.points)
        return ["line", way, shape.stroke, shape.width, int(shape.dashed)]
    place = [round(shape.x, 1), round(shape.y, 1)]
    return ["text", *place, shape.text, shape.fill, shape.anchor, shape.size, int(shape.bold)]
