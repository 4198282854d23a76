"""`solve` and `check`: find a plan, and audit one."""

from __future__ import annotations

import shlex
from functools import partial
from typing import TYPE_CHECKING

import click

from planner.cli.options import (
    EXIT_CODES,
    clock_setting,
    json_option,
    loaded_question,
    now_option,
    read_plan,
    scenario_of,
    set_option,
    solve_options,
    workers_options,
)
from planner.cli.output import (
    INFEASIBLE,
    STANDARD_OUTPUT,
    TYPED,
    Output,
    draw_answer,
    show,
    show_next,
    show_progress,
    without_options,
    write_json,
)
from planner.errors import InputError
from planner.loading.scenario_file import LoadedScenario
from planner.results.explanation import device_noun
from planner.results.plan import Assignment, Plan, plan_text
from planner.results.plan_parts import Option, jobs_text
from planner.scenario.scenario import SolveOptions

if TYPE_CHECKING:
    from collections.abc import Sequence


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
