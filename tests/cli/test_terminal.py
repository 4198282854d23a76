"""Progress on a terminal: nothing in the first second, then what is done with its elapsed time; nothing in a pipe."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def on_terminal(script: str) -> str:
    """Return what a script writes to a terminal, standard error included."""
    process, terminal = pty.fork()
    if process == 0:
        os.chdir(ROOT)
        os.execv(sys.executable, [sys.executable, "-c", textwrap.dedent(script)])
    shown = b""
    while True:
        try:
            part = os.read(terminal, 65536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        shown += part
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0, shown.decode()
    return shown.decode()


WORK = """
    import sys
    from types import SimpleNamespace
    from planner.cli import output

    now, waiting = 0.0, []

    class Timer:  # of a clock that `work_for` alone moves
        def __init__(self, seconds, action):
            self.due, self.action = now + seconds, action
        def start(self):
            waiting.append(self)
        def cancel(self):
            waiting.clear()

    def work_for(seconds):
        global now
        now += seconds
        for timer in [timer for timer in waiting if timer.due <= now]:
            waiting.remove(timer)
            timer.action()

    output.time = SimpleNamespace(monotonic=lambda: now)
    output.threading = SimpleNamespace(Timer=Timer, Lock=output.threading.Lock)
    with output.show_progress("solving [bold]x") as count:
        {work}
    print("end", "rich" in sys.modules)
"""


def test_work_of_less_than_a_second_shows_nothing_and_loads_nothing() -> None:
    """The line would only flicker."""
    assert on_terminal(WORK.format(work="work_for(0.9)")).strip() == "end False"


@pytest.mark.slow
def test_longer_work_shows_its_name_and_the_elapsed_time_and_is_erased() -> None:
    """Time counts from the beginning, and markup in names is text."""
    shown = on_terminal(WORK.format(work="work_for(1.8)"))
    assert "solving [bold]x" in shown
    assert "0:00:01" in shown
    assert "0:00:00" not in shown
    assert shown.rindex("\x1b[2K") > shown.rindex("solving")
    assert shown.strip().endswith("end True")


@pytest.mark.slow
def test_counts_are_a_bar() -> None:
    """Counted before the line is there, and after."""
    shown = on_terminal(WORK.format(work="count(1, 4); work_for(1.5); count(3, 4); work_for(0.5)"))
    assert "1/4" in shown
    assert "3/4" in shown
    late = on_terminal(WORK.format(work="work_for(1.5); count(3, 4); work_for(0.5)"))
    assert "3/4" in late


def test_a_pipe_gets_no_progress() -> None:
    """Neither a line nor the package."""
    script = textwrap.dedent(WORK.format(work="work_for(1.2); assert count is None"))
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("end False\n", "")
