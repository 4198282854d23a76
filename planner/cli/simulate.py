"""`simulate`: a plan replayed against many markets."""

from __future__ import annotations

import contextlib
import json
import sys
from typing import TYPE_CHECKING, Any

import click

from planner.cli.exit_codes import write_json
from planner.cli.output_files import check_writable, unwritable_error, write_text
from planner.cli.solve import (
    EXIT_CODES,
    as_of_option,
    json_option,
    plot_option,
    read_typed_plan,
    set_option,
    solver_option,
)

if TYPE_CHECKING:
    import datetime
    from collections.abc import Callable, Iterator

    from planner.results.simulation import Simulation
    from planner.scenario.scenario import Scenario


@click.command()
@click.argument("scenario")
@set_option
@click.option("--plan", "plan_file", metavar="FILE", help="Replay this plan, as solve wrote it (default: solve).")
@click.option(
    "--trace",
    "traces",
    metavar="FILE|FOLDER",
    multiple=True,
    help="Replay against recorded markets; may be given several times.",
)
@click.option(
    "--runs",
    type=click.IntRange(min=1, max=1_000_000),
    default=10_000,
    show_default=True,
    metavar="N",
    help="Markets to draw; most windows of traces.",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, metavar="S")
@click.option("--exact-speed", is_flag=True, help="Leave out the error of the estimated speed.")
@json_option
@plot_option
@click.option("--policy", "policy_file", metavar="FILE", help="Write the policies of the plan as JSON tables, too.")
@click.option("-v", "--verbose", is_flag=True, help="Tell how long it took.")
@solver_option
@as_of_option
def simulate(
    scenario: str,
    settings: tuple[str, ...],
    plan_file: str | None,
    traces: tuple[str, ...],
    runs: int,
    seed: int,
    exact_speed: bool,
    as_json: bool,
    plot: str | None,
    policy_file: str | None,
    verbose: bool,
    solver: Any,
    as_of: datetime.datetime | None,
) -> None:
    """Replay the plan of SCENARIO against many spot markets.

    Markets are drawn from what the plan assumes of its offer, and speeds from
    the error of its estimate; --trace takes recorded markets instead: JSON
    with metadata.gap_seconds and data (a count of machines per step), or the
    CSV formats of planner market fit. Told is what the runs cost, when they
    are done, and what other policies make of the same markets.

    Try: planner simulate spot-heavy --as-of 2026-06-01
    """
    from planner.loading.scenario_file import load_scenario
    from planner.scenario.scenario import SolveOptions

    asked = load_scenario(scenario, settings)
    question = asked.scenario
    _check_files(plot, policy_file)
    given = read_typed_plan(plan_file) if plan_file is not None else None
    options = SolveOptions(solver=solver, as_of=as_of.date() if as_of else None)
    what = f"solving {question.name}" if given is None else f"reading {question.name}"
    with _bar(what) as progress, asked.locate_faults():
        # Only now: a wrong scenario is told before numpy and the solvers are loaded.
        from planner.analysis.simulation.simulate import simulate as replay

        found = replay(
            question,
            given,
            traces=traces,
            runs=runs,
            seed=seed,
            exact_speed=exact_speed,
            options=options,
            progress=progress,
        )
    if policy_file is not None and found.jobs:
        _write_policies(question, found, policy_file)
    from planner.report.simulation import render_simulation

    text = render_simulation(found)
    if plot is not None and found.jobs:
        _draw(found, plot, text)
    if as_json:
        write_json(found.model_dump(mode="json", by_alias=True))
    else:
        click.echo(text)
    if verbose and found.runs_per_second:
        click.echo(f"{found.seconds:.1f} s in all; {found.runs_per_second:,.0f} runs per second of one core", err=True)
    click.get_current_context().exit(EXIT_CODES[found.status])


def _check_files(plot: str | None, policy_file: str | None) -> None:
    if plot is not None:
        from planner.report.plots.style import checked_suffix

        checked_suffix(plot)
    for path in (plot, policy_file):
        if path is not None:
            check_writable(path)


@contextlib.contextmanager
def _bar(before: str) -> Iterator[Callable[[int, int], None] | None]:
    """A bar on the terminal for the runs that are done, `before` until the first are; nothing where messages go
    to a file.
    """
    if not sys.stderr.isatty():
        yield None
        return
    click.echo(f"{before} ...", err=True, nl=False)
    with contextlib.ExitStack() as stack:
        shown: list[Any] = []

        def progress(done: int, runs: int) -> None:
            if not shown:
                click.echo("\r\033[K", err=True, nl=False)
                shown.append(stack.enter_context(click.progressbar(length=runs, label="replaying", file=sys.stderr)))
            shown[0].update(done - shown[0].pos)

        yield progress
    click.echo("\r\033[K", err=True, nl=False)


def _write_policies(question: Scenario, found: Simulation, path: str) -> None:
    from planner.analysis.simulation.policy_advice import policy_tables

    document = {"scenario": question.name, "jobs": policy_tables(question, found.plan)}
    write_text(path, json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def _draw(found: Simulation, path: str, text: str) -> None:
    """The picture into the file; ScenarioError where that fails, the old file then as it was."""
    from planner.report.plots.simulation import draw_simulation

    try:
        draw_simulation(found, path, text.splitlines())
    except OSError as error:
        raise unwritable_error(path, error.strerror or str(error)) from None
