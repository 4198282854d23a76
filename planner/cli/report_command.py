"""`report` and `app`: a plan with the analyses around it as one HTML file or picture, and as a page with fields."""

from __future__ import annotations

import contextlib
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from planner.cli.options import (
    EXIT_CODES,
    NameOf,
    asked_scenario,
    clock_setting,
    is_plan,
    jobs_of,
    load_asked,
    now_option,
    question_options,
    read_plan,
    refuse_both,
    scenario_of,
    set_option,
    solve_options,
    solve_words,
)
from planner.cli.output import STANDARD_OUTPUT, show, show_progress, silent_matplotlib
from planner.loading.scenario_file import LoadedScenario
from planner.results.plan import Plan
from planner.results.report_data import Overview, Section
from planner.scenario.scenario import Scenario, SolveOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager


SECTIONS: tuple[Section, ...] = ("frontier", "reasons", "tornado", "simulation", "prices")
FIGURE_NAMES = ("frontier", "bill", "memory", "timetable", "tornado", "cost", "finish")
"""Figures that can be a file of their own."""
FIGURE_FORMATS = ("svg", "png", "pdf")
DEFAULT_PATH = "report.html"


@click.command()
@asked_scenario
@click.option("-o", "--output", "path", metavar="FILE", help=f"Where to write [{DEFAULT_PATH}, or FIGURE.FORMAT].")
@click.option("--without", type=NameOf(SECTIONS), multiple=True, help="Leave out an analysis; repeatable.")
@click.option("--figure", type=NameOf(FIGURE_NAMES), help="Write this figure alone.")
@click.option("--format", "kind", type=NameOf(FIGURE_FORMATS), help="Of a figure [by the name of the file, else svg].")
@click.option(
    "--runs",
    type=click.IntRange(min=1, max=100_000),
    default=None,
    help="Replays of the plan [2,000]; of a service requests of each hour [10,000].",
)
@solve_options()
def report(
    load: Callable[..., LoadedScenario],
    settings: Sequence[str],
    path: str | None,
    without: Sequence[str],
    figure: str | None,
    kind: str | None,
    **solving: Any,
) -> None:
    """Write SCENARIO's plan and everything around it as one HTML file.

    SCENARIO is a file, the name of a shipped scenario, - for standard input,
    or a plan that solve wrote. The file needs no network: reasons, cost
    against time with a slider, bill, memory, timetable, alternatives,
    sensitivity, simulated cost and finish, and assumptions.

    Try: planner report quickstart -o report.html
    """
    from planner.documents.files import check_unread, check_writable
    from planner.report.report_page import headline

    context = click.get_current_context()
    if kind is not None and figure is None:
        raise click.UsageError("--format is that of a figure: name it with --figure", context)
    path, kind = _target(path, figure, kind)
    if path not in STANDARD_OUTPUT:
        check_writable(path)
    _check_installed(path, kind)
    wanted = _wanted(figure, without)
    scenario, plan, locating = _asked(load, settings, context)
    check_unread(path)
    with show_progress(f"reporting on {scenario.name}"), locating:
        # Imported late: a wrong scenario is reported before numpy and the solvers are loaded.
        from planner.analysis.overview import overview

        found = overview(scenario, plan, wanted=wanted, **solving)
    if kind is not None and not found.plan.planned:
        show(f"{scenario.name}: {headline(found.plan)}", err=True)
    elif figure is not None and kind is not None:
        _write_figure(found, figure, path, kind)
    else:
        _write_page(found, scenario, path)
    context.exit(EXIT_CODES[found.plan.status])


def _target(path: str | None, figure: str | None, kind: str | None) -> tuple[str, str | None]:
    """Return where to write, and the format of a figure; `UsageError` where name and format differ."""
    if figure is None:
        return DEFAULT_PATH if path is None else path, None
    named = Path(path).suffix.lower().removeprefix(".") if path and path not in STANDARD_OUTPUT else ""
    kind = kind or (named if named in FIGURE_FORMATS else "svg" if not named else None)
    if kind is None or (named and named != kind):
        what = f".{named} is not the suffix of {kind or 'a figure'}"
        raise click.UsageError(f"{what}: one of {', '.join(FIGURE_FORMATS)}", click.get_current_context())
    return f"{figure}.{kind}" if path is None else path, kind


def _check_installed(path: str, kind: str | None) -> None:
    """Refuse what no installed package can write, before anything is computed."""
    from planner.drawing.scene import check_drawable
    from planner.report.report_page import check_installed

    if kind is None:
        check_installed(path)
    elif kind != "svg":
        check_drawable(path)


def _wanted(figure: str | None, without: Sequence[str]) -> tuple[Section, ...]:
    """Return the analyses that are needed."""
    of_figure: dict[str, Section] = {
        **{"frontier": "frontier", "tornado": "tornado"},
        **{"cost": "simulation", "finish": "simulation"},
    }
    names: tuple[Section, ...] = SECTIONS
    if figure is not None:
        names = (of_figure[figure],) if figure in of_figure else ()
    return tuple(name for name in names if name not in without)


def _asked(
    load: Callable[..., LoadedScenario], settings: Sequence[str], context: click.Context
) -> tuple[Scenario, Plan | None, AbstractContextManager[None]]:
    """Return the scenario, the plan where SCENARIO is one, and what gives faults their lines."""
    path = context.params.get("scenario")
    if path is not None and is_plan(path):
        if settings or context.params.get("now"):
            raise click.UsageError("--set and --now change a SCENARIO, not a plan", context)
        plan = read_plan(path)
        return scenario_of(plan, path), plan, contextlib.nullcontext()
    loaded = load(settings)
    return loaded.scenario, None, loaded.locate_faults()


