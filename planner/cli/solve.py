"""`solve` and `check`."""

from __future__ import annotations

import contextlib
import json
import math
import os
import sys
from typing import TYPE_CHECKING, Any

import click

from planner.cli.exit_codes import INFEASIBLE, NO_PLAN, write_json
from planner.cli.output_files import check_writable, write_text
from planner.errors import ScenarioError

if TYPE_CHECKING:
    import datetime
    from collections.abc import Iterator

    from planner.results.plan import Plan

SOLVERS = ("highs", "cbc", "scip", "cp-sat")
EXIT_CODES = {"optimal": 0, "feasible": 0, "infeasible": INFEASIBLE, "no_plan": NO_PLAN}


def _finite(_: click.Context, parameter: click.Parameter, value: float | None) -> float | None:
    if value is not None and not math.isfinite(value):
        raise click.BadParameter("not a finite number", param=parameter)
    return value


set_option = click.option(
    "--set", "settings", metavar="PATH=VALUE", multiple=True, help="Change one value, such as limits.budget_usd=100."
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
plot_option = click.option("--plot", metavar="FILE", help="Draw the answer: .png, .svg or .html.")
solver_option = click.option("--solver", type=click.Choice(SOLVERS), default="highs", show_default=True)
as_of_option = click.option(
    "--as-of",
    type=click.DateTime(["%Y-%m-%d"]),
    metavar="DATE",
    help="Count the age of prices to this day (default: today).",
)


@click.command()
@click.argument("scenario")
@set_option
@json_option
@click.option("-o", "--output", metavar="FILE", help="Write the plan as JSON, too.")
@solver_option
@click.option(
    "--gap", type=click.FloatRange(min=0), default=0.0, callback=_finite, help="Stop within this share of the bound."
)
@click.option(
    "--time-limit",
    type=click.FloatRange(min=0, min_open=True),
    callback=_finite,
    metavar="SECONDS",
    help="Stop with the best plan so far.",
)
@as_of_option
def solve(
    scenario: str,
    settings: tuple[str, ...],
    as_json: bool,
    output: str | None,
    solver: Any,
    gap: float,
    time_limit: float | None,
    as_of: datetime.datetime | None,
) -> None:
    """Find the best plan for SCENARIO.

    SCENARIO is a file, the name of a shipped scenario, or - for standard input.
    """
    from planner.loading.scenario_file import load_scenario
    from planner.scenario.scenario import SolveOptions

    asked = load_scenario(scenario, settings)
    question = asked.scenario
    if output is not None:
        check_writable(output)
    options = SolveOptions(solver=solver, gap=gap, time_limit_seconds=time_limit, as_of=as_of.date() if as_of else None)
    with show_progress(f"solving {question.name}"), asked.locate_faults():
        # Only now: a wrong scenario is told before numpy and the solvers are loaded.
        from planner.solving.solve import solve as find_plan

        plan = find_plan(question, options)
    document = plan.model_dump(mode="json", by_alias=True)
    if output is not None:
        write_text(output, json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n")
    if as_json:
        write_json(document)
    else:
        from planner.report.plan import render

        click.echo(render(plan, color=wants_color()))
    click.get_current_context().exit(EXIT_CODES[plan.status])


@click.command()
@click.argument("plan")
@click.argument("scenario")
@set_option
@json_option
def check(plan: str, scenario: str, settings: tuple[str, ...], as_json: bool) -> None:
    """Audit the file PLAN against SCENARIO.

    Every figure of the plan itself is recomputed; what it says of other ways
    (methods, next best, limits that bind) and its notes are not.
    """
    from planner.audit.audit import audit
    from planner.loading.scenario_file import read_library, read_scenario

    checked = read_typed_plan(plan)
    question = read_scenario(scenario, settings)
    library = read_library([job.architecture for job in question.jobs])
    violations = audit(checked, question, library)
    if as_json:
        keys = ("job", "what", "expected", "found")
        write_json({"violations": [{key: getattr(one, key) for key in keys} for one in violations]})
    elif violations:
        for one in violations:
            click.echo(f"{one.job}: {one.what}: expected {one.expected}, found {one.found}")
    else:
        jobs = "1 job" if len(checked.jobs) == 1 else f"{len(checked.jobs)} jobs"
        click.echo(f"{checked.scenario}: no violations ({jobs} checked)")
    click.get_current_context().exit(INFEASIBLE if violations else 0)


def read_typed_plan(path: str) -> Plan:
    """The plan of a file; `ScenarioError` names every field that is wrong."""
    from pydantic import ValidationError

    from planner.documents.source_map import Source
    from planner.documents.validation import validation_complaints
    from planner.loading.scenario_file import read_plan
    from planner.results.plan import Plan

    data = read_plan(path)
    try:
        return Plan.model_validate(data)
    except ValidationError as error:
        raise ScenarioError(Source(path).faults(validation_complaints(error, Plan, data))) from None


def wants_color() -> bool:
    """Colour is for terminals, and for those who did not refuse it."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


@contextlib.contextmanager
def show_progress(what: str) -> Iterator[None]:
    """A line on the terminal while something takes its time; nothing where messages go to a file."""
    shown = sys.stderr.isatty()
    if shown:
        click.echo(f"{what} ...", err=True, nl=False)
    try:
        yield
    finally:
        if shown:
            click.echo("\r\033[K", err=True, nl=False)
