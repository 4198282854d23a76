"""`track` and `calibrate`: the logs of a run against its plan, and its measured entry."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from planner.cli.options import OptionTable, finite, json_option, solve_options, table_options, technique_options
from planner.cli.output import INFEASIBLE, Output, show
from planner.cli.plan_file import check_supported, decided_scenario_of, meant_job, read_plan
from planner.errors import InputError
from planner.results.plan import Plan, plan_text
from planner.scenario.scenario import Scenario, SolveOptions

if TYPE_CHECKING:
    from collections.abc import Sequence


# `track`: a running job against its plan.


WATCH_SECONDS = 60


@click.command()
@click.argument("plan_file", metavar="PLAN")
@click.argument("logs", metavar="LOG...", nargs=-1, required=True)
@click.option("--started", metavar="TIME", help="When the machines were ordered, such as '2026-11-25 09:00 UTC'.")
@click.option(
    "--spent",
    "spent_usd",
    type=click.FloatRange(min=0, max=1e15),
    callback=finite,
    metavar="USD",
    help="Dollars spent so far.",
)
@click.option("--now", metavar="TIME", help="Count hours up to this time (default: the last logged step).")
@click.option("--job", metavar="NAME", help="The job, where the plan has several.")
@click.option("--replan", is_flag=True, help="Plan what is left: stay on these machines, or move to others.")
@click.option("--scenario", metavar="SCENARIO", help="Offers to move to (default: those that the plan names).")
@click.option("-o", "--output", "path", metavar="FILE", help="Also write the new plan to FILE as JSON.")
@click.option("--watch", is_flag=True, help=f"Read the logs again every {WATCH_SECONDS} seconds until the run is done.")
@json_option
@solve_options(solver=False)
def track(
    plan_file: str, logs: Sequence[str], job: str | None, as_json: bool, options: SolveOptions, **given: Any
) -> None:
    """Compare a running job with its PLAN, and project when it will end.

    LOG is a trainer_state.json, trainer_log.jsonl, the console output of
    Transformers, torchtitan, torchtune, Megatron, NeMo, Composer, LitGPT or
    nanoGPT, a CSV of Weights & Biases, TensorBoard or with step and seconds, or
    a log of nvidia-smi. Give all logs of the run, of earlier attempts too.

    Exit code 3: the deadline is missed more often than the job allows. The
    new plan of --replan exports as the first one did.

    Try: planner track plan.json out/trainer_state.json
    """
    from planner.analysis.track_question import Stated
    from planner.analysis.track_question import track as follow
    from planner.loading.scenario_file import read_scenario
    from planner.report.run_text import render_tracking

    context = click.get_current_context()
    replan, path = given["replan"], given["path"]
    if (given["scenario"] is not None or path is not None) and not replan:
        raise click.UsageError("--scenario and -o belong to --replan", context)
    output = Output(as_json, path=path)
    output.check()
    plan = read_plan(plan_file)
    job = meant_job(plan, job)
    check_supported(plan, plan_file, job, "track")
    asked = decided_scenario_of(plan, plan_file)
    offered = read_scenario(given["scenario"]) if given["scenario"] is not None else asked
    market = asked.model_copy(update={"offers": offered.offers, "adjust": offered.adjust}) if replan else None
    stated = Stated(given["started"], given["spent_usd"], given["now"])
    found = None
    while found is None or (given["watch"] and found.observed.share_done < 1):
        if found is not None:
            time.sleep(WATCH_SECONDS)
        try:
            found = follow(plan, asked, logs, job, stated, market, options)
        except InputError as error:
            if found is None:
                raise
            show(str(error), err=True)  # a log that is being replaced is whole again a moment later
        else:
            output.write(found, render_tracking, document=lambda found: _plan_or_none(found.replan), color=True)
    context.exit(0 if found.is_on_time else INFEASIBLE)


# `calibrate`: a `measured:` entry from the logs of a run, and its effect on a plan.


SETTINGS: OptionTable = {
    # option: type, metavar, help
    "micro-batch": (int, "N", "Sequences per GPU and micro-step."),
    "accumulation-steps": (int, "N", "Micro-steps per optimizer step."),
    "global-batch": (int, "N", "Sequences per optimizer step over all GPUs."),
    "sequence-length": (int, "TOKENS", "Sequence length, if not that of the job."),
    "tensor-parallel": (int, "N", "GPUs that share each layer."),
    "pipeline-parallel": (int, "N", "GPUs among which the layers are divided."),
    "context-parallel": (int, "N", "GPUs that share each sequence."),
    "expert-parallel": (int, "N", "GPUs that share the experts of a mixture."),
    "instances": (int, "N", "Number of machines."),
    "interconnect": (str, "NAME", "nvlink, nvswitch, pcie or ici."),
    "network-gbps": (float, "X", "Network of one machine in Gbit/s, if there are several."),
}


@click.command()
@click.argument("logs", metavar="LOG...", nargs=-1)
@click.option("--gpu", metavar="NAME", help="GPU of the run: a name or an alias.")
@click.option("--gpus", type=click.IntRange(min=1), default=1, show_default=True, help="Number of GPUs in total.")
@click.option(
    "--losses", metavar="FILE", help="Fit the law of loss to runs of yours: CSV of parameters, tokens and loss, no LOG."
)
@click.option("--scenario", metavar="SCENARIO", help="Show how the run changes the plan of this scenario.")
@click.option("--job", metavar="NAME", help="Job of the scenario that ran, if it has several.")
@click.option("--plan", "plan_file", metavar="PLAN", help="Of a probe: its plan. Says keep, change or give back.")
@click.option("--share", metavar="FILE", help="Of a probe: append an anonymous row to a table of measurements.")
@click.option(
    "--tokens-per-step", type=click.FloatRange(min=0, min_open=True), help="Tokens of one optimizer step over all GPUs."
)
@technique_options
@table_options(SETTINGS)
@json_option
@click.option("-o", "--output", "path", metavar="FILE", help="Also write the entry to FILE as YAML.")
@solve_options(solver=False)
def calibrate(
    logs: tuple[str, ...],
    losses: str | None,
    scenario: str | None,
    as_json: bool,
    path: str | None,
    options: SolveOptions,
    **run: Any,
) -> None:
    """Calibrate estimates from the logs of a run.

    LOG is any log that `planner track` reads, of one run without a restart, or
    a memory log: nvidia-smi --query-gpu=memory.used --format=csv, or a column
    max_memory_allocated. Several logs must be of one run. A JSON of `vllm bench serve` or GuideLLM measures
    generation; generate.json of the export says how. Prints an entry for the
    job's list `measured`.

    The probe.json of `planner probe` needs its --plan instead: the first line
    says to keep the machine, what to change, or to give it back (exit code 3
    of the last two). -o is then the plan to go on with.

    Try: planner calibrate trainer_state.json --gpu A100 --scenario quickstart
    """
    from planner import open_choices
    from planner.analysis.calibration.calibrate import calibrate as learn_from_logs
    from planner.analysis.calibration.probe_file import is_probe
    from planner.loading.scenario_file import read_scenario
    from planner.report.run_text import render_calibration

    output = Output(as_json, path=path)
    output.check()
    given = {name: value for name, value in run.items() if value is not None}
    plan_file, share = given.pop("plan_file", None), given.pop("share", None)
    loaded = read_scenario(scenario) if scenario is not None else None
    if losses is not None:
        _refuse_options_of_logs(logs, {**given, "plan": plan_file, "share": share})
        law = open_choices.calibrate_losses(losses, loaded, given.get("job"), options)
        output.write(law, open_choices.render_loss_calibration, document=lambda found: found.block)
        return
    if plan_file is not None or any(map(is_probe, logs)):
        _judge(logs, plan_file, share, loaded, given, output, options)
        return
    context = click.get_current_context()
    if share is not None:
        raise click.UsageError("--share belongs to the probe.json of planner probe, and its --plan", context)
    for name, missing in (("argument 'LOG...'", not logs), ("option '--gpu'", "gpu" not in given)):
        if missing:
            raise click.UsageError(f"Missing {name}; a table of losses is --losses", context)
    result = learn_from_logs(logs, scenario=loaded, options=options, **given)
    output.write(result, render_calibration, document=lambda found: found.block)


def _refuse_options_of_logs(logs: tuple[str, ...], given: dict[str, Any]) -> None:
    """Raise a usage error for what says how one run was made, next to a table of losses."""
    odd = [
        *logs,
        *(f"--{name.replace('_', '-')}" for name, value in given.items() if value and name not in ("job", "gpus")),
    ]
    if odd:
        raise click.UsageError(f"--losses takes --scenario and --job alone: leave out {', '.join(odd)}.")


def _judge(
    logs: tuple[str, ...],
    plan_file: str | None,
    share: str | None,
    market: Scenario | None,
    given: dict[str, Any],
    output: Output,
    options: SolveOptions,
) -> None:
    """Say whether the machine that a probe ran on is kept, and share what was measured; exit with 3 where it is not."""
    from planner.analysis.probe_question import judge_probe
    from planner.analysis.probe_row import append_row
    from planner.report.run_text import render_probe

    context, job = click.get_current_context(), given.pop("job", None)
    if len(logs) != 1:
        raise click.UsageError("a probe is judged alone: give its probe.json and no other log", context)
    if plan_file is None:
        raise click.UsageError("a probe is judged against its plan: add --plan plan.json", context)
    if given.pop("gpus", 1) != 1 or given:
        name = next(iter(given), "gpus").replace("_", "-")
        raise click.UsageError(f"--{name} is that of the plan: a probe says how it ran", context)
    plan = read_plan(plan_file)
    job = meant_job(plan, job)
    scenario = decided_scenario_of(plan, plan_file)
    found = judge_probe(plan, scenario, logs[0], job, market, options)
    if share is not None:
        append_row(share, logs[0], plan, found.job)
    if output.path is not None and found.plan is None:
        show("no plan is written: fields of the export are to change, or nothing meets the limits", err=True)
        output = replace(output, path=None)
    output.write(found, render_probe, document=lambda found: _plan_or_none(found.plan))
    context.exit(0 if found.is_kept else INFEASIBLE)


def _plan_or_none(plan: Plan | None) -> str:
    return plan_text(plan) if plan is not None else "{}\n"
