"""`frontier`, `what-if`, `sweep`, `explain`, `simulate`: questions about a scenario beyond its best plan."""

from __future__ import annotations

import contextlib
import functools
import shlex
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from planner.cli.options import (
    EXIT_CODES,
    NameOf,
    asked_scenario,
    json_option,
    loaded_question,
    loaded_scenario,
    output_options,
    read_plan,
    solve_options,
    workers_options,
)
from planner.cli.output import (
    INFEASIBLE,
    INTERNAL_ERROR,
    NO_PLAN,
    Output,
    asked_again,
    draw_answer,
    show,
    show_next,
    show_progress,
)
from planner.loading.scenario_file import LoadedScenario
from planner.results.explanation import Explanation
from planner.results.frontier import DEFAULT_POINTS, Frontier
from planner.results.plan import Plan
from planner.results.simulation import Simulation
from planner.results.what_if import ManyVariants, Sweep, Tornado, WhatIf
from planner.scenario.scenario import Scenario, SolveOptions
from planner.subjects import Subject, shown_by

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
        show_next(*_what_if_next(answer))
    click.get_current_context().exit(_exit_code(answer))


OF_WHAT_IF = {"--vary": 1, "--tornado": 0, "--by": 1, "--plot": 1}
"""Options that `solve` and `explain` do not take or that ask for another answer, with the words that follow each."""


def _what_if_next(answer: WhatIf | Sweep | Tornado) -> list[str]:
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
    subject = shown_by(answer.after)
    explains = subject is None or type(subject).explain is not Subject.explain
    explains &= not (answer.after.reinforcement and answer.after.jobs)  # which are not explained together
    return [f"{asked} -o plan.json", *([asked_again("explain", OF_WHAT_IF)] if explains else [])]


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
        from planner.analysis.what_if_question import tornado
        from planner.report.what_if_text import render_tornado

        return tornado(scenario, options, by=by, settings=settings), render_tornado
    if vary:
        from planner.analysis.what_if_question import sweep
        from planner.report.what_if_text import render_sweep

        return sweep(scenario, vary, settings, options, on_cell=count), render_sweep
    from planner.analysis.what_if_question import what_if as compare
    from planner.report.what_if_text import render_what_if

    return compare(scenario, settings, options), render_what_if


def _exit_code(answer: WhatIf | Sweep | Tornado) -> int:
    """Return 0 if there is a plan: after the change, in any cell, or at the base of the tornado."""
    if isinstance(answer, Sweep):
        statuses = {cell.status for cell in answer.cells}
        planned = statuses & {"optimal", "feasible"}
        return 0 if planned else EXIT_CODES["no_plan" if "no_plan" in statuses else "infeasible"]
    return EXIT_CODES[answer.after.status if isinstance(answer, WhatIf) else answer.base.status]


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
        # Imported late: a wrong scenario is reported before numpy and the solvers are loaded.
        from planner.analysis.frontier_question import frontier as trace
        from planner.analysis.frontier_question import traces_its_own

        traces_its_own(loaded.scenario, name, by)  # a wrong question is refused before anything is solved
    with show_progress(f"tracing {loaded.scenario.name}"), loaded.locate_faults():
        traced = trace(loaded.scenario, options, by=by, points=most, job=name)
    render: Callable[[Any], str]
    if isinstance(traced, Frontier):
        from planner.report.frontier_text import deadline_of, render_frontier

        render = functools.partial(render_frontier, every=every)
    else:
        from planner.report.any_result import render_result

        render = render_result
    output.write(traced, render, draw_answer if traced.points else None, color=True)
    if (
        not output.as_json
        and isinstance(traced, Frontier)
        and traced.knee is not None
        and len(traced.points[0].planned) == 1
    ):
        asked, hours = asked_again("solve", OF_FRONTIER), deadline_of(traced, traced.knee)
        show_next(asked and f"{asked} --set jobs.0.deadline={hours:g}h")
    context.exit(EXIT_CODES[traced.status])


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
    from planner.report.what_if_text import render_variants

    Output(as_json).write(answer, render_variants)
    click.get_current_context().exit(_exit_code_of_variants(answer))


def _exit_code_of_variants(answer: ManyVariants) -> int:
    """Return 0 if any variant has a plan; else what the variants came to."""
    if answer.cheapest is not None:
        return 0
    if "no_plan" in answer.counts:
        return NO_PLAN
    return INFEASIBLE if "infeasible" in answer.counts else INTERNAL_ERROR


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
        from planner.analysis.limit_sensitivity import explain as find_reasons

        explanation = find_reasons(loaded.scenario, why_not, options)
    from planner.report.explanation_text import render
    from planner.report.words import whole

    with whole() if details else contextlib.nullcontext():
        Output(as_json).write(explanation, render, color=True)
    if not as_json:
        show_next(*_explain_next(explanation))


OF_EXPLAIN = {"--why-not": 1, "--technique": 1, "--details": 0}
"""Options that `what-if` does not take, with the number of words that follow each."""


def _explain_next(explanation: Explanation) -> list[str]:
    """Return the commands to go on with: what a looser limit gives, and why not the next best GPU."""
    asked = asked_again("explain", OF_EXPLAIN)
    if not asked or explanation.why_not is not None:
        return []
    step = next((step for step in explanation.next_steps if step.change_to is not None and step.setting), None)
    what_if = asked_again("what-if", OF_EXPLAIN)
    looser = [f"{what_if} --set {shlex.quote(step.setting)}"] if step is not None else []
    other = next(
        (
            alternative
            for alternative in explanation.alternatives
            if alternative.by == "gpu" and alternative.gpu and not alternative.chosen
        ),
        None,
    )
    return [*looser, *([f"{asked} --why-not gpu={other.gpu}"] if other else [])]


