"""`what-if`: before and after, a sweep, or a tornado."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import click

from planner.cli.options import EXIT_CODES, asked_scenario, output_options, solve_options
from planner.cli.output import Output, asked_again, draw_answer, show_next, show_progress
from planner.loading.scenario_file import LoadedScenario
from planner.results.what_if import Sweep, Tornado, WhatIf
from planner.scenario.scenario import Scenario, SolveOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


@click.command("what-if")
@asked_scenario
@click.option(
    "--vary",
    "vary",
    metavar="PATH=A:B:STEP",
    multiple=True,
    help="Solve for every value of a range, or of PATH=[a, b, c]; twice for a heat map.",
)
@click.option("--tornado", "as_tornado", is_flag=True, help="Move each limit and price alone, largest effect first.")
@click.option(
    "--by", type=float, default=0.2, show_default=True, metavar="SHARE", help="Share by which --tornado moves them."
)
@output_options
@solve_options()
def what_if(
    load: Callable[..., LoadedScenario],
    settings: tuple[str, ...],
    vary: tuple[str, ...],
    as_tornado: bool,
    by: float,
    output: Output,
    options: SolveOptions,
) -> None:
    """Solve SCENARIO with other values and compare.

    With --set the plans before and after, with --vary a curve or a heat map,
    with --tornado a sensitivity chart. --vary and --tornado start from the
    values of --set. Without any of them the ranges under `vary` in the
    scenario are used.

    Try: planner what-if quickstart --set limits.budget_usd=4
    """
    if vary and as_tornado:
        raise click.UsageError("--vary and --tornado exclude each other: give one of them")
    loaded = load()
    if not settings and not vary and not as_tornado:
        vary = loaded.scenario.vary
        if not vary:
            raise click.UsageError("nothing to change: give --set PATH=VALUE, --vary PATH=A:B:STEP or --tornado")
    output.check()
    with show_progress(f"solving {loaded.scenario.name}", counts=True) as count, loaded.locate_faults():
        answer, render = _compute(loaded.scenario, settings, vary, by if as_tornado else None, options, count)
    output.write(answer, render, draw_answer, color=True)
    if not output.as_json:
        show_next(*_next_commands(answer))
    click.get_current_context().exit(_exit_code(answer))


OF_WHAT_IF = {"--vary": 1, "--tornado": 0, "--by": 1, "--plot": 1}
"""Options that `solve` and `explain` do not take or that ask for another answer, with the words that follow each."""


def _next_commands(answer: WhatIf | Sweep | Tornado) -> list[str]:
    """Return the commands to go on with: the changed plan and its reasons, the cheapest cell, the largest effect."""
    if isinstance(answer, Tornado):
        ends = (end for bar in answer.bars[:1] for end in (bar.down, bar.up) if end.cost_usd is not None)
        asked, chosen = asked_again("what-if", OF_WHAT_IF), next((end.settings for end in ends), ())
        return [_set(asked, chosen)] if asked and chosen else []
    asked = asked_again("solve", OF_WHAT_IF)
    if isinstance(answer, Sweep):
        solved = [cell for cell in answer.cells if cell.cost_usd is not None]
        if not asked or not solved:
            return []
        cheapest = min(solved, key=lambda cell: cell.cost_usd or 0.0)
        return [_set(asked, [f"{axis.path}={value}" for axis, value in zip(answer.axes, cheapest.values, strict=True)])]
    if not asked or not answer.after.planned:
        return []
    return [f"{asked} -o plan.json", asked_again("explain", OF_WHAT_IF)]


def _set(asked: str, settings: Sequence[str]) -> str:
    return " ".join([asked, *(f"--set {shlex.quote(setting)}" for setting in settings)])


def _compute(
    scenario: Scenario,
    settings: tuple[str, ...],
    vary: tuple[str, ...],
    by: float | None,
    options: SolveOptions,
    count: Callable[[int, int], None] | None,
) -> tuple[WhatIf | Sweep | Tornado, Callable[[Any], str]]:
    """Return the answer and the function that renders it."""
    if by is not None:
        from planner.analysis.what_if_sweep import tornado
        from planner.report.what_if_text import render_tornado

        return tornado(scenario, options, by=by, settings=settings), render_tornado
    if vary:
        from planner.analysis.what_if_sweep import sweep
        from planner.report.sweep_text import render_sweep

        return sweep(scenario, vary, settings, options, on_cell=count), render_sweep
    from planner.analysis.what_if_question import what_if as compare
    from planner.report.what_if_text import render_what_if

    return compare(scenario, settings, options), render_what_if


def _exit_code(answer: WhatIf | Sweep | Tornado) -> int:
    """Return 0 if there is a plan: after the change, in any cell, or at the base of the tornado."""
    from planner.results.what_if import Sweep, WhatIf

    if isinstance(answer, Sweep):
        statuses = {cell.status for cell in answer.cells}
        found = statuses & {"optimal", "feasible"}
        return 0 if found else EXIT_CODES["no_plan" if "no_plan" in statuses else "infeasible"]
    return EXIT_CODES[answer.after.status if isinstance(answer, WhatIf) else answer.base.status]
