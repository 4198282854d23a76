"""Exit codes, and errors as messages."""

from __future__ import annotations

import gc
import os
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from planner.cli.output import write_json
from planner.errors import Fault, InputError, NoPlanError, PlannerError

if TYPE_CHECKING:
    from collections.abc import Sequence

INTERNAL_ERROR, BAD_INPUT, INFEASIBLE, NO_PLAN, INTERRUPTED = 1, 2, 3, 4, 130
BROKEN_PIPE = 141
"""128 + SIGPIPE: the exit code of a command whose reader closed the pipe."""

DEBUG = "PLANNER_DEBUG"
"""Environment variable that shows the traceback of an unexpected error."""


class Commands(click.Group):
    """The top command: each error becomes a message and an exit code, none a traceback."""

    def main(self, args: Sequence[str] | None = None, *others: Any, **settings: Any) -> Any:
        """Run the command line like click, but always end the process with a documented exit code."""
        # The library and the offers make hundreds of thousands of objects that live to the end: scanning them for
        # garbage again and again takes a tenth of a short command.
        gc.set_threshold(200_000, 20, 20)
        given = list(sys.argv[1:] if args is None else args)
        settings = {"prog_name": "planner", **settings, "standalone_mode": False}
        inner = super().main
        try:
            code = inner(given, *others, **settings)
        except SystemExit:
            raise
        except BaseException as error:
            code = _code_of(error, as_json="--json" in given)
        sys.exit(code if isinstance(code, int) else 0)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command, and flush its output while a closed pipe can still be handled."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
            return result
        except BrokenPipeError:
            # Python flushes again at exit and needs an open file.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            ctx.exit(BROKEN_PIPE)


class ListGroup(click.Group):
    """A group that runs `list` if no subcommand is given."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Insert `list` before options that follow the name of the group."""
        asks_help = bool(args) and args[0] in ctx.help_option_names
        if not args or (args[0].startswith("-") and not asks_help):
            args = ["list", *args]
        return super().parse_args(ctx, args)


def _code_of(error: BaseException, as_json: bool) -> int:
    """Print the message of an error and return its exit code."""
    if isinstance(error, click.exceptions.Exit):
        return error.exit_code
    if isinstance(error, InputError):
        return _bad_input(error.faults, as_json)
    if isinstance(error, click.ClickException):
        if as_json:
            return _bad_input([Fault("command line", 0, "", error.format_message())], as_json)
        error.show()
        return BAD_INPUT
    if isinstance(error, (click.Abort, KeyboardInterrupt)):
        click.echo("interrupted", err=True)
        return INTERRUPTED
    if os.environ.get(DEBUG):
        raise error
    if isinstance(error, PlannerError):
        click.echo(str(error), err=True)
        return NO_PLAN if isinstance(error, NoPlanError) else INTERNAL_ERROR
    what = " ".join(f"{type(error).__name__}: {error}".split())
    click.echo(f"internal error: {what}; set {DEBUG}=1 to see the traceback", err=True)
    return INTERNAL_ERROR


def _bad_input(faults: Sequence[Fault], as_json: bool) -> int:
    if as_json:
        write_json({"status": "error", "errors": [asdict(fault) for fault in faults]})
    else:
        for fault in faults:
            click.echo(str(fault), err=True)
    return BAD_INPUT
