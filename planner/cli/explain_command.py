"""`explain`: why a plan is as it is, or why there is none."""

from __future__ import annotations

import contextlib
import shlex

import click

from planner.cli.options import json_option, loaded_question, solve_options
from planner.cli.output import Output, asked_again, show_next, show_progress
from planner.loading.scenario_file import LoadedScenario
from planner.results.explanation import Explanation
from planner.scenario.scenario import SolveOptions


@click.command()
@loaded_question
@click.option(
    "--why-not", metavar="KEY=VALUE,...", help="Explain why not this alternative, such as gpu=RTX4090,method=full."
)
@click.option(
    "--technique",
    metavar="NAME",
    help="What published work found: sparsity, shared_layers, caching, prefetching, larger_batch or from_scratch.",
)
@click.option("--details", is_flag=True, help="Print every alternative.")
@json_option
@solve_options(solver=False)
def explain(
    loaded: LoadedScenario,
    why_not: str | None,
    technique: str | None,
    details: bool,
    as_json: bool,
    options: SolveOptions,
) -> None:
    """Explain the plan of SCENARIO, or why there is none.

    Shows the limits that bind, the smallest relaxation of each limit that
    pays, and the best alternatives; for an infeasible scenario the smallest
    changes that make it feasible.

    Try: planner explain quickstart --why-not gpu=RTX4090,method=full
    """
    if technique is not None:
        if why_not is not None:
            raise click.UsageError("give --why-not or --technique, not both", click.get_current_context())
        _explain_technique(loaded, technique, as_json, options)
        return
    with show_progress(f"explaining {loaded.scenario.name}"), loaded.locate_faults():
        from planner.analysis.explain.limit_sensitivity import explain as find_reasons

        explanation = find_reasons(loaded.scenario, why_not, options)
    from planner.report.explanation_text import render
    from planner.report.words import whole

    with whole() if details else contextlib.nullcontext():
        Output(as_json).write(explanation, render, color=True)
    if not as_json:
        show_next(*_next_commands(explanation))


OF_EXPLAIN = {"--why-not": 1, "--technique": 1, "--details": 0}
"""Options that `what-if` does not take, with the number of words that follow each."""


def _next_commands(explanation: Explanation) -> list[str]:
    """Return the commands to go on with: what a looser limit gives, and why not the next best GPU."""
    asked = asked_again("explain", OF_EXPLAIN)
    if not asked or explanation.why_not is not None:
        return []
    step = next((step for step in explanation.next_steps if step.change_to is not None and step.setting), None)
    what_if = asked_again("what-if", OF_EXPLAIN)
    looser = [f"{what_if} --set {shlex.quote(step.setting)}"] if step is not None else []
    other = next((one for one in explanation.alternatives if one.by == "gpu" and one.gpu and not one.chosen), None)
    return [*looser, *([f"{asked} --why-not gpu={other.gpu}"] if other else [])]


def _explain_technique(loaded: LoadedScenario, technique: str, as_json: bool, options: SolveOptions) -> None:
    """Print what published work found on a technique, and what it would bring the scenario."""
    with show_progress(f"explaining {technique}"), loaded.locate_faults():
        from planner.analysis.explain.limit_sensitivity import explain_technique

        answer = explain_technique(loaded.scenario, technique, options)
    from planner.report.plan_sections import render

    Output(as_json).write(answer, render)
