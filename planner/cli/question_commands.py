"""`solve`, `check`: the plan of a scenario, and its audit; `frontier`, `what-if`, ...: questions beyond that plan."""

from __future__ import annotations

import contextlib
import functools
import shlex
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from planner.cli.options import (
    EXIT_CODES,
    NameOf,
    asked_scenario,
    clock_setting,
    json_option,
    loaded_question,
    loaded_scenario,
    now_option,
    output_options,
    read_plan,
    scenario_of,
    set_option,
    solve_options,
    workers_options,
)
from planner.cli.output import (
    INFEASIBLE,
    INTERNAL_ERROR,
    NO_PLAN,
    STANDARD_OUTPUT,
    TYPED,
    Output,
    asked_again,
    draw_answer,
    show,
    show_next,
    show_progress,
    without_options,
    write_json,
)
from planner.errors import InputError
from planner.loading.scenario_file import LoadedScenario
from planner.results.explanation import Explanation, device_noun
from planner.results.frontier import DEFAULT_POINTS, Frontier
from planner.results.plan import Assignment, Plan, plan_text
from planner.results.plan_parts import Option, jobs_text
from planner.results.simulation import Simulation
from planner.results.what_if import ManyVariants, Sweep, Tornado, WhatIf
from planner.scenario.scenario import Scenario, SolveOptions
from planner.subjects import Subject, shown_by

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


@click.command()
@loaded_question
@json_option
@click.option("-o", "--output", "path", metavar="FILE", help="Also write the plan to FILE as JSON.")
@click.option(
    "--plot", metavar="FILE", help="Draw the timetable of jobs, or the week of a service: .png, .svg or .html."
)
@click.option("--details", is_flag=True, help="Print everything: speed, stages, the whole bill, every note.")
@workers_options("Processes that prepare many jobs [1].")
@solve_options(stop=True)
def solve(
    loaded: LoadedScenario,
    as_json: bool,
    path: str | None,
    plot: str | None,
    details: bool,
    workers: int | str | None,
    options: SolveOptions,
) -> None:
    """Find the best plan for SCENARIO.

    SCENARIO is a file, the name of a shipped scenario, or - for standard
    input. Without one, --model and --tokens ask the question.

    Try: planner solve --model llama-3.1-8b --tokens 24M --deadline 14h
    """
    scenario = loaded.scenario
    output = Output(as_json, plot, path)
    output.check()
    with show_progress(f"solving {scenario.name}"), loaded.locate_faults():
        # Imported late: a wrong scenario is reported before numpy and the solvers are loaded.
        from planner.solving.solve import solve as find_plan

        if workers is None:
            plan = find_plan(scenario, options)
        else:
            from planner.analysis.run_sweep import open_workers

            with open_workers(workers) as executor:
                plan = find_plan(scenario, options, executor=executor)
    output.write(
        plan,
        partial(_plan_text, details=details),
        draw_answer if plan.planned else None,
        document=plan_text,
        color=True,
    )
    context = click.get_current_context()
    if not as_json and not details and plan.planned and path not in STANDARD_OUTPUT:
        show_next(*next_commands(context.meta.get(TYPED, ()), path, plan))
    context.exit(EXIT_CODES[plan.status])


def _plan_text(plan: Plan, details: bool) -> str:
    """Return the text of a plan; JSON needs no report, so that it is loaded here."""
    from planner.report.plan_answer import Risk, render_answer, render_details, risk_lines

    lines = (render_details(plan) if details else render_answer(plan)).split("\n")
    if why := _why_no_files(plan):
        end = lines.index("") if "" in lines else len(lines)
        first = next((place for place, line in enumerate(lines[:end]) if line.startswith("! ")), end)
        lines[first:first] = risk_lines([Risk("no files", why)])
    return "\n".join(lines)


OF_SOLVE = {
    **{"-o": 1, "--output": 1, "--plot": 1, "--details": 0},
    **{"--gap": 1, "--time-limit": 1, "--solver": 1, "--workers": 1, "--cluster": 1},
}
"""Options that `explain` does not take, with the number of words that follow each."""


def next_commands(typed: Sequence[str], path: str | None, plan: Plan) -> list[str]:
    """Return the commands to go on with, each as it can be typed: run the plan, ask why (not another card).

    `typed`: the words of this command. What came from standard input can be asked of no other command.
    """
    if not typed or "-" in typed:
        return []
    asked = shlex.join(["planner", *typed])
    export = _export_words(plan, path or "plan.json")
    first = [] if path else [f"{asked} -o plan.json"]
    if plan.reinforcement:
        jobs = plan.inputs.scenario["jobs"] if plan.inputs else []
        at = next((index for index, job in enumerate(jobs) if job.get("name") == plan.reinforcement[0].name), 0)
        words = ["planner", "what-if", *without_options(typed[1:], OF_SOLVE), "--set", f"jobs.{at}.work.answers=16"]
        return [" && ".join([*first, shlex.join(["planner", "check", path or "plan.json"])]), shlex.join(words)]
    run = " && ".join([*first, *export]) if export else ""
    others = (_asked_why(job, option) for job in plan.jobs for option in job.next_best if option.gpu)
    other = next((query for query in others if query), "")
    asked_of_explain = shlex.join(["planner", "explain", *without_options(typed[1:], OF_SOLVE)])
    alone = len(plan.planned) == 1 and plan.jobs
    others_too = "each job: --job NAME" if run and "--job" in export[0] else ""
    why_not = f"{asked_of_explain} --why-not {shlex.quote(other)}" if other and alone else asked_of_explain
    return [*filter(None, (run, others_too, _cheaper_later(typed, plan))), why_not, f"{asked} --details"]


