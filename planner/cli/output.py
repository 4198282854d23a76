"""How a command starts, what it prints and writes, what only a terminal gets, errors as exit codes."""

from __future__ import annotations

import atexit
import collections
import contextlib
import gc
import itertools
import os
import shlex
import sys
import textwrap
import threading
import time
from collections import UserDict
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from planner.errors import Fault, InputError, NoPlanError, PlannerError, printable
from planner.watch import CallProgress, watched

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pydantic import BaseModel
    from rich.progress import Progress


def prepare_process() -> None:
    """Set up the process for a short command; what the environment sets already stays."""
    # The library and the offers make hundreds of thousands of objects that live to the end: scanning them for
    # garbage again and again takes a tenth of a short command.
    gc.set_threshold(200_000, 20, 20)
    # For the same reason Python is not to look for garbage among them when the process ends.
    atexit.register(gc.freeze)
    # Products of matrices are small here: starting more threads for them costs a short command a tenth of its CPU.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


# What only a terminal gets: colour, and progress on standard error.


QUIET_SECONDS = 1.0
"""Work shorter than this shows nothing."""


def wants_color() -> bool:
    """Return whether standard output is a terminal whose user has not refused colour."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def count_columns() -> int:
    """Return the columns of standard output: what COLUMNS says, in a pipe too, else those of the terminal, else 80."""
    told = os.environ.get("COLUMNS", "")
    if told.isdecimal() and len(told) < 6:
        return int(told)
    with contextlib.suppress(OSError, ValueError):  # no file behind it
        return os.get_terminal_size(sys.stdout.fileno()).columns
    return 80


class ProgressLine:
    """A line on the terminal from the first second of work on: what is done, how much of it, and the elapsed time."""

    def __init__(self, work: str) -> None:
        self._what, self._began = printable(work), time.monotonic()
        self._lock, self._ended, self._done = threading.Lock(), False, 0
        self._shown: Progress | None = None
        self._total: int | None = None
        self._timer = threading.Timer(QUIET_SECONDS, self._show)
        self._timer.daemon = True
        self._timer.start()

    def _show(self) -> None:
        """Put the line on the terminal; rich is loaded here because most commands end before."""
        from rich.console import Console
        from rich.markup import escape
        from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Line

        with self._lock:
            if self._ended:
                return
            counts = (BarColumn(bar_width=30), MofNCompleteColumn()) if self._total else ()
            columns = (SpinnerColumn(), TextColumn("{task.description}"), *counts, TimeElapsedColumn())
            console = Console(stderr=True, no_color=not wants_color())
            self._shown = Line(*columns, console=console, transient=True, get_time=time.monotonic)
            task = self._shown.add_task(escape(self._what), total=self._total, completed=self._done)
            self._shown.tasks[task].start_time = self._began
            self._shown.start()

    def update(self, done: int, total: int) -> None:
        """Show how much is done."""
        with self._lock:
            is_new, self._done, self._total = self._total is None, done, total
            if self._shown is None:
                return
            if not is_new:
                self._shown.update(self._shown.task_ids[0], completed=done, total=total)
                return
            self._shown.stop()  # the line gets a bar
        self._show()

    def end(self) -> None:
        """Take the line off the terminal."""
        self._timer.cancel()
        with self._lock:
            self._ended = True
            if self._shown is not None:
                self._shown.stop()


@contextlib.contextmanager
def show_progress(work: str, counts: bool = False) -> Iterator[Callable[[int, int], None] | None]:
    """Show work that takes longer than a second on the terminal; nothing if messages go to a file.

    Yields what shows how much is done, `(done, total)`; None where nothing is shown. With `counts` the command calls
    it; else the line shows how many of several jobs are prepared.
    """
    if not sys.stderr.isatty():
        yield None
        return
    line = ProgressLine(work)

    def follow(progress: CallProgress) -> None:
        if progress.of > 1 and not counts:
            line.update(progress.done, progress.of)

    try:
        with watched(progress=follow):
            yield line.update
    finally:
        line.end()


# What a command prints and writes: text or JSON on standard output, files replaced as a whole.


STANDARD_OUTPUT = ("-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")
"""Paths that mean standard output."""


SAVING, TYPED = "planner.saving", "planner.typed"
"""Keys of the running command's context: the command that saves its question, where options asked it; its words."""
READ = "planner.read"
"""Key of the running command's context: lines on the configuration of a training tool that it read."""


