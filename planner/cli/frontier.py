"""`frontier`: cost against time."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import click

from planner.cli.options import EXIT_CODES, output_options, solve_options
from planner.cli.scenarios.question import loaded_question
from planner.cli.terminal import show_progress

if TYPE_CHECKING:
    from planner.cli.output import Output
    from planner.loading.scenario_file import LoadedScenario
    from planner.scenario.scenario import SolveOptions


@click.command()
@loaded_question
@click.option("--by", type=click.Choice(["method", "gpu", "provider"]), help="Show one curve for each of them.")
@click.option("--all", "every", is_flag=True, help="Show every breakpoint, not a selection.")
@output_options
@click.option(
    "--points",
    type=click.IntRange(min=2),
    default=20,
    show_default=True,
    help="Most points to solve if several jobs share a limit.",
)
@solve_options()
def frontier(loaded: LoadedScenario, by: Any, every: bool, output: Output, points: int, options: SolveOptions) -> None:
    """Show the cost of SCENARIO for every deadline.

    For one job every breakpoint is exact. SCENARIO is a file, the name of a
    shipped scenario, or - for standard input.

    Try: planner frontier quickstart --plot frontier.svg
    """
    output.check()
    with show_progress(f"tracing {loaded.scenario.name}"), loaded.locate_faults():
        # Imported late: a wrong scenario is reported before numpy and the solvers are loaded.
        from planner.analysis.frontier.frontier import frontier as trace

        found = trace(loaded.scenario, options, by=by, points=points)
    from planner.report.frontier import render_frontier
    from planner.report.plots.frontier import draw_frontier

    output.write(found, functools.partial(render_frontier, every=every), draw_frontier if found.points else None)
    click.get_current_context().exit(EXIT_CODES[found.status])
