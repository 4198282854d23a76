"""Exit codes, and errors as messages."""

from __future__ import annotations

import contextlib
import os
import sys
from collections import UserDict
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from planner.cli.output import show, write_json
from planner.cli.start import prepare_process
from planner.errors import Fault, InputError, NoPlanError, PlannerError, printable

if TYPE_CHECKING:
    from collections.abc import Sequence

INTERNAL_ERROR, BAD_INPUT, INFEASIBLE, NO_PLAN, INTERRUPTED = 1, 2, 3, 4, 130
BROKEN_PIPE = 141
"""128 + SIGPIPE: the exit code of a command whose reader closed the pipe."""

DEBUG = "PLANNER_DEBUG"
"""Environment variable that shows the traceback of an unexpected error."""


class LazyCommands(UserDict[str, Any]):
    """Commands by name, each loaded from its module when it is asked for; made from names and modules."""

    def __getitem__(self, key: str) -> click.Command:
        """Import the module of a command, which costs a millisecond or two."""
        command: click.Command = getattr(import_module(super().__getitem__(key)), key.replace("-", "_"))
        return command


class Commands(click.Group):
    """The top command: each error becomes a message and an exit code, none a traceback."""

    def main(self, args: Sequence[str] | None = None, *others: Any, **settings: Any) -> Any:
        """Run the command line like click, but always end the process with a documented exit code."""
        prepare_process()
        _open_closed_streams()
        if "planner.documents.files" in sys.modules:  # not the first command of this process
            from planner.documents.files import forget_read

            forget_read()
        given = list(sys.argv[1:] if args is None else args)
        settings = {"prog_name": "planner", **settings, "standalone_mode": False}
        inner = super().main
        try:
            code = inner(given, *others, **settings)
        except SystemExit:
            raise
        except BaseException as error:
            code = _ending(error, as_json="--json" in given)
        sys.exit(code if isinstance(code, int) else 0)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; a closed pipe has an exit code of its own."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:  # click would exit 1
            ctx.exit(_unwritten(error))


class ListGroup(click.Group):
    """A group that runs `list` if no subcommand is given."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Insert `list` before options that follow the name of the group."""
        asks_help = bool(args) and args[0] in ctx.help_option_names
        if not args or (args[0].startswith("-") and not asks_help):
            args = ["list", *args]
        return super().parse_args(ctx, args)


def _open_closed_streams() -> None:
    """Give a standard stream that is closed a file, which no file opened later can then be mistaken for.

    That of standard output is open for reading only, so that writing the answer fails.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, os.O_WRONLY if name == "stderr" else os.O_RDONLY)
            setattr(sys, name, os.fdopen(opened, mode))


def _ending(error: BaseException, as_json: bool) -> int:
    """Return the exit code of an error and report it, also where standard output cannot take the report."""
    try:
        return _code_of(error, as_json)
    except (OSError, UnicodeEncodeError) as unwritten:
        return _unwritten(unwritten)


def _unwritten(error: OSError | UnicodeEncodeError) -> int:
    """Return the exit code of output that could not be written; all but a closed pipe has a message."""
    with contextlib.suppress(OSError):
        # Python flushes again at exit and needs a file that takes it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if isinstance(error, BrokenPipeError):
        return BROKEN_PIPE
    if isinstance(error, UnicodeEncodeError):
        why = f"{error.encoding} has no {error.object[error.start]!a}; set PYTHONIOENCODING=utf-8"
    else:
        why = (error.strerror or str(error)).lower()
    show(f"standard output cannot be written: {why}", err=True)
    return INTERNAL_ERROR


def _code_of(error: BaseException, as_json: bool) -> int:
    """Print the message of an error and return its exit code."""
    if isinstance(error, click.exceptions.Exit):
        return error.exit_code
    if isinstance(error, InputError):
        return _bad_input(error.faults, as_json)
    if isinstance(error, click.exceptions.NoArgsIsHelpError) and not as_json:
        error.show()
        return BAD_INPUT
    if isinstance(error, click.ClickException):
        if as_json:
            context = getattr(error, "ctx", None)
            fix = f"see {context.command_path if context else 'planner'} --help"
            usage = InputError([Fault("command line", 0, "", error.format_message(), fix)])
            return _bad_input(usage.faults, as_json)
        click.UsageError(printable(error.format_message()), getattr(error, "ctx", None)).show()
        return BAD_INPUT
    if isinstance(error, (click.Abort, KeyboardInterrupt)):
        show("interrupted", err=True)
        return INTERRUPTED
    if isinstance(error, UnicodeEncodeError) or (isinstance(error, OSError) and error.filename is None):
        return _unwritten(error)
    if os.environ.get(DEBUG):
        raise error
    if isinstance(error, PlannerError):
        show(str(error), err=True)
        return NO_PLAN if isinstance(error, NoPlanError) else INTERNAL_ERROR
    what = " ".join(f"{type(error).__name__}: {error}".split())
    show(f"internal error: {what}; set {DEBUG}=1 to see the traceback", err=True)
    return INTERNAL_ERROR


def _bad_input(faults: Sequence[Fault], as_json: bool) -> int:
    if as_json:
        write_json({"status": "error", "errors": [fault._asdict() for fault in faults]})
    else:
        for fault in faults:
            show(str(fault), err=True)
    return BAD_INPUT