@dataclass(frozen=True)
class Output:
    """Where the answer of a command goes: text or JSON on standard output, a picture and a file if asked for."""

    as_json: bool
    plot: str | None = None
    path: str | None = None

    def check(self) -> None:
        """Refuse a file that cannot be written before the answer is computed."""
        from planner.documents.files import check_writable

        for path in self._files():
            check_writable(path)
        self._check_apart()
        if self.plot is not None:
            from planner.report.any_result import PLOT_SUFFIXES, check_picture

            check_picture(self.plot, PLOT_SUFFIXES)

    def _files(self) -> list[str]:
        """Return the files that are written."""
        return [path for path in (self.path, self.plot) if path is not None and path not in STANDARD_OUTPUT]

    def _check_apart(self) -> None:
        """Refuse a file that the command has read, and one file for both the answer and its picture."""
        from planner.documents.files import check_unread

        for path in self._files():
            check_unread(path)
        if len({os.path.realpath(path) for path in self._files()}) < len(self._files()):
            raise InputError([Fault(self.path or "", 0, "", "is both the answer and its picture", "name two files")])

    def write(
        self,
        answer: BaseModel,
        render: Callable[[Any], str],
        draw: Callable[[Any, str, Sequence[str]], None] | None = None,
        document: Callable[[Any], str] | None = None,
        color: bool = False,
    ) -> None:
        """Print the answer, and write and draw it; a document that goes to standard output replaces the text there.

        Parameters
        ----------
        answer
            The typed result of a command.
        render
            Returns the text of the answer.
        draw
            Draws the answer into a file with the lines of the text as caption; None if there is nothing to draw.
        document
            Returns what the file is to hold; None if there is nothing to write.
        color
            Mark the summary and the labels where a terminal shows the text.
        """
        self._check_apart()
        written = document(answer) if self.path is not None and document is not None else None
        if written is not None and self.path is not None and self.path not in STANDARD_OUTPUT:
            from planner.documents.files import write_text_atomically

            write_text_atomically(self.path, written)
        text = "" if self.as_json and self.plot is None else _rendered(answer, render)
        self._show_read()
        if self.plot is not None and draw is not None:
            with silent_matplotlib():
                draw(answer, self.plot, text.splitlines())
        if written is not None and self.path in STANDARD_OUTPUT:
            show(written.removesuffix("\n"))
        elif self.as_json:
            write_json(answer.model_dump(mode="json", by_alias=True))
        else:
            show(text, color=color)
            context = click.get_current_context(silent=True)
            if context is not None and SAVING in context.meta:
                show(f"\nTo keep this question: {context.meta[SAVING]}")

    def _show_read(self) -> None:
        """Print what was read of a configuration: above the text, or on standard error where that is a document."""
        context = click.get_current_context(silent=True)
        lines = context.meta.get(READ, ()) if context is not None else ()
        is_document = self.as_json or self.path in STANDARD_OUTPUT
        for line in lines:
            show("\n".join(_wrapped(line)), err=is_document)
        if lines and not is_document:
            show("")


def draw_answer(answer: Any, path: str, caption: Sequence[str]) -> None:
    """Draw an answer into a file; what draws is loaded only where a picture is asked for."""
    from planner.report.any_result import draw_file

    draw_file(answer, path, caption)


def _wrapped(line: str) -> list[str]:
    """Return a line of what was read, in the width of standard output."""
    indent = "  " * bool(line[:1] == " ")
    return textwrap.wrap(line.strip(), count_columns() - 2, initial_indent=indent, subsequent_indent=indent + "  ")


def _rendered(answer: Any, render: Callable[[Any], str]) -> str:
    """Return the text of an answer, as wide as standard output."""
    from planner.report.words import BLOCKS, text_width, without_blocks

    try:
        BLOCKS.encode(sys.stdout.encoding or "ascii")
        blocks: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
    except (UnicodeEncodeError, LookupError):
        blocks = without_blocks()
    with text_width(count_columns()), blocks:
        return render(answer)


@contextlib.contextmanager
def silent_matplotlib() -> Iterator[None]:
    """Keep to itself what matplotlib says about its folders, the fonts and an unknown MPLBACKEND."""
    import logging
    import warnings

    os.environ["MPLBACKEND"] = "agg"
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    with warnings.catch_warnings(action="ignore"):
        yield


def show(text: str, err: bool = False, color: bool = False) -> None:
    """Print text of which nothing acts on the terminal but the line breaks, and the colours if asked for.

    A message that standard error cannot take is dropped: the exit code says as much.
    """
    lines = [printable(line) for line in text.split("\n")]
    if color and wants_color():
        from planner.report.plan_text import colorize

        lines = colorize(lines)
    with contextlib.suppress(OSError) if err else contextlib.nullcontext():
        click.echo("\n".join(lines), err=err)


def asked_again(command: str, leaves_out: Mapping[str, int] | None = None) -> str:
    """Return the command that asks another one of the question just typed; empty where it came from standard input.

    Parameters
    ----------
    command
        Its name.
    leaves_out
        Options that it does not take, with the number of words that follow each.
    """
    context = click.get_current_context(silent=True)
    typed = context.meta.get(TYPED, ()) if context is not None else ()
    if not typed or "-" in typed:
        return ""
    return shlex.join(["planner", command, *without_options(typed[1:], leaves_out or {})])


def without_options(typed: Sequence[str], leaves_out: Mapping[str, int]) -> list[str]:
    """Return the words of a command without some options; `leaves_out` has the number of words that follow each."""
    words, kept = iter(typed), []
    for word in words:
        name, equals, _ = word.partition("=")
        if name not in leaves_out:
            kept.append(word)
        elif not equals:
            collections.deque(itertools.islice(words, leaves_out[name]), maxlen=0)
    return kept


def show_next(*commands: str) -> None:
    """Print the commands to go on with, below an answer."""
    if any(commands):
        show("\n".join(["", *filter(None, commands)]))


def write_either(as_json: bool, document: Any, render: Callable[[Any], str]) -> None:
    """Print a document as JSON, or as the text that `render` makes of it."""
    if as_json:
        write_json(document)
    else:
        show(_rendered(document, render))


def write_json(document: Any) -> None:
    """Print one JSON document on standard output."""
    from planner.documents.tables import json_text

    show(json_text(document))


# Exit codes, and errors as messages.


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

    def make_context(self, info_name: str | None, args: list[str], *others: Any, **extra: Any) -> click.Context:
        """Return the context, which remembers what was typed."""
        typed = tuple(args)  # parsing takes them out of the list
        context = super().make_context(info_name, args, *others, **extra)
        context.meta[TYPED] = typed
        return context

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
    text = " ".join(f"{type(error).__name__}: {error}".split())
    show(f"internal error: {text}; set {DEBUG}=1 to see the traceback", err=True)
    return INTERNAL_ERROR


def _bad_input(faults: Sequence[Fault], as_json: bool) -> int:
    if as_json:
        write_json({"status": "error", "errors": [fault._asdict() for fault in faults]})
    else:
        for fault in faults:
            show(str(fault), err=True)
    return BAD_INPUT