def _write_page(found: Overview, scenario: Scenario, path: str) -> None:
    """Write the page, and say on standard error or output what it is."""
    from planner.documents.files import write_text_atomically
    from planner.report.report_page import headline
    from planner.report.words import width, wrap_lines

    page = _page(found, scenario)
    if path in STANDARD_OUTPUT:
        show(page.removesuffix("\n"))
        return
    write_text_atomically(path, page)
    for line in wrap_lines(f"{found.plan.scenario}: {headline(found.plan)}", width(), 4):
        show(line)
    show(f"{path}: written, {len(page.encode()) / 1000:,.0f} kB")


def _page(found: Overview, scenario: Scenario) -> str:
    from planner.report.report_page import render_page

    exports, notes = _exports(found.plan, scenario)
    return render_page(found, exports, notes)


def page_of(
    scenario: Scenario,
    plan: Plan | None,
    wanted: Sequence[Section],
    runs: int | None = None,
    options: SolveOptions | None = None,
) -> str:
    """Return the page about a scenario; a plan is shown as it is. ScenarioError where the extra is missing."""
    from planner.analysis.overview import overview
    from planner.report.report_page import check_installed

    check_installed("report")
    return _page(overview(scenario, plan, wanted=wanted, runs=runs, options=options), scenario)


def _exports(plan: Plan, scenario: Scenario) -> tuple[dict[str, str], list[str]]:
    """Return the plan and the files that run its first job, or its service, by name, and why others are missing."""
    from planner.errors import InputError
    from planner.exports.export import choose_job, export_all
    from planner.exports.facts import Wishes
    from planner.subjects import planner_of

    names = [part.name for part in plan.planned]
    if not names:
        return {}, []
    files: dict[str, str] = {}
    notes: list[str] = []
    try:
        subject = planner_of(plan.planned[0])
        if subject is None:
            files, notes = export_all(choose_job(*jobs_of(plan, scenario), "plan", names[0]), Wishes(None, None))
        else:
            files, notes = subject.files(plan, scenario, "plan", names[0], Wishes(), None)
    except InputError as error:
        notes = [f"no files to launch {names[0]}: {error.faults[0].what}"]
    if len(names) > 1 and files:
        notes.append(f"the files run {names[0]}; those of another job: planner export plan.json --all --job NAME")
    kept = {name: text for name, text in files.items() if name not in ("README.md", "spot_policy.py", "policy.json")}
    from planner.results.plan import plan_text

    return {**kept, "plan.json": plan_text(plan, indent=1)}, notes


def _write_figure(found: Overview, name: str, path: str, kind: str) -> None:
    """Write one figure in the width of a page."""
    from planner.documents.files import write_bytes_atomically
    from planner.drawing.scene import draw_scene, framed, to_svg
    from planner.errors import Fault, InputError
    from planner.report.plan_figures import WIDE
    from planner.report.report_page import find_figure

    figure = find_figure(found, name)
    if figure is None or figure.draw is None:
        raise InputError([Fault("--figure", 0, "", f"{name}: the report has nothing to draw", "write the page")])
    scene = framed(figure.draw(WIDE))
    with silent_matplotlib():
        content = to_svg(scene, name, standalone=True).encode() + b"\n" if kind == "svg" else draw_scene(scene, kind)
    if path in STANDARD_OUTPUT:
        sys.stdout.buffer.write(content)
        return
    write_bytes_atomically(path, content)
    show(f"{path}: written, {len(content) / 1000:,.0f} kB")


FIRST_SCENARIO = "quickstart"
"""What is opened where nothing is named."""


@click.command()
@click.argument("scenario", required=False)
@question_options
@set_option
@now_option
@click.option("--port", type=click.IntRange(1, 65535), metavar="N", help="Port of the page [a free one].")
@click.option("--no-browser", is_flag=True, help="Print the address only.")
@solve_options()
def app(
    scenario: str | None,
    question: Any,
    settings: tuple[str, ...],
    now: str | None,
    port: int | None,
    no_browser: bool,
    options: SolveOptions,
) -> None:
    """Change SCENARIO on a page and see its plan change.

    SCENARIO is a file, the name of a shipped scenario, or - for standard
    input [quickstart]. The page is served on this machine alone. Every
    change shows the plan, the cost for every deadline, and what changed.

    Try: planner app quickstart
    """
    from planner.web.app_page import check_installed

    check_installed()
    if scenario is not None:
        refuse_both(question)
    if scenario is None and question is None:
        scenario = FIRST_SCENARIO
    changes = (*clock_setting(now), *settings)
    loaded = load_asked(scenario, question, changes)
    document = loaded.source.document
    # Imported late: a wrong scenario is reported before the server is loaded.
    from planner.web.app_page import OpenedScenario
    from planner.web.server import serve

    asked = tuple(shlex.split(question.command(""))) if question is not None else (str(scenario),)
    asked = (*asked, *solve_words(options))
    opened = OpenedScenario(loaded.scenario, document.data if document else {}, loaded.source.file, changes, asked)

    def announce(address: str) -> None:
        show(f"{loaded.scenario.name}: {address}")
        show("Stop with Ctrl-C.", err=True)

    serve(opened, options, port=port, opens_browser=not no_browser, announce=announce)
