"""The command line: arguments, exit codes and output; imports nothing slow."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from planner.cli.calibrate import calibrate
from planner.cli.catalog import architectures, gpus, schema
from planner.cli.catalogs.prices import prices
from planner.cli.estimate import estimate
from planner.cli.exit_codes import Commands
from planner.cli.explain import explain
from planner.cli.frontier import frontier
from planner.cli.market import market
from planner.cli.offers import offers
from planner.cli.plans.app import app
from planner.cli.plans.export import export
from planner.cli.plans.report import report
from planner.cli.plans.sweep import sweep
from planner.cli.plans.track import track
from planner.cli.scenarios.catalog import scenarios
from planner.cli.scenarios.init import init
from planner.cli.simulate import simulate
from planner.cli.solve import check, solve
from planner.cli.what_if import what_if

if TYPE_CHECKING:
    from collections.abc import Callable


def _show_version(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        from planner import __version__

        click.echo(f"planner {__version__}")
        context.exit()


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version", is_flag=True, expose_value=False, is_eager=True, callback=_show_version, help="Show the version."
)
def main() -> None:
    """Plan which GPUs to rent and how to train a language model on them.

    Finds the least cost within deadline, budget and memory, and solves to
    optimality.

    Try: planner solve quickstart
    """


COMMANDS: tuple[click.Command, ...] = (
    solve,
    frontier,
    what_if,
    sweep,
    explain,
    simulate,
    estimate,
    calibrate,
    market,
    check,
    export,
    track,
    report,
    app,
    init,
    scenarios,
    architectures,
    gpus,
    offers,
    prices,
    schema,
)

_add: Callable[[click.Command], None] = main.add_command
for _command in COMMANDS:
    _add(_command)
