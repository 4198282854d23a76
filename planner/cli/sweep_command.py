"""`sweep`: thousands of variants of a scenario, solved by several workers into a file."""

from __future__ import annotations

import click

from planner.cli.options import json_option, loaded_question, solve_options, workers_options
from planner.cli.output import INFEASIBLE, INTERNAL_ERROR, NO_PLAN, Output, show_progress
from planner.loading.scenario_file import LoadedScenario
from planner.results.what_if import ManyVariants
from planner.scenario.scenario import SolveOptions


@click.command()
@loaded_question
@click.option(
    "--vary", "vary", metavar="PATH=A:B:STEP", multiple=True, help="A range, or PATH=[a, b, c]; repeatable [scenario]."
)
@workers_options("Processes; 1 solves in this one [one per core].")
@click.option("--restart", is_flag=True, help="Begin anew where an interrupted sweep left FILE.part.")
@click.option("-o", "--output", "path", metavar="FILE", required=True, help="Results: .csv, or .jsonl with all jobs.")
@json_option
@solve_options(stop=True)
def sweep(
    loaded: LoadedScenario,
    vary: tuple[str, ...],
    workers: int | str | None,
    restart: bool,
    path: str,
    as_json: bool,
    options: SolveOptions,
) -> None:
    """Solve every combination of values of SCENARIO and write a row for each.

    A variant that fails is a row with its error. While the sweep runs, its
    rows are in FILE.part: the same command after an interruption solves what
    is missing.

    Try: planner sweep quickstart --vary limits.budget_usd=2:8:0.5 -o out.csv
    """
    from planner.documents.files import check_unread

    scenario = loaded.scenario
    ranges = vary or scenario.vary
    if not ranges:
        raise click.UsageError("nothing to vary: give --vary PATH=A:B:STEP, such as limits.budget_usd=2:8:0.5")
    with show_progress(f"solving {scenario.name}", counts=True) as count, loaded.locate_faults():
        from planner.analysis.run_sweep import journal_of, run_sweep

        for written in (path, journal_of(path)):
            check_unread(written)
        answer = run_sweep(scenario, ranges, path, options=options, workers=workers, restart=restart, on_variant=count)
    from planner.report.sweep_text import render_variants

    Output(as_json).write(answer, render_variants)
    click.get_current_context().exit(_exit_code(answer))


def _exit_code(answer: ManyVariants) -> int:
    """Return 0 if any variant has a plan; else what the variants came to."""
    if answer.cheapest is not None:
        return 0
    if "no_plan" in answer.counts:
        return NO_PLAN
    return INFEASIBLE if "infeasible" in answer.counts else INTERNAL_ERROR
