"""`explain`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from planner.cli.exit_codes import write_json
from planner.cli.solve import as_of_option, json_option, set_option, show_progress

if TYPE_CHECKING:
    import datetime


@click.command()
@click.argument("scenario")
@set_option
@click.option("--why-not", metavar="KEY=VALUE,...", help="Ask about one way, such as gpu=RTX4090,method=full.")
@json_option
@as_of_option
def explain(
    scenario: str, settings: tuple[str, ...], why_not: str | None, as_json: bool, as_of: datetime.datetime | None
) -> None:
    """Tell why the plan of SCENARIO is as it is, or why there is none.

    What binds, the smallest relaxation of each limit that pays, the best
    alternatives; of an infeasible scenario the smallest limits to move.
    """
    from planner.loading.scenario_file import load_scenario
    from planner.scenario.scenario import SolveOptions

    asked = load_scenario(scenario, settings)
    question = asked.scenario
    with show_progress(f"explaining {question.name}"), asked.locate_faults():
        from planner.analysis.explain.explain import explain as find_reasons

        told = find_reasons(question, why_not, SolveOptions(as_of=as_of.date() if as_of else None))
    if as_json:
        write_json(told.model_dump(mode="json", by_alias=True))
    else:
        from planner.report.explanation import render

        click.echo(render(told))
