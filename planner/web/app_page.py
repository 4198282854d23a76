"""The page: the scenario that it was started with, its text, and the files to download that its changes make.

Every text of a scenario reaches the page escaped or as JSON.
"""

from __future__ import annotations

import base64
import importlib.util
import io
import json
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
from planner.errors import Fault, InputError, printable
from planner.exports.export import LIST, checklist, choose_job, export_all, folder_list
from planner.exports.facts import Wishes
from planner.exports.machine_names import part_folders
from planner.library.reading import architecture_names
from planner.loading.name_resolution import texts_at
from planner.loading.scenario_file import fill_names, read_inventory, shipped_inventory, shipped_scenarios
from planner.report.report_page import json_block, least_cost_script, page_style, render_page
from planner.report.words import sanitise
from planner.results.plan import Plan, plan_text
from planner.scenario.offer import offer_data
from planner.scenario.scenario import Scenario, SolveOptions, scenario_data
from planner.subjects import jobs_of_plan, planner_of
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
    for name, (found, left_out) in parts.items():
        inside = f"{folders[name]}/" if folders[name] else ""
        missing += [f"{inside}{line}" for line in left_out]
        texts |= {inside + path: text for path, text in found.items()}
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
    wishes, found = Wishes(), {}
    jobs, asked = jobs_of_plan(plan, scenario)
    policies = policy_tables(asked, jobs) if any(job.spot is not None for job in plan.jobs) else {}
    if not plan.planned:
        choose_job(jobs, asked, PLAN_FILE, None)  # says that there is nothing to run
    for part in plan.planned:
        if (subject := planner_of(part)) is not None:
            found[part.name] = subject.files(plan, scenario, PLAN_FILE, part.name, wishes, None)
        else:
            chosen = choose_job(jobs, asked, PLAN_FILE, part.name)
            found[part.name] = export_all(chosen, wishes, PLAN_FILE, policies.get(part.name))
    return found


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
        found = [control for control in self.controls if control.path.endswith(wanted)]
        return next((control for control in found if self.serves or control.key == "deadline"), None)

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