def _cheaper_later(typed: Sequence[str], plan: Plan) -> str:
    """Return the command that says what several jobs cost if they end later, where the earliest end is asked for."""
    objective = plan.inputs.scenario.get("objective") if plan.inputs is not None else None
    if objective != "time" or len(plan.jobs) < 2 or plan.subject is not None or plan.is_timetable:
        return ""
    return shlex.join(["planner", "frontier", *without_options(typed[1:], OF_SOLVE)])


def _export_words(plan: Plan, saved: str) -> list[str]:
    """Return the command that writes the files of a saved plan; nothing where no target has files for it.

    Of several jobs it is that of the first, unless a service is among them: then each has its folder.
    """
    job = plan.jobs[0] if plan.jobs and plan.subject is None else None
    named = ["--job", job.name] if job is not None and len(plan.jobs) > 1 else []
    if job is not None and (not job.gpus or _refusal(plan, job)):
        return []
    return [shlex.join(["planner", "export", saved, *named, "--all", "-o", "run"])]


def _why_no_files(plan: Plan) -> str:
    """Return why some jobs have no files to start from, and the setting that gives them; empty where all have."""
    if not plan.planned or plan.inputs is None or plan.subject is not None or plan.reinforcement:
        return ""
    refused = {job.name: why for job in plan.jobs if (why := _refusal(plan, job))}
    if not refused:
        return ""
    name, why = next(iter(refused.items()))
    whose = "" if len(plan.jobs) == 1 else f" for {name}" if len(refused) == 1 else f" for {len(refused):,} jobs"
    return f"no files to start it{whose}: {why}"


def _refusal(plan: Plan, job: Assignment) -> str:
    """Return why no trainer runs a job as it is planned: asked of the targets unless all of them would."""
    if not job.gpus:
        return ""  # a managed service trains it
    # Every target runs Transformers' own trainer and its variants: to ask would load the exports for each plan.
    is_usual = job.inference is not None or (job.framework or job.techniques.framework).startswith("hf")
    is_usual = is_usual and job.techniques.tuning == "sft"
    if is_usual and device_noun(job.gpu) == "GPU":
        return ""
    from planner.exports.export import choose_job, export_all
    from planner.exports.facts import Wishes

    try:
        export_all(choose_job(plan, scenario_of(plan, "plan"), "plan", job.name), Wishes())
    except InputError as error:
        fault = error.faults[0]
        return f"{fault.what}; {fault.fix}" if fault.fix else fault.what
    return ""


def _asked_why(job: Assignment, option: Option) -> str:
    """Return the query for the next best way: its GPU or its provider, the first that is not the plan's own.

    A managed service has no GPU that can be named.
    """
    if option.gpu != job.gpu and option.gpus:
        return f"gpu={option.gpu}"
    return f"provider={option.provider}" if option.provider != job.provider else ""


@click.command()
@click.argument("plan_file", metavar="PLAN")
@click.argument("scenario", required=False)
@set_option
@now_option
@json_option
def check(plan_file: str, scenario: str | None, settings: tuple[str, ...], now: str | None, as_json: bool) -> None:
    """Audit the file PLAN against SCENARIO, or against the scenario that it carries.

    Recomputes every figure of the plan. Excludes its notes and its
    alternatives (methods, next best, limits that bind).
    """
    from planner.audit.audit import describe_unstated
    from planner.cli.functions import check as violations_of
    from planner.loading.scenario_file import read_scenario

    plan = read_plan(plan_file)
    if scenario is None and (settings or now):
        raise click.UsageError("--set and --now change a SCENARIO: name it", click.get_current_context())
    asked = (
        scenario_of(plan, plan_file) if scenario is None else read_scenario(scenario, (*clock_setting(now), *settings))
    )
    violations = violations_of(plan, asked)
    if as_json:
        keys = ("job", "what", "expected", "found")
        rows = [{key: getattr(violation, key) for key in keys} for violation in violations]
        write_json({"schema_version": plan.schema_version, "violations": rows})
    elif violations:
        for violation in violations:
            show(str(violation))
        for line in describe_unstated(plan, violations):
            show(line)
    else:
        show(f"{plan.scenario}: no violations ({jobs_text(len(plan.planned))} checked)")
    click.get_current_context().exit(INFEASIBLE if violations else 0)


# Questions about a scenario beyond its best plan.


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
        from planner.report.sweep_text import render_sweep

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
    from planner.report.sweep_text import render_variants

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
    from planner.report.plan_sections import render

    Output(as_json).write(answer, render)


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
    from planner.report.simulation_text import render_simulation

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
