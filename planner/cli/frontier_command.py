"""`frontier`: cost against time."""

from __future__ import annotations

import functools
from typing import Any

import click
from click.core import ParameterSource

from planner import open_choices, services
from planner.cli.options import EXIT_CODES, NameOf, loaded_question, output_options, solve_options
from planner.cli.output import Output, draw_answer, show_progress
from planner.loading.scenario_file import LoadedScenario
from planner.scenario.scenario import Scenario, SolveOptions


@click.command()
@loaded_question
@click.option("--by", type=NameOf(["method", "gpu", "provider"]), help="Show one curve for each of them.")
@click.option("--all", "every", is_flag=True, help="Show every breakpoint, not a selection.")
@click.option("--job", "name", metavar="NAME", help="Of jobs next to a service: whose frontier (default: the jobs').")
@output_options
@click.option(
    "--points",
    type=click.IntRange(min=2),
    default=20,
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
    if loaded.scenario.objective == "loss":
        _frontier_of_loss(loaded, by, output, points, options)
        return
    if _is_of_service(loaded.scenario, name):
        _frontier_of_service(loaded, by, output, points, options)
        return
    with show_progress(f"tracing {loaded.scenario.name}"), loaded.locate_faults():
        # Imported late: a wrong scenario is reported before numpy and the solvers are loaded.
        from planner.analysis.frontier.frontier_question import frontier as trace

        found = trace(loaded.scenario, options, by=by, points=points)
    from planner.report.frontier_text import render_frontier

    output.write(found, functools.partial(render_frontier, every=every), draw_answer if found.points else None)
    click.get_current_context().exit(EXIT_CODES[found.status])


def _is_of_service(scenario: Scenario, name: str | None) -> bool:
    """Return whether the frontier is that of a service: the only job, or the one that is named."""
    served = {job.name for job in scenario.jobs if job.kind == "serve"}
    names = [job.name for job in scenario.jobs]
    if name is None:
        return len(served) == len(names)
    if not served:
        raise click.UsageError("--job: is for jobs next to a service", click.get_current_context())
    from planner.documents.validation import meant_name

    return meant_name(name, names, "--job", "the scenario has no job") in served


def _frontier_of_loss(loaded: LoadedScenario, by: Any, output: Output, points: int, options: SolveOptions) -> None:
    """Show the least loss of a scenario for every budget."""
    if by is not None:
        raise click.UsageError("--by divides a frontier of cost against time", click.get_current_context())
    with show_progress(f"tracing {loaded.scenario.name}"), loaded.locate_faults():
        found = open_choices.loss_frontier(loaded.scenario, options, points=points)

    output.write(found, open_choices.render_loss_frontier, draw_answer if found.points else None)
    click.get_current_context().exit(EXIT_CODES[found.status])


def _frontier_of_service(loaded: LoadedScenario, by: Any, output: Output, points: int, options: SolveOptions) -> None:
    """Show the dollars of a month for every limit on the time per token."""
    context = click.get_current_context()
    if by is not None:
        raise click.UsageError("--by divides a frontier of cost against time", context)
    with show_progress(f"tracing {loaded.scenario.name}"), loaded.locate_faults():
        default = context.get_parameter_source("points") is ParameterSource.DEFAULT
        alone = all(job.kind == "serve" for job in loaded.scenario.jobs)
        found = (services.service_frontier if alone else services.frontier_of_service)(
            loaded.scenario, options, points=services.SERVICE_POINTS if default else points
        )

    output.write(found, services.render_service_frontier, draw_answer if found.points else None)
    context.exit(EXIT_CODES[found.status])
