"""`app`: a scenario as a page with fields, whose plan follows every change."""

from __future__ import annotations

import shlex
from typing import Any

import click

from planner.cli.options import (
    clock_setting,
    load_asked,
    now_option,
    question_options,
    refuse_both,
    set_option,
    solve_options,
    solve_words,
)
from planner.cli.output import show
from planner.scenario.scenario import SolveOptions

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
    from planner.web.kept_files import OpenedScenario
    from planner.web.server import serve

    asked = tuple(shlex.split(question.command(""))) if question is not None else (str(scenario),)
    asked = (*asked, *solve_words(options))
    opened = OpenedScenario(loaded.scenario, document.data if document else {}, loaded.source.file, changes, asked)

    def announce(address: str) -> None:
        show(f"{loaded.scenario.name}: {address}")
        show("Stop with Ctrl-C.", err=True)

    serve(opened, options, port=port, opens_browser=not no_browser, announce=announce)
