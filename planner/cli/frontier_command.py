"""`frontier`: cost against time."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from planner.analysis.frontier.any_frontier import frontier as trace
from planner.analysis.frontier.any_frontier import traces_its_own
from planner.cli.options import EXIT_CODES, NameOf, loaded_question, output_options, solve_options
from planner.cli.output import Output, asked_again, draw_answer, show_next, show_progress
from planner.loading.scenario_file import LoadedScenario
from planner.results.frontier import DEFAULT_POINTS, Frontier
from planner.scenario.scenario import SolveOptions

if TYPE_CHECKING:
    from collections.abc import Callable


OF_FRONTIER = {"--by": 1, "--all": 0, "--job": 1, "--plot": 1, "--points": 1}
"""Options that `solve` does not take, with the number of words that follow each."""


@click.command()
@loaded_question
@click.option("--by", type=NameOf(["method", "gpu", "provider"]), help="Show one curve for each of them.")
@click.option("--all", "every", is_flag=True, help="Show every breakpoint, not a selection.")
@click.option("--job", "name", metavar="NAME", help="Of jobs next to a service: whose frontier (default: the jobs').")
@output_options
@click.option(
    "--points",
    type=click.IntRange(min=2),
    default=DEFAULT_POINTS,
    show_default=True,
    help="Most points to solve if several jobs share a limit.",
)
@solve_options()
def frontier(
    loaded: LoadedScenario, by: Any, every: bool, name: str | None, output: Output, points: int, options: SolveOptions
) -> None:
    """Show the cost of SCENARIO for every deadline.

    For one job every breakpoint is exact. With objective: loss it shows the
    least loss for every budget, for a service the dollars of a month for
    every limit on the time per token. Next to a service it is that of the
    jobs; --job with the service's name shows the other. SCENARIO is a file, the name of a
    shipped scenario, or - for standard input.

    Try: planner frontier quickstart --plot frontier.svg
    """
    output.check()
    context = click.get_current_context()
    most = None if context.get_parameter_source("points") is ParameterSource.DEFAULT else points
    with loaded.locate_faults():
        traces_its_own(loaded.scenario, name, by)  # a wrong question is refused before anything is solved
    with show_progress(f"tracing {loaded.scenario.name}"), loaded.locate_faults():
        found = trace(loaded.scenario, options, by=by, points=most, job=name)
    render: Callable[[Any], str]
    if isinstance(found, Frontier):
        from planner.report.frontier_text import render_frontier

        render = functools.partial(render_frontier, every=every)
    else:
        from planner.report.result_text import render_result

        render = render_result
    output.write(found, render, draw_answer if found.points else None, color=True)
    if not output.as_json and isinstance(found, Frontier) and found.knee is not None and len(found.points[0].jobs) == 1:
        asked, hours = asked_again("solve", OF_FRONTIER), math.ceil(100 * found.points[found.knee].hours) / 100
        show_next(asked and f"{asked} --set jobs.0.deadline={hours:g}h")
    context.exit(EXIT_CODES[found.status])
