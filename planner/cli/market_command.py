"""`market`: models of spot markets from recorded traces."""

from __future__ import annotations

from typing import Any

import click

from planner.cli.options import json_option
from planner.cli.output import Output


@click.group()
def market() -> None:
    """Fit models of spot markets to recorded traces."""


@market.command()
@click.argument("traces", metavar="TRACE...", nargs=-1, required=True)
@click.option(
    "--instances",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    metavar="K",
    help="Number of machines that must be available together.",
)
@click.option(
    "--together", is_flag=True, help="The traces are zones, observed at the same times, that a run moves among."
)
@click.option("--preempted", is_flag=True, help="In the files 1 means taken away, and 0 available.")
@click.option("--only", metavar="NAME", multiple=True, help="Use only this trace of the files; repeatable.")
@json_option
@click.option("-o", "--output", "path", metavar="FILE", help="Also write the block to FILE as YAML.")
def fit(traces: tuple[str, ...], only: tuple[str, ...], as_json: bool, path: str | None, **how: Any) -> None:
    """Fit the `spot:` block of an offer to recorded traces.

    TRACE is a file or a folder of files: JSON with metadata.gap_seconds and
    data, or CSV with trace_id, step_s and availability_rle (64x12;63x3:
    count x steps), with zone, gap_seconds, first_step, steps and available
    (a row per period), with time_seconds and available, or with date and
    availability. A value is a count of machines, 1 = available; some
    published files have 1 = taken away: read them with --preempted. Files
    may be gzipped. All traces are pooled, or with --together made into one
    market of several zones. Prints the block to paste into an offer, and
    how certain it is.

    Try: planner market fit us-east-1a.json --instances 4
    """
    from planner.analysis.market_fit_question import market_fit
    from planner.report.catalog_text import render_market

    output = Output(as_json, path=path)
    output.check()
    found = market_fit(traces, only=only, **how)
    output.write(found, render_market, document=lambda found: found.spot_yaml)
