"""The page and its figures: every text of a scenario reaches it escaped or as JSON."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from planner.errors import Fault, InputError
from planner.library.reading import architecture_names
from planner.loading.scenario_file import shipped_scenarios
from planner.report.report_page import json_block, least_cost_script, page_style
from planner.report.words import sanitise
from planner.web.kept_files import OpenedScenario
from planner.web.setting_fields import Control

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
