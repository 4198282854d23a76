"""The command line: arguments, exit codes and output; imports nothing slow."""

from __future__ import annotations

import click

from planner.cli.output import Commands, LazyCommands

MODULES = {
    "solve": "solve_command",
    "frontier": "question_commands",
    "what-if": "question_commands",
    "sweep": "question_commands",
    "explain": "question_commands",
    "simulate": "question_commands",
    "estimate": "run_commands",
    "calibrate": "run_commands",
    "market": "catalog_command",
    "check": "solve_command",
    "export": "plan_commands",
    "track": "run_commands",
    "report": "plan_commands",
    "app": "plan_commands",
    "init": "catalog_command",
    "scenarios": "catalog_command",
    "architectures": "catalog_command",
    "gpus": "catalog_command",
    "offers": "catalog_command",
    "prices": "catalog_command",
    "probe": "plan_commands",
    "schema": "catalog_command",
    "mcp": "mcp_command",
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
