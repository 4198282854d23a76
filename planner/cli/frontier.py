"""`frontier`: cost against time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from planner.cli.exit_codes import write_json
from planner.cli.output_files import check_writable, unwritable_error
from planner.cli.solve import (
    EXIT_CODES,
    as_of_option,
    json_option,
    plot_option,
    set_option,
    show_progress,
    solver_option,
)

if TYPE_CHECKING:
    import datetime

    from planner.results.frontier import Frontier


@click.command()
@click.argument("scenario")
@set_option
@click.option("--by", type=click.Choice(["method", "gpu", "provider"]), help="One curve for each of them.")
@click.option("--all", "every", is_flag=True, help="Show every breakpoint, not only the telling ones.")
@json_option
@plot_option
@click.option(
    "--points",
    type=click.IntRange(min=2),
    default=20,
    show_default=True,
    help="Most points to solve where several jobs share a limit.",
)
@solver_option
@as_of_option
def frontier(
    scenario: str,
    settings: tuple[str, ...],
    by: Any,
    every: bool,
    as_json: bool,
    plot: str | None,
    points: int,
    solver: Any,
    as_of: datetime.datetime | None,
) -> None:
    """Show what SCENARIO costs for every deadline: cost against time.

    For one job every breakpoint is exact. SCENARIO is a file, the name of a
    shipped scenario, or - for standard input.
    """
    from planner.loading.scenario_file import load_scenario
    from planner.scenario.scenario import SolveOptions

    asked = load_scenario(scenario, settings)
    question = asked.scenario
    if plot is not None:
        from planner.report.plots.style import checked_suffix

        checked_suffix(plot)
        check_writable(plot)
    options = SolveOptions(solver=solver, as_of=as_of.date() if as_of else None)
    with show_progress(f"tracing {question.name}"), asked.locate_faults():
        # Only now: a wrong scenario is told before numpy and the solvers are loaded.
        from planner.analysis.frontier.frontier import frontier as trace

        found = trace(question, options, by=by, points=points)
    from planner.report.frontier import render_frontier

    text = render_frontier(found, every)
    if plot is not None and found.points:
        _draw(found, plot, text)
    if as_json:
        write_json(found.model_dump(mode="json", by_alias=True))
    else:
        click.echo(text)
    click.get_current_context().exit(EXIT_CODES[found.status])


def _draw(found: Frontier, path: str, text: str) -> None:
    """The picture into the file; ScenarioError where that fails, the old file then as it was."""
    from planner.report.plots.frontier import draw_frontier

    try:
        draw_frontier(found, path, text.splitlines())
    except OSError as error:
        raise unwritable_error(path, error.strerror or str(error)) from None
