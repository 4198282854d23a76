"""`simulate`: a plan replayed on many markets."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import click

from planner.cli.options import EXIT_CODES, loaded_scenario, output_options, solve_options
from planner.cli.output import Output, draw_answer, show, show_progress
from planner.cli.plan_file import read_plan
from planner.loading.scenario_file import LoadedScenario
from planner.results.plan import Plan
from planner.results.simulation import Simulation
from planner.scenario.scenario import Scenario, SolveOptions


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
        from planner.analysis.simulation.simulate_question import simulate as run_replays

        found = run_replays(loaded.scenario, plan, options=options, progress=progress, **replay)
    from planner.report.simulation_text import render_simulation

    output.write(
        found,
        render_simulation,
        draw_answer if found.jobs else None,
        functools.partial(_policies_text, loaded.scenario) if found.jobs else None,
    )
    if verbose and found.runs_per_second:
        show(f"{found.seconds:.1f} s in total; {found.runs_per_second:,.0f} runs per second and core", err=True)
    click.get_current_context().exit(EXIT_CODES[found.status])


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
        found = subject.simulate_endless(loaded.scenario, plan, options, replay)
    output.write(found, subject.text)
    click.get_current_context().exit(EXIT_CODES[found.status])


def _policies_text(scenario: Scenario, found: Simulation) -> str:
    from planner.analysis.simulation.job_runs import policy_tables
    from planner.scenario.scenario import without_jobs

    others = {job.name for job in scenario.jobs} - {job.name for job in found.plan.jobs}
    if others:  # they have no policy, and a part of the budget
        scenario = without_jobs(scenario, others, found.plan.budget_usd)
    document = {"scenario": scenario.name, "jobs": policy_tables(scenario, found.plan)}
    from planner.documents.tables import json_text

    return json_text(document, indent=1) + "\n"
