"""`track`: a running job against its plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from planner.cli.exit_codes import INFEASIBLE
from planner.cli.options import finite, json_option
from planner.cli.output import Output
from planner.cli.plan_file import read_plan, scenario_of

if TYPE_CHECKING:
    from collections.abc import Sequence


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
@json_option
def track(
    plan_file: str,
    logs: Sequence[str],
    started: str | None,
    spent_usd: float | None,
    now: str | None,
    job: str | None,
    as_json: bool,
) -> None:
    """Compare a running job with its PLAN, and project when it will end.

    LOG is a trainer_state.json, the console output of Transformers, TRL,
    torchtitan or Megatron, a CSV with step and seconds (or timestamp), or a
    log of nvidia-smi. Give all logs of the run, of earlier attempts too.

    Exit code 3: the deadline is missed more often than the job allows.

    Try: planner track plan.json out/trainer_state.json
    """
    from planner.analysis.tracking.track import track as follow
    from planner.report.runs.tracking import render_tracking

    plan = read_plan(plan_file)
    found = follow(plan, scenario_of(plan, plan_file), logs, job, started, spent_usd, now)
    Output(as_json).write(found, render_tracking, color=True)
    click.get_current_context().exit(0 if found.is_on_time else INFEASIBLE)
