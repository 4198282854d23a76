"""`market`: what recorded spot markets say."""

from __future__ import annotations

import click

from planner.cli.exit_codes import write_json
from planner.cli.output_files import check_writable, write_text
from planner.cli.solve import json_option


@click.group()
def market() -> None:
    """Spot markets: how machines come and go."""


@market.command()
@click.argument("traces", metavar="TRACE...", nargs=-1, required=True)
@click.option(
    "--instances",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    metavar="K",
    help="How many machines must be there together.",
)
@click.option("--only", metavar="NAME", multiple=True, help="Only this trace of those that the files hold.")
@json_option
@click.option("-o", "--output", metavar="FILE", help="Write the block as YAML, too.")
def fit(traces: tuple[str, ...], instances: int, only: tuple[str, ...], as_json: bool, output: str | None) -> None:
    """The spot: block of an offer from recorded traces.

    TRACE is a file or a folder of them: JSON with metadata.gap_seconds and
    data (a count of machines per step), a CSV with trace_id, step_s and
    availability_rle (64x12;63x3: count x steps), or a CSV with time_seconds
    and available; each packed with gzip or not. All of them are pooled.
    Printed is the block, ready to be pasted, and how sure it is.

    Try: planner market fit us-east-1a.json --instances 4
    """
    from planner.analysis.market_fit import market_fit

    if output is not None:
        check_writable(output)
    found = market_fit(traces, instances, only)
    if output is not None:
        write_text(output, found.spot_yaml)
    if as_json:
        write_json(found.model_dump(mode="json", by_alias=True))
    else:
        from planner.report.market_fit import render_market

        click.echo(render_market(found))
