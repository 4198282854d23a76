"""`what-if`: before and after, a sweep, or the tornado."""

from __future__ import annotations

import sys
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

    from planner.results.what_if import Sweep, Tornado, WhatIf
    from planner.scenario.scenario import Scenario, SolveOptions


@click.command("what-if")
@click.argument("scenario")
@set_option
@click.option(
    "--vary",
    "vary",
    metavar="PATH=A:B:STEP",
    multiple=True,
    help="Go through a range, or PATH=[a, b, c]; twice for a heat map.",
)
@click.option("--tornado", "as_tornado", is_flag=True, help="Move every limit and price, what matters most first.")
@click.option("--by", type=float, default=0.2, show_default=True, metavar="SHARE", help="How far the tornado moves.")
@json_option
@plot_option
@solver_option
@as_of_option
def what_if(
    scenario: str,
    settings: tuple[str, ...],
    vary: tuple[str, ...],
    as_tornado: bool,
    by: float,
    as_json: bool,
    plot: str | None,
    solver: Any,
    as_of: datetime.datetime | None,
) -> None:
    """Ask SCENARIO again with other values: before and after side by side.

    With --vary a curve or a heat map, with --tornado what matters most; --set
    then changes what these start from. Without any of them the ranges go
    through that the scenario itself names under vary.
    """
    from planner.loading.scenario_file import load_scenario
    from planner.scenario.scenario import SolveOptions

    if vary and as_tornado:
        raise click.UsageError("--vary and --tornado are two questions: ask one at a time")
    asked = load_scenario(scenario)
    question = asked.scenario
    if not settings and not vary and not as_tornado:
        vary = question.vary
        if not vary:
            raise click.UsageError("nothing to change: give --set PATH=VALUE, --vary PATH=A:B:STEP or --tornado")
    if plot is not None:
        _check_plot(plot)
    options = SolveOptions(solver=solver, as_of=as_of.date() if as_of else None)
    with asked.locate_faults():
        answer, text = _run_query(question, settings, vary, by if as_tornado else None, options)
    if plot is not None:
        _draw(answer, plot, text)
    if as_json:
        write_json(answer.model_dump(mode="json", by_alias=True))
    else:
        click.echo(text)
    click.get_current_context().exit(_code(answer))


def _run_query(
    question: Scenario, settings: tuple[str, ...], vary: tuple[str, ...], by: float | None, options: SolveOptions
) -> tuple[WhatIf | Sweep | Tornado, str]:
    """The answer that was asked for, and its text."""
    from planner.report.what_if.comparison import render_what_if
    from planner.report.what_if.sweep import render_sweep
    from planner.report.what_if.tornado import render_tornado

    with show_progress(f"solving {question.name}"):
        if by is not None:
            from planner.analysis.what_if.tornado import tornado

            found = tornado(question, options, by=by, settings=settings)
            return found, render_tornado(found)
        if vary:
            from planner.analysis.what_if.sweep import sweep

            swept = sweep(question, vary, settings, options, tell=_show_progress)
            return swept, render_sweep(swept)
        from planner.analysis.what_if.what_if import what_if as ask

        answer = ask(question, settings, options)
        return answer, render_what_if(answer)


def _show_progress(done: int, cells: int) -> None:
    """How far a sweep is, on a terminal."""
    if sys.stderr.isatty():
        click.echo(f"\r\033[K{done:,} of {cells:,} solved", err=True, nl=False)


def _code(answer: WhatIf | Sweep | Tornado) -> int:
    """3 where there is no plan at all: after the change, in every cell, or to move away from."""
    from planner.results.what_if import Sweep, WhatIf

    if isinstance(answer, Sweep):
        statuses = {cell.status for cell in answer.cells}
        found = statuses & {"optimal", "feasible"}
        return 0 if found else EXIT_CODES["no_plan" if "no_plan" in statuses else "infeasible"]
    return EXIT_CODES[answer.after.status if isinstance(answer, WhatIf) else answer.base.status]


def _check_plot(path: str) -> None:
    from planner.report.plots.style import checked_suffix

    checked_suffix(path)
    check_writable(path)


def _draw(answer: WhatIf | Sweep | Tornado, path: str, text: str) -> None:
    from planner.report.plots.what_if import draw

    try:
        draw(answer, path, text.splitlines())
    except OSError as error:
        raise unwritable_error(path, error.strerror or str(error)) from None
