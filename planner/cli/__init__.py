"""The command line: arguments, exit codes and output; imports nothing slow."""

from __future__ import annotations

import click

from planner.cli.exit_codes import Commands, LazyCommands

MODULES = {
    "solve": "solve",
    "frontier": "frontier",
    "what-if": "what_if",
    "sweep": "plans.sweep",
    "explain": "explain",
    "simulate": "simulate",
    "estimate": "estimate",
    "calibrate": "calibrate",
    "market": "market",
    "check": "solve",
    "export": "plans.export",
    "track": "plans.track",
    "report": "plans.report",
    "app": "plans.app",
    "init": "scenarios.init",
    "scenarios": "scenarios.catalog",
    "architectures": "catalog",
    "gpus": "catalog",
    "offers": "offers",
    "prices": "catalogs.prices",
    "schema": "catalog",
}
"""Commands, with the module of this package that has each."""


def _show_version(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        from planner import __version__

        click.echo(f"planner {__version__}")
        context.exit()


@click.group(
    cls=Commands,
    commands=LazyCommands({name: f"{__name__}.{module}" for name, module in MODULES.items()}),
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option(
    "--version", is_flag=True, expose_value=False, is_eager=True, callback=_show_version, help="Show the version."
)
def main() -> None:
    """Plan which GPUs to rent and how to train a language model on them.

    Finds the least cost within deadline, budget and memory, and solves to
    optimality.

    Try: planner solve quickstart
    """