def _explain_technique(loaded: LoadedScenario, technique: str, as_json: bool, options: SolveOptions) -> None:
    """Print what published work found on a technique, and what it would bring the scenario."""
    with show_progress(f"explaining {technique}"), loaded.locate_faults():
        from planner.analysis.limit_sensitivity import explain_technique

        answer = explain_technique(loaded.scenario, technique, options)
    from planner.report.explanation_text import render_technique

    Output(as_json).write(answer, render_technique)


@click.command()
@loaded_scenario
@click.option("--plan", "plan_file", metavar="FILE", help="Replay this plan, written by solve (default: solve now).")
@click.option("--trace", "traces", metavar="FILE|FOLDER", multiple=True, help="Replay on recorded markets; repeatable.")
@click.option(
    "--together", is_flag=True, help="The traces are zones, observed at the same times, that a run moves among."
)
@click.option("--preempted", is_flag=True, help="In the traces 1 means taken away, and 0 available.")
@click.option(
    "--runs",
    type=click.IntRange(min=1, max=1_000_000),
    default=10_000,
    show_default=True,
    metavar="N",
    help="Number of sampled markets, or most windows of traces.",
)
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, metavar="S", help="Seed of the random numbers."
)
@click.option("--exact-speed", is_flag=True, help="Ignore the uncertainty of the estimated speed.")
@output_options
@click.option("--policy", "policy_file", metavar="FILE", help="Also write the policies of the plan to FILE as JSON.")
@click.option("-v", "--verbose", is_flag=True, help="Show how long it took.")
@solve_options()
def simulate(
    loaded: LoadedScenario,
    plan_file: str | None,
    output: Output,
    policy_file: str | None,
    verbose: bool,
    options: SolveOptions,
    **replay: Any,
) -> None:
    """Replay the plan of SCENARIO on many spot markets.

    Markets are sampled from the market model of the plan's offer, speeds
    from the uncertainty of the estimate. With --trace the markets are
    recorded ones: JSON with metadata.gap_seconds and data (a count of
    machines per step, 1 = available), or the CSV formats of planner market
    fit. Shows the distribution of cost and hours, and compares other policies on the same
    markets.

    The fleet of a service is simulated request by request, in each distinct
    hour, with losses of spot machines; --runs is the number of requests.
    Jobs next to a service are replayed as well, each with its figures.

    Try: planner simulate spot-heavy --as-of 2026-06-01
    """
    output = replace(output, path=policy_file)
    output.check()
    name = loaded.scenario.name
    plan = read_plan(plan_file) if plan_file is not None else None
    if not any(job.ends for job in loaded.scenario.jobs):
        _simulate_endless(loaded, plan, output, options, replay)
        return
    with (
        show_progress(f"solving {name}" if plan is None else f"reading {name}", counts=True) as progress,
        loaded.locate_faults(),
    ):
        # Imported late: a wrong scenario is reported before numpy and the solvers are loaded.
        from planner.analysis.simulate_question import simulate as run_replays

        simulation = run_replays(loaded.scenario, plan, options=options, progress=progress, **replay)
    from planner.report.run_text import render_simulation

    output.write(
        simulation,
        render_simulation,
        draw_answer if simulation.jobs else None,
        functools.partial(_policies_text, loaded.scenario) if simulation.jobs else None,
    )
    if verbose and simulation.runs_per_second:
        show(
            f"{simulation.seconds:.1f} s in total; {simulation.runs_per_second:,.0f} runs per second and core", err=True
        )
    click.get_current_context().exit(EXIT_CODES[simulation.status])


def _simulate_endless(
    loaded: LoadedScenario, plan: Plan | None, output: Output, options: SolveOptions, replay: dict[str, Any]
) -> None:
    """Simulate what has no end, such as the fleet of a service."""
    from planner.errors import Fault, ScenarioError

    for option, given in (("--plot", output.plot), ("--policy", output.path)):
        if given is not None:
            fix = "leave it out; --json has all figures"
            raise ScenarioError([Fault("simulate", 0, option, "not supported for kind: serve", fix)])
    with show_progress(f"simulating {loaded.scenario.name}"), loaded.locate_faults():
        from planner.subjects import subject_of

        subject = subject_of(loaded.scenario)
        assert subject is not None, "the core plans jobs that end"
        simulation = subject.simulate_endless(loaded.scenario, plan, options, replay)
    output.write(simulation, subject.text)
    click.get_current_context().exit(EXIT_CODES[simulation.status])


def _policies_text(scenario: Scenario, simulation: Simulation) -> str:
    from planner.analysis.job_runs import policy_tables
    from planner.scenario.scenario import without_jobs

    others = {job.name for job in scenario.jobs} - {job.name for job in simulation.plan.jobs}
    if others:  # they have no policy, and a part of the budget
        scenario = without_jobs(scenario, others, simulation.plan.budget_usd)
    document = {"scenario": scenario.name, "jobs": policy_tables(scenario, simulation.plan)}
    from planner.documents.tables import json_text

    return json_text(document, indent=1) + "\n"
